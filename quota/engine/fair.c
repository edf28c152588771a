/* Fair sharing: which entry is next (4.5), and whom to preempt (7.6-7.8). */
#include "model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/base/mem.h"

/* ---- the next entry of a cycle ---- */

static void keys_of(struct sl_engine *e, struct entry *x) {
    struct node *n = &x->wl->cq->node;
    if (!x->keys)
        x->keys = arena_alloc(e->arena, ((size_t)n->depth + 1) * sizeof *x->keys);
    size_t mark = undo_mark(e);
    for (size_t i = 0; i < x->a->n_usage; i++)
        usage_push(e, x->a->usage[i].cell, x->a->usage[i].amount);
    for (size_t level = 0; n->parent; n = n->parent, level++) {
        struct fair_key *k = &x->keys[level];
        k->share = node_share(n);
        k->borrows = false;
        for (size_t i = 0; i < x->a->n_usage && !k->borrows; i++) {
            const struct cell *c = node_cell(n, x->a->usage[i].cell->key);
            k->borrows = x->a->usage[i].amount > 0 && c->U > c->S;
        }
    }
    undo_to(e, mark);
}

/* Both meet below cohort. */
static bool beats(const struct entry *a, const struct entry *b, const struct node *cohort) {
    const struct fair_key *x = &a->keys[a->wl->cq->node.depth - cohort->depth - 1];
    const struct fair_key *y = &b->keys[b->wl->cq->node.depth - cohort->depth - 1];
    if (x->borrows != y->borrows)
        return !x->borrows;
    int c = share_compare(&x->share, &y->share);
    if (c)
        return c < 0;
    return wl_before(a->wl, b->wl);
}

static int by_top_deepest_first(const void *a, const void *b) {
    const struct node *x = *(struct node *const *)a, *y = *(struct node *const *)b;
    if (x->slot != y->slot)
        return (x->slot > y->slot) - (x->slot < y->slot);
    return x->depth != y->depth ? y->depth - x->depth : strcmp(x->name, y->name);
}

static int by_slot(const void *a, const void *b) {
    const struct node *x = &(*(struct entry *const *)a)->wl->cq->node, *y = &(*(struct entry *const *)b)->wl->cq->node;
    return x->slot != y->slot ? (x->slot > y->slot) - (x->slot < y->slot) : strcmp(x->name, y->name);
}

static struct node *top_of(struct node *n) {
    while (n->parent->parent)
        n = n->parent;
    return n;
}

/* Knock-out below one child of the root; false when nothing is left there. */
static bool play_off(struct sl_engine *e, struct fair_order *o, struct fair_top *t) {
    for (size_t i = t->met; i < t->met_end; i++)
        o->met[i]->best = NULL;
    for (size_t i = t->entries; i < t->entries_end; i++)
        if (o->list[i]->result == 0) {
            keys_of(e, o->list[i]);
            o->list[i]->wl->cq->node.best = o->list[i];
        }
    for (size_t i = t->met; i < t->met_end; i++) {
        struct node *n = o->met[i], *p = n->parent;
        if (n->best && n != t->node && (!p->best || beats(n->best, p->best, p)))
            p->best = n->best;
    }
    return t->node->best != NULL;
}

static bool top_before(const struct fair_order *o, size_t a, size_t b) {
    return beats(o->tops[a].node->best, o->tops[b].node->best, o->tops[a].node->parent);
}

static void sift_down(struct fair_order *o, size_t i) {
    for (;;) {
        size_t c = 2 * i + 1;
        if (c >= o->n_heap)
            return;
        if (c + 1 < o->n_heap && top_before(o, o->heap[c + 1], o->heap[c]))
            c++;
        if (!top_before(o, o->heap[c], o->heap[i]))
            return;
        size_t x = o->heap[i];
        o->heap[i] = o->heap[c];
        o->heap[c] = x;
        i = c;
    }
}

