/*
 * The pass. Calls between begin and commit are copied into a list and applied in one write transaction by commit, so
 * that a transaction never stays open while the engine decides, and a full map can be enlarged and the whole pass
 * applied again.
 *
 * Invariant: for every uid, the history's "took" less its "returned" entries equals what HELD says, since both change
 * in the same transaction (as long as neither was pruned or lost).
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/base/log.h"
#include "sluice/base/mem.h"
#include "sluice/base/metrics.h"
#include "sluice/base/num.h"

#define MAX_OPS          200000
#define PRUNE_EVERY_MS   60000
#define USAGE_KEY_PREFIX 480

struct sl_ledger *sl_ledger_open(const char *dir, const struct sl_ledger_options *o, int64_t now_ms) {
    struct sl_ledger *l = sl_xalloc(sizeof *l);
    if (o)
        l->o = *o;
    if (!l->o.map_bytes)
        l->o.map_bytes = 256u << 20;
    if (!l->o.map_max_bytes)
        l->o.map_max_bytes = (size_t)2 << 30;
    if (l->o.map_bytes > l->o.map_max_bytes)
        l->o.map_bytes = l->o.map_max_bytes;
    if (!l->o.history_age_ms)
        l->o.history_age_ms = (int64_t)30 * 24 * 3600 * 1000;
    if (!l->o.history_entries)
        l->o.history_entries = 500000;
    if (!l->o.prune_per_commit)
        l->o.prune_per_commit = 512;
    l->owner_fd = -1;
    l->state = SL_LEDGER_OFF;
    if (dir && *dir) {
        l->dir = sl_xstrdup(dir);
        l->file = sl_xprintf("%s/data.mdb", dir);
        l->state = SL_LEDGER_OPEN;
        (void)sl_ledger_store_open(l, now_ms);
    }
    return l;
}

void sl_ledger_close(struct sl_ledger *l) {
    if (!l)
        return;
    sl_ledger_forget_pass(l);
    sl_ledger_store_close(l);
    free(l->ops);
    free(l->dir);
    free(l->file);
    free(l);
}

enum sl_ledger_state sl_ledger_state(const struct sl_ledger *l) {
    return l->state;
}
const char *sl_ledger_reason(const struct sl_ledger *l) {
    return l->reason;
}
uint64_t sl_ledger_corrupt_records(const struct sl_ledger *l) {
    return l->corrupt;
}

/* ---- Collecting the pass ---- */

void sl_ledger_forget_pass(struct sl_ledger *l) {
    for (size_t i = 0; i < l->op_count; i++) {
        free(l->ops[i].uid);
        free(l->ops[i].why);
        sl_record_done(&l->ops[i].held);
    }
    l->op_count = 0;
    l->refused = (struct sl_err)SL_ERR_INIT;
}

void sl_ledger_begin(struct sl_ledger *l, int64_t now_ms) {
    sl_ledger_forget_pass(l);
    l->pass_ms = now_ms;
}

static void refuse(struct sl_ledger *l, const struct sl_err *err) {
    if (!l->refused.code)
        l->refused = *err;
}

/* The next op, or NULL when the ledger cannot use it or it makes no sense. */
static struct sl_ledger_op *new_op(struct sl_ledger *l, enum sl_ledger_op_kind kind, const char *uid) {
    if (!l->env)
        return NULL;
    struct sl_err err = SL_ERR_INIT;
    if (!uid || !*uid)
        sl_err_set(&err, SL_INVALID, "ledger: uid is empty");
    else if (strlen(uid) > SL_LEDGER_MAX_UID)
        sl_err_set(&err, SL_INVALID, "ledger: uid \"%.60s...\" is longer than %d bytes", uid, SL_LEDGER_MAX_UID);
    else if (l->op_count >= MAX_OPS)
        sl_err_set(&err, SL_INVALID, "ledger: more than %d changes in one pass", MAX_OPS);
    if (err.code) {
        refuse(l, &err);
        return NULL;
    }
    SL_GROW(l->ops, l->op_cap, l->op_count);
    struct sl_ledger_op *op = &l->ops[l->op_count++];
    *op = (struct sl_ledger_op){.kind = kind, .uid = sl_xstrdup(uid)};
    return op;
}

