/* Why a workload waits: as a condition's text, as JSON for people, and what the smallest change would be. */
#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/api/quantity.h"
#include "sluice/base/mem.h"

#define MESSAGE_MAX 8192 /* the API cuts at 32 KiB; nobody reads that much */

/* ---- who holds a flavor and resource: the three largest of those whose end would help ---- */

static void add_holder(struct tops *t, const struct wl *w, int64_t v) {
    t->n++;
    size_t at = t->n_top < SL_COUNT(t->top) ? t->n_top++ : SL_COUNT(t->top);
    while (at > 0 && (t->top[at - 1].amount < v ||
                      (t->top[at - 1].amount == v && strcmp(t->top[at - 1].wl->obj->uid, w->obj->uid) > 0))) {
        if (at < SL_COUNT(t->top))
            t->top[at] = t->top[at - 1];
        at--;
    }
    if (at < SL_COUNT(t->top)) {
        t->top[at].wl = w;
        t->top[at].amount = v;
    }
}

static void add_holders(struct tops *t, const struct cq *q, const struct cell *c) {
    for (uint32_t h = 0; h < q->n_holders; h++) {
        const struct wl *w = q->holders[h].wl;
        for (size_t k = 0; k < w->n_use; k++)
            if (w->use[k].cell == c && w->use[k].amount > 0)
                add_holder(t, w, w->use[k].amount);
    }
}

/* What is given back at c comes as far as scope: a node that uses no more than it keeps for itself passes nothing on.
 */
static bool passes_on(const struct cell *c, const struct cell *scope) {
    for (; c && c != scope; c = c->up)
        if (c->U <= c->L)
            return false;
    return c != NULL;
}

static struct tops *tops_below(struct sl_engine *e, struct cell *scope) {
    if (scope->tops && scope->tops_run == e->run)
        return scope->tops;
    struct tops *t = arena_alloc(e->arena, sizeof *t);
    const struct tree *tree = scope->node->tree;
    for (size_t i = 0; i < tree->n_cqs; i++) {
        const struct cell *c = node_cell(&tree->cqs[i]->node, scope->key);
        if (c && passes_on(c, scope))
            add_holders(t, tree->cqs[i], c);
    }
    scope->tops = t;
    scope->tops_run = e->run;
    return t;
}

/* Everybody below the limit that decides, or below the root when none does. */
static struct tops tops_of(struct sl_engine *e, struct cell *c) {
    struct cell *scope = binding_limit(c, true);
    for (struct cell *x = c; !scope; x = x->up)
        scope = x->up ? NULL : x;
    struct tops t = scope == c ? (struct tops){.n = 0} : *tops_below(e, scope);
    if (passes_on(c, scope) && scope != c)
        return t; /* its own queue's are among them */
    add_holders(&t, cq_of(c->node), c);
    return t;
}

static const char *amount_text(const struct res *r, int64_t v, char *text) {
    return sl_amount_format_people(r->name, v, text);
}

/* ---- text of one evaluation ---- */

struct in_the_way { /* a limit that somebody has set */
    const char *name;
    struct cell *cell; /* NULL: none */
    int64_t limit, kept;
};

static struct in_the_way limit_of(const struct row *r) {
    struct in_the_way w = {.name = "borrowingLimit", .cell = binding_limit(r->cell, true)};
    if (r->verdict == ROW_OVER_CEILING) { /* the lowest that cuts off more than is above it */
        w.cell = NULL;
        for (struct cell *c = r->cell; c->up && !w.cell; c = c->up)
            if (c->has_bl && amt_add(c->S, c->bl) < amt_add(c->L, c->up->ceil))
                w.cell = c;
    }
    if (w.cell) {
        w.limit = w.cell->bl;
        return w;
    }
    w.name = "lendingLimit";
    w.cell = keeping_limit(r->cell, r->verdict == ROW_SHORT, &w.kept);
    w.limit = w.cell ? w.cell->ll : 0;
    return w;
}

static void say_limit(const struct row *r, struct sl_buf *b) {
    char t1[SL_QUANTITY_TEXT], t2[SL_QUANTITY_TEXT];
    struct in_the_way w = limit_of(r);
    if (!w.cell)
        return;
    const char *kind = w.cell->node->is_cq ? "ClusterQueue" : "Cohort";
    if (!strcmp(w.name, "borrowingLimit"))
        sl_buf_printf(b, ", borrowingLimit %s of %s %s", amount_text(r->res, w.limit, t1), kind, w.cell->node->name);
    else
        sl_buf_printf(b, ", %s kept by lendingLimit %s of %s %s", amount_text(r->res, w.kept, t1),
                      amount_text(r->res, w.limit, t2), kind, w.cell->node->name);
}

