/*
 * A scripted HTTP/1.1 server on a loopback port, for byte-level faults. The script is a list of steps; a request takes
 * the first unused step whose `match` is found in "METHOD TARGET auth=TOKEN body=BODY". A request that no step wants is
 * answered with 599 and noted. Each connection has a thread of its own; nothing here asserts, since that belongs to the
 * main thread: look at script_log() and script_unused() there.
 */
#ifndef TESTS_HTTP_SCRIPT_H
#define TESTS_HTTP_SCRIPT_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum script_end {
    SCRIPT_KEEP,  /* the answer is complete, the connection stays */
    SCRIPT_CLOSE, /* orderly close behind the answer */
    SCRIPT_RESET, /* RST behind what was sent */
    SCRIPT_HOLD,  /* a stream that stays open until script_release or the end */
};
struct script_step {
    const char *match;
    int status;          /* 0: not a byte is sent */
    const char *headers; /* lines ending in \r\n; NULL */
    const char *body;
    size_t piece; /* body in chunks of this many bytes, each in a packet of its own; 0: Content-Length and at once */
    size_t cut;   /* only so many bytes of the body are sent; 0: all */
    int delay_ms; /* before the answer */
    enum script_end end;
    bool always; /* may be used again and again */
    bool used;
};
struct script {
    struct script_step *steps;
    size_t count;
    int listener, port;
    pthread_t acceptor, threads[256];
    int fds[256];
    size_t thread_count;
    pthread_mutex_t lock;
    bool stop;
    unsigned releases; /* SCRIPT_HOLD streams end when this moves */
    unsigned inside, most_inside;
    char log[1 << 16];
};
struct script_conn {
    struct script *s;
    int fd;
    size_t slot;
};

static inline void script_sleep_ms(int ms) {
    struct timespec t = {ms / 1000, (ms % 1000) * 1000000L};
    nanosleep(&t, NULL);
}

static inline bool script_send(int fd, const char *data, size_t len) {
    while (len) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        data += n;
        len -= (size_t)n;
    }
    return true;
}

static inline void script_note(struct script *s, const char *text) {
    size_t n = strlen(s->log);
    snprintf(s->log + n, sizeof s->log - n, "%s\n", text);
}

static inline struct script_step *script_find(struct script *s, const char *request, const char *shown) {
    pthread_mutex_lock(&s->lock);
    struct script_step *found = NULL;
    for (size_t i = 0; i < s->count && !found; i++) {
        struct script_step *step = &s->steps[i];
        if ((!step->used || step->always) && strstr(request, step->match))
            found = step;
    }
    if (found)
        found->used = true;
    else
        script_note(s, "UNEXPECTED");
    script_note(s, shown);
    s->inside++;
    if (s->inside > s->most_inside)
        s->most_inside = s->inside;
    pthread_mutex_unlock(&s->lock);
    return found;
}

static inline bool script_body(int fd, const struct script_step *step) {
    size_t len = step->body ? strlen(step->body) : 0, all = len;
    if (step->cut && step->cut < len)
        len = step->cut;
    if (!step->piece)
        return script_send(fd, step->body, len);
    for (size_t at = 0; at < len; at += step->piece) {
        size_t n = len - at < step->piece ? len - at : step->piece;
        char head[32];
        snprintf(head, sizeof head, "%zx\r\n", n);
        if (!script_send(fd, head, strlen(head)) || !script_send(fd, step->body + at, n) || !script_send(fd, "\r\n", 2))
            return false;
    }
    return len < all || step->end == SCRIPT_HOLD || script_send(fd, "0\r\n\r\n", 5);
}

/* False when the connection is over. */
static inline bool script_answer(struct script_conn *c, const char *request, const char *shown) {
    static const struct script_step nothing = {.status = 599, .body = ""};
    struct script *s = c->s;
    pthread_mutex_lock(&s->lock);
    unsigned releases = s->releases;
    pthread_mutex_unlock(&s->lock);
    const struct script_step *step = script_find(s, request, shown);
    if (!step)
        step = &nothing;
    if (step->delay_ms)
        script_sleep_ms(step->delay_ms);
    bool fine = true;
    if (step->status) {
        char head[512];
        if (step->piece)
            snprintf(head, sizeof head, "HTTP/1.1 %d X\r\n%sTransfer-Encoding: chunked\r\n\r\n", step->status,
                     step->headers ? step->headers : "");
        else
            snprintf(head, sizeof head, "HTTP/1.1 %d X\r\n%sContent-Length: %zu\r\n\r\n", step->status,
                     step->headers ? step->headers : "", step->body ? strlen(step->body) : 0);
        fine = script_send(c->fd, head, strlen(head)) && script_body(c->fd, step);
    }
    for (bool held = step->end == SCRIPT_HOLD; held;) {
        script_sleep_ms(2);
        pthread_mutex_lock(&s->lock);
        held = !s->stop && s->releases == releases;
        pthread_mutex_unlock(&s->lock);
        if (!held && step->piece && step->status)
            script_send(c->fd, "0\r\n\r\n", 5);
    }
    pthread_mutex_lock(&s->lock);
    s->inside--;
    pthread_mutex_unlock(&s->lock);
    if (step->end == SCRIPT_RESET) {
        struct linger hard = {1, 0};
        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    }
    return fine && (step->end == SCRIPT_KEEP || step->end == SCRIPT_HOLD);
}

