/*
 * tests/golden/job-create/... belongs to the webhook. Here: tests/golden/job-start/<case>/ {in.yaml: job, infos;
 * patch.json or conflict.txt} and tests/golden/job-stop/<case>/ {in.yaml: job, workload; steps.json: every write until
 * the job is at rest}.
 */
#include "golden.h"

#include "sluice/jobs/jobkind.h"

static const struct sl_jobkind *job_kind(void) {
    return sl_jobkind_find("batch", "Job");
}

static void run_start(const char *dir) {
    SL_AUTO_JSON *in = golden_yaml(dir, "in.yaml"), *patch = NULL;
    assert_non_null(in);
    struct sl_err err = SL_ERR_INIT;
    int code = job_kind()->start_patch(sl_json_get(in, "job"), sl_json_get(in, "infos"), &patch, &err);
    assert_true(code == 0 || code == SL_CONFLICT);
    golden_check_json(dir, "patch.json", patch);
    golden_check_text(dir, "conflict.txt", code == 0 ? NULL : err.text);
}

static void run_stop(const char *dir) {
    static const char *const names[] = {"done", "suspend", "reset", "wait", "restore"};
    SL_AUTO_JSON *in = golden_yaml(dir, "in.yaml"), *steps = sl_json_new_array();
    assert_non_null(in);
    struct sl_json *job = sl_json_copy(sl_json_get(in, "job"));
    for (int i = 0;; i++) {
        assert_true(i < 8); /* comes to rest */
        struct sl_json *patch = NULL;
        enum sl_stop_step step = sl_job_stop_next(job_kind(), job, sl_json_get(in, "workload"), &patch);
        if (step == SL_STOP_DONE)
            break;
        struct sl_json *o = sl_json_new_object();
        sl_json_set_str(o, "step", names[step]);
        if (step == SL_STOP_WAIT) {
            assert_null(patch);
            sl_json_set_int(sl_json_make_object(job, "status"), "active", 0);
        } else {
            assert_non_null(patch);
            job = sl_json_merge_patch(job, patch);
            sl_json_set(o, "patch", patch);
        }
        sl_json_append(steps, o);
    }
    golden_check_json(dir, "steps.json", steps);
    sl_json_unref(job);
}

static void start_cases(void **state) {
    (void)state;
    golden_each("job-start", run_start);
}
static void stop_cases(void **state) {
    (void)state;
    golden_each("job-stop", run_stop);
}

/* A start is never larger than the API server takes, whatever the job carries already. */
static void note_of_the_start__is_left_out_when_it_has_no_room(void **state) {
    (void)state;
    for (int round = 0; round < 4; round++) {
        SL_AUTO_JSON *job = sl_json_from("{'metadata': {'name': 'j', 'annotations': {}}, 'spec': {'template': {}}}"),
                     *infos = sl_json_from("[{'name': 'main', 'labels': {}}]"), *patch = NULL;
        struct sl_json *labels = sl_json_mut(sl_json_mut_at(infos, 0), "labels");
        for (int i = 0; i < (round == 1 ? 513 : round == 2 ? 100 : 1); i++) {
            SL_AUTO_FREE char *key = sl_xprintf("%0*d", round == 2 ? 300 : 8, i);
            sl_json_set_str(labels, key, "x");
        }
        if (round == 3) {
            SL_AUTO_FREE char *much = sl_xprintf("%0262050d", 0);
            sl_json_set_str(sl_json_mut(sl_json_mut(job, "metadata"), "annotations"), "mine", much);
        }
        assert_int_equal(job_kind()->start_patch(job, infos, &patch, NULL), 0);
        bool noted = sl_json_get(sl_json_path(patch, "metadata.annotations"), "sluice.dev/undo-start") != NULL;
        assert_int_equal(noted, round == 0);
        assert_non_null(sl_json_path(patch, "spec.template.metadata.labels"));
    }
}

