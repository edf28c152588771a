/*
 * What would admit a workload that waits. Whatever is named has been tried: on a twin of the engine, made of the same
 * objects, where the change is made and the engine runs. So a change that would only let others go first is not named,
 * and one that has to serve others first is as large as that takes. A twin costs about as much as a restart of the
 * engine; only people who ask pay for it.
 */
#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/api/quantity.h"
#include "sluice/base/mem.h"

#define TRY_HOLDERS 500  /* looked at for "when this one finishes" */
#define TRY_TWINS   10   /* of these, tried */
#define LATER_MS    5000 /* times of the API are whole seconds: a change comes after everything before it */
#define MAX_RUNS    50   /* of a twin, until what it evicts is gone */
#define MAX_GROWTH  12   /* times that a change is made larger */
#define MAX_PARTS   32   /* limits in one change */

enum limit { LIMIT_NOMINAL, LIMIT_BORROWING, LIMIT_LENDING };
static const char *const limit_names[] = {"nominalQuota", "borrowingLimit", "lendingLimit"};

struct raise {
    enum limit limit;
    bool cohort;
    char *node, *flavor, *resource;
    int64_t by, to;
};

struct change {
    const struct wl *finishes;
    struct raise parts[MAX_PARTS];
    size_t n;
    struct sl_workload *instead; /* of the one that waits, as it would have to be */
    struct sl_flavor *flavor;    /* that would have to exist; goes to the twin */
    bool serves_others;          /* larger than what the one that waits lacks */
};

static void change_done(struct change *c) {
    for (size_t i = 0; i < c->n; i++) {
        free(c->parts[i].node);
        free(c->parts[i].flavor);
        free(c->parts[i].resource);
    }
    c->n = 0;
}

/* ---- limits ---- */

struct cell *binding_limit(struct cell *c, bool also_ties) {
    int64_t below = 0, best = SL_UNLIMITED;
    struct cell *at = NULL;
    for (; c->up; c = c->up) {
        below = amt_add(below, cell_local(c));
        if (!c->has_bl)
            continue;
        int64_t used_up = max0(amt_sub(c->U, c->L));
        int64_t limit = amt_add(below, amt_add(amt_sub(amt_sub(c->S, c->L), used_up), c->bl));
        if (limit < best) {
            best = limit;
            at = c;
        }
    }
    int64_t whole = amt_add(below, amt_sub(c->S, c->U));
    return whole < best || (whole == best && !also_ties) ? NULL : at;
}

static bool on_path(const struct cell *c, const struct cell *x) {
    for (; c; c = c->up)
        if (c == x)
            return true;
    return false;
}

struct cell *keeping_limit(struct cell *c, bool idle, int64_t *ret_kept) {
    struct cell *most = NULL;
    *ret_kept = 0;
    const struct tree *t = c->node->tree;
    for (size_t i = 0; t->has_ll && i < t->n_cqs; i++)
        for (struct cell *x = node_cell(&t->cqs[i]->node, c->key); x && x->up; x = x->up) {
            int64_t kept = idle ? amt_sub(x->L, x->U) : x->L;
            if (x->has_ll && kept > *ret_kept && x->L != SL_UNLIMITED && !on_path(c, x)) {
                *ret_kept = kept;
                most = x;
            }
        }
    return most;
}

/* ---- twins ---- */

/* NULL when there is none. Both kinds begin with their node. */
static struct node *node_of(const struct sl_engine *e, bool cohort, const char *name) {
    return sl_map_get(cohort ? &e->cohorts : &e->cqs, name);
}

static struct cell *cell_named(const struct node *n, const char *flavor, const char *resource) {
    for (size_t i = 0; n && i < n->n_cells; i++)
        if (!strcmp(n->cells[i]->flavor->name, flavor) && !strcmp(n->cells[i]->res->name, resource))
            return n->cells[i];
    return NULL;
}

