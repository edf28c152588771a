/* Allocation helpers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sluice/base/json.h"
#include "sluice/base/mem.h"

static void alloc__is_zeroed_and_never_null(void **state) {
    (void)state;
    char *p = sl_xalloc(0);
    assert_non_null(p);
    free(p);
    p = sl_xalloc(1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(p[i], 0);
    p = sl_xrealloc(p, 2000, 2);
    memset(p, 1, 4000);
    free(p);
}

static void dup__copies_exactly(void **state) {
    (void)state;
    assert_null(sl_xstrdup(NULL));
    SL_AUTO_FREE char *a = sl_xstrdup("abc"), *b = sl_xstrndup("abcdef", 3), *c = sl_xstrndup(NULL, 0),
                      *d = sl_xprintf("%s-%d", "x", 5);
    assert_string_equal(a, "abc");
    assert_string_equal(b, "abc");
    assert_string_equal(c, "");
    assert_string_equal(d, "x-5");
}

static void grow__any_index(void **state) {
    (void)state;
    int *items = NULL;
    size_t cap = 0;
    for (size_t n = 0; n < 1000; n++) {
        SL_GROW(items, cap, n);
        assert_true(cap > n);
        items[n] = (int)n;
    }
    SL_GROW(items, cap, (size_t)100000);
    assert_true(cap > 100000);
    for (int n = 0; n < 1000; n++)
        assert_int_equal(items[n], n);
    free(items);
}

static void take__nulls_the_pointer(void **state) {
    (void)state;
    char *p = sl_xstrdup("x"), *q = SL_TAKE(p);
    assert_null(p);
    assert_string_equal(q, "x");
    free(q);
}

static void assert__writes_one_json_line_and_aborts(void **state) {
    (void)state;
    int fds[2], status;
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fds[1], 2);
        signal(SIGABRT, SIG_DFL);
        SL_ASSERT(!strcmp("a\\b", "c"));
        _exit(0);
    }
    close(fds[1]);
    char text[500] = "";
    assert_true(read(fds[0], text, sizeof text - 1) >= 0);
    size_t n = strlen(text);
    while (n < sizeof text - 1 && read(fds[0], text + n, 1) == 1)
        n++;
    close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    struct sl_json *line = NULL;
    assert_int_equal(sl_json_parse(text, strcspn(text, "\n"), 1000, &line, NULL), 0);
    assert_non_null(strstr(sl_json_get_str(line, "what", ""), "strcmp"));
    sl_json_unref(line);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alloc__is_zeroed_and_never_null),
        cmocka_unit_test(dup__copies_exactly),
        cmocka_unit_test(grow__any_index),
        cmocka_unit_test(assert__writes_one_json_line_and_aborts),
        cmocka_unit_test(take__nulls_the_pointer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
