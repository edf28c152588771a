/*
 * The configuration file. Plain fields are rows of defs/config.def, read, bounded and defaulted by one walk; what has a
 * shape of its own is read by the functions below. Every fault is collected with its path; nothing is taken over from a
 * file with faults.
 */
#include "sluice/api/config.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/api/decode.h"
#include "sluice/api/fields.h"
#include "sluice/base/clock.h"
#include "sluice/base/map.h"
#include "sluice/base/mem.h"
#include "sluice/base/num.h"
#include "sluice/base/yaml.h"

#define MAX_CONFIG_BYTES (1 << 20)

enum versions { BOTH, V1, V2 };
enum type { BOOL, INT, REAL, DURATION, TEXT, TEXTS, BYTES, ANY, ANY_TEXT, ANY_INT, ANY_LIST, ANY_OBJECT };
struct row {
    const char *path;
    enum versions versions;
    enum type type;
    size_t at;
    int64_t low, high;
    const char *dflt, *help;
    bool unused;
};
static const struct row rows[] = {
#define SL_CONFIG(path, versions, type, member, low, high, dflt, help)                                                 \
    {path, versions, type, offsetof(struct sl_config, member), low, high, dflt, help, false},
#define SL_CONFIG_UNUSED(path, versions, type, why) {path, versions, type, 0, 0, 0, "", why, true},
#include "sluice/defs/config.def"
#undef SL_CONFIG
#undef SL_CONFIG_UNUSED
};

static const char *const known_frameworks[] = {"batch/job",
                                               "pod",
                                               "deployment",
                                               "statefulset",
                                               "leaderworkerset.x-k8s.io/leaderworkerset",
                                               "jobset.x-k8s.io/jobset",
                                               "kubeflow.org/mpijob",
                                               "kubeflow.org/tfjob",
                                               "kubeflow.org/pytorchjob",
                                               "kubeflow.org/xgboostjob",
                                               "kubeflow.org/paddlejob",
                                               "kubeflow.org/jaxjob",
                                               "trainer.kubeflow.org/trainjob",
                                               "ray.io/rayjob",
                                               "ray.io/raycluster",
                                               "ray.io/rayservice",
                                               "workload.codeflare.dev/appwrapper",
                                               "sparkoperator.k8s.io/sparkapplication"};

static void *field(struct sl_config *c, const struct row *row) {
    return (char *)c + row->at;
}

static void strings_free(struct sl_strings *s) {
    for (size_t i = 0; i < s->n; i++)
        free(s->items[i]);
    free(s->items);
    *s = (struct sl_strings){NULL, 0};
}

static void strings_add(struct sl_strings *s, const char *text) {
    s->items = sl_xrealloc(s->items, s->n + 1, sizeof *s->items);
    s->items[s->n++] = sl_xstrdup(text);
}

static void text_set(char **at, const char *text) {
    free(*at);
    *at = sl_xstrdup(text);
}

static bool bytes_parse(const struct sl_json *j, int64_t *ret) {
    struct sl_quantity q;
    if (sl_quantity_from_json(j, &q, NULL) < 0)
        return false;
    *ret = sl_quantity_amount(&q, "memory");
    return true;
}

void sl_config_init(struct sl_config *c) {
    *c = (struct sl_config){
        .retain_finished_ms = -1, .retain_deactivated_ms = -1, .pods_ready = {.enabled = true, .backoff_limit = -1}};
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        const struct row *row = &rows[i];
        void *at = field(c, row);
        SL_AUTO_JSON *text = sl_json_new_str(row->dflt);
        int64_t n = 0;
        switch (row->type) {
        case TEXT: text_set(at, row->dflt); break;
        case BOOL:
            if (*row->dflt)
                *(bool *)at = !strcmp(row->dflt, "true");
            break;
        case INT:
            if (*row->dflt)
                SL_ASSERT(sl_parse_int(row->dflt, at));
            break;
        case REAL:
            SL_ASSERT(sl_parse_int(row->dflt, &n));
            *(double *)at = (double)n;
            break;
        case DURATION:
            if (*row->dflt)
                SL_ASSERT(sl_duration_parse(row->dflt, at));
            break;
        case BYTES: SL_ASSERT(bytes_parse(text, at)); break;
        case TEXTS:
            if (*row->dflt)
                strings_add(at, row->dflt);
            break;
        case ANY:
        case ANY_TEXT:
        case ANY_INT:
        case ANY_LIST:
        case ANY_OBJECT: break;
        }
    }
    c->pods_ready.recovery_timeout_ms = c->pods_ready.timeout_ms;
}

