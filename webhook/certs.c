/*
 * The state machine of certs.h. Everything it knows lies in the Secret, so that any replica can take the next step, and
 * a step that was lost with a failed write is simply taken again. The order within plan() is by urgency: a server that
 * cannot be trusted now, then rotation, then tidying.
 */
#include "sluice/webhook/certs.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/base/buf.h"
#include "sluice/base/clock.h"
#include "sluice/base/file.h"
#include "sluice/base/mem.h"
#include "sluice/webhook/pki.h"

#define MAX_FIELD ((size_t)1 << 20)
#define MAX_OLD   ((size_t)64 << 10) /* former CAs that are still published */

static const char *const field_keys[SL_CERT__COUNT] = {
    [SL_CERT_CA_CRT] = "ca.crt",
    [SL_CERT_CA_KEY] = "ca.key",
    [SL_CERT_TLS_CRT] = "tls.crt",
    [SL_CERT_TLS_KEY] = "tls.key",
    [SL_CERT_NEXT_CRT] = "ca-next.crt",
    [SL_CERT_NEXT_KEY] = "ca-next.key",
    [SL_CERT_NEXT_SINCE] = "ca-next.since",
    [SL_CERT_OLD_CRT] = "ca-old.crt",
    [SL_CERT_OLD_UNTIL] = "ca-old.until",
};

const char *sl_cert_field_key(enum sl_cert_field f) {
    return field_keys[f];
}

