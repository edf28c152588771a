/*
 * batch/v1 Job. One pod set "main". Start is one merge patch; a stop is up to three, each decided from the job as it
 * stands, so that a stop that was interrupted anywhere goes on: suspend and mark, clear status.startTime (the template
 * can only be changed without it), restore the template and take the mark off.
 */
#include <stdlib.h>
#include <string.h>

#include "kinds.h"
#include "sluice/api/names.h"
#include "sluice/base/mem.h"
#include "sluice/base/num.h"
#include "undo.h"

/* Written by the Job controller's own defaulting; a pod set must not carry what a later Job of the same template cannot
 * have. */
static const char *const removed_labels[] = {"job-name", "controller-uid", "batch.kubernetes.io/controller-uid", NULL};
static const char *const managed_labels[] = {"job-name", "controller-uid", "batch.kubernetes.io/job-name",
                                             "batch.kubernetes.io/controller-uid", NULL};

static const char *job_annotation(const struct sl_json *job, const char *key) {
    return sl_json_str(sl_json_get(sl_json_path(job, "metadata.annotations"), key), NULL);
}

static int64_t clamp_count(int64_t v) {
    return v < 0 ? 0 : v > INT32_MAX ? INT32_MAX : v;
}
static int64_t job_parallelism(const struct sl_json *job) {
    return clamp_count(sl_json_int(sl_json_path(job, "spec.parallelism"), 1));
}
static int64_t job_completions(const struct sl_json *job) { /* -1: not set */
    const struct sl_json *c = sl_json_path(job, "spec.completions");
    return sl_json_is_null(c) ? -1 : clamp_count(sl_json_int(c, 0));
}

static int64_t pod_count(const struct sl_json *job) {
    int64_t parallelism = job_parallelism(job), completions = job_completions(job);
    return completions >= 0 && completions < parallelism ? completions : parallelism;
}

/* -1: no partial admission */
static int64_t min_parallelism(const struct sl_json *job) {
    int64_t v;
    const char *text = job_annotation(job, SL_ANNOTATION_MIN_PARALLELISM);
    return text && sl_parse_int(text, &v) && v >= 1 ? clamp_count(v) : -1;
}

static bool completions_follow(const struct sl_json *job) {
    const char *text = job_annotation(job, SL_ANNOTATION_COMPLETIONS_EQUAL_PARALLELISM);
    return text && (!strcmp(text, "true") || !strcmp(text, "1") || !strcmp(text, "t") || !strcmp(text, "T") ||
                    !strcmp(text, "TRUE") || !strcmp(text, "True"));
}

static struct sl_json *topology_request(const struct sl_json *template) {
    static const struct {
        const char *annotation, *field;
    } texts[] = {
        {SL_ANNOTATION_PODSET_REQUIRED_TOPOLOGY, "required"},
        {SL_ANNOTATION_PODSET_PREFERRED_TOPOLOGY, "preferred"},
        {SL_ANNOTATION_PODSET_SLICE_REQUIRED_TOPOLOGY, "podSetSliceRequiredTopology"},
        {SL_ANNOTATION_PODSET_GROUP_NAME, "podSetGroupName"},
    };
    const struct sl_json *annotations = sl_json_path(template, "metadata.annotations");
    struct sl_json *t = sl_json_new_object();
    sl_json_set_str(t, "podIndexLabel", SL_POD_INDEX_LABEL);
    for (size_t i = 0; i < SL_COUNT(texts); i++) {
        const char *v = sl_json_get_str(annotations, texts[i].annotation, "");
        if (*v)
            sl_json_set_str(t, texts[i].field, v);
    }
    if (!strcmp(sl_json_get_str(annotations, SL_ANNOTATION_PODSET_UNCONSTRAINED_TOPOLOGY, ""), "true"))
        sl_json_set_bool(t, "unconstrained", true);
    int64_t size;
    if (sl_parse_int(sl_json_get_str(annotations, SL_ANNOTATION_PODSET_SLICE_SIZE, ""), &size) && size >= 1 &&
        size <= INT32_MAX)
        sl_json_set_int(t, "podSetSliceSize", size);
    return t;
}

