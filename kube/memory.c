/*
 * The in-memory cluster: virtual time, requests, watches, faults. Everything that happens is an item of one heap
 * ordered by (due, seq), so a run is a pure function of calls and seed. Invariant: `busy` counts the items that are not
 * mere timers; when it is 0 and nothing is called, only the passing of time changes anything.
 */
#include "memory_internal.h"

#include <stdlib.h>
#include <string.h>

#include "selector.h"
#include "sluice/base/mem.h"

#define DEFAULT_START_MS 1767225600000 /* 2026-01-01T00:00:00Z */
#define FIRST_MONO_MS    1000          /* not 0, which callers may take for "never" */
#define RECONNECT_MS     1000
#define BOOKMARK_MS      60000 /* a healthy watch hears at least this often */

static struct mem *of(struct sl_cluster *c) {
    return (struct mem *)(void *)c;
}
static const struct mem *of_const(const struct sl_cluster *c) {
    return (const struct mem *)(const void *)c;
}

/* splitmix64: small, and any seed will do. */
uint64_t mem_random(struct mem *m) {
    uint64_t z = (m->random += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

/* Without a fault configured no number is drawn, so that switching faults off does not change uids. */
bool mem_draw(struct mem *m, unsigned per_mille) {
    return per_mille && mem_random(m) % 1000 < per_mille;
}
int64_t mem_delay(struct mem *m) {
    return m->faults.delay_ms ? (int64_t)(mem_random(m) % (m->faults.delay_ms + 1ull)) : 0;
}
int64_t mem_wall_ms(const struct mem *m) {
    return m->start_wall_ms + m->now - FIRST_MONO_MS;
}

/* ---- the heap ---- */

static bool is_timer(enum mem_kind kind) {
    return kind == MEM_JOB_TIMER || kind == MEM_JOB_TTL;
}
static bool before(const struct mem_item *a, const struct mem_item *b) {
    return a->due != b->due ? a->due < b->due : a->seq < b->seq;
}

struct mem_item *mem_push(struct mem *m, enum mem_kind kind, int64_t due) {
    struct mem_item *item = sl_xalloc(sizeof *item);
    item->kind = kind;
    item->due = due;
    item->seq = ++m->seq;
    m->busy += !is_timer(kind);
    SL_GROW(m->heap, m->heap_cap, m->heap_count);
    size_t i = m->heap_count++;
    for (; i > 0 && before(item, m->heap[(i - 1) / 2]); i = (i - 1) / 2)
        m->heap[i] = m->heap[(i - 1) / 2];
    m->heap[i] = item;
    return item;
}

static struct mem_item *pop(struct mem *m) {
    struct mem_item *top = m->heap[0], *last = m->heap[--m->heap_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= m->heap_count)
            break;
        if (child + 1 < m->heap_count && before(m->heap[child + 1], m->heap[child]))
            child++;
        if (!before(m->heap[child], last))
            break;
        m->heap[i] = m->heap[child];
        i = child;
    }
    if (m->heap_count)
        m->heap[i] = last;
    m->busy -= !is_timer(top->kind);
    return top;
}

static void item_free(struct mem_item *item) {
    sl_json_unref(item->json);
    free(item->key);
    free(item->text);
    free(item);
}

/* ---- requests ---- */

static void call_free(struct mem_call *c) {
    sl_json_unref(c->r.body);
    sl_json_unref(c->object);
    free(c->text);
    free(c->chain);
    free((void *)(uintptr_t)c->r.ns);
    free((void *)(uintptr_t)c->r.name);
    free((void *)(uintptr_t)c->r.subresource);
    free((void *)(uintptr_t)c->r.query);
    free((void *)(uintptr_t)c->r.field_manager);
    free(c);
}

static void answer(struct mem *m, struct mem_call *c) {
    struct sl_reply reply = {c->code, c->status, c->unknown, c->object, c->text ? c->text : ""};
    m->pending[c->r.lane]--;
    if (c->r.done)
        c->r.done(c->r.payload, &reply);
}

static void cancel(struct mem *m, struct mem_call *c) {
    c->code = SL_CANCELLED;
    c->status = 0;
    free(c->text);
    c->text = sl_xstrdup("the cluster was closed");
    answer(m, c);
    call_free(c);
}

static void send_request(struct sl_cluster *cluster, const struct sl_request *request) {
    struct mem *m = of(cluster);
    struct mem_call *c = sl_xalloc(sizeof *c);
    c->r = *request;
    c->r.ns = sl_xstrdup(request->ns);
    c->r.name = sl_xstrdup(request->name);
    c->r.subresource = sl_xstrdup(request->subresource);
    c->r.query = sl_xstrdup(request->query);
    c->r.field_manager = sl_xstrdup(request->field_manager);
    m->pending[request->lane]++;
    if (m->closing) {
        cancel(m, c);
        return;
    }
    if (request->name) {
        c->chain = sl_xprintf("%d\x01%s\x01%s\x01%s\x01%s", (int)request->lane, request->resource->group,
                              request->resource->plural, request->ns ? request->ns : "", request->name);
        struct mem_call *head = sl_map_get(&m->chains, c->chain);
        if (head) {
            while (head->next)
                head = head->next;
            head->next = c;
            return;
        }
        sl_map_set(&m->chains, c->chain, c);
    }
    mem_push(m, MEM_REQUEST, m->now + mem_delay(m))->call = c;
}

static struct sl_json *failure(int status, const char *text) {
    struct sl_json *s =
        sl_json_fromf("{'kind':'Status','apiVersion':'v1','metadata':{},'status':'Failure','code':%d}", status);
    sl_json_set_str(s, "message", text);
    sl_json_set_str(s, "reason",
                    status == 404   ? "NotFound"
                    : status == 409 ? "Conflict"
                    : status == 403 ? "Forbidden"
                    : status == 422 ? "Invalid"
                    : status == 503 ? "ServiceUnavailable"
                                    : "Unknown");
    return s;
}

static void refuse(struct mem_call *c, enum sl_code code, int status, bool unknown, const char *text) {
    c->code = code;
    c->status = status;
    c->unknown = unknown;
    c->text = sl_xstrdup(text);
    c->object = status ? failure(status, text) : NULL;
}

/* True when a fault took the request's place (*lost_reply: it shall be done, but its answer must not arrive). */
static bool inject(struct mem *m, struct mem_call *c, bool *lost_reply) {
    if (c->r.verb == SL_GET || c->r.verb == SL_LIST)
        return false;
    if (mem_draw(m, m->faults.unavailable)) {
        refuse(c, SL_UNAVAILABLE, 503, false, "injected: service unavailable");
        return true;
    }
    if (c->r.verb != SL_CREATE && c->r.verb != SL_DELETE && mem_draw(m, m->faults.conflict)) {
        refuse(c, SL_CONFLICT, 409, false, "injected: conflict");
        return true;
    }
    if (mem_draw(m, m->faults.unknown_lost)) {
        refuse(c, SL_UNAVAILABLE, 0, true, "injected: connection lost before the request was done");
        return true;
    }
    *lost_reply = mem_draw(m, m->faults.unknown_applied);
    return false;
}

static void execute(struct mem *m, struct mem_call *c) {
    bool lost_reply = false;
    if (!inject(m, c, &lost_reply)) {
        struct mem_write w = {c->r.verb, c->r.resource,      c->r.ns,    c->r.name,      c->r.subresource, c->r.query,
                              c->r.body, c->r.field_manager, c->r.force, MEM_USER_CLIENT};
        struct sl_err err = SL_ERR_INIT;
        c->code = mem_do(m, &w, &c->object, &c->status, &err);
        if (c->code) {
            c->object = failure(c->status, err.text);
            c->text = sl_xstrdup(err.text);
            if (c->code == SL_EXISTS)
                sl_json_set_str(c->object, "reason", "AlreadyExists");
        }
        if (lost_reply) {
            sl_json_unref(SL_TAKE(c->object));
            free(SL_TAKE(c->text));
            refuse(c, SL_UNAVAILABLE, 0, true, "injected: connection lost after the request was done");
        }
    }
    mem_push(m, MEM_REPLY, m->now + mem_delay(m))->call = c;
}

static void finish(struct mem *m, struct mem_call *c) {
    if (c->chain) {
        sl_map_del(&m->chains, c->chain);
        if (c->next) {
            sl_map_set(&m->chains, c->chain, c->next);
            mem_push(m, MEM_REQUEST, m->now + mem_delay(m))->call = c->next;
        }
    }
    answer(m, c);
    call_free(c);
}

/* ---- watches ---- */

static bool selects(const struct mem_watch *w, const struct sl_json *object) {
    if (!object)
        return false;
    if (w->ns && w->resource->namespaced && strcmp(w->ns, sl_json_path_str(object, "metadata.namespace", "")))
        return false;
    return sl_label_selector_match(w->label_selector, object, NULL) &&
           sl_field_selector_match(w->field_selector, object, NULL);
}

static void queue_event(struct mem *m, struct mem_watch *w, enum sl_watch_what what, const char *key,
                        const struct sl_json *object) {
    int64_t due = m->now + mem_delay(m);
    if (due < w->cut_until)
        due = w->cut_until;
    if (due < w->last_due)
        due = w->last_due;
    w->last_due = due;
    struct mem_item *item = mem_push(m, MEM_EVENT, due);
    item->watch = w;
    item->what = what;
    item->json = sl_json_ref(object);
    item->key = sl_xstrdup(key);
    item->number = w->epoch;
}

static void start_list(struct mem *m, struct mem_watch *w, int64_t due) {
    w->epoch++;
    w->listing = true;
    mem_push(m, MEM_LIST, due)->watch = w;
}

void mem_notify(struct mem *m, struct mem_table *t, const char *key, const struct sl_json *old,
                const struct sl_json *now) {
    for (size_t i = 0; i < t->watch_count; i++) {
        struct mem_watch *w = t->watches[i];
        bool had = selects(w, old), has = selects(w, now);
        if (w->listing || (!had && !has))
            continue;
        if (mem_draw(m, m->faults.watch_gone)) {
            w->cut_until = m->now + RECONNECT_MS;
            start_list(m, w, w->cut_until);
            continue;
        }
        if (mem_draw(m, m->faults.watch_cut))
            w->cut_until = m->now + RECONNECT_MS;
        queue_event(m, w, has ? SL_WATCH_PUT : SL_WATCH_GONE, key, now ? now : old);
    }
}

static const char *uid_of(const struct sl_json *object) {
    return sl_json_path_str(object, "metadata.uid", "");
}

/* What the client's reflector does with a list: deletions that were missed, then everything, then SYNCED. */
static void list_for(struct mem *m, struct mem_watch *w) {
    struct sl_map *objects = &w->table->objects;
    w->listing = false;
    SL_AUTO_FREE const char **known = sl_map_sorted_keys(&w->known);
    for (size_t i = 0; i < w->known.count; i++) {
        const struct sl_json *last = sl_map_get(&w->known, known[i]);
        const struct mem_object *o = sl_map_get(objects, known[i]);
        if (!o || !selects(w, o->json) || strcmp(uid_of(o->json), uid_of(last)))
            queue_event(m, w, SL_WATCH_GONE, known[i], last);
    }
    struct mem_object *const *sorted = mem_sorted(w->table);
    for (size_t i = 0; i < objects->count; i++) {
        const struct mem_object *o = sorted[i];
        if (selects(w, o->json))
            queue_event(m, w, SL_WATCH_PUT, o->key, o->json);
    }
    queue_event(m, w, SL_WATCH_SYNCED, NULL, NULL);
}

static void deliver(struct mem *m, struct mem_item *item) {
    struct mem_watch *w = item->watch;
    if (item->number != w->epoch)
        return;
    w->heard_ms = m->now;
    if (item->what == SL_WATCH_SYNCED)
        w->synced = true;
    else if (item->what == SL_WATCH_PUT)
        sl_json_unref(sl_map_set(&w->known, item->key, sl_json_ref(item->json)));
    else
        sl_json_unref(sl_map_del(&w->known, item->key));
    SL_AUTO_JSON *shown = sl_json_ref(item->json);
    if (item->json && w->metadata_only) {
        sl_json_unref(shown);
        shown = sl_json_from("{'kind':'PartialObjectMetadata','apiVersion':'meta.k8s.io/v1'}");
        sl_json_set(shown, "metadata", sl_json_ref(sl_json_get(item->json, "metadata")));
    }
    struct sl_watch_event event = {item->what, w->resource, shown};
    w->fn(w->payload, &event);
}

static struct sl_watch *start_watch(struct sl_cluster *c, const struct sl_resource *resource,
                                    const struct sl_watch_options *options, sl_watch_fn fn, void *payload) {
    struct mem *m = of(c);
    bool valid_labels, valid_fields;
    sl_label_selector_match(options->label_selector, NULL, &valid_labels);
    sl_field_selector_match(options->field_selector, NULL, &valid_fields);
    SL_ASSERT(valid_labels && valid_fields);
    struct mem_watch *w = sl_xalloc(sizeof *w);
    w->base.cluster = c;
    w->table = mem_table(m, resource);
    w->resource = resource;
    w->ns = sl_xstrdup(options->ns);
    w->label_selector = sl_xstrdup(options->label_selector);
    w->field_selector = sl_xstrdup(options->field_selector);
    w->metadata_only = options->metadata_only;
    w->fn = fn;
    w->payload = payload;
    w->heard_ms = m->now;
    SL_GROW(m->watches, m->watch_cap, m->watch_count);
    m->watches[m->watch_count++] = w;
    SL_GROW(w->table->watches, w->table->watch_cap, w->table->watch_count);
    w->table->watches[w->table->watch_count++] = w;
    start_list(m, w, m->now + mem_delay(m));
    return &w->base;
}

static const struct mem_watch *watch_of(const struct sl_watch *w) {
    return (const struct mem_watch *)(const void *)w;
}
static bool watch_synced(const struct sl_watch *w) {
    return watch_of(w)->synced;
}

static int64_t watch_age_ms(const struct sl_watch *base) {
    const struct mem_watch *w = watch_of(base);
    const struct mem *m = of_const(base->cluster);
    int64_t age = m->now - w->heard_ms;
    return m->now < w->cut_until || w->listing ? age : age % BOOKMARK_MS;
}

/* ---- running ---- */

static void run(struct mem *m, struct mem_item *item) {
    switch (item->kind) {
    case MEM_REQUEST: execute(m, item->call); break;
    case MEM_REPLY: finish(m, item->call); break;
    case MEM_EVENT: deliver(m, item); break;
    case MEM_LIST: list_for(m, item->watch); break;
    case MEM_GC_OWNER: mem_gc_owner(m, item->text); break;
    case MEM_GC_OBJECT: mem_gc_object(m, item->text); break;
    case MEM_JOB:
    case MEM_JOB_FINISH:
    case MEM_JOB_TIMER:
    case MEM_JOB_TTL: mem_job_run(m, item); break;
    }
}

/* What is due and was queued before this call, so that work which breeds work still lets the caller have its turn. */
static bool run_due(struct mem *m) {
    uint64_t last = m->seq;
    bool any = false;
    while (m->heap_count && m->heap[0]->due <= m->now && m->heap[0]->seq <= last) {
        struct mem_item *item = pop(m);
        run(m, item);
        item_free(item);
        any = true;
    }
    return any;
}

static void step(struct sl_cluster *c, int64_t timeout_ms) {
    struct mem *m = of(c);
    if (run_due(m))
        return;
    int64_t until = m->now + (timeout_ms > 0 ? timeout_ms : 0);
    if (m->heap_count && m->heap[0]->due < until)
        until = m->heap[0]->due;
    if (until > m->now)
        m->now = until;
    run_due(m);
}

static unsigned pending(const struct sl_cluster *c, enum sl_lane lane) {
    return of_const(c)->pending[lane];
}
static void wakeup(struct sl_cluster *c) {
    (void)c; /* a step never waits */
}
static int64_t wall_ms(const struct sl_cluster *c) {
    return mem_wall_ms(of_const(c));
}
static int64_t mono_ms(const struct sl_cluster *c) {
    return of_const(c)->now;
}

static void free_chain(struct mem *m, struct mem_call *c) {
    while (c) {
        struct mem_call *next = c->next;
        cancel(m, c);
        c = next;
    }
}

static void free_watch(struct mem_watch *w) {
    SL_MAP_EACH (&w->known, e) {
        sl_json_unref(e->value);
    }
    sl_map_done(&w->known, NULL);
    free(w->ns);
    free(w->label_selector);
    free(w->field_selector);
    free(w);
}

static void close_cluster(struct sl_cluster *c) {
    struct mem *m = of(c);
    m->closing = true;
    while (m->heap_count) {
        struct mem_item *item = pop(m);
        if (item->call)
            free_chain(m, item->call);
        item_free(item);
    }
    sl_map_done(&m->chains, NULL);
    for (size_t i = 0; i < m->watch_count; i++)
        free_watch(m->watches[i]);
    free(m->watches);
    mem_store_free(m);
    free(m->heap);
    free(m);
}

struct sl_cluster *sl_memory_new(const struct sl_memory_options *options) {
    static const struct sl_cluster_ops ops = {start_watch, watch_synced, watch_age_ms, send_request, pending,
                                              step,        wakeup,       wall_ms,      mono_ms,      close_cluster};
    struct mem *m = sl_xalloc(sizeof *m);
    m->base.ops = &ops;
    if (options)
        m->options = *options;
    m->start_wall_ms = m->options.start_wall_ms ? m->options.start_wall_ms : DEFAULT_START_MS;
    m->now = FIRST_MONO_MS;
    m->random = m->options.seed;
    return &m->base;
}

/* ---- at once ---- */

static int do_now(struct sl_cluster *c, const struct mem_write *w, struct sl_json **ret, struct sl_err *err) {
    SL_AUTO_JSON *object = NULL;
    int status, rc = mem_do(of(c), w, &object, &status, err);
    if (rc)
        return rc;
    if (ret)
        *ret = sl_json_copy(object);
    return 0;
}

int sl_memory_create(struct sl_cluster *c, const struct sl_resource *r, const struct sl_json *object,
                     struct sl_json **ret, struct sl_err *err) {
    struct mem_write w = {
        .verb = SL_CREATE, .resource = r, .name = sl_json_path_str(object, "metadata.name", NULL), .body = object};
    return do_now(c, &w, ret, err);
}

int sl_memory_merge(struct sl_cluster *c, const struct sl_resource *r, const char *ns, const char *name,
                    const char *subresource, const struct sl_json *patch, struct sl_json **ret, struct sl_err *err) {
    struct mem_write w = {
        .verb = SL_MERGE_PATCH, .resource = r, .ns = ns, .name = name, .subresource = subresource, .body = patch};
    return do_now(c, &w, ret, err);
}

int sl_memory_delete(struct sl_cluster *c, const struct sl_resource *r, const char *ns, const char *name,
                     struct sl_err *err) {
    struct mem_write w = {.verb = SL_DELETE, .resource = r, .ns = ns, .name = name};
    return do_now(c, &w, NULL, err);
}

struct sl_json *sl_memory_get(struct sl_cluster *c, const struct sl_resource *r, const char *ns, const char *name) {
    const struct mem_object *o = mem_find(of(c), r, ns, name);
    return o ? sl_json_copy(o->json) : NULL;
}

struct sl_json *sl_memory_list(struct sl_cluster *c, const struct sl_resource *r, const char *ns) {
    struct mem_write w = {.verb = SL_LIST, .resource = r, .ns = ns};
    SL_AUTO_JSON *list = NULL;
    int status;
    struct sl_err err = SL_ERR_INIT;
    if (mem_do(of(c), &w, &list, &status, &err))
        sl_assert_failed(err.text, __FILE__, __LINE__); /* a list without selectors cannot fail */
    return sl_json_ref(sl_json_get(list, "items"));
}

bool sl_memory_idle(struct sl_cluster *c, int64_t *ret_next_ms) {
    const struct mem *m = of(c);
    if (ret_next_ms)
        *ret_next_ms = !m->busy && m->heap_count ? m->heap[0]->due : -1;
    return !m->busy;
}

void sl_memory_set_faults(struct sl_cluster *c, const struct sl_memory_faults *faults) {
    of(c)->faults = *faults;
}
