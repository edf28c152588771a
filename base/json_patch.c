/*
 * RFC 7386 and RFC 6902 on trees. A JSON patch is applied to a copy, so that a failure leaves the document as it was;
 * its result stays within the limits that parsing has, since copies inside of a patch could double the document many
 * times.
 */
#include "sluice/base/json.h"

#include <string.h>

/* A copy of this object alone, its members shared: somebody else may hold it too. NULL when it is no object. */
static struct sl_json *copy_level(const struct sl_json *j) {
    if (!sl_json_is_object(j))
        return NULL;
    struct sl_json *copy = sl_json_new_object();
    SL_JSON_EACH (j, e)
        sl_json_set(copy, e.key, sl_json_ref(e.value));
    return copy;
}

struct sl_json *sl_json_merge_patch(struct sl_json *target, const struct sl_json *patch) {
    if (!sl_json_is_object(patch)) {
        sl_json_unref(target);
        return sl_json_copy(patch);
    }
    if (!sl_json_is_object(target)) {
        sl_json_unref(target);
        target = sl_json_new_object();
    }
    SL_JSON_EACH (patch, e) {
        if (sl_json_type(e.value) == SL_JSON_NULL) {
            sl_json_del(target, e.key);
        } else if (sl_json_is_object(e.value)) {
            sl_json_set(target, e.key, sl_json_merge_patch(copy_level(sl_json_get(target, e.key)), e.value));
        } else {
            sl_json_set(target, e.key, sl_json_copy(e.value));
        }
    }
    return target;
}

/* Splits the last token off a JSON Pointer and finds its parent. token needs 512 bytes. */
static struct sl_json *pointer_parent(struct sl_json *doc, const char *path, char *token, struct sl_err *err) {
    struct sl_json *at = doc;
    if (*path != '/') {
        sl_err_set(err, SL_INVALID, "path \"%s\" does not begin with /", path);
        return NULL;
    }
    for (;;) {
        path++;
        size_t n = 0;
        for (; *path && *path != '/'; path++) {
            char c = *path;
            if (c == '~') {
                path++;
                c = *path == '0' ? '~' : *path == '1' ? '/' : 0;
            }
            if (!c || n + 1 >= 512) {
                sl_err_set(err, SL_INVALID, "path token is malformed or too long");
                return NULL;
            }
            token[n++] = c;
        }
        token[n] = 0;
        if (!*path)
            return at;
        int64_t i = sl_json_index(token);
        if (sl_json_is_array(at))
            at = i >= 0 ? sl_json_mut_at(at, (size_t)i) : NULL;
        else
            at = sl_json_mut(at, token);
        if (!at) {
            sl_err_set(err, SL_INVALID, "path member \"%s\" does not exist", token);
            return NULL;
        }
    }
}

static const struct sl_json *pointer_get(struct sl_json *doc, const char *path, struct sl_err *err) {
    char token[512];
    if (!*path)
        return doc;
    struct sl_json *parent = pointer_parent(doc, path, token, err);
    if (!parent)
        return NULL;
    int64_t i = sl_json_index(token);
    const struct sl_json *v =
        sl_json_is_array(parent) ? (i >= 0 ? sl_json_at(parent, (size_t)i) : NULL) : sl_json_get(parent, token);
    if (!v)
        sl_err_set(err, SL_INVALID, "path \"%s\" does not exist", path);
    return v;
}

static int pointer_add(struct sl_json **doc, const char *path, struct sl_json *take, struct sl_err *err) {
    char token[512];
    if (!*path) {
        sl_json_unref(*doc);
        *doc = take;
        return 0;
    }
    struct sl_json *parent = pointer_parent(*doc, path, token, err);
    if (parent && sl_json_is_array(parent)) {
        int64_t i = sl_json_index(token);
        if (!strcmp(token, "-")) {
            sl_json_append(parent, take);
            return 0;
        }
        if (i >= 0 && (size_t)i <= sl_json_len(parent)) {
            sl_json_insert(parent, (size_t)i, take);
            return 0;
        }
        sl_err_set(err, SL_INVALID, "path \"%s\": index out of range", path);
    } else if (parent && sl_json_is_object(parent)) {
        sl_json_set(parent, token, take);
        return 0;
    } else if (parent) {
        sl_err_set(err, SL_INVALID, "path \"%s\": parent is neither object nor array", path);
    }
    sl_json_unref(take);
    return SL_INVALID;
}

static int pointer_remove(struct sl_json *doc, const char *path, struct sl_err *err) {
    char token[512];
    if (!pointer_get(doc, path, err))
        return SL_INVALID;
    struct sl_json *parent = *path ? pointer_parent(doc, path, token, err) : NULL;
    if (!parent)
        return sl_err_set(err, SL_INVALID, "the whole document cannot be removed");
    if (sl_json_is_array(parent))
        sl_json_remove(parent, (size_t)sl_json_index(token));
    else
        sl_json_del(parent, token);
    return 0;
}

