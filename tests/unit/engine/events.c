/* What events do to the books and the queues: objects that come, change and go, in every order the API may tell them.
 */
#include "support.h"

static struct sl_engine *queue_of(int64_t nom) {
    struct sl_engine *e = new_engine();
    sl_engine_put_clusterqueue(e, new_queue("q", NULL, nom));
    put_lq(e, "q", "q");
    return e;
}

static void expect_inactive(struct sl_engine *e, const char *reason) {
    struct sl_queue_view v;
    sl_engine_clusterqueue_view(e, "q", &v);
    if (reason)
        assert_string_equal(v.inactive_reason, reason);
    else
        assert_null(v.inactive_reason);
    assert_int_equal(v.active, reason == NULL);
    sl_queue_view_done(&v);
}

static void checks(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    struct sl_clusterqueue *q = new_queue("q", NULL, 4);
    add_check(q, "a", NULL);
    add_check(q, "b", "other");
    sl_engine_put_clusterqueue(e, q);
    put_lq(e, "q", "q");
    expect_inactive(e, "AdmissionCheckNotFound");
    put_check(e, "a", false);
    put_check(e, "b", true);
    expect_inactive(e, "AdmissionCheckInactive");
    put_wl(e, "w", "q", 0, 100, 1, 1);
    expect_run(e, 100, "pending w");
    put_check(e, "a", true);
    put_check(e, "a", true); /* the same again is no event */
    expect_inactive(e, NULL);
    expect_run(e, 101, "admit w f=1"); /* quota is reserved; the first check still has to agree */
    struct sl_queue_view v;
    sl_engine_clusterqueue_view(e, "q", &v);
    assert_int_equal(v.reserving, 1);
    assert_int_equal(v.admitted, 0);
    assert_int_equal(v.rows[0].reserved, 1);
    assert_int_equal(v.rows[0].used, 0);
    sl_queue_view_done(&v);
    struct sl_workload *w = holding(new_wl("w", "q", 0, 100, 1, 1), "q", "f", 101);
    sl_engine_put_workload(e, w, 102000);
    sl_engine_clusterqueue_view(e, "q", &v);
    assert_int_equal(v.admitted, 1);
    assert_int_equal(v.rows[0].used, 1);
    sl_queue_view_done(&v);
    /* ready before quota: admitted at once; the other check's flavor is not used */
    w = new_wl("x", "q", 0, 103, 1, 1);
    w->n_checks = 1;
    w->checks = sl_xalloc(sizeof *w->checks);
    w->checks[0] = (struct sl_check_view){.name = sl_xstrdup("a"), .state = SL_CHECK_READY};
    sl_engine_put_workload(e, w, 103000);
    expect_run(e, 103, "admit x f=1");
    sl_engine_clusterqueue_view(e, "q", &v);
    assert_int_equal(v.admitted, 2);
    sl_queue_view_done(&v);
    q = new_queue("q", NULL, 4);
    add_check(q, "a", NULL);
    add_check(q, "b", NULL);
    sl_engine_put_clusterqueue(e, q);
    sl_engine_del_check(e, "b");
    sl_engine_del_check(e, "b");
    expect_inactive(e, "AdmissionCheckNotFound");
    q = new_queue("q", NULL, 4);
    q->deleting = true;
    sl_engine_put_clusterqueue(e, q);
    expect_inactive(e, "Terminating");
    assert_int_equal(sl_engine_clusterqueue_holders(e, "q"), 2);
    sl_engine_del_clusterqueue(e, "q"); /* what is held goes on counting */
    assert_int_equal(sl_engine_clusterqueue_holders(e, "q"), 2);
    sl_engine_check_invariants(e);
    sl_engine_free(e);
}

