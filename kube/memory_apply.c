/*
 * Server-side apply over plain trees. Ownership is a tree per field manager: exactly what it applied last. A list whose
 * field name is in list_keys is a map by that member; a list of the set kind is a set of strings; every other list is
 * one value.
 */
#include "memory_internal.h"

#include <string.h>

#include "sluice/base/mem.h"

static const struct {
    const char *field, *key; /* key "": a set of strings */
} list_keys[] = {
    {"conditions", "type"},      {"podSetAssignments", "name"},
    {"admissionChecks", "name"}, {"podSets", "name"},
    {"flavors", "name"},         {"reclaimablePods", "name"},
    {"ownerReferences", "uid"},  {"finalizers", ""},
    {"containers", "name"},      {"initContainers", "name"},
    {"volumes", "name"},         {"env", "name"},
    {"schedulingGates", "name"}, {"flavorsUsage", "name"},
    {"resources", "name"},       {"flavorsReservation", "name"},
};

static const char *list_key(const char *field, const struct sl_json *list) {
    if (!sl_json_is_array(list))
        return NULL;
    for (size_t i = 0; i < SL_COUNT(list_keys); i++) {
        if (strcmp(list_keys[i].field, field))
            continue;
        const struct sl_json *first = sl_json_at(list, 0);
        bool fits = !first || (*list_keys[i].key ? sl_json_is_object(first) : sl_json_type(first) == SL_JSON_STRING);
        return fits ? list_keys[i].key : NULL;
    }
    return NULL;
}

/* Index of the item of list that stands for the same thing as item; -1 when there is none. */
static int64_t find(const struct sl_json *list, const char *key, const struct sl_json *item) {
    const struct sl_json *want = *key ? sl_json_get(item, key) : item;
    SL_JSON_ITEMS (list, e) {
        if (want && sl_json_equal(*key ? sl_json_get(e.value, key) : e.value, want))
            return (int64_t)e.i;
    }
    return -1;
}
static const struct sl_json *find_item(const struct sl_json *list, const char *key, const struct sl_json *item) {
    int64_t i = find(list, key, item);
    return i < 0 ? NULL : sl_json_at(list, (size_t)i);
}

struct sl_json *mem_applied(const struct sl_json *body, const char *subresource, bool has_status) {
    static const char *const identity[] = {
        "name",       "namespace",         "uid",           "resourceVersion", "creationTimestamp",
        "generation", "deletionTimestamp", "managedFields", "generateName"};
    struct sl_json *applied = sl_json_new_object();
    bool status_only = !strcmp(subresource, "status");
    SL_JSON_EACH (body, e) {
        bool is_status = !strcmp(e.key, "status");
        if (!strcmp(e.key, "apiVersion") || !strcmp(e.key, "kind") || (status_only && !is_status) ||
            (!status_only && is_status && has_status))
            continue;
        sl_json_set(applied, e.key, sl_json_copy(e.value));
    }
    struct sl_json *meta = sl_json_mut(applied, "metadata");
    for (size_t i = 0; i < SL_COUNT(identity); i++)
        sl_json_del(meta, identity[i]);
    return applied;
}

void mem_apply_merge(struct sl_json *into, const struct sl_json *from) {
    SL_JSON_EACH (from, e) {
        if (sl_json_is_null(e.value))
            continue;
        struct sl_json *have = sl_json_mut(into, e.key);
        const char *key = list_key(e.key, e.value);
        if (sl_json_is_object(e.value) && sl_json_is_object(have)) {
            mem_apply_merge(have, e.value);
        } else if (key && sl_json_is_array(have)) {
            SL_JSON_ITEMS (e.value, item) {
                int64_t i = find(have, key, item.value);
                if (i < 0)
                    sl_json_append(have, sl_json_copy(item.value));
                else if (*key)
                    mem_apply_merge(sl_json_mut_at(have, (size_t)i), item.value);
            }
        } else {
            sl_json_set(into, e.key, sl_json_copy(e.value));
        }
    }
}

static void give_up(struct sl_json *live, const struct sl_json *before, const struct sl_json *applied,
                    const struct sl_json *kept);