static void replace_item(struct sl_json *array, size_t i, struct sl_json *take) {
    sl_json_remove(array, i);
    sl_json_insert(array, i, take);
}

static int pointer_replace(struct sl_json **doc, const char *path, struct sl_json *take, struct sl_err *err) {
    char token[512];
    if (!*path)
        return pointer_add(doc, path, take, err);
    struct sl_json *parent = pointer_get(*doc, path, err) ? pointer_parent(*doc, path, token, err) : NULL;
    if (!parent) {
        sl_json_unref(take);
        return SL_INVALID;
    }
    if (sl_json_is_array(parent))
        replace_item(parent, (size_t)sl_json_index(token), take);
    else
        sl_json_set(parent, token, take);
    return 0;
}

/* A document while a patch is applied. Copies can double it each time, and nest it in itself: both are limited. */
struct patching {
    struct sl_json *doc;
    size_t elements; /* at most so many: what was removed is not subtracted */
};

/* May value be put at path? */
static int has_room(struct patching *p, const char *path, const struct sl_json *value, struct sl_err *err) {
    size_t depth = sl_json_measure(value, &p->elements);
    for (const char *c = path; *c; c++)
        depth += *c == '/';
    if (depth > SL_JSON_MAX_DEPTH)
        return sl_err_set(err, SL_TOO_BIG, "nested deeper than %d levels", SL_JSON_MAX_DEPTH);
    if (p->elements > SL_JSON_MAX_ELEMENTS)
        return sl_err_set(err, SL_TOO_BIG, "more than %d elements", SL_JSON_MAX_ELEMENTS);
    return 0;
}

static int copy_or_move(struct patching *p, bool move, const char *from, const char *path, struct sl_err *err) {
    const struct sl_json *have = from ? pointer_get(p->doc, from, err) : NULL;
    if (!have)
        return sl_err_set(err, SL_INVALID, "from is missing or does not exist");
    size_t n = strlen(from);
    if (move && !strncmp(path, from, n) && path[n] == '/')
        return sl_err_set(err, SL_INVALID, "\"%s\" cannot be moved into itself", from);
    int rc = has_room(p, path, have, err);
    if (rc)
        return rc;
    struct sl_json *copy = sl_json_copy(have);
    if (move)
        rc = pointer_remove(p->doc, from, err);
    if (rc) {
        sl_json_unref(copy);
        return rc;
    }
    return pointer_add(&p->doc, path, copy, err);
}

static int apply_one(struct patching *p, const struct sl_json *op, struct sl_err *err) {
    const char *verb = sl_json_get_str(op, "op", ""), *path = sl_json_get_str(op, "path", NULL);
    const struct sl_json *value = sl_json_get(op, "value");
    if (!path)
        return sl_err_set(err, SL_INVALID, "path is missing");
    bool add = !strcmp(verb, "add"), replace = !strcmp(verb, "replace"), test = !strcmp(verb, "test");
    if ((add || replace || test) && !value)
        return sl_err_set(err, SL_INVALID, "value is missing");
    if (add || replace) {
        int rc = has_room(p, path, value, err);
        if (rc)
            return rc;
        return add ? pointer_add(&p->doc, path, sl_json_copy(value), err)
                   : pointer_replace(&p->doc, path, sl_json_copy(value), err);
    }
    if (test) {
        const struct sl_json *have = pointer_get(p->doc, path, err);
        if (!have)
            return SL_INVALID;
        return sl_json_equal(have, value) ? 0 : sl_err_set(err, SL_INVALID, "test of \"%s\" failed", path);
    }
    if (!strcmp(verb, "remove"))
        return pointer_remove(p->doc, path, err);
    if (!strcmp(verb, "copy") || !strcmp(verb, "move"))
        return copy_or_move(p, verb[0] == 'm', sl_json_get_str(op, "from", NULL), path, err);
    return sl_err_set(err, SL_INVALID, "op \"%s\" is not known", verb);
}

int sl_json_patch_apply(struct sl_json **doc, const struct sl_json *patch, struct sl_err *err) {
    if (!sl_json_is_array(patch))
        return sl_err_set(err, SL_INVALID, "a JSON patch must be an array");
    struct patching work = {sl_json_copy(*doc), 0};
    (void)sl_json_measure(work.doc, &work.elements);
    SL_JSON_ITEMS (patch, e) {
        int rc = apply_one(&work, e.value, err);
        if (rc) {
            sl_json_unref(work.doc);
            sl_err_wrap(err, "operation %zu", e.i);
            return rc;
        }
    }
    sl_json_unref(*doc);
    *doc = work.doc;
    return 0;
}
