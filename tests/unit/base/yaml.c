/* YAML: scalars, structure, limits, aliases, and printing that reads back as the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "sluice/base/mem.h"
#include "sluice/base/yaml.h"

static char *read_one(const char *text, bool aliases) {
    struct sl_json *docs = NULL;
    struct sl_err err = SL_ERR_INIT;
    if (sl_yaml_parse(text, strlen(text), aliases, &docs, NULL, &err))
        fail_msg("%s: %s", text, err.text);
    assert_int_equal(sl_json_len(docs), 1);
    SL_AUTO_BUF b = SL_BUF_INIT(1 << 20);
    sl_json_dump(sl_json_at(docs, 0), false, &b);
    sl_json_unref(docs);
    char *out = sl_buf_take(&b);
    for (char *p = out; *p; p++)
        if (*p == '"')
            *p = '\'';
    return out;
}
static void expect(const char *text, const char *want) {
    SL_AUTO_FREE char *got = read_one(text, true);
    if (strcmp(got, want))
        fail_msg("%s gave %s, not %s", text, got, want);
}
static void refuse(const char *text, bool aliases, int code, const char *what) {
    struct sl_json *docs = NULL;
    struct sl_err err = SL_ERR_INIT;
    int *lines = NULL, rc = sl_yaml_parse(text, strlen(text), aliases, &docs, &lines, &err);
    if (rc != code || !strstr(err.text, what))
        fail_msg("%s gave %d %s", text, rc, err.text);
    assert_null(docs);
    assert_null(lines);
}

static void scalar__by_the_json_schema(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"null", "null"},
        {"~", "null"},
        {"Null", "null"},
        {"nULL", "'nULL'"},
        {"true", "true"},
        {"False", "false"},
        {"tRue", "'tRue'"},
        {"yes", "'yes'"},
        {"on", "'on'"},
        {"y", "'y'"},
        {"0", "0"},
        {"-5", "-5"},
        {"+5", "5"},
        {"010", "'010'"},
        {"-01", "'-01'"},
        {"0x1F", "'0x1F'"},
        {"0o7", "'0o7'"},
        {"1_000", "'1_000'"},
        {"1:30", "'1:30'"},
        {"9223372036854775807", "9223372036854775807"},
        {"9223372036854775808", "9.2233720368547758e18"}, /* as kubectl reads it */
        {"-9223372036854775808", "-9223372036854775808"},
        {"1.5", "1.5"},
        {".5", "0.5"},
        {"-.5", "-0.5"},
        {"+.5", "0.5"},
        {"1e3", "1000.0"},
        {"1E+2", "100.0"},
        {"1e400", "'1e400'"},
        {"1e", "'1e'"},
        {".", "'.'"},
        {"-", "[null]"},
        {".inf", "'.inf'"},
        {"nan", "'nan'"},
        {"4Gi", "'4Gi'"},
        {"500m", "'500m'"},
        {"1.2.3", "'1.2.3'"},
        {"2026-11-30", "'2026-11-30'"},
        {"\"5\"", "'5'"},
        {"'true'", "'true'"},
        {"!!str 5", "'5'"},
        {"! 5", "'5'"},
        {"\"\"", "''"},
        {"a b", "'a b'"},
        {"|\n  x\n  y\n", "'x\\ny\\n'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        SL_AUTO_FREE char *text = sl_xprintf("k: %s\n", cases[i][0]), *want = sl_xprintf("{'k':%s}", cases[i][1]);
        if (!strcmp(cases[i][0], "-"))
            expect("k:\n-\n", want);
        else
            expect(text, want);
    }
    expect("k:\n", "{'k':null}");
}

static void structure__nested(void **state) {
    (void)state;
    expect("a:\n- b: 1\n  c:\n  - 2\n- {d: [3, {e: 4}]}\nf: {}\ng: []\n",
           "{'a':[{'b':1,'c':[2]},{'d':[3,{'e':4}]}],'f':{},'g':[]}");
    expect("- - 1\n  - - 2\n", "[[1,[2]]]");
    expect("just text\n", "'just text'");
    expect("1: a\ntrue: b\nnull: c\n\"x y\": d\n1.5: e\n", "{'1':'a','true':'b','null':'c','x y':'d','1.5':'e'}");
}

static void documents__and_their_lines(void **state) {
    (void)state;
    const char *text = "# comment\n---\na: 1\n---\n---\n\n\nb: 2\n---\nnull\n--- \nc: 3\n...\n";
    struct sl_json *docs = NULL;
    int *lines = NULL;
    assert_int_equal(sl_yaml_parse(text, strlen(text), false, &docs, &lines, NULL), 0);
    assert_int_equal(sl_json_len(docs), 3);
    assert_int_equal(lines[0], 3);
    assert_int_equal(lines[1], 8);
    assert_int_equal(lines[2], 12);
    sl_json_unref(docs);
    free(lines);
    docs = NULL;
    assert_int_equal(sl_yaml_parse("", 0, false, &docs, &lines, NULL), 0);
    assert_int_equal(sl_json_len(docs), 0);
    sl_json_unref(docs);
    free(lines);
}

