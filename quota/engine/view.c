/* Readings: what statuses, metrics and recounts show. */
#include "model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/base/mem.h"

static int by_flavor_and_name(const void *a, const void *b) {
    const struct sl_usage_row *x = a, *y = b;
    int c = strcmp(x->flavor, y->flavor);
    return c ? c : strcmp(x->resource, y->resource);
}

static int by_resource(const void *a, const void *b) {
    return strcmp(((const struct sl_usage_row *)a)->resource, ((const struct sl_usage_row *)b)->resource);
}

static struct sl_usage_row row_of(const struct cell *c, bool cohort) {
    struct sl_usage_row r = {.flavor = c->flavor->name, .resource = c->res->name, .listed = true};
    r.nominal = cohort ? c->S : c->nom;
    r.borrowing_limit = c->has_bl ? c->bl : SL_UNLIMITED;
    r.lending_limit = c->has_ll ? c->ll : SL_UNLIMITED;
    r.reserved = c->U;
    r.used = cohort ? c->U : c->admitted;
    bool borrows = c->node->parent != NULL;
    r.borrowed_reserved = borrows ? max0(amt_sub(r.reserved, r.nominal)) : 0;
    r.borrowed_used = borrows ? max0(amt_sub(r.used, r.nominal)) : 0;
    return r;
}

static const char *root_name(const struct node *n) {
    return n->parent && n->tree ? n->tree->root->name : "";
}

static void queue_rows(const struct cq *q, struct sl_queue_view *v) {
    for (size_t g = 0; g < q->n_groups; g++)
        v->n_rows += q->groups[g].n_flavors * q->groups[g].n_res;
    v->rows = sl_xalloc((v->n_rows + q->node.n_cells + 1) * sizeof *v->rows);
    size_t n = 0;
    for (size_t g = 0; g < q->n_groups; g++)
        for (size_t f = 0; f < q->groups[g].n_flavors; f++) {
            size_t first = n;
            for (size_t r = 0; r < q->groups[g].n_res; r++)
                v->rows[n++] = row_of(q->groups[g].flavors[f].cells[r], false);
            qsort(v->rows + first, n - first, sizeof *v->rows, by_resource);
        }
    for (size_t i = 0; i < q->node.n_cells; i++) {
        const struct cell *c = q->node.cells[i];
        if (c->own || c->U == 0)
            continue;
        v->rows[n] = row_of(c, false);
        v->rows[n++].listed = false;
    }
    if (n > v->n_rows)
        qsort(v->rows + v->n_rows, n - v->n_rows, sizeof *v->rows, by_flavor_and_name);
    v->n_rows = n;
}

static void activity(const struct sl_engine *e, const struct cq *q, struct sl_queue_view *v) {
    struct sl_buf b = SL_BUF_INIT(8192);
    v->inactive_reason = cq_inactive(e, q, &b);
    v->active = v->inactive_reason == NULL;
    b.failed = false; /* a long list of causes is cut */
    v->inactive_message = v->active ? NULL : sl_xstrdup(sl_buf_text(&b));
    sl_buf_done(&b);
}

static struct sl_engine *refreshed(const struct sl_engine *e) {
    trees_refresh(e->self);
    return e->self;
}

void sl_engine_clusterqueue_view(const struct sl_engine *e, const char *name, struct sl_queue_view *ret) {
    *ret = (struct sl_queue_view){.cohort = "", .root_cohort = ""};
    refreshed(e);
    struct cq *q = sl_map_get(&e->cqs, name);
    if (!q || !q->obj)
        return;
    ret->exists = true;
    activity(e, q, ret);
    ret->pending_inadmissible = (int32_t)(ret->active ? q->n_inadmissible : q->n_pending);
    ret->pending_active = (int32_t)q->n_pending - ret->pending_inadmissible;
    ret->reserving = (int32_t)q->n_holders;
    ret->admitted = (int32_t)q->n_admitted;
    ret->preemption_skips = q->skipped & (q->n_pending > 0);
    queue_rows(q, ret);
    struct share s = node_share(&q->node);
    ret->weighted_share = share_value(&s);
    ret->cohort = q->node.parent ? q->node.parent->name : "";
    ret->root_cohort = root_name(&q->node);
}

