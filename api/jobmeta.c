/*
 * What users say in labels and annotations of jobs. One function a topic; all of them run, so every error is told.
 * These are webhook errors: the job's own kind has been validated by the API server.
 */
#include "sluice/api/jobmeta.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/api/names.h"
#include "sluice/api/validate.h"
#include "sluice/base/map.h"
#include "sluice/base/mem.h"
#include "sluice/base/num.h"

struct job {
    const struct sl_json *labels, *annotations, *spec;
};

static struct job job_of(const struct sl_json *o) {
    const struct sl_json *meta = sl_json_get(o, "metadata");
    return (struct job){sl_json_get(meta, "labels"), sl_json_get(meta, "annotations"), sl_json_get(o, "spec")};
}

#define META_LABEL(key)      SL_PATH_KEY(SL_PATH(SL_PATH(NULL, "metadata"), "labels"), (key))
#define META_ANNOTATION(key) SL_PATH_KEY(SL_PATH(SL_PATH(NULL, "metadata"), "annotations"), (key))

/* Integers as strconv.Atoi takes them, with its words when it does not. */
static bool check_integer(struct sl_fielderrs *l, const struct sl_path *path, const char *text, int64_t *ret) {
    if (sl_parse_int(text, ret))
        return true;
    sl_fielderr_str(l, SL_FE_INVALID, path, text, "strconv.Atoi: parsing \"%.64s\": invalid syntax", text);
    return false;
}

static int bool_of(const char *text) { /* as strconv.ParseBool; -1: neither */
    static const char *const yes[] = {"1", "t", "T", "true", "TRUE", "True"}, *const no[] = {"0",     "f",     "F",
                                                                                             "false", "FALSE", "False"};
    for (size_t i = 0; i < SL_COUNT(yes); i++) {
        if (!strcmp(text, yes[i]))
            return 1;
        if (!strcmp(text, no[i]))
            return 0;
    }
    return -1;
}

static void check_queue(const struct job *now, const struct job *old, const struct sl_jobmeta_facts *f,
                        struct sl_fielderrs *l) {
    const char *name = sl_json_get_str(now->labels, SL_LABEL_QUEUE_NAME, NULL);
    const struct sl_path *path = META_LABEL(SL_LABEL_QUEUE_NAME);
    if (name)
        sl_check_subdomain(l, path, name);
    if (!old)
        return;
    const char *before = sl_json_get_str(old->labels, SL_LABEL_QUEUE_NAME, "");
    name = name ? name : "";
    if (!f->suspended && strcmp(name, before) != 0)
        sl_fielderr_str(l, SL_FE_INVALID, path, name, "field is immutable");
    else if (*before && !*name && f->default_queue)
        sl_fielderr_str(l, SL_FE_INVALID, path, name,
                        "cannot be removed in a namespace with a LocalQueue named default");
}

/* The annotation wins over the label. */
static const char *prebuilt_of(const struct job *job, bool *ret_annotation) {
    const char *name = sl_json_get_str(job->annotations, SL_LABEL_PREBUILT, NULL);
    *ret_annotation = name != NULL;
    return name ? name : sl_json_get_str(job->labels, SL_LABEL_PREBUILT, NULL);
}

static bool is_elastic(const struct job *job) {
    return !strcmp(sl_json_get_str(job->annotations, SL_ANNOTATION_ELASTIC_JOB, ""), "true");
}

static void check_prebuilt(const struct job *now, const struct job *old, const struct sl_jobmeta_facts *f,
                           struct sl_fielderrs *l) {
    bool annotation, old_annotation = false;
    const char *name = prebuilt_of(now, &annotation), *before = old ? prebuilt_of(old, &old_annotation) : NULL;
    const struct sl_path *path =
        annotation || (!name && old_annotation) ? META_ANNOTATION(SL_LABEL_PREBUILT) : META_LABEL(SL_LABEL_PREBUILT);
    if (name) {
        sl_check_subdomain(l, path, name);
        if (!f->prebuilt_supported)
            sl_fielderr_add(l, SL_FE_FORBIDDEN, path, NULL, "prebuilt workloads are not supported for %.60s", f->kind);
    }
    if (old && !f->suspended && !is_elastic(now) && strcmp(name ? name : "", before ? before : "") != 0)
        sl_fielderr_str(l, SL_FE_INVALID, path, name ? name : "", "field is immutable");
}

