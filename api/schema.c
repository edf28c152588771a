/*
 * The schemas of the CRDs as one static table (defs/schema.def), and what an API server does with a schema: check, fill
 * in defaults, prune. Nodes stand breadth first, so the children of a node are a slice of the table, sorted by name. An
 * object without children in the table is open: whatever is in it stays (a Workload's pod template).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats.h"
#include "sluice/api/fields.h"
#include "sluice/api/names.h"
#include "sluice/api/validate.h"
#include "sluice/base/clock.h"
#include "sluice/base/map.h"
#include "sluice/base/mem.h"

enum type { OBJECT, ARRAY, STRING, INTEGER, BOOLEAN, INT_OR_STRING };
enum pattern { P_NONE, P_SUBDOMAIN, P_LABEL, P_KIND, P_QUALIFIED, P_QUANTITY, P_REASON };
enum form { F_NONE, F_DATE_TIME, F_INT32, F_INT64 };
enum list { L_ATOMIC, L_MAP, L_SET };

struct node {
    const char *name;
    enum type type;
    bool required;
    int first, n;
    int low, high;
    enum pattern pattern;
    enum form form;
    enum list list;
    const char *keys, *choices, *dflt;
};
static const struct node nodes[] = {
#define SL_SCHEMA(name, type, required, first, n, low, high, pattern, form, list, keys, choices, dflt)                 \
    {name, type, required, first, n, low, high, P_##pattern, F_##form, L_##list, keys, choices, dflt},
#include "sluice/defs/schema.def"
#undef SL_SCHEMA
};
static const struct {
    const char *kind, *version;
    int row;
} roots[] = {
#define SL_SCHEMA_ROOT(kind, version, row) {kind, version, row},
#include "sluice/defs/schema.def"
#undef SL_SCHEMA_ROOT
};

static const char *const pattern_texts[] = {
    [P_NONE] = "",
    [P_SUBDOMAIN] = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    [P_LABEL] = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    [P_KIND] = "^(?i)[a-z]([-a-z0-9]*[a-z0-9])?$",
    [P_QUALIFIED] = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/"
                    ")?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
    [P_QUANTITY] = "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*"
                   ")?)|(\\.[0-9]+))))?$",
    [P_REASON] = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
};

static bool qualified(const char *text) { /* [prefix/]name */
    const char *slash = strchr(text, '/');
    const char *name = slash ? slash + 1 : text;
    return (!slash || sl_subdomain_chars(text, (size_t)(slash - text))) && sl_name_chars(name, strlen(name));
}

static bool pattern_matches(enum pattern p, const char *text) {
    switch (p) {
    case P_NONE: return true;
    case P_SUBDOMAIN: return sl_subdomain_chars(text, strlen(text));
    case P_LABEL: return sl_label_chars(text, strlen(text));
    case P_KIND: return sl_is_kind_name(text);
    case P_QUALIFIED: return qualified(text);
    case P_QUANTITY: return sl_is_quantity_text(text);
    case P_REASON: return sl_is_condition_reason(text);
    }
    return true;
}

static const struct node *root_of(const char *kind, const char *api_version) {
    if (strncmp(api_version, SL_GROUP "/", sizeof SL_GROUP) != 0)
        return NULL;
    const char *version = api_version + sizeof SL_GROUP;
    for (size_t i = 0; i < SL_COUNT(roots); i++)
        if (!strcmp(roots[i].kind, kind) && !strcmp(roots[i].version, version))
            return &nodes[roots[i].row];
    return NULL;
}

static const struct node *child_of(const struct node *node, const char *name) {
    for (int i = 0; i < node->n; i++)
        if (!strcmp(nodes[node->first + i].name, name))
            return &nodes[node->first + i];
    return NULL;
}

/* The node of items ("[]") or values ("{}"), or NULL. */
static const struct node *inner_of(const struct node *node) {
    const struct node *c = node->n == 1 ? &nodes[node->first] : NULL;
    return c && (c->name[0] == '[' || c->name[0] == '{') ? c : NULL;
}

