/*
 * The handlers' view of the cluster. Objects are reduced to what handlers read. The parts made from the configuration
 * are shared between successive snapshots. Frozen snapshots are only read, so the one synchronisation is the reference
 * count, and the mutex around the pointer to the published one, which is held for the swap and the count alone.
 */
#include "sluice/webhook/snapshot.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/api/decode.h"
#include "sluice/api/names.h"
#include "sluice/base/map.h"
#include "sluice/base/mem.h"

struct settings { /* from the configuration; shared, immutable */
    atomic_uint refs;
    bool manage_unlabelled, selects_namespaces, partial_admission;
    struct sl_selector selector;
    char *own_namespace;
    struct sl_gpu_rules *rules;
    char *shm_size, *shm_scope;
    struct sl_shm_config shm;
    char **frameworks;
    size_t n_frameworks;
};
struct namespace {
    struct sl_labels labels, annotations;
    struct sl_map queues; /* name -> struct sl_localqueue */
};
struct sl_snapshot {
    atomic_uint refs;
    bool frozen;
    struct settings *settings;
    struct sl_map namespaces, clusterqueues, flavors;
};

/* ---- copies ---- */

static void labels_copy(const struct sl_labels *from, struct sl_labels *to) {
    *to = (struct sl_labels){NULL, 0};
    if (!from || !from->n)
        return;
    to->items = sl_xalloc(from->n * sizeof *to->items);
    for (; to->n < from->n; to->n++)
        to->items[to->n] = (struct sl_label){sl_xstrdup(from->items[to->n].key), sl_xstrdup(from->items[to->n].value)};
}

static void selector_copy(const struct sl_selector *from, struct sl_selector *to) {
    to->items = sl_xalloc((from->n + 1) * sizeof *to->items);
    for (to->n = 0; to->n < from->n; to->n++) {
        const struct sl_requirement *f = &from->items[to->n];
        struct sl_requirement *t = &to->items[to->n];
        *t = (struct sl_requirement){sl_xstrdup(f->key), f->op, sl_xalloc((f->n + 1) * sizeof *t->values), f->n};
        for (size_t i = 0; i < f->n; i++)
            t->values[i] = sl_xstrdup(f->values[i]);
    }
}

static char **texts_copy(char *const *from, size_t n) {
    char **to = sl_xalloc((n + 1) * sizeof *to);
    for (size_t i = 0; i < n; i++)
        to[i] = sl_xstrdup(from[i]);
    return to;
}

/* Names of resources and flavors only. */
static struct sl_clusterqueue *clusterqueue_copy(const struct sl_clusterqueue *from) {
    struct sl_clusterqueue *q = sl_xalloc(sizeof *q);
    q->name = sl_xstrdup(from->name);
    labels_copy(&from->annotations, &q->annotations);
    q->groups = sl_xalloc((from->n_groups + 1) * sizeof *q->groups);
    for (; q->n_groups < from->n_groups; q->n_groups++) {
        const struct sl_resource_group *f = &from->groups[q->n_groups];
        struct sl_resource_group *g = &q->groups[q->n_groups];
        g->covered = texts_copy(f->covered, f->n_covered);
        g->n_covered = f->n_covered;
        g->flavors = sl_xalloc((f->n_flavors + 1) * sizeof *g->flavors);
        for (; g->n_flavors < f->n_flavors; g->n_flavors++)
            g->flavors[g->n_flavors].flavor = sl_xstrdup(f->flavors[g->n_flavors].flavor);
    }
    return q;
}

static struct sl_localqueue *localqueue_copy(const struct sl_localqueue *from) {
    struct sl_localqueue *q = sl_xalloc(sizeof *q);
    q->name = sl_xstrdup(from->name);
    q->cq = sl_xstrdup(from->cq ? from->cq : "");
    q->stop = from->stop;
    q->deleting = from->deleting;
    labels_copy(&from->annotations, &q->annotations);
    return q;
}

static struct sl_flavor *flavor_copy(const struct sl_flavor *from) {
    struct sl_flavor *f = sl_xalloc(sizeof *f);
    f->name = sl_xstrdup(from->name);
    labels_copy(&from->node_labels, &f->node_labels);
    labels_copy(&from->annotations, &f->annotations);
    return f;
}

/* ---- settings ---- */

static void settings_unref(struct settings *s) {
    if (!s || atomic_fetch_sub(&s->refs, 1) != 1)
        return;
    sl_selector_done(&s->selector);
    sl_gpu_rules_free(s->rules);
    for (size_t i = 0; i < s->n_frameworks; i++)
        free(s->frameworks[i]);
    free(s->frameworks);
    free(s->own_namespace);
    free(s->shm_size);
    free(s->shm_scope);
    free(s);
}

