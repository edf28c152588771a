/*
 * Random scenarios of the recorded kind, without a record: whatever happens, the engine settles after every step, has
 * then nothing more to say, tells nobody what it knows, and evicts few. SL_SEEDS=n plays more, SL_SEED=n one (and
 * prints it).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "changes.h"
#include "sluice/base/mem.h"
#include "sluice/cmd/scenario.h"

#define V1BETA2            "\"apiVersion\":\"kueue.x-k8s.io/v1beta2\","
#define SEEDS              200
#define EVICTIONS_PER_STEP 40 /* far above what a sensible history needs, far below endless */

static uint64_t state;

/* One draw an expression: the order in which arguments are evaluated is the compiler's. */
static unsigned draw(unsigned n) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)((state >> 32) % n);
}
static bool chance(unsigned percent) {
    return draw(100) < percent;
}

#define PICK(...)                                                                                                      \
    ({                                                                                                                 \
        static const char *const pick_[] = {__VA_ARGS__};                                                              \
        pick_[draw(SL_COUNT(pick_))];                                                                                  \
    })

struct shape {
    const char *resources[3];
    size_t n_resources, n_flavors, n_queues, n_cohorts;
    bool fair, groups, partial;
};

static void quantity(struct sl_buf *b, const char *resource, unsigned v) {
    sl_buf_printf(b, !strcmp(resource, "memory") ? "\"%uGi\"" : "\"%u\"", v);
}

static void one_quota(struct sl_buf *b, const char *resource, bool limits) {
    unsigned nominal = draw(8);
    sl_buf_printf(b, "{\"name\":\"%s\",\"nominalQuota\":", resource);
    quantity(b, resource, nominal);
    if (limits && chance(15)) {
        sl_buf_puts(b, ",\"borrowingLimit\":");
        quantity(b, resource, draw(6));
    }
    if (limits && chance(15)) {
        sl_buf_puts(b, ",\"lendingLimit\":");
        quantity(b, resource, draw(nominal + 1));
    }
    sl_buf_puts(b, "}");
}

static void quotas(struct sl_buf *b, const struct shape *s, bool limits) {
    sl_buf_puts(b, "\"resourceGroups\":[");
    size_t n_groups = s->groups ? s->n_resources : 1;
    for (size_t g = 0; g < n_groups; g++) {
        size_t r0 = s->groups ? g : 0, r1 = s->groups ? g + 1 : s->n_resources;
        size_t f0 = s->groups ? (g ? 1 : 0) : 0, f1 = s->groups && g == 0 ? 1 : s->n_flavors;
        sl_buf_printf(b, "%s{\"coveredResources\":[", g ? "," : "");
        for (size_t r = r0; r < r1; r++)
            sl_buf_printf(b, "%s\"%s\"", r > r0 ? "," : "", s->resources[r]);
        sl_buf_puts(b, "],\"flavors\":[");
        for (size_t f = f0; f < f1; f++) {
            sl_buf_printf(b, "%s{\"name\":\"f%zu\",\"resources\":[", f > f0 ? "," : "", f);
            for (size_t r = r0; r < r1; r++) {
                sl_buf_puts(b, r > r0 ? "," : "");
                one_quota(b, s->resources[r], limits);
            }
            sl_buf_puts(b, "]}");
        }
        sl_buf_puts(b, "]}");
    }
    sl_buf_puts(b, "]");
}

