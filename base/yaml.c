/*
 * libyaml events to JSON trees. The library's own loader has no nesting limit, so the tree is built here with a stack
 * of at most SL_JSON_MAX_DEPTH open containers. Aliases copy the anchored subtree; how many, how large and how deep is
 * limited, because nested ones grow exponentially. An anchor only holds a reference: a finished subtree does not change
 * any more.
 */
#include "sluice/base/yaml.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "sluice/base/map.h"
#include "sluice/base/mem.h"
#include "sluice/base/num.h"
#include "sluice/base/utf8.h"

#define MAX_BYTES   (4u << 20)
#define MAX_DOCS    10000
#define MAX_ALIASES 64
#define MAX_NODES   500000

struct frame {
    struct sl_json *node;
    char *key; /* object: key waiting for its value */
    int key_line;
    char *anchor; /* name to remember the finished node under */
};
struct build {
    struct frame stack[SL_JSON_MAX_DEPTH];
    size_t depth;
    struct sl_json *root;
    struct sl_map anchors;
    size_t aliases, nodes;
    bool allow_aliases;
    struct sl_yaml_lines *lines;
};

static void json_free(void *p) {
    sl_json_unref(p);
}

static void build_reset(struct build *b) {
    for (size_t i = 0; i < b->depth; i++) {
        sl_json_unref(b->stack[i].node);
        free(b->stack[i].key);
        free(b->stack[i].anchor);
    }
    b->depth = 0;
    sl_json_unref(b->root);
    b->root = NULL;
    sl_map_clear(&b->anchors, json_free);
}

static int fail(struct sl_err *err, const yaml_mark_t *m, const char *what) {
    return sl_err_set(err, SL_INVALID, "YAML line %zu column %zu: %s", m->line + 1, m->column + 1, what);
}

/* n values begin here: the line is that of the key that waits for them, where one does. */
static void note(struct build *b, const yaml_mark_t *m, size_t n) {
    struct frame *top = b->depth ? &b->stack[b->depth - 1] : NULL;
    bool in_object = top && sl_json_is_object(top->node);
    if (in_object && !top->key) {
        top->key_line = (int)m->line + 1; /* a key is no value */
        return;
    }
    struct sl_yaml_lines *l = b->lines;
    for (; n > 0; n--) {
        SL_GROW(l->line, l->cap, l->n);
        l->line[l->n++] = in_object ? top->key_line : (int)m->line + 1;
    }
}

/* Puts a finished node where it belongs; takes it. */
static int place(struct build *b, struct sl_json *take, const yaml_mark_t *m, struct sl_err *err) {
    if (b->depth == 0) {
        b->root = take;
        return 0;
    }
    struct frame *top = &b->stack[b->depth - 1];
    if (sl_json_is_array(top->node)) {
        sl_json_append(top->node, take);
        return 0;
    }
    if (!top->key) {
        enum sl_json_type t = sl_json_type(take);
        if (t == SL_JSON_ARRAY || t == SL_JSON_OBJECT) {
            sl_json_unref(take);
            return fail(err, m, "a key must be a scalar");
        }
        SL_AUTO_FREE char *text = t == SL_JSON_STRING ? sl_xstrdup(sl_json_str(take, "")) : sl_json_text(take);
        sl_json_unref(take);
        if (sl_json_get(top->node, text))
            return sl_err_set(err, SL_INVALID, "YAML line %zu: key \"%s\" stands twice", m->line + 1, text);
        top->key = SL_TAKE(text);
        return 0;
    }
    sl_json_set(top->node, top->key, take);
    free(SL_TAKE(top->key));
    return 0;
}

static bool is_number(const char *s, size_t len, bool *real) {
    size_t i = 0;
    *real = false;
    if (i < len && (s[i] == '-' || s[i] == '+'))
        i++;
    size_t digits = 0;
    for (; i < len && s[i] >= '0' && s[i] <= '9'; i++)
        digits++;
    if (digits > 1 && s[i - digits] == '0')
        return false; /* octal-looking text stays text */
    if (i < len && s[i] == '.') {
        *real = true;
        for (i++; i < len && s[i] >= '0' && s[i] <= '9'; i++)
            digits++;
    }
    if (!digits)
        return false;
    if (i < len && (s[i] == 'e' || s[i] == 'E')) {
        *real = true;
        i++;
        if (i < len && (s[i] == '-' || s[i] == '+'))
            i++;
        size_t exponent = i;
        for (; i < len && s[i] >= '0' && s[i] <= '9'; i++)
            ;
        if (i == exponent)
            return false;
    }
    return i == len;
}