void sl_ledger_reserve(struct sl_ledger *l, const struct sl_ledger_reservation *r) {
    struct sl_ledger_reservation dated = *r;
    if (!dated.since_ms)
        dated.since_ms = l->pass_ms;
    struct sl_record held;
    struct sl_err err = SL_ERR_INIT;
    if (!l->env)
        return;
    if (sl_record_from(&dated, &held, &err)) {
        refuse(l, &err);
        return;
    }
    struct sl_ledger_op *op = new_op(l, SL_OP_RESERVE, r->uid);
    if (op)
        op->held = held;
    else
        sl_record_done(&held);
}

void sl_ledger_release(struct sl_ledger *l, const char *uid, const char *why) {
    struct sl_ledger_op *op = new_op(l, SL_OP_RELEASE, uid);
    if (op)
        op->why = sl_xstrdup(why ? why : "");
}

void sl_ledger_outcome(struct sl_ledger *l, const char *uid, enum sl_ledger_outcome outcome) {
    struct sl_ledger_op *op = new_op(l, SL_OP_OUTCOME, uid);
    if (op)
        op->value = (unsigned)outcome < SL_LEDGER__OUTCOMES ? outcome : SL_LEDGER_UNKNOWN;
}

void sl_ledger_requeue_timer(struct sl_ledger *l, const char *uid, int64_t at_ms) {
    struct sl_ledger_op *op = new_op(l, SL_OP_TIMER, uid);
    if (op)
        op->value = at_ms;
}

/* ---- Applying it; everything below returns 0 or an LMDB code ---- */

struct apply {
    struct sl_ledger *l;
    MDB_txn *txn;
    uint64_t next_sequence;
    size_t added; /* history entries */
    bool dirty;
};

/* MDB_NOTFOUND when there is none or only a corrupt one (which is counted). */
static int get(struct apply *a, enum sl_ledger_db db, enum sl_record_kind kind, MDB_val key, struct sl_record *ret) {
    MDB_val value;
    int rc = mdb_get(a->txn, a->l->db[db], &key, &value);
    if (rc)
        return rc;
    struct sl_err err = SL_ERR_INIT;
    if (sl_record_decode(kind, key.mv_data, key.mv_size, value.mv_data, value.mv_size, ret, &err)) {
        sl_ledger_store_count_corrupt(a->l, err.text);
        return MDB_NOTFOUND;
    }
    return 0;
}

static int put(struct apply *a, enum sl_ledger_db db, enum sl_record_kind kind, MDB_val key,
               const struct sl_record *rec, unsigned flags) {
    SL_AUTO_BUF b = SL_BUF_INIT(SL_RECORD_MAX_BYTES);
    /* Everything that arrives here was encoded once before (sl_ledger_reserve) or read, so it can be encoded again. */
    SL_ASSERT(sl_record_encode(kind, key.mv_data, key.mv_size, rec, &b, NULL) == 0);
    MDB_val value = {b.len, b.data};
    int rc = mdb_put(a->txn, a->l->db[db], &key, &value, flags);
    if (!rc)
        a->dirty = true;
    return rc;
}

static int del(struct apply *a, enum sl_ledger_db db, MDB_val key) {
    int rc = mdb_del(a->txn, a->l->db[db], &key, NULL);
    if (rc == MDB_NOTFOUND)
        return 0;
    a->dirty = a->dirty || !rc;
    return rc;
}

static MDB_val text_key(const char *text) {
    return (MDB_val){strlen(text), (void *)(uintptr_t)text};
}

