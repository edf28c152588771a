/* What is a change and what is none, many of everything, and fights: the branches of events that the other tests do not
 * reach. */
#include "support.h"

#include <math.h>

/* ---- ClusterQueues: each field that decisions look at ---- */

static struct sl_clusterqueue *base_cq(void) {
    struct sl_clusterqueue *q = new_cq("q", "K");
    q->groups = one_group("f", GPU, 4, 2, 3);
    q->n_groups = 1;
    q->has_max_priority_threshold = true;
    q->max_priority_threshold = 5;
    SL_AUTO_JSON *s = sl_json_from("{'matchExpressions':[{'key':'team','operator':'NotIn','values':['x']}]}");
    assert_int_equal(sl_selector_decode(s, &q->namespace_selector, NULL), 0);
    q->n_checks = 1;
    q->checks = sl_xalloc(sizeof *q->checks);
    q->checks->name = sl_xstrdup("c");
    q->checks->n_flavors = 1;
    q->checks->flavors = sl_xalloc(sizeof(char *));
    q->checks->flavors[0] = sl_xstrdup("f");
    return q;
}

static void rename_text(char **text, const char *to) {
    free(*text);
    *text = sl_xstrdup(to);
}

static const char *change_cq(struct sl_clusterqueue *q, int which) {
    struct sl_quota *n = &q->groups->flavors->quotas[0];
    switch (which) {
    case 0: q->strategy = SL_STRICT_FIFO; return "strategy";
    case 1: q->has_namespace_selector = false; return "no selector";
    case 2: q->when_can_borrow = SL_TRY_NEXT_FLAVOR; return "borrow";
    case 3: q->when_can_preempt = SL_MAY_STOP_SEARCH; return "preempt";
    case 4: q->preference = SL_PREEMPTION_OVER_BORROWING; return "preference";
    case 5: q->reclaim_within_cohort = SL_PREEMPT_ANY; return "reclaim";
    case 6: q->within_cluster_queue = SL_PREEMPT_ANY; return "within";
    case 7: q->borrow_within_cohort = SL_PREEMPT_LOWER_PRIORITY; return "borrow within cohort";
    case 8: q->has_max_priority_threshold = false; return "no threshold";
    case 9: q->max_priority_threshold = 6; return "threshold";
    case 10: q->weight = 2; return "weight";
    case 11: rename_text(&q->cohort, "L"); return "cohort";
    case 12: rename_text(&q->namespace_selector.items[0].key, "other"); return "key";
    case 13: rename_text(&q->namespace_selector.items[0].values[0], "y"); return "value";
    case 14: rename_text(&q->checks->flavors[0], "g"); return "flavor of a check";
    case 15: rename_text(&q->checks->name, "d"); return "check";
    case 16: n->borrowing_limit = 1; return "borrowing limit";
    case 17: n->lending_limit = 1; return "lending limit";
    case 18: n->has_borrowing_limit = false; return "no borrowing limit";
    case 19: n->has_lending_limit = false; return "no lending limit";
    case 20: n->nominal = 3; return "nominal";
    case 21: rename_text(&q->groups->flavors->flavor, "g"); return "flavor";
    case 22:
        q->namespace_selector.items[0].values = sl_xrealloc(q->namespace_selector.items[0].values, 2, sizeof(char *));
        q->namespace_selector.items[0].values[q->namespace_selector.items[0].n++] = sl_xstrdup("z");
        return "one more value";
    case 23: q->namespace_selector.items[0].op = SL_SEL_IN; return "operator";
    default: return NULL;
    }
}

static void changes_of_queues(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_flavor(e, "g");
    put_check(e, "c", true);
    put_check(e, "d", true);
    put_lq(e, "q", "q");
    sl_engine_put_clusterqueue(e, base_cq());
    put_wl(e, "w", "q", 0, 100, 1, 9);
    struct cq *q = sl_map_get(&e->cqs, "q");
    for (int i = 0;; i++) {
        sl_engine_put_clusterqueue(e, base_cq());
        free(run(e, 200 + i));
        trees_refresh(e);
        uint64_t cycles = q->node.tree->cycle;
        sl_engine_put_clusterqueue(e, base_cq()); /* nothing new */
        free(run(e, 200 + i));
        assert_int_equal(q->node.tree->cycle, cycles);
        struct sl_clusterqueue *x = base_cq();
        const char *what = change_cq(x, i);
        sl_engine_put_clusterqueue(e, x);
        free(run(e, 200 + i));
        if (!what)
            break;
        if (q->node.tree->cycle <= cycles)
            fail_msg("%s: waiting ones were not tried again", what);
    }
    sl_engine_free(e);
}

/* ---- flavors and Cohorts ---- */

