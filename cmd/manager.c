/*
 * Watches, timers and the turn of the loop. One thread does everything: events are applied as they come, then queued
 * looks, then one pass, then statuses when it is quiet. Each part is bounded, so that the lease is renewed in time
 * whatever happens.
 */
#include "manager.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/api/names.h"
#include "sluice/api/quantity.h"
#include "sluice/base/clock.h"
#include "sluice/base/log.h"
#include "sluice/base/mem.h"
#include "sluice/base/metrics.h"

#define LOOKS_PER_TURN  300
#define MAX_WRITES      256 /* under way at once; more looks wait */
#define HOUSEKEEPING_MS 1000
#define RECOUNT_MS      5000

const struct sl_resource sl_watched[SL_WATCHED__COUNT] = {
#define SL_WATCHED(id, group, version, plural, kind, namespaced) {group, version, plural, kind, namespaced},
    SL_WATCHED_TABLE(SL_WATCHED)
#undef SL_WATCHED
};

const struct sl_resource *sl_resource_of(const struct sl_json *object) {
    const char *api = sl_json_get_str(object, "apiVersion", ""), *kind = sl_json_get_str(object, "kind", "");
    const char *slash = strchr(api, '/');
    size_t group_len = slash ? (size_t)(slash - api) : 0;
    for (size_t i = 0; i < SL_WATCHED__COUNT; i++)
        if (!strcmp(sl_watched[i].kind, kind) && strlen(sl_watched[i].group) == group_len &&
            !strncmp(sl_watched[i].group, api, group_len))
            return &sl_watched[i];
    return NULL;
}

int64_t manager_now(const struct manager *m) {
    return sl_cluster_wall_ms(m->c);
}

/* ---- work queue and timers ---- */

void mark_dirty(struct manager *m, struct record *r) {
    if (r->dirty)
        return;
    r->dirty = true;
    if (m->n_looks == m->cap_looks) { /* unroll the ring into a larger one */
        size_t cap = m->cap_looks ? m->cap_looks * 2 : 64;
        struct look *looks = sl_xalloc(cap * sizeof *looks);
        for (size_t i = 0; i < m->n_looks; i++)
            looks[i] = m->looks[(m->look_head + i) % m->cap_looks];
        free(m->looks);
        m->looks = looks;
        m->look_head = 0;
        m->cap_looks = cap;
    }
    m->looks[(m->look_head + m->n_looks++) % m->cap_looks] = (struct look){sl_xstrdup(r->uid), r->kind != NULL};
}

static struct record *next_look(struct manager *m) {
    while (m->n_looks) {
        struct look l = m->looks[m->look_head];
        m->look_head = (m->look_head + 1) % m->cap_looks;
        m->n_looks--;
        struct record *r = store_by_uid(l.job ? &m->jobs : &m->workloads, l.uid);
        free(l.uid);
        if (r && r->dirty) {
            r->dirty = false;
            return r;
        }
    }
    return NULL;
}

void set_deadline(struct manager *m, struct record *r, int64_t at_ms) {
    if (r->deadline_ms >= 0 && r->deadline_ms <= at_ms && r->deadline_ms > manager_now(m))
        return; /* an earlier look is coming, which asks again */
    r->deadline_ms = at_ms;
    SL_GROW(m->timers, m->cap_timers, m->n_timers);
    size_t i = m->n_timers++;
    for (; i > 0 && m->timers[(i - 1) / 2].at_ms > at_ms; i = (i - 1) / 2)
        m->timers[i] = m->timers[(i - 1) / 2];
    m->timers[i] = (struct timer){at_ms, sl_xstrdup(r->uid)};
}

static void pop_timer(struct manager *m) {
    free(m->timers[0].uid);
    struct timer last = m->timers[--m->n_timers];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= m->n_timers)
            break;
        if (child + 1 < m->n_timers && m->timers[child + 1].at_ms < m->timers[child].at_ms)
            child++;
        if (m->timers[child].at_ms >= last.at_ms)
            break;
        m->timers[i] = m->timers[child];
        i = child;
    }
    if (m->n_timers)
        m->timers[i] = last;
}