static const char *const type_texts[] = {"object", "array", "string", "integer", "boolean", "integer or string"};

static const char *json_type_text(const struct sl_json *j) {
    switch (sl_json_type(j)) {
    case SL_JSON_OBJECT: return "object";
    case SL_JSON_ARRAY: return "array";
    case SL_JSON_STRING: return "string";
    case SL_JSON_INT: return "integer";
    case SL_JSON_REAL: return "number";
    case SL_JSON_BOOL: return "boolean";
    case SL_JSON_NULL:
    case SL_JSON_NONE: return "null";
    }
    return "null";
}

static bool type_fits(const struct node *node, const struct sl_json *j) {
    enum sl_json_type t = sl_json_type(j);
    switch (node->type) {
    case OBJECT: return t == SL_JSON_OBJECT;
    case ARRAY: return t == SL_JSON_ARRAY;
    case STRING: return t == SL_JSON_STRING;
    case INTEGER: return t == SL_JSON_INT;
    case BOOLEAN: return t == SL_JSON_BOOL;
    case INT_OR_STRING: return t == SL_JSON_INT || t == SL_JSON_STRING;
    }
    return false;
}

static size_t characters(const char *text) {
    size_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

#define BODY(path)                                                                                                     \
    SL_AUTO_BUF body = SL_BUF_INIT(8192);                                                                              \
    sl_path_text((path), &body)

static bool is_choice(const char *choices, const char *text) {
    size_t n = strlen(text);
    for (const char *p = choices;; p++) {
        const char *end = strchrnul(p, '|');
        if ((size_t)(end - p) == n && !memcmp(p, text, n))
            return true;
        if (!*end)
            return false;
        p = end;
    }
}

static void unsupported(struct sl_fielderrs *l, const struct node *node, const struct sl_path *path,
                        const struct sl_json *j) {
    SL_AUTO_BUF list = SL_BUF_INIT(4096);
    for (const char *p = node->choices;; p++) {
        const char *end = strchrnul(p, '|');
        sl_buf_printf(&list, "%s\"%.*s\"", p == node->choices ? "" : ", ", (int)(end - p), p);
        if (!*end)
            break;
        p = end;
    }
    sl_fielderr_schema(l, SL_FE_UNSUPPORTED, path, j, "supported values: %s", sl_buf_text(&list));
}

static void check_string(const struct node *node, const struct sl_path *path, const struct sl_json *j,
                         struct sl_fielderrs *l) {
    const char *text = sl_json_str(j, "");
    BODY(path);
    if (node->low >= 0 && characters(text) < (size_t)node->low)
        sl_fielderr_schema(l, SL_FE_INVALID, path, j, "%s in body should be at least %d chars long", sl_buf_text(&body),
                           node->low);
    if (node->high >= 0 && characters(text) > (size_t)node->high)
        sl_fielderr_schema(l, SL_FE_TOO_LONG, path, NULL, "may not be more than %d bytes", node->high);
    if (!pattern_matches(node->pattern, text))
        sl_fielderr_schema(l, SL_FE_INVALID, path, j, "%s in body should match '%s'", sl_buf_text(&body),
                           pattern_texts[node->pattern]);
    if (node->choices && !is_choice(node->choices, text))
        unsupported(l, node, path, j);
    int64_t ms;
    if (node->form == F_DATE_TIME && !sl_time_parse(text, &ms))
        sl_fielderr_schema(l, SL_FE_INVALID, path, j, "%s in body must be of type date-time", sl_buf_text(&body));
}

static void check_integer(const struct node *node, const struct sl_path *path, const struct sl_json *j,
                          struct sl_fielderrs *l) {
    int64_t v = sl_json_int(j, 0);
    BODY(path);
    if (node->form == F_INT32 && (v > INT32_MAX || v < INT32_MIN))
        sl_fielderr_schema(l, SL_FE_INVALID, path, j, "%s in body must be of type int32", sl_buf_text(&body));
    else if (node->low >= 0 && v < node->low)
        sl_fielderr_schema(l, SL_FE_INVALID, path, j, "%s in body should be greater than or equal to %d",
                           sl_buf_text(&body), node->low);
    else if (node->high >= 0 && v > node->high)
        sl_fielderr_schema(l, SL_FE_INVALID, path, j, "%s in body should be less than or equal to %d",
                           sl_buf_text(&body), node->high);
}

/* The key members of a list item as an object, defaults applied, for lists with keys; the item itself for sets. Owned.
 */
static struct sl_json *identity(const struct node *list, const struct node *item, const struct sl_json *j) {
    if (list->list == L_SET)
        return sl_json_ref(j);
    struct sl_json *key = sl_json_new_object();
    for (const char *p = list->keys; p; p++) {
        const char *end = strchrnul(p, '|');
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)(end - p), p);
        const struct sl_json *v = sl_json_get(j, name);
        const struct node *field = item ? child_of(item, name) : NULL;
        if (!sl_json_is_null(v)) {
            sl_json_set(key, name, sl_json_ref(v));
        } else if (field && field->dflt) {
            SL_AUTO_JSON *wrapped = sl_json_fromf("[%s]", field->dflt);
            sl_json_set(key, name, sl_json_ref(sl_json_at(wrapped, 0)));
        }
        p = end;
        if (!*p)
            break;
    }
    return key;
}

