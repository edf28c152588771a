/* Gauges that follow from the books: shown with the numbers that the objects add up to, gone with them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "manager.h"
#include "simulate.h"
#include "simulated.h"
#include "sluice/base/log.h"
#include "sluice/base/mem.h"
#include "sluice/base/metrics.h"
#include "sluice/cmd/resources.h"
#include "sluice/kube/memory.h"

static void create_job(struct simulation *s, const char *name, int pods, const char *cpu) {
    struct sl_err err = SL_ERR_INIT;
    SL_AUTO_JSON *o = sl_json_fromf(
        "{'apiVersion':'batch/v1','kind':'Job','metadata':{'name':'%s','namespace':'ns','labels':{'kueue.x-k8s.io/"
        "queue-name':'q'}},'spec':{'parallelism':%d,'completions':%d,'template':{'spec':{'restartPolicy':'Never',"
        "'containers':[{'name':'c','image':'x','resources':{'requests':{'cpu':'%s','memory':'1Gi'}}}]}}}}",
        name, pods, pods, cpu);
    if (simulation_create(s, o, NULL, &err))
        fail_msg("%s", err.text);
    assert_true(simulation_settle(s));
}

static void pending_requests_and_shares(void **state) {
    (void)state;
    struct sl_err err = SL_ERR_INIT;
    struct sl_config config;
    struct simulation sim;
    sl_log_set_level(SL_LOG_ERROR);
    sl_metrics_reset();
    sl_config_init(&config);
    config.cluster_queue_metrics = config.fair_sharing = config.fair_final_share = true;
    assert_int_equal(simulation_init(&sim, &config, 0, &err), 0);
    create_in(&sim, "{'apiVersion':'v1','kind':'Namespace','metadata':{'name':'ns'}}");
    create_in(&sim,
              "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'ResourceFlavor','metadata':{'name':'f'},'spec':{}}");
    create_in(&sim, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'Cohort','metadata':{'name':'root'},'spec':{"
                    "'resourceGroups':[{'coveredResources':['cpu','memory'],'flavors':[{'name':'f','resources':["
                    "{'name':'cpu','nominalQuota':'4'},{'name':'memory','nominalQuota':'64Gi'}]}]}]}}");
    create_in(&sim, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'Cohort','metadata':{'name':'pool'},'spec':{"
                    "'parentName':'root'}}");
    create_in(&sim, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'ClusterQueue','metadata':{'name':'q'},'spec':{"
                    "'cohortName':'pool','namespaceSelector':{},'resourceGroups':[{'coveredResources':['cpu','memory'],"
                    "'flavors':[{'name':'f','resources':[{'name':'cpu','nominalQuota':'2'},{'name':'memory',"
                    "'nominalQuota':'64Gi'}]}]}]}}");
    create_in(&sim, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'LocalQueue','metadata':{'name':'q','namespace':"
                    "'ns'},'spec':{'clusterQueue':'q'}}");

    const char *const *cpu = SL_LABELS("q", "cpu", "standalone"), *const *memory =
                                                                      SL_LABELS("q", "memory", "standalone");
    create_job(&sim, "runs", 1, "5"); /* three of the root's four */
    assert_true(sl_metric_get(SL_M_CLUSTER_QUEUE_RESOURCE_PENDING, cpu) == 0);
    assert_true(sl_metric_get(SL_M_COHORT_WEIGHTED_SHARE, SL_LABELS("pool", "standalone")) == 500); /* 3 of 6 */
    assert_true(sl_metric_get(SL_M_COHORT_WEIGHTED_SHARE, SL_LABELS("root", "standalone")) == 0);
    create_job(&sim, "waits", 3, "1500m");
    create_job(&sim, "waits-too", 1, "2");
    assert_true(sl_metric_get(SL_M_CLUSTER_QUEUE_RESOURCE_PENDING, cpu) == 6.5);
    assert_true(sl_metric_get(SL_M_CLUSTER_QUEUE_RESOURCE_PENDING, memory) == 4.0 * (1 << 30));
    simulation_done(&sim);
    sl_config_done(&config);
}

static bool shown(const char *text) {
    SL_AUTO_BUF page = SL_BUF_INIT(4u << 20);
    sl_metrics_expose(&page);
    return strstr(sl_buf_text(&page), text) != NULL;
}

/* Quota that is held does not vanish from the books, the gauges and `sluice status` because its flavor, or one of its
 * resources, is not listed any more. */
