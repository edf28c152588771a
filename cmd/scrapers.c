/*
 * A slot per token: FREE -> ASKED (by the metrics thread) -> SENT (by the loop) -> KNOWN (by the answer) -> ASKED when
 * it has become old. Only a slot that is FREE or KNOWN is given to another token, so an answer always finds its own.
 */
#include "scrapers.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sluice/base/clock.h"
#include "sluice/base/json.h"
#include "sluice/base/log.h"
#include "sluice/base/mem.h"

#define MAX_TOKENS   64
#define MAX_TOKEN    ((size_t)12 << 10)
#define ALLOWED_MS   60000
#define REFUSED_MS   30000  /* a right that was just granted works soon */
#define GRACE_MS     600000 /* after the last verdict that let it in */
#define UNKNOWN_MS   1000   /* no verdict: the next scrape asks again, a hasty client does not */
#define PATIENCE_MS  4000   /* less than the time limit of a request */
#define COMPLAINT_MS 60000

static const struct sl_resource token_reviews = {"authentication.k8s.io", "v1", "tokenreviews", "TokenReview", false};
static const struct sl_resource access_reviews = {"authorization.k8s.io", "v1", "subjectaccessreviews",
                                                  "SubjectAccessReview", false};

enum slot_state { FREE, ASKED, SENT, KNOWN };

struct slot {
    struct scrapers *owner;
    char *token;
    enum slot_state state;
    int status;         /* KNOWN */
    int64_t until_ms;   /* KNOWN */
    int64_t allowed_ms; /* when it was let in last; INT64_MIN: never, or refused since */
};

struct scrapers {
    struct sl_cluster *cluster;
    pthread_mutex_t lock;
    pthread_cond_t known;
    bool closed;
    atomic_bool asked;     /* some slot is ASKED: the loop looks at this in every turn, and at the slots only then */
    int64_t complained_ms; /* loop thread; INT64_MIN: never */
    struct slot slots[MAX_TOKENS];
};

struct scrapers *scrapers_new(struct sl_cluster *cluster) {
    struct scrapers *s = sl_xalloc(sizeof *s);
    s->cluster = cluster;
    s->complained_ms = INT64_MIN;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->known, &attr);
    pthread_condattr_destroy(&attr);
    for (size_t i = 0; i < MAX_TOKENS; i++)
        s->slots[i].owner = s;
    return s;
}

/* The token's slot, or one that may become it: an empty one, else the one whose verdict ends first. NULL: all are being
 * asked for. */
static struct slot *slot_of(struct scrapers *s, const char *token) {
    struct slot *best = NULL;
    for (size_t i = 0; i < MAX_TOKENS; i++) {
        struct slot *t = &s->slots[i];
        if (t->token && !strcmp(t->token, token))
            return t;
        if (t->state == FREE ? !best || best->state != FREE
                             : t->state == KNOWN && (!best || (best->state == KNOWN && t->until_ms < best->until_ms)))
            best = t;
    }
    if (best) {
        free(best->token);
        best->token = sl_xstrdup(token);
        best->state = FREE;
        best->allowed_ms = INT64_MIN;
    }
    return best;
}

static int wait_known(struct scrapers *s, struct slot *t, const char *token) {
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += PATIENCE_MS / 1000;
    while (!s->closed && t->state != KNOWN && !strcmp(t->token, token))
        if (pthread_cond_timedwait(&s->known, &s->lock, &end) == ETIMEDOUT)
            break;
    return !s->closed && t->state == KNOWN && !strcmp(t->token, token) ? t->status : 503;
}

