/*
 * The file format of LMDB 0.9 (data version 1) on 64-bit hosts, read with pread and checked before the library maps it:
 *
 *   page     number (8), pad (2), flags (2), lower (2), upper (2), then node offsets (2 each); an overflow run has its
 * page count (4) in place of lower and upper page 0/1 meta: magic (4), version (4), address (8), map size (8), free
 * database (48), main database (48), last page (8), txn (8) database pad (4), flags (2), depth (2), branch, leaf and
 * overflow pages (8 each), entries (8), root page (8) node     size low and high (2 each), flags (2), key size (2),
 * key, data. Branch nodes hold the child's page number in the first three fields; the first key of a branch is not
 * looked at
 *
 * Each page may be reached once: a bitmap sees cycles and sharing, so the walk ends and a free list that names a page
 * in use is found too. Only plain databases occur (no DUPSORT), everything else counts as damage. Records have
 * checksums of their own.
 */
#include "verify.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sluice/base/mem.h"

#define MAGIC         0xBEEFC0DEu
#define DATA_VERSION  1
#define PAGE_HEADER   16
#define NODE_HEADER   8
#define MAX_DEPTH     32
#define MAX_KEY       511
#define NO_ROOT       UINT64_MAX
#define PAGE_BRANCH   0x01
#define PAGE_LEAF     0x02
#define PAGE_OVERFLOW 0x04
#define PAGE_META     0x08
#define NODE_BIG      0x01
#define NODE_SUBTREE  0x02
#define DB_INTEGERKEY 0x08
#define MAX_FILE      (64ull << 30)

struct tree {
    uint16_t flags, depth;
    uint64_t branches, leaves, overflows, entries, root;
};
struct check {
    int fd;
    uint64_t size, pages, last_page;
    uint64_t accounted; /* pages in use, then also free ones */
    size_t page_size;
    unsigned char *seen; /* a bit per page in the file */
    struct sl_err *err;
};