static void check_name(const char *kind, const char *group, const char *owner, const char *uid, const char *extra,
                       size_t max, const char *want) {
    SL_AUTO_FREE char *name = sl_job_workload_name(kind, group, owner, uid, extra, max);
    assert_string_equal(name, want);
}

static void workload_names(void **state) {
    (void)state;
    const char *uid = "11111111-2222-3333-4444-555555555555";
    check_name("Job", "batch", "name", "uid", NULL, 253, "job-name-ef3a1");
    check_name("Job", "batch", "name", "uid", "1", 253, "job-name-2514c");
    check_name("Job", "batch", "sample-job", uid, NULL, 253, "job-sample-job-fad91");
    check_name("Pod", "", "p1", uid, NULL, 253, "pod-p1-44dc4");
    check_name("StatefulSet", "apps", "web", uid, NULL, 253, "statefulset-web-92f80");
    /* Long owners that share their beginning: cut, but told apart by the hash of the whole name. */
    const char *a = "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffff-one";
    const char *b = "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffff-two";
    SL_AUTO_FREE char *x = sl_job_workload_name("Job", "batch", a, uid, NULL, 63),
                      *y = sl_job_workload_name("Job", "batch", b, uid, NULL, 63);
    assert_int_equal(strlen(x), 63);
    assert_int_equal(strlen(y), 63);
    assert_string_not_equal(x, y);
    assert_memory_equal(x, y, 57);
}

static void registry(void **state) {
    (void)state;
    assert_ptr_equal(sl_jobkind_by_integration("batch/job"), sl_jobkind_at(0));
    assert_null(sl_jobkind_by_integration("batch/jobs"));
    SL_AUTO_JSON *job = sl_json_from("{'apiVersion': 'batch/v1', 'kind': 'Job'}"),
                 *other = sl_json_from("{'apiVersion': 'batch2/v1', 'kind': 'Job'}");
    assert_ptr_equal(sl_jobkind_of(job), sl_jobkind_at(0));
    assert_null(sl_jobkind_of(other));
    assert_null(sl_jobkind_of(NULL));
}

#define JOB_HEAD                                                                                                       \
    "'apiVersion': 'batch/v1', 'kind': 'Job', 'metadata': {'name': 'train', 'namespace': 'team-a', 'uid': 'u-1'"

