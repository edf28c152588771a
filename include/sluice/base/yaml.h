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
/* Block style YAML of a tree, keys in insertion order; strings quoted where they would read as something else. */
void sl_yaml_dump(const struct sl_json *j, struct sl_buf *out);

#endif
