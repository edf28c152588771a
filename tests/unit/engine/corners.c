/* Corners of the cycle, of preemption and of fair sharing that only few histories turn. */
#include "support.h"

#include <math.h>

/* ---- numbers ---- */

static void arithmetic(void **state) {
    (void)state;
    static const struct {
        int64_t a, b, sum, difference;
    } cases[] = {
        {1, 2, 3, -1},
        {SL_UNLIMITED, 5, SL_UNLIMITED, SL_UNLIMITED},
        {5, SL_UNLIMITED, SL_UNLIMITED, INT64_MIN},
        {SL_UNLIMITED, SL_UNLIMITED, SL_UNLIMITED, 0},
        {INT64_MAX - 1, 2, INT64_MAX, INT64_MAX - 3},
        {INT64_MIN + 1, -2, INT64_MIN, INT64_MIN + 3},
        {INT64_MIN + 1, 2, INT64_MIN + 3, INT64_MIN},
        {INT64_MAX - 1, -2, INT64_MAX - 3, INT64_MAX},
        {INT64_MIN, INT64_MIN, INT64_MIN, 0},
    };
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        assert_true(amt_add(cases[i].a, cases[i].b) == cases[i].sum);
        assert_true(amt_sub(cases[i].a, cases[i].b) == cases[i].difference);
    }
}

/* ---- pod sets ---- */

/* Section 6: one that is done already stays so, one that may not shrink keeps its pods. */
static void shrinks_only_what_may(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "q", NULL, 7, NONE, NONE);
    put_lq(e, "q", "q");
    struct sl_workload *w = new_wl("w", "q", 0, 100, 2, 1);
    w->reclaimable[0] = 2;
    add_podset(w, 1);
    w->podsets[1].count = 10;
    w->podsets[1].min_count = 4;
    add_podset(w, 1);
    w->podsets[2].min_count = 1;
    sl_engine_put_workload(e, w, 100000);
    struct sl_decisions d;
    sl_engine_run(e, 100000, 0, &d, NULL);
    assert_int_equal(d.n, 1);
    assert_int_equal(d.items[0].kind, SL_DECIDE_ADMIT);
    static const int32_t counts[] = {0, 6, 1};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(d.items[0].admission->podsets[i].count, counts[i]);
        assert_int_equal(d.items[0].admission->podsets[i].flavors[0].amount, counts[i]);
    }
    sl_decisions_done(&d);
    sl_decisions_done(&d); /* once more does nothing */
    sl_engine_check_invariants(e);
    sl_engine_free(e);
}

/* 1.7: the number of pods takes the place of what a request of that name says. */
static void pods_by_number(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    struct sl_clusterqueue *q = new_cq("q", NULL);
    q->groups = one_group("f", "pods", 5, NONE, NONE);
    q->n_groups = 1;
    sl_engine_put_clusterqueue(e, q);
    put_lq(e, "q", "q");
    struct sl_workload *w = new_wl("w", "q", 0, 100, 3, 0);
    add_request(w, "pods", 2);
    sl_engine_put_workload(e, w, 100000);
    expect_run(e, 100, "admit w f=3");
    sl_engine_free(e);
}

/* A resource that nobody covers, and of which nothing is asked, is no obstacle to preemption. */
static void nothing_of_the_undeclared(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_policy(e, "q", NULL, 4, SL_PREEMPT_LOWER_PRIORITY, SL_PREEMPT_NEVER, SL_PREEMPT_NEVER);
    hold(e, "low", "q", 0, 90, 3);
    struct sl_workload *w = new_wl("w", "q", 10, 100, 1, 2);
    add_request(w, "example.com/none", 0);
    sl_engine_put_workload(e, w, 100000);
    expect_run(e, 100, "evict low InClusterQueue by w; pending w");
    sl_engine_free(e);
}

/* ---- bookmarks ---- */

/* 5.6: the bookmark of a workload whose pods are like no others outlives a change of it; of a known shape it does not.
 */
