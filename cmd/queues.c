/*
 * Flavors, cohorts, ClusterQueues, LocalQueues and AdmissionChecks: what the manager knows of them, their finalizers
 * and statuses, the gauges that show them, and the snapshot that the webhooks read. Statuses are derived from the
 * engine's books and written only when they differ from what the object says, after a quiet moment: under load they
 * must not crowd out admissions.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "manager.h"
#include "sluice/api/conditions.h"
#include "sluice/api/names.h"
#include "sluice/api/quantity.h"
#include "sluice/base/log.h"
#include "sluice/base/mem.h"
#include "sluice/base/metrics.h"

#define MAX_STATUS_FLAVORS 64 /* the schema's limit of the lists */

static void free_spec(struct object *o) {
    switch (o->resource - sl_watched) {
    case SL_WATCHED_CLUSTERQUEUES: sl_clusterqueue_free(o->cq); break;
    case SL_WATCHED_LOCALQUEUES: sl_localqueue_free(o->lq); break;
    case SL_WATCHED_COHORTS: sl_cohort_free(o->cohort); break;
    case SL_WATCHED_RESOURCEFLAVORS: sl_flavor_free(o->flavor); break;
    case SL_WATCHED_ADMISSIONCHECKS: sl_admissioncheck_free(o->check); break;
    }
    o->cq = NULL;
}

static void object_free(void *p) {
    struct object *o = p;
    if (!o)
        return;
    free_spec(o);
    free(o->key);
    free(o->ns);
    free(o->name);
    free(o->uid);
    free(o->rv);
    sl_json_unref(o->finalizers);
    free(o->status_text);
    free(o);
}

void objects_done(struct manager *m) {
    struct sl_map *maps[] = {&m->flavors, &m->cohorts, &m->cqs, &m->lqs, &m->checks};
    for (size_t i = 0; i < SL_COUNT(maps); i++)
        sl_map_done(maps[i], object_free);
}

static struct sl_map *map_of(struct manager *m, const struct sl_resource *resource) {
    switch (resource - sl_watched) {
    case SL_WATCHED_CLUSTERQUEUES: return &m->cqs;
    case SL_WATCHED_LOCALQUEUES: return &m->lqs;
    case SL_WATCHED_COHORTS: return &m->cohorts;
    case SL_WATCHED_RESOURCEFLAVORS: return &m->flavors;
    case SL_WATCHED_ADMISSIONCHECKS: return &m->checks;
    }
    return NULL;
}

struct object *localqueue_of(const struct manager *m, const char *ns, const char *name) {
    char key[640];
    if (snprintf(key, sizeof key, "%s/%s", ns, name) >= (int)sizeof key)
        return NULL;
    return sl_map_get(&m->lqs, key);
}

const struct sl_flavor *manager_flavor(void *arg, const char *name) {
    struct manager *m = arg;
    struct object *o = sl_map_get(&m->flavors, name);
    return o ? o->flavor : NULL;
}

/* Both decodes of one object: one for the engine to own, one for us. */
static int decode_both(const struct sl_resource *resource, const struct sl_json *object, struct object *o,
                       void **ret_engine, struct sl_err *err) {
    int rc = 0;
    struct object fresh = {.resource = resource};
#define DECODE(member, type, decode)                                                                                   \
    do {                                                                                                               \
        struct type *mine = NULL, *theirs = NULL;                                                                      \
        rc = decode(object, &mine, err);                                                                               \
        if (!rc && decode(object, &theirs, err))                                                                       \
            rc = SL_INTERNAL;                                                                                          \
        fresh.member = mine;                                                                                           \
        *ret_engine = theirs;                                                                                          \
    } while (0)
    switch (resource - sl_watched) {
    case SL_WATCHED_CLUSTERQUEUES: DECODE(cq, sl_clusterqueue, sl_clusterqueue_decode); break;
    case SL_WATCHED_LOCALQUEUES: DECODE(lq, sl_localqueue, sl_localqueue_decode); break;
    case SL_WATCHED_COHORTS: DECODE(cohort, sl_cohort, sl_cohort_decode); break;
    case SL_WATCHED_RESOURCEFLAVORS: DECODE(flavor, sl_flavor, sl_flavor_decode); break;
    case SL_WATCHED_ADMISSIONCHECKS: DECODE(check, sl_admissioncheck, sl_admissioncheck_decode); break;
    default: return sl_err_set(err, SL_INTERNAL, "no such kind of object");
    }
#undef DECODE
    if (rc) {
        free_spec(&fresh);
        return rc;
    }
    free_spec(o);
    o->cq = fresh.cq; /* every member of the union is one pointer */
    return 0;
}

