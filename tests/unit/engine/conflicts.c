/* Node labels that contradict each other: of two flavors that one pod set would get, or of a flavor and the pods' own
 * node selector. Decided before quota is taken, and said with the key and both values. */
#include "support.h"

static void add_group(struct sl_clusterqueue *q, const char *resource, const char *flavor, int64_t quota) {
    struct sl_resource_group *g = one_group(flavor, resource, quota, NONE, NONE);
    q->groups = sl_xrealloc(q->groups, q->n_groups + 1, sizeof *q->groups);
    q->groups[q->n_groups++] = *g;
    free(g);
}

/* cpu in one group, gpu in another, each with flavors of these zones; "!" before a zone: with no quota. */
static struct sl_engine *two_groups(const char *const *cpu, const char *const *gpu) {
    struct sl_engine *e = new_engine();
    struct sl_clusterqueue *q = new_cq("q", NULL);
    const char *const *const zones[] = {cpu, gpu};
    static const char *const resources[] = {"cpu", GPU};
    for (size_t r = 0; r < 2; r++)
        for (size_t i = 0; zones[r][i]; i++) {
            const char *zone = zones[r][i] + (*zones[r][i] == '!');
            int64_t quota = zone == zones[r][i] ? 9000 : 0;
            SL_AUTO_FREE char *name = sl_xprintf("%s-%s-%zu", r ? "gpu" : "cpu", zone, i);
            SL_AUTO_FREE char *spec = sl_xprintf("{'nodeLabels':{'zone':'%s'}}", zone);
            put_flavor_of(e, name, *zone ? spec : "{}");
            if (i == 0) {
                add_group(q, resources[r], name, quota);
                continue;
            }
            struct sl_resource_group *g = &q->groups[r];
            g->flavors = sl_xrealloc(g->flavors, g->n_flavors + 1, sizeof *g->flavors);
            struct sl_resource_group *more = one_group(name, resources[r], quota, NONE, NONE);
            g->flavors[g->n_flavors++] = more->flavors[0];
            free(more->flavors);
            free(more->covered[0]);
            free(more->covered);
            free(more);
        }
    sl_engine_put_clusterqueue(e, q);
    put_lq(e, "q", "q");
    return e;
}

static struct sl_workload *both(void) {
    struct sl_workload *w = new_wl("w", "q", 0, 100, 1, 2);
    struct sl_requests *r = &w->podsets[0].per_pod;
    r->items = sl_xrealloc(r->items, 2, sizeof *r->items);
    r->items[1] = r->items[0];
    r->items[0] = (struct sl_request_amount){sl_xstrdup("cpu"), 1000};
    r->n = 2;
    return w;
}

#define ZONES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void flavors_of_two_groups(void **state) {
    (void)state;
    static const struct {
        const char *cpu[4], *gpu[4], *expect, *said;
    } cases[] = {
        {{"a"}, {"a"}, "admit w cpu-a-0=1000 gpu-a-0=2", NULL},
        {{"a"}, {""}, "admit w cpu-a-0=1000 gpu--0=2", NULL},
        {{""}, {"b"}, "admit w cpu--0=1000 gpu-b-0=2", NULL},
        /* the first that is tried would leave nothing for the other resource, whichever of them is tried first */
        {{"a", "b"}, {"b"}, "admit w cpu-b-1=1000 gpu-b-0=2", NULL},
        {{"b"}, {"a", "b"}, "admit w cpu-b-0=1000 gpu-b-1=2", NULL},
        {{"a", "b"}, {"c", "b"}, "admit w cpu-b-1=1000 gpu-b-1=2", NULL},
        {{"a", "b"}, {"b", "a"}, NULL, NULL},
        /* one that could never hold the other resource is no company, whichever is tried first */
        {{"a", "!b"}, {"b", "a"}, "admit w cpu-a-0=1000 gpu-a-1=2", NULL},
        {{"b", "a"}, {"a", "!b"}, "admit w cpu-a-1=1000 gpu-a-0=2", NULL},
        {{"a", "!b"}, {"b"}, "pending w", "zone="},
        {{"a"}, {"b"}, "pending w", "does not go with any flavor for"},
        {{"a", "b"}, {"c", "d"}, "pending w", "zone="},
    };
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        struct sl_engine *e = two_groups(cases[i].cpu, cases[i].gpu);
        sl_engine_put_workload(e, both(), 100000);
        SL_AUTO_FREE char *got = run(e, 100);
        if (cases[i].expect ? strcmp(got, cases[i].expect) != 0
                            : strcmp(got, "admit w cpu-a-0=1000 gpu-a-1=2") != 0 &&
                                  strcmp(got, "admit w cpu-b-1=1000 gpu-b-0=2") != 0)
            fail_msg("%zu: got \"%s\"", i, got);
        SL_AUTO_JSON *why = sl_engine_explain(e, "w");
        if (cases[i].said && !strstr(sl_json_get_str(why, "message", ""), cases[i].said))
            fail_msg("%zu: %s", i, sl_json_get_str(why, "message", ""));
        if (i == 10) {
            const char *verdict = sl_json_path_str(why, "podSets.0.flavors.0.verdict", "");
            assert_string_equal(verdict, "conflicts with another flavor");
            assert_non_null(strstr(sl_json_get_str(why, "message", ""), "zone=a"));
            assert_non_null(strstr(sl_json_get_str(why, "message", ""), "zone=b"));
        }
        sl_engine_check_invariants(e);
        sl_engine_free(e);
    }
}

