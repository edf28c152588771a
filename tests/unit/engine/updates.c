/* Updates of which only one thing differs, updates that come at an odd moment, and what they let happen. */
#include "support.h"

static const struct tree *tree_of(struct sl_engine *e) {
    trees_refresh(e);
    return ((struct cq *)sl_map_get(&e->cqs, "q"))->node.tree;
}

/* ---- ClusterQueues and Cohorts ---- */

static struct sl_clusterqueue *two_of_two(void) {
    struct sl_clusterqueue *q = new_cq("q", "K");
    q->groups = two_resources(2, (const int64_t[][2]){{4, 4000}, {2, 2000}});
    q->n_groups = 1;
    return q;
}

/* Groups of another size or order are other groups. */
static void sizes_of_groups(void **state) {
    (void)state;
    static const char *const what[] = {"nothing", "a flavor less", "a resource less", "a quota less", "another order"};
    struct sl_engine *e = new_engine();
    put_flavor(e, "f1");
    put_flavor(e, "f2");
    put_lq(e, "q", "q");
    sl_engine_put_clusterqueue(e, two_of_two());
    put_wl(e, "w", "q", 0, 100, 1, 9);
    expect_run(e, 100, "pending w");
    for (size_t i = 0; i < SL_COUNT(what); i++) {
        sl_engine_put_clusterqueue(e, two_of_two());
        free(run(e, 101));
        uint64_t cycles = tree_of(e)->cycle;
        struct sl_clusterqueue *q = two_of_two();
        struct sl_resource_group *g = q->groups;
        struct sl_quota *quotas = g->flavors[0].quotas;
        if (i == 1) {
            free(g->flavors[1].flavor);
            free(g->flavors[1].quotas[0].resource);
            free(g->flavors[1].quotas[1].resource);
            free(g->flavors[1].quotas);
            g->n_flavors = 1;
        }
        if (i == 2)
            free(g->covered[--g->n_covered]);
        if (i == 3)
            free(quotas[--g->flavors[0].n].resource);
        if (i == 4) {
            struct sl_quota first = quotas[0];
            quotas[0] = quotas[1];
            quotas[1] = first;
        }
        sl_engine_put_clusterqueue(e, q);
        free(run(e, 102));
        if ((tree_of(e)->cycle > cycles) != (i > 0))
            fail_msg("%s: the waiting one was%s tried again", what[i], i ? " not" : "");
        sl_engine_check_invariants(e);
    }
    sl_engine_free(e);
}

static void weight_of_a_cohort(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cohort(e, "K", NULL, 0, NONE, NONE);
    put_cq(e, "q", "K", 4, NONE, NONE);
    put_lq(e, "q", "q");
    put_wl(e, "w", "q", 0, 100, 1, 9);
    expect_run(e, 100, "pending w");
    uint64_t cycles = tree_of(e)->cycle;
    for (int weight = 1; weight <= 2; weight++) {
        struct sl_cohort *c = sl_xalloc(sizeof *c);
        c->name = sl_xstrdup("K");
        c->uid = sl_xstrdup("K");
        c->weight = weight;
        c->groups = one_group("f", GPU, 0, NONE, NONE);
        c->n_groups = 1;
        sl_engine_put_cohort(e, c);
        expect_run(e, 100 + weight, "");
        assert_int_equal(tree_of(e)->cycle > cycles, weight == 2);
    }
    sl_engine_free(e);
}

/* A check that changes while the queue that will call for it is not there yet. */
static void check_before_its_queue(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_lq(e, "q", "q");
    put_wl(e, "w", "q", 0, 100, 1, 1);
    expect_run(e, 100, "pending w");
    put_check(e, "c", true);
    put_check(e, "c", false);
    expect_run(e, 101, "");
    struct sl_clusterqueue *q = new_queue("q", NULL, 4);
    add_check(q, "c", NULL);
    sl_engine_put_clusterqueue(e, q);
    expect_run(e, 102, "pending w");
    expect_message(e, "w", "AdmissionCheck c is not active");
    put_check(e, "c", true);
    expect_run(e, 103, "admit w f=1");
    sl_engine_free(e);
}

/* ---- LocalQueues ---- */

