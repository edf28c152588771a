/*
 * Objects of the in-memory cluster: what kube-apiserver does between a request and etcd. One counter gives
 * resourceVersions. Every stored object is found by table and key, by uid, and, for its dependents, by the uids of its
 * owners; put() and drop() keep the three in step.
 */
#include "memory_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "selector.h"
#include "sluice/base/clock.h"
#include "sluice/base/mem.h"

static const char *const without_status[] = {
    "configmaps",
    "secrets",
    "serviceaccounts",
    "events",
    "leases",
    "endpoints",
    "endpointslices",
    "limitranges",
    "podtemplates",
    "workloadpriorityclasses",
    "priorityclasses",
    "runtimeclasses",
    "resourceflavors",
    "topologies",
    "provisioningrequestconfigs",
    "multikueueconfigs",
    "roles",
    "rolebindings",
    "clusterroles",
    "clusterrolebindings",
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
    "storageclasses",
    "clustertrainingruntimes",
    "trainingruntimes",
};

struct mem_table *mem_table(struct mem *m, const struct sl_resource *r) {
    for (size_t i = 0; i < m->table_count; i++) {
        const struct sl_resource *have = m->tables[i]->resource;
        if (have == r || (!strcmp(have->plural, r->plural) && !strcmp(have->group, r->group)))
            return m->tables[i];
    }
    struct mem_table *t = sl_xalloc(sizeof *t);
    t->id = sl_xprintf("%s/%s", r->group, r->plural);
    t->resource = r;
    t->has_status = true;
    for (size_t i = 0; i < SL_COUNT(without_status); i++)
        t->has_status = t->has_status && strcmp(without_status[i], r->plural) != 0;
    static const char *const ungenerated[] = {"coordination.k8s.io", "events.k8s.io", "rbac.authorization.k8s.io"};
    t->has_generation = *r->group || !strcmp(r->plural, "pods");
    for (size_t i = 0; i < SL_COUNT(ungenerated); i++)
        t->has_generation = t->has_generation && strcmp(ungenerated[i], r->group) != 0;
    SL_GROW(m->tables, m->table_cap, m->table_count);
    m->tables[m->table_count++] = t;
    return t;
}

char *mem_key(const char *ns, const char *name) {
    return sl_xprintf("%s\x01%s", ns ? ns : "", name);
}

struct mem_object *mem_find(struct mem *m, const struct sl_resource *r, const char *ns, const char *name) {
    SL_AUTO_FREE char *key = mem_key(r->namespaced ? ns : NULL, name ? name : "");
    return sl_map_get(&mem_table(m, r)->objects, key);
}

struct mem_object *const *mem_sorted(struct mem_table *t) {
    if (!t->sorted) {
        SL_AUTO_FREE const char **keys = sl_map_sorted_keys(&t->objects);
        t->sorted = sl_xalloc((t->objects.count + 1) * sizeof *t->sorted);
        for (size_t i = 0; i < t->objects.count; i++)
            t->sorted[i] = sl_map_get(&t->objects, keys[i]);
    }
    return t->sorted;
}

static const char *meta(const struct sl_json *object, const char *field) {
    return sl_json_get_str(sl_json_get(object, "metadata"), field, "");
}

/* ---- errors ---- */

static int http_status(int code) {
    switch (code) {
    case SL_NOT_FOUND: return 404;
    case SL_CONFLICT:
    case SL_EXISTS: return 409;
    case SL_GONE: return 410;
    case SL_INVALID: return 422;
    case SL_DENIED: return 403;
    case SL_TOO_BIG: return 413;
    default: return code ? 500 : 200;
    }
}

