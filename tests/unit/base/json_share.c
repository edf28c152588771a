/* Copies that share: what is changed through an owned container never shows in the tree it was copied from. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>

#include "sluice/base/json.h"

static void copy_on_write(void **state) {
    (void)state;
    SL_AUTO_JSON *a = sl_json_from("{'o': {'x': 1, 'deep': {'y': 2}}, 'l': [{'z': 3}, 4], 's': 'text'}");
    SL_AUTO_JSON *before = sl_json_copy(a), *b = sl_json_copy_shallow(a);
    assert_true(sl_json_equal(a, b));
    assert_ptr_equal(sl_json_get(a, "o"), sl_json_get(b, "o"));
    sl_json_set_int(sl_json_own(sl_json_own(b, "o"), "deep"), "y", 5);
    struct sl_json *list = sl_json_own(b, "l");
    sl_json_set_int(sl_json_own_at(list, 0), "z", 6);
    sl_json_append(list, sl_json_new_int(7));
    assert_true(sl_json_equal(a, before));
    SL_AUTO_JSON *want = sl_json_from("{'o': {'x': 1, 'deep': {'y': 5}}, 'l': [{'z': 6}, 4, 7], 's': 'text'}");
    assert_true(sl_json_equal(b, want));
}

static void nothing_to_own(void **state) {
    (void)state;
    SL_AUTO_JSON *a = sl_json_from("{'s': 'text', 'n': null, 'l': [1]}");
    assert_null(sl_json_own(a, "s"));
    assert_null(sl_json_own(a, "n"));
    assert_null(sl_json_own(a, "absent"));
    assert_null(sl_json_own(NULL, "x"));
    struct sl_json *list = sl_json_own(a, "l");
    assert_null(sl_json_own_at(list, 0));
    assert_null(sl_json_own_at(list, 1));
    assert_null(sl_json_copy_shallow(NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(copy_on_write), cmocka_unit_test(nothing_to_own)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
