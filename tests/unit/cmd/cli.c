/* What the verbs that read manifests answer to right and wrong use: exit codes and words. */
#include "verbs.h"

#include <dirent.h>

#include "sluice/base/yaml.h"
#include "sluice/quota/ledger/ledger.h"

static void wrong_use_names_the_mistake(void **state) {
    (void)state;
    assert_int_equal(RUN(sl_cmd_simulate), SL_EXIT_USAGE);
    assert_said("at least one manifest or folder");
    assert_int_equal(RUN(sl_cmd_simulate, "--run-time", "5", folder), SL_EXIT_USAGE);
    assert_said("--run-time is a duration");
    assert_int_equal(RUN(sl_cmd_simulate, "--until=x", folder), SL_EXIT_USAGE);
    assert_said("--until is a duration");
    assert_int_equal(RUN(sl_cmd_simulate, "-o", "wide", folder), SL_EXIT_USAGE);
    assert_said("-o is text, json or yaml");
    assert_int_equal(RUN(sl_cmd_simulate, "--scenario", "x", folder), SL_EXIT_USAGE);
    assert_said("--scenario takes no manifests");
    assert_int_equal(RUN(sl_cmd_simulate, "--nope"), SL_EXIT_USAGE);
    assert_said("unknown option --nope");
    assert_int_equal(RUN(sl_cmd_lint), SL_EXIT_USAGE);
    assert_said("at least one manifest or folder");
    assert_int_equal(RUN(sl_cmd_lint, "-o", "wide", folder), SL_EXIT_USAGE);
    assert_said("-o is text, json or yaml");
    assert_int_equal(RUN(sl_cmd_explain), SL_EXIT_USAGE);
    assert_int_equal(RUN(sl_cmd_history), SL_EXIT_USAGE);
    assert_said("--data-dir");
}

static void what_cannot_be_played(void **state) {
    (void)state;
    assert_int_equal(RUN(sl_cmd_simulate, "/nonexistent/manifests"), SL_EXIT_FAILED);
    assert_said("/nonexistent/manifests: no such file or folder");
    assert_int_equal(RUN(sl_cmd_simulate, folder), SL_EXIT_WRONG);
    assert_said("nothing to play: no manifests here");
    assert_int_equal(RUN(sl_cmd_lint, folder), SL_EXIT_WRONG);
    assert_said("nothing to check: no manifests here");
    assert_int_equal(run_on(sl_cmd_simulate, "a.yaml", "a: [1,\n b: }\n"), SL_EXIT_WRONG);
    assert_said("a.yaml: YAML line 2");
    assert_int_equal(run_on(sl_cmd_lint, "a.yaml", "a: [1,\n b: }\n"), SL_EXIT_WRONG);
    assert_said("a.yaml:2: error: YAML line 2");
}

static void other_kinds_are_passed_over(void **state) {
    (void)state;
    const char *text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n";
    assert_int_equal(run_on(sl_cmd_simulate, "a.yaml", text), SL_EXIT_OK);
    assert_said("a.yaml:1: ConfigMap c: passed over");
    assert_int_equal(run_on(sl_cmd_lint, "a.yaml", text), SL_EXIT_OK);
    assert_said("0 documents checked, 0 errors; 1 of other kinds passed over");
}

static void a_manifest_without_kind_or_version_is_wrong(void **state) {
    (void)state;
    assert_int_equal(run_on(sl_cmd_lint, "a.yaml", "kind: Job\nmetadata: {name: j}\n"), SL_EXIT_WRONG);
    assert_said("a.yaml:1: error: Job/j: apiVersion: Required value");
    assert_int_equal(run_on(sl_cmd_lint, "a.yaml", "apiVersion: batch/v1\n"), SL_EXIT_WRONG);
    assert_said("kind: Required value");
    assert_int_equal(run_on(sl_cmd_simulate, "a.yaml", "kind: Job\nmetadata: {name: j}\n"), SL_EXIT_WRONG);
    assert_said("a.yaml:1: Job j: apiVersion: Required value");
}

