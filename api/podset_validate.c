/*
 * What the schema leaves open in a Workload's pod template, as far as we read it: containers, amounts, placement.
 * Faults that a full schema would have found answer as the schema does (422).
 */
#include <string.h>

#include "podset_validate.h"
#include "sluice/api/names.h"
#include "sluice/api/quantity.h"
#include "sluice/api/validate.h"
#include "sluice/base/map.h"
#include "sluice/base/mem.h"

static void bad(struct sl_fielderrs *l, const struct sl_path *path, const struct sl_json *value, const char *detail) {
    sl_fielderr_schema(l, SL_FE_INVALID, path, sl_json_is_object(value) || sl_json_is_array(value) ? NULL : value, "%s",
                       detail);
}

static bool expect(struct sl_fielderrs *l, const struct sl_path *path, const struct sl_json *value,
                   enum sl_json_type type, const char *detail) {
    if (sl_json_is_null(value))
        return false;
    if (sl_json_type(value) == type)
        return true;
    bad(l, path, value, detail);
    return false;
}

static void check_amounts(const struct sl_json *map, const struct sl_path *path, bool reserved,
                          struct sl_fielderrs *l) {
    if (!expect(l, path, map, SL_JSON_OBJECT, "must be an object"))
        return;
    SL_JSON_EACH (map, e) {
        const struct sl_path *at = SL_PATH_KEY(path, e.key);
        struct sl_quantity q;
        struct sl_err err = SL_ERR_INIT;
        char text[SL_QUANTITY_TEXT];
        if (reserved && !strcmp(e.key, SL_RESOURCE_PODS))
            sl_fielderr_str(l, SL_FE_INVALID, at, e.key, "the key is reserved for internal use");
        if (sl_quantity_from_json(e.value, &q, &err) < 0)
            bad(l, at, e.value, "must be a quantity");
        else if (q.nano < 0)
            sl_fielderr_str(l, SL_FE_INVALID, at, sl_quantity_format(&q, text), "must be greater than or equal to 0");
    }
}

static void check_resources(const struct sl_json *resources, const struct sl_path *path, struct sl_fielderrs *l) {
    if (!expect(l, path, resources, SL_JSON_OBJECT, "must be an object"))
        return;
    check_amounts(sl_json_get(resources, "requests"), SL_PATH(path, "requests"), true, l);
    check_amounts(sl_json_get(resources, "limits"), SL_PATH(path, "limits"), true, l);
}

static void check_containers(const struct sl_json *list, const struct sl_path *path, bool init, struct sl_map *names,
                             struct sl_fielderrs *l) {
    if (!expect(l, path, list, SL_JSON_ARRAY, "must be an array"))
        return;
    SL_JSON_ITEMS (list, e) {
        const struct sl_path *at = SL_PATH_AT(path, e.i);
        if (!sl_json_is_object(e.value)) {
            bad(l, at, e.value, "must be an object");
            continue;
        }
        const struct sl_json *name = sl_json_get(e.value, "name");
        const char *text = sl_json_str(name, "");
        if (sl_json_is_null(name) || (sl_json_type(name) == SL_JSON_STRING && !*text))
            sl_fielderr_schema(l, SL_FE_REQUIRED, SL_PATH(at, "name"), NULL, NULL);
        else if (sl_json_type(name) != SL_JSON_STRING || !sl_is_dns_label(text))
            bad(l, SL_PATH(at, "name"), name, "must be a DNS label (lower case letters, digits and '-', at most 63)");
        else if (sl_map_has(names, text))
            sl_fielderr_schema(l, SL_FE_DUPLICATE, SL_PATH(at, "name"), name, NULL);
        if (*text)
            sl_map_set(names, text, names);
        check_resources(sl_json_get(e.value, "resources"), SL_PATH(at, "resources"), l);
        const struct sl_json *restart = sl_json_get(e.value, "restartPolicy");
        if (init && !sl_json_is_null(restart) && strcmp(sl_json_str(restart, "?"), "Always") != 0) {
            static const char *const choices[] = {"Always", NULL};
            sl_fielderr_unsupported(l, true, SL_PATH(at, "restartPolicy"), sl_json_str(restart, ""), choices);
        }
    }
}

static void check_strings(const struct sl_json *map, const struct sl_path *path, struct sl_fielderrs *l) {
    if (!expect(l, path, map, SL_JSON_OBJECT, "must be a map of strings"))
        return;
    SL_JSON_EACH (map, e)
        if (sl_json_type(e.value) != SL_JSON_STRING)
            bad(l, SL_PATH_KEY(path, e.key), e.value, "must be a string");
}

static void check_toleration_types(const struct sl_json *list, const struct sl_path *path, struct sl_fielderrs *l) {
    static const char *const fields[] = {"key", "operator", "value", "effect"};
    if (!expect(l, path, list, SL_JSON_ARRAY, "must be an array"))
        return;
    SL_JSON_ITEMS (list, e) {
        const struct sl_path *at = SL_PATH_AT(path, e.i);
        if (!sl_json_is_object(e.value)) {
            bad(l, at, e.value, "must be an object");
            continue;
        }
        for (size_t i = 0; i < SL_COUNT(fields); i++)
            (void)expect(l, SL_PATH(at, fields[i]), sl_json_get(e.value, fields[i]), SL_JSON_STRING,
                         "must be a string");
        (void)expect(l, SL_PATH(at, "tolerationSeconds"), sl_json_get(e.value, "tolerationSeconds"), SL_JSON_INT,
                     "must be an integer");
    }
}

