/* The configuration file: defaults, every field, both versions, faults with their paths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/api/config.h"
#include "sluice/base/file.h"
#include "sluice/base/mem.h"
#include "sluice/base/yaml.h"
#include "golden.h"

#define HEAD2 "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
#define HEAD1 "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\n"

static struct sl_config parse(const char *text) {
    struct sl_config c;
    char *message = NULL;
    if (sl_config_parse_text(text, strlen(text), &c, &message, NULL) < 0)
        fail_msg("%s", message);
    return c;
}

static void config__defaults(void **s) {
    (void)s;
    struct sl_config c = parse(HEAD2);
    assert_false(c.manage_without_queue_name || c.has_managed_namespaces || c.fair_sharing || c.ignore_undeclared ||
                 c.cluster_queue_metrics);
    assert_int_equal(c.frameworks.n, 1);
    assert_string_equal(c.frameworks.items[0], "batch/job");
    assert_true(c.pods_ready.enabled && !c.pods_ready.block_admission && !c.pods_ready.timestamp_creation);
    assert_int_equal(c.pods_ready.timeout_ms, 1800000);
    assert_int_equal(c.pods_ready.recovery_timeout_ms, 1800000);
    assert_int_equal(c.pods_ready.backoff_limit, -1);
    assert_int_equal(c.pods_ready.backoff_base_s, 60);
    assert_int_equal(c.pods_ready.backoff_max_s, 3600);
    assert_int_equal(c.retain_finished_ms, -1);
    assert_int_equal(c.retain_deactivated_ms, -1);
    assert_int_equal(c.webhook.port, 9443);
    assert_string_equal(c.health_address, ":8081");
    assert_string_equal(c.metrics_address, ":8443");
    assert_true(c.leader.enabled && c.certs.enabled && c.local_queue_metrics);
    assert_int_equal(c.leader.lease_ms, 15000);
    assert_string_equal(c.leader.name, "c1f6bfd2.kueue.x-k8s.io");
    assert_string_equal(c.certs.service, "kueue-webhook-service");
    assert_true(c.client_qps > 299 && c.client_qps < 301 && c.client_burst == 500);
    assert_string_equal(c.shm.size, "auto");
    assert_int_equal(c.shm.max_bytes, (int64_t)64 << 30);
    assert_int_equal(c.shm.max_without_limits_bytes, (int64_t)32 << 30);
    sl_config_done(&c);
}

static void config__every_field(void **s) {
    (void)s;
    struct sl_config c = parse(
        HEAD2
        "namespace: gpu-system\n"
        "manageJobsWithoutQueueName: true\n"
        "managedJobsNamespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, "
        "values: [kube-system, gpu-system]}]}\n"
        "integrations: {frameworks: [batch/job, pod], externalFrameworks: [Foo.v1.example.com], labelKeysToCopy: "
        "[team, a.io/b]}\n"
        "waitForPodsReady: {timeout: 6s, recoveryTimeout: 0s, blockAdmission: true, requeuingStrategy: "
        "{timestamp: Creation, backoffLimitCount: 0, backoffBaseSeconds: 1, backoffMaxSeconds: 4}}\n"
        "objectRetentionPolicies: {workloads: {afterFinished: 0s, afterDeactivatedByKueue: 1h30m}}\n"
        "resources:\n"
        "  excludeResourcePrefixes: [example.com/ignored]\n"
        "  transformations:\n"
        "  - {input: nvidia.com/mig-1g.5gb, strategy: Replace, multiplyBy: replicas, outputs: "
        "{example.com/accelerator-memory: 5Gi, example.com/credits: 10}}\n"
        "  - {input: nvidia.com/gpu, outputs: {example.com/credits: 0.5}}\n"
        "fairSharing: {preemptionStrategies: [LessThanOrEqualToFinalShare, LessThanInitialShare]}\n"
        "webhook: {port: 1, host: 127.0.0.1, certDir: /certs}\n"
        "health: {healthProbeBindAddress: ':1'}\n"
        "metrics: {bindAddress: '0', enableClusterQueueResources: true, localQueueMetrics: {enable: false}}\n"
        "leaderElection: {leaderElect: false, resourceName: l, resourceNamespace: n, leaseDuration: 3s, "
        "renewDeadline: 2s, retryPeriod: 500ms, resourceLock: leases}\n"
        "internalCertManagement: {enable: false, webhookServiceName: s, webhookSecretName: t}\n"
        "clientConnection: {qps: 12.5, burst: 7}\n"
        "visibilityServer: {bindAddress: '::1', bindPort: 9}\n"
        "featureGates: {A: true, B: false}\n"
        "controller: {groupKindConcurrency: {Job.batch: 5}}\n"
        "multiKueue: {origin: x}\n"
        "tls: {minVersion: VersionTLS13}\n"
        "sluice: {shm: {size: '25%', scope: gpu, mode: template, max: 10Gi, maxWithoutLimits: 1Gi}, gpuResources: "
        "[acme.com/npu, 'acme.com/gpu-*'], ledger: {path: /l, maxSize: 2Gi, historyKeep: 1h}}\n");
    assert_string_equal(c.namespace, "gpu-system");
    assert_true(c.manage_without_queue_name && c.has_managed_namespaces && c.managed_namespaces.n == 1);
    assert_int_equal(c.frameworks.n, 2);
    assert_string_equal(c.external_frameworks.items[0], "Foo.v1.example.com");
    assert_string_equal(c.label_keys_to_copy.items[1], "a.io/b");
    assert_true(c.pods_ready.timeout_ms == 6000 && c.pods_ready.recovery_timeout_ms == 0 &&
                c.pods_ready.block_admission);
    assert_true(c.pods_ready.timestamp_creation && c.pods_ready.backoff_limit == 0 && c.pods_ready.backoff_max_s == 4);
    assert_true(c.retain_finished_ms == 0 && c.retain_deactivated_ms == 5400000);
    assert_string_equal(c.exclude_resource_prefixes.items[0], "example.com/ignored");
    assert_int_equal(c.n_transformations, 2);
    assert_true(c.transformations[0].replace && !c.transformations[1].replace);
    assert_string_equal(c.transformations[0].multiply_by, "replicas");
    assert_null(c.transformations[1].multiply_by);
    assert_int_equal(sl_quantity_amount(&c.transformations[0].outputs[0].factor, "x"), (int64_t)5 << 30);
    assert_int_equal(sl_quantity_amount(&c.transformations[1].outputs[0].factor, "cpu"), 500);
    assert_true(c.fair_sharing && c.fair_final_share && c.fair_initial_share);
    assert_true(c.webhook.port == 1 && !strcmp(c.webhook.cert_dir, "/certs"));
    assert_true(c.cluster_queue_metrics && !c.local_queue_metrics && !c.leader.enabled && !c.certs.enabled);
    assert_true(c.leader.lease_ms == 3000 && c.leader.retry_ms == 500);
    assert_true(c.client_qps > 12.4 && c.client_qps < 12.6 && c.client_burst == 7);
    assert_true(sl_config_gate(&c, "A", false) && !sl_config_gate(&c, "B", true) && sl_config_gate(&c, "C", true));
    assert_true(!strcmp(c.shm.size, "25%") && c.shm.max_bytes == (int64_t)10 << 30);
    assert_string_equal(c.gpu_resources.items[1], "acme.com/gpu-*");
    assert_true(!strcmp(c.ledger_path, "/l") && c.history_keep_ms == 3600000);
    /* what is taken and does nothing is named */
    static const char *const unused[] = {"visibilityServer.bindAddress", "visibilityServer.bindPort", "controller",
                                         "multiKueue", "tls"};
    assert_int_equal(c.unused.n, SL_COUNT(unused));
    for (size_t i = 0; i < c.unused.n; i++)
        assert_string_equal(c.unused.items[i], unused[i]);
    sl_config_done(&c);
}

