/*
 * Random histories against a second, slow model of the quota tree that recomputes everything from the definitions, with
 * the promises of the design checked after every event. A failure prints its seed and the shortest history that still
 * fails. SL_SEEDS=n plays more seeds, SL_SEED=n only one.
 */
#include "support.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define COHORTS 5
#define QUEUES  6
#define JOBS    60
#define FLAVORS 2
#define EVENTS  1000
#define SEEDS   60

static const char *const flavor_names[FLAVORS] = {"f", "g"};

struct event {
    unsigned kind, a, b, c, d, e;
};

/* ---- the model ---- */

struct quota {
    int64_t nom, bl, ll; /* -1: no limit */
};
struct mnode {
    bool exists, explicit_object;
    int parent; /* Cohort or -1 */
    struct quota q[FLAVORS];
    bool listed[FLAVORS];
};
struct mjob {
    bool exists, holds, admitted, evicting, told, done;
    int queue, cq; /* LocalQueue i belongs to ClusterQueue i; cq: whose quota it holds */
    int64_t used[FLAVORS];
    int32_t count, reclaimed;
    int64_t priority, per_pod, created_s, since_s;
    int64_t assigned[FLAVORS];
};
struct world {
    struct sl_engine *e;
    struct mnode cohorts[COHORTS], queues[QUEUES];
    bool lq_stopped[QUEUES];
    struct mjob jobs[JOBS];
    int64_t now_s;
    uint64_t digest;
    size_t admitted, evicted;
    const char *failed;
};

#define CHECK(w, cond)                                                                                                 \
    do {                                                                                                               \
        if (!(cond) && !(w)->failed)                                                                                   \
            (w)->failed = #cond;                                                                                       \
    } while (0)

static bool cohort_lives(const struct world *w, int i) {
    if (w->cohorts[i].explicit_object)
        return true;
    for (int k = 0; k < COHORTS; k++)
        if (w->cohorts[k].explicit_object && w->cohorts[k].parent == i)
            return true;
    for (int k = 0; k < QUEUES; k++)
        if (w->queues[k].exists && w->queues[k].parent == i)
            return true;
    return false;
}

static int parent_of(const struct world *w, int cohort) {
    return w->cohorts[cohort].explicit_object ? w->cohorts[cohort].parent : -1;
}

static bool below_cycle(const struct world *w, int cohort) {
    for (int steps = 0; cohort >= 0; steps++) {
        if (steps > COHORTS)
            return true;
        cohort = parent_of(w, cohort);
    }
    return false;
}

static int64_t queue_usage(const struct world *w, int q, int f) {
    int64_t sum = 0;
    for (int j = 0; j < JOBS; j++)
        if (w->jobs[j].holds && w->jobs[j].cq == q)
            sum += w->jobs[j].used[f];
    return sum;
}

static int64_t positive(int64_t v) {
    return v > 0 ? v : 0;
}
static const struct quota no_quota = {0, NONE, NONE};
static const struct quota *queue_quota(const struct world *w, int q, int f) {
    return w->queues[q].exists ? &w->queues[q].q[f] : &no_quota;
}
static const struct quota *cohort_quota(const struct world *w, int c, int f) {
    return w->cohorts[c].explicit_object ? &w->cohorts[c].q[f] : &no_quota;
}
static int queue_parent(const struct world *w, int q) {
    return w->queues[q].exists ? w->queues[q].parent : -1;
}

static int64_t local_quota(const struct quota *q, int64_t s) {
    return q->ll == NONE ? 0 : positive(s - q->ll);
}

static int64_t subtree(const struct world *w, int c, int f) {
    int64_t s = cohort_quota(w, c, f)->nom;
    for (int k = 0; k < COHORTS; k++)
        if (parent_of(w, k) == c && k != c) {
            int64_t x = subtree(w, k, f);
            s += x - local_quota(cohort_quota(w, k, f), x);
        }
    for (int k = 0; k < QUEUES; k++)
        if (queue_parent(w, k) == c) {
            int64_t x = queue_quota(w, k, f)->nom;
            s += x - local_quota(queue_quota(w, k, f), x);
        }
    return s;
}

