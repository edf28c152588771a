/* Name formats of Kubernetes and the texts that tell what is wrong. Hand-written matchers: linear, and no locale. */
#include <string.h>

#include "formats.h"
#include "sluice/api/fielderr.h"
#include "sluice/base/mem.h"

static bool is_lower(char c) {
    return c >= 'a' && c <= 'z';
}
static bool is_upper(char c) {
    return c >= 'A' && c <= 'Z';
}
static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
static bool is_lower_alnum(char c) {
    return is_lower(c) || is_digit(c);
}
static bool is_alnum(char c) {
    return is_lower(c) || is_upper(c) || is_digit(c);
}

/* [a-z0-9]([-a-z0-9]*[a-z0-9])? */
bool sl_label_chars(const char *s, size_t n) {
    if (n == 0 || !is_lower_alnum(s[0]) || !is_lower_alnum(s[n - 1]))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!is_lower_alnum(s[i]) && s[i] != '-')
            return false;
    return true;
}

bool sl_subdomain_chars(const char *s, size_t n) {
    size_t start = 0;
    for (size_t i = 0; i <= n; i++)
        if (i == n || s[i] == '.') {
            if (!sl_label_chars(s + start, i - start))
                return false;
            start = i + 1;
        }
    return true;
}

/* ([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9] */
bool sl_name_chars(const char *s, size_t n) {
    if (n == 0 || !is_alnum(s[0]) || !is_alnum(s[n - 1]))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!is_alnum(s[i]) && s[i] != '-' && s[i] != '_' && s[i] != '.')
            return false;
    return true;
}

bool sl_is_dns_label(const char *text) {
    size_t n = strlen(text);
    return n <= 63 && sl_label_chars(text, n);
}

bool sl_is_dns_subdomain(const char *text) {
    size_t n = strlen(text);
    return n <= 253 && sl_subdomain_chars(text, n);
}

bool sl_is_qualified_name(const char *text) {
    const char *slash = strchr(text, '/');
    const char *name = slash ? slash + 1 : text;
    if (slash && (slash - text > 253 || !sl_subdomain_chars(text, (size_t)(slash - text))))
        return false;
    size_t n = strlen(name);
    return n <= 63 && sl_name_chars(name, n);
}

bool sl_is_label_value(const char *text) {
    size_t n = strlen(text);
    return n == 0 || (n <= 63 && sl_name_chars(text, n));
}

bool sl_is_condition_reason(const char *text) {
    size_t n = strlen(text);
    if (n == 0 || !(is_lower(text[0]) || is_upper(text[0])) || !(is_alnum(text[n - 1]) || text[n - 1] == '_'))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!is_alnum(text[i]) && text[i] != '_' && text[i] != ',' && text[i] != ':')
            return false;
    return true;
}

bool sl_is_kind_name(const char *text) {
    size_t n = strlen(text);
    if (n == 0 || !(is_lower(text[0]) || is_upper(text[0])) || !is_alnum(text[n - 1]))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!is_alnum(text[i]) && text[i] != '-')
            return false;
    return true;
}

/* [0-9]+(\.[0-9]*)? or \.[0-9]+ ; the end, or NULL. */
static const char *decimal(const char *p) {
    const char *start = p;
    while (is_digit(*p))
        p++;
    size_t digits = (size_t)(p - start);
    if (*p == '.') {
        p++;
        while (is_digit(*p)) {
            p++;
            digits++;
        }
    }
    return digits ? p : NULL;
}

bool sl_is_quantity_text(const char *text) {
    const char *p = text;
    if (*p == '+' || *p == '-')
        p++;
    p = decimal(p);
    if (!p)
        return false;
    if (!*p || (p[1] == 0 && strchr("numkMGTPE", *p)) || (p[1] == 'i' && p[2] == 0 && strchr("KMGTPE", *p)))
        return true;
    if (*p != 'e' && *p != 'E')
        return false;
    p++;
    if (*p == '+' || *p == '-')
        p++;
    p = decimal(p);
    return p && !*p;
}

static const char subdomain_text[] = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric "
                                     "characters, '-' or '.', and must start and end with an "
                                     "alphanumeric character (e.g. 'example.com', regex used for validation is "
                                     "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
static const char name_text[] =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or "
    "'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
static const char value_text[] =
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an "
    "alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

void sl_check_subdomain(struct sl_fielderrs *l, const struct sl_path *path, const char *text) {
    size_t n = strlen(text);
    if (n > 253)
        sl_fielderr_str(l, SL_FE_INVALID, path, text, "must be no more than 253 bytes");
    if (!sl_subdomain_chars(text, n))
        sl_fielderr_str(l, SL_FE_INVALID, path, text, "%s", subdomain_text);
}

