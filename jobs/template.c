/*
 * What every kind does with pod templates: copies for pod sets, injection at start and restoration after a stop as
 * merge patches, and the comparison of two templates. Null, absent and empty are the same thing in all of it, as they
 * are for the API server.
 */
#include "template.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/api/decode.h"
#include "sluice/api/quantity.h"
#include "sluice/base/map.h"
#include "sluice/base/mem.h"
#include "sluice/jobs/jobkind.h"

/* Duplicate names of environment variables: the first position and the last value count, as in the container. */
static void dedupe_env(struct sl_json *container) {
    struct sl_json *env = sl_json_mut(container, "env");
    struct sl_map seen = SL_MAP_INIT; /* name -> entry of `kept` */
    struct sl_json *kept = NULL;
    SL_JSON_ITEMS (env, e) {
        const char *name = sl_json_get_str(e.value, "name", NULL);
        if (name && sl_map_has(&seen, name)) {
            kept = sl_json_new_array();
            break;
        }
        if (name)
            sl_map_set(&seen, name, NULL);
    }
    if (!kept) { /* nearly always */
        sl_map_done(&seen, NULL);
        return;
    }
    sl_map_clear(&seen, NULL);
    SL_JSON_ITEMS (env, e) {
        const char *name = sl_json_get_str(e.value, "name", NULL);
        struct sl_json *first = name ? sl_map_get(&seen, name) : NULL;
        if (!first) {
            struct sl_json *copy = sl_json_copy(e.value);
            if (name)
                sl_map_set(&seen, name, copy);
            sl_json_append(kept, copy);
            continue;
        }
        sl_json_del(first, "value");
        sl_json_del(first, "valueFrom");
        SL_JSON_EACH (e.value, member)
            if (strcmp(member.key, "name"))
                sl_json_set(first, member.key, sl_json_copy(member.value));
    }
    sl_map_done(&seen, NULL);
    sl_json_set(container, "env", kept);
}

struct sl_json *sl_template_copy(const struct sl_json *template, const char *const *remove_labels) {
    struct sl_json *t = sl_json_new_object();
    const struct sl_json *metadata = sl_json_get(template, "metadata");
    static const char *const kept[] = {"name", "namespace", "labels", "annotations", "finalizers"};
    struct sl_json *m = sl_json_new_object();
    for (size_t i = 0; i < SL_COUNT(kept); i++) {
        const struct sl_json *v = sl_json_get(metadata, kept[i]);
        if (sl_json_is_null(v))
            continue;
        struct sl_json *copy = sl_json_copy(v);
        if (!strcmp(kept[i], "labels"))
            for (size_t j = 0; remove_labels && remove_labels[j]; j++)
                sl_json_del(copy, remove_labels[j]);
        if ((sl_json_is_object(copy) || sl_json_is_array(copy)) && !sl_json_len(copy))
            sl_json_unref(copy);
        else
            sl_json_set(m, kept[i], copy);
    }
    if (sl_json_len(m))
        sl_json_set(t, "metadata", m);
    else
        sl_json_unref(m);
    struct sl_json *spec = sl_json_copy(sl_json_get(template, "spec"));
    static const char *const lists[] = {"initContainers", "containers"};
    for (size_t i = 0; spec && i < SL_COUNT(lists); i++) {
        struct sl_json *list = sl_json_mut(spec, lists[i]);
        for (size_t j = 0; sl_json_is_array(list) && j < sl_json_len(list); j++)
            dedupe_env(sl_json_mut_at(list, j));
    }
    sl_json_set(t, "spec", spec ? spec : sl_json_new_object());
    return t;
}

const struct sl_json *sl_info_find(const struct sl_json *infos, const char *podset) {
    SL_JSON_ITEMS (infos, e)
        if (!strcmp(sl_json_get_str(e.value, "name", ""), podset))
            return e.value;
    return NULL;
}

/* Members of `bring` that `have` lacks go into patch.<name>; another value there is a conflict. */
static int inject_map(const struct sl_json *have, const struct sl_json *bring, const char *what, const char *name,
                      struct sl_json *patch, struct sl_err *err) {
    SL_JSON_EACH (bring, e) {
        const char *want = sl_json_str(e.value, "");
        const struct sl_json *there = sl_json_get(have, e.key);
        if (sl_json_is_null(there))
            continue;
        if (strcmp(sl_json_str(there, ""), want))
            return sl_err_set(err, SL_CONFLICT,
                              "%s \"%s\" of the pod template is \"%s\", but the admission needs \"%s\"", what, e.key,
                              sl_json_str(there, ""), want);
    }
    SL_JSON_EACH (bring, e)
        if (sl_json_is_null(sl_json_get(have, e.key)))
            sl_json_set_str(sl_json_make_object(patch, name), e.key, sl_json_str(e.value, ""));
    return 0;
}

static bool has_toleration(const struct sl_json *list, const struct sl_json *toleration) {
    SL_JSON_ITEMS (list, e)
        if (sl_toleration_same(e.value, toleration))
            return true;
    return false;
}

