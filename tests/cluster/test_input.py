"""Numbers that no int64 holds, on a real API server: it keeps them as real numbers, and asks webhooks before it looks at schemas."""
import copy
import json
import os
import re
import subprocess

import pytest

import cluster as control
import manager as managers
from support import GROUP, V1, V2, is_true, until

pytestmark = pytest.mark.usefixtures("manager")

PAST = 10000000000000000000
QUOTA = "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota"


def queue_text(space, quota, version="v1beta2"):
    return f"""
apiVersion: kueue.x-k8s.io/{version}
kind: ClusterQueue
metadata: {{name: {space.full("q")}}}
spec:
  namespaceSelector: {{}}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: {space.full("any")}
      resources: [{{name: cpu, nominalQuota: {quota}}}]
"""


def refused(p, *texts):
    assert p.returncode == 1, p.stdout
    assert "failed calling webhook" not in p.stderr and "InternalError" not in p.stderr, p.stderr
    assert all(t in p.stderr for t in texts), p.stderr


@pytest.mark.parametrize("version", [V2, V1])
def test_a_quota_past_int64_is_refused_by_field(cluster, kube, space, version):
    space.flavor("any")
    p = cluster.kubectl("create", "-f", "-", stdin=queue_text(space, PAST, version), check=False)
    refused(p, QUOTA, "between -9223372036854775808 and 9223372036854775807")
    # what is there already stays as it is
    cluster.kubectl("create", "-f", "-", stdin=queue_text(space, 5, version))
    space.made.insert(0, ("clusterqueues", space.full("q")))
    refused(cluster.kubectl("apply", "-f", "-", stdin=queue_text(space, PAST, version), check=False), QUOTA)
    refused(cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=queue_text(space, -PAST, version), check=False), QUOTA)
    assert space.cq("q")["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] in (5, "5")
    # the same amount as a text is a quantity
    cluster.kubectl("apply", "-f", "-", stdin=queue_text(space, '"10E"', version))
    assert space.cq("q")["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] == "10E"


def test_a_toleration_without_end(cluster, space):
    text = f"{{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {{name: {space.full('f')}}}, spec: {{tolerations: [{{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: {PAST}}}]}}}}"
    refused(cluster.kubectl("create", "-f", "-", stdin=text, check=False), "spec.tolerations[0].tolerationSeconds")


def test_a_count_past_int64(cluster, space):
    w = {"apiVersion": f"{GROUP}/{V2}", "kind": "Workload", "metadata": {"name": "w", "namespace": space.ns}, "spec": {"queueName": "a", "podSets": [
        {"name": "main", "count": PAST, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}}]}}
    refused(cluster.kubectl("create", "-f", "-", stdin=json.dumps(w), check=False), "spec.podSets[0].count")


def test_a_number_that_nobody_reads_is_in_nobodys_way(cluster, kube, space):
    """The open part of a Workload: it is admitted, nobody rewrites the number, and neither lists nor watches end at it."""
    space.cpu_queue("a", 4)
    w = {"kind": "Workload", "metadata": {"name": "w"}, "spec": {"queueName": "a", "podSets": [{"name": "main", "count": 1, "template": {"spec": {
        "restartPolicy": "Never", "x-future": PAST, "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]}}}]}}
    kube.create("workloads", w, space.ns)
    until(lambda: is_true(kube.get("workloads", "w", space.ns), "Admitted"), "admitted")
    for version in (V2, V1):
        o = kube.get("workloads", "w", space.ns, version)
        assert o["spec"]["podSets"][0]["template"]["spec"]["x-future"] == PAST, version
        assert len(kube.list("workloads", space.ns, version)) == 1
    kube.merge("workloads", "w", {"metadata": {"labels": {"a": "b"}}}, space.ns)  # an update is not refused either
    space.submit("train", "a", cpu=3)
    space.admitted("train")
    space.submit("more", "a", cpu=1)
    space.waiting("more")
    space.settled("a", {"any": {"cpu": 4}})


def test_a_job_with_such_a_number_is_refused_by_the_api_server(cluster, space):
    space.cpu_queue("a", 1)
    o = space.manifest("j", "a")
    o["spec"]["parallelism"] = PAST
    refused(cluster.kubectl("create", "-f", "-", stdin=json.dumps(o), check=False), "parallelism")


def job_of(space, **spec):
    o = space.manifest("j")
    o["spec"].update(spec)
    return o


def changed(o, path, value):
    """a copy with another value at a path"""
    o = copy.deepcopy(o)
    at = o
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return o


POD = ("spec", "template", "spec")
CONTAINER = (*POD, "containers", 0)
CHANGES = [
    # what an API server takes, lint takes
    (("spec", "parallelism"), 0, True), (("spec", "parallelism"), 2147483647, True), (("spec", "suspend"), True, True), (("spec", "completionMode"), "Indexed", True),
    (("spec", "backoffLimit"), None, True), (("metadata", "labels"), None, True), (("metadata", "name"), "a.b", True), (("metadata", "creationTimestamp"), None, True),
    ((*CONTAINER, "resources"), {"requests": {"cpu": 0.5, "memory": "1e3", "example.com/x": 1}, "limits": {"example.com/x": "1", "cpu": "1E"}}, True),
    ((*CONTAINER, "resources"), {"requests": {"cpu": "99999999999999999999"}}, True), ((*CONTAINER, "env"), [{"name": "a"}, {"name": "b", "value": ""}], True),
    ((*CONTAINER, "ports"), [{"containerPort": 80}], True), ((*CONTAINER, "securityContext"), {"privileged": False, "capabilities": {"add": ["IPC_LOCK"]}}, True),
    ((*POD, "initContainers"), [{"name": "i", "image": "x", "restartPolicy": "Always"}], True), ((*POD, "nodeSelector"), {"a.b/c": "d"}, True),
    ((*POD, "tolerations"), [{"operator": "Exists"}, {"key": "a", "effect": "NoExecute", "operator": "Exists", "tolerationSeconds": -5}], True),
    ((*POD, "volumes"), [{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}, {"name": "w", "hostPath": {"path": "/x"}}], True),
    ((*POD, "affinity"), {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}]}}}, True),
    ((*POD, "schedulingGates"), [], True), ((*POD, "priorityClassName"), "", True), ((*POD, "os"), {"name": "linux"}, True),
    ((*CONTAINER, "resources"), {"limits": {"nvidia.com/gpu": 2}}, True), ((*CONTAINER, "resources"), {"requests": {"nvidia.com/gpu": "2000m"}, "limits": {"nvidia.com/gpu": 2}}, True),
    ((*CONTAINER, "resources"), {"requests": {"cpu": 1.5}, "limits": {"cpu": 2, "memory": "1Gi"}}, True), ((*CONTAINER, "resources"), {"requests": {"cpu": 0.0001}, "limits": {"cpu": 0.00005}}, True),
    ((*CONTAINER, "resources"), {"requests": {"kubernetes.io/batch": 0.5}, "limits": {"kubernetes.io/batch": 1}}, True), ((*POD, "restartPolicy"), "OnFailure", True),
    # what it refuses, lint refuses
    ((*CONTAINER, "resources"), {"limits": {"nvidia.com/gpu": "99999999999999999999"}}, False),
    ((*CONTAINER, "resources"), {"limits": {"nvidia.com/gpu": 1.5}}, False), ((*CONTAINER, "resources"), {"requests": {"nvidia.com/gpu": "500m"}, "limits": {"nvidia.com/gpu": "500m"}}, False),
    ((*CONTAINER, "resources"), {"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 2}}, False), ((*CONTAINER, "resources"), {"requests": {"nvidia.com/gpu": 2}, "limits": {"nvidia.com/gpu": 1}}, False),
    ((*CONTAINER, "resources"), {"requests": {"nvidia.com/gpu": 1}}, False), ((*CONTAINER, "resources"), {"requests": {"cpu": 2}, "limits": {"cpu": "1500m"}}, False),
    ((*CONTAINER, "resources"), {"requests": {"cpu": 1, "hugepages-2Mi": "2Mi"}, "limits": {"hugepages-2Mi": "4Mi"}}, False),
    ((*POD, "initContainers"), [{"name": "i", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 0.5}}}], False),
    ((*POD, "restartPolicy"), None, False), ((*POD, "restartPolicy"), "Always", False), ((*POD, "restartPolicy"), "", False), ((*POD, "restartPolicy"), "Sometimes", False), ((*POD, "restartPolicy"), 5, False),
    (("metadata",), [1], False), (("metadata", "name"), 5, False), (("metadata", "name"), "A_b", False), (("metadata", "name"), "a" * 64, False), (("metadata", "labels"), {"a": 1}, False),
    (("metadata", "labels"), {"a b": "c"}, False), (("metadata", "annotations"), "x", False), (("metadata", "finalizers"), [5], False), (("metadata", "generation"), "x", False),
    (("metadata", "ownerReferences"), [{"apiVersion": "v1", "kind": "X", "name": "x"}], False), (("metadata", "creationTimestamp"), "yesterday", False),
    (("spec",), "x", False), (("spec",), None, False), (("spec", "parallelism"), "x", False), (("spec", "parallelism"), -1, False), (("spec", "parallelism"), 2147483648, False),
    (("spec", "parallelism"), PAST, False), (("spec", "completions"), 1.5, False), (("spec", "completions"), -1, False), (("spec", "suspend"), "true", False),
    (("spec", "completionMode"), "Some", False), (("spec", "backoffLimit"), -1, False), (("spec", "activeDeadlineSeconds"), -1, False), (("spec", "ttlSecondsAfterFinished"), -1, False),
    (("spec", "template"), [], False), (POD, None, False), ((*POD, "containers"), {}, False), ((*POD, "containers"), [], False), (CONTAINER, 5, False),
    ((*CONTAINER, "name"), None, False), ((*CONTAINER, "name"), "A", False), ((*CONTAINER, "env"), [{"name": "a", "value": 1}], False), ((*CONTAINER, "env"), [{"value": "a"}], False),
    ((*CONTAINER, "resources"), {"requests": {"cpu": -1}}, False), ((*CONTAINER, "resources"), {"requests": {"cpu": "abc"}}, False), ((*CONTAINER, "resources"), {"requests": {"cpu": True}}, False),
    ((*CONTAINER, "resources"), {"requests": [1]}, False), ((*CONTAINER, "resources"), {"requests": {"pods": 1}}, False), ((*CONTAINER, "volumeMounts"), [{"name": "x"}], False),
    ((*CONTAINER, "securityContext"), {"privileged": 1}, False), ((*CONTAINER, "ports"), [{"containerPort": "x"}], False),
    ((*POD, "initContainers"), [{"name": "c", "image": "x"}], False), ((*POD, "initContainers"), [{"name": "i", "image": "x", "restartPolicy": "Sometimes"}], False),
    ((*POD, "nodeSelector"), {"a": 1}, False), ((*POD, "tolerations"), {"key": "a"}, False), ((*POD, "tolerations"), [{"key": 5}], False), ((*POD, "priority"), 3000000000, False),
    ((*POD, "volumes"), [{"emptyDir": {}}], False), ((*POD, "volumes"), [{"name": "v", "emptyDir": {"sizeLimit": "-1Gi"}}], False), ((*POD, "runtimeClassName"), 5, False),
    ((*POD, "affinity"), {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}, False),
    ((*POD, "affinity"), {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]}}}, False),
    ((*POD, "hostIPC"), "no", False), ((*POD, "schedulingGates"), [{}], False), (("apiVersion",), "batch/v2", False), (("apiVersion",), "v1", False),
]


