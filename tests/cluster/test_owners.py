"""Jobs of jobs, Workloads made for jobs, and what becomes of a Job whose Workload was deleted while no manager ran."""
import copy

import pytest

from support import GPU, GROUP, condition, is_true, steady, until

pytestmark = pytest.mark.usefixtures("manager")
PREBUILT = GROUP + "/prebuilt-workload-name"


def owned_by(job, manifest):
    manifest["metadata"]["ownerReferences"] = [{"apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"], "uid": job["metadata"]["uid"], "controller": True}]
    return manifest


def suspended(space, name):
    return space.job(name)["spec"]["suspend"]


@pytest.mark.parametrize("queue", ["q", None], ids=["with a label", "without one"])
def test_a_job_that_owns_it_is_no_way_around_quota(kube, space, queue):
    space.flavor()
    space.queue("q", {"any": {"cpu": 9, GPU: 1}})
    space.submit("blocker", "q", cpu=9)
    space.admitted("blocker")
    parent = space.submit("parent", "q", cpu=1)
    space.waiting("parent")

    child = owned_by(parent, space.manifest("child", queue, cpu=2, gpu=8))
    stored = kube.plain(kube.batch.create_namespaced_job(space.ns, child))
    assert stored["spec"]["suspend"] is (queue is not None)
    until(lambda: suspended(space, "child"), "the child is held")
    kube.patch_job(space.ns, "child", {"spec": {"suspend": False}})
    until(lambda: suspended(space, "child"), "it is stopped again")
    said = until(lambda: kube.events(space.ns, "Suspended", "child"), "and that is said")
    assert said[0]["type"] == "Normal" and "parent" in said[0]["note"]
    assert space.workload("child") is None, "a child does not wait in the queue before its parent has left it"

    kube.batch.delete_namespaced_job("blocker", space.ns, propagation_policy="Background")
    space.admitted("parent")
    # its parent's quota is not for it: it waits for 8 GPUs of 1, also after a hand has unsuspended it
    c = space.waiting("child")
    assert GPU in c["message"]
    kube.patch_job(space.ns, "child", {"spec": {"suspend": False}})
    until(lambda: suspended(space, "child"), "it is stopped again")
    space.run("parent")
    space.succeed("parent")
    kube.patch_job(space.ns, "child", {"spec": {"suspend": False}})
    until(lambda: suspended(space, "child"), "a finished parent changes nothing")
    kube.merge("clusterqueues", space.full("q"), {"spec": {"resourceGroups": [{"coveredResources": ["cpu", GPU], "flavors": [
        {"name": space.full("any"), "resources": [{"name": "cpu", "nominalQuota": "9"}, {"name": GPU, "nominalQuota": "8"}]}]}]}})
    space.admitted("child")
    until(lambda: not suspended(space, "child"), "it runs on quota of its own")


def prebuilt(kube, space, name, job):
    template = copy.deepcopy(job["spec"]["template"])
    template["metadata"] = {}
    kube.create("workloads", {"kind": "Workload", "metadata": {"name": name}, "spec": {"queueName": "q", "podSets": [{"name": "main", "count": 1, "template": template}]}}, space.ns)


@pytest.mark.parametrize("where", ["labels", "annotations"])
@pytest.mark.parametrize("first", ["job", "workload"])
def test_a_job_takes_the_workload_that_was_made_for_it(kube, space, where, first):
    space.cpu_queue("q", 8)
    for i in range(4):
        name, made = f"job{i}", f"made{i}"
        manifest = space.manifest(name, "q", cpu=1, **{where: {PREBUILT: made}})
        if first == "workload":  # its template is compared with the job's, defaults and all
            prebuilt(kube, space, made, kube.plain(kube.batch.create_namespaced_job(space.ns, manifest, dry_run="All")))
        job = kube.plain(kube.batch.create_namespaced_job(space.ns, manifest))
        if first == "job":
            if i % 2:
                steady(lambda: suspended(space, name), "nothing starts without it")
            prebuilt(kube, space, made, job)
    for i in range(4):
        until(lambda: not suspended(space, f"job{i}"), "the job runs")
        w = kube.get("workloads", f"made{i}", space.ns)
        owner, = w["metadata"]["ownerReferences"]
        assert owner["name"] == f"job{i}" and is_true(w, "Admitted")


def test_a_workload_deleted_while_no_manager_runs(kube, space, manager):
    for name in "xy":
        space.flavor(name, {"pool": name}, tolerations=[{"key": "pool-" + name, "operator": "Exists"}])
    space.queue("q", {"x": {"cpu": 4}, "y": {"cpu": 4}})
    space.submit("a", "q", cpu=3)
    w = space.admitted("a")
    until(lambda: not suspended(space, "a"), "it runs")
    running = space.job("a")
    assert running["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "x"}
    groups = space.cq("q")["spec"]["resourceGroups"]
    groups[0]["flavors"][0]["resources"][0]["nominalQuota"] = "0"
    kube.merge("clusterqueues", space.full("q"), {"spec": {"resourceGroups": groups}})
    manager.kill()
    kube.delete("workloads", w["metadata"]["name"], space.ns)
    manager.start().join()

    def moved():
        space.reap()
        job = space.job("a")
        return not job["spec"]["suspend"] and job["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "y"} and job
    job = until(moved, "it runs where there is room")
    keys = [t["key"] for t in job["spec"]["template"]["spec"]["tolerations"]]
    assert "pool-y" in keys and "pool-x" not in keys
    w = space.admitted("a")
    template = w["spec"]["podSets"][0]["template"]
    assert not template["spec"].get("nodeSelector") and GROUP + "/podset" not in template.get("metadata", {}).get("labels", {})
    assert condition(w, "Admitted")["status"] == "True"
