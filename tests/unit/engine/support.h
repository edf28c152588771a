/* Short ways to say quotas and workloads in tests of the engine. One flavor "f" and one resource unless said otherwise.
 */
#ifndef TEST_ENGINE_SUPPORT_H
#define TEST_ENGINE_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model.h"
#include "sluice/api/decode.h"
#include "sluice/base/mem.h"

#define GPU  "nvidia.com/gpu"
#define NONE (-1) /* no limit */

static inline struct sl_resource_group *one_group(const char *flavor, const char *resource, int64_t nom, int64_t bl,
                                                  int64_t ll) {
    struct sl_resource_group *g = sl_xalloc(sizeof *g);
    g->n_covered = 1;
    g->covered = sl_xalloc(sizeof(char *));
    g->covered[0] = sl_xstrdup(resource);
    g->n_flavors = 1;
    g->flavors = sl_xalloc(sizeof *g->flavors);
    g->flavors->flavor = sl_xstrdup(flavor);
    g->flavors->n = 1;
    g->flavors->quotas = sl_xalloc(sizeof(struct sl_quota));
    g->flavors->quotas[0] = (struct sl_quota){.resource = sl_xstrdup(resource),
                                              .nominal = nom,
                                              .has_borrowing_limit = bl != NONE,
                                              .borrowing_limit = bl == NONE ? 0 : bl,
                                              .has_lending_limit = ll != NONE,
                                              .lending_limit = ll == NONE ? 0 : ll};
    return g;
}

/* gpu and cpu in a group of flavors f1, f2, ...: quotas by flavor and resource. */
static inline struct sl_resource_group *two_resources(size_t n, const int64_t (*noms)[2]) {
    struct sl_resource_group *g = one_group("f1", GPU, noms[0][0], NONE, NONE);
    g->covered = sl_xrealloc(g->covered, 2, sizeof(char *));
    g->covered[g->n_covered++] = sl_xstrdup("cpu");
    g->flavors = sl_xrealloc(g->flavors, n, sizeof *g->flavors);
    g->n_flavors = n;
    for (size_t i = 0; i < n; i++) {
        char name[8];
        snprintf(name, sizeof name, "f%zu", i + 1);
        struct sl_flavor_quotas *f = &g->flavors[i];
        if (i == 0)
            free(f->flavor), free(f->quotas->resource), free(f->quotas);
        f->flavor = sl_xstrdup(name);
        f->n = 2;
        f->quotas = sl_xalloc(2 * sizeof *f->quotas);
        f->quotas[0] = (struct sl_quota){.resource = sl_xstrdup(GPU), .nominal = noms[i][0]};
        f->quotas[1] = (struct sl_quota){.resource = sl_xstrdup("cpu"), .nominal = noms[i][1]};
    }
    return g;
}

static inline void put_cohort(struct sl_engine *e, const char *name, const char *parent, int64_t nom, int64_t bl,
                              int64_t ll) {
    struct sl_cohort *c = sl_xalloc(sizeof *c);
    c->name = sl_xstrdup(name);
    c->uid = sl_xstrdup(name);
    c->parent = sl_xstrdup(parent ? parent : "");
    c->weight = 1;
    c->groups = one_group("f", GPU, nom, bl, ll);
    c->n_groups = 1;
    sl_engine_put_cohort(e, c);
}

static inline struct sl_clusterqueue *new_cq(const char *name, const char *cohort) {
    struct sl_clusterqueue *q = sl_xalloc(sizeof *q);
    q->name = sl_xstrdup(name);
    q->uid = sl_xstrdup(name);
    q->cohort = sl_xstrdup(cohort ? cohort : "");
    q->weight = 1;
    q->has_namespace_selector = true;
    q->when_can_preempt = SL_TRY_NEXT_FLAVOR;
    return q;
}

/* A queue with one group of one flavor "f". */
static inline struct sl_clusterqueue *new_queue(const char *name, const char *cohort, int64_t nom) {
    struct sl_clusterqueue *q = new_cq(name, cohort);
    q->groups = one_group("f", GPU, nom, NONE, NONE);
    q->n_groups = 1;
    return q;
}

