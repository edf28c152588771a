/* Branches that the other tests do not reach: numbers at their limits, objects that change at a bad moment, and the
 * worked tables of the scheduling reference (5, 7.5, 7.8) that no scenario has. */
#include "support.h"

/* ---- numbers at their limits ---- */

static void books_after_saturation(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "a", "K", SL_UNLIMITED, NONE, NONE);
    put_cq(e, "b", "K", 0, NONE, NONE);
    put_lq(e, "a", "a");
    put_lq(e, "b", "b");
    put_wl(e, "small", "a", 0, 100, 1, 5);
    put_wl(e, "other", "b", 0, 100, 1, 7);
    expect_run(e, 100, "admit other f=7; admit small f=5");
    put_wl(e, "huge", "a", 0, 101, INT32_MAX, INT64_MAX / 2);
    expect_run(e, 101, "admit huge f=9223372036854775807");
    struct sl_queue_view v;
    sl_engine_clusterqueue_view(e, "a", &v);
    assert_true(v.rows[0].reserved == SL_UNLIMITED);
    sl_queue_view_done(&v);
    sl_engine_del_workload(e, "huge"); /* what is left counts, neither more nor less */
    sl_engine_check_invariants(e);
    sl_engine_clusterqueue_view(e, "a", &v);
    assert_int_equal(v.rows[0].reserved, 5);
    assert_int_equal(v.rows[0].used, 5);
    sl_queue_view_done(&v);
    sl_engine_localqueue_view(e, "ns", "a", &v);
    assert_int_equal(v.rows[0].reserved, 5);
    assert_int_equal(v.rows[0].used, 5);
    sl_queue_view_done(&v);
    struct sl_cohort_view c;
    sl_engine_cohort_view(e, "K", &c);
    assert_int_equal(c.rows[0].reserved, 12);
    sl_cohort_view_done(&c);
    /* with a quota again, only that much is free */
    put_cq(e, "a", "K", 15, NONE, NONE);
    put_wl(e, "fits", "a", 0, 102, 1, 3);
    put_wl(e, "more", "a", 0, 103, 1, 1);
    expect_run(e, 103, "admit fits f=3; pending more");
    sl_engine_del_workload(e, "small");
    sl_engine_del_workload(e, "other");
    sl_engine_del_workload(e, "fits");
    expect_run(e, 104, "admit more f=1");
    sl_engine_clusterqueue_view(e, "a", &v);
    assert_int_equal(v.rows[0].reserved, 1);
    sl_queue_view_done(&v);
    sl_engine_free(e);
}

static struct sl_workload *two_podsets(const char *name, const char *queue, int64_t one, int64_t two) {
    struct sl_workload *w = new_wl(name, queue, 0, 100, 1, one), *x = new_wl(name, queue, 0, 100, 1, two);
    w->podsets = sl_xrealloc(w->podsets, 2, sizeof *w->podsets);
    w->podsets[1] = x->podsets[0];
    free(w->podsets[1].name);
    w->podsets[1].name = sl_xstrdup("workers");
    w->n_podsets = 2;
    w->reclaimable = sl_xrealloc(w->reclaimable, 2, sizeof *w->reclaimable);
    w->reclaimable[0] = w->reclaimable[1] = 0;
    x->n_podsets = 0;
    sl_workload_free(x);
    return w;
}

/* Sums above int64 in one workload: no wrap-around when it is decided, told or explained. */
static void requests_above_everything(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "q", NULL, INT64_MAX - 1, NONE, NONE);
    put_lq(e, "q", "q");
    sl_engine_put_workload(e, two_podsets("two", "q", INT64_MAX - 5, INT64_MAX - 5), 100000);
    put_wl(e, "one", "q", 0, 101, INT32_MAX, INT64_MAX);
    struct sl_decisions d;
    bool more;
    sl_engine_run(e, 101000, 0, &d, &more);
    assert_int_equal(d.n, 2);
    assert_int_equal(d.items[0].kind, SL_DECIDE_PENDING);
    assert_non_null(strstr(d.items[0].message, "pod set workers"));
    assert_non_null(strstr(d.items[0].message, "for earlier pod sets, more than can ever be had here"));
    sl_decisions_done(&d);
    SL_AUTO_JSON *two = sl_engine_explain(e, "two"), *one = sl_engine_explain(e, "one");
    assert_string_equal(sl_json_path_str(two, "podSets.1.flavors.0.verdict", ""), "above the maximum");
    assert_string_equal(sl_json_path_str(one, "podSets.0.flavors.0.verdict", ""), "above the maximum");
    assert_null(sl_json_get(one, "smallestChange")); /* no quota is large enough for both */
    sl_engine_free(e);
}