static int64_t cohort_usage(const struct world *w, int c, int f) {
    int64_t u = 0;
    for (int k = 0; k < COHORTS; k++)
        if (parent_of(w, k) == c && k != c)
            u += positive(cohort_usage(w, k, f) - local_quota(cohort_quota(w, k, f), subtree(w, k, f)));
    for (int k = 0; k < QUEUES; k++)
        if (queue_parent(w, k) == c)
            u += positive(queue_usage(w, k, f) - local_quota(queue_quota(w, k, f), queue_quota(w, k, f)->nom));
    return u;
}

static int64_t available_at(const struct world *w, int parent, const struct quota *q, int64_t s, int64_t u, int f) {
    if (parent < 0)
        return s - u;
    int64_t l = local_quota(q, s);
    int64_t p = available_at(w, parent_of(w, parent), cohort_quota(w, parent, f), subtree(w, parent, f),
                             cohort_usage(w, parent, f), f);
    if (q->bl != NONE) {
        int64_t limit = (s - l) - positive(u - l) + q->bl;
        p = p < limit ? p : limit;
    }
    return positive(l - u) + p;
}

static int64_t queue_available(const struct world *w, int q, int f) {
    return available_at(w, queue_parent(w, q), queue_quota(w, q, f), queue_quota(w, q, f)->nom, queue_usage(w, q, f),
                        f);
}

static int64_t ceiling_at(const struct world *w, int parent, const struct quota *q, int64_t s, int f) {
    if (parent < 0)
        return s;
    int64_t a =
        local_quota(q, s) + ceiling_at(w, parent_of(w, parent), cohort_quota(w, parent, f), subtree(w, parent, f), f);
    return q->bl != NONE && s + q->bl < a ? s + q->bl : a;
}

/* ---- the engine against the model ---- */

static struct cell *cell_of(struct world *w, struct node *n, int f) {
    struct flv *flavor = sl_map_get(&w->e->flavors, flavor_names[f]);
    struct res *r = sl_map_get(&w->e->resources, GPU);
    return n && flavor && r ? node_cell(n, cell_key(flavor, r)) : NULL;
}

static void compare_trees(struct world *w) {
    char name[8];
    for (int q = 0; q < QUEUES; q++) {
        snprintf(name, sizeof name, "q%d", q);
        struct node *n = sl_map_get(&w->e->cqs, name);
        bool cyclic = queue_parent(w, q) >= 0 && below_cycle(w, queue_parent(w, q));
        for (int f = 0; f < FLAVORS; f++) {
            const struct cell *c = cell_of(w, n, f);
            CHECK(w, queue_usage(w, q, f) == (c ? c->U : 0));
            if (!c || cyclic)
                continue;
            CHECK(w, c->S == queue_quota(w, q, f)->nom);
            CHECK(w, cell_available_raw(c) == queue_available(w, q, f));
            CHECK(w, c->ceil == ceiling_at(w, queue_parent(w, q), queue_quota(w, q, f), c->S, f));
        }
        struct sl_queue_view v;
        sl_engine_clusterqueue_view(w->e, name, &v);
        CHECK(w, v.exists == w->queues[q].exists);
        int holds = 0, admitted = 0, pending = 0;
        for (int j = 0; j < JOBS; j++) {
            const struct mjob *x = &w->jobs[j];
            holds += x->holds && x->cq == q;
            admitted += x->holds && x->admitted && x->cq == q;
            pending += x->exists && !x->done && !x->holds && x->queue == q && !w->lq_stopped[q];
        }
        if (v.exists) {
            CHECK(w, v.reserving == holds && v.admitted == admitted);
            CHECK(w, v.pending_active + v.pending_inadmissible == pending);
            CHECK(w, v.active == !cyclic);
        }
        sl_queue_view_done(&v);
    }
    for (int k = 0; k < COHORTS; k++) {
        snprintf(name, sizeof name, "c%d", k);
        struct node *n = sl_map_get(&w->e->cohorts, name);
        CHECK(w, (n != NULL) == cohort_lives(w, k));
        if (!n)
            continue;
        CHECK(w, n->in_cycle == below_cycle(w, k));
        for (int f = 0; f < FLAVORS && !n->in_cycle; f++) {
            const struct cell *c = cell_of(w, n, f);
            CHECK(w, subtree(w, k, f) == (c ? c->S : 0));
            CHECK(w, cohort_usage(w, k, f) == (c ? c->U : 0));
        }
    }
}

