/* Records of the ledger: first byte the kind, second the length of the key. Decoding must survive anything; what it
 * accepts must encode to the same bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../quota/ledger/record.h"
#include "sluice/base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2 || size > (1 << 20))
        return 0;
    enum sl_record_kind kind = (enum sl_record_kind)(data[0] % 6);
    size_t key_len = data[1] < size - 2 ? data[1] : size - 2;
    const uint8_t *key = data + 2, *value = key + key_len;
    size_t len = size - 2 - key_len;
    if (kind < SL_RECORD_HELD)
        kind = SL_RECORD_HELD;
    uint8_t *own = sl_xalloc(len);
    if (len)
        memcpy(own, value, len);
    struct sl_record rec;
    for (int repaired = 0; repaired < 2; repaired++) {
        /* The fuzzer does not find checksums, so the second time it is given the right one. */
        if (repaired && !sl_record_sign(key, key_len, own, len))
            break;
        struct sl_err err = SL_ERR_INIT;
        int rc = sl_record_decode(kind, key, key_len, own, len, &rec, &err);
        SL_ASSERT(rc == 0 || (rc == SL_CORRUPT && err.text[0]));
        if (rc)
            continue;
        SL_AUTO_BUF again = SL_BUF_INIT(SL_RECORD_MAX_BYTES);
        SL_ASSERT(sl_record_encode(kind, key, key_len, &rec, &again, &err) == 0);
        SL_ASSERT(again.len == len && !memcmp(again.data, own, len));
        sl_record_done(&rec);
    }
    free(own);
    return 0;
}