static uint64_t cycles_after(struct sl_engine *e, int64_t now_s) {
    free(run(e, now_s));
    trees_refresh(e);
    return ((struct cq *)sl_map_get(&e->cqs, "q"))->node.tree->cycle;
}

static void changes_of_flavors(void **state) {
    (void)state;
#define LABELS "'nodeLabels':{'a':'b'}"
#define TAINTS "'nodeTaints':[{'key':'k','value':'v','effect':'NoSchedule'}]"
#define TOLS   "'tolerations':[{'key':'k','operator':'Equal','value':'v','effect':'NoSchedule'}]"
    static const char *const same = "{" LABELS "," TAINTS "," TOLS "}";
    static const char *const other[] = {
        "{'nodeLabels':{'c':'b'}," TAINTS "," TOLS "}",
        "{'nodeLabels':{'a':'c'}," TAINTS "," TOLS "}",
        "{" TAINTS "," TOLS "}",
        "{" LABELS "," TOLS "}",
        "{" LABELS "," TAINTS "}",
        "{" LABELS ",'nodeTaints':[{'key':'l','value':'v','effect':'NoSchedule'}]," TOLS "}",
        "{" LABELS ",'nodeTaints':[{'key':'k','value':'w','effect':'NoSchedule'}]," TOLS "}",
        "{" LABELS ",'nodeTaints':[{'key':'k','value':'v','effect':'NoExecute'}]," TOLS "}",
        "{" LABELS "," TAINTS ",'tolerations':[{'key':'l','operator':'Equal','value':'v','effect':'NoSchedule'}]}",
        "{" LABELS "," TAINTS ",'tolerations':[{'key':'k','operator':'Exists','effect':'NoSchedule'}]}",
        "{" LABELS "," TAINTS ",'tolerations':[{'key':'k','operator':'Equal','value':'w','effect':'NoSchedule'}]}",
        "{" LABELS "," TAINTS ",'tolerations':[{'key':'k','operator':'Equal','value':'v','effect':'NoExecute'}]}",
    };
    struct sl_engine *e = new_engine();
    put_cq(e, "q", "K", 4, NONE, NONE);
    put_lq(e, "q", "q");
    put_wl(e, "w", "q", 0, 100, 1, 9);
    for (size_t i = 0; i < SL_COUNT(other); i++) {
        put_flavor_of(e, "f", same);
        uint64_t cycles = cycles_after(e, 200 + (int64_t)i);
        put_flavor_of(e, "f", same);
        assert_int_equal(cycles_after(e, 200 + (int64_t)i), cycles);
        put_flavor_of(e, "f", other[i]);
        if (cycles_after(e, 200 + (int64_t)i) <= cycles)
            fail_msg("%s: waiting ones were not tried again", other[i]);
    }
    put_cohort(e, "K", NULL, 1, NONE, NONE);
    uint64_t cycles = cycles_after(e, 300);
    put_cohort(e, "K", NULL, 1, NONE, NONE);
    assert_int_equal(cycles_after(e, 301), cycles);
    put_cohort(e, "K", "R", 1, NONE, NONE);
    assert_true(cycles_after(e, 302) > cycles);
    cycles = cycles_after(e, 303);
    put_cohort(e, "K", "R", 1, 1, NONE);
    assert_true(cycles_after(e, 304) > cycles);
    sl_engine_del_flavor(e, "f");
    SL_AUTO_FREE char *got = run(e, 305);
    assert_string_equal(got, "pending w");
    sl_engine_free(e);
}

/* ---- namespaces: only queues whose selector matches now look again ---- */

static void put_ns(struct sl_engine *e, const char *text) {
    SL_AUTO_JSON *j = sl_json_from(text);
    struct sl_labels l;
    sl_labels_decode(j, NULL, &l);
    sl_engine_put_namespace(e, "ns", &l);
    sl_labels_done(&l);
}