static struct sl_json *scalar(const yaml_event_t *e) {
    const char *s = (const char *)e->data.scalar.value;
    size_t len = e->data.scalar.length;
    if (e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE ||
        (e->data.scalar.tag &&
         (!strcmp((const char *)e->data.scalar.tag, YAML_STR_TAG) || !strcmp((const char *)e->data.scalar.tag, "!"))))
        return sl_json_new_strn(s, len);
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"}, *const trues[] = {"true", "True", "TRUE"},
                             *const falses[] = {"false", "False", "FALSE"};
    for (size_t i = 0; i < SL_COUNT(nulls); i++)
        if (!strcmp(s, nulls[i]))
            return sl_json_new_null();
    for (size_t i = 0; i < SL_COUNT(trues); i++)
        if (!strcmp(s, trues[i]))
            return sl_json_new_bool(true);
    for (size_t i = 0; i < SL_COUNT(falses); i++)
        if (!strcmp(s, falses[i]))
            return sl_json_new_bool(false);
    bool real;
    int64_t v;
    if (!is_number(s, len, &real))
        return sl_json_new_strn(s, len);
    if (!real && sl_parse_int(s, &v))
        return sl_json_new_int(v); /* past int64: the nearest real number, as it is for kubectl */
    struct sl_buf wrapped = SL_BUF_INIT(4096);
    const char *digits = s + (*s == '+' || *s == '-');
    sl_buf_printf(&wrapped, "[%s%s%s]", *s == '-' ? "-" : "", *digits == '.' ? "0" : "", digits);
    struct sl_json *one = NULL, *value = NULL;
    if (!wrapped.failed && sl_json_parse_limited(wrapped.data, wrapped.len, 4096, 1, &one, NULL) == 0)
        value = sl_json_ref(sl_json_at(one, 0));
    sl_json_unref(one);
    sl_buf_done(&wrapped);
    return value ? value : sl_json_new_strn(s, len);
}

static void remember(struct build *b, const char *anchor, const struct sl_json *node) {
    if (anchor)
        sl_json_unref(sl_map_set(&b->anchors, anchor, sl_json_ref(node)));
}

/* A merge key would silently be a member named "<<". */
static bool is_merge_key(const struct build *b, const yaml_event_t *e) {
    const struct frame *top = b->depth ? &b->stack[b->depth - 1] : NULL;
    return top && sl_json_is_object(top->node) && !top->key && e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           !strcmp((const char *)e->data.scalar.value, "<<");
}

static int handle(struct build *b, const yaml_event_t *e, struct sl_err *err) {
    const yaml_mark_t *m = &e->start_mark;
    const char *anchor = NULL;
    if (e->type == YAML_SCALAR_EVENT)
        anchor = (const char *)e->data.scalar.anchor;
    else if (e->type == YAML_SEQUENCE_START_EVENT)
        anchor = (const char *)e->data.sequence_start.anchor;
    else if (e->type == YAML_MAPPING_START_EVENT)
        anchor = (const char *)e->data.mapping_start.anchor;
    if (anchor && !b->allow_aliases)
        return fail(err, m, "anchors are not allowed here");
    if (++b->nodes > MAX_NODES)
        return fail(err, m, "too many values");
    switch (e->type) {
    case YAML_SCALAR_EVENT: {
        if (memchr(e->data.scalar.value, 0, e->data.scalar.length))
            return fail(err, m, "NUL is not allowed");
        if (is_merge_key(b, e))
            return fail(err, m, "merge keys (<<) are not supported");
        note(b, m, 1);
        struct sl_json *v = scalar(e);
        remember(b, anchor, v);
        return place(b, v, m, err);
    }
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        if (b->depth >= SL_JSON_MAX_DEPTH)
            return fail(err, m, "nested too deeply");
        note(b, m, 1);
        b->stack[b->depth++] =
            (struct frame){e->type == YAML_MAPPING_START_EVENT ? sl_json_new_object() : sl_json_new_array(), NULL, 0,
                           sl_xstrdup(anchor)};
        return 0;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: {
        struct frame done = b->stack[--b->depth];
        remember(b, done.anchor, done.node);
        free(done.anchor);
        free(done.key);
        return place(b, done.node, m, err);
    }
    case YAML_ALIAS_EVENT: {
        if (!b->allow_aliases)
            return fail(err, m, "aliases are not allowed here");
        const struct sl_json *v = sl_map_get(&b->anchors, (const char *)e->data.alias.anchor);
        if (!v)
            return fail(err, m, "unknown alias");
        size_t values = 0, depth = sl_json_measure(v, &values);
        b->nodes += values;
        if (b->depth + depth > SL_JSON_MAX_DEPTH)
            return fail(err, m, "nested too deeply");
        if (++b->aliases > MAX_ALIASES || b->nodes > MAX_NODES)
            return fail(err, m, "too many aliases");
        note(b, m, values);
        return place(b, sl_json_copy(v), m, err);
    }
    default: return 0;
    }
}