/* A pod set that may shrink, too large to be counted in full: the smaller count is counted by the pod. */
static void shrinks_from_saturation(void **state) {
    (void)state;
    const int64_t pod = INT64_MAX / 3;
    for (int room = 0; room < 2; room++) {
        struct sl_engine *e = new_engine();
        put_cq(e, "q", NULL, room ? pod : pod - 1, NONE, NONE);
        put_lq(e, "q", "q");
        struct sl_workload *w = new_wl("w", "q", 0, 100, 10, pod);
        w->podsets[0].min_count = 1;
        sl_engine_put_workload(e, w, 100000);
        expect_run(e, 100, room ? "admit w f=3074457345618258602" : "pending w");
        sl_engine_free(e);
    }
}

/* ---- a workload that is edited between the decision and its write ---- */

static void edited_meanwhile(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "q", NULL, 8, NONE, NONE);
    put_cq(e, "p", NULL, 8, NONE, NONE);
    put_lq(e, "q", "q");
    put_lq(e, "p", "p");
    sl_engine_put_workload(e, two_podsets("w", "q", 1, 2), 100000);
    expect_run(e, 100, "admit w f=1 f=2");
    struct sl_workload *w = new_wl("w", "q", 0, 100, 1, 4); /* one pod set now, and another amount */
    w->generation = 2;
    sl_engine_put_workload(e, w, 101000);
    sl_engine_write_failed(e, "w", false); /* the write met the newer object */
    expect_run(e, 101, "admit w f=4");
    w = new_wl("w", "p", 0, 100, 1, 4); /* once more, to another queue */
    w->generation = 3;
    sl_engine_put_workload(e, w, 102000);
    sl_engine_write_failed(e, "w", false);
    expect_run(e, 102, "admit w f=4");
    assert_int_equal(sl_engine_clusterqueue_holders(e, "q"), 0);
    assert_int_equal(sl_engine_clusterqueue_holders(e, "p"), 1);
    w = new_wl("w", "q", 0, 100, 1, 4); /* and back, seen first without and then with the quota that was written */
    w->generation = 4;
    sl_engine_put_workload(e, w, 103000);
    w = new_wl("w", "q", 0, 100, 1, 4);
    w->generation = 4;
    sl_engine_put_workload(e, holding(w, "p", "f", 102), 104000);
    struct sl_queue_view v;
    sl_engine_localqueue_view(e, "ns", "p", &v);
    assert_int_equal(v.reserving, 0);
    sl_queue_view_done(&v);
    sl_engine_localqueue_view(e, "ns", "q", &v);
    assert_int_equal(v.reserving,
                     0); /* it is in this LocalQueue, with quota of a ClusterQueue that is not this one's */
    sl_queue_view_done(&v);
    put_lq(e, "q", "p");
    sl_engine_localqueue_view(e, "ns", "q", &v);
    assert_int_equal(v.reserving, 1);
    sl_queue_view_done(&v);
    sl_engine_check_invariants(e);
    sl_engine_free(e);
}

/* A queue that lends a part of all there is keeps everything for itself: what it takes when it has taken everything is
 * asked of its Cohort (2.2, the trap), and comes back when the books can be summed up again. */
static void lender_of_a_part_of_everything(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "q", "K", SL_UNLIMITED, NONE, 10);
    put_cq(e, "p", "K", SL_UNLIMITED, NONE, NONE);
    put_lq(e, "q", "q");
    put_wl(e, "all", "q", 0, 100, 1, INT64_MAX);
    expect_run(e, 100, "admit all f=9223372036854775807");
    sl_engine_check_invariants(e);
    put_wl(e, "more", "q", 0, 101, 1, 10);
    expect_run(e, 101, "admit more f=10");
    sl_engine_check_invariants(e);
    sl_engine_del_workload(e, "all");
    expect_run(e, 102, "");
    sl_engine_check_invariants(e);
    struct sl_cohort_view c;
    sl_engine_cohort_view(e, "K", &c);
    assert_int_equal(c.rows[0].reserved, 0);
    sl_cohort_view_done(&c);
    sl_engine_free(e);
}

/* The sum at a Cohort can be at its limit although no queue's is. */
static void cohort_after_saturation(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "a", "K", 0, NONE, NONE);
    put_cq(e, "b", "K", SL_UNLIMITED, NONE, NONE);
    put_lq(e, "a", "a");
    put_lq(e, "b", "b");
    put_wl(e, "one", "a", 0, 100, 1, INT64_MAX - 1);
    expect_run(e, 100, "admit one f=9223372036854775806");
    struct sl_workload *w = holding(new_wl("two", "b", 0, 100, 1, INT64_MAX - 1), "b", "f", 100);
    sl_engine_put_workload(e, w, 100000);
    put_wl(e, "three", "b", 0, 101, 1, 1);
    expect_run(e, 101, "pending three"); /* everything there is, is used */
    sl_engine_del_workload(e, "one");
    sl_engine_check_invariants(e);
    expect_run(e, 102, "admit three f=1");
    struct sl_cohort_view c;
    sl_engine_cohort_view(e, "K", &c);
    assert_true(c.rows[0].reserved == SL_UNLIMITED); /* 2^63 - 2 and 1 */
    sl_cohort_view_done(&c);
    /* not admitted any more, then again: both kept apart in the books */
    w = holding(new_wl("two", "b", 0, 100, 1, INT64_MAX - 1), "b", "f", 100);
    w->admitted.status = SL_TRI_FALSE;
    sl_engine_put_workload(e, w, 103000);
    sl_engine_check_invariants(e);
    struct sl_queue_view v;
    sl_engine_localqueue_view(e, "ns", "b", &v);
    assert_int_equal(v.rows[0].used, 1);
    assert_int_equal(v.admitted, 1);
    assert_int_equal(v.reserving, 2);
    sl_queue_view_done(&v);
    sl_engine_free(e);
}