static void bookmark_of_unknown_shape(void **state) {
    (void)state;
    for (int known = 0; known < 2; known++) {
        struct sl_engine *e = engine_with((struct sl_engine_config){.block_admission = true});
        put_flavor(e, "g");
        struct sl_clusterqueue *q = new_queue("q", NULL, 4);
        add_flavor(q, "g", 4);
        sl_engine_put_clusterqueue(e, q);
        put_lq(e, "q", "q");
        put_cq(e, "other", NULL, 4, NONE, NONE);
        hold(e, "slow", "other", 0, 90, 1);
        struct wl *w = NULL;
        for (int64_t priority = 0; priority < 2; priority++) {
            struct sl_workload *o = new_wl("w", "q", priority, 100, 1, 1);
            o->podsets[0].shape = known ? 7 : 0;
            sl_engine_put_workload(e, o, 100000);
            w = sl_map_get(&e->workloads, "w");
            if (priority == 0) { /* as if its first try at f had lost */
                trees_refresh(e);
                e->log_on = true;
                struct assignment *a = assign(e, w, NULL, false, NULL);
                assignment_bookmark(e, w, a, 0);
                e->log_on = false;
                assert_true(bookmark_pending(w));
            }
        }
        bookmark_drop_stale(e, w, 1);
        assert_int_equal(bookmark_pending(w), !known);
        bookmark_drop(w);
        sl_engine_free(e);
    }
}

/* Three blocked workloads walk in step through 7, 11 and 13 flavors: only after 1001 cycles would all be as before. The
 * run gives up earlier, and says the same again next time: nothing. */
static void many_idle_cycles(void **state) {
    (void)state;
    static const int sizes[] = {7, 11, 13};
    struct sl_engine *e = engine_with((struct sl_engine_config){.block_admission = true});
    char name[16];
    for (int f = 1; f <= 13; f++) {
        snprintf(name, sizeof name, "f%d", f);
        put_flavor(e, name);
    }
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "q%d", i);
        struct sl_clusterqueue *q = new_queue(name, "K", 1);
        for (int f = 1; f < sizes[i]; f++) {
            char flavor[16];
            snprintf(flavor, sizeof flavor, "f%d", f);
            add_flavor(q, flavor, 1);
        }
        sl_engine_put_clusterqueue(e, q);
        put_lq(e, name, name);
    }
    put_cq(e, "other", NULL, 4, NONE, NONE);
    hold(e, "slow", "other", 0, 90, 1);
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "q%d", i);
        put_wl(e, name, name, 0, 100 + i, 1, 1);
    }
    SL_AUTO_FREE char *got = run(e, 110);
    assert_non_null(strstr(got, "pending q0"));
    assert_null(strstr(got, "admit"));
    expect_message(e, "q0", "Waits until all admitted workloads have their pods ready");
    const struct cq *q = sl_map_get(&e->cqs, "q0");
    assert_true(q->node.tree->cycle > 1000 && q->node.tree->cycle < 1100);
    expect_run(e, 111, "");
    sl_engine_del_workload(e, "slow");
    SL_AUTO_FREE char *then = run(e, 112);
    assert_non_null(strstr(then, "admit q0"));
    sl_engine_free(e);
}

/* ---- one cycle ---- */

/* The difference between what a victim gives back and what its preemptor takes is not there yet, whichever of the
 * resources it is. */
static void overbooked_in_one_of_two(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_flavor(e, "f1");
    struct sl_clusterqueue *q = new_cq("a", "K");
    q->groups = two_resources(1, (const int64_t[][2]){{6, 9000}});
    q->n_groups = 1;
    q->within_cluster_queue = SL_PREEMPT_LOWER_PRIORITY;
    sl_engine_put_clusterqueue(e, q);
    put_lq(e, "a", "a");
    for (int i = 0; i < 2; i++) {
        q = new_cq(i ? "c" : "b", "K");
        q->groups = two_resources(1, (const int64_t[][2]){{0, 0}});
        q->n_groups = 1;
        sl_engine_put_clusterqueue(e, q);
        put_lq(e, i ? "c" : "b", i ? "c" : "b");
    }
    struct sl_workload *x = holding(new_wl("x", "a", 0, 90, 1, 4), "a", "f1", 90);
    sl_engine_put_workload(e, x, 90000);
    put_wl(e, "w", "a", 10, 100, 1, 3);
    put_wl(e, "v1", "b", 0, 101, 1, 2);
    struct sl_workload *v2 = new_wl("v2", "c", 0, 102, 1, 1);
    add_request(v2, "cpu", 1000);
    sl_engine_put_workload(e, v2, 102000);
    expect_run(e, 102, "evict x InClusterQueue by w; admit v1 f1=2; pending w; pending v2");
    sl_engine_del_workload(e, "x");
    expect_run(e, 103, "admit v2 f1=1000 f1=1; admit w f1=3");
    sl_engine_free(e);
}

