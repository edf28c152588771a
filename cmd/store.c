/* Records of Jobs and Workloads; see store.h. */
#include "store.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/api/names.h"
#include "sluice/base/mem.h"

#define GRAVE_MS (10 * 60 * 1000)

static void record_free(void *p) {
    struct record *r = p;
    char *owned[] = {r->key,       r->ns,         r->name,       r->uid,   r->rv,          r->text,
                     r->owner_uid, r->owner_kind, r->owner_name, r->queue, r->reserved_in, r->failed_to_start,
                     r->wants,     r->told};
    for (size_t i = 0; i < SL_COUNT(owned); i++)
        free(owned[i]);
    sl_json_unref(r->said);
    free(r);
}

void store_done(struct store *s) {
    sl_map_done(&s->by_uid, NULL);
    sl_map_done(&s->by_key, record_free);
    sl_map_done(&s->graves, NULL);
    s->text_bytes = 0;
}

int compare_versions(const char *a, const char *b) {
    size_t n = strlen(a), m = strlen(b);
    return n != m ? (n < m ? -1 : 1) : strcmp(a, b);
}

static void replace(char **slot, const char *text) {
    if (*slot && text && !strcmp(*slot, text))
        return;
    char *copy = sl_xstrdup(text);
    free(*slot);
    *slot = copy;
}

static void remember(struct store *s, struct record *r, const struct sl_json *object) {
    struct sl_buf b = SL_BUF_INIT(16u << 20);
    if (sl_json_get(sl_json_get(object, "metadata"), "managedFields")) {
        SL_AUTO_JSON *copy = sl_json_copy(object);
        sl_json_del(sl_json_mut(copy, "metadata"), "managedFields");
        sl_json_dump(copy, false, &b);
    } else {
        sl_json_dump(object, false, &b);
    }
    s->text_bytes -= r->len;
    free(r->text);
    r->len = b.len;
    r->text = sl_xstrndup(sl_buf_text(&b), b.len);
    s->text_bytes += r->len;
    sl_buf_done(&b);
    const struct sl_json *meta = sl_json_get(object, "metadata");
    replace(&r->rv, sl_json_get_str(meta, "resourceVersion", ""));
    replace(&r->queue, sl_json_path_str(object, "spec.queueName", ""));
    replace(&r->reserved_in, sl_json_path_str(object, "status.admission.clusterQueue", NULL));
    const struct sl_json *owner = NULL;
    SL_JSON_ITEMS (sl_json_get(meta, "ownerReferences"), o)
        if (sl_json_get_bool(o.value, "controller", false))
            owner = o.value;
    const char *job_uid = sl_json_get_str(sl_json_get(meta, "labels"), SL_LABEL_JOB_UID, NULL);
    r->left_behind = job_uid && !sl_json_len(sl_json_get(meta, "ownerReferences"));
    replace(&r->owner_uid, r->left_behind ? job_uid : sl_json_get_str(owner, "uid", NULL));
    replace(&r->owner_kind, sl_json_get_str(owner, "kind", NULL));
    replace(&r->owner_name, sl_json_get_str(owner, "name", NULL));
}

struct record *store_put(struct store *s, const struct sl_json *object, bool *ret_new) {
    *ret_new = false;
    const struct sl_json *meta = sl_json_get(object, "metadata");
    const char *uid = sl_json_get_str(meta, "uid", NULL), *name = sl_json_get_str(meta, "name", NULL),
               *ns = sl_json_get_str(meta, "namespace", "");
    if (!uid || !name || sl_map_has(&s->graves, uid))
        return NULL;
    struct record *r = store_by_uid(s, uid);
    if (r) {
        if (compare_versions(sl_json_get_str(meta, "resourceVersion", ""), r->rv) <= 0)
            return r;
        remember(s, r, object);
        *ret_new = true;
        return r;
    }
    if (store_get(s, ns, name))
        return NULL; /* another life of the same name is still known: its end comes first */
    r = sl_xalloc(sizeof *r);
    r->deadline_ms = -1;
    r->ns = sl_xstrdup(ns);
    r->name = sl_xstrdup(name);
    r->uid = sl_xstrdup(uid);
    r->key = sl_xprintf("%s/%s", ns, name);
    remember(s, r, object);
    sl_map_set(&s->by_key, r->key, r);
    sl_map_set(&s->by_uid, r->uid, r);
    *ret_new = true;
    return r;
}

struct record *store_get(const struct store *s, const char *ns, const char *name) {
    char key[640];
    size_t n = strlen(ns), m = strlen(name);
    if (n + m + 2 > sizeof key)
        return NULL;
    memcpy(key, ns, n);
    key[n] = '/';
    memcpy(key + n + 1, name, m + 1);
    return sl_map_get(&s->by_key, key);
}

struct record *store_by_uid(const struct store *s, const char *uid) {
    return sl_map_get(&s->by_uid, uid);
}

bool store_knew(const struct store *s, const char *uid) {
    return sl_map_has(&s->graves, uid);
}

void store_remove(struct store *s, struct record *r, int64_t now_ms) {
    sl_map_set(&s->graves, r->uid, (void *)(intptr_t)(now_ms / 1000 + 1));
    sl_map_del(&s->by_uid, r->uid);
    if (sl_map_get(&s->by_key, r->key) == r)
        sl_map_del(&s->by_key, r->key);
    s->text_bytes -= r->len;
    record_free(r);
}

void store_bury_old(struct store *s, int64_t now_ms) {
    SL_MAP_EACH (&s->graves, e) {
        if ((int64_t)(intptr_t)e->value * 1000 + GRAVE_MS < now_ms) {
            SL_AUTO_FREE char *uid = sl_xstrdup(e->key);
            sl_map_del(&s->graves, uid);
        }
    }
}

struct sl_json *record_tree(const struct record *r) {
    struct sl_json *tree = NULL;
    struct sl_err err = SL_ERR_INIT;
    if (sl_json_parse(r->text, r->len, 16u << 20, &tree, &err))
        sl_assert_failed(err.text, __FILE__, __LINE__); /* it was dumped from a tree of ours */
    return tree;
}
