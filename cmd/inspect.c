/* Verbs that only look: explain, status, history, check. explain and status see a cluster through the manager's own
 * eyes, without deciding. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ask.h"
#include "simulate.h"
#include "sluice/api/quantity.h"
#include "sluice/base/clock.h"
#include "sluice/base/log.h"
#include "sluice/base/mem.h"
#include "sluice/base/num.h"
#include "sluice/cmd/command.h"
#include "sluice/cmd/config.h"
#include "sluice/cmd/manifests.h"
#include "sluice/cmd/resources.h"
#include "sluice/kube/client.h"
#include "sluice/quota/ledger/ledger.h"

#define ANSWER_LIMIT_MS 10000
#define SYNC_LIMIT_MS   30000

struct place { /* what is looked at */
    const char *kubeconfig, *context, *simulate, *config;
};
struct eyes {
    struct sl_config config;
    struct simulation sim;   /* with --simulate */
    struct sl_cluster *live; /* otherwise */
    struct manager *manager;
};

/* Whether everything may be read, before it is waited for: who is not allowed to, or talks to nobody, hears so at once.
 */
static int may_read(struct sl_cluster *c, struct sl_err *err) {
    int64_t by = sl_now_mono_ms() + ANSWER_LIMIT_MS;
    for (size_t i = 0; i < SL_WATCHED__COUNT; i++) {
        struct sl_request request = {
            .verb = SL_LIST, .resource = &sl_watched[i], .query = "limit=1", .lane = SL_LANE_STATUS};
        struct sl_json *list = NULL;
        int rc = ask_cluster(c, request, by, &list, err);
        sl_json_unref(list);
        if (rc && rc != SL_NOT_FOUND) {
            sl_err_wrap(err, "reading %s", sl_watched[i].plural);
            return rc;
        }
    }
    return 0;
}

static int open_eyes(struct eyes *e, const char *verb, enum sl_output as, const struct place *at) {
    struct sl_err err = SL_ERR_INIT;
    SL_AUTO_FREE char *error = NULL;
    *e = (struct eyes){0};
    if (sl_config_read(at->config, NULL, NULL, &e->config, &error)) {
        sl_cmd_error(verb, as, error);
        return SL_EXIT_FAILED;
    }
    sl_log_set_level(SL_LOG_ERROR);
    if (at->simulate) {
        struct sl_manifests files = {0};
        int rc = sl_manifests_load(&files, at->simulate, &err);
        if (!rc)
            rc = simulation_init(&e->sim, &e->config, 0, &err);
        for (size_t i = 0; !rc && i < files.n; i++) {
            if (simulation_foreign(files.items[i].object))
                continue;
            if (i)
                simulation_advance(&e->sim, sl_cluster_wall_ms(e->sim.cluster) + 1000);
            if (simulation_create(&e->sim, files.items[i].object, NULL, &err))
                rc = SL_INVALID; /* also what is there twice */
            if (!rc && !simulation_settle(&e->sim))
                rc = sl_err_set(&err, SL_INTERNAL, "the simulation does not come to rest");
            if (rc)
                sl_err_wrap(&err, "%s:%d", files.items[i].file, files.items[i].line);
        }
        sl_manifests_done(&files);
        e->manager = e->sim.manager;
        if (rc)
            sl_cmd_error(verb, as, err.text);
        return rc == SL_INVALID ? SL_EXIT_WRONG : rc ? SL_EXIT_FAILED : SL_EXIT_OK;
    }
    int rc = sl_client_new(
        &(struct sl_client_options){.kubeconfig = at->kubeconfig, .context = at->context, .usual_places = true},
        &e->live, &err);
    if (!rc)
        rc = may_read(e->live, &err);
    if (!rc)
        rc = sl_manager_new(&(struct sl_manager_options){.cluster = e->live, .config = &e->config, .observe = true},
                            &e->manager, &err);
    int64_t until = sl_now_mono_ms() + SYNC_LIMIT_MS;
    while (!rc && !sl_manager_synced(e->manager)) {
        sl_manager_step(e->manager, 100);
        if (sl_now_mono_ms() > until)
            rc = sl_err_set(&err, SL_TIMEOUT, "the API server did not show everything within %d s",
                            SYNC_LIMIT_MS / 1000);
    }
    if (rc)
        sl_cmd_error(verb, as, err.text);
    return rc ? SL_EXIT_FAILED : SL_EXIT_OK;
}

