/* JSON: limits, getters, building, merge patch. JSON Patch has a file of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "sluice/base/json.h"
#include "sluice/base/mem.h"

static void expect_text(const struct sl_json *j, const char *want) {
    SL_AUTO_FREE char *text = sl_json_text(j), *quoted = sl_xstrdup(want);
    for (char *p = quoted; *p; p++)
        if (*p == '\'')
            *p = '"';
    assert_string_equal(text, quoted);
}

static int parse(const char *text, struct sl_err *err) {
    struct sl_json *j = NULL;
    int rc = sl_json_parse(text, strlen(text), 1 << 20, &j, err);
    assert_true((rc == 0) == (j != NULL));
    sl_json_unref(j);
    return rc;
}

static void parse__refuses(void **state) {
    (void)state;
    static const char *const bad[] = {"",
                                      " ",
                                      "{",
                                      "[1,]",
                                      "{'a'}",
                                      "{\"a\":}",
                                      "[1] x",
                                      "[1][2]",
                                      "5",
                                      "\"x\"",
                                      "null",
                                      "[9223372036854775808]",
                                      "[-9223372036854775809]",
                                      "[1e400]",
                                      "[\"\\ud800\"]",
                                      "[\"\xff\"]",
                                      "[\"\xc0\x80\"]",
                                      "[\"\xed\xa0\x80\"]",
                                      "[\"a\nb\"]",
                                      "{\"a\\u0000\":1}",
                                      "[\"\\u0000\"]",
                                      "[01]",
                                      "[+1]",
                                      "[.5]",
                                      "[NaN]",
                                      "[\"",
                                      "]",
                                      "[\"\\x\"]",
                                      "\xef\xbb\xbf[]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct sl_err err = SL_ERR_INIT;
        if (parse(bad[i], &err) != SL_INVALID)
            fail_msg("accepted: %s", bad[i]);
        assert_non_null(strstr(err.text, "JSON line"));
    }
}

static void parse__limits(void **state) {
    (void)state;
    struct sl_err err = SL_ERR_INIT;
    struct sl_json *j = NULL;
    assert_int_equal(sl_json_parse("[1,2]", 5, 4, &j, &err), SL_TOO_BIG);
    assert_int_equal(sl_json_parse("[1,2]xxx", 5, 5, &j, &err), 0); /* exactly len bytes */
    sl_json_unref(j);
    char deep[200];
    for (int depth = SL_JSON_MAX_DEPTH; depth <= SL_JSON_MAX_DEPTH + 1; depth++) {
        memset(deep, '[', (size_t)depth);
        memset(deep + depth, ']', (size_t)depth);
        deep[2 * depth] = 0;
        assert_int_equal(parse(deep, &err), depth > SL_JSON_MAX_DEPTH ? SL_TOO_BIG : 0);
    }
    assert_int_equal(parse("[\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[[[\"]", NULL),
                     0); /* not in a string */
    size_t n = 2 * 2000001 + 2;
    char *many = sl_xalloc(n);
    for (size_t i = 0; i < n; i++)
        many[i] = i % 2 ? '1' : ',';
    many[0] = '[';
    many[n - 1] = ']';
    assert_int_equal(sl_json_parse(many, n, n, &j, &err), SL_TOO_BIG);
    free(many);
    assert_int_equal(sl_json_parse_limited("[1,2,3]", 7, 100, 2, &j, &err), SL_LIMIT);
    assert_int_equal(sl_json_parse_limited("[1,2,3]", 7, 100, 3, &j, &err), 0);
    sl_json_unref(j);
}

static void parse__duplicates(void **state) {
    (void)state;
    struct sl_json *j = NULL;
    const char *text = "{\"a\":1,\"a\":2}";
    assert_int_equal(sl_json_parse_strict(text, strlen(text), 100, &j, NULL), SL_INVALID);
    assert_int_equal(sl_json_parse(text, strlen(text), 100, &j, NULL), 0);
    assert_int_equal(sl_json_get_int(j, "a", 0), 2);
    sl_json_unref(j);
}

