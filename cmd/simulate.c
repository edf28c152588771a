/*
 * `sluice simulate PATH...`: plays manifests on a cluster in memory, through the same webhook handlers, engine and
 * manager as a real one, and tells the story. Virtual time: a second passes between two manifests, so that their order
 * is the order of their creation.
 */
#include "simulate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/api/conditions.h"
#include "sluice/api/convert.h"
#include "sluice/api/names.h"
#include "sluice/api/validate.h"
#include "sluice/base/clock.h"
#include "sluice/base/log.h"
#include "sluice/base/map.h"
#include "sluice/base/mem.h"
#include "sluice/cmd/command.h"
#include "sluice/cmd/config.h"
#include "sluice/cmd/manifests.h"
#include "sluice/cmd/resources.h"
#include "sluice/cmd/scenario.h"
#include "sluice/jobs/jobkind.h"
#include "sluice/kube/memory.h"
#include "sluice/webhook/handlers.h"

#define MAX_TURNS 2000000 /* a story that does not end is a fault of ours: stop and say so */

/* ---- a cluster with webhooks ---- */

static const struct sl_route *route_of(const char *path) {
    size_t n;
    const struct sl_route *routes = sl_handler_routes(&n);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(routes[i].path, path))
            return &routes[i];
    return NULL;
}

/* What the webhook configurations of the chart register, by resource. */
static sl_review_fn handler_of(bool mutating, const struct sl_json *request) {
    const char *group = sl_json_path_str(request, "resource.group", ""),
               *plural = sl_json_path_str(request, "resource.resource", ""),
               *sub = sl_json_get_str(request, "subResource", ""),
               *operation = sl_json_get_str(request, "operation", "");
    const char *kind = sl_json_path_str(request, "kind.kind", ""),
               *version = sl_json_path_str(request, "kind.version", "");
    if (!strcmp(operation, "DELETE") || (*sub && strcmp(plural, "workloads")) ||
        (mutating && strcmp(operation, "CREATE")))
        return NULL;
    char path[160], lower[64];
    size_t n = 0;
    for (; kind[n] && n + 1 < sizeof lower; n++)
        lower[n] = (char)(kind[n] >= 'A' && kind[n] <= 'Z' ? kind[n] + 32 : kind[n]);
    lower[n] = 0;
    n = (size_t)snprintf(path, sizeof path, "/%s-", mutating ? "mutate" : "validate");
    for (const char *g = group; *g && n + 1 < sizeof path; g++)
        path[n++] = *g == '.' ? '-' : *g;
    snprintf(path + n, sizeof path - n, "-%s-%s", version, lower);
    const struct sl_route *r = route_of(path);
    return r ? r->review : NULL;
}

static struct sl_json *admit(void *payload, bool mutating, const struct sl_json *review) {
    struct simulation *s = payload;
    sl_review_fn fn = handler_of(mutating, sl_json_get(review, "request"));
    const char *who = sl_json_path_str(review, "request.userInfo.username", "");
    if (!fn || !s->manager || !strncmp(who, "system:serviceaccount:sluice-system:", 36))
        return NULL; /* as the chart's match conditions: the manager's own writes are not asked about */
    const void *snapshot = sl_snapshot_acquire(sl_manager_snapshots(s->manager));
    if (!snapshot)
        return NULL;
    SL_AUTO_FREE char *body = sl_json_text(review);
    SL_AUTO_BUF out = SL_BUF_INIT(2 * SL_REVIEW_MAX_BYTES);
    struct sl_json *answer = NULL;
    bool denied;
    int status = sl_review_handle(fn, snapshot, body, strlen(body), &out, &denied);
    sl_snapshot_release(sl_manager_snapshots(s->manager), snapshot);
    if (status == 200 && !out.failed)
        answer = sl_json_from_text(sl_buf_text(&out));
    return answer;
}

static void defaults(void *payload, const struct sl_resource *resource, struct sl_json *object) {
    (void)payload;
    if (!strcmp(resource->group, SL_KUEUE_GROUP))
        sl_api_set_defaults(resource->kind, object);
}

