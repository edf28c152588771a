/* Pod templates, of a Workload's pod set and of a Job: what the open schema leaves to us. */
#ifndef SLUICE_API_PODSET_VALIDATE_H
#define SLUICE_API_PODSET_VALIDATE_H

#include "sluice/api/fields.h"

extern const struct sl_field sl_template_fields[]; /* members of a PodTemplateSpec, as far as they are read */
void sl_check_template(const struct sl_json *template, const struct sl_path *path, struct sl_fielderrs *l);
void sl_check_container_names(const struct sl_json *pod_spec, const struct sl_path *path, struct sl_fielderrs *l);
/* Amounts of extended resources are whole and their requests are their limits; no request is above its limit. For pods
 * of the API server's own kinds: the schema of a Workload leaves that open. */
void sl_check_container_amounts(const struct sl_json *pod_spec, const struct sl_path *path, struct sl_fielderrs *l);

#endif
