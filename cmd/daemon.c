/*
 * `sluice manager`: joins everything and owns the lifecycles. Threads: this one (the loop: cluster, engine, ledger,
 * certificates), the webhook's pool, two small ones for health and metrics, and one that waits for signals.
 *
 * Shutdown, in this order: not ready, give the lease away, let webhook calls drain while endpoints are still being
 * updated, stop.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "certkeeper.h"
#include "scrapers.h"
#include "sluice/api/config.h"
#include "sluice/base/clock.h"
#include "sluice/base/file.h"
#include "sluice/base/log.h"
#include "sluice/base/mem.h"
#include "sluice/base/metrics.h"
#include "sluice/base/num.h"
#include "sluice/base/yaml.h"
#include "sluice/cmd/command.h"
#include "sluice/cmd/config.h"
#include "sluice/cmd/manager.h"
#include "sluice/kube/client.h"
#include "sluice/webhook/handlers.h"
#include "sluice/webhook/probes.h"
#include "sluice/webhook/server.h"

#define HEARTBEAT_LIMIT_MS 60000 /* a loop that has not turned for so long is stuck: the kubelet should restart us */

struct daemon {
    struct sl_cluster *cluster;
    struct manager *manager;
    struct certkeeper *certs;
    struct scrapers *scrapers;
    struct sl_tls *tls;
    struct sl_server *server;
    struct sl_probes *health, *metrics;
    _Atomic int64_t beat_ms;
    atomic_bool synced, serving, stopping;
};

static bool alive(void *payload, char *why, size_t size) {
    struct daemon *d = payload;
    int64_t age = sl_now_mono_ms() - atomic_load(&d->beat_ms);
    if (age < HEARTBEAT_LIMIT_MS)
        return true;
    snprintf(why, size, "the loop has not turned for %lld s", (long long)(age / 1000));
    return false;
}

static bool ready(void *payload, char *why, size_t size) {
    struct daemon *d = payload;
    const char *missing = atomic_load(&d->stopping)   ? "shutting down"
                          : !atomic_load(&d->serving) ? "no serving certificate yet"
                          : !atomic_load(&d->synced)  ? "the cluster has not been seen completely yet"
                                                      : NULL;
    if (missing)
        snprintf(why, size, "%s", missing);
    return !missing;
}

static void *wait_for_signal(void *payload) {
    struct daemon *d = payload;
    sigset_t set;
    int sig;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigwait(&set, &sig);
    SL_LOG(INFO, "stopping", SL_STR("signal", sig == SIGTERM ? "TERM" : "INT"));
    atomic_store(&d->stopping, true);
    sl_cluster_wakeup(d->cluster);
    return NULL;
}

static void turn(struct daemon *d, int64_t timeout_ms) {
    sl_manager_step(d->manager, timeout_ms);
    certkeeper_tick(d->certs);
    scrapers_tick(d->scrapers);
    atomic_store(&d->beat_ms, sl_now_mono_ms());
    atomic_store(&d->synced, sl_manager_synced(d->manager));
    atomic_store(&d->serving, certkeeper_ready(d->certs));
}

static bool number(const char *verb, const char *name, const char *text, int64_t low, int64_t high, int64_t *ret) {
    if (!text)
        return true;
    if (sl_parse_int(text, ret) && *ret >= low && *ret <= high)
        return true;
    fprintf(stderr, "sluice %s: --%s must be a number from %lld to %lld\n", verb, name, (long long)low,
            (long long)high);
    return false;
}

static bool duration(const char *verb, const char *name, const char *text, int64_t *ret) {
    if (!text || (sl_duration_parse(text, ret) && *ret > 0))
        return true;
    fprintf(stderr, "sluice %s: --%s must be a duration such as 10m\n", verb, name);
    return false;
}

static int64_t port_of(const char *address) {
    const char *colon = address ? strrchr(address, ':') : NULL;
    int64_t port;
    return colon && sl_parse_int(colon + 1, &port) ? port : -1;
}

static int fail(const char *what, const struct sl_err *err) {
    SL_LOG(ERROR, "cannot start", SL_STR("what", what), SL_STR("error", err->text));
    return SL_EXIT_FAILED;
}

static void stop(struct daemon *d, int64_t drain_ms) {
    sl_manager_retire(d->manager);
    if (d->server)
        sl_server_drain_begin(d->server);
    int64_t until = sl_now_mono_ms() + drain_ms;
    do /* the loop goes on: webhooks still want fresh snapshots */
        turn(d, 50);
    while (sl_now_mono_ms() < until);
    if (d->server)
        sl_server_drain(d->server, 0, 5000);
    sl_server_stop(d->server);
    scrapers_close(d->scrapers);
    sl_probes_stop(d->metrics);
    sl_probes_stop(d->health);
}

