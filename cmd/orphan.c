/*
 * Workloads whose job is not there. A Workload holds its quota as long as its object says so; so that a job's quota
 * comes back at once when the job is deleted, its Workload is finished by us, and removed when the garbage collector
 * has not done so. None of that happens on the word of a watch alone that has not shown the job: it may be behind. The
 * job is gone when its deletion was seen, or when the API server was asked and says so.
 *
 * One whose reference was taken off stays (nobody collects it): finished when the job goes, and given back to a job
 * that lives on.
 */
#include <stdlib.h>
#include <string.h>

#include "manager.h"
#include "sluice/api/names.h"
#include "sluice/base/log.h"
#include "sluice/base/mem.h"

#define COLLECTOR_GRACE_MS 5000 /* how long the garbage collector gets to remove what holds nothing */
#define ASK_AGAIN_MS       5000 /* the job is there, but the watch has not shown it yet */

static const struct sl_jobkind *kind_of_owner(const struct sl_json *workload) {
    SL_JSON_ITEMS (sl_json_path(workload, "metadata.ownerReferences"), o) {
        if (sl_json_get_bool(o.value, "controller", false))
            return sl_jobkind_of(o.value);
    }
    return NULL;
}

bool known_owner(const struct sl_json *workload) {
    return kind_of_owner(workload) != NULL;
}

bool orphaned(const struct manager *m, const struct record *wl) {
    return m->synced && (wl->left_behind || wl->owner_known) && !job_of(m, wl);
}

/* ---- is the job really gone, is it really there? ---- */

static const struct sl_resource *resource_of_kind(const struct sl_jobkind *k) {
    for (size_t i = 0; i < SL_WATCHED__COUNT; i++)
        if (!strcmp(sl_watched[i].plural, k->resource) && !strcmp(sl_watched[i].group, k->group))
            return &sl_watched[i];
    return NULL;
}

struct question { /* about the job of a Workload; while it is asked, nothing else is done about either */
    struct manager *m;
    char *workload_uid, *job_uid;
    const struct sl_jobkind *kind;
    bool reclaim;
};

static void own(struct manager *m, const struct record *job, struct record *wl);

static void set_asking(struct record *r, bool asking) {
    if (r)
        r->busy = asking;
}

static void judge(struct question *q, const struct sl_reply *reply) {
    struct manager *m = q->m;
    struct record *wl = store_by_uid(&m->workloads, q->workload_uid), *job = store_by_uid(&m->jobs, q->job_uid);
    bool there = reply->code == 0 && !strcmp(sl_json_path_str(reply->object, "metadata.uid", ""), q->job_uid);
    set_asking(wl, false);
    set_asking(job, false);
    if (wl && (reply->code == 0 || reply->code == SL_NOT_FOUND))
        wl->retries = 0;
    if (there) {
        job_seen(m, q->kind, reply->object);
        job = store_by_uid(&m->jobs, q->job_uid);
        if (wl && q->reclaim && job && !wl->gone && !sl_json_path(reply->object, "metadata.deletionTimestamp"))
            own(m, job, wl);
        else if (wl && !job)
            set_deadline(m, wl, manager_now(m) + ASK_AGAIN_MS);
        else if (wl)
            mark_pair(m, wl);
        else if (job)
            mark_dirty(m, job); /* its Workload went while it was busy with this */
    } else if (reply->code == 0 || reply->code == SL_NOT_FOUND) {
        if (wl)
            wl->owner_gone = true;
        if (job) {
            SL_AUTO_JSON *ghost = record_tree(job);
            job_gone(m, ghost);
        } else if (wl) {
            mark_dirty(m, wl);
        }
    } else if (wl) {
        set_deadline(m, wl, manager_now(m) + retry_delay_ms(++wl->retries));
    } else if (job) {
        mark_dirty(m, job);
    }
}

static void answered(void *payload, const struct sl_reply *reply) {
    struct question *q = payload;
    q->m->writes--;
    if (reply->code != SL_CANCELLED)
        judge(q, reply);
    free(q->workload_uid);
    free(q->job_uid);
    free(q);
}

/* Asks the API server for the job; job: as we know it, NULL when we do not. */
static void ask(struct manager *m, struct record *wl, struct record *job, const struct sl_jobkind *kind,
                const char *name) {
    struct question *q = sl_xalloc(sizeof *q);
    *q = (struct question){m, sl_xstrdup(wl->uid), sl_xstrdup(job ? job->uid : wl->owner_uid), kind, job != NULL};
    set_asking(wl, true);
    set_asking(job, true);
    m->writes++;
    sl_cluster_send(m->c, &(struct sl_request){.verb = SL_GET,
                                               .resource = resource_of_kind(kind),
                                               .ns = wl->ns,
                                               .name = name,
                                               .lane = SL_LANE_DECISION,
                                               .done = answered,
                                               .payload = q});
}

/* ---- a reference to the job ---- */

