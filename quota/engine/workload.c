/* What the engine keeps of a workload: its shape (shared by equal ones), its place in the books, and whether it has to
 * be told something. */
#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/base/mem.h"
#include "sluice/base/num.h"

/* ---- shapes ---- */

static void key_bytes(struct sl_engine *e, const char *p, size_t n) {
    SL_GROW(e->key, e->cap_key, e->n_key + n + 1);
    memcpy(e->key + e->n_key, p, n);
    e->n_key += n;
    e->key[e->n_key] = 0;
}

static void key_num(struct sl_engine *e, int64_t v) {
    char t[20];
    size_t n = 0;
    uint64_t u = v < 0 ? ~(uint64_t)v : (uint64_t)v;
    t[n++] = v < 0 ? '-' : ',';
    do {
        t[n++] = (char)('0' + (u & 63)); /* not digits for people: any character above '/' will do */
        u >>= 6;
    } while (u);
    key_bytes(e, t, n);
}

static void key_text(struct sl_engine *e, const char *s) {
    s = text_of(s);
    size_t n = strlen(s);
    key_num(e, (int64_t)n);
    key_bytes(e, s, n);
}

static void key_requirements(struct sl_engine *e, const struct sl_requirement *r, size_t n) {
    key_num(e, (int64_t)n);
    for (size_t i = 0; i < n; i++) {
        key_text(e, r[i].key);
        key_num(e, r[i].op);
        key_num(e, (int64_t)r[i].n);
        for (size_t v = 0; v < r[i].n; v++)
            key_text(e, r[i].values[v]);
    }
}

static int32_t effective_count(const struct sl_workload *w, size_t i) {
    int32_t rec = w->reclaimable[i];
    int32_t left = w->podsets[i].count - (rec > 0 ? rec : 0);
    return left > 0 ? left : 0;
}

static void key_podset(struct sl_engine *e, const struct sl_workload *w, size_t i) {
    const struct sl_podset *p = &w->podsets[i];
    key_text(e, p->name);
    key_num(e, (int64_t)p->shape);
    key_num(e, p->count);
    key_num(e, effective_count(w, i));
    key_num(e, p->min_count);
    key_num(e, (int64_t)p->per_pod.n);
    for (size_t r = 0; r < p->per_pod.n; r++) {
        key_text(e, p->per_pod.items[r].resource);
        key_num(e, p->per_pod.items[r].amount);
    }
    key_num(e, (int64_t)p->node_selector.n);
    for (size_t k = 0; k < p->node_selector.n; k++) {
        key_text(e, p->node_selector.items[k].key);
        key_text(e, p->node_selector.items[k].value);
    }
    key_num(e, (int64_t)p->n_affinity);
    for (size_t t = 0; t < p->n_affinity; t++)
        key_requirements(e, p->affinity[t].items, p->affinity[t].n);
    key_num(e, (int64_t)p->n_tolerations);
    for (size_t t = 0; t < p->n_tolerations; t++) {
        key_text(e, p->tolerations[t].key);
        key_text(e, p->tolerations[t].op);
        key_text(e, p->tolerations[t].value);
        key_text(e, p->tolerations[t].effect);
    }
    key_num(e, p->affinity_invalid);
}

static int by_rank(const void *a, const void *b) {
    const struct shape_req *x = a, *y = b;
    return res_order(x->res, y->res);
}

static void fill_podset(struct sl_engine *e, struct shape_ps *ps, const struct sl_workload *w, size_t i) {
    const struct sl_podset *p = &w->podsets[i];
    ps->count = effective_count(w, i);
    ps->spec_count = p->count;
    ps->min_count = p->min_count;
    ps->simple = !p->node_selector.n && !p->n_affinity && !p->affinity_invalid;
    ps->n_reqs = p->per_pod.n;
    ps->reqs = sl_xalloc((ps->n_reqs + 1) * sizeof *ps->reqs);
    for (size_t r = 0; r < ps->n_reqs; r++) {
        ps->reqs[r].res = res_ref(e, p->per_pod.items[r].resource);
        ps->reqs[r].per_pod = max0(p->per_pod.items[r].amount);
        ps->reqs[r].total = sl_sat_mul(ps->reqs[r].per_pod, ps->count);
    }
    qsort(ps->reqs, ps->n_reqs, sizeof *ps->reqs, by_rank);
}

