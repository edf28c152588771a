/* Every transition of a Workload's life, one behaviour a test: status before, facts, status after. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lifecycle.h"
#include "sluice/api/conditions.h"
#include "sluice/api/decode.h"
#include "sluice/base/clock.h"
#include "sluice/base/mem.h"

#define NOW 1780000000000LL /* 2026-05-28T20:26:40Z */

struct world {
    struct sl_json *object;
    struct sl_workload *w;
    struct lc_pods_ready pods_ready;
    struct lc_facts f;
    struct lc_result r;
};

static char *ago(int64_t seconds, char *text) {
    return sl_time_format(NOW - seconds * 1000, text);
}

/* conditions: "Type=True/Reason@seconds-ago", separated by spaces */
static void given(struct world *x, const char *conditions, const char *more_status) {
    memset(x, 0, sizeof *x);
    x->object =
        sl_json_from("{'apiVersion':'kueue.x-k8s.io/"
                     "v1beta2','kind':'Workload','metadata':{'name':'w','namespace':'ns','uid':'u1','generation':1,"
                     "'creationTimestamp':'2026-05-28T20:00:00Z'},'spec':{'active':true,'queueName':'q','podSets':[{'"
                     "name':'main','count':2,"
                     "'template':{'spec':{'containers':[{'name':'c','image':'x'}]}}}]},'status':{'conditions':[]}}");
    struct sl_json *list = sl_json_mut(sl_json_mut(x->object, "status"), "conditions");
    SL_AUTO_FREE char *copy = sl_xstrdup(conditions);
    char *save = NULL;
    for (char *c = strtok_r(copy, " ", &save); c; c = strtok_r(NULL, " ", &save)) {
        char type[64], status[8], reason[64], time[SL_TIME_TEXT];
        int seconds = 0;
        assert_true(sscanf(c, "%63[^=]=%7[^/]/%63[^@]@%d", type, status, reason, &seconds) >= 3);
        sl_json_append(
            list,
            sl_json_fromf("{'type':'%s','status':'%s','reason':'%s','message':'because','lastTransitionTime':'%s'}",
                          type, status, reason, ago(seconds, time)));
    }
    if (more_status) {
        SL_AUTO_JSON *more = sl_json_from(more_status);
        struct sl_json *status = sl_json_mut(x->object, "status");
        SL_JSON_EACH (more, e)
            sl_json_set(status, e.key, sl_json_copy(e.value));
    }
    x->pods_ready = (struct lc_pods_ready){.enabled = true,
                                           .timeout_ms = 300000,
                                           .recovery_timeout_ms = 60000,
                                           .backoff_base_s = 60,
                                           .backoff_max_s = 3600};
    x->f = (struct lc_facts){.now_ms = NOW,
                             .pods_ready = &x->pods_ready,
                             .retain_finished_ms = -1,
                             .retain_deactivated_ms = -1,
                             .has_owner = true,
                             .has_job = true,
                             .lq_exists = true,
                             .cq_exists = true,
                             .cq_active = true,
                             .cq_name = "cq",
                             .n_flavors = 1};
}

static void step(struct world *x) {
    sl_workload_free(x->w);
    assert_int_equal(sl_workload_decode(x->object, &x->w, NULL), 0);
    lc_result_done(&x->r);
    lc_step(sl_json_mut(x->object, "status"), x->w, &x->f, &x->r);
}

static void done(struct world *x) {
    lc_result_done(&x->r);
    sl_workload_free(x->w);
    sl_json_unref(x->object);
}

static void expect(const struct world *x, const char *type, const char *status, const char *reason) {
    const struct sl_json *c = sl_condition_of(x->object, type);
    if (!status) {
        assert_null(c);
        return;
    }
    assert_non_null(c);
    assert_string_equal(sl_json_get_str(c, "status", ""), status);
    assert_string_equal(sl_json_get_str(c, "reason", ""), reason);
}

#define ADMISSION                                                                                                      \
    "'admission':{'clusterQueue':'cq','podSetAssignments':[{'name':'main','count':2,'flavors':{'cpu':'f'},'"           \
    "resourceUsage':{'cpu':'2'}}]}"
