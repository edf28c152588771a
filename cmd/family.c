/*
 * Jobs that are owned by jobs. A Workload counts the pods of its own job and no others, so a job under a job has a
 * Workload of its own like any other, in the queue of its owner when it names none; and it never runs before its
 * topmost owner that a queue decides about was admitted. Owners are followed by their controller references, a few
 * levels up. An owner that is not there (any more) has no say.
 *
 * Here as well: who has to be looked at when something else changes, jobs under a job and jobs that wait for a Workload
 * of a certain name.
 */
#include <stdlib.h>
#include <string.h>

#include "manager.h"
#include "sluice/api/names.h"
#include "sluice/base/log.h"
#include "sluice/base/mem.h"

#define MAX_OWNERS 10 /* levels */
#define MAX_NAME   600

/* ---- lists of records by a key ---- */

const struct owned *related(const struct sl_map *map, const char *key) {
    return key && map->count ? sl_map_get(map, key) : NULL;
}

void relate(struct sl_map *map, const char *key, struct record *r) {
    if (!key)
        return;
    struct owned *o = sl_map_get(map, key);
    if (!o) {
        o = sl_xalloc(sizeof *o);
        sl_map_set(map, key, o);
    }
    for (size_t i = 0; i < o->n; i++)
        if (o->items[i] == r)
            return;
    SL_GROW(o->items, o->cap, o->n);
    o->items[o->n++] = r;
}

void unrelate(struct sl_map *map, const char *key, const struct record *r) {
    struct owned *o = key ? sl_map_get(map, key) : NULL;
    if (!o)
        return;
    for (size_t i = 0; i < o->n; i++)
        if (o->items[i] == r)
            o->items[i--] = o->items[--o->n];
    if (!o->n) {
        sl_map_del(map, key);
        free(o->items);
        free(o);
    }
}

static void relation_free(void *p) {
    struct owned *o = p;
    free(o->items);
    free(o);
}

void relations_done(struct sl_map *map) {
    sl_map_done(map, relation_free);
}

/* ---- who has to be looked at ---- */

static void mark_below(struct manager *m, const char *job_uid, int levels) {
    const struct owned *o = related(&m->by_parent, job_uid);
    for (size_t i = 0; o && i < o->n; i++) {
        mark_dirty(m, o->items[i]);
        if (levels > 1)
            mark_below(m, o->items[i]->uid, levels - 1);
    }
}

void mark_children(struct manager *m, const struct record *job) {
    mark_below(m, job->uid, MAX_OWNERS);
}

static char *wanted_workload(const struct record *job, const struct sl_json *object) {
    const char *name = job->kind->prebuilt ? sl_job_prebuilt(object) : NULL;
    return name && strlen(name) <= MAX_NAME ? sl_xprintf("%s/%s", job->ns, name) : NULL;
}

void family_seen(struct manager *m, struct record *job, const struct sl_json *object, const char *old_owner) {
    if (old_owner && (!job->owner_uid || strcmp(old_owner, job->owner_uid)))
        unrelate(&m->by_parent, old_owner, job);
    job->owner_known = known_owner(object);
    if (job->owner_known)
        relate(&m->by_parent, job->owner_uid, job);
    char *wanted = wanted_workload(job, object);
    if (job->wants && (!wanted || strcmp(job->wants, wanted)))
        unrelate(&m->by_wanted, job->wants, job);
    free(job->wants);
    job->wants = wanted;
    relate(&m->by_wanted, wanted, job);
    mark_children(m, job);
}

void family_gone(struct manager *m, struct record *job) {
    mark_children(m, job);
    unrelate(&m->by_parent, job->owner_uid, job);
    unrelate(&m->by_wanted, job->wants, job);
}

/* ---- where a job stands ---- */

static struct record *owner_of(const struct manager *m, const struct record *job) {
    if (!job->owner_known || !job->owner_uid)
        return NULL;
    struct record *owner = store_by_uid(&m->jobs, job->owner_uid);
    /* as the garbage collector sees it: an owner is in the same namespace and has the name that is said */
    return owner && !strcmp(owner->ns, job->ns) && job->owner_name && !strcmp(owner->name, job->owner_name) ? owner
                                                                                                            : NULL;
}

static bool admitted(const struct manager *m, const struct record *job) {
    const struct owned *o = related(&m->by_owner, job->uid);
    for (size_t i = 0; o && i < o->n; i++)
        if (o->items[i]->admitted && !o->items[i]->gone)
            return true;
    return false;
}

static struct standing climb(const struct manager *m, const struct record *job, bool queued) {
    struct standing s = {.place = STANDING_NOWHERE};
    const struct record *at = job;
    for (int level = 0; (at = owner_of(m, at)); level++) {
        if (level == MAX_OWNERS) {
            s.too_deep = true;
            break;
        }
        SL_AUTO_JSON *tree = record_tree(at);
        const char *queue = sl_job_queue(tree);
        if (!*queue && !m->cfg->manage_without_queue_name)
            continue;
        if (*queue && !queued && !s.queue)
            s.queue = sl_xstrdup(queue);
        bool success;
        const char *message;
        if (!at->kind->finished(tree, &success, &message))
            s.ancestor = at;
    }
    return s;
}

struct standing standing_of(const struct manager *m, const struct record *job, const struct sl_json *tree) {
    const struct namespace_info *n = sl_map_get(&m->namespaces, job->ns);
    if (!n || !n->known || !n->managed)
        return (struct standing){.place = STANDING_NOWHERE};
    bool queued = *sl_job_queue(tree);
    struct standing s = climb(m, job, queued);
    if (queued || s.queue || m->cfg->manage_without_queue_name)
        s.place = s.too_deep || (s.ancestor && !admitted(m, s.ancestor)) ? STANDING_HELD : STANDING_QUEUED;
    return s;
}

void standing_done(struct standing *s) {
    free(SL_TAKE(s->queue));
}

static void inherit_queue(struct manager *m, struct record *job, const char *queue) {
    SL_LOG(INFO, "job comes into the queue of its owner", SL_OBJ("job", job->ns, job->name), SL_STR("queue", queue));
    struct sl_json *body = sl_json_new_object();
    sl_json_set_str(sl_json_make_object(sl_json_make_object(body, "metadata"), "labels"), SL_LABEL_QUEUE_NAME, queue);
    send_patch(m, job, true, NULL, body, "queue of the owner");
}

void hold_child(struct manager *m, struct record *job, struct record *wl, const struct sl_json *tree,
                const struct standing *s) {
    bool held = s->place == STANDING_HELD;
    SL_AUTO_JSON *original = wl ? record_tree(wl) : NULL;
    SL_AUTO_FREE char *why = s->too_deep ? sl_xstrdup("More than ten owners above the job, or a circle of them")
                             : held      ? sl_xprintf("Its ancestor job %s is not admitted", s->ancestor->name)
                                         : sl_xprintf("It comes into queue %s, that of the job that owns it", s->queue);
    if (s->too_deep)
        job_event(m, job, true, "JobNestingTooDeep", why);
    if (stop_saying(m, job, tree, original, "Suspended", why))
        return;
    if (held) /* also when it never ran: nothing else says what it waits for */
        job_event(m, job, false, "Suspended", why);
    if (job->kind->active_pods(tree) > 0)
        return;
    if (s->queue)
        inherit_queue(m, job, s->queue);
    else if (wl && !wl->finished && !drop_finalizer(m, wl, original))
        send_delete(m, wl, false, "Background", NULL, NULL);
}
