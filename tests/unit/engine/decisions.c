/* Decisions, rule by rule: flavors (scheduling reference, section 5), queueing (3), preemption (7), the guard against
 * fights, reasons. */
#include "support.h"

/* ---- several flavors: quotas as text "f1:cpu=4,gpu=2;f2:..." would be a second parser; a table of numbers does ----
 */

static struct sl_resource_group *flavors(size_t n, const int64_t *noms) {
    struct sl_resource_group *g = one_group("f1", GPU, noms[0], NONE, NONE);
    g->flavors = sl_xrealloc(g->flavors, n, sizeof *g->flavors);
    g->n_flavors = n;
    for (size_t i = 1; i < n; i++) {
        char name[8];
        snprintf(name, sizeof name, "f%zu", i + 1);
        struct sl_resource_group *x = one_group(name, GPU, noms[i], NONE, NONE);
        g->flavors[i] = x->flavors[0];
        free(x->flavors);
        free(x->covered[0]);
        free(x->covered);
        free(x);
    }
    return g;
}

static struct sl_engine *two_flavors(void) {
    struct sl_engine *e = new_engine();
    put_flavor(e, "f1");
    put_flavor(e, "f2");
    return e;
}

struct fungibility_case {
    const char *what;
    int64_t own[2], other[2]; /* nominal of the queue, of its neighbour in the cohort */
    int64_t low[2];           /* held by a workload of low priority of the queue itself, per flavor */
    enum sl_fungibility borrow, preempt;
    enum sl_preference preference;
    const char *expect;
};

/* A workload of 2 at priority 10 in queue a; 5.5 and the corner cases of 9. */
static void fungibility(void **state) {
    (void)state;
    static const struct fungibility_case cases[] = {
        {"preempt, fit", {2, 2}, {0, 0}, {2, 0}, SL_MAY_STOP_SEARCH, SL_TRY_NEXT_FLAVOR, 0, "admit w f2=2"},
        {"preempt, fit, may stop",
         {2, 2},
         {0, 0},
         {2, 0},
         SL_MAY_STOP_SEARCH,
         SL_MAY_STOP_SEARCH,
         0,
         "evict low InClusterQueue by w; pending w"},
        {"fit borrowing, fit", {0, 2}, {2, 0}, {0, 0}, SL_MAY_STOP_SEARCH, SL_TRY_NEXT_FLAVOR, 0, "admit w f1=2"},
        {"fit borrowing, fit, try next",
         {0, 2},
         {2, 0},
         {0, 0},
         SL_TRY_NEXT_FLAVOR,
         SL_TRY_NEXT_FLAVOR,
         0,
         "admit w f2=2"},
        {"fit borrowing, nothing", {0, 0}, {2, 0}, {0, 0}, SL_TRY_NEXT_FLAVOR, SL_TRY_NEXT_FLAVOR, 0, "admit w f1=2"},
        {"preempt, fit borrowing",
         {2, 0},
         {0, 2},
         {2, 0},
         SL_TRY_NEXT_FLAVOR,
         SL_TRY_NEXT_FLAVOR,
         SL_BORROWING_OVER_PREEMPTION,
         "admit w f2=2"},
        {"preempt, fit borrowing, preemption first",
         {2, 0},
         {0, 2},
         {2, 0},
         SL_TRY_NEXT_FLAVOR,
         SL_TRY_NEXT_FLAVOR,
         SL_PREEMPTION_OVER_BORROWING,
         "evict low InClusterQueue by w; pending w"},
        {"nothing fits", {1, 1}, {0, 0}, {0, 0}, SL_MAY_STOP_SEARCH, SL_TRY_NEXT_FLAVOR, 0, "pending w"},
    };
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        const struct fungibility_case *c = &cases[i];
        struct sl_engine *e = two_flavors();
        struct sl_clusterqueue *q = new_cq("a", "K"), *o = new_cq("b", "K");
        q->groups = flavors(2, c->own);
        o->groups = flavors(2, c->other);
        q->n_groups = o->n_groups = 1;
        q->within_cluster_queue = SL_PREEMPT_LOWER_PRIORITY;
        q->when_can_borrow = c->borrow;
        q->when_can_preempt = c->preempt;
        q->preference = c->preference;
        sl_engine_put_clusterqueue(e, q);
        sl_engine_put_clusterqueue(e, o);
        put_lq(e, "a", "a");
        for (int f = 0; f < 2; f++)
            if (c->low[f])
                sl_engine_put_workload(e, holding(new_wl("low", "a", 0, 100, 1, c->low[f]), "a", f ? "f2" : "f1", 100),
                                       100000);
        put_wl(e, "w", "a", 10, 200, 1, 2);
        SL_AUTO_FREE char *got = run(e, 200);
        if (strcmp(got, c->expect) != 0)
            fail_msg("%s: expected \"%s\", got \"%s\"", c->what, c->expect, got);
        expect_run(e, 200, "");
        sl_engine_free(e);
    }
}

