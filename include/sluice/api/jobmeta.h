/* Validation of what users say to us in the labels and annotations of a job of any kind, and in its pod templates. */
#ifndef SLUICE_API_JOBMETA_H
#define SLUICE_API_JOBMETA_H

#include "sluice/api/fielderr.h"

struct sl_jobmeta_template {
    const char *path;               /* "spec.template" */
    const struct sl_json *template; /* borrowed; metadata and spec below it */
};
struct sl_jobmeta_facts {
    const char *kind;              /* for messages */
    bool suspended, old_suspended; /* by the kind's own rule; old_suspended only with old */
    bool default_queue;            /* the namespace has an active LocalQueue named default */
    bool prebuilt_supported, elastic_supported;
    bool batch_job;     /* batch/v1 Job: partial admission by annotations, spec.parallelism */
    int32_t pods_count; /* of the job, for batch_job */
    const struct sl_jobmeta_template *templates;
    size_t n_templates;
};
/* old: NULL on create. Adds an error for every rule broken (webhook errors: 403). */
void sl_jobmeta_validate(const struct sl_json *object, const struct sl_json *old, const struct sl_jobmeta_facts *facts,
                         struct sl_fielderrs *errors);

#endif