static void config__v1beta1(void **s) {
    (void)s;
    struct sl_config c = parse(HEAD1 "queueVisibility: {}\nintegrations: {podOptions: {}}\n");
    assert_false(c.pods_ready.enabled || c.fair_sharing);
    sl_config_done(&c);
    c = parse(HEAD1 "waitForPodsReady: {enable: true}\nfairSharing: {enable: true}\n");
    assert_true(c.pods_ready.enabled && c.pods_ready.block_admission && c.pods_ready.timeout_ms == 300000 &&
                c.pods_ready.recovery_timeout_ms == 0);
    assert_true(c.fair_sharing && c.fair_final_share && c.fair_initial_share);
    sl_config_done(&c);
    c = parse(HEAD1
              "waitForPodsReady: {enable: true, blockAdmission: false, timeout: 1m}\nfairSharing: {enable: false}\n");
    assert_true(!c.pods_ready.block_admission && c.pods_ready.timeout_ms == 60000 && !c.fair_sharing);
    sl_config_done(&c);
}

static void config__gates(void **s) {
    (void)s;
    struct sl_config c = parse(HEAD2 "featureGates: {DisableWaitForPodsReady: true}\n");
    assert_false(c.pods_ready.enabled);
    struct sl_err err = SL_ERR_INIT;
    assert_int_equal(sl_config_set_gates(&c, "A=true", &err), SL_INVALID);
    assert_int_equal(sl_config_set_gates(&c, "", &err), 0);
    sl_config_done(&c);
    c = parse(HEAD2);
    assert_int_equal(sl_config_set_gates(&c, "A=true,DisableWaitForPodsReady=true,B=false", &err), 0);
    assert_true(sl_config_gate(&c, "A", false) && !sl_config_gate(&c, "B", true) && !c.pods_ready.enabled);
    sl_config_done(&c);
    static const char *const bad[] = {"A", "A=yes", "=true", "A=true,", ",A=true"};
    for (size_t i = 0; i < SL_COUNT(bad); i++) {
        c = parse(HEAD2);
        assert_int_equal(sl_config_set_gates(&c, bad[i], &err), SL_INVALID);
        assert_int_equal(c.n_gates, 0);
        sl_config_done(&c);
    }
}