static void flavor_events(void **state) {
    (void)state;
    struct sl_engine *e = queue_of(4);
    SL_AUTO_JSON *tainted = sl_json_from(
        "{'metadata':{'name':'f'},'spec':{'nodeLabels':{'a':'b'},'tolerations':[{'key':'z','operator':'Exists'}],"
        "'nodeTaints':[{'key':'k','value':'','effect':'NoExecute'},{'key':'p','value':'','effect':'PreferNoSchedule'}]}"
        "}");
    struct sl_flavor *f;
    assert_int_equal(sl_flavor_decode(tainted, &f, NULL), 0);
    sl_engine_put_flavor(e, f);
    put_wl(e, "w", "q", 0, 100, 1, 1);
    expect_run(e, 100, "pending w");
    SL_AUTO_JSON *why = sl_engine_explain(e, "w");
    assert_non_null(strstr(sl_json_get_str(why, "message", ""), "taint k:NoExecute is not tolerated"));
    assert_non_null(strstr(sl_json_get_str(why, "smallestChange", ""), "toleration"));
    assert_int_equal(sl_flavor_decode(tainted, &f, NULL), 0);
    sl_engine_put_flavor(e, f); /* unchanged */
    expect_run(e, 101, "");
    sl_engine_del_flavor(e, "f");
    sl_engine_del_flavor(e, "f");
    expect_inactive(e, "FlavorNotFound");
    put_flavor(e, "f"); /* without the taint */
    expect_run(e, 102, "admit w f=1");
    assert_false(sl_engine_flavor_in_use(e, "nobody"));
    sl_engine_free(e);
}

/* Nobody goes on believing a reason that is over: not those behind a head, not a head that was overtaken. */
static void reasons_go(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    struct sl_clusterqueue *q = new_cq("q", NULL);
    q->groups = one_group("late", GPU, 1, NONE, NONE);
    q->n_groups = 1;
    q->strategy = SL_STRICT_FIFO;
    sl_engine_put_clusterqueue(e, q);
    put_lq(e, "q", "q");
    put_wl(e, "a", "q", 0, 100, 1, 1);
    put_wl(e, "b", "q", 0, 101, 1, 1);
    put_wl(e, "c", "q", 0, 102, 1, 1);
    expect_run(e, 102, "pending a; pending b; pending c");
    put_flavor(e, "late");
    expect_run(e, 103, "admit a late=1; pending b; pending c");
    put_wl(e, "d", "q", 10, 104, 1, 1);
    expect_run(e, 104, "pending d");
    expect_run(e, sl_engine_next_due_ms(e) / 1000, "pending b");
    SL_AUTO_JSON *why = sl_engine_explain(e, "b");
    assert_non_null(strstr(sl_json_get_str(why, "message", ""), "behind workloads that come before it"));
    sl_engine_free(e);
}

static void localqueues(void **state) {
    (void)state;
    struct sl_engine *e = queue_of(2);
    put_cq(e, "other", "K", 9, NONE, NONE);
    put_wl(e, "a", "q", 0, 100, 1, 1);
    put_wl(e, "b", "q", 0, 101, 2, 1);
    expect_run(e, 101, "admit a f=1; pending b");
    struct sl_queue_view v;
    sl_engine_localqueue_view(e, "ns", "q", &v);
    assert_true(v.exists && v.active && v.n_rows == 1);
    assert_int_equal(v.rows[0].reserved, 1);
    assert_int_equal(v.rows[0].used, 1);
    assert_int_equal(v.rows[0].nominal, 2);
    assert_int_equal(v.pending_inadmissible, 1);
    assert_int_equal(v.reserving, 1);
    sl_queue_view_done(&v);
    put_lq(e, "q", "other"); /* pending ones move, holders stay where they are */
    expect_run(e, 102, "admit b f=2");
    sl_engine_localqueue_view(e, "ns", "q", &v);
    assert_int_equal(v.rows[0].reserved, 2);
    assert_int_equal(v.reserving, 1); /* what is counted is what the rows are about */
    assert_string_equal(v.cohort, "K");
    sl_queue_view_done(&v);
    put_lq(e, "q", "other");
    put_wl(e, "c", "q", 0, 103, 1, 100);
    expect_run(e, 103, "pending c");
    sl_engine_del_localqueue(e, "ns", "q");
    sl_engine_del_localqueue(e, "ns", "q");
    expect_run(e, 104, "pending c");
    sl_engine_localqueue_view(e, "ns", "q", &v);
    assert_false(v.exists);
    sl_queue_view_done(&v);
    put_lq(e, "q", "none");
    expect_run(e, 105, "pending c");
    sl_engine_localqueue_view(e, "ns", "q", &v);
    assert_true(v.exists && v.n_rows == 0);
    sl_queue_view_done(&v);
    sl_engine_del_workload(e, "c");
    sl_engine_del_workload(e, "c");
    sl_engine_free(e);
}