static int put_history(struct apply *a, bool took, const struct sl_ledger_reservation *r, const char *why,
                       int64_t held_ms) {
    struct sl_record rec = {.entry = {.took = took, .held_ms = held_ms, .r = *r}};
    rec.entry.r.why = why;
    int rc;
    do { /* the key is taken only if the stored sequence number was lost */
        unsigned char key[16];
        sl_be64_put(key, (uint64_t)a->l->pass_ms);
        sl_be64_put(key + 8, a->next_sequence++);
        rc = put(a, SL_DB_HISTORY, SL_RECORD_HISTORY, (MDB_val){sizeof key, key}, &rec, MDB_NOOVERWRITE);
    } while (rc == MDB_KEYEXIST);
    if (!rc)
        a->added++;
    return rc;
}

/* Queue, flavor and resource together may be longer than a key: then cut, with a hash of the whole behind it. */
static size_t usage_key(const char *queue, const struct sl_ledger_amount *amount, unsigned char *key, size_t size) {
    SL_AUTO_BUF b = SL_BUF_INIT(4096);
    sl_buf_add(&b, queue, strlen(queue) + 1);
    sl_buf_add(&b, amount->flavor, strlen(amount->flavor) + 1);
    sl_buf_puts(&b, amount->resource);
    if (b.len <= USAGE_KEY_PREFIX) {
        memcpy(key, b.data, b.len);
        return b.len;
    }
    uint64_t hash = 0xcbf29ce484222325ull; /* FNV-1a */
    for (size_t i = 0; i < b.len; i++)
        hash = (hash ^ (unsigned char)b.data[i]) * 0x100000001b3ull;
    SL_ASSERT(size >= USAGE_KEY_PREFIX + 8);
    memcpy(key, b.data, USAGE_KEY_PREFIX);
    sl_be64_put(key + USAGE_KEY_PREFIX, hash);
    return USAGE_KEY_PREFIX + 8;
}

static int add_usage(struct apply *a, const struct sl_ledger_reservation *r, int64_t held_ms) {
    for (size_t i = 0; i < r->amount_count; i++) {
        const struct sl_ledger_amount *amount = &r->amounts[i];
        if (!amount->gpu || !held_ms)
            continue;
        unsigned char bytes[500];
        MDB_val key = {usage_key(r->cluster_queue, amount, bytes, sizeof bytes), bytes};
        SL_AUTO_RECORD old = {.value = 0};
        int rc = get(a, SL_DB_USAGE, SL_RECORD_USAGE, key, &old);
        if (rc && rc != MDB_NOTFOUND)
            return rc;
        struct sl_ledger_amount one = *amount; /* only its names count */
        struct sl_record rec = {.value = sl_sat_add(old.value, sl_sat_mul(amount->amount, held_ms)),
                                .entry.r = {.cluster_queue = r->cluster_queue, .amounts = &one, .amount_count = 1}};
        rc = put(a, SL_DB_USAGE, SL_RECORD_USAGE, key, &rec, 0);
        if (rc)
            return rc;
    }
    return 0;
}

static int give_back(struct apply *a, const struct sl_ledger_reservation *held, const char *why) {
    int64_t held_ms = sl_sat_sub(a->l->pass_ms, held->since_ms);
    if (held_ms < 0) /* the clock was set back */
        held_ms = 0;
    int rc = put_history(a, false, held, why, held_ms);
    return rc ? rc : add_usage(a, held, held_ms);
}

static int apply_reserve(struct apply *a, const struct sl_ledger_op *op) {
    SL_AUTO_RECORD old = {.value = 0};
    MDB_val key = text_key(op->uid);
    int rc = get(a, SL_DB_HELD, SL_RECORD_HELD, key, &old);
    if (rc && rc != MDB_NOTFOUND)
        return rc;
    if (rc == 0 && sl_record_same_holding(&old.entry.r, &op->held.entry.r)) {
        if (old.entry.r.outcome == op->held.entry.r.outcome)
            return 0;
        old.entry.r.outcome = op->held.entry.r.outcome;
        return put(a, SL_DB_HELD, SL_RECORD_HELD, key, &old, 0);
    }
    if (rc == 0)
        rc = give_back(a, &old.entry.r, op->held.entry.r.why);
    else
        rc = 0;
    if (!rc)
        rc = put(a, SL_DB_HELD, SL_RECORD_HELD, key, &op->held, 0);
    return rc ? rc : put_history(a, true, &op->held.entry.r, op->held.entry.r.why, 0);
}