static void config__faults_have_paths(void **s) {
    (void)s;
    static const struct {
        const char *text, *message;
    } rows[] = {
        {HEAD2 "surprise: 1\n", "surprise: Unknown field"},
        {HEAD2 "waitForPodsReady: {enable: true}\n", "waitForPodsReady.enable: Unknown field"},
        {HEAD1 "resources: {quotaCheckStrategy: BlockUndeclared}\n", "resources.quotaCheckStrategy: Unknown field"},
        {HEAD1 "visibilityServer: {bindPort: 1}\n", "visibilityServer: Unknown field"},
        {HEAD2 "webhook: {prot: 1}\n", "webhook.prot: Unknown field"},
        {HEAD2 "webhook: 5\n", "webhook: Invalid value: 5: must be an object"},
        {HEAD2 "webhook.port: 5\n", "webhook.port: Unknown field"},
        {HEAD2 "webhook: {port: 70000}\n", "webhook.port: Invalid value: 70000: must be between 0 and 65535"},
        {HEAD2 "webhook: {port: '1'}\n", "webhook.port: Invalid value: \"1\": must be an integer"},
        {HEAD2 "manageJobsWithoutQueueName: yes\n",
         "manageJobsWithoutQueueName: Invalid value: \"yes\": must be true or false"},
        {HEAD2 "waitForPodsReady: {timeout: -5s}\n",
         "waitForPodsReady.timeout: Invalid value: \"-5s\": must not be negative"},
        {HEAD2 "waitForPodsReady: {timeout: 5}\n", "waitForPodsReady.timeout: Invalid value: 5: must be a duration"},
        {HEAD2 "waitForPodsReady: {requeuingStrategy: {timestamp: Never}}\n",
         "waitForPodsReady.requeuingStrategy.timestamp: Unsupported value: \"Never\": supported values: \"Eviction\", "
         "\"Creation\""},
        {HEAD2 "waitForPodsReady: {requeuingStrategy: {backoffBaseSeconds: 9, backoffMaxSeconds: 4}}\n",
         "waitForPodsReady.requeuingStrategy.backoffBaseSeconds: Invalid value: 9"},
        {HEAD2 "waitForPodsReady: {requeuingStrategy: {backoffLimitCount: -1}}\n",
         "waitForPodsReady.requeuingStrategy.backoffLimitCount: Invalid value: -1"},
        {HEAD2 "integrations: {frameworks: [batch/jobs]}\n",
         "integrations.frameworks[0]: Unsupported value: \"batch/jobs\""},
        {HEAD2 "integrations: {frameworks: [batch/job, batch/job]}\n",
         "integrations.frameworks[1]: Duplicate value: \"batch/job\""},
        {HEAD2 "integrations: {externalFrameworks: [Foo]}\n",
         "integrations.externalFrameworks[0]: Invalid value: \"Foo\""},
        {HEAD2 "integrations: {labelKeysToCopy: ['a b']}\n", "integrations.labelKeysToCopy[0]: Invalid value: \"a b\""},
        {HEAD2 "integrations: {labelKeysToCopy: x}\n", "integrations.labelKeysToCopy: Invalid value: must be a list"},
        {HEAD2 "managedJobsNamespaceSelector: {}\n",
         "managedJobsNamespaceSelector: Invalid value: must not select kube-system"},
        {HEAD2 "managedJobsNamespaceSelector: {matchExpressions: [{key: a, operator: In}]}\n",
         "managedJobsNamespaceSelector.matchExpressions[0].values: Required value"},
        {HEAD2 "managedJobsNamespaceSelector: {matchlabels: {a: b}}\n",
         "managedJobsNamespaceSelector.matchlabels: Unknown field"},
        {HEAD2 "resources: {quotaCheckStrategy: IgnoreUndeclared, excludeResourcePrefixes: [a]}\n",
         "resources.excludeResourcePrefixes: Invalid value"},
        {HEAD2
         "resources: {transformations: [{input: a}, {input: a, strategy: Keep, outputs: {b: many}}, {outputs: 1}]}\n",
         "resources.transformations[1].input: Duplicate value: \"a\""},
        {HEAD2 "resources: {transformations: [{input: a, strategy: Keep}]}\n",
         "resources.transformations[0].strategy: Unsupported value: \"Keep\""},
        {HEAD2 "resources: {transformations: [{input: a, outputs: {b: many}}]}\n",
         "resources.transformations[0].outputs[b]: Invalid value"},
        {HEAD2 "resources: {transformations: [{output: a}]}\n", "resources.transformations[0].output: Unknown field"},
        {HEAD2 "fairSharing: {}\n", "fairSharing.preemptionStrategies: Required value"},
        {HEAD2 "fairSharing: {preemptionStrategies: [LessThanInitialShare, LessThanOrEqualToFinalShare]}\n",
         "fairSharing.preemptionStrategies: Invalid value"},
        {HEAD2 "fairSharing: {enable: true, preemptionStrategies: [LessThanInitialShare]}\n",
         "fairSharing.enable: Unknown field"},
        {HEAD2 "leaderElection: {leaseDuration: 5s}\n",
         "leaderElection.leaseDuration: Invalid value: must be longer than renewDeadline"},
        {HEAD2 "leaderElection: {retryPeriod: 0s}\n",
         "leaderElection.retryPeriod: Invalid value: \"0s\": must be positive"},
        {HEAD2 "leaderElection: {resourceLock: configmaps}\n",
         "leaderElection.resourceLock: Invalid value: \"configmaps\""},
        {HEAD2 "metrics: {bindAddress: '8443'}\n", "metrics.bindAddress: Invalid value: \"8443\""},
        {HEAD2 "clientConnection: {qps: -1}\n", "clientConnection.qps: Invalid value: -1"},
        {HEAD2 "featureGates: {A: 'true'}\n", "featureGates[A]: Invalid value: \"true\": must be true or false"},
        {HEAD2 "sluice: {shm: {size: 120%}}\n", "sluice.shm.size: Invalid value: \"120%\""},
        {HEAD2 "sluice: {shm: {max: lots}}\n", "sluice.shm.max: Invalid value: \"lots\""},
        {HEAD2 "sluice: {shm: {scope: node}}\n",
         "sluice.shm.scope: Unsupported value: \"node\": supported values: \"pod\", \"gpu\""},
        {HEAD2 "sluice: {ledger: {maxSize: 1Ki}}\n", "sluice.ledger.maxSize: Invalid value"},
        {HEAD2 "integrations: {labelKeysToCopy: [1]}\n",
         "integrations.labelKeysToCopy[0]: Invalid value: 1: must be a string"},
        {HEAD2 "clientConnection: {qps: fast}\n", "clientConnection.qps: Invalid value: \"fast\": must be a number"},
        {HEAD2 "webhook: {host: 5}\n", "webhook.host: Invalid value: 5: must be a string"},
        {HEAD2 "leaderElection: {resourceName: ''}\n",
         "leaderElection.resourceName: Invalid value: \"\": must have between 1 and 253 bytes"},
        {HEAD2 "leaderElection: {renewDeadline: 1s}\n",
         "leaderElection.renewDeadline: Invalid value: must be longer than retryPeriod"},
        {HEAD2 "resources: {quotaCheckStrategy: 5}\n", "resources.quotaCheckStrategy: Invalid value: must be a string"},
        {HEAD2 "resources: {transformations: {a: b}}\n", "resources.transformations: Invalid value: must be a list"},
        {HEAD2 "managedJobsNamespaceSelector: all\n",
         "managedJobsNamespaceSelector: Invalid value: \"all\": must be a label selector"},
        {HEAD2 "fairSharing: true\n", "fairSharing: Invalid value: true: must be an object"},
        {HEAD1 "fairSharing: {enable: 1}\n", "fairSharing.enable: Invalid value: 1"},
        {HEAD2 "featureGates: [A]\n", "featureGates: Invalid value: must be a map"},
        {HEAD2 "metrics: {customLabels: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21]}\n",
         "metrics.customLabels: Too many"},
        {HEAD2 "sluice: {shm: {size: -1Gi}}\n", "sluice.shm.size: Invalid value: \"-1Gi\""},
        {HEAD2 "namespace: Bad_\n", "namespace: Invalid value: \"Bad_\""},
        {"kind: Configuration\n", "apiVersion: Unsupported value: \"\""},
        {"apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Config\n", "kind: Unsupported value: \"Config\""},
        {"[]\n", "the configuration must be an object"},
        {HEAD2 "---\n" HEAD2, "one document, not 2"},
        {"a: [\n", "line"},
        {HEAD2 "kind: Configuration\n", "kind"},
    };
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        struct sl_config c;
        struct sl_err err = SL_ERR_INIT;
        char *message = NULL;
        assert_int_equal(sl_config_parse_text(rows[i].text, strlen(rows[i].text), &c, &message, &err), SL_INVALID);
        if (!strstr(message ? message : err.text, rows[i].message))
            fail_msg("%s\ngives: %s\nexpected: %s", rows[i].text, message ? message : err.text, rows[i].message);
        assert_int_equal(c.webhook.port, 9443); /* the defaults, whatever the file said */
        free(message);
        sl_config_done(&c);
    }
}