static void undeclared(void **state) {
    (void)state;
    for (int ignore = 0; ignore < 2; ignore++) {
        struct sl_engine_config config = {.ignore_undeclared = ignore};
        struct sl_engine *e = sl_engine_new(&config);
        struct sl_labels none = {NULL, 0};
        sl_engine_put_namespace(e, "ns", &none);
        put_flavor(e, "f");
        sl_engine_put_clusterqueue(e, new_queue("q", NULL, 4));
        put_lq(e, "q", "q");
        struct sl_workload *w = new_wl("w", "q", 0, 100, 1, 1);
        add_request(w, "rdma/hca", 1);
        add_request(w, "storage", 0); /* nothing is asked, so nobody minds */
        sl_engine_put_workload(e, w, 100000);
        expect_run(e, 100, ignore ? "admit w f=1" : "pending w");
        if (!ignore) {
            SL_AUTO_JSON *why = sl_engine_explain(e, "w");
            assert_non_null(strstr(sl_json_get_str(why, "message", ""), "rdma/hca: asks 1, but no resource group"));
            assert_non_null(strstr(sl_json_get_str(why, "smallestChange", ""), "covers rdma/hca"));
        }
        sl_engine_free(e);
    }
}

/* `pods` is counted where a queue covers it, although nobody asks for it. */
static void pods(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    struct sl_clusterqueue *q = new_cq("q", NULL);
    q->groups = one_group("f", "pods", 3, NONE, NONE);
    struct sl_resource_group *gpu = one_group("f", GPU, 10, NONE, NONE);
    q->groups = sl_xrealloc(q->groups, 2, sizeof *q->groups);
    q->groups[1] = *gpu;
    free(gpu);
    q->n_groups = 2;
    sl_engine_put_clusterqueue(e, q);
    put_lq(e, "q", "q");
    put_wl(e, "a", "q", 0, 100, 2, 1);
    put_wl(e, "b", "q", 0, 101, 2, 1);
    expect_run(e, 101, "admit a f=2 f=2; pending b");
    struct sl_workload *w = new_wl("c", "q", 0, 102, 1, 1); /* a resource that sorts before pods, and one after */
    add_request(w, "cpu", 0);
    sl_engine_put_workload(e, w, 102000);
    expect_run(e, 102, "admit c f=1 f=1");
    sl_engine_free(e);
}

/* One that found nobody to preempt but may wait keeps its place in a cycle: another queue's borrower does not slip in.
 */
static void reservation(void **state) {
    (void)state;
    for (int borrows = 0; borrows < 2; borrows++) {
        struct sl_engine *e = new_engine();
        struct sl_clusterqueue *a = new_cq("a", "K");
        a->groups = one_group("f", GPU, borrows ? 2 : 4, borrows ? 3 : NONE, NONE);
        a->n_groups = 1;
        a->within_cluster_queue = SL_PREEMPT_LOWER_PRIORITY;
        a->reclaim_within_cohort = SL_PREEMPT_LOWER_PRIORITY;
        a->borrow_within_cohort = SL_PREEMPT_LOWER_PRIORITY;
        sl_engine_put_clusterqueue(e, a);
        put_cq(e, "b", "K", borrows ? 4 : 2, NONE, NONE);
        put_lq(e, "a", "a");
        put_lq(e, "b", "b");
        sl_engine_put_workload(e, holding(new_wl("h", "b", 100, 90, 1, 4), "b", "f", 90), 90000);
        put_wl(e, "w", "a", 10, 100, 1, 4); /* 2 free, nobody to take from */
        put_wl(e, "v", "b", 0, 101, 1, 2);
        SL_AUTO_FREE char *got = run(e, 101);
        assert_non_null(strstr(got, "pending w"));
        assert_true(sl_engine_holds_quota(e, "v")); /* it had to wait for one cycle only */
        sl_engine_free(e);
    }
}

