/*
 * Workload: what an object must be by itself, and what may change. All of it is evaluated on create, update and status
 * update; a rule about a change needs the old object. QR: QuotaReserved is True.
 */
#include <stdio.h>
#include <string.h>

#include "podset_validate.h"
#include "sluice/api/conditions.h"
#include "sluice/api/names.h"
#include "sluice/api/quantity.h"
#include "sluice/api/validate.h"
#include "sluice/base/mem.h"
#include "sluice/base/num.h"

#define MAX_PODSETS 18

struct view { /* borrowed parts of one object */
    const struct sl_json *meta, *spec, *status, *podsets, *admission;
    bool reserved, admitted;
};

static struct view view_of(const struct sl_json *o) {
    struct view v = {
        sl_json_get(o, "metadata"), sl_json_get(o, "spec"), sl_json_get(o, "status"), NULL, NULL, false, false};
    v.podsets = sl_json_get(v.spec, "podSets");
    if (!sl_json_is_array(v.podsets))
        v.podsets = NULL;
    v.admission = sl_json_get(v.status, "admission");
    if (!sl_json_is_object(v.admission))
        v.admission = NULL;
    v.reserved = sl_condition_is_true(o, SL_COND_QUOTA_RESERVED);
    v.admitted = sl_condition_is_true(o, SL_COND_ADMITTED);
    return v;
}

static bool is_elastic(const struct view *v) {
    return !strcmp(sl_json_get_str(sl_json_get(v->meta, "annotations"), SL_ANNOTATION_ELASTIC_JOB, ""), "true");
}

static const struct sl_json *named(const struct sl_json *list, const char *name) {
    if (sl_json_is_array(list))
        SL_JSON_ITEMS (list, e)
            if (!strcmp(sl_json_get_str(e.value, "name", SL_DEFAULT_PODSET), name))
                return e.value;
    return NULL;
}

/* Names of the pod sets for "supported values"; ret has room for MAX_PODSETS + 1. */
static void podset_names(const struct view *v, const char **ret) {
    size_t n = 0;
    SL_JSON_ITEMS (v->podsets, e)
        if (n < MAX_PODSETS)
            ret[n++] = sl_json_get_str(e.value, "name", SL_DEFAULT_PODSET);
    ret[n] = NULL;
}

/* Null, absent and empty containers are the same; numbers and texts of quantities are not looked into. */
static bool same(const struct sl_json *a, const struct sl_json *b) {
    bool none_a = sl_json_is_null(a) || ((sl_json_is_object(a) || sl_json_is_array(a)) && !sl_json_len(a));
    bool none_b = sl_json_is_null(b) || ((sl_json_is_object(b) || sl_json_is_array(b)) && !sl_json_len(b));
    if (none_a || none_b)
        return none_a == none_b;
    if (sl_json_is_array(a) && sl_json_is_array(b)) {
        if (sl_json_len(a) != sl_json_len(b))
            return false;
        SL_JSON_ITEMS (a, e)
            if (!same(e.value, sl_json_at(b, e.i)))
                return false;
        return true;
    }
    if (sl_json_is_object(a) && sl_json_is_object(b)) {
        SL_JSON_EACH (a, e)
            if (!same(e.value, sl_json_get(b, e.key)))
                return false;
        SL_JSON_EACH (b, e)
            if (!sl_json_get(a, e.key) && !same(NULL, e.value))
                return false;
        return true;
    }
    return sl_json_equal(a, b);
}

/* ---- one object ---- */

