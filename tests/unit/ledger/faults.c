/* The ledger when things go wrong: killed, full, read-only, corrupt, lost. Nothing may end the process or change what
 * is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "ledger_support.h"

#include "sluice/base/buf.h"
#include "sluice/base/file.h"
#include "sluice/base/log.h"
#include "sluice/base/map.h"
#include "sluice/base/mem.h"
#include "sluice/base/metrics.h"

#define T0 1700000000000ll

static double errors(const char *kind) {
    return sl_metric_get(SL_M_SLUICE_LEDGER_ERRORS_TOTAL, SL_LABELS(kind));
}
static double up(void) {
    return sl_metric_get(SL_M_SLUICE_LEDGER_UP, SL_LABELS());
}

/* Workload i: everything in it follows from its uid, so that whatever is read back can be checked. */
static void reserve(struct sl_ledger *l, int i) {
    char uid[40], why[200];
    snprintf(uid, sizeof uid, "uid-%06d", i);
    snprintf(why, sizeof why, "%0*d", 20 + i % 150, i);
    struct sl_ledger_amount a = {"h100", "nvidia.com/gpu", i + 1, true};
    struct sl_ledger_reservation r = {.uid = uid,
                                      .namespace = "ns",
                                      .name = uid,
                                      .cluster_queue = "q",
                                      .local_queue = "lq",
                                      .why = why,
                                      .amounts = &a,
                                      .amount_count = 1};
    sl_ledger_reserve(l, &r);
}
static void release(struct sl_ledger *l, int i) {
    char uid[40];
    snprintf(uid, sizeof uid, "uid-%06d", i);
    sl_ledger_release(l, uid, "finished");
}
static int reserve_many(struct sl_ledger *l, int64_t now, int from, int to) {
    sl_ledger_begin(l, now);
    for (int i = from; i < to; i++)
        reserve(l, i);
    return sl_ledger_commit(l, NULL);
}

static void check_reservation(const struct sl_ledger_reservation *r) {
    int i = -1;
    if (!strcmp(r->uid, "large")) {
        assert_int_equal(r->amount_count, 200);
        return;
    }
    assert_int_equal(sscanf(r->uid, "uid-%d", &i), 1);
    assert_string_equal(r->name, r->uid);
    assert_int_equal(r->amount_count, 1);
    assert_int_equal(r->amounts[0].amount, i + 1);
    assert_string_equal(r->amounts[0].resource, "nvidia.com/gpu");
}
static bool check_held(void *payload, const struct sl_ledger_reservation *r) {
    check_reservation(r);
    ((struct counted *)payload)->n++;
    return true;
}
static size_t held(struct sl_ledger *l) {
    struct counted n = {0};
    assert_int_equal(sl_ledger_load(l, check_held, &n, NULL), 0);
    return n.n;
}

static char *file_of(const char *dir) {
    return sl_xprintf("%s/data.mdb", dir);
}
static void slurp(const char *path, struct sl_buf *b) {
    assert_int_equal(sl_file_read(path, b, NULL), 0);
}
static void spill(const char *path, const void *data, size_t len) {
    assert_int_equal(sl_file_write(path, data, len, 0600, NULL), 0);
}

static size_t count_files(const char *dir, const char *prefix) {
    size_t n = 0;
    DIR *d = opendir(dir);
    if (!d)
        return 0;
    for (struct dirent *e; (e = readdir(d));)
        n += !strncmp(e->d_name, prefix, strlen(prefix));
    closedir(d);
    return n;
}

/* ---- Killed ---- */

static void write_until_killed(const char *dir, int tell, unsigned seed) {
    sl_log_set_fd(-1);
    struct sl_ledger *l = sl_ledger_open(dir, NULL, T0);
    srandom(seed);
    for (int64_t now = T0;; now++) {
        sl_ledger_begin(l, now);
        for (int i = (int)(random() % 20); i >= 0; i--) {
            if (random() % 2)
                reserve(l, (int)(random() % 60));
            else
                release(l, (int)(random() % 60));
        }
        if (sl_ledger_commit(l, NULL) || write(tell, "", 1) != 1)
            _exit(1);
    }
}

