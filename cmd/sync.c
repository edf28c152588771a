/*
 * One look at a job and its Workload, or at a Workload without a job. Level-triggered: a look compares what is with
 * what should be and starts at most one write; its answer (or the watch) causes the next look. Nothing is remembered
 * between looks but the objects.
 *
 *   job, no Workload         -> stop it if it runs, then create the Workload
 *   Workload not the job's   -> rewrite it (no quota), or stop the job, delete and create anew
 *   Workload admitted        -> start the job
 *   Workload evicted, gone   -> stop the job, then give the quota back
 *
 * What becomes of a Workload whose job is gone is in orphan.c, where a job owned by a job stands in family.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "manager.h"
#include "sluice/api/conditions.h"
#include "sluice/api/names.h"
#include "sluice/base/clock.h"
#include "sluice/base/log.h"
#include "sluice/base/mem.h"
#include "sluice/base/metrics.h"
#include "sluice/flavors/inject.h"

#define CREATE_GAP_MS     1000 /* between two Workloads of one job */
#define WORKLOAD_NAME_MAX 253
#define SUSPENSION_WAIT_MS                                                                                             \
    30000 /* how long a start waits for the controller of the job to acknowledge the suspension: a job that starts at  \
             once would lack the history (condition Suspended) that clients know, and before that controller works no  \
             pod is made anyway */

/* ---- indexes ---- */

static const struct owned *owned_of(const struct manager *m, const char *job_uid) {
    return related(&m->by_owner, job_uid);
}

struct record *job_of(const struct manager *m, const struct record *wl) {
    return wl->owner_uid ? store_by_uid(&m->jobs, wl->owner_uid) : NULL;
}

void mark_pair(struct manager *m, struct record *wl) {
    struct record *job = job_of(m, wl);
    mark_dirty(m, job ? job : wl);
    if (job)
        mark_children(m, job);
}

/* ---- decoding ---- */

static const struct sl_json *overhead_of(void *arg, const char *runtime_class) {
    const struct manager *m = arg;
    return sl_map_get(&m->runtime_classes, runtime_class);
}

struct sl_workload *decode_workload(struct manager *m, const struct record *wl, const struct sl_json *tree) {
    struct sl_workload *w = NULL;
    struct sl_err err = SL_ERR_INIT;
    if (sl_workload_decode(tree, &w, &err)) {
        SL_LOG(WARN, "workload cannot be read, ignoring it", SL_OBJ("workload", wl->ns, wl->name),
               SL_STR("error", err.text));
        return NULL;
    }
    struct namespace_info *n = namespace_get(m, wl->ns, false);
    struct sl_podspec_context ctx = {
        .limits = n ? namespace_limits(n) : NULL, .config = m->cfg, .overhead = overhead_of, .overhead_arg = m};
    sl_workload_fill_podsets(w, tree, &ctx);
    return w;
}

static struct sl_json *infos_of(struct manager *m, const struct record *wl, const struct sl_json *tree,
                                const struct sl_workload *w, struct sl_err *err) {
    struct sl_json *infos = NULL;
    struct sl_inject_input in = {.admission = w->admission,
                                 .workload = wl->name,
                                 .queue = w->queue,
                                 .flavor = manager_flavor,
                                 .flavor_arg = m,
                                 .checks = sl_json_path(tree, "status.admissionChecks")};
    return sl_inject_podsets(&in, &infos, err) ? NULL : infos;
}

void collect_facts(struct manager *m, const struct record *wl, const struct sl_json *tree, const struct sl_workload *w,
                   struct lc_facts *f) {
    *f = (struct lc_facts){.now_ms = manager_now(m),
                           .pods_ready = &m->pods_ready,
                           .retain_finished_ms = m->cfg->retain_finished_ms,
                           .retain_deactivated_ms = m->cfg->retain_deactivated_ms,
                           .has_owner = wl->owner_known,
                           .nobodys = !wl->left_behind && !sl_json_len(sl_json_path(tree, "metadata.ownerReferences")),
                           .cq_name = ""};
    f->gates =
        sl_json_str(sl_json_get(sl_json_path(tree, "metadata.annotations"), SL_ANNOTATION_ADMISSION_GATED_BY), NULL);
    const struct object *lq = localqueue_of(m, wl->ns, w->queue);
    if (lq) {
        f->lq_exists = true;
        f->lq_deleting = lq->deleting;
        f->lq_stop = lq->lq->stop;
        f->cq_name = lq->lq->cq;
    }
    /* quota stays with the queue that gave it, whatever became of the LocalQueue */
    const char *cq_name = w->admission ? w->admission->cq : f->cq_name;
    const struct object *cq = *cq_name ? sl_map_get(&m->cqs, cq_name) : NULL;
    if (w->admission)
        f->cq_name = w->admission->cq;
    if (cq) {
        f->cq_exists = true;
        f->cq_deleting = cq->deleting;
        f->cq_stop = cq->cq->stop;
        f->checks = cq->cq->checks;
        f->n_checks = cq->cq->n_checks;
        for (size_t i = 0; i < cq->cq->n_groups; i++)
            f->n_flavors += cq->cq->groups[i].n_flavors;
        struct sl_queue_view v;
        sl_engine_clusterqueue_view(m->engine, cq_name, &v);
        f->cq_active = v.active;
        snprintf(f->cq_message, sizeof f->cq_message, "%s", v.inactive_message ? v.inactive_message : "");
        sl_queue_view_done(&v);
    }
}

