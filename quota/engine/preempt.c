/* Who must give way: the classical search, and what both searches share (scheduling reference, 7.1-7.5). */
#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/base/mem.h"

/* What the object says of an eviction counts only once it is the object of this admission. */
bool wl_evicted(const struct wl *w) {
    return w->evict_sent || (w->observed && w->obj->evicted.status == SL_TRI_TRUE);
}

bool policy_allows(enum sl_preempt_policy policy, const struct wl *p, const struct wl *c) {
    int64_t a = p->shape->priority, b = c->shape->priority;
    switch (policy) {
    case SL_PREEMPT_LOWER_PRIORITY: return a > b;
    case SL_PREEMPT_LOWER_OR_NEWER_EQUAL: return a > b || (a == b && p->ts < c->ts);
    case SL_PREEMPT_ANY: return true;
    default: return false; /* SL_PREEMPT_NEVER */
    }
}

bool wl_contests(const struct wl *c, struct cell *const *contested, size_t n) {
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < c->n_use; k++)
            if (c->use[k].cell->key == contested[i]->key)
                return true;
    return false;
}

/* Who goes first, both of the same class. */
int candidate_order(const struct sl_engine *e, const struct cq *own, const struct wl *a, const struct wl *b) {
    (void)e;
    if (wl_evicted(a) != wl_evicted(b))
        return wl_evicted(a) ? -1 : 1;
    if ((a->cq == own) != (b->cq == own))
        return a->cq == own ? 1 : -1;
    if (a->shape->priority != b->shape->priority)
        return a->shape->priority < b->shape->priority ? -1 : 1;
    if (a->reserved_ms != b->reserved_ms)
        return a->reserved_ms > b->reserved_ms ? -1 : 1;
    return strcmp(a->obj->uid, b->obj->uid);
}

bool within_quota(const struct node *n, struct cell *const *contested, size_t n_contested) {
    for (size_t i = 0; i < n_contested; i++) {
        const struct cell *c = node_cell(n, contested[i]->key);
        if (c && c->S < c->U)
            return false;
    }
    return true;
}

void search_remove(struct sl_engine *e, struct wl *w) {
    for (size_t i = 0; i < w->n_use; i++)
        usage_pull(e, w->use[i].cell, w->use[i].amount);
}

static void put_back(struct sl_engine *e, struct wl *w) {
    for (size_t i = 0; i < w->n_use; i++)
        usage_push(e, w->use[i].cell, w->use[i].amount);
}

static void push_request(struct psearch *s, bool on) {
    for (size_t i = 0; i < s->n_R; i++)
        (on ? usage_push : usage_pull)(s->e, s->R[i].cell, s->R[i].amount);
}

bool search_room(struct psearch *s, bool allow_borrow) {
    if (s->pushed)
        push_request(s, false);
    bool room = true;
    for (size_t i = 0; i < s->n_R && room; i++)
        room = (allow_borrow || !cell_borrows_with(s->R[i].cell, s->R[i].amount)) &&
               s->R[i].amount <= cell_available(s->R[i].cell);
    if (s->pushed)
        push_request(s, true);
    return room;
}

void search_take(struct psearch *s, struct wl *w, uint8_t reason) {
    search_remove(s->e, w);
    s->T[s->n_T++] = (struct target){w, reason, 0};
}

struct targets search_fill_back(struct psearch *s, bool allow_borrow) {
    for (size_t i = s->n_T - 1; i-- > 0;) {
        put_back(s->e, s->T[i].wl);
        if (search_room(s, allow_borrow))
            s->T[i] = s->T[--s->n_T];
        else
            search_remove(s->e, s->T[i].wl);
    }
    return (struct targets){s->T, s->n_T};
}

/* ---- classical search ---- */

enum kind { KIND_HIERARCHICAL, KIND_ONLY_WITHOUT_BORROWING, KIND_WHILE_BORROWING, KIND_OWN };
struct cand {
    struct wl *wl;
    struct node *meet; /* Cohort from which it was found */
    uint8_t kind, list, reason;
};
struct cands {
    struct psearch *s;
    struct cand *items;
    size_t n, cap;
    bool others;
    bool hierarchical;
};