void sl_config_done(struct sl_config *c) {
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        if (rows[i].type == TEXT)
            free(*(char **)field(c, &rows[i]));
        if (rows[i].type == TEXTS)
            strings_free(field(c, &rows[i]));
    }
    strings_free(&c->unused);
    sl_selector_done(&c->managed_namespaces);
    for (size_t i = 0; i < c->n_transformations; i++) {
        struct sl_transformation *t = &c->transformations[i];
        free(t->input);
        free(t->multiply_by);
        for (size_t k = 0; k < t->n_outputs; k++)
            free(t->outputs[k].resource);
        free(t->outputs);
    }
    free(c->transformations);
    for (size_t i = 0; i < c->n_gates; i++)
        free(c->gates[i].name);
    free(c->gates);
    *c = (struct sl_config){0};
}

/* ---- the plain rows ---- */

static void read_texts(struct sl_strings *ret, const struct row *row, const struct sl_json *j,
                       const struct sl_path *path, struct sl_fielderrs *l) {
    if (!sl_json_is_array(j)) {
        sl_fielderr_add(l, SL_FE_INVALID, path, NULL, "must be a list");
        return;
    }
    if ((int64_t)sl_json_len(j) > row->high) {
        sl_fielderr_add(l, SL_FE_TOO_MANY, path, NULL, "%zu: must have at most %lld items", sl_json_len(j),
                        (long long)row->high);
        return;
    }
    strings_free(ret);
    ret->items = sl_xalloc((sl_json_len(j) + 1) * sizeof *ret->items);
    SL_JSON_ITEMS (j, e) {
        const char *text = sl_json_str(e.value, "");
        if (!*text) {
            sl_fielderr_add(l, SL_FE_INVALID, SL_PATH_AT(path, e.i), e.value, "must be a string that is not empty");
            continue;
        }
        for (size_t i = 0; i < ret->n; i++)
            if (!strcmp(ret->items[i], text)) {
                sl_fielderr_add(l, SL_FE_DUPLICATE, SL_PATH_AT(path, e.i), e.value, NULL);
                break;
            }
        ret->items[ret->n++] = sl_xstrdup(text);
    }
}

static void must_be(const struct sl_json *j, enum sl_json_type type, const char *what, const struct sl_path *path,
                    struct sl_fielderrs *l) {
    if (sl_json_type(j) != type)
        sl_fielderr_add(l, SL_FE_INVALID, path, j, "must be %s", what);
}

