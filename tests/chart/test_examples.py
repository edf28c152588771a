"""Every manifest of examples/ on a real API server, and the seed's own ClusterQueue, which is wrong in four ways."""
import glob
import json
import os

import pytest
import yaml
from conftest import ROOT, fields

FOLDERS = sorted(os.path.basename(d.rstrip("/")) for d in glob.glob(os.path.join(ROOT, "examples", "*/")))
GOLDEN = os.path.join(ROOT, "tests", "golden", "seed", "clusterqueue-verbatim")


def manifests(folder):
    files = sorted(glob.glob(os.path.join(ROOT, "examples", folder, "**", "*.yaml"), recursive=True))
    return [(os.path.relpath(f, ROOT), d) for f in files for d in yaml.safe_load_all(open(f)) if d]


def test_there_are_examples():
    assert {"quickstart", "gpu-pools", "seed"} <= set(FOLDERS)
    for f in FOLDERS:
        assert os.path.exists(os.path.join(ROOT, "examples", f, "README.md"))
        assert manifests(f)


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_api_server_takes_every_manifest(cluster, folder):
    """in the order of the files, strictly: an unknown field is an error, and so is a warning"""
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-operator"}})
    made = []
    try:
        for file, o in manifests(folder):
            if "nodes/" in file:
                o["metadata"]["namespace"] = "gpu-operator"
            p = cluster.kubectl("create", "--validate=strict", "-f", "-", stdin=json.dumps(o), check=False)
            assert p.returncode == 0 and "Warning" not in p.stderr, f"{file}: {p.stderr}"
            made.append(o)
    finally:
        for o in reversed(made):
            if o["kind"] != "Namespace":  # nobody finishes its deletion here
                cluster.kubectl("delete", "--wait=false", "--cascade=background", "-f", "-", stdin=json.dumps(o))


@pytest.mark.parametrize("folder", FOLDERS)
def test_they_hang_together(folder):
    """each job finds its queue, each queue its flavors, and every resource asked for is covered"""
    objects = [o for _, o in manifests(folder)]
    by = {(o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]): o for o in objects}
    jobs = [o for o in objects if o["kind"] == "Job"]
    assert jobs
    for j in jobs:
        ns = j["metadata"]["namespace"]
        assert ("Namespace", "", ns) in by
        lq = by["LocalQueue", ns, j["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]]
        cq = by["ClusterQueue", "", lq["spec"]["clusterQueue"]]
        covered = {r for g in cq["spec"]["resourceGroups"] for r in g["coveredResources"]}
        for c in j["spec"]["template"]["spec"]["containers"]:
            r = c["resources"]
            assert set(r["requests"]) | set(r["limits"]) <= covered
            assert any("gpu" in x or "mig" in x for x in r["limits"]), "an example without a GPU"
        selector = cq["spec"]["namespaceSelector"].get("matchLabels", {})
        labels = {"kubernetes.io/metadata.name": ns, **by["Namespace", "", ns]["metadata"].get("labels", {})}
        assert selector.items() <= labels.items(), f"{j['metadata']['name']}: its namespace is not let in"
        for g in cq["spec"]["resourceGroups"]:
            for f in g["flavors"]:
                assert ("ResourceFlavor", "", f["name"]) in by
                assert [x["name"] for x in f["resources"]] == g["coveredResources"]


def test_the_seeds_own_cluster_queue_is_refused(api):
    with open(GOLDEN + ".yaml") as f:
        queue, = [o for o in yaml.safe_load_all(f) if o["kind"] == "ClusterQueue"]
    with open(GOLDEN + ".errors.tsv") as f:
        rows = [line.rstrip("\n").split("\t") for line in f if not line.startswith("#")]
    assert len(rows) == 4
    schema = sorted(r[0] for r in rows if r[2] == "schema")
    for version in ("v1beta1", "v1beta2"):
        status, answer = api.call("POST", f"apis/kueue.x-k8s.io/{version}/clusterqueues", {**queue, "apiVersion": "kueue.x-k8s.io/" + version})
        assert status == 422 and answer["reason"] == "Invalid" and fields(answer) == schema, answer
        causes = {c["field"]: c["message"] for c in answer["details"]["causes"] if c.get("field") in schema}
        for field, kind, _ in rows:
            assert field not in causes or causes[field].startswith(kind), causes