/* Referenced. before: the shape that w had until now, NULL if none; most often it still has. */
struct shape *shape_of(struct sl_engine *e, const struct sl_workload *w, struct shape *before) {
    bool known = true;
    e->n_key = 0;
    key_num(e, w->priority);
    for (size_t i = 0; i < w->n_podsets; i++) {
        key_podset(e, w, i);
        known &= w->podsets[i].shape != 0;
    }
    if (!known)
        key_text(e, w->uid);
    struct shape *s = before && !strcmp(before->key, e->key) ? before : sl_map_get(&e->shapes, e->key);
    if (s) {
        s->refs++;
        return s;
    }
    s = sl_xalloc(sizeof *s);
    s->key = sl_xstrdup(e->key);
    s->id = ++e->next_shape;
    s->refs = 1;
    s->known = known;
    s->priority = w->priority;
    s->n_ps = w->n_podsets;
    s->ps = sl_xalloc((s->n_ps + 1) * sizeof *s->ps);
    for (size_t i = 0; i < s->n_ps; i++) {
        fill_podset(e, &s->ps[i], w, i);
        s->partial |= s->ps[i].min_count >= 0 && s->ps[i].min_count < s->ps[i].spec_count;
    }
    sl_map_set(&e->shapes, s->key, s);
    return s;
}

void shape_unref(struct sl_engine *e, struct shape *s) {
    if (--s->refs)
        return;
    sl_map_del(&e->shapes, s->key);
    for (size_t i = 0; i < s->n_ps; i++) {
        for (size_t r = 0; r < s->ps[i].n_reqs; r++)
            res_unref(e, s->ps[i].reqs[r].res);
        free(s->ps[i].reqs);
    }
    free(s->ps);
    sl_json_unref(s->requests);
    free(s->key);
    free(s);
}

static bool is(const struct sl_condition_view *c, const char *reason) {
    return c->status == SL_TRI_TRUE && same_text(c->reason, reason);
}

int64_t wl_queue_time(const struct sl_engine *e, const struct sl_workload *w) {
    if (!e->config.pods_ready_timestamp_creation && is(&w->evicted, "PodsReadyTimeout"))
        return w->evicted.since_ms;
    if (is(&w->evicted, "AdmissionCheck"))
        return w->evicted.since_ms;
    return w->created_ms;
}

/* ---- books ---- */

static void lq_count(struct lq *l, struct cell *c, int64_t reserved, int64_t used, int n) {
    size_t i = 0;
    while (i < l->n_uses && l->uses[i].cell != c)
        i++;
    if (i == l->n_uses) {
        SL_GROW(l->uses, l->cap_uses, l->n_uses);
        l->uses[l->n_uses++] = (struct lq_use){.cell = c};
        c->refs++;
    }
    struct lq_use *u = &l->uses[i];
    u->reserved = amt_add(u->reserved, reserved);
    u->used = amt_add(u->used, used);
    u->n += (uint32_t)n;
    if (u->n == 0) {
        c->refs--;
        l->uses[i] = l->uses[--l->n_uses];
    }
}

static void use_add(struct sl_engine *e, struct wl *w, struct cq *q, const char *flavor, const char *resource,
                    int64_t amount) {
    struct cell *c = NULL;
    for (size_t i = 0; i < q->node.n_cells && !c; i++)
        if (!strcmp(q->node.cells[i]->res->name, resource) && !strcmp(q->node.cells[i]->flavor->name, flavor))
            c = q->node.cells[i];
    if (!c) { /* quota that the queue does not list any more still counts */
        struct flv *f = flv_ref(e, flavor);
        struct res *r = res_ref(e, resource);
        c = node_cell_make(e, &q->node, f, r);
        for (struct node *n = &q->node; n->parent && n->tree; n = n->parent) {
            struct cell *below = node_cell(n, c->key);
            bool had = node_cell(n->parent, c->key) != NULL;
            below->up = node_cell_make(e, n->parent, f, r);
            if (had)
                break;
        }
        node_stale(e, &q->node); /* ceilings of the new cells */
        flv_unref(e, f);
        res_unref(e, r);
    }
    for (size_t i = 0; i < w->n_use; i++)
        if (w->use[i].cell == c) {
            w->use[i].amount = amt_add(w->use[i].amount, amount);
            return;
        }
    c->refs++;
    w->use = sl_xrealloc(w->use, (size_t)w->n_use + 1, sizeof *w->use);
    w->use[w->n_use++] = (struct use){c, amount};
}

