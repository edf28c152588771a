#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/base/mem.h"
#include "sluice/flavors/gpu.h"

static void check_class(const char *name, enum sl_gpu_mode mode, enum sl_gpu_count count) {
    struct sl_gpu_class c = sl_gpu_classify(NULL, name);
    if (c.mode != mode || c.count != count)
        fail_msg("%s: mode %d count %d", name, c.mode, c.count);
}

static void names_are_classified(void **state) {
    (void)state;
    check_class("nvidia.com/gpu", SL_GPU_WHOLE, SL_GPU_COUNT_QUANTITY);
    check_class("nvidia.com/gpu.shared", SL_GPU_SHARED, SL_GPU_COUNT_ONE);
    check_class("nvidia.com/mig-1g.10gb", SL_GPU_MIG, SL_GPU_COUNT_ONE);
    check_class("nvidia.com/mig-1g.10gb.shared", SL_GPU_SHARED, SL_GPU_COUNT_ONE);
    check_class("nvidia.com/mig-new", SL_GPU_MIG, SL_GPU_COUNT_ONE);
    check_class("nvidia.com/gpumem", SL_GPU_MEM, SL_GPU_COUNT_NONE);
    check_class("nvidia.com/gpucores", SL_GPU_CORE, SL_GPU_COUNT_NONE);
    check_class("nvidia.com/priority", SL_GPU_MON, SL_GPU_COUNT_NONE);
    check_class("nvidia.com/hostdev", SL_GPU_NONE, SL_GPU_COUNT_NONE);
    check_class("amd.com/gpu", SL_GPU_WHOLE, SL_GPU_COUNT_QUANTITY);
    check_class("amd.com/cpx_nps4", SL_GPU_MIG, SL_GPU_COUNT_ONE);
    check_class("huawei.com/Ascend910B", SL_GPU_WHOLE, SL_GPU_COUNT_QUANTITY);
    check_class("huawei.com/Ascend910B-memory", SL_GPU_MEM, SL_GPU_COUNT_NONE);
    check_class("huawei.com/npu-core", SL_GPU_CORE, SL_GPU_COUNT_NONE);
    check_class("rdma/ib", SL_GPU_NIC, SL_GPU_COUNT_NONE);
    check_class("google.com/tpu", SL_GPU_WHOLE, SL_GPU_COUNT_QUANTITY);
    check_class("deviceclass.resource.kubernetes.io/gpu", SL_GPU_WHOLE, SL_GPU_COUNT_QUANTITY);
    check_class("cpu", SL_GPU_NONE, SL_GPU_COUNT_NONE);
    check_class("example.com/gpu", SL_GPU_NONE, SL_GPU_COUNT_NONE);
    check_class("", SL_GPU_NONE, SL_GPU_COUNT_NONE);
}

static void configured_rows_come_first(void **state) {
    (void)state;
    static const char *const rows[] = {"nvidia.com/gpu-*", "nvidia.com/gpu=MON", "acme.com/part=SHARED",
                                       "acme.com/*=MIG:quantity"};
    struct sl_gpu_rules *r = NULL;
    assert_int_equal(sl_gpu_rules_new(rows, SL_COUNT(rows), &r, NULL), 0);
    assert_int_equal(sl_gpu_classify(r, "nvidia.com/gpu-a100").mode, SL_GPU_WHOLE);
    assert_int_equal(sl_gpu_classify(r, "nvidia.com/gpu").mode, SL_GPU_MON);
    assert_int_equal(sl_gpu_classify(r, "acme.com/part").count, SL_GPU_COUNT_ONE);
    assert_int_equal(sl_gpu_classify(r, "acme.com/x").count, SL_GPU_COUNT_QUANTITY);
    assert_int_equal(sl_gpu_classify(r, "amd.com/gpu").mode, SL_GPU_WHOLE);
    sl_gpu_rules_free(r);
    static const char *const wrong[] = {"", "=WHOLE", "a/*b*", "a/b=whole", "a/b=MIG:two"};
    for (size_t i = 0; i < SL_COUNT(wrong); i++) {
        struct sl_err err = SL_ERR_INIT;
        r = NULL;
        assert_int_equal(sl_gpu_rules_new(&wrong[i], 1, &r, &err), SL_INVALID);
        assert_null(r);
        assert_non_null(strstr(err.text, wrong[i]));
    }
}

static void check_mig(const char *name, int compute, int memory, bool shared) {
    struct sl_mig_profile m;
    if (!sl_mig_parse(name, &m) || m.compute != compute || m.memory_gb != memory || m.shared != shared)
        fail_msg("%s", name);
}