/* A wrong value leaves the default in place, so that one fault does not make others. */
static void read_row(struct sl_config *c, const struct row *row, const struct sl_json *j, const struct sl_path *path,
                     struct sl_fielderrs *l) {
    void *at = field(c, row);
    int64_t n = 0;
    switch (row->type) {
    case ANY: return;
    case ANY_TEXT: must_be(j, SL_JSON_STRING, "a string", path, l); return;
    case ANY_INT: must_be(j, SL_JSON_INT, "an integer", path, l); return;
    case ANY_LIST: must_be(j, SL_JSON_ARRAY, "a list", path, l); return;
    case ANY_OBJECT: must_be(j, SL_JSON_OBJECT, "an object", path, l); return;
    case BOOL:
        must_be(j, SL_JSON_BOOL, "true or false", path, l);
        *(bool *)at = sl_json_bool(j, *(bool *)at);
        return;
    case INT:
        n = sl_json_int(j, 0);
        if (sl_json_type(j) != SL_JSON_INT)
            sl_fielderr_add(l, SL_FE_INVALID, path, j, "must be an integer");
        else if (n < row->low || n > row->high)
            sl_fielderr_add(l, SL_FE_INVALID, path, j, "must be between %lld and %lld", (long long)row->low,
                            (long long)row->high);
        else
            *(int64_t *)at = n;
        return;
    case REAL: {
        double v = sl_json_real(j, -1);
        if (sl_json_type(j) != SL_JSON_INT && sl_json_type(j) != SL_JSON_REAL)
            sl_fielderr_add(l, SL_FE_INVALID, path, j, "must be a number");
        else if (!(v >= (double)row->low && v <= (double)row->high))
            sl_fielderr_add(l, SL_FE_INVALID, path, j, "must be between %lld and %lld", (long long)row->low,
                            (long long)row->high);
        else
            *(double *)at = v;
        return;
    }
    case DURATION:
        if (sl_json_type(j) != SL_JSON_STRING || !sl_duration_parse(sl_json_str(j, ""), &n))
            sl_fielderr_add(l, SL_FE_INVALID, path, j, "must be a duration such as 30s, 5m or 1h30m");
        else if (n < row->low)
            sl_fielderr_add(l, SL_FE_INVALID, path, j, row->low > 0 ? "must be positive" : "must not be negative");
        else
            *(int64_t *)at = n;
        return;
    case BYTES:
        if (!bytes_parse(j, &n))
            sl_fielderr_add(l, SL_FE_INVALID, path, j, "must be a quantity such as 64Gi");
        else if (n < row->low || n > row->high)
            sl_fielderr_add(l, SL_FE_INVALID, path, j, "must be between %lld and %lld", (long long)row->low,
                            (long long)row->high);
        else
            *(int64_t *)at = n;
        return;
    case TEXT:
        if (sl_json_type(j) != SL_JSON_STRING)
            sl_fielderr_add(l, SL_FE_INVALID, path, j, "must be a string");
        else if ((int64_t)sl_json_str_len(j) < row->low || (int64_t)sl_json_str_len(j) > row->high)
            sl_fielderr_add(l, SL_FE_INVALID, path, j, "must have between %lld and %lld bytes", (long long)row->low,
                            (long long)row->high);
        else
            text_set(at, sl_json_str(j, ""));
        return;
    case TEXTS: read_texts(at, row, j, path, l); return;
    }
}

/* A row with this path, or whether the path is a section above rows. */
static const struct row *row_of(const char *path, bool v1, bool *ret_section) {
    size_t n = strlen(path);
    *ret_section = false;
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        if (rows[i].versions == (v1 ? V2 : V1))
            continue;
        if (!strcmp(rows[i].path, path))
            return &rows[i];
        if (!strncmp(rows[i].path, path, n) && rows[i].path[n] == '.')
            *ret_section = true;
    }
    return NULL;
}

static void read_section(struct sl_config *c, const struct sl_json *section, const struct sl_path *path,
                         const char *dotted, bool v1, struct sl_fielderrs *l) {
    SL_JSON_EACH (section, e) {
        const struct sl_path *at = SL_PATH(path, e.key);
        if (!path && (!strcmp(e.key, "apiVersion") || !strcmp(e.key, "kind")))
            continue;
        SL_AUTO_FREE char *whole = *dotted ? sl_xprintf("%s.%s", dotted, e.key) : sl_xstrdup(e.key);
        bool is_section;
        const struct row *row = strchr(e.key, '.') ? NULL : row_of(whole, v1, &is_section);
        if (strchr(e.key, '.') || (!row && !is_section)) {
            sl_fielderr_add(l, SL_FE_UNKNOWN, at, NULL, NULL);
        } else if (sl_json_is_null(e.value)) {
            continue;
        } else if (row) {
            read_row(c, row, e.value, at, l);
            if (row->unused)
                strings_add(&c->unused, whole);
        } else if (!sl_json_is_object(e.value)) {
            sl_fielderr_add(l, SL_FE_INVALID, at, e.value, "must be an object");
        } else {
            read_section(c, e.value, at, whole, v1, l);
        }
    }
}

/* ---- what has a shape of its own ---- */

static void only_members(const struct sl_json *o, const char *const *names, const struct sl_path *path,
                         struct sl_fielderrs *l) {
    SL_JSON_EACH (o, e) {
        size_t i = 0;
        while (names[i] && strcmp(names[i], e.key) != 0)
            i++;
        if (!names[i])
            sl_fielderr_add(l, SL_FE_UNKNOWN, SL_PATH(path, e.key), NULL, NULL);
    }
}

static int choice(const struct sl_json *j, const char *const *names, const struct sl_path *path,
                  struct sl_fielderrs *l) {
    const char *text = sl_json_str(j, NULL);
    if (sl_json_is_null(j))
        return -1;
    for (int i = 0; text && names[i]; i++)
        if (!strcmp(text, names[i]))
            return i;
    if (text)
        sl_fielderr_unsupported(l, false, path, text, names);
    else
        sl_fielderr_add(l, SL_FE_INVALID, path, NULL, "must be a string");
    return -1;
}