static void every_wrong_field_is_named(void **state) {
    (void)state;
    const char *text = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: q}\nspec:\n"
                       "  resourceGroups:\n  - coveredResources: [cpu, memory]\n    flavors:\n    - name: f\n"
                       "      resources:\n      - {name: cpu, nominalQuota: ten}\n"
                       "      - {name: memory, nominalQuota: eleven}\n";
    int (*const verbs[])(int, char **) = {sl_cmd_simulate, sl_cmd_lint};
    for (size_t i = 0; i < SL_COUNT(verbs); i++) {
        assert_int_equal(run_on(verbs[i], "a.yaml", text), SL_EXIT_WRONG);
        assert_said("spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: Invalid value: \"ten\"");
        assert_said("spec.resourceGroups[0].flavors[0].resources[1].nominalQuota: Invalid value: \"eleven\"");
    }
}

static void the_quick_start_is_told(void **state) {
    (void)state;
    assert_int_equal(RUN(sl_cmd_simulate, "examples/quickstart/"), SL_EXIT_OK);
    assert_said("admitted  team-vision/sweep  to ClusterQueue vision");
    assert_said("waits     team-nlp/too-big  No quota\n                     pod set main: flavor h100");
    assert_int_equal(RUN(sl_cmd_simulate, "examples/gpu-pools"), SL_EXIT_OK); /* with ConfigMaps in a folder below */
    assert_said("examples/gpu-pools/nodes/mig-config.yaml:");
}

/* Of what was said as JSON, an object a line: an array. Owned. */
static struct sl_json *lines_said(void) {
    struct sl_json *list = sl_json_new_array();
    for (const char *line = said; *line;) {
        size_t len = strcspn(line, "\n");
        struct sl_json *o = NULL;
        assert_int_equal(sl_json_parse(line, len, len, &o, NULL), 0);
        sl_json_append(list, o);
        line += len + (line[len] == '\n');
    }
    return list;
}

static void a_story_ends_when_it_is_to_end(void **state) {
    (void)state;
    static const struct {
        const char *until, *last, *not_played; /* the last job that is told of, the first that is not */
    } rows[] = {
        {"5s", NULL, "30-sweep.yaml"}, {"7s", "sweep", "31-finetune.yaml"}, {"8s", "finetune", "32-evaluate.yaml"}};
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        assert_int_equal(RUN(sl_cmd_simulate, "examples/quickstart", "--until", rows[i].until, "-o", "json"),
                         SL_EXIT_OK);
        SL_AUTO_JSON *lines = lines_said();
        const char *last = NULL;
        bool noted = false;
        SL_JSON_ITEMS (lines, e) {
            const char *file = sl_json_get_str(e.value, "file", NULL), *job = sl_json_get_str(e.value, "job", "/");
            assert_true(sl_json_get_int(e.value, "at", 0) <= rows[i].until[0] - '0');
            if (file) {
                assert_string_equal(strrchr(file, '/') + 1, rows[i].not_played);
                assert_string_equal(sl_json_get_str(e.value, "text", ""),
                                    "not played, nor what follows it: the story ends before (--until)");
                noted = true;
            } else {
                last = strchr(job, '/') + 1;
            }
        }
        assert_true(noted);
        assert_true(rows[i].last ? last && !strcmp(last, rows[i].last) : !last);
    }
    assert_int_equal(RUN(sl_cmd_simulate, "examples/quickstart", "--until", "30s", "--run-time", "20s"), SL_EXIT_OK);
    assert_said("0:25  finished  team-vision/sweep"); /* finetune, which began at 0:07, would be the next */
    assert_null(strstr(said, "0:31"));
    assert_null(strstr(said, "not played"));
    assert_int_equal(RUN(sl_cmd_simulate, "examples/quickstart", "--until", "26s", "--run-time", "20s"), SL_EXIT_OK);
    assert_null(strstr(said, "0:27"));
    assert_int_equal(RUN(sl_cmd_simulate, "examples/quickstart", "--until", "6s"), SL_EXIT_OK);
    const char *table = strstr(said, "CLUSTERQUEUE"); /* nothing came after it: once is enough */
    assert_true(table && !strstr(table + 1, "CLUSTERQUEUE"));
}

