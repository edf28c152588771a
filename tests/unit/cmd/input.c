/* Files that are not what they should be: each fault is named by file, line, document and path, and nothing is played.
 */
#include "verbs.h"

#include "sluice/base/json.h"

static int (*const readers[])(int, char **) = {sl_cmd_lint, sl_cmd_simulate};
static const char *const json_output[] = {"-o", "json", NULL};

static void assert_not_said(const char *text) {
    if (strstr(said, text))
        fail_msg("\"%s\" is in:\n%s", text, said);
}

/* Everything that was said is one JSON object with a member error. */
static void assert_one_error(const char *text) {
    SL_AUTO_JSON *o = NULL;
    struct sl_err err = SL_ERR_INIT;
    if (sl_json_parse(said, strcspn(said, "\n"), sizeof said, &o, &err) ||
        strchr(said, '\n') != said + strlen(said) - 1)
        fail_msg("%s: %s", err.text, said);
    if (!strstr(sl_json_get_str(o, "error", ""), text))
        fail_msg("\"%s\" is not in the error: %s", text, said);
}

#define QUEUES                                                                                                         \
    "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: f}}\n---\n"                           \
    "{apiVersion: kueue.x-k8s.io/v1beta2, kind: Cohort, metadata: {name: c}}\n---\n"

