/*
 * Validation of API objects: every rule of the contract, for the webhooks and for `sluice lint`. Nothing crashes on
 * anything; all errors are reported, not the first. In the webhook the schema has been checked before; without an API
 * server in front pass SL_VALIDATE_STRUCTURE.
 */
#ifndef SLUICE_API_VALIDATE_H
#define SLUICE_API_VALIDATE_H

#include "sluice/api/fielderr.h"

enum {
    SL_VALIDATE_STRUCTURE =
        1, /* types, required fields, bounds, enums, patterns, list keys, rules that stay in the schemas */
    SL_VALIDATE_UNKNOWN = 2,        /* unknown fields too (with STRUCTURE) */
    SL_VALIDATE_PRIORITY_BOOST = 4, /* gate PriorityBoost: the annotation is checked */
};
/* Object of any kind of the registry in either version (v1beta1 is checked against its own schema, then converted on a
 * copy). old: the object before, NULL on create. apiVersion and kind must be there; an unknown one is an error at
 * apiVersion or kind. */
void sl_api_validate(const struct sl_json *object, const struct sl_json *old, unsigned flags,
                     struct sl_fielderrs *errors);

/* One kind, v1beta2 objects. */
void sl_clusterqueue_validate(const struct sl_json *object, const struct sl_json *old, unsigned flags,
                              struct sl_fielderrs *errors);
void sl_cohort_validate(const struct sl_json *object, const struct sl_json *old, unsigned flags,
                        struct sl_fielderrs *errors);
void sl_flavor_validate(const struct sl_json *object, const struct sl_json *old, unsigned flags,
                        struct sl_fielderrs *errors);
void sl_localqueue_validate(const struct sl_json *object, const struct sl_json *old, unsigned flags,
                            struct sl_fielderrs *errors);
void sl_workload_validate(const struct sl_json *object, const struct sl_json *old, unsigned flags,
                          struct sl_fielderrs *errors);
void sl_admissioncheck_validate(const struct sl_json *object, const struct sl_json *old, unsigned flags,
                                struct sl_fielderrs *errors);
void sl_priorityclass_validate(const struct sl_json *object, const struct sl_json *old, unsigned flags,
                               struct sl_fielderrs *errors);
void sl_topology_validate(const struct sl_json *object, const struct sl_json *old, unsigned flags,
                          struct sl_fielderrs *errors);
void sl_multikueuecluster_validate(const struct sl_json *object, const struct sl_json *old, unsigned flags,
                                   struct sl_fielderrs *errors);
void sl_multikueueconfig_validate(const struct sl_json *object, const struct sl_json *old, unsigned flags,
                                  struct sl_fielderrs *errors);
void sl_provisioningconfig_validate(const struct sl_json *object, const struct sl_json *old, unsigned flags,
                                    struct sl_fielderrs *errors);

/* Parts that other modules check too. */
void sl_check_admission_gates(const struct sl_json *meta, const struct sl_json *old_meta, bool is_update,
                              const struct sl_path *meta_path, struct sl_fielderrs *errors);
/* Labels, annotations and tolerations of a pod template below path: what would keep every pod from being created. */
void sl_check_template_meta(const struct sl_json *template, const struct sl_path *path, struct sl_fielderrs *errors);
void sl_check_tolerations(const struct sl_json *list, const struct sl_path *path, bool schema,
                          struct sl_fielderrs *errors);
void sl_check_conditions(const struct sl_json *list, const struct sl_path *path, struct sl_fielderrs *errors);

/* The schema of a kind as the API server applies it. Objects of unknown kinds stay as they are. Version by the object's
 * apiVersion. */
void sl_api_check_structure(const struct sl_json *object, bool unknown_fields, struct sl_fielderrs *errors);
/* Integers past int64, which the reader of strangers' text keeps as real numbers, where the schema wants an integer. */
void sl_api_check_numbers(const struct sl_json *object, struct sl_fielderrs *errors);
void sl_api_set_defaults(const char *kind, struct sl_json *object);
void sl_api_prune(const char *kind, struct sl_json *object); /* unknown fields and nulls */

#endif