int simulation_init(struct simulation *s, const struct sl_config *config, int64_t run_ms, struct sl_err *err) {
    *s = (struct simulation){.config = config};
    s->cluster = sl_memory_new(&(struct sl_memory_options){
        .seed = 1, .admit = admit, .set_defaults = defaults, .payload = s, .default_run_ms = run_ms});
    s->start_ms = sl_cluster_wall_ms(s->cluster);
    int rc =
        sl_manager_new(&(struct sl_manager_options){.cluster = s->cluster, .config = config, .identity = "simulate"},
                       &s->manager, err);
    if (rc)
        return rc;
    return simulation_settle(s) ? 0 : sl_err_set(err, SL_INTERNAL, "the simulation does not come to rest");
}

void simulation_done(struct simulation *s) {
    sl_cluster_free(s->cluster);
    sl_manager_free(s->manager);
    s->cluster = NULL;
    s->manager = NULL;
}

static bool at_rest(struct simulation *s, int64_t *ret_next_ms) {
    int64_t manager_next, cluster_next, wall = sl_cluster_wall_ms(s->cluster), mono = sl_cluster_mono_ms(s->cluster);
    bool idle = sl_manager_idle(s->manager, &manager_next);
    idle = sl_memory_idle(s->cluster, &cluster_next) && idle;
    *ret_next_ms = cluster_next >= 0 ? wall + (cluster_next - mono) : -1;
    if (manager_next >= 0 && (*ret_next_ms < 0 || manager_next < *ret_next_ms))
        *ret_next_ms = manager_next;
    return idle;
}

bool simulation_over(const struct simulation *s) {
    return s->end_ms && sl_cluster_wall_ms(s->cluster) >= s->end_ms;
}

/* A turn of at most so long. */
static void turn(struct simulation *s, int64_t ms) {
    int64_t left = s->end_ms ? s->end_ms - sl_cluster_wall_ms(s->cluster) : ms;
    sl_manager_step(s->manager, ms < left ? ms : left);
}

bool simulation_settle(struct simulation *s) {
    int64_t next;
    for (long turns = 0; turns < MAX_TURNS; turns++) {
        if (at_rest(s, &next) || simulation_over(s))
            return true;
        turn(s, 10);
    }
    return false;
}

bool simulation_advance(struct simulation *s, int64_t until_wall_ms) {
    for (long turns = 0; turns < MAX_TURNS; turns++) {
        int64_t next, now = sl_cluster_wall_ms(s->cluster);
        bool rest = at_rest(s, &next);
        if ((now >= until_wall_ms && rest) || simulation_over(s))
            return true;
        if (!rest) {
            turn(s, 10);
            continue;
        }
        int64_t wake = next >= 0 && next < until_wall_ms ? next : until_wall_ms;
        turn(s, wake > now ? wake - now : 1);
    }
    return false;
}

int64_t simulation_next(struct simulation *s) {
    int64_t next;
    at_rest(s, &next);
    return next;
}

bool simulation_foreign(const struct sl_json *object) {
    return sl_manifest_foreign(object);
}

/* Faults that keep an object from being created; an API server drops unknown fields. */
static bool counts(const struct sl_fielderr *e) {
    return e->type != SL_FE_UNKNOWN;
}

int simulation_create(struct simulation *s, const struct sl_json *object, struct sl_json **ret_warnings,
                      struct sl_err *err) {
    SL_AUTO_FIELDERRS errors = SL_FIELDERRS_INIT, warnings = SL_FIELDERRS_INIT;
    sl_manifest_check(object, &errors, &warnings);
    (void)ret_warnings;
    for (size_t i = 0; i < errors.n; i++)
        if (counts(&errors.items[i])) {
            SL_AUTO_FREE char *text = sl_fielderrs_message(&errors);
            return sl_err_set(err, SL_INVALID, "%s", text);
        }
    SL_AUTO_JSON *o = sl_json_copy(object);
    const struct sl_resource *r = sl_resource_of(o);
    if (!r)
        return sl_err_set(err, SL_INVALID, "kind %s of apiVersion %s is not simulated",
                          sl_json_get_str(o, "kind", "(none)"), sl_json_get_str(o, "apiVersion", "(none)"));
    if (!strcmp(r->group, SL_KUEUE_GROUP)) {
        int rc = sl_api_convert(o, SL_KUEUE_API, err);
        if (rc)
            return rc;
    }
    if (r->namespaced && !sl_json_path(o, "metadata.namespace"))
        sl_json_set_str(sl_json_make_object(o, "metadata"), "namespace", "default");
    const char *ns = sl_json_path_str(o, "metadata.namespace", NULL);
    if (r->namespaced && ns) { /* an API server wants the namespace first; a story should not fail for it */
        SL_AUTO_JSON *have = sl_memory_get(s->cluster, &sl_watched[SL_WATCHED_NAMESPACES], NULL, ns);
        if (!have) {
            SL_AUTO_JSON *n = sl_json_fromf("{'apiVersion':'v1','kind':'Namespace','metadata':{'name':'%s','labels':{'"
                                            "kubernetes.io/metadata.name':'%s'}}}",
                                            ns, ns);
            int rc = sl_memory_create(s->cluster, &sl_watched[SL_WATCHED_NAMESPACES], n, NULL, err);
            if (rc)
                return rc;
            simulation_settle(s);
        }
    }
    if (!strcmp(r->kind, "Namespace")) {
        struct sl_json *labels = sl_json_make_object(sl_json_make_object(o, "metadata"), "labels");
        sl_json_set_str(labels, "kubernetes.io/metadata.name", sl_json_path_str(o, "metadata.name", ""));
        SL_AUTO_JSON *have = sl_memory_get(s->cluster, r, NULL, sl_json_path_str(o, "metadata.name", ""));
        if (have)
            return sl_memory_merge(s->cluster, r, NULL, sl_json_path_str(o, "metadata.name", ""), NULL, o, NULL, err);
    }
    return sl_memory_create(s->cluster, r, o, NULL, err);
}

