/* `sluice lint`: manifests against the rules of schema and webhooks, without an API server. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advice.h"
#include "sluice/api/jobmeta.h"
#include "sluice/api/names.h"
#include "sluice/api/registry.h"
#include "sluice/base/map.h"
#include "sluice/base/mem.h"
#include "sluice/cmd/command.h"
#include "sluice/cmd/manifests.h"
#include "sluice/cmd/resources.h"
#include "sluice/jobs/jobkind.h"
#include "sluice/webhook/handlers.h"
#include "sluice/webhook/snapshot.h"

/* A job goes through the webhooks' own code, with nothing known of the cluster. */
static int lint_job(enum sl_output as, const struct sl_manifest *m, const struct sl_snapshot *snapshot) {
    int found = 0;
    SL_AUTO_JSON *request = sl_json_new_object();
    const struct sl_jobkind *k = sl_jobkind_of(m->object);
    sl_json_set_str(request, "uid", "lint");
    sl_json_set_str(request, "operation", "CREATE");
    sl_json_set_str(request, "namespace", sl_json_path_str(m->object, "metadata.namespace", "default"));
    sl_json_set(request, "kind",
                sl_json_fromf("{'group':'%s','version':'%s','kind':'%s'}", k->group, k->version, k->kind));
    sl_json_set(request, "object", sl_json_copy(m->object));
    void (*const handlers[])(const void *, const struct sl_json *, struct sl_review_reply *) = {sl_mutate_job,
                                                                                                sl_validate_job};
    for (size_t i = 0; i < SL_COUNT(handlers); i++) {
        struct sl_review_reply reply = SL_REVIEW_REPLY_INIT;
        handlers[i](snapshot, request, &reply);
        SL_JSON_ITEMS (reply.warnings, w)
            sl_manifest_report(as, m, "warning", "", sl_json_str(w.value, ""));
        if (!reply.allowed) {
            sl_manifest_report(as, m, "error", "", reply.message ? reply.message : "refused");
            found++;
        }
        sl_review_reply_done(&reply);
    }
    return found;
}

/* The same object twice: the second would replace the first, or be refused. seen: identity -> the first. */
static void check_again(struct sl_manifest *m, struct sl_map *seen, struct sl_fielderrs *errors,
                        struct sl_fielderrs *warnings) {
    const char *version = sl_json_get_str(m->object, "apiVersion", ""), *kind = sl_json_get_str(m->object, "kind", ""),
               *name = sl_json_path_str(m->object, "metadata.name", "");
    if (!*name)
        return;
    const struct sl_api_kind *ours = sl_api_kind_find(kind);
    bool namespaced = ours ? ours->namespaced : !strcmp(kind, "Job") || !strcmp(kind, "LimitRange");
    const char *ns = namespaced ? sl_json_path_str(m->object, "metadata.namespace", "default") : "";
    SL_AUTO_FREE char *key = sl_xprintf("%.*s\n%s\n%s\n%s", (int)strcspn(version, "/"), version, kind, ns, name);
    const struct sl_manifest *first = sl_map_get(seen, key);
    if (!first) {
        sl_map_set(seen, key, m);
        return;
    }
    sl_fielderr_schema(!strcmp(kind, "Namespace") ? warnings : errors, SL_FE_DUPLICATE,
                       SL_PATH(SL_PATH(NULL, "metadata"), "name"), sl_json_path(m->object, "metadata.name"),
                       "the same object is in %s:%d", first->file, first->line);
}

int sl_cmd_lint(int argc, char **argv) {
    const char *output = "text";
    const struct sl_option options[] = {{"output", 'o', &output, NULL}, {NULL, 0, NULL, NULL}};
    const char **args = NULL;
    int n = sl_options(argc, argv, options, &args);
    if (n < 0)
        return SL_EXIT_USAGE;
    enum sl_output as = SL_OUTPUT_TEXT;
    if (n == 0 || !sl_output_of("lint", output, &as)) {
        if (n == 0)
            sl_cmd_misuse("lint", "name at least one manifest or folder");
        free(args);
        return SL_EXIT_USAGE;
    }
    struct sl_manifests manifests = {.go_on = true};
    struct sl_err err = SL_ERR_INIT;
    struct sl_snapshot *snapshot = NULL;
    struct sl_config config;
    sl_config_init(&config);
    int rc = sl_snapshot_new(&config, "kueue-system", &snapshot, &err), found = 0;
    sl_config_done(&config);
    for (int i = 0; i < n && !rc; i++)
        rc = sl_manifests_load(&manifests, args[i], &err);
    if (!rc && !manifests.n && !manifests.n_faults) /* one that looked at nothing has not found that all is well */
        rc = sl_err_set(&err, SL_INVALID, "%s: nothing to check: no manifests here", args[0]);
    free(args);
    if (rc) {
        sl_cmd_error("lint", as, err.text);
        sl_manifests_done(&manifests);
        sl_snapshot_unref(snapshot);
        return rc == SL_INVALID ? SL_EXIT_WRONG : SL_EXIT_FAILED;
    }
    sl_snapshot_freeze(snapshot);
    size_t ours = 0, others = 0;
    bool unread = false;
    for (size_t i = 0; i < manifests.n_faults; i++) {
        sl_manifest_report_fault(as, &manifests.faults[i]);
        unread = unread || (manifests.faults[i].code != SL_INVALID && manifests.faults[i].code != SL_TOO_BIG);
    }
    found += (int)manifests.n_faults;
    struct sl_map seen = SL_MAP_INIT;
    struct advice advice;
    advice_init(&advice, &manifests);
    for (size_t i = 0; i < manifests.n; i++) {
        struct sl_manifest *m = &manifests.items[i];
        SL_AUTO_FIELDERRS errors = SL_FIELDERRS_INIT, warnings = SL_FIELDERRS_INIT;
        sl_manifest_check(m->object, &errors, &warnings);
        if (!sl_manifest_foreign(m->object))
            check_again(m, &seen, &errors, &warnings);
        advice_on_fields(m->object, &warnings);
        if (!errors.n)
            advice_on(&advice, m->object, &warnings);
        for (size_t e = 0; e < errors.n; e++)
            sl_manifest_report(as, m, "error", errors.items[e].path, errors.items[e].text);
        for (size_t e = 0; e < warnings.n; e++)
            sl_manifest_report(as, m, "warning", warnings.items[e].path, warnings.items[e].text);
        found += (int)(errors.n + errors.dropped);
        if (!errors.n && sl_jobkind_of(m->object))
            found += lint_job(as, m, snapshot);
        if (sl_manifest_foreign(m->object))
            others++;
        else
            ours++;
    }
    sl_map_done(&seen, NULL);
    advice_done(&advice);
    if (!as) {
        printf("%zu document%s checked, %d error%s", ours, ours == 1 ? "" : "s", found, found == 1 ? "" : "s");
        if (others)
            printf("; %zu of other kinds passed over", others);
        puts("");
    }
    sl_manifests_done(&manifests);
    sl_snapshot_unref(snapshot);
    return unread ? SL_EXIT_FAILED : found ? SL_EXIT_WRONG : SL_EXIT_OK;
}
