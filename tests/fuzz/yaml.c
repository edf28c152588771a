/* YAML: parse, and what was understood must come back from the printed form. The first byte says whether aliases are
 * allowed. */
#include <stdint.h>
#include <stdlib.h>

#include "sluice/base/mem.h"
#include "sluice/base/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1)
        return 0;
    struct sl_err err = SL_ERR_INIT;
    SL_AUTO_JSON *docs = NULL;
    int *lines = NULL;
    int rc = sl_yaml_parse((const char *)data + 1, size - 1, data[0] & 1, &docs, &lines, &err);
    SL_ASSERT(rc == 0 || ((rc == SL_INVALID || rc == SL_TOO_BIG) && err.text[0] && !docs && !lines));
    SL_JSON_ITEMS (docs, e) {
        SL_ASSERT(lines[e.i] > 0);
        SL_AUTO_BUF b = SL_BUF_INIT(3 << 20);
        SL_AUTO_JSON *again = NULL;
        sl_yaml_dump(e.value, &b);
        if (b.failed)
            continue; /* aliases made it larger than what is read */
        SL_ASSERT(sl_yaml_parse(sl_buf_text(&b), b.len, false, &again, NULL, &err) == 0);
        SL_ASSERT(sl_json_len(again) == 1);
        SL_ASSERT(sl_json_equal(sl_json_at(again, 0), e.value));
    }
    free(lines);
    return 0;
}