static void feed_object(struct manager *m, const struct sl_resource *resource, void *take) {
    switch (resource - sl_watched) {
    case SL_WATCHED_CLUSTERQUEUES: sl_engine_put_clusterqueue(m->engine, take); break;
    case SL_WATCHED_LOCALQUEUES: sl_engine_put_localqueue(m->engine, take); break;
    case SL_WATCHED_COHORTS: sl_engine_put_cohort(m->engine, take); break;
    case SL_WATCHED_RESOURCEFLAVORS: sl_engine_put_flavor(m->engine, take); break;
    case SL_WATCHED_ADMISSIONCHECKS: sl_engine_put_check(m->engine, take); break;
    }
    m->engine_dirty = m->snapshot_dirty = true;
}

/* A queue changed: everything that waits or runs in it may have to say something else. */
static void touch_workloads(struct manager *m) {
    SL_MAP_EACH (&m->workloads.by_key, e) {
        struct record *wl = e->value;
        if (!wl->finished)
            mark_dirty(m, wl);
    }
}

static void touch_queues(struct manager *m) {
    SL_MAP_EACH (&m->cqs, e)
        mark_status(m, e->value);
    SL_MAP_EACH (&m->lqs, e)
        mark_status(m, e->value);
    SL_MAP_EACH (&m->flavors, e)
        mark_status(m, e->value);
    SL_MAP_EACH (&m->checks, e)
        mark_status(m, e->value);
}

void object_put(struct manager *m, const struct sl_resource *resource, const struct sl_json *object) {
    const struct sl_json *meta = sl_json_get(object, "metadata");
    const char *ns = sl_json_get_str(meta, "namespace", ""), *name = sl_json_get_str(meta, "name", ""),
               *rv = sl_json_get_str(meta, "resourceVersion", "");
    SL_AUTO_FREE char *key = *ns ? sl_xprintf("%s/%s", ns, name) : sl_xstrdup(name);
    struct sl_map *map = map_of(m, resource);
    struct object *o = sl_map_get(map, key);
    if (o && !strcmp(o->uid, sl_json_get_str(meta, "uid", "")) && compare_versions(rv, o->rv) <= 0)
        return;
    bool fresh = !o;
    if (fresh) {
        o = sl_xalloc(sizeof *o);
        o->resource = resource;
        o->key = SL_TAKE(key);
        o->ns = sl_xstrdup(ns);
        o->name = sl_xstrdup(name);
    }
    void *for_engine = NULL;
    struct sl_err err = SL_ERR_INIT;
    if (decode_both(resource, object, o, &for_engine, &err)) {
        SL_LOG(WARN, "object cannot be read, ignoring this version", SL_STR("kind", resource->kind),
               SL_OBJ("object", ns, name), SL_STR("error", err.text));
        if (fresh)
            object_free(o);
        return;
    }
    bool spec_changed = fresh || o->generation != sl_json_get_int(meta, "generation", 0) ||
                        o->deleting != !sl_json_is_null(sl_json_get(meta, "deletionTimestamp")) ||
                        resource == &sl_watched[SL_WATCHED_ADMISSIONCHECKS];
    free(o->uid);
    free(o->rv);
    free(o->status_text);
    o->uid = sl_xstrdup(sl_json_get_str(meta, "uid", ""));
    o->rv = sl_xstrdup(rv);
    o->generation = sl_json_get_int(meta, "generation", 0);
    o->deleting = !sl_json_is_null(sl_json_get(meta, "deletionTimestamp"));
    sl_json_unref(o->finalizers);
    o->finalizers = sl_json_copy(sl_json_get(meta, "finalizers"));
    o->has_finalizer = false;
    SL_JSON_ITEMS (o->finalizers, f)
        o->has_finalizer |= !strcmp(sl_json_str(f.value, ""), SL_FINALIZER_IN_USE);
    o->status_text = sl_json_get(object, "status") ? sl_json_text(sl_json_get(object, "status")) : NULL;
    if (fresh)
        sl_map_set(map, o->key, o);
    feed_object(m, resource, for_engine);
    if (spec_changed && m->synced) {
        touch_workloads(m);
        touch_queues(m);
    }
    mark_status(m, o);
}

