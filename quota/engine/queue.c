/*
 * Waiting workloads. Equal workloads of a ClusterQueue form a class with a heap of its own, and the queue is a heap of
 * classes: when one workload cannot be placed, all its equals become inadmissible, and later return, in one step.
 */
#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/base/mem.h"

bool wl_before(const struct wl *a, const struct wl *b) {
    if (a->shape->priority != b->shape->priority)
        return a->shape->priority > b->shape->priority;
    if (a->ts != b->ts)
        return a->ts < b->ts;
    return strcmp(a->obj->uid, b->obj->uid) < 0;
}

bool wl_backoff_over(const struct sl_engine *e, const struct wl *w) {
    return w->obj->requeued.status != SL_TRI_FALSE && (!w->obj->has_requeue_at || w->obj->requeue_at_ms <= e->now_ms);
}

/* ---- heap of a class ---- */

static void klass_up(struct klass *k, uint32_t i) {
    struct wl *w = k->heap[i];
    while (i > 0) {
        uint32_t p = (i - 1) / 2;
        if (!wl_before(w, k->heap[p]))
            break;
        k->heap[i] = k->heap[p];
        k->heap[i]->pos = i;
        i = p;
    }
    k->heap[i] = w;
    w->pos = i;
}

static void klass_down(struct klass *k, uint32_t i) {
    struct wl *w = k->heap[i];
    for (;;) {
        uint32_t c = 2 * i + 1;
        if (c >= k->n)
            break;
        if (c + 1 < k->n && wl_before(k->heap[c + 1], k->heap[c]))
            c++;
        if (!wl_before(k->heap[c], w))
            break;
        k->heap[i] = k->heap[c];
        k->heap[i]->pos = i;
        i = c;
    }
    k->heap[i] = w;
    w->pos = i;
}

/* ---- heap of the queue ---- */

static bool klass_before(const struct klass *a, const struct klass *b) {
    return wl_before(a->heap[0], b->heap[0]);
}

static void heap_up(struct cq *q, uint32_t i) {
    struct klass *k = q->heap[i];
    while (i > 0) {
        uint32_t p = (i - 1) / 2;
        if (!klass_before(k, q->heap[p]))
            break;
        q->heap[i] = q->heap[p];
        q->heap[i]->pos = i;
        i = p;
    }
    q->heap[i] = k;
    k->pos = i;
}

static void heap_down(struct cq *q, uint32_t i) {
    struct klass *k = q->heap[i];
    for (;;) {
        uint32_t c = 2 * i + 1;
        if (c >= q->n_heap)
            break;
        if (c + 1 < q->n_heap && klass_before(q->heap[c + 1], q->heap[c]))
            c++;
        if (!klass_before(q->heap[c], k))
            break;
        q->heap[i] = q->heap[c];
        q->heap[i]->pos = i;
        i = c;
    }
    q->heap[i] = k;
    k->pos = i;
}

static void heap_add(struct cq *q, struct klass *k) {
    SL_GROW(q->heap, q->cap_heap, q->n_heap);
    q->heap[q->n_heap] = k;
    k->pos = q->n_heap++;
    heap_up(q, k->pos);
}

static void heap_fix(struct cq *q, struct klass *k) {
    heap_up(q, k->pos);
    heap_down(q, k->pos);
}

static void heap_remove(struct cq *q, struct klass *k) {
    uint32_t i = k->pos;
    struct klass *last = q->heap[--q->n_heap];
    if (last == k)
        return;
    q->heap[i] = last;
    last->pos = i;
    heap_fix(q, last);
}

/* ---- classes of a queue, by shape ---- */

static uint32_t slot_of(const struct cq *q, uint32_t id) {
    return (id * 2654435761u) & (q->cap_table - 1);
}

static void table_place(struct cq *q, struct klass *k) {
    uint32_t i = slot_of(q, k->shape->id);
    while (q->table[i])
        i = (i + 1) & (q->cap_table - 1);
    q->table[i] = k;
}

static struct klass *klass_find(const struct cq *q, const struct shape *s) {
    if (!q->cap_table)
        return NULL;
    for (uint32_t i = slot_of(q, s->id); q->table[i]; i = (i + 1) & (q->cap_table - 1))
        if (q->table[i]->shape == s)
            return q->table[i];
    return NULL;
}

static struct klass *klass_make(struct cq *q, struct shape *s) {
    struct klass *k = klass_find(q, s);
    if (k)
        return k;
    if ((q->n_table + 1) * 4 > q->cap_table * 3) {
        struct klass **old = q->table;
        uint32_t old_cap = q->cap_table;
        q->cap_table = old_cap ? old_cap * 2 : 8;
        q->table = sl_xalloc(q->cap_table * sizeof(struct klass *));
        for (uint32_t i = 0; i < old_cap; i++)
            if (old[i])
                table_place(q, old[i]);
        free(old);
    }
    k = sl_xalloc(sizeof *k);
    k->cq = q;
    k->shape = s;
    s->refs++;
    table_place(q, k);
    q->n_table++;
    return k;
}

