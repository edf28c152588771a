/*
 * Garbage collection of the in-memory cluster: dependents of dead owners, foreground and orphan deletion, and what was
 * in a deleted namespace. Its writes go through the front door, admission included, like those of the real controller.
 */
#include "memory_internal.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/base/mem.h"

void mem_gc_later(struct mem *m, enum mem_kind kind, const char *uid) {
    if (!m->faults.gc_off)
        mem_push(m, kind, m->now + m->faults.gc_ms)->text = sl_xstrdup(uid);
}

static const char *meta(const struct sl_json *object, const char *field) {
    return sl_json_get_str(sl_json_get(object, "metadata"), field, "");
}
static bool is_deleting(const struct sl_json *object) {
    return *meta(object, "deletionTimestamp") != 0;
}

static void gc_write(struct mem *m, struct mem_object *o, enum sl_verb verb, const struct sl_json *body) {
    SL_AUTO_JSON *ret = NULL;
    SL_AUTO_FREE char *ns = sl_xstrdup(meta(o->json, "namespace")), *name = sl_xstrdup(meta(o->json, "name"));
    struct mem_write w = {.verb = verb,
                          .resource = o->table->resource,
                          .ns = *ns ? ns : NULL,
                          .name = name,
                          .body = body,
                          .user = MEM_USER_GC};
    int status;
    struct sl_err err = SL_ERR_INIT;
    if (mem_do(m, &w, &ret, &status,
               &err)) /* as the real one: a refused deletion is tried again when something changes */
        return;
}

static void remove_from(struct mem *m, struct mem_object *o, const char *list_name, const char *key,
                        const char *value) {
    SL_AUTO_JSON *body = sl_json_copy(o->json);
    struct sl_json *items = sl_json_mut(sl_json_mut(body, "metadata"), list_name);
    for (size_t i = sl_json_len(items); i-- > 0;) {
        const struct sl_json *item = sl_json_at(items, i);
        if (!strcmp(sl_json_str(key ? sl_json_get(item, key) : item, ""), value))
            sl_json_remove(items, i);
    }
    gc_write(m, o, SL_UPDATE, body);
}

static bool owner_lives(struct mem *m, const struct sl_json *reference, bool *ret_waiting) {
    const struct mem_object *owner = sl_map_get(&m->by_uid, sl_json_get_str(reference, "uid", ""));
    if (owner && is_deleting(owner->json) && mem_has_finalizer(owner->json, "foregroundDeletion")) {
        *ret_waiting = true;
        return false;
    }
    return owner != NULL;
}

void mem_gc_object(struct mem *m, const char *uid) {
    struct mem_object *o = sl_map_get(&m->by_uid, uid);
    const struct sl_json *owners = o ? sl_json_path(o->json, "metadata.ownerReferences") : NULL;
    size_t alive = 0;
    bool waiting = false;
    if (!sl_json_len(owners))
        return;
    SL_JSON_ITEMS (owners, e) {
        alive += owner_lives(m, e.value, &waiting);
    }
    if (!alive) {
        gc_write(m, o, SL_DELETE, NULL);
        return;
    }
    SL_AUTO_JSON *held = sl_json_ref(owners);
    SL_JSON_ITEMS (held, e) {
        o = sl_map_get(&m->by_uid, uid);
        const char *dead = sl_json_get_str(e.value, "uid", "");
        if (o && !sl_map_has(&m->by_uid, dead))
            remove_from(m, o, "ownerReferences", "uid", dead);
    }
}

void mem_gc_owner(struct mem *m, const char *uid) {
    const struct mem_uids *d = sl_map_get(&m->dependents, uid);
    size_t n = d ? d->count : 0;
    SL_AUTO_FREE char **uids = sl_xalloc((n + 1) * sizeof *uids);
    for (size_t i = 0; i < n; i++)
        uids[i] = sl_xstrdup(d->items[i]->uid);
    const struct mem_object *owner = sl_map_get(&m->by_uid, uid);
    bool orphan = owner && mem_has_finalizer(owner->json, "orphan");
    for (size_t i = 0; i < n; i++) {
        struct mem_object *o = sl_map_get(&m->by_uid, uids[i]);
        if (o && orphan)
            remove_from(m, o, "ownerReferences", "uid", uid);
        else if (o)
            mem_gc_object(m, uids[i]);
        free(uids[i]);
    }
    struct mem_object *now = sl_map_get(&m->by_uid, uid);
    if (now && is_deleting(now->json) && mem_has_finalizer(now->json, "orphan")) {
        remove_from(m, now, "finalizers", NULL, "orphan");
    } else if (now && is_deleting(now->json) && mem_has_finalizer(now->json, "foregroundDeletion")) {
        if (!sl_map_has(&m->dependents, uid)) /* else the last of them calls us again */
            remove_from(m, now, "finalizers", NULL, "foregroundDeletion");
    }
}

void mem_gc_namespace(struct mem *m, const char *ns) {
    for (size_t i = 0; i < m->table_count; i++) {
        struct mem_table *t = m->tables[i];
        SL_AUTO_FREE const char **keys = sl_map_sorted_keys(&t->objects);
        size_t n = t->objects.count;
        char **copies = sl_xalloc((n + 1) * sizeof *copies); /* deleting moves the map */
        for (size_t k = 0; k < n; k++)
            copies[k] = sl_xstrdup(keys[k]);
        for (size_t k = 0; k < n; k++) {
            struct mem_object *o = sl_map_get(&t->objects, copies[k]);
            if (o && t->resource->namespaced && !strcmp(meta(o->json, "namespace"), ns))
                gc_write(m, o, SL_DELETE, NULL);
            free(copies[k]);
        }
        free(copies);
    }
}
