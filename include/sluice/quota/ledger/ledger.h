/*
 * The ledger: who holds which quota since when, who took and returned what, and GPU time, durably in one LMDB
 * environment.
 *
 * The API server is the truth, the ledger never changes a decision. So nothing here is fatal: when the file cannot be
 * used, the ledger is down, says so once (log, sluice_ledger_up, sluice_ledger_errors_total) and tries again from
 * sl_ledger_tick. While it is down, passes are accepted and forgotten; when it is back, sl_ledger_tick asks for a
 * reconciliation, which fills the gap.
 *
 * One pass of the engine is one commit, before the API writes of that pass:
 *
 *     sl_ledger_begin(l, now); sl_ledger_reserve(l, &r); sl_ledger_release(l, uid, why); ... ; rc = sl_ledger_commit(l,
 * &err);
 *
 * Owner: the thread that opened it makes every call (the manager's loop). One process writes; a lock beside the file
 * sees to it. Texts in structures given to callbacks are borrowed and valid during the call. Callbacks run outside of
 * any transaction and may call back into the ledger, except for sl_ledger_close.
 */
#ifndef SLUICE_QUOTA_LEDGER_LEDGER_H
#define SLUICE_QUOTA_LEDGER_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/base/err.h"

struct sl_ledger;

enum sl_ledger_state {
    SL_LEDGER_UP,
    SL_LEDGER_OFF,      /* opened without a directory; every call is accepted and does nothing */
    SL_LEDGER_OPEN,     /* down: the directory or file cannot be opened, is in use by another process, or was closed */
    SL_LEDGER_FULL,     /* down: no space on the device, or the file is at its cap */
    SL_LEDGER_READONLY, /* down: not allowed to write */
    SL_LEDGER_CORRUPT,  /* down: the file made no sense and was moved aside; the next tick begins a new one */
    SL_LEDGER_IO,       /* down: reading or writing failed, or the file vanished */
    SL_LEDGER__STATES
};

enum sl_ledger_outcome {
    SL_LEDGER_PENDING, /* committed here, not yet written to the API server */
    SL_LEDGER_WRITTEN, /* the API server accepted the admission */
    SL_LEDGER_REFUSED, /* the API server refused it for good */
    SL_LEDGER_UNKNOWN, /* no answer: only the object itself can tell */
    SL_LEDGER__OUTCOMES
};

/* Zero in a field means its default. */
struct sl_ledger_options {
    size_t map_bytes;        /* first size of the map: 256 MiB */
    size_t map_max_bytes;    /* it doubles up to here: 2 GiB */
    int64_t history_age_ms;  /* history older than this is pruned: 30 days */
    size_t history_entries;  /* history beyond this number is pruned, oldest first: 500,000 */
    size_t prune_per_commit; /* entries that one commit prunes at most: 512 (more when the commit itself adds more) */
    bool read_only; /* for the command line: never creates, changes or moves anything; may run beside the writer */
};

#define SL_LEDGER_MAX_UID     128
#define SL_LEDGER_MAX_NAME    512  /* each name in a record */
#define SL_LEDGER_MAX_WHY     1024 /* longer reasons are cut */
#define SL_LEDGER_MAX_AMOUNTS 1024 /* flavor+resource pairs of one workload */

struct sl_ledger_amount {
    const char *flavor, *resource;
    int64_t amount; /* in the unit of the quota: milli-CPUs, bytes, or a count */
    bool gpu;       /* counted in GPU-seconds */
};

struct sl_ledger_reservation {
    const char *uid;                        /* of the Workload; the key; must not be empty */
    const char *namespace, *name;           /* of the Workload */
    const char *job_kind, *job_name;        /* its owner; "" when there is none */
    const char *cluster_queue;              /* must not be empty */
    const char *local_queue;                /* name; it is in the Workload's namespace */
    const char *why;                        /* in words, for the history */
    const struct sl_ledger_amount *amounts; /* one per flavor+resource; order does not matter */
    size_t amount_count;
    int64_t since_ms; /* wall time since when it is held; 0: the time of the pass */
    enum sl_ledger_outcome outcome;
};

/* Never fails and never returns NULL: look at sl_ledger_state. Creates the directory (its parent must exist) and the
 * file. A corrupt file is moved aside as data.mdb.corrupt-<time> (at most two are kept) and a new one begun. dir NULL
 * or "": SL_LEDGER_OFF. o may be NULL. Opening one directory twice in one process is a programming error. */
struct sl_ledger *sl_ledger_open(const char *dir, const struct sl_ledger_options *o, int64_t now_ms);
void sl_ledger_close(struct sl_ledger *l); /* NULL is fine; what was not committed is lost */

enum sl_ledger_state sl_ledger_state(const struct sl_ledger *l);
const char *sl_ledger_state_text(enum sl_ledger_state s); /* "up", "off", "open", "full", "readonly", "corrupt", "io" */
const char *sl_ledger_reason(const struct sl_ledger *l);  /* why it is down, in words; "" while it is not */
uint64_t sl_ledger_corrupt_records(
    const struct sl_ledger *l); /* records skipped because of a bad checksum since it was opened */

