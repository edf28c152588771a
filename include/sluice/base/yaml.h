/* YAML text to JSON trees, for configuration and manifests: scalars by the JSON schema subset (yes/on/octal stay
 * strings), duplicate keys refused. */
#ifndef SLUICE_BASE_YAML_H
#define SLUICE_BASE_YAML_H

#include "sluice/base/json.h"

/* All documents of the text as one owned array; empty documents are left out. line_of, when not NULL, gets an array
 * (free()) with the first line of each document. Limits: 4 MiB, depth SL_JSON_MAX_DEPTH, 10,000 documents, 64 alias
 * expansions (0 when allow_aliases is false). SL_INVALID names line and column. */
SL_MUST int sl_yaml_parse(const char *text, size_t len, bool allow_aliases, struct sl_json **ret, int **line_of,
                          struct sl_err *err);
/* The same with the line of every value, for messages about one. The values of a document come in the order of its
 * tree: a container before what is in it. A member's line is that of its key; what an alias stands for is where the
 * alias stands. Some bytes a value, and not more than 500,000 of them. */
struct sl_yaml_lines {
    int *line; /* of all values of all documents */
    size_t n, cap;
    size_t *documents; /* where in `line` each of them begins */
    size_t n_documents, cap_documents;
    int fault; /* when it was refused: in which line; 0: in none */
};
#define SL_YAML_LINES_INIT                                                                                             \
    { NULL, 0, 0, NULL, 0, 0, 0 }
void sl_yaml_lines_done(struct sl_yaml_lines *lines);
SL_MUST int sl_yaml_parse_lines(const char *text, size_t len, bool allow_aliases, struct sl_json **ret,
                                struct sl_yaml_lines *lines, struct sl_err *err);
/* Block style YAML of a tree, keys in insertion order; strings quoted where they would read as something else. */
void sl_yaml_dump(const struct sl_json *j, struct sl_buf *out);

#endif