/* ---- flavors that will not do, and what is said of them ---- */

static struct sl_node_term *term(const char *key, const char *value) {
    struct sl_node_term *t = sl_xalloc(sizeof *t);
    t->items = sl_xalloc(sizeof *t->items);
    t->n = 1;
    t->items->key = sl_xstrdup(key);
    t->items->op = SL_SEL_IN;
    t->items->values = sl_xalloc(sizeof(char *));
    t->items->values[0] = sl_xstrdup(value);
    t->items->n = 1;
    return t;
}

static void flavors_refused(void **state) {
    (void)state;
    static const struct {
        const char *flavor, *tolerations;
        int affinity; /* 1: cannot be read, 2: that and a term that does not match, 3: that and one that does */
        const char *verdict, *message, *change;
    } cases[] = {
        {"{'nodeTaints':[{'key':'k','value':'v','effect':'NoExecute'}]}", "{}", 0, "taint not tolerated",
         "flavor f: taint k=v:NoExecute is not tolerated", "a toleration for the taint k of flavor f"},
        {"{'nodeTaints':[{'key':'k','effect':'NoSchedule'}]}",
         "{'tolerations':[{'key':'other','operator':'Exists'},{'key':'k','operator':'Equal','value':'v'}]}", 0,
         "taint not tolerated", "flavor f: taint k:NoSchedule is not tolerated", "a toleration for"},
        {"{'nodeTaints':[{'key':'k','effect':'PreferNoSchedule'}]}", "{}", 0, NULL, NULL, NULL},
        {"{'nodeTaints':[{'key':'k','effect':'NoSchedule'},{'key':'l','effect':'"
         "NoExecute'}],"
         "'tolerations':[{'key':'x','operator':'Exists'},{'key':'k','operator':'Exists'},{'operator':'Exists'}]}",
         "{'tolerations':[{'key':'k','operator':'Exists'},{'key':'z','operator':'Exists'}]}", 0, NULL, NULL, NULL},
        {"{'nodeLabels':{'zone':'a'}}", "{}", 1, "affinity cannot be read",
         "flavor f: the node affinity cannot be read", NULL},
        {"{'nodeLabels':{'zone':'a'}}", "{}", 2, "affinity cannot be read",
         "flavor f: the node affinity cannot be read", NULL},
        {"{'nodeLabels':{'zone':'b'}}", "{}", 3, NULL, NULL, NULL},
        {"{'nodeLabels':{'zone':'a'}}", "{'nodeSelector':{'zone':'b'}}", 0, "affinity does not match",
         "its node labels do not match", NULL},
    };
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        struct sl_engine *e = new_engine();
        put_flavor_of(e, "f", cases[i].flavor);
        put_cq(e, "q", NULL, 4, NONE, NONE);
        put_lq(e, "q", "q");
        struct sl_workload *w = new_wl("w", "q", 0, 100, 1, 1);
        SL_AUTO_JSON *spec = sl_json_from(cases[i].tolerations);
        sl_podset_decode_placement(spec, &w->podsets[0]);
        w->podsets[0].affinity_invalid = cases[i].affinity != 0;
        if (cases[i].affinity > 1) {
            w->podsets[0].affinity = term("zone", "b");
            w->podsets[0].n_affinity = 1;
        }
        sl_engine_put_workload(e, w, 100000);
        SL_AUTO_FREE char *got = run(e, 100);
        assert_string_equal(got, cases[i].verdict ? "pending w" : "admit w f=1");
        SL_AUTO_JSON *why = sl_engine_explain(e, "w");
        if (cases[i].verdict) {
            assert_string_equal(sl_json_path_str(why, "podSets.0.flavors.0.verdict", ""), cases[i].verdict);
            assert_non_null(strstr(sl_json_get_str(why, "message", ""), cases[i].message));
        }
        if (cases[i].change)
            assert_non_null(strstr(sl_json_get_str(why, "smallestChange", ""), cases[i].change));
        sl_engine_free(e);
    }
}

