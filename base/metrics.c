/*
 * One table of metrics (metrics.def), one map of series a metric, keyed by its label values joined with 0x1f. One lock
 * for all: observations are short, and the page is built from a walk under the lock.
 */
#include "sluice/base/metrics.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/base/map.h"
#include "sluice/base/mem.h"
#include "sluice/base/utf8.h"

enum type { COUNTER, GAUGE, HISTOGRAM };
static const double buckets_NONE[] = {INFINITY};
static const double buckets_DEF[] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, INFINITY};
static const double buckets_E14[] = {1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240, INFINITY};
static const double buckets_E16[] = {1,   2.5,  5,    10,   20,    40,    80,    160,     320,
                                     640, 1280, 2560, 5120, 10240, 20480, 40960, INFINITY};
static const double buckets_C11[] = {0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, INFINITY};
static const double buckets_MS[] = {0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,   0.01,
                                    0.025,   0.05,   0.1,     0.25,   0.5,   1,      INFINITY};

static const struct row {
    const char *name, *labels, *help;
    enum type type;
    const double *bounds;
} rows[] = {
#define SL_METRIC(id, name, type, labels, buckets, help) {name, labels, help, type, buckets_##buckets},
#include "sluice/defs/metrics.def"
#undef SL_METRIC
};

struct series {
    double value, sum; /* histogram: value is the count */
    uint64_t *counts;  /* histogram: per bucket, not cumulated */
};

static struct sl_map all[SL_M__COUNT];
static size_t total;
static double dropped;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static size_t label_count(const struct row *r) {
    size_t n = *r->labels ? 1 : 0;
    for (const char *p = r->labels; *p; p++)
        n += *p == ',';
    return n;
}

static void series_free(void *p) {
    struct series *s = p;
    if (s)
        free(s->counts);
    free(s);
}

static void make_key(const struct row *r, const char *const *labels, struct sl_buf *key) {
    size_t n = label_count(r);
    for (size_t i = 0; i < n; i++) {
        for (const char *p = labels && labels[i] ? labels[i] : ""; *p; p++)
            sl_buf_putc(key, *p == 0x1f ? '?' : *p);
        sl_buf_putc(key, 0x1f);
    }
    sl_buf_puts(key, "");
}

static struct series *find(enum sl_metric m, const char *const *labels, bool create) {
    SL_AUTO_BUF key = SL_BUF_INIT(8192);
    make_key(&rows[m], labels, &key);
    if (key.failed) {
        dropped += create;
        return NULL;
    }
    struct series *s = sl_map_get(&all[m], sl_buf_text(&key));
    if (s || !create)
        return s;
    if (total >= SL_METRIC_MAX_SERIES &&
        *rows[m].labels) { /* those without labels are few, one of them tells of this limit */
        dropped++;
        return NULL;
    }
    s = sl_xalloc(sizeof *s);
    if (rows[m].type == HISTOGRAM) {
        size_t n = 1;
        while (!isinf(rows[m].bounds[n - 1]))
            n++;
        s->counts = sl_xalloc(n * sizeof *s->counts);
    }
    sl_map_set(&all[m], sl_buf_text(&key), s);
    total++;
    return s;
}

void sl_metric_add(enum sl_metric m, double v, const char *const *labels) {
    SL_ASSERT(rows[m].type != HISTOGRAM);
    pthread_mutex_lock(&lock);
    struct series *s = find(m, labels, true);
    if (s)
        s->value += v;
    pthread_mutex_unlock(&lock);
}

void sl_metric_set(enum sl_metric m, double v, const char *const *labels) {
    SL_ASSERT(rows[m].type != HISTOGRAM);
    pthread_mutex_lock(&lock);
    struct series *s = find(m, labels, true);
    if (s)
        s->value = v;
    pthread_mutex_unlock(&lock);
}

void sl_metric_observe(enum sl_metric m, double v, const char *const *labels) {
    SL_ASSERT(rows[m].type == HISTOGRAM);
    if (isnan(v))
        return; /* it would spoil the sum for good */
    pthread_mutex_lock(&lock);
    struct series *s = find(m, labels, true);
    if (s) {
        size_t i = 0;
        while (v > rows[m].bounds[i])
            i++;
        s->counts[i]++;
        s->value++;
        s->sum += v;
    }
    pthread_mutex_unlock(&lock);
}

double sl_metric_get(enum sl_metric m, const char *const *labels) {
    pthread_mutex_lock(&lock);
    struct series *s = find(m, labels, false);
    double v = m == SL_M_SLUICE_METRIC_SERIES_DROPPED_TOTAL ? dropped : s ? s->value : 0;
    pthread_mutex_unlock(&lock);
    return v;
}

static void remove_key(enum sl_metric m, const char *key) {
    struct series *s = sl_map_del(&all[m], key);
    if (s) {
        series_free(s);
        total--;
    }
}

void sl_metric_del(enum sl_metric m, const char *const *labels) {
    SL_AUTO_BUF key = SL_BUF_INIT(8192);
    make_key(&rows[m], labels, &key);
    pthread_mutex_lock(&lock);
    remove_key(m, sl_buf_text(&key));
    pthread_mutex_unlock(&lock);
}

static int label_position(const struct row *r, const char *label) {
    const char *p = r->labels;
    for (int i = 0; *p; i++) {
        size_t n = strcspn(p, ",");
        if (strlen(label) == n && !strncmp(p, label, n))
            return i;
        p += n + (p[n] == ',');
    }
    return -1;
}

static bool value_at(const char *key, int position, const char *value) {
    for (; position > 0; position--)
        key = strchr(key, 0x1f) + 1;
    size_t n = strcspn(key, "\x1f");
    return strlen(value) == n && !strncmp(key, value, n);
}

