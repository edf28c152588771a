/* What a waiting workload is told when the answer is not plain, and what the smallest change is said to be. */
#include "support.h"

static void expect_explained(struct sl_engine *e, const char *what, const char *message, const char *change) {
    SL_AUTO_JSON *why = sl_engine_explain(e, "w");
    const char *got = sl_json_get_str(why, "message", "");
    if (message && !strstr(got, message))
        fail_msg("%s: expected \"%s\" in \"%s\"", what, message, got);
    got = sl_json_get_str(why, "smallestChange", "");
    if (strcmp(got, change) != 0)
        fail_msg("%s: expected \"%s\", got \"%s\"", what, change, got);
}

/* One that is in no queue is told so, not that its queue is missing. */
static void in_no_queue(void **state) {
    (void)state;
    static const struct {
        const char *reason, *message;
    } cases[] = {
        {"Inadmissible", "It is being deleted"},
        {"AdmissionGated", "It is not queued before its admission gates are lifted"},
        {"Inadmissible", "Waits for pods that replace failed ones"},
        {"Inadmissible", "Its status says that quota is reserved, but not which"},
        {"OnHold", "Its job asks not to be queued for now"},
    };
    struct sl_engine *e = new_engine();
    put_cq(e, "q", NULL, 4, NONE, NONE);
    put_lq(e, "q", "q");
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        struct sl_workload *w = new_wl("w", "q", 0, 100, 1, 1);
        w->deleting = i == 0;
        w->gated = i == 1;
        w->waiting_for_replacement.status = i == 2 ? SL_TRI_TRUE : SL_TRI_ABSENT;
        if (i == 3)
            w->quota_reserved.status = SL_TRI_TRUE;
        if (i == 4)
            w->quota_reserved = (struct sl_condition_view){SL_TRI_FALSE, 0, sl_xstrdup("OnHold")};
        sl_engine_put_workload(e, w, 100000);
        expect_run(e, 100, "");
        SL_AUTO_JSON *why = sl_engine_explain(e, "w");
        assert_string_equal(sl_json_get_str(why, "state", ""), "Pending");
        assert_string_equal(sl_json_get_str(why, "reason", ""), cases[i].reason);
        assert_string_equal(sl_json_get_str(why, "message", ""), cases[i].message);
        assert_null(sl_json_get(why, "podSets"));
    }
    put_wl(e, "w", "q", 0, 100, 1, 1);
    expect_run(e, 101, "admit w f=1");
    sl_engine_free(e);
}

/* Quota is not what it waits for: no change of quota is proposed. */
static void it_fits_already(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "q", NULL, 4, NONE, NONE);
    put_lq(e, "q", "q");
    hold(e, "h", "q", 0, 90, 2);
    struct sl_workload *w = new_wl("w", "q", 0, 100, 1, 1);
    w->has_requeue_at = true;
    w->requeue_at_ms = 160000;
    sl_engine_put_workload(e, w, 100000);
    expect_run(e, 100, "pending w");
    expect_explained(e, "waits for its time", "Waits after its eviction", "");
    SL_AUTO_JSON *why = sl_engine_explain(e, "w");
    assert_string_equal(sl_json_path_str(why, "podSets.0.flavors.0.verdict", ""), "fits");
    sl_engine_free(e);
}

/* In a circle there are no numbers, and nobody looks for them: what could be had is nobody's to say. */
static void in_a_circle(void **state) {
    (void)state;
    for (int fair = 0; fair < 2; fair++) {
        struct sl_engine *e = fair ? fair_engine() : new_engine();
        put_cohort(e, "A", "B", 2, NONE, NONE);
        put_cohort(e, "B", "A", 2, NONE, NONE);
        put_policy(e, "q", "B", 2, SL_PREEMPT_LOWER_PRIORITY, SL_PREEMPT_ANY, SL_PREEMPT_LOWER_PRIORITY);
        hold(e, "h", "q", 0, 90, 1);
        put_wl(e, "w", "q", 0, 100, 1, 2); /* not more than the queue has, but more than is left of it */
        expect_run(e, 100, "pending w");
        expect_explained(e, "circle", "the Cohorts above it form a cycle", "");
        put_cohort(e, "A", NULL, 2, NONE, NONE);
        expect_run(e, 101, "admit w f=2");
        sl_engine_free(e);
    }
}

/* Of equal workloads one is tried for all; which one it was changes with time. */
static void tried_for_its_equals(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    sl_engine_put_clusterqueue(e, new_queue("q", NULL, 1));
    put_lq(e, "q", "q");
    put_wl(e, "w", "q", 0, 100, 1, 2);
    expect_run(e, 100, "pending w");
    expect_explained(e, "tried itself", "No quota; ", "1 more nvidia.com/gpu in flavor f");
    put_wl(e, "older", "q", 0, 50, 1, 2);
    expect_run(e, 101, "pending older");
    expect_message(e, "older", "behind earlier workloads that ask for the same");
    struct sl_clusterqueue *q = new_queue("q", NULL, 1);
    q->weight = 2;
    sl_engine_put_clusterqueue(e, q);
    SL_AUTO_FREE char *told = run(e, 102);
    assert_non_null(strstr(told, "pending older"));
    expect_message(e, "older", "No quota; ");
    expect_message(e, "w", "Waits in ClusterQueue q behind earlier workloads that ask for the same");
    put_wl(e, "older", "elsewhere", 0, 50, 1, 2); /* it leaves: the next one speaks for them */
    expect_run(e, 103, "pending w; pending older");
    expect_message(e, "w", "No quota; pod set main: flavor f");
    sl_engine_free(e);
}