static void close_eyes(struct eyes *e) {
    if (e->sim.cluster) {
        simulation_done(&e->sim);
    } else {
        sl_cluster_free(e->live);
        sl_manager_free(e->manager);
    }
    sl_config_done(&e->config);
}

/* Who names a cluster and manifests would be told of only one of them. */
static bool clear_place(const char *verb, const struct place *at) {
    if (!at->simulate || (!at->kubeconfig && !at->context))
        return true;
    sl_cmd_misuse(verb, "--simulate looks at manifests, --%s at a cluster: take one",
                  at->kubeconfig ? "kubeconfig" : "context");
    return false;
}

/* ---- explain ---- */

static void print_holders(const struct sl_json *row) {
    SL_JSON_ITEMS (sl_json_get(row, "holders"), h) {
        printf("      held by %s: %s (ClusterQueue %s)\n", sl_json_get_str(h.value, "workload", "?"),
               sl_json_get_str(h.value, "amount", "?"), sl_json_get_str(h.value, "clusterQueue", "?"));
    }
    int64_t more = sl_json_get_int(row, "moreHolders", 0);
    if (more)
        printf("      and %lld more\n", (long long)more);
}

static void say_amount(const struct sl_json *raise, const char *key, struct sl_buf *b) {
    const char *text = sl_json_get_str(raise, key, "?"), *resource = sl_json_get_str(raise, "resource", "");
    struct sl_quantity q;
    char people[SL_QUANTITY_TEXT];
    if (!sl_quantity_parse(text, &q, NULL))
        text = sl_amount_format_people(resource, sl_quantity_quota(&q, resource), people);
    sl_buf_puts(b, text);
}

/* The changes in words that say whose limit each of them is about. Where there are none, those of the engine stay. */
static void name_changes(struct sl_json *x) {
    SL_AUTO_BUF b = SL_BUF_INIT(65536);
    SL_JSON_ITEMS (sl_json_get(x, "changes"), c) {
        sl_buf_puts(&b, c.i ? ", or " : "");
        const char *who = sl_json_get_str(c.value, "finish", NULL);
        if (who)
            sl_buf_printf(&b, "workload %s finishes", who);
        SL_JSON_ITEMS (sl_json_get(c.value, "raise"), r) {
            sl_buf_printf(&b, "%s%s of %s in flavor %s of %s %s is raised by ", r.i ? " and " : "",
                          sl_json_get_str(r.value, "limit", "?"), sl_json_get_str(r.value, "resource", "?"),
                          sl_json_get_str(r.value, "flavor", "?"), sl_json_get_str(r.value, "kind", "?"),
                          sl_json_get_str(r.value, "name", "?"));
            say_amount(r.value, "by", &b);
            sl_buf_puts(&b, " to ");
            say_amount(r.value, "to", &b);
        }
        if (sl_json_bool(sl_json_get(c.value, "servesOthers"), false))
            sl_buf_puts(&b, " (others come before it)");
    }
    if (b.len && !b.failed)
        sl_json_set_str(x, "smallestChange", sl_buf_text(&b));
}

static void print_explanation(const struct sl_json *x) {
    printf("%s  in ClusterQueue %s: %s\n", sl_json_get_str(x, "workload", "?"),
           sl_json_get_str(x, "clusterQueue", "(none)"), sl_json_get_str(x, "state", "?"));
    const char *message = sl_json_get_str(x, "message", "");
    if (*message)
        printf("%s\n", message);
    SL_JSON_ITEMS (sl_json_get(x, "holds"), h)
        printf("  holds %s %s of flavor %s\n", sl_json_get_str(h.value, "amount", "?"),
               sl_json_get_str(h.value, "resource", "?"), sl_json_get_str(h.value, "flavor", "?"));
    SL_JSON_ITEMS (sl_json_get(x, "podSets"), p) {
        printf("\npod set %s\n  %-16s %-26s %10s %10s %10s %12s %10s  %s\n", sl_json_get_str(p.value, "name", ""),
               "FLAVOR", "RESOURCE", "ASKED", "NOMINAL", "USED HERE", "BORROWABLE", "FREE", "VERDICT");
        SL_JSON_ITEMS (sl_json_get(p.value, "flavors"), f) {
            printf("  %-16s %-26s", sl_json_get_str(f.value, "flavor", ""), sl_json_get_str(f.value, "resource", ""));
            static const char *const columns[] = {"asked", "nominal", "usedHere", "borrowable", "free"};
            static const int widths[] = {10, 10, 10, 12, 10};
            for (size_t i = 0; i < SL_COUNT(columns); i++) {
                const struct sl_json *v = sl_json_get(f.value, columns[i]);
                SL_AUTO_FREE char *text = sl_json_type(v) == SL_JSON_STRING ? sl_xstrdup(sl_json_str(v, ""))
                                          : v                               ? sl_json_text(v)
                                                                            : sl_xstrdup("-");
                printf(" %*s", widths[i], text);
            }
            printf("  %s\n", sl_json_get_str(f.value, "verdict", ""));
            const struct sl_json *limit = sl_json_get(f.value, "limit");
            if (limit)
                printf("      %s %s of %s %s\n", sl_json_get_str(limit, "name", ""),
                       sl_json_get_str(limit, "amount", ""), sl_json_get_str(limit, "kind", ""),
                       sl_json_get_str(limit, "of", ""));
            print_holders(f.value);
        }
    }
    const char *change = sl_json_get_str(x, "smallestChange", "");
    if (*change)
        printf("\nSmallest change that would admit it: %s\n", change);
}

