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
static const void *seen;

static void allow(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply) {
    (void)request, (void)reply;
    calls++;
    seen = snapshot;
}
static void patch(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply) {
    (void)snapshot;
    reply->patch = sl_json_copy(sl_json_path(request, "object.patch"));
}
static void deny_twice(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply) {
    (void)snapshot, (void)request;
    sl_review_deny(reply, "first");
    sl_review_deny(reply, "spec.x: %s", "second\n\"quoted\"");
    reply->patch = sl_json_from("[{'op':'remove','path':'/x'}]");
}
static int denial_code;
static void deny_code(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply) {
    (void)snapshot, (void)request;
    sl_review_deny_code(reply, denial_code, "no");
}
static void deny_silently(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply) {
    (void)snapshot, (void)request;
    reply->allowed = false;
}
static void warn(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply) {
    (void)snapshot;
    const char *text = sl_json_path_str(request, "object.text", "");
    for (int64_t i = sl_json_get_int(sl_json_get(request, "object"), "times", 1); i > 0; i--)
        sl_review_warn(reply, "%s", text);
}

/* The answer of a review with this object (single quotes), 200 expected. */
static struct sl_json *answer(sl_review_fn fn, const char *object, bool *ret_denied) {
    struct sl_json *review = sl_json_fromf(
        "{'kind':'AdmissionReview','apiVersion':'admission.k8s.io/v1','request':{'uid':'a\\\\b','object':%s}}", object);
    char *text = sl_json_text(review);
    SL_AUTO_BUF out = SL_BUF_INIT(SL_REVIEW_MAX_BYTES);
    assert_int_equal(sl_review_handle(fn, &calls, text, strlen(text), &out, ret_denied), 200);
    struct sl_json *got = NULL;
    assert_int_equal(sl_json_parse_strict(out.data, out.len, out.max, &got, NULL), 0);
    assert_string_equal(sl_json_get_str(got, "apiVersion", ""), "admission.k8s.io/v1");
    assert_string_equal(sl_json_get_str(got, "kind", ""), "AdmissionReview");
    struct sl_json *response = sl_json_ref(sl_json_get(got, "response"));
    assert_string_equal(sl_json_get_str(response, "uid", ""), "a\\b");
    sl_json_unref(got);
    sl_json_unref(review);
    free(text);
    return response;
}

static void same(struct sl_json *take, const char *expected) {
    SL_AUTO_JSON *want = sl_json_from(expected);
    char *a = sl_json_text(take), *b = sl_json_text(want);
    assert_string_equal(a, b);
    free(a);
    free(b);
    sl_json_unref(take);
}

static void review__nothing_to_say_is_two_members(void **state) {
    (void)state;
    bool denied = true;
    calls = 0;
    same(answer(allow, "{}", &denied), "{'uid':'a\\\\b','allowed':true}");
    assert_false(denied);
    assert_int_equal(calls, 1);
    assert_ptr_equal(seen, &calls);
}

static void review__patch_only_when_it_does_something(void **state) {
    (void)state;
    same(answer(patch, "{'patch':[]}", NULL), "{'uid':'a\\\\b','allowed':true}");
    same(answer(patch, "{}", NULL), "{'uid':'a\\\\b','allowed':true}");
    SL_AUTO_JSON *got = answer(patch, "{'patch':[{'op':'add','path':'/a~1b','value':'\\u00fc'}]}", NULL);
    assert_string_equal(sl_json_get_str(got, "patchType", ""), "JSONPatch");
    const char *text = sl_json_get_str(got, "patch", "");
    SL_AUTO_BUF plain = SL_BUF_INIT(1000);
    assert_int_equal(sl_buf_add_unbase64(&plain, text, strlen(text), NULL), 0);
    assert_string_equal(sl_buf_text(&plain), "[{\"op\":\"add\",\"path\":\"/a~1b\",\"value\":\"\u00fc\"}]");
}

static void review__denial_is_a_status_without_a_patch(void **state) {
    (void)state;
    bool denied = false;
    same(answer(deny_twice, "{}", &denied),
         "{'uid':'a\\\\b','allowed':false,'status':{'status':'Failure','code':403,'reason':'Forbidden',"
         "'message':'spec.x: second\\n\\u0022quoted\\u0022'}}");
    assert_true(denied);
    same(answer(deny_silently, "{}", NULL), "{'uid':'a\\\\b','allowed':false,'status':{'status':'Failure','code':403,'"
                                            "reason':'Forbidden','message':'denied'}}");
}

