#!/usr/bin/env python3
"""Writes charts/sluice/files/dashboard.json, the Grafana dashboard. --check: only say whether it is up to date."""
import json
import os
import sys

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "charts", "sluice", "files", "dashboard.json")
SOURCE = {"type": "prometheus", "uid": "${source}"}
QUEUE = 'cluster_queue=~"$queue"'
WAIT = "histogram_quantile(%s, sum by (le) (rate(kueue_admission_wait_time_seconds_bucket{" + QUEUE + "}[$__rate_interval])))"
USED, NOMINAL = (f'max by (cluster_queue, flavor, resource) (kueue_cluster_queue_{m}{{{QUEUE},resource=~"$resource"}})' for m in ("resource_usage", "nominal_quota"))
PER = "{{cluster_queue}} {{flavor}} {{resource}}"

# title, description, unit, kind, width, [(expression, legend)]; a text alone begins a row
PANELS = [
    "Now",
    ("Leader", "Which replica decides.", "short", "stat", 4, [("sum(sluice_leader)", "leaders")]),
    ("Waiting", "Workloads that wait for quota.", "short", "stat", 4, [("sum(max by (cluster_queue, status) (kueue_pending_workloads{" + QUEUE + "}))", "waiting")]),
    ("Admitted", "Workloads that run or start.", "short", "stat", 4, [("sum(max by (cluster_queue) (kueue_admitted_active_workloads{" + QUEUE + "}))", "admitted")]),
    ("Admissions a minute", "", "short", "stat", 4, [("60 * sum(rate(kueue_admitted_workloads_total{" + QUEUE + "}[5m]))", "a minute")]),
    ("Quota drift", "Differences between the books and a recount. Anything but 0 is a fault of Sluice.", "short", "stat", 4, [("max(sluice_quota_drift)", "drift")]),
    ("Certificate", "Days until the first certificate of the webhooks expires.", "short", "stat", 4, [("min(sluice_certificate_days_left)", "days")]),
    "Quota",
    ("Usage", "Quota in use by admitted workloads, by queue, flavor and resource.", "short", "timeseries", 12, [(USED, PER)]),
    ("Usage of nominal quota", "Above 100 % a queue borrows.", "percentunit", "timeseries", 12, [(f"{USED} / ({NOMINAL} > 0)", PER)]),
    ("Borrowed", "What a queue uses above its nominal quota.", "short", "timeseries", 12, [(f"clamp_min({USED} - {NOMINAL}, 0)", PER)]),
    ("Idle quota", "Nominal quota that its owner does not use: it can be lent.", "short", "timeseries", 12, [(f"clamp_min({NOMINAL} - {USED}, 0)", PER)]),
    ("Quotas", "Nominal quota, borrowing limit (empty: none) and usage.", "short", "table", 24, [
        (NOMINAL, "nominal"), ('max by (cluster_queue, flavor, resource) (kueue_cluster_queue_borrowing_limit{' + QUEUE + ',resource=~"$resource"}) < Inf', "borrowing limit"), (USED, "used")]),
    "Waiting",
    ("Waiting by reason", "InQueue: behind others. Quota: nothing free, nothing to preempt. Preemption: for workloads that are being preempted. OthersFirst: others of the cohort went first. PodsReady: for pods of earlier ones. The rest: queue, check, namespace, backoff or the workload itself.", "short", "timeseries", 24, [
        ("sum by (cluster_queue, reason) (max by (cluster_queue, reason) (sluice_pending_workloads{" + QUEUE + "}))", "{{cluster_queue}} {{reason}}")]),
    ("Time until admission", "From creation, or from the last eviction, until the workload may start.", "s", "timeseries", 12, [(WAIT % q, n) for q, n in (("0.5", "median"), ("0.9", "9 of 10"), ("0.99", "99 of 100"))]),
    ("Median time until admission, by queue", "", "s", "timeseries", 12, [
        ("histogram_quantile(0.5, sum by (cluster_queue, le) (rate(kueue_admission_wait_time_seconds_bucket{" + QUEUE + "}[$__rate_interval])))", "{{cluster_queue}}")]),
    ("Evictions by reason", "", "short", "timeseries", 12, [("sum by (reason, underlying_cause) (increase(kueue_evicted_workloads_total{" + QUEUE + "}[$__rate_interval]))", "{{reason}} {{underlying_cause}}")]),
    ("Queue at rest although quota is free", "Must stay near 0.", "s", "timeseries", 12, [("max by (cluster_queue) (sluice_queue_idle_with_quota_seconds{" + QUEUE + "})", "{{cluster_queue}}")]),
    "Webhooks",
    ("Latency, 99 of 100", "Time from the last byte of a request to its answer.", "s", "timeseries", 12, [
        ("histogram_quantile(0.99, sum by (path, le) (rate(sluice_webhook_seconds_bucket[$__rate_interval])))", "{{path}}")]),
    ("Requests a second", "", "reqps", "timeseries", 12, [("sum by (path, code) (rate(sluice_webhook_requests_total[$__rate_interval]))", "{{path}} {{code}}")]),
    ("Denials", "Reviews that were answered with a refusal.", "short", "timeseries", 12, [("sum by (path) (increase(sluice_webhook_denials_total[$__rate_interval]))", "{{path}}")]),
    ("Jobs that got a /dev/shm", "", "short", "timeseries", 12, [("sum(increase(sluice_shm_injected_total[$__rate_interval]))", "jobs")]),
    "Manager",
    ("Memory", "", "bytes", "timeseries", 8, [("process_resident_memory_bytes and on (job, instance) sluice_leader", "{{instance}}")]),
    ("CPU", "Seconds of CPU a second.", "short", "timeseries", 8, [("rate(process_cpu_seconds_total[$__rate_interval]) and on (job, instance) sluice_leader", "{{instance}}")]),
    ("Time of a pass", "One run of the engine, 99 of 100.", "s", "timeseries", 8, [("histogram_quantile(0.99, sum by (le) (rate(sluice_pass_seconds_bucket[$__rate_interval])))", "pass")]),
    ("Writes to the API server", "", "wps", "timeseries", 8, [("sum by (verb, resource) (rate(sluice_writes_total[$__rate_interval]))", "{{verb}} {{resource}}")]),
    ("Writes that failed", "409: somebody was faster, it is done again. 0: no answer.", "wps", "timeseries", 8, [("sum by (verb, resource, code) (rate(sluice_write_errors_total[$__rate_interval]))", "{{verb}} {{resource}} {{code}}")]),
    ("Age of watches", "Time since the API server was last heard of.", "s", "timeseries", 8, [("max by (resource) (sluice_watch_age_seconds)", "{{resource}}")]),
]


