/* Kubernetes Events (events.k8s.io/v1): rate limited and aggregated, never in the way of decisions. Loop thread only.
 */
#ifndef SLUICE_KUBE_EVENT_H
#define SLUICE_KUBE_EVENT_H

#include "sluice/kube/cluster.h"

struct sl_events;
struct sl_events *sl_events_new(struct sl_cluster *c, const char *reporting_instance);
void sl_events_free(struct sl_events *e);
/* Says something about an object (apiVersion, kind, metadata.{namespace,name,uid,resourceVersion} are read). The same
 * (object, controller, type, reason, note) is not sent again within 10 minutes (a series with a count is patched at
 * most every 5 minutes after the first repetition); note is cut to 1024 bytes ending in " ...". Over the budget (100
 * queued) events are dropped and counted. */
void sl_events_emit(struct sl_events *e, const char *controller, const struct sl_json *regarding, bool warning,
                    const char *reason, const char *action, const char *note);

#endif
