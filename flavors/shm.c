/*
 * /dev/shm. The container runtime gives a pod 64 MiB, which NCCL and data loaders overrun; a memory volume of a useful
 * size is planned here. Planning reads the template once into small facts and walks the rules in their order: the first
 * that applies decides.
 */
#include "sluice/flavors/shm.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/api/quantity.h"
#include "sluice/base/mem.h"
#include "sluice/base/num.h"

#define MI         ((int64_t)1 << 20)
#define GI         ((int64_t)1 << 30)
#define USELESS    (64 * MI) /* what the runtime gives anyway */
#define MOUNT_PATH "/dev/shm"

static void SL_PRINTF(2, 3) warn(struct sl_shm_plan *p, const char *format, ...) {
    struct sl_buf b = SL_BUF_INIT(2048);
    va_list args;
    va_start(args, format);
    sl_buf_vprintf(&b, format, args);
    va_end(args);
    sl_json_append(p->warnings, sl_json_new_str(sl_buf_text(&b)));
    sl_buf_done(&b);
}

/* ---- what is said on the levels ---- */

enum size_kind { SIZE_ABSENT, SIZE_AUTO, SIZE_OFF, SIZE_BYTES, SIZE_PERCENT };
struct size {
    enum size_kind kind;
    int64_t value;
};

static bool bytes_parse(const char *text, int64_t *ret) {
    struct sl_quantity q;
    if (sl_quantity_parse(text, &q, NULL) < 0 || q.nano < 0)
        return false;
    q.nano -= q.nano % 1000000000; /* rounded down: a bound must not grow */
    *ret = sl_quantity_amount(&q, "memory");
    return true;
}

static bool size_parse(const char *text, struct size *ret) {
    size_t n = strlen(text);
    int64_t v;
    if (!strcmp(text, "auto"))
        *ret = (struct size){SIZE_AUTO, 0};
    else if (!strcmp(text, "off"))
        *ret = (struct size){SIZE_OFF, 0};
    else if (n > 1 && text[n - 1] == '%' && sl_parse_i64(text, n - 1, &v, NULL) == 0 && v >= 1 && v <= 100)
        *ret = (struct size){SIZE_PERCENT, v};
    else if (bytes_parse(text, &v))
        *ret = (struct size){SIZE_BYTES, v};
    else
        return false;
    return true;
}

/* The levels, the strongest first. User levels are JSON maps, the others decoded labels. */
enum level { LEVEL_TEMPLATE, LEVEL_JOB, LEVEL_FLAVOR, LEVEL_LOCALQUEUE, LEVEL_NAMESPACE, LEVEL_CLUSTERQUEUE, LEVELS };

static const char *label_text(const struct sl_labels *labels, const char *key) {
    return labels ? sl_labels_get(labels, key) : NULL;
}

/* The value on which all candidate flavors agree, or NULL. */
static const char *flavor_text(const struct sl_shm_input *in, const char *key) {
    const char *first = in->n_flavors ? label_text(in->flavor_annotations[0], key) : NULL;
    for (size_t i = 1; first && i < in->n_flavors; i++) {
        const char *other = label_text(in->flavor_annotations[i], key);
        if (!other || strcmp(first, other))
            return NULL;
    }
    return first;
}

static const char *level_text(const struct sl_shm_input *in, enum level level, const char *key) {
    switch (level) {
    case LEVEL_TEMPLATE:
        return sl_json_str(sl_json_get(sl_json_path(in->pod_template, "metadata.annotations"), key), NULL);
    case LEVEL_JOB: return sl_json_str(sl_json_get(in->job_annotations, key), NULL);
    case LEVEL_FLAVOR: return flavor_text(in, key);
    case LEVEL_LOCALQUEUE: return label_text(in->localqueue, key);
    case LEVEL_NAMESPACE: return label_text(in->ns, key);
    case LEVEL_CLUSTERQUEUE: return label_text(in->clusterqueue, key);
    case LEVELS: break;
    }
    return NULL;
}

/* Users hear about what cannot be read; values of administrators are their own objects' matter. */
static void warn_unread(struct sl_shm_plan *p, enum level level, const char *key, const char *text, const char *want) {
    if (level == LEVEL_TEMPLATE || level == LEVEL_JOB)
        warn(p, "annotation %s: \"%.40s\" is ignored: must be %s", key, text, want);
}