static void getters__accept_anything(void **state) {
    (void)state;
    SL_AUTO_JSON *j =
        sl_json_from("{'s':'x','i':5,'b':true,'r':1.5,'n':null,'a':[1,'y',{'k.v':3}],'o':{'p':{'q':'deep'}}}");
    assert_null(sl_json_get(NULL, "x"));
    assert_null(sl_json_get(j, "none"));
    assert_null(sl_json_get(sl_json_get(j, "a"), "x"));
    assert_null(sl_json_at(j, 0));
    assert_null(sl_json_at(sl_json_get(j, "a"), 3));
    assert_string_equal(sl_json_get_str(j, "i", "dflt"), "dflt");
    assert_int_equal(sl_json_get_int(j, "r", 7), 7);
    assert_int_equal(sl_json_get_int(j, "s", 7), 7);
    assert_true(sl_json_get_bool(j, "b", false));
    assert_true(sl_json_get_bool(j, "n", true));
    assert_true(sl_json_real(sl_json_get(j, "i"), 0) == 5);
    assert_true(sl_json_real(sl_json_get(j, "s"), 9) == 9);
    assert_string_equal(sl_json_path_str(j, "o.p.q", ""), "deep");
    assert_string_equal(sl_json_path_str(j, "a.1", ""), "y");
    assert_null(sl_json_path(j, "a.-1"));
    assert_null(sl_json_path(j, "a.+1"));
    assert_null(sl_json_path(j, "a.01"));
    assert_null(sl_json_path(j, "a.x"));
    assert_null(sl_json_path(j, "s.x"));
    assert_ptr_equal(sl_json_path(j, ""), j);
    assert_int_equal(sl_json_len(j), 7);
    assert_int_equal(sl_json_len(sl_json_get(j, "a")), 3);
    assert_int_equal(sl_json_len(sl_json_get(j, "s")), 0);
    assert_int_equal(sl_json_len(NULL), 0);
    assert_true(sl_json_is_null(NULL) && sl_json_is_null(sl_json_get(j, "n")) && !sl_json_is_null(sl_json_get(j, "s")));
    char key[400];
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = 0;
    assert_null(sl_json_path(j, key));
}

static void each__order_and_control(void **state) {
    (void)state;
    SL_AUTO_JSON *j = sl_json_from("{'z':1,'a':2,'m':3}");
    char keys[10] = "";
    SL_JSON_EACH (j, e) {
        if (*e.key == 'a')
            continue;
        strncat(keys, e.key, 1);
    }
    assert_string_equal(keys, "zm");
    int n = 0;
    SL_JSON_EACH (NULL, e)
        n += e.key != NULL;
    SL_JSON_ITEMS (j, e)
        n += e.value != NULL;
    SL_JSON_ITEMS (NULL, e)
        n += e.value != NULL;
    SL_AUTO_JSON *array = sl_json_from("[1,2]");
    SL_JSON_EACH (array, e)
        n += e.key != NULL;
    assert_int_equal(n, 0);
}

static void build__takes_and_drops(void **state) {
    (void)state;
    SL_AUTO_JSON *o = sl_json_new_object();
    sl_json_set(o, "b", sl_json_new_bool(true));
    sl_json_set_str(o, "a", "x");
    sl_json_set_str(o, "none", NULL);
    sl_json_set_int(o, "i", INT64_MIN);
    sl_json_append(sl_json_make_array(o, "l"), sl_json_new_int(1));
    sl_json_insert(sl_json_mut(o, "l"), 0, sl_json_new_strf("n%d", 5));
    sl_json_set_str(sl_json_make_object(o, "m"), "k", "v");
    sl_json_append(o, sl_json_new_int(1));                     /* not an array: dropped */
    sl_json_set(sl_json_mut(o, "l"), "x", sl_json_new_null()); /* not an object: dropped */
    sl_json_set(NULL, "x", sl_json_new_null());
    sl_json_append(NULL, sl_json_new_object());
    assert_ptr_equal(sl_json_make_object(o, "m"), sl_json_mut(o, "m"));
    expect_text(o, "{'a':'x','b':true,'i':-9223372036854775808,'l':['n5',1],'m':{'k':'v'}}");
    sl_json_del(o, "b");
    sl_json_del(o, "none");
    sl_json_remove(sl_json_mut(o, "l"), 0);
    sl_json_remove(sl_json_mut(o, "l"), 9);
    expect_text(o, "{'a':'x','i':-9223372036854775808,'l':[1],'m':{'k':'v'}}");
}

