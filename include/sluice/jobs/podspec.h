/*
 * What one pod of a template asks for: pure functions over JSON trees, nothing is changed in
 * them. Stored objects are taken as they are: negative requests count as 0, totals saturate, lists with duplicates are
 * fine, unreadable values make the pod set "rejected" with a text that names the field.
 */
#ifndef SLUICE_JOBS_PODSPEC_H
#define SLUICE_JOBS_PODSPEC_H

#include <stdint.h>

#include "sluice/api/config.h"
#include "sluice/api/types.h"
#include "sluice/base/json.h"

/* The LimitRanges of one namespace, summarised: max and ratio the lowest, min the highest, defaults the first seen.
 * Feed them in name order. */
struct sl_limits;
struct sl_limits *sl_limits_new(void);
void sl_limits_add(struct sl_limits *l, const struct sl_json *limit_range);
bool sl_limits_empty(const struct sl_limits *l); /* NULL is empty */
void sl_limits_free(struct sl_limits *l);

struct sl_podspec_context {
    const struct sl_limits *limits; /* of the workload's namespace; NULL: none */
    const struct sl_config *config; /* excludeResourcePrefixes and transformations; NULL: none */
    /* overhead.podFixed of a RuntimeClass, borrowed; NULL when there is no such class. The callback may be NULL. */
    const struct sl_json *(*overhead)(void *arg, const char *runtime_class);
    void *overhead_arg;
};

#define SL_PODSPEC_MAX_RESOURCES 1024 /* distinct resource names in one pod spec; more are rejected */

/* Effective requests of one pod of spec `pod_spec` (PodSpec, not the template) into *ret (owned, sl_requests_done),
 * resources of amount 0 included. *ret_rejected: NULL, or owned text why it may not run (a request above its limit,
 * LimitRanges, an unreadable value); fields are named relative to `path`, e.g. "spec.podSets[0].template.spec". ctx may
 * be NULL. */
void sl_podspec_requests(const struct sl_json *pod_spec, const char *path, const struct sl_podspec_context *ctx,
                         struct sl_requests *ret, char **ret_rejected);

/* Equal for pod specs that are equal in what decides where they fit (requests, ports, placement, runtime class,
 * priority, spread, overhead, claims). Per process; 0: unknown (too large). topology_request: of the pod set, or NULL.
 */
uint64_t sl_podspec_shape(const struct sl_json *pod_spec, const struct sl_json *topology_request);

/* Fills podsets[].per_pod, podsets[].shape and w->rejected of a Workload that sl_workload_decode() made of the same
 * object; what was there is released. */
void sl_workload_fill_podsets(struct sl_workload *w, const struct sl_json *workload_object,
                              const struct sl_podspec_context *ctx);

#endif
