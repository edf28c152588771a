"""Faults that users of such systems have reported, as the smallest sequence of objects that shows each, with the right outcome."""
import signal
import subprocess

import pytest
from kubernetes.client.exceptions import ApiException

import cluster as control
import manager as managers
from support import GPU, condition, is_true, message, number, set_phase, steady, until

pytestmark = pytest.mark.usefixtures("manager")


def charged(w):
    """{resource: total} of an admitted Workload"""
    return {r: number(q) for a in w["status"]["admission"]["podSetAssignments"] for r, q in a.get("resourceUsage", {}).items()}


def with_pod(space, name, queue, **pod):
    o = space.manifest(name, queue, cpu=None)
    o["spec"]["template"]["spec"].update(pod)
    space.kube.batch.create_namespaced_job(space.ns, o)


def limit_range(kube, space, **item):
    kube.core.create_namespaced_limit_range(space.ns, {"metadata": {"name": "limits"}, "spec": {"limits": [{"type": "Container", **item}]}})


def container(name="c", **resources):
    return {"name": name, "image": "x", "resources": resources}


def test_a_limit_becomes_the_request_before_limit_range_defaults(kube, space):
    space.cpu_queue("a", 8)
    limit_range(kube, space, defaultRequest={"cpu": "1"})
    with_pod(space, "train", "a", containers=[container(limits={"cpu": "3"})])
    assert charged(space.admitted("train")) == {"cpu": 3}


def test_a_sidecar_counts_beside_the_containers(space):
    space.cpu_queue("a", 8)
    one = {"requests": {"cpu": "1"}}
    with_pod(space, "train", "a", initContainers=[{"name": "side", "image": "x", "restartPolicy": "Always", "resources": one}, {"name": "init", "image": "x", "resources": one}],
             containers=[container(**one)])
    assert charged(space.admitted("train")) == {"cpu": 2}


def test_a_gpu_of_an_init_container_is_charged(space):
    space.flavor("any")
    space.queue("a", {"any": {"cpu": 4, GPU: 1}})
    with_pod(space, "train", "a", initContainers=[{"name": "check", "image": "x", "resources": {"limits": {GPU: "1"}}}], containers=[container(requests={"cpu": "1"})])
    assert charged(space.admitted("train")) == {"cpu": 1, GPU: 1}


def test_zero_of_a_resource_that_the_queue_does_not_cover(space):
    space.cpu_queue("a", 4)
    with_pod(space, "train", "a", containers=[container(requests={"cpu": "1"}, limits={GPU: "0"})])
    assert charged(space.admitted("train")).get(GPU, 0) == 0


def test_a_resource_that_a_limit_range_added_is_named(kube, space):
    space.cpu_queue("a", 4)
    limit_range(kube, space, defaultRequest={"ephemeral-storage": "1Gi"})
    space.submit("train", "a")
    space.waiting("train")
    until(lambda: "ephemeral-storage" in condition(space.workload("train"), "QuotaReserved")["message"], "the resource is named")


def workload(space, name, requests, **spec):
    return {"kind": "Workload", "metadata": {"name": name}, "spec": {"queueName": "a", "podSets": [{"name": "main", "count": 1, "template": {
        "spec": {"restartPolicy": "Never", "containers": [container(requests=requests)], **spec}}}]}}


def test_a_negative_request_is_refused_by_field(kube, space):
    space.cpu_queue("a", 1)
    with pytest.raises(ApiException) as e:
        kube.create("workloads", workload(space, "w", {"cpu": "-100"}), space.ns)
    assert e.value.status in (403, 422) and "requests" in message(e.value)


def test_a_negative_overhead_is_no_credit(kube, space):
    space.cpu_queue("a", 1)
    try:
        kube.create("workloads", workload(space, "w", {"cpu": "1"}, overhead={"cpu": "-1"}), space.ns)
    except ApiException as e:
        assert e.status in (403, 422) and "overhead" in message(e)
        return
    until(lambda: is_true(kube.get("workloads", "w", space.ns), "Admitted"), "admitted")
    assert charged(kube.get("workloads", "w", space.ns)) == {"cpu": 1}