static void check_duplicates(const struct node *list, const struct sl_path *path, const struct sl_json *j,
                             struct sl_fielderrs *l) {
    struct sl_map seen = SL_MAP_INIT;
    SL_JSON_ITEMS (j, e) {
        SL_AUTO_JSON *id = identity(list, inner_of(list), e.value);
        SL_AUTO_FREE char *text =
            list->list == L_SET ? sl_xprintf("%d%s", (int)sl_json_type(id), sl_json_str(id, "")) : sl_json_text(id);
        if (sl_map_has(&seen, text))
            sl_fielderr_schema(l, SL_FE_DUPLICATE, SL_PATH_AT(path, e.i), id, NULL);
        sl_map_set(&seen, text, &seen);
    }
    sl_map_done(&seen, NULL);
}

/* An integer past int64 where an integer is due. */
static bool past(const struct node *node, const struct sl_path *path, const struct sl_json *j, struct sl_fielderrs *l) {
    if ((node->type != INTEGER && node->type != INT_OR_STRING) || !sl_is_past_int64(j))
        return false;
    if (node->type == INTEGER)
        sl_fielderr_schema(l, SL_FE_INVALID, path, j, "must be between %lld and %lld",
                           node->form == F_INT32 ? (long long)INT32_MIN : (long long)INT64_MIN,
                           node->form == F_INT32 ? (long long)INT32_MAX : (long long)INT64_MAX);
    else
        sl_fielderr_schema(l, SL_FE_INVALID, path, j,
                           "as a number it must be between %lld and %lld; larger quantities are texts with a suffix, "
                           "such as \"10E\"",
                           (long long)INT64_MIN, (long long)INT64_MAX);
    return true;
}

static void check_numbers(const struct node *node, const struct sl_path *path, const struct sl_json *j,
                          struct sl_fielderrs *l) {
    const struct node *inner = inner_of(node);
    (void)past(node, path, j, l);
    if (inner) {
        SL_JSON_EACH (j, e)
            check_numbers(inner, SL_PATH_KEY(path, e.key), e.value, l);
        SL_JSON_ITEMS (j, e)
            check_numbers(inner, SL_PATH_AT(path, e.i), e.value, l);
        return;
    }
    for (int i = 0; i < node->n; i++) {
        const struct node *c = &nodes[node->first + i];
        check_numbers(c, SL_PATH(path, c->name), sl_json_get(j, c->name), l);
    }
}

static void check(const struct node *node, const struct sl_path *path, const struct sl_json *j, bool unknown,
                  struct sl_fielderrs *l);