static void quotas_taken_out_while_held(void **state) {
    (void)state;
    struct sl_err err = SL_ERR_INIT;
    struct sl_config config;
    struct simulation sim;
    sl_log_set_level(SL_LOG_ERROR);
    static const struct {
        const char *spec;
        bool cpu, memory; /* listed */
    } cases[] = {
        {"{'spec':{'resourceGroups':null}}", false, false},
        {"{'spec':{'resourceGroups':[{'coveredResources':['cpu'],'flavors':[{'name':'f','resources':[{'name':'cpu',"
         "'nominalQuota':'2'}]}]}]}}",
         true, false},
        {"{'spec':{'resourceGroups':[{'coveredResources':['cpu','memory'],'flavors':[{'name':'g','resources':["
         "{'name':'cpu','nominalQuota':'2'},{'name':'memory','nominalQuota':'1Gi'}]}]}]}}",
         false, false},
    };
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        sl_metrics_reset();
        sl_config_init(&config);
        config.cluster_queue_metrics = config.local_queue_metrics = true;
        assert_int_equal(simulation_init(&sim, &config, 0, &err), 0);
        create_in(&sim, "{'apiVersion':'v1','kind':'Namespace','metadata':{'name':'ns'}}");
        create_in(&sim,
                  "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'ResourceFlavor','metadata':{'name':'f'},'spec':{}}");
        create_in(&sim,
                  "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'ResourceFlavor','metadata':{'name':'g'},'spec':{}}");
        create_in(&sim,
                  "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'ClusterQueue','metadata':{'name':'q'},'spec':{"
                  "'cohortName':'pool','namespaceSelector':{},'resourceGroups':[{'coveredResources':['cpu','memory'],"
                  "'flavors':[{'name':'f','resources':[{'name':'cpu','nominalQuota':'2'},{'name':'memory',"
                  "'nominalQuota':'64Gi'}]}]}]}}");
        create_in(&sim, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'LocalQueue','metadata':{'name':'q','namespace':"
                        "'ns'},'spec':{'clusterQueue':'q'}}");
        create_job(&sim, "runs", 1, "2");
        SL_AUTO_JSON *patch = sl_json_from(cases[i].spec);
        assert_int_equal(
            sl_memory_merge(sim.cluster, &sl_watched[SL_WATCHED_CLUSTERQUEUES], NULL, "q", NULL, patch, NULL, &err), 0);
        assert_true(simulation_settle(&sim));
        assert_int_equal(sl_manager_recount(sim.manager), 0);
        const char *const *cpu = SL_LABELS("pool", "q", "f", "cpu", "standalone"), *const *lq =
                                                                                       SL_LABELS("f", "q", "ns",
                                                                                                 "standalone", "cpu");
        assert_true(sl_metric_get(SL_M_CLUSTER_QUEUE_RESOURCE_USAGE, cpu) == 2);
        assert_true(sl_metric_get(SL_M_CLUSTER_QUEUE_RESOURCE_RESERVATION, cpu) == 2);
        assert_true(sl_metric_get(SL_M_CLUSTER_QUEUE_NOMINAL_QUOTA, cpu) == (cases[i].cpu ? 2 : 0));
        assert_true(sl_metric_get(SL_M_LOCAL_QUEUE_RESOURCE_USAGE, lq) == 2);
        assert_true(
            sl_metric_get(SL_M_COHORT_SUBTREE_RESOURCE_RESERVATIONS, SL_LABELS("pool", "f", "standalone", "cpu")) == 2);
        SL_AUTO_JSON *queues = sl_manager_queues(sim.manager);
        SL_JSON_ITEMS (sl_json_path(queues, "0.quota"), r) {
            bool is_cpu = !strcmp(sl_json_get_str(r.value, "resource", ""), "cpu"),
                 listed = is_cpu ? cases[i].cpu : false;
            if (strcmp(sl_json_get_str(r.value, "flavor", ""), "f") != 0)
                continue;
            assert_string_equal(sl_json_get_str(r.value, "used", ""), is_cpu ? "2" : "1Gi");
            assert_int_equal(!strcmp(sl_json_get_str(r.value, "nominal", ""), "not listed"), !listed);
        }
        SL_AUTO_JSON *cq = sl_memory_get(sim.cluster, &sl_watched[SL_WATCHED_CLUSTERQUEUES], NULL, "q");
        assert_int_equal(sl_json_int(sl_json_path(cq, "status.reservingWorkloads"), -1), 1);
        assert_int_equal(sl_json_len(sl_json_path(cq, "status.flavorsUsage")), i == 0 ? 0 : 1); /* as the spec lists */
        assert_true(shown("cluster_queue=\"q\",flavor=\"f\",resource=\"memory\""));
        assert_int_equal(sl_memory_delete(sim.cluster, &sl_watched[SL_WATCHED_JOBS], "ns", "runs", &err), 0);
        assert_true(simulation_advance(&sim, sl_cluster_wall_ms(sim.cluster) + 20000));
        assert_int_equal(sl_manager_recount(sim.manager), 0);
        assert_false(shown("cluster_queue=\"q\",flavor=\"f\",resource=\"memory\"")); /* nobody holds it any more */
        assert_int_equal(shown("kueue_local_queue_resource_usage{flavor=\"f\""), cases[i].cpu);
        simulation_done(&sim);
        sl_config_done(&config);
    }
}