static void a_wait_is_explained(void **state) {
    (void)state;
    assert_int_equal(RUN(sl_cmd_explain, "job/evaluate", "--simulate", "examples/quickstart", "-n", "team-vision"),
                     SL_EXIT_OK);
    assert_said("held by team-vision/job-finetune-");
    assert_said(": 4 (ClusterQueue vision)\n");
    assert_null(strchr(said, '{')); /* words, no JSON */
    assert_int_equal(RUN(sl_cmd_explain, "job/evaluate", "--simulate", "examples/quickstart"), SL_EXIT_WRONG);
    assert_said("no Job evaluate in namespace default (-n names another)");
    assert_int_equal(RUN(sl_cmd_explain, "job/ablation", "--simulate", "examples/gpu-pools", "-n", "training"),
                     SL_EXIT_OK);
    assert_said("flavor gpu-train");
}

/* Queue "full" of Cohort pool with five of five in use, and one of memory; queue "poor" beside it has nothing. */
static char *crowded(void) {
    struct sl_buf b = SL_BUF_INIT(1 << 20);
    sl_buf_puts(&b, "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: any}\n");
    static const char *const queues[][3] = {{"full", "5", "0"}, {"poor", "0", "1"}};
    for (size_t i = 0; i < SL_COUNT(queues); i++)
        sl_buf_printf(&b,
                      "---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: %s}\nspec:\n  "
                      "namespaceSelector: {}\n  cohortName: pool\n  resourceGroups: [{coveredResources: [cpu, memory], "
                      "flavors: [{name: any, resources: [{name: cpu, nominalQuota: %s, borrowingLimit: %s}, {name: "
                      "memory, nominalQuota: 1Gi}]}]}]\n---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: "
                      "LocalQueue\nmetadata: {name: %s}\nspec: {clusterQueue: %s}\n",
                      queues[i][0], queues[i][1], queues[i][2], queues[i][0], queues[i][0]);
    static const char *const jobs[][2] = {{"full", "cpu: 1"}, {"full", "cpu: 1"}, {"full", "cpu: 1"},
                                          {"full", "cpu: 1"}, {"full", "cpu: 1"}, {"full", "cpu: 1"},
                                          {"full", "cpu: 1"}, {"poor", "cpu: 2"}, {"poor", "cpu: 2, memory: 3Gi"}};
    for (size_t i = 0; i < SL_COUNT(jobs); i++)
        sl_buf_printf(&b,
                      "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: j%zu, labels: "
                      "{kueue.x-k8s.io/queue-name: %s}}\nspec: {template: {spec: {restartPolicy: Never, containers: "
                      "[{name: c, image: x, resources: {requests: {%s}}}]}}}\n",
                      i, jobs[i][0], jobs[i][1]);
    return sl_buf_take(&b);
}

static void an_explanation_names_whose_limit_and_counts_who_holds(void **state) {
    (void)state;
    SL_AUTO_FREE char *text = crowded();
    static const struct {
        const char *job, *says[3];
    } rows[] = {
        {"job/j5",
         {"and 2 more\n", "Smallest change that would admit it: workload default/job-j0-",
          " finishes, or nominalQuota of cpu in flavor any of ClusterQueue full is raised by 1 to 6\n"}},
        {"job/j6", /* behind its equal: the numbers are in the table */
         {"cpu                                 1          5          5            0          0  not enough",
          "      and 2 more\n", "of ClusterQueue full is raised by 2 to 7 (others come before it)\n"}},
        {"job/j7",
         {"more than can ever be had here",
          "nominalQuota of cpu in flavor any of ClusterQueue poor is raised by 2 to 2\n", ""}},
        {"job/j8",
         {"nominalQuota of memory in flavor any of ClusterQueue poor is raised by 1Gi to 2Gi and nominalQuota of cpu "
          "in flavor any of ClusterQueue poor is raised by 4 to 4 (others come before it)\n",
          "", ""}},
    };
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        const char *const with[] = {rows[i].job, "--simulate", NULL};
        assert_int_equal(run_on_with(sl_cmd_explain, with, "a.yaml", text), SL_EXIT_OK);
        for (size_t k = 0; k < SL_COUNT(rows[i].says); k++)
            assert_said(rows[i].says[k]);
    }
    const char *const with[] = {"job/j5", "-o", "json", "--simulate", NULL}; /* the same words for programs */
    assert_int_equal(run_on_with(sl_cmd_explain, with, "a.yaml", text), SL_EXIT_OK);
    assert_said("finishes, or nominalQuota of cpu in flavor any of ClusterQueue full is raised by 1 to 6\"");
}