static void check_topology_request(const struct sl_json *request, const struct sl_path *path, struct sl_fielderrs *l) {
    const struct sl_json *size = sl_json_get(request, "podSetSliceSize");
    bool topology = *sl_json_get_str(request, "podSetSliceRequiredTopology", "") != 0;
    if (topology && sl_json_is_null(size))
        sl_fielderr_add(l, SL_FE_REQUIRED, SL_PATH(path, "podSetSliceSize"), NULL,
                        "must be set when podSetSliceRequiredTopology is set");
    if (!topology && !sl_json_is_null(size) &&
        !sl_json_len(sl_json_get(request, "podsetSliceRequiredTopologyConstraints")))
        sl_fielderr_add(l, SL_FE_FORBIDDEN, SL_PATH(path, "podSetSliceSize"), NULL,
                        "may not be set when podSetSliceRequiredTopology is not set");
    if (sl_json_type(size) == SL_JSON_INT && sl_json_int(size, 1) <= 0)
        sl_fielderr_add(l, SL_FE_INVALID, SL_PATH(path, "podSetSliceSize"), size, "must be greater than 0");
}

static void check_podsets(const struct view *v, bool templates, const struct sl_path *spec_path,
                          struct sl_fielderrs *l) {
    const struct sl_path *path = SL_PATH(spec_path, "podSets");
    int64_t with_min = 0;
    SL_JSON_ITEMS (v->podsets, e) {
        const struct sl_path *at = SL_PATH_AT(path, e.i);
        const struct sl_json *min = sl_json_get(e.value, "minCount");
        if (sl_json_type(min) == SL_JSON_INT) {
            with_min++;
            if (sl_json_int(min, 0) > sl_json_get_int(e.value, "count", 1) || sl_json_int(min, 0) < 1)
                sl_fielderr_schema(l, SL_FE_INVALID, at, NULL,
                                   "minCount should be positive and less or equal to count");
            if (is_elastic(v))
                sl_fielderr_add(l, SL_FE_INVALID, SL_PATH(at, "minCount"), min, "cannot be used by an elastic job");
        }
        check_topology_request(sl_json_get(e.value, "topologyRequest"), SL_PATH(at, "topologyRequest"), l);
        if (templates)
            sl_check_template(sl_json_get(e.value, "template"), SL_PATH(at, "template"), l);
    }
    if (with_min > 1)
        sl_fielderr_int(l, SL_FE_INVALID, path, with_min, "at most one podSet can use minCount");
}

static void check_priority(const struct view *v, const struct sl_path *path, struct sl_fielderrs *l) {
    const struct sl_json *ref = sl_json_get(v->spec, "priorityClassRef");
    if (!sl_json_is_object(ref))
        return;
    const char *group = sl_json_get_str(ref, "group", ""), *kind = sl_json_get_str(ref, "kind", "");
    const struct sl_path *at = SL_PATH(path, "priorityClassRef");
    if (sl_json_is_null(sl_json_get(v->spec, "priority")))
        sl_fielderr_schema(l, SL_FE_INVALID, path, NULL, "priority should not be nil when priorityClassRef is set");
    if (!strcmp(group, SL_GROUP_SCHEDULING) && strcmp(kind, "PriorityClass") != 0)
        sl_fielderr_schema(l, SL_FE_INVALID, at, NULL, "kind must be PriorityClass when group is scheduling.k8s.io");
    if (!strcmp(group, SL_GROUP) && strcmp(kind, "WorkloadPriorityClass") != 0)
        sl_fielderr_schema(l, SL_FE_INVALID, at, NULL,
                           "kind must be WorkloadPriorityClass when group is kueue.x-k8s.io");
}

static void check_boost(const struct view *v, struct sl_fielderrs *l) {
    const struct sl_json *boost = sl_json_get(sl_json_get(v->meta, "annotations"), SL_ANNOTATION_PRIORITY_BOOST);
    int64_t n;
    if (sl_json_is_null(boost))
        return;
    if (!sl_parse_int(sl_json_str(boost, ""), &n) || n > INT32_MAX || n < INT32_MIN)
        sl_fielderr_add(l, SL_FE_INVALID,
                        SL_PATH_KEY(SL_PATH(SL_PATH(NULL, "metadata"), "annotations"), SL_ANNOTATION_PRIORITY_BOOST),
                        boost, "must be a signed 32-bit integer");
}

