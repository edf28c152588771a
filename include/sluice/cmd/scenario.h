/* `sluice simulate --scenario FILE`: plays decision scenarios (a JSON object a line) through the engine in virtual time. */
#ifndef SLUICE_CMD_SCENARIO_H
#define SLUICE_CMD_SCENARIO_H

#include "sluice/api/config.h"

/* Prints one object a line with json, and with check "N of M agree" and each first difference. Returns an exit code: 0, 1 on a difference,
 * 3 when the file cannot be read. */
int sl_cmd_scenario(const char *path, const struct sl_config *config, bool check, bool json);

#endif