static void status_shows_both_kinds_of_queues(void **state) {
    (void)state;
    SL_AUTO_FREE char *text = crowded();
    SL_AUTO_FREE char *more = sl_xprintf(
        "%s---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\nmetadata: {name: held, namespace: a}\nspec: "
        "{clusterQueue: full, stopPolicy: Hold}\n---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\nmetadata: "
        "{name: lost, namespace: a}\nspec: {clusterQueue: nowhere}\n---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: "
        "ClusterQueue\nmetadata: {name: dry}\nspec: {namespaceSelector: {}, stopPolicy: Hold}\n---\napiVersion: "
        "kueue.x-k8s.io/v1beta2\nkind: LocalQueue\nmetadata: {name: dry, namespace: b}\nspec: {clusterQueue: dry}\n",
        text);
    const char *const with[] = {"--simulate", NULL}, *const json[] = {"-o", "json", "--simulate", NULL};
    assert_int_equal(run_on_with(sl_cmd_status, with, "a.yaml", more), SL_EXIT_OK);
    assert_said("pending 2, reserving 5, admitted 5\n");
    assert_said("\nLOCALQUEUE                               CLUSTERQUEUE                PENDING   ADMITTED  ACTIVE\n"
                "a/held                                   full                              0          0  Stopped\n"
                "a/lost                                   nowhere                           0          0  "
                "ClusterQueueDoesNotExist\n"
                "b/dry                                    dry                               0          0  "
                "ClusterQueueIsInactive (Stopped)\n"
                "default/full                             full                              2          5  yes\n"
                "default/poor                             poor                              2          0  yes\n");
    assert_int_equal(run_on_with(sl_cmd_status, json, "a.yaml", more), SL_EXIT_OK);
    assert_said("{\"clusterQueues\":[{\"active\":\"Stopped\",\"admitted\":0,\"name\":\"dry\"");
    assert_said(
        "{\"active\":\"yes\",\"admitted\":5,\"clusterQueue\":\"full\",\"name\":\"full\",\"namespace\":\"default\","
        "\"pending\":2,\"reserving\":5}");
}

static void a_pipe_in_a_folder_is_not_waited_for(void **state) {
    (void)state;
    SL_AUTO_FREE char *pipe_path = sl_xprintf("%s/pipe.yaml", folder), *link_path = sl_xprintf("%s/link.yaml", folder);
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_int_equal(symlink("nowhere", link_path), 0);
    assert_int_equal(RUN(sl_cmd_lint, folder), SL_EXIT_WRONG); /* else it would hang here */
    assert_said("no manifests here");
    assert_int_equal(unlink(pipe_path) | unlink(link_path), 0);
}

/* What the README shows of a story is what is told. */
static void the_readme_tells_the_story_as_it_is(void **state) {
    (void)state;
    assert_int_equal(RUN(sl_cmd_simulate, "examples/quickstart"), SL_EXIT_OK);
    FILE *f = fopen("README.md", "r");
    assert_non_null(f);
    char line[1024];
    bool shown = false;
    int compared = 0;
    while (fgets(line, sizeof line, f)) {
        if (shown && !strncmp(line, "```", 3))
            break;
        if (shown && strcmp(line, "   ...\n") != 0) {
            assert_said(line);
            compared++;
        }
        shown |= !strcmp(line, "$ build/sluice simulate examples/quickstart\n");
    }
    fclose(f);
    assert_true(compared > 3);
}

static void jobs_without_a_workload_are_explained(void **state) {
    (void)state;
    const char *const text =
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: lonely, namespace: ns}\nspec: {template: {spec: "
        "{restartPolicy: "
        "Never, containers: [{name: c, image: x}]}}}\n---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: proud, "
        "namespace: ns, labels: {kueue.x-k8s.io/queue-name: q, kueue.x-k8s.io/priority-class: nosuch}}\nspec: "
        "{template: "
        "{spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}}\n";
    static const char *const rows[][2] = {
        {"job/lonely", "Job lonely names no LocalQueue (label kueue.x-k8s.io/queue-name): it is not queued"},
        {"jobs.batch/lonely", "Job lonely names no LocalQueue"},
        {"Job/proud", "Job proud has no Workload: WorkloadPriorityClass nosuch does not exist"},
        {"job/nobody", "no Job nobody in namespace ns (-n names another)"},
        {"workload/nobody", "no Workload nobody in namespace ns"},
    };
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        const char *const with[] = {"-n", "ns", rows[i][0], "--simulate", NULL};
        assert_int_equal(run_on_with(sl_cmd_explain, with, "a.yaml", text), SL_EXIT_WRONG);
        assert_said(rows[i][1]);
    }
}