void object_gone(struct manager *m, const struct sl_resource *resource, const struct sl_json *object) {
    const struct sl_json *meta = sl_json_get(object, "metadata");
    const char *ns = sl_json_get_str(meta, "namespace", ""), *name = sl_json_get_str(meta, "name", "");
    SL_AUTO_FREE char *key = *ns ? sl_xprintf("%s/%s", ns, name) : sl_xstrdup(name);
    switch (resource - sl_watched) {
    case SL_WATCHED_CLUSTERQUEUES:
        sl_engine_del_clusterqueue(m->engine, name);
        sl_metric_drop("cluster_queue", name, NULL, NULL);
        break;
    case SL_WATCHED_LOCALQUEUES:
        sl_engine_del_localqueue(m->engine, ns, name);
        sl_metric_drop("name", name, "namespace", ns);
        break;
    case SL_WATCHED_COHORTS:
        sl_engine_del_cohort(m->engine, name);
        sl_metric_drop("cohort", name, NULL, NULL);
        break;
    case SL_WATCHED_RESOURCEFLAVORS: sl_engine_del_flavor(m->engine, name); break;
    case SL_WATCHED_ADMISSIONCHECKS: sl_engine_del_check(m->engine, name); break;
    }
    object_free(sl_map_del(map_of(m, resource), key));
    m->engine_dirty = m->snapshot_dirty = true;
    if (m->synced) {
        touch_workloads(m);
        touch_queues(m);
    }
}

/* ---- writing ---- */

struct object_write {
    struct manager *m;
    const struct sl_resource *resource;
    char *key;
};

static void object_written(void *payload, const struct sl_reply *reply) {
    struct object_write *w = payload;
    struct manager *m = w->m;
    m->writes--;
    struct object *o = sl_map_get(map_of(m, w->resource), w->key);
    if (o && reply->code != SL_CANCELLED) {
        o->busy = false;
        if (reply->code == 0 && reply->object && sl_json_path(reply->object, "metadata.uid"))
            object_put(m, w->resource, reply->object);
        else if (reply->code && reply->code != SL_CONFLICT && reply->code != SL_NOT_FOUND)
            SL_LOG(WARN, "status cannot be written, trying again", SL_STR("kind", w->resource->kind),
                   SL_STR("name", w->key), SL_I64("status", reply->status), SL_STR("error", reply->text));
        o = sl_map_get(map_of(m, w->resource), w->key);
        if (o && (reply->code != 0 || o->dirty))
            mark_status(m, o);
    }
    free(w->key);
    free(w);
}

static void send_object(struct manager *m, struct object *o, const char *subresource, struct sl_json *take_body) {
    struct sl_json *meta = sl_json_make_object(take_body, "metadata");
    sl_json_set_str(meta, "resourceVersion", o->rv);
    sl_json_set_str(meta, "uid", o->uid);
    struct object_write *w = sl_xalloc(sizeof *w);
    *w = (struct object_write){m, o->resource, sl_xstrdup(o->key)};
    o->busy = true;
    m->writes++;
    sl_cluster_send(m->c, &(struct sl_request){.verb = SL_MERGE_PATCH,
                                               .resource = o->resource,
                                               .ns = *o->ns ? o->ns : NULL,
                                               .name = o->name,
                                               .subresource = subresource,
                                               .body = take_body,
                                               .field_manager = "kueue",
                                               .lane = SL_LANE_STATUS,
                                               .done = object_written,
                                               .payload = w});
}

/* A merge patch replaces the list, so it has to carry everybody's; the resourceVersion sees to it that it is the
 * newest. */
static void set_finalizer(struct manager *m, struct object *o, bool wanted) {
    struct sl_json *body = sl_json_new_object(),
                   *list = o->finalizers ? sl_json_copy(o->finalizers) : sl_json_new_array();
    for (size_t i = sl_json_len(list); i-- > 0;)
        if (!strcmp(sl_json_str(sl_json_at(list, i), ""), SL_FINALIZER_IN_USE))
            sl_json_remove(list, i);
    if (wanted)
        sl_json_append(list, sl_json_new_str(SL_FINALIZER_IN_USE));
    sl_json_set(sl_json_make_object(body, "metadata"), "finalizers", list);
    send_object(m, o, NULL, body);
}

static bool check_in_use(const struct manager *m, const char *name) {
    SL_MAP_EACH (&m->cqs, e) {
        const struct object *q = e->value;
        for (size_t i = 0; i < q->cq->n_checks; i++)
            if (!strcmp(q->cq->checks[i].name, name))
                return true;
    }
    return false;
}

