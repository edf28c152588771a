/*
 * Values of the ledger's databases: [version][kind][checksum of key and rest, 4 bytes][fields]. Integers are
 * big-endian; a text is its length (2 bytes), its bytes and a NUL, so that a decoded record can point into a copy of
 * its bytes.
 */
#ifndef SLUICE_QUOTA_LEDGER_RECORD_H
#define SLUICE_QUOTA_LEDGER_RECORD_H

#include "sluice/base/buf.h"
#include "sluice/quota/ledger/ledger.h"

#define SL_RECORD_MAX_BYTES (2u << 20)

enum sl_record_kind { SL_RECORD_HELD = 1, SL_RECORD_HISTORY, SL_RECORD_TIMER, SL_RECORD_USAGE, SL_RECORD_META };

/* A decoded record of any kind; fields that its kind lacks are zero or "". Owner: the caller, sl_record_done. */
struct sl_record {
    struct sl_ledger_entry entry; /* HELD and HISTORY; USAGE: r.cluster_queue and amounts[0] name it */
    int64_t value;                /* TIMER: when; USAGE: amount x milliseconds; META: the next sequence number */
    char *bytes;                  /* what the texts point into */
    struct sl_ledger_amount *amounts;
};
#define SL_AUTO_RECORD __attribute__((cleanup(sl_record_done))) struct sl_record
void sl_record_done(struct sl_record *rec);

/* Appends a complete value to out, which must be empty. Amounts are sorted, equal pairs added up and zeros left out, so
 * that equal holdings have equal bytes. SL_INVALID names the field: empty uid or cluster queue, a text that is too
 * long, a negative amount, too many amounts. */
SL_MUST int sl_record_encode(enum sl_record_kind kind, const void *key, size_t key_len, const struct sl_record *rec,
                             struct sl_buf *out, struct sl_err *err);
/* SL_CORRUPT when the value is not what was encoded under this key; *ret is untouched then. */
SL_MUST int sl_record_decode(enum sl_record_kind kind, const void *key, size_t key_len, const void *value, size_t len,
                             struct sl_record *ret, struct sl_err *err);
/* A copy in canonical form; errors as sl_record_encode. */
SL_MUST int sl_record_from(const struct sl_ledger_reservation *r, struct sl_record *ret, struct sl_err *err);
/* The same queue and the same amounts; both must be canonical (decoded). */
bool sl_record_same_holding(const struct sl_ledger_reservation *a, const struct sl_ledger_reservation *b);

/* Puts the right checksum into a value; false when it is too short to have one. For encoding, and for tests. */
bool sl_record_sign(const void *key, size_t key_len, unsigned char *value, size_t len);

void sl_be64_put(unsigned char *to, uint64_t v);
uint64_t sl_be64_get(const void *from);

#endif
