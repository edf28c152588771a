/* The ledger as its users see it: passes, reopening, history, GPU time, reconciliation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "ledger_support.h"

#include "sluice/base/buf.h"
#include "sluice/base/mem.h"
#include "sluice/base/metrics.h"

#define T0 1700000000000ll

static struct sl_ledger_reservation workload(const char *uid, const char *queue, const struct sl_ledger_amount *amounts,
                                             size_t n) {
    return (struct sl_ledger_reservation){.uid = uid,
                                          .namespace = "team-a",
                                          .name = uid,
                                          .job_kind = "Job",
                                          .job_name = "train",
                                          .cluster_queue = queue,
                                          .local_queue = "gpu",
                                          .why = "fits",
                                          .amounts = amounts,
                                          .amount_count = n};
}
static const struct sl_ledger_amount four_gpus[] = {{"h100", "nvidia.com/gpu", 4, true}, {"h100", "cpu", 8000, false}};

static void take(struct sl_ledger *l, int64_t now, const char *uid, const char *queue) {
    struct sl_ledger_reservation r = workload(uid, queue, four_gpus, 2);
    sl_ledger_begin(l, now);
    sl_ledger_reserve(l, &r);
    assert_int_equal(sl_ledger_commit(l, NULL), 0);
}
static void give(struct sl_ledger *l, int64_t now, const char *uid, const char *why) {
    sl_ledger_begin(l, now);
    sl_ledger_release(l, uid, why);
    assert_int_equal(sl_ledger_commit(l, NULL), 0);
}

/* Everything held, as lines: uid queue outcome since amounts */
static bool print_held(void *payload, const struct sl_ledger_reservation *r) {
    sl_buf_printf(payload, "%s %s/%s %s/%s %s %d %lld", r->uid, r->namespace, r->name, r->cluster_queue, r->local_queue,
                  r->why, (int)r->outcome, (long long)(r->since_ms - T0));
    for (size_t i = 0; i < r->amount_count; i++)
        sl_buf_printf(payload, " %s:%s=%lld", r->amounts[i].flavor, r->amounts[i].resource,
                      (long long)r->amounts[i].amount);
    sl_buf_putc(payload, '\n');
    return true;
}
static void expect_held(struct sl_ledger *l, const char *text) {
    SL_AUTO_BUF b = SL_BUF_INIT(1 << 20);
    assert_int_equal(sl_ledger_load(l, print_held, &b, NULL), 0);
    assert_string_equal(sl_buf_text(&b), text);
}
static bool print_entry(void *payload, const struct sl_ledger_entry *e) {
    sl_buf_printf(payload, "%lld %s %s %s %lld\n", (long long)(e->at_ms - T0), e->took ? "took" : "returned", e->r.uid,
                  e->r.why, (long long)e->held_ms);
    return true;
}
static void expect_history(struct sl_ledger *l, const struct sl_ledger_query *q, const char *text, bool more) {
    SL_AUTO_BUF b = SL_BUF_INIT(1 << 20);
    bool got = !more;
    assert_int_equal(sl_ledger_history(l, q, print_entry, &b, &got, NULL), 0);
    assert_string_equal(sl_buf_text(&b), text);
    assert_int_equal(got, more);
}
static void print_gpu(void *payload, const struct sl_ledger_gpu *g) {
    sl_buf_printf(payload, "%s %s %s %lld+%lld\n", g->cluster_queue, g->flavor, g->resource,
                  (long long)g->returned_seconds, (long long)g->running_seconds);
}
static void expect_gpu(struct sl_ledger *l, int64_t now, const char *text) {
    SL_AUTO_BUF b = SL_BUF_INIT(1 << 20);
    assert_int_equal(sl_ledger_gpu_seconds(l, now, print_gpu, &b, NULL), 0);
    assert_string_equal(sl_buf_text(&b), text);
}

static double commits(void) {
    return sl_metric_get(SL_M_SLUICE_LEDGER_COMMITS_TOTAL, SL_LABELS());
}

