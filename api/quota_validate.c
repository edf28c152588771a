/* ClusterQueue and Cohort: resource groups, limits, weights, policies. What is malformed by the schema is skipped here,
 * not told twice. */
#include <stdlib.h>
#include <string.h>

#include "sluice/api/quantity.h"
#include "sluice/api/validate.h"
#include "sluice/base/map.h"
#include "sluice/base/mem.h"

#define MAX_FLAVORS       256
#define MAX_RESOURCES     256
#define MAX_GROUP_PRODUCT 512

/* What differs between the two kinds. */
struct owner {
    bool has_parent;
    bool is_queue;
};

static bool quantity_of(const struct sl_json *j, struct sl_quantity *ret) {
    return !sl_json_is_null(j) && sl_quantity_from_json(j, ret, NULL) == 0;
}

/* The pattern of the schema lets a little more through than is a quantity ("1e1.5"). */
static void check_readable(const struct sl_json *j, const struct sl_path *path, struct sl_fielderrs *l) {
    struct sl_quantity q;
    if (sl_json_type(j) == SL_JSON_STRING && sl_is_quantity_text(sl_json_str(j, "")) && !quantity_of(j, &q))
        sl_fielderr_schema(l, SL_FE_INVALID, path, j, "must be a quantity");
}

static void bad_quantity(struct sl_fielderrs *l, const struct sl_path *path, const struct sl_quantity *q,
                         const char *detail) {
    char text[SL_QUANTITY_TEXT];
    sl_fielderr_str(l, SL_FE_INVALID, path, sl_quantity_format(q, text), "%s", detail);
}

static void check_amount(const struct sl_json *quota, const char *name, const struct sl_path *at,
                         struct sl_fielderrs *l) {
    struct sl_quantity q;
    check_readable(sl_json_get(quota, name), SL_PATH(at, name), l);
    if (quantity_of(sl_json_get(quota, name), &q) && q.nano < 0)
        bad_quantity(l, SL_PATH(at, name), &q, "must be greater than or equal to 0");
}

static void check_limits(const struct owner *owner, const struct sl_json *quota, const char *flavor,
                         const struct sl_path *at, struct sl_fielderrs *l) {
    struct sl_quantity nominal, borrowing, lending;
    check_amount(quota, "nominalQuota", at, l);
    check_amount(quota, "borrowingLimit", at, l);
    check_amount(quota, "lendingLimit", at, l);
    bool has_borrowing = quantity_of(sl_json_get(quota, "borrowingLimit"), &borrowing);
    bool has_lending = quantity_of(sl_json_get(quota, "lendingLimit"), &lending);
    if (!owner->has_parent) {
        if (has_borrowing && owner->is_queue)
            sl_fielderr_schema(l, SL_FE_INVALID, SL_PATH(NULL, "spec"), NULL,
                               "borrowingLimit must be nil when cohort is empty (flavor %.80s, resource %.80s)", flavor,
                               sl_json_get_str(quota, "name", ""));
        else if (has_borrowing)
            bad_quantity(l, SL_PATH(at, "borrowingLimit"), &borrowing, "must be nil when parent is empty");
        if (has_lending)
            bad_quantity(l, SL_PATH(at, "lendingLimit"), &lending,
                         owner->is_queue ? "must be nil when cohort is empty" : "must be nil when parent is empty");
    }
    if (owner->is_queue && has_lending && quantity_of(sl_json_get(quota, "nominalQuota"), &nominal) &&
        sl_quantity_compare(&lending, &nominal) > 0)
        bad_quantity(l, SL_PATH(at, "lendingLimit"), &lending, "must be less than or equal to the nominalQuota");
}