/* Taints, selectors and affinity; only keys of the flavor's own labels count. */
static void eligibility(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    SL_AUTO_JSON *f1 = sl_json_from("{'metadata':{'name':'f1'},'spec':{'nodeLabels':{'zone':'a'},"
                                    "'nodeTaints':[{'key':'gpu','value':'yes','effect':'NoSchedule'}]}}");
    SL_AUTO_JSON *f2 = sl_json_from("{'metadata':{'name':'f2'},'spec':{'nodeLabels':{'zone':'b'}}}");
    struct sl_flavor *f;
    assert_int_equal(sl_flavor_decode(f1, &f, NULL), 0);
    sl_engine_put_flavor(e, f);
    assert_int_equal(sl_flavor_decode(f2, &f, NULL), 0);
    sl_engine_put_flavor(e, f);
    struct sl_clusterqueue *q = new_cq("a", NULL);
    q->groups = flavors(2, (int64_t[]){9, 9});
    q->n_groups = 1;
    sl_engine_put_clusterqueue(e, q);
    put_lq(e, "a", "a");
    static const struct {
        const char *spec, *expect;
    } cases[] = {
        {"{}", "admit w f2=1"}, /* the taint */
        {"{'tolerations':[{'key':'gpu','operator':'Exists'}]}", "admit w f1=1"},
        {"{'tolerations':[{'operator':'Exists'}],'nodeSelector':{'zone':'b','other':'x'}}", "admit w f2=1"},
        {"{'nodeSelector':{'zone':'c'}}", "pending w"},
        {"{'tolerations':[{'operator':'Exists'}],'affinity':{'nodeAffinity':{'"
         "requiredDuringSchedulingIgnoredDuringExecution':"
         "{'nodeSelectorTerms':[{'matchExpressions':[{'key':'zone','operator':'NotIn','values':['a']}]}]}}}}",
         "admit w f2=1"},
        {"{'tolerations':[{'operator':'Exists'}],'affinity':{'nodeAffinity':{'"
         "requiredDuringSchedulingIgnoredDuringExecution':"
         "{'nodeSelectorTerms':[{'matchExpressions':[{'key':'zone','operator':'NotIn','values':['a']}]},"
         "{'matchExpressions':[{'key':'rack','operator':'Exists'}]}]}}}}",
         "admit w f1=1"}, /* a term without any of the flavor's keys says nothing */
    };
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        struct sl_workload *w = new_wl("w", "a", 0, 100, 1, 1);
        SL_AUTO_JSON *spec = sl_json_from(cases[i].spec);
        sl_podset_decode_placement(spec, &w->podsets[0]);
        sl_engine_put_workload(e, w, 100000);
        SL_AUTO_FREE char *got = run(e, 100);
        if (strcmp(got, cases[i].expect) != 0)
            fail_msg("%s: expected \"%s\", got \"%s\"", cases[i].spec, cases[i].expect, got);
        sl_engine_del_workload(e, "w");
    }
    sl_engine_free(e);
}

/* ---- queueing ---- */

static struct sl_engine *one_queue(enum sl_strategy strategy, int64_t nom) {
    struct sl_engine *e = new_engine();
    struct sl_clusterqueue *q = new_cq("q", NULL);
    q->groups = one_group("f", GPU, nom, NONE, NONE);
    q->n_groups = 1;
    q->strategy = strategy;
    q->within_cluster_queue = SL_PREEMPT_LOWER_PRIORITY;
    sl_engine_put_clusterqueue(e, q);
    put_lq(e, "q", "q");
    return e;
}

static void strategies(void **state) {
    (void)state;
    struct sl_engine *e = one_queue(SL_BEST_EFFORT_FIFO, 4);
    put_wl(e, "big", "q", 10, 100, 1, 5);
    put_wl(e, "small", "q", 0, 101, 1, 1);
    expect_run(e, 101, "admit small f=1; pending big");
    sl_engine_free(e);
    e = one_queue(SL_STRICT_FIFO, 4);
    put_wl(e, "big", "q", 10, 100, 1, 5);
    put_wl(e, "small", "q", 0, 101, 1, 1);
    expect_run(e, 101, "pending big; pending small");
    sl_engine_del_workload(e, "big");
    expect_run(e, 102, "admit small f=1");
    sl_engine_free(e);
}

