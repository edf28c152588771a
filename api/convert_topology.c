/*
 * Topology assignments: v1beta1 lists domains one by one ({values, count}); v1beta2 has slices of domains with what
 * they share taken out (a universal value, a common prefix and suffix). One slice holds up to SLICE_MAX domains.
 */
#include <stdlib.h>
#include <string.h>

#include "convert_kinds.h"
#include "sluice/base/mem.h"

#define SLICE_MAX   100000 /* bound of the schema on the roots of a slice */
#define DOMAINS_MAX 200000 /* more than any cluster has nodes; a slice may claim 2^31 domains in a few bytes */
#define LEVELS_MAX  16

static bool is_ascii(const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text >= 0x80)
            return false;
    return true;
}

static struct sl_json *slice_level(const struct sl_json *domains, size_t first, size_t n, size_t level) {
    const char *a = sl_json_str(sl_json_at(sl_json_get(sl_json_at(domains, first), "values"), level), "");
    size_t prefix = strlen(a), suffix = prefix, shortest = prefix;
    bool same = true, ascii = is_ascii(a);
    for (size_t i = 1; i < n; i++) {
        const char *b = sl_json_str(sl_json_at(sl_json_get(sl_json_at(domains, first + i), "values"), level), "");
        size_t len = strlen(b), len_a = strlen(a), k = 0;
        same = same && !strcmp(a, b);
        ascii = ascii && is_ascii(b);
        shortest = len < shortest ? len : shortest;
        while (k < prefix && a[k] == b[k])
            k++;
        prefix = k;
        for (k = 0; k < suffix && k < len && a[len_a - 1 - k] == b[len - 1 - k];)
            k++;
        suffix = k;
    }
    struct sl_json *o = sl_json_new_object();
    if (same) {
        sl_json_set_str(o, "universal", a);
        return o;
    }
    if (!ascii) /* a cut could fall inside a character */
        prefix = suffix = 0;
    prefix = prefix < 63 ? prefix : 63;
    suffix = suffix < 63 ? suffix : 63;
    if (prefix + suffix > shortest)
        suffix = shortest - prefix;
    struct sl_json *individual = sl_json_make_object(o, "individual");
    size_t len_a = strlen(a);
    if (prefix)
        sl_json_set(individual, "prefix", sl_json_new_strn(a, prefix));
    if (suffix)
        sl_json_set(individual, "suffix", sl_json_new_strn(a + len_a - suffix, suffix));
    struct sl_json *roots = sl_json_make_array(individual, "roots");
    for (size_t i = 0; i < n; i++) {
        const char *b = sl_json_str(sl_json_at(sl_json_get(sl_json_at(domains, first + i), "values"), level), "");
        sl_json_append(roots, sl_json_new_strn(b + prefix, strlen(b) - prefix - suffix));
    }
    return o;
}

static struct sl_json *slice_counts(const struct sl_json *domains, size_t first, size_t n) {
    int64_t count = sl_json_get_int(sl_json_at(domains, first), "count", 0);
    bool same = true;
    for (size_t i = 1; i < n; i++)
        same = same && sl_json_get_int(sl_json_at(domains, first + i), "count", 0) == count;
    struct sl_json *o = sl_json_new_object();
    if (same) {
        sl_json_set_int(o, "universal", count);
        return o;
    }
    struct sl_json *list = sl_json_make_array(o, "individual");
    for (size_t i = 0; i < n; i++)
        sl_json_append(list, sl_json_new_int(sl_json_get_int(sl_json_at(domains, first + i), "count", 0)));
    return o;
}

int sl_topology_to_slices(struct sl_json *assignment, struct sl_err *err) {
    const struct sl_json *levels = sl_json_get(assignment, "levels"), *domains = sl_json_get(assignment, "domains");
    size_t n = sl_json_is_array(domains) ? sl_json_len(domains) : 0,
           n_levels = sl_json_is_array(levels) ? sl_json_len(levels) : 0;
    if (n > DOMAINS_MAX)
        return sl_err_set(err, SL_INVALID, "domains: %zu are more than %d", n, DOMAINS_MAX);
    if (n_levels > LEVELS_MAX)
        return sl_err_set(err, SL_INVALID, "levels: %zu are more than %d", n_levels, LEVELS_MAX);
    for (size_t i = 0; i < n; i++) {
        const struct sl_json *values = sl_json_get(sl_json_at(domains, i), "values");
        if (!sl_json_is_array(values) || sl_json_len(values) != n_levels)
            return sl_err_set(err, SL_INVALID, "domains[%zu].values: must have as many items as there are levels", i);
        SL_JSON_ITEMS (values, v)
            if (sl_json_type(v.value) != SL_JSON_STRING)
                return sl_err_set(err, SL_INVALID, "domains[%zu].values[%zu]: must be a string", i, v.i);
    }
    struct sl_json *slices = sl_json_new_array();
    for (size_t first = 0; first < n; first += SLICE_MAX) {
        size_t size = n - first < SLICE_MAX ? n - first : SLICE_MAX;
        struct sl_json *slice = sl_json_new_object();
        sl_json_set_int(slice, "domainCount", (int64_t)size);
        struct sl_json *per_level = sl_json_make_array(slice, "valuesPerLevel");
        for (size_t level = 0; level < n_levels; level++)
            sl_json_append(per_level, slice_level(domains, first, size, level));
        sl_json_set(slice, "podCounts", slice_counts(domains, first, size));
        sl_json_append(slices, slice);
    }
    sl_json_del(assignment, "domains");
    sl_json_set(assignment, "slices", slices);
    return 0;
}

