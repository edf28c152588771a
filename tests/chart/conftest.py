"""A real API server for the tests of the chart, and a small client for it."""
import base64
import contextlib
import json
import os
import shutil
import ssl
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
import yaml

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
CHART = os.path.join(ROOT, "charts", "sluice")
sys.path[:0] = [os.path.join(ROOT, "tests", "cluster"), os.path.join(ROOT, "tools")]
import cluster as control  # noqa: E402
import gen_crds  # noqa: E402, F401 (for the tests)

PATHS = {"Job": "batch/v1/namespaces/{ns}/jobs", "Workload": "kueue.x-k8s.io/v1beta2/namespaces/{ns}/workloads", "LocalQueue": "kueue.x-k8s.io/v1beta2/namespaces/{ns}/localqueues",
         "ClusterQueue": "kueue.x-k8s.io/v1beta2/clusterqueues", "Cohort": "kueue.x-k8s.io/v1beta2/cohorts", "ResourceFlavor": "kueue.x-k8s.io/v1beta2/resourceflavors",
         "AdmissionCheck": "kueue.x-k8s.io/v1beta2/admissionchecks", "Topology": "kueue.x-k8s.io/v1beta2/topologies",
         "WorkloadPriorityClass": "kueue.x-k8s.io/v1beta2/workloadpriorityclasses", "MultiKueueCluster": "kueue.x-k8s.io/v1beta2/multikueueclusters",
         "MultiKueueConfig": "kueue.x-k8s.io/v1beta2/multikueueconfigs", "CustomResourceDefinition": "apiextensions.k8s.io/v1/customresourcedefinitions",
         "MutatingWebhookConfiguration": "admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
         "ValidatingWebhookConfiguration": "admissionregistration.k8s.io/v1/validatingwebhookconfigurations"}


class Api:
    """Requests as the administrator, or as another user."""

    def __init__(self, cluster, crt="admin"):
        self.cluster = cluster
        ctx = ssl.create_default_context(cafile=cluster.pki.path("ca.crt"))
        ctx.load_cert_chain(cluster.pki.path(crt + ".crt"), cluster.pki.path(crt + ".key"))
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=ctx))

    def call(self, method, path, body=None, content="application/json"):
        """-> (HTTP status, answer)"""
        req = urllib.request.Request(f"{self.cluster.SERVER}/{path}", method=method, data=None if body is None else json.dumps(body).encode(), headers={"Content-Type": content})
        with self.cluster.inside():
            try:
                with self.opener.open(req, timeout=30) as r:
                    return r.status, json.load(r)
            except urllib.error.HTTPError as e:
                text = e.read().decode()
                try:
                    return e.code, json.loads(text)
                except ValueError:
                    return e.code, {"message": text}

    @staticmethod
    def path(kind, ns="default", name=None, sub=None):
        return "/".join(["apis/" + PATHS[kind].format(ns=ns)] + [x for x in (name, sub) if x])

    def create(self, o, ns="default"):
        group = PATHS[o["kind"]].split("/")
        o = {"apiVersion": "/".join(group[:2]), **o}
        return self.call("POST", self.path(o["kind"], o.get("metadata", {}).get("namespace", ns)), o)

    def merge(self, kind, name, body, ns="default", sub=None):
        return self.call("PATCH", self.path(kind, ns, name, sub), body, "application/merge-patch+json")

    def get(self, kind, name, ns="default"):
        return self.call("GET", self.path(kind, ns, name))

    def delete(self, kind, name, ns="default"):
        return self.call("DELETE", self.path(kind, ns, name) + "?propagationPolicy=Background")  # nobody here removes orphans' finalizers


def fields(answer):
    """the paths that a refusal names"""
    causes = (answer.get("details") or {}).get("causes") or []
    return sorted({c.get("field") for c in causes} - {None, "<nil>", ""})


def helm(*args, check=True):
    p = subprocess.run([control.programs("helm")["helm"], *args], capture_output=True, text=True, env=control.clean_env())
    if check:
        assert p.returncode == 0, p.stderr
    return p


def render(*args, name="sluice", namespace="sluice-system", chart=CHART):
    return [d for d in yaml.safe_load_all(helm("template", name, chart, "--namespace", namespace, *args).stdout) if d]


def operator_crds():
    """what the Prometheus operator defines, from its own module"""
    go = shutil.which("go") or os.path.join(os.path.dirname(os.path.dirname(control.programs("helm")["helm"])), "go", "bin", "go")
    got = json.loads(control.run(go, "mod", "download", "-json", "github.com/prometheus-operator/prometheus-operator@v0.85.0", cwd=os.path.sep, env={**os.environ, "GOTOOLCHAIN": "local", "GOWORK": "off"}))
    out = []
    for kind in ("servicemonitors", "prometheusrules"):
        with open(os.path.join(got["Dir"], "example", "prometheus-operator-crd", f"monitoring.coreos.com_{kind}.yaml")) as f:
            out.append(yaml.safe_load(f))
    return out


@pytest.fixture(scope="session")
def cluster():
    with control.Cluster("chart-tests", scheduler=False, controllers=False) as c:
        c.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sluice-system"}})
        crds = [o for o in render() if o["kind"] == "CustomResourceDefinition"]
        for o in crds:  # no manager here: nobody converts
            o["spec"].pop("conversion", None)
        crds += operator_crds()
        c.apply(*crds)
        c.kubectl("wait", "--for=condition=Established", "--timeout=60s", *("crd/" + o["metadata"]["name"] for o in crds))
        yield c


@pytest.fixture(scope="session")
def api(cluster):
    return Api(cluster)


@contextlib.contextmanager
def made(api, *objects, ns="default"):
    """objects that exist for a while"""
    for o in objects:
        status, answer = api.create(o, ns)
        assert status == 201, answer
    try:
        yield
    finally:
        for o in reversed(objects):
            api.delete(o["kind"], o["metadata"]["name"], ns)


def ca_bundle(cluster):
    with open(cluster.pki.path("ca.crt"), "rb") as f:
        return base64.b64encode(f.read()).decode()
