/* Manifests from files and folders, for simulate, explain and lint, and what is wrong with them. */
#ifndef SLUICE_CMD_MANIFESTS_H
#define SLUICE_CMD_MANIFESTS_H

#include "sluice/api/fielderr.h"
#include "sluice/base/json.h"
#include "sluice/base/yaml.h"
#include "sluice/cmd/command.h"

struct sl_manifest {
    char *file;
    int line;                /* of the object in its file */
    const int *lines;        /* of the values in the object, in the order of its tree; borrowed of the list */
    int document, documents; /* which of how many in the file */
    struct sl_json *object;
};
/* A file, or a document of one, that could not be read as manifests. */
struct sl_manifest_fault {
    char *file, *text;
    int line, code; /* line 0: of the file as a whole; code: enum sl_code */
};
struct sl_manifests {
    struct sl_manifest *items;
    size_t n, cap;
    bool go_on; /* what is wrong with one file is kept in faults, and the others are read; else it ends the reading */
    struct sl_manifest_fault *faults;
    size_t n_faults, cap_faults;
    struct sl_yaml_lines *files; /* one a file */
    size_t n_files, cap_files;
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
/* The line of the field at a path, as errors write it ("spec.a[0].b", "metadata.labels[KEY]"), or when that is "", at
 * the one that the text of the error begins with; of the nearest field around it when it is not there. */
int sl_manifest_line(const struct sl_manifest *m, const char *path, const char *text);
/* The text at a path for a terminal, "?" for none: without characters that would move its cursor. Owned. */
char *sl_manifest_text(const struct sl_manifest *m, const char *path);
/* One line on standard output: "FILE:LINE: document N: LEVEL: KIND/NAME: PATH: TEXT" (the number where the file has
 * more than one; the line is that of the field), or an object with these members. */
void sl_manifest_report(enum sl_output as, const struct sl_manifest *m, const char *level, const char *path,
                        const char *text);

/* The same of a file that could not be read: "FILE:LINE: error: TEXT". */
void sl_manifest_report_fault(enum sl_output as, const struct sl_manifest_fault *f);

#endif
