/* Workloads whose reference to their job was taken away: by a deletion that leaves dependents, or by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "simulate.h"
#include "sluice/api/conditions.h"
#include "sluice/api/names.h"
#include "sluice/base/log.h"
#include "sluice/base/mem.h"
#include "sluice/cmd/resources.h"
#include "sluice/kube/memory.h"

struct world {
    struct simulation sim;
    struct sl_config config;
};

static void create(struct world *x, const char *text) {
    struct sl_err err = SL_ERR_INIT;
    SL_AUTO_JSON *o = sl_json_from(text);
    if (simulation_create(&x->sim, o, NULL, &err))
        fail_msg("%s", err.text);
    assert_true(simulation_settle(&x->sim));
}

static void submit(struct world *x, const char *name) {
    SL_AUTO_FREE char *text =
        sl_xprintf("{'apiVersion':'batch/v1','kind':'Job','metadata':{'name':'%s','namespace':'ns','labels':{"
                   "'kueue.x-k8s.io/queue-name':'q'}},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':"
                   "[{'name':'c','image':'x','resources':{'requests':{'cpu':'2'}}}]}}}}",
                   name);
    create(x, text);
}

/* One queue of 2 CPUs; every job asks for both, and runs for ever. */
static void begin(struct world *x) {
    struct sl_err err = SL_ERR_INIT;
    sl_log_set_level(SL_LOG_ERROR);
    sl_config_init(&x->config);
    assert_int_equal(simulation_init(&x->sim, &x->config, NULL, 0, &err), 0);
    create(x, "{'apiVersion':'v1','kind':'Namespace','metadata':{'name':'ns'}}");
    create(x, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'ResourceFlavor','metadata':{'name':'f'},'spec':{}}");
    create(x, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'ClusterQueue','metadata':{'name':'cq'},'spec':{"
              "'namespaceSelector':{},'resourceGroups':[{'coveredResources':['cpu'],'flavors':[{'name':'f',"
              "'resources':[{'name':'cpu','nominalQuota':'2'}]}]}]}}");
    create(x, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'LocalQueue','metadata':{'name':'q','namespace':'ns'},"
              "'spec':{'clusterQueue':'cq'}}");
}

static void end(struct world *x) {
    simulation_done(&x->sim);
    sl_config_done(&x->config);
}

static void later(struct world *x, int64_t ms) {
    assert_true(simulation_advance(&x->sim, sl_cluster_wall_ms(x->sim.cluster) + ms));
}

/* The Workload made for this job, whatever became of its reference. */
static struct sl_json *workload_for(struct world *x, const char *job) {
    SL_AUTO_JSON *all = sl_memory_list(x->sim.cluster, &sl_watched[SL_WATCHED_WORKLOADS], "ns");
    SL_AUTO_FREE char *start = sl_xprintf("job-%s-", job);
    struct sl_json *found = NULL;
    SL_JSON_ITEMS (all, w) {
        if (!strncmp(sl_json_path_str(w.value, "metadata.name", ""), start, strlen(start))) {
            assert_null(found);
            found = sl_json_ref(w.value);
        }
    }
    return found;
}

static bool admitted(struct world *x, const char *job) {
    SL_AUTO_JSON *w = workload_for(x, job);
    return sl_condition_is_true(w, SL_COND_ADMITTED) && !sl_condition_is_true(w, SL_COND_FINISHED);
}

static bool suspended(struct world *x, const char *job) {
    SL_AUTO_JSON *j = sl_memory_get(x->sim.cluster, &sl_watched[SL_WATCHED_JOBS], "ns", job);
    return sl_json_bool(sl_json_path(j, "spec.suspend"), false);
}

static void take_reference(struct world *x, const char *job) {
    struct sl_err err = SL_ERR_INIT;
    SL_AUTO_JSON *w = workload_for(x, job), *patch = sl_json_from("{'metadata':{'ownerReferences':null}}");
    assert_int_equal(sl_memory_merge(x->sim.cluster, &sl_watched[SL_WATCHED_WORKLOADS], "ns",
                                     sl_json_path_str(w, "metadata.name", ""), NULL, patch, NULL, &err),
                     0);
}

static void delete_workload(struct world *x, const char *job) {
    struct sl_err err = SL_ERR_INIT;
    SL_AUTO_JSON *w = workload_for(x, job);
    assert_int_equal(sl_memory_delete(x->sim.cluster, &sl_watched[SL_WATCHED_WORKLOADS], "ns",
                                      sl_json_path_str(w, "metadata.name", ""), &err),
                     0);
}

/* `kubectl delete job --cascade=orphan`: the collector takes the references, then the job goes. */
static void job_deleted_alone__its_workload_is_finished_and_the_quota_goes_on(void **state) {
    (void)state;
    struct sl_err err = SL_ERR_INIT;
    struct world world, *x = &world;
    begin(x);
    submit(x, "first");
    submit(x, "next");
    assert_true(admitted(x, "first") && !admitted(x, "next"));
    take_reference(x, "first");
    assert_int_equal(sl_memory_delete(x->sim.cluster, &sl_watched[SL_WATCHED_JOBS], "ns", "first", &err), 0);
    for (int i = 0; i < 500; i++) {
        sl_manager_step(x->sim.manager, 20);
        assert_false(admitted(x, "first") && admitted(x, "next")); /* nobody sees more used than there is */
    }
    SL_AUTO_JSON *left = workload_for(x, "first");
    assert_non_null(left);
    assert_true(sl_condition_is_true(left, SL_COND_FINISHED));
    assert_string_equal(sl_condition_reason(left, SL_COND_FINISHED), "OwnerNotFound");
    assert_true(admitted(x, "next"));
    assert_int_equal(sl_manager_recount(x->sim.manager), 0);
    end(x);
}

/* The job must not remember a Workload that is no more. */
static void reference_taken_and_workload_deleted__the_job_begins_anew(void **state) {
    (void)state;
    struct world world, *x = &world;
    begin(x);
    submit(x, "first");
    assert_true(admitted(x, "first"));
    take_reference(x, "first");
    assert_true(simulation_settle(&x->sim));
    delete_workload(x, "first");
    later(x, 120000);
    assert_true(admitted(x, "first") && !suspended(x, "first"));
    assert_int_equal(sl_manager_recount(x->sim.manager), 0);
    end(x);
}

/* A Workload that was made by hand, for no job, is an ordinary one. */
static void workload_of_nobody__is_admitted(void **state) {
    (void)state;
    struct world world, *x = &world;
    begin(x);
    create(x, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'Workload','metadata':{'name':'job-bare-x','namespace':"
              "'ns'},'spec':{'queueName':'q','podSets':[{'name':'main','count':1,'template':{'spec':{'restartPolicy':"
              "'Never','containers':[{'name':'c','image':'x','resources':{'requests':{'cpu':'2'}}}]}}}]}}");
    later(x, 10000);
    assert_true(admitted(x, "bare"));
    end(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(job_deleted_alone__its_workload_is_finished_and_the_quota_goes_on),
        cmocka_unit_test(reference_taken_and_workload_deleted__the_job_begins_anew),
        cmocka_unit_test(workload_of_nobody__is_admitted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
