/*
 * The process as /proc shows it, in the metrics that every dashboard knows by these names.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sluice/base/metrics.h"

/* Ticks since boot at which we started, ticks of CPU spent, pages resident. The name in the second field may hold anything: what counts begins
 * after its last bracket. */
static bool read_stat(double *ret_start, double *ret_cpu, double *ret_pages) {
    FILE *f = fopen("/proc/self/stat", "re");
    if (!f)
        return false;
    char line[1024];
    size_t n = fread(line, 1, sizeof line - 1, f);
    (void)fclose(f);
    line[n] = 0;
    const char *p = strrchr(line, ')');
    uint64_t user, system, start;
    int64_t pages;
    if (!p || sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64 " %*d %*d %*d %*d %*d %*d %" SCNu64 " %*u %" SCNd64, &user, &system, &start, &pages) != 4)
        return false;
    *ret_start = (double)start;
    *ret_cpu = (double)(user + system);
    *ret_pages = (double)pages;
    return true;
}

/* Seconds since 1970 at boot. */
static bool read_boot(double *ret) {
    FILE *f = fopen("/proc/stat", "re");
    if (!f)
        return false;
    char line[256];
    uint64_t boot;
    bool found = false;
    while (!found && fgets(line, sizeof line, f))
        found = sscanf(line, "btime %" SCNu64, &boot) == 1;
    (void)fclose(f);
    if (found)
        *ret = (double)boot;
    return found;
}

void sl_metrics_process(void) {
    double start, cpu, pages, boot, hz = (double)sysconf(_SC_CLK_TCK);
    if (read_stat(&start, &cpu, &pages)) {
        sl_metric_add(SL_M_PROCESS_CPU_SECONDS_TOTAL, cpu / hz - sl_metric_get(SL_M_PROCESS_CPU_SECONDS_TOTAL, SL_LABELS()), SL_LABELS());
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