static void mig_profiles(void **state) {
    (void)state;
    struct sl_mig_profile m;
    check_mig("nvidia.com/mig-1g.5gb", 1, 5, false);
    check_mig("nvidia.com/mig-7g.141gb", 7, 141, false);
    check_mig("nvidia.com/mig-1g.5gb.me", 1, 5, false);
    check_mig("nvidia.com/mig-1g.24gb.me.all", 1, 24, false);
    check_mig("nvidia.com/mig-1g.24gb-me", 1, 24, false);
    check_mig("nvidia.com/mig-1g.24gb.gfx.shared", 1, 24, true);
    static const char *const wrong[] = {"nvidia.com/mig-",          "nvidia.com/mig-1g",
                                        "nvidia.com/mig-1g.gb",     "nvidia.com/mig-1g.5gb.",
                                        "nvidia.com/mig-1g.5gb+me", "nvidia.com/mig-99999999999g.5gb",
                                        "amd.com/mig-1g.5gb"};
    for (size_t i = 0; i < SL_COUNT(wrong); i++)
        assert_false(sl_mig_parse(wrong[i], &m));
}

static struct sl_gpu_use scan(const char *template) {
    SL_AUTO_JSON *t = sl_json_from(template);
    return sl_gpu_scan(NULL, t);
}

static void templates(void **state) {
    (void)state;
    struct sl_gpu_use u = scan("{'spec': {'containers': [{'resources': {'limits': {'cpu': 1}}}]}}");
    assert_false(u.gpu);
    assert_int_equal(u.devices, 0);
    assert_false(scan("{'spec': {'containers': [{'resources': {'limits': {'nvidia.com/gpu': 0}}}]}}").gpu);
    assert_false(
        scan("{'spec': {'containers': [{'resources': {'limits': {'rdma/ib': 1, 'nvidia.com/priority': 1}}}]}}").gpu);
    assert_false(scan("{'spec': {'containers': [{'resources': {'limits': {'nvidia.com/gpu': 'x'}}}]}}").gpu);
    /* the most of one container, not the sum; an init container counts; limits and requests of one name once */
    u = scan("{'spec': {'initContainers': [{'resources': {'limits': {'nvidia.com/gpu': 2}}}], 'containers': "
             "[{'resources': {'limits': {'nvidia.com/gpu': 1},"
             " 'requests': {'nvidia.com/gpu': 1}}}, {}]}}");
    assert_true(u.gpu && !u.fractional);
    assert_int_equal(u.devices, 2);
    assert_int_equal(
        scan("{'spec': {'containers': [{'resources': {'limits': {'nvidia.com/mig-1g.5gb': 3, 'nvidia.com/gpu': 2}}}]}}")
            .devices,
        3);
    assert_int_equal(
        scan("{'spec': {'containers': [{'resources': {'requests': {'nvidia.com/gpumem': 1000}}}]}}").devices, 1);
    assert_int_equal(scan("{'spec': {'containers': [{'resources': {'limits': {'nvidia.com/gpu': '9223372036854775807', "
                          "'amd.com/gpu': 1}}}]}}")
                         .devices,
                     INT64_MAX);
    u = scan("{'metadata': {'annotations': {'gpu-fraction': '0.5'}}, 'spec': {'containers': [{}]}}");
    assert_true(u.gpu && u.fractional);
    assert_int_equal(u.devices, 1);
    assert_true(scan("{'metadata': {'annotations': {'gpu-memory': '2000'}}}").gpu);
    assert_false(scan("{'metadata': {'annotations': {'gpu-memory': '40Gi'}}}").gpu);
    assert_false(scan("{'metadata': {'annotations': {'gpu-fraction': '1'}}}").gpu);
    assert_false(scan("[]").gpu);
}

static void resource_names(void **state) {
    (void)state;
    SL_AUTO_JSON *t =
        sl_json_from("{'spec': {'containers': [{'resources': {'limits': {'cpu': 1, 'nvidia.com/gpu': 1}, 'requests': "
                     "{'nvidia.com/gpu': 1,"
                     " 'amd.com/gpu': 1, 'rdma/ib': 1}}}, {'resources': {'limits': {'google.com/tpu': 1}}}]}}");
    const char *names[2];
    assert_int_equal(sl_gpu_resources(NULL, t, names, 2), 2);
    assert_string_equal(names[0], "nvidia.com/gpu");
    assert_string_equal(names[1], "amd.com/gpu");
}

