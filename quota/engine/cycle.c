/*
 * The scheduling cycle (scheduling reference, section 4). Everything inside one cycle happens on the live tree under
 * the undo log; at its end the log is rolled back and what was admitted is counted for good.
 */
#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/api/decode.h"
#include "sluice/base/mem.h"
#include "sluice/base/num.h"

#define MAX_SAME_EVICTIONS 3    /* of one workload by another, while nothing changes from outside */
#define MAX_IDLE_CYCLES    1000 /* cycles that only moved bookmarks */

enum result {
    R_UNTOUCHED,
    R_ADMITTED,
    R_WAITING,
    R_NOFIT,
    R_NO_CANDIDATES,
    R_SKIPPED,
    R_REJECTED,
    R_MISPLACED,
    R_BLOCKED
};
enum progress { P_NONE, P_BOOKMARKS, P_REAL };

struct cycle {
    struct sl_engine *e;
    struct tree *t;
    struct entry *entries;
    size_t n;
    struct wl **taken;
    size_t n_taken, cap_taken;
    size_t *left;
    bool full, admitted;
    enum progress progress;
};

/* ---- nomination ---- */

static bool rejected_by_check(const struct wl *w) {
    for (size_t i = 0; i < w->obj->n_checks; i++)
        if (w->obj->checks[i].state == SL_CHECK_RETRY || w->obj->checks[i].state == SL_CHECK_REJECTED)
            return true;
    return false;
}

static bool namespace_matches(struct sl_engine *e, const struct wl *w) {
    const struct sl_clusterqueue *o = w->cq->obj;
    struct ns *n = ns_get(e, w->obj->ns);
    return n && o->has_namespace_selector && sl_selector_matches(&o->namespace_selector, &n->labels);
}

/* Smaller counts of pod sets that allow it, by bisection; the order of the probes is part of the contract. */
static bool shrink(struct sl_engine *e, struct wl *w, struct entry *x, bool use_bookmark) {
    const struct shape *s = w->shape;
    int32_t *counts = arena_alloc(e->arena, (s->n_ps + 1) * sizeof *counts);
    int64_t total = 0;
    for (size_t i = 0; i < s->n_ps; i++)
        if (s->ps[i].min_count >= 0 && s->ps[i].min_count < s->ps[i].spec_count)
            total += s->ps[i].spec_count - s->ps[i].min_count;
    int64_t lo = 0, hi = total + 1;
    bool good = false;
    while (lo < hi) {
        int64_t mid = (lo + hi) / 2;
        for (size_t i = 0; i < s->n_ps; i++) {
            int64_t delta = s->ps[i].min_count >= 0 ? s->ps[i].spec_count - s->ps[i].min_count : 0;
            counts[i] = s->ps[i].spec_count - (int32_t)(max0(delta) * mid / total);
        }
        struct assignment *a = assign(e, w, counts, use_bookmark, NULL);
        struct targets t = {NULL, 0};
        if (a->mode == MODE_PREEMPT)
            t = assignment_targets(e, w, a);
        if (a->mode == MODE_FIT || t.n) {
            x->a = a;
            x->t = t;
            hi = mid;
            good = true;
        } else {
            lo = mid + 1;
        }
    }
    return good;
}

void nominate_one(struct sl_engine *e, struct wl *w, struct entry *x, bool use_bookmark) {
    struct assignment *full = assign(e, w, NULL, use_bookmark, NULL);
    x->a = full;
    if (full->mode == MODE_FIT)
        return;
    if (full->mode == MODE_PREEMPT) {
        x->t = assignment_targets(e, w, full);
        if (x->t.n)
            return;
    }
    if (w->shape->partial && !shrink(e, w, x, use_bookmark)) {
        x->a = full;
        x->t.n = 0;
    }
}

