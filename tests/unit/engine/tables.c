/* The worked tables of the scheduling reference, row by row: preemption in the classical way (7.5), shares (7.8),
 * flavors (5.5) and bookmarks (5.6). */
#include "support.h"

#define MAX_ROWS 6
#define ANY      SL_PREEMPT_ANY
#define LOWER    SL_PREEMPT_LOWER_PRIORITY
#define NEVER    SL_PREEMPT_NEVER

struct held {
    const char *cq;
    int64_t amount, priority;
    bool evicted;
}; /* named by queue and row: "b1" */

static void put_held(struct sl_engine *e, const struct held *h, size_t row, int64_t since_s) {
    char name[16];
    snprintf(name, sizeof name, "%s%zu", h->cq, row);
    struct sl_workload *w = holding(new_wl(name, h->cq, h->priority, since_s, 1, h->amount), h->cq, "f", since_s);
    if (h->evicted)
        w->evicted = (struct sl_condition_view){SL_TRI_TRUE, since_s * 1000, sl_xstrdup("Preempted")};
    sl_engine_put_workload(e, w, since_s * 1000);
}

static void expect_row(struct sl_engine *e, const char *what, const char *expect) {
    SL_AUTO_FREE char *got = run(e, 200);
    if (strcmp(got, expect) != 0)
        fail_msg("%s: expected \"%s\", got \"%s\"", what, expect, got);
    expect_run(e, 200, "");
}

/* ---- 7.5 ---- */

struct classical_case {
    const char *what;
    struct {
        const char *name, *parent;
        int64_t nom;
    } cohorts[MAX_ROWS];
    struct {
        const char *name, *parent;
        int64_t nom, ll; /* ll 0: none */
    } queues[MAX_ROWS];
    struct held held[MAX_ROWS];
    int64_t asks, priority; /* of w in queue q */
    enum sl_preempt_policy within, reclaim, borrow;
    int64_t threshold; /* 0: none */
    const char *expect;
};

