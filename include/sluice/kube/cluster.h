/*
 * The one seam to Kubernetes: list+watch, get, create, patch, delete. Two implementations stand behind it: HTTPS
 * (client.c) and in-memory with virtual time (memory.c). Everything here belongs to one thread, the loop thread, which
 * calls sl_cluster_step(); callbacks run inside that call and may call back into the cluster, but not free
 * it. Only sl_cluster_wakeup may be called from elsewhere.
 */
#ifndef SLUICE_KUBE_CLUSTER_H
#define SLUICE_KUBE_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "sluice/base/err.h"
#include "sluice/base/json.h"

struct sl_cluster;
struct sl_watch;

/* A resource of the API; constant tables, compared by address or by fields. group "" is the core group. */
struct sl_resource {
    const char *group, *version, *plural, *kind;
    bool namespaced;
};

/* ---- watching ---- */

enum sl_watch_what {
    SL_WATCH_PUT,    /* object is new or changed; a relist may repeat one that did not change */
    SL_WATCH_GONE,   /* object was deleted; holds at least metadata.name, namespace, uid */
    SL_WATCH_SYNCED, /* everything that existed has been delivered (after the first list and after every relist); object
                        is NULL */
};
struct sl_watch_event {
    enum sl_watch_what what;
    const struct sl_resource *resource;
    const struct sl_json *object; /* borrowed; metadata.managedFields already left out */
};
typedef void (*sl_watch_fn)(void *payload, const struct sl_watch_event *event);

struct sl_watch_options {
    const char *ns;             /* NULL: all namespaces */
    const char *label_selector; /* NULL: none */
    const char *field_selector;
    bool metadata_only; /* PartialObjectMetadata: only metadata is delivered */
    bool optional; /* a resource that the server does not serve (404) counts as synced and empty, and is tried again
                      every 60 s */
};
/* Starts to list and then watch; runs until the cluster is freed. Never fails: an unreachable server is retried with
 * backoff (said once in the log). A deletion missed during a relist is delivered as GONE; an object replaced under the
 * same name (other uid) as GONE, PUT. */
struct sl_watch *sl_cluster_watch(struct sl_cluster *c, const struct sl_resource *resource,
                                  const struct sl_watch_options *options, sl_watch_fn fn, void *payload);
bool sl_watch_synced(const struct sl_watch *w);
/* Milliseconds since the server last said anything on this watch (bookmarks count). */
int64_t sl_watch_age_ms(const struct sl_watch *w);

/* ---- requests ---- */

enum sl_verb { SL_GET, SL_LIST, SL_CREATE, SL_UPDATE, SL_MERGE_PATCH, SL_JSON_PATCH, SL_APPLY, SL_DELETE };
/* Lanes have separate budgets, so that status and events never delay decisions, nothing delays the lease, and
 * whoever asks for metrics waits for none of them. */
enum sl_lane { SL_LANE_LEASE, SL_LANE_DECISION, SL_LANE_STATUS, SL_LANE_EVENT, SL_LANE_ACCESS, SL_LANE__COUNT };

struct sl_reply {
    int code;   /* 0, or a negative enum sl_code: NOT_FOUND CONFLICT (409) EXISTS (409 AlreadyExists) GONE INVALID (422,
                   400)   DENIED (401, 403) TOO_BIG (413) UNAVAILABLE (no answer, 429, 5xx after all retries) TIMEOUT
                   CANCELLED */
    int status; /* HTTP status; 0 when there was no answer */
    bool unknown;                 /* a write was sent, but no answer came: it may or may not have happened. Also with an
                                     answer that may be the echo of an earlier attempt which had none: CONFLICT,
                                     EXISTS or NOT_FOUND then need not mean that somebody else was there */
    const struct sl_json *object; /* borrowed: the object, or the server's Status; NULL when there was none */
    const char *text;             /* message for people; never NULL */
};
typedef void (*sl_reply_fn)(void *payload, const struct sl_reply *reply);

struct sl_request {
    enum sl_verb verb;
    const struct sl_resource *resource;
    const char *ns, *name;     /* copied; ns NULL for cluster scope; name NULL for LIST and CREATE */
    const char *subresource;   /* "status", ...; NULL for the object itself; copied */
    const char *query;         /* further query text, already encoded, without '?'; NULL; copied */
    struct sl_json *body;      /* taken; CREATE, UPDATE, patches; DELETE: DeleteOptions or NULL */
    const char *field_manager; /* copied; NULL: none; with APPLY mandatory */
    bool force;                /* APPLY: take over conflicting fields */
    enum sl_lane lane;
    sl_reply_fn
        done; /* called exactly once, also with CANCELLED when the cluster is freed; NULL: nobody wants to know */
    void *payload;
};
/* Queues the request. Within a lane, requests on the same object keep their order. Retries by itself: refused
 * connections, 429 and 503 (Retry-After is obeyed), and GET/LIST and writes that carry metadata.resourceVersion or are
 * idempotent when the connection died under them. Conflicts are never retried here: the decision was made on an old
 * object. */
void sl_cluster_send(struct sl_cluster *c, const struct sl_request *request);
/* Requests queued or under way in a lane. */
unsigned sl_cluster_pending(const struct sl_cluster *c, enum sl_lane lane);

/* ---- running ---- */

/* Waits up to timeout_ms for something to happen, handles it, and returns. Works in slices of a few ms, so that it can
 * be called in a loop beside other work. In-memory: delivers what is due; when nothing is, moves the virtual clock by
 * timeout_ms or to the next due event. */
void sl_cluster_step(struct sl_cluster *c, int64_t timeout_ms);
void sl_cluster_wakeup(struct sl_cluster *c);           /* any thread: makes a waiting step return */
int64_t sl_cluster_wall_ms(const struct sl_cluster *c); /* virtual time in the in-memory cluster */
int64_t sl_cluster_mono_ms(const struct sl_cluster *c);
void sl_cluster_free(struct sl_cluster *c); /* NULL is fine; pending requests are answered with CANCELLED */

/* ---- for implementations ---- */

struct sl_cluster_ops {
    struct sl_watch *(*watch)(struct sl_cluster *, const struct sl_resource *, const struct sl_watch_options *,
                              sl_watch_fn, void *);
    bool (*watch_synced)(const struct sl_watch *);
    int64_t (*watch_age_ms)(const struct sl_watch *);
    void (*send)(struct sl_cluster *, const struct sl_request *);
    unsigned (*pending)(const struct sl_cluster *, enum sl_lane);
    void (*step)(struct sl_cluster *, int64_t);
    void (*wakeup)(struct sl_cluster *);
    int64_t (*wall_ms)(const struct sl_cluster *);
    int64_t (*mono_ms)(const struct sl_cluster *);
    void (*free)(struct sl_cluster *);
};
struct sl_cluster {
    const struct sl_cluster_ops *ops; /* first member of every implementation's struct */
};
struct sl_watch {
    struct sl_cluster *cluster; /* first member of every implementation's struct */
};

#endif
