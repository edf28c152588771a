/*
 * What the schema leaves open in a pod template, as far as it is read anywhere: containers, amounts, placement,
 * volumes. Faults that a full schema would have found answer as the schema does (422). A field that is read has a row
 * here.
 */
#include "podset_validate.h"

#include <string.h>

#include "sluice/api/quantity.h"
#include "sluice/api/validate.h"
#include "sluice/base/map.h"
#include "sluice/base/mem.h"

#define END                                                                                                            \
    { NULL, SL_F_ANY, 0, NULL, NULL }

static const struct sl_field named[] = {
    /* anything with a name */
    {"name", SL_F_STRING, SL_F_REQUIRED, NULL, NULL},
    END,
};
static const struct sl_field resources[] = {
    {"requests", SL_F_QUANTITIES, SL_F_NO_PODS, NULL, NULL},
    {"limits", SL_F_QUANTITIES, SL_F_NO_PODS, NULL, NULL},
    {"claims", SL_F_OBJECTS, 0, named, NULL},
    END,
};
static const struct sl_field env[] = {
    {"name", SL_F_STRING, SL_F_REQUIRED, NULL, NULL},
    {"value", SL_F_STRING, 0, NULL, NULL},
    {"valueFrom", SL_F_OBJECT, 0, NULL, NULL},
    END,
};
static const struct sl_field mount[] = {
    {"name", SL_F_STRING, SL_F_REQUIRED, NULL, NULL},
    {"mountPath", SL_F_STRING, SL_F_REQUIRED, NULL, NULL},
    {"subPath", SL_F_STRING, 0, NULL, NULL},
    {"subPathExpr", SL_F_STRING, 0, NULL, NULL},
    END,
};
static const struct sl_field device[] = {
    {"name", SL_F_STRING, SL_F_REQUIRED, NULL, NULL},
    {"devicePath", SL_F_STRING, SL_F_REQUIRED, NULL, NULL},
    END,
};
static const struct sl_field port[] = {
    {"containerPort", SL_F_INT32, 0, NULL, NULL}, {"hostPort", SL_F_INT32, 0, NULL, NULL},
    {"name", SL_F_STRING, 0, NULL, NULL},         {"protocol", SL_F_STRING, 0, NULL, NULL},
    {"hostIP", SL_F_STRING, 0, NULL, NULL},       END,
};
static const struct sl_field capabilities[] = {
    {"add", SL_F_STRINGS, 0, NULL, NULL},
    {"drop", SL_F_STRINGS, 0, NULL, NULL},
    END,
};
static const struct sl_field security[] = {
    {"privileged", SL_F_BOOL, 0, NULL, NULL},
    {"capabilities", SL_F_OBJECT, 0, capabilities, NULL},
    END,
};
#define CONTAINER                                                                                                      \
    {"name", SL_F_STRING, SL_F_REQUIRED | SL_F_LABEL, NULL, NULL}, {"image", SL_F_STRING, 0, NULL, NULL},              \
        {"resources", SL_F_OBJECT, 0, resources, NULL}, {"env", SL_F_OBJECTS, 0, env, NULL},                           \
        {"volumeMounts", SL_F_OBJECTS, 0, mount, NULL}, {"volumeDevices", SL_F_OBJECTS, 0, device, NULL},              \
        {"ports", SL_F_OBJECTS, 0, port, NULL}, {                                                                      \
        "securityContext", SL_F_OBJECT, 0, security, NULL                                                              \
    }
