/* YAML: parse, and what was understood must come back from the printed form. The first byte says whether aliases are
 * allowed. */
#include <stdint.h>

#include "sluice/base/mem.h"
#include "sluice/base/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1)
        return 0;
    struct sl_err err = SL_ERR_INIT;
    SL_AUTO_JSON *docs = NULL;
    struct sl_yaml_lines lines = SL_YAML_LINES_INIT;
    int rc = sl_yaml_parse_lines((const char *)data + 1, size - 1, data[0] & 1, &docs, &lines, &err);
    SL_ASSERT(rc == 0 || ((rc == SL_INVALID || rc == SL_TOO_BIG) && err.text[0] && !docs));
    SL_ASSERT(lines.n <= 500000 && (rc || sl_json_len(docs) == lines.n_documents));
    size_t values = 0;
    SL_JSON_ITEMS (docs, e) {
        SL_ASSERT(lines.documents[e.i] == values); /* every value has its line, and there are no others */
        (void)sl_json_measure(e.value, &values);
        SL_ASSERT(values <= lines.n);
        for (size_t i = lines.documents[e.i]; i < values; i++)
            SL_ASSERT(lines.line[i] > 0 && (i == lines.documents[e.i] || lines.line[i - 1] <= lines.line[i]));
        SL_AUTO_BUF b = SL_BUF_INIT(3 << 20);
        SL_AUTO_JSON *again = NULL;
        sl_yaml_dump(e.value, &b);
        if (b.failed)
            continue; /* aliases made it larger than what is read */
        SL_ASSERT(sl_yaml_parse(sl_buf_text(&b), b.len, false, &again, NULL, &err) == 0);
        SL_ASSERT(sl_json_len(again) == 1);
        SL_ASSERT(sl_json_equal(sl_json_at(again, 0), e.value));
    }
    SL_ASSERT(rc || values == lines.n);
    sl_yaml_lines_done(&lines);
    return 0;
}