/* Decided and not yet seen in the API: its object says nothing of what it holds. */
static void keep_place(struct sl_engine *t, const struct wl *w) {
    struct node *n = node_of(t, false, w->cq->node.name);
    for (size_t i = 0; i < w->n_use; i++) {
        struct cell *c = cell_named(n, w->use[i].cell->flavor->name, w->use[i].cell->res->name);
        if (c)
            c->U = amt_add(c->U, w->use[i].amount);
    }
}

static void make_raise(struct sl_engine *t, const struct raise *r) {
    struct node *n = node_of(t, r->cohort, r->node);
    struct cell *c = cell_named(n, r->flavor, r->resource); /* it was found in another twin of the same engine */
    int64_t *v = r->limit == LIMIT_NOMINAL ? &c->nom : r->limit == LIMIT_BORROWING ? &c->bl : &c->ll;
    *v = amt_add(*v, r->by);
    node_stale(t, n);
    raise_flush(t, n);
    new_epoch(n);
}

struct twin { /* its objects are those of the engine, and stay the engine's, but for shells */
    struct sl_engine *e;
    struct sl_workload **shells; /* as an object with another status: only the shell is ours, and its admission */
    size_t n_shells, cap_shells;
    struct sl_map evicted; /* uids */
    bool fights;           /* somebody was evicted twice: how that ends depends on what was before */
};

static struct twin twin_new(const struct sl_engine *e) {
    struct sl_engine *t = sl_engine_new(&e->config);
    SL_MAP_EACH (&e->namespaces, m) {
        const struct ns *n = m->value;
        sl_engine_put_namespace(t, n->name, &n->labels);
    }
    SL_MAP_EACH (&e->flavors, m) {
        struct sl_flavor *o = ((struct flv *)m->value)->obj;
        if (o)
            sl_engine_put_flavor(t, o);
    }
    SL_MAP_EACH (&e->checks, m)
        sl_engine_put_check(t, m->value);
    SL_MAP_EACH (&e->cohorts, m) {
        struct sl_cohort *o = ((struct cohort *)m->value)->obj;
        if (o)
            sl_engine_put_cohort(t, o);
    }
    SL_MAP_EACH (&e->cqs, m) {
        struct sl_clusterqueue *o = ((struct cq *)m->value)->obj;
        if (o)
            sl_engine_put_clusterqueue(t, o);
    }
    SL_MAP_EACH (&e->lqs, m) {
        struct sl_localqueue *o = ((struct lq *)m->value)->obj;
        if (o)
            sl_engine_put_localqueue(t, o);
    }
    SL_MAP_EACH (&e->workloads, m) {
        struct wl *x = m->value;
        if (x->where == WL_HOLDING && !x->observed)
            keep_place(t, x);
        else
            sl_engine_put_workload(t, x->obj, e->now_ms);
    }
    return (struct twin){.e = t};
}

static void twin_free(struct twin *twin) {
    struct sl_engine *t = twin->e;
    SL_MAP_EACH (&t->workloads, m)
        ((struct wl *)m->value)->obj = NULL;
    SL_MAP_EACH (&t->lqs, m)
        ((struct lq *)m->value)->obj = NULL;
    SL_MAP_EACH (&t->cqs, m)
        ((struct cq *)m->value)->obj = NULL;
    SL_MAP_EACH (&t->cohorts, m)
        ((struct cohort *)m->value)->obj = NULL;
    SL_MAP_EACH (&t->flavors, m)
        ((struct flv *)m->value)->obj = NULL;
    sl_map_done(&t->checks, NULL);
    sl_engine_free(t);
    for (size_t i = 0; i < twin->n_shells; i++) {
        sl_admission_free(twin->shells[i]->admission);
        free(twin->shells[i]);
    }
    free(twin->shells);
    sl_map_done(&twin->evicted, NULL);
}

