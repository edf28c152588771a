/* Tables of the built-in kinds. A kind that is read has a row in `kinds`, a field that is read a row in its table. */
#include "sluice/api/builtin.h"

#include <stdio.h>
#include <string.h>

#include "podset_validate.h"
#include "sluice/base/mem.h"

#define END                                                                                                            \
    { NULL, SL_F_ANY, 0, NULL, NULL }
#define METADATA                                                                                                       \
    { "metadata", SL_F_OBJECT, SL_F_REQUIRED, sl_metadata_fields, NULL }

static const struct sl_field job_spec[] = {
    {"parallelism", SL_F_INT32, SL_F_COUNT, NULL, NULL},
    {"completions", SL_F_INT32, SL_F_COUNT, NULL, NULL},
    {"completionMode", SL_F_STRING, 0, NULL, "NonIndexed|Indexed"},
    {"suspend", SL_F_BOOL, 0, NULL, NULL},
    {"backoffLimit", SL_F_INT32, SL_F_COUNT, NULL, NULL},
    {"activeDeadlineSeconds", SL_F_INT64, SL_F_COUNT, NULL, NULL},
    {"ttlSecondsAfterFinished", SL_F_INT32, SL_F_COUNT, NULL, NULL},
    {"managedBy", SL_F_STRING, 0, NULL, NULL},
    {"template", SL_F_OBJECT, SL_F_REQUIRED, sl_template_fields, NULL},
    END,
};
static const struct sl_field job[] = {
    METADATA,
    {"spec", SL_F_OBJECT, SL_F_REQUIRED, job_spec, NULL},
    END,
};
static const struct sl_field limit[] = {
    {"type", SL_F_STRING, SL_F_REQUIRED, NULL, NULL},
    {"min", SL_F_QUANTITIES, 0, NULL, NULL},
    {"max", SL_F_QUANTITIES, 0, NULL, NULL},
    {"default", SL_F_QUANTITIES, 0, NULL, NULL},
    {"defaultRequest", SL_F_QUANTITIES, 0, NULL, NULL},
    {"maxLimitRequestRatio", SL_F_QUANTITIES, 0, NULL, NULL},
    END,
};
static const struct sl_field limit_spec[] = {
    {"limits", SL_F_OBJECTS, 0, limit, NULL},
    END,
};
static const struct sl_field limit_range[] = {
    METADATA,
    {"spec", SL_F_OBJECT, 0, limit_spec, NULL},
    END,
};
static const struct sl_field overhead[] = {
    {"podFixed", SL_F_QUANTITIES, 0, NULL, NULL},
    END,
};
static const struct sl_field runtime_class[] = {
    METADATA,
    {"handler", SL_F_STRING, SL_F_REQUIRED | SL_F_LABEL, NULL, NULL},
    {"overhead", SL_F_OBJECT, 0, overhead, NULL},
    END,
};
static const struct sl_field priority_class[] = {
    METADATA,
    {"value", SL_F_INT32, 0, NULL, NULL},
    {"globalDefault", SL_F_BOOL, 0, NULL, NULL},
    {"description", SL_F_STRING, 0, NULL, NULL},
    {"preemptionPolicy", SL_F_STRING, 0, NULL, "Never|PreemptLowerPriority"},
    END,
};
static const struct sl_field plain[] = {
    METADATA,
    END,
};

static const struct {
    const char *group, *api_version, *kind;
    const struct sl_field *fields;
    bool label; /* its name is a DNS label */
} kinds[] = {
    {"batch", "batch/v1", "Job", job, false},
    {"", "v1", "Namespace", plain, true},
    {"", "v1", "LimitRange", limit_range, false},
    {"node.k8s.io", "node.k8s.io/v1", "RuntimeClass", runtime_class, false},
    {"scheduling.k8s.io", "scheduling.k8s.io/v1", "PriorityClass", priority_class, false},
};

#define NONE SL_COUNT(kinds)