def test_a_negative_request_that_is_stored_already_is_charged_nothing(kube, space, one_manager, installation):
    """the webhook was not there when it was written"""
    space.cpu_queue("a", 1)
    name = "sluice-validating-webhook-configuration"
    hooks = kube.raw("GET", f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{name}")
    kube.raw("DELETE", f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{name}")
    try:
        until(lambda: kube.create("workloads", workload(space, "bad", {"cpu": "-100"}), space.ns), "stored")
    finally:
        hooks["metadata"] = {k: v for k, v in hooks["metadata"].items() if k in ("name", "labels", "annotations")}
        kube.raw("POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", hooks)
    one_manager.restart()
    space.submit("fits", "a", cpu=1)
    space.admitted("fits")
    space.submit("over", "a", cpu=1)
    space.waiting("over")
    steady(lambda: space.job("over")["spec"]["suspend"], "no credit")
    assert all(number(v) >= 0 for rs in space.usage("a").values() for v in rs.values())


def test_a_decimal_suffix_survives_an_eviction(space):
    space.flavor("any")
    space.queue("a", {"any": {"memory": "4G"}})
    with_pod(space, "train", "a", containers=[container(requests={"memory": "1G"})])
    w = space.admitted("train")
    assert charged(w) == {"memory": 10**9}
    space.kube.merge("workloads", w["metadata"]["name"], {"spec": {"active": False}}, space.ns)
    until(lambda: space.reap() or not space.workload("train")["status"].get("admission"), "evicted")
    space.kube.merge("workloads", w["metadata"]["name"], {"spec": {"active": True}}, space.ns)
    assert charged(space.admitted("train")) == {"memory": 10**9}


def test_no_pods_at_all(space):
    space.cpu_queue("a", 1)
    space.submit("full", "a")
    space.admitted("full")
    space.submit("empty", "a", pods=0, spec={"completions": 1, "parallelism": 0})
    w = space.admitted("empty")
    assert charged(w).get("cpu", 0) == 0


def test_a_failed_index_is_not_given_back_while_it_may_be_needed(kube, space):
    space.cpu_queue("a", 3)
    space.submit("train", "a", pods=3, spec={"completionMode": "Indexed", "backoffLimitPerIndex": 0, "backoffLimit": None})
    space.admitted("train")
    pods = until(lambda: (lambda p: len(p) == 3 and sorted(p, key=lambda x: x["metadata"]["name"]))(kube.pods(space.ns, "train")), "three pods")
    set_phase(kube, pods[0], "Succeeded")
    set_phase(kube, pods[1], "Failed", 1)
    set_phase(kube, pods[2], "Running")
    space.settled("a", {"any": {"cpu": 1}})


def test_lists_that_the_api_server_tolerates(space):
    space.cpu_queue("a", 2)
    c = {**container(requests={"cpu": "1"}), "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}],
         "ports": [{"containerPort": 80, "name": "x"}, {"containerPort": 80, "name": "y"}]}
    with_pod(space, "train", "a", containers=[c], initContainers=[{"name": "i", "image": "x", "env": c["env"]}])
    space.admitted("train")


def test_a_label_that_no_pod_could_have_is_refused(kube, space):
    space.cpu_queue("a", 1)
    for value in ("a, b", "x" * 64, "trailing-"):
        o = space.manifest("train", "a")
        o["spec"]["template"]["metadata"] = {"labels": {"cluster": value}}
        with pytest.raises(ApiException) as e:
            kube.batch.create_namespaced_job(space.ns, o)
        assert e.value.status in (403, 422) and "labels" in message(e.value), value


def test_long_names_stay_apart(space):
    space.cpu_queue("a", 8)
    stem = "n" * 60
    names = ["n" * 52, "n" * 53, stem + "abc", stem + "abd"]
    for n in names:
        space.submit(n, "a")
    workloads = [space.admitted(n) for n in names]
    assert len({w["metadata"]["name"] for w in workloads}) == len(names)
    for w in workloads:
        assert all(len(v) <= 63 for v in w["metadata"]["labels"].values())


def test_every_fault_of_a_queue_is_told_at_once(kube, space):
    spec = {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "1", "borrowingLimit": "1", "lendingLimit": "2"}]}]}]}
    with pytest.raises(ApiException) as e:
        kube.create("clusterqueues", {"kind": "ClusterQueue", "metadata": {"name": space.full("q")}, "spec": spec})
    text = e.value.body
    assert e.value.status in (403, 422) and "borrowingLimit" in text and "lendingLimit" in text