static void klass_free(struct sl_engine *e, struct klass *k) {
    struct cq *q = k->cq;
    SL_ASSERT(k->n == 0);
    uint32_t mask = q->cap_table - 1, i = slot_of(q, k->shape->id);
    while (q->table[i] != k)
        i = (i + 1) & mask;
    q->table[i] = NULL;
    q->n_table--;
    for (uint32_t j = (i + 1) & mask; q->table[j]; j = (j + 1) & mask) {
        struct klass *x = q->table[j];
        q->table[j] = NULL;
        table_place(q, x);
    }
    if (k->parked)
        q->n_parked--;
    shape_unref(e, k->shape);
    free(k->text);
    free(k->heap);
    free(k);
}

/* Forgets which shapes were found hopeless although none of them waits any more. */
void queue_class_sweep(struct sl_engine *e, struct cq *q) {
    for (uint32_t i = 0; i < q->cap_table;) {
        struct klass *k = q->table[i];
        if (k)
            klass_free(e, k); /* another one may have moved here */
        else
            i++;
    }
}

void cq_ready_sync(struct cq *q) {
    struct tree *t = q->node.tree;
    bool want = t && q->active && q->n_heap > 0;
    if (want == q->is_ready)
        return;
    q->is_ready = want;
    if (want) {
        q->ready_prev = NULL;
        q->ready_next = t->ready;
        if (t->ready)
            t->ready->ready_prev = q;
        t->ready = q;
    } else {
        if (q->ready_prev)
            q->ready_prev->ready_next = q->ready_next;
        else
            t->ready = q->ready_next;
        if (q->ready_next)
            q->ready_next->ready_prev = q->ready_prev;
    }
}

/* ---- moves ---- */

static void count(struct wl *w, int pending, int inadmissible) {
    w->cq->n_pending += (uint32_t)pending;
    w->cq->n_inadmissible += (uint32_t)inadmissible;
}

void queue_put(struct sl_engine *e, struct wl *w) {
    struct klass *k = klass_make(w->cq, w->shape);
    SL_GROW(k->heap, k->cap, k->n);
    k->heap[k->n] = w;
    w->pos = k->n++;
    w->klass = k;
    w->where = WL_QUEUED;
    klass_up(k, w->pos);
    count(w, 1, k->parked);
    if (k->parked) {
        if (!k->rep) { /* nobody of it is left who was tried: the verdict is this one's now */
            k->rep = w;
            w->why = k->why;
        }
        return;
    }
    if (k->n == 1)
        heap_add(w->cq, k);
    else if (w->pos == 0)
        heap_up(w->cq, k->pos);
    cq_ready_sync(w->cq);
    tree_dirty(e, w->cq->node.tree);
}

static void list_add(struct wl ***list, uint32_t *n, uint32_t *cap, struct wl *w) {
    SL_GROW(*list, *cap, *n);
    (*list)[*n] = w;
    w->pos = (*n)++;
}

static void list_remove(struct wl **list, uint32_t *n, struct wl *w) {
    struct wl *last = list[--*n];
    list[w->pos] = last;
    last->pos = w->pos;
}

static void backoff_up(struct sl_engine *e, uint32_t i) {
    struct wl *w = e->backoff[i];
    while (i > 0) {
        uint32_t p = (i - 1) / 2;
        if (w->obj->requeue_at_ms >= e->backoff[p]->obj->requeue_at_ms)
            break;
        e->backoff[i] = e->backoff[p];
        e->backoff[i]->pos = i;
        i = p;
    }
    e->backoff[i] = w;
    w->pos = i;
}

static void backoff_down(struct sl_engine *e, uint32_t i) {
    struct wl *w = e->backoff[i];
    for (;;) {
        uint32_t c = 2 * i + 1;
        if (c >= e->n_backoff)
            break;
        if (c + 1 < e->n_backoff && e->backoff[c + 1]->obj->requeue_at_ms < e->backoff[c]->obj->requeue_at_ms)
            c++;
        if (e->backoff[c]->obj->requeue_at_ms >= w->obj->requeue_at_ms)
            break;
        e->backoff[i] = e->backoff[c];
        e->backoff[i]->pos = i;
        i = c;
    }
    e->backoff[i] = w;
    w->pos = i;
}

/* Waits for its requeue time, or, without one, for somebody to say that it may come back. */
void queue_backoff(struct sl_engine *e, struct wl *w) {
    if (w->obj->requeued.status == SL_TRI_FALSE) {
        queue_park_solo(e, w, false);
        return;
    }
    SL_GROW(e->backoff, e->cap_backoff, e->n_backoff);
    e->backoff[e->n_backoff] = w;
    w->pos = e->n_backoff++;
    w->where = WL_BACKOFF;
    backoff_up(e, w->pos);
    count(w, 1, 1);
}

void queue_park_solo(struct sl_engine *e, struct wl *w, bool misplaced) {
    (void)e;
    struct cq *q = w->cq;
    if (misplaced)
        list_add(&q->misplaced, &q->n_misplaced, &q->cap_misplaced, w);
    else
        list_add(&q->solo, &q->n_solo, &q->cap_solo, w);
    w->where = misplaced ? WL_MISPLACED : WL_SOLO;
    count(w, 1, 1);
}

