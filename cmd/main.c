/* Entry: finds the verb. Process-wide rules of the libraries are kept here: no locale, SIGPIPE ignored, curl set up
 * before threads. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "sluice/cmd/command.h"

static void usage(FILE *out) {
    const char *name = sl_cmd_name();
    fprintf(out, "%s: a quota gate for GPU jobs on Kubernetes\n\nusage: %s VERB [options]\n\n", name, name);
    for (const struct sl_command *c = sl_commands; c->name; c++)
        fprintf(out, "  %-10s %s\n", c->name, c->summary);
    fprintf(out,
            "\n%s VERB --help shows the options of a verb. Exit codes: 0 fine, 1 something is wrong with what was "
            "checked, 2 wrong use, 3 failed.\n",
            name);
}

/* A report that could not be written is no success: a full disk must not look like "nothing found". */
static int written(int code) {
    errno = 0;
    if (!fflush(stdout) && !ferror(stdout))
        return code;
    if (errno != EPIPE) /* a reader that has seen enough wants no complaint */
        fprintf(stderr, "%s: standard output could not be written%s%s\n", sl_cmd_name(), errno ? ": " : "",
                errno ? strerror(errno) : "");
    return SL_EXIT_FAILED;
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    sl_cmd_called(argv[0]);
    if (argc < 2) {
        usage(stderr);
        return SL_EXIT_USAGE;
    }
    bool help = !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help");
    if (help && argc < 3) {
        usage(stdout);
        return SL_EXIT_OK;
    }
    if (help) { /* sluice help VERB */
        argv++;
        argc--;
    }
    if (!strcmp(argv[1], "--version"))
        argv[1] = argv[1] + 2;
    for (const struct sl_command *c = sl_commands; c->name; c++) {
        if (strcmp(argv[1], c->name))
            continue;
        for (int i = 2; i < argc && !help; i++)
            help = !strcmp(argv[i], "--help") || !strcmp(argv[i], "-h");
        if (help) {
            sl_cmd_usage(c, stdout);
            return SL_EXIT_OK;
        }
        return written(c->run(argc - 1, argv + 1));
    }
    fprintf(stderr, "%s: unknown verb \"%s\"; try %s --help\n", sl_cmd_name(), argv[1], sl_cmd_name());
    return SL_EXIT_USAGE;
}