static void flavor_missing(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    struct sl_clusterqueue *q = new_cq("q", NULL);
    q->groups = one_group("none", GPU, 4, NONE, NONE);
    q->n_groups = 1;
    sl_engine_put_clusterqueue(e, q);
    put_lq(e, "q", "q");
    put_wl(e, "w", "q", 0, 100, 1, 1);
    expect_run(e, 100, "pending w");
    SL_AUTO_JSON *why = sl_engine_explain(e, "w");
    assert_non_null(strstr(sl_json_get_str(why, "message", ""), "ResourceFlavor none does not exist"));
    assert_string_equal(sl_json_path_str(why, "podSets.0.flavors.0.verdict", ""), "flavor missing");
    assert_string_equal(sl_json_get_str(why, "smallestChange", ""), "ResourceFlavor none is created");
    sl_engine_free(e);
}

/* An affinity that cannot be read ends the search: what the second flavor says does not count. */
static void unreadable_affinity_ends_it(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_flavor_of(e, "f", "{'nodeLabels':{'zone':'a'}}");
    put_flavor(e, "g");
    struct sl_clusterqueue *q = new_cq("q", NULL);
    q->groups = one_group("f", GPU, 4, NONE, NONE);
    struct sl_resource_group *g = one_group("g", GPU, 4, NONE, NONE);
    q->groups->flavors = sl_xrealloc(q->groups->flavors, 2, sizeof *q->groups->flavors);
    q->groups->flavors[1] = g->flavors[0];
    q->groups->n_flavors = 2;
    free(g->flavors);
    free(g->covered[0]);
    free(g->covered);
    free(g);
    q->n_groups = 1;
    sl_engine_put_clusterqueue(e, q);
    put_lq(e, "q", "q");
    struct sl_workload *w = new_wl("w", "q", 0, 100, 1, 1);
    w->podsets[0].affinity_invalid = true;
    sl_engine_put_workload(e, w, 100000);
    expect_run(e, 100, "pending w");
    w = new_wl("w", "q", 0, 100, 1, 1);
    sl_engine_put_workload(e, w, 101000);
    expect_run(e, 101, "admit w f=1");
    sl_engine_free(e);
}

/* ---- Cohorts in a circle ---- */

static void circle(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cohort(e, "A", NULL, 2, NONE, NONE);
    put_cohort(e, "B", "A", 2, NONE, NONE);
    for (int i = 0; i < 10; i++) {
        char name[8];
        snprintf(name, sizeof name, "q%d", i);
        put_cq(e, name, "B", 1, NONE, NONE);
        put_lq(e, name, name);
    }
    sl_engine_put_workload(e, holding(new_wl("h", "q0", 0, 90, 1, 3), "q0", "f", 90), 90000);
    put_wl(e, "w", "q1", 0, 100, 1, 20);
    expect_run(e, 100, "pending w");
    put_cohort(e, "A", "B", 2, NONE, NONE);
    sl_engine_check_invariants(e);
    expect_run(e, 101, "pending w");
    struct sl_cohort_view c;
    sl_engine_cohort_view(e, "A", &c);
    assert_true(c.in_cycle);
    assert_string_equal(c.root, "");
    sl_cohort_view_done(&c);
    SL_AUTO_JSON *why = sl_engine_explain(e, "w");
    assert_non_null(strstr(sl_json_get_str(why, "message", ""), "form a cycle"));
    struct sl_queue_view v;
    sl_engine_clusterqueue_view(e, "q1", &v);
    assert_string_equal(v.inactive_reason, "CohortCycle");
    assert_string_equal(v.root_cohort, "");
    assert_true(v.weighted_share == 0);
    sl_queue_view_done(&v);
    /* what holds quota changes meanwhile: a flavor that no queue lists, one that goes, one that comes */
    sl_engine_put_workload(e, holding(new_wl("odd", "q0", 0, 90, 1, 1), "q0", "old", 90), 102000);
    sl_engine_put_workload(e, holding(new_wl("h2", "q0", 0, 90, 1, 1), "q0", "f", 90), 102000);
    sl_engine_del_workload(e, "h");
    put_wl(e, "w2", "q2", 0, 102, 1, 1);
    expect_run(e, 102, "pending w2");
    sl_engine_check_invariants(e);
    sl_engine_write_failed(e, "h2", false); /* nothing was sent */
    put_flavor_of(e, "f", "{'nodeLabels':{'zone':'a'}}");
    put_cohort(e, "A", NULL, 2, NONE, NONE); /* and the circle is open again */
    SL_AUTO_FREE char *got = run(e, 103);
    assert_non_null(strstr(got, "admit w2 f=1"));
    sl_engine_cohort_view(e, "A", &c);
    assert_false(c.in_cycle);
    assert_int_equal(c.rows[0].reserved, 2);
    assert_int_equal(c.rows[0].nominal, 14);
    sl_cohort_view_done(&c);
    put_cohort(e, "C", "C", 1, NONE, NONE); /* its own parent */
    sl_engine_cohort_view(e, "C", &c);
    assert_true(c.in_cycle);
    sl_cohort_view_done(&c);
    sl_engine_del_cohort(e, "C");
    sl_engine_check_invariants(e);
    sl_engine_free(e);
}

