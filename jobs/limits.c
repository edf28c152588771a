/* Summary of the LimitRanges of a namespace, and the resource rules of the configuration; both are read by podspec.c.
 */
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

#define MAX_RULES 256

static int outputs_decode(const struct sl_json *outputs, size_t row, struct transformation *t, struct sl_err *err) {
    if (sl_json_len(outputs) > MAX_RULES)
        return sl_err_set(err, SL_INVALID, "resources.transformations[%zu].outputs: must have at most %d entries", row,
                          MAX_RULES);
    t->outputs = sl_xalloc((sl_json_len(outputs) + 1) * sizeof *t->outputs);
    SL_JSON_EACH (outputs, e) {
        struct sl_err why = SL_ERR_INIT;
        struct sl_quantity factor;
        if (sl_quantity_from_json(e.value, &factor, &why) < 0)
            return sl_err_set(err, SL_INVALID, "resources.transformations[%zu].outputs[%s]: %s", row, e.key, why.text);
        t->outputs[t->n_outputs++] = (struct limit_output){sl_xstrdup(e.key), factor};
    }
    return 0;
}

static int transformation_decode(const struct sl_json *o, size_t row, struct sl_resource_rules *r, struct sl_err *err) {
    const char *input = sl_json_get_str(o, "input", ""), *strategy = sl_json_get_str(o, "strategy", "Retain");
    if (!*input)
        return sl_err_set(err, SL_INVALID, "resources.transformations[%zu].input: must name a resource", row);
    for (size_t i = 0; i < r->n_transformations; i++)
        if (!strcmp(r->transformations[i].input, input))
            return sl_err_set(err, SL_INVALID, "resources.transformations[%zu].input: \"%s\" is transformed twice", row,
                              input);
    if (strcmp(strategy, "Retain") && strcmp(strategy, "Replace"))
        return sl_err_set(err, SL_INVALID,
                          "resources.transformations[%zu].strategy: \"%s\" is neither Retain nor Replace", row,
                          strategy);
    struct transformation *t = &r->transformations[r->n_transformations++];
    t->input = sl_xstrdup(input);
    t->replace = !strcmp(strategy, "Replace");
    const char *by = sl_json_get_str(o, "multiplyBy", "");
    t->multiply_by = *by ? sl_xstrdup(by) : NULL;
    return outputs_decode(sl_json_get(o, "outputs"), row, t, err);
}

static int rules_decode(const struct sl_json *resources, struct sl_resource_rules *r, struct sl_err *err) {
    const struct sl_json *prefixes = sl_json_get(resources, "excludeResourcePrefixes"),
                         *list = sl_json_get(resources, "transformations");
    if (!sl_json_is_null(prefixes) && !sl_json_is_array(prefixes))
        return sl_err_set(err, SL_INVALID, "resources.excludeResourcePrefixes: must be a list");
    if (!sl_json_is_null(list) && !sl_json_is_array(list))
        return sl_err_set(err, SL_INVALID, "resources.transformations: must be a list");
    if (sl_json_len(prefixes) > MAX_RULES || sl_json_len(list) > MAX_RULES)
        return sl_err_set(err, SL_INVALID, "resources: must have at most %d prefixes and transformations", MAX_RULES);
    r->prefixes = sl_xalloc((sl_json_len(prefixes) + 1) * sizeof *r->prefixes);
    SL_JSON_ITEMS (prefixes, e) {
        const char *prefix = sl_json_str(e.value, "");
        if (!*prefix)
            return sl_err_set(err, SL_INVALID, "resources.excludeResourcePrefixes[%zu]: must not be empty", e.i);
        r->prefixes[r->n_prefixes++] = sl_xstrdup(prefix);
    }
    r->transformations = sl_xalloc((sl_json_len(list) + 1) * sizeof *r->transformations);
    SL_JSON_ITEMS (list, e) {
        int code = transformation_decode(e.value, e.i, r, err);
        if (code < 0)
            return code;
    }
    return 0;
}

int sl_resource_rules_new(const struct sl_json *resources, struct sl_resource_rules **ret, struct sl_err *err) {
    struct sl_resource_rules *r = sl_xalloc(sizeof *r);
    int code = rules_decode(resources, r, err);
    if (code < 0) {
        sl_resource_rules_free(r);
        return code;
    }
    *ret = r;
    return 0;
}

void sl_resource_rules_free(struct sl_resource_rules *r) {
    if (!r)
        return;
    for (size_t i = 0; i < r->n_prefixes; i++)
        free(r->prefixes[i]);
    free(r->prefixes);
    for (size_t i = 0; i < r->n_transformations; i++) {
        struct transformation *t = &r->transformations[i];
        for (size_t j = 0; j < t->n_outputs; j++)
            free(t->outputs[j].name);
        free(t->outputs);
        free(t->input);
        free(t->multiply_by);
    }
    free(r->transformations);
    free(r);
}
