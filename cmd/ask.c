/* The answer may come after nobody waits for it any more: whoever is last frees it. */
#include "ask.h"

#include <stdlib.h>

#include "sluice/base/clock.h"
#include "sluice/base/mem.h"

struct answer {
    bool done, given_up;
    int code;
    struct sl_json *object;
    char *text;
};

static void have(void *payload, const struct sl_reply *reply) {
    struct answer *a = payload;
    if (a->given_up) {
        free(a);
        return;
    }
    a->done = true;
    a->code = reply->code;
    a->object = sl_json_ref(reply->object);
    a->text = sl_xstrdup(reply->text);
}

int ask_cluster(struct sl_cluster *c, struct sl_request request, int64_t answer_by, struct sl_json **ret,
                struct sl_err *err) {
    struct answer *a = sl_xalloc(sizeof *a);
    request.done = have;
    request.payload = a;
    sl_cluster_send(c, &request);
    do
        sl_cluster_step(c, 50);
    while (!a->done && sl_now_mono_ms() < answer_by);
    if (!a->done) {
        a->given_up = true;
        return sl_err_set(err, SL_TIMEOUT, "the API server did not answer in time");
    }
    int code = a->code;
    if (code) {
        sl_err_set(err, code, "%s", a->text);
        sl_json_unref(a->object);
    } else {
        *ret = a->object;
    }
    free(a->text);
    free(a);
    return code;
}
