/*
 * Decision scenarios: steps on queues and bare Workloads, played through the engine alone in virtual time. The player
 * is the API server and the job controller in one: what is decided is written at once, and a preempted workload returns
 * its quota at once.
 */
#include "sluice/cmd/resources.h"
#include "sluice/cmd/scenario.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/api/decode.h"
#include "sluice/api/validate.h"
#include "sluice/base/map.h"
#include "sluice/base/mem.h"
#include "sluice/cmd/command.h"
#include "sluice/jobs/podspec.h"
#include "sluice/quota/engine/engine.h"

#define STEP_MS    4000 /* between two steps; creation times differ by whole seconds */
#define START_MS   1700000000000
#define MAX_ROUNDS 2000         /* of one step; an engine that needs more does not come to rest */
#define MAX_TEXT   (256u << 20) /* of a report */
#define MAX_LINE   (4u << 20)

struct job { /* a workload and what the API would hold of its status */
    char *name;
    struct sl_json *object;
    struct sl_admission *admission;
    bool active, gone, finished;
    enum sl_tri reserved, admitted, evicted, requeued;
    int64_t created_ms, reserved_since, admitted_since, evicted_since;
    const char *evicted_reason;
    int64_t generation;
    struct sl_json *evictions; /* of this step; array of reasons */
    char *told;                /* reason and message as last told */
};

struct play {
    struct sl_engine *e;
    const struct sl_config *config;
    struct sl_map jobs;   /* by name, which is the uid too */
    struct sl_map queues; /* manifests of ClusterQueues and Cohorts by "Kind/name", for patches */
    int64_t now_ms;
    size_t step; /* which one is played, for errors */
    struct sl_scenario_stats *stats;
    enum sl_scenario_release order;
    struct job **draining; /* evicted, still holding, in the order of eviction; borrowed from jobs, which keeps all */
    size_t n_draining, cap_draining;
    bool settled;
};

static void job_free(void *p) {
    struct job *j = p;
    if (!j)
        return;
    free(j->name);
    sl_json_unref(j->object);
    sl_admission_free(j->admission);
    sl_json_unref(j->evictions);
    free(j->told);
    free(j);
}

static void unref(void *p) {
    sl_json_unref(p);
}

/* ---- objects into the engine ---- */

static void keep(struct play *p, const struct sl_json *o) {
    SL_AUTO_FREE char *key =
        sl_xprintf("%s/%s", sl_json_get_str(o, "kind", ""), sl_json_path_str(o, "metadata.name", ""));
    struct sl_json *kept = sl_json_copy_shallow(o);
    if (sl_json_is_null(sl_json_get(o, "apiVersion"))) /* goes without saying */
        sl_json_set_str(kept, "apiVersion", SL_KUEUE_API);
    sl_json_unref(sl_map_set(&p->queues, key, kept));
}

static int put_object(struct play *p, const struct sl_json *o, struct sl_err *err) {
    const char *kind = sl_json_get_str(o, "kind", "");
    int rc;
    if (!strcmp(kind, "ResourceFlavor")) {
        struct sl_flavor *x = NULL;
        if (!(rc = sl_flavor_decode(o, &x, err)))
            sl_engine_put_flavor(p->e, x);
    } else if (!strcmp(kind, "Cohort")) {
        struct sl_cohort *x = NULL;
        if (!(rc = sl_cohort_decode(o, &x, err))) {
            keep(p, o);
            sl_engine_put_cohort(p->e, x);
        }
    } else if (!strcmp(kind, "ClusterQueue")) {
        struct sl_clusterqueue *x = NULL;
        if (!(rc = sl_clusterqueue_decode(o, &x, err))) {
            keep(p, o);
            sl_engine_put_clusterqueue(p->e, x);
        }
    } else if (!strcmp(kind, "LocalQueue")) {
        struct sl_localqueue *x = NULL;
        if (!(rc = sl_localqueue_decode(o, &x, err))) {
            keep(p, o);
            sl_engine_put_localqueue(p->e, x);
        }
    } else if (!strcmp(kind, "AdmissionCheck")) {
        struct sl_admissioncheck *x = NULL;
        if (!(rc = sl_admissioncheck_decode(o, &x, err)))
            sl_engine_put_check(p->e, x);
    } else {
        rc =
            sl_err_set(err, SL_INVALID,
                       "kind: %s is not one of ResourceFlavor, Cohort, ClusterQueue, LocalQueue, AdmissionCheck", kind);
    }
    return rc;
}