static bool sum_entry(void *payload, const struct sl_ledger_entry *e) {
    struct sl_map *taken = payload;
    check_reservation(&e->r);
    uintptr_t n = (uintptr_t)sl_map_get(taken, e->r.uid);
    assert_int_equal(n, !e->took); /* took and returned alternate */
    sl_map_set(taken, e->r.uid, (void *)(uintptr_t)e->took);
    return true;
}
static bool compare_held(void *payload, const struct sl_ledger_reservation *r) {
    struct sl_map *taken = payload;
    check_reservation(r);
    assert_ptr_equal(sl_map_del(taken, r->uid), (void *)1);
    return true;
}

static void kill__leaves_books_and_history_that_agree(void **state) {
    srandom(42);
    for (int round = 0; round < 12; round++) {
        int fds[2];
        assert_int_equal(pipe(fds), 0);
        unsigned seed = (unsigned)random();
        long acknowledged = random() % 40;
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            write_until_killed(*state, fds[1], seed);
        close(fds[1]);
        char c;
        for (long i = 0; i < acknowledged; i++)
            assert_int_equal(read(fds[0], &c, 1), 1);
        for (volatile long i = random() % 2000000; i > 0; i--) /* some moment of the next passes */
            ;
        assert_int_equal(kill(pid, SIGKILL), 0);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        close(fds[0]);

        struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
        assert_int_equal(sl_ledger_state(l), SL_LEDGER_UP);
        assert_int_equal(sl_ledger_corrupt_records(l), 0);
        struct sl_map taken = SL_MAP_INIT;
        bool more = true;
        assert_int_equal(
            sl_ledger_history(l, &(struct sl_ledger_query){.limit = 100000}, sum_entry, &taken, &more, NULL), 0);
        assert_false(more);
        assert_int_equal(sl_ledger_load(l, compare_held, &taken, NULL), 0);
        SL_MAP_EACH (&taken, e)
            assert_null(e->value);
        sl_map_done(&taken, NULL);
        /* begin the next round with nothing held and no history that its clock, which begins anew, would mix up */
        sl_ledger_close(l);
        SL_AUTO_FREE char *file = file_of(*state);
        assert_int_equal(unlink(file), 0);
    }
}

/* ---- Full ---- */

static void full__map_grows_within_the_pass(void **state) {
    struct sl_ledger_options o = {.map_bytes = 128 << 10, .map_max_bytes = 64 << 20};
    struct sl_ledger *l = sl_ledger_open(*state, &o, T0);
    assert_int_equal(sl_ledger_state(l), SL_LEDGER_UP);
    assert_int_equal(reserve_many(l, T0, 0, 5000), 0);
    assert_int_equal(held(l), 5000);
    sl_ledger_close(l);
    l = sl_ledger_open(*state, &o, T0); /* a map smaller than the file is made large enough */
    assert_int_equal(held(l), 5000);
    sl_ledger_close(l);
}

static void full__the_largest_size_counts_from_the_start(void **state) {
    struct sl_ledger_options o = {.map_max_bytes = 512 << 10}; /* less than a map usually begins with */
    struct sl_ledger *l = sl_ledger_open(*state, &o, T0);
    int n = 0;
    while (n < 20000 && reserve_many(l, T0, n, n + 100) == 0)
        n += 100;
    assert_in_range(n, 200, 10000);
    assert_int_equal(sl_ledger_state(l), SL_LEDGER_FULL);
    sl_ledger_close(l);
}