static int settings_new(const struct sl_config *c, const char *own_namespace, struct settings **ret,
                        struct sl_err *err) {
    struct settings *s = sl_xalloc(sizeof *s);
    atomic_init(&s->refs, 1);
    s->own_namespace = sl_xstrdup(own_namespace ? own_namespace : "");
    s->manage_unlabelled = c->manage_without_queue_name;
    s->selects_namespaces = c->has_managed_namespaces;
    s->partial_admission = sl_config_gate(c, "PartialAdmission", true);
    if (c->has_managed_namespaces)
        selector_copy(&c->managed_namespaces, &s->selector);
    s->shm_size = sl_xstrdup(c->shm.size);
    s->shm_scope = sl_xstrdup(c->shm.scope);
    s->shm = (struct sl_shm_config){s->shm_size, s->shm_scope, c->shm.max_bytes, c->shm.max_without_limits_bytes};
    s->frameworks = texts_copy(c->frameworks.items, c->frameworks.n);
    s->n_frameworks = c->frameworks.n;
    const char **rows = sl_xalloc((c->gpu_resources.n + 1) * sizeof *rows);
    for (size_t i = 0; i < c->gpu_resources.n; i++)
        rows[i] = c->gpu_resources.items[i];
    int code = sl_gpu_rules_new(rows, c->gpu_resources.n, &s->rules, err);
    free(rows);
    if (code < 0) {
        settings_unref(s);
        return sl_err_wrap(err, "sluice.gpuResources");
    }
    *ret = s;
    return 0;
}

/* ---- building ---- */

static struct sl_snapshot *snapshot_with(struct settings *take) {
    struct sl_snapshot *s = sl_xalloc(sizeof *s);
    atomic_init(&s->refs, 1);
    s->settings = take;
    s->namespaces = s->clusterqueues = s->flavors = (struct sl_map)SL_MAP_INIT;
    return s;
}

int sl_snapshot_new(const struct sl_config *config, const char *own_namespace, struct sl_snapshot **ret,
                    struct sl_err *err) {
    struct settings *settings = NULL;
    int code = settings_new(config, own_namespace, &settings, err);
    if (code < 0)
        return code;
    *ret = snapshot_with(settings);
    return 0;
}

struct sl_snapshot *sl_snapshot_renew(const struct sl_snapshot *old) {
    atomic_fetch_add(&old->settings->refs, 1);
    return snapshot_with(old->settings);
}

static void free_localqueue(void *q) {
    sl_localqueue_free(q);
}
static void free_clusterqueue(void *q) {
    sl_clusterqueue_free(q);
}
static void free_flavor(void *f) {
    sl_flavor_free(f);
}
static void free_namespace(void *p) {
    struct namespace *n = p;
    if (!n)
        return;
    sl_labels_done(&n->labels);
    sl_labels_done(&n->annotations);
    sl_map_done(&n->queues, free_localqueue);
    free(n);
}

void sl_snapshot_add_namespace(struct sl_snapshot *s, const char *name, const struct sl_labels *labels,
                               const struct sl_labels *annotations) {
    SL_ASSERT(!s->frozen);
    struct namespace *n = sl_xalloc(sizeof *n);
    labels_copy(labels, &n->labels);
    labels_copy(annotations, &n->annotations);
    n->queues = (struct sl_map)SL_MAP_INIT;
    free_namespace(sl_map_set(&s->namespaces, name, n));
}

void sl_snapshot_add_localqueue(struct sl_snapshot *s, const struct sl_localqueue *q) {
    SL_ASSERT(!s->frozen);
    struct namespace *n = sl_map_get(&s->namespaces, q->ns);
    if (n)
        sl_localqueue_free(sl_map_set(&n->queues, q->name, localqueue_copy(q)));
}

void sl_snapshot_add_clusterqueue(struct sl_snapshot *s, const struct sl_clusterqueue *q) {
    SL_ASSERT(!s->frozen);
    sl_clusterqueue_free(sl_map_set(&s->clusterqueues, q->name, clusterqueue_copy(q)));
}

void sl_snapshot_add_flavor(struct sl_snapshot *s, const struct sl_flavor *f) {
    SL_ASSERT(!s->frozen);
    sl_flavor_free(sl_map_set(&s->flavors, f->name, flavor_copy(f)));
}

void sl_snapshot_freeze(struct sl_snapshot *s) {
    s->frozen = true;
}

struct sl_snapshot *sl_snapshot_ref(struct sl_snapshot *s) {
    atomic_fetch_add(&s->refs, 1);
    return s;
}

void sl_snapshot_unref(struct sl_snapshot *s) {
    if (!s || atomic_fetch_sub(&s->refs, 1) != 1)
        return;
    sl_map_done(&s->namespaces, free_namespace);
    sl_map_done(&s->clusterqueues, free_clusterqueue);
    sl_map_done(&s->flavors, free_flavor);
    settings_unref(s->settings);
    free(s);
}