static void check_topology_assignment(const struct sl_json *assignment, const struct sl_path *path,
                                      struct sl_fielderrs *l) {
    const struct sl_json *slices = sl_json_get(assignment, "slices");
    size_t n_levels = sl_json_len(sl_json_get(assignment, "levels"));
    if (!sl_json_is_array(slices))
        return;
    bool levels_differ = false;
    SL_JSON_ITEMS (slices, s) {
        const struct sl_path *at = SL_PATH_AT(SL_PATH(path, "slices"), s.i);
        const struct sl_json *values = sl_json_get(s.value, "valuesPerLevel"),
                             *counts = sl_json_get(s.value, "podCounts");
        int64_t domains = sl_json_get_int(s.value, "domainCount", 0);
        levels_differ = levels_differ || sl_json_len(values) != n_levels;
        const struct sl_json *individual = sl_json_get(counts, "individual");
        if (sl_json_is_null(individual) == sl_json_is_null(sl_json_get(counts, "universal")))
            sl_fielderr_schema(l, SL_FE_INVALID, SL_PATH(at, "podCounts"), NULL,
                               "exactly one of universal, individual must be set");
        if (sl_json_is_array(individual) && (int64_t)sl_json_len(individual) != domains)
            sl_fielderr_schema(l, SL_FE_INVALID, at, NULL, "podCounts.individual must have length domainCount");
        if (!sl_json_is_array(values))
            continue;
        bool roots_differ = false;
        SL_JSON_ITEMS (values, level) {
            const struct sl_json *roots = sl_json_path(level.value, "individual.roots");
            if (sl_json_is_null(sl_json_get(level.value, "individual")) ==
                sl_json_is_null(sl_json_get(level.value, "universal")))
                sl_fielderr_schema(l, SL_FE_INVALID, SL_PATH_AT(SL_PATH(at, "valuesPerLevel"), level.i), NULL,
                                   "exactly one of universal, individual must be set");
            roots_differ = roots_differ || (sl_json_is_array(roots) && (int64_t)sl_json_len(roots) != domains);
        }
        if (roots_differ)
            sl_fielderr_schema(l, SL_FE_INVALID, at, NULL,
                               "valuesPerLevel.individual.roots must have length domainCount");
    }
    if (levels_differ)
        sl_fielderr_schema(l, SL_FE_INVALID, path, NULL,
                           "every slice must have as many valuesPerLevel as there are levels");
}

static void check_usage(const struct sl_json *assignment, const struct sl_path *path, struct sl_fielderrs *l) {
    const struct sl_json *usage = sl_json_get(assignment, "resourceUsage");
    int64_t count = sl_json_get_int(assignment, "count", 0);
    if (!sl_json_is_object(usage))
        return;
    SL_JSON_EACH (usage, e) {
        struct sl_quantity q;
        char text[SL_QUANTITY_TEXT];
        if (sl_quantity_from_json(e.value, &q, NULL) < 0)
            sl_fielderr_schema(l, SL_FE_INVALID, SL_PATH_KEY(SL_PATH(path, "resourceUsage"), e.key), NULL,
                               "must be a quantity");
        else if (count > 0 && sl_quantity_amount(&q, e.key) % count != 0)
            sl_fielderr_str(l, SL_FE_INVALID, SL_PATH_KEY(SL_PATH(path, "resourceUsage"), e.key),
                            sl_quantity_format(&q, text), "is not a multiple of %lld", (long long)count);
    }
}

static void check_admission(const struct view *v, const struct view *old, const struct sl_path *status_path,
                            struct sl_fielderrs *l) {
    const struct sl_path *path = SL_PATH(status_path, "admission");
    bool was_broken = old && old->reserved && !old->admission;
    if (v->reserved && !v->admission && !was_broken)
        sl_fielderr_add(l, SL_FE_REQUIRED, path, NULL, "must be set while quota is reserved");
    const struct sl_json *list = sl_json_get(v->admission, "podSetAssignments");
    const struct sl_path *list_path = SL_PATH(path, "podSetAssignments");
    if (v->reserved && v->admission && sl_json_len(list) != sl_json_len(v->podsets))
        sl_fielderr_schema(l, SL_FE_INVALID, list_path, NULL,
                           "podSetAssignments must have the same number of podSets as the spec");
    if (!sl_json_is_array(list))
        return;
    SL_JSON_ITEMS (list, e) {
        const struct sl_path *at = SL_PATH_AT(list_path, e.i);
        const char *name = sl_json_get_str(e.value, "name", SL_DEFAULT_PODSET);
        if (!named(v->podsets, name))
            sl_fielderr_str(l, SL_FE_NOT_FOUND, SL_PATH(at, "name"), name, NULL);
        check_usage(e.value, at, l);
        check_topology_assignment(sl_json_get(e.value, "topologyAssignment"), SL_PATH(at, "topologyAssignment"), l);
    }
}