static void full__history_makes_room(void **state) {
    struct sl_ledger_options o = {.map_bytes = 256 << 10, .map_max_bytes = 512 << 10};
    struct sl_ledger *l = sl_ledger_open(*state, &o, T0);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(reserve_many(l, T0 + i, 0, 10), 0);
        sl_ledger_begin(l, T0 + i);
        for (int k = 0; k < 10; k++)
            release(l, k);
        assert_int_equal(sl_ledger_commit(l, NULL), 0);
    }
    assert_int_equal(sl_ledger_state(l), SL_LEDGER_UP);
    struct counted n = {0};
    assert_int_equal(sl_ledger_history(l, &(struct sl_ledger_query){.limit = 100000}, count_entries, &n, NULL, NULL),
                     0);
    assert_in_range(n.n, 500, 5000); /* of 20,000 */
    sl_ledger_close(l);
}

static void full__degrades_and_returns(void **state) {
    struct sl_ledger_options o = {.map_bytes = 256 << 10, .map_max_bytes = 512 << 10};
    struct sl_ledger *l = sl_ledger_open(*state, &o, T0);
    double before = errors("full");
    int n = 0;
    while (reserve_many(l, T0, n, n + 100) == 0)
        n += 100;
    assert_true(n >= 200);
    assert_int_equal(sl_ledger_state(l), SL_LEDGER_FULL);
    assert_true(*sl_ledger_reason(l));
    assert_true(errors("full") == before + 1);
    assert_true(up() == 0);
    struct sl_err err = SL_ERR_INIT;
    assert_int_equal(sl_ledger_load(l, count_held, NULL, &err), SL_UNAVAILABLE);
    assert_non_null(strstr(err.text, "full"));
    assert_int_equal(reserve_many(l, T0, 0, 1), SL_UNAVAILABLE);
    assert_false(sl_ledger_tick(l, T0 + 10));
    assert_true(sl_ledger_tick(l, T0 + 2000)); /* pruning history made room */
    assert_int_equal(sl_ledger_state(l), SL_LEDGER_UP);
    assert_true(up() == 1);
    assert_int_equal(held(l), n);
    sl_ledger_close(l);
}

static void full__device(void **state) {
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    assert_int_equal(reserve_many(l, T0, 0, 10), 0);
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 96 << 10;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int rc = reserve_many(l, T0 + 1, 10, 3000);
    enum sl_ledger_state down = sl_ledger_state(l);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(rc, SL_UNAVAILABLE);
    assert_true(down == SL_LEDGER_FULL || down == SL_LEDGER_IO); /* the library tells a partial write as EIO */
    (void)sl_ledger_tick(l, T0 + 10);
    assert_true(sl_ledger_tick(l, T0 + 5000));
    assert_int_equal(held(l), 10); /* the pass was all or nothing */
    sl_ledger_close(l);
}

/* ---- Not allowed, not possible ---- */

static void readonly__directory(void **state) {
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    assert_int_equal(reserve_many(l, T0, 0, 3), 0);
    sl_ledger_close(l);
    /* root may write everywhere, so be somebody else meanwhile */
    SL_AUTO_FREE char *file = file_of(*state), *lock = sl_xprintf("%s/owner.lock", (char *)*state);
    bool root = geteuid() == 0;
    SL_AUTO_FREE char *parent = sl_xstrdup(*state);
    *strrchr(parent, '/') = 0;
    assert_int_equal(chmod(parent, 0755), 0);
    assert_int_equal(chmod(*state, 0555), 0);
    assert_int_equal(chmod(file, 0444), 0);
    assert_int_equal(chmod(lock, 0444), 0);
    if (root)
        assert_int_equal(seteuid(65534), 0);
    double before = errors("readonly");
    l = sl_ledger_open(*state, NULL, T0);
    enum sl_ledger_state got = sl_ledger_state(l);
    int rc = reserve_many(l, T0, 3, 4);
    bool asked = sl_ledger_tick(l, T0 + 1) || sl_ledger_tick(l, T0 + 2000);
    if (root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(*state, 0755), 0);
    assert_int_equal(chmod(file, 0644), 0);
    assert_int_equal(chmod(lock, 0644), 0);
    assert_int_equal(got, SL_LEDGER_READONLY);
    assert_int_equal(rc, SL_UNAVAILABLE);
    assert_false(asked);
    assert_true(errors("readonly") == before + 2);
    assert_true(sl_ledger_tick(l, T0 + 60000)); /* allowed again */
    assert_int_equal(held(l), 3);
    sl_ledger_close(l);
}