static void nobody_there_is_said_soon(void **state) {
    (void)state;
    const char *const config =
        "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: "
        "a, "
        "user: {token: x}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\n";
    const char *const verify[] = {"--timeout", "1s", "--kubeconfig", NULL}, *const status[] = {"--kubeconfig", NULL};
    assert_int_equal(run_on_with(sl_cmd_verify, verify, "kubeconfig", config), SL_EXIT_WRONG);
    assert_said("wrong: Lease c1f6bfd2.kueue.x-k8s.io: the API server did not answer in time");
    assert_int_equal(run_on_with(sl_cmd_status, status, "kubeconfig", config), SL_EXIT_FAILED);
    assert_said("sluice status: reading ");
    assert_said("did not answer in time");
}

static void the_cluster_is_found_as_kubectl_finds_it(void **state) {
    (void)state;
    const char *const config =
        "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: plug, user: {exec: {command: "
        "aws}}}]\ncontexts: [{name: a, context: {cluster: a, user: plug}}]\ncurrent-context: a\n";
    SL_AUTO_FREE char *home = sl_xstrdup(getenv("HOME")), *kube = sl_xprintf("%s/.kube", folder),
                      *path = sl_xprintf("%s/config", kube), *list = sl_xprintf("%s/nope:%s", folder, path);
    int (*const verbs[])(int, char **) = {sl_cmd_status, sl_cmd_verify};
    assert_int_equal(setenv("HOME", folder, 1) | unsetenv("KUBECONFIG") | unsetenv("KUBERNETES_SERVICE_HOST"), 0);
    for (size_t i = 0; i < SL_COUNT(verbs); i++) {
        assert_int_equal(RUN(verbs[i]), SL_EXIT_FAILED);
        assert_said("/.kube/config does not exist or has no current-context, and this is no pod");
    }
    assert_int_equal(mkdir(kube, 0700), 0);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(config, f) >= 0);
    assert_int_equal(fclose(f), 0);
    for (size_t i = 0; i < SL_COUNT(verbs); i++) {
        assert_int_equal(RUN(verbs[i]), SL_EXIT_FAILED);
        assert_said("/.kube/config: user \"plug\": user.exec is not supported: credential plugins are not run");
    }
    assert_int_equal(setenv("KUBECONFIG", list, 1) | setenv("HOME", "/nonexistent", 1), 0);
    for (size_t i = 0; i < SL_COUNT(verbs); i++) {
        assert_int_equal(RUN(verbs[i]), SL_EXIT_FAILED);
        assert_said("user.exec is not supported");
        assert_int_equal(RUN(verbs[i], "--context", "b"), SL_EXIT_FAILED);
        assert_said("contexts: there is none called \"b\"");
        assert_int_equal(RUN(verbs[i], "--kubeconfig", "/nonexistent/config"), SL_EXIT_FAILED);
        assert_said("kubeconfig: /nonexistent/config: No such file or directory");
    }
    assert_int_equal(RUN(sl_cmd_explain, "job/j", "--context", "b"), SL_EXIT_FAILED);
    assert_said("sluice explain: kubeconfig");
    assert_int_equal(RUN(sl_cmd_explain, "job/j", "--context", "b", "--simulate", folder), SL_EXIT_USAGE);
    assert_said("--simulate looks at manifests, --context at a cluster: take one");
    assert_int_equal(RUN(sl_cmd_status, "--kubeconfig", "b", "--simulate", folder), SL_EXIT_USAGE);
    assert_int_equal(unsetenv("KUBECONFIG") | setenv("HOME", home ? home : "/", 1) | unlink(path) | rmdir(kube), 0);
}

