/* When a waiting Workload is told what: a reason at once, other numbers when quota rests or in their turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "simulated.h"
#include "sluice/api/conditions.h"
#include "sluice/api/names.h"
#include "sluice/base/log.h"
#include "sluice/base/mem.h"
#include "sluice/cmd/resources.h"
#include "sluice/kube/memory.h"

static void submit(struct simulation *s, const char *name, int cpu) {
    struct sl_err err = SL_ERR_INIT;
    SL_AUTO_JSON *o = sl_json_fromf(
        "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'Workload','metadata':{'name':'%s','namespace':'ns'},"
        "'spec':{'queueName':'a','priority':0,'podSets':[{'name':'main','count':1,'template':{'spec':{"
        "'restartPolicy':'Never','containers':[{'name':'c','image':'x','resources':{'requests':{'cpu':'%d'}}}]}}}]}}",
        name, cpu);
    assert_int_equal(sl_memory_create(s->cluster, &sl_watched[SL_WATCHED_WORKLOADS], o, NULL, &err), 0);
}

/* Its words, and how often they have changed so far. */
struct listener {
    char words[1024];
    int changes;
};

static void listen(struct simulation *s, const char *name, struct listener *l) {
    SL_AUTO_JSON *w = sl_memory_get(s->cluster, &sl_watched[SL_WATCHED_WORKLOADS], "ns", name);
    const struct sl_json *c = sl_condition_find(sl_json_path(w, "status.conditions"), SL_COND_QUOTA_RESERVED);
    const char *words = sl_json_get_str(c, "message", "");
    if (strcmp(words, l->words) != 0) {
        assert_true(strlen(words) < sizeof l->words);
        memcpy(l->words, words, strlen(words) + 1);
        l->changes++;
    }
}

static void run(struct simulation *s, const char *name, struct listener *l, int64_t ms) {
    for (int64_t end = sl_cluster_mono_ms(s->cluster) + ms; sl_cluster_mono_ms(s->cluster) < end;) {
        sl_manager_step(s->manager, 50);
        listen(s, name, l);
    }
}

static void begin(struct simulation *s, struct sl_config *config, const char *strategy) {
    struct sl_err err = SL_ERR_INIT;
    sl_log_set_level(SL_LOG_ERROR);
    sl_config_init(config);
    assert_int_equal(simulation_init(s, config, 0, &err), 0);
    create_in(s, "{'apiVersion':'v1','kind':'Namespace','metadata':{'name':'ns'}}");
    create_in(s, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'ResourceFlavor','metadata':{'name':'f'},'spec':{}}");
    SL_AUTO_FREE char *queue =
        sl_xprintf("{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'ClusterQueue','metadata':{'name':'a'},'spec':{"
                   "'namespaceSelector':{},'queueingStrategy':'%s','resourceGroups':[{'coveredResources':['cpu'],"
                   "'flavors':[{'name':'f','resources':[{'name':'cpu','nominalQuota':'1000'}]}]}]}}",
                   strategy);
    create_in(s, queue);
    create_in(s, "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'LocalQueue','metadata':{'name':'a','namespace':'ns'},"
                 "'spec':{'clusterQueue':'a'}}");
}

static void delete_one(struct simulation *s, const char *name) {
    struct sl_err err = SL_ERR_INIT;
    assert_int_equal(sl_memory_delete(s->cluster, &sl_watched[SL_WATCHED_WORKLOADS], "ns", name, &err), 0);
}

static void leave(struct simulation *s, int i) {
    SL_AUTO_FREE char *name = sl_xprintf("three-%d", i);
    delete_one(s, name);
}

/* 200 that hold three each, 600 of 1000 */
static void fill(struct simulation *s) {
    for (int i = 0; i < 200; i++) {
        SL_AUTO_FREE char *name = sl_xprintf("three-%d", i);
        submit(s, name, 3);
    }
    assert_true(simulation_settle(s));
}