static void open__path_is_a_file_until_it_is_not(void **state) {
    spill(*state, "x", 1);
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    assert_int_equal(sl_ledger_state(l), SL_LEDGER_OPEN);
    assert_int_equal(unlink(*state), 0);
    assert_false(sl_ledger_tick(l, T0));
    assert_true(sl_ledger_tick(l, T0 + 1000));
    assert_int_equal(sl_ledger_state(l), SL_LEDGER_UP);
    assert_false(sl_ledger_tick(l, T0 + 2000)); /* asks once */
    sl_ledger_close(l);
}

static void open__no_parent_and_backoff(void **state) {
    SL_AUTO_FREE char *deep = sl_xprintf("%s/a/b", (char *)*state);
    double before = errors("open");
    struct sl_ledger *l = sl_ledger_open(deep, NULL, T0);
    assert_int_equal(sl_ledger_state(l), SL_LEDGER_OPEN);
    for (int64_t t = 0; t < 300000; t += 100)
        assert_false(sl_ledger_tick(l, T0 + t));
    /* attempts at 1, 3, 7, 15, 31, 63, 123, 183, 243 s and the first one */
    assert_in_range((int)(errors("open") - before), 9, 11);
    for (int64_t t = 0; t < 3000; t += 100) /* a clock that is set back does not stop the attempts */
        assert_false(sl_ledger_tick(l, T0 - 86400000 + t * 100));
    assert_in_range((int)(errors("open") - before), 12, 16);
    sl_ledger_close(l);
}

static void open__second_writer_is_kept_out(void **state) {
    struct sl_ledger *first = sl_ledger_open(*state, NULL, T0);
    struct sl_ledger *second = sl_ledger_open(*state, NULL, T0);
    assert_int_equal(sl_ledger_state(first), SL_LEDGER_UP);
    assert_int_equal(sl_ledger_state(second), SL_LEDGER_OPEN);
    assert_non_null(strstr(sl_ledger_reason(second), "in use by another process"));
    assert_int_equal(reserve_many(first, T0, 0, 5), 0);
    sl_ledger_close(first);
    (void)sl_ledger_tick(second, T0);
    assert_true(sl_ledger_tick(second, T0 + 1000));
    assert_int_equal(held(second), 5);
    sl_ledger_close(second);
}

static void open__garbage_in_the_lock_file(void **state) {
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    assert_int_equal(reserve_many(l, T0, 0, 5), 0);
    sl_ledger_close(l);
    SL_AUTO_FREE char *lock = sl_xprintf("%s/lock.mdb", (char *)*state);
    char garbage[8192];
    memset(garbage, 0xa5, sizeof garbage);
    spill(lock, garbage, sizeof garbage);
    l = sl_ledger_open(*state, NULL, T0);
    assert_int_equal(sl_ledger_state(l), SL_LEDGER_UP);
    assert_int_equal(held(l), 5);
    sl_ledger_close(l);
}

static void off__accepts_everything(void **state) {
    (void)state;
    struct sl_ledger *l = sl_ledger_open(NULL, NULL, T0);
    assert_int_equal(sl_ledger_state(l), SL_LEDGER_OFF);
    assert_int_equal(reserve_many(l, T0, 0, 10), 0);
    assert_false(sl_ledger_tick(l, T0 + 100000));
    size_t n = 9;
    struct sl_ledger_view none = {NULL, NULL, NULL};
    assert_int_equal(sl_ledger_reconcile(l, T0, &none, &n, NULL), 0);
    assert_int_equal(n, 0);
    assert_int_equal(sl_ledger_load(l, count_held, NULL, NULL), SL_UNAVAILABLE);
    assert_string_equal(sl_ledger_reason(l), "");
    sl_ledger_close(l);
    sl_ledger_close(NULL);
}