static void check_object(const struct node *node, const struct sl_path *path, const struct sl_json *j, bool unknown,
                         struct sl_fielderrs *l) {
    const struct node *values = inner_of(node);
    if (node->high >= 0 && sl_json_len(j) > (size_t)node->high)
        sl_fielderr_schema(l, SL_FE_TOO_MANY, path, NULL, "%zu: must have at most %d items", sl_json_len(j),
                           node->high);
    if (values) {
        SL_JSON_EACH (j, e)
            check(values, SL_PATH_KEY(path, e.key), e.value, unknown, l);
        return;
    }
    for (int i = 0; i < node->n; i++) {
        const struct node *c = &nodes[node->first + i];
        const struct sl_json *v = sl_json_get(j, c->name);
        if (!sl_json_is_null(v))
            check(c, SL_PATH(path, c->name), v, unknown, l);
        else if (c->required && !c->dflt)
            sl_fielderr_schema(l, SL_FE_REQUIRED, SL_PATH(path, c->name), NULL, NULL);
    }
    if (!unknown || node->n == 0)
        return;
    SL_JSON_EACH (j, e) {
        bool known = child_of(node, e.key) != NULL;
        if (!path) /* the root: what every object has */
            known = known || !strcmp(e.key, "apiVersion") || !strcmp(e.key, "kind") || !strcmp(e.key, "metadata");
        if (!known)
            sl_fielderr_schema(l, SL_FE_UNKNOWN, SL_PATH(path, e.key), NULL, NULL);
    }
}

static void check(const struct node *node, const struct sl_path *path, const struct sl_json *j, bool unknown,
                  struct sl_fielderrs *l) {
    if (past(node, path, j, l))
        return;
    if (!type_fits(node, j)) {
        BODY(path);
        sl_fielderr_schema(l, SL_FE_INVALID, path, sl_json_is_object(j) || sl_json_is_array(j) ? NULL : j,
                           "%s in body must be of type %s, not %s", sl_buf_text(&body), type_texts[node->type],
                           json_type_text(j));
        return;
    }
    switch (node->type) {
    case OBJECT: check_object(node, path, j, unknown, l); break;
    case ARRAY: {
        size_t n = sl_json_len(j);
        BODY(path);
        if (node->low >= 0 && n < (size_t)node->low)
            sl_fielderr_schema(l, SL_FE_INVALID, path, NULL, "%zu: %s in body should have at least %d items", n,
                               sl_buf_text(&body), node->low);
        if (node->high >= 0 && n > (size_t)node->high)
            sl_fielderr_schema(l, SL_FE_TOO_MANY, path, NULL, "%zu: must have at most %d items", n, node->high);
        const struct node *item = inner_of(node);
        if (item)
            SL_JSON_ITEMS (j, e)
                check(item, SL_PATH_AT(path, e.i), e.value, unknown, l);
        if (node->list != L_ATOMIC)
            check_duplicates(node, path, j, l);
        break;
    }
    case STRING: check_string(node, path, j, l); break;
    case INTEGER: check_integer(node, path, j, l); break;
    case INT_OR_STRING:
        if (sl_json_type(j) == SL_JSON_STRING)
            check_string(node, path, j, l);
        break;
    case BOOLEAN: break;
    }
}

static void check_meta(const struct sl_json *meta, bool unknown, struct sl_fielderrs *l) {
    static const char *const known[] = {"name",
                                        "generateName",
                                        "namespace",
                                        "labels",
                                        "annotations",
                                        "finalizers",
                                        "ownerReferences",
                                        "uid",
                                        "resourceVersion",
                                        "generation",
                                        "creationTimestamp",
                                        "deletionTimestamp",
                                        "deletionGracePeriodSeconds",
                                        "managedFields",
                                        "selfLink"};
    const struct sl_path *path = SL_PATH(NULL, "metadata");
    if (!sl_json_is_null(meta) && !sl_json_is_object(meta)) {
        sl_fielderr_schema(l, SL_FE_INVALID, path, sl_json_is_array(meta) ? NULL : meta, "must be an object");
        return;
    }
    if (sl_json_is_null(sl_json_get(meta, "name")) && !*sl_json_get_str(meta, "generateName", ""))
        sl_fielderr_schema(l, SL_FE_REQUIRED, SL_PATH(path, "name"), NULL, "name or generateName is required");
    sl_fields_check(sl_metadata_fields, meta, path, 0, l);
    if (!unknown)
        return;
    SL_JSON_EACH (meta, e) {
        size_t i = 0;
        while (i < SL_COUNT(known) && strcmp(known[i], e.key) != 0)
            i++;
        if (i == SL_COUNT(known))
            sl_fielderr_schema(l, SL_FE_UNKNOWN, SL_PATH(path, e.key), NULL, NULL);
    }
}

