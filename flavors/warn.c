/* Warnings about pod templates that nothing but the template is needed for. They never refuse anything. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/api/quantity.h"
#include "sluice/base/mem.h"
#include "sluice/base/num.h"
#include "sluice/flavors/gpu.h"

#define MAX_WARNINGS 32 /* of one template */

static void SL_PRINTF(2, 3) warn(struct sl_json *out, const char *format, ...) {
    if (sl_json_len(out) >= MAX_WARNINGS)
        return;
    struct sl_buf b = SL_BUF_INIT(4096);
    va_list args;
    va_start(args, format);
    sl_buf_vprintf(&b, format, args);
    va_end(args);
    sl_json_append(out, sl_json_new_str(sl_buf_text(&b)));
    sl_buf_done(&b);
}

static const char *name_of(const struct sl_json *container) {
    return sl_json_get_str(container, "name", "?");
}

/* What a container asks for. */
struct asks {
    bool gpu, nic, whole_nvidia, hami;
    int64_t mig; /* devices */
    bool shared;
};

static struct asks read_asks(const struct sl_gpu_rules *rules, const struct sl_json *container) {
    static const char *const maps[] = {"limits", "requests"};
    struct asks a = {false, false, false, false, 0, false};
    for (size_t i = 0; i < SL_COUNT(maps); i++)
        SL_JSON_EACH (sl_json_get(sl_json_get(container, "resources"), maps[i]), e) {
            struct sl_quantity q;
            if (sl_quantity_from_json(e.value, &q, NULL) < 0 || q.nano <= 0)
                continue;
            enum sl_gpu_mode mode = sl_gpu_classify(rules, e.key).mode;
            a.gpu |= sl_gpu_is_device(mode);
            a.nic |= mode == SL_GPU_NIC;
            a.whole_nvidia |= !strcmp(e.key, "nvidia.com/gpu");
            a.hami |= !strcmp(e.key, "nvidia.com/gpumem") || !strcmp(e.key, "nvidia.com/gpumem-percentage") ||
                      !strcmp(e.key, "nvidia.com/gpucores");
            a.shared |= mode == SL_GPU_SHARED;
            if (mode == SL_GPU_MIG &&
                (i == 0 || !sl_json_get(sl_json_get(sl_json_get(container, "resources"), maps[0]), e.key)))
                a.mig = sl_sat_add(a.mig, sl_quantity_amount(&q, e.key));
        }
    return a;
}

static void warn_env(const struct sl_json *container, bool gpu, struct sl_json *out) {
    SL_JSON_ITEMS (sl_json_get(container, "env"), e) {
        if (strcmp(sl_json_get_str(e.value, "name", ""), "NVIDIA_VISIBLE_DEVICES"))
            continue;
        const char *value = sl_json_get_str(e.value, "value", "all");
        if (gpu)
            warn(out,
                 "W1: container %s sets NVIDIA_VISIBLE_DEVICES, which bypasses the devices it was given; remove it",
                 name_of(container));
        else if (*value && strcmp(value, "void") && strcmp(value, "none"))
            warn(out,
                 "W1: container %s asks for no GPU but sets NVIDIA_VISIBLE_DEVICES and may see every GPU of its node",
                 name_of(container));
        return;
    }
}

/* W3: what the API server refuses in a pod: not whole, request without an equal limit. */
static void warn_quantities(const struct sl_gpu_rules *rules, const struct sl_json *container, struct sl_json *out) {
    const struct sl_json *resources = sl_json_get(container, "resources");
    const struct sl_json *limits = sl_json_get(resources, "limits"), *requests = sl_json_get(resources, "requests");
    SL_JSON_EACH (limits, e) {
        struct sl_quantity limit, request;
        if (!sl_gpu_is_device(sl_gpu_classify(rules, e.key).mode) || sl_quantity_from_json(e.value, &limit, NULL) < 0)
            continue;
        const struct sl_json *r = sl_json_get(requests, e.key);
        if (limit.nano % 1000000000)
            warn(out, "W3: container %s: %s must be a whole number; pods will be refused", name_of(container), e.key);
        else if (r && (sl_quantity_from_json(r, &request, NULL) < 0 || sl_quantity_compare(&limit, &request)))
            warn(out, "W3: container %s: request and limit of %s must be equal; pods will be refused",
                 name_of(container), e.key);
    }
    SL_JSON_EACH (requests, e)
        if (sl_gpu_is_device(sl_gpu_classify(rules, e.key).mode) && !sl_json_get(limits, e.key))
            warn(out, "W3: container %s: %s needs a limit, not only a request; pods will be refused",
                 name_of(container), e.key);
}

static void warn_hami(const struct sl_json *container, const struct asks *a, struct sl_json *out) {
    const struct sl_json *resources = sl_json_get(container, "resources");
    const char *text =
        sl_json_str(sl_json_get(sl_json_get(resources, "limits"), "nvidia.com/gpumem"),
                    sl_json_str(sl_json_get(sl_json_get(resources, "requests"), "nvidia.com/gpumem"), ""));
    if (text[strspn(text, "0123456789")])
        warn(out, "W4: container %s: nvidia.com/gpumem counts MiB and must be a plain number, not \"%.40s\"",
             name_of(container), text);
    if (a->hami && !a->whole_nvidia)
        warn(
            out,
            "container %s asks for a part of a GPU but not for nvidia.com/gpu; the device it gets is outside the quota",
            name_of(container));
}