@pytest.mark.parametrize("path, value, good", CHANGES, ids=[f"{'.'.join(map(str, p))}={json.dumps(v)[:40]}" for p, v, _ in CHANGES])
def test_lint_and_the_api_server_agree(cluster, space, path, value, good):
    text = json.dumps(changed(job_of(space), path, value))
    p = cluster.kubectl("create", "--dry-run=server", "--validate=false", "-f", "-", stdin=text, check=False)
    lint = subprocess.run([managers.BINARY, "lint", "-"], input=text, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert (p.returncode == 0, lint.returncode) == (good, 0 if good else 1), (p.stderr, lint.stdout)


def lint_of(text):
    p = subprocess.run([managers.BINARY, "lint", "-o", "json", "-"], input=text, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return [json.loads(line) for line in p.stdout.splitlines()]


def test_lint_finds_the_unknown_fields_that_strict_validation_finds(cluster, space):
    o = job_of(space)
    pod = o["spec"]["template"]["spec"]
    o["metadata"]["label"] = {}
    o["spec"]["paralelism"] = 1
    o["spec"]["podFailurePolicy"] = {"rules": [{"action": "Ignore", "onPodCondition": []}]}
    pod["tolerrations"] = []
    pod["Volumes"] = []
    pod["containers"][0].update(resource={}, env=[{"name": "a", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "nme": "x"}}}])
    pod["securityContext"] = {"seccompProfile": {"kind": "RuntimeDefault", "type": "RuntimeDefault"}}
    text = json.dumps(o)
    p = cluster.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=text, check=False)
    strict = set(re.findall(r'unknown field "([^"]+)"', p.stderr))
    assert len(strict) == 8, p.stderr
    assert {x["path"] for x in lint_of(text) if x["text"].startswith("Unknown field")} == strict


