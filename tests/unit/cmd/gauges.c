/* Gauges that follow from the books: shown with the numbers that the objects add up to, gone with them. */
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
#include "sluice/base/metrics.h"

static void create(struct simulation *s, const char *text) {
    struct sl_err err = SL_ERR_INIT;
    SL_AUTO_JSON *o = sl_json_from(text);
    if (simulation_create(s, o, NULL, &err))
        fail_msg("%s", err.text);
    assert_true(simulation_settle(s));
}

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
    assert_int_equal(simulation_init(&sim, &config, NULL, 0, &err), 0);
    create(&sim, "{'apiVersion':'v1','kind':'Namespace','metadata':{'name':'ns'}}");
    create(&sim, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'ResourceFlavor','metadata':{'name':'f'},'spec':{}}");
    create(&sim, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'Cohort','metadata':{'name':'root'},'spec':{"
                 "'resourceGroups':[{'coveredResources':['cpu','memory'],'flavors':[{'name':'f','resources':["
                 "{'name':'cpu','nominalQuota':'4'},{'name':'memory','nominalQuota':'64Gi'}]}]}]}}");
    create(&sim, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'Cohort','metadata':{'name':'pool'},'spec':{"
                 "'parentName':'root'}}");
    create(&sim, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'ClusterQueue','metadata':{'name':'q'},'spec':{"
                 "'cohortName':'pool','namespaceSelector':{},'resourceGroups':[{'coveredResources':['cpu','memory'],"
                 "'flavors':[{'name':'f','resources':[{'name':'cpu','nominalQuota':'2'},{'name':'memory',"
                 "'nominalQuota':'64Gi'}]}]}]}}");
    create(&sim, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'LocalQueue','metadata':{'name':'q','namespace':"
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pending_requests_and_shares)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
