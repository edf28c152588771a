/* ClusterQueue. Absent policies get the schema's defaults, so that objects of any origin behave alike. */
#include <string.h>

#include "meta.h"
#include "sluice/api/decode.h"
#include "sluice/base/mem.h"

static enum sl_preempt_policy policy_decode(const struct sl_json *o, const char *key) {
    static const char *const names[] = {"Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any", NULL};
    int i = sl_meta_choice(sl_json_get_str(o, key, "Never"), names);
    return i < 0 ? SL_PREEMPT_NEVER : (enum sl_preempt_policy)i;
}

static void checks_decode(const struct sl_json *spec, struct sl_clusterqueue *q) {
    const struct sl_json *checks = sl_json_path(spec, "admissionChecksStrategy.admissionChecks");
    size_t n = sl_json_is_array(checks) ? sl_json_len(checks) : 0;
    q->checks = sl_xalloc((n + 1) * sizeof *q->checks);
    for (size_t i = 0; i < n; i++) {
        struct sl_check_rule *rule = &q->checks[q->n_checks++];
        const struct sl_json *on = sl_json_get(sl_json_at(checks, i), "onFlavors");
        size_t n_on = sl_json_is_array(on) ? sl_json_len(on) : 0;
        rule->name = sl_meta_str(sl_json_at(checks, i), "name");
        rule->flavors = sl_xalloc((n_on + 1) * sizeof *rule->flavors);
        for (size_t j = 0; j < n_on; j++)
            rule->flavors[rule->n_flavors++] = sl_xstrdup(sl_json_str(sl_json_at(on, j), ""));
    }
}

int sl_clusterqueue_decode(const struct sl_json *o, struct sl_clusterqueue **ret, struct sl_err *err) {
    struct sl_clusterqueue *q = sl_xalloc(sizeof *q);
    const struct sl_json *meta = sl_json_get(o, "metadata"), *spec = sl_json_get(o, "spec");
    int r = sl_meta_name(o, &q->name, err);
    if (r == 0)
        r = sl_groups_decode(sl_json_get(spec, "resourceGroups"), &q->groups, &q->n_groups, err);
    if (r == 0)
        r = sl_weight_decode(spec, &q->weight, err);
    const struct sl_json *selector = sl_json_get(spec, "namespaceSelector");
    q->has_namespace_selector = sl_json_is_object(selector);
    if (r == 0 && q->has_namespace_selector && sl_selector_decode(selector, &q->namespace_selector, err) < 0)
        r = sl_err_wrap(err, "spec.namespaceSelector");
    if (r < 0) {
        sl_clusterqueue_free(q);
        return r;
    }
    q->uid = sl_meta_str(meta, "uid");
    q->generation = sl_json_get_int(meta, "generation", 0);
    q->deleting = sl_meta_deleting(o);
    sl_labels_decode(sl_json_get(meta, "annotations"), SL_OWN_PREFIX, &q->annotations);
    q->cohort = sl_meta_str_or_null(spec, "cohortName");
    q->strategy =
        !strcmp(sl_json_get_str(spec, "queueingStrategy", ""), "StrictFIFO") ? SL_STRICT_FIFO : SL_BEST_EFFORT_FIFO;
    q->stop = sl_stop_policy_decode(spec);
    const struct sl_json *fungibility = sl_json_get(spec, "flavorFungibility");
    q->when_can_borrow = !strcmp(sl_json_get_str(fungibility, "whenCanBorrow", ""), "TryNextFlavor")
                             ? SL_TRY_NEXT_FLAVOR
                             : SL_MAY_STOP_SEARCH;
    q->when_can_preempt = !strcmp(sl_json_get_str(fungibility, "whenCanPreempt", ""), "MayStopSearch")
                              ? SL_MAY_STOP_SEARCH
                              : SL_TRY_NEXT_FLAVOR;
    q->preference = !strcmp(sl_json_get_str(fungibility, "preference", ""), "PreemptionOverBorrowing")
                        ? SL_PREEMPTION_OVER_BORROWING
                        : SL_BORROWING_OVER_PREEMPTION;
    const struct sl_json *preemption = sl_json_get(spec, "preemption");
    const struct sl_json *borrow = sl_json_get(preemption, "borrowWithinCohort");
    q->reclaim_within_cohort = policy_decode(preemption, "reclaimWithinCohort");
    q->within_cluster_queue = policy_decode(preemption, "withinClusterQueue");
    q->borrow_within_cohort = policy_decode(borrow, "policy");
    const struct sl_json *threshold = sl_json_get(borrow, "maxPriorityThreshold");
    q->has_max_priority_threshold = sl_json_type(threshold) == SL_JSON_INT;
    q->max_priority_threshold = sl_json_int(threshold, 0);
    checks_decode(spec, q);
    *ret = q;
    return 0;
}