/* ---- events ---- */

static struct sl_resource_group *groups_of(const struct quota *q) {
    struct sl_resource_group *g = one_group("f", GPU, q[0].nom, q[0].bl, q[0].ll);
    g->flavors = sl_xrealloc(g->flavors, FLAVORS, sizeof *g->flavors);
    g->n_flavors = FLAVORS;
    struct sl_resource_group *second = one_group("g", GPU, q[1].nom, q[1].bl, q[1].ll);
    g->flavors[1] = second->flavors[0];
    free(second->flavors);
    free(second->covered[0]);
    free(second->covered);
    free(second);
    return g;
}

static void draw_quota(struct quota *q, unsigned x, bool parent) {
    q->nom = x % 9;
    q->bl = parent && x / 16 % 3 == 0 ? (int64_t)(x / 64 % 5) : NONE;
    q->ll = parent && x / 512 % 3 == 0 ? (int64_t)(x / 2048 % 9) : NONE;
    if (q->ll > q->nom)
        q->ll = q->nom;
}

static struct sl_workload *object_of(const struct world *w, int j) {
    const struct mjob *x = &w->jobs[j];
    char name[16], queue[8];
    snprintf(name, sizeof name, "w%d-%lld", j, (long long)x->created_s);
    snprintf(queue, sizeof queue, "q%d", x->queue);
    struct sl_workload *o = new_wl(name, queue, x->priority, x->created_s, x->count, x->per_pod);
    o->reclaimable[0] = x->reclaimed;
    if (x->holds) {
        char cq[8];
        snprintf(cq, sizeof cq, "q%d", x->cq);
        holding(o, cq, x->assigned[0] ? "f" : "g", x->since_s);
        if (!x->admitted)
            o->admitted.status = SL_TRI_FALSE;
    }
    if (x->evicting) {
        o->evicted.status = SL_TRI_TRUE;
        o->evicted.reason = sl_xstrdup("Preempted");
    }
    if (x->done)
        o->finished.status = SL_TRI_TRUE;
    return o;
}

static void put_job(struct world *w, int j) {
    sl_engine_put_workload(w->e, object_of(w, j), w->now_s * 1000);
}

static void uid_of(const struct world *w, int j, char *text, size_t n) {
    snprintf(text, n, "w%d-%lld", j, (long long)w->jobs[j].created_s);
}

static void gone(struct mjob *x) {
    x->holds = x->admitted = x->evicting = x->told = false;
    memset(x->used, 0, sizeof x->used);
    memset(x->assigned, 0, sizeof x->assigned);
}

static void count_usage(struct mjob *x) {
    for (int f = 0; f < FLAVORS; f++) {
        int64_t left = x->count - x->reclaimed;
        x->used[f] = x->assigned[f] ? x->per_pod * left : 0;
    }
}

static int job_named(const struct world *w, const char *uid) {
    char text[16];
    for (int j = 0; j < JOBS; j++) {
        uid_of(w, j, text, sizeof text);
        if (w->jobs[j].exists && !strcmp(text, uid))
            return j;
    }
    return -1;
}

static void digest(struct world *w, const char *text) {
    for (; *text; text++)
        w->digest = (w->digest ^ (unsigned char)*text) * 0x100000001b3u;
}

