"""Alerts and dashboard: promtool's own check and unit tests of the rules as the chart renders them, and whether what they ask for exists."""
import json
import os
import re
import subprocess
import sys

import pytest
import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "cluster"))
import cluster as control  # noqa: E402

TARGET = {"job", "instance", "pod", "namespace", "container", "le"}  # labels that Prometheus adds, and that of buckets
FOREIGN = re.compile(r"(DCGM_|kube_|apiserver_|up$)")
FUNCTIONS = {"absent", "avg", "by", "changes", "clamp_min", "count", "group", "histogram_quantile", "increase", "label_values", "max", "min", "on", "or", "and", "unless", "rate", "sum", "vector", "Inf",
             "avg_over_time", "count_over_time", "max_over_time"}


@pytest.fixture(scope="session")
def objects():
    on = ("monitoring.serviceMonitor.enabled", "monitoring.prometheusRule.enabled", "monitoring.prometheusRule.gpuHealth", "monitoring.dashboard.enabled")
    out = control.run(control.programs("helm")["helm"], "template", "sluice", os.path.join(ROOT, "charts", "sluice"), "-n", "sluice-system", "--set", ",".join(k + "=true" for k in on),
                      env=control.clean_env())
    return [o for o in yaml.safe_load_all(out) if o]


@pytest.fixture(scope="session")
def groups(objects):
    return next(o for o in objects if o["kind"] == "PrometheusRule")["spec"]["groups"]


@pytest.fixture(scope="session")
def dashboard(objects):
    return json.loads(next(o for o in objects if o["kind"] == "ConfigMap" and o["metadata"]["name"] == "sluice-dashboard")["data"]["sluice.json"])


@pytest.fixture(scope="session")
def metrics():
    """name -> labels, of every series that we expose"""
    out = {}
    with open(os.path.join(ROOT, "include", "sluice", "defs", "metrics.def")) as f:
        for name, kind, labels in re.findall(r'^SL_METRIC\(\w+, "(\w+)", (\w+), "([\w,]*)"', f.read(), re.M):
            for suffix in ("_bucket", "_sum", "_count") if kind == "HISTOGRAM" else ("",):
                out[name + suffix] = set(filter(None, labels.split(",")))
    assert len(out) > 60
    return out


@pytest.fixture(scope="session")
def kept():
    """identifiers of the metrics that some code sets"""
    text = ""
    for folder in ("base", "api", "jobs", "flavors", "quota", "kube", "webhook", "cmd"):
        for d, _, files in os.walk(os.path.join(ROOT, folder)):
            for f in files:
                if f.endswith(".c"):
                    with open(os.path.join(d, f)) as s:
                        text += s.read()
    return set(re.findall(r"\bSL_M_(\w+)", text))


def test_what_is_asked_for_is_kept(groups, dashboard, kept):
    """a metric that is defined, but that nobody sets, alerts nobody"""
    with open(os.path.join(ROOT, "include", "sluice", "defs", "metrics.def")) as f:
        idents = {name: ident for ident, name in re.findall(r'^SL_METRIC\((\w+), "(\w+)"', f.read(), re.M)}
    text = json.dumps(groups) + json.dumps(dashboard)
    used = {n for n in idents if re.search(rf"\b{n}(_bucket|_sum|_count)?\b", text)}
    assert len(used) > 20 and sorted(n for n in used if idents[n] not in kept) == []


def promtool(folder, *args):
    p = subprocess.run(["promtool", *args], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert p.returncode == 0, p.stdout
    return p.stdout


def test_rules_are_valid(tmp_path, groups):
    (tmp_path / "alerts.yaml").write_text(yaml.safe_dump({"groups": groups}))
    assert f"{sum(len(g['rules']) for g in groups)} rules found" in promtool(tmp_path, "check", "rules", "--lint=all", "--lint-fatal", "alerts.yaml")


def test_each_alert_fires_and_keeps_silent(tmp_path, groups):
    with open(os.path.join(HERE, "alerts.test.yaml")) as f:
        cases = yaml.safe_load(f)
    seen = {(t["alertname"], bool(t["exp_alerts"])) for c in cases["tests"] for t in c["alert_rule_test"]}
    assert seen == {(r["alert"], fires) for g in groups for r in g["rules"] for fires in (True, False)}
    assert "@" not in json.dumps(groups)
    cases["rule_files"] = ["alerts.yaml"]
    (tmp_path / "alerts.yaml").write_text(yaml.safe_dump({"groups": groups}))
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump(cases))
    promtool(tmp_path, "test", "rules", "cases.yaml")