/* Objects in use cannot go away under those who use them. True when a write was sent. */
static bool keep_finalizer(struct manager *m, struct object *o) {
    bool in_use = false;
    switch (o->resource - sl_watched) {
    case SL_WATCHED_CLUSTERQUEUES: in_use = sl_engine_clusterqueue_holders(m->engine, o->name) > 0; break;
    case SL_WATCHED_RESOURCEFLAVORS: in_use = sl_engine_flavor_in_use(m->engine, o->name); break;
    case SL_WATCHED_ADMISSIONCHECKS: in_use = check_in_use(m, o->name); break;
    default: return false;
    }
    if (o->deleting ? !o->has_finalizer || in_use : o->has_finalizer)
        return false;
    set_finalizer(m, o, !o->deleting);
    return true;
}

static struct sl_json *flavor_list(const struct sl_queue_view *v, bool used, bool with_borrowed) {
    struct sl_json *list = sl_json_new_array(), *resources = NULL;
    const char *flavor = NULL;
    char text[SL_QUANTITY_TEXT];
    for (size_t i = 0; i < v->n_rows; i++) {
        const struct sl_usage_row *row = &v->rows[i];
        if (!row->listed) /* the lists follow the spec; gauges and `sluice status` show the rest */
            break;
        if (!flavor || strcmp(flavor, row->flavor)) {
            if (sl_json_len(list) == MAX_STATUS_FLAVORS)
                break;
            flavor = row->flavor;
            struct sl_json *entry = sl_json_new_object();
            sl_json_set_str(entry, "name", flavor);
            resources = sl_json_make_array(entry, "resources");
            sl_json_append(list, entry);
        }
        struct sl_json *r = sl_json_new_object();
        sl_json_set_str(r, "name", row->resource);
        sl_json_set_str(r, "total", sl_amount_format(row->resource, used ? row->used : row->reserved, text));
        if (with_borrowed)
            sl_json_set_str(r, "borrowed",
                            sl_amount_format(row->resource, used ? row->borrowed_used : row->borrowed_reserved, text));
        sl_json_append(resources, r);
    }
    return list;
}

static void set_flavor_lists(struct sl_json *status, const struct sl_queue_view *v, bool with_borrowed) {
    sl_json_del(status, "flavorsReservation");
    sl_json_del(status, "flavorsUsage");
    if (!v->n_rows || !v->rows[0].listed)
        return;
    sl_json_set(status, "flavorsReservation", flavor_list(v, false, with_borrowed));
    sl_json_set(status, "flavorsUsage", flavor_list(v, true, with_borrowed));
}

static void set_active(struct manager *m, struct sl_json *status, const struct object *o, bool active,
                       const char *reason, const char *message) {
    struct sl_condition c = {.type = SL_COND_ACTIVE,
                             .status = active ? "True" : "False",
                             .reason = reason,
                             .message = message,
                             .observed_generation = o->generation};
    sl_condition_set(sl_json_make_array(status, "conditions"), &c, manager_now(m));
}

static int64_t share_number(double share) {
    if (isinf(share) || share >= 9.2e18)
        return INT64_MAX;
    return (int64_t)ceil(share);
}

static void clusterqueue_status(struct manager *m, struct object *o, struct sl_json *status) {
    struct sl_queue_view v;
    sl_engine_clusterqueue_view(m->engine, o->name, &v);
    SL_AUTO_FREE char *message =
        v.active ? sl_xstrdup("Can admit new workloads")
                 : sl_xprintf("Can't admit new workloads: %s", v.inactive_message ? v.inactive_message : "unknown");
    set_active(m, status, o, v.active, v.active ? "Ready" : v.inactive_reason, message);
    sl_json_set_int(status, "pendingWorkloads", v.pending_active + v.pending_inadmissible);
    sl_json_set_int(status, "reservingWorkloads", v.reserving);
    sl_json_set_int(status, "admittedWorkloads", v.admitted);
    set_flavor_lists(status, &v, true);
    if (m->cfg->fair_sharing)
        sl_json_set(status, "fairSharing",
                    sl_json_fromf("{'weightedShare':%lld}", (long long)share_number(v.weighted_share)));
    else
        sl_json_del(status, "fairSharing");
    sl_queue_view_done(&v);
}

const char *localqueue_reason(const struct object *o, const struct sl_queue_view *cq) {
    return o->lq->stop != SL_STOP_NONE ? "Stopped"
           : !cq->exists               ? "ClusterQueueDoesNotExist"
           : !cq->active               ? "ClusterQueueIsInactive"
                                       : SL_LOCALQUEUE_READY;
}