/* Whether the slice adds up: lists as long as it has domains, exactly one form everywhere. */
static bool slice_is_sound(const struct sl_json *slice, size_t n_levels) {
    int64_t n = sl_json_get_int(slice, "domainCount", -1);
    const struct sl_json *levels = sl_json_get(slice, "valuesPerLevel"), *counts = sl_json_get(slice, "podCounts");
    if (n < 1 || !sl_json_is_array(levels) || sl_json_len(levels) != n_levels)
        return false;
    SL_JSON_ITEMS (levels, e) {
        const struct sl_json *roots = sl_json_path(e.value, "individual.roots");
        bool universal = sl_json_type(sl_json_get(e.value, "universal")) == SL_JSON_STRING;
        if (universal == sl_json_is_array(roots) || (!universal && (int64_t)sl_json_len(roots) != n))
            return false;
    }
    const struct sl_json *list = sl_json_get(counts, "individual");
    bool universal = sl_json_type(sl_json_get(counts, "universal")) == SL_JSON_INT;
    return universal != sl_json_is_array(list) && (universal || (int64_t)sl_json_len(list) == n);
}

static struct sl_json *domain_value(const struct sl_json *level, size_t i) {
    const struct sl_json *universal = sl_json_get(level, "universal"), *individual = sl_json_get(level, "individual");
    if (!sl_json_is_null(universal))
        return sl_json_ref(universal);
    return sl_json_new_strf("%s%s%s", sl_json_get_str(individual, "prefix", ""),
                            sl_json_str(sl_json_at(sl_json_get(individual, "roots"), i), ""),
                            sl_json_get_str(individual, "suffix", ""));
}

int sl_topology_to_domains(struct sl_json *assignment, struct sl_err *err) {
    const struct sl_json *slices = sl_json_get(assignment, "slices");
    size_t n_levels =
        sl_json_is_array(sl_json_get(assignment, "levels")) ? sl_json_len(sl_json_get(assignment, "levels")) : 0;
    int64_t total = 0;
    if (sl_json_is_array(slices))
        SL_JSON_ITEMS (slices, e) {
            if (!slice_is_sound(e.value, n_levels))
                return sl_err_set(err, SL_INVALID, "slices[%zu]: lengths do not fit", e.i);
            total += sl_json_get_int(e.value, "domainCount", 0);
            if (total > DOMAINS_MAX || (n_levels && total > (1 << 20) / (int64_t)n_levels))
                return sl_err_set(err, SL_INVALID, "slices: more than %d domains", DOMAINS_MAX);
        }
    struct sl_json *domains = sl_json_new_array();
    if (sl_json_is_array(slices))
        SL_JSON_ITEMS (slices, e) {
            const struct sl_json *levels = sl_json_get(e.value, "valuesPerLevel"),
                                 *counts = sl_json_get(e.value, "podCounts");
            size_t n = (size_t)sl_json_get_int(e.value, "domainCount", 0);
            for (size_t i = 0; i < n; i++) {
                struct sl_json *domain = sl_json_new_object(), *values = sl_json_make_array(domain, "values");
                SL_JSON_ITEMS (levels, level)
                    sl_json_append(values, domain_value(level.value, i));
                const struct sl_json *universal = sl_json_get(counts, "universal");
                sl_json_set(domain, "count",
                            sl_json_ref(!sl_json_is_null(universal)
                                            ? universal
                                            : sl_json_at(sl_json_get(counts, "individual"), i)));
                sl_json_append(domains, domain);
            }
        }
    sl_json_del(assignment, "slices");
    sl_json_set(assignment, "domains", domains);
    return 0;
}
