/* The kinds, and what is the same for all of them. A new kind is a row here and a file of its own. */
#include "kinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/api/names.h"
#include "sluice/base/mem.h"
#include "sluice/base/num.h"
#include "sluice/base/sha1.h"
#include "template.h"

static const struct sl_jobkind *const kinds[] = {
    &sl_batch_job,
};

const struct sl_jobkind *sl_jobkind_at(size_t i) {
    return i < SL_COUNT(kinds) ? kinds[i] : NULL;
}

const struct sl_jobkind *sl_jobkind_find(const char *group, const char *kind) {
    for (size_t i = 0; group && kind && i < SL_COUNT(kinds); i++)
        if (!strcmp(kinds[i]->group, group) && !strcmp(kinds[i]->kind, kind))
            return kinds[i];
    return NULL;
}

const struct sl_jobkind *sl_jobkind_by_integration(const char *name) {
    for (size_t i = 0; name && i < SL_COUNT(kinds); i++)
        if (!strcmp(kinds[i]->integration, name))
            return kinds[i];
    return NULL;
}

const struct sl_jobkind *sl_jobkind_of(const struct sl_json *object) {
    const char *version = sl_json_get_str(object, "apiVersion", ""), *kind = sl_json_get_str(object, "kind", "");
    const char *slash = strchr(version, '/');
    size_t n = slash ? (size_t)(slash - version) : 0;
    for (size_t i = 0; i < SL_COUNT(kinds); i++)
        if (strlen(kinds[i]->group) == n && !strncmp(kinds[i]->group, version, n) && !strcmp(kinds[i]->kind, kind))
            return kinds[i];
    return NULL;
}

#define NAME_HASH 5

char *sl_job_workload_name(const char *kind, const char *group, const char *owner_name, const char *owner_uid,
                           const char *extra, size_t max) {
    SL_AUTO_FREE char *hashed =
        sl_xprintf("%s\n%s\n%s\n%s%s%s", kind, group, owner_name, owner_uid, extra ? "\n" : "", extra ? extra : "");
    uint8_t digest[SL_SHA1_SIZE];
    sl_sha1(hashed, strlen(hashed), digest);
    char hex[NAME_HASH + 2];
    for (size_t i = 0; i < (NAME_HASH + 1) / 2; i++)
        snprintf(hex + i * 2, 3, "%02x", digest[i]);
    SL_AUTO_FREE char *prefix = sl_xprintf("%s-%s", kind, owner_name);
    for (char *p = prefix; *p && p < prefix + strlen(kind); p++)
        if (*p >= 'A' && *p <= 'Z')
            *p = (char)(*p - 'A' + 'a');
    return sl_xprintf("%.*s-%.*s", (int)(max - NAME_HASH - 1), prefix, NAME_HASH, hex);
}

static const struct sl_json *label(const struct sl_json *job, const char *key) {
    return sl_json_get(sl_json_path(job, "metadata.labels"), key);
}
static const struct sl_json *annotation(const struct sl_json *job, const char *key) {
    return sl_json_get(sl_json_path(job, "metadata.annotations"), key);
}

const char *sl_job_queue(const struct sl_json *job) {
    return sl_json_str(label(job, SL_LABEL_QUEUE_NAME), "");
}

const char *sl_job_prebuilt(const struct sl_json *job) {
    const char *name = sl_json_str(annotation(job, SL_LABEL_PREBUILT), "");
    if (!*name)
        name = sl_json_str(label(job, SL_LABEL_PREBUILT), "");
    return *name ? name : NULL;
}

int32_t sl_job_max_exec(const struct sl_json *job) {
    int64_t v;
    if (!sl_parse_int(sl_json_str(label(job, SL_LABEL_MAX_EXEC_TIME), ""), &v) || v <= 0 || v > INT32_MAX)
        return 0;
    return (int32_t)v;
}

const char *sl_job_pod_priority_class(const struct sl_json *podsets) {
    SL_JSON_ITEMS (podsets, e) {
        const char *name = sl_json_path_str(e.value, "template.spec.priorityClassName", "");
        if (*name)
            return name;
    }
    return NULL;
}

