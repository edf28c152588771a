/*
 * The whole manager over the cluster in memory, with random users, faults and failovers, in virtual time. After every
 * quiet moment the promises are checked on the cluster's own objects: nobody above quota, nobody running unadmitted,
 * nobody forgotten, books equal to a recount, statuses equal to the books. The seed of a failing history is printed;
 * SLUICE_SIM_SEED plays one again, SLUICE_SIM_RUNS sets how many are played.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "simulate.h"
#include "sluice/api/conditions.h"
#include "sluice/base/log.h"
#include "sluice/base/mem.h"
#include "sluice/base/num.h"
#include "sluice/cmd/resources.h"
#include "sluice/kube/memory.h"

#define MANAGERS 8

struct history {
    struct simulation sim;
    struct sl_config config;
    struct manager *retired[MANAGERS];
    size_t n_retired;
    uint64_t random, seed;
    int jobs;
};

static unsigned pick(struct history *h, unsigned n) { /* splitmix64 */
    h->random += 0x9e3779b97f4a7c15ull;
    uint64_t z = h->random;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return (unsigned)((z ^ (z >> 31)) % n);
}

static const char *const setup[] = {
    "{'apiVersion':'v1','kind':'Namespace','metadata':{'name':'ns'}}",
    "{'apiVersion':'kueue.x-k8s.io/"
    "v1beta2','kind':'ResourceFlavor','metadata':{'name':'h100'},'spec':{'nodeLabels':{'gpu':'h100'}}}",
    "{'apiVersion':'kueue.x-k8s.io/"
    "v1beta2','kind':'ResourceFlavor','metadata':{'name':'t4'},'spec':{'nodeLabels':{'gpu':'t4'}}}",
    "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'WorkloadPriorityClass','metadata':{'name':'high'},'value':100}",
    "{'apiVersion':'kueue.x-k8s.io/"
    "v1beta2','kind':'ClusterQueue','metadata':{'name':'a'},'spec':{'cohortName':'pool','namespaceSelector':{},'"
    "preemption':{'withinClusterQueue':'LowerPriority'},"
    "'resourceGroups':[{'coveredResources':['nvidia.com/"
    "gpu'],'flavors':[{'name':'h100','resources':[{'name':'nvidia.com/gpu','nominalQuota':'8','borrowingLimit':'4'}]},"
    "{'name':'t4','resources':[{'name':'nvidia.com/gpu','nominalQuota':'4'}]}]}]}}",
    "{'apiVersion':'kueue.x-k8s.io/"
    "v1beta2','kind':'ClusterQueue','metadata':{'name':'b'},'spec':{'cohortName':'pool','namespaceSelector':{},'"
    "preemption':{'reclaimWithinCohort':'Any'},"
    "'resourceGroups':[{'coveredResources':['nvidia.com/"
    "gpu'],'flavors':[{'name':'h100','resources':[{'name':'nvidia.com/"
    "gpu','nominalQuota':'8','lendingLimit':'6'}]}]}]}}",
    "{'apiVersion':'kueue.x-k8s.io/"
    "v1beta2','kind':'LocalQueue','metadata':{'name':'a','namespace':'ns'},'spec':{'clusterQueue':'a'}}",
    "{'apiVersion':'kueue.x-k8s.io/"
    "v1beta2','kind':'LocalQueue','metadata':{'name':'b','namespace':'ns'},'spec':{'clusterQueue':'b'}}",
};

static void begin(struct history *h, uint64_t seed) {
    struct sl_err err = SL_ERR_INIT;
    memset(h, 0, sizeof *h);
    h->random = h->seed = seed;
    sl_config_init(&h->config);
    assert_int_equal(simulation_init(&h->sim, &h->config, 0, &err), 0);
    for (size_t i = 0; i < SL_COUNT(setup); i++) {
        SL_AUTO_JSON *o = sl_json_from(setup[i]);
        if (simulation_create(&h->sim, o, NULL, &err))
            fail_msg("%s", err.text);
        assert_true(simulation_settle(&h->sim));
    }
}

