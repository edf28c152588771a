/* Changes that are looked at and not proposed, because they would not help, and odd engines that are copied to find
 * that out. */
#include "support.h"

static void expect_change(struct sl_engine *e, const char *what, const char *change) {
    SL_AUTO_JSON *why = sl_engine_explain(e, "w");
    const char *got = sl_json_get_str(why, "smallestChange", "");
    if (strcmp(got, change) != 0)
        fail_msg("%s: expected \"%s\", got \"%s\"", what, change, got);
}

static void flavor_that_would_not_help(void **state) {
    (void)state;
    static const struct {
        int64_t asks;
        const char *change;
    } cases[] = {{4, "ResourceFlavor none is created"}, {5, ""}};
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        struct sl_engine *e = new_engine();
        struct sl_clusterqueue *q = new_cq("q", NULL);
        q->groups = one_group("none", GPU, 4, NONE, NONE);
        q->n_groups = 1;
        sl_engine_put_clusterqueue(e, q);
        put_lq(e, "q", "q");
        put_wl(e, "w", "q", 0, 100, 1, cases[i].asks);
        expect_run(e, 100, "pending w");
        expect_change(e, "missing flavor", cases[i].change);
        sl_engine_free(e);
    }
}

/* One of the pod sets asks for nothing at all. */
static void coverage_that_would_not_help(void **state) {
    (void)state;
    for (int two = 0; two < 2; two++) {
        struct sl_engine *e = new_engine();
        put_cq(e, "q", NULL, 4, NONE, NONE);
        put_lq(e, "q", "q");
        struct sl_workload *w = new_wl("w", "q", 0, 100, 1, 1);
        add_request(w, "example.com/a", 1);
        if (two)
            add_request(w, "example.com/b", 1);
        add_podset(w, 1);
        free(w->podsets[1].per_pod.items[0].resource);
        w->podsets[1].per_pod.n = 0;
        sl_engine_put_workload(e, w, 100000);
        expect_run(e, 100, "pending w");
        expect_change(e, "not covered", two ? "" : "a resource group of the ClusterQueue covers example.com/a");
        sl_engine_free(e);
    }
}

/* Whoever finishes, another one takes what becomes free: it is of no use to say who. */
static void others_are_served_first(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "q", "K", 0, NONE, NONE);
    put_cq(e, "y", "K", 0, NONE, NONE);
    put_cq(e, "h", "K", 11, NONE, NONE);
    static const char *const names[] = {"q", "y", "h"};
    for (size_t i = 0; i < SL_COUNT(names); i++)
        put_lq(e, names[i], names[i]);
    for (int i = 0; i < 11; i++) {
        char name[8];
        snprintf(name, sizeof name, "h%d", i);
        hold(e, name, "h", 0, 90, 1);
    }
    put_wl(e, "y", "y", 10, 100, 1, 1);
    put_wl(e, "w", "q", 0, 100, 1, 1);
    SL_AUTO_FREE char *got = run(e, 100);
    assert_null(strstr(got, "admit"));
    expect_change(e, "behind y", "1 more nvidia.com/gpu in flavor f");
    sl_engine_free(e);
}

/* Beside the one that waits: one admitted just now to a queue that has gone since, one to a queue that lists other
 * flavors since, and a LocalQueue of a queue that is not there. */
static void beside_odd_ones(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_flavor(e, "g");
    static const char *const names[] = {"q", "goes", "other"};
    for (size_t i = 0; i < SL_COUNT(names); i++) {
        put_cq(e, names[i], NULL, 4, NONE, NONE);
        put_lq(e, names[i], names[i]);
        put_wl(e, i ? names[i] : "w", names[i], 0, 100, 1, i ? 3 : 6);
    }
    put_lq(e, "lost", "nowhere");
    expect_run(e, 100, "admit goes f=3; admit other f=3; pending w");
    sl_engine_del_localqueue(e, "ns", "goes");
    sl_engine_del_clusterqueue(e, "goes");
    struct sl_clusterqueue *q = new_cq("other", NULL);
    q->groups = one_group("g", GPU, 4, NONE, NONE);
    q->n_groups = 1;
    sl_engine_put_clusterqueue(e, q);
    expect_change(e, "odd ones", "2 more nvidia.com/gpu in flavor f");
    sl_engine_check_invariants(e);
    assert_true(sl_engine_holds_quota(e, "goes") && sl_engine_holds_quota(e, "other"));
    sl_engine_free(e);
}

/* Who keeps quota from here: not a queue of other flavors, and not one that has no limit at all. */
static void kept_by_whom(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_flavor(e, "g");
    put_cq(e, "q", "K", 2, NONE, NONE);
    put_cq(e, "miser", "K", 8, NONE, 1);
    put_cq(e, "rich", "K", SL_UNLIMITED, NONE, 0);
    struct sl_clusterqueue *other = new_cq("g", "K");
    other->groups = one_group("g", GPU, 4, NONE, NONE);
    other->n_groups = 1;
    sl_engine_put_clusterqueue(e, other);
    put_lq(e, "q", "q");
    put_lq(e, "g", "g");
    sl_engine_put_workload(e, holding(new_wl("x", "g", 0, 90, 1, 4), "g", "g", 90), 90000);
    hold(e, "h", "q", 0, 90, 1);
    put_wl(e, "w", "q", 0, 100, 1, 3);
    expect_run(e, 100, "pending w");
    expect_message(e, "w",
                   "free 2 (nominal 2, borrowable 1), 7 kept by lendingLimit 1 of ClusterQueue miser, held by ns/h 1");
    SL_AUTO_JSON *why = sl_engine_explain(e, "w");
    assert_null(strstr(sl_json_get_str(why, "message", ""), "ns/x"));
    assert_non_null(strstr(sl_json_get_str(why, "smallestChange", ""), "of ClusterQueue miser is raised by 1"));
    sl_engine_free(e);
}

