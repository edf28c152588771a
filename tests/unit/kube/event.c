/* Events: form, repetition, limits. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "sluice/base/mem.h"
#include "sluice/base/metrics.h"
#include "sluice/kube/event.h"
#include "sluice/kube/memory.h"

static const struct sl_resource events = {"events.k8s.io", "v1", "events", "Event", true};
static struct sl_cluster *cluster;
static struct sl_events *e;

static int setup(void **state) {
    (void)state;
    cluster = sl_memory_new(NULL);
    e = sl_events_new(cluster, "sluice-0");
    sl_metrics_reset();
    return 0;
}
static int teardown(void **state) {
    (void)state;
    sl_events_free(e);
    sl_cluster_free(cluster);
    return 0;
}
static void settle(int64_t ms) {
    int64_t until = sl_cluster_mono_ms(cluster) + ms;
    while (sl_cluster_mono_ms(cluster) < until || !sl_memory_idle(cluster, NULL))
        sl_cluster_step(cluster, until - sl_cluster_mono_ms(cluster));
}
static void say(const char *name, const char *note) {
    SL_AUTO_JSON *about = sl_json_fromf(
        "{'apiVersion':'kueue.x-k8s.io/"
        "v1beta2','kind':'Workload','metadata':{'namespace':'a','name':'%s','uid':'u-%s','resourceVersion':'9'}}",
        name, name);
    sl_events_emit(e, "sluice/workloads", about, true, "Pending", "Pending", note);
}
static size_t count(void) {
    SL_AUTO_JSON *all = sl_memory_list(cluster, &events, NULL);
    return sl_json_len(all);
}

static void they_say_who_what_and_why(void **state) {
    (void)state;
    say("w", "no quota");
    settle(1);
    SL_AUTO_JSON *all = sl_memory_list(cluster, &events, "a");
    assert_int_equal(sl_json_len(all), 1);
    SL_AUTO_JSON *one = sl_json_copy(sl_json_at(all, 0));
    const char *name = sl_json_path_str(one, "metadata.name", "");
    assert_int_equal(strncmp(name, "w.", 2), 0);
    sl_json_del(one, "metadata");
    SL_AUTO_FREE char *text = sl_json_text(one);
    assert_string_equal(
        text,
        "{\"action\":\"Pending\",\"apiVersion\":\"events.k8s.io/"
        "v1\",\"eventTime\":\"2026-01-01T00:00:00.000000Z\",\"kind\":\"Event\","
        "\"note\":\"no "
        "quota\",\"reason\":\"Pending\",\"regarding\":{\"apiVersion\":\"kueue.x-k8s.io/v1beta2\",\"kind\":\"Workload\","
        "\"name\":\"w\",\"namespace\":\"a\",\"resourceVersion\":\"9\",\"uid\":\"u-w\"},\"reportingController\":"
        "\"sluice/workloads\","
        "\"reportingInstance\":\"sluice-0\",\"type\":\"Warning\"}");
    SL_AUTO_JSON *node = sl_json_from("{'kind':'Node','metadata':{'name':'n'}}");
    sl_events_emit(e, "c", node, false, "R", "A", "x");
    settle(1);
    SL_AUTO_JSON *cluster_scoped = sl_memory_list(cluster, &events, "default");
    assert_int_equal(sl_json_len(cluster_scoped), 1);
}

static void repetitions_are_counted_not_sent(void **state) {
    (void)state;
    for (int i = 0; i < 29; i++) { /* every 20 s for 9:20 */
        say("w", "no quota");
        settle(20000);
    }
    say("w", "other");
    settle(1);
    assert_int_equal(count(), 2);
    SL_AUTO_JSON *all = sl_memory_list(cluster, &events, "a");
    const struct sl_json *first = sl_json_at(all, 0);
    assert_int_equal(sl_json_int(sl_json_path(first, "series.count"), 0), 16); /* as of minute five */
    assert_string_equal(sl_json_path_str(first, "series.lastObservedTime", ""), "2026-01-01T00:05:00.000000Z");
    settle(600000); /* ten silent minutes: then it is news again */
    say("w", "no quota");
    settle(1);
    assert_int_equal(count(), 3);
}

static void notes_are_cut_at_a_character(void **state) {
    (void)state;
    SL_AUTO_FREE char *text = sl_xalloc(3001);
    for (int i = 0; i < 1000; i++)
        memcpy(text + 3 * i, "\xe2\x82\xac", 3);
    say("w", text);
    settle(1);
    SL_AUTO_JSON *all = sl_memory_list(cluster, &events, "a");
    const char *note = sl_json_path_str(all, "0.note", "");
    assert_int_equal(strlen(note), 1024); /* 340 characters of three bytes, and the dots */
    assert_string_equal(note + 1017, "\xe2\x82\xac ...");
}

static void too_many_are_dropped_and_counted(void **state) {
    (void)state;
    for (int i = 0; i < 150; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        say(name, "x");
    }
    settle(1);
    assert_int_equal(count(), 100);
    assert_int_equal(sl_metric_get(SL_M_SLUICE_EVENTS_DROPPED_TOTAL, SL_LABELS()), 50);
    say("w149", "x"); /* what was dropped is not remembered as said */
    settle(1);
    assert_int_equal(count(), 101);
}

static void memory_is_bounded(void **state) {
    (void)state;
    for (int i = 0; i < 10050; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        say(name, "x");
        if (i % 50 == 49)
            settle(1);
    }
    settle(1);
    assert_int_equal(count(), 10050);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(they_say_who_what_and_why, setup, teardown),
        cmocka_unit_test_setup_teardown(repetitions_are_counted_not_sent, setup, teardown),
        cmocka_unit_test_setup_teardown(notes_are_cut_at_a_character, setup, teardown),
        cmocka_unit_test_setup_teardown(too_many_are_dropped_and_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(memory_is_bounded, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