static void changes_of_namespaces(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    struct sl_clusterqueue *q = new_cq("q", NULL);
    q->groups = one_group("f", GPU, 4, NONE, NONE);
    q->n_groups = 1;
    SL_AUTO_JSON *s = sl_json_from("{'matchLabels':{'team':'a'}}");
    assert_int_equal(sl_selector_decode(s, &q->namespace_selector, NULL), 0);
    sl_engine_put_clusterqueue(e, q);
    q = new_cq("nobody", NULL);
    q->groups = one_group("f", GPU, 4, NONE, NONE);
    q->n_groups = 1;
    q->has_namespace_selector = false;
    sl_engine_put_clusterqueue(e, q);
    put_lq(e, "q", "q");
    put_lq(e, "n", "nobody");
    put_wl(e, "w", "q", 0, 100, 1, 1);
    put_wl(e, "v", "n", 0, 100, 1, 1);
    SL_AUTO_FREE char *first = run(e, 100);
    assert_null(strstr(first, "admit"));
    const struct sl_workload **list;
    assert_int_equal(sl_engine_pending(e, "q", &list), 1);
    free(list);
    static const char *const labels[] = {"{'team':'b'}", "{'team':'b'}", "{'x':'b'}", "{'team':'b','x':'y'}"};
    for (size_t i = 0; i < SL_COUNT(labels); i++) {
        put_ns(e, labels[i]);
        expect_run(e, 101 + (int64_t)i, "");
    }
    put_ns(e, "{'team':'a','x':'y'}");
    expect_run(e, 110, "admit w f=1");
    put_lq(e, "q", "nobody"); /* a queue change tells also those that no namespace lets in */
    struct sl_clusterqueue *gone = new_cq("nobody", NULL);
    gone->groups = one_group("f", GPU, 5, NONE, NONE);
    gone->n_groups = 1;
    gone->stop = SL_STOP_HOLD;
    sl_engine_put_clusterqueue(e, gone);
    expect_run(e, 111, "pending v");
    sl_engine_free(e);
}

/* ---- workloads that may not wait, and updates of those that do ---- */

static void changes_of_workloads(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "q", NULL, 4, NONE, NONE);
    put_lq(e, "q", "q");
    for (int i = 0; i < 7; i++) {
        struct sl_workload *w = new_wl("w", "q", 0, 100, 1, 1);
        w->gated = i == 0;
        w->finished.status = i == 1 ? SL_TRI_TRUE : SL_TRI_ABSENT;
        w->active = i != 2;
        w->deleting = i == 3;
        w->waiting_for_replacement.status = i == 4 ? SL_TRI_TRUE : SL_TRI_ABSENT;
        if (i == 5)
            w->quota_reserved = (struct sl_condition_view){SL_TRI_FALSE, 0, sl_xstrdup("OnHold")};
        if (i == 6)
            w->quota_reserved.status = SL_TRI_TRUE; /* without an admission */
        sl_engine_put_workload(e, w, 100000);
        expect_run(e, 100, "");
        const struct sl_workload **list;
        assert_int_equal(sl_engine_pending(e, "q", &list), 0);
        free(list);
        if (i == 1) {
            SL_AUTO_JSON *why = sl_engine_explain(e, "w");
            assert_string_equal(sl_json_get_str(why, "state", ""), "Finished");
        }
    }
    sl_engine_del_workload(e, "w");
    /* held, then finished, and not any more; held on while it is being deleted or switched off: its pods may run */
    for (int i = 0; i < 3; i++) {
        put_wl(e, "h", "q", 0, 100, 1, 4);
        SL_AUTO_FREE char *got = run(e, 110 + i);
        assert_string_equal(got, "admit h f=4");
        sl_engine_put_workload(e, holding(new_wl("h", "q", 0, 100, 1, 4), "q", "f", 110), 111000);
        struct sl_workload *w = holding(new_wl("h", "q", 0, 100, 1, 4), "q", "f", 110);
        w->finished.status = i == 0 ? SL_TRI_TRUE : SL_TRI_ABSENT;
        w->deleting = i == 1;
        w->active = i != 2;
        sl_engine_put_workload(e, w, 112000);
        assert_int_equal(sl_engine_holds_quota(e, "h"), i != 0);
        sl_engine_check_invariants(e);
        sl_engine_del_workload(e, "h");
    }
    /* waiting for a time, put again with another time; two of them; one goes */
    for (int i = 0; i < 12; i++) {
        char name[8];
        snprintf(name, sizeof name, "b%d", i);
        struct sl_workload *w = new_wl(name, "q", 0, 100, 1, 9);
        w->has_requeue_at = true;
        w->requeue_at_ms = 144000 - (i % 5) * 5000;
        w->requeued.status = SL_TRI_TRUE;
        sl_engine_put_workload(e, w, 120000);
    }
    free(run(e, 120));
    assert_int_equal(sl_engine_next_due_ms(e), 124000);
    struct sl_workload *w = new_wl("b4", "q", 0, 100, 1, 9);
    w->has_requeue_at = true;
    w->requeue_at_ms = 124000;
    w->requeued.status = SL_TRI_TRUE;
    sl_engine_put_workload(e, w, 121000); /* the same */
    expect_run(e, 121, "");
    sl_engine_del_workload(e, "b9");
    w = new_wl("b4", "q", 0, 100, 1, 9);
    w->has_requeue_at = true;
    w->requeue_at_ms = 123500;
    w->requeued.status = SL_TRI_TRUE;
    sl_engine_put_workload(e, w, 122000);
    assert_int_equal(sl_engine_next_due_ms(e), 123500);
    sl_engine_del_workload(e, "b0");
    struct sl_clusterqueue *q = new_cq("q", NULL);
    q->groups = one_group("f", GPU, 4, NONE, NONE);
    q->n_groups = 1;
    q->stop = SL_STOP_HOLD;
    sl_engine_put_clusterqueue(e, q); /* all of them are told */
    SL_AUTO_FREE char *all = run(e, 123);
    assert_non_null(strstr(all, "pending b11"));
    put_cq(e, "q", NULL, 4, NONE, NONE);
    free(run(e, 124));
    sl_engine_check_invariants(e);
    /* checks and what makes it invalid come and go */
    for (int i = 0; i < 4; i++) {
        w = new_wl("c", "q", 0, 130, 1, 1);
        w->n_checks = i < 3;
        w->checks = sl_xalloc(sizeof *w->checks);
        if (i < 3)
            w->checks[0] = (struct sl_check_view){.name = sl_xstrdup(i == 2 ? "d" : "c"),
                                                  .state = i == 1 ? SL_CHECK_REJECTED : SL_CHECK_RETRY};
        sl_engine_put_workload(e, w, 124000);
        SL_AUTO_FREE char *got = run(e, 124);
        assert_string_equal(got, i == 0 ? "pending c" : i == 3 ? "admit c f=1" : "");
    }
    sl_engine_free(e);
}

