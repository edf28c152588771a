/* The quota tree: the worked examples of the scheduling reference, 2.6, by number; and shares, 7.6. */
#include "support.h"

#include <math.h>

static struct cell *cell(struct sl_engine *e, const char *name) {
    trees_refresh(e);
    struct node *n = sl_map_get(&e->cqs, name);
    if (!n)
        n = sl_map_get(&e->cohorts, name);
    assert_non_null(n);
    struct flv *f = sl_map_get(&e->flavors, "f");
    struct res *r = sl_map_get(&e->resources, GPU);
    struct cell *c = node_cell(n, cell_key(f, r));
    assert_non_null(c);
    return c;
}

static void usage(struct sl_engine *e, const char *cq, int64_t v) {
    struct cell *c = cell(e, cq);
    if (v > c->U)
        usage_push(e, c, v - c->U);
    else
        usage_pull(e, c, c->U - v);
}

#define AV(name, v) assert_int_equal(cell_available_raw(cell(e, name)), v)
#define CE(name, v) assert_int_equal(cell(e, name)->ceil, v)
#define S_(name, v) assert_int_equal(cell(e, name)->S, v)
#define U_(name, v) assert_int_equal(cell(e, name)->U, v)
#define L_(name, v) assert_int_equal(cell(e, name)->L, v)
#define FIT(name, v, level, part)                                                                                      \
    do {                                                                                                               \
        bool smaller_;                                                                                                 \
        assert_int_equal(cell_fit_level(cell(e, name), v, &smaller_), level);                                          \
        assert_int_equal(smaller_, part);                                                                              \
    } while (0)

static void alone(void **state) { /* 1, 2 */
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "a", NULL, 10, NONE, NONE);
    usage(e, "a", 4);
    AV("a", 6);
    CE("a", 10);
    usage(e, "a", 8);
    put_cq(e, "a", NULL, 5, NONE, NONE);
    AV("a", -3);
    assert_int_equal(cell_available(cell(e, "a")), 0);
    CE("a", 5);
    FIT("a", 100, 0, false);
    sl_engine_free(e);
}

static void flat(void **state) { /* 3, 4 */
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "a", "K", 10, NONE, NONE);
    put_cq(e, "b", "K", 5, NONE, NONE);
    usage(e, "a", 12);
    S_("K", 15);
    U_("K", 12);
    AV("a", 3);
    AV("b", 3);
    CE("a", 15);
    FIT("b", 3, 0, true);
    FIT("b", 6, 1, false);
    FIT("a", 3, 1, false);
    usage(e, "a", 0);
    put_cq(e, "a", "K", 10, 2, NONE);
    CE("a", 12);
    CE("b", 15);
    usage(e, "a", 11);
    AV("a", 1);
    AV("b", 4);
    sl_engine_free(e);
}

static void lending(void **state) { /* 5 to 8 */
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "a", "K", 10, NONE, NONE);
    put_cq(e, "b", "K", 6, NONE, 4);
    L_("b", 2);
    S_("K", 14);
    AV("a", 14);
    AV("b", 16);
    usage(e, "b", 1);
    U_("K", 0);
    AV("b", 15);
    usage(e, "b", 5);
    U_("K", 3);
    AV("a", 11);
    AV("b", 11);
    usage(e, "b", 1);
    U_("K", 0);
    usage(e, "b", 0);
    put_cq(e, "b", "K", 6, NONE, 0);
    usage(e, "b", 8);
    L_("b", 6);
    S_("K", 10);
    U_("K", 2);
    AV("a", 8);
    AV("b", 8);
    sl_engine_free(e);
}

static void pool_of_cohort(void **state) { /* 9 */
    (void)state;
    struct sl_engine *e = new_engine();
    put_cohort(e, "K", NULL, 10, NONE, NONE);
    put_cq(e, "a", "K", 0, NONE, NONE);
    usage(e, "a", 4);
    AV("a", 6);
    sl_engine_free(e);
}

static void nested(void **state) { /* 10, 11 */
    (void)state;
    struct sl_engine *e = new_engine();
    put_cohort(e, "R", NULL, 0, NONE, NONE);
    put_cohort(e, "L", "R", 10, 5, NONE);
    put_cohort(e, "G", "R", 10, NONE, NONE);
    put_cq(e, "l1", "L", 10, NONE, NONE);
    put_cq(e, "l2", "L", 10, 5, NONE);
    put_cq(e, "g", "G", 10, NONE, NONE);
    S_("L", 30);
    S_("G", 20);
    S_("R", 50);
    CE("l1", 35);
    CE("l2", 15);
    CE("g", 50);
    usage(e, "l1", 33);
    AV("l1", 2);
    AV("l2", 2);
    AV("g", 17);
    FIT("l1", 1, 2, false);
    FIT("l2", 10, 0, true);
    FIT("l2", 11, 2, false);
    FIT("g", 18, 1, true);
    FIT("g", 21, 2, false);
    sl_engine_free(e);
}

