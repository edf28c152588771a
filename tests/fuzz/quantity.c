/* Any text as a quantity: parse, print, parse again; the value must stay. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "sluice/api/quantity.h"
#include "sluice/base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 4096)
        return 0;
    char *text = sl_xstrndup((const char *)data, size);
    struct sl_quantity q, back;
    struct sl_err err = SL_ERR_INIT;
    if (sl_quantity_parse(text, &q, &err) == 0) {
        char printed[SL_QUANTITY_TEXT];
        sl_quantity_format(&q, printed);
        SL_ASSERT(sl_quantity_parse(printed, &back, &err) == 0);
        SL_ASSERT(sl_quantity_compare(&q, &back) == 0);
        struct sl_quantity sum = sl_quantity_add(q, back);
        SL_ASSERT(q.nano < 0 ? sl_quantity_compare(&sum, &q) <= 0 : sl_quantity_compare(&sum, &q) >= 0);
        SL_ASSERT(sl_quantity_quota(&q, "cpu") >= sl_quantity_amount(&q, "cpu"));
        SL_ASSERT(sl_quantity_quota(&q, "memory") == sl_quantity_amount(&q, "memory"));
    } else {
        SL_ASSERT(err.code == SL_INVALID && err.text[0]);
    }
    free(text);
    return 0;
}