void fair_begin(struct sl_engine *e, struct fair_order *o, struct entry **list, size_t n) {
    *o = (struct fair_order){.list = list, .n = n};
    if (n == 0 || !list[0]->wl->cq->node.parent)
        return;
    o->tops = arena_alloc(e->arena, n * sizeof *o->tops);
    o->heap = arena_alloc(e->arena, n * sizeof *o->heap);
    size_t depth = 0;
    for (size_t i = 0; i < n; i++)
        depth += (size_t)list[i]->wl->cq->node.depth;
    o->met = arena_alloc(e->arena, depth * sizeof(struct node *));
    uint32_t mark = ++e->mark;
    for (size_t i = 0; i < n; i++) {
        struct node *x = &list[i]->wl->cq->node, *top = top_of(x);
        if (top->mark != mark) {
            top->slot = (uint32_t)o->n_tops;
            o->tops[o->n_tops++].node = top;
        }
        for (; x->parent && x->mark != mark; x = x->parent) {
            x->mark = mark;
            x->slot = top->slot;
            o->met[o->n_met++] = x;
        }
    }
    qsort(o->met, o->n_met, sizeof(struct node *), by_top_deepest_first);
    qsort(list, n, sizeof *list, by_slot);
    for (size_t t = 0, m = 0, i = 0; t < o->n_tops; t++) {
        struct fair_top *x = &o->tops[t];
        x->met = m;
        while (m < o->n_met && o->met[m]->slot == t)
            m++;
        x->met_end = m;
        x->entries = i;
        while (i < n && list[i]->wl->cq->node.slot == t)
            i++;
        x->entries_end = i;
        play_off(e, o, x); /* never empty yet */
        o->heap[o->n_heap++] = t;
    }
    for (size_t i = o->n_heap / 2; i-- > 0;)
        sift_down(o, i);
}

/* Usage changes only on the way of the entry that was processed last, so only its part of the tree is played again. */
struct entry *fair_next(struct sl_engine *e, struct fair_order *o) {
    if (!o->tops)
        return o->n ? o->list[--o->n] : NULL;
    if (o->picked) {
        if (!play_off(e, o, &o->tops[o->heap[0]]))
            o->heap[0] = o->heap[--o->n_heap];
        sift_down(o, 0);
    }
    o->picked = true;
    return o->n_heap ? o->tops[o->heap[0]].node->best : NULL;
}

/* ---- whom to preempt ---- */

struct fq { /* candidates of one CQ, best first */
    struct cq *cq;
    struct wl **items;
    size_t n, next;
};
struct order {
    struct psearch *s;
    struct fq *fqs;
    size_t n_fqs;
    uint32_t pruned; /* mark of nodes that are out */
};

static int by_order(const void *a, const void *b, void *arg) {
    const struct psearch *s = arg;
    return candidate_order(s->e, s->cq, *(struct wl *const *)a, *(struct wl *const *)b);
}

static void group(struct order *o, struct psearch *s, struct wl **list, size_t n) {
    o->s = s;
    o->n_fqs = 0;
    o->fqs = arena_alloc(s->e->arena, (n + 1) * sizeof *o->fqs);
    o->pruned = ++s->e->mark;
    for (size_t i = 0; i < n; i++) {
        struct cq *q = list[i]->cq;
        if (!q->fq) {
            q->fq = &o->fqs[o->n_fqs++];
            *q->fq = (struct fq){.cq = q};
        }
        q->fq->n++;
    }
    for (size_t i = 0; i < o->n_fqs; i++) {
        o->fqs[i].items = arena_alloc(s->e->arena, o->fqs[i].n * sizeof(struct wl *));
        o->fqs[i].n = 0;
    }
    for (size_t i = 0; i < n; i++)
        list[i]->cq->fq->items[list[i]->cq->fq->n++] = list[i];
}

static void ungroup(struct order *o) {
    for (size_t i = 0; i < o->n_fqs; i++)
        o->fqs[i].cq->fq = NULL;
}

static struct wl *first_of(const struct fq *q) {
    return q->items[q->next];
}
static bool has_more(const struct fq *q) {
    return q && q->next < q->n;
}

