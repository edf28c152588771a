/* Any object: convert there and back until it is stable, which it must become. */
#include <stddef.h>
#include <stdint.h>

#include "sluice/api/convert.h"
#include "sluice/api/names.h"
#include "sluice/base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sl_json *o;
    if (sl_json_parse_limited((const char *)data, size, 1 << 18, SL_JSON_MAX_ELEMENTS, &o, NULL) < 0)
        return 0;
    struct sl_err err = SL_ERR_INIT;
    /* After two passes through both versions what is left can be said in both: a third one changes nothing. */
    bool ok = true;
    for (int pass = 0; ok && pass < 2; pass++)
        ok = sl_api_convert(o, SL_V1BETA1, &err) == 0 && sl_api_convert(o, SL_V1BETA2, &err) == 0;
    if (ok) {
        struct sl_json *again = sl_json_copy(o);
        SL_ASSERT(sl_api_convert(again, SL_V1BETA1, &err) == 0);
        SL_ASSERT(sl_api_convert(again, SL_V1BETA2, &err) == 0);
        SL_ASSERT(sl_json_equal(again, o));
        sl_json_unref(again);
    } else {
        SL_ASSERT(err.code == SL_INVALID && err.text[0]);
    }
    sl_json_unref(o);
    return 0;
}