/* ---- queues that are stopped or go ---- */

static void stopped(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "q", NULL, 4, NONE, NONE);
    put_lq_as(e, "q", "q", SL_STOP_HOLD, false);
    put_wl(e, "w", "q", 0, 100, 1, 1);
    expect_run(e, 100, "pending w");
    expect_message(e, "w", "LocalQueue q is stopped");
    put_lq_as(e, "q", "q", SL_STOP_HOLD_AND_DRAIN, false);
    expect_message(e, "w", "LocalQueue q is stopped");
    struct sl_queue_view v;
    sl_engine_localqueue_view(e, "ns", "q", &v);
    assert_int_equal(v.pending_active + v.pending_inadmissible, 0);
    sl_queue_view_done(&v);
    put_lq_as(e, "q", "q", SL_STOP_NONE, true);
    expect_run(e, 101, "pending w");
    expect_message(e, "w", "LocalQueue q is being deleted");
    put_lq_as(e, "q", "", SL_STOP_NONE, false); /* names no ClusterQueue */
    expect_message(e, "w", "does not exist");
    sl_engine_localqueue_view(e, "ns", "q", &v);
    assert_true(v.exists && v.n_rows == 0);
    assert_int_equal(v.pending_inadmissible, 1);
    sl_queue_view_done(&v);
    SL_AUTO_FREE char *told = run(e, 102);
    assert_string_equal(told, "pending w");
    static const enum sl_stop_policy policies[] = {SL_STOP_HOLD, SL_STOP_HOLD_AND_DRAIN, SL_STOP_NONE};
    put_lq(e, "q", "q");
    for (size_t i = 0; i < SL_COUNT(policies); i++) {
        struct sl_clusterqueue *q = new_cq("q", NULL);
        q->groups = one_group("f", GPU, 4, NONE, NONE);
        q->n_groups = 1;
        q->stop = policies[i];
        q->deleting = policies[i] == SL_STOP_NONE;
        sl_engine_put_clusterqueue(e, q);
        SL_AUTO_FREE char *got = run(e, 103 + (int64_t)i);
        assert_string_equal(got, "pending w");
        expect_message(e, "w",
                       i == 0   ? "stopPolicy Hold)"
                       : i == 1 ? "stopPolicy HoldAndDrain"
                                : "it is being deleted");
        sl_engine_localqueue_view(e, "ns", "q", &v);
        assert_int_equal(v.pending_inadmissible, 1);
        assert_string_equal(v.inactive_reason, i < 2 ? "Stopped" : "Terminating");
        sl_queue_view_done(&v);
    }
    put_cq(e, "q", NULL, 4, NONE, NONE);
    expect_run(e, 110, "admit w f=1");
    sl_engine_free(e);
}

/* Names nobody knows. */
static void unknown(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    sl_engine_free(NULL);
    sl_engine_del_clusterqueue(e, "x");
    sl_engine_del_cohort(e, "x");
    sl_engine_del_flavor(e, "x");
    sl_engine_del_check(e, "x");
    sl_engine_del_localqueue(e, "ns", "x");
    sl_engine_del_workload(e, "x");
    sl_engine_del_namespace(e, "x");
    sl_engine_write_failed(e, "x", true);
    struct sl_queue_view v;
    sl_engine_clusterqueue_view(e, "x", &v);
    assert_false(v.exists);
    sl_engine_localqueue_view(e, "ns", "x", &v);
    assert_false(v.exists);
    struct sl_cohort_view c;
    sl_engine_cohort_view(e, "x", &c);
    assert_false(c.exists);
    assert_false(sl_engine_holds_quota(e, "x"));
    assert_int_equal(sl_engine_clusterqueue_holders(e, "x"), 0);
    assert_false(sl_engine_flavor_in_use(e, "x"));
    const struct sl_workload **list;
    assert_int_equal(sl_engine_pending(e, "x", &list), 0);
    free(list);
    /* named by others, but not there themselves */
    put_lq(e, "q", "x");
    put_wl(e, "w", "l", 0, 100, 1, 1);
    put_cq(e, "y", "x", 1, NONE, NONE);
    struct sl_clusterqueue *q = new_cq("z", NULL); /* no groups at all */
    sl_engine_put_clusterqueue(e, q);
    put_lq(e, "z", "z");
    sl_engine_del_clusterqueue(e, "x");
    sl_engine_del_cohort(e, "x");
    sl_engine_del_flavor(e, "g");
    sl_engine_del_localqueue(e, "ns", "l");
    sl_engine_clusterqueue_view(e, "x", &v);
    assert_false(v.exists);
    sl_engine_localqueue_view(e, "ns", "l", &v);
    assert_false(v.exists);
    sl_engine_cohort_view(e, "x", &c);
    assert_true(c.exists && !c.explicit_object);
    sl_cohort_view_done(&c);
    sl_engine_del_localqueue(e, "ns", "q");
    sl_engine_clusterqueue_view(e, "z", &v);
    assert_true(v.exists && v.n_rows == 0);
    sl_queue_view_done(&v);
    struct sl_decisions d;
    sl_engine_run(e, 100000, 0, &d, NULL);
    assert_int_equal(d.n, 1);
    sl_decisions_done(&d);
    assert_int_equal(sl_engine_pending(e, "y", &list), 0);
    free(list);
    sl_engine_check_invariants(e);
    sl_engine_free(e);
}