static bool adds_ipc_lock(const struct sl_json *container) {
    const struct sl_json *security = sl_json_get(container, "securityContext");
    if (sl_json_get_bool(security, "privileged", false))
        return true;
    SL_JSON_ITEMS (sl_json_path(security, "capabilities.add"), e) {
        const char *name = sl_json_str(e.value, "");
        if (!strcmp(name, "IPC_LOCK") || !strcmp(name, "CAP_IPC_LOCK") || !strcmp(name, "ALL"))
            return true;
    }
    return false;
}

static void warn_container(const struct sl_gpu_rules *rules, const struct sl_json *container, int64_t pods,
                           bool builtin, struct sl_json *out) {
    struct asks a = read_asks(rules, container);
    warn_env(container, a.gpu, out);
    if (a.gpu && sl_json_get_bool(sl_json_get(container, "securityContext"), "privileged", false))
        warn(out, "W2: container %s is privileged and sees every GPU of its node, whatever it was given",
             name_of(container));
    if (!builtin)
        warn_quantities(rules, container, out);
    warn_hami(container, &a, out);
    if (a.nic && !adds_ipc_lock(container))
        warn(out, "W18: container %s uses RDMA without IPC_LOCK: the node's runtime must allow unlimited locked memory",
             name_of(container));
    if (a.mig > 1)
        warn(out, "W21: container %s asks for %lld MIG devices; a process can use only one", name_of(container),
             (long long)a.mig);
    if (a.mig && a.whole_nvidia)
        warn(out, "W23: container %s asks for nvidia.com/gpu and for MIG devices; no node is useful for both",
             name_of(container));
    if ((a.mig || a.shared) && pods > 1)
        warn(out, "W22: container %s runs in %lld pods on parts of GPUs; there is no NVLink or P2P between parts",
             name_of(container), (long long)pods);
}

static bool container_named(const struct sl_json *spec, const char *name) {
    SL_JSON_ITEMS (sl_json_get(spec, "containers"), e)
        if (!strcmp(name_of(e.value), name))
            return true;
    return false;
}

static bool fraction_ok(const char *text) {
    struct sl_quantity q;
    return text[strspn(text, "0123456789.")] == 0 && sl_quantity_parse(text, &q, NULL) == 0 && q.nano > 0 &&
           q.nano < 1000000000;
}

static bool positive_integer(const char *text) {
    int64_t v;
    return sl_parse_i64(text, strlen(text), &v, NULL) == 0 && v > 0;
}

/* W5: the rules of KAI's own validator. */
static void warn_fraction(const struct sl_gpu_rules *rules, const struct sl_json *pod_template, struct sl_json *out) {
    const struct sl_json *annotations = sl_json_get(sl_json_get(pod_template, "metadata"), "annotations"),
                         *spec = sl_json_get(pod_template, "spec");
    const char *fraction = sl_json_get_str(annotations, "gpu-fraction", NULL),
               *memory = sl_json_get_str(annotations, "gpu-memory", NULL);
    const char *devices = sl_json_get_str(annotations, "gpu-fraction-num-devices", NULL);
    const char *container = sl_json_get_str(annotations, "gpu-fraction-container-name", NULL);
    if (fraction && !fraction_ok(fraction))
        warn(out, "W5: annotation gpu-fraction must be a decimal between 0 and 1, not \"%.40s\"", fraction);
    if (memory && !positive_integer(memory))
        warn(out, "W5: annotation gpu-memory must be a whole number of MiB, not \"%.40s\"", memory);
    if (fraction && memory)
        warn(out, "W5: annotations gpu-fraction and gpu-memory exclude each other");
    if (devices && !fraction && !memory)
        warn(out, "W5: annotation gpu-fraction-num-devices needs gpu-fraction or gpu-memory");
    if (devices && !positive_integer(devices))
        warn(out, "W5: annotation gpu-fraction-num-devices must be a positive number, not \"%.40s\"", devices);
    if (container && (fraction || memory) && !container_named(spec, container))
        warn(out, "W5: annotation gpu-fraction-container-name: there is no container \"%.63s\"", container);
    if (!strcmp(sl_json_get_str(annotations, "mps", ""), "true") && !fraction)
        warn(out, "W5: annotation mps needs gpu-fraction");
    if (!fraction && !memory)
        return;
    SL_JSON_ITEMS (sl_json_get(spec, "containers"), e)
        if (sl_gpu_container(rules, e.value)) {
            warn(out, "W5: a fraction of a GPU by annotation excludes GPU limits, but container %s has one",
                 name_of(e.value));
            break;
        }
}

static bool wildcard(const struct sl_json *tolerations) {
    SL_JSON_ITEMS (tolerations, e)
        if (!*sl_json_get_str(e.value, "key", "") && !strcmp(sl_json_get_str(e.value, "operator", ""), "Exists") &&
            strcmp(sl_json_get_str(e.value, "effect", ""), "PreferNoSchedule"))
            return true;
    return false;
}

void sl_gpu_warnings(const struct sl_gpu_rules *rules, const struct sl_json *pod_template, int64_t pods, bool builtin,
                     struct sl_json *out) {
    static const char *const lists[] = {"initContainers", "containers"};
    const struct sl_json *spec = sl_json_get(pod_template, "spec");
    for (size_t i = 0; i < SL_COUNT(lists); i++)
        SL_JSON_ITEMS (sl_json_get(spec, lists[i]), e)
            warn_container(rules, e.value, pods, builtin, out);
    warn_fraction(rules, pod_template, out);
    if (wildcard(sl_json_get(spec, "tolerations")))
        warn(out, "W10: a toleration without a key tolerates cordoned, unreachable and faulty GPU nodes too");
}
