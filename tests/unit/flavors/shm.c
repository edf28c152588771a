/*
 * tests/golden/shm/<case>/: in.yaml {template, job, flavors: [{labels, annotations}], localqueue, namespace,
 * clusterqueue (annotations each), kind, config}; plan.json {volume, new, size, mounts}, absent when nothing is added;
 * warnings.txt, one a line.
 */
#include "golden.h"

#include "sluice/api/decode.h"
#include "sluice/flavors/shm.h"

#define MAX_FLAVORS 8

static struct sl_json *mounts_of(const struct sl_json *template, const struct sl_shm_plan *p) {
    struct sl_json *names = sl_json_new_array();
    SL_JSON_ITEMS (sl_json_path(template, "spec.containers"), e)
        if (p->regular[e.i])
            sl_json_append(names, sl_json_new_str(sl_json_get_str(e.value, "name", "?")));
    SL_JSON_ITEMS (sl_json_path(template, "spec.initContainers"), e)
        if (p->init[e.i])
            sl_json_append(names, sl_json_new_str(sl_json_get_str(e.value, "name", "?")));
    return names;
}

static void check_applied(const struct sl_json *before, const struct sl_json *after, const struct sl_shm_plan *p) {
    const struct sl_json *old = sl_json_path(before, "spec.volumes"), *volumes = sl_json_path(after, "spec.volumes");
    assert_int_equal(sl_json_len(volumes), sl_json_len(old) + p->new_volume);
    if (p->new_volume) {
        const struct sl_json *last = sl_json_at(volumes, sl_json_len(volumes) - 1);
        assert_string_equal(sl_json_get_str(last, "name", ""), p->volume);
        assert_string_equal(sl_json_path_str(last, "emptyDir.medium", ""), "Memory");
        SL_AUTO_FREE char *size = sl_xprintf("%lldMi", (long long)p->size_mi);
        assert_string_equal(sl_json_path_str(last, "emptyDir.sizeLimit", ""), size);
    }
}

static void run_case(const char *dir) {
    SL_AUTO_JSON *in = golden_yaml(dir, "in.yaml");
    assert_non_null(in);
    static const char *const levels[] = {"localqueue", "namespace", "clusterqueue"};
    struct sl_labels level[3], labels[MAX_FLAVORS], annotations[MAX_FLAVORS];
    const struct sl_labels *label_ptrs[MAX_FLAVORS], *annotation_ptrs[MAX_FLAVORS];
    for (size_t i = 0; i < 3; i++)
        sl_labels_decode(sl_json_get(in, levels[i]), NULL, &level[i]);
    size_t n = 0;
    SL_JSON_ITEMS (sl_json_get(in, "flavors"), e) {
        assert_true(n < MAX_FLAVORS);
        sl_labels_decode(sl_json_get(e.value, "labels"), NULL, &labels[n]);
        sl_labels_decode(sl_json_get(e.value, "annotations"), NULL, &annotations[n]);
        label_ptrs[n] = &labels[n];
        annotation_ptrs[n] = &annotations[n];
        n++;
    }
    const struct sl_json *c = sl_json_get(in, "config");
    struct sl_shm_config config = SL_SHM_CONFIG_DEFAULT;
    config.size = sl_json_get_str(c, "size", config.size);
    config.scope = sl_json_get_str(c, "scope", config.scope);
    config.max = sl_json_get_int(c, "max", config.max);
    SL_AUTO_JSON *template = sl_json_copy(sl_json_get(in, "template"));
    struct sl_shm_input input = {
        .pod_template = sl_json_get(in, "template"),
        .job_annotations = sl_json_get(in, "job"),
        .kind = sl_json_get_str(in, "kind", "Job"),
        .config = &config,
        .flavor_labels = label_ptrs,
        .flavor_annotations = annotation_ptrs,
        .n_flavors = n,
        .localqueue = &level[0],
        .ns = &level[1],
        .clusterqueue = &level[2],
    };
    struct sl_shm_plan plan;
    sl_shm_plan(&input, &plan);
    struct sl_json *got = NULL;
    if (plan.inject) {
        got = sl_json_new_object();
        sl_json_set_str(got, "volume", plan.volume);
        sl_json_set_bool(got, "new", plan.new_volume);
        if (plan.new_volume)
            sl_json_set(got, "size", sl_json_new_strf("%lldMi", (long long)plan.size_mi));
        sl_json_set(got, "mounts", mounts_of(template, &plan));
        assert_int_equal(plan.mounts, sl_json_len(sl_json_get(got, "mounts")));
    }
    struct sl_buf text = SL_BUF_INIT(65536);
    SL_JSON_ITEMS (plan.warnings, e)
        sl_buf_printf(&text, "%s%s", e.i ? "\n" : "", sl_json_str(e.value, ""));
    sl_shm_apply(&plan, template);
    check_applied(input.pod_template, template, &plan);
    golden_check_json(dir, "plan.json", got);
    golden_check_text(dir, "warnings.txt", text.len ? sl_buf_text(&text) : NULL);
    sl_json_unref(got);
    sl_buf_done(&text);
    sl_shm_plan_done(&plan);

    input.pod_template = template; /* once is enough */
    sl_shm_plan(&input, &plan);
    assert_false(plan.inject);
    sl_shm_plan_done(&plan);
    for (size_t i = 0; i < 3; i++)
        sl_labels_done(&level[i]);
    for (size_t i = 0; i < n; i++) {
        sl_labels_done(&labels[i]);
        sl_labels_done(&annotations[i]);
    }
}

static void cases(void **state) {
    (void)state;
    golden_each("shm", run_case);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
