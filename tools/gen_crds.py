#!/usr/bin/env python3
"""Writes the CRDs of kueue.x-k8s.io from tools/crd_kinds.py.

  gen_crds.py                 write the Helm templates in charts/sluice/templates/crds
  gen_crds.py --check         say whether they are up to date (exit 1 if not)
  gen_crds.py --plain DIR     write plain manifests, for clusters without Helm
      --conversion-url URL        v1beta1 and v1beta2 are converted by this webhook (https://.../convert)
      --conversion-service NS/NAME  the same through a Service
      --ca-file FILE              PEM file with the CA of that webhook
    Without one of the first two no webhook is asked: then only v1beta2 is served for the kinds that need converting.
"""
import argparse
import base64
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import crd_kinds as kinds  # noqa: E402

GROUP = "kueue.x-k8s.io"
OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "charts", "sluice", "templates", "crds")
WARNING = "This version is deprecated. Use v1beta2 instead."
GUARD = "{{- if .Values.crds.install }}\n"
META = """metadata:
  name: %s
  labels:
    {{- include "sluice.labels" . | nindent 4 }}
  {{- if or .Values.crds.keep .Values.certificates.annotations }}
  annotations:
    {{- if .Values.crds.keep }}
    helm.sh/resource-policy: keep
    {{- end }}
    {{- with .Values.certificates.annotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
"""
CONVERSION = """  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1]
      clientConfig:
        {{- include "sluice.clientConfig" (dict "root" . "path" "/convert") | nindent 8 }}
"""


def version(kind, v):
    name, _, _, _, _, schema, status, columns, desc = kind
    props = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
    own = schema(v)
    root = kinds.obj(desc, {**props, **own})
    out = {"name": f"v1beta{v}", "served": True, "storage": v == 2}
    if v == 1 and name not in kinds.NOT_DEPRECATED:
        out["deprecated"] = True
        out["deprecationWarning"] = WARNING
    cols = []
    for col, path, type_, prio in columns(v):
        c = {"name": col, "jsonPath": path, "type": type_}
        if prio:
            c["priority"] = prio
        cols.append(c)
    if cols:
        out["additionalPrinterColumns"] = cols
    if name == "Workload" and v == 2:
        out["selectableFields"] = [{"jsonPath": ".status.admission.clusterQueue"}]
    if status:
        out["subresources"] = {"status": {}}
    out["schema"] = {"openAPIV3Schema": root}
    return out


def spec(kind):
    name, plural, short, namespaced = kind[:4]
    return {
        "group": GROUP,
        "scope": "Namespaced" if namespaced else "Cluster",
        "names": {"kind": name, "listKind": name + "List", "plural": plural, "singular": name.lower(), "shortNames": short},
        "versions": [version(kind, 1), version(kind, 2)],
    }


def plain(kind, conversion=None):
    """conversion: None, or a webhook clientConfig"""
    s = spec(kind)
    if kind[4]:
        if conversion:
            s["conversion"] = {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": conversion}}
        else:
            s["versions"][0]["served"] = False  # nobody could translate it
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{kind[1]}.{GROUP}"}, "spec": s}


def scalar(v):
    if isinstance(v, str):
        if v and v.replace("-", "").replace(".", "").replace("_", "").isalnum() and not v[0].isdigit() and v[0] not in ".-" and v.lower() not in (
                "true", "false", "null", "yes", "no", "on", "off", "y", "n", "~"):
            return v
        return "'" + v.replace("'", "''") + "'"
    return json.dumps(v)


def flow(v):
    if isinstance(v, dict):
        return "{" + ", ".join(f"{scalar(k)}: {flow(x)}" for k, x in v.items()) + "}"
    if isinstance(v, list):
        return "[" + ", ".join(flow(x) for x in v) + "]"
    return scalar(v)


def emit(v, indent, lines, first=None):
    """block style; what has no braces inside and fits a line is written in one"""
    pad = "  " * indent
    for k, x in v.items():
        head = (first if first is not None else pad) + scalar(k) + ":"
        first = None
        text = flow(x)
        if not isinstance(x, (dict, list)) or not x:
            lines.append(f"{head} {text}")
        elif len(head) + len(text) < 170 and (k in ("enum", "default", "required", "shortNames", "subresources") or k.startswith("x-kubernetes-list") or k == "items" and "properties" not in x
                                              or isinstance(x, dict) and "properties" not in x and "type" in x and "items" not in x and "additionalProperties" not in x):
            lines.append(f"{head} {text}")
        elif isinstance(x, dict):
            lines.append(head)
            emit(x, indent + 1, lines)
        elif all(isinstance(e, dict) for e in x):
            lines.append(head)
            for e in x:
                emit(e, indent + 1, lines, first=pad + "- ")
        else:
            lines.append(f"{head} {text}")


def yaml(v, indent=0):
    lines = []
    emit(v, indent, lines)
    return "\n".join(lines) + "\n"


def template(kind):
    head = "# Written by tools/gen_crds.py from tools/crd_kinds.py: do not edit.\n"
    out = GUARD + head + "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n" + META % f"{kind[1]}.{GROUP}" + "spec:\n"
    if kind[4]:
        out += CONVERSION
    body = yaml(spec(kind), 1)
    assert "{{" not in body, kind[0]
    served = "  - name: v1beta1\n    served: true\n"
    assert body.count(served) == 1, kind[0]
    body = body.replace(served, served.replace("true", "{{ .Values.crds.v1beta1 }}"))
    return out + body + "{{- end }}\n"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--check", action="store_true")
    ap.add_argument("--plain", metavar="DIR")
    ap.add_argument("--conversion-url", metavar="URL")
    ap.add_argument("--conversion-service", metavar="NS/NAME")
    ap.add_argument("--ca-file", metavar="FILE")
    a = ap.parse_args()
    if (a.conversion_url or a.conversion_service or a.ca_file) and not a.plain:
        ap.error("--conversion-url, --conversion-service and --ca-file go with --plain")
    if a.conversion_url and a.conversion_service:
        ap.error("only one of --conversion-url and --conversion-service")
    if a.plain:
        conversion = None
        if a.conversion_url:
            conversion = {"url": a.conversion_url}
        elif a.conversion_service:
            ns, slash, name = a.conversion_service.partition("/")
            if not (ns and slash and name):
                ap.error("--conversion-service: expected NAMESPACE/NAME")
            conversion = {"service": {"namespace": ns, "name": name, "path": "/convert", "port": 443}}
        if conversion and a.ca_file:
            with open(a.ca_file, "rb") as f:
                conversion["caBundle"] = base64.b64encode(f.read()).decode()
        os.makedirs(a.plain, exist_ok=True)
        for kind in kinds.KINDS:
            with open(os.path.join(a.plain, kind[1] + ".yaml"), "w") as f:
                f.write(yaml(plain(kind, conversion)))
        return 0
    want = {kind[1] + ".yaml": template(kind) for kind in kinds.KINDS}
    if a.check:
        have = {n: open(os.path.join(OUT, n)).read() for n in os.listdir(OUT)} if os.path.isdir(OUT) else {}
        bad = sorted(n for n in set(want) | set(have) if want.get(n) != have.get(n))
        for n in bad:
            print(f"charts/sluice/templates/crds/{n} is not what tools/gen_crds.py writes", file=sys.stderr)
        return 1 if bad else 0
    os.makedirs(OUT, exist_ok=True)
    for n, text in want.items():
        with open(os.path.join(OUT, n), "w") as f:
            f.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