static struct sl_workload *shell_of(struct twin *t, const struct sl_workload *o, struct sl_admission *take_admission) {
    struct sl_workload *shell = sl_xalloc(sizeof *shell);
    *shell = *o;
    shell->admission = take_admission;
    SL_GROW(t->shells, t->cap_shells, t->n_shells);
    t->shells[t->n_shells++] = shell;
    return shell;
}

static void put(struct twin *t, struct sl_workload *o) {
    struct wl *w = sl_map_get(&t->e->workloads, o->uid);
    w->obj = sl_xalloc(sizeof *w->obj); /* what it had is not the twin's to free */
    sl_engine_put_workload(t->e, o, t->e->now_ms);
}

static void set(struct sl_condition_view *c, enum sl_tri status, int64_t now_ms) {
    static char preempted[] = "Preempted";
    *c = (struct sl_condition_view){.status = status, .reason = preempted, .since_ms = now_ms};
}

static void play_admitted(struct twin *t, const struct sl_workload *o, struct sl_admission *take) {
    struct sl_workload *x = shell_of(t, o, take);
    set(&x->quota_reserved, SL_TRI_TRUE, t->e->now_ms);
    set(&x->admitted, SL_TRI_TRUE, t->e->now_ms);
    if (x->evicted.status == SL_TRI_TRUE)
        x->evicted.status = SL_TRI_FALSE;
    put(t, x);
}

static const struct sl_workload *play_evicted(struct twin *t, const struct sl_workload *o, bool stopped) {
    struct sl_workload *x = shell_of(t, o, stopped ? NULL : sl_admission_copy(o->admission));
    set(&x->evicted, SL_TRI_TRUE, t->e->now_ms);
    if (stopped) {
        set(&x->quota_reserved, SL_TRI_FALSE, t->e->now_ms);
        set(&x->admitted, SL_TRI_FALSE, t->e->now_ms);
        set(&x->requeued, SL_TRI_TRUE, t->e->now_ms);
    }
    put(t, x);
    return x;
}

enum order { ORDER_TOGETHER, ORDER_FIRST, ORDER_LAST, ORDER__COUNT }; /* in which the evicted give back */

struct draining { /* evicted, their jobs not yet stopped */
    const struct sl_workload **items;
    size_t n, cap;
};

static void take_decisions(struct twin *t, struct sl_decisions *d, struct draining *drain) {
    struct outcome {
        const struct sl_workload *o;
        struct sl_admission *admission; /* NULL: evicted */
    } *all = sl_xalloc((d->n + 1) * sizeof *all);
    size_t n = 0;
    for (size_t i = 0; i < d->n; i++)
        if (d->items[i].kind != SL_DECIDE_PENDING)
            all[n++] = (struct outcome){d->items[i].workload, SL_TAKE(d->items[i].admission)};
    sl_decisions_done(d); /* before anything changes */
    for (size_t i = 0; i < n; i++) {
        if (all[i].admission) {
            play_admitted(t, all[i].o, all[i].admission);
            continue;
        }
        t->fights |= sl_map_set(&t->evicted, all[i].o->uid, t) != NULL;
        SL_GROW(drain->items, drain->cap, drain->n);
        drain->items[drain->n++] = play_evicted(t, all[i].o, false);
    }
    free(all);
}

static void drain_some(struct twin *t, struct draining *drain, enum order order) {
    while (drain->n) {
        size_t at = order == ORDER_LAST ? drain->n - 1 : 0;
        const struct sl_workload *o = drain->items[at];
        memmove(drain->items + at, drain->items + at + 1, (--drain->n - at) * sizeof *drain->items);
        play_evicted(t, o, true);
        if (order != ORDER_TOGETHER)
            break;
    }
}

