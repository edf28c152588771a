/* Entry: finds the verb. Process-wide rules of the libraries are kept here: no locale, SIGPIPE ignored, curl set up
 * before threads. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "sluice/cmd/command.h"

static void usage(FILE *out) {
    fputs("sluice: a quota gate for GPU jobs on Kubernetes\n\nusage: sluice VERB [options]\n\n", out);
    for (const struct sl_command *c = sl_commands; c->name; c++)
        fprintf(out, "  %-10s %s\n", c->name, c->summary);
    fputs("\nsluice VERB --help shows the options of a verb. Exit codes: 0 fine, 1 something is wrong with what was "
          "checked, 2 wrong use, 3 failed.\n",
          out);
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
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
            printf("%s\n\n%s\n", c->summary, c->usage);
            return SL_EXIT_OK;
        }
        return c->run(argc - 1, argv + 1);
    }
    fprintf(stderr, "sluice: unknown verb \"%s\"; try sluice --help\n", argv[1]);
    return SL_EXIT_USAGE;
}