/* ---- the story ---- */

struct actor { /* what was told of a job so far */
    char *told_waiting, *told_admitted;
    bool held, started, finished, evicted;
};

struct story {
    struct simulation sim;
    struct sl_map actors; /* "ns/name" of the job (or of a Workload without one) */
    enum sl_output as;
    int admitted, waiting;
};

static void actor_free(void *p) {
    struct actor *a = p;
    if (a) {
        free(a->told_waiting);
        free(a->told_admitted);
    }
    free(a);
}

static struct actor *actor_of(struct story *st, const char *ns, const char *name) {
    SL_AUTO_FREE char *key = sl_xprintf("%s/%s", ns, name);
    struct actor *a = sl_map_get(&st->actors, key);
    if (!a) {
        a = sl_xalloc(sizeof *a);
        sl_map_set(&st->actors, key, a);
    }
    return a;
}

static void tell(struct story *st, const char *ns, const char *name, const char *what, const char *text) {
    int64_t s = (sl_cluster_wall_ms(st->sim.cluster) - st->sim.start_ms) / 1000;
    if (st->as) {
        SL_AUTO_JSON *line = sl_json_new_object();
        sl_json_set_int(line, "at", s);
        sl_json_set(line, "job", sl_json_new_strf("%s/%s", ns, name));
        sl_json_set_str(line, "event", what);
        sl_json_set_str(line, "text", text);
        sl_output_put(st->as, line);
        return;
    }
    printf("%4lld:%02lld  %-9s %s/%s%s", (long long)(s / 60), (long long)(s % 60), what, ns, name, *text ? "  " : "");
    for (const char *part; (part = strstr(text, "; ")); text = part + 2) /* a reason has parts: one a line */
        printf("%.*s\n%21s", (int)(part - text), text, "");
    puts(text);
}

static void describe_shm(const struct sl_json *template, struct sl_buf *out) {
    SL_JSON_ITEMS (sl_json_path(template, "spec.volumes"), v) {
        if (!strncmp(sl_json_get_str(v.value, "name", ""), "sluice-dshm", 11))
            sl_buf_printf(out, ", /dev/shm %s", sl_json_path_str(v.value, "emptyDir.sizeLimit", "?"));
    }
}