static bool alphanumeric(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool label_value(const char *text) {
    size_t n = strlen(text);
    if (n == 0 || n > 63 || !alphanumeric(text[0]) || !alphanumeric(text[n - 1]))
        return false;
    for (const char *p = text; *p; p++)
        if (!alphanumeric(*p) && *p != '-' && *p != '_' && *p != '.')
            return false;
    return true;
}

static struct sl_json *workload_metadata(const struct sl_job_workload_input *in) {
    const struct sl_jobkind *k = in->kind;
    const char *name = sl_json_path_str(in->job, "metadata.name", ""),
               *uid = sl_json_path_str(in->job, "metadata.uid", "");
    struct sl_json *m = sl_json_new_object();
    SL_AUTO_FREE char *workload = sl_job_workload_name(k->kind, k->group, name, uid, NULL, in->short_names ? 63 : 253);
    sl_json_set_str(m, "name", workload);
    sl_json_set_str(m, "namespace", sl_json_path_str(in->job, "metadata.namespace", NULL));

    /* No finalizer: removing it would cost one more write a job. A Workload deleted under a running job keeps its quota
     * in the manager's books until the job has stopped. */
    struct sl_json *owner = sl_json_new_object(), *owners = sl_json_new_array();
    sl_json_set(owner, "apiVersion", sl_json_new_strf("%s%s%s", k->group, *k->group ? "/" : "", k->version));
    sl_json_set_str(owner, "kind", k->kind);
    sl_json_set_str(owner, "name", name);
    sl_json_set_str(owner, "uid", uid);
    sl_json_set_bool(owner, "controller", true);
    sl_json_set_bool(owner, "blockOwnerDeletion", true);
    sl_json_append(owners, owner);
    sl_json_set(m, "ownerReferences", owners);

    if (label_value(uid))
        sl_json_set_str(sl_json_make_object(m, "labels"), SL_LABEL_JOB_UID, uid);
    for (const char *const *key = in->label_keys_to_copy; key && *key; key++) {
        const struct sl_json *v = label(in->job, *key);
        if (v)
            sl_json_set_str(sl_json_make_object(m, "labels"), *key, sl_json_str(v, ""));
    }
    SL_JSON_EACH (sl_json_path(in->job, "metadata.annotations"), e)
        if (!strncmp(e.key, SL_ANNOTATION_PREFIX_PROVISIONING, strlen(SL_ANNOTATION_PREFIX_PROVISIONING)) ||
            (!strcmp(e.key, SL_ANNOTATION_ADMISSION_GATED_BY) && *sl_json_str(e.value, "")))
            sl_json_set_str(sl_json_make_object(m, "annotations"), e.key, sl_json_str(e.value, ""));
    return m;
}

int sl_job_workload(const struct sl_job_workload_input *in, struct sl_json **ret, struct sl_err *err) {
    struct sl_json *podsets = NULL;
    int code = in->kind->podsets(in->job, &podsets, err);
    if (code < 0)
        return code;
    struct sl_json *w = sl_json_new_object(), *spec = sl_json_new_object();
    sl_json_set_str(w, "apiVersion", SL_V1BETA2);
    sl_json_set_str(w, "kind", "Workload");
    sl_json_set(w, "metadata", workload_metadata(in));
    sl_json_set_bool(spec, "active", true);
    sl_json_set(spec, "podSets", podsets);
    const char *queue = sl_job_queue(in->job);
    if (*queue)
        sl_json_set_str(spec, "queueName", queue);
    if (in->priority_class) {
        struct sl_json *ref = sl_json_new_object();
        sl_json_set_str(ref, "group", in->pod_priority_class ? SL_GROUP_SCHEDULING : SL_GROUP);
        sl_json_set_str(ref, "kind", in->pod_priority_class ? "PriorityClass" : "WorkloadPriorityClass");
        sl_json_set_str(ref, "name", in->priority_class);
        sl_json_set(spec, "priorityClassRef", ref);
    }
    sl_json_set_int(spec, "priority", in->priority);
    int32_t max_exec = sl_job_max_exec(in->job);
    if (max_exec)
        sl_json_set_int(spec, "maximumExecutionTimeSeconds", max_exec);
    sl_json_set(w, "spec", spec);
    *ret = w;
    return 0;
}

static bool same_podsets(const struct sl_json *job, const struct sl_json *workload, bool with_tolerations) {
    if (sl_json_len(job) != sl_json_len(workload))
        return false;
    SL_JSON_ITEMS (job, e) {
        const struct sl_json *other = sl_json_at(workload, e.i);
        if (sl_json_get_int(e.value, "count", 1) != sl_json_get_int(other, "count", 1) ||
            sl_json_get_int(e.value, "minCount", -1) != sl_json_get_int(other, "minCount", -1))
            return false;
        const struct sl_json *a = sl_json_path(e.value, "template.spec"), *b = sl_json_path(other, "template.spec");
        if (!sl_template_same_part(a, b, "containers") || !sl_template_same_part(a, b, "initContainers") ||
            (with_tolerations && !sl_template_same_part(a, b, "tolerations")))
            return false;
    }
    return true;
}

static const struct sl_json *controller_of(const struct sl_json *object) {
    SL_JSON_ITEMS (sl_json_path(object, "metadata.ownerReferences"), e)
        if (sl_json_get_bool(e.value, "controller", false))
            return e.value;
    return NULL;
}

static bool condition_true(const struct sl_json *object, const char *type) {
    SL_JSON_ITEMS (sl_json_path(object, "status.conditions"), e)
        if (!strcmp(sl_json_get_str(e.value, "type", ""), type))
            return !strcmp(sl_json_get_str(e.value, "status", ""), "True");
    return false;
}

bool sl_job_equivalent(const struct sl_jobkind *kind, const struct sl_json *job, const struct sl_json *workload,
                       const struct sl_json *infos) {
    const struct sl_json *owner = controller_of(workload), *stored = sl_json_path(workload, "spec.podSets");
    if (strcmp(sl_json_get_str(owner, "name", ""), sl_json_path_str(job, "metadata.name", "")) ||
        strcmp(sl_json_get_str(owner, "uid", ""), sl_json_path_str(job, "metadata.uid", "")) ||
        sl_json_int(sl_json_path(workload, "spec.maximumExecutionTimeSeconds"), 0) != sl_job_max_exec(job))
        return false;
    SL_AUTO_JSON *podsets = NULL;
    if (kind->podsets(job, &podsets, NULL) < 0)
        return false;
    bool with_tolerations = !condition_true(workload, SL_COND_ADMITTED);
    if (!infos)
        return same_podsets(podsets, stored, with_tolerations);
    SL_AUTO_JSON *running = kind->running_podsets(job, stored, infos);
    if (running && same_podsets(podsets, running, with_tolerations))
        return true;
    return kind->suspended(job) && same_podsets(podsets, stored, with_tolerations);
}
