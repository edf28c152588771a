/*
 * The decision engine: events in, decisions out. Pure: no I/O, no threads, no clock but the one passed in, no
 * dependence on addresses or hash order; the same history gives the same decisions (spec: the scheduling reference). It
 * holds quotas, the cohort tree, who is pending and who holds quota. Everything that takes a struct by `take` owns it
 * afterwards, whatever the result.
 *
 * Life of a decision: sl_engine_run() decides and at once counts the decision in its books ("assumed"). The caller
 * commits it to the ledger, writes it to the API, and the workload comes back through sl_engine_put_workload() with
 * quota reserved (or evicted); a write that failed is told with sl_engine_write_failed(), which takes it out of the
 * books again and requeues.
 */
#ifndef SLUICE_QUOTA_ENGINE_ENGINE_H
#define SLUICE_QUOTA_ENGINE_ENGINE_H

#include "sluice/api/types.h"
#include "sluice/base/json.h"

struct sl_engine;

enum sl_fair_strategy { SL_FAIR_FINAL_SHARE = 1, SL_FAIR_INITIAL_SHARE = 2 };
struct sl_engine_config {
    bool fair_sharing;
    enum sl_fair_strategy strategies[2]; /* 0 ends the list */
    bool ignore_undeclared;              /* resources.quotaCheckStrategy IgnoreUndeclared */
    bool pods_ready_timestamp_creation;  /* requeuingStrategy.timestamp Creation */
    bool block_admission;                /* waitForPodsReady.blockAdmission */
};
struct sl_engine *sl_engine_new(const struct sl_engine_config *config);
void sl_engine_free(struct sl_engine *e);

/* ---- events; deletes of unknown names do nothing ---- */
void sl_engine_put_namespace(struct sl_engine *e, const char *name, const struct sl_labels *labels); /* copied */
void sl_engine_del_namespace(struct sl_engine *e, const char *name);
void sl_engine_put_flavor(struct sl_engine *e, struct sl_flavor *take);
void sl_engine_del_flavor(struct sl_engine *e, const char *name);
void sl_engine_put_cohort(struct sl_engine *e, struct sl_cohort *take);
void sl_engine_del_cohort(struct sl_engine *e, const char *name);
void sl_engine_put_clusterqueue(struct sl_engine *e, struct sl_clusterqueue *take);
void sl_engine_del_clusterqueue(struct sl_engine *e, const char *name);
void sl_engine_put_localqueue(struct sl_engine *e, struct sl_localqueue *take);
void sl_engine_del_localqueue(struct sl_engine *e, const char *ns, const char *name);
void sl_engine_put_check(struct sl_engine *e, struct sl_admissioncheck *take);
void sl_engine_del_check(struct sl_engine *e, const char *name);
/* New or changed Workload, by uid (scheduling.md 8.7). A workload that holds quota in its own status counts from here
 * on, whatever the quotas say. */
void sl_engine_put_workload(struct sl_engine *e, struct sl_workload *take, int64_t now_ms);
void sl_engine_del_workload(struct sl_engine *e, const char *uid);
/* The API write of an ADMIT or EVICT decision did not happen; gone: the workload does not exist any more. */
void sl_engine_write_failed(struct sl_engine *e, const char *uid, bool gone);

/* ---- decisions ---- */
enum sl_decision_kind {
    SL_DECIDE_ADMIT,   /* reserve quota: write admission */
    SL_DECIDE_EVICT,   /* preempt this workload */
    SL_DECIDE_PENDING, /* tell this workload why it waits (only when what would be said has changed) */
};
struct sl_decision {
    enum sl_decision_kind kind;
    const struct sl_workload *workload; /* borrowed: valid until the next call that changes the engine */
    const char *cq; /* ADMIT, PENDING: the ClusterQueue (PENDING: NULL when it does not exist); EVICT: the victim's */
    /* ADMIT */
    struct sl_admission *admission; /* owned by the list */
    bool borrows;                   /* some of it is above the queue's nominal quota */
    /* PENDING: reason of QuotaReserved=False; EVICT: reason of Preempted=True */
    const char *reason;
    char *message;             /* owned by the list; NULL for ADMIT */
    struct sl_json *requests;  /* PENDING: status.resourceRequests or NULL; owned by the list,
                                  shared between workloads: copy before changing */
    const char *preemptor_uid; /* EVICT; owned by the list's text */
    const char *preemptor_ns, *preemptor_name, *preemptor_cq;
};
struct sl_decisions {
    struct sl_decision *items;
    size_t n;
    void *text; /* owns the borrowed strings above */
};
/* Decides everything that can be decided now: cycles until nothing more changes, in bounded work (at most
 * max_admissions admissions; 0: no limit; *ret_more says that a limit was hit and the caller should come again). Comes
 * to rest: without events a second run decides nothing. */
void sl_engine_run(struct sl_engine *e, int64_t now_ms, size_t max_admissions, struct sl_decisions *ret,
                   bool *ret_more);
void sl_decisions_done(struct sl_decisions *d);
/* Wall time at which a run is due without any event (a requeueAt that passes), or -1. */
int64_t sl_engine_next_due_ms(const struct sl_engine *e);