static void say_row(struct sl_engine *e, const struct row *r, struct sl_buf *b) {
    char t1[SL_QUANTITY_TEXT], t2[SL_QUANTITY_TEXT], t3[SL_QUANTITY_TEXT], t4[SL_QUANTITY_TEXT];
    switch ((enum row_verdict)r->verdict) {
    case ROW_TAINT:
        sl_buf_printf(b, "flavor %s: taint %s%s%s:%s is not tolerated", r->flavor, r->taint->key,
                      *r->taint->value ? "=" : "", r->taint->value, r->taint->effect);
        return;
    case ROW_AFFINITY:
        if (r->label)
            sl_buf_printf(b, "flavor %s: its node labels do not match the node selector: %s is %s there, %s here",
                          r->flavor, r->label->key, r->label->value, r->against);
        else
            sl_buf_printf(b, "flavor %s: its node labels do not match the node affinity", r->flavor);
        return;
    case ROW_CONFLICT:
        sl_buf_printf(b, "flavor %s: its node label %s=%s does not go with ", r->flavor, r->label->key,
                      r->label->value);
        if (r->chosen)
            sl_buf_printf(b, "%s=%s of flavor %s", r->label->key, r->against, r->other);
        else
            sl_buf_printf(b, "any flavor for %s: %s=%s", r->other, r->label->key, r->against);
        return;
    case ROW_BAD_AFFINITY: sl_buf_printf(b, "flavor %s: the node affinity cannot be read", r->flavor); return;
    case ROW_UNDECLARED:
        sl_buf_printf(b, "%s: asks %s, but no resource group of the ClusterQueue covers it", r->res->name,
                      amount_text(r->res, r->asked, t1));
        return;
    case ROW_OVER_CEILING:
        sl_buf_printf(b, "flavor %s, %s: asks %s", r->flavor, r->res->name, amount_text(r->res, r->asked, t1));
        if (r->before)
            sl_buf_printf(b, " after %s for earlier pod sets", amount_text(r->res, r->before, t2));
        sl_buf_printf(b, ", more than can ever be had here: %s", amount_text(r->res, r->cell->ceil, t3));
        say_limit(r, b);
        return;
    default: break; /* ROW_SHORT: what fits is left out, and a queue with a missing flavor says so before */
    }
    int64_t free_now = cell_available(r->cell), own = max0(amt_sub(r->cell->nom, r->cell->U));
    sl_buf_printf(b, "flavor %s, %s: asks %s", r->flavor, r->res->name, amount_text(r->res, r->asked, t1));
    if (r->before)
        sl_buf_printf(b, " after %s for earlier pod sets", amount_text(r->res, r->before, t4));
    sl_buf_printf(b, ", free %s (nominal %s, borrowable %s)", amount_text(r->res, free_now, t2),
                  amount_text(r->res, r->cell->nom, t3), amount_text(r->res, max0(amt_sub(free_now, own)), t4));
    say_limit(r, b);
    const struct tops t = tops_of(e, r->cell);
    for (size_t i = 0; i < t.n_top; i++)
        sl_buf_printf(b, "%s%s/%s %s", i ? ", " : ", held by ", t.top[i].wl->obj->ns, t.top[i].wl->obj->name,
                      amount_text(r->res, t.top[i].amount, t1));
    if (t.n > t.n_top)
        sl_buf_printf(b, " and %zu more", t.n - t.n_top);
}

static void say_rows(struct sl_engine *e, const struct wl *w, const struct trace *t, struct sl_buf *b) {
    const char *sep = "";
    for (size_t p = 0; p < w->shape->n_ps; p++) {
        bool said = false;
        for (size_t i = 0; i < t->n; i++) {
            if (t->rows[i].ps != p || t->rows[i].verdict == ROW_FITS)
                continue;
            sl_buf_puts(b, sep);
            if (!said)
                sl_buf_printf(b, "pod set %s: ", w->obj->podsets[p].name);
            said = true;
            say_row(e, &t->rows[i], b);
            sep = "; ";
        }
    }
}

