/* Entry of validation, and the kinds whose rules are few. */
#include "sluice/api/validate.h"

#include <string.h>

#include "sluice/api/convert.h"
#include "sluice/api/names.h"
#include "sluice/api/registry.h"
#include "sluice/base/map.h"
#include "sluice/base/mem.h"

void sl_api_validate(const struct sl_json *object, const struct sl_json *old, unsigned flags, struct sl_fielderrs *l) {
    const char *version = sl_json_get_str(object, "apiVersion", ""), *name = sl_json_get_str(object, "kind", "");
    const struct sl_api_kind *kind = sl_api_kind_find(name);
    if (strcmp(version, SL_V1BETA1) != 0 && strcmp(version, SL_V1BETA2) != 0) {
        static const char *const versions[] = {SL_V1BETA1, SL_V1BETA2, NULL};
        sl_fielderr_unsupported(l, true, SL_PATH(NULL, "apiVersion"), version, versions);
        return;
    }
    if (!kind) {
        sl_fielderr_schema(l, SL_FE_INVALID, SL_PATH(NULL, "kind"), sl_json_get(object, "kind"), "no such kind in %s",
                           version);
        return;
    }
    if (flags & SL_VALIDATE_STRUCTURE)
        sl_api_check_structure(object, flags & SL_VALIDATE_UNKNOWN, l);
    SL_AUTO_JSON *converted = NULL, *converted_old = NULL;
    struct sl_err err = SL_ERR_INIT;
    if (strcmp(version, SL_V1BETA2) != 0) {
        converted = sl_json_copy(object);
        if (sl_api_convert(converted, SL_V1BETA2, &err) < 0) {
            sl_fielderr_schema(l, SL_FE_INVALID, NULL, NULL, "cannot be converted to %s: %s", SL_V1BETA2, err.text);
            return;
        }
        object = converted;
    }
    if (old && strcmp(sl_json_get_str(old, "apiVersion", SL_V1BETA2), SL_V1BETA2) != 0) {
        converted_old = sl_json_copy(old);
        if (sl_api_convert(converted_old, SL_V1BETA2, &err) < 0)
            return; /* nothing to compare with */
        old = converted_old;
    }
    kind->validate(object, old, flags, l);
}

static void check_immutable(const struct sl_json *object, const struct sl_json *old, const char *name,
                            bool while_present, struct sl_fielderrs *l) {
    const struct sl_json *now = sl_json_get(sl_json_get(object, "spec"), name),
                         *before = sl_json_get(sl_json_get(old, "spec"), name);
    if (!old || (while_present && (sl_json_is_null(now) || sl_json_is_null(before))))
        return;
    if (!sl_json_equal(now, before))
        sl_fielderr_schema(l, SL_FE_INVALID, SL_PATH(SL_PATH(NULL, "spec"), name), now, "field is immutable");
}

void sl_localqueue_validate(const struct sl_json *object, const struct sl_json *old, unsigned flags,
                            struct sl_fielderrs *l) {
    if (flags & SL_VALIDATE_STRUCTURE)
        check_immutable(object, old, "clusterQueue", true, l);
}

void sl_admissioncheck_validate(const struct sl_json *object, const struct sl_json *old, unsigned flags,
                                struct sl_fielderrs *l) {
    if (flags & SL_VALIDATE_STRUCTURE)
        check_immutable(object, old, "controllerName", true, l);
}

void sl_priorityclass_validate(const struct sl_json *object, const struct sl_json *old, unsigned flags,
                               struct sl_fielderrs *l) {
    (void)object, (void)old, (void)flags, (void)l; /* all of it is in the schema, and everything may change */
}

void sl_topology_validate(const struct sl_json *object, const struct sl_json *old, unsigned flags,
                          struct sl_fielderrs *l) {
    if (!(flags & SL_VALIDATE_STRUCTURE))
        return;
    const struct sl_json *levels = sl_json_path(object, "spec.levels");
    const struct sl_path *path = SL_PATH(SL_PATH(NULL, "spec"), "levels");
    check_immutable(object, old, "levels", true, l);
    if (!sl_json_is_array(levels))
        return;
    struct sl_map seen = SL_MAP_INIT;
    SL_JSON_ITEMS (levels, e) {
        const char *label = sl_json_get_str(e.value, "nodeLabel", "");
        if (*label && sl_map_has(&seen, label))
            sl_fielderr_schema(l, SL_FE_INVALID, path, NULL, "must be unique: \"%.100s\" is given twice", label);
        sl_map_set(&seen, label, &seen);
        if (!strcmp(label, "kubernetes.io/hostname") && e.i + 1 < sl_json_len(levels))
            sl_fielderr_schema(l, SL_FE_INVALID, path, NULL,
                               "the kubernetes.io/hostname label can only be used at the lowest level");
    }
    sl_map_done(&seen, NULL);
}

