/* Workloads whose job is gone, or whose reference to it was taken away: by a deletion that leaves dependents, or by
 * hand. Nobody ever sees more used than there is, and nothing keeps quota for ever. */
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
#include "sluice/base/num.h"
#include "sluice/cmd/resources.h"
#include "sluice/kube/memory.h"

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
    *x = (struct world){0};
    sl_config_init(&x->config);
    assert_int_equal(simulation_init(&x->sim, &x->config, 0, &err), 0);
    create(x, "{'apiVersion':'v1','kind':'Namespace','metadata':{'name':'ns'}}");
    create(x, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'ResourceFlavor','metadata':{'name':'f'},'spec':{}}");
    create(x, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'ClusterQueue','metadata':{'name':'cq'},'spec':{"
              "'namespaceSelector':{},'resourceGroups':[{'coveredResources':['cpu'],'flavors':[{'name':'f',"
              "'resources':[{'name':'cpu','nominalQuota':'2'}]}]}]}}");
    create(x, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'LocalQueue','metadata':{'name':'q','namespace':'ns'},"
              "'spec':{'clusterQueue':'cq'}}");
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

/* CPUs that somebody holds, as the API shows it. */
static int64_t held(struct world *x) {
    SL_AUTO_JSON *all = sl_memory_list(x->sim.cluster, &sl_watched[SL_WATCHED_WORKLOADS], "ns");
    int64_t sum = 0;
    SL_JSON_ITEMS (all, w)
        sum += sl_condition_is_true(w.value, SL_COND_QUOTA_RESERVED) && !sl_condition_is_true(w.value, SL_COND_FINISHED)
                   ? 2
                   : 0;
    return sum;
}

static void watch_closely(struct world *x, int turns) {
    for (int i = 0; i < turns; i++) {
        sl_manager_step(x->sim.manager, 20);
        assert_true(held(x) <= 2);
    }
}

static void collector(struct world *x, unsigned late_ms, bool off) {
    sl_memory_set_faults(x->sim.cluster, &(struct sl_memory_faults){.delay_ms = 40, .gc_ms = late_ms, .gc_off = off});
}

static void delete_job(struct world *x, const char *name, const char *policy) {
    SL_AUTO_FREE char *text = sl_xprintf("{'propagationPolicy':'%s'}", policy);
    sl_cluster_send(x->sim.cluster, &(struct sl_request){.verb = SL_DELETE,
                                                         .resource = &sl_watched[SL_WATCHED_JOBS],
                                                         .ns = "ns",
                                                         .name = name,
                                                         .body = sl_json_from(text),
                                                         .lane = SL_LANE_STATUS});
}

/* Nobody writes anything any more. */
static void expect_peace(struct world *x) {
    int64_t version[2];
    for (int i = 0; i < 2; i++) {
        SL_AUTO_FREE char *text = sl_xprintf("{'apiVersion':'v1','kind':'Namespace','metadata':{'name':'n%d'}}", i);
        create(x, text);
        later(x, 120000);
        SL_AUTO_FREE char *name = sl_xprintf("n%d", i);
        SL_AUTO_JSON *n = sl_memory_get(x->sim.cluster, &sl_watched[SL_WATCHED_NAMESPACES], NULL, name);
        assert_true(sl_parse_int(sl_json_path_str(n, "metadata.resourceVersion", ""), &version[i]));
    }
    assert_int_equal(version[1], version[0] + 1);
}

/* Whatever the collector does, and when, and whoever starts again at which moment. */
static void job_deleted__quota_is_held_until_the_workload_is_gone_or_finished(void **state) {
    (void)state;
    static const struct {
        const char *policy;
        unsigned late_ms;
        bool off, stays;
    } cases[] = {{"Background", 0, false, false}, {"Background", 700, false, false},
                 {"Background", 0, true, false},  {"Background", 60000, false, false},
                 {"Foreground", 0, false, false}, {"Foreground", 700, false, false},
                 {"Orphan", 0, false, true},      {"Orphan", 700, false, true}};
    for (size_t i = 0; i < SL_COUNT(cases); i++)
        for (int moment = -1; moment < 60; moment += 1 + moment / 3) {
            struct world world, *x = &world;
            begin(x);
            submit(x, "first");
            submit(x, "next");
            assert_true(admitted(x, "first") && !admitted(x, "next"));
            collector(x, cases[i].late_ms, cases[i].off);
            delete_job(x, "first", cases[i].policy);
            watch_closely(x, moment < 0 ? 0 : moment);
            if (moment >= 0)
                restart(x);
            watch_closely(x, 500);
            if (!admitted(x, "next") || held(x) != 2)
                fail_msg("%s, collector %u ms late%s, restart at %d: quota was not given on", cases[i].policy,
                         cases[i].late_ms, cases[i].off ? " or never" : "", moment);
            later(x, 120000);
            SL_AUTO_JSON *left = workload_for(x, "first");
            if (left && (!cases[i].stays || !sl_condition_is_true(left, SL_COND_FINISHED)))
                fail_msg("%s, collector %u ms late%s, restart at %d: its Workload stays", cases[i].policy,
                         cases[i].late_ms, cases[i].off ? " or never" : "", moment);
            assert_int_equal(sl_manager_recount(x->sim.manager), 0);
            expect_peace(x);
            end(x);
        }
}

/* One that only waited goes as well, with nobody's help. */
static void waiting_job_deleted_without_a_collector__leaves_nothing(void **state) {
    (void)state;
    struct world world, *x = &world;
    begin(x);
    submit(x, "first");
    submit(x, "next");
    collector(x, 0, true);
    delete_job(x, "next", "Background");
    later(x, 60000);
    SL_AUTO_JSON *left = workload_for(x, "next");
    assert_null(left);
    assert_true(admitted(x, "first"));
    expect_peace(x);
    end(x);
}

static void deleted_and_made_again_under_the_same_name__is_another_workload(void **state) {
    (void)state;
    static const char *const policies[] = {"Background", "Foreground", "Orphan"};
    for (unsigned late = 0; late <= 300; late += 150) {
        struct world world, *x = &world;
        begin(x);
        submit(x, "other");
        collector(x, late, false);
        for (int round = 0; round < 24; round++) {
            struct sl_err err = SL_ERR_INIT;
            SL_AUTO_JSON *job = sl_json_from(
                "{'apiVersion':'batch/v1','kind':'Job','metadata':{'name':'again','namespace':'ns','labels':{"
                "'kueue.x-k8s.io/queue-name':'q'}},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':"
                "[{'name':'c','image':'x','resources':{'requests':{'cpu':'2'}}}]}}}}");
            while (simulation_create(&x->sim, job, NULL, &err)) /* the one before may not be gone yet */
                watch_closely(x, 1);
            watch_closely(x, 1 + round);
            delete_job(x, round % 2 ? "again" : "other", policies[round % 3]);
            if (round % 2 == 0)
                delete_job(x, "again", policies[(round + 1) % 3]);
            watch_closely(x, round % 5);
            if (round == 12)
                restart(x);
        }
        watch_closely(x, 1500);
        submit(x, "again");
        later(x, 60000);
        SL_AUTO_JSON *job = sl_memory_get(x->sim.cluster, &sl_watched[SL_WATCHED_JOBS], "ns", "again");
        SL_AUTO_JSON *all = sl_memory_list(x->sim.cluster, &sl_watched[SL_WATCHED_WORKLOADS], "ns");
        int its = 0;
        SL_JSON_ITEMS (all, w) {
            its += !strcmp(sl_json_path_str(w.value, "metadata.ownerReferences.0.uid", ""),
                           sl_json_path_str(job, "metadata.uid", "?")) &&
                   sl_condition_is_true(w.value, SL_COND_ADMITTED);
        }
        assert_int_equal(its, 1);
        assert_int_equal(held(x), 2);
        assert_int_equal(sl_manager_recount(x->sim.manager), 0);
        expect_peace(x);
        end(x);
    }
}

/* Taken off by hand: the job runs on, and owns it again. */
static void reference_taken_by_hand__the_job_owns_its_workload_again(void **state) {
    (void)state;
    for (int moment = -1; moment < 20; moment++) {
        struct world world, *x = &world;
        begin(x);
        submit(x, "first");
        submit(x, "next");
        collector(x, 0, false);
        SL_AUTO_JSON *w = workload_for(x, "first"),
                     *job = sl_memory_get(x->sim.cluster, &sl_watched[SL_WATCHED_JOBS], "ns", "first");
        take_reference(x, "first");
        for (int i = 0; i < 200; i++) {
            if (i == moment)
                restart(x);
            watch_closely(x, 1);
            assert_true(admitted(x, "first") && !suspended(x, "first"));
        }
        SL_AUTO_JSON *now = workload_for(x, "first");
        assert_string_equal(sl_json_path_str(now, "metadata.uid", ""), sl_json_path_str(w, "metadata.uid", "?"));
        assert_string_equal(sl_json_path_str(now, "metadata.ownerReferences.0.uid", ""),
                            sl_json_path_str(job, "metadata.uid", "?"));
        assert_true(sl_json_bool(sl_json_path(now, "metadata.ownerReferences.0.controller"), false));
        assert_false(admitted(x, "next"));
        assert_int_equal(sl_manager_recount(x->sim.manager), 0);
        expect_peace(x);
        end(x);
    }
}

/* One that was finished as an orphan although its job lives makes way for a new one. */
static void finished_as_an_orphan_by_mistake__the_job_comes_back(void **state) {
    (void)state;
    struct sl_err err = SL_ERR_INIT;
    struct world world, *x = &world;
    begin(x);
    submit(x, "first");
    SL_AUTO_JSON *w = workload_for(x, "first");
    SL_AUTO_JSON *conditions = sl_json_copy(sl_json_path(w, "status.conditions"));
    sl_json_append(conditions, sl_json_from("{'type':'Finished','status':'True','reason':'OwnerNotFound','message':'x',"
                                            "'lastTransitionTime':'2026-01-01T00:00:00Z'}"));
    SL_AUTO_JSON *patch = sl_json_new_object();
    sl_json_set(sl_json_make_object(patch, "status"), "conditions", sl_json_ref(conditions));
    take_reference(x, "first");
    assert_int_equal(sl_memory_merge(x->sim.cluster, &sl_watched[SL_WATCHED_WORKLOADS], "ns",
                                     sl_json_path_str(w, "metadata.name", ""), "status", patch, NULL, &err),
                     0);
    watch_closely(x, 1000);
    SL_AUTO_JSON *now = workload_for(x, "first");
    assert_string_not_equal(sl_json_path_str(now, "metadata.uid", ""), sl_json_path_str(w, "metadata.uid", ""));
    assert_true(admitted(x, "first") && !suspended(x, "first"));
    assert_int_equal(sl_manager_recount(x->sim.manager), 0);
    expect_peace(x);
    end(x);
}

/* `Job` is a name that others use too. */
static void workload_of_a_kind_of_others__is_left_alone(void **state) {
    (void)state;
    struct world world, *x = &world;
    begin(x);
    collector(x, 0, true);
    create(x, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'Workload','metadata':{'name':'job-volcano-x','namespace':"
              "'ns','ownerReferences':[{'apiVersion':'batch.volcano.sh/v1alpha1','kind':'Job','name':'volcano','uid':"
              "'u','controller':true}]},'spec':{'queueName':'q','podSets':[{'name':'main','count':1,'template':{'spec':"
              "{'restartPolicy':'Never','containers':[{'name':'c','image':'x','resources':{'requests':{'cpu':'2'}}}]}}"
              "}]}}");
    later(x, 60000);
    assert_true(admitted(x, "volcano"));
    assert_int_equal(sl_manager_recount(x->sim.manager), 0);
    end(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(job_deleted_alone__its_workload_is_finished_and_the_quota_goes_on),
        cmocka_unit_test(reference_taken_and_workload_deleted__the_job_begins_anew),
        cmocka_unit_test(workload_of_nobody__is_admitted),
        cmocka_unit_test(job_deleted__quota_is_held_until_the_workload_is_gone_or_finished),
        cmocka_unit_test(waiting_job_deleted_without_a_collector__leaves_nothing),
        cmocka_unit_test(deleted_and_made_again_under_the_same_name__is_another_workload),
        cmocka_unit_test(reference_taken_by_hand__the_job_owns_its_workload_again),
        cmocka_unit_test(finished_as_an_orphan_by_mistake__the_job_comes_back),
        cmocka_unit_test(workload_of_a_kind_of_others__is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