static void lines__of_every_value(void **state) {
    (void)state;
    const char *text =
        "a: &x\n  b:\n    1\n  c: [2,\n   3]\n---\n# nothing\n---\n? d\n:\n- &y {z: 1}\n- e: *y\n  f: text\n";
    /* {a {b c [2 3]}}, {d [{z} {e {z} f}]} */
    static const int lines[] = {1, 1, 2, 4, 4, 5, 9, 9, 11, 11, 12, 12, 12, 13};
    struct sl_json *docs = NULL;
    struct sl_yaml_lines l = SL_YAML_LINES_INIT;
    assert_int_equal(sl_yaml_parse_lines(text, strlen(text), true, &docs, &l, NULL), 0);
    assert_int_equal(l.n_documents, 2);
    assert_int_equal(l.documents[0], 0);
    assert_int_equal(l.documents[1], 6);
    assert_int_equal(l.n, SL_COUNT(lines));
    for (size_t i = 0; i < l.n; i++)
        assert_int_equal(l.line[i], lines[i]);
    sl_json_unref(docs);
    sl_yaml_lines_done(&l);
    static const struct {
        const char *text;
        int line;
    } faults[] = {{"a: 1\nb: [\n", 3},
                  {"a: 1\nb: {\n  ? [x]\n  : 1}\n", 3},
                  {"a: 1\n\na: 2\n", 3},
                  {"a: *b\n", 1},
                  {"a: 1\nb:\n  c: \"x\xff\"\n", 3}, /* what is no text at all, too */
                  {"\xef\xbb\xbf"
                   "a: 1\nb: \x01\n",
                   2},
                  {"a: 1\nb\n  c: 1\n", 2}, /* where the colon is missing, not where that is found out */
                  {"a: 1\nb: \"x\nc: 1\nd: 2\n", 2},
                  {"a: 1\nb: |\n  x\n\ty\n", 4}};
    for (size_t i = 0; i < SL_COUNT(faults); i++) {
        assert_int_equal(sl_yaml_parse_lines(faults[i].text, strlen(faults[i].text), true, &docs, &l, NULL),
                         SL_INVALID);
        assert_int_equal(l.fault, faults[i].line);
        sl_yaml_lines_done(&l);
    }
}

static void refuse__malformed(void **state) {
    (void)state;
    refuse("a: [1\n", true, SL_INVALID, "YAML line");
    refuse("a: 1\na: 2\n", true, SL_INVALID, "\"a\" stands twice");
    refuse("1: x\n\"1\": y\n", true, SL_INVALID, "\"1\" stands twice");
    refuse("a: {b: 1, b: 2}\n", true, SL_INVALID, "line 1");
    refuse("? [a]\n: b\n", true, SL_INVALID, "a key must be a scalar");
    refuse("a: 1\n b: 2\n", true, SL_INVALID, "line 2");
    refuse("a: \"\\ud800\"\n", true, SL_INVALID, "YAML line");
    refuse("a: \xff\n", true, SL_INVALID, "YAML line");
    refuse("a: \"x\\0y\"\n", true, SL_INVALID, "NUL");
    refuse("\"x\\0y\": a\n", true, SL_INVALID, "NUL");
    refuse("a: &x {b: 1}\nc:\n  <<: *x\n", true, SL_INVALID, "merge");
    refuse("%YAML 9.9\n---\na: 1\n", true, SL_INVALID, "YAML line");
    expect("'<<': 1\n", "{'<<':1}");
}

static void refuse__too_much(void **state) {
    (void)state;
    SL_AUTO_BUF b = SL_BUF_INIT(8 << 20);
    for (int depth = SL_JSON_MAX_DEPTH; depth <= SL_JSON_MAX_DEPTH + 1; depth++) {
        sl_buf_clear(&b);
        for (int i = 0; i < depth; i++)
            sl_buf_putc(&b, '[');
        for (int i = 0; i < depth; i++)
            sl_buf_putc(&b, ']');
        if (depth > SL_JSON_MAX_DEPTH)
            refuse(sl_buf_text(&b), true, SL_INVALID, "nested too deeply");
        else
            free(read_one(sl_buf_text(&b), false));
    }
    sl_buf_clear(&b);
    for (int i = 0; i < 10001; i++)
        sl_buf_puts(&b, "---\na\n");
    refuse(sl_buf_text(&b), false, SL_TOO_BIG, "documents");
    sl_buf_clear(&b);
    while (b.len <= 4 << 20)
        sl_buf_puts(&b, "# 0123456789 0123456789 0123456789 0123456789 0123456789\n");
    refuse(sl_buf_text(&b), false, SL_TOO_BIG, "bytes");
    sl_buf_clear(&b);
    for (int i = 0; i < 600000; i++)
        sl_buf_puts(&b, "- 1\n");
    refuse(sl_buf_text(&b), false, SL_INVALID, "too many values");
}