static void localqueue_of_nothing(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "q", NULL, 4, NONE, NONE);
    put_lq(e, "q", "");
    put_wl(e, "w", "q", 0, 100, 1, 1);
    expect_run(e, 100, "pending w");
    sl_engine_del_localqueue(e, "ns", "q");
    expect_run(e, 101, "pending w");
    expect_message(e, "w", "LocalQueue q does not exist");
    put_lq(e, "q", "q");
    expect_run(e, 102, "admit w f=1");
    sl_engine_free(e);
}

/* ---- waiting workloads ---- */

enum {
    SAME,
    STATUS,
    SINCE,
    REASON,
    REQUEUED,
    HAS_TIME,
    TIME,
    REJECTED,
    CHECKS,
    CHECK_NAME,
    CHECK_STATE,
    GENERATION,
    QUEUE,
    AMOUNT,
    ALL
};

static struct sl_workload *waiting(int differs) {
    struct sl_workload *w = new_wl("w", differs == QUEUE ? "p" : "q", 0, 100, 1, differs == AMOUNT ? 8 : 9);
    w->evicted =
        (struct sl_condition_view){differs == STATUS ? SL_TRI_FALSE : SL_TRI_TRUE, differs == SINCE ? 51000 : 50000,
                                   sl_xstrdup(differs == REASON ? "Deactivated" : "Preempted")};
    w->requeued.status = differs == REQUEUED ? SL_TRI_ABSENT : SL_TRI_TRUE;
    w->has_requeue_at = differs != HAS_TIME;
    w->requeue_at_ms = differs == TIME ? 61000 : 60000;
    w->rejected = differs == REJECTED ? sl_xstrdup("no") : NULL;
    w->generation = differs == GENERATION ? 2 : 1;
    w->n_checks = differs == CHECKS ? 1 : 2;
    w->checks = sl_xalloc(2 * sizeof *w->checks);
    for (size_t i = 0; i < w->n_checks; i++)
        w->checks[i] =
            (struct sl_check_view){.name = sl_xstrdup(i == 1 && differs == CHECK_NAME ? "c"
                                                      : i                             ? "b"
                                                                                      : "a"),
                                   .state = i == 1 && differs == CHECK_STATE ? SL_CHECK_READY : SL_CHECK_PENDING};
    return w;
}

/* 3.4: only what a decision looks at makes a workload be looked at again. Its time has passed: it is in the queue. */
static void one_difference(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "q", NULL, 4, NONE, NONE);
    put_lq(e, "q", "q");
    put_lq(e, "p", "q");
    for (int differs = SAME; differs < ALL; differs++) {
        sl_engine_put_workload(e, waiting(SAME), 100000);
        free(run(e, 100));
        const struct wl *w = sl_map_get(&e->workloads, "w");
        assert_int_equal(w->where, WL_QUEUED);
        sl_engine_put_workload(e, waiting(differs), 100000);
        w = sl_map_get(&e->workloads, "w");
        if ((w->tell == 1) != (differs != SAME))
            fail_msg("difference %d: looked at again: %d", differs, w->tell == 1);
        SL_AUTO_FREE char *got = run(e, 100);
        assert_null(strstr(got, "admit"));
        sl_engine_check_invariants(e);
    }
    sl_engine_free(e);
}

/* The API never does this, but the order in the queue must not hang on it: another time of creation. */
static void created_at_another_time(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "q", NULL, 1, NONE, NONE);
    put_lq(e, "q", "q");
    for (int i = 0; i < 5; i++) {
        char name[4];
        snprintf(name, sizeof name, "w%d", i);
        put_wl(e, name, "q", 0, 100 + i, 1, 1);
    }
    put_wl(e, "w3", "q", 0, 50, 1, 1);
    sl_engine_check_invariants(e);
    SL_AUTO_FREE char *got = run(e, 110);
    assert_non_null(strstr(got, "admit w3 f=1"));
    sl_engine_free(e);
}

/* 3.4: a requeue time that has passed keeps nobody waiting, one that has not does, and an eviction that has not been
 * let go does whatever the time. */
static void requeue_times(void **state) {
    (void)state;
    static const struct {
        enum sl_tri requeued;
        int64_t at_s;
        const char *expect;
    } cases[] = {
        {SL_TRI_TRUE, 99, "admit w f=1"},   {SL_TRI_TRUE, 100, "admit w f=1"}, {SL_TRI_TRUE, 101, "pending w"},
        {SL_TRI_ABSENT, 99, "admit w f=1"}, {SL_TRI_FALSE, 99, "pending w"},
    };
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        struct sl_engine *e = new_engine();
        put_cq(e, "q", NULL, 1, NONE, NONE);
        put_lq(e, "q", "q");
        struct sl_workload *w = new_wl("w", "q", 0, 90, 1, 1);
        w->requeued.status = cases[i].requeued;
        w->has_requeue_at = true;
        w->requeue_at_ms = cases[i].at_s * 1000;
        sl_engine_put_workload(e, w, 100000);
        expect_run(e, 100, cases[i].expect);
        sl_engine_free(e);
    }
}

