/* What verbs say: words on a terminal, objects for programs, and the name they were called by. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/base/mem.h"
#include "sluice/base/yaml.h"
#include "sluice/cmd/command.h"

#define MAX_TEXT ((size_t)256 << 20)

static const char *own_name = "sluice";

void sl_cmd_called(const char *argv0) {
    const char *slash = argv0 ? strrchr(argv0, '/') : NULL, *name = slash ? slash + 1 : argv0;
    own_name = name && !strcmp(name, "kubectl-sluice") ? "kubectl sluice" : "sluice";
}

const char *sl_cmd_name(void) {
    return own_name;
}

void sl_cmd_usage(const struct sl_command *c, FILE *to) {
    static const char written[] = "sluice ";
    fprintf(to, "%s\n\n", c->summary);
    for (const char *line = c->usage; *line;) {
        size_t len = strcspn(line, "\n");
        if (!strncmp(line, written, strlen(written)))
            fprintf(to, "%s%.*s\n", own_name, (int)(len - strlen("sluice")), line + strlen("sluice"));
        else
            fprintf(to, "%.*s\n", (int)len, line);
        line += len + (line[len] == '\n');
    }
}

void sl_cmd_misuse(const char *verb, const char *format, ...) {
    va_list args;
    va_start(args, format);
    SL_AUTO_FREE char *text = sl_xvprintf(format, args);
    va_end(args);
    fprintf(stderr, "%s %s: %s\n", own_name, verb, text);
}

void sl_cmd_error(const char *verb, enum sl_output as, const char *text) {
    if (as == SL_OUTPUT_TEXT) {
        sl_cmd_misuse(verb, "%s", text);
        return;
    }
    SL_AUTO_JSON *o = sl_json_new_object();
    sl_json_set_str(o, "error", text);
    sl_output_put(as, o);
}

bool sl_output_of(const char *verb, const char *text, enum sl_output *ret) {
    static const char *const names[] = {
        [SL_OUTPUT_TEXT] = "text", [SL_OUTPUT_JSON] = "json", [SL_OUTPUT_YAML] = "yaml"};
    for (size_t i = 0; i < SL_COUNT(names); i++)
        if (!strcmp(names[i], text)) {
            *ret = (enum sl_output)i;
            return true;
        }
    sl_cmd_misuse(verb, "-o is text, json or yaml");
    return false;
}

void sl_output_put(enum sl_output as, const struct sl_json *o) {
    if (as == SL_OUTPUT_JSON) {
        SL_AUTO_FREE char *line = sl_json_text(o);
        puts(line);
        return;
    }
    SL_AUTO_BUF out = SL_BUF_INIT(MAX_TEXT);
    sl_yaml_dump(o, &out);
    SL_ASSERT(!out.failed);
    printf("---\n%s", sl_buf_text(&out));
}
