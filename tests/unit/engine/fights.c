/* The guard against evictions for nothing (docs/termination.md): who is held back, who may not evict, and who would be
 * evicted in return. What happened before is told to the guard directly, as if it had been decided. */
#include "support.h"

static struct wl *wl_of(struct sl_engine *e, const char *name) {
    return sl_map_get(&e->workloads, name);
}

static void evicted_before(struct sl_engine *e, const char *by, const char *victim, int times) {
    trees_refresh(e);
    for (int i = 0; i < times; i++)
        fight_begin(e, wl_of(e, by)->cq->node.tree, wl_of(e, by), wl_of(e, victim));
}

/* R2: a victim that is back has to wait for its preemptor only as long as that has a way, and would lose it. Four in
 * the Cohort; v asks for 1 and comes before p. */
static void held_back(void **state) {
    (void)state;
    static const struct {
        const char *what;
        int64_t asks, others; /* of p; of y, which comes first; 0: no y */
        int64_t held;         /* by h, whom nobody may evict */
        int drains;           /* so many hold 1 each whom p has evicted too */
        int64_t ahead;        /* asked by one before p in its queue */
        int times;
        const char *expect;
    } cases[] = {
        {"p goes first", 4, 0, 0, 0, 0, 2, "admit p f=4; pending v"},
        {"one eviction is not enough", 4, 0, 0, 0, 0, 1, "admit v f=1; pending p"},
        {"there is room for both", 3, 0, 0, 0, 0, 2, "admit v f=1; admit p f=3"},
        {"p is not its queue's head", 4, 0, 0, 0, 9, 2, "admit v f=1; pending p; pending ahead"},
        {"p asks for more than there ever is", 5, 0, 0, 0, 0, 2, "admit v f=1; pending p"},
        {"p has nobody to preempt", 4, 0, 1, 0, 0, 2, "admit v f=1; pending p"},
        {"p has lost already", 4, 1, 0, 0, 0, 2, "admit y f=1; admit v f=1; pending p"},
        {"it is while another is on its way out", 4, 0, 0, 1, 0, 1, "pending p; pending v"},
        {"or several are", 4, 0, 0, 2, 0, 1, "pending p; pending v"},
    };
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        struct sl_engine *e = new_engine();
        put_cohort(e, "K", NULL, 2, NONE, NONE);
        struct sl_clusterqueue *q = new_queue("p", "K", 0);
        q->strategy = SL_STRICT_FIFO;
        q->reclaim_within_cohort = SL_PREEMPT_ANY;
        q->borrow_within_cohort = SL_PREEMPT_LOWER_PRIORITY;
        sl_engine_put_clusterqueue(e, q);
        put_lq(e, "p", "p");
        static const char *const queues[] = {"v", "y", "h"};
        for (size_t k = 0; k < SL_COUNT(queues); k++)
            put_policy(e, queues[k], "K", k < 2, SL_PREEMPT_NEVER, SL_PREEMPT_NEVER, SL_PREEMPT_NEVER);
        put_wl(e, "p", "p", 0, 100, 1, cases[i].asks);
        put_wl(e, "v", "v", 1, 100, 1, 1);
        if (cases[i].held)
            hold(e, "h", "h", 9, 90, cases[i].held);
        for (int k = 0; k < cases[i].drains; k++) {
            struct sl_workload *o = holding(new_wl(k ? "d2" : "d1", "h", -1, 90, 1, 1), "h", "f", 90);
            o->evicted = (struct sl_condition_view){SL_TRI_TRUE, 95000, sl_xstrdup("Preempted")};
            sl_engine_put_workload(e, o, 95000);
        }
        if (cases[i].others)
            put_wl(e, "y", "y", 2, 100, 1, cases[i].others);
        if (cases[i].ahead)
            put_wl(e, "ahead", "p", 0, 50, 1, cases[i].ahead);
        evicted_before(e, "p", "v", cases[i].times);
        SL_AUTO_FREE char *got = run(e, 100);
        if (strcmp(got, cases[i].expect) != 0)
            fail_msg("%s: expected \"%s\", got \"%s\"", cases[i].what, cases[i].expect, got);
        expect_run(e, 100, "");
        if (cases[i].drains)
            expect_message(e, "v", "The workload that preempted it goes first");
        sl_engine_free(e);
    }
}

/* R3: three times are enough. What it has a right to is kept for it, unless it could take it back from anybody (4.7).
 */