static void fire_timers(struct manager *m) {
    int64_t now = manager_now(m);
    while (m->n_timers && m->timers[0].at_ms <= now) {
        const char *uid = m->timers[0].uid;
        struct record *r = store_by_uid(&m->workloads, uid);
        if (!r)
            r = store_by_uid(&m->jobs, uid);
        if (r && r->deadline_ms >= 0 && r->deadline_ms <= now) {
            r->deadline_ms = -1;
            if (r->unread)
                retry_read(m, r);
            else
                mark_dirty(m, r);
        }
        pop_timer(m);
    }
}

void mark_status(struct manager *m, struct object *o) {
    if (o)
        o->dirty = true;
    int64_t now = sl_cluster_mono_ms(m->c);
    if (!m->status_dirty)
        m->status_first_ms = now;
    m->status_dirty = true;
    m->status_last_ms = now;
}

void mark_queues_of(struct manager *m, const struct record *wl) {
    struct object *lq = wl->queue ? localqueue_of(m, wl->ns, wl->queue) : NULL;
    if (lq) {
        mark_status(m, lq);
        mark_status(m, sl_map_get(&m->cqs, lq->lq->cq));
    }
    if (wl->reserved_in) {
        struct object *cq = sl_map_get(&m->cqs, wl->reserved_in);
        mark_status(m, cq);
    }
}

/* ---- namespaces, classes ---- */

static void namespace_free(void *p) {
    struct namespace_info *n = p;
    if (!n)
        return;
    SL_MAP_EACH (&n->limit_ranges, e)
        sl_json_unref(e->value);
    sl_map_done(&n->limit_ranges, NULL);
    sl_limits_free(n->limits);
    sl_labels_done(&n->labels);
    sl_labels_done(&n->annotations);
    free(n->name);
    free(n);
}

struct namespace_info *namespace_get(struct manager *m, const char *name, bool create) {
    struct namespace_info *n = sl_map_get(&m->namespaces, name);
    if (!n && create) {
        n = sl_xalloc(sizeof *n);
        n->name = sl_xstrdup(name);
        sl_map_set(&m->namespaces, name, n);
    }
    return n;
}

const struct sl_limits *namespace_limits(struct namespace_info *n) {
    if (n->limits_stale) {
        sl_limits_free(n->limits);
        n->limits = n->limit_ranges.count ? sl_limits_new() : NULL;
        SL_AUTO_FREE const char **names = sl_map_sorted_keys(&n->limit_ranges);
        for (size_t i = 0; i < n->limit_ranges.count; i++)
            sl_limits_add(n->limits, sl_map_get(&n->limit_ranges, names[i]));
        n->limits_stale = false;
    }
    return n->limits;
}

static bool namespace_is_managed(const struct manager *m, const char *name, const struct sl_labels *labels) {
    if (!strcmp(name, m->own_namespace))
        return false;
    if (m->cfg->has_managed_namespaces)
        return sl_selector_matches(&m->cfg->managed_namespaces, labels);
    return strcmp(name, "kube-system") != 0;
}

static void refeed(struct manager *m, const char *ns) { /* NULL: everywhere */
    SL_MAP_EACH (&m->workloads.by_key, e) {
        struct record *wl = e->value;
        if (!wl->finished && (!ns || !strcmp(wl->ns, ns))) {
            feed_engine(m, wl);
            mark_dirty(m, wl);
        }
    }
}

static void mark_jobs(struct manager *m, const char *ns) {
    SL_MAP_EACH (&m->jobs.by_key, e) {
        struct record *job = e->value;
        if (!ns || !strcmp(job->ns, ns))
            mark_dirty(m, job);
    }
}