static void pass__survives_reopen(void **state) {
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    assert_int_equal(sl_ledger_state(l), SL_LEDGER_UP);
    struct sl_ledger_reservation a = workload("uid-a", "research", four_gpus, 2),
                                 b = workload("uid-b", "research", four_gpus, 1);
    sl_ledger_begin(l, T0 + 5);
    sl_ledger_reserve(l, &b);
    sl_ledger_reserve(l, &a);
    sl_ledger_requeue_timer(l, "uid-c", T0 + 60000);
    assert_int_equal(sl_ledger_commit(l, NULL), 0);
    sl_ledger_begin(l, T0 + 6);
    sl_ledger_outcome(l, "uid-a", SL_LEDGER_WRITTEN);
    sl_ledger_outcome(l, "uid-b", SL_LEDGER_UNKNOWN);
    assert_int_equal(sl_ledger_commit(l, NULL), 0);
    sl_ledger_close(l);
    l = sl_ledger_open(*state, NULL, T0 + 10);
    expect_held(l, "uid-a team-a/uid-a research/gpu fits 1 5 h100:cpu=8000 h100:nvidia.com/gpu=4\n"
                   "uid-b team-a/uid-b research/gpu fits 3 5 h100:nvidia.com/gpu=4\n");
    give(l, T0 + 11, "uid-a", "finished");
    expect_held(l, "uid-b team-a/uid-b research/gpu fits 3 5 h100:nvidia.com/gpu=4\n");
    sl_ledger_close(l);
}

static void pass__uncommitted_is_forgotten(void **state) {
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    struct sl_ledger_reservation a = workload("uid-a", "q", four_gpus, 2);
    sl_ledger_begin(l, T0);
    sl_ledger_reserve(l, &a);
    sl_ledger_begin(l, T0 + 1);
    assert_int_equal(sl_ledger_commit(l, NULL), 0);
    expect_held(l, "");
    sl_ledger_begin(l, T0 + 2);
    sl_ledger_reserve(l, &a);
    sl_ledger_close(l);
    l = sl_ledger_open(*state, NULL, T0);
    expect_held(l, "");
    sl_ledger_close(l);
}

static void pass__only_changes_are_written(void **state) {
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    take(l, T0, "uid-a", "q");
    double before = commits();
    sl_ledger_begin(l, T0 + 1);
    assert_int_equal(sl_ledger_commit(l, NULL), 0);
    take(l, T0 + 2, "uid-a", "q"); /* holds the same already */
    give(l, T0 + 3, "unknown", "x");
    sl_ledger_begin(l, T0 + 4);
    sl_ledger_outcome(l, "unknown", SL_LEDGER_WRITTEN);
    sl_ledger_outcome(l, "uid-a", SL_LEDGER_PENDING);
    sl_ledger_requeue_timer(l, "unknown", 0);
    assert_int_equal(sl_ledger_commit(l, NULL), 0);
    assert_true(commits() == before);
    sl_ledger_begin(l, T0 + 5);
    sl_ledger_outcome(l, "uid-a", SL_LEDGER_WRITTEN);
    assert_int_equal(sl_ledger_commit(l, NULL), 0);
    assert_true(commits() == before + 1);
    expect_history(l, &(struct sl_ledger_query){0}, "0 took uid-a fits 0\n", false);
    sl_ledger_close(l);
}

static void pass__other_amounts_return_the_old_first(void **state) {
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    take(l, T0, "uid-a", "q");
    struct sl_ledger_reservation less = workload("uid-a", "q", four_gpus, 1);
    less.why = "reclaimed pods";
    sl_ledger_begin(l, T0 + 2000);
    sl_ledger_reserve(l, &less);
    assert_int_equal(sl_ledger_commit(l, NULL), 0);
    expect_held(l, "uid-a team-a/uid-a q/gpu reclaimed pods 0 2000 h100:nvidia.com/gpu=4\n");
    expect_history(l, &(struct sl_ledger_query){0},
                   "0 took uid-a fits 0\n2000 returned uid-a reclaimed pods 2000\n2000 took uid-a reclaimed pods 0\n",
                   false);
    expect_gpu(l, T0 + 3000, "q h100 nvidia.com/gpu 8+4\n");
    sl_ledger_close(l);
}

static void pass__take_and_release_in_one(void **state) {
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    struct sl_ledger_reservation a = workload("uid-a", "q", four_gpus, 2);
    sl_ledger_begin(l, T0);
    sl_ledger_reserve(l, &a);
    sl_ledger_release(l, "uid-a", "preempted");
    assert_int_equal(sl_ledger_commit(l, NULL), 0);
    expect_held(l, "");
    expect_history(l, &(struct sl_ledger_query){0}, "0 took uid-a fits 0\n0 returned uid-a preempted 0\n", false);
    sl_ledger_close(l);
}