static void end(struct history *h) {
    simulation_done(&h->sim);
    for (size_t i = 0; i < h->n_retired; i++)
        sl_manager_free(h->retired[i]);
    sl_config_done(&h->config);
}

/* A new leader takes over while the old one's last writes are still under way. */
static void fail_over(struct history *h) {
    struct sl_err err = SL_ERR_INIT;
    if (h->n_retired == MANAGERS)
        return;
    sl_manager_retire(h->sim.manager);
    h->retired[h->n_retired++] = h->sim.manager;
    assert_int_equal(
        sl_manager_new(
            &(struct sl_manager_options){.cluster = h->sim.cluster, .config = &h->config, .identity = "next"},
            &h->sim.manager, &err),
        0);
}

static char *some_job(struct history *h) {
    SL_AUTO_JSON *jobs = sl_memory_list(h->sim.cluster, &sl_watched[SL_WATCHED_JOBS], "ns");
    size_t n = sl_json_len(jobs);
    return n ? sl_xstrdup(sl_json_path_str(sl_json_at(jobs, pick(h, (unsigned)n)), "metadata.name", "")) : NULL;
}

static char *some_workload(struct history *h) {
    SL_AUTO_JSON *list = sl_memory_list(h->sim.cluster, &sl_watched[SL_WATCHED_WORKLOADS], "ns");
    size_t n = sl_json_len(list);
    return n ? sl_xstrdup(sl_json_path_str(sl_json_at(list, pick(h, (unsigned)n)), "metadata.name", "")) : NULL;
}

static void submit(struct history *h) {
    unsigned pods = 1 + pick(h, 3), gpus = pick(h, 5), seconds = 1 + pick(h, 60);
    SL_AUTO_JSON *job = sl_json_fromf(
        "{'apiVersion':'batch/v1','kind':'Job','metadata':{'name':'j%d','namespace':'ns','labels':{'kueue.x-k8s.io/"
        "queue-name':'%s'%s},"
        "'annotations':{'sluice.dev/"
        "simulate-run':'%us'}},'spec':{'parallelism':%u,'completions':%u,'template':{'spec':{'restartPolicy':'Never',"
        "'containers':[{'name':'c','image':'x','resources':{'limits':{'nvidia.com/gpu':%u}}}]}}}}",
        h->jobs++, pick(h, 2) ? "a" : "b", pick(h, 4) ? "" : ",'kueue.x-k8s.io/priority-class':'high'", seconds, pods,
        pods, gpus);
    struct sl_err err = SL_ERR_INIT;
    if (simulation_create(&h->sim, job, NULL, &err) && err.code != SL_UNAVAILABLE)
        fail_msg("seed %llu: %s", (unsigned long long)h->seed, err.text);
}

static void merge(struct history *h, enum sl_watched kind, const char *ns, const char *name, const char *patch) {
    SL_AUTO_JSON *p = sl_json_from(patch);
    if (name)
        (void)!sl_memory_merge(h->sim.cluster, &sl_watched[kind], ns, name, NULL, p, NULL,
                               NULL); /* refusals are part of life */
}

static void act(struct history *h) {
    SL_AUTO_FREE char *job = some_job(h), *wl = some_workload(h);
    char text[200];
    switch (pick(h, 15)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4: submit(h); break;
    case 5:
        if (job)
            (void)!sl_memory_delete(h->sim.cluster, &sl_watched[SL_WATCHED_JOBS], "ns", job, NULL);
        break;
    case 6: merge(h, SL_WATCHED_JOBS, "ns", job, "{'spec':{'suspend':false}}"); break;
    case 7: merge(h, SL_WATCHED_JOBS, "ns", job, "{'spec':{'suspend':true}}"); break;
    case 8:
        snprintf(text, sizeof text, "{'spec':{'parallelism':%u}}", 1 + pick(h, 3));
        merge(h, SL_WATCHED_JOBS, "ns", job, text);
        break;
    case 9:
        merge(h, SL_WATCHED_WORKLOADS, "ns", wl, pick(h, 2) ? "{'spec':{'active':false}}" : "{'spec':{'active':true}}");
        break;
    case 10:
        if (wl)
            (void)!sl_memory_delete(h->sim.cluster, &sl_watched[SL_WATCHED_WORKLOADS], "ns", wl, NULL);
        break;
    case 11: {
        static const char *const policies[] = {"None", "Hold", "HoldAndDrain", "None"};
        snprintf(text, sizeof text, "{'spec':{'stopPolicy':'%s'}}", policies[pick(h, 4)]);
        merge(h, SL_WATCHED_CLUSTERQUEUES, NULL, pick(h, 2) ? "a" : "b", text);
        break;
    }
    case 12:
        merge(h, SL_WATCHED_JOBS, "ns", job,
              pick(h, 2) ? "{'metadata':{'labels':{'kueue.x-k8s.io/queue-name':'b'}}}"
                         : "{'metadata':{'labels':{'kueue.x-k8s.io/queue-name':'a'}}}");
        break;
    case 13:
        if (!pick(h, 4))
            fail_over(h);
        break;
    case 14: merge(h, SL_WATCHED_WORKLOADS, "ns", wl, "{'metadata':{'ownerReferences':null}}"); break;
    }
}

