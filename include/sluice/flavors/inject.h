/*
 * What the pod sets of an admitted Workload get at start: the flavors' nodeSelector and tolerations, the queue's
 * labels, updates of admission checks. The result is what the job kinds take (jobs/jobkind.h).
 */
#ifndef SLUICE_FLAVORS_INJECT_H
#define SLUICE_FLAVORS_INJECT_H

#include "sluice/api/types.h"
#include "sluice/base/json.h"

struct sl_inject_input {
    const struct sl_admission *admission;
    const char *workload, *queue;                                   /* names; queue may be NULL */
    const struct sl_flavor *(*flavor)(void *arg, const char *name); /* NULL: not there */
    void *flavor_arg;
    const struct sl_json *checks; /* status.admissionChecks of the Workload (podSetUpdates), or NULL */
};
/*
 * Array of [{"name","count","labels","annotations","nodeSelector","tolerations"}] in the order of the assignments;
 * owned. SL_NOT_FOUND: a flavor is missing; SL_CONFLICT: two sources give one key two values, the text names the key,
 * both sources and both values.
 */
SL_MUST int sl_inject_podsets(const struct sl_inject_input *in, struct sl_json **ret, struct sl_err *err);
/* Whether flavors may serve one pod set together: no node label key with two values. SL_CONFLICT names both flavors and
 * the key. */
SL_MUST int sl_inject_compatible(const struct sl_flavor *const *flavors, size_t n, struct sl_err *err);

#endif