/* Holders are tried one by one, but not more than 500 of them. */
static void many_holders(void **state) {
    (void)state;
    for (int more = 0; more < 2; more++) {
        struct sl_engine *e = new_engine();
        put_cq(e, "q", NULL, 600, NONE, NONE);
        put_lq(e, "q", "q");
        for (int i = 0; i < 499 + more; i++) {
            char name[8];
            snprintf(name, sizeof name, "h%d", i);
            hold(e, name, "q", 0, 90, 1);
        }
        hold(e, "last", "q", 0, 90, 101 - more);
        put_wl(e, "w", "q", 0, 100, 1, 50);
        expect_run(e, 100, "pending w");
        expect_explained(e, more ? "501" : "500", "and 49",
                         more ? "50 more nvidia.com/gpu in flavor f"
                              : "workload ns/last finishes, or 50 more nvidia.com/gpu in flavor f");
        sl_engine_free(e);
    }
}

/* The smallest holder whose end would do; of equal ones the first by uid. */
static void which_holder(void **state) {
    (void)state;
    static const struct {
        const char *names[3];
        int64_t amounts[3];
        const char *who;
    } cases[] = {
        {{"b", "a", "c"}, {3, 3, 4}, "a"},
        {{"a", "b", "c"}, {3, 3, 4}, "a"},
        {{"c", "b", "a"}, {4, 3, 3}, "a"},
        {{"a", "b", "c"}, {5, 4, 1}, "b"},
    };
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        struct sl_engine *e = new_engine();
        put_cq(e, "q", NULL, 10, NONE, NONE);
        put_lq(e, "q", "q");
        for (size_t k = 0; k < 3; k++)
            hold(e, cases[i].names[k], "q", 0, 90, cases[i].amounts[k]);
        put_wl(e, "w", "q", 0, 100, 1, 3);
        expect_run(e, 100, "pending w");
        SL_AUTO_FREE char *change =
            sl_xprintf("workload ns/%s finishes, or 3 more nvidia.com/gpu in flavor f", cases[i].who);
        expect_explained(e, cases[i].who, NULL, change);
        sl_engine_free(e);
    }
}

/* A borrowing limit where nothing can be borrowed is not what is in the way. */
static void limit_without_cohort(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_cq(e, "q", NULL, 4, 2, NONE);
    put_lq(e, "q", "q");
    put_wl(e, "w", "q", 0, 100, 1, 6);
    expect_run(e, 100, "pending w");
    expect_explained(e, "alone", "more than can ever be had here: 4", "2 more nvidia.com/gpu in flavor f");
    struct sl_clusterqueue *q = new_cq("q", "K");
    q->groups = one_group("f", GPU, 4, 1, NONE);
    q->n_groups = 1;
    sl_engine_put_clusterqueue(e, q);
    put_cq(e, "lender", "K", 4, NONE, NONE);
    SL_AUTO_FREE char *told = run(e, 101);
    assert_string_equal(told, "pending w");
    expect_explained(e, "in a Cohort", "more than can ever be had here: 5",
                     "borrowingLimit of nvidia.com/gpu in flavor f of ClusterQueue q is raised by 1, or "
                     "1 more nvidia.com/gpu in flavor f");
    sl_engine_free(e);
}

/* Two flavors of two resources, of which so much is free; a workload of two pod sets, the second without wishes. */
static void nearest_flavor(void **state) {
    (void)state;
    static const struct {
        const char *what;
        int64_t gpu[2], cpu[2];
        bool taint;
        const char *change;
    } cases[] = {
        {"the second lacks less", {1, 3}, {9000, 9000}, false, "1 more nvidia.com/gpu in flavor f2"},
        {"the first lacks less", {3, 1}, {9000, 9000}, false, "1 more nvidia.com/gpu in flavor f1"},
        {"the second lacks fewer resources", {3, 1}, {1000, 9000}, false, "3 more nvidia.com/gpu in flavor f2"},
        {"the first lacks fewer resources", {1, 3}, {9000, 1000}, false, "3 more nvidia.com/gpu in flavor f1"},
        {"both lack the same", {2, 2}, {9000, 9000}, false, "2 more nvidia.com/gpu in flavor f1"},
        {"the first is tainted", {9, 2}, {9000, 9000}, true, "2 more nvidia.com/gpu in flavor f2"},
    };
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        struct sl_engine *e = new_engine();
        put_flavor_of(e, "f1",
                      cases[i].taint ? "{'nodeTaints':[{'key':'k','value':'v','effect':'NoSchedule'}]}" : "{}");
        put_flavor(e, "f2");
        struct sl_clusterqueue *q = new_cq("q", NULL);
        q->groups = two_resources(
            2, (const int64_t[][2]){{cases[i].gpu[0], cases[i].cpu[0]}, {cases[i].gpu[1], cases[i].cpu[1]}});
        q->n_groups = 1;
        sl_engine_put_clusterqueue(e, q);
        put_lq(e, "q", "q");
        struct sl_workload *w = new_wl("w", "q", 0, 100, 1, 0);
        add_podset(w, 4);
        struct sl_requests *r = &w->podsets[1].per_pod;
        r->items = sl_xrealloc(r->items, 2, sizeof *r->items);
        r->items[r->n++] = (struct sl_request_amount){sl_xstrdup("cpu"), 2000};
        sl_engine_put_workload(e, w, 100000);
        expect_run(e, 100, "pending w");
        expect_explained(e, cases[i].what, NULL, cases[i].change);
        sl_engine_free(e);
    }
}

