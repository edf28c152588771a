/* A wait that somebody's limit causes: the limit is named, and those whose end would help, and nobody else. */
#include "support.h"

static const char *message_of(struct sl_json *why) {
    return sl_json_get_str(why, "message", "");
}

static void expect_said(struct sl_json *why, const char *text) {
    if (!strstr(message_of(why), text))
        fail_msg("expected \"%s\" in \"%s\"", text, message_of(why));
}

static void expect_not_said(struct sl_json *why, const char *text) {
    if (strstr(message_of(why), text))
        fail_msg("did not expect \"%s\" in \"%s\"", text, message_of(why));
}

static void held_by(struct sl_engine *e, const char *name, const char *queue, int64_t amount) {
    sl_engine_put_workload(e, holding(new_wl(name, queue, 0, 100, 1, amount), queue, "f", 100), 100000);
}

/* q may borrow 2 of the 8 that are idle next door; what its neighbours hold is nothing to it. */
static void own_borrowing_limit(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "q", "pool", 4, 2, NONE);
    put_cq(e, "other", "pool", 12, NONE, NONE);
    put_lq(e, "q", "q");
    put_lq(e, "other", "other");
    held_by(e, "mine", "q", 4);
    held_by(e, "theirs", "other", 4);
    put_wl(e, "w", "q", 0, 200, 1, 3);
    free(run(e, 200));
    SL_AUTO_JSON *why = sl_engine_explain(e, "w");
    expect_said(why, "free 2 (nominal 4, borrowable 2), borrowingLimit 2 of ClusterQueue q, held by ns/mine 4");
    expect_not_said(why, "theirs");
    const struct sl_json *row = sl_json_path(why, "podSets.0.flavors.0");
    assert_string_equal(sl_json_path_str(row, "limit.name", ""), "borrowingLimit");
    assert_string_equal(sl_json_path_str(row, "limit.of", ""), "q");
    assert_string_equal(sl_json_path_str(row, "limit.amount", ""), "2");
    assert_int_equal(sl_json_len(sl_json_get(row, "holders")), 1);
    assert_string_equal(sl_json_get_str(why, "smallestChange", ""),
                        "workload ns/mine finishes, or borrowingLimit of nvidia.com/gpu in flavor f of ClusterQueue q "
                        "is raised by 1, or 1 more nvidia.com/gpu in flavor f");
    assert_string_equal(sl_json_path_str(why, "changes.1.raise.0.to", ""), "3");
    sl_engine_free(e);
}

/* The limit is that of a Cohort above: whoever is below it counts, whoever is beside it does not. */
static void borrowing_limit_of_a_cohort(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cohort(e, "left", "root", 0, 1, NONE);
    put_cq(e, "q", "left", 2, NONE, NONE);
    put_cq(e, "sister", "left", 2, NONE, NONE);
    put_cq(e, "far", "root", 8, NONE, NONE);
    put_lq(e, "q", "q");
    put_lq(e, "sister", "sister");
    put_lq(e, "far", "far");
    held_by(e, "near", "sister", 3);
    held_by(e, "away", "far", 2);
    put_wl(e, "w", "q", 0, 200, 1, 3);
    free(run(e, 200));
    SL_AUTO_JSON *why = sl_engine_explain(e, "w");
    expect_said(why, "borrowingLimit 1 of Cohort left, held by ns/near 3");
    expect_not_said(why, "away");
    assert_string_equal(sl_json_path_str(why, "podSets.0.flavors.0.limit.kind", ""), "Cohort");
    assert_non_null(strstr(sl_json_get_str(why, "smallestChange", ""), "of Cohort left is raised by 1"));
    sl_engine_free(e);
}

/* 6 are idle next door, 5 of them kept there; what runs there on kept quota would give q nothing. */
static void lending_limit_of_others(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "q", "pool", 2, NONE, NONE);
    put_cq(e, "miser", "pool", 8, NONE, 1);
    put_cq(e, "third", "pool", 2, NONE, NONE);
    put_lq(e, "q", "q");
    put_lq(e, "miser", "miser");
    put_lq(e, "third", "third");
    held_by(e, "kept", "miser", 2);
    held_by(e, "lent", "third", 2);
    put_wl(e, "w", "q", 0, 200, 1, 5);
    free(run(e, 200));
    SL_AUTO_JSON *why = sl_engine_explain(e, "w");
    expect_said(why,
                "free 3 (nominal 2, borrowable 1), 5 kept by lendingLimit 1 of ClusterQueue miser, held by ns/lent 2");
    expect_not_said(why, "ns/kept");
    assert_string_equal(
        sl_json_get_str(why, "smallestChange", ""),
        "workload ns/lent finishes, or lendingLimit of nvidia.com/gpu in flavor f of ClusterQueue miser "
        "is raised by 2, or 2 more nvidia.com/gpu in flavor f");
    assert_string_equal(sl_json_path_str(why, "changes.1.raise.0.to", ""), "3");
    sl_engine_free(e);
}

/* More than can ever be had: whose limit keeps it so. */
static void limits_of_the_maximum(void **state) {
    (void)state;
    static const struct {
        int64_t borrowing, lending, asks;
        const char *said;
    } cases[] = {
        {1, NONE, 6, "more than can ever be had here: 5, borrowingLimit 1 of ClusterQueue q"},
        {NONE, 1, 6, "more than can ever be had here: 5, 3 kept by lendingLimit 1 of ClusterQueue o"},
        {NONE, NONE, 9, "more than can ever be had here: 8"},
    };
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        struct sl_engine *e = new_engine();
        put_cq(e, "q", "pool", 4, cases[i].borrowing, NONE);
        put_cq(e, "o", "pool", 4, NONE, cases[i].lending);
        put_lq(e, "q", "q");
        put_wl(e, "w", "q", 0, 200, 1, cases[i].asks);
        free(run(e, 200));
        SL_AUTO_JSON *why = sl_engine_explain(e, "w");
        expect_said(why, cases[i].said);
        if (i == 2)
            expect_not_said(why, "imit");
        sl_engine_free(e);
    }
}

/* The second of two equals: what admits the first alone is not what admits it. */
static void behind_an_equal(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "q", NULL, 4, NONE, NONE);
    put_lq(e, "q", "q");
    held_by(e, "h", "q", 4);
    put_wl(e, "first", "q", 0, 200, 1, 3);
    put_wl(e, "w", "q", 0, 201, 1, 3);
    free(run(e, 202));
    SL_AUTO_JSON *why = sl_engine_explain(e, "w"), *first = sl_engine_explain(e, "first");
    assert_string_equal(sl_json_get_str(why, "smallestChange", ""),
                        "6 more nvidia.com/gpu in flavor f (others come before it)");
    assert_string_equal(sl_json_get_str(first, "smallestChange", ""),
                        "workload ns/h finishes, or 3 more nvidia.com/gpu in flavor f");
    sl_engine_check_invariants(e);
    expect_run(e, 202, "");
    sl_engine_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_borrowing_limit),     cmocka_unit_test(borrowing_limit_of_a_cohort),
        cmocka_unit_test(lending_limit_of_others), cmocka_unit_test(limits_of_the_maximum),
        cmocka_unit_test(behind_an_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