static const struct sl_field container[] = {
    CONTAINER,
    {"restartPolicy", SL_F_STRING, 0, NULL, NULL},
    END,
};
static const struct sl_field init_container[] = {
    CONTAINER,
    {"restartPolicy", SL_F_STRING, 0, NULL, "Always"},
    END,
};
static const struct sl_field toleration[] = {
    {"key", SL_F_STRING, 0, NULL, NULL},
    {"operator", SL_F_STRING, 0, NULL, NULL},
    {"value", SL_F_STRING, 0, NULL, NULL},
    {"effect", SL_F_STRING, 0, NULL, NULL},
    {"tolerationSeconds", SL_F_INT64, 0, NULL, NULL},
    END,
};
static const struct sl_field requirement[] = {
    {"key", SL_F_STRING, SL_F_REQUIRED, NULL, NULL},
    {"operator", SL_F_STRING, SL_F_REQUIRED, NULL, "In|NotIn|Exists|DoesNotExist|Gt|Lt"},
    {"values", SL_F_STRINGS, 0, NULL, NULL},
    END,
};
static const struct sl_field term[] = {
    {"matchExpressions", SL_F_OBJECTS, 0, requirement, NULL},
    {"matchFields", SL_F_OBJECTS, 0, requirement, NULL},
    END,
};
static const struct sl_field node_selector[] = {
    {"nodeSelectorTerms", SL_F_OBJECTS, SL_F_REQUIRED, term, NULL},
    END,
};
static const struct sl_field node_affinity[] = {
    {"requiredDuringSchedulingIgnoredDuringExecution", SL_F_OBJECT, 0, node_selector, NULL},
    END,
};
static const struct sl_field affinity[] = {
    {"nodeAffinity", SL_F_OBJECT, 0, node_affinity, NULL},
    END,
};
static const struct sl_field empty_dir[] = {
    {"medium", SL_F_STRING, 0, NULL, NULL},
    {"sizeLimit", SL_F_QUANTITY, SL_F_COUNT, NULL, NULL},
    END,
};
static const struct sl_field host_path[] = {
    {"path", SL_F_STRING, 0, NULL, NULL},
    END,
};
static const struct sl_field volume[] = {
    {"name", SL_F_STRING, SL_F_REQUIRED | SL_F_LABEL, NULL, NULL},
    {"emptyDir", SL_F_OBJECT, 0, empty_dir, NULL},
    {"hostPath", SL_F_OBJECT, 0, host_path, NULL},
    END,
};
static const struct sl_field spec[] = {
    {"containers", SL_F_OBJECTS, SL_F_REQUIRED, container, NULL},
    {"initContainers", SL_F_OBJECTS, 0, init_container, NULL},
    {"resources", SL_F_OBJECT, 0, resources, NULL},
    {"overhead", SL_F_QUANTITIES, 0, NULL, NULL},
    {"nodeSelector", SL_F_STRING_MAP, 0, NULL, NULL},
    {"tolerations", SL_F_OBJECTS, 0, toleration, NULL},
    {"affinity", SL_F_OBJECT, 0, affinity, NULL},
    {"priorityClassName", SL_F_STRING, 0, NULL, NULL},
    {"priority", SL_F_INT32, 0, NULL, NULL},
    {"runtimeClassName", SL_F_STRING, 0, NULL, NULL},
    {"schedulerName", SL_F_STRING, 0, NULL, NULL},
    {"restartPolicy", SL_F_STRING, 0, NULL, NULL},
    {"hostIPC", SL_F_BOOL, 0, NULL, NULL},
    {"hostNetwork", SL_F_BOOL, 0, NULL, NULL},
    {"schedulingGates", SL_F_OBJECTS, 0, named, NULL},
    {"resourceClaims", SL_F_OBJECTS, 0, named, NULL},
    {"volumes", SL_F_OBJECTS, 0, volume, NULL},
    {"os", SL_F_OBJECT, 0, named, NULL},
    END,
};
static const struct sl_field metadata[] = {
    {"labels", SL_F_LABELS, 0, NULL, NULL},
    {"annotations", SL_F_ANNOTATIONS, 0, NULL, NULL},
    {"finalizers", SL_F_STRINGS, 0, NULL, NULL},
    END,
};
const struct sl_field sl_template_fields[] = {
    {"metadata", SL_F_OBJECT, 0, metadata, NULL},
    {"spec", SL_F_OBJECT, SL_F_REQUIRED, spec, NULL},
    END,
};

void sl_check_template_meta(const struct sl_json *template, const struct sl_path *path, struct sl_fielderrs *l) {
    sl_fields_check(metadata, sl_json_get(template, "metadata"), SL_PATH(path, "metadata"), 0, l);
}

void sl_check_container_names(const struct sl_json *pod_spec, const struct sl_path *path, struct sl_fielderrs *l) {
    static const char *const lists[] = {"containers", "initContainers"};
    struct sl_map names = SL_MAP_INIT;
    for (size_t i = 0; i < SL_COUNT(lists); i++)
        SL_JSON_ITEMS (sl_json_get(pod_spec, lists[i]), e) {
            const struct sl_json *name = sl_json_get(e.value, "name");
            const char *text = sl_json_str(name, "");
            if (*text && sl_map_has(&names, text))
                sl_fielderr_schema(l, SL_FE_DUPLICATE, SL_PATH(SL_PATH_AT(SL_PATH(path, lists[i]), e.i), "name"), name,
                                   NULL);
            if (*text)
                sl_map_set(&names, text, &names);
        }
    sl_map_done(&names, NULL);
}