/* ---- fair sharing ---- */

/* 4.5: what a queue borrows counts against its workload only where that asks for something. */
static void borrows_what_is_not_asked_for(void **state) {
    (void)state;
    struct sl_engine *e = fair_engine();
    put_flavor(e, "f1");
    static const struct {
        const char *name;
        int64_t gpu, cpu;
    } queues[] = {{"a", 0, 1}, {"b", 0, 0}, {"c", 10, 9}};
    for (size_t i = 0; i < 3; i++) {
        struct sl_clusterqueue *q = new_cq(queues[i].name, "K");
        q->groups = two_resources(1, (const int64_t[][2]){{queues[i].gpu, queues[i].cpu}});
        q->n_groups = 1;
        sl_engine_put_clusterqueue(e, q);
        put_lq(e, queues[i].name, queues[i].name);
    }
    sl_engine_put_workload(e, holding(new_wl("x", "a", 0, 90, 1, 5), "a", "f1", 90), 90000);
    struct sl_workload *w = new_wl("y", "c", 0, 90, 1, 0);
    add_request(w, "cpu", 9);
    sl_engine_put_workload(e, holding(w, "c", "f1", 90), 90000);
    w = new_wl("v", "b", 0, 100, 1, 0);
    add_request(w, "cpu", 1);
    sl_engine_put_workload(e, w, 100000);
    w = new_wl("w", "a", 0, 101, 1, 0);
    add_request(w, "cpu", 1);
    sl_engine_put_workload(e, w, 101000);
    expect_run(e, 101, "admit w f1=1 f1=0; pending v");
    sl_engine_free(e);
}

/* A cycle of which no head gets as far as an assignment. */
static void nobody_in_the_order(void **state) {
    (void)state;
    struct sl_engine *e = fair_engine();
    put_cq(e, "q", "K", 4, NONE, NONE);
    put_lq(e, "q", "q");
    struct sl_workload *w = new_wl("w", "q", 0, 100, 1, 1);
    w->rejected = sl_xstrdup("request above limit");
    sl_engine_put_workload(e, w, 100000);
    expect_run(e, 100, "pending w");
    expect_message(e, "w", "Not valid: request above limit");
    put_wl(e, "w", "q", 0, 100, 1, 1);
    expect_run(e, 101, "admit w f=1");
    sl_engine_free(e);
}

/* 7.8: the queue before the Cohort when it has the larger share, else the Cohort. */
static void queue_or_cohort(void **state) {
    (void)state;
    for (int queue = 0; queue < 2; queue++) {
        struct sl_engine *e = fair_engine();
        put_cohort(e, "R", NULL, 6, NONE, NONE);
        put_cohort(e, "S", "R", 0, NONE, NONE);
        put_policy(e, "p", "R", 4, SL_PREEMPT_NEVER, SL_PREEMPT_ANY, SL_PREEMPT_NEVER);
        put_policy(e, "x", "R", 0, SL_PREEMPT_NEVER, SL_PREEMPT_ANY, SL_PREEMPT_NEVER);
        put_policy(e, "s", "S", 0, SL_PREEMPT_NEVER, SL_PREEMPT_ANY, SL_PREEMPT_NEVER);
        hold(e, "hx", "x", 0, 90, queue ? 6 : 3);
        hold(e, "hs", "s", 0, 90, queue ? 3 : 6);
        put_wl(e, "w", "p", 0, 100, 1, 2);
        expect_run(e, 100,
                   queue ? "evict hx InCohortReclamation by w; pending w"
                         : "evict hs InCohortReclamation by w; pending w");
        sl_engine_free(e);
    }
}

