/* Quantities: parsing, rounding, clamping, printing, against worked values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/api/quantity.h"
#include "sluice/base/mem.h"

static struct sl_quantity parse(const char *text) {
    struct sl_quantity q;
    struct sl_err err = SL_ERR_INIT;
    if (sl_quantity_parse(text, &q, &err) < 0)
        fail_msg("%s: %s", text, err.text);
    return q;
}

static void quantity__canonical_text(void **s) {
    (void)s;
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"0", "0"},           {"-0", "0"},       {"1", "1"},           {"+5", "5"},          {"007", "7"},
        {"1500m", "1500m"},   {"1.5", "1500m"},  {"0.5", "500m"},      {".5", "500m"},       {"5.", "5"},
        {"1000", "1k"},       {"1000m", "1"},    {"1G", "1G"},         {"1024", "1024"},     {"1000000", "1M"},
        {"1Ki", "1Ki"},       {"1024Ki", "1Mi"}, {"0.5Gi", "512Mi"},   {"1.5Gi", "1536Mi"},  {"0.5Ki", "512"},
        {"0.001Ki", "1024m"}, {"1e3", "1e3"},    {"1E3", "1e3"},       {"12e5", "1200e3"},   {"1e-3", "1e-3"},
        {"1E", "1E"},         {"1Ei", "1Ei"},    {"1n", "1n"},         {"0.1n", "1n"},       {"-0.1n", "-1n"},
        {"1u", "1u"},         {"-1", "-1"},      {"-1500m", "-1500m"}, {"1000Ki", "1000Ki"}, {"1000E", "1000E"},
        {"100m", "100m"},     {"1e0", "1"},      {"1500Mi", "1500Mi"},
    };
    char text[SL_QUANTITY_TEXT];
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        struct sl_quantity q = parse(rows[i].in);
        assert_string_equal(sl_quantity_format(&q, text), rows[i].out);
    }
    /* 2^60 / 10^10 = 115292150.4606846976: exact to the nano, rounded up */
    assert_true(parse("0.0000000001Ei").nano == (__int128)115292150460684698);
}

static void quantity__malformed_text_is_refused(void **s) {
    (void)s;
    static const char *const bad[] = {"",    " ",    "ten", "1 ",    " 1",   "1ki", "1KI", "1K",
                                      "--1", "+-1",  ".",   "-",     "1..2", "1m2", "1e",  "1e+",
                                      "1eg", "0x10", "1,5", "1_000", "Ki",   "m",   "1iK", "1Gi "};
    for (size_t i = 0; i < SL_COUNT(bad); i++) {
        struct sl_quantity q = {7, SL_QTY_BINARY_SI};
        struct sl_err err = SL_ERR_INIT;
        assert_int_equal(sl_quantity_parse(bad[i], &q, &err), SL_INVALID);
        assert_true(q.nano == 7); /* untouched */
    }
    struct sl_quantity q;
    char *longer = sl_xalloc(5000);
    memset(longer, '9', 4999);
    assert_int_equal(sl_quantity_parse(longer, &q, NULL), SL_INVALID);
    free(longer);
    assert_int_equal(sl_quantity_parse(NULL, &q, NULL), SL_INVALID);
}

static void quantity__amounts_round_up_and_clamp(void **s) {
    (void)s;
    static const struct {
        const char *text, *resource;
        int64_t amount, quota;
    } rows[] = {
        {"1", "cpu", 1000, 1000},
        {"0.5m", "cpu", 1, 1},
        {"1500m", "cpu", 1500, 1500},
        {"1500m", "memory", 2, 2},
        {"1Gi", "memory", 1073741824, 1073741824},
        {"1G", "memory", 1000000000, 1000000000},
        {"-1", "nvidia.com/gpu", -1, -1},
        {"1E", "cpu", INT64_MAX, INT64_MAX},
        {"9223372036854774", "cpu", 9223372036854774000, 9223372036854774000},
        {"9223372036854775", "cpu", 9223372036854775000,
         INT64_MAX}, /* the last few cores count as unlimited in quotas only */
        {"9223372036854775807", "pods", INT64_MAX, INT64_MAX},
        {"9223372036854775806", "pods", 9223372036854775806, 9223372036854775806},
        {"9223372036854775808", "pods", INT64_MAX, INT64_MAX},
        {"-10E", "pods", INT64_MIN, INT64_MIN},
        {"1e400", "pods", INT64_MAX, INT64_MAX},
        {"1e-400", "pods", 1, 1},
        {"0e400", "pods", 0, 0},
        {"99999999999999999999999999999999999999999999", "pods", INT64_MAX, INT64_MAX},
    };
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        struct sl_quantity q = parse(rows[i].text);
        assert_int_equal(sl_quantity_amount(&q, rows[i].resource), rows[i].amount);
        assert_int_equal(sl_quantity_quota(&q, rows[i].resource), rows[i].quota);
    }
}

