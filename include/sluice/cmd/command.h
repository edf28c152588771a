/* Verbs of the command line. A new one is a file with a function and a row in cmd/commands.c. */
#ifndef SLUICE_CMD_COMMAND_H
#define SLUICE_CMD_COMMAND_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sluice/base/json.h"

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

/* argv[0] of the program: kubectl runs a plugin as kubectl-sluice, and then usage and errors name it as it was called.
 */
void sl_cmd_called(const char *argv0);
const char *sl_cmd_name(void); /* "sluice" or "kubectl sluice" */
void sl_cmd_usage(const struct sl_command *c, FILE *to);
/* A line on standard error: what is wrong with how the verb was called. */
void sl_cmd_misuse(const char *verb, const char *format, ...) SL_PRINTF(2, 3);

/* What -o asks for. */
enum sl_output { SL_OUTPUT_TEXT, SL_OUTPUT_JSON, SL_OUTPUT_YAML };
bool sl_output_of(const char *verb, const char *text, enum sl_output *ret); /* false: it has been said what is taken */
/* An object on standard output: a line of JSON, or a YAML document behind a line ---. Not for SL_OUTPUT_TEXT. */
void sl_output_put(enum sl_output as, const struct sl_json *o);
/* Why a verb could not begin: a line on standard error, or an object {"error": ...} on standard output. */
void sl_cmd_error(const char *verb, enum sl_output as, const char *text);

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