int sl_cmd_manager(int argc, char **argv) {
    const char *config_path = NULL, *kubeconfig = NULL, *ns = NULL, *webhook_port = NULL, *health_port = NULL,
               *metrics_port = NULL, *service = NULL, *secret = NULL,
               *mutating = "sluice-mutating-webhook-configuration",
               *validating = "sluice-validating-webhook-configuration", *data_dir = NULL, *identity = NULL,
               *gates = NULL, *drain = NULL, *ca_life = NULL, *serving_life = NULL, *publish_wait = NULL, *level = NULL,
               *host = NULL;
    bool metrics_plain = false, metrics_anonymous = false;
    const struct sl_option options[] = {{"config", 0, &config_path, NULL},
                                        {"kubeconfig", 0, &kubeconfig, NULL},
                                        {"namespace", 'n', &ns, NULL},
                                        {"host", 0, &host, NULL},
                                        {"webhook-port", 0, &webhook_port, NULL},
                                        {"health-port", 0, &health_port, NULL},
                                        {"metrics-port", 0, &metrics_port, NULL},
                                        {"metrics-plain-http", 0, NULL, &metrics_plain},
                                        {"metrics-anonymous", 0, NULL, &metrics_anonymous},
                                        {"webhook-service", 0, &service, NULL},
                                        {"webhook-secret", 0, &secret, NULL},
                                        {"mutating-configuration", 0, &mutating, NULL},
                                        {"validating-configuration", 0, &validating, NULL},
                                        {"data-dir", 0, &data_dir, NULL},
                                        {"identity", 0, &identity, NULL},
                                        {"feature-gates", 0, &gates, NULL},
                                        {"drain", 0, &drain, NULL},
                                        {"ca-life", 0, &ca_life, NULL},
                                        {"serving-life", 0, &serving_life, NULL},
                                        {"publish-wait", 0, &publish_wait, NULL},
                                        {"log-level", 0, &level, NULL},
                                        {NULL, 0, NULL, NULL}};
    const char **args = NULL;
    int n_args = sl_options(argc, argv, options, &args);
    free(args);
    if (n_args != 0) {
        if (n_args > 0)
            fprintf(stderr, "sluice manager: takes options only\n");
        return SL_EXIT_USAGE;
    }
    static const char *const levels[] = {"error", "warn", "info", "debug"};
    int at = SL_LOG_INFO;
    if (level)
        for (at = 0; at < 4 && strcmp(level, levels[at]) != 0;)
            at++;
    if (at == 4) {
        fprintf(stderr, "sluice manager: --log-level must be error, warn, info or debug\n");
        return SL_EXIT_USAGE;
    }
    sl_log_set_level((enum sl_log_level)at);

    struct sl_config config;
    struct sl_err err = SL_ERR_INIT;
    if (sl_config_load(config_path, gates, ns ? ns : getenv("POD_NAMESPACE"), &config))
        return SL_EXIT_FAILED;
    if (!*config.namespace) {
        free(config.namespace);
        config.namespace = sl_xstrdup("kueue-system");
    }
    int64_t wport = config.webhook.port, hport = port_of(config.health_address),
            mport = port_of(config.metrics_address), drain_ms = 10000, ca_ms = 0, serving_ms = 0, wait_ms = 0;
    if (!number("manager", "webhook-port", webhook_port, 0, 65535, &wport) ||
        !number("manager", "health-port", health_port, -1, 65535, &hport) ||
        !number("manager", "metrics-port", metrics_port, -1, 65535, &mport) ||
        (drain && strcmp(drain, "0") && !duration("manager", "drain", drain, &drain_ms)) ||
        !duration("manager", "ca-life", ca_life, &ca_ms) ||
        !duration("manager", "serving-life", serving_life, &serving_ms) ||
        !duration("manager", "publish-wait", publish_wait, &wait_ms))
        return SL_EXIT_USAGE;
    if (drain && !strcmp(drain, "0"))
        drain_ms = 0;

    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, NULL); /* before any thread exists, so that only the waiting one takes them */

    char hostname[128] = "sluice";
    gethostname(hostname, sizeof hostname - 1);
    const char *pod = getenv("POD_NAME");
    /* The pod's name alone: a container that is started anew in its pod has its own lease back at once */
    SL_AUTO_FREE char *id =
        identity || pod ? sl_xstrdup(identity ? identity : pod) : sl_xprintf("%s_%d", hostname, (int)getpid());
    sl_metric_set(SL_M_BUILD_INFO, 1, SL_LABELS("", __VERSION__, "", "v" SL_VERSION, "", "linux"));

    struct daemon d = {0};
    atomic_store(&d.beat_ms, sl_now_mono_ms());
    int rc = sl_client_new(&(struct sl_client_options){.kubeconfig = kubeconfig,
                                                       .qps = (int)config.client_qps,
                                                       .burst = (int)config.client_burst},
                           &d.cluster, &err);
    if (rc)
        return fail("API server credentials", &err);
    d.tls = sl_tls_new();
    rc = sl_manager_new(&(struct sl_manager_options){.cluster = d.cluster,
                                                     .config = &config,
                                                     .identity = id,
                                                     .elect = config.leader.enabled,
                                                     .data_dir = data_dir ? data_dir : config.ledger_path},
                        &d.manager, &err);
    if (rc)
        return fail("configuration", &err);
    d.certs =
        certkeeper_new(&(struct certkeeper_options){.cluster = d.cluster,
                                                    .tls = d.tls,
                                                    .ns = config.namespace,
                                                    .service = service ? service : config.certs.service,
                                                    .secret = secret ? secret : config.certs.secret,
                                                    .mutating = mutating,
                                                    .validating = validating,
                                                    .cert_dir = config.certs.enabled ? NULL : config.webhook.cert_dir,
                                                    .ca_life_ms = ca_ms,
                                                    .serving_life_ms = serving_ms,
                                                    .publish_wait_ms = wait_ms});
    d.scrapers = scrapers_new(d.cluster);
    size_t n_routes;
    const struct sl_route *routes = sl_handler_routes(&n_routes);
    rc = sl_server_start(&(struct sl_server_options){.host = host                   ? host
                                                             : *config.webhook.host ? config.webhook.host
                                                                                    : NULL,
                                                     .port = (uint16_t)wport,
                                                     .tls = d.tls,
                                                     .routes = routes,
                                                     .route_count = n_routes,
                                                     .acquire = sl_snapshot_acquire,
                                                     .release = sl_snapshot_release,
                                                     .payload = sl_manager_snapshots(d.manager)},
                         &d.server, &err);
    if (rc)
        return fail("webhook server", &err);
    if (hport >= 0 && (rc = sl_health_start(
                           &(struct sl_health_options){
                               .host = host, .port = (uint16_t)hport, .alive = alive, .ready = ready, .payload = &d},
                           &d.health, &err)))
        return fail("health server", &err);
    if (mport >= 0 &&
        (rc = sl_metrics_start(
             /* a token does not travel in clear */
             &(struct sl_metrics_options){.host = host,
                                          .port = (uint16_t)mport,
                                          .tls = metrics_plain ? NULL : d.tls,
                                          .authorize = metrics_plain || metrics_anonymous ? NULL : scrapers_check,
                                          .payload = d.scrapers},
             &d.metrics, &err)))
        return fail("metrics server", &err);
    for (size_t i = 0; i < config.frameworks.n; i++)
        if (strcmp(config.frameworks.items[i], "batch/job") != 0)
            SL_LOG(WARN, "this kind of job is configured and not supported: nobody holds or queues it",
                   SL_STR("framework", config.frameworks.items[i]));
    for (size_t i = 0; i < config.unused.n; i++)
        SL_LOG(WARN, "this field of the configuration has no effect", SL_STR("field", config.unused.items[i]));
    SL_LOG(INFO, "started", SL_STR("version", SL_VERSION), SL_STR("identity", id),
           SL_I64("webhook_port", sl_server_port(d.server)),
           SL_I64("health_port", d.health ? sl_probes_port(d.health) : -1),
           SL_I64("metrics_port", d.metrics ? sl_probes_port(d.metrics) : -1));

    pthread_t waiter;
    if (pthread_create(&waiter, NULL, wait_for_signal, &d))
        return SL_EXIT_FAILED;
    while (!atomic_load(&d.stopping))
        turn(&d, 500);
    pthread_join(waiter, NULL);
    stop(&d, drain_ms);
    sl_cluster_free(d.cluster); /* answers what is under way with CANCELLED, so its users must still be there */
    sl_manager_free(d.manager);
    certkeeper_free(d.certs);
    scrapers_free(d.scrapers);
    sl_tls_free(d.tls);
    sl_config_done(&config);
    SL_LOG(INFO, "stopped");
    return SL_EXIT_OK;
}