/* ---- many of everything ---- */

static void many(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    char name[16], parent[16];
    for (int i = 0; i < 70; i++) { /* deeper than a path in a message shows */
        snprintf(name, sizeof name, "c%d", i);
        snprintf(parent, sizeof parent, "c%d", i - 1);
        put_cohort(e, name, i ? parent : NULL, 0, NONE, NONE);
    }
    struct sl_clusterqueue *q = new_cq("q", "c69");
    q->groups = one_group("f", GPU, 40, NONE, NONE);
    q->n_groups = 1;
    q->within_cluster_queue = SL_PREEMPT_LOWER_PRIORITY;
    sl_engine_put_clusterqueue(e, q);
    put_lq(e, "q", "q");
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "h%d", i);
        sl_engine_put_workload(e, holding(new_wl(name, "q", 0, 90, 1, 1), "q", "f", 90), 90000);
    }
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "w%d", i);
        put_wl(e, name, "q", 0, 100 - i, 1, 1);
    }
    struct sl_decisions d;
    bool more;
    sl_engine_run(e, 101000, 0, &d, &more);
    assert_int_equal(d.n, 20);
    size_t holders = 0;
    for (size_t i = 0; i < d.n; i++)
        holders += strstr(d.items[i].message, "and 37 more") != NULL;
    assert_int_equal(holders, 1); /* the one that was tried; the others wait behind it */
    sl_decisions_done(&d);
    sl_engine_del_workload(e, "w3"); /* from the middle of its class */
    sl_engine_del_workload(e, "w19");
    put_wl(e, "big", "q", 10, 102, 1, 40); /* everybody goes */
    sl_engine_run(e, 102000, 0, &d, &more);
    size_t evictions = 0;
    for (size_t i = 0; i < d.n; i++)
        if (d.items[i].kind == SL_DECIDE_EVICT) {
            evictions++;
            assert_null(strstr(d.items[i].message, "/c5/")); /* the upper end is cut */
            assert_non_null(strstr(d.items[i].message, "/c69/q"));
        }
    assert_int_equal(evictions, 40);
    sl_decisions_done(&d);
    const struct sl_workload **list;
    assert_int_equal(sl_engine_pending(e, "q", &list), 19);
    assert_string_equal(list[0]->name, "big");
    free(list);
    /* more flavors and requests than a first allocation has room for */
    struct sl_clusterqueue *wide = new_cq("wide", NULL);
    wide->groups = one_group("g0", GPU, 1, NONE, NONE);
    wide->n_groups = 1;
    wide->groups->n_flavors = 12;
    wide->groups->flavors = sl_xrealloc(wide->groups->flavors, 12, sizeof *wide->groups->flavors);
    put_flavor(e, "g0");
    for (size_t i = 1; i < 12; i++) {
        snprintf(name, sizeof name, "g%zu", i);
        put_flavor(e, name);
        struct sl_resource_group *one = one_group(name, GPU, 1, NONE, NONE);
        wide->groups->flavors[i] = one->flavors[0];
        free(one->flavors);
        free(one->covered[0]);
        free(one->covered);
        free(one);
    }
    sl_engine_put_clusterqueue(e, wide);
    put_lq(e, "wide", "wide");
    put_wl(e, "none", "wide", 0, 110, 1, 2);
    expect_run(e, 110, "pending none");
    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof name, "x%d", i);
        put_wl(e, name, "wide", 0, 111 + i, 1, 1);
    }
    SL_AUTO_FREE char *got = run(e, 130);
    assert_non_null(strstr(got, "admit x11 g11=1"));
    sl_engine_check_invariants(e);
    sl_engine_free(e);
}