#define RUNNING "QuotaReserved=True/QuotaReserved@100 Admitted=True/Admitted@100"

static void finished_job__finishes_the_workload(void **state) {
    (void)state;
    struct world x;
    given(&x, RUNNING, "{" ADMISSION "}");
    x.f.job_finished = x.f.job_success = true;
    x.f.job_message = "all done";
    step(&x);
    expect(&x, "Finished", "True", "Succeeded");
    assert_true(x.r.finished && x.r.changed);
    step(&x);
    assert_false(x.r.changed); /* a second look has nothing to add */
    done(&x);
}

static void deactivated__is_evicted_and_released_when_the_job_has_stopped(void **state) {
    (void)state;
    struct world x;
    given(&x, RUNNING, "{" ADMISSION "}");
    sl_json_set_bool(sl_json_mut(x.object, "spec"), "active", false);
    step(&x);
    expect(&x, "Evicted", "True", "Deactivated");
    expect(&x, "QuotaReserved", "True", "QuotaReserved"); /* pods still run: the quota is theirs */
    assert_non_null(sl_json_path(x.object, "status.admission"));
    x.f.job_stopped = true;
    step(&x);
    expect(&x, "QuotaReserved", "False", "Pending");
    expect(&x, "Admitted", "False", "NoReservation");
    expect(&x, "Requeued", "False", "Deactivated");
    assert_null(sl_json_path(x.object, "status.admission"));
    assert_int_equal(sl_json_int(sl_json_path(x.object, "status.accumulatedPastExecutionTimeSeconds"), -1), 100);
    assert_int_equal(sl_json_int(sl_json_path(x.object, "status.schedulingStats.evictions.0.count"), -1), 1);
    sl_json_set_bool(sl_json_mut(x.object, "spec"), "active", true);
    step(&x);
    expect(&x, "Requeued", "True", "Reactivated");
    done(&x);
}

static void pods_not_ready_in_time__are_evicted_with_backoff_and_a_limit(void **state) {
    (void)state;
    struct world x;
    given(&x, RUNNING " PodsReady=False/WaitForStart@100", "{" ADMISSION "}");
    step(&x);
    assert_int_equal(x.r.deadline_ms, NOW + 200000);
    x.pods_ready.timeout_ms = 100000;
    step(&x);
    expect(&x, "Evicted", "True", "PodsReadyTimeout");
    assert_string_equal(x.r.evicted_cause, "WaitForStart");
    assert_int_equal(sl_json_int(sl_json_path(x.object, "status.requeueState.count"), -1), 1);
    assert_string_equal(sl_json_path_str(x.object, "status.schedulingStats.evictions.0.underlyingCause", "?"),
                        "WaitForStart");
    x.f.job_stopped = true;
    step(&x);
    expect(&x, "Requeued", "False", "PodsReadyTimeout");
    assert_true(x.r.deadline_ms > NOW);
    x.f.now_ms = x.r.deadline_ms;
    step(&x);
    expect(&x, "Requeued", "True", "BackoffFinished");
    assert_null(sl_json_path(x.object, "status.requeueState.requeueAt"));
    done(&x);

    given(&x, RUNNING " PodsReady=False/WaitForStart@100", "{" ADMISSION ",'requeueState':{'count':1}}");
    x.pods_ready.timeout_ms = 100000;
    x.pods_ready.has_backoff_limit = true;
    x.pods_ready.backoff_limit = 1;
    step(&x);
    expect(&x, "DeactivationTarget", "True", "RequeuingLimitExceeded");
    assert_true(x.r.deactivate);
    done(&x);
}

