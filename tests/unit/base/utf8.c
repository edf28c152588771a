/* UTF-8 well-formedness. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "sluice/base/utf8.h"

static void at__well_formed_and_not(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t left, want;
    } cases[] = {{"a", 1, 1},
                 {"", 0, 0},
                 {"\xc2\xa2", 2, 2},
                 {"\xe2\x82\xac", 3, 3},
                 {"\xf0\x9f\x98\x80", 4, 4},
                 {"\xf4\x8f\xbf\xbf", 4, 4},
                 {"\xed\x9f\xbf", 3, 3},
                 {"\xee\x80\x80", 3, 3},
                 {"\xe2\x82\xac", 2, 0}, /* cut */
                 {"\x80", 1, 0},         /* continuation alone */
                 {"\xc0\x80", 2, 0},     /* overlong */
                 {"\xc1\xbf", 2, 0},
                 {"\xe0\x9f\xbf", 3, 0},
                 {"\xf0\x8f\xbf\xbf", 4, 0},
                 {"\xed\xa0\x80", 3, 0},     /* surrogate */
                 {"\xf4\x90\x80\x80", 4, 0}, /* past U+10FFFF */
                 {"\xf5\x80\x80\x80", 4, 0},
                 {"\xff", 1, 0},
                 {"\xc2"
                  "a",
                  2, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(sl_utf8_at(cases[i].bytes, cases[i].left), cases[i].want);
}

static void trim__only_a_cut_end(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t want;
    } cases[] = {{"", 0},
                 {"abc", 3},
                 {"a\xc2", 1},
                 {"a\xe2\x82", 1},
                 {"a\xe2\x82\xac", 4},
                 {"a\xf0\x9f\x98", 1},
                 {"\xf0\x9f\x98\x80", 4},
                 {"\x80\x80\x80\x80\x80", 5},
                 {"a\x80", 2},
                 {"\x80", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(sl_utf8_trim(cases[i].text, strlen(cases[i].text)), cases[i].want);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(at__well_formed_and_not),
                                       cmocka_unit_test(trim__only_a_cut_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