/* ---- fair sharing: a queue alone, a limit of admissions, Cohorts that tie ---- */

static void put_fair(struct sl_engine *e, const char *name, const char *cohort, int64_t nom) {
    struct sl_clusterqueue *q = new_cq(name, cohort);
    q->groups = one_group("f", GPU, nom, NONE, NONE);
    q->n_groups = 1;
    q->within_cluster_queue = SL_PREEMPT_LOWER_PRIORITY;
    q->reclaim_within_cohort = SL_PREEMPT_ANY;
    sl_engine_put_clusterqueue(e, q);
    put_lq(e, name, name);
}

static void fair_alone(void **state) {
    (void)state;
    struct sl_engine *e = fair_engine();
    put_fair(e, "q", NULL, 2);
    sl_engine_put_workload(e, holding(new_wl("low", "q", 0, 90, 1, 1), "q", "f", 90), 90000);
    sl_engine_put_workload(e, holding(new_wl("older", "q", 0, 80, 1, 1), "q", "f", 80), 90000);
    put_wl(e, "w", "q", 10, 100, 1, 1);
    expect_run(e, 100, "evict low InClusterQueue by w; pending w");
    sl_engine_del_workload(e, "low");
    expect_run(e, 101, "admit w f=1");
    put_wl(e, "v", "q", 5, 102, 1, 2); /* not by taking the only lower one */
    expect_run(e, 102, "pending v");
    struct sl_queue_view v;
    sl_engine_clusterqueue_view(e, "q", &v);
    assert_true(v.weighted_share == 0);
    sl_queue_view_done(&v);
    sl_engine_free(e);
}

static void fair_limit(void **state) {
    (void)state;
    struct sl_engine *e = fair_engine();
    for (int i = 0; i < 4; i++) {
        char name[8];
        snprintf(name, sizeof name, "q%d", i);
        put_fair(e, name, "K", 1);
        put_wl(e, name, name, 0, 100 + i, 1, 1);
    }
    struct sl_decisions d;
    bool more;
    sl_engine_run(e, 110000, 3, &d, &more);
    assert_int_equal(d.n, 3);
    assert_true(more);
    sl_decisions_done(&d);
    expect_run(e, 110, "admit q3 f=1");
    sl_engine_free(e);
}

/* Two Cohorts that borrow the same: the first by name is attacked; a Cohort before a queue of the same share. */
static void fair_ties(void **state) {
    (void)state;
    for (int queue = 0; queue < 2; queue++) {
        struct sl_engine *e = fair_engine();
        put_cohort(e, "R", NULL, 0, NONE, NONE);
        put_cohort(e, "zz", "R", 0, NONE, NONE);
        put_cohort(e, "aa", "R", 0, NONE, NONE);
        put_fair(e, "q", "R", 6);
        put_fair(e, "z", queue ? "R" : "zz", 0);
        put_fair(e, "a", "aa", 0);
        for (int i = 0; i < 6; i++) {
            char name[8];
            snprintf(name, sizeof name, "%s%d", i < 3 ? "z" : "a", i);
            sl_engine_put_workload(
                e, holding(new_wl(name, i < 3 ? "z" : "a", 0, 90, 1, 1), i < 3 ? "z" : "a", "f", 100 - i), 100000);
        }
        put_wl(e, "w", "q", 0, 110, 1, 1);
        expect_run(e, 110, "evict a3 InCohortReclamation by w; pending w");
        struct sl_cohort_view c;
        sl_engine_cohort_view(e, "aa", &c);
        assert_true(fabs(c.weighted_share - 500) < 1e-9);
        sl_cohort_view_done(&c);
        sl_engine_free(e);
    }
}

/* ---- evictions that could not be written, or whose victim changed ---- */

