"""Numbers that no int64 holds, on a real API server: it keeps them as real numbers, and asks webhooks before it looks at schemas."""
import json

import pytest

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
