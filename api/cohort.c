/* Cohort. */
#include "meta.h"
#include "sluice/api/decode.h"
#include "sluice/base/mem.h"

int sl_cohort_decode(const struct sl_json *o, struct sl_cohort **ret, struct sl_err *err) {
    struct sl_cohort *c = sl_xalloc(sizeof *c);
    const struct sl_json *spec = sl_json_get(o, "spec");
    int r = sl_meta_name(o, &c->name, err);
    if (r == 0)
        r = sl_groups_decode(sl_json_get(spec, "resourceGroups"), &c->groups, &c->n_groups, err);
    if (r == 0)
        r = sl_weight_decode(spec, &c->weight, err);
    if (r < 0) {
        sl_cohort_free(c);
        return r;
    }
    c->uid = sl_meta_str(sl_json_get(o, "metadata"), "uid");
    c->parent = sl_meta_str_or_null(spec, "parentName");
    c->deleting = sl_meta_deleting(o);
    *ret = c;
    return 0;
}