static void say_asked(const struct wl *w, struct sl_buf *b) {
    const char *sep = "asks ";
    char t1[SL_QUANTITY_TEXT], t2[SL_QUANTITY_TEXT];
    const struct cq *q = w->cq;
    for (size_t p = 0; p < w->shape->n_ps; p++)
        for (size_t i = 0; i < w->shape->ps[p].n_reqs; i++) {
            const struct res *r = w->shape->ps[p].reqs[i].res;
            bool seen = false;
            for (size_t x = 0; x < p; x++)
                for (size_t k = 0; k < w->shape->ps[x].n_reqs; k++)
                    seen |= w->shape->ps[x].reqs[k].res == r;
            if (seen)
                continue;
            int64_t sum = 0, nominal = 0;
            for (size_t x = p; x < w->shape->n_ps; x++)
                for (size_t k = 0; k < w->shape->ps[x].n_reqs; k++)
                    if (w->shape->ps[x].reqs[k].res == r)
                        sum = amt_add(sum, w->shape->ps[x].reqs[k].total);
            for (size_t c = 0; c < q->node.n_cells; c++)
                if (q->node.cells[c]->res == r)
                    nominal = amt_add(nominal, q->node.cells[c]->nom);
            sl_buf_printf(b, "%s%s %s (nominal quota %s)", sep, r->name, amount_text(r, sum, t1),
                          amount_text(r, nominal, t2));
            sep = ", ";
        }
}

/* ---- what a waiting workload is told ---- */

struct saying {
    const char *reason;
    struct sl_buf text;
    struct trace trace;
    struct assignment *a;
    enum wl_why why; /* the attempt that it is about; WHY_NEW: none */
};

static void evaluate(struct sl_engine *e, struct wl *w, struct saying *s) {
    e->log_on = true;
    s->a = assign(e, w, NULL, false, &s->trace);
    undo_to(e, 0);
    e->log_on = false;
}

/* True when this workload is what its queue tries next, or the one whose verdict holds for its equals. */
static bool was_tried(const struct wl *w) {
    if (w->why == WHY_NEW)
        return false;
    if (w->where != WL_QUEUED)
        return true;
    return w->klass->parked ? w->klass->rep == w : queue_head(w->cq) == w;
}

static void say_evaluated(struct sl_engine *e, struct wl *w, struct saying *s) {
    evaluate(e, w, s);
    switch ((enum wl_why)w->why) {
    case WHY_WAITS_VICTIMS: sl_buf_puts(&s->text, "Waits for preempted workloads to release their quota; "); break;
    case WHY_OVERLAP:
        sl_buf_puts(&s->text, "The workloads it could preempt are being preempted by another workload; ");
        break;
    case WHY_RETURN:
        sl_buf_puts(&s->text, "What it may preempt would preempt it in return, so nothing is preempted; ");
        break;
    case WHY_HELD: sl_buf_puts(&s->text, "The workload that preempted it goes first; "); break;
    case WHY_LOST:
        if (s->a->mode == MODE_FIT)
            sl_buf_puts(&s->text, "The quota it needs is kept for another workload that waits for it");
        break;
    case WHY_NO_CANDIDATES: sl_buf_puts(&s->text, "No quota, and no workload that it may preempt; "); break;
    default: sl_buf_puts(&s->text, "No quota; "); break;
    }
    say_rows(e, w, &s->trace, &s->text);
}

/* Why a workload is in no queue at all, whatever the queues are like; NULL when it is in one. */
static const char *not_queued(const struct sl_workload *o, const char **ret_reason) {
    *ret_reason = "Inadmissible";
    if (wl_queueable(o))
        return NULL;
    if (o->deleting)
        return "It is being deleted";
    if (o->gated) {
        *ret_reason = "AdmissionGated";
        return "It is not queued before its admission gates are lifted";
    }
    if (o->waiting_for_replacement.status == SL_TRI_TRUE)
        return "Waits for pods that replace failed ones";
    if (o->quota_reserved.status == SL_TRI_TRUE)
        return "Its status says that quota is reserved, but not which";
    *ret_reason = "OnHold";
    return "Its job asks not to be queued for now";
}

