/*
 * Effective requests of one pod. Quantities stay exact (sl_quantity) through sums, maxima and transformations and are
 * rounded to the engine's units once, at the end. Resource names are borrowed from the trees, the LimitRange summary
 * and the rules until then. Lists of amounts are sorted by name; the number of distinct names is limited, which bounds
 * all work by the size of the pod spec.
 */
#include "sluice/jobs/podspec.h"

#include <stdlib.h>
#include <string.h>

#include "podspec_internal.h"
#include "sluice/base/buf.h"
#include "sluice/base/map.h"
#include "sluice/base/mem.h"

struct amount {
    const char *name; /* borrowed */
    struct sl_quantity q;
};
struct amounts { /* sorted by name */
    struct amount *items;
    size_t n, cap;
};
#define AUTO_AMOUNTS __attribute__((cleanup(amounts_done))) struct amounts

static void amounts_done(struct amounts *a) {
    free(a->items);
}

static const struct sl_quantity zero = {0, SL_QTY_DECIMAL_SI};

/* Index of the name, or where it would stand (*found false). */
static size_t amounts_find(const struct amounts *a, const char *name, bool *found) {
    size_t low = 0, high = a->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int c = strcmp(a->items[mid].name, name);
        if (c == 0) {
            *found = true;
            return mid;
        }
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    *found = false;
    return low;
}

static const struct sl_quantity *amounts_get(const struct amounts *a, const char *name) {
    bool found;
    size_t i = amounts_find(a, name, &found);
    return found ? &a->items[i].q : NULL;
}

/* The amount under that name, made 0 when absent; NULL past the limit of distinct names. */
static struct sl_quantity *amounts_slot(struct amounts *a, const char *name) {
    bool found;
    size_t i = amounts_find(a, name, &found);
    if (found)
        return &a->items[i].q;
    if (a->n >= SL_PODSPEC_MAX_RESOURCES)
        return NULL;
    SL_GROW(a->items, a->cap, a->n);
    memmove(a->items + i + 1, a->items + i, (a->n - i) * sizeof *a->items);
    a->items[i] = (struct amount){name, zero};
    a->n++;
    return &a->items[i].q;
}

static void amounts_add(struct amounts *a, const struct amounts *b) {
    for (size_t i = 0; i < b->n; i++) {
        struct sl_quantity *q = amounts_slot(a, b->items[i].name);
        if (q)
            *q = sl_quantity_add(*q, b->items[i].q);
    }
}

static void amounts_max(struct amounts *a, const struct amounts *b) {
    for (size_t i = 0; i < b->n; i++) {
        struct sl_quantity *q = amounts_slot(a, b->items[i].name);
        if (q && sl_quantity_compare(q, &b->items[i].q) < 0)
            *q = b->items[i].q;
    }
}

static void fill_absent(struct amounts *a, const struct amounts *from) {
    for (size_t i = 0; i < from->n; i++)
        if (!amounts_get(a, from->items[i].name)) {
            struct sl_quantity *q = amounts_slot(a, from->items[i].name);
            if (q)
                *q = from->items[i].q;
        }
}

static void fill_absent_limits(struct amounts *a, const struct limit_map *from) {
    for (size_t i = 0; i < from->n; i++)
        if (!amounts_get(a, from->items[i].name)) {
            struct sl_quantity *q = amounts_slot(a, from->items[i].name);
            if (q)
                *q = from->items[i].q;
        }
}

/* Problems of one pod spec, by the group that decides the verdict: what cannot be read, requests above limits,
 * LimitRanges. */
enum problem { UNREADABLE, ABOVE_LIMIT, OUT_OF_RANGE, PROBLEM_KINDS };
#define PROBLEM_TEXT_MAX 1024
struct problems {
    struct sl_buf text[PROBLEM_KINDS];
};

