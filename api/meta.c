/* Small readers of metadata and of the parts that several kinds share. */
#include "meta.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/api/decode.h"
#include "sluice/api/quantity.h"
#include "sluice/base/clock.h"
#include "sluice/base/mem.h"

char *sl_meta_str(const struct sl_json *o, const char *key) {
    return sl_xstrdup(sl_json_get_str(o, key, ""));
}

char *sl_meta_str_or_null(const struct sl_json *o, const char *key) {
    const char *text = sl_json_get_str(o, key, "");
    return *text ? sl_xstrdup(text) : NULL;
}

int sl_meta_name(const struct sl_json *o, char **ret, struct sl_err *err) {
    const char *name = sl_json_path_str(o, "metadata.name", "");
    if (!*name)
        return sl_err_set(err, SL_INVALID, "metadata.name: Required value");
    *ret = sl_xstrdup(name);
    return 0;
}

bool sl_meta_deleting(const struct sl_json *o) {
    return !sl_json_is_null(sl_json_path(o, "metadata.deletionTimestamp"));
}

int32_t sl_meta_i32(const struct sl_json *j, int32_t dflt) {
    int64_t v = sl_json_int(j, dflt);
    return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (int32_t)v;
}

int sl_meta_choice(const char *text, const char *const *names) {
    for (int i = 0; text && names[i]; i++)
        if (!strcmp(text, names[i]))
            return i;
    return -1;
}

int64_t sl_meta_time(const struct sl_json *j, int64_t dflt) {
    int64_t ms;
    const char *text = sl_json_str(j, NULL);
    return text && sl_time_parse(text, &ms) ? ms : dflt;
}

static int by_key(const void *a, const void *b) {
    return strcmp(((const struct sl_label *)a)->key, ((const struct sl_label *)b)->key);
}

void sl_labels_decode(const struct sl_json *map, const char *prefix, struct sl_labels *ret) {
    size_t cap = 0, n = 0;
    struct sl_label *items = NULL;
    SL_JSON_EACH (map, e) {
        if (prefix && strncmp(e.key, prefix, strlen(prefix)) != 0)
            continue;
        SL_GROW(items, cap, n);
        items[n++] = (struct sl_label){sl_xstrdup(e.key), sl_xstrdup(sl_json_str(e.value, ""))};
    }
    if (n > 1)
        qsort(items, n, sizeof *items, by_key);
    *ret = (struct sl_labels){items, n};
}

enum sl_stop_policy sl_stop_policy_decode(const struct sl_json *spec) {
    static const char *const names[] = {"None", "Hold", "HoldAndDrain", NULL};
    int i = sl_meta_choice(sl_json_get_str(spec, "stopPolicy", "None"), names);
    return i < 0 ? SL_STOP_NONE : (enum sl_stop_policy)i;
}

int sl_weight_decode(const struct sl_json *spec, double *ret, struct sl_err *err) {
    const struct sl_json *weight = sl_json_path(spec, "fairSharing.weight");
    *ret = 1;
    if (sl_json_is_null(weight))
        return 0;
    struct sl_quantity q;
    if (sl_quantity_from_json(weight, &q, err) < 0)
        return sl_err_wrap(err, "spec.fairSharing.weight");
    *ret = q.nano <= 0 ? 0 : (double)q.nano / 1e9;
    return 0;
}

static int quota_amount(const struct sl_json *j, const char *resource, int64_t *ret, struct sl_err *err) {
    struct sl_quantity q;
    int r = sl_quantity_from_json(j, &q, err);
    if (r < 0)
        return r;
    *ret = sl_quantity_quota(&q, resource);
    if (*ret < 0)
        *ret = 0; /* the webhook refuses these; one that is stored anyway is no credit */
    return 0;
}

static int quota_decode(const struct sl_json *j, struct sl_quota *q, struct sl_err *err) {
    q->resource = sl_meta_str(j, "name");
    int r = quota_amount(sl_json_get(j, "nominalQuota"), q->resource, &q->nominal, err);
    if (r < 0)
        return sl_err_wrap(err, "nominalQuota");
    const struct sl_json *limit = sl_json_get(j, "borrowingLimit");
    q->has_borrowing_limit = !sl_json_is_null(limit);
    if (q->has_borrowing_limit && quota_amount(limit, q->resource, &q->borrowing_limit, err) < 0)
        return sl_err_wrap(err, "borrowingLimit");
    limit = sl_json_get(j, "lendingLimit");
    q->has_lending_limit = !sl_json_is_null(limit);
    if (q->has_lending_limit && quota_amount(limit, q->resource, &q->lending_limit, err) < 0)
        return sl_err_wrap(err, "lendingLimit");
    return 0;
}

/* Whatever was filled in before a failure stays reachable from *groups, for the _free of the kind. */
int sl_groups_decode(const struct sl_json *list, struct sl_resource_group **ret, size_t *ret_n, struct sl_err *err) {
    size_t n = sl_json_is_array(list) ? sl_json_len(list) : 0;
    struct sl_resource_group *groups = sl_xalloc((n + 1) * sizeof *groups);
    *ret = groups;
    *ret_n = n;
    for (size_t i = 0; i < n; i++) {
        const struct sl_json *g = sl_json_at(list, i);
        const struct sl_json *covered = sl_json_get(g, "coveredResources"), *flavors = sl_json_get(g, "flavors");
        size_t n_covered = sl_json_is_array(covered) ? sl_json_len(covered) : 0;
        size_t n_flavors = sl_json_is_array(flavors) ? sl_json_len(flavors) : 0;
        groups[i].covered = sl_xalloc((n_covered + 1) * sizeof *groups[i].covered);
        for (size_t j = 0; j < n_covered; j++)
            groups[i].covered[groups[i].n_covered++] = sl_xstrdup(sl_json_str(sl_json_at(covered, j), ""));
        groups[i].flavors = sl_xalloc((n_flavors + 1) * sizeof *groups[i].flavors);
        groups[i].n_flavors = n_flavors;
        for (size_t j = 0; j < n_flavors; j++) {
            struct sl_flavor_quotas *fq = &groups[i].flavors[j];
            const struct sl_json *resources = sl_json_get(sl_json_at(flavors, j), "resources");
            size_t n_resources = sl_json_is_array(resources) ? sl_json_len(resources) : 0;
            fq->flavor = sl_meta_str(sl_json_at(flavors, j), "name");
            fq->quotas = sl_xalloc((n_resources + 1) * sizeof *fq->quotas);
            fq->n = n_resources;
            for (size_t k = 0; k < n_resources; k++)
                if (quota_decode(sl_json_at(resources, k), &fq->quotas[k], err) < 0)
                    return sl_err_wrap(err, "spec.resourceGroups[%zu].flavors[%zu].resources[%zu]", i, j, k);
        }
    }
    return 0;
}
