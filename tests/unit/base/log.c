/* Log lines: one JSON object each, whatever is logged; the limit of each call site. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <pthread.h>
#include <unistd.h>

#include "sluice/base/json.h"
#include "sluice/base/log.h"
#include "sluice/base/mem.h"

static int fds[2];

static int capture(void **state) {
    (void)state;
    char name[] = "/tmp/sluice-log-XXXXXX";
    fds[0] = mkstemp(name);
    if (fds[0] < 0)
        return -1;
    unlink(name);
    sl_log_set_fd(fds[0]);
    sl_log_set_level(SL_LOG_INFO);
    return 0;
}
static int release(void **state) {
    (void)state;
    sl_log_set_fd(2);
    sl_log_set_level(SL_LOG_INFO);
    return close(fds[0]);
}

/* All lines as an array; every one must be strict JSON of valid UTF-8. */
static struct sl_json *lines(void) {
    SL_AUTO_BUF text = SL_BUF_INIT(64 << 20);
    char chunk[8192];
    off_t at = 0;
    for (ssize_t n; (n = pread(fds[0], chunk, sizeof chunk, at)) > 0; at += n)
        sl_buf_add(&text, chunk, (size_t)n);
    struct sl_json *all = sl_json_new_array();
    for (const char *p = sl_buf_text(&text); *p;) {
        size_t n = strcspn(p, "\n");
        struct sl_json *line = NULL;
        struct sl_err err = SL_ERR_INIT;
        assert_int_equal(p[n], '\n');
        assert_true(n < 4096);
        if (sl_json_parse_strict(p, n, 1 << 20, &line, &err))
            fail_msg("%.*s: %s", (int)n, p, err.text);
        sl_json_append(all, line);
        p += n + 1;
    }
    return all;
}

static void line__has_time_level_message_and_fields(void **state) {
    (void)state;
    SL_LOG(INFO, "quota reserved", SL_STR("queue", "a\"b\\c\n\x01\x7f"), SL_I64("wait_ms", INT64_MIN),
           SL_OBJ("workload", "ns", "name"), SL_OBJ("node", "", "n1"), SL_OBJ("flavor", NULL, "f"));
    SL_LOG(ERROR, "no fields");
    SL_AUTO_JSON *all = lines();
    assert_int_equal(sl_json_len(all), 2);
    assert_string_equal(sl_json_path_str(all, "0.level", ""), "info");
    assert_string_equal(sl_json_path_str(all, "0.msg", ""), "quota reserved");
    assert_string_equal(sl_json_path_str(all, "0.queue", ""), "a\"b\\c\n\x01\x7f");
    assert_true(sl_json_int(sl_json_path(all, "0.wait_ms"), 0) == INT64_MIN);
    assert_string_equal(sl_json_path_str(all, "0.workload", ""), "ns/name");
    assert_string_equal(sl_json_path_str(all, "0.node", ""), "n1");
    assert_string_equal(sl_json_path_str(all, "0.flavor", ""), "f");
    assert_int_equal(strlen(sl_json_path_str(all, "0.ts", "")), 27);
    assert_string_equal(sl_json_path_str(all, "1.level", ""), "error");
    assert_int_equal(sl_json_len(sl_json_at(all, 1)), 3);
}

static void line__null_text_is_empty(void **state) {
    (void)state;
    const char *none = NULL;
    SL_LOG(INFO, "x", SL_STR("a", none), SL_OBJ("b", none, none));
    SL_AUTO_JSON *all = lines();
    assert_string_equal(sl_json_path_str(all, "0.a", "?"), "");
    assert_string_equal(sl_json_path_str(all, "0.b", "?"), "");
}