static void pass__amounts_are_canonical(void **state) {
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    const struct sl_ledger_amount mixed[] = {
        {"b", "cpu", 1, false}, {"a", "cpu", 2, false}, {"b", "cpu", 5, false}, {"a", "memory", 0, false}};
    struct sl_ledger_reservation r = workload("uid", "q", mixed, 4);
    sl_ledger_begin(l, T0);
    sl_ledger_reserve(l, &r);
    assert_int_equal(sl_ledger_commit(l, NULL), 0);
    expect_held(l, "uid team-a/uid q/gpu fits 0 0 a:cpu=2 b:cpu=6\n");
    sl_ledger_close(l);
}

static void pass__refused_call_is_named_and_the_rest_is_kept(void **state) {
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    const struct sl_ledger_amount negative[] = {{"a", "cpu", -1, false}};
    struct sl_ledger_reservation bad = workload("uid-bad", "q", negative, 1),
                                 good = workload("uid-good", "q", four_gpus, 1);
    struct sl_err err = SL_ERR_INIT;
    sl_ledger_begin(l, T0);
    sl_ledger_reserve(l, &bad);
    sl_ledger_reserve(l, &good);
    assert_int_equal(sl_ledger_commit(l, &err), SL_INVALID);
    assert_non_null(strstr(err.text, "amount of cpu is negative"));
    expect_held(l, "uid-good team-a/uid-good q/gpu fits 0 0 h100:nvidia.com/gpu=4\n");
    static const struct {
        const char *uid, *queue, *text;
    } cases[] = {{"", "q", "uid is empty"}, {"u", "", "clusterQueue is empty"}};
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        struct sl_ledger_reservation r = workload(cases[i].uid, cases[i].queue, four_gpus, 1);
        sl_ledger_begin(l, T0);
        sl_ledger_reserve(l, &r);
        assert_int_equal(sl_ledger_commit(l, &err), SL_INVALID);
        assert_non_null(strstr(err.text, cases[i].text));
    }
    char *text = sl_xalloc(4000);
    memset(text, 'u', 3000);
    sl_ledger_begin(l, T0);
    sl_ledger_release(l, text, "x");
    assert_int_equal(sl_ledger_commit(l, &err), SL_INVALID);
    struct sl_ledger_reservation r = workload("uid-good", "q", four_gpus, 1);
    r.local_queue = text;
    sl_ledger_begin(l, T0);
    sl_ledger_reserve(l, &r);
    assert_int_equal(sl_ledger_commit(l, &err), SL_INVALID);
    assert_non_null(strstr(err.text, "localQueue has 3000 bytes"));
    sl_ledger_begin(l, T0); /* the refusal is not remembered */
    assert_int_equal(sl_ledger_commit(l, &err), 0);
    give(l, T0 + 1, "uid-good", text); /* a long reason is cut */
    SL_AUTO_BUF b = SL_BUF_INIT(1 << 20);
    assert_int_equal(
        sl_ledger_history(l, &(struct sl_ledger_query){.newest_first = true, .limit = 1}, print_entry, &b, NULL, NULL),
        0);
    assert_int_equal(strspn(strrchr(sl_buf_text(&b), 'u') - 1023, "u"), 1024);
    free(text);
    sl_ledger_close(l);
}

static void pass__large_record(void **state) {
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    struct sl_ledger_amount *many = sl_xalloc((SL_LEDGER_MAX_AMOUNTS + 1) * sizeof *many);
    char names[SL_LEDGER_MAX_AMOUNTS + 1][260];
    for (size_t i = 0; i <= SL_LEDGER_MAX_AMOUNTS; i++) {
        snprintf(names[i], sizeof names[i], "flavor-%0250zu", i);
        many[i] = (struct sl_ledger_amount){names[i], "nvidia.com/gpu", 1, true};
    }
    struct sl_ledger_reservation r = workload("uid", "q", many, SL_LEDGER_MAX_AMOUNTS);
    sl_ledger_begin(l, T0);
    sl_ledger_reserve(l, &r);
    assert_int_equal(sl_ledger_commit(l, NULL), 0);
    r.amount_count++;
    sl_ledger_begin(l, T0);
    sl_ledger_reserve(l, &r);
    assert_int_equal(sl_ledger_commit(l, NULL), SL_INVALID);
    sl_ledger_close(l);
    l = sl_ledger_open(*state, NULL, T0 + 1);
    assert_int_equal(sl_ledger_state(l), SL_LEDGER_UP);
    give(l, T0 + 2000, "uid", "finished");
    struct counted n = {0};
    assert_int_equal(sl_ledger_gpu_seconds(l, T0, count_gpu, &n, NULL), 0);
    assert_int_equal(n.n, SL_LEDGER_MAX_AMOUNTS);
    sl_ledger_close(l);
    free(many);
}

