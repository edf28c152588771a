/* Objects of the API into the model: who exists, what is active, what brings waiting workloads back. */
#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/api/decode.h"
#include "sluice/base/mem.h"

void raise_flush(struct sl_engine *e, struct node *n) {
    if (n->tree) {
        n->tree->flush = true;
        tree_dirty(e, n->tree);
    }
    if (n->stale)
        n->want_flush = true;
}

/* Something from outside changed in this tree: evictions of the past do not bind any more. */
void new_epoch(struct node *n) {
    if (!n->tree)
        return;
    n->tree->epoch++;
    n->tree->n_fights = 0;
}

/* ---- ClusterQueues ---- */

struct cq *cq_get(struct sl_engine *e, const char *name) {
    struct cq *q = sl_map_get(&e->cqs, name);
    if (!q) {
        q = sl_xalloc(sizeof *q);
        node_init(&q->node, name, true);
        sl_map_set(&e->cqs, name, q);
        node_stale(e, &q->node);
    }
    return q;
}

static void groups_free(struct sl_engine *e, struct cq *q) {
    for (size_t g = 0; g < q->n_groups; g++) {
        for (size_t f = 0; f < q->groups[g].n_flavors; f++) {
            flv_unref(e, q->groups[g].flavors[f].flavor);
            free(q->groups[g].flavors[f].cells);
        }
        for (size_t r = 0; r < q->groups[g].n_res; r++)
            res_unref(e, q->groups[g].res[r]);
        free(q->groups[g].flavors);
        free(q->groups[g].res);
    }
    free(q->groups);
    q->groups = NULL;
    q->n_groups = 0;
    q->covers_pods = false;
}

static void groups_make(struct sl_engine *e, struct cq *q) {
    const struct sl_clusterqueue *o = q->obj;
    q->n_groups = o->n_groups;
    q->groups = sl_xalloc((q->n_groups + 1) * sizeof *q->groups);
    for (size_t g = 0; g < q->n_groups; g++) {
        const struct sl_resource_group *og = &o->groups[g];
        struct cqgroup *cg = &q->groups[g];
        cg->n_res = og->n_covered;
        cg->res = sl_xalloc((cg->n_res + 1) * sizeof(struct res *));
        for (size_t r = 0; r < cg->n_res; r++) {
            cg->res[r] = res_ref(e, og->covered[r]);
            q->covers_pods |= !strcmp(og->covered[r], "pods");
        }
        cg->n_flavors = og->n_flavors;
        cg->flavors = sl_xalloc((cg->n_flavors + 1) * sizeof *cg->flavors);
        for (size_t f = 0; f < cg->n_flavors; f++) {
            struct cqflavor *cf = &cg->flavors[f];
            cf->flavor = flv_ref(e, og->flavors[f].flavor);
            cf->cells = sl_xalloc((cg->n_res + 1) * sizeof(struct cell *));
            for (size_t r = 0; r < cg->n_res; r++) {
                cf->cells[r] = node_cell_make(e, &q->node, cf->flavor, cg->res[r]);
                cf->cells[r]->own = true;
            }
        }
    }
}

static const char *first_of(const char *have, const char *reason) {
    return have ? have : reason;
}

