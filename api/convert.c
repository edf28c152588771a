/* Conversion between the versions: renames, moves and drops, one function a kind and direction. */
#include "sluice/api/convert.h"

#include <string.h>

#include "convert_kinds.h"
#include "sluice/api/names.h"
#include "sluice/api/registry.h"
#include "sluice/base/mem.h"

int sl_api_convert(struct sl_json *object, const char *desired, struct sl_err *err) {
    const char *version = sl_json_get_str(object, "apiVersion", "");
    const char *name = sl_json_get_str(object, "kind", "");
    const struct sl_api_kind *kind = sl_api_kind_find(name);
    bool to1 = !strcmp(desired, SL_V1BETA1), to2 = !strcmp(desired, SL_V1BETA2);
    if (!to1 && !to2)
        return sl_err_set(err, SL_INVALID, "desiredAPIVersion: \"%.100s\" is not a version of " SL_GROUP, desired);
    if (strcmp(version, SL_V1BETA1) != 0 && strcmp(version, SL_V1BETA2) != 0)
        return sl_err_set(err, SL_INVALID, "apiVersion: \"%.100s\" is not a version of " SL_GROUP, version);
    if (!kind)
        return sl_err_set(err, SL_INVALID, "kind: \"%.100s\" is not a kind of " SL_GROUP, name);
    if (!strcmp(version, desired))
        return 0;
    int (*convert)(struct sl_json *, struct sl_err *) = to1 ? kind->to_v1beta1 : kind->to_v1beta2;
    int r = convert ? convert(object, err) : 0;
    if (r < 0)
        return r;
    sl_json_set_str(object, "apiVersion", desired);
    return 0;
}

/* A member under another name; one that had this name before belongs to no version and goes. */
static void rename_member(struct sl_json *o, const char *from, const char *to) {
    struct sl_json *value = sl_json_ref(sl_json_get(o, from));
    sl_json_del(o, from);
    sl_json_del(o, to);
    if (value)
        sl_json_set(o, to, value);
}

static struct sl_json *member(struct sl_json *o, const char *key) {
    struct sl_json *m = sl_json_mut(o, key);
    return sl_json_is_object(m) ? m : NULL;
}

static void rename_choice(struct sl_json *o, const char *key, const char *from, const char *to) {
    if (!strcmp(sl_json_get_str(o, key, ""), from))
        sl_json_set_str(o, key, to);
}

int sl_clusterqueue_to_v1beta2(struct sl_json *o, struct sl_err *err) {
    (void)err;
    struct sl_json *spec = member(o, "spec"), *status = member(o, "status");
    if (spec) {
        rename_member(spec, "cohort", "cohortName");
        const struct sl_json *checks = sl_json_get(spec, "admissionChecks");
        if (sl_json_is_array(checks) && sl_json_len(checks)) {
            struct sl_json *strategy = sl_json_new_object(), *rules = sl_json_make_array(strategy, "admissionChecks");
            SL_JSON_ITEMS (checks, e) {
                struct sl_json *rule = sl_json_new_object();
                sl_json_set(rule, "name", sl_json_ref(e.value));
                sl_json_append(rules, rule);
            }
            sl_json_set(spec, "admissionChecksStrategy", strategy);
        }
        sl_json_del(spec, "admissionChecks");
        struct sl_json *fungibility = member(spec, "flavorFungibility");
        rename_choice(fungibility, "whenCanBorrow", "Borrow", "MayStopSearch");
        rename_choice(fungibility, "whenCanPreempt", "Preempt", "MayStopSearch");
    }
    sl_json_del(status, "pendingWorkloadsStatus");
    sl_json_del(member(status, "fairSharing"), "admissionFairSharingStatus");
    return 0;
}

int sl_clusterqueue_to_v1beta1(struct sl_json *o, struct sl_err *err) {
    (void)err;
    struct sl_json *spec = member(o, "spec");
    if (spec) {
        rename_member(spec, "cohortName", "cohort");
        sl_json_del(spec, "concurrentAdmissionPolicy");
    }
    return 0;
}

int sl_cohort_to_v1beta2(struct sl_json *o, struct sl_err *err) {
    (void)err;
    sl_json_del(member(member(o, "status"), "fairSharing"), "admissionFairSharingStatus");
    return 0;
}

int sl_localqueue_to_v1beta2(struct sl_json *o, struct sl_err *err) {
    (void)err;
    struct sl_json *status = member(o, "status");
    if (status) {
        rename_member(status, "flavorUsage", "flavorsUsage");
        sl_json_del(status, "flavors");
    }
    return 0;
}

int sl_localqueue_to_v1beta1(struct sl_json *o, struct sl_err *err) {
    (void)err;
    struct sl_json *status = member(o, "status");
    if (status)
        rename_member(status, "flavorsUsage", "flavorUsage");
    return 0;
}

static const struct {
    const char *source, *group, *kind;
} sources[] = {
    {"kueue.x-k8s.io/workloadpriorityclass", SL_GROUP, "WorkloadPriorityClass"},
    {"scheduling.k8s.io/priorityclass", SL_GROUP_SCHEDULING, "PriorityClass"},
};