static int podsets(const struct sl_json *job, struct sl_json **ret, struct sl_err *err) {
    const struct sl_json *template = sl_json_path(job, "spec.template");
    if (!sl_json_is_object(template))
        return sl_err_set(err, SL_INVALID, "spec.template: Required value");
    struct sl_json *ps = sl_json_new_object(), *list = sl_json_new_array();
    sl_json_set_str(ps, "name", SL_DEFAULT_PODSET);
    int64_t count = pod_count(job), min = min_parallelism(job);
    sl_json_set_int(ps, "count", count);
    if (min > 0 && min <= count)
        sl_json_set_int(ps, "minCount", min);
    sl_json_set(ps, "template", sl_template_copy(template, removed_labels));
    sl_json_set(ps, "topologyRequest", topology_request(template));
    sl_json_append(list, ps);
    *ret = list;
    return 0;
}

static bool being_stopped(const struct sl_json *job) {
    const char *mark = job_annotation(job, SL_ANNOTATION_STOPPING);
    return mark && !strcmp(mark, "true");
}
static bool suspend_set(const struct sl_json *job) {
    return sl_json_bool(sl_json_path(job, "spec.suspend"), false);
}

static bool suspended(const struct sl_json *job) {
    return suspend_set(job) && !being_stopped(job);
}

static bool finished(const struct sl_json *job, bool *success, const char **message) {
    SL_JSON_ITEMS (sl_json_path(job, "status.conditions"), e) {
        const char *type = sl_json_get_str(e.value, "type", "");
        bool complete = !strcmp(type, "Complete");
        if ((!complete && strcmp(type, "Failed")) || strcmp(sl_json_get_str(e.value, "status", ""), "True"))
            continue;
        if (success)
            *success = complete;
        if (message)
            *message = sl_json_get_str(e.value, "message", "");
        return true;
    }
    return false;
}

static int64_t status_count(const struct sl_json *job, const char *name) {
    return clamp_count(sl_json_int(sl_json_get(sl_json_get(job, "status"), name), 0));
}

static int64_t active_pods(const struct sl_json *job) {
    return status_count(job, "active");
}

static bool suspension_seen(const struct sl_json *job) {
    SL_JSON_ITEMS (sl_json_path(job, "status.conditions"), c)
        if (!strcmp(sl_json_get_str(c.value, "type", ""), "Suspended"))
            return true;
    return false;
}

static bool pods_ready(const struct sl_json *job) {
    /* pods that succeeded and are not counted yet are no longer ready, but nothing is missing */
    int64_t uncounted = (int64_t)sl_json_len(sl_json_path(job, "status.uncountedTerminatedPods.succeeded"));
    return status_count(job, "succeeded") + status_count(job, "ready") + uncounted >= pod_count(job);
}

/* "1,3-5,7": next interval; false at the end or on malformed text (*bad). */
static bool next_interval(const char **p, int64_t *low, int64_t *high, bool *bad) {
    if (!**p)
        return false;
    size_t n = strcspn(*p, ",");
    const char *dash = memchr(*p, '-', n);
    size_t first = dash ? (size_t)(dash - *p) : n;
    if (sl_parse_i64(*p, first, low, NULL) < 0 || *low < 0) {
        *bad = true;
        return false;
    }
    *high = *low;
    if (dash && (sl_parse_i64(dash + 1, n - first - 1, high, NULL) < 0 || *high < *low)) {
        *bad = true;
        return false;
    }
    *p += n;
    if (**p == ',')
        (*p)++;
    return true;
}

/* How many of the indexes below `completions` are in one list or the other, both ascending; -1: cannot be read. */
static int64_t indexes_done(const char *completed, const char *failed, int64_t completions) {
    const char *p[2] = {completed, failed};
    int64_t low[2], high[2], total = 0, covered = -1; /* the highest index counted */
    bool have[2], bad = false;
    for (int i = 0; i < 2; i++)
        have[i] = next_interval(&p[i], &low[i], &high[i], &bad);
    while (!bad && (have[0] || have[1])) {
        int i = !have[0] ? 1 : !have[1] ? 0 : low[0] <= low[1] ? 0 : 1;
        int64_t from = low[i] > covered ? low[i] : covered + 1, to = high[i] < completions ? high[i] : completions - 1;
        if (to >= from) {
            total += to - from + 1;
            covered = to;
        }
        have[i] = next_interval(&p[i], &low[i], &high[i], &bad);
    }
    return bad ? -1 : total;
}