static void stopped_queues__evict_hold_or_cancel(void **state) {
    (void)state;
    struct world x;
    given(&x, RUNNING, "{" ADMISSION "}");
    x.f.cq_stop = SL_STOP_HOLD;
    x.f.cq_active = false;
    step(&x);
    expect(&x, "Evicted", NULL, NULL); /* Hold lets it run */
    x.f.cq_stop = SL_STOP_HOLD_AND_DRAIN;
    step(&x);
    expect(&x, "Evicted", "True", "ClusterQueueStopped");
    x.f.job_stopped = true;
    step(&x);
    expect(&x, "Requeued", "False", "ClusterQueueStopped");
    expect(&x, "QuotaReserved", "False", "Inadmissible");
    x.f.cq_stop = SL_STOP_NONE;
    x.f.cq_active = true;
    step(&x);
    expect(&x, "Requeued", "True", "ClusterQueueRestarted");
    done(&x);

    given(&x, "QuotaReserved=True/QuotaReserved@9",
          "{" ADMISSION ",'admissionChecks':[{'name':'c','state':'Pending','message':'','lastTransitionTime':'2026-05-"
          "28T20:00:00Z'}]}");
    x.f.lq_stop = SL_STOP_HOLD;
    step(&x);
    expect(&x, "QuotaReserved", "False", "Inadmissible");
    expect(&x, "Evicted", NULL, NULL);
    done(&x);
}

static void waiting__says_what_is_missing(void **state) {
    (void)state;
    struct world x;
    given(&x, "", NULL);
    x.f.lq_exists = false;
    step(&x);
    expect(&x, "QuotaReserved", "False", "Inadmissible");
    assert_string_equal(sl_json_get_str(sl_condition_of(x.object, "QuotaReserved"), "message", ""),
                        "LocalQueue q doesn't exist");
    expect(&x, "PodsReady", "False", "WaitForStart");
    x.f.lq_exists = true;
    x.f.gates = "example.com/gate";
    step(&x);
    expect(&x, "QuotaReserved", "False", "AdmissionGated");
    done(&x);
}

static void checks__admit_retry_reject(void **state) {
    (void)state;
    struct sl_check_rule rule = {.name = (char[]){"c"}};
    struct world x;
    given(&x, "QuotaReserved=True/QuotaReserved@9", "{" ADMISSION "}");
    x.f.checks = &rule;
    x.f.n_checks = 1;
    x.f.job_stopped = true;
    step(&x);
    assert_string_equal(sl_json_path_str(x.object, "status.admissionChecks.0.state", "?"), "Pending");
    expect(&x, "Admitted", NULL, NULL); /* never admitted: no condition */
    sl_json_set_str(sl_json_mut_at(sl_json_mut(sl_json_mut(x.object, "status"), "admissionChecks"), 0), "state",
                    "Retry");
    step(&x);
    expect(&x, "Evicted", "True", "AdmissionCheck");
    expect(&x, "QuotaReserved", "False", "Pending");
    assert_int_equal(sl_json_int(sl_json_path(x.object, "status.admissionChecks.0.retryCount"), -1), 1);
    sl_json_set_str(sl_json_mut_at(sl_json_mut(sl_json_mut(x.object, "status"), "admissionChecks"), 0), "state",
                    "Rejected");
    step(&x);
    expect(&x, "DeactivationTarget", "True", "AdmissionCheck");
    assert_true(x.r.deactivate);
    done(&x);

    given(
        &x, "QuotaReserved=True/QuotaReserved@9",
        "{" ADMISSION
        ",'admissionChecks':[{'name':'c','state':'Ready','message':'','lastTransitionTime':'2026-05-28T20:00:00Z'}]}");
    x.f.checks = &rule;
    x.f.n_checks = 1;
    step(&x);
    expect(&x, "Admitted", "True", "Admitted");
    done(&x);
}

static void execution_time__ends_in_deactivation(void **state) {
    (void)state;
    struct world x;
    given(&x, RUNNING, "{" ADMISSION ",'accumulatedPastExecutionTimeSeconds':50}");
    sl_json_set_int(sl_json_mut(x.object, "spec"), "maximumExecutionTimeSeconds", 160);
    step(&x);
    assert_int_equal(x.r.deadline_ms, NOW + 10000);
    sl_json_set_int(sl_json_mut(x.object, "spec"), "maximumExecutionTimeSeconds", 150);
    step(&x);
    expect(&x, "DeactivationTarget", "True", "MaximumExecutionTimeExceeded");
    sl_json_set_bool(sl_json_mut(x.object, "spec"), "active", false);
    step(&x);
    expect(&x, "Evicted", "True", "DeactivatedDueToMaximumExecutionTimeExceeded");
    expect(&x, "DeactivationTarget", NULL, NULL);
    x.f.job_stopped = true;
    step(&x);
    expect(&x, "Admitted", "False", "NoReservation");
    expect(&x, "Requeued", "False", "DeactivatedDueToMaximumExecutionTimeExceeded");
    sl_json_set_bool(sl_json_mut(x.object, "spec"), "active", true);
    step(&x);
    expect(&x, "Requeued", "True", "Reactivated");
    assert_null(
        sl_json_path(x.object, "status.accumulatedPastExecutionTimeSeconds")); /* its next life has its whole time */
    done(&x);
}

