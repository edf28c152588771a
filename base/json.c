/*
 * The only door to jansson (2.14). struct sl_json is json_t behind an opaque name. Before the library sees a text, a
 * scan checks byte, depth and element limits, because dump, copy and equal of this version recurse without a limit of
 * their own.
 */
#include "sluice/base/json.h"

#include <float.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/base/mem.h"
#include "sluice/base/num.h"
#include "sluice/base/utf8.h"

static json_t *lib(const struct sl_json *j) {
    union {
        const struct sl_json *in;
        json_t *out;
    } u = {.in = j}; /* the library takes non-const pointers for reading too */
    return u.out;
}
static struct sl_json *ours(json_t *j) {
    if (!j)
        sl_assert_failed("json allocation", __FILE__, __LINE__);
    return (struct sl_json *)j;
}
static struct sl_json *ours_or_null(json_t *j) {
    return (struct sl_json *)j;
}

/* ---- the quick reader ---- */

struct quick {
    const char *at, *end;
    size_t elements, max_elements;
    unsigned depth;
    bool strict, wide;
    struct sl_buf spare; /* the last string that had escapes */
};

static json_t *quick_value(struct quick *q);

static void quick_space(struct quick *q) {
    while (q->at < q->end && (*q->at == ' ' || *q->at == '\n' || *q->at == '\t' || *q->at == '\r'))
        q->at++;
}

/* Skips white space and takes c, if it comes next. */
static bool quick_take(struct quick *q, char c) {
    quick_space(q);
    if (q->at == q->end || *q->at != c)
        return false;
    q->at++;
    return true;
}

static bool quick_hex(struct quick *q, unsigned *ret) {
    unsigned v = 0;
    if (q->end - q->at < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        char c = *q->at++;
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                                : 16;
        if (digit > 15)
            return false;
        v = v << 4 | digit;
    }
    *ret = v;
    return true;
}

static bool quick_escape(struct quick *q) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (q->at == q->end)
        return false;
    char c = *q->at++;
    unsigned v, low;
    if (c != 'u') {
        const char *name = c ? strchr(names, c) : NULL;
        if (name)
            sl_buf_putc(&q->spare, values[name - names]);
        return name != NULL;
    }
    if (!quick_hex(q, &v) || !v || (v >= 0xdc00 && v <= 0xdfff))
        return false;
    if (v >= 0xd800 && v <= 0xdbff) {
        if (q->end - q->at < 2 || *q->at++ != '\\' || *q->at++ != 'u' || !quick_hex(q, &low) || low < 0xdc00 ||
            low > 0xdfff)
            return false;
        v = 0x10000 + ((v - 0xd800) << 10) + (low - 0xdc00);
    }
    if (v < 0x80) {
        sl_buf_putc(&q->spare, (char)v);
        return true;
    }
    int more = v < 0x800 ? 1 : v < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    sl_buf_putc(&q->spare, (char)(lead[more] | v >> (6 * more)));
    while (more--)
        sl_buf_putc(&q->spare, (char)(0x80 | (v >> (6 * more) & 0x3f)));
    return true;
}

/* Behind the opening quote. The string is a run of the text, or in q->spare when it has escapes; *ascii: nothing in it
 * needs to be checked. */
static const char *quick_string(struct quick *q, size_t *len, bool *ascii) {
    const char *run = q->at;
    bool escaped = false;
    unsigned char seen = 0;
    sl_buf_clear(&q->spare);
    for (; q->at < q->end; q->at++) {
        unsigned char c = (unsigned char)*q->at;
        if (c == '"') {
            *ascii = seen < 0x80;
            *len = (size_t)(q->at - run);
            if (escaped) {
                sl_buf_add(&q->spare, run, *len);
                *len = q->spare.len;
                run = sl_buf_text(&q->spare);
            }
            q->at++;
            return q->spare.failed ? NULL : run;
        }
        if (c < 0x20)
            return NULL;
        seen |= c;
        if (c == '\\') {
            escaped = true;
            sl_buf_add(&q->spare, run, (size_t)(q->at - run));
            q->at++;
            if (!quick_escape(q))
                return NULL;
            run = q->at--;
        }
    }
    return NULL;
}

/* An integer that no int64 holds as the nearest real number; past those, the largest. */
static json_t *quick_wide(const char *text, size_t len) {
    json_t *j = len < 400 ? json_loadb(text, len, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL) : NULL;
    return j ? j : json_real(*text == '-' ? -DBL_MAX : DBL_MAX);
}

