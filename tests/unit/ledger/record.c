/* Records: what comes out is what went in, under the same key and kind only, and every changed bit is noticed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "record.h"
#include "sluice/base/mem.h"

static const struct sl_ledger_amount amounts[] = {{"h100", "nvidia.com/gpu", 4, true},
                                                  {"default", "cpu", INT64_MAX, false}};
static const struct sl_ledger_reservation full = {.uid = "uid-1",
                                                  .namespace = "ns",
                                                  .name = "job-train",
                                                  .job_kind = "Job",
                                                  .job_name = "train",
                                                  .cluster_queue = "cq",
                                                  .local_queue = "lq",
                                                  .why = "fits in h100: 4 of 8",
                                                  .amounts = amounts,
                                                  .amount_count = 2,
                                                  .since_ms = 1700000000123,
                                                  .outcome = SL_LEDGER_UNKNOWN};

static void held__round_trip(void **state) {
    (void)state;
    SL_AUTO_RECORD rec = {.value = 0};
    assert_int_equal(sl_record_from(&full, &rec, NULL), 0);
    const struct sl_ledger_reservation *r = &rec.entry.r;
    assert_string_equal(r->uid, "uid-1");
    assert_string_equal(r->namespace, "ns");
    assert_string_equal(r->name, "job-train");
    assert_string_equal(r->job_kind, "Job");
    assert_string_equal(r->job_name, "train");
    assert_string_equal(r->cluster_queue, "cq");
    assert_string_equal(r->local_queue, "lq");
    assert_string_equal(r->why, full.why);
    assert_true(r->since_ms == full.since_ms);
    assert_int_equal(r->outcome, SL_LEDGER_UNKNOWN);
    assert_int_equal(r->amount_count, 2);
    assert_string_equal(r->amounts[0].flavor, "default"); /* sorted */
    assert_true(r->amounts[0].amount == INT64_MAX && !r->amounts[0].gpu);
    assert_string_equal(r->amounts[1].resource, "nvidia.com/gpu");
    assert_true(r->amounts[1].amount == 4 && r->amounts[1].gpu);
}

static void held__missing_texts_are_empty(void **state) {
    (void)state;
    SL_AUTO_RECORD rec = {.value = 0};
    struct sl_ledger_reservation least = {.uid = "u", .cluster_queue = "q"};
    assert_int_equal(sl_record_from(&least, &rec, NULL), 0);
    assert_string_equal(rec.entry.r.local_queue, "");
    assert_string_equal(rec.entry.r.why, "");
    assert_int_equal(rec.entry.r.amount_count, 0);
}

static void held__reason_is_cut_between_characters(void **state) {
    (void)state;
    char why[4000] = "x";
    for (int i = 0; i < 1300; i++)
        memcpy(why + 1 + 3 * i, "\xe4\xb8\xad", 3);
    struct sl_ledger_reservation r = full;
    r.why = why;
    SL_AUTO_RECORD rec = {.value = 0};
    assert_int_equal(sl_record_from(&r, &rec, NULL), 0);
    assert_int_equal(strlen(rec.entry.r.why), 1 + 3 * ((SL_LEDGER_MAX_WHY - 1) / 3));
}

