/* Finalizers of queues, flavors and checks: ours comes and goes, those of others stay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "simulate.h"
#include "sluice/base/log.h"
#include "sluice/base/mem.h"
#include "sluice/cmd/resources.h"
#include "sluice/kube/memory.h"

#define OURS   "kueue.x-k8s.io/resource-in-use"
#define THEIRS "example.com/keep"

struct row {
    int resource;
    const char *manifest;
};
static const struct row rows[] = {
    {SL_WATCHED_RESOURCEFLAVORS, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'ResourceFlavor','metadata':{'name':"
                                 "'x','finalizers':['" THEIRS "']},'spec':{}}"},
    {SL_WATCHED_CLUSTERQUEUES, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'ClusterQueue','metadata':{'name':'x',"
                               "'finalizers':['" THEIRS "']},'spec':{'namespaceSelector':{}}}"},
    {SL_WATCHED_ADMISSIONCHECKS, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'AdmissionCheck','metadata':{'name':"
                                 "'x','finalizers':['" THEIRS "']},'spec':{'controllerName':'example.com/c'}}"},
};

static void expect_finalizers(struct simulation *s, const struct row *row, const char *expect) {
    SL_AUTO_JSON *o = sl_memory_get(s->cluster, &sl_watched[row->resource], NULL, "x");
    if (!o)
        fail_msg("%s is gone", sl_watched[row->resource].kind);
    SL_AUTO_BUF text = SL_BUF_INIT(1000);
    SL_JSON_ITEMS (sl_json_path(o, "metadata.finalizers"), f)
        sl_buf_printf(&text, "%s%s", f.i ? " " : "", sl_json_str(f.value, ""));
    assert_string_equal(sl_buf_text(&text), expect);
}

static void finalizers_of_others_stay(void **state) {
    (void)state;
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        struct sl_err err = SL_ERR_INIT;
        struct sl_config config;
        struct simulation s;
        sl_config_init(&config);
        assert_int_equal(simulation_init(&s, &config, 0, &err), 0);
        SL_AUTO_JSON *o = sl_json_from(rows[i].manifest);
        if (simulation_create(&s, o, NULL, &err))
            fail_msg("%s", err.text);
        assert_true(simulation_settle(&s));
        expect_finalizers(&s, &rows[i], THEIRS " " OURS);

        SL_AUTO_JSON *without = sl_json_from("{'metadata':{'finalizers':['" THEIRS "','example.com/two']}}");
        assert_int_equal(
            sl_memory_merge(s.cluster, &sl_watched[rows[i].resource], NULL, "x", NULL, without, NULL, NULL), 0);
        assert_true(simulation_settle(&s));
        expect_finalizers(&s, &rows[i], THEIRS " example.com/two " OURS);

        assert_int_equal(sl_memory_delete(s.cluster, &sl_watched[rows[i].resource], NULL, "x", NULL), 0);
        assert_true(simulation_settle(&s));
        expect_finalizers(&s, &rows[i], THEIRS " example.com/two");
        simulation_done(&s);
        sl_config_done(&config);
    }
}

int main(void) {
    sl_log_set_level(SL_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finalizers_of_others_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
