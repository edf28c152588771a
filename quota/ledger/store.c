/*
 * Life of the environment: opening, going down, coming back.
 *
 *   state            cause                                              what brings it back
 *   OPEN             directory, lock held by another process            tick: open again
 *   FULL             ENOSPC, or the map at its cap                      tick: open again, prune, prove that a commit
 * works READONLY         EACCES, EROFS, EPERM                               tick: open again CORRUPT verification or
 * LMDB found damage; moved aside     tick: a new file IO               everything else; the file vanished tick: open
 * again
 *
 * Invariant: env is open exactly while the state is UP, and every failure closes it, so no broken environment is used a
 * second time (after a failed meta write LMDB would only say MDB_PANIC anyway).
 */
#include "internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sluice/base/log.h"
#include "sluice/base/mem.h"
#include "sluice/base/metrics.h"
#include "verify.h"

#define BACKOFF_FIRST_MS 1000
#define BACKOFF_MAX_MS   60000
#define STEADY_MS        300000 /* up for so long: the next failure begins with the first backoff again */
#define CORRUPT_KEPT     2
#define CORRUPT_PREFIX   "data.mdb.corrupt-"
#define BATCH_RECORDS    256
#define BATCH_BYTES      (1u << 20)

static const char *const state_texts[] = {"up", "off", "open", "full", "readonly", "corrupt", "io"};

const char *sl_ledger_state_text(enum sl_ledger_state s) {
    return (unsigned)s < SL_LEDGER__STATES ? state_texts[s] : "unknown";
}

void sl_ledger_store_close(struct sl_ledger *l) {
    if (l->env)
        mdb_env_close(l->env);
    l->env = NULL;
    if (l->owner_fd >= 0)
        close(l->owner_fd);
    l->owner_fd = -1;
}

/* Oldest first: the time in the name has a fixed width. */
static int compare_names(const void *a, const void *b) {
    const char *x, *y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return strcmp(x, y);
}

static void keep_few_corrupt(const struct sl_ledger *l) {
    DIR *dir = opendir(l->dir);
    if (!dir)
        return;
    char **names = NULL;
    size_t n = 0, cap = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        if (strncmp(e->d_name, CORRUPT_PREFIX, strlen(CORRUPT_PREFIX)))
            continue;
        SL_GROW(names, cap, n);
        names[n++] = sl_xstrdup(e->d_name);
    }
    closedir(dir);
    if (n)
        qsort(names, n, sizeof *names, compare_names);
    for (size_t i = 0; i < n; i++) {
        if (i + CORRUPT_KEPT < n) {
            SL_AUTO_FREE char *path = sl_xprintf("%s/%s", l->dir, names[i]);
            (void)unlink(path);
        }
        free(names[i]);
    }
    free(names);
}

/* False when the file cannot be moved: then it stays and the ledger stays down. */
static bool move_aside(struct sl_ledger *l, int64_t now_ms) {
    SL_AUTO_FREE char *to = sl_xprintf("%s/" CORRUPT_PREFIX "%015lld", l->dir, (long long)now_ms);
    for (int i = 1; access(to, F_OK) == 0 && i < 100; i++) {
        free(to);
        to = sl_xprintf("%s/" CORRUPT_PREFIX "%015lld-%02d", l->dir, (long long)now_ms, i);
    }
    bool moved = rename(l->file, to) == 0;
    keep_few_corrupt(l);
    return moved;
}

static void say(struct sl_ledger *l, enum sl_ledger_state state, const char *text) {
    snprintf(l->reason, sizeof l->reason, "%s", text);
    if (l->state != state || !l->said)
        SL_LOG(WARN, "ledger is down, decisions go on without it", SL_STR("cause", sl_ledger_state_text(state)),
               SL_STR("dir", l->dir), SL_STR("reason", text));
    l->said = true;
    l->state = state;
    sl_metric_add(SL_M_SLUICE_LEDGER_ERRORS_TOTAL, 1, SL_LABELS(sl_ledger_state_text(state)));
    sl_metric_set(SL_M_SLUICE_LEDGER_UP, 0, SL_LABELS());
}