static void check_reclaimable(const struct view *v, const struct view *old, const struct sl_path *status_path,
                              struct sl_fielderrs *l) {
    const struct sl_path *path = SL_PATH(status_path, "reclaimablePods");
    const struct sl_json *list = sl_json_get(v->status, "reclaimablePods");
    const struct sl_json *before = old ? sl_json_get(old->status, "reclaimablePods") : NULL;
    if (sl_json_is_array(list))
        SL_JSON_ITEMS (list, e) {
            const char *name = sl_json_get_str(e.value, "name", "");
            const struct sl_path *at = SL_PATH_KEY(path, name);
            const struct sl_json *podset = named(v->podsets, name);
            int64_t count = sl_json_get_int(e.value, "count", 0), limit = sl_json_get_int(podset, "count", 1);
            if (!podset) {
                const char *names[MAX_PODSETS + 1];
                podset_names(v, names);
                sl_fielderr_unsupported(l, false, SL_PATH(at, "name"), name, names);
            } else if (count > limit &&
                       !(is_elastic(v) && sl_json_get_int(named(before, name), "count", -1) == count)) {
                sl_fielderr_int(l, SL_FE_INVALID, SL_PATH(at, "count"), count, "should be less or equal to %lld",
                                (long long)limit);
            }
        }
    if (!old || !old->reserved || !v->reserved || !sl_json_is_array(before) || is_elastic(v))
        return;
    SL_JSON_ITEMS (before, e) {
        const char *name = sl_json_get_str(e.value, "name", "");
        const struct sl_json *now = named(list, name);
        int64_t was = sl_json_get_int(e.value, "count", 0), is = sl_json_get_int(now, "count", 0);
        if (!now)
            sl_fielderr_add(l, SL_FE_REQUIRED, SL_PATH(SL_PATH_KEY(path, name), "name"), NULL, "cannot be removed");
        else if (is < was)
            sl_fielderr_int(l, SL_FE_INVALID, SL_PATH(SL_PATH_KEY(path, name), "count"), is, "cannot be less than %lld",
                            (long long)was);
    }
}

static void check_updates(const struct view *v, const struct sl_json *updates, const struct sl_path *path,
                          struct sl_fielderrs *l) {
    if (!sl_json_is_array(updates))
        return;
    SL_JSON_ITEMS (updates, e) {
        const struct sl_path *at = SL_PATH_AT(path, e.i);
        const char *name = sl_json_get_str(e.value, "name", "");
        if (!named(v->podsets, name)) {
            const char *names[MAX_PODSETS + 1];
            podset_names(v, names);
            sl_fielderr_unsupported(l, false, SL_PATH(at, "name"), name, names);
        }
        sl_check_labels(l, SL_PATH(at, "labels"), sl_json_get(e.value, "labels"));
        sl_check_annotations(l, SL_PATH(at, "annotations"), sl_json_get(e.value, "annotations"));
        sl_check_labels(l, SL_PATH(at, "nodeSelector"), sl_json_get(e.value, "nodeSelector"));
        sl_check_tolerations(sl_json_get(e.value, "tolerations"), SL_PATH(at, "tolerations"), true, l);
    }
}