/* What is said of a queue is told to those who wait in it, not to those who wait for their time in another one. */
static void told_in_their_queue(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    static const char *const names[] = {"q", "p"};
    for (size_t i = 0; i < 2; i++) {
        put_cq(e, names[i], NULL, 1, NONE, NONE);
        put_lq(e, names[i], names[i]);
        struct sl_workload *w = new_wl(names[i], names[i], 0, 90, 1, 1);
        w->has_requeue_at = true;
        w->requeue_at_ms = 200000;
        sl_engine_put_workload(e, w, 100000);
    }
    expect_run(e, 100, "pending q; pending p");
    struct sl_clusterqueue *q = new_queue("p", NULL, 1);
    q->stop = SL_STOP_HOLD;
    sl_engine_put_clusterqueue(e, q);
    const struct wl *w = sl_map_get(&e->workloads, "q");
    assert_int_equal(w->tell, 0);
    expect_run(e, 101, "pending p");
    sl_engine_free(e);
}

/* 3.5: one that waited and is now finished or inactive brings the others back, one that is only kept back does not. */
static void leaves_the_queue(void **state) {
    (void)state;
    for (int how = 0; how < 4; how++) {
        struct sl_engine *e = new_engine();
        put_cq(e, "q", NULL, 1, NONE, NONE);
        put_lq(e, "q", "q");
        put_wl(e, "w", "q", 0, 100, 1, 2);
        put_wl(e, "v", "q", 0, 101, 1, 3);
        expect_run(e, 101, "pending w; pending v");
        struct sl_workload *w = new_wl("w", "q", 0, 100, 1, 2);
        w->finished.status = how == 0 ? SL_TRI_TRUE : SL_TRI_ABSENT;
        w->active = how != 1;
        w->gated = how == 2;
        w->waiting_for_replacement.status = how == 3 ? SL_TRI_TRUE : SL_TRI_ABSENT;
        sl_engine_put_workload(e, w, 102000);
        assert_int_equal(tree_of(e)->flush, how < 2);
        expect_run(e, 102, "");
        sl_engine_free(e);
    }
}

/* ---- preemptors ---- */

/* 3.3: the head that waits for its victims stops being tried first when it cannot be tried, or not in vain: then it is
 * the next one's turn. */
static void preemptor_steps_back(void **state) {
    (void)state;
    for (int how = 0; how < 2; how++) {
        struct sl_engine *e = new_engine();
        put_policy(e, "q", NULL, 4, SL_PREEMPT_LOWER_PRIORITY, SL_PREEMPT_NEVER, SL_PREEMPT_NEVER);
        hold(e, "low", "q", 0, 90, 4);
        put_wl(e, "w", "q", 5, 100, 1, 4);
        put_wl(e, "v", "q", 1, 100, 1, 1);
        expect_run(e, 100, "evict low InClusterQueue by w; pending w; pending v");
        expect_message(e, "v", "behind workloads that come before it");
        if (how == 0) { /* a check asks for a retry */
            struct sl_workload *w = new_wl("w", "q", 5, 100, 1, 4);
            w->n_checks = 1;
            w->checks = sl_xalloc(sizeof *w->checks);
            w->checks[0] = (struct sl_check_view){.name = sl_xstrdup("c"), .state = SL_CHECK_RETRY};
            sl_engine_put_workload(e, w, 101000);
        } else { /* it asks for more than there ever is, now */
            put_policy(e, "q", NULL, 3, SL_PREEMPT_LOWER_PRIORITY, SL_PREEMPT_NEVER, SL_PREEMPT_NEVER);
        }
        SL_AUTO_FREE char *got = run(e, 101);
        assert_null(strstr(got, "evict")); /* it is on its way out already */
        expect_message(e, "v", "Waits for preempted workloads to release their quota");
        released(e, "low", "q", 0, 90, 4, 102);
        SL_AUTO_FREE char *then = run(e, 103);
        assert_non_null(strstr(then, "admit v f=1"));
        sl_engine_free(e);
    }
}

