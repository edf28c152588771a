/* Conversions of single kinds; apiVersion is the caller's business. */
#ifndef SLUICE_API_CONVERT_KINDS_H
#define SLUICE_API_CONVERT_KINDS_H

#include "sluice/base/json.h"

int sl_clusterqueue_to_v1beta1(struct sl_json *o, struct sl_err *err);
int sl_clusterqueue_to_v1beta2(struct sl_json *o, struct sl_err *err);
int sl_localqueue_to_v1beta1(struct sl_json *o, struct sl_err *err);
int sl_localqueue_to_v1beta2(struct sl_json *o, struct sl_err *err);
int sl_cohort_to_v1beta2(struct sl_json *o, struct sl_err *err);
int sl_workload_to_v1beta1(struct sl_json *o, struct sl_err *err);
int sl_workload_to_v1beta2(struct sl_json *o, struct sl_err *err);
int sl_admissioncheck_to_v1beta2(struct sl_json *o, struct sl_err *err);
int sl_multikueuecluster_to_v1beta1(struct sl_json *o, struct sl_err *err);
int sl_multikueuecluster_to_v1beta2(struct sl_json *o, struct sl_err *err);
int sl_multikueueconfig_to_v1beta1(struct sl_json *o, struct sl_err *err);

/* {levels, domains} -> {levels, slices} and back, in place. SL_INVALID when lengths do not fit. */
int sl_topology_to_slices(struct sl_json *assignment, struct sl_err *err);
int sl_topology_to_domains(struct sl_json *assignment, struct sl_err *err);

#endif