static bool selects(const struct sl_selector *s, const char *namespace) {
    struct sl_label label = {NULL, NULL};
    label.key = sl_xstrdup("kubernetes.io/metadata.name");
    label.value = sl_xstrdup(namespace);
    struct sl_labels labels = {&label, 1};
    bool yes = sl_selector_matches(s, &labels);
    free(label.key);
    free(label.value);
    return yes;
}

static const struct sl_field requirement_fields[] = {
    {"key", SL_F_STRING, SL_F_REQUIRED, NULL, NULL},
    {"operator", SL_F_STRING, SL_F_REQUIRED, NULL, NULL},
    {"values", SL_F_STRINGS, 0, NULL, NULL},
    {NULL, SL_F_ANY, 0, NULL, NULL},
};
static const struct sl_field selector_fields[] = {
    {"matchLabels", SL_F_STRING_MAP, 0, NULL, NULL},
    {"matchExpressions", SL_F_OBJECTS, 0, requirement_fields, NULL},
    {NULL, SL_F_ANY, 0, NULL, NULL},
};
static const struct sl_field transformation_fields[] = {
    {"input", SL_F_STRING, SL_F_REQUIRED, NULL, NULL},
    {"strategy", SL_F_STRING, 0, NULL, "Retain|Replace"},
    {"multiplyBy", SL_F_STRING, 0, NULL, NULL},
    {"outputs", SL_F_ANY, 0, NULL, NULL},
    {NULL, SL_F_ANY, 0, NULL, NULL},
};

static void read_selector(struct sl_config *c, const struct sl_json *document, struct sl_fielderrs *l) {
    const struct sl_json *j = sl_json_get(document, "managedJobsNamespaceSelector");
    const struct sl_path *path = SL_PATH(NULL, "managedJobsNamespaceSelector");
    if (sl_json_is_null(j))
        return;
    if (!sl_json_is_object(j)) {
        sl_fielderr_add(l, SL_FE_INVALID, path, j, "must be a label selector");
        return;
    }
    size_t before = l->n;
    sl_fields_check(selector_fields, j, path, SL_FIELDS_UNKNOWN, l);
    if (l->n != before)
        return;
    sl_check_selector(l, path, j);
    struct sl_err err = SL_ERR_INIT;
    if (sl_selector_decode(j, &c->managed_namespaces, &err) < 0) {
        if (l->n == before)
            sl_fielderr_add(l, SL_FE_INVALID, path, NULL, "%s", err.text);
        return;
    }
    c->has_managed_namespaces = true;
    if (selects(&c->managed_namespaces, "kube-system"))
        sl_fielderr_add(l, SL_FE_INVALID, path, NULL, "must not select kube-system");
    /* The manager's own namespace is never managed, whatever is selected: a configuration written for another
     * installation namespace must not keep the manager from starting. */
}

static void read_pods_ready(struct sl_config *c, const struct sl_json *document, bool v1, struct sl_fielderrs *l) {
    static const char *const timestamps[] = {"Eviction", "Creation", NULL};
    const struct sl_json *section = sl_json_get(document, "waitForPodsReady");
    const struct sl_path *strategy = SL_PATH(SL_PATH(NULL, "waitForPodsReady"), "requeuingStrategy");
    if (v1) {
        /* The older format: off unless enabled, and stricter when it is. */
        c->pods_ready.enabled = sl_json_get_bool(section, "enable", false);
        if (sl_json_is_null(sl_json_get(section, "blockAdmission")))
            c->pods_ready.block_admission = c->pods_ready.enabled;
        if (sl_json_is_null(sl_json_get(section, "timeout")))
            c->pods_ready.timeout_ms = 5 * 60 * 1000;
        if (sl_json_is_null(sl_json_get(section, "recoveryTimeout")))
            c->pods_ready.recovery_timeout_ms = 0;
    } else {
        if (c->pods_ready.timeout_ms == 0)
            c->pods_ready.timeout_ms = 30 * 60 * 1000;
        if (sl_json_is_null(sl_json_get(section, "recoveryTimeout")))
            c->pods_ready.recovery_timeout_ms = c->pods_ready.timeout_ms;
    }
    c->pods_ready.timestamp_creation = choice(sl_json_path(section, "requeuingStrategy.timestamp"), timestamps,
                                              SL_PATH(strategy, "timestamp"), l) == 1;
    if (c->pods_ready.backoff_base_s > c->pods_ready.backoff_max_s)
        sl_fielderr_int(l, SL_FE_INVALID, SL_PATH(strategy, "backoffBaseSeconds"), c->pods_ready.backoff_base_s,
                        "must not be greater than backoffMaxSeconds (%lld)", (long long)c->pods_ready.backoff_max_s);
}