static void on_job(void *payload, const struct sl_watch_event *e) {
    struct story *st = payload;
    if (e->what != SL_WATCH_PUT)
        return;
    const char *ns = sl_json_path_str(e->object, "metadata.namespace", ""),
               *name = sl_json_path_str(e->object, "metadata.name", "");
    struct actor *a = actor_of(st, ns, name);
    bool suspended = sl_json_bool(sl_json_path(e->object, "spec.suspend"), false), stopping = false;
    const struct sl_json *template = sl_json_path(e->object, "spec.template");
    SL_AUTO_BUF text = SL_BUF_INIT(8192);
    const char *queue = sl_json_str(sl_json_get(sl_json_path(e->object, "metadata.labels"), SL_LABEL_QUEUE_NAME), "");
    if (!a->held && !a->started) {
        a->held = true;
        if (suspended && *queue)
            sl_buf_printf(&text, "in LocalQueue %s", queue);
        else
            sl_buf_puts(&text, suspended ? "suspended by its owner" : "no queue: runs at once");
        describe_shm(template, &text);
        tell(st, ns, name, suspended ? "held" : "passed", sl_buf_text(&text));
        if (!suspended)
            a->started = true;
    }
    stopping = sl_json_get(sl_json_path(e->object, "metadata.annotations"), SL_ANNOTATION_STOPPING) != NULL;
    if (!suspended && !stopping && !a->started) {
        a->started = true;
        sl_buf_clear(&text);
        sl_buf_printf(&text, "%lld pod%s", (long long)sl_json_int(sl_json_path(e->object, "spec.parallelism"), 1),
                      sl_json_int(sl_json_path(e->object, "spec.parallelism"), 1) == 1 ? "" : "s");
        SL_JSON_EACH (sl_json_path(template, "spec.nodeSelector"), n)
            sl_buf_printf(&text, ", nodeSelector %s=%s", n.key, sl_json_str(n.value, ""));
        SL_JSON_ITEMS (sl_json_path(template, "spec.tolerations"), t)
            sl_buf_printf(&text, ", tolerates %s", sl_json_get_str(t.value, "key", "everything"));
        tell(st, ns, name, "started", sl_buf_text(&text));
    }
    if (suspended && a->started && !a->finished) {
        a->started = false;
        tell(st, ns, name, "stopped", "");
    }
    const char *done = sl_condition_is_true(e->object, "Complete") ? "finished"
                       : sl_condition_is_true(e->object, "Failed") ? "failed"
                                                                   : NULL;
    if (done && !a->finished) {
        a->finished = true;
        tell(st, ns, name, done, "");
    }
}

static void describe_admission(const struct sl_json *workload, struct sl_buf *out) {
    sl_buf_printf(out, "to ClusterQueue %s", sl_json_path_str(workload, "status.admission.clusterQueue", "?"));
    SL_JSON_ITEMS (sl_json_path(workload, "status.admission.podSetAssignments"), p) {
        SL_JSON_EACH (sl_json_get(p.value, "resourceUsage"), u)
            sl_buf_printf(out, ", %s %s on %s", sl_json_str(u.value, "?"), u.key,
                          sl_json_get_str(sl_json_get(p.value, "flavors"), u.key, "?"));
    }
}

static void on_workload(void *payload, const struct sl_watch_event *e) {
    struct story *st = payload;
    if (e->what != SL_WATCH_PUT)
        return;
    const char *ns = sl_json_path_str(e->object, "metadata.namespace", ""),
               *name = sl_json_path_str(e->object, "metadata.name", "");
    SL_JSON_ITEMS (sl_json_path(e->object, "metadata.ownerReferences"), o)
        name = sl_json_get_str(o.value, "name", name);
    struct actor *a = actor_of(st, ns, name);
    SL_AUTO_BUF text = SL_BUF_INIT(65536);
    if (sl_condition_is_true(e->object, SL_COND_FINISHED)) {
        const char *reason = sl_condition_reason(e->object, SL_COND_FINISHED);
        if (!a->finished && strcmp(reason, "Succeeded") && strcmp(reason, "Failed")) {
            a->finished = true;
            tell(st, ns, name, "refused", sl_json_get_str(sl_condition_of(e->object, SL_COND_FINISHED), "message", ""));
        }
        return;
    }
    if (sl_condition_is_true(e->object, SL_COND_EVICTED) && !a->evicted) {
        a->evicted = true;
        tell(st, ns, name, "evicted", sl_json_get_str(sl_condition_of(e->object, SL_COND_EVICTED), "message", ""));
    }
    if (sl_condition_is_true(e->object, SL_COND_QUOTA_RESERVED)) {
        a->evicted = sl_condition_is_true(e->object, SL_COND_EVICTED);
        describe_admission(e->object, &text);
        if (!a->told_admitted || strcmp(a->told_admitted, sl_buf_text(&text))) {
            tell(st, ns, name, sl_condition_is_true(e->object, SL_COND_ADMITTED) ? "admitted" : "reserved",
                 sl_buf_text(&text));
            free(a->told_admitted);
            a->told_admitted = sl_xstrdup(sl_buf_text(&text));
        }
        free(SL_TAKE(a->told_waiting));
        return;
    }
    free(SL_TAKE(a->told_admitted));
    const char *why = sl_json_get_str(sl_condition_of(e->object, SL_COND_QUOTA_RESERVED), "message", NULL);
    const char *evicted = sl_json_get_str(sl_condition_of(e->object, SL_COND_EVICTED), "message", "");
    if (why && !(a->evicted && !strcmp(why, evicted)) && (!a->told_waiting || strcmp(a->told_waiting, why))) {
        tell(st, ns, name, "waits", why);
        free(a->told_waiting);
        a->told_waiting = sl_xstrdup(why);
    }
}

