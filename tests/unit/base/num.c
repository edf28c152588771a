/* Integers: saturation and parsing at the edges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "sluice/base/num.h"

static void saturating__edges(void **state) {
    (void)state;
    assert_true(sl_sat_add(INT64_MAX, 1) == INT64_MAX);
    assert_true(sl_sat_add(INT64_MIN, -1) == INT64_MIN);
    assert_true(sl_sat_add(INT64_MAX, INT64_MIN) == -1);
    assert_true(sl_sat_sub(INT64_MIN, 1) == INT64_MIN);
    assert_true(sl_sat_sub(0, INT64_MIN) == INT64_MAX);
    assert_true(sl_sat_sub(5, 7) == -2);
    assert_true(sl_sat_mul(INT64_MAX, 2) == INT64_MAX);
    assert_true(sl_sat_mul(INT64_MAX, -2) == INT64_MIN);
    assert_true(sl_sat_mul(INT64_MIN, -1) == INT64_MAX);
    assert_true(sl_sat_mul(INT64_MIN, 0) == 0);
}

static void parse__accepts(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t v;
    } good[] = {{"0", 0},
                {"-0", 0},
                {"7", 7},
                {"-7", -7},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN},
                {"0000000000000000000000012", 12}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int64_t v = 99;
        assert_int_equal(sl_parse_i64(good[i].text, strlen(good[i].text), &v, NULL), 0);
        assert_true(v == good[i].v);
        assert_true(sl_parse_int(good[i].text, &v));
    }
    int64_t v = 0;
    assert_true(sl_parse_int("+5", &v) && v == 5);
    assert_int_equal(sl_parse_i64("12345", 3, &v, NULL), 0);
    assert_int_equal(v, 123);
}

static void parse__refuses_and_leaves_the_output(void **state) {
    (void)state;
    static const char *const bad[] = {"",
                                      "-",
                                      "+",
                                      "+5",
                                      " 5",
                                      "5 ",
                                      "5x",
                                      "0x5",
                                      "1e3",
                                      "1.0",
                                      "--5",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "99999999999999999999",
                                      "\xd9\xa3"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t v = 99;
        struct sl_err err = SL_ERR_INIT;
        assert_int_equal(sl_parse_i64(bad[i], strlen(bad[i]), &v, &err), SL_INVALID);
        assert_int_equal(v, 99);
        assert_non_null(strstr(err.text, "64-bit integer"));
    }
    int64_t v = 99;
    assert_int_equal(sl_parse_i64("1\0", 2, &v, NULL), SL_INVALID);
    assert_false(sl_parse_int(NULL, &v));
    assert_false(sl_parse_int("+-5", &v));
    assert_int_equal(v, 99);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saturating__edges),
        cmocka_unit_test(parse__accepts),
        cmocka_unit_test(parse__refuses_and_leaves_the_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
