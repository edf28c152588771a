/* The table of verbs, and the options they share. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/base/json.h"
#include "sluice/base/mem.h"
#include "sluice/cmd/command.h"

/* Of verbs that look at a cluster. */
#define CLUSTER_OPTIONS                                                                                                \
    "  --kubeconfig  how to reach the cluster (default, as with kubectl: the files of $KUBECONFIG, else "              \
    "~/.kube/config, else the pod's own account)\n"                                                                    \
    "  --context     which of its contexts (default: the current one)\n"

const struct sl_command sl_commands[] = {
    {"manager", "run the quota manager and its webhooks",
     "sluice manager [OPTION...]\n\n"
     "  --config FILE             configuration in Kueue's format\n"
     "  --kubeconfig FILE         how to reach the API server (default: the pod's own account)\n"
     "  --namespace NAME          where lease, Secret and Service are (default: $POD_NAMESPACE)\n"
     "  --host ADDRESS            what to listen on (default: every address)\n"
     "  --webhook-port N, --health-port N, --metrics-port N\n"
     "                            -1 switches health or metrics off\n"
     "  --metrics-plain-http      metrics without TLS and without tokens\n"
     "  --metrics-anonymous       metrics without tokens\n"
     "  --webhook-service NAME, --webhook-secret NAME\n"
     "                            Service in the certificate, Secret that holds it\n"
     "  --mutating-configuration NAME, --validating-configuration NAME\n"
     "                            where to write the CA bundle\n"
     "  --data-dir DIR            where the ledger is (default: no history)\n"
     "  --identity NAME           name in the lease (default: the pod's)\n"
     "  --feature-gates LIST      Kueue's gates\n"
     "  --drain TIME              how long to go on answering after a signal to stop (default: 10s)\n"
     "  --ca-life TIME, --serving-life TIME\n"
     "                            of certificates that are made (default: 10 years, 1 year)\n"
     "  --publish-wait TIME       how long a new CA is published before it signs (default: 10m)\n"
     "  --log-level LEVEL         error, warn, info or debug (default: info)",
     sl_cmd_manager},
    {"simulate", "play manifests or decision scenarios without a cluster",
     "sluice simulate PATH... [--config FILE] [--run-time 10m] [--until 24h] [-o text|json|yaml]\n"
     "sluice simulate --scenario FILE [--config FILE] [--check] [-o json|yaml]\n\n"
     "  PATH        a manifest, a folder of them (in the order of their names), or - for standard input\n"
     "  --config    the manager's configuration (default: what the manager has without one)\n"
     "  --run-time  how long a job runs, on a virtual clock\n"
     "  --until     when the story ends; manifests whose turn would come later are not played\n"
     "  --scenario  decision scenarios instead of manifests, one a line; --check compares with what they expect\n"
     "  -o json     an object a line; -o yaml: a document each",
     sl_cmd_simulate},
    {"lint", "check manifests with the rules of the webhooks",
     "sluice lint PATH... [-o text|json|yaml]\n\n"
     "  PATH     a manifest, a folder of them, or - for standard input; kinds that Sluice does not know are passed "
     "over\n"
     "  -o json  an object a line; -o yaml: a document each",
     sl_cmd_lint},
    {"explain", "say why a workload waits",
     "sluice explain [-n NAMESPACE] WORKLOAD|job/NAME [--kubeconfig FILE] [--context NAME] [--config FILE] [-o "
     "text|json|yaml]\n"
     "sluice explain [-n NAMESPACE] WORKLOAD|job/NAME --simulate PATH [--config FILE] [-o text|json|yaml]\n\n"
     "  -n            the namespace (default: that of the context)\n" CLUSTER_OPTIONS
     "  --simulate    instead of a cluster, manifests: the moment when all are created and nothing has finished",
     sl_cmd_explain},
    {"status", "show queues, what they use and how many wait",
     "sluice status [--kubeconfig FILE] [--context NAME] [--config FILE] [-o text|json|yaml]\n"
     "sluice status --simulate PATH [--config FILE] [-o text|json|yaml]\n\n" CLUSTER_OPTIONS
     "  --simulate    instead of a cluster, manifests: the moment when all are created and nothing has finished",
     sl_cmd_status},
    {"history", "show who took and returned quota",
     "sluice history --data-dir DIR [--queue NAME] [--namespace NS] [--limit 100] [-o text|json|yaml]\n"
     "sluice history --data-dir DIR --gpu-time [-o text|json|yaml]\n\n"
     "  --data-dir  the ledger's folder, on the machine or in the pod of the manager; newest entries come first\n"
     "  --gpu-time  GPU hours of each ClusterQueue, flavor and resource instead\n"
     "  -o json     an object a line; -o yaml: a document each",
     sl_cmd_history},
    {"check", "ask a running manager whether it is well", "sluice check --url http://HOST:PORT/readyz", sl_cmd_check},
    {"verify", "check from inside whether an installation is whole",
     "sluice verify [-n NAMESPACE] [--timeout 60s] [--kubeconfig FILE] [--context NAME] [--lease NAME]\n"
     "              [--webhook-service NAME] [--webhook-secret NAME] [--mutating-configuration NAME] "
     "[--validating-configuration NAME]\n\n" CLUSTER_OPTIONS
     "  -n            where the manager is (default: sluice-system)",
     sl_cmd_verify},
    {"version", "print the version", "sluice version", sl_cmd_version},
    {NULL, NULL, NULL, NULL},
};

int sl_cmd_version(int argc, char **argv) {
    (void)argc;
    (void)argv;
    printf("sluice %s\n", SL_VERSION);
    return SL_EXIT_OK;
}

static const struct sl_option *find(const struct sl_option *options, const char *name, size_t len) {
    for (; options->name; options++)
        if ((strlen(options->name) == len && !strncmp(options->name, name, len)) ||
            (len == 1 && options->short_name == name[0]))
            return options;
    return NULL;
}

int sl_options(int argc, char **argv, const struct sl_option *options, const char ***ret_args) {
    const char **args = sl_xalloc(((size_t)argc + 1) * sizeof *args);
    int n = 0;
    bool only_args = false;
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (only_args || a[0] != '-' || !a[1]) {
            args[n++] = a;
            continue;
        }
        if (!strcmp(a, "--")) {
            only_args = true;
            continue;
        }
        const char *name = a + (a[1] == '-' ? 2 : 1), *equals = strchr(name, '=');
        size_t len = equals ? (size_t)(equals - name) : strlen(name);
        const struct sl_option *o = find(options, name, len);
        if (!o) {
            sl_cmd_misuse(argv[0], "unknown option %s", a);
            free(args);
            return -1;
        }
        if (!o->value) {
            if (equals && strcmp(equals + 1, "true") && strcmp(equals + 1, "false")) {
                sl_cmd_misuse(argv[0], "--%s takes no value", o->name);
                free(args);
                return -1;
            }
            *o->flag = !equals || !strcmp(equals + 1, "true");
            continue;
        }
        if (!equals && i + 1 >= argc) {
            sl_cmd_misuse(argv[0], "--%s needs a value", o->name);
            free(args);
            return -1;
        }
        *o->value = equals ? equals + 1 : argv[++i];
    }
    *ret_args = args;
    return n;
}