def test_the_fields_of_a_job_that_lint_knows_are_those_there_are(cluster):
    """the table against the schema that the API server publishes; what has no row in the table is open"""
    schemas = json.loads(cluster.kubectl("get", "--raw", "/openapi/v3/apis/batch/v1").stdout)["components"]["schemas"]
    with open(os.path.join(control.REPO, "cmd", "known.c")) as f:
        rows = re.search(r"types\[\] = \{\n(.*?)\n\};", f.read(), re.S)[1]
    table = {}
    for row in re.findall(r"\{(.*?)\}", rows, re.S):
        name, *words = re.findall(r'"([^"]*)"', row)
        table[name] = dict(w.partition(":")[::2] for w in "".join(words).split())

    def type_of(p):
        p = p.get("items") or p.get("additionalProperties") or p
        refs = [x["$ref"] for x in (p, *p.get("allOf", [])) if "$ref" in x]
        return refs[0].rpartition("/")[2] if refs else None
    todo, seen = [("root", "io.k8s.api.batch.v1.Job")], set()
    while todo:
        ours, theirs = todo.pop()
        if (ours, theirs) in seen:
            continue
        seen.add((ours, theirs))
        fields = schemas[theirs]["properties"]
        assert set(table[ours]) == set(fields), (ours, theirs, set(table[ours]) ^ set(fields))
        todo += [(inner, type_of(fields[name])) for name, inner in table[ours].items() if inner]
    assert {ours for ours, _ in seen} == set(table)
