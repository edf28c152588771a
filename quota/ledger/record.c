/*
 * Encoding and decoding of records. The decoder trusts nothing: it checks the checksum first (which covers the key, so
 * that a value that strayed to another key is refused) and then every length, since a checksum is no protection against
 * a crafted file.
 */
#include "record.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/base/mem.h"
#include "sluice/base/num.h"

#define VERSION     1
#define HEADER      6
#define FLAG_GPU    1
#define FLAGS_KNOWN FLAG_GPU

void sl_be64_put(unsigned char *to, uint64_t v) {
    for (int i = 7; i >= 0; i--, v >>= 8)
        to[i] = (unsigned char)v;
}

uint64_t sl_be64_get(const void *from) {
    const unsigned char *p = from;
    uint64_t v = 0;
    for (int i = 0; i < 8; i++)
        v = v << 8 | p[i];
    return v;
}

/* CRC-32 (reflected 0xEDB88320), four bits a step: a small constant table and no state to initialise. */
static uint32_t crc(uint32_t sum, const void *data, size_t len) {
    static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                       0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                       0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    const unsigned char *p = data;
    sum = ~sum;
    for (size_t i = 0; i < len; i++) {
        sum = table[(sum ^ p[i]) & 15] ^ sum >> 4;
        sum = table[(sum ^ (uint32_t)(p[i] >> 4)) & 15] ^ sum >> 4;
    }
    return ~sum;
}

static uint32_t checksum(const void *key, size_t key_len, const unsigned char *value, size_t len) {
    return crc(crc(crc(0, key, key_len), value, 2), value + HEADER, len - HEADER);
}

bool sl_record_sign(const void *key, size_t key_len, unsigned char *value, size_t len) {
    if (len < HEADER)
        return false;
    uint32_t sum = checksum(key, key_len, value, len);
    for (int i = 0; i < 4; i++)
        value[2 + i] = (unsigned char)(sum >> (24 - 8 * i));
    return true;
}

void sl_record_done(struct sl_record *rec) {
    free(rec->bytes);
    free(rec->amounts);
    *rec = (struct sl_record){.value = 0};
}

/* ---- Encoding ---- */

static void put_int(struct sl_buf *b, uint64_t v, size_t bytes) {
    unsigned char big[8];
    sl_be64_put(big, v);
    sl_buf_add(b, big + 8 - bytes, bytes);
}

static int put_text(struct sl_buf *b, const char *field, const char *text, size_t max, struct sl_err *err) {
    size_t n = text ? strlen(text) : 0;
    if (n > max)
        return sl_err_set(err, SL_INVALID, "ledger record: %s has %zu bytes, at most %zu are allowed", field, n, max);
    put_int(b, n, 2);
    sl_buf_add(b, text ? text : "", n);
    sl_buf_putc(b, 0);
    return 0;
}

static int compare_amounts(const void *a, const void *b) {
    const struct sl_ledger_amount *x = a, *y = b;
    int d = strcmp(x->flavor ? x->flavor : "", y->flavor ? y->flavor : "");
    return d ? d : strcmp(x->resource ? x->resource : "", y->resource ? y->resource : "");
}

static int put_amounts(struct sl_buf *b, const struct sl_ledger_reservation *r, struct sl_err *err) {
    if (r->amount_count > SL_LEDGER_MAX_AMOUNTS)
        return sl_err_set(err, SL_INVALID, "ledger record: %zu amounts, at most %d are allowed", r->amount_count,
                          SL_LEDGER_MAX_AMOUNTS);
    SL_AUTO_FREE struct sl_ledger_amount *sorted = sl_xalloc(r->amount_count * sizeof *sorted);
    size_t n = 0;
    for (size_t i = 0; i < r->amount_count; i++) {
        const struct sl_ledger_amount *a = &r->amounts[i];
        if (a->amount < 0)
            return sl_err_set(err, SL_INVALID, "ledger record: amount of %s is negative",
                              a->resource ? a->resource : "");
        if (!a->resource || !*a->resource)
            return sl_err_set(err, SL_INVALID, "ledger record: amount %zu has no resource", i);
        if (a->amount > 0)
            sorted[n++] = *a;
    }
    qsort(sorted, n, sizeof *sorted, compare_amounts);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (kept && !compare_amounts(&sorted[kept - 1], &sorted[i]))
            sorted[kept - 1].amount = sl_sat_add(sorted[kept - 1].amount, sorted[i].amount);
        else
            sorted[kept++] = sorted[i];
    }
    put_int(b, kept, 2);
    for (size_t i = 0; i < kept; i++) {
        int rc = put_text(b, "flavor", sorted[i].flavor, SL_LEDGER_MAX_NAME, err);
        if (!rc)
            rc = put_text(b, "resource", sorted[i].resource, SL_LEDGER_MAX_NAME, err);
        if (rc)
            return rc;
        put_int(b, (uint64_t)sorted[i].amount, 8);
        put_int(b, sorted[i].gpu ? FLAG_GPU : 0, 1);
    }
    return 0;
}