static void begin(struct simulation *s, struct sl_config *config, const char *queue_spec) {
    struct sl_err err = SL_ERR_INIT;
    sl_metrics_reset();
    assert_int_equal(simulation_init(s, config, 0, &err), 0);
    create_in(s, "{'apiVersion':'v1','kind':'Namespace','metadata':{'name':'ns'}}");
    create_in(s, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'ResourceFlavor','metadata':{'name':'f'},'spec':{}}");
    SL_AUTO_FREE char *q =
        sl_xprintf("{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'ClusterQueue','metadata':{'name':'q'},'spec':{%s"
                   "'namespaceSelector':{},'resourceGroups':[{'coveredResources':['cpu','memory'],'flavors':[{'name':"
                   "'f','resources':[{'name':'cpu','nominalQuota':'2'},{'name':'memory','nominalQuota':'64Gi'}]}]}]}}",
                   queue_spec);
    create_in(s, q);
    create_in(s, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'LocalQueue','metadata':{'name':'q','namespace':'ns'},"
                 "'spec':{'clusterQueue':'q'}}");
}

/* A queue that is full waits for good reasons, whatever its order. */
static void full_queues_are_not_stuck(void **state) {
    (void)state;
    static const char *const strategies[] = {"'queueingStrategy':'StrictFIFO',",
                                             "'queueingStrategy':'BestEffortFIFO',"};
    for (size_t i = 0; i < SL_COUNT(strategies); i++) {
        struct sl_config config;
        struct simulation s;
        sl_config_init(&config);
        begin(&s, &config, strategies[i]);
        create_job(&s, "runs", 1, "2");
        create_job(&s, "waits", 1, "2");
        create_job(&s, "behind", 1, "1");
        assert_true(simulation_advance(&s, s.start_ms + 3600000));
        create_job(&s, "later", 1, "1");
        assert_true(sl_metric_get(SL_M_SLUICE_QUEUE_IDLE_WITH_QUOTA_SECONDS, SL_LABELS("q")) == 0);
        assert_true(sl_metric_get(SL_M_PENDING_WORKLOADS, SL_LABELS("q", "standalone", "active")) +
                        sl_metric_get(SL_M_PENDING_WORKLOADS, SL_LABELS("q", "standalone", "inadmissible")) ==
                    3);
        simulation_done(&s);
        sl_config_done(&config);
    }
}

static void localqueues_have_metrics_when_asked_for(void **state) {
    (void)state;
    for (int on = 0; on < 2; on++) {
        struct sl_config config;
        struct simulation s;
        sl_config_init(&config);
        config.local_queue_metrics = on;
        begin(&s, &config, "");
        create_job(&s, "runs", 1, "2");
        create_job(&s, "waits", 1, "2");
        SL_AUTO_BUF page = SL_BUF_INIT(1 << 24);
        sl_metrics_expose(&page);
        assert_int_equal(strstr(sl_buf_text(&page), "\nkueue_local_queue_") != NULL, on);
        assert_non_null(strstr(sl_buf_text(&page), "kueue_admitted_workloads_total{"));
        simulation_done(&s);
        sl_config_done(&config);
    }
}

static void gauges_of_queues_go_with_the_lead(void **state) {
    (void)state;
    struct sl_config config;
    struct simulation s;
    sl_config_init(&config);
    begin(&s, &config, "");
    create_job(&s, "runs", 1, "2");
    create_job(&s, "waits", 1, "2");
    assert_true(shown("\nkueue_pending_workloads{") && shown("\nsluice_pending_workloads{"));
    drop_queue_gauges();
    assert_false(shown("\nkueue_pending_workloads{") || shown("\nsluice_pending_workloads{") ||
                 shown("\nkueue_cluster_queue_status{") || shown("\nsluice_queue_idle_with_quota_seconds{"));
    assert_true(shown("\nkueue_admitted_workloads_total{")); /* what was counted was counted */
    simulation_done(&s);
    sl_config_done(&config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pending_requests_and_shares), cmocka_unit_test(quotas_taken_out_while_held),
        cmocka_unit_test(full_queues_are_not_stuck), cmocka_unit_test(localqueues_have_metrics_when_asked_for),
        cmocka_unit_test(gauges_of_queues_go_with_the_lead)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
