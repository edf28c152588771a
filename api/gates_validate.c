/* The admission-gated-by annotation of jobs and Workloads: a comma list of domain-prefixed paths that can only get
 * shorter. */
#include <stdlib.h>
#include <string.h>

#include "sluice/api/names.h"
#include "sluice/api/validate.h"
#include "sluice/base/map.h"
#include "sluice/base/mem.h"

#define GATE_MAX 63

static bool is_path_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("/-._~%!$&'()*+,;=:", c));
}

/* host.tld/name */
static bool is_domain_path(const char *text) {
    const char *slash = strchr(text, '/');
    if (!slash || slash == text || !slash[1])
        return false;
    SL_AUTO_FREE char *host = sl_xstrndup(text, (size_t)(slash - text));
    if (!sl_is_dns_subdomain(host))
        return false;
    for (const char *p = slash + 1; *p; p++)
        if (!is_path_char(*p))
            return false;
    return true;
}

/* Calls for each trimmed item; items are owned by the map's keys. */
static void items_of(const char *value, struct sl_map *ret, const struct sl_path *path, struct sl_fielderrs *l) {
    for (const char *p = value;; p++) {
        const char *end = strchrnul(p, ','), *from = p, *to = end;
        while (from < to && (*from == ' ' || *from == '\t'))
            from++;
        while (to > from && (to[-1] == ' ' || to[-1] == '\t'))
            to--;
        SL_AUTO_FREE char *item = sl_xstrndup(from, (size_t)(to - from));
        if (l) {
            if (!*item)
                sl_fielderr_str(l, SL_FE_INVALID, path, value, "gate names must not be empty");
            else if (strlen(item) > GATE_MAX)
                sl_fielderr_str(l, SL_FE_INVALID, path, item, "gate name must be no more than %d bytes", GATE_MAX);
            else if (!is_domain_path(item))
                sl_fielderr_str(l, SL_FE_INVALID, path, item,
                                "must be a domain-prefixed path (such as \"acme.io/foo\")");
            else if (sl_map_has(ret, item))
                sl_fielderr_str(l, SL_FE_INVALID, path, item, "gate names must be unique");
        }
        sl_map_set(ret, item, ret);
        p = end;
        if (!*p)
            return;
    }
}

void sl_check_admission_gates(const struct sl_json *meta, const struct sl_json *old_meta, bool is_update,
                              const struct sl_path *meta_path, struct sl_fielderrs *l) {
    const char *value = sl_json_get_str(sl_json_get(meta, "annotations"), SL_ANNOTATION_ADMISSION_GATED_BY, "");
    const char *before = sl_json_get_str(sl_json_get(old_meta, "annotations"), SL_ANNOTATION_ADMISSION_GATED_BY, "");
    const struct sl_path *path = SL_PATH_KEY(SL_PATH(meta_path, "annotations"), SL_ANNOTATION_ADMISSION_GATED_BY);
    if (!*value || (is_update && !strcmp(value, before)))
        return;
    struct sl_map now = SL_MAP_INIT, then = SL_MAP_INIT;
    items_of(value, &now, path, l);
    if (is_update && !*before) {
        sl_fielderr_add(l, SL_FE_FORBIDDEN, path, NULL, "cannot be added after creation");
    } else if (is_update) {
        items_of(before, &then, path, NULL);
        SL_MAP_EACH (&now, e)
            if (!sl_map_has(&then, e->key))
                sl_fielderr_add(l, SL_FE_FORBIDDEN, path, NULL,
                                "gate \"%.63s\" cannot be added after creation, gates can only be removed", e->key);
    }
    sl_map_done(&now, NULL);
    sl_map_done(&then, NULL);
}
