/* Load and reconcile. Records are read in batches, each copied out of a short transaction before a callback sees it. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/base/map.h"
#include "sluice/base/mem.h"

int sl_ledger_load(struct sl_ledger *l, bool (*fn)(void *payload, const struct sl_ledger_reservation *r), void *payload,
                   struct sl_err *err) {
    SL_AUTO_BATCH b = SL_LEDGER_BATCH_INIT;
    for (;;) {
        int rc = sl_ledger_batch_next(l, SL_DB_HELD, &b, err);
        if (rc || !b.count)
            return rc;
        for (size_t i = 0; i < b.count; i++) {
            SL_AUTO_RECORD rec = {.value = 0};
            if (sl_ledger_batch_decode(l, &b, i, SL_RECORD_HELD, &rec) && !fn(payload, &rec.entry.r))
                return 0;
        }
    }
}

int sl_ledger_load_timers(struct sl_ledger *l, bool (*fn)(void *payload, const char *uid, int64_t at_ms), void *payload,
                          struct sl_err *err) {
    SL_AUTO_BATCH b = SL_LEDGER_BATCH_INIT;
    for (;;) {
        int rc = sl_ledger_batch_next(l, SL_DB_TIMERS, &b, err);
        if (rc || !b.count)
            return rc;
        for (size_t i = 0; i < b.count; i++) {
            SL_AUTO_RECORD rec = {.value = 0};
            if (!sl_ledger_batch_decode(l, &b, i, SL_RECORD_TIMER, &rec))
                continue;
            SL_AUTO_FREE char *uid = sl_xstrndup(b.bytes.data + b.raw[i].key, b.raw[i].key_len);
            if (!fn(payload, uid, rec.value))
                return 0;
        }
    }
}

/* SL_NOT_FOUND also for a record that is corrupt (counted). */
static int find(struct sl_ledger *l, const char *uid, struct sl_record *ret, struct sl_err *err) {
    int rc = sl_ledger_store_check(l, err);
    if (rc)
        return rc;
    size_t len = strlen(uid);
    if (!len || len > SL_LEDGER_MAX_UID)
        return sl_err_set(err, SL_NOT_FOUND, "ledger: no such uid");
    MDB_txn *txn;
    rc = mdb_txn_begin(l->env, NULL, MDB_RDONLY, &txn);
    if (rc)
        return sl_ledger_store_fail(l, rc, "reading", err);
    MDB_val key = {len, (void *)(uintptr_t)uid}, value;
    rc = mdb_get(txn, l->db[SL_DB_HELD], &key, &value);
    int decoded = rc ? 0 : sl_record_decode(SL_RECORD_HELD, uid, len, value.mv_data, value.mv_size, ret, err);
    mdb_txn_abort(txn);
    if (rc && rc != MDB_NOTFOUND)
        return sl_ledger_store_fail(l, rc, "reading", err);
    if (decoded)
        sl_ledger_store_count_corrupt(l, "reservation");
    return rc || decoded ? sl_err_set(err, SL_NOT_FOUND, "ledger: %s holds nothing", uid) : 0;
}

int sl_ledger_find(struct sl_ledger *l, const char *uid,
                   void (*fn)(void *payload, const struct sl_ledger_reservation *r), void *payload,
                   struct sl_err *err) {
    SL_AUTO_RECORD rec = {.value = 0};
    int rc = find(l, uid, &rec, err);
    if (!rc)
        fn(payload, &rec.entry.r);
    return rc;
}

/* ---- Reconcile ---- */

struct reconcile {
    struct sl_ledger *l;
    const struct sl_ledger_view *view;
    struct sl_map seen;
    size_t differences;
};

static void report(struct reconcile *r, enum sl_ledger_difference d, const struct sl_ledger_reservation *what) {
    r->differences++;
    if (r->view->report)
        r->view->report(r->view->payload, d, what);
}

/* One workload that holds quota in the cluster. */
static int compare(struct reconcile *r, struct sl_ledger_reservation *have, struct sl_err *err) {
    struct sl_ledger *l = r->l;
    SL_AUTO_RECORD wanted = {.value = 0}, held = {.value = 0};
    have->outcome = SL_LEDGER_WRITTEN; /* the API server shows it */
    if (!have->uid || sl_map_has(&r->seen, have->uid))
        return 0;
    sl_map_set(&r->seen, have->uid, NULL);
    if (sl_record_from(have, &wanted, NULL)) {
        sl_ledger_reserve(l, have); /* refuses it again and remembers why */
        return 0;
    }
    int rc = find(l, have->uid, &held, err);
    if (rc && rc != SL_NOT_FOUND)
        return rc;
    if (rc == SL_NOT_FOUND) {
        report(r, SL_LEDGER_RECOVERED, have);
        if (!have->why || !*have->why)
            have->why = "recovered";
        sl_ledger_reserve(l, have);
    } else if (!sl_record_same_holding(&held.entry.r, &wanted.entry.r)) {
        report(r, SL_LEDGER_DIFFERS, have);
        if (!have->why || !*have->why)
            have->why = "differs";
        sl_ledger_reserve(l, have);
    } else if (held.entry.r.outcome != SL_LEDGER_WRITTEN) {
        sl_ledger_outcome(l, have->uid, SL_LEDGER_WRITTEN);
    }
    return 0;
}

static bool release_unseen(void *payload, const struct sl_ledger_reservation *held) {
    struct reconcile *r = payload;
    if (!sl_map_has(&r->seen, held->uid)) {
        report(r, SL_LEDGER_GONE, held);
        sl_ledger_release(r->l, held->uid, "gone");
    }
    return true;
}

int sl_ledger_reconcile(struct sl_ledger *l, int64_t now_ms, const struct sl_ledger_view *view, size_t *ret_differences,
                        struct sl_err *err) {
    struct reconcile r = {.l = l, .view = view, .seen = SL_MAP_INIT};
    if (l->state == SL_LEDGER_OFF) {
        if (ret_differences)
            *ret_differences = 0;
        return 0;
    }
    int rc = sl_ledger_store_check(l, err);
    if (rc)
        return rc;
    sl_ledger_begin(l, now_ms);
    struct sl_ledger_reservation have = {.uid = NULL};
    while (!rc && view->next(view->payload, &have)) {
        rc = compare(&r, &have, err);
        have = (struct sl_ledger_reservation){.uid = NULL};
    }
    if (!rc)
        rc = sl_ledger_load(l, release_unseen, &r, err);
    if (!rc)
        rc = sl_ledger_commit(l, err);
    sl_ledger_forget_pass(l);
    sl_map_done(&r.seen, NULL);
    if (ret_differences && (!rc || rc == SL_INVALID))
        *ret_differences = r.differences;
    return rc;
}
