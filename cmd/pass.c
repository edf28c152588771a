/*
 * One pass: the engine decides, the ledger gets one commit, then the API gets the writes. The order is the promise:
 * what was decided is on disk before anybody sees it, and an admission is written only while the lease is held. A
 * Workload that is being written when the engine decides about it cannot be written twice: the decision is taken back
 * and made again on the newer object.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "manager.h"
#include "sluice/base/clock.h"
#include "sluice/base/log.h"
#include "sluice/base/mem.h"
#include "sluice/base/metrics.h"
#include "sluice/base/num.h"
#include "sluice/flavors/gpu.h"

#define MAX_ADMISSIONS                                                                                                 \
    500 /* a pass; more come with the next turn of the loop, so that the lease is never kept waiting */

void note_release(struct manager *m, const char *uid, const char *why) {
    words_moved(m);
    SL_GROW(m->notes, m->cap_notes, m->n_notes);
    m->notes[m->n_notes++] = (struct ledger_note){sl_xstrdup(uid), sl_xstrdup(why), SL_LEDGER_PENDING};
}

void note_outcome(struct manager *m, const char *uid, enum sl_ledger_outcome outcome) {
    SL_GROW(m->notes, m->cap_notes, m->n_notes);
    m->notes[m->n_notes++] = (struct ledger_note){sl_xstrdup(uid), NULL, outcome};
}

static void write_notes(struct manager *m) {
    for (size_t i = 0; i < m->n_notes; i++) {
        struct ledger_note *n = &m->notes[i];
        if (n->why)
            sl_ledger_release(m->ledger, n->uid, n->why);
        else
            sl_ledger_outcome(m->ledger, n->uid, n->outcome);
        free(n->uid);
        free(n->why);
    }
    m->n_notes = 0;
}

static void commit(struct manager *m) {
    struct sl_err err = SL_ERR_INIT;
    int rc = sl_ledger_commit(m->ledger, &err);
    if (rc && rc != SL_UNAVAILABLE) /* unavailable is said once by the ledger itself */
        SL_LOG(WARN, "ledger refused a record, carrying on without it", SL_STR("error", err.text));
}

void commit_notes(struct manager *m) {
    if (!m->n_notes)
        return;
    sl_ledger_begin(m->ledger, manager_now(m));
    write_notes(m);
    commit(m);
}

#define MAX_AMOUNTS 256

/* Amounts of an admission by flavor and resource; returns how many. */
static size_t amounts_of(const struct sl_admission *a, struct sl_ledger_amount *amounts) {
    size_t n = 0;
    for (size_t i = 0; i < a->n_podsets; i++)
        for (size_t j = 0; j < a->podsets[i].n_flavors && n < MAX_AMOUNTS; j++) {
            const struct sl_assigned_flavor *f = &a->podsets[i].flavors[j];
            size_t k = 0;
            while (k < n && (strcmp(amounts[k].flavor, f->flavor) || strcmp(amounts[k].resource, f->resource)))
                k++;
            if (k == n)
                amounts[n++] = (struct sl_ledger_amount){f->flavor, f->resource, 0,
                                                         sl_gpu_is_device(sl_gpu_classify(NULL, f->resource).mode)};
            amounts[k].amount = sl_sat_add(amounts[k].amount, f->amount);
        }
    return n;
}

static struct sl_ledger_reservation reservation(const struct record *wl, const struct sl_workload *w,
                                                const struct sl_admission *a, struct sl_ledger_amount *amounts,
                                                const char *why) {
    return (struct sl_ledger_reservation){.uid = wl->uid,
                                          .namespace = wl->ns,
                                          .name = wl->name,
                                          .job_kind = wl->owner_kind ? wl->owner_kind : "",
                                          .job_name = wl->owner_name ? wl->owner_name : "",
                                          .cluster_queue = a->cq,
                                          .local_queue = w->queue,
                                          .why = why,
                                          .amounts = amounts,
                                          .amount_count = amounts_of(a, amounts)};
}

/* ---- start: the ledger and the cluster compare notes ---- */

struct view {
    struct manager *m;
    size_t at;
    struct sl_json *tree;
    struct sl_workload *w;
    struct sl_ledger_amount amounts[MAX_AMOUNTS];
};

