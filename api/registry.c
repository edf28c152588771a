/* The table of kinds. */
#include "sluice/api/registry.h"

#include <string.h>

#include "convert_kinds.h"
#include "sluice/base/mem.h"

/* kind, plural, singular, short names, namespaced, has status, convert webhook, webhook name, finalizer on create,
 * validate, to v1beta1, to v1beta2 */
static const struct sl_api_kind kinds[] = {
    {"ResourceFlavor", "resourceflavors", "resourceflavor", "flavor,flavors,rf", false, false, false,
     "vresourceflavor.kb.io", true, sl_flavor_validate, NULL, NULL},
    {"ClusterQueue", "clusterqueues", "clusterqueue", "cq", false, true, true, "vclusterqueue.kb.io", true,
     sl_clusterqueue_validate, sl_clusterqueue_to_v1beta1, sl_clusterqueue_to_v1beta2},
    {"LocalQueue", "localqueues", "localqueue", "queue,queues,lq", true, true, true, NULL, false,
     sl_localqueue_validate, sl_localqueue_to_v1beta1, sl_localqueue_to_v1beta2},
    {"Cohort", "cohorts", "cohort", "co", false, true, true, "vcohort.kb.io", false, sl_cohort_validate, NULL,
     sl_cohort_to_v1beta2},
    {"Workload", "workloads", "workload", "kwl,kueueworkload,kueueworkloads", true, true, true, "vworkload.kb.io",
     false, sl_workload_validate, sl_workload_to_v1beta1, sl_workload_to_v1beta2},
    {"WorkloadPriorityClass", "workloadpriorityclasses", "workloadpriorityclass", "wpc", false, false, false, NULL,
     false, sl_priorityclass_validate, NULL, NULL},
    {"AdmissionCheck", "admissionchecks", "admissioncheck", "ac", false, true, false, NULL, false,
     sl_admissioncheck_validate, NULL, sl_admissioncheck_to_v1beta2},
    {"Topology", "topologies", "topology", "topo", false, false, false, NULL, false, sl_topology_validate, NULL, NULL},
    {"MultiKueueCluster", "multikueueclusters", "multikueuecluster", "mkc", false, true, true, NULL, false,
     sl_multikueuecluster_validate, sl_multikueuecluster_to_v1beta1, sl_multikueuecluster_to_v1beta2},
    {"MultiKueueConfig", "multikueueconfigs", "multikueueconfig", "mkconf", false, false, false, NULL, false,
     sl_multikueueconfig_validate, sl_multikueueconfig_to_v1beta1, NULL},
    {"ProvisioningRequestConfig", "provisioningrequestconfigs", "provisioningrequestconfig", "prc", false, false, false,
     NULL, false, sl_provisioningconfig_validate, NULL, NULL},
};

const struct sl_api_kind *sl_api_kinds(size_t *ret_n) {
    *ret_n = SL_COUNT(kinds);
    return kinds;
}

const struct sl_api_kind *sl_api_kind_find(const char *kind) {
    for (size_t i = 0; i < SL_COUNT(kinds); i++)
        if (!strcmp(kinds[i].kind, kind))
            return &kinds[i];
    return NULL;
}

static bool in_list(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *p = list; *p;) {
        const char *end = strchrnul(p, ',');
        if ((size_t)(end - p) == n && !memcmp(p, word, n))
            return true;
        p = *end ? end + 1 : end;
    }
    return false;
}

const struct sl_api_kind *sl_api_kind_by_plural(const char *name) {
    for (size_t i = 0; i < SL_COUNT(kinds); i++)
        if (!strcmp(kinds[i].plural, name) || !strcmp(kinds[i].singular, name) || in_list(kinds[i].short_names, name))
            return &kinds[i];
    return NULL;
}