/* ---- feeding the engine ---- */

void feed_engine(struct manager *m, struct record *wl) {
    if (!m->synced || wl->deciding)
        return; /* a decision is on its way: its answer brings the newest state */
    if (wl->gone)
        return; /* keeps its place in the books until the job has stopped */
    if (!wl->holds &&
        orphaned(m, wl)) { /* gets nothing any more; what it has, it has until its object says otherwise */
        if (wl->in_engine)
            sl_engine_del_workload(m->engine, wl->uid);
        wl->in_engine = false;
        m->engine_dirty = true;
        return;
    }
    SL_AUTO_JSON *tree = record_tree(wl);
    struct sl_workload *w = decode_workload(m, wl, tree);
    if (!w)
        return;
    sl_engine_put_workload(m->engine, w, manager_now(m));
    wl->in_engine = true;
    m->engine_dirty = true;
}

void feed_all(struct manager *m) {
    SL_MAP_EACH (&m->workloads.by_key, e)
        feed_engine(m, e->value);
}

static void read_flags(struct manager *m, struct record *wl, const struct sl_json *object) {
    const struct sl_json *status = sl_json_get(object, "status");
    bool held = wl->holds;
    wl->owner_known = known_owner(object);
    wl->finished = sl_condition_is_true(object, SL_COND_FINISHED);
    wl->holds = !wl->finished && sl_condition_is_true(object, SL_COND_QUOTA_RESERVED) &&
                !sl_json_is_null(sl_json_get(status, "admission"));
    wl->admitted = wl->holds && sl_condition_is_true(object, SL_COND_ADMITTED);
    free(SL_TAKE(wl->told));
    const struct sl_json *reserved = sl_condition_find(sl_json_get(status, "conditions"), SL_COND_QUOTA_RESERVED);
    if (reserved && !wl->holds)
        wl->told = sl_xstrdup(sl_json_get_str(reserved, "reason", ""));
    if (held && !wl->holds)
        note_release(m, wl->uid,
                     wl->finished
                         ? sl_condition_reason(object, SL_COND_FINISHED)
                         : (sl_condition_is_true(object, SL_COND_EVICTED) ? sl_condition_reason(object, SL_COND_EVICTED)
                                                                          : "reservation withdrawn"));
}

static void forget_workload(struct manager *m, struct record *wl, const char *why) {
    struct record *job = job_of(m, wl);
    if (wl->in_engine)
        sl_engine_del_workload(m->engine, wl->uid);
    m->engine_dirty = true;
    if (wl->holds)
        note_release(m, wl->uid, why);
    mark_queues_of(m, wl);
    unrelate(&m->by_owner, wl->owner_uid, wl);
    store_remove(&m->workloads, wl, manager_now(m));
    if (job) {
        mark_dirty(m, job);
        mark_children(m, job);
    }
}

void workload_seen(struct manager *m, const struct sl_json *object) {
    const struct sl_json *meta = sl_json_get(object, "metadata");
    struct record *old =
        store_get(&m->workloads, sl_json_get_str(meta, "namespace", ""), sl_json_get_str(meta, "name", ""));
    if (old && old->gone && strcmp(old->uid, sl_json_get_str(meta, "uid", "")))
        forget_workload(m, old, "deleted and created anew by somebody");
    struct record *known = store_by_uid(&m->workloads, sl_json_get_str(meta, "uid", ""));
    SL_AUTO_FREE char *owner = sl_xstrdup(known ? known->owner_uid : NULL);
    bool changed;
    struct record *wl = store_put(&m->workloads, object, &changed);
    if (!wl || !changed)
        return;
    if (owner && (!wl->owner_uid || strcmp(owner, wl->owner_uid))) { /* taken from its job */
        struct record *job = store_by_uid(&m->jobs, owner);
        unrelate(&m->by_owner, owner, wl);
        if (job)
            mark_dirty(m, job);
    }
    mark_queues_of(m, wl);
    read_flags(m, wl, object);
    relate(&m->by_owner, wl->owner_uid, wl);
    feed_engine(m, wl);
    mark_pair(m, wl);
}

