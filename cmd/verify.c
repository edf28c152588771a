/*
 * `sluice verify`: is an installation whole? Asks the API server for what the manager and the chart have put there,
 * with rights that the manager has anyway. Waits until everything is right, or the time is over. The chart's `helm
 * test` runs it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"
#include "sluice/base/clock.h"
#include "sluice/base/log.h"
#include "sluice/base/mem.h"
#include "sluice/cmd/command.h"
#include "sluice/kube/client.h"
#include "sluice/webhook/certs.h"
#include "sluice/webhook/pki.h"

#define PAUSE_MS      1000
#define SHORT_LOOK_MS 5000 /* what one look may take, however short the limit is */

static const struct sl_resource leases = {"coordination.k8s.io", "v1", "leases", "Lease", true};
static const struct sl_resource secrets = {"", "v1", "secrets", "Secret", true};
static const struct sl_resource mutating = {"admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations",
                                            "MutatingWebhookConfiguration", false};
static const struct sl_resource validating = {"admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations",
                                              "ValidatingWebhookConfiguration", false};
static const struct sl_resource crds = {"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                        "CustomResourceDefinition", false};
static const char *const converted[] = {"clusterqueues.kueue.x-k8s.io", "cohorts.kueue.x-k8s.io",
                                        "localqueues.kueue.x-k8s.io", "workloads.kueue.x-k8s.io"};

struct place {
    struct sl_cluster *c;
    const char *ns, *lease, *service, *secret, *mutating, *validating;
    struct sl_buf *report;
    char *bundle;      /* base64, as the first that carries it says; owned */
    int64_t answer_by; /* mono: no answer is waited for any longer */
    bool wrong;
};

/* The object (owned), or NULL and a line in the report. */
static struct sl_json *get(struct place *p, const struct sl_resource *r, const char *name) {
    struct sl_err err = SL_ERR_INIT;
    struct sl_json *object = NULL;
    struct sl_request request = {
        .verb = SL_GET, .resource = r, .ns = r->namespaced ? p->ns : NULL, .name = name, .lane = SL_LANE_STATUS};
    if (ask_cluster(p->c, request, p->answer_by, &object, &err)) {
        sl_buf_printf(p->report, "wrong: %s %s: %s\n", r->kind, name, err.text);
        p->wrong = true;
    }
    return object;
}

static void say(struct place *p, bool right, const char *what, const char *name, const char *detail) {
    sl_buf_printf(p->report, "%s %s %s: %s\n", right ? "right:" : "wrong:", what, name, detail);
    p->wrong |= !right;
}

static void check_lease(struct place *p) {
    SL_AUTO_JSON *o = get(p, &leases, p->lease);
    if (!o)
        return;
    const struct sl_json *spec = sl_json_get(o, "spec");
    const char *holder = sl_json_get_str(spec, "holderIdentity", "");
    int64_t renewed = 0, seconds = sl_json_get_int(spec, "leaseDurationSeconds", 15), age;
    if (!*holder || !sl_time_parse(sl_json_get_str(spec, "renewTime", ""), &renewed)) {
        say(p, false, "lease", p->lease, "nobody holds it");
        return;
    }
    age = (sl_now_wall_ms() - renewed) / 1000;
    SL_AUTO_FREE char *text = sl_xprintf("held by %s, renewed %lld s ago", holder, (long long)age);
    say(p, age <= 2 * seconds, "lease", p->lease, text);
}

static void same_bundle(struct place *p, const char *what, const char *name, const char *bundle) {
    if (!*bundle) {
        say(p, false, what, name, "has no CA bundle yet");
        return;
    }
    if (!p->bundle)
        p->bundle = sl_xstrdup(bundle);
    say(p, !strcmp(p->bundle, bundle), what, name,
        strcmp(p->bundle, bundle) ? "carries another CA bundle than the rest" : "carries the CA bundle");
}

static void check_webhooks(struct place *p, const struct sl_resource *r, const char *name) {
    SL_AUTO_JSON *o = get(p, r, name);
    SL_JSON_ITEMS (sl_json_get(o, "webhooks"), w)
        same_bundle(p, "webhook", sl_json_get_str(w.value, "name", "?"),
                    sl_json_path_str(w.value, "clientConfig.caBundle", ""));
}

static void check_crd(struct place *p, const char *name) {
    SL_AUTO_JSON *o = get(p, &crds, name);
    if (!o)
        return;
    bool established = false;
    SL_JSON_ITEMS (sl_json_path(o, "status.conditions"), c)
        established |= !strcmp(sl_json_get_str(c.value, "type", ""), "Established") &&
                       !strcmp(sl_json_get_str(c.value, "status", ""), "True");
    if (!established)
        say(p, false, "definition", name, "is not established");
    else
        same_bundle(p, "definition", name, sl_json_path_str(o, "spec.conversion.webhook.clientConfig.caBundle", ""));
}

/* The certificate in the Secret is one that a client with that bundle accepts for the Service. */
static void check_certificate(struct place *p) {
    SL_AUTO_JSON *o = get(p, &secrets, p->secret);
    if (!o)
        return;
    struct sl_certs_data data = SL_CERTS_DATA_INIT;
    sl_certs_data_from_secret(o, &data);
    SL_AUTO_BUF bundle = SL_BUF_INIT(1u << 20);
    struct sl_err err = SL_ERR_INIT;
    SL_AUTO_FREE char *name = sl_xprintf("%s.%s.svc", p->service, p->ns);
    const char *tls = data.field[SL_CERT_TLS_CRT];
    int rc = !tls || !p->bundle ? sl_err_set(&err, SL_INVALID, "there is none yet")
                                : sl_buf_add_unbase64(&bundle, p->bundle, strlen(p->bundle), &err);
    if (!rc)
        rc = sl_pki_check_chain(tls, sl_buf_text(&bundle), name, sl_now_wall_ms(), &err);
    say(p, !rc, "certificate of", name, rc ? err.text : "is trusted by that bundle");
    sl_certs_data_done(&data);
}

static bool look(struct place *p) {
    p->report->len = 0;
    p->wrong = false;
    free(p->bundle);
    p->bundle = NULL;
    for (size_t i = 0; i < SL_COUNT(converted); i++)
        check_crd(p, converted[i]);
    check_webhooks(p, &mutating, p->mutating);
    check_webhooks(p, &validating, p->validating);
    if (*p->secret)
        check_certificate(p);
    check_lease(p);
    return !p->wrong;
}

int sl_cmd_verify(int argc, char **argv) {
    const char *kubeconfig = NULL, *context = NULL, *limit = "60s";
    struct sl_buf report = SL_BUF_INIT(1u << 16);
    struct place p = {.ns = "sluice-system",
                      .lease = "c1f6bfd2.kueue.x-k8s.io",
                      .service = "sluice-webhook-service",
                      .secret = "sluice-webhook-server-cert",
                      .mutating = "sluice-mutating-webhook-configuration",
                      .validating = "sluice-validating-webhook-configuration",
                      .report = &report};
    const struct sl_option options[] = {{"kubeconfig", 0, &kubeconfig, NULL},
                                        {"context", 0, &context, NULL},
                                        {"namespace", 'n', &p.ns, NULL},
                                        {"lease", 0, &p.lease, NULL},
                                        {"webhook-service", 0, &p.service, NULL},
                                        {"webhook-secret", 0, &p.secret, NULL},
                                        {"mutating-configuration", 0, &p.mutating, NULL},
                                        {"validating-configuration", 0, &p.validating, NULL},
                                        {"timeout", 0, &limit, NULL},
                                        {NULL, 0, NULL, NULL}};
    const char **args = NULL;
    int n = sl_options(argc, argv, options, &args);
    free(args);
    int64_t limit_ms;
    if (n != 0 || !sl_duration_parse(limit, &limit_ms) || limit_ms < 0) {
        if (n >= 0)
            sl_cmd_misuse("verify", "%s", n ? "takes options only" : "--timeout must be a duration such as 60s");
        return SL_EXIT_USAGE;
    }
    sl_log_set_level(SL_LOG_ERROR);
    struct sl_err err = SL_ERR_INIT;
    if (sl_client_new(&(struct sl_client_options){.kubeconfig = kubeconfig, .context = context, .usual_places = true},
                      &p.c, &err)) {
        sl_cmd_error("verify", SL_OUTPUT_TEXT, err.text);
        return SL_EXIT_FAILED;
    }
    int64_t until = sl_now_mono_ms() + limit_ms;
    p.answer_by = limit_ms < SHORT_LOOK_MS ? sl_now_mono_ms() + SHORT_LOOK_MS : until;
    bool right;
    while (!(right = look(&p)) && sl_now_mono_ms() < until)
        for (int64_t pause = sl_now_mono_ms() + PAUSE_MS; sl_now_mono_ms() < pause;)
            sl_cluster_step(p.c, 50);
    fputs(sl_buf_text(&report), stdout);
    sl_cluster_free(p.c);
    free(p.bundle);
    sl_buf_done(&report);
    return right ? SL_EXIT_OK : SL_EXIT_WRONG;
}
