/*
 * The buffer is one array: consumed bytes in front, then a complete object that was handed out last, then what waits.
 * It is moved together only when it must grow, and shrinks back when a large object has gone. For list pages a
 * byte-wise scanner follows strings and nesting; bytes outside of items go to `rest`, which at the end is the page with
 * "items":[] and is parsed like any object.
 */
#include "framer.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/base/mem.h"

#define SMALL_BUFFER ((size_t)64 << 10)
#define MAX_REST     ((size_t)64 << 10)
#define OUTSIDE      SIZE_MAX

void kube_framer_init(struct kube_framer *f, enum kube_framing framing, size_t max_object) {
    memset(f, 0, sizeof *f);
    f->max = max_object;
    f->rest.max = MAX_REST;
    kube_framer_reset(f, framing);
}

void kube_framer_done(struct kube_framer *f) {
    free(f->data);
    f->data = NULL;
    sl_buf_done(&f->rest);
}

void kube_framer_reset(struct kube_framer *f, enum kube_framing framing) {
    f->framing = framing;
    f->start = f->end = f->scanned = 0;
    f->item = OUTSIDE;
    f->depth = 0;
    f->in_string = f->escaped = f->in_items = f->done = false;
    f->key_len = 0;
    sl_buf_clear(&f->rest);
    if (f->cap > SMALL_BUFFER) {
        free(f->data);
        f->data = NULL;
        f->cap = 0;
    }
}

size_t kube_framer_pending(const struct kube_framer *f) {
    return f->end - f->start;
}

static void compact(struct kube_framer *f) {
    size_t n = f->end - f->start;
    if (n)
        memmove(f->data, f->data + f->start, n);
    f->scanned -= f->start;
    if (f->item != OUTSIDE)
        f->item -= f->start;
    f->start = 0;
    f->end = n;
}

void kube_framer_feed(struct kube_framer *f, const char *data, size_t len) {
    if (!len)
        return;
    if (f->end + len > f->cap)
        compact(f);
    if (f->end == 0 && f->cap > SMALL_BUFFER) { /* a large object has gone */
        free(f->data);
        f->data = NULL;
        f->cap = 0;
    }
    if (f->end + len > f->cap) {
        size_t cap = f->cap ? f->cap : 4096;
        while (cap < f->end + len)
            cap *= 2;
        f->data = sl_xrealloc(f->data, cap, 1);
        f->cap = cap;
    }
    memcpy(f->data + f->end, data, len);
    f->end += len;
}

static int next_line(struct kube_framer *f, char **ret, size_t *ret_len, struct sl_err *err) {
    for (;;) {
        char *from = f->data + f->scanned, *nl = f->scanned < f->end ? memchr(from, '\n', f->end - f->scanned) : NULL;
        size_t len = nl ? (size_t)(nl - f->data) - f->start : f->end - f->start;
        if (len > f->max)
            return sl_err_set(err, SL_TOO_BIG, "watch event of more than %zu bytes", f->max);
        if (!nl) {
            f->scanned = f->end;
            return 0;
        }
        char *line = f->data + f->start;
        f->start = f->scanned = f->start + len + 1;
        while (len && (line[len - 1] == '\r' || line[len - 1] == ' '))
            len--;
        if (!len)
            continue;
        *ret = line;
        *ret_len = len;
        return 1;
    }
}

/* One byte outside of items and strings. Returns false when the page is not what a list is. */
static bool structure(struct kube_framer *f, char c) {
    switch (c) {
    case '{':
    case '[':
        if (f->done)
            return false;
        f->depth++;
        if (c == '[' && f->depth == 2 && f->key_len == 5 && !memcmp(f->key, "items", 5))
            f->in_items = true;
        break;
    case '}':
    case ']':
        if (!f->depth)
            return false;
        if (--f->depth == 1)
            f->in_items = false;
        f->done = f->depth == 0;
        break;
    case ',':
        if (f->in_items && f->depth == 2)
            return true; /* not kept: the items are not either */
        break;
    case '"':
        f->in_string = true;
        if (f->depth == 1)
            f->key_len = 0;
        break;
    default: break;
    }
    if (f->depth > 60)
        return false;
    sl_buf_putc(&f->rest, c);
    return true;
}

static void in_string(struct kube_framer *f, char c, bool keep) {
    if (f->escaped)
        f->escaped = false;
    else if (c == '\\')
        f->escaped = true;
    else if (c == '"')
        f->in_string = false;
    if (!keep)
        return;
    sl_buf_putc(&f->rest, c);
    if (f->depth == 1 && f->in_string && f->key_len < sizeof f->key)
        f->key[f->key_len++] = c;
}

/* One byte inside of an item; true when it was its last. */
static bool in_item(struct kube_framer *f, char c) {
    if (f->in_string) {
        in_string(f, c, false);
        return false;
    }
    if (c == '"')
        f->in_string = true;
    else if (c == '{' || c == '[')
        f->depth++;
    else if (c == '}' || c == ']')
        return --f->depth == 2;
    return false;
}