static void read_transformation(struct sl_transformation *t, const struct sl_json *j, const struct sl_path *at,
                                struct sl_fielderrs *l) {
    must_be(j, SL_JSON_OBJECT, "an object", at, l);
    sl_fields_check(transformation_fields, j, at, SL_FIELDS_UNKNOWN, l);
    t->input = sl_xstrdup(sl_json_get_str(j, "input", ""));
    t->replace = !strcmp(sl_json_get_str(j, "strategy", ""), "Replace");
    t->multiply_by = sl_xstrdup(sl_json_get_str(j, "multiplyBy", NULL));
    const struct sl_json *outputs = sl_json_get(j, "outputs");
    if (!sl_json_is_null(outputs) && !sl_json_is_object(outputs))
        sl_fielderr_add(l, SL_FE_INVALID, SL_PATH(at, "outputs"), NULL, "must be a map of quantities");
    t->outputs = sl_xalloc((sl_json_is_object(outputs) ? sl_json_len(outputs) + 1 : 1) * sizeof *t->outputs);
    SL_JSON_EACH (outputs, e) {
        struct sl_transformation_output *o = &t->outputs[t->n_outputs++];
        o->resource = sl_xstrdup(e.key);
        if (sl_quantity_from_json(e.value, &o->factor, NULL) < 0)
            sl_fielderr_add(l, SL_FE_INVALID, SL_PATH_KEY(SL_PATH(at, "outputs"), e.key), NULL, "must be a quantity");
    }
}

static void read_resources(struct sl_config *c, const struct sl_json *document, struct sl_fielderrs *l) {
    static const char *const strategies[] = {"BlockUndeclared", "IgnoreUndeclared", NULL};
    const struct sl_json *section = sl_json_get(document, "resources"), *list = sl_json_get(section, "transformations");
    const struct sl_path *path = SL_PATH(NULL, "resources");
    c->ignore_undeclared =
        choice(sl_json_get(section, "quotaCheckStrategy"), strategies, SL_PATH(path, "quotaCheckStrategy"), l) == 1;
    if (c->ignore_undeclared && c->exclude_resource_prefixes.n)
        sl_fielderr_add(l, SL_FE_INVALID, SL_PATH(path, "excludeResourcePrefixes"), NULL,
                        "cannot be used with quotaCheckStrategy IgnoreUndeclared");
    if (sl_json_is_null(list))
        return;
    const struct sl_path *list_path = SL_PATH(path, "transformations");
    if (!sl_json_is_array(list) || sl_json_len(list) > 64) {
        sl_fielderr_add(l, SL_FE_INVALID, list_path, NULL, "must be a list of at most 64 transformations");
        return;
    }
    c->transformations = sl_xalloc((sl_json_len(list) + 1) * sizeof *c->transformations);
    SL_JSON_ITEMS (list, e) {
        const struct sl_path *at = SL_PATH_AT(list_path, e.i);
        struct sl_transformation *t = &c->transformations[c->n_transformations++];
        read_transformation(t, e.value, at, l);
        for (size_t i = 0; i + 1 < c->n_transformations; i++)
            if (*t->input && !strcmp(c->transformations[i].input, t->input))
                sl_fielderr_str(l, SL_FE_DUPLICATE, SL_PATH(at, "input"), t->input, NULL);
    }
}

