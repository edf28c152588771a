/*
 * The API's objects as the engine and the rest of the process see them: decoded, owned plain structs. Each has a decode
 * function in the file of its kind and a _free function that accepts NULL and half-built objects. Strings are owned
 * unless said otherwise; NULL means absent. Amounts are int64 in the engine's units: cpu in milli, everything else in
 * whole units, SL_UNLIMITED for "as much as there is".
 */
#ifndef SLUICE_API_TYPES_H
#define SLUICE_API_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SL_UNLIMITED INT64_MAX

struct sl_label {
    char *key, *value;
};
struct sl_labels { /* sorted by key */
    struct sl_label *items;
    size_t n;
};
struct sl_taint {
    char *key, *value, *effect; /* value "" when absent */
};
struct sl_toleration {
    char *key, *op, *value, *effect; /* "" when absent */
    bool has_seconds;
    int64_t seconds;
};
enum sl_selector_op { SL_SEL_IN, SL_SEL_NOT_IN, SL_SEL_EXISTS, SL_SEL_NOT_EXISTS, SL_SEL_GT, SL_SEL_LT };
struct sl_requirement {
    char *key;
    enum sl_selector_op op;
    char **values;
    size_t n;
};
struct sl_selector { /* all requirements must hold; matchLabels come as IN with one value */
    struct sl_requirement *items;
    size_t n;
};

/* ---- ResourceFlavor ---- */
struct sl_flavor {
    char *name, *uid, *topology;
    struct sl_labels node_labels;
    struct sl_taint *taints;
    size_t n_taints;
    struct sl_toleration *tolerations;
    size_t n_tolerations;
    struct sl_labels annotations; /* those that begin with sluice.dev/ */
    bool deleting;
};

/* ---- quotas ---- */
struct sl_quota {
    char *resource;
    int64_t nominal;
    bool has_borrowing_limit, has_lending_limit;
    int64_t borrowing_limit, lending_limit;
};
struct sl_flavor_quotas {
    char *flavor;
    struct sl_quota *quotas; /* in the order of the group's covered resources */
    size_t n;
};
struct sl_resource_group {
    char **covered;
    size_t n_covered;
    struct sl_flavor_quotas *flavors;
    size_t n_flavors;
};

/* ---- Cohort ---- */
struct sl_cohort {
    char *name, *uid, *parent;
    struct sl_resource_group *groups;
    size_t n_groups;
    double weight; /* fair sharing; 1 when absent */
    bool deleting;
};

/* ---- ClusterQueue ---- */
enum sl_strategy { SL_BEST_EFFORT_FIFO, SL_STRICT_FIFO };
enum sl_stop_policy { SL_STOP_NONE, SL_STOP_HOLD, SL_STOP_HOLD_AND_DRAIN };
enum sl_fungibility { SL_MAY_STOP_SEARCH, SL_TRY_NEXT_FLAVOR };
enum sl_preference { SL_BORROWING_OVER_PREEMPTION, SL_PREEMPTION_OVER_BORROWING };
enum sl_preempt_policy { SL_PREEMPT_NEVER, SL_PREEMPT_LOWER_PRIORITY, SL_PREEMPT_LOWER_OR_NEWER_EQUAL, SL_PREEMPT_ANY };
struct sl_check_rule {
    char *name;
    char **flavors; /* none: all flavors */
    size_t n_flavors;
};
struct sl_clusterqueue {
    char *name, *uid, *cohort;
    int64_t generation;
    struct sl_resource_group *groups;
    size_t n_groups;
    enum sl_strategy strategy;
    bool has_namespace_selector; /* without one no namespace may use the queue; an empty one selects all */
    struct sl_selector namespace_selector;
    enum sl_fungibility when_can_borrow, when_can_preempt;
    enum sl_preference preference;
    enum sl_preempt_policy reclaim_within_cohort, within_cluster_queue, borrow_within_cohort;
    bool has_max_priority_threshold;
    int64_t max_priority_threshold;
    enum sl_stop_policy stop;
    struct sl_check_rule *checks;
    size_t n_checks;
    double weight;
    struct sl_labels annotations; /* those that begin with sluice.dev/ */
    bool deleting;
};

/* ---- LocalQueue ---- */
struct sl_localqueue {
    char *ns, *name, *uid, *cq; /* cq "" when absent */
    int64_t generation;
    enum sl_stop_policy stop;
    struct sl_labels annotations;
    bool deleting;
};