static uint16_t u16(const unsigned char *p) {
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static uint32_t u32(const unsigned char *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static uint64_t u64(const unsigned char *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static int damaged(const struct check *c, uint64_t page, const char *what) {
    return sl_err_set(c->err, SL_CORRUPT, "ledger file: page %llu: %s", (unsigned long long)page, what);
}

static int read_at(const struct check *c, uint64_t offset, void *to, size_t len) {
    unsigned char *p = to;
    while (len) {
        ssize_t n = pread(c->fd, p, len, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return sl_err_set(c->err, SL_IO, "ledger file: %s", strerror(errno));
        if (n == 0)
            return sl_err_set(c->err, SL_CORRUPT, "ledger file ends at %llu", (unsigned long long)offset);
        p += n;
        offset += (uint64_t)n;
        len -= (size_t)n;
    }
    return 0;
}

static int claim(struct check *c, uint64_t page) {
    if (page < 2 || page >= c->pages || page > c->last_page)
        return damaged(c, page, "outside of the file");
    if (c->seen[page / 8] & 1u << page % 8)
        return damaged(c, page, "used twice");
    c->seen[page / 8] |= (unsigned char)(1u << page % 8);
    c->accounted++;
    return 0;
}

static struct tree tree_at(const unsigned char *p) {
    return (struct tree){u16(p + 4), u16(p + 6), u64(p + 8), u64(p + 16), u64(p + 24), u64(p + 32), u64(p + 40)};
}

/* The pages of a value that is too large for its leaf. */
static int check_overflow(struct check *c, uint64_t first, size_t size, struct tree *counted) {
    unsigned char head[PAGE_HEADER];
    uint64_t run = (PAGE_HEADER - 1 + (uint64_t)size) / c->page_size + 1;
    for (uint64_t i = 0; i < run; i++) {
        int rc = claim(c, first + i);
        if (rc)
            return rc;
    }
    int rc = read_at(c, first * c->page_size, head, sizeof head);
    if (rc)
        return rc;
    if (u64(head) != first || u16(head + 10) != PAGE_OVERFLOW || u32(head + 12) != run)
        return damaged(c, first, "not the overflow pages of its value");
    counted->overflows += run;
    return 0;
}

/* A value of the free database: the count and the numbers of free pages, descending. */
static int check_free_list(struct check *c, uint64_t page, const unsigned char *list, size_t size) {
    if (size < 8 || size % 8 || u64(list) > size / 8 - 1)
        return damaged(c, page, "free list of a wrong size");
    uint64_t n = u64(list), previous = UINT64_MAX;
    for (uint64_t i = 1; i <= n; i++) {
        uint64_t id = u64(list + 8 * i);
        if (id < 2 || id > c->last_page || id >= previous)
            return damaged(c, page, "free list names an impossible page");
        if (id < c->pages && c->seen[id / 8] & 1u << id % 8)
            return damaged(c, id, "free and in use");
        if (id < c->pages)
            c->seen[id / 8] |= (unsigned char)(1u << id % 8);
        previous = id;
        c->accounted++;
    }
    return 0;
}

enum pass { MARK, FREE_LISTS };
enum role { FREE_DB, MAIN_DB, SUB_DB };
static int check_tree(struct check *c, const struct tree *t, enum role role, enum pass pass);

static int check_leaf_node(struct check *c, uint64_t page, const unsigned char *p, size_t at, enum role role,
                           enum pass pass, struct tree *counted) {
    size_t key = u16(p + at + 6), size = u16(p + at) | (size_t)u16(p + at + 2) << 16;
    uint16_t flags = u16(p + at + 4);
    const unsigned char *data = p + at + NODE_HEADER + key;
    size_t inside = flags & NODE_BIG ? 8 : size;
    if (at + NODE_HEADER + key + inside > c->page_size)
        return damaged(c, page, "value outside of its page");
    if (flags & ~(role == MAIN_DB ? NODE_BIG | NODE_SUBTREE : NODE_BIG) || (flags & NODE_BIG && flags & NODE_SUBTREE))
        return damaged(c, page, "unexpected kind of value");
    counted->entries++;
    if (role == FREE_DB && key != 8)
        return damaged(c, page, "unexpected key of the free list");
    if (flags & NODE_BIG && pass == MARK) {
        int rc = check_overflow(c, u64(data), size, counted);
        if (rc)
            return rc;
    }
    if (flags & NODE_SUBTREE) {
        if (size != 48)
            return damaged(c, page, "database record of a wrong size");
        struct tree sub = tree_at(data);
        return pass == MARK ? check_tree(c, &sub, SUB_DB, pass) : 0;
    }
    if (role != FREE_DB || pass != FREE_LISTS)
        return 0;
    if (!(flags & NODE_BIG))
        return check_free_list(c, page, data, size);
    if (u64(data) * c->page_size + PAGE_HEADER + size > c->size)
        return damaged(c, page, "value outside of the file");
    SL_AUTO_FREE unsigned char *list = malloc(size); /* at most the size of the file */
    if (!list)
        return sl_err_set(c->err, SL_IO, "ledger file: no memory for its free list");
    int rc = read_at(c, u64(data) * c->page_size + PAGE_HEADER, list, size);
    return rc ? rc : check_free_list(c, page, list, size);
}

static int compare_keys(enum role role, const unsigned char *a, size_t a_len, const unsigned char *b, size_t b_len) {
    if (role == FREE_DB && a_len == 8 && b_len == 8)
        return u64(a) < u64(b) ? -1 : u64(a) > u64(b);
    int d = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return d ? d : a_len < b_len ? -1 : a_len > b_len;
}

/* What the parents promise of the keys of a page: from low on, below high; NULL: no bound. */
struct bounds {
    const unsigned char *low, *high;
    size_t low_len, high_len;
};

static int check_page(struct check *c, uint64_t page, int level, const struct tree *t, struct bounds bounds,
                      enum role role, enum pass pass, struct tree *counted) {
    int rc = pass == MARK ? claim(c, page) : 0;
    if (rc)
        return rc;
    SL_AUTO_FREE unsigned char *p = sl_xalloc(c->page_size);
    rc = read_at(c, page * c->page_size, p, c->page_size);
    if (rc)
        return rc;
    uint16_t flags = u16(p + 10), lower = u16(p + 12), upper = u16(p + 14);
    bool leaf = flags == PAGE_LEAF;
    if (u64(p) != page || (!leaf && flags != PAGE_BRANCH) || leaf != (level == t->depth))
        return damaged(c, page, "not the kind of page that belongs here");
    if (lower < PAGE_HEADER || lower % 2 || lower > upper || upper > c->page_size)
        return damaged(c, page, "impossible bounds");
    size_t n = (lower - PAGE_HEADER) / 2u;
    if (n < (leaf ? 1u : 2u))
        return damaged(c, page, "too few entries");
    size_t previous = 0, used = 0;
    for (size_t i = 0; i < n; i++) {
        size_t at = u16(p + PAGE_HEADER + 2 * i);
        if (at < upper || at % 2 || at + NODE_HEADER > c->page_size)
            return damaged(c, page, "entry outside of its page");
        size_t key = u16(p + at + 6);
        if (key > MAX_KEY || at + NODE_HEADER + key > c->page_size || (leaf && !key))
            return damaged(c, page, "impossible key");
        const unsigned char *text = p + at + NODE_HEADER;
        if (leaf || i) { /* the first key of a branch page is never compared */
            if (i > (leaf ? 0u : 1u) &&
                compare_keys(role, p + previous + NODE_HEADER, u16(p + previous + 6), text, key) >= 0)
                return damaged(c, page, "keys out of order");
            if ((bounds.low && compare_keys(role, text, key, bounds.low, bounds.low_len) < 0) ||
                (bounds.high && compare_keys(role, text, key, bounds.high, bounds.high_len) >= 0))
                return damaged(c, page, "keys that do not belong here");
        }
        previous = at;
        size_t node = NODE_HEADER + key;
        if (leaf) {
            rc = check_leaf_node(c, page, p, at, role, pass, counted);
            node += u16(p + at + 4) & NODE_BIG ? 8 : u16(p + at) | (size_t)u16(p + at + 2) << 16;
        } else {
            uint64_t child = u16(p + at) | (uint64_t)u16(p + at + 2) << 16 | (uint64_t)u16(p + at + 4) << 32;
            struct bounds inner = bounds;
            if (i) {
                inner.low = text;
                inner.low_len = key;
            }
            if (i + 1 < n) {
                size_t next = u16(p + PAGE_HEADER + 2 * (i + 1));
                if (next < upper || next + NODE_HEADER > c->page_size ||
                    next + NODE_HEADER + u16(p + next + 6) > c->page_size)
                    return damaged(c, page, "entry outside of its page");
                inner.high = p + next + NODE_HEADER;
                inner.high_len = u16(p + next + 6);
            }
            rc = check_page(c, child, level + 1, t, inner, role, pass, counted);
        }
        if (rc)
            return rc;
        used += node + node % 2;
    }
    if (used != c->page_size - upper)
        return damaged(c, page, "entries overlap or leave gaps"); /* LMDB packs them; moving them about relies on it */
    counted->branches += !leaf;
    counted->leaves += leaf;
    return 0;
}

static int check_tree(struct check *c, const struct tree *t, enum role role, enum pass pass) {
    if (t->flags != (role == FREE_DB ? DB_INTEGERKEY : 0))
        return sl_err_set(c->err, SL_CORRUPT, "ledger file: database of an unexpected kind");
    struct tree counted = {0};
    if (t->root != NO_ROOT) {
        if (t->depth < 1 || t->depth > MAX_DEPTH)
            return sl_err_set(c->err, SL_CORRUPT, "ledger file: database of depth %d", t->depth);
        int rc = check_page(c, t->root, 1, t, (struct bounds){NULL, NULL, 0, 0}, role, pass, &counted);
        if (rc)
            return rc;
    } else if (t->depth) {
        return sl_err_set(c->err, SL_CORRUPT, "ledger file: database without its root");
    }
    if (pass == MARK && (counted.entries != t->entries || counted.branches != t->branches ||
                         counted.leaves != t->leaves || counted.overflows != t->overflows))
        return sl_err_set(c->err, SL_CORRUPT, "ledger file: database that does not hold what it says");
    return 0;
}

static int check_meta(struct check *c, uint64_t page, unsigned char *meta, size_t size) {
    int rc = read_at(c, page * c->page_size, meta, size);
    if (rc)
        return rc;
    const unsigned char *m = meta + PAGE_HEADER;
    if (!(u16(meta + 10) & PAGE_META) || u64(meta) != page || u32(m) != MAGIC || u32(m + 4) != DATA_VERSION)
        return damaged(c, page, "not a ledger file");
    uint32_t page_size = u32(m + 24);
    if (page_size < 512 || page_size > 65536 || page_size & (page_size - 1))
        return damaged(c, page, "impossible page size");
    if (c->page_size && c->page_size != page_size)
        return damaged(c, page, "two page sizes");
    c->page_size = page_size;
    return 0;
}

static int check_file(struct check *c) {
    unsigned char metas[2][PAGE_HEADER + 136];
    for (uint64_t i = 0; i < 2; i++) {
        int rc = check_meta(c, i, metas[i], sizeof metas[i]);
        if (rc)
            return rc;
    }
    const unsigned char *m =
        (u64(metas[0] + PAGE_HEADER + 128) < u64(metas[1] + PAGE_HEADER + 128) ? metas[1] : metas[0]) + PAGE_HEADER;
    c->pages = c->size / c->page_size;
    c->last_page = u64(m + 120);
    if (c->last_page < 1 || c->last_page > MAX_FILE / c->page_size)
        return sl_err_set(c->err, SL_CORRUPT, "ledger file: impossible last page");
    c->seen = sl_xalloc(c->pages / 8 + 1);
    struct tree trees[] = {tree_at(m + 24), tree_at(m + 72)};
    int rc = check_tree(c, &trees[0], FREE_DB, MARK);
    if (!rc)
        rc = check_tree(c, &trees[1], MAIN_DB, MARK);
    if (!rc)
        rc = check_tree(c, &trees[0], FREE_DB, FREE_LISTS);
    if (!rc && c->accounted != c->last_page - 1) /* all but the two metas */
        rc = sl_err_set(c->err, SL_CORRUPT, "ledger file: %llu pages of %llu are accounted for",
                        (unsigned long long)c->accounted, (unsigned long long)c->last_page - 1);
    return rc;
}

int sl_ledger_verify_file(const char *path, struct sl_err *err) {
    struct check c = {.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), .err = err}; /* never waits for a pipe */
    if (c.fd < 0)
        return sl_err_set(err, errno == ENOENT ? SL_NOT_FOUND : SL_IO, "%s: %s", path, strerror(errno));
    struct stat st;
    int rc;
    if (fstat(c.fd, &st) != 0)
        rc = sl_err_set(err, SL_IO, "%s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > MAX_FILE)
        rc = sl_err_set(err, SL_CORRUPT, "%s is not a ledger file", path);
    else if (st.st_size == 0)
        rc = sl_err_set(err, SL_NOT_FOUND, "%s is empty", path);
    else {
        c.size = (uint64_t)st.st_size;
        rc = check_file(&c);
    }
    free(c.seen);
    close(c.fd);
    return rc;
}
