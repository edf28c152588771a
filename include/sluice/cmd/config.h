/* The configuration file, read for a verb. */
#ifndef SLUICE_CMD_CONFIG_H
#define SLUICE_CMD_CONFIG_H

#include "sluice/api/config.h"

/* path NULL: the defaults. Prints every fault with its path to standard error and returns -1. ns, when not NULL, stands
 * in where the file names no namespace. *ret_document: the document as it was read (owned), NULL without a file. */
int sl_config_load(const char *path, const char *gates, const char *ns, struct sl_config *ret,
                   struct sl_json **ret_document);

#endif