static void the_workload_of_a_job(void **state) {
    (void)state;
    SL_AUTO_JSON *job =
        sl_json_from("{" JOB_HEAD ", 'resourceVersion': '7', 'labels': {'kueue.x-k8s.io/queue-name': 'a', "
                     "'kueue.x-k8s.io/max-exec-time-seconds': '60',"
                     "  'team': 'red', 'other': 'x'}, 'annotations': {'kueue.x-k8s.io/job-min-parallelism': '2', "
                     "'kueue.x-k8s.io/admission-gated-by': 'a.b/c',"
                     "  'provreq.kueue.x-k8s.io/x': '1', 'mine': '2'}},"
                     " 'spec': {'suspend': true, 'parallelism': 4, 'completions': 3, 'template': {'metadata': "
                     "{'creationTimestamp': null, 'labels': {"
                     "  'job-name': 'train', 'controller-uid': 'u-1', 'batch.kubernetes.io/controller-uid': 'u-1', "
                     "'batch.kubernetes.io/job-name': 'train'},"
                     "  'annotations': {'kueue.x-k8s.io/podset-preferred-topology': 'rack'}},"
                     "  'spec': {'priorityClassName': 'high', 'initContainers': [{'name': 'i', 'env': [{'name': 'A', "
                     "'value': '1'}, {'name': 'A', 'value': '2'}]}],"
                     "  'containers': [{'name': 'c', 'env': [{'name': 'A', 'value': '1'}, {'name': 'B', 'value': '2'},"
                     "    {'name': 'A', 'valueFrom': {'fieldRef': {'fieldPath': 'metadata.name'}}}]}]}}}}");
    SL_AUTO_JSON *want = sl_json_from(
        "{'apiVersion': 'kueue.x-k8s.io/v1beta2', 'kind': 'Workload', 'metadata': {'name': 'job-train-6c442', "
        "'namespace': 'team-a',"
        "  'ownerReferences': [{'apiVersion': 'batch/v1', 'kind': "
        "'Job', 'name': 'train',"
        "   'uid': 'u-1', 'controller': true, 'blockOwnerDeletion': true}],"
        "  'labels': {'kueue.x-k8s.io/job-uid': 'u-1', 'team': 'red'},"
        "  'annotations': {'kueue.x-k8s.io/admission-gated-by': 'a.b/c', 'provreq.kueue.x-k8s.io/x': '1'}},"
        " 'spec': {'active': true, 'queueName': 'a', 'priority': 5, 'maximumExecutionTimeSeconds': 60,"
        "  'priorityClassRef': {'group': 'scheduling.k8s.io', 'kind': 'PriorityClass', 'name': 'high'},"
        "  'podSets': [{'name': 'main', 'count': 3, 'minCount': 2,"
        "   'topologyRequest': {'podIndexLabel': 'batch.kubernetes.io/job-completion-index', 'preferred': 'rack'},"
        "   'template': {'metadata': {'labels': {'batch.kubernetes.io/job-name': 'train'},"
        "     'annotations': {'kueue.x-k8s.io/podset-preferred-topology': 'rack'}},"
        "    'spec': {'priorityClassName': 'high', 'initContainers': [{'name': 'i', 'env': [{'name': 'A', 'value': "
        "'2'}]}],"
        "    'containers': [{'name': 'c', 'env': [{'name': 'A', 'valueFrom': {'fieldRef': {'fieldPath': "
        "'metadata.name'}}},"
        "     {'name': 'B', 'value': '2'}]}]}}}]}}");
    static const char *const copy[] = {"team", "absent", NULL};
    SL_AUTO_JSON *podsets = NULL, *w = NULL;
    assert_int_equal(job_kind()->podsets(job, &podsets, NULL), 0);
    const char *class = sl_job_pod_priority_class(podsets);
    assert_string_equal(class, "high");
    struct sl_job_workload_input in = {job_kind(), job, copy, class, true, 5, false};
    assert_int_equal(sl_job_workload(&in, &w, NULL), 0);
    char *name = sl_job_workload_name("Job", "batch", "train", "u-1", NULL, 253);
    sl_json_set_str(sl_json_mut(want, "metadata"), "name", name);
    free(name);
    SL_AUTO_FREE char *a = sl_json_text(w), *b = sl_json_text(want);
    assert_string_equal(a, b);
    assert_true(sl_job_equivalent(job_kind(), job, w, NULL));
}

static int64_t count_of(const char *spec) {
    SL_AUTO_JSON *job = sl_json_fromf("{'spec': %s}", spec), *podsets = NULL;
    assert_int_equal(job_kind()->podsets(job, &podsets, NULL), 0);
    return sl_json_int(sl_json_path(podsets, "0.count"), -1);
}

static void counts(void **state) {
    (void)state;
    assert_int_equal(count_of("{'template': {}}"), 1);
    assert_int_equal(count_of("{'parallelism': 0, 'template': {}}"), 0);
    assert_int_equal(count_of("{'parallelism': 5, 'completions': 3, 'template': {}}"), 3);
    assert_int_equal(count_of("{'parallelism': 3, 'completions': null, 'template': {}}"), 3);
    assert_int_equal(count_of("{'parallelism': 3, 'completions': 9, 'template': {}}"), 3);
    SL_AUTO_JSON *job = sl_json_from("{'spec': {}}"), *podsets = NULL;
    struct sl_err err = SL_ERR_INIT;
    assert_int_equal(job_kind()->podsets(job, &podsets, &err), SL_INVALID);
    assert_string_equal(err.text, "spec.template: Required value");
}

/* -1: nothing reclaimable */
static int64_t reclaimable_of(const char *spec, const char *status) {
    SL_AUTO_JSON *job = sl_json_fromf("{'spec': %s, 'status': %s}", spec, status), *list = job_kind()->reclaimable(job);
    return sl_json_int(sl_json_path(list, "0.count"), -1);
}

