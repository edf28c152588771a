"""What the schemas alone refuse and accept, on a real API server without any webhook."""
import json
import os

import pytest
import yaml
from conftest import ROOT, fields

JOURNEYS = os.path.join(ROOT, "tests", "journeys")
PREFIX = "p-"
# Stories and steps (from 1) that the peer's schema refuses by a CEL rule which our webhook has taken over: docs/decisions/crd-cost.md.
WEBHOOK = {("wrong ClusterQueues", 2), ("wrong ClusterQueues", 6), ("wrong ClusterQueues", 15), ("wrong workloads", 5), ("wrong workloads", 8)}
# Here the schema names the field; the peer's defaulting webhook cannot read the object at all (23), or writes a quota of 0 where none was given (24).
OURS = {("wrong ClusterQueues", i): ["spec.resourceGroups[0].flavors[0].resources[0].nominalQuota"] for i in (23, 24)}


def prefixed(x):
    if isinstance(x, str):
        return x.replace("~", PREFIX)
    if isinstance(x, dict):
        return {prefixed(k): prefixed(v) for k, v in x.items()}
    return [prefixed(v) for v in x] if isinstance(x, list) else x


def steps():
    with open(os.path.join(JOURNEYS, "record", "default.json")) as f:
        record = json.load(f)
    with open(os.path.join(JOURNEYS, "invalid.yaml")) as f:
        for story in yaml.safe_load_all(f):
            for i, step in enumerate(story["steps"], 1):
                if isinstance(step, dict) and "create" in step and story["name"].startswith("wrong"):
                    seen = record[story["name"]][i].get("results", [])
                    yield story["name"], i, prefixed(step["create"]), seen[0] if seen and "code" in seen[0] else None  # the rest are warnings


STEPS = [s for s in steps() if s[2]["kind"] != "Pod"]


@pytest.mark.parametrize("story,i,obj,seen", STEPS, ids=[f"{s[0]}-{s[1]}" for s in STEPS])
def test_wrong_objects(api, story, i, obj, seen):
    status, answer = api.create(obj)
    try:
        if (story, i) in OURS:
            assert status == 422 and fields(answer) == OURS[story, i], answer
        elif seen and seen["code"] == 422 and (story, i) not in WEBHOOK:
            assert status == 422, answer
            assert fields(answer) == prefixed(seen["fields"]), answer
        else:
            assert status == 201, answer  # accepted by everybody, or the webhook's to refuse
    finally:
        if status == 201:
            api.delete(obj["kind"], obj["metadata"]["name"])


def test_the_list_covers_what_it_should():
    refused = [s for s in STEPS if s[3] and s[3]["code"] == 422 and (s[0], s[1]) not in WEBHOOK]
    assert len(STEPS) > 55 and len(refused) > 20


def queue(name, **spec):
    return {"kind": "LocalQueue", "metadata": {"name": name}, "spec": spec}


def test_a_local_queue_keeps_its_cluster_queue(api):
    assert api.create(queue("lq", clusterQueue="a"))[0] == 201
    status, answer = api.merge("LocalQueue", "lq", {"spec": {"clusterQueue": "b"}})
    assert status == 422 and fields(answer) == ["spec.clusterQueue"]
    assert api.merge("LocalQueue", "lq", {"spec": {"stopPolicy": "Stop"}})[0] == 422
    assert api.merge("LocalQueue", "lq", {"spec": {"clusterQueue": None}})[0] == 200  # a transition rule needs both sides
    assert api.merge("LocalQueue", "lq", {"spec": {"clusterQueue": "b"}})[0] == 200
    api.delete("LocalQueue", "lq")


def workload(name, template, **spec):
    return {"kind": "Workload", "metadata": {"name": name}, "spec": {"podSets": [{"template": template}], **spec}}


def test_defaults_and_the_open_template(api):
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}, "somethingNew": {"a": [1, 2]}}
    status, o = api.create(workload("w", {"metadata": {"labels": {"a": "b"}, "uid": "gone", "creationTimestamp": None}, "spec": {"containers": [container], "futureField": True}}))
    assert status == 201, o
    try:
        pod_set = o["spec"]["podSets"][0]
        assert pod_set["name"] == "main" and pod_set["count"] == 1 and o["spec"]["active"] is True
        assert pod_set["template"]["metadata"] == {"labels": {"a": "b"}}  # the rest is dropped
        assert pod_set["template"]["spec"] == {"containers": [container], "futureField": True}  # kept as it came
        managed = json.dumps(o["metadata"]["managedFields"])
        assert "f:template" in managed and "f:containers" not in managed  # one owner for all of it
    finally:
        api.delete("Workload", "w")


@pytest.mark.parametrize("template,path", [
    (None, "spec.podSets[0].template"), ("text", "spec.podSets[0].template"), ({"spec": {}}, "spec.podSets[0].template.spec.containers"),
    ({"metadata": {"labels": {"a": 1}}, "spec": {"containers": []}}, "spec.podSets[0].template.metadata.labels.a"),
    ({"metadata": {"annotations": []}, "spec": {"containers": []}}, "spec.podSets[0].template.metadata.annotations")])