static void on_namespace(struct manager *m, const struct sl_json *o, bool gone) {
    const char *name = sl_json_path_str(o, "metadata.name", "");
    if (gone) {
        sl_engine_del_namespace(m->engine, name);
        namespace_free(sl_map_del(&m->namespaces, name));
    } else {
        struct namespace_info *n = namespace_get(m, name, true);
        struct sl_labels labels = {NULL, 0}, annotations = {NULL, 0};
        sl_labels_decode(sl_json_path(o, "metadata.labels"), NULL, &labels);
        sl_labels_decode(sl_json_path(o, "metadata.annotations"), "sluice.dev/", &annotations);
        bool managed = namespace_is_managed(m, name, &labels), was = n->known && n->managed;
        sl_engine_put_namespace(m->engine, name, &labels);
        sl_labels_done(&n->labels);
        sl_labels_done(&n->annotations);
        n->labels = labels;
        n->annotations = annotations;
        n->known = true;
        n->managed = managed;
        if (m->synced && was != managed)
            mark_jobs(m, name);
    }
    m->engine_dirty = m->snapshot_dirty = true;
}

static void on_limit_range(struct manager *m, const struct sl_json *o, bool gone) {
    const char *ns = sl_json_path_str(o, "metadata.namespace", ""), *name = sl_json_path_str(o, "metadata.name", "");
    struct namespace_info *n = namespace_get(m, ns, !gone);
    if (!n)
        return;
    sl_json_unref(gone ? sl_map_del(&n->limit_ranges, name) : sl_map_set(&n->limit_ranges, name, sl_json_copy(o)));
    n->limits_stale = true;
    if (m->synced)
        refeed(m, ns);
}

static void on_runtime_class(struct manager *m, const struct sl_json *o, bool gone) {
    const char *name = sl_json_path_str(o, "metadata.name", "");
    const struct sl_json *fixed = sl_json_path(o, "overhead.podFixed");
    sl_json_unref(gone || !fixed ? sl_map_del(&m->runtime_classes, name)
                                 : sl_map_set(&m->runtime_classes, name, sl_json_copy(fixed)));
    if (m->synced)
        refeed(m, NULL);
}

static void on_priority_class(struct manager *m, struct sl_map *map, const struct sl_json *o, bool gone) {
    const char *name = sl_json_path_str(o, "metadata.name", "");
    if (gone) {
        free(sl_map_del(map, name));
        return;
    }
    struct priority_class *c = sl_xalloc(sizeof *c);
    c->value = (int32_t)sl_json_get_int(o, "value", 0);
    c->global_default = sl_json_get_bool(o, "globalDefault", false);
    free(sl_map_set(map, name, c));
    if (m->synced) /* jobs may have waited for it, Workloads may carry its value */
        mark_jobs(m, NULL);
}

/* ---- events ---- */

static void on_event(void *payload, const struct sl_watch_event *e) {
    struct manager *m = payload;
    if (e->what == SL_WATCH_SYNCED)
        return;
    bool gone = e->what == SL_WATCH_GONE;
    switch (e->resource - sl_watched) {
    case SL_WATCHED_NAMESPACES: on_namespace(m, e->object, gone); break;
    case SL_WATCHED_LIMITRANGES: on_limit_range(m, e->object, gone); break;
    case SL_WATCHED_RUNTIMECLASSES: on_runtime_class(m, e->object, gone); break;
    case SL_WATCHED_PRIORITYCLASSES: on_priority_class(m, &m->pod_classes, e->object, gone); break;
    case SL_WATCHED_WORKLOADPRIORITYCLASSES: on_priority_class(m, &m->workload_classes, e->object, gone); break;
    case SL_WATCHED_RESOURCEFLAVORS:
    case SL_WATCHED_COHORTS:
    case SL_WATCHED_CLUSTERQUEUES:
    case SL_WATCHED_LOCALQUEUES:
    case SL_WATCHED_ADMISSIONCHECKS: (gone ? object_gone : object_put)(m, e->resource, e->object); break;
    case SL_WATCHED_WORKLOADS: (gone ? workload_gone : workload_seen)(m, e->object); break;
    default:
        if (gone)
            job_gone(m, e->object);
        else
            job_seen(m, sl_jobkind_find(e->resource->group, e->resource->kind), e->object);
    }
}

