/* JSON Patch (RFC 6902): what it does, what it refuses, and that a refusal changes nothing. */
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

static void patch__applies(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"{'foo':'bar'}", "[{'op':'add','path':'/baz','value':'qux'}]", "{'baz':'qux','foo':'bar'}"},
        {"{'foo':['bar','baz']}", "[{'op':'add','path':'/foo/1','value':'qux'}]", "{'foo':['bar','qux','baz']}"},
        {"{'foo':['bar']}", "[{'op':'add','path':'/foo/1','value':'end'}]", "{'foo':['bar','end']}"},
        {"{'foo':['bar']}", "[{'op':'add','path':'/foo/-','value':['abc','def']}]", "{'foo':['bar',['abc','def']]}"},
        {"{'a':1}", "[{'op':'add','path':'/a','value':null}]", "{'a':null}"},
        {"{'baz':'qux','foo':'bar'}", "[{'op':'remove','path':'/baz'}]", "{'foo':'bar'}"},
        {"{'foo':['bar','qux','baz']}", "[{'op':'remove','path':'/foo/1'}]", "{'foo':['bar','baz']}"},
        {"{'baz':'qux'}", "[{'op':'replace','path':'/baz','value':'boo'}]", "{'baz':'boo'}"},
        {"{'a':[1,2,3]}", "[{'op':'replace','path':'/a/1','value':9}]", "{'a':[1,9,3]}"},
        {"{'a':1}", "[{'op':'replace','path':'','value':{'b':2}}]", "{'b':2}"},
        {"{'a':1}", "[{'op':'add','path':'','value':[1]}]", "[1]"},
        {"{'foo':{'bar':'baz','waldo':'fred'},'qux':{'corge':'grault'}}",
         "[{'op':'move','from':'/foo/waldo','path':'/qux/thud'}]",
         "{'foo':{'bar':'baz'},'qux':{'corge':'grault','thud':'fred'}}"},
        {"{'foo':['all','grass','cows','eat']}", "[{'op':'move','from':'/foo/1','path':'/foo/3'}]",
         "{'foo':['all','cows','eat','grass']}"},
        {"{'a':{'b':1}}", "[{'op':'copy','from':'/a','path':'/c'},{'op':'add','path':'/c/d','value':2}]",
         "{'a':{'b':1},'c':{'b':1,'d':2}}"},
        {"{'a':1}", "[{'op':'copy','from':'','path':'/b'}]", "{'a':1,'b':{'a':1}}"},
        {"{'a':1}", "[{'op':'move','from':'/a','path':'/a'}]", "{'a':1}"},
        {"{'/':9,'~1':10}", "[{'op':'test','path':'/~01','value':10},{'op':'remove','path':'/~1'}]", "{'~1':10}"},
        {"{'metadata':{'annotations':{}}}",
         "[{'op':'add','path':'/metadata/annotations/sluice.example~1queue','value':'x'}]",
         "{'metadata':{'annotations':{'sluice.example/queue':'x'}}}"},
        {"{'':{'':1}}", "[{'op':'replace','path':'//','value':2}]", "{'':{'':2}}"},
        {"{'a':null}", "[{'op':'test','path':'/a','value':null}]", "{'a':null}"},
        {"{'a':{'x':1,'y':2}}", "[{'op':'test','path':'/a','value':{'y':2,'x':1}}]", "{'a':{'x':1,'y':2}}"},
        {"{'0':'a'}", "[{'op':'replace','path':'/0','value':'b'}]", "{'0':'b'}"},
        {"{'a':1}", "[]", "{'a':1}"},
        {"{'a':1}", "[{'op':'add','path':'/b','value':1,'unknown':true}]", "{'a':1,'b':1}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        SL_AUTO_JSON *doc = sl_json_from(cases[i][0]), *patch = sl_json_from(cases[i][1]),
                     *want = sl_json_from(cases[i][2]), *before = sl_json_copy(patch);
        struct sl_err err = SL_ERR_INIT;
        if (sl_json_patch_apply(&doc, patch, &err))
            fail_msg("%s: %s", cases[i][1], err.text);
        if (!sl_json_equal(doc, want))
            fail_msg("%s gave %s", cases[i][1], sl_json_text(doc));
        assert_true(sl_json_equal(patch, before));
    }
}

static void patch__replace_keeps_the_order_of_members(void **state) {
    (void)state;
    SL_AUTO_JSON *doc = sl_json_from("{'a':1,'b':2}"),
                 *patch = sl_json_from("[{'op':'replace','path':'/a','value':3}]");
    assert_int_equal(sl_json_patch_apply(&doc, patch, NULL), 0);
    SL_AUTO_BUF b = SL_BUF_INIT(100);
    sl_json_dump(doc, false, &b);
    assert_string_equal(sl_buf_text(&b), "{\"a\":3,\"b\":2}");
}