static int put_reservation(struct sl_buf *b, const struct sl_ledger_reservation *r, struct sl_err *err) {
    if (!r->uid || !*r->uid)
        return sl_err_set(err, SL_INVALID, "ledger record: uid is empty");
    if (!r->cluster_queue || !*r->cluster_queue)
        return sl_err_set(err, SL_INVALID, "ledger record: clusterQueue is empty");
    if ((unsigned)r->outcome >= SL_LEDGER__OUTCOMES)
        return sl_err_set(err, SL_INVALID, "ledger record: outcome %d is not known", (int)r->outcome);
    char why[SL_LEDGER_MAX_WHY + 1];
    size_t n = r->why ? strnlen(r->why, SL_LEDGER_MAX_WHY) : 0;
    if (n == SL_LEDGER_MAX_WHY && r->why[n]) /* cut, but not inside a character */
        while (n && ((unsigned char)r->why[n] & 0xc0) == 0x80)
            n--;
    if (n)
        memcpy(why, r->why, n);
    why[n] = 0;
    put_int(b, (uint64_t)r->since_ms, 8);
    put_int(b, r->outcome, 1);
    const struct {
        const char *field, *text;
        size_t max;
    } texts[] = {{"uid", r->uid, SL_LEDGER_MAX_UID},
                 {"namespace", r->namespace, SL_LEDGER_MAX_NAME},
                 {"name", r->name, SL_LEDGER_MAX_NAME},
                 {"job kind", r->job_kind, SL_LEDGER_MAX_NAME},
                 {"job name", r->job_name, SL_LEDGER_MAX_NAME},
                 {"clusterQueue", r->cluster_queue, SL_LEDGER_MAX_NAME},
                 {"localQueue", r->local_queue, SL_LEDGER_MAX_NAME},
                 {"why", why, SL_LEDGER_MAX_WHY}};
    for (size_t i = 0; i < SL_COUNT(texts); i++) {
        int rc = put_text(b, texts[i].field, texts[i].text, texts[i].max, err);
        if (rc)
            return rc;
    }
    return put_amounts(b, r, err);
}

int sl_record_encode(enum sl_record_kind kind, const void *key, size_t key_len, const struct sl_record *rec,
                     struct sl_buf *out, struct sl_err *err) {
    SL_ASSERT(out->len == 0);
    int rc = 0;
    put_int(out, VERSION, 1);
    put_int(out, kind, 1);
    put_int(out, 0, 4);
    switch (kind) {
    case SL_RECORD_HISTORY:
        put_int(out, rec->entry.took, 1);
        put_int(out, (uint64_t)rec->entry.held_ms, 8);
        rc = put_reservation(out, &rec->entry.r, err);
        break;
    case SL_RECORD_HELD: rc = put_reservation(out, &rec->entry.r, err); break;
    case SL_RECORD_USAGE:
        put_int(out, (uint64_t)rec->value, 8);
        rc = put_text(out, "clusterQueue", rec->entry.r.cluster_queue, SL_LEDGER_MAX_NAME, err);
        if (!rc)
            rc = put_amounts(out, &rec->entry.r, err);
        break;
    case SL_RECORD_TIMER:
    case SL_RECORD_META: put_int(out, (uint64_t)rec->value, 8); break;
    }
    if (!rc)
        rc = sl_buf_check(out, err);
    if (rc)
        return rc;
    (void)sl_record_sign(key, key_len, (unsigned char *)out->data, out->len);
    return 0;
}

/* ---- Decoding ---- */

struct reader {
    const char *at, *end;
    bool bad;
};

static uint64_t get_int(struct reader *r, size_t bytes) {
    if (r->bad || (size_t)(r->end - r->at) < bytes) {
        r->bad = true;
        return 0;
    }
    uint64_t v = 0;
    for (size_t i = 0; i < bytes; i++)
        v = v << 8 | (unsigned char)*r->at++;
    return v;
}

static const char *get_text(struct reader *r, size_t max) {
    size_t n = get_int(r, 2);
    if (r->bad || n > max || (size_t)(r->end - r->at) <= n || r->at[n] || memchr(r->at, 0, n)) {
        r->bad = true;
        return "";
    }
    const char *text = r->at;
    r->at += n + 1;
    return text;
}

static void get_amounts(struct reader *in, struct sl_record *rec) {
    struct sl_ledger_reservation *r = &rec->entry.r;
    size_t n = get_int(in, 2);
    if (in->bad || n > SL_LEDGER_MAX_AMOUNTS || n > (size_t)(in->end - in->at)) {
        in->bad = true;
        return;
    }
    rec->amounts = sl_xalloc(n * sizeof *rec->amounts);
    for (size_t i = 0; i < n && !in->bad; i++) {
        struct sl_ledger_amount *a = &rec->amounts[i];
        a->flavor = get_text(in, SL_LEDGER_MAX_NAME);
        a->resource = get_text(in, SL_LEDGER_MAX_NAME);
        a->amount = (int64_t)get_int(in, 8);
        uint64_t flags = get_int(in, 1);
        a->gpu = flags & FLAG_GPU;
        if (a->amount <= 0 || !*a->resource || (flags & ~(uint64_t)FLAGS_KNOWN) ||
            (i && compare_amounts(a - 1, a) >= 0))
            in->bad = true;
    }
    r->amounts = rec->amounts;
    r->amount_count = n;
}

