/* What the engine decides about a Workload that is just being written: nobody ever holds more than there is. */
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
#include "sluice/api/conditions.h"
#include "sluice/api/names.h"
#include "sluice/base/log.h"
#include "sluice/base/mem.h"
#include "sluice/cmd/resources.h"
#include "sluice/kube/memory.h"

static void create_queue(struct simulation *s, const char *name, const char *nominal) {
    SL_AUTO_FREE char *cq = sl_xprintf(
        "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'ClusterQueue','metadata':{'name':'%s'},'spec':{'cohortName':"
        "'pool','namespaceSelector':{},'preemption':{'withinClusterQueue':'LowerPriority','reclaimWithinCohort':'Any'},"
        "'resourceGroups':[{'coveredResources':['cpu'],'flavors':[{'name':'f','resources':[{'name':'cpu',"
        "'nominalQuota':'%s'}]}]}]}}",
        name, nominal);
    SL_AUTO_FREE char *lq =
        sl_xprintf("{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'LocalQueue','metadata':{'name':'%s',"
                   "'namespace':'ns'},'spec':{'clusterQueue':'%s'}}",
                   name, name);
    create_in(s, cq);
    create_in(s, lq);
}

static void create_workload(struct simulation *s, const char *name, const char *queue, int priority, int cpu) {
    SL_AUTO_FREE char *w =
        sl_xprintf("{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'Workload','metadata':{'name':'%s','namespace':'ns'},"
                   "'spec':{'queueName':'%s','priority':%d,'podSets':[{'name':'main','count':1,'template':{'spec':{"
                   "'restartPolicy':'Never','containers':[{'name':'c','image':'x','resources':{'requests':{'cpu':"
                   "'%d'}}}]}}}]}}",
                   name, queue, priority, cpu);
    create_in(s, w);
}

static bool holds(struct simulation *s, const char *name) {
    SL_AUTO_JSON *w = sl_memory_get(s->cluster, &sl_watched[SL_WATCHED_WORKLOADS], "ns", name);
    return sl_condition_is_true(w, SL_COND_QUOTA_RESERVED);
}

static void create_other(struct simulation *s, int number) {
    struct sl_err err = SL_ERR_INIT;
    SL_AUTO_JSON *o = sl_json_fromf(
        "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'ResourceFlavor','metadata':{'name':'other-%d'},'spec':{}}",
        number);
    assert_int_equal(sl_memory_create(s->cluster, &sl_watched[SL_WATCHED_RESOURCEFLAVORS], o, NULL, &err), 0);
}

/*
 * After the patch one run of the engine admits `borrows`, which takes what is free, and evicts it again for `owns`,
 * which has a right to it. The second cannot be written before the first has been answered; meanwhile other things
 * happen, and make the engine run. Each play begins elsewhere in the sequence of delays.
 */
static void play(int number) {
    struct sl_err err = SL_ERR_INIT;
    struct sl_config config;
    struct simulation s;
    sl_config_init(&config);
    assert_int_equal(simulation_init(&s, &config, 0, &err), 0);
    create_in(&s, "{'apiVersion':'v1','kind':'Namespace','metadata':{'name':'ns'}}");
    create_in(&s, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'ResourceFlavor','metadata':{'name':'f'},'spec':{}}");
    create_queue(&s, "a", "0");
    create_queue(&s, "b", "3");
    create_workload(&s, "runs", "b", 30, 3);
    create_workload(&s, "borrows", "b", 0, 3);
    create_workload(&s, "owns", "a", 10, 2);
    create_workload(&s, "large", "a", 30, 4);
    assert_true(holds(&s, "runs") && !holds(&s, "borrows") && !holds(&s, "owns") && !holds(&s, "large"));

    sl_memory_set_faults(s.cluster, &(struct sl_memory_faults){.delay_ms = 100});
    for (int i = 0; i < number; i++)
        create_other(&s, 1000 + i);
    assert_true(simulation_settle(&s));
    SL_AUTO_JSON *patch = sl_json_from("{'spec':{'resourceGroups':[{'coveredResources':['cpu'],'flavors':[{'name':'f',"
                                       "'resources':[{'name':'cpu','nominalQuota':'3'}]}]}]}}");
    assert_int_equal(
        sl_memory_merge(s.cluster, &sl_watched[SL_WATCHED_CLUSTERQUEUES], "", "a", NULL, patch, NULL, &err), 0);
    for (int i = 0; i < 300; i++) {
        create_other(&s, i);
        sl_manager_step(s.manager, 2);
        assert_false(holds(&s, "borrows") && holds(&s, "owns")); /* 3 + 3 + 2 of 6 */
    }
    assert_true(simulation_settle(&s));
    SL_AUTO_JSON *w = sl_memory_get(s.cluster, &sl_watched[SL_WATCHED_WORKLOADS], "ns", "borrows");
    assert_true(sl_condition_is_true(w, SL_COND_EVICTED) && holds(&s, "borrows") && !holds(&s, "owns"));
    simulation_done(&s);
    sl_config_done(&config);
}

static void admitted_and_evicted_in_one_run(void **state) {
    (void)state;
    sl_log_set_level(SL_LOG_ERROR);
    for (int i = 0; i < 12; i++)
        play(i);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(admitted_and_evicted_in_one_run)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