/* Runs until nothing moves, jobs starting at once. */
static void settle(struct twin *t, enum order order) {
    struct draining drain = {0};
    bool again = true;
    for (int run = 0; run < MAX_RUNS && again; run++) {
        struct sl_decisions d;
        sl_engine_run(t->e, t->e->now_ms, 0, &d, &again);
        for (size_t i = 0; i < d.n; i++)
            again |= d.items[i].kind != SL_DECIDE_PENDING;
        take_decisions(t, &d, &drain);
        again |= drain.n > 0;
        drain_some(t, &drain, order);
    }
    free(drain.items);
}

/* Does this one hold its quota when the twin is at rest? The change happens to a twin at rest, as it would, or at once,
 * as after a restart. */
static bool admits(struct twin *t, const struct wl *w, const struct change *c, enum order order, bool at_once) {
    if (!at_once)
        settle(t, order);
    t->e->now_ms += LATER_MS;
    if (c->finishes && sl_engine_holds_quota(t->e, c->finishes->obj->uid)) {
        struct sl_workload *x = shell_of(t, c->finishes->obj, NULL);
        set(&x->finished, SL_TRI_TRUE, t->e->now_ms);
        put(t, x);
    }
    for (size_t i = 0; i < c->n; i++) { /* one object after the other */
        if (i && strcmp(c->parts[i].node, c->parts[i - 1].node) != 0)
            settle(t, order);
        make_raise(t->e, &c->parts[i]);
    }
    if (c->flavor)
        sl_engine_put_flavor(t->e, c->flavor);
    if (c->instead && !sl_engine_holds_quota(t->e, w->obj->uid))
        put(t, c->instead);
    settle(t, order);
    if (t->fights || sl_map_has(&t->evicted, w->obj->uid) || (c->serves_others && t->evicted.count))
        return false;
    return sl_engine_holds_quota(t->e, w->obj->uid);
}

/* Whatever the order in which the evicted go, and what the queues have tried before. */
static bool would_admit(const struct sl_engine *e, const struct wl *w, const struct change *c) {
    bool yes = true;
    for (int i = 0; i < 2 * ORDER__COUNT && yes; i++) {
        struct twin t = twin_new(e);
        yes = admits(&t, w, c, (enum order)(i / 2), i % 2);
        twin_free(&t);
    }
    return yes;
}

/* ---- who finishes ---- */

static bool fits(struct sl_engine *e, struct wl *w) {
    e->log_on = true;
    return assign(e, w, NULL, false, NULL)->mode == MODE_FIT; /* undone by the caller */
}

static void undo(struct sl_engine *e) {
    undo_to(e, 0);
    e->log_on = false;
}

static int by_size(const void *a, const void *b) {
    const struct wl *x = *(struct wl *const *)a, *y = *(struct wl *const *)b;
    int64_t v = x->use[0].amount, u = y->use[0].amount;
    return v != u ? (v < u ? -1 : 1) : strcmp(x->obj->uid, y->obj->uid);
}

/* Whose need has to be met first: its own, or that of the one in front of it, which nobody may pass. */
static struct wl *in_the_way(struct sl_engine *e, struct wl *w) {
    bool fit = fits(e, w);
    undo(e);
    struct wl *head = queue_head(w->cq);
    return fit && head ? head : w;
}

static const struct wl *who_finishes(struct sl_engine *e, struct wl *w) {
    struct tree *t = w->cq->node.tree;
    struct wl *first = in_the_way(e, w);
    struct wl **found = sl_xalloc(TRY_HOLDERS * sizeof(struct wl *));
    size_t n = 0, tries = 0;
    for (size_t i = 0; i < t->n_cqs; i++)
        for (uint32_t h = 0; h < t->cqs[i]->n_holders && tries < TRY_HOLDERS; h++, tries++) {
            struct wl *x = t->cqs[i]->holders[h].wl;
            e->log_on = true;
            search_remove(e, x);
            if (x->n_use && fits(e, first))
                found[n++] = x;
            undo(e);
        }
    qsort(found, n, sizeof *found, by_size);
    const struct wl *who = NULL;
    for (size_t i = 0; i < n && i < TRY_TWINS && !who; i++)
        if (would_admit(e, w, &(struct change){.finishes = found[i]}))
            who = found[i];
    free(found);
    return who;
}