/* ---- what would have to change ---- */

static void add_flavors(struct sl_clusterqueue *q, const char *resource, const char *const *names, const int64_t *noms,
                        size_t n) {
    struct sl_resource_group *g = &q->groups[0];
    g->flavors = sl_xrealloc(g->flavors, g->n_flavors + n, sizeof *g->flavors);
    for (size_t i = 0; i < n; i++) {
        struct sl_resource_group *x = one_group(names[i], resource, noms[i], NONE, NONE);
        g->flavors[g->n_flavors++] = x->flavors[0];
        free(x->flavors);
        free(x->covered[0]);
        free(x->covered);
        free(x);
    }
}

static void smallest_changes(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_flavor(e, "g");
    put_flavor(e, "h");
    struct sl_clusterqueue *q = new_cq("q", NULL);
    q->groups = one_group("f", GPU, 2, NONE, NONE);
    q->n_groups = 1;
    add_flavors(q, GPU, (const char *const[]){"g", "h"}, (const int64_t[]){6, 4}, 2);
    sl_engine_put_clusterqueue(e, q);
    put_lq(e, "q", "q");
    sl_engine_put_workload(e, holding(new_wl("a", "q", 0, 90, 1, 3), "q", "g", 90), 90000);
    sl_engine_put_workload(e, holding(new_wl("b", "q", 0, 90, 1, 2), "q", "g", 90), 90000);
    sl_engine_put_workload(e, holding(new_wl("c", "q", 0, 90, 1, 3), "q", "h", 90), 90000);
    sl_engine_put_workload(e, holding(new_wl("d", "q", 0, 90, 1, 3), "q", "h", 90), 90000);
    struct sl_workload *idle = holding(new_wl("idle", "q", 0, 90, 1, 3), "q", "f", 90);
    for (size_t i = 0; i < idle->admission->podsets[0].n_flavors; i++) {
        free(idle->admission->podsets[0].flavors[i].resource);
        free(idle->admission->podsets[0].flavors[i].flavor);
    }
    idle->admission->podsets[0].n_flavors = 0;
    sl_engine_put_workload(e, idle, 90000);
    sl_engine_check_invariants(e);
    /* three fit once b is gone, or a, which is larger; in f the quota is one short */
    put_wl(e, "w", "q", 0, 100, 1, 3);
    SL_AUTO_FREE char *got = run(e, 100);
    assert_string_equal(got, "pending w");
    SL_AUTO_JSON *why = sl_engine_explain(e, "w");
    assert_string_equal(sl_json_get_str(why, "smallestChange", ""),
                        "workload ns/b finishes, or 1 more nvidia.com/gpu in flavor f");
    /* two pod sets of which the first fits */
    sl_engine_put_workload(e, two_podsets("v", "q", 1, 6), 101000);
    SL_AUTO_FREE char *more = run(e, 101);
    assert_string_equal(more, "pending v");
    SL_AUTO_JSON *two = sl_engine_explain(e, "v");
    assert_string_equal(sl_json_path_str(two, "podSets.0.flavors.0.verdict", ""), "fits");
    assert_non_null(strstr(sl_json_get_str(two, "message", ""), "pod set workers: flavor f"));
    assert_null(strstr(sl_json_get_str(two, "message", ""), "pod set main"));
    /* a queue that stops while it is its turn; unreserved ones; one that only has quota */
    struct sl_workload *x = holding(new_wl("a", "q", 0, 90, 1, 3), "q", "g", 90);
    x->admitted.status = SL_TRI_FALSE;
    sl_engine_put_workload(e, x, 102000);
    SL_AUTO_JSON *held = sl_engine_explain(e, "a");
    assert_string_equal(sl_json_get_str(held, "state", ""), "QuotaReserved");
    sl_engine_free(e);
}

/* ---- admissions that the workload's own pod sets do not match word for word ---- */