/* An observer has only seen objects: why something waits is found by trying. What a pass would do is not done. NULL
 * when the Workload neither waits nor holds quota. */
static struct sl_json *explanation(const struct eyes *e, const char *uid) {
    const struct sl_engine *engine = sl_manager_engine(e->manager);
    bool held = sl_engine_holds_quota(engine, uid);
    if (e->live)
        sl_manager_consider(e->manager);
    struct sl_json *x = sl_engine_explain(engine, uid);
    if (x && !held && sl_engine_holds_quota(engine, uid)) {
        sl_json_set_str(x, "state", "Pending");
        sl_json_set_str(x, "message", "It fits now: the next pass of a running manager admits it");
        sl_json_del(x, "holds");
    }
    if (x)
        name_changes(x);
    return x;
}

/* "job/NAME" or the name of a Workload, of what people write when they are used to kubectl. Owned. */
static char *plain_name(const char *name) {
    static const char *const jobs[] = {"job", "jobs", "job.batch", "jobs.batch"};
    static const char *const workloads[] = {"workload", "workloads", "wl", "workload.kueue.x-k8s.io",
                                            "workloads.kueue.x-k8s.io"};
    const char *slash = strchr(name, '/');
    SL_AUTO_FREE char *kind = slash ? sl_xstrndup(name, (size_t)(slash - name)) : NULL;
    for (size_t i = 0; slash && i < SL_COUNT(jobs); i++)
        if (!strcasecmp(kind, jobs[i]))
            return sl_xprintf("job%s", slash);
    for (size_t i = 0; slash && i < SL_COUNT(workloads); i++)
        if (!strcasecmp(kind, workloads[i]))
            return sl_xstrdup(slash + 1);
    return sl_xstrdup(name);
}

/* Why there is nothing to explain. Owned. */
static char *nothing_to_explain(const struct eyes *e, const char *ns, const char *name, bool found) {
    bool job = !strncmp(name, "job/", 4);
    if (found)
        return sl_xprintf("Workload %s in namespace %s neither waits nor holds quota", name, ns);
    char *why = job ? sl_manager_without_workload(e->manager, ns, name + 4) : NULL;
    if (why)
        return why;
    return job ? sl_xprintf("no Job %s in namespace %s (-n names another)", name + 4, ns)
               : sl_xprintf("no Workload %s in namespace %s (-n names another, job/%s looks for a Job)", name, ns,
                            name);
}

int sl_cmd_explain(int argc, char **argv) {
    const char *ns = NULL, *output = "text";
    struct place at = {NULL, NULL, NULL, NULL};
    const struct sl_option options[] = {{"namespace", 'n', &ns, NULL},
                                        {"kubeconfig", 0, &at.kubeconfig, NULL},
                                        {"context", 0, &at.context, NULL},
                                        {"config", 0, &at.config, NULL},
                                        {"simulate", 0, &at.simulate, NULL},
                                        {"output", 'o', &output, NULL},
                                        {NULL, 0, NULL, NULL}};
    const char **args = NULL;
    int n = sl_options(argc, argv, options, &args), code;
    enum sl_output as;
    if (n < 0 || !sl_output_of("explain", output, &as)) {
        free(args);
        return SL_EXIT_USAGE;
    }
    if (n != 1 || !clear_place("explain", &at)) {
        if (n != 1)
            sl_cmd_misuse("explain", "names one Workload, or job/NAME");
        free(args);
        return SL_EXIT_USAGE;
    }
    struct eyes e;
    code = open_eyes(&e, "explain", as, &at);
    if (!code) {
        if (!ns)
            ns = e.live ? sl_client_namespace(e.live) : "default";
        SL_AUTO_FREE char *name = plain_name(args[0]);
        SL_AUTO_FREE char *uid = sl_manager_find(e.manager, ns, name);
        SL_AUTO_JSON *x = uid ? explanation(&e, uid) : NULL;
        if (!x) {
            SL_AUTO_FREE char *why = nothing_to_explain(&e, ns, name, uid != NULL);
            sl_cmd_error("explain", as, why);
            code = SL_EXIT_WRONG;
        } else if (as) {
            sl_output_put(as, x);
        } else {
            print_explanation(x);
        }
    }
    close_eyes(&e);
    free(args);
    return code;
}

