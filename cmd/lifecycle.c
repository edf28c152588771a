/*
 * Each step goes down one list of rules in a fixed order; the first that ends the Workload's life ends the step. A rule
 * only looks at the decoded view (what was) and the facts, and writes the status tree (what will be), so rules do not
 * depend on each other's half-written output, except where a later rule asks for `holds` or `admitted` of this very
 * step.
 */
#include "lifecycle.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/api/conditions.h"
#include "sluice/api/decode.h"
#include "sluice/api/names.h"
#include "sluice/base/clock.h"
#include "sluice/base/mem.h"

struct step {
    struct sl_json *status;
    const struct sl_workload *w;
    const struct lc_facts *f;
    struct lc_result *r;
    bool holds, admitted, evicted; /* as this step leaves them */
};

static void due(struct lc_result *r, int64_t at_ms) {
    if (r->deadline_ms < 0 || at_ms < r->deadline_ms)
        r->deadline_ms = at_ms;
}

static void event(struct step *s, bool warning, const char *reason, const char *note) {
    if (s->r->n_events == LC_MAX_EVENTS)
        return;
    struct lc_event *e = &s->r->events[s->r->n_events++];
    *e = (struct lc_event){.warning = warning, .note = sl_xstrdup(note)};
    snprintf(e->reason, sizeof e->reason, "%s", reason);
}

static const struct sl_json *cond(const struct sl_json *status, const char *type) {
    return sl_condition_find(sl_json_get(status, "conditions"), type);
}
static bool cond_true(const struct sl_json *status, const char *type) {
    return !strcmp(sl_json_get_str(cond(status, type), "status", ""), "True");
}

static void condition(struct step *s, const char *type, bool value, const char *reason, const char *message) {
    struct sl_condition c = {.type = type,
                             .status = value ? "True" : "False",
                             .reason = reason,
                             .message = message,
                             .observed_generation = strcmp(type, SL_COND_PREEMPTED) ? s->w->generation : 0};
    const struct sl_json *have = cond(s->status, type);
    if (have && !strcmp(sl_json_get_str(have, "status", ""), c.status) &&
        !strcmp(sl_json_get_str(have, "reason", ""), reason) && !strcmp(sl_json_get_str(have, "message", ""), message))
        return; /* a new generation alone is not worth a write */
    if (sl_condition_set(sl_json_make_array(s->status, "conditions"), &c, s->f->now_ms))
        s->r->changed = true;
}

static void set_member(struct step *s, const char *key, struct sl_json *take) {
    if (sl_json_equal(sl_json_get(s->status, key), take)) {
        sl_json_unref(take);
        return;
    }
    sl_json_set(s->status, key, take);
    s->r->changed = true;
}

static void del_member(struct step *s, const char *key) {
    if (sl_json_get(s->status, key)) {
        sl_json_del(s->status, key);
        s->r->changed = true;
    }
}

/* ---- parts ---- */

static void pods_ready_condition(struct step *s) {
    const struct lc_facts *f = s->f;
    if (!f->pods_ready->enabled || !f->has_job)
        return;
    const struct sl_condition_view *c = &s->w->pods_ready;
    bool recovering = c->reason && (!strcmp(c->reason, "WaitForRecovery") || !strcmp(c->reason, "Recovered"));
    if (!s->admitted) {
        condition(s, SL_COND_PODS_READY, false, "WaitForStart", "Not all pods are ready or succeeded");
    } else if (f->job_ready) {
        if (c->status != SL_TRI_TRUE)
            s->r->became_ready = true;
        condition(s, SL_COND_PODS_READY, true, recovering ? "Recovered" : "Started",
                  recovering ? "All pods are ready again and the workload is running"
                             : "All pods reached readiness and the workload is running");
    } else if (c->status == SL_TRI_TRUE || recovering) {
        condition(s, SL_COND_PODS_READY, false, "WaitForRecovery", "At least one pod has failed, waiting for recovery");
    } else {
        condition(s, SL_COND_PODS_READY, false, "WaitForStart", "Not all pods are ready or succeeded");
    }
}