static bool print_timer(void *payload, const char *uid, int64_t at_ms) {
    sl_buf_printf(payload, "%s %lld\n", uid, (long long)(at_ms - T0));
    return true;
}
static void timer__set_changed_removed(void **state) {
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    sl_ledger_begin(l, T0);
    sl_ledger_requeue_timer(l, "b", T0 + 20);
    sl_ledger_requeue_timer(l, "a", T0 + 10);
    sl_ledger_requeue_timer(l, "c", T0 + 30);
    assert_int_equal(sl_ledger_commit(l, NULL), 0);
    sl_ledger_begin(l, T0 + 1);
    sl_ledger_requeue_timer(l, "b", 0);
    sl_ledger_requeue_timer(l, "a", T0 + 11);
    assert_int_equal(sl_ledger_commit(l, NULL), 0);
    SL_AUTO_BUF b = SL_BUF_INIT(4096);
    assert_int_equal(sl_ledger_load_timers(l, print_timer, &b, NULL), 0);
    assert_string_equal(sl_buf_text(&b), "a 11\nc 30\n");
    sl_ledger_close(l);
}

static bool stop_at_two(void *payload, const struct sl_ledger_reservation *r) {
    (void)r;
    return ++*(int *)payload < 2;
}
static void load__stops_and_crosses_batches(void **state) {
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    sl_ledger_begin(l, T0);
    for (int i = 0; i < 1000; i++) {
        char uid[32];
        snprintf(uid, sizeof uid, "uid-%05d", i);
        struct sl_ledger_reservation r = workload(uid, "q", four_gpus, 1);
        sl_ledger_reserve(l, &r);
    }
    assert_int_equal(sl_ledger_commit(l, NULL), 0);
    struct counted n = {0};
    assert_int_equal(sl_ledger_load(l, count_held, &n, NULL), 0);
    assert_int_equal(n.n, 1000);
    int seen = 0;
    assert_int_equal(sl_ledger_load(l, stop_at_two, &seen, NULL), 0);
    assert_int_equal(seen, 2);
    sl_ledger_close(l);
}

struct releasing {
    struct sl_ledger *l;
    size_t n;
};
static bool release_it(void *payload, const struct sl_ledger_reservation *r) {
    struct releasing *p = payload;
    give(p->l, T0 + 5, r->uid, "cleared");
    p->n++;
    return true;
}
static void load__callback_may_commit(void **state) {
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    sl_ledger_begin(l, T0);
    for (int i = 0; i < 300; i++) {
        char uid[32];
        snprintf(uid, sizeof uid, "uid-%05d", i);
        struct sl_ledger_reservation r = workload(uid, "q", four_gpus, 1);
        sl_ledger_reserve(l, &r);
    }
    assert_int_equal(sl_ledger_commit(l, NULL), 0);
    struct releasing p = {l, 0};
    assert_int_equal(sl_ledger_load(l, release_it, &p, NULL), 0);
    assert_int_equal(p.n, 300);
    expect_held(l, "");
    sl_ledger_close(l);
}

static void find_print(void *payload, const struct sl_ledger_reservation *r) {
    print_held(payload, r);
}
static void find__present_and_absent(void **state) {
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    take(l, T0, "uid-a", "q");
    SL_AUTO_BUF b = SL_BUF_INIT(4096);
    assert_int_equal(sl_ledger_find(l, "uid-a", find_print, &b, NULL), 0);
    assert_string_equal(sl_buf_text(&b), "uid-a team-a/uid-a q/gpu fits 0 0 h100:cpu=8000 h100:nvidia.com/gpu=4\n");
    assert_int_equal(sl_ledger_find(l, "uid-", find_print, &b, NULL), SL_NOT_FOUND);
    assert_int_equal(sl_ledger_find(l, "", find_print, &b, NULL), SL_NOT_FOUND);
    sl_ledger_close(l);
}

