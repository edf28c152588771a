"""The API as clients know it: both versions, printed columns, dry runs, apply, wrong objects."""
import json

import pytest
from kubernetes.client.exceptions import ApiException

from support import GROUP, QUEUE_LABEL, V1, V2, condition, is_true, load_yaml, message, until

pytestmark = pytest.mark.usefixtures("manager")


def test_v1beta1_in_v1beta2_out_and_back(cluster, kube, space):
    flavor = space.flavor("f", {"a": "b"})
    manifest = f"""
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {{name: {space.full("q")}}}
spec:
  cohort: {space.full("pool")}
  namespaceSelector: {{}}
  queueingStrategy: StrictFIFO
  flavorFungibility: {{whenCanBorrow: Borrow, whenCanPreempt: Preempt}}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: {flavor}
      resources: [{{name: cpu, nominalQuota: 5, borrowingLimit: 1, lendingLimit: 2}}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {{name: q, namespace: {space.ns}}}
spec: {{clusterQueue: {space.full("q")}}}
"""
    cluster.kubectl("apply", "-f", "-", stdin=manifest)
    space.made.insert(0, ("clusterqueues", space.full("q")))
    new, old = kube.get("clusterqueues", space.full("q"), version=V2), kube.get("clusterqueues", space.full("q"), version=V1)
    assert new["spec"]["cohortName"] == old["spec"]["cohort"] == space.full("pool") and "cohort" not in new["spec"]
    assert new["spec"]["flavorFungibility"] == {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"}
    assert old["spec"]["resourceGroups"] == new["spec"]["resourceGroups"]
    until(lambda: is_true(space.cq("q"), "Active"), "in use")
    # the same manifest again changes nothing, and what was read can be written back
    again = cluster.kubectl("apply", "-f", "-", stdin=manifest).stdout
    assert again.count("unchanged") + again.count("configured") == 2
    for version, o in ((V1, old), (V2, new)):
        o["metadata"].pop("resourceVersion")
        cluster.kubectl("replace", "-f", "-", stdin=json.dumps(o))
        for v, was in ((V1, old), (V2, new)):
            assert kube.get("clusterqueues", space.full("q"), version=v)["spec"] == was["spec"], (version, v)


def test_a_workload_in_both_versions(kube, space):
    space.cpu_queue("a", 2)
    kube.create("workloadpriorityclasses", {"kind": "WorkloadPriorityClass", "metadata": {"name": space.full("p")}, "value": 7, "description": "x"})
    space.made.append(("workloadpriorityclasses", space.full("p")))
    space.submit("train", "a", labels={GROUP + "/priority-class": space.full("p")})
    w = space.admitted("train")
    assert w["spec"]["priorityClassRef"] == {"group": GROUP, "kind": "WorkloadPriorityClass", "name": space.full("p")} and w["spec"]["priority"] == 7
    old = kube.get("workloads", w["metadata"]["name"], space.ns, V1)
    assert old["spec"]["priorityClassName"] == space.full("p") and old["spec"]["priorityClassSource"] == "kueue.x-k8s.io/workloadpriorityclass"
    assert old["status"]["admission"]["clusterQueue"] == w["status"]["admission"]["clusterQueue"]


def test_columns_that_people_know(cluster, space):
    space.cpu_queue("a", 1)
    space.submit("first", "a")
    space.admitted("first")
    space.submit("second", "a")
    space.waiting("second")
    until(lambda: space.lq("a")["status"].get("pendingWorkloads") == 1, "counted")
    head, row = cluster.kubectl("-n", space.ns, "get", "localqueue", "a").stdout.splitlines()
    assert head.split("  ")[0] == "NAME" and "CLUSTERQUEUE" in head and "PENDING WORKLOADS" in head and "ADMITTED WORKLOADS" in head
    assert row.split() == ["a", space.full("a"), "1", "1"]
    head, row = cluster.kubectl("get", "cq", space.full("a")).stdout.splitlines()
    assert "COHORT" in head and row.split()[-1] == "1"
    table = cluster.kubectl("-n", space.ns, "get", "workloads").stdout.splitlines()
    assert table[0].split() == ["NAME", "QUEUE", "RESERVED", "IN", "ADMITTED", "FINISHED", "AGE"] and len(table) == 3
    one = next(line for line in table if line.startswith("job-first-")).split()
    assert one[1:4] == ["a", space.full("a"), "True"]
    selected = cluster.kubectl("-n", space.ns, "get", "workloads", "--field-selector", "status.admission.clusterQueue=" + space.full("a"), "-o", "name").stdout.split()
    assert len(selected) == 1


def test_dry_run_shows_what_would_be_and_leaves_nothing(cluster, kube, space):
    space.cpu_queue("a", 1)
    shown = json.loads(cluster.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=json.dumps(space.manifest("train", "a"))).stdout)
    assert shown["spec"]["suspend"] is True
    assert kube.batch.list_namespaced_job(space.ns).items == [] and kube.list("workloads", space.ns) == []


def test_apply_again_is_no_change(cluster, space):
    space.cpu_queue("a", 1)
    manifest = json.dumps(space.manifest("train", "a", gpu=1))
    cluster.kubectl("apply", "-f", "-", stdin=manifest)
    before = space.job("train")["metadata"]["generation"]
    assert "unchanged" in cluster.kubectl("apply", "-f", "-", stdin=manifest).stdout
    assert space.job("train")["metadata"]["generation"] == before


def test_a_gpu_job_is_told_about_its_shm(cluster, space):
    space.cpu_queue("a", 1)
    p = cluster.kubectl("create", "-f", "-", stdin=json.dumps(space.manifest("train", "a", gpu=1)))
    assert "/dev/shm" in p.stderr and "Warning" in p.stderr


