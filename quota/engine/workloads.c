/* Workloads of the API into the model: where a pending one waits, what one with quota counts for. */
#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/base/mem.h"

/* ---- LocalQueues ---- */

static struct lq *lq_get(struct sl_engine *e, const char *ns, const char *name) {
    size_t a = strlen(ns), b = strlen(name);
    SL_GROW(e->key, e->cap_key, a + b + 2);
    memcpy(e->key, ns, a);
    e->key[a] = '/';
    memcpy(e->key + a + 1, name, b + 1);
    struct lq *l = sl_map_get(&e->lqs, e->key);
    if (!l) {
        l = sl_xalloc(sizeof *l);
        l->ns = sl_xstrdup(ns);
        l->name = sl_xstrdup(name);
        l->key = sl_xstrdup(e->key);
        sl_map_set(&e->lqs, l->key, l);
    }
    return l;
}

static void lq_sweep(struct sl_engine *e, struct lq *l) {
    if (l->obj || l->n_wls)
        return;
    sl_map_del(&e->lqs, l->key);
    cq_unref(e, l->cq);
    free(l->uses);
    free(l->key);
    free(l->ns);
    free(l->name);
    free(l);
}

static void lq_attach(struct lq *l, struct wl *w) {
    w->lq = l;
    w->lq_prev = NULL;
    w->lq_next = l->wls;
    if (l->wls)
        l->wls->lq_prev = w;
    l->wls = w;
    l->n_wls++;
}

static void lq_detach(struct sl_engine *e, struct wl *w) {
    struct lq *l = w->lq;
    if (w->lq_prev)
        w->lq_prev->lq_next = w->lq_next;
    else
        l->wls = w->lq_next;
    if (w->lq_next)
        w->lq_next->lq_prev = w->lq_prev;
    l->n_wls--;
    w->lq = NULL;
    lq_sweep(e, l);
}

/* ---- where a pending workload waits ---- */

bool wl_queueable(const struct sl_workload *o) {
    bool on_hold = o->quota_reserved.status == SL_TRI_FALSE && same_text(o->quota_reserved.reason, "OnHold");
    return !o->gated && o->finished.status != SL_TRI_TRUE && o->active && !o->deleting &&
           o->quota_reserved.status != SL_TRI_TRUE && !on_hold && o->waiting_for_replacement.status != SL_TRI_TRUE;
}

static void set_cq(struct sl_engine *e, struct wl *w, struct cq *q) {
    if (w->cq == q)
        return;
    struct cq *old = w->cq;
    w->cq = q;
    if (q)
        q->refs++;
    if (old) {
        if (old->sticky == w)
            old->sticky = NULL;
        cq_unref(e, old);
    }
}

/* Puts a workload that is nowhere where it belongs, and has it told. */
static void place(struct sl_engine *e, struct wl *w) {
    SL_ASSERT(w->where == WL_NOWHERE);
    struct lq *l = w->lq;
    if (!wl_queueable(w->obj)) {
        if (w->cq && w->cq->sticky == w)
            w->cq->sticky = NULL;
        set_cq(e, w, NULL);
        wl_tell_off(e, w);
        bookmark_drop(w);
        w->told = 0;
        fight_over(w);
        fight_forget(w);
        return;
    }
    w->why = WHY_NEW;
    wl_tell(e, w);
    struct cq *q = l->cq;
    if (!l->obj || l->obj->deleting || l->obj->stop != SL_STOP_NONE || !q || !q->obj) {
        set_cq(e, w, NULL);
        return;
    }
    set_cq(e, w, q);
    if (!wl_backoff_over(e, w))
        queue_backoff(e, w);
    else
        queue_put(e, w);
}

void replace_all(struct sl_engine *e, struct lq *l) {
    for (struct wl *w = l->wls; w; w = w->lq_next)
        if (w->where != WL_HOLDING) {
            queue_remove(e, w);
            place(e, w);
        }
}

/* ---- public: LocalQueues ---- */

void sl_engine_put_localqueue(struct sl_engine *e, struct sl_localqueue *take) {
    trees_refresh(e);
    struct lq *l = lq_get(e, take->ns, take->name);
    struct sl_localqueue *old = l->obj;
    bool same = old && old->stop == take->stop && old->deleting == take->deleting && same_text(old->cq, take->cq);
    l->obj = take;
    sl_localqueue_free(old);
    if (same)
        return;
    struct cq *before = l->cq;
    l->cq = *text_of(take->cq) ? cq_get(e, take->cq) : NULL;
    if (l->cq) {
        l->cq->refs++;
        new_epoch(&l->cq->node);
    }
    replace_all(e, l);
    cq_unref(e, before);
}

