/*
 * JSON Patch by comparison. The handlers change a copy of the object the way they want it; what differs is what is
 * sent. Only members and elements that the old tree has are ever named, so the patch can always be applied, and a
 * second run over its result is empty.
 */
#include "sluice/webhook/patch.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/base/mem.h"

#define DIFF_PATH_MAX ((size_t)8 << 20) /* more than a whole review */

void sl_patch_token(struct sl_buf *path, const char *name) {
    sl_buf_putc(path, '/');
    for (const char *p = name; *p; p++) {
        if (*p == '~')
            sl_buf_puts(path, "~0");
        else if (*p == '/')
            sl_buf_puts(path, "~1");
        else
            sl_buf_putc(path, *p);
    }
}

struct differ {
    struct sl_json *ops;
    struct sl_buf path; /* of the values being compared */
};

static void path_cut(struct sl_buf *path, size_t len) {
    path->len = len;
    if (path->data)
        path->data[len] = 0;
}

static void emit(struct differ *d, const char *op, const struct sl_json *value) {
    struct sl_json *o = sl_json_new_object();
    sl_json_set_str(o, "op", op);
    sl_json_set_str(o, "path", sl_buf_text(&d->path));
    if (value)
        sl_json_set(o, "value", sl_json_copy(value));
    sl_json_append(d->ops, o);
}

/* Volumes before the containers that mount them, the rest by name; containers come before initContainers that way. */
static int by_order(const void *a, const void *b) {
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    bool vx = !strcmp(x, "volumes"), vy = !strcmp(y, "volumes");
    return vx != vy ? vy - vx : strcmp(x, y);
}

static const char **sorted_keys(const struct sl_json *object, size_t *ret_n) {
    const char **keys = sl_xalloc((sl_json_len(object) + 1) * sizeof *keys);
    size_t n = 0;
    SL_JSON_EACH (object, e)
        keys[n++] = e.key;
    qsort(keys, n, sizeof *keys, by_order);
    *ret_n = n;
    return keys;
}

static void diff(struct differ *d, const struct sl_json *before, const struct sl_json *after);

static void diff_objects(struct differ *d, const struct sl_json *before, const struct sl_json *after) {
    size_t len = d->path.len, n;
    const char **keys = sorted_keys(before, &n);
    for (size_t i = 0; i < n; i++)
        if (!sl_json_is_null(sl_json_get(before, keys[i])) && sl_json_is_null(sl_json_get(after, keys[i]))) {
            sl_patch_token(&d->path, keys[i]);
            emit(d, "remove", NULL);
            path_cut(&d->path, len);
        }
    free(keys);
    keys = sorted_keys(after, &n);
    for (size_t i = 0; i < n; i++) {
        const struct sl_json *a = sl_json_get(after, keys[i]), *b = sl_json_get(before, keys[i]);
        if (sl_json_is_null(a))
            continue;
        sl_patch_token(&d->path, keys[i]);
        if (sl_json_is_null(b))
            emit(d, "add", a);
        else
            diff(d, b, a);
        path_cut(&d->path, len);
    }
    free(keys);
}

static void index_token(struct differ *d, size_t i) {
    SL_AUTO_FREE char *text = sl_xprintf("%zu", i);
    sl_patch_token(&d->path, text);
}

static void diff_arrays(struct differ *d, const struct sl_json *before, const struct sl_json *after) {
    size_t len = d->path.len, nb = sl_json_len(before), na = sl_json_len(after);
    for (size_t i = 0; i < na; i++) {
        if (i >= nb) {
            sl_buf_puts(&d->path, "/-");
            emit(d, "add", sl_json_at(after, i));
        } else {
            index_token(d, i);
            diff(d, sl_json_at(before, i), sl_json_at(after, i));
        }
        path_cut(&d->path, len);
    }
    for (size_t i = nb; i > na; i--) {
        index_token(d, i - 1);
        emit(d, "remove", NULL);
        path_cut(&d->path, len);
    }
}

static void diff(struct differ *d, const struct sl_json *before, const struct sl_json *after) {
    if (before == after) /* shared between the trees */
        return;
    if (sl_json_is_object(before) && sl_json_is_object(after))
        diff_objects(d, before, after);
    else if (sl_json_is_array(before) && sl_json_is_array(after))
        diff_arrays(d, before, after);
    else if (!sl_json_equal(before, after))
        emit(d, "replace", after);
}

struct sl_json *sl_patch_diff(const struct sl_json *before, const struct sl_json *after) {
    struct differ d = {sl_json_new_array(), SL_BUF_INIT(DIFF_PATH_MAX)};
    diff(&d, before, after);
    sl_buf_done(&d.path);
    return d.ops;
}