static bool all_synced(const struct manager *m) {
    for (size_t i = 0; i < SL_WATCHED__COUNT; i++)
        if (!sl_watch_synced(m->watches[i]))
            return false;
    return true;
}

static void mark_everything(struct manager *m) {
    mark_jobs(m, NULL);
    SL_MAP_EACH (&m->workloads.by_key, e)
        mark_dirty(m, e->value);
    struct sl_map *maps[] = {&m->cqs, &m->lqs, &m->cohorts, &m->flavors, &m->checks};
    for (size_t i = 0; i < SL_COUNT(maps); i++)
        SL_MAP_EACH (maps[i], e)
            mark_status(m, e->value);
}

static void become_synced(struct manager *m) {
    m->synced = true;
    feed_all(m);
    mark_everything(m);
    publish_snapshot(m);
    SL_LOG(INFO, "cluster seen", SL_I64("jobs", (int64_t)m->jobs.by_uid.count),
           SL_I64("workloads", (int64_t)m->workloads.by_uid.count), SL_I64("cluster_queues", (int64_t)m->cqs.count));
}

/* ---- new and free ---- */

int sl_manager_new(const struct sl_manager_options *o, struct manager **ret, struct sl_err *err) {
    const struct sl_config *cfg = o->config;
    struct manager *m = sl_xalloc(sizeof *m);
    m->c = o->cluster;
    m->cfg = cfg;
    m->identity = sl_xstrdup(o->identity ? o->identity : "sluice");
    m->elect = o->elect;
    m->retired = o->observe;
    m->own_namespace = sl_xstrdup(*cfg->namespace ? cfg->namespace : "kueue-system");
    m->status_quiet_ms = o->status_quiet_ms ? o->status_quiet_ms : 500;
    m->status_max_ms = o->status_max_ms ? o->status_max_ms : 5000;
    m->pods_ready = (struct lc_pods_ready){.enabled = cfg->pods_ready.enabled,
                                           .timeout_ms = cfg->pods_ready.timeout_ms,
                                           .recovery_timeout_ms = cfg->pods_ready.recovery_timeout_ms,
                                           .recovery_disabled = cfg->pods_ready.recovery_timeout_ms == 0,
                                           .backoff_base_s = cfg->pods_ready.backoff_base_s,
                                           .backoff_max_s = cfg->pods_ready.backoff_max_s,
                                           .has_backoff_limit = cfg->pods_ready.backoff_limit >= 0,
                                           .backoff_limit = cfg->pods_ready.backoff_limit};
    m->label_keys = sl_xalloc((cfg->label_keys_to_copy.n + 1) * sizeof *m->label_keys);
    for (size_t i = 0; i < cfg->label_keys_to_copy.n; i++)
        m->label_keys[i] = cfg->label_keys_to_copy.items[i];
    m->box = sl_snapshot_box_new();
    int rc = sl_snapshot_new(cfg, m->own_namespace, &m->snapshot, err);
    if (rc) {
        sl_manager_free(m);
        return rc;
    }
    struct sl_engine_config ec = {.fair_sharing = cfg->fair_sharing,
                                  .ignore_undeclared = cfg->ignore_undeclared,
                                  .pods_ready_timestamp_creation = cfg->pods_ready.timestamp_creation,
                                  .block_admission = cfg->pods_ready.enabled && cfg->pods_ready.block_admission};
    size_t n = 0;
    if (cfg->fair_final_share)
        ec.strategies[n++] = SL_FAIR_FINAL_SHARE;
    if (cfg->fair_initial_share)
        ec.strategies[n++] = SL_FAIR_INITIAL_SHARE;
    m->engine = sl_engine_new(&ec);
    m->ledger =
        sl_ledger_open(o->data_dir,
                       &(struct sl_ledger_options){.map_max_bytes = (size_t)cfg->ledger_max_bytes,
                                                   .history_age_ms = cfg->history_keep_ms ? cfg->history_keep_ms : 1},
                       manager_now(m));
    m->events = sl_events_new(m->c, m->identity);
    if (m->elect)
        m->lease = sl_lease_new(
            m->c, &(struct sl_lease_options){.ns = *cfg->leader.namespace ? cfg->leader.namespace : m->own_namespace,
                                             .name = cfg->leader.name,
                                             .identity = m->identity,
                                             .duration_ms = cfg->leader.lease_ms,
                                             .renew_deadline_ms = cfg->leader.renew_ms,
                                             .retry_ms = cfg->leader.retry_ms});
    sl_metric_set(SL_M_SLUICE_LEADER, 0, SL_LABELS());
    for (size_t i = 0; i < SL_WATCHED__COUNT; i++) {
        struct sl_watch_options w = {.optional = i == SL_WATCHED_RUNTIMECLASSES};
        m->watches[i] = sl_cluster_watch(m->c, &sl_watched[i], &w, on_event, m);
    }
    *ret = m;
    return 0;
}

