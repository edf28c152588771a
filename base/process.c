/*
 * The process as /proc shows it, in the metrics that every dashboard knows by these names.
 */
#include <dirent.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "sluice/base/file.h"
#include "sluice/base/metrics.h"
#include "sluice/base/num.h"

/* The n-th (from 0) of the fields between spaces, as an integer. */
static bool field(const char *line, int n, int64_t *ret) {
    for (line += strspn(line, " "); n > 0; n--) {
        line += strcspn(line, " ");
        line += strspn(line, " ");
    }
    return sl_parse_i64(line, strcspn(line, " \n"), ret, NULL) == 0;
}

static bool read_whole(const char *path, struct sl_buf *b) {
    return sl_file_read(path, b, NULL) == 0;
}

/* Ticks since boot at which we started, ticks of CPU spent, pages resident. The name in the second field may hold
 * anything: what counts begins after its last bracket, with the state, the third field of proc(5). */
static bool read_stat(double *ret_start, double *ret_cpu, double *ret_pages) {
    SL_AUTO_BUF b = SL_BUF_INIT(4096);
    int64_t user, system_time, start, pages;
    const char *p = read_whole("/proc/self/stat", &b) ? strrchr(sl_buf_text(&b), ')') : NULL;
    if (!p || !field(p + 1, 14 - 3, &user) || !field(p + 1, 15 - 3, &system_time) || !field(p + 1, 22 - 3, &start) ||
        !field(p + 1, 24 - 3, &pages))
        return false;
    *ret_start = (double)start;
    *ret_cpu = (double)user + (double)system_time;
    *ret_pages = (double)pages;
    return true;
}

/* Seconds since 1970 at boot. The file has a line for each interrupt counter and processor, so it may be long. */
static bool read_boot(double *ret) {
    SL_AUTO_BUF b = SL_BUF_INIT(4 << 20);
    int64_t boot;
    const char *p = read_whole("/proc/stat", &b) ? strstr(sl_buf_text(&b), "\nbtime ") : NULL;
    if (!p || !field(p + 1, 1, &boot))
        return false;
    *ret = (double)boot;
    return true;
}

void sl_metrics_process(void) {
    double start, cpu, pages, boot, hz = (double)sysconf(_SC_CLK_TCK);
    if (read_stat(&start, &cpu, &pages)) {
        sl_metric_set(SL_M_PROCESS_CPU_SECONDS_TOTAL, cpu / hz, SL_LABELS());
        sl_metric_set(SL_M_PROCESS_RESIDENT_MEMORY_BYTES, pages * (double)sysconf(_SC_PAGESIZE), SL_LABELS());
        if (read_boot(&boot))
            sl_metric_set(SL_M_PROCESS_START_TIME_SECONDS, boot + start / hz, SL_LABELS());
    }
    DIR *d = opendir("/proc/self/fd");
    if (d) {
        double n = -1; /* the folder itself */
        while (readdir(d))
            n++;
        (void)closedir(d);
        sl_metric_set(SL_M_PROCESS_OPEN_FDS, n - 2, SL_LABELS()); /* . and .. */
    }
}
