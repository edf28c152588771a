/* Manifests from files and folders, for simulate, explain and lint, and what is wrong with them. */
#ifndef SLUICE_CMD_MANIFESTS_H
#define SLUICE_CMD_MANIFESTS_H

#include "sluice/api/fielderr.h"
#include "sluice/base/json.h"
#include "sluice/cmd/command.h"

struct sl_manifest {
    char *file;
    int line;                /* of the document in its file */
    int document, documents; /* which of how many in the file */
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

/* Whether a manifest is of a kind that has nothing to do with queues and jobs (a ConfigMap, a Deployment): a folder may
 * hold such too, and they are passed over. */
bool sl_manifest_foreign(const struct sl_json *object);
/* Every fault that an API server or the webhooks would find in the object alone; unknown fields of our own kinds are
 * among them (SL_FE_UNKNOWN). Says nothing of foreign ones but a warning when the kind looks like ours. */
void sl_manifest_check(const struct sl_json *object, struct sl_fielderrs *errors, struct sl_fielderrs *warnings);
/* The text at a path for a terminal, "?" for none: without characters that would move its cursor. Owned. */
char *sl_manifest_text(const struct sl_manifest *m, const char *path);
/* One line on standard output: "FILE:LINE: document N: LEVEL: KIND/NAME: PATH: TEXT" (the number where the file has
 * more than one), or an object with these members. */
void sl_manifest_report(enum sl_output as, const struct sl_manifest *m, const char *level, const char *path,
                        const char *text);

#endif