static void order(void **state) { /* priority, then age, then uid */
    (void)state;
    struct sl_engine *e = one_queue(SL_BEST_EFFORT_FIFO, 1);
    put_wl(e, "b", "q", 0, 100, 1, 1);
    put_wl(e, "a", "q", 0, 100, 1, 1);
    put_wl(e, "old", "q", 0, 99, 1, 1);
    put_wl(e, "high", "q", 5, 101, 1, 1);
    const struct sl_workload **list;
    assert_int_equal(sl_engine_pending(e, "q", &list), 4);
    assert_string_equal(list[0]->name, "high");
    assert_string_equal(list[1]->name, "old");
    assert_string_equal(list[2]->name, "a");
    free(list);
    expect_run(e, 101, "admit high f=1; pending b; pending a; pending old");
    struct sl_queue_view v;
    sl_engine_clusterqueue_view(e, "q", &v);
    assert_int_equal(v.pending_inadmissible, 3);
    assert_int_equal(v.pending_active, 0);
    sl_queue_view_done(&v);
    sl_engine_del_workload(e, "high");
    SL_AUTO_FREE char *got = run(e, 102);
    assert_non_null(strstr(got, "admit old f=1"));
    sl_engine_free(e);
}

/* An eviction that has to wait for its time; then a retry by the clock alone. */
static void backoff(void **state) {
    (void)state;
    struct sl_engine *e = one_queue(SL_BEST_EFFORT_FIFO, 4);
    struct sl_workload *w = new_wl("w", "q", 0, 100, 1, 1);
    w->has_requeue_at = true;
    w->requeue_at_ms = 160000;
    w->requeued.status = SL_TRI_TRUE;
    sl_engine_put_workload(e, w, 100000);
    expect_run(e, 100, "pending w");
    assert_int_equal(sl_engine_next_due_ms(e), 160000);
    expect_run(e, 159, "");
    expect_run(e, 160, "admit w f=1");
    w = new_wl("v", "q", 0, 100, 1, 1);
    w->requeued.status = SL_TRI_FALSE;
    w->requeued.reason = sl_xstrdup("Deactivated");
    sl_engine_put_workload(e, w, 161000);
    expect_run(e, 161, "pending v");
    put_wl(e, "v", "q", 0, 100, 1, 1); /* somebody let it go */
    expect_run(e, 162, "admit v f=1");
    sl_engine_free(e);
}

/* Everything that keeps a workload out, told as it is, and what lets it in again. */
static void kept_out(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_wl(e, "w", "q", 0, 100, 1, 1);
    expect_run(e, 100, "pending w"); /* no LocalQueue */
    put_lq(e, "q", "q");
    expect_run(e, 101, "pending w"); /* no ClusterQueue */
    struct sl_clusterqueue *q = new_cq("q", NULL);
    q->groups = one_group("missing", GPU, 4, NONE, NONE);
    q->n_groups = 1;
    q->stop = SL_STOP_HOLD;
    sl_engine_put_clusterqueue(e, q);
    expect_run(e, 102, "pending w");
    struct sl_queue_view v;
    sl_engine_clusterqueue_view(e, "q", &v);
    assert_string_equal(v.inactive_reason, "Stopped");
    assert_non_null(strstr(v.inactive_message, "missing"));
    assert_int_equal(v.pending_inadmissible, 1);
    sl_queue_view_done(&v);
    q = new_cq("q", NULL);
    q->groups = one_group("missing", GPU, 4, NONE, NONE);
    q->n_groups = 1;
    sl_engine_put_clusterqueue(e, q);
    expect_run(e, 103, "pending w");
    put_flavor(e, "missing");
    expect_run(e, 104, "admit w missing=1");
    assert_true(sl_engine_flavor_in_use(e, "missing"));
    sl_engine_del_workload(e, "w");
    /* a namespace that does not match, then does */
    q = new_cq("q", NULL);
    q->groups = one_group("f", GPU, 4, NONE, NONE);
    q->n_groups = 1;
    SL_AUTO_JSON *selector = sl_json_from("{'matchLabels':{'team':'a'}}");
    assert_int_equal(sl_selector_decode(selector, &q->namespace_selector, NULL), 0);
    sl_engine_put_clusterqueue(e, q);
    put_wl(e, "w", "q", 0, 105, 1, 1);
    expect_run(e, 105, "pending w");
    SL_AUTO_JSON *labels = sl_json_from("{'team':'a'}");
    struct sl_labels l;
    sl_labels_decode(labels, NULL, &l);
    sl_engine_put_namespace(e, "ns", &l);
    sl_labels_done(&l);
    expect_run(e, 106, "admit w f=1");
    /* a check that asked for a retry; pod sets that are not valid */
    struct sl_workload *w = new_wl("x", "q", 0, 107, 1, 1);
    w->rejected = sl_xstrdup("spec.podSets[0]: request above limit");
    sl_engine_put_workload(e, w, 107000);
    w = new_wl("y", "q", 0, 107, 1, 1);
    w->n_checks = 1;
    w->checks = sl_xalloc(sizeof *w->checks);
    w->checks[0] = (struct sl_check_view){.name = sl_xstrdup("c"), .state = SL_CHECK_REJECTED};
    sl_engine_put_workload(e, w, 107000);
    expect_run(e, 107, "pending x; pending y");
    sl_engine_free(e);
}

