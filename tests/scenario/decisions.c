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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(classical), cmocka_unit_test(fair)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