/* ---- which limit is raised, and by how much ---- */

static int64_t lacking(const struct row *r) {
    return amt_sub(amt_add(r->before, r->asked), cell_available(r->cell));
}

static struct cell *cell_to_raise(const struct row *r, enum limit limit) {
    if (limit == LIMIT_NOMINAL)
        return r->cell;
    int64_t kept;
    struct cell *binding = binding_limit(r->cell, false);
    if (limit == LIMIT_BORROWING)
        return binding;
    return binding ? NULL : keeping_limit(r->cell, true, &kept);
}

static bool add_part(struct change *c, const struct row *r, enum limit limit) {
    struct cell *cell = cell_to_raise(r, limit);
    int64_t by = lacking(r), kept;
    if (limit == LIMIT_LENDING) { /* not more than is kept: so a queue never lends more than it has */
        (void)keeping_limit(r->cell, true, &kept);
        by = kept < by ? kept : by;
    }
    for (size_t i = 0; i < c->n; i++) {
        struct raise *p = &c->parts[i];
        if (!strcmp(p->node, cell->node->name) && p->cohort == !cell->node->is_cq &&
            !strcmp(p->flavor, cell->flavor->name) && !strcmp(p->resource, cell->res->name)) {
            p->by = amt_add(p->by, by);
            return true;
        }
    }
    if (c->n == MAX_PARTS)
        return false;
    c->parts[c->n++] = (struct raise){limit,
                                      !cell->node->is_cq,
                                      sl_xstrdup(cell->node->name),
                                      sl_xstrdup(cell->flavor->name),
                                      sl_xstrdup(cell->res->name),
                                      by,
                                      0};
    return true;
}

static bool short_of(const struct row *r, size_t ps, const char *flavor) {
    return r->ps == ps && r->cell && !strcmp(r->flavor, flavor) && r->verdict != ROW_FITS;
}

/* The flavor of a pod set that lacks least, counted in resources first, where this kind of limit is in the way; NULL:
 * none. */
static const char *least_lacking(const struct trace *t, size_t ps, enum limit limit, const struct change *c) {
    const char *best = NULL;
    size_t best_n = SIZE_MAX;
    double best_part = 0;
    for (size_t i = 0; i < t->n; i++) {
        if (t->rows[i].ps != ps || !t->rows[i].cell)
            continue;
        size_t n = 0;
        double part = 0;
        bool raisable = true, begun = false;
        for (size_t k = 0; k < c->n; k++)
            begun |= !strcmp(c->parts[k].flavor, t->rows[i].flavor);
        for (size_t k = 0; k < t->n; k++)
            if (short_of(&t->rows[k], ps, t->rows[i].flavor)) {
                n++;
                part += (double)lacking(&t->rows[k]) / ((double)t->rows[k].asked + 1);
                raisable &= cell_to_raise(&t->rows[k], limit) != NULL;
            }
        if (n && raisable && begun)
            return t->rows[i].flavor;
        if (n && raisable && (n < best_n || (n == best_n && part < best_part))) {
            best = t->rows[i].flavor;
            best_n = n;
            best_part = part;
        }
    }
    return best;
}

/* What is lacking still, in a twin at rest, becomes part of the change. False: nothing that this kind of limit could
 * give. */
static bool grow(struct sl_engine *t, const char *uid, enum limit limit, struct change *c) {
    struct wl *who = in_the_way(t, sl_map_get(&t->workloads, uid));
    struct trace trace = {0};
    t->log_on = true;
    assign(t, who, NULL, false, &trace);
    undo(t);
    bool grown = false;
    for (size_t p = 0; p < who->shape->n_ps; p++) {
        const char *flavor = least_lacking(&trace, p, limit, c);
        for (size_t k = 0; flavor && k < trace.n; k++)
            if (short_of(&trace.rows[k], p, flavor))
                grown |= add_part(c, &trace.rows[k], limit);
    }
    free(trace.rows);
    return grown;
}

