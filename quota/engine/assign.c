/* Flavor assignment: for every pod set and resource the flavor to take, and how (scheduling reference, section 5). */
#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/api/decode.h"
#include "sluice/base/mem.h"
#include "sluice/base/num.h"

/* ---- which flavors a pod set may run on ---- */

static const struct sl_taint *untolerated(const struct sl_podset *p, const struct sl_flavor *f) {
    for (size_t t = 0; t < f->n_taints; t++) {
        const struct sl_taint *taint = &f->taints[t];
        if (strcmp(taint->effect, "NoSchedule") != 0 && strcmp(taint->effect, "NoExecute") != 0)
            continue;
        bool ok = false;
        for (size_t i = 0; i < p->n_tolerations && !ok; i++)
            ok = sl_toleration_tolerates(&p->tolerations[i], taint);
        for (size_t i = 0; i < f->n_tolerations && !ok; i++)
            ok = sl_toleration_tolerates(&f->tolerations[i], taint);
        if (!ok)
            return taint;
    }
    return NULL;
}

enum match { MATCH_NO, MATCH_YES, MATCH_ERROR };

/* The first label of these that is in the others with another value, which is returned too; NULL: they go together. */
static const struct sl_label *contradicted(const struct sl_labels *labels, const struct sl_labels *others,
                                           const char **ret_against) {
    for (size_t i = 0; i < labels->n; i++) {
        const char *v = sl_labels_get(others, labels->items[i].key);
        if (v && strcmp(v, labels->items[i].value) != 0) {
            *ret_against = v;
            return &labels->items[i];
        }
    }
    return NULL;
}

/* Only keys that the flavor itself has as labels count; a term without any of them makes the whole affinity say
 * nothing. */
static enum match affinity(const struct sl_podset *p, const struct sl_labels *labels, struct row *row) {
    if ((row->label = contradicted(labels, &p->node_selector, &row->against)))
        return MATCH_NO;
    bool any = p->n_affinity == 0;
    for (size_t t = 0; t < p->n_affinity; t++) {
        size_t kept = 0;
        bool ok = true;
        for (size_t i = 0; i < p->affinity[t].n; i++) {
            const struct sl_requirement *r = &p->affinity[t].items[i];
            if (!sl_labels_get(labels, r->key))
                continue;
            kept++;
            ok &= sl_requirement_matches(r, labels);
        }
        if (kept == 0)
            return MATCH_YES;
        any |= ok;
    }
    if (!any || (p->affinity_invalid && p->n_affinity == 0))
        return p->affinity_invalid ? MATCH_ERROR : MATCH_NO;
    return MATCH_YES;
}

static void trace_add(struct trace *t, struct row row) {
    if (!t)
        return;
    SL_GROW(t->rows, t->cap, t->n);
    t->rows[t->n++] = row;
}

struct walk { /* one assignment in the making */
    struct sl_engine *e;
    struct wl *w;
    struct cq *q;
    struct assignment *a;
    struct trace *trace;
    const struct bookmark *bookmark;
    size_t mark_base; /* of this pod set in the bookmark */
    size_t ps;
    struct ps_assign *pa;
    bool error;
};

static struct cqgroup *group_of(struct cq *q, const struct res *r, size_t *ret_index) {
    for (size_t g = 0; g < q->n_groups; g++)
        for (size_t i = 0; i < q->groups[g].n_res; i++)
            if (q->groups[g].res[i] == r) {
                *ret_index = i;
                return &q->groups[g];
            }
    return NULL;
}

/* What a flavor is to a pod set alone; says in row why it is nothing. */
static enum match suits(const struct walk *k, const struct flv *f, struct row *row) {
    const struct sl_podset *p = &k->w->obj->podsets[k->ps];
    if (!f->obj) {
        row->verdict = ROW_MISSING_FLAVOR;
        return MATCH_NO;
    }
    if (f->obj->n_taints && (row->taint = untolerated(p, f->obj))) {
        row->verdict = ROW_TAINT;
        return MATCH_NO;
    }
    enum match m = k->w->shape->ps[k->ps].simple ? MATCH_YES : affinity(p, &f->obj->node_labels, row);
    row->verdict = m == MATCH_NO ? ROW_AFFINITY : ROW_BAD_AFFINITY;
    return m;
}

static int64_t placed(const struct assignment *a, const struct cell *c) {
    for (size_t i = 0; i < a->n_usage; i++)
        if (a->usage[i].cell == c)
            return a->usage[i].amount;
    return 0;
}

/* Whether this group's flavor could ever hold what the pod set asks of the resource. */
static bool could_hold(const struct walk *k, const struct cqflavor *f, size_t col, const struct pick *x) {
    const struct cell *c = f->cells[col];
    return amt_add(placed(k->a, c), x->amount) <= c->ceil;
}