static int fail(struct sl_err *err, enum sl_code code, const struct mem_write *w, const char *what) {
    return sl_err_set(err, code, "%s%s%s \"%s\" %s", w->resource->plural, *w->resource->group ? "." : "",
                      w->resource->group, w->name ? w->name : "", what);
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Value of one parameter of a query text, decoded; NULL when absent. free() */
static char *parameter(const char *query, const char *name) {
    size_t n = strlen(name);
    for (const char *p = query; p && *p; p = strchr(p, '&') ? strchr(p, '&') + 1 : NULL) {
        if (strncmp(p, name, n) || p[n] != '=')
            continue;
        size_t len = strcspn(p + n + 1, "&");
        char *text = sl_xstrndup(p + n + 1, len), *out = text;
        for (const char *in = text; *in; in++) {
            int high = *in == '%' ? hex_digit(in[1]) : -1, low = high < 0 ? -1 : hex_digit(in[2]);
            if (low >= 0) {
                *out++ = (char)(high * 16 + low);
                in += 2;
            } else {
                *out++ = (char)(*in == '+' ? ' ' : *in);
            }
        }
        *out = 0;
        return text;
    }
    return NULL;
}

/* ---- the three indexes ---- */

bool mem_has_finalizer(const struct sl_json *object, const char *name) {
    SL_JSON_ITEMS (sl_json_path(object, "metadata.finalizers"), e) {
        if (!strcmp(sl_json_str(e.value, ""), name))
            return true;
    }
    return false;
}

static void unlink_owner(struct mem *m, const char *uid, const struct mem_object *o) {
    struct mem_uids *d = sl_map_get(&m->dependents, uid);
    if (!d)
        return;
    for (size_t i = 0; i < d->count; i++) {
        if (d->items[i] == o) {
            d->items[i] = d->items[--d->count];
            break;
        }
    }
    if (!d->count) {
        sl_map_del(&m->dependents, uid);
        free(d->items);
        free(d);
    }
}

static void link_owner(struct mem *m, const char *uid, struct mem_object *o) {
    struct mem_uids *d = sl_map_get(&m->dependents, uid);
    if (!d) {
        d = sl_xalloc(sizeof *d);
        sl_map_set(&m->dependents, uid, d);
    }
    SL_GROW(d->items, d->cap, d->count);
    d->items[d->count++] = o;
}

static void index_owners(struct mem *m, struct mem_object *o, const struct sl_json *old, const struct sl_json *now) {
    const struct sl_json *a = sl_json_path(old, "metadata.ownerReferences"),
                         *b = sl_json_path(now, "metadata.ownerReferences");
    if (sl_json_equal(a, b))
        return;
    SL_JSON_ITEMS (a, e) {
        const char *uid = sl_json_get_str(e.value, "uid", "");
        unlink_owner(m, uid, o);
        const struct mem_object *owner = sl_map_get(&m->by_uid, uid);
        if (owner && mem_has_finalizer(owner->json, "foregroundDeletion")) /* it waits for its dependents */
            mem_gc_later(m, MEM_GC_OWNER, uid);
    }
    SL_JSON_ITEMS (b, e) {
        link_owner(m, sl_json_get_str(e.value, "uid", ""), o);
    }
    if (sl_json_len(b))
        mem_gc_later(m, MEM_GC_OBJECT, o->uid);
}

static void object_free(struct mem_object *o) {
    sl_json_unref(o->json);
    SL_MAP_EACH (&o->applied, e) {
        sl_json_unref(e->value);
    }
    sl_map_done(&o->applied, NULL);
    free(o->key);
    free(o->uid);
    free(o);
}

static void stamp(struct mem *m, struct sl_json *object) {
    char rv[32];
    snprintf(rv, sizeof rv, "%" PRIu64, ++m->rv);
    sl_json_set_str(sl_json_make_object(object, "metadata"), "resourceVersion", rv);
}

/* Stores take as the new state of o (or as a new object when o is NULL), and tells everybody. */
static struct mem_object *put(struct mem *m, struct mem_table *t, struct mem_object *o, struct sl_json *take) {
    stamp(m, take);
    struct sl_json *old = NULL;
    if (!o) {
        o = sl_xalloc(sizeof *o);
        o->table = t;
        o->key = mem_key(t->resource->namespaced ? meta(take, "namespace") : NULL, meta(take, "name"));
        o->uid = sl_xstrdup(meta(take, "uid"));
        sl_map_set(&t->objects, o->key, o);
        free(SL_TAKE(t->sorted));
        sl_map_set(&m->by_uid, o->uid, o);
    } else {
        old = o->json;
    }
    o->json = take;
    index_owners(m, o, old, take);
    mem_notify(m, t, o->key, old, take);
    sl_json_unref(old);
    if (!strcmp(t->id, "batch/jobs"))
        mem_job_changed(m, o);
    return o;
}

/* Takes last, the final state. */
static struct sl_json *drop(struct mem *m, struct mem_object *o, struct sl_json *last) {
    struct mem_table *t = o->table;
    stamp(m, last);
    index_owners(m, o, o->json, NULL);
    sl_map_del(&t->objects, o->key);
    free(SL_TAKE(t->sorted));
    sl_map_del(&m->by_uid, o->uid);
    mem_notify(m, t, o->key, last, NULL);
    if (sl_map_has(&m->dependents, o->uid))
        mem_gc_later(m, MEM_GC_OWNER, o->uid);
    object_free(o);
    if (!strcmp(t->id, "/namespaces"))
        mem_gc_namespace(m, meta(last, "name"));
    return last;
}

/* ---- admission ---- */

static struct sl_json *kind_of(const struct sl_resource *r, const char *last_key, const char *last) {
    struct sl_json *j = sl_json_new_object();
    sl_json_set_str(j, "group", r->group);
    sl_json_set_str(j, "version", r->version);
    sl_json_set_str(j, last_key, last);
    return j;
}

static char *new_uid(struct mem *m) {
    uint64_t a = mem_random(m), b = mem_random(m);
    return sl_xprintf("%08x-%04x-4%03x-%04x-%012" PRIx64, (unsigned)(a >> 32), (unsigned)(a >> 16) & 0xffff,
                      (unsigned)a & 0xfff, 0x8000 | ((unsigned)(b >> 48) & 0x3fff), b & UINT64_C(0xffffffffffff));
}

static struct sl_json *make_review(struct mem *m, const struct mem_write *w, const char *operation, bool dry_run,
                                   const struct sl_json *old, const struct sl_json *now) {
    struct sl_json *review = sl_json_new_object(), *req = sl_json_new_object(), *user = sl_json_new_object();
    const struct sl_resource *r = w->resource;
    SL_AUTO_FREE char *uid = new_uid(m);
    sl_json_set_str(review, "kind", "AdmissionReview");
    sl_json_set_str(review, "apiVersion", "admission.k8s.io/v1");
    sl_json_set_str(req, "uid", uid);
    sl_json_set(req, "kind", kind_of(r, "kind", r->kind));
    sl_json_set(req, "resource", kind_of(r, "resource", r->plural));
    sl_json_set(req, "requestKind", kind_of(r, "kind", r->kind));
    sl_json_set(req, "requestResource", kind_of(r, "resource", r->plural));
    if (*w->subresource) {
        sl_json_set_str(req, "subResource", w->subresource);
        sl_json_set_str(req, "requestSubResource", w->subresource);
    }
    const char *name = meta(now ? now : old, "name"), *ns = meta(now ? now : old, "namespace");
    if (*name)
        sl_json_set_str(req, "name", name);
    if (*ns)
        sl_json_set_str(req, "namespace", ns);
    sl_json_set_str(req, "operation", operation);
    sl_json_set_str(user, "username", w->user);
    struct sl_json *groups = sl_json_make_array(user, "groups");
    if (!strcmp(w->user, MEM_USER_ADMIN))
        sl_json_append(groups, sl_json_new_str("system:masters"));
    sl_json_append(groups, sl_json_new_str("system:authenticated"));
    sl_json_set(req, "userInfo", user);
    sl_json_set(req, "object", now ? sl_json_ref(now) : sl_json_new_null());
    sl_json_set(req, "oldObject", old ? sl_json_ref(old) : sl_json_new_null());
    sl_json_set_bool(req, "dryRun", dry_run);
    sl_json_set(review, "request", req);
    return review;
}

static int read_patch(const struct sl_json *response, struct sl_json **object, struct sl_err *err) {
    const char *text = sl_json_get_str(response, "patch", NULL);
    if (!text)
        return 0;
    SL_AUTO_BUF raw = SL_BUF_INIT(8 << 20);
    SL_AUTO_JSON *patch = NULL;
    int rc = sl_buf_add_unbase64(&raw, text, strlen(text), err);
    if (!rc)
        rc = sl_json_parse(sl_buf_text(&raw), raw.len, 8 << 20, &patch, err);
    return rc ? rc : sl_json_patch_apply(object, patch, err);
}

/* One call of the webhooks. *object may be replaced when mutating. */
static int review(struct mem *m, const struct mem_write *w, const char *operation, bool mutating, bool dry_run,
                  const struct sl_json *old, struct sl_json **object, int *ret_status, struct sl_err *err) {
    if (!m->options.admit)
        return 0;
    SL_AUTO_JSON *request = make_review(m, w, operation, dry_run, old, *object);
    SL_AUTO_JSON *answer = m->options.admit(m->options.payload, mutating, request);
    if (!answer)
        return 0;
    const struct sl_json *response = sl_json_get(answer, "response");
    const char *uid = sl_json_get_str(response, "uid", ""), *asked = sl_json_path_str(request, "request.uid", "");
    if (strcmp(uid, asked)) {
        *ret_status = 500;
        return sl_err_set(err, SL_UNAVAILABLE, "webhook answered with uid \"%s\" instead of \"%s\"", uid, asked);
    }
    if (!sl_json_get_bool(response, "allowed", false)) {
        int64_t status = sl_json_int(sl_json_path(response, "status.code"), 403);
        *ret_status = status < 400 || status > 599 ? 403 : (int)status;
        enum sl_code code = *ret_status == 422 || *ret_status == 400 ? SL_INVALID
                            : *ret_status == 409                     ? SL_CONFLICT
                            : *ret_status >= 500                     ? SL_UNAVAILABLE
                                                                     : SL_DENIED;
        return sl_err_set(err, code, "admission webhook denied the request: %s",
                          sl_json_path_str(response, "status.message", "without a reason"));
    }
    if (!mutating || !*object)
        return 0;
    int rc = read_patch(response, object, err);
    if (rc) {
        *ret_status = 500;
        sl_err_wrap(err, "patch of the webhook");
    }
    return rc;
}

/* ---- shaping: what a client may not choose ---- */

static void keep(struct sl_json *object, const struct sl_json *from, const char *key) {
    const struct sl_json *v = sl_json_get(from, key);
    if (v)
        sl_json_set(object, key, sl_json_ref(v)); /* stored trees do not change: sharing is safe */
    else
        sl_json_del(object, key);
}

static void identify(struct sl_json *object, const struct sl_resource *r) {
    SL_AUTO_FREE char *version = *r->group ? sl_xprintf("%s/%s", r->group, r->version) : sl_xstrdup(r->version);
    sl_json_set_str(object, "apiVersion", version);
    sl_json_set_str(object, "kind", r->kind);
}

/* A copy of a stored tree that shares with it all members but metadata and those that a or b (may be NULL) name: only
 * these may be changed. */
static struct sl_json *thaw(const struct sl_json *stored, const struct sl_json *a, const struct sl_json *b) {
    struct sl_json *copy = sl_json_copy_shallow(stored);
    sl_json_own(copy, "metadata");
    for (int turn = 0; turn < 2; turn++) {
        SL_JSON_EACH (turn ? b : a, e) {
            const struct sl_json *v = sl_json_get(stored, e.key);
            if (v)
                sl_json_set(copy, e.key, sl_json_copy(v));
        }
    }
    return copy;
}

/* Takes next; what of cur must stay, stays. */
static struct sl_json *shape_update(const struct mem_table *t, const char *subresource, const struct sl_json *cur,
                                    struct sl_json *next) {
    static const char *const fixed[] = {
        "name",       "namespace",         "uid",          "creationTimestamp",         "resourceVersion",
        "generation", "deletionTimestamp", "generateName", "deletionGracePeriodSeconds"};
    if (!strcmp(subresource, "status")) {
        struct sl_json *result = sl_json_copy_shallow(cur);
        sl_json_own(result, "metadata");
        keep(result, next, "status");
        sl_json_unref(next);
        return result;
    }
    if (t->has_status)
        keep(next, cur, "status");
    struct sl_json *m = sl_json_own(next, "metadata");
    if (!m)
        m = sl_json_make_object(next, "metadata");
    for (size_t i = 0; i < SL_COUNT(fixed); i++)
        keep(m, sl_json_get(cur, "metadata"), fixed[i]);
    static const char *const droppable[] = {"labels", "annotations", "finalizers", "ownerReferences"};
    for (size_t i = 0; i < SL_COUNT(droppable); i++) {
        const struct sl_json *v = sl_json_get(m, droppable[i]);
        if (v && !sl_json_len(v)) /* the server's structs leave out what is empty */
            sl_json_del(m, droppable[i]);
    }
    sl_json_del(m, "managedFields");
    sl_json_del(m, "selfLink");
    keep(next, cur, "apiVersion");
    keep(next, cur, "kind");
    return next;
}

static bool spec_differs(const struct mem_table *t, const struct sl_json *a, const struct sl_json *b) {
    for (int turn = 0; turn < 2; turn++) {
        SL_JSON_EACH (turn ? b : a, e) {
            if (!strcmp(e.key, "metadata") || (t->has_status && !strcmp(e.key, "status")))
                continue;
            if (!sl_json_equal(e.value, sl_json_get(turn ? a : b, e.key)))
                return true;
        }
    }
    return false;
}

static int preconditions(const struct mem_write *w, const struct sl_json *cur, const struct sl_json *want,
                         struct sl_err *err) {
    const char *rv = sl_json_get_str(want, "resourceVersion", ""), *uid = sl_json_get_str(want, "uid", "");
    if (*uid && strcmp(uid, meta(cur, "uid")))
        return fail(err, SL_CONFLICT, w, "is another object now (uid differs)");
    if (*rv && strcmp(rv, meta(cur, "resourceVersion")))
        return fail(err, SL_CONFLICT, w, "has been modified; the change was made for an older version");
    return 0;
}

static bool only_old_finalizers(const struct sl_json *cur, const struct sl_json *next) {
    const struct sl_json *had = sl_json_path(cur, "metadata.finalizers");
    SL_JSON_ITEMS (sl_json_path(next, "metadata.finalizers"), e) {
        bool found = false;
        SL_JSON_ITEMS (had, h) {
            found = found || sl_json_equal(h.value, e.value);
        }
        if (!found)
            return false;
    }
    return true;
}

static bool is_deleting(const struct sl_json *object) {
    return *meta(object, "deletionTimestamp") != 0;
}

/* Defaults go in in place, so the object must be all ours. The status subresource leaves alone what has defaults. */
static void set_defaults(struct mem *m, const struct mem_write *w, struct sl_json **object) {
    if (!m->options.set_defaults || *w->subresource)
        return;
    struct sl_json *own = sl_json_copy(*object);
    sl_json_unref(*object);
    *object = own;
    m->options.set_defaults(m->options.payload, w->resource, own);
}

static bool is_dry_run(const struct mem_write *w) {
    SL_AUTO_FREE char *value = parameter(w->query, "dryRun");
    return value && !strcmp(value, "All");
}

/* ---- writes ---- */

/* Everything from "proposed" (taken) to "stored". */
static int update(struct mem *m, const struct mem_write *w, struct mem_object *o, struct sl_json *proposed,
                  struct sl_json **ret, int *ret_status, struct sl_err *err) {
    struct mem_table *t = o->table;
    SL_AUTO_JSON *cur = sl_json_ref(o->json);
    SL_AUTO_JSON *next = NULL;
    bool dry = is_dry_run(w);
    int rc = preconditions(w, cur, sl_json_get(proposed, "metadata"), err);
    if (rc) {
        sl_json_unref(proposed);
        return rc;
    }
    next = shape_update(t, w->subresource, cur, proposed);
    set_defaults(m, w, &next);
    rc = review(m, w, "UPDATE", true, dry, cur, &next, ret_status, err);
    if (rc)
        return rc;
    next = shape_update(t, w->subresource, cur, SL_TAKE(next));
    set_defaults(m, w, &next);
    if (is_deleting(cur) && !only_old_finalizers(cur, next))
        return fail(err, SL_INVALID, w, "is being deleted: metadata.finalizers may not grow");
    rc = review(m, w, "UPDATE", false, dry, cur, &next, ret_status, err);
    if (rc)
        return rc;
    if (dry || sl_json_equal(cur, next)) {
        *ret = sl_json_ref(next);
        return 0;
    }
    if (t->has_generation && spec_differs(t, cur, next))
        sl_json_set_int(sl_json_mut(next, "metadata"), "generation",
                        sl_json_int(sl_json_path(cur, "metadata.generation"), 0) + 1);
    SL_MAP_EACH (&o->applied, e) {
        if (w->verb != SL_APPLY)
            mem_apply_disown(e->value, next, true);
    }
    if (is_deleting(next) && !sl_json_len(sl_json_path(next, "metadata.finalizers"))) {
        *ret = drop(m, o, sl_json_ref(next));
        return 0;
    }
    put(m, t, o, sl_json_ref(next));
    *ret = sl_json_ref(next);
    return 0;
}

static bool good_name(const char *name) {
    size_t n = strlen(name);
    return n && n <= 253 && !strpbrk(name, "/%\x01") && strcmp(name, ".") && strcmp(name, "..");
}

static int create(struct mem *m, const struct mem_write *w, struct sl_json **ret, int *ret_status, struct sl_err *err) {
    struct mem_table *t = mem_table(m, w->resource);
    static const char *const system_fields[] = {
        "uid",           "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds",
        "managedFields", "selfLink"};
    SL_AUTO_JSON *object = sl_json_copy(w->body);
    struct sl_json *md = sl_json_make_object(object, "metadata");
    if (!sl_json_is_object(md))
        return fail(err, SL_INVALID, w, "has no metadata object");
    if (*meta(object, "resourceVersion"))
        return fail(err, SL_INVALID, w, "may not have a resourceVersion when it is created");
    for (size_t i = 0; i < SL_COUNT(system_fields); i++)
        sl_json_del(md, system_fields[i]);
    sl_json_del(md, "resourceVersion");
    if (t->resource->namespaced) {
        const char *ns = w->ns ? w->ns : meta(object, "namespace");
        if (!*ns || (*meta(object, "namespace") && strcmp(ns, meta(object, "namespace"))))
            return fail(err, SL_INVALID, w, "has a namespace other than the request's, or none");
        SL_AUTO_FREE char *copy = sl_xstrdup(ns);
        sl_json_set_str(md, "namespace", copy);
    } else {
        sl_json_del(md, "namespace");
    }
    identify(object, w->resource);
    if (t->has_status && strcmp(t->id, "/nodes"))
        sl_json_del(object, "status");
    if (!*meta(object, "name") && *meta(object, "generateName")) {
        static const char letters[] = "bcdfghjklmnpqrstvwxz2456789";
        char suffix[6] = "";
        for (size_t i = 0; i < 5; i++)
            suffix[i] = letters[mem_random(m) % (sizeof letters - 1)];
        SL_AUTO_FREE char *name = sl_xprintf("%s%s", meta(object, "generateName"), suffix);
        sl_json_set_str(md, "name", name);
    }
    set_defaults(m, w, &object);
    bool dry = is_dry_run(w);
    int rc = review(m, w, "CREATE", true, dry, NULL, &object, ret_status, err);
    if (rc)
        return rc;
    set_defaults(m, w, &object);
    rc = review(m, w, "CREATE", false, dry, NULL, &object, ret_status, err);
    if (rc)
        return rc;
    struct mem_write named = *w;
    named.name = meta(object, "name");
    if (!good_name(named.name))
        return fail(err, SL_INVALID, &named, "has no valid metadata.name");
    if (mem_find(m, w->resource, meta(object, "namespace"), named.name))
        return fail(err, SL_EXISTS, &named, "already exists");
    SL_AUTO_FREE char *uid = new_uid(m);
    char now[SL_TIME_TEXT];
    md = sl_json_mut(object, "metadata");
    sl_json_set_str(md, "uid", uid);
    sl_json_set_str(md, "creationTimestamp", sl_time_format(mem_wall_ms(m), now));
    if (t->has_generation)
        sl_json_set_int(md, "generation", 1);
    if (!strcmp(t->id, "/pods") && !sl_json_get(object, "status"))
        sl_json_set_str(sl_json_make_object(object, "status"), "phase", "Pending");
    if (!dry)
        put(m, t, NULL, sl_json_ref(object));
    *ret = sl_json_ref(object);
    *ret_status = 201;
    return 0;
}

static char *record_key(const struct mem_write *w) {
    return sl_xprintf("%s\x01%s", w->field_manager, w->subresource);
}

/* Compares with what other managers applied; takes their fields over when forced. kept collects what they hold. */
static int settle_with_others(struct mem_object *o, const struct mem_write *w, const char *own,
                              const struct sl_json *applied, struct sl_json *kept, bool change, struct sl_err *err) {
    SL_MAP_EACH (&o->applied, e) {
        if (!strcmp(e->key, own))
            continue;
        SL_AUTO_BUF path = SL_BUF_INIT(4096);
        if (!w->force && mem_apply_conflict(applied, e->value, &path))
            return sl_err_set(err, SL_CONFLICT, "apply of %s conflicts with field manager \"%.*s\" in %s", w->name,
                              (int)strcspn(e->key, "\x01"), e->key, sl_buf_text(&path));
        if (change)
            mem_apply_disown(e->value, applied, false);
        mem_apply_merge(kept, e->value);
    }
    return 0;
}

static int apply(struct mem *m, const struct mem_write *w, struct sl_json **ret, int *ret_status, struct sl_err *err) {
    struct mem_table *t = mem_table(m, w->resource);
    if (!w->field_manager || !*w->field_manager)
        return fail(err, SL_INVALID, w, "was applied without a field manager");
    struct mem_object *o = mem_find(m, w->resource, w->ns, w->name);
    SL_AUTO_JSON *applied = mem_applied(w->body, w->subresource, t->has_status);
    SL_AUTO_FREE char *own = record_key(w);
    if (!o) {
        if (*w->subresource)
            return fail(err, SL_NOT_FOUND, w, "not found");
        if (*meta(w->body, "uid") || *meta(w->body, "resourceVersion"))
            return fail(err, SL_CONFLICT, w, "does not exist any more, but a uid or resourceVersion was given");
        struct mem_write made = *w;
        SL_AUTO_JSON *body = sl_json_copy(w->body);
        sl_json_set_str(sl_json_make_object(body, "metadata"), "name", w->name);
        made.body = body;
        int rc = create(m, &made, ret, ret_status, err);
        o = rc ? NULL : mem_find(m, w->resource, w->ns, w->name);
        if (o)
            sl_map_set(&o->applied, own, SL_TAKE(applied));
        return rc;
    }
    SL_AUTO_JSON *kept = sl_json_new_object();
    int rc = settle_with_others(o, w, own, applied, kept, false, err);
    if (rc)
        return rc;
    struct sl_json *next =
        mem_apply(thaw(o->json, applied, sl_map_get(&o->applied, own)), sl_map_get(&o->applied, own), applied, kept);
    struct sl_json *md = sl_json_make_object(next, "metadata");
    if (*meta(w->body, "resourceVersion"))
        sl_json_set_str(md, "resourceVersion", meta(w->body, "resourceVersion"));
    if (*meta(w->body, "uid"))
        sl_json_set_str(md, "uid", meta(w->body, "uid"));
    rc = update(m, w, o, next, ret, ret_status, err);
    o = mem_find(m, w->resource, w->ns, w->name); /* it may have been the last finalizer */
    if (rc || !o || is_dry_run(w))
        return rc;
    SL_AUTO_JSON *ignored = sl_json_new_object();
    rc = settle_with_others(o, w, own, applied, ignored, true, err);
    sl_json_unref(sl_map_set(&o->applied, own, SL_TAKE(applied)));
    return rc;
}

static int patch(struct mem *m, const struct mem_write *w, struct mem_object *o, struct sl_json **ret, int *ret_status,
                 struct sl_err *err) {
    struct sl_json *next =
        w->verb == SL_UPDATE ? sl_json_copy(w->body) : sl_json_ref(o->json); /* a JSON patch makes its own copy */
    if (w->verb == SL_MERGE_PATCH) {
        sl_json_unref(next);
        next = sl_json_merge_patch(thaw(o->json, w->body, NULL), w->body);
    }
    if (w->verb == SL_JSON_PATCH && sl_json_patch_apply(&next, w->body, err)) {
        sl_json_unref(next);
        return SL_INVALID;
    }
    const char *name = meta(next, "name"), *ns = meta(next, "namespace");
    if (!sl_json_is_object(next) || (*name && strcmp(name, meta(o->json, "name"))) ||
        (*ns && strcmp(ns, meta(o->json, "namespace")))) {
        sl_json_unref(next);
        return fail(err, SL_INVALID, w, "may not be renamed or moved");
    }
    return update(m, w, o, next, ret, ret_status, err);
}

static int delete_object(struct mem *m, const struct mem_write *w, struct mem_object *o, struct sl_json **ret,
                         int *ret_status, struct sl_err *err) {
    SL_AUTO_JSON *cur = sl_json_ref(o->json);
    struct sl_json *none = NULL;
    bool dry = is_dry_run(w) || sl_json_len(sl_json_get(w->body, "dryRun"));
    int rc = preconditions(w, cur, sl_json_get(w->body, "preconditions"), err);
    if (!rc)
        rc = review(m, w, "DELETE", true, dry, cur, &none, ret_status, err);
    if (!rc)
        rc = review(m, w, "DELETE", false, dry, cur, &none, ret_status, err);
    if (rc)
        return rc;
    SL_AUTO_FREE char *query_policy = parameter(w->query, "propagationPolicy");
    const char *policy = sl_json_get_str(w->body, "propagationPolicy", query_policy ? query_policy : "Background");
    SL_AUTO_JSON *next = sl_json_copy_shallow(cur);
    sl_json_set(next, "metadata", sl_json_copy(sl_json_get(cur, "metadata")));
    struct sl_json *md = sl_json_mut(next, "metadata");
    bool waits = false;
    if (!is_deleting(cur) && (!strcmp(policy, "Foreground") || !strcmp(policy, "Orphan"))) {
        sl_json_append(sl_json_make_array(md, "finalizers"),
                       sl_json_new_str(*policy == 'F' ? "foregroundDeletion" : "orphan"));
        waits = true;
    }
    if (dry || (is_deleting(cur) && sl_json_len(sl_json_path(cur, "metadata.finalizers")))) {
        *ret = sl_json_ref(cur);
        return 0;
    }
    if (!sl_json_len(sl_json_path(next, "metadata.finalizers"))) {
        *ret = drop(m, o, sl_json_ref(next));
        return 0;
    }
    char now[SL_TIME_TEXT];
    sl_json_set_str(md, "deletionTimestamp", sl_time_format(mem_wall_ms(m), now));
    sl_json_set_int(md, "deletionGracePeriodSeconds", 0);
    if (o->table->has_generation)
        sl_json_set_int(md, "generation", sl_json_get_int(md, "generation", 0) + 1);
    SL_AUTO_FREE char *uid = sl_xstrdup(o->uid);
    put(m, o->table, o, sl_json_ref(next));
    *ret = sl_json_ref(next);
    if (waits)
        mem_gc_later(m, MEM_GC_OWNER, uid);
    return 0;
}

static int list(struct mem *m, const struct mem_write *w, struct sl_json **ret, struct sl_err *err) {
    struct mem_table *t = mem_table(m, w->resource);
    SL_AUTO_FREE char *labels = parameter(w->query, "labelSelector"), *fields = parameter(w->query, "fieldSelector");
    bool ok_labels, ok_fields;
    sl_label_selector_match(labels, NULL, &ok_labels);
    sl_field_selector_match(fields, NULL, &ok_fields);
    if (!ok_labels || !ok_fields)
        return sl_err_set(err, SL_INVALID, "%s selector is malformed", ok_labels ? "field" : "label");
    struct sl_json *all = sl_json_new_object(), *items = sl_json_new_array();
    SL_AUTO_FREE char *kind = sl_xprintf("%sList", w->resource->kind);
    identify(all, w->resource);
    sl_json_set_str(all, "kind", kind);
    char rv[32];
    snprintf(rv, sizeof rv, "%" PRIu64, m->rv);
    sl_json_set_str(sl_json_make_object(all, "metadata"), "resourceVersion", rv);
    struct mem_object *const *sorted = mem_sorted(t);
    for (size_t i = 0; i < t->objects.count; i++) {
        const struct mem_object *o = sorted[i];
        if ((!w->ns || !t->resource->namespaced || !strcmp(w->ns, meta(o->json, "namespace"))) &&
            sl_label_selector_match(labels, o->json, NULL) && sl_field_selector_match(fields, o->json, NULL))
            sl_json_append(items, sl_json_ref(o->json));
    }
    sl_json_set(all, "items", items);
    *ret = all;
    return 0;
}

static int act(struct mem *m, const struct mem_write *w, struct sl_json **ret, int *ret_status, struct sl_err *err) {
    bool needs_body = w->verb != SL_GET && w->verb != SL_LIST && w->verb != SL_DELETE;
    if (needs_body && !(w->verb == SL_JSON_PATCH ? sl_json_is_array(w->body) : sl_json_is_object(w->body))) {
        *ret_status = 400;
        return fail(err, SL_INVALID, w, "came without a usable body");
    }
    if (w->verb == SL_LIST)
        return list(m, w, ret, err);
    if (w->verb == SL_CREATE)
        return create(m, w, ret, ret_status, err);
    if (*w->subresource && (strcmp(w->subresource, "status") || !mem_table(m, w->resource)->has_status))
        return fail(err, SL_NOT_FOUND, w, "has no such subresource");
    if (w->verb == SL_APPLY)
        return apply(m, w, ret, ret_status, err);
    struct mem_object *o = mem_find(m, w->resource, w->ns, w->name);
    if (!o)
        return fail(err, SL_NOT_FOUND, w, "not found");
    if (w->verb == SL_DELETE)
        return delete_object(m, w, o, ret, ret_status, err);
    if (w->verb != SL_GET)
        return patch(m, w, o, ret, ret_status, err);
    *ret = sl_json_ref(o->json);
    return 0;
}

int mem_do(struct mem *m, const struct mem_write *w, struct sl_json **ret, int *ret_status, struct sl_err *err) {
    struct mem_write full = *w;
    if (!full.subresource)
        full.subresource = "";
    if (!full.user)
        full.user = MEM_USER_ADMIN;
    if (!full.ns && full.body && full.resource->namespaced && full.verb != SL_LIST && *meta(full.body, "namespace"))
        full.ns = meta(full.body, "namespace");
    *ret_status = 0;
    struct sl_json *object = NULL;
    int rc = act(m, &full, &object, ret_status, err);
    if (!*ret_status || (rc && *ret_status < 400))
        *ret_status = http_status(rc);
    if (rc) {
        sl_json_unref(object);
        return rc;
    }
    *ret = object;
    return 0;
}

void mem_store_free(struct mem *m) {
    for (size_t i = 0; i < m->table_count; i++) {
        struct mem_table *t = m->tables[i];
        SL_MAP_EACH (&t->objects, e) {
            object_free(e->value);
        }
        sl_map_done(&t->objects, NULL);
        free(t->watches);
        free(t->sorted);
        free(t->id);
        free(t);
    }
    free(m->tables);
    SL_MAP_EACH (&m->dependents, e) {
        struct mem_uids *d = e->value;
        free(d->items);
        free(d);
    }
    sl_map_done(&m->dependents, NULL);
    sl_map_done(&m->by_uid, NULL);
}
