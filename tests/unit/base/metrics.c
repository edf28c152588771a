/* Metrics: values, dropping, and the page as Prometheus reads it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <unistd.h>

#include "sluice/base/clock.h"
#include "sluice/base/mem.h"
#include "sluice/base/metrics.h"

static int reset(void **state) {
    (void)state;
    sl_metrics_reset();
    return 0;
}

static char *page(void) {
    struct sl_buf b = SL_BUF_INIT(256 << 20);
    sl_metrics_expose(&b);
    char *text = sl_buf_take(&b);
    assert_non_null(text);
    return text;
}
static void expect_line(const char *line) {
    SL_AUTO_FREE char *text = page(), *wanted = sl_xprintf("\n%s\n", line);
    if (!strstr(text, wanted))
        fail_msg("no line %s in\n%s", line, text);
}

static void values__counter_and_gauge(void **state) {
    (void)state;
    sl_metric_add(SL_M_ADMISSION_ATTEMPTS_TOTAL, 1, SL_LABELS("leader", "success"));
    sl_metric_add(SL_M_ADMISSION_ATTEMPTS_TOTAL, 2, SL_LABELS("leader", "success"));
    sl_metric_add(SL_M_ADMISSION_ATTEMPTS_TOTAL, 1, SL_LABELS("leader", "inadmissible"));
    sl_metric_set(SL_M_SLUICE_QUOTA_DRIFT, 5, SL_LABELS("q"));
    sl_metric_set(SL_M_SLUICE_QUOTA_DRIFT, -2.5, SL_LABELS("q"));
    sl_metric_set(SL_M_SLUICE_LEADER, 1, SL_LABELS());
    assert_true(sl_metric_get(SL_M_ADMISSION_ATTEMPTS_TOTAL, SL_LABELS("leader", "success")) == 3);
    assert_true(sl_metric_get(SL_M_ADMISSION_ATTEMPTS_TOTAL, SL_LABELS("leader", "none")) == 0);
    expect_line("# TYPE kueue_admission_attempts_total counter");
    expect_line("kueue_admission_attempts_total{replica_role=\"leader\",result=\"success\"} 3");
    expect_line("kueue_admission_attempts_total{replica_role=\"leader\",result=\"inadmissible\"} 1");
    expect_line("# TYPE sluice_quota_drift gauge");
    expect_line("sluice_quota_drift{cluster_queue=\"q\"} -2.5");
    expect_line("sluice_leader 1");
    SL_AUTO_FREE char *text = page();
    assert_null(strstr(text, "kueue_cohort_info")); /* nothing is said of metrics without series */
}

static void values__numbers(void **state) {
    (void)state;
    static const struct {
        double v;
        const char *text;
    } cases[] = {{0, "0"},
                 {1e15, "1000000000000000"},
                 {0.1, "0.1"},
                 {0.1 + 0.2, "0.3"},
                 {1796045587.123, "1796045587.123"},
                 {-3, "-3"},
                 {1e300, "1e+300"},
                 {INFINITY, "+Inf"},
                 {-INFINITY, "-Inf"},
                 {NAN, "NaN"},
                 {4503599627370497.0, "4503599627370497"}};
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        sl_metric_set(SL_M_SLUICE_QUOTA_DRIFT, cases[i].v, SL_LABELS("q"));
        SL_AUTO_FREE char *line = sl_xprintf("sluice_quota_drift{cluster_queue=\"q\"} %s", cases[i].text);
        expect_line(line);
    }
}

static void histogram__cumulates(void **state) {
    (void)state;
    const char *const *labels = SL_LABELS("leader", "success");
    static const double seen[] = {0.001, 0.005, 0.0051, 10, 11, 1000};
    for (size_t i = 0; i < SL_COUNT(seen); i++)
        sl_metric_observe(SL_M_ADMISSION_ATTEMPT_DURATION_SECONDS, seen[i], labels);
    sl_metric_observe(SL_M_ADMISSION_ATTEMPT_DURATION_SECONDS, NAN, labels); /* would spoil the sum for good */
    assert_true(sl_metric_get(SL_M_ADMISSION_ATTEMPT_DURATION_SECONDS, labels) == 6);
    expect_line("# TYPE kueue_admission_attempt_duration_seconds histogram");
    expect_line("kueue_admission_attempt_duration_seconds_bucket{replica_role=\"leader\",result=\"success\",le=\"0."
                "005\"} 2"); /* bounds are inclusive */
    expect_line(
        "kueue_admission_attempt_duration_seconds_bucket{replica_role=\"leader\",result=\"success\",le=\"0.01\"} 3");
    expect_line(
        "kueue_admission_attempt_duration_seconds_bucket{replica_role=\"leader\",result=\"success\",le=\"5\"} 3");
    expect_line(
        "kueue_admission_attempt_duration_seconds_bucket{replica_role=\"leader\",result=\"success\",le=\"10\"} 4");
    expect_line(
        "kueue_admission_attempt_duration_seconds_bucket{replica_role=\"leader\",result=\"success\",le=\"+Inf\"} 6");
    expect_line("kueue_admission_attempt_duration_seconds_sum{replica_role=\"leader\",result=\"success\"} 1021.0111");
    expect_line("kueue_admission_attempt_duration_seconds_count{replica_role=\"leader\",result=\"success\"} 6");
    sl_metric_observe(SL_M_SLUICE_PASS_SECONDS, 0.00001, SL_LABELS());
    expect_line("sluice_pass_seconds_bucket{le=\"5e-05\"} 1");
    expect_line("sluice_pass_seconds_count 1");
}