/* Assumed, then told that the write failed: the quota is free again and the workload tried again. */
static void failed_write(void **state) {
    (void)state;
    struct sl_engine *e = one_queue(SL_BEST_EFFORT_FIFO, 1);
    put_wl(e, "w", "q", 0, 100, 1, 1);
    expect_run(e, 100, "admit w f=1");
    assert_true(sl_engine_holds_quota(e, "w"));
    put_wl(e, "w", "q", 0, 100, 1, 1); /* an older picture changes nothing */
    assert_true(sl_engine_holds_quota(e, "w"));
    sl_engine_write_failed(e, "w", false);
    assert_false(sl_engine_holds_quota(e, "w"));
    expect_run(e, 101, "admit w f=1");
    sl_engine_write_failed(e, "w", true);
    expect_run(e, 102, "");
    assert_null(sl_engine_explain(e, "w"));
    sl_engine_free(e);
}

static void limit_of_admissions(void **state) {
    (void)state;
    struct sl_engine *e = one_queue(SL_BEST_EFFORT_FIFO, 10);
    for (int i = 0; i < 5; i++) {
        char name[4];
        snprintf(name, sizeof name, "w%d", i);
        put_wl(e, name, "q", 0, 100 + i, 1, 1);
    }
    struct sl_decisions d;
    bool more;
    sl_engine_run(e, 110000, 3, &d, &more);
    assert_int_equal(d.n, 3);
    assert_true(more);
    sl_decisions_done(&d);
    sl_engine_run(e, 110000, 3, &d, &more);
    assert_int_equal(d.n, 2);
    assert_false(more);
    sl_decisions_done(&d);
    sl_engine_free(e);
}

static void pods_ready(void **state) {
    (void)state;
    struct sl_engine_config config = {.block_admission = true};
    struct sl_engine *e = sl_engine_new(&config);
    struct sl_labels none = {NULL, 0};
    sl_engine_put_namespace(e, "ns", &none);
    put_flavor(e, "f");
    put_cq(e, "q", NULL, 4, NONE, NONE);
    put_lq(e, "q", "q");
    put_wl(e, "a", "q", 0, 100, 1, 1);
    put_wl(e, "b", "q", 0, 101, 1, 1);
    expect_run(e, 101, "admit a f=1; pending b");
    struct sl_workload *w = holding(new_wl("a", "q", 0, 100, 1, 1), "q", "f", 101);
    w->pods_ready.status = SL_TRI_TRUE;
    sl_engine_put_workload(e, w, 102000);
    expect_run(e, 102, "admit b f=1");
    sl_engine_free(e);
}

/* ---- preemption ---- */

static void within_queue(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_policy(e, "q", NULL, 4, SL_PREEMPT_LOWER_OR_NEWER_EQUAL, SL_PREEMPT_NEVER, SL_PREEMPT_NEVER);
    hold(e, "low", "q", 0, 100, 1);
    hold(e, "newer", "q", 10, 102, 2);
    hold(e, "older", "q", 10, 90, 1);
    put_wl(e, "w", "q", 10, 101, 1, 2);
    /* lowest priority first, then the newer equal one; what turns out needless is given back */
    expect_run(e, 103, "evict newer InClusterQueue by w; pending w");
    released(e, "newer", "q", 10, 102, 2, 104);
    expect_run(e, 104, "admit w f=2; pending newer");
    sl_engine_free(e);
}

static void reclaim(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_policy(e, "a", "K", 4, SL_PREEMPT_NEVER, SL_PREEMPT_ANY, SL_PREEMPT_NEVER);
    put_policy(e, "b", "K", 4, SL_PREEMPT_NEVER, SL_PREEMPT_NEVER, SL_PREEMPT_NEVER);
    hold(e, "own", "b", 0, 99, 4);
    hold(e, "borrowed", "b", 100, 100, 4);
    put_wl(e, "w", "a", 0, 101, 1, 4);
    expect_run(e, 101, "evict own InCohortReclamation by w; pending w"); /* any priority; the lower one goes */
    released(e, "own", "b", 0, 99, 4, 102);
    expect_run(e, 102, "admit w f=4; pending own");
    sl_engine_free(e);
}