static void run_engine(struct world *w, unsigned luck) {
    int64_t before[QUEUES][FLAVORS];
    for (int q = 0; q < QUEUES; q++)
        for (int f = 0; f < FLAVORS; f++)
            before[q][f] = queue_parent(w, q) >= 0 && below_cycle(w, queue_parent(w, q)) ? 0 : queue_available(w, q, f);
    struct sl_decisions d;
    bool more = false;
    sl_engine_run(w->e, w->now_s * 1000, luck % 5 == 0 ? 2 : 0, &d, &more);
    int acted[JOBS];
    bool fail[JOBS];
    size_t n_acted = 0;
    for (size_t i = 0; i < d.n; i++) {
        const struct sl_decision *x = &d.items[i];
        int j = job_named(w, x->workload->uid);
        CHECK(w, j >= 0);
        if (j < 0)
            continue;
        struct mjob *m = &w->jobs[j];
        digest(w, x->workload->uid);
        digest(w, x->message ? x->message : "admitted");
        if (x->kind == SL_DECIDE_PENDING) {
            CHECK(w, !m->holds && !m->done && x->message && *x->message && x->reason);
            m->told = true;
            continue;
        }
        size_t at = 0;
        while (at < n_acted && acted[at] != j)
            at++;
        if (at == n_acted) {
            acted[n_acted] = j;
            fail[n_acted++] = (luck >> (i % 16)) % 8 == 0;
        }
        if (x->kind == SL_DECIDE_ADMIT) {
            CHECK(w, !m->holds && !m->done); /* I2: one admission between evictions */
            w->admitted++;
            m->holds = m->admitted = true;
            m->since_s = w->now_s;
            m->cq = m->queue;
            const struct sl_podset_assignment *a = &x->admission->podsets[0];
            CHECK(w, a->count == m->count - m->reclaimed && a->n_flavors == 1);
            m->assigned[strcmp(a->flavors[0].flavor, "g") == 0] = 1;
            m->used[strcmp(a->flavors[0].flavor, "g") == 0] = a->flavors[0].amount;
        } else {
            CHECK(w, m->holds && !m->evicting && x->preemptor_uid && strcmp(x->preemptor_uid, x->workload->uid));
            w->evicted++;
            m->evicting = true;
        }
    }
    /* I1: whoever had room still has; nobody is deeper in debt than before */
    for (int q = 0; q < QUEUES; q++)
        for (int f = 0; f < FLAVORS; f++)
            if (queue_parent(w, q) < 0 || !below_cycle(w, queue_parent(w, q)))
                CHECK(w, queue_available(w, q, f) >= (before[q][f] < 0 ? before[q][f] : 0));
    sl_decisions_done(&d);
    compare_trees(w);
    for (size_t i = 0; i < n_acted; i++) {
        struct mjob *m = &w->jobs[acted[i]];
        char uid[16];
        uid_of(w, acted[i], uid, sizeof uid);
        if (!fail[i]) {
            m->count -= m->reclaimed; /* the admission's count is what the API shows */
            m->reclaimed = 0;
            put_job(w, acted[i]);
        } else if (m->since_s == w->now_s && m->holds && !((struct wl *)sl_map_get(&w->e->workloads, uid))->observed) {
            sl_engine_write_failed(w->e, uid, false);
            gone(m);
        } else {
            sl_engine_write_failed(w->e, uid, false);
            m->evicting = false;
        }
    }
    if (more || n_acted)
        return;
    /* at rest, and everybody who waits knows why */
    sl_engine_run(w->e, w->now_s * 1000, 0, &d, &more);
    CHECK(w, d.n == 0 && !more);
    sl_decisions_done(&d);
    for (int j = 0; j < JOBS; j++)
        if (w->jobs[j].exists && !w->jobs[j].holds && !w->jobs[j].done)
            CHECK(w, w->jobs[j].told);
}

