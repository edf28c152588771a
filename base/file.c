/* Whole files with limits. */
#include "sluice/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sluice/base/mem.h"

int sl_file_read(const char *path, struct sl_buf *out, struct sl_err *err) {
    bool in = !strcmp(path, "-");
    int fd = in ? 0 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        int e = errno;
        sl_err_set(err, e == ENOENT ? SL_NOT_FOUND : SL_IO, "%s: %s", path, strerror(e));
        if (err)
            err->sys = e;
        return e == ENOENT ? SL_NOT_FOUND : SL_IO;
    }
    int rc = 0;
    size_t before = out->len;
    for (;;) {
        char chunk[16384];
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            rc = sl_err_set(err, SL_IO, "%s: %s", path, strerror(errno));
            break;
        }
        if (n == 0)
            break;
        sl_buf_add(out, chunk, (size_t)n);
        if (out->failed) {
            rc = sl_err_set(err, SL_TOO_BIG, "%s: more than %zu bytes", path, out->max);
            break;
        }
    }
    if (rc && out->data)
        out->data[out->len = before] = 0;
    if (!in)
        close(fd);
    return rc;
}

int sl_file_write(const char *path, const void *data, size_t len, int mode, struct sl_err *err) {
    SL_AUTO_FREE char *temp = sl_xprintf("%s.new-%d", path, (int)getpid());
    int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return sl_err_set(err, SL_IO, "%s: %s", temp, strerror(errno));
    const char *p = data;
    bool ok = fchmod(fd, (mode_t)mode) == 0; /* not what the umask or an old temporary file makes of it */
    for (size_t done = 0; ok && done < len;) {
        ssize_t n = write(fd, p + done, len - done);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            ok = false;
    }
    ok = ok && fsync(fd) == 0;
    ok = close(fd) == 0 && ok;
    ok = ok && rename(temp, path) == 0;
    if (!ok) {
        int e = errno;
        unlink(temp);
        return sl_err_set(err, SL_IO, "%s: %s", path, strerror(e));
    }
    return 0;
}