static void while_borrowing(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_policy(e, "a", "K", 1, SL_PREEMPT_NEVER, SL_PREEMPT_ANY, SL_PREEMPT_LOWER_PRIORITY);
    put_policy(e, "b", "K", 1, SL_PREEMPT_NEVER, SL_PREEMPT_NEVER, SL_PREEMPT_NEVER);
    put_policy(e, "c", "K", 2, SL_PREEMPT_NEVER, SL_PREEMPT_NEVER, SL_PREEMPT_NEVER);
    hold(e, "low", "b", 0, 100, 3);
    put_wl(e, "w", "a", 10, 101, 1, 3);
    expect_run(e, 101, "evict low InCohortReclaimWhileBorrowing by w; pending w");
    sl_engine_free(e);
}

/* A victim may come back first once, and then has to let its preemptor in; nobody evicts who evicted it. */
static void no_fights(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_policy(e, "a", "K", 2, SL_PREEMPT_NEVER, SL_PREEMPT_ANY, SL_PREEMPT_LOWER_PRIORITY);
    put_policy(e, "b", "K", 2, SL_PREEMPT_NEVER, SL_PREEMPT_ANY, SL_PREEMPT_LOWER_PRIORITY);
    hold(e, "x", "a", 0, 100, 3);
    put_wl(e, "y", "b", 10, 101, 1, 3);
    size_t evictions = 0;
    for (int64_t t = 101; t < 160; t++) { /* whoever is evicted stops at once */
        SL_AUTO_FREE char *got = run(e, t);
        if (strstr(got, "evict x")) {
            released(e, "x", "a", 0, 100, 3, t);
            evictions++;
        }
        if (strstr(got, "evict y")) {
            released(e, "y", "b", 10, 101, 3, t);
            evictions++;
        }
        if (strstr(got, "admit x"))
            hold(e, "x", "a", 0, t, 3);
        if (strstr(got, "admit y"))
            hold(e, "y", "b", 10, t, 3);
    }
    assert_true(evictions >= 1 && evictions <= 3);
    assert_true(sl_engine_holds_quota(e, "x") != sl_engine_holds_quota(e, "y"));
    sl_engine_free(e);
}

static void fair_preemption(void **state) { /* 7.8: b 5, a 3, c 1 of 3 each */
    (void)state;
    for (int who = 0; who < 2; who++) {
        struct sl_engine_config config = {.fair_sharing = true};
        struct sl_engine *e = sl_engine_new(&config);
        struct sl_labels none = {NULL, 0};
        sl_engine_put_namespace(e, "ns", &none);
        put_flavor(e, "f");
        const char *names[] = {"a", "b", "c"};
        for (size_t i = 0; i < 3; i++)
            put_policy(e, names[i], "K", 3, SL_PREEMPT_LOWER_PRIORITY, SL_PREEMPT_ANY, SL_PREEMPT_NEVER);
        char name[8];
        int n = 0;
        for (int i = 0; i < 9; i++) {
            snprintf(name, sizeof name, "w%d", n++);
            hold(e, name, i < 3 ? "a" : i < 8 ? "b" : "c", 0, 100 + i, 1);
        }
        put_wl(e, "new", who ? "a" : "c", 0, 200, 1, 1);
        expect_run(e, 200,
                   who ? "evict w7 InCohortFairSharing by new; pending new"
                       : "evict w7 InCohortReclamation by new; pending new");
        sl_engine_free(e);
    }
}

static void partial(void **state) { /* section 6: count 10, at least 4, room for 6 */
    (void)state;
    struct sl_engine *e = one_queue(SL_BEST_EFFORT_FIFO, 6);
    struct sl_workload *w = new_wl("w", "q", 0, 100, 10, 1);
    w->podsets[0].min_count = 4;
    sl_engine_put_workload(e, w, 100000);
    expect_run(e, 100, "admit w f=6");
    sl_engine_free(e);
}

/* ---- reasons ---- */

