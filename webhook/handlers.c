/* The reviews of our own kinds, and the table that says which path is whose. */
#include "handlers_internal.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/api/convert.h"
#include "sluice/api/names.h"
#include "sluice/api/quantity.h"
#include "sluice/api/validate.h"
#include "sluice/base/mem.h"
#include "sluice/webhook/patch.h"
#include "sluice/webhook/snapshot.h"

bool sl_request_is(const struct sl_json *request, const char *operation) {
    return !strcmp(sl_json_get_str(request, "operation", ""), operation);
}

const char *sl_request_namespace(const struct sl_json *request) {
    const char *ns = sl_json_get_str(request, "namespace", "");
    return *ns ? ns : sl_json_path_str(request, "object.metadata.namespace", "");
}

void sl_reply_errors(const struct sl_fielderrs *errors, struct sl_review_reply *reply) {
    if (!errors->n)
        return;
    SL_AUTO_FREE char *message = sl_fielderrs_message(errors);
    sl_review_deny_code(reply, sl_fielderrs_any_schema(errors) ? 422 : 403, "%s", message);
    sl_json_unref(reply->causes);
    reply->causes = sl_fielderrs_causes(errors);
}

/* An integer past int64 where one is due. The API server asks for mutations before it looks at the schema. */
static bool past_numbers(const struct sl_json *object, struct sl_review_reply *reply) {
    SL_AUTO_FIELDERRS errors = SL_FIELDERRS_INIT;
    sl_api_check_numbers(object, &errors);
    sl_reply_errors(&errors, reply);
    return errors.n != 0;
}

/* ---- mutation ---- */

static void change(const struct sl_json *object, struct sl_json *take_after, struct sl_review_reply *reply) {
    sl_json_unref(reply->patch);
    reply->patch = sl_patch_diff(object, take_after);
    sl_json_unref(take_after);
}

/* Deletion waits until nobody uses the object any more. */
static void add_finalizer(struct sl_json *object) {
    SL_JSON_ITEMS (sl_json_path(object, "metadata.finalizers"), e)
        if (!strcmp(sl_json_str(e.value, ""), SL_FINALIZER_IN_USE))
            return;
    sl_json_append(sl_json_make_array(sl_json_make_object(object, "metadata"), "finalizers"),
                   sl_json_new_str(SL_FINALIZER_IN_USE));
}

/* A quantity in its canonical text, as clients of typed languages write it; what cannot be read is left to validation.
 */
static void canonical(struct sl_json *quota, const char *key) {
    const struct sl_json *value = sl_json_get(quota, key);
    struct sl_quantity q;
    char text[SL_QUANTITY_TEXT];
    if (value && !sl_quantity_from_json(value, &q, NULL))
        sl_json_set_str(quota, key, sl_quantity_format(&q, text));
}

static void canonical_quotas(struct sl_json *spec) {
    static const char *const keys[] = {"nominalQuota", "borrowingLimit", "lendingLimit"};
    struct sl_json *groups = sl_json_mut(spec, "resourceGroups");
    for (size_t g = 0; g < sl_json_len(groups); g++) {
        struct sl_json *flavors = sl_json_mut(sl_json_mut_at(groups, g), "flavors");
        for (size_t f = 0; f < sl_json_len(flavors); f++) {
            struct sl_json *resources = sl_json_mut(sl_json_mut_at(flavors, f), "resources");
            for (size_t r = 0; r < sl_json_len(resources); r++)
                for (size_t k = 0; k < SL_COUNT(keys); k++)
                    canonical(sl_json_mut_at(resources, r), keys[k]);
        }
    }
    canonical(sl_json_mut(spec, "fairSharing"), "weight");
}

/* A toleration without a key keeps pods on nodes that were set aside (W10). */
static void warn_wildcard(const struct sl_json *request, struct sl_review_reply *reply) {
    SL_JSON_ITEMS (sl_json_path(request, "object.spec.tolerations"), e)
        if (!*sl_json_get_str(e.value, "key", "") &&
            strcmp(sl_json_get_str(e.value, "effect", ""), "PreferNoSchedule")) {
            sl_review_warn(reply,
                           "W10: a toleration without a key tolerates cordoned, unreachable and faulty GPU nodes too");
            return;
        }
}