def test_a_lender_that_is_gone_lends_nothing(kube, space):
    space.flavor("any")
    space.queue("rich", {"any": {"cpu": 8}}, cohort="pool")
    space.queue("poor", {"any": {"cpu": 0}}, cohort="pool")
    space.submit("lucky", "poor")
    space.admitted("lucky")
    space.succeed("lucky")
    space.settled("poor", {"any": {"cpu": 0}})
    kube.delete("clusterqueues", space.full("rich"))
    until(lambda: space.full("rich") not in [q["metadata"]["name"] for q in kube.list("clusterqueues")], "gone")
    space.submit("late", "poor")
    space.waiting("late")
    steady(lambda: space.job("late")["spec"]["suspend"], "held")


def test_explain_of_a_live_cluster_says_what_the_condition_says(cluster, space, manager):
    """an observer that never admitted anything knows why something waits, and what would be let go"""
    def explain(name):
        with cluster.inside():
            return subprocess.run([managers.BINARY, "explain", "-n", space.ns, "job/" + name, "--kubeconfig", cluster.kubeconfig], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    space.cpu_queue("q", 1)
    space.submit("runs", "q")
    space.admitted("runs")
    space.submit("first", "q")
    words = until(lambda: (lambda c: c and "held by" in c["message"] and c["message"])(space.waiting("first")), "the whole reason")
    p = explain("first")
    assert p.returncode == 0 and words.splitlines()[0] in p.stdout and "held by" in p.stdout, (words, p.stdout)
    manager.part()
    manager.kill(signal.SIGKILL)
    try:
        space.kube.batch.delete_namespaced_job("runs", space.ns, propagation_policy="Background")
        until(lambda: len(space.kube.list("workloads", space.ns)) == 1, "its Workload is collected")
        assert "It fits now" in explain("first").stdout
    finally:
        manager.start().join()
    space.admitted("first")


def test_the_verbs_find_a_cluster_as_kubectl_does(cluster, space, tmp_path):
    """a list of kubeconfigs, one of them missing, whose context has a namespace: kubectl and explain see the same"""
    space.cpu_queue("q", 1)
    space.submit("runs", "q")
    space.admitted("runs")
    here = tmp_path / "here"
    here.write_text(f"contexts: [{{name: here, context: {{cluster: test, user: admin, namespace: {space.ns}}}}}]\ncurrent-context: here\n")
    for name, program in (("kubectl", cluster.bin["kubectl"]), ("kubectl-sluice", managers.BINARY)):
        (tmp_path / name).symlink_to(program)
    env = {**control.clean_env(), "PATH": str(tmp_path), "KUBECONFIG": f"{tmp_path}/nothing:{here}:{cluster.kubeconfig}"}

    def say(*args):
        with cluster.inside():
            return subprocess.run(args, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert "job.batch/runs" in say(cluster.bin["kubectl"], "get", "job", "-o", "name").stdout
    p = say(managers.BINARY, "explain", "job/runs")
    assert p.returncode == 0 and "holds 1 cpu" in p.stdout, p.stdout
    p = say(cluster.bin["kubectl"], "sluice", "explain", "job/runs", "--context", "test")
    assert p.returncode == 1 and "kubectl sluice explain: no Job runs in namespace default" in p.stdout, p.stdout
