/*
 * Plays batch/v1 Jobs as the Job controller and a kubelet with infinite room would: an unsuspended Job has all its pods
 * ready at once, and they run for a time that its annotation or the options say. Pods are numbers in the status, not
 * objects. A look at a Job happens after each change of it, which makes the player level-triggered like the real one:
 * it never depends on what it did before but for the timer.
 */
#include "memory_internal.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/base/clock.h"
#include "sluice/base/mem.h"

#define RUN_ANNOTATION  "sluice.dev/simulate-run"
#define FAIL_ANNOTATION "sluice.dev/simulate-fail"

static const char *annotation(const struct sl_json *job, const char *name) {
    return sl_json_get_str(sl_json_path(job, "metadata.annotations"), name, NULL);
}
static int64_t spec_int(const struct sl_json *job, const char *field, int64_t dflt) {
    return sl_json_get_int(sl_json_get(job, "spec"), field, dflt);
}
static int64_t status_int(const struct sl_json *job, const char *field) {
    return sl_json_get_int(sl_json_get(job, "status"), field, 0);
}

static const struct sl_json *condition(const struct sl_json *job, const char *type) {
    SL_JSON_ITEMS (sl_json_path(job, "status.conditions"), e) {
        if (!strcmp(sl_json_get_str(e.value, "type", ""), type))
            return e.value;
    }
    return NULL;
}
static bool is_true(const struct sl_json *job, const char *type) {
    return !strcmp(sl_json_get_str(condition(job, type), "status", ""), "True");
}
static bool is_over(const struct sl_json *job) {
    return is_true(job, "Complete") || is_true(job, "Failed");
}

static void set_condition(struct mem *m, struct sl_json *status, const char *type, bool value, const char *reason,
                          const char *message) {
    struct sl_json *list = sl_json_make_array(status, "conditions"), *c = NULL;
    for (size_t i = 0; i < sl_json_len(list) && !c; i++) {
        if (!strcmp(sl_json_get_str(sl_json_at(list, i), "type", ""), type))
            c = sl_json_mut_at(list, i);
    }
    const char *text = value ? "True" : "False";
    if (c && !strcmp(sl_json_get_str(c, "status", ""), text))
        return;
    char now[SL_TIME_TEXT];
    sl_time_format(mem_wall_ms(m), now);
    if (!c) {
        c = sl_json_new_object();
        sl_json_set_str(c, "type", type);
        sl_json_append(list, c);
    }
    sl_json_set_str(c, "status", text);
    sl_json_set_str(c, "lastProbeTime", now);
    sl_json_set_str(c, "lastTransitionTime", now);
    sl_json_set_str(c, "reason", reason);
    sl_json_set_str(c, "message", message);
}

static void write_status(struct mem *m, const struct mem_object *o, struct sl_json *take_status) {
    SL_AUTO_JSON *body = sl_json_copy(o->json), *ret = NULL;
    sl_json_set(body, "status", take_status);
    SL_AUTO_FREE char *ns = sl_xstrdup(sl_json_path_str(body, "metadata.namespace", "")),
                      *name = sl_xstrdup(sl_json_path_str(body, "metadata.name", ""));
    struct mem_write w = {.verb = SL_UPDATE,
                          .resource = o->table->resource,
                          .ns = ns,
                          .name = name,
                          .subresource = "status",
                          .body = body,
                          .user = MEM_USER_JOBS};
    int status;
    struct sl_err err = SL_ERR_INIT;
    if (mem_do(m, &w, &ret, &status, &err)) /* refused by a webhook: the next change of the Job brings us back */
        return;
}

static struct mem_item *later(struct mem *m, enum mem_kind kind, const struct mem_object *o, int64_t after_ms) {
    struct mem_item *item = mem_push(m, kind, m->now + after_ms);
    item->text = sl_xstrdup(o->uid);
    item->number = o->run;
    return item;
}

void mem_job_changed(struct mem *m, struct mem_object *o) {
    if (o->job_queued)
        return;
    o->job_queued = true;
    later(m, MEM_JOB, o, 0);
}

