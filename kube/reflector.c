/*
 * One watch: lists a resource page by page, then follows it. Of every object it keeps key and uid only, which is what
 * is needed to tell after a relist what has gone or was replaced. Bytes arrive in libcurl's callback and wait in the
 * framer; objects are parsed and delivered one by one from kube_watch_run within its time slice, and a framer that
 * holds much pauses the transfer, so that memory stays bounded.
 *
 *   IDLE --next_ms, LIST--> LISTING --page--> LISTING --last page--> IDLE (WATCH, at once)
 *   IDLE --next_ms, WATCH-> WATCHING --end--> IDLE (WATCH)   --410--> IDLE (LIST)   --failure--> IDLE, after a backoff
 *
 * Lists are consistent reads (no resourceVersion), so that what is decided on their ground is never older than what was
 * known before.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_internal.h"
#include "sluice/base/clock.h"
#include "sluice/base/log.h"
#include "sluice/base/mem.h"
#include "sluice/base/metrics.h"
#include "status.h"

#define RELIST_AFTER 5 /* failures in a row, not of the network */
#define AGAIN_MS     10000
#define GRACE_MS     30000 /* after the time at which the server should have ended the watch */

enum phase { IDLE, LISTING, WATCHING };
enum next { NEXT_LIST, NEXT_WATCH };

struct known {
    uint32_t mark; /* number of the list that had it last */
    char uid[];
};

struct kube_watch {
    struct sl_watch base;   /* first member */
    struct kube_transfer t; /* see of_transfer */
    const struct sl_resource *resource;
    char *ns, *label_selector, *field_selector;
    bool metadata_only, optional;
    sl_watch_fn fn;
    void *payload;
    enum phase phase;
    enum next next;
    int64_t next_ms, heard_ms, started_ms, deadline_ms, end_ms, failed_ms, expired_ms;
    unsigned failures;
    int64_t put_off_ms; /* the server asks for patience since; 0: it does not */
    bool synced, troubled, hungry, over, answered;
    CURLcode result;
    int64_t retry_after_ms;
    size_t frames; /* of the present stream */
    char *rv, *cont, *path;
    struct kube_framer framer;
    struct sl_buf error_body;
    struct sl_map known; /* ns \x01 name -> struct known */
    uint32_t mark;
};

static struct kube_watch *watch_of(const struct sl_watch *w) {
    return (struct kube_watch *)(uintptr_t)w;
}
static struct kube_watch *of_transfer(struct kube_transfer *t) {
    return (struct kube_watch *)(void *)((char *)t - offsetof(struct kube_watch, t));
}
static struct kube_client *client(const struct kube_watch *w) {
    return kube_client_of(w->base.cluster);
}

bool kube_watch_synced(const struct sl_watch *w) {
    return watch_of(w)->synced;
}
int64_t kube_watch_age_ms(const struct sl_watch *w) {
    return sl_now_mono_ms() - watch_of(w)->heard_ms;
}
bool kube_watch_has_backlog(const struct kube_watch *w) {
    return w->phase != IDLE && (w->over || (kube_framer_pending(&w->framer) && !w->hungry));
}
size_t kube_watch_waiting(const struct kube_watch *w) {
    return kube_framer_pending(&w->framer);
}
int64_t kube_watch_next(const struct kube_watch *w) {
    return w->phase == IDLE ? w->next_ms : w->deadline_ms;
}

/* ---- delivery ---- */

static void say(struct kube_watch *w, enum sl_watch_what what, const struct sl_json *object) {
    struct sl_watch_event event = {what, w->resource, object};
    w->fn(w->payload, &event);
}

/* Items of typed lists do not say what they are. */
static void identify(struct sl_json *object, const struct sl_resource *r) {
    if (sl_json_is_null(sl_json_get(object, "kind")))
        sl_json_set_str(object, "kind", r->kind);
    if (!sl_json_is_null(sl_json_get(object, "apiVersion")))
        return;
    SL_AUTO_FREE char *version = *r->group ? sl_xprintf("%s/%s", r->group, r->version) : sl_xstrdup(r->version);
    sl_json_set_str(object, "apiVersion", version);
}

static void say_gone(struct kube_watch *w, const char *key, const char *uid) {
    const char *cut = strchr(key, 1);
    SL_AUTO_JSON *object = sl_json_new_object();
    struct sl_json *meta = sl_json_make_object(object, "metadata");
    identify(object, w->resource);
    sl_json_set_str(meta, "name", cut + 1);
    if (cut > key)
        sl_json_set(meta, "namespace", sl_json_new_strn(key, (size_t)(cut - key)));
    sl_json_set_str(meta, "uid", uid);
    say(w, SL_WATCH_GONE, object);
}