const char *cq_inactive(const struct sl_engine *e, const struct cq *q, struct sl_buf *m) {
    const struct sl_clusterqueue *o = q->obj;
    if (!o)
        return "NotFound"; /* nobody waits in it, so nobody asks for words */
    const char *reason = NULL, *sep = "";
#define CAUSE(r, ...)                                                                                                  \
    do {                                                                                                               \
        reason = first_of(reason, r);                                                                                  \
        if (m) {                                                                                                       \
            sl_buf_puts(m, sep);                                                                                       \
            sl_buf_printf(m, __VA_ARGS__);                                                                             \
        }                                                                                                              \
        sep = ", ";                                                                                                    \
    } while (0)
    if (o->deleting)
        CAUSE("Terminating", "it is being deleted");
    if (o->stop != SL_STOP_NONE)
        CAUSE("Stopped", "it is stopped (stopPolicy %s)", o->stop == SL_STOP_HOLD ? "Hold" : "HoldAndDrain");
    for (size_t g = 0; g < q->n_groups; g++)
        for (size_t f = 0; f < q->groups[g].n_flavors; f++)
            if (!q->groups[g].flavors[f].flavor->obj)
                CAUSE("FlavorNotFound", "ResourceFlavor %s does not exist", q->groups[g].flavors[f].flavor->name);
    for (size_t i = 0; i < o->n_checks; i++)
        if (!sl_map_has(&e->checks, o->checks[i].name))
            CAUSE("AdmissionCheckNotFound", "AdmissionCheck %s does not exist", o->checks[i].name);
    for (size_t i = 0; i < o->n_checks; i++) {
        const struct sl_admissioncheck *c = sl_map_get(&e->checks, o->checks[i].name);
        if (c && !c->active)
            CAUSE("AdmissionCheckInactive", "AdmissionCheck %s is not active", o->checks[i].name);
    }
    if (q->node.in_cycle)
        CAUSE("CohortCycle", "the Cohorts above it form a cycle");
#undef CAUSE
    return reason;
}

void cq_refresh_active(struct sl_engine *e, struct cq *q) {
    bool was = q->active;
    q->active = cq_inactive(e, q, NULL) == NULL;
    cq_ready_sync(q);
    if (was != q->active)
        queue_tell_all(e, q);
}

static void free_table(struct sl_engine *e, struct cq *q) {
    queue_class_sweep(e, q);
    free(q->table);
    free(q->heap);
    free(q->solo);
    free(q->misplaced);
    free(q->holders);
}

void cq_sweep(struct sl_engine *e, struct cq *q) {
    if (q->obj || q->refs)
        return;
    q->active = false;
    cq_ready_sync(q);
    sl_map_del(&e->cqs, q->node.name);
    groups_free(e, q);
    free_table(e, q);
    node_done(e, &q->node);
    free(q);
}

void cq_unref(struct sl_engine *e, struct cq *q) {
    if (!q)
        return;
    q->refs--;
    cq_sweep(e, q);
}

/* ---- public: queues ---- */

static bool same_groups(const struct sl_resource_group *a, size_t n_a, const struct sl_resource_group *b, size_t n_b) {
    if (n_a != n_b)
        return false;
    for (size_t g = 0; g < n_a; g++) {
        if (a[g].n_covered != b[g].n_covered || a[g].n_flavors != b[g].n_flavors)
            return false;
        for (size_t r = 0; r < a[g].n_covered; r++)
            if (strcmp(a[g].covered[r], b[g].covered[r]) != 0)
                return false;
        for (size_t f = 0; f < a[g].n_flavors; f++) {
            const struct sl_flavor_quotas *x = &a[g].flavors[f], *y = &b[g].flavors[f];
            if (strcmp(x->flavor, y->flavor) != 0 || x->n != y->n)
                return false;
            for (size_t i = 0; i < x->n; i++) {
                const struct sl_quota *p = &x->quotas[i], *q = &y->quotas[i];
                if (strcmp(p->resource, q->resource) != 0 || p->nominal != q->nominal ||
                    p->has_borrowing_limit != q->has_borrowing_limit || p->has_lending_limit != q->has_lending_limit ||
                    (p->has_borrowing_limit && p->borrowing_limit != q->borrowing_limit) ||
                    (p->has_lending_limit && p->lending_limit != q->lending_limit))
                    return false;
            }
        }
    }
    return true;
}

static bool same_selector(const struct sl_selector *a, const struct sl_selector *b) {
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        if (strcmp(a->items[i].key, b->items[i].key) != 0 || a->items[i].op != b->items[i].op ||
            a->items[i].n != b->items[i].n)
            return false;
        for (size_t v = 0; v < a->items[i].n; v++)
            if (strcmp(a->items[i].values[v], b->items[i].values[v]) != 0)
                return false;
    }
    return true;
}