static void read_fair_sharing(struct sl_config *c, const struct sl_json *document, bool v1, struct sl_fielderrs *l) {
    static const char *const members1[] = {"enable", "preemptionStrategies", NULL}, *const members2[] = {
                                                                                        "preemptionStrategies", NULL};
    static const char *const names[] = {"LessThanOrEqualToFinalShare", "LessThanInitialShare", NULL};
    const struct sl_json *section = sl_json_get(document, "fairSharing"),
                         *list = sl_json_get(section, "preemptionStrategies");
    const struct sl_path *path = SL_PATH(NULL, "fairSharing"), *list_path = SL_PATH(path, "preemptionStrategies");
    if (sl_json_is_null(section))
        return;
    if (!sl_json_is_object(section)) {
        sl_fielderr_add(l, SL_FE_INVALID, path, section, "must be an object");
        return;
    }
    only_members(section, v1 ? members1 : members2, path, l);
    const struct sl_json *enable = sl_json_get(section, "enable");
    if (v1 && !sl_json_is_null(enable) && sl_json_type(enable) != SL_JSON_BOOL)
        sl_fielderr_add(l, SL_FE_INVALID, SL_PATH(path, "enable"), enable, "must be true or false");
    c->fair_sharing = v1 ? sl_json_bool(enable, false) : true;
    if (!sl_json_is_null(list) && !sl_json_is_array(list)) {
        sl_fielderr_add(l, SL_FE_INVALID, list_path, list, "must be a list");
        return;
    }
    if (v1 && !sl_json_len(list)) {
        c->fair_final_share = c->fair_initial_share = true;
        return;
    }
    if (!sl_json_len(list)) {
        sl_fielderr_add(l, SL_FE_REQUIRED, list_path, NULL, "one or both of %s, %s", names[0], names[1]);
        return;
    }
    SL_JSON_ITEMS (list, e) {
        int which = choice(e.value, names, SL_PATH_AT(list_path, e.i), l);
        if ((which == 0 && (c->fair_final_share || c->fair_initial_share)) || (which == 1 && c->fair_initial_share))
            sl_fielderr_add(l, SL_FE_INVALID, list_path, NULL,
                            "must be one of the strategies, or %s and %s in this order", names[0], names[1]);
        c->fair_final_share |= which == 0;
        c->fair_initial_share |= which == 1;
    }
}

static void add_gate(struct sl_config *c, const char *name, bool on) {
    c->gates = sl_xrealloc(c->gates, c->n_gates + 1, sizeof *c->gates);
    c->gates[c->n_gates++] = (struct sl_gate){sl_xstrdup(name), on};
}

static void read_gates(struct sl_config *c, const struct sl_json *document, struct sl_fielderrs *l) {
    const struct sl_json *gates = sl_json_get(document, "featureGates");
    const struct sl_path *path = SL_PATH(NULL, "featureGates");
    if (sl_json_is_null(gates))
        return;
    if (!sl_json_is_object(gates) || sl_json_len(gates) > 256) {
        sl_fielderr_add(l, SL_FE_INVALID, path, NULL, "must be a map of at most 256 names to true or false");
        return;
    }
    SL_JSON_EACH (gates, e) {
        if (sl_json_type(e.value) != SL_JSON_BOOL)
            sl_fielderr_add(l, SL_FE_INVALID, SL_PATH_KEY(path, e.key), e.value, "must be true or false");
        add_gate(c, e.key, sl_json_bool(e.value, false));
    }
}

static void check_one_of(const char *text, const char *const *names, const struct sl_path *path,
                         struct sl_fielderrs *l) {
    for (size_t i = 0; names[i]; i++)
        if (!strcmp(names[i], text))
            return;
    sl_fielderr_unsupported(l, false, path, text, names);
}

/* "off", "auto", "<n>%", a quantity that is not negative. */
static bool is_shm_size(const char *text) {
    size_t n = strlen(text);
    int64_t percent;
    struct sl_quantity q;
    if (!strcmp(text, "auto") || !strcmp(text, "off"))
        return true;
    if (n > 1 && text[n - 1] == '%')
        return sl_parse_i64(text, n - 1, &percent, NULL) == 0 && percent >= 1 && percent <= 100;
    return sl_quantity_parse(text, &q, NULL) == 0 && q.nano >= 0;
}

/* "host:port", ":port" or "0" (off). */
static void check_address(const char *text, const struct sl_path *path, struct sl_fielderrs *l) {
    const char *colon = strrchr(text, ':');
    int64_t port;
    if (!*text || !strcmp(text, "0"))
        return;
    if (!colon || !sl_parse_int(colon + 1, &port) || port < 0 || port > 65535)
        sl_fielderr_str(l, SL_FE_INVALID, path, text, "must be an address with a port, such as :8443");
}