/* Two groups, each with a flavor that has node labels: what is said is what is in the way, and not that they would
 * contradict each other, which nobody has tried. A resource that no group covers, and of which nothing is asked, is
 * nobody's concern. */
static void beside_another_group(void **state) {
    (void)state;
    static const struct {
        const char *spec, *expect, *message;
    } cases[] = {
        {"{'tolerations':[{'key':'k','operator':'Exists'}]}", "admit w g=1000 f=1", NULL},
        {"{}", "pending w", "flavor g: taint k:NoSchedule is not tolerated"},
        {"{'tolerations':[{'key':'k','operator':'Exists'}],'affinity':{'nodeAffinity':{'"
         "requiredDuringSchedulingIgnoredDuringExecution':{'nodeSelectorTerms':[{'matchExpressions':[{'key':'zone','"
         "operator':'In','values':['b']}]}]}}}}",
         "pending w", "flavor f: its node labels do not match the node affinity"},
    };
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        struct sl_engine *e = new_engine();
        put_flavor_of(e, "f", "{'nodeLabels':{'zone':'a'}}");
        put_flavor_of(e, "g", "{'nodeLabels':{'rack':'1'},'nodeTaints':[{'key':'k','effect':'NoSchedule'}]}");
        struct sl_clusterqueue *q = new_queue("q", NULL, 4);
        struct sl_resource_group *second = one_group("g", "cpu", 4000, NONE, NONE);
        q->groups = sl_xrealloc(q->groups, 2, sizeof *q->groups);
        q->groups[q->n_groups++] = *second;
        free(second);
        sl_engine_put_clusterqueue(e, q);
        put_lq(e, "q", "q");
        struct sl_workload *w = new_wl("w", "q", 0, 100, 1, 1);
        add_request(w, "cpu", 1000);
        add_request(w, "example.com/none", 0);
        SL_AUTO_JSON *spec = sl_json_from(cases[i].spec);
        sl_podset_decode_placement(spec, &w->podsets[0]);
        sl_engine_put_workload(e, w, 100000);
        SL_AUTO_FREE char *got = run(e, 100);
        assert_string_equal(got, cases[i].expect);
        if (cases[i].message)
            expect_message(e, "w", cases[i].message);
        sl_engine_free(e);
    }
}

/* Nothing that quota could change: nothing is proposed. */
static void nothing_to_propose(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_flavor_of(e, "f", "{'nodeLabels':{'zone':'a'}}");
    put_flavor_of(e, "g", "{'nodeLabels':{'zone':'c'}}");
    struct sl_clusterqueue *q = new_queue("q", NULL, 4);
    add_flavor(q, "g", 4);
    sl_engine_put_clusterqueue(e, q);
    put_lq(e, "q", "q");
    struct sl_workload *w = new_wl("w", "q", 0, 100, 1, 1);
    SL_AUTO_JSON *spec = sl_json_from("{'nodeSelector':{'zone':'b'}}");
    sl_podset_decode_placement(spec, &w->podsets[0]);
    sl_engine_put_workload(e, w, 100000);
    expect_run(e, 100, "pending w");
    expect_explained(e, "affinity", "its node labels do not match", "");
    put_flavor_of(e, "f", "{'nodeTaints':[{'key':'k','value':'v','effect':'NoSchedule'}]}");
    free(run(e, 101));
    expect_explained(e, "a taint first", "flavor f: taint k=v:NoSchedule is not tolerated",
                     "a toleration for the taint k of flavor f");
    sl_engine_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_no_queue),          cmocka_unit_test(it_fits_already), cmocka_unit_test(in_a_circle),
        cmocka_unit_test(tried_for_its_equals), cmocka_unit_test(many_holders),    cmocka_unit_test(which_holder),
        cmocka_unit_test(limit_without_cohort), cmocka_unit_test(nearest_flavor),  cmocka_unit_test(nothing_to_propose),
        cmocka_unit_test(beside_another_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
