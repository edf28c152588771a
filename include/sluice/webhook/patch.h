/*
 * Minimal JSON Patch between two trees, by the rules an API server wants: only paths that exist in the old tree,
 * parents before children, no test operations, absent or null containers added whole, lists only appended to where that
 * is enough, the same bytes for the same input.
 */
#ifndef SLUICE_WEBHOOK_PATCH_H
#define SLUICE_WEBHOOK_PATCH_H

#include "sluice/base/json.h"

/* Owned array; empty when there is nothing to change. Applied to `before` it gives `after`, except that a member that
 * is null on one side and absent on the other is left alone. */
struct sl_json *sl_patch_diff(const struct sl_json *before, const struct sl_json *after);
/* Appends "/" and the member name with ~ and / escaped. */
void sl_patch_token(struct sl_buf *path, const char *name);

#endif