static void localqueue_status(struct manager *m, struct object *o, struct sl_json *status) {
    struct sl_queue_view v, cq;
    sl_engine_localqueue_view(m->engine, o->ns, o->name, &v);
    sl_engine_clusterqueue_view(m->engine, o->lq->cq, &cq);
    const char *reason = localqueue_reason(o, &cq);
    bool ready = !strcmp(reason, SL_LOCALQUEUE_READY);
    set_active(m, status, o, ready, reason,
               ready                         ? "Can submit new workloads to localQueue"
               : o->lq->stop != SL_STOP_NONE ? "LocalQueue is stopped"
                                             : "Can't submit new workloads to clusterQueue");
    sl_json_set_int(status, "pendingWorkloads", v.pending_active + v.pending_inadmissible);
    sl_json_set_int(status, "reservingWorkloads", v.reserving);
    sl_json_set_int(status, "admittedWorkloads", v.admitted);
    set_flavor_lists(status, &v, false);
    sl_queue_view_done(&cq);
    sl_queue_view_done(&v);
}

static void cohort_status(struct manager *m, const struct object *o, struct sl_json *status) {
    if (!m->cfg->fair_sharing)
        return;
    struct sl_cohort_view v;
    sl_engine_cohort_view(m->engine, o->name, &v);
    sl_json_set(status, "fairSharing",
                sl_json_fromf("{'weightedShare':%lld}", (long long)share_number(v.weighted_share)));
    sl_cohort_view_done(&v);
}

static void publish_status(struct manager *m, struct object *o) {
    SL_AUTO_JSON *old = o->status_text ? sl_json_from_text(o->status_text) : NULL;
    SL_AUTO_JSON *status = old ? sl_json_copy(old) : sl_json_new_object();
    switch (o->resource - sl_watched) {
    case SL_WATCHED_CLUSTERQUEUES: clusterqueue_status(m, o, status); break;
    case SL_WATCHED_LOCALQUEUES: localqueue_status(m, o, status); break;
    case SL_WATCHED_COHORTS: cohort_status(m, o, status); break;
    default: return;
    }
    struct sl_json *patch = lc_status_patch(old, status);
    if (!patch)
        return;
    struct sl_json *body = sl_json_new_object();
    sl_json_set(body, "status", patch);
    send_object(m, o, "status", body);
}

/* ---- gauges ---- */

static void gauges_of_requests(struct manager *m, const char *cq) {
    const struct sl_workload **pending;
    size_t n = sl_engine_pending(m->engine, cq, &pending);
    struct sl_map sums = SL_MAP_INIT; /* first summed up, then shown: the page is read at any moment */
    for (size_t i = 0; i < n; i++)
        for (size_t p = 0; p < pending[i]->n_podsets; p++) {
            const struct sl_podset *ps = &pending[i]->podsets[p];
            for (size_t r = 0; r < ps->per_pod.n; r++) {
                double *sum = sl_map_get(&sums, ps->per_pod.items[r].resource);
                if (!sum)
                    sl_map_set(&sums, ps->per_pod.items[r].resource, sum = sl_xalloc(sizeof *sum));
                *sum += (double)ps->per_pod.items[r].amount * ps->count;
            }
        }
    free(pending);
    sl_metric_drop_one(SL_M_CLUSTER_QUEUE_RESOURCE_PENDING, "cluster_queue", cq);
    SL_MAP_EACH (&sums, e)
        sl_metric_set(SL_M_CLUSTER_QUEUE_RESOURCE_PENDING,
                      *(const double *)e->value / (strcmp(e->key, "cpu") ? 1 : 1000),
                      SL_LABELS(cq, e->key, replica_role(m)));
    sl_map_done(&sums, free);
}