static void check_checks(const struct view *v, const struct view *old, const struct sl_path *status_path,
                         struct sl_fielderrs *l) {
    const struct sl_json *list = sl_json_get(v->status, "admissionChecks");
    const struct sl_path *path = SL_PATH(status_path, "admissionChecks");
    if (!sl_json_is_array(list))
        return;
    SL_JSON_ITEMS (list, e) {
        const struct sl_path *at = SL_PATH(SL_PATH_AT(path, e.i), "podSetUpdates");
        const struct sl_json *updates = sl_json_get(e.value, "podSetUpdates");
        check_updates(v, updates, at, l);
        const struct sl_json *before =
            old ? named(sl_json_get(old->status, "admissionChecks"), sl_json_get_str(e.value, "name", "")) : NULL;
        if (before && !strcmp(sl_json_get_str(before, "state", ""), "Ready") &&
            !strcmp(sl_json_get_str(e.value, "state", ""), "Ready") &&
            !same(updates, sl_json_get(before, "podSetUpdates")))
            sl_fielderr_add(l, SL_FE_INVALID, at, updates, "field is immutable");
    }
}

static void check_cluster_name(const struct view *v, const struct view *old, const struct sl_path *path,
                               struct sl_fielderrs *l) {
    const char *name = sl_json_get_str(v->status, "clusterName", "");
    const char *before = old ? sl_json_get_str(old->status, "clusterName", "") : "";
    if (!*name)
        return;
    if (*before && strcmp(name, before) != 0)
        sl_fielderr_schema(l, SL_FE_INVALID, path, NULL, "clusterName is immutable once set");
    if (sl_json_len(sl_json_get(v->status, "nominatedClusterNames")))
        sl_fielderr_schema(l, SL_FE_INVALID, path, NULL,
                           "clusterName and nominatedClusterNames are mutually exclusive");
    if (!old || *before || is_elastic(v))
        return;
    const struct sl_json *nominated = sl_json_get(old->status, "nominatedClusterNames");
    if (sl_json_is_array(nominated))
        SL_JSON_ITEMS (nominated, e)
            if (!strcmp(sl_json_str(e.value, ""), name))
                return;
    sl_fielderr_str(l, SL_FE_INVALID, SL_PATH(path, "clusterName"), name, "must be one of the nominatedClusterNames");
}

/* ---- changes ---- */

static void frozen(struct sl_fielderrs *l, const struct sl_path *path, const char *what, const char *when) {
    sl_fielderr_schema(l, SL_FE_INVALID, path, NULL, "%s is immutable while %s", what, when);
}

static void check_frozen_spec(const struct view *v, const struct view *old, const struct sl_path *path,
                              struct sl_fielderrs *l) {
    static const char reserved[] = "workload quota reserved";
    const struct sl_json *ref = sl_json_get(v->spec, "priorityClassRef"),
                         *before = sl_json_get(old->spec, "priorityClassRef");
    const struct sl_path *ref_path = SL_PATH(path, "priorityClassRef");
    if (old->reserved && sl_json_is_null(ref) != sl_json_is_null(before)) {
        frozen(l, ref_path, "priorityClassRef", reserved);
    } else if (old->reserved && !sl_json_is_null(ref)) {
        const char *group = sl_json_get_str(ref, "group", ""), *kind = sl_json_get_str(ref, "kind", "");
        if (strcmp(group, sl_json_get_str(before, "group", "")) != 0)
            frozen(l, SL_PATH(ref_path, "group"), "priorityClassRef.group", reserved);
        if (strcmp(kind, sl_json_get_str(before, "kind", "")) != 0)
            frozen(l, SL_PATH(ref_path, "kind"), "priorityClassRef.kind", reserved);
        if (!strcmp(group, SL_GROUP_SCHEDULING) && !strcmp(kind, "PriorityClass") &&
            strcmp(sl_json_get_str(ref, "name", ""), sl_json_get_str(before, "name", "")) != 0)
            frozen(l, SL_PATH(ref_path, "name"), "priorityClassRef.name", reserved);
    }
    if (old->reserved && v->reserved &&
        !sl_json_equal(sl_json_get(v->spec, "queueName"), sl_json_get(old->spec, "queueName")))
        frozen(l, SL_PATH(path, "queueName"), "queueName", reserved);
    if (old->admitted && v->admitted &&
        sl_json_get_int(v->spec, "maximumExecutionTimeSeconds", 0) !=
            sl_json_get_int(old->spec, "maximumExecutionTimeSeconds", 0))
        frozen(l, SL_PATH(path, "maximumExecutionTimeSeconds"), "maximumExecutionTimeSeconds", "admitted");
}