static void reasons(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "q", "K", 4, NONE, NONE);
    put_cq(e, "lender", "K", 2, NONE, NONE);
    put_lq(e, "q", "q");
    hold(e, "h", "q", 0, 100, 5);
    put_wl(e, "w", "q", 0, 101, 1, 3);
    struct sl_decisions d;
    bool more;
    sl_engine_run(e, 101000, 0, &d, &more);
    assert_int_equal(d.n, 1);
    assert_string_equal(d.items[0].reason, "Pending");
    assert_non_null(strstr(d.items[0].message, "pod set main"));
    assert_non_null(strstr(d.items[0].message, "asks 3"));
    assert_non_null(strstr(d.items[0].message, "free 1 (nominal 4, borrowable 1)"));
    assert_non_null(strstr(d.items[0].message, "held by ns/h 5"));
    assert_string_equal(sl_json_path_str(d.items[0].requests, "0.resources.nvidia.com/gpu", "?"),
                        "?"); /* a name with dots */
    SL_AUTO_FREE char *requests = sl_json_text(d.items[0].requests);
    assert_string_equal(requests, "[{\"name\":\"main\",\"resources\":{\"nvidia.com/gpu\":\"3\"}}]");
    sl_decisions_done(&d);
    SL_AUTO_JSON *why = sl_engine_explain(e, "w");
    assert_string_equal(sl_json_get_str(why, "state", ""), "Pending");
    assert_string_equal(sl_json_path_str(why, "podSets.0.flavors.0.free", ""), "1");
    assert_string_equal(sl_json_path_str(why, "podSets.0.flavors.0.usedInCohort", ""), "5");
    assert_string_equal(sl_json_path_str(why, "podSets.0.flavors.0.holders.0.workload", ""), "ns/h");
    assert_non_null(strstr(sl_json_get_str(why, "smallestChange", ""), "workload ns/h finishes"));
    assert_non_null(strstr(sl_json_get_str(why, "smallestChange", ""), "2 more nvidia.com/gpu"));
    SL_AUTO_JSON *holder = sl_engine_explain(e, "h");
    assert_string_equal(sl_json_get_str(holder, "state", ""), "Admitted");
    assert_string_equal(sl_json_path_str(holder, "holds.0.amount", ""), "5");
    /* the limit is what stands in the way */
    put_cq(e, "q", "K", 4, 1, NONE);
    sl_engine_del_workload(e, "h");
    put_wl(e, "big", "q", 0, 102, 1, 6);
    SL_AUTO_FREE char *got = run(e, 102);
    assert_non_null(strstr(got, "pending big"));
    sl_engine_del_workload(e, "w");
    SL_AUTO_FREE char *after = run(e, 103);
    (void)after;
    SL_AUTO_JSON *big = sl_engine_explain(e, "big");
    assert_non_null(strstr(sl_json_get_str(big, "smallestChange", ""), "borrowingLimit"));
    sl_engine_check_invariants(e);
    sl_engine_free(e);
}

/* A reason is not told again while it stays the same, and new numbers only after a while. */
static void told_once(void **state) {
    (void)state;
    struct sl_engine *e = one_queue(SL_BEST_EFFORT_FIFO, 4);
    for (int i = 0; i < 4; i++) {
        char name[4];
        snprintf(name, sizeof name, "h%d", i);
        hold(e, name, "q", 0, 90, 1);
    }
    put_wl(e, "w", "q", 0, 100, 1, 4);
    expect_run(e, 100, "pending w");
    sl_engine_del_workload(e, "h0");
    expect_run(e, 101, "");
    sl_engine_del_workload(e, "h1");
    expect_run(e, 102, "");
    assert_true(sl_engine_next_due_ms(e) > 102000);
    expect_run(e, sl_engine_next_due_ms(e) / 1000, "pending w");
    assert_int_equal(sl_engine_next_due_ms(e), -1);
    sl_engine_free(e);
}

