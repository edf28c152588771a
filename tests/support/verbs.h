/* Verbs of the command line run in the test's own process: their exit code, and what they said. */
#ifndef SLUICE_TESTS_VERBS_H
#define SLUICE_TESTS_VERBS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sluice/base/mem.h"
#include "sluice/cmd/command.h"

#define MAX_ARGS 8

static char folder[] = "/tmp/sluice-cli-XXXXXX";
static char said[65536]; /* standard output and standard error of the last run, as they were written */

static int set_up(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    return rmdir(folder); /* fails when a verb or a test left something behind */
}

static int run(int (*verb)(int, char **), const char *const *words) {
    char *argv[MAX_ARGS + 1] = {NULL};
    int argc = 0;
    for (; words[argc] && argc < MAX_ARGS; argc++)
        argv[argc] = sl_xstrdup(words[argc]);
    FILE *to = tmpfile();
    assert_non_null(to);
    fflush(stdout);
    fflush(stderr);
    int out = dup(1), err = dup(2);
    assert_true(out >= 0 && err >= 0 && dup2(fileno(to), 1) == 1 && dup2(fileno(to), 2) == 2);
    int code = verb(argc, argv);
    fflush(stdout);
    fflush(stderr);
    assert_true(dup2(out, 1) == 1 && dup2(err, 2) == 2);
    close(out);
    close(err);
    rewind(to);
    said[fread(said, 1, sizeof said - 1, to)] = 0;
    fclose(to);
    for (int i = 0; i < argc; i++)
        free(argv[i]);
    return code;
}
#define RUN(verb, ...) run(verb, (const char *const[]){#verb, __VA_ARGS__ __VA_OPT__(, ) NULL})

static void assert_said(const char *text) {
    if (!strstr(said, text))
        fail_msg("\"%s\" is not in:\n%s", text, said);
}

/* A verb with a file of its own, named last. extra: words between, NULL-terminated, or NULL. */
static int run_on_with(int (*verb)(int, char **), const char *const *extra, const char *name, const char *text) {
    SL_AUTO_FREE char *path = sl_xprintf("%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
    const char *words[MAX_ARGS + 1] = {"verb"};
    size_t n = 1;
    for (; extra && *extra; extra++)
        words[n++] = *extra;
    words[n] = path;
    int code = run(verb, words);
    assert_int_equal(unlink(path), 0);
    return code;
}

static inline int run_on(int (*verb)(int, char **), const char *name, const char *text) {
    return run_on_with(verb, NULL, name, text);
}

#endif
