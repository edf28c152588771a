/*
 * Queries of the history and of GPU time. The history is in order of time and has no other index: a query reads the
 * entries of its time range (at most as many as are kept) and picks those that match, since questions are rare and
 * writes are not.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/base/map.h"
#include "sluice/base/mem.h"
#include "sluice/base/num.h"

#define DEFAULT_LIMIT 100
#define MAX_LIMIT     100000

static bool is(const char *wanted, const char *have) {
    return !wanted || !*wanted || !strcmp(wanted, have);
}

static bool matches(const struct sl_ledger_query *q, const struct sl_ledger_entry *e) {
    const struct sl_ledger_reservation *r = &e->r;
    if (!is(q->cluster_queue, r->cluster_queue) || !is(q->namespace, r->namespace) ||
        !is(q->local_queue, r->local_queue) || !is(q->name, r->name) || !is(q->uid, r->uid))
        return false;
    if ((!q->flavor || !*q->flavor) && (!q->resource || !*q->resource))
        return true;
    for (size_t i = 0; i < r->amount_count; i++)
        if (is(q->flavor, r->amounts[i].flavor) && is(q->resource, r->amounts[i].resource))
            return true;
    return false;
}

int sl_ledger_history(struct sl_ledger *l, const struct sl_ledger_query *q,
                      bool (*fn)(void *payload, const struct sl_ledger_entry *e), void *payload, bool *ret_more,
                      struct sl_err *err) {
    int64_t from = q->from_ms > 0 ? q->from_ms : 0, to = q->to_ms > 0 ? q->to_ms : INT64_MAX;
    size_t limit = q->limit ? q->limit : DEFAULT_LIMIT, given = 0;
    if (limit > MAX_LIMIT)
        limit = MAX_LIMIT;
    SL_AUTO_BATCH b = SL_LEDGER_BATCH_INIT;
    b.descending = q->newest_first;
    b.has_start = true;
    b.start_len = 16;
    sl_be64_put(b.start, (uint64_t)(b.descending ? to : from));
    memset(b.start + 8, b.descending ? 0xff : 0, 8);
    bool more = false;
    for (bool end = false; !end;) {
        int rc = sl_ledger_batch_next(l, SL_DB_HISTORY, &b, err);
        if (rc)
            return rc;
        end = b.count == 0;
        for (size_t i = 0; i < b.count && !end; i++) {
            SL_AUTO_RECORD rec = {.value = 0};
            if (!sl_ledger_batch_decode(l, &b, i, SL_RECORD_HISTORY, &rec))
                continue;
            if (b.descending ? rec.entry.at_ms < from : rec.entry.at_ms > to)
                end = true;
            else if (!matches(q, &rec.entry))
                continue;
            else if (given == limit)
                more = end = true;
            else if (given++, !fn(payload, &rec.entry))
                end = true;
        }
    }
    if (ret_more)
        *ret_more = more;
    return 0;
}

/* ---- GPU time: sums by queue, flavor and resource ---- */

struct sum {
    char *queue, *flavor, *resource;
    int64_t returned_ms, running_ms;
};
struct sums {
    struct sl_map map;
    int64_t now_ms;
};

static void sum_free(void *p) {
    struct sum *s = p;
    if (!s)
        return;
    free(s->queue);
    free(s->flavor);
    free(s->resource);
    free(s);
}

/* Names have no control characters, so joining them with 0x01 keeps their order and is unambiguous. */
static struct sum *sum_of(struct sums *sums, const char *queue, const struct sl_ledger_amount *a) {
    SL_AUTO_FREE char *key = sl_xprintf("%s\x01%s\x01%s", queue, a->flavor, a->resource);
    struct sum *s = sl_map_get(&sums->map, key);
    if (!s) {
        s = sl_xalloc(sizeof *s);
        *s = (struct sum){sl_xstrdup(queue), sl_xstrdup(a->flavor), sl_xstrdup(a->resource), 0, 0};
        sl_map_set(&sums->map, key, s);
    }
    return s;
}

static bool add_running(void *payload, const struct sl_ledger_reservation *r) {
    struct sums *sums = payload;
    int64_t held_ms = sl_sat_sub(sums->now_ms, r->since_ms);
    for (size_t i = 0; i < r->amount_count; i++) {
        const struct sl_ledger_amount *a = &r->amounts[i];
        if (!a->gpu || held_ms <= 0)
            continue;
        struct sum *s = sum_of(sums, r->cluster_queue, a);
        s->running_ms = sl_sat_add(s->running_ms, sl_sat_mul(a->amount, held_ms));
    }
    return true;
}

static int add_returned(struct sl_ledger *l, struct sums *sums, struct sl_err *err) {
    SL_AUTO_BATCH b = SL_LEDGER_BATCH_INIT;
    for (;;) {
        int rc = sl_ledger_batch_next(l, SL_DB_USAGE, &b, err);
        if (rc || !b.count)
            return rc;
        for (size_t i = 0; i < b.count; i++) {
            SL_AUTO_RECORD rec = {.value = 0};
            if (!sl_ledger_batch_decode(l, &b, i, SL_RECORD_USAGE, &rec))
                continue;
            struct sum *s = sum_of(sums, rec.entry.r.cluster_queue, &rec.amounts[0]);
            s->returned_ms = sl_sat_add(s->returned_ms, rec.value);
        }
    }
}

int sl_ledger_gpu_seconds(struct sl_ledger *l, int64_t now_ms, void (*fn)(void *payload, const struct sl_ledger_gpu *g),
                          void *payload, struct sl_err *err) {
    struct sums sums = {SL_MAP_INIT, now_ms};
    int rc = add_returned(l, &sums, err);
    if (!rc)
        rc = sl_ledger_load(l, add_running, &sums, err);
    if (!rc) {
        SL_AUTO_FREE const char **keys = sl_map_sorted_keys(&sums.map);
        for (size_t i = 0; i < sums.map.count; i++) {
            const struct sum *s = sl_map_get(&sums.map, keys[i]);
            struct sl_ledger_gpu g = {s->queue, s->flavor, s->resource, s->returned_ms / 1000, s->running_ms / 1000};
            fn(payload, &g);
        }
    }
    sl_map_done(&sums.map, sum_free);
    return rc;
}