static void cand_add(struct cands *c, struct cand x) {
    if (c->n == c->cap) {
        size_t cap = c->cap ? c->cap * 2 : 32;
        struct cand *items = arena_alloc(c->s->e->arena, cap * sizeof *items);
        if (c->n)
            memcpy(items, c->items, c->n * sizeof *items);
        c->items = items;
        c->cap = cap;
    }
    c->items[c->n++] = x;
}

static void classify(struct cands *c, struct cq *q, struct node *meet, bool advantage) {
    struct psearch *s = c->s;
    const struct sl_clusterqueue *own = s->cq->obj;
    for (uint32_t i = 0; i < q->n_holders; i++) {
        struct wl *w = q->holders[i].wl;
        if (w->removed || !policy_allows(own->reclaim_within_cohort, s->wl, w) ||
            !wl_contests(w, s->contested, s->n_contested))
            continue;
        struct cand x = {w, meet, KIND_HIERARCHICAL, 0, TARGET_RECLAIM};
        if (!advantage) {
            x.list = 1;
            int64_t p = w->shape->priority;
            if (own->borrow_within_cohort == SL_PREEMPT_NEVER || p >= s->wl->shape->priority ||
                (own->has_max_priority_threshold && p > own->max_priority_threshold)) {
                x.kind = KIND_ONLY_WITHOUT_BORROWING;
            } else {
                x.kind = KIND_WHILE_BORROWING;
                x.reason = TARGET_RECLAIM_BORROWING;
            }
        }
        c->others = true;
        c->hierarchical |= advantage;
        cand_add(c, x);
    }
}

/* Whether any child of the node is over its quota in what is contested; if not, nobody below can be a candidate. */
bool any_over(const struct psearch *s, const struct node *n) {
    for (size_t i = 0; i < s->n_contested; i++) {
        const struct cell *c = node_cell(n, s->contested[i]->key);
        if (c && c->over)
            return true;
    }
    return false;
}

static void walk_down(struct cands *c, struct node *meet, const struct node *below, bool advantage) {
    struct psearch *s = c->s;
    struct node **stack = NULL; /* depth is whatever users build */
    size_t n = 0, cap = 0;
    SL_GROW(stack, cap, n);
    stack[n++] = meet;
    while (n) {
        struct node *x = stack[--n];
        if (!any_over(s, x))
            continue;
        for (size_t i = 0; i < x->n_kids; i++) {
            struct node *k = x->kids[i];
            if (k == below || (k->is_cq && !cq_of(k)->active) || within_quota(k, s->contested, s->n_contested))
                continue;
            if (k->is_cq) {
                classify(c, cq_of(k), meet, advantage);
                continue;
            }
            SL_GROW(stack, cap, n);
            stack[n++] = k;
        }
    }
    free(stack);
}

static void collect_others(struct cands *c) {
    struct psearch *s = c->s;
    if (!s->cq->node.parent || s->cq->obj->reclaim_within_cohort == SL_PREEMPT_NEVER)
        return;
    int64_t *rest = arena_alloc(s->e->arena, (s->n_R + 1) * sizeof *rest);
    struct cell **at = arena_alloc(s->e->arena, (s->n_R + 1) * sizeof(struct cell *));
    bool advantage = true;
    for (size_t i = 0; i < s->n_R; i++) {
        const struct cell *r = s->R[i].cell;
        advantage &= r->S >= amt_add(r->U, s->R[i].amount);
        rest[i] = max0(amt_sub(s->R[i].amount, cell_local(r)));
        at[i] = s->R[i].cell;
    }
    const struct node *below = &s->cq->node;
    for (struct node *m = s->cq->node.parent; m; m = m->parent) {
        walk_down(c, m, below, advantage);
        bool fit = true;
        for (size_t i = 0; i < s->n_R; i++) {
            at[i] = at[i]->up;
            fit &= at[i]->S >= amt_add(at[i]->U, rest[i]);
            rest[i] = max0(amt_sub(rest[i], cell_local(at[i])));
        }
        advantage |= fit;
        below = m;
    }
}