static struct size effective_size(const struct sl_shm_input *in, const struct sl_shm_config *config,
                                  struct sl_shm_plan *p) {
    struct size s;
    for (enum level l = LEVEL_TEMPLATE; l < LEVELS; l++) {
        const char *text = level_text(in, l, SL_SHM_SIZE_ANNOTATION);
        if (!text)
            continue;
        if (size_parse(text, &s))
            return s;
        warn_unread(p, l, SL_SHM_SIZE_ANNOTATION, text, "auto, off, a quantity or 1% to 100%");
    }
    if (config->size && size_parse(config->size, &s))
        return s;
    return (struct size){SIZE_AUTO, 0};
}

static bool scope_is_gpu(const struct sl_shm_input *in, const struct sl_shm_config *config, struct sl_shm_plan *p) {
    for (enum level l = LEVEL_TEMPLATE; l < LEVELS; l++) {
        const char *text = level_text(in, l, SL_SHM_SCOPE_ANNOTATION);
        if (!text)
            continue;
        if (!strcmp(text, "gpu") || !strcmp(text, "pod"))
            return !strcmp(text, "gpu");
        warn_unread(p, l, SL_SHM_SCOPE_ANNOTATION, text, "pod or gpu");
    }
    return config->scope && !strcmp(config->scope, "gpu");
}

static void lower(int64_t *hard, const char *text) {
    int64_t v;
    if (text && bytes_parse(text, &v) && v < *hard)
        *hard = v;
}

static int64_t hard_limit(const struct sl_shm_input *in, const struct sl_shm_config *config, struct sl_shm_plan *p) {
    int64_t hard = config->max, v;
    for (enum level l = LEVEL_TEMPLATE; l < LEVELS; l++) {
        if (l == LEVEL_FLAVOR) { /* any of them may be the one */
            for (size_t i = 0; i < in->n_flavors; i++)
                lower(&hard, label_text(in->flavor_annotations[i], SL_SHM_MAX_ANNOTATION));
            continue;
        }
        const char *text = level_text(in, l, SL_SHM_MAX_ANNOTATION);
        if (text && !bytes_parse(text, &v))
            warn_unread(p, l, SL_SHM_MAX_ANNOTATION, text, "a quantity");
        lower(&hard, text);
    }
    return hard;
}

/* ---- what the template has ---- */

/* Whether `path`, without doubled slashes, "." parts and slashes at the end, is `want`. */
static bool path_is(const char *path, const char *want) {
    const char *w = want;
    if (!path || *path != '/')
        return false;
    while (*path) {
        while (*path == '/')
            path++;
        size_t n = strcspn(path, "/");
        if (n == 0)
            break;
        if (n == 1 && *path == '.') {
            path++;
            continue;
        }
        if (*w != '/' || strncmp(w + 1, path, n) || (w[n + 1] && w[n + 1] != '/'))
            return false;
        w += n + 1;
        path += n;
    }
    return !*w;
}

static const struct sl_json *volume_named(const struct sl_json *spec, const char *name) {
    SL_JSON_ITEMS (sl_json_get(spec, "volumes"), e)
        if (!strcmp(sl_json_get_str(e.value, "name", ""), name))
            return e.value;
    return NULL;
}

static bool memory_volume(const struct sl_json *volume) {
    const struct sl_json *dir = sl_json_get(volume, "emptyDir");
    return sl_json_is_object(dir) && !strcmp(sl_json_get_str(dir, "medium", ""), "Memory");
}

/* What stands at /dev/shm in a container: its mount, or its block device, or NULL. */
static const struct sl_json *shm_mount(const struct sl_json *container) {
    SL_JSON_ITEMS (sl_json_get(container, "volumeMounts"), e)
        if (path_is(sl_json_get_str(e.value, "mountPath", NULL), MOUNT_PATH))
            return e.value;
    SL_JSON_ITEMS (sl_json_get(container, "volumeDevices"), e)
        if (path_is(sl_json_get_str(e.value, "devicePath", NULL), MOUNT_PATH))
            return e.value;
    return NULL;
}

static bool mounts_host_dev(const struct sl_json *spec, const struct sl_json *container) {
    SL_JSON_ITEMS (sl_json_get(container, "volumeMounts"), e) {
        if (!path_is(sl_json_get_str(e.value, "mountPath", NULL), "/dev"))
            continue;
        const struct sl_json *volume = volume_named(spec, sl_json_get_str(e.value, "name", ""));
        if (path_is(sl_json_path_str(volume, "hostPath.path", NULL), "/dev"))
            return true;
    }
    return false;
}

static bool is_sidecar(const struct sl_json *container) {
    return !strcmp(sl_json_get_str(container, "restartPolicy", ""), "Always");
}

