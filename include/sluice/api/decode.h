/*
 * Objects of the API from JSON trees (v1beta2; convert first). Decoding is lenient the way a client of a validated
 * object may be: what the schema guarantees is relied upon, what is missing gets its default, and nothing crashes on
 * anything. Results are owned (_free in types.h). SL_INVALID names the field.
 */
#ifndef SLUICE_API_DECODE_H
#define SLUICE_API_DECODE_H

#include "sluice/api/types.h"
#include "sluice/base/json.h"

SL_MUST int sl_flavor_decode(const struct sl_json *o, struct sl_flavor **ret, struct sl_err *err);
SL_MUST int sl_cohort_decode(const struct sl_json *o, struct sl_cohort **ret, struct sl_err *err);
SL_MUST int sl_clusterqueue_decode(const struct sl_json *o, struct sl_clusterqueue **ret, struct sl_err *err);
SL_MUST int sl_localqueue_decode(const struct sl_json *o, struct sl_localqueue **ret, struct sl_err *err);
SL_MUST int sl_admissioncheck_decode(const struct sl_json *o, struct sl_admissioncheck **ret, struct sl_err *err);
/* Everything but podsets[].per_pod and rejected, which need LimitRanges and the configuration (jobs/podspec.h fills
 * them in). */
SL_MUST int sl_workload_decode(const struct sl_json *o, struct sl_workload **ret, struct sl_err *err);

void sl_labels_decode(const struct sl_json *map, const char *prefix, struct sl_labels *ret); /* prefix NULL: all */
/* metav1.LabelSelector; SL_INVALID on an unknown operator or bad value count. */
SL_MUST int sl_selector_decode(const struct sl_json *o, struct sl_selector *ret, struct sl_err *err);
void sl_selector_done(struct sl_selector *s);
bool sl_selector_matches(const struct sl_selector *s, const struct sl_labels *labels);
bool sl_requirement_matches(const struct sl_requirement *r,
                            const struct sl_labels *labels); /* node selector operators too; Gt/Lt compare integers */
void sl_tolerations_decode(const struct sl_json *list, struct sl_toleration **ret, size_t *ret_n);
void sl_tolerations_free(struct sl_toleration *t, size_t n);
bool sl_toleration_tolerates(const struct sl_toleration *t, const struct sl_taint *taint);
/* Pod spec's nodeSelector, required node affinity and tolerations into a pod set. */
void sl_podset_decode_placement(const struct sl_json *pod_spec, struct sl_podset *ps);

/* status.admission of a decision, as the API wants it (amounts printed per resource). Owned. */
/* Two tolerations in JSON: key, effect, value and operator ("" is Equal); the seconds do not count. */
bool sl_toleration_same(const struct sl_json *a, const struct sl_json *b);
struct sl_json *sl_admission_encode(const struct sl_admission *a);

#endif
