/* Recorded decisions: every stable scenario agrees step by step, every other one settles; the books add up after each
 * round. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "sluice/base/file.h"
#include "sluice/base/mem.h"
#include "changes.h"
#include "sluice/cmd/scenario.h"

static void play_in_order(const char *path, bool fair, size_t expected, enum sl_scenario_release release,
                          struct changes_seen *seen) {
    struct sl_config config;
    sl_config_init(&config);
    config.fair_sharing = fair;
    config.fair_final_share = config.fair_initial_share = true;
    SL_AUTO_BUF text = SL_BUF_INIT(64u << 20);
    struct sl_err err = SL_ERR_INIT;
    assert_int_equal(sl_file_read(path, &text, &err), 0);
    size_t n = 0, wrong = 0;
    struct sl_scenario_stats stats = {0};
    for (const char *at = sl_buf_text(&text), *end = at + text.len; at < end;) {
        const char *nl = memchr(at, '\n', (size_t)(end - at));
        size_t len = nl ? (size_t)(nl - at) : (size_t)(end - at);
        SL_AUTO_JSON *scenario = NULL, *result = NULL;
        if (sl_json_parse(at, len, 4u << 20, &scenario, &err) ||
            sl_scenario_play(scenario, &config, release, &result, &stats, &err))
            fail_msg("%s: %s", path, err.text);
        SL_AUTO_FREE char *d = sl_scenario_difference(scenario, result);
        if (d) {
            print_error("%s, order %d: %s\n", sl_json_get_str(scenario, "name", ""), (int)release, d);
            wrong++;
        }
        if (release == SL_RELEASE_TOGETHER) /* what explain names holds in every order: it has tried them */
            check_changes(scenario, &config, release, seen);
        n++;
        at += len + 1;
    }
    sl_config_done(&config);
    assert_int_equal(wrong, 0);
    assert_int_equal(n, expected);
    assert_int_equal(stats.restless, 0);
    assert_int_equal(stats.repeated_reasons, 0);
    assert_true(stats.admissions > n && stats.evictions > 0 && stats.reasons > 0);
}

/* In a cluster the evicted do not give back at once: the outcome must not depend on it. */
static void play_file(const char *path, bool fair, size_t expected) {
    struct changes_seen seen = {0};
    for (int release = SL_RELEASE_TOGETHER; release <= SL_RELEASE_LAST; release++)
        play_in_order(path, fair, expected, (enum sl_scenario_release)release, &seen);
    assert_true(seen.finish && seen.nominal); /* there was something to try */
}

static void classical(void **state) {
    (void)state;
    play_file(SL_SOURCE_DIR "/tests/scenario/decisions/scenarios.jsonl", false, 160);
}

static void fair(void **state) {
    (void)state;
    play_file(SL_SOURCE_DIR "/tests/scenario/decisions/fair.jsonl", true, 80);
}

/* What a configuration leaves out or turns into something else holds for scenarios too. */
static void configured(void **state) {
    (void)state;
    static const char text[] =
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nresources: {excludeResourcePrefixes: "
        "[ignored/], "
        "transformations: [{input: nvidia.com/mig-1g.5gb, strategy: Replace, outputs: {example.com/credits: 10}}]}\n";
    struct sl_config config;
    struct sl_err err = SL_ERR_INIT;
    assert_int_equal(sl_config_parse_text(text, sizeof text - 1, &config, NULL, &err), 0);
    SL_AUTO_JSON *scenario = sl_json_from(
        "{'name':'x','objects':[{'kind':'ResourceFlavor','apiVersion':'kueue.x-k8s.io/v1beta2','metadata':{'name':'f'},"
        "'spec':{}},{'kind':'ClusterQueue','apiVersion':'kueue.x-k8s.io/v1beta2','metadata':{'name':'q'},'spec':{"
        "'namespaceSelector':{},'resourceGroups':[{'coveredResources':['example.com/credits'],'flavors':[{'name':'f',"
        "'resources':[{'name':'example.com/credits','nominalQuota':'25'}]}]}]}},{'kind':'LocalQueue','apiVersion':"
        "'kueue.x-k8s.io/v1beta2','metadata':{'name':'q','namespace':'ns'},'spec':{'clusterQueue':'q'}}],'steps':[]}");
    for (int i = 0; i < 3; i++) {
        SL_AUTO_JSON *step = sl_json_fromf(
            "{'create':{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'Workload','metadata':{'name':'w%d'},'spec':{"
            "'queueName':'q','podSets':[{'name':'main','count':1,'template':{'spec':{'containers':[{'name':'c','image':"
            "'x','resources':{'requests':{'ignored/x':'1','nvidia.com/mig-1g.5gb':'1'}}}]}}}]}}}",
            i);
        sl_json_append(sl_json_mut(scenario, "steps"), sl_json_ref(step));
    }
    SL_AUTO_JSON *result = NULL;
    assert_int_equal(sl_scenario_play(scenario, &config, SL_RELEASE_TOGETHER, &result, NULL, &err), 0);
    const char *want[] = {"Admitted", "Admitted", "Pending"};
    for (int i = 0; i < 3; i++) {
        SL_AUTO_FREE char *path = sl_xprintf("outcome.2.w%d.state", i);
        assert_string_equal(sl_json_path_str(result, path, ""), want[i]);
    }
    sl_config_done(&config);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(classical), cmocka_unit_test(fair),
                                       cmocka_unit_test(configured)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