static struct sl_json *reclaimable(const struct sl_json *job) {
    int64_t count = pod_count(job), completions = job_completions(job);
    if (completions < 0)
        completions = job_parallelism(job);
    int64_t terminal = status_count(job, "succeeded");
    if (!strcmp(sl_json_path_str(job, "spec.completionMode", ""), "Indexed")) {
        int64_t done = indexes_done(sl_json_path_str(job, "status.completedIndexes", ""),
                                    sl_json_path_str(job, "status.failedIndexes", ""), completions);
        if (done >= 0)
            terminal = done;
    }
    int64_t remaining = completions > terminal ? completions - terminal : 0;
    if (count <= 1 || terminal == 0 || remaining >= count)
        return NULL;
    struct sl_json *list = sl_json_new_array(), *o = sl_json_new_object();
    sl_json_set_str(o, "name", SL_DEFAULT_PODSET);
    sl_json_set_int(o, "count", count - remaining);
    sl_json_append(list, o);
    return list;
}

/* A patch decided on this very version of the job. */
static struct sl_json *new_patch(const struct sl_json *job) {
    struct sl_json *patch = sl_json_new_object();
    const char *version = sl_json_path_str(job, "metadata.resourceVersion", NULL);
    if (version)
        sl_json_set_str(sl_json_make_object(patch, "metadata"), "resourceVersion", version);
    return patch;
}

/* Sets parallelism, and completions where they follow, to count, in the spec of a patch. */
static void set_count(const struct sl_json *job, int64_t count, struct sl_json *patch) {
    if (job_parallelism(job) != count)
        sl_json_set_int(sl_json_make_object(patch, "spec"), "parallelism", count);
    if (completions_follow(job) && job_completions(job) != count)
        sl_json_set_int(sl_json_make_object(patch, "spec"), "completions", count);
}

/* Only our own label tells that the template was started by us and not restored since. */
static bool injected(const struct sl_json *job) {
    return !sl_json_is_null(sl_json_get(sl_json_path(job, "spec.template.metadata.labels"), SL_LABEL_PODSET));
}

static int start_patch(const struct sl_json *job, const struct sl_json *infos, struct sl_json **ret,
                       struct sl_err *err) {
    const struct sl_json *info = sl_info_find(infos, SL_DEFAULT_PODSET);
    SL_AUTO_JSON *patch = new_patch(job), *template = sl_json_new_object();
    int code = sl_template_inject(sl_json_path(job, "spec.template"), info, template, err);
    if (code < 0)
        return code;
    /* A note of an earlier start counts while that start has not been taken back. */
    SL_AUTO_JSON *undo = injected(job) ? sl_undo_read(job) : NULL;
    if (!undo)
        undo = sl_json_new_object();
    sl_undo_add(undo, sl_json_path(job, "spec.template"), template);
    struct sl_json *spec = sl_json_make_object(patch, "spec");
    sl_json_set_bool(spec, "suspend", false);
    if (sl_json_len(template))
        sl_json_set(spec, "template", SL_TAKE(template));
    if (min_parallelism(job) > 0 && !sl_json_is_null(sl_json_get(info, "count")))
        set_count(job, clamp_count(sl_json_get_int(info, "count", 0)), patch);
    if (sl_json_get(spec, "parallelism") && !sl_json_get(undo, "parallelism"))
        sl_json_set_int(undo, "parallelism", job_parallelism(job));
    sl_undo_write(job, undo, patch);
    *ret = SL_TAKE(patch);
    return 0;
}

static const struct sl_json *stored_podset(const struct sl_json *workload) {
    return sl_info_find(sl_json_path(workload, "spec.podSets"), SL_DEFAULT_PODSET);
}

