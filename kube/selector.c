/*
 * Selectors are read left to right without building anything: they are short, and the in-memory cluster has few watches
 * that carry one.
 */
#include "selector.h"

#include <string.h>

struct slice {
    const char *at;
    size_t len;
};

static bool is_value(const struct slice *s, const char *text) {
    return strlen(text) == s->len && !memcmp(s->at, text, s->len);
}
static void skip_space(const char **p) {
    while (**p == ' ')
        ++*p;
}

static struct slice word(const char **p) {
    skip_space(p);
    struct slice s = {*p, strcspn(*p, " ,=!()")};
    *p += s.len;
    skip_space(p);
    return s;
}

static const char *label(const struct sl_json *object, const struct slice *key) {
    const struct sl_json *labels = sl_json_path(object, "metadata.labels");
    SL_JSON_EACH (labels, e) {
        if (is_value(key, e.key))
            return sl_json_str(e.value, NULL);
    }
    return NULL;
}

/* "(a,b)" after in or notin. */
static bool in_set(const char **p, const char *have, bool *ret_found) {
    if (**p != '(')
        return false;
    *ret_found = false;
    do {
        ++*p;
        struct slice v = word(p);
        if (have && is_value(&v, have))
            *ret_found = true;
    } while (**p == ',');
    if (**p != ')')
        return false;
    ++*p;
    skip_space(p);
    return true;
}

static bool label_requirement(const char **p, const struct sl_json *object, bool *ret_match) {
    skip_space(p);
    bool negated = **p == '!';
    *p += negated;
    struct slice key = word(p);
    if (!key.len)
        return false;
    const char *have = label(object, &key);
    if (negated || !**p || **p == ',') {
        *ret_match = (have != NULL) != negated;
        return true;
    }
    if (**p == '=' || (**p == '!' && (*p)[1] == '=')) {
        bool differs = **p == '!';
        *p += differs || (*p)[1] == '=' ? 2 : 1;
        struct slice value = word(p);
        *ret_match = (have && is_value(&value, have)) != differs;
        return true;
    }
    struct slice op = word(p);
    bool found;
    if ((!is_value(&op, "in") && !is_value(&op, "notin")) || !in_set(p, have, &found))
        return false;
    *ret_match = found == is_value(&op, "in");
    return true;
}

static bool field_requirement(const char **p, const struct sl_json *object, bool *ret_match) {
    struct slice key = word(p);
    char path[256];
    if (!key.len || key.len >= sizeof path)
        return false;
    memcpy(path, key.at, key.len);
    path[key.len] = 0;
    bool differs = **p == '!';
    if (**p != '=' && !(differs && (*p)[1] == '='))
        return false;
    *p += differs || (*p)[1] == '=' ? 2 : 1;
    struct slice value = word(p);
    *ret_match = is_value(&value, sl_json_path_str(object, path, "")) != differs;
    return true;
}

static bool match(const char *p, const struct sl_json *object, bool *ret_valid,
                  bool (*requirement)(const char **, const struct sl_json *, bool *)) {
    bool all = true, ignored;
    if (!ret_valid)
        ret_valid = &ignored;
    *ret_valid = true;
    while (p && *p) {
        bool one = false;
        if (!requirement(&p, object, &one) || (*p && *p != ',') || (*p == ',' && !p[1])) {
            *ret_valid = false;
            return false;
        }
        all = all && one;
        p += *p == ',';
    }
    return all;
}

bool sl_label_selector_match(const char *selector, const struct sl_json *object, bool *ret_valid) {
    return match(selector, object, ret_valid, label_requirement);
}
bool sl_field_selector_match(const char *selector, const struct sl_json *object, bool *ret_valid) {
    return match(selector, object, ret_valid, field_requirement);
}