static int by_class(const void *pa, const void *pb, void *arg) {
    const struct cand *a = pa, *b = pb;
    const struct psearch *s = arg;
    if (wl_evicted(a->wl) != wl_evicted(b->wl))
        return wl_evicted(a->wl) ? -1 : 1;
    if (a->list != b->list)
        return a->list - b->list;
    return candidate_order(s->e, s->cq, a->wl, b->wl);
}

static bool may_take(const struct psearch *s, const struct cand *x, bool allow_borrow) {
    if (x->kind == KIND_OWN)
        return true;
    if (allow_borrow && x->kind == KIND_ONLY_WITHOUT_BORROWING)
        return false;
    for (const struct node *n = &x->wl->cq->node; n != x->meet; n = n->parent)
        if (within_quota(n, s->contested, s->n_contested))
            return false;
    return true;
}

static struct targets classical(struct psearch *s) {
    struct cands c = {.s = s};
    const struct sl_clusterqueue *own = s->cq->obj;
    for (uint32_t i = 0; i < s->cq->n_holders; i++) {
        struct wl *w = s->cq->holders[i].wl;
        if (!w->removed && policy_allows(own->within_cluster_queue, s->wl, w) &&
            wl_contests(w, s->contested, s->n_contested))
            cand_add(&c, (struct cand){w, NULL, KIND_OWN, 2, TARGET_OWN});
    }
    collect_others(&c);
    if (c.n == 0)
        return (struct targets){NULL, 0};
    qsort_r(c.items, c.n, sizeof *c.items, by_class, s);
    bool forbidden = own->borrow_within_cohort == SL_PREEMPT_NEVER, under = true;
    for (size_t i = 0; i < s->n_contested; i++)
        under &= s->contested[i]->nom > s->contested[i]->U;
    bool rounds[2];
    size_t n_rounds = 2;
    if (!c.others || (forbidden && !under)) {
        rounds[0] = true;
        n_rounds = 1;
    } else {
        rounds[0] = !(forbidden && !c.hierarchical);
        rounds[1] = !rounds[0];
    }
    s->T = arena_alloc(s->e->arena, c.n * sizeof *s->T);
    size_t mark = undo_mark(s->e);
    for (size_t r = 0; r < n_rounds; r++) {
        s->n_T = 0;
        for (size_t i = 0; i < c.n; i++) {
            if (!may_take(s, &c.items[i], rounds[r]))
                continue;
            search_take(s, c.items[i].wl, c.items[i].reason);
            if (search_room(s, rounds[r])) {
                struct targets t = search_fill_back(s, rounds[r]);
                undo_to(s->e, mark);
                return t;
            }
        }
        undo_to(s->e, mark);
    }
    return (struct targets){NULL, 0};
}

/* ---- entry points ---- */

struct targets find_targets(struct sl_engine *e, struct wl *w, const struct use *R, size_t n_R,
                            struct cell *const *contested, size_t n_contested) {
    struct psearch s = {
        .e = e, .wl = w, .cq = w->cq, .R = R, .n_R = n_R, .contested = contested, .n_contested = n_contested};
    return e->config.fair_sharing ? fair_targets(&s) : classical(&s);
}

struct targets assignment_targets(struct sl_engine *e, struct wl *w, const struct assignment *a) {
    struct use *R = arena_alloc(e->arena, (a->n_usage + 1) * sizeof *R);
    struct cell **contested = arena_alloc(e->arena, (a->n_usage + 1) * sizeof(struct cell *));
    size_t n_R = 0, n_contested = 0;
    for (size_t p = 0; p < a->n_done; p++)
        for (size_t i = 0; i < a->ps[p].n; i++) {
            const struct pick *x = &a->ps[p].picks[i];
            if (!x->flavor)
                continue;
            if (x->mode != MODE_FIT) {
                size_t k = 0;
                while (k < n_contested && contested[k] != x->cell)
                    k++;
                if (k == n_contested)
                    contested[n_contested++] = x->cell;
            }
            if (x->injected || x->amount == 0)
                continue;
            size_t k = 0;
            while (k < n_R && R[k].cell != x->cell)
                k++;
            if (k == n_R)
                R[n_R++] = (struct use){x->cell, x->amount};
            else
                R[k].amount = amt_add(R[k].amount, x->amount);
        }
    return find_targets(e, w, R, n_R, contested, n_contested);
}