static void config__limits(void **s) {
    (void)s;
    struct sl_config c;
    char *message = NULL, *big = sl_xalloc((1 << 20) + 2);
    memset(big, '#', (1 << 20) + 1);
    assert_int_equal(sl_config_parse_text(big, (1 << 20) + 1, &c, &message, NULL), SL_TOO_BIG);
    assert_non_null(message);
    free(message);
    free(big);
    sl_config_done(&c);
    SL_AUTO_BUF text = SL_BUF_INIT(4096);
    sl_buf_puts(&text, HEAD2 "sluice: {gpuResources: [");
    for (int i = 0; i < 65; i++)
        sl_buf_printf(&text, "r%d, ", i);
    sl_buf_puts(&text, "]}\n");
    message = NULL;
    assert_int_equal(sl_config_parse_text(sl_buf_text(&text), text.len, &c, &message, NULL), SL_INVALID);
    assert_non_null(strstr(message, "sluice.gpuResources: Too many: 65: must have at most 64 items"));
    free(message);
    sl_config_done(&c);
    c = parse(HEAD2 "webhook: null\nwaitForPodsReady: {timeout: 0s}\nsluice: {shm: {size: 2Gi}}\n"); /* null is absent,
                                                                                                        0 the default */
    assert_int_equal(c.pods_ready.timeout_ms, 1800000);
    sl_config_done(&c);
}