static void waits_by_time(void **state) {
    (void)state;
    struct sl_engine *e = queue_of(1);
    for (int i = 0; i < 6; i++) {
        char name[4];
        snprintf(name, sizeof name, "w%d", i);
        struct sl_workload *w = new_wl(name, "q", 0, 100, 1, 1);
        w->has_requeue_at = true;
        w->requeue_at_ms = 1000 * (200 - (i * 37) % 60);
        sl_engine_put_workload(e, w, 100000);
    }
    SL_AUTO_FREE char *told = run(e, 100);
    assert_non_null(strstr(told, "pending w5"));
    const struct sl_workload **list;
    assert_int_equal(sl_engine_pending(e, "q", &list), 6);
    free(list);
    int64_t due = sl_engine_next_due_ms(e);
    sl_engine_del_workload(e, "w3");
    sl_engine_del_workload(e, "w0");
    size_t admitted = 0;
    for (int64_t t = 101; t < 210; t++) {
        SL_AUTO_FREE char *got = run(e, t);
        if (strstr(got, "admit")) {
            assert_true(t * 1000 >= due);
            char name[4] = "";
            memcpy(name, strstr(got, "admit") + 6, 2);
            sl_engine_del_workload(e, name);
            admitted++;
        }
    }
    assert_int_equal(admitted, 4);
    sl_engine_free(e);
}

/* Evictions by time-out and by checks queue by the time of the eviction, all others by creation. */
static void queue_times(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    struct sl_workload *w = new_wl("w", "q", 0, 100, 1, 1);
    assert_int_equal(wl_queue_time(e, w), 100000);
    w->evicted = (struct sl_condition_view){SL_TRI_TRUE, 500000, sl_xstrdup("PodsReadyTimeout")};
    assert_int_equal(wl_queue_time(e, w), 500000);
    e->config.pods_ready_timestamp_creation = true;
    assert_int_equal(wl_queue_time(e, w), 100000);
    free(w->evicted.reason);
    w->evicted.reason = sl_xstrdup("AdmissionCheck");
    assert_int_equal(wl_queue_time(e, w), 500000);
    w->evicted.status = SL_TRI_FALSE;
    assert_int_equal(wl_queue_time(e, w), 100000);
    sl_workload_free(w);
    sl_engine_free(e);
}

/* Told in odd ways: quota on a flavor that nobody lists, an admission for another pod set, withdrawn, changed,
 * finished. */
