/* Errors: codes, context, cutting and escaping. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "sluice/base/err.h"
#include "sluice/base/mem.h"

static void set__returns_the_code_with_and_without_an_object(void **state) {
    (void)state;
    struct sl_err err = SL_ERR_INIT;
    assert_int_equal(sl_err_set(&err, SL_GONE, "watch %s: %d", "jobs", 410), SL_GONE);
    assert_int_equal(err.code, SL_GONE);
    assert_string_equal(err.text, "watch jobs: 410");
    assert_int_equal(sl_err_set(NULL, SL_CONFLICT, "x"), SL_CONFLICT);
    assert_true(SL_NOT_FOUND < 0 && SL_INTERNAL < 0);
}

static void set__control_characters_become_question_marks(void **state) {
    (void)state;
    struct sl_err err = SL_ERR_INIT;
    sl_err_set(&err, SL_INVALID, "a\nb\x1b[31m\x7f");
    assert_string_equal(err.text, "a?b?[31m?");
}

static void set__text_of_the_error_itself_may_be_an_argument(void **state) {
    (void)state;
    struct sl_err err = SL_ERR_INIT;
    sl_err_set(&err, SL_IO, "inner");
    sl_err_set(&err, SL_INVALID, "outer: %s", err.text);
    assert_string_equal(err.text, "outer: inner");
}

static void set__cut_between_characters(void **state) {
    (void)state;
    for (int shift = 0; shift < 4; shift++) {
        struct sl_err err = SL_ERR_INIT;
        SL_AUTO_FREE char *text = sl_xalloc(1000);
        memset(text, 'x', (size_t)shift);
        for (int i = 0; i < 200; i++)
            memcpy(text + shift + i * 3, "\xe4\xb8\xad", 3);
        sl_err_set(&err, SL_INVALID, "%s", text);
        size_t n = strlen(err.text);
        assert_true(n < sizeof err.text && n > sizeof err.text - 5);
        assert_int_equal((n - (size_t)shift) % 3, 0);
        sl_err_wrap(&err, "%s", text);
        assert_int_equal((strlen(err.text) - (size_t)shift) % 3, 0);
    }
}

static void wrap__puts_context_in_front(void **state) {
    (void)state;
    struct sl_err err = SL_ERR_INIT;
    sl_err_set(&err, SL_NOT_FOUND, "no such job");
    err.sys = 404;
    assert_int_equal(sl_err_wrap(&err, "start %s", "a/b"), SL_NOT_FOUND);
    assert_string_equal(err.text, "start a/b: no such job");
    assert_int_equal(err.sys, 404);
    assert_int_equal(sl_err_wrap(NULL, "x"), SL_INTERNAL);
    struct sl_err none = SL_ERR_INIT;
    assert_int_equal(sl_err_wrap(&none, "x"), SL_INTERNAL);
}

static void code_text__every_code_has_words(void **state) {
    (void)state;
    for (int c = SL__FIRST_ERROR + 1; c < SL__END_ERROR; c++)
        assert_string_not_equal(sl_code_text(c), "unknown error");
    assert_string_equal(sl_code_text(0), "ok");
    assert_string_equal(sl_code_text(77), "unknown error");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set__returns_the_code_with_and_without_an_object),
        cmocka_unit_test(set__control_characters_become_question_marks),
        cmocka_unit_test(set__text_of_the_error_itself_may_be_an_argument),
        cmocka_unit_test(set__cut_between_characters),
        cmocka_unit_test(wrap__puts_context_in_front),
        cmocka_unit_test(code_text__every_code_has_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