static void classical(void **state) {
    (void)state;
    static const struct classical_case cases[] = {
        {.what = "above nominal, the sibling does not borrow",
         .queues = {{"q", "K", 2, 0}, {"b", "K", 2, 0}},
         .held = {{"q", 1, 0, false}, {"b", 2, 0, false}},
         .asks = 3,
         .within = LOWER,
         .reclaim = ANY,
         .borrow = LOWER,
         .expect = "pending w"},
        {.what = "quota of its own Cohort, equal priority",
         .cohorts = {{"R", NULL, 0}, {"C", "R", 2}},
         .queues = {{"q", "C", 0, 0}, {"b", "R", 0, 0}},
         .held = {{"b", 2, 0, false}},
         .asks = 2,
         .reclaim = ANY,
         .expect = "evict b0 InCohortReclamation by w; pending w"},
        {.what = "others of higher priority before its own of lower",
         .cohorts = {{"R", NULL, 0}, {"C", "R", 4}},
         .queues = {{"q", "C", 0, 0}, {"b", "R", 0, 0}},
         .held = {{"q", 2, 0, false}, {"b", 2, 100, false}},
         .asks = 2,
         .priority = 50,
         .within = LOWER,
         .reclaim = ANY,
         .expect = "evict b1 InCohortReclamation by w; pending w"},
        {.what = "an evicted one first, of whatever class",
         .cohorts = {{"R", NULL, 0}, {"C", "R", 4}},
         .queues = {{"q", "C", 0, 0}, {"b", "R", 0, 0}},
         .held = {{"q", 2, 0, true}, {"b", 2, 100, false}},
         .asks = 2,
         .priority = 50,
         .within = LOWER,
         .reclaim = ANY,
         .expect = "pending w"}, /* it waits for that one; nobody else goes */
        {.what = "within nominal: sibling and cousin, of any priority",
         .cohorts = {{"R", NULL, 0}, {"C", "R", 2}},
         .queues = {{"q", "C", 4, 0}, {"s", "C", 0, 0}, {"c", "R", 0, 0}},
         .held = {{"s", 3, 100, false}, {"c", 3, 50, false}},
         .asks = 4,
         .reclaim = ANY,
         .expect = "evict c1 InCohortReclamation by w; evict s0 InCohortReclamation by w; pending w"},
        {.what = "a subtree within its quota is not touched",
         .cohorts = {{"R", NULL, 0}, {"A", "R", 4}},
         .queues = {{"q", "R", 4, 0}, {"a", "A", 0, 0}, {"x", "R", 0, 0}},
         .held = {{"a", 4, 0, false}, {"x", 4, 100, false}},
         .asks = 4,
         .priority = 50,
         .reclaim = ANY,
         .expect = "evict x1 InCohortReclamation by w; pending w"},
        {.what = "above the threshold, and it would borrow",
         .queues = {{"q", "K", 1, 0}, {"b", "K", 1, 0}, {"c", "K", 2, 0}},
         .held = {{"b", 3, 5, false}},
         .asks = 3,
         .priority = 10,
         .reclaim = ANY,
         .borrow = LOWER,
         .threshold = 4,
         .expect = "pending w"},
        {.what = "not above the threshold",
         .queues = {{"q", "K", 1, 0}, {"b", "K", 1, 0}, {"c", "K", 2, 0}},
         .held = {{"b", 3, 5, false}},
         .asks = 3,
         .priority = 10,
         .reclaim = ANY,
         .borrow = LOWER,
         .threshold = 5,
         .expect = "evict b0 InCohortReclaimWhileBorrowing by w; pending w"},
        {.what = "above the threshold, but it does not borrow in the end",
         .queues = {{"q", "K", 3, 0}, {"b", "K", 1, 0}},
         .held = {{"b", 3, 5, false}},
         .asks = 3,
         .priority = 10,
         .reclaim = ANY,
         .borrow = LOWER,
         .threshold = 4,
         .expect = "evict b0 InCohortReclamation by w; pending w"},
        {.what = "part from what is not lent, part from the Cohort",
         .cohorts = {{"R", NULL, 0}, {"C", "R", 2}},
         .queues = {{"q", "C", 3, 2}, {"c", "R", 0, 0}},
         .held = {{"c", 4, 0, false}},
         .asks = 5,
         .reclaim = ANY,
         .expect = "evict c0 InCohortReclamation by w; pending w"},
        {.what = "from two branches; one that is down to its quota is left alone",
         .cohorts = {{"R", NULL, 4}, {"M", "R", 4}, {"B", "M", 4}, {"N", "R", 4}},
         .queues = {{"q", "B", 0, 0}, {"n", "N", 0, 0}, {"p", "R", 0, 0}},
         .held = {{"n", 2, 1, false}, {"n", 4, 2, false}, {"p", 5, 3, false}, {"p", 5, 4, false}},
         .asks = 7,
         .reclaim = ANY,
         .expect = "evict n0 InCohortReclamation by w; evict p2 InCohortReclamation by w; pending w"},
        {.what = "only lower priorities, and there is none",
         .queues = {{"q", "K", 2, 0}, {"b", "K", 0, 0}},
         .held = {{"b", 2, 0, false}},
         .asks = 2,
         .reclaim = LOWER,
         .expect = "pending w"},
    };
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        const struct classical_case *c = &cases[i];
        struct sl_engine *e = new_engine();
        for (size_t k = 0; k < MAX_ROWS && c->cohorts[k].name; k++)
            put_cohort(e, c->cohorts[k].name, c->cohorts[k].parent, c->cohorts[k].nom, NONE, NONE);
        for (size_t k = 0; k < MAX_ROWS && c->queues[k].name; k++) {
            struct sl_clusterqueue *q = new_cq(c->queues[k].name, c->queues[k].parent);
            q->groups = one_group("f", GPU, c->queues[k].nom, NONE, c->queues[k].ll ? c->queues[k].ll : NONE);
            q->n_groups = 1;
            q->within_cluster_queue = c->within;
            q->reclaim_within_cohort = c->reclaim;
            q->borrow_within_cohort = c->borrow;
            q->has_max_priority_threshold = c->threshold != 0;
            q->max_priority_threshold = c->threshold;
            sl_engine_put_clusterqueue(e, q);
            put_lq(e, c->queues[k].name, c->queues[k].name);
        }
        for (size_t k = 0; k < MAX_ROWS && c->held[k].cq; k++)
            put_held(e, &c->held[k], k, 100 + (int64_t)k);
        put_wl(e, "w", "q", c->priority, 150, 1, c->asks);
        expect_row(e, c->what, c->expect);
        sl_engine_free(e);
    }
}