void sl_multikueuecluster_validate(const struct sl_json *object, const struct sl_json *old, unsigned flags,
                                   struct sl_fielderrs *l) {
    (void)old;
    const struct sl_json *source = sl_json_path(object, "spec.clusterSource");
    if (!(flags & SL_VALIDATE_STRUCTURE) || !sl_json_is_object(source))
        return;
    bool config = !sl_json_is_null(sl_json_get(source, "kubeConfig")),
         profile = !sl_json_is_null(sl_json_get(source, "clusterProfileRef"));
    if (config == profile)
        sl_fielderr_schema(l, SL_FE_INVALID, SL_PATH(SL_PATH(NULL, "spec"), "clusterSource"), NULL,
                           "exactly one of kubeConfig and clusterProfileRef is required");
}

void sl_multikueueconfig_validate(const struct sl_json *object, const struct sl_json *old, unsigned flags,
                                  struct sl_fielderrs *l) {
    (void)old;
    const struct sl_json *clusters = sl_json_path(object, "spec.clusters");
    if (!(flags & SL_VALIDATE_STRUCTURE) || !sl_json_is_array(clusters))
        return;
    struct sl_map seen = SL_MAP_INIT;
    SL_JSON_ITEMS (clusters, e) {
        const char *name = sl_json_str(e.value, "");
        if (sl_map_has(&seen, name))
            sl_fielderr_schema(l, SL_FE_INVALID, SL_PATH(SL_PATH(NULL, "spec"), "clusters"), NULL,
                               "clusters must be unique: \"%.100s\" is given twice", name);
        sl_map_set(&seen, name, &seen);
    }
    sl_map_done(&seen, NULL);
}

void sl_provisioningconfig_validate(const struct sl_json *object, const struct sl_json *old, unsigned flags,
                                    struct sl_fielderrs *l) {
    (void)object, (void)old, (void)flags, (void)l;
}

void sl_check_conditions(const struct sl_json *list, const struct sl_path *path, struct sl_fielderrs *l) {
    static const char *const statuses[] = {"True", "False", "Unknown", NULL};
    if (!sl_json_is_array(list))
        return;
    SL_JSON_ITEMS (list, e) {
        const struct sl_path *at = SL_PATH_AT(path, e.i);
        const char *type = sl_json_get_str(e.value, "type", ""), *status = sl_json_get_str(e.value, "status", "");
        const char *reason = sl_json_get_str(e.value, "reason", "");
        if (!*type)
            sl_fielderr_add(l, SL_FE_REQUIRED, SL_PATH(at, "type"), NULL, "must be set");
        else
            sl_check_qualified_name(l, SL_PATH(at, "type"), type);
        for (size_t i = 0; *type && i < e.i && i < 64; i++)
            if (!strcmp(type, sl_json_get_str(sl_json_at(list, i), "type", ""))) {
                sl_fielderr_str(l, SL_FE_DUPLICATE, SL_PATH(at, "type"), type, NULL);
                break;
            }
        if (strcmp(status, "True") != 0 && strcmp(status, "False") != 0 && strcmp(status, "Unknown") != 0)
            sl_fielderr_unsupported(l, false, SL_PATH(at, "status"), status, statuses);
        if (sl_json_get_int(e.value, "observedGeneration", 0) < 0)
            sl_fielderr_add(l, SL_FE_INVALID, SL_PATH(at, "observedGeneration"),
                            sl_json_get(e.value, "observedGeneration"), "must be greater than or equal to zero");
        if (!*sl_json_get_str(e.value, "lastTransitionTime", ""))
            sl_fielderr_add(l, SL_FE_REQUIRED, SL_PATH(at, "lastTransitionTime"), NULL, "must be set");
        if (!*reason)
            sl_fielderr_add(l, SL_FE_REQUIRED, SL_PATH(at, "reason"), NULL, "must be set");
        else if (strlen(reason) > 1024)
            sl_fielderr_add(l, SL_FE_TOO_LONG, SL_PATH(at, "reason"), NULL, "may not be more than 1024 bytes");
        else if (!sl_is_condition_reason(reason))
            sl_fielderr_str(l, SL_FE_INVALID, SL_PATH(at, "reason"), reason,
                            "a condition reason must start with alphabetic character, optionally followed by a string "
                            "of alphanumeric "
                            "characters or '_,:', and must end with an alphanumeric character or '_'");
        if (sl_json_str_len(sl_json_get(e.value, "message")) > 32768)
            sl_fielderr_add(l, SL_FE_TOO_LONG, SL_PATH(at, "message"), NULL, "may not be more than 32768 bytes");
    }
}
