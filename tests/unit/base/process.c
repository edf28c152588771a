/* What /metrics says of the process itself. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "sluice/base/metrics.h"

static void test_numbers(void **state) {
    (void)state;
    sl_metrics_process();
    double fds = sl_metric_get(SL_M_PROCESS_OPEN_FDS, SL_LABELS()),
           cpu = sl_metric_get(SL_M_PROCESS_CPU_SECONDS_TOTAL, SL_LABELS());
    double start = sl_metric_get(SL_M_PROCESS_START_TIME_SECONDS, SL_LABELS());
    assert_true(fds >= 3 && fds < 1000);
    assert_true(sl_metric_get(SL_M_PROCESS_RESIDENT_MEMORY_BYTES, SL_LABELS()) > 100 * 1024);
    assert_true(start > 1e9 && start < (double)time(NULL) + 5); /* the boot time is kept in whole seconds */
    int a = open("/dev/null", O_RDONLY | O_CLOEXEC), b = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(a >= 0 && b >= 0);
    sl_metrics_process();
    assert_true(sl_metric_get(SL_M_PROCESS_OPEN_FDS, SL_LABELS()) == fds + 2);
    assert_true(sl_metric_get(SL_M_PROCESS_CPU_SECONDS_TOTAL, SL_LABELS()) >=
                cpu); /* a counter, set from what the kernel says */
    assert_true(sl_metric_get(SL_M_PROCESS_CPU_SECONDS_TOTAL, SL_LABELS()) < 60);
    close(a);
    close(b);
    sl_metrics_process();
    assert_true(sl_metric_get(SL_M_PROCESS_OPEN_FDS, SL_LABELS()) == fds);
    assert_true(sl_metric_get(SL_M_PROCESS_START_TIME_SECONDS, SL_LABELS()) == start);
    SL_AUTO_BUF page = SL_BUF_INIT(1 << 20);
    sl_metrics_expose(&page);
    assert_non_null(strstr(sl_buf_text(&page), "\nprocess_start_time_seconds "));
    sl_metrics_reset();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