static void jobs_of_wrong_types(void **state) {
    (void)state;
    static const struct {
        const char *job, *said;
    } rows[] = {
        {"metadata: [1]\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: c}]}}}",
         "metadata: Invalid value: must be an"},
        {"metadata: {name: j}\nspec: x", "Job/j: spec: Invalid value: \"x\": must be an object"},
        {"metadata: {name: j}\nspec: {parallelism: x, template: {spec: {restartPolicy: Never, containers: [{name: "
         "c}]}}}",
         "spec.parallelism: Invalid value: \"x\": must be an integer between 0 and 2147483647"},
        {"metadata: {name: j}\nspec: {completions: 1.5, template: {spec: {restartPolicy: Never, containers: [{name: "
         "c}]}}}",
         "spec.completions: Invalid value: 1.5: must be an integer"},
        {"metadata: {name: j}\nspec: {parallelism: 3000000000, template: {spec: {restartPolicy: Never, containers: "
         "[{name: c}]}}}",
         "spec.parallelism: Invalid value: 3000000000: must be an integer between 0 and 2147483647"},
        {"metadata: {name: j}\nspec: {template: {spec: {restartPolicy: Never, containers: {name: c}}}}",
         "spec.template.spec.containers: Invalid value: must be an array"},
        {"metadata: {name: j}\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: c, resources: "
         "{requests: {cpu: -1}}}]}}}",
         "spec.template.spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\": must be greater than"},
        {"metadata: {name: j}\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: c, resources: "
         "{requests: {cpu: abc}}}]}}}",
         "spec.template.spec.containers[0].resources.requests[cpu]: Invalid value: \"abc\": must be a quantity"},
        {"metadata: {name: j}\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: c, resources: "
         "{limits: "
         "{nvidia.com/gpu: 1.5}}}]}}}",
         "spec.template.spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: \"1500m\": must be an int"},
        {"metadata: {name: j}\nspec: {template: {spec: {containers: [{name: c}]}}}",
         "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""},
        {"metadata: {name: No_name}\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: c}]}}}",
         "metadata.name: Invalid value: \"No_name\": a lowercase RFC 1123 subdomain must consist"},
    };
    for (size_t i = 0; i < SL_COUNT(rows); i++)
        for (size_t v = 0; v < SL_COUNT(readers); v++) {
            SL_AUTO_FREE char *text = sl_xprintf(QUEUES "apiVersion: batch/v1\nkind: Job\n%s\n", rows[i].job);
            assert_int_equal(run_on(readers[v], "a.yaml", text), SL_EXIT_WRONG);
            assert_said(strncmp(rows[i].said, "metadata", 8) ? "a.yaml:8: document 3: " : "a.yaml:7: document 3: ");
            SL_AUTO_FREE char *as_simulate = sl_xstrdup(rows[i].said); /* "Job j: " there */
            if (v && !strncmp(as_simulate, "Job/", 4))
                as_simulate[3] = ' ';
            assert_said(as_simulate);
            assert_not_said("started");
        }
}

static void every_fault_of_a_job_is_told(void **state) {
    (void)state;
    const char *text = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {parallelism: x, suspend: 1}\n";
    for (size_t v = 0; v < SL_COUNT(readers); v++) {
        assert_int_equal(run_on(readers[v], "a.yaml", text), SL_EXIT_WRONG);
        assert_said("spec.parallelism: Invalid value: \"x\"");
        assert_said("spec.suspend: Invalid value: 1: must be true or false");
        assert_said("spec.template: Required value");
        assert_int_equal(run_on_with(readers[v], json_output, "a.yaml", text), SL_EXIT_WRONG);
        assert_said("\"document\":1");
        assert_said("\"path\":\"spec.suspend\"");
    }
    assert_int_equal(RUN(sl_cmd_explain, "job/j", "--simulate", "tests/golden/job-create/silly-types/in.yaml"),
                     SL_EXIT_WRONG);
    assert_said("metadata.annotations: Invalid value: must be an object");
}

static void explain_and_status_refuse_the_same(void **state) {
    (void)state;
    const char *text = "{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {template: {spec: {restartPolicy: "
                       "Never, containers: [{name: c, resources: {requests: {nvidia.com/gpu: 1}}}]}}}}";
    const char *const explained[] = {"job/j", "--simulate", NULL}, *const shown[] = {"--simulate", NULL};
    assert_int_equal(run_on_with(sl_cmd_explain, explained, "a.yaml", text), SL_EXIT_WRONG);
    assert_said("containers[0].resources.limits[nvidia.com/gpu]: Required value: Limit must be set");
    assert_int_equal(run_on_with(sl_cmd_status, shown, "a.yaml", text), SL_EXIT_WRONG);
    assert_said("containers[0].resources.limits[nvidia.com/gpu]: Required value: Limit must be set");
}

static void versions_that_are_not_served(void **state) {
    (void)state;
    for (size_t v = 0; v < SL_COUNT(readers); v++) {
        assert_int_equal(run_on(readers[v], "a.yaml", "{apiVersion: batch/v2, kind: Job, metadata: {name: j}}"),
                         SL_EXIT_WRONG);
        assert_said("apiVersion: Unsupported value: \"batch/v2\": supported values: \"batch/v1\"");
        assert_int_equal(
            run_on(readers[v], "a.yaml", "{apiVersion: kueue.x-k8s.io/v1alpha1, kind: Cohort, metadata: {name: c}}"),
            SL_EXIT_WRONG);
        assert_said("apiVersion: Unsupported value: \"kueue.x-k8s.io/v1alpha1\": supported values: "
                    "\"kueue.x-k8s.io/v1beta1\", \"kueue.x-k8s.io/v1beta2\"");
        assert_int_equal(run_on(readers[v], "a.yaml", "{apiVersion: v1beta2, kind: Cohort, metadata: {name: c}}"),
                         SL_EXIT_WRONG);
        assert_said("apiVersion: Unsupported value: \"v1beta2\"");
        assert_int_equal(run_on(readers[v], "a.yaml", "{apiVersion: 5, kind: [x], metadata: {name: c}}"),
                         SL_EXIT_WRONG);
        assert_said("apiVersion: Invalid value: 5: must be a string");
        assert_said("kind: Invalid value: must be a string");
        assert_int_equal(run_on(readers[v], "a.yaml", "{apiVersion: batch.volcano.sh/v1alpha1, kind: Job}"),
                         SL_EXIT_OK);
    }
    assert_int_equal(run_on(sl_cmd_lint, "a.yaml", "{apiVersion: kueue.sigs.k8s.io/v1, kind: ClusterQueue}"),
                     SL_EXIT_OK);
    assert_said("warning: ClusterQueue/?: apiVersion: Unsupported value: \"kueue.sigs.k8s.io/v1\"");
}

static void the_same_object_twice(void **state) {
    (void)state;
    const char *job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {template: {spec: {restartPolicy: "
                      "Never, containers: [{name: "
                      "c}]}}}\n";
    SL_AUTO_FREE char *twice = sl_xprintf("%s---\n%s", job, job);
    assert_int_equal(run_on(sl_cmd_lint, "a.yaml", twice), SL_EXIT_WRONG);
    assert_said("a.yaml:8: document 2: error: Job/j: metadata.name: Duplicate value: \"j\": the same object is in ");
    assert_said("a.yaml:1\n");
    assert_int_equal(run_on(sl_cmd_simulate, "a.yaml", twice), SL_EXIT_WRONG);
    assert_said("a.yaml:6: document 2: Job j: ");
    const char *const simulated[] = {"job/j", "--simulate", NULL};
    assert_int_equal(run_on_with(sl_cmd_explain, simulated, "a.yaml", twice), SL_EXIT_WRONG);
    assert_said("a.yaml:6: jobs.batch \"j\" already exists");
    assert_int_equal(run_on(sl_cmd_lint, "a.yaml",
                            "{apiVersion: kueue.x-k8s.io/v1beta1, kind: Cohort, metadata: {name: c}}"
                            "\n---\n{apiVersion: kueue.x-k8s.io/v1beta2, kind: Cohort, metadata: "
                            "{name: c}}"),
                     SL_EXIT_WRONG);
    assert_said("Duplicate value: \"c\"");
    assert_int_equal(run_on(sl_cmd_lint, "a.yaml",
                            "{apiVersion: v1, kind: Namespace, metadata: {name: c}}\n---\n"
                            "{apiVersion: v1, kind: Namespace, metadata: {name: c}}"),
                     SL_EXIT_OK); /* no harm */
    assert_said("warning: Namespace/c: metadata.name: Duplicate value");
    assert_int_equal(run_on(sl_cmd_lint, "a.yaml",
                            "{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: "
                            "c}}\n---\n{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, "
                            "metadata: {name: c, namespace: other}}\n---\n{apiVersion: "
                            "kueue.x-k8s.io/v1beta2, kind: Cohort, metadata: {name: c}}"),
                     SL_EXIT_OK);
    assert_said("3 documents checked, 0 errors");
}

static void fields_that_do_not_exist(void **state) {
    (void)state;
    const char *text =
        "{apiVersion: kueue.x-k8s.io/v1beta2, kind: Cohort, metadata: {name: c, nmae: x}, spec: {parent: p}}";
    assert_int_equal(run_on(sl_cmd_lint, "a.yaml", text),
                     SL_EXIT_WRONG); /* as kubectl, which asks for strict reading */
    assert_said("spec.parent: Unknown field");
    assert_said("metadata.nmae: Unknown field");
    assert_int_equal(run_on(sl_cmd_simulate, "a.yaml", text), SL_EXIT_OK); /* as the API server, which drops them */
    assert_said("a.yaml:1: Cohort c: warning: spec.parent: Unknown field");
}

/* What is no error and yet does nothing; simulate shows that by playing it. */
static void advice(void **state) {
    (void)state;
#define JOB_OF(metadata, inner)                                                                                        \
    "{apiVersion: batch/v1, kind: Job, metadata: {name: j" metadata "}, spec: {template: {" inner                      \
    "spec: {restartPolicy: Never, containers: [{name: c}]}}}}"
#define QUEUE_LABEL "labels: {kueue.x-k8s.io/queue-name: q}"
#define OURS(kind, name, more)                                                                                         \
    "\n---\n{apiVersion: kueue.x-k8s.io/v1beta2, kind: " kind ", metadata: {name: " name more "}}"
#define CQ(name, flavor, more)                                                                                         \
    OURS("ClusterQueue", name,                                                                                         \
         "}, spec: {" more "resourceGroups: [{coveredResources: [cpu], flavors: [{name: " flavor                       \
         ", resources: [{name: cpu, nominalQuota: 1}]}]}]")
#define ALL "namespaceSelector: {}, "
    static const struct {
        const char *text, *said; /* NULL: no warning */
    } rows[] = {
        {JOB_OF("", ""), NULL},
        {JOB_OF(", " QUEUE_LABEL, "metadata: {" QUEUE_LABEL "}, "), NULL},
        {JOB_OF("", "metadata: {" QUEUE_LABEL "}, "),
         "a.yaml:1: warning: Job/j: spec.template.metadata.labels[kueue.x-k8s.io/queue-name]: Invalid value: has no "
         "effect there: the queue is a label of the Job"},
        {JOB_OF(", annotations: {kueue.x-k8s.io/queue-name: q}", ""),
         "metadata.annotations[kueue.x-k8s.io/queue-name]: Invalid value: has no effect there"},
        {JOB_OF(", labels: {kueue.x-k8s.io/queue: q}", ""),
         "metadata.labels[kueue.x-k8s.io/queue]: Invalid value: nobody knows this key: is kueue.x-k8s.io/queue-name "
         "meant?"},
        {JOB_OF(", annotations: {sluice.dev/shmsize: 1Gi}", ""),
         "metadata.annotations[sluice.dev/shmsize]: Invalid value: nobody knows this key: is sluice.dev/shm-size "
         "meant?"},
        {JOB_OF("", "metadata: {annotations: {kueue.x-k8s.io/podset-required-topologie: x}}, "),
         "spec.template.metadata.annotations[kueue.x-k8s.io/podset-required-topologie]: Invalid value: nobody knows "
         "this key: is kueue.x-k8s.io/podset-required-topology meant?"},
        {JOB_OF(", labels: {sluice.dev/colour: q}", ""),
         "metadata.labels[sluice.dev/colour]: Invalid value: nobody knows this key\n"},
        {JOB_OF(", labels: {team.example.com/queue: q, sluice.development/x: y}", ""), NULL},
        {JOB_OF(", annotations: {provreq.kueue.x-k8s.io/x: q, sluice.dev/shm-max: 1Gi, sluice.dev/simulate-run: 5s}",
                ""),
         NULL},
        /* references, once anything of the kind is among the files */
        {JOB_OF(", " QUEUE_LABEL, "") OURS("LocalQueue", "q", "}, spec: {clusterQueue: a"), NULL},
        {JOB_OF(", " QUEUE_LABEL, "") OURS("LocalQueue", "p", "}, spec: {clusterQueue: a"),
         "Job/j: metadata.labels[kueue.x-k8s.io/queue-name]: Not found: \"q\": no LocalQueue of this name in namespace "
         "default is among the files"},
        {JOB_OF(", " QUEUE_LABEL, "") OURS("LocalQueue", "q", ", namespace: other}, spec: {clusterQueue: a"),
         "Not found: \"q\": no LocalQueue of this name in namespace default is among"},
        {JOB_OF("", "") OURS("LocalQueue", "q", "}, spec: {clusterQueue: a") CQ("a", "f", ALL), NULL},
        {JOB_OF("", "") OURS("LocalQueue", "q", "}, spec: {clusterQueue: b") CQ("a", "f", ALL),
         "LocalQueue/q: spec.clusterQueue: Not found: \"b\": no ClusterQueue of this name is among the files"},
        {JOB_OF("", "") OURS("ResourceFlavor", "f", "}, spec: {") CQ("a", "f", ALL), NULL},
        {JOB_OF("", "") OURS("ResourceFlavor", "g", "}, spec: {") CQ("a", "f", ALL),
         "ClusterQueue/a: spec.resourceGroups[0].flavors[0].name: Not found: \"f\": no ResourceFlavor of this name is"},
        {JOB_OF("", "") CQ("a", "f", ""),
         "ClusterQueue/a: spec.namespaceSelector: Required value: without one the queue admits from no namespace"},
    };
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        assert_int_equal(run_on(sl_cmd_lint, "a.yaml", rows[i].text), SL_EXIT_OK);
        if (rows[i].said)
            assert_said(rows[i].said);
        else
            assert_not_said("warning");
        assert_said(", 0 errors");
    }
}

static void lists(void **state) {
    (void)state;
    for (size_t v = 0; v < SL_COUNT(readers); v++) {
        assert_int_equal(run_on(readers[v], "a.yaml", "{apiVersion: v1, kind: List, items: 5}"), SL_EXIT_WRONG);
        assert_said(v ? "a.yaml:1: document 1: items: Invalid value: must be an array"
                      : "a.yaml:1: error: document 1: items: Invalid value: must be an array");
        assert_int_equal(run_on(readers[v], "a.yaml", "{apiVersion: v1, kind: List, items: [{}, 5]}"), SL_EXIT_WRONG);
        assert_said(": document 1: items[1]: Invalid value: must be an object");
        assert_int_equal(run_on(readers[v], "a.yaml", "x"), SL_EXIT_WRONG);
        assert_said(": document 1: must be an object");
    }
}

static void a_name_does_not_reach_the_terminal_raw(void **state) {
    (void)state;
    for (size_t v = 0; v < SL_COUNT(readers); v++) {
        assert_int_equal(
            run_on(readers[v], "a.yaml", "{apiVersion: batch/v1, kind: Job, metadata: {name: \"a\\e[2Jb\"}}"),
            SL_EXIT_WRONG);
        assert_said(v ? "Job a?[2Jb" : "Job/a?[2Jb");
        assert_null(strchr(said, 27));
        run_on(readers[v], "a.yaml",
               "{apiVersion: batch/v1, kind: Job, metadata: {name: a, labels: {\"\\e[2J\": 5}}, \"\\e[3J\": 5}");
        assert_said("metadata.labels[?[2J]");
        assert_null(strchr(said, 27));
    }
}

static void errors_are_objects_where_output_is(void **state) {
    (void)state;
    for (size_t v = 0; v < SL_COUNT(readers); v++) {
        assert_int_equal(RUN(readers[v], "-o", "json", "/nonexistent/x.yaml"), SL_EXIT_FAILED);
        assert_one_error("/nonexistent/x.yaml: no such file or folder");
        assert_int_equal(run_on_with(readers[v], json_output, "a.yaml", "a: [1,\n b: }\n"), SL_EXIT_WRONG);
        if (readers[v] == sl_cmd_lint) /* one of its findings */
            assert_said("a.yaml\",\"kind\":\"\",\"level\":\"error\",\"line\":2,\"name\":\"\",\"path\":\"\",\"text\":"
                        "\"YAML line 2");
        else
            assert_one_error("a.yaml: YAML line 2");
    }
    assert_int_equal(RUN(sl_cmd_explain, "-o", "json", "job/j", "--simulate", "/nonexistent/x.yaml"), SL_EXIT_FAILED);
    assert_one_error("/nonexistent/x.yaml: no such file or folder");
    assert_int_equal(RUN(sl_cmd_explain, "-o", "json", "job/none", "--simulate", "examples/first-job"), SL_EXIT_WRONG);
    assert_one_error("no Job none in namespace default");
    assert_int_equal(RUN(sl_cmd_status, "-o", "json", "--config", "/nonexistent/c.yaml"), SL_EXIT_FAILED);
    assert_one_error("configuration /nonexistent/c.yaml: No such file");
    assert_int_equal(RUN(sl_cmd_history, "-o", "json", "--data-dir", "/nonexistent"), SL_EXIT_FAILED);
    assert_one_error("/nonexistent: ");
    assert_int_equal(RUN(sl_cmd_simulate, "-o", "json", "--config", "/nonexistent/c.yaml", folder), SL_EXIT_FAILED);
    assert_one_error("configuration /nonexistent/c.yaml: No such file");
    assert_int_equal(RUN(sl_cmd_simulate, "-o", "json", "--scenario", "/nonexistent/s"), SL_EXIT_FAILED);
    assert_one_error("/nonexistent/s: No such file");
}

static void configurations(void **state) {
    (void)state;
#define CONFIG "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
    static const struct {
        const char *text, *said;
    } rows[] = {
        {CONFIG "waitForPodsReady: {timeout: -5m}",
         "waitForPodsReady.timeout: Invalid value: \"-5m\": must not be negative"},
        {CONFIG "waitForPodsReady: {timeout: 5}", "waitForPodsReady.timeout: Invalid value: 5: must be a duration"},
        {CONFIG "waitForPodsReady: {requeuingStrategy: {backoffLimitCount: 3000000000}}",
         "waitForPodsReady.requeuingStrategy.backoffLimitCount: Invalid value: 3000000000: must be between 0 and"},
        {CONFIG "waitForPodsReady: {requeuingStrategy: {backoffLimitCount: 99999999999999999999}}",
         "waitForPodsReady.requeuingStrategy.backoffLimitCount: Invalid value: 1e20: must be an integer"},
        {CONFIG "webhook: {port: 70000}", "webhook.port: Invalid value: 70000: must be between 0 and 65535"},
        {CONFIG "nope: 1", "nope: Unknown field"},
        {CONFIG "managedJobsNamespaceSelector: {matchLabels: 5}",
         "managedJobsNamespaceSelector.matchLabels: Invalid value: 5: must be an object"},
        {CONFIG "managedJobsNamespaceSelector: {matchExpressions: [{key: a, operator: In, values: [5]}]}",
         "managedJobsNamespaceSelector.matchExpressions[0].values[0]: Invalid value: 5: must be a string"},
        {CONFIG "resources: {transformations: [{input: a, multiplyBy: 5}]}",
         "resources.transformations[0].multiplyBy: Invalid value: 5: must be a string"},
        {CONFIG "resources: {transformations: [7]}",
         "resources.transformations[0]: Invalid value: 7: must be an object"},
        {CONFIG "metrics: {customLabels: 5}", "metrics.customLabels: Invalid value: 5: must be a list"},
        {CONFIG "tls: 5", "tls: Invalid value: 5: must be an object"},
        {CONFIG "leaderElection: {resourceLock: 5}", "leaderElection.resourceLock: Invalid value: 5: must be a string"},
        {CONFIG "sluice: {ledger: {maxSize: 99999999999999999999}}",
         "sluice.ledger.maxSize: Invalid value: 1e20: must be between 1048576 and 1099511627776"},
        {CONFIG "waitForPodsReady: {requeuingStrategy: {backoffMaxSeconds: x}}",
         "c.yaml: waitForPodsReady.requeuingStrategy.backoffMaxSeconds: Invalid value: \"x\": must be an integer"},
        {CONFIG "integrations: {frameworks: x}", "integrations.frameworks: Invalid value: must be a list"},
        {CONFIG "a: [", "c.yaml: YAML line 4"},
        {CONFIG "---\n" CONFIG, "must hold one document, holds 2"},
        {"x", "the configuration must be an object"},
    };
    const char *const with[] = {"examples/first-job", "--config", NULL};
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        assert_int_equal(run_on_with(sl_cmd_simulate, with, "c.yaml", rows[i].text), SL_EXIT_FAILED);
        assert_said(rows[i].said);
        const char *first = strstr(said, "c.yaml");
        assert_non_null(first);
        assert_null(strstr(first + 1, "c.yaml")); /* once is enough */
    }
}

static void scenarios(void **state) {
    (void)state;
#define FLAVOR "{\"apiVersion\":\"kueue.x-k8s.io/v1beta2\",\"kind\":\"ResourceFlavor\",\"metadata\":{\"name\":\"f\"}}"
    static const struct {
        const char *line, *said;
    } rows[] = {
        {"{\"name\":\"x\",\"config\":5}", "config: Invalid value: 5: must be an object"},
        {"{\"name\":\"x\",\"steps\":5}", "steps: Invalid value: 5: must be an array"},
        {"{\"name\":\"x\",\"expect\":\"x\"}", "expect: Invalid value: \"x\": must be an array"},
        {"{\"steps\":[]}", "name: Required value"},
        {"{\"name\":\"x\",\"steps\":[{\"melt\":\"w\"}]}", "steps[0].melt: Unknown field"},
        {"{\"name\":\"x\",\"steps\":[{}]}", "steps[0]: Invalid value: must have one of create, finish"},
        {"{\"name\":\"x\",\"steps\":[{\"finish\":\"w\",\"delete\":\"w\"}]}",
         "steps[0]: Invalid value: must have one of"},
        {"{\"name\":\"x\",\"steps\":[{\"finish\":7}]}", "steps[0].finish: Invalid value: 7: must be a string"},
        {"{\"name\":\"x\",\"steps\":[{\"finish\":\"w\"}]}", "steps[0].finish: Not found: \"w\""},
        {"{\"name\":\"x\",\"objects\":[" FLAVOR ",{\"kind\":\"Job\"}]}", "objects[1].kind: Unsupported value: \"Job\""},
        {"{\"name\":\"x\",\"steps\":[{\"patch\":{\"kind\":\"Job\",\"name\":\"q\",\"spec\":{}}}]}",
         "steps[0].patch.kind: Unsupported value: \"Job\""},
        {"{\"name\":\"x\",\"objects\":[{\"apiVersion\":\"kueue.x-k8s.io/v1beta2\",\"kind\":\"Cohort\"}]}",
         "objects[0].metadata.name: Required value"},
        {"{\"name\":\"x\",\"steps\":[{\"create\":{\"apiVersion\":\"kueue.x-k8s.io/v1beta2\",\"kind\":\"Workload\","
         "\"metadata\":{\"name\":\"w\"},\"spec\":{\"podSets\":[{\"name\":\"main\",\"count\":10000000000000000000,"
         "\"template\":{\"spec\":{\"containers\":[{\"name\":\"c\"}]}}}]}}}]}",
         "steps[0].create.spec.podSets[0].count: Invalid value: 1e19: must be between -2147483648 and 2147483647"},
        {"{\"name\":\"x\",\"steps\":[{\"create\":{\"apiVersion\":\"kueue.x-k8s.io/v1beta2\",\"kind\":\"Workload\","
         "\"metadata\":{\"name\":\"w\"},\"spec\":{\"podSets\":[{\"name\":\"main\",\"count\":1,\"template\":{\"spec\":{"
         "\"containers\":[{\"name\":\"c\",\"resources\":{\"requests\":{\"cpu\":-1}}}]}}}]}}}]}",
         "steps[0].create.spec.podSets[0].template.spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\""},
        {"{\"name\":\"x\",\"steps\":[{\"patch\":{\"kind\":\"ClusterQueue\",\"name\":\"q\",\"spec\":5}}]}",
         "steps[0].patch.spec: Invalid value: 5: must be an object"},
        {"{\"name\":\"x\",\"expect\":[{\"w\":{\"state\":\"Lost\"}}]}",
         "expect[0][w].state: Unsupported value: \"Lost\""},
        {"[]", "scenario: Invalid value: must be an object"},
        {"{\"name\":", "JSON line 1"},
    };
    const char *const with[] = {"--scenario", NULL}, *const with_json[] = {"-o", "json", "--scenario", NULL};
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        SL_AUTO_FREE char *text = sl_xprintf("{\"name\":\"good\"}\n\n%s\n{\"name\":\"after\"}\n", rows[i].line);
        assert_int_equal(run_on_with(sl_cmd_simulate, with, "s.jsonl", text), SL_EXIT_USAGE);
        SL_AUTO_FREE char *place = sl_xprintf("s.jsonl:3: %s", rows[i].said);
        assert_said(place);
        assert_said("good: settled");
        assert_not_said("after"); /* nothing is played behind the fault */
        assert_int_equal(run_on_with(sl_cmd_simulate, with_json, "s.jsonl", rows[i].line), SL_EXIT_USAGE);
        assert_one_error(rows[i].said);
    }
}

static void scenarios_say_as_little_as_they_need(void **state) {
    (void)state;
    const char *const with[] = {"-o", "json", "--scenario", NULL};
    const char *text =
        "{\"name\":\"x\",\"seed\":7,\"objects\":[{\"kind\":\"ResourceFlavor\",\"metadata\":{\"name\":\"f\"}},"
        "{\"kind\":\"ClusterQueue\",\"metadata\":{\"name\":\"q\"},\"spec\":{\"namespaceSelector\":{},"
        "\"resourceGroups\":[{\"coveredResources\":[\"cpu\"],\"flavors\":[{\"name\":\"f\",\"resources\":[{\"name\":"
        "\"cpu\",\"nominalQuota\":4}]}]}]}},{\"kind\":\"LocalQueue\",\"metadata\":{\"name\":\"q\",\"namespace\":"
        "\"ns\"},\"spec\":{\"clusterQueue\":\"q\"}}],\"steps\":[{\"create\":{\"metadata\":{\"name\":\"a\"},\"spec\":"
        "{\"queueName\":\"q\",\"podSets\":[{\"name\":\"main\",\"count\":1,\"template\":{\"spec\":{\"containers\":[{"
        "\"name\":\"c\",\"resources\":{\"requests\":{\"cpu\":2}}}]}}}]}}},"
        "{\"patch\":{\"kind\":\"ClusterQueue\",\"name\":\"q\",\"spec\":{\"stopPolicy\":\"HoldAndDrain\"}}},"
        "{\"patch\":{\"kind\":\"ClusterQueue\",\"name\":\"q\",\"spec\":{\"stopPolicy\":\"None\"}}},"
        "{\"patch\":{\"kind\":\"LocalQueue\",\"name\":\"q\",\"spec\":{\"stopPolicy\":\"HoldAndDrain\"}}}]}";
    assert_int_equal(run_on_with(sl_cmd_simulate, with, "s.jsonl", text), SL_EXIT_OK);
#define ADMITTED "{\"a\":{\"state\":\"Admitted\",\"podSets\":{\"main\":{\"count\":1,\"flavors\":{\"cpu\":\"f\"}}}}}"
    assert_said("{\"name\":\"x\",\"settled\":true,\"outcome\":[" ADMITTED
                ",{\"a\":{\"state\":\"Pending\",\"evicted\":[\"ClusterQueueStopped\"]}}," ADMITTED
                ",{\"a\":{\"state\":\"Pending\",\"evicted\":[\"LocalQueueStopped\"]}}]}");
}

static void scenarios_that_are_too_large(void **state) {
    (void)state;
    const char *const with[] = {"--scenario", NULL};
    size_t n = 100000, size = (4u << 20) + 100;
    char *text = sl_xalloc(size + 1);
    memset(text, '[', n);
    memset(text + n, ']', n);
    assert_int_equal(run_on_with(sl_cmd_simulate, with, "s.jsonl", text), SL_EXIT_USAGE);
    assert_said("s.jsonl:1: JSON nested deeper than 64 levels");
    memset(text, ' ', size);
    text[0] = '\n';
    assert_int_equal(run_on_with(sl_cmd_simulate, with, "s.jsonl", text), SL_EXIT_USAGE);
    assert_said("s.jsonl:2: a line of more than 4194304 bytes");
    free(text);
}

/* Each line that is said is that of the field. */
static void the_line_is_that_of_the_field(void **state) {
    (void)state;
    const char *text = "# queues\n"
                       "apiVersion: kueue.x-k8s.io/v1beta2\n"
                       "kind: ClusterQueue\n"
                       "metadata:\n"
                       "  name: q\n"
                       "  labels:\n"
                       "    a.b/c: x\n"
                       "spec:\n"
                       "  namespaceSelector: {}\n"
                       "  resourceGroups:\n"
                       "  - coveredResources: [cpu, memory]\n"
                       "    flavors:\n"
                       "    - name: f\n"
                       "      resources:\n"
                       "      - name: cpu\n"
                       "        nominalQuota:\n"
                       "          ten\n"
                       "      - {name: memory, nominalQuota: eleven}\n"
                       "  nope: 1\n"
                       "---\n"
                       "apiVersion: v1\n"
                       "kind: List\n"
                       "metadata: {labels: {a: b}}\n"
                       "items:\n"
                       "- apiVersion: batch/v1\n"
                       "  kind: Job\n"
                       "  metadata:\n"
                       "    name: j\n"
                       "    annotations:\n"
                       "      kueue.x-k8s.io/queue-name: q\n"
                       "      sluice.dev/other: much\n"
                       "  spec: &spec\n"
                       "    parallelism: -1\n"
                       "    template:\n"
                       "      spec:\n"
                       "        restartPolicy: Never\n"
                       "        containers: [{name: c, image: x}]\n"
                       "- apiVersion: batch/v1\n"
                       "  kind: Job\n"
                       "  metadata: {name: k}\n"
                       "  spec: *spec\n"
                       "- apiVersion: batch/v1\n"
                       "  kind: Job\n"
                       "  metadata:\n"
                       "    name: m\n"
                       "    labels:\n"
                       "      kueue.x-k8s.io/queue-name: q\n"
                       "      kueue.x-k8s.io/priority-class: '@'\n"
                       "  spec:\n"
                       "    template:\n"
                       "      spec:\n"
                       "        containers: [{name: c, image: x}]\n";
    static const char *const lines[] = {
        "a.yaml:16: document 1: error: ClusterQueue/q: spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: ",
        "a.yaml:18: document 1: error: ClusterQueue/q: spec.resourceGroups[0].flavors[0].resources[1].nominalQuota: ",
        "a.yaml:19: document 1: error: ClusterQueue/q: spec.nope: ",
        "a.yaml:33: document 2: error: Job/j: spec.parallelism: ",
        "a.yaml:41: document 2: error: Job/k: spec.parallelism: ", /* through an alias: where that stands */
        "a.yaml:51: document 2: error: Job/m: spec.template.spec.restartPolicy: Required value",
    };
    assert_int_equal(run_on(sl_cmd_lint, "a.yaml", text), SL_EXIT_WRONG);
    for (size_t i = 0; i < SL_COUNT(lines); i++)
        assert_said(lines[i]);
    const char *const json[] = {"-o", "json", NULL};
    assert_int_equal(run_on_with(sl_cmd_lint, json, "a.yaml", text), SL_EXIT_WRONG);
    assert_said("\"line\":16,");
    const char *job = strstr(text, "- apiVersion: batch/v1"); /* faults of the webhooks, and advice */
    SL_AUTO_FREE char *jobs = sl_xprintf("- apiVersion: batch/v1\n%s", strchr(job, '\n') + 1), *at;
    SL_AUTO_FREE char *whole = sl_xprintf("kind: List\nitems:\n%s", jobs);
    while ((at = strstr(whole, "parallelism: -1")))
        memcpy(at, "parallelism:  1", 15);
    at = NULL;
    assert_int_equal(run_on(sl_cmd_lint, "a.yaml", whole), SL_EXIT_WRONG);
    assert_said("a.yaml:8: warning: Job/j: metadata.annotations[kueue.x-k8s.io/queue-name]: ");
    assert_said("a.yaml:9: warning: Job/j: metadata.annotations[sluice.dev/other]: ");
    const char *refused = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: j\n  labels:\n    a: b\n    "
                          "kueue.x-k8s.io/queue-name: Not_a_name\nspec: {template: {spec: {restartPolicy: Never, "
                          "containers: [{name: c, image: x}]}}}\n"; /* by a webhook: the path is in the text */
    assert_int_equal(run_on(sl_cmd_lint, "a.yaml", refused), SL_EXIT_WRONG);
    assert_said("a.yaml:7: error: Job/j: metadata.labels[kueue.x-k8s.io/queue-name]: Invalid value: \"Not_a_name\"");
    assert_int_equal(run_on(sl_cmd_simulate, "a.yaml", text), SL_EXIT_WRONG);
    assert_said("a.yaml:18: document 1: ClusterQueue q: spec.resourceGroups[0].flavors[0].resources[1].nominalQuota: ");
}

static void misspelt_fields_of_a_job_are_warned_of(void **state) {
    (void)state;
    const char *text = "apiVersion: batch/v1\n"
                       "kind: Job\n"
                       "metadata: {name: j, label: {}, annotations: {any: thing}, managedFields: [{x: y}]}\n"
                       "spec:\n"
                       "  paralelism: 2\n"
                       "  template:\n"
                       "    metadata: {nam: x}\n"
                       "    spec:\n"
                       "      restartPolcy: Never\n"
                       "      tolerrations: []\n"
                       "      nodeSelector: {free: text}\n"
                       "      containers:\n"
                       "      - {name: a, image: x, resources: {limits: {any.thing/x: 1}}}\n"
                       "      - name: c\n"
                       "        image: x\n"
                       "        resource: {}\n"
                       "        resources: {limit: {}}\n"
                       "        Env: []\n"
                       "        quiteAnotherThing: 1\n"
                       "        env: [{name: a, valueFrom: {secretKeyRef: {key: k, nme: n}}}]\n"
                       "      volumes: [{name: v, emptyDir: {medum: Memory}}, {name: w, rbd: {any: thing}}]\n"
                       "status: {any: thing}\n";
    static const char *const says[] = {
        "a.yaml:3: warning: Job/j: metadata.label: Unknown field: is labels meant?\n",
        "a.yaml:5: warning: Job/j: spec.paralelism: Unknown field: is parallelism meant?\n",
        "a.yaml:7: warning: Job/j: spec.template.metadata.nam: Unknown field: is name meant?\n",
        "a.yaml:9: warning: Job/j: spec.template.spec.restartPolcy: Unknown field: is restartPolicy meant?\n",
        "a.yaml:10: warning: Job/j: spec.template.spec.tolerrations: Unknown field: is tolerations meant?\n",
        "a.yaml:16: warning: Job/j: spec.template.spec.containers[1].resource: Unknown field: is resources meant?\n",
        "a.yaml:17: warning: Job/j: spec.template.spec.containers[1].resources.limit: Unknown field: is limits "
        "meant?\n",
        "a.yaml:18: warning: Job/j: spec.template.spec.containers[1].Env: Unknown field: is env meant?\n",
        "a.yaml:19: warning: Job/j: spec.template.spec.containers[1].quiteAnotherThing: Unknown field: there is none "
        "of "
        "this name in Kubernetes 1.",
        "a.yaml:20: warning: Job/j: spec.template.spec.containers[1].env[0].valueFrom.secretKeyRef.nme: Unknown field: "
        "is name meant?\n",
        "a.yaml:21: warning: Job/j: spec.template.spec.volumes[0].emptyDir.medum: Unknown field: is medium meant?\n",
        "a.yaml:8: error: Job/j: spec.template.spec.restartPolicy: Required value", /* said beside its cause */
        "1 document checked, 1 error\n",
    };
    assert_int_equal(run_on(sl_cmd_lint, "a.yaml", text), SL_EXIT_WRONG);
    size_t warnings = 0;
    for (const char *p = said; (p = strstr(p, "Unknown field")); p++)
        warnings++;
    assert_int_equal(warnings, SL_COUNT(says) - 2);
    for (size_t i = 0; i < SL_COUNT(says); i++)
        assert_said(says[i]);
    assert_int_equal(run_on(sl_cmd_lint, "a.yaml",
                            "{apiVersion: v1, kind: Job, spec: {x: 1}}\n---\n{apiVersion: other.io/v1, kind: Job, "
                            "metadata: {name: a}, spec: {x: 1}}"),
                     SL_EXIT_WRONG);
    assert_said("spec.x: Unknown field"); /* only of the one that means a Job of ours */
    assert_null(strstr(said, "Job/a"));
}

static void put_file(const char *name, const char *text) {
    SL_AUTO_FREE char *path = sl_xprintf("%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void one_bad_file_does_not_hide_the_others(void **state) {
    (void)state;
    static const char *const names[] = {"a.yaml", "b.yaml", "c.yaml", "d.yaml", "e.yaml"};
    put_file("a.yaml", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: first}\nspec: []\n");
    put_file("b.yaml", "a: 1\n---\nb: [1,\n c: }\n");
    put_file("c.yaml", "- 1\n---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: second}\nspec: []\n---\nkind: "
                       "List\nitems: 5\n---\nkind: List\nitems:\n- 7\n- apiVersion: batch/v1\n  kind: Job\n  metadata: "
                       "{name: third}\n  spec: []\n");
    put_file("d.yaml", "a: \"\n");
    put_file("e.yaml",
             "apiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\nmetadata: {name: l}\nspec: {clusterQueue: "
             "in-b}\n---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: "
             "q}\nspec: {namespaceSelector: {}}\n");
    static const char *const says[] = {
        "a.yaml:4: error: Job/first: spec: ",
        "b.yaml:4: error: YAML line 4 ",
        "c.yaml:1: error: document 1: must be an object\n",
        "c.yaml:6: document 2: error: Job/second: spec: ",
        "c.yaml:9: error: document 3: items: Invalid value: must be an array\n",
        "c.yaml:13: error: document 4: items[0]: Invalid value: must be an object\n",
        "c.yaml:17: document 4: error: Job/third: spec: ",
        "d.yaml:1: error: YAML line 1 column 4: while scanning a quoted scalar: ",
        "5 documents checked, 8 errors\n",
    };
    assert_int_equal(RUN(sl_cmd_lint, folder), SL_EXIT_WRONG);
    for (size_t i = 0; i < SL_COUNT(says); i++)
        assert_said(says[i]);
    assert_null(strstr(said, "among the files")); /* it may be in the one that could not be read */
    assert_int_equal(RUN(sl_cmd_lint, "-o", "json", folder), SL_EXIT_WRONG);
    assert_said("\"line\":1,\"name\":\"\",\"path\":\"\",\"text\":\"document 1: must be an object\"}");
    assert_int_equal(RUN(sl_cmd_simulate, folder), SL_EXIT_WRONG); /* a story is not told in part */
    assert_said("b.yaml: YAML line 4");
    assert_null(strstr(said, "first"));
    for (size_t i = 0; i < SL_COUNT(names); i++) {
        SL_AUTO_FREE char *path = sl_xprintf("%s/%s", folder, names[i]);
        assert_int_equal(unlink(path), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line_is_that_of_the_field),
        cmocka_unit_test(misspelt_fields_of_a_job_are_warned_of),
        cmocka_unit_test(one_bad_file_does_not_hide_the_others),
        cmocka_unit_test(jobs_of_wrong_types),
        cmocka_unit_test(every_fault_of_a_job_is_told),
        cmocka_unit_test(explain_and_status_refuse_the_same),
        cmocka_unit_test(versions_that_are_not_served),
        cmocka_unit_test(the_same_object_twice),
        cmocka_unit_test(fields_that_do_not_exist),
        cmocka_unit_test(advice),
        cmocka_unit_test(lists),
        cmocka_unit_test(a_name_does_not_reach_the_terminal_raw),
        cmocka_unit_test(errors_are_objects_where_output_is),
        cmocka_unit_test(configurations),
        cmocka_unit_test(scenarios),
        cmocka_unit_test(scenarios_say_as_little_as_they_need),
        cmocka_unit_test(scenarios_that_are_too_large),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