static void odd_holders(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cohort(e, "R", NULL, 0, NONE, NONE);
    put_cohort(e, "K", "R", 0, NONE, NONE);
    sl_engine_put_clusterqueue(e, new_queue("q", "K", 4));
    put_lq(e, "q", "q");
    sl_engine_put_workload(e, holding(new_wl("a", "q", 0, 100, 1, 3), "q", "old", 100), 100000);
    sl_engine_check_invariants(e);
    struct sl_workload *w = holding(new_wl("b", "q", 0, 100, 2, 1), "q", "f", 100);
    free(w->admission->podsets[0].name);
    w->admission->podsets[0].name = sl_xstrdup("nobody");
    sl_engine_put_workload(e, w, 100000);
    sl_engine_check_invariants(e);
    struct sl_queue_view v;
    sl_engine_clusterqueue_view(e, "q", &v);
    assert_int_equal(v.rows[0].reserved, 2);
    assert_int_equal(v.reserving, 2);
    sl_queue_view_done(&v);
    /* waiting, then seen with quota that somebody else gave */
    put_wl(e, "c", "q", 0, 101, 1, 9);
    expect_run(e, 101, "pending c");
    sl_engine_put_workload(e, holding(new_wl("c", "q", 0, 101, 1, 9), "q", "f", 102), 102000);
    assert_true(sl_engine_holds_quota(e, "c"));
    /* moved to another queue's quota, then withdrawn, then inactive */
    put_cq(e, "p", NULL, 9, NONE, NONE);
    sl_engine_put_workload(e, holding(new_wl("c", "q", 0, 101, 1, 9), "p", "f", 102), 103000);
    assert_int_equal(sl_engine_clusterqueue_holders(e, "p"), 1);
    put_wl(e, "c", "q", 0, 101, 1, 9);
    assert_false(sl_engine_holds_quota(e, "c"));
    w = new_wl("c", "q", 0, 101, 1, 9);
    w->active = false;
    sl_engine_put_workload(e, w, 104000);
    SL_AUTO_JSON *inactive = sl_engine_explain(e, "c");
    assert_string_equal(sl_json_get_str(inactive, "state", ""), "Inactive");
    /* renamed queue while waiting, unknown shapes, an update that changes nothing */
    w = new_wl("d", "q", 0, 105, 1, 9);
    w->podsets[0].shape = 0;
    sl_engine_put_workload(e, w, 105000);
    w = new_wl("e", "q", 0, 105, 1, 9);
    w->podsets[0].shape = 0;
    sl_engine_put_workload(e, w, 105000);
    expect_run(e, 105, "pending d; pending e");
    w = new_wl("d", "q", 0, 105, 1, 9);
    w->podsets[0].shape = 0;
    sl_engine_put_workload(e, w, 106000);
    expect_run(e, 106, "");
    w = new_wl("d", "gone", 0, 105, 1, 9);
    sl_engine_put_workload(e, w, 107000);
    expect_run(e, 107, "pending d");
    sl_engine_del_namespace(e, "ns");
    sl_engine_del_namespace(e, "ns");
    put_wl(e, "g", "q", 0, 108, 1, 1);
    expect_run(e, 108, "pending g");         /* its namespace is gone */
    put_wl(e, "h", "nowhere", 0, 109, 1, 1); /* a queue that only this workload knows of goes with it */
    expect_run(e, 109, "pending h");
    sl_engine_del_workload(e, "h");
    assert_null(sl_map_get(&e->lqs, "ns/nowhere"));
    sl_engine_check_invariants(e);
    sl_engine_free(e);
}

static void solo(void **state) { /* rejected ones are tried again when something changes */
    (void)state;
    struct sl_engine *e = queue_of(4);
    struct sl_workload *w = new_wl("w", "q", 0, 100, 1, 1);
    w->rejected = sl_xstrdup("nonsense");
    sl_engine_put_workload(e, w, 100000);
    w = new_wl("x", "q", 0, 100, 1, 1);
    w->requeued = (struct sl_condition_view){SL_TRI_FALSE, 0, sl_xstrdup("Deactivated")};
    sl_engine_put_workload(e, w, 100000);
    expect_run(e, 100, "pending w; pending x");
    const struct sl_workload **list;
    assert_int_equal(sl_engine_pending(e, "q", &list), 2);
    free(list);
    sl_engine_put_clusterqueue(e, new_queue("q", NULL, 5));
    expect_run(e, 101, ""); /* tried again, nothing new to say */
    struct sl_queue_view v;
    sl_engine_clusterqueue_view(e, "q", &v);
    assert_int_equal(v.pending_inadmissible, 2);
    sl_queue_view_done(&v);
    put_wl(e, "w", "q", 0, 100, 1, 1);
    expect_run(e, 102, "admit w f=1");
    sl_engine_free(e);
}