static json_t *quick_number(struct quick *q) {
    const char *start = q->at;
    bool minus = *q->at == '-', past = false;
    q->at += minus;
    const char *digits = q->at;
    int64_t v = 0;
    for (; q->at < q->end && *q->at >= '0' && *q->at <= '9'; q->at++) {
        int digit = minus ? '0' - *q->at : *q->at - '0';
        past = past || __builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, digit, &v);
    }
    if (q->at == digits || (*digits == '0' && q->at > digits + 1) || (past && !q->wide))
        return NULL;
    if (q->at == q->end || (*q->at != '.' && *q->at != 'e' && *q->at != 'E'))
        return past ? quick_wide(start, (size_t)(q->at - start)) : json_integer(v);
    while (q->at < q->end && ((*q->at >= '0' && *q->at <= '9') || *q->at == '.' || *q->at == 'e' || *q->at == 'E' ||
                              *q->at == '+' || *q->at == '-'))
        q->at++;
    return json_loadb(start, (size_t)(q->at - start), JSON_DECODE_ANY, NULL); /* real numbers are rare, and an art */
}

static bool quick_word(struct quick *q, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(q->end - q->at) < n || memcmp(q->at, word, n) != 0)
        return false;
    q->at += n;
    return true;
}

static bool quick_member(struct quick *q, json_t *object) {
    size_t len;
    bool ascii;
    if (!quick_take(q, '"'))
        return false;
    const char *key = quick_string(q, &len, &ascii);
    if (!key)
        return false;
    SL_AUTO_FREE char *copy =
        key == q->spare.data ? sl_xstrndup(key, len) : NULL; /* the value may need the spare, too */
    key = copy ? copy : key;
    if (q->strict && json_object_getn(object, key, len))
        return false;
    json_t *value = quick_take(q, ':') ? quick_value(q) : NULL;
    if (!value)
        return false;
    return (ascii ? json_object_setn_new_nocheck(object, key, len, value)
                  : json_object_setn_new(object, key, len, value)) == 0;
}

/* Behind the opening bracket. */
static bool quick_members(struct quick *q, json_t *container, bool object) {
    char end = object ? '}' : ']';
    if (quick_take(q, end))
        return true;
    for (;;) {
        json_t *item = NULL;
        if (object ? !quick_member(q, container) : !(item = quick_value(q)) || json_array_append_new(container, item))
            return false;
        if (quick_take(q, end))
            return true;
        if (!quick_take(q, ',') || ++q->elements > q->max_elements)
            return false;
    }
}

static json_t *quick_container(struct quick *q, bool object) {
    q->at++;
    if (++q->elements > q->max_elements || ++q->depth > SL_JSON_MAX_DEPTH)
        return NULL;
    json_t *j = object ? json_object() : json_array();
    if (j && !quick_members(q, j, object)) {
        json_decref(j);
        return NULL;
    }
    q->depth--;
    return j;
}

/* NULL: not sure. */
static json_t *quick_value(struct quick *q) {
    size_t len;
    bool ascii;
    const char *text;
    quick_space(q);
    if (q->at == q->end)
        return NULL;
    switch (*q->at) {
    case '{': return quick_container(q, true);
    case '[': return quick_container(q, false);
    case '"':
        q->at++;
        text = quick_string(q, &len, &ascii);
        return !text ? NULL : ascii ? json_stringn_nocheck(text, len) : json_stringn(text, len);
    case 't': return quick_word(q, "true") ? json_true() : NULL;
    case 'f': return quick_word(q, "false") ? json_false() : NULL;
    case 'n': return quick_word(q, "null") ? json_null() : NULL;
    default: return quick_number(q);
    }
}

static json_t *quick_parse(const char *text, size_t len, size_t max_elements, bool strict, bool wide) {
    struct quick q = {text, text + len, 0, max_elements, 0, strict, wide, SL_BUF_INIT(len)};
    quick_space(&q);
    json_t *j = q.at < q.end && (*q.at == '{' || *q.at == '[') ? quick_value(&q) : NULL;
    quick_space(&q);
    if (j && q.at != q.end) {
        json_decref(j);
        j = NULL;
    }
    sl_buf_done(&q.spare);
    return j;
}

/* ---- reading ---- */