/* One step down: the CQ to attack below this Cohort, or the Cohort to look into next, or nothing. */
static struct node *best_child(struct order *o, struct node *cohort) {
    struct psearch *s = o->s;
    struct node *cq = NULL, *sub = NULL;
    struct share cq_share = {0}, sub_share = {0};
    for (size_t i = 0; i < cohort->n_kids; i++) {
        struct node *k = cohort->kids[i];
        if (k->mark == o->pruned)
            continue;
        struct share d = node_share(k);
        if (k->is_cq) {
            if (!has_more(cq_of(k)->fq) || (!d.borrowing && cq_of(k) != s->cq)) {
                k->mark = o->pruned;
                continue;
            }
            int c = cq ? share_compare(&d, &cq_share) : 1;
            if (c > 0 ||
                (c == 0 && candidate_order(s->e, s->cq, first_of(cq_of(k)->fq), first_of(cq_of(cq)->fq)) < 0)) {
                cq = k;
                cq_share = d;
            }
        } else {
            if (!d.borrowing && k->on_path != s->e->path) {
                k->mark = o->pruned;
                continue;
            }
            int c = sub ? share_compare(&d, &sub_share) : 1;
            if (c > 0 || (c == 0 && strcmp(k->name, sub->name) < 0)) {
                sub = k;
                sub_share = d;
            }
        }
    }
    if (sub && (!cq || share_compare(&sub_share, &cq_share) >= 0))
        return sub;
    return cq;
}

static struct fq *next_cq(struct order *o) {
    struct node *root = o->s->cq->node.tree->root;
    if (root->is_cq)
        return has_more(o->s->cq->fq) ? o->s->cq->fq : NULL;
    while (root->mark != o->pruned) {
        struct node *n = root;
        while (n && !n->is_cq) {
            struct node *child = best_child(o, n);
            if (!child)
                n->mark = o->pruned;
            n = child;
        }
        if (n)
            return cq_of(n)->fq;
    }
    return NULL;
}

/* Children of the lowest common ancestor on the way to the preemptor and to q. */
static void siblings(const struct psearch *s, struct cq *q, const struct node **ret_x, const struct node **ret_y) {
    const struct node *y = &q->node;
    while (y->parent->on_path != s->e->path)
        y = y->parent;
    const struct node *x = &s->cq->node;
    while (x->parent != y->parent)
        x = x->parent;
    *ret_x = x;
    *ret_y = y;
}

static bool take(struct psearch *s, struct wl *w, uint8_t reason) {
    search_take(s, w, reason);
    return search_room(s, true);
}

static bool infinite(const struct share *s) {
    return isinf(share_value(s));
}

/* Candidates of a CQ that borrows, as long as the strategy does not allow to take one. True: there is room. */
static bool attack(struct psearch *s, struct fq *q, struct wl **retry, size_t *n_retry) {
    const struct node *x, *y;
    siblings(s, q->cq, &x, &y);
    struct share mine = node_share(x), old = node_share(y);
    bool all = infinite(&mine) && !infinite(&old);
    while (has_more(q)) {
        struct wl *c = q->items[q->next++];
        bool ok = false;
        if (!all && s->e->config.strategies[0] == SL_FAIR_INITIAL_SHARE) {
            ok = share_compare(&mine, &old) < 0;
        } else if (!all) {
            size_t mark = undo_mark(s->e);
            search_remove(s->e, c);
            struct share after = node_share(y);
            undo_to(s->e, mark);
            ok = share_compare(&mine, &after) <= 0;
        }
        if (ok)
            return take(s, c, TARGET_FAIR);
        retry[(*n_retry)++] = c;
    }
    return false;
}

static bool first_pass(struct psearch *s, struct order *o, bool nominal, struct wl **retry, size_t *n_retry) {
    struct fq *q;
    while ((q = next_cq(o))) {
        if (q->cq == s->cq || nominal) {
            struct wl *c = q->items[q->next++];
            if (take(s, c, q->cq == s->cq ? TARGET_OWN : TARGET_RECLAIM))
                return true;
        } else if (attack(s, q, retry, n_retry)) {
            return true;
        }
    }
    return false;
}