static void count_eviction(struct step *s, const char *reason, const char *cause) {
    struct sl_json *stats = sl_json_make_object(s->status, "schedulingStats");
    struct sl_json *list = sl_json_make_array(stats, "evictions");
    for (size_t i = 0; i < sl_json_len(list); i++) {
        struct sl_json *e = sl_json_mut_at(list, i);
        if (!strcmp(sl_json_get_str(e, "reason", ""), reason) &&
            !strcmp(sl_json_get_str(e, "underlyingCause", ""), cause)) {
            int64_t n = sl_json_get_int(e, "count", 0);
            sl_json_set_int(e, "count", n < INT32_MAX ? n + 1 : n);
            return;
        }
    }
    s->r->evicted_first = true;
    struct sl_json *e = sl_json_new_object();
    sl_json_set_str(e, "reason", reason);
    sl_json_set_str(e, "underlyingCause", cause);
    sl_json_set_int(e, "count", 1);
    sl_json_append(list, e);
}

static void reset_checks(struct step *s) {
    char now[SL_TIME_TEXT];
    struct sl_json *list = sl_json_mut(s->status, "admissionChecks");
    for (size_t i = 0; i < sl_json_len(list); i++) {
        struct sl_json *c = sl_json_mut_at(list, i);
        SL_AUTO_FREE char *state = sl_xstrdup(sl_json_get_str(c, "state", "Pending"));
        if (!strcmp(state, "Pending"))
            continue;
        sl_json_set_str(c, "state", "Pending");
        sl_json_set_str(c, "lastTransitionTime", sl_time_format(s->f->now_ms, now));
        sl_json_set(c, "message", sl_json_new_strf("Reset to Pending after eviction. Previously: %s", state));
        sl_json_del(c, "podSetUpdates");
        if (!strcmp(state, "Retry"))
            sl_json_set_int(c, "retryCount", sl_json_get_int(c, "retryCount", 0) + 1);
        else
            sl_json_del(c, "retryCount");
    }
}

/* Marks the Workload evicted; it keeps its quota until the job has stopped. cause: behind a deactivation, "" otherwise.
 */
static void evict(struct step *s, const char *reason, const char *cause, const char *message) {
    char full[96];
    snprintf(full, sizeof full, "%s%s%s", reason, *cause ? "DueTo" : "", cause);
    condition(s, SL_COND_EVICTED, true, full, message);
    reset_checks(s);
    static const char *const cleared[] = {"clusterName", "nominatedClusterNames", "unhealthyNodes"};
    for (size_t i = 0; i < SL_COUNT(cleared); i++)
        del_member(s, cleared[i]);
    count_eviction(s, reason, cause);
    s->r->changed = true;
    s->evicted = true;
    s->r->evicted_reason = reason;
    s->r->evicted_cause = cause;
    char text[sizeof full + sizeof "EvictedDueTo"];
    snprintf(text, sizeof text, "EvictedDueTo%s", full);
    event(s, false, text, message);
}

static const char *cause_of_deactivation(const struct sl_workload *w) {
    static const char *const known[] = {"MaximumExecutionTimeExceeded", "RequeuingLimitExceeded", "AdmissionCheck"};
    for (size_t i = 0; i < SL_COUNT(known); i++)
        if (w->deactivation_target.reason && !strcmp(w->deactivation_target.reason, known[i]))
            return known[i];
    return "";
}

static const char *condition_message(const struct step *s, const char *type) {
    return sl_json_get_str(cond(s->status, type), "message", "");
}

static void unset_admitted(struct step *s) {
    if (!cond_true(s->status, SL_COND_ADMITTED))
        return;
    int64_t held_s = (s->f->now_ms - s->w->admitted.since_ms) / 1000;
    set_member(s, "accumulatedPastExecutionTimeSeconds",
               sl_json_new_int(s->w->past_exec_s + (held_s > 0 ? held_s : 0)));
    bool unsatisfied = false;
    SL_JSON_ITEMS (sl_json_get(s->status, "admissionChecks"), c)
        unsatisfied |= strcmp(sl_json_get_str(c.value, "state", ""), "Ready") != 0;
    condition(s, SL_COND_ADMITTED, false, unsatisfied ? "NoReservationUnsatisfiedChecks" : "NoReservation",
              "The workload has no reservation");
    s->admitted = false;
}

static void drop_reservation(struct step *s, const char *reason, const char *message) {
    condition(s, SL_COND_QUOTA_RESERVED, false, reason, message);
    del_member(s, "admission");
    s->holds = false;
    unset_admitted(s);
    s->r->released = true;
}

