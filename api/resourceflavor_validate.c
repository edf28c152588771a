/* ResourceFlavor, and the toleration rules that others share. */
#include <string.h>

#include "sluice/api/validate.h"
#include "sluice/base/mem.h"

static bool is_effect(const char *text) {
    return !strcmp(text, "NoSchedule") || !strcmp(text, "PreferNoSchedule") || !strcmp(text, "NoExecute");
}

void sl_check_tolerations(const struct sl_json *list, const struct sl_path *path, bool schema, struct sl_fielderrs *l) {
    static const char *const texts[] = {
        "operator must be Exists when 'key' is empty, which means 'match all values and all keys'",
        "effect must be 'NoExecute' when 'tolerationSeconds' is set",
        "supported toleration operators: 'Equal', 'Exists'",
        "a value must be empty when 'operator' is 'Exists'",
        "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'",
    };
    bool broken[SL_COUNT(texts)] = {false};
    if (!sl_json_is_array(list))
        return;
    SL_JSON_ITEMS (list, e) {
        const char *key = sl_json_get_str(e.value, "key", ""), *op = sl_json_get_str(e.value, "operator", "");
        const char *value = sl_json_get_str(e.value, "value", ""), *effect = sl_json_get_str(e.value, "effect", "");
        bool exists = !strcmp(op, "Exists");
        broken[0] |= !*key && !exists;
        broken[1] |= !sl_json_is_null(sl_json_get(e.value, "tolerationSeconds")) && strcmp(effect, "NoExecute") != 0;
        broken[2] |= *op && !exists && strcmp(op, "Equal") != 0;
        broken[3] |= exists && *value;
        broken[4] |= *effect && !is_effect(effect);
        if (!*key)
            continue;
        const struct sl_path *at = SL_PATH_AT(path, e.i);
        sl_check_qualified_name(l, SL_PATH(at, "key"), key);
    }
    for (size_t i = 0; i < SL_COUNT(texts); i++) {
        if (!broken[i])
            continue;
        if (schema)
            sl_fielderr_schema(l, SL_FE_INVALID, path, NULL, "%s", texts[i]);
        else
            sl_fielderr_add(l, SL_FE_INVALID, path, NULL, "%s", texts[i]);
    }
}

static void check_taints(const struct sl_json *list, const struct sl_path *path, struct sl_fielderrs *l) {
    if (!sl_json_is_array(list))
        return;
    SL_JSON_ITEMS (list, e) {
        const struct sl_path *at = SL_PATH_AT(path, e.i);
        const char *key = sl_json_get_str(e.value, "key", ""), *effect = sl_json_get_str(e.value, "effect", "");
        sl_check_qualified_name(l, SL_PATH(at, "key"), key);
        sl_check_label_value(l, SL_PATH(at, "value"), sl_json_get_str(e.value, "value", ""));
        for (size_t i = 0; i < e.i && i < 64; i++) {
            const struct sl_json *other = sl_json_at(list, i);
            if (!strcmp(key, sl_json_get_str(other, "key", "")) &&
                !strcmp(effect, sl_json_get_str(other, "effect", ""))) {
                sl_fielderr_add(l, SL_FE_DUPLICATE, at, e.value, "taints must be unique by key and effect pair");
                break;
            }
        }
    }
}

/* Rules that stay in the CRD. */
static void check_schema_rules(const struct sl_json *spec, const struct sl_json *old, struct sl_fielderrs *l) {
    const struct sl_path *path = SL_PATH(NULL, "spec");
    SL_JSON_ITEMS (sl_json_get(spec, "nodeTaints"), e)
        if (!is_effect(sl_json_get_str(e.value, "effect", ""))) {
            sl_fielderr_schema(l, SL_FE_INVALID, SL_PATH(path, "nodeTaints"), NULL,
                               "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'");
            break;
        }
    if (*sl_json_get_str(spec, "topologyName", "") && sl_json_len(sl_json_get(spec, "nodeLabels")) == 0)
        sl_fielderr_schema(l, SL_FE_INVALID, path, NULL, "at least one nodeLabel is required when topologyName is set");
    const struct sl_json *before = sl_json_get(old, "spec");
    if (!*sl_json_get_str(before, "topologyName", ""))
        return;
    static const char *const frozen[] = {"nodeLabels", "tolerations", "topologyName"};
    for (size_t i = 0; i < SL_COUNT(frozen); i++)
        if (!sl_json_equal(sl_json_get(spec, frozen[i]), sl_json_get(before, frozen[i])))
            sl_fielderr_schema(l, SL_FE_INVALID, path, NULL, "%s is immutable while topologyName is set", frozen[i]);
}

void sl_flavor_validate(const struct sl_json *object, const struct sl_json *old, unsigned flags,
                        struct sl_fielderrs *l) {
    const struct sl_json *spec = sl_json_get(object, "spec");
    const struct sl_path *path = SL_PATH(NULL, "spec");
    sl_check_labels(l, SL_PATH(path, "nodeLabels"), sl_json_get(spec, "nodeLabels"));
    check_taints(sl_json_get(spec, "nodeTaints"), SL_PATH(path, "nodeTaints"), l);
    sl_check_tolerations(sl_json_get(spec, "tolerations"), SL_PATH(path, "tolerations"), true, l);
    if (flags & SL_VALIDATE_STRUCTURE)
        check_schema_rules(spec, old, l);
}