/* ---- publishing ---- */

struct sl_snapshot_box {
    pthread_mutex_t lock;
    struct sl_snapshot *current; /* one reference is ours */
};

struct sl_snapshot_box *sl_snapshot_box_new(void) {
    struct sl_snapshot_box *b = sl_xalloc(sizeof *b);
    SL_ASSERT(pthread_mutex_init(&b->lock, NULL) == 0);
    return b;
}

void sl_snapshot_box_free(struct sl_snapshot_box *b) {
    if (!b)
        return;
    sl_snapshot_unref(b->current);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

void sl_snapshot_publish(struct sl_snapshot_box *b, struct sl_snapshot *take) {
    SL_ASSERT(take->frozen);
    pthread_mutex_lock(&b->lock);
    struct sl_snapshot *old = b->current;
    b->current = take;
    pthread_mutex_unlock(&b->lock);
    sl_snapshot_unref(old);
}

const void *sl_snapshot_acquire(void *box) {
    struct sl_snapshot_box *b = box;
    pthread_mutex_lock(&b->lock);
    struct sl_snapshot *s = b->current ? sl_snapshot_ref(b->current) : NULL;
    pthread_mutex_unlock(&b->lock);
    return s;
}

void sl_snapshot_release(void *box, const void *snapshot) {
    (void)box;
    union { /* readers hold it const; the count is the one thing that changes */
        const void *in;
        struct sl_snapshot *out;
    } u = {.in = snapshot};
    sl_snapshot_unref(u.out);
}

/* ---- reading ---- */

const struct sl_gpu_rules *sl_snapshot_gpu_rules(const struct sl_snapshot *s) {
    return s->settings->rules;
}
const struct sl_shm_config *sl_snapshot_shm(const struct sl_snapshot *s) {
    return &s->settings->shm;
}
bool sl_snapshot_partial_admission(const struct sl_snapshot *s) {
    return s->settings->partial_admission;
}

bool sl_snapshot_framework(const struct sl_snapshot *s, const char *integration) {
    for (size_t i = 0; i < s->settings->n_frameworks; i++)
        if (!strcmp(s->settings->frameworks[i], integration))
            return true;
    return false;
}

const struct sl_labels *sl_snapshot_ns_labels(const struct sl_snapshot *s, const char *ns) {
    const struct namespace *n = sl_map_get(&s->namespaces, ns);
    return n ? &n->labels : NULL;
}

const struct sl_labels *sl_snapshot_ns_annotations(const struct sl_snapshot *s, const char *ns) {
    const struct namespace *n = sl_map_get(&s->namespaces, ns);
    return n ? &n->annotations : NULL;
}

bool sl_snapshot_ns_selected(const struct sl_snapshot *s, const char *ns) {
    const struct settings *c = s->settings;
    if (!strcmp(ns, c->own_namespace))
        return false;
    if (!c->selects_namespaces)
        return strcmp(ns, "kube-system") != 0;
    const struct namespace *n = sl_map_get(&s->namespaces, ns);
    if (n && sl_labels_get(&n->labels, "kubernetes.io/metadata.name"))
        return sl_selector_matches(&c->selector, &n->labels);
    /* The namespace is younger than the snapshot: the API server always sets this label. */
    char key[] = "kubernetes.io/metadata.name";
    SL_AUTO_FREE char *name = sl_xstrdup(ns);
    struct sl_label label = {key, name};
    struct sl_labels labels = {&label, 1};
    return sl_selector_matches(&c->selector, &labels);
}

const struct sl_localqueue *sl_snapshot_localqueue(const struct sl_snapshot *s, const char *ns, const char *name) {
    const struct namespace *n = sl_map_get(&s->namespaces, ns);
    return n ? sl_map_get(&n->queues, name) : NULL;
}

bool sl_snapshot_ns_has_default(const struct sl_snapshot *s, const char *ns) {
    const struct sl_localqueue *q = sl_snapshot_localqueue(s, ns, SL_DEFAULT_LOCAL_QUEUE);
    return q && q->stop == SL_STOP_NONE && !q->deleting;
}

const struct sl_clusterqueue *sl_snapshot_clusterqueue(const struct sl_snapshot *s, const char *name) {
    return sl_map_get(&s->clusterqueues, name);
}

const struct sl_flavor *sl_snapshot_flavor(const struct sl_snapshot *s, const char *name) {
    return sl_map_get(&s->flavors, name);
}

bool sl_snapshot_manages(const struct sl_snapshot *s, const char *ns, const char *queue) {
    return *queue || (s->settings->manage_unlabelled && sl_snapshot_ns_selected(s, ns));
}