/* Every container with what the rules ask about it: for (each) { c.container, c.init, c.i } */
struct each {
    const struct sl_json *lists[2];
    const struct sl_json *container;
    bool init;
    size_t i;
};
static bool each_step(struct each *e) {
    for (;;) {
        e->container = sl_json_at(e->lists[e->init], e->i);
        if (e->container || e->init)
            return e->container != NULL;
        e->init = true;
        e->i = 0;
    }
}
#define EACH_CONTAINER(spec, e)                                                                                        \
    for (struct each e = {{sl_json_get(spec, "containers"), sl_json_get(spec, "initContainers")}, NULL, false, 0};     \
         each_step(&e); e.i++)

static bool is_target(const struct sl_shm_input *in, const struct sl_gpu_use *use, bool scope_gpu,
                      const struct each *c) {
    if (!scope_gpu)
        return true;
    if (use->fractional)
        return !c->init || is_sidecar(c->container);
    return sl_gpu_container(in->rules, c->container);
}

/* ---- how much ---- */

struct memory {
    int64_t bytes; /* INT64_MAX: not known */
    bool from_limits;
};

static int64_t quantity_bytes(const struct sl_json *j) { /* -1: absent */
    struct sl_quantity q;
    if (sl_json_is_null(j) || sl_quantity_from_json(j, &q, NULL) < 0 || q.nano < 0)
        return -1;
    return sl_quantity_amount(&q, "memory");
}

static struct memory pod_memory(const struct sl_json *spec) {
    int64_t limit = quantity_bytes(sl_json_path(spec, "resources.limits.memory")), limits = 0, requests = 0;
    if (limit >= 0)
        return (struct memory){limit, true};
    bool all = true;
    EACH_CONTAINER(spec, c) {
        if (c.init && !is_sidecar(c.container))
            continue;
        int64_t l = quantity_bytes(sl_json_path(c.container, "resources.limits.memory"));
        int64_t r = quantity_bytes(sl_json_path(c.container, "resources.requests.memory"));
        all &= l >= 0;
        limits = sl_sat_add(limits, l >= 0 ? l : 0);
        requests = sl_sat_add(requests, r >= 0 ? r : l >= 0 ? l : 0);
    }
    if (all && sl_json_len(sl_json_get(spec, "containers")))
        return (struct memory){limits, true};
    return (struct memory){requests > 0 ? requests : INT64_MAX, false};
}

static int64_t min64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The size in bytes, a multiple of MiB; *above_cap: more than half of the pod's memory. */
static int64_t shm_size(struct size size, int64_t devices, const struct memory *m, int64_t hard,
                        const struct sl_shm_config *config, bool *above_cap) {
    int64_t cap = m->bytes == INT64_MAX ? INT64_MAX : m->bytes / 2, bytes;
    if (m->bytes == INT64_MAX)
        hard = min64(hard, config->max_without_limits);
    if (size.kind == SIZE_PERCENT && m->bytes == INT64_MAX)
        size.kind = SIZE_AUTO;
    if (size.kind == SIZE_PERCENT)
        bytes = min64(m->bytes / 100 * size.value + m->bytes % 100 * size.value / 100, hard);
    else if (size.kind == SIZE_BYTES)
        bytes = min64(min64(size.value, hard), m->from_limits ? m->bytes : INT64_MAX);
    else
        bytes = min64(min64(sl_sat_add(GI, sl_sat_mul(2 * GI, devices)), cap), hard);
    bytes -= bytes % MI;
    *above_cap = bytes > cap;
    return bytes;
}

/* ---- the rules ---- */

static bool windows(const struct sl_json *spec) {
    return !strcmp(sl_json_path_str(spec, "os.name", ""), "windows") ||
           !strcmp(sl_json_str(sl_json_get(sl_json_get(spec, "nodeSelector"), "kubernetes.io/os"), ""), "windows");
}

static bool selects_mps(const struct sl_json *pod_template) {
    const struct sl_json *selector = sl_json_path(pod_template, "spec.nodeSelector");
    return !strcmp(sl_json_get_str(sl_json_path(pod_template, "metadata.annotations"), "mps", ""), "true") ||
           !strcmp(sl_json_get_str(selector, "nvidia.com/gpu.sharing-strategy", ""), "mps") ||
           !strcmp(sl_json_get_str(selector, "cloud.google.com/gke-gpu-sharing-strategy", ""), "mps");
}

static bool flavor_is_mps(const struct sl_shm_input *in) {
    for (size_t i = 0; i < in->n_flavors; i++)
        if (sl_gpu_flavor_sharing(in->flavor_labels[i], in->flavor_annotations[i]) == SL_SHARING_MPS)
            return true;
    return false;
}