static int next_item(struct kube_framer *f, char **ret, size_t *ret_len, struct sl_err *err) {
    while (f->scanned < f->end) {
        char c = f->data[f->scanned++];
        if (f->item != OUTSIDE) {
            if (in_item(f, c)) {
                *ret = f->data + f->item;
                *ret_len = f->scanned - f->item;
                f->item = OUTSIDE;
                f->start = f->scanned;
                return *ret_len > f->max ? sl_err_set(err, SL_TOO_BIG, "list item of more than %zu bytes", f->max) : 1;
            }
            if (f->scanned - f->item > f->max)
                return sl_err_set(err, SL_TOO_BIG, "list item of more than %zu bytes", f->max);
            continue;
        }
        f->start = f->scanned;
        if (f->in_string) {
            in_string(f, c, true);
        } else if (f->in_items && f->depth == 2 && c == '{') {
            f->item = f->start = f->scanned - 1;
            f->depth++;
        } else if (f->in_items && f->depth == 2 && !strchr(" \t\r\n,]", c)) {
            return sl_err_set(err, SL_PROTOCOL, "list holds an item that is no object");
        } else if (!structure(f, c)) {
            return sl_err_set(err, SL_PROTOCOL, "list page is malformed");
        }
        if (f->rest.failed)
            return sl_err_set(err, SL_TOO_BIG, "list page with more than %zu bytes beside its items", MAX_REST);
    }
    return 0;
}

int kube_framer_next(struct kube_framer *f, char **ret, size_t *ret_len, struct sl_err *err) {
    return f->framing == KUBE_LINES ? next_line(f, ret, ret_len, err) : next_item(f, ret, ret_len, err);
}

int kube_framer_finish(struct kube_framer *f, const char **ret_page, size_t *ret_len, struct sl_err *err) {
    if (!f->done || f->item != OUTSIDE)
        return sl_err_set(err, SL_PROTOCOL, "list page was cut short");
    *ret_page = sl_buf_text(&f->rest);
    *ret_len = f->rest.len;
    return 0;
}

/* ---- managedFields ---- */

/* Index behind the string that begins at text[i] == '"'; len when it does not end. */
static size_t skip_string(const char *text, size_t len, size_t i) {
    for (i++; i < len; i++) {
        if (text[i] == '\\')
            i++;
        else if (text[i] == '"')
            return i + 1;
    }
    return len;
}

/* Index behind the array or object that begins at text[i]; len when it does not end. */
static size_t skip_nested(const char *text, size_t len, size_t i) {
    size_t depth = 0;
    while (i < len) {
        char c = text[i];
        if (c == '"') {
            i = skip_string(text, len, i);
            continue;
        }
        i++;
        if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']') && --depth == 0)
            return i;
    }
    return len;
}

static size_t skip_space(const char *text, size_t len, size_t i) {
    while (i < len && strchr(" \t\r\n", text[i]) && text[i])
        i++;
    return i;
}

static bool is_key(const char *text, size_t len, size_t i, size_t end, const char *name) {
    size_t n = strlen(name), after = skip_space(text, len, end);
    return end - i == n + 2 && !memcmp(text + i + 1, name, n) && after < len && text[after] == ':';
}

size_t kube_strip_managed_fields(char *text, size_t len, unsigned depth) {
    unsigned at = 0;
    bool in_metadata = false;
    for (size_t i = 0; i < len;) {
        char c = text[i];
        if (c != '"') {
            if (c == '{' || c == '[')
                at++;
            else if ((c == '}' || c == ']') && at)
                at--;
            if (at <= depth + 1)
                in_metadata = false;
            i++;
            continue;
        }
        size_t end = skip_string(text, len, i);
        if (at == depth + 1 && is_key(text, len, i, end, "metadata")) {
            i = skip_space(text, len, skip_space(text, len, end) + 1);
            in_metadata = i < len && text[i] == '{';
            at += in_metadata;
            i += in_metadata;
            continue;
        }
        if (!in_metadata || at != depth + 2 || !is_key(text, len, i, end, "managedFields")) {
            i = end;
            continue;
        }
        size_t from = i, to = skip_space(text, len, skip_space(text, len, end) + 1);
        if (to >= len || text[to] != '[')
            return len;
        to = skip_nested(text, len, to);
        size_t comma = skip_space(text, len, to);
        if (comma < len && text[comma] == ',') {
            to = comma + 1;
        } else { /* the last member: the comma in front of it goes */
            while (from && strchr(" \t\r\n", text[from - 1]))
                from--;
            if (from && text[from - 1] == ',')
                from--;
        }
        memmove(text + from, text + to, len - to);
        return len - (to - from);
    }
    return len;
}