static void nominate(struct cycle *c, struct entry *x) {
    struct sl_engine *e = c->e;
    struct wl *w = x->wl;
    if (rejected_by_check(w)) {
        x->result = R_REJECTED;
        x->why = WHY_CHECK;
        return;
    }
    if (!namespace_matches(e, w)) {
        x->result = R_MISPLACED;
        x->why = WHY_NAMESPACE;
        return;
    }
    if (w->obj->rejected) {
        x->result = R_REJECTED;
        x->why = WHY_REJECTED;
        return;
    }
    bookmark_drop_stale(e, w, c->t->cycle);
    nominate_one(e, w, x, true);
}
/* ---- processing ---- */

static void push_usage(struct cycle *c, const struct assignment *a) {
    for (size_t i = 0; i < a->n_usage; i++)
        usage_push(c->e, a->usage[i].cell, a->usage[i].amount);
}

/* Capacity kept for one that found nobody to preempt but has a right to wait (4.7). */
static void push_reserve(struct cycle *c, const struct entry *x) {
    const struct assignment *a = x->a;
    for (size_t i = 0; i < a->n_usage; i++) {
        struct cell *cell = a->usage[i].cell;
        int64_t u = a->usage[i].amount;
        if (a->level > 0) {
            if (cell->has_bl) {
                int64_t room = amt_sub(amt_add(cell->nom, cell->bl), cell->U);
                u = u < room ? u : room;
            }
        } else {
            int64_t room = amt_sub(cell->nom, cell->U);
            u = max0(u < room ? u : room);
        }
        usage_push(c->e, cell, u);
    }
}

static bool overlaps(const struct cycle *c, const struct entry *x) {
    for (size_t i = 0; i < x->t.n; i++)
        for (size_t k = 0; k < c->n_taken; k++)
            if (x->t.items[i].wl == c->taken[k])
                return true;
    return false;
}

static bool fits(struct cycle *c, const struct entry *x) {
    size_t mark = undo_mark(c->e);
    for (size_t i = 0; i < c->n_taken; i++)
        search_remove(c->e, c->taken[i]);
    for (size_t i = 0; i < x->t.n; i++)
        search_remove(c->e, x->t.items[i].wl);
    bool ok = true;
    for (size_t i = 0; i < x->a->n_usage && ok; i++)
        ok = cell_available(x->a->usage[i].cell) >= x->a->usage[i].amount;
    undo_to(c->e, mark);
    return ok;
}

/*
 * Evicting again what was evicted before, or what evicted us, without anything new: only if the victim would not do the
 * same to us once we are in its place, and not for ever.
 */
static bool futile(struct cycle *c, const struct entry *x) {
    bool again = false;
    for (size_t i = 0; i < x->t.n; i++) {
        unsigned same_way;
        if (wl_evicted(x->t.items[i].wl))
            continue;
        again |= fight_rounds(c->t, x->wl, x->t.items[i].wl, &same_way) > 0;
        if (same_way >= MAX_SAME_EVICTIONS)
            return true;
    }
    return again && fight_returns(c->e, x->wl, x->a, &x->t);
}

/*
 * A victim may come back before its preemptor got in. When that has made the preemptor evict it a second time, or when
 * others that the preemptor evicted still hold their quota, it has to wait as long as it would take what the preemptor,
 * which is still to come in this cycle, needs.
 */
static bool held_back(struct cycle *c, const struct entry *x) {
    const struct wl *foe = x->wl->foe;
    unsigned same_way;
    if (!foe || !foe->entry || foe->entry->result != R_UNTOUCHED || foe->entry->a->mode == MODE_NOFIT ||
        (foe->entry->a->mode == MODE_PREEMPT && foe->entry->t.n == 0))
        return false;
    fight_rounds(c->t, foe, x->wl, &same_way);
    bool draining =
        false; /* the quota comes back bit by bit: it must not go to the victim that was the first to give */
    for (size_t i = 0; i < foe->entry->t.n && !draining; i++)
        draining = wl_evicted(foe->entry->t.items[i].wl);
    if (same_way < (draining ? 1 : 2) || !fits(c, foe->entry))
        return false;
    size_t mark = undo_mark(c->e);
    push_usage(c, x->a);
    bool hurts = !fits(c, foe->entry);
    undo_to(c->e, mark);
    return hurts;
}

