/* A temporary folder for each test of the ledger, and callbacks that count. Include after <cmocka.h>. */
#ifndef SLUICE_TESTS_LEDGER_SUPPORT_H
#define SLUICE_TESTS_LEDGER_SUPPORT_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sluice/base/mem.h"
#include "sluice/quota/ledger/ledger.h"

/* The state is the path of the ledger's folder, which does not exist yet; its parent does. */
static int make_dir(void **state) {
    /* in memory where that is possible: thousands of commits, and nothing here is about power cuts */
    const char *temp = getenv("TMPDIR");
    if (!temp || !*temp)
        temp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    char *parent = sl_xprintf("%s/sluice-ledger-XXXXXX", temp);
    if (!mkdtemp(parent))
        return -1;
    *state = sl_xprintf("%s/ledger", parent);
    free(parent);
    return 0;
}

static void empty_dir(const char *path) {
    DIR *dir = opendir(path);
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir));) {
        char name[4096];
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        (void)unlink(name);
    }
    closedir(dir);
}

static int drop_dir(void **state) {
    char *path = *state;
    (void)chmod(path, 0700);
    empty_dir(path);
    (void)rmdir(path);
    *strrchr(path, '/') = 0;
    int rc = rmdir(path);
    free(path);
    return rc;
}

struct counted {
    size_t n;
    long long seconds;
};
static __attribute__((unused)) bool count_held(void *payload, const struct sl_ledger_reservation *r) {
    ((struct counted *)payload)->n += r->uid[0] != 0;
    return true;
}
static __attribute__((unused)) bool count_entries(void *payload, const struct sl_ledger_entry *e) {
    ((struct counted *)payload)->n += e->r.uid[0] != 0;
    return true;
}
static __attribute__((unused)) void count_gpu(void *payload, const struct sl_ledger_gpu *g) {
    ((struct counted *)payload)->n++;
    ((struct counted *)payload)->seconds += g->returned_seconds;
}

#endif