/* One more flavor for the resources of the first group, that much of each. */
static inline void add_flavor(struct sl_clusterqueue *q, const char *name, int64_t nom) {
    struct sl_resource_group *g = &q->groups[0];
    g->flavors = sl_xrealloc(g->flavors, g->n_flavors + 1, sizeof *g->flavors);
    struct sl_flavor_quotas *f = &g->flavors[g->n_flavors++];
    *f = (struct sl_flavor_quotas){sl_xstrdup(name), sl_xalloc(g->n_covered * sizeof *f->quotas), g->n_covered};
    for (size_t i = 0; i < f->n; i++)
        f->quotas[i] = (struct sl_quota){.resource = sl_xstrdup(g->covered[i]), .nominal = nom};
}

static inline void put_cq(struct sl_engine *e, const char *name, const char *cohort, int64_t nom, int64_t bl,
                          int64_t ll) {
    struct sl_clusterqueue *q = new_cq(name, cohort);
    q->groups = one_group("f", GPU, nom, bl, ll);
    q->n_groups = 1;
    sl_engine_put_clusterqueue(e, q);
}

static inline void put_flavor(struct sl_engine *e, const char *name) {
    struct sl_flavor *f = sl_xalloc(sizeof *f);
    f->name = sl_xstrdup(name);
    f->uid = sl_xstrdup(name);
    sl_engine_put_flavor(e, f);
}

static inline void put_flavor_of(struct sl_engine *e, const char *name, const char *spec) {
    SL_AUTO_FREE char *text = sl_xprintf("{'metadata':{'name':'%s'},'spec':%s}", name, spec);
    SL_AUTO_JSON *j = sl_json_from(text);
    struct sl_flavor *f;
    assert_int_equal(sl_flavor_decode(j, &f, NULL), 0);
    sl_engine_put_flavor(e, f);
}

static inline void put_check(struct sl_engine *e, const char *name, bool active) {
    struct sl_admissioncheck *c = sl_xalloc(sizeof *c);
    c->name = sl_xstrdup(name);
    c->uid = sl_xstrdup(name);
    c->controller = sl_xstrdup("x");
    c->active = active;
    sl_engine_put_check(e, c);
}

/* The queue calls for this check; without a flavor always. */
static inline void add_check(struct sl_clusterqueue *q, const char *name, const char *flavor) {
    q->checks = sl_xrealloc(q->checks, q->n_checks + 1, sizeof *q->checks);
    struct sl_check_rule *r = &q->checks[q->n_checks++];
    *r = (struct sl_check_rule){.name = sl_xstrdup(name)};
    if (!flavor)
        return;
    r->flavors = sl_xalloc(sizeof(char *));
    r->flavors[0] = sl_xstrdup(flavor);
    r->n_flavors = 1;
}

static inline void put_lq(struct sl_engine *e, const char *name, const char *cq) {
    struct sl_localqueue *l = sl_xalloc(sizeof *l);
    l->ns = sl_xstrdup("ns");
    l->name = sl_xstrdup(name);
    l->uid = sl_xstrdup(name);
    l->cq = sl_xstrdup(cq);
    sl_engine_put_localqueue(e, l);
}

static inline void put_lq_as(struct sl_engine *e, const char *name, const char *cq, enum sl_stop_policy stop,
                             bool deleting) {
    struct sl_localqueue *l = sl_xalloc(sizeof *l);
    l->ns = sl_xstrdup("ns");
    l->name = sl_xstrdup(name);
    l->uid = sl_xstrdup(name);
    l->cq = sl_xstrdup(cq);
    l->stop = stop;
    l->deleting = deleting;
    sl_engine_put_localqueue(e, l);
}

static inline struct sl_engine *furnished(struct sl_engine *e) {
    struct sl_labels none = {NULL, 0};
    sl_engine_put_namespace(e, "ns", &none);
    put_flavor(e, "f");
    return e;
}

