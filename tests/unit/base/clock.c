/* RFC 3339 and durations as Go writes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "sluice/base/clock.h"

static void time__format(void **state) {
    (void)state;
    char text[SL_TIME_TEXT];
    assert_string_equal(sl_time_format(0, text), "1970-01-01T00:00:00Z");
    assert_string_equal(sl_time_format(1796045587123, text), "2026-11-30T13:33:07Z");
    assert_string_equal(sl_time_format_micro(1796045587123, text), "2026-11-30T13:33:07.123000Z");
    assert_string_equal(sl_time_format(-1, text), "1969-12-31T23:59:59Z");
    assert_string_equal(sl_time_format_micro(-1, text), "1969-12-31T23:59:59.999000Z");
    assert_string_equal(sl_time_format(INT64_MAX, text), "9999-12-31T23:59:59Z"); /* cut to what RFC 3339 can say */
    assert_string_equal(sl_time_format(INT64_MIN, text), "0000-01-01T00:00:00Z");
}

static void time__parse(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {{"1970-01-01T00:00:00Z", 0},
                {"2026-11-30T13:33:07Z", 1796045587000},
                {"2026-11-30t13:33:07z", 1796045587000},
                {"2026-11-30T13:33:07.1Z", 1796045587100},
                {"2026-11-30T13:33:07.123456Z", 1796045587123},
                {"2026-11-30T13:33:07.123456789123Z", 1796045587123},
                {"2026-11-30T14:33:07+01:00", 1796045587000},
                {"2026-11-30T06:03:07-07:30", 1796045587000},
                {"2024-02-29T00:00:00Z", 1709164800000},
                {"2000-02-29T00:00:00Z", 951782400000},
                {"1969-12-31T23:59:59.5Z", -500}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int64_t ms = 99;
        if (!sl_time_parse(good[i].text, &ms) || ms != good[i].ms)
            fail_msg("%s gave %lld", good[i].text, (long long)ms);
    }
    static const char *const bad[] = {"",
                                      "2026",
                                      "2026-11-30",
                                      "2026-11-30T13:33:07",
                                      "2026-11-30 13:33:07Z",
                                      "2026-13-01T00:00:00Z",
                                      "2026-00-01T00:00:00Z",
                                      "2026-01-00T00:00:00Z",
                                      "2026-01-32T00:00:00Z",
                                      "2026-02-29T00:00:00Z",
                                      "2026-04-31T00:00:00Z",
                                      "1900-02-29T00:00:00Z",
                                      "2026-01-01T24:00:00Z",
                                      "2026-01-01T00:60:00Z",
                                      "2026-01-01T00:00:61Z",
                                      "2026-01-01T00:00:00.Z",
                                      "2026-01-01T00:00:00+0100",
                                      "2026-01-01T00:00:00+24:00",
                                      "2026-01-01T00:00:00Zx",
                                      "2026-1-1T00:00:00Z",
                                      "26-01-01T00:00:00Z",
                                      "2026-01-01T00:00:00.1",
                                      "2026-01-01T00:00:00+01:",
                                      "-026-01-01T00:00:00Z"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t ms = 99;
        if (sl_time_parse(bad[i], &ms) || ms != 99)
            fail_msg("%s was accepted", bad[i]);
    }
    assert_false(sl_time_parse(NULL, NULL));
}

static void time__round_trip(void **state) {
    (void)state;
    srandom(3);
    for (int i = 0; i < 5000; i++) {
        int64_t ms = ((int64_t)random() << 31 | random()) % 253402300800000, back = 0;
        char text[SL_TIME_TEXT];
        assert_true(sl_time_parse(sl_time_format_micro(ms, text), &back));
        assert_true(back == ms);
        assert_true(sl_time_parse(sl_time_format(ms, text), &back));
        assert_true(back == ms / 1000 * 1000);
    }
}

static void duration__parse(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {{"0", 0},
                {"+0", 0},
                {"5s", 5000},
                {"1h30m", 5400000},
                {"250ms", 250},
                {"1.5h", 5400000},
                {".5s", 500},
                {"1.s", 1000},
                {"-1m", -60000},
                {"+2s", 2000},
                {"1500us", 1},
                {"1500\xc2\xb5s", 1},
                {"1500\xce\xbcs", 1},
                {"999999ns", 0},
                {"1m1m", 120000},
                {"0s", 0},
                {"720h", 2592000000},
                {"0.000000001s", 0},
                {"1.23456789012345s", 1234},
                {"2562047h", 9223369200000}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int64_t ms = 99;
        if (!sl_duration_parse(good[i].text, &ms) || ms != good[i].ms)
            fail_msg("%s gave %lld", good[i].text, (long long)ms);
    }
    static const char *const bad[] = {"",
                                      "5",
                                      "s",
                                      ".",
                                      ".s",
                                      "-",
                                      "+",
                                      "5 s",
                                      " 5s",
                                      "5s ",
                                      "1h-5m",
                                      "5x",
                                      "5mss",
                                      "--5s",
                                      "1e3s",
                                      "2562048h",
                                      "99999999999999999999s",
                                      "9223372036854775807ms"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t ms = 99;
        if (sl_duration_parse(bad[i], &ms) || ms != 99)
            fail_msg("%s was accepted", bad[i]);
    }
    assert_false(sl_duration_parse(NULL, NULL));
}

static void now__moves_forward(void **state) {
    (void)state;
    int64_t a = sl_now_mono_ms(), wall = sl_now_wall_ms();
    assert_true(sl_now_mono_ms() >= a);
    assert_true(wall > 1600000000000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time__format),    cmocka_unit_test(time__parse),        cmocka_unit_test(time__round_trip),
        cmocka_unit_test(duration__parse), cmocka_unit_test(now__moves_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