static bool job_stopped(const struct record *job) {
    SL_AUTO_JSON *tree = record_tree(job);
    return job->kind->suspended(tree) && job->kind->active_pods(tree) == 0;
}

void workload_gone(struct manager *m, const struct sl_json *object) {
    struct record *wl = store_by_uid(&m->workloads, sl_json_path_str(object, "metadata.uid", ""));
    if (!wl)
        return;
    struct record *job = job_of(m, wl);
    if (wl->holds && job && !job_stopped(job)) {
        wl->gone = true; /* its pods still run: the quota stays taken until they have stopped */
        mark_dirty(m, job);
        return;
    }
    forget_workload(m, wl, "deleted");
}

void job_seen(struct manager *m, const struct sl_jobkind *kind, const struct sl_json *object) {
    const struct record *known = store_by_uid(&m->jobs, sl_json_path_str(object, "metadata.uid", ""));
    SL_AUTO_FREE char *owner = sl_xstrdup(known ? known->owner_uid : NULL);
    bool changed;
    struct record *job = store_put(&m->jobs, object, &changed);
    if (!job || !changed)
        return;
    job->kind = kind;
    if (!job->first_seen_ms)
        job->first_seen_ms = manager_now(m);
    family_seen(m, job, object, owner);
    const struct owned *o = owned_of(m, job->uid);
    for (size_t i = 0; o && i < o->n; i++)
        if (!o->items[i]->in_engine)
            feed_engine(m, o->items[i]); /* it looked like an orphan before */
    mark_dirty(m, job);
}

void job_gone(struct manager *m, const struct sl_json *object) {
    struct record *job = store_by_uid(&m->jobs, sl_json_path_str(object, "metadata.uid", ""));
    if (!job)
        return;
    SL_AUTO_FREE char *uid = sl_xstrdup(job->uid);
    family_gone(m, job);
    store_remove(&m->jobs, job, manager_now(m));
    const struct owned *o = owned_of(m, uid);
    for (size_t i = o ? o->n : 0; i-- > 0;) {
        struct record *wl = o->items[i];
        bool last = o->n == 1;
        if (wl->gone) {
            forget_workload(m, wl, "job deleted");
        } else {
            mark_queues_of(m, wl);
            feed_engine(m, wl); /* an orphan now */
            mark_dirty(m, wl);
        }
        if (last)
            break; /* forget_workload may have freed the list */
    }
}

/* ---- creating ---- */

struct resolved_priority {
    const char *class_name;
    bool pod_class, missing;
    int32_t value;
};

static struct resolved_priority resolve_priority(const struct manager *m, const struct sl_json *job,
                                                 const struct sl_json *podsets) {
    struct resolved_priority p = {0};
    const char *name = sl_json_str(sl_json_get(sl_json_path(job, "metadata.labels"), SL_LABEL_PRIORITY_CLASS), "");
    const struct priority_class *found = NULL;
    if (*name) {
        found = sl_map_get(&m->workload_classes, name);
        p.class_name = name;
    } else if ((name = sl_job_pod_priority_class(podsets))) {
        found = sl_map_get(&m->pod_classes, name);
        p.class_name = name;
        p.pod_class = true;
    } else {
        SL_MAP_EACH (&m->pod_classes, e) {
            const struct priority_class *c = e->value;
            if (c->global_default && (!found || c->value < found->value)) {
                found = c;
                p.class_name = e->key;
                p.pod_class = true;
            }
        }
        if (!found)
            return p;
    }
    p.missing = !found;
    p.value = found ? found->value : 0;
    return p;
}