/* Pods get the node labels of all their flavors: one that other groups of the queue have given this pod set already
 * must not say something else, and some flavor must be left for those that come next. */
static bool goes_with_others(const struct walk *k, const struct cqgroup *own, const struct flv *f, struct row *row) {
    const struct sl_labels *labels = &f->obj->node_labels;
    for (size_t i = 0; i < k->pa->n; i++) {
        const struct pick *x = &k->pa->picks[i];
        size_t col;
        const struct cqgroup *g = group_of(k->q, x->res, &col);
        if (!g || g == own)
            continue;
        bool any = false;
        for (size_t c = 0; c < g->n_flavors && !any; c++) {
            const struct flv *other = g->flavors[c].flavor;
            struct row unused = {0};
            if (x->flavor ? x->flavor->flavor != other
                          : suits(k, other, &unused) != MATCH_YES || !could_hold(k, &g->flavors[c], col, x))
                continue;
            row->label = contradicted(labels, &other->obj->node_labels, &row->against);
            row->other = x->flavor ? other->name : x->res->name;
            row->chosen = x->flavor != NULL;
            any = row->label == NULL;
        }
        if (!any && row->label)
            return false;
    }
    row->label = NULL;
    return true;
}

static bool eligible(struct walk *k, const struct cqgroup *g, const struct flv *f) {
    struct row row = {.ps = (uint16_t)k->ps, .flavor = f->name};
    enum match m = suits(k, f, &row);
    if (m == MATCH_YES) {
        if (k->q->n_groups == 1 || !f->obj->node_labels.n || goes_with_others(k, g, f, &row))
            return true;
        row.verdict = ROW_CONFLICT;
    }
    k->error |= m == MATCH_ERROR;
    trace_add(k->trace, row);
    return false;
}

/* ---- how one flavor and resource would do ---- */

static bool may_preempt_while_borrowing(const struct walk *k) {
    return k->q->obj->borrow_within_cohort != SL_PREEMPT_NEVER ||
           (k->e->config.fair_sharing && k->q->obj->reclaim_within_cohort != SL_PREEMPT_NEVER);
}

/* What preemption could do for this flavor and resource alone. */
static int simulate(struct walk *k, struct cell *c, int64_t v, int *ret_level) {
    struct use need = {c, v};
    bool part;
    struct targets t = find_targets(k->e, k->w, &need, 1, &c, 1);
    if (t.n == 0) {
        *ret_level = cell_fit_level(c, v, &part);
        return MODE_NO_CANDIDATES;
    }
    size_t mark = undo_mark(k->e);
    bool own = false;
    for (size_t i = 0; i < t.n; i++) {
        search_remove(k->e, t.items[i].wl);
        own |= t.items[i].wl->cq == k->q;
    }
    *ret_level = cell_fit_level(c, v, &part);
    undo_to(k->e, mark);
    return own ? MODE_PREEMPT : MODE_RECLAIM;
}

static int verdict(struct walk *k, struct cell *c, int64_t request, int *ret_level) {
    int64_t before = placed(k->a, c), v = amt_add(before, request);
    struct row row = {
        .ps = (uint16_t)k->ps, .flavor = c->flavor->name, .res = c->res, .cell = c, .asked = request, .before = before};
    int mode;
    *ret_level = 0;
    if (v > c->ceil) {
        row.verdict = ROW_OVER_CEILING;
        mode = MODE_NOFIT;
    } else {
        bool part;
        *ret_level = cell_fit_level(c, v, &part);
        if (v <= cell_available(c)) {
            row.verdict = ROW_FITS;
            mode = MODE_FIT;
        } else {
            row.verdict = ROW_SHORT;
            mode = c->nom >= v || part || may_preempt_while_borrowing(k) ? simulate(k, c, v, ret_level) : MODE_NOFIT;
        }
    }
    row.mode = (uint8_t)mode;
    trace_add(k->trace, row);
    return mode;
}

struct grade {
    int mode, level;
};

static bool stop_here(const struct sl_clusterqueue *o, struct grade g) {
    if (g.mode == MODE_NOFIT || g.mode == MODE_NO_CANDIDATES)
        return false;
    if ((g.mode == MODE_PREEMPT || g.mode == MODE_RECLAIM) && o->when_can_preempt == SL_TRY_NEXT_FLAVOR)
        return false;
    return !(g.level > 0 && o->when_can_borrow == SL_TRY_NEXT_FLAVOR);
}