static bool find_raise(struct sl_engine *e, const struct wl *w, enum limit limit, struct change *c) {
    for (int i = 0; i < MAX_GROWTH; i++) {
        struct twin t = twin_new(e);
        bool yes = admits(&t, w, c, ORDER_TOGETHER, false), more = !yes && grow(t.e, w->obj->uid, limit, c);
        twin_free(&t);
        if (yes)
            return c->n > 0 && would_admit(e, w, c);
        if (!more || (i > 0 && e->config.fair_sharing))
            return false; /* where shares decide, whose turn it is depends on more than a twin knows */
        c->serves_others = i > 0;
    }
    return false;
}

/* ---- what is not a matter of amounts ---- */

/* As it is, but for the pod sets, which are for the caller to change and to free. */
static struct sl_workload copy_of(const struct wl *w) {
    struct sl_workload o = *w->obj;
    o.podsets = sl_xalloc((o.n_podsets + 1) * sizeof *o.podsets);
    memcpy(o.podsets, w->obj->podsets, o.n_podsets * sizeof *o.podsets);
    return o;
}

static bool toleration_helps(struct sl_engine *e, const struct wl *w, const struct sl_taint *taint) {
    struct sl_workload o = copy_of(w);
    static char equal[] = "Equal";
    for (size_t p = 0; p < o.n_podsets; p++) {
        struct sl_podset *ps = &o.podsets[p];
        struct sl_toleration *all = sl_xalloc((ps->n_tolerations + 1) * sizeof *all);
        if (ps->n_tolerations)
            memcpy(all, ps->tolerations, ps->n_tolerations * sizeof *all);
        all[ps->n_tolerations++] =
            (struct sl_toleration){.key = taint->key, .op = equal, .value = taint->value, .effect = taint->effect};
        ps->tolerations = all;
    }
    bool yes = would_admit(e, w, &(struct change){.instead = &o});
    for (size_t p = 0; p < o.n_podsets; p++)
        free(o.podsets[p].tolerations);
    free(o.podsets);
    return yes;
}

static bool coverage_helps(struct sl_engine *e, const struct wl *w, const char *resource) {
    struct sl_workload o = copy_of(w);
    for (size_t p = 0; p < o.n_podsets; p++) {
        struct sl_requests *q = &o.podsets[p].per_pod;
        struct sl_request_amount *list = sl_xalloc((q->n + 1) * sizeof *list);
        if (q->n)
            memcpy(list, q->items, q->n * sizeof *list);
        q->items = list;
        for (size_t i = 0; i < q->n; i++)
            if (!strcmp(q->items[i].resource, resource))
                q->items[i].amount = 0;
    }
    bool yes = would_admit(e, w, &(struct change){.instead = &o});
    for (size_t p = 0; p < o.n_podsets; p++)
        free(o.podsets[p].per_pod.items);
    free(o.podsets);
    return yes;
}

static bool flavor_helps(struct sl_engine *e, const struct wl *w, const char *name) {
    struct sl_flavor *f = sl_xalloc(sizeof *f);
    f->name = sl_xstrdup(name);
    f->uid = sl_xstrdup("");
    bool yes = would_admit(e, w, &(struct change){.flavor = f});
    sl_flavor_free(f);
    return yes;
}

