/* What can be read of queues and Cohorts: counts, rows, orders and times. */
#include "support.h"

static void put_two_flavors(struct sl_engine *e, const char *name, const char *cohort) {
    put_flavor(e, "f1");
    put_flavor(e, "f2");
    struct sl_clusterqueue *q = new_cq(name, cohort);
    q->groups = two_resources(2, (const int64_t[][2]){{4, 4000}, {2, 2000}});
    q->n_groups = 1;
    sl_engine_put_clusterqueue(e, q);
    put_lq(e, name, name);
}

static void rows_in_order(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_two_flavors(e, "q", "K");
    struct sl_cohort_view v;
    sl_engine_cohort_view(e, "K", &v);
    static const char *const rows[][2] = {{"f1", "cpu"}, {"f1", GPU}, {"f2", "cpu"}, {"f2", GPU}};
    assert_int_equal(v.n_rows, SL_COUNT(rows));
    for (size_t i = 0; i < v.n_rows; i++) {
        assert_string_equal(v.rows[i].flavor, rows[i][0]);
        assert_string_equal(v.rows[i].resource, rows[i][1]);
    }
    sl_cohort_view_done(&v);
    sl_engine_free(e);
}

/* Each row has the usage of its own flavor and resource, not that of another one of the same flavor. */
static void rows_of_a_localqueue(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_two_flavors(e, "q", NULL);
    struct sl_workload *w = new_wl("w", "q", 0, 100, 1, 2);
    add_request(w, "cpu", 3000);
    sl_engine_put_workload(e, w, 100000);
    expect_run(e, 100, "admit w f1=3000 f1=2");
    static const int64_t reserved[] = {3000, 2, 0, 0};
    struct sl_queue_view v;
    sl_engine_localqueue_view(e, "ns", "q", &v);
    assert_int_equal(v.n_rows, SL_COUNT(reserved));
    for (size_t i = 0; i < v.n_rows; i++)
        assert_int_equal(v.rows[i].reserved, reserved[i]);
    sl_queue_view_done(&v);
    sl_engine_free(e);
}

/* What is held of a flavor that nobody lists any more is shown, in the queue and in its Cohort; nothing of one is not.
 */
static void rows_of_what_is_not_listed(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "q", "K", 4, NONE, NONE);
    put_lq(e, "q", "q");
    sl_engine_put_workload(e, holding(new_wl("a", "q", 0, 90, 1, 3), "q", "old", 90), 90000);
    sl_engine_put_workload(e, holding(new_wl("b", "q", 0, 90, 1, 0), "q", "older", 90), 90000);
    struct sl_queue_view v;
    sl_engine_clusterqueue_view(e, "q", &v);
    struct sl_cohort_view c;
    sl_engine_cohort_view(e, "K", &c);
    assert_int_equal(v.n_rows, 2);
    assert_int_equal(c.n_rows, 2);
    static const struct {
        const char *flavor;
        bool listed;
        int64_t reserved;
    } rows[] = {{"f", true, 0}, {"old", false, 3}};
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(v.rows[i].flavor, rows[i].flavor);
        assert_int_equal(v.rows[i].listed, rows[i].listed);
        assert_int_equal(v.rows[i].reserved, rows[i].reserved);
        assert_string_equal(c.rows[i].flavor, rows[i].flavor);
        assert_int_equal(c.rows[i].reserved, rows[i].reserved);
    }
    sl_queue_view_done(&v);
    sl_cohort_view_done(&c);
    sl_engine_free(e);
}

