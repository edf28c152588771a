/* Conditions by the merge rules of Kubernetes: one entry a type, the transition time moves only with the status. */
#include "sluice/api/conditions.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/base/clock.h"
#include "sluice/base/mem.h"

const struct sl_json *sl_condition_find(const struct sl_json *conditions, const char *type) {
    if (!sl_json_is_array(conditions))
        return NULL;
    SL_JSON_ITEMS (conditions, e)
        if (!strcmp(sl_json_get_str(e.value, "type", ""), type))
            return e.value;
    return NULL;
}

const struct sl_json *sl_condition_of(const struct sl_json *object, const char *type) {
    return sl_condition_find(sl_json_get(sl_json_get(object, "status"), "conditions"), type);
}

enum sl_tri sl_condition_tri(const struct sl_json *object, const char *type) {
    const struct sl_json *c = sl_condition_of(object, type);
    if (!c)
        return SL_TRI_ABSENT;
    return !strcmp(sl_json_get_str(c, "status", ""), "True") ? SL_TRI_TRUE : SL_TRI_FALSE;
}

bool sl_condition_is_true(const struct sl_json *object, const char *type) {
    return sl_condition_tri(object, type) == SL_TRI_TRUE;
}

const char *sl_condition_reason(const struct sl_json *object, const char *type) {
    return sl_json_get_str(sl_condition_of(object, type), "reason", "");
}

char *sl_message_cut(const char *text, size_t max) {
    static const char tail[] = " ...";
    size_t len = strlen(text);
    if (len <= max)
        return sl_xstrdup(text);
    if (max < sizeof tail)
        return sl_xstrndup("", 0);
    size_t keep = max - (sizeof tail - 1);
    while (keep > 0 && ((unsigned char)text[keep] & 0xc0) == 0x80)
        keep--;
    char *cut = sl_xalloc(keep + sizeof tail);
    memcpy(cut, text, keep);
    memcpy(cut + keep, tail, sizeof tail);
    return cut;
}

bool sl_condition_set(struct sl_json *conditions, const struct sl_condition *c, int64_t now_ms) {
    size_t i = 0, n = sl_json_len(conditions);
    while (i < n && strcmp(sl_json_get_str(sl_json_at(conditions, i), "type", ""), c->type) != 0)
        i++;
    struct sl_json *at = i < n ? sl_json_mut_at(conditions, i) : NULL;
    SL_AUTO_FREE char *message = sl_message_cut(c->message ? c->message : "", SL_CONDITION_MESSAGE_MAX);
    bool flips = !at || strcmp(sl_json_get_str(at, "status", ""), c->status) != 0;
    if (!flips && !strcmp(sl_json_get_str(at, "reason", ""), c->reason) &&
        !strcmp(sl_json_get_str(at, "message", ""), message) &&
        sl_json_get_int(at, "observedGeneration", 0) == c->observed_generation)
        return false;
    if (!at) {
        struct sl_json *fresh = sl_json_new_object();
        sl_json_set_str(fresh, "type", c->type);
        sl_json_append(conditions, fresh);
        at = sl_json_mut_at(conditions, n);
    }
    sl_json_set_str(at, "status", c->status);
    if (c->observed_generation)
        sl_json_set_int(at, "observedGeneration", c->observed_generation);
    else
        sl_json_del(at, "observedGeneration");
    char time[SL_TIME_TEXT];
    if (flips || !sl_json_get(at, "lastTransitionTime"))
        sl_json_set_str(at, "lastTransitionTime", sl_time_format(now_ms, time));
    sl_json_set_str(at, "reason", c->reason);
    sl_json_set_str(at, "message", message);
    return true;
}

bool sl_condition_remove(struct sl_json *conditions, const char *type) {
    for (size_t i = 0; i < sl_json_len(conditions); i++)
        if (!strcmp(sl_json_get_str(sl_json_at(conditions, i), "type", ""), type)) {
            sl_json_remove(conditions, i);
            return true;
        }
    return false;
}
