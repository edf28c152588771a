/*
 * Cuts what the API server sends into single objects, wherever the transport cut it: watch streams at newlines, list
 * pages at the items of their array. One object at a time is held complete; what follows it waits in the same buffer.
 */
#ifndef SLUICE_KUBE_FRAMER_H
#define SLUICE_KUBE_FRAMER_H

#include <stdbool.h>
#include <stddef.h>

#include "sluice/base/buf.h"
#include "sluice/base/err.h"

#define KUBE_MAX_OBJECT ((size_t)16 << 20)

enum kube_framing { KUBE_LINES, KUBE_ITEMS };

struct kube_framer {
    enum kube_framing framing;
    size_t max; /* bytes of one object */
    char *data; /* not yet consumed: data[start .. end) */
    size_t start, end, cap;
    size_t scanned; /* up to here (absolute index into data) the scanner has looked */
    size_t item;    /* KUBE_ITEMS: where the present item began; SIZE_MAX: outside of one */
    /* KUBE_ITEMS: the page without its items, and the state of the scanner */
    struct sl_buf rest;
    unsigned depth;
    bool in_string, escaped, in_items, done;
    char key[16]; /* last string at depth 1 */
    size_t key_len;
};

void kube_framer_init(struct kube_framer *f, enum kube_framing framing, size_t max_object);
void kube_framer_done(struct kube_framer *f);
void kube_framer_reset(struct kube_framer *f,
                       enum kube_framing framing); /* for the next stream; keeps a small buffer */
/* Appends bytes of the stream. The caller stops feeding while kube_framer_pending says that much waits. */
void kube_framer_feed(struct kube_framer *f, const char *data, size_t len);
size_t kube_framer_pending(const struct kube_framer *f); /* bytes that wait */
/* Next complete object: 1 and a slice that may be written to and is valid until the next call on f; 0: none is complete
 * yet; negative: SL_TOO_BIG (one object past the limit), SL_PROTOCOL (not the expected form). Blank lines are skipped.
 */
SL_MUST int kube_framer_next(struct kube_framer *f, char **ret, size_t *ret_len, struct sl_err *err);
/* KUBE_ITEMS, after the stream ended and next returned 0: the page with an empty items array; SL_PROTOCOL when the page
 * was cut short. */
SL_MUST int kube_framer_finish(struct kube_framer *f, const char **ret_page, size_t *ret_len, struct sl_err *err);

/* Cuts metadata.managedFields out of a JSON text in place (it is often half of an object and nobody reads it); returns
 * the new length. depth: how many objects are around the one that has the metadata. Text that is not well formed is
 * left for the parser to refuse. */
size_t kube_strip_managed_fields(char *text, size_t len, unsigned depth);

#endif
