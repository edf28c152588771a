/* Jobs that are owned by jobs, jobs that wait for a Workload made for them, and a Workload deleted behind the manager's
 * back: nobody gets by without quota, and nobody waits for ever. */
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

#define JOBS      (&sl_watched[SL_WATCHED_JOBS])
#define WORKLOADS (&sl_watched[SL_WATCHED_WORKLOADS])

static void flavor(struct world *x, const char *name) {
    SL_AUTO_FREE char *text = sl_xprintf("{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'ResourceFlavor','metadata':{"
                                         "'name':'%s'},'spec':{'nodeLabels':{'pool':'%s'}}}",
                                         name, name);
    create(x, text);
}

/* One queue of 8 CPUs on flavor a, then as many on b. */
static void begin(struct world *x, bool manage_all) {
    struct sl_err err = SL_ERR_INIT;
    sl_log_set_level(SL_LOG_ERROR);
    *x = (struct world){0};
    sl_config_init(&x->config);
    x->config.manage_without_queue_name = manage_all;
    assert_int_equal(simulation_init(&x->sim, &x->config, 0, &err), 0);
    create(x, "{'apiVersion':'v1','kind':'Namespace','metadata':{'name':'ns'}}");
    flavor(x, "a");
    flavor(x, "b");
    create(x, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'ClusterQueue','metadata':{'name':'cq'},'spec':{"
              "'namespaceSelector':{},'resourceGroups':[{'coveredResources':['cpu'],'flavors':[{'name':'a',"
              "'resources':[{'name':'cpu','nominalQuota':'8'}]},{'name':'b','resources':[{'name':'cpu',"
              "'nominalQuota':'8'}]}]}]}}");
    create(x, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'LocalQueue','metadata':{'name':'q','namespace':'ns'},"
              "'spec':{'clusterQueue':'cq'}}");
}

static struct sl_json *job_of_name(struct world *x, const char *name) {
    return sl_memory_get(x->sim.cluster, JOBS, "ns", name);
}

/* labels, annotations: members of the objects, quoted and with commas, or "" */
static void submit(struct world *x, const char *name, const char *labels, const char *owner, int cpus,
                   const char *annotations) {
    SL_AUTO_JSON *parent = owner ? job_of_name(x, owner) : NULL;
    SL_AUTO_FREE char *refs =
        owner ? sl_xprintf("'ownerReferences':[{'apiVersion':'batch/v1','kind':'Job','name':'%s','uid':'%s',"
                           "'controller':true}],",
                           owner, sl_json_path_str(parent, "metadata.uid", "nobody"))
              : sl_xstrdup("");
    SL_AUTO_FREE char *text =
        sl_xprintf("{'apiVersion':'batch/v1','kind':'Job','metadata':{'name':'%s','namespace':'ns',%s'labels':{%s},"
                   "'annotations':{%s}},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c',"
                   "'image':'x','resources':{'requests':{'cpu':'%d'}}}]}}}}",
                   name, refs, labels, annotations, cpus);
    create(x, text);
}

/* Without waiting for anybody. */
static void change(struct world *x, const struct sl_resource *r, const char *ns, const char *name, const char *text) {
    struct sl_err err = SL_ERR_INIT;
    SL_AUTO_JSON *patch = sl_json_from(text);
    if (sl_memory_merge(x->sim.cluster, r, ns, name, NULL, patch, NULL, &err))
        fail_msg("%s", err.text);
}

static void merge(struct world *x, const struct sl_resource *r, const char *name, const char *text) {
    change(x, r, "ns", name, text);
    assert_true(simulation_settle(&x->sim));
}

static void unsuspend(struct world *x, const char *name) {
    merge(x, JOBS, name, "{'spec':{'suspend':false}}");
}

static bool runs(struct world *x, const char *name) {
    SL_AUTO_JSON *j = job_of_name(x, name);
    assert_non_null(j);
    return !sl_json_bool(sl_json_path(j, "spec.suspend"), false);
}

/* The Workload that belongs to this job; owned, NULL when there is none. */
static struct sl_json *workload_of(struct world *x, const char *name) {
    SL_AUTO_JSON *all = sl_memory_list(x->sim.cluster, WORKLOADS, "ns"), *job = job_of_name(x, name);
    struct sl_json *found = NULL;
    SL_JSON_ITEMS (all, w) {
        if (!strcmp(sl_json_path_str(w.value, "metadata.ownerReferences.0.uid", ""),
                    sl_json_path_str(job, "metadata.uid", "?"))) {
            assert_null(found);
            found = sl_json_ref(w.value);
        }
    }
    return found;
}

static bool admitted(struct world *x, const char *name) {
    SL_AUTO_JSON *w = workload_of(x, name);
    return sl_condition_is_true(w, SL_COND_ADMITTED) && !sl_condition_is_true(w, SL_COND_FINISHED);
}

/* Whoever runs, runs on quota of his own. */
static void expect_nobody_runs_for_free(struct world *x, const char *when) {
    SL_AUTO_JSON *all = sl_memory_list(x->sim.cluster, JOBS, "ns");
    SL_JSON_ITEMS (all, j) {
        const char *name = sl_json_path_str(j.value, "metadata.name", "");
        if (runs(x, name) && !sl_condition_is_true(j.value, "Complete") && !admitted(x, name))
            fail_msg("%s: %s runs without quota", when, name);
    }
}

static void finish(struct world *x, const char *name) {
    struct sl_err err = SL_ERR_INIT;
    SL_AUTO_JSON *done = sl_json_from("{'status':{'conditions':[{'type':'Complete','status':'True'}]}}");
    assert_int_equal(sl_memory_merge(x->sim.cluster, JOBS, "ns", name, "status", done, NULL, &err), 0);
    assert_true(simulation_settle(&x->sim));
}

#define QUEUED "'kueue.x-k8s.io/queue-name':'q'"

/* ---- jobs of jobs ---- */

static void child_of_a_waiting_job__waits_with_it(void **state) {
    (void)state;
    for (int labelled = 0; labelled < 2; labelled++) {
        struct world world, *x = &world;
        begin(x, false);
        submit(x, "block-a", QUEUED, NULL, 8, "");
        submit(x, "block-b", QUEUED, NULL, 8, "");
        submit(x, "parent", QUEUED, NULL, 1, "");
        submit(x, "child", labelled ? QUEUED : "", "parent", 8, "");
        submit(x, "grandchild", labelled ? QUEUED : "", "child", 1, "");
        assert_false(admitted(x, "parent") || runs(x, "child") || runs(x, "grandchild"));
        unsuspend(x, "child");
        unsuspend(x, "grandchild");
        expect_nobody_runs_for_free(x, "unsuspended while the parent waits");
        SL_AUTO_JSON *none = workload_of(x, "child");
        assert_null(none); /* a child does not overtake its parent either */
        SL_AUTO_JSON *child = job_of_name(x, "child");
        assert_null(sl_json_get(sl_json_path(child, "metadata.annotations"), SL_ANNOTATION_STOPPING));
        finish(x, "block-a");
        later(x, 10000);
        assert_true(admitted(x, "parent") && runs(x, "parent"));
        assert_false(runs(x, "child")); /* 7 are left of what it asks */
        assert_true(runs(x, "grandchild"));
        unsuspend(x, "child");
        expect_nobody_runs_for_free(x, "unsuspended while the parent runs");
        finish(x, "block-b");
        later(x, 10000);
        assert_true(admitted(x, "child") && runs(x, "child"));
        end(x);
    }
}

/* Whatever the owner is and holds; and with the queue named by the namespace or the configuration. */
static void owner__is_no_way_around_quota(void **state) {
    (void)state;
    static const char *const owners[] = {"waits", "runs", "ended", "failed-to-start", "unknown"};
    for (size_t i = 0; i < SL_COUNT(owners); i++)
        for (int how = 0; how < 3; how++) { /* a label; a default queue; everything is managed */
            struct world world, *x = &world;
            begin(x, how == 2);
            submit(x, "ended", QUEUED, NULL, 1, "");
            finish(x, "ended");
            submit(x, "runs", QUEUED, NULL, 1, "");
            submit(x, "failed-to-start", QUEUED, NULL, 100, "");
            submit(x, "block-a", QUEUED, NULL, 7, "");
            submit(x, "block-b", QUEUED, NULL, 8, "");
            submit(x, "waits", QUEUED, NULL, 1, "");
            if (how == 1)
                create(x, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'LocalQueue','metadata':{'name':'default',"
                          "'namespace':'ns'},'spec':{'clusterQueue':'cq'}}");
            sl_memory_set_faults(x->sim.cluster, &(struct sl_memory_faults){.gc_off = true});
            submit(x, "child", how == 0 ? QUEUED : "", owners[i], 8, "");
            assert_false(runs(x, "child"));
            expect_nobody_runs_for_free(x, owners[i]);
            unsuspend(x, "child");
            later(x, 5000);
            expect_nobody_runs_for_free(x, owners[i]);
            assert_false(runs(x, "child"));
            merge(x, JOBS, "child", "{'metadata':{'ownerReferences':null}}");
            unsuspend(x, "child");
            later(x, 5000);
            assert_false(runs(x, "child"));
            end(x);
        }
}

/* Its parent's quota goes: it stops, gives its own back, and both come again. */
static void parent_evicted__its_child_stops(void **state) {
    (void)state;
    struct world world, *x = &world;
    begin(x, false);
    submit(x, "parent", QUEUED, NULL, 1, "");
    submit(x, "child", "", "parent", 7, "");
    later(x, 5000);
    assert_true(runs(x, "parent") && runs(x, "child") && admitted(x, "child"));
    SL_AUTO_JSON *w = workload_of(x, "parent");
    merge(x, WORKLOADS, sl_json_path_str(w, "metadata.name", ""), "{'spec':{'active':false}}");
    later(x, 60000);
    assert_false(runs(x, "parent") || runs(x, "child") || admitted(x, "child"));
    SL_AUTO_JSON *child = job_of_name(x, "child");
    assert_null(sl_json_path(child, "spec.template.spec.nodeSelector.pool"));
    merge(x, WORKLOADS, sl_json_path_str(w, "metadata.name", ""), "{'spec':{'active':true}}");
    later(x, 60000);
    assert_true(runs(x, "parent") && runs(x, "child") && admitted(x, "child"));
    finish(x, "parent"); /* a child that outlives its parent keeps what is its own */
    assert_true(runs(x, "child") && admitted(x, "child"));
    restart(x);
    later(x, 5000);
    assert_true(runs(x, "child") && admitted(x, "child"));
    end(x);
}

/* Owners above owners are followed so far, and no further; a circle has no end. */
static void too_many_owners__are_not_followed(void **state) {
    (void)state;
    struct world world, *x = &world;
    begin(x, false);
    char name[16] = "j0", owner[16];
    submit(x, name, QUEUED, NULL, 1, "");
    for (int i = 1; i <= 11; i++) {
        snprintf(owner, sizeof owner, "j%d", i - 1);
        snprintf(name, sizeof name, "j%d", i);
        submit(x, name, QUEUED, owner, 1, "");
    }
    later(x, 10000);
    assert_true(runs(x, "j10"));
    assert_false(runs(x, "j11"));
    unsuspend(x, "j11");
    assert_false(runs(x, "j11"));
    SL_AUTO_JSON *root = job_of_name(x, "j0");
    SL_AUTO_JSON *other = job_of_name(x, "j3");
    SL_AUTO_FREE char *circle =
        sl_xprintf("{'metadata':{'ownerReferences':[{'apiVersion':'batch/v1','kind':'Job','name':'j3','uid':'%s',"
                   "'controller':true}]}}",
                   sl_json_path_str(other, "metadata.uid", ""));
    merge(x, JOBS, "j0", circle);
    later(x, 60000);
    assert_false(runs(x, "j0") || runs(x, "j3"));
    merge(x, JOBS, "j0", "{'metadata':{'ownerReferences':null}}");
    later(x, 60000);
    assert_true(runs(x, "j0") && runs(x, "j10"));
    (void)root;
    end(x);
}

/* What owns no queue says nothing: a plain job under a plain job, an owner of another kind. */
static void owner_without_a_queue__has_no_say(void **state) {
    (void)state;
    struct world world, *x = &world;
    begin(x, false);
    sl_memory_set_faults(x->sim.cluster, &(struct sl_memory_faults){.gc_off = true});
    submit(x, "plain", "", NULL, 1, "");
    submit(x, "child", "", "plain", 1, "");
    submit(x, "queued", QUEUED, "plain", 1, "");
    create(x, "{'apiVersion':'batch/v1','kind':'Job','metadata':{'name':'cron','namespace':'ns','labels':{" QUEUED
              "},'ownerReferences':[{'apiVersion':'batch/v1','kind':'CronJob','name':'c','uid':'c','controller':true}]}"
              ",'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c','image':'x','resources':{"
              "'requests':{'cpu':'1'}}}]}}}}");
    later(x, 5000);
    assert_true(runs(x, "plain") && runs(x, "child") && runs(x, "queued") && runs(x, "cron"));
    assert_true(admitted(x, "queued") && admitted(x, "cron"));
    SL_AUTO_JSON *none = workload_of(x, "child");
    assert_null(none);
    end(x);
}

/* ---- Workloads made beforehand, or afterwards ---- */

static void prebuilt(struct world *x, const char *name) {
    struct sl_err err = SL_ERR_INIT;
    SL_AUTO_FREE char *text =
        sl_xprintf("{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'Workload','metadata':{'name':'%s','namespace':'ns'},"
                   "'spec':{'queueName':'q','podSets':[{'name':'main','count':1,'template':{'spec':{'restartPolicy':"
                   "'Never','containers':[{'name':'c','image':'x','resources':{'requests':{'cpu':'1'}}}]}}}]}}",
                   name);
    SL_AUTO_JSON *o = sl_json_from(text);
    if (simulation_create(&x->sim, o, NULL, &err))
        fail_msg("%s", err.text);
}

static void workload_made_after_its_job__is_adopted_at_once(void **state) {
    (void)state;
    for (int turns = 0; turns < 40; turns++) {
        struct world world, *x = &world;
        begin(x, false);
        sl_memory_set_faults(x->sim.cluster, &(struct sl_memory_faults){.delay_ms = (unsigned)turns * 5,
                                                                        .conflict = turns % 3 ? 300 : 0});
        if (turns % 4 == 3)
            prebuilt(x, "made");
        submit(x, "late", QUEUED ",'kueue.x-k8s.io/prebuilt-workload-name':'made'", NULL, 1, "");
        submit(x, "other", QUEUED, NULL, 1, "'kueue.x-k8s.io/prebuilt-workload-name':'else'");
        if (turns % 4 == 1)
            later(x, 60000);
        if (turns % 4 == 2)
            restart(x);
        if (turns % 4 != 3)
            prebuilt(x, "made");
        later(x, 5000);
        SL_AUTO_JSON *w = workload_of(x, "late");
        assert_non_null(w);
        assert_string_equal(sl_json_path_str(w, "metadata.name", ""), "made");
        assert_true(runs(x, "late") && !runs(x, "other"));
        merge(x, JOBS, "other", "{'metadata':{'annotations':{'kueue.x-k8s.io/prebuilt-workload-name':'new'}}}");
        prebuilt(x, "new");
        prebuilt(x, "else");
        later(x, 5000);
        SL_AUTO_JSON *v = workload_of(x, "other");
        assert_non_null(v);
        assert_string_equal(sl_json_path_str(v, "metadata.name", ""), "new");
        sl_memory_set_faults(x->sim.cluster, &(struct sl_memory_faults){0});
        later(x, 60000);
        end(x);
    }
}

/* Two jobs want the same: one gets it, the other when that one is gone and somebody makes it again. */
static void two_that_want_one_workload__take_turns(void **state) {
    (void)state;
    struct sl_err err = SL_ERR_INIT;
    struct world world, *x = &world;
    begin(x, false);
    submit(x, "one", QUEUED ",'kueue.x-k8s.io/prebuilt-workload-name':'made'", NULL, 1, "");
    submit(x, "two", QUEUED ",'kueue.x-k8s.io/prebuilt-workload-name':'made'", NULL, 1, "");
    prebuilt(x, "made");
    later(x, 5000);
    assert_int_equal(runs(x, "one") + runs(x, "two"), 1);
    const char *first = runs(x, "one") ? "one" : "two", *second = runs(x, "one") ? "two" : "one";
    assert_int_equal(sl_memory_delete(x->sim.cluster, JOBS, "ns", first, &err), 0);
    later(x, 60000);
    prebuilt(x, "made");
    later(x, 5000);
    assert_true(runs(x, second));
    end(x);
}

/* ---- a Workload deleted while nobody looks ---- */

static void workload_deleted_behind_our_back__its_job_forgets_the_flavor(void **state) {
    (void)state;
    for (int suspended = 0; suspended < 2; suspended++) {
        struct sl_err err = SL_ERR_INIT;
        struct world world, *x = &world;
        begin(x, false);
        submit(x, "job", QUEUED, NULL, 2, "");
        assert_true(runs(x, "job"));
        SL_AUTO_JSON *w = workload_of(x, "job"), *before = job_of_name(x, "job");
        assert_string_equal(sl_json_path_str(before, "spec.template.spec.nodeSelector.pool", ""), "a");
        sl_manager_retire(x->sim.manager);
        if (suspended)
            change(x, JOBS, "ns", "job", "{'spec':{'suspend':true}}");
        assert_int_equal(
            sl_memory_delete(x->sim.cluster, WORKLOADS, "ns", sl_json_path_str(w, "metadata.name", ""), &err), 0);
        change(
            x, &sl_watched[SL_WATCHED_CLUSTERQUEUES], NULL, "cq",
            "{'spec':{'resourceGroups':[{'coveredResources':['cpu'],'flavors':[{'name':'b','resources':[{'name':'cpu'"
            ",'nominalQuota':'8'}]}]}]}}");
        restart(x);
        later(x, 60000);
        SL_AUTO_JSON *now = job_of_name(x, "job"), *fresh = workload_of(x, "job");
        assert_true(runs(x, "job") && admitted(x, "job"));
        assert_string_equal(sl_json_path_str(now, "spec.template.spec.nodeSelector.pool", ""), "b");
        assert_int_equal(sl_json_len(sl_json_path(fresh, "spec.podSets.0.template.spec.nodeSelector")), 0);
        assert_null(sl_json_path(fresh, "spec.podSets.0.template.metadata"));
        end(x);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(child_of_a_waiting_job__waits_with_it),
        cmocka_unit_test(owner__is_no_way_around_quota),
        cmocka_unit_test(parent_evicted__its_child_stops),
        cmocka_unit_test(too_many_owners__are_not_followed),
        cmocka_unit_test(owner_without_a_queue__has_no_say),
        cmocka_unit_test(workload_made_after_its_job__is_adopted_at_once),
        cmocka_unit_test(two_that_want_one_workload__take_turns),
        cmocka_unit_test(workload_deleted_behind_our_back__its_job_forgets_the_flavor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