static void SL_PRINTF(3, 4) problem(struct problems *p, enum problem kind, const char *format, ...) {
    struct sl_buf *b = &p->text[kind];
    if (b->failed || b->len > PROBLEM_TEXT_MAX)
        return; /* enough to see what is wrong */
    va_list args;
    va_start(args, format);
    if (b->len)
        sl_buf_puts(b, "; ");
    sl_buf_vprintf(b, format, args);
    va_end(args);
}

/* A map of quantities. A stored object may hold negative values from before they were refused: they count as nothing,
 * never as a credit. */
static void read_amounts(const struct sl_json *map, const char *path, const char *what, struct problems *p,
                         struct amounts *ret) {
    SL_JSON_EACH (map, e) {
        struct sl_quantity q;
        struct sl_err err = SL_ERR_INIT;
        if (sl_quantity_from_json(e.value, &q, &err) < 0) {
            problem(p, UNREADABLE, "%s.%s[%.100s]: Invalid value: %s", path, what, e.key, err.text);
            continue;
        }
        struct sl_quantity *slot = amounts_slot(ret, e.key);
        if (!slot)
            problem(p, UNREADABLE, "%s.%s: Too many: must have at most %d resources", path, what,
                    SL_PODSPEC_MAX_RESOURCES);
        else
            *slot = q.nano < 0 ? zero : q;
    }
}

struct block { /* requests and limits of a container or of the pod level */
    struct amounts requests, limits;
};
#define AUTO_BLOCK __attribute__((cleanup(block_done))) struct block

static void block_done(struct block *b) {
    amounts_done(&b->requests);
    amounts_done(&b->limits);
}

/*
 * A block's own limit becomes its request before defaults of a LimitRange are looked
 * at, as the API server does it when the pod is made; only then the defaults; a default limit without a default request
 * is a request again.
 */
static void read_block(const struct sl_json *resources, const char *path, const struct limit_map *defaults,
                       const struct limit_map *default_requests, struct problems *p, struct block *ret) {
    read_amounts(sl_json_get(resources, "requests"), path, "resources.requests", p, &ret->requests);
    read_amounts(sl_json_get(resources, "limits"), path, "resources.limits", p, &ret->limits);
    fill_absent(&ret->requests, &ret->limits);
    if (defaults)
        fill_absent_limits(&ret->limits, defaults);
    if (default_requests)
        fill_absent_limits(&ret->requests, default_requests);
    fill_absent(&ret->requests, &ret->limits);
}

static void check_limits(const struct block *b, const char *path, struct problems *p) {
    for (size_t i = 0; i < b->requests.n; i++) {
        const struct amount *r = &b->requests.items[i];
        const struct sl_quantity *limit = amounts_get(&b->limits, r->name);
        if (!limit || sl_quantity_amount(&r->q, r->name) <= sl_quantity_amount(limit, r->name))
            continue;
        char have[SL_QUANTITY_TEXT], most[SL_QUANTITY_TEXT];
        problem(p, ABOVE_LIMIT, "%s.resources.requests[%s]: Invalid value: \"%s\": must not be more than the limit %s",
                path, r->name, sl_quantity_format(&r->q, have), sl_quantity_format(limit, most));
    }
}

static void check_range(const char *path, const char *name, const struct sl_quantity *low,
                        const struct sl_quantity *high, const struct limit_map *min, const struct limit_map *max,
                        struct problems *p) {
    char have[SL_QUANTITY_TEXT], want[SL_QUANTITY_TEXT];
    const struct sl_quantity *bound = limit_map_get(max, name);
    if (bound && sl_quantity_amount(high, name) > sl_quantity_amount(bound, name))
        problem(p, OUT_OF_RANGE, "%s: Invalid value: \"%s\": %s is above the LimitRange's maximum %s", path,
                sl_quantity_format(high, have), name, sl_quantity_format(bound, want));
    bound = limit_map_get(min, name);
    if (bound && sl_quantity_amount(low, name) < sl_quantity_amount(bound, name))
        problem(p, OUT_OF_RANGE, "%s: Invalid value: \"%s\": %s is below the LimitRange's minimum %s", path,
                sl_quantity_format(low, have), name, sl_quantity_format(bound, want));
}

