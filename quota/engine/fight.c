/*
 * Evictions that would be undone. Without care two workloads can evict each other for ever, or a victim can come back
 * before the one it was evicted for. docs/termination.md has the argument.
 */
#include "model.h"

#include <stdlib.h>

#include "sluice/base/mem.h"

void fight_forget(struct wl *w) {
    if (!w->foe)
        return;
    if (w->foe_prev)
        w->foe_prev->foe_next = w->foe_next;
    else
        w->foe->victims = w->foe_next;
    if (w->foe_next)
        w->foe_next->foe_prev = w->foe_prev;
    w->foe = w->foe_prev = w->foe_next = NULL;
}

void fight_over(struct wl *by) {
    while (by->victims)
        fight_forget(by->victims);
}

void fight_begin(struct sl_engine *e, struct tree *t, struct wl *by, struct wl *victim) {
    (void)e;
    fight_forget(victim);
    victim->foe = by;
    victim->foe_next = by->victims;
    if (by->victims)
        by->victims->foe_prev = victim;
    by->victims = victim;
    by->fought = victim->fought = t->epoch;
    for (size_t i = 0; i < t->n_fights; i++)
        if (t->fights[i].by == by && t->fights[i].victim == victim) {
            t->fights[i].times++;
            return;
        }
    SL_GROW(t->fights, t->cap_fights, t->n_fights);
    t->fights[t->n_fights++] = (struct fight){by, victim, 1};
}

/* The eviction could not be written: it did not happen. */
void fight_cancel(struct tree *t, struct wl *victim) {
    for (size_t i = 0; i < t->n_fights; i++)
        if (t->fights[i].by == victim->foe && t->fights[i].victim == victim)
            t->fights[i].times--;
    fight_forget(victim);
}

/* How often one of the two evicted the other since something changed; the larger of both directions. */
unsigned fight_rounds(const struct tree *t, const struct wl *by, const struct wl *victim, unsigned *ret_same_way) {
    unsigned rounds = 0;
    *ret_same_way = 0;
    if (by->fought != t->epoch || victim->fought != t->epoch)
        return 0;
    for (size_t i = 0; i < t->n_fights; i++) {
        const struct fight *f = &t->fights[i];
        bool same = f->by == by && f->victim == victim;
        if (same)
            *ret_same_way = f->times;
        if ((same || (f->by == victim && f->victim == by)) && f->times > rounds)
            rounds = f->times;
    }
    return rounds;
}

/* Would its queue try this victim at all, once it is back? */
static bool would_be_tried(const struct wl *v) {
    const struct cq *q = v->cq;
    if (!v->obj->active || v->lq->cq != q)
        return false;
    if (q->obj->strategy == SL_BEST_EFFORT_FIFO)
        return true;
    const struct wl *head = queue_head(q);
    return !head || wl_before(v, head);
}

/* With w in place of its victims: would one of them, by the same rules, evict w? */
bool fight_returns(struct sl_engine *e, struct wl *w, const struct assignment *a, const struct targets *t) {
    struct cq *q = w->cq;
    size_t mark = undo_mark(e);
    for (size_t i = 0; i < t->n; i++) {
        search_remove(e, t->items[i].wl);
        t->items[i].wl->removed = true;
    }
    for (size_t i = 0; i < a->n_usage; i++)
        usage_push(e, a->usage[i].cell, a->usage[i].amount);
    SL_GROW(q->holders, q->cap_holders, q->n_holders);
    q->holders[q->n_holders++] = (struct holder){w, w->shape->priority};
    int64_t reserved = w->reserved_ms;
    w->reserved_ms = e->now_ms;
    w->use = a->usage;
    w->n_use = (uint16_t)a->n_usage;
    bool back = false;
    for (size_t i = 0; i < t->n && !back; i++) {
        struct wl *v = t->items[i].wl;
        if (!would_be_tried(v))
            continue;
        struct entry x = {.wl = v};
        nominate_one(e, v, &x, false);
        for (size_t k = 0; k < x.t.n; k++)
            back |= x.t.items[k].wl == w;
    }
    w->use = NULL;
    w->n_use = 0;
    w->reserved_ms = reserved;
    q->n_holders--;
    for (size_t i = 0; i < t->n; i++)
        t->items[i].wl->removed = false;
    undo_to(e, mark);
    return back;
}