static void created(void *payload, const struct sl_reply *reply) {
    struct write *w = payload;
    struct manager *m = w->m;
    m->writes--;
    struct record *job = write_record(w);
    if (reply->code == SL_CANCELLED) {
        write_free(w);
        return;
    }
    if (job)
        job->busy = false;
    if (reply->code == 0 && reply->object) {
        if (job) {
            job->retries = 0;
            int64_t born;
            if (sl_json_path(reply->object, "metadata") &&
                sl_time_parse(sl_json_path_str(reply->object, "metadata.creationTimestamp", NULL), &born)) {
                SL_AUTO_JSON *tree = record_tree(job);
                int64_t job_born;
                if (sl_json_get_int(sl_json_get(tree, "metadata"), "generation", 0) == 1 &&
                    sl_time_parse(sl_json_path_str(tree, "metadata.creationTimestamp", NULL), &job_born))
                    sl_metric_observe(SL_M_WORKLOAD_CREATION_LATENCY_SECONDS, (double)(born - job_born) / 1000,
                                      SL_LABELS(job->kind->kind, replica_role(m)));
            }
        }
        workload_seen(m, reply->object);
        if (job)
            mark_dirty(m, job); /* the watch may have been first, when the job was still busy: its look is due now */
    } else if (job) {
        job->retries++;
        if (reply->code != SL_EXISTS) {
            SL_LOG(WARN, "workload cannot be created, trying again", SL_OBJ("job", job->ns, job->name),
                   SL_I64("status", reply->status), SL_STR("error", reply->text));
            job_event(m, job, true, "ErrWorkloadCompose", reply->text);
        } else if (job->retries > 1) {
            job_event(m, job, true, "WorkloadNameConflict",
                      "another object already has the name of this job's Workload");
        }
        set_deadline(m, job, manager_now(m) + retry_delay_ms(job->retries));
    }
    write_free(w);
}

int compose_workload(const struct manager *m, const struct record *job, const struct sl_json *tree,
                     struct sl_json **ret, struct sl_err *err) {
    SL_AUTO_JSON *podsets = NULL;
    int rc = job->kind->podsets(tree, &podsets, err);
    if (rc)
        return rc;
    struct resolved_priority p = resolve_priority(m, tree, podsets);
    if (p.missing)
        return sl_err_set(err, SL_NOT_FOUND, "%s %s does not exist; the job waits until it does",
                          p.pod_class ? "PriorityClass" : "WorkloadPriorityClass", p.class_name);
    struct sl_job_workload_input in = {.kind = job->kind,
                                       .job = tree,
                                       .label_keys_to_copy = m->label_keys,
                                       .priority_class = p.class_name,
                                       .pod_priority_class = p.pod_class,
                                       .priority = p.value};
    return sl_job_workload(&in, ret, err);
}

static void create_workload(struct manager *m, struct record *job, const struct sl_json *tree) {
    if (job->created_ms &&
        manager_now(m) <
            job->created_ms + CREATE_GAP_MS) { /* somebody removes it as fast as we make it: no race with them */
        set_deadline(m, job, job->created_ms + CREATE_GAP_MS);
        return;
    }
    struct sl_json *wl = NULL;
    struct sl_err err = SL_ERR_INIT;
    if (compose_workload(m, job, tree, &wl, &err)) {
        job_event(m, job, true, "ErrWorkloadCompose", err.text);
        return; /* what is missing causes the next look when it arrives */
    }
    struct write *w = sl_xalloc(sizeof *w);
    *w = (struct write){.m = m, .uid = sl_xstrdup(job->uid), .job = true, .what = "create workload"};
    job->created_ms = manager_now(m);
    job->busy = true;
    m->writes++;
    sl_cluster_send(m->c, &(struct sl_request){.verb = SL_CREATE,
                                               .resource = &sl_watched[SL_WATCHED_WORKLOADS],
                                               .ns = job->ns,
                                               .body = wl,
                                               .field_manager = "sluice",
                                               .lane = SL_LANE_DECISION,
                                               .done = created,
                                               .payload = w});
}

/* ---- one look ---- */

bool stop_saying(struct manager *m, struct record *job, const struct sl_json *tree, const struct sl_json *wl_tree,
                 const char *reason, const char *why) {
    struct sl_json *patch = NULL;
    enum sl_stop_step step = sl_job_stop_next(job->kind, tree, wl_tree, &patch);
    switch (step) {
    case SL_STOP_DONE: return false;
    case SL_STOP_WAIT: return true;
    case SL_STOP_SUSPEND: {
        struct write *w = send_patch(m, job, true, NULL, patch, "stop");
        w->event_reason = sl_xstrdup(reason);
        w->event_note = sl_xstrdup(why);
        return true;
    }
    case SL_STOP_RESET: send_patch(m, job, true, "status", patch, "reset start time"); return true;
    case SL_STOP_RESTORE: send_patch(m, job, true, NULL, patch, "restore template"); return true;
    }
    return false;
}

static bool stop_job(struct manager *m, struct record *job, const struct sl_json *tree, const struct sl_json *wl_tree,
                     const char *why) {
    return stop_saying(m, job, tree, wl_tree, "Stopped", why);
}