static void event(struct world *w, const struct event *v) {
    char name[16];
    int i;
    w->now_s += 1 + v->e % 3;
    switch (v->kind % 16) {
    case 0: {
        i = (int)(v->a % COHORTS);
        struct mnode *m = &w->cohorts[i];
        m->explicit_object = true;
        m->parent = (int)(v->b % (COHORTS + 2)) - 2;
        if (m->parent == -2 || m->parent == i)
            m->parent = -1;
        struct sl_cohort *c = sl_xalloc(sizeof *c);
        c->name = sl_xprintf("c%d", i);
        c->uid = sl_xprintf("c%d", i);
        c->parent = m->parent < 0 ? sl_xstrdup("") : sl_xprintf("c%d", m->parent);
        c->weight = 1;
        for (int f = 0; f < FLAVORS; f++)
            draw_quota(&m->q[f], v->c >> (f * 7), m->parent >= 0);
        c->groups = groups_of(m->q);
        c->n_groups = 1;
        sl_engine_put_cohort(w->e, c);
        break;
    }
    case 1:
        i = (int)(v->a % COHORTS);
        snprintf(name, sizeof name, "c%d", i);
        w->cohorts[i].explicit_object = false;
        sl_engine_del_cohort(w->e, name);
        break;
    case 2: {
        i = (int)(v->a % QUEUES);
        struct mnode *m = &w->queues[i];
        m->exists = true;
        m->parent = (int)(v->b % (COHORTS + 1)) - 1;
        snprintf(name, sizeof name, "q%d", i);
        SL_AUTO_FREE char *cohort = m->parent < 0 ? sl_xstrdup("") : sl_xprintf("c%d", m->parent);
        struct sl_clusterqueue *q = new_cq(name, cohort);
        for (int f = 0; f < FLAVORS; f++)
            draw_quota(&m->q[f], v->c >> (f * 7), m->parent >= 0);
        q->groups = groups_of(m->q);
        q->n_groups = 1;
        q->strategy = v->d % 3 == 0 ? SL_STRICT_FIFO : SL_BEST_EFFORT_FIFO;
        q->within_cluster_queue = (enum sl_preempt_policy)(v->d / 4 % 3);
        q->reclaim_within_cohort =
            (enum sl_preempt_policy[]){SL_PREEMPT_NEVER, SL_PREEMPT_LOWER_PRIORITY, SL_PREEMPT_ANY}[v->d / 16 % 3];
        q->borrow_within_cohort =
            v->d / 64 % 3 == 0 && q->reclaim_within_cohort ? SL_PREEMPT_LOWER_PRIORITY : SL_PREEMPT_NEVER;
        q->when_can_borrow = (enum sl_fungibility)(v->d / 256 % 2);
        q->when_can_preempt = (enum sl_fungibility)(v->d / 512 % 2);
        sl_engine_put_clusterqueue(w->e, q);
        break;
    }
    case 3:
        i = (int)(v->a % QUEUES);
        if (v->b % 4)
            break; /* not too often: it takes all with it */
        snprintf(name, sizeof name, "q%d", i);
        w->queues[i].exists = false;
        sl_engine_del_clusterqueue(w->e, name);
        break;
    case 4:
    case 5:
    case 6:
    case 7: {
        i = (int)(v->a % JOBS);
        struct mjob *m = &w->jobs[i];
        if (m->exists)
            break;
        *m = (struct mjob){.exists = true,
                           .queue = (int)(v->b % QUEUES),
                           .priority = (int64_t)(v->c % 4) * 10,
                           .count = 1 + (int32_t)(v->d % 3),
                           .per_pod = 1 + (int64_t)(v->d / 4 % 3),
                           .created_s = w->now_s};
        if (v->c % 37 == 0) { /* it held quota before we came */
            m->holds = m->admitted = true;
            m->cq = (int)(v->b / 8 % QUEUES);
            m->assigned[v->c / 37 % FLAVORS] = 1;
            m->since_s = w->now_s;
            count_usage(m);
        }
        put_job(w, i);
        break;
    }
    case 8:
    case 9: {
        struct mjob *m = &w->jobs[v->a % JOBS];
        if (!m->exists || !m->holds)
            break;
        m->done = true;
        put_job(w, (int)(v->a % JOBS));
        gone(m);
        break;
    }
    case 10: {
        struct mjob *m = &w->jobs[v->a % JOBS];
        if (!m->exists)
            break;
        uid_of(w, (int)(v->a % JOBS), name, sizeof name);
        sl_engine_del_workload(w->e, name);
        *m = (struct mjob){0};
        break;
    }
    case 11:
        for (int j = 0; j < JOBS; j++) /* the jobs of evicted workloads have stopped */
            if (w->jobs[j].evicting && (v->a >> (j % 16)) % 2) {
                bool holds = w->jobs[j].holds;
                gone(&w->jobs[j]);
                w->jobs[j].evicting = holds;
                struct sl_workload *o = object_of(w, j);
                o->quota_reserved.status = SL_TRI_FALSE;
                o->quota_reserved.since_ms = w->now_s * 1000;
                sl_engine_put_workload(w->e, o, w->now_s * 1000);
                w->jobs[j].evicting = false;
            }
        break;
    case 12: {
        struct mjob *m = &w->jobs[v->a % JOBS];
        if (!m->holds || m->reclaimed + 1 >= m->count)
            break;
        m->reclaimed++;
        count_usage(m);
        put_job(w, (int)(v->a % JOBS));
        break;
    }
    case 13: {
        i = (int)(v->a % QUEUES);
        if (v->b % 3)
            break;
        struct sl_localqueue *l = sl_xalloc(sizeof *l);
        l->ns = sl_xstrdup("ns");
        l->name = sl_xprintf("q%d", i);
        l->uid = sl_xprintf("q%d", i);
        l->cq = sl_xprintf("q%d", i);
        w->lq_stopped[i] = !w->lq_stopped[i];
        l->stop = w->lq_stopped[i] ? SL_STOP_HOLD : SL_STOP_NONE;
        sl_engine_put_localqueue(w->e, l);
        break;
    }
    default: run_engine(w, v->a ^ v->b << 3); break;
    }
}