/*
 * Victims hold their quota until they are gone, so nothing may be admitted on what only they can free, even if their
 * preemptor needs less than they give back. What counts here is what is really used: the preemptors of this cycle are
 * not there yet.
 */
static bool overbooks(struct cycle *c, const struct entry *x) {
    if (!c->n_taken)
        return false;
    size_t mark = undo_mark(c->e);
    for (size_t i = 0; i < c->n; i++)
        if (c->entries[i].result == R_WAITING)
            for (size_t k = 0; k < c->entries[i].a->n_usage; k++)
                usage_pull(c->e, c->entries[i].a->usage[k].cell, c->entries[i].a->usage[k].amount);
    bool over = false;
    for (size_t i = 0; i < x->a->n_usage && !over; i++)
        over = cell_available(x->a->usage[i].cell) < x->a->usage[i].amount;
    undo_to(c->e, mark);
    return over;
}

static struct sl_admission *admission_of(const struct wl *w, const struct assignment *a) {
    struct sl_admission *ad = sl_xalloc(sizeof *ad);
    ad->cq = sl_xstrdup(w->cq->node.name);
    ad->n_podsets = a->n_ps;
    ad->podsets = sl_xalloc((a->n_ps + 1) * sizeof *ad->podsets);
    for (size_t p = 0; p < a->n_ps; p++) {
        struct sl_podset_assignment *pa = &ad->podsets[p];
        pa->name = sl_xstrdup(w->obj->podsets[p].name);
        pa->count = a->ps[p].count;
        pa->flavors = sl_xalloc((a->ps[p].n + 1) * sizeof *pa->flavors);
        for (size_t i = 0; i < a->ps[p].n; i++) {
            const struct pick *x = &a->ps[p].picks[i];
            if (!x->flavor)
                continue;
            size_t at = pa->n_flavors++; /* sorted by resource name */
            while (at > 0 && strcmp(pa->flavors[at - 1].resource, x->res->name) > 0) {
                pa->flavors[at] = pa->flavors[at - 1];
                at--;
            }
            pa->flavors[at] =
                (struct sl_assigned_flavor){sl_xstrdup(x->res->name), sl_xstrdup(x->flavor->flavor->name), x->amount};
        }
    }
    return ad;
}

static void preempt(struct cycle *c, struct entry *x) {
    struct sl_engine *e = c->e;
    struct wl *w = x->wl;
    for (size_t i = 0; i < x->t.n; i++) {
        struct wl *v = x->t.items[i].wl;
        if (wl_evicted(v))
            continue;
        decide_evict(e, w, v, x->t.items[i].reason);
        fight_begin(e, c->t, w, v);
        v->evict_sent = true;
        c->progress = P_REAL;
    }
    x->result = R_WAITING;
    x->why = WHY_WAITS_VICTIMS;
}

static void process(struct cycle *c, struct entry *x) {
    struct sl_engine *e = c->e;
    struct wl *w = x->wl;
    if (x->a->mode == MODE_NOFIT) {
        x->result = R_NOFIT;
        x->why = WHY_NOFIT;
        return;
    }
    if (x->a->mode == MODE_PREEMPT && x->t.n == 0) {
        x->result = R_NO_CANDIDATES;
        x->why = WHY_NO_CANDIDATES;
        if (w->cq->obj->reclaim_within_cohort != SL_PREEMPT_ANY)
            push_reserve(c, x);
        return;
    }
    if (x->t.n && futile(c, x)) {
        x->result = R_NO_CANDIDATES;
        x->why = WHY_RETURN;
        if (w->cq->obj->reclaim_within_cohort != SL_PREEMPT_ANY)
            push_reserve(c, x);
        return;
    }
    if (held_back(c, x)) {
        x->result = R_SKIPPED;
        x->why = WHY_HELD;
        return;
    }
    bool lap = overlaps(c, x);
    if (lap || !fits(c, x) || (x->a->mode == MODE_FIT && overbooks(c, x))) {
        x->result = R_SKIPPED;
        x->why = lap ? WHY_OVERLAP : WHY_LOST;
        return;
    }
    if (x->a->mode == MODE_FIT && e->config.block_admission && (e->n_not_ready || c->admitted)) {
        x->result = R_BLOCKED;
        x->why = WHY_PODS_READY;
        return;
    }
    for (size_t i = 0; i < x->t.n; i++) {
        SL_GROW(c->taken, c->cap_taken, c->n_taken);
        c->taken[c->n_taken++] = x->t.items[i].wl;
    }
    if (x->a->mode == MODE_FIT) {
        x->admission = admission_of(w, x->a);
        x->result = R_ADMITTED;
        c->admitted = true;
        c->progress = P_REAL;
        if (*c->left && --*c->left == 0)
            c->full = true;
    } else {
        preempt(c, x);
    }
    push_usage(c, x->a);
}