/* After an eviction, when the job has no pods any more: quota goes back. */
static void release(struct step *s) {
    const struct sl_json *evicted = cond(s->status, SL_COND_EVICTED);
    SL_AUTO_FREE char *reason = sl_xstrdup(sl_json_get_str(evicted, "reason", "")),
                      *message = sl_xstrdup(sl_json_get_str(evicted, "message", ""));
    bool at_once = !strcmp(reason, "Preempted") || !strcmp(reason, "NodeFailures");
    condition(s, SL_COND_REQUEUED, at_once, reason, message);
    drop_reservation(s, "Pending", message);
}

static int64_t requeue_at(const struct step *s) {
    int64_t at;
    const char *text = sl_json_path_str(s->status, "requeueState.requeueAt", NULL);
    return sl_time_parse(text, &at) ? at : -1;
}

static void set_requeue(struct step *s, int64_t at_ms, int64_t count) {
    char text[SL_TIME_TEXT];
    struct sl_json *state = sl_json_make_object(s->status, "requeueState");
    if (at_ms >= 0)
        sl_json_set_str(state, "requeueAt", sl_time_format(at_ms, text)); /* whole seconds, as every time of the API */
    else
        sl_json_del(state, "requeueAt");
    if (count >= 0)
        sl_json_set_int(state, "count", count);
    if (!sl_json_len(state))
        sl_json_del(s->status, "requeueState");
    s->r->changed = true;
}

static bool starts(const char *text, const char *prefix) {
    return text && !strncmp(text, prefix, strlen(prefix));
}

/* A Workload that was evicted and may not be requeued yet: is the obstacle gone? */
static void requeue(struct step *s) {
    if (s->holds)
        return;
    int64_t at = requeue_at(s);
    if (at > s->f->now_ms)
        due(s->r, at);
    else if (at >= 0) /* over, also for one that held no quota when it was sent back */
        set_requeue(s, -1, -1);
    const struct sl_json *c = cond(s->status, SL_COND_REQUEUED);
    if (!c || cond_true(s->status, SL_COND_REQUEUED))
        return;
    SL_AUTO_FREE char *why = sl_xstrdup(sl_json_get_str(c, "reason", ""));
    if (!strcmp(why, "PodsReadyTimeout") || !strcmp(why, "AdmissionCheck")) {
        if (at <= s->f->now_ms)
            condition(s, SL_COND_REQUEUED, true, "BackoffFinished", "The workload backoff was finished");
    } else if (starts(why, "Deactivated") &&
               s->w->active) { /* the prefix, so that what we deactivated comes back too */
        condition(s, SL_COND_REQUEUED, true, "Reactivated", "The workload was reactivated");
        if (!strcmp(why, "DeactivatedDueToMaximumExecutionTimeExceeded")) /* it has its whole time again */
            del_member(s, "accumulatedPastExecutionTimeSeconds");
    } else if (!strcmp(why, "ClusterQueueStopped") && s->f->cq_exists && s->f->cq_stop == SL_STOP_NONE) {
        condition(s, SL_COND_REQUEUED, true, "ClusterQueueRestarted",
                  "The ClusterQueue was restarted after being stopped");
    } else if (!strcmp(why, "LocalQueueStopped") && s->f->lq_exists && s->f->lq_stop == SL_STOP_NONE) {
        condition(s, SL_COND_REQUEUED, true, "LocalQueueRestarted", "The LocalQueue was restarted after being stopped");
    }
}

static bool rule_applies(const struct step *s, const struct sl_check_rule *rule, const struct sl_admission *a) {
    if (!rule->n_flavors)
        return true;
    if (!a)
        return rule->n_flavors >= s->f->n_flavors;
    for (size_t i = 0; i < a->n_podsets; i++)
        for (size_t j = 0; j < a->podsets[i].n_flavors; j++)
            for (size_t k = 0; k < rule->n_flavors; k++)
                if (!strcmp(rule->flavors[k], a->podsets[i].flavors[j].flavor))
                    return true;
    return false;
}