/* ---- promises ---- */

static int64_t usage(const struct sl_json *workloads, const char *cq, const char *flavor) {
    int64_t sum = 0;
    SL_JSON_ITEMS (workloads, w) {
        if (sl_condition_is_true(w.value, "Finished") || !sl_condition_is_true(w.value, "QuotaReserved") ||
            (cq && strcmp(sl_json_path_str(w.value, "status.admission.clusterQueue", ""), cq)))
            continue;
        int64_t reclaimed = sl_json_int(sl_json_path(w.value, "status.reclaimablePods.0.count"), 0);
        SL_JSON_ITEMS (sl_json_path(w.value, "status.admission.podSetAssignments"), p) {
            int64_t amount = 0, count = sl_json_get_int(p.value, "count", 1);
            (void)sl_parse_int(sl_json_get_str(sl_json_get(p.value, "resourceUsage"), "nvidia.com/gpu", "0"), &amount);
            if (!strcmp(sl_json_get_str(sl_json_get(p.value, "flavors"), "nvidia.com/gpu", ""), flavor))
                sum += count ? amount / count * (count - reclaimed) : 0;
        }
    }
    return sum;
}

#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "seed %llu: ", (unsigned long long)h->seed);                                               \
            fail_msg(__VA_ARGS__);                                                                                     \
        }                                                                                                              \
    } while (0)

/* At every moment. */
static void check_quota(struct history *h) {
    SL_AUTO_JSON *workloads = sl_memory_list(h->sim.cluster, &sl_watched[SL_WATCHED_WORKLOADS], "ns");
    int64_t a = usage(workloads, "a", "h100"), b = usage(workloads, "b", "h100"), t4 = usage(workloads, "a", "t4");
    CHECK(a <= 12 && b <= 16 && a + b <= 16 && t4 <= 4, "above quota: a %lld, b %lld, t4 %lld", (long long)a,
          (long long)b, (long long)t4);
}