static void check_frozen_podsets(const struct view *v, const struct view *old, const struct sl_path *spec_path,
                                 struct sl_fielderrs *l) {
    const struct sl_path *path = SL_PATH(spec_path, "podSets");
    if (sl_json_len(v->podsets) != sl_json_len(old->podsets)) {
        sl_fielderr_add(l, SL_FE_INVALID, path, v->podsets, "field is immutable");
        return;
    }
    SL_JSON_ITEMS (v->podsets, e) {
        const struct sl_json *before = sl_json_at(old->podsets, e.i);
        if (same(e.value, before))
            continue;
        /* Elastic jobs shrink in place: a smaller count, and nothing else, may change. */
        SL_AUTO_JSON *shrunk = sl_json_copy(before);
        if (sl_json_get_int(e.value, "count", 1) < sl_json_get_int(before, "count", 1) && sl_json_get(e.value, "count"))
            sl_json_set(shrunk, "count", sl_json_ref(sl_json_get(e.value, "count")));
        if (same(e.value, shrunk))
            continue;
        char index[24];
        snprintf(index, sizeof index, "%zu", e.i);
        sl_fielderr_add(l, SL_FE_INVALID, SL_PATH(path, index), e.value, "field is immutable");
    }
}

/* Admission without what may still change. Owned. */
static struct sl_json *fixed_part(const struct sl_json *admission) {
    struct sl_json *copy = sl_json_copy(admission), *list = sl_json_mut(copy, "podSetAssignments");
    for (size_t i = 0; sl_json_is_array(list) && i < sl_json_len(list); i++) {
        sl_json_del(sl_json_mut_at(list, i), "topologyAssignment");
        sl_json_del(sl_json_mut_at(list, i), "delayedTopologyRequest");
    }
    return copy;
}

static void check_frozen_admission(const struct view *v, const struct view *old, const struct sl_path *path,
                                   struct sl_fielderrs *l) {
    if (!v->admission || !old->admission || sl_json_equal(v->admission, old->admission))
        return;
    SL_AUTO_JSON *now = fixed_part(v->admission), *before = fixed_part(old->admission);
    if (!same(now, before))
        sl_fielderr_add(l, SL_FE_INVALID, SL_PATH(path, "admission"), v->admission, "field is immutable");
}

void sl_workload_validate(const struct sl_json *object, const struct sl_json *old_object, unsigned flags,
                          struct sl_fielderrs *l) {
    const struct sl_path *spec = SL_PATH(NULL, "spec"), *status = SL_PATH(NULL, "status");
    struct view v = view_of(object), was = view_of(old_object), *old = old_object ? &was : NULL;
    bool podsets_changed = !old || !sl_json_equal(v.podsets, was.podsets);
    check_podsets(&v, podsets_changed, spec, l);
    check_priority(&v, spec, l);
    sl_check_admission_gates(v.meta, was.meta, old != NULL, SL_PATH(NULL, "metadata"), l);
    if (flags & SL_VALIDATE_PRIORITY_BOOST)
        check_boost(&v, l);
    check_admission(&v, old, status, l);
    sl_check_conditions(sl_json_get(v.status, "conditions"), SL_PATH(status, "conditions"), l);
    check_reclaimable(&v, old, status, l);
    check_checks(&v, old, status, l);
    check_cluster_name(&v, old, status, l);
    if (!old)
        return;
    check_frozen_spec(&v, old, spec, l);
    if (old->reserved && podsets_changed)
        check_frozen_podsets(&v, old, spec, l);
    check_frozen_admission(&v, old, status, l);
}