static int put_job(struct play *p, struct job *j, struct sl_err *err) {
    struct sl_workload *w = NULL;
    int rc = sl_workload_decode(j->object, &w, err);
    if (rc)
        return rc;
    sl_workload_fill_podsets(w, j->object, &(struct sl_podspec_context){.config = p->config});
    w->created_ms = j->created_ms;
    w->generation = j->generation;
    w->active = j->active;
    w->quota_reserved.status = j->reserved;
    w->quota_reserved.since_ms = j->reserved_since;
    w->admitted.status = j->admitted;
    w->admitted.since_ms = j->admitted_since;
    w->evicted.status = j->evicted;
    w->evicted.since_ms = j->evicted_since;
    w->evicted.reason = sl_xstrdup(j->evicted_reason);
    w->requeued.status = j->requeued;
    if (j->finished)
        w->finished.status = SL_TRI_TRUE;
    w->admission = sl_admission_copy(j->admission);
    sl_engine_put_workload(p->e, w, p->now_ms);
    return 0;
}

/* ---- the job controller ---- */

static void release(struct job *j, int64_t now_ms, bool requeued) {
    j->reserved = j->admitted = SL_TRI_FALSE;
    j->reserved_since = j->admitted_since = now_ms;
    j->requeued = requeued ? SL_TRI_TRUE : SL_TRI_FALSE;
    sl_admission_free(SL_TAKE(j->admission));
}

static void evict(struct job *j, const char *reason, const char *why, int64_t now_ms) {
    j->evicted = SL_TRI_TRUE;
    j->evicted_reason = reason;
    j->evicted_since = now_ms;
    if (!j->evictions)
        j->evictions = sl_json_new_array();
    sl_json_append(j->evictions, why ? sl_json_new_strf("%s/%s", reason, why) : sl_json_new_str(reason));
}

struct batch {
    struct job **admitted, **evicted;
    size_t n_admitted, n_evicted;
};

static void hear(struct play *p, struct job *j, const struct sl_decision *d) {
    char *text = sl_xprintf("%s: %s", d->reason, d->message);
    if (j->told && !strcmp(j->told, text))
        p->stats->repeated_reasons++;
    free(j->told);
    j->told = text;
}

/* Decisions into the jobs' statuses; the engine hears of them afterwards, since its list must not outlive a change. */
static struct batch take(struct play *p, const struct sl_decisions *d) {
    struct batch b = {sl_xalloc((d->n + 1) * sizeof(struct job *)), sl_xalloc((d->n + 1) * sizeof(struct job *)), 0, 0};
    int64_t second = p->now_ms / 1000 * 1000;
    for (size_t i = 0; i < d->n; i++) {
        const struct sl_decision *x = &d->items[i];
        struct job *j = sl_map_get(&p->jobs, x->workload->uid);
        SL_ASSERT(j);
        switch (x->kind) {
        case SL_DECIDE_ADMIT:
            SL_ASSERT(j->reserved != SL_TRI_TRUE);
            j->admission = sl_admission_copy(x->admission);
            j->reserved = j->admitted = SL_TRI_TRUE;
            j->reserved_since = j->admitted_since = second;
            if (j->evicted == SL_TRI_TRUE)
                j->evicted = SL_TRI_FALSE;
            b.admitted[b.n_admitted++] = j;
            free(SL_TAKE(j->told));
            p->stats->admissions++;
            break;
        case SL_DECIDE_EVICT:
            SL_ASSERT(j->reserved == SL_TRI_TRUE);
            evict(j, "Preempted", x->reason, second);
            b.evicted[b.n_evicted++] = j;
            p->stats->evictions++;
            break;
        case SL_DECIDE_PENDING:
            p->stats->reasons++;
            hear(p, j, x);
            break;
        }
    }
    return b;
}