static void alias__copies(void **state) {
    (void)state;
    expect("a: &x [1, 2]\nb: *x\nc: &y {k: *x}\nd: *y\ne: &z 5\nf: *z\n*z : key\n",
           "{'a':[1,2],'b':[1,2],'c':{'k':[1,2]},'d':{'k':[1,2]},'e':5,'f':5,'5':'key'}");
    expect("a: &x 1\nb: &x 2\nc: *x\n", "{'a':1,'b':2,'c':2}"); /* the later anchor counts */
    struct sl_json *docs = NULL;
    const char *text = "a: &x [1]\nb: *x\n";
    assert_int_equal(sl_yaml_parse(text, strlen(text), true, &docs, NULL, NULL), 0);
    sl_json_append(sl_json_mut(sl_json_mut_at(docs, 0), "b"), sl_json_new_int(2)); /* not the same node */
    assert_int_equal(sl_json_len(sl_json_path(docs, "0.a")), 1);
    sl_json_unref(docs);
}

static void alias__refused(void **state) {
    (void)state;
    refuse("a: &x 1\n", false, SL_INVALID, "anchors are not allowed");
    refuse("a: *x\n", false, SL_INVALID, "aliases are not allowed");
    refuse("a: *x\n", true, SL_INVALID, "unknown alias");
    refuse("&a [*a]\n", true, SL_INVALID, "unknown alias");
    refuse("a: &x 1\n---\nb: *x\n", true, SL_INVALID, "unknown alias"); /* not across documents */
    SL_AUTO_BUF b = SL_BUF_INIT(1 << 20);
    sl_buf_puts(&b, "a: &x 1\nb:\n");
    for (int i = 0; i < 65; i++)
        sl_buf_puts(&b, "- *x\n");
    refuse(sl_buf_text(&b), true, SL_INVALID, "too many aliases");
}

static void alias__bombs(void **state) {
    (void)state;
    /* wide: each level is nine times the one before */
    refuse("a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d "
           "[*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
           "e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g "
           "[*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g,*g]\n",
           true, SL_INVALID, "too many aliases");
    /* deep: each level is nested in the next, twice as deep each time */
    SL_AUTO_BUF b = SL_BUF_INIT(1 << 20);
    sl_buf_puts(&b, "a0: &a0 ");
    for (int i = 0; i < 40; i++)
        sl_buf_putc(&b, '[');
    for (int i = 0; i < 40; i++)
        sl_buf_putc(&b, ']');
    for (int k = 1; k < 60; k++) {
        sl_buf_printf(&b, "\na%d: &a%d ", k, k);
        for (int i = 0; i < 40; i++)
            sl_buf_putc(&b, '[');
        sl_buf_printf(&b, "*a%d", k - 1);
        for (int i = 0; i < 40; i++)
            sl_buf_putc(&b, ']');
    }
    sl_buf_putc(&b, '\n');
    refuse(sl_buf_text(&b), true, SL_INVALID, "nested too deeply");
}

static void anchor__at_every_level_costs_no_copies(void **state) {
    (void)state;
    SL_AUTO_BUF b = SL_BUF_INIT(4 << 20);
    for (int i = 0; i < 60; i++)
        sl_buf_printf(&b, "&a%d [", i);
    for (int i = 0; i < 200000; i++)
        sl_buf_puts(&b, "1,");
    sl_buf_puts(&b, "1");
    for (int i = 0; i < 60; i++)
        sl_buf_puts(&b, "]");
    free(read_one(sl_buf_text(&b), true)); /* with copies this would be 12 million values and gigabytes */
}