static void odd_admissions(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cohort(e, "R", NULL, 0, NONE, NONE);
    put_cohort(e, "K", "R", 0, NONE, NONE);
    put_cq(e, "q", "K", 9, NONE, NONE);
    put_cq(e, "p", "K", 9, NONE, NONE);
    put_lq(e, "q", "q");
    /* pod sets in another order, with pods that are done */
    struct sl_workload *w = two_podsets("w", "q", 1, 2);
    w->podsets[0].count = 4;
    w->podsets[1].count = 3;
    w->reclaimable[0] = 1;
    holding(w, "q", "f", 100);
    struct sl_podset_assignment first = w->admission->podsets[0];
    w->admission->podsets[0] = w->admission->podsets[1];
    w->admission->podsets[1] = first;
    sl_engine_put_workload(e, w, 100000);
    struct sl_queue_view v;
    sl_engine_clusterqueue_view(e, "q", &v);
    assert_int_equal(v.rows[0].reserved, 6 + 3);
    sl_queue_view_done(&v);
    /* the same again, one more done; then a count of 0 */
    w = two_podsets("w", "q", 1, 2);
    w->podsets[0].count = 4;
    w->podsets[1].count = 3;
    w->reclaimable[0] = 2;
    sl_engine_put_workload(e, holding(w, "q", "f", 100), 101000);
    sl_engine_clusterqueue_view(e, "q", &v);
    assert_int_equal(v.rows[0].reserved, 6 + 2);
    sl_queue_view_done(&v);
    w = two_podsets("w", "q", 1, 2);
    w->podsets[0].count = 4;
    w->podsets[1].count = 3;
    w->reclaimable[0] = 2;
    holding(w, "q", "f", 100);
    w->admission->podsets[0].count = 0;
    w->podsets[0].count = 1;
    sl_engine_put_workload(e, w, 102000);
    sl_engine_clusterqueue_view(e, "q", &v);
    assert_int_equal(v.rows[0].reserved, 6);
    sl_queue_view_done(&v);
    sl_engine_check_invariants(e);
    /* only the amounts were edited: counted as they are now */
    for (int amount = 3; amount <= 4; amount++) {
        w = holding(new_wl("x", "q", 0, 100, 1, 3), "q", "f", 100);
        w->admission->podsets[0].flavors[0].amount = amount;
        sl_engine_put_workload(e, w, 103000);
        sl_engine_clusterqueue_view(e, "q", &v);
        assert_int_equal(v.rows[0].reserved, 6 + amount);
        sl_queue_view_done(&v);
    }
    /* a flavor that no queue lists, in two queues of one Cohort */
    sl_engine_put_workload(e, holding(new_wl("y", "q", 0, 100, 1, 1), "q", "old", 100), 104000);
    sl_engine_check_invariants(e);
    sl_engine_put_workload(e, holding(new_wl("z", "q", 0, 100, 1, 1), "p", "old", 100), 104000);
    sl_engine_check_invariants(e);
    /* seen again without its quota, and a while later with it */
    put_wl(e, "new", "q", 0, 105, 1, 1);
    expect_run(e, 105, "admit new f=1");
    w = new_wl("new", "q", 0, 105, 1, 1);
    w->quota_reserved = (struct sl_condition_view){SL_TRI_FALSE, 105000, sl_xstrdup("Pending")};
    sl_engine_put_workload(e, w, 105500); /* said before */
    assert_true(sl_engine_holds_quota(e, "new"));
    w = new_wl("new", "q", 0, 105, 1, 1);
    w->quota_reserved = (struct sl_condition_view){SL_TRI_FALSE, 107000, sl_xstrdup("Pending")};
    sl_engine_put_workload(e, w, 107000); /* said after */
    assert_false(sl_engine_holds_quota(e, "new"));
    expect_run(e, 107, "admit new f=1");
    sl_engine_put_workload(e, holding(new_wl("new", "q", 0, 105, 1, 1), "q", "f", 108), 108000);
    sl_engine_put_workload(e, holding(new_wl("new", "q", 0, 105, 1, 1), "q", "f", 109), 109000);
    sl_engine_write_failed(e, "new", false); /* nothing was under way */
    assert_true(sl_engine_holds_quota(e, "new"));
    sl_engine_check_invariants(e);
    sl_engine_free(e);
}

/* ---- bookmarks that are out of date ---- */

static struct sl_workload *two_of(int64_t one, int64_t two, int64_t priority) {
    struct sl_workload *w = two_podsets("w", "q", one, two);
    w->priority = priority;
    return w;
}

