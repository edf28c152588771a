/* The engine as its callers see it: life, runs, small readings, invariants. */
#include "sluice/quota/engine/engine.h"

#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "sluice/base/mem.h"

struct sl_engine *sl_engine_new(const struct sl_engine_config *config) {
    struct sl_engine *e = sl_xalloc(sizeof *e);
    if (config)
        e->config = *config;
    if (!e->config.strategies[0]) {
        e->config.strategies[0] = SL_FAIR_FINAL_SHARE;
        e->config.strategies[1] = SL_FAIR_INITIAL_SHARE;
    }
    e->arena = arena_new();
    e->self = e;
    return e;
}

void sl_engine_free(struct sl_engine *e) {
    if (!e)
        return;
    workloads_free(e);
    queues_free(e);
    free(e->undo);
    free(e->backoff);
    free(e->key);
    arena_free(e->arena);
    free(e);
}

/* ---- decisions ---- */

struct sl_decision *decide(struct sl_engine *e, enum sl_decision_kind kind, struct wl *w) {
    struct sl_decisions *o = e->out;
    SL_GROW(o->items, e->cap_out, o->n);
    struct sl_decision *d = &o->items[o->n++];
    *d = (struct sl_decision){.kind = kind, .workload = w->obj};
    return d;
}

static void wake_backoff(struct sl_engine *e) {
    while (e->n_backoff && e->backoff[0]->obj->requeue_at_ms <= e->now_ms) {
        struct wl *w = e->backoff[0];
        queue_remove(e, w);
        queue_put(e, w);
        wl_tell(e, w);
    }
}

/* After a while, so that a busy tree does not rewrite its reasons all the time, those with numbers are brought up to
 * date. */
static void watch_reasons(struct sl_engine *e, struct tree *t) {
    if (t->stale_reasons || t->told_ver == t->usage_ver)
        return;
    size_t i = 0;
    while (i < t->n_cqs && !t->cqs[i]->n_pending)
        i++;
    if (i == t->n_cqs) { /* nobody waits */
        t->told_ver = t->usage_ver;
        return;
    }
    t->stale_reasons = true;
    t->reasons_due = e->now_ms + RETELL_MS;
    t->next_stale = NULL;
    *(e->stale_last ? &e->stale_last->next_stale : &e->stale_first) = t;
    e->stale_last = t;
}

static void refresh_reasons(struct sl_engine *e) {
    for (struct tree *t; (t = e->stale_first) && t->reasons_due <= e->now_ms;) {
        e->stale_first = t->next_stale;
        if (!e->stale_first)
            e->stale_last = NULL;
        t->stale_reasons = false;
        t->told_ver = t->usage_ver;
        for (size_t i = 0; i < t->n_cqs; i++) {
            struct cq *q = t->cqs[i];
            if (q->tried && q->tried->told_ver != t->usage_ver)
                wl_tell(e, q->tried);
            for (uint32_t k = 0; q->n_parked && k < q->cap_table; k++)
                if (q->table[k] && q->table[k]->parked && q->table[k]->rep &&
                    q->table[k]->rep->told_ver != t->usage_ver)
                    wl_tell(e, q->table[k]->rep);
        }
    }
}

/* Those who waited for all pods to be ready may go on. */
static void wake_blocked(struct sl_engine *e) {
    if (!e->config.block_admission || !e->all_ready || e->n_not_ready)
        return;
    SL_MAP_EACH (&e->cqs, m) {
        struct cq *q = m->value;
        if (q->is_ready)
            tree_dirty(e, q->node.tree);
    }
    e->all_ready = false;
}

static struct tree *take_dirty(struct sl_engine *e) {
    struct tree *t = e->dirty_first;
    if (!t)
        return NULL;
    e->dirty_first = t->next_dirty;
    if (!e->dirty_first)
        e->dirty_last = NULL;
    t->dirty = false;
    t->next_dirty = NULL;
    return t;
}

void sl_engine_run(struct sl_engine *e, int64_t now_ms, size_t max_admissions, struct sl_decisions *ret,
                   bool *ret_more) {
    *ret = (struct sl_decisions){NULL, 0, arena_new()};
    e->out = ret;
    e->cap_out = 0;
    e->now_ms = now_ms;
    trees_refresh(e);
    wake_backoff(e);
    wake_blocked(e);
    size_t left = max_admissions;
    bool more = false;
    struct tree *t;
    while (!more && (t = take_dirty(e))) {
        if (!tree_run(e, t, &left)) {
            more = true;
            tree_dirty(e, t);
        }
        watch_reasons(e, t);
    }
    refresh_reasons(e);
    while (e->retell_first && now_ms - e->retell_first->told_ms >= RETELL_MS)
        wl_tell(e, e->retell_first);
    if (!more) /* before that, reasons would not be the last word */
        tell_all(e);
    arena_trim(e->arena);
    e->out = NULL;
    if (ret_more)
        *ret_more = more;
}

void sl_decisions_done(struct sl_decisions *d) {
    for (size_t i = 0; i < d->n; i++) {
        sl_admission_free(d->items[i].admission);
        free(d->items[i].message);
        sl_json_unref(d->items[i].requests);
    }
    free(d->items);
    arena_free(d->text);
    *d = (struct sl_decisions){NULL, 0, NULL};
}
