/*
 * The life of a Workload beside scheduling, as a pure function: from its status, its decoded view and facts about its
 * job and queues to the status it should have, in one step. No I/O and no clock but facts.now_ms, so every transition
 * is a unit test. Rules: what a client of the API sees is api.md sections 2.7-2.10; the engine decides admission and
 * preemption, this file writes them down.
 */
#ifndef SLUICE_CMD_LIFECYCLE_H
#define SLUICE_CMD_LIFECYCLE_H

#include "sluice/api/types.h"
#include "sluice/base/json.h"

struct lc_pods_ready { /* waitForPodsReady of the configuration */
    bool enabled, recovery_disabled;
    int64_t timeout_ms, recovery_timeout_ms;
    int64_t backoff_base_s, backoff_max_s;
    bool has_backoff_limit;
    int64_t backoff_limit;
};

struct lc_facts {
    int64_t now_ms;
    const struct lc_pods_ready *pods_ready;
    int64_t retain_finished_ms, retain_deactivated_ms; /* -1: for ever */
    /* the job behind it */
    bool has_owner; /* some controller owner of a kind we know */
    bool nobodys;   /* made by hand, without any owner */
    bool has_job;   /* and it exists */
    bool orphan;    /* the owner is gone for good */
    bool job_finished, job_success;
    const char *job_message;
    bool job_stopped;               /* suspended completely, and no pod is active any more */
    bool job_ready;                 /* all pods ready or succeeded */
    const int32_t *job_reclaimable; /* per pod set, or NULL */
    const char *out_of_sync;        /* a prebuilt workload that is not its job's: why; NULL otherwise */
    const char *failed_to_start;    /* the job cannot be started as admitted: why; NULL otherwise */
    /* its queues */
    bool lq_exists, lq_deleting, cq_exists, cq_deleting, cq_active;
    enum sl_stop_policy lq_stop, cq_stop;
    const char *cq_name;                /* of the LocalQueue; "" when unknown */
    char cq_message[256];               /* why it is inactive, or "" */
    const char *gates;                  /* admission-gated-by, or NULL */
    const struct sl_check_rule *checks; /* of the ClusterQueue that the checks are about */
    size_t n_checks;
    size_t n_flavors; /* of that ClusterQueue: a check on all of them applies before admission too */
};

#define LC_MAX_EVENTS 4
struct lc_event {
    bool warning;
    char reason[96];
    char *note; /* owned */
};
struct lc_result {
    bool changed;                     /* the status tree was changed */
    bool deactivate;                  /* spec.active = false has to be written */
    bool delete_workload, delete_job; /* retention */
    int64_t deadline_ms;              /* look again at this wall time; -1: no need */
    struct lc_event events[LC_MAX_EVENTS];
    size_t n_events;
    /* what happened, for metrics */
    const char *evicted_reason, *evicted_cause; /* set when this step evicted; "" cause */
    bool evicted_first;                         /* the first time for this reason and cause */
    bool finished, admitted, released, became_ready;
    char *reserved; /* owned: the ClusterQueue that gave quota in this step; NULL */
    /* for whom this step preempted, and why; owned; NULL: it did not */
    char *preemptor_uid, *preempting_cq, *preempted_reason;
};

/* One step. status: the Workload's status, changed in place (an object, may be empty). */
void lc_step(struct sl_json *status, const struct sl_workload *w, const struct lc_facts *facts, struct lc_result *ret);
/* Quota is reserved as decided; Admitted too when no check has to speak first. cq: the ClusterQueue's check rules are
 * in facts. */
void lc_admit(struct sl_json *status, const struct sl_workload *w, const struct lc_facts *facts,
              const struct sl_admission *a, struct lc_result *ret);
/* Preempted by another workload. */
void lc_preempt(struct sl_json *status, const struct sl_workload *w, const struct lc_facts *facts, const char *reason,
                const char *message, struct lc_result *ret);
/* Why it waits. requests: status.resourceRequests, borrowed, may be NULL. */
void lc_pending(struct sl_json *status, const struct sl_workload *w, const struct lc_facts *facts, const char *reason,
                const char *message, const struct sl_json *requests, struct lc_result *ret);
/* Its queues let it be tried at all; otherwise lc_step says which one is in the way. */
bool lc_may_be_tried(const struct lc_facts *f);
void lc_result_done(struct lc_result *r);

/* What a merge patch has to say so that `old` becomes `new` in their top-level members; NULL when they are equal.
 * Owned. */
struct sl_json *lc_status_patch(const struct sl_json *old, const struct sl_json *now);

#endif
