/* Verbs of the command line. A new one is a file with a function and a row in cmd/commands.c. */
#ifndef SLUICE_CMD_COMMAND_H
#define SLUICE_CMD_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

/* Exit codes: 0 fine, 1 something was found wrong (invalid manifests, a difference, not ready), 2 wrong use (a scenario
 * file that is none, too), 3 could not be done (I/O, configuration, API server). */
enum { SL_EXIT_OK, SL_EXIT_WRONG, SL_EXIT_USAGE, SL_EXIT_FAILED };

struct sl_command {
    const char *name, *summary;
    const char *usage;                 /* lines for --help */
    int (*run)(int argc, char **argv); /* argv[0] is the verb */
};
extern const struct sl_command sl_commands[]; /* ends with a row without name */

/* Options of a verb: "--name VALUE", "--name=VALUE" and flags; "-o VALUE" is "--output". Everything else is a
 * positional argument. */
struct sl_option {
    const char *name;   /* without dashes */
    char short_name;    /* 0: none */
    const char **value; /* set to the last value given; NULL for a flag */
    bool *flag;
};
/* Parses in place; positional arguments are moved to the front of args (not counting argv[0]); returns how many, or -1
 * after printing an error to standard error that names the option. */
int sl_options(int argc, char **argv, const struct sl_option *options, const char ***ret_args);

/* Why a verb could not begin: a line on standard error, or with json an object {"error": ...} on standard output. */
void sl_cmd_error(const char *verb, bool json, const char *text);

int sl_cmd_manager(int argc, char **argv);
int sl_cmd_simulate(int argc, char **argv);
int sl_cmd_lint(int argc, char **argv);
int sl_cmd_explain(int argc, char **argv);
int sl_cmd_status(int argc, char **argv);
int sl_cmd_history(int argc, char **argv);
int sl_cmd_version(int argc, char **argv);
int sl_cmd_verify(int argc, char **argv);
int sl_cmd_check(int argc, char **argv);

#endif