static void line__bytes_that_are_no_text(void **state) {
    (void)state;
    SL_LOG(INFO, "x", SL_STR("a", "\xff\xc3(\xed\xa0\x80"), SL_STR("b", "\xe4\xb8\xad\xf0\x9f\x98\x80"));
    SL_AUTO_JSON *all = lines();
    assert_string_equal(sl_json_path_str(all, "0.a", ""),
                        "\xef\xbf\xbd\xef\xbf\xbd(\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    assert_string_equal(sl_json_path_str(all, "0.b", ""), "\xe4\xb8\xad\xf0\x9f\x98\x80");
}

static void line__long_values_are_cut_and_it_stays_json(void **state) {
    (void)state;
    char plain[6000], wide[6001], control[3000], quotes[3000];
    memset(plain, 'x', sizeof plain - 1);
    plain[sizeof plain - 1] = 0;
    for (int i = 0; i < 2000; i++)
        memcpy(wide + 3 * i, "\xe4\xb8\xad", 3);
    wide[6000] = 0;
    memset(control, 1, sizeof control - 1);
    control[sizeof control - 1] = 0;
    memset(quotes, '"', sizeof quotes - 1);
    quotes[sizeof quotes - 1] = 0;
    SL_LOG(INFO, "one", SL_STR("a", plain));
    SL_LOG(INFO, "wide", SL_STR("a", wide), SL_OBJ("b", wide, "n"));
    SL_LOG(INFO, "many", SL_STR("a", plain), SL_STR("b", plain), SL_STR("c", plain), SL_STR("d", plain),
           SL_STR("e", plain), SL_STR("f", plain), SL_I64("g", 7));
    SL_LOG(INFO, "control", SL_STR("a", control), SL_STR("b", control), SL_I64("c", 5));
    SL_LOG(INFO, "quotes", SL_STR("a", quotes), SL_STR("b", quotes), SL_STR("c", quotes), SL_I64("d", 5));
    SL_LOG(INFO, plain, SL_STR("a", plain));
    /* every length near the end of the line */
    for (int n = 0; n < 1100; n += 7) {
        plain[n] = 0;
        static struct sl_log_site site;
        site = (struct sl_log_site){0, 0, 0};
        struct sl_log_field fields[] = {
            SL_STR("a", control), SL_STR("b", plain),          SL_OBJ("object-with-a-long-key", plain, plain),
            SL_STR("c", wide),    SL_I64("number", INT64_MIN), {NULL, NULL, 0, NULL}};
        sl_log_write(&site, SL_LOG_INFO, "edge", fields);
        plain[n] = 'x';
    }
    SL_AUTO_JSON *all = lines();
    assert_in_range(strlen(sl_json_path_str(all, "0.a", "")), 500, 1100);
    assert_true(strlen(sl_json_path_str(all, "1.a", "")) % 3 == 0);
    assert_int_equal(sl_json_len(all), 6 + 158);
}

static void level__below_is_silent_and_not_evaluated(void **state) {
    (void)state;
    int evaluated = 0;
    SL_LOG(DEBUG, "x", SL_I64("n", ++evaluated));
    assert_int_equal(evaluated, 0);
    sl_log_set_level(SL_LOG_DEBUG);
    SL_LOG(DEBUG, "x", SL_I64("n", ++evaluated));
    sl_log_set_level(SL_LOG_ERROR);
    SL_LOG(WARN, "x", SL_I64("n", ++evaluated));
    sl_log_set_fd(-1);
    SL_LOG(ERROR, "x", SL_I64("n", ++evaluated));
    assert_int_equal(evaluated, 1);
    SL_AUTO_JSON *all = lines();
    assert_int_equal(sl_json_len(all), 1);
}

static void site__is_limited_and_says_what_it_left_out(void **state) {
    (void)state;
    static struct sl_log_site site, other;
    struct sl_log_field none = {NULL, NULL, 0, NULL};
    for (int i = 0; i < 1000; i++)
        sl_log_write(&site, SL_LOG_INFO, "flood", &none);
    sl_log_write(&other, SL_LOG_INFO, "other site", &none);
    site.window_ms -= 2000; /* the next second */
    sl_log_write(&site, SL_LOG_INFO, "flood", &none);
    sl_log_write(&site, SL_LOG_INFO, "flood", &none);
    SL_AUTO_JSON *all = lines();
    size_t n = 0;
    long long suppressed = 0;
    SL_JSON_ITEMS (all, e) {
        n += !strcmp(sl_json_get_str(e.value, "msg", ""), "flood");
        suppressed += sl_json_get_int(e.value, "suppressed", 0);
    }
    assert_int_equal(n + (size_t)suppressed, 1002); /* nothing is lost without being counted */
    assert_in_range(n, 22, 62);                     /* 20 a second; a slow machine may see a second second */
}

static void *write_lines(void *payload) {
    static struct sl_log_site sites[4];
    struct sl_log_field fields[] = {SL_STR("who", payload), {NULL, NULL, 0, NULL}};
    for (int i = 0; i < 20; i++)
        sl_log_write(&sites[*(const char *)payload - 'a'], SL_LOG_INFO, "threads", fields);
    return NULL;
}
static void threads__do_not_mix_their_lines(void **state) {
    (void)state;
    pthread_t threads[4];
    char names[4][600];
    for (int i = 0; i < 4; i++) {
        memset(names[i], 'a' + i, sizeof names[i] - 1);
        names[i][sizeof names[i] - 1] = 0;
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, names[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    SL_AUTO_JSON *all = lines();
    assert_int_equal(sl_json_len(all), 80);
    SL_JSON_ITEMS (all, e)
        assert_int_equal(
            strspn(sl_json_get_str(e.value, "who", ""), (char[]){*sl_json_get_str(e.value, "who", "?"), 0}), 599);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, capture, release)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(line__has_time_level_message_and_fields),
        TEST(line__null_text_is_empty),
        TEST(line__bytes_that_are_no_text),
        TEST(line__long_values_are_cut_and_it_stays_json),
        TEST(level__below_is_silent_and_not_evaluated),
        TEST(site__is_limited_and_says_what_it_left_out),
        TEST(threads__do_not_mix_their_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
