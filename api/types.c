/*
 * Freeing and copying of decoded objects. Every _free walks what is there: arrays are released by their count, so a
 * decoder that fails half-way may hand over what it has as long as counts never run ahead of what is allocated
 * (calloc'ed elements are fine).
 */
#include "sluice/api/types.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/api/decode.h"
#include "sluice/base/mem.h"

static void strings_free(char **items, size_t n) {
    for (size_t i = 0; i < n; i++)
        free(items[i]);
    free(items);
}

void sl_labels_done(struct sl_labels *l) {
    if (!l)
        return;
    for (size_t i = 0; i < l->n; i++) {
        free(l->items[i].key);
        free(l->items[i].value);
    }
    free(l->items);
    *l = (struct sl_labels){NULL, 0};
}

const char *sl_labels_get(const struct sl_labels *l, const char *key) {
    size_t lo = 0, hi = l ? l->n : 0;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int c = strcmp(l->items[mid].key, key);
        if (c == 0)
            return l->items[mid].value;
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

void sl_requests_done(struct sl_requests *r) {
    if (!r)
        return;
    for (size_t i = 0; i < r->n; i++)
        free(r->items[i].resource);
    free(r->items);
    *r = (struct sl_requests){NULL, 0};
}

static void requirements_free(struct sl_requirement *items, size_t n) {
    for (size_t i = 0; i < n; i++) {
        free(items[i].key);
        strings_free(items[i].values, items[i].n);
    }
    free(items);
}

void sl_selector_done(struct sl_selector *s) {
    if (!s)
        return;
    requirements_free(s->items, s->n);
    *s = (struct sl_selector){NULL, 0};
}

void sl_tolerations_free(struct sl_toleration *t, size_t n) {
    for (size_t i = 0; t && i < n; i++) {
        free(t[i].key);
        free(t[i].op);
        free(t[i].value);
        free(t[i].effect);
    }
    free(t);
}

void sl_flavor_free(struct sl_flavor *f) {
    if (!f)
        return;
    free(f->name);
    free(f->uid);
    free(f->topology);
    sl_labels_done(&f->node_labels);
    for (size_t i = 0; i < f->n_taints; i++) {
        free(f->taints[i].key);
        free(f->taints[i].value);
        free(f->taints[i].effect);
    }
    free(f->taints);
    sl_tolerations_free(f->tolerations, f->n_tolerations);
    sl_labels_done(&f->annotations);
    free(f);
}

static void groups_free(struct sl_resource_group *groups, size_t n) {
    for (size_t i = 0; i < n; i++) {
        struct sl_resource_group *g = &groups[i];
        strings_free(g->covered, g->n_covered);
        for (size_t j = 0; j < g->n_flavors; j++) {
            free(g->flavors[j].flavor);
            for (size_t k = 0; k < g->flavors[j].n; k++)
                free(g->flavors[j].quotas[k].resource);
            free(g->flavors[j].quotas);
        }
        free(g->flavors);
    }
    free(groups);
}

void sl_cohort_free(struct sl_cohort *c) {
    if (!c)
        return;
    free(c->name);
    free(c->uid);
    free(c->parent);
    groups_free(c->groups, c->n_groups);
    free(c);
}

void sl_clusterqueue_free(struct sl_clusterqueue *q) {
    if (!q)
        return;
    free(q->name);
    free(q->uid);
    free(q->cohort);
    groups_free(q->groups, q->n_groups);
    sl_selector_done(&q->namespace_selector);
    for (size_t i = 0; i < q->n_checks; i++) {
        free(q->checks[i].name);
        strings_free(q->checks[i].flavors, q->checks[i].n_flavors);
    }
    free(q->checks);
    sl_labels_done(&q->annotations);
    free(q);
}

void sl_localqueue_free(struct sl_localqueue *q) {
    if (!q)
        return;
    free(q->ns);
    free(q->name);
    free(q->uid);
    free(q->cq);
    sl_labels_done(&q->annotations);
    free(q);
}

void sl_admissioncheck_free(struct sl_admissioncheck *c) {
    if (!c)
        return;
    free(c->name);
    free(c->uid);
    free(c->controller);
    free(c);
}

void sl_admission_free(struct sl_admission *a) {
    if (!a)
        return;
    free(a->cq);
    for (size_t i = 0; i < a->n_podsets; i++) {
        free(a->podsets[i].name);
        for (size_t j = 0; j < a->podsets[i].n_flavors; j++) {
            free(a->podsets[i].flavors[j].resource);
            free(a->podsets[i].flavors[j].flavor);
        }
        free(a->podsets[i].flavors);
    }
    free(a->podsets);
    free(a);
}

struct sl_admission *sl_admission_copy(const struct sl_admission *a) {
    if (!a)
        return NULL;
    struct sl_admission *r = sl_xalloc(sizeof *r);
    r->cq = sl_xstrdup(a->cq);
    r->n_podsets = a->n_podsets;
    r->podsets = sl_xrealloc(NULL, a->n_podsets + 1, sizeof *r->podsets);
    for (size_t i = 0; i < a->n_podsets; i++) {
        const struct sl_podset_assignment *from = &a->podsets[i];
        struct sl_podset_assignment *to = &r->podsets[i];
        *to = (struct sl_podset_assignment){sl_xstrdup(from->name), from->count, NULL, from->n_flavors};
        to->flavors = sl_xrealloc(NULL, from->n_flavors + 1, sizeof *to->flavors);
        for (size_t j = 0; j < from->n_flavors; j++)
            to->flavors[j] = (struct sl_assigned_flavor){sl_xstrdup(from->flavors[j].resource),
                                                         sl_xstrdup(from->flavors[j].flavor), from->flavors[j].amount};
    }
    return r;
}

static void podset_done(struct sl_podset *ps) {
    free(ps->name);
    sl_requests_done(&ps->per_pod);
    sl_labels_done(&ps->node_selector);
    for (size_t i = 0; i < ps->n_affinity; i++)
        requirements_free(ps->affinity[i].items, ps->affinity[i].n);
    free(ps->affinity);
    sl_tolerations_free(ps->tolerations, ps->n_tolerations);
}

void sl_workload_free(struct sl_workload *w) {
    if (!w)
        return;
    free(w->uid);
    free(w->ns);
    free(w->name);
    free(w->queue);
    free(w->job_uid);
    free(w->priority_class);
    for (size_t i = 0; i < w->n_podsets; i++)
        podset_done(&w->podsets[i]);
    free(w->podsets);
    free(w->reclaimable);
    free(w->quota_reserved.reason);
    free(w->admitted.reason);
    free(w->evicted.reason);
    free(w->preempted.reason);
    free(w->requeued.reason);
    free(w->pods_ready.reason);
    free(w->finished.reason);
    free(w->deactivation_target.reason);
    free(w->waiting_for_replacement.reason);
    for (size_t i = 0; i < w->n_checks; i++)
        free(w->checks[i].name);
    free(w->checks);
    sl_admission_free(w->admission);
    free(w->rejected);
    free(w);
}