/* ---- what only the API server checks, of pods of its own kinds ---- */

/* Of Kubernetes itself: a name without a domain, or with one of its own. */
static bool is_native(const char *resource) {
    return !strchr(resource, '/') || strstr(resource, "kubernetes.io/");
}

static bool may_overcommit(const char *resource) {
    return is_native(resource) && strncmp(resource, "hugepages-", strlen("hugepages-")) != 0;
}

/* As the API server keeps it: nothing finer than a thousandth, rounded up. */
static bool read_amount(const struct sl_json *j, struct sl_quantity *ret) {
    const sl_int128 milli = 1000000;
    if (sl_json_is_null(j) || sl_quantity_from_json(j, ret, NULL) < 0 || ret->nano < 0)
        return false; /* told by the table */
    sl_int128 rest = ret->nano % milli;
    ret->nano += rest ? milli - rest : 0;
    return true;
}

static void check_whole(const struct sl_json *amounts, const struct sl_path *path, struct sl_fielderrs *l) {
    const sl_int128 one = 1000000000, most = (sl_int128)INT64_MAX * one; /* it counts in no more bits */
    struct sl_quantity q;
    char text[SL_QUANTITY_TEXT];
    SL_JSON_EACH (amounts, e)
        if (!is_native(e.key) && read_amount(e.value, &q) && (q.nano > most || q.nano % one != 0))
            sl_fielderr_str(l, SL_FE_INVALID, SL_PATH_KEY(path, e.key), sl_quantity_format(&q, text),
                            "must be an integer");
}

static void check_request(const char *resource, const struct sl_json *request, const struct sl_json *limit,
                          const struct sl_path *path, struct sl_fielderrs *l) {
    struct sl_quantity asked, most;
    char text[SL_QUANTITY_TEXT], most_text[SL_QUANTITY_TEXT];
    if (!read_amount(request, &asked))
        return;
    if (sl_json_is_null(limit)) {
        if (!may_overcommit(resource))
            sl_fielderr_add(l, SL_FE_REQUIRED, SL_PATH_KEY(SL_PATH(path, "limits"), resource), NULL,
                            "Limit must be set for non overcommitable resources");
        return;
    }
    if (!read_amount(limit, &most))
        return;
    int order = sl_quantity_compare(&asked, &most);
    if (may_overcommit(resource) ? order <= 0 : order == 0)
        return;
    sl_fielderr_str(l, SL_FE_INVALID, SL_PATH_KEY(SL_PATH(path, "requests"), resource),
                    sl_quantity_format(&asked, text), "must be %s %s limit of %s",
                    may_overcommit(resource) ? "less than or equal to" : "equal to", resource,
                    sl_quantity_format(&most, most_text));
}

void sl_check_container_amounts(const struct sl_json *pod_spec, const struct sl_path *path, struct sl_fielderrs *l) {
    static const char *const lists[] = {"containers", "initContainers"};
    for (size_t i = 0; i < SL_COUNT(lists); i++)
        SL_JSON_ITEMS (sl_json_get(pod_spec, lists[i]), e) {
            const struct sl_path *at = SL_PATH(SL_PATH_AT(SL_PATH(path, lists[i]), e.i), "resources");
            const struct sl_json *amounts = sl_json_get(e.value, "resources"),
                                 *requests = sl_json_get(amounts, "requests"), *limits = sl_json_get(amounts, "limits");
            check_whole(limits, SL_PATH(at, "limits"), l);
            check_whole(requests, SL_PATH(at, "requests"), l);
            SL_JSON_EACH (requests, r)
                check_request(r.key, r.value, sl_json_get(limits, r.key), at, l);
        }
}

void sl_check_template(const struct sl_json *template, const struct sl_path *path, struct sl_fielderrs *l) {
    sl_fields_check(sl_template_fields, template, path, 0, l);
    sl_check_container_names(sl_json_get(template, "spec"), SL_PATH(path, "spec"), l);
}
