#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sluice/base/mem.h"
#include "sluice/webhook/review.h"

static int calls;

static int convert(struct sl_json *object, const char *desired, struct sl_err *err) {
    calls++;
    if (sl_json_get(object, "stuck"))
        return sl_err_set(err, SL_INVALID, "spec.x: says nothing in %s", desired);
    sl_json_set_str(object, "apiVersion", desired);
    return 0;
}

/* Single quotes; the text reaches the function byte for byte otherwise. */
static int handle(const char *quoted, size_t max, struct sl_buf *out) {
    char *text = sl_xstrdup(quoted);
    for (char *p = text; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    size_t n = strlen(text);
    char *exact = malloc(n + !n);
    assert_non_null(exact);
    memcpy(exact, text, n); /* no byte behind it: the sanitizer sees reads past the end */
    calls = 0;
    int status = sl_conversion_handle(convert, exact, n, max, out, NULL);
    free(exact);
    free(text);
    return status;
}

#define REVIEW(objects)                                                                                                \
    "{'kind':'ConversionReview','apiVersion':'apiextensions.k8s.io/v1','request':{'uid':'u','desiredAPIVersion':'g/"   \
    "v2','objects':" objects "}}"

static void gives(const char *review, int expected_calls, const char *response) {
    SL_AUTO_BUF out = SL_BUF_INIT(0);
    assert_int_equal(handle(review, 1 << 20, &out), 200);
    assert_int_equal(calls, expected_calls);
    SL_AUTO_JSON *got = NULL, *want = sl_json_from(response);
    assert_int_equal(sl_json_parse_limited(out.data, out.len, out.max, 1000, &got, NULL), 0);
    assert_string_equal(sl_json_get_str(got, "apiVersion", ""), "apiextensions.k8s.io/v1");
    assert_string_equal(sl_json_get_str(got, "kind", ""), "ConversionReview");
    char *a = sl_json_text(sl_json_get(got, "response")), *b = sl_json_text(want);
    assert_string_equal(a, b);
    free(a);
    free(b);
}

static void conversion__items_keep_their_order(void **state) {
    (void)state;
    gives(REVIEW("[]"), 0, "{'uid':'u','convertedObjects':[],'result':{'status':'Success'}}");
    gives(REVIEW(" [ \t\n ] "), 0, "{'uid':'u','convertedObjects':[],'result':{'status':'Success'}}");
    gives(REVIEW("[ {'apiVersion':'g/v1','n':1} ,{'apiVersion':'g/v2','n':2},\n{'n':[3,{'a':'],}'}]}]"), 2,
          "{'uid':'u','convertedObjects':[{'apiVersion':'g/v2','n':1},{'apiVersion':'g/v2','n':2},{'apiVersion':'g/"
          "v2','n':[3,{'a':'],}'}]}],"
          "'result':{'status':'Success'}}");
}

/* One object with such a number in an open part must not take away the list of all. */
static void conversion__integers_past_int64(void **state) {
    (void)state;
    gives(REVIEW("[{'n':10000000000000000000},{'apiVersion':'g/v2','n':-10000000000000000000}]"), 1,
          "{'uid':'u','convertedObjects':[{'apiVersion':'g/v2','n':1e19},{'apiVersion':'g/v2','n':-1e19}],"
          "'result':{'status':'Success'}}");
}

static void conversion__brackets_in_strings_are_text(void **state) {
    (void)state;
    gives(REVIEW("[{'a':'x\\']},{\\''},{'\\\\':'}'}]"), 2,
          "{'uid':'u','convertedObjects':[{'a':'x\\u0022]},{\\u0022','apiVersion':'g/v2'},{'\\\\':'}','apiVersion':'g/"
          "v2'}],"
          "'result':{'status':'Success'}}");
}

static void conversion__order_of_members_does_not_matter(void **state) {
    (void)state;
    gives("{'x':{'objects':[1,2]},'request':{'y':{'objects':[3]},'z':[['objects']],'objects':[{'n':'\\\\'}],'"
          "desiredAPIVersion':'g/v2','uid':'u'},"
          "'objects':[4],'apiVersion':'apiextensions.k8s.io/v1','kind':'ConversionReview'}",
          1, "{'uid':'u','convertedObjects':[{'n':'\\\\','apiVersion':'g/v2'}],'result':{'status':'Success'}}");
}

static void conversion__failure_names_the_object(void **state) {
    (void)state;
    gives(REVIEW("[{'kind':'Q'},{'kind':'Q','metadata':{'name':'n','namespace':'ns'},'stuck':1},{'kind':'Q'}]"), 2,
          "{'uid':'u','convertedObjects':[],'result':{'status':'Failure','message':'objects[1] Q ns/n: spec.x: says "
          "nothing in g/v2'}}");
    gives(REVIEW("[{'stuck':1}]"), 1,
          "{'uid':'u','convertedObjects':[],'result':{'status':'Failure','message':'objects[0] of no kind : spec.x: "
          "says nothing in g/v2'}}");
}

static void conversion__what_is_no_review_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int status;
        const char *why;
    } rows[] = {
        {"", 400, "JSON"},
        {"{", 400, "JSON"},
        {"[]", 400, "request.objects: required"},
        {"{}", 400, "request.objects: required"},
        {"{'request':{'objects':{}}}", 400, "request.objects: required"},
        {"{'request':{'objects':[}}", 400, "JSON"},
        {"{'request':{'objects':[]", 400, "JSON"},
        {"{'request':{'objects':[", 400, "JSON"},
        {"{'request':{'objects':['", 400, "JSON"},
        {"{'request':{'objects':[]}}", 400, "kind: must be ConversionReview"},
        {"{'request':{'objects':[]},'kind':'ConversionReview','apiVersion':'apiextensions.k8s.io/v1beta1'}", 400,
         "apiVersion: must be"},
        {"{'request':{'objects':[]},'kind':'ConversionReview','apiVersion':'apiextensions.k8s.io/v1'}", 400,
         "request.uid: required"},
        {"{'request':{'objects':[],'uid':'u'},'kind':'ConversionReview','apiVersion':'apiextensions.k8s.io/v1'}", 400,
         "desiredAPIVersion: required"},
        {REVIEW("[],'objects':[{}]"), 400, "JSON"},
        {REVIEW("[],'uid':'again'"), 400, "JSON"},
        {REVIEW("[{}],'obj\\u0065cts':[{}]"), 400, "JSON"},
        {REVIEW("[,]"), 400, "objects[0]"},
        {REVIEW("[{},]"), 400, "objects[1]"},
        {REVIEW("[{} {}]"), 400, "objects[0]"},
        {REVIEW("[{}}"), 400, "JSON"},
        {REVIEW("[1]"), 400, "objects[0]"},
        {REVIEW("[{},[]]"), 400, "objects[1]: not an object"},
        {REVIEW("[{},null]"), 400, "objects[1]"},
    };
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        SL_AUTO_BUF out = SL_BUF_INIT(0);
        int status = handle(rows[i].text, 1 << 20, &out);
        if (status != rows[i].status || !strstr(sl_buf_text(&out), rows[i].why))
            fail_msg("row %zu: %d %s", i, status, sl_buf_text(&out));
    }
}

