/*
 * What a decision costs: workloads of a few shapes in many ClusterQueues, admitted, finished and followed by the next
 * ones. Prints CPU per admission (events included: created, seen admitted, finished, deleted) and memory per waiting
 * workload, and how both grow. The floor, measured beside each row: the same objects only kept by UID, replaced once
 * and dropped, nothing decided. bench_engine [workloads [queues [fair]]]; without arguments the table.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sluice/api/types.h"
#include "sluice/base/map.h"
#include "sluice/base/mem.h"
#include "sluice/quota/engine/engine.h"

static double cpu_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static struct sl_flavor *flavor(const char *name) {
    struct sl_flavor *f = sl_xalloc(sizeof *f);
    f->name = sl_xstrdup(name);
    f->uid = sl_xstrdup(name);
    f->topology = NULL;
    return f;
}

static struct sl_clusterqueue *queue(size_t i, size_t per_cohort) {
    struct sl_clusterqueue *q = sl_xalloc(sizeof *q);
    q->name = sl_xprintf("queue-%zu", i);
    q->uid = sl_xprintf("queue-uid-%zu", i);
    q->cohort = sl_xprintf("cohort-%zu", i / per_cohort);
    q->weight = 1;
    q->has_namespace_selector = true;
    q->reclaim_within_cohort = SL_PREEMPT_ANY;
    q->within_cluster_queue = SL_PREEMPT_LOWER_PRIORITY;
    q->when_can_preempt = SL_TRY_NEXT_FLAVOR;
    q->n_groups = 1;
    q->groups = sl_xalloc(sizeof *q->groups);
    q->groups->n_covered = 1;
    q->groups->covered = sl_xalloc(sizeof(char *));
    q->groups->covered[0] = sl_xstrdup("cpu");
    q->groups->n_flavors = 1;
    q->groups->flavors = sl_xalloc(sizeof *q->groups->flavors);
    q->groups->flavors->flavor = sl_xstrdup("default");
    q->groups->flavors->n = 1;
    q->groups->flavors->quotas = sl_xalloc(sizeof(struct sl_quota));
    q->groups->flavors->quotas[0] = (struct sl_quota){sl_xstrdup("cpu"), 20000, true, false, 100000, 0};
    return q;
}

static struct sl_workload *workload(size_t i, size_t queues) {
    static const struct {
        int64_t cpu, priority;
    } kinds[] = {{1000, 50}, {1000, 50}, {1000, 50}, {5000, 100}, {20000, 200}};
    size_t kind = (i / queues) % SL_COUNT(kinds);
    struct sl_workload *w = sl_xalloc(sizeof *w);
    w->uid = sl_xprintf("%08zx-7c1e-4b0e-9f55-%012zx", i * 2654435761u & 0xffffffff, i);
    w->ns = sl_xstrdup("team");
    w->name = sl_xprintf("job-workload-%zu-abcde", i);
    w->queue = sl_xprintf("local-%zu", i % queues);
    w->priority = kinds[kind].priority;
    w->created_ms = 1700000000000 + (int64_t)i;
    w->generation = 1;
    w->active = true;
    w->n_podsets = 1;
    w->podsets = sl_xalloc(sizeof *w->podsets);
    w->reclaimable = sl_xalloc(sizeof *w->reclaimable);
    w->podsets->name = sl_xstrdup("main");
    w->podsets->count = 1;
    w->podsets->min_count = -1;
    w->podsets->shape = 1;
    w->podsets->per_pod.n = 1;
    w->podsets->per_pod.items = sl_xalloc(sizeof(struct sl_request_amount));
    w->podsets->per_pod.items[0] = (struct sl_request_amount){sl_xstrdup("cpu"), kinds[kind].cpu};
    return w;
}

static struct sl_workload *again(const struct sl_workload *w, size_t queues) {
    size_t i = strtoul(w->uid + strlen(w->uid) - 12, NULL, 16);
    return workload(i, queues);
}

struct figures {
    double us_per_admission, bytes_per_workload;
    size_t admissions, evictions, reasons;
};

struct running {
    char uid[64];
    size_t until;
};

/* The cluster's answer to d, given back as events; the CPU in us that the engine took for them. */
static double act(struct sl_engine *e, struct sl_decisions *d, size_t queues, struct running *ring, size_t *n_ring,
                  size_t round, struct figures *f, int64_t now) {
    struct sl_workload **puts = sl_xalloc((2 * d->n + 1) * sizeof *puts);
    size_t n = 0;
    for (size_t k = 0; k < d->n; k++) {
        struct sl_decision *x = &d->items[k];
        if (x->kind == SL_DECIDE_PENDING) {
            f->reasons++;
            continue;
        }
        struct sl_workload *w = again(x->workload, queues);
        if (x->kind == SL_DECIDE_ADMIT) {
            w->quota_reserved.status = w->admitted.status = SL_TRI_TRUE;
            w->quota_reserved.since_ms = w->admitted.since_ms = now / 1000 * 1000;
            w->admission = sl_admission_copy(x->admission);
            snprintf(ring[*n_ring].uid, sizeof ring->uid, "%s", w->uid);
            ring[(*n_ring)++].until = round + 1;
            f->admissions++;
        } else { /* released at once */
            w->quota_reserved.status = SL_TRI_FALSE;
            w->quota_reserved.since_ms = now + 1000;
            w->evicted.status = SL_TRI_TRUE;
            w->evicted.reason = sl_xstrdup("Preempted");
            f->evictions++;
        }
        puts[n++] = w;
    }
    double start = cpu_us();
    for (size_t k = 0; k < n; k++)
        sl_engine_put_workload(e, puts[k], now);
    double spent = cpu_us() - start;
    free(puts);
    return spent;
}

