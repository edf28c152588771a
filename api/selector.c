/*
 * Label selectors, node selector requirements, tolerations: decoding and matching, with the answers of Kubernetes. A
 * requirement matches a label set; NotIn and DoesNotExist also match when the key is absent; Gt and Lt compare integers
 * and never match what is not one.
 */
#include <stdlib.h>
#include <string.h>

#include "meta.h"
#include "sluice/api/decode.h"
#include "sluice/base/mem.h"
#include "sluice/base/num.h"

static const char *const operators[] = {"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", NULL};

/* One matchExpressions entry. NULL result text: fine; otherwise what is wrong with it. */
static const char *expression_decode(const struct sl_json *j, bool node, struct sl_requirement *ret) {
    const char *key = sl_json_get_str(j, "key", "");
    int op = sl_meta_choice(sl_json_get_str(j, "operator", ""), operators);
    const struct sl_json *values = sl_json_get(j, "values");
    size_t n = sl_json_is_array(values) ? sl_json_len(values) : 0;
    ret->key = sl_xstrdup(key);
    ret->values = sl_xalloc((n + 1) * sizeof *ret->values);
    for (size_t i = 0; i < n; i++)
        ret->values[ret->n++] = sl_xstrdup(sl_json_str(sl_json_at(values, i), ""));
    if (!*key)
        return "a key is required";
    if (op < 0 || (!node && op >= SL_SEL_GT))
        return "not a valid selector operator";
    ret->op = (enum sl_selector_op)op;
    switch (ret->op) {
    case SL_SEL_IN:
    case SL_SEL_NOT_IN: return n == 0 ? "values are required with operator In or NotIn" : NULL;
    case SL_SEL_EXISTS:
    case SL_SEL_NOT_EXISTS: return n != 0 ? "values must be empty with operator Exists or DoesNotExist" : NULL;
    case SL_SEL_GT:
    case SL_SEL_LT: {
        int64_t v;
        return n != 1 || !sl_parse_int(ret->values[0], &v) ? "operator Gt or Lt needs exactly one integer" : NULL;
    }
    }
    return NULL;
}

int sl_selector_decode(const struct sl_json *o, struct sl_selector *ret, struct sl_err *err) {
    const struct sl_json *labels = sl_json_get(o, "matchLabels"), *expressions = sl_json_get(o, "matchExpressions");
    size_t n_labels = sl_json_is_object(labels) ? sl_json_len(labels) : 0;
    size_t n = sl_json_is_array(expressions) ? sl_json_len(expressions) : 0;
    struct sl_selector s = {sl_xalloc((n_labels + n + 1) * sizeof *s.items), 0};
    if (n_labels) {
        struct sl_labels sorted;
        sl_labels_decode(labels, NULL, &sorted);
        for (size_t i = 0; i < sorted.n; i++) {
            char **values = sl_xalloc(sizeof *values);
            values[0] = SL_TAKE(sorted.items[i].value);
            s.items[s.n++] = (struct sl_requirement){SL_TAKE(sorted.items[i].key), SL_SEL_IN, values, 1};
        }
        sl_labels_done(&sorted);
    }
    for (size_t i = 0; i < n; i++) {
        const char *wrong = expression_decode(sl_json_at(expressions, i), false, &s.items[s.n++]);
        if (wrong) {
            sl_selector_done(&s);
            return sl_err_set(err, SL_INVALID, "matchExpressions[%zu]: %s", i, wrong);
        }
    }
    *ret = s;
    return 0;
}

bool sl_node_expressions_decode(const struct sl_json *list, struct sl_requirement **ret, size_t *ret_n) {
    size_t n = sl_json_is_array(list) ? sl_json_len(list) : 0;
    *ret = sl_xalloc((n + 1) * sizeof **ret);
    *ret_n = n;
    bool ok = true;
    for (size_t i = 0; i < n; i++)
        ok = !expression_decode(sl_json_at(list, i), true, &(*ret)[i]) && ok;
    return ok;
}