/* ---- History ---- */

static void history__queries(void **state) {
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    take(l, T0, "a", "red");
    take(l, T0 + 10, "b", "blue");
    give(l, T0 + 20, "a", "finished");
    take(l, T0 + 30, "c", "red");
    give(l, T0 + 40, "b", "preempted");
    expect_history(
        l, &(struct sl_ledger_query){0},
        "0 took a fits 0\n10 took b fits 0\n20 returned a finished 20\n30 took c fits 0\n40 returned b preempted 30\n",
        false);
    expect_history(l, &(struct sl_ledger_query){.newest_first = true, .limit = 2},
                   "40 returned b preempted 30\n30 took c fits 0\n", true);
    expect_history(l, &(struct sl_ledger_query){.limit = 5, .newest_first = true, .to_ms = T0 + 30},
                   "30 took c fits 0\n20 returned a finished 20\n10 took b fits 0\n0 took a fits 0\n", false);
    expect_history(l, &(struct sl_ledger_query){.from_ms = T0 + 10, .to_ms = T0 + 30},
                   "10 took b fits 0\n20 returned a finished 20\n30 took c fits 0\n", false);
    expect_history(l, &(struct sl_ledger_query){.from_ms = T0 + 30, .newest_first = true},
                   "40 returned b preempted 30\n30 took c fits 0\n", false);
    expect_history(l, &(struct sl_ledger_query){.cluster_queue = "red", .limit = 2},
                   "0 took a fits 0\n20 returned a finished 20\n", true);
    expect_history(l, &(struct sl_ledger_query){.uid = "b"}, "10 took b fits 0\n40 returned b preempted 30\n", false);
    expect_history(l, &(struct sl_ledger_query){.namespace = "team-a", .name = "c", .local_queue = "gpu"},
                   "30 took c fits 0\n", false);
    expect_history(l, &(struct sl_ledger_query){.namespace = "team-b"}, "", false);
    expect_history(l, &(struct sl_ledger_query){.flavor = "h100", .resource = "nvidia.com/gpu", .limit = 1},
                   "0 took a fits 0\n", true);
    expect_history(l, &(struct sl_ledger_query){.flavor = "h100", .resource = "memory"}, "", false);
    expect_history(l, &(struct sl_ledger_query){.from_ms = T0 + 41}, "", false);
    expect_history(l, &(struct sl_ledger_query){.to_ms = T0 - 1, .newest_first = true}, "", false);
    sl_ledger_close(l);
}

static void history__same_millisecond_keeps_order_across_reopen(void **state) {
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    take(l, T0, "b", "q");
    give(l, T0, "b", "1");
    sl_ledger_close(l);
    l = sl_ledger_open(*state, NULL, T0);
    take(l, T0, "a", "q");
    give(l, T0, "a", "2");
    expect_history(l, &(struct sl_ledger_query){0},
                   "0 took b fits 0\n0 returned b 1 0\n0 took a fits 0\n0 returned a 2 0\n", false);
    sl_ledger_close(l);
}

static void history__many_are_found_across_batches(void **state) {
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    sl_ledger_begin(l, T0);
    for (int i = 0; i < 2000; i++) {
        char uid[32];
        snprintf(uid, sizeof uid, "uid-%05d", i);
        struct sl_ledger_reservation r = workload(uid, i % 7 ? "q" : "seven", four_gpus, 1);
        sl_ledger_reserve(l, &r);
    }
    assert_int_equal(sl_ledger_commit(l, NULL), 0);
    struct counted n = {0};
    assert_int_equal(sl_ledger_history(l, &(struct sl_ledger_query){.cluster_queue = "seven", .limit = 5000},
                                       count_entries, &n, NULL, NULL),
                     0);
    assert_int_equal(n.n, 286);
    n.n = 0;
    assert_int_equal(sl_ledger_history(l, &(struct sl_ledger_query){.newest_first = true, .limit = 5000}, count_entries,
                                       &n, NULL, NULL),
                     0);
    assert_int_equal(n.n, 2000);
    sl_ledger_close(l);
}