void sl_engine_localqueue_view(const struct sl_engine *e, const char *ns, const char *name, struct sl_queue_view *ret) {
    *ret = (struct sl_queue_view){.cohort = "", .root_cohort = ""};
    refreshed(e);
    SL_AUTO_FREE char *key = sl_xprintf("%s/%s", ns, name);
    const struct lq *l = sl_map_get(&e->lqs, key);
    if (!l || !l->obj)
        return;
    ret->exists = true;
    for (const struct wl *w = l->wls; w; w = w->lq_next) {
        if (w->where == WL_NOWHERE && !(l->cq && l->cq->obj) && l->obj->stop == SL_STOP_NONE && !l->obj->deleting &&
            wl_queueable(w->obj)) {
            ret->pending_inadmissible++; /* it waits for a ClusterQueue that does not exist */
            continue;
        }
        if (w->where == WL_HOLDING && w->cq == l->cq) { /* what an earlier queue of this name got is another's */
            ret->reserving++;
            ret->admitted += w->admitted;
        }
        if (w->where == WL_NOWHERE || w->where == WL_HOLDING)
            continue;
        if (!w->cq->active || w->where != WL_QUEUED || w->klass->parked)
            ret->pending_inadmissible++;
        else
            ret->pending_active++;
    }
    if (!l->cq || !l->cq->obj)
        return;
    activity(e, l->cq, ret);
    queue_rows(l->cq, ret);
    for (size_t i = 0; i < ret->n_rows; i++) {
        struct sl_usage_row *r = &ret->rows[i];
        r->reserved = r->used = r->borrowed_reserved = r->borrowed_used = 0;
        for (size_t k = 0; k < l->n_uses; k++)
            if (l->uses[k].cell->node == &l->cq->node && !strcmp(l->uses[k].cell->flavor->name, r->flavor) &&
                !strcmp(l->uses[k].cell->res->name, r->resource)) {
                r->reserved = l->uses[k].reserved;
                r->used = l->uses[k].used;
            }
    }
    ret->cohort = l->cq->node.parent ? l->cq->node.parent->name : "";
    ret->root_cohort = root_name(&l->cq->node);
}

void sl_engine_cohort_view(const struct sl_engine *e, const char *name, struct sl_cohort_view *ret) {
    *ret = (struct sl_cohort_view){.parent = "", .root = ""};
    refreshed(e);
    struct cohort *c = sl_map_get(&e->cohorts, name);
    if (!c)
        return;
    ret->exists = true;
    ret->explicit_object = c->obj != NULL;
    ret->in_cycle = c->node.in_cycle;
    ret->parent = c->node.parent ? c->node.parent->name : "";
    ret->root = c->node.tree ? c->node.tree->root->name : "";
    for (size_t i = 0; c->node.tree && i < c->node.tree->n_cqs; i++) {
        const struct cq *q = c->node.tree->cqs[i];
        const struct node *n = &q->node;
        while (n && n != &c->node)
            n = n->parent;
        if (n)
            ret->admitted += (int32_t)q->n_admitted;
    }
    ret->rows = sl_xalloc((c->node.n_cells + 1) * sizeof *ret->rows);
    for (size_t i = 0; i < c->node.n_cells; i++)
        if (c->node.cells[i]->declared || c->node.cells[i]->U != 0)
            ret->rows[ret->n_rows++] = row_of(c->node.cells[i], true);
    qsort(ret->rows, ret->n_rows, sizeof *ret->rows, by_flavor_and_name);
    struct share s = node_share(&c->node);
    ret->weighted_share = share_value(&s);
}

