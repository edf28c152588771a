"""The harness itself: without these, a green run of the other files would prove nothing."""
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from kubernetes.client.exceptions import ApiException

import cluster as control
import support
from proxy import Proxy
from support import until


def test_control_plane_is_of_the_version_that_was_built(cluster, kube):
    version = json.loads(cluster.raw("/version"))["gitVersion"]
    assert version == cluster.bin["kube-apiserver"].rpartition("-")[2]
    assert kube.raw("GET", "/version")["gitVersion"] == version  # the Python client reaches it too


def test_components_run(cluster):
    for c in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        assert cluster.running(c), cluster.tail(c)


def test_api_server_is_not_reachable_from_outside(cluster):
    ask = [sys.executable, "-c", "import socket; socket.create_connection(('10.9.0.1', 443), 2)"]
    assert subprocess.run(cluster.command(*ask)).returncode == 0
    outside = ["nsenter", "--net=/proc/1/ns/net", *ask]
    assert subprocess.run(outside, stderr=subprocess.DEVNULL).returncode != 0


def test_plain_job_goes_through_with_the_player(kube, player, space):
    player.enroll(space.ns, 0.1)
    space.submit("plain", pods=2, spec={"suspend": False})
    until(lambda: space.job("plain")["status"].get("succeeded") == 2, "the Job finished")


def test_scheduler_binds_to_a_node_that_is_only_an_object(cluster, kube, space):
    add_node(kube, "harness-node", {"pool": space.ns}, {"cpu": "8", "memory": "8Gi", "pods": "20"})
    try:
        space.submit("placed", pod={"nodeSelector": {"pool": space.ns}})
        until(lambda: [p for p in kube.pods(space.ns, "placed") if p["spec"].get("nodeName") == "harness-node"], "the pod is bound")
    finally:
        kube.core.delete_node("harness-node")


def add_node(kube, name, labels, capacity, taints=()):
    kube.core.create_node({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {"taints": list(taints)}})
    kube.raw("PATCH", f"/api/v1/nodes/{name}/status", {"status": {"capacity": capacity, "allocatable": capacity, "conditions": [{"type": "Ready", "status": "True", "reason": "x", "message": ""}]}},
             "application/merge-patch+json")
    until(lambda: patch_taints(kube, name, taints), "the node's own taint removed")


def patch_taints(kube, name, taints):
    kube.raw("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": list(taints)}}, "application/merge-patch+json")
    return True


def test_data_survives_a_restart_of_api_server_and_etcd(cluster, kube, space):
    kube.core.create_namespaced_config_map(space.ns, {"metadata": {"name": "kept"}, "data": {"a": "b"}})
    for component, sig in (("kube-apiserver", signal.SIGKILL), ("etcd", signal.SIGTERM), ("kube-controller-manager", signal.SIGKILL)):
        cluster.restart(component, sig)
        assert until(lambda: kube.core.read_namespaced_config_map("kept", space.ns), "read again").data == {"a": "b"}


def test_a_watch_that_was_forgotten_starts_again(cluster, kube, space):
    class Seen(support.Watcher):
        names = []

        def seen(self, kind, o):
            self.names.append((kind, o["metadata"]["name"]))
    w = Seen(kube, f"/api/v1/namespaces/{space.ns}/configmaps")
    kube.core.create_namespaced_config_map(space.ns, {"metadata": {"name": "one"}})
    w.rv = "1"  # long gone
    w.start()
    until(lambda: ("ADDED", "one") in w.names, "seen all the same")
    kube.core.delete_namespaced_config_map("one", space.ns)
    until(lambda: ("DELETED", "one") in w.names, "and its end")
    w.stop()


def test_killing_what_does_not_run_is_an_error(cluster):
    with pytest.raises(control.Error, match="does not run"):
        cluster.kill("kubelet")


def test_proxy_cuts_stalls_and_refuses(cluster, kube):
    p = Proxy(cluster, 6499)
    try:
        mine = support.Kube(cluster.user("admin", "admin", ["system:masters"], path=os.path.join(cluster.dir, "via-proxy.kubeconfig"), server="https://127.0.0.1:6499"))
        assert mine.raw("GET", "/version")
        assert p.accepted >= 1 and p.connections() >= 1
        p.cut()
        assert p.connections() == 0
        assert until(lambda: mine.raw("GET", "/version"), "a new connection after the cut")
        p.refuse()
        with pytest.raises(support.NET_ERRORS):
            mine.raw("GET", "/version")
        p.resume()
        assert mine.raw("GET", "/version")
    finally:
        p.close()


def test_audit_log_names_user_verb_and_object(cluster, kube, space):
    _, at = cluster.audit_entries()
    kube.core.create_namespaced_config_map(space.ns, {"metadata": {"name": "seen"}})

    def mine():
        return [e for e in cluster.audit_entries(at)[0] if e["verb"] == "create" and e["objectRef"].get("namespace") == space.ns and e["objectRef"]["resource"] == "configmaps"
                and e["user"]["username"] == "admin"]
    assert until(mine, "an audit entry")[0]["objectRef"]["name"] == "seen"


def test_service_account_kubeconfig_has_no_rights_of_its_own(cluster, kube, space):
    kube.core.create_namespaced_service_account(space.ns, {"metadata": {"name": "nobody"}})
    poor = support.Kube(cluster.service_account(space.ns, "nobody"))
    with pytest.raises(ApiException) as e:
        poor.core.list_namespaced_secret(space.ns)
    assert e.value.status == 403 and f"system:serviceaccount:{space.ns}:nobody" in e.value.body


