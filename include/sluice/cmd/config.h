/* The configuration file, read for a verb. */
#ifndef SLUICE_CMD_CONFIG_H
#define SLUICE_CMD_CONFIG_H

#include "sluice/api/config.h"

/* path NULL: the defaults. ns, when not NULL, stands in where the file names no namespace. -1: *ret_error (owned) names
 * the file and every fault with its path. */
int sl_config_read(const char *path, const char *gates, const char *ns, struct sl_config *ret, char **ret_error);
/* The same, printing the error to standard error. */
int sl_config_load(const char *path, const char *gates, const char *ns, struct sl_config *ret);

#endif