static bool view_next(void *payload, struct sl_ledger_reservation *r) {
    struct view *v = payload;
    sl_json_unref(SL_TAKE(v->tree));
    sl_workload_free(SL_TAKE(v->w));
    while (v->at < v->m->workloads.by_uid.used) {
        const struct sl_map_entry *e = &v->m->workloads.by_uid.entries[v->at++];
        const struct record *wl = e->key ? e->value : NULL;
        if (!wl || !wl->holds)
            continue;
        v->tree = record_tree(wl);
        v->w = decode_workload(v->m, wl, v->tree);
        if (!v->w || !v->w->admission) {
            sl_json_unref(SL_TAKE(v->tree));
            sl_workload_free(SL_TAKE(v->w));
            continue;
        }
        *r = reservation(wl, v->w, v->w->admission, v->amounts, "found in the cluster");
        r->since_ms = v->w->quota_reserved.since_ms;
        r->outcome = SL_LEDGER_WRITTEN;
        return true;
    }
    return false;
}

static void view_report(void *payload, enum sl_ledger_difference d, const struct sl_ledger_reservation *r) {
    (void)payload;
    static const char *const what[] = {"only the ledger knew it", "only the cluster knew it",
                                       "queue or amounts differ"};
    SL_LOG(INFO, "ledger corrected from the cluster", SL_OBJ("workload", r->namespace, r->name),
           SL_STR("difference", what[d]));
}

void reconcile_ledger(struct manager *m) {
    struct view v = {.m = m};
    struct sl_ledger_view view = {view_next, view_report, &v};
    size_t differences = 0;
    struct sl_err err = SL_ERR_INIT;
    int rc = sl_ledger_reconcile(m->ledger, manager_now(m), &view, &differences, &err);
    sl_json_unref(v.tree);
    sl_workload_free(v.w);
    if (rc && rc != SL_UNAVAILABLE)
        SL_LOG(WARN, "ledger reconciliation failed, carrying on", SL_STR("error", err.text));
    m->ledger_reconciled = rc == 0;
}

/* ---- metrics of what happened to a Workload ---- */

static double seconds_since(const struct manager *m, int64_t since_ms) {
    return since_ms > 0 && manager_now(m) > since_ms ? (double)(manager_now(m) - since_ms) / 1000 : 0;
}

static int64_t queued_since(const struct sl_workload *w) {
    return w->requeued.status == SL_TRI_TRUE && w->requeued.since_ms > w->created_ms ? w->requeued.since_ms
                                                                                     : w->created_ms;
}

