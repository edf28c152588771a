/* LimitRange summary as podspec.c reads it; made by limits.c. */
#ifndef SLUICE_JOBS_PODSPEC_INTERNAL_H
#define SLUICE_JOBS_PODSPEC_INTERNAL_H

#include "sluice/api/quantity.h"
#include "sluice/jobs/podspec.h"

struct limit {
    char *name;
    struct sl_quantity q;
};
struct limit_map { /* in order of appearance; at most SL_PODSPEC_MAX_RESOURCES */
    struct limit *items;
    size_t n, cap;
};
struct limit_type {
    struct limit_map min, max, defaults, default_requests;
};
struct sl_limits {
    struct limit_type container, pod;
};
const struct sl_quantity *limit_map_get(const struct limit_map *m, const char *name);

#endif