void sl_queue_view_done(struct sl_queue_view *v) {
    free(v->inactive_message);
    free(v->rows);
    *v = (struct sl_queue_view){0};
}

void sl_cohort_view_done(struct sl_cohort_view *v) {
    free(v->rows);
    *v = (struct sl_cohort_view){0};
}

bool sl_engine_holds_quota(const struct sl_engine *e, const char *uid) {
    const struct wl *w = sl_map_get(&e->workloads, uid);
    return w && w->where == WL_HOLDING;
}

size_t sl_engine_clusterqueue_holders(const struct sl_engine *e, const char *name) {
    const struct cq *q = sl_map_get(&e->cqs, name);
    return q ? q->n_holders : 0;
}

bool sl_engine_flavor_in_use(const struct sl_engine *e, const char *name) {
    SL_MAP_EACH (&e->cqs, m) {
        const struct cq *q = m->value;
        for (size_t g = 0; g < q->n_groups; g++)
            for (size_t f = 0; f < q->groups[g].n_flavors; f++)
                if (!strcmp(q->groups[g].flavors[f].flavor->name, name))
                    return true;
    }
    return false;
}

static int in_order(const void *a, const void *b) {
    const struct wl *x = *(struct wl *const *)a, *y = *(struct wl *const *)b;
    return wl_before(x, y) ? -1 : wl_before(y, x);
}

const char *sl_wait_name(enum sl_wait wait) {
    static const char *const names[] = {[SL_WAIT_IN_QUEUE] = "InQueue",
                                        [SL_WAIT_QUEUE_INACTIVE] = "QueueInactive",
                                        [SL_WAIT_QUOTA] = "Quota",
                                        [SL_WAIT_PREEMPTION] = "Preemption",
                                        [SL_WAIT_OTHERS] = "OthersFirst",
                                        [SL_WAIT_PODS_READY] = "PodsReady",
                                        [SL_WAIT_ADMISSION_CHECK] = "AdmissionCheck",
                                        [SL_WAIT_NAMESPACE] = "Namespace",
                                        [SL_WAIT_BACKOFF] = "Backoff",
                                        [SL_WAIT_INVALID] = "Invalid"};
    return names[wait];
}

void sl_engine_waits(const struct sl_engine *e, const char *cq, uint32_t ret[SL_WAIT__COUNT]) {
    static const enum sl_wait of[] = {[WHY_NEW] = SL_WAIT_IN_QUEUE,        [WHY_NOFIT] = SL_WAIT_QUOTA,
                                      [WHY_NO_CANDIDATES] = SL_WAIT_QUOTA, [WHY_WAITS_VICTIMS] = SL_WAIT_PREEMPTION,
                                      [WHY_OVERLAP] = SL_WAIT_OTHERS,      [WHY_LOST] = SL_WAIT_OTHERS,
                                      [WHY_REJECTED] = SL_WAIT_INVALID,    [WHY_CHECK] = SL_WAIT_ADMISSION_CHECK,
                                      [WHY_NAMESPACE] = SL_WAIT_NAMESPACE, [WHY_PODS_READY] = SL_WAIT_PODS_READY,
                                      [WHY_RETURN] = SL_WAIT_QUOTA,        [WHY_HELD] = SL_WAIT_OTHERS};
    memset(ret, 0, SL_WAIT__COUNT * sizeof *ret);
    const struct cq *q = sl_map_get(&refreshed(e)->cqs, cq);
    if (!q || !q->n_pending)
        return;
    if (!q->active) {
        ret[SL_WAIT_QUEUE_INACTIVE] = q->n_pending;
        return;
    }
    uint32_t elsewhere = q->n_misplaced;
    ret[SL_WAIT_NAMESPACE] = q->n_misplaced;
    for (uint32_t i = 0; i < q->cap_table; i++)
        if (q->table[i] && q->table[i]->parked) { /* one verdict for all of it */
            ret[of[q->table[i]->why]] += q->table[i]->n;
            elsewhere += q->table[i]->n;
        }
    for (uint32_t i = 0; i < q->n_solo; i++)
        ret[q->solo[i]->obj->requeued.status == SL_TRI_FALSE ? SL_WAIT_BACKOFF : of[q->solo[i]->why]]++;
    elsewhere += q->n_solo;
    const struct wl *head = queue_head(q);
    if (head) {
        ret[of[head->why]]++;
        elsewhere++;
    }
    for (uint32_t i = 0; i < e->n_backoff; i++)
        if (e->backoff[i]->cq == q) {
            ret[SL_WAIT_BACKOFF]++;
            elsewhere++;
        }
    ret[SL_WAIT_IN_QUEUE] += q->n_pending - elsewhere;
}