/* What is said in JSON is said in YAML. */
static void yaml_says_what_json_says(void **state) {
    (void)state;
    const char *const manifest =
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: 'on'}\nspec:\n  nope: 1\n  "
        "resourceGroups: 5\n---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: '007'}\nspec: []\n";
    const char *const scenario =
        "{\"name\":\"1e3\",\"objects\":[],\"steps\":[],\"expect\":[]}\n{\"name\":\"no\",\"objects\":[],\"steps\":[]}\n";
    static const struct {
        int (*verb)(int, char **);
        const char *words[8];
        int file; /* 1: the manifest, 2: the scenario */
    } rows[] = {
        {sl_cmd_explain, {"job/evaluate", "--simulate", "examples/quickstart", "-n", "team-vision", "-o"}, 0},
        {sl_cmd_explain, {"job/nobody", "--simulate", "examples/quickstart", "-o"}, 0},
        {sl_cmd_status, {"--simulate", "examples/quickstart", "-o"}, 0},
        {sl_cmd_simulate, {"examples/quickstart", "-o"}, 0},
        {sl_cmd_simulate, {"/nonexistent/manifests", "-o"}, 0},
        {sl_cmd_history, {"--data-dir", "/nonexistent/ledger", "-o"}, 0},
        {sl_cmd_lint, {"-o"}, 1},
        {sl_cmd_simulate, {"-o"}, 1},
        {sl_cmd_simulate, {"--scenario", "", "-o"}, 2},
    };
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        struct sl_json *is[2] = {NULL, NULL};
        int codes[2];
        SL_AUTO_FREE char *path = sl_xprintf("%s/file.yaml", folder);
        if (rows[i].file) {
            FILE *f = fopen(path, "w");
            assert_non_null(f);
            assert_true(fputs(rows[i].file == 1 ? manifest : scenario, f) >= 0);
            assert_int_equal(fclose(f), 0);
        }
        for (int yaml = 0; yaml < 2; yaml++) {
            const char *words[MAX_ARGS + 1] = {"verb"};
            size_t n = 1;
            for (size_t k = 0; rows[i].words[k]; k++)
                words[n++] = *rows[i].words[k] ? rows[i].words[k] : path;
            words[n++] = yaml ? "yaml" : "json";
            if (rows[i].file == 1)
                words[n++] = path;
            codes[yaml] = run(rows[i].verb, words);
            if (yaml)
                assert_int_equal(sl_yaml_parse(said, strlen(said), false, &is[1], NULL, NULL), 0);
            else
                is[0] = lines_said();
        }
        if (rows[i].file)
            assert_int_equal(unlink(path), 0);
        assert_int_equal(codes[0], codes[1]);
        assert_true(sl_json_len(is[0]) > 0);
        if (!sl_json_equal(is[0], is[1]))
            fail_msg("case %zu differs: %s", i, said);
        sl_json_unref(is[0]);
        sl_json_unref(is[1]);
    }
}

static void history_says_where_it_looked_for_a_ledger(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {NULL, "there is no file data.mdb in it. The manager that has the lease"},
        {"/nonexistent/ledger", "no ledger at /nonexistent/ledger: there is no such folder."},
        {"README.md", "no ledger at README.md: it is no folder."}};
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        assert_int_equal(RUN(sl_cmd_history, "--data-dir", rows[i][0] ? rows[i][0] : folder), SL_EXIT_FAILED);
        assert_said(rows[i][1]);
        assert_said("/sluice history --data-dir /var/lib/sluice\n");
        assert_null(strstr(said, "data.mdb: No such file"));
    }
    assert_int_equal(RUN(sl_cmd_history, "--data-dir", folder, "-o", "json"), SL_EXIT_FAILED);
    assert_said("{\"error\":\"no ledger at ");
}