static void review__denial_codes_have_reasons(void **state) {
    (void)state;
    static const struct {
        int code, shown;
        const char *reason;
    } rows[] = {{400, 400, "BadRequest"}, {404, 404, "NotFound"},      {409, 409, "Conflict"},
                {422, 422, "Invalid"},    {500, 500, "InternalError"}, {403, 403, "Forbidden"},
                {0, 403, "Forbidden"},    {200, 403, "Forbidden"},     {999, 403, "Forbidden"}};
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        denial_code = rows[i].code;
        SL_AUTO_JSON *got = answer(deny_code, "{}", NULL);
        assert_int_equal(sl_json_get_int(sl_json_get(got, "status"), "code", 0), rows[i].shown);
        assert_string_equal(sl_json_path_str(got, "status.reason", ""), rows[i].reason);
    }
}

static void review__warnings_are_made_fit_for_a_header(void **state) {
    (void)state;
    same(answer(warn, "{'text':'a\\nb\\u0007c','times':2}", NULL),
         "{'uid':'a\\\\b','allowed':true,'warnings':['a b c','a b c']}");
    SL_AUTO_JSON *many = answer(warn, "{'text':'x','times':1000}", NULL);
    assert_int_equal(sl_json_len(sl_json_get(many, "warnings")), 50);

    char object[3100] = "{'text':'";
    for (int i = 0; i < 999; i++)
        memcpy(object + strlen(object), "x", 2);
    memcpy(object + strlen(object), "\u20ac\u20ac'}", 9); /* three bytes each, the first one across the limit of 1000 */
    SL_AUTO_JSON *cut = answer(warn, object, NULL);
    const char *text = sl_json_str(sl_json_at(sl_json_get(cut, "warnings"), 0), "");
    assert_int_equal(strlen(text), 999);
}

static void refused(const char *text, size_t len, int status, const char *why) {
    SL_AUTO_BUF out = SL_BUF_INIT(SL_REVIEW_MAX_BYTES);
    bool denied = true;
    calls = 0;
    assert_int_equal(sl_review_handle(allow, NULL, text, len, &out, &denied), status);
    assert_int_equal(calls, 0);
    assert_false(denied);
    assert_non_null(strstr(sl_buf_text(&out), why));
    assert_ptr_equal(strchr(sl_buf_text(&out), '\n'), out.data + out.len - 1);
}

static void review__what_is_no_review_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "JSON"},
        {"nonsense", "JSON"},
        {"[]", "not a JSON object"},
        {"{}", "kind: must be AdmissionReview"},
        {"{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1beta1\"}", "apiVersion: must be"},
        {"{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\"}", "request: required"},
        {"{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\",\"request\":\"x\"}",
         "request: required"},
        {"{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\",\"request\":{}}",
         "request.uid: required"},
        {"{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\",\"request\":{\"uid\":[]}}",
         "request.uid: required"},
    };
    for (size_t i = 0; i < SL_COUNT(rows); i++)
        refused(rows[i].text, strlen(rows[i].text), 400, rows[i].why);
}

static void review__size_and_elements_are_bounded(void **state) {
    (void)state;
    size_t n = SL_REVIEW_MAX_BYTES + 1;
    char *text = malloc(n);
    assert_non_null(text);
    memset(text, ' ', n);
    refused(text, n, 413, "7 MiB");
    refused(text, n - 1, 400, "JSON");
    memset(text, ',', n);
    text[0] = '[';
    refused(text, 250002, 413, "elements");
    memset(text, '[', n);
    refused(text, 65, 400, "deeper than 64");
    free(text);
}

static void review__answer_that_does_not_fit_is_500(void **state) {
    (void)state;
    const char *text =
        "{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\",\"request\":{\"uid\":\"u\"}}";
    SL_AUTO_BUF out = SL_BUF_INIT(40);
    assert_int_equal(sl_review_handle(allow, NULL, text, strlen(text), &out, NULL), 500);
    assert_string_equal(sl_buf_text(&out), "the answer is too large\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(review__nothing_to_say_is_two_members),
        cmocka_unit_test(review__patch_only_when_it_does_something),
        cmocka_unit_test(review__denial_is_a_status_without_a_patch),
        cmocka_unit_test(review__denial_codes_have_reasons),
        cmocka_unit_test(review__warnings_are_made_fit_for_a_header),
        cmocka_unit_test(review__what_is_no_review_is_refused),
        cmocka_unit_test(review__size_and_elements_are_bounded),
        cmocka_unit_test(review__answer_that_does_not_fit_is_500),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
