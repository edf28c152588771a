/*
 * Pod set infos of an admission. Every key remembers which source gave it, so that a second value is refused with both
 * named; nothing silently wins.
 */
#include "sluice/flavors/inject.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/api/decode.h"
#include "sluice/api/fielderr.h"
#include "sluice/api/names.h"
#include "sluice/base/mem.h"

struct podset_info {
    struct sl_json *object;  /* the result */
    struct sl_json *sources; /* "what key" -> who gave it */
};

/* One key of labels, annotations or nodeSelector. */
static int put(struct podset_info *info, const char *podset, const char *what, const char *key, const char *value,
               const char *source, struct sl_err *err) {
    struct sl_json *map = sl_json_make_object(info->object, what);
    const char *there = sl_json_get_str(map, key, NULL);
    SL_AUTO_FREE char *id = sl_xprintf("%s %s", what, key);
    if (there && strcmp(there, value))
        return sl_err_set(err, SL_CONFLICT, "pod set %s: %s \"%s\" is \"%s\" by %s, but \"%s\" by %s", podset, what,
                          key, there, sl_json_get_str(info->sources, id, "?"), value, source);
    if (!there) {
        sl_json_set_str(map, key, value);
        sl_json_set_str(info->sources, id, source);
    }
    return 0;
}

static void put_toleration(struct podset_info *info, struct sl_json *take) {
    struct sl_json *list = sl_json_make_array(info->object, "tolerations");
    SL_JSON_ITEMS (list, e)
        if (sl_toleration_same(e.value, take)) {
            sl_json_unref(take);
            return;
        }
    sl_json_append(list, take);
}

static struct sl_json *toleration_json(const struct sl_toleration *t) {
    struct sl_json *o = sl_json_new_object();
    const char *const names[] = {"key", "operator", "value", "effect"}, *const values[] = {t->key, t->op, t->value,
                                                                                           t->effect};
    for (size_t i = 0; i < SL_COUNT(names); i++)
        if (values[i] && *values[i])
            sl_json_set_str(o, names[i], values[i]);
    if (t->has_seconds)
        sl_json_set_int(o, "tolerationSeconds", t->seconds);
    return o;
}

static int put_flavor(struct podset_info *info, const char *podset, const struct sl_flavor *f, struct sl_err *err) {
    SL_AUTO_FREE char *source = sl_xprintf("flavor %s", f->name);
    for (size_t i = 0; i < f->node_labels.n; i++) {
        int code =
            put(info, podset, "nodeSelector", f->node_labels.items[i].key, f->node_labels.items[i].value, source, err);
        if (code < 0)
            return code;
    }
    for (size_t i = 0; i < f->n_tolerations; i++)
        put_toleration(info, toleration_json(&f->tolerations[i]));
    return 0;
}

static int put_update(struct podset_info *info, const char *podset, const struct sl_json *update, const char *check,
                      struct sl_err *err) {
    static const char *const maps[] = {"labels", "annotations", "nodeSelector"};
    SL_AUTO_FREE char *source = sl_xprintf("admission check %s", check);
    for (size_t i = 0; i < SL_COUNT(maps); i++)
        SL_JSON_EACH (sl_json_get(update, maps[i]), e) {
            int code = put(info, podset, maps[i], e.key, sl_json_str(e.value, ""), source, err);
            if (code < 0)
                return code;
        }
    SL_JSON_ITEMS (sl_json_get(update, "tolerations"), e)
        put_toleration(info, sl_json_copy(e.value));
    return 0;
}

static int put_updates(struct podset_info *info, const char *podset, const struct sl_json *checks, struct sl_err *err) {
    SL_JSON_ITEMS (checks, check)
        SL_JSON_ITEMS (sl_json_get(check.value, "podSetUpdates"), update)
            if (!strcmp(sl_json_get_str(update.value, "name", ""), podset)) {
                int code = put_update(info, podset, update.value, sl_json_get_str(check.value, "name", "?"), err);
                if (code < 0)
                    return code;
            }
    return 0;
}

static bool seen_before(const struct sl_podset_assignment *a, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!strcmp(a->flavors[i].flavor, a->flavors[n].flavor))
            return true;
    return false;
}

static int fill(const struct sl_inject_input *in, const struct sl_podset_assignment *a, struct podset_info *info,
                struct sl_err *err) {
    const char *podset = a->name;
    int code = 0;
    sl_json_set_str(info->object, "name", podset);
    sl_json_set_int(info->object, "count", a->count);
    code = put(info, podset, "labels", SL_LABEL_PODSET, podset, "Sluice", err);
    if (code == 0 && in->queue && *in->queue)
        code = put(info, podset, "labels", SL_LABEL_LOCAL_QUEUE_NAME, in->queue, "Sluice", err);
    if (code == 0 &&
        sl_is_dns_label(in->admission->cq)) /* a dotted or long name is no label value that clients could select by */
        code = put(info, podset, "labels", SL_LABEL_CLUSTER_QUEUE_NAME, in->admission->cq, "Sluice", err);
    if (code == 0)
        code = put(info, podset, "annotations", SL_ANNOTATION_WORKLOAD, in->workload, "Sluice", err);
    for (size_t i = 0; code == 0 && i < a->n_flavors; i++) {
        if (seen_before(a, i))
            continue;
        const struct sl_flavor *f = in->flavor(in->flavor_arg, a->flavors[i].flavor);
        if (!f)
            return sl_err_set(err, SL_NOT_FOUND, "pod set %s: flavor %s does not exist", podset, a->flavors[i].flavor);
        code = put_flavor(info, podset, f, err);
    }
    return code < 0 ? code : put_updates(info, podset, in->checks, err);
}

int sl_inject_podsets(const struct sl_inject_input *in, struct sl_json **ret, struct sl_err *err) {
    SL_AUTO_JSON *list = sl_json_new_array();
    for (size_t i = 0; i < in->admission->n_podsets; i++) {
        struct podset_info info = {sl_json_new_object(), sl_json_new_object()};
        int code = fill(in, &in->admission->podsets[i], &info, err);
        sl_json_unref(info.sources);
        sl_json_append(list, info.object);
        if (code < 0)
            return code;
    }
    *ret = SL_TAKE(list);
    return 0;
}

int sl_inject_compatible(const struct sl_flavor *const *flavors, size_t n, struct sl_err *err) {
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            for (size_t k = 0; k < flavors[i]->node_labels.n; k++) {
                const struct sl_label *l = &flavors[i]->node_labels.items[k];
                const char *other = sl_labels_get(&flavors[j]->node_labels, l->key);
                if (other && strcmp(other, l->value))
                    return sl_err_set(err, SL_CONFLICT,
                                      "flavors %s and %s cannot serve one pod: node label %s is \"%s\" and \"%s\"",
                                      flavors[i]->name, flavors[j]->name, l->key, l->value, other);
            }
    return 0;
}