/* Was refused for want of quota, which is there now. */
static bool would_fit(struct sl_engine *e, struct wl *w) {
    if (w->why != WHY_NOFIT && w->why != WHY_NO_CANDIDATES)
        return false;
    e->log_on = true;
    bool fits = assign(e, w, NULL, false, NULL)->mode == MODE_FIT;
    undo_to(e, 0);
    e->log_on = false;
    return fits;
}

bool sl_engine_idle_with_quota(const struct sl_engine *engine, const char *cq) {
    struct sl_engine *e = refreshed(engine);
    const struct cq *q = sl_map_get(&e->cqs, cq);
    if (!q || !q->active)
        return false;
    struct wl *head = queue_head(q);
    bool idle = head && (head->why == WHY_NEW || would_fit(e, head));
    int kinds = 16;
    for (uint32_t i = 0; i < q->cap_table && kinds && !idle; i++)
        if (q->table[i] && q->table[i]->rep) {
            idle = would_fit(e, q->table[i]->rep);
            kinds--;
        }
    arena_reset(e->arena);
    return idle;
}

size_t sl_engine_pending(const struct sl_engine *e, const char *cq, const struct sl_workload ***ret) {
    const struct cq *q = sl_map_get(&e->cqs, cq);
    size_t n = 0, cap = q ? q->n_pending : 0;
    const struct wl **list = sl_xalloc((cap + 1) * sizeof *list);
    if (q && cap) {
        for (uint32_t i = 0; i < q->cap_table; i++)
            for (uint32_t k = 0; q->table[i] && k < q->table[i]->n; k++)
                list[n++] = q->table[i]->heap[k];
        for (uint32_t i = 0; i < q->n_solo; i++)
            list[n++] = q->solo[i];
        for (uint32_t i = 0; i < q->n_misplaced; i++)
            list[n++] = q->misplaced[i];
        for (uint32_t i = 0; i < e->n_backoff; i++)
            if (e->backoff[i]->cq == q)
                list[n++] = e->backoff[i];
        qsort(list, n, sizeof *list, in_order);
        struct wl *sticky = q->active ? queue_head(q) : NULL;
        for (size_t i = 1; sticky && i < n; i++) /* a preemptor keeps the head while its victims drain */
            if (list[i] == sticky && sticky == q->sticky) {
                memmove(list + 1, list, i * sizeof *list);
                list[0] = sticky;
            }
    }
    const struct sl_workload **out = sl_xalloc((n + 1) * sizeof *out);
    for (size_t i = 0; i < n; i++)
        out[i] = list[i]->obj;
    free(list);
    *ret = out;
    return n;
}

int64_t sl_engine_next_due_ms(const struct sl_engine *e) {
    int64_t due = INT64_MAX;
    if (e->n_backoff)
        due = e->backoff[0]->obj->requeue_at_ms;
    if (e->retell_first && e->retell_first->told_ms + RETELL_MS < due)
        due = e->retell_first->told_ms + RETELL_MS;
    if (e->stale_first && e->stale_first->reasons_due < due)
        due = e->stale_first->reasons_due;
    return due == INT64_MAX ? -1 : due;
}

/* ---- invariants ---- */