/* Under the lock. */
static void drop_series(enum sl_metric m, const char *label, const char *value, const char *label2,
                        const char *value2) {
    int a = label_position(&rows[m], label), b = label2 ? label_position(&rows[m], label2) : -1;
    if (a < 0 || (label2 && b < 0))
        return;
    SL_MAP_EACH (&all[m], e) {
        if (value_at(e->key, a, value) && (!label2 || value_at(e->key, b, value2))) {
            SL_AUTO_FREE char *key = sl_xstrdup(e->key);
            remove_key(m, key);
        }
    }
}

void sl_metric_drop(const char *label, const char *value, const char *label2, const char *value2) {
    pthread_mutex_lock(&lock);
    for (size_t m = 0; m < SL_M__COUNT; m++)
        drop_series((enum sl_metric)m, label, value, label2, value2);
    pthread_mutex_unlock(&lock);
}

void sl_metric_drop_one(enum sl_metric m, const char *label, const char *value) {
    pthread_mutex_lock(&lock);
    drop_series(m, label, value, NULL, NULL);
    pthread_mutex_unlock(&lock);
}

void sl_metric_drop_pair(enum sl_metric m, const char *label, const char *value, const char *label2,
                         const char *value2) {
    pthread_mutex_lock(&lock);
    drop_series(m, label, value, label2, value2);
    pthread_mutex_unlock(&lock);
}

void sl_metric_clear_gauges(const char *label) {
    for (size_t m = 0; m < SL_M__COUNT; m++)
        if (rows[m].type == GAUGE && label_position(&rows[m], label) >= 0)
            sl_metric_clear((enum sl_metric)m);
}

void sl_metric_clear(enum sl_metric m) {
    pthread_mutex_lock(&lock);
    total -= all[m].count;
    sl_map_clear(&all[m], series_free);
    pthread_mutex_unlock(&lock);
}

void sl_metrics_reset(void) {
    for (size_t m = 0; m < SL_M__COUNT; m++)
        sl_metric_clear((enum sl_metric)m);
    pthread_mutex_lock(&lock);
    dropped = 0;
    pthread_mutex_unlock(&lock);
}

static void put_escaped(const char *value, size_t len, struct sl_buf *out) {
    for (size_t i = 0; i < len;) {
        size_t n = sl_utf8_at(value + i, len - i);
        if (!n)
            sl_buf_putc(out, '?'); /* one bad byte, and Prometheus refuses the page */
        else if (value[i] == '\n')
            sl_buf_puts(out, "\\n");
        else if (value[i] == '\\' || value[i] == '"')
            sl_buf_printf(out, "\\%c", value[i]);
        else
            sl_buf_add(out, value + i, n);
        i += n ? n : 1;
    }
}

static void put_labels(const struct row *r, const char *key, const char *le, struct sl_buf *out) {
    const char *name = r->labels;
    bool any = false;
    while (*name) {
        size_t n = strcspn(name, ","), k = strcspn(key, "\x1f");
        sl_buf_printf(out, "%s%.*s=\"", any ? "," : "{", (int)n, name);
        put_escaped(key, k, out);
        sl_buf_putc(out, '"');
        any = true;
        key += k + 1;
        name += n + (name[n] == ',');
    }
    if (le) {
        sl_buf_printf(out, "%sle=\"%s\"", any ? "," : "{", le);
        any = true;
    }
    if (any)
        sl_buf_putc(out, '}');
}

static const char *number(double v, char *text, size_t size) {
    if (isnan(v))
        return "NaN";
    if (isinf(v))
        return v > 0 ? "+Inf" : "-Inf";
    if (v == floor(v) && fabs(v) < 9e15)
        snprintf(text, size, "%.0f", v);
    else
        snprintf(text, size, "%.15g", v);
    return text;
}

static void put_series(const struct row *r, const char *key, const struct series *s, struct sl_buf *out) {
    char text[40];
    if (r->type != HISTOGRAM) {
        sl_buf_puts(out, r->name);
        put_labels(r, key, NULL, out);
        sl_buf_printf(out, " %s\n", number(s->value, text, sizeof text));
        return;
    }
    uint64_t sum = 0;
    for (size_t i = 0;; i++) {
        sum += s->counts[i];
        sl_buf_printf(out, "%s_bucket", r->name);
        put_labels(r, key, number(r->bounds[i], text, sizeof text), out);
        sl_buf_printf(out, " %llu\n", (unsigned long long)sum);
        if (isinf(r->bounds[i]))
            break;
    }
    sl_buf_printf(out, "%s_sum", r->name);
    put_labels(r, key, NULL, out);
    sl_buf_printf(out, " %s\n%s_count", number(s->sum, text, sizeof text), r->name);
    put_labels(r, key, NULL, out);
    sl_buf_printf(out, " %s\n", number(s->value, text, sizeof text));
}

void sl_metrics_expose(struct sl_buf *out) {
    static const char *const types[] = {"counter", "gauge", "histogram"};
    pthread_mutex_lock(&lock);
    find(SL_M_SLUICE_METRIC_SERIES_DROPPED_TOTAL, SL_LABELS(), true)->value = dropped;
    for (size_t m = 0; m < SL_M__COUNT; m++) {
        if (!all[m].count)
            continue;
        sl_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", rows[m].name, rows[m].help, rows[m].name,
                      types[rows[m].type]);
        SL_AUTO_FREE const char **keys = sl_map_sorted_keys(&all[m]);
        for (size_t i = 0; i < all[m].count; i++)
            put_series(&rows[m], keys[i], sl_map_get(&all[m], keys[i]), out);
    }
    pthread_mutex_unlock(&lock);
}