static bool stop_without_workload(struct manager *m, struct record *job, const struct sl_json *tree) {
    return stop_job(m, job, tree, NULL,
                    sl_job_start_noted(tree) ? "Missing Workload; restoring pod templates as they were before the start"
                                             : "Missing Workload; unable to restore pod templates");
}

static void start_job(struct manager *m, struct record *job, const struct sl_json *tree, struct record *wl,
                      const struct sl_json *wl_tree, const struct sl_workload *w) {
    struct sl_err err = SL_ERR_INIT;
    struct sl_json *patch = NULL;
    if (!job->kind->suspension_seen(tree) && manager_now(m) < job->first_seen_ms + SUSPENSION_WAIT_MS) {
        set_deadline(m, job,
                     job->first_seen_ms +
                         SUSPENSION_WAIT_MS); /* its own controller is about to say so: the next look is near */
        return;
    }
    SL_AUTO_JSON *infos = infos_of(m, wl, wl_tree, w, &err);
    int rc = infos ? job->kind->start_patch(tree, infos, &patch, &err) : (int)err.code;
    if (rc == SL_CONFLICT) { /* permanent: said on the Workload, and quota goes back */
        free(wl->failed_to_start);
        wl->failed_to_start = sl_xstrdup(err.text);
        mark_dirty(m, job);
        return;
    }
    if (rc) { /* a flavor is missing: its arrival causes the next look */
        SL_LOG(WARN, "job cannot be started yet", SL_OBJ("job", job->ns, job->name), SL_STR("error", err.text));
        set_deadline(m, job, manager_now(m) + 5000);
        return;
    }
    struct write *out = send_patch(m, job, true, NULL, patch, "start");
    out->event_reason = sl_xstrdup("Started");
    out->event_note = sl_xprintf("Admitted by clusterQueue %s", w->admission->cq);
}

/* spec of a Workload that holds no quota, rewritten to what its job says now. */
static bool rewrite_workload(struct manager *m, struct record *job, const struct sl_json *tree, struct record *wl,
                             const struct sl_json *wl_tree) {
    SL_AUTO_JSON *podsets = NULL;
    struct sl_err err = SL_ERR_INIT;
    if (job->kind->podsets(tree, &podsets, &err))
        return false;
    struct resolved_priority p = resolve_priority(m, tree, podsets);
    if (p.missing)
        return false;
    SL_AUTO_JSON *fresh = NULL;
    struct sl_job_workload_input in = {.kind = job->kind,
                                       .job = tree,
                                       .label_keys_to_copy = m->label_keys,
                                       .priority_class = p.class_name,
                                       .pod_priority_class = p.pod_class,
                                       .priority = p.value};
    if (sl_job_workload(&in, &fresh, &err))
        return false;
    struct sl_json *spec = sl_json_copy(sl_json_get(fresh, "spec"));
    SL_JSON_EACH (sl_json_get(wl_tree, "spec"), e) {
        if (!sl_json_get(spec, e.key) && strcmp(e.key, "active"))
            sl_json_set(spec, e.key, sl_json_new_null());
    }
    sl_json_del(spec, "active");
    struct sl_json *body = sl_json_new_object();
    sl_json_set(body, "spec", spec);
    send_patch(m, wl, false, NULL, body, "workload spec");
    SL_AUTO_FREE char *note = sl_xprintf("Updated not matching Workload for suspended job: %s", wl->key);
    job_event(m, job, false, "UpdatedWorkload", note);
    return true;
}

/* Queue, priority and gates follow the job's labels while they may. True when a write was sent. */
static bool sync_spec(struct manager *m, const struct record *job, const struct sl_json *tree, bool suspended,
                      struct record *wl, const struct sl_json *wl_tree, const struct sl_workload *w) {
    SL_AUTO_JSON *body = sl_json_new_object();
    const char *queue = sl_job_queue(tree);
    if (strcmp(queue, w->queue) && suspended && !wl->holds)
        sl_json_set_str(sl_json_make_object(body, "spec"), "queueName", queue);
    const char *label = sl_json_str(sl_json_get(sl_json_path(tree, "metadata.labels"), SL_LABEL_PRIORITY_CLASS), "");
    const struct priority_class *found = *label ? sl_map_get(&m->workload_classes, label) : NULL;
    if (found && !(w->priority_class && w->pod_priority_class) && !(wl->holds && !w->priority_class) &&
        (!w->priority_class || strcmp(w->priority_class, label))) {
        struct sl_json *spec = sl_json_make_object(body, "spec");
        sl_json_set_int(spec, "priority", found->value);
        struct sl_json *ref = sl_json_make_object(spec, "priorityClassRef");
        sl_json_set_str(ref, "group", SL_KUEUE_GROUP);
        sl_json_set_str(ref, "kind", "WorkloadPriorityClass");
        sl_json_set_str(ref, "name", label);
    }
    const char *gates =
        sl_json_str(sl_json_get(sl_json_path(tree, "metadata.annotations"), SL_ANNOTATION_ADMISSION_GATED_BY), NULL);
    const char *have =
        sl_json_str(sl_json_get(sl_json_path(wl_tree, "metadata.annotations"), SL_ANNOTATION_ADMISSION_GATED_BY), NULL);
    if ((gates && (!have || strcmp(gates, have))) || (!gates && have))
        sl_json_set(sl_json_make_object(sl_json_make_object(body, "metadata"), "annotations"),
                    SL_ANNOTATION_ADMISSION_GATED_BY, gates ? sl_json_new_str(gates) : sl_json_new_null());
    if (!sl_json_len(body))
        return false;
    (void)job;
    send_patch(m, wl, false, NULL, sl_json_ref(body), "workload spec");
    return true;
}