/* Pods that run next: all in parallel, but no more than are still wanted. */
static int64_t wave(const struct sl_json *job) {
    int64_t parallelism = spec_int(job, "parallelism", 1);
    const struct sl_json *wanted = sl_json_path(job, "spec.completions");
    if (!wanted)
        return parallelism;
    int64_t left = sl_json_int(wanted, 1) - status_int(job, "succeeded");
    return left < parallelism ? (left > 0 ? left : 0) : parallelism;
}

static bool all_done(const struct sl_json *job) {
    const struct sl_json *wanted = sl_json_path(job, "spec.completions");
    int64_t succeeded = status_int(job, "succeeded");
    return wanted ? succeeded >= sl_json_int(wanted, 1) : succeeded > 0;
}

static void finish(struct mem *m, struct mem_object *o, struct sl_json *status, bool failed, const char *reason) {
    sl_json_set_int(status, "active", 0);
    sl_json_set_int(status, "ready", 0);
    if (failed)
        set_condition(m, status, "FailureTarget", true, reason, "the simulated pods failed");
    else
        set_condition(m, status, "SuccessCriteriaMet", true, "CompletionsReached",
                      "Reached expected number of succeeded pods");
    o->running = false;
    o->run++;
    SL_AUTO_FREE char *uid = sl_xstrdup(o->uid);
    write_status(m, o, status);
    o = sl_map_get(&m->by_uid, uid);
    if (o)
        later(m, MEM_JOB_FINISH, o, 0);
}

static void conclude(struct mem *m, struct mem_object *o) {
    struct sl_json *status = sl_json_copy(sl_json_get(o->json, "status"));
    const struct sl_json *target = condition(o->json, "FailureTarget");
    if (target) {
        set_condition(m, status, "Failed", true, sl_json_get_str(target, "reason", ""),
                      sl_json_get_str(target, "message", ""));
    } else {
        char now[SL_TIME_TEXT];
        sl_json_set_str(status, "completionTime", sl_time_format(mem_wall_ms(m), now));
        set_condition(m, status, "Complete", true, "CompletionsReached", "Reached expected number of succeeded pods");
    }
    write_status(m, o, status);
}

static int64_t run_ms(const struct mem *m, const struct sl_json *job) {
    int64_t ms;
    const char *text = annotation(job, RUN_ANNOTATION);
    if (text && sl_duration_parse(text, &ms) && ms >= 0)
        return ms;
    return m->options.default_run_ms ? m->options.default_run_ms : -1;
}

static void start_wave(struct mem *m, struct mem_object *o) {
    int64_t ms = run_ms(m, o->json), deadline = spec_int(o->json, "activeDeadlineSeconds", -1);
    o->running = true;
    o->run++;
    if (ms >= 0)
        later(m, MEM_JOB_TIMER, o, ms);
    if (deadline >= 0 && deadline < INT64_MAX / 1000) {
        int64_t started = mem_wall_ms(m);
        sl_time_parse(sl_json_path_str(o->json, "status.startTime", ""), &started);
        int64_t left = started + deadline * 1000 - mem_wall_ms(m);
        later(m, MEM_JOB_TIMER, o, left > 0 ? left : 0)->what = SL_WATCH_GONE; /* marks the deadline */
    }
}