static void nested_lending(void **state) { /* 12 */
    (void)state;
    struct sl_engine *e = new_engine();
    put_cohort(e, "R", NULL, 0, NONE, NONE);
    put_cohort(e, "L", "R", 0, NONE, 5);
    put_cohort(e, "G", "R", 0, NONE, NONE);
    put_cq(e, "l1", "L", 10, NONE, 5);
    put_cq(e, "l2", "L", 10, NONE, NONE);
    put_cq(e, "g", "G", 0, NONE, NONE);
    L_("l1", 5);
    S_("L", 15);
    L_("L", 10);
    S_("R", 5);
    AV("l1", 20);
    AV("l2", 15);
    AV("g", 5);
    FIT("l1", 20, 1, true);
    FIT("l1", 21, 2, false);
    sl_engine_free(e);
}

static void shrunk(void **state) { /* 13, 14 */
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "a", "K", 10, NONE, NONE);
    put_cq(e, "b", "K", 10, NONE, NONE);
    usage(e, "a", 10);
    usage(e, "b", 8);
    put_cq(e, "b", "K", 2, NONE, NONE);
    S_("K", 12);
    U_("K", 18);
    AV("a", -6);
    AV("b", -6);
    put_cq(e, "c", "M", 4, NONE, 1);
    put_cq(e, "d", "M", 10, NONE, NONE);
    usage(e, "d", 9);
    put_cq(e, "d", "M", 2, NONE, NONE);
    S_("M", 3);
    U_("M", 9);
    AV("c", -3);
    sl_engine_free(e);
}

static void limits(void **state) { /* 15, 16 */
    (void)state;
    struct sl_engine *e = new_engine();
    put_cohort(e, "K", NULL, 6, NONE, NONE);
    put_cq(e, "a", "K", 4, 3, 1);
    L_("a", 3);
    S_("K", 7);
    CE("a", 7);
    usage(e, "a", 5);
    U_("K", 2);
    AV("a", 2);
    usage(e, "a", 7);
    AV("a", 0);
    put_cohort(e, "M", NULL, 5, NONE, NONE);
    put_cq(e, "c", "M", 4, 0, NONE);
    put_cq(e, "d", "M", 2, NONE, NONE);
    usage(e, "d", 6);
    AV("c", 4);
    AV("d", 5);
    FIT("c", 5, 1, false);
    CE("c", 4);
    sl_engine_free(e);
}

static void levels(void **state) { /* 17 */
    (void)state;
    struct sl_engine *e = new_engine();
    put_cohort(e, "R", NULL, 4, NONE, NONE);
    put_cohort(e, "M", "R", 4, NONE, NONE);
    put_cohort(e, "B", "M", 4, NONE, NONE);
    put_cq(e, "q", "B", 0, NONE, NONE);
    put_cq(e, "o", "M", 0, NONE, NONE);
    FIT("q", 4, 1, true);
    FIT("q", 5, 2, true);
    FIT("q", 8, 2, true);
    FIT("q", 9, 3, false);
    usage(e, "o", 3);
    FIT("q", 5, 2, true);
    FIT("q", 6, 3, false);
    assert_int_equal(cell_available(cell(e, "q")), 9);
    sl_engine_free(e);
}

static void unlimited(void **state) { /* 18, and the trap of 2.2 */
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "a", "K", SL_UNLIMITED, NONE, NONE);
    put_cq(e, "b", "K", 3, NONE, NONE);
    usage(e, "b", 100);
    S_("K", SL_UNLIMITED);
    AV("b", SL_UNLIMITED);
    put_cq(e, "a", "K", SL_UNLIMITED, NONE, 5);
    S_("K", 3);
    sl_engine_free(e);
}

static void amounts(void **state) {
    (void)state;
    assert_int_equal(amt_add(SL_UNLIMITED, -5), SL_UNLIMITED);
    assert_int_equal(amt_add(INT64_MAX - 1, 5), SL_UNLIMITED);
    assert_int_equal(amt_add(INT64_MIN, -5), INT64_MIN);
    assert_int_equal(amt_sub(SL_UNLIMITED, SL_UNLIMITED), 0);
    assert_int_equal(amt_sub(SL_UNLIMITED, 7), SL_UNLIMITED);
    assert_int_equal(amt_sub(7, SL_UNLIMITED), INT64_MIN);
    assert_int_equal(amt_sub(INT64_MIN, 5), INT64_MIN);
    assert_int_equal(amt_sub(5, INT64_MIN), INT64_MAX);
}