void sl_manager_free(struct manager *m) {
    if (!m)
        return;
    for (size_t i = 0; i < m->n_notes; i++) {
        free(m->notes[i].uid);
        free(m->notes[i].why);
    }
    free(m->notes);
    sl_lease_free(m->lease);
    sl_events_free(m->events);
    sl_ledger_close(m->ledger);
    sl_engine_free(m->engine);
    sl_snapshot_unref(m->snapshot);
    sl_snapshot_box_free(m->box);
    store_done(&m->jobs);
    store_done(&m->workloads);
    relations_done(&m->by_owner);
    relations_done(&m->by_parent);
    relations_done(&m->by_wanted);
    sl_map_done(&m->namespaces, namespace_free);
    objects_done(m);
    sl_map_done(&m->workload_classes, free);
    sl_map_done(&m->pod_classes, free);
    SL_MAP_EACH (&m->runtime_classes, e)
        sl_json_unref(e->value);
    sl_map_done(&m->runtime_classes, NULL);
    while (m->n_timers)
        free(m->timers[--m->n_timers].uid);
    free(m->timers);
    while (m->n_looks) {
        free(m->looks[m->look_head].uid);
        m->look_head = (m->look_head + 1) % m->cap_looks;
        m->n_looks--;
    }
    free(m->looks);
    words_done(m);
    free(m->label_keys);
    free(m->identity);
    free(m->own_namespace);
    free(m);
}

/* ---- the turn ---- */

static bool lease_held(const struct manager *m) {
    return !m->elect || sl_lease_held(m->lease);
}

const char *replica_role(const struct manager *m) {
    return !m->elect ? "standalone" : m->leading ? "leader" : "follower";
}

static void check_leadership(struct manager *m) {
    int64_t now = sl_cluster_mono_ms(m->c);
    if (m->lease && !m->retired && now >= m->lease_due_ms)
        m->lease_due_ms = now + sl_lease_tick(m->lease);
    bool leads = m->synced && !m->retired && lease_held(m);
    if (leads == m->leading)
        return;
    m->leading = leads;
    sl_metric_set(SL_M_SLUICE_LEADER, leads, SL_LABELS());
    if (!leads) {
        SL_LOG(WARN, "not leading any more, deciding nothing", SL_STR("identity", m->identity));
        drop_queue_gauges();
        return;
    }
    SL_LOG(INFO, "leading", SL_STR("identity", m->identity));
    reconcile_ledger(m);
    mark_everything(m);
    if (m->led)
        words_anew(m);
    m->led = m->engine_dirty = true;
}

