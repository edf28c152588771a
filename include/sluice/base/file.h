/* Whole files with limits. */
#ifndef SLUICE_BASE_FILE_H
#define SLUICE_BASE_FILE_H

#include "sluice/base/buf.h"

/* Appends the whole file to out, whose max is the limit (SL_TOO_BIG). SL_NOT_FOUND when it does not exist; SL_IO else.
 * "-" is standard input. */
SL_MUST int sl_file_read(const char *path, struct sl_buf *out, struct sl_err *err);
/* Writes beside the file and renames, so that readers see the old or the new content. */
SL_MUST int sl_file_write(const char *path, const void *data, size_t len, int mode, struct sl_err *err);

#endif
