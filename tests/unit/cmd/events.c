/* What the manager says in Events: who is regarded, by whom, and with which reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "simulate.h"
#include "simulated.h"
#include "sluice/base/log.h"
#include "sluice/base/mem.h"
#include "sluice/cmd/resources.h"
#include "sluice/kube/memory.h"

static const struct sl_resource events = {"events.k8s.io", "v1", "events", "Event", true};

static void begin(struct simulation *s, struct sl_config *config) {
    struct sl_err err = SL_ERR_INIT;
    assert_int_equal(simulation_init(s, config, 0, &err), 0);
    create_in(s, "{'apiVersion':'v1','kind':'Namespace','metadata':{'name':'ns'}}");
    create_in(s, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'ResourceFlavor','metadata':{'name':'f'},'spec':{}}");
    create_in(
        s, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'ClusterQueue','metadata':{'name':'q'},'spec':{"
           "'namespaceSelector':{},'preemption':{'withinClusterQueue':'LowerPriority'},'resourceGroups':[{"
           "'coveredResources':['cpu'],'flavors':[{'name':'f','resources':[{'name':'cpu','nominalQuota':'2'}]}]}]}}");
    create_in(s, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'LocalQueue','metadata':{'name':'q','namespace':'ns'},"
                 "'spec':{'clusterQueue':'q'}}");
}

static void create_workload(struct simulation *s, const char *name, const char *annotations, int priority) {
    SL_AUTO_FREE char *w =
        sl_xprintf("{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'Workload','metadata':{'name':'%s','namespace':'ns',"
                   "'annotations':%s},'spec':{'queueName':'q','priority':%d,'podSets':[{'name':'main','count':1,"
                   "'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c','image':'x','resources':{"
                   "'requests':{'cpu':'2'}}}]}}}]}}",
                   name, annotations, priority);
    create_in(s, w);
}

/* "Reason Reason ..." of the events about a Workload, sorted. */
static void expect_events(struct simulation *s, const char *name, const char *expect) {
    SL_AUTO_JSON *list = sl_memory_list(s->cluster, &events, "ns");
    const char *reasons[32];
    size_t n = 0;
    SL_JSON_ITEMS (list, e) {
        const char *reason = sl_json_get_str(e.value, "reason", "");
        if (strcmp(sl_json_path_str(e.value, "regarding.name", ""), name) != 0)
            continue;
        assert_string_equal(sl_json_get_str(e.value, "action", ""), reason);
        assert_true(*sl_json_get_str(e.value, "note", "") != '\0');
        assert_string_equal(sl_json_path_str(e.value, "regarding.kind", ""), "Workload");
        assert_true(n < SL_COUNT(reasons));
        size_t at = n++;
        for (; at > 0 && strcmp(reasons[at - 1], reason) > 0; at--)
            reasons[at] = reasons[at - 1];
        reasons[at] = reason;
    }
    SL_AUTO_BUF text = SL_BUF_INIT(4096);
    for (size_t i = 0; i < n; i++)
        sl_buf_printf(&text, "%s%s", i ? " " : "", reasons[i]);
    assert_string_equal(sl_buf_text(&text), expect);
}

static void preemption_is_told_to_both(void **state) {
    (void)state;
    struct sl_config config;
    struct simulation s;
    sl_config_init(&config);
    begin(&s, &config);
    create_workload(&s, "low", "{}", 0);
    expect_events(&s, "low", "Admitted");
    create_workload(&s, "high", "{}", 10);
    expect_events(&s, "high", "Pending PreemptedWorkload");
    expect_events(&s, "low", "Admitted EvictedDueToPreempted Preempted");
    simulation_done(&s);
    sl_config_done(&config);
}

static void gates_are_told(void **state) {
    (void)state;
    struct sl_config config;
    struct simulation s;
    sl_config_init(&config);
    begin(&s, &config);
    create_workload(&s, "w", "{'kueue.x-k8s.io/admission-gated-by':'example.com/gate'}", 0);
    expect_events(&s, "w", "AdmissionGated");
    SL_AUTO_JSON *patch = sl_json_from("{'metadata':{'annotations':{'kueue.x-k8s.io/admission-gated-by':null}}}");
    assert_int_equal(sl_memory_merge(s.cluster, &sl_watched[SL_WATCHED_WORKLOADS], "ns", "w", NULL, patch, NULL, NULL),
                     0);
    assert_true(simulation_settle(&s));
    expect_events(&s, "w", "AdmissionGateCleared AdmissionGated Admitted");
    simulation_done(&s);
    sl_config_done(&config);
}

static void what_is_kept_too_long_is_told(void **state) {
    (void)state;
    struct sl_config config;
    struct simulation s;
    sl_config_init(&config);
    config.retain_finished_ms = 0;
    begin(&s, &config);
    create_workload(&s, "w", "{}", 0);
    SL_AUTO_JSON *patch =
        sl_json_from("{'status':{'conditions':[{'type':'Finished','status':'True','reason':'Succeeded','message':'',"
                     "'lastTransitionTime':'2026-01-01T00:00:00Z'}]}}");
    assert_int_equal(
        sl_memory_merge(s.cluster, &sl_watched[SL_WATCHED_WORKLOADS], "ns", "w", "status", patch, NULL, NULL), 0);
    assert_true(simulation_settle(&s));
    expect_events(&s, "w", "Admitted Deleted");
    simulation_done(&s);
    sl_config_done(&config);
}

int main(void) {
    sl_log_set_level(SL_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(preemption_is_told_to_both),
        cmocka_unit_test(gates_are_told),
        cmocka_unit_test(what_is_kept_too_long_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