/* Call about once a second: tries to come back (after 1 s, then doubling up to 1 min), notices a lost file, prunes when
 * nothing else commits. True when the books must be compared with the cluster (sl_ledger_reconcile): after the ledger
 * came back, as after sl_ledger_open. */
bool sl_ledger_tick(struct sl_ledger *l, int64_t now_ms);

/* ---- A pass ---- */

void sl_ledger_begin(struct sl_ledger *l, int64_t now_ms); /* forgets a pass that was not committed */
/* The workload holds these amounts from now on; outcome becomes SL_LEDGER_PENDING unless given. Holding the same in the
 * same queue already changes nothing but the outcome; something else is first returned. Everything is copied. */
void sl_ledger_reserve(struct sl_ledger *l, const struct sl_ledger_reservation *r);
void sl_ledger_release(struct sl_ledger *l, const char *uid, const char *why); /* unknown uid: nothing */
void sl_ledger_outcome(struct sl_ledger *l, const char *uid, enum sl_ledger_outcome outcome);
void sl_ledger_requeue_timer(struct sl_ledger *l, const char *uid, int64_t at_ms); /* 0 removes it */
/* Writes what changed, in one durable transaction; a pass without changes touches no file. 0 also when off.
 * SL_UNAVAILABLE: the ledger is or went down and the pass is forgotten (carry on, the tick will ask for a
 * reconciliation). SL_INVALID: a call of the pass was refused (err names the field), all others are committed. */
SL_MUST int sl_ledger_commit(struct sl_ledger *l, struct sl_err *err);

/* ---- At start ---- */

/* Each reservation, in order of uid; records with a bad checksum are skipped and counted. fn returns false to stop.
 * SL_UNAVAILABLE while down. */
SL_MUST int sl_ledger_load(struct sl_ledger *l, bool (*fn)(void *payload, const struct sl_ledger_reservation *r),
                           void *payload, struct sl_err *err);
SL_MUST int sl_ledger_load_timers(struct sl_ledger *l, bool (*fn)(void *payload, const char *uid, int64_t at_ms),
                                  void *payload, struct sl_err *err);
/* One reservation; SL_NOT_FOUND when uid holds nothing. fn is called at most once. */
SL_MUST int sl_ledger_find(struct sl_ledger *l, const char *uid,
                           void (*fn)(void *payload, const struct sl_ledger_reservation *r), void *payload,
                           struct sl_err *err);

enum sl_ledger_difference {
    SL_LEDGER_GONE, /* in the ledger, not in the cluster: released, why "gone". When it ended is not known: its time
                       counts until now. */
    SL_LEDGER_RECOVERED, /* in the cluster, not in the ledger: added */
    SL_LEDGER_DIFFERS,   /* queue or amounts differ: the cluster wins */
};
/* What the cluster's Workloads hold: next fills *r and returns true, false at the end. Texts stay valid until the next
 * call of it. */
struct sl_ledger_view {
    bool (*next)(void *payload, struct sl_ledger_reservation *r);
    void (*report)(void *payload, enum sl_ledger_difference d,
                   const struct sl_ledger_reservation *r); /* may be NULL; called before the commit */
    void *payload;
};
/* Makes the ledger agree with the cluster, in one commit; *ret_differences, when not NULL, tells how many there were.
 * Timers of workloads stay. Not between begin and commit. Errors as sl_ledger_commit; before anything is reported
 * SL_UNAVAILABLE when down. */
SL_MUST int sl_ledger_reconcile(struct sl_ledger *l, int64_t now_ms, const struct sl_ledger_view *view,
                                size_t *ret_differences, struct sl_err *err);

/* ---- History and GPU time ---- */

struct sl_ledger_entry {
    int64_t at_ms;
    bool took;                      /* false: returned */
    int64_t held_ms;                /* returned: for how long it was held; 0 otherwise */
    struct sl_ledger_reservation r; /* why is that of this entry; outcome as known then */
};
/* NULL or "" in a text: any. */
struct sl_ledger_query {
    int64_t from_ms, to_ms; /* inclusive; to_ms 0: no end */
    const char *cluster_queue, *namespace, *local_queue, *name, *uid, *flavor, *resource;
    bool newest_first;
    size_t limit; /* entries given to fn at most; 0: 100; never more than 100,000 */
};
/* fn returns false to stop. *ret_more, when not NULL: there is at least one more match behind the limit. */
SL_MUST int sl_ledger_history(struct sl_ledger *l, const struct sl_ledger_query *q,
                              bool (*fn)(void *payload, const struct sl_ledger_entry *e), void *payload, bool *ret_more,
                              struct sl_err *err);

/* GPU time of each ClusterQueue, flavor and resource in seconds, saturating: what was returned so far, and what current
 * holders have used until now_ms (amounts marked gpu). In ascending order of the names. */
struct sl_ledger_gpu {
    const char *cluster_queue, *flavor, *resource;
    int64_t returned_seconds, running_seconds;
};
SL_MUST int sl_ledger_gpu_seconds(struct sl_ledger *l, int64_t now_ms,
                                  void (*fn)(void *payload, const struct sl_ledger_gpu *g), void *payload,
                                  struct sl_err *err);

#endif