void observe_result(struct manager *m, const struct record *wl, const struct sl_workload *w,
                    const struct lc_result *r) {
    const struct object *lq = localqueue_of(m, wl->ns, w->queue);
    const char *cq = w->admission ? w->admission->cq
                     : lq         ? lq->lq->cq
                                  : "",
               *pc = w->priority_class ? w->priority_class : "", *rr = replica_role(m);
    bool local = m->cfg->local_queue_metrics;
    if (r->reserved) {
        cq = r->reserved;
        double waited = seconds_since(m, queued_since(w));
        sl_metric_add(SL_M_QUOTA_RESERVED_WORKLOADS_TOTAL, 1, SL_LABELS(cq, pc, rr));
        sl_metric_observe(SL_M_QUOTA_RESERVED_WAIT_TIME_SECONDS, waited, SL_LABELS(cq, pc, rr));
        if (local) {
            const char *const *labels = SL_LABELS(w->queue, wl->ns, pc, rr);
            sl_metric_add(SL_M_LOCAL_QUEUE_QUOTA_RESERVED_WORKLOADS_TOTAL, 1, labels);
            sl_metric_observe(SL_M_LOCAL_QUEUE_QUOTA_RESERVED_WAIT_TIME_SECONDS, waited, labels);
        }
    }
    if (r->admitted) {
        double waited = seconds_since(m, queued_since(w)),
               checks = r->reserved ? 0 : seconds_since(m, w->quota_reserved.since_ms);
        sl_metric_add(SL_M_ADMITTED_WORKLOADS_TOTAL, 1, SL_LABELS(cq, pc, rr));
        sl_metric_observe(SL_M_ADMISSION_WAIT_TIME_SECONDS, waited, SL_LABELS(cq, pc, rr));
        sl_metric_observe(SL_M_ADMISSION_CHECKS_WAIT_TIME_SECONDS, checks, SL_LABELS(cq, pc, rr));
        if (local) {
            const char *const *labels = SL_LABELS(w->queue, wl->ns, pc, rr);
            sl_metric_add(SL_M_LOCAL_QUEUE_ADMITTED_WORKLOADS_TOTAL, 1, labels);
            sl_metric_observe(SL_M_LOCAL_QUEUE_ADMISSION_WAIT_TIME_SECONDS, waited, labels);
            sl_metric_observe(SL_M_LOCAL_QUEUE_ADMISSION_CHECKS_WAIT_TIME_SECONDS, checks, labels);
        }
        struct sl_queue_view v;
        sl_engine_clusterqueue_view(m->engine, cq, &v);
        for (const char *c = v.cohort; c && *c;) {
            sl_metric_add(SL_M_COHORT_SUBTREE_ADMITTED_WORKLOADS_TOTAL, 1, SL_LABELS(c, pc, rr));
            struct sl_cohort_view cv;
            sl_engine_cohort_view(m->engine, c, &cv);
            c = cv.in_cycle ? NULL : cv.parent;
            sl_cohort_view_done(&cv);
        }
        sl_queue_view_done(&v);
    }
    if (r->became_ready && w->pods_ready.reason && !strcmp(w->pods_ready.reason, "WaitForStart")) {
        double total = seconds_since(m, queued_since(w)), since = seconds_since(m, w->admitted.since_ms);
        sl_metric_observe(SL_M_READY_WAIT_TIME_SECONDS, total, SL_LABELS(cq, pc, rr));
        sl_metric_observe(SL_M_ADMITTED_UNTIL_READY_WAIT_TIME_SECONDS, since, SL_LABELS(cq, pc, rr));
        if (local) {
            const char *const *labels = SL_LABELS(w->queue, wl->ns, pc, rr);
            sl_metric_observe(SL_M_LOCAL_QUEUE_READY_WAIT_TIME_SECONDS, total, labels);
            sl_metric_observe(SL_M_LOCAL_QUEUE_ADMITTED_UNTIL_READY_WAIT_TIME_SECONDS, since, labels);
        }
    }
    if (r->evicted_reason) {
        sl_metric_add(SL_M_EVICTED_WORKLOADS_TOTAL, 1, SL_LABELS(cq, pc, r->evicted_reason, rr, r->evicted_cause));
        if (r->evicted_first)
            sl_metric_add(SL_M_EVICTED_WORKLOADS_ONCE_TOTAL, 1,
                          SL_LABELS(cq, pc, r->evicted_reason, rr, r->evicted_cause));
        if (local)
            sl_metric_add(SL_M_LOCAL_QUEUE_EVICTED_WORKLOADS_TOTAL, 1,
                          SL_LABELS(w->queue, wl->ns, pc, r->evicted_reason, rr, r->evicted_cause));
        if (w->pods_ready.status == SL_TRI_TRUE)
            sl_metric_observe(SL_M_PODS_READY_TO_EVICTED_TIME_SECONDS, seconds_since(m, w->pods_ready.since_ms),
                              SL_LABELS(cq, r->evicted_reason, rr, r->evicted_cause));
    }
    if (r->preempting_cq)
        sl_metric_add(SL_M_PREEMPTED_WORKLOADS_TOTAL, 1, SL_LABELS(r->preempting_cq, r->preempted_reason, rr));
    if (r->released && w->evicted.status == SL_TRI_TRUE)
        sl_metric_observe(SL_M_WORKLOAD_EVICTION_LATENCY_SECONDS, seconds_since(m, w->evicted.since_ms),
                          SL_LABELS(cq, w->evicted.reason ? w->evicted.reason : "", rr));
    if (r->finished) {
        sl_metric_add(SL_M_FINISHED_WORKLOADS_TOTAL, 1, SL_LABELS(cq, pc, rr));
        if (local)
            sl_metric_add(SL_M_LOCAL_QUEUE_FINISHED_WORKLOADS_TOTAL, 1, SL_LABELS(w->queue, wl->ns, pc, rr));
    }
}

/* ---- the pass ---- */