def panel(ident, x, y, title, text, unit, kind, width, targets):
    height = {"stat": 4, "timeseries": 8, "table": 8}[kind]
    p = {"id": ident, "title": title, "type": kind, "datasource": SOURCE, "gridPos": {"x": x, "y": y, "w": width, "h": height},
         "fieldConfig": {"defaults": {"unit": unit, "min": 0} if kind != "table" else {"unit": unit}, "overrides": []},
         "targets": [{"refId": chr(65 + i), "datasource": SOURCE, "expr": e, "legendFormat": n, **({"instant": True, "format": "table"} if kind == "table" else {})}
                     for i, (e, n) in enumerate(targets)]}
    if text:
        p["description"] = text
    if kind == "timeseries":
        p["options"] = {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}}
    if kind == "stat":
        p["options"] = {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "none"}
    if kind == "table":
        p["transformations"] = [{"id": "merge", "options": {}}, {"id": "organize", "options": {"excludeByName": {"Time": True}, "renameByName": {f"Value #{chr(65 + i)}": n for i, (_, n) in enumerate(targets)}}}]
    return p


def dashboard():
    panels, x, y, low = [], 0, 0, 0
    for i, p in enumerate(PANELS, 1):
        if isinstance(p, str):
            x, y = 0, low
            panels.append({"id": i, "title": p, "type": "row", "collapsed": False, "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}, "panels": []})
            y, low = y + 1, y + 1
            continue
        if x + p[4] > 24:
            x, y = 0, low
        panels.append(panel(i, x, y, *p))
        x, low = x + p[4], max(low, y + panels[-1]["gridPos"]["h"])

    def query(name, label, metric, what):
        q = f"label_values({metric}, {what})"
        return {"name": name, "label": label, "type": "query", "datasource": SOURCE, "query": {"query": q, "refId": name}, "definition": q, "includeAll": True, "allValue": ".*", "multi": True,
                "refresh": 2, "sort": 1, "current": {"text": "All", "value": "$__all"}}
    return {"title": "Sluice", "uid": "sluice-queues", "tags": ["sluice", "kueue", "gpu"], "schemaVersion": 39, "version": 1, "editable": True, "refresh": "30s", "time": {"from": "now-6h", "to": "now"},
            "timezone": "browser", "panels": panels, "annotations": {"list": []},
            "templating": {"list": [{"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"},
                                    query("queue", "ClusterQueue", "kueue_cluster_queue_status", "cluster_queue"), query("resource", "Resource", "kueue_cluster_queue_nominal_quota", "resource")]}}


def main():
    new = json.dumps(dashboard(), indent=1, sort_keys=True) + "\n"
    if "--check" in sys.argv[1:]:
        with open(FILE) as f:
            if f.read() != new:
                sys.exit("charts/sluice/files/dashboard.json is not what tools/gen_dashboard.py writes")
        return
    with open(FILE, "w") as f:
        f.write(new)


if __name__ == "__main__":
    main()