static inline struct sl_engine *engine_with(struct sl_engine_config config) {
    return furnished(sl_engine_new(&config));
}

static inline struct sl_engine *new_engine(void) {
    return furnished(sl_engine_new(NULL));
}

static inline struct sl_engine *fair_engine(void) {
    return engine_with((struct sl_engine_config){.fair_sharing = true});
}

/* A queue with its LocalQueue of the same name. */
static inline void put_policy(struct sl_engine *e, const char *name, const char *cohort, int64_t nom,
                              enum sl_preempt_policy within, enum sl_preempt_policy reclaim,
                              enum sl_preempt_policy borrow) {
    struct sl_clusterqueue *q = new_cq(name, cohort);
    q->groups = one_group("f", GPU, nom, NONE, NONE);
    q->n_groups = 1;
    q->within_cluster_queue = within;
    q->reclaim_within_cohort = reclaim;
    q->borrow_within_cohort = borrow;
    sl_engine_put_clusterqueue(e, q);
    put_lq(e, name, name);
}

static inline struct sl_workload *new_wl(const char *name, const char *queue, int64_t priority, int64_t created_s,
                                         int32_t count, int64_t per_pod) {
    struct sl_workload *w = sl_xalloc(sizeof *w);
    w->uid = sl_xstrdup(name);
    w->ns = sl_xstrdup("ns");
    w->name = sl_xstrdup(name);
    w->queue = sl_xstrdup(queue);
    w->priority = priority;
    w->created_ms = created_s * 1000;
    w->generation = 1;
    w->active = true;
    w->n_podsets = 1;
    w->podsets = sl_xalloc(sizeof *w->podsets);
    w->reclaimable = sl_xalloc(sizeof *w->reclaimable);
    w->podsets->name = sl_xstrdup("main");
    w->podsets->count = count;
    w->podsets->min_count = -1;
    w->podsets->shape = 7;
    w->podsets->per_pod.n = 1;
    w->podsets->per_pod.items = sl_xalloc(sizeof(struct sl_request_amount));
    w->podsets->per_pod.items[0] = (struct sl_request_amount){sl_xstrdup(GPU), per_pod};
    return w;
}

static inline void put_wl(struct sl_engine *e, const char *name, const char *queue, int64_t priority, int64_t created_s,
                          int32_t count, int64_t per_pod) {
    sl_engine_put_workload(e, new_wl(name, queue, priority, created_s, count, per_pod), created_s * 1000);
}

/* One more resource of the first pod set. */
static inline void add_request(struct sl_workload *w, const char *resource, int64_t amount) {
    struct sl_requests *r = &w->podsets[0].per_pod;
    r->items = sl_xrealloc(r->items, r->n + 1, sizeof *r->items);
    r->items[r->n++] = (struct sl_request_amount){sl_xstrdup(resource), amount};
}

static inline void add_podset(struct sl_workload *w, int64_t amount) {
    struct sl_workload *x = new_wl("x", "q", 0, 0, 1, amount);
    w->podsets = sl_xrealloc(w->podsets, w->n_podsets + 1, sizeof *w->podsets);
    w->reclaimable = sl_xrealloc(w->reclaimable, w->n_podsets + 1, sizeof *w->reclaimable);
    w->reclaimable[w->n_podsets] = 0;
    w->podsets[w->n_podsets] = x->podsets[0];
    free(w->podsets[w->n_podsets].name);
    w->podsets[w->n_podsets++].name = sl_xstrdup("workers");
    x->n_podsets = 0;
    sl_workload_free(x);
}