static int by_level(const void *pa, const void *pb) {
    const struct entry *a = *(struct entry *const *)pa, *b = *(struct entry *const *)pb;
    if (a->a->level != b->a->level)
        return a->a->level < b->a->level ? -1 : 1;
    return wl_before(a->wl, b->wl) ? -1 : 1;
}

static void process_all(struct cycle *c) {
    struct entry **list = arena_alloc(c->e->arena, (c->n + 1) * sizeof *list);
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++)
        if (c->entries[i].result == R_UNTOUCHED)
            list[n++] = &c->entries[i];
    if (c->e->config.fair_sharing) {
        struct fair_order o;
        fair_begin(c->e, &o, list, n);
        for (struct entry *x; !c->full && (x = fair_next(c->e, &o));)
            process(c, x);
        return;
    }
    qsort(list, n, sizeof *list, by_level);
    for (size_t i = 0; i < n && !c->full; i++)
        process(c, list[i]);
}

/* ---- what becomes of the entries ---- */

static void admit(struct cycle *c, struct entry *x) {
    struct sl_engine *e = c->e;
    struct wl *w = x->wl;
    struct cq *q = w->cq;
    q->skipped = false;
    queue_remove(e, w);
    fight_over(w);
    fight_forget(w);
    bookmark_drop(w);
    wl_tell_off(e, w);
    w->told = 0;
    w->observed = false;
    w->reserved_ms = e->now_ms / 1000 * 1000;
    w->admitted = wl_checks_ready(w, q, x->admission);
    wl_hold(e, w, q, x->admission);
    struct sl_decision *d = decide(e, SL_DECIDE_ADMIT, w);
    d->cq = q->node.name;
    d->admission = x->admission;
    for (size_t i = 0; i < w->n_use; i++)
        d->borrows |= w->use[i].cell->U > w->use[i].cell->nom;
}

static void keep_bookmark(struct cycle *c, struct entry *x) {
    struct wl *w = x->wl;
    bool had = bookmark_pending(w);
    bookmark_drop(w);
    if (x->a && x->result != R_WAITING)
        assignment_bookmark(c->e, w, x->a, c->t->cycle);
    /* one that is there after the cycle is never the one from before: each walk began behind it */
    if ((had || bookmark_pending(w)) && c->progress == P_NONE)
        c->progress = P_BOOKMARKS;
}