static bool second_pass(struct psearch *s, struct order *o) {
    struct fq *q;
    while ((q = next_cq(o))) {
        const struct node *x, *y;
        siblings(s, q->cq, &x, &y);
        struct share mine = node_share(x), theirs = node_share(y);
        struct wl *c = q->items[q->next];
        q->next = q->n; /* each queue at most once */
        if (share_compare(&mine, &theirs) < 0 && take(s, c, TARGET_FAIR))
            return true;
    }
    return false;
}

static size_t collect_from(struct psearch *s, struct cq *q, enum sl_preempt_policy policy, struct wl **list, size_t n) {
    for (uint32_t h = 0; h < q->n_holders; h++) {
        struct wl *w = q->holders[h].wl;
        if (w->removed || !policy_allows(policy, s->wl, w) || !wl_contests(w, s->contested, s->n_contested))
            continue;
        if (list)
            list[n] = w;
        n++;
    }
    return n;
}

/* Own workloads, and those of every queue of the tree that borrows what is contested; only counts without a list. */
static size_t collect(struct psearch *s, struct wl **list) {
    const struct sl_clusterqueue *own = s->cq->obj;
    size_t n = collect_from(s, s->cq, own->within_cluster_queue, list, 0);
    if (own->reclaim_within_cohort == SL_PREEMPT_NEVER || !s->cq->node.parent)
        return n;
    struct node **stack = NULL;
    size_t depth = 0, cap = 0;
    SL_GROW(stack, cap, depth);
    stack[depth++] = s->cq->node.tree->root;
    while (depth) {
        struct node *x = stack[--depth];
        bool over = any_over(s, x);
        if (!over && !x->n_sub)
            continue;
        for (size_t i = 0; i < x->n_kids; i++) {
            struct node *k = x->kids[i];
            if (!k->is_cq) {
                SL_GROW(stack, cap, depth);
                stack[depth++] = k;
            } else if (over && k != &s->cq->node && cq_of(k)->active &&
                       !within_quota(k, s->contested, s->n_contested)) {
                n = collect_from(s, cq_of(k), own->reclaim_within_cohort, list, n);
            }
        }
    }
    free(stack);
    return n;
}

struct targets fair_targets(struct psearch *s) {
    struct targets none = {NULL, 0};
    size_t n = collect(s, NULL);
    if (n == 0)
        return none;
    struct wl **list = arena_alloc(s->e->arena, n * sizeof(struct wl *));
    struct wl **retry = arena_alloc(s->e->arena, n * sizeof(struct wl *));
    size_t n_retry = 0;
    collect(s, list);
    qsort_r(list, n, sizeof(struct wl *), by_order, s);
    s->T = arena_alloc(s->e->arena, n * sizeof *s->T);
    s->n_T = 0;
    s->e->path++;
    for (struct node *x = &s->cq->node; x; x = x->parent)
        x->on_path = s->e->path;
    size_t mark = undo_mark(s->e);
    for (size_t i = 0; i < s->n_R; i++)
        usage_push(s->e, s->R[i].cell, s->R[i].amount);
    s->pushed = true;
    bool nominal = true;
    for (size_t i = 0; i < s->n_contested; i++)
        nominal &= !cell_borrows_with(s->contested[i], 0);
    struct order o;
    group(&o, s, list, n);
    bool room = first_pass(s, &o, nominal, retry, &n_retry);
    ungroup(&o);
    if (!room && s->e->config.strategies[1]) {
        group(&o, s, retry, n_retry);
        room = second_pass(s, &o);
        ungroup(&o);
    }
    for (size_t i = 0; i < s->n_R; i++)
        usage_pull(s->e, s->R[i].cell, s->R[i].amount);
    s->pushed = false;
    struct targets t = none;
    if (room)
        t = search_fill_back(s, true);
    undo_to(s->e, mark);
    return t;
}