static void quantity__sums_and_order_are_exact(void **s) {
    (void)s;
    struct sl_quantity a = parse("0.1"), b = parse("0.2"), c = parse("0.3");
    struct sl_quantity sum = sl_quantity_add(a, b);
    assert_int_equal(sl_quantity_compare(&sum, &c), 0);
    assert_int_equal(sl_quantity_compare(&a, &b), -1);
    assert_int_equal(sl_quantity_compare(&b, &a), 1);
    struct sl_quantity big = parse("1e60"), twice = sl_quantity_add(big, big);
    assert_int_equal(sl_quantity_compare(&twice, &big), 0);
}

static void quantity__json_nodes(void **s) {
    (void)s;
    SL_AUTO_JSON *j = sl_json_from("['1Gi', 3, 0.25, -2, true, null, {}]");
    static const int64_t cpu[] = {1073741824000, 3000, 250, -2000};
    struct sl_quantity q;
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(sl_quantity_from_json(sl_json_at(j, i), &q, NULL), 0);
        assert_int_equal(sl_quantity_amount(&q, "cpu"), cpu[i]);
    }
    for (size_t i = 4; i < 7; i++)
        assert_int_equal(sl_quantity_from_json(sl_json_at(j, i), &q, NULL), SL_INVALID);
    assert_int_equal(sl_quantity_from_json(NULL, &q, NULL), SL_INVALID);
}

static void quantity__reals_are_read_as_written(void **s) {
    (void)s;
    SL_AUTO_JSON *j = sl_json_from("[0.1, 123456.1, 1e-10, 1e300, -2.5]");
    static const char *const want[] = {"100m", "123456100m", "1n", NULL, "-2500m"};
    char text[SL_QUANTITY_TEXT];
    for (size_t i = 0; i < 5; i++) {
        struct sl_quantity q, w;
        assert_int_equal(sl_quantity_from_json(sl_json_at(j, i), &q, NULL), 0);
        if (!want[i]) {
            assert_int_equal(sl_quantity_amount(&q, "pods"), INT64_MAX);
            continue;
        }
        w = parse(want[i]);
        if (sl_quantity_compare(&q, &w) != 0)
            fail_msg("%s, not %s", sl_quantity_format(&q, text), want[i]);
    }
}

static void quantity__amounts_as_text(void **s) {
    (void)s;
    static const struct {
        const char *resource;
        int64_t amount;
        const char *text;
    } rows[] = {
        {"cpu", 1500, "1500m"},
        {"cpu", 2000, "2"},
        {"cpu", 1000000, "1k"},
        {"cpu", 0, "0"},
        {"memory", 1073741824, "1Gi"},
        {"memory", 1000000000, "1000000000"},
        {"memory", 1536, "1536"},
        {"memory", 1000, "1k"},
        {"ephemeral-storage", 2048, "2Ki"},
        {"hugepages-2Mi", 2097152, "2Mi"},
        {"nvidia.com/gpu", 8, "8"},
        {"nvidia.com/gpu", 2000, "2k"},
        {"pods", INT64_MAX, "9223372036854775807"},
    };
    char text[SL_QUANTITY_TEXT];
    for (size_t i = 0; i < SL_COUNT(rows); i++)
        assert_string_equal(sl_amount_format(rows[i].resource, rows[i].amount, text), rows[i].text);
    assert_string_equal(sl_amount_format_people("cpu", INT64_MAX, text), "<unlimited>");
    assert_string_equal(sl_amount_format_people("cpu", 500, text), "500m");
}

static void quantity__text_reads_back_as_the_same_value(void **s) {
    (void)s;
    uint64_t x = 88172645463325252u;
    char text[SL_QUANTITY_TEXT];
    for (int i = 0; i < 20000; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        struct sl_quantity q = {(__int128)(int64_t)x >> (x % 61), (enum sl_quantity_format)(x % 3)}, back;
        if (x % 5 == 0)
            q.nano *= 1000000007;
        assert_int_equal(sl_quantity_parse(sl_quantity_format(&q, text), &back, NULL), 0);
        assert_int_equal(sl_quantity_compare(&q, &back), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantity__canonical_text),
        cmocka_unit_test(quantity__malformed_text_is_refused),
        cmocka_unit_test(quantity__amounts_round_up_and_clamp),
        cmocka_unit_test(quantity__sums_and_order_are_exact),
        cmocka_unit_test(quantity__json_nodes),
        cmocka_unit_test(quantity__reals_are_read_as_written),
        cmocka_unit_test(quantity__amounts_as_text),
        cmocka_unit_test(quantity__text_reads_back_as_the_same_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