static int each_topology(struct sl_json *o, int (*convert)(struct sl_json *, struct sl_err *), bool drop,
                         struct sl_err *err) {
    struct sl_json *assignments = sl_json_mut(member(member(o, "status"), "admission"), "podSetAssignments");
    for (size_t i = 0; sl_json_is_array(assignments) && i < sl_json_len(assignments); i++) {
        struct sl_json *assignment = sl_json_mut_at(assignments, i),
                       *topology = member(assignment, "topologyAssignment");
        if (!topology || convert(topology, err) == 0)
            continue;
        if (!drop)
            return sl_err_wrap(err, "status.admission.podSetAssignments[%zu].topologyAssignment", i);
        sl_json_del(assignment, "topologyAssignment");
    }
    return 0;
}

int sl_workload_to_v1beta2(struct sl_json *o, struct sl_err *err) {
    struct sl_json *spec = member(o, "spec"), *status = member(o, "status");
    if (spec) {
        const char *name = sl_json_get_str(spec, "priorityClassName", ""),
                   *source = sl_json_get_str(spec, "priorityClassSource", "");
        sl_json_del(spec, "priorityClassRef");
        for (size_t i = 0; *name && i < SL_COUNT(sources); i++)
            if (!strcmp(source, sources[i].source)) {
                struct sl_json *ref = sl_json_make_object(spec, "priorityClassRef");
                sl_json_set_str(ref, "group", sources[i].group);
                sl_json_set_str(ref, "kind", sources[i].kind);
                sl_json_set_str(ref, "name", name);
                break;
            }
        sl_json_del(spec, "priorityClassName");
        sl_json_del(spec, "priorityClassSource");
    }
    if (status)
        rename_member(status, "accumulatedPastExexcutionTimeSeconds", "accumulatedPastExecutionTimeSeconds");
    return each_topology(o, sl_topology_to_slices, false, err);
}

int sl_workload_to_v1beta1(struct sl_json *o, struct sl_err *err) {
    struct sl_json *spec = member(o, "spec"), *status = member(o, "status");
    if (spec) {
        const struct sl_json *ref = sl_json_get(spec, "priorityClassRef");
        const char *group = sl_json_get_str(ref, "group", ""), *kind = sl_json_get_str(ref, "kind", "");
        sl_json_del(spec, "priorityClassName");
        sl_json_del(spec, "priorityClassSource");
        const char *name = sl_json_get_str(ref, "name", "");
        for (size_t i = 0; *name && i < SL_COUNT(sources); i++)
            if (!strcmp(group, sources[i].group) && !strcmp(kind, sources[i].kind)) {
                sl_json_set_str(spec, "priorityClassName", name);
                sl_json_set_str(spec, "priorityClassSource", sources[i].source);
                break;
            }
        sl_json_del(spec, "priorityClassRef");
        sl_json_del(spec, "preemptionGates");
        struct sl_json *podsets = sl_json_mut(spec, "podSets");
        for (size_t i = 0; sl_json_is_array(podsets) && i < sl_json_len(podsets); i++)
            sl_json_del(member(sl_json_mut_at(podsets, i), "topologyRequest"),
                        "podsetSliceRequiredTopologyConstraints");
    }
    if (status) {
        rename_member(status, "accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds");
        sl_json_del(status, "preemptionGates");
    }
    /* What is stored must stay readable, or one bad object would spoil every list: an assignment that does not add up
     * is left out. */
    return each_topology(o, sl_topology_to_domains, true, err);
}

int sl_admissioncheck_to_v1beta2(struct sl_json *o, struct sl_err *err) {
    (void)err;
    sl_json_del(member(o, "spec"), "retryDelayMinutes");
    return 0;
}

int sl_multikueuecluster_to_v1beta2(struct sl_json *o, struct sl_err *err) {
    (void)err;
    struct sl_json *spec = member(o, "spec");
    if (!spec)
        return 0;
    struct sl_json *source = sl_json_new_object();
    const struct sl_json *config = sl_json_get(spec, "kubeConfig"), *profile = sl_json_get(spec, "clusterProfileRef");
    if (*sl_json_get_str(config, "location", ""))
        sl_json_set(source, "kubeConfig", sl_json_ref(config));
    if (!sl_json_is_null(profile))
        sl_json_set(source, "clusterProfileRef", sl_json_ref(profile));
    sl_json_del(spec, "kubeConfig");
    sl_json_del(spec, "clusterProfileRef");
    sl_json_set(spec, "clusterSource", source);
    return 0;
}

int sl_multikueuecluster_to_v1beta1(struct sl_json *o, struct sl_err *err) {
    (void)err;
    struct sl_json *spec = member(o, "spec");
    if (!spec)
        return 0;
    const struct sl_json *source = sl_json_get(spec, "clusterSource");
    const struct sl_json *config = sl_json_get(source, "kubeConfig"),
                         *profile = sl_json_get(source, "clusterProfileRef");
    sl_json_set(spec, "kubeConfig", sl_json_is_null(config) ? sl_json_new_object() : sl_json_ref(config));
    sl_json_del(spec, "clusterProfileRef");
    if (!sl_json_is_null(profile))
        sl_json_set(spec, "clusterProfileRef", sl_json_ref(profile));
    sl_json_del(spec, "clusterSource");
    return 0;
}

int sl_multikueueconfig_to_v1beta1(struct sl_json *o, struct sl_err *err) {
    (void)err;
    sl_json_del(member(o, "spec"), "quotaManagement");
    return 0;
}
