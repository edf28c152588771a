/* Manifests from files and folders, for simulate and lint. */
#ifndef SLUICE_CMD_MANIFESTS_H
#define SLUICE_CMD_MANIFESTS_H

#include "sluice/base/json.h"

struct sl_manifest {
    char *file;
    int line; /* of the document in its file */
    struct sl_json *object;
};
struct sl_manifests {
    struct sl_manifest *items;
    size_t n, cap;
};
/* Adds every document of a file, or of all *.yaml, *.yml and *.json below a folder in the order of their names ("-" is
 * standard input). Lists (kind List) are taken apart. At most 20,000 documents. SL_NOT_FOUND, SL_INVALID and SL_TOO_BIG
 * name file and line. */
SL_MUST int sl_manifests_load(struct sl_manifests *m, const char *path, struct sl_err *err);
void sl_manifests_done(struct sl_manifests *m);

#endif