/* What was preempted comes back as expected, also when all of it is seen at once; finished instead it is news from
 * outside. */
static void ends_otherwise(void **state) {
    (void)state;
    enum { RETURNS, AT_ONCE, FINISHES, ALL_ENDS };
    for (int how = RETURNS; how < ALL_ENDS; how++) {
        struct sl_engine *e = new_engine();
        put_policy(e, "q", NULL, 4, SL_PREEMPT_LOWER_PRIORITY, SL_PREEMPT_NEVER, SL_PREEMPT_NEVER);
        hold(e, "low", "q", 0, 90, 4);
        put_wl(e, "w", "q", 5, 100, 1, 4);
        if (how != AT_ONCE)
            expect_run(e, 100, "evict low InClusterQueue by w; pending w");
        uint64_t epoch = tree_of(e)->epoch;
        if (how == FINISHES) {
            struct sl_workload *w = new_wl("low", "q", 0, 90, 1, 4);
            w->finished.status = SL_TRI_TRUE;
            sl_engine_put_workload(e, w, 101000);
        } else {
            released(e, "low", "q", 0, 90, 4, 101);
        }
        assert_int_equal(tree_of(e)->epoch, epoch + (how == FINISHES ? 1 : 0));
        SL_AUTO_FREE char *got = run(e, 102);
        assert_non_null(strstr(got, "admit w f=4"));
        sl_engine_free(e);
    }
}

/* A namespace gets labels that its queue does not ask for; a queue without selector asks for what nobody has. */
static void labels_of_no_use(void **state) {
    (void)state;
    for (int none = 0; none < 2; none++) {
        struct sl_engine *e = new_engine();
        struct sl_clusterqueue *q = new_queue("q", NULL, 4);
        q->has_namespace_selector = !none;
        SL_AUTO_JSON *selector = sl_json_from("{'matchLabels':{'team':'b'}}");
        if (!none)
            assert_int_equal(sl_selector_decode(selector, &q->namespace_selector, NULL), 0);
        sl_engine_put_clusterqueue(e, q);
        put_cq(e, "p", NULL, 4, NONE, NONE); /* where nobody waits */
        put_lq(e, "q", "q");
        put_wl(e, "w", "q", 0, 100, 1, 1);
        expect_run(e, 100, "pending w");
        expect_message(e, "w", "Namespace ns does not match");
        uint64_t cycles = tree_of(e)->cycle;
        SL_AUTO_JSON *j = sl_json_from("{'team':'a'}");
        struct sl_labels labels;
        sl_labels_decode(j, NULL, &labels);
        sl_engine_put_namespace(e, "ns", &labels);
        sl_labels_done(&labels);
        expect_run(e, 101, "");
        assert_int_equal(tree_of(e)->cycle, cycles);
        sl_engine_free(e);
    }
}

/* ---- holders ---- */

/* Nobody is evicted from a queue that is stopped, though it borrows; the victim is told for which job it goes. */
static void spared_while_stopped(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_policy(e, "q", "K", 4, SL_PREEMPT_NEVER, SL_PREEMPT_ANY, SL_PREEMPT_NEVER);
    for (int stopped = 1; stopped >= 0; stopped--) {
        struct sl_clusterqueue *x = new_queue("x", "K", 0);
        x->stop = stopped ? SL_STOP_HOLD : SL_STOP_NONE;
        sl_engine_put_clusterqueue(e, x);
        put_lq(e, "x", "x");
        hold(e, "h", "x", 0, 90, 2);
        struct sl_workload *w = new_wl("w", "q", 0, 100, 1, 3);
        w->job_uid = sl_xstrdup("j-1");
        sl_engine_put_workload(e, w, 100000);
        struct sl_decisions d;
        sl_engine_run(e, 100000, 0, &d, NULL);
        assert_int_equal(d.items[0].kind, stopped ? SL_DECIDE_PENDING : SL_DECIDE_EVICT);
        if (!stopped)
            assert_non_null(strstr(d.items[0].message, "workload ns/w (UID: w, JobUID: j-1)"));
        sl_decisions_done(&d);
    }
    sl_engine_free(e);
}

/* Decided here and not yet seen in the API: given up at once when it turns out that it may not wait at all. A write
 * fails that nobody asked for: nothing happens. */
