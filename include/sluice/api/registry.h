/* The kinds of group kueue.x-k8s.io, a row each: what they are called and what can be done to them. */
#ifndef SLUICE_API_REGISTRY_H
#define SLUICE_API_REGISTRY_H

#include "sluice/api/fielderr.h"
#include "sluice/api/validate.h"

struct sl_api_kind {
    const char *kind, *plural, *singular;
    const char *short_names; /* comma separated, "" when none */
    bool namespaced, has_status;
    bool convert_webhook;     /* CRD conversion goes through /convert; otherwise versions differ in apiVersion only */
    const char *webhook_name; /* "vclusterqueue.kb.io"; NULL: no validating webhook */
    bool finalizer_on_create; /* the mutating webhook adds kueue.x-k8s.io/resource-in-use */
    void (*validate)(const struct sl_json *object, const struct sl_json *old, unsigned flags,
                     struct sl_fielderrs *errors);
    int (*to_v1beta1)(struct sl_json *object, struct sl_err *err); /* NULL: nothing but apiVersion changes */
    int (*to_v1beta2)(struct sl_json *object, struct sl_err *err);
};
/* All rows; static. */
const struct sl_api_kind *sl_api_kinds(size_t *ret_n);
const struct sl_api_kind *sl_api_kind_find(const char *kind); /* NULL when unknown */
const struct sl_api_kind *
sl_api_kind_by_plural(const char *plural); /* also singular and short names; NULL when unknown */

#endif
