#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "selector.h"
#include "sluice/base/mem.h"

static void selectors(void **state) {
    (void)state;
    SL_AUTO_JSON *o =
        sl_json_from("{'metadata':{'name':'n','labels':{'a':'1','b/c.d':'x','e':''}},'spec':{'nodeName':'h'}}");
    static const struct {
        const char *text;
        bool match, valid;
    } labels[] = {
        {NULL, true, true},
        {"", true, true},
        {"a=1", true, true},
        {"a==1", true, true},
        {"a=2", false, true},
        {"a!=2", true, true},
        {"a!=1", false, true},
        {"z!=1", true, true},
        {"a", true, true},
        {"z", false, true},
        {"!a", false, true},
        {"!z", true, true},
        {"b/c.d=x,a", true, true},
        {"a,z", false, true},
        {"a in (0, 1)", true, true},
        {"a in (2)", false, true},
        {"a notin (1,2)", false, true},
        {"z notin (1)", true, true},
        {"z in (1)", false, true},
        {"e=", true, true},
        {"e", true, true},
        {" a = 1 , !z ", true, true},
        {"a in (1),e", true, true},
        {"a,", false, false},
        {",", false, false},
        {"a in 1", false, false},
        {"a in (1", false, false},
        {"a near (1)", false, false},
        {"=1", false, false},
        {"!", false, false},
        {"a=1=2", false, false},
    };
    for (size_t i = 0; i < SL_COUNT(labels); i++) {
        bool valid = false, match = sl_label_selector_match(labels[i].text, o, &valid);
        if (match != labels[i].match || valid != labels[i].valid)
            fail_msg("%s: match %d valid %d", labels[i].text, match, valid);
    }
    static const struct {
        const char *text;
        bool match, valid;
    } fields[] = {
        {NULL, true, true},
        {"metadata.name=n", true, true},
        {"metadata.name!=n", false, true},
        {"metadata.name==m", false, true},
        {"spec.nodeName=h,metadata.name=n", true, true},
        {"status.phase=", true, true},
        {"status.phase!=Failed", true, true},
        {"metadata.name", false, false},
        {"metadata.name in (n)", false, false},
        {"=n", false, false},
    };
    for (size_t i = 0; i < SL_COUNT(fields); i++) {
        bool valid = false, match = sl_field_selector_match(fields[i].text, o, &valid);
        if (match != fields[i].match || valid != fields[i].valid)
            fail_msg("%s: match %d valid %d", fields[i].text, match, valid);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(selectors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