static void queue(struct sl_buf *b, const struct shape *s, size_t i, const char *cohort) {
    const char *reclaim = PICK("Never", "LowerPriority", "Any", "Any");
    sl_buf_printf(b,
                  ",{" V1BETA2
                  "\"kind\":\"ClusterQueue\",\"metadata\":{\"name\":\"q%zu\"},\"spec\":{\"namespaceSelector\":{},",
                  i);
    sl_buf_printf(b, "\"cohortName\":\"%s\",\"queueingStrategy\":\"%s\",", cohort,
                  PICK("BestEffortFIFO", "BestEffortFIFO", "StrictFIFO"));
    sl_buf_printf(b, "\"preemption\":{\"withinClusterQueue\":\"%s\",\"reclaimWithinCohort\":\"%s\"",
                  PICK("Never", "LowerPriority", "LowerPriority", "LowerOrNewerEqualPriority"), reclaim);
    if (strcmp(reclaim, "Never") != 0 && chance(30))
        sl_buf_printf(b, ",\"borrowWithinCohort\":{\"policy\":\"LowerPriority\"%s}",
                      PICK("", ",\"maxPriorityThreshold\":10"));
    const char *preempt = PICK("MayStopSearch", "TryNextFlavor"), *borrow = PICK("MayStopSearch", "TryNextFlavor");
    sl_buf_printf(b, "},\"flavorFungibility\":{\"whenCanBorrow\":\"%s\",\"whenCanPreempt\":\"%s\"},", borrow, preempt);
    if (s->fair && chance(50))
        sl_buf_printf(b, "\"fairSharing\":{\"weight\":\"%s\"},", PICK("0", "1", "2", "0.5"));
    quotas(b, s, true);
    sl_buf_printf(b,
                  "}},{" V1BETA2
                  "\"kind\":\"LocalQueue\",\"metadata\":{\"name\":\"q%zu\",\"namespace\":\"ns\"},\"spec\":{"
                  "\"clusterQueue\":\"q%zu\"}}",
                  i, i);
}

static void workload(struct sl_buf *b, const struct shape *s, size_t i) {
    const char *priority = PICK("0", "0", "0", "10", "20", "30");
    sl_buf_printf(b,
                  "{\"create\":{\"kind\":\"Workload\",\"metadata\":{\"name\":\"w%02zu\"},\"spec\":{\"queueName\":\"q%"
                  "u\",\"priority\":%s,",
                  i, draw((unsigned)s->n_queues), priority);
    sl_buf_puts(b, "\"podSets\":[");
    size_t sets = chance(25) ? 2 : 1;
    for (size_t p = 0; p < sets; p++) {
        unsigned count = 1 + (chance(50) ? draw(4) : 0);
        sl_buf_printf(b, "%s{\"name\":\"%s\",\"count\":%u,", p ? "," : "", p ? "workers" : "main", count);
        if (s->partial && count > 1 && p == 0)
            sl_buf_printf(b, "\"minCount\":%u,", 1 + draw(count - 1));
        sl_buf_puts(b, "\"template\":{\"spec\":{\"containers\":[{\"name\":\"c\",\"resources\":{\"requests\":{");
        for (size_t r = 0; r < s->n_resources; r++) {
            sl_buf_printf(b, "%s\"%s\":", r ? "," : "", s->resources[r]);
            quantity(b, s->resources[r], 1 + draw(4));
        }
        sl_buf_puts(b, "}}}]}}}");
    }
    sl_buf_puts(b, "]}}}");
}

