/*
 * Writes of Jobs and Workloads, and what their answers mean. One write at a time on an object; each carries the
 * resourceVersion it was made for. A write that was refused or not answered is followed by a read: the newest state
 * decides, and only then is a decision of the engine taken back, or found to have been written.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "manager.h"
#include "sluice/api/conditions.h"
#include "sluice/api/names.h"
#include "sluice/base/log.h"
#include "sluice/base/mem.h"

#define JOB_CONTROLLER_SUFFIX "-kueue-controller"

struct record *write_record(const struct write *w) {
    return store_by_uid(w->job ? &w->m->jobs : &w->m->workloads, w->uid);
}

void write_free(struct write *w) {
    lc_result_done(&w->result);
    free(w->uid);
    free(w->event_reason);
    free(w->event_note);
    if (w->deleted) {
        free(w->deleted->ns);
        free(w->deleted->name);
        free(w->deleted->uid);
        free(w->deleted);
    }
    sl_json_unref(w->said);
    free(w);
}

void emit_event(struct manager *m, const char *controller, const char *api_version, const char *kind,
                const struct record *about, bool warning, const char *reason, const char *note) {
    if (!m->events)
        return;
    SL_AUTO_JSON *regarding = sl_json_new_object();
    sl_json_set_str(regarding, "apiVersion", api_version);
    sl_json_set_str(regarding, "kind", kind);
    struct sl_json *meta = sl_json_make_object(regarding, "metadata");
    sl_json_set_str(meta, "namespace", about->ns);
    sl_json_set_str(meta, "name", about->name);
    sl_json_set_str(meta, "uid", about->uid);
    if (about->rv)
        sl_json_set_str(meta, "resourceVersion", about->rv);
    sl_events_emit(m->events, controller, regarding, warning, reason, reason, note);
}

void job_event(struct manager *m, const struct record *job, bool warning, const char *reason, const char *note) {
    SL_AUTO_FREE char *controller = sl_xprintf("%s%s", job->kind->integration, JOB_CONTROLLER_SUFFIX);
    SL_AUTO_FREE char *api =
        *job->kind->group ? sl_xprintf("%s/%s", job->kind->group, job->kind->version) : sl_xstrdup(job->kind->version);
    emit_event(m, controller, api, job->kind->kind, job, warning, reason, note);
}

int64_t retry_delay_ms(unsigned retries) {
    return retries > 8 ? 60000 : (int64_t)250 << retries;
}

static void reread(struct manager *m, struct record *r, bool job);

/* An eviction was decided while another write was under way. The engine has seen by now what came of that one. */
static void evict_again(struct manager *m, struct record *r) {
    if (!r || !r->evict_again)
        return;
    r->evict_again = false;
    if (r->holds) /* otherwise there is nothing to evict any more */
        sl_engine_write_failed(m->engine, r->uid, false);
    m->engine_dirty = true;
}

/* A deletion may be seen before its answer comes: what is said of it needs nothing but the write itself. */
static void say_deleted(const struct write *w) {
    if (w->job)
        job_event(w->m, w->deleted, false, w->event_reason, w->event_note);
    else
        emit_event(w->m, "kueue-workload-controller", SL_KUEUE_API, "Workload", w->deleted, false, w->event_reason,
                   w->event_note);
}

