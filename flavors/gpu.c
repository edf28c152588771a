/*
 * Knowledge about GPU resources: the table of names, MIG profile names, what a pod template uses. A row is matched by
 * its text before and behind one '*'. Everything reads the tree as it is; quantities that cannot be read count as
 * absent, the API server refuses them.
 */
#include "sluice/flavors/gpu.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/api/quantity.h"
#include "sluice/base/mem.h"
#include "sluice/base/num.h"

struct rule {
    const char *match;
    struct sl_gpu_class class;
};
struct sl_gpu_rules {
    struct rule *items;
    char **texts; /* own the matches */
    size_t n;
};

static const struct rule table[] = {
#define SL_GPU_RESOURCE(match, mode, count) {match, {SL_GPU_##mode, SL_GPU_COUNT_##count}},
#include "sluice/defs/resources.def"
#undef SL_GPU_RESOURCE
};

static bool matches(const char *pattern, const char *name) {
    const char *star = strchr(pattern, '*');
    if (!star)
        return !strcmp(pattern, name);
    size_t before = (size_t)(star - pattern), behind = strlen(star + 1), n = strlen(name);
    return n >= before + behind && !strncmp(pattern, name, before) && !strcmp(star + 1, name + n - behind);
}

static const char *const mode_names[] = {"", "WHOLE", "SHARED", "MIG", "MEM", "CORE", "MON", "NIC"};
static const enum sl_gpu_count default_count[] = {SL_GPU_COUNT_NONE, SL_GPU_COUNT_QUANTITY, SL_GPU_COUNT_ONE,
                                                  SL_GPU_COUNT_ONE,  SL_GPU_COUNT_NONE,     SL_GPU_COUNT_NONE,
                                                  SL_GPU_COUNT_NONE, SL_GPU_COUNT_NONE};

static bool is_text(const char *p, size_t n, const char *text) {
    return strlen(text) == n && !strncmp(p, text, n);
}

static int rule_decode(const char *row, struct rule *ret, char **ret_match, struct sl_err *err) {
    size_t n = strcspn(row, "=");
    const char *star = memchr(row, '*', n);
    if (n == 0 || (star && memchr(star + 1, '*', n - (size_t)(star + 1 - row))))
        return sl_err_set(err, SL_INVALID, "\"%s\": must begin with a resource name that has at most one *", row);
    enum sl_gpu_mode mode = SL_GPU_WHOLE;
    enum sl_gpu_count count = SL_GPU_COUNT_QUANTITY;
    if (row[n]) {
        const char *p = row + n + 1;
        size_t m = strcspn(p, ":"), i = 1;
        while (i < SL_COUNT(mode_names) && !is_text(p, m, mode_names[i]))
            i++;
        if (i == SL_COUNT(mode_names))
            return sl_err_set(err, SL_INVALID, "\"%s\": the mode must be WHOLE, SHARED, MIG, MEM, CORE, MON or NIC",
                              row);
        mode = (enum sl_gpu_mode)i;
        count = default_count[i];
        if (p[m]) {
            const char *c = p + m + 1;
            if (!strcmp(c, "quantity"))
                count = SL_GPU_COUNT_QUANTITY;
            else if (!strcmp(c, "one"))
                count = SL_GPU_COUNT_ONE;
            else if (!strcmp(c, "none"))
                count = SL_GPU_COUNT_NONE;
            else
                return sl_err_set(err, SL_INVALID, "\"%s\": the count must be quantity, one or none", row);
        }
    }
    *ret_match = sl_xstrndup(row, n);
    *ret = (struct rule){*ret_match, {mode, count}};
    return 0;
}

#define MAX_RULES 256

int sl_gpu_rules_new(const char *const *rows, size_t n, struct sl_gpu_rules **ret, struct sl_err *err) {
    if (n > MAX_RULES)
        return sl_err_set(err, SL_INVALID, "must have at most %d rows", MAX_RULES);
    struct sl_gpu_rules *r = sl_xalloc(sizeof *r);
    r->items = sl_xalloc((n + 1) * sizeof *r->items);
    r->texts = sl_xalloc((n + 1) * sizeof *r->texts);
    for (; r->n < n; r->n++) {
        int code = rule_decode(rows[r->n], &r->items[r->n], &r->texts[r->n], err);
        if (code < 0) {
            sl_gpu_rules_free(r);
            return code;
        }
    }
    *ret = r;
    return 0;
}

