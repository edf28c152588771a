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
    assert_non_null(strstr(sl_json_get_str(one, "smallestChange", ""), "more nvidia.com/gpu in flavor f"));
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
    assert_int_equal(v.reserving, 1);
    sl_queue_view_done(&v);
    sl_engine_check_invariants(e);
    sl_engine_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(books_after_saturation),
        cmocka_unit_test(requests_above_everything),
        cmocka_unit_test(shrinks_from_saturation),
        cmocka_unit_test(edited_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