bool sync_class_value(struct manager *m, struct record *wl, const struct sl_workload *w) {
    if (!w->priority_class || w->pod_priority_class || w->finished.status == SL_TRI_TRUE)
        return false;
    const struct priority_class *c = sl_map_get(&m->workload_classes, w->priority_class);
    if (!c || c->value == w->priority)
        return false;
    send_patch(m, wl, false, NULL, sl_json_fromf("{'spec':{'priority':%d}}", c->value), "workload priority");
    return true;
}

static void count_reclaimable(const struct record *job, const struct sl_json *tree, const struct sl_workload *w,
                              int32_t *ret) {
    SL_AUTO_JSON *list = job->kind->reclaimable(tree);
    for (size_t i = 0; i < w->n_podsets; i++) {
        ret[i] = 0;
        SL_JSON_ITEMS (list, e) {
            if (!strcmp(sl_json_get_str(e.value, "name", ""), w->podsets[i].name))
                ret[i] = (int32_t)sl_json_get_int(e.value, "count", 0);
        }
        if (ret[i] > w->podsets[i].count)
            ret[i] = w->podsets[i].count;
    }
}

bool step_workload(struct manager *m, struct record *wl, const struct sl_json *wl_tree, const struct sl_workload *w,
                   const struct lc_facts *f) {
    const struct sl_json *old = sl_json_get(wl_tree, "status");
    SL_AUTO_JSON *status = old ? sl_json_copy(old) : sl_json_new_object();
    struct lc_result r;
    if (words_may_be_told(wl)) {
        SL_AUTO_JSON *said = words_take(wl);
        if (!wl->holds && !wl->finished && w->active && lc_may_be_tried(f)) {
            lc_pending(status, w, f, sl_json_get_str(said, "reason", "Pending"), sl_json_get_str(said, "message", ""),
                       sl_json_get(said, "requests"), &r);
            bool told = write_status(m, wl, wl_tree, status, WRITE_PENDING, &r);
            lc_result_done(&r);
            if (told)
                return true;
        }
    }
    lc_step(status, w, f, &r);
    if (r.deadline_ms >= 0)
        set_deadline(m, wl, r.deadline_ms);
    bool sent = r.changed && write_status(m, wl, wl_tree, status, WRITE_STATUS, &r);
    if (!sent && r.deactivate && w->active) {
        send_patch(m, wl, false, NULL, sl_json_from("{'spec':{'active':false}}"), "deactivation");
        sent = true;
    }
    static const char kept[] = "Kept as long as the configuration says (objectRetentionPolicies), then deleted";
    if (!sent && r.delete_workload) {
        send_delete(m, wl, false, "Background", "Deleted", kept);
        sent = true;
    }
    if (!sent && r.delete_job) {
        struct record *job = job_of(m, wl);
        if (job && !job->busy)
            send_delete(m, job, true, "Background", "Deleted", kept);
    }
    lc_result_done(&r);
    return sent;
}

struct pair { /* what a look at a job knows */
    struct record *job, *wl;
    const struct sl_json *tree;
    struct sl_json *wl_tree;
    struct sl_workload *w;
    bool suspended, stopped, finished, success;
    const char *message;
};

