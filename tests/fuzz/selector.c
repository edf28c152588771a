/* {"selector":..., "labels":..., "tolerations":..., "pod":...}: decode everything, match everything. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "sluice/api/decode.h"
#include "sluice/base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sl_json *j;
    if (sl_json_parse((const char *)data, size, 1 << 16, &j, NULL) < 0)
        return 0;
    struct sl_labels labels;
    sl_labels_decode(sl_json_get(j, "labels"), NULL, &labels);
    for (size_t i = 0; i < labels.n; i++)
        SL_ASSERT(sl_labels_get(&labels, labels.items[i].key));
    struct sl_selector selector;
    struct sl_err err = SL_ERR_INIT;
    if (sl_selector_decode(sl_json_get(j, "selector"), &selector, &err) == 0) {
        bool all = true;
        for (size_t i = 0; i < selector.n; i++)
            all = sl_requirement_matches(&selector.items[i], &labels) && all;
        SL_ASSERT(all == sl_selector_matches(&selector, &labels));
        sl_selector_done(&selector);
    } else {
        SL_ASSERT(err.code == SL_INVALID && err.text[0]);
    }
    struct sl_podset ps = {0};
    sl_podset_decode_placement(sl_json_get(j, "pod"), &ps);
    for (size_t i = 0; i < ps.n_affinity; i++)
        for (size_t k = 0; k < ps.affinity[i].n; k++)
            (void)sl_requirement_matches(&ps.affinity[i].items[k], &labels);
    if (labels.n)
        for (size_t i = 0; i < ps.n_tolerations; i++) {
            struct sl_taint taint = {labels.items[0].key, labels.items[0].value, ps.tolerations[i].effect};
            (void)sl_toleration_tolerates(&ps.tolerations[i], &taint);
        }
    struct sl_workload *w = sl_xalloc(sizeof *w); /* the destructor of pod sets belongs to the workload */
    w->podsets = sl_xalloc(sizeof *w->podsets);
    w->podsets[w->n_podsets++] = ps;
    sl_workload_free(w);
    sl_labels_done(&labels);
    sl_json_unref(j);
    return 0;
}