static void check_node(struct sl_engine *e, struct node *n) {
    (void)e;
    for (size_t i = 0; i < n->n_cells; i++) {
        const struct cell *c = n->cells[i];
        SL_ASSERT(c->node == n);
        if (n->tree)
            SL_ASSERT((n->parent != NULL) == (c->up != NULL));
        if (n->is_cq || !n->tree)
            continue;
        int64_t used = 0, quota = c->nom;
        uint32_t over = 0;
        bool full = c->U == SL_UNLIMITED; /* a counter at its limit does not say what was passed on above it */
        for (size_t k = 0; k < n->n_kids; k++) {
            const struct cell *x = node_cell(n->kids[k], c->key);
            if (!x)
                continue;
            used = amt_add(used, max0(amt_sub(x->U, x->L)));
            quota = amt_add(quota, amt_sub(x->S, x->L));
            over += x->U > x->S;
            full |= x->U == SL_UNLIMITED;
        }
        SL_ASSERT(full || used == c->U || used == SL_UNLIMITED);
        SL_ASSERT(quota == c->S && over == c->over);
    }
}

static void check_queue(struct cq *q) {
    uint32_t admitted = 0, waiting = q->n_solo + q->n_misplaced, inadmissible = waiting, active = 0;
    for (uint32_t h = 0; h < q->n_holders; h++) {
        const struct wl *w = q->holders[h].wl;
        SL_ASSERT(w->cq == q && w->where == WL_HOLDING && w->pos == h);
        admitted += w->admitted;
    }
    SL_ASSERT(admitted == q->n_admitted);
    for (size_t i = 0; i < q->node.n_cells; i++) {
        const struct cell *c = q->node.cells[i];
        int64_t reserved = 0, used = 0;
        for (uint32_t h = 0; h < q->n_holders; h++)
            for (size_t k = 0; k < q->holders[h].wl->n_use; k++)
                if (q->holders[h].wl->use[k].cell == c) {
                    reserved = amt_add(reserved, q->holders[h].wl->use[k].amount);
                    used = amt_add(used, q->holders[h].wl->admitted ? q->holders[h].wl->use[k].amount : 0);
                }
        SL_ASSERT((reserved == c->U && used == c->admitted) || c->U == SL_UNLIMITED);
    }
    for (uint32_t i = 0; i < q->cap_table; i++) {
        const struct klass *k = q->table[i];
        if (!k)
            continue;
        waiting += k->n;
        inadmissible += k->parked ? k->n : 0;
        active += !k->parked;
        for (uint32_t x = 1; x < k->n; x++)
            SL_ASSERT(!wl_before(k->heap[x], k->heap[(x - 1) / 2]));
    }
    SL_ASSERT(active == q->n_heap);
    for (uint32_t x = 1; x < q->n_heap; x++)
        SL_ASSERT(!wl_before(q->heap[x]->heap[0], q->heap[(x - 1) / 2]->heap[0]));
    uint32_t backoff = q->n_pending - waiting;
    SL_ASSERT(q->n_inadmissible == inadmissible + backoff && q->n_pending >= waiting);
    SL_ASSERT(q->is_ready == (q->node.tree && q->active && q->n_heap > 0));
}

void sl_engine_check_invariants(const struct sl_engine *ce) {
    struct sl_engine *e = refreshed(ce);
    SL_ASSERT(!e->log_on && e->n_undo == 0);
    SL_MAP_EACH (&e->cohorts, m)
        check_node(e, m->value);
    uint32_t holding = 0, not_ready = 0;
    SL_MAP_EACH (&e->cqs, m) {
        struct cq *q = m->value;
        check_node(e, &q->node);
        check_queue(q);
        holding += q->n_holders;
    }
    SL_MAP_EACH (&e->workloads, m) {
        const struct wl *w = m->value;
        holding -= w->where == WL_HOLDING;
        not_ready += w->where == WL_HOLDING && w->not_ready;
    }
    SL_ASSERT(holding == 0 && not_ready == e->n_not_ready);
}