static void check_whole(const struct sl_config *c, const struct sl_json *document, struct sl_fielderrs *l) {
    static const char *const scopes[] = {"pod", "gpu", NULL}, *const modes[] = {"template", NULL};
    const struct sl_path *integrations = SL_PATH(NULL, "integrations"), *shm = SL_PATH(SL_PATH(NULL, "sluice"), "shm");
    const struct sl_path *leader = SL_PATH(NULL, "leaderElection");
    for (size_t i = 0; i < c->frameworks.n; i++) {
        size_t k = 0;
        while (k < SL_COUNT(known_frameworks) && strcmp(known_frameworks[k], c->frameworks.items[i]) != 0)
            k++;
        if (k == SL_COUNT(known_frameworks))
            sl_fielderr_str(l, SL_FE_UNSUPPORTED, SL_PATH_AT(SL_PATH(integrations, "frameworks"), i),
                            c->frameworks.items[i], NULL);
    }
    for (size_t i = 0; i < c->external_frameworks.n; i++) {
        const char *first = strchr(c->external_frameworks.items[i], '.');
        if (!first || first == c->external_frameworks.items[i] || !strchr(first + 1, '.'))
            sl_fielderr_str(l, SL_FE_INVALID, SL_PATH_AT(SL_PATH(integrations, "externalFrameworks"), i),
                            c->external_frameworks.items[i], "must be Kind.version.group");
    }
    for (size_t i = 0; i < c->label_keys_to_copy.n; i++)
        sl_check_qualified_name(l, SL_PATH_AT(SL_PATH(integrations, "labelKeysToCopy"), i),
                                c->label_keys_to_copy.items[i]);
    if (*c->namespace && !sl_is_dns_label(c->namespace))
        sl_fielderr_str(l, SL_FE_INVALID, SL_PATH(NULL, "namespace"), c->namespace, "must be a namespace name");
    check_address(c->health_address, SL_PATH(SL_PATH(NULL, "health"), "healthProbeBindAddress"), l);
    check_address(c->metrics_address, SL_PATH(SL_PATH(NULL, "metrics"), "bindAddress"), l);
    if (c->leader.lease_ms <= c->leader.renew_ms)
        sl_fielderr_add(l, SL_FE_INVALID, SL_PATH(leader, "leaseDuration"), NULL, "must be longer than renewDeadline");
    if (c->leader.renew_ms <= c->leader.retry_ms)
        sl_fielderr_add(l, SL_FE_INVALID, SL_PATH(leader, "renewDeadline"), NULL, "must be longer than retryPeriod");
    const char *lock = sl_json_path_str(document, "leaderElection.resourceLock", "leases");
    if (strcmp(lock, "leases") != 0)
        sl_fielderr_str(l, SL_FE_INVALID, SL_PATH(leader, "resourceLock"), lock, "must be leases");
    if (!is_shm_size(c->shm.size))
        sl_fielderr_str(l, SL_FE_INVALID, SL_PATH(shm, "size"), c->shm.size,
                        "must be auto, off, a quantity or 1%% to 100%%");
    check_one_of(c->shm.scope, scopes, SL_PATH(shm, "scope"), l);
    check_one_of(c->shm.mode, modes, SL_PATH(shm, "mode"), l);
    if (sl_json_len(sl_json_path(document, "metrics.customLabels")) > 20)
        sl_fielderr_add(l, SL_FE_TOO_MANY, SL_PATH(SL_PATH(NULL, "metrics"), "customLabels"), NULL,
                        "must have at most 20 items");
}