/* Who counts as pending in a LocalQueue, and as what. */
static void pending_of_a_localqueue(void **state) {
    (void)state;
    static const struct {
        const char *what;
        bool cq, stopped, lq_stopped, lq_deleting, gated, later;
        int64_t asks;
        int active, inadmissible;
    } cases[] = {
        {"waits", true, false, false, false, false, false, 1, 1, 0},
        {"was tried in vain", true, false, false, false, false, false, 9, 0, 1},
        {"no ClusterQueue", false, false, false, false, false, false, 1, 0, 1},
        {"no ClusterQueue, LocalQueue stopped", false, false, true, false, false, false, 1, 0, 0},
        {"no ClusterQueue, LocalQueue goes", false, false, false, true, false, false, 1, 0, 0},
        {"no ClusterQueue, not queueable", false, false, false, false, true, false, 1, 0, 0},
        {"ClusterQueue stopped", true, true, false, false, false, false, 1, 0, 1},
        {"LocalQueue stopped", true, false, true, false, false, false, 1, 0, 0},
        {"not queueable", true, false, false, false, true, false, 1, 0, 0},
        {"its time is not yet", true, false, false, false, false, true, 1, 0, 1},
    };
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        struct sl_engine *e = new_engine();
        if (cases[i].cq) {
            struct sl_clusterqueue *q = new_queue("q", NULL, 4);
            q->stop = cases[i].stopped ? SL_STOP_HOLD : SL_STOP_NONE;
            sl_engine_put_clusterqueue(e, q);
        }
        put_lq_as(e, "q", "q", cases[i].lq_stopped ? SL_STOP_HOLD : SL_STOP_NONE, cases[i].lq_deleting);
        struct sl_workload *w = new_wl("w", "q", 0, 100, 1, cases[i].asks);
        w->gated = cases[i].gated;
        w->has_requeue_at = cases[i].later;
        w->requeue_at_ms = 200000;
        sl_engine_put_workload(e, w, 100000);
        if (cases[i].asks > 1)
            expect_run(e, 100, "pending w");
        struct sl_queue_view v;
        sl_engine_localqueue_view(e, "ns", "q", &v);
        if (v.pending_active != cases[i].active || v.pending_inadmissible != cases[i].inadmissible)
            fail_msg("%s: %d and %d", cases[i].what, v.pending_active, v.pending_inadmissible);
        sl_queue_view_done(&v);
        sl_engine_free(e);
    }
}

static void expect_order(struct sl_engine *e, const char *expect) {
    const struct sl_workload **list;
    size_t n = sl_engine_pending(e, "q", &list);
    SL_AUTO_BUF b = SL_BUF_INIT(1000);
    for (size_t i = 0; i < n; i++)
        sl_buf_printf(&b, "%s%s", i ? " " : "", list[i]->name);
    free(list);
    assert_string_equal(sl_buf_text(&b), expect);
}

/* A preemptor stands first while its queue is active; otherwise, and for everybody else, the order is the usual one. */
static void order_of_pending(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_policy(e, "q", NULL, 4, SL_PREEMPT_LOWER_PRIORITY, SL_PREEMPT_NEVER, SL_PREEMPT_NEVER);
    put_policy(e, "other", NULL, 4, SL_PREEMPT_NEVER, SL_PREEMPT_NEVER, SL_PREEMPT_NEVER);
    struct sl_workload *w = new_wl("elsewhere", "other", 0, 90, 1, 1);
    w->has_requeue_at = true;
    w->requeue_at_ms = 900000;
    sl_engine_put_workload(e, w, 90000);
    hold(e, "low", "q", 0, 90, 4);
    put_wl(e, "high", "q", 10, 100, 1, 9);
    put_wl(e, "w", "q", -1, 100, 1, 4);
    SL_AUTO_FREE char *first = run(e, 100);
    assert_null(strstr(first, "evict"));
    expect_order(e, "high w");
    put_wl(e, "w", "q", 5, 100, 1, 4);
    expect_run(e, 101, "evict low InClusterQueue by w; pending w");
    expect_order(e, "w high");
    struct sl_clusterqueue *q = new_queue("q", NULL, 4);
    q->stop = SL_STOP_HOLD;
    sl_engine_put_clusterqueue(e, q);
    expect_order(e, "high w");
    sl_engine_free(e);
}

/* The head of a queue is parked beside one that was found hopeless: it is first among those that are tried, but not
 * first of all. */
static void head_behind_a_hopeless_one(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "q", NULL, 4, NONE, NONE);
    put_lq(e, "q", "q");
    put_wl(e, "high", "q", 10, 100, 1, 9);
    expect_run(e, 100, "pending high");
    put_wl(e, "w", "q", 0, 100, 1, 1);
    expect_order(e, "high w");
    sl_engine_free(e);
}

/* Quota that is there and that nobody takes: for one without candidates until a holder goes, not for one that waits for
 * its victims; and not more than some kinds of the hopeless are looked at. */