static struct sl_workload *asks_two(const char *name, const char *queue, int64_t priority, int64_t created_s,
                                    int64_t gpu, int64_t cpu) {
    struct sl_workload *w = new_wl(name, queue, priority, created_s, 1, gpu);
    struct sl_requests *r = &w->podsets[0].per_pod;
    r->items = sl_xrealloc(r->items, 2, sizeof *r->items);
    r->items[r->n++] = (struct sl_request_amount){sl_xstrdup("cpu"), cpu};
    return w;
}

static void put_two(struct sl_engine *e, const char *name, size_t n, const int64_t (*noms)[2],
                    enum sl_preempt_policy within, enum sl_preempt_policy reclaim) {
    struct sl_clusterqueue *q = new_cq(name, "K");
    q->groups = two_resources(n, noms);
    q->n_groups = 1;
    q->within_cluster_queue = within;
    q->reclaim_within_cohort = reclaim;
    sl_engine_put_clusterqueue(e, q);
    put_lq(e, name, name);
}

static void nothing_of_one_resource(void **state) { /* 0 cpu at its nominal quota does not stop reclaiming gpu */
    (void)state;
    struct sl_engine *e = new_engine();
    put_flavor(e, "f1");
    put_two(e, "q", 1, (const int64_t[][2]){{4, 2}}, NEVER, ANY);
    put_two(e, "b", 1, (const int64_t[][2]){{0, 0}}, NEVER, NEVER);
    sl_engine_put_workload(e, holding(asks_two("own", "q", 0, 100, 0, 2), "q", "f1", 100), 100000);
    sl_engine_put_workload(e, holding(asks_two("other", "b", 0, 100, 4, 0), "b", "f1", 100), 100000);
    sl_engine_put_workload(e, asks_two("w", "q", 0, 150, 4, 0), 150000);
    expect_row(e, "gpu only", "evict other InCohortReclamation by w; pending w");
    sl_engine_free(e);
}

/* ---- 5.5: the worst of the resources counts; what may be reclaimed before what its own queue would lose ---- */

static void worst_of_resources(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_flavor(e, "f1");
    put_flavor(e, "f2");
    /* gpu can be reclaimed in both; cpu: own workload in f1, free in f2 */
    put_two(e, "q", 2, (const int64_t[][2]){{2, 2}, {2, 2}}, LOWER, ANY);
    put_two(e, "b", 2, (const int64_t[][2]){{0, 0}, {0, 0}}, NEVER, NEVER);
    sl_engine_put_workload(e, holding(asks_two("own", "q", 0, 100, 0, 2), "q", "f1", 100), 100000);
    sl_engine_put_workload(e, holding(asks_two("b1", "b", 0, 100, 2, 0), "b", "f1", 100), 100000);
    sl_engine_put_workload(e, holding(asks_two("b2", "b", 0, 100, 2, 0), "b", "f2", 100), 100000);
    sl_engine_put_workload(e, asks_two("w", "q", 10, 150, 2, 1), 150000);
    expect_row(e, "second flavor", "evict b2 InCohortReclamation by w; pending w");
    sl_engine_free(e);
}