static void check_max_exec(const struct job *now, const struct job *old, const struct sl_jobmeta_facts *f,
                           struct sl_fielderrs *l) {
    const char *text = sl_json_get_str(now->labels, SL_LABEL_MAX_EXEC_TIME, NULL);
    const struct sl_path *path = META_LABEL(SL_LABEL_MAX_EXEC_TIME);
    int64_t v;
    if (text && check_integer(l, path, text, &v)) {
        if (v <= 0)
            sl_fielderr_int(l, SL_FE_INVALID, path, v, "should be greater than 0");
        else if (v > INT32_MAX)
            sl_fielderr_int(l, SL_FE_INVALID, path, v, "should be at most %d", INT32_MAX);
    }
    if (!old || (f->suspended && f->old_suspended))
        return;
    text = text ? text : "";
    if (strcmp(text, sl_json_get_str(old->labels, SL_LABEL_MAX_EXEC_TIME, "")) != 0)
        sl_fielderr_str(l, SL_FE_INVALID, path, text, "field is immutable");
}

static void check_priority(const struct job *now, const struct job *old, const struct sl_jobmeta_facts *f,
                           struct sl_fielderrs *l) {
    if (!old)
        return;
    const char *name = sl_json_get_str(now->labels, SL_LABEL_PRIORITY_CLASS, ""),
               *before = sl_json_get_str(old->labels, SL_LABEL_PRIORITY_CLASS, "");
    if (!*before && *name && !f->suspended)
        sl_fielderr_str(l, SL_FE_INVALID, META_LABEL(SL_LABEL_PRIORITY_CLASS), name,
                        "WorkloadPriorityClass cannot be added to a running workload");
    if (*before && !*name)
        sl_fielderr_str(l, SL_FE_INVALID, META_LABEL(SL_LABEL_PRIORITY_CLASS), name,
                        "WorkloadPriorityClass cannot be removed from a workload");
}

static void check_elastic(const struct job *now, const struct job *old, const struct sl_jobmeta_facts *f,
                          struct sl_fielderrs *l) {
    const struct sl_path *path = META_ANNOTATION(SL_ANNOTATION_ELASTIC_JOB);
    if (is_elastic(now) && !f->elastic_supported)
        sl_fielderr_add(l, SL_FE_FORBIDDEN, path, NULL, "elastic jobs are not supported for %.60s", f->kind);
    if (old && is_elastic(now) != is_elastic(old))
        sl_fielderr_str(l, SL_FE_INVALID, path, sl_json_get_str(now->annotations, SL_ANNOTATION_ELASTIC_JOB, ""),
                        "field is immutable");
}

static bool equal_text(const struct sl_json *a, const struct sl_json *b, const char *key) {
    return sl_json_equal(sl_json_get(a, key), sl_json_get(b, key));
}

/* Partial admission of batch/v1 Jobs. */
static void check_partial(const struct job *now, const struct job *old, const struct sl_jobmeta_facts *f,
                          struct sl_fielderrs *l) {
    const char *min = sl_json_get_str(now->annotations, SL_ANNOTATION_MIN_PARALLELISM, NULL);
    const char *equal = sl_json_get_str(now->annotations, SL_ANNOTATION_COMPLETIONS_EQUAL_PARALLELISM, NULL);
    const struct sl_path *min_path = META_ANNOTATION(SL_ANNOTATION_MIN_PARALLELISM);
    const struct sl_path *equal_path = META_ANNOTATION(SL_ANNOTATION_COMPLETIONS_EQUAL_PARALLELISM);
    int64_t v;
    if (min && (!old || !equal_text(now->annotations, old->annotations, SL_ANNOTATION_MIN_PARALLELISM))) {
        if (check_integer(l, min_path, min, &v) && (v <= 0 || v >= f->pods_count))
            sl_fielderr_int(l, SL_FE_INVALID, min_path, v, "should be between 0 and %d", f->pods_count - 1);
        if (is_elastic(now))
            sl_fielderr_add(l, SL_FE_INVALID, min_path, NULL, "cannot be used by an elastic job");
    }
    if (equal) {
        int on = bool_of(equal);
        if (on < 0)
            sl_fielderr_str(l, SL_FE_INVALID, equal_path, equal, "strconv.ParseBool: parsing \"%.64s\": invalid syntax",
                            equal);
        if (on > 0 && strcmp(sl_json_get_str(now->spec, "completionMode", "NonIndexed"), "Indexed") != 0)
            sl_fielderr_str(l, SL_FE_INVALID, equal_path, equal, "should not be enabled for NonIndexed jobs");
        else if (on > 0 &&
                 sl_json_get_int(now->spec, "completions", -1) != sl_json_get_int(now->spec, "parallelism", 1))
            sl_fielderr_add(l, SL_FE_INVALID, SL_PATH(SL_PATH(NULL, "spec"), "completions"),
                            sl_json_get(now->spec, "completions"), "should be equal to parallelism when %s is enabled",
                            SL_ANNOTATION_COMPLETIONS_EQUAL_PARALLELISM);
    }
    if (!old)
        return;
    if (!f->old_suspended && sl_json_get(old->annotations, SL_ANNOTATION_MIN_PARALLELISM) &&
        sl_json_get_int(now->spec, "parallelism", 1) != sl_json_get_int(old->spec, "parallelism", 1))
        sl_fielderr_add(l, SL_FE_FORBIDDEN, SL_PATH(SL_PATH(NULL, "spec"), "parallelism"), NULL,
                        "cannot change when partial admission is enabled and the job is not suspended");
    bool was_on = bool_of(sl_json_get_str(old->annotations, SL_ANNOTATION_COMPLETIONS_EQUAL_PARALLELISM, "")) > 0;
    if (!f->suspended && !f->old_suspended && was_on != (equal && bool_of(equal) > 0))
        sl_fielderr_add(l, SL_FE_FORBIDDEN, equal_path, NULL, "cannot change while the job is not suspended");
}

