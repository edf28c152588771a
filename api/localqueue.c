/* LocalQueue. */
#include "meta.h"
#include "sluice/api/decode.h"
#include "sluice/base/mem.h"

int sl_localqueue_decode(const struct sl_json *o, struct sl_localqueue **ret, struct sl_err *err) {
    struct sl_localqueue *q = sl_xalloc(sizeof *q);
    int r = sl_meta_name(o, &q->name, err);
    if (r < 0) {
        sl_localqueue_free(q);
        return r;
    }
    const struct sl_json *meta = sl_json_get(o, "metadata"), *spec = sl_json_get(o, "spec");
    q->ns = sl_meta_str(meta, "namespace");
    q->uid = sl_meta_str(meta, "uid");
    q->generation = sl_json_get_int(meta, "generation", 0);
    q->cq = sl_meta_str(spec, "clusterQueue");
    q->stop = sl_stop_policy_decode(spec);
    sl_labels_decode(sl_json_get(meta, "annotations"), SL_OWN_PREFIX, &q->annotations);
    q->deleting = sl_meta_deleting(o);
    *ret = q;
    return 0;
}
