/* The rows of the registry, each defined in the file of its kind. */
#ifndef SLUICE_JOBS_KINDS_H
#define SLUICE_JOBS_KINDS_H

#include "sluice/jobs/jobkind.h"

extern const struct sl_jobkind sl_batch_job;

#endif