static void strings__bad_utf8_is_replaced(void **state) {
    (void)state;
    static const char *const pairs[][2] = {{"ok \xe4\xb8\xad", "ok \xe4\xb8\xad"},
                                           {"\xff", "\xef\xbf\xbd"},
                                           {"a\xc3", "a\xef\xbf\xbd"},
                                           {"\xc3(", "\xef\xbf\xbd("},
                                           {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        SL_AUTO_JSON *j = sl_json_new_str(pairs[i][0]);
        assert_string_equal(sl_json_str(j, ""), pairs[i][1]);
    }
    SL_AUTO_JSON *none = sl_json_new_str(NULL), *empty = sl_json_new_strn(NULL, 0);
    assert_int_equal(sl_json_type(none), SL_JSON_NULL);
    assert_string_equal(sl_json_str(empty, "x"), "");
}

static void equal__order_of_keys_does_not_matter(void **state) {
    (void)state;
    SL_AUTO_JSON *a = sl_json_from("{'a':1,'b':[1,2]}"), *b = sl_json_from("{'b':[1,2],'a':1}"),
                 *c = sl_json_from("{'a':1,'b':[2,1]}"), *n = sl_json_new_null();
    assert_true(sl_json_equal(a, b));
    assert_false(sl_json_equal(a, c));
    assert_true(sl_json_equal(NULL, NULL));
    assert_false(sl_json_equal(NULL, n));
    SL_AUTO_JSON *copy = sl_json_copy(a);
    sl_json_append(sl_json_mut(copy, "b"), sl_json_new_int(3));
    assert_true(sl_json_equal(a, b)); /* the copy is deep */
    assert_null(sl_json_copy(NULL));
}

static void dump__forms(void **state) {
    (void)state;
    SL_AUTO_JSON *j = sl_json_from("{'b':1,'a':['\\n\\t']}");
    SL_AUTO_BUF b = SL_BUF_INIT(1000), small = SL_BUF_INIT(5);
    sl_json_dump(j, false, &b);
    assert_string_equal(sl_buf_text(&b), "{\"b\":1,\"a\":[\"\\n\\t\"]}");
    sl_buf_clear(&b);
    sl_json_dump_pretty(j, &b);
    assert_string_equal(sl_buf_text(&b), "{\n  \"b\": 1,\n  \"a\": [\n    \"\\n\\t\"\n  ]\n}");
    sl_json_dump(j, true, &small);
    assert_true(small.failed);
    sl_buf_clear(&b);
    sl_json_dump(NULL, true, &b);
    assert_string_equal(sl_buf_text(&b), "null");
}

/* The examples of RFC 7386, appendix A. */
static void merge_patch__rfc_examples(void **state) {
    (void)state;
    static const char *const cases[][3] = {{"{'a':'b'}", "{'a':'c'}", "{'a':'c'}"},
                                           {"{'a':'b'}", "{'b':'c'}", "{'a':'b','b':'c'}"},
                                           {"{'a':'b'}", "{'a':null}", "{}"},
                                           {"{'a':'b','b':'c'}", "{'a':null}", "{'b':'c'}"},
                                           {"{'a':['b']}", "{'a':'c'}", "{'a':'c'}"},
                                           {"{'a':'c'}", "{'a':['b']}", "{'a':['b']}"},
                                           {"{'a':{'b':'c'}}", "{'a':{'b':'d','c':null}}", "{'a':{'b':'d'}}"},
                                           {"{'a':[{'b':'c'}]}", "{'a':[1]}", "{'a':[1]}"},
                                           {"['a','b']", "['c','d']", "['c','d']"},
                                           {"{'a':'b'}", "['c']", "['c']"},
                                           {"{'e':null}", "{'a':1}", "{'a':1,'e':null}"},
                                           {"[1,2]", "{'a':'b','c':null}", "{'a':'b'}"},
                                           {"{}", "{'a':{'bb':{'ccc':null}}}", "{'a':{'bb':{}}}"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        SL_AUTO_JSON *patch = sl_json_from(cases[i][1]), *before = sl_json_copy(patch);
        SL_AUTO_JSON *result = sl_json_merge_patch(sl_json_from(cases[i][0]), patch);
        expect_text(result, cases[i][2]);
        assert_true(sl_json_equal(patch, before));
        sl_json_set(sl_json_is_object(result) ? result : NULL, "changed",
                    sl_json_new_int(1)); /* nothing is shared with the patch */
        assert_true(sl_json_equal(patch, before));
    }
    SL_AUTO_JSON *patch = sl_json_from("{'a':{'b':null,'c':1}}"), *fresh = sl_json_merge_patch(NULL, patch);
    expect_text(fresh, "{'a':{'c':1}}");
    SL_AUTO_JSON *none = sl_json_merge_patch(sl_json_new_object(), NULL);
    assert_null(none);
}

static void merge_patch__a_shared_member_is_not_changed(void **state) {
    (void)state;
    SL_AUTO_JSON *labels = sl_json_from("{'a':'1'}"), *patch = sl_json_from("{'metadata':{'labels':{'b':'2'}}}");
    struct sl_json *target = sl_json_from("{'metadata':{}}");
    sl_json_set(sl_json_mut(target, "metadata"), "labels", sl_json_ref(labels));
    SL_AUTO_JSON *result = sl_json_merge_patch(target, patch);
    expect_text(result, "{'metadata':{'labels':{'a':'1','b':'2'}}}");
    expect_text(labels, "{'a':'1'}");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse__refuses),
        cmocka_unit_test(parse__limits),
        cmocka_unit_test(parse__duplicates),
        cmocka_unit_test(getters__accept_anything),
        cmocka_unit_test(each__order_and_control),
        cmocka_unit_test(build__takes_and_drops),
        cmocka_unit_test(strings__bad_utf8_is_replaced),
        cmocka_unit_test(equal__order_of_keys_does_not_matter),
        cmocka_unit_test(dump__forms),
        cmocka_unit_test(merge_patch__rfc_examples),
        cmocka_unit_test(merge_patch__a_shared_member_is_not_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