static int apply_release(struct apply *a, const struct sl_ledger_op *op) {
    SL_AUTO_RECORD old = {.value = 0};
    MDB_val key = text_key(op->uid);
    int rc = get(a, SL_DB_HELD, SL_RECORD_HELD, key, &old);
    if (rc && rc != MDB_NOTFOUND)
        return rc;
    if (rc == 0)
        rc = give_back(a, &old.entry.r, op->why);
    else
        rc = 0;
    return rc ? rc : del(a, SL_DB_HELD, key);
}

static int apply_outcome(struct apply *a, const struct sl_ledger_op *op) {
    SL_AUTO_RECORD old = {.value = 0};
    MDB_val key = text_key(op->uid);
    int rc = get(a, SL_DB_HELD, SL_RECORD_HELD, key, &old);
    if (rc)
        return rc == MDB_NOTFOUND ? 0 : rc;
    if (old.entry.r.outcome == (enum sl_ledger_outcome)op->value)
        return 0;
    old.entry.r.outcome = (enum sl_ledger_outcome)op->value;
    return put(a, SL_DB_HELD, SL_RECORD_HELD, key, &old, 0);
}

static int apply_timer(struct apply *a, const struct sl_ledger_op *op) {
    MDB_val key = text_key(op->uid);
    if (!op->value)
        return del(a, SL_DB_TIMERS, key);
    SL_AUTO_RECORD old = {.value = 0};
    int rc = get(a, SL_DB_TIMERS, SL_RECORD_TIMER, key, &old);
    if (rc && rc != MDB_NOTFOUND)
        return rc;
    if (rc == 0 && old.value == op->value)
        return 0;
    struct sl_record rec = {.value = op->value};
    return put(a, SL_DB_TIMERS, SL_RECORD_TIMER, key, &rec, 0);
}

/* Does the data take more than three quarters of what the file may grow to? A commit needs room beside it: it copies
 * what it changes. */
static int is_crowded(struct apply *a, bool *ret) {
    MDB_stat stat;
    size_t pages = 0;
    int rc = mdb_env_stat(a->l->env, &stat);
    for (size_t i = 0; i < SL_DB__COUNT && !rc; i++) {
        rc = mdb_stat(a->txn, a->l->db[i], &stat);
        pages += stat.ms_branch_pages + stat.ms_leaf_pages + stat.ms_overflow_pages;
    }
    if (!rc)
        *ret = pages > a->l->o.map_max_bytes / stat.ms_psize / 4 * 3;
    return rc;
}

/* Deletes from the old end: at most budget entries that are too old or too many; up to twice what was added (and a few)
 * when the file is crowded; exactly budget, if there are so many, when forced. */