void sl_api_check_structure(const struct sl_json *object, bool unknown_fields, struct sl_fielderrs *errors) {
    const struct node *root = root_of(sl_json_get_str(object, "kind", ""), sl_json_get_str(object, "apiVersion", ""));
    if (!root)
        return;
    check_meta(sl_json_get(object, "metadata"), unknown_fields, errors);
    check(root, NULL, object, unknown_fields, errors);
}

void sl_api_check_numbers(const struct sl_json *object, struct sl_fielderrs *errors) {
    const struct node *root = root_of(sl_json_get_str(object, "kind", ""), sl_json_get_str(object, "apiVersion", ""));
    if (root)
        check_numbers(root, NULL, object, errors);
}

static void set_defaults(const struct node *node, struct sl_json *j) {
    const struct node *inner = inner_of(node);
    if (inner && sl_json_is_array(j)) {
        for (size_t i = 0; i < sl_json_len(j); i++)
            set_defaults(inner, sl_json_mut_at(j, i));
    } else if (inner && sl_json_is_object(j)) {
        SL_JSON_EACH (j, e)
            set_defaults(inner, sl_json_mut(j, e.key));
    } else if (!inner && sl_json_is_object(j)) {
        for (int i = 0; i < node->n; i++) {
            const struct node *c = &nodes[node->first + i];
            if (c->dflt && sl_json_is_null(sl_json_get(j, c->name))) {
                SL_AUTO_JSON *wrapped = sl_json_fromf("[%s]", c->dflt);
                sl_json_set(j, c->name, sl_json_ref(sl_json_at(wrapped, 0)));
            }
            struct sl_json *v = sl_json_mut(j, c->name);
            if (v)
                set_defaults(c, v);
        }
    }
}

void sl_api_set_defaults(const char *kind, struct sl_json *object) {
    const struct node *root = root_of(kind, sl_json_get_str(object, "apiVersion", ""));
    if (root)
        set_defaults(root, object);
}

static void prune(const struct node *node, struct sl_json *j) {
    const struct node *inner = inner_of(node);
    if (inner && sl_json_is_array(j)) {
        for (size_t i = 0; i < sl_json_len(j); i++)
            prune(inner, sl_json_mut_at(j, i));
        return;
    }
    if (!sl_json_is_object(j) || node->n == 0)
        return;
    size_t n = 0;
    const char **drop = sl_xalloc((sl_json_len(j) + 1) * sizeof *drop);
    SL_JSON_EACH (j, e) {
        const struct node *c = inner ? inner : child_of(node, e.key);
        if (!c || sl_json_is_null(e.value))
            drop[n++] = e.key;
        else
            prune(c, sl_json_mut(j, e.key));
    }
    for (size_t i = 0; i < n; i++) {
        SL_AUTO_FREE char *key = sl_xstrdup(drop[i]); /* the key lives in what is being removed */
        sl_json_del(j, key);
    }
    free(drop);
}

void sl_api_prune(const char *kind, struct sl_json *object) {
    const struct node *root = root_of(kind, sl_json_get_str(object, "apiVersion", ""));
    if (!root)
        return;
    static const char *const kept[] = {"apiVersion", "kind", "metadata"};
    struct sl_json *aside[3];
    for (size_t i = 0; i < 3; i++) {
        aside[i] = sl_json_ref(sl_json_get(object, kept[i]));
        sl_json_del(object, kept[i]);
    }
    prune(root, object);
    for (size_t i = 0; i < 3; i++)
        if (aside[i])
            sl_json_set(object, kept[i], aside[i]);
}
