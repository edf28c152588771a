/* `sluice simulate --scenario FILE`: plays decision scenarios (a JSON object a line) through the engine in virtual
 * time. */
#ifndef SLUICE_CMD_SCENARIO_H
#define SLUICE_CMD_SCENARIO_H

#include "sluice/api/config.h"
#include "sluice/api/fielderr.h"
#include "sluice/base/json.h"
#include "sluice/cmd/command.h"

/* Prints one object each with json or yaml, and with check "N of M agree" and each first difference. Returns an exit
 * code: 0, 1 on a difference, 2 at the first line that is no scenario (the error has its number, and the path of each
 * fault), 3 when the file cannot be read. A line has at most 4 MiB. */
int sl_cmd_scenario(const char *path, const struct sl_config *config, bool check, enum sl_output as);

/* Every fault of a scenario as such: types, unknown members, objects that an API server would refuse. What is said of
 * it can be played, but for names that lead nowhere. */
void sl_scenario_check(const struct sl_json *scenario, struct sl_fielderrs *errors);

struct sl_scenario_stats { /* decisions over the whole scenario */
    size_t admissions, evictions, reasons;
    size_t repeated_reasons; /* a workload was told again what it knew: must be 0 */
    size_t restless;         /* steps after which one more run still decided something: must be 0 */
    struct sl_json *waiting; /* given as an object: sl_engine_explain() of who waits at the end, by name; or NULL */
};
enum sl_scenario_release {                      /* when evicted workloads give their quota back */
                           SL_RELEASE_TOGETHER, /* all that one run evicted, before the next run */
                           SL_RELEASE_FIRST,    /* one between two runs, the first evicted first */
                           SL_RELEASE_LAST,     /* one between two runs, the last evicted first */
};
/* One scenario: {"name","settled","outcome":[...]}, owned. Invariants of the engine's books are checked after every
 * round (abort). SL_INVALID names the object or step. stats may be NULL. */
SL_MUST int sl_scenario_play(const struct sl_json *scenario, const struct sl_config *config,
                             enum sl_scenario_release release, struct sl_json **ret, struct sl_scenario_stats *stats,
                             struct sl_err *err);
/* First difference between the scenario's expectation and a result of sl_scenario_play(), owned; NULL when they agree.
 * A scenario that is not stable has one duty: to settle. */
char *sl_scenario_difference(const struct sl_json *scenario, const struct sl_json *result);

#endif
