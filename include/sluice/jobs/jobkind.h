/*
 * Job kinds as data: one `const struct sl_jobkind` per kind, found through the registry. All functions are pure over
 * JSON trees of the job as the API server gives it; they never change their arguments and accept anything that parses.
 * Results named `ret` are owned. Patches carry the
 * resourceVersion of the job that they were decided on.
 */
#ifndef SLUICE_JOBS_JOBKIND_H
#define SLUICE_JOBS_JOBKIND_H

#include <stdbool.h>
#include <stdint.h>

#include "sluice/base/json.h"

/* Next write of a stop; see sl_job_stop_next. */
enum sl_stop_step {
    SL_STOP_DONE,    /* nothing left to write */
    SL_STOP_SUSPEND, /* merge patch: suspend, marked as being stopped */
    SL_STOP_RESET,   /* merge patch of the status subresource: startTime removed */
    SL_STOP_WAIT,    /* pods are still counted; come again when the job changes */
    SL_STOP_RESTORE, /* merge patch: template and counts as the Workload keeps them, mark removed */
};

/*
 * What the pod sets get at start: an array
 * [{"name","count","labels":{},"annotations":{},"nodeSelector":{},"tolerations":[]}], made by sl_inject_podsets()
 * (flavors/inject.h). Members may be absent.
 */
struct sl_jobkind {
    const char *integration; /* name in the configuration, "batch/job" */
    const char *group, *version, *resource, *kind;
    const char *suspend_path; /* dotted path of the boolean */
    bool prebuilt;            /* may name a prebuilt Workload */
    /* podSets as they go into a Workload. SL_INVALID when the job has no template. */
    int (*podsets)(const struct sl_json *job, struct sl_json **ret, struct sl_err *err);
    bool (*suspended)(const struct sl_json *job);       /* suspended and not in the middle of being stopped */
    bool (*suspension_seen)(const struct sl_json *job); /* the kind's own controller has acknowledged the suspension */
    /* *message is borrowed from the job, "" when it says nothing. */
    bool (*finished)(const struct sl_json *job, bool *success, const char **message);
    int64_t (*active_pods)(const struct sl_json *job);
    bool (*pods_ready)(const struct sl_json *job);
    /* status.reclaimablePods [{name,count}], or NULL when nothing is reclaimable. */
    struct sl_json *(*reclaimable)(const struct sl_json *job);
    /* The one merge patch that starts the job. SL_CONFLICT names the key and both values (never overwrite; permanent).
     */
    int (*start_patch)(const struct sl_json *job, const struct sl_json *infos, struct sl_json **ret,
                       struct sl_err *err);
    /* workload: whose podSets are the originals; NULL: what the start has noted on the job is taken back, and without a
     * note the template is left alone. */
    enum sl_stop_step (*stop_next)(const struct sl_json *job, const struct sl_json *workload, struct sl_json **ret);
    /* The pod sets as they look in the running job: podSets of a Workload with infos applied; NULL when that conflicts.
     */
    struct sl_json *(*running_podsets)(const struct sl_json *job, const struct sl_json *podsets,
                                       const struct sl_json *infos);
};

/* Registry, in a fixed order; borrowed for ever. */
const struct sl_jobkind *sl_jobkind_at(size_t i); /* NULL past the end */
const struct sl_jobkind *sl_jobkind_find(const char *group, const char *kind);
const struct sl_jobkind *sl_jobkind_by_integration(const char *name);
const struct sl_jobkind *sl_jobkind_of(const struct sl_json *object); /* by apiVersion and kind; NULL: none */

/* ---- the same for every kind ---- */

/* Name of the Workload of a job: kind, name, and a hash that also covers group and uid. extra NULL: none. max: 253, or
 * 63 with short names. Owned. */
char *sl_job_workload_name(const char *kind, const char *group, const char *owner_name, const char *owner_uid,
                           const char *extra, size_t max);
const char *sl_job_queue(const struct sl_json *job);    /* label queue-name; "" when absent */
const char *sl_job_prebuilt(const struct sl_json *job); /* annotation first, label second; NULL when absent or empty */
int32_t sl_job_max_exec(const struct sl_json *job);     /* label, 0: none or unreadable */
/* The start has noted on the job what it put in, so that a stop can do without the Workload. */
bool sl_job_start_noted(const struct sl_json *job);
/* First pod set's template.spec.priorityClassName that is not empty, or NULL. */
const char *sl_job_pod_priority_class(const struct sl_json *podsets);

struct sl_job_workload_input {
    const struct sl_jobkind *kind;
    const struct sl_json *job;
    const char *const *label_keys_to_copy; /* NULL-terminated, or NULL */
    /* priority, resolved by the caller: NULL class: no reference */
    const char *priority_class;
    bool pod_priority_class; /* a PriorityClass, not a WorkloadPriorityClass */
    int32_t priority;
    bool short_names;
};
/* The Workload object to create for a job (v1beta2). SL_INVALID when the job has no pod sets. */
SL_MUST int sl_job_workload(const struct sl_job_workload_input *in, struct sl_json **ret, struct sl_err *err);

/*
 * Whether the Workload still stands for the job. infos: NULL, or what the pod sets get when the Workload
 * holds quota (then the job is compared with the running form, and a suspended job also with the stored one).
 * Environment duplicates do not count as differences.
 */
bool sl_job_equivalent(const struct sl_jobkind *kind, const struct sl_json *job, const struct sl_json *workload,
                       const struct sl_json *infos);

/* The next write of a stop as the job stands now; call it again with the job that came back until SL_STOP_DONE. *ret:
 * owned patch or NULL. */
static inline enum sl_stop_step sl_job_stop_next(const struct sl_jobkind *k, const struct sl_json *job,
                                                 const struct sl_json *workload, struct sl_json **ret) {
    return k->stop_next(job, workload, ret);
}

/* ---- for the kinds' own files ---- */

/* Copy of a pod template the way pod sets keep it: named labels removed, duplicate env names merged (first position,
 * last value). Owned. */
struct sl_json *sl_template_copy(const struct sl_json *template, const char *const *remove_labels);
/* Adds to the merge patch of a template what `info` brings and `template` lacks; SL_CONFLICT on another value. */
SL_MUST int sl_template_inject(const struct sl_json *template, const struct sl_json *info, struct sl_json *patch,
                               struct sl_err *err);
/* Merge patch that gives `current` the labels, annotations, nodeSelector, tolerations and schedulingGates of
 * `original`; labels in `keep` stay as they are. Owned. */
struct sl_json *sl_template_restore(const struct sl_json *current, const struct sl_json *original,
                                    const char *const *keep_labels);
const struct sl_json *sl_info_find(const struct sl_json *infos, const char *podset); /* by name; NULL */

#endif