static void housekeeping(struct manager *m, int64_t mono) {
    if (mono - m->housekeeping_ms < HOUSEKEEPING_MS)
        return;
    m->housekeeping_ms = mono;
    store_bury_old(&m->jobs, manager_now(m));
    store_bury_old(&m->workloads, manager_now(m));
    for (size_t i = 0; i < SL_WATCHED__COUNT; i++)
        sl_metric_set(SL_M_SLUICE_WATCH_AGE_SECONDS, (double)sl_watch_age_ms(m->watches[i]) / 1000,
                      SL_LABELS(sl_watched[i].plural));
    if (!m->leading)
        return;
    if (sl_ledger_tick(m->ledger, manager_now(m)))
        reconcile_ledger(m);
    commit_notes(m);
    if (mono - m->recount_ms >= RECOUNT_MS && !m->writes && !m->n_looks) {
        m->recount_ms = mono;
        sl_manager_recount(m);
    }
}

static bool status_due(const struct manager *m, int64_t mono) {
    return m->status_dirty &&
           (mono - m->status_last_ms >= m->status_quiet_ms || mono - m->status_first_ms >= m->status_max_ms);
}

static int64_t time_to_next(const struct manager *m) {
    int64_t wall = manager_now(m), mono = sl_cluster_mono_ms(m->c), wait = 1000;
#define SOONER(ms)                                                                                                     \
    do {                                                                                                               \
        int64_t sl_ms = (ms);                                                                                          \
        if (sl_ms < wait)                                                                                              \
            wait = sl_ms > 0 ? sl_ms : 0;                                                                              \
    } while (0)
    if (m->n_timers)
        SOONER(m->timers[0].at_ms - wall);
    if (m->lease)
        SOONER(m->lease_due_ms - mono);
    if (m->leading && (m->engine_dirty || (m->n_looks && m->writes < MAX_WRITES)))
        SOONER(0);
    int64_t due = m->synced ? sl_engine_next_due_ms(m->engine) : -1;
    if (due >= 0)
        SOONER(due - wall);
    if (m->status_dirty && m->synced)
        SOONER(m->status_last_ms + m->status_quiet_ms - mono < m->status_first_ms + m->status_max_ms - mono
                   ? m->status_last_ms + m->status_quiet_ms - mono
                   : m->status_first_ms + m->status_max_ms - mono);
    if (m->leading && words_due_ms(m) != INT64_MAX)
        SOONER(words_due_ms(m) - mono);
    if (m->snapshot_dirty && m->synced)
        SOONER(m->snapshot_at_ms + m->snapshot_gap_ms - mono);
#undef SOONER
    return wait;
}

void sl_manager_step(struct manager *m, int64_t timeout_ms) {
    int64_t wait = time_to_next(m);
    sl_cluster_step(m->c, wait < timeout_ms ? wait : timeout_ms);
    if (!m->synced && all_synced(m))
        become_synced(m);
    check_leadership(m);
    int64_t mono = sl_cluster_mono_ms(m->c);
    fire_timers(m);
    if (m->leading) {
        words_tell(m);
        for (unsigned i = 0; i < LOOKS_PER_TURN && m->writes < MAX_WRITES; i++) {
            struct record *r = next_look(m);
            if (!r)
                break;
            sync_record(m, r);
        }
        int64_t due = sl_engine_next_due_ms(m->engine);
        if ((m->engine_dirty || (due >= 0 && due <= manager_now(m))) && lease_held(m))
            run_pass(m);
    }
    if (m->synced && status_due(m, mono))
        publish_statuses(m, false);
    if (m->synced && m->snapshot_dirty && mono - m->snapshot_at_ms >= m->snapshot_gap_ms)
        publish_snapshot(m);
    housekeeping(m, mono);
}

bool sl_manager_synced(const struct manager *m) {
    return m->synced;
}
bool sl_manager_leading(const struct manager *m) {
    return m->leading;
}
struct sl_snapshot_box *sl_manager_snapshots(struct manager *m) {
    return m->box;
}
void sl_manager_consider(struct manager *m) {
    struct sl_decisions d;
    sl_engine_run(m->engine, manager_now(m), 0, &d, NULL);
    sl_decisions_done(&d);
}

const struct sl_engine *sl_manager_engine(const struct manager *m) {
    return m->engine;
}