static bool same_checks(const struct sl_clusterqueue *a, const struct sl_clusterqueue *b) {
    if (a->n_checks != b->n_checks)
        return false;
    for (size_t i = 0; i < a->n_checks; i++) {
        if (strcmp(a->checks[i].name, b->checks[i].name) != 0 || a->checks[i].n_flavors != b->checks[i].n_flavors)
            return false;
        for (size_t f = 0; f < a->checks[i].n_flavors; f++)
            if (strcmp(a->checks[i].flavors[f], b->checks[i].flavors[f]) != 0)
                return false;
    }
    return true;
}

/* Equal in everything that decisions look at (a status change is no event). */
static bool same_cq(const struct sl_clusterqueue *a, const struct sl_clusterqueue *b) {
    return a->strategy == b->strategy && a->has_namespace_selector == b->has_namespace_selector &&
           a->when_can_borrow == b->when_can_borrow && a->when_can_preempt == b->when_can_preempt &&
           a->preference == b->preference && a->reclaim_within_cohort == b->reclaim_within_cohort &&
           a->within_cluster_queue == b->within_cluster_queue && a->borrow_within_cohort == b->borrow_within_cohort &&
           a->has_max_priority_threshold == b->has_max_priority_threshold &&
           a->max_priority_threshold == b->max_priority_threshold && a->stop == b->stop && a->weight == b->weight &&
           a->deleting == b->deleting && same_text(a->cohort, b->cohort) &&
           same_selector(&a->namespace_selector, &b->namespace_selector) && same_checks(a, b);
}

void sl_engine_put_clusterqueue(struct sl_engine *e, struct sl_clusterqueue *take) {
    struct cq *q = cq_get(e, take->name);
    struct sl_clusterqueue *old = q->obj;
    bool groups = !old || !same_groups(old->groups, old->n_groups, take->groups, take->n_groups);
    bool other = !old || !same_cq(old, take);
    q->obj = take;
    if (!old && q->gen == 0)
        q->gen = 1;
    if (groups) {
        groups_free(e, q);
        node_set_quotas(e, &q->node, take->groups, take->n_groups);
        groups_make(e, q);
    }
    if (groups || other) {
        q->node.weight = take->weight;
        node_set_parent(e, &q->node, *text_of(take->cohort) ? &cohort_ref(e, take->cohort)->node : NULL);
        cq_refresh_active(e, q);
        raise_flush(e, &q->node);
        new_epoch(&q->node);
        queue_flush_misplaced(e, q);
        queue_tell_all(e, q);
    }
    sl_clusterqueue_free(old);
    if (!old && q->refs)
        SL_MAP_EACH (&e->lqs, m) {
            struct lq *l = m->value;
            if (l->cq == q)
                replace_all(e, l);
        }
}

void sl_engine_del_clusterqueue(struct sl_engine *e, const char *name) {
    struct cq *q = sl_map_get(&e->cqs, name);
    if (!q || !q->obj)
        return;
    struct sl_clusterqueue *old = q->obj;
    q->obj = NULL;
    cq_refresh_active(e, q);
    q->refs++;
    SL_MAP_EACH (&e->lqs, m) {
        struct lq *l = m->value;
        if (l->cq == q)
            replace_all(e, l);
    }
    queue_class_sweep(e, q);
    groups_free(e, q);
    node_set_quotas(e, &q->node, NULL, 0);
    node_set_parent(e, &q->node, NULL);
    new_epoch(&q->node);
    sl_clusterqueue_free(old);
    cq_unref(e, q);
}

void sl_engine_put_cohort(struct sl_engine *e, struct sl_cohort *take) {
    struct cohort *c = cohort_ref(e, take->name);
    struct sl_cohort *old = c->obj;
    bool changed = !old || old->weight != take->weight || !same_text(old->parent, take->parent) ||
                   !same_groups(old->groups, old->n_groups, take->groups, take->n_groups);
    c->obj = take;
    sl_cohort_free(old);
    if (!changed)
        return;
    new_epoch(&c->node);
    c->node.weight = take->weight;
    node_set_quotas(e, &c->node, take->groups, take->n_groups);
    node_set_parent(e, &c->node, *text_of(take->parent) ? &cohort_ref(e, take->parent)->node : NULL);
    raise_flush(e, &c->node);
}

