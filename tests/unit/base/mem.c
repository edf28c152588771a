/* Allocation helpers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "sluice/base/mem.h"

static void alloc__is_zeroed_and_never_null(void **state) {
    (void)state;
    char *p = sl_xalloc(0);
    assert_non_null(p);
    free(p);
    p = sl_xalloc(1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(p[i], 0);
    p = sl_xrealloc(p, 2000, 2);
    memset(p, 1, 4000);
    free(p);
}

static void dup__copies_exactly(void **state) {
    (void)state;
    assert_null(sl_xstrdup(NULL));
    SL_AUTO_FREE char *a = sl_xstrdup("abc"), *b = sl_xstrndup("abcdef", 3), *c = sl_xstrndup(NULL, 0),
                      *d = sl_xprintf("%s-%d", "x", 5);
    assert_string_equal(a, "abc");
    assert_string_equal(b, "abc");
    assert_string_equal(c, "");
    assert_string_equal(d, "x-5");
}

static void grow__any_index(void **state) {
    (void)state;
    int *items = NULL;
    size_t cap = 0;
    for (size_t n = 0; n < 1000; n++) {
        SL_GROW(items, cap, n);
        assert_true(cap > n);
        items[n] = (int)n;
    }
    SL_GROW(items, cap, (size_t)100000);
    assert_true(cap > 100000);
    for (int n = 0; n < 1000; n++)
        assert_int_equal(items[n], n);
    free(items);
}

static void take__nulls_the_pointer(void **state) {
    (void)state;
    char *p = sl_xstrdup("x"), *q = SL_TAKE(p);
    assert_null(p);
    assert_string_equal(q, "x");
    free(q);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alloc__is_zeroed_and_never_null),
        cmocka_unit_test(dup__copies_exactly),
        cmocka_unit_test(grow__any_index),
        cmocka_unit_test(take__nulls_the_pointer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
