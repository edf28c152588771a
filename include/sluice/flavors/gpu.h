/*
 * Which extended resources are GPUs (or parts of them), and what of them a pod template uses. The table is
 * defs/resources.def; the configuration's `gpuResources` are searched first.
 */
#ifndef SLUICE_FLAVORS_GPU_H
#define SLUICE_FLAVORS_GPU_H

#include <stdbool.h>
#include <stdint.h>

#include "sluice/api/types.h"
#include "sluice/base/json.h"

enum sl_gpu_mode {
    SL_GPU_NONE,   /* not known: an ordinary resource */
    SL_GPU_WHOLE,  /* devices */
    SL_GPU_SHARED, /* replicas of shared devices */
    SL_GPU_MIG,    /* slices */
    SL_GPU_MEM,    /* memory of a device */
    SL_GPU_CORE,   /* compute of a device */
    SL_GPU_MON,    /* monitoring: makes no GPU job */
    SL_GPU_NIC,    /* network devices: make no GPU job */
};
enum sl_gpu_count {
    SL_GPU_COUNT_NONE,
    SL_GPU_COUNT_QUANTITY,
    SL_GPU_COUNT_ONE
}; /* how the quantity enters the number of devices */
struct sl_gpu_class {
    enum sl_gpu_mode mode;
    enum sl_gpu_count count;
};

struct sl_gpu_rules; /* immutable; shared between threads */
/* Rows of the configuration, searched before the table: "match", "match=MODE" or "match=MODE:count", where match is a
 * name with at most one '*', MODE one of WHOLE (default), SHARED, MIG, MEM, CORE, MON, NIC, and count one of quantity,
 * one, none (default by mode). SL_INVALID names the row; at most 256. */
SL_MUST int sl_gpu_rules_new(const char *const *rows, size_t n, struct sl_gpu_rules **ret, struct sl_err *err);
void sl_gpu_rules_free(struct sl_gpu_rules *r);

struct sl_gpu_class sl_gpu_classify(const struct sl_gpu_rules *rules, const char *resource); /* rules may be NULL */
bool sl_gpu_is_device(enum sl_gpu_mode mode); /* WHOLE, SHARED, MIG, MEM or CORE */

struct sl_mig_profile {
    int compute, memory_gb; /* of "<compute>g.<memory>gb" */
    bool shared;            /* last attribute .shared */
};
/* "nvidia.com/mig-1g.10gb.me" and the like; false when it is not such a name. */
bool sl_mig_parse(const char *resource, struct sl_mig_profile *ret);

struct sl_gpu_use {
    bool gpu;        /* the template is a GPU template */
    bool fractional; /* by annotation */
    int64_t devices; /* G: most devices of one container, at least 1 for a GPU template */
};
struct sl_gpu_use sl_gpu_scan(const struct sl_gpu_rules *rules, const struct sl_json *pod_template);
/* One container asks for a positive amount of a GPU resource. */
bool sl_gpu_container(const struct sl_gpu_rules *rules, const struct sl_json *container);
enum sl_sharing { SL_SHARING_NONE, SL_SHARING_TIME_SLICING, SL_SHARING_MPS };
/* How the devices of a flavor are shared, by its node labels or its annotation sluice.dev/sharing-strategy. */
enum sl_sharing sl_gpu_flavor_sharing(const struct sl_labels *node_labels, const struct sl_labels *annotations);

/* Names of the GPU resources that the template asks for, in order of appearance, each once; borrowed from the tree.
 * Returns how many of at most max were found. */
size_t sl_gpu_resources(const struct sl_gpu_rules *rules, const struct sl_json *pod_template, const char **names,
                        size_t max);

/* Warnings about a pod template that need nothing but itself (W1-W5, W10, W18, W21-W23), appended to the array `out` as
 * texts. pods: how many pods the job has; builtin: the API server checks the template of this kind itself, so W3 is
 * left to it. */
void sl_gpu_warnings(const struct sl_gpu_rules *rules, const struct sl_json *pod_template, int64_t pods, bool builtin,
                     struct sl_json *out);

#endif