static int scan(const char *text, size_t len, size_t max_bytes, size_t max_elements, struct sl_err *err) {
    if (len > max_bytes)
        return sl_err_set(err, SL_TOO_BIG, "JSON text of %zu bytes, at most %zu are allowed", len, max_bytes);
    size_t depth = 0, elements = 0;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
            continue;
        }
        if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            elements++;
            if (++depth > SL_JSON_MAX_DEPTH)
                return sl_err_set(err, SL_TOO_BIG, "JSON nested deeper than %d levels", SL_JSON_MAX_DEPTH);
        } else if (c == '}' || c == ']') {
            if (depth)
                depth--;
        } else if (c == ',') {
            elements++;
        }
    }
    if (elements > max_elements)
        return sl_err_set(err, max_elements < SL_JSON_MAX_ELEMENTS ? SL_LIMIT : SL_TOO_BIG,
                          "JSON with more than %zu elements", max_elements);
    return 0;
}

static int parse(const char *text, size_t len, size_t max_bytes, size_t max_elements, bool strict, bool wide,
                 struct sl_json **ret, struct sl_err *err) {
    json_t *j = len <= max_bytes ? quick_parse(text, len, max_elements, strict, wide) : NULL;
    if (!j) {
        int rc = scan(text, len, max_bytes, max_elements, err);
        if (rc)
            return rc;
        json_error_t e;
        j = json_loadb(text, len, strict ? JSON_REJECT_DUPLICATES : 0, &e);
        if (!j)
            return sl_err_set(err, SL_INVALID, "JSON line %d column %d: %s", e.line, e.column, e.text);
    }
    *ret = ours(j);
    return 0;
}

int sl_json_parse_limited(const char *text, size_t len, size_t max_bytes, size_t max_elements, struct sl_json **ret,
                          struct sl_err *err) {
    return parse(text, len, max_bytes, max_elements, false, true, ret, err);
}
int sl_json_parse(const char *text, size_t len, size_t max_bytes, struct sl_json **ret, struct sl_err *err) {
    return parse(text, len, max_bytes, SL_JSON_MAX_ELEMENTS, false, false, ret, err);
}
int sl_json_parse_strict(const char *text, size_t len, size_t max_bytes, struct sl_json **ret, struct sl_err *err) {
    return parse(text, len, max_bytes, SL_JSON_MAX_ELEMENTS, true, false, ret, err);
}

struct sl_json *sl_json_from_text(const char *text) {
    struct sl_json *j = NULL;
    struct sl_err err = SL_ERR_INIT;
    if (sl_json_parse(text, strlen(text), 64u << 20, &j, &err))
        sl_assert_failed(err.text, __FILE__, __LINE__);
    return j;
}

struct sl_json *sl_json_from(const char *text) {
    SL_AUTO_FREE char *copy = sl_xstrdup(text);
    for (char *p = copy; *p; p++)
        if (*p == '\'')
            *p = '"';
    struct sl_json *j = NULL;
    struct sl_err err = SL_ERR_INIT;
    if (sl_json_parse(copy, strlen(copy), 16 << 20, &j, &err))
        sl_assert_failed(err.text, __FILE__, __LINE__);
    return j;
}

struct sl_json *sl_json_fromf(const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *text = sl_xvprintf(format, args);
    va_end(args);
    struct sl_json *j = sl_json_from(text);
    free(text);
    return j;
}

size_t sl_json_measure(const struct sl_json *j, size_t *values) {
    size_t deepest = 0, below;
    ++*values;
    SL_JSON_EACH (j, e) {
        below = sl_json_measure(e.value, values);
        deepest = below > deepest ? below : deepest;
    }
    SL_JSON_ITEMS (j, e) {
        below = sl_json_measure(e.value, values);
        deepest = below > deepest ? below : deepest;
    }
    return sl_json_is_object(j) || sl_json_is_array(j) ? deepest + 1 : 0;
}

struct sl_json *sl_json_ref(const struct sl_json *j) {
    return j ? ours(json_incref(lib(j))) : NULL;
}
void sl_json_unref(struct sl_json *j) {
    json_decref(lib(j));
}
void sl_json_cleanup(struct sl_json **pp) {
    json_decref(lib(*pp));
}