static void labels__are_escaped(void **state) {
    (void)state;
    sl_metric_set(SL_M_SLUICE_QUOTA_DRIFT, 1, SL_LABELS("a\"b\\c\nd"));
    expect_line("sluice_quota_drift{cluster_queue=\"a\\\"b\\\\c\\nd\"} 1");
    sl_metric_set(SL_M_SLUICE_QUOTA_DRIFT, 2, SL_LABELS("x\x1fy"));
    expect_line("sluice_quota_drift{cluster_queue=\"x?y\"} 2");
    sl_metric_set(SL_M_SLUICE_QUOTA_DRIFT, 3, SL_LABELS("\xe4\xb8\xad"));
    expect_line("sluice_quota_drift{cluster_queue=\"\xe4\xb8\xad\"} 3");
    sl_metric_set(SL_M_SLUICE_QUOTA_DRIFT, 4,
                  SL_LABELS("z\xffz")); /* one bad byte would make Prometheus refuse the page */
    expect_line("sluice_quota_drift{cluster_queue=\"z?z\"} 4");
    sl_metric_set(SL_M_SLUICE_QUOTA_DRIFT, 5, SL_LABELS(NULL));
    expect_line("sluice_quota_drift{cluster_queue=\"\"} 5");
}

static void drop__by_label_and_by_two(void **state) {
    (void)state;
    sl_metric_set(SL_M_LOCAL_QUEUE_PENDING_WORKLOADS, 1, SL_LABELS("a", "ns1", "leader", "active"));
    sl_metric_set(SL_M_LOCAL_QUEUE_PENDING_WORKLOADS, 2, SL_LABELS("a", "ns2", "leader", "active"));
    sl_metric_set(SL_M_LOCAL_QUEUE_PENDING_WORKLOADS, 3, SL_LABELS("ab", "ns1", "leader", "active"));
    sl_metric_set(SL_M_PENDING_WORKLOADS, 4, SL_LABELS("q", "leader", "active"));
    sl_metric_set(SL_M_PENDING_WORKLOADS, 5, SL_LABELS("q2", "leader", "active"));
    sl_metric_observe(SL_M_ADMISSION_WAIT_TIME_SECONDS, 5, SL_LABELS("q", "", "leader"));
    sl_metric_drop("name", "a", "namespace", "ns1");
    assert_true(sl_metric_get(SL_M_LOCAL_QUEUE_PENDING_WORKLOADS, SL_LABELS("a", "ns1", "leader", "active")) == 0);
    assert_true(sl_metric_get(SL_M_LOCAL_QUEUE_PENDING_WORKLOADS, SL_LABELS("a", "ns2", "leader", "active")) == 2);
    assert_true(sl_metric_get(SL_M_LOCAL_QUEUE_PENDING_WORKLOADS, SL_LABELS("ab", "ns1", "leader", "active")) == 3);
    sl_metric_drop("cluster_queue", "q", NULL, NULL);
    assert_true(sl_metric_get(SL_M_PENDING_WORKLOADS, SL_LABELS("q", "leader", "active")) == 0);
    assert_true(sl_metric_get(SL_M_PENDING_WORKLOADS, SL_LABELS("q2", "leader", "active")) == 5);
    assert_true(sl_metric_get(SL_M_ADMISSION_WAIT_TIME_SECONDS, SL_LABELS("q", "", "leader")) == 0);
    sl_metric_del(SL_M_PENDING_WORKLOADS, SL_LABELS("q2", "leader", "active"));
    sl_metric_del(SL_M_PENDING_WORKLOADS, SL_LABELS("q2", "leader", "active"));
    sl_metric_clear(SL_M_LOCAL_QUEUE_PENDING_WORKLOADS);
    SL_AUTO_FREE char *text = page();
    assert_null(strstr(text, "pending_workloads"));
}