static size_t podset_index(const struct sl_workload *w, const char *name, size_t guess) {
    if (guess < w->n_podsets && !strcmp(w->podsets[guess].name, name))
        return guess;
    for (size_t i = 0; i < w->n_podsets; i++)
        if (!strcmp(w->podsets[i].name, name))
            return i;
    return SIZE_MAX;
}

/* What an assigned flavor counts for: pods that are done give their share back. */
static int64_t counted_amount(const struct sl_workload *o, const struct sl_admission *a, size_t p, size_t f) {
    const struct sl_podset_assignment *pa = &a->podsets[p];
    size_t i = podset_index(o, pa->name, p);
    int64_t total = pa->flavors[f].amount, count = pa->count;
    if (i == SIZE_MAX)
        return total;
    int64_t left = (int64_t)o->podsets[i].count - o->reclaimable[i];
    if (left >= count)
        return total;
    return count > 0 ? sl_sat_mul(total / count, max0(left)) : 0;
}

bool wl_counts_as(const struct wl *w, const struct sl_workload *o) {
    const struct sl_admission *a = o->admission;
    if (strcmp(a->cq, w->cq->node.name) != 0)
        return false;
    size_t rows = 0, met = 0;
    for (size_t p = 0; p < a->n_podsets; p++)
        rows += a->podsets[p].n_flavors;
    for (size_t i = 0; i < w->n_use; i++) {
        int64_t sum = 0;
        for (size_t p = 0; p < a->n_podsets; p++)
            for (size_t f = 0; f < a->podsets[p].n_flavors; f++)
                if (!strcmp(a->podsets[p].flavors[f].flavor, w->use[i].cell->flavor->name) &&
                    !strcmp(a->podsets[p].flavors[f].resource, w->use[i].cell->res->name)) {
                    sum = amt_add(sum, counted_amount(o, a, p, f));
                    met++;
                }
        if (sum != w->use[i].amount)
            return false;
    }
    return rows == met;
}

static void count_holder(struct sl_engine *e, struct wl *w, int sign) {
    w->cq->n_admitted += (uint32_t)(w->admitted ? sign : 0);
    for (size_t i = 0; i < w->n_use; i++) {
        int64_t v = sign > 0 ? w->use[i].amount : -w->use[i].amount;
        if (w->admitted)
            w->use[i].cell->admitted = amt_add(w->use[i].cell->admitted, v);
        lq_count(w->lq, w->use[i].cell, v, w->admitted ? v : 0, sign);
    }
    if (!w->not_ready)
        return;
    e->n_not_ready += (uint32_t)sign;
    e->all_ready |= e->n_not_ready == 0;
}

void wl_hold(struct sl_engine *e, struct wl *w, struct cq *q, const struct sl_admission *a) {
    SL_ASSERT(w->where == WL_NOWHERE && !e->log_on);
    w->cq = q;
    for (size_t p = 0; p < a->n_podsets; p++)
        for (size_t f = 0; f < a->podsets[p].n_flavors; f++)
            use_add(e, w, q, a->podsets[p].flavors[f].flavor, a->podsets[p].flavors[f].resource,
                    counted_amount(w->obj, a, p, f));
    for (size_t i = 0; i < w->n_use; i++)
        usage_push(e, w->use[i].cell, w->use[i].amount);
    SL_GROW(q->holders, q->cap_holders, q->n_holders);
    q->holders[q->n_holders] = (struct holder){w, w->shape->priority};
    w->pos = q->n_holders++;
    w->where = WL_HOLDING;
    if (q->sticky == w)
        q->sticky = NULL;
    w->seq = ++e->seq;
    w->not_ready = w->obj->pods_ready.status != SL_TRI_TRUE;
    count_holder(e, w, 1);
    if (q->node.tree)
        q->node.tree->usage_ver++;
}

static bool saturated(const struct cell *c) {
    while (c && c->U != SL_UNLIMITED)
        c = c->up;
    return c != NULL;
}

/* A counter at its limit does not say what is left when something goes: the queue's is summed up anew from those who
 * hold its quota, those of the Cohorts with the next look at the tree. */