static void requeue(struct cycle *c, struct entry *x) {
    struct sl_engine *e = c->e;
    struct wl *w = x->wl;
    struct cq *q = w->cq;
    if (x->result == R_UNTOUCHED)
        return; /* the limit of admissions was hit before it was its turn */
    q->skipped = (x->result == R_SKIPPED) & (x->t.n > 0);
    if (x->why != WHY_HELD)
        keep_bookmark(c, x);
    if (x->result != R_WAITING && x->result != R_SKIPPED)
        fight_over(w);
    if (w->told_why != x->why || !w->told)
        wl_tell(e, w);
    w->why = x->why;
    if (x->result == R_WAITING && q->obj->strategy == SL_BEST_EFFORT_FIFO) {
        if (q->sticky != w || q->sticky_generation != w->obj->generation)
            c->progress = P_REAL;
        q->sticky = w;
        q->sticky_generation = w->obj->generation;
    }
    bool strict = q->obj->strategy == SL_STRICT_FIFO;
    bool stay =
        strict ? x->result != R_MISPLACED : x->result == R_WAITING || x->result == R_SKIPPED || x->result == R_BLOCKED;
    if (stay || bookmark_pending(w)) {
        if (q->tried && q->tried != w)
            wl_retell(e, q->tried); /* it waits behind this one now */
        q->tried = w;
        return;
    }
    c->progress = P_REAL;
    if (x->result == R_NOFIT || x->result == R_NO_CANDIDATES) {
        queue_park_class(e, w->klass, w, x->why);
    } else {
        queue_remove(e, w);
        queue_park_solo(e, w, x->result == R_MISPLACED);
    }
}

static enum progress cycle(struct sl_engine *e, struct tree *t, size_t *left, bool *ret_full) {
    struct cycle c = {.e = e, .t = t, .left = left};
    t->cycle++;
    size_t heads = 0;
    for (struct cq *q = t->ready; q; q = q->ready_next)
        heads++;
    c.entries = arena_alloc(e->arena, (heads + 1) * sizeof *c.entries);
    for (struct cq *q = t->ready; q; q = q->ready_next)
        c.entries[c.n++].wl = queue_head(q);
    for (size_t i = 0; i < c.n; i++)
        c.entries[i].wl->entry = &c.entries[i];
    e->log_on = true;
    for (size_t i = 0; i < c.n; i++)
        nominate(&c, &c.entries[i]);
    process_all(&c);
    undo_to(e, 0);
    e->log_on = false;
    for (size_t i = 0; i < c.n; i++)
        c.entries[i].wl->entry = NULL;
    for (size_t i = 0; i < c.n; i++)
        if (c.entries[i].result == R_ADMITTED)
            admit(&c, &c.entries[i]);
    for (size_t i = 0; i < c.n; i++)
        if (c.entries[i].result != R_ADMITTED)
            requeue(&c, &c.entries[i]);
    free(c.taken);
    arena_reset(e->arena);
    *ret_full = c.full;
    return c.progress;
}

/* ---- until rest ---- */

/* Each bit of v has to reach all of the result: the results of several heads are added up, and two heads that change
 * places must not give the same sum. */
static uint64_t mix(uint64_t h, uint64_t v) {
    h ^= v * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 32) * 0xff51afd7ed558ccdu;
    return h ^ h >> 29;
}

/* Bookmarks of the heads: all that a cycle without real progress can have changed. Order of the ready list does not
 * matter. */
static uint64_t state_of(const struct tree *t) {
    uint64_t sum = 0;
    for (const struct cq *q = t->ready; q; q = q->ready_next) {
        const struct wl *w = queue_head(q);
        uint64_t h = mix(1, w->shape->id);
        for (size_t i = 0; w->bookmark && i < w->bookmark->n; i++)
            h = mix(h, (uint64_t)(uint16_t)w->bookmark->last[i]);
        for (const char *p = w->obj->uid; *p; p++)
            h = mix(h, (unsigned char)*p);
        sum += h;
    }
    return sum;
}

bool tree_run(struct sl_engine *e, struct tree *t, size_t *left) {
    uint64_t seen[MAX_IDLE_CYCLES];
    size_t n_seen = 0;
    for (;;) {
        if (t->flush) {
            t->flush = false;
            queue_flush(e, t);
        }
        if (t->ready) {
            bool full;
            enum progress p = cycle(e, t, left, &full);
            if (full)
                return false;
            if (p == P_REAL) {
                n_seen = 0;
                continue;
            }
            if (p == P_BOOKMARKS && n_seen < MAX_IDLE_CYCLES) {
                uint64_t h = state_of(t);
                size_t i = 0;
                while (i < n_seen && seen[i] != h)
                    i++;
                if (i == n_seen) {
                    seen[n_seen++] = h;
                    continue;
                }
            }
        }
        return true;
    }
}