/* Volumes of others at /dev/shm that will not do (W13, W14). */
static void warn_volume(const struct sl_json *volume, struct sl_shm_plan *p) {
    const struct sl_json *dir = sl_json_get(volume, "emptyDir");
    if (!sl_json_is_object(dir))
        return;
    const char *name = sl_json_get_str(volume, "name", "");
    int64_t limit = quantity_bytes(sl_json_get(dir, "sizeLimit"));
    if (!memory_volume(volume))
        warn(p, "W14: volume %s at /dev/shm is on disk and slow; give its emptyDir medium Memory", name);
    else if (limit <= 0)
        warn(p, "W13: volume %s at /dev/shm has no sizeLimit and may fill the pod's memory", name);
    else if (limit < USELESS)
        warn(p, "W14: volume %s at /dev/shm is smaller than the 64Mi that a pod has without it", name);
}

/* Name of the volume to use: ours that is there (memory, so it is from us or as good), or the first free one; NULL: all
 * taken. */
static const char *volume_name(const struct sl_json *spec, bool *is_new) {
    static const char *const names[] = {SL_SHM_VOLUME,      SL_SHM_VOLUME "-1", SL_SHM_VOLUME "-2", SL_SHM_VOLUME "-3",
                                        SL_SHM_VOLUME "-4", SL_SHM_VOLUME "-5", SL_SHM_VOLUME "-6", SL_SHM_VOLUME "-7",
                                        SL_SHM_VOLUME "-8", SL_SHM_VOLUME "-9"};
    for (size_t i = 0; i < SL_COUNT(names); i++) {
        const struct sl_json *volume = volume_named(spec, names[i]);
        *is_new = !volume;
        if (!volume || memory_volume(volume))
            return names[i];
    }
    return NULL;
}

/* Rules about mounts that are there already. True: decided. Otherwise *share is the volume that a GPU container has at
 * /dev/shm and the others must get too, or NULL. */
static bool existing_mounts(const struct sl_shm_input *in, const struct sl_gpu_use *use, bool scope_gpu,
                            struct sl_shm_plan *p, const char **share) {
    const struct sl_json *spec = sl_json_get(in->pod_template, "spec"), *first = NULL;
    bool all = true, shareable = true;
    *share = NULL;
    EACH_CONTAINER(spec, c) {
        const struct sl_json *mount = shm_mount(c.container);
        if (!mount) {
            all &= !is_target(in, use, scope_gpu, &c);
            continue;
        }
        const char *name = sl_json_get_str(mount, "name", "");
        if (is_target(in, use, scope_gpu, &c) && !first)
            first = volume_named(spec, name);
        if (!(use->fractional ? !c.init : sl_gpu_container(in->rules, c.container)))
            continue;
        shareable &= memory_volume(volume_named(spec, name)) && !*sl_json_get_str(mount, "subPath", "") &&
                     !*sl_json_get_str(mount, "subPathExpr", "") && (!*share || !strcmp(*share, name));
        *share = name;
    }
    if (all) {
        warn_volume(first, p);
        return true;
    }
    return *share && !shareable;
}

static void plan_mounts(const struct sl_shm_input *in, const struct sl_gpu_use *use, bool scope_gpu,
                        struct sl_shm_plan *p) {
    const struct sl_json *spec = sl_json_get(in->pod_template, "spec");
    p->regular = sl_xalloc((sl_json_len(sl_json_get(spec, "containers")) + 1) * sizeof *p->regular);
    p->init = sl_xalloc((sl_json_len(sl_json_get(spec, "initContainers")) + 1) * sizeof *p->init);
    EACH_CONTAINER(spec, c) {
        const struct sl_json *mounts = sl_json_get(c.container, "volumeMounts");
        if (!sl_json_is_object(c.container) || (!sl_json_is_null(mounts) && !sl_json_is_array(mounts)) ||
            !is_target(in, use, scope_gpu, &c) || shm_mount(c.container))
            continue;
        (c.init ? p->init : p->regular)[c.i] = true;
        p->mounts++;
    }
    p->inject = p->mounts > 0;
}