int sl_template_inject(const struct sl_json *template, const struct sl_json *info, struct sl_json *patch,
                       struct sl_err *err) {
    const struct sl_json *metadata = sl_json_get(template, "metadata"), *spec = sl_json_get(template, "spec");
    SL_AUTO_JSON *m = sl_json_new_object(), *s = sl_json_new_object();
    int code = inject_map(sl_json_get(metadata, "labels"), sl_json_get(info, "labels"), "label", "labels", m, err);
    if (code == 0)
        code = inject_map(sl_json_get(metadata, "annotations"), sl_json_get(info, "annotations"), "annotation",
                          "annotations", m, err);
    if (code == 0)
        code = inject_map(sl_json_get(spec, "nodeSelector"), sl_json_get(info, "nodeSelector"), "nodeSelector",
                          "nodeSelector", s, err);
    if (code < 0)
        return code;
    const struct sl_json *have = sl_json_get(spec, "tolerations");
    SL_AUTO_JSON *all = sl_json_is_array(have) ? sl_json_copy(have) : sl_json_new_array();
    size_t before = sl_json_len(all);
    SL_JSON_ITEMS (sl_json_get(info, "tolerations"), e)
        if (!has_toleration(all, e.value))
            sl_json_append(all, sl_json_copy(e.value));
    if (sl_json_len(all) > before)
        sl_json_set(s, "tolerations", SL_TAKE(all));
    if (sl_json_len(m))
        sl_json_set(patch, "metadata", SL_TAKE(m));
    if (sl_json_len(s))
        sl_json_set(patch, "spec", SL_TAKE(s));
    return 0;
}

static bool listed(const char *const *names, const char *name) {
    for (; names && *names; names++)
        if (!strcmp(*names, name))
            return true;
    return false;
}

/* patch.<name> so that the map becomes that of the original; keys in `keep` stay. */
static void restore_map(const struct sl_json *current, const struct sl_json *original, const char *name,
                        const char *const *keep, struct sl_json *patch) {
    const struct sl_json *have = sl_json_get(current, name), *want = sl_json_get(original, name);
    SL_JSON_EACH (have, e)
        if (!listed(keep, e.key) && sl_json_is_null(sl_json_get(want, e.key)) && !sl_json_is_null(e.value))
            sl_json_set(sl_json_make_object(patch, name), e.key, sl_json_new_null());
    SL_JSON_EACH (want, e)
        if (!listed(keep, e.key) && !sl_json_equal(sl_json_get(have, e.key), e.value))
            sl_json_set(sl_json_make_object(patch, name), e.key, sl_json_copy(e.value));
}

static void restore_list(const struct sl_json *current, const struct sl_json *original, const char *name,
                         struct sl_json *patch) {
    const struct sl_json *have = sl_json_get(current, name), *want = sl_json_get(original, name);
    if ((!sl_json_len(have) && !sl_json_len(want)) || sl_json_equal(have, want))
        return;
    sl_json_set(patch, name, sl_json_len(want) ? sl_json_copy(want) : sl_json_new_null());
}

struct sl_json *sl_template_restore(const struct sl_json *current, const struct sl_json *original,
                                    const char *const *keep_labels) {
    struct sl_json *patch = sl_json_new_object();
    SL_AUTO_JSON *m = sl_json_new_object(), *s = sl_json_new_object();
    const struct sl_json *have = sl_json_get(current, "metadata"), *want = sl_json_get(original, "metadata");
    restore_map(have, want, "labels", keep_labels, m);
    restore_map(have, want, "annotations", NULL, m);
    have = sl_json_get(current, "spec");
    want = sl_json_get(original, "spec");
    restore_map(have, want, "nodeSelector", NULL, s);
    restore_list(have, want, "tolerations", s);
    restore_list(have, want, "schedulingGates", s);
    if (sl_json_len(m))
        sl_json_set(patch, "metadata", SL_TAKE(m));
    if (sl_json_len(s))
        sl_json_set(patch, "spec", SL_TAKE(s));
    return patch;
}

static bool empty(const struct sl_json *j) {
    switch (sl_json_type(j)) {
    case SL_JSON_NONE:
    case SL_JSON_NULL: return true;
    case SL_JSON_ARRAY:
    case SL_JSON_OBJECT: return sl_json_len(j) == 0;
    case SL_JSON_BOOL:
    case SL_JSON_INT:
    case SL_JSON_REAL:
    case SL_JSON_STRING: break;
    }
    return false;
}

static bool same_quantity(const struct sl_json *a, const struct sl_json *b) {
    struct sl_quantity x, y;
    return sl_quantity_from_json(a, &x, NULL) == 0 && sl_quantity_from_json(b, &y, NULL) == 0 &&
           sl_quantity_compare(&x, &y) == 0;
}

static bool quantities(const char *key) {
    return !strcmp(key, "requests") || !strcmp(key, "limits");
}

static bool same(const struct sl_json *a, const struct sl_json *b, bool of_quantities) {
    if (empty(a) && empty(b))
        return true;
    if (sl_json_is_object(a) && sl_json_is_object(b)) {
        SL_JSON_EACH (a, e)
            if (!same(e.value, sl_json_get(b, e.key), quantities(e.key)) &&
                !(of_quantities && same_quantity(e.value, sl_json_get(b, e.key))))
                return false;
        SL_JSON_EACH (b, e)
            if (!empty(e.value) && !sl_json_get(a, e.key))
                return false;
        return true;
    }
    if (sl_json_is_array(a) && sl_json_is_array(b)) {
        if (sl_json_len(a) != sl_json_len(b))
            return false;
        SL_JSON_ITEMS (a, e)
            if (!same(e.value, sl_json_at(b, e.i), false))
                return false;
        return true;
    }
    return sl_json_equal(a, b);
}

bool sl_template_same_part(const struct sl_json *a, const struct sl_json *b, const char *member) {
    return same(sl_json_get(a, member), sl_json_get(b, member), false);
}
