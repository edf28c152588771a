/* The structural check of a ledger file: any bytes at all, from a file in memory. */
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../quota/ledger/verify.h"
#include "sluice/base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int fd = memfd_create("ledger", MFD_CLOEXEC);
    SL_ASSERT(fd >= 0);
    if (write(fd, data, size) == (ssize_t)size) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        struct sl_err err = SL_ERR_INIT;
        int rc = sl_ledger_verify_file(path, &err);
        SL_ASSERT(rc == 0 || ((rc == SL_CORRUPT || rc == SL_NOT_FOUND) && err.text[0]));
    }
    close(fd);
    return 0;
}