/* A Cohort and a queue of one name, both with a limit: both are raised. */
static void cohort_and_queue_of_one_name(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cohort(e, "q", "root", 0, 0, NONE);
    put_cq(e, "q", "q", 2, 1, NONE);
    put_cq(e, "far", "root", 8, NONE, NONE);
    put_lq(e, "q", "q");
    put_lq(e, "far", "far");
    hold(e, "h", "q", 0, 90, 1);
    put_wl(e, "w", "q", 0, 100, 1, 3);
    expect_run(e, 100, "pending w");
    SL_AUTO_JSON *why = sl_engine_explain(e, "w");
    const char *change = sl_json_get_str(why, "smallestChange", "");
    assert_non_null(strstr(change, "borrowingLimit of nvidia.com/gpu in flavor f of Cohort q is raised by 2"));
    assert_non_null(strstr(change, "borrowingLimit of nvidia.com/gpu in flavor f of ClusterQueue q is raised by 1"));
    sl_engine_free(e);
}

/* So many resources are short that nobody would read which: then no limits are named. */
static void too_many_to_name(void **state) {
    (void)state;
    for (int n = 32; n <= 33; n++) {
        struct sl_engine *e = new_engine();
        struct sl_clusterqueue *q = new_queue("q", NULL, 1);
        struct sl_resource_group *g = q->groups;
        g->covered = sl_xrealloc(g->covered, (size_t)n, sizeof *g->covered);
        g->flavors->quotas = sl_xrealloc(g->flavors->quotas, (size_t)n, sizeof *g->flavors->quotas);
        struct sl_workload *w = new_wl("w", "q", 0, 100, 1, 2);
        for (; g->n_covered < (size_t)n; g->n_covered++, g->flavors->n++) {
            char name[32];
            snprintf(name, sizeof name, "example.com/r%zu", g->n_covered);
            g->covered[g->n_covered] = sl_xstrdup(name);
            g->flavors->quotas[g->n_covered] = (struct sl_quota){.resource = sl_xstrdup(name), .nominal = 1};
            add_request(w, name, 2);
        }
        sl_engine_put_clusterqueue(e, q);
        put_lq(e, "q", "q");
        sl_engine_put_workload(e, w, 100000);
        expect_run(e, 100, "pending w");
        SL_AUTO_JSON *why = sl_engine_explain(e, "w");
        assert_int_equal(sl_json_len(sl_json_path(why, "changes.0.raise")), n == 32 ? 32 : 0);
        sl_engine_free(e);
    }
}

static void tolerate(struct sl_podset *p) {
    SL_AUTO_JSON *spec = sl_json_from("{'tolerations':[{'key':'k','operator':'Exists'}]}");
    sl_podset_decode_placement(spec, p);
}

/* Whether w gets in by itself hangs on who of two stops first: when it is y, v takes what w could have. So that it
 * waits is not enough, and what would help in either case is named. */
static void hangs_on_the_order(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_flavor_of(e, "f", "{'nodeTaints':[{'key':'k','effect':'NoSchedule'}]}");
    put_flavor(e, "g");
    static const char *const names[] = {"a", "b", "c"};
    for (size_t i = 0; i < SL_COUNT(names); i++) {
        struct sl_clusterqueue *q = new_queue(names[i], "K", i ? 0 : 2);
        add_flavor(q, "g", i ? 0 : 2);
        q->within_cluster_queue = SL_PREEMPT_LOWER_PRIORITY;
        sl_engine_put_clusterqueue(e, q);
        put_lq(e, names[i], names[i]);
    }
    hold(e, "x", "a", 0, 90, 2);
    sl_engine_put_workload(e, holding(new_wl("y", "a", 0, 91, 1, 2), "a", "g", 91), 91000);
    struct sl_workload *p = new_wl("p", "a", 9, 100, 1, 1), *v = new_wl("v", "b", 5, 100, 1, 1);
    tolerate(&p->podsets[0]);
    add_podset(p, 1);
    tolerate(&v->podsets[0]);
    sl_engine_put_workload(e, p, 100000);
    sl_engine_put_workload(e, v, 100000);
    put_wl(e, "w", "c", 0, 100, 1, 1);
    SL_AUTO_FREE char *got = run(e, 100);
    assert_non_null(strstr(got, "evict x InClusterQueue by p"));
    assert_non_null(strstr(got, "evict y InClusterQueue by p"));
    assert_null(strstr(got, "admit"));
    expect_change(e, "two orders", "a toleration for the taint k of flavor f");
    sl_engine_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flavor_that_would_not_help),
        cmocka_unit_test(coverage_that_would_not_help),
        cmocka_unit_test(others_are_served_first),
        cmocka_unit_test(beside_odd_ones),
        cmocka_unit_test(kept_by_whom),
        cmocka_unit_test(cohort_and_queue_of_one_name),
        cmocka_unit_test(too_many_to_name),
        cmocka_unit_test(hangs_on_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