/* The first of a queue goes while quota comes back twice a second: the second is told numbers now. */
static void numbers_wait_for_rest(void **state) {
    (void)state;
    struct simulation s;
    struct sl_config config;
    struct listener next = {"", 0};
    begin(&s, &config, "StrictFIFO");
    fill(&s);
    submit(&s, "first", 900);
    assert_true(simulation_settle(&s));
    leave(&s, 0);
    run(&s, "next", &next, 100);
    submit(&s, "next", 901); /* quota has just moved: a first reason is told all the same */
    run(&s, "next", &next, 200);
    assert_int_equal(next.changes, 1);
    assert_null(strstr(next.words, "free"));

    delete_one(&s, "first");
    int n = 1;
    while (n < 17) { /* eight seconds */
        leave(&s, n++);
        run(&s, "next", &next, 500);
    }
    assert_int_equal(next.changes, 1);
    run(&s, "next", &next, 2000);
    assert_int_equal(next.changes, 2);
    assert_non_null(strstr(next.words, "free "));
    run(&s, "next", &next, 30000); /* the engine looks at numbers twice a minute */
    assert_non_null(strstr(next.words, "free 451"));
    simulation_done(&s);
    sl_config_done(&config);
}

/* Without rest they come in their turn. */
static void numbers_come_without_rest(void **state) {
    (void)state;
    struct simulation s;
    struct sl_config config;
    struct listener next = {"", 0};
    begin(&s, &config, "StrictFIFO");
    fill(&s);
    submit(&s, "first", 900);
    submit(&s, "next", 901);
    assert_true(simulation_settle(&s));
    listen(&s, "next", &next);
    delete_one(&s, "first");
    int n = 0;
    while (n < 24) { /* twelve seconds */
        leave(&s, n++);
        run(&s, "next", &next, 500);
        assert_int_equal(next.changes, n <= 19 ? 1 : n >= 22 ? 2 : next.changes);
    }
    assert_non_null(strstr(next.words, "free"));
    simulation_done(&s);
    sl_config_done(&config);
}

static void limit(struct simulation *s, int cpu) {
    struct sl_err err = SL_ERR_INIT;
    SL_AUTO_JSON *patch = sl_json_fromf("{'spec':{'resourceGroups':[{'coveredResources':['cpu'],'flavors':[{'name':'f',"
                                        "'resources':[{'name':'cpu','nominalQuota':'%d'}]}]}]}}",
                                        cpu);
    assert_int_equal(
        sl_memory_merge(s->cluster, &sl_watched[SL_WATCHED_CLUSTERQUEUES], "", "a", NULL, patch, NULL, &err), 0);
}

enum { MANY = 300 };

/* How many of the many know of the new quota. */
static int know(struct simulation *s) {
    int n = 0;
    for (int i = 0; i < MANY; i++) {
        SL_AUTO_FREE char *name = sl_xprintf("wait-%d", i);
        struct listener l = {"", 0};
        listen(s, name, &l);
        n += strstr(l.words, "nominal 999,") != NULL;
    }
    return n;
}

/* Many that wait share the turns; who is deleted meanwhile is not told anything any more. */
static void turns_are_shared(void **state) {
    (void)state;
    struct simulation s;
    struct sl_config config;
    begin(&s, &config, "BestEffortFIFO");
    fill(&s);
    for (int i = 0; i < MANY; i++) { /* not two alike */
        SL_AUTO_FREE char *name = sl_xprintf("wait-%d", i);
        submit(&s, name, 690 + i);
    }
    assert_true(simulation_settle(&s));
    leave(&s, 0);
    sl_manager_step(s.manager, 50);
    limit(&s, 999);
    struct listener one = {"", 0};
    for (int i = 0; i < 40; i++) { /* twenty seconds: ten until the first turn, then twenty a second */
        SL_AUTO_FREE char *gone = sl_xprintf("wait-%d", i);
        leave(&s, 1 + i);
        delete_one(&s, gone);
        run(&s, "wait-299", &one, 500);
        if (i < 18)
            assert_int_equal(know(&s), 0);
    }
    assert_in_range(know(&s), 150, 210);
    assert_true(simulation_settle(&s));
    assert_int_equal(know(&s), MANY - 40);
    simulation_done(&s);
    sl_config_done(&config);
}