/* 7.8: a queue that has given back all that it borrowed is left alone; of equal Cohorts the first by name, whichever
 * was there first. */
static void no_more_than_borrowed(void **state) {
    (void)state;
    struct sl_engine *e = fair_engine();
    put_policy(e, "p", "K", 4, SL_PREEMPT_NEVER, SL_PREEMPT_ANY, SL_PREEMPT_NEVER);
    put_policy(e, "x", "K", 2, SL_PREEMPT_NEVER, SL_PREEMPT_ANY, SL_PREEMPT_NEVER);
    struct sl_clusterqueue *y = new_queue("y", "K", 0);
    y->weight = 100;
    sl_engine_put_clusterqueue(e, y);
    put_lq(e, "y", "y");
    for (int i = 0; i < 6; i++) {
        char name[4];
        snprintf(name, sizeof name, "%s%d", i < 3 ? "x" : "y", i);
        hold(e, name, i < 3 ? "x" : "y", 0, 90 + i, 1);
    }
    put_wl(e, "w", "p", 0, 100, 1, 2);
    expect_run(e, 100, "evict x2 InCohortReclamation by w; evict y5 InCohortReclamation by w; pending w");
    sl_engine_free(e);
}

static void equal_cohorts(void **state) {
    (void)state;
    for (int order = 0; order < 2; order++) {
        struct sl_engine *e = fair_engine();
        put_cohort(e, "R", NULL, 0, NONE, NONE);
        put_policy(e, "p", "R", 6, SL_PREEMPT_NEVER, SL_PREEMPT_ANY, SL_PREEMPT_NEVER);
        for (int i = 0; i < 2; i++) {
            const char *name = i == order ? "a" : "b";
            SL_AUTO_FREE char *cohort = sl_xprintf("C%s", name);
            put_cohort(e, cohort, "R", 0, NONE, NONE);
            put_policy(e, name, cohort, 0, SL_PREEMPT_NEVER, SL_PREEMPT_ANY, SL_PREEMPT_NEVER);
            hold(e, name, name, 0, 90 + i, 3);
        }
        put_wl(e, "w", "p", 0, 100, 1, 1);
        expect_run(e, 100, "evict a InCohortReclamation by w; pending w");
        sl_engine_free(e);
    }
}

/* A preemptor that lost to another one is told what is short, once it is not only what is kept for that one. */
static void lost_and_short(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cohort(e, "K", NULL, 2, NONE, NONE);
    put_policy(e, "a", "K", 2, SL_PREEMPT_LOWER_PRIORITY, SL_PREEMPT_NEVER, SL_PREEMPT_LOWER_PRIORITY);
    put_policy(e, "b", "K", 1, SL_PREEMPT_LOWER_PRIORITY, SL_PREEMPT_NEVER, SL_PREEMPT_LOWER_PRIORITY);
    hold(e, "x", "a", 0, 90, 2);
    hold(e, "y", "b", 0, 90, 1);
    put_wl(e, "v", "a", 9, 100, 1, 4);
    put_wl(e, "w", "b", 5, 101, 1, 3);
    expect_run(e, 101, "evict x InClusterQueue by v; pending v; pending w");
    SL_AUTO_JSON *why = sl_engine_explain(e, "w");
    assert_string_equal(
        sl_json_get_str(why, "message", ""),
        "pod set main: flavor f, nvidia.com/gpu: asks 3, free 2 (nominal 1, borrowable 2), held by ns/x 2, "
        "ns/y 1");
    released(e, "x", "a", 0, 90, 2, 102);
    SL_AUTO_FREE char *got = run(e, 103);
    assert_non_null(strstr(got, "admit v f=4"));
    sl_engine_free(e);
}

/* Of a queue in which some shapes are hopeless and others wait for their turn, all are brought up to date that are told
 * numbers. */
