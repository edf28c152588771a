/*
 * States: idle -> reading the Secret -> (plan) -> writing it -> reading ... until the plan says KEEP; then the pair is
 * served and the bundle published, one object after the other. Any failure ends the round; the next begins soon. Only
 * the caBundle fields of configurations and CRDs are touched, each by a patch that first tests that the webhook is
 * still the one that was seen.
 */
#include "certkeeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/base/clock.h"
#include "sluice/base/log.h"
#include "sluice/base/mem.h"
#include "sluice/base/metrics.h"
#include "sluice/webhook/certs.h"
#include "sluice/webhook/pki.h"

#define ROUND_MS        30000 /* between rounds when all is well */
#define RETRY_MS        1000
#define DIR_POLL_MS     10000
#define CA_LIFE_MS      (3650 * 86400000LL)
#define SERVING_LIFE_MS (365 * 86400000LL)

static const struct sl_resource secrets = {"", "v1", "secrets", "Secret", true};
static const struct sl_resource mutating_configs = {
    "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", false};
static const struct sl_resource validating_configs = {
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", false};
static const struct sl_resource crds = {"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                        "CustomResourceDefinition", false};
static const char *const converted[] = {"clusterqueues", "localqueues", "cohorts", "workloads", "multikueueclusters"};

#define MAX_TARGETS 8
struct target {
    const struct sl_resource *resource;
    char *name;
    bool published;
};

struct certkeeper {
    struct sl_cluster *c;
    struct sl_tls *tls;
    char *ns, *secret, *ca_name;
    char **names;
    struct sl_certs_policy policy;
    struct sl_certs_dir *dir;
    struct target targets[MAX_TARGETS];
    size_t n_targets, at;
    bool busy, ready, complained;
    int64_t due_ms; /* mono */
    char *rv;       /* of the Secret; NULL: it does not exist */
    struct sl_certs_data data;
    char *bundle, *published; /* what the plan wants, what all targets carry */
    char *serving;            /* the certificate that is served */
};

static void round_over(struct certkeeper *k, int64_t in_ms) {
    k->busy = false;
    k->due_ms = sl_cluster_mono_ms(k->c) + in_ms;
}

static void failed(struct certkeeper *k, const char *what, const char *name, const struct sl_reply *reply) {
    if (!k->complained)
        SL_LOG(WARN, "certificates cannot be kept, trying again", SL_STR("what", what), SL_STR("name", name),
               SL_I64("status", reply->status), SL_STR("error", reply->text));
    k->complained = true;
    round_over(k, RETRY_MS);
}

static void read_secret(struct certkeeper *k);
static void publish_next(struct certkeeper *k);

static void serve(struct certkeeper *k, const char *cert, const char *key) {
    if (k->serving && !strcmp(k->serving, cert))
        return;
    struct sl_err err = SL_ERR_INIT;
    if (sl_tls_set(k->tls, cert, key, &err)) {
        SL_LOG(ERROR, "serving certificate cannot be used", SL_STR("error", err.text));
        return;
    }
    free(k->serving);
    k->serving = sl_xstrdup(cert);
    k->ready = true;
    SL_LOG(INFO, "serving certificate in use", SL_I64("generation", sl_tls_generation(k->tls)));
}

/* ---- publishing ---- */

static struct sl_json *bundle_json(const struct certkeeper *k) {
    struct sl_buf b = SL_BUF_INIT(1u << 20);
    sl_buf_add_base64(&b, k->bundle, strlen(k->bundle));
    struct sl_json *j = sl_json_new_str(sl_buf_text(&b));
    sl_buf_done(&b);
    return j;
}

static void published_one(void *payload, const struct sl_reply *reply) {
    struct certkeeper *k = payload;
    if (reply->code == SL_CANCELLED) {
        return;
    }
    if (reply->code) {
        failed(k, "caBundle", k->targets[k->at].name, reply);
        return;
    }
    k->targets[k->at].published = true;
    k->at++;
    publish_next(k);
}

static void add_op(struct sl_json *patch, const char *op, char *take_path, struct sl_json *take_value) {
    struct sl_json *o = sl_json_new_object();
    sl_json_set_str(o, "op", op);
    sl_json_set_str(o, "path", take_path);
    sl_json_set(o, "value", take_value);
    sl_json_append(patch, o);
    free(take_path);
}

static void have_target(void *payload, const struct sl_reply *reply) {
    struct certkeeper *k = payload;
    if (reply->code == SL_CANCELLED)
        return;
    struct target *t = &k->targets[k->at];
    if (reply->code == SL_NOT_FOUND) { /* not installed (yet): nothing calls us through it */
        t->published = true;
        k->at++;
        publish_next(k);
        return;
    }
    if (reply->code) {
        failed(k, "reading", t->name, reply);
        return;
    }
    SL_AUTO_JSON *bundle = bundle_json(k);
    struct sl_json *patch = sl_json_new_array();
    if (t->resource == &crds) {
        const struct sl_json *cc = sl_json_path(reply->object, "spec.conversion.webhook.clientConfig");
        if (cc && !sl_json_equal(sl_json_get(cc, "caBundle"), bundle)) {
            add_op(patch, "test", sl_xstrdup("/spec/conversion/strategy"), sl_json_new_str("Webhook"));
            add_op(patch, "add", sl_xstrdup("/spec/conversion/webhook/clientConfig/caBundle"), sl_json_ref(bundle));
        }
    } else {
        SL_JSON_ITEMS (sl_json_get(reply->object, "webhooks"), w) {
            if (sl_json_equal(sl_json_path(w.value, "clientConfig.caBundle"), bundle))
                continue;
            add_op(patch, "test", sl_xprintf("/webhooks/%zu/name", w.i), sl_json_copy(sl_json_get(w.value, "name")));
            add_op(patch, "add", sl_xprintf("/webhooks/%zu/clientConfig/caBundle", w.i), sl_json_ref(bundle));
        }
    }
    if (!sl_json_len(patch)) {
        sl_json_unref(patch);
        t->published = true;
        k->at++;
        publish_next(k);
        return;
    }
    sl_cluster_send(k->c, &(struct sl_request){.verb = SL_JSON_PATCH,
                                               .resource = t->resource,
                                               .name = t->name,
                                               .body = patch,
                                               .field_manager = "sluice",
                                               .lane = SL_LANE_STATUS,
                                               .done = published_one,
                                               .payload = k});
}

static void publish_next(struct certkeeper *k) {
    if (k->at < k->n_targets) {
        sl_cluster_send(k->c, &(struct sl_request){.verb = SL_GET,
                                                   .resource = k->targets[k->at].resource,
                                                   .name = k->targets[k->at].name,
                                                   .lane = SL_LANE_STATUS,
                                                   .done = have_target,
                                                   .payload = k});
        return;
    }
    if (!k->published || strcmp(k->published, k->bundle)) {
        free(k->published);
        k->published = sl_xstrdup(k->bundle);
        SL_LOG(INFO, "CA bundle published", SL_I64("objects", (int64_t)k->n_targets));
    }
    k->complained = false;
    round_over(k, ROUND_MS);
}

/* ---- the Secret ---- */

static void secret_written(void *payload, const struct sl_reply *reply) {
    struct certkeeper *k = payload;
    if (reply->code == SL_CANCELLED)
        return;
    if (reply->code == 0 || reply->code == SL_CONFLICT || reply->code == SL_EXISTS)
        read_secret(k); /* ours, or another replica's: the Secret says */
    else
        failed(k, "writing the Secret", k->secret, reply);
}

static void plan(struct certkeeper *k) {
    int64_t now = sl_cluster_wall_ms(k->c);
    struct sl_certs_plan p;
    struct sl_err err = SL_ERR_INIT;
    if (sl_certs_plan(&k->policy, &k->data, k->published, now, &p, &err)) {
        SL_LOG(ERROR, "certificates cannot be planned", SL_STR("error", err.text));
        round_over(k, ROUND_MS);
        return;
    }
    sl_metric_set(SL_M_SLUICE_CERTIFICATE_DAYS_LEFT, (double)(p.ca_not_after_ms - now) / 86400000.0, SL_LABELS("ca"));
    sl_metric_set(SL_M_SLUICE_CERTIFICATE_DAYS_LEFT, (double)(p.serving_not_after_ms - now) / 86400000.0,
                  SL_LABELS("serving"));
    if (p.step != SL_CERTS_KEEP) {
        SL_LOG(INFO, "certificates", SL_STR("step", sl_certs_step_text(p.step)), SL_STR("why", p.why));
        struct sl_json *body = sl_json_new_object(), *meta = sl_json_make_object(body, "metadata");
        sl_json_set(body, "data", sl_certs_data_to_secret(&p.data));
        if (k->rv) {
            sl_json_set_str(meta, "resourceVersion", k->rv);
            for (int f = 0; f < SL_CERT__COUNT; f++) /* a merge patch keeps what it does not name */
                if (!p.data.field[f])
                    sl_json_set(sl_json_mut(body, "data"), sl_cert_field_key((enum sl_cert_field)f),
                                sl_json_new_null());
        } else {
            sl_json_set_str(body, "apiVersion", "v1");
            sl_json_set_str(body, "kind", "Secret");
            sl_json_set_str(meta, "name", k->secret);
            sl_json_set_str(meta, "namespace", k->ns);
            sl_json_set_str(body, "type", "Opaque");
        }
        sl_cluster_send(k->c, &(struct sl_request){.verb = k->rv ? SL_MERGE_PATCH : SL_CREATE,
                                                   .resource = &secrets,
                                                   .ns = k->ns,
                                                   .name = k->rv ? k->secret : NULL,
                                                   .body = body,
                                                   .field_manager = "sluice",
                                                   .lane = SL_LANE_STATUS,
                                                   .done = secret_written,
                                                   .payload = k});
        sl_certs_plan_done(&p);
        return;
    }
    serve(k, k->data.field[SL_CERT_TLS_CRT], k->data.field[SL_CERT_TLS_KEY]);
    free(k->bundle);
    k->bundle = sl_xstrdup(p.ca_bundle);
    sl_certs_plan_done(&p);
    k->at = 0;
    publish_next(k);
}

static void have_secret(void *payload, const struct sl_reply *reply) {
    struct certkeeper *k = payload;
    if (reply->code == SL_CANCELLED)
        return;
    if (reply->code && reply->code != SL_NOT_FOUND) {
        failed(k, "reading the Secret", k->secret, reply);
        return;
    }
    free(k->rv);
    k->rv = reply->code ? NULL : sl_xstrdup(sl_json_path_str(reply->object, "metadata.resourceVersion", ""));
    sl_certs_data_done(&k->data);
    sl_certs_data_from_secret(reply->code ? NULL : reply->object, &k->data);
    plan(k);
}

static void read_secret(struct certkeeper *k) {
    sl_cluster_send(k->c, &(struct sl_request){.verb = SL_GET,
                                               .resource = &secrets,
                                               .ns = k->ns,
                                               .name = k->secret,
                                               .lane = SL_LANE_STATUS,
                                               .done = have_secret,
                                               .payload = k});
}

/* ---- outside ---- */

static void add_target(struct certkeeper *k, const struct sl_resource *r, char *take_name) {
    k->targets[k->n_targets++] = (struct target){r, take_name, false};
}

struct certkeeper *certkeeper_new(const struct certkeeper_options *o) {
    struct certkeeper *k = sl_xalloc(sizeof *k);
    k->c = o->cluster;
    k->tls = o->tls;
    k->ns = sl_xstrdup(o->ns);
    k->secret = sl_xstrdup(o->secret);
    k->ca_name = sl_xprintf("%s-ca", o->service);
    k->names = sl_certs_service_names(o->service, o->ns, "cluster.local");
    /* tests and single-node set-ups register the webhook by address */
    size_t n = 0;
    while (k->names[n])
        n++;
    k->names = sl_xrealloc(k->names, n + 3, sizeof *k->names);
    k->names[n++] = sl_xstrdup("localhost");
    k->names[n++] = sl_xstrdup("127.0.0.1");
    k->names[n] = NULL;
    k->policy =
        (struct sl_certs_policy){.ca_name = k->ca_name,
                                 .names = (const char *const *)k->names,
                                 .ca_life_ms = o->ca_life_ms ? o->ca_life_ms : CA_LIFE_MS,
                                 .serving_life_ms = o->serving_life_ms ? o->serving_life_ms : SERVING_LIFE_MS,
                                 .publish_wait_ms = o->publish_wait_ms ? o->publish_wait_ms : SL_CERTS_PUBLISH_WAIT_MS};
    if (o->cert_dir) {
        k->dir = sl_certs_dir_new(o->cert_dir);
        return k;
    }
    if (o->mutating && *o->mutating)
        add_target(k, &mutating_configs, sl_xstrdup(o->mutating));
    if (o->validating && *o->validating)
        add_target(k, &validating_configs, sl_xstrdup(o->validating));
    for (size_t i = 0; i < SL_COUNT(converted); i++)
        add_target(k, &crds, sl_xprintf("%s.kueue.x-k8s.io", converted[i]));
    return k;
}

static void poll_dir(struct certkeeper *k) {
    bool changed = false;
    struct sl_err err = SL_ERR_INIT;
    if (sl_certs_dir_poll(k->dir, &changed, &err)) {
        if (!k->complained)
            SL_LOG(WARN, "given certificates cannot be read, keeping the last", SL_STR("error", err.text));
        k->complained = true;
    } else {
        k->complained = false;
    }
    if (changed)
        serve(k, sl_certs_dir_cert(k->dir), sl_certs_dir_key(k->dir));
    struct sl_pki_info info;
    if (k->serving && !sl_pki_info(k->serving, &info, &err))
        sl_metric_set(SL_M_SLUICE_CERTIFICATE_DAYS_LEFT,
                      (double)(info.not_after_ms - sl_cluster_wall_ms(k->c)) / 86400000.0, SL_LABELS("serving"));
    round_over(k, k->ready ? DIR_POLL_MS : RETRY_MS);
}

void certkeeper_tick(struct certkeeper *k) {
    if (k->busy || sl_cluster_mono_ms(k->c) < k->due_ms)
        return;
    k->busy = true;
    if (k->dir)
        poll_dir(k);
    else
        read_secret(k);
}

/* Before the bundle is published an API server does not trust what is served: a call would fail. */
bool certkeeper_ready(const struct certkeeper *k) {
    return k->ready && (k->dir || k->published);
}

void certkeeper_free(struct certkeeper *k) {
    if (!k)
        return;
    for (size_t i = 0; i < k->n_targets; i++)
        free(k->targets[i].name);
    sl_certs_dir_free(k->dir);
    sl_certs_names_free(k->names);
    sl_certs_data_done(&k->data);
    free(k->ns);
    free(k->secret);
    free(k->ca_name);
    free(k->rv);
    free(k->bundle);
    free(k->published);
    free(k->serving);
    free(k);
}