static void reclaimable(void **state) {
    (void)state;
    const char *plain = "{'parallelism': 3, 'completions': 5}",
               *indexed = "{'parallelism': 3, 'completions': 3, 'completionMode': 'Indexed'}";
    assert_int_equal(reclaimable_of(plain, "{}"), -1);
    assert_int_equal(reclaimable_of(plain, "{'succeeded': 2}"), -1);
    assert_int_equal(reclaimable_of(plain, "{'succeeded': 3}"), 1);
    assert_int_equal(reclaimable_of(plain, "{'succeeded': 5}"), 3);
    assert_int_equal(reclaimable_of("{'parallelism': 3}", "{'succeeded': 1}"), 1);
    assert_int_equal(reclaimable_of("{'parallelism': 1, 'completions': 1}", "{'succeeded': 1}"), -1);
    /* One index completed, one failed, one active: one is still charged. */
    assert_int_equal(reclaimable_of(indexed, "{'succeeded': 1, 'completedIndexes': '0', 'failedIndexes': '1'}"), 2);
    assert_int_equal(reclaimable_of(indexed, "{'completedIndexes': '0-1', 'failedIndexes': '1'}"), 2);
    assert_int_equal(reclaimable_of(indexed, "{'completedIndexes': '2,7-9', 'failedIndexes': '5'}"), 1);
    assert_int_equal(reclaimable_of("{'parallelism': 4, 'completions': 10, 'completionMode': 'Indexed'}",
                                    "{'completedIndexes': '0,2-4', 'failedIndexes': '1,3,8'}"),
                     -1);
    assert_int_equal(reclaimable_of("{'parallelism': 6, 'completions': 10, 'completionMode': 'Indexed'}",
                                    "{'completedIndexes': '0,2-4', 'failedIndexes': '1,3,8'}"),
                     2);
    assert_int_equal(reclaimable_of(indexed, "{'succeeded': 1, 'completedIndexes': '0,x'}"),
                     1); /* unreadable: the number */
    /* Fewer completions than parallelism: three pods are left of the five that were counted. */
    assert_int_equal(reclaimable_of("{'parallelism': 10, 'completions': 5}", "{'succeeded': 2}"), 2);
}

static void states(void **state) {
    (void)state;
    bool success = true;
    const char *message = NULL;
    SL_AUTO_JSON *job =
        sl_json_from("{'spec': {'parallelism': 2, 'suspend': true}, 'status': {'active': 2, 'ready': 1, 'conditions': ["
                     "{'type': 'Suspended', 'status': 'True'}, {'type': 'Failed', 'status': 'False'}]}}");
    assert_false(job_kind()->finished(job, &success, &message));
    assert_false(job_kind()->pods_ready(job));
    assert_int_equal(job_kind()->active_pods(job), 2);
    assert_true(job_kind()->suspended(job));
    SL_AUTO_JSON *failed = sl_json_from("{'metadata': {'annotations': {'kueue.x-k8s.io/stopping': 'true'}}, 'spec': "
                                        "{'parallelism': 2, 'suspend': true},"
                                        " 'status': {'succeeded': 1, 'ready': 1, 'conditions': [{'type': 'Failed', "
                                        "'status': 'True', 'message': 'why'}]}}");
    assert_true(job_kind()->finished(failed, &success, &message));
    assert_false(success);
    assert_string_equal(message, "why");
    assert_true(job_kind()->pods_ready(failed));
    assert_false(job_kind()->suspended(failed));
    SL_AUTO_JSON *done = sl_json_from("{'status': {'conditions': [{'type': 'Complete', 'status': 'True'}]}}");
    assert_true(job_kind()->finished(done, &success, &message));
    assert_true(success);
    assert_string_equal(message, "");
}