int sl_ledger_store_down(struct sl_ledger *l, enum sl_ledger_state state, struct sl_err *err, const char *format, ...) {
    char text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    bool was_up = l->env != NULL;
    sl_ledger_store_close(l);
    say(l, state, text);
    if (was_up)
        l->retry_at = 0; /* the tick counts from its own time */
    return sl_err_set(err, SL_UNAVAILABLE, "ledger is down (%s): %s", sl_ledger_state_text(state), text);
}

int sl_ledger_store_fail(struct sl_ledger *l, int rc, const char *doing, struct sl_err *err) {
    enum sl_ledger_state state = SL_LEDGER_IO;
    switch (rc) {
    case MDB_MAP_FULL:
    case ENOSPC:
    case EDQUOT:
    case EFBIG: state = SL_LEDGER_FULL; break;
    case EACCES:
    case EROFS:
    case EPERM: state = SL_LEDGER_READONLY; break;
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH:
    case MDB_INCOMPATIBLE:
    case MDB_CURSOR_FULL:
    case MDB_BAD_TXN: state = SL_LEDGER_CORRUPT; break;
    default: break;
    }
    int answer = sl_ledger_store_down(l, state, err, "%s: %s", doing, mdb_strerror(rc));
    if (err)
        err->sys = rc;
    /* Verification may have accepted what LMDB did not: without moving it away it would be opened again and again. */
    if (state == SL_LEDGER_CORRUPT && !l->o.read_only)
        (void)move_aside(l, l->pass_ms);
    return answer;
}

void sl_ledger_store_count_corrupt(struct sl_ledger *l, const char *what) {
    l->corrupt++;
    sl_metric_add(SL_M_SLUICE_LEDGER_ERRORS_TOTAL, 1, SL_LABELS(sl_ledger_state_text(SL_LEDGER_CORRUPT)));
    SL_LOG(DEBUG, "ledger record skipped", SL_STR("reason", what));
}