static void down__is_said_once(void **state) {
    SL_AUTO_FREE char *deep = sl_xprintf("%s/a/b", (char *)*state), *log = sl_xprintf("%s.log", (char *)*state);
    int fd = open(log, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    sl_log_set_fd(fd);
    struct sl_ledger *l = sl_ledger_open(deep, NULL, T0);
    for (int64_t t = 0; t < 300000; t += 1000)
        (void)sl_ledger_tick(l, T0 + t);
    assert_int_equal(mkdir(*state, 0700), 0);
    SL_AUTO_FREE char *middle = sl_xprintf("%s/a", (char *)*state);
    assert_int_equal(mkdir(middle, 0700), 0);
    assert_true(sl_ledger_tick(l, T0 + 400000));
    sl_log_set_fd(-1);
    SL_AUTO_BUF said = SL_BUF_INIT(1 << 16);
    slurp(log, &said);
    size_t lines = 0;
    for (size_t i = 0; i < said.len; i++)
        lines += said.data[i] == '\n';
    assert_int_equal(lines, 2);
    assert_non_null(strstr(said.data, "\"msg\":\"ledger is down, decisions go on without it\",\"cause\":\"open\""));
    assert_non_null(strstr(said.data, "\"msg\":\"ledger is up\""));
    sl_ledger_close(l);
    close(fd);
    empty_dir(deep);
    (void)rmdir(deep);
    (void)rmdir(middle);
    (void)unlink(log);
}

/* ---- Corrupt and lost ---- */

static void corrupt__pipe_is_moved_aside(void **state) {
    SL_AUTO_FREE char *file = file_of(*state);
    assert_int_equal(mkdir(*state, 0700), 0);
    assert_int_equal(mkfifo(file, 0600), 0);
    double before = errors("corrupt");
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0); /* must not wait for somebody who writes into it */
    assert_int_equal(sl_ledger_state(l), SL_LEDGER_UP);
    assert_true(errors("corrupt") == before + 1);
    sl_ledger_close(l);
    assert_int_equal(count_files(*state, "data.mdb.corrupt-"), 1);
}

static void corrupt__garbage_is_moved_aside(void **state) {
    SL_AUTO_FREE char *file = file_of(*state);
    assert_int_equal(mkdir(*state, 0700), 0);
    double before = errors("corrupt");
    for (int i = 0; i < 4; i++) {
        char garbage[5000];
        memset(garbage, 'x', sizeof garbage);
        spill(file, garbage, sizeof garbage);
        struct sl_ledger *l = sl_ledger_open(*state, NULL, T0 + i / 2);
        assert_int_equal(sl_ledger_state(l), SL_LEDGER_UP);
        assert_true(errors("corrupt") == before + i + 1);
        assert_true(up() == 1);
        assert_int_equal(held(l), 0);
        assert_int_equal(reserve_many(l, T0, 0, 3), 0);
        sl_ledger_close(l);
        assert_int_equal(count_files(*state, "data.mdb.corrupt-"), i < 1 ? 1 : 2);
    }
}

static void corrupt__empty_file_is_a_new_one(void **state) {
    SL_AUTO_FREE char *file = file_of(*state);
    assert_int_equal(mkdir(*state, 0700), 0);
    spill(file, "", 0);
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    assert_int_equal(sl_ledger_state(l), SL_LEDGER_UP);
    assert_int_equal(reserve_many(l, T0, 0, 3), 0);
    assert_int_equal(count_files(*state, "data.mdb.corrupt-"), 0);
    sl_ledger_close(l);
}