static void config__all_faults_at_once(void **s) {
    (void)s;
    struct sl_config c;
    char *message = NULL;
    static const char text[] = HEAD2 "a: 1\nwebhook: {port: x}\nfairSharing: {}\n";
    assert_int_equal(sl_config_parse_text(text, strlen(text), &c, &message, NULL), SL_INVALID);
    assert_non_null(strstr(message, "a: Unknown field"));
    assert_non_null(strstr(message, "webhook.port"));
    assert_non_null(strstr(message, "fairSharing.preemptionStrategies"));
    free(message);
    sl_config_done(&c);
}

/* The configurations of the recorded stories. */
static void config__of_the_journeys(void **s) {
    (void)s;
    SL_AUTO_BUF text = SL_BUF_INIT(1 << 20);
    SL_AUTO_JSON *docs = NULL;
    assert_int_equal(sl_file_read(SL_SOURCE_DIR "/tests/journeys/configs.yaml", &text, NULL), 0);
    assert_int_equal(sl_yaml_parse(sl_buf_text(&text), text.len, false, &docs, NULL, NULL), 0);
    SL_JSON_EACH (sl_json_at(docs, 0), e) {
        SL_AUTO_JSON *document = sl_json_copy(e.value);
        sl_json_set_str(document, "apiVersion", "config.kueue.x-k8s.io/v1beta2");
        sl_json_set_str(document, "kind", "Configuration");
        struct sl_config c;
        char *message = NULL;
        if (sl_config_parse(document, &c, &message, NULL) < 0)
            fail_msg("%s: %s", e.key, message);
        sl_config_done(&c);
    }
}