static void reclaim_before_own(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_flavor(e, "f1");
    put_flavor(e, "f2");
    put_two(e, "q", 2, (const int64_t[][2]){{2, 0}, {2, 0}}, LOWER, ANY);
    put_two(e, "b", 2, (const int64_t[][2]){{0, 0}, {0, 0}}, NEVER, NEVER);
    sl_engine_put_workload(e, holding(asks_two("own", "q", 0, 100, 2, 0), "q", "f1", 100), 100000);
    sl_engine_put_workload(e, holding(asks_two("b2", "b", 0, 100, 2, 0), "b", "f2", 100), 100000);
    sl_engine_put_workload(e, asks_two("w", "q", 10, 150, 2, 0), 150000);
    expect_row(e, "second flavor", "evict b2 InCohortReclamation by w; pending w");
    sl_engine_free(e);
}

/* First flavor without candidates, second by borrowing: the second, although the search may stop at a preemption. */
static void no_candidates_is_no_end(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_flavor(e, "f1");
    put_flavor(e, "f2");
    struct sl_clusterqueue *q = new_cq("q", "K");
    q->groups = two_resources(2, (const int64_t[][2]){{2, 0}, {0, 0}});
    q->n_groups = 1;
    q->within_cluster_queue = LOWER;
    q->when_can_preempt = SL_MAY_STOP_SEARCH;
    sl_engine_put_clusterqueue(e, q);
    put_lq(e, "q", "q");
    put_two(e, "b", 2, (const int64_t[][2]){{0, 0}, {2, 0}}, NEVER, NEVER);
    sl_engine_put_workload(e, holding(asks_two("own", "q", 50, 100, 2, 0), "q", "f1", 100), 100000);
    sl_engine_put_workload(e, asks_two("w", "q", 10, 150, 2, 0), 150000);
    expect_row(e, "second flavor", "admit w f2=0 f2=2");
    sl_engine_free(e);
}

/* ---- 5.6 ---- */

/* The first pod set fits in the first flavor and leaves no room for the second one: next time it starts at the second
 * flavor. When no way is left, the workload comes to rest. */
static void next_flavor_for_the_first(void **state) {
    (void)state;
    for (int room = 0; room < 2; room++) {
        struct sl_engine *e = new_engine();
        put_flavor(e, "f1");
        put_flavor(e, "f2");
        put_two(e, "q", 2, (const int64_t[][2]){{2, 0}, {room, 0}}, NEVER, NEVER);
        struct sl_workload *w = new_wl("w", "q", 0, 150, 1, 1);
        add_podset(w, 2);
        sl_engine_put_workload(e, w, 150000);
        expect_row(e, "two pod sets", room ? "admit w f2=1 f1=2" : "pending w");
        sl_engine_free(e);
    }
}

/* Two queues want the same lent flavor in one cycle: who lost it goes on with the next flavor. */
static void next_flavor_for_the_loser(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_flavor(e, "f1");
    put_flavor(e, "f2");
    put_two(e, "lender", 2, (const int64_t[][2]){{1, 0}, {1, 0}}, NEVER, NEVER);
    put_two(e, "q", 2, (const int64_t[][2]){{0, 0}, {0, 0}}, NEVER, NEVER);
    put_two(e, "p", 2, (const int64_t[][2]){{0, 0}, {0, 0}}, NEVER, NEVER);
    put_wl(e, "first", "q", 0, 150, 1, 1);
    put_wl(e, "second", "p", 0, 151, 1, 1);
    expect_row(e, "both", "admit first f1=1; admit second f2=1");
    sl_engine_free(e);
}

/* ---- 7.8: queues a, b, c of 3 each (times two where halves are asked) and low of 0 ---- */

struct fair_case {
    const char *what;
    int64_t nom;
    struct held held[12];
    const char *to;
    int64_t asks;
    double weight_a, weight_b; /* 0 is a weight too */
    enum sl_preempt_policy borrow;
    const char *expect;
};