def test_a_changed_alert_is_noticed(tmp_path, groups):
    """the test of the tests"""
    (tmp_path / "alerts.yaml").write_text(yaml.safe_dump({"groups": groups}).replace("sluice_leader == 1", "sluice_leader == 2"))
    with open(os.path.join(HERE, "alerts.test.yaml")) as f:
        (tmp_path / "cases.yaml").write_text(f.read().replace("\n- gpu-alerts.yaml", ""))
    p = subprocess.run(["promtool", "test", "rules", "cases.yaml"], cwd=tmp_path, capture_output=True, text=True)
    assert p.returncode != 0 and "SluiceTwoLeaders" in p.stdout + p.stderr


def test_each_alert_is_explained(groups):
    with open(os.path.join(ROOT, "docs", "operations.md")) as f:
        sections = set(re.findall(r"^### (\w+)$", f.read(), re.M))
    for g in groups:
        for r in g["rules"]:
            assert r["labels"]["severity"] in ("critical", "warning", "info") and set(r["annotations"]) == {"summary", "description"}
            assert r["alert"] in sections, r["alert"]
    assert sections == {r["alert"] for g in groups for r in g["rules"]}


def strange(expr, metrics):
    """what an expression asks for that nobody gives"""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', expr)
    used = [m for m in re.findall(r"(?<![\w$])([A-Za-z_]\w*)(?=\s*(?:\{|\[|\)|$|[-+*/<>=,]| (?:and|or|unless|on)\b| [<>=*/+-]))", re.sub(r"\b(?:by|on) \([^)]*\)|\{[^}]*\}|\[[^\]]*\]", " ", bare)) if m not in FUNCTIONS]
    ours = [m for m in used if not FOREIGN.match(m)]
    bad = [m for m in ours if m not in metrics]
    if ours and not bad and len(ours) == len(used):
        known = set().union(*(metrics[m] for m in ours)) | TARGET
        asked = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\"", bare) + [x.strip() for g in re.findall(r"\b(?:by|on) \(([^)]*)\)", bare) for x in g.split(",")]
        bad = [x for x in asked if x not in known]
    return bad if used else ["nothing"]


def test_alerts_ask_for_what_there_is(groups, metrics):
    for r in (r for g in groups for r in g["rules"]):
        if "__name__" not in r["expr"]:
            assert strange(r["expr"], metrics) == [], r["alert"]
    assert strange("max by (queue) (sluice_quota_drift)", metrics) == ["queue"] and strange("rate(sluice_nothing[5m]) > 1", metrics) == ["sluice_nothing"]


def test_dashboard(tmp_path, dashboard, metrics):
    panels = [p for p in dashboard["panels"] if p["type"] != "row"]
    assert len(panels) > 20 and len({p["id"] for p in dashboard["panels"]}) == len(dashboard["panels"])
    rules = []
    for p in panels:
        for t in p["targets"]:
            e = t["expr"]
            for variable, value in (("$__rate_interval", "1m"), ("$queue", ".*"), ("$resource", ".*")):
                e = e.replace(variable, value)
            assert "$" not in e and strange(e, metrics) == [], p["title"]
            grouped = re.search(r"\bby \(([^)]*)\)", e)
            for label in re.findall(r"\{\{(\w+)\}\}", t["legendFormat"]):  # what the legend shows survives the aggregation
                assert not grouped or label in grouped[1], (p["title"], label)
            rules.append({"record": f"panel:{len(rules)}", "expr": e})
    (tmp_path / "panels.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    promtool(tmp_path, "check", "rules", "panels.yaml")
    for v in dashboard["templating"]["list"]:
        if v["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", v["definition"]).groups()
            assert label in metrics[metric]
    for a in panels:  # none covers another
        for b in panels:
            g, h = a["gridPos"], b["gridPos"]
            assert a is b or g["x"] + g["w"] <= h["x"] or h["x"] + h["w"] <= g["x"] or g["y"] + g["h"] <= h["y"] or h["y"] + h["h"] <= g["y"], (a["title"], b["title"])


def test_dashboard_is_up_to_date():
    p = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "gen_dashboard.py"), "--check"], capture_output=True, text=True)
    assert p.returncode == 0, p.stderr


def test_every_flag_is_explained():
    with open(os.path.join(ROOT, "cmd", "daemon.c")) as f:
        table = f.read().partition("const struct sl_option options[]")[2].partition("};")[0]
    flags = re.findall(r'\{"([a-z-]+)",', table)
    assert len(flags) > 15
    with open(os.path.join(ROOT, "docs", "operations.md")) as f:
        text = f.read()
    assert [x for x in flags if f"`--{x}" not in text] == []