static void own(struct manager *m, const struct record *job, struct record *wl) {
    SL_AUTO_JSON *tree = record_tree(wl);
    struct sl_json *body = sl_json_new_object(), *meta = sl_json_make_object(body, "metadata");
    struct sl_json *owners = sl_json_copy(sl_json_path(tree, "metadata.ownerReferences"));
    if (!owners)
        owners = sl_json_new_array();
    struct sl_json *owner = sl_json_new_object();
    SL_AUTO_FREE char *api = sl_xprintf("%s%s%s", job->kind->group, *job->kind->group ? "/" : "", job->kind->version);
    sl_json_set_str(owner, "apiVersion", api);
    sl_json_set_str(owner, "kind", job->kind->kind);
    sl_json_set_str(owner, "name", job->name);
    sl_json_set_str(owner, "uid", job->uid);
    sl_json_set_bool(owner, "controller", true);
    sl_json_set_bool(owner, "blockOwnerDeletion", true);
    sl_json_append(owners, owner);
    sl_json_set(meta, "ownerReferences", owners);
    sl_json_set_str(sl_json_make_object(meta, "labels"), SL_LABEL_JOB_UID, job->uid);
    send_patch(m, wl, false, NULL, body, "adoption");
}

void reclaim(struct manager *m, struct record *job, struct record *wl) {
    if (!job->busy && !wl->busy)
        ask(m, wl, job, job->kind, job->name); /* the collector takes references before a deletion is seen here */
}

struct record *adopt_prebuilt(struct manager *m, struct record *job, const char *name) {
    struct record *wl = store_get(&m->workloads, job->ns, name);
    if (!wl || wl->busy || wl->gone)
        return NULL;
    if (wl->owner_uid && !(wl->left_behind && !job_of(m, wl)))
        return !strcmp(wl->owner_uid, job->uid) ? wl : NULL;
    own(m, job, wl);
    return NULL;
}

/* ---- finalizers ---- */

static bool has_our_finalizer(const struct sl_json *tree) {
    SL_JSON_ITEMS (sl_json_path(tree, "metadata.finalizers"), f) {
        if (!strcmp(sl_json_str(f.value, ""), SL_FINALIZER_IN_USE))
            return true;
    }
    return false;
}

/* Workloads that another controller of this API left behind carry a finalizer; ours have none. */
bool drop_finalizer(struct manager *m, struct record *wl, const struct sl_json *wl_tree) {
    if (!has_our_finalizer(wl_tree))
        return false;
    struct sl_json *body = sl_json_new_object(),
                   *list = sl_json_make_array(sl_json_make_object(body, "metadata"), "finalizers");
    SL_JSON_ITEMS (sl_json_path(wl_tree, "metadata.finalizers"), f) {
        if (strcmp(sl_json_str(f.value, ""), SL_FINALIZER_IN_USE))
            sl_json_append(list, sl_json_new_str(sl_json_str(f.value, "")));
    }
    send_patch(m, wl, false, NULL, body, "finalizer");
    return true;
}

/* ---- one look ---- */

/* Its job is gone, and it is not left behind: nobody needs it any more. True when something was sent or is due. */
static bool remove_when_due(struct manager *m, struct record *wl, const struct sl_json *tree, bool deleting) {
    int64_t now = manager_now(m);
    if (wl->orphan_since_ms == 0)
        wl->orphan_since_ms = now;
    if (wl->holds) /* finished at once; what is left of it can wait */
        return false;
    if (deleting)
        return drop_finalizer(m, wl, tree);
    if (wl->orphan_since_ms + COLLECTOR_GRACE_MS > now)
        set_deadline(m, wl, wl->orphan_since_ms + COLLECTOR_GRACE_MS);
    else
        send_delete(m, wl, false, "Background", NULL, NULL);
    return true;
}

static void look(struct manager *m, struct record *wl, const struct sl_json *tree, const struct sl_workload *w) {
    struct lc_facts f;
    collect_facts(m, wl, tree, w, &f);
    if (orphaned(m, wl) || wl->left_behind) {
        wl->owner_gone |= wl->left_behind || store_knew(&m->jobs, wl->owner_uid) || !wl->owner_name;
        if (!wl->owner_gone) {
            ask(m, wl, NULL, kind_of_owner(tree), wl->owner_name);
            return;
        }
        if (!wl->left_behind && remove_when_due(m, wl, tree, w->deleting))
            return;
        f.orphan = true;
    }
    if (!(w->deleting && drop_finalizer(m, wl, tree)) && !sync_class_value(m, wl, w))
        step_workload(m, wl, tree, w, &f);
}

void sync_orphan(struct manager *m, struct record *wl) {
    if (wl->busy || wl->gone)
        return;
    SL_AUTO_JSON *tree = record_tree(wl);
    struct sl_workload *w = decode_workload(m, wl, tree);
    if (w)
        look(m, wl, tree, w);
    sl_workload_free(w);
}
