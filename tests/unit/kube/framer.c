/* Streams cut anywhere give the same objects. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framer.h"
#include "sluice/base/mem.h"

/* Feeds text in pieces of n bytes and writes down what came: "<object>" each, then "[page]" or "!code". free() */
static char *frames(enum kube_framing framing, const char *text, size_t len, size_t n, size_t max) {
    struct kube_framer f;
    struct sl_buf out = SL_BUF_INIT(1 << 20);
    struct sl_err err = SL_ERR_INIT;
    int rc = 0;
    kube_framer_init(&f, framing, max);
    for (size_t at = 0; at < len && rc >= 0; at += n) {
        char *object;
        size_t object_len;
        kube_framer_feed(&f, text + at, len - at < n ? len - at : n);
        while ((rc = kube_framer_next(&f, &object, &object_len, &err)) > 0)
            sl_buf_printf(&out, "<%.*s>", (int)object_len, object);
    }
    const char *page;
    size_t page_len;
    if (rc < 0)
        sl_buf_printf(&out, "!%s", sl_code_text(rc));
    else if (framing == KUBE_ITEMS && (rc = kube_framer_finish(&f, &page, &page_len, &err)) == 0)
        sl_buf_printf(&out, "[%.*s]", (int)page_len, page);
    else if (rc < 0)
        sl_buf_printf(&out, "!%s", sl_code_text(rc));
    kube_framer_done(&f);
    return sl_buf_take(&out);
}

static void assert_frames(enum kube_framing framing, const char *text, const char *want) {
    size_t len = strlen(text);
    for (size_t n = 1; n <= len + 1; n++) {
        SL_AUTO_FREE char *have = frames(framing, text, len, n, 1 << 20);
        assert_string_equal(have, want);
    }
}

static void lines_come_whole(void **state) {
    (void)state;
    assert_frames(KUBE_LINES, "{\"a\":1}\n{\"b\":\"}\\n\"}\n\n \r\n{}\r\n{\"cut", "<{\"a\":1}><{\"b\":\"}\\n\"}><{}>");
    assert_frames(KUBE_LINES, "\n\n\n", "");
    assert_frames(KUBE_LINES, "no end", "");
}

static void items_come_one_by_one(void **state) {
    (void)state;
    assert_frames(KUBE_ITEMS,
                  "{\"kind\":\"L\",\"metadata\":{\"resourceVersion\":\"7\",\"continue\":\"x\"},\"items\":[{\"a\":{"
                  "\"items\":[1]}},{\"b\":\"]}\\\"{\"} , {}]}\n",
                  "<{\"a\":{\"items\":[1]}}><{\"b\":\"]}\\\"{\"}><{}>[{\"kind\":\"L\",\"metadata\":{"
                  "\"resourceVersion\":\"7\",\"continue\":\"x\"},\"items\":[  ]}\n]");
    assert_frames(KUBE_ITEMS, "{\"items\":[{}],\"metadata\":{\"items\":[1,2]}}",
                  "<{}>[{\"items\":[],\"metadata\":{\"items\":[1,2]}}]");
    assert_frames(KUBE_ITEMS, "{\"items\":null}", "[{\"items\":null}]");
    assert_frames(KUBE_ITEMS, "{\"kind\":\"items\",\"x\":[1]}", "[{\"kind\":\"items\",\"x\":[1]}]");
}

static void a_cut_page_is_seen(void **state) {
    (void)state;
    static const char page[] = "{\"metadata\":{\"resourceVersion\":\"7\"},\"items\":[{\"a\":1},{\"b\":2}]}";
    for (size_t len = 1; len < sizeof page - 1; len++) {
        SL_AUTO_FREE char *have = frames(KUBE_ITEMS, page, len, 3, 1 << 20);
        assert_non_null(strstr(have, "!protocol error"));
    }
}

static void wrong_pages_are_refused(void **state) {
    (void)state;
    assert_frames(KUBE_ITEMS, "{\"items\":[1]}", "!protocol error");
    assert_frames(KUBE_ITEMS, "{\"items\":[\"{}\"]}", "!protocol error");
    assert_frames(KUBE_ITEMS, "}", "!protocol error");
    assert_frames(KUBE_ITEMS, "{}{}", "!protocol error");
    assert_frames(KUBE_ITEMS, "", "!protocol error");
}