static void print_status(const struct sl_json *all) {
    printf("%-24s %-14s %-22s %-20s %10s %10s %10s\n", "CLUSTERQUEUE", "ACTIVE", "FLAVOR", "RESOURCE", "NOMINAL",
           "USED", "BORROWED");
    SL_JSON_ITEMS (sl_json_get(all, "clusterQueues"), q) {
        SL_JSON_ITEMS (sl_json_get(q.value, "quota"), r)
            printf("%-24s %-14s %-22s %-20s %10s %10s %10s\n", sl_json_get_str(q.value, "name", ""),
                   sl_json_get_str(q.value, "active", ""), sl_json_get_str(r.value, "flavor", ""),
                   sl_json_get_str(r.value, "resource", ""), sl_json_get_str(r.value, "nominal", ""),
                   sl_json_get_str(r.value, "used", ""), sl_json_get_str(r.value, "borrowed", ""));
        printf("%-24s pending %lld, reserving %lld, admitted %lld\n", "",
               (long long)sl_json_get_int(q.value, "pending", 0), (long long)sl_json_get_int(q.value, "reserving", 0),
               (long long)sl_json_get_int(q.value, "admitted", 0));
    }
    const struct sl_json *local = sl_json_get(all, "localQueues");
    if (!sl_json_len(local))
        return;
    printf("\n%-40s %-24s %10s %10s  %s\n", "LOCALQUEUE", "CLUSTERQUEUE", "PENDING", "ADMITTED", "ACTIVE");
    SL_JSON_ITEMS (local, q) {
        SL_AUTO_FREE char *name =
            sl_xprintf("%s/%s", sl_json_get_str(q.value, "namespace", ""), sl_json_get_str(q.value, "name", ""));
        printf("%-40s %-24s %10lld %10lld  %s\n", name, sl_json_get_str(q.value, "clusterQueue", ""),
               (long long)sl_json_get_int(q.value, "pending", 0), (long long)sl_json_get_int(q.value, "admitted", 0),
               sl_json_get_str(q.value, "active", ""));
    }
}

int sl_cmd_status(int argc, char **argv) {
    const char *output = "text";
    struct place at = {NULL, NULL, NULL, NULL};
    const struct sl_option options[] = {{"kubeconfig", 0, &at.kubeconfig, NULL}, {"context", 0, &at.context, NULL},
                                        {"config", 0, &at.config, NULL},         {"simulate", 0, &at.simulate, NULL},
                                        {"output", 'o', &output, NULL},          {NULL, 0, NULL, NULL}};
    const char **args = NULL;
    int n = sl_options(argc, argv, options, &args);
    free(args);
    enum sl_output as;
    if (n != 0 || !sl_output_of("status", output, &as) || !clear_place("status", &at)) {
        if (n > 0)
            sl_cmd_misuse("status", "takes options only");
        return SL_EXIT_USAGE;
    }
    struct eyes e;
    int code = open_eyes(&e, "status", as, &at);
    if (!code) {
        SL_AUTO_JSON *all = sl_json_new_object();
        sl_json_set(all, "clusterQueues", sl_manager_queues(e.manager));
        sl_json_set(all, "localQueues", sl_manager_local_queues(e.manager));
        if (as)
            sl_output_put(as, all);
        else
            print_status(all);
    }
    close_eyes(&e);
    return code;
}

/* ---- history ---- */