static void check_container_range(const struct block *b, const char *path, const struct sl_limits *l,
                                  struct problems *p) {
    for (size_t i = 0; i < b->requests.n; i++) {
        const char *name = b->requests.items[i].name;
        const struct sl_quantity *request = &b->requests.items[i].q, *limit = amounts_get(&b->limits, name);
        if (!limit)
            limit = request;
        bool limit_is_less = sl_quantity_compare(limit, request) < 0;
        check_range(path, name, limit_is_less ? limit : request, limit_is_less ? request : limit, &l->container.min,
                    &l->container.max, p);
    }
}

static bool is_sidecar(const struct sl_json *init_container) {
    return !strcmp(sl_json_get_str(init_container, "restartPolicy", ""), "Always");
}

/* The keys that pod-level requests replace. */
static bool pod_level_resource(const char *name) {
    return !strcmp(name, "cpu") || !strcmp(name, "memory") || !strncmp(name, "hugepages-", 10);
}

static void read_container(const struct sl_json *container, const char *list, size_t i, const char *path,
                           const struct sl_limits *limits, struct problems *p, struct block *ret) {
    SL_AUTO_FREE char *where = sl_xprintf("%s.%s[%zu]", path, list, i);
    read_block(sl_json_get(container, "resources"), where, limits ? &limits->container.defaults : NULL,
               limits ? &limits->container.default_requests : NULL, p, ret);
    check_limits(ret, where, p);
    if (limits)
        check_container_range(ret, where, limits, p);
}

/* What runs at the same time, at its peak. */
static void pod_amounts(const struct sl_json *spec, const char *path, const struct sl_podspec_context *ctx,
                        struct problems *p, struct amounts *pod) {
    const struct sl_limits *limits = sl_limits_empty(ctx->limits) ? NULL : ctx->limits;
    AUTO_AMOUNTS sidecars = {0}, init_peak = {0};
    SL_JSON_ITEMS (sl_json_get(spec, "initContainers"), e) {
        AUTO_BLOCK b = {0};
        read_container(e.value, "initContainers", e.i, path, limits, p, &b);
        if (is_sidecar(e.value)) {
            amounts_add(&sidecars, &b.requests);
            amounts_max(&init_peak, &sidecars);
            continue;
        }
        AUTO_AMOUNTS now = {0};
        amounts_add(&now, &b.requests);
        amounts_add(&now, &sidecars);
        amounts_max(&init_peak, &now);
    }
    SL_JSON_ITEMS (sl_json_get(spec, "containers"), e) {
        AUTO_BLOCK b = {0};
        read_container(e.value, "containers", e.i, path, limits, p, &b);
        amounts_add(pod, &b.requests);
    }
    amounts_add(pod, &sidecars);
    amounts_max(pod, &init_peak);

    const struct sl_json *pod_level = sl_json_get(spec, "resources");
    if (sl_json_is_object(pod_level)) {
        AUTO_BLOCK b = {0};
        read_block(pod_level, path, limits ? &limits->pod.defaults : NULL,
                   limits ? &limits->pod.default_requests : NULL, p, &b);
        check_limits(&b, path, p);
        for (size_t i = 0; i < b.requests.n; i++)
            if (pod_level_resource(b.requests.items[i].name)) {
                struct sl_quantity *q = amounts_slot(pod, b.requests.items[i].name);
                if (q)
                    *q = b.requests.items[i].q;
            }
    }

    AUTO_AMOUNTS overhead = {0};
    const struct sl_json *own = sl_json_get(spec, "overhead");
    if (sl_json_len(own) == 0 && ctx->overhead) {
        const char *runtime_class = sl_json_get_str(spec, "runtimeClassName", "");
        own = *runtime_class ? ctx->overhead(ctx->overhead_arg, runtime_class) : NULL;
    }
    read_amounts(own, path, "overhead", p, &overhead);
    amounts_add(pod, &overhead);

    if (limits)
        for (size_t i = 0; i < pod->n; i++)
            check_range(path, pod->items[i].name, &pod->items[i].q, &pod->items[i].q, &limits->pod.min,
                        &limits->pod.max, p);
}