void sl_engine_del_localqueue(struct sl_engine *e, const char *ns, const char *name) {
    SL_AUTO_FREE char *key = sl_xprintf("%s/%s", ns, name);
    struct lq *l = sl_map_get(&e->lqs, key);
    if (!l || !l->obj)
        return;
    trees_refresh(e);
    sl_localqueue_free(l->obj);
    l->obj = NULL;
    struct cq *before = l->cq;
    l->cq = NULL;
    if (before)
        new_epoch(&before->node);
    replace_all(e, l);
    cq_unref(e, before);
    lq_sweep(e, l);
}

/* ---- public: workloads ---- */

static bool holds(const struct sl_workload *o) {
    return o->quota_reserved.status == SL_TRI_TRUE && o->admission && o->finished.status != SL_TRI_TRUE;
}

static bool same_condition(const struct sl_condition_view *a, const struct sl_condition_view *b) {
    return a->status == b->status && a->since_ms == b->since_ms && same_text(a->reason, b->reason);
}

static bool same_checks(const struct sl_workload *a, const struct sl_workload *b) {
    if (a->n_checks != b->n_checks)
        return false;
    for (size_t i = 0; i < a->n_checks; i++)
        if (strcmp(a->checks[i].name, b->checks[i].name) != 0 || a->checks[i].state != b->checks[i].state)
            return false;
    return true;
}

/* Nothing that a decision looks at differs. */
static bool same_pending(const struct sl_workload *a, const struct sl_workload *b) {
    return a->generation == b->generation && same_condition(&a->evicted, &b->evicted) &&
           same_condition(&a->requeued, &b->requeued) && a->has_requeue_at == b->has_requeue_at &&
           (!a->has_requeue_at || a->requeue_at_ms == b->requeue_at_ms) && same_text(a->rejected, b->rejected) &&
           same_checks(a, b) && wl_queueable(a) == wl_queueable(b);
}

/* A reservation that was decided here and has not been seen in the API is given up only for a younger status. */
static bool withdrawn(const struct wl *w, const struct sl_workload *o) {
    if (w->observed || !wl_queueable(o))
        return true;
    return o->quota_reserved.status == SL_TRI_FALSE && o->quota_reserved.since_ms / 1000 > w->reserved_ms / 1000;
}

static bool preempted(const struct sl_workload *o) {
    return o->evicted.status == SL_TRI_TRUE && same_text(o->evicted.reason, "Preempted");
}

static void hold_observed(struct sl_engine *e, struct wl *w) {
    const struct sl_workload *o = w->obj;
    wl_tell_off(e, w);
    fight_over(w);
    fight_forget(w);
    bookmark_drop(w);
    w->told = 0;
    set_cq(e, w, cq_get(e, o->admission->cq));
    trees_refresh(e);
    w->reserved_ms = o->quota_reserved.since_ms;
    w->admitted = o->admitted.status == SL_TRI_TRUE;
    w->observed = true;
    wl_hold(e, w, w->cq, o->admission);
    tree_dirty(e, w->cq->node.tree);
}

static void release(struct sl_engine *e, struct wl *w, bool external) {
    struct cq *q = w->cq;
    wl_release(e, w);
    raise_flush(e, &q->node);
    if (external)
        new_epoch(&q->node);
}

/* The LocalQueue it is in: the object at hand may be newer than its place in the books. */
static bool same_queue(const struct wl *w, const struct sl_workload *o) {
    return same_text(w->lq->name, o->queue);
}

static void swap_object(struct sl_engine *e, struct wl *w, struct sl_workload *o, struct shape *shape) {
    if (!same_queue(w, o)) {
        lq_detach(e, w);
        lq_attach(lq_get(e, o->ns, text_of(o->queue)), w);
    }
    if (w->obj != o)
        sl_workload_free(w->obj);
    shape_unref(e, w->shape);
    w->obj = o;
    w->shape = shape;
    w->ts = wl_queue_time(e, o);
}

static void wl_new(struct sl_engine *e, struct sl_workload *o) {
    struct wl *w = sl_xalloc(sizeof *w);
    w->obj = o;
    w->shape = shape_of(e, o, NULL);
    w->ts = wl_queue_time(e, o);
    sl_map_set(&e->workloads, o->uid, w);
    lq_attach(lq_get(e, o->ns, text_of(o->queue)), w);
    if (holds(o)) {
        hold_observed(e, w);
        new_epoch(&w->cq->node);
    } else {
        place(e, w); /* one more that waits changes nobody's quota: no new epoch */
    }
}

