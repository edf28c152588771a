/*
 * The memory volume at /dev/shm of GPU pods: a pure plan from a pod template and what is said on each level, and its
 * application to a copy of the template. Annotations: sluice.dev/shm-size (auto | off | quantity | n%), shm-max
 * (quantity), shm-scope (pod | gpu).
 */
#ifndef SLUICE_FLAVORS_SHM_H
#define SLUICE_FLAVORS_SHM_H

#include "sluice/api/types.h"
#include "sluice/base/json.h"
#include "sluice/flavors/gpu.h"

#define SL_SHM_SIZE_ANNOTATION  "sluice.dev/shm-size"
#define SL_SHM_MAX_ANNOTATION   "sluice.dev/shm-max"
#define SL_SHM_SCOPE_ANNOTATION "sluice.dev/shm-scope"
#define SL_SHM_VOLUME           "sluice-dshm"

struct sl_shm_config {               /* what applies when no annotation says anything; texts borrowed */
    const char *size, *scope;        /* auto | off | quantity | n%; pod | gpu */
    int64_t max, max_without_limits; /* bytes */
};
#define SL_SHM_CONFIG_DEFAULT                                                                                          \
    { "auto", "pod", (int64_t)64 << 30, (int64_t)32 << 30 }

struct sl_shm_input {
    const struct sl_json *pod_template;    /* metadata and spec */
    const struct sl_json *job_annotations; /* map, or NULL */
    const char *kind;                      /* "Job" */
    const struct sl_gpu_rules *rules;      /* NULL: the built-in table */
    const struct sl_shm_config *config;    /* NULL: defaults */
    /* Candidate flavors: those of the ClusterQueue's group that covers the GPU resource. */
    const struct sl_labels *const *flavor_labels, *const *flavor_annotations;
    size_t n_flavors;
    /* annotations of the other levels; NULL: absent */
    const struct sl_labels *localqueue, *ns, *clusterqueue;
};
struct sl_shm_plan {
    bool inject;
    bool new_volume;          /* else `volume` is there already */
    const char *volume;       /* name; constant, or borrowed from the template */
    int64_t size_mi;          /* of a new volume */
    size_t mounts;            /* containers that get a mount */
    bool *regular, *init;     /* which of containers and initContainers, by index */
    struct sl_json *warnings; /* array of texts, never NULL after planning */
};
void sl_shm_plan(const struct sl_shm_input *in, struct sl_shm_plan *ret);
void sl_shm_plan_done(struct sl_shm_plan *p);
/* Changes the template, which is a copy of the planned one and may be a shallow one: what changes below it is copied
 * first. Volume first, then mounts, all appended. */
void sl_shm_apply(const struct sl_shm_plan *p, struct sl_json *pod_template);

#endif