void sl_yaml_lines_done(struct sl_yaml_lines *l) {
    free(l->line);
    free(l->documents);
    *l = (struct sl_yaml_lines)SL_YAML_LINES_INIT;
}

/* Where it is wrong: of bytes that are no text the parser knows only how many came before, and of what has no end (a
 * quote, a line without its colon) it names the place where it gave up looking, far behind. */
static int refused(const yaml_parser_t *p, const char *text, size_t len, struct sl_yaml_lines *lines,
                   struct sl_err *err) {
    static const char *const endless[] = {"could not find expected ':'", "found unexpected end of stream"};
    const char *problem = p->problem ? p->problem : "malformed", *context = "";
    yaml_mark_t at = p->problem_mark;
    if (p->error == YAML_READER_ERROR) {
        at = (yaml_mark_t){0};
        for (size_t i = 0; i < len && i < p->problem_offset; i++) {
            at.line += text[i] == '\n';
            at.column = text[i] == '\n' ? 0 : at.column + 1;
        }
    }
    for (size_t i = 0; i < SL_COUNT(endless); i++)
        if (p->error == YAML_SCANNER_ERROR && p->context && !strcmp(problem, endless[i])) {
            at = p->context_mark;
            context = p->context;
        }
    lines->fault = (int)at.line + 1;
    return sl_err_set(err, SL_INVALID, "YAML line %zu column %zu: %s%s%s", at.line + 1, at.column + 1, context,
                      *context ? ": " : "", problem);
}

int sl_yaml_parse_lines(const char *text, size_t len, bool allow_aliases, struct sl_json **ret,
                        struct sl_yaml_lines *lines, struct sl_err *err) {
    if (len > MAX_BYTES)
        return sl_err_set(err, SL_TOO_BIG, "YAML text of more than %u bytes", MAX_BYTES);
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return sl_err_set(err, SL_INTERNAL, "YAML parser");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    struct build b = {.allow_aliases = allow_aliases, .lines = lines};
    struct sl_json *docs = sl_json_new_array();
    size_t first = 0;
    int rc = 0;
    for (bool end = false; !end && !rc;) {
        yaml_event_t e;
        if (!yaml_parser_parse(&parser, &e)) {
            rc = refused(&parser, text, len, lines, err);
            break;
        }
        if (e.type == YAML_STREAM_END_EVENT) {
            end = true;
        } else if (e.type == YAML_DOCUMENT_START_EVENT) {
            first = lines->n;
        } else if (e.type == YAML_DOCUMENT_END_EVENT) {
            if (sl_json_is_null(b.root)) {
                lines->n = first; /* left out */
            } else {
                if (sl_json_len(docs) >= MAX_DOCS)
                    rc = sl_err_set(err, SL_TOO_BIG, "more than %d YAML documents", MAX_DOCS);
                SL_GROW(lines->documents, lines->cap_documents, lines->n_documents);
                lines->documents[lines->n_documents++] = first;
                sl_json_append(docs, SL_TAKE(b.root));
            }
            build_reset(&b);
        } else if (e.type != YAML_STREAM_START_EVENT) {
            rc = handle(&b, &e, err);
        }
        if (rc)
            lines->fault = (int)e.start_mark.line + 1;
        yaml_event_delete(&e);
    }
    build_reset(&b);
    yaml_parser_delete(&parser);
    if (rc) {
        sl_json_unref(docs);
        return rc;
    }
    *ret = docs;
    return 0;
}

int sl_yaml_parse(const char *text, size_t len, bool allow_aliases, struct sl_json **ret, int **line_of,
                  struct sl_err *err) {
    struct sl_yaml_lines lines = SL_YAML_LINES_INIT;
    int rc = sl_yaml_parse_lines(text, len, allow_aliases, ret, &lines, err);
    if (!rc && line_of) {
        int *of = sl_xalloc((lines.n_documents + 1) * sizeof *of);
        for (size_t i = 0; i < lines.n_documents; i++)
            of[i] = lines.line[lines.documents[i]];
        *line_of = of;
    }
    sl_yaml_lines_done(&lines);
    return rc;
}

/* Would a reader of YAML 1.1 take the text for a number, a time or a date? Generously: it begins like one and has only
 * their characters. */