static bool print_entry(void *payload, const struct sl_ledger_entry *h) {
    enum sl_output as = *(const enum sl_output *)payload;
    char at[SL_TIME_TEXT], amount[SL_QUANTITY_TEXT];
    for (size_t i = 0; i < h->r.amount_count; i++) {
        const struct sl_ledger_amount *a = &h->r.amounts[i];
        sl_time_format(h->at_ms, at);
        sl_amount_format(a->resource, a->amount, amount);
        if (as) {
            SL_AUTO_JSON *o = sl_json_new_object();
            sl_json_set_str(o, "at", at);
            sl_json_set_str(o, "what", h->took ? "took" : "returned");
            sl_json_set(o, "workload", sl_json_new_strf("%s/%s", h->r.namespace, h->r.name));
            sl_json_set_str(o, "clusterQueue", h->r.cluster_queue);
            sl_json_set_str(o, "flavor", a->flavor);
            sl_json_set_str(o, "resource", a->resource);
            sl_json_set_str(o, "amount", amount);
            sl_json_set_int(o, "heldSeconds", h->held_ms / 1000);
            sl_json_set_str(o, "why", h->r.why);
            sl_output_put(as, o);
        } else {
            printf("%s  %-8s %8s %s on %s  %s/%s  in %s  %s\n", at, h->took ? "took" : "returned", amount, a->resource,
                   a->flavor, h->r.namespace, h->r.name, h->r.cluster_queue, h->r.why);
        }
    }
    return true;
}

static void print_gpu(void *payload, const struct sl_ledger_gpu *g) {
    enum sl_output as = *(const enum sl_output *)payload;
    int64_t seconds =
        g->returned_seconds > INT64_MAX - g->running_seconds ? INT64_MAX : g->returned_seconds + g->running_seconds;
    if (!as) {
        printf("%-24s %-22s %-20s %14.1f %14.1f\n", g->cluster_queue, g->flavor, g->resource, (double)seconds / 3600,
               (double)g->running_seconds / 3600);
        return;
    }
    SL_AUTO_JSON *o = sl_json_new_object();
    sl_json_set_str(o, "clusterQueue", g->cluster_queue);
    sl_json_set_str(o, "flavor", g->flavor);
    sl_json_set_str(o, "resource", g->resource);
    sl_json_set_int(o, "gpuSeconds", seconds);
    sl_json_set_int(o, "ofThemRunning", g->running_seconds);
    sl_output_put(as, o);
}

/* Where there is no ledger, what is missing and where one is. Owned; NULL when there is one. */
static char *no_ledger(const char *dir) {
    SL_AUTO_FREE char *file = sl_xprintf("%s/data.mdb", dir);
    struct stat st;
    const char *what = NULL;
    if (stat(dir, &st))
        what = errno == ENOENT ? "there is no such folder" : strerror(errno);
    else if (!S_ISDIR(st.st_mode))
        what = "it is no folder";
    else if (stat(file, &st))
        what = errno == ENOENT ? "there is no file data.mdb in it" : strerror(errno); /* may be there, and shut */
    return what ? sl_xprintf("no ledger at %s: %s. The manager that has the lease writes one, into the folder of its "
                             "--data-dir; in the pods of the chart: kubectl -n NAMESPACE exec POD -- /sluice history "
                             "--data-dir /var/lib/sluice",
                             dir, what)
                : NULL;
}

int sl_cmd_history(int argc, char **argv) {
    const char *dir = NULL, *queue = NULL, *ns = NULL, *limit = "100", *output = "text";
    bool gpu_time = false;
    const struct sl_option options[] = {{"data-dir", 0, &dir, NULL},    {"queue", 'q', &queue, NULL},
                                        {"namespace", 'n', &ns, NULL},  {"limit", 0, &limit, NULL},
                                        {"output", 'o', &output, NULL}, {"gpu-time", 0, NULL, &gpu_time},
                                        {NULL, 0, NULL, NULL}};
    const char **args = NULL;
    int n = sl_options(argc, argv, options, &args);
    free(args);
    int64_t max;
    enum sl_output as;
    if (n < 0 || !sl_output_of("history", output, &as))
        return SL_EXIT_USAGE;
    if (n > 0 || !dir || !sl_parse_int(limit, &max) || max < 1 || max > 100000) {
        sl_cmd_misuse("history", "--data-dir DIR names the ledger's folder, --limit a number from 1 to 100000; nothing "
                                 "else is taken");
        return SL_EXIT_USAGE;
    }
    SL_AUTO_FREE char *missing = no_ledger(dir);
    if (missing) {
        sl_cmd_error("history", as, missing);
        return SL_EXIT_FAILED;
    }
    sl_log_set_level(SL_LOG_ERROR);
    struct sl_ledger *l = sl_ledger_open(dir, &(struct sl_ledger_options){.read_only = true}, sl_now_wall_ms());
    struct sl_err err = SL_ERR_INIT;
    bool more = false;
    int rc;
    if (sl_ledger_state(l) != SL_LEDGER_UP) {
        rc = sl_err_set(&err, SL_UNAVAILABLE, "%s: %s", dir, sl_ledger_reason(l));
    } else if (gpu_time) {
        if (!as)
            printf("%-24s %-22s %-20s %14s %14s\n", "CLUSTERQUEUE", "FLAVOR", "RESOURCE", "GPU HOURS",
                   "OF THEM RUNNING");
        rc = sl_ledger_gpu_seconds(l, sl_now_wall_ms(), print_gpu, &as, &err);
    } else {
        rc = sl_ledger_history(l,
                               &(struct sl_ledger_query){
                                   .cluster_queue = queue, .namespace = ns, .newest_first = true, .limit = (size_t)max},
                               print_entry, &as, &more, &err);
    }
    sl_ledger_close(l);
    if (rc)
        sl_cmd_error("history", as, err.text);
    else if (more && !as)
        printf("(more; raise --limit)\n");
    return rc ? SL_EXIT_FAILED : SL_EXIT_OK;
}

