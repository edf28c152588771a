/* The list of field errors and its texts. Input drives paths and values, so both are cut: a value at 512 bytes, a path
 * at 1 KiB. */
#include "sluice/api/fielderr.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/base/mem.h"

#define VALUE_MAX   512
#define PATH_MAX_   1024
#define MESSAGE_MAX (32 << 10)

static void path_put(const struct sl_path *path, struct sl_buf *out) {
    if (!path)
        return;
    path_put(path->parent, out);
    if (!path->name) {
        sl_buf_printf(out, "[%zu]", path->index);
    } else if (path->key) {
        sl_buf_printf(out, "[%s]", path->name);
    } else {
        if (out->len)
            sl_buf_putc(out, '.');
        sl_buf_puts(out, path->name);
    }
}

void sl_path_text(const struct sl_path *path, struct sl_buf *out) {
    if (path)
        path_put(path, out);
    else
        sl_buf_puts(out, "<nil>");
}

void sl_fielderrs_done(struct sl_fielderrs *l) {
    for (size_t i = 0; i < l->n; i++) {
        free(l->items[i].path);
        free(l->items[i].text);
    }
    free(l->items);
    *l = (struct sl_fielderrs)SL_FIELDERRS_INIT;
}

static const char *type_text(enum sl_fielderr_type type) {
    switch (type) {
    case SL_FE_INVALID: return "Invalid value";
    case SL_FE_REQUIRED: return "Required value";
    case SL_FE_FORBIDDEN: return "Forbidden";
    case SL_FE_DUPLICATE: return "Duplicate value";
    case SL_FE_UNSUPPORTED: return "Unsupported value";
    case SL_FE_NOT_FOUND: return "Not found";
    case SL_FE_TOO_LONG: return "Too long";
    case SL_FE_TOO_MANY: return "Too many";
    case SL_FE_UNKNOWN: return "Unknown field";
    }
    return "Invalid value";
}

static const char *cause_text(enum sl_fielderr_type type) {
    switch (type) {
    case SL_FE_INVALID: return "FieldValueInvalid";
    case SL_FE_REQUIRED: return "FieldValueRequired";
    case SL_FE_FORBIDDEN: return "FieldValueForbidden";
    case SL_FE_DUPLICATE: return "FieldValueDuplicate";
    case SL_FE_UNSUPPORTED: return "FieldValueNotSupported";
    case SL_FE_NOT_FOUND: return "FieldValueNotFound";
    case SL_FE_TOO_LONG: return "FieldValueTooLong";
    case SL_FE_TOO_MANY: return "FieldValueTooMany";
    case SL_FE_UNKNOWN: return "FieldValueInvalid";
    }
    return "FieldValueInvalid";
}

/* Text of the value as printed, at most VALUE_MAX bytes, cut between characters. */
static void value_put(const struct sl_json *value, struct sl_buf *out) {
    SL_AUTO_BUF text = SL_BUF_INIT(VALUE_MAX * 8);
    sl_json_dump(value, false, &text);
    size_t len = text.len;
    if (!text.failed && len <= VALUE_MAX) {
        sl_buf_add(out, sl_buf_text(&text), len);
        return;
    }
    if (len > VALUE_MAX)
        len = VALUE_MAX;
    while (len > 0 && ((unsigned char)sl_buf_text(&text)[len] & 0xc0) == 0x80)
        len--;
    sl_buf_add(out, sl_buf_text(&text), len);
    sl_buf_puts(out, "...");
}

/* Keys of input stand in paths, and messages end on terminals and in logs. */
static void plain(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}

/* Takes text and path over. */
static void keep(struct sl_fielderrs *l, enum sl_fielderr_type type, bool schema, char *path, char *text) {
    plain(path);
    plain(text);
    for (size_t i = 0; i < l->n; i++)
        if (!strcmp(l->items[i].path, path) && !strcmp(l->items[i].text, text)) {
            free(path);
            free(text);
            return;
        }
    if (l->n >= SL_FIELDERR_MAX) {
        l->dropped++;
        free(path);
        free(text);
        return;
    }
    SL_GROW(l->items, l->cap, l->n);
    l->items[l->n++] = (struct sl_fielderr){type, schema, path, text};
}

static void add(struct sl_fielderrs *l, enum sl_fielderr_type type, bool schema, const struct sl_path *path,
                const struct sl_json *value, const char *detail, va_list args) SL_PRINTF(6, 0);
