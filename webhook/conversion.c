/*
 * ConversionReview. A list of thousands of objects comes in one review, so the objects never are one tree: their array
 * is cut out of the text, the rest is parsed as a small envelope, and each object is parsed, converted and written by
 * itself. Memory: the body, the answer, one tree.
 */
#include "review_internal.h"

#include <string.h>

#include "sluice/base/mem.h"

#define MAX_ENVELOPE ((size_t)64 << 10)

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static size_t skip_spaces(const char *text, size_t len, size_t at) {
    while (at < len && is_space(text[at]))
        at++;
    return at;
}

/* at is behind an opening quote; returns the index of the closing one, or len. */
static size_t string_end(const char *text, size_t len, size_t at) {
    while (at < len && text[at] != '"')
        at += text[at] == '\\' ? 2 : 1;
    return at < len ? at : len;
}

/* at is at the start of an item or of white space before it; returns the index of the ',' or ']' that ends it, or len.
 */
static size_t item_end(const char *text, size_t len, size_t at) {
    size_t depth = 0;
    for (; at < len; at++) {
        char c = text[at];
        if (c == '"') {
            at = string_end(text, len, at + 1);
        } else if (c == '{' || c == '[') {
            depth++;
        } else if (c == '}' || c == ']') {
            if (!depth)
                return at;
            depth--;
        } else if (c == ',' && !depth) {
            return at;
        }
    }
    return len;
}

static bool key_is(const char *text, size_t from, size_t to, const char *key) {
    return to - from == strlen(key) && memcmp(text + from, key, to - from) == 0;
}

/*
 * Finds the array request.objects: *from is behind its '[', *to at its ']'. The text may be anything; what this takes
 * for keys is judged again when the envelope is parsed, without duplicates, so a text that misleads it is refused
 * there.
 */
static bool find_objects(const char *text, size_t len, size_t *from, size_t *to) {
    size_t depth = 0;
    bool request_next = false, in_request = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c == '{' || c == '[') {
            if (++depth == 2)
                in_request = c == '{' && request_next;
        } else if (c == '}' || c == ']') {
            if (depth)
                depth--;
        } else if (c == '"') {
            size_t end = string_end(text, len, i + 1), colon = end < len ? skip_spaces(text, len, end + 1) : len;
            if (colon < len && text[colon] == ':') {
                if (depth == 1)
                    request_next = key_is(text, i + 1, end, "request");
                size_t value = skip_spaces(text, len, colon + 1);
                if (depth == 2 && in_request && value < len && text[value] == '[' &&
                    key_is(text, i + 1, end, "objects")) {
                    *from = value + 1;
                    size_t at = *from;
                    while (at < len && (at = item_end(text, len, at)) < len && text[at] == ',')
                        at++;
                    *to = at;
                    return at < len && text[at] == ']';
                }
            }
            i = end;
        }
    }
    return false;
}

static void name_object(const struct sl_json *object, size_t index, struct sl_buf *out) {
    const char *ns = sl_json_path_str(object, "metadata.namespace", ""),
               *name = sl_json_path_str(object, "metadata.name", "");
    sl_buf_printf(out, "objects[%zu] %.80s %.253s%s%.253s", index, sl_json_get_str(object, "kind", "of no kind"), ns,
                  *ns ? "/" : "", name);
}

struct conversion {
    sl_convert_fn fn;
    const char *desired;
    struct sl_buf *out;
    struct sl_buf failure; /* empty: none yet */
};

/* One object; returns an HTTP status that is not 200 only when the text is malformed. */
static int convert_one(struct conversion *c, const char *text, size_t len, size_t index, struct sl_err *err) {
    SL_AUTO_JSON *object = NULL;
    int rc = sl_json_parse_limited(text, len, SL_REVIEW_MAX_BYTES, SL_REVIEW_MAX_ELEMENTS, &object, err);
    if (rc) {
        sl_err_wrap(err, "request.objects[%zu]", index);
        return rc == SL_LIMIT || len > SL_REVIEW_MAX_BYTES ? 413 : 400;
    }
    if (!sl_json_is_object(object)) {
        sl_err_set(err, SL_INVALID, "request.objects[%zu]: not an object", index);
        return 400;
    }
    if (index)
        sl_buf_putc(c->out, ',');
    if (strcmp(sl_json_get_str(object, "apiVersion", ""), c->desired) == 0) {
        sl_buf_add(c->out, text, len);
        return 200;
    }
    struct sl_err why = SL_ERR_INIT;
    if (c->fn(object, c->desired, &why)) {
        name_object(object, index, &c->failure);
        sl_buf_printf(&c->failure, ": %s", *why.text ? why.text : "cannot be converted");
        return 200;
    }
    sl_json_dump(object, false, c->out);
    return 200;
}