static int by_name(const void *a, const void *b) {
    const struct sl_check_rule *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* status.admissionChecks lists what the ClusterQueue asks of these flavors, sorted by name; returns whether all are
 * Ready. */
static bool sync_checks(struct step *s, const struct sl_admission *a) {
    const struct sl_json *old = sl_json_get(s->status, "admissionChecks");
    struct sl_json *list = sl_json_new_array();
    const struct sl_check_rule **rules = sl_xalloc((s->f->n_checks + 1) * sizeof *rules);
    size_t n = 0;
    for (size_t i = 0; i < s->f->n_checks; i++)
        if (rule_applies(s, &s->f->checks[i], a))
            rules[n++] = &s->f->checks[i];
    qsort(rules, n, sizeof *rules, by_name);
    bool all_ready = true;
    for (size_t i = 0; i < n; i++) {
        const struct sl_json *have = NULL;
        SL_JSON_ITEMS (old, c)
            if (!strcmp(sl_json_get_str(c.value, "name", ""), rules[i]->name))
                have = c.value;
        struct sl_json *entry = sl_json_copy(have);
        if (!entry) {
            char now[SL_TIME_TEXT];
            entry = sl_json_new_object();
            sl_json_set_str(entry, "name", rules[i]->name);
            sl_json_set_str(entry, "state", "Pending");
            sl_json_set_str(entry, "message", "");
            sl_json_set_str(entry, "lastTransitionTime", sl_time_format(s->f->now_ms, now));
        }
        all_ready = all_ready && !strcmp(sl_json_get_str(entry, "state", ""), "Ready");
        sl_json_append(list, entry);
    }
    free(rules);
    if (!sl_json_len(list)) {
        sl_json_unref(list);
        del_member(s, "admissionChecks");
    } else {
        set_member(s, "admissionChecks", list);
    }
    return all_ready;
}

/* Names and messages of the checks in a state, for people; owned, NULL when there is none. */
static char *checks_in_state(const struct step *s, const char *state) {
    struct sl_buf b = SL_BUF_INIT(16384);
    SL_JSON_ITEMS (sl_json_get(s->status, "admissionChecks"), c) {
        if (strcmp(sl_json_get_str(c.value, "state", ""), state))
            continue;
        const char *message = sl_json_get_str(c.value, "message", "");
        sl_buf_printf(&b, "%s\"%s\"", b.len ? ", " : "", sl_json_get_str(c.value, "name", ""));
        if (*message)
            sl_buf_printf(&b, " (%.1024s)", message);
    }
    char *text = b.len ? sl_buf_take(&b) : NULL;
    sl_buf_done(&b);
    return text;
}

static void deactivation_target(struct step *s, const char *reason, const char *message) {
    condition(s, SL_COND_DEACTIVATION_TARGET, true, reason, message);
    s->r->deactivate = true;
}

/* Checks that want another try, or none at all. True when the rest of the step has nothing to add. */
static bool judge_checks(struct step *s) {
    SL_AUTO_FREE char *rejected = checks_in_state(s, "Rejected"), *retry = checks_in_state(s, "Retry");
    if (rejected) {
        SL_AUTO_FREE char *message = sl_xprintf("AdmissionCheck in Rejected state: %s", rejected);
        deactivation_target(s, "AdmissionCheck", message);
        event(s, true, "AdmissionCheckRejected", message);
        return true;
    }
    if (!retry || s->evicted)
        return false;
    int64_t at = requeue_at(s);
    SL_JSON_ITEMS (sl_json_get(s->status, "admissionChecks"), c) {
        int64_t since, after = sl_json_get_int(c.value, "requeueAfterSeconds", -1);
        if (!strcmp(sl_json_get_str(c.value, "state", ""), "Retry") && after >= 0 && after <= INT32_MAX &&
            sl_time_parse(sl_json_get_str(c.value, "lastTransitionTime", NULL), &since) && since + after * 1000 > at)
            at = since + after * 1000;
    }
    if (at > s->f->now_ms && at > requeue_at(s))
        set_requeue(s, at, -1);
    SL_AUTO_FREE char *message = sl_xprintf("Evicted due to AdmissionCheck in Retry state: %s", retry);
    evict(s, "AdmissionCheck", "", message);
    return false;
}

static int64_t backoff_ms(const struct lc_pods_ready *p, int64_t n) {
    int64_t s = p->backoff_base_s;
    for (int64_t i = 1; i < n; i++) {
        if (p->backoff_max_s > 0 && s >= p->backoff_max_s)
            break;
        if (s > INT32_MAX / 2)
            break;
        s *= 2;
    }
    if (n > 1 && p->backoff_max_s > 0 && s > p->backoff_max_s)
        s = p->backoff_max_s;
    return s * 1000;
}

static void pods_ready_timeout(struct step *s) {
    const struct lc_pods_ready *p = s->f->pods_ready;
    const struct sl_condition_view *c = &s->w->pods_ready;
    if (!p->enabled || !s->f->has_job || !s->admitted || s->evicted || !s->w->active ||
        s->w->admitted.status != SL_TRI_TRUE || cond_true(s->status, SL_COND_PODS_READY))
        return;
    bool recovery = !strcmp(sl_json_get_str(cond(s->status, SL_COND_PODS_READY), "reason", ""), "WaitForRecovery");
    if (recovery && p->recovery_disabled)
        return;
    int64_t since = s->w->admitted.since_ms;
    if (recovery)
        since = c->status == SL_TRI_FALSE && c->reason && !strcmp(c->reason, "WaitForRecovery") ? c->since_ms
                                                                                                : s->f->now_ms;
    int64_t at = since + (recovery ? p->recovery_timeout_ms : p->timeout_ms);
    if (at > s->f->now_ms) {
        due(s->r, at);
        return;
    }
    int64_t n = (int64_t)s->w->requeue_count + 1;
    if (p->has_backoff_limit && n > p->backoff_limit) {
        deactivation_target(s, "RequeuingLimitExceeded", "exceeding the maximum number of re-queuing retries");
        return;
    }
    SL_AUTO_FREE char *message = sl_xprintf("Exceeded the PodsReady timeout %s/%s", s->w->ns, s->w->name);
    int64_t wait = s->f->now_ms + backoff_ms(p, n), have = requeue_at(s);
    set_requeue(s, wait > have ? wait : have, n);
    evict(s, "PodsReadyTimeout", "", message);
    s->r->evicted_cause = recovery ? "WaitForRecovery" : "WaitForStart";
    struct sl_json *list = sl_json_mut(sl_json_mut(s->status, "schedulingStats"), "evictions");
    for (size_t i = 0; i < sl_json_len(list); i++) { /* the statistic knows the cause, the reason does not show it */
        struct sl_json *e = sl_json_mut_at(list, i);
        if (!strcmp(sl_json_get_str(e, "reason", ""), "PodsReadyTimeout") &&
            !*sl_json_get_str(e, "underlyingCause", "")) {
            sl_json_remove(list, i);
            count_eviction(s, "PodsReadyTimeout", s->r->evicted_cause);
            break;
        }
    }
}

static void execution_time(struct step *s) {
    if (!s->w->max_exec_s || s->w->admitted.status != SL_TRI_TRUE || !s->admitted || s->evicted || !s->w->active)
        return;
    int64_t at = s->w->admitted.since_ms + (s->w->max_exec_s - s->w->past_exec_s) * 1000;
    if (at > s->f->now_ms) {
        due(s->r, at);
        return;
    }
    deactivation_target(s, "MaximumExecutionTimeExceeded", "exceeding the maximum execution time");
    del_member(s, "accumulatedPastExecutionTimeSeconds");
    event(s, true, "MaximumExecutionTimeExceeded", "exceeding the maximum execution time");
}

/* What the stop policies and the end of queues do to a Workload that holds quota. */
static void stopped_queues(struct step *s) {
    const struct lc_facts *f = s->f;
    if (!s->holds || s->evicted)
        return;
    if (s->admitted) {
        if (f->lq_exists && f->lq_stop == SL_STOP_HOLD_AND_DRAIN)
            evict(s, "LocalQueueStopped", "", "The LocalQueue is stopped");
        else if (f->cq_exists && f->cq_stop == SL_STOP_HOLD_AND_DRAIN)
            evict(s, "ClusterQueueStopped", "", "The ClusterQueue is stopped");
        return;
    }
    SL_AUTO_FREE char *message = NULL;
    if (!f->lq_exists)
        message = sl_xprintf("LocalQueue %s doesn't exist", s->w->queue);
    else if (f->lq_deleting || f->lq_stop != SL_STOP_NONE)
        message = sl_xprintf("LocalQueue %s is %s", s->w->queue, f->lq_deleting ? "terminating" : "stopped");
    else if (!f->cq_exists)
        message = sl_xprintf("ClusterQueue %s doesn't exist", f->cq_name);
    else if (f->cq_deleting || f->cq_stop != SL_STOP_NONE)
        message = sl_xprintf("ClusterQueue %s is %s", f->cq_name, f->cq_deleting ? "terminating" : "stopped");
    if (message)
        drop_reservation(s, "Inadmissible", message);
}

bool lc_may_be_tried(const struct lc_facts *f) {
    return f->lq_exists && !f->lq_deleting && f->lq_stop == SL_STOP_NONE && f->cq_exists && f->cq_active &&
           !(f->gates && *f->gates);
}

/* Before the reason why it has no quota changes: the gates are closed, or open again. note: while they are closed. */
static void tell_gates(struct step *s, const char *note) {
    bool told = !strcmp(sl_json_get_str(cond(s->status, SL_COND_QUOTA_RESERVED), "reason", ""), "AdmissionGated");
    if (note && !told)
        event(s, false, "AdmissionGated", note);
    if (!note && told)
        event(s, false, "AdmissionGateCleared", "No admission gate is left");
}

/* Why a Workload that waits cannot even be tried. */
static void inadmissible(struct step *s) {
    const struct lc_facts *f = s->f;
    if (s->holds || !s->w->active)
        return;
    SL_AUTO_FREE char *message = NULL;
    const char *reason = "Inadmissible";
    if (f->gates && *f->gates) {
        reason = "AdmissionGated";
        message = sl_xprintf("Admission is gated by: %.1000s", f->gates);
    } else if (!*s->w->queue) {
        message = sl_xprintf("The workload names no LocalQueue");
    } else if (!f->lq_exists) {
        message = sl_xprintf("LocalQueue %s doesn't exist", s->w->queue);
    } else if (f->lq_deleting || f->lq_stop != SL_STOP_NONE) {
        message = sl_xprintf("LocalQueue %s is inactive", s->w->queue);
    } else if (!f->cq_exists) {
        message = sl_xprintf("ClusterQueue %s doesn't exist", f->cq_name);
    } else if (!f->cq_active) {
        message = sl_xprintf("ClusterQueue %s is inactive%s%s", f->cq_name, *f->cq_message ? ": " : "", f->cq_message);
    } else {
        return;
    }
    tell_gates(s, f->gates && *f->gates ? message : NULL);
    condition(s, SL_COND_QUOTA_RESERVED, false, reason, message);
}

static void reclaimable(struct step *s) {
    if (!s->f->job_reclaimable || !s->holds)
        return;
    bool more = false;
    for (size_t i = 0; i < s->w->n_podsets; i++)
        more |= s->f->job_reclaimable[i] > s->w->reclaimable[i];
    if (!more)
        return;
    struct sl_json *list = sl_json_new_array();
    for (size_t i = 0; i < s->w->n_podsets; i++) {
        int32_t n = s->f->job_reclaimable[i] > s->w->reclaimable[i] ? s->f->job_reclaimable[i] : s->w->reclaimable[i];
        if (!n)
            continue;
        struct sl_json *e = sl_json_new_object();
        sl_json_set_str(e, "name", s->w->podsets[i].name);
        sl_json_set_int(e, "count", n);
        sl_json_append(list, e);
    }
    set_member(s, "reclaimablePods", list);
}

static bool all_checks_ready(const struct step *s) {
    SL_JSON_ITEMS (sl_json_get(s->status, "admissionChecks"), c) {
        if (strcmp(sl_json_get_str(c.value, "state", ""), "Ready"))
            return false;
    }
    return true;
}

static void admitted_condition(struct step *s) {
    if (!s->holds || s->evicted)
        return;
    if (all_checks_ready(s)) {
        s->r->admitted |= !s->admitted;
        condition(s, SL_COND_ADMITTED, true, "Admitted", "The workload is admitted");
        s->admitted = true;
    } else if (s->admitted) {
        condition(s, SL_COND_ADMITTED, false, "UnsatisfiedChecks", "The workload has not all checks ready");
        s->admitted = false;
    }
}

static struct step begin(struct sl_json *status, const struct sl_workload *w, const struct lc_facts *f,
                         struct lc_result *r) {
    *r = (struct lc_result){.deadline_ms = -1};
    return (struct step){status,
                         w,
                         f,
                         r,
                         w->quota_reserved.status == SL_TRI_TRUE,
                         w->admitted.status == SL_TRI_TRUE,
                         w->evicted.status == SL_TRI_TRUE};
}

static void retention(struct step *s) {
    if (s->w->finished.status == SL_TRI_TRUE && s->f->retain_finished_ms >= 0) {
        int64_t at = s->w->finished.since_ms + s->f->retain_finished_ms;
        if (at > s->f->now_ms)
            due(s->r, at);
        else if (!s->w->deleting)
            s->r->delete_workload = true;
    }
    if (s->w->finished.status != SL_TRI_TRUE && s->f->retain_deactivated_ms >= 0 &&
        s->w->evicted.status == SL_TRI_TRUE && s->f->has_job && starts(s->w->evicted.reason, "DeactivatedDueTo") &&
        !s->w->active) {
        int64_t at = s->w->evicted.since_ms + s->f->retain_deactivated_ms;
        if (at > s->f->now_ms)
            due(s->r, at);
        else
            s->r->delete_job = true;
    }
}

static void finish(struct step *s, const char *reason, const char *message) {
    condition(s, SL_COND_FINISHED, true, reason, message);
    s->r->finished = true;
    s->holds = false;
}

void lc_step(struct sl_json *status, const struct sl_workload *w, const struct lc_facts *f, struct lc_result *ret) {
    struct step step = begin(status, w, f, ret), *s = &step;
    retention(s);
    if (w->finished.status == SL_TRI_TRUE)
        return;
    if (f->orphan) {
        finish(s, "OwnerNotFound", "The job that owned the workload does not exist any more");
        return;
    }
    if (f->out_of_sync) {
        finish(s, "OutOfSync", f->out_of_sync);
        return;
    }
    if (f->has_job && f->job_finished) {
        finish(s, f->job_success ? "Succeeded" : "Failed",
               f->job_message && *f->job_message ? f->job_message : "The job is finished");
        return;
    }
    if (f->failed_to_start) {
        finish(s, "FailedToStart", f->failed_to_start);
        return;
    }
    if (!w->active) {
        if (!(s->evicted && starts(w->evicted.reason, "Deactivated"))) {
            const char *cause = w->deactivation_target.status == SL_TRI_TRUE ? cause_of_deactivation(w) : "";
            SL_AUTO_FREE char *message = *cause ? sl_xprintf("The workload is deactivated due to %s",
                                                             condition_message(s, SL_COND_DEACTIVATION_TARGET))
                                                : sl_xstrdup("The workload is deactivated");
            del_member(s, "requeueState");
            evict(s, "Deactivated", cause, message);
        }
        if (sl_condition_remove(sl_json_mut(status, "conditions"), SL_COND_DEACTIVATION_TARGET))
            ret->changed = true;
    } else if (w->deactivation_target.status == SL_TRI_TRUE) {
        ret->deactivate = true;
        return;
    } else {
        if (judge_checks(s))
            return;
        stopped_queues(s);
        execution_time(s);
    }
    reclaimable(s);
    /* The first word about a new Workload is its admission, or why it waits; what its pods do comes with that write. */
    bool untold = !cond(status, SL_COND_QUOTA_RESERVED);
    if (!untold)
        pods_ready_condition(s);
    if (!ret->deactivate)
        pods_ready_timeout(s);
    bool stopped = f->has_owner ? f->job_stopped : f->nobodys && !w->active;
    if (s->evicted && s->holds && stopped) {
        release(s);
        pods_ready_condition(s);
    }
    if (w->active || !s->holds)
        requeue(s);
    inadmissible(s);
    if (untold && cond(status, SL_COND_QUOTA_RESERVED))
        pods_ready_condition(s);
    if (!s->evicted && s->holds) {
        sync_checks(s, w->admission);
        admitted_condition(s);
    } else if (!s->holds && f->n_checks) {
        sync_checks(s, NULL);
    }
}

/* Evicted, Preempted and the like turn False when quota is reserved again, and keep what they said. */
static void clear_condition(struct step *s, const char *type) {
    if (!cond_true(s->status, type))
        return;
    SL_AUTO_FREE char *message = sl_xprintf("Previously: %s", condition_message(s, type));
    condition(s, type, false, "QuotaReserved", message);
}

void lc_admit(struct sl_json *status, const struct sl_workload *w, const struct lc_facts *f,
              const struct sl_admission *a, struct lc_result *ret) {
    struct step step = begin(status, w, f, ret), *s = &step;
    SL_AUTO_FREE char *message = sl_xprintf("Quota reserved in ClusterQueue %s", a->cq);
    tell_gates(s, NULL);
    condition(s, SL_COND_QUOTA_RESERVED, true, "QuotaReserved", message);
    clear_condition(s, SL_COND_EVICTED);
    clear_condition(s, SL_COND_PREEMPTED);
    clear_condition(s, SL_COND_BLOCKED_ON_PREEMPTION_GATES);
    s->evicted = false;
    s->holds = true;
    ret->reserved = sl_xstrdup(a->cq);
    set_member(s, "admission", sl_admission_encode(a));
    del_member(s, "resourceRequests");
    sync_checks(s, a);
    admitted_condition(s);
    SL_AUTO_FREE char *note =
        s->admitted ? sl_xprintf("Admitted by ClusterQueue %s, waited %llds", a->cq,
                                 (long long)((f->now_ms - w->created_ms) / 1000))
                    : sl_xprintf("Quota reserved in ClusterQueue %s, waiting for admission checks", a->cq);
    event(s, false, s->admitted ? "Admitted" : "QuotaReserved", note);
    bool was = s->admitted;
    s->admitted = false; /* pods cannot be ready yet */
    pods_ready_condition(s);
    s->admitted = was;
}

void lc_preempt(struct sl_json *status, const struct sl_workload *w, const struct lc_facts *f, const char *reason,
                const char *message, struct lc_result *ret) {
    struct step step = begin(status, w, f, ret), *s = &step;
    condition(s, SL_COND_PREEMPTED, true, reason, message);
    event(s, false, "Preempted", message);
    evict(s, "Preempted", "", message);
    if (s->holds && f->has_owner && f->job_stopped)
        release(s);
    pods_ready_condition(s);
}

void lc_pending(struct sl_json *status, const struct sl_workload *w, const struct lc_facts *f, const char *reason,
                const char *message, const struct sl_json *requests, struct lc_result *ret) {
    struct step step = begin(status, w, f, ret), *s = &step;
    bool new_reason = strcmp(sl_json_get_str(cond(status, SL_COND_QUOTA_RESERVED), "reason", ""), reason) != 0;
    tell_gates(s, NULL);
    condition(s, SL_COND_QUOTA_RESERVED, false, reason, message);
    if (requests && !strcmp(reason, "Pending")) /* one that is only waiting for others was found to fit */
        set_member(s, "resourceRequests", sl_json_copy(requests));
    if (new_reason) /* one event per reason; the condition carries every change of the numbers */
        event(s, true, "Pending", message);
    pods_ready_condition(s);
}

void lc_result_done(struct lc_result *r) {
    for (size_t i = 0; i < r->n_events; i++)
        free(SL_TAKE(r->events[i].note));
    free(SL_TAKE(r->reserved));
    free(SL_TAKE(r->preemptor_uid));
    free(SL_TAKE(r->preempting_cq));
    free(SL_TAKE(r->preempted_reason));
    r->n_events = 0;
}

struct sl_json *lc_status_patch(const struct sl_json *old, const struct sl_json *now) {
    struct sl_json *patch = sl_json_new_object();
    SL_JSON_EACH (now, e) {
        const struct sl_json *had = sl_json_get(old, e.key);
        if (sl_json_equal(had, e.value))
            continue;
        struct sl_json *value = sl_json_copy(e.value);
        if (sl_json_is_object(had) && sl_json_is_object(value)) { /* a merge patch keeps what it does not name */
            SL_JSON_EACH (had, m)
                if (!sl_json_get(value, m.key))
                    sl_json_set(value, m.key, sl_json_new_null());
        }
        sl_json_set(patch, e.key, value);
    }
    SL_JSON_EACH (old, e) {
        if (!sl_json_get(now, e.key))
            sl_json_set(patch, e.key, sl_json_new_null());
    }
    if (sl_json_len(patch))
        return patch;
    sl_json_unref(patch);
    return NULL;
}