def event(uid, rv, gpus=0, admitted=True, finished=False, evicted=False, owner=None, kind="MODIFIED", queue="q", moment=None):
    admission = {"clusterQueue": queue, "podSetAssignments": [{"name": "main", "flavors": {"g": "f"}, "resourceUsage": {"g": str(gpus)}}]} if gpus else None
    return {"kind": kind, "moment": moment, "uid": uid, "name": uid, "rv": rv, "owner": owner or uid, "admission": admission, "admitted": admitted and bool(gpus), "finished": finished, "evicted": evicted}


@pytest.mark.parametrize("history, fault", [
    ([event("a", 1), event("a", 2, 2), event("a", 3, 2, finished=True), event("b", 4, 2)], None),
    ([event("a", 1, 2), event("b", 2, 1)], "q uses 3"),
    ([event("a", 1, 1), event("a", 2, 2)], "changed while it was held"),
    ([event("a", 1, 1), event("a", 2)], "without an eviction"),
    ([event("a", 1, 1), event("a", 2, evicted=True)], None),
    ([event("a", 1, owner="j"), event("b", 2, owner="j")], "2 Workloads at once"),
    ([event("a", 1, 2, queue="p"), event("b", 2, 2)], "all together use 4"),
    ([event("a", 1, 2), event("a", 2, kind="DELETED"), event("b", 3, 2)], None),
    ([event("a", 1, 2), event("b", 2, 2, moment=1), event("a", 3, evicted=True, moment=1)], None),
    ([event("a", 1, 2, moment=1), event("b", 2, 2, moment=1), event("c", 3, moment=2)], "q uses 4"),
    ([event("a", 1, 2, moment=1), event("b", 2, 2, moment=2), event("a", 3, evicted=True, moment=2), event("a", 4, 1)], "q uses 3"),
])
def test_witness_sees_faults(history, fault):
    w = support.Witness.__new__(support.Witness)
    w.history, w.gaps = history, 0
    got = w.faults({"q": {("f", "g"): 2}}, {("f", "g"): 3})
    w.gaps = 1
    assert len(w.faults({}, None)) > len(w.faults({}, None, gaps=True))
    assert not got if fault is None else any(fault in g for g in got), got


def test_a_killed_owner_leaves_nothing_behind(tmp_path):
    name = f"orphan-{os.getpid()}"
    code = f"import cluster, os; cluster.Cluster({name!r}, scheduler=False, controllers=False).up(); print('up', flush=True); os.kill(os.getpid(), 9)"
    p = subprocess.run([sys.executable, "-c", code], cwd=control.HERE, stdout=subprocess.PIPE, text=True)
    assert p.stdout == "up\n" and p.returncode == -signal.SIGKILL
    end = time.monotonic() + 30
    while os.path.exists(os.path.join(control.state_root(), name)) or os.path.exists(os.path.join(control.NETNS, "sluice-" + name)):
        assert time.monotonic() < end, "the guard did not clean up"
        time.sleep(0.1)


@pytest.mark.parametrize("lines, faults", [
    ([], 2),  # it agrees, so it has to come off the list: once for each place
    (["step 1/objects/a/x: expected 1, got 2", "step 2/objects/b/y: expected 1, got 2"], 0),
    (["step 1/objects/a/x: expected 1, got 2"], 1),
    (["step 1/objects/a/x: expected 1, got 2", "step 2/objects/b/y: expected 1, got 2", "step 2/objects/c: expected 1, got 2"], 1),
])
def test_known_differences_cannot_rot(tmp_path, lines, faults):
    sys.path.insert(0, os.path.join(control.REPO, "tests", "journeys"))
    import play
    k = play.Known(None, [])
    k.differ = {"s": {"story": "s", "at": ["/a/x$", "/b/y$"], "reason": "r"}}
    assert len(k.judge("s", lines)) == faults
    assert k.judge("other", lines) == lines


def test_known_differences_name_stories_that_exist_and_give_reasons(tmp_path):
    import shutil

    import play
    folder = os.path.join(control.REPO, "tests", "journeys")
    for f in play.FILES:
        shutil.copy(os.path.join(folder, f), tmp_path)
    for text, fault in (("differ: []\nlater: [{story: no such story, reason: x}]\n", "no such story"), ("differ: []\nlater: [{story: job fails}]\n", "no reason")):
        (tmp_path / "differences.yaml").write_text(text)
        with pytest.raises(SystemExit, match=fault):
            play.Known(str(tmp_path / "differences.yaml"), [])


def test_the_player_sees_a_difference():
    import copy
    import types

    import play
    with open(os.path.join(control.REPO, "tests", "journeys", "record", "default.json")) as f:
        record = json.load(f)
    name = "one job from submit to finish"
    played = [types.SimpleNamespace(doc={"name": name}, trace=copy.deepcopy(record[name]))]
    assert play.compare(dict(record), played, False) == {name: []}
    work = next(o for step in played[0].trace for k, o in step.get("objects", {}).items() if k.startswith("Workload/") and "status" in o)
    work["status"]["admission"] = {"clusterQueue": "another"}
    assert any("status/admission" in line for line in play.compare(dict(record), played, False)[name])
    played[0].trace.pop()
    assert any("steps" in line for line in play.compare(dict(record), played, False)[name])
    played[0].doc["name"] = "never recorded"
    assert play.compare(dict(record), played, False)["never recorded"] == ["there is no record of this story"]
