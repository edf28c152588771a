/*
 * Folders of cases: every folder below a path of the source tree is a case, its files are what a runner reads of it. A
 * new case is a new folder. SL_GOLDEN_UPDATE=1 writes what came out over what was expected, for reading the difference
 * in version control.
 */
#ifndef SLUICE_TESTS_GOLDEN_H
#define SLUICE_TESTS_GOLDEN_H

#include <dirent.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sluice/base/buf.h"
#include "sluice/base/file.h"
#include "sluice/base/json.h"
#include "sluice/base/mem.h"
#include "sluice/base/yaml.h"

#define GOLDEN_MAX ((size_t)8 << 20)

/* Text of a file of a case; NULL when there is none. free() */
static inline char *golden_read(const char *dir, const char *file) {
    char *path = sl_xprintf("%s/%s", dir, file);
    struct sl_buf b = SL_BUF_INIT(GOLDEN_MAX);
    struct sl_err err = SL_ERR_INIT;
    int code = sl_file_read(path, &b, &err);
    free(path);
    if (code == SL_NOT_FOUND) {
        sl_buf_done(&b);
        return NULL;
    }
    if (code < 0)
        fail_msg("%s/%s: %s", dir, file, err.text);
    sl_buf_puts(&b, "");
    char *text = sl_buf_take(&b);
    return text ? text : sl_xstrdup("");
}

/* First document of a YAML (or JSON) file; NULL when there is no such file. Owned. */
static inline struct sl_json *golden_yaml(const char *dir, const char *file) {
    char *text = golden_read(dir, file);
    if (!text)
        return NULL;
    struct sl_json *docs = NULL;
    struct sl_err err = SL_ERR_INIT;
    if (sl_yaml_parse(text, strlen(text), true, &docs, NULL, &err) < 0)
        fail_msg("%s/%s: %s", dir, file, err.text);
    free(text);
    struct sl_json *first = sl_json_ref(sl_json_at(docs, 0));
    sl_json_unref(docs);
    return first;
}

static inline bool golden_updating(void) {
    return getenv("SL_GOLDEN_UPDATE") != NULL;
}

/* `got` must be the text of the file; NULL: there must be no such file. Blanks at the end do not count. */
static inline void golden_check_text(const char *dir, const char *file, const char *got) {
    char *path = sl_xprintf("%s/%s", dir, file);
    if (golden_updating()) {
        if (got) {
            char *line = sl_xprintf("%s\n", got);
            assert_int_equal(sl_file_write(path, line, strlen(line), 0644, NULL), 0);
            free(line);
        } else {
            remove(path);
        }
    } else {
        char *want = golden_read(dir, file);
        for (size_t n = want ? strlen(want) : 0; n && (want[n - 1] == '\n' || want[n - 1] == ' '); n--)
            want[n - 1] = 0;
        if (!want != !got || (want && strcmp(want, got)))
            fail_msg("%s\nwant: %s\ngot:  %s", path, want ? want : "(nothing)", got ? got : "(nothing)");
        free(want);
    }
    free(path);
}

/* The same for a tree; the file is JSON or YAML. got NULL: there must be no such file. */
static inline void golden_check_json(const char *dir, const char *file, const struct sl_json *got) {
    if (golden_updating() || !got) {
        struct sl_buf b = SL_BUF_INIT(GOLDEN_MAX);
        if (got)
            sl_json_dump_pretty(got, &b);
        golden_check_text(dir, file, got ? sl_buf_text(&b) : NULL);
        sl_buf_done(&b);
        return;
    }
    struct sl_json *want = golden_yaml(dir, file);
    if (!sl_json_equal(want, got)) {
        char *a = want ? sl_json_text(want) : NULL, *b = sl_json_text(got);
        fail_msg("%s/%s\nwant: %s\ngot:  %s", dir, file, a ? a : "(nothing)", b);
    }
    sl_json_unref(want);
}

static inline int golden_by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Runs every case folder below tests/golden/<kind>; fails when there is none. */
static inline void golden_each(const char *kind, void (*run)(const char *dir)) {
    char *root = sl_xprintf("%s/tests/golden/%s", SL_SOURCE_DIR, kind);
    struct dirent **names;
    int n = scandir(root, &names, NULL, golden_by_name), cases = 0;
    if (n < 0)
        fail_msg("%s: no such folder", root);
    for (int i = 0; i < n; i++) {
        char *dir = sl_xprintf("%s/%s", root, names[i]->d_name);
        struct stat st;
        if (names[i]->d_name[0] != '.' && stat(dir, &st) == 0 && S_ISDIR(st.st_mode)) {
            print_message("  %s/%s\n", kind, names[i]->d_name);
            run(dir);
            cases++;
        }
        free(dir);
        free(names[i]);
    }
    free(names);
    free(root);
    assert_true(cases > 0);
}

#endif