static void say(struct sl_engine *e, struct wl *w, struct saying *s) {
    struct sl_buf *b = &s->text;
    const struct lq *l = w->lq;
    const char *apart = not_queued(w->obj, &s->reason);
    if (apart) {
        sl_buf_puts(b, apart);
        return;
    }
    if (!l->obj) {
        sl_buf_printf(b, "LocalQueue %s does not exist", l->name);
        return;
    }
    if (l->obj->deleting || l->obj->stop != SL_STOP_NONE) {
        sl_buf_printf(b, "LocalQueue %s is %s", l->name, l->obj->deleting ? "being deleted" : "stopped");
        return;
    }
    if (!w->cq) {
        sl_buf_printf(b, "ClusterQueue %s does not exist", l->obj->cq);
        return;
    }
    if (!w->cq->active) {
        sl_buf_printf(b, "ClusterQueue %s admits nothing: ", w->cq->node.name);
        (void)cq_inactive(e, w->cq, b);
        return;
    }
    s->reason = "Pending";
    if (w->where == WL_BACKOFF || (w->where == WL_SOLO && w->obj->requeued.status == SL_TRI_FALSE)) {
        sl_buf_printf(b, "Waits after its eviction (%s) before it is tried again",
                      w->obj->requeued.reason ? w->obj->requeued.reason : "backoff");
        return;
    }
    if (!was_tried(w)) {
        sl_buf_printf(b, "Waits in ClusterQueue %s behind %s; ", w->cq->node.name,
                      w->klass->parked ? "earlier workloads that ask for the same" : "workloads that come before it");
        say_asked(w, b);
        return;
    }
    s->why = (enum wl_why)w->why;
    switch (s->why) {
    case WHY_REJECTED: sl_buf_printf(b, "Not valid: %s", w->obj->rejected); return;
    case WHY_CHECK: sl_buf_puts(b, "An admission check asked for a retry or rejected it"); return;
    case WHY_NAMESPACE:
        sl_buf_printf(b, "Namespace %s does not match the namespaceSelector of ClusterQueue %s", w->obj->ns,
                      w->cq->node.name);
        return;
    case WHY_PODS_READY:
        s->reason = "Waiting";
        sl_buf_puts(b, "Waits until all admitted workloads have their pods ready");
        return;
    default: say_evaluated(e, w, s); return;
    }
}

static void saying_done(struct saying *s) {
    sl_buf_done(&s->text);
    free(s->trace.rows);
}

static uint64_t hash_text(const char *reason, const char *text) {
    uint64_t h = 0xcbf29ce484222325u;
    for (const char *p = reason; *p; p++)
        h = (h ^ (unsigned char)*p) * 0x100000001b3u;
    for (const char *p = text; *p; p++)
        h = (h ^ (unsigned char)*p) * 0x100000001b3u;
    return h | 1; /* 0: not told */
}

/* Equal workloads share the tree. */
static struct sl_json *requests_of(const struct wl *w) {
    struct shape *shape = w->shape;
    if (shape->requests)
        return sl_json_ref(shape->requests);
    struct sl_json *list = sl_json_new_array();
    char t[SL_QUANTITY_TEXT];
    for (size_t p = 0; p < shape->n_ps; p++) {
        struct sl_json *o = sl_json_new_object();
        sl_json_set_str(o, "name", w->obj->podsets[p].name);
        struct sl_json *r = sl_json_make_object(o, "resources");
        for (size_t i = 0; i < shape->ps[p].n_reqs; i++)
            sl_json_set_str(r, shape->ps[p].reqs[i].res->name,
                            sl_amount_format(shape->ps[p].reqs[i].res->name, shape->ps[p].reqs[i].total, t));
        sl_json_append(list, o);
    }
    shape->requests = list;
    return sl_json_ref(list);
}

static void tell(struct sl_engine *e, struct wl *w, enum wl_why why, const char *reason, const char *text,
                 uint64_t hash) {
    w->told_why = (uint8_t)why;
    w->told_ms = e->now_ms;
    w->told_ver = w->cq && w->cq->node.tree ? w->cq->node.tree->usage_ver : 0;
    if (hash == w->told)
        return;
    w->told = hash;
    struct sl_decision *d = decide(e, SL_DECIDE_PENDING, w);
    d->cq = w->cq ? w->cq->node.name : NULL;
    d->reason = reason;
    d->message = sl_xstrdup(text);
    d->requests = requests_of(w);
}