/* Its turn comes while so many writes are under way that nobody is looked at, and there are always newer words. */
static void a_turn_once_come_is_kept(void **state) {
    (void)state;
    struct simulation s;
    struct sl_config config;
    struct listener first = {"", 0};
    begin(&s, &config, "StrictFIFO");
    fill(&s);
    submit(&s, "first", 900);
    assert_true(simulation_settle(&s));
    listen(&s, "first", &first);
    for (int n = 0; n < 60; n++) { /* fifteen seconds */
        leave(&s, n);
        limit(&s, 999 - n);
        for (int i = 0; n == 38 && i < 600; i++) {
            SL_AUTO_FREE char *name = sl_xprintf("late-%d", i);
            submit(&s, name, 900);
        }
        sl_memory_set_faults(s.cluster, &(struct sl_memory_faults){.delay_ms = n == 38 ? 1200 : 0});
        run(&s, "first", &first, 50); /* in which they are told what they wait for */
        sl_memory_set_faults(s.cluster, &(struct sl_memory_faults){0});
        run(&s, "first", &first, 200);
        if (n == 38)
            assert_int_equal(first.changes, 1);
    }
    assert_int_equal(first.changes, 2);
    assert_true(simulation_settle(&s));
    listen(&s, "first", &first);
    assert_non_null(strstr(first.words, "nominal 940,"));
    simulation_done(&s);
    sl_config_done(&config);
}

static struct manager *replica(struct simulation *s, const struct sl_config *config, const char *name) {
    struct sl_err err = SL_ERR_INIT;
    struct manager *m = NULL;
    assert_int_equal(
        sl_manager_new(
            &(struct sl_manager_options){.cluster = s->cluster, .config = config, .identity = name, .elect = true}, &m,
            &err),
        0);
    return m;
}

/* What a replica told before another one led says nothing of what the object says now. */
static void who_leads_again_tells_again(void **state) {
    (void)state;
    struct simulation s;
    struct sl_config config;
    struct listener first = {"", 0};
    begin(&s, &config, "StrictFIFO");
    struct manager *before = s.manager, *one, *two;
    sl_manager_retire(before);
    one = s.manager = replica(&s, &config, "one");
    submit(&s, "first", 1001);
    run(&s, "first", &first, 20000);
    assert_true(sl_manager_leading(one));
    assert_non_null(strstr(first.words, "more than can ever be had here: 1k"));
    two = s.manager = replica(&s, &config, "two"); /* while the other does not come to anything */
    run(&s, "first", &first, 40000);
    assert_true(sl_manager_leading(two));
    limit(&s, 999);
    run(&s, "first", &first, 5000);
    assert_non_null(strstr(first.words, "more than can ever be had here: 999"));
    limit(&s, 1000);
    s.manager = one;
    run(&s, "first", &first, 60000);
    assert_true(sl_manager_leading(one));
    assert_non_null(strstr(first.words, "more than can ever be had here: 1k"));
    simulation_done(&s);
    sl_manager_free(two);
    sl_manager_free(before);
    sl_config_done(&config);
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* What they all know, a line each and in order: of those who ask for the same, any may be the one that speaks for the
 * others. Owned. */
static char *all_words(struct simulation *s) {
    SL_AUTO_JSON *all = sl_memory_list(s->cluster, &sl_watched[SL_WATCHED_WORKLOADS], "ns");
    size_t n = sl_json_len(all);
    char **lines = sl_xalloc((n + 1) * sizeof *lines);
    SL_JSON_ITEMS (all, w) {
        const struct sl_json *c = sl_condition_find(sl_json_path(w.value, "status.conditions"), SL_COND_QUOTA_RESERVED);
        lines[w.i] = sl_xprintf("%s: %s\n", sl_json_get_str(c, "reason", "untold"), sl_json_get_str(c, "message", ""));
    }
    qsort(lines, n, sizeof *lines, by_text);
    struct sl_buf b = SL_BUF_INIT(1u << 20);
    for (size_t i = 0; i < n; i++) {
        sl_buf_puts(&b, lines[i]);
        free(lines[i]);
    }
    free(lines);
    char *text = sl_xstrdup(sl_buf_text(&b));
    sl_buf_done(&b);
    return text;
}

static uint32_t dice(uint64_t *seed, uint32_t n) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % n;
}