typedef __int128 i128;
typedef unsigned __int128 u128;
#define NANO    ((u128)1000000000)
#define QTY_MAX ((((u128)1) << 124) - 1)

static u128 add_clamp(u128 a, u128 b) {
    return a > QTY_MAX - b ? QTY_MAX : a + b;
}
static u128 mul_clamp(u128 a, u128 b) {
    u128 r;
    return __builtin_mul_overflow(a, b, &r) || r > QTY_MAX ? QTY_MAX : r;
}

/* Product of two quantities in nano, exact but for a remainder below nano, which rounds away from zero. */
static struct sl_quantity quantity_mul(struct sl_quantity a, struct sl_quantity b) {
    bool negative = (a.nano < 0) != (b.nano < 0);
    u128 x = a.nano < 0 ? -(u128)a.nano : (u128)a.nano, y = b.nano < 0 ? -(u128)b.nano : (u128)b.nano;
    u128 low = (x % NANO) * (y % NANO);
    u128 r = mul_clamp(x / NANO, y);
    r = add_clamp(r, mul_clamp(x % NANO, y / NANO));
    r = add_clamp(r, low / NANO + (low % NANO != 0));
    return (struct sl_quantity){negative ? -(i128)r : (i128)r, a.format};
}

static const struct sl_transformation *transformation_of(const struct sl_config *rules, const char *input) {
    for (size_t i = 0; i < rules->n_transformations; i++)
        if (!strcmp(rules->transformations[i].input, input))
            return &rules->transformations[i];
    return NULL;
}

static bool excluded(const struct sl_strings *prefixes, const char *name) {
    for (size_t i = 0; i < prefixes->n; i++)
        if (!strncmp(name, prefixes->items[i], strlen(prefixes->items[i])))
            return true;
    return false;
}

/* Excluded resources out, transformations applied; in place. */
static void apply_rules(const struct sl_config *rules, struct amounts *pod) {
    size_t kept = 0;
    for (size_t i = 0; i < pod->n; i++)
        if (!excluded(&rules->exclude_resource_prefixes, pod->items[i].name))
            pod->items[kept++] = pod->items[i];
    pod->n = kept;
    if (!rules->n_transformations)
        return;
    AUTO_AMOUNTS generated = {0}, retained = {0};
    for (size_t i = 0; i < pod->n; i++) {
        const struct amount *a = &pod->items[i];
        const struct sl_transformation *t = transformation_of(rules, a->name);
        if (!t || !t->replace) {
            struct sl_quantity *q = amounts_slot(&retained, a->name);
            if (q)
                *q = a->q;
        }
        if (!t)
            continue;
        const struct sl_quantity *by = t->multiply_by ? amounts_get(pod, t->multiply_by) : NULL;
        struct sl_quantity base = by ? quantity_mul(a->q, *by) : a->q;
        for (size_t j = 0; j < t->n_outputs; j++) {
            struct sl_quantity *q = amounts_slot(&generated, t->outputs[j].resource);
            if (q)
                *q = sl_quantity_add(*q, quantity_mul(base, t->outputs[j].factor));
        }
    }
    for (size_t i = 0; i < generated.n; i++)
        if (generated.items[i].q.nano < 0)
            generated.items[i].q = zero;
    amounts_add(&retained, &generated);
    struct amounts old = *pod;
    *pod = retained;
    retained = old; /* released by its cleanup */
}