/* The job has quota or waits for it. */
static void sync_matching(struct manager *m, struct pair *p) {
    int32_t reclaimable[32];
    struct lc_facts f;
    collect_facts(m, p->wl, p->wl_tree, p->w, &f);
    f.has_job = true;
    f.job_finished = p->finished;
    f.job_success = p->success;
    f.job_message = p->message;
    f.job_stopped = p->stopped;
    f.job_ready = p->job->kind->pods_ready(p->tree);
    f.failed_to_start = p->wl->failed_to_start;
    if (p->w->n_podsets <= SL_COUNT(reclaimable)) {
        count_reclaimable(p->job, p->tree, p->w, reclaimable);
        f.job_reclaimable = reclaimable;
    }
    if (!p->finished &&
        (sync_spec(m, p->job, p->tree, p->suspended, p->wl, p->wl_tree, p->w) || sync_class_value(m, p->wl, p->w)))
        return;
    if (step_workload(m, p->wl, p->wl_tree, p->w, &f) || p->finished)
        return;
    bool evicted = p->w->evicted.status == SL_TRI_TRUE, finished = p->w->finished.status == SL_TRI_TRUE;
    bool run =
        p->wl->admitted && !evicted && !finished && p->w->active && p->w->deactivation_target.status != SL_TRI_TRUE;
    if (run && p->suspended && !sl_json_path(p->tree, "metadata.deletionTimestamp")) {
        start_job(m, p->job, p->tree, p->wl, p->wl_tree, p->w);
    } else if (!run && !p->suspended) {
        const char *why = evicted    ? sl_json_get_str(sl_condition_of(p->wl_tree, SL_COND_EVICTED), "message", "")
                          : finished ? "The workload is finished"
                                     : "Not admitted by cluster queue";
        stop_job(m, p->job, p->tree, p->wl_tree, why);
    }
}

/* The Workload says something else than its job. */
static void sync_mismatch(struct manager *m, struct pair *p, const char *prebuilt) {
    if (prebuilt) {
        struct lc_facts f;
        collect_facts(m, p->wl, p->wl_tree, p->w, &f);
        f.has_job = true;
        f.job_stopped = p->stopped;
        f.out_of_sync = "The prebuilt workload is out of sync with its user job";
        if (!step_workload(m, p->wl, p->wl_tree, p->w, &f) && !p->suspended)
            stop_job(m, p->job, p->tree, NULL, f.out_of_sync);
        return;
    }
    if (p->suspended && !p->wl->holds && p->w->finished.status != SL_TRI_TRUE) {
        rewrite_workload(m, p->job, p->tree, p->wl, p->wl_tree);
        return;
    }
    if (stop_job(m, p->job, p->tree, p->wl_tree,
                 "No matching Workload; restoring pod templates according to existent Workload"))
        return;
    SL_AUTO_FREE char *note = sl_xprintf("Deleted not matching Workload: %s", p->wl->key);
    job_event(m, p->job, false, "DeletedWorkload", note);
    send_delete(m, p->wl, false, "Background", NULL, NULL);
}

/* Its Workload lost the reference to it: taken off by hand it is put back; on the way of a deletion that leaves
 * dependents, the Workload is an orphan already. */
static void look_at_left_behind(struct manager *m, const struct pair *p, const char *prebuilt) {
    if (p->wl->busy)
        return; /* its answer causes the next look */
    if (sl_json_path(p->tree, "metadata.deletionTimestamp"))
        sync_orphan(m, p->wl);
    else if (!p->wl->finished || prebuilt)
        reclaim(m, p->job, p->wl);
    else if (!stop_without_workload(m, p->job, p->tree))
        send_delete(m, p->wl, false, "Background", NULL, NULL); /* has the name of the one that is made next */
}

/* A Workload of the name that only this job's can have, and of nobody: even its label is gone. */
static struct record *nameless(const struct manager *m, const struct record *job) {
    SL_AUTO_FREE char *name =
        sl_job_workload_name(job->kind->kind, job->kind->group, job->name, job->uid, NULL, WORKLOAD_NAME_MAX);
    struct record *wl = store_get(&m->workloads, job->ns, name);
    return wl && !wl->owner_uid && !wl->gone ? wl : NULL;
}