static void limit__series_past_it_are_dropped_and_counted(void **state) {
    (void)state;
    char name[32];
    for (int i = 0; i < SL_METRIC_MAX_SERIES + 10; i++) {
        snprintf(name, sizeof name, "q%d", i);
        sl_metric_set(SL_M_SLUICE_QUOTA_DRIFT, 1, SL_LABELS(name));
    }
    SL_AUTO_FREE char *huge = sl_xalloc(20000);
    memset(huge, 'h', 19999);
    sl_metric_set(SL_M_SLUICE_QUOTA_DRIFT, 1, SL_LABELS(huge));
    assert_true(sl_metric_get(SL_M_SLUICE_METRIC_SERIES_DROPPED_TOTAL, SL_LABELS()) >= 11);
    sl_metric_set(SL_M_SLUICE_LEADER, 1, SL_LABELS()); /* metrics without labels always have room */
    expect_line("sluice_leader 1");
    SL_AUTO_FREE char *text = page();
    assert_non_null(strstr(text, "\nsluice_metric_series_dropped_total 1"));
    sl_metric_clear(SL_M_SLUICE_QUOTA_DRIFT);
    sl_metric_set(SL_M_SLUICE_QUOTA_DRIFT, 1, SL_LABELS("again"));
    assert_true(sl_metric_get(SL_M_SLUICE_QUOTA_DRIFT, SL_LABELS("again")) == 1);
}

/* Every row of the table: a name and labels that Prometheus accepts, no label twice, help in one line. */
static void table__is_sound(void **state) {
    (void)state;
    static const struct {
        const char *name, *labels, *help;
    } rows[] = {
#define SL_METRIC(id, name, type, labels, buckets, help) {name, labels, help},
#include "sluice/defs/metrics.def"
#undef SL_METRIC
    };
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        assert_int_equal(strspn(rows[i].name, "abcdefghijklmnopqrstuvwxyz0123456789_"), strlen(rows[i].name));
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(rows[i].name, rows[k].name);
        assert_null(strpbrk(rows[i].help, "\n\\"));
        assert_true(*rows[i].help);
        size_t labels = 0;
        for (const char *p = rows[i].labels; *p;) {
            size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789_");
            assert_true(n && (p[n] == ',' || !p[n]));
            assert_false(n == 2 && !strncmp(p, "le", 2));
            labels++;
            p += n + (p[n] == ',');
        }
        assert_true(labels <= SL_METRIC_MAX_LABELS);
    }
}

static void process__says_what_proc_says(void **state) {
    (void)state;
    volatile double sink = 0;
    for (int i = 0; i < 30000000; i++) /* some CPU time */
        sink = sink + i;
    sl_metrics_process();
    double cpu = sl_metric_get(SL_M_PROCESS_CPU_SECONDS_TOTAL, SL_LABELS()),
           start = sl_metric_get(SL_M_PROCESS_START_TIME_SECONDS, SL_LABELS());
    double fds = sl_metric_get(SL_M_PROCESS_OPEN_FDS, SL_LABELS()), now = (double)sl_now_wall_ms() / 1000;
    assert_true(cpu > 0 && cpu < 1000);
    assert_true(start > now - 7200 && start < now + 60);
    assert_true(sl_metric_get(SL_M_PROCESS_RESIDENT_MEMORY_BYTES, SL_LABELS()) > 1 << 20);
    int fd = dup(1);
    sl_metrics_process();
    assert_true(sl_metric_get(SL_M_PROCESS_OPEN_FDS, SL_LABELS()) == fds + 1);
    assert_true(sl_metric_get(SL_M_PROCESS_CPU_SECONDS_TOTAL, SL_LABELS()) >= cpu);
    close(fd);
}

static void *count(void *payload) {
    for (int i = 0; i < 10000; i++) {
        sl_metric_add(SL_M_SLUICE_SHM_INJECTED_TOTAL, 1, SL_LABELS());
        if (i % 1000 == 0)
            free(page());
    }
    return payload;
}
static void threads__lose_nothing(void **state) {
    (void)state;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count, NULL), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(sl_metric_get(SL_M_SLUICE_SHM_INJECTED_TOTAL, SL_LABELS()) == 40000);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, reset, reset)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(values__counter_and_gauge), TEST(values__numbers),
        TEST(histogram__cumulates),      TEST(labels__are_escaped),
        TEST(drop__by_label_and_by_two), TEST(limit__series_past_it_are_dropped_and_counted),
        TEST(table__is_sound),           TEST(process__says_what_proc_says),
        TEST(threads__lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