/* "spec.template" as a chain of paths; at most 8 steps. names is what the steps point into. */
#define TEMPLATE_STEPS 8
struct template_path {
    char *names;
    struct sl_path steps[TEMPLATE_STEPS];
    const struct sl_path *last;
};
static void template_path_init(struct template_path *t, const char *text) {
    t->names = sl_xstrdup(text);
    t->last = NULL;
    char *rest = t->names;
    for (size_t i = 0; i < TEMPLATE_STEPS && rest; i++) {
        char *name = strsep(&rest, ".");
        t->steps[i] = (struct sl_path){t->last, name, 0, false};
        t->last = &t->steps[i];
    }
}

static bool is_digits(const char *text) {
    size_t n = strspn(text, "0123456789");
    return n > 0 && !text[n];
}

/* The JSON list of podset-slice-required-topology-constraints: 1 to 3 entries, unique topologies, each size divides the
 * one before. */
static void check_slice_constraints(const char *text, const struct sl_path *path, struct sl_fielderrs *l) {
    struct sl_json *list;
    struct sl_err err = SL_ERR_INIT;
    if (sl_json_parse(text, strlen(text), 16 << 10, &list, &err) < 0 || !sl_json_is_array(list)) {
        sl_fielderr_str(l, SL_FE_INVALID, path, text, "must be a JSON list of {topology, size}");
        if (err.code == SL_OK)
            sl_json_unref(list);
        return;
    }
    if (sl_json_len(list) < 1 || sl_json_len(list) > 3)
        sl_fielderr_str(l, SL_FE_INVALID, path, text, "must have 1 to 3 entries");
    struct sl_map seen = SL_MAP_INIT;
    int64_t before = 0;
    SL_JSON_ITEMS (list, e) {
        const char *topology = sl_json_get_str(e.value, "topology", "");
        int64_t size = sl_json_get_int(e.value, "size", 0);
        if (!*topology || size < 1)
            sl_fielderr_str(l, SL_FE_INVALID, path, text, "entry %zu needs a topology and a size of at least 1", e.i);
        else if (before > 0 && before % size != 0)
            sl_fielderr_str(l, SL_FE_INVALID, path, text, "size %lld of entry %zu does not divide the size before it",
                            (long long)size, e.i);
        if (*topology && sl_map_has(&seen, topology))
            sl_fielderr_str(l, SL_FE_INVALID, path, text, "topology %.63s is given twice", topology);
        sl_map_set(&seen, topology, &seen);
        before = size;
    }
    sl_map_done(&seen, NULL);
    sl_json_unref(list);
}