static void check_promises(struct history *h) {
    SL_AUTO_JSON *workloads = sl_memory_list(h->sim.cluster, &sl_watched[SL_WATCHED_WORKLOADS], "ns");
    SL_AUTO_JSON *jobs = sl_memory_list(h->sim.cluster, &sl_watched[SL_WATCHED_JOBS], "ns");
    check_quota(h);
    SL_JSON_ITEMS (jobs, j) {
        const char *name = sl_json_path_str(j.value, "metadata.name", ""),
                   *uid = sl_json_path_str(j.value, "metadata.uid", "");
        const struct sl_json *wl = NULL;
        bool finished = sl_condition_is_true(j.value, "Complete") || sl_condition_is_true(j.value, "Failed");
        SL_JSON_ITEMS (workloads, w) {
            if (!strcmp(sl_json_path_str(w.value, "metadata.ownerReferences.0.uid", ""), uid)) {
                CHECK(!wl, "job %s has two Workloads", name);
                wl = w.value;
            }
        }
        bool running = !sl_json_bool(sl_json_path(j.value, "spec.suspend"), false);
        if (finished)
            continue;
        CHECK(wl, "job %s was forgotten: it has no Workload", name);
        bool admitted = sl_condition_is_true(wl, "Admitted") && !sl_condition_is_true(wl, "Evicted");
        CHECK(running == (admitted && !sl_condition_is_true(wl, "Finished")), "job %s %s, its Workload is %sadmitted",
              name, running ? "runs" : "is suspended", admitted ? "" : "not ");
        CHECK(!sl_json_get(sl_json_path(j.value, "metadata.annotations"), "kueue.x-k8s.io/stopping"),
              "job %s is stuck in a stop", name);
        if (!admitted && sl_json_bool(sl_json_path(wl, "spec.active"), true))
            CHECK(*sl_json_get_str(sl_condition_of(wl, "QuotaReserved"), "message", ""),
                  "job %s waits without a reason", name);
    }
    CHECK(sl_manager_recount(h->sim.manager) == 0, "the books differ from a recount");
    static const char *const names[] = {"a", "b"};
    for (size_t i = 0; i < SL_COUNT(names); i++) {
        SL_AUTO_JSON *cq = sl_memory_get(h->sim.cluster, &sl_watched[SL_WATCHED_CLUSTERQUEUES], NULL, names[i]);
        int64_t reserving = 0;
        SL_JSON_ITEMS (workloads, w)
            reserving += sl_condition_is_true(w.value, "QuotaReserved") && !sl_condition_is_true(w.value, "Finished") &&
                         !strcmp(sl_json_path_str(w.value, "status.admission.clusterQueue", ""), names[i]);
        CHECK(sl_json_int(sl_json_path(cq, "status.reservingWorkloads"), -1) == reserving,
              "ClusterQueue %s says %lld reserving, a recount says %lld", names[i],
              (long long)sl_json_int(sl_json_path(cq, "status.reservingWorkloads"), -1), (long long)reserving);
    }
    sl_engine_check_invariants(sl_manager_engine(h->sim.manager));
}

static void play(uint64_t seed, bool faults) {
    struct history history, *h = &history;
    begin(h, seed);
    const struct sl_memory_faults none = {0},
                                  some = {.conflict = 60,
                                          .unavailable = 60,
                                          .unknown_applied = 30,
                                          .unknown_lost = 30,
                                          .watch_cut = 20,
                                          .watch_gone = 10,
                                          .delay_ms = 300,
                                          .gc_ms = 1500},
                                  later = {.gc_ms = 4000}, blind = {.gc_off = true};
    for (int round = 0; round < 12; round++) {
        if (faults)
            sl_memory_set_faults(h->sim.cluster, &some);
        else if (seed % 3)
            sl_memory_set_faults(h->sim.cluster, seed % 3 == 1 ? &later : &blind);
        for (unsigned n = 1 + pick(h, 8); n > 0; n--) {
            act(h);
            for (unsigned turns = pick(h, 6); turns > 0; turns--) { /* not until quiet: things overlap */
                sl_manager_step(h->sim.manager, pick(h, 2000));
                check_quota(h);
            }
        }
        sl_memory_set_faults(h->sim.cluster, &none);
        CHECK(simulation_advance(&h->sim, sl_cluster_wall_ms(h->sim.cluster) + 90000 + pick(h, 30000)),
              "does not come to rest");
        check_promises(h);
    }
    end(h);
}

static void run_all(bool faults) {
    const char *one = getenv("SLUICE_SIM_SEED"), *runs = getenv("SLUICE_SIM_RUNS");
    int64_t n = 25, seed;
    sl_log_set_level(SL_LOG_ERROR);
    if (one && sl_parse_int(one, &seed)) {
        play((uint64_t)seed, faults);
        return;
    }
    (void)(runs && sl_parse_int(runs, &n));
    for (int64_t i = 1; i <= n; i++)
        play((uint64_t)i, faults);
}

static void histories_without_faults__keep_every_promise(void **state) {
    (void)state;
    run_all(false);
}
static void histories_with_faults__keep_every_promise(void **state) {
    (void)state;
    run_all(true);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(histories_without_faults__keep_every_promise),
                                       cmocka_unit_test(histories_with_faults__keep_every_promise)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