static void assumed_no_more(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "q", NULL, 4, NONE, NONE);
    put_lq(e, "q", "q");
    put_wl(e, "w", "q", 0, 100, 1, 1);
    sl_engine_write_failed(e, "w", false); /* it only waits */
    expect_run(e, 100, "admit w f=1");
    struct sl_workload *w = new_wl("w", "q", 0, 100, 1, 1);
    w->gated = true;
    sl_engine_put_workload(e, w, 101000);
    assert_false(sl_engine_holds_quota(e, "w"));
    hold(e, "h", "q", 0, 90, 1);
    sl_engine_write_failed(e, "h", false); /* it has what it has */
    assert_true(sl_engine_holds_quota(e, "h"));
    expect_run(e, 102, "");
    sl_engine_check_invariants(e);
    sl_engine_free(e);
}

/* Pods of one holder got ready and those of the next did not: nobody goes on in between. */
static void ready_for_a_moment(void **state) {
    (void)state;
    struct sl_engine *e = engine_with((struct sl_engine_config){.block_admission = true});
    put_cq(e, "q", NULL, 9, NONE, NONE);
    put_lq(e, "q", "q");
    hold(e, "a", "q", 0, 90, 1);
    put_wl(e, "w", "q", 0, 100, 1, 1);
    expect_run(e, 100, "pending w");
    for (int i = 0; i < 2; i++) { /* a is ready before b is seen, then b too */
        struct sl_workload *o = holding(new_wl(i ? "b" : "a", "q", 0, 90, 1, 1), "q", "f", 90);
        o->pods_ready.status = SL_TRI_TRUE;
        sl_engine_put_workload(e, o, 101000);
        if (i == 0)
            hold(e, "b", "q", 0, 90, 1);
        uint64_t cycles = tree_of(e)->cycle;
        e->dirty_first = e->dirty_last = NULL; /* by this alone */
        ((struct tree *)(uintptr_t)tree_of(e))->dirty = false;
        expect_run(e, 101, i ? "admit w f=1" : "");
        assert_int_equal(tree_of(e)->cycle > cycles, i);
    }
    sl_engine_free(e);
}

/* An admission names more pod sets than there are: what it says of them counts. */
static void more_assignments_than_podsets(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "q", NULL, 9, NONE, NONE);
    put_lq(e, "q", "q");
    struct sl_workload *w = new_wl("w", "q", 0, 90, 2, 1);
    add_podset(w, 3);
    holding(w, "q", "f", 90);
    free(w->podsets[1].name);
    free(w->podsets[1].per_pod.items[0].resource);
    free(w->podsets[1].per_pod.items);
    w->n_podsets = 1;
    sl_engine_put_workload(e, w, 90000);
    struct sl_queue_view v;
    sl_engine_clusterqueue_view(e, "q", &v);
    assert_int_equal(v.rows[0].reserved, 5);
    sl_queue_view_done(&v);
    sl_engine_del_workload(e, "w");
    sl_engine_check_invariants(e);
    sl_engine_free(e);
}

static void expect_reserved(struct sl_engine *e, const char *lq, int64_t cpu, int64_t gpu) {
    struct sl_queue_view v;
    if (lq)
        sl_engine_localqueue_view(e, "ns", lq, &v);
    else
        sl_engine_clusterqueue_view(e, "q", &v);
    assert_true(v.rows[0].reserved == cpu && v.rows[0].used == cpu);
    assert_true(v.rows[1].reserved == gpu && v.rows[1].used == gpu);
    sl_queue_view_done(&v);
}

static void put_both(struct sl_engine *e, const char *name, const char *lq, int64_t gpu, int64_t cpu) {
    struct sl_workload *w = new_wl(name, lq, 0, 90, 1, gpu);
    add_request(w, "cpu", cpu);
    sl_engine_put_workload(e, holding(w, "q", "f1", 90), 90000);
}

