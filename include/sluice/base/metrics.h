/*
 * Counters, gauges and histograms in Prometheus text format. A metric is one row in defs/metrics.def. Thread-safe (one
 * lock). Label values are given in the order of the row's labels and are copied. Series are dropped with the object
 * they are about.
 */
#ifndef SLUICE_BASE_METRICS_H
#define SLUICE_BASE_METRICS_H

#include "sluice/base/buf.h"

enum sl_metric {
#define SL_METRIC(id, name, type, labels, buckets, help) SL_M_##id,
#include "sluice/defs/metrics.def"
#undef SL_METRIC
    SL_M__COUNT
};

#define SL_METRIC_MAX_LABELS 6
#define SL_METRIC_MAX_SERIES                                                                                           \
    200000 /* over all metrics; more are dropped and counted in sluice_metric_series_dropped_total */

/* labels: as many values as the row has labels; NULL counts as "". */
#define SL_LABELS(...) ((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})
void sl_metric_add(enum sl_metric m, double v, const char *const *labels);     /* counters, gauges */
void sl_metric_set(enum sl_metric m, double v, const char *const *labels);     /* gauges */
void sl_metric_observe(enum sl_metric m, double v, const char *const *labels); /* histograms */
double sl_metric_get(enum sl_metric m,
                     const char *const *labels); /* value, or count of a histogram; 0 when there is no such series */
void sl_metric_del(enum sl_metric m, const char *const *labels);
/* Drops every series, of all metrics, whose label `label` has `value` (and, when label2 is not NULL, label2 has
 * value2). */
void sl_metric_drop(const char *label, const char *value, const char *label2, const char *value2);
/* The same for one metric. */
void sl_metric_drop_one(enum sl_metric m, const char *label, const char *value);
void sl_metric_drop_pair(enum sl_metric m, const char *label, const char *value, const char *label2,
                         const char *value2);
void sl_metric_clear(enum sl_metric m);         /* all series of one metric */
void sl_metric_clear_gauges(const char *label); /* all series of all gauges that have such a label */
void sl_metrics_expose(struct sl_buf *out);     /* the whole page, text format 0.0.4 */
void sl_metrics_process(
    void);                   /* sets process_*: start, CPU time, resident memory, descriptors. Call before exposing. */
void sl_metrics_reset(void); /* for tests */

#endif