static void written(void *payload, const struct sl_reply *reply) {
    struct write *w = payload;
    struct manager *m = w->m;
    m->writes--;
    struct record *r = write_record(w);
    if (reply->code == 0 && w->deleted)
        say_deleted(w);
    if (reply->code == SL_CANCELLED || !r) {
        if (reply->code != SL_CANCELLED && !w->job && w->kind == WRITE_ADMIT)
            sl_engine_write_failed(m->engine, w->uid, true);
        write_free(w);
        return;
    }
    bool decision = w->kind == WRITE_ADMIT || w->kind == WRITE_EVICT || w->kind == WRITE_PENDING;
    r->busy = false;
    r->deciding = false;
    if (reply->code == 0) {
        r->retries = 0;
        if (w->kind == WRITE_ADMIT)
            note_outcome(m, w->uid, SL_LEDGER_WRITTEN);
        struct record *about = r;
        if (!w->job) {
            SL_AUTO_JSON *tree = record_tree(r);
            struct sl_workload *view = decode_workload(m, r, tree);
            if (view)
                observe_result(m, r, view, &w->result);
            sl_workload_free(view);
        }
        if (w->event_reason && !w->deleted)
            job_event(m, about, false, w->event_reason, w->event_note);
        for (size_t i = 0; i < w->result.n_events; i++)
            emit_event(m, decision ? "kueue-admission" : "kueue-workload-controller", SL_KUEUE_API, "Workload", about,
                       w->result.events[i].warning, w->result.events[i].reason, w->result.events[i].note);
        const struct record *preemptor =
            w->result.preemptor_uid ? store_by_uid(&m->workloads, w->result.preemptor_uid) : NULL;
        if (preemptor) {
            SL_AUTO_FREE char *note =
                sl_xprintf("Preempted %s/%s (UID: %s): %s", r->ns, r->name, r->uid, w->result.preempted_reason);
            emit_event(m, "kueue-admission", SL_KUEUE_API, "Workload", preemptor, false, "PreemptedWorkload", note);
        }
        if (reply->object) {
            if (w->job)
                job_seen(m, r->kind, reply->object);
            else
                workload_seen(m, reply->object);
        }
        r = write_record(w);
        if (r && decision)
            feed_engine(m, r); /* also when the answer told nothing new */
        evict_again(m, r);
        if (r && w->job)
            mark_dirty(m, r);
        else if (r)
            mark_pair(m, r);
        write_free(w);
        return;
    }
    if (reply->code != SL_CONFLICT && reply->code != SL_NOT_FOUND)
        SL_LOG(WARN, "write failed, trying again", SL_STR("what", w->what), SL_OBJ("object", r->ns, r->name),
               SL_I64("status", reply->status), SL_STR("error", reply->text));
    if (w->kind == WRITE_ADMIT)
        note_outcome(m, w->uid, reply->unknown ? SL_LEDGER_UNKNOWN : SL_LEDGER_REFUSED);
    if (w->said && !r->said)
        r->said = SL_TAKE(w->said); /* the engine says it only once: we say it again */
    /* The newest state decides what to do: read it, and only then take the decision back (or find that it was written).
     */
    if (decision)
        r->deciding = true;
    r->retries++;
    r->raced = reply->code == SL_CONFLICT; /* somebody else wrote: no reason to wait, unless it goes on and on */
    reread(m, r, w->job);
    write_free(w);
}

static void reread_done(void *payload, const struct sl_reply *reply) {
    struct write *w = payload;
    struct manager *m = w->m;
    m->writes--;
    struct record *r = write_record(w);
    if (reply->code == SL_CANCELLED || !r) {
        write_free(w);
        return;
    }
    r->busy = false;
    bool was_deciding = r->deciding;
    r->deciding = false;
    const char *uid = reply->code ? w->uid : sl_json_path_str(reply->object, "metadata.uid", "");
    if (reply->code == SL_NOT_FOUND || strcmp(uid, w->uid) != 0) { /* another one of its name: ours is no more */
        if (was_deciding)
            sl_engine_write_failed(m->engine, w->uid, true);
        m->engine_dirty = true;
        if (!w->job) {
            SL_AUTO_JSON *ghost = record_tree(r);
            workload_gone(m, ghost);
        } else {
            SL_AUTO_JSON *ghost = record_tree(r);
            job_gone(m, ghost);
        }
        write_free(w);
        return;
    }
    if (reply->code) { /* nothing is known yet: ask again later */
        r->busy = r->unread = true;
        r->deciding = was_deciding;
        r->retries++;
        set_deadline(m, r, manager_now(m) + retry_delay_ms(r->retries));
        write_free(w);
        return;
    }
    if (w->job)
        job_seen(m, r->kind, reply->object);
    else
        workload_seen(m, reply->object);
    r = write_record(w);
    if (r && was_deciding) {
        feed_engine(m, r);
        sl_engine_write_failed(m->engine, r->uid, false); /* no effect on what the object shows to have happened */
        m->engine_dirty = true;
    }
    evict_again(m, r);
    if (r && r->retries > (r->raced ? 5u : 1u))
        set_deadline(m, r, manager_now(m) + retry_delay_ms(r->retries));
    else if (r && w->job)
        mark_dirty(m, r);
    else if (r)
        mark_pair(m, r);
    write_free(w);
}