static size_t n_admitted, n_evicted; /* so that the test cannot pass by doing nothing */

static const char *play(const struct event *events, size_t n, uint64_t *ret_digest) {
    struct world w = {.e = new_engine(), .now_s = 1700000000, .digest = 0xcbf29ce484222325u};
    put_flavor(w.e, "g");
    for (int q = 0; q < QUEUES; q++) {
        char name[8];
        snprintf(name, sizeof name, "q%d", q);
        put_lq(w.e, name, name);
    }
    for (size_t i = 0; i < n && !w.failed; i++) {
        event(&w, &events[i]);
        sl_engine_check_invariants(w.e);
        compare_trees(&w);
    }
    sl_engine_free(w.e);
    *ret_digest = w.digest;
    n_admitted += w.admitted;
    n_evicted += w.evicted;
    return w.failed;
}

/* ---- seeds, and shrinking ---- */

static uint64_t next(uint64_t *s) {
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

static void draw(struct event *events, uint64_t seed) {
    uint64_t s = seed * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < EVENTS; i++)
        events[i] = (struct event){(unsigned)(next(&s) >> 33), (unsigned)(next(&s) >> 33), (unsigned)(next(&s) >> 33),
                                   (unsigned)(next(&s) >> 33), (unsigned)(next(&s) >> 33), (unsigned)(next(&s) >> 33)};
}

/* In a child, since a broken book aborts. */
static bool fails(const struct event *events, size_t n, bool loud) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (!loud) {
            (void)!freopen("/dev/null", "w", stderr);
            signal(SIGABRT, SIG_DFL);
        }
        uint64_t digest_;
        const char *what = play(events, n, &digest_);
        if (what && loud)
            fprintf(stderr, "broken: %s\n", what);
        _exit(what != NULL);
    }
    int status = 1;
    waitpid(pid, &status, 0);
    return status != 0;
}

static size_t shrink_history(struct event *events, size_t n) {
    for (size_t part = n / 2; part >= 1; part /= 2)
        for (size_t at = 0; at + part <= n;) {
            struct event *without = sl_xalloc(n * sizeof *without);
            memcpy(without, events, at * sizeof *events);
            memcpy(without + at, events + at + part, (n - at - part) * sizeof *events);
            if (fails(without, n - part, false)) {
                n -= part;
                memcpy(events, without, n * sizeof *events);
            } else {
                at += part;
            }
            free(without);
        }
    return n;
}

static void random_histories(void **state) {
    (void)state;
    const char *one = getenv("SL_SEED"), *many = getenv("SL_SEEDS");
    uint64_t first = one ? strtoull(one, NULL, 10) : 1, last = one ? first : many ? strtoull(many, NULL, 10) : SEEDS;
    struct event *events = sl_xalloc(EVENTS * sizeof *events);
    for (uint64_t seed = first; seed <= last; seed++) {
        draw(events, seed);
        if (fails(events, EVENTS, false)) {
            size_t n = shrink_history(events, EVENTS);
            print_error("seed %llu fails after %zu events:\n", (unsigned long long)seed, n);
            for (size_t i = 0; i < n; i++)
                print_error("  {%u, %u, %u, %u, %u, %u}, /* kind %u */\n", events[i].kind, events[i].a, events[i].b,
                            events[i].c, events[i].d, events[i].e, events[i].kind % 16);
            fails(events, n, true);
            fail_msg("seed %llu", (unsigned long long)seed);
        }
    }
    /* I9: the same history gives the same decisions */
    draw(events, first);
    uint64_t a = 0, b = 1;
    assert_null(play(events, EVENTS, &a));
    assert_null(play(events, EVENTS, &b));
    assert_true(a == b && n_admitted > 100 && n_evicted > 10);
    free(events);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_histories)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