enum sl_json_type sl_json_type(const struct sl_json *j) {
    if (!j)
        return SL_JSON_NONE;
    switch (json_typeof(lib(j))) {
    case JSON_NULL: return SL_JSON_NULL;
    case JSON_TRUE:
    case JSON_FALSE: return SL_JSON_BOOL;
    case JSON_INTEGER: return SL_JSON_INT;
    case JSON_REAL: return SL_JSON_REAL;
    case JSON_STRING: return SL_JSON_STRING;
    case JSON_ARRAY: return SL_JSON_ARRAY;
    case JSON_OBJECT: return SL_JSON_OBJECT;
    }
    return SL_JSON_NONE;
}

const struct sl_json *sl_json_get(const struct sl_json *object, const char *key) {
    return ours_or_null(json_object_get(lib(object), key));
}
const struct sl_json *sl_json_at(const struct sl_json *array, size_t i) {
    return ours_or_null(json_array_get(lib(array), i));
}

int64_t sl_json_index(const char *token) {
    int64_t i;
    if (*token < '0' || *token > '9' || (*token == '0' && token[1]) || !sl_parse_int(token, &i))
        return -1;
    return i;
}

const struct sl_json *sl_json_path(const struct sl_json *at, const char *path) {
    char key[256];
    while (at && *path) {
        size_t n = strcspn(path, ".");
        if (n >= sizeof key)
            return NULL;
        memcpy(key, path, n);
        key[n] = 0;
        int64_t i = sl_json_index(key);
        if (sl_json_is_array(at))
            at = i >= 0 ? sl_json_at(at, (size_t)i) : NULL;
        else
            at = sl_json_get(at, key);
        path += n + (path[n] == '.');
    }
    return at;
}

size_t sl_json_len(const struct sl_json *j) {
    return sl_json_is_array(j) ? json_array_size(lib(j)) : json_object_size(lib(j));
}
const char *sl_json_str(const struct sl_json *j, const char *dflt) {
    const char *s = j ? json_string_value(lib(j)) : NULL;
    return s ? s : dflt;
}
size_t sl_json_str_len(const struct sl_json *j) {
    return j ? json_string_length(lib(j)) : 0;
}
int64_t sl_json_int(const struct sl_json *j, int64_t dflt) {
    return sl_json_type(j) == SL_JSON_INT ? json_integer_value(lib(j)) : dflt;
}
bool sl_json_bool(const struct sl_json *j, bool dflt) {
    return sl_json_type(j) == SL_JSON_BOOL ? json_is_true(lib(j)) : dflt;
}
double sl_json_real(const struct sl_json *j, double dflt) {
    return j && json_is_number(lib(j)) ? json_number_value(lib(j)) : dflt;
}

static struct sl_json_each each_at(void *at) {
    if (!at)
        return (struct sl_json_each){NULL, NULL, NULL};
    return (struct sl_json_each){at, json_object_iter_key(at), ours(json_object_iter_value(at))};
}
struct sl_json_each sl_json_each_first(const struct sl_json *object) {
    return each_at(object ? json_object_iter(lib(object)) : NULL);
}
void sl_json_each_next(const struct sl_json *object, struct sl_json_each *e) {
    *e = each_at(json_object_iter_next(lib(object), e->at));
}

struct sl_json *sl_json_new_object(void) {
    return ours(json_object());
}
struct sl_json *sl_json_new_array(void) {
    return ours(json_array());
}
struct sl_json *sl_json_new_null(void) {
    return ours(json_null());
}
struct sl_json *sl_json_new_int(int64_t v) {
    return ours(json_integer(v));
}
struct sl_json *sl_json_new_bool(bool v) {
    return ours(json_boolean(v));
}
struct sl_json *sl_json_new_str(const char *text) {
    return text ? sl_json_new_strn(text, strlen(text)) : sl_json_new_null();
}

struct sl_json *sl_json_new_strn(const char *text, size_t len) {
    json_t *j = json_stringn(text, len);
    if (j)
        return ours(j);
    struct sl_buf fixed = SL_BUF_INIT(SIZE_MAX / 8);
    for (size_t i = 0; i < len;) {
        size_t n = sl_utf8_at(text + i, len - i);
        if (n)
            sl_buf_add(&fixed, text + i, n);
        else
            sl_buf_puts(&fixed, "\xef\xbf\xbd");
        i += n ? n : 1;
    }
    j = json_stringn(sl_buf_text(&fixed), fixed.len);
    sl_buf_done(&fixed);
    return ours(j);
}