static void check_terms(const struct sl_json *term, const char *field, const struct sl_path *path,
                        struct sl_fielderrs *l) {
    static const char *const operators[] = {"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", NULL};
    const struct sl_json *list = sl_json_get(term, field);
    const struct sl_path *list_path = SL_PATH(path, field);
    if (!expect(l, list_path, list, SL_JSON_ARRAY, "must be an array"))
        return;
    SL_JSON_ITEMS (list, e) {
        const struct sl_path *at = SL_PATH_AT(list_path, e.i);
        if (!sl_json_is_object(e.value)) {
            bad(l, at, e.value, "must be an object");
            continue;
        }
        if (!*sl_json_get_str(e.value, "key", ""))
            sl_fielderr_schema(l, SL_FE_REQUIRED, SL_PATH(at, "key"), NULL, NULL);
        const char *op = sl_json_get_str(e.value, "operator", "");
        size_t i = 0;
        while (operators[i] && strcmp(operators[i], op) != 0)
            i++;
        if (!operators[i])
            sl_fielderr_unsupported(l, true, SL_PATH(at, "operator"), op, operators);
        const struct sl_json *values = sl_json_get(e.value, "values");
        if (expect(l, SL_PATH(at, "values"), values, SL_JSON_ARRAY, "must be an array of strings"))
            SL_JSON_ITEMS (values, v)
                if (sl_json_type(v.value) != SL_JSON_STRING)
                    bad(l, SL_PATH_AT(SL_PATH(at, "values"), v.i), v.value, "must be a string");
    }
}

static void check_affinity(const struct sl_json *spec, const struct sl_path *path, struct sl_fielderrs *l) {
    static const char *const steps[] = {"affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"};
    const struct sl_json *at = spec;
    struct sl_path chain[SL_COUNT(steps)];
    for (size_t i = 0; i < SL_COUNT(steps); i++) {
        at = sl_json_get(at, steps[i]);
        chain[i] = (struct sl_path){i ? &chain[i - 1] : path, steps[i], 0, false};
        if (!expect(l, &chain[i], at, SL_JSON_OBJECT, "must be an object"))
            return;
    }
    const struct sl_path *terms_path = SL_PATH(&chain[SL_COUNT(steps) - 1], "nodeSelectorTerms");
    const struct sl_json *terms = sl_json_get(at, "nodeSelectorTerms");
    if (sl_json_is_null(terms) || (sl_json_is_array(terms) && !sl_json_len(terms)))
        sl_fielderr_schema(l, SL_FE_REQUIRED, terms_path, NULL, "must have at least one node selector term");
    else if (expect(l, terms_path, terms, SL_JSON_ARRAY, "must be an array"))
        SL_JSON_ITEMS (terms, e) {
            const struct sl_path *term_path = SL_PATH_AT(terms_path, e.i);
            if (!sl_json_is_object(e.value)) {
                bad(l, term_path, e.value, "must be an object");
                continue;
            }
            check_terms(e.value, "matchExpressions", term_path, l);
            check_terms(e.value, "matchFields", term_path, l);
        }
}

void sl_check_template_meta(const struct sl_json *template, const struct sl_path *path, struct sl_fielderrs *l) {
    const struct sl_json *meta = sl_json_get(template, "metadata");
    const struct sl_path *at = SL_PATH(path, "metadata");
    sl_check_labels(l, SL_PATH(at, "labels"), sl_json_get(meta, "labels"));
    sl_check_annotations(l, SL_PATH(at, "annotations"), sl_json_get(meta, "annotations"));
}

void sl_check_template(const struct sl_json *template, const struct sl_path *path, struct sl_fielderrs *l) {
    static const char *const texts[] = {"priorityClassName", "runtimeClassName", "schedulerName"};
    const struct sl_path *at = SL_PATH(path, "spec");
    const struct sl_json *spec = sl_json_get(template, "spec");
    sl_check_template_meta(template, path, l);
    if (!sl_json_is_object(spec)) {
        sl_fielderr_schema(l, SL_FE_REQUIRED, at, NULL, NULL);
        return;
    }
    const struct sl_json *containers = sl_json_get(spec, "containers");
    if (sl_json_is_null(containers) || (sl_json_is_array(containers) && !sl_json_len(containers)))
        sl_fielderr_schema(l, SL_FE_REQUIRED, SL_PATH(at, "containers"), NULL, NULL);
    struct sl_map names = SL_MAP_INIT;
    check_containers(containers, SL_PATH(at, "containers"), false, &names, l);
    check_containers(sl_json_get(spec, "initContainers"), SL_PATH(at, "initContainers"), true, &names, l);
    sl_map_done(&names, NULL);
    check_resources(sl_json_get(spec, "resources"), SL_PATH(at, "resources"), l);
    check_amounts(sl_json_get(spec, "overhead"), SL_PATH(at, "overhead"), false, l);
    check_strings(sl_json_get(spec, "nodeSelector"), SL_PATH(at, "nodeSelector"), l);
    check_toleration_types(sl_json_get(spec, "tolerations"), SL_PATH(at, "tolerations"), l);
    check_affinity(spec, at, l);
    for (size_t i = 0; i < SL_COUNT(texts); i++)
        (void)expect(l, SL_PATH(at, texts[i]), sl_json_get(spec, texts[i]), SL_JSON_STRING, "must be a string");
}