/* Without events another run has nothing to say. */
static bool at_rest(struct play *p) {
    struct sl_decisions d;
    bool more;
    sl_engine_run(p->e, p->now_ms, 0, &d, &more);
    bool rest = d.n == 0 && !more;
    sl_decisions_done(&d);
    return rest;
}

/* Lets go of what is held by evicted workloads: all of it, or of one. */
static int drain(struct play *p, const struct batch *b, struct sl_err *err) {
    for (size_t i = 0; i < b->n_evicted; i++) {
        SL_GROW(p->draining, p->cap_draining, p->n_draining);
        p->draining[p->n_draining++] = b->evicted[i];
    }
    int rc = 0;
    while (p->n_draining && !rc) {
        size_t at = p->order == SL_RELEASE_LAST ? p->n_draining - 1 : 0;
        struct job *j = p->draining[at];
        memmove(p->draining + at, p->draining + at + 1, (--p->n_draining - at) * sizeof(struct job *));
        release(j, p->now_ms / 1000 * 1000, true);
        rc = put_job(p, j, err);
        if (p->order != SL_RELEASE_TOGETHER)
            break;
    }
    return rc;
}

static int settle(struct play *p, int64_t until_ms, struct sl_err *err) {
    int rc = 0;
    for (size_t round = 0; !rc; round++) {
        if (round == MAX_ROUNDS) {
            p->settled = false;
            break;
        }
        struct sl_decisions d;
        bool more;
        sl_engine_run(p->e, p->now_ms, 0, &d, &more);
        struct batch b = take(p, &d);
        sl_decisions_done(&d);
        for (size_t i = 0; i < b.n_admitted && !rc; i++)
            rc = put_job(p, b.admitted[i], err);
        for (size_t i = 0; i < b.n_evicted && !rc; i++)
            rc = put_job(p, b.evicted[i], err);
        bool moved = b.n_admitted || b.n_evicted || p->n_draining;
        rc = rc ? rc : drain(p, &b, err);
        sl_engine_check_invariants(p->e);
        free(b.admitted);
        free(b.evicted);
        if (moved)
            continue;
        int64_t due = sl_engine_next_due_ms(p->e);
        if (due < 0 || due > until_ms) {
            p->stats->restless += !at_rest(p);
            break;
        }
        p->now_ms = due > p->now_ms ? due : p->now_ms;
    }
    return rc;
}

/* ---- steps ---- */

static int create(struct play *p, const struct sl_json *o, struct sl_err *err) {
    const char *name = sl_json_path_str(o, "metadata.name", NULL);
    if (!name)
        return sl_err_set(err, SL_INVALID, "steps[%zu].create.metadata.name: Required value", p->step);
    const struct job *before = sl_map_get(&p->jobs, name);
    if (before && !before->gone)
        return sl_err_set(err, SL_INVALID, "steps[%zu].create.metadata.name: Duplicate value: \"%.100s\"", p->step,
                          name);
    for (size_t i = 0; i < p->n_draining; i++)
        if (p->draining[i] == before)
            memmove(p->draining + i, p->draining + i + 1, (--p->n_draining - i) * sizeof(struct job *));
    struct job *j = sl_xalloc(sizeof *j);
    j->name = sl_xstrdup(name);
    j->object = sl_json_copy(o);
    sl_json_del(j->object, "status"); /* is ours to say */
    struct sl_json *meta = sl_json_make_object(j->object, "metadata");
    sl_json_set_str(meta, "uid", name);
    sl_json_set_str(meta, "namespace", sl_json_get_str(meta, "namespace", "ns"));
    j->active = true;
    j->created_ms = p->now_ms / 1000 * 1000;
    j->generation = 1;
    job_free(sl_map_set(&p->jobs, name, j));
    return put_job(p, j, err);
}