bool sl_manager_idle(const struct manager *m, int64_t *ret_next_ms) {
    if (ret_next_ms) {
        int64_t due = sl_engine_next_due_ms(m->engine);
        *ret_next_ms = m->n_timers ? m->timers[0].at_ms : -1;
        if (due >= 0 && (*ret_next_ms < 0 || due < *ret_next_ms))
            *ret_next_ms = due;
    }
    return m->synced && m->leading && !m->n_looks && !m->writes && !m->engine_dirty && !m->status_dirty &&
           !m->snapshot_dirty && m->word_head == m->n_words;
}

void sl_manager_retire(struct manager *m) {
    if (m->leading)
        commit_notes(m);
    if (m->lease && m->leading)
        sl_lease_release(m->lease);
    m->leading = false;
    m->retired = true;
}

/* ---- looking ---- */

char *sl_manager_find(const struct manager *m, const char *ns, const char *name) {
    if (strncmp(name, "job/", 4)) {
        const struct record *wl = store_get(&m->workloads, ns, name);
        return wl ? sl_xstrdup(wl->uid) : NULL;
    }
    const struct record *job = store_get(&m->jobs, ns, name + 4);
    const struct owned *o = job ? sl_map_get(&m->by_owner, job->uid) : NULL;
    return o && o->n ? sl_xstrdup(o->items[0]->uid) : NULL;
}

char *sl_manager_without_workload(const struct manager *m, const char *ns, const char *name) {
    const struct record *job = store_get(&m->jobs, ns, name);
    if (!job)
        return NULL;
    SL_AUTO_JSON *tree = record_tree(job), *wl = NULL;
    struct sl_err err = SL_ERR_INIT;
    struct standing s = standing_of(m, job, tree);
    const struct namespace_info *n = sl_map_get(&m->namespaces, ns);
    bool success;
    const char *message;
    char *why;
    if (job->kind->finished(tree, &success, &message))
        why = sl_xprintf("%s %s has finished", job->kind->kind, name);
    else if (s.place == STANDING_HELD)
        why = s.ancestor ? sl_xprintf("%s %s is held: its ancestor job %s is not admitted", job->kind->kind, name,
                                      s.ancestor->name)
                         : sl_xprintf("%s %s is held: too many owners above it", job->kind->kind, name);
    else if (n && n->known && !n->managed)
        why = sl_xprintf("%s %s is in a namespace that is not managed: it is not queued", job->kind->kind, name);
    else if (s.place == STANDING_NOWHERE)
        why = sl_xprintf("%s %s names no LocalQueue (label %s): it is not queued", job->kind->kind, name,
                         SL_LABEL_QUEUE_NAME);
    else if (compose_workload(m, job, tree, &wl, &err))
        why = sl_xprintf("%s %s has no Workload: %s", job->kind->kind, name, err.text);
    else
        why = sl_xprintf("%s %s has no Workload yet", job->kind->kind, name);
    standing_done(&s);
    return why;
}

struct sl_json *sl_manager_queues(const struct manager *m) {
    struct sl_json *list = sl_json_new_array();
    SL_AUTO_FREE const char **names = sl_map_sorted_keys(&m->cqs);
    for (size_t i = 0; i < m->cqs.count; i++) {
        struct sl_queue_view v;
        char text[SL_QUANTITY_TEXT];
        sl_engine_clusterqueue_view(m->engine, names[i], &v);
        struct sl_json *q = sl_json_new_object(), *rows = sl_json_make_array(q, "quota");
        sl_json_set_str(q, "name", names[i]);
        sl_json_set_str(q, "active", v.active ? "yes" : v.inactive_reason);
        sl_json_set_int(q, "pending", v.pending_active + v.pending_inadmissible);
        sl_json_set_int(q, "reserving", v.reserving);
        sl_json_set_int(q, "admitted", v.admitted);
        for (size_t k = 0; k < v.n_rows; k++) {
            struct sl_json *r = sl_json_new_object();
            sl_json_set_str(r, "flavor", v.rows[k].flavor);
            sl_json_set_str(r, "resource", v.rows[k].resource);
            sl_json_set_str(r, "nominal",
                            v.rows[k].listed ? sl_amount_format_people(v.rows[k].resource, v.rows[k].nominal, text)
                                             : "not listed");
            sl_json_set_str(r, "used", sl_amount_format_people(v.rows[k].resource, v.rows[k].reserved, text));
            sl_json_set_str(r, "borrowed",
                            sl_amount_format_people(v.rows[k].resource, v.rows[k].borrowed_reserved, text));
            sl_json_append(rows, r);
        }
        sl_json_append(list, q);
        sl_queue_view_done(&v);
    }
    return list;
}