void sl_shm_plan(const struct sl_shm_input *in, struct sl_shm_plan *ret) {
    static const struct sl_shm_config defaults = SL_SHM_CONFIG_DEFAULT;
    const struct sl_shm_config *config = in->config ? in->config : &defaults;
    const struct sl_json *spec = sl_json_get(in->pod_template, "spec");
    *ret = (struct sl_shm_plan){.warnings = sl_json_new_array()};
    struct sl_gpu_use use = sl_gpu_scan(in->rules, in->pod_template);
    if (!use.gpu)
        return;
    struct size size = effective_size(in, config, ret);
    const struct sl_json *volumes = sl_json_get(spec, "volumes");
    if (size.kind == SIZE_OFF || (!sl_json_is_null(volumes) && !sl_json_is_array(volumes)))
        return;
    const char *kind = in->kind ? in->kind : "";
    if (size.kind == SIZE_AUTO && (!strcmp(kind, "RayCluster") || !strcmp(kind, "RayJob")))
        return; /* KubeRay brings its own, bigger one */
    if (windows(spec))
        return;
    if (sl_json_get_bool(spec, "hostIPC", false)) {
        warn(ret, "W11: with hostIPC the pod uses its node's /dev/shm; no volume is added");
        return;
    }
    if (selects_mps(in->pod_template))
        return;
    if (flavor_is_mps(in)) { /* the daemon's own directory is mounted there */
        warn(ret, "W17: a flavor of this queue shares GPUs by MPS, which brings its own /dev/shm; no volume is added");
        return;
    }
    EACH_CONTAINER(spec, c)
    if (mounts_host_dev(spec, c.container)) {
        warn(ret, "W12: container %s mounts its node's /dev, and with it /dev/shm; no volume is added",
             sl_json_get_str(c.container, "name", "?"));
        return;
    }
    bool scope_gpu = scope_is_gpu(in, config, ret);
    const char *share;
    if (existing_mounts(in, &use, scope_gpu, ret, &share))
        return;
    if (share) {
        ret->volume = share;
        plan_mounts(in, &use, scope_gpu, ret);
        return;
    }
    struct memory memory = pod_memory(spec);
    bool above_cap;
    int64_t bytes = shm_size(size, use.devices, &memory, hard_limit(in, config, ret), config, &above_cap);
    ret->volume = volume_name(spec, &ret->new_volume);
    if (!ret->volume) {
        warn(ret, "volumes %s to %s-9 are all taken; no volume is added at /dev/shm", SL_SHM_VOLUME, SL_SHM_VOLUME);
        return;
    }
    if (ret->new_volume && bytes <= USELESS) {
        warn(ret, "W15: memory too small for a useful /dev/shm (%lldMi); no volume is added", (long long)(bytes / MI));
        ret->new_volume = false;
        return;
    }
    if (ret->new_volume && above_cap)
        warn(ret,
             "W16: /dev/shm of %lldMi is more than half of the pod's memory %lldMi; a full one may get the pod killed",
             (long long)(bytes / MI), (long long)(memory.bytes / MI));
    ret->size_mi = bytes / MI;
    plan_mounts(in, &use, scope_gpu, ret);
    if (ret->inject && ret->new_volume)
        warn(ret,
             "GPU job: memory volume of %lldMi at /dev/shm of %zu container%s (annotation %s: \"off\" turns this off)",
             (long long)ret->size_mi, ret->mounts, ret->mounts == 1 ? "" : "s", SL_SHM_SIZE_ANNOTATION);
}

void sl_shm_plan_done(struct sl_shm_plan *p) {
    free(p->regular);
    free(p->init);
    sl_json_unref(p->warnings);
    *p = (struct sl_shm_plan){.inject = false};
}

/* A list of the object that may be appended to; made when absent or null. */
static struct sl_json *own_list(struct sl_json *object, const char *key) {
    struct sl_json *list = sl_json_own(object, key);
    return list ? list : sl_json_make_array(object, key);
}

static void apply_mounts(const struct sl_shm_plan *p, struct sl_json *spec, const char *name, const bool *which) {
    struct sl_json *list = sl_json_own(spec, name);
    for (size_t i = 0; i < sl_json_len(list); i++) {
        if (!which[i])
            continue;
        struct sl_json *mount = sl_json_new_object();
        sl_json_set_str(mount, "name", p->volume);
        sl_json_set_str(mount, "mountPath", MOUNT_PATH);
        sl_json_append(own_list(sl_json_own_at(list, i), "volumeMounts"), mount);
    }
}

void sl_shm_apply(const struct sl_shm_plan *p, struct sl_json *pod_template) {
    struct sl_json *spec = p->inject ? sl_json_own(pod_template, "spec") : NULL;
    if (!spec)
        return;
    if (p->new_volume) {
        struct sl_json *volume = sl_json_new_object(), *dir = sl_json_new_object();
        sl_json_set_str(volume, "name", p->volume);
        sl_json_set_str(dir, "medium", "Memory");
        sl_json_set(dir, "sizeLimit", sl_json_new_strf("%lldMi", (long long)p->size_mi));
        sl_json_set(volume, "emptyDir", dir);
        sl_json_append(own_list(spec, "volumes"), volume);
    }
    apply_mounts(p, spec, "containers", p->regular);
    apply_mounts(p, spec, "initContainers", p->init);
}
