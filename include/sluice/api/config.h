/*
 * The configuration file: Kueue's Configuration format (config.kueue.x-k8s.io v1beta2 and v1beta1) with a section
 * `sluice` of our own. Strict: an unknown field or a wrong value fails with its path. Everything has a default;
 * sl_config_init gives those. docs/configuration.md is the reference.
 */
#ifndef SLUICE_API_CONFIG_H
#define SLUICE_API_CONFIG_H

#include "sluice/api/quantity.h"
#include "sluice/api/types.h"
#include "sluice/base/json.h"

struct sl_strings { /* owned */
    char **items;
    size_t n;
};
struct sl_transformation_output {
    char *resource;
    struct sl_quantity factor;
};
struct sl_transformation {
    char *input, *multiply_by; /* multiply_by NULL when absent */
    bool replace;              /* strategy Replace; otherwise Retain */
    struct sl_transformation_output *outputs;
    size_t n_outputs;
};
struct sl_gate {
    char *name;
    bool on;
};

struct sl_config {
    char *namespace; /* "" when not given: the pod's, else kueue-system */
    bool manage_without_queue_name;
    bool has_managed_namespaces; /* false: every namespace but kube-system and our own */
    struct sl_selector managed_namespaces;
    struct sl_strings frameworks, external_frameworks, label_keys_to_copy;
    struct {
        bool enabled, block_admission, timestamp_creation;
        int64_t timeout_ms, recovery_timeout_ms; /* recovery 0: off */
        int64_t backoff_limit;                   /* -1: endless */
        int64_t backoff_base_s, backoff_max_s;
    } pods_ready;
    int64_t retain_finished_ms, retain_deactivated_ms; /* -1: for ever */
    struct sl_strings exclude_resource_prefixes;
    bool ignore_undeclared;
    struct sl_transformation *transformations;
    size_t n_transformations;
    bool fair_sharing;
    bool fair_final_share, fair_initial_share; /* preemption strategies; final comes first when both */
    struct {
        char *host, *cert_dir;
        int64_t port;
    } webhook;
    char *health_address, *metrics_address;
    bool cluster_queue_metrics, local_queue_metrics;
    struct {
        bool enabled;
        char *name, *namespace;
        int64_t lease_ms, renew_ms, retry_ms;
    } leader;
    struct {
        bool enabled;
        char *service, *secret;
    } certs;
    double client_qps;
    int64_t client_burst;
    struct sl_gate *gates;
    size_t n_gates;
    struct sl_strings unused; /* paths of fields that are set and have no effect here */
    /* sluice: */
    struct {
        char *size, *scope,
            *mode; /* what applies when nobody says anything: auto|off|quantity|<n>%; pod|gpu; template|pod */
        int64_t max_bytes, max_without_limits_bytes;
    } shm;
    struct sl_strings gpu_resources; /* additional names or prefixes that end in '*' */
    char *ledger_path;               /* "" : no ledger file */
    int64_t ledger_max_bytes;
    int64_t history_keep_ms;
};

void sl_config_init(struct sl_config *c); /* the defaults */
void sl_config_done(struct sl_config *c);
/* One document. The config is initialised by this function, also on failure (then it holds the defaults). SL_INVALID
 * lists the first faults by path; *ret_message, when not NULL, gets all of them on failure (free()). */
SL_MUST int sl_config_parse(const struct sl_json *document, struct sl_config *ret, char **ret_message,
                            struct sl_err *err);
/* YAML or JSON text of at most 1 MiB (SL_TOO_BIG). */
SL_MUST int sl_config_parse_text(const char *text, size_t len, struct sl_config *ret, char **ret_message,
                                 struct sl_err *err);
/* Every field as a table in Markdown: path, format version when it is in one only, type, default, meaning. */
void sl_config_reference(struct sl_buf *out);
/* --feature-gates "A=true,B=false"; refused together with featureGates in the file. */
SL_MUST int sl_config_set_gates(struct sl_config *c, const char *text, struct sl_err *err);
bool sl_config_gate(const struct sl_config *c, const char *name, bool dflt);

#endif
