/* Conditions of statuses (metav1.Condition) in JSON trees. */
#ifndef SLUICE_API_CONDITIONS_H
#define SLUICE_API_CONDITIONS_H

#include "sluice/api/types.h"
#include "sluice/base/json.h"

#define SL_CONDITION_MESSAGE_MAX 32768
#define SL_EVENT_MESSAGE_MAX     1024

struct sl_condition {
    const char *type;
    const char *status; /* "True", "False", "Unknown" */
    const char *reason;
    const char *message;         /* cut to SL_CONDITION_MESSAGE_MAX bytes when set */
    int64_t observed_generation; /* left out when 0 */
};

/* The condition of that type in a conditions array, or NULL. Borrowed. */
const struct sl_json *sl_condition_find(const struct sl_json *conditions, const char *type);
/* The same by the object: looks in status.conditions. */
const struct sl_json *sl_condition_of(const struct sl_json *object, const char *type);
enum sl_tri sl_condition_tri(const struct sl_json *object, const char *type); /* Unknown counts as false */
bool sl_condition_is_true(const struct sl_json *object, const char *type);
const char *sl_condition_reason(const struct sl_json *object, const char *type); /* "" when absent */

/* Puts the condition into the array: replaces the one of its type or appends. lastTransitionTime becomes now_ms when
 * the condition is new or its status flips, and stays otherwise. False when nothing changed (then the array is as
 * before). */
bool sl_condition_set(struct sl_json *conditions, const struct sl_condition *c, int64_t now_ms);
bool sl_condition_remove(struct sl_json *conditions, const char *type); /* whether there was one */

/* Copy of at most max bytes: what is cut ends in " ...", never inside a character. free(). */
char *sl_message_cut(const char *text, size_t max);

#endif