static void add(struct sl_fielderrs *l, enum sl_fielderr_type type, bool schema, const struct sl_path *path,
                const struct sl_json *value, const char *detail, va_list args) {
    SL_AUTO_BUF where = SL_BUF_INIT(PATH_MAX_ * 4);
    SL_AUTO_BUF text = SL_BUF_INIT(16 << 10);
    sl_path_text(path, &where);
    sl_buf_puts(&text, type_text(type));
    if (value) {
        sl_buf_puts(&text, ": ");
        value_put(value, &text);
    }
    if (detail) {
        sl_buf_puts(&text, ": ");
        sl_buf_vprintf(&text, detail, args);
    }
    char *path_text = where.failed ? sl_xstrdup("<path too long>") : sl_buf_take(&where);
    char *whole = text.failed ? sl_xstrdup(type_text(type)) : sl_buf_take(&text);
    keep(l, type, schema, path_text, whole);
}

void sl_fielderr_add(struct sl_fielderrs *l, enum sl_fielderr_type type, const struct sl_path *path,
                     const struct sl_json *value, const char *detail, ...) {
    va_list args;
    va_start(args, detail);
    add(l, type, false, path, value, detail, args);
    va_end(args);
}

void sl_fielderr_schema(struct sl_fielderrs *l, enum sl_fielderr_type type, const struct sl_path *path,
                        const struct sl_json *value, const char *detail, ...) {
    va_list args;
    va_start(args, detail);
    add(l, type, true, path, value, detail, args);
    va_end(args);
}

void sl_fielderr_str(struct sl_fielderrs *l, enum sl_fielderr_type type, const struct sl_path *path, const char *value,
                     const char *detail, ...) {
    SL_AUTO_JSON *j = sl_json_new_str(value);
    va_list args;
    va_start(args, detail);
    add(l, type, false, path, j, detail, args);
    va_end(args);
}

void sl_fielderr_int(struct sl_fielderrs *l, enum sl_fielderr_type type, const struct sl_path *path, int64_t value,
                     const char *detail, ...) {
    SL_AUTO_JSON *j = sl_json_new_int(value);
    va_list args;
    va_start(args, detail);
    add(l, type, false, path, j, detail, args);
    va_end(args);
}

void sl_fielderr_unsupported(struct sl_fielderrs *l, bool schema, const struct sl_path *path, const char *value,
                             const char *const *choices) {
    SL_AUTO_BUF list = SL_BUF_INIT(4096);
    for (size_t i = 0; choices[i]; i++)
        sl_buf_printf(&list, "%s\"%s\"", i ? ", " : "", choices[i]);
    SL_AUTO_JSON *j = sl_json_new_str(value);
    if (schema)
        sl_fielderr_schema(l, SL_FE_UNSUPPORTED, path, j, "supported values: %s", sl_buf_text(&list));
    else
        sl_fielderr_add(l, SL_FE_UNSUPPORTED, path, j, "supported values: %s", sl_buf_text(&list));
}

bool sl_fielderrs_any_schema(const struct sl_fielderrs *l) {
    for (size_t i = 0; i < l->n; i++)
        if (l->items[i].schema)
            return true;
    return false;
}

char *sl_fielderrs_message(const struct sl_fielderrs *l) {
    SL_AUTO_BUF out = SL_BUF_INIT(MESSAGE_MAX + 4096);
    bool many = l->n > 1 || l->dropped;
    if (many)
        sl_buf_putc(&out, '[');
    size_t said = 0;
    for (; said < l->n && out.len < MESSAGE_MAX - 20480; said++)
        sl_buf_printf(&out, "%s%s: %s", said ? ", " : "", l->items[said].path, l->items[said].text);
    if (said < l->n || l->dropped)
        sl_buf_printf(&out, ", and %zu more", l->n - said + l->dropped);
    if (many)
        sl_buf_putc(&out, ']');
    char *text = sl_buf_take(&out);
    return text ? text : sl_xstrdup("invalid");
}

struct sl_json *sl_fielderrs_causes(const struct sl_fielderrs *l) {
    struct sl_json *causes = sl_json_new_array();
    for (size_t i = 0; i < l->n; i++) {
        struct sl_json *cause = sl_json_new_object();
        sl_json_set_str(cause, "reason", cause_text(l->items[i].type));
        sl_json_set_str(cause, "message", l->items[i].text);
        sl_json_set_str(cause, "field", l->items[i].path);
        sl_json_append(causes, cause);
    }
    return causes;
}