struct sl_json *sl_json_new_strf(const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *text = sl_xvprintf(format, args);
    va_end(args);
    struct sl_json *j = sl_json_new_str(text);
    free(text);
    return j;
}

void sl_json_set(struct sl_json *object, const char *key, struct sl_json *take) {
    (void)json_object_set_new(lib(object), key, lib(take));
}
void sl_json_set_str(struct sl_json *object, const char *key, const char *text) {
    if (text)
        sl_json_set(object, key, sl_json_new_str(text));
}
void sl_json_set_int(struct sl_json *object, const char *key, int64_t v) {
    sl_json_set(object, key, sl_json_new_int(v));
}
void sl_json_set_bool(struct sl_json *object, const char *key, bool v) {
    sl_json_set(object, key, sl_json_new_bool(v));
}
void sl_json_del(struct sl_json *object, const char *key) {
    (void)json_object_del(lib(object), key);
}
void sl_json_append(struct sl_json *array, struct sl_json *take) {
    (void)json_array_append_new(lib(array), lib(take));
}
void sl_json_insert(struct sl_json *array, size_t i, struct sl_json *take) {
    (void)json_array_insert_new(lib(array), i, lib(take));
}
void sl_json_remove(struct sl_json *array, size_t i) {
    (void)json_array_remove(lib(array), i);
}
struct sl_json *sl_json_mut(struct sl_json *object, const char *key) {
    return ours_or_null(json_object_get(lib(object), key));
}
struct sl_json *sl_json_mut_at(struct sl_json *array, size_t i) {
    return ours_or_null(json_array_get(lib(array), i));
}

struct sl_json *sl_json_make_object(struct sl_json *object, const char *key) {
    if (sl_json_is_null(sl_json_get(object, key)))
        sl_json_set(object, key, sl_json_new_object());
    return sl_json_mut(object, key);
}
struct sl_json *sl_json_make_array(struct sl_json *object, const char *key) {
    if (sl_json_is_null(sl_json_get(object, key)))
        sl_json_set(object, key, sl_json_new_array());
    return sl_json_mut(object, key);
}

struct sl_json *sl_json_copy(const struct sl_json *j) {
    return j ? ours(json_deep_copy(lib(j))) : NULL;
}
struct sl_json *sl_json_copy_shallow(const struct sl_json *j) {
    return j ? ours(json_copy(lib(j))) : NULL;
}
static bool is_container(const struct sl_json *j) {
    return sl_json_is_object(j) || sl_json_is_array(j);
}
struct sl_json *sl_json_own(struct sl_json *object, const char *key) {
    const struct sl_json *v = sl_json_get(object, key);
    if (!is_container(v))
        return NULL;
    sl_json_set(object, key, sl_json_copy_shallow(v));
    return sl_json_mut(object, key);
}
struct sl_json *sl_json_own_at(struct sl_json *array, size_t i) {
    const struct sl_json *v = sl_json_at(array, i);
    if (!is_container(v))
        return NULL;
    struct sl_json *copy = sl_json_copy_shallow(v);
    sl_json_remove(array, i);
    sl_json_insert(array, i, copy);
    return sl_json_mut_at(array, i);
}
bool sl_json_equal(const struct sl_json *a, const struct sl_json *b) {
    return a == b || (a && b && json_equal(lib(a), lib(b)));
}

static int append(const char *data, size_t len, void *payload) {
    sl_buf_add(payload, data, len);
    return 0;
}
static void dump(const struct sl_json *j, size_t flags, struct sl_buf *out) {
    if (!j)
        sl_buf_puts(out, "null");
    else if (json_dump_callback(lib(j), append, out, flags | JSON_ENCODE_ANY))
        out->failed = true;
}
void sl_json_dump(const struct sl_json *j, bool sort_keys, struct sl_buf *out) {
    dump(j, JSON_COMPACT | (sort_keys ? JSON_SORT_KEYS : 0), out);
}
void sl_json_dump_pretty(const struct sl_json *j, struct sl_buf *out) {
    dump(j, JSON_INDENT(2), out);
}
char *sl_json_text(const struct sl_json *j) {
    struct sl_buf b = SL_BUF_INIT(1u << 30);
    sl_json_dump(j, true, &b);
    char *text = sl_buf_take(&b);
    SL_ASSERT(text);
    return text;
}