/* ---- AdmissionCheck ---- */
struct sl_admissioncheck {
    char *name, *uid, *controller;
    bool active;
    bool deleting;
};

/* ---- Workload ---- */
struct sl_request_amount {
    char *resource;
    int64_t amount;
};
struct sl_requests { /* sorted by resource name */
    struct sl_request_amount *items;
    size_t n;
};
struct sl_node_term {
    struct sl_requirement *items; /* matchExpressions; matchFields are dropped */
    size_t n;
};
struct sl_podset {
    char *name;
    int32_t count;
    int32_t min_count;          /* -1: none */
    struct sl_requests per_pod; /* effective requests of one pod, after every rule of scheduling.md 1.3-1.5, rounded up,
                                   never negative */
    struct sl_labels node_selector;
    struct sl_node_term *affinity; /* required node affinity; terms are ORed */
    size_t n_affinity;
    bool affinity_invalid; /* an expression that cannot be read */
    struct sl_toleration *tolerations;
    size_t n_tolerations;
    uint64_t shape; /* equal for pod specs that are equal in everything scheduling.md 3.6 lists beside what stands here;
                       0: unknown */
};
struct sl_assigned_flavor {
    char *resource, *flavor;
    int64_t amount; /* total of the pod set in the engine's units */
};
struct sl_podset_assignment {
    char *name;
    int32_t count;
    struct sl_assigned_flavor *flavors; /* sorted by resource */
    size_t n_flavors;
};
struct sl_admission {
    char *cq;
    struct sl_podset_assignment *podsets;
    size_t n_podsets;
};
enum sl_tri { SL_TRI_ABSENT, SL_TRI_FALSE, SL_TRI_TRUE };
struct sl_condition_view { /* what decisions need of a condition */
    enum sl_tri status;
    int64_t since_ms; /* lastTransitionTime, wall */
    char *reason;     /* NULL when absent */
};
enum sl_check_state { SL_CHECK_PENDING, SL_CHECK_READY, SL_CHECK_RETRY, SL_CHECK_REJECTED };
struct sl_check_view {
    char *name;
    enum sl_check_state state;
    int64_t since_ms;
    int64_t requeue_after_s; /* -1: absent */
};
struct sl_workload {
    char *uid, *ns, *name, *queue; /* queue "" when absent */
    char *job_uid;                 /* label kueue.x-k8s.io/job-uid or NULL */
    char *priority_class;          /* name in priorityClassRef or NULL */
    bool pod_priority_class;       /* the ref is a scheduling.k8s.io PriorityClass */
    int64_t priority;              /* spec.priority, 0 when absent */
    int64_t created_ms;
    int64_t generation;
    bool active, deleting;
    bool gated;                      /* a non-empty admission-gated-by annotation */
    int64_t max_exec_s, past_exec_s; /* 0: none */
    struct sl_podset *podsets;
    size_t n_podsets;
    int32_t *reclaimable; /* per pod set, 0 when absent; n_podsets long */
    struct sl_condition_view quota_reserved, admitted, evicted, preempted, requeued, pods_ready, finished,
        deactivation_target, waiting_for_replacement;
    bool has_requeue_at;
    int64_t requeue_at_ms;
    int32_t requeue_count;
    struct sl_check_view *checks;
    size_t n_checks;
    struct sl_admission *admission; /* NULL: none */
    char *
        rejected; /* why the pod sets are not valid (scheduling.md 1.9 rules 2 and 3), set by the caller; NULL: valid */
};

void sl_labels_done(struct sl_labels *l);
void sl_requests_done(struct sl_requests *r);
void sl_admission_free(struct sl_admission *a);
struct sl_admission *sl_admission_copy(const struct sl_admission *a);
void sl_flavor_free(struct sl_flavor *f);
void sl_cohort_free(struct sl_cohort *c);
void sl_clusterqueue_free(struct sl_clusterqueue *q);
void sl_localqueue_free(struct sl_localqueue *q);
void sl_admissioncheck_free(struct sl_admissioncheck *c);
void sl_workload_free(struct sl_workload *w);
const char *sl_labels_get(const struct sl_labels *l, const char *key); /* borrowed; NULL when absent */

#endif