static void tell_queues(struct story *st) {
    SL_AUTO_JSON *queues = sl_memory_list(st->sim.cluster, &sl_watched[SL_WATCHED_CLUSTERQUEUES], NULL);
    if (st->as || !sl_json_len(queues))
        return;
    printf("\n%-24s %-10s %9s %9s   %s\n", "CLUSTERQUEUE", "ACTIVE", "PENDING", "ADMITTED", "USED (BORROWED)");
    SL_JSON_ITEMS (queues, q) {
        const struct sl_json *status = sl_json_get(q.value, "status");
        printf("%-24s %-10s %9lld %9lld   ", sl_json_path_str(q.value, "metadata.name", ""),
               sl_condition_is_true(q.value, SL_COND_ACTIVE) ? "yes" : sl_condition_reason(q.value, SL_COND_ACTIVE),
               (long long)sl_json_get_int(status, "pendingWorkloads", 0),
               (long long)sl_json_get_int(status, "admittedWorkloads", 0));
        bool first = true;
        SL_JSON_ITEMS (sl_json_get(status, "flavorsUsage"), f) {
            SL_JSON_ITEMS (sl_json_get(f.value, "resources"), r) {
                const char *total = sl_json_get_str(r.value, "total", "0"),
                           *borrowed = sl_json_get_str(r.value, "borrowed", "0");
                if (!strcmp(total, "0"))
                    continue;
                printf("%s%s %s on %s", first ? "" : ", ", total, sl_json_get_str(r.value, "name", ""),
                       sl_json_get_str(f.value, "name", ""));
                if (strcmp(borrowed, "0"))
                    printf(" (%s)", borrowed);
                first = false;
            }
        }
        puts(first ? "-" : "");
    }
}

static void complain(enum sl_output as, const struct sl_manifest *f, const char *level, const char *path,
                     const char *text) {
    if (as) {
        sl_manifest_report(as, f, level, path, text);
        return;
    }
    fflush(stdout); /* complaints come in their place among what was told, also in a pipe */
    fprintf(stderr, "%s:%d: ", f->file, sl_manifest_line(f, path, text));
    if (f->documents > 1)
        fprintf(stderr, "document %d: ", f->document);
    SL_AUTO_FREE char *kind = sl_manifest_text(f, "kind"), *name = sl_manifest_text(f, "metadata.name");
    fprintf(stderr, "%s %s: %s%s%s%s\n", kind, name, *level == 'w' ? "warning: " : "", path, *path ? ": " : "", text);
}

/* Every wrong field on a line of its own; an error of one text would be cut. */
static bool well_formed(enum sl_output as, const struct sl_manifest *f) {
    SL_AUTO_FIELDERRS errors = SL_FIELDERRS_INIT, warnings = SL_FIELDERRS_INIT;
    sl_manifest_check(f->object, &errors, &warnings);
    bool good = true;
    for (size_t i = 0; i < errors.n; i++) {
        complain(as, f, counts(&errors.items[i]) ? "error" : "warning", errors.items[i].path, errors.items[i].text);
        good = good && !counts(&errors.items[i]);
    }
    return good;
}

static int play(struct story *st, const struct sl_manifests *manifests, int64_t until_ms) {
    int refused = 0;
    int64_t end = st->sim.start_ms + until_ms;
    st->sim.end_ms = end;
    for (size_t i = 0; i < manifests->n; i++) {
        const struct sl_manifest *f = &manifests->items[i];
        struct sl_err err = SL_ERR_INIT;
        if (simulation_foreign(f->object)) {
            complain(st->as, f, "note", "", "passed over, this kind is not simulated");
            continue;
        }
        if (!well_formed(st->as, f)) {
            refused++;
            continue;
        }
        if (sl_resource_of(f->object) == &sl_watched[SL_WATCHED_JOBS] &&
            i) /* creation times have whole seconds: keep the order */
            simulation_advance(&st->sim, sl_cluster_wall_ms(st->sim.cluster) / 1000 * 1000 + 1000);
        if (simulation_over(&st->sim)) {
            complain(st->as, f, "note", "", "not played, nor what follows it: the story ends before (--until)");
            break;
        }
        if (simulation_create(&st->sim, f->object, NULL, &err)) {
            complain(st->as, f, "error", "", err.text);
            refused++;
            continue;
        }
        if (!simulation_settle(&st->sim))
            return -1;
    }
    if (!simulation_over(&st->sim)) {
        tell_queues(st);
        if (!st->as)
            puts("");
    }
    while (!simulation_over(&st->sim)) {
        int64_t next = simulation_next(&st->sim);
        if (next < 0 || next > end)
            break;
        if (!simulation_advance(&st->sim, next))
            return -1;
    }
    tell_queues(st);
    return refused;
}