/* That something cannot be reached does not mean that it is not there. */
static void what_cannot_be_reached_is_not_called_missing(void **state) {
    (void)state;
    SL_AUTO_FREE char *loop = sl_xprintf("%s/loop", folder);
    assert_int_equal(symlink("loop", loop), 0);
    assert_int_equal(RUN(sl_cmd_history, "--data-dir", loop), SL_EXIT_FAILED);
    assert_said("/loop: Too many levels of symbolic links");
    int (*const verbs[])(int, char **) = {sl_cmd_lint, sl_cmd_simulate};
    for (size_t i = 0; i < SL_COUNT(verbs); i++) {
        assert_int_equal(RUN(verbs[i], loop), SL_EXIT_FAILED);
        assert_said("/loop: Too many levels of symbolic links");
    }
    assert_int_equal(unlink(loop), 0);
    SL_AUTO_FREE char *ledger = sl_xprintf("%s/data.mdb", folder);
    assert_int_equal(symlink("data.mdb", ledger), 0);
    assert_int_equal(RUN(sl_cmd_history, "--data-dir", folder), SL_EXIT_FAILED);
    assert_said(": Too many levels of symbolic links. The manager");
    assert_int_equal(unlink(ledger), 0);
}

static void history_tells_gpu_hours(void **state) {
    (void)state;
    SL_AUTO_FREE char *dir = sl_xprintf("%s/ledger", folder);
    const int64_t begin = 1700000000000;
    struct sl_ledger *l = sl_ledger_open(dir, NULL, begin);
    const struct sl_ledger_amount amounts[] = {{"h100", "nvidia.com/gpu", 4, true}, {"h100", "cpu", 8000, false}};
    sl_ledger_begin(l, begin);
    sl_ledger_reserve(l, &(struct sl_ledger_reservation){.uid = "u",
                                                         .namespace = "ns",
                                                         .name = "w",
                                                         .job_kind = "Job",
                                                         .job_name = "j",
                                                         .cluster_queue = "q",
                                                         .local_queue = "q",
                                                         .why = "admitted",
                                                         .amounts = amounts,
                                                         .amount_count = 2});
    assert_int_equal(sl_ledger_commit(l, NULL), 0);
    sl_ledger_begin(l, begin + 5400000);
    sl_ledger_release(l, "u", "finished");
    assert_int_equal(sl_ledger_commit(l, NULL), 0);
    sl_ledger_close(l);

    assert_int_equal(RUN(sl_cmd_history, "--data-dir", dir), SL_EXIT_OK);
    assert_said("took            4 nvidia.com/gpu on h100  ns/w  in q  admitted");
    assert_int_equal(RUN(sl_cmd_history, "--data-dir", dir, "--gpu-time"), SL_EXIT_OK);
    assert_said("h100                   nvidia.com/gpu                  6.0            0.0");
    assert_null(strstr(said, " cpu "));
    assert_int_equal(RUN(sl_cmd_history, "--data-dir", dir, "--gpu-time", "-o", "json"), SL_EXIT_OK);
    assert_said("{\"clusterQueue\":\"q\",\"flavor\":\"h100\",\"gpuSeconds\":21600,\"ofThemRunning\":0,"
                "\"resource\":\"nvidia.com/gpu\"}");
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        SL_AUTO_FREE char *path = sl_xprintf("%s/%s", dir, e->d_name);
        (void)unlink(path); /* but for "." and ".." */
    }
    closedir(d);
    assert_int_equal(rmdir(dir), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_use_names_the_mistake),
        cmocka_unit_test(what_cannot_be_played),
        cmocka_unit_test(other_kinds_are_passed_over),
        cmocka_unit_test(a_manifest_without_kind_or_version_is_wrong),
        cmocka_unit_test(every_wrong_field_is_named),
        cmocka_unit_test(the_quick_start_is_told),
        cmocka_unit_test(a_story_ends_when_it_is_to_end),
        cmocka_unit_test(a_wait_is_explained),
        cmocka_unit_test(an_explanation_names_whose_limit_and_counts_who_holds),
        cmocka_unit_test(status_shows_both_kinds_of_queues),
        cmocka_unit_test(a_pipe_in_a_folder_is_not_waited_for),
        cmocka_unit_test(history_tells_gpu_hours),
        cmocka_unit_test(history_says_where_it_looked_for_a_ledger),
        cmocka_unit_test(what_cannot_be_reached_is_not_called_missing),
        cmocka_unit_test(the_readme_tells_the_story_as_it_is),
        cmocka_unit_test(jobs_without_a_workload_are_explained),
        cmocka_unit_test(nobody_there_is_said_soon),
        cmocka_unit_test(yaml_says_what_json_says),
        cmocka_unit_test(the_cluster_is_found_as_kubectl_finds_it),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