/* A check that wants another try of a Workload that waits: the time of that is gone when it has come. */
static void retry_of_one_that_waits__leaves_no_time_behind(void **state) {
    (void)state;
    static const char *const requeued[] = {"", " Requeued=True/Preempted@50"};
    for (size_t i = 0; i < SL_COUNT(requeued); i++) {
        struct sl_check_rule rule = {.name = (char[]){"c"}};
        struct world x;
        SL_AUTO_FREE char *conditions = sl_xprintf("QuotaReserved=False/Pending@50%s", requeued[i]);
        given(&x, conditions,
              "{'requeueState':{'count':2},'admissionChecks':[{'name':'c','state':'Retry','message':'','"
              "requeueAfterSeconds':5,'lastTransitionTime':'2026-05-28T20:26:40Z'}]}");
        x.f.checks = &rule;
        x.f.n_checks = 1;
        x.f.job_stopped = true;
        step(&x);
        expect(&x, "Evicted", "True", "AdmissionCheck");
        assert_string_equal(sl_json_path_str(x.object, "status.requeueState.requeueAt", "?"), "2026-05-28T20:26:45Z");
        assert_int_equal(x.r.deadline_ms, NOW + 5000);
        x.f.now_ms = x.r.deadline_ms;
        step(&x);
        assert_null(sl_json_path(x.object, "status.requeueState.requeueAt"));
        assert_int_equal(sl_json_int(sl_json_path(x.object, "status.requeueState.count"), -1), 2);
        step(&x);
        assert_false(x.r.changed);
        done(&x);
    }
}

static void admission__clears_what_was_and_reserves(void **state) {
    (void)state;
    struct world x;
    given(&x,
          "QuotaReserved=False/Pending@50 Evicted=True/Preempted@60 Preempted=True/InClusterQueue@60 "
          "Requeued=True/Preempted@50",
          "{'resourceRequests':[{'name':'main','resources':{'cpu':'2'}}]}");
    assert_int_equal(sl_workload_decode(x.object, &x.w, NULL), 0);
    struct sl_assigned_flavor flavor = {(char[]){"cpu"}, (char[]){"f"}, 2000};
    struct sl_podset_assignment ps = {(char[]){"main"}, 2, &flavor, 1};
    struct sl_admission a = {(char[]){"cq"}, &ps, 1};
    lc_admit(sl_json_mut(x.object, "status"), x.w, &x.f, &a, &x.r);
    expect(&x, "QuotaReserved", "True", "QuotaReserved");
    expect(&x, "Admitted", "True", "Admitted");
    expect(&x, "Evicted", "False", "QuotaReserved");
    expect(&x, "Preempted", "False", "QuotaReserved");
    assert_string_equal(sl_json_get_str(sl_condition_of(x.object, "Evicted"), "message", ""), "Previously: because");
    assert_null(sl_json_path(x.object, "status.resourceRequests"));
    assert_string_equal(sl_json_path_str(x.object, "status.admission.podSetAssignments.0.resourceUsage.cpu", "?"), "2");
    done(&x);
}

static void preemption__of_a_job_that_never_started_releases_at_once(void **state) {
    (void)state;
    struct world x;
    given(&x, "QuotaReserved=True/QuotaReserved@9", "{" ADMISSION "}");
    x.f.job_stopped = true;
    assert_int_equal(sl_workload_decode(x.object, &x.w, NULL), 0);
    lc_preempt(sl_json_mut(x.object, "status"), x.w, &x.f, "InClusterQueue", "somebody more important", &x.r);
    expect(&x, "Preempted", "True", "InClusterQueue");
    expect(&x, "Evicted", "True", "Preempted");
    expect(&x, "QuotaReserved", "False", "Pending");
    expect(&x, "Requeued", "True", "Preempted");
    done(&x);
}