int sl_conversion_handle(sl_convert_fn fn, const char *body, size_t len, size_t max_bytes, struct sl_buf *out,
                         bool *ret_failed) {
    if (ret_failed)
        *ret_failed = false;
    sl_buf_done(out);
    *out = (struct sl_buf)SL_BUF_INIT(2 * max_bytes + (64 << 10)); /* converted objects may be larger than they came */
    if (len > max_bytes)
        return sl_review_refuse(out, 413, "the ConversionReview is too large");
    size_t from = 0, to = 0;
    if (!find_objects(body, len, &from, &to)) {
        /* Said as precisely as possible: usually the text is not JSON at all, or is another kind of review. */
        SL_AUTO_JSON *any = NULL;
        struct sl_err err = SL_ERR_INIT;
        if (sl_json_parse_limited(body, len, SL_REVIEW_MAX_BYTES, SL_REVIEW_MAX_ELEMENTS, &any, &err))
            return sl_review_refuse(out, 400, err.text);
        return sl_review_refuse(out, 400, "request.objects: required");
    }
    SL_AUTO_BUF head = SL_BUF_INIT(MAX_ENVELOPE);
    sl_buf_add(&head, body, from);
    sl_buf_add(&head, body + to, len - to);
    struct sl_err err = SL_ERR_INIT;
    if (head.failed)
        return sl_review_refuse(out, 413, "the ConversionReview without its objects is too large");
    SL_AUTO_JSON *review = NULL;
    if (sl_json_parse_strict(sl_buf_text(&head), head.len, MAX_ENVELOPE, &review, &err))
        return sl_review_refuse(out, 400, err.text);
    if (strcmp(sl_json_get_str(review, "kind", ""), "ConversionReview") != 0)
        return sl_review_refuse(out, 400, "kind: must be ConversionReview");
    if (strcmp(sl_json_get_str(review, "apiVersion", ""), "apiextensions.k8s.io/v1") != 0)
        return sl_review_refuse(out, 400, "apiVersion: must be apiextensions.k8s.io/v1");
    const struct sl_json *uid = sl_json_path(review, "request.uid");
    const char *desired = sl_json_path_str(review, "request.desiredAPIVersion", "");
    if (!sl_json_str_len(uid))
        return sl_review_refuse(out, 400, "request.uid: required");
    if (!*desired)
        return sl_review_refuse(out, 400, "request.desiredAPIVersion: required");
    if (!sl_json_is_array(sl_json_path(review, "request.objects")))
        return sl_review_refuse(out, 400, "request.objects: required");

    struct conversion c = {fn, desired, out, SL_BUF_INIT(1024)};
    sl_buf_puts(out,
                "{\"kind\":\"ConversionReview\",\"apiVersion\":\"apiextensions.k8s.io/v1\",\"response\":{\"uid\":");
    sl_json_dump(uid, false, out);
    size_t start = out->len;
    sl_buf_puts(out, ",\"convertedObjects\":[");
    int status = 200;
    bool empty = skip_spaces(body, to, from) == to;
    for (size_t i = 0, at = from; !empty && status == 200 && !c.failure.len; i++) {
        size_t end = item_end(body, to, at);
        status = convert_one(&c, body + at, end - at, i, &err);
        if (end >= to)
            break;
        at = end + 1;
    }
    if (status == 200 && !c.failure.len) {
        sl_buf_puts(out, "],\"result\":{\"status\":\"Success\"}}}");
    } else if (status == 200) {
        out->len = start; /* a failure answers for the whole review: no objects */
        sl_buf_puts(out, ",\"convertedObjects\":[],\"result\":{\"status\":\"Failure\",\"message\":");
        struct sl_json *message = sl_json_new_strn(sl_buf_text(&c.failure), c.failure.len);
        sl_json_dump(message, false, out);
        sl_json_unref(message);
        sl_buf_puts(out, "}}}");
        if (ret_failed)
            *ret_failed = true;
    }
    sl_buf_done(&c.failure);
    if (status != 200)
        return sl_review_refuse(out, status, err.text);
    if (out->failed)
        return sl_review_refuse(out, 500, "the converted objects are too large");
    return 200;
}