/* Which changes of a ClusterQueue, flavor or namespace are events: one that is none leaves the waiting one alone. */
static struct sl_clusterqueue *variant(int which) {
    struct sl_clusterqueue *q = new_queue("q", NULL, 4);
    SL_AUTO_JSON *one = sl_json_from("{'matchExpressions':[{'key':'team','operator':'NotIn','values':['x']}]}");
    SL_AUTO_JSON *two = sl_json_from("{'matchExpressions':[{'key':'team','operator':'NotIn','values':['y']}]}");
    SL_AUTO_JSON *three = sl_json_from("{'matchExpressions':[{'key':'team','operator':'DoesNotExist'}]}");
    const struct sl_json *selector = which == 1 ? two : which == 2 ? three : which == 3 ? NULL : one;
    if (selector)
        assert_int_equal(sl_selector_decode(selector, &q->namespace_selector, NULL), 0);
    if (which != 4)
        add_check(q, which == 5 ? "b" : "a", NULL);
    if (which == 6)
        add_check(q, "b", "f");
    if (which == 7)
        add_check(q, "b", "g");
    if (which == 8) {
        struct sl_resource_group *more = one_group("f", "cpu", 1, NONE, NONE);
        q->groups = sl_xrealloc(q->groups, 2, sizeof *q->groups);
        q->groups[1] = *more;
        q->n_groups = 2;
        free(more);
    }
    if (which == 9)
        q->groups->flavors->quotas[0].nominal = 5;
    if (which == 10) {
        free(q->groups->covered[0]);
        q->groups->covered[0] = sl_xstrdup("cpu");
        free(q->groups->flavors->quotas[0].resource);
        q->groups->flavors->quotas[0].resource = sl_xstrdup("cpu");
    }
    if (which == 11) {
        free(q->groups->flavors->flavor);
        q->groups->flavors->flavor = sl_xstrdup("g");
    }
    if (which == 12)
        q->weight = 2;
    return q;
}

static void differences(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_flavor(e, "g");
    put_check(e, "a", true);
    put_check(e, "b", true);
    put_lq(e, "q", "q");
    sl_engine_put_clusterqueue(e, variant(0));
    put_wl(e, "w", "q", 0, 100, 1, 9);
    expect_run(e, 100, "pending w");
    struct cq *q = sl_map_get(&e->cqs, "q");
    for (int i = 0; i <= 12; i++) {
        sl_engine_put_clusterqueue(e, variant(0));
        SL_AUTO_FREE char *settled = run(e, 200 + i);
        assert_null(strstr(settled, "admit"));
        trees_refresh(e);
        uint64_t cycles = q->node.tree->cycle;
        sl_engine_put_clusterqueue(e, variant(i));
        SL_AUTO_FREE char *got = run(e, 200 + i);
        assert_null(strstr(got, "admit"));
        if (i == 0)
            assert_int_equal(q->node.tree->cycle, cycles); /* nothing changed, nothing tried */
        else
            assert_true(q->node.tree->cycle > cycles);
    }
    struct sl_workload *w = new_wl("v", "q", 0, 300, 1, 1);
    w->quota_reserved = (struct sl_condition_view){SL_TRI_FALSE, 0, sl_xstrdup("OnHold")};
    sl_engine_put_workload(e, w, 300000);
    SL_AUTO_FREE char *held = run(e, 300);
    assert_null(strstr(held, " v")); /* its integration asked to leave it alone */
    sl_engine_free(e);
}