int scrapers_check(void *payload, const char *token) {
    struct scrapers *s = payload;
    if (!token || !*token || strlen(token) > MAX_TOKEN)
        return 401;
    pthread_mutex_lock(&s->lock);
    struct slot *t = s->closed ? NULL : slot_of(s, token);
    int status = 503;
    if (t) {
        int64_t now = sl_now_mono_ms();
        if (t->state == FREE || (t->state == KNOWN && t->until_ms <= now)) {
            t->state = ASKED;
            atomic_store(&s->asked, true);
            sl_cluster_wakeup(s->cluster);
        }
        bool grace = t->allowed_ms != INT64_MIN && now - t->allowed_ms < GRACE_MS;
        status = grace ? 200 : wait_known(s, t, token);
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

static void learn(struct slot *t, int status, int64_t ms) {
    struct scrapers *s = t->owner;
    pthread_mutex_lock(&s->lock);
    t->state = KNOWN;
    t->status = status;
    t->until_ms = sl_now_mono_ms() + ms;
    if (status == 200)
        t->allowed_ms = sl_now_mono_ms();
    else if (status != 503)
        t->allowed_ms = INT64_MIN;
    pthread_cond_broadcast(&s->known);
    pthread_mutex_unlock(&s->lock);
}

/* No verdict. Said now and then: whoever looks for missing metrics finds the cause here. */
static void learn_nothing(struct slot *t, const struct sl_resource *asked, const struct sl_reply *reply) {
    struct scrapers *s = t->owner;
    int64_t now = sl_now_mono_ms();
    if (reply->code != SL_CANCELLED && (s->complained_ms == INT64_MIN || now - s->complained_ms >= COMPLAINT_MS)) {
        s->complained_ms = now;
        SL_LOG(WARN, "a reader of /metrics got 503: the API server did not say whether it may",
               SL_STR("asked", asked->plural), SL_STR("error", reply->text));
    }
    learn(t, 503, UNKNOWN_MS);
}

static void on_access(void *payload, const struct sl_reply *reply) {
    struct slot *t = payload;
    if (reply->code || !reply->object) {
        learn_nothing(t, &access_reviews, reply);
        return;
    }
    bool allowed = sl_json_get_bool(sl_json_get(reply->object, "status"), "allowed", false);
    learn(t, allowed ? 200 : 403, allowed ? ALLOWED_MS : REFUSED_MS);
}

static struct sl_json *review(const struct sl_resource *resource, struct sl_json **ret_spec) {
    struct sl_json *o = sl_json_new_object();
    SL_AUTO_FREE char *version = sl_xprintf("%s/%s", resource->group, resource->version);
    sl_json_set_str(o, "apiVersion", version);
    sl_json_set_str(o, "kind", resource->kind);
    *ret_spec = sl_json_make_object(o, "spec");
    return o;
}

static void ask(struct slot *t, const struct sl_resource *resource, struct sl_json *body, sl_reply_fn done) {
    sl_cluster_send(
        t->owner->cluster,
        &(struct sl_request){
            .verb = SL_CREATE, .resource = resource, .body = body, .lane = SL_LANE_ACCESS, .done = done, .payload = t});
}

static void on_token(void *payload, const struct sl_reply *reply) {
    struct slot *t = payload;
    if (reply->code || !reply->object) {
        learn_nothing(t, &token_reviews, reply);
        return;
    }
    const struct sl_json *status = sl_json_get(reply->object, "status");
    if (!sl_json_get_bool(status, "authenticated", false)) {
        learn(t, 401, REFUSED_MS);
        return;
    }
    const struct sl_json *user = sl_json_get(status, "user");
    struct sl_json *spec, *body = review(&access_reviews, &spec);
    sl_json_set_str(spec, "user", sl_json_get_str(user, "username", ""));
    static const char *const copied[] = {"uid", "groups", "extra"};
    for (size_t i = 0; i < SL_COUNT(copied); i++)
        if (sl_json_get(user, copied[i]))
            sl_json_set(spec, copied[i], sl_json_copy(sl_json_get(user, copied[i])));
    struct sl_json *what = sl_json_make_object(spec, "nonResourceAttributes");
    sl_json_set_str(what, "path", "/metrics");
    sl_json_set_str(what, "verb", "get");
    ask(t, &access_reviews, body, on_access);
}

void scrapers_tick(struct scrapers *s) {
    if (!atomic_exchange(&s->asked, false))
        return;
    for (size_t i = 0; i < MAX_TOKENS; i++) {
        struct slot *t = &s->slots[i];
        pthread_mutex_lock(&s->lock);
        struct sl_json *spec, *body = NULL;
        if (t->state == ASKED) {
            t->state = SENT;
            body = review(&token_reviews, &spec);
            sl_json_set_str(spec, "token", t->token);
        }
        pthread_mutex_unlock(&s->lock);
        if (body)
            ask(t, &token_reviews, body, on_token);
    }
}

void scrapers_close(struct scrapers *s) {
    pthread_mutex_lock(&s->lock);
    s->closed = true;
    pthread_cond_broadcast(&s->known);
    pthread_mutex_unlock(&s->lock);
}

void scrapers_free(struct scrapers *s) {
    if (!s)
        return;
    for (size_t i = 0; i < MAX_TOKENS; i++)
        free(s->slots[i].token);
    pthread_cond_destroy(&s->known);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