static void check_group(const struct owner *owner, const struct sl_json *group, const struct sl_path *at,
                        struct sl_map *resources, struct sl_map *flavors, struct sl_fielderrs *l) {
    const struct sl_json *covered = sl_json_get(group, "coveredResources"), *list = sl_json_get(group, "flavors");
    if (sl_json_is_array(covered))
        SL_JSON_ITEMS (covered, e) {
            const struct sl_path *where = SL_PATH_AT(SL_PATH(at, "coveredResources"), e.i);
            const char *name = sl_json_str(e.value, NULL);
            if (!name)
                continue;
            sl_check_qualified_name(l, where, name);
            if (sl_map_has(resources, name))
                sl_fielderr_add(l, SL_FE_DUPLICATE, where, e.value, NULL);
            sl_map_set(resources, name, resources);
        }
    if (!sl_json_is_array(list))
        return;
    bool counts_differ = false;
    SL_JSON_ITEMS (list, f) {
        const struct sl_path *flavor_at = SL_PATH_AT(SL_PATH(at, "flavors"), f.i);
        const char *flavor = sl_json_get_str(f.value, "name", NULL);
        if (flavor) {
            if (sl_map_has(flavors, flavor))
                sl_fielderr_add(l, SL_FE_DUPLICATE, SL_PATH(flavor_at, "name"), sl_json_get(f.value, "name"), NULL);
            sl_map_set(flavors, flavor, flavors);
        }
        const struct sl_json *quotas = sl_json_get(f.value, "resources");
        if (!sl_json_is_array(quotas))
            continue;
        counts_differ = counts_differ || sl_json_len(quotas) != sl_json_len(covered);
        SL_JSON_ITEMS (quotas, q) {
            const struct sl_path *quota_at = SL_PATH_AT(SL_PATH(flavor_at, "resources"), q.i);
            const char *name = sl_json_get_str(q.value, "name", NULL);
            const char *want = sl_json_str(sl_json_at(covered, q.i), NULL);
            if (name && want && strcmp(name, want) != 0)
                sl_fielderr_add(l, SL_FE_INVALID, SL_PATH(quota_at, "name"), sl_json_get(q.value, "name"),
                                "must match the name in coveredResources");
            check_limits(owner, q.value, flavor ? flavor : "", quota_at, l);
        }
    }
    if (counts_differ)
        sl_fielderr_schema(l, SL_FE_INVALID, at, NULL,
                           "flavors must have the same number of resources as the coveredResources");
    size_t product = sl_json_len(list) * (sl_json_is_array(covered) ? sl_json_len(covered) : 0);
    if (owner->is_queue && product > MAX_GROUP_PRODUCT)
        sl_fielderr_add(l, SL_FE_INVALID, at, NULL, "%zu flavors times resources: must be at most %d", product,
                        MAX_GROUP_PRODUCT);
}

static void check_groups(const struct owner *owner, const struct sl_json *groups, struct sl_map *flavors,
                         struct sl_fielderrs *l) {
    if (!sl_json_is_array(groups))
        return;
    struct sl_map resources = SL_MAP_INIT;
    const struct sl_path *path = SL_PATH(SL_PATH(NULL, "spec"), "resourceGroups");
    size_t n_flavors = 0, n_resources = 0;
    SL_JSON_ITEMS (groups, g) {
        check_group(owner, g.value, SL_PATH_AT(path, g.i), &resources, flavors, l);
        n_flavors += sl_json_len(sl_json_get(g.value, "flavors"));
        n_resources += sl_json_len(sl_json_get(g.value, "coveredResources"));
    }
    if (owner->is_queue && n_flavors > MAX_FLAVORS)
        sl_fielderr_add(l, SL_FE_INVALID, path, NULL, "%zu flavors in all groups: must be at most %d", n_flavors,
                        MAX_FLAVORS);
    if (owner->is_queue && n_resources > MAX_RESOURCES)
        sl_fielderr_add(l, SL_FE_INVALID, path, NULL, "%zu covered resources in all groups: must be at most %d",
                        n_resources, MAX_RESOURCES);
    sl_map_done(&resources, NULL);
}

static void check_weight(const struct sl_json *spec, struct sl_fielderrs *l) {
    struct sl_quantity weight;
    const struct sl_json *j = sl_json_get(sl_json_get(spec, "fairSharing"), "weight");
    const struct sl_path *path = SL_PATH(SL_PATH(NULL, "spec"), "fairSharing");
    check_readable(j, SL_PATH(path, "weight"), l);
    if (!quantity_of(j, &weight))
        return;
    if (weight.nano < 0)
        bad_quantity(l, path, &weight, "must be greater than or equal to 0");
    else if (weight.nano == 1)
        bad_quantity(l, path, &weight, "weight must be 0 or greater than 1n");
}