/* ---- reading (for statuses, metrics, recounts, explanations) ---- */
struct sl_usage_row {              /* one flavor and resource, in spec order of flavors, resources by name */
    const char *flavor, *resource; /* borrowed from the engine */
    int64_t nominal, borrowing_limit, lending_limit; /* SL_UNLIMITED: none */
    int64_t reserved, used, borrowed_reserved, borrowed_used;
    bool listed; /* false: not in the spec any more, and still held; such rows come last, with nominal 0 */
};
struct sl_queue_view {
    bool exists, active;
    const char *inactive_reason; /* Active=False reason: Terminating, Stopped, FlavorNotFound, AdmissionCheckNotFound,
                                    AdmissionCheckInactive, CohortCycle */
    char *inactive_message;      /* owned; joins all causes; NULL when active */
    int32_t pending_active, pending_inadmissible, reserving, admitted;
    int32_t preemption_skips; /* of its last cycle: workloads that could preempt, but others went first */
    struct sl_usage_row *rows;
    size_t n_rows;
    double weighted_share;            /* fair sharing: share of the queue, +Inf possible */
    const char *cohort, *root_cohort; /* "" when none */
};
void sl_engine_clusterqueue_view(const struct sl_engine *e, const char *name, struct sl_queue_view *ret);
/* Rows of the flavors of the ClusterQueue behind it, usage of this LocalQueue only; borrowed columns 0. */
void sl_engine_localqueue_view(const struct sl_engine *e, const char *ns, const char *name, struct sl_queue_view *ret);
struct sl_cohort_view {
    bool exists, explicit_object, in_cycle;
    const char *parent, *root;
    int32_t admitted;
    struct sl_usage_row *rows; /* nominal = subtree quota, reserved = subtree usage */
    size_t n_rows;
    double weighted_share;
};
void sl_engine_cohort_view(const struct sl_engine *e, const char *name, struct sl_cohort_view *ret);
void sl_queue_view_done(struct sl_queue_view *v);
void sl_cohort_view_done(struct sl_cohort_view *v);
bool sl_engine_holds_quota(const struct sl_engine *e, const char *uid);             /* assumed ones too */
size_t sl_engine_clusterqueue_holders(const struct sl_engine *e, const char *name); /* workloads that hold its quota */
bool sl_engine_flavor_in_use(const struct sl_engine *e, const char *name);          /* some ClusterQueue names it */
/* Why the pending workloads of a ClusterQueue wait, by kind. */
enum sl_wait {
    SL_WAIT_IN_QUEUE,        /* behind others, or not tried yet */
    SL_WAIT_QUEUE_INACTIVE,  /* the ClusterQueue admits nothing */
    SL_WAIT_QUOTA,           /* what it asks for is not free, and is not to be had by preemption */
    SL_WAIT_PREEMPTION,      /* for the quota of those that are being preempted for it */
    SL_WAIT_OTHERS,          /* others of the cohort went first with the same quota or the same victims */
    SL_WAIT_PODS_READY,      /* for the pods of those that were admitted before */
    SL_WAIT_ADMISSION_CHECK, /* a check asked for a retry, or rejected it */
    SL_WAIT_NAMESPACE,       /* its namespace is not one of the ClusterQueue's */
    SL_WAIT_BACKOFF,         /* for the end of its backoff after an eviction */
    SL_WAIT_INVALID,         /* for its own correction */
    SL_WAIT__COUNT
};
const char *sl_wait_name(enum sl_wait wait); /* constant, CamelCase */
/* Sets all of ret; they add up to the pending ones of sl_engine_clusterqueue_view. */
void sl_engine_waits(const struct sl_engine *e, const char *cq, uint32_t ret[SL_WAIT__COUNT]);
/* Something waits in an active ClusterQueue for quota that is free: it has not been tried, or would fit if it were.
 * Never true for long; for an alarm. Looks at the head and at no more than 16 kinds of workloads beside it. */
bool sl_engine_idle_with_quota(const struct sl_engine *e, const char *cq);
/* Pending workloads of a ClusterQueue in order (api.md 7): uids into an array of borrowed pointers (free() the array).
 */
size_t sl_engine_pending(const struct sl_engine *e, const char *cq, const struct sl_workload ***ret);
/* Why this workload waits:
 * {"workload","clusterQueue","state","reason","message","podSets":[{"name","flavors":[{"flavor","resource","asked",
 * "nominal","usedHere","usedInCohort","borrowable","free","verdict","limit":{"name","kind","of","amount"},
 * "holders":[{"workload","clusterQueue","amount"}]}]}],"smallestChange":"...","changes":[{"finish":"ns/name"},
 * {"raise":[{"limit","kind","name","flavor","resource","by","to"}]}]}; owned; NULL when unknown. limit: the
 * borrowingLimit or lendingLimit that is in the way. holders: those whose end would help, the largest first. Each of
 * the changes, made alone, admits the workload, although others come before it: it was tried on a copy of all this,
 * which costs as much as some restarts. smallestChange: all of them in words. */
struct sl_json *sl_engine_explain(const struct sl_engine *e, const char *uid);
/* Aborts when a book does not add up (I1-I4 of the design); for tests and, sampled, for the daemon. */
void sl_engine_check_invariants(const struct sl_engine *e);

#endif