static void gauges_of_clusterqueue(struct manager *m, struct object *o) {
    struct sl_queue_view v;
    sl_engine_clusterqueue_view(m->engine, o->name, &v);
    const char *cq = o->name, *rr = replica_role(m);
    bool terminating = o->deleting;
    sl_metric_set(SL_M_PENDING_WORKLOADS, v.pending_active, SL_LABELS(cq, rr, "active"));
    sl_metric_set(SL_M_PENDING_WORKLOADS, v.pending_inadmissible, SL_LABELS(cq, rr, "inadmissible"));
    sl_metric_set(SL_M_RESERVING_ACTIVE_WORKLOADS, v.reserving, SL_LABELS(cq, rr));
    sl_metric_set(SL_M_ADMITTED_ACTIVE_WORKLOADS, v.admitted, SL_LABELS(cq, rr));
    uint32_t waits[SL_WAIT__COUNT];
    sl_engine_waits(m->engine, cq, waits);
    for (enum sl_wait i = 0; i < SL_WAIT__COUNT; i++) { /* no series for what never was */
        const char *const *labels = SL_LABELS(cq, sl_wait_name(i));
        if (waits[i] || sl_metric_get(SL_M_SLUICE_PENDING_WORKLOADS, labels) > 0)
            sl_metric_set(SL_M_SLUICE_PENDING_WORKLOADS, waits[i], labels);
    }
    sl_metric_set(SL_M_ADMISSION_CYCLE_PREEMPTION_SKIPS, v.preemption_skips, SL_LABELS(cq, rr));
    sl_metric_set(SL_M_CLUSTER_QUEUE_STATUS, v.active && !terminating, SL_LABELS(cq, rr, "active"));
    sl_metric_set(SL_M_CLUSTER_QUEUE_STATUS, !v.active && !terminating, SL_LABELS(cq, rr, "pending"));
    sl_metric_set(SL_M_CLUSTER_QUEUE_STATUS, terminating, SL_LABELS(cq, rr, "terminating"));
    sl_metric_drop_one(SL_M_CLUSTER_QUEUE_INFO, "cluster_queue", cq);
    sl_metric_set(SL_M_CLUSTER_QUEUE_INFO, 1, SL_LABELS(cq, v.cohort, rr, v.root_cohort));
    if (m->cfg->cluster_queue_metrics) {
        gauges_of_requests(m, cq);
        sl_metric_drop_one(SL_M_CLUSTER_QUEUE_RESOURCE_RESERVATION, "cluster_queue", cq);
        sl_metric_drop_one(SL_M_CLUSTER_QUEUE_RESOURCE_USAGE, "cluster_queue", cq);
        sl_metric_drop_one(SL_M_CLUSTER_QUEUE_NOMINAL_QUOTA, "cluster_queue", cq);
        sl_metric_drop_one(SL_M_CLUSTER_QUEUE_BORROWING_LIMIT, "cluster_queue", cq);
        sl_metric_drop_one(SL_M_CLUSTER_QUEUE_LENDING_LIMIT, "cluster_queue", cq);
        for (size_t i = 0; i < v.n_rows; i++) {
            const struct sl_usage_row *r = &v.rows[i];
            double unit = strcmp(r->resource, "cpu") ? 1 : 1000;
            const char *const *labels = SL_LABELS(v.cohort, cq, r->flavor, r->resource, rr);
            sl_metric_set(SL_M_CLUSTER_QUEUE_RESOURCE_RESERVATION, (double)r->reserved / unit, labels);
            sl_metric_set(SL_M_CLUSTER_QUEUE_RESOURCE_USAGE, (double)r->used / unit, labels);
            sl_metric_set(SL_M_CLUSTER_QUEUE_NOMINAL_QUOTA, (double)r->nominal / unit, labels);
            sl_metric_set(SL_M_CLUSTER_QUEUE_BORROWING_LIMIT,
                          r->borrowing_limit == SL_UNLIMITED ? INFINITY : (double)r->borrowing_limit / unit, labels);
            sl_metric_set(SL_M_CLUSTER_QUEUE_LENDING_LIMIT,
                          r->lending_limit == SL_UNLIMITED ? INFINITY : (double)r->lending_limit / unit, labels);
        }
    }
    int64_t now =
        sl_cluster_mono_ms(m->c); /* waiting workloads that could go, and nobody lets them: the engine is not at rest */
    if (!sl_engine_idle_with_quota(m->engine, cq))
        o->stalled_since_ms = 0;
    else if (!o->stalled_since_ms)
        o->stalled_since_ms = now;
    sl_metric_set(SL_M_SLUICE_QUEUE_IDLE_WITH_QUOTA_SECONDS,
                  o->stalled_since_ms ? (double)(now - o->stalled_since_ms) / 1000 : 0, SL_LABELS(cq));
    if (m->cfg->fair_sharing)
        sl_metric_set(SL_M_CLUSTER_QUEUE_WEIGHTED_SHARE, isinf(v.weighted_share) ? NAN : v.weighted_share,
                      SL_LABELS(cq, v.cohort, rr));
    sl_queue_view_done(&v);
}