static void look(struct mem *m, struct mem_object *o) {
    const struct sl_json *job = o->json, *old = sl_json_get(job, "status");
    if (is_over(job)) {
        int64_t ttl = spec_int(job, "ttlSecondsAfterFinished", -1);
        if (ttl >= 0 && ttl < INT64_MAX / 1000)
            later(m, MEM_JOB_TTL, o, ttl * 1000);
        return;
    }
    const char *manager = sl_json_path_str(job, "spec.managedBy", "kubernetes.io/job-controller");
    if (strcmp(manager, "kubernetes.io/job-controller") || sl_json_path_str(job, "metadata.deletionTimestamp", NULL) ||
        is_true(job, "SuccessCriteriaMet") || is_true(job, "FailureTarget"))
        return;
    struct sl_json *status = old ? sl_json_copy(old) : sl_json_new_object();
    char now[SL_TIME_TEXT];
    if (sl_json_bool(sl_json_path(job, "spec.suspend"), false)) {
        o->running = false;
        o->run++; /* timers of the run that ended here are void */
        sl_json_del(status, "startTime");
        sl_json_set_int(status, "active", 0);
        sl_json_set_int(status, "ready", 0);
        set_condition(m, status, "Suspended", true, "JobSuspended", "Job suspended");
        write_status(m, o, status);
        return;
    }
    if (condition(job, "Suspended"))
        set_condition(m, status, "Suspended", false, "JobResumed", "Job resumed");
    if (!sl_json_get(status, "startTime"))
        sl_json_set_str(status, "startTime", sl_time_format(mem_wall_ms(m), now));
    if (!o->running && sl_json_path(job, "spec.completions") && all_done(job)) {
        finish(m, o, status, false, NULL);
        return;
    }
    sl_json_set_int(status, "active", wave(job));
    sl_json_set_int(status, "ready", wave(job));
    SL_AUTO_FREE char *uid = sl_xstrdup(o->uid);
    write_status(m, o, status);
    o = sl_map_get(&m->by_uid, uid);
    if (o && !o->running && wave(o->json) > 0)
        start_wave(m, o);
}

static void wave_over(struct mem *m, struct mem_object *o, bool deadline) {
    const char *fails = annotation(o->json, FAIL_ANNOTATION);
    struct sl_json *status = sl_json_copy(sl_json_get(o->json, "status"));
    if (deadline || (fails && !strcmp(fails, "true"))) {
        sl_json_set_int(status, "failed", status_int(o->json, "failed") + wave(o->json));
        finish(m, o, status, true, deadline ? "DeadlineExceeded" : "BackoffLimitExceeded");
        return;
    }
    sl_json_set_int(status, "succeeded", status_int(o->json, "succeeded") + wave(o->json));
    SL_AUTO_JSON *preview = sl_json_new_object();
    sl_json_set(preview, "spec", sl_json_ref(sl_json_get(o->json, "spec")));
    sl_json_set(preview, "status", sl_json_ref(status));
    if (all_done(preview)) {
        finish(m, o, status, false, NULL);
        return;
    }
    sl_json_set_int(status, "active", wave(preview));
    sl_json_set_int(status, "ready", wave(preview));
    SL_AUTO_FREE char *uid = sl_xstrdup(o->uid);
    write_status(m, o, status);
    o = sl_map_get(&m->by_uid, uid);
    if (o)
        start_wave(m, o);
}

void mem_job_run(struct mem *m, const struct mem_item *item) {
    struct mem_object *o = sl_map_get(&m->by_uid, item->text);
    if (!o)
        return;
    if (item->kind == MEM_JOB) {
        o->job_queued = false;
        look(m, o);
    } else if (item->kind == MEM_JOB_FINISH) {
        if (!is_over(o->json))
            conclude(m, o);
    } else if (item->kind == MEM_JOB_TIMER) {
        if (o->running && item->number == o->run)
            wave_over(m, o, item->what == SL_WATCH_GONE);
    } else if (is_over(o->json)) {
        struct mem_write w = {.verb = SL_DELETE, .resource = o->table->resource, .user = MEM_USER_JOBS};
        SL_AUTO_FREE char *ns = sl_xstrdup(sl_json_path_str(o->json, "metadata.namespace", "")),
                          *name = sl_xstrdup(sl_json_path_str(o->json, "metadata.name", ""));
        w.ns = ns;
        w.name = name;
        SL_AUTO_JSON *ret = NULL;
        int status;
        struct sl_err err = SL_ERR_INIT;
        if (mem_do(m, &w, &ret, &status, &err)) /* refused: a later change of the Job sets a new timer */
            return;
    }
}
