/* Whole files: limits, errors, replacement. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <sys/stat.h>
#include <unistd.h>

#include "sluice/base/file.h"
#include "sluice/base/mem.h"

static int make(void **state) {
    const char *temp = getenv("TMPDIR");
    char *dir = sl_xprintf("%s/sluice-file-XXXXXX", temp && *temp ? temp : "/tmp");
    *state = dir;
    return mkdtemp(dir) ? 0 : -1;
}
static int drop(void **state) {
    SL_AUTO_FREE char *file = sl_xprintf("%s/f", (char *)*state);
    (void)unlink(file);
    int rc = rmdir(*state);
    free(*state);
    return rc;
}

static void read__whole_within_the_limit(void **state) {
    SL_AUTO_FREE char *file = sl_xprintf("%s/f", (char *)*state);
    SL_AUTO_BUF in = SL_BUF_INIT(100000), out = SL_BUF_INIT(50000), small = SL_BUF_INIT(49999);
    for (int i = 0; i < 50000; i++)
        sl_buf_putc(&in, (char)(i * 7));
    assert_int_equal(sl_file_write(file, in.data, in.len, 0600, NULL), 0);
    assert_int_equal(sl_file_read(file, &out, NULL), 0);
    assert_int_equal(out.len, in.len);
    assert_memory_equal(out.data, in.data, in.len);
    struct sl_err err = SL_ERR_INIT;
    assert_int_equal(sl_file_read(file, &small, &err), SL_TOO_BIG);
    assert_non_null(strstr(err.text, "more than 49999 bytes"));
    assert_int_equal(small.len, 0);
}

static void read__missing_and_unreadable(void **state) {
    SL_AUTO_FREE char *file = sl_xprintf("%s/none", (char *)*state);
    SL_AUTO_BUF out = SL_BUF_INIT(100);
    struct sl_err err = SL_ERR_INIT;
    assert_int_equal(sl_file_read(file, &out, &err), SL_NOT_FOUND);
    assert_non_null(strstr(err.text, file));
    assert_int_equal(sl_file_read(*state, &out, &err), SL_IO); /* a folder */
}

static void write__replaces_and_leaves_nothing_behind(void **state) {
    SL_AUTO_FREE char *file = sl_xprintf("%s/f", (char *)*state), *bad = sl_xprintf("%s/no/f", (char *)*state);
    assert_int_equal(sl_file_write(file, "old", 3, 0644, NULL), 0);
    assert_int_equal(sl_file_write(file, "new content", 11, 0600, NULL), 0);
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_size, 11);
    assert_int_equal(st.st_mode & 0777, 0600);
    mode_t old = umask(0077);
    assert_int_equal(sl_file_write(file, "", 0, 0644, NULL), 0);
    umask(old);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_size, 0);
    assert_int_equal(st.st_mode & 0777, 0644); /* what was asked for, whatever the umask is */
    struct sl_err err = SL_ERR_INIT;
    assert_int_equal(sl_file_write(bad, "x", 1, 0600, &err), SL_IO);
    assert_non_null(strstr(err.text, bad));
} /* drop fails if a temporary file was left */

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(read__whole_within_the_limit, make, drop),
        cmocka_unit_test_setup_teardown(read__missing_and_unreadable, make, drop),
        cmocka_unit_test_setup_teardown(write__replaces_and_leaves_nothing_behind, make, drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