/* Two queues want their own back from one workload: one of them goes first in each cycle, and the gauge says so. */
static void skipped_preemptions_are_counted(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_policy(e, "a", "K", 2, 0, SL_PREEMPT_ANY, 0);
    put_policy(e, "b", "K", 2, 0, SL_PREEMPT_ANY, 0);
    put_policy(e, "c", "K", 0, 0, 0, 0);
    sl_engine_put_workload(e, holding(new_wl("v", "c", 0, 1, 1, 4), "c", "f", 1), 1000);
    put_wl(e, "wa", "a", 0, 2, 1, 2);
    put_wl(e, "wb", "b", 0, 3, 1, 2);
    expect_run(e, 10, "evict v InCohortReclamation by wa; pending wa; pending wb");
    static const struct {
        const char *queue;
        int32_t skips;
    } then[] = {{"a", 0}, {"b", 1}, {"c", 0}};
    for (size_t i = 0; i < SL_COUNT(then); i++) {
        struct sl_queue_view v;
        sl_engine_clusterqueue_view(e, then[i].queue, &v);
        assert_int_equal(v.preemption_skips, then[i].skips);
        sl_queue_view_done(&v);
    }
    sl_engine_del_workload(e, "wb"); /* nobody waits there any more */
    struct sl_queue_view v;
    sl_engine_clusterqueue_view(e, "b", &v);
    assert_int_equal(v.preemption_skips, 0);
    sl_queue_view_done(&v);
    put_wl(e, "wb", "b", 0, 4, 1, 2);
    sl_engine_del_workload(e, "v");
    free(run(e, 12));
    assert_true(sl_engine_holds_quota(e, "wa") && sl_engine_holds_quota(e, "wb"));
    put_wl(e, "more", "b", 0, 5, 1, 2);
    expect_run(e, 13, "pending more");
    sl_engine_clusterqueue_view(e, "b", &v);
    assert_int_equal(v.preemption_skips, 0);
    sl_queue_view_done(&v);
    sl_engine_free(e);
}

static void expect_waits(struct sl_engine *e, const char *cq, const char *expect) {
    uint32_t waits[SL_WAIT__COUNT], sum = 0;
    SL_AUTO_BUF text = SL_BUF_INIT(1000);
    sl_engine_waits(e, cq, waits);
    for (enum sl_wait i = 0; i < SL_WAIT__COUNT; i++) {
        sum += waits[i];
        if (waits[i])
            sl_buf_printf(&text, "%s%s %u", text.len ? ", " : "", sl_wait_name(i), waits[i]);
    }
    assert_string_equal(sl_buf_text(&text), expect);
    struct sl_queue_view v;
    sl_engine_clusterqueue_view(e, cq, &v);
    assert_int_equal(sum, v.pending_active + v.pending_inadmissible);
    sl_queue_view_done(&v);
}

static void waits_are_counted_by_why(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    expect_waits(e, "a", "");
    put_policy(e, "a", "K", 2, 0, SL_PREEMPT_ANY, 0);
    put_policy(e, "b", "K", 2, 0, SL_PREEMPT_ANY, 0);
    put_policy(e, "c", "K", 0, 0, 0, 0);
    expect_waits(e, "a", "");
    sl_engine_put_workload(e, holding(new_wl("v", "c", 0, 1, 1, 4), "c", "f", 1), 1000);
    put_wl(e, "wa", "a", 0, 2, 1, 2);
    put_wl(e, "wa2", "a", 0, 3, 1, 2);
    put_wl(e, "wb", "b", 0, 4, 1, 2);
    put_wl(e, "never", "c", 0, 5, 1, 9);
    put_wl(e, "never2", "c", 0, 6, 1, 9);
    expect_waits(e, "a", "InQueue 2"); /* nobody has looked yet */
    free(run(e, 10));
    expect_waits(e, "a", "InQueue 1, Preemption 1");
    expect_waits(e, "b", "OthersFirst 1");
    expect_waits(e, "c", "Quota 2");

    struct sl_workload *w = new_wl("wait", "c", 0, 7, 1, 1); /* until a time, and until somebody says so */
    w->evicted = (struct sl_condition_view){SL_TRI_TRUE, 8000, sl_xstrdup("PodsReadyTimeout")};
    w->has_requeue_at = true;
    w->requeue_at_ms = 1000000;
    sl_engine_put_workload(e, w, 10000);
    w = new_wl("hold", "c", 0, 7, 1, 1);
    w->requeued = (struct sl_condition_view){SL_TRI_FALSE, 8000, sl_xstrdup("PodsReadyTimeout")};
    sl_engine_put_workload(e, w, 10000);
    w = new_wl("wrong", "c", 9, 7, 1, 1);
    w->rejected = sl_xstrdup("limits below requests");
    sl_engine_put_workload(e, w, 10000);
    w = new_wl("asked", "c", 9, 7, 1, 1);
    w->n_checks = 1;
    w->checks = sl_xalloc(sizeof *w->checks);
    w->checks[0] = (struct sl_check_view){.name = sl_xstrdup("check"), .state = SL_CHECK_RETRY};
    sl_engine_put_workload(e, w, 10000);
    free(run(e, 11));
    expect_waits(e, "c", "Quota 2, AdmissionCheck 1, Backoff 2, Invalid 1");

    struct sl_clusterqueue *q = new_queue("b", "K", 2);
    q->has_namespace_selector = false; /* nobody's */
    sl_engine_put_clusterqueue(e, q);
    free(run(e, 12));
    expect_waits(e, "b", "Namespace 1");
    q = new_queue("c", "K", 0);
    q->stop = SL_STOP_HOLD;
    sl_engine_put_clusterqueue(e, q);
    expect_waits(e, "c", "QueueInactive 6");
    sl_engine_free(e);
}