static void get_reservation(struct reader *in, struct sl_record *rec) {
    struct sl_ledger_reservation *r = &rec->entry.r;
    r->since_ms = (int64_t)get_int(in, 8);
    uint64_t outcome = get_int(in, 1);
    if (outcome >= SL_LEDGER__OUTCOMES)
        in->bad = true;
    r->outcome = (enum sl_ledger_outcome)outcome;
    r->uid = get_text(in, SL_LEDGER_MAX_UID);
    r->namespace = get_text(in, SL_LEDGER_MAX_NAME);
    r->name = get_text(in, SL_LEDGER_MAX_NAME);
    r->job_kind = get_text(in, SL_LEDGER_MAX_NAME);
    r->job_name = get_text(in, SL_LEDGER_MAX_NAME);
    r->cluster_queue = get_text(in, SL_LEDGER_MAX_NAME);
    r->local_queue = get_text(in, SL_LEDGER_MAX_NAME);
    r->why = get_text(in, SL_LEDGER_MAX_WHY);
    if (!*r->uid || !*r->cluster_queue)
        in->bad = true;
    if (!in->bad)
        get_amounts(in, rec);
}

int sl_record_decode(enum sl_record_kind kind, const void *key, size_t key_len, const void *value, size_t len,
                     struct sl_record *ret, struct sl_err *err) {
    const unsigned char *v = value;
    if (len < HEADER || len > SL_RECORD_MAX_BYTES)
        return sl_err_set(err, SL_CORRUPT, "ledger record of %zu bytes", len);
    if (v[0] != VERSION || v[1] != (unsigned char)kind)
        return sl_err_set(err, SL_CORRUPT, "ledger record of version %d, kind %d", v[0], v[1]);
    uint32_t sum = checksum(key, key_len, v, len);
    if (sum != ((uint32_t)v[2] << 24 | (uint32_t)v[3] << 16 | (uint32_t)v[4] << 8 | v[5]))
        return sl_err_set(err, SL_CORRUPT, "ledger record with a bad checksum");
    static const struct sl_ledger_reservation nothing = {"", "", "", "", "", "", "", "", NULL, 0, 0, SL_LEDGER_PENDING};
    struct sl_record rec = {.entry.r = nothing, .bytes = sl_xalloc(len)};
    memcpy(rec.bytes, value, len); /* the map may be unaligned and dies with its transaction */
    struct reader in = {rec.bytes + HEADER, rec.bytes + len, false};
    switch (kind) {
    case SL_RECORD_HISTORY: {
        uint64_t took = get_int(&in, 1);
        rec.entry.took = took == 1;
        rec.entry.held_ms = (int64_t)get_int(&in, 8);
        in.bad = in.bad || took > 1 || key_len != 16;
        if (!in.bad)
            rec.entry.at_ms = (int64_t)sl_be64_get(key);
        get_reservation(&in, &rec);
        break;
    }
    case SL_RECORD_HELD:
        get_reservation(&in, &rec);
        in.bad = in.bad || strlen(rec.entry.r.uid) != key_len || memcmp(rec.entry.r.uid, key, key_len);
        break;
    case SL_RECORD_USAGE:
        rec.value = (int64_t)get_int(&in, 8);
        rec.entry.r.cluster_queue = get_text(&in, SL_LEDGER_MAX_NAME);
        get_amounts(&in, &rec);
        in.bad = in.bad || rec.entry.r.amount_count != 1 || rec.value < 0;
        break;
    case SL_RECORD_TIMER:
    case SL_RECORD_META: rec.value = (int64_t)get_int(&in, 8); break;
    }
    if (in.bad || in.at != in.end) {
        sl_record_done(&rec);
        return sl_err_set(err, SL_CORRUPT, "ledger record with impossible content");
    }
    *ret = rec;
    return 0;
}

int sl_record_from(const struct sl_ledger_reservation *r, struct sl_record *ret, struct sl_err *err) {
    SL_AUTO_BUF b = SL_BUF_INIT(SL_RECORD_MAX_BYTES);
    struct sl_record in = {.entry.r = *r};
    size_t key_len = r->uid ? strlen(r->uid) : 0;
    int rc = sl_record_encode(SL_RECORD_HELD, r->uid, key_len, &in, &b, err);
    return rc ? rc : sl_record_decode(SL_RECORD_HELD, r->uid, key_len, b.data, b.len, ret, err);
}

bool sl_record_same_holding(const struct sl_ledger_reservation *a, const struct sl_ledger_reservation *b) {
    if (strcmp(a->cluster_queue, b->cluster_queue) || strcmp(a->local_queue, b->local_queue) ||
        a->amount_count != b->amount_count)
        return false;
    for (size_t i = 0; i < a->amount_count; i++)
        if (compare_amounts(&a->amounts[i], &b->amounts[i]) || a->amounts[i].amount != b->amounts[i].amount)
            return false;
    return true;
}