static void look_from(struct manager *m, struct record *job, const struct sl_json *tree, const struct standing *s) {
    struct pair p = {.job = job, .tree = tree, .message = ""};
    const char *prebuilt = job->kind->prebuilt ? sl_job_prebuilt(tree) : NULL;
    const struct owned *o = owned_of(m, job->uid);
    for (size_t i = 0; o && i < o->n; i++) {
        struct record *wl = o->items[i];
        if (wl->busy)
            return; /* its answer causes the next look */
        if (!p.wl || p.wl->finished || p.wl->left_behind || (prebuilt && !strcmp(wl->name, prebuilt)))
            p.wl = wl;
    }
    p.finished = job->kind->finished(tree, &p.success, &p.message);
    p.suspended = job->kind->suspended(tree);
    p.stopped = p.suspended && job->kind->active_pods(tree) == 0;
    bool managed = s->place != STANDING_NOWHERE;
    if (!p.suspended && !p.finished && managed &&
        sl_json_get(sl_json_path(tree, "metadata.annotations"), SL_ANNOTATION_STOPPING)) {
        SL_AUTO_JSON *original =
            p.wl ? record_tree(p.wl) : NULL; /* a stop once begun is brought to its end, whatever its reason was */
        if (stop_job(m, job, tree, original, ""))
            return;
    }
    if (p.wl && p.wl->gone) { /* deleted by somebody: the job stops, and only then is the quota free */
        SL_AUTO_JSON *ghost = record_tree(p.wl);
        if (managed && !p.finished && stop_job(m, job, tree, ghost, "Workload is deleted"))
            return;
        forget_workload(m, p.wl, "deleted"); /* causes the next look */
        return;
    }
    if (!p.finished && (s->place == STANDING_HELD || s->queue)) {
        hold_child(m, job, p.wl, tree, s);
        return;
    }
    if (!managed) {
        SL_AUTO_JSON *left = p.wl && !p.wl->finished && !p.finished ? record_tree(p.wl) : NULL;
        if (left && !drop_finalizer(m, p.wl, left))
            send_delete(m, p.wl, false, "Background", NULL, NULL); /* a job that left its queue must not take quota */
        return;
    }
    if (!p.wl && !prebuilt && !p.finished)
        p.wl = nameless(m, job);
    if (p.wl && (p.wl->left_behind || !p.wl->owner_uid) && !(p.finished && p.wl->finished)) {
        look_at_left_behind(m, &p, prebuilt);
        return;
    }
    if (!p.wl && (p.finished || sl_json_path(tree, "metadata.deletionTimestamp")))
        return; /* one that is deleted without its dependents leaves its pods running */
    if (!p.wl && prebuilt && !(p.wl = adopt_prebuilt(m, job, prebuilt))) {
        if (!p.suspended)
            stop_job(m, job, tree, NULL, "missing workload");
        return;
    }
    if (!p.wl) {
        if (stop_without_workload(m, job, tree))
            return;
        if (p.stopped && !sl_json_path(tree, "metadata.deletionTimestamp"))
            create_workload(m, job, tree);
        return;
    }
    for (size_t i = 0; i < o->n; i++) { /* one job, one Workload */
        if (o->items[i] != p.wl && !o->items[i]->finished) {
            send_delete(m, o->items[i], false, "Background", NULL, NULL);
            return;
        }
    }
    p.wl_tree = record_tree(p.wl);
    p.w = decode_workload(m, p.wl, p.wl_tree);
    if (p.w && p.w->deleting && !p.wl->holds) {
        drop_finalizer(m, p.wl, p.wl_tree);
    } else if (p.w && p.w->deleting) {
        if (p.finished || !stop_job(m, job, tree, p.wl_tree, "Workload is deleted"))
            drop_finalizer(m, p.wl, p.wl_tree);
    } else if (p.w) {
        struct sl_err err = SL_ERR_INIT;
        SL_AUTO_JSON *infos = p.wl->holds ? infos_of(m, p.wl, p.wl_tree, p.w, &err) : NULL;
        bool undecidable = p.wl->holds && !infos &&
                           err.code != SL_CONFLICT; /* a flavor is missing: no comparison is better than a wrong one */
        if (p.finished || p.w->finished.status == SL_TRI_TRUE || undecidable ||
            sl_job_equivalent(job->kind, tree, p.wl_tree, infos))
            sync_matching(m, &p);
        else
            sync_mismatch(m, &p, prebuilt);
    }
    sl_json_unref(p.wl_tree);
    sl_workload_free(p.w);
}

static void sync_job(struct manager *m, struct record *job) {
    if (job->busy)
        return;
    SL_AUTO_JSON *tree = record_tree(job);
    struct standing s = standing_of(m, job, tree);
    look_from(m, job, tree, &s);
    standing_done(&s);
}

/* A Workload of nobody, to the jobs that wait for one of its name. True when one takes it. */
static bool offer(struct manager *m, const struct record *wl) {
    const struct owned *o = related(&m->by_wanted, wl->key);
    for (size_t i = 0; o && i < o->n && !wl->busy; i++)
        sync_job(m, o->items[i]);
    return wl->busy;
}

void sync_record(struct manager *m, struct record *r) {
    if (r->kind) {
        sync_job(m, r);
        return;
    }
    struct record *job = job_of(m, r);
    if (job)
        sync_job(m, job);
    else if (!offer(m, r))
        sync_orphan(m, r);
}