/* docs/configuration.md ends with the table; SL_GOLDEN_UPDATE=1 writes it. */
static void config__reference(void **s) {
    (void)s;
    static const char path[] = SL_SOURCE_DIR "/docs/configuration.md";
    SL_AUTO_BUF out = SL_BUF_INIT(64 << 10), doc = SL_BUF_INIT(64 << 10), whole = SL_BUF_INIT(128 << 10);
    sl_config_reference(&out);
    assert_int_equal(sl_buf_check(&out, NULL), 0);
    assert_non_null(strstr(sl_buf_text(&out), "| `webhook.port` | integer | `9443` |"));
    assert_non_null(strstr(sl_buf_text(&out), "| `waitForPodsReady.enable` (v1beta1) |"));
    assert_non_null(strstr(sl_buf_text(&out), "| `tls` | object |  | accepted, without effect: "));
    assert_int_equal(sl_file_read(path, &doc, NULL), 0);
    const char *table = strstr(sl_buf_text(&doc), "| Field |");
    assert_non_null(table);
    sl_buf_add(&whole, sl_buf_text(&doc), (size_t)(table - sl_buf_text(&doc)));
    sl_buf_puts(&whole, sl_buf_text(&out));
    if (golden_updating())
        assert_int_equal(sl_file_write(path, sl_buf_text(&whole), whole.len, 0644, NULL), 0);
    else
        assert_string_equal(sl_buf_text(&doc), sl_buf_text(&whole));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(config__defaults),
        cmocka_unit_test(config__every_field),
        cmocka_unit_test(config__v1beta1),
        cmocka_unit_test(config__gates),
        cmocka_unit_test(config__faults_have_paths),
        cmocka_unit_test(config__all_faults_at_once),
        cmocka_unit_test(config__limits),
        cmocka_unit_test(config__of_the_journeys),
        cmocka_unit_test(config__reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