static void gauges_of_localqueue(struct manager *m, struct object *o) {
    if (!m->cfg->local_queue_metrics)
        return;
    struct sl_queue_view v, q;
    sl_engine_localqueue_view(m->engine, o->ns, o->name, &v);
    sl_engine_clusterqueue_view(m->engine, o->lq->cq, &q);
    const char *rr = replica_role(m);
    bool active = o->lq->stop == SL_STOP_NONE && q.exists && q.active;
    sl_metric_set(SL_M_LOCAL_QUEUE_PENDING_WORKLOADS, v.pending_active, SL_LABELS(o->name, o->ns, rr, "active"));
    sl_metric_set(SL_M_LOCAL_QUEUE_PENDING_WORKLOADS, v.pending_inadmissible,
                  SL_LABELS(o->name, o->ns, rr, "inadmissible"));
    sl_metric_set(SL_M_LOCAL_QUEUE_RESERVING_ACTIVE_WORKLOADS, v.reserving, SL_LABELS(o->name, o->ns, rr));
    sl_metric_set(SL_M_LOCAL_QUEUE_ADMITTED_ACTIVE_WORKLOADS, v.admitted, SL_LABELS(o->name, o->ns, rr));
    sl_metric_set(SL_M_LOCAL_QUEUE_STATUS, active, SL_LABELS("True", o->name, o->ns, rr));
    sl_metric_set(SL_M_LOCAL_QUEUE_STATUS, !active, SL_LABELS("False", o->name, o->ns, rr));
    sl_metric_set(SL_M_LOCAL_QUEUE_STATUS, 0, SL_LABELS("Unknown", o->name, o->ns, rr));
    sl_metric_drop_pair(SL_M_LOCAL_QUEUE_RESOURCE_RESERVATION, "name", o->name, "namespace", o->ns);
    sl_metric_drop_pair(SL_M_LOCAL_QUEUE_RESOURCE_USAGE, "name", o->name, "namespace", o->ns);
    for (size_t i = 0; i < v.n_rows; i++) {
        double unit = strcmp(v.rows[i].resource, "cpu") ? 1 : 1000;
        sl_metric_set(SL_M_LOCAL_QUEUE_RESOURCE_RESERVATION, (double)v.rows[i].reserved / unit,
                      SL_LABELS(v.rows[i].flavor, o->name, o->ns, rr, v.rows[i].resource));
        sl_metric_set(SL_M_LOCAL_QUEUE_RESOURCE_USAGE, (double)v.rows[i].used / unit,
                      SL_LABELS(v.rows[i].flavor, o->name, o->ns, rr, v.rows[i].resource));
    }
    sl_queue_view_done(&q);
    sl_queue_view_done(&v);
}

static void gauges_of_cohort(struct manager *m, const char *name) {
    struct sl_cohort_view v;
    sl_engine_cohort_view(m->engine, name, &v);
    const char *rr = replica_role(m);
    if (v.exists) {
        sl_metric_drop_one(SL_M_COHORT_INFO, "cohort", name);
        sl_metric_drop_one(SL_M_COHORT_SUBTREE_QUOTA, "cohort", name);
        sl_metric_drop_one(SL_M_COHORT_SUBTREE_RESOURCE_RESERVATIONS, "cohort", name);
        sl_metric_set(SL_M_COHORT_INFO, 1, SL_LABELS(name, v.parent, rr, v.root));
        sl_metric_set(SL_M_COHORT_SUBTREE_ADMITTED_ACTIVE_WORKLOADS, v.admitted, SL_LABELS(name, rr));
        if (m->cfg->fair_sharing)
            sl_metric_set(SL_M_COHORT_WEIGHTED_SHARE, isinf(v.weighted_share) ? NAN : v.weighted_share,
                          SL_LABELS(name, rr));
        for (size_t i = 0; i < v.n_rows; i++) {
            double unit = strcmp(v.rows[i].resource, "cpu") ? 1 : 1000;
            sl_metric_set(SL_M_COHORT_SUBTREE_QUOTA,
                          v.rows[i].nominal == SL_UNLIMITED ? INFINITY : (double)v.rows[i].nominal / unit,
                          SL_LABELS(name, v.rows[i].flavor, rr, v.rows[i].resource));
            sl_metric_set(SL_M_COHORT_SUBTREE_RESOURCE_RESERVATIONS, (double)v.rows[i].reserved / unit,
                          SL_LABELS(name, v.rows[i].flavor, rr, v.rows[i].resource));
        }
    }
    sl_cohort_view_done(&v);
}

