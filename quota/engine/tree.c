/*
 * The quota tree: one cell per node, flavor and resource, linked to the cell above. Structure changes only mark nodes;
 * trees_refresh() recomputes the trees concerned before anything reads them, so that a thousand queues can be declared
 * at the price of one rebuild.
 */
#include "model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/base/mem.h"

/* ---- cells ---- */

static size_t cell_slot(const struct node *n, uint64_t key) {
    size_t lo = 0, hi = n->n_cells;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (n->cells[mid]->key < key)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

struct cell *node_cell(const struct node *n, uint64_t key) {
    size_t i = cell_slot(n, key);
    return i < n->n_cells && n->cells[i]->key == key ? n->cells[i] : NULL;
}

struct cell *node_cell_make(struct sl_engine *e, struct node *n, struct flv *f, struct res *r) {
    uint64_t key = cell_key(f, r);
    size_t i = cell_slot(n, key);
    if (i < n->n_cells && n->cells[i]->key == key)
        return n->cells[i];
    struct cell *c = sl_xalloc(sizeof *c);
    c->flavor = flv_ref(e, f->name);
    c->res = res_ref(e, r->name);
    c->key = key;
    c->node = n;
    SL_GROW(n->cells, n->cap_cells, n->n_cells);
    memmove(n->cells + i + 1, n->cells + i, (n->n_cells - i) * sizeof *n->cells);
    n->cells[i] = c;
    n->n_cells++;
    return c;
}

static void cell_free(struct sl_engine *e, struct cell *c) {
    flv_unref(e, c->flavor);
    res_unref(e, c->res);
    free(c);
}

/* ---- arithmetic ---- */

/*
 * raw(c) = local(c) + min(raw(parent), what c's limit leaves), unrolled from the bottom up: how deep Cohorts are nested
 * is up to users, so there is no recursion.
 */
int64_t cell_available_raw(const struct cell *c) {
    int64_t below = 0, best = SL_UNLIMITED;
    for (; c->up; c = c->up) {
        below = amt_add(below, cell_local(c));
        if (!c->has_bl)
            continue;
        int64_t in_parent = amt_sub(c->S, c->L);
        int64_t used_up = max0(amt_sub(c->U, c->L));
        int64_t limit = amt_add(below, amt_add(amt_sub(in_parent, used_up), c->bl));
        if (limit < best)
            best = limit;
    }
    int64_t whole = amt_add(below, amt_sub(c->S, c->U));
    return whole < best ? whole : best;
}

/* Every change of a usage, so that the parent knows how many of its children are over their quota. */
static void set_usage(struct cell *c, int64_t u) {
    bool was = c->U > c->S, is = u > c->S;
    c->U = u;
    if (was != is && c->up)
        c->up->over += is ? 1u : (uint32_t)-1;
}

static void log_usage(struct sl_engine *e, struct cell *c) {
    if (!e->log_on)
        return;
    SL_GROW(e->undo, e->cap_undo, e->n_undo);
    e->undo[e->n_undo++] = (struct undo){c, c->U};
}

void usage_push(struct sl_engine *e, struct cell *c, int64_t v) {
    for (;;) {
        int64_t la = cell_local(c);
        log_usage(e, c);
        set_usage(c, amt_add(c->U, v));
        if (!c->up || v <= la)
            return;
        v = amt_sub(v, la);
        c = c->up;
    }
}

void usage_pull(struct sl_engine *e, struct cell *c, int64_t v) {
    for (;;) {
        int64_t st = amt_sub(c->U, c->L);
        log_usage(e, c);
        set_usage(c, amt_sub(c->U, v));
        if (!c->up || st <= 0)
            return;
        if (st < v)
            v = st;
        c = c->up;
    }
}

void undo_to(struct sl_engine *e, size_t mark) {
    while (e->n_undo > mark) {
        e->n_undo--;
        set_usage(e->undo[e->n_undo].cell, e->undo[e->n_undo].u);
    }
}

int cell_fit_level(const struct cell *c, int64_t v, bool *ret_smaller) {
    *ret_smaller = c->up != NULL;
    if (!c->up || !cell_borrows_with(c, v))
        return 0;
    int64_t rest = amt_sub(v, cell_local(c));
    const struct cell *p = c->up;
    for (;; p = p->up) {
        *ret_smaller = p->up != NULL;
        if (p->S >= amt_add(p->U, rest))
            return p->node->height;
        if (!p->up)
            break;
        rest = amt_sub(rest, cell_local(p));
    }
    *ret_smaller = false;
    return p->node->height;
}

/* ---- structure ---- */

void node_init(struct node *n, const char *name, bool is_cq) {
    n->name = sl_xstrdup(name);
    n->is_cq = is_cq;
    n->weight = 1;
}

static void tree_free(struct sl_engine *e, struct tree *t) {
    if (t->stale_reasons) {
        struct tree *before = NULL;
        for (struct tree *x = e->stale_first; x != t; x = x->next_stale)
            before = x;
        *(before ? &before->next_stale : &e->stale_first) = t->next_stale;
        if (e->stale_last == t)
            e->stale_last = before;
    }
    if (t->dirty) {
        struct tree *before = NULL;
        for (struct tree *x = e->dirty_first; x != t; x = x->next_dirty)
            before = x;
        if (before)
            before->next_dirty = t->next_dirty;
        else
            e->dirty_first = t->next_dirty;
        if (e->dirty_last == t)
            e->dirty_last = before;
    }
    free(t->fights);
    free(t->cqs);
    free(t);
}

static void node_set_tree(struct sl_engine *e, struct node *n, struct tree *t) {
    struct tree *old = n->tree;
    n->tree = t;
    if (t)
        t->n_nodes++;
    if (old && --old->n_nodes == 0)
        tree_free(e, old);
}

void node_stale(struct sl_engine *e, struct node *n) {
    if (n->stale)
        return;
    n->stale = true;
    n->stale_next = e->stale;
    e->stale = n;
}

static void kid_remove(struct node *parent, struct node *n) {
    size_t i = 0;
    while (parent->kids[i] != n)
        i++;
    memmove(parent->kids + i, parent->kids + i + 1, (parent->n_kids - i - 1) * sizeof *parent->kids);
    parent->n_kids--;
}

void node_set_parent(struct sl_engine *e, struct node *n, struct node *parent) {
    if (n->parent == parent)
        return;
    struct node *old = n->parent;
    n->parent = parent;
    node_stale(e, n);
    if (parent) {
        SL_GROW(parent->kids, parent->cap_kids, parent->n_kids);
        parent->kids[parent->n_kids++] = n;
        node_stale(e, parent);
    }
    if (old) {
        kid_remove(old, n);
        node_stale(e, old);
        cohort_sweep(e, cohort_of(old));
    }
}

void node_done(struct sl_engine *e, struct node *n) {
    node_set_parent(e, n, NULL);
    if (n->stale) {
        struct node **p = &e->stale;
        while (*p != n)
            p = &(*p)->stale_next;
        *p = n->stale_next;
    }
    node_set_tree(e, n, NULL);
    for (size_t i = 0; i < n->n_cells; i++)
        cell_free(e, n->cells[i]);
    free(n->cells);
    free(n->kids);
    free(n->lends);
    free(n->name);
}

void node_set_quotas(struct sl_engine *e, struct node *n, const struct sl_resource_group *groups, size_t n_groups) {
    for (size_t i = 0; i < n->n_cells; i++) {
        struct cell *c = n->cells[i];
        c->own = c->has_bl = c->has_ll = false;
        c->nom = c->bl = c->ll = 0;
    }
    for (size_t g = 0; g < n_groups; g++)
        for (size_t f = 0; f < groups[g].n_flavors; f++) {
            const struct sl_flavor_quotas *fq = &groups[g].flavors[f];
            struct flv *flavor = flv_ref(e, fq->flavor);
            for (size_t r = 0; r < fq->n; r++) {
                struct res *res = res_ref(e, fq->quotas[r].resource);
                struct cell *c = node_cell_make(e, n, flavor, res);
                c->own = true;
                c->nom = fq->quotas[r].nominal;
                c->has_bl = fq->quotas[r].has_borrowing_limit;
                c->bl = c->has_bl ? fq->quotas[r].borrowing_limit : 0;
                c->has_ll = fq->quotas[r].has_lending_limit;
                c->ll = c->has_ll ? fq->quotas[r].lending_limit : 0;
                res_unref(e, res);
            }
            flv_unref(e, flavor);
        }
    node_stale(e, n);
}

struct cohort *cohort_ref(struct sl_engine *e, const char *name) {
    struct cohort *c = sl_map_get(&e->cohorts, name);
    if (!c) {
        c = sl_xalloc(sizeof *c);
        node_init(&c->node, name, false);
        sl_map_set(&e->cohorts, name, c);
        node_stale(e, &c->node);
    }
    return c;
}

void cohort_sweep(struct sl_engine *e, struct cohort *c) {
    if (c->obj || c->node.n_kids)
        return;
    sl_map_del(&e->cohorts, c->node.name);
    node_done(e, &c->node);
    free(c);
}

/* ---- recomputing ---- */

struct order {
    struct node **nodes;
    size_t n, cap;
};

static int by_name(const void *a, const void *b) {
    return strcmp((*(struct node *const *)a)->name, (*(struct node *const *)b)->name);
}

static void sweep_cells(struct sl_engine *e, struct node *n) {
    size_t kept = 0;
    for (size_t i = 0; i < n->n_cells; i++) {
        struct cell *c = n->cells[i];
        if (c->own || c->refs || c->mark == e->mark)
            n->cells[kept++] = c;
        else
            cell_free(e, c);
    }
    n->n_cells = kept;
}

static void collect(struct order *o, struct node *root) {
    SL_GROW(o->nodes, o->cap, 0);
    o->nodes[0] = root;
    o->n = 1;
    for (size_t i = 0; i < o->n; i++)
        for (size_t k = 0; k < o->nodes[i]->n_kids; k++) {
            SL_GROW(o->nodes, o->cap, o->n);
            o->nodes[o->n++] = o->nodes[i]->kids[k];
        }
}

static void reset_node(struct node *n) {
    n->stale = n->in_cycle = false;
    n->n_lends = 0;
    for (size_t i = 0; i < n->n_cells; i++) {
        struct cell *c = n->cells[i];
        c->S = c->nom;
        c->declared = c->own;
        c->up = NULL;
        c->over = 0;
        if (!n->is_cq)
            c->U = 0;
    }
}

static void compute_up(struct sl_engine *e, struct node *n) {
    sweep_cells(e, n);
    int height = 0;
    n->n_sub = 0;
    for (size_t k = 0; k < n->n_kids; k++) {
        n->n_sub += !n->kids[k]->is_cq;
        int h = n->kids[k]->is_cq ? 1 : 1 + n->kids[k]->height;
        if (h > height)
            height = h;
    }
    n->height = n->is_cq ? 0 : height;
    for (size_t i = 0; i < n->n_cells; i++) {
        struct cell *c = n->cells[i];
        c->L = c->has_ll ? max0(amt_sub(c->S, c->ll)) : 0;
        n->tree->has_ll |= c->has_ll;
        if (!n->parent)
            continue;
        c->up = node_cell_make(e, n->parent, c->flavor, c->res);
        c->up->mark = e->mark;
        c->up->declared |= c->declared;
        c->up->S = amt_add(c->up->S, amt_sub(c->S, c->L));
        c->up->U = amt_add(c->up->U, max0(amt_sub(c->U, c->L)));
        c->up->over += c->U > c->S;
    }
}

static void compute_ceiling(struct node *n) {
    for (size_t i = 0; i < n->n_cells; i++) {
        struct cell *c = n->cells[i];
        if (!c->up) {
            c->ceil = c->S;
            continue;
        }
        c->ceil = amt_add(c->L, c->up->ceil);
        if (c->has_bl) {
            int64_t limit = amt_add(c->S, c->bl);
            if (limit < c->ceil)
                c->ceil = limit;
        }
    }
}

static void adopt(struct tree *t, const struct tree *old) {
    if (!old)
        return;
    t->flush |= old->flush;
    if (old->cycle > t->cycle)
        t->cycle = old->cycle;
    if (old->epoch >= t->epoch)
        t->epoch = old->epoch + 1;
    if (old->usage_ver >= t->usage_ver)
        t->usage_ver = old->usage_ver + 1;
}

static void rebuild(struct sl_engine *e, struct order *o, struct node *root) {
    collect(o, root);
    struct tree *t = sl_xalloc(sizeof *t);
    t->root = root;
    e->mark++;
    size_t n_cqs = 0;
    for (size_t i = 0; i < o->n; i++) {
        struct node *n = o->nodes[i];
        adopt(t, n->tree);
        reset_node(n);
        t->flush |= n->want_flush;
        n->want_flush = false;
        node_set_tree(e, n, t);
        n_cqs += n->is_cq;
        n->depth = n->parent ? n->parent->depth + 1 : 0;
    }
    for (size_t i = o->n; i-- > 0;)
        compute_up(e, o->nodes[i]);
    for (size_t i = 0; i < o->n; i++)
        compute_ceiling(o->nodes[i]);
    t->cqs = sl_xalloc((n_cqs + 1) * sizeof *t->cqs);
    for (size_t i = 0; i < o->n; i++)
        if (o->nodes[i]->is_cq)
            t->cqs[t->n_cqs++] = cq_of(o->nodes[i]);
    qsort(t->cqs, t->n_cqs, sizeof *t->cqs, by_name);
    for (size_t i = t->n_cqs; i-- > 0;) {
        struct cq *q = t->cqs[i];
        q->gen++;
        q->is_ready = false;
        cq_refresh_active(e, q);
    }
    tree_dirty(e, t);
}

/* Root above n, or NULL when a cycle is above it. */
static struct node *root_of(struct sl_engine *e, struct node *n) {
    size_t steps = e->cohorts.count + 1;
    while (n->parent) {
        if (steps-- == 0)
            return NULL;
        n = n->parent;
    }
    return n;
}

/* Everything at and below a cycle: no tree, cells stand alone; CQs keep their usage for the day the cycle is gone. */
static void isolate(struct sl_engine *e, struct order *o, struct node *n) {
    for (size_t steps = e->cohorts.count + 1; steps; steps--)
        n = n->parent; /* now surely on the cycle */
    o->n = 0;
    SL_GROW(o->nodes, o->cap, 0);
    o->nodes[o->n++] = n;
    for (size_t i = 0; i < o->n; i++) {
        struct node *x = o->nodes[i];
        for (size_t k = 0; k < x->n_kids; k++) {
            if (x->kids[k] == n)
                continue; /* a node has one parent, so only the start is met twice */
            SL_GROW(o->nodes, o->cap, o->n);
            o->nodes[o->n++] = x->kids[k];
        }
    }
    for (size_t i = 0; i < o->n; i++) {
        struct node *x = o->nodes[i];
        reset_node(x);
        x->in_cycle = true;
        x->want_flush = false;
        node_set_tree(e, x, NULL);
        for (size_t c = 0; c < x->n_cells; c++) {
            x->cells[c]->L = 0;
            x->cells[c]->ceil = x->cells[c]->S;
        }
        if (x->is_cq) {
            cq_of(x)->is_ready = false;
            cq_refresh_active(e, cq_of(x));
        }
    }
}

void trees_refresh(struct sl_engine *e) {
    if (!e->stale)
        return;
    struct order o = {0};
    while (e->stale) {
        struct node *n = e->stale;
        e->stale = n->stale_next;
        if (!n->stale)
            continue; /* its tree was done meanwhile */
        struct node *root = root_of(e, n);
        if (root)
            rebuild(e, &o, root);
        else
            isolate(e, &o, n);
    }
    free(o.nodes);
}

void tree_dirty(struct sl_engine *e, struct tree *t) {
    if (!t || t->dirty)
        return;
    t->dirty = true;
    t->next_dirty = NULL;
    if (e->dirty_last)
        e->dirty_last->next_dirty = t;
    else
        e->dirty_first = t;
    e->dirty_last = t;
}

/* ---- shares ---- */

/* Ceiling of the flavor and resource as seen at node n, which may have no cell of its own: then nothing limits it below
 * the next one up. The root has one. */
static int64_t ceiling_at(const struct node *n, uint64_t key) {
    const struct cell *c;
    while (!(c = node_cell(n, key)))
        n = n->parent;
    return c->ceil;
}

static int64_t lend_to_children(struct node *n, const struct res *r) {
    for (uint32_t i = 0; i < n->n_lends; i++)
        if (n->lends[i].res == r)
            return n->lends[i].amount;
    int64_t sum = 0;
    const struct node *root = n->tree->root;
    for (size_t i = 0; i < root->n_cells; i++)
        if (root->cells[i]->res == r && root->cells[i]->declared)
            sum = amt_add(sum, ceiling_at(n, root->cells[i]->key));
    SL_GROW(n->lends, n->cap_lends, n->n_lends);
    n->lends[n->n_lends++] = (struct lend){r, sum};
    return sum;
}

static int64_t borrowed_in(const struct cell *c) {
    return c->declared ? max0(amt_sub(c->U, c->S)) : 0;
}

struct share node_share(const struct node *n) {
    struct share s = {0, n->weight, false};
    if (!n->parent || !n->tree)
        return s;
    for (size_t i = 0; i < n->n_cells; i++) {
        const struct cell *c = n->cells[i];
        int64_t b = borrowed_in(c);
        if (b == 0)
            continue;
        s.borrowing = true;
        for (size_t k = i + 1; k < n->n_cells; k++)
            if (n->cells[k]->res == c->res)
                b = amt_add(b, borrowed_in(n->cells[k]));
        int64_t lend = lend_to_children(n->parent, c->res);
        if (lend > 0) {
            double ratio = (double)b * 1000.0 / (double)lend;
            if (ratio > s.ratio)
                s.ratio = ratio;
        }
    }
    return s;
}

double share_value(const struct share *s) {
    if (s->ratio == 0)
        return 0;
    return s->weight == 0 ? INFINITY : s->ratio / s->weight;
}

int share_compare(const struct share *a, const struct share *b) {
    bool inf_a = a->weight == 0 && a->ratio != 0, inf_b = b->weight == 0 && b->ratio != 0;
    if (inf_a != inf_b)
        return inf_a ? 1 : -1;
    double x = inf_a ? a->ratio : share_value(a), y = inf_b ? b->ratio : share_value(b);
    return x < y ? -1 : x > y;
}