static const char workload_text[] =
    "{'metadata': {'ownerReferences': [{'name': 'train', 'uid': 'u-1', 'controller': true}]}, 'spec': {'podSets': "
    "[{'name': 'main', 'count': 2,"
    " 'template': {'spec': {'containers': [{'name': 'c', 'resources': {'requests': {'cpu': '1'}}}]}}}]}}";

static bool equivalent(const char *job_spec, const char *workload_status, const char *infos_text) {
    SL_AUTO_JSON *job = sl_json_fromf("{" JOB_HEAD "}, 'spec': %s}", job_spec), *w = sl_json_from(workload_text);
    SL_AUTO_JSON *infos = infos_text ? sl_json_from(infos_text) : NULL;
    sl_json_set(w, "status", sl_json_from(workload_status));
    return sl_job_equivalent(job_kind(), job, w, infos);
}

static void equivalence(void **state) {
    (void)state;
    const char *containers =
        "'containers': [{'name': 'c', 'env': [], 'resources': {'limits': {}, 'requests': {'cpu': '1000m'}}}]";
    SL_AUTO_FREE char *plain =
        sl_xprintf("{'suspend': true, 'parallelism': 2, 'template': {'spec': {%s}}}", containers);
    assert_true(equivalent(plain, "{}", NULL));
    assert_false(equivalent("{'parallelism': 2, 'template': {'spec': {'containers': [{'name': 'c', 'resources': "
                            "{'requests': {'cpu': '2'}}}]}}}",
                            "{}", NULL));
    SL_AUTO_FREE char *other_count = sl_xprintf("{'parallelism': 3, 'template': {'spec': {%s}}}", containers);
    assert_false(equivalent(other_count, "{}", NULL));
    SL_AUTO_FREE char *labelled = sl_xprintf("{'parallelism': 2, 'template': {'metadata': {'labels': {'a': 'b'}}, "
                                             "'spec': {'nodeSelector': {'x': 'y'}, %s}}}",
                                             containers);
    assert_true(equivalent(labelled, "{}", NULL));
    SL_AUTO_FREE char *tolerating =
        sl_xprintf("{'parallelism': 2, 'template': {'spec': {'tolerations': [{'key': 'k'}], %s}}}", containers);
    assert_false(equivalent(tolerating, "{}", NULL));
    assert_true(equivalent(tolerating, "{'conditions': [{'type': 'Admitted', 'status': 'True'}]}", NULL));
    assert_true(equivalent(tolerating, "{}", "[{'name': 'main', 'tolerations': [{'key': 'k'}]}]"));
    /* Quota is held: the running form, or, suspended, the stored one. */
    assert_true(equivalent(plain, "{}", "[{'name': 'main', 'count': 1}]"));
    SL_AUTO_FREE char *partial = sl_xprintf("{'parallelism': 1, 'template': {'spec': {%s}}}", containers);
    assert_true(equivalent(partial, "{}", "[{'name': 'main', 'count': 1}]"));
    assert_false(equivalent(other_count, "{}", "[{'name': 'main', 'count': 1}]"));
    SL_AUTO_JSON *stranger = sl_json_fromf("{'metadata': {'name': 'train', 'uid': 'u-2'}, 'spec': %s}", plain),
                 *w = sl_json_from(workload_text);
    assert_false(sl_job_equivalent(job_kind(), stranger, w, NULL));
    SL_AUTO_JSON *timed =
        sl_json_fromf("{" JOB_HEAD ", 'labels': {'kueue.x-k8s.io/max-exec-time-seconds': '5'}}, 'spec': %s}", plain);
    assert_false(sl_job_equivalent(job_kind(), timed, w, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(start_cases),           cmocka_unit_test(stop_cases),
        cmocka_unit_test(workload_names),        cmocka_unit_test(registry),
        cmocka_unit_test(the_workload_of_a_job), cmocka_unit_test(counts),
        cmocka_unit_test(reclaimable),           cmocka_unit_test(states),
        cmocka_unit_test(equivalence),           cmocka_unit_test(note_of_the_start__is_left_out_when_it_has_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