static void remember(struct kube_watch *w, const char *key, const char *uid) {
    struct known *old = sl_map_get(&w->known, key);
    if (old && !strcmp(old->uid, uid)) {
        old->mark = w->mark;
        return;
    }
    size_t n = strlen(uid) + 1;
    struct known *k = sl_xalloc(sizeof *k + n);
    k->mark = w->mark;
    memcpy(k->uid, uid, n);
    free(sl_map_set(&w->known, key, k));
}

static int deliver(struct kube_watch *w, struct sl_json *object, bool gone, struct sl_err *err) {
    const struct sl_json *meta = sl_json_get(object, "metadata");
    const char *name = sl_json_get_str(meta, "name", NULL), *uid = sl_json_get_str(meta, "uid", "");
    if (!name)
        return sl_err_set(err, SL_PROTOCOL, "object without metadata.name");
    SL_AUTO_FREE char *key = sl_xprintf("%s\x01%s", sl_json_get_str(meta, "namespace", ""), name);
    const struct known *old = sl_map_get(&w->known, key);
    identify(object, w->resource);
    if (gone) {
        free(sl_map_del(&w->known, key));
        say(w, SL_WATCH_GONE, object);
        return 0;
    }
    bool replaced = old && strcmp(old->uid, uid) != 0;
    if (replaced)
        say_gone(w, key, old->uid);
    remember(w, key, uid);
    say(w, SL_WATCH_PUT, object);
    return 0;
}

/* The list is complete: what it did not hold has gone. */
static void sweep(struct kube_watch *w) {
    SL_MAP_EACH (&w->known, e) {
        struct known *k = e->value;
        if (k->mark == w->mark)
            continue;
        SL_AUTO_FREE char *key = sl_xstrdup(e->key);
        sl_map_del(&w->known, key);
        say_gone(w, key, k->uid);
        free(k);
    }
    w->synced = true;
    say(w, SL_WATCH_SYNCED, NULL);
}

/* ---- what comes next ---- */

static void go_idle(struct kube_watch *w, enum next next, int64_t at) {
    kube_transfer_stop(&w->t);
    w->phase = IDLE;
    w->over = false;
    w->next = next;
    w->next_ms = at;
    kube_framer_reset(&w->framer, KUBE_LINES);
    sl_buf_clear(&w->error_body);
    free(SL_TAKE(w->path));
}

static void start_over(struct kube_watch *w) {
    free(SL_TAKE(w->cont));
    free(SL_TAKE(w->rv));
}

static void count_restart(const struct kube_watch *w, const char *cause) {
    sl_metric_add(SL_M_SLUICE_WATCH_RESTARTS_TOTAL, 1, SL_LABELS(w->resource->plural, cause));
}

static void recovered(struct kube_watch *w) {
    if (w->troubled)
        SL_LOG(INFO, "watch works again", SL_STR("resource", w->resource->plural));
    w->troubled = false;
    w->put_off_ms = 0;
}

/* 429 is no trouble for a while: an API server says so to everybody each time the definition of a kind has changed, as
 * it does at our first start. Said once for all watches. */
static bool put_off(struct kube_watch *w, int64_t now, const char *cause, const char *text) {
    struct kube_client *c = client(w);
    if (strcmp(cause, "http") != 0 || w->t.status != 429 || w->troubled)
        return false;
    if (!w->put_off_ms)
        w->put_off_ms = now;
    if (now - w->put_off_ms > c->tuning.patience_ms)
        return false;
    if (!c->put_off_ms || now - c->put_off_ms > c->tuning.calm_ms)
        SL_LOG(INFO, "the API server asks watches to come again", SL_STR("resource", w->resource->plural),
               SL_STR("answer", text));
    c->put_off_ms = now;
    return true;
}