void sl_mutate_clusterqueue(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply) {
    (void)snapshot;
    const struct sl_json *object = sl_json_get(request, "object");
    if (!sl_request_is(request, "CREATE") || !sl_json_is_object(object) || past_numbers(object, reply))
        return;
    struct sl_json *after = sl_json_copy(object);
    add_finalizer(after);
    canonical_quotas(sl_json_make_object(after, "spec")); /* an empty spec gets the schema's defaults */
    change(object, after, reply);
}

void sl_mutate_resourceflavor(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply) {
    (void)snapshot;
    const struct sl_json *object = sl_json_get(request, "object");
    if (!sl_request_is(request, "CREATE") || !sl_json_is_object(object) || past_numbers(object, reply))
        return;
    struct sl_json *after = sl_json_copy(object);
    add_finalizer(after);
    change(object, after, reply);
}

void sl_mutate_workload(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply) {
    const struct sl_json *object = sl_json_get(request, "object");
    if (!sl_request_is(request, "CREATE") || !sl_json_is_object(object) || past_numbers(object, reply) ||
        sl_snapshot_partial_admission(snapshot))
        return;
    struct sl_json *after = sl_json_copy(object), *podsets = sl_json_mut(sl_json_mut(after, "spec"), "podSets");
    for (size_t i = 0; i < sl_json_len(podsets); i++)
        sl_json_del(sl_json_mut_at(podsets, i), "minCount");
    change(object, after, reply);
}

/* ---- validation ---- */

typedef void (*validate_fn)(const struct sl_json *object, const struct sl_json *old, unsigned flags,
                            struct sl_fielderrs *errors);

static void validate(validate_fn fn, const struct sl_json *request, struct sl_review_reply *reply) {
    const struct sl_json *object = sl_json_get(request, "object"), *old = NULL;
    if (sl_request_is(request, "UPDATE"))
        old = sl_json_get(request, "oldObject");
    else if (!sl_request_is(request, "CREATE"))
        return;
    if (!sl_json_is_object(object)) {
        sl_review_deny_code(reply, 400, "object: Required value");
        return;
    }
    SL_AUTO_FIELDERRS errors = SL_FIELDERRS_INIT;
    sl_api_check_numbers(object, &errors);
    fn(object, sl_json_is_object(old) ? old : NULL, 0, &errors);
    sl_reply_errors(&errors, reply);
}

void sl_validate_clusterqueue(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply) {
    (void)snapshot;
    validate(sl_clusterqueue_validate, request, reply);
}

void sl_validate_cohort(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply) {
    (void)snapshot;
    validate(sl_cohort_validate, request, reply);
}

void sl_validate_resourceflavor(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply) {
    (void)snapshot;
    validate(sl_flavor_validate, request, reply);
    if (reply->allowed)
        warn_wildcard(request, reply);
}

void sl_validate_workload(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply) {
    (void)snapshot;
    validate(sl_workload_validate, request, reply);
}

/* ---- paths ---- */

static const struct sl_route routes[] = {
    {"/mutate-batch-v1-job", SL_ROUTE_REVIEW, sl_mutate_job, NULL},
    {"/validate-batch-v1-job", SL_ROUTE_REVIEW, sl_validate_job, NULL},
    {"/mutate-kueue-x-k8s-io-v1beta2-clusterqueue", SL_ROUTE_REVIEW, sl_mutate_clusterqueue, NULL},
    {"/validate-kueue-x-k8s-io-v1beta2-clusterqueue", SL_ROUTE_REVIEW, sl_validate_clusterqueue, NULL},
    {"/mutate-kueue-x-k8s-io-v1beta2-resourceflavor", SL_ROUTE_REVIEW, sl_mutate_resourceflavor, NULL},
    {"/validate-kueue-x-k8s-io-v1beta2-resourceflavor", SL_ROUTE_REVIEW, sl_validate_resourceflavor, NULL},
    {"/validate-kueue-x-k8s-io-v1beta2-cohort", SL_ROUTE_REVIEW, sl_validate_cohort, NULL},
    {"/mutate-kueue-x-k8s-io-v1beta2-workload", SL_ROUTE_REVIEW, sl_mutate_workload, NULL},
    {"/validate-kueue-x-k8s-io-v1beta2-workload", SL_ROUTE_REVIEW, sl_validate_workload, NULL},
    {"/convert", SL_ROUTE_CONVERT, NULL, sl_api_convert},
};

const struct sl_route *sl_handler_routes(size_t *ret_n) {
    *ret_n = SL_COUNT(routes);
    return routes;
}