void sl_engine_del_cohort(struct sl_engine *e, const char *name) {
    struct cohort *c = sl_map_get(&e->cohorts, name);
    if (!c || !c->obj)
        return;
    new_epoch(&c->node);
    node_set_parent(e, &c->node, NULL); /* first: one that is its own parent would be swept here otherwise */
    sl_cohort_free(c->obj);
    c->obj = NULL;
    c->node.weight = 1;
    node_set_quotas(e, &c->node, NULL, 0);
    cohort_sweep(e, c);
}

/* ---- public: what queues refer to ---- */

static bool uses_flavor(const struct cq *q, const struct flv *f) {
    for (size_t g = 0; g < q->n_groups; g++)
        for (size_t i = 0; i < q->groups[g].n_flavors; i++)
            if (q->groups[g].flavors[i].flavor == f)
                return true;
    return false;
}

static void flavor_changed(struct sl_engine *e, const struct flv *f) {
    SL_MAP_EACH (&e->cqs, m) {
        struct cq *q = m->value;
        if (!uses_flavor(q, f))
            continue;
        cq_refresh_active(e, q);
        new_epoch(&q->node);
        if (q->active)
            raise_flush(e, &q->node);
        tree_dirty(e, q->node.tree);
    }
}

static bool same_flavor(const struct sl_flavor *a, const struct sl_flavor *b) {
    if (a->node_labels.n != b->node_labels.n || a->n_taints != b->n_taints || a->n_tolerations != b->n_tolerations)
        return false;
    for (size_t i = 0; i < a->node_labels.n; i++)
        if (strcmp(a->node_labels.items[i].key, b->node_labels.items[i].key) != 0 ||
            strcmp(a->node_labels.items[i].value, b->node_labels.items[i].value) != 0)
            return false;
    for (size_t i = 0; i < a->n_taints; i++)
        if (strcmp(a->taints[i].key, b->taints[i].key) != 0 || strcmp(a->taints[i].value, b->taints[i].value) != 0 ||
            strcmp(a->taints[i].effect, b->taints[i].effect) != 0)
            return false;
    for (size_t i = 0; i < a->n_tolerations; i++)
        if (strcmp(a->tolerations[i].key, b->tolerations[i].key) != 0 ||
            strcmp(a->tolerations[i].op, b->tolerations[i].op) != 0 ||
            strcmp(a->tolerations[i].value, b->tolerations[i].value) != 0 ||
            strcmp(a->tolerations[i].effect, b->tolerations[i].effect) != 0)
            return false;
    return true;
}

void sl_engine_put_flavor(struct sl_engine *e, struct sl_flavor *take) {
    struct flv *f = flv_ref(e, take->name); /* the object holds one reference */
    struct sl_flavor *old = f->obj;
    bool changed = !old || !same_flavor(old, take);
    f->obj = take;
    if (changed)
        flavor_changed(e, f);
    if (old) {
        sl_flavor_free(old);
        flv_unref(e, f);
    }
}

void sl_engine_del_flavor(struct sl_engine *e, const char *name) {
    struct flv *f = sl_map_get(&e->flavors, name);
    if (!f || !f->obj)
        return;
    sl_flavor_free(f->obj);
    f->obj = NULL;
    flavor_changed(e, f);
    flv_unref(e, f);
}

static void check_changed(struct sl_engine *e, const char *name) {
    SL_MAP_EACH (&e->cqs, m) {
        struct cq *q = m->value;
        if (!q->obj)
            continue;
        for (size_t i = 0; i < q->obj->n_checks; i++)
            if (!strcmp(q->obj->checks[i].name, name)) {
                cq_refresh_active(e, q);
                if (q->active) /* then it was not before: the check was missing or not active */
                    raise_flush(e, &q->node);
                new_epoch(&q->node);
                break;
            }
    }
}