static void count_finished(struct manager *m) {
    struct sl_map per_cq = SL_MAP_INIT, per_lq = SL_MAP_INIT;
    SL_MAP_EACH (&m->workloads.by_key, e) {
        const struct record *wl = e->value;
        if (!wl->finished)
            continue;
        const struct object *lq = localqueue_of(m, wl->ns, wl->queue);
        if (!lq)
            continue;
        sl_map_set(&per_lq, lq->key, (void *)((uintptr_t)sl_map_get(&per_lq, lq->key) + 1));
        sl_map_set(&per_cq, lq->lq->cq, (void *)((uintptr_t)sl_map_get(&per_cq, lq->lq->cq) + 1));
    }
    SL_MAP_EACH (&m->cqs, e)
        sl_metric_set(SL_M_FINISHED_WORKLOADS, (double)(uintptr_t)sl_map_get(&per_cq, e->key),
                      SL_LABELS(e->key, replica_role(m)));
    const struct sl_map none = SL_MAP_INIT;
    SL_MAP_EACH (m->cfg->local_queue_metrics ? &m->lqs : &none, e) {
        const struct object *o = e->value;
        sl_metric_set(SL_M_LOCAL_QUEUE_FINISHED_WORKLOADS, (double)(uintptr_t)sl_map_get(&per_lq, e->key),
                      SL_LABELS(o->name, o->ns, replica_role(m)));
    }
    sl_map_done(&per_cq, NULL);
    sl_map_done(&per_lq, NULL);
}

/* Who waits, and why, only the one who decides can say. */
void drop_queue_gauges(void) {
    sl_metric_clear_gauges("replica_role");
    sl_metric_clear_gauges("cluster_queue");
}

void publish_statuses(struct manager *m, bool all) {
    if (m->snapshot_dirty) /* whoever has seen that a queue is active may count on the webhook's knowing it */
        publish_snapshot(m);
    struct sl_map *maps[] = {&m->cqs, &m->lqs, &m->cohorts, &m->flavors, &m->checks};
    struct sl_map cohorts = SL_MAP_INIT;
    for (size_t i = 0; i < SL_COUNT(maps); i++) {
        SL_MAP_EACH (maps[i], e) {
            struct object *o = e->value;
            if (!o->dirty && !all)
                continue;
            if (o->busy)
                continue; /* its answer marks it again */
            o->dirty = false;
            if (!m->leading)
                continue;
            if (o->resource == &sl_watched[SL_WATCHED_CLUSTERQUEUES]) {
                gauges_of_clusterqueue(m, o);
                if (o->cq->cohort && *o->cq->cohort)
                    sl_map_set(&cohorts, o->cq->cohort, o);
            } else if (o->resource == &sl_watched[SL_WATCHED_LOCALQUEUES]) {
                gauges_of_localqueue(m, o);
            } else if (o->resource == &sl_watched[SL_WATCHED_COHORTS]) {
                sl_map_set(&cohorts, o->name, o);
            }
            if (!keep_finalizer(m, o))
                publish_status(m, o);
        }
    }
    SL_MAP_EACH (&cohorts, e)
        gauges_of_cohort(m, e->key);
    sl_map_done(&cohorts, NULL);
    if (m->leading)
        count_finished(m);
    m->status_dirty = false;
}

/* ---- what webhooks see ---- */

void publish_snapshot(struct manager *m) {
    struct sl_snapshot *s = sl_snapshot_renew(m->snapshot);
    SL_MAP_EACH (&m->namespaces, e) {
        const struct namespace_info *n = e->value;
        if (n->known)
            sl_snapshot_add_namespace(s, n->name, &n->labels, &n->annotations);
    }
    SL_MAP_EACH (&m->cqs, e)
        sl_snapshot_add_clusterqueue(s, ((struct object *)e->value)->cq);
    SL_MAP_EACH (&m->lqs, e)
        sl_snapshot_add_localqueue(s, ((struct object *)e->value)->lq);
    SL_MAP_EACH (&m->flavors, e)
        sl_snapshot_add_flavor(s, ((struct object *)e->value)->flavor);
    sl_snapshot_freeze(s);
    sl_snapshot_unref(m->snapshot);
    m->snapshot = sl_snapshot_ref(s);
    sl_snapshot_publish(m->box, s);
    m->snapshot_dirty = false;
    m->snapshot_at_ms = sl_cluster_mono_ms(m->c);
    /* Making one costs time by the number of objects; the next one comes soon where there are few. */
    size_t objects = m->namespaces.count + m->cqs.count + m->lqs.count + m->flavors.count;
    m->snapshot_gap_ms = objects < 250 ? 25 : objects < 10000 ? (int64_t)objects / 10 : 1000;
}
