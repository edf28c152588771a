/* Any Job: it is only read, its patch can be applied, and the result needs no second patch. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/api/decode.h"
#include "sluice/base/mem.h"
#include "sluice/webhook/handlers.h"
#include "sluice/webhook/patch.h"
#include "sluice/webhook/snapshot.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sl_snapshot *cluster(void) {
    struct sl_config config;
    sl_config_init(&config);
    struct sl_snapshot *s = NULL;
    SL_ASSERT(sl_snapshot_new(&config, "kueue-system", &s, NULL) == 0);
    sl_config_done(&config);
    struct sl_labels none = {NULL, 0};
    sl_snapshot_add_namespace(s, "a", &none, &none);
    SL_AUTO_JSON *queue =
        sl_json_from("{'metadata': {'name': 'default', 'namespace': 'a'}, 'spec': {'clusterQueue': 'q'}}");
    SL_AUTO_JSON *cq = sl_json_from(
        "{'metadata': {'name': 'q', 'annotations': {'sluice.dev/shm-max': '20Gi'}}, 'spec': {'resourceGroups': [{"
        "'coveredResources': ['nvidia.com/gpu'], 'flavors': [{'name': 'f', 'resources': [{'name': 'nvidia.com/gpu',"
        "'nominalQuota': 1}]}]}]}}");
    SL_AUTO_JSON *flavor =
        sl_json_from("{'metadata': {'name': 'f'}, 'spec': {'nodeLabels': {'nvidia.com/gpu.product': 'A-SHARED'}}}");
    struct sl_localqueue *l = NULL;
    struct sl_clusterqueue *c = NULL;
    struct sl_flavor *f = NULL;
    SL_ASSERT(sl_localqueue_decode(queue, &l, NULL) == 0 && sl_clusterqueue_decode(cq, &c, NULL) == 0 &&
              sl_flavor_decode(flavor, &f, NULL) == 0);
    sl_snapshot_add_localqueue(s, l);
    sl_snapshot_add_clusterqueue(s, c);
    sl_snapshot_add_flavor(s, f);
    sl_localqueue_free(l);
    sl_clusterqueue_free(c);
    sl_flavor_free(f);
    sl_snapshot_freeze(s);
    return s;
}

static bool patched(sl_review_fn fn, const struct sl_snapshot *s, struct sl_json *request) {
    struct sl_review_reply reply = SL_REVIEW_REPLY_INIT;
    fn(s, request, &reply);
    bool some = reply.allowed && sl_json_len(reply.patch) > 0;
    if (some) {
        struct sl_json *object = sl_json_copy(sl_json_get(request, "object"));
        SL_ASSERT(sl_json_patch_apply(&object, reply.patch, NULL) == 0);
        sl_json_set(request, "object", object);
    }
    sl_review_reply_done(&reply);
    return some;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct sl_snapshot *s;
    if (!s)
        s = cluster();
    struct sl_json *object;
    if (sl_json_parse((const char *)data, size, 1 << 18, &object, NULL) < 0)
        return 0;
    SL_AUTO_JSON *request = sl_json_new_object(), *before = sl_json_copy(object);
    sl_json_set_str(request, "operation", "CREATE");
    sl_json_set_str(request, "namespace", "a");
    sl_json_set(request, "object", object);
    static const sl_review_fn fns[] = {sl_mutate_job, sl_mutate_clusterqueue, sl_mutate_workload};
    for (size_t i = 0; i < SL_COUNT(fns); i++)
        if (patched(fns[i], s, request))
            SL_ASSERT(!patched(fns[i], s, request));
    struct sl_review_reply reply = SL_REVIEW_REPLY_INIT;
    sl_validate_job(s, request, &reply);
    sl_review_reply_done(&reply);
    /* The difference between any two trees leads from one to the other. */
    const struct sl_json *after = sl_json_path(request, "object.spec");
    if (sl_json_is_object(after)) {
        SL_AUTO_JSON *patch = sl_patch_diff(before, after);
        struct sl_json *to = SL_TAKE(before);
        SL_ASSERT(sl_json_patch_apply(&to, patch, NULL) == 0);
        SL_AUTO_JSON *rest = sl_patch_diff(to, after);
        SL_ASSERT(sl_json_len(rest) == 0);
        sl_json_unref(to);
    }
    return 0;
}