const struct sl_resource *resource_for(const struct record *r, bool job) {
    if (!job)
        return &sl_watched[SL_WATCHED_WORKLOADS];
    for (size_t i = 0; i < SL_WATCHED__COUNT; i++) /* rows outlive the request */
        if (!strcmp(sl_watched[i].plural, r->kind->resource) && !strcmp(sl_watched[i].group, r->kind->group))
            return &sl_watched[i];
    return NULL;
}

static void reread(struct manager *m, struct record *r, bool job) {
    struct write *w = sl_xalloc(sizeof *w);
    *w = (struct write){.m = m, .uid = sl_xstrdup(r->uid), .job = job, .what = "read"};
    r->busy = true;
    r->unread = false;
    m->writes++;
    sl_cluster_send(m->c, &(struct sl_request){.verb = SL_GET,
                                               .resource = resource_for(r, job),
                                               .ns = r->ns,
                                               .name = r->name,
                                               .lane = SL_LANE_DECISION,
                                               .done = reread_done,
                                               .payload = w});
}

/* The reading failed too, and its time has come again. */
void retry_read(struct manager *m, struct record *r) {
    reread(m, r, r->kind != NULL);
}

/* Sends a merge patch of a record that nobody else is writing now; takes body. */
struct write *send_patch(struct manager *m, struct record *r, bool job, const char *subresource, struct sl_json *take,
                         const char *what) {
    struct sl_json *meta = sl_json_make_object(take, "metadata");
    sl_json_set_str(meta, "resourceVersion", r->rv);
    sl_json_set_str(meta, "uid", r->uid);
    struct write *w = sl_xalloc(sizeof *w);
    *w = (struct write){.m = m, .uid = sl_xstrdup(r->uid), .job = job, .what = what};
    r->busy = true;
    m->writes++;
    sl_cluster_send(m->c, &(struct sl_request){.verb = SL_MERGE_PATCH,
                                               .resource = resource_for(r, job),
                                               .ns = r->ns,
                                               .name = r->name,
                                               .subresource = subresource,
                                               .body = take,
                                               .field_manager = job ? "sluice" : "kueue-admission",
                                               .lane = SL_LANE_DECISION,
                                               .done = written,
                                               .payload = w});
    return w;
}

bool write_status(struct manager *m, struct record *wl, const struct sl_json *tree, const struct sl_json *now,
                  enum write_kind kind, struct lc_result *result) {
    struct sl_json *patch = lc_status_patch(sl_json_get(tree, "status"), now);
    if (!patch)
        return false;
    struct sl_json *body = sl_json_new_object();
    sl_json_set(body, "status", patch);
    static const char *const what[] = {"workload status", "admission", "eviction", "reason of waiting"};
    struct write *w = send_patch(m, wl, false, "status", body, what[kind]);
    w->kind = kind;
    if (kind == WRITE_PENDING) {
        const struct sl_json *c = sl_condition_find(sl_json_get(now, "conditions"), SL_COND_QUOTA_RESERVED);
        w->said = words_new(sl_json_get_str(c, "reason", ""), sl_json_get_str(c, "message", ""),
                            sl_json_get(now, "resourceRequests"));
    }
    w->result = *result;
    *result = (struct lc_result){.deadline_ms = -1};
    wl->deciding = kind != WRITE_STATUS;
    return true;
}

void send_delete(struct manager *m, struct record *r, bool job, const char *propagation, const char *reason,
                 const char *note) {
    struct write *w = sl_xalloc(sizeof *w);
    *w = (struct write){.m = m,
                        .uid = sl_xstrdup(r->uid),
                        .job = job,
                        .what = "delete",
                        .event_reason = sl_xstrdup(reason),
                        .event_note = sl_xstrdup(note)};
    if (reason) {
        w->deleted = sl_xalloc(sizeof *w->deleted);
        *w->deleted = (struct record){
            .ns = sl_xstrdup(r->ns), .name = sl_xstrdup(r->name), .uid = sl_xstrdup(r->uid), .kind = r->kind};
    }
    r->busy = true;
    m->writes++;
    SL_AUTO_FREE char *text =
        sl_xprintf("{'preconditions':{'uid':'%s'},'propagationPolicy':'%s'}", r->uid, propagation);
    sl_cluster_send(m->c, &(struct sl_request){.verb = SL_DELETE,
                                               .resource = resource_for(r, job),
                                               .ns = r->ns,
                                               .name = r->name,
                                               .body = sl_json_from(text),
                                               .lane = SL_LANE_DECISION,
                                               .done = written,
                                               .payload = w});
}
