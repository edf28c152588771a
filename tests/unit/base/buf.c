/* Buffers: the limit, sticky failure, formats, base64. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "sluice/base/buf.h"

static void add__exactly_the_maximum_and_one_more(void **state) {
    (void)state;
    SL_AUTO_BUF b = SL_BUF_INIT(5);
    sl_buf_puts(&b, "12345");
    assert_false(b.failed);
    assert_string_equal(sl_buf_text(&b), "12345");
    sl_buf_putc(&b, '6');
    assert_true(b.failed);
    assert_string_equal(sl_buf_text(&b), "12345");
    sl_buf_add(&b, "", 0); /* sticky */
    assert_int_equal(sl_buf_check(&b, NULL), SL_TOO_BIG);
    assert_null(sl_buf_take(&b));
    sl_buf_clear(&b);
    sl_buf_puts(&b, "again");
    assert_int_equal(sl_buf_check(&b, NULL), 0);
}

static void add__memory_stays_within_the_maximum(void **state) {
    (void)state;
    SL_AUTO_BUF b = SL_BUF_INIT(1000);
    for (int i = 0; i < 1000; i++)
        sl_buf_putc(&b, 'x');
    assert_false(b.failed);
    assert_true(b.cap <= 1001);
    SL_AUTO_BUF large = SL_BUF_INIT(SIZE_MAX);
    sl_buf_puts(&large, "x");
    sl_buf_add(&large, "y", 1);
    assert_string_equal(sl_buf_text(&large), "xy");
    large.len = 2;
    sl_buf_add(&large, "z", SIZE_MAX); /* refused before anything is read */
    assert_true(large.failed);
}

static void text__empty_is_not_null(void **state) {
    (void)state;
    SL_AUTO_BUF b = SL_BUF_INIT(10);
    assert_string_equal(sl_buf_text(&b), "");
    sl_buf_add(&b, NULL, 0);
    assert_string_equal(sl_buf_text(&b), "");
    char *taken = sl_buf_take(&b);
    assert_string_equal(taken, "");
    free(taken);
}

static void take__leaves_an_empty_buffer(void **state) {
    (void)state;
    SL_AUTO_BUF b = SL_BUF_INIT(10);
    sl_buf_puts(&b, "abc");
    char *taken = sl_buf_take(&b);
    assert_string_equal(taken, "abc");
    free(taken);
    assert_int_equal(b.len, 0);
    sl_buf_puts(&b, "def");
    assert_string_equal(sl_buf_text(&b), "def");
}

static void printf__short_long_and_too_long(void **state) {
    (void)state;
    SL_AUTO_BUF b = SL_BUF_INIT(2000);
    sl_buf_printf(&b, "%d-%s", 5, "x");
    assert_string_equal(sl_buf_text(&b), "5-x");
    sl_buf_printf(&b, "%01000d", 7); /* longer than the buffer on the stack */
    assert_int_equal(b.len, 1003);
    assert_int_equal(b.data[1002], '7');
    assert_int_equal(b.data[1003], 0);
    sl_buf_printf(&b, "%01000d", 7);
    assert_true(b.failed);
    assert_int_equal(b.len, 1003);
}

static void printf__lengths_around_the_stack_buffer(void **state) {
    (void)state;
    for (int n = 250; n < 262; n++) {
        SL_AUTO_BUF b = SL_BUF_INIT(2000);
        sl_buf_printf(&b, "%*d", n, 1);
        assert_int_equal(b.len, n);
        assert_int_equal(strlen(b.data), n);
    }
}

static void base64__known_answers_and_round_trip(void **state) {
    (void)state;
    static const char *const pairs[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        SL_AUTO_BUF text = SL_BUF_INIT(100), back = SL_BUF_INIT(100);
        sl_buf_add_base64(&text, pairs[i][0], strlen(pairs[i][0]));
        assert_string_equal(sl_buf_text(&text), pairs[i][1]);
        assert_int_equal(sl_buf_add_unbase64(&back, sl_buf_text(&text), text.len, NULL), 0);
        assert_string_equal(sl_buf_text(&back), pairs[i][0]);
    }
    unsigned char bytes[256];
    for (int i = 0; i < 256; i++)
        bytes[i] = (unsigned char)i;
    for (size_t n = 0; n <= 256; n++) {
        SL_AUTO_BUF text = SL_BUF_INIT(1000), back = SL_BUF_INIT(1000);
        sl_buf_add_base64(&text, bytes, n);
        assert_int_equal(sl_buf_add_unbase64(&back, sl_buf_text(&text), text.len, NULL), 0);
        assert_int_equal(back.len, n);
        assert_memory_equal(sl_buf_text(&back), bytes, n);
    }
}

static void base64__bad_text_is_refused_and_changes_nothing(void **state) {
    (void)state;
    static const char *const bad[] = {
        "Z", "Zg", "Zg=", "Zg==Zg==", "=g==", "Z===", "Zg=g", "Zm 9v", "Zm9\n", "Zm9vZm9*", "Zm9v\xff\xff\xff\xff"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        SL_AUTO_BUF b = SL_BUF_INIT(100);
        sl_buf_puts(&b, "kept");
        struct sl_err err = SL_ERR_INIT;
        assert_int_equal(sl_buf_add_unbase64(&b, bad[i], strlen(bad[i]), &err), SL_INVALID);
        assert_string_equal(sl_buf_text(&b), "kept");
        assert_true(err.text[0]);
    }
    SL_AUTO_BUF b = SL_BUF_INIT(100);
    assert_int_equal(sl_buf_add_unbase64(&b, "Z\0==", 4, NULL), SL_INVALID); /* NUL is not the end of the alphabet */
}

static void base64__limit(void **state) {
    (void)state;
    SL_AUTO_BUF b = SL_BUF_INIT(7), back = SL_BUF_INIT(2);
    sl_buf_add_base64(&b, "123456", 6);
    assert_true(b.failed);
    assert_int_equal(sl_buf_add_unbase64(&back, "Zm9v", 4, NULL), SL_TOO_BIG);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(add__exactly_the_maximum_and_one_more),
        cmocka_unit_test(add__memory_stays_within_the_maximum),
        cmocka_unit_test(text__empty_is_not_null),
        cmocka_unit_test(take__leaves_an_empty_buffer),
        cmocka_unit_test(printf__short_long_and_too_long),
        cmocka_unit_test(printf__lengths_around_the_stack_buffer),
        cmocka_unit_test(base64__known_answers_and_round_trip),
        cmocka_unit_test(base64__bad_text_is_refused_and_changes_nothing),
        cmocka_unit_test(base64__limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