static void hold(struct simulation *s, const char *policy) {
    struct sl_err err = SL_ERR_INIT;
    SL_AUTO_JSON *patch = sl_json_fromf("{'spec':{'stopPolicy':'%s'}}", policy);
    assert_int_equal(
        sl_memory_merge(s->cluster, &sl_watched[SL_WATCHED_LOCALQUEUES], "ns", "a", NULL, patch, NULL, &err), 0);
}

/* Jobs come and go while the API server refuses, is away or slow, and answers late. */
static void stir(struct simulation *s, uint64_t seed) {
    uint64_t at = seed;
    struct sl_err err = SL_ERR_INIT;
    sl_memory_set_faults(s->cluster, &(struct sl_memory_faults){.conflict = 100,
                                                                .unavailable = 100,
                                                                .unknown_applied = 60,
                                                                .unknown_lost = 60,
                                                                .watch_cut = seed > 1000 ? 30 : 0,
                                                                .watch_gone = seed > 1000 ? 15 : 0,
                                                                .delay_ms = (unsigned)(seed % 4) * 400});
    for (int n = 0; n < 120; n++) {
        SL_AUTO_FREE char *name = sl_xprintf("w-%u", dice(&at, 30));
        SL_AUTO_JSON *there = sl_memory_get(s->cluster, &sl_watched[SL_WATCHED_WORKLOADS], "ns", name);
        switch (dice(&at, 12)) {
        case 0: limit(s, 700 + (int)dice(&at, 300)); break;
        case 1: hold(s, dice(&at, 2) ? "Hold" : "None"); break;
        case 2: hold(s, "None"); break;
        default:
            if (!there)
                submit(s, name, 100 + 50 * (int)dice(&at, 12));
            else if (dice(&at, 2))
                assert_int_equal(sl_memory_delete(s->cluster, &sl_watched[SL_WATCHED_WORKLOADS], "ns", name, &err), 0);
        }
        for (uint32_t turns = dice(&at, 10); turns > 0; turns--)
            sl_manager_step(s->manager, 1 + (int64_t)dice(&at, 300));
    }
    hold(s, "None");
    sl_memory_set_faults(s->cluster, &(struct sl_memory_faults){0});
}

/* Whatever happened: when all is quiet, everybody knows what a manager says that has just started and sees them for the
 * first time, and nothing is left for that one to admit. */
static void in_the_end_the_words_are_true(void **state) {
    (void)state;
    static const uint64_t known[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 51, 86, 137, 1058, 2034, 3267};
    const char *from = getenv("SL_SEED"), *many = getenv("SL_SEEDS"); /* others, by hand */
    size_t n = many ? strtoul(many, NULL, 10) : SL_COUNT(known);
    for (size_t i = 0; i < n; i++) {
        uint64_t seed = many ? (from ? strtoul(from, NULL, 10) : 1) + i : known[i];
        struct world x = {0};
        begin(&x.sim, &x.config, seed % 2 ? "StrictFIFO" : "BestEffortFIFO");
        stir(&x.sim, seed);
        assert_true(simulation_settle(&x.sim));
        later(&x, 90000);
        assert_int_equal(sl_manager_recount(x.sim.manager), 0);
        SL_AUTO_FREE char *old = all_words(&x.sim);
        restart(&x);
        later(&x, 40000);
        SL_AUTO_FREE char *fresh = all_words(&x.sim);
        if (strcmp(old, fresh) != 0)
            fail_msg("seed %d:\n%s---\n%s", (int)seed, old, fresh);
        end(&x);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_wait_for_rest),
        cmocka_unit_test(numbers_come_without_rest),
        cmocka_unit_test(turns_are_shared),
        cmocka_unit_test(a_turn_once_come_is_kept),
        cmocka_unit_test(who_leads_again_tells_again),
        cmocka_unit_test(in_the_end_the_words_are_true),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