/* Members of a class that wait behind another one all hear the same. */
static bool tell_follower(struct sl_engine *e, struct wl *w) {
    struct klass *k = w->klass;
    if (w->where != WL_QUEUED || was_tried(w) || !w->cq->active)
        return false;
    if (k->text_run != e->run) {
        struct saying s = {.text = SL_BUF_INIT(MESSAGE_MAX)};
        say(e, w, &s);
        free(k->text);
        k->text = sl_xstrdup(sl_buf_text(&s.text));
        k->text_hash = hash_text(s.reason, k->text);
        k->text_run = e->run;
        saying_done(&s);
    }
    tell(e, w, WHY_NEW, "Pending", k->text, k->text_hash);
    return true;
}

void tell_all(struct sl_engine *e) {
    e->run++;
    while (e->tell_first) {
        struct wl *w = e->tell_first;
        wl_tell_off(e, w);
        if (tell_follower(e, w))
            continue;
        struct saying s = {.text = SL_BUF_INIT(MESSAGE_MAX)};
        say(e, w, &s);
        s.text.failed = false; /* too long: what fits is still true */
        tell(e, w, s.why, s.reason, sl_buf_text(&s.text), hash_text(s.reason, sl_buf_text(&s.text)));
        saying_done(&s);
    }
}

/* ---- evictions ---- */

static const char *const target_names[] = {"InClusterQueue", "InCohortReclamation", "InCohortReclaimWhileBorrowing",
                                           "InCohortFairSharing"};
static const char *const target_causes[] = {"prioritization in the ClusterQueue", "reclamation within the cohort",
                                            "reclamation within the cohort while borrowing",
                                            "Fair Sharing within the cohort"};

static const char *keep_text(struct sl_engine *e, const char *s) {
    size_t n = strlen(s) + 1;
    char *p = arena_alloc(e->out->text, n);
    memcpy(p, s, n);
    return p;
}

static void say_path(const struct node *n, struct sl_buf *b) {
    const struct node *up[64];
    size_t k = 0;
    for (; n && k < SL_COUNT(up); n = n->parent)
        up[k++] = n;
    while (k)
        sl_buf_printf(b, "/%s", up[--k]->name);
}

void decide_evict(struct sl_engine *e, struct wl *by, struct wl *victim, uint8_t reason) {
    SL_AUTO_BUF b = SL_BUF_INIT(MESSAGE_MAX);
    sl_buf_printf(
        &b, "Preempted to accommodate workload %s/%s (UID: %s, JobUID: %s) due to %s; preemptor path: ", by->obj->ns,
        by->obj->name, by->obj->uid, by->obj->job_uid ? by->obj->job_uid : "UNKNOWN", target_causes[reason]);
    say_path(&by->cq->node, &b);
    sl_buf_puts(&b, "; preemptee path: ");
    say_path(&victim->cq->node, &b);
    struct sl_decision *d = decide(e, SL_DECIDE_EVICT, victim);
    d->cq = victim->cq->node.name;
    d->reason = target_names[reason];
    d->message = sl_xstrdup(sl_buf_text(&b));
    d->preemptor_uid = keep_text(e, by->obj->uid);
    d->preemptor_ns = keep_text(e, by->obj->ns);
    d->preemptor_name = keep_text(e, by->obj->name);
    d->preemptor_cq = keep_text(e, by->cq->node.name);
}

/* ---- explain ---- */

static const char *const verdict_names[] = {
    "fits",       "flavor missing", "taint not tolerated",     "affinity does not match",      "above the maximum",
    "not enough", "not covered",    "affinity cannot be read", "conflicts with another flavor"};

static void set_amount(struct sl_json *o, const char *key, const struct res *r, int64_t v) {
    char t[SL_QUANTITY_TEXT];
    sl_json_set_str(o, key, amount_text(r, v, t));
}

