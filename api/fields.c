/* The walk over tables of fields. A new type is a case here; a new field is a row where its table is. */
#include "sluice/api/fields.h"

#include <string.h>

#include "sluice/api/names.h"
#include "sluice/api/quantity.h"
#include "sluice/base/clock.h"
#include "sluice/base/mem.h"

static const struct sl_field owner_fields[] = {
    {"apiVersion", SL_F_STRING, SL_F_REQUIRED, NULL, NULL},
    {"kind", SL_F_STRING, SL_F_REQUIRED, NULL, NULL},
    {"name", SL_F_STRING, SL_F_REQUIRED, NULL, NULL},
    {"uid", SL_F_STRING, SL_F_REQUIRED, NULL, NULL},
    {"controller", SL_F_BOOL, 0, NULL, NULL},
    {"blockOwnerDeletion", SL_F_BOOL, 0, NULL, NULL},
    {NULL, SL_F_ANY, 0, NULL, NULL},
};
const struct sl_field sl_metadata_fields[] = {
    {"name", SL_F_STRING, SL_F_WHERE_GIVEN | SL_F_SUBDOMAIN, NULL, NULL},
    {"generateName", SL_F_STRING, 0, NULL, NULL},
    {"namespace", SL_F_STRING, SL_F_LABEL, NULL, NULL},
    {"labels", SL_F_LABELS, 0, NULL, NULL},
    {"annotations", SL_F_ANNOTATIONS, 0, NULL, NULL},
    {"finalizers", SL_F_STRINGS, 0, NULL, NULL},
    {"ownerReferences", SL_F_OBJECTS, 0, owner_fields, NULL},
    {"uid", SL_F_STRING, 0, NULL, NULL},
    {"resourceVersion", SL_F_STRING, 0, NULL, NULL},
    {"generation", SL_F_INT64, 0, NULL, NULL},
    {"creationTimestamp", SL_F_TIME, 0, NULL, NULL},
    {"deletionTimestamp", SL_F_TIME, 0, NULL, NULL},
    {NULL, SL_F_ANY, 0, NULL, NULL},
};

struct walk {
    unsigned flags;
    struct sl_fielderrs *errors;
};

bool sl_is_past_int64(const struct sl_json *j) {
    double v = sl_json_type(j) == SL_JSON_REAL ? sl_json_real(j, 0) : 0;
    return v >= 9223372036854775808.0 || v <= -9223372036854775808.0;
}

static void bad(const struct walk *w, const struct sl_path *path, const struct sl_json *value, const char *detail) {
    sl_fielderr_schema(w->errors, SL_FE_INVALID, path,
                       sl_json_is_object(value) || sl_json_is_array(value) ? NULL : value, "%s", detail);
}

static bool is(const struct walk *w, const struct sl_path *path, const struct sl_json *value, enum sl_json_type type) {
    static const char *const details[] = {[SL_JSON_BOOL] = "must be true or false",
                                          [SL_JSON_STRING] = "must be a string",
                                          [SL_JSON_ARRAY] = "must be an array",
                                          [SL_JSON_OBJECT] = "must be an object"};
    if (sl_json_type(value) == type)
        return true;
    if (!(w->flags & SL_FIELDS_ONLY_NUMBERS))
        bad(w, path, value, details[type]);
    return false;
}

static void check_integer(const struct walk *w, const struct sl_field *f, const struct sl_path *path,
                          const struct sl_json *j) {
    int64_t low = f->type == SL_F_INT32 ? INT32_MIN : INT64_MIN, high = f->type == SL_F_INT32 ? INT32_MAX : INT64_MAX;
    int64_t v = sl_json_int(j, 0);
    if ((w->flags & SL_FIELDS_ONLY_NUMBERS) && !sl_is_past_int64(j))
        return;
    if (sl_json_type(j) != SL_JSON_INT || v < low || v > high)
        sl_fielderr_schema(w->errors, SL_FE_INVALID, path, sl_json_is_object(j) || sl_json_is_array(j) ? NULL : j,
                           "must be an integer between %lld and %lld", (long long)(f->rules & SL_F_COUNT ? 0 : low),
                           (long long)high);
    else if (v < 0 && (f->rules & SL_F_COUNT))
        bad(w, path, j, "must be greater than or equal to 0");
}

static void check_quantity(const struct walk *w, const struct sl_path *path, const struct sl_json *j, bool count) {
    struct sl_quantity q;
    char text[SL_QUANTITY_TEXT];
    if (w->flags & SL_FIELDS_ONLY_NUMBERS)
        return; /* a quantity of any size is one */
    if (sl_quantity_from_json(j, &q, NULL) < 0)
        bad(w, path, j, "must be a quantity");
    else if (count && q.nano < 0)
        sl_fielderr_str(w->errors, SL_FE_INVALID, path, sl_quantity_format(&q, text),
                        "must be greater than or equal to 0");
}

static void check_choice(const struct walk *w, const struct sl_field *f, const struct sl_path *path,
                         const struct sl_json *j) {
    const char *text = sl_json_str(j, "");
    SL_AUTO_BUF list = SL_BUF_INIT(4096);
    for (const char *p = f->choices;; p++) {
        const char *end = strchrnul(p, '|');
        size_t n = (size_t)(end - p);
        if (strlen(text) == n && !memcmp(p, text, n))
            return;
        sl_buf_printf(&list, "%s\"%.*s\"", p == f->choices ? "" : ", ", (int)n, p);
        if (!*end)
            break;
        p = end;
    }
    sl_fielderr_schema(w->errors, SL_FE_UNSUPPORTED, path, j, "supported values: %s", sl_buf_text(&list));
}