void sl_podspec_requests(const struct sl_json *pod_spec, const char *path, const struct sl_podspec_context *ctx,
                         struct sl_requests *ret, char **ret_rejected) {
    static const struct sl_podspec_context nothing;
    if (!ctx)
        ctx = &nothing;
    struct problems p;
    for (int i = 0; i < PROBLEM_KINDS; i++)
        p.text[i] = (struct sl_buf)SL_BUF_INIT(PROBLEM_TEXT_MAX * 4);
    AUTO_AMOUNTS pod = {0};
    pod_amounts(pod_spec, path ? path : "spec", ctx, &p, &pod);
    if (ctx->config)
        apply_rules(ctx->config, &pod);

    ret->n = pod.n;
    ret->items = pod.n ? sl_xalloc(pod.n * sizeof *ret->items) : NULL;
    for (size_t i = 0; i < pod.n; i++) {
        int64_t amount = sl_quantity_amount(&pod.items[i].q, pod.items[i].name);
        ret->items[i] = (struct sl_request_amount){sl_xstrdup(pod.items[i].name), amount < 0 ? 0 : amount};
    }
    static const char *const verdict[PROBLEM_KINDS] = {"requests cannot be read", "resources validation failed",
                                                       "resources didn't satisfy LimitRange constraints"};
    *ret_rejected = NULL;
    for (int i = 0; i < PROBLEM_KINDS; i++) {
        if (!*ret_rejected && p.text[i].len)
            *ret_rejected = sl_xprintf("%s: %s", verdict[i], sl_buf_text(&p.text[i]));
        sl_buf_done(&p.text[i]);
    }
}

static void shape_part(struct sl_buf *b, const char *name, const struct sl_json *part) {
    if (sl_json_is_null(part))
        return;
    sl_buf_puts(b, name);
    sl_json_dump(part, true, b);
    sl_buf_putc(b, '\n');
}

#define SHAPE_MAX ((size_t)4 << 20)

uint64_t sl_podspec_shape(const struct sl_json *pod_spec, const struct sl_json *topology_request) {
    static const char *const parts[] = {"nodeSelector",     "affinity",       "tolerations",
                                        "runtimeClassName", "priority",       "topologySpreadConstraints",
                                        "overhead",         "resourceClaims", "resources"};
    static const char *const lists[] = {"initContainers", "containers"};
    SL_AUTO_BUF b = SL_BUF_INIT(SHAPE_MAX);
    for (size_t i = 0; i < SL_COUNT(parts); i++)
        shape_part(&b, parts[i], sl_json_get(pod_spec, parts[i]));
    for (size_t i = 0; i < SL_COUNT(lists); i++)
        SL_JSON_ITEMS (sl_json_get(pod_spec, lists[i]), e) {
            const struct sl_json *resources = sl_json_get(e.value, "resources");
            sl_buf_puts(&b, i ? "container\n" : "init\n");
            shape_part(&b, "restart", i ? NULL : sl_json_get(e.value, "restartPolicy"));
            shape_part(&b, "requests", sl_json_get(resources, "requests"));
            shape_part(&b, "claims", sl_json_get(resources, "claims"));
            shape_part(&b, "ports", sl_json_get(e.value, "ports"));
        }
    shape_part(&b, "topology", topology_request);
    if (sl_buf_check(&b, NULL) < 0)
        return 0;
    uint64_t hash = sl_siphash(sl_buf_text(&b), b.len);
    return hash ? hash : 1;
}

void sl_workload_fill_podsets(struct sl_workload *w, const struct sl_json *workload_object,
                              const struct sl_podspec_context *ctx) {
    const struct sl_json *list = sl_json_path(workload_object, "spec.podSets");
    free(SL_TAKE(w->rejected));
    for (size_t i = 0; i < w->n_podsets; i++) {
        struct sl_podset *ps = &w->podsets[i];
        const struct sl_json *o = sl_json_at(list, i), *spec = sl_json_path(o, "template.spec");
        SL_AUTO_FREE char *path = sl_xprintf("spec.podSets[%zu].template.spec", i);
        char *rejected = NULL;
        sl_requests_done(&ps->per_pod);
        sl_podspec_requests(spec, path, ctx, &ps->per_pod, &rejected);
        ps->shape = sl_podspec_shape(spec, sl_json_get(o, "topologyRequest"));
        if (!w->rejected)
            w->rejected = SL_TAKE(rejected);
        free(rejected);
    }
}