static void old_bookmarks(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_flavor(e, "g");
    struct sl_clusterqueue *q = new_cq("q", "K");
    q->groups = one_group("f", GPU, 2, NONE, NONE);
    q->n_groups = 1;
    add_flavors(q, GPU, (const char *const[]){"g"}, (const int64_t[]){1}, 1);
    sl_engine_put_clusterqueue(e, q);
    put_lq(e, "q", "q");
    /* at rest without a way: the next attempt starts with the first flavor */
    sl_engine_put_workload(e, two_of(1, 3, 0), 100000);
    expect_run(e, 100, "pending w");
    struct wl *w = sl_map_get(&e->workloads, "w");
    assert_false(bookmark_pending(w));
    struct assignment a = {.n_done = 0};
    assignment_bookmark(e, w, &a, 1);
    assert_false(bookmark_pending(w)); /* says "start over" everywhere: none */
    w->bookmark = sl_xalloc(sizeof *w->bookmark + 2 * sizeof w->bookmark->last[0]);
    *w->bookmark =
        (struct bookmark){.cycle = w->cq->node.tree->cycle, .gen = w->cq->gen, .shape = w->shape->id, .n = 2};
    bookmark_drop_stale(e, w, w->cq->node.tree->cycle + 1);
    assert_true(bookmark_pending(w)); /* of the last cycle */
    bookmark_drop_stale(e, w, w->cq->node.tree->cycle + 5);
    assert_true(bookmark_pending(w)); /* older, but nothing has changed */
    w->cq->gen++;
    bookmark_drop_stale(e, w, w->cq->node.tree->cycle + 1);
    assert_true(bookmark_pending(w));
    bookmark_drop_stale(e, w, w->cq->node.tree->cycle + 2);
    assert_false(bookmark_pending(w));
    w->bookmark = sl_xalloc(sizeof *w->bookmark + 2 * sizeof w->bookmark->last[0]);
    *w->bookmark =
        (struct bookmark){.cycle = w->cq->node.tree->cycle, .gen = w->cq->gen, .shape = w->shape->id + 1, .n = 2};
    bookmark_drop_stale(e, w, w->cq->node.tree->cycle);
    assert_false(bookmark_pending(w)); /* of what it was before it was edited */
    w->bookmark = sl_xalloc(sizeof *w->bookmark + 3 * sizeof w->bookmark->last[0]);
    *w->bookmark =
        (struct bookmark){.cycle = w->cq->node.tree->cycle, .gen = w->cq->gen, .shape = w->shape->id, .n = 3};
    e->log_on = true;
    assert_int_equal(assign(e, w, NULL, true, NULL)->mode, MODE_NOFIT); /* of another number of pod sets: not read */
    undo_to(e, 0);
    e->log_on = false;
    bookmark_drop_stale(e, w, w->cq->node.tree->cycle);
    assert_false(bookmark_pending(w));
    struct sl_workload *none = new_wl("none", "q", 9, 100, 1, 1); /* no pod sets: nothing to admit */
    free(none->podsets[0].name);
    free(none->podsets[0].per_pod.items[0].resource);
    free(none->podsets[0].per_pod.items);
    none->n_podsets = 0;
    sl_engine_put_workload(e, none, 101000);
    expect_run(e, 101, "pending none");
    sl_engine_free(e);
}

/* ---- a preemptor that waits at the head ---- */

static void waits_at_the_head(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    struct sl_clusterqueue *q = new_cq("q", NULL);
    q->groups = one_group("f", GPU, 2, NONE, NONE);
    q->n_groups = 1;
    q->within_cluster_queue = SL_PREEMPT_LOWER_PRIORITY;
    sl_engine_put_clusterqueue(e, q);
    put_lq(e, "q", "q");
    sl_engine_put_workload(e, holding(new_wl("x", "q", 0, 90, 1, 2), "q", "f", 90), 90000);
    put_wl(e, "w", "q", 10, 100, 1, 2);
    expect_run(e, 100, "evict x InClusterQueue by w; pending w");
    put_wl(e, "higher", "q", 20, 101, 1, 2); /* comes too late: it waits behind */
    SL_AUTO_FREE char *got = run(e, 101);
    assert_null(strstr(got, "evict"));
    const struct sl_workload **list;
    assert_int_equal(sl_engine_pending(e, "q", &list), 2);
    assert_string_equal(list[0]->name, "w");
    free(list);
    struct sl_workload *other = new_wl("w", "q", 10, 100, 1, 2);
    other->generation = 2; /* edited: it gives up its place */
    sl_engine_put_workload(e, other, 102000);
    assert_int_equal(sl_engine_pending(e, "q", &list), 2);
    assert_string_equal(list[0]->name, "higher");
    free(list);
    sl_engine_del_workload(e, "x");
    expect_run(e, 103, "admit higher f=2; pending w");
    /* its LocalQueue goes to another ClusterQueue */
    put_cq(e, "p", NULL, 0, NONE, NONE);
    put_lq(e, "q", "p");
    expect_run(e, 104, "pending w");
    assert_int_equal(sl_engine_pending(e, "q", &list), 0);
    free(list);
    assert_int_equal(sl_engine_pending(e, "p", &list), 1);
    free(list);
    sl_engine_check_invariants(e);
    sl_engine_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(books_after_saturation),
        cmocka_unit_test(requests_above_everything),
        cmocka_unit_test(shrinks_from_saturation),
        cmocka_unit_test(edited_meanwhile),
        cmocka_unit_test(cohort_after_saturation),
        cmocka_unit_test(lender_of_a_part_of_everything),
        cmocka_unit_test(flavors_refused),
        cmocka_unit_test(flavor_missing),
        cmocka_unit_test(unreadable_affinity_ends_it),
        cmocka_unit_test(circle),
        cmocka_unit_test(stopped),
        cmocka_unit_test(unknown),
        cmocka_unit_test(smallest_changes),
        cmocka_unit_test(odd_admissions),
        cmocka_unit_test(old_bookmarks),
        cmocka_unit_test(waits_at_the_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
