/* Structural check of an LMDB data file without LMDB. */
#ifndef SLUICE_QUOTA_LEDGER_VERIFY_H
#define SLUICE_QUOTA_LEDGER_VERIFY_H

#include "sluice/base/err.h"

/*
 * Walks every page that the newest transaction of the file refers to. 0: LMDB can use it without reading outside of it.
 * SL_CORRUPT: it cannot, err tells where. SL_NOT_FOUND: no file, or an empty one. SL_IO: it could not be read. LMDB 0.9
 * trusts its pages and maps them: a cut or damaged file would end the process (SIGBUS, SIGSEGV, abort) instead of
 * failing. Nobody may write meanwhile.
 */
SL_MUST int sl_ledger_verify_file(const char *path, struct sl_err *err);

#endif
