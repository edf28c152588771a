/*
 * What explain says would admit a workload does: the scenario is played again with that change as one more step, in its
 * own history, and the workload is admitted. So it is for everyone who waits at the end, and every change that is
 * named.
 */
#ifndef TEST_SCENARIO_CHANGES_H
#define TEST_SCENARIO_CHANGES_H

#include "sluice/base/mem.h"
#include "sluice/cmd/scenario.h"

struct changes_seen {
    size_t waiting, finish, borrowing, lending, nominal, cohorts;
};

/* The object as it is after all the steps; owned. */
static inline struct sl_json *object_at_end(const struct sl_json *scenario, const char *kind, const char *name) {
    struct sl_json *o = NULL;
    SL_JSON_ITEMS (sl_json_get(scenario, "objects"), x) {
        if (!strcmp(sl_json_get_str(x.value, "kind", ""), kind) &&
            !strcmp(sl_json_path_str(x.value, "metadata.name", ""), name))
            o = sl_json_copy(x.value);
    }
    SL_JSON_ITEMS (sl_json_get(scenario, "steps"), s) {
        const struct sl_json *p = sl_json_get(s.value, "patch");
        if (!o || strcmp(sl_json_get_str(p, "kind", ""), kind) || strcmp(sl_json_get_str(p, "name", ""), name))
            continue;
        SL_AUTO_JSON *change = sl_json_new_object();
        sl_json_set(change, "spec", sl_json_copy(sl_json_get(p, "spec")));
        o = sl_json_merge_patch(o, change);
    }
    return o;
}

/* False when the object has no such quota. */
static inline bool set_limit(struct sl_json *spec, const struct sl_json *part) {
    struct sl_json *groups = sl_json_mut(spec, "resourceGroups");
    for (size_t g = 0; g < sl_json_len(groups); g++) {
        struct sl_json *flavors = sl_json_mut(sl_json_mut_at(groups, g), "flavors");
        for (size_t f = 0; f < sl_json_len(flavors); f++) {
            struct sl_json *resources = sl_json_mut(sl_json_mut_at(flavors, f), "resources");
            for (size_t r = 0; r < sl_json_len(resources); r++) {
                struct sl_json *q = sl_json_mut_at(resources, r);
                if (strcmp(sl_json_get_str(sl_json_at(flavors, f), "name", ""), sl_json_get_str(part, "flavor", "")) ||
                    strcmp(sl_json_get_str(q, "name", ""), sl_json_get_str(part, "resource", "")))
                    continue;
                sl_json_set_str(q, sl_json_get_str(part, "limit", ""), sl_json_get_str(part, "to", ""));
                return true;
            }
        }
    }
    return false;
}

/* The change as steps that come after the others. */
static inline void append_change(struct sl_json *scenario, const struct sl_json *change, struct changes_seen *seen) {
    struct sl_json *steps = sl_json_mut(scenario, "steps");
    const char *who = sl_json_get_str(change, "finish", NULL);
    if (who) {
        struct sl_json *step = sl_json_new_object();
        sl_json_set_str(step, "finish", strchr(who, '/') + 1);
        sl_json_append(steps, step);
        seen->finish++;
        return;
    }
    SL_JSON_ITEMS (sl_json_get(change, "raise"), p) {
        const char *kind = sl_json_get_str(p.value, "kind", ""), *name = sl_json_get_str(p.value, "name", ""),
                   *limit = sl_json_get_str(p.value, "limit", "");
        SL_AUTO_JSON *o = object_at_end(scenario, kind, name);
        struct sl_json *last = sl_json_mut_at(steps, sl_json_len(steps) - 1), *same = sl_json_mut(last, "patch");
        if (p.i && !strcmp(sl_json_get_str(same, "kind", ""), kind) &&
            !strcmp(sl_json_get_str(same, "name", ""), name)) {
            if (!set_limit(sl_json_mut(same, "spec"), p.value)) /* one change of one object */
                fail_msg("%s %s has no such quota", kind, name);
            continue;
        }
        struct sl_json *step = sl_json_new_object(), *patch = sl_json_make_object(step, "patch");
        struct sl_json *spec = sl_json_make_object(patch, "spec");
        sl_json_set(spec, "resourceGroups", sl_json_copy(sl_json_path(o, "spec.resourceGroups")));
        sl_json_set_str(patch, "kind", kind);
        sl_json_set_str(patch, "name", name);
        if (!set_limit(spec, p.value))
            fail_msg("%s %s has no such quota", kind, name);
        sl_json_append(steps, step);
        seen->borrowing += !strcmp(limit, "borrowingLimit");
        seen->lending += !strcmp(limit, "lendingLimit");
        seen->nominal += !strcmp(limit, "nominalQuota");
        seen->cohorts += !strcmp(kind, "Cohort");
    }
}

static inline void check_changes(const struct sl_json *scenario, const struct sl_config *config,
                                 enum sl_scenario_release release, struct changes_seen *seen) {
    struct sl_err err = SL_ERR_INIT;
    SL_AUTO_JSON *waiting = sl_json_new_object(), *result = NULL;
    if (sl_scenario_play(scenario, config, release, &result, &(struct sl_scenario_stats){.waiting = waiting}, &err))
        fail_msg("%s", err.text);
    SL_JSON_EACH (waiting, w) {
        seen->waiting++;
        SL_JSON_ITEMS (sl_json_get(w.value, "changes"), c) {
            SL_AUTO_JSON *more = sl_json_copy(scenario), *then = NULL;
            append_change(more, c.value, seen);
            struct sl_scenario_stats stats = {0};
            if (sl_scenario_play(more, config, release, &then, &stats, &err))
                fail_msg("%s", err.text);
            const struct sl_json *outcome = sl_json_get(then, "outcome");
            bool admitted = false; /* at one of the new steps: it may be evicted again later */
            for (size_t i = sl_json_len(sl_json_get(scenario, "steps")); i < sl_json_len(outcome); i++)
                admitted |=
                    !strcmp(sl_json_get_str(sl_json_get(sl_json_at(outcome, i), w.key), "state", ""), "Admitted");
            if (!admitted) {
                SL_AUTO_FREE char *text = sl_json_text(c.value);
                fail_msg("%s: %s is not admitted after %s; it was told: %s", sl_json_get_str(scenario, "name", ""),
                         w.key, text, sl_json_get_str(w.value, "message", ""));
            }
        }
    }
}

#endif