static struct figures measure(size_t workloads, size_t queues, size_t per_cohort, bool fair) {
    struct figures f = {0};
    struct sl_engine_config config = {.fair_sharing = fair};
    struct sl_engine *e = sl_engine_new(&config);
    struct sl_labels none = {NULL, 0};
    sl_engine_put_namespace(e, "team", &none);
    sl_engine_put_flavor(e, flavor("default"));
    for (size_t i = 0; i < queues; i++) {
        sl_engine_put_clusterqueue(e, queue(i, per_cohort));
        struct sl_localqueue *l = sl_xalloc(sizeof *l);
        l->ns = sl_xstrdup("team");
        l->name = sl_xprintf("local-%zu", i);
        l->uid = sl_xprintf("local-uid-%zu", i);
        l->cq = sl_xprintf("queue-%zu", i);
        sl_engine_put_localqueue(e, l);
    }
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    struct sl_workload **all = sl_xalloc((workloads + 1) * sizeof *all);
    for (size_t i = 0; i < workloads; i++)
        all[i] = workload(i, queues);
    double start = cpu_us();
    for (size_t i = 0; i < workloads; i++)
        sl_engine_put_workload(e, all[i], 1700000000000);
    double spent = cpu_us() - start;
    free(all);
    f.bytes_per_workload = (double)(mallinfo2().uordblks + mallinfo2().hblkhd - before) / (double)workloads;
    struct running *ring = sl_xalloc((4 * workloads + 16) * sizeof *ring);
    size_t head = 0, tail = 0;
    int64_t now = 1700000000000;
    for (size_t round = 0;; round++) {
        now += 1000;
        struct sl_decisions d;
        start = cpu_us();
        sl_engine_run(e, now, 0, &d, NULL);
        spent += cpu_us() - start;
        spent += act(e, &d, queues, ring, &tail, round, &f, now);
        bool idle = d.n == 0;
        sl_decisions_done(&d);
        if (idle && head == tail)
            break;
        size_t end = tail;
        start = cpu_us();
        for (; head < end && ring[head].until <= round; head++)
            if (sl_engine_holds_quota(e, ring[head].uid))
                sl_engine_del_workload(e, ring[head].uid);
        spent += cpu_us() - start;
    }
    f.us_per_admission = spent / (double)(f.admissions ? f.admissions : 1);
    free(ring);
    sl_engine_free(e);
    return f;
}

/* CPU in us per object. */
static double floor_of(size_t workloads, size_t queues) {
    struct sl_workload **first = sl_xalloc(2 * (workloads + 1) * sizeof *first), **second = first + workloads + 1;
    for (size_t i = 0; i < workloads; i++) {
        first[i] = workload(i, queues);
        second[i] = again(first[i], queues);
    }
    struct sl_map books = SL_MAP_INIT;
    double start = cpu_us();
    for (size_t i = 0; i < workloads; i++)
        sl_map_set(&books, first[i]->uid, first[i]);
    for (size_t i = 0; i < workloads; i++)
        sl_workload_free(sl_map_set(&books, second[i]->uid, second[i]));
    for (size_t i = 0; i < workloads; i++) {
        struct sl_workload *w = sl_map_del(&books, second[i]->uid);
        sl_workload_free(w);
    }
    double spent = cpu_us() - start;
    sl_map_done(&books, NULL);
    free(first);
    return spent / (double)workloads;
}

static void row(size_t workloads, size_t queues, size_t per_cohort, bool fair) {
    double least = floor_of(workloads, queues);
    struct figures f = measure(workloads, queues, per_cohort, fair);
    printf("%9zu %7zu %10zu %6s %12zu %10zu %9zu %14.2f %8.1f %14.0f\n", workloads, queues, per_cohort,
           fair ? "fair" : "", f.admissions, f.evictions, f.reasons, f.us_per_admission, f.us_per_admission / least,
           f.bytes_per_workload);
}

int main(int argc, char **argv) {
    printf("%9s %7s %10s %6s %12s %10s %9s %14s %8s %14s\n", "workloads", "queues", "per cohort", "", "admissions",
           "evictions", "reasons", "us/admission", "x floor", "bytes/workload");
    if (argc > 1) {
        size_t queues = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
        row(strtoul(argv[1], NULL, 10), queues, 6, argc > 3);
        return 0;
    }
    row(1000, 30, 6, false);
    row(10000, 30, 6, false);
    row(100000, 30, 6, false);
    row(50000, 6, 6, false);
    row(50000, 100, 6, false);
    row(50000, 1000, 6, false);
    row(50000, 1000, 1000, false);
    row(50000, 1000, 6, true);
    row(50000, 1000, 1000, true);
    return 0;
}