static void check_warnings(const char *template, bool builtin, const char *const *want) {
    SL_AUTO_JSON *t = sl_json_from(template), *out = sl_json_new_array();
    sl_gpu_warnings(NULL, t, 2, builtin, out);
    size_t n = 0;
    for (; want[n]; n++)
        if (!strstr(sl_json_str(sl_json_at(out, n), ""), want[n]))
            fail_msg("want %s, got %s", want[n], sl_json_str(sl_json_at(out, n), "(nothing)"));
    if (sl_json_len(out) != n)
        fail_msg("unexpected: %s", sl_json_str(sl_json_at(out, n), ""));
}
#define CONTAINER(fields) "{'spec': {'containers': [{'name': 'c', " fields "}]}}"
#define EXPECT(...)       ((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static void warnings(void **state) {
    (void)state;
    check_warnings(CONTAINER("'resources': {'limits': {'nvidia.com/gpu': 1}}"), true, EXPECT());
    check_warnings(CONTAINER("'env': [{'name': 'NVIDIA_VISIBLE_DEVICES', 'value': 'all'}], 'resources': {'limits': "
                             "{'nvidia.com/gpu': 1}}"),
                   true, EXPECT("W1: container c sets"));
    check_warnings(CONTAINER("'env': [{'name': 'NVIDIA_VISIBLE_DEVICES', 'value': 'all'}]"), true,
                   EXPECT("W1: container c asks for no GPU"));
    check_warnings(CONTAINER("'env': [{'name': 'NVIDIA_VISIBLE_DEVICES', 'value': 'void'}]"), true, EXPECT());
    check_warnings(CONTAINER("'securityContext': {'privileged': true}, 'resources': {'limits': {'nvidia.com/gpu': 1}}"),
                   true, EXPECT("W2"));
    check_warnings(CONTAINER("'resources': {'limits': {'nvidia.com/gpu': '500m'}}"), false, EXPECT("W3"));
    check_warnings(CONTAINER("'resources': {'limits': {'nvidia.com/gpu': '500m'}}"), true, EXPECT());
    check_warnings(CONTAINER("'resources': {'limits': {'nvidia.com/gpu': 1}, 'requests': {'nvidia.com/gpu': 2}}"),
                   false, EXPECT("W3"));
    check_warnings(CONTAINER("'resources': {'requests': {'nvidia.com/gpu': 2}}"), false, EXPECT("W3"));
    check_warnings(CONTAINER("'resources': {'limits': {'nvidia.com/gpu': 1, 'nvidia.com/gpumem': '10Gi'}}"), true,
                   EXPECT("W4"));
    check_warnings(CONTAINER("'resources': {'limits': {'nvidia.com/gpumem': 3000}}"), true,
                   EXPECT("outside the quota"));
    check_warnings("{'spec': {'tolerations': [{'operator': 'Exists'}]}}", true, EXPECT("W10"));
    check_warnings("{'spec': {'tolerations': [{'key': 'a', 'operator': 'Exists'}]}}", true, EXPECT());
    check_warnings(CONTAINER("'resources': {'limits': {'rdma/ib': 1}}"), true, EXPECT("W18"));
    check_warnings(
        CONTAINER(
            "'securityContext': {'capabilities': {'add': ['IPC_LOCK']}}, 'resources': {'limits': {'rdma/ib': 1}}"),
        true, EXPECT());
    check_warnings(CONTAINER("'resources': {'limits': {'nvidia.com/mig-1g.5gb': 2, 'nvidia.com/gpu': 1}}"), true,
                   EXPECT("W21", "W23", "W22"));
    check_warnings(CONTAINER("'resources': {'limits': {'nvidia.com/gpu.shared': 1}}"), true, EXPECT("W22"));
    check_warnings(
        "{'metadata': {'annotations': {'gpu-fraction': '1.5', 'gpu-memory': '1Gi', 'gpu-fraction-num-devices': '0',"
        " 'gpu-fraction-container-name': 'x'}}, 'spec': {'containers': [{'name': 'c', 'resources': {'limits': "
        "{'nvidia.com/gpu': 1}}}]}}",
        true,
        EXPECT("gpu-fraction must be", "gpu-memory must be", "exclude each other", "num-devices must be",
               "no container \"x\"", "excludes GPU limits"));
    check_warnings("{'metadata': {'annotations': {'gpu-fraction-num-devices': '2', 'mps': 'true'}}}", true,
                   EXPECT("needs gpu-fraction or", "mps needs"));
    check_warnings("{'metadata': {'annotations': {'gpu-fraction': '0.5', 'mps': 'true', 'gpu-fraction-container-name': "
                   "'c'}}, 'spec': {'containers': [{'name': 'c'}]}}",
                   true, EXPECT());
}

static void many_warnings_are_bounded(void **state) {
    (void)state;
    SL_AUTO_JSON *t = sl_json_from("{'spec': {'containers': []}}"), *out = sl_json_new_array();
    for (int i = 0; i < 1000; i++)
        sl_json_append(sl_json_mut(sl_json_mut(t, "spec"), "containers"),
                       sl_json_from("{'resources': {'limits': {'rdma/ib': 1}}}"));
    sl_gpu_warnings(NULL, t, 1, true, out);
    assert_int_equal(sl_json_len(out), 32);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_classified),
        cmocka_unit_test(configured_rows_come_first),
        cmocka_unit_test(mig_profiles),
        cmocka_unit_test(templates),
        cmocka_unit_test(resource_names),
        cmocka_unit_test(warnings),
        cmocka_unit_test(many_warnings_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