void sl_gpu_rules_free(struct sl_gpu_rules *r) {
    if (!r)
        return;
    for (size_t i = 0; i < r->n; i++)
        free(r->texts[i]);
    free(r->texts);
    free(r->items);
    free(r);
}

struct sl_gpu_class sl_gpu_classify(const struct sl_gpu_rules *rules, const char *resource) {
    for (size_t i = 0; rules && i < rules->n; i++)
        if (matches(rules->items[i].match, resource))
            return rules->items[i].class;
    if (!strchr(resource, '/')) /* cpu, memory and the like: nearly every look-up */
        return (struct sl_gpu_class){SL_GPU_NONE, SL_GPU_COUNT_NONE};
    for (size_t i = 0; i < SL_COUNT(table); i++)
        if (matches(table[i].match, resource))
            return table[i].class;
    return (struct sl_gpu_class){SL_GPU_NONE, SL_GPU_COUNT_NONE};
}

bool sl_gpu_is_device(enum sl_gpu_mode mode) {
    switch (mode) {
    case SL_GPU_WHOLE:
    case SL_GPU_SHARED:
    case SL_GPU_MIG:
    case SL_GPU_MEM:
    case SL_GPU_CORE: return true;
    case SL_GPU_NONE:
    case SL_GPU_MON:
    case SL_GPU_NIC: break;
    }
    return false;
}

static bool small_number(const char **p, int *ret) {
    int v = 0, digits = 0;
    for (; **p >= '0' && **p <= '9'; (*p)++, digits++)
        if (v < 1000000)
            v = v * 10 + (**p - '0');
    *ret = v;
    return digits > 0 && v < 1000000;
}

bool sl_mig_parse(const char *resource, struct sl_mig_profile *ret) {
    static const char prefix[] = "nvidia.com/mig-";
    if (strncmp(resource, prefix, sizeof prefix - 1))
        return false;
    const char *p = resource + sizeof prefix - 1;
    struct sl_mig_profile m = {0, 0, false};
    if (!small_number(&p, &m.compute) || strncmp(p, "g.", 2))
        return false;
    p += 2;
    if (!small_number(&p, &m.memory_gb) || strncmp(p, "gb", 2))
        return false;
    p += 2;
    while (*p) { /* attributes: .word or -word */
        if (*p != '.' && *p != '-')
            return false;
        bool dot = *p++ == '.';
        const char *word = p;
        while ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9'))
            p++;
        if (p == word)
            return false;
        m.shared = dot && is_text(word, (size_t)(p - word), "shared");
    }
    *ret = m;
    return true;
}

/* ---- what a template uses ---- */

static const char *const lists[] = {"containers", "initContainers"};
static const char *const maps[] = {"limits", "requests"};

static int64_t amount(const struct sl_json *quantity, const char *resource) {
    struct sl_quantity q;
    return sl_quantity_from_json(quantity, &q, NULL) == 0 ? sl_quantity_amount(&q, resource) : 0;
}

/* The larger of limit and request; 0 when neither can be read. */
static int64_t container_amount(const struct sl_json *container, const char *resource) {
    const struct sl_json *resources = sl_json_get(container, "resources");
    int64_t limit = amount(sl_json_get(sl_json_get(resources, "limits"), resource), resource);
    int64_t request = amount(sl_json_get(sl_json_get(resources, "requests"), resource), resource);
    return limit > request ? limit : request;
}

/* Resources of a container, limits first, each once: calls for every one with a positive amount; stops when fn says so.
 */
typedef bool (*resource_fn)(void *payload, const char *resource, struct sl_gpu_class class, int64_t amount);
static void each_resource(const struct sl_gpu_rules *rules, const struct sl_json *container, resource_fn fn,
                          void *payload) {
    const struct sl_json *resources = sl_json_get(container, "resources");
    for (size_t i = 0; i < SL_COUNT(maps); i++)
        SL_JSON_EACH (sl_json_get(resources, maps[i]), e) {
            if (i == 1 && sl_json_get(sl_json_get(resources, maps[0]), e.key))
                continue;
            struct sl_gpu_class class = sl_gpu_classify(rules, e.key);
            if (class.mode == SL_GPU_NONE)
                continue;
            int64_t n = container_amount(container, e.key);
            if (n > 0 && !fn(payload, e.key, class, n))
                return;
        }
}

struct use {
    bool gpu;
    int64_t devices;
};

