/* What the decoders of this folder share. */
#ifndef SLUICE_API_META_H
#define SLUICE_API_META_H

#include "sluice/api/types.h"
#include "sluice/base/err.h"
#include "sluice/base/json.h"

/* Our own annotations and those of everybody's objects begin with this. */
#define SL_OWN_PREFIX "sluice.dev/"

/* Owned copy of a string member; "" when absent or of another type. */
char *sl_meta_str(const struct sl_json *o, const char *key);
/* Owned copy or NULL when absent, empty or of another type. */
char *sl_meta_str_or_null(const struct sl_json *o, const char *key);
/* metadata.name, SL_INVALID when it is missing. Owned. */
SL_MUST int sl_meta_name(const struct sl_json *o, char **ret, struct sl_err *err);
bool sl_meta_deleting(const struct sl_json *o);
int32_t sl_meta_i32(const struct sl_json *j, int32_t dflt); /* clamped */
/* Index of the text among the names, -1 when it is none of them. */
int sl_meta_choice(const char *text, const char *const *names);
/* Milliseconds of an RFC 3339 member; dflt when absent or malformed. */
int64_t sl_meta_time(const struct sl_json *j, int64_t dflt);

/* spec.resourceGroups of a ClusterQueue or Cohort. */
SL_MUST int sl_groups_decode(const struct sl_json *list, struct sl_resource_group **ret, size_t *ret_n,
                             struct sl_err *err);
/* spec.fairSharing.weight as a number; 1 when absent. */
SL_MUST int sl_weight_decode(const struct sl_json *spec, double *ret, struct sl_err *err);
enum sl_stop_policy sl_stop_policy_decode(const struct sl_json *spec);
/* matchExpressions of node affinity: false when an operator is unknown or values do not fit it. */
bool sl_node_expressions_decode(const struct sl_json *list, struct sl_requirement **ret, size_t *ret_n);

#endif
