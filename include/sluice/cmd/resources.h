/* The resources the manager watches or writes. A new one is a row here. */
#ifndef SLUICE_CMD_RESOURCES_H
#define SLUICE_CMD_RESOURCES_H

#include "sluice/kube/cluster.h"

#define SL_KUEUE_GROUP "kueue.x-k8s.io"
#define SL_KUEUE_API   "kueue.x-k8s.io/v1beta2"

/* SL_WATCHED(id, group, version, plural, kind, namespaced): everything the manager keeps a watch on, besides job kinds
 * (jobs/jobkind.h) */
#define SL_WATCHED_TABLE(SL_WATCHED)                                                                                   \
    SL_WATCHED(NAMESPACES, "", "v1", "namespaces", "Namespace", false)                                                 \
    SL_WATCHED(LIMITRANGES, "", "v1", "limitranges", "LimitRange", true)                                               \
    SL_WATCHED(RUNTIMECLASSES, "node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", false)                           \
    SL_WATCHED(PRIORITYCLASSES, "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", false)                  \
    SL_WATCHED(WORKLOADPRIORITYCLASSES, SL_KUEUE_GROUP, "v1beta2", "workloadpriorityclasses", "WorkloadPriorityClass", \
               false)                                                                                                  \
    SL_WATCHED(RESOURCEFLAVORS, SL_KUEUE_GROUP, "v1beta2", "resourceflavors", "ResourceFlavor", false)                 \
    SL_WATCHED(COHORTS, SL_KUEUE_GROUP, "v1beta2", "cohorts", "Cohort", false)                                         \
    SL_WATCHED(CLUSTERQUEUES, SL_KUEUE_GROUP, "v1beta2", "clusterqueues", "ClusterQueue", false)                       \
    SL_WATCHED(LOCALQUEUES, SL_KUEUE_GROUP, "v1beta2", "localqueues", "LocalQueue", true)                              \
    SL_WATCHED(ADMISSIONCHECKS, SL_KUEUE_GROUP, "v1beta2", "admissionchecks", "AdmissionCheck", false)                 \
    SL_WATCHED(WORKLOADS, SL_KUEUE_GROUP, "v1beta2", "workloads", "Workload", true)                                    \
    SL_WATCHED(JOBS, "batch", "v1", "jobs", "Job", true)

enum sl_watched {
#define SL_WATCHED(id, group, version, plural, kind, namespaced) SL_WATCHED_##id,
    SL_WATCHED_TABLE(SL_WATCHED)
#undef SL_WATCHED
        SL_WATCHED__COUNT
};
extern const struct sl_resource sl_watched[SL_WATCHED__COUNT];
const struct sl_resource *
sl_resource_of(const struct sl_json *object); /* by apiVersion's group and kind, any version; NULL: not in the table */

#endif