static void decode__any_changed_bit_or_length_is_noticed(void **state) {
    (void)state;
    struct sl_record in = {.entry = {.took = true, .held_ms = 5, .r = full}};
    unsigned char key[16] = {0, 0, 1, 0x8b};
    SL_AUTO_BUF b = SL_BUF_INIT(SL_RECORD_MAX_BYTES);
    assert_int_equal(sl_record_encode(SL_RECORD_HISTORY, key, 16, &in, &b, NULL), 0);
    SL_AUTO_RECORD rec = {.value = 0};
    assert_int_equal(sl_record_decode(SL_RECORD_HISTORY, key, 16, b.data, b.len, &rec, NULL), 0);
    assert_true(rec.entry.took && rec.entry.held_ms == 5 && rec.entry.at_ms == (int64_t)sl_be64_get(key));
    struct sl_record none = {.value = 0};
    for (size_t bit = 0; bit < b.len * 8; bit++) {
        b.data[bit / 8] ^= (char)(1 << bit % 8);
        assert_int_equal(sl_record_decode(SL_RECORD_HISTORY, key, 16, b.data, b.len, &none, NULL), SL_CORRUPT);
        b.data[bit / 8] ^= (char)(1 << bit % 8);
    }
    for (size_t bit = 0; bit < 16 * 8; bit++) {
        key[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_int_equal(sl_record_decode(SL_RECORD_HISTORY, key, 16, b.data, b.len, &none, NULL), SL_CORRUPT);
        key[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    for (size_t len = 0; len < b.len; len++) {
        SL_AUTO_FREE char *cut = sl_xalloc(len); /* exact, so that the sanitizer sees reads behind it */
        memcpy(cut, b.data, len);
        assert_int_equal(sl_record_decode(SL_RECORD_HISTORY, key, 16, cut, len, &none, NULL), SL_CORRUPT);
        if (sl_record_sign(key, 16, (unsigned char *)cut, len)) /* and with a checksum that fits */
            assert_int_equal(sl_record_decode(SL_RECORD_HISTORY, key, 16, cut, len, &none, NULL), SL_CORRUPT);
    }
    assert_null(none.bytes);
}

static void decode__wrong_kind_or_key(void **state) {
    (void)state;
    struct sl_record in = {.value = 42}, none = {.value = 0};
    SL_AUTO_BUF b = SL_BUF_INIT(SL_RECORD_MAX_BYTES), held = SL_BUF_INIT(SL_RECORD_MAX_BYTES);
    assert_int_equal(sl_record_encode(SL_RECORD_TIMER, "uid", 3, &in, &b, NULL), 0);
    assert_int_equal(sl_record_decode(SL_RECORD_META, "uid", 3, b.data, b.len, &none, NULL), SL_CORRUPT);
    assert_int_equal(sl_record_decode(SL_RECORD_TIMER, "uie", 3, b.data, b.len, &none, NULL), SL_CORRUPT);
    struct sl_record out = {.value = 0};
    assert_int_equal(sl_record_decode(SL_RECORD_TIMER, "uid", 3, b.data, b.len, &out, NULL), 0);
    assert_int_equal(out.value, 42);
    sl_record_done(&out);
    /* a reservation whose uid is not its key, with a checksum that fits */
    struct sl_record r = {.entry.r = full};
    assert_int_equal(sl_record_encode(SL_RECORD_HELD, "uid-2", 5, &r, &held, NULL), 0);
    assert_int_equal(sl_record_decode(SL_RECORD_HELD, "uid-2", 5, held.data, held.len, &none, NULL), SL_CORRUPT);
}

static void decode__impossible_content_with_a_good_checksum(void **state) {
    (void)state;
    struct sl_record r = {.entry.r = full}, none = {.value = 0};
    SL_AUTO_BUF b = SL_BUF_INIT(SL_RECORD_MAX_BYTES);
    assert_int_equal(sl_record_encode(SL_RECORD_HELD, "uid-1", 5, &r, &b, NULL), 0);
    SL_AUTO_FREE unsigned char *copy = sl_xalloc(b.len);
    size_t accepted = 0;
    for (size_t i = 6; i < b.len; i++) {
        for (int v = 0; v < 256; v += 5) {
            memcpy(copy, b.data, b.len);
            copy[i] = (unsigned char)v;
            assert_true(sl_record_sign("uid-1", 5, copy, b.len));
            struct sl_record out = {.value = 0};
            if (sl_record_decode(SL_RECORD_HELD, "uid-1", 5, copy, b.len, &out, NULL))
                continue;
            /* what is accepted is canonical */
            SL_AUTO_BUF again = SL_BUF_INIT(SL_RECORD_MAX_BYTES);
            assert_int_equal(sl_record_encode(SL_RECORD_HELD, "uid-1", 5, &out, &again, NULL), 0);
            assert_int_equal(again.len, b.len);
            assert_memory_equal(again.data, copy, b.len);
            sl_record_done(&out);
            accepted++;
        }
    }
    assert_true(accepted > 1000); /* other names and numbers are fine */
    assert_null(none.bytes);
}

static void encode__refuses_with_the_field(void **state) {
    (void)state;
    char name[600];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    struct sl_ledger_amount no_resource[] = {{"f", "", 1, false}}, long_flavor[] = {{name, "cpu", 1, false}};
    struct sl_ledger_reservation cases[9] = {full, full, full, full, full, full, full, full, full};
    static const char *const texts[] = {"uid is empty",      "uid has 599",      "clusterQueue is empty",
                                        "namespace has 599", "outcome 9",        "amount 0 has no resource",
                                        "flavor has 599",    "job kind has 599", "name has 599"};
    cases[0].uid = NULL;
    cases[1].uid = name;
    cases[2].cluster_queue = NULL;
    cases[3].namespace = name;
    cases[4].outcome = (enum sl_ledger_outcome)9;
    cases[5].amounts = no_resource;
    cases[6].amounts = long_flavor;
    cases[5].amount_count = cases[6].amount_count = 1;
    cases[7].job_kind = name;
    cases[8].name = name;
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        struct sl_record rec = {.value = 0};
        struct sl_err err = SL_ERR_INIT;
        assert_int_equal(sl_record_from(&cases[i], &rec, &err), SL_INVALID);
        if (!strstr(err.text, texts[i]))
            fail_msg("%s: %s", texts[i], err.text);
        assert_null(rec.bytes);
    }
}

static void same_holding__queue_and_amounts(void **state) {
    (void)state;
    struct sl_ledger_amount other[] = {{"h100", "nvidia.com/gpu", 5, true}, {"default", "cpu", INT64_MAX, false}};
    struct sl_ledger_reservation variants[4] = {full, full, full, full};
    variants[0].why = "another reason";
    variants[1].amounts = other;
    variants[2].cluster_queue = "cq2";
    variants[3].amount_count = 1;
    SL_AUTO_RECORD base = {.value = 0};
    assert_int_equal(sl_record_from(&full, &base, NULL), 0);
    for (size_t i = 0; i < SL_COUNT(variants); i++) {
        SL_AUTO_RECORD rec = {.value = 0};
        assert_int_equal(sl_record_from(&variants[i], &rec, NULL), 0);
        assert_int_equal(sl_record_same_holding(&base.entry.r, &rec.entry.r), i == 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(held__round_trip),
        cmocka_unit_test(held__missing_texts_are_empty),
        cmocka_unit_test(held__reason_is_cut_between_characters),
        cmocka_unit_test(decode__any_changed_bit_or_length_is_noticed),
        cmocka_unit_test(decode__wrong_kind_or_key),
        cmocka_unit_test(decode__impossible_content_with_a_good_checksum),
        cmocka_unit_test(encode__refuses_with_the_field),
        cmocka_unit_test(same_holding__queue_and_amounts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