static void conversion__limits(void **state) {
    (void)state;
    SL_AUTO_BUF out = SL_BUF_INIT(0);
    size_t n = strlen(REVIEW("[]"));
    assert_int_equal(handle(REVIEW("[]"), n, &out), 200);
    assert_int_equal(handle(REVIEW("[]"), n - 1, &out), 413);

    SL_AUTO_BUF text = SL_BUF_INIT(1 << 20);
    sl_buf_puts(&text, "{'pad':'");
    for (int i = 0; i < 70000; i++)
        sl_buf_putc(&text, 'x');
    sl_buf_puts(&text, "','request':{'objects':[]}}");
    assert_int_equal(handle(sl_buf_text(&text), 1 << 20, &out), 413);

    SL_AUTO_BUF deep = SL_BUF_INIT(1 << 20);
    sl_buf_puts(&deep, "{'kind':'ConversionReview','apiVersion':'apiextensions.k8s.io/"
                       "v1','request':{'uid':'u','desiredAPIVersion':'g/v2','objects':[{'a':");
    for (int i = 0; i < 64; i++)
        sl_buf_putc(&deep, '[');
    for (int i = 0; i < 64; i++)
        sl_buf_putc(&deep, ']');
    sl_buf_puts(&deep, "}]}}");
    assert_int_equal(handle(sl_buf_text(&deep), 1 << 20, &out), 400);
    assert_non_null(strstr(sl_buf_text(&out), "deeper than 64"));
}

static void conversion__a_list_larger_than_one_review(void **state) {
    (void)state;
    SL_AUTO_BUF text = SL_BUF_INIT(64 << 20);
    sl_buf_puts(&text, "{'kind':'ConversionReview','apiVersion':'apiextensions.k8s.io/"
                       "v1','request':{'uid':'u','desiredAPIVersion':'g/v2','objects':[");
    const int items = 20000;
    for (int i = 0; i < items; i++)
        sl_buf_printf(&text, "%s{'apiVersion':'g/v1','metadata':{'name':'n%d'},'spec':{'pad':'%0400d'}}", i ? "," : "",
                      i, i);
    sl_buf_puts(&text, "]}}");
    assert_true(text.len > SL_REVIEW_MAX_BYTES);
    SL_AUTO_BUF out = SL_BUF_INIT(0);
    assert_int_equal(handle(sl_buf_text(&text), SL_CONVERSION_MAX_BYTES, &out), 200);
    assert_int_equal(calls, items);
    int found = 0;
    for (const char *p = out.data; (p = strstr(p, "\"g/v2\"")); p++)
        found++;
    assert_int_equal(found, items);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversion__items_keep_their_order),
        cmocka_unit_test(conversion__integers_past_int64),
        cmocka_unit_test(conversion__brackets_in_strings_are_text),
        cmocka_unit_test(conversion__order_of_members_does_not_matter),
        cmocka_unit_test(conversion__failure_names_the_object),
        cmocka_unit_test(conversion__what_is_no_review_is_refused),
        cmocka_unit_test(conversion__limits),
        cmocka_unit_test(conversion__a_list_larger_than_one_review),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