static void check_policies(const struct sl_json *spec, const struct sl_path *path, struct sl_fielderrs *l) {
    const struct sl_json *fungibility = sl_json_get(spec, "flavorFungibility"),
                         *preemption = sl_json_get(spec, "preemption");
    if (*sl_json_get_str(fungibility, "preference", "") &&
        (strcmp(sl_json_get_str(fungibility, "whenCanBorrow", "MayStopSearch"), "TryNextFlavor") != 0 ||
         strcmp(sl_json_get_str(fungibility, "whenCanPreempt", "TryNextFlavor"), "TryNextFlavor") != 0))
        sl_fielderr_schema(l, SL_FE_INVALID, SL_PATH(path, "flavorFungibility"), NULL,
                           "preference needs both whenCanBorrow and whenCanPreempt to be TryNextFlavor");
    if (!strcmp(sl_json_get_str(preemption, "reclaimWithinCohort", "Never"), "Never") &&
        strcmp(sl_json_get_str(sl_json_get(preemption, "borrowWithinCohort"), "policy", "Never"), "Never") != 0)
        sl_fielderr_schema(l, SL_FE_INVALID, SL_PATH(path, "preemption"), NULL,
                           "borrowWithinCohort.policy must be Never when reclaimWithinCohort is Never");
}

static void check_on_flavors(const struct sl_json *spec, const struct sl_path *path, const struct sl_map *flavors,
                             struct sl_fielderrs *l) {
    const struct sl_json *checks = sl_json_path(spec, "admissionChecksStrategy.admissionChecks");
    const struct sl_path *list = SL_PATH(SL_PATH(path, "admissionChecksStrategy"), "admissionChecks");
    if (!sl_json_is_array(checks))
        return;
    SL_JSON_ITEMS (checks, c) {
        const struct sl_json *on = sl_json_get(c.value, "onFlavors");
        if (!sl_json_is_array(on))
            continue;
        SL_JSON_ITEMS (on, f) {
            const char *name = sl_json_str(f.value, NULL);
            if (!name || sl_map_has(flavors, name))
                continue;
            const char **choices = sl_map_sorted_keys(flavors);
            size_t n = flavors->count < 16 ? flavors->count : 16; /* enough to see what is meant */
            const char **shown = sl_xalloc((n + 1) * sizeof *shown);
            for (size_t i = 0; i < n; i++)
                shown[i] = choices[i];
            sl_fielderr_unsupported(l, false, SL_PATH_AT(SL_PATH(SL_PATH_AT(list, c.i), "onFlavors"), f.i), name,
                                    shown);
            free(shown);
            free(choices);
        }
    }
}

void sl_clusterqueue_validate(const struct sl_json *object, const struct sl_json *old, unsigned flags,
                              struct sl_fielderrs *l) {
    (void)flags;
    const struct sl_json *spec = sl_json_get(object, "spec");
    const struct sl_path *path = SL_PATH(NULL, "spec");
    struct sl_map flavors = SL_MAP_INIT;
    struct owner owner = {*sl_json_get_str(spec, "cohortName", "") != 0, true};
    check_groups(&owner, sl_json_get(spec, "resourceGroups"), &flavors, l);
    sl_check_selector(l, SL_PATH(path, "namespaceSelector"), sl_json_get(spec, "namespaceSelector"));
    check_policies(spec, path, l);
    check_weight(spec, l);
    check_on_flavors(spec, path, &flavors, l);
    if (old && !sl_json_equal(sl_json_get(spec, "concurrentAdmissionPolicy"),
                              sl_json_path(old, "spec.concurrentAdmissionPolicy")))
        sl_fielderr_add(l, SL_FE_INVALID, SL_PATH(path, "concurrentAdmissionPolicy"),
                        sl_json_get(spec, "concurrentAdmissionPolicy"), "field is immutable");
    sl_map_done(&flavors, NULL);
}

void sl_cohort_validate(const struct sl_json *object, const struct sl_json *old, unsigned flags,
                        struct sl_fielderrs *l) {
    (void)old;
    (void)flags;
    const struct sl_json *spec = sl_json_get(object, "spec");
    const char *parent = sl_json_get_str(spec, "parentName", "");
    struct sl_map flavors = SL_MAP_INIT;
    struct owner owner = {*parent != 0, false};
    check_groups(&owner, sl_json_get(spec, "resourceGroups"), &flavors, l);
    check_weight(spec, l);
    /* The shortest cycle can be seen in one object; longer ones make their queues inactive. */
    if (*parent && !strcmp(parent, sl_json_path_str(object, "metadata.name", "")))
        sl_fielderr_str(l, SL_FE_INVALID, SL_PATH(SL_PATH(NULL, "spec"), "parentName"), parent,
                        "a cohort cannot be its own parent");
    sl_map_done(&flavors, NULL);
}
