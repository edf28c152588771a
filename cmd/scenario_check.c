/* What a decision scenario has to look like, before it is played. */
#include <stdlib.h>
#include <string.h>

#include "sluice/api/fields.h"
#include "sluice/api/validate.h"
#include "sluice/base/mem.h"
#include "sluice/cmd/resources.h"
#include "sluice/cmd/scenario.h"

#define END                                                                                                            \
    { NULL, SL_F_ANY, 0, NULL, NULL }

static const struct sl_field scenario_fields[] = {
    {"name", SL_F_STRING, SL_F_REQUIRED, NULL, NULL},
    {"theme", SL_F_STRING, 0, NULL, NULL},
    {"config", SL_F_OBJECT, 0, NULL,
     NULL}, /* what it was recorded with, a note: --config says what it is played with */
    {"stable", SL_F_BOOL, 0, NULL, NULL},
    {"objects", SL_F_OBJECTS, 0, NULL, NULL},
    {"steps", SL_F_OBJECTS, 0, NULL, NULL},
    {"expect", SL_F_OBJECTS, 0, NULL, NULL},
    END,
};
static const struct sl_field patch_fields[] = {
    {"kind", SL_F_STRING, SL_F_REQUIRED, NULL, "ClusterQueue|Cohort|LocalQueue"},
    {"name", SL_F_STRING, SL_F_REQUIRED, NULL, NULL},
    {"spec", SL_F_OBJECT, SL_F_REQUIRED, NULL, NULL},
    END,
};
static const struct sl_field step_fields[] = {
    {"create", SL_F_OBJECT, 0, NULL, NULL},
    {"finish", SL_F_STRING, SL_F_WHERE_GIVEN, NULL, NULL},
    {"delete", SL_F_STRING, SL_F_WHERE_GIVEN, NULL, NULL},
    {"deactivate", SL_F_STRING, SL_F_WHERE_GIVEN, NULL, NULL},
    {"patch", SL_F_OBJECT, 0, patch_fields, NULL},
    END,
};
static const struct sl_field assigned_fields[] = {
    {"count", SL_F_INT32, SL_F_COUNT, NULL, NULL},
    {"flavors", SL_F_STRING_MAP, 0, NULL, NULL},
    END,
};
static const struct sl_field outcome_fields[] = {
    {"state", SL_F_STRING, SL_F_REQUIRED, NULL, "Admitted|Reserved|Pending|Finished|Inactive|Gone"},
    {"podSets", SL_F_MAP, 0, assigned_fields, NULL},
    {"evicted", SL_F_STRINGS, 0, NULL, NULL},
    END,
};
static const char *const object_kinds[] = {"ResourceFlavor", "Cohort",         "ClusterQueue",
                                           "LocalQueue",     "AdmissionCheck", NULL};
static const char *const created_kinds[] = {"Workload", NULL};

/* An object of the API below path: of one of these kinds, and as an API server would take it. In a scenario the version
 * goes without saying, and what is created is a Workload. */
static void check_object(const struct sl_json *o, const char *const *kinds, const struct sl_path *path,
                         struct sl_fielderrs *l) {
    SL_AUTO_JSON *whole = sl_json_copy_shallow(o);
    if (sl_json_is_null(sl_json_get(o, "apiVersion")))
        sl_json_set_str(whole, "apiVersion", SL_KUEUE_API);
    if (sl_json_is_null(sl_json_get(o, "kind")) && !kinds[1])
        sl_json_set_str(whole, "kind", kinds[0]);
    o = whole;
    const char *kind = sl_json_get_str(o, "kind", "");
    size_t i = 0;
    while (kinds[i] && strcmp(kinds[i], kind) != 0)
        i++;
    if (!kinds[i]) {
        sl_fielderr_unsupported(l, true, SL_PATH(path, "kind"), kind, kinds);
        return;
    }
    SL_AUTO_FIELDERRS own = SL_FIELDERRS_INIT;
    sl_api_validate(o, NULL, SL_VALIDATE_STRUCTURE, &own);
    if (!own.n && !*sl_json_path_str(o, "metadata.name", ""))
        sl_fielderr_schema(&own, SL_FE_REQUIRED, SL_PATH(SL_PATH(NULL, "metadata"), "name"), NULL, NULL);
    SL_AUTO_BUF where = SL_BUF_INIT(256);
    sl_path_text(path, &where);
    for (i = 0; i < own.n && l->n < SL_FIELDERR_MAX; i++) {
        SL_GROW(l->items, l->cap, l->n);
        l->items[l->n++] =
            (struct sl_fielderr){own.items[i].type, true, sl_xprintf("%s.%s", sl_buf_text(&where), own.items[i].path),
                                 sl_xstrdup(own.items[i].text)};
    }
}

void sl_scenario_check(const struct sl_json *scenario, struct sl_fielderrs *l) {
    if (!sl_json_is_object(scenario)) {
        sl_fielderr_schema(l, SL_FE_INVALID, SL_PATH(NULL, "scenario"), NULL, "must be an object");
        return;
    }
    sl_fields_check(scenario_fields, scenario, NULL, 0, l); /* whoever made it may have noted more */
    if (l->n)
        return;
    SL_JSON_ITEMS (sl_json_get(scenario, "objects"), o)
        check_object(o.value, object_kinds, SL_PATH_AT(SL_PATH(NULL, "objects"), o.i), l);
    SL_JSON_ITEMS (sl_json_get(scenario, "steps"), s) {
        const struct sl_path *at = SL_PATH_AT(SL_PATH(NULL, "steps"), s.i);
        size_t before = l->n;
        sl_fields_check(step_fields, s.value, at, SL_FIELDS_UNKNOWN, l);
        size_t ops = 0;
        for (const struct sl_field *f = step_fields; f->name; f++)
            ops += !sl_json_is_null(sl_json_get(s.value, f->name));
        if (ops != 1 && l->n == before)
            sl_fielderr_schema(l, SL_FE_INVALID, at, NULL,
                               "must have one of create, finish, delete, deactivate, patch");
        const struct sl_json *created = sl_json_get(s.value, "create");
        if (sl_json_is_object(created))
            check_object(created, created_kinds, SL_PATH(at, "create"), l);
    }
    SL_JSON_ITEMS (sl_json_get(scenario, "expect"), x)
        SL_JSON_EACH (x.value, w) {
            const struct sl_path *at = SL_PATH_KEY(SL_PATH_AT(SL_PATH(NULL, "expect"), x.i), w.key);
            if (sl_json_is_object(w.value))
                sl_fields_check(outcome_fields, w.value, at, 0, l);
            else
                sl_fielderr_schema(l, SL_FE_INVALID, at, sl_json_is_array(w.value) ? NULL : w.value,
                                   "must be an object");
        }
}
