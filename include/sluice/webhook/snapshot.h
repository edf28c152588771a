/*
 * What the webhook handlers know of the cluster: immutable once frozen, reference counted, and swapped as a whole. The
 * manager builds a new one from decoded objects (at most once a second) and publishes it; server threads acquire and
 * release. Everything put in is copied.
 */
#ifndef SLUICE_WEBHOOK_SNAPSHOT_H
#define SLUICE_WEBHOOK_SNAPSHOT_H

#include "sluice/api/config.h"
#include "sluice/api/types.h"
#include "sluice/base/json.h"
#include "sluice/flavors/gpu.h"
#include "sluice/flavors/shm.h"

struct sl_snapshot;

/* Building, by one thread. own_namespace: ours, which is never managed unless the configuration selects namespaces
 * itself. SL_INVALID names the part of the configuration. */
SL_MUST int sl_snapshot_new(const struct sl_config *config, const char *own_namespace, struct sl_snapshot **ret,
                            struct sl_err *err);
/* The same configuration as `old`, no objects: cheap. */
struct sl_snapshot *sl_snapshot_renew(const struct sl_snapshot *old);
/* labels: all of the namespace; annotations: those that begin with sluice.dev/ (NULL: none). */
void sl_snapshot_add_namespace(struct sl_snapshot *s, const char *name, const struct sl_labels *labels,
                               const struct sl_labels *annotations);
void sl_snapshot_add_localqueue(struct sl_snapshot *s,
                                const struct sl_localqueue *q); /* in a namespace that was not added: dropped */
void sl_snapshot_add_clusterqueue(struct sl_snapshot *s, const struct sl_clusterqueue *q);
void sl_snapshot_add_flavor(struct sl_snapshot *s, const struct sl_flavor *f);
void sl_snapshot_freeze(struct sl_snapshot *s);

struct sl_snapshot *sl_snapshot_ref(struct sl_snapshot *s); /* any thread */
void sl_snapshot_unref(struct sl_snapshot *s);              /* any thread; NULL is fine */

/* The published one. */
struct sl_snapshot_box;
struct sl_snapshot_box *sl_snapshot_box_new(void); /* empty */
void sl_snapshot_box_free(struct sl_snapshot_box *b);
void sl_snapshot_publish(struct sl_snapshot_box *b,
                         struct sl_snapshot *take); /* frozen; the old one goes with its last user */
/* With the types of struct sl_server_options: payload is the box. acquire gives NULL while nothing is published. */
const void *sl_snapshot_acquire(void *box);
void sl_snapshot_release(void *box, const void *snapshot);

/* ---- reading; all borrowed; objects hold only what handlers read: names, queue, stop policy, groups by name, labels,
 * annotations ---- */
const struct sl_gpu_rules *sl_snapshot_gpu_rules(const struct sl_snapshot *s);
const struct sl_shm_config *sl_snapshot_shm(const struct sl_snapshot *s);
bool sl_snapshot_framework(const struct sl_snapshot *s, const char *integration);
const struct sl_labels *sl_snapshot_ns_labels(const struct sl_snapshot *s, const char *ns);      /* NULL: not known */
const struct sl_labels *sl_snapshot_ns_annotations(const struct sl_snapshot *s, const char *ns); /* NULL: not known */
bool sl_snapshot_ns_selected(
    const struct sl_snapshot *s,
    const char *ns); /* matches managedJobsNamespaceSelector; unknown ones by their name alone */
bool sl_snapshot_ns_has_default(const struct sl_snapshot *s,
                                const char *ns); /* an active LocalQueue "default" is there */
const struct sl_localqueue *sl_snapshot_localqueue(const struct sl_snapshot *s, const char *ns, const char *name);
const struct sl_clusterqueue *sl_snapshot_clusterqueue(const struct sl_snapshot *s, const char *name);
const struct sl_flavor *sl_snapshot_flavor(const struct sl_snapshot *s, const char *name);

bool sl_snapshot_partial_admission(const struct sl_snapshot *s); /* gate PartialAdmission */

/* Whether the webhook holds a job with this queue label ("" none) that has no managed ancestor. */
bool sl_snapshot_manages(const struct sl_snapshot *s, const char *ns, const char *queue);

#endif