/* A Cohort that loses its object keeps its children; a cycle takes everything below it out, and comes back whole. */
static void structure(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cohort(e, "R", NULL, 3, NONE, NONE);
    put_cohort(e, "A", "R", 4, NONE, NONE);
    put_cq(e, "q", "A", 5, NONE, NONE);
    usage(e, "q", 9);
    U_("R", 9);
    S_("R", 12);
    sl_engine_del_cohort(e, "A");
    S_("A", 5);
    U_("A", 9);
    struct sl_cohort_view v;
    sl_engine_cohort_view(e, "A", &v);
    assert_true(v.exists && !v.explicit_object);
    assert_string_equal(v.root, "A");
    sl_cohort_view_done(&v);
    put_cohort(e, "A", "R", 4, NONE, NONE);
    put_cohort(e, "R", "A", 3, NONE, NONE);
    sl_engine_cohort_view(e, "A", &v);
    assert_true(v.in_cycle);
    sl_cohort_view_done(&v);
    struct sl_queue_view qv;
    sl_engine_clusterqueue_view(e, "q", &qv);
    assert_false(qv.active);
    assert_string_equal(qv.inactive_reason, "CohortCycle");
    sl_queue_view_done(&qv);
    put_cohort(e, "R", NULL, 3, NONE, NONE);
    S_("R", 12);
    U_("R", 9);
    sl_engine_clusterqueue_view(e, "q", &qv);
    assert_true(qv.active);
    assert_string_equal(qv.root_cohort, "R");
    sl_queue_view_done(&qv);
    sl_engine_del_clusterqueue(e, "q");
    sl_engine_del_cohort(e, "A");
    sl_engine_del_cohort(e, "R");
    sl_engine_cohort_view(e, "R", &v);
    assert_false(v.exists);
    sl_engine_free(e);
}

static double share_of(struct sl_engine *e, const char *cq) {
    trees_refresh(e);
    struct node *n = sl_map_get(&e->cqs, cq);
    if (!n)
        n = sl_map_get(&e->cohorts, cq);
    struct share s = node_share(n);
    return share_value(&s);
}

static void weight(struct sl_engine *e, const char *name, double w) {
    ((struct node *)sl_map_get(&e->cqs, name))->weight = w;
}

static void shares(void **state) { /* 7.6 */
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "a", "K", 5, NONE, NONE);
    put_cq(e, "b", "K", 5, NONE, NONE);
    usage(e, "a", 7);
    assert_true(share_of(e, "a") == 200);
    assert_true(share_of(e, "b") == 0);
    assert_true(share_of(e, "K") == 0);
    weight(e, "a", 2);
    assert_true(share_of(e, "a") == 100);
    weight(e, "a", 0.5);
    assert_true(share_of(e, "a") == 400);
    weight(e, "a", 0);
    assert_true(isinf(share_of(e, "a")));
    /* lending 0 everywhere: borrowing counts for nothing, but is borrowing */
    put_cq(e, "c", "M", 2, NONE, 0);
    put_cq(e, "d", "M", 2, NONE, 0);
    usage(e, "c", 3);
    struct share s = node_share(sl_map_get(&e->cqs, "c"));
    assert_true(s.borrowing && s.ratio == 0);
    /* cq(0) in child(0, bl 10) in root(50) */
    put_cohort(e, "root", NULL, 50, NONE, NONE);
    put_cohort(e, "child", "root", 0, 10, NONE);
    put_cq(e, "x", "child", 0, NONE, NONE);
    usage(e, "x", 10);
    assert_true(share_of(e, "x") == 1000);
    assert_true(share_of(e, "child") == 200);
    struct share zero_big = {300, 0, true}, zero_small = {200, 0, true}, one = {900, 1, true}, none = {0, 0, false};
    assert_true(share_compare(&zero_big, &one) > 0 && share_compare(&one, &zero_small) < 0);
    assert_true(share_compare(&zero_big, &zero_small) > 0);
    assert_true(share_compare(&none, &one) < 0);
    sl_engine_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone),          cmocka_unit_test(flat),    cmocka_unit_test(lending),
        cmocka_unit_test(pool_of_cohort), cmocka_unit_test(nested),  cmocka_unit_test(nested_lending),
        cmocka_unit_test(shrunk),         cmocka_unit_test(limits),  cmocka_unit_test(levels),
        cmocka_unit_test(unlimited),      cmocka_unit_test(amounts), cmocka_unit_test(structure),
        cmocka_unit_test(shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
