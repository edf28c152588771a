"""The CRDs of the chart against the table of the API (schema.tsv), in both directions."""
import json
import os
import subprocess
import sys

import yaml

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tools"))
import crd_kinds  # noqa: E402
import gen_crds  # noqa: E402

# Where we mean to differ, with the reason: docs/decisions/crd-cost.md.
RULES_IN_WEBHOOK = {"Workload", "ClusterQueue"}  # their CEL rules are the webhook's
TEMPLATE = "spec.podSets[].template"  # open below; the table leaves its inside out, so only how it is merged differs
EXTRA = {(TEMPLATE, 'map-type="atomic"')}  # one owner for the whole template


def read_table():
    kinds, fields = {}, {}
    for line in open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "schema.tsv")):
        if line.startswith("#") or not line.strip():
            continue
        cells = line.rstrip("\n").split("\t")
        if cells[2] in ("Cluster", "Namespaced"):
            kinds[tuple(cells[:2])] = cells[2:] + [""] * (11 - len(cells))
        else:
            fields[tuple(cells[:3])] = (cells[3], cells[4] if len(cells) > 4 else "")
    return kinds, fields


def constraints(s):
    out = []
    for key in ("default", "enum", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems", "maxProperties", "pattern", "format",
                "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"):
        if key in s:
            out.append(f"{key.removeprefix('x-kubernetes-')}={json.dumps(s[key], sort_keys=True)}")
    if s.get("x-kubernetes-validations"):
        out.append(f"rules={len(s['x-kubernetes-validations'])}")
    return " ".join(out)


def walk(path, s, required, out):
    type_ = "int-or-string" if s.get("x-kubernetes-int-or-string") else s["type"]
    out[path] = (type_ + ("!" if required else ""), constraints(s))
    if path == TEMPLATE:
        return
    prefix = "" if path == "." else path + "."
    for k, x in s.get("properties", {}).items():
        if path == "." and k in ("apiVersion", "kind", "metadata"):
            continue
        walk(prefix + k, x, k in s.get("required", []), out)
    if "items" in s:
        walk(path + "[]", s["items"], False, out)
    if isinstance(s.get("additionalProperties"), dict):
        walk(path + "{}", s["additionalProperties"], False, out)


def our_fields():
    out = {}
    for kind in crd_kinds.KINDS:
        for v in gen_crds.spec(kind)["versions"]:
            rows = {}
            walk(".", v["schema"]["openAPIV3Schema"], False, rows)
            out.update({(kind[0], v["name"], path): row for path, row in rows.items()})
    return out


def without_rules(text):
    return " ".join(w for w in text.split(" ") if not w.startswith("rules="))


def test_every_field_agrees_with_the_table():
    _, table = read_table()
    ours = our_fields()
    assert len(table) > 650 and len(ours) > 650
    missing, surplus = sorted(set(table) - set(ours)), sorted(set(ours) - set(table))
    assert not missing, f"in the table, not in our CRDs: {missing}"
    assert not surplus, f"in our CRDs, not in the table: {surplus}"
    wrong = []
    for key, (type_, text) in table.items():
        if key[0] in RULES_IN_WEBHOOK:
            assert "rules=" not in ours[key][1], f"{key}: no CEL rule is meant to be here"
            text = without_rules(text)
        mine = ours[key][1]
        for path, extra in EXTRA:
            if key[2] == path:
                assert extra in mine
                mine = mine.replace(extra, "").strip()
        if (type_, text) != (ours[key][0], mine):
            wrong.append(f"{key}: table {type_} {text}; ours {ours[key][0]} {mine}")
    assert not wrong, "\n".join(wrong)


def columns(v):
    return "; ".join(f"{c['name']} {c['jsonPath']} {c['type']}" + (f" prio{c['priority']}" if c.get("priority") else "") for c in v.get("additionalPrinterColumns", []))


def test_names_versions_and_columns_agree_with_the_table():
    table, _ = read_table()
    ours = {}
    for kind in crd_kinds.KINDS:
        s = gen_crds.spec(kind)
        for v in s["versions"]:
            ours[kind[0], v["name"]] = [s["scope"], s["names"]["plural"], ",".join(s["names"]["shortNames"]), "", "storage" if v["storage"] else "", "served" if v["served"] else "",
                                        "deprecated" if v.get("deprecated") else "", "status" if "subresources" in v else "", columns(v)]
    assert ours == table


def test_a_version_that_is_deprecated_says_what_to_use():
    for kind in crd_kinds.KINDS:
        for v in gen_crds.spec(kind)["versions"]:
            assert v.get("deprecationWarning") == ("This version is deprecated. Use v1beta2 instead." if v.get("deprecated") else None)


def test_selectable_field():
    v1, v2 = gen_crds.spec(next(k for k in crd_kinds.KINDS if k[0] == "Workload"))["versions"]
    assert v2["selectableFields"] == [{"jsonPath": ".status.admission.clusterQueue"}] and "selectableFields" not in v1


def test_every_field_is_described():
    """what kubectl explain shows; list items and map values that are plain scalars need no words of their own"""
    bare = []

    def look(path, s):
        if "description" not in s and not path.endswith(("[]", "{}")) and path not in ("apiVersion", "kind", "metadata") and ".template.metadata" not in path:
            bare.append(path)
        for k, x in s.get("properties", {}).items():
            look(f"{path}.{k}".lstrip("."), x)
        if "items" in s:
            look(path + "[]", s["items"])
        if isinstance(s.get("additionalProperties"), dict):
            look(path + "{}", s["additionalProperties"])
    for kind in crd_kinds.KINDS:
        for v in gen_crds.spec(kind)["versions"]:
            look("", v["schema"]["openAPIV3Schema"])
    assert not bare, bare


def test_chart_holds_what_the_generator_writes():
    r = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "gen_crds.py"), "--check"], capture_output=True, text=True)
    assert r.returncode == 0, r.stderr


def test_plain_files_read_back_as_they_were_meant(tmp_path):
    subprocess.run([sys.executable, os.path.join(ROOT, "tools", "gen_crds.py"), "--plain", str(tmp_path), "--conversion-url", "https://127.0.0.1:9443/convert"], check=True)
    assert len(list(tmp_path.iterdir())) == len(crd_kinds.KINDS) == 11
    for kind in crd_kinds.KINDS:
        assert yaml.safe_load((tmp_path / (kind[1] + ".yaml")).read_text()) == gen_crds.plain(kind, {"url": "https://127.0.0.1:9443/convert"})


def test_five_kinds_are_converted_by_the_webhook():
    assert {k[0] for k in crd_kinds.KINDS if k[4]} == {"ClusterQueue", "Cohort", "LocalQueue", "MultiKueueCluster", "Workload"}


def test_workload_is_small():
    """the API server holds, publishes and walks it: a full pod template would make it over a megabyte"""
    kind = next(k for k in crd_kinds.KINDS if k[0] == "Workload")
    size = len(json.dumps(gen_crds.plain(kind), separators=(",", ":")))
    print(f"Workload CRD: {size} bytes")
    assert size < 50_000