/* A file with something of everything: several levels, overflow pages, a free list. */
static void make_file(const char *dir, struct sl_buf *bytes) {
    struct sl_ledger *l = sl_ledger_open(dir, NULL, T0);
    assert_int_equal(reserve_many(l, T0, 0, 300), 0);
    sl_ledger_begin(l, T0 + 1);
    for (int i = 0; i < 300; i += 2)
        release(l, i);
    assert_int_equal(sl_ledger_commit(l, NULL), 0);
    struct sl_ledger_amount many[200];
    char names[200][24];
    for (int i = 0; i < 200; i++) {
        snprintf(names[i], sizeof names[i], "flavor-%d", i);
        many[i] = (struct sl_ledger_amount){names[i], "nvidia.com/gpu", 1, true};
    }
    struct sl_ledger_reservation r = {.uid = "large", .cluster_queue = "q", .amounts = many, .amount_count = 200};
    sl_ledger_begin(l, T0 + 2);
    sl_ledger_reserve(l, &r);
    assert_int_equal(sl_ledger_commit(l, NULL), 0);
    sl_ledger_begin(l, T0 + 3);
    sl_ledger_release(l, "large", "x");
    assert_int_equal(sl_ledger_commit(l, NULL), 0);
    sl_ledger_close(l);
    SL_AUTO_FREE char *file = file_of(dir);
    slurp(file, bytes);
}

/* Whatever is in the file: everything works afterwards, and nothing wrong is read. */
static size_t use_damaged(const char *dir, const void *data, size_t len) {
    SL_AUTO_FREE char *file = file_of(dir);
    spill(file, data, len);
    struct sl_ledger *l = sl_ledger_open(dir, NULL, T0);
    assert_int_equal(sl_ledger_state(l), SL_LEDGER_UP);
    size_t n = held(l);
    struct counted entries = {0};
    assert_int_equal(
        sl_ledger_history(l, &(struct sl_ledger_query){.limit = 1000}, count_entries, &entries, NULL, NULL), 0);
    assert_int_equal(reserve_many(l, T0 + 10, 1000, 1020), 0);
    sl_ledger_begin(l, T0 + 11);
    for (int i = 0; i < 300; i++)
        release(l, i);
    sl_ledger_release(l, "large",
                      "x"); /* held by the pass before the last, which a damaged head of the file may bring back */
    assert_int_equal(sl_ledger_commit(l, NULL), 0);
    assert_int_equal(held(l), 20);
    sl_ledger_close(l);
    return n;
}

static void corrupt__cut_anywhere(void **state) {
    SL_AUTO_BUF good = SL_BUF_INIT(16 << 20);
    make_file(*state, &good);
    assert_true(good.len > 20 * 4096);
    assert_int_equal(use_damaged(*state, good.data, good.len), 150);
    for (size_t len = good.len; len > 4096; len -= 4096) {
        (void)use_damaged(*state, good.data, len - 1);
        (void)use_damaged(*state, good.data, len - 4096);
    }
    for (size_t len = 1; len < 4096; len += 97)
        assert_int_equal(use_damaged(*state, good.data, len), 0);
}

static void corrupt__flipped_bytes(void **state) {
    SL_AUTO_BUF good = SL_BUF_INIT(16 << 20);
    make_file(*state, &good);
    SL_AUTO_FREE char *copy = sl_xalloc(good.len);
    srandom(99);
    size_t whole = 0;
    for (int i = 0; i < 150; i++) {
        memcpy(copy, good.data, good.len);
        for (int flips = 1 + (int)(random() % 3); flips; flips--) {
            /* mostly where structure is: metas and the heads and ends of pages */
            size_t at = random() % 3 ? (size_t)random() % (good.len / 4096) * 4096 + (size_t)random() % 160
                                     : (size_t)random() % good.len;
            copy[at] = (char)(random() % 2 ? copy[at] ^ (1 << random() % 8) : random());
        }
        whole += use_damaged(*state, copy, good.len) > 0;
    }
    assert_true(whole > 0); /* some damage is in single records or in unused places */
}