static void eviction_fails(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    for (int i = 0; i < 2; i++) {
        struct sl_clusterqueue *q = new_cq(i ? "b" : "a", "K");
        q->groups = one_group("f", GPU, 2, NONE, NONE);
        q->n_groups = 1;
        q->within_cluster_queue = SL_PREEMPT_LOWER_PRIORITY;
        sl_engine_put_clusterqueue(e, q);
        put_lq(e, i ? "b" : "a", i ? "b" : "a");
    }
    sl_engine_put_workload(e, holding(new_wl("x", "a", 0, 90, 1, 2), "a", "f", 90), 90000);
    sl_engine_put_workload(e, holding(new_wl("y", "b", 0, 90, 1, 2), "b", "f", 90), 90000);
    put_wl(e, "v", "a", 10, 100, 1, 2);
    put_wl(e, "w", "b", 10, 101, 1, 2);
    expect_run(e, 101, "evict x InClusterQueue by v; evict y InClusterQueue by w; pending v; pending w");
    sl_engine_write_failed(e, "y", false);
    expect_run(e, 102, "evict y InClusterQueue by w");
    sl_engine_write_failed(e, "y", false);
    sl_engine_write_failed(e, "y", false); /* told twice */
    expect_run(e, 103, "evict y InClusterQueue by w");
    /* the preemptor itself is withdrawn: its victim is on its way out all the same */
    struct sl_workload *o = new_wl("w", "b", 10, 101, 1, 2);
    o->active = false;
    sl_engine_put_workload(e, o, 104000);
    expect_run(e, 104, "");
    /* the other one changes while it has the head of its queue */
    o = new_wl("v", "a", 10, 100, 1, 1);
    o->generation = 2;
    sl_engine_put_workload(e, o, 105000);
    SL_AUTO_FREE char *got = run(e, 105);
    assert_null(strstr(got, "evict"));
    sl_engine_put_workload(e, holding(new_wl("x", "a", 0, 90, 1, 2), "a", "f", 90), 106000);
    sl_engine_write_failed(e, "x", true); /* it is gone */
    SL_AUTO_FREE char *last = run(e, 106);
    assert_non_null(strstr(last, "admit v f=1"));
    sl_engine_check_invariants(e);
    sl_engine_free(e);
}

/* ---- several queues in one cycle ---- */

/* A preemptor needs less than its victim will give back: nobody is admitted on the difference before it is there. */
static void not_on_what_is_still_held(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    struct sl_clusterqueue *q = new_cq("a", "K");
    q->groups = one_group("f", GPU, 6, NONE, NONE);
    q->n_groups = 1;
    q->within_cluster_queue = SL_PREEMPT_LOWER_PRIORITY;
    sl_engine_put_clusterqueue(e, q);
    put_lq(e, "a", "a");
    put_cq(e, "b", "K", 0, NONE, NONE);
    put_lq(e, "b", "b");
    put_cq(e, "c", "K", 0, NONE, NONE);
    put_lq(e, "c", "c");
    sl_engine_put_workload(e, holding(new_wl("x", "a", 0, 90, 1, 4), "a", "f", 90), 90000);
    put_wl(e, "w", "a", 10, 100, 1, 3);
    put_wl(e, "v1", "b", 0, 101, 1, 2);
    put_wl(e, "v2", "c", 0, 102, 1, 1);
    expect_run(e, 102, "evict x InClusterQueue by w; admit v1 f=2; pending w; pending v2");
    SL_AUTO_JSON *why = sl_engine_explain(e, "v2");
    assert_non_null(strstr(sl_json_get_str(why, "message", ""), "free 0"));
    sl_engine_del_workload(e, "x");
    expect_run(e, 103, "admit v2 f=1; admit w f=3");
    sl_engine_free(e);
}

static void limit_in_one_cycle(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    for (int i = 0; i < 4; i++) {
        char name[8];
        snprintf(name, sizeof name, "q%d", i);
        put_cq(e, name, "K", 1, NONE, NONE);
        put_lq(e, name, name);
        put_wl(e, name, name, 0, 100 + i, 1, 1);
    }
    struct sl_decisions d;
    bool more;
    sl_engine_run(e, 110000, 3, &d, &more);
    assert_int_equal(d.n, 3);
    assert_true(more);
    sl_decisions_done(&d);
    expect_run(e, 110, "admit q3 f=1");
    sl_engine_free(e);
}

/* One admission at a time until its pods are ready, also among the queues of one Cohort. */
static void one_at_a_time(void **state) {
    (void)state;
    struct sl_engine_config config = {.block_admission = true};
    struct sl_engine *e = sl_engine_new(&config);
    struct sl_labels none = {NULL, 0};
    sl_engine_put_namespace(e, "ns", &none);
    put_flavor(e, "f");
    static const char *const names[] = {"a", "b", "idle"};
    for (size_t i = 0; i < SL_COUNT(names); i++) {
        put_cq(e, names[i], "K", 1, NONE, NONE);
        put_lq(e, names[i], names[i]);
    }
    put_wl(e, "x", "a", 0, 100, 1, 1);
    put_wl(e, "y", "b", 0, 101, 1, 1);
    expect_run(e, 101, "admit x f=1; pending y");
    SL_AUTO_JSON *why = sl_engine_explain(e, "y");
    assert_string_equal(sl_json_get_str(why, "reason", ""), "Waiting");
    struct sl_workload *w = holding(new_wl("x", "a", 0, 100, 1, 1), "a", "f", 101);
    w->pods_ready.status = SL_TRI_TRUE;
    sl_engine_put_workload(e, w, 102000);
    expect_run(e, 102, "admit y f=1");
    sl_engine_free(e);
}

