/* AdmissionCheck. */
#include <string.h>

#include "meta.h"
#include "sluice/api/decode.h"
#include "sluice/base/mem.h"

int sl_admissioncheck_decode(const struct sl_json *o, struct sl_admissioncheck **ret, struct sl_err *err) {
    struct sl_admissioncheck *c = sl_xalloc(sizeof *c);
    int r = sl_meta_name(o, &c->name, err);
    if (r < 0) {
        sl_admissioncheck_free(c);
        return r;
    }
    c->uid = sl_meta_str(sl_json_get(o, "metadata"), "uid");
    c->controller = sl_meta_str(sl_json_get(o, "spec"), "controllerName");
    c->deleting = sl_meta_deleting(o);
    SL_JSON_ITEMS (sl_json_path(o, "status.conditions"), e)
        if (!strcmp(sl_json_get_str(e.value, "type", ""), "Active"))
            c->active = !strcmp(sl_json_get_str(e.value, "status", ""), "True");
    *ret = c;
    return 0;
}
