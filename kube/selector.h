/* Label and field selectors as text, evaluated for the in-memory cluster. */
#ifndef SLUICE_KUBE_SELECTOR_H
#define SLUICE_KUBE_SELECTOR_H

#include <stdbool.h>

#include "sluice/base/json.h"

/* True when the object's labels satisfy the selector (NULL and "" match all): k=v, k==v, k!=v, k, !k, k in (a,b), k
 * notin (a,b). *ret_valid (may be NULL) tells whether the text was well formed; a malformed one matches nothing. */
bool sl_label_selector_match(const char *selector, const struct sl_json *object, bool *ret_valid);
/* The same for fields: path=v, path==v, path!=v, joined with commas; an absent field is "". */
bool sl_field_selector_match(const char *selector, const struct sl_json *object, bool *ret_valid);

#endif