static void dump__reads_back(void **state) {
    (void)state;
    static const char *const texts[] = {"",
                                        " ",
                                        "x",
                                        "a b",
                                        " a",
                                        "a ",
                                        "a: b",
                                        "a:",
                                        "a:b",
                                        "a #b",
                                        "a#b",
                                        "#a",
                                        "- a",
                                        "-",
                                        "--- a",
                                        "...",
                                        "? a",
                                        ": a",
                                        "[a",
                                        "{a",
                                        "a, b",
                                        "a]",
                                        "&a",
                                        "*a",
                                        "!a",
                                        "|",
                                        ">",
                                        "'a'",
                                        "\"a\"",
                                        "%a",
                                        "@a",
                                        "true",
                                        "NULL",
                                        "~",
                                        "yes",
                                        "Off",
                                        "y",
                                        "N",
                                        "0",
                                        "-1",
                                        "+1",
                                        "1.5",
                                        ".5",
                                        "1e3",
                                        "010",
                                        "0x1F",
                                        "0o7",
                                        "1_000",
                                        "1:30",
                                        "4Gi",
                                        ".inf",
                                        "-.Inf",
                                        ".nan",
                                        "2026-11-30",
                                        "2026-11-30T00:00:00Z",
                                        "a\nb",
                                        "a\tb",
                                        "\n",
                                        "a\\b",
                                        "\x7f",
                                        "<<",
                                        "=",
                                        "a:\tb",
                                        "\xe4\xb8\xad\xe6\x96\x87",
                                        "\xf0\x9f\x98\x80",
                                        "\xe2\x80\xa8",
                                        "x\xe2\x80\xa9y",
                                        "\xef\xbb\xbfx",
                                        "\xc2\x85",
                                        "\xc2\xa0",
                                        "\xef\xbf\xbe",
                                        "\x01\x1f",
                                        "e",
                                        "0b1",
                                        "1.2.3",
                                        "null",
                                        "a\rb",
                                        "key",
                                        "\xc3\xa9t\xc3\xa9",
                                        "1 2",
                                        "9223372036854775808",
                                        "-",
                                        "+",
                                        ".",
                                        "1.",
                                        "1,000"};
    for (size_t i = 0; i < SL_COUNT(texts); i++) {
        SL_AUTO_JSON *tree = sl_json_new_object();
        sl_json_set_str(tree, "k", texts[i]);
        sl_json_set_int(tree, texts[i], 1); /* also as a key */
        sl_json_append(sl_json_make_array(tree, "list"), sl_json_new_str(texts[i]));
        SL_AUTO_BUF b = SL_BUF_INIT(4096);
        sl_yaml_dump(tree, &b);
        struct sl_json *docs = NULL;
        struct sl_err err = SL_ERR_INIT;
        if (sl_yaml_parse(sl_buf_text(&b), b.len, false, &docs, NULL, &err) ||
            !sl_json_equal(sl_json_at(docs, 0), tree))
            fail_msg("[%s]: %s %s", texts[i], sl_buf_text(&b), err.text);
        sl_json_unref(docs);
    }
}

static void dump__form(void **state) {
    (void)state;
    SL_AUTO_JSON *j =
        sl_json_from("{'kind':'Job','spec':{'num':5,'e':{},'l':[],'containers':[{'name':'main','args':['--"
                     "x','1']},{'name':'b'}],'m':[[1,[2]],'x']},'v':null,'t':true,'q':'4Gi','d':'8'}");
    SL_AUTO_BUF b = SL_BUF_INIT(4096);
    sl_yaml_dump(j, &b);
    assert_string_equal(
        sl_buf_text(&b),
        "kind: Job\nspec:\n  num: 5\n  e: {}\n  l: []\n  containers:\n  - name: main\n    args:\n    - \"--x\"\n    - "
        "\"1\"\n  - name: b\n  m:\n  - - 1\n    - - 2\n  - x\nv: null\nt: true\nq: 4Gi\nd: \"8\"\n");
    sl_buf_clear(&b);
    sl_yaml_dump(NULL, &b);
    assert_string_equal(sl_buf_text(&b), "null\n");
}

/* What YAML 1.1 readers (kubectl) take for numbers, times or booleans must be quoted, though we would read it as text.
 */
static void dump__quotes_for_other_readers(void **state) {
    (void)state;
    static const char *const texts[] = {"0x1F",     "0b101", "0o7",   "017",  "1_000",      "1:30",
                                        "12:30:45", ".inf",  "-.INF", ".NaN", "2026-11-30", "2026-11-30T13:33:07Z",
                                        "yes",      "Y",     "on",    "1e3",  "0.",         "<<",
                                        "="};
    for (size_t i = 0; i < SL_COUNT(texts); i++) {
        SL_AUTO_JSON *j = sl_json_new_str(texts[i]);
        SL_AUTO_BUF b = SL_BUF_INIT(100);
        sl_yaml_dump(j, &b);
        if (sl_buf_text(&b)[0] != '"')
            fail_msg("not quoted: %s", sl_buf_text(&b));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalar__by_the_json_schema),
        cmocka_unit_test(structure__nested),
        cmocka_unit_test(documents__and_their_lines),
        cmocka_unit_test(lines__of_every_value),
        cmocka_unit_test(refuse__malformed),
        cmocka_unit_test(refuse__too_much),
        cmocka_unit_test(alias__copies),
        cmocka_unit_test(alias__refused),
        cmocka_unit_test(alias__bombs),
        cmocka_unit_test(anchor__at_every_level_costs_no_copies),
        cmocka_unit_test(dump__reads_back),
        cmocka_unit_test(dump__form),
        cmocka_unit_test(dump__quotes_for_other_readers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
