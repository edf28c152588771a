/* JSON: what the library alone would read, no more and no less; parse, print, parse again gives equal trees; then the
 * text as a merge patch and as a JSON patch of itself. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/base/json.h"
#include "sluice/base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void compare(const uint8_t *data, size_t size, bool strict, int rc, const struct sl_json *tree) {
    json_t *theirs = json_loadb((const char *)data, size, strict ? JSON_REJECT_DUPLICATES : 0, NULL);
    SL_ASSERT(rc == SL_TOO_BIG || (rc == 0) == (theirs != NULL));
    if (rc == 0) {
        char *want = json_dumps(theirs, JSON_COMPACT);
        SL_AUTO_BUF got = SL_BUF_INIT(16 << 20);
        sl_json_dump(tree, false, &got);
        SL_ASSERT(!strcmp(want, sl_buf_text(&got)));
        free(want);
    }
    json_decref(theirs);
}

/* Text of strangers: the same tree, and where that is none for an integer too large, one that can be printed. */
static void wide(const uint8_t *data, size_t size, int rc, const struct sl_json *tree) {
    SL_AUTO_JSON *j = NULL, *again = NULL;
    struct sl_err err = SL_ERR_INIT;
    int wide_rc = sl_json_parse_limited((const char *)data, size, 1 << 20, SL_JSON_MAX_ELEMENTS, &j, &err);
    SL_ASSERT(rc ? wide_rc || !tree : !wide_rc && sl_json_equal(j, tree));
    if (wide_rc)
        return;
    SL_AUTO_FREE char *text = sl_json_text(j);
    SL_ASSERT(!sl_json_parse(text, strlen(text), 64 << 20, &again, &err) && sl_json_equal(j, again));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sl_err err = SL_ERR_INIT;
    SL_AUTO_JSON *tree = NULL, *again = NULL, *strict = NULL;
    int rc = sl_json_parse((const char *)data, size, 1 << 20, &tree, &err);
    SL_ASSERT(rc == 0 || ((rc == SL_INVALID || rc == SL_TOO_BIG) && err.text[0]));
    SL_ASSERT((rc == 0) == (tree != NULL));
    compare(data, size, false, rc, tree);
    int strict_rc = sl_json_parse_strict((const char *)data, size, 1 << 20, &strict, &err);
    compare(data, size, true, strict_rc, strict);
    SL_ASSERT(strict_rc != 0 || sl_json_equal(strict, tree));
    wide(data, size, rc, tree);
    if (rc)
        return 0;
    char *text = sl_json_text(tree);
    SL_AUTO_BUF b = SL_BUF_INIT(8 << 20);
    sl_json_dump_pretty(tree, &b);
    SL_ASSERT(sl_json_parse(sl_buf_text(&b), b.len, 8 << 20, &again, &err) == 0);
    SL_ASSERT(sl_json_equal(tree, again));
    free(text);

    struct sl_json *merged = sl_json_merge_patch(sl_json_copy(tree), tree);
    SL_ASSERT(merged);
    sl_json_unref(merged);
    struct sl_json *doc = sl_json_from("{'a':{'b':[1,2,{'c~d/e':true}]},'':{'':0}}"), *before = sl_json_copy(doc);
    if (sl_json_patch_apply(&doc, tree, &err))
        SL_ASSERT(sl_json_equal(doc, before) && err.text[0]);
    SL_ASSERT(doc);
    sl_json_unref(doc);
    sl_json_unref(before);
    return 0;
}