static void scenario(struct sl_buf *b, uint64_t seed, bool fair) {
    state = seed * 0x9e3779b97f4a7c15u + (fair ? 77 : 33);
    for (int i = 0; i < 8; i++)
        draw(2);
    struct shape s = {.resources = {"nvidia.com/gpu", "cpu", "memory"}, .fair = fair};
    s.n_resources = 1 + draw(3);
    s.n_flavors = 1 + draw(3);
    s.n_queues = 2 + draw(3);
    s.n_cohorts = chance(35) ? 3 : 0;
    s.partial = chance(20);
    s.groups = s.n_resources == 2 && s.n_flavors > 1 && chance(40);
    sl_buf_printf(b, "{\"name\":\"r%llu\",\"stable\":false,\"objects\":[", (unsigned long long)seed);
    for (size_t f = 0; f < s.n_flavors; f++)
        sl_buf_printf(b, "%s{" V1BETA2 "\"kind\":\"ResourceFlavor\",\"metadata\":{\"name\":\"f%zu\"},\"spec\":{}}",
                      f ? "," : "", f);
    static const char *const cohorts[] = {"root", "left", "right"};
    for (size_t c = 0; c < s.n_cohorts; c++) {
        sl_buf_printf(b, ",{" V1BETA2 "\"kind\":\"Cohort\",\"metadata\":{\"name\":\"%s\"},\"spec\":{%s", cohorts[c],
                      c ? "\"parentName\":\"root\"," : "");
        if (chance(50))
            quotas(b, &s, c > 0);
        else
            sl_buf_puts(b, "\"resourceGroups\":[]");
        sl_buf_puts(b, "}}");
    }
    for (size_t q = 0; q < s.n_queues; q++)
        queue(b, &s, q, s.n_cohorts ? cohorts[1 + draw(2)] : "pool");
    sl_buf_puts(b, "],\"steps\":[");
    size_t made = 0, steps = 10 + draw(12);
    for (size_t k = 0; k < steps; k++) {
        sl_buf_puts(b, k ? "," : "");
        unsigned x = draw(100);
        if (x < 66 || !made)
            workload(b, &s, made++);
        else if (x < 92) {
            unsigned who = draw((unsigned)made);
            sl_buf_printf(b, "{\"%s\":\"w%02u\"}", PICK("finish", "finish", "finish", "delete", "deactivate"), who);
        } else {
            sl_buf_printf(b, "{\"patch\":{\"kind\":\"ClusterQueue\",\"name\":\"q%u\",\"spec\":{",
                          draw((unsigned)s.n_queues));
            quotas(b, &s, true);
            sl_buf_puts(b, "}}}");
        }
    }
    sl_buf_puts(b, "],\"expect\":[]}");
}

static void play_all(bool fair) {
    const char *one = getenv("SL_SEED"), *many = getenv("SL_SEEDS");
    uint64_t first = one ? strtoull(one, NULL, 10) : 1, last = one ? first : many ? strtoull(many, NULL, 10) : SEEDS;
    struct sl_config config;
    sl_config_init(&config);
    config.fair_sharing = fair;
    config.fair_final_share = config.fair_initial_share = true;
    size_t evictions = 0;
    struct changes_seen seen = {0};
    for (uint64_t seed = first; seed <= last; seed++) {
        SL_AUTO_BUF text = SL_BUF_INIT(1u << 20);
        scenario(&text, seed, fair);
        SL_AUTO_JSON *o = NULL, *result = NULL;
        struct sl_err err = SL_ERR_INIT;
        struct sl_scenario_stats stats = {0};
        if (one)
            print_message("%s\n", sl_buf_text(&text));
        if (sl_json_parse(sl_buf_text(&text), text.len, text.max, &o, &err) ||
            sl_scenario_play(o, &config, (enum sl_scenario_release)(seed % 3), &result, &stats, &err))
            fail_msg("seed %llu: %s", (unsigned long long)seed, err.text);
        SL_AUTO_FREE char *d = sl_scenario_difference(o, result);
        size_t steps = sl_json_len(sl_json_get(o, "steps"));
        if (d || stats.restless || stats.repeated_reasons || stats.evictions > EVICTIONS_PER_STEP * steps)
            fail_msg("%s seed %llu: %s; restless %zu, repeated %zu, evictions %zu in %zu steps",
                     fair ? "fair" : "classical", (unsigned long long)seed, d ? d : "settles", stats.restless,
                     stats.repeated_reasons, stats.evictions, steps);
        evictions += stats.evictions;
        if (one || seed % 2)
            check_changes(o, &config, (enum sl_scenario_release)(seed % 3), &seen);
    }
    sl_config_done(&config);
    assert_true(one || evictions > (last - first) / 10); /* there was something to settle */
    assert_true(one || (seen.finish && seen.borrowing && seen.lending && seen.nominal)); /* and to try */
    print_message(
        "%zu waited; named were %zu ends, %zu borrowing limits, %zu lending limits, %zu quotas; %zu of Cohorts\n",
        seen.waiting, seen.finish, seen.borrowing, seen.lending, seen.nominal, seen.cohorts);
}

static void classical(void **unused) {
    (void)unused;
    play_all(false);
}

static void fair(void **unused) {
    (void)unused;
    play_all(true);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(classical), cmocka_unit_test(fair)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