static bool has_value(const struct sl_requirement *r, const char *value) {
    for (size_t i = 0; i < r->n; i++)
        if (!strcmp(r->values[i], value))
            return true;
    return false;
}

bool sl_requirement_matches(const struct sl_requirement *r, const struct sl_labels *labels) {
    const char *value = sl_labels_get(labels, r->key);
    switch (r->op) {
    case SL_SEL_IN: return value && has_value(r, value);
    case SL_SEL_NOT_IN: return !value || !has_value(r, value);
    case SL_SEL_EXISTS: return value != NULL;
    case SL_SEL_NOT_EXISTS: return value == NULL;
    case SL_SEL_GT:
    case SL_SEL_LT: {
        int64_t have, limit;
        if (!value || r->n != 1 || !sl_parse_int(value, &have) || !sl_parse_int(r->values[0], &limit))
            return false;
        return r->op == SL_SEL_GT ? have > limit : have < limit;
    }
    }
    return false;
}

bool sl_selector_matches(const struct sl_selector *s, const struct sl_labels *labels) {
    for (size_t i = 0; i < s->n; i++)
        if (!sl_requirement_matches(&s->items[i], labels))
            return false;
    return true;
}

void sl_tolerations_decode(const struct sl_json *list, struct sl_toleration **ret, size_t *ret_n) {
    size_t n = sl_json_is_array(list) ? sl_json_len(list) : 0;
    struct sl_toleration *t = sl_xalloc((n + 1) * sizeof *t);
    for (size_t i = 0; i < n; i++) {
        const struct sl_json *j = sl_json_at(list, i);
        const struct sl_json *seconds = sl_json_get(j, "tolerationSeconds");
        t[i] = (struct sl_toleration){.key = sl_meta_str(j, "key"),
                                      .op = sl_meta_str(j, "operator"),
                                      .value = sl_meta_str(j, "value"),
                                      .effect = sl_meta_str(j, "effect"),
                                      .has_seconds = sl_json_type(seconds) == SL_JSON_INT,
                                      .seconds = sl_json_int(seconds, 0)};
    }
    *ret = t;
    *ret_n = n;
}

bool sl_toleration_tolerates(const struct sl_toleration *t, const struct sl_taint *taint) {
    if (*t->effect && strcmp(t->effect, taint->effect) != 0)
        return false;
    if (*t->key && strcmp(t->key, taint->key) != 0)
        return false;
    if (!strcmp(t->op, "Exists"))
        return true;
    if (!*t->op || !strcmp(t->op, "Equal"))
        return !strcmp(t->value, taint->value);
    int64_t limit, have; /* numeric tolerations: the taint's value on the side that the operator names */
    bool less = !strcmp(t->op, "Lt"), greater = !strcmp(t->op, "Gt");
    if ((!less && !greater) || !sl_parse_int(t->value, &limit) || !sl_parse_int(taint->value, &have))
        return false;
    return less ? have < limit : have > limit;
}

void sl_podset_decode_placement(const struct sl_json *pod_spec, struct sl_podset *ps) {
    sl_labels_done(&ps->node_selector);
    sl_labels_decode(sl_json_get(pod_spec, "nodeSelector"), NULL, &ps->node_selector);
    const struct sl_json *terms = sl_json_path(
        pod_spec, "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
    size_t n = sl_json_is_array(terms) ? sl_json_len(terms) : 0;
    if (n) {
        ps->affinity = sl_xalloc(n * sizeof *ps->affinity);
        ps->n_affinity = n;
        for (size_t i = 0; i < n; i++)
            if (!sl_node_expressions_decode(sl_json_get(sl_json_at(terms, i), "matchExpressions"),
                                            &ps->affinity[i].items, &ps->affinity[i].n))
                ps->affinity_invalid = true;
    }
    sl_tolerations_free(ps->tolerations, ps->n_tolerations);
    sl_tolerations_decode(sl_json_get(pod_spec, "tolerations"), &ps->tolerations, &ps->n_tolerations);
}