static int prune(struct apply *a, int64_t now_ms, size_t budget, bool force) {
    struct sl_ledger *l = a->l;
    MDB_stat stat;
    MDB_cursor *cursor;
    bool crowded = false;
    int rc = mdb_stat(a->txn, l->db[SL_DB_HISTORY], &stat);
    if (!rc)
        rc = is_crowded(a, &crowded);
    if (!rc)
        rc = mdb_cursor_open(a->txn, l->db[SL_DB_HISTORY], &cursor);
    if (rc)
        return rc;
    MDB_val key, value;
    size_t left = stat.ms_entries, make_room = force ? budget : crowded ? a->added * 2 + 16 : 0;
    int64_t oldest = sl_sat_sub(now_ms, l->o.history_age_ms);
    for (size_t n = 0; (n < budget || n < make_room) && (rc = mdb_cursor_get(cursor, &key, &value, MDB_FIRST)) == 0;
         n++, left--) {
        bool due = key.mv_size != 16 || left > l->o.history_entries || (int64_t)sl_be64_get(key.mv_data) < oldest;
        if (!due && n >= make_room)
            break;
        rc = mdb_cursor_del(cursor, 0);
        if (rc)
            break;
        a->dirty = true;
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

static int store_sequence(struct apply *a) {
    struct sl_record rec = {.value = (int64_t)a->next_sequence};
    return put(a, SL_DB_META, SL_RECORD_META, text_key("sequence"), &rec, 0);
}

static int apply_all(struct apply *a) {
    static int (*const apply[])(struct apply *, const struct sl_ledger_op *) = {apply_reserve, apply_release,
                                                                                apply_outcome, apply_timer};
    int rc = 0;
    for (size_t i = 0; i < a->l->op_count && !rc; i++)
        rc = apply[a->l->ops[i].kind](a, &a->l->ops[i]);
    if (!rc && a->added)
        rc = store_sequence(a);
    size_t budget = a->l->o.prune_per_commit;
    if (a->added * 2 > budget)
        budget = a->added * 2; /* more than comes in, or it would grow without end */
    return rc || !a->dirty ? rc : prune(a, a->l->pass_ms, budget, false);
}

/* Ends the transaction of a; committed tells whether anything was to commit. */
static int finish(struct apply *a, int rc) {
    if (rc || !a->dirty) {
        mdb_txn_abort(a->txn);
        return rc;
    }
    rc = mdb_txn_commit(a->txn);
    if (!rc) {
        a->l->next_sequence = a->next_sequence;
        sl_metric_add(SL_M_SLUICE_LEDGER_COMMITS_TOTAL, 1, SL_LABELS());
    }
    return rc;
}

static int commit_once(struct sl_ledger *l) {
    struct apply a = {.l = l, .next_sequence = l->next_sequence};
    int rc = mdb_txn_begin(l->env, NULL, 0, &a.txn);
    return rc ? rc : finish(&a, apply_all(&a));
}

static int prune_once(struct sl_ledger *l, int64_t now_ms, size_t budget, bool force) {
    struct apply a = {.l = l, .next_sequence = l->next_sequence};
    int rc = mdb_txn_begin(l->env, NULL, 0, &a.txn);
    if (rc)
        return rc;
    rc = prune(&a, now_ms, budget, force);
    if (!rc && force)
        rc = store_sequence(&a); /* so that something is written in any case */
    return finish(&a, rc);
}

int sl_ledger_prune_now(struct sl_ledger *l, int64_t now_ms, bool force) {
    l->prune_at = now_ms + PRUNE_EVERY_MS;
    int rc = MDB_MAP_FULL;
    /* deleting copies pages too: with less and less it may still fit */
    for (size_t budget = l->o.prune_per_commit; rc == MDB_MAP_FULL && budget; budget /= 8)
        rc = prune_once(l, now_ms, budget, force);
    return rc;
}

int sl_ledger_commit(struct sl_ledger *l, struct sl_err *err) {
    if (l->state == SL_LEDGER_OFF)
        return 0;
    struct sl_err refused = l->refused;
    int rc = 0;
    if (!l->env || l->op_count)
        rc = sl_ledger_store_check(l, err);
    if (!rc && l->op_count && l->o.read_only)
        rc = sl_err_set(err, SL_UNAVAILABLE, "the ledger is open for reading only");
    bool may_prune = true;
    while (!rc && l->op_count) {
        rc = commit_once(l);
        if (rc == MDB_MAP_FULL && sl_ledger_store_grow(l)) {
            rc = 0;
            continue;
        }
        if (rc == MDB_MAP_FULL && may_prune) {
            may_prune = false; /* old history makes room for present holdings, once */
            rc = sl_ledger_prune_now(l, l->pass_ms, true);
            if (!rc)
                continue;
        }
        if (rc)
            rc = sl_ledger_store_fail(l, rc, "committing a pass", err);
        break;
    }
    sl_ledger_forget_pass(l);
    if (rc || !refused.code)
        return rc;
    if (err)
        *err = refused;
    return refused.code;
}
