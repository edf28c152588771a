#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sluice/base/json.h"
#include "sluice/base/mem.h"

/* Reading has two ways, a quick one and the library's; what is read, and what is not, must not depend on which one did
 * it. */

static int read_exact(const char *text, size_t len, bool strict, size_t max_elements, struct sl_json **ret,
                      struct sl_err *err) {
    char *exact = malloc(len + !len); /* no byte behind it: the sanitizer sees reads past the end */
    assert_non_null(exact);
    memcpy(exact, text, len);
    int rc = strict         ? sl_json_parse_strict(exact, len, 1 << 20, ret, err)
             : max_elements ? sl_json_parse_limited(exact, len, 1 << 20, max_elements, ret, err)
                            : sl_json_parse(exact, len, 1 << 20, ret, err);
    free(exact);
    return rc;
}

static void json_read__values(void **state) {
    (void)state;
    static const struct {
        const char *text, *dump; /* NULL: the same */
    } rows[] = {
        {"{}", NULL},
        {"[]", NULL},
        {" \t\r\n[ \t\r\n] \t\r\n", "[]"},
        {"[1,-1,0,-0,10,9223372036854775807,-9223372036854775808]",
         "[1,-1,0,0,10,9223372036854775807,-9223372036854775808]"},
        {"[0.5,-0.25,1e3,1E-2,2.5e+1]", "[0.5,-0.25,1000.0,0.01,25.0]"},
        {"[true,false,null]", NULL},
        {"[[[{\"a\":[{}]}]]]", NULL},
        {"[\"\",\"a\",\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]", "[\"\",\"a\",\"\\\"\\\\/\\b\\f\\n\\r\\t\"]"},
        {"[\"\\u0041\\u00fc\\u20AC\\ud83d\\uDE00\"]", "[\"A\u00fc\u20ac\U0001f600\"]"},
        {"[\"\u00fc\u20ac\U0001f600\",\"a\\n\u00fc\"]", NULL},
        {"[\"\x7f\"]", NULL},
        {"{\"k:{\\\"name\\\":\\\"a\\\"}\":{\"\\u0061\":\"\\u0062\"},\"\u00fc\\t\":1}",
         "{\"k:{\\\"name\\\":\\\"a\\\"}\":{\"a\":\"b\"},\"\u00fc\\t\":1}"},
        {"{\"\":1,\"a\" : 2 , \"b\":[3 ,4]}", "{\"\":1,\"a\":2,\"b\":[3,4]}"},
        {"{\"a\":1,\"b\":2,\"a\":{\"c\":3}}", "{\"a\":{\"c\":3},\"b\":2}"},
    };
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        SL_AUTO_JSON *j = NULL;
        struct sl_err err = SL_ERR_INIT;
        if (read_exact(rows[i].text, strlen(rows[i].text), false, 0, &j, &err))
            fail_msg("%s: %s", rows[i].text, err.text);
        SL_AUTO_BUF out = SL_BUF_INIT(1000);
        sl_json_dump(j, false, &out);
        assert_string_equal(sl_buf_text(&out), rows[i].dump ? rows[i].dump : rows[i].text);
    }
}

static void json_read__refused(void **state) {
    (void)state;
    static const char *const rows[] = {
        "",
        " ",
        "1",
        "\"a\"",
        "null",
        "{",
        "[",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1]]",
        "[1]x",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{1:1}",
        "{\"a\" 1}",
        "{,}",
        "[01]",
        "[-]",
        "[-01]",
        "[+1]",
        "[.5]",
        "[1.]",
        "[1e]",
        "[1e+]",
        "[1.5.5]",
        "[1a]",
        "[--1]",
        "[9223372036854775808]",
        "[-9223372036854775809]",
        "[1e999]",
        "[tru]",
        "[truex]",
        "[True]",
        "[nul",
        "[NaN]",
        "[\"",
        "[\"a",
        "[\"\\",
        "[\"\\x\"]",
        "[\"\\u12\"]",
        "[\"\\u12g4\"]",
        "[\"\\u0000\"]",
        "{\"\\u0000\":1}",
        "[\"\\ud800\"]",
        "[\"\\udc00\"]",
        "[\"\\ud800\\u0041\"]",
        "[\"\\ud800x\"]",
        "[\"\n\"]",
        "[\"\x1f\"]",
        "[\"\xff\"]",
        "[\"\xc0\x80\"]",
        "[\"\xc3\"]",
        "[\"\xed\xa0\x80\"]",
        "[\"\xf4\x90\x80\x80\"]",
        "{\"\xff\":1}",
        "\xef\xbb\xbf[]",
        "[\f1]",
        "['a']",
        "[1]//",
        "[/**/]",
    };
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        SL_AUTO_JSON *j = NULL;
        struct sl_err err = SL_ERR_INIT;
        if (read_exact(rows[i], strlen(rows[i]), false, 0, &j, &err) != SL_INVALID ||
            strncmp(err.text, "JSON line ", 10) != 0)
            fail_msg("%s: %s", rows[i], err.text);
        assert_null(j);
    }
}