/* Waits longer after each failure in a row; an event that arrives or two calm minutes end the row. */
static void fail(struct kube_watch *w, enum next next, const char *cause, const char *text) {
    const struct kube_tuning *tune = &client(w)->tuning;
    int64_t now = sl_now_mono_ms(), wait = tune->watch_backoff_ms;
    if (now - w->failed_ms > tune->calm_ms)
        w->failures = 0;
    for (unsigned i = 0; i < w->failures && wait < tune->watch_backoff_max_ms; i++)
        wait *= 2;
    if (wait > tune->watch_backoff_max_ms)
        wait = tune->watch_backoff_max_ms;
    w->failures++;
    w->failed_ms = now;
    bool busy = w->t.status == 429 || w->t.status == 503 || !strcmp(cause, "network");
    if (next == NEXT_WATCH && !busy && w->failures % RELIST_AFTER == 0) {
        start_over(w); /* a server that answers but never with this watch may want another version and say so badly */
        next = NEXT_LIST;
    }
    wait += kube_random(client(w), wait);
    if (wait < w->retry_after_ms)
        wait = w->retry_after_ms;
    if (put_off(w, now, cause, text)) {
        cause = "busy";
    } else {
        if (!w->troubled)
            SL_LOG(WARN, "watch interrupted, trying again", SL_STR("resource", w->resource->plural),
                   SL_STR("cause", cause), SL_STR("error", text));
        w->troubled = true;
    }
    count_restart(w, cause);
    go_idle(w, next, now + wait);
}

/* The server does not serve this resource, which the caller finds acceptable. */
static void absent(struct kube_watch *w) {
    start_over(w);
    w->mark++;
    go_idle(w, NEXT_LIST, sl_now_mono_ms() + client(w)->tuning.absent_retry_ms);
    recovered(w);
    sweep(w);
}

/* ---- starting ---- */

static void add_parameter(struct sl_buf *path, char *mark, const char *name, const char *value) {
    if (!value)
        return;
    sl_buf_printf(path, "%c%s=", *mark, name);
    kube_escape(path, value);
    *mark = '&';
}

static void start(struct kube_watch *w, int64_t now) {
    struct kube_client *c = client(w);
    bool list = w->next == NEXT_LIST;
    SL_AUTO_BUF path = SL_BUF_INIT(32768);
    char mark = '?';
    kube_path(&path, w->resource, w->ns, NULL, NULL);
    add_parameter(&path, &mark, "labelSelector", w->label_selector);
    add_parameter(&path, &mark, "fieldSelector", w->field_selector);
    int64_t seconds = c->tuning.watch_seconds + kube_random(c, c->tuning.watch_seconds);
    if (list) {
        sl_buf_printf(&path, "%climit=%zu", mark, c->tuning.page);
        mark = '&';
        add_parameter(&path, &mark, "continue", w->cont);
        if (!w->cont)
            w->mark++;
    } else {
        sl_buf_printf(&path, "%cwatch=1&allowWatchBookmarks=true&timeoutSeconds=%" PRId64, mark, seconds);
        mark = '&';
        add_parameter(&path, &mark, "resourceVersion", w->rv);
    }
    w->path = sl_buf_take(&path);
    if (!w->path) { /* only an absurd continue token gets here */
        start_over(w);
        fail(w, NEXT_LIST, "protocol", "request is too long");
        return;
    }
    w->phase = list ? LISTING : WATCHING;
    w->over = false;
    w->hungry = true;
    w->frames = 0;
    w->retry_after_ms = 0;
    w->started_ms = now;
    w->answered = false;
    w->end_ms = now + seconds * 1000 + GRACE_MS;
    w->deadline_ms = list ? INT64_MAX : now + c->tuning.watch_header_ms;
    kube_framer_reset(&w->framer, list ? KUBE_ITEMS : KUBE_LINES);
    static const char lists[] = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    static const char singles[] = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    struct kube_call call = {.method = "GET",
                             .path = w->path,
                             .is_stream = !list,
                             .accept = w->metadata_only ? (list ? lists : singles) : "application/json"};
    kube_transfer_start(c, &w->t, &call);
}

static bool on_data(struct kube_transfer *t, const char *data, size_t len, bool *ret_pause) {
    struct kube_watch *w = of_transfer(t);
    struct kube_client *c = t->client;
    if (t->status != 200) {
        sl_buf_add(&w->error_body, data, len);
        return !w->error_body.failed;
    }
    if (!w->hungry && kube_framer_pending(&w->framer) > c->tuning.backlog) {
        *ret_pause = true;
        return true;
    }
    w->heard_ms = sl_now_mono_ms();
    kube_framer_feed(&w->framer, data, len);
    return true;
}

