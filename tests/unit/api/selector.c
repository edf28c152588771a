/* Selectors, requirements, tolerations, placement. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/api/decode.h"
#include "sluice/base/mem.h"

static bool matches(const char *selector, const char *labels) {
    SL_AUTO_JSON *s = sl_json_from(selector), *l = sl_json_from(labels);
    struct sl_selector sel;
    struct sl_labels set;
    struct sl_err err = SL_ERR_INIT;
    if (sl_selector_decode(s, &sel, &err) < 0)
        fail_msg("%s: %s", selector, err.text);
    sl_labels_decode(l, NULL, &set);
    bool r = sl_selector_matches(&sel, &set);
    sl_selector_done(&sel);
    sl_labels_done(&set);
    return r;
}

static void selector__matches(void **s) {
    (void)s;
    static const struct {
        const char *selector, *labels;
        bool yes;
    } rows[] = {
        {"{}", "{}", true},
        {"{'matchLabels':{'a':'1'}}", "{'a':'1','b':'2'}", true},
        {"{'matchLabels':{'a':'1'}}", "{'a':'2'}", false},
        {"{'matchLabels':{'a':''}}", "{}", false},
        {"{'matchLabels':{'a':'1','b':'2'}}", "{'a':'1'}", false},
        {"{'matchExpressions':[{'key':'a','operator':'In','values':['x','y']}]}", "{'a':'y'}", true},
        {"{'matchExpressions':[{'key':'a','operator':'In','values':['x','y']}]}", "{}", false},
        {"{'matchExpressions':[{'key':'a','operator':'NotIn','values':['x']}]}", "{}", true},
        {"{'matchExpressions':[{'key':'a','operator':'NotIn','values':['x']}]}", "{'a':'x'}", false},
        {"{'matchExpressions':[{'key':'a','operator':'Exists'}]}", "{'a':''}", true},
        {"{'matchExpressions':[{'key':'a','operator':'DoesNotExist'}]}", "{'a':''}", false},
        {"{'matchExpressions':[{'key':'a','operator':'DoesNotExist'}]}", "{'b':''}", true},
        {"{'matchLabels':{'b':'1'},'matchExpressions':[{'key':'a','operator':'Exists'}]}", "{'a':'1'}", false},
    };
    for (size_t i = 0; i < SL_COUNT(rows); i++)
        if (matches(rows[i].selector, rows[i].labels) != rows[i].yes)
            fail_msg("%s on %s", rows[i].selector, rows[i].labels);
}

static void selector__bad_ones_are_refused(void **s) {
    (void)s;
    static const char *const bad[] = {
        "{'matchExpressions':[{'key':'a','operator':'Maybe','values':['b']}]}",
        "{'matchExpressions':[{'key':'a','operator':'In'}]}",
        "{'matchExpressions':[{'key':'a','operator':'In','values':[]}]}",
        "{'matchExpressions':[{'key':'a','operator':'Exists','values':['b']}]}",
        "{'matchExpressions':[{'key':'a','operator':'Gt','values':['1']}]}",
        "{'matchExpressions':[{'operator':'Exists'}]}",
        "{'matchExpressions':[7]}",
    };
    for (size_t i = 0; i < SL_COUNT(bad); i++) {
        SL_AUTO_JSON *j = sl_json_from(bad[i]);
        struct sl_selector sel;
        struct sl_err err = SL_ERR_INIT;
        assert_int_equal(sl_selector_decode(j, &sel, &err), SL_INVALID);
        assert_non_null(strstr(err.text, "matchExpressions[0]"));
    }
}

static void requirement__numeric_operators(void **s) {
    (void)s;
    SL_AUTO_JSON *j = sl_json_from("{'gen':'8','bad':'x','neg':'-3'}");
    struct sl_labels set;
    sl_labels_decode(j, NULL, &set);
    char seven[] = "7", key_gen[] = "gen", key_bad[] = "bad", key_neg[] = "neg", key_no[] = "no", *values[] = {seven};
    struct sl_requirement gt = {key_gen, SL_SEL_GT, values, 1}, lt = {key_gen, SL_SEL_LT, values, 1};
    assert_true(sl_requirement_matches(&gt, &set));
    assert_false(sl_requirement_matches(&lt, &set));
    gt.key = lt.key = key_neg;
    assert_false(sl_requirement_matches(&gt, &set));
    assert_true(sl_requirement_matches(&lt, &set));
    gt.key = lt.key = key_bad;
    assert_false(sl_requirement_matches(&gt, &set) || sl_requirement_matches(&lt, &set));
    gt.key = lt.key = key_no;
    assert_false(sl_requirement_matches(&gt, &set) || sl_requirement_matches(&lt, &set));
    sl_labels_done(&set);
}

static void toleration__table(void **s) {
    (void)s;
    static const struct {
        const char *toleration, *key, *value, *effect;
        bool yes;
    } rows[] = {
        {"{'key':'k','operator':'Equal','value':'v','effect':'NoSchedule'}", "k", "v", "NoSchedule", true},
        {"{'key':'k','value':'v'}", "k", "v", "NoExecute", true},
        {"{'key':'k','value':'w'}", "k", "v", "NoSchedule", false},
        {"{'key':'k','operator':'Exists'}", "k", "v", "NoSchedule", true},
        {"{'key':'k','operator':'Exists','effect':'NoExecute'}", "k", "v", "NoSchedule", false},
        {"{'operator':'Exists'}", "anything", "v", "NoSchedule", true},
        {"{'key':'other','operator':'Exists'}", "k", "v", "NoSchedule", false},
        {"{'key':'k'}", "k", "", "NoSchedule", true},
        {"{'key':'k','operator':'Lt','value':'10'}", "k", "9", "NoSchedule", true},
        {"{'key':'k','operator':'Gt','value':'10'}", "k", "9", "NoSchedule", false},
        {"{'key':'k','operator':'Gt','value':'x'}", "k", "9", "NoSchedule", false},
        {"{'key':'k','operator':'Maybe','value':'v'}", "k", "v", "NoSchedule", false},
    };
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        SL_AUTO_JSON *list = sl_json_fromf("[%s]", rows[i].toleration);
        struct sl_toleration *t;
        size_t n;
        sl_tolerations_decode(list, &t, &n);
        assert_int_equal(n, 1);
        struct sl_taint taint = {sl_xstrdup(rows[i].key), sl_xstrdup(rows[i].value), sl_xstrdup(rows[i].effect)};
        if (sl_toleration_tolerates(&t[0], &taint) != rows[i].yes)
            fail_msg("%s on %s=%s:%s", rows[i].toleration, rows[i].key, rows[i].value, rows[i].effect);
        free(taint.key);
        free(taint.value);
        free(taint.effect);
        sl_tolerations_free(t, n);
    }
}

static void labels__sorted_and_filtered(void **s) {
    (void)s;
    SL_AUTO_JSON *j = sl_json_from("{'z':'1','sluice.dev/b':'2','a':'3','sluice.dev/a':'4'}");
    struct sl_labels l;
    sl_labels_decode(j, NULL, &l);
    assert_int_equal(l.n, 4);
    assert_string_equal(sl_labels_get(&l, "z"), "1");
    assert_string_equal(sl_labels_get(&l, "a"), "3");
    assert_null(sl_labels_get(&l, "b"));
    sl_labels_done(&l);
    sl_labels_decode(j, "sluice.dev/", &l);
    assert_int_equal(l.n, 2);
    assert_string_equal(l.items[0].key, "sluice.dev/a");
    sl_labels_done(&l);
    sl_labels_decode(NULL, NULL, &l);
    assert_int_equal(l.n, 0);
    assert_null(sl_labels_get(&l, "a"));
    sl_labels_done(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(selector__matches),
        cmocka_unit_test(selector__bad_ones_are_refused),
        cmocka_unit_test(requirement__numeric_operators),
        cmocka_unit_test(toleration__table),
        cmocka_unit_test(labels__sorted_and_filtered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