/* ---- which of those that hold quota would have to finish: the one that holds least, by uid ---- */

static void who_finishes(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "q", NULL, 8, NONE, NONE);
    put_lq(e, "q", "q");
    static const struct {
        const char *name;
        int64_t amount;
    } held[] = {{"d", 2}, {"c", 3}, {"b", 2}, {"e", 1}};
    for (size_t i = 0; i < SL_COUNT(held); i++)
        sl_engine_put_workload(e, holding(new_wl(held[i].name, "q", 0, 90, 1, held[i].amount), "q", "f", 90), 90000);
    put_wl(e, "w", "q", 0, 100, 1, 2);
    expect_run(e, 100, "pending w");
    SL_AUTO_JSON *why = sl_engine_explain(e, "w");
    assert_string_equal(sl_json_get_str(why, "smallestChange", ""),
                        "workload ns/b finishes, or 2 more nvidia.com/gpu in flavor f");
    sl_engine_free(e);
}

/* ---- books at their limit, shared by LocalQueues, some not admitted ---- */

static void shared_books(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "q", NULL, SL_UNLIMITED, NONE, NONE);
    put_lq(e, "q", "q");
    put_lq(e, "r", "q");
    struct sl_workload *w = holding(new_wl("x", "q", 0, 90, 1, 2), "q", "f", 90);
    w->admitted.status = SL_TRI_FALSE;
    sl_engine_put_workload(e, w, 90000);
    sl_engine_put_workload(e, holding(new_wl("y", "r", 0, 90, 1, 3), "q", "f", 90), 90000);
    sl_engine_put_workload(e, holding(new_wl("z", "r", 0, 90, 1, 7), "q", "old", 90), 90000);
    for (int i = 0; i < 2; i++) {
        const char *from = i ? "r" : "q";
        sl_engine_put_workload(e, holding(new_wl("huge", from, 0, 90, 1, INT64_MAX - 1), "q", "f", 90), 91000);
        struct sl_queue_view v;
        sl_engine_localqueue_view(e, "ns", from, &v);
        assert_true(v.rows[0].reserved == SL_UNLIMITED);
        sl_queue_view_done(&v);
        sl_engine_del_workload(e, "huge");
        sl_engine_check_invariants(e);
        sl_engine_clusterqueue_view(e, "q", &v);
        assert_int_equal(v.rows[0].reserved, 5);
        assert_int_equal(v.rows[0].used, 3);
        sl_queue_view_done(&v);
        sl_engine_localqueue_view(e, "ns", "q", &v);
        assert_int_equal(v.rows[0].reserved, 2);
        assert_int_equal(v.rows[0].used, 0);
        sl_queue_view_done(&v);
        sl_engine_localqueue_view(e, "ns", "r", &v);
        assert_int_equal(v.rows[0].reserved, 3);
        assert_int_equal(v.rows[0].used, 3);
        sl_queue_view_done(&v);
    }
    sl_engine_free(e);
}

/* A pod that names a thousand resources of which it asks nothing. */
static void many_resources(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "q", NULL, 4, NONE, NONE);
    put_lq(e, "q", "q");
    struct sl_workload *w = new_wl("w", "q", 0, 100, 1, 1);
    struct sl_requests *r = &w->podsets[0].per_pod;
    r->items = sl_xrealloc(r->items, 1001, sizeof *r->items);
    for (int i = 0; i < 1000; i++)
        r->items[r->n++] = (struct sl_request_amount){sl_xprintf("example.com/r%d", i), 0};
    sl_engine_put_workload(e, w, 100000);
    put_wl(e, "v", "q", 0, 101, 1, 4);
    expect_run(e, 101, "admit w f=1; pending v");
    sl_engine_check_invariants(e);
    sl_engine_free(e);
}

/* ---- fair sharing: one strategy alone, a borrower whose queue is stopped ---- */

static void fair_final_only(void **state) {
    (void)state;
    struct sl_engine_config config = {.fair_sharing = true, .strategies = {SL_FAIR_FINAL_SHARE}};
    for (int both = 0; both < 2; both++) {
        struct sl_engine *e = sl_engine_new(both ? &(struct sl_engine_config){.fair_sharing = true} : &config);
        struct sl_labels none = {NULL, 0};
        sl_engine_put_namespace(e, "ns", &none);
        put_flavor(e, "f");
        put_fair(e, "a", "K", 3);
        put_fair(e, "b", "K", 3);
        /* b would fall below its quota, and so below the share of a: only the other strategy allows it */
        sl_engine_put_workload(e, holding(new_wl("all", "b", 0, 90, 1, 5), "b", "f", 90), 90000);
        put_wl(e, "w", "a", 0, 100, 1, 4);
        expect_run(e, 100, both ? "evict all InCohortFairSharing by w; pending w" : "pending w");
        sl_engine_free(e);
    }
}