/* Topology annotations of a template. */
static void check_topology(const struct sl_json *annotations, const struct sl_path *path,
                           const struct sl_jobmeta_facts *f, struct sl_fielderrs *l) {
    static const char *const kinds[] = {SL_ANNOTATION_PODSET_REQUIRED_TOPOLOGY, SL_ANNOTATION_PODSET_PREFERRED_TOPOLOGY,
                                        SL_ANNOTATION_PODSET_UNCONSTRAINED_TOPOLOGY};
    bool has[SL_COUNT(kinds)];
    size_t n = 0;
    for (size_t i = 0; i < SL_COUNT(kinds); i++) {
        has[i] = sl_json_get(annotations, kinds[i]) != NULL;
        n += has[i];
    }
    if (n > 1)
        sl_fielderr_add(l, SL_FE_INVALID, path, NULL,
                        "must not contain more than one topology annotation: [\"%s\", \"%s\", \"%s\"]", kinds[0],
                        kinds[1], kinds[2]);
    const char *unconstrained = sl_json_get_str(annotations, kinds[2], NULL);
    if (unconstrained && bool_of(unconstrained) < 0)
        sl_fielderr_str(l, SL_FE_INVALID, SL_PATH_KEY(path, kinds[2]), unconstrained, "must be a boolean value");
    for (size_t i = 0; i < 2; i++)
        if (has[i])
            sl_check_qualified_name(l, SL_PATH_KEY(path, kinds[i]), sl_json_get_str(annotations, kinds[i], ""));

    const char *required = sl_json_get_str(annotations, SL_ANNOTATION_PODSET_SLICE_REQUIRED_TOPOLOGY, NULL);
    const char *size = sl_json_get_str(annotations, SL_ANNOTATION_PODSET_SLICE_SIZE, NULL);
    const char *constraints = sl_json_get_str(annotations, SL_ANNOTATION_PODSET_SLICE_CONSTRAINTS, NULL);
    const struct sl_path *size_path = SL_PATH_KEY(path, SL_ANNOTATION_PODSET_SLICE_SIZE);
    int64_t v;
    if (required)
        sl_check_qualified_name(l, SL_PATH_KEY(path, SL_ANNOTATION_PODSET_SLICE_REQUIRED_TOPOLOGY), required);
    if (required && !size)
        sl_fielderr_add(l, SL_FE_REQUIRED, size_path, NULL, "must be set when '%s' is specified",
                        SL_ANNOTATION_PODSET_SLICE_REQUIRED_TOPOLOGY);
    if (size && !required)
        sl_fielderr_add(l, SL_FE_FORBIDDEN, size_path, NULL, "may not be set when '%s' is not specified",
                        SL_ANNOTATION_PODSET_SLICE_REQUIRED_TOPOLOGY);
    if (size && check_integer(l, size_path, size, &v)) {
        if (v < 1)
            sl_fielderr_str(l, SL_FE_INVALID, size_path, size, "must be greater than or equal to 1");
        else if (f->batch_job && v > f->pods_count)
            sl_fielderr_str(l, SL_FE_INVALID, size_path, size, "must not be greater than pod set count %d",
                            f->pods_count);
    }
    if (constraints)
        check_slice_constraints(constraints, SL_PATH_KEY(path, SL_ANNOTATION_PODSET_SLICE_CONSTRAINTS), l);

    const char *group = sl_json_get_str(annotations, SL_ANNOTATION_PODSET_GROUP_NAME, NULL);
    if (!group)
        return;
    const struct sl_path *group_path = SL_PATH_KEY(path, SL_ANNOTATION_PODSET_GROUP_NAME);
    if (is_digits(group))
        sl_fielderr_str(l, SL_FE_INVALID, group_path, group, "must not be a number");
    if (!has[0] && !has[1])
        sl_fielderr_add(l, SL_FE_FORBIDDEN, group_path, NULL, "may not be set when neither '%s' nor '%s' is specified",
                        kinds[0], kinds[1]);
    if (required || size)
        sl_fielderr_add(l, SL_FE_FORBIDDEN, group_path, NULL, "may not be set together with slices");
}

void sl_jobmeta_validate(const struct sl_json *object, const struct sl_json *old_object,
                         const struct sl_jobmeta_facts *f, struct sl_fielderrs *l) {
    struct job now = job_of(object), was = job_of(old_object), *old = old_object ? &was : NULL;
    check_queue(&now, old, f, l);
    check_prebuilt(&now, old, f, l);
    check_max_exec(&now, old, f, l);
    check_priority(&now, old, f, l);
    check_elastic(&now, old, f, l);
    sl_check_admission_gates(sl_json_get(object, "metadata"), sl_json_get(old_object, "metadata"), old != NULL,
                             SL_PATH(NULL, "metadata"), l);
    if (f->batch_job)
        check_partial(&now, old, f, l);
    for (size_t i = 0; i < f->n_templates; i++) {
        struct template_path path;
        template_path_init(&path, f->templates[i].path);
        sl_check_template_meta(f->templates[i].template, path.last, l);
        check_topology(sl_json_path(f->templates[i].template, "metadata.annotations"),
                       SL_PATH(SL_PATH(path.last, "metadata"), "annotations"), f, l);
        free(path.names);
    }
}