/* A stop that drains evicts who holds quota. In a cluster that is the manager's part, not the engine's. */
static int stop(struct play *p, const struct sl_json *queue, struct sl_err *err) {
    bool local = !strcmp(sl_json_get_str(queue, "kind", ""), "LocalQueue");
    const char *name = sl_json_path_str(queue, "metadata.name", "");
    int rc = 0;
    if (strcmp(sl_json_path_str(queue, "spec.stopPolicy", ""), "HoldAndDrain") != 0)
        return 0;
    SL_MAP_EACH (&p->jobs, e) {
        struct job *j = e->value;
        if (rc || j->gone || j->finished || j->reserved != SL_TRI_TRUE || j->evicted == SL_TRI_TRUE ||
            strcmp(local ? sl_json_path_str(j->object, "spec.queueName", "") : j->admission->cq, name) != 0)
            continue;
        evict(j, local ? "LocalQueueStopped" : "ClusterQueueStopped", NULL, p->now_ms / 1000 * 1000);
        rc = put_job(p, j, err);
        SL_GROW(p->draining, p->cap_draining, p->n_draining);
        p->draining[p->n_draining++] = j;
    }
    return rc;
}

static int patch(struct play *p, const struct sl_json *step, struct sl_err *err) {
    const char *name = sl_json_get_str(step, "name", "");
    SL_AUTO_FREE char *key = sl_xprintf("%s/%s", sl_json_get_str(step, "kind", ""), name);
    const struct sl_json *old = sl_map_get(&p->queues, key);
    if (!old)
        return sl_err_set(err, SL_INVALID, "steps[%zu].patch.name: Not found: \"%.100s\"", p->step, name);
    SL_AUTO_JSON *change = sl_json_new_object();
    sl_json_set(change, "spec", sl_json_copy(sl_json_get(step, "spec")));
    SL_AUTO_JSON *o = sl_json_merge_patch(sl_json_copy(old), change);
    SL_AUTO_FIELDERRS errors = SL_FIELDERRS_INIT;
    sl_api_validate(o, NULL, SL_VALIDATE_STRUCTURE, &errors);
    if (errors.n)
        return sl_err_set(err, SL_INVALID, "steps[%zu].patch.%s: %s", p->step, errors.items[0].path,
                          errors.items[0].text);
    int rc = put_object(p, o, err);
    return rc ? rc : stop(p, o, err);
}

static int on_job(struct play *p, const char *op, const char *name, struct sl_err *err) {
    struct job *j = sl_map_get(&p->jobs, name);
    if (!j)
        return sl_err_set(err, SL_INVALID, "steps[%zu].%s: Not found: \"%.100s\"", p->step, op, name);
    if (j->gone)
        return 0;
    if (!strcmp(op, "delete")) {
        j->gone = true;
        sl_admission_free(SL_TAKE(j->admission));
        sl_engine_del_workload(p->e, j->name);
        return 0;
    }
    if (!strcmp(op, "finish")) {
        if (j->admitted != SL_TRI_TRUE || j->finished)
            return 0;
        j->finished = true;
        return put_job(p, j, err);
    }
    if (j->finished || !j->active)
        return 0;
    j->active = false;
    j->generation++;
    if (j->reserved == SL_TRI_TRUE) {
        evict(j, "Deactivated", NULL, p->now_ms / 1000 * 1000);
        release(j, p->now_ms / 1000 * 1000, false);
    }
    return put_job(p, j, err);
}

static int step(struct play *p, const struct sl_json *s, struct sl_err *err) {
    const struct sl_json *arg;
    if ((arg = sl_json_get(s, "create")))
        return create(p, arg, err);
    if ((arg = sl_json_get(s, "patch")))
        return patch(p, arg, err);
    static const char *const ops[] = {"finish", "delete", "deactivate"};
    for (size_t i = 0; i < SL_COUNT(ops); i++)
        if ((arg = sl_json_get(s, ops[i])))
            return on_job(p, ops[i], sl_json_str(arg, ""), err);
    return sl_err_set(err, SL_INVALID, "a step is one of create, finish, delete, deactivate, patch");
}