static void patch__refuses_and_changes_nothing(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"{'op':'add','path':'/x/y','value':1}", "does not exist"},
        {"{'op':'add','path':'x','value':1}", "does not begin with /"},
        {"{'op':'add','path':'/l/3','value':1}", "out of range"},
        {"{'op':'add','path':'/l/-1','value':1}", "out of range"},
        {"{'op':'add','path':'/l/+1','value':1}", "out of range"},
        {"{'op':'add','path':'/l/01','value':1}", "out of range"},
        {"{'op':'add','path':'/l/1e0','value':1}", "out of range"},
        {"{'op':'add','path':'/l/99999999999999999999','value':1}", "out of range"},
        {"{'op':'add','path':'/l/','value':1}", "out of range"},
        {"{'op':'add','path':'/s/x','value':1}", "neither"},
        {"{'op':'add','path':'/x'}", "value is missing"},
        {"{'op':'add','value':1}", "path is missing"},
        {"{'op':'add','path':5,'value':1}", "path is missing"},
        {"{'op':'remove','path':'/none'}", "does not exist"},
        {"{'op':'remove','path':'/l/2'}", "does not exist"},
        {"{'op':'remove','path':'/l/-0'}", "does not exist"},
        {"{'op':'remove','path':'/l/-'}", "does not exist"},
        {"{'op':'remove','path':''}", "cannot be removed"},
        {"{'op':'replace','path':'/none','value':1}", "does not exist"},
        {"{'op':'replace','path':'/l/00','value':1}", "does not exist"},
        {"{'op':'test','path':'/s','value':'y'}", "failed"},
        {"{'op':'test','path':'/none','value':null}", "does not exist"},
        {"{'op':'copy','from':'/none','path':'/x'}", "from"},
        {"{'op':'copy','path':'/x'}", "from"},
        {"{'op':'move','from':'/o','path':'/o/p'}", "into itself"},
        {"{'op':'move','from':'/l/0','path':'/l/0/x'}", "into itself"},
        {"{'op':'add','path':'/a~','value':1}", "malformed"},
        {"{'op':'add','path':'/a~2b','value':1}", "malformed"},
        {"{'op':'frobnicate','path':'/a'}", "not known"},
        {"'x'", "path is missing"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        SL_AUTO_JSON *doc = sl_json_from("{'s':'x','l':[{'x':1},{'x':2}],'o':{'p':{}}}"), *before = sl_json_copy(doc);
        SL_AUTO_JSON *patch = sl_json_fromf("[{'op':'add','path':'/added','value':1},%s]", bad[i][0]);
        struct sl_err err = SL_ERR_INIT;
        if (sl_json_patch_apply(&doc, patch, &err) != SL_INVALID)
            fail_msg("accepted: %s", bad[i][0]);
        if (!strstr(err.text, bad[i][1]) || strncmp(err.text, "operation 1: ", 13))
            fail_msg("%s said: %s", bad[i][0], err.text);
        assert_true(sl_json_equal(doc, before));
    }
    SL_AUTO_JSON *doc = sl_json_new_object(), *not_array = sl_json_new_object();
    assert_int_equal(sl_json_patch_apply(&doc, not_array, NULL), SL_INVALID);
    SL_AUTO_JSON *long_token = sl_json_fromf("[{'op':'add','path':'/%0600d','value':1}]", 5);
    assert_int_equal(sl_json_patch_apply(&doc, long_token, NULL), SL_INVALID);
}

/* Copies of the whole double the document each time; a few operations would fill the memory or the stack. */
static void patch__growth_is_limited(void **state) {
    (void)state;
    SL_AUTO_BUF wide = SL_BUF_INIT(1 << 20), deep = SL_BUF_INIT(1 << 20);
    sl_buf_puts(&wide, "[{'op':'add','path':'/l','value':[1,2,3,4,5,6,7,8]}");
    sl_buf_puts(&deep, "[");
    for (int i = 0; i < 70; i++) {
        sl_buf_puts(&wide, ",{'op':'copy','from':'/l','path':'/l/-'}");
        sl_buf_printf(&deep, "%s{'op':'copy','from':'','path':'/x'}", i ? "," : "");
    }
    sl_buf_puts(&wide, "]");
    sl_buf_puts(&deep, "]");
    const char *const texts[] = {sl_buf_text(&wide), sl_buf_text(&deep)};
    for (int i = 0; i < 2; i++) {
        SL_AUTO_JSON *doc = sl_json_from("{'a':1}"), *before = sl_json_copy(doc), *patch = sl_json_from(texts[i]);
        struct sl_err err = SL_ERR_INIT;
        assert_int_equal(sl_json_patch_apply(&doc, patch, &err), SL_TOO_BIG);
        assert_true(sl_json_equal(doc, before));
    }
    /* a deep path is refused too, before it is as deep as recursion can bear */
    SL_AUTO_JSON *doc = sl_json_new_object();
    int rc = 0, depth = 0;
    SL_AUTO_BUF path = SL_BUF_INIT(1 << 20);
    while (!rc && depth < 200) {
        sl_buf_puts(&path, "/a");
        SL_AUTO_JSON *patch = sl_json_fromf("[{'op':'add','path':'%s','value':{}}]", sl_buf_text(&path));
        rc = sl_json_patch_apply(&doc, patch, NULL);
        depth += !rc;
    }
    assert_int_equal(rc, SL_TOO_BIG);
    assert_int_equal(depth, SL_JSON_MAX_DEPTH - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patch__applies),
        cmocka_unit_test(patch__replace_keeps_the_order_of_members),
        cmocka_unit_test(patch__refuses_and_changes_nothing),
        cmocka_unit_test(patch__growth_is_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