static void waits_for_pods_are_counted(void **state) {
    (void)state;
    struct sl_engine *e = engine_with((struct sl_engine_config){.block_admission = true});
    put_policy(e, "a", "", 4, 0, 0, 0);
    put_wl(e, "first", "a", 0, 1, 1, 2);
    put_wl(e, "second", "a", 0, 2, 1, 2);
    put_wl(e, "third", "a", 0, 3, 1, 2);
    free(run(e, 10));
    expect_waits(e, "a", "InQueue 1, PodsReady 1");
    sl_engine_free(e);
}

static void quota_that_nobody_takes_is_seen(void **state) {
    (void)state;
    static const enum sl_strategy strategies[] = {SL_BEST_EFFORT_FIFO, SL_STRICT_FIFO};
    for (size_t i = 0; i < SL_COUNT(strategies); i++) {
        struct sl_engine *e = new_engine();
        assert_false(sl_engine_idle_with_quota(e, "q"));
        struct sl_clusterqueue *q = new_queue("q", NULL, 1);
        q->strategy = strategies[i];
        sl_engine_put_clusterqueue(e, q);
        put_lq(e, "q", "q");
        assert_false(sl_engine_idle_with_quota(e, "q"));
        put_wl(e, "w", "q", 0, 1, 1, 2);
        put_wl(e, "v", "q", 0, 2, 1, 2);
        assert_true(sl_engine_idle_with_quota(e, "q")); /* nobody has looked */
        free(run(e, 10));
        assert_false(sl_engine_idle_with_quota(e, "q")); /* waits for good reason */
        q = new_queue("q", NULL, 2);
        q->strategy = strategies[i];
        sl_engine_put_clusterqueue(e, q);
        assert_true(sl_engine_idle_with_quota(e, "q"));
        free(run(e, 11));
        assert_true(sl_engine_holds_quota(e, "w"));
        assert_false(sl_engine_idle_with_quota(e, "q"));
        q = new_queue("q", NULL, 9);
        q->stop = SL_STOP_HOLD;
        sl_engine_put_clusterqueue(e, q);
        assert_false(sl_engine_idle_with_quota(e, "q")); /* nothing is to move there */
        sl_engine_free(e);
    }
}

/* The numbers of a LocalQueue are about one and the same ClusterQueue. */
static void a_localqueue_that_is_another_now(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_policy(e, "a", NULL, 4, 0, 0, 0);
    put_policy(e, "b", NULL, 4, 0, 0, 0);
    put_wl(e, "w", "a", 0, 1, 1, 2);
    free(run(e, 10));
    sl_engine_del_localqueue(e, "ns", "a");
    put_lq(e, "a", "b");
    put_wl(e, "v", "a", 0, 2, 1, 3);
    free(run(e, 11));
    assert_true(sl_engine_holds_quota(e, "w") && sl_engine_holds_quota(e, "v"));
    struct sl_queue_view v;
    sl_engine_localqueue_view(e, "ns", "a", &v);
    assert_int_equal(v.n_rows, 1);
    assert_int_equal(v.reserving, 1);
    assert_int_equal(v.admitted, 1);
    assert_int_equal(v.rows[0].reserved, 3);
    sl_queue_view_done(&v);
    sl_engine_clusterqueue_view(e, "a", &v);
    assert_int_equal(v.reserving, 1);
    sl_queue_view_done(&v);
    sl_engine_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fungibility),
        cmocka_unit_test(eligibility),
        cmocka_unit_test(strategies),
        cmocka_unit_test(order),
        cmocka_unit_test(backoff),
        cmocka_unit_test(kept_out),
        cmocka_unit_test(failed_write),
        cmocka_unit_test(limit_of_admissions),
        cmocka_unit_test(pods_ready),
        cmocka_unit_test(within_queue),
        cmocka_unit_test(reclaim),
        cmocka_unit_test(while_borrowing),
        cmocka_unit_test(no_fights),
        cmocka_unit_test(fair_preemption),
        cmocka_unit_test(partial),
        cmocka_unit_test(reasons),
        cmocka_unit_test(told_once),
        cmocka_unit_test(skipped_preemptions_are_counted),
        cmocka_unit_test(waits_are_counted_by_why),
        cmocka_unit_test(waits_for_pods_are_counted),
        cmocka_unit_test(quota_that_nobody_takes_is_seen),
        cmocka_unit_test(a_localqueue_that_is_another_now),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