/* Quota is what it depends on, too: what the labels leave has to be free. */
static void the_only_pair_is_full(void **state) {
    (void)state;
    struct sl_engine *e = two_groups(ZONES("a", "b"), ZONES("b"));
    struct sl_workload *big = both();
    free(big->uid);
    big->uid = sl_xstrdup("big");
    big->podsets[0].per_pod.items[0].amount = 9000;
    sl_engine_put_workload(e, big, 100000);
    free(run(e, 100));
    sl_engine_put_workload(e, both(), 101000);
    expect_run(e, 101, "pending w"); /* not on cpu-a-0, which has all of its quota free */
    SL_AUTO_JSON *why = sl_engine_explain(e, "w");
    assert_non_null(
        strstr(sl_json_get_str(why, "message", ""), "flavor cpu-a-0: its node label zone=a does not go with "));
    sl_engine_free(e);
}

/* What asks for nothing, and flavors that would not do anyway, have no say. */
static void only_what_matters_counts(void **state) {
    (void)state;
    struct sl_engine *e = two_groups(ZONES("a"), ZONES("a"));
    struct sl_workload *w = both();
    add_request(w, "rdma/hca", 0); /* covered by nobody */
    sl_engine_put_workload(e, w, 100000);
    expect_run(e, 100, "admit w cpu-a-0=1000 gpu-a-0=2");
    sl_engine_del_workload(e, "w");
    static const char *const names[] = {"gpu-a-0", "cpu-a-0"};
    for (size_t i = 0; i < SL_COUNT(names); i++) { /* whichever resource is decided first */
        put_flavor_of(e, names[i], "{'nodeLabels':{'zone':'a'},'nodeTaints':[{'key':'k','effect':'NoSchedule'}]}");
        sl_engine_put_workload(e, both(), 101000);
        free(run(e, 101));
        SL_AUTO_JSON *why = sl_engine_explain(e, "w");
        assert_non_null(strstr(sl_json_get_str(why, "message", ""), "taint k:NoSchedule"));
        assert_null(strstr(sl_json_get_str(why, "message", ""), "does not go with"));
        sl_engine_del_workload(e, "w");
        put_flavor_of(e, names[i], "{'nodeLabels':{'zone':'a'}}");
    }
    sl_engine_free(e);
}

static void node_affinity_of_the_pods(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_flavor_of(e, "f", "{'nodeLabels':{'pool':'gold'}}");
    put_cq(e, "q", NULL, 4, NONE, NONE);
    put_lq(e, "q", "q");
    struct sl_workload *w = new_wl("w", "q", 0, 100, 1, 1);
    SL_AUTO_JSON *spec = sl_json_from(
        "{'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':{'nodeSelectorTerms':"
        "[{'matchExpressions':[{'key':'pool','operator':'NotIn','values':['gold']}]}]}}}}");
    sl_podset_decode_placement(spec, &w->podsets[0]);
    sl_engine_put_workload(e, w, 100000);
    expect_run(e, 100, "pending w");
    SL_AUTO_JSON *why = sl_engine_explain(e, "w");
    assert_non_null(
        strstr(sl_json_get_str(why, "message", ""), "flavor f: its node labels do not match the node affinity"));
    sl_engine_free(e);
}

static void node_selector_of_the_pods(void **state) {
    (void)state;
    struct sl_engine *e = new_engine();
    put_flavor_of(e, "f", "{'nodeLabels':{'pool':'gold','rack':'1'}}");
    put_cq(e, "q", NULL, 4, NONE, NONE);
    put_lq(e, "q", "q");
    struct sl_workload *w = new_wl("w", "q", 0, 100, 1, 1);
    SL_AUTO_JSON *spec = sl_json_from("{'nodeSelector':{'other':'x','pool':'mine'}}");
    sl_podset_decode_placement(spec, &w->podsets[0]);
    sl_engine_put_workload(e, w, 100000);
    expect_run(e, 100, "pending w");
    SL_AUTO_JSON *why = sl_engine_explain(e, "w");
    assert_non_null(strstr(sl_json_get_str(why, "message", ""),
                           "flavor f: its node labels do not match the node selector: pool is gold there, mine here"));
    sl_engine_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flavors_of_two_groups),     cmocka_unit_test(the_only_pair_is_full),
        cmocka_unit_test(only_what_matters_counts),  cmocka_unit_test(node_affinity_of_the_pods),
        cmocka_unit_test(node_selector_of_the_pods),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