static void json_read__every_cut_is_refused(void **state) {
    (void)state;
    static const char text[] = " {\"a\\n\":[1,-2.5e3,true,false,null,\"\\ud83d\\ude00\u00fc\"],\"b\":{\"c\":{}}}";
    SL_AUTO_JSON *whole = NULL;
    assert_int_equal(read_exact(text, strlen(text), false, 0, &whole, NULL), 0);
    for (size_t n = 0; n < strlen(text); n++) {
        struct sl_json *j = NULL;
        assert_int_equal(read_exact(text, n, false, 0, &j, NULL), SL_INVALID);
    }
}

static void json_read__strict(void **state) {
    (void)state;
    SL_AUTO_JSON *j = NULL, *k = NULL;
    static const char twice[] = "{\"a\":{\"b\":1,\"\\u0062\":2}}", once[] = "{\"a\":{\"b\":1,\"c\":2},\"b\":{\"b\":1}}";
    assert_int_equal(read_exact(twice, strlen(twice), true, 0, &j, NULL), SL_INVALID);
    assert_int_equal(read_exact(twice, strlen(twice), false, 0, &j, NULL), 0);
    assert_int_equal(read_exact(once, strlen(once), true, 0, &k, NULL), 0);
}

/* Of strangers' text only, where a number too large in some corner must not take the rest along. */
static void json_read__integers_past_int64(void **state) {
    (void)state;
    static const struct {
        const char *text, *out;
    } rows[] = {
        {"[9223372036854775807,9223372036854775808]", "[9223372036854775807,9.2233720368547758e18]"},
        {"[-9223372036854775808,-9223372036854775809]", "[-9223372036854775808,-9.2233720368547758e18]"},
        {"{\"a\":10000000000000000000,\"b\":-18446744073709551616}", "{\"a\":1e19,\"b\":-1.8446744073709552e19}"},
        {"[12345678901234567890.5]", "[1.2345678901234567e19]"},
    };
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        SL_AUTO_JSON *j = NULL;
        assert_int_equal(read_exact(rows[i].text, strlen(rows[i].text), false, 100, &j, NULL), 0);
        SL_AUTO_FREE char *text = sl_json_text(j);
        assert_string_equal(text, rows[i].out);
    }
    char digits[1000];
    for (size_t n = 300; n < sizeof digits - 3; n += 50) { /* past the real numbers too: the largest of them */
        SL_AUTO_JSON *j = NULL;
        digits[0] = '[';
        memset(digits + 1, '9', n);
        digits[n + 1] = ']';
        assert_int_equal(read_exact(digits, n + 2, false, 100, &j, NULL), 0);
        assert_int_equal(sl_json_type(sl_json_at(j, 0)), SL_JSON_REAL);
        assert_true(sl_json_real(sl_json_at(j, 0), 0) > 9e299);
        assert_int_equal(read_exact(digits, n + 2, false, 0, &j, NULL), SL_INVALID);
    }
    static const char *const bad[] = {"[099999999999999999999]", "[99999999999999999999x]", "[-]",
                                      "[9999999999999999999"};
    for (size_t i = 0; i < SL_COUNT(bad); i++) {
        struct sl_json *j = NULL;
        assert_int_equal(read_exact(bad[i], strlen(bad[i]), false, 100, &j, NULL), SL_INVALID);
    }
}

static void json_read__limits(void **state) {
    (void)state;
    struct sl_json *j = NULL;
    static const char five[] = "[1,{\"a\":2,\"b\":3},4]"; /* two openings, three commas */
    assert_int_equal(read_exact(five, strlen(five), false, 5, &j, NULL), 0);
    sl_json_unref(j);
    struct sl_err err = SL_ERR_INIT;
    assert_int_equal(read_exact(five, strlen(five), false, 4, &j, &err), SL_LIMIT);
    assert_string_equal(err.text, "JSON with more than 4 elements");
    char deep[2 * SL_JSON_MAX_DEPTH + 2];
    for (size_t depth = SL_JSON_MAX_DEPTH; depth <= SL_JSON_MAX_DEPTH + 1; depth++) {
        memset(deep, '[', depth);
        memset(deep + depth, ']', depth);
        j = NULL;
        assert_int_equal(read_exact(deep, 2 * depth, false, 0, &j, NULL), depth > SL_JSON_MAX_DEPTH ? SL_TOO_BIG : 0);
        sl_json_unref(j);
    }
    assert_int_equal(sl_json_parse("[1,2]", 5, 4, &j, NULL), SL_TOO_BIG);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_read__values),
        cmocka_unit_test(json_read__refused),
        cmocka_unit_test(json_read__every_cut_is_refused),
        cmocka_unit_test(json_read__strict),
        cmocka_unit_test(json_read__integers_past_int64),
        cmocka_unit_test(json_read__limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