static bool looks_numeric(const char *s) {
    const char *digits = s + (*s == '-' || *s == '+');
    if (*digits == '.')
        return true; /* .5 .inf .nan ... */
    return (*digits >= '0' && *digits <= '9' &&
            strspn(digits, "0123456789abcdefABCDEFxXoO_:.,+-TtZz") == strlen(digits)) ||
           !*digits;
}

/* Characters that are line breaks or not printable to YAML though they are no control characters of ASCII. */
static bool is_special(const char *p) {
    return !strncmp(p, "\xc2", 1) || !strncmp(p, "\xe2\x80\xa8", 3) || !strncmp(p, "\xe2\x80\xa9", 3) ||
           !strncmp(p, "\xef\xbb\xbf", 3) || !strncmp(p, "\xef\xbf\xbe", 3) || !strncmp(p, "\xef\xbf\xbf", 3);
}

static bool plain_is_safe(const char *s) {
    static const char *const words[] = {"true", "false", "null", "yes", "no", "on", "off", "y", "n", "~", "<<"};
    size_t len = strlen(s);
    if (!len || looks_numeric(s))
        return false;
    for (size_t i = 0; i < SL_COUNT(words); i++)
        if (!strcasecmp(s, words[i]))
            return false;
    if (strchr("-?:,[]{}#&*!|>'\"%@` .=", s[0]) || s[len - 1] == ' ' || s[len - 1] == ':')
        return false;
    for (const char *p = s; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f || is_special(p) || (*p == ':' && p[1] == ' ') ||
            (*p == '#' && p > s && p[-1] == ' '))
            return false;
    return true;
}

/* Double quotes. Not as JSON would: YAML has no surrogate pairs, and folds line breaks that JSON leaves as they are. */
static void dump_quoted(const char *s, size_t len, struct sl_buf *out) {
    sl_buf_putc(out, '"');
    for (size_t i = 0; i < len;) {
        unsigned char c = (unsigned char)s[i];
        size_t n = sl_utf8_at(s + i, len - i);
        if (c == '"' || c == '\\')
            sl_buf_printf(out, "\\%c", c);
        else if (c == '\n' || c == '\t')
            sl_buf_puts(out, c == '\n' ? "\\n" : "\\t");
        else if (c < 0x20 || c == 0x7f)
            sl_buf_printf(out, "\\x%02x", c);
        else if (c == 0xc2)
            sl_buf_printf(out, "\\x%02x", (unsigned char)s[i + 1]);
        else if (n == 3 && is_special(s + i))
            sl_buf_printf(out, "\\u%04x",
                          (c & 15u) << 12 | ((unsigned char)s[i + 1] & 63u) << 6 | ((unsigned char)s[i + 2] & 63u));
        else
            sl_buf_add(out, s + i, n ? n : 1);
        i += n ? n : 1;
    }
    sl_buf_putc(out, '"');
}

static void dump_text(const char *s, size_t len, struct sl_buf *out) {
    if (len == strlen(s) && plain_is_safe(s))
        sl_buf_add(out, s, len);
    else
        dump_quoted(s, len, out);
}

static void dump_scalar(const struct sl_json *j, struct sl_buf *out) {
    if (sl_json_type(j) == SL_JSON_STRING)
        dump_text(sl_json_str(j, ""), sl_json_str_len(j), out);
    else
        sl_json_dump(j, true, out); /* other JSON scalars are YAML */
}

static void dump_node(const struct sl_json *j, int indent, bool in_list, struct sl_buf *out) {
    bool first = true;
    if (sl_json_is_object(j) && sl_json_len(j)) {
        SL_JSON_EACH (j, e) {
            if (!(in_list && first))
                sl_buf_printf(out, "%*s", indent, "");
            first = false;
            dump_text(e.key, strlen(e.key), out);
            bool nested = sl_json_len(e.value) > 0;
            sl_buf_puts(out, nested ? ":\n" : ": ");
            if (nested) {
                dump_node(e.value, sl_json_is_array(e.value) ? indent : indent + 2, false, out);
            } else {
                dump_scalar(e.value, out);
                sl_buf_putc(out, '\n');
            }
        }
    } else if (sl_json_is_array(j) && sl_json_len(j)) {
        SL_JSON_ITEMS (j, e) {
            if (!(in_list && first))
                sl_buf_printf(out, "%*s", indent, "");
            first = false;
            sl_buf_puts(out, "- ");
            dump_node(e.value, indent + 2, true, out);
        }
    } else {
        dump_scalar(j, out);
        sl_buf_putc(out, '\n');
    }
}

void sl_yaml_dump(const struct sl_json *j, struct sl_buf *out) {
    dump_node(j, 0, false, out);
}