static void sizes_are_bounded(void **state) {
    (void)state;
    char line[300];
    memset(line, 'x', sizeof line);
    SL_AUTO_FREE char *a = frames(KUBE_LINES, line, sizeof line, 7, 256);
    assert_string_equal(a, "!too big");
    memcpy(line, "{\"items\":[{", 11);
    SL_AUTO_FREE char *b = frames(KUBE_ITEMS, line, sizeof line, 7, 256);
    assert_string_equal(b, "!too big");
    line[299] = '\n';
    SL_AUTO_FREE char *c = frames(KUBE_LINES, line + 43, 257, 300, 256);
    assert_int_equal(strlen(c), 258); /* exactly the limit */
    SL_AUTO_FREE char *d = frames(KUBE_LINES, line + 42, 258, 300, 256);
    assert_string_equal(d, "!too big");
    size_t n = 70000;
    SL_AUTO_FREE char *rest = sl_xalloc(n + 1);
    memset(rest, ' ', n);
    rest[0] = '{';
    SL_AUTO_FREE char *e = frames(KUBE_ITEMS, rest, n, 1000, 1 << 20);
    assert_string_equal(e, "!too big");
}

static void memory_goes_back_after_a_large_object(void **state) {
    (void)state;
    struct kube_framer f;
    size_t n = 1 << 20;
    char *big = sl_xalloc(n), *object;
    size_t len;
    memset(big, 'x', n);
    big[n - 1] = '\n';
    kube_framer_init(&f, KUBE_LINES, KUBE_MAX_OBJECT);
    kube_framer_feed(&f, big, n);
    assert_int_equal(kube_framer_pending(&f), n);
    assert_int_equal(kube_framer_next(&f, &object, &len, NULL), 1);
    assert_int_equal(len, n - 1);
    assert_int_equal(kube_framer_next(&f, &object, &len, NULL), 0);
    assert_int_equal(kube_framer_pending(&f), 0);
    kube_framer_feed(&f, big, 10);
    assert_true(f.cap <= 4096);
    kube_framer_reset(&f, KUBE_ITEMS);
    assert_int_equal(kube_framer_pending(&f), 0);
    kube_framer_done(&f);
    free(big);
}

static void assert_stripped(const char *text, unsigned depth, const char *want) {
    char copy[512];
    snprintf(copy, sizeof copy, "%s", text);
    copy[kube_strip_managed_fields(copy, strlen(copy), depth)] = 0;
    assert_string_equal(copy, want);
}

static void managed_fields_are_cut_out(void **state) {
    (void)state;
    assert_stripped("{\"metadata\":{\"managedFields\":[{\"x\":\"]\"}],\"name\":\"a\"}}", 0,
                    "{\"metadata\":{\"name\":\"a\"}}");
    assert_stripped("{\"metadata\":{\"name\":\"a\", \"managedFields\" : [ ] },\"s\":1}", 0,
                    "{\"metadata\":{\"name\":\"a\" },\"s\":1}");
    assert_stripped("{\"metadata\":{\"managedFields\":[[],[]]}}", 0, "{\"metadata\":{}}");
    assert_stripped(
        "{\"type\":\"A\",\"object\":{\"spec\":{\"metadata\":{\"managedFields\":[1]}},\"metadata\":{\"managedFields\":["
        "1],\"n\":1}}}",
        1, "{\"type\":\"A\",\"object\":{\"spec\":{\"metadata\":{\"managedFields\":[1]}},\"metadata\":{\"n\":1}}}");
    /* others of that name stay */
    static const char *const same[] = {
        "{\"spec\":{\"managedFields\":[1]}}",
        "{\"metadata\":{\"labels\":{\"managedFields\":\"[\"}}}",
        "{\"metadata\":{\"annotations\":{\"a\":\"\\\"managedFields\\\":[\"}}}",
        "{\"metadata\":{\"managedFields\":null}}",
        "{\"metadata\":[{\"managedFields\":[1]}]}",
        "{\"x\":\"metadata\",\"managedFields\":[1]}",
        "{\"metadata\":{\"managedFields\":",
        "{\"metadata\":{\"managedFields",
        "",
    };
    for (size_t i = 0; i < SL_COUNT(same); i++)
        assert_stripped(same[i], 0, same[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_whole),           cmocka_unit_test(items_come_one_by_one),
        cmocka_unit_test(a_cut_page_is_seen),         cmocka_unit_test(wrong_pages_are_refused),
        cmocka_unit_test(sizes_are_bounded),          cmocka_unit_test(memory_goes_back_after_a_large_object),
        cmocka_unit_test(managed_fields_are_cut_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