static void carry_out(struct manager *m, struct record *wl, const struct sl_decision *d) {
    sl_json_unref(words_take(wl)); /* older words */
    SL_AUTO_JSON *tree = record_tree(wl);
    const struct sl_json *old = sl_json_get(tree, "status");
    SL_AUTO_JSON *status = old ? sl_json_copy(old) : sl_json_new_object();
    struct sl_workload *w = decode_workload(m, wl, tree);
    if (!w)
        return;
    struct lc_facts f;
    collect_facts(m, wl, tree, w, &f);
    struct record *job = wl->owner_uid ? store_by_uid(&m->jobs, wl->owner_uid) : NULL;
    f.has_job = job != NULL;
    if (job) {
        SL_AUTO_JSON *job_tree = record_tree(job);
        f.job_stopped = job->kind->suspended(job_tree) && job->kind->active_pods(job_tree) == 0;
    }
    if (d->kind == SL_DECIDE_ADMIT) { /* the checks are those of the queue that gives the quota */
        const struct object *cq = sl_map_get(&m->cqs, d->admission->cq);
        f.checks = cq ? cq->cq->checks : NULL;
        f.n_checks = cq ? cq->cq->n_checks : 0;
    }
    struct lc_result r;
    bool sent = false;
    switch (d->kind) {
    case SL_DECIDE_ADMIT:
        lc_admit(status, w, &f, d->admission, &r);
        sent = write_status(m, wl, tree, status, WRITE_ADMIT, &r);
        break;
    case SL_DECIDE_EVICT:
        lc_preempt(status, w, &f, d->reason, d->message, &r);
        r.preemptor_uid = sl_xstrdup(d->preemptor_uid);
        r.preempting_cq = sl_xstrdup(d->preemptor_cq);
        r.preempted_reason = sl_xstrdup(d->reason);
        sent = write_status(m, wl, tree, status, WRITE_EVICT, &r);
        break;
    case SL_DECIDE_PENDING:
        if (!lc_may_be_tried(&f)) {
            mark_dirty(m, job ? job : wl); /* not even tried: the look says which queue is in the way */
            r = (struct lc_result){.deadline_ms = -1};
            break;
        }
        lc_pending(status, w, &f, d->reason, d->message, d->requests, &r);
        sent = write_status(m, wl, tree, status, WRITE_PENDING, &r);
        break;
    }
    if (!sent && d->kind == SL_DECIDE_ADMIT)
        sl_engine_write_failed(m->engine, wl->uid, false); /* cannot happen: an admission always changes the status */
    lc_result_done(&r);
    sl_workload_free(w);
}

void run_pass(struct manager *m) {
    int64_t begin = sl_now_mono_ms(), now = manager_now(m);
    struct sl_decisions d;
    bool more = false;
    m->engine_dirty = false;
    sl_engine_run(m->engine, now, MAX_ADMISSIONS, &d, &more);
    m->engine_dirty = more;
    struct record **targets = sl_xalloc((d.n + 1) * sizeof *targets);
    sl_ledger_begin(m->ledger, now);
    write_notes(m);
    bool any = false;
    for (size_t i = 0; i < d.n; i++) {
        struct record *wl = store_by_uid(&m->workloads, d.items[i].workload->uid);
        if (wl && wl->gone && d.items[i].kind != SL_DECIDE_ADMIT)
            wl = NULL; /* nothing to write on; its job is being stopped anyway */
        targets[i] = wl;
        any |= d.items[i].kind != SL_DECIDE_PENDING;
        if (wl && !wl->busy && d.items[i].kind == SL_DECIDE_ADMIT) {
            struct sl_ledger_amount amounts[MAX_AMOUNTS];
            struct sl_ledger_reservation r = reservation(wl, d.items[i].workload, d.items[i].admission, amounts,
                                                         d.items[i].borrows ? "admitted, borrowing" : "admitted");
            sl_ledger_reserve(m->ledger, &r);
        }
    }
    commit(m);
    if (any)
        words_moved(m);
    SL_AUTO_FREE char **taken_back = sl_xalloc((d.n + 1) * sizeof *taken_back);
    size_t n_back = 0;
    for (size_t i = 0; i < d.n; i++) {
        struct record *wl = targets[i];
        if (wl && d.items[i].kind == SL_DECIDE_PENDING && words_keep(m, wl, &d.items[i])) {
            continue; /* only words: told with the answer to the write under way, or in their turn */
        } else if (wl && !wl->busy) {
            carry_out(m, wl, &d.items[i]);
        } else if (wl && d.items[i].kind == SL_DECIDE_EVICT) {
            wl->evict_again = true; /* taken back now, it could take an admission under way out of the books */
        } else if (wl) { /* decided on an object that is just being written: again, when the answer is there */
            taken_back[n_back++] = sl_xstrdup(wl->uid);
        } else if (d.items[i].kind == SL_DECIDE_ADMIT) {
            taken_back[n_back++] = sl_xstrdup(d.items[i].workload->uid);
        }
    }
    sl_decisions_done(&d);
    for (size_t i = 0; i < n_back; i++) { /* not while the list is borrowed from the engine */
        sl_engine_write_failed(m->engine, taken_back[i], false);
        free(taken_back[i]);
    }
    free(targets);
    double spent = (double)(sl_now_mono_ms() - begin) / 1000;
    sl_metric_observe(SL_M_SLUICE_PASS_SECONDS, spent, SL_LABELS());
    const char *result = any ? "success" : "inadmissible";
    sl_metric_add(SL_M_ADMISSION_ATTEMPTS_TOTAL, 1, SL_LABELS(replica_role(m), result));
    sl_metric_observe(SL_M_ADMISSION_ATTEMPT_DURATION_SECONDS, spent, SL_LABELS(replica_role(m), result));
    m->status_dirty = true;
}