static void idle_quota(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_policy(e, "q", NULL, 4, SL_PREEMPT_LOWER_PRIORITY, SL_PREEMPT_NEVER, SL_PREEMPT_NEVER);
    hold(e, "h", "q", 0, 90, 3);
    put_wl(e, "w", "q", 0, 100, 1, 2);
    expect_run(e, 100, "pending w");
    assert_false(sl_engine_idle_with_quota(e, "q"));
    sl_engine_del_workload(e, "h");
    assert_true(sl_engine_idle_with_quota(e, "q"));
    hold(e, "h", "q", -1, 90, 3);
    SL_AUTO_FREE char *got = run(e, 101);
    assert_non_null(strstr(got, "evict h InClusterQueue by w"));
    assert_false(sl_engine_idle_with_quota(e, "q"));
    sl_engine_free(e);
    e = new_engine();
    put_cq(e, "q", NULL, 1, NONE, NONE);
    put_lq(e, "q", "q");
    for (int i = 2; i < 20; i++) {
        char name[8];
        snprintf(name, sizeof name, "w%d", i);
        put_wl(e, name, "q", 0, 100, 1, i);
    }
    free(run(e, 100));
    assert_false(sl_engine_idle_with_quota(e, "q"));
    put_cq(e, "q", NULL, 20, NONE, NONE);
    assert_true(sl_engine_idle_with_quota(e, "q"));
    sl_engine_free(e);
}

/* The earlier of the time at which somebody returns and that at which somebody's reason is brought up to date. */
static void next_due(void **state) {
    (void)state;
    static const int64_t times[][2] = {{120, 120}, {140, 130}};
    for (size_t i = 0; i < SL_COUNT(times); i++) {
        struct sl_engine *e = new_engine();
        struct sl_clusterqueue *q = new_queue("q", NULL, 4);
        q->strategy = SL_STRICT_FIFO;
        sl_engine_put_clusterqueue(e, q);
        put_lq(e, "q", "q");
        put_wl(e, "w", "q", 0, 100, 1, 9);
        expect_run(e, 100, "pending w");
        assert_int_equal(sl_engine_next_due_ms(e), -1);
        put_wl(e, "higher", "q", 1, 100, 1, 9); /* from now on w waits behind it */
        struct sl_workload *w = new_wl("later", "q", 0, 100, 1, 1);
        w->has_requeue_at = true;
        w->requeue_at_ms = times[i][0] * 1000;
        sl_engine_put_workload(e, w, 100000);
        SL_AUTO_FREE char *got = run(e, 101);
        assert_non_null(strstr(got, "pending higher"));
        assert_int_equal(sl_engine_next_due_ms(e), times[i][1] * 1000);
        sl_engine_free(e);
    }
}

/* A reason that was told after the last change of usage is not told again when the others are. */
static void reason_of_today(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "q", "K", 4, NONE, NONE);
    put_cq(e, "p", "K", 4, NONE, NONE);
    put_lq(e, "q", "q");
    put_lq(e, "p", "p");
    struct sl_clusterqueue *q = new_queue("q", "K", 4);
    q->strategy = SL_STRICT_FIFO;
    sl_engine_put_clusterqueue(e, q);
    put_wl(e, "w", "q", 0, 100, 1, 9);
    expect_run(e, 100, "pending w");
    put_wl(e, "x", "p", 0, 105, 1, 1);
    expect_run(e, 105, "admit x f=1");
    assert_int_equal(sl_engine_next_due_ms(e), 135000);
    q = new_queue("q", "K", 3);
    q->strategy = SL_STRICT_FIFO;
    sl_engine_put_clusterqueue(e, q); /* all of the queue are told what is new */
    expect_run(e, 110, "pending w");
    const struct wl *w = sl_map_get(&e->workloads, "w");
    assert_int_equal(w->told_ms, 110000);
    expect_run(e, 135, "");
    assert_int_equal(w->told_ms, 110000);
    sl_engine_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_in_order),
        cmocka_unit_test(rows_of_a_localqueue),
        cmocka_unit_test(rows_of_what_is_not_listed),
        cmocka_unit_test(pending_of_a_localqueue),
        cmocka_unit_test(order_of_pending),
        cmocka_unit_test(head_behind_a_hopeless_one),
        cmocka_unit_test(idle_quota),
        cmocka_unit_test(next_due),
        cmocka_unit_test(reason_of_today),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