static const char *state_of(const struct job *j) {
    if (j->gone)
        return "Gone";
    if (j->finished)
        return "Finished";
    if (!j->active)
        return "Inactive";
    if (j->admitted == SL_TRI_TRUE)
        return "Admitted";
    return j->reserved == SL_TRI_TRUE ? "Reserved" : "Pending";
}

static struct sl_json *snapshot(struct play *p) {
    struct sl_json *o = sl_json_new_object();
    const char **names = sl_map_sorted_keys(&p->jobs);
    for (size_t i = 0; i < p->jobs.count; i++) {
        struct job *j = sl_map_get(&p->jobs, names[i]);
        struct sl_json *w = sl_json_new_object();
        sl_json_set_str(w, "state", state_of(j));
        if (j->admission && !j->finished && j->active) {
            struct sl_json *sets = sl_json_make_object(w, "podSets");
            for (size_t k = 0; k < j->admission->n_podsets; k++) {
                const struct sl_podset_assignment *a = &j->admission->podsets[k];
                struct sl_json *s = sl_json_new_object();
                sl_json_set_int(s, "count", a->count);
                struct sl_json *f = sl_json_make_object(s, "flavors");
                for (size_t r = 0; r < a->n_flavors; r++)
                    sl_json_set_str(f, a->flavors[r].resource, a->flavors[r].flavor);
                sl_json_set(sets, a->name, s);
            }
        }
        if (j->evictions)
            sl_json_set(w, "evicted", SL_TAKE(j->evictions));
        sl_json_set(o, names[i], w);
    }
    free(names);
    return o;
}

/* ---- one scenario ---- */

static struct sl_engine *engine_for(const struct sl_config *c) {
    struct sl_engine_config ec = {.fair_sharing = c->fair_sharing,
                                  .ignore_undeclared = c->ignore_undeclared,
                                  .pods_ready_timestamp_creation = c->pods_ready.timestamp_creation};
    size_t n = 0;
    if (c->fair_final_share)
        ec.strategies[n++] = SL_FAIR_FINAL_SHARE;
    if (c->fair_initial_share)
        ec.strategies[n++] = SL_FAIR_INITIAL_SHARE;
    return sl_engine_new(&ec);
}

int sl_scenario_play(const struct sl_json *scenario, const struct sl_config *config, enum sl_scenario_release release,
                     struct sl_json **ret, struct sl_scenario_stats *stats, struct sl_err *err) {
    struct sl_scenario_stats unused = {0};
    struct play p = {.e = engine_for(config),
                     .config = config,
                     .jobs = SL_MAP_INIT,
                     .queues = SL_MAP_INIT,
                     .now_ms = START_MS,
                     .settled = true};
    p.stats = stats ? stats : &unused;
    p.order = release;
    struct sl_json *outcome = sl_json_new_array();
    struct sl_labels none = {NULL, 0};
    int rc = 0;
    sl_engine_put_namespace(p.e, "ns", &none);
    SL_JSON_ITEMS (sl_json_get(scenario, "objects"), o) {
        if ((rc = put_object(&p, o.value, err))) {
            sl_err_wrap(err, "objects[%zu]", o.i);
            break;
        }
    }
    if (!rc)
        rc = settle(&p, p.now_ms, err);
    SL_JSON_ITEMS (sl_json_get(scenario, "steps"), s) {
        if (rc)
            break;
        p.step = s.i;
        p.now_ms = START_MS + (int64_t)(s.i + 1) * STEP_MS;
        rc = step(&p, s.value, err);
        if (!rc)
            rc = settle(&p, p.now_ms + STEP_MS - 1, err);
        if (!rc)
            sl_json_append(outcome, snapshot(&p));
        else if (err && strncmp(err->text, "steps[", 6))
            sl_err_wrap(err, "steps[%zu]", s.i);
    }
    SL_MAP_EACH (&p.jobs, m) {
        struct job *j = m->value;
        if (!rc && p.stats->waiting && !strcmp(state_of(j), "Pending"))
            sl_json_set(p.stats->waiting, j->name, sl_engine_explain(p.e, j->name));
    }
    sl_engine_free(p.e);
    free(p.draining);
    sl_map_done(&p.jobs, job_free);
    sl_map_done(&p.queues, unref);
    if (rc) {
        sl_json_unref(outcome);
        return rc;
    }
    struct sl_json *o = sl_json_new_object();
    sl_json_set_str(o, "name", sl_json_get_str(scenario, "name", ""));
    sl_json_set_bool(o, "settled", p.settled);
    sl_json_set(o, "outcome", outcome);
    *ret = o;
    return 0;
}