static bool prefer(const struct sl_clusterqueue *o, struct grade a, struct grade b) {
    if (a.mode == MODE_NOFIT)
        return false;
    if (b.mode == MODE_NOFIT)
        return true;
    if ((a.mode == MODE_NO_CANDIDATES) != (b.mode == MODE_NO_CANDIDATES))
        return b.mode == MODE_NO_CANDIDATES;
    if (o->preference == SL_PREEMPTION_OVER_BORROWING) {
        if (a.level != b.level)
            return a.level < b.level;
        return a.mode > b.mode;
    }
    if (a.mode != b.mode)
        return a.mode > b.mode;
    return a.level < b.level;
}

/* ---- walking the flavors ---- */

static size_t start_of(const struct walk *k, size_t req) {
    if (!k->bookmark)
        return 0;
    return (size_t)(k->bookmark->last[k->mark_base + req] + 1);
}

/* One flavor for all requested resources of the group; false when none will do. first: the resource that asked. */
static bool pick_flavor(struct walk *k, struct cqgroup *g, size_t first) {
    struct ps_assign *pa = k->pa;
    size_t *reqs = arena_alloc(k->e->arena, pa->n * sizeof *reqs), *col = arena_alloc(k->e->arena, pa->n * sizeof *col),
           n = 0;
    struct grade *now = arena_alloc(k->e->arena, pa->n * sizeof *now),
                 *kept = arena_alloc(k->e->arena, pa->n * sizeof *kept);
    for (size_t i = 0; i < pa->n; i++)
        if (group_of(k->q, pa->picks[i].res, &col[n]) == g)
            reqs[n++] = i;
    struct cqflavor *best = NULL;
    struct grade best_grade = {MODE_NOFIT, 0};
    int16_t last = -1;
    for (size_t i = start_of(k, first); i < g->n_flavors; i++) {
        struct cqflavor *f = &g->flavors[i];
        last = (int16_t)i;
        if (!eligible(k, g, f->flavor)) {
            if (k->error)
                return false;
            continue;
        }
        struct grade worst = {MODE_FIT, 0};
        for (size_t x = 0; x < n; x++) {
            now[x].mode = verdict(k, f->cells[col[x]], pa->picks[reqs[x]].amount, &now[x].level);
            if (prefer(k->q->obj, worst, now[x]))
                worst = now[x];
        }
        bool stop = stop_here(k->q->obj, worst);
        if (stop || prefer(k->q->obj, worst, best_grade)) {
            best = f;
            best_grade = worst;
            memcpy(kept, now, n * sizeof *now);
        }
        if (stop)
            break;
    }
    if (!best)
        return false;
    if (last == (int16_t)(g->n_flavors - 1))
        last = -1;
    for (size_t x = 0; x < n; x++) {
        struct pick *p = &pa->picks[reqs[x]];
        p->flavor = best;
        p->cell = best->cells[col[x]];
        p->mode = (uint8_t)kept[x].mode;
        p->level = kept[x].level;
        p->tried = last;
    }
    return true;
}

static void take_usage(struct assignment *a, struct cell *c, int64_t amount) {
    for (size_t i = 0; i < a->n_usage; i++)
        if (a->usage[i].cell == c) {
            a->usage[i].amount = amt_add(a->usage[i].amount, amount);
            return;
        }
    a->usage[a->n_usage++] = (struct use){c, amount};
}

/* counts: NULL for the full ones; a pod set that has no pods left stays so. */
static void list_requests(struct walk *k, const int32_t *counts) {
    const struct shape_ps *s = &k->w->shape->ps[k->ps];
    bool scaled = counts && s->count > 0;
    int32_t count = scaled ? counts[k->ps] : s->count;
    struct ps_assign *pa = k->pa;
    struct res *pods = k->q->covers_pods ? sl_map_get(&k->e->resources, "pods") : NULL;
    pa->count = count;
    pa->picks = arena_alloc(k->e->arena, (s->n_reqs + 1) * sizeof *pa->picks);
    for (size_t r = 0; r < s->n_reqs; r++) {
        int after = pods ? res_order(s->reqs[r].res, pods) : -1;
        if (after >= 0) {
            pa->picks[pa->n++] = (struct pick){.res = pods, .amount = count, .injected = true};
            pods = NULL;
        }
        if (after == 0)
            continue; /* a request for pods of its own: their number takes its place */
        int64_t amount = scaled ? sl_sat_mul(s->reqs[r].per_pod, count) : s->reqs[r].total;
        pa->picks[pa->n++] = (struct pick){.res = s->reqs[r].res, .amount = amount};
    }
    if (pods)
        pa->picks[pa->n++] = (struct pick){.res = pods, .amount = count, .injected = true};
    for (size_t i = 0; i < pa->n; i++)
        pa->picks[i].tried = -1;
}