static void on_done(struct kube_transfer *t, CURLcode result) {
    struct kube_watch *w = of_transfer(t);
    w->over = true;
    w->result = result;
    w->retry_after_ms = kube_transfer_retry_after_ms(t);
    if (t->status)
        w->heard_ms = sl_now_mono_ms();
}

/* ---- what the server said ---- */

static void expired(struct kube_watch *w) {
    int64_t now = sl_now_mono_ms();
    bool again = now - w->expired_ms < AGAIN_MS;
    w->expired_ms = now;
    start_over(w);
    if (again) { /* a server that calls every version expired must not make us spin */
        fail(w, NEXT_LIST, "expired", "the server called the resource version expired repeatedly");
        return;
    }
    count_restart(w, "expired");
    go_idle(w, NEXT_LIST, now);
}

static void error_event(struct kube_watch *w, const struct sl_json *status) {
    if (kube_status_expired(0, status)) {
        expired(w);
        return;
    }
    char text[300];
    kube_status_text((int)sl_json_get_int(status, "code", 0), status, text, sizeof text);
    fail(w, NEXT_WATCH, "error", text);
}

static void broken(struct kube_watch *w, const struct sl_err *err) {
    start_over(w);
    fail(w, NEXT_LIST, "protocol", err->text);
}

static void set_rv(struct kube_watch *w, const struct sl_json *object) {
    const char *rv = sl_json_path_str(object, "metadata.resourceVersion", "");
    if (!*rv)
        return;
    free(w->rv);
    w->rv = sl_xstrdup(rv);
}

/* False when the stream has ended with this frame. */
static bool frame(struct kube_watch *w, char *text, size_t len) {
    SL_AUTO_JSON *event = NULL;
    struct sl_err err = SL_ERR_INIT;
    if (kube_parse(text, len, 1, &event, &err)) {
        broken(w, &err);
        return false;
    }
    const char *type = sl_json_get_str(event, "type", "");
    struct sl_json *object = sl_json_mut(event, "object");
    w->frames++;
    if (!strcmp(type, "ERROR")) {
        error_event(w, object);
        return false;
    }
    bool gone = !strcmp(type, "DELETED");
    recovered(w);
    if (!strcmp(type, "BOOKMARK")) {
        set_rv(w, object);
        return true;
    }
    if (!gone && strcmp(type, "ADDED") && strcmp(type, "MODIFIED"))
        sl_err_set(&err, SL_PROTOCOL, "watch event of an unknown type");
    else
        deliver(w, object, gone, &err);
    if (err.code) {
        broken(w, &err);
        return false;
    }
    w->failures = 0;
    set_rv(w, object);
    return true;
}

static bool item(struct kube_watch *w, char *text, size_t len) {
    SL_AUTO_JSON *object = NULL;
    struct sl_err err = SL_ERR_INIT;
    if (kube_parse(text, len, 0, &object, &err) || deliver(w, object, false, &err)) {
        broken(w, &err);
        return false;
    }
    return true;
}

static void page_over(struct kube_watch *w) {
    const char *text;
    size_t len;
    SL_AUTO_JSON *page = NULL;
    struct sl_err err = SL_ERR_INIT;
    if (kube_framer_finish(&w->framer, &text, &len, &err) ||
        sl_json_parse_limited(text, len, len, SL_JSON_MAX_ELEMENTS, &page, &err)) {
        fail(w, NEXT_LIST, w->result ? "network" : "protocol", err.text); /* the same page again */
        return;
    }
    const char *cont = sl_json_path_str(page, "metadata.continue", ""),
               *rv = sl_json_path_str(page, "metadata.resourceVersion", "");
    if (!*rv) {
        sl_err_set(&err, SL_PROTOCOL, "list without metadata.resourceVersion");
        broken(w, &err);
        return;
    }
    char *next = *cont ? sl_xstrdup(cont) : NULL;
    set_rv(w, page);
    free(w->cont);
    w->cont = next;
    go_idle(w, next ? NEXT_LIST : NEXT_WATCH, sl_now_mono_ms());
    recovered(w);
    if (!next)
        sweep(w);
}

static void refused(struct kube_watch *w) {
    int status = w->t.status;
    SL_AUTO_JSON *body = NULL;
    struct sl_err err = SL_ERR_INIT;
    if (w->error_body.len && kube_parse(w->error_body.data, w->error_body.len, 0, &body, &err))
        body = NULL;
    char text[300];
    kube_status_text(status, body, text, sizeof text);
    if (status == 404 && w->optional) {
        absent(w);
    } else if (kube_status_expired(status, body)) {
        expired(w);
    } else if (status == 400 || status == 404 || status == 422) { /* nothing that asking the same again could heal */
        start_over(w);
        fail(w, NEXT_LIST, "http", text);
    } else {
        fail(w, w->next, "http", text);
    }
}