static void update_holder(struct sl_engine *e, struct wl *w, struct sl_workload *o, struct shape *shape) {
    bool sent = w->evict_sent && o->evicted.status != SL_TRI_TRUE; /* otherwise the object says it itself now */
    bool books = shape != w->shape || !same_queue(w, o) || !wl_counts_as(w, o);
    if (books)
        release(e, w, true);
    swap_object(e, w, o, shape);
    if (books)
        hold_observed(e, w);
    if (!w->observed || o->quota_reserved.since_ms != w->reserved_ms)
        w->reserved_ms = o->quota_reserved.since_ms;
    w->observed = true;
    w->evict_sent = sent;
    wl_set_admitted(e, w, o->admitted.status == SL_TRI_TRUE);
}

static void put_holding(struct sl_engine *e, struct wl *w, struct sl_workload *o, struct shape *shape) {
    if (holds(o)) {
        update_holder(e, w, o, shape);
    } else if (!withdrawn(w, o)) { /* an older picture of what was admitted meanwhile */
        shape_unref(e, shape);
        sl_workload_free(w->obj);
        w->obj = o;
    } else {
        bool ours = w->evict_sent || preempted(w->obj) || preempted(o);
        release(e, w, !ours || !wl_queueable(o));
        swap_object(e, w, o, shape);
        place(e, w);
    }
}

static void put_waiting(struct sl_engine *e, struct wl *w, struct sl_workload *o, struct shape *shape) {
    if (!holds(o) && shape == w->shape && same_queue(w, o) && same_pending(w->obj, o) && wl_queue_time(e, o) == w->ts) {
        swap_object(e, w, o, shape);
        return;
    }
    struct cq *q = w->cq;
    if (q)
        q->refs++; /* still needed below */
    queue_remove(e, w);
    swap_object(e, w, o, shape);
    if (holds(o))
        hold_observed(e, w);
    else
        place(e, w);
    if (w->cq)
        new_epoch(&w->cq->node);
    if (q && w->where == WL_NOWHERE && (o->finished.status == SL_TRI_TRUE || !o->active))
        raise_flush(e, &q->node);
    cq_unref(e, q);
}

void sl_engine_put_workload(struct sl_engine *e, struct sl_workload *o, int64_t now_ms) {
    e->now_ms = now_ms;
    trees_refresh(e);
    struct wl *w = sl_map_get(&e->workloads, o->uid);
    if (!w)
        wl_new(e, o);
    else if (w->where == WL_HOLDING)
        put_holding(e, w, o, shape_of(e, o, w->shape));
    else
        put_waiting(e, w, o, shape_of(e, o, w->shape));
}

void sl_engine_del_workload(struct sl_engine *e, const char *uid) {
    struct wl *w = sl_map_get(&e->workloads, uid);
    if (!w)
        return;
    trees_refresh(e);
    if (w->where == WL_HOLDING) {
        release(e, w, true);
    } else if (w->where != WL_NOWHERE) {
        queue_remove(e, w);
        raise_flush(e, &w->cq->node);
        new_epoch(&w->cq->node);
    } else if (w->lq->cq) { /* also of one that is finished: 3.5 */
        raise_flush(e, &w->lq->cq->node);
    }
    wl_tell_off(e, w);
    fight_over(w);
    fight_forget(w);
    bookmark_drop(w);
    set_cq(e, w, NULL);
    lq_detach(e, w);
    sl_map_del(&e->workloads, uid);
    sl_workload_free(w->obj);
    shape_unref(e, w->shape);
    free(w);
}

void sl_engine_write_failed(struct sl_engine *e, const char *uid, bool gone) {
    struct wl *w = sl_map_get(&e->workloads, uid);
    if (!w)
        return;
    if (gone) {
        sl_engine_del_workload(e, uid);
        return;
    }
    trees_refresh(e);
    if (w->where == WL_HOLDING && !w->observed) {
        release(e, w, false);
        swap_object(e, w, w->obj, shape_of(e, w->obj, w->shape)); /* it may have been edited meanwhile */
        place(e, w);
    } else if (w->evict_sent) {
        w->evict_sent = false;
        if (w->cq->node.tree)
            fight_cancel(w->cq->node.tree, w);
        tree_dirty(e, w->cq->node.tree);
    }
}

void workloads_free(struct sl_engine *e) {
    SL_MAP_EACH (&e->workloads, m) {
        struct wl *w = m->value;
        free(w->use);
        free(w->bookmark);
        sl_workload_free(w->obj);
        shape_unref(e, w->shape);
        free(w);
    }
    sl_map_done(&e->workloads, NULL);
    SL_MAP_EACH (&e->lqs, m) {
        struct lq *l = m->value;
        sl_localqueue_free(l->obj);
        free(l->uses);
        free(l->key);
        free(l->ns);
        free(l->name);
        free(l);
    }
    sl_map_done(&e->lqs, NULL);
}