static void fair_stopped_borrower(void **state) {
    (void)state;
    struct sl_engine *e = fair_engine();
    put_fair(e, "a", "K", 3);
    put_fair(e, "b", "K", 0);
    sl_engine_put_workload(e, holding(new_wl("x", "b", 0, 90, 1, 3), "b", "f", 90), 90000);
    struct sl_clusterqueue *q = new_cq("b", "K");
    q->groups = one_group("f", GPU, 0, NONE, NONE);
    q->n_groups = 1;
    q->stop = SL_STOP_HOLD;
    sl_engine_put_clusterqueue(e, q);
    put_wl(e, "w", "a", 0, 100, 1, 1);
    expect_run(e, 100, "pending w"); /* what a stopped queue holds is not looked at */
    put_fair(e, "b", "K", 0);
    expect_run(e, 101, "evict x InCohortReclamation by w; pending w");
    sl_engine_free(e);
}

/* The Cohorts become a circle while an eviction is being written; the write fails; the circle opens. */
static void eviction_in_a_circle(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cohort(e, "K", NULL, 0, NONE, NONE);
    struct sl_clusterqueue *q = new_cq("a", "K");
    q->groups = one_group("f", GPU, 2, NONE, NONE);
    q->n_groups = 1;
    q->within_cluster_queue = SL_PREEMPT_LOWER_PRIORITY;
    sl_engine_put_clusterqueue(e, q);
    put_lq(e, "a", "a");
    sl_engine_put_workload(e, holding(new_wl("x", "a", 0, 90, 1, 2), "a", "f", 90), 90000);
    put_wl(e, "w", "a", 10, 100, 1, 2);
    expect_run(e, 100, "evict x InClusterQueue by w; pending w");
    put_cohort(e, "K", "L", 0, NONE, NONE);
    put_cohort(e, "L", "K", 0, NONE, NONE);
    expect_run(e, 101, "pending w");
    sl_engine_write_failed(e, "x", false);
    expect_run(e, 102, "");
    put_cohort(e, "L", NULL, 0, NONE, NONE);
    SL_AUTO_FREE char *got = run(e, 103);
    assert_non_null(strstr(got, "evict x InClusterQueue by w"));
    sl_engine_free(e);
}

/* Checks for some flavors only; answers to other checks do not count. */
static void checks_by_flavor(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_check(e, "c", true);
    put_check(e, "other", true);
    for (int applies = 0; applies < 2; applies++) {
        struct sl_clusterqueue *q = new_cq("q", NULL);
        q->groups = one_group("f", GPU, 2, NONE, NONE);
        q->n_groups = 1;
        q->n_checks = 1;
        q->checks = sl_xalloc(sizeof *q->checks);
        q->checks->name = sl_xstrdup("c");
        q->checks->n_flavors = 1;
        q->checks->flavors = sl_xalloc(sizeof(char *));
        q->checks->flavors[0] = sl_xstrdup(applies ? "f" : "g");
        sl_engine_put_clusterqueue(e, q);
        put_lq(e, "q", "q");
        put_check(e, "other", applies); /* which this queue does not ask for */
        struct sl_workload *w = new_wl("w", "q", 0, 100, 1, 1);
        w->n_checks = 1;
        w->checks = sl_xalloc(sizeof *w->checks);
        w->checks[0] = (struct sl_check_view){.name = sl_xstrdup("other"), .state = SL_CHECK_READY};
        sl_engine_put_workload(e, w, 100000);
        expect_run(e, 100, "admit w f=1");
        struct sl_queue_view v;
        sl_engine_clusterqueue_view(e, "q", &v);
        assert_int_equal(v.reserving, 1);
        assert_int_equal(v.admitted, applies ? 0 : 1);
        sl_queue_view_done(&v);
        sl_engine_del_workload(e, "w");
    }
    sl_engine_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_of_queues),
        cmocka_unit_test(changes_of_flavors),
        cmocka_unit_test(changes_of_namespaces),
        cmocka_unit_test(changes_of_workloads),
        cmocka_unit_test(many),
        cmocka_unit_test(fair_alone),
        cmocka_unit_test(fair_limit),
        cmocka_unit_test(fair_ties),
        cmocka_unit_test(eviction_fails),
        cmocka_unit_test(not_on_what_is_still_held),
        cmocka_unit_test(limit_in_one_cycle),
        cmocka_unit_test(one_at_a_time),
        cmocka_unit_test(who_finishes),
        cmocka_unit_test(shared_books),
        cmocka_unit_test(many_resources),
        cmocka_unit_test(fair_final_only),
        cmocka_unit_test(fair_stopped_borrower),
        cmocka_unit_test(eviction_in_a_circle),
        cmocka_unit_test(checks_by_flavor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
