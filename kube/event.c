/*
 * Events. What was said is remembered under everything that makes it the same; a repetition within ten minutes of the
 * last only counts, and the count is written when the last write about it is five minutes old. So an object that waits
 * for a day costs one event and a patch every five minutes at most, and only while it is still talked about.
 */
#include "sluice/kube/event.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/base/clock.h"
#include "sluice/base/map.h"
#include "sluice/base/mem.h"
#include "sluice/base/metrics.h"

#define SAME_MS    600000
#define PATCH_MS   300000
#define MAX_QUEUED 100
#define MAX_KNOWN  10000
#define MAX_NOTE   1024
#define MAX_WORD   128

struct said {
    char *ns, *name; /* of the Event */
    int64_t last_ms, written_ms, count;
};

struct sl_events {
    struct sl_cluster *cluster;
    char *instance;
    struct sl_map known;
    uint64_t serial;
};

static const struct sl_resource events = {"events.k8s.io", "v1", "events", "Event", true};

struct sl_events *sl_events_new(struct sl_cluster *c, const char *reporting_instance) {
    struct sl_events *e = sl_xalloc(sizeof *e);
    e->cluster = c;
    e->instance = sl_xstrndup(reporting_instance, strnlen(reporting_instance, MAX_WORD));
    e->serial = (uint64_t)sl_cluster_wall_ms(c) * 1000000; /* names stay unique over restarts */
    return e;
}

static void said_free(void *p) {
    struct said *s = p;
    if (!s)
        return;
    free(s->ns);
    free(s->name);
    free(s);
}

void sl_events_free(struct sl_events *e) {
    if (!e)
        return;
    sl_map_done(&e->known, said_free);
    free(e->instance);
    free(e);
}

/* At most max bytes, whole characters; longer text ends in " ...". free() */
static char *cut(const char *text, size_t max) {
    size_t n = strlen(text);
    if (n <= max)
        return sl_xstrdup(text);
    n = max - 4;
    while (n && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--;
    return sl_xprintf("%.*s ...", (int)n, text);
}

static bool room(struct sl_events *e) {
    if (sl_cluster_pending(e->cluster, SL_LANE_EVENT) < MAX_QUEUED)
        return true;
    sl_metric_add(SL_M_SLUICE_EVENTS_DROPPED_TOTAL, 1, SL_LABELS());
    return false;
}

static void repeat(struct sl_events *e, struct said *s, int64_t now) {
    s->count++;
    s->last_ms = now;
    if (now - s->written_ms < PATCH_MS || !room(e))
        return;
    s->written_ms = now;
    char time[SL_TIME_TEXT];
    struct sl_json *body = sl_json_new_object(), *series = sl_json_make_object(body, "series");
    sl_json_set_int(series, "count", s->count);
    sl_json_set_str(series, "lastObservedTime", sl_time_format_micro(sl_cluster_wall_ms(e->cluster), time));
    struct sl_request q = {
        .verb = SL_MERGE_PATCH, .resource = &events, .ns = s->ns, .name = s->name, .body = body, .lane = SL_LANE_EVENT};
    sl_cluster_send(e->cluster, &q);
}

static void make_room_in_memory(struct sl_events *e, int64_t now) {
    if (e->known.count < MAX_KNOWN)
        return;
    SL_MAP_EACH (&e->known, m) {
        struct said *s = m->value;
        if (now - s->last_ms < SAME_MS)
            continue;
        SL_AUTO_FREE char *key = sl_xstrdup(m->key);
        sl_map_del(&e->known, key);
        said_free(s);
    }
    if (e->known.count >= MAX_KNOWN) /* better to repeat some than to remember without end */
        sl_map_clear(&e->known, said_free);
}

static void copy_field(struct sl_json *to, const char *key, const struct sl_json *from, const char *path) {
    sl_json_set_str(to, key, sl_json_path_str(from, path, NULL));
}

static struct sl_json *make_event(const struct sl_events *e, const struct said *s, const char *controller,
                                  const struct sl_json *regarding, bool warning, const char *reason, const char *action,
                                  const char *note) {
    char time[SL_TIME_TEXT];
    struct sl_json *event = sl_json_new_object(), *about = sl_json_make_object(event, "regarding"),
                   *meta = sl_json_make_object(event, "metadata");
    sl_json_set_str(event, "apiVersion", "events.k8s.io/v1");
    sl_json_set_str(event, "kind", "Event");
    sl_json_set_str(meta, "name", s->name);
    sl_json_set_str(meta, "namespace", s->ns);
    sl_json_set_str(event, "eventTime", sl_time_format_micro(sl_cluster_wall_ms(e->cluster), time));
    sl_json_set_str(event, "reportingController", controller);
    sl_json_set_str(event, "reportingInstance", e->instance);
    sl_json_set_str(event, "type", warning ? "Warning" : "Normal");
    sl_json_set_str(event, "reason", reason);
    sl_json_set_str(event, "action", action);
    sl_json_set_str(event, "note", note);
    copy_field(about, "apiVersion", regarding, "apiVersion");
    copy_field(about, "kind", regarding, "kind");
    copy_field(about, "namespace", regarding, "metadata.namespace");
    copy_field(about, "name", regarding, "metadata.name");
    copy_field(about, "uid", regarding, "metadata.uid");
    copy_field(about, "resourceVersion", regarding, "metadata.resourceVersion");
    return event;
}

void sl_events_emit(struct sl_events *e, const char *controller, const struct sl_json *regarding, bool warning,
                    const char *reason, const char *action, const char *note) {
    SL_AUTO_FREE char *short_note = cut(note, MAX_NOTE), *short_reason = cut(reason, MAX_WORD),
                      *short_action = cut(action, MAX_WORD);
    const char *ns = sl_json_path_str(regarding, "metadata.namespace", ""),
               *name = sl_json_path_str(regarding, "metadata.name", "");
    SL_AUTO_FREE char *key =
        sl_xprintf("%s\x1f%s\x1f%s\x1f%s\x1f%s\x1f%d\x1f%s\x1f%s", sl_json_get_str(regarding, "kind", ""), ns, name,
                   sl_json_path_str(regarding, "metadata.uid", ""), controller, warning, short_reason, short_note);
    int64_t now = sl_cluster_mono_ms(e->cluster);
    struct said *s = sl_map_get(&e->known, key);
    if (s && now - s->last_ms < SAME_MS) {
        repeat(e, s, now);
        return;
    }
    if (!room(e))
        return;
    said_free(sl_map_del(&e->known, key));
    make_room_in_memory(e, now);
    s = sl_xalloc(sizeof *s);
    s->ns = sl_xstrdup(*ns ? ns : "default"); /* where events about cluster-scoped objects are */
    s->name = sl_xprintf("%.236s.%" PRIx64, name, ++e->serial);
    s->count = 1;
    s->last_ms = s->written_ms = now;
    sl_map_set(&e->known, key, s);
    struct sl_request q = {.verb = SL_CREATE, .resource = &events, .ns = s->ns, .lane = SL_LANE_EVENT};
    q.body = make_event(e, s, controller, regarding, warning, short_reason, short_action, short_note);
    sl_cluster_send(e->cluster, &q);
}