void sl_engine_put_check(struct sl_engine *e, struct sl_admissioncheck *take) {
    struct sl_admissioncheck *old = sl_map_set(&e->checks, take->name, take);
    if (!old || old->active != take->active)
        check_changed(e, take->name);
    sl_admissioncheck_free(old);
}

void sl_engine_del_check(struct sl_engine *e, const char *name) {
    struct sl_admissioncheck *old = sl_map_del(&e->checks, name);
    if (!old)
        return;
    check_changed(e, name);
    sl_admissioncheck_free(old);
}

static bool same_labels(const struct sl_labels *a, const struct sl_labels *b) {
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(a->items[i].key, b->items[i].key) != 0 || strcmp(a->items[i].value, b->items[i].value) != 0)
            return false;
    return true;
}

void sl_engine_put_namespace(struct sl_engine *e, const char *name, const struct sl_labels *labels) {
    struct ns *n = ns_get(e, name);
    if (n && same_labels(&n->labels, labels))
        return;
    if (!n) {
        n = sl_xalloc(sizeof *n);
        n->name = sl_xstrdup(name);
        sl_map_set(&e->namespaces, name, n);
    }
    sl_labels_done(&n->labels);
    n->labels = (struct sl_labels){sl_xalloc((labels->n + 1) * sizeof *labels->items), labels->n};
    for (size_t i = 0; i < labels->n; i++) {
        n->labels.items[i].key = sl_xstrdup(labels->items[i].key);
        n->labels.items[i].value = sl_xstrdup(labels->items[i].value);
    }
    trees_refresh(e);
    SL_MAP_EACH (&e->cqs, m) {
        struct cq *q = m->value;
        if (q->n_misplaced && q->obj->has_namespace_selector &&
            sl_selector_matches(&q->obj->namespace_selector, &n->labels)) {
            queue_flush_misplaced(e, q);
            raise_flush(e, &q->node);
        }
    }
}

void sl_engine_del_namespace(struct sl_engine *e, const char *name) {
    struct ns *n = sl_map_del(&e->namespaces, name);
    if (!n)
        return;
    sl_labels_done(&n->labels);
    free(n->name);
    free(n);
}

/* ---- the end ---- */

void queues_free(struct sl_engine *e) {
    SL_MAP_EACH (&e->cqs, m) {
        struct cq *q = m->value;
        for (uint32_t i = 0; i < q->cap_table; i++)
            if (q->table[i]) {
                shape_unref(e, q->table[i]->shape);
                free(q->table[i]->text);
                free(q->table[i]->heap);
                free(q->table[i]);
            }
        free(q->table);
        free(q->heap);
        free(q->solo);
        free(q->misplaced);
        free(q->holders);
        groups_free(e, q);
        sl_clusterqueue_free(q->obj);
        q->node.parent = NULL;
        node_done(e, &q->node);
        free(q);
    }
    sl_map_done(&e->cqs, NULL);
    SL_MAP_EACH (&e->cohorts, m) {
        struct cohort *c = m->value;
        sl_cohort_free(c->obj);
        c->node.parent = NULL;
        node_done(e, &c->node);
        free(c);
    }
    sl_map_done(&e->cohorts, NULL);
    SL_MAP_EACH (&e->flavors, m) {
        struct flv *f = m->value;
        sl_flavor_free(f->obj);
        free(f->name);
        free(f);
    }
    sl_map_done(&e->flavors, NULL);
    sl_map_done(&e->resources, NULL); /* each went with the last that referred to it */
    sl_map_done(&e->shapes, NULL);
    SL_MAP_EACH (&e->checks, m)
        sl_admissioncheck_free(m->value);
    sl_map_done(&e->checks, NULL);
    SL_MAP_EACH (&e->namespaces, m) {
        struct ns *n = m->value;
        sl_labels_done(&n->labels);
        free(n->name);
        free(n);
    }
    sl_map_done(&e->namespaces, NULL);
}