static bool assign_podset(struct walk *k) {
    struct ps_assign *pa = k->pa;
    for (size_t i = 0; i < pa->n; i++) {
        if (pa->picks[i].flavor)
            continue;
        size_t col;
        struct cqgroup *g = group_of(k->q, pa->picks[i].res, &col);
        if (!g) {
            if (pa->picks[i].amount == 0 || k->e->config.ignore_undeclared)
                continue;
            trace_add(k->trace, (struct row){.ps = (uint16_t)k->ps,
                                             .verdict = ROW_UNDECLARED,
                                             .res = pa->picks[i].res,
                                             .asked = pa->picks[i].amount});
            return false;
        }
        if (!pick_flavor(k, g, i))
            return false;
    }
    return true;
}

static size_t marks_of(const struct cq *q, const struct shape *s) {
    size_t n = 0;
    for (size_t p = 0; p < s->n_ps; p++)
        n += s->ps[p].n_reqs + q->covers_pods;
    return n;
}

struct assignment *assign(struct sl_engine *e, struct wl *w, const int32_t *counts, bool use_bookmark,
                          struct trace *trace) {
    const struct shape *s = w->shape;
    struct assignment *a = arena_alloc(e->arena, sizeof *a);
    struct walk k = {.e = e, .w = w, .q = w->cq, .a = a, .trace = trace};
    if (use_bookmark && w->bookmark && w->bookmark->n == marks_of(w->cq, s))
        k.bookmark = w->bookmark;
    a->n_ps = s->n_ps;
    a->ps = arena_alloc(e->arena, (s->n_ps + 1) * sizeof *a->ps);
    a->usage = arena_alloc(e->arena, (marks_of(w->cq, s) + 1) * sizeof *a->usage);
    a->mode = s->n_ps ? MODE_FIT : MODE_NOFIT;
    for (size_t p = 0; p < s->n_ps; p++) {
        k.ps = p;
        k.pa = &a->ps[p];
        a->n_done = p + 1;
        list_requests(&k, counts);
        if (!assign_podset(&k)) {
            for (size_t i = 0; i < k.pa->n; i++)
                k.pa->picks[i].flavor = NULL;
            k.pa->mode = a->mode = MODE_NOFIT;
            return a;
        }
        k.pa->mode = MODE_FIT;
        for (size_t i = 0; i < k.pa->n; i++) {
            struct pick *x = &k.pa->picks[i];
            if (!x->flavor)
                continue;
            if (x->mode != MODE_FIT)
                k.pa->mode = MODE_PREEMPT;
            if (x->level > a->level)
                a->level = x->level;
            take_usage(a, x->cell, x->amount);
        }
        if (k.pa->mode < a->mode)
            a->mode = k.pa->mode;
        k.mark_base += s->ps[p].n_reqs + w->cq->covers_pods;
    }
    return a;
}

/* ---- bookmarks ---- */

void bookmark_drop(struct wl *w) {
    free(w->bookmark);
    w->bookmark = NULL;
}

bool bookmark_pending(const struct wl *w) {
    return w->bookmark != NULL;
}

/* Remembers where the walks stopped; a bookmark that says "start over" everywhere is none. */
void assignment_bookmark(struct sl_engine *e, struct wl *w, const struct assignment *a, uint64_t cycle) {
    (void)e;
    size_t n = marks_of(w->cq, w->shape);
    bool pending = false;
    for (size_t p = 0; p < a->n_done; p++)
        for (size_t i = 0; i < a->ps[p].n; i++)
            pending |= a->ps[p].picks[i].flavor && a->ps[p].picks[i].tried >= 0;
    bookmark_drop(w);
    if (!pending)
        return;
    struct bookmark *b = sl_xalloc(sizeof *b + n * sizeof b->last[0]);
    b->n = n;
    b->cycle = cycle;
    b->gen = w->cq->gen;
    b->shape = w->shape->id;
    for (size_t i = 0; i < n; i++)
        b->last[i] = -1;
    size_t base = 0;
    for (size_t p = 0; p < a->n_done; p++) {
        for (size_t i = 0; i < a->ps[p].n; i++)
            if (a->ps[p].picks[i].flavor)
                b->last[base + i] = a->ps[p].picks[i].tried;
        base += w->shape->ps[p].n_reqs + w->cq->covers_pods;
    }
    w->bookmark = b;
}

void bookmark_drop_stale(struct sl_engine *e, struct wl *w, uint64_t cycle) {
    (void)e;
    const struct bookmark *b = w->bookmark;
    if (!b)
        return;
    if (b->n != marks_of(w->cq, w->shape) || (b->shape != w->shape->id && w->shape->known) ||
        (cycle - b->cycle > 1 && w->cq->gen > b->gen))
        bookmark_drop(w);
}