static void history__pruned_by_age(void **state) {
    struct sl_ledger_options o = {.history_age_ms = 1000, .prune_per_commit = 2};
    struct sl_ledger *l = sl_ledger_open(*state, &o, T0);
    for (int i = 0; i < 6; i++) {
        char uid[8];
        snprintf(uid, sizeof uid, "%d", i);
        take(l, T0 + i, uid, "q");
    }
    take(l, T0 + 5000, "new", "q"); /* prunes the two oldest and no more */
    expect_history(l, &(struct sl_ledger_query){.limit = 2}, "2 took 2 fits 0\n3 took 3 fits 0\n", true);
    assert_false(sl_ledger_tick(l, T0 + 70000)); /* nothing else commits: the tick prunes */
    expect_history(l, &(struct sl_ledger_query){0}, "4 took 4 fits 0\n5 took 5 fits 0\n5000 took new fits 0\n", false);
    assert_false(sl_ledger_tick(l, T0 + 140000));
    assert_false(sl_ledger_tick(l, T0 + 210000));
    expect_history(l, &(struct sl_ledger_query){0}, "", false);
    struct counted n = {0};
    assert_int_equal(sl_ledger_load(l, count_held, &n, NULL), 0);
    assert_int_equal(n.n, 7); /* holdings are not history */
    double before = commits();
    assert_false(sl_ledger_tick(l, T0 + 280000));
    assert_true(commits() == before);
    sl_ledger_close(l);
}

static void history__pruned_by_number(void **state) {
    struct sl_ledger_options o = {.history_entries = 10, .prune_per_commit = 1};
    struct sl_ledger *l = sl_ledger_open(*state, &o, T0);
    for (int i = 0; i < 50; i++) {
        take(l, T0 + i * 10, "a", "q");
        give(l, T0 + i * 10 + 5, "a", "x");
    }
    struct counted n = {0};
    assert_int_equal(sl_ledger_history(l, &(struct sl_ledger_query){.limit = 1000}, count_entries, &n, NULL, NULL), 0);
    assert_in_range(n.n, 10, 11);
    expect_history(l, &(struct sl_ledger_query){.newest_first = true, .limit = 1}, "495 returned a x 5\n", true);
    sl_ledger_close(l);
}

/* ---- GPU time ---- */

static void gpu__returned_and_running(void **state) {
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    take(l, T0, "a", "red");
    take(l, T0, "b", "red");
    take(l, T0 + 1000, "c", "blue");
    give(l, T0 + 10000, "a", "finished"); /* 4 GPUs for 10 s */
    expect_gpu(l, T0 + 10000, "blue h100 nvidia.com/gpu 0+36\nred h100 nvidia.com/gpu 40+40\n");
    give(l, T0 + 10500, "b", "finished");
    give(l, T0 + 500, "c", "the clock was set back"); /* counts nothing, not less than nothing */
    sl_ledger_close(l);
    l = sl_ledger_open(*state, NULL, T0);
    expect_gpu(l, T0 + 20000, "red h100 nvidia.com/gpu 82+0\n");
    sl_ledger_close(l);
}

static void gpu__saturates(void **state) {
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    const struct sl_ledger_amount huge[] = {{"h100", "nvidia.com/gpu", INT64_MAX, true}};
    for (int i = 0; i < 2; i++) {
        struct sl_ledger_reservation r = workload("a", "q", huge, 1);
        sl_ledger_begin(l, T0 + i * 10000);
        sl_ledger_reserve(l, &r);
        assert_int_equal(sl_ledger_commit(l, NULL), 0);
        give(l, T0 + i * 10000 + 5000, "a", "x");
    }
    expect_gpu(l, T0, "q h100 nvidia.com/gpu 9223372036854775+0\n");
    sl_ledger_close(l);
}

