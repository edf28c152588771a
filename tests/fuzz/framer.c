/* Watch streams and list pages in any cut: the same objects as uncut, and no more memory than the limit. First byte:
 * form and size of pieces. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../kube/framer.h"
#include "sluice/base/json.h"
#include "sluice/base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_OBJECT 4096

/* Stripping takes metadata.managedFields (unless its name is written with escapes) and nothing else. */
static void check_strip(const char *object, size_t n, bool in_event) {
    struct sl_json *before = NULL, *after = NULL;
    if (sl_json_parse_strict(object, n, MAX_OBJECT, &before, NULL) == 0) {
        char *copy = sl_xstrndup(object, n);
        size_t left = kube_strip_managed_fields(copy, n, in_event);
        SL_ASSERT(left <= n);
        SL_ASSERT(sl_json_parse(copy, left, MAX_OBJECT, &after, NULL) == 0);
        free(copy);
        if (!sl_json_equal(before, after)) {
            struct sl_json *holder = before; /* in an event: the first member that has them, by whatever name */
            SL_JSON_EACH (before, e) {
                if (in_event && holder == before && sl_json_is_array(sl_json_path(e.value, "metadata.managedFields")))
                    holder = sl_json_mut(before, e.key);
            }
            struct sl_json *meta = sl_json_mut(holder, "metadata");
            SL_ASSERT(sl_json_is_array(sl_json_get(meta, "managedFields")));
            sl_json_del(meta, "managedFields");
            SL_ASSERT(sl_json_equal(before, after));
        }
        sl_json_unref(after);
    }
    sl_json_unref(before);
}

static void run(enum kube_framing framing, const char *text, size_t len, size_t piece, struct sl_buf *out) {
    struct kube_framer f;
    int rc = 0;
    kube_framer_init(&f, framing, MAX_OBJECT);
    for (size_t at = 0; at < len && rc >= 0; at += piece) {
        char *object;
        size_t n;
        kube_framer_feed(&f, text + at, len - at < piece ? len - at : piece);
        while ((rc = kube_framer_next(&f, &object, &n, NULL)) > 0) {
            SL_ASSERT(n <= MAX_OBJECT);
            check_strip(object, n, framing == KUBE_LINES);
            sl_buf_printf(out, "<%zu>", n);
            sl_buf_add(out, object, n);
        }
        SL_ASSERT(rc < 0 || kube_framer_pending(&f) <= MAX_OBJECT + 1);
    }
    const char *page = "";
    size_t n = 0;
    if (rc >= 0 && framing == KUBE_ITEMS)
        rc = kube_framer_finish(&f, &page, &n, NULL);
    sl_buf_printf(out, "[%d]", rc);
    sl_buf_add(out, page, n);
    kube_framer_done(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1)
        return 0;
    enum kube_framing framing = data[0] & 1 ? KUBE_ITEMS : KUBE_LINES;
    const char *text = (const char *)data + 1;
    SL_AUTO_BUF whole = SL_BUF_INIT(64 << 20);
    SL_AUTO_BUF cut = SL_BUF_INIT(64 << 20);
    run(framing, text, size - 1, size, &whole);
    run(framing, text, size - 1, 1 + (data[0] >> 1) % 64, &cut);
    SL_ASSERT(whole.len == cut.len && (!whole.len || !memcmp(whole.data, cut.data, whole.len)));
    return 0;
}