static void numbers_of_the_hopeless(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_policy(e, "q", "K", 4, SL_PREEMPT_LOWER_PRIORITY, SL_PREEMPT_NEVER, SL_PREEMPT_NEVER);
    put_policy(e, "o", "K", 4, SL_PREEMPT_NEVER, SL_PREEMPT_NEVER, SL_PREEMPT_NEVER);
    hold(e, "low", "q", 0, 90, 4);
    hold(e, "h", "o", 0, 90, 3);
    put_wl(e, "never", "q", 1, 100, 1, 9);
    expect_run(e, 100, "pending never");
    put_wl(e, "w", "q", 5, 100, 1, 4);
    expect_run(e, 100, "evict low InClusterQueue by w; pending w");
    put_wl(e, "z", "o", 0, 101, 1, 1);
    expect_run(e, 101, "admit z f=1");
    assert_int_equal(sl_engine_next_due_ms(e), 130000);
    SL_AUTO_FREE char *told = run(e, 130);
    assert_string_equal(told, "pending w");
    expect_message(e, "w", "free 0");
    static const char *const names[] = {"w", "never"};
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(((struct wl *)sl_map_get(&e->workloads, names[i]))->told_ms, 130000);
    sl_engine_free(e);
}

/* 7.6: what may be lent counts by what the Cohort above can have, also of flavors that it does not name; a flavor that
 * nobody declares any more lends nothing. */
static void share_over_other_flavors(void **state) {
    (void)state;
    struct sl_engine *e = fair_engine();
    put_flavor(e, "g");
    put_cohort(e, "R", NULL, 10, NONE, NONE);
    put_cohort(e, "C", "R", 0, NONE, NONE);
    struct sl_clusterqueue *q = new_cq("g", "R");
    q->groups = one_group("g", GPU, 10, NONE, NONE);
    q->n_groups = 1;
    sl_engine_put_clusterqueue(e, q);
    put_cq(e, "a", "C", 0, NONE, NONE);
    put_lq(e, "a", "a");
    hold(e, "x", "a", 0, 90, 5);
    for (int old = 0; old < 2; old++) {
        if (old)
            sl_engine_put_workload(e, holding(new_wl("y", "a", 0, 90, 1, 3), "a", "old", 90), 90000);
        struct sl_queue_view v;
        sl_engine_clusterqueue_view(e, "a", &v);
        assert_true(fabs(v.weighted_share - 250) < 1e-9); /* 5 of 10 f and 10 g */
        sl_queue_view_done(&v);
    }
    sl_engine_check_invariants(e);
    sl_engine_free(e);
}

/* ---- evictions ---- */

/* Of two evictions one cannot be written, again and again: it did not happen, and does not count as one of three. */
static void one_of_two_evictions_fails(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_policy(e, "q", NULL, 4, SL_PREEMPT_LOWER_PRIORITY, SL_PREEMPT_NEVER, SL_PREEMPT_NEVER);
    hold(e, "x", "q", 0, 90, 2);
    hold(e, "y", "q", 0, 91, 2);
    put_wl(e, "w", "q", 10, 100, 1, 4);
    expect_run(e, 100, "evict y InClusterQueue by w; evict x InClusterQueue by w; pending w");
    for (int i = 0; i < 5; i++) {
        sl_engine_write_failed(e, "y", false);
        expect_run(e, 101 + i, "evict y InClusterQueue by w");
    }
    released(e, "x", "q", 0, 90, 2, 110);
    released(e, "y", "q", 0, 91, 2, 110);
    SL_AUTO_FREE char *got = run(e, 111);
    assert_non_null(strstr(got, "admit w f=4"));
    sl_engine_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic),
        cmocka_unit_test(shrinks_only_what_may),
        cmocka_unit_test(pods_by_number),
        cmocka_unit_test(nothing_of_the_undeclared),
        cmocka_unit_test(bookmark_of_unknown_shape),
        cmocka_unit_test(many_idle_cycles),
        cmocka_unit_test(overbooked_in_one_of_two),
        cmocka_unit_test(borrows_what_is_not_asked_for),
        cmocka_unit_test(nobody_in_the_order),
        cmocka_unit_test(queue_or_cohort),
        cmocka_unit_test(no_more_than_borrowed),
        cmocka_unit_test(equal_cohorts),
        cmocka_unit_test(lost_and_short),
        cmocka_unit_test(numbers_of_the_hopeless),
        cmocka_unit_test(share_over_other_flavors),
        cmocka_unit_test(one_of_two_evictions_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