static void gpu__names_longer_than_a_key(void **state) {
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    char queue[254], flavor_a[254], flavor_b[254];
    memset(queue, 'q', 253);
    memset(flavor_a, 'f', 253);
    memset(flavor_b, 'f', 253);
    queue[253] = flavor_a[253] = flavor_b[253] = 0;
    flavor_b[252] = 'g'; /* differ behind the place where keys are cut */
    const struct sl_ledger_amount long_names[] = {{flavor_a, "nvidia.com/gpu", 1, true},
                                                  {flavor_b, "nvidia.com/gpu", 2, true}};
    struct sl_ledger_reservation r = workload("a", queue, long_names, 2);
    sl_ledger_begin(l, T0);
    sl_ledger_reserve(l, &r);
    assert_int_equal(sl_ledger_commit(l, NULL), 0);
    give(l, T0 + 3000, "a", "x");
    SL_AUTO_BUF want = SL_BUF_INIT(4096);
    sl_buf_printf(&want, "%s %s nvidia.com/gpu 3+0\n%s %s nvidia.com/gpu 6+0\n", queue, flavor_a, queue, flavor_b);
    expect_gpu(l, T0 + 3000, sl_buf_text(&want));
    sl_ledger_close(l);
}

/* ---- Reconcile ---- */

struct cluster {
    struct sl_ledger_reservation *all;
    size_t n, at;
    struct sl_buf said;
};
static bool next(void *payload, struct sl_ledger_reservation *r) {
    struct cluster *c = payload;
    if (c->at == c->n)
        return false;
    *r = c->all[c->at++];
    return true;
}
static void reported(void *payload, enum sl_ledger_difference d, const struct sl_ledger_reservation *r) {
    static const char *const names[] = {"gone", "recovered", "differs"};
    struct cluster *c = payload;
    sl_buf_printf(&c->said, "%s %s\n", names[d], r->uid);
}

static void reconcile__cluster_wins(void **state) {
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    take(l, T0, "same", "q");
    take(l, T0, "less", "q");
    take(l, T0, "gone", "q");
    take(l, T0, "moved", "q");
    struct sl_ledger_reservation all[] = {workload("new", "q", four_gpus, 2), workload("less", "q", four_gpus, 1),
                                          workload("same", "q", four_gpus, 2),
                                          workload("moved", "other", four_gpus, 2)};
    all[0].since_ms = T0 - 5000;
    all[0].why = NULL;
    all[1].why = all[3].why = "";
    struct cluster c = {all, 4, 0, SL_BUF_INIT(4096)};
    struct sl_ledger_view view = {next, reported, &c};
    size_t differences = 0;
    assert_int_equal(sl_ledger_reconcile(l, T0 + 1000, &view, &differences, NULL), 0);
    assert_int_equal(differences, 4);
    assert_string_equal(sl_buf_text(&c.said), "recovered new\ndiffers less\ndiffers moved\ngone gone\n");
    expect_held(l, "less team-a/less q/gpu differs 1 1000 h100:nvidia.com/gpu=4\n"
                   "moved team-a/moved other/gpu differs 1 1000 h100:cpu=8000 h100:nvidia.com/gpu=4\n"
                   "new team-a/new q/gpu recovered 1 -5000 h100:cpu=8000 h100:nvidia.com/gpu=4\n"
                   "same team-a/same q/gpu fits 1 0 h100:cpu=8000 h100:nvidia.com/gpu=4\n");
    expect_history(l, &(struct sl_ledger_query){.uid = "gone"}, "0 took gone fits 0\n1000 returned gone gone 1000\n",
                   false);
    double before = commits();
    c.at = 0;
    sl_buf_clear(&c.said);
    assert_int_equal(sl_ledger_reconcile(l, T0 + 2000, &view, &differences, NULL), 0); /* the second time agrees */
    assert_int_equal(differences, 0);
    assert_true(commits() == before);
    sl_buf_done(&c.said);
    sl_ledger_close(l);
}

static void reconcile__twice_in_the_view_counts_once(void **state) {
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    struct sl_ledger_reservation all[] = {workload("a", "q", four_gpus, 2), workload("a", "q", four_gpus, 1)};
    struct cluster c = {all, 2, 0, SL_BUF_INIT(4096)};
    struct sl_ledger_view view = {next, NULL, &c};
    size_t differences = 0;
    assert_int_equal(sl_ledger_reconcile(l, T0, &view, &differences, NULL), 0);
    assert_int_equal(differences, 1);
    expect_held(l, "a team-a/a q/gpu fits 1 0 h100:cpu=8000 h100:nvidia.com/gpu=4\n");
    sl_ledger_close(l);
}