@pytest.mark.parametrize("change, field", [
    (lambda o: o["metadata"]["labels"].update({QUEUE_LABEL: "Not_A_Name"}), QUEUE_LABEL),
    (lambda o: o["metadata"]["labels"].update({GROUP + "/max-exec-time-seconds": "0"}), "max-exec-time-seconds"),
    (lambda o: o["metadata"]["annotations"].update({GROUP + "/job-min-parallelism": "many"}), "job-min-parallelism"),
])
def test_a_wrong_job_is_refused_by_field(kube, space, change, field):
    o = space.manifest("wrong", "a")
    change(o)
    with pytest.raises(ApiException) as e:
        kube.batch.create_namespaced_job(space.ns, o)
    assert e.value.status in (403, 422) and field in message(e.value), message(e.value)


@pytest.mark.parametrize("spec, fields", [
    ({"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "-1"}]}]}]}, ["nominalQuota"]),
    ({"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "1", "borrowingLimit": "1"}]}]}]}, ["borrowingLimit"]),
    ({"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "1"}, {"name": "memory", "nominalQuota": "-1"}]}]}]}, ["spec.resourceGroups[0]"]),
    ({"cohortName": "c", "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "1", "lendingLimit": "2"}]}]}]}, ["lendingLimit"]),
    ({"queueingStrategy": "Random"}, ["queueingStrategy"]),
])
def test_a_wrong_cluster_queue_is_refused_by_field(kube, space, spec, fields):
    with pytest.raises(ApiException) as e:
        kube.create("clusterqueues", {"kind": "ClusterQueue", "metadata": {"name": space.full("q")}, "spec": spec})
    assert e.value.status in (403, 422)
    assert all(f in message(e.value) for f in fields), message(e.value)


def test_a_cohort_that_is_its_own_parent(kube, space):
    with pytest.raises(ApiException) as e:
        kube.create("cohorts", {"kind": "Cohort", "metadata": {"name": space.full("c")}, "spec": {"parentName": space.full("c")}})
    assert e.value.status in (403, 422) and "parentName" in message(e.value)


def test_cohorts_in_a_ring_stop_their_own_queues_only(kube, space):
    space.flavor("any")
    space.queue("ring", {"any": {"cpu": 1}}, cohort="a")
    space.queue("other", {"any": {"cpu": 2}}, cohort="c")
    for name, parent in (("a", "b"), ("b", "a")):
        kube.create("cohorts", {"kind": "Cohort", "metadata": {"name": space.full(name)}, "spec": {"parentName": space.full(parent)}})
        space.made.append(("cohorts", space.full(name)))
    space.submit("outside", "other")
    space.admitted("outside")
    space.submit("inside", "ring")
    space.waiting("inside")
    kube.merge("cohorts", space.full("b"), {"spec": {"parentName": None}})
    space.admitted("inside")


def test_quantities_of_every_size(kube, space):
    space.flavor("any")
    space.queue("a", {"any": {"cpu": "1E", "memory": "1G"}})
    space.submit("small", "a", cpu="100m")
    space.admitted("small")
    o = space.manifest("big", "a")
    o["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"] = "1G"
    kube.batch.create_namespaced_job(space.ns, o)
    space.admitted("big")
    until(lambda: space.usage("a")["any"] == {"cpu": "1100m", "memory": "1G"} or space.usage("a")["any"] == {"cpu": "1100m", "memory": "1000000000"} or None, "exact sums")


def test_requests_that_would_overflow_are_never_a_credit(kube, space):
    space.cpu_queue("a", 2)
    space.submit("monster", "a", cpu="9223372036854775807", pods=3)
    space.waiting("monster")
    space.submit("fits", "a", cpu=2)
    space.admitted("fits")
    space.submit("over", "a", cpu=1)
    space.waiting("over")
    space.settled("a", {"any": {"cpu": 2}})


def test_the_journey_of_workloads_without_jobs(kube, space):
    space.cpu_queue("a", 4)
    w = {"kind": "Workload", "metadata": {"name": "w"}, "spec": {"queueName": "a", "podSets": [{"name": "main", "count": 3, "template": {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]}}}]}}
    kube.create("workloads", w, space.ns)
    until(lambda: is_true(kube.get("workloads", "w", space.ns), "Admitted"), "admitted")
    space.settled("a", {"any": {"cpu": 3}})
    with pytest.raises(ApiException) as e:
        kube.merge("workloads", "w", {"spec": {"queueName": "b"}}, space.ns)
    assert e.value.status in (403, 422) and "queueName" in message(e.value)
    kube.delete("workloads", "w", space.ns)
    space.settled("a", {"any": {"cpu": 0}})


def test_examples_of_the_quick_start_are_accepted(cluster):
    """every manifest a newcomer copies is taken by a real API server"""
    import os

    from cluster import REPO
    folder = os.path.join(REPO, "examples", "quickstart")
    files = sorted(f for f in os.listdir(folder) if f.endswith(".yaml"))
    assert files
    docs = []
    for f in files:
        with open(os.path.join(folder, f)) as s:
            docs += load_yaml(s.read())
    spaces = {d["metadata"]["namespace"] for d in docs if d["metadata"].get("namespace")} | {d["metadata"]["name"] for d in docs if d["kind"] == "Namespace"}
    for ns in spaces - {"default"}:
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns}})
    for d in docs:
        cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(d))


def test_a_condition_is_dated_and_observed(space):
    space.cpu_queue("a", 1)
    space.submit("train", "a")
    w = space.admitted("train")
    for c in w["status"]["conditions"]:
        assert c["lastTransitionTime"].endswith("Z") and c["reason"] and "message" in c
    assert condition(w, "Admitted")["observedGeneration"] == w["metadata"]["generation"]