static void wipe_free(char *text) {
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

static void put(struct sl_certs_data *data, enum sl_cert_field f, char *take) {
    wipe_free(data->field[f]);
    data->field[f] = take;
}

void sl_certs_data_done(struct sl_certs_data *data) {
    for (int f = 0; f < SL_CERT__COUNT; f++)
        put(data, f, NULL);
}

static struct sl_certs_data copy(const struct sl_certs_data *from) {
    struct sl_certs_data to = SL_CERTS_DATA_INIT;
    for (int f = 0; f < SL_CERT__COUNT; f++)
        to.field[f] = sl_xstrdup(from->field[f]);
    return to;
}

void sl_certs_data_from_secret(const struct sl_json *secret, struct sl_certs_data *ret) {
    *ret = (struct sl_certs_data)SL_CERTS_DATA_INIT;
    const struct sl_json *data = sl_json_get(secret, "data");
    for (int f = 0; f < SL_CERT__COUNT; f++) {
        const struct sl_json *value = sl_json_get(data, field_keys[f]);
        struct sl_buf text = SL_BUF_INIT(MAX_FIELD);
        bool fine =
            sl_json_str_len(value) && !sl_buf_add_unbase64(&text, sl_json_str(value, ""), sl_json_str_len(value), NULL);
        if (fine && text.len && !memchr(text.data, 0, text.len)) {
            ret->field[f] = sl_buf_take(&text);
        } else if (text.data) {
            explicit_bzero(text.data, text.len);
        }
        sl_buf_done(&text);
    }
}

struct sl_json *sl_certs_data_to_secret(const struct sl_certs_data *data) {
    struct sl_json *out = sl_json_new_object();
    for (int f = 0; f < SL_CERT__COUNT; f++) {
        if (!data->field[f])
            continue;
        struct sl_buf text = SL_BUF_INIT(2 * MAX_FIELD);
        sl_buf_add_base64(&text, data->field[f], strlen(data->field[f]));
        sl_json_set_str(out, field_keys[f], sl_buf_text(&text));
        if (text.data)
            explicit_bzero(text.data, text.len);
        sl_buf_done(&text);
    }
    return out;
}

char **sl_certs_service_names(const char *service, const char *ns, const char *domain) {
    char **names = sl_xalloc(4 * sizeof *names);
    names[0] = sl_xprintf("%s.%s.svc", service, ns);
    names[1] = sl_xprintf("%s.%s.svc.%s", service, ns, domain && *domain ? domain : "cluster.local");
    names[2] = sl_xprintf("%s.%s", service, ns);
    return names;
}

void sl_certs_names_free(char **names) {
    for (char **p = names; p && *p; p++)
        free(*p);
    free(names);
}

const char *sl_certs_step_text(enum sl_certs_step step) {
    switch (step) {
    case SL_CERTS_KEEP: return "keep";
    case SL_CERTS_CREATE: return "create";
    case SL_CERTS_RENEW_SERVING: return "renew serving certificate";
    case SL_CERTS_PREPARE_CA: return "prepare new CA";
    case SL_CERTS_SWITCH_CA: return "switch to new CA";
    case SL_CERTS_DROP_OLD_CA: return "drop old CA";
    }
    return "?";
}

void sl_certs_plan_done(struct sl_certs_plan *plan) {
    sl_certs_data_done(&plan->data);
    free(plan->ca_bundle);
    plan->ca_bundle = NULL;
}

/* ---- looking at what there is ---- */

/* When a certificate is to be replaced: at two thirds of its life, which begins where it was made, not where it was
 * dated back to. */
static int64_t due_ms(const struct sl_pki_info *i) {
    int64_t made = i->not_before_ms + SL_PKI_BACKDATE_MS;
    return made >= i->not_after_ms ? i->not_after_ms : made + (i->not_after_ms - made) / 3 * 2;
}

struct ca_view {
    bool valid; /* a CA certificate that has not expired */
    bool signs; /* and its key is there */
    int64_t due_ms, not_after_ms;
};

static struct ca_view look_at_ca(const char *crt, const char *key, int64_t now_ms) {
    struct ca_view v = {false, false, 0, 0};
    struct sl_pki_info info;
    if (!crt || sl_pki_info(crt, &info, NULL) || !info.ca || info.not_after_ms <= now_ms)
        return v;
    v.valid = true;
    v.signs = key && !sl_pki_check_pair(crt, key, NULL);
    v.due_ms = due_ms(&info);
    v.not_after_ms = info.not_after_ms;
    return v;
}

struct serving_view {
    bool usable;
    char why[120]; /* when it is not */
    int64_t due_ms, not_after_ms;
};

static struct serving_view look_at_serving(const struct sl_certs_policy *policy, const struct sl_certs_data *d,
                                           int64_t now_ms) {
    struct serving_view v = {false, "", 0, 0};
    const char *crt = d->field[SL_CERT_TLS_CRT], *key = d->field[SL_CERT_TLS_KEY], *ca = d->field[SL_CERT_CA_CRT];
    struct sl_err err = SL_ERR_INIT;
    struct sl_pki_info info;
    if (!crt || !key || !ca) {
        snprintf(v.why, sizeof v.why, "there is none");
        return v;
    }
    if (sl_pki_info(crt, &info, &err) || sl_pki_check_pair(crt, key, &err)) {
        snprintf(v.why, sizeof v.why, "%.100s", err.text);
        return v;
    }
    v.due_ms = due_ms(&info);
    v.not_after_ms = info.not_after_ms;
    for (size_t i = 0; policy->names[i]; i++) {
        if (sl_pki_check_chain(crt, ca, policy->names[i], now_ms, &err)) {
            snprintf(v.why, sizeof v.why, "%.50s: %.60s", policy->names[i], err.text);
            return v;
        }
    }
    v.usable = true;
    return v;
}

static bool time_of(const char *text, int64_t *ret) {
    return text && sl_time_parse(text, ret);
}

/* ---- steps ---- */

static void because(struct sl_certs_plan *plan, enum sl_certs_step step, const char *format, ...) SL_PRINTF(3, 4);
static void because(struct sl_certs_plan *plan, enum sl_certs_step step, const char *format, ...) {
    plan->step = step;
    va_list args;
    va_start(args, format);
    vsnprintf(plan->why, sizeof plan->why, format, args);
    va_end(args);
}

static void put_pair(struct sl_certs_data *data, enum sl_cert_field crt, enum sl_cert_field key,
                     struct sl_pki_pair *take) {
    put(data, crt, SL_TAKE(take->cert_pem));
    put(data, key, SL_TAKE(take->key_pem));
}

static void put_time(struct sl_certs_data *data, enum sl_cert_field f, int64_t ms) {
    char text[SL_TIME_TEXT];
    put(data, f, sl_xstrdup(sl_time_format(ms, text)));
}

static int sign(const struct sl_certs_policy *policy, struct sl_certs_data *data, int64_t now_ms, struct sl_err *err) {
    const struct sl_pki_pair ca = {data->field[SL_CERT_CA_CRT], data->field[SL_CERT_CA_KEY]};
    struct sl_pki_pair pair = SL_PKI_PAIR_INIT;
    int rc = sl_pki_make_serving(&ca, policy->names, now_ms, policy->serving_life_ms, &pair, err);
    if (!rc)
        put_pair(data, SL_CERT_TLS_CRT, SL_CERT_TLS_KEY, &pair);
    return rc;
}

static int make_ca(const struct sl_certs_policy *policy, struct sl_certs_data *data, enum sl_cert_field crt,
                   enum sl_cert_field key, int64_t now_ms, struct sl_err *err) {
    struct sl_pki_pair pair = SL_PKI_PAIR_INIT;
    int rc = sl_pki_make_ca(policy->ca_name, now_ms, policy->ca_life_ms, &pair, err);
    if (!rc)
        put_pair(data, crt, key, &pair);
    return rc;
}

/* The current CA becomes the old one, in front of those that are old already, until the last certificate it may have
 * signed expires. */
static void retire_ca(const struct sl_certs_policy *policy, struct sl_certs_data *data, const struct ca_view *ca,
                      int64_t now_ms) {
    if (!ca->valid)
        return;
    struct sl_pki_info leaf;
    int64_t until = now_ms + policy->serving_life_ms, before = 0;
    if (data->field[SL_CERT_TLS_CRT] && !sl_pki_info(data->field[SL_CERT_TLS_CRT], &leaf, NULL))
        until = leaf.not_after_ms;
    if (until > ca->not_after_ms)
        until = ca->not_after_ms;
    const char *older = data->field[SL_CERT_OLD_CRT];
    if (older && strlen(older) < MAX_OLD && time_of(data->field[SL_CERT_OLD_UNTIL], &before) && before > now_ms) {
        until = before > until ? before : until;
        put(data, SL_CERT_OLD_CRT, sl_xprintf("%s%s", data->field[SL_CERT_CA_CRT], older));
    } else {
        put(data, SL_CERT_OLD_CRT, sl_xstrdup(data->field[SL_CERT_CA_CRT]));
    }
    put_time(data, SL_CERT_OLD_UNTIL, until);
}

static void forget_next(struct sl_certs_data *data) {
    put(data, SL_CERT_NEXT_CRT, NULL);
    put(data, SL_CERT_NEXT_KEY, NULL);
    put(data, SL_CERT_NEXT_SINCE, NULL);
}

static int switch_ca(const struct sl_certs_policy *policy, struct sl_certs_data *data, const struct ca_view *ca,
                     int64_t now_ms, struct sl_err *err) {
    retire_ca(policy, data, ca, now_ms);
    put(data, SL_CERT_CA_CRT, SL_TAKE(data->field[SL_CERT_NEXT_CRT]));
    put(data, SL_CERT_CA_KEY, SL_TAKE(data->field[SL_CERT_NEXT_KEY]));
    forget_next(data);
    return sign(policy, data, now_ms, err);
}

static bool carries(const char *bundle, const char *crt) {
    return bundle && crt && *crt && strstr(bundle, crt);
}

static int step(const struct sl_certs_policy *policy, const char *published, int64_t now_ms, struct sl_certs_plan *plan,
                struct sl_err *err) {
    struct sl_certs_data *d = &plan->data;
    struct ca_view ca = look_at_ca(d->field[SL_CERT_CA_CRT], d->field[SL_CERT_CA_KEY], now_ms);
    struct ca_view next = look_at_ca(d->field[SL_CERT_NEXT_CRT], d->field[SL_CERT_NEXT_KEY], now_ms);
    struct serving_view serving = look_at_serving(policy, d, now_ms);

    if (!serving.usable && ca.signs) {
        because(plan, SL_CERTS_RENEW_SERVING, "the serving certificate is unusable: %s", serving.why);
        return sign(policy, d, now_ms, err);
    }
    if (!serving.usable && next.signs) { /* no time to wait: nobody can be trusted as it is */
        because(plan, SL_CERTS_SWITCH_CA, "the CA is unusable: the next one takes over at once");
        return switch_ca(policy, d, &ca, now_ms, err);
    }
    if (!serving.usable) {
        bool anything = d->field[SL_CERT_CA_CRT] || d->field[SL_CERT_TLS_CRT];
        because(plan, SL_CERTS_CREATE, "%s",
                anything ? "neither CA nor serving certificate are usable" : "there are no certificates");
        retire_ca(policy, d, &ca, now_ms);
        forget_next(d);
        int rc = make_ca(policy, d, SL_CERT_CA_CRT, SL_CERT_CA_KEY, now_ms, err);
        return rc ? rc : sign(policy, d, now_ms, err);
    }
    int64_t since = 0, until = 0;
    if (next.signs) {
        bool waited = !time_of(d->field[SL_CERT_NEXT_SINCE], &since) || now_ms >= since + policy->publish_wait_ms;
        if (waited && carries(published, d->field[SL_CERT_NEXT_CRT])) {
            because(plan, SL_CERTS_SWITCH_CA, "every bundle carries the new CA");
            return switch_ca(policy, d, &ca, now_ms, err);
        }
    }
    if (ca.signs && now_ms >= serving.due_ms) {
        because(plan, SL_CERTS_RENEW_SERVING, "two thirds of its life are over");
        return sign(policy, d, now_ms, err);
    }
    if (!next.signs && (!ca.signs || now_ms >= ca.due_ms)) {
        because(plan, SL_CERTS_PREPARE_CA, "%s",
                ca.signs ? "two thirds of the CA's life are over" : "the CA's key is unusable");
        put_time(d, SL_CERT_NEXT_SINCE, now_ms);
        return make_ca(policy, d, SL_CERT_NEXT_CRT, SL_CERT_NEXT_KEY, now_ms, err);
    }
    if (d->field[SL_CERT_OLD_CRT] && (!time_of(d->field[SL_CERT_OLD_UNTIL], &until) || now_ms >= until)) {
        because(plan, SL_CERTS_DROP_OLD_CA, "the last certificate of the old CA has expired");
        put(d, SL_CERT_OLD_CRT, NULL);
        put(d, SL_CERT_OLD_UNTIL, NULL);
        return 0;
    }
    plan->next_ms = serving.due_ms;
    int64_t then = next.signs ? since + policy->publish_wait_ms : ca.due_ms;
    if (then < plan->next_ms)
        plan->next_ms = then;
    if (d->field[SL_CERT_OLD_CRT] && until < plan->next_ms)
        plan->next_ms = until;
    if (plan->next_ms < now_ms + 1000) /* what is overdue waits for somebody else: for the bundles, or for a key */
        plan->next_ms = now_ms + 1000;
    return 0;
}

static void add_cert(struct sl_buf *bundle, const char *crt) {
    if (!crt || !*crt)
        return;
    sl_buf_puts(bundle, crt);
    if (crt[strlen(crt) - 1] != '\n')
        sl_buf_putc(bundle, '\n');
}

static char *bundle_of(const struct sl_certs_data *d, int64_t now_ms) {
    struct sl_buf bundle = SL_BUF_INIT(4 * MAX_FIELD);
    add_cert(&bundle, d->field[SL_CERT_CA_CRT]);
    if (look_at_ca(d->field[SL_CERT_NEXT_CRT], d->field[SL_CERT_NEXT_KEY], now_ms).signs)
        add_cert(&bundle, d->field[SL_CERT_NEXT_CRT]);
    struct sl_pki_info info;
    if (d->field[SL_CERT_OLD_CRT] && !sl_pki_info(d->field[SL_CERT_OLD_CRT], &info, NULL))
        add_cert(&bundle, d->field[SL_CERT_OLD_CRT]);
    char *text = sl_buf_take(&bundle);
    sl_buf_done(&bundle);
    return text ? text : sl_xstrdup("");
}

int sl_certs_plan(const struct sl_certs_policy *policy, const struct sl_certs_data *data, const char *published_bundle,
                  int64_t now_ms, struct sl_certs_plan *ret, struct sl_err *err) {
    if (!policy->ca_name || !policy->names || !policy->names[0])
        return sl_err_set(err, SL_INVALID, "certificates: no names");
    if (policy->ca_life_ms < 1000 || policy->serving_life_ms < 1000 || policy->publish_wait_ms < 0)
        return sl_err_set(err, SL_INVALID, "certificates: a life must be at least one second, a wait not negative");
    struct sl_certs_plan plan = {.step = SL_CERTS_KEEP, .data = copy(data), .next_ms = now_ms};
    int rc = step(policy, published_bundle, now_ms, &plan, err);
    if (rc) {
        sl_err_wrap(err, "certificates: %s", sl_certs_step_text(plan.step));
        sl_certs_plan_done(&plan);
        return rc;
    }
    struct sl_pki_info info;
    if (!sl_pki_info(plan.data.field[SL_CERT_CA_CRT], &info, NULL))
        plan.ca_not_after_ms = info.not_after_ms;
    if (!sl_pki_info(plan.data.field[SL_CERT_TLS_CRT], &info, NULL))
        plan.serving_not_after_ms = info.not_after_ms;
    plan.ca_bundle = bundle_of(&plan.data, now_ms);
    *ret = plan;
    return 0;
}

/* ---- given certificates ---- */

enum file { CRT, KEY, CA, FILES };
static const char *const file_names[FILES] = {"tls.crt", "tls.key", "ca.crt"};

struct sl_certs_dir {
    char *path;
    char *text[FILES]; /* of the last pair that was good */
};

struct sl_certs_dir *sl_certs_dir_new(const char *path) {
    struct sl_certs_dir *dir = sl_xalloc(sizeof *dir);
    dir->path = sl_xstrdup(path);
    return dir;
}

void sl_certs_dir_free(struct sl_certs_dir *dir) {
    if (!dir)
        return;
    for (int i = 0; i < FILES; i++)
        wipe_free(dir->text[i]);
    free(dir->path);
    free(dir);
}

static int read_file(const char *dir, const char *name, char **ret, struct sl_err *err) {
    SL_AUTO_FREE char *path = sl_xprintf("%s/%s", dir, name);
    struct sl_buf text = SL_BUF_INIT(MAX_FIELD);
    int rc = sl_file_read(path, &text, err);
    if (!rc) {
        *ret = sl_xstrdup(sl_buf_text(&text));
        if (text.data)
            explicit_bzero(text.data, text.len);
    }
    sl_buf_done(&text);
    return rc;
}

static bool same(const char *a, const char *b) {
    return a && b ? strcmp(a, b) == 0 : a == b;
}

int sl_certs_dir_poll(struct sl_certs_dir *dir, bool *ret_changed, struct sl_err *err) {
    char *text[FILES] = {NULL, NULL, NULL};
    int rc = 0;
    for (int i = 0; i < FILES && !rc; i++) {
        rc = read_file(dir->path, file_names[i], &text[i], err);
        if (rc == SL_NOT_FOUND && i == CA)
            rc = 0;
    }
    bool changed = false;
    for (int i = 0; i < FILES && !rc; i++)
        changed |= !same(text[i], dir->text[i]);
    if (!rc && changed) {
        rc = sl_pki_check_pair(text[CRT], text[KEY], err);
        if (rc)
            sl_err_wrap(err, "%s", dir->path);
    }
    for (int i = 0; i < FILES; i++) {
        if (!rc && changed) {
            char *old = dir->text[i];
            dir->text[i] = text[i];
            text[i] = old;
        }
        wipe_free(text[i]);
    }
    if (!rc)
        *ret_changed = changed;
    return rc;
}

const char *sl_certs_dir_cert(const struct sl_certs_dir *dir) {
    return dir->text[CRT];
}
const char *sl_certs_dir_key(const struct sl_certs_dir *dir) {
    return dir->text[KEY];
}
const char *sl_certs_dir_ca(const struct sl_certs_dir *dir) {
    return dir->text[CA];
}