static size_t row_of(const struct sl_json *object) {
    const char *version = sl_json_get_str(object, "apiVersion", ""), *kind = sl_json_get_str(object, "kind", "");
    const char *slash = strchr(version, '/');
    size_t n = slash ? (size_t)(slash - version) : 0;
    if (!*version)
        return NONE;
    for (size_t i = 0; i < SL_COUNT(kinds); i++)
        if (!strcmp(kinds[i].kind, kind) &&
            (!slash || (strlen(kinds[i].group) == n && !strncmp(kinds[i].group, version, n))))
            return i;
    return NONE;
}

bool sl_builtin_is(const struct sl_json *object) {
    return row_of(object) != NONE;
}

/* The names of a Job's pods, and the labels that lead to them, are made of its name. */
static void check_job_name(const struct sl_json *object, struct sl_fielderrs *errors, struct sl_fielderrs *warnings) {
    const struct sl_path *path = SL_PATH(SL_PATH(NULL, "metadata"), "name");
    const char *name = sl_json_path_str(object, "metadata.name", "");
    if (strlen(name) > 63)
        sl_fielderr_schema(errors, SL_FE_TOO_LONG, path, NULL,
                           "the name is a label of the pods: may not be more than 63 bytes");
    else if (strchr(name, '.'))
        sl_fielderr_schema(warnings, SL_FE_INVALID, path, sl_json_path(object, "metadata.name"),
                           "this is used in Pod names and hostnames, which can result in surprising behavior; a DNS "
                           "label is recommended: must not contain dots");
}

static void check_job_pods(const struct sl_json *object, struct sl_fielderrs *errors) {
    const struct sl_path *path = SL_PATH(SL_PATH(SL_PATH(NULL, "spec"), "template"), "spec");
    const struct sl_json *pod = sl_json_path(object, "spec.template.spec"), *policy = sl_json_get(pod, "restartPolicy");
    if (!sl_json_is_object(pod))
        return;
    sl_check_container_names(pod, path, errors);
    sl_check_container_amounts(pod, path, errors);
    /* "Always" is what a pod has that names none, and a Job's pods must come to an end */
    const char *text = sl_json_str(policy, "");
    if ((sl_json_is_null(policy) || sl_json_type(policy) == SL_JSON_STRING) && strcmp(text, "OnFailure") &&
        strcmp(text, "Never"))
        sl_fielderr_add(errors, SL_FE_REQUIRED, SL_PATH(path, "restartPolicy"), NULL,
                        "valid values: \"OnFailure\", \"Never\"");
}

void sl_builtin_validate(const struct sl_json *object, struct sl_fielderrs *errors, struct sl_fielderrs *warnings) {
    size_t row = row_of(object);
    const char *version = sl_json_get_str(object, "apiVersion", "");
    if (row == NONE)
        return;
    if (strcmp(kinds[row].api_version, version) != 0) {
        const char *const choices[] = {kinds[row].api_version, NULL};
        sl_fielderr_unsupported(errors, true, SL_PATH(NULL, "apiVersion"), version, choices);
        return;
    }
    sl_fields_check(kinds[row].fields, object, NULL, 0, errors);
    const struct sl_json *metadata = sl_json_get(object, "metadata"), *name = sl_json_get(metadata, "name");
    const struct sl_path *path = SL_PATH(SL_PATH(NULL, "metadata"), "name");
    if (sl_json_is_object(metadata) && sl_json_is_null(name) && !*sl_json_get_str(metadata, "generateName", ""))
        sl_fielderr_schema(errors, SL_FE_REQUIRED, path, NULL, "name or generateName is required");
    if (kinds[row].label && *sl_json_str(name, "") && !sl_is_dns_label(sl_json_str(name, "")))
        sl_fielderr_schema(errors, SL_FE_INVALID, path, name,
                           "must be a DNS label (lower case letters, digits and '-', at most 63)");
    if (kinds[row].fields == job) {
        check_job_name(object, errors, warnings);
        check_job_pods(object, errors);
    }
}

void sl_builtin_check_numbers(const struct sl_json *object, struct sl_fielderrs *errors) {
    size_t row = row_of(object);
    if (row != NONE)
        sl_fields_check(kinds[row].fields, object, NULL, SL_FIELDS_ONLY_NUMBERS, errors);
}