static void other_change(struct sl_engine *e, struct wl *w, const struct trace *t, struct sl_buf *b) {
    for (size_t i = 0; i < t->n && !b->len; i++) {
        const struct row *r = &t->rows[i];
        if (r->verdict == ROW_TAINT && toleration_helps(e, w, r->taint))
            sl_buf_printf(b, "a toleration for the taint %s of flavor %s", r->taint->key, r->flavor);
        else if (r->verdict == ROW_MISSING_FLAVOR && flavor_helps(e, w, r->flavor))
            sl_buf_printf(b, "ResourceFlavor %s is created", r->flavor);
        else if (r->verdict == ROW_UNDECLARED && coverage_helps(e, w, r->res->name))
            sl_buf_printf(b, "a resource group of the ClusterQueue covers %s", r->res->name);
    }
}

/* ---- telling ---- */

static void say_raise(const struct raise *r, struct sl_buf *b) {
    char t[SL_QUANTITY_TEXT];
    const char *by = sl_amount_format_people(r->resource, r->by, t);
    if (r->limit == LIMIT_NOMINAL)
        sl_buf_printf(b, "%s more %s in flavor %s", by, r->resource, r->flavor);
    else
        sl_buf_printf(b, "%s of %s in flavor %s of %s %s is raised by %s", limit_names[r->limit], r->resource,
                      r->flavor, r->cohort ? "Cohort" : "ClusterQueue", r->node, by);
}

static struct sl_json *raise_json(struct sl_engine *e, const struct raise *r) {
    const struct cell *c = cell_named(node_of(e, r->cohort, r->node), r->flavor, r->resource);
    int64_t now = r->limit == LIMIT_NOMINAL ? c->nom : r->limit == LIMIT_BORROWING ? c->bl : c->ll;
    char t[SL_QUANTITY_TEXT];
    struct sl_json *o = sl_json_new_object();
    sl_json_set_str(o, "limit", limit_names[r->limit]);
    sl_json_set_str(o, "kind", r->cohort ? "Cohort" : "ClusterQueue");
    sl_json_set_str(o, "name", r->node);
    sl_json_set_str(o, "flavor", r->flavor);
    sl_json_set_str(o, "resource", r->resource);
    sl_json_set_str(o, "by", sl_amount_format(r->resource, r->by, t));
    sl_json_set_str(o, "to", sl_amount_format(r->resource, amt_add(now, r->by), t));
    return o;
}

void changes(struct sl_engine *e, struct wl *w, const struct trace *t, struct sl_json *ret) {
    struct change none = {0};
    if (would_admit(e, w, &none))
        return; /* its time comes without any: when those that it waits for are gone */
    SL_AUTO_BUF b = SL_BUF_INIT(8192);
    struct sl_json *list = sl_json_new_array();
    const struct wl *x = who_finishes(e, w);
    if (x) {
        sl_buf_printf(&b, "workload %s/%s finishes", x->obj->ns, x->obj->name);
        struct sl_json *o = sl_json_new_object();
        sl_json_set(o, "finish", sl_json_new_strf("%s/%s", x->obj->ns, x->obj->name));
        sl_json_append(list, o);
    }
    static const enum limit order[] = {LIMIT_BORROWING, LIMIT_LENDING, LIMIT_NOMINAL};
    for (size_t i = 0; i < SL_COUNT(order); i++) {
        struct change c = {0};
        if (find_raise(e, w, order[i], &c)) {
            struct sl_json *o = sl_json_new_object(), *parts = sl_json_make_array(o, "raise");
            for (size_t k = 0; k < c.n; k++) {
                sl_buf_puts(&b, k ? " and " : b.len ? ", or " : "");
                say_raise(&c.parts[k], &b);
                sl_json_append(parts, raise_json(e, &c.parts[k]));
            }
            if (c.serves_others) {
                sl_buf_puts(&b, " (others come before it)");
                sl_json_set_bool(o, "servesOthers", true);
            }
            sl_json_append(list, o);
        }
        change_done(&c);
    }
    if (!b.len)
        other_change(e, w, t, &b);
    if (sl_json_len(list))
        sl_json_set(ret, "changes", list);
    else
        sl_json_unref(list);
    if (b.len)
        sl_json_set_str(ret, "smallestChange", sl_buf_text(&b));
}