static void fair(void **state) {
    (void)state;
#define ONE(q)                                                                                                         \
    { q, 1, 0, false }
    static const struct fair_case cases[] = {
        {"would turn the imbalance round",
         3,
         {{"a", 3, 0, false}, ONE("b"), ONE("b"), ONE("b"), ONE("b"), ONE("b")},
         "a",
         2,
         1,
         1,
         NEVER,
         "pending new"},
        {"one that holds everything",
         3,
         {{"b", 9, 0, false}},
         "a",
         2,
         1,
         1,
         NEVER,
         "evict b0 InCohortReclamation by new; pending new"},
        {"as much as the other had", 3, {{"a", 2, 0, false}, {"b", 7, 0, false}}, "a", 5, 1, 1, NEVER, "pending new"},
        {"would drop below its quota",
         3,
         {{"b", 3, 0, false}, {"b", 3, 0, false}, {"c", 3, 0, false}},
         "a",
         4,
         1,
         1,
         NEVER,
         "pending new"},
        {"the first strategy first",
         6,
         {{"b", 4, 0, false}, {"b", 2, 0, false}, {"b", 4, 0, false}, {"c", 2, 0, false}},
         "a",
         7,
         1,
         1,
         NEVER,
         "evict b1 InCohortFairSharing by new; pending new"},
        {"one of each",
         6,
         {{"b", 5, 0, false}, {"c", 5, 0, false}, {"b", 4, 0, false}, {"c", 4, 0, false}},
         "a",
         7,
         1,
         1,
         NEVER,
         "evict c3 InCohortFairSharing by new; evict b2 InCohortFairSharing by new; pending new"},
        {"weight 0 against weight 1",
         3,
         {{"a", 3, 0, false}, ONE("b"), ONE("b"), ONE("b"), ONE("b"), ONE("b"), ONE("b")},
         "a",
         1,
         0,
         1,
         NEVER,
         "pending new"},
        {"weight 0 against weight 0: the ratios",
         3,
         {{"a", 3, 0, false}, ONE("b"), ONE("b"), ONE("b"), ONE("b"), ONE("b"), ONE("b")},
         "a",
         1,
         0,
         0,
         NEVER,
         "evict b6 InCohortFairSharing by new; pending new"},
        {"of low priority in a queue of 0, which alone is no reason",
         3,
         {{"a", 3, 0, false}, {"b", 3, 0, false}, {"c", 2, 0, false}, {"low", 1, -1, false}},
         "a",
         1,
         1,
         1,
         LOWER,
         "pending new"},
    };
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        const struct fair_case *c = &cases[i];
        struct sl_engine_config config = {.fair_sharing = true};
        struct sl_engine *e = sl_engine_new(&config);
        struct sl_labels none = {NULL, 0};
        sl_engine_put_namespace(e, "ns", &none);
        put_flavor(e, "f");
        static const char *const names[] = {"a", "b", "c", "low"};
        for (size_t k = 0; k < 4; k++) {
            struct sl_clusterqueue *q = new_cq(names[k], "K");
            q->groups = one_group("f", GPU, k < 3 ? c->nom : 0, NONE, NONE);
            q->n_groups = 1;
            q->within_cluster_queue = LOWER;
            q->reclaim_within_cohort = ANY;
            q->borrow_within_cohort = c->borrow;
            q->weight = k == 0 ? c->weight_a : k == 1 ? c->weight_b : 1;
            sl_engine_put_clusterqueue(e, q);
            put_lq(e, names[k], names[k]);
        }
        for (size_t k = 0; k < SL_COUNT(c->held) && c->held[k].cq; k++)
            put_held(e, &c->held[k], k, 100 + (int64_t)k);
        put_wl(e, "new", c->to, 0, 150, 1, c->asks);
        expect_row(e, c->what, c->expect);
        sl_engine_free(e);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classical),
        cmocka_unit_test(nothing_of_one_resource),
        cmocka_unit_test(worst_of_resources),
        cmocka_unit_test(reclaim_before_own),
        cmocka_unit_test(no_candidates_is_no_end),
        cmocka_unit_test(next_flavor_for_the_first),
        cmocka_unit_test(next_flavor_for_the_loser),
        cmocka_unit_test(fair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