static void stream_over(struct kube_watch *w) {
    bool answered = w->t.status != 0;
    if (answered && w->t.status != 200) {
        refused(w);
        return;
    }
    if (w->phase == LISTING && answered && !w->result) {
        page_over(w);
        return;
    }
    if (w->result || !answered) {
        char text[CURL_ERROR_SIZE];
        snprintf(text, sizeof text, "%s", kube_transfer_error(&w->t, w->result));
        fail(w, w->next, "network", text);
        return;
    }
    int64_t now = sl_now_mono_ms();
    if (!w->frames && now - w->started_ms < 1000) {
        fail(w, NEXT_WATCH, "short", "the server ended a watch at once");
        return;
    }
    count_restart(w, "end");
    go_idle(w, NEXT_WATCH, now);
}

/* Delivers what is complete; false when the stream is no more. */
static bool drain(struct kube_watch *w, int64_t until_ms, bool *ret_any) {
    for (;;) {
        char *text;
        size_t len;
        struct sl_err err = SL_ERR_INIT;
        int rc = kube_framer_next(&w->framer, &text, &len, &err);
        w->hungry = rc == 0;
        if (rc == 0)
            return true;
        *ret_any = true;
        if (rc < 0) {
            broken(w, &err);
            return false;
        }
        if (!(w->phase == LISTING ? item(w, text, len) : frame(w, text, len)))
            return false;
        if (sl_now_mono_ms() >= until_ms)
            return true;
    }
}

bool kube_watch_run(struct kube_watch *w, int64_t now, int64_t until_ms) {
    bool any = false;
    if (w->phase == IDLE) {
        if (now >= w->next_ms)
            start(w, now);
        return false;
    }
    if (!drain(w, until_ms, &any))
        return any;
    if (w->hungry && w->over) {
        stream_over(w);
        return true;
    }
    if (w->t.paused && kube_framer_pending(&w->framer) <= client(w)->tuning.backlog / 2)
        kube_transfer_resume(&w->t);
    else if (w->t.paused && w->hungry)
        kube_transfer_resume(&w->t);
    if (now >= w->deadline_ms && !w->answered &&
        kube_transfer_status(&w->t)) { /* a quiet watch: headers came, no event yet */
        w->answered = true;
        w->deadline_ms = w->end_ms;
        w->heard_ms = now;
    }
    if (now >= w->deadline_ms) {
        w->retry_after_ms = 0;
        fail(w, w->next, "timeout", "the server did not answer or did not end the watch in time");
        return true;
    }
    return any;
}

/* ---- life ---- */

struct sl_watch *kube_watch_start(struct sl_cluster *cluster, const struct sl_resource *resource,
                                  const struct sl_watch_options *options, sl_watch_fn fn, void *payload) {
    struct kube_client *c = kube_client_of(cluster);
    struct kube_watch *w = sl_xalloc(sizeof *w);
    w->base.cluster = cluster;
    w->t = (struct kube_transfer){.client = c, .repeatable = true, .on_data = on_data, .on_done = on_done};
    w->resource = resource;
    w->ns = sl_xstrdup(options->ns);
    w->label_selector = sl_xstrdup(options->label_selector);
    w->field_selector = sl_xstrdup(options->field_selector);
    w->metadata_only = options->metadata_only;
    w->optional = options->optional;
    w->fn = fn;
    w->payload = payload;
    w->error_body.max = (size_t)64 << 10;
    w->next_ms = w->heard_ms = sl_now_mono_ms();
    w->failed_ms = w->expired_ms = INT64_MIN / 2;
    kube_framer_init(&w->framer, KUBE_LINES, KUBE_MAX_OBJECT);
    SL_GROW(c->watches, c->watch_cap, c->watch_count);
    c->watches[c->watch_count++] = w;
    return &w->base;
}

void kube_watch_free(struct kube_watch *w) {
    kube_transfer_stop(&w->t);
    kube_framer_done(&w->framer);
    sl_buf_done(&w->error_body);
    sl_map_done(&w->known, free);
    free(w->ns);
    free(w->label_selector);
    free(w->field_selector);
    free(w->rv);
    free(w->cont);
    free(w->path);
    free(w);
}