/* One of two resources was at its limit: when that ends, each LocalQueue has what is its own, of both. */
static void one_of_two_saturated(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_flavor(e, "f1");
    struct sl_clusterqueue *q = new_cq("q", NULL);
    q->groups = two_resources(1, (const int64_t[][2]){{SL_UNLIMITED, SL_UNLIMITED}});
    q->n_groups = 1;
    sl_engine_put_clusterqueue(e, q);
    put_lq(e, "one", "q");
    put_lq(e, "two", "q");
    put_both(e, "small", "one", 5, 7);
    put_both(e, "other", "two", 3, 2);
    static const char *const lqs[] = {"one", "alone"};
    for (int i = 0; i < 2; i++) {
        put_lq(e, lqs[i], "q");
        put_both(e, "huge", lqs[i], 1, INT64_MAX);
        expect_reserved(e, NULL, SL_UNLIMITED, 9);
        expect_reserved(e, lqs[i], SL_UNLIMITED, i ? 1 : 6);
        sl_engine_del_workload(e, "huge");
        sl_engine_check_invariants(e);
        expect_reserved(e, NULL, 9, 8);
        expect_reserved(e, "one", 7, 5);
        expect_reserved(e, "two", 2, 3);
    }
    expect_reserved(e, "alone", 0, 0);
    sl_engine_free(e);
}

/* Of those that ask for the same one is told the numbers, and the others that they are behind it. When it leaves them,
 * the next one has to be told. */
static void who_speaks_for_its_equals(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "q", NULL, 4, NONE, NONE);
    put_lq(e, "q", "q");
    hold(e, "all", "q", 0, 90, 4);
    put_wl(e, "x", "q", 0, 100, 1, 3);
    put_wl(e, "y", "q", 0, 101, 1, 3);
    put_wl(e, "z", "q", 0, 102, 1, 3);
    expect_run(e, 102, "pending x; pending y; pending z");
    expect_message(e, "x", "asks 3, free 0");
    expect_message(e, "y", "behind earlier workloads that ask for the same");
    put_wl(e, "x", "q", 5, 100, 1, 3); /* another priority: another kind */
    expect_run(e, 103, "pending y");
    expect_message(e, "y", "asks 3, free 0");
    expect_message(e, "z", "behind earlier workloads that ask for the same");
    struct sl_workload *w = new_wl("y", "q", 0, 101, 1, 3);
    w->active = false;
    sl_engine_put_workload(e, w, 104000);
    expect_run(e, 104, "pending z");
    expect_message(e, "z", "asks 3, free 0");
    sl_engine_free(e);
}

/* The first in a queue is told numbers; who was first, and then was told that others are, is told again when he is. */
static void first_again(void **state) {
    (void)state;
    for (int strict = 0; strict < 2; strict++) {
        struct sl_engine *e = new_engine();
        struct sl_clusterqueue *q = new_queue("q", NULL, 4);
        q->strategy = strict ? SL_STRICT_FIFO : SL_BEST_EFFORT_FIFO;
        sl_engine_put_clusterqueue(e, q);
        put_lq(e, "q", "q");
        hold(e, "all", "q", 0, 90, 4);
        put_wl(e, "x", "q", 0, 100, 1, 3);
        expect_run(e, 100, "pending x");
        put_wl(e, "y", "q", strict ? 5 : 0, 99, 1, 3); /* before it, or like it and older */
        expect_run(e, 101, "pending y");
        SL_AUTO_FREE char *told = run(e, 132);
        assert_string_equal(told, strict ? "pending x" : "");
        if (!strict) { /* everything is tried anew: the older one first */
            q = new_queue("q", NULL, 4);
            q->weight = 2;
            sl_engine_put_clusterqueue(e, q);
            expect_run(e, 133, "pending y; pending x");
        }
        expect_message(e, "x", strict ? "behind workloads that come before it" : "behind earlier workloads");
        sl_engine_del_workload(e, "y");
        expect_run(e, 171, "pending x");
        expect_message(e, "x", "asks 3, free 0");
        sl_engine_free(e);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_of_groups),
        cmocka_unit_test(weight_of_a_cohort),
        cmocka_unit_test(check_before_its_queue),
        cmocka_unit_test(localqueue_of_nothing),
        cmocka_unit_test(one_difference),
        cmocka_unit_test(created_at_another_time),
        cmocka_unit_test(requeue_times),
        cmocka_unit_test(told_in_their_queue),
        cmocka_unit_test(leaves_the_queue),
        cmocka_unit_test(preemptor_steps_back),
        cmocka_unit_test(ends_otherwise),
        cmocka_unit_test(labels_of_no_use),
        cmocka_unit_test(spared_while_stopped),
        cmocka_unit_test(assumed_no_more),
        cmocka_unit_test(ready_for_a_moment),
        cmocka_unit_test(more_assignments_than_podsets),
        cmocka_unit_test(one_of_two_saturated),
        cmocka_unit_test(who_speaks_for_its_equals),
        cmocka_unit_test(first_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