static void recount(struct sl_engine *e, struct cq *q, struct lq *l, struct cell *c) {
    struct lq_use *u = NULL;
    for (size_t i = 0; i < l->n_uses && !u; i++)
        u = l->uses[i].cell == c ? &l->uses[i] : NULL;
    c->U = c->admitted = 0;
    if (u)
        u->reserved = u->used = 0;
    for (uint32_t h = 0; h < q->n_holders; h++) {
        const struct wl *x = q->holders[h].wl;
        for (size_t k = 0; k < x->n_use; k++) {
            int64_t v = x->use[k].cell == c ? x->use[k].amount : 0, admitted = x->admitted ? v : 0;
            c->U = amt_add(c->U, v);
            c->admitted = amt_add(c->admitted, admitted);
            if (u && x->lq == l) {
                u->reserved = amt_add(u->reserved, v);
                u->used = amt_add(u->used, admitted);
            }
        }
    }
    node_stale(e, &q->node);
}

void wl_release(struct sl_engine *e, struct wl *w) {
    SL_ASSERT(w->where == WL_HOLDING && !e->log_on);
    struct cq *q = w->cq;
    count_holder(e, w, -1);
    struct holder last = q->holders[--q->n_holders];
    q->holders[w->pos] = last;
    last.wl->pos = w->pos;
    for (size_t i = 0; i < w->n_use; i++) {
        struct cell *c = w->use[i].cell;
        if (saturated(c))
            recount(e, q, w->lq, c);
        else
            usage_pull(e, c, w->use[i].amount);
        c->refs--;
    }
    free(w->use);
    w->use = NULL;
    w->n_use = 0;
    w->where = WL_NOWHERE;
    w->observed = w->evict_sent = w->admitted = w->not_ready = false;
    q->gen++;
    if (q->node.tree)
        q->node.tree->usage_ver++;
}

void wl_set_admitted(struct sl_engine *e, struct wl *w, bool admitted) {
    bool not_ready = w->obj->pods_ready.status != SL_TRI_TRUE;
    if (w->admitted == admitted && w->not_ready == not_ready)
        return;
    count_holder(e, w, -1);
    w->admitted = admitted;
    w->not_ready = not_ready;
    count_holder(e, w, 1);
    for (size_t i = 0; i < w->n_use; i++)
        if (saturated(w->use[i].cell))
            recount(e, w->cq, w->lq, w->use[i].cell);
}

static bool check_applies(const struct sl_check_rule *rule, const struct sl_admission *a) {
    if (!rule->n_flavors)
        return true;
    for (size_t p = 0; p < a->n_podsets; p++)
        for (size_t f = 0; f < a->podsets[p].n_flavors; f++)
            for (size_t i = 0; i < rule->n_flavors; i++)
                if (!strcmp(rule->flavors[i], a->podsets[p].flavors[f].flavor))
                    return true;
    return false;
}

/* Second phase of admission: every check that the assigned flavors call for is Ready. */
bool wl_checks_ready(const struct wl *w, const struct cq *q, const struct sl_admission *a) {
    for (size_t i = 0; i < q->obj->n_checks; i++) {
        if (!check_applies(&q->obj->checks[i], a))
            continue;
        bool ready = false;
        for (size_t k = 0; k < w->obj->n_checks; k++)
            if (!strcmp(w->obj->checks[k].name, q->obj->checks[i].name))
                ready = w->obj->checks[k].state == SL_CHECK_READY;
        if (!ready)
            return false;
    }
    return true;
}

/* ---- who is to be told ---- */

void wl_tell_off(struct sl_engine *e, struct wl *w) {
    if (!w->tell)
        return;
    struct wl **first = w->tell == 1 ? &e->tell_first : &e->retell_first;
    struct wl **last = w->tell == 1 ? &e->tell_last : &e->retell_last;
    *(w->tell_prev ? &w->tell_prev->tell_next : first) = w->tell_next;
    *(w->tell_next ? &w->tell_next->tell_prev : last) = w->tell_prev;
    w->tell = 0;
}

static void tell_on(struct sl_engine *e, struct wl *w, uint8_t tell) {
    wl_tell_off(e, w);
    struct wl **first = tell == 1 ? &e->tell_first : &e->retell_first;
    struct wl **last = tell == 1 ? &e->tell_last : &e->retell_last;
    w->tell = tell;
    w->tell_prev = *last;
    w->tell_next = NULL;
    *(*last ? &(*last)->tell_next : first) = w;
    *last = w;
}

void wl_tell(struct sl_engine *e, struct wl *w) {
    if (w->tell != 1)
        tell_on(e, w, 1);
}

void wl_retell(struct sl_engine *e, struct wl *w) {
    if (!w->tell)
        tell_on(e, w, 2);
}