static void orphan__is_finished(void **state) {
    (void)state;
    struct world x;
    given(&x, RUNNING, "{" ADMISSION "}");
    x.f.has_job = false;
    x.f.orphan = true;
    step(&x);
    expect(&x, "Finished", "True", "OwnerNotFound");
    done(&x);
}

/* Switched off: a job has to stop first; what was made by hand has nothing to wait for; what belongs to others waits
 * for them. */
static void switched_off__gives_back_when_nothing_runs(void **state) {
    (void)state;
    static const struct {
        bool has_owner, job_stopped, nobodys, holds;
    } cases[] = {{true, false, false, true},
                 {true, true, false, false},
                 {false, false, true, false},
                 {false, false, false, true}};
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        struct world x;
        given(&x, RUNNING, "{" ADMISSION "}");
        sl_json_set_bool(sl_json_mut(x.object, "spec"), "active", false);
        x.f.has_owner = x.f.has_job = cases[i].has_owner;
        x.f.job_stopped = cases[i].job_stopped;
        x.f.nobodys = cases[i].nobodys;
        step(&x);
        expect(&x, "Evicted", "True", "Deactivated");
        assert_int_equal(sl_condition_is_true(x.object, "QuotaReserved"), cases[i].holds);
        done(&x);
    }
}

static void reclaimable__only_grows(void **state) {
    (void)state;
    struct world x;
    int32_t counts[] = {1};
    given(&x, RUNNING, "{" ADMISSION "}");
    x.f.job_reclaimable = counts;
    step(&x);
    assert_int_equal(sl_json_int(sl_json_path(x.object, "status.reclaimablePods.0.count"), -1), 1);
    counts[0] = 0;
    step(&x);
    assert_int_equal(sl_json_int(sl_json_path(x.object, "status.reclaimablePods.0.count"), -1), 1);
    done(&x);
}

static void retention__deletes_when_the_time_has_come(void **state) {
    (void)state;
    struct world x;
    given(&x, RUNNING " Finished=True/Succeeded@10", "{" ADMISSION "}");
    x.f.retain_finished_ms = 20000;
    step(&x);
    assert_int_equal(x.r.deadline_ms, NOW + 10000);
    assert_false(x.r.delete_workload);
    x.f.retain_finished_ms = 10000;
    step(&x);
    assert_true(x.r.delete_workload);
    done(&x);
}

static void patch__names_only_what_changed(void **state) {
    (void)state;
    SL_AUTO_JSON *old = sl_json_from("{'a':1,'b':{'x':1,'y':2},'c':[1]}"),
                 *now = sl_json_from("{'a':1,'b':{'x':1},'d':true}");
    SL_AUTO_JSON *patch = lc_status_patch(old, now), *want = sl_json_from("{'b':{'x':1,'y':null},'c':null,'d':true}");
    assert_true(sl_json_equal(patch, want));
    SL_AUTO_JSON *merged = sl_json_merge_patch(sl_json_copy(old), patch);
    assert_true(sl_json_equal(merged, now));
    assert_null(lc_status_patch(now, now));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finished_job__finishes_the_workload),
        cmocka_unit_test(deactivated__is_evicted_and_released_when_the_job_has_stopped),
        cmocka_unit_test(pods_not_ready_in_time__are_evicted_with_backoff_and_a_limit),
        cmocka_unit_test(stopped_queues__evict_hold_or_cancel),
        cmocka_unit_test(waiting__says_what_is_missing),
        cmocka_unit_test(checks__admit_retry_reject),
        cmocka_unit_test(execution_time__ends_in_deactivation),
        cmocka_unit_test(retry_of_one_that_waits__leaves_no_time_behind),
        cmocka_unit_test(admission__clears_what_was_and_reserves),
        cmocka_unit_test(preemption__of_a_job_that_never_started_releases_at_once),
        cmocka_unit_test(orphan__is_finished),
        cmocka_unit_test(switched_off__gives_back_when_nothing_runs),
        cmocka_unit_test(reclaimable__only_grows),
        cmocka_unit_test(retention__deletes_when_the_time_has_come),
        cmocka_unit_test(patch__names_only_what_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