static void three_times(void **state) {
    (void)state;
    static const struct {
        int times;
        enum sl_preempt_policy reclaim;
        const char *expect;
    } cases[] = {
        {2, SL_PREEMPT_NEVER, "evict low InClusterQueue by w; admit o f=1; pending w"},
        {3, SL_PREEMPT_NEVER, "pending w; pending o"},
        {3, SL_PREEMPT_ANY, "admit o f=1; pending w"},
    };
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        struct sl_engine *e = new_engine();
        struct sl_clusterqueue *q = new_queue("q", "K", 4);
        q->strategy = SL_STRICT_FIFO; /* w stays the head */
        q->within_cluster_queue = SL_PREEMPT_LOWER_PRIORITY;
        q->reclaim_within_cohort = cases[i].reclaim;
        sl_engine_put_clusterqueue(e, q);
        put_lq(e, "q", "q");
        put_policy(e, "o", "K", 0, SL_PREEMPT_NEVER, SL_PREEMPT_NEVER, SL_PREEMPT_NEVER);
        hold(e, "low", "q", 0, 90, 3);
        put_wl(e, "w", "q", 10, 100, 1, 2);
        put_wl(e, "o", "o", 0, 100, 1, 1);
        evicted_before(e, "w", "low", cases[i].times);
        SL_AUTO_FREE char *got = run(e, 100);
        if (strcmp(got, cases[i].expect) != 0)
            fail_msg("%zu: expected \"%s\", got \"%s\"", i, cases[i].expect, got);
        if (cases[i].times == 3)
            expect_message(e, "w", "What it may preempt would preempt it in return, so nothing is preempted");
        sl_engine_free(e);
    }
}

/* The larger of both directions counts, and what others did does not. */
static void rounds_of_two(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "q", NULL, 4, NONE, NONE);
    put_lq(e, "q", "q");
    static const char *const names[] = {"a", "b", "c"};
    for (size_t i = 0; i < 3; i++)
        put_wl(e, names[i], "q", 0, 100, 1, 1);
    evicted_before(e, "a", "b", 2);
    evicted_before(e, "b", "a", 1);
    evicted_before(e, "c", "b", 3);
    evicted_before(e, "b", "c", 3);
    static const struct {
        const char *by, *victim;
        unsigned rounds, same_way;
    } cases[] = {{"a", "b", 2, 2}, {"b", "a", 2, 1}, {"c", "b", 3, 3}, {"a", "c", 0, 0}};
    const struct tree *t = wl_of(e, "a")->cq->node.tree;
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        unsigned same_way;
        assert_int_equal(fight_rounds(t, wl_of(e, cases[i].by), wl_of(e, cases[i].victim), &same_way), cases[i].rounds);
        assert_int_equal(same_way, cases[i].same_way);
    }
    put_cq(e, "q", NULL, 5, NONE, NONE); /* something new: all is forgotten */
    trees_refresh(e);
    unsigned same_way;
    assert_int_equal(fight_rounds(wl_of(e, "a")->cq->node.tree, wl_of(e, "a"), wl_of(e, "b"), &same_way), 0);
    sl_engine_free(e);
}

/* R1: v holds its queue's own quota, w borrows it: back again, v would evict w, if it is tried at all. */
static void evicts_in_return(void **state) {
    (void)state;
    enum { AS_IT_IS, INACTIVE, MOVED, ALONE, BEHIND, AHEAD, TWO_VICTIMS, ALL };
    for (int how = AS_IT_IS; how < ALL; how++) {
        struct sl_engine *e = new_engine();
        struct sl_clusterqueue *q = new_queue("a", "K", 4);
        q->strategy = how == ALONE || how == BEHIND || how == AHEAD ? SL_STRICT_FIFO : SL_BEST_EFFORT_FIFO;
        q->reclaim_within_cohort = SL_PREEMPT_ANY;
        sl_engine_put_clusterqueue(e, q);
        put_lq(e, "a", "a");
        put_policy(e, "b", "K", 0, SL_PREEMPT_NEVER, SL_PREEMPT_ANY, SL_PREEMPT_LOWER_PRIORITY);
        put_cq(e, "c", "K", 0, NONE, NONE);
        put_lq(e, "c", "c");
        struct sl_workload *o = holding(new_wl("v", "a", 0, 90, 1, how == TWO_VICTIMS ? 1 : 4), "a", "f", 90);
        o->active = how != INACTIVE;
        sl_engine_put_workload(e, o, 90000);
        if (how == TWO_VICTIMS) { /* another one of the same queue stays, so that this is looked through */
            hold(e, "u", "c", 0, 90, 2);
            hold(e, "u2", "c", 0, 90, 1);
        }
        if (how == MOVED)
            put_lq(e, "a", "c");
        if (how == BEHIND || how == AHEAD)
            put_wl(e, "other", "a", how == BEHIND ? 5 : -5, 95, 1, 1);
        put_wl(e, "w", "b", 0, 100, 1, 3);
        trees_refresh(e);
        e->log_on = true;
        struct assignment *a = assign(e, wl_of(e, "w"), NULL, false, NULL);
        struct target items[2] = {{.wl = wl_of(e, "v")}, {.wl = wl_of(e, "u")}};
        bool back = fight_returns(e, wl_of(e, "w"), a, &(struct targets){items, how == TWO_VICTIMS ? 2 : 1});
        e->log_on = false;
        if (back != (how == AS_IT_IS || how == ALONE || how == AHEAD || how == TWO_VICTIMS))
            fail_msg("case %d: %d", how, back);
        sl_engine_check_invariants(e); /* all is as it was */
        assert_true(sl_engine_holds_quota(e, "v") && !sl_engine_holds_quota(e, "w"));
        sl_engine_free(e);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(held_back),
        cmocka_unit_test(three_times),
        cmocka_unit_test(rounds_of_two),
        cmocka_unit_test(evicts_in_return),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
