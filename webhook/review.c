/*
 * AdmissionReview: parse, check the envelope, call the handler, write the answer. The answer is written straight into
 * the buffer, since its only large part, the patch, goes there as base64.
 */
#include "review_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/base/mem.h"

#define MAX_MESSAGE  ((size_t)16 << 10)
#define MAX_WARNING  ((size_t)1000)
#define MAX_WARNINGS ((size_t)50)

void sl_review_reply_done(struct sl_review_reply *reply) {
    free(reply->message);
    sl_json_unref(reply->patch);
    sl_json_unref(reply->warnings);
    sl_json_unref(reply->causes);
    *reply = (struct sl_review_reply)SL_REVIEW_REPLY_INIT;
}

static void deny(struct sl_review_reply *reply, int code, const char *format, va_list args) SL_PRINTF(3, 0);
static void deny(struct sl_review_reply *reply, int code, const char *format, va_list args) {
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0)
        sl_assert_failed("vasprintf", __FILE__, __LINE__);
    free(reply->message);
    reply->message = text;
    reply->allowed = false;
    reply->code = code;
}

void sl_review_deny(struct sl_review_reply *reply, const char *format, ...) {
    va_list args;
    va_start(args, format);
    deny(reply, 403, format, args);
    va_end(args);
}

void sl_review_deny_code(struct sl_review_reply *reply, int code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    deny(reply, code, format, args);
    va_end(args);
}

/* Bytes of text to keep so that at most max remain and no UTF-8 sequence is cut apart. */
static size_t cut(const char *text, size_t max) {
    size_t n = strnlen(text, max + 1);
    if (n <= max)
        return n;
    n = max;
    while (n && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--;
    return n;
}

void sl_review_warn(struct sl_review_reply *reply, const char *format, ...) {
    if (sl_json_len(reply->warnings) >= MAX_WARNINGS)
        return;
    va_list args;
    va_start(args, format);
    char *text = NULL;
    int n = vasprintf(&text, format, args);
    va_end(args);
    SL_ASSERT(n >= 0);
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = ' ';
    if (!reply->warnings)
        reply->warnings = sl_json_new_array();
    sl_json_append(reply->warnings, sl_json_new_strn(text, cut(text, MAX_WARNING)));
    free(text);
}

static const char *reason_of(int code) {
    switch (code) {
    case 400: return "BadRequest";
    case 401: return "Unauthorized";
    case 404: return "NotFound";
    case 405: return "MethodNotAllowed";
    case 406: return "NotAcceptable";
    case 409: return "Conflict";
    case 410: return "Gone";
    case 413: return "RequestEntityTooLarge";
    case 415: return "UnsupportedMediaType";
    case 422: return "Invalid";
    case 429: return "TooManyRequests";
    case 500: return "InternalError";
    case 503: return "ServiceUnavailable";
    case 504: return "Timeout";
    default: return "Forbidden";
    }
}

int sl_review_refuse(struct sl_buf *out, int status, const char *text) {
    sl_buf_clear(out);
    sl_buf_puts(out, text);
    sl_buf_putc(out, '\n');
    return status;
}

static void put_string(struct sl_buf *out, const char *text, size_t len) {
    struct sl_json *j = sl_json_new_strn(text, len);
    sl_json_dump(j, false, out);
    sl_json_unref(j);
}

static void put_denial(const struct sl_review_reply *reply, struct sl_buf *out) {
    int code = reply->code >= 400 && reply->code <= 599 ? reply->code : 403;
    const char *message = reply->message ? reply->message : "denied";
    sl_buf_printf(
        out, ",\"allowed\":false,\"status\":{\"status\":\"Failure\",\"code\":%d,\"reason\":\"%s\",\"message\":", code,
        reason_of(code));
    put_string(out, message, cut(message, MAX_MESSAGE));
    if (sl_json_len(reply->causes)) {
        sl_buf_puts(out, ",\"details\":{\"causes\":");
        sl_json_dump(reply->causes, false, out);
        sl_buf_putc(out, '}');
    }
    sl_buf_putc(out, '}');
}

static void put_patch(const struct sl_json *patch, struct sl_buf *out) {
    if (!sl_json_len(patch))
        return;
    SL_AUTO_BUF text = SL_BUF_INIT(out->max);
    sl_json_dump(patch, false, &text);
    sl_buf_puts(out, ",\"patchType\":\"JSONPatch\",\"patch\":\"");
    sl_buf_add_base64(out, sl_buf_text(&text), text.len);
    sl_buf_putc(out, '"');
    out->failed |= text.failed;
}

int sl_review_handle(sl_review_fn fn, const void *snapshot, const char *body, size_t len, struct sl_buf *out,
                     bool *ret_denied) {
    sl_buf_clear(out);
    if (ret_denied)
        *ret_denied = false;
    if (len > SL_REVIEW_MAX_BYTES)
        return sl_review_refuse(out, 413, "the AdmissionReview is larger than 7 MiB");
    SL_AUTO_JSON *review = NULL;
    struct sl_err err = SL_ERR_INIT;
    int rc = sl_json_parse_limited(body, len, SL_REVIEW_MAX_BYTES, SL_REVIEW_MAX_ELEMENTS, &review, &err);
    if (rc)
        return sl_review_refuse(out, rc == SL_LIMIT ? 413 : 400, err.text);
    if (!sl_json_is_object(review))
        return sl_review_refuse(out, 400, "the body is not a JSON object");
    const char *kind = sl_json_get_str(review, "kind", ""), *version = sl_json_get_str(review, "apiVersion", "");
    if (strcmp(kind, "AdmissionReview") != 0)
        return sl_review_refuse(out, 400, "kind: must be AdmissionReview");
    if (strcmp(version, "admission.k8s.io/v1") != 0)
        return sl_review_refuse(out, 400, "apiVersion: must be admission.k8s.io/v1");
    const struct sl_json *request = sl_json_get(review, "request");
    if (!sl_json_is_object(request))
        return sl_review_refuse(out, 400, "request: required");
    const struct sl_json *uid = sl_json_get(request, "uid");
    if (!sl_json_str_len(uid))
        return sl_review_refuse(out, 400, "request.uid: required");

    struct sl_review_reply reply = SL_REVIEW_REPLY_INIT;
    fn(snapshot, request, &reply);
    sl_buf_puts(out, "{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\",\"response\":{\"uid\":");
    sl_json_dump(uid, false, out);
    if (reply.allowed) {
        sl_buf_puts(out, ",\"allowed\":true");
        put_patch(reply.patch, out);
    } else {
        put_denial(&reply, out);
    }
    if (sl_json_len(reply.warnings)) {
        sl_buf_puts(out, ",\"warnings\":");
        sl_json_dump(reply.warnings, false, out);
    }
    sl_buf_puts(out, "}}");
    if (ret_denied)
        *ret_denied = !reply.allowed;
    sl_review_reply_done(&reply);
    if (out->failed)
        return sl_review_refuse(out, 500, "the answer is too large");
    return 200;
}
