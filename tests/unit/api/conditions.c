/* Conditions: merge rules and cutting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/api/conditions.h"
#include "sluice/api/names.h"
#include "sluice/base/mem.h"

static const char *time_of(const struct sl_json *list) {
    return sl_json_get_str(sl_condition_find(list, SL_COND_QUOTA_RESERVED), "lastTransitionTime", "");
}

static void condition__transition_time_moves_with_the_status_only(void **s) {
    (void)s;
    SL_AUTO_JSON *list = sl_json_new_array();
    struct sl_condition c = {SL_COND_QUOTA_RESERVED, "False", SL_REASON_PENDING, "not enough", 1};
    assert_true(sl_condition_set(list, &c, 0));
    assert_string_equal(time_of(list), "1970-01-01T00:00:00Z");
    assert_false(sl_condition_set(list, &c, 5000));
    c.message = "still not enough";
    assert_true(sl_condition_set(list, &c, 5000));
    assert_string_equal(time_of(list), "1970-01-01T00:00:00Z");
    c.observed_generation = 2;
    assert_true(sl_condition_set(list, &c, 6000));
    c.status = "True";
    assert_true(sl_condition_set(list, &c, 7000));
    assert_string_equal(time_of(list), "1970-01-01T00:00:07Z");
    assert_int_equal(sl_json_len(list), 1);
    c.type = SL_COND_ADMITTED;
    c.observed_generation = 0;
    assert_true(sl_condition_set(list, &c, 8000));
    assert_int_equal(sl_json_len(list), 2);
    assert_null(sl_json_get(sl_condition_find(list, SL_COND_ADMITTED), "observedGeneration"));
    assert_true(sl_condition_remove(list, SL_COND_QUOTA_RESERVED));
    assert_false(sl_condition_remove(list, SL_COND_QUOTA_RESERVED));
    assert_int_equal(sl_json_len(list), 1);
}

static void condition__reading(void **s) {
    (void)s;
    SL_AUTO_JSON *o = sl_json_from("{'status':{'conditions':[{'type':'Admitted','status':'True','reason':'Admitted'},7,"
                                   "{'type':'Evicted','status':'Unknown'}]}}");
    assert_true(sl_condition_is_true(o, "Admitted"));
    assert_int_equal(sl_condition_tri(o, "Evicted"), SL_TRI_FALSE);
    assert_int_equal(sl_condition_tri(o, "Finished"), SL_TRI_ABSENT);
    assert_string_equal(sl_condition_reason(o, "Admitted"), "Admitted");
    assert_string_equal(sl_condition_reason(o, "Finished"), "");
    assert_int_equal(sl_condition_tri(NULL, "Finished"), SL_TRI_ABSENT);
}

static void message__cut_on_a_character(void **s) {
    (void)s;
    char *t = sl_message_cut("short", 10);
    assert_string_equal(t, "short");
    free(t);
    t = sl_message_cut("0123456789x", 10);
    assert_string_equal(t, "012345 ...");
    free(t);
    t = sl_message_cut("01234\xc3\xa9"
                       "6789",
                       10);
    assert_string_equal(t, "01234 ...");
    free(t);
    char *huge = sl_xalloc(40001);
    memset(huge, 'a', 40000);
    SL_AUTO_JSON *list = sl_json_new_array();
    struct sl_condition c = {"Active", "True", "Ready", huge, 0};
    assert_true(sl_condition_set(list, &c, 0));
    assert_int_equal(sl_json_str_len(sl_json_path(list, "0.message")), 32768);
    assert_false(sl_condition_set(list, &c, 0));
    free(huge);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(condition__transition_time_moves_with_the_status_only),
        cmocka_unit_test(condition__reading),
        cmocka_unit_test(message__cut_on_a_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