/* ---- the file ---- */

static bool same(const char *key, const struct sl_json *a, const struct sl_json *b) {
    if (strcmp(key, "evicted") != 0)
        return sl_json_equal(a, b);
    size_t n = sl_json_len(a); /* the order in which evictions happened within a step is nobody's promise */
    if (n != sl_json_len(b))
        return false;
    for (size_t i = 0; i < n; i++) {
        size_t in_a = 0, in_b = 0;
        for (size_t k = 0; k < n; k++) {
            in_a += sl_json_equal(sl_json_at(a, i), sl_json_at(a, k));
            in_b += sl_json_equal(sl_json_at(a, i), sl_json_at(b, k));
        }
        if (in_a != in_b)
            return false;
    }
    return true;
}

/* First difference of one step: the workload and both sides. */
static char *difference(const struct sl_json *want, const struct sl_json *got) {
    SL_JSON_EACH (want, w) {
        const struct sl_json *g = sl_json_get(got, w.key);
        static const char *const keys[] = {"state", "podSets", "evicted"};
        for (size_t i = 0; i < SL_COUNT(keys); i++) {
            const struct sl_json *x = sl_json_get(w.value, keys[i]), *y = sl_json_get(g, keys[i]);
            if (same(keys[i], x, y))
                continue;
            SL_AUTO_FREE char *a = sl_json_text(w.value), *b = g ? sl_json_text(g) : sl_xstrdup("nothing");
            return sl_xprintf("%s: expected %s, got %s", w.key, a, b);
        }
    }
    return sl_json_len(want) == sl_json_len(got) ? NULL : sl_xprintf("other workloads than expected");
}

char *sl_scenario_difference(const struct sl_json *scenario, const struct sl_json *result) {
    if (!sl_json_get_bool(result, "settled", false))
        return sl_xprintf("it does not settle");
    if (!sl_json_get_bool(scenario, "stable", true))
        return NULL;
    const struct sl_json *expect = sl_json_get(scenario, "expect"), *outcome = sl_json_get(result, "outcome");
    if (sl_json_len(expect) != sl_json_len(outcome))
        return sl_xprintf("%zu steps expected, %zu played", sl_json_len(expect), sl_json_len(outcome));
    SL_JSON_ITEMS (expect, x) {
        SL_AUTO_FREE char *d = difference(x.value, sl_json_at(outcome, x.i));
        if (d)
            return sl_xprintf("step %zu: %s", x.i, d);
    }
    return NULL;
}

static void print_text(const struct sl_json *scenario, const struct sl_json *result) {
    printf("%s: %s\n", sl_json_get_str(result, "name", ""),
           sl_json_get_bool(result, "settled", false) ? "settled" : "DOES NOT SETTLE");
    SL_JSON_ITEMS (sl_json_get(result, "outcome"), o) {
        SL_AUTO_FREE char *s = sl_json_text(sl_json_at(sl_json_get(scenario, "steps"), o.i));
        printf("  step %zu %.100s\n", o.i, s);
        SL_JSON_EACH (o.value, w) {
            SL_AUTO_FREE char *t = sl_json_text(w.value);
            printf("    %s %s\n", w.key, t);
        }
    }
}

/* The next line without its end, at most MAX_LINE bytes. 1: there is one; 0: the end; SL_TOO_BIG, SL_IO. */
static int next_line(FILE *from, struct sl_buf *line, struct sl_err *err) {
    sl_buf_clear(line);
    int c = getc_unlocked(from);
    if (c == EOF)
        return ferror(from) ? sl_err_set(err, SL_IO, "cannot be read") : 0;
    for (; c != EOF && c != '\n'; c = getc_unlocked(from)) {
        sl_buf_putc(line, (char)c);
        if (line->failed)
            return sl_err_set(err, SL_TOO_BIG, "a line of more than %u bytes", MAX_LINE);
    }
    return ferror(from) ? sl_err_set(err, SL_IO, "cannot be read") : 1;
}

