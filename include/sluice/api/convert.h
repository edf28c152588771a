/* Versions of the API: v1beta1 <-> v1beta2. */
#ifndef SLUICE_API_CONVERT_H
#define SLUICE_API_CONVERT_H

#include "sluice/base/json.h"

/* Changes the object in place to the desired version ("kueue.x-k8s.io/v1beta1" or ".../v1beta2"); nothing happens when
 * it has that version. Kinds without a conversion of their own get another apiVersion. metadata never changes. What the
 * other version cannot express is dropped. SL_INVALID: not our group, an unknown version or kind, or content that
 * cannot be converted (a topology assignment that does not add up); the object may then be half changed and must be
 * thrown away. */
SL_MUST int sl_api_convert(struct sl_json *object, const char *desired_api_version, struct sl_err *err);

#endif
