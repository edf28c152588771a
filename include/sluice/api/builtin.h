/*
 * Manifests of kinds that are not ours but are read: Jobs and the core kinds that a simulation plays along with. What
 * is read of them has to have the type the API server demands; the rest is the API server's business.
 */
#ifndef SLUICE_API_BUILTIN_H
#define SLUICE_API_BUILTIN_H

#include "sluice/api/fielderr.h"

/* By group and kind, whatever the version; also when the group was left out ("v1" for a Job). */
bool sl_builtin_is(const struct sl_json *object);
/* Every fault. apiVersion and kind must be texts. warnings: what an API server takes with a warning. */
void sl_builtin_validate(const struct sl_json *object, struct sl_fielderrs *errors, struct sl_fielderrs *warnings);
/* Integers past int64 in fields that are read, of an object that a webhook was sent: a typed API server has none. */
void sl_builtin_check_numbers(const struct sl_json *object, struct sl_fielderrs *errors);

#endif
