/* What an answer of the API server means. */
#ifndef SLUICE_KUBE_STATUS_H
#define SLUICE_KUBE_STATUS_H

#include <stdbool.h>

#include "sluice/base/json.h"

/* Code for an HTTP status (not 2xx) and its Status object (may be NULL): an enum sl_code. */
int kube_status_code(int http, const struct sl_json *status);
/* Message for people: the Status' message, or the status in words. out needs size bytes; control characters become '?'.
 */
void kube_status_text(int http, const struct sl_json *status, char *out, size_t size);
/* True when a watch or list has to begin anew: 410, or a Status with reason Expired or Gone, or one that calls
 * our resourceVersion too large. */
bool kube_status_expired(int http, const struct sl_json *status);

#endif
