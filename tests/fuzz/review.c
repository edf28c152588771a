/*
 * Both kinds of review from their bytes on. The first byte picks the kind. Whatever comes in: the status is one of
 * four, a good answer is JSON that repeats the uid, a refusal is one line.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/base/mem.h"
#include "sluice/webhook/review.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t walk(const struct sl_json *j) {
    size_t n = 1;
    if (sl_json_is_array(j)) {
        SL_JSON_ITEMS (j, e)
            n += walk(e.value);
    } else if (sl_json_is_object(j)) {
        SL_JSON_EACH (j, e)
            n += walk(e.value) + strlen(e.key);
    }
    return n;
}

/* Says of the object what a real handler would: text from it in the message, values from it in the patch. */
static void handler(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply) {
    (void)snapshot;
    const struct sl_json *object = sl_json_get(request, "object");
    size_t n = walk(request);
    const char *name = sl_json_path_str(object, "metadata.name", "");
    sl_review_warn(reply, "%s has %zu parts", name, n);
    if (n % 3 == 0) {
        sl_review_deny_code(reply, (int)sl_json_get_int(object, "code", 0), "metadata.name: Invalid value: \"%s\"",
                            name);
    } else if (n % 3 == 1) {
        reply->patch = sl_json_new_array();
        struct sl_json *op = sl_json_new_object();
        sl_json_set_str(op, "op", "add");
        sl_json_set_str(op, "path", name);
        sl_json_set(op, "value", sl_json_ref(object));
        sl_json_append(reply->patch, op);
    }
}

static int convert(struct sl_json *object, const char *desired, struct sl_err *err) {
    if (sl_json_get(object, "stuck"))
        return sl_err_set(err, SL_INVALID, "%s: stuck", sl_json_path_str(object, "metadata.name", ""));
    sl_json_set_str(object, "apiVersion", desired);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size)
        return 0;
    char *text = malloc(size);
    SL_ASSERT(text);
    memcpy(text, data + 1, size - 1);
    SL_AUTO_BUF out = SL_BUF_INIT(2 * SL_REVIEW_MAX_BYTES);
    bool flag = false;
    int status = data[0] & 1 ? sl_conversion_handle(convert, text, size - 1, 1 << 20, &out, &flag)
                             : sl_review_handle(handler, NULL, text, size - 1, &out, &flag);
    SL_ASSERT(status == 200 || status == 400 || status == 413 || status == 500);
    SL_ASSERT(!out.failed && out.len);
    if (status == 200) {
        SL_AUTO_JSON *answer = NULL;
        SL_ASSERT(sl_json_parse(out.data, out.len, out.max, &answer, NULL) == 0);
        SL_ASSERT(sl_json_str_len(sl_json_path(answer, "response.uid")));
    } else {
        SL_ASSERT(!flag && strchr(out.data, '\n') == out.data + out.len - 1);
    }
    free(text);
    return 0;
}