void sl_check_qualified_name(struct sl_fielderrs *l, const struct sl_path *path, const char *text) {
    const char *slash = strchr(text, '/');
    const char *name = slash ? slash + 1 : text;
    if (strchr(name, '/')) {
        sl_fielderr_str(l, SL_FE_INVALID, path, text,
                        "a qualified name %s with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                        name_text);
        return;
    }
    if (slash) {
        size_t n = (size_t)(slash - text);
        if (n == 0)
            sl_fielderr_str(l, SL_FE_INVALID, path, text, "prefix part must be non-empty");
        else if (n > 253)
            sl_fielderr_str(l, SL_FE_INVALID, path, text, "prefix part must be no more than 253 bytes");
        if (n && !sl_subdomain_chars(text, n))
            sl_fielderr_str(l, SL_FE_INVALID, path, text, "prefix part %s", subdomain_text);
    }
    size_t n = strlen(name);
    if (n == 0)
        sl_fielderr_str(l, SL_FE_INVALID, path, text, "name part must be non-empty");
    else if (n > 63)
        sl_fielderr_str(l, SL_FE_INVALID, path, text, "name part must be no more than 63 bytes");
    if (!sl_name_chars(name, n))
        sl_fielderr_str(l, SL_FE_INVALID, path, text, "name part %s", name_text);
}

void sl_check_label_value(struct sl_fielderrs *l, const struct sl_path *path, const char *text) {
    size_t n = strlen(text);
    if (n > 63)
        sl_fielderr_str(l, SL_FE_INVALID, path, text, "must be no more than 63 bytes");
    if (n && !sl_name_chars(text, n))
        sl_fielderr_str(l, SL_FE_INVALID, path, text, "%s", value_text);
}

static bool is_string(const struct sl_json *j) {
    return sl_json_type(j) == SL_JSON_STRING;
}

void sl_check_labels(struct sl_fielderrs *l, const struct sl_path *path, const struct sl_json *map) {
    SL_JSON_EACH (map, e) {
        sl_check_qualified_name(l, path, e.key);
        if (is_string(e.value))
            sl_check_label_value(l, path, sl_json_str(e.value, ""));
        else
            sl_fielderr_add(l, SL_FE_INVALID, SL_PATH_KEY(path, e.key), e.value, "must be a string");
    }
}

void sl_check_annotations(struct sl_fielderrs *l, const struct sl_path *path, const struct sl_json *map) {
    size_t total = 0;
    SL_JSON_EACH (map, e) {
        /* Annotation keys are qualified names whatever their case. */
        SL_AUTO_FREE char *lower = sl_xstrdup(e.key);
        for (char *p = lower; *p; p++)
            if (is_upper(*p))
                *p = (char)(*p - 'A' + 'a');
        if (!sl_is_qualified_name(lower))
            sl_check_qualified_name(l, path, lower);
        if (!is_string(e.value))
            sl_fielderr_add(l, SL_FE_INVALID, SL_PATH_KEY(path, e.key), e.value, "must be a string");
        total += strlen(e.key) + sl_json_str_len(e.value);
    }
    if (total > 256 * 1024)
        sl_fielderr_add(l, SL_FE_TOO_LONG, path, NULL, "may not be more than 262144 bytes");
}

void sl_check_selector(struct sl_fielderrs *l, const struct sl_path *path, const struct sl_json *selector) {
    sl_check_labels(l, SL_PATH(path, "matchLabels"), sl_json_get(selector, "matchLabels"));
    const struct sl_path *list = SL_PATH(path, "matchExpressions");
    SL_JSON_ITEMS (sl_json_get(selector, "matchExpressions"), e) {
        const struct sl_path *at = SL_PATH_AT(list, e.i);
        const char *op = sl_json_get_str(e.value, "operator", "");
        const struct sl_json *values = sl_json_get(e.value, "values");
        size_t n = sl_json_is_array(values) ? sl_json_len(values) : 0;
        if (!strcmp(op, "In") || !strcmp(op, "NotIn")) {
            if (n == 0)
                sl_fielderr_add(l, SL_FE_REQUIRED, SL_PATH(at, "values"), NULL,
                                "must be specified when `operator` is 'In' or 'NotIn'");
        } else if (!strcmp(op, "Exists") || !strcmp(op, "DoesNotExist")) {
            if (n > 0)
                sl_fielderr_add(l, SL_FE_FORBIDDEN, SL_PATH(at, "values"), NULL,
                                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        } else {
            sl_fielderr_str(l, SL_FE_INVALID, SL_PATH(at, "operator"), op, "not a valid selector operator");
        }
        sl_check_qualified_name(l, SL_PATH(at, "key"), sl_json_get_str(e.value, "key", ""));
        for (size_t i = 0; i < n; i++)
            if (is_string(sl_json_at(values, i)))
                sl_check_label_value(l, SL_PATH_AT(SL_PATH(at, "values"), i), sl_json_str(sl_json_at(values, i), ""));
    }
}