/* ---- recount ---- */

int64_t sl_manager_recount(struct manager *m) {
    int64_t begin = sl_now_mono_ms(), total = 0;
    struct sl_map sums = SL_MAP_INIT; /* "cq\x1fflavor\x1fresource" -> int64 *; 0 when it was met */
    SL_MAP_EACH (&m->workloads.by_uid, e) {
        const struct record *wl = e->value;
        if (!wl->holds)
            continue;
        SL_AUTO_JSON *tree = record_tree(wl);
        struct sl_workload *w = decode_workload(m, wl, tree);
        if (w && w->admission)
            for (size_t i = 0; i < w->admission->n_podsets; i++) {
                const struct sl_podset_assignment *a = &w->admission->podsets[i];
                int64_t left = a->count;
                for (size_t k = 0; k < w->n_podsets; k++)
                    if (!strcmp(w->podsets[k].name, a->name) && w->podsets[k].count - w->reclaimable[k] < left)
                        left = w->podsets[k].count - w->reclaimable[k];
                for (size_t j = 0; j < a->n_flavors; j++) {
                    SL_AUTO_FREE char *key =
                        sl_xprintf("%s\x1f%s\x1f%s", w->admission->cq, a->flavors[j].flavor, a->flavors[j].resource);
                    int64_t *sum = sl_map_get(&sums, key);
                    if (!sum) {
                        sum = sl_xalloc(sizeof *sum);
                        sl_map_set(&sums, key, sum);
                    }
                    int64_t amount = a->flavors[j].amount;
                    if (left < a->count)
                        amount = a->count ? amount / a->count * left : 0;
                    if (__builtin_add_overflow(*sum, amount, sum))
                        *sum = INT64_MAX;
                }
            }
        sl_workload_free(w);
    }
    SL_MAP_EACH (&m->cqs, e) {
        struct sl_queue_view v;
        sl_engine_clusterqueue_view(m->engine, e->key, &v);
        int64_t wrong = 0;
        for (size_t i = 0; i < v.n_rows; i++) {
            SL_AUTO_FREE char *key = sl_xprintf("%s\x1f%s\x1f%s", e->key, v.rows[i].flavor, v.rows[i].resource);
            int64_t *sum = sl_map_get(&sums, key);
            wrong += (sum ? *sum : 0) != v.rows[i].reserved;
            if (sum)
                *sum = 0;
        }
        SL_AUTO_FREE char *prefix = sl_xprintf("%s\x1f", e->key);
        SL_MAP_EACH (&sums, x)
            wrong += !strncmp(x->key, prefix, strlen(prefix)) && *(const int64_t *)x->value != 0; /* in no row */
        sl_queue_view_done(&v);
        sl_metric_set(SL_M_SLUICE_QUOTA_DRIFT, (double)wrong, SL_LABELS(e->key));
        if (wrong)
            SL_LOG(ERROR, "quota drift: the books differ from a recount of the cluster's objects",
                   SL_STR("cluster_queue", e->key), SL_I64("rows", wrong));
        total += wrong;
    }
    sl_map_done(&sums, free);
    sl_metric_set(SL_M_SLUICE_RECOUNT_SECONDS, (double)(sl_now_mono_ms() - begin) / 1000, SL_LABELS());
    return total;
}