static inline const char *script_header(const char *head, const char *name, char *out, size_t size) {
    const char *at = strcasestr(head, name);
    out[0] = 0;
    if (at)
        snprintf(out, size, "%.*s", (int)strcspn(at + strlen(name), "\r"), at + strlen(name));
    return out;
}

static inline void *script_serve(void *payload) {
    struct script_conn *c = payload;
    enum { MAX = 1 << 18 };
    char *in = malloc(MAX), *request = malloc(2 * MAX), *shown = malloc(MAX);
    size_t have = 0;
    bool on = true;
    while (on) {
        char *end;
        in[have] = 0;
        while (!(end = strstr(in, "\r\n\r\n"))) {
            ssize_t n = have + 1 < MAX ? recv(c->fd, in + have, MAX - have - 1, 0) : 0;
            if (n <= 0)
                goto out;
            have += (size_t)n;
            in[have] = 0;
        }
        char auth[256], length[32];
        *end = 0;
        script_header(in, "\r\nAuthorization: Bearer ", auth, sizeof auth);
        script_header(in, "\r\nContent-Length: ", length, sizeof length);
        size_t head = (size_t)(end - in) + 4, body = strtoul(length, NULL, 10);
        while (have < head + body) {
            ssize_t n = have + 1 < MAX ? recv(c->fd, in + have, MAX - have - 1, 0) : 0;
            if (n <= 0)
                goto out;
            have += (size_t)n;
        }
        size_t line = strcspn(in, "\r");
        snprintf(shown, MAX, "%.*s", (int)(line > 9 ? line - 9 : line), in); /* without " HTTP/1.1" */
        snprintf(request, (size_t)2 * MAX, "%s auth=%s body=%.*s", shown, auth, (int)body, in + head);
        on = script_answer(c, request, shown);
        memmove(in, in + head + body, have - head - body);
        have -= head + body;
    }
out:
    pthread_mutex_lock(&c->s->lock);
    c->s->fds[c->slot] = -1;
    close(c->fd);
    pthread_mutex_unlock(&c->s->lock);
    free(in);
    free(request);
    free(shown);
    free(c);
    return NULL;
}

static inline void *script_accept(void *payload) {
    struct script *s = payload;
    for (;;) {
        int fd = accept(s->listener, NULL, NULL), one = 1;
        if (fd < 0)
            return NULL;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct script_conn *c = malloc(sizeof *c);
        pthread_mutex_lock(&s->lock);
        *c = (struct script_conn){s, fd, s->thread_count};
        bool full = s->stop || s->thread_count == sizeof s->threads / sizeof s->threads[0];
        if (!full) {
            s->fds[s->thread_count] = fd;
            pthread_create(&s->threads[s->thread_count++], NULL, script_serve, c);
        }
        pthread_mutex_unlock(&s->lock);
        if (full) {
            close(fd);
            free(c);
        }
    }
}

/* port 0: any. Returns false when the port cannot be had. */
static inline bool script_start(struct script *s, struct script_step *steps, size_t count, int port) {
    memset(s, 0, sizeof *s);
    s->steps = steps;
    s->count = count;
    pthread_mutex_init(&s->lock, NULL);
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1;
    setsockopt(s->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    if (bind(s->listener, (struct sockaddr *)&a, sizeof a) || listen(s->listener, 64) ||
        getsockname(s->listener, (struct sockaddr *)&a, &len)) {
        close(s->listener);
        return false;
    }
    s->port = ntohs(a.sin_port);
    return pthread_create(&s->acceptor, NULL, script_accept, s) == 0;
}

/* Lets the streams that are held end. */
static inline void script_release(struct script *s) {
    pthread_mutex_lock(&s->lock);
    s->releases++;
    pthread_mutex_unlock(&s->lock);
}

static inline void script_stop(struct script *s) {
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    shutdown(s->listener, SHUT_RDWR);
    for (size_t i = 0; i < s->thread_count; i++) {
        if (s->fds[i] >= 0)
            shutdown(s->fds[i], SHUT_RDWR);
    }
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->acceptor, NULL);
    for (size_t i = 0; i < s->thread_count; i++)
        pthread_join(s->threads[i], NULL);
    close(s->listener); /* the lock stays: what was seen is read after this */
}

static inline size_t script_unused(struct script *s) {
    size_t n = 0;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->count; i++)
        n += !s->steps[i].used;
    pthread_mutex_unlock(&s->lock);
    return n;
}
/* How many requests had text in their line. */
static inline size_t script_seen(struct script *s, const char *text) {
    size_t n = 0;
    pthread_mutex_lock(&s->lock);
    for (const char *p = s->log; (p = strstr(p, text)); p++)
        n++;
    pthread_mutex_unlock(&s->lock);
    return n;
}

#endif