/* One line of the file; *ret_scenario and *ret_result are owned. NULL, or what is wrong with it, owned. */
static char *play_line(const struct sl_buf *line, const struct sl_config *config, struct sl_json **ret_scenario,
                       struct sl_json **ret_result) {
    struct sl_err err = SL_ERR_INIT;
    if (sl_json_parse_limited(line->data, line->len, MAX_LINE, SL_JSON_MAX_ELEMENTS, ret_scenario, &err))
        return sl_xstrdup(err.text);
    SL_AUTO_FIELDERRS errors = SL_FIELDERRS_INIT;
    sl_scenario_check(*ret_scenario, &errors);
    if (errors.n)
        return sl_fielderrs_message(&errors);
    if (sl_scenario_play(*ret_scenario, config, SL_RELEASE_TOGETHER, ret_result, NULL, &err))
        return sl_xstrdup(err.text);
    return NULL;
}

struct tally {
    size_t scenarios, agree;
    struct sl_buf report;
};

static void tell(const struct sl_json *scenario, const struct sl_json *result, bool check, enum sl_output as,
                 struct tally *tally) {
    tally->scenarios++;
    if (as == SL_OUTPUT_YAML) {
        sl_output_put(as, result);
    } else if (as) {
        SL_AUTO_BUF out = SL_BUF_INIT(MAX_TEXT);
        sl_json_dump(result, false, &out);
        puts(sl_buf_text(&out));
    } else if (!check) {
        print_text(scenario, result);
    }
    if (!check)
        return;
    SL_AUTO_FREE char *d = sl_scenario_difference(scenario, result);
    if (d)
        sl_buf_printf(&tally->report, "%s: %s\n", sl_json_get_str(scenario, "name", ""), d);
    else
        tally->agree++;
}

int sl_cmd_scenario(const char *path, const struct sl_config *config, bool check, enum sl_output as) {
    FILE *from = strcmp(path, "-") ? fopen(path, "re") : stdin;
    struct sl_err err = SL_ERR_INIT;
    if (!from) {
        SL_AUTO_FREE char *text = sl_xprintf("%s: %s", path, strerror(errno));
        sl_cmd_error("simulate", as, text);
        return SL_EXIT_FAILED;
    }
    SL_AUTO_BUF line = SL_BUF_INIT(MAX_LINE);
    struct tally tally = {.report = SL_BUF_INIT(MAX_TEXT)};
    SL_AUTO_FREE char *wrong = NULL;
    int rc = 0;
    size_t number = 1;
    for (; !wrong && (rc = next_line(from, &line, &err)) > 0; number++) {
        const char *text = sl_buf_text(&line);
        if (strspn(text, " \t\r") >= line.len)
            continue;
        SL_AUTO_JSON *scenario = NULL, *result = NULL;
        SL_AUTO_FREE char *why = play_line(&line, config, &scenario, &result);
        if (why)
            wrong = sl_xprintf("%s:%zu: %s", path, number, why);
        else
            tell(scenario, result, check, as, &tally);
    }
    if (rc < 0)
        wrong = sl_xprintf("%s:%zu: %s", path, number, err.text);
    if (from != stdin)
        fclose(from);
    if (check && !wrong) {
        FILE *to = as ? stderr : stdout; /* the objects stay alone on standard output */
        fputs(sl_buf_text(&tally.report), to);
        fprintf(to, "%zu of %zu agree\n", tally.agree, tally.scenarios);
    }
    sl_buf_done(&tally.report);
    if (wrong) {
        fflush(stdout);
        sl_cmd_error("simulate", as, wrong);
        return rc == SL_IO ? SL_EXIT_FAILED : SL_EXIT_USAGE;
    }
    return !check || tally.agree == tally.scenarios ? SL_EXIT_OK : SL_EXIT_WRONG;
}
