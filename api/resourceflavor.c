/* ResourceFlavor. */
#include <stdlib.h>

#include "meta.h"
#include "sluice/api/decode.h"
#include "sluice/base/mem.h"

int sl_flavor_decode(const struct sl_json *o, struct sl_flavor **ret, struct sl_err *err) {
    struct sl_flavor *f = sl_xalloc(sizeof *f);
    int r = sl_meta_name(o, &f->name, err);
    if (r < 0) {
        sl_flavor_free(f);
        return r;
    }
    const struct sl_json *meta = sl_json_get(o, "metadata"), *spec = sl_json_get(o, "spec");
    f->uid = sl_meta_str(meta, "uid");
    f->deleting = sl_meta_deleting(o);
    sl_labels_decode(sl_json_get(meta, "annotations"), SL_OWN_PREFIX, &f->annotations);
    f->topology = sl_meta_str_or_null(spec, "topologyName");
    sl_labels_decode(sl_json_get(spec, "nodeLabels"), NULL, &f->node_labels);
    const struct sl_json *taints = sl_json_get(spec, "nodeTaints");
    size_t n = sl_json_is_array(taints) ? sl_json_len(taints) : 0;
    f->taints = sl_xalloc((n + 1) * sizeof *f->taints);
    for (size_t i = 0; i < n; i++) {
        const struct sl_json *t = sl_json_at(taints, i);
        f->taints[f->n_taints++] =
            (struct sl_taint){sl_meta_str(t, "key"), sl_meta_str(t, "value"), sl_meta_str(t, "effect")};
    }
    sl_tolerations_decode(sl_json_get(spec, "tolerations"), &f->tolerations, &f->n_tolerations);
    *ret = f;
    return 0;
}