static void initial_share(void **state) { /* 7.8: a 3, b low 5 + high 1; one to a */
    (void)state;
    for (int initial = 0; initial < 2; initial++) {
        struct sl_engine_config config = {.fair_sharing = true,
                                          .strategies = {initial ? SL_FAIR_INITIAL_SHARE : SL_FAIR_FINAL_SHARE}};
        struct sl_engine *e = sl_engine_new(&config);
        struct sl_labels none = {NULL, 0};
        sl_engine_put_namespace(e, "ns", &none);
        put_flavor(e, "f");
        static const char *const names[] = {"a", "b", "c"};
        for (size_t i = 0; i < 3; i++) {
            struct sl_clusterqueue *q = new_queue(names[i], "K", 3);
            q->within_cluster_queue = SL_PREEMPT_LOWER_PRIORITY;
            q->reclaim_within_cohort = SL_PREEMPT_ANY;
            sl_engine_put_clusterqueue(e, q);
            put_lq(e, names[i], names[i]);
        }
        char name[8];
        for (int i = 0; i < 3; i++) {
            snprintf(name, sizeof name, "a%d", i);
            sl_engine_put_workload(e, holding(new_wl(name, "a", 0, 90, 1, 1), "a", "f", 90), 90000);
        }
        sl_engine_put_workload(e, holding(new_wl("low", "b", 0, 90, 1, 5), "b", "f", 90), 90000);
        sl_engine_put_workload(e, holding(new_wl("high", "b", 1, 90, 1, 1), "b", "f", 90), 90000);
        put_wl(e, "new", "a", 0, 100, 1, 1);
        expect_run(e, 100,
                   initial ? "evict low InCohortFairSharing by new; pending new"
                           : "evict high InCohortFairSharing by new; pending new");
        sl_engine_write_failed(e, initial ? "low" : "high", false); /* so it is decided again */
        expect_run(e, 101, initial ? "evict low InCohortFairSharing by new" : "evict high InCohortFairSharing by new");
        struct sl_cohort_view v;
        sl_engine_cohort_view(e, "K", &v);
        assert_int_equal(v.admitted, 5);
        assert_int_equal(v.rows[0].reserved, 9);
        sl_cohort_view_done(&v);
        sl_engine_free(e);
    }
}

/* 3.5: a new workload is no event, but the deletion of any is, also of one that is done. `hope` could not take anything
 * from `big` until `more` made that queue's share larger, and tries when `gone` goes. */
static void deletion_of_a_finished_one(void **state) {
    (void)state;
    struct sl_engine *e = fair_engine();
    const char *names[] = {"heavy", "light", "middle"};
    const double weights[] = {3, 1, 2};
    for (size_t i = 0; i < 3; i++) {
        struct sl_clusterqueue *q = new_queue(names[i], "K", 30);
        q->weight = weights[i];
        if (i == 2) {
            q->within_cluster_queue = SL_PREEMPT_LOWER_PRIORITY;
            q->reclaim_within_cohort = SL_PREEMPT_ANY;
        }
        sl_engine_put_clusterqueue(e, q);
        put_lq(e, names[i], names[i]);
    }
    put_wl(e, "hold", "light", 30, 100, 2, 10);
    put_wl(e, "gone", "light", 0, 101, 1, 10);
    expect_run(e, 101, "admit hold f=20; admit gone f=10");
    struct sl_workload *w = holding(new_wl("gone", "light", 0, 101, 1, 10), "light", "f", 101);
    w->finished.status = SL_TRI_TRUE;
    sl_engine_put_workload(e, w, 102000);
    put_wl(e, "big", "heavy", 0, 103, 3, 15);
    expect_run(e, 103, "admit big f=45");
    put_wl(e, "hope", "middle", 0, 104, 2, 20);
    expect_run(e, 104, "pending hope");
    put_wl(e, "more", "heavy", 30, 105, 3, 5);
    expect_run(e, 105, "admit more f=15");
    sl_engine_del_workload(e, "gone");
    expect_run(e, 106, "evict big InCohortFairSharing by hope; pending hope");
    sl_engine_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checks),        cmocka_unit_test(flavor_events),
        cmocka_unit_test(localqueues),   cmocka_unit_test(undeclared),
        cmocka_unit_test(pods),          cmocka_unit_test(reservation),
        cmocka_unit_test(waits_by_time), cmocka_unit_test(queue_times),
        cmocka_unit_test(odd_holders),   cmocka_unit_test(solo),
        cmocka_unit_test(initial_share), cmocka_unit_test(reasons_go),
        cmocka_unit_test(differences),   cmocka_unit_test(deletion_of_a_finished_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