static void give_up_items(struct sl_json *live, const char *key, const struct sl_json *before,
                          const struct sl_json *applied, const struct sl_json *kept) {
    SL_JSON_ITEMS (before, e) {
        int64_t i = find(live, key, e.value);
        if (i < 0)
            continue;
        const struct sl_json *now = find_item(applied, key, e.value), *others = find_item(kept, key, e.value);
        if (!now && !others)
            sl_json_remove(live, (size_t)i);
        else if (*key)
            give_up(sl_json_mut_at(live, (size_t)i), e.value, now, others);
    }
}

static void give_up(struct sl_json *live, const struct sl_json *before, const struct sl_json *applied,
                    const struct sl_json *kept) {
    SL_JSON_EACH (before, e) {
        struct sl_json *have = sl_json_mut(live, e.key);
        const struct sl_json *now = sl_json_get(applied, e.key), *others = sl_json_get(kept, e.key);
        const char *key = list_key(e.key, e.value);
        if (!have)
            continue;
        if (sl_json_is_object(e.value) && sl_json_is_object(have)) {
            give_up(have, e.value, now, others);
            if (!now && !others && !sl_json_len(have))
                sl_json_del(live, e.key);
        } else if (key && sl_json_is_array(have)) {
            give_up_items(have, key, e.value, now, others);
            if (!now && !others && !sl_json_len(have))
                sl_json_del(live, e.key);
        } else if (!now && !others) {
            sl_json_del(live, e.key);
        }
    }
}

struct sl_json *mem_apply(struct sl_json *live, const struct sl_json *before, const struct sl_json *applied,
                          const struct sl_json *kept) {
    if (before)
        give_up(live, before, applied, kept);
    mem_apply_merge(live, applied);
    return live;
}

bool mem_apply_conflict(const struct sl_json *mine, const struct sl_json *theirs, struct sl_buf *path) {
    SL_JSON_EACH (mine, e) {
        const struct sl_json *other = sl_json_get(theirs, e.key);
        const char *key = list_key(e.key, e.value);
        size_t len = path->len;
        if (!other || sl_json_is_null(e.value))
            continue;
        sl_buf_printf(path, ".%s", e.key);
        if (sl_json_is_object(e.value) && sl_json_is_object(other)) {
            if (mem_apply_conflict(e.value, other, path))
                return true;
        } else if (key && sl_json_is_array(other)) {
            SL_JSON_ITEMS (e.value, item) {
                const struct sl_json *same = find_item(other, key, item.value);
                if (same && *key && mem_apply_conflict(item.value, same, path))
                    return true;
            }
        } else if (!sl_json_equal(e.value, other)) {
            return true;
        }
        if (path->len > len) {
            path->len = len;
            path->data[len] = 0;
        }
    }
    return false;
}

/* Keys of an object as an array of copies, since the object changes while we go through it. Ends with NULL. */
static char **keys_of(const struct sl_json *object) {
    char **keys = sl_xalloc((sl_json_len(object) + 1) * sizeof *keys);
    size_t n = 0;
    SL_JSON_EACH (object, e) {
        keys[n++] = sl_xstrdup(e.key);
    }
    return keys;
}

void mem_apply_disown(struct sl_json *record, const struct sl_json *now, bool absent_too) {
    SL_AUTO_FREE char **keys = keys_of(record);
    for (size_t k = 0; keys[k]; k++) {
        SL_AUTO_FREE char *name = keys[k];
        struct sl_json *mine = sl_json_mut(record, name);
        const struct sl_json *other = sl_json_get(now, name);
        const char *key = list_key(name, mine);
        if (!other) {
            if (absent_too)
                sl_json_del(record, name);
        } else if (sl_json_is_object(mine) && sl_json_is_object(other)) {
            mem_apply_disown(mine, other, absent_too);
        } else if (key && sl_json_is_array(other)) {
            for (size_t i = sl_json_len(mine); i-- > 0;) {
                const struct sl_json *same = find_item(other, key, sl_json_at(mine, i));
                if (!same && absent_too)
                    sl_json_remove(mine, i);
                else if (same && *key)
                    mem_apply_disown(sl_json_mut_at(mine, i), same, absent_too);
            }
        } else if (!sl_json_equal(mine, other)) {
            sl_json_del(record, name);
        }
    }
}
