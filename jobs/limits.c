/* Summary of the LimitRanges of a namespace, as podspec.c reads it. */
#include <stdlib.h>
#include <string.h>

#include "podspec_internal.h"
#include "sluice/base/mem.h"

const struct sl_quantity *limit_map_get(const struct limit_map *m, const char *name) {
    for (size_t i = 0; i < m->n; i++)
        if (!strcmp(m->items[i].name, name))
            return &m->items[i].q;
    return NULL;
}

enum merge { KEEP_FIRST, KEEP_LOWEST, KEEP_HIGHEST };

static void limit_map_merge(struct limit_map *m, const struct sl_json *values, enum merge merge) {
    SL_JSON_EACH (values, e) {
        struct sl_quantity q;
        if (sl_quantity_from_json(e.value, &q, NULL) < 0)
            continue; /* the API server stores only what it can read */
        size_t i = 0;
        while (i < m->n && strcmp(m->items[i].name, e.key))
            i++;
        if (i == m->n) {
            if (m->n >= SL_PODSPEC_MAX_RESOURCES)
                return;
            SL_GROW(m->items, m->cap, m->n);
            m->items[m->n++] = (struct limit){sl_xstrdup(e.key), q};
            continue;
        }
        int c = sl_quantity_compare(&q, &m->items[i].q);
        if ((merge == KEEP_LOWEST && c < 0) || (merge == KEEP_HIGHEST && c > 0))
            m->items[i].q = q;
    }
}

static void limit_map_done(struct limit_map *m) {
    for (size_t i = 0; i < m->n; i++)
        free(m->items[i].name);
    free(m->items);
}

static void limit_type_done(struct limit_type *t) {
    limit_map_done(&t->min);
    limit_map_done(&t->max);
    limit_map_done(&t->defaults);
    limit_map_done(&t->default_requests);
}

struct sl_limits *sl_limits_new(void) {
    return sl_xalloc(sizeof(struct sl_limits));
}

void sl_limits_add(struct sl_limits *l, const struct sl_json *limit_range) {
    SL_JSON_ITEMS (sl_json_path(limit_range, "spec.limits"), e) {
        const char *type = sl_json_get_str(e.value, "type", "");
        struct limit_type *t = !strcmp(type, "Container") ? &l->container : !strcmp(type, "Pod") ? &l->pod : NULL;
        if (!t)
            continue;
        limit_map_merge(&t->min, sl_json_get(e.value, "min"), KEEP_HIGHEST);
        limit_map_merge(&t->max, sl_json_get(e.value, "max"), KEEP_LOWEST);
        limit_map_merge(&t->defaults, sl_json_get(e.value, "default"), KEEP_FIRST);
        limit_map_merge(&t->default_requests, sl_json_get(e.value, "defaultRequest"), KEEP_FIRST);
    }
}

static bool limit_type_empty(const struct limit_type *t) {
    return !(t->min.n + t->max.n + t->defaults.n + t->default_requests.n);
}

bool sl_limits_empty(const struct sl_limits *l) {
    return !l || (limit_type_empty(&l->container) && limit_type_empty(&l->pod));
}

void sl_limits_free(struct sl_limits *l) {
    if (!l)
        return;
    limit_type_done(&l->container);
    limit_type_done(&l->pod);
    free(l);
}
