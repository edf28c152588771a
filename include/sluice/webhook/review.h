/*
 * AdmissionReview and ConversionReview, from bytes to bytes. No I/O, no clock, no locks: the server, the in-memory
 * cluster and the fuzzer call the same functions. A handler is a pure function of (request, read-only snapshot) ->
 * reply.
 */
#ifndef SLUICE_WEBHOOK_REVIEW_H
#define SLUICE_WEBHOOK_REVIEW_H

#include <stdbool.h>
#include <stddef.h>

#include "sluice/base/buf.h"
#include "sluice/base/json.h"

#define SL_REVIEW_MAX_BYTES     ((size_t)7 << 20)   /* object and oldObject, 3 MiB each at most, and the envelope */
#define SL_CONVERSION_MAX_BYTES ((size_t)128 << 20) /* every item of a list comes in one review */

/* Filled by a handler; starts as "allowed, nothing to say". Text of any length is fine: what is too long for a client
 * is cut. */
struct sl_review_reply {
    bool allowed;
    int code;                 /* of a denial; 0 means 403 */
    char *message;            /* owned; of a denial */
    struct sl_json *patch;    /* owned JSON Patch array; NULL or empty: no change. Ignored in a denial */
    struct sl_json *warnings; /* owned array of strings, or NULL */
    struct sl_json *causes;   /* owned details.causes of a denial, [{reason, message, field}], or NULL */
};
#define SL_REVIEW_REPLY_INIT                                                                                           \
    { true, 0, NULL, NULL, NULL, NULL }

void sl_review_reply_done(struct sl_review_reply *reply);
/* Denies with 403 Forbidden; a message set before is replaced. */
void sl_review_deny(struct sl_review_reply *reply, const char *format, ...) SL_PRINTF(2, 3);
/* Denies with another HTTP status (400 BadRequest, 422 Invalid, 500 InternalError ...). */
void sl_review_deny_code(struct sl_review_reply *reply, int code, const char *format, ...) SL_PRINTF(3, 4);
/* Adds a warning that kubectl prints. Control characters, which the API server would drop the warning for, become
 * spaces. */
void sl_review_warn(struct sl_review_reply *reply, const char *format, ...) SL_PRINTF(2, 3);

/*
 * request: AdmissionReview.request (borrowed; uid, kind, operation, namespace, name, object, oldObject, options,
 * dryRun, userInfo ...). snapshot: what the server's acquire callback gave; immutable. reply: SL_REVIEW_REPLY_INIT.
 * Called from several threads at once. Must not block, must not keep pointers, and must answer the same for the same
 * input (reinvocation, dry run).
 */
typedef void (*sl_review_fn)(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply);

/*
 * Decodes an admission.k8s.io/v1 AdmissionReview, calls fn, encodes the answer. Returns the HTTP status:
 *   200  out holds the AdmissionReview to send (JSON); *ret_denied (may be NULL) tells whether it is a denial
 *   400  malformed, other kind or version, no request, no uid, deeper than 64 levels; 413 over 7 MiB or too many
 * elements; 500  the answer is larger than out may hold; out then holds one line of plain text out is cleared first;
 * its max should be at least SL_REVIEW_MAX_BYTES.
 */
int sl_review_handle(sl_review_fn fn, const void *snapshot, const char *body, size_t len, struct sl_buf *out,
                     bool *ret_denied);

/* Converts *object, whose apiVersion differs from desired_api_version, in place and sets apiVersion. 0, or an error
 * with a text for people (SL_INVALID). metadata must stay as it is, except labels and annotations. */
typedef int (*sl_convert_fn)(struct sl_json *object, const char *desired_api_version, struct sl_err *err);

/*
 * Decodes an apiextensions.k8s.io/v1 ConversionReview, converts item by item (one tree at a time, in order), encodes
 * the answer. Items that have the desired version already are passed through. Returns the HTTP status as
 * sl_review_handle does; an item that fails makes a 200 with result.status Failure whose message names the object.
 * max_bytes caps the body; out gets a max of its own.
 */
int sl_conversion_handle(sl_convert_fn fn, const char *body, size_t len, size_t max_bytes, struct sl_buf *out,
                         bool *ret_failed);

#endif