static void klass_remove(struct sl_engine *e, struct wl *w) {
    struct klass *k = w->klass;
    struct cq *q = k->cq;
    uint32_t i = w->pos;
    struct wl *last = k->heap[--k->n];
    if (last != w) {
        k->heap[i] = last;
        last->pos = i;
        klass_up(k, i);
        klass_down(k, last->pos);
    }
    count(w, -1, k->parked ? -1 : 0);
    w->klass = NULL;
    if (k->rep == w) {
        k->rep = k->parked && k->n ? k->heap[0] : NULL; /* the verdict on one holds for all of them */
        if (k->rep) {
            k->rep->why = k->why;
            wl_tell(e, k->rep);
        }
    }
    if (k->parked)
        return; /* even when empty: newcomers of this shape have no better chance */
    if (k->n == 0) {
        heap_remove(q, k);
        klass_free(e, k);
    } else if (i == 0) {
        heap_fix(q, k);
    }
    cq_ready_sync(q);
}

void queue_remove(struct sl_engine *e, struct wl *w) {
    struct cq *q = w->cq;
    switch ((enum wl_where)w->where) {
    case WL_QUEUED: klass_remove(e, w); break;
    case WL_SOLO:
        list_remove(q->solo, &q->n_solo, w);
        count(w, -1, -1);
        break;
    case WL_MISPLACED:
        list_remove(q->misplaced, &q->n_misplaced, w);
        count(w, -1, -1);
        break;
    case WL_BACKOFF: {
        uint32_t i = w->pos;
        struct wl *last = e->backoff[--e->n_backoff];
        if (last != w) {
            e->backoff[i] = last;
            last->pos = i;
            backoff_up(e, i);
            backoff_down(e, last->pos);
        }
        count(w, -1, -1);
        break;
    }
    default: return;
    }
    w->where = WL_NOWHERE;
    if (q->tried == w)
        q->tried = NULL;
}

void queue_park_class(struct sl_engine *e, struct klass *k, struct wl *rep, enum wl_why why) {
    struct cq *q = k->cq;
    SL_ASSERT(!k->parked && k->n > 0);
    if (k->rep && k->rep != rep)
        wl_retell(e, k->rep);
    heap_remove(q, k);
    k->parked = true;
    k->why = (uint8_t)why;
    k->rep = rep;
    q->n_parked++;
    q->n_inadmissible += k->n;
    cq_ready_sync(q);
}

struct wl *queue_head(const struct cq *q) {
    if (q->n_heap == 0)
        return NULL;
    struct wl *s = q->sticky;
    if (s && s->where == WL_QUEUED && !s->klass->parked && s->obj->generation == q->sticky_generation &&
        q->obj->strategy == SL_BEST_EFFORT_FIFO)
        return s;
    return q->heap[0]->heap[0];
}

static bool flush_queue(struct sl_engine *e, struct cq *q) {
    bool moved = false;
    if (q->n_parked) {
        for (uint32_t i = 0; i < q->cap_table;) {
            struct klass *k = q->table[i];
            if (k && k->parked) {
                if (k->n == 0) {
                    klass_free(e, k);
                    continue;
                }
                k->parked = false;
                q->n_parked--;
                q->n_inadmissible -= k->n;
                heap_add(q, k);
                moved = true;
            }
            i++;
        }
        cq_ready_sync(q);
    }
    for (uint32_t i = 0; i < q->n_solo;) {
        struct wl *w = q->solo[i];
        if (!wl_backoff_over(e, w)) {
            i++;
            continue;
        }
        queue_remove(e, w);
        queue_put(e, w);
        moved = true;
    }
    return moved;
}

bool queue_flush(struct sl_engine *e, struct tree *t) {
    bool moved = false;
    for (size_t i = 0; i < t->n_cqs; i++)
        if (t->cqs[i]->n_parked || t->cqs[i]->n_solo)
            moved |= flush_queue(e, t->cqs[i]);
    return moved;
}

/* Selector or labels changed: whether the namespace matches is found out at the next attempt. */
void queue_flush_misplaced(struct sl_engine *e, struct cq *q) {
    while (q->n_misplaced) {
        struct wl *w = q->misplaced[q->n_misplaced - 1];
        queue_remove(e, w);
        queue_put(e, w);
    }
}

/* What everybody in the queue is told may have changed. */
void queue_tell_all(struct sl_engine *e, struct cq *q) {
    if (!q->n_pending)
        return;
    for (uint32_t i = 0; i < q->cap_table; i++)
        for (uint32_t k = 0; q->table[i] && k < q->table[i]->n; k++)
            wl_tell(e, q->table[i]->heap[k]);
    for (uint32_t i = 0; i < q->n_solo; i++)
        wl_tell(e, q->solo[i]);
    for (uint32_t i = 0; i < q->n_misplaced; i++)
        wl_tell(e, q->misplaced[i]);
    for (uint32_t i = 0; i < e->n_backoff; i++)
        if (e->backoff[i]->cq == q)
            wl_tell(e, e->backoff[i]);
}