/* ---- check: an HTTP GET without a shell or curl in the image ---- */

static bool copy_part(const char *from, size_t len, char *to, size_t size) {
    if (!len || len >= size)
        return false;
    memcpy(to, from, len);
    to[len] = 0;
    return true;
}

static bool split_url(const char *url, char *host, size_t host_size, char *port, size_t port_size, char *path,
                      size_t path_size) {
    if (strncmp(url, "http://", 7))
        return false;
    url += 7;
    size_t host_len = strcspn(url, ":/"),
           port_len = url[host_len] == ':' ? strspn(url + host_len + 1, "0123456789") : 0;
    const char *rest = url + host_len + 1 + port_len;
    return copy_part(url, host_len, host, host_size) && url[host_len] == ':' &&
           copy_part(url + host_len + 1, port_len, port, port_size) && *rest == '/' &&
           copy_part(rest, strlen(rest), path, path_size);
}

int sl_cmd_check(int argc, char **argv) {
    const char *url = NULL;
    const struct sl_option options[] = {{"url", 0, &url, NULL}, {NULL, 0, NULL, NULL}};
    const char **args = NULL;
    int n = sl_options(argc, argv, options, &args);
    free(args);
    char host[256], port[8], path[512];
    if (n != 0 || !url || !split_url(url, host, sizeof host, port, sizeof port, path, sizeof path)) {
        sl_cmd_misuse("check", "--url http://HOST:PORT/PATH");
        return SL_EXIT_USAGE;
    }
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    int rc = getaddrinfo(host, port, &hints, &list), fd = -1;
    if (rc) {
        sl_cmd_misuse("check", "%s: %s", host, gai_strerror(rc));
        return SL_EXIT_FAILED;
    }
    for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);
        struct timeval limit = {5, 0};
        if (fd >= 0) {
            setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
            setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        }
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen)) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    if (fd < 0) {
        sl_cmd_misuse("check", "%s:%s cannot be reached", host, port);
        return SL_EXIT_FAILED;
    }
    char buffer[4096];
    int len = snprintf(buffer, sizeof buffer, "GET %s HTTP/1.1\r\nHost: %s:%s\r\nConnection: close\r\n\r\n", path, host,
                       port),
        status = 0;
    size_t got = 0;
    if (write(fd, buffer, (size_t)len) == len)
        for (ssize_t k; got < sizeof buffer - 1 && (k = read(fd, buffer + got, sizeof buffer - 1 - got)) > 0;)
            got += (size_t)k;
    buffer[got] = 0;
    close(fd);
    int64_t code = 0;
    char digits[4] = "";
    if (got > 12 && !strncmp(buffer, "HTTP/1.", 7))
        memcpy(digits, buffer + 9, 3);
    status = sl_parse_int(digits, &code) ? (int)code : 0;
    if (!status) {
        sl_cmd_misuse("check", "no HTTP answer from %s:%s", host, port);
        return SL_EXIT_FAILED;
    }
    const char *body = strstr(buffer, "\r\n\r\n");
    printf("%d %s\n", status, body ? body + 4 : "");
    return status == 200 ? SL_EXIT_OK : SL_EXIT_WRONG;
}