def test_wrong_templates(api, template, path):
    status, answer = api.create(workload("w", template))
    assert status == 422 and path in fields(answer), answer


@pytest.mark.parametrize("value,ok", [(1, True), ("500m", True), ("1.5Gi", True), ("+1", True), ("1e3", True), (True, False), ({}, False), ([], False), (1.5, False), ("1 Gi", False), ("", False)])
def test_quantities(api, value, ok):
    o = {"kind": "Cohort", "metadata": {"name": "q"}, "spec": {"fairSharing": {"weight": value}}}
    status, answer = api.create(o)
    assert (status == 201) == ok, answer
    if ok:
        api.delete("Cohort", "q")
    else:
        assert "spec.fairSharing.weight" in fields(answer), answer


def test_rules_that_stay_in_the_schemas(api):
    def refused(o, *paths):
        status, answer = api.create(o)
        assert status == 422 and fields(answer) == sorted(paths), answer

    def changed(kind, name, body, *paths):
        status, answer = api.merge(kind, name, body)
        assert (status, fields(answer)) == (422, sorted(paths)) if paths else status == 200, answer

    def levels(*names):
        return {"kind": "Topology", "metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": n} for n in names]}}

    refused(levels("a", "b", "a"), "spec.levels")
    refused(levels("kubernetes.io/hostname", "b"), "spec.levels")
    assert api.create(levels("rack", "kubernetes.io/hostname"))[0] == 201
    changed("Topology", "t", {"spec": {"levels": [{"nodeLabel": "rack"}]}}, "spec.levels")
    api.delete("Topology", "t")

    flavor = {"kind": "ResourceFlavor", "metadata": {"name": "f"}, "spec": {"topologyName": "t"}}
    refused(flavor, "spec")
    flavor["spec"] = {"nodeLabels": {"a": "b"}}
    assert api.create(flavor)[0] == 201
    changed("ResourceFlavor", "f", {"spec": {"nodeLabels": {"a": "c"}}})
    changed("ResourceFlavor", "f", {"spec": {"topologyName": "t"}})  # may be added
    changed("ResourceFlavor", "f", {"spec": {"nodeLabels": {"a": "b"}}}, "spec")
    changed("ResourceFlavor", "f", {"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}}, "spec")
    changed("ResourceFlavor", "f", {"spec": {"topologyName": "u"}}, "spec")
    changed("ResourceFlavor", "f", {"spec": {"topologyName": None}}, "spec")
    changed("ResourceFlavor", "f", {"spec": {"nodeTaints": [{"key": "k", "effect": "NoSchedule"}]}})
    api.delete("ResourceFlavor", "f")
    for t in ({"operator": "Maybe", "key": "k"}, {"key": "k", "effect": "Never"}):
        refused({"kind": "ResourceFlavor", "metadata": {"name": "f"}, "spec": {"tolerations": [t]}}, "spec.tolerations")

    check = {"kind": "AdmissionCheck", "metadata": {"name": "c"}, "spec": {"controllerName": "example.com/a"}}
    assert api.create(check)[0] == 201
    changed("AdmissionCheck", "c", {"spec": {"controllerName": "example.com/b"}}, "spec.controllerName")
    api.delete("AdmissionCheck", "c")
    refused({"kind": "MultiKueueConfig", "metadata": {"name": "m"}, "spec": {"clusters": ["a", "b", "a"]}}, "spec.clusters")
    refused({"kind": "MultiKueueCluster", "metadata": {"name": "m"}, "spec": {"clusterSource": {}}}, "spec.clusterSource")
    refused({"kind": "MultiKueueCluster", "metadata": {"name": "m"}, "spec": {"clusterSource": {"kubeConfig": {"location": "s"}, "clusterProfileRef": {"name": "p"}}}}, "spec.clusterSource")
    two = [{"name": "cpu", "nominalQuota": 1}, {"name": "memory", "nominalQuota": 1}]
    refused({"kind": "Cohort", "metadata": {"name": "c"}, "spec": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": two}]}]}}, "spec.resourceGroups[0]")


def test_workloads_can_be_selected_by_their_queue(api):
    status, answer = api.call("GET", api.path("Workload") + "?fieldSelector=status.admission.clusterQueue%3Dx")
    assert status == 200 and answer["items"] == []


def test_names_and_columns(cluster):
    for short in "cq rf flavor lq queue co kwl kueueworkload wpc ac topo mkc mkconf prc".split():
        assert "error" not in cluster.kubectl("get", short).stderr.lower().replace("no resources", "")
    names = cluster.kubectl("get", "crd", "-o", "name").stdout.split()
    assert len([n for n in names if n.endswith(".kueue.x-k8s.io")]) == 11


def test_the_old_version_warns(cluster):
    assert "This version is deprecated. Use v1beta2 instead." in cluster.kubectl("get", "resourceflavors.v1beta1.kueue.x-k8s.io").stderr


def test_size(api):
    for name in ("workloads", "clusterqueues"):
        status, o = api.get("CustomResourceDefinition", name + ".kueue.x-k8s.io")
        assert status == 200
        size = len(json.dumps({"spec": o["spec"]}, separators=(",", ":")))
        print(f"{name}: {size} bytes")
        assert size < 40_000, name