/* Each flag of each page, alone: one of them makes the library write into its read-only map. */
static void corrupt__every_flag_of_pages(void **state) {
    SL_AUTO_BUF good = SL_BUF_INIT(16 << 20);
    make_file(*state, &good);
    for (size_t page = 0; page < good.len; page += 4096) {
        for (size_t bit = 10 * 8; bit < 11 * 8; bit++) {
            good.data[page + bit / 8] ^= (char)(1 << bit % 8);
            (void)use_damaged(*state, good.data, good.len);
            good.data[page + bit / 8] ^= (char)(1 << bit % 8);
        }
    }
}

static void corrupt__record_is_skipped_and_counted(void **state) {
    SL_AUTO_BUF good = SL_BUF_INIT(16 << 20);
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    assert_int_equal(reserve_many(l, T0, 0, 3), 0);
    sl_ledger_close(l);
    SL_AUTO_FREE char *file = file_of(*state);
    slurp(file, &good);
    size_t damaged = 0;
    for (size_t i = 0; i + 30 < good.len; i++) { /* the reservation of workload 1 and its entry in the history */
        if (!memcmp(good.data + i, "uid-000001\0\0", 12) && good.data[i - 1] == 10 && good.data[i + 12] == 2) {
            good.data[i + 13] ^= 1; /* its namespace */
            damaged++;
        }
    }
    assert_true(damaged >= 2);
    spill(file, good.data, good.len);
    double before = errors("corrupt");
    l = sl_ledger_open(*state, NULL, T0);
    assert_int_equal(sl_ledger_state(l), SL_LEDGER_UP);
    assert_int_equal(held(l), 2);
    assert_int_equal(sl_ledger_corrupt_records(l), 1);
    struct counted entries = {0};
    assert_int_equal(sl_ledger_history(l, &(struct sl_ledger_query){0}, count_entries, &entries, NULL, NULL), 0);
    assert_int_equal(entries.n, 2);
    assert_true(errors("corrupt") == before + 2);
    assert_int_equal(sl_ledger_find(l, "uid-000001", NULL, NULL, NULL), SL_NOT_FOUND);
    sl_ledger_begin(l, T0 + 1);
    reserve(l, 1);
    assert_int_equal(sl_ledger_commit(l, NULL), 0); /* written over */
    assert_int_equal(held(l), 3);
    sl_ledger_close(l);
}

static void lost__file_is_noticed_and_rebuilt(void **state) {
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    assert_int_equal(reserve_many(l, T0, 0, 3), 0);
    SL_AUTO_FREE char *file = file_of(*state);
    assert_int_equal(unlink(file), 0);
    double before = errors("io");
    assert_int_equal(reserve_many(l, T0 + 1, 3, 4), SL_UNAVAILABLE);
    assert_int_equal(sl_ledger_state(l), SL_LEDGER_IO);
    assert_true(errors("io") == before + 1);
    (void)sl_ledger_tick(l, T0 + 2);
    assert_true(sl_ledger_tick(l, T0 + 1002));
    assert_int_equal(held(l), 0);
    assert_int_equal(reserve_many(l, T0 + 2000, 0, 4), 0);
    sl_ledger_close(l);
    l = sl_ledger_open(*state, NULL, T0 + 3000);
    assert_int_equal(held(l), 4);
    sl_ledger_close(l);
}

static void lost__noticed_by_the_tick(void **state) {
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    SL_AUTO_FREE char *file = file_of(*state), *elsewhere = sl_xprintf("%s/moved", (char *)*state);
    assert_int_equal(rename(file, elsewhere), 0);
    spill(file, "another file", 12);
    assert_false(sl_ledger_tick(l, T0));
    assert_int_equal(sl_ledger_state(l), SL_LEDGER_IO);
    assert_true(sl_ledger_tick(l, T0 + 5000)); /* and the other file is moved aside, since it is none of ours */
    assert_int_equal(count_files(*state, "data.mdb.corrupt-"), 1);
    sl_ledger_close(l);
}