/* A workload that holds quota, as the API would show it. */
static inline struct sl_workload *holding(struct sl_workload *w, const char *cq, const char *flavor, int64_t since_s) {
    w->quota_reserved.status = w->admitted.status = SL_TRI_TRUE;
    w->quota_reserved.since_ms = w->admitted.since_ms = since_s * 1000;
    w->admission = sl_xalloc(sizeof *w->admission);
    w->admission->cq = sl_xstrdup(cq);
    w->admission->n_podsets = w->n_podsets;
    w->admission->podsets = sl_xalloc(w->n_podsets * sizeof *w->admission->podsets);
    for (size_t i = 0; i < w->n_podsets; i++) {
        struct sl_podset_assignment *a = &w->admission->podsets[i];
        a->name = sl_xstrdup(w->podsets[i].name);
        a->count = w->podsets[i].count;
        a->n_flavors = w->podsets[i].per_pod.n;
        a->flavors = sl_xalloc((a->n_flavors + 1) * sizeof *a->flavors);
        for (size_t r = 0; r < a->n_flavors; r++)
            a->flavors[r] =
                (struct sl_assigned_flavor){sl_xstrdup(w->podsets[i].per_pod.items[r].resource), sl_xstrdup(flavor),
                                            w->podsets[i].per_pod.items[r].amount * a->count};
    }
    return w;
}

/* "name" holds quota of the queue of the LocalQueue "cq". */
static inline void hold(struct sl_engine *e, const char *name, const char *cq, int64_t priority, int64_t since_s,
                        int64_t amount) {
    sl_engine_put_workload(e, holding(new_wl(name, cq, priority, since_s, 1, amount), cq, "f", since_s),
                           since_s * 1000);
}

/* What a preempted one becomes when its pods are gone. */
static inline void released(struct sl_engine *e, const char *name, const char *cq, int64_t priority, int64_t created_s,
                            int64_t amount, int64_t now_s) {
    struct sl_workload *w = new_wl(name, cq, priority, created_s, 1, amount);
    w->evicted.status = SL_TRI_TRUE;
    w->evicted.reason = sl_xstrdup("Preempted");
    w->evicted.since_ms = now_s * 1000;
    w->quota_reserved.status = SL_TRI_FALSE;
    w->quota_reserved.since_ms = (now_s + 1) * 1000;
    w->requeued.status = SL_TRI_TRUE;
    sl_engine_put_workload(e, w, now_s * 1000);
}

/* Runs until rest and returns one line of what was decided, in order: "admit a f=1; evict b InClusterQueue; pending c".
 */
static inline char *run(struct sl_engine *e, int64_t now_s) {
    struct sl_decisions d;
    bool more;
    sl_engine_run(e, now_s * 1000, 0, &d, &more);
    SL_AUTO_BUF b = SL_BUF_INIT(65536);
    for (size_t i = 0; i < d.n; i++) {
        const struct sl_decision *x = &d.items[i];
        sl_buf_puts(&b, i ? "; " : "");
        if (x->kind == SL_DECIDE_ADMIT) {
            sl_buf_printf(&b, "admit %s", x->workload->name);
            for (size_t p = 0; p < x->admission->n_podsets; p++)
                for (size_t f = 0; f < x->admission->podsets[p].n_flavors; f++)
                    sl_buf_printf(&b, " %s=%lld", x->admission->podsets[p].flavors[f].flavor,
                                  (long long)x->admission->podsets[p].flavors[f].amount);
        } else if (x->kind == SL_DECIDE_EVICT) {
            sl_buf_printf(&b, "evict %s %s by %s", x->workload->name, x->reason, x->preemptor_name);
        } else {
            sl_buf_printf(&b, "pending %s", x->workload->name);
        }
    }
    sl_decisions_done(&d);
    sl_engine_check_invariants(e);
    return sl_xstrdup(sl_buf_text(&b));
}

#define expect_run(e, now_s, text)                                                                                     \
    do {                                                                                                               \
        SL_AUTO_FREE char *got_ = run((e), (now_s));                                                                   \
        assert_string_equal(got_, text);                                                                               \
    } while (0)

static inline void expect_message(struct sl_engine *e, const char *uid, const char *part) {
    SL_AUTO_JSON *why = sl_engine_explain(e, uid);
    const char *message = sl_json_get_str(why, "message", "");
    if (!strstr(message, part))
        fail_msg("expected \"%s\" in \"%s\"", part, message);
}

#endif