static void reconcile__many(void **state) {
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    enum { N = 3000 };
    static char uids[N][16];
    struct sl_ledger_reservation *all = sl_xalloc(N * sizeof *all);
    for (int i = 0; i < N; i++) {
        snprintf(uids[i], sizeof uids[i], "u%d", i);
        all[i] = workload(uids[i], "q", four_gpus, 2);
    }
    struct cluster c = {all, N, 0, SL_BUF_INIT(4096)};
    struct sl_ledger_view view = {next, NULL, &c};
    size_t differences = 0;
    assert_int_equal(sl_ledger_reconcile(l, T0, &view, &differences, NULL), 0);
    assert_int_equal(differences, N);
    c.at = N / 2; /* the first half ended meanwhile */
    assert_int_equal(sl_ledger_reconcile(l, T0 + 1, &view, &differences, NULL), 0);
    assert_int_equal(differences, N / 2);
    struct counted n = {0};
    assert_int_equal(sl_ledger_load(l, count_held, &n, NULL), 0);
    assert_int_equal(n.n, N - N / 2);
    free(all);
    sl_ledger_close(l);
}

/* Random passes against a model, with reopening in between. */
static void pass__agrees_with_a_model(void **state) {
    enum { WORKLOADS = 40 };
    int64_t held[WORKLOADS] = {0}, since[WORKLOADS] = {0}, gpu_ms = 0, now = T0;
    srandom(7);
    struct sl_ledger *l = sl_ledger_open(*state, NULL, now);
    for (int pass = 0; pass < 300; pass++) {
        sl_ledger_begin(l, now += random() % 5000);
        for (int i = (int)(random() % 8); i > 0; i--) {
            int w = (int)(random() % WORKLOADS);
            char uid[16];
            snprintf(uid, sizeof uid, "w%02d", w);
            int64_t amount = random() % 3 ? 1 + random() % 8 : 0;
            if (amount) {
                struct sl_ledger_amount a = {"f", "nvidia.com/gpu", amount, true};
                struct sl_ledger_reservation r = workload(uid, "q", &a, 1);
                sl_ledger_reserve(l, &r);
            } else {
                sl_ledger_release(l, uid, "x");
            }
            if (held[w] != amount) {
                gpu_ms += held[w] * (now - since[w]);
                held[w] = amount;
                since[w] = now;
            }
        }
        assert_int_equal(sl_ledger_commit(l, NULL), 0);
        if (random() % 20 == 0) {
            sl_ledger_close(l);
            l = sl_ledger_open(*state, NULL, now);
            assert_int_equal(sl_ledger_state(l), SL_LEDGER_UP);
        }
        SL_AUTO_BUF want = SL_BUF_INIT(1 << 16);
        for (int w = 0; w < WORKLOADS; w++)
            if (held[w])
                sl_buf_printf(&want, "w%02d team-a/w%02d q/gpu fits 0 %lld f:nvidia.com/gpu=%lld\n", w, w,
                              (long long)(since[w] - T0), (long long)held[w]);
        expect_held(l, sl_buf_text(&want));
    }
    struct counted n = {0};
    assert_int_equal(sl_ledger_gpu_seconds(l, 0, count_gpu, &n, NULL), 0);
    assert_int_equal(n.seconds, gpu_ms / 1000);
    sl_ledger_close(l);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, drop_dir)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(pass__survives_reopen),
        TEST(pass__uncommitted_is_forgotten),
        TEST(pass__only_changes_are_written),
        TEST(pass__other_amounts_return_the_old_first),
        TEST(pass__take_and_release_in_one),
        TEST(pass__amounts_are_canonical),
        TEST(pass__refused_call_is_named_and_the_rest_is_kept),
        TEST(pass__large_record),
        TEST(timer__set_changed_removed),
        TEST(load__stops_and_crosses_batches),
        TEST(load__callback_may_commit),
        TEST(find__present_and_absent),
        TEST(history__queries),
        TEST(history__same_millisecond_keeps_order_across_reopen),
        TEST(history__many_are_found_across_batches),
        TEST(history__pruned_by_age),
        TEST(history__pruned_by_number),
        TEST(gpu__returned_and_running),
        TEST(gpu__saturates),
        TEST(gpu__names_longer_than_a_key),
        TEST(reconcile__cluster_wins),
        TEST(reconcile__twice_in_the_view_counts_once),
        TEST(reconcile__many),
        TEST(pass__agrees_with_a_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