static bool add_use(void *payload, const char *resource, struct sl_gpu_class class, int64_t n) {
    struct use *u = payload;
    (void)resource;
    if (!sl_gpu_is_device(class.mode))
        return true;
    u->gpu = true;
    switch (class.count) {
    case SL_GPU_COUNT_QUANTITY: u->devices = sl_sat_add(u->devices, n); break;
    case SL_GPU_COUNT_ONE: u->devices = sl_sat_add(u->devices, 1); break;
    case SL_GPU_COUNT_NONE: break;
    }
    return true;
}

bool sl_gpu_container(const struct sl_gpu_rules *rules, const struct sl_json *container) {
    struct use u = {false, 0};
    each_resource(rules, container, add_use, &u);
    return u.gpu;
}

static const char *template_annotation(const struct sl_json *pod_template, const char *key) {
    return sl_json_str(sl_json_get(sl_json_get(sl_json_get(pod_template, "metadata"), "annotations"), key), NULL);
}

static bool valid_fraction(const char *text) {
    struct sl_quantity q;
    size_t n = text ? strlen(text) : 0;
    return n && strspn(text, "0123456789.") == n && sl_quantity_parse(text, &q, NULL) == 0 && q.nano > 0 &&
           q.nano < 1000000000;
}

static bool positive_integer(const char *text) {
    int64_t v;
    return text && sl_parse_i64(text, strlen(text), &v, NULL) == 0 && v > 0;
}

struct sl_gpu_use sl_gpu_scan(const struct sl_gpu_rules *rules, const struct sl_json *pod_template) {
    struct sl_gpu_use ret = {false, false, 0};
    const struct sl_json *spec = sl_json_get(pod_template, "spec");
    for (size_t i = 0; i < SL_COUNT(lists); i++)
        SL_JSON_ITEMS (sl_json_get(spec, lists[i]), e) {
            struct use u = {false, 0};
            each_resource(rules, e.value, add_use, &u);
            ret.gpu |= u.gpu;
            if (u.devices > ret.devices)
                ret.devices = u.devices;
        }
    ret.fractional = valid_fraction(template_annotation(pod_template, "gpu-fraction")) ||
                     positive_integer(template_annotation(pod_template, "gpu-memory"));
    ret.gpu |= ret.fractional;
    if (ret.gpu && ret.devices < 1)
        ret.devices = 1;
    return ret;
}

struct names {
    const char **items;
    size_t n, max;
};

static bool add_name(void *payload, const char *resource, struct sl_gpu_class class, int64_t n) {
    struct names *names = payload;
    (void)n;
    if (!sl_gpu_is_device(class.mode))
        return true;
    for (size_t i = 0; i < names->n; i++)
        if (!strcmp(names->items[i], resource))
            return true;
    if (names->n == names->max)
        return false;
    names->items[names->n++] = resource;
    return true;
}

size_t sl_gpu_resources(const struct sl_gpu_rules *rules, const struct sl_json *pod_template, const char **names,
                        size_t max) {
    struct names found = {names, 0, max};
    const struct sl_json *spec = sl_json_get(pod_template, "spec");
    for (size_t i = 0; i < SL_COUNT(lists); i++)
        SL_JSON_ITEMS (sl_json_get(spec, lists[i]), e)
            each_resource(rules, e.value, add_name, &found);
    return found.n;
}

enum sl_sharing sl_gpu_flavor_sharing(const struct sl_labels *node_labels, const struct sl_labels *annotations) {
    static const char *const keys[] = {"nvidia.com/gpu.sharing-strategy", "cloud.google.com/gke-gpu-sharing-strategy"};
    for (size_t i = 0; i <= SL_COUNT(keys); i++) {
        const char *v = i < SL_COUNT(keys)    ? (node_labels ? sl_labels_get(node_labels, keys[i]) : NULL)
                        : annotations != NULL ? sl_labels_get(annotations, "sluice.dev/sharing-strategy")
                                              : NULL;
        if (!v)
            continue;
        if (!strcmp(v, "mps"))
            return SL_SHARING_MPS;
        if (!strcmp(v, "time-slicing") || !strcmp(v, "time-sharing"))
            return SL_SHARING_TIME_SLICING;
    }
    const char *product = node_labels ? sl_labels_get(node_labels, "nvidia.com/gpu.product") : NULL;
    size_t n = product ? strlen(product) : 0;
    return n > 7 && !strcmp(product + n - 7, "-SHARED") ? SL_SHARING_TIME_SLICING : SL_SHARING_NONE;
}