static struct sl_json *row_json(struct sl_engine *e, const struct row *r) {
    struct sl_json *o = sl_json_new_object();
    sl_json_set_str(o, "flavor", r->flavor);
    if (r->res) {
        sl_json_set_str(o, "resource", r->res->name);
        set_amount(o, "asked", r->res, r->asked);
    }
    if (r->cell) {
        const struct cell *c = r->cell, *root = c;
        while (root->up)
            root = root->up;
        int64_t free_now = cell_available(c);
        set_amount(o, "nominal", r->res, c->nom);
        set_amount(o, "usedHere", r->res, c->U);
        set_amount(o, "usedInCohort", r->res, root->U);
        set_amount(o, "borrowable", r->res, max0(amt_sub(free_now, max0(amt_sub(c->nom, c->U)))));
        set_amount(o, "free", r->res, free_now);
        set_amount(o, "maximum", r->res, c->ceil);
    }
    sl_json_set_str(o, "verdict", verdict_names[r->verdict]);
    if (r->cell && r->verdict != ROW_FITS) {
        struct in_the_way limit = limit_of(r);
        if (limit.cell) {
            struct sl_json *l = sl_json_make_object(o, "limit");
            sl_json_set_str(l, "name", limit.name);
            sl_json_set_str(l, "kind", limit.cell->node->is_cq ? "ClusterQueue" : "Cohort");
            sl_json_set_str(l, "of", limit.cell->node->name);
            set_amount(l, "amount", r->res, limit.limit);
        }
    }
    if (r->cell && r->verdict == ROW_SHORT) {
        const struct tops t = tops_of(e, r->cell);
        struct sl_json *list = sl_json_make_array(o, "holders");
        for (size_t i = 0; i < t.n_top; i++) {
            struct sl_json *h = sl_json_new_object();
            sl_json_set(h, "workload", sl_json_new_strf("%s/%s", t.top[i].wl->obj->ns, t.top[i].wl->obj->name));
            sl_json_set_str(h, "clusterQueue", t.top[i].wl->cq->node.name);
            set_amount(h, "amount", r->res, t.top[i].amount);
            sl_json_append(list, h);
        }
        if (t.n > t.n_top)
            sl_json_set_int(o, "moreHolders", (int64_t)(t.n - t.n_top));
    }
    return o;
}

struct sl_json *sl_engine_explain(const struct sl_engine *ce, const char *uid) {
    /* evaluating works on the tree itself and leaves it as it was */
    struct wl *w = sl_map_get(&ce->workloads, uid);
    if (!w)
        return NULL;
    struct sl_engine *e = ce->self;
    trees_refresh(e);
    e->run++;
    struct sl_json *o = sl_json_new_object();
    sl_json_set(o, "workload", sl_json_new_strf("%s/%s", w->obj->ns, w->obj->name));
    sl_json_set_str(o, "clusterQueue", w->cq ? w->cq->node.name : NULL);
    if (w->where == WL_HOLDING) {
        sl_json_set_str(o, "state", w->admitted ? "Admitted" : "QuotaReserved");
        struct sl_json *holds = sl_json_make_array(o, "holds");
        char t[SL_QUANTITY_TEXT];
        for (size_t i = 0; i < w->n_use; i++) {
            struct sl_json *held = sl_json_new_object();
            sl_json_set_str(held, "flavor", w->use[i].cell->flavor->name);
            sl_json_set_str(held, "resource", w->use[i].cell->res->name);
            sl_json_set_str(held, "amount", amount_text(w->use[i].cell->res, w->use[i].amount, t));
            sl_json_append(holds, held);
        }
        return o;
    }
    if (w->obj->finished.status == SL_TRI_TRUE || !w->obj->active) {
        sl_json_set_str(o, "state", w->obj->active ? "Finished" : "Inactive");
        return o;
    }
    sl_json_set_str(o, "state", "Pending");
    struct saying s = {.text = SL_BUF_INIT(MESSAGE_MAX)};
    say(e, w, &s);
    sl_json_set_str(o, "reason", s.reason);
    sl_json_set_str(o, "message", sl_buf_text(&s.text));
    if (w->cq && w->cq->node.tree) { /* in a circle of Cohorts there is nothing to reckon with */
        if (!s.a)
            evaluate(e, w, &s);
        struct sl_json *list = sl_json_make_array(o, "podSets");
        for (size_t p = 0; p < w->shape->n_ps; p++) {
            struct sl_json *ps = sl_json_new_object();
            sl_json_set_str(ps, "name", w->obj->podsets[p].name);
            struct sl_json *flavors = sl_json_make_array(ps, "flavors");
            for (size_t i = 0; i < s.trace.n; i++)
                if (s.trace.rows[i].ps == p)
                    sl_json_append(flavors, row_json(e, &s.trace.rows[i]));
            sl_json_append(list, ps);
        }
        changes(e, w, &s.trace, o);
    }
    saying_done(&s);
    arena_reset(e->arena);
    return o;
}