/* Takes the lock that keeps other writers out. For reading: *writer tells whether somebody writes now. 0 or errno. */
static int take_lock(struct sl_ledger *l, bool *writer) {
    SL_AUTO_FREE char *path = sl_xprintf("%s/owner.lock", l->dir);
    *writer = false;
    int fd = open(path, (l->o.read_only ? O_RDONLY : O_RDWR | O_CREAT) | O_CLOEXEC, 0600);
    if (fd < 0)
        return l->o.read_only ? 0 : errno; /* never had a writer of this version: nobody to be careful of */
    if (flock(fd, (l->o.read_only ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
        int e = errno;
        close(fd);
        *writer = true;
        return l->o.read_only ? 0 : e;
    }
    l->owner_fd = fd;
    return 0;
}

static bool prepare_file(struct sl_ledger *l, int64_t now_ms) {
    if (!l->o.read_only && mkdir(l->dir, 0700) != 0 && errno != EEXIST) {
        int e = errno;
        bool denied = e == EACCES || e == EROFS || e == EPERM;
        sl_ledger_store_down(l,
                             e == ENOSPC ? SL_LEDGER_FULL
                             : denied    ? SL_LEDGER_READONLY
                                         : SL_LEDGER_OPEN,
                             NULL, "%s: %s", l->dir, strerror(e));
        return false;
    }
    bool writer;
    int e = take_lock(l, &writer);
    if (e) {
        bool denied = e == EACCES || e == EROFS || e == EPERM;
        sl_ledger_store_down(l,
                             e == ENOSPC ? SL_LEDGER_FULL
                             : denied    ? SL_LEDGER_READONLY
                                         : SL_LEDGER_OPEN,
                             NULL, "%s: %s", l->dir, e == EWOULDBLOCK ? "in use by another process" : strerror(e));
        return false;
    }
    if (writer)
        return true; /* reading beside the writer, who has verified the file; its pages move while we would look */
    struct sl_err err = SL_ERR_INIT;
    int rc = sl_ledger_verify_file(l->file, &err);
    if (rc == SL_CORRUPT && !l->o.read_only) {
        say(l, SL_LEDGER_CORRUPT, err.text);
        if (move_aside(l, now_ms))
            return true;
        sl_ledger_store_down(l, SL_LEDGER_CORRUPT, NULL, "%.150s; it cannot be moved aside", err.text);
        return false;
    }
    if (rc == 0 || (rc == SL_NOT_FOUND && !l->o.read_only))
        return true;
    sl_ledger_store_down(l,
                         rc == SL_CORRUPT     ? SL_LEDGER_CORRUPT
                         : rc == SL_NOT_FOUND ? SL_LEDGER_OPEN
                                              : SL_LEDGER_IO,
                         NULL, "%s", err.text);
    return false;
}

static int open_databases(struct sl_ledger *l) {
    static const char *const names[] = {"held", "timers", "history", "usage", "meta"};
    MDB_txn *txn;
    int rc = mdb_txn_begin(l->env, NULL, l->o.read_only ? MDB_RDONLY : 0, &txn);
    if (rc)
        return rc;
    for (size_t i = 0; i < SL_DB__COUNT && !rc; i++)
        rc = mdb_dbi_open(txn, names[i], l->o.read_only ? 0 : MDB_CREATE, &l->db[i]);
    MDB_val key = {8, (void *)(uintptr_t) "sequence"}, value;
    l->next_sequence = 1;
    if (!rc && mdb_get(txn, l->db[SL_DB_META], &key, &value) == 0) {
        SL_AUTO_RECORD rec = {.value = 0};
        if (sl_record_decode(SL_RECORD_META, key.mv_data, key.mv_size, value.mv_data, value.mv_size, &rec, NULL) == 0)
            l->next_sequence = (uint64_t)rec.value;
        else
            sl_ledger_store_count_corrupt(l, "sequence");
    }
    if (rc) {
        mdb_txn_abort(txn);
        return rc;
    }
    return mdb_txn_commit(txn);
}

/* Remembers which file this is and how large it was seen. */
static int look_at_file(struct sl_ledger *l) {
    int fd;
    struct stat st;
    int rc = mdb_env_get_fd(l->env, &fd);
    if (rc)
        return rc;
    if (fstat(fd, &st) != 0)
        return errno;
    l->dev = st.st_dev;
    l->ino = st.st_ino;
    l->size_seen = st.st_size;
    return 0;
}

static int open_environment(struct sl_ledger *l) {
    struct stat st;
    l->map_bytes = l->o.map_bytes;
    if (stat(l->file, &st) == 0) /* a file that grew under larger limits must still fit */
        while (l->map_bytes < (size_t)st.st_size)
            l->map_bytes *= 2;
    int rc = mdb_env_create(&l->env);
    if (rc) {
        l->env = NULL;
        return rc;
    }
    rc = mdb_env_set_mapsize(l->env, l->map_bytes);
    if (!rc)
        rc = mdb_env_set_maxdbs(l->env, SL_DB__COUNT);
    if (!rc)
        rc = mdb_env_open(l->env, l->dir, MDB_NOTLS | (l->o.read_only ? MDB_RDONLY : 0), 0600);
    int dead;
    if (!rc)
        rc = mdb_reader_check(l->env, &dead); /* slots of processes that were killed */
    if (!rc)
        rc = open_databases(l);
    return rc ? rc : look_at_file(l);
}

bool sl_ledger_store_open(struct sl_ledger *l, int64_t now_ms) {
    enum sl_ledger_state before = l->state;
    bool was_said = l->said;
    l->pass_ms = now_ms;
    if (!prepare_file(l, now_ms))
        return false;
    int rc = open_environment(l);
    if (!rc && before == SL_LEDGER_FULL && was_said &&
        !l->o.read_only) /* opening needs no space: prove that writing works before saying so */
        rc = sl_ledger_prune_now(l, now_ms, true);
    if (rc) {
        if (rc == MDB_INVALID ||
            rc == MDB_VERSION_MISMATCH) /* the data file passed; the lock file is of another program or version */
            sl_ledger_store_down(l, SL_LEDGER_OPEN, NULL, "%s: lock.mdb: %s", l->dir, mdb_strerror(rc));
        else
            sl_ledger_store_fail(l, rc, l->dir, NULL);
        return false;
    }
    if (l->o.read_only && l->owner_fd >= 0) { /* it only kept writers out during the verification */
        close(l->owner_fd);
        l->owner_fd = -1;
    }
    if (l->said)
        SL_LOG(INFO, "ledger is up", SL_STR("dir", l->dir));
    l->state = SL_LEDGER_UP;
    l->said = false;
    l->reason[0] = 0;
    l->up_since = now_ms;
    l->prune_at = now_ms;
    sl_metric_set(SL_M_SLUICE_LEDGER_UP, 1, SL_LABELS());
    return true;
}

int sl_ledger_store_check(struct sl_ledger *l, struct sl_err *err) {
    if (l->state == SL_LEDGER_OFF)
        return sl_err_set(err, SL_UNAVAILABLE, "there is no ledger");
    if (!l->env)
        return sl_err_set(err, SL_UNAVAILABLE, "ledger is down (%s): %s", sl_ledger_state_text(l->state), l->reason);
    int fd;
    struct stat open_file, named;
    if (mdb_env_get_fd(l->env, &fd) || fstat(fd, &open_file) != 0)
        return sl_ledger_store_down(l, SL_LEDGER_IO, err, "%s: cannot be examined", l->file);
    if (stat(l->file, &named) != 0 || named.st_ino != l->ino || named.st_dev != l->dev)
        return sl_ledger_store_down(l, SL_LEDGER_IO, err, "%s vanished while in use", l->file);
    if (open_file.st_size < l->size_seen) {
        off_t size = open_file.st_size, seen = l->size_seen;
        int rc = sl_ledger_store_down(l, SL_LEDGER_CORRUPT, err, "%s was cut from %lld to %lld bytes while in use",
                                      l->file, (long long)seen, (long long)size);
        if (!l->o.read_only)
            (void)move_aside(l, l->pass_ms);
        return rc;
    }
    l->size_seen = open_file.st_size;
    return 0;
}

bool sl_ledger_store_grow(struct sl_ledger *l) {
    if (l->map_bytes >= l->o.map_max_bytes)
        return false;
    size_t larger = l->map_bytes > l->o.map_max_bytes / 2 ? l->o.map_max_bytes : l->map_bytes * 2;
    if (mdb_env_set_mapsize(l->env, larger))
        return false;
    l->map_bytes = larger;
    return true;
}

/* ---- Coming back ---- */

bool sl_ledger_tick(struct sl_ledger *l, int64_t now_ms) {
    if (l->state == SL_LEDGER_OFF)
        return false;
    if (l->env && sl_ledger_store_check(l, NULL) == 0 && now_ms >= l->prune_at && !l->op_count && !l->o.read_only) {
        int rc = sl_ledger_prune_now(l, now_ms, false);
        if (rc)
            sl_ledger_store_fail(l, rc, "pruning", NULL);
    }
    if (l->env) {
        if (now_ms - l->up_since > STEADY_MS)
            l->backoff_ms = 0;
    } else {
        if (!l->backoff_ms)
            l->backoff_ms = BACKOFF_FIRST_MS;
        if (!l->retry_at || l->retry_at > now_ms + l->backoff_ms) /* just went down, or the clock was set back */
            l->retry_at = now_ms + l->backoff_ms;
        if (now_ms >= l->retry_at) {
            l->backoff_ms = l->backoff_ms * 2 > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : l->backoff_ms * 2;
            l->retry_at = now_ms + l->backoff_ms;
            if (sl_ledger_store_open(l, now_ms))
                l->wants_reconcile = true;
        }
    }
    bool wants = l->env && l->wants_reconcile;
    if (wants)
        l->wants_reconcile = false;
    return wants;
}

/* ---- Batches ---- */

void sl_ledger_batch_done(struct sl_ledger_batch *b) {
    sl_buf_done(&b->bytes);
    free(b->raw);
    b->raw = NULL;
}

/* Positions the cursor at the first record of the batch. */
static int first_record(MDB_cursor *cursor, const struct sl_ledger_batch *b, MDB_val *key, MDB_val *value) {
    if (!b->has_start)
        return mdb_cursor_get(cursor, key, value, b->descending ? MDB_LAST : MDB_FIRST);
    *key = (MDB_val){b->start_len, (void *)(uintptr_t)b->start};
    int rc = mdb_cursor_get(cursor, key, value, MDB_SET_RANGE);
    if (b->descending) {
        if (rc == MDB_NOTFOUND)
            return mdb_cursor_get(cursor, key, value, MDB_LAST); /* every key is smaller */
        bool exact = rc == 0 && key->mv_size == b->start_len && !memcmp(key->mv_data, b->start, b->start_len);
        return rc || (exact && !b->exclusive) ? rc : mdb_cursor_get(cursor, key, value, MDB_PREV);
    }
    if (rc == 0 && b->exclusive && key->mv_size == b->start_len && !memcmp(key->mv_data, b->start, b->start_len))
        return mdb_cursor_get(cursor, key, value, MDB_NEXT);
    return rc;
}

int sl_ledger_batch_next(struct sl_ledger *l, enum sl_ledger_db db, struct sl_ledger_batch *b, struct sl_err *err) {
    b->count = 0;
    sl_buf_clear(&b->bytes);
    int rc = sl_ledger_store_check(l, err);
    if (rc)
        return rc;
    MDB_txn *txn;
    MDB_cursor *cursor;
    rc = mdb_txn_begin(l->env, NULL, MDB_RDONLY, &txn);
    if (rc)
        return sl_ledger_store_fail(l, rc, "reading", err);
    rc = mdb_cursor_open(txn, l->db[db], &cursor);
    if (!rc) {
        MDB_val key, value;
        for (rc = first_record(cursor, b, &key, &value);
             rc == 0 && b->count < BATCH_RECORDS && b->bytes.len < BATCH_BYTES;
             rc = mdb_cursor_get(cursor, &key, &value, b->descending ? MDB_PREV : MDB_NEXT)) {
            size_t value_len =
                value.mv_size > SL_RECORD_MAX_BYTES ? 0 : value.mv_size; /* nothing we wrote: decoding refuses it */
            SL_GROW(b->raw, b->cap, b->count);
            b->raw[b->count++] =
                (struct sl_ledger_raw){b->bytes.len, key.mv_size, b->bytes.len + key.mv_size, value_len};
            sl_buf_add(&b->bytes, key.mv_data, key.mv_size);
            sl_buf_add(&b->bytes, value.mv_data, value_len);
        }
        mdb_cursor_close(cursor);
    }
    mdb_txn_abort(txn);
    if (rc && rc != MDB_NOTFOUND)
        return sl_ledger_store_fail(l, rc, "reading", err);
    rc = sl_buf_check(&b->bytes, err);
    if (rc || !b->count)
        return rc;
    const struct sl_ledger_raw *last = &b->raw[b->count - 1];
    b->start_len = last->key_len < sizeof b->start ? last->key_len : sizeof b->start;
    memcpy(b->start, b->bytes.data + last->key, b->start_len);
    b->has_start = b->exclusive = true;
    return 0;
}

bool sl_ledger_batch_decode(struct sl_ledger *l, const struct sl_ledger_batch *b, size_t i, enum sl_record_kind kind,
                            struct sl_record *ret) {
    const struct sl_ledger_raw *r = &b->raw[i];
    struct sl_err err = SL_ERR_INIT;
    if (sl_record_decode(kind, b->bytes.data + r->key, r->key_len, b->bytes.data + r->value, r->value_len, ret, &err) ==
        0)
        return true;
    sl_ledger_store_count_corrupt(l, err.text);
    return false;
}
