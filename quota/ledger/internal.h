/* What the files of quota/ledger share: the environment and its state (store.c), the pass (ledger.c). */
#ifndef SLUICE_QUOTA_LEDGER_INTERNAL_H
#define SLUICE_QUOTA_LEDGER_INTERNAL_H

#include <lmdb.h>
#include <sys/types.h>

#include "record.h"

enum sl_ledger_op_kind { SL_OP_RESERVE, SL_OP_RELEASE, SL_OP_OUTCOME, SL_OP_TIMER };

struct sl_ledger_op {
    enum sl_ledger_op_kind kind;
    char *uid, *why;
    int64_t value;         /* outcome, or time of the timer */
    struct sl_record held; /* RESERVE */
};

/* The databases: HELD uid -> HELD, TIMERS uid -> TIMER, HISTORY time(8) sequence(8) -> HISTORY, USAGE queue NUL flavor
 * NUL resource (hashed when too long for a key) -> USAGE, META "sequence" -> META */
enum sl_ledger_db { SL_DB_HELD, SL_DB_TIMERS, SL_DB_HISTORY, SL_DB_USAGE, SL_DB_META, SL_DB__COUNT };

struct sl_ledger {
    char *dir, *file;
    struct sl_ledger_options o;
    enum sl_ledger_state state;
    char reason[240];
    MDB_env *env; /* not NULL exactly while up */
    MDB_dbi db[SL_DB__COUNT];
    int owner_fd; /* holds the lock that keeps a second writer out; -1 while down */
    size_t map_bytes;
    dev_t dev;
    ino_t ino;
    off_t size_seen; /* the file has been this large: if it is smaller now, its map must not be touched */
    int64_t retry_at, backoff_ms, up_since, prune_at;
    bool wants_reconcile, said; /* said: the present state was logged */
    uint64_t corrupt;
    uint64_t next_sequence;

    int64_t pass_ms;
    struct sl_ledger_op *ops;
    size_t op_count, op_cap;
    struct sl_err refused; /* the first call of the pass that was refused; code 0: none */
};

/* ---- store.c ---- */

/* Opens everything; on failure the ledger is down for a reason. True when up. */
bool sl_ledger_store_open(struct sl_ledger *l, int64_t now_ms);
void sl_ledger_store_close(struct sl_ledger *l);
/* 0 when the file is there and whole; otherwise the ledger went down: SL_UNAVAILABLE. Before every transaction. */
int sl_ledger_store_check(struct sl_ledger *l, struct sl_err *err);
/* After MDB_MAP_FULL, without a transaction: a larger map. False at the cap. */
bool sl_ledger_store_grow(struct sl_ledger *l);
/* Takes the ledger down because of what LMDB (or errno) said; returns SL_UNAVAILABLE. No transaction may be open. */
int sl_ledger_store_fail(struct sl_ledger *l, int rc, const char *doing, struct sl_err *err);
int sl_ledger_store_down(struct sl_ledger *l, enum sl_ledger_state state, struct sl_err *err, const char *format, ...)
    SL_PRINTF(4, 5);
void sl_ledger_store_count_corrupt(struct sl_ledger *l, const char *what);

/* Raw records of one database, copied out: a transaction never lives across a callback. */
struct sl_ledger_raw {
    size_t key, key_len, value, value_len; /* offsets into bytes */
};
struct sl_ledger_batch {
    unsigned char start[512]; /* in: the key to begin at (exclusive after the first batch); kept up to date */
    size_t start_len;
    bool has_start, exclusive, descending;
    struct sl_buf bytes;
    struct sl_ledger_raw *raw;
    size_t count, cap;
};
#define SL_LEDGER_BATCH_INIT                                                                                           \
    { .bytes = SL_BUF_INIT(16u << 20) }
#define SL_AUTO_BATCH __attribute__((cleanup(sl_ledger_batch_done))) struct sl_ledger_batch
void sl_ledger_batch_done(struct sl_ledger_batch *b);
/* The next records after those read before (at least one unless at the end: count 0). SL_UNAVAILABLE when down or it
 * goes down. */
SL_MUST int sl_ledger_batch_next(struct sl_ledger *l, enum sl_ledger_db db, struct sl_ledger_batch *b,
                                 struct sl_err *err);
/* Decodes record i of the batch; a corrupt one is counted and answered with false. */
bool sl_ledger_batch_decode(struct sl_ledger *l, const struct sl_ledger_batch *b, size_t i, enum sl_record_kind kind,
                            struct sl_record *ret);

/* ---- ledger.c ---- */

void sl_ledger_forget_pass(struct sl_ledger *l);
/* Prunes history in a commit of its own; force: also when nothing is due, to make room. 0 or an LMDB code. */
int sl_ledger_prune_now(struct sl_ledger *l, int64_t now_ms, bool force);

#endif