int sl_config_parse(const struct sl_json *document, struct sl_config *ret, char **ret_message, struct sl_err *err) {
    static const char *const versions[] = {"config.kueue.x-k8s.io/v1beta2", "config.kueue.x-k8s.io/v1beta1", NULL};
    static const char *const kinds[] = {"Configuration", NULL};
    SL_AUTO_FIELDERRS errors = SL_FIELDERRS_INIT;
    sl_config_init(ret);
    if (!sl_json_is_object(document)) {
        if (ret_message)
            *ret_message = sl_xstrdup("the configuration must be an object");
        return sl_err_set(err, SL_INVALID, "the configuration must be an object");
    }
    check_one_of(sl_json_get_str(document, "apiVersion", ""), versions, SL_PATH(NULL, "apiVersion"), &errors);
    check_one_of(sl_json_get_str(document, "kind", ""), kinds, SL_PATH(NULL, "kind"), &errors);
    bool v1 = !strcmp(sl_json_get_str(document, "apiVersion", ""), versions[1]);
    read_section(ret, document, NULL, "", v1, &errors);
    read_selector(ret, document, &errors);
    read_gates(ret, document, &errors);
    read_pods_ready(ret, document, v1, &errors);
    read_resources(ret, document, &errors);
    read_fair_sharing(ret, document, v1, &errors);
    check_whole(ret, document, &errors);
    if (sl_config_gate(ret, "DisableWaitForPodsReady", false))
        ret->pods_ready.enabled = false;
    if (errors.n == 0)
        return 0;
    sl_config_done(ret);
    sl_config_init(ret);
    char *message = sl_fielderrs_message(&errors);
    int r = sl_err_set(err, SL_INVALID, "%s", message);
    if (ret_message)
        *ret_message = SL_TAKE(message);
    free(message);
    return r;
}

int sl_config_parse_text(const char *text, size_t len, struct sl_config *ret, char **ret_message, struct sl_err *err) {
    struct sl_json *documents = NULL;
    struct sl_err own = SL_ERR_INIT;
    if (!err)
        err = &own;
    sl_config_init(ret);
    int r = 0;
    if (len > MAX_CONFIG_BYTES)
        r = sl_err_set(err, SL_TOO_BIG, "the configuration has more than %d bytes", MAX_CONFIG_BYTES);
    if (r == 0)
        r = sl_yaml_parse(text, len, true, &documents, NULL, err);
    if (r == 0 && sl_json_len(documents) != 1)
        r = sl_err_set(err, SL_INVALID, "the configuration must be one document, not %zu", sl_json_len(documents));
    if (r < 0) {
        if (ret_message)
            *ret_message = sl_xstrdup(err->text);
    } else {
        sl_config_done(ret);
        r = sl_config_parse(sl_json_at(documents, 0), ret, ret_message, err);
    }
    sl_json_unref(documents);
    return r;
}

int sl_config_set_gates(struct sl_config *c, const char *text, struct sl_err *err) {
    if (!text || !*text)
        return 0;
    if (c->n_gates)
        return sl_err_set(
            err, SL_INVALID,
            "feature gates are set in the configuration file (featureGates) and by flag; use one of them");
    SL_AUTO_FREE char *copy = sl_xstrdup(text);
    struct sl_config fresh = {0};
    for (char *rest = copy, *item; (item = strsep(&rest, ",")) != NULL;) {
        char *value = strchr(item, '=');
        if (value)
            *value++ = 0;
        bool on = value && !strcmp(value, "true");
        if (!*item || !value || (!on && strcmp(value, "false") != 0) || fresh.n_gates >= 256) {
            int r = sl_err_set(err, SL_INVALID, "feature gates: \"%.60s\" must be Name=true or Name=false", item);
            sl_config_done(&fresh);
            return r;
        }
        add_gate(&fresh, item, on);
    }
    c->gates = SL_TAKE(fresh.gates);
    c->n_gates = fresh.n_gates;
    if (sl_config_gate(c, "DisableWaitForPodsReady", false))
        c->pods_ready.enabled = false;
    return 0;
}

bool sl_config_gate(const struct sl_config *c, const char *name, bool dflt) {
    for (size_t i = 0; i < c->n_gates; i++)
        if (!strcmp(c->gates[i].name, name))
            return c->gates[i].on;
    return dflt;
}

void sl_config_reference(struct sl_buf *out) {
    static const char *const types[] = {"true or false", "integer", "number", "duration", "text", "list of texts",
                                        "quantity",      "",        "text",   "integer",  "list", "object"};
    static const char *const only[] = {"", " (v1beta1)", " (v1beta2)"};
    sl_buf_puts(out, "| Field | Type | Default | Meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        const struct row *row = &rows[i];
        const char *quote = *row->dflt ? "`" : "";
        sl_buf_printf(out, "| `%s`%s | %s | %s%s%s | %s%s%s |\n", row->path, only[row->versions], types[row->type],
                      quote, row->dflt, quote, row->unused ? "accepted, without effect" : "",
                      row->unused && *row->help ? ": " : "", row->help);
    }
}