static enum sl_stop_step stop_next(const struct sl_json *job, const struct sl_json *workload, struct sl_json **ret) {
    *ret = NULL;
    if (!suspend_set(job)) {
        struct sl_json *patch = new_patch(job);
        sl_json_set_str(sl_json_make_object(sl_json_make_object(patch, "metadata"), "annotations"),
                        SL_ANNOTATION_STOPPING, "true");
        sl_json_set_bool(sl_json_make_object(patch, "spec"), "suspend", true);
        *ret = patch;
        return SL_STOP_SUSPEND;
    }
    const struct sl_json *original = stored_podset(workload);
    SL_AUTO_JSON *undo = original ? NULL : sl_undo_read(job);
    if (!being_stopped(job) &&
        !(injected(job) && (original || undo))) /* without the mark: suspended by somebody else */
        return SL_STOP_DONE;
    if (!sl_json_is_null(sl_json_path(job, "status.startTime"))) {
        struct sl_json *patch = new_patch(job);
        sl_json_set(sl_json_make_object(patch, "status"), "startTime", sl_json_new_null());
        *ret = patch;
        return SL_STOP_RESET;
    }
    const struct sl_json *current = sl_json_path(job, "spec.template");
    SL_AUTO_JSON *template = original ? sl_template_restore(current, sl_json_get(original, "template"), managed_labels)
                             : undo   ? sl_undo_template(undo, current, managed_labels)
                                      : sl_json_new_object();
    /* Newer API servers change the template only once no pod is counted any more. */
    if (sl_json_len(template) && active_pods(job) > 0)
        return SL_STOP_WAIT;
    SL_AUTO_JSON *patch = new_patch(job);
    bool due = being_stopped(job) || sl_json_len(template) || undo;
    if (sl_json_len(template))
        sl_json_set(sl_json_make_object(patch, "spec"), "template", SL_TAKE(template));
    if (original && min_parallelism(job) > 0)
        set_count(job, clamp_count(sl_json_get_int(original, "count", 1)), patch);
    else if (sl_json_get(undo, "parallelism") && min_parallelism(job) > 0)
        set_count(job, sl_json_get_int(undo, "parallelism", 1), patch);
    sl_undo_erase(job, patch);
    if (being_stopped(job))
        sl_json_set(sl_json_make_object(sl_json_make_object(patch, "metadata"), "annotations"), SL_ANNOTATION_STOPPING,
                    sl_json_new_null());
    if (!due)
        return SL_STOP_DONE; /* the stored template carries our labels itself, and a note on it was not ours to take */
    *ret = SL_TAKE(patch);
    return SL_STOP_RESTORE;
}

static struct sl_json *running_podsets(const struct sl_json *job, const struct sl_json *stored,
                                       const struct sl_json *infos) {
    (void)job;
    SL_AUTO_JSON *list = sl_json_copy(stored);
    for (size_t i = 0; i < sl_json_len(list); i++) {
        struct sl_json *ps = sl_json_mut_at(list, i);
        const struct sl_json *info = sl_info_find(infos, sl_json_get_str(ps, "name", SL_DEFAULT_PODSET));
        if (!info)
            continue;
        struct sl_json *patch = sl_json_new_object();
        int code = sl_template_inject(sl_json_get(ps, "template"), info, patch, NULL);
        if (code == 0) {
            struct sl_json *template = sl_json_merge_patch(sl_json_copy(sl_json_get(ps, "template")), patch);
            sl_json_set(ps, "template", template);
            if (!sl_json_is_null(sl_json_get(info, "count")))
                sl_json_set_int(ps, "count", sl_json_get_int(info, "count", 1));
        }
        sl_json_unref(patch);
        if (code < 0)
            return NULL;
    }
    return SL_TAKE(list);
}

const struct sl_jobkind sl_batch_job = {
    .integration = "batch/job",
    .group = "batch",
    .version = "v1",
    .resource = "jobs",
    .kind = "Job",
    .suspend_path = "spec.suspend",
    .prebuilt = true,
    .podsets = podsets,
    .suspended = suspended,
    .finished = finished,
    .active_pods = active_pods,
    .suspension_seen = suspension_seen,
    .pods_ready = pods_ready,
    .reclaimable = reclaimable,
    .start_patch = start_patch,
    .stop_next = stop_next,
    .running_podsets = running_podsets,
};
