#include "status.h"

#include <stdio.h>
#include <string.h>

int kube_status_code(int http, const struct sl_json *status) {
    const char *reason = sl_json_get_str(status, "reason", "");
    switch (http) {
    case 400:
    case 405:
    case 406:
    case 415:
    case 422: return SL_INVALID;
    case 401:
    case 403: return SL_DENIED;
    case 404: return SL_NOT_FOUND;
    case 409: return strcmp(reason, "AlreadyExists") ? SL_CONFLICT : SL_EXISTS;
    case 410: return SL_GONE;
    case 413: return SL_TOO_BIG;
    case 429: return SL_UNAVAILABLE;
    default: return http >= 500 ? SL_UNAVAILABLE : http >= 400 ? SL_INVALID : SL_PROTOCOL;
    }
}

void kube_status_text(int http, const struct sl_json *status, char *out, size_t size) {
    const char *message = sl_json_get_str(status, "message", ""), *reason = sl_json_get_str(status, "reason", "");
    if (*message)
        snprintf(out, size, "%s", message);
    else if (*reason)
        snprintf(out, size, "HTTP %d %s", http, reason);
    else
        snprintf(out, size, "HTTP %d", http);
    for (char *p = out; *p; p++) {
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = '?';
    }
}

/* After a restore of etcd from a backup: our version is from a future that did not happen. */
static bool is_from_the_future(const struct sl_json *status) {
    SL_JSON_ITEMS (sl_json_path(status, "details.causes"), e) {
        if (!strcmp(sl_json_get_str(e.value, "reason", ""), "ResourceVersionTooLarge"))
            return true;
    }
    return strstr(sl_json_get_str(status, "message", ""), "Too large resource version") != NULL;
}

bool kube_status_expired(int http, const struct sl_json *status) {
    const char *reason = sl_json_get_str(status, "reason", "");
    return http == 410 || sl_json_get_int(status, "code", 0) == 410 || !strcmp(reason, "Expired") ||
           !strcmp(reason, "Gone") || is_from_the_future(status);
}
