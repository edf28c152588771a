/*
 * tests/golden/requests/<case>/: in.yaml {spec, limitRanges, runtimeClasses: {name: podFixed}, resources},
 * requests.json {resource: amount in the engine's units}, rejected.txt when the pod set may not run.
 */
#include "golden.h"

#include "sluice/api/decode.h"
#include "sluice/jobs/podspec.h"

static const struct sl_json *overhead(void *arg, const char *name) {
    return sl_json_get(arg, name);
}

static void run_case(const char *dir) {
    struct sl_json *in = golden_yaml(dir, "in.yaml");
    assert_non_null(in);
    struct sl_limits *limits = sl_limits_new();
    SL_JSON_ITEMS (sl_json_get(in, "limitRanges"), e)
        sl_limits_add(limits, e.value);
    SL_AUTO_JSON *document = sl_json_from("{'apiVersion':'config.kueue.x-k8s.io/v1beta2','kind':'Configuration'}");
    if (sl_json_get(in, "resources"))
        sl_json_set(document, "resources", sl_json_copy(sl_json_get(in, "resources")));
    struct sl_config config;
    struct sl_err err = SL_ERR_INIT;
    if (sl_config_parse(document, &config, NULL, &err) < 0)
        fail_msg("%s: %s", dir, err.text);
    struct sl_podspec_context ctx = {limits, &config, overhead, sl_json_mut(in, "runtimeClasses")};
    struct sl_requests requests;
    char *rejected;
    char *before = sl_json_text(in);
    sl_podspec_requests(sl_json_get(in, "spec"), "spec", &ctx, &requests, &rejected);
    char *after = sl_json_text(in);
    assert_string_equal(before, after);
    struct sl_json *got = sl_json_new_object();
    for (size_t i = 0; i < requests.n; i++) {
        if (i)
            assert_true(strcmp(requests.items[i - 1].resource, requests.items[i].resource) < 0);
        sl_json_set_int(got, requests.items[i].resource, requests.items[i].amount);
    }
    golden_check_json(dir, "requests.json", got);
    golden_check_text(dir, "rejected.txt", rejected);
    free(before);
    free(after);
    free(rejected);
    sl_requests_done(&requests);
    sl_json_unref(got);
    sl_json_unref(in);
    sl_limits_free(limits);
    sl_config_done(&config);
}

static void cases(void **state) {
    (void)state;
    golden_each("requests", run_case);
}

static uint64_t shape_of(const char *text) {
    struct sl_json *j = sl_json_from(text);
    uint64_t shape = sl_podspec_shape(j, NULL);
    sl_json_unref(j);
    assert_true(shape != 0);
    return shape;
}

static void shape_ignores_names_and_sees_requests(void **state) {
    (void)state;
    uint64_t a =
        shape_of("{'containers': [{'name': 'a', 'image': 'x', 'resources': {'requests': {'cpu': 1, 'memory': 2}}}]}");
    assert_true(a == shape_of("{'containers': [{'image': 'y', 'name': 'b', 'resources': {'limits': {'cpu': 3}, "
                              "'requests': {'memory': 2, 'cpu': 1}}}]}"));
    assert_true(a != shape_of("{'containers': [{'resources': {'requests': {'cpu': 2, 'memory': 2}}}]}"));
    assert_true(a != shape_of("{'initContainers': [{'resources': {'requests': {'cpu': 1, 'memory': 2}}}]}"));
    assert_true(
        a !=
        shape_of("{'nodeSelector': {'a': 'b'}, 'containers': [{'resources': {'requests': {'cpu': 1, 'memory': 2}}}]}"));
    assert_true(a != shape_of("{'priority': 5, 'containers': [{'resources': {'requests': {'cpu': 1, 'memory': 2}}}]}"));
}

/* Two pod sets of a Workload; the second one is wrong, and says where. */
static void a_workload_is_filled_in(void **state) {
    (void)state;
    struct sl_json *o = sl_json_from("{'metadata': {'name': 'w', 'namespace': 'n', 'uid': 'u'}, 'spec': {'podSets': ["
                                     "{'name': 'a', 'count': 2, 'template': {'spec': {'containers': [{'resources': "
                                     "{'requests': {'cpu': '500m'}}}]}}},"
                                     "{'name': 'b', 'count': 1, 'template': {'spec': {'containers': [{'resources': "
                                     "{'requests': {'cpu': '2'}, 'limits': {'cpu': '1'}}}]}}}]}}");
    struct sl_workload *w = NULL;
    assert_int_equal(sl_workload_decode(o, &w, NULL), 0);
    for (int twice = 0; twice < 2; twice++) {
        sl_workload_fill_podsets(w, o, NULL);
        assert_int_equal(w->podsets[0].per_pod.n, 1);
        assert_int_equal(w->podsets[0].per_pod.items[0].amount, 500);
        assert_int_equal(w->podsets[1].per_pod.items[0].amount, 2000);
        assert_non_null(strstr(w->rejected, "spec.podSets[1].template.spec.containers[0].resources.requests[cpu]"));
    }
    sl_workload_free(w);
    sl_json_unref(o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases),
        cmocka_unit_test(shape_ignores_names_and_sees_requests),
        cmocka_unit_test(a_workload_is_filled_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