int sl_cmd_simulate(int argc, char **argv) {
    const char *config_path = NULL, *run_time = "10m", *until = "24h", *output = "text", *scenario = NULL;
    bool check = false;
    const struct sl_option options[] = {{"config", 0, &config_path, NULL},
                                        {"run-time", 0, &run_time, NULL},
                                        {"until", 0, &until, NULL},
                                        {"output", 'o', &output, NULL},
                                        {"scenario", 0, &scenario, NULL},
                                        {"check", 0, NULL, &check},
                                        {NULL, 0, NULL, NULL}};
    const char **args = NULL;
    int n = sl_options(argc, argv, options, &args);
    if (n < 0)
        return SL_EXIT_USAGE;
    int64_t run_ms, until_ms;
    const char *misuse = NULL;
    if (n == 0 && !scenario)
        misuse = "name at least one manifest or folder";
    else if (n && scenario)
        misuse = "--scenario takes no manifests";
    else if (!sl_duration_parse(run_time, &run_ms) || run_ms < 0)
        misuse = "--run-time is a duration such as 90s or 2h";
    else if (!sl_duration_parse(until, &until_ms) || until_ms < 0)
        misuse = "--until is a duration such as 90s or 2h";
    if (misuse)
        sl_cmd_misuse("simulate", "%s", misuse);
    enum sl_output as;
    if (misuse || !sl_output_of("simulate", output, &as)) {
        free(args);
        return SL_EXIT_USAGE;
    }
    struct sl_config config;
    SL_AUTO_FREE char *error = NULL;
    if (sl_config_read(config_path, NULL, NULL, &config, &error)) {
        sl_cmd_error("simulate", as, error);
        free(args);
        return SL_EXIT_FAILED;
    }
    sl_log_set_level(SL_LOG_ERROR);
    if (scenario) {
        int code = sl_cmd_scenario(scenario, &config, check, as);
        free(args);
        sl_config_done(&config);
        return code;
    }
    struct sl_manifests manifests = {0};
    struct sl_err err = SL_ERR_INIT;
    int rc = 0, code = SL_EXIT_OK;
    for (int i = 0; i < n && !rc; i++)
        rc = sl_manifests_load(&manifests, args[i], &err);
    if (!rc && !manifests.n)
        rc = sl_err_set(&err, SL_INVALID, "%s: nothing to play: no manifests here", args[0]);
    struct story story = {.as = as};
    bool loaded = !rc;
    if (loaded)
        rc = simulation_init(&story.sim, &config, run_ms, &err);
    if (rc) {
        sl_cmd_error("simulate", as, err.text);
        code = rc == SL_INVALID && !loaded ? SL_EXIT_WRONG : SL_EXIT_FAILED; /* a wrong configuration fails */
    } else {
        sl_cluster_watch(story.sim.cluster, &sl_watched[SL_WATCHED_JOBS], &(struct sl_watch_options){0}, on_job,
                         &story);
        sl_cluster_watch(story.sim.cluster, &sl_watched[SL_WATCHED_WORKLOADS], &(struct sl_watch_options){0},
                         on_workload, &story);
        int refused = play(&story, &manifests, until_ms);
        if (refused < 0)
            sl_cmd_error("simulate", as, "the story does not come to rest; please report this");
        code = refused < 0 ? SL_EXIT_FAILED : refused ? SL_EXIT_WRONG : SL_EXIT_OK;
    }
    if (story.sim.manager)
        simulation_done(&story.sim);
    else
        sl_cluster_free(story.sim.cluster);
    sl_map_done(&story.actors, actor_free);
    sl_manifests_done(&manifests);
    sl_config_done(&config);
    free(args);
    return code;
}
