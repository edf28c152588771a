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

struct sl_shm_config {               /* configuration section `shm` */
    char *size;                      /* default size value; NULL: auto */
    char *scope;                     /* NULL: pod */
    int64_t max, max_without_limits; /* bytes; 64Gi and 32Gi */
};
/* {size, scope, max, maxWithoutLimits}; NULL: defaults. SL_INVALID names the field (shm.max). */
SL_MUST int sl_shm_config_decode(const struct sl_json *shm, struct sl_shm_config *ret, struct sl_err *err);
void sl_shm_config_done(struct sl_shm_config *c);

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
    bool new_volume;          /* else `volume` exists already */
    char volume[64];          /* name of the volume to mount; longer names of users' volumes: see volume_ref */
    const char *volume_ref;   /* name to use: volume, or borrowed from the template */
    int64_t size_mi;          /* of a new volume */
    size_t mounts;            /* containers that get a mount */
    bool *regular, *init;     /* which, by index; as long as the template's lists */
    struct sl_json *warnings; /* array of texts, never NULL after planning */
};
void sl_shm_plan(const struct sl_shm_input *in, struct sl_shm_plan *ret);
void sl_shm_plan_done(struct sl_shm_plan *p);
/* Changes the template (a copy of the planned one): volume first, then mounts appended. */
void sl_shm_apply(const struct sl_shm_plan *p, struct sl_json *pod_template);

#endif
