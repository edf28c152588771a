"""A batch/v1 Job from submit to finish, and what people do to it on the way. Clients: kubectl and the official Python client."""
import json

import pytest
from kubernetes.client.exceptions import ApiException

from support import GPU, GROUP, QUEUE_LABEL, Witness, condition, is_true, message, number, set_phase, steady, until
from test_harness import add_node

pytestmark = pytest.mark.usefixtures("manager")
TAINT = {"key": "pool", "value": "h100", "effect": "NoSchedule"}


@pytest.fixture
def gpu_node(kube, space):
    """one node with GPUs; an object is all the scheduler needs"""
    name = space.full("node")
    add_node(kube, name, {"gpu.model": space.ns}, {"cpu": "64", "memory": "512Gi", "pods": "50", GPU: "8"}, [TAINT])
    yield name
    kube.core.delete_node(name)


def test_the_journey_of_a_gpu_job(cluster, kube, space, gpu_node):
    space.flavor("h100", {"gpu.model": space.ns}, [TAINT], [{"key": "pool", "operator": "Exists", "effect": "NoSchedule"}])
    space.queue("gpus", {"h100": {"cpu": 40, "memory": "400Gi", GPU: 4}})
    job = space.manifest("train", "gpus", pods=2, cpu=4, gpu=2)
    job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"] = "64Gi"

    # submitted with kubectl: held before it is stored, with a sized /dev/shm
    stored = json.loads(cluster.kubectl("create", "-f", "-", "-o", "json", stdin=json.dumps(job)).stdout)
    assert stored["spec"]["suspend"] is True
    pod = stored["spec"]["template"]["spec"]
    volume = next(v for v in pod["volumes"] if v["name"].startswith("sluice"))
    assert volume["emptyDir"]["medium"] == "Memory" and number(volume["emptyDir"]["sizeLimit"]) > 64 * 2**20
    assert {"name": volume["name"], "mountPath": "/dev/shm"} in pod["containers"][0]["volumeMounts"]

    # admitted: the Workload says where and on what, the Job carries it
    w = space.admitted("train")
    uid = stored["metadata"]["uid"]
    owner, = w["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"], owner["controller"]) == ("Job", "train", uid, True)
    assert w["metadata"]["name"].startswith("job-train-") and w["metadata"]["labels"][GROUP + "/job-uid"] == uid
    assert w["spec"]["queueName"] == "gpus"
    a = w["status"]["admission"]
    assert a["clusterQueue"] == space.full("gpus")
    ps, = a["podSetAssignments"]
    assert ps["name"] == "main" and ps["count"] == 2
    assert set(ps["flavors"]) == {"cpu", "memory", GPU} and set(ps["flavors"].values()) == {space.full("h100")}
    assert {r: number(q) for r, q in ps["resourceUsage"].items()} == {"cpu": 8, "memory": 128 * 2**30, GPU: 4}
    assert condition(w, "QuotaReserved")["status"] == "True" and is_true(w, "Admitted")

    running = space.job("train")
    pod = running["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"gpu.model": space.ns}
    assert {"key": "pool", "operator": "Exists", "effect": "NoSchedule"} in pod["tolerations"]
    until(lambda: len([p for p in kube.pods(space.ns, "train") if p["spec"].get("nodeName") == gpu_node]) == 2, "both pods on the right node")
    space.settled("gpus", {"h100": {"cpu": 8, "memory": "128Gi", GPU: 4}})
    until(lambda: space.lq("gpus")["status"].get("admittedWorkloads") == 1, "the LocalQueue counts it")
    assert space.cq("gpus")["status"]["reservingWorkloads"] == 1

    # finished: the quota comes back
    space.run("train")
    space.succeed("train")
    until(lambda: is_true(space.job("train"), "Complete"), "the Job complete")
    w = until(lambda: (lambda w: is_true(w, "Finished") and w)(space.workload("train")), "the Workload finished")
    assert condition(w, "Finished")["reason"] == "Succeeded"
    space.settled("gpus", {"h100": {"cpu": 0, "memory": 0, GPU: 0}})
    st = until(lambda: (lambda s: s["admittedWorkloads"] == 0 and s)(space.cq("gpus")["status"]), "nobody admitted")
    assert st["reservingWorkloads"] == 0 and st["pendingWorkloads"] == 0

    # told in events
    reasons = {e["reason"] for e in kube.events(space.ns)}
    assert "Started" in reasons, reasons


def test_the_second_job_waits_with_a_reason_and_starts_when_the_first_is_done(kube, space):
    space.cpu_queue("a", 4)
    space.submit("first", "a", cpu=3)
    space.admitted("first")
    space.submit("second", "a", cpu=2)
    c = space.waiting("second")
    assert c["reason"] == "Pending"
    until(lambda: any(n in condition(space.workload("second"), "QuotaReserved")["message"] for n in ("1", "2")), "numbers in the reason")
    until(lambda: space.cq("a")["status"]["pendingWorkloads"] == 1, "the queue counts one that waits")
    steady(lambda: space.job("second")["spec"]["suspend"], "the second Job held")
    assert kube.pods(space.ns, "second") == []
    space.succeed("first")
    space.admitted("second")
    space.succeed("second")
    space.settled("a", {"any": {"cpu": 0}})


def test_a_job_that_never_fits_says_so_with_numbers(space):
    space.cpu_queue("a", 4)
    space.submit("huge", "a", cpu=5)
    c = space.waiting("huge")
    text = until(lambda: (lambda m: "5" in m and "4" in m and m)(condition(space.workload("huge"), "QuotaReserved")["message"]), "what is asked and what there is")
    assert "cpu" in text and c["status"] == "False"
    space.submit("small", "a", cpu=4)  # the one that can never fit does not stand in the way
    space.admitted("small")
    # it can, once there is more
    space.kube.merge("clusterqueues", space.full("a"), {"spec": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": space.full("any"), "resources": [{"name": "cpu", "nominalQuota": "9"}]}]}]}})
    space.admitted("huge")
    space.settled("a", {"any": {"cpu": 9}})


def test_no_queue_that_could_take_it(space):
    space.submit("lost", "nowhere")
    c = space.waiting("lost")
    assert c["reason"] == "Inadmissible" and "nowhere" in c["message"]
    space.flavor("any")
    space.queue("nowhere", {"any": {"cpu": 1}})
    space.admitted("lost")


def test_a_resource_that_the_queue_does_not_cover(space):
    space.cpu_queue("a", 4)
    space.submit("gpu", "a", gpu=1)
    space.waiting("gpu")
    until(lambda: GPU in condition(space.workload("gpu"), "QuotaReserved")["message"], "the resource is named")


def test_a_job_without_a_queue_is_nobodys_business(kube, space):
    space.cpu_queue("a", 4)
    stored = space.submit("plain")
    assert not stored["spec"].get("suspend")
    until(lambda: kube.pods(space.ns, "plain"), "its pod")
    space.succeed("plain")
    until(lambda: is_true(space.job("plain"), "Complete"), "complete")
    assert space.workload("plain") is None


def test_the_queue_named_default_takes_jobs_without_a_label(space):
    space.cpu_queue("default", 1)
    until(lambda: space.submit("one")["metadata"]["labels"].get(QUEUE_LABEL) == "default" or space.kube.batch.delete_namespaced_job("one", space.ns, propagation_policy="Background") and None, "defaulted")
    space.admitted("one")


def test_borrow_and_return(space):
    space.flavor("any")
    space.queue("a", {"any": {"cpu": (4, 2)}}, cohort="pool")
    space.queue("b", {"any": {"cpu": (4, None, 3)}}, cohort="pool")
    space.submit("own", "a", cpu=4)
    space.submit("borrowed", "a", cpu=2)
    space.admitted("own"), space.admitted("borrowed")
    space.settled("a", {"any": {"cpu": 6}})
    r, = until(lambda: [r for f in space.cq("a")["status"]["flavorsUsage"] for r in f["resources"] if number(r["borrowed"])], "borrowed shows")
    assert number(r["borrowed"]) == 2
    space.submit("more", "a", cpu=1)  # over its borrowing limit, though b has 2 left
    space.waiting("more")
    space.submit("mine", "b", cpu=4)  # b's own quota, part of it away
    space.waiting("mine")
    steady(lambda: space.job("more")["spec"]["suspend"] and space.job("mine")["spec"]["suspend"], "both held")
    space.succeed("borrowed")
    space.admitted("mine")  # given back
    space.settled("b", {"any": {"cpu": 4}})
    assert space.job("more")["spec"]["suspend"]
    space.succeed("mine")
    space.admitted("more")


def test_a_lending_limit_keeps_the_rest_at_home(space):
    space.flavor("any")
    space.queue("a", {"any": {"cpu": (0, None)}}, cohort="pool")
    space.queue("b", {"any": {"cpu": (4, None, 3)}}, cohort="pool")
    space.submit("four", "a", cpu=4)
    space.waiting("four")
    space.submit("three", "a", cpu=3)
    space.admitted("three")
    assert space.job("four")["spec"]["suspend"]


def test_changed_while_waiting(space):
    space.cpu_queue("a", 4)
    space.submit("first", "a", cpu=4)
    space.admitted("first")
    space.submit("second", "a", cpu=4)
    space.waiting("second")
    before = space.workload("second")["metadata"]["uid"]
    space.kube.raw("PATCH", f"/apis/batch/v1/namespaces/{space.ns}/jobs/second",
                   [{"op": "replace", "path": "/spec/template/spec/containers/0/resources/requests/cpu", "value": "2"}], "application/json-patch+json")
    until(lambda: number(space.workload("second")["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"]) == 2, "the Workload follows")
    assert space.workload("second")["metadata"]["uid"] == before  # in place, it keeps its turn
    space.succeed("first")
    w = space.admitted("second")
    assert number(w["status"]["admission"]["podSetAssignments"][0]["resourceUsage"]["cpu"]) == 2
    space.settled("a", {"any": {"cpu": 2}})


def test_changed_while_running_is_queued_afresh(space):
    space.cpu_queue("a", 4)
    space.submit("train", "a", pods=2)
    before = space.admitted("train")["metadata"]["uid"]
    space.run("train")
    space.kube.patch_job(space.ns, "train", {"spec": {"parallelism": 1}})

    def again():
        space.reap()
        w = space.workload("train")
        return w and w["metadata"]["uid"] != before and is_true(w, "Admitted") and w
    w = until(again, "a new Workload, admitted")
    assert w["spec"]["podSets"][0]["count"] == 1
    space.settled("a", {"any": {"cpu": 1}})


def test_moved_to_another_queue_while_waiting(space):
    space.cpu_queue("a", 1)
    space.queue("b", {"any": {"cpu": 1}})
    space.submit("first", "a")
    space.admitted("first")
    space.submit("second", "a")
    space.waiting("second")
    space.kube.patch_job(space.ns, "second", {"metadata": {"labels": {QUEUE_LABEL: "b"}}})
    w = space.admitted("second")
    assert w["status"]["admission"]["clusterQueue"] == space.full("b") and w["spec"]["queueName"] == "b"


def test_unsuspended_by_hand_while_waiting_is_held_again(kube, space):
    space.cpu_queue("a", 1)
    space.submit("first", "a")
    space.admitted("first")
    space.submit("second", "a")
    space.waiting("second")
    space.kube.patch_job(space.ns, "second", {"spec": {"suspend": False}})
    until(lambda: space.job("second")["spec"]["suspend"], "held again")

    def quiet():
        space.reap()
        return not kube.pods(space.ns, "second")
    until(quiet, "its pods gone")
    steady(lambda: space.job("second")["spec"]["suspend"], "held")
    space.settled("a", {"any": {"cpu": 1}})
    space.succeed("first")
    space.admitted("second")


def test_suspended_by_hand_while_admitted_is_started_again(space):
    space.cpu_queue("a", 1)
    space.submit("train", "a")
    space.admitted("train")
    space.kube.patch_job(space.ns, "train", {"spec": {"suspend": True}})
    until(lambda: space.reap() or not space.job("train")["spec"].get("suspend"), "running again")
    assert is_true(space.workload("train"), "Admitted")


def test_deleted_while_waiting(space):
    space.cpu_queue("a", 1)
    space.submit("first", "a")
    space.admitted("first")
    space.submit("second", "a")
    space.waiting("second")
    space.kube.batch.delete_namespaced_job("second", space.ns, propagation_policy="Background")
    until(lambda: not any(w["metadata"]["name"].startswith("job-second-") for w in space.kube.list("workloads", space.ns)), "its Workload gone")
    until(lambda: space.cq("a")["status"]["pendingWorkloads"] == 0, "nobody waits")
    space.settled("a", {"any": {"cpu": 1}})


def test_deleted_while_running_frees_the_quota(space):
    space.cpu_queue("a", 1)
    space.submit("first", "a")
    space.admitted("first")
    space.run("first")
    space.submit("second", "a")
    space.waiting("second")
    space.kube.batch.delete_namespaced_job("first", space.ns, propagation_policy="Background")
    until(lambda: space.reap() or is_true(space.workload("second"), "Admitted"), "the next one admitted")
    space.admitted("second")
    until(lambda: not any(w["metadata"]["name"].startswith("job-first-") for w in space.kube.list("workloads", space.ns)), "the Workload of the deleted Job gone")
    space.settled("a", {"any": {"cpu": 1}})


@pytest.mark.parametrize("cascade", ["Background", "Foreground", "Orphan"])
def test_deleted_and_made_again_again_and_again(kube, player, space, cascade):
    """under one name, quickly, in a queue that takes two of three: nobody ever sees more used than there is, and nothing is lost"""
    space.cpu_queue("a", 2)
    player.enroll(space.ns, 3600)
    w = Witness(kube, space.ns)

    def jobs():
        return {j["metadata"]["name"]: j["metadata"] for j in (kube.plain(j) for j in kube.batch.list_namespaced_job(space.ns).items)}

    def make(name):
        until(lambda: "deletionTimestamp" not in jobs().get(name, {}), f"the deleted {name} gone")
        if name not in jobs():
            space.submit(name, "a")

    for i in range(15):
        for name in ("one", "two", "three"):
            make(name)
        until(lambda: any(is_true(o, "Admitted") and not is_true(o, "Finished") for o in kube.list("workloads", space.ns)), "somebody admitted")
        for name in ("three", "one", "two")[: 1 + i % 3]:
            kube.batch.delete_namespaced_job(name, space.ns, propagation_policy=cascade)
    for name in ("one", "two", "three"):
        make(name)
    until(lambda: sum(is_true(o, "Admitted") and not is_true(o, "Finished") for o in kube.list("workloads", space.ns)) == 2, "two of three admitted")

    def owners():
        return sorted(r["uid"] for o in kube.list("workloads", space.ns) for r in o["metadata"].get("ownerReferences", []))
    until(lambda: owners() == sorted(m["uid"] for m in jobs().values()), "one Workload for each Job, those of the dead ones gone")
    space.settled("a", {"any": {"cpu": 2}})
    for name in ("one", "two", "three"):
        kube.batch.delete_namespaced_job(name, space.ns, propagation_policy=cascade)
    space.settled("a", {"any": {"cpu": 0}})
    w.stop()
    any_cpu = (space.full("any"), "cpu")
    assert not w.faults({space.full("a"): {any_cpu: 2}})


def test_reference_to_its_job_taken_off_by_hand(space):
    space.cpu_queue("a", 1)
    space.submit("train", "a")
    before = space.admitted("train")
    space.run("train")
    space.submit("next", "a")
    space.waiting("next")
    space.kube.merge("workloads", before["metadata"]["name"], {"metadata": {"ownerReferences": None}}, space.ns)
    w = until(lambda: space.workload("train"), "owned again")
    assert w["metadata"]["uid"] == before["metadata"]["uid"] and w["metadata"]["ownerReferences"] == before["metadata"]["ownerReferences"]
    assert is_true(w, "Admitted") and not is_true(w, "Finished") and not is_true(w, "Evicted")
    steady(lambda: not space.job("train")["spec"].get("suspend") and space.job("next")["spec"]["suspend"], "it runs on, the next one waits")
    space.settled("a", {"any": {"cpu": 1}})
    space.succeed("train")
    space.admitted("next")


def test_workload_deleted_under_a_running_job(space):
    space.cpu_queue("a", 1)
    space.submit("train", "a")
    w = space.admitted("train")
    space.run("train")
    space.kube.delete("workloads", w["metadata"]["name"], space.ns)

    def again():
        space.reap()
        n = space.workload("train")
        return n and n["metadata"]["uid"] != w["metadata"]["uid"] and is_true(n, "Admitted")
    until(again, "queued afresh and admitted")
    space.settled("a", {"any": {"cpu": 1}})


def test_queue_label_removed_while_waiting_lets_go_of_the_job(space):
    space.cpu_queue("a", 1)
    space.submit("first", "a")
    space.admitted("first")
    space.submit("second", "a")
    space.waiting("second")
    space.kube.patch_job(space.ns, "second", {"metadata": {"labels": {QUEUE_LABEL: None}}})
    until(lambda: space.cq("a")["status"]["pendingWorkloads"] == 0, "no longer in the queue")
    space.succeed("first")
    space.settled("a", {"any": {"cpu": 0}})
    steady(lambda: space.job("second")["spec"]["suspend"], "still as it was: suspended, and nobody's business")


def test_queue_label_may_not_go_or_change_while_running(space):
    space.cpu_queue("a", 1)
    space.submit("train", "a")
    space.admitted("train")
    for value in (None, "other"):
        with pytest.raises(ApiException) as e:
            space.kube.patch_job(space.ns, "train", {"metadata": {"labels": {QUEUE_LABEL: value}}})
        assert e.value.status == 403 and QUEUE_LABEL in message(e.value)
    assert space.job("train")["metadata"]["labels"][QUEUE_LABEL] == "a"


def test_switched_off_and_on_again(space):
    space.cpu_queue("a", 1)
    space.submit("train", "a")
    w = space.admitted("train")
    space.run("train")
    space.submit("next", "a")
    space.waiting("next")
    seen = Witness(space.kube, space.ns)
    space.kube.merge("workloads", w["metadata"]["name"], {"spec": {"active": False}}, space.ns)
    until(lambda: space.reap() or space.job("train")["spec"]["suspend"] and not space.workload("train")["status"].get("admission"), "stopped and released")
    space.admitted("next")  # not before that
    seen.stop()
    assert not seen.faults({space.full("a"): {(space.full("any"), "cpu"): 1}})
    space.succeed("next")
    assert condition(space.workload("train"), "Evicted")["reason"] == "Deactivated"
    job = space.job("train")
    assert "nodeSelector" not in job["spec"]["template"]["spec"]
    space.settled("a", {"any": {"cpu": 0}})
    space.kube.merge("workloads", w["metadata"]["name"], {"spec": {"active": True}}, space.ns)
    space.admitted("train")


def test_a_failed_job_returns_its_quota(space):
    space.cpu_queue("a", 1)
    space.submit("train", "a")
    space.admitted("train")
    space.fail("train")
    w = until(lambda: (lambda w: is_true(w, "Finished") and w)(space.workload("train")), "finished")
    assert condition(w, "Finished")["reason"] == "Failed"
    space.settled("a", {"any": {"cpu": 0}})


def test_pods_that_are_done_give_back_their_share(kube, space):
    space.cpu_queue("a", 2)
    space.submit("train", "a", pods=2)
    space.admitted("train")
    space.submit("next", "a")
    space.waiting("next")
    pods = until(lambda: (lambda p: len(p) == 2 and p)(kube.pods(space.ns, "train")), "two pods")
    set_phase(kube, pods[0], "Succeeded")
    space.admitted("next")
    space.settled("a", {"any": {"cpu": 2}})


@pytest.mark.parametrize("policy, runs_on", [("Hold", True), ("HoldAndDrain", False)])
def test_stop_policies(space, policy, runs_on):
    space.cpu_queue("a", 2)
    space.submit("first", "a")
    space.admitted("first")
    space.kube.merge("clusterqueues", space.full("a"), {"spec": {"stopPolicy": policy}})
    until(lambda: condition(space.cq("a"), "Active")["status"] == "False", "inactive")
    assert condition(space.cq("a"), "Active")["reason"] == "Stopped"
    space.submit("second", "a")
    space.waiting("second")
    if runs_on:
        steady(lambda: not space.job("first")["spec"].get("suspend"), "the first runs on")
    else:
        until(lambda: space.reap() or space.job("first")["spec"]["suspend"], "the first stopped")
        until(lambda: space.reap() or not space.workload("first")["status"].get("admission"), "and released")
        space.settled("a", {"any": {"cpu": 0}})
    space.kube.merge("clusterqueues", space.full("a"), {"spec": {"stopPolicy": "None"}})
    space.admitted("first"), space.admitted("second")


def test_a_cluster_queue_in_use_is_kept_until_it_is_free(kube, space):
    space.cpu_queue("a", 1)
    space.submit("train", "a")
    space.admitted("train")
    kube.delete("clusterqueues", space.full("a"))
    until(lambda: condition(space.cq("a"), "Active")["reason"] == "Terminating", "terminating")
    steady(lambda: space.cq("a")["metadata"]["deletionTimestamp"], "kept", 1)
    kube.delete("resourceflavors", space.full("any"))  # in use as well
    assert kube.get("resourceflavors", space.full("any"))["metadata"]["deletionTimestamp"]
    space.succeed("train")
    until(lambda: space.full("a") not in [q["metadata"]["name"] for q in kube.list("clusterqueues")], "gone when it is free")
    until(lambda: space.full("any") not in [q["metadata"]["name"] for q in kube.list("resourceflavors")], "and its flavor")


def test_two_teams_compete_within_their_limits(kube, player, space):
    space.flavor("any")
    for team, borrow in (("red", 2), ("blue", 1)):
        space.queue(team, {"any": {"cpu": (3, borrow)}}, cohort="pool")
    player.enroll(space.ns, 0.3)
    w = Witness(kube, space.ns)
    names = []
    for i in range(12):
        for team in ("red", "blue"):
            names.append(f"{team}-{i}")
            space.submit(names[-1], team, cpu=1 + i % 2)
    until(lambda: all(is_true(kube.plain(j), "Complete") for j in kube.batch.list_namespaced_job(space.ns).items), "all done", 180)
    for team in ("red", "blue"):
        space.settled(team, {"any": {"cpu": 0}})
    w.stop()
    any_cpu = (space.full("any"), "cpu")
    assert not w.faults({space.full("red"): {any_cpu: 5}, space.full("blue"): {any_cpu: 4}}, {any_cpu: 6})
    assert sorted(w.admissions().values()) == [1] * len(names)
    seen = {h["admission"]["clusterQueue"] for h in w.history if h["admission"]}
    assert seen == {space.full("red"), space.full("blue")}


def test_flavors_in_order_and_by_toleration(space):
    space.flavor("reserved", {"pool": "reserved"})
    space.flavor("spot", {"pool": "spot"}, [{"key": "spot", "value": "true", "effect": "NoSchedule"}])
    space.queue("a", {"reserved": {"cpu": 2}, "spot": {"cpu": 4}})
    space.submit("first", "a", cpu=2)
    assert space.admitted("first")["status"]["admission"]["podSetAssignments"][0]["flavors"] == {"cpu": space.full("reserved")}
    space.submit("second", "a", pod={"tolerations": [{"key": "spot", "operator": "Exists"}]})
    assert space.admitted("second")["status"]["admission"]["podSetAssignments"][0]["flavors"] == {"cpu": space.full("spot")}
    assert space.job("second")["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "spot"}
    space.submit("third", "a")  # tolerates nothing
    space.waiting("third")
    until(lambda: "taint" in condition(space.workload("third"), "QuotaReserved")["message"], "the taint is named")


def test_a_selector_that_contradicts_the_flavor_is_never_overwritten(space):
    space.flavor("gold", {"pool": "gold"})
    space.queue("a", {"gold": {"cpu": 2}})
    space.submit("mine", "a", pod={"nodeSelector": {"pool": "mine"}})
    space.waiting("mine")
    assert space.job("mine")["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "mine"}


def test_a_queue_for_chosen_namespaces(kube, space):
    space.flavor("any")
    space.queue("a", {"any": {"cpu": 1}}, namespaceSelector={"matchLabels": {"team": "physics"}})
    space.submit("train", "a")
    space.waiting("train")
    until(lambda: "namespace" in condition(space.workload("train"), "QuotaReserved")["message"], "the namespace is the reason")
    kube.core.patch_namespace(space.ns, {"metadata": {"labels": {"team": "physics"}}})
    space.admitted("train")


def test_a_default_queue_that_is_active_holds_jobs_at_once(space, manager):
    """Active=True of a LocalQueue `default` is a promise: from then on Jobs without a queue are held"""
    for i in range(3):
        space.cpu_queue("default", 1)  # waits for Active
        assert space.submit(f"early-{i}")["spec"].get("suspend") is True, i
        space.kube.batch.delete_namespaced_job(f"early-{i}", space.ns, propagation_policy="Background")
        space.kube.delete("localqueues", "default", space.ns)
        space.kube.delete("clusterqueues", space.full("default"))
        until(lambda: not any(q["metadata"]["name"] == space.full("default") for q in space.kube.list("clusterqueues")), "the queue is gone")