static void check_string(const struct walk *w, const struct sl_field *f, const struct sl_path *path,
                         const struct sl_json *j) {
    const char *text = sl_json_str(j, "");
    if (!is(w, path, j, SL_JSON_STRING) || (w->flags & SL_FIELDS_ONLY_NUMBERS))
        return;
    int64_t ms;
    if (!*text && (f->rules & (SL_F_REQUIRED | SL_F_WHERE_GIVEN)))
        sl_fielderr_schema(w->errors, SL_FE_REQUIRED, path, NULL, NULL);
    else if (f->type == SL_F_TIME && !sl_time_parse(text, &ms))
        bad(w, path, j, "must be of type date-time");
    else if (*text && (f->rules & SL_F_LABEL) && !sl_is_dns_label(text))
        bad(w, path, j, "must be a DNS label (lower case letters, digits and '-', at most 63)");
    else if (*text && (f->rules & SL_F_SUBDOMAIN))
        sl_check_subdomain(w->errors, path, text);
    else if (f->choices)
        check_choice(w, f, path, j);
}

static void check_map(const struct walk *w, const struct sl_field *f, const struct sl_path *path,
                      const struct sl_json *j) {
    if (!is(w, path, j, SL_JSON_OBJECT) || (w->flags & SL_FIELDS_ONLY_NUMBERS))
        return;
    if (f->type == SL_F_LABELS) {
        sl_check_labels(w->errors, path, j);
        return;
    }
    if (f->type == SL_F_ANNOTATIONS) {
        sl_check_annotations(w->errors, path, j);
        return;
    }
    SL_JSON_EACH (j, e) {
        const struct sl_path *at = SL_PATH_KEY(path, e.key);
        if (f->type == SL_F_STRING_MAP) {
            (void)is(w, at, e.value, SL_JSON_STRING);
            continue;
        }
        if ((f->rules & SL_F_NO_PODS) && !strcmp(e.key, SL_RESOURCE_PODS))
            sl_fielderr_str(w->errors, SL_FE_INVALID, at, e.key, "the key is reserved for internal use");
        check_quantity(w, at, e.value, true);
    }
}

static void check_field(const struct walk *w, const struct sl_field *f, const struct sl_path *path,
                        const struct sl_json *j) {
    bool array = f->type == SL_F_OBJECTS || f->type == SL_F_STRINGS;
    if (sl_json_is_null(j) || (array && sl_json_is_array(j) && !sl_json_len(j))) {
        if ((f->rules & SL_F_REQUIRED) && !(w->flags & SL_FIELDS_ONLY_NUMBERS))
            sl_fielderr_schema(w->errors, SL_FE_REQUIRED, path, NULL, NULL);
        return;
    }
    if (array && !is(w, path, j, SL_JSON_ARRAY))
        return;
    switch (f->type) {
    case SL_F_ANY: break;
    case SL_F_OBJECT:
        if (is(w, path, j, SL_JSON_OBJECT))
            sl_fields_check(f->inner, j, path, w->flags, w->errors);
        break;
    case SL_F_OBJECTS:
        SL_JSON_ITEMS (j, e)
            if (is(w, SL_PATH_AT(path, e.i), e.value, SL_JSON_OBJECT))
                sl_fields_check(f->inner, e.value, SL_PATH_AT(path, e.i), w->flags, w->errors);
        break;
    case SL_F_MAP:
        if (is(w, path, j, SL_JSON_OBJECT))
            SL_JSON_EACH (j, e)
                if (is(w, SL_PATH_KEY(path, e.key), e.value, SL_JSON_OBJECT))
                    sl_fields_check(f->inner, e.value, SL_PATH_KEY(path, e.key), w->flags, w->errors);
        break;
    case SL_F_STRINGS:
        SL_JSON_ITEMS (j, e)
            (void)is(w, SL_PATH_AT(path, e.i), e.value, SL_JSON_STRING);
        break;
    case SL_F_STRING:
    case SL_F_TIME: check_string(w, f, path, j); break;
    case SL_F_STRING_MAP:
    case SL_F_LABELS:
    case SL_F_ANNOTATIONS:
    case SL_F_QUANTITIES: check_map(w, f, path, j); break;
    case SL_F_INT32:
    case SL_F_INT64: check_integer(w, f, path, j); break;
    case SL_F_BOOL: (void)is(w, path, j, SL_JSON_BOOL); break;
    case SL_F_QUANTITY: check_quantity(w, path, j, f->rules & SL_F_COUNT); break;
    }
}

static bool in_table(const struct sl_field *table, const char *name) {
    for (; table->name; table++)
        if (!strcmp(table->name, name))
            return true;
    return false;
}

void sl_fields_check(const struct sl_field *table, const struct sl_json *object, const struct sl_path *path,
                     unsigned flags, struct sl_fielderrs *errors) {
    struct walk w = {flags, errors};
    if (!table || !sl_json_is_object(object))
        return;
    for (const struct sl_field *f = table; f->name; f++)
        check_field(&w, f, SL_PATH(path, f->name), sl_json_get(object, f->name));
    if (flags & SL_FIELDS_UNKNOWN)
        SL_JSON_EACH (object, e)
            if (!in_table(table, e.key))
                sl_fielderr_schema(errors, SL_FE_UNKNOWN, SL_PATH(path, e.key), NULL, NULL);
}