static void lost__cut_while_in_use(void **state) {
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    assert_int_equal(reserve_many(l, T0, 0, 500), 0);
    SL_AUTO_FREE char *file = file_of(*state);
    assert_int_equal(truncate(file, 0), 0);
    assert_int_equal(sl_ledger_load(l, count_held, NULL, NULL), SL_UNAVAILABLE);
    assert_int_equal(sl_ledger_state(l), SL_LEDGER_CORRUPT);
    assert_int_equal(count_files(*state, "data.mdb.corrupt-"), 1);
    (void)sl_ledger_tick(l, T0);
    assert_true(sl_ledger_tick(l, T0 + 1000));
    assert_int_equal(held(l), 0);
    sl_ledger_close(l);
}

/* ---- Reading beside the writer ---- */

static int in_child(int (*fn)(const char *dir), const char *dir) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(fn(dir));
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}
static int read_beside(const char *dir) {
    struct sl_ledger_options o = {.read_only = true};
    struct sl_ledger *l = sl_ledger_open(dir, &o, T0);
    struct counted n = {0}, entries = {0};
    if (sl_ledger_state(l) != SL_LEDGER_UP || sl_ledger_load(l, count_held, &n, NULL) ||
        sl_ledger_history(l, &(struct sl_ledger_query){0}, count_entries, &entries, NULL, NULL))
        return 200;
    int refused = reserve_many(l, T0, 50, 60) == SL_UNAVAILABLE && sl_ledger_state(l) == SL_LEDGER_UP ? 0 : 100;
    sl_ledger_close(l);
    return refused + (int)n.n + (int)entries.n;
}
static void read_only__beside_the_writer_and_alone(void **state) {
    struct sl_ledger *l = sl_ledger_open(*state, NULL, T0);
    assert_int_equal(reserve_many(l, T0, 0, 7), 0);
    assert_int_equal(in_child(read_beside, *state), 14);
    assert_int_equal(reserve_many(l, T0, 7, 8), 0);
    sl_ledger_close(l);
    assert_int_equal(in_child(read_beside, *state), 16);
}

static void read_only__creates_and_moves_nothing(void **state) {
    struct sl_ledger_options o = {.read_only = true};
    struct sl_ledger *l = sl_ledger_open(*state, &o, T0);
    assert_int_equal(sl_ledger_state(l), SL_LEDGER_OPEN);
    sl_ledger_close(l);
    assert_int_not_equal(access(*state, F_OK), 0);
    SL_AUTO_FREE char *file = file_of(*state);
    assert_int_equal(mkdir(*state, 0700), 0);
    spill(file, "garbage", 7);
    l = sl_ledger_open(*state, &o, T0);
    assert_int_equal(sl_ledger_state(l), SL_LEDGER_CORRUPT);
    assert_int_equal(count_files(*state, "data.mdb"), 1);
    sl_ledger_close(l);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, drop_dir)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(kill__leaves_books_and_history_that_agree),
        TEST(full__map_grows_within_the_pass),
        TEST(full__the_largest_size_counts_from_the_start),
        TEST(full__history_makes_room),
        TEST(full__degrades_and_returns),
        TEST(full__device),
        TEST(readonly__directory),
        TEST(open__path_is_a_file_until_it_is_not),
        TEST(open__no_parent_and_backoff),
        TEST(open__second_writer_is_kept_out),
        TEST(open__garbage_in_the_lock_file),
        TEST(off__accepts_everything),
        TEST(down__is_said_once),
        TEST(corrupt__garbage_is_moved_aside),
        TEST(corrupt__pipe_is_moved_aside),
        TEST(corrupt__empty_file_is_a_new_one),
        TEST(corrupt__cut_anywhere),
        TEST(corrupt__flipped_bytes),
        TEST(corrupt__every_flag_of_pages),
        TEST(corrupt__record_is_skipped_and_counted),
        TEST(lost__file_is_noticed_and_rebuilt),
        TEST(lost__noticed_by_the_tick),
        TEST(lost__cut_while_in_use),
        TEST(read_only__beside_the_writer_and_alone),
        TEST(read_only__creates_and_moves_nothing),
    };
    sl_log_set_fd(-1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
