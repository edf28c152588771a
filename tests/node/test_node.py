"""Sluice in pods of its own, on real nodes: what an administrator and two teams do with it, from helm install to helm uninstall. One story in the order of
the file; fixtures make up for what came before when only some of it is run."""
import base64
import contextlib
import json
import os
import re
import shlex
import signal
import stat
import subprocess
import tempfile
import threading
import time

import pytest
from kubernetes.client.exceptions import ApiException

import cluster as control
import node as nodes
from conftest import BINARY
from support import GROUP, QUEUE_LABEL, condition, is_true, steady, until

NS, MANAGER = "sluice-system", "sluice-controller-manager"
OURS = {"mclusterqueue.kb.io", "mresourceflavor.kb.io", "mjob.kb.io", "mjob-unlabelled.sluice.dev", "vclusterqueue.kb.io", "vcohort.kb.io", "vresourceflavor.kb.io", "vworkload.kb.io", "vjob.kb.io"}
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "latest"}


def container(command, **resources):
    """what the strictest Pod Security takes"""
    return {"name": "main", "image": "busybox:1.36", "command": ["sh", "-c", command], "resources": resources,
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}}


def job(ns, name, queue, command="sleep 3600", pods=1, gpus=1, memory="64Mi", suspend=None):
    res = {"requests": {"cpu": "10m", "memory": memory}, "limits": {"memory": memory, **({"nvidia.com/gpu": str(gpus)} if gpus else {})}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": ns, "labels": {QUEUE_LABEL: queue} if queue else {}},
            "spec": {"parallelism": pods, "completions": pods, "backoffLimit": 0, **({"suspend": suspend} if suspend is not None else {}),
                     "template": {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container(command, **res)]}}}}


def workload(kube, ns, name):
    return next((w for w in kube.list("workloads", ns) if any(r["name"] == name for r in w["metadata"].get("ownerReferences", []))), None)


def running(kube, ns, name, pods):
    def look():
        got = [p for p in kube.pods(ns, name) if p["status"]["phase"] == "Running"]
        return got if len(got) == pods else None
    return until(look, f"{pods} pods of {ns}/{name} run", 90)


def manager_pods(kube):
    return [p for p in kube.plain(kube.core.list_namespaced_pod(NS, label_selector="app.kubernetes.io/name=sluice"))["items"] if not p["metadata"].get("deletionTimestamp")]


def ready_pods(kube):
    return [p for p in manager_pods(kube) if any(c["type"] == "Ready" and c["status"] == "True" for c in p["status"].get("conditions", []))]


def memory(world, pod):
    node = next(n for n in world.nodes if n.name == pod["spec"]["nodeName"])
    pid, = node.pid_of(pod["metadata"]["uid"])
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:")) / 1024


def metrics(world, pod):
    """read as the ServiceMonitor has it read: with the CA in the Secret, the name of the Service, and the token of an account that was bound as the manual says"""
    kube, kubectl, name = world.kube, world.cluster.kubectl, f"sluice-webhook-service.{NS}.svc"
    if kubectl("get", "clusterrolebinding", "sluice-metrics", check=False).returncode:
        kubectl("create", "namespace", "monitoring")
        kubectl("create", "serviceaccount", "prometheus-k8s", "-n", "monitoring")
        with open(os.path.join(control.REPO, "docs", "operations.md")) as f:
            kubectl(*shlex.split(re.search(r"^ +kubectl (create clusterrolebinding sluice-metrics .*)$", f.read(), re.M)[1]))
    token = kubectl("create", "token", "prometheus-k8s", "-n", "monitoring").stdout.strip()
    with tempfile.NamedTemporaryFile() as ca:
        ca.write(base64.b64decode(kube.raw("GET", f"/api/v1/namespaces/{NS}/secrets/sluice-webhook-server-cert")["data"]["ca.crt"]))
        ca.flush()
        curl = ["curl", "-sS", "--noproxy", "*", "--cacert", ca.name, "--resolve", f"{name}:8443:{pod['status']['podIP']}", f"https://{name}:8443/metrics"]
        assert subprocess.run([*curl, "-o", os.devnull, "-w", "%{http_code}"], stdout=subprocess.PIPE, check=True).stdout == b"401", "nothing without a token"
        return subprocess.run([*curl, "--fail", "-H", "Authorization: Bearer " + token], stdout=subprocess.PIPE, check=True).stdout


def leader(kube):
    return kube.raw("GET", f"/apis/coordination.k8s.io/v1/namespaces/{NS}/leases/c1f6bfd2.kueue.x-k8s.io")["spec"].get("holderIdentity") or ""


def failed_calls(kube):
    """calls of our webhooks that had no good answer, as the API server counts them"""
    text = kube.api.rest_client.pool_manager.request("GET", kube.api.configuration.host + "/metrics").data.decode()
    total = 0
    for name, labels, value in re.findall(r"^(apiserver_admission_webhook_rejection_count|apiserver_admission_webhook_fail_open_count)\{(.*)\} (\S+)$", text, re.M):
        have = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        if have["name"] in OURS and have.get("error_type") != "no_error":
            total += float(value)
    return int(total)


def served(kube):
    """all calls of our webhooks so far"""
    text = kube.api.rest_client.pool_manager.request("GET", kube.api.configuration.host + "/metrics").data.decode()
    return int(sum(float(v) for n, v in re.findall(r'^apiserver_admission_webhook_admission_duration_seconds_count\{[^}]*name="([^"]+)"[^}]*\} (\S+)$', text, re.M) if n in OURS))


class Load:
    """Clients that make, change and delete Jobs with a queue, and read Workloads in the older version, as fast as they get answers."""

    def __init__(self, kube, ns, queue, threads=2):
        self.kube, self.ns, self.queue, self.stopping, self.calls, self.failures = kube, ns, queue, False, 0, []
        self.threads = [threading.Thread(target=self.run, args=(i,), daemon=True) for i in range(threads)]

    def one(self, *request):
        self.calls += 1
        try:
            self.kube.raw(*request)
        except (ApiException, OSError) as e:
            self.failures.append(f"{time.strftime('%H:%M:%S')} {request[:2]}: {getattr(e, 'status', '')} {getattr(e, 'body', e)!r}")

    def run(self, i):
        path, n = f"/apis/batch/v1/namespaces/{self.ns}/jobs", 0
        while not self.stopping:
            n += 1
            name = f"load-{i}-{n}"
            self.one("POST", path, job(self.ns, name, self.queue, gpus=0))
            self.one("PATCH", f"{path}/{name}", {"metadata": {"annotations": {GROUP + "/note": "x"}}}, "application/merge-patch+json")
            self.one("GET", f"/apis/{GROUP}/v1beta1/namespaces/{self.ns}/localqueues/{self.queue}")
            self.one("DELETE", f"{path}/{name}?propagationPolicy=Background")

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        self.stopping = True
        for t in self.threads:
            t.join(60)


@pytest.fixture
def installed(world, chart, helm, loaded):
    """there is a release (this one when no test has made it), and all its replicas are ready"""
    if "sluice" not in helm("list", "-n", NS, "-q").split():
        helm("install", "sluice", chart, "-n", NS, "--create-namespace", "--set", f"image.digest={loaded.digest}", "--wait", "--timeout", "3m")
    until(lambda: len(ready_pods(world.kube)) == 2 and len(manager_pods(world.kube)) == 2, "two ready replicas", 90)


@pytest.fixture
def teams(world, installed):
    """two teams with four cards each, which may borrow all that the other does not use; Pod Security is enforced with both"""
    k = world.kube
    if "red" in {n.metadata.name for n in k.core.list_namespace().items}:
        return
    k.create("resourceflavors", {"kind": "ResourceFlavor", "metadata": {"name": "pool"}, "spec": {"nodeLabels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
             "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]}})
    for n in ("blue", "red"):
        k.core.create_namespace({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": n, "labels": RESTRICTED}})
        flavor = {"name": "pool", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "4", "borrowingLimit": "4"}, {"name": "cpu", "nominalQuota": "8"}, {"name": "memory", "nominalQuota": "16Gi"}]}
        k.create("clusterqueues", {"kind": "ClusterQueue", "metadata": {"name": n}, "spec": {"cohortName": "all", "namespaceSelector": {},
                 "resourceGroups": [{"coveredResources": ["nvidia.com/gpu", "cpu", "memory"], "flavors": [flavor]}]}})
        k.create("localqueues", {"kind": "LocalQueue", "metadata": {"name": "gpu"}, "spec": {"clusterQueue": n}}, n)
        until(lambda: is_true(k.get("localqueues", "gpu", n), "Active"), f"queue of {n}")
    with contextlib.suppress(ApiException):  # the quick start's four cards
        k.batch.delete_namespaced_job("hello", "team-a", propagation_policy="Background")
    until(lambda: not k.pods("team-a"), "the quick start's pods are gone", 90)


@pytest.fixture
def red(world, teams):
    """red's two jobs run, with seven cards"""
    k = world.kube
    for name, gpus in (("own", 4), ("more", 3)):
        if not workload(k, "red", name):
            k.batch.create_namespaced_job("red", job("red", name, "gpu", gpus=gpus))
        running(k, "red", name, 1)


@pytest.fixture
def many(world, teams):
    """a namespace whose queue lets nothing in"""
    k = world.kube
    if "many" in {n.metadata.name for n in k.core.list_namespace().items}:
        return
    k.core.create_namespace({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "many"}})
    k.create("clusterqueues", {"kind": "ClusterQueue", "metadata": {"name": "many"}, "spec": {"namespaceSelector": {}, "stopPolicy": "Hold", "resourceGroups": [
        {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "pool", "resources": [{"name": "cpu", "nominalQuota": "1"}, {"name": "memory", "nominalQuota": "1Gi"}]}]}]}})
    k.create("localqueues", {"kind": "LocalQueue", "metadata": {"name": "q"}, "spec": {"clusterQueue": "many"}}, "many")
    until(lambda: k.get("localqueues", "q", "many").get("status", {}).get("conditions"), "the queue is known")


def test_a_plain_pod(world):
    """the harness itself: a pod with cards, a memory volume, logs, exec, and a pod that reaches it"""
    k = world.kube
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain"}, "spec": {
        "restartPolicy": "Never", "nodeSelector": {"gpu-pool": "training"}, "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "containers": [{**container("hostname; httpd -f -p 8080 -h /etc", limits={"nvidia.com/gpu": "2", "memory": "64Mi"}), "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]}],
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "32Mi"}}]}}
    until(lambda: k.core.read_namespaced_service_account("default", "default"), "the service account")
    k.core.create_namespaced_pod("default", pod)
    got = until(lambda: (lambda p: p["status"]["phase"] == "Running" and p)(k.plain(k.core.read_namespaced_pod("plain", "default"))), "the pod runs")
    assert got["spec"]["nodeName"] == "gpu-0" and got["status"]["podIP"].startswith(world.gpu.pods)
    assert world.cluster.kubectl("logs", "plain").stdout == "plain\n"
    assert " 32.0M " in world.cluster.kubectl("exec", "plain", "--", "df", "-h", "/dev/shm").stdout
    asker = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "asker"}, "spec": {"restartPolicy": "Never", "containers": [container(f"wget -q -O - http://{got['status']['podIP']}:8080/hostname")]}}
    k.core.create_namespaced_pod("default", asker)
    until(lambda: k.core.read_namespaced_pod("asker", "default").status.phase == "Succeeded", "a pod of the other node reaches it")
    assert world.cluster.kubectl("logs", "asker").stdout == "plain\n"
    for n in ("plain", "asker"):
        k.core.delete_namespaced_pod(n, "default", grace_period_seconds=0)


def test_more_cards_than_there_are_do_not_run(world):
    """the scheduler takes the capacity that was patched in seriously"""
    k = world.kube
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "greedy"}, "spec": {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}], "containers": [container("sleep 1", limits={"nvidia.com/gpu": "9"})]}}
    k.core.create_namespaced_pod("default", pod)
    c = until(lambda: condition(k.plain(k.core.read_namespaced_pod("greedy", "default")), "PodScheduled"), "the scheduler's word")
    assert c["status"] == "False" and "Insufficient nvidia.com/gpu" in c["message"]
    k.core.delete_namespaced_pod("greedy", "default", grace_period_seconds=0)


def blocks(text):
    """[(command, output)] of a page's code blocks"""
    out = []
    for block in re.findall(r"^```\n(\$ .*?)^```$", text, re.M | re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, output = part.partition("\n")
            out.append((command, output))
    return out


def plain(text):
    """what may differ from run to run made equal"""
    text = re.sub(r"^LAST DEPLOYED: .*$", "LAST DEPLOYED: -", text, flags=re.M)
    text = re.sub(r"\b(job-hello|hello-[01])-[0-9a-z]{5}\b", r"\1-X", text)
    text = re.sub(r"\b\d+(\.\d+)?(s|m\d+s|m|h)\b", "T", text)
    return "\n".join(sorted(" ".join(line.split()) for line in text.splitlines() if line.strip() and not line.startswith("Found 2 pods")))


def test_quick_start(world, loaded, helm, tmp_path, figure):
    """every command of the page as it is written there, with the output that it shows; the release's namespace enforces Pod Security"""
    world.kube.core.create_namespace({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS, "labels": RESTRICTED}})
    tools = tmp_path / "bin"
    tools.mkdir()
    for t, path in (("kubectl", world.cluster.bin["kubectl"]), ("helm", control.programs("helm")["helm"])):
        (tools / t).write_text(f"#!/bin/sh\nexec {shlex.quote(path)} --kubeconfig {shlex.quote(world.cluster.kubeconfig)} \"$@\"\n")
        (tools / t).chmod(stat.S_IRWXU)
    with open(os.path.join(control.REPO, "docs", "quickstart.md")) as f:
        page = f.read()
    commands = blocks(page)
    assert len(re.findall(r"^\*\*\d\. ", page, re.M)) == 5 and len(commands) >= 9
    for i, (command, shown) in enumerate(commands):
        began = time.monotonic()
        p = subprocess.run(["sh", "-c", command], cwd=control.REPO, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           env={**control.clean_env(), "PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(tmp_path)})
        assert p.returncode == 0, f"{command}: {p.stdout}"
        if i == 0:
            figure("helm install to ready", f"{time.monotonic() - began:.1f} s")
        assert plain(p.stdout) == plain(shown), f"{command}\nshows\n{p.stdout}"


def test_the_readme_says_the_same():
    """commands for a cluster that the README shows are those of the page, with the same output"""
    pages = {}
    for name in ("README.md", os.path.join("docs", "quickstart.md")):
        with open(os.path.join(control.REPO, name)) as f:
            pages[name] = [b for b in blocks(f.read()) if b[0].startswith(("helm ", "kubectl "))]
    readme, page = pages.values()
    assert len(page) >= 9 and [b for b in readme if b not in page] == []


def test_installed_by_package_and_digest(world, loaded, chart, helm, figure):
    """the same with the packaged chart and an image pinned by digest, over the first; helm's own test; nobody runs as root"""
    k = world.kube
    helm("upgrade", "--install", "sluice", chart, "-n", NS, "--create-namespace", "--set", f"image.digest={loaded.digest},monitoring.dashboard.enabled=true,networkPolicy.enabled=true", "--wait", "--timeout", "3m")
    pods = until(lambda: (lambda p: len(p) == 2 and len(manager_pods(k)) == 2 and p)(ready_pods(k)), "two ready replicas", 90)
    for p in pods:
        assert p["spec"]["containers"][0]["image"] == f"ghcr.io/sluice/sluice@{loaded.digest}"
        assert p["status"]["containerStatuses"][0]["imageID"].endswith(loaded.digest) and p["spec"]["nodeName"] == "cpu-0"
        node = next(n for n in world.nodes if n.name == p["spec"]["nodeName"])
        pid, = node.pid_of(p["metadata"]["uid"])
        with open(f"/proc/{pid}/status") as f:
            status = f.read()
        assert re.search(r"^Uid:\s+65532\s+65532", status, re.M) and re.search(r"^CapEff:\s+0+$", status, re.M) and re.search(r"^NoNewPrivs:\s+1$", status, re.M)
    out = helm("test", "sluice", "-n", NS, "--logs")
    assert "Phase:          Succeeded" in out and "wrong:" not in out and "lease c1f6bfd2" in out
    figure("memory of a replica, idle", ", ".join(f"{memory(world, p):.1f} MiB" for p in pods))
    for p in pods:  # what Prometheus would read
        page = metrics(world, p)
        checked = subprocess.run(["promtool", "check", "metrics"], input=page, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert checked.returncode in (0, 3), checked.stdout.decode()  # 3: style of names, which are Kueue's
        names = set(re.findall(rb"^(\w+)", page, re.M))
        assert {b"sluice_leader", b"sluice_certificate_days_left", b"sluice_watch_age_seconds", b"sluice_ledger_up", b"process_start_time_seconds"} <= names
    p = world.cluster.kubectl("-n", NS, "exec", pods[0]["metadata"]["name"], "--", "sh", check=False)
    assert p.returncode != 0, "there is a shell"


def test_verify_finds_what_is_wrong_and_the_manager_mends_it(world, installed):
    k, hook = world.kube, "sluice-validating-webhook-configuration"
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/" + hook

    def verify(limit):
        return subprocess.run([BINARY, "verify", "-n", NS, "--kubeconfig", world.cluster.kubeconfig, "--timeout", limit], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert verify("0s").returncode == 0
    k.raw("PATCH", path, [{"op": "remove", "path": "/webhooks/1/clientConfig/caBundle"}], "application/json-patch+json")
    p = verify("0s")
    assert p.returncode == 1 and "wrong: webhook vcohort.kb.io: has no CA bundle yet" in p.stdout, p.stdout
    p = verify("90s")
    assert p.returncode == 0, p.stdout


def test_other_namespaces_are_left_alone(world, installed):
    """a pod that Pod Security refuses is refused as before; kube-system and our own namespace never ask us"""
    k = world.kube
    k.core.create_namespace({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "secured", "labels": RESTRICTED}})
    until(lambda: k.core.read_namespaced_service_account("default", "secured"), "the service account")
    with pytest.raises(ApiException, match="violates PodSecurity"):
        k.core.create_namespaced_pod("secured", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "root"}, "spec": {"containers": [{"name": "c", "image": "busybox:1.36"}]}})
    before = served(k)
    for ns in ("kube-system", NS):
        k.batch.create_namespaced_job(ns, job(ns, "not-ours", "gpu", "true", suspend=False))
        assert not k.job(ns, "not-ours")["spec"]["suspend"]
        k.batch.delete_namespaced_job("not-ours", ns, propagation_policy="Background")
    assert served(k) == before


def test_a_job_waits_is_admitted_and_runs(world, teams):
    k = world.kube
    k.merge("clusterqueues", "blue", {"spec": {"stopPolicy": "Hold"}})
    until(lambda: not is_true(k.get("clusterqueues", "blue"), "Active"), "the queue is held")
    k.batch.create_namespaced_job("blue", job("blue", "train", "gpu", pods=2, gpus=2, memory="256Mi"))
    w = until(lambda: (lambda w: w and condition(w, "QuotaReserved") and w)(workload(k, "blue", "train")), "it has a reason to wait")
    assert condition(w, "QuotaReserved")["status"] == "False" and k.job("blue", "train")["spec"]["suspend"] and not k.pods("blue")
    k.merge("clusterqueues", "blue", {"spec": {"stopPolicy": "None"}})
    pods = running(k, "blue", "train", 2)
    assert is_true(workload(k, "blue", "train"), "Admitted")
    for p in pods:  # what the flavor says took effect
        assert p["spec"]["nodeName"] == "gpu-0" and p["spec"]["nodeSelector"]["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
        assert any(t.get("key") == "nvidia.com/gpu" and t.get("operator") == "Exists" for t in p["spec"]["tolerations"])
        size = re.search(r"tmpfs\s+(\d+)", world.cluster.kubectl("-n", "blue", "exec", p["metadata"]["name"], "--", "df", "-k", "/dev/shm").stdout)[1]
        promised = next(v["emptyDir"] for v in p["spec"]["volumes"] if v.get("emptyDir", {}).get("medium") == "Memory")
        assert promised["sizeLimit"] == "128Mi" and int(size) == 128 * 1024, "half of the memory limit"
    assert sum(float(v) for p in ready_pods(k) for v in re.findall(rb"^sluice_shm_injected_total (\S+)$", metrics(world, p), re.M)) == 1


def test_a_second_team_borrows(world, teams):
    """blue holds its four; red takes its own four, and waits for more until blue is done, then borrows"""
    k = world.kube
    if not workload(k, "blue", "train"):
        k.batch.create_namespaced_job("blue", job("blue", "train", "gpu", pods=2, gpus=2))
        running(k, "blue", "train", 2)
    k.batch.create_namespaced_job("red", job("red", "own", "gpu", gpus=4))
    running(k, "red", "own", 1)  # two of the same second would have no order
    k.batch.create_namespaced_job("red", job("red", "more", "gpu", "sleep 3600", gpus=3))
    w = until(lambda: (lambda w: w and condition(w, "QuotaReserved") and w)(workload(k, "red", "more")), "the reason")
    assert condition(w, "QuotaReserved")["status"] == "False" and "nvidia.com/gpu" in condition(w, "QuotaReserved")["message"]
    k.batch.delete_namespaced_job("train", "blue", propagation_policy="Background")
    running(k, "red", "more", 1)
    usage = until(lambda: next((r for f in k.get("clusterqueues", "red")["status"].get("flavorsUsage", []) for r in f["resources"] if r["name"] == "nvidia.com/gpu" and str(r.get("borrowed")) == "3"), None), "the status shows it")
    assert str(usage["total"]) == "7"


def test_a_thousand_workloads(world, many, figure):
    k = world.kube
    began = time.monotonic()
    for i in range(1000):
        k.batch.create_namespaced_job("many", job("many", f"j{i}", "q", gpus=0))
    until(lambda: len(k.list("workloads", "many")) == 1000, "a Workload for each", 180)
    figure("1,000 Jobs made and their Workloads there", f"{time.monotonic() - began:.0f} s")
    until(lambda: k.get("clusterqueues", "many")["status"].get("pendingWorkloads") == 1000, "the status counts them", 60)
    used = [memory(world, p) for p in ready_pods(k)]
    figure("memory of a replica with 1,000 Workloads", ", ".join(f"{m:.1f} MiB" for m in used))
    assert all(m < 512 for m in used) and len(used) == 2


def test_upgrade_under_load_loses_nothing(world, red, many, chart, helm, figure):
    k = world.kube
    kept = {p["metadata"]["uid"] for n in ("own", "more") for p in running(k, "red", n, 1)}
    old = {p["metadata"]["uid"] for p in manager_pods(k)}
    failed, calls = failed_calls(k), served(k)
    with Load(k, "many", "q") as load:
        until(lambda: load.calls > 50, "the load flows")
        helm("upgrade", "sluice", chart, "-n", NS, "--reuse-values", "--set", "podLabels.wave=second,terminationGracePeriodSeconds=25", "--wait", "--timeout", "5m")
        until(lambda: not {p["metadata"]["uid"] for p in k.plain(k.core.list_namespaced_pod(NS))["items"]} & old, "the old replicas are gone", 90)
        after = load.calls
        until(lambda: load.calls > after + 50, "and on")
    assert load.failures == []
    assert failed_calls(k) - failed == 0
    figure("webhook calls that failed in the upgrade", f"{failed_calls(k) - failed} of {served(k) - calls}")
    assert len(ready_pods(k)) == 2 and all(p["metadata"]["labels"]["wave"] == "second" for p in manager_pods(k))
    assert {p["metadata"]["uid"] for n in ("own", "more") for p in running(k, "red", n, 1)} == kept, "running pods were touched"
    lead = until(lambda: any(leader(k).startswith(p["metadata"]["name"]) for p in manager_pods(k)), "one of the new replicas leads")
    assert lead


def test_rollback(world, many, helm, chart):
    k = world.kube
    if len(json.loads(helm("history", "sluice", "-n", NS, "-o", "json"))) < 2:
        helm("upgrade", "sluice", chart, "-n", NS, "--reuse-values", "--set", "podLabels.wave=second", "--wait", "--timeout", "5m")
    failed = failed_calls(k)
    with Load(k, "many", "q") as load:
        helm("rollback", "sluice", "-n", NS, "--wait", "--timeout", "5m")
        until(lambda: len(ready_pods(k)) == 2 and not any("wave" in p["metadata"]["labels"] for p in k.plain(k.core.list_namespaced_pod(NS, label_selector="app.kubernetes.io/name=sluice"))["items"]), "as before", 90)
    assert load.failures == [] and failed_calls(k) - failed == 0
    out = helm("test", "sluice", "-n", NS, "--logs")
    assert "wrong:" not in out and "Succeeded" in out


def test_one_replica_is_killed(world, red):
    """the one that decides, without warning: the other takes over, what runs stays, the books are right"""
    k = world.kube
    kept = {p["metadata"]["uid"] for n in ("own", "more") for p in running(k, "red", n, 1)}
    name = leader(k)
    pod = next(p for p in manager_pods(k) if name.startswith(p["metadata"]["name"]))
    pid, = world.cpu.pid_of(pod["metadata"]["uid"])
    os.kill(pid, signal.SIGKILL)
    until(lambda: k.core.read_namespaced_pod(pod["metadata"]["name"], NS).status.container_statuses[0].restart_count == 1, "the kubelet starts it again", 60)
    until(lambda: len(ready_pods(k)) == 2, "both are ready", 60)
    k.batch.create_namespaced_job("blue", job("blue", "after", "gpu", gpus=1))
    running(k, "blue", "after", 1)
    assert {p["metadata"]["uid"] for n in ("own", "more") for p in running(k, "red", n, 1)} == kept
    for q, want in (("red", "7"), ("blue", "1")):
        until(lambda: [str(r["total"]) for f in k.get("clusterqueues", q)["status"]["flavorsUsage"] for r in f["resources"] if r["name"] == "nvidia.com/gpu"] == [want], f"{q} uses {want}")
    k.batch.delete_namespaced_job("after", "blue", propagation_policy="Background")


def test_a_drain_leaves_one(world, installed):
    """the PodDisruptionBudget: of two replicas on a node that is drained one may go, the other not before it is back"""
    k = world.kube
    names = [p["metadata"]["name"] for p in ready_pods(k)]
    assert len(names) == 2
    until(lambda: k.raw("GET", f"/apis/policy/v1/namespaces/{NS}/poddisruptionbudgets/{MANAGER}")["status"].get("disruptionsAllowed") == 1, "one may go")

    def evict(name):
        return k.raw("POST", f"/api/v1/namespaces/{NS}/pods/{name}/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": NS}})
    evict(names[0])
    with pytest.raises(ApiException) as e:
        evict(names[1])
    assert e.value.status == 429
    until(lambda: len(ready_pods(k)) == 2 and len(manager_pods(k)) == 2, "both are back", 90)


def test_both_are_away(world, many, chart, helm):
    """a Job with a queue is refused, since it could start outside of its quota; one without passes; the load of the tests above would have shown it"""
    k = world.kube
    failed = failed_calls(k)
    helm("upgrade", "sluice", chart, "-n", NS, "--reuse-values", "--set", "replicas=0", "--wait", "--timeout", "3m")
    until(lambda: not k.plain(k.core.list_namespaced_pod(NS, label_selector="app.kubernetes.io/name=sluice"))["items"], "no replica is left", 90)
    with Load(k, "many", "q", threads=1) as load:
        until(lambda: load.failures, "the load notices")
    assert "failed calling webhook" in load.failures[0] and failed_calls(k) > failed
    k.batch.create_namespaced_job("default", job("default", "meanwhile", None, "true", gpus=0))
    until(lambda: (k.job("default", "meanwhile")["status"].get("succeeded") or 0) == 1, "a Job without a queue runs", 60)
    helm("upgrade", "sluice", chart, "-n", NS, "--reuse-values", "--set", "replicas=2", "--wait", "--timeout", "3m")
    k.batch.create_namespaced_job("blue", job("blue", "later", "gpu", gpus=0))
    running(k, "blue", "later", 1)


def test_certificates_made_anew(world, teams):
    """what the page on alerts says when they are lost or about to expire"""
    k, ns = world.kube, NS
    old = k.raw("GET", f"/api/v1/namespaces/{NS}/secrets/sluice-webhook-server-cert")["data"]["ca.crt"]
    with open(os.path.join(control.REPO, "docs", "operations.md")) as f:
        recipe = re.search(r"`kubectl -n NAMESPACE (patch secret SECRET [^`]+)`", f.read())[1]
    world.cluster.kubectl("-n", ns, *shlex.split(recipe.replace("SECRET", "sluice-webhook-server-cert")))
    world.cluster.kubectl("-n", ns, "rollout", "restart", "deployment/" + MANAGER)
    world.cluster.kubectl("-n", ns, "rollout", "status", "deployment/" + MANAGER, "--timeout=120s")
    assert k.raw("GET", f"/api/v1/namespaces/{NS}/secrets/sluice-webhook-server-cert")["data"]["ca.crt"] != old
    p = subprocess.run([BINARY, "verify", "-n", NS, "--kubeconfig", world.cluster.kubeconfig, "--timeout", "60s"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert p.returncode == 0, p.stdout
    k.batch.create_namespaced_job("blue", job("blue", "trusted", "gpu", "true", gpus=0))
    until(lambda: (k.job("blue", "trusted")["status"].get("succeeded") or 0) == 1, "a Job is admitted and done", 60)


def test_rights_suffice(world, red, many):
    """in all of the above nothing was refused to the manager, and it was given little that it did not use"""
    user, used = f"system:serviceaccount:{NS}:{MANAGER}", set()
    for e in world.cluster.audit_entries()[0]:
        ref = e.get("objectRef", {})
        if e["user"]["username"] == user and e["stage"] == "ResponseComplete":
            assert e["responseStatus"]["code"] != 403, e
            resource = "/".join(filter(None, (ref.get("resource"), ref.get("subresource"))))
            used.add((ref.get("apiGroup", ""), resource, e["verb"]))
    given = set()
    for kind in ("clusterrole/sluice-manager-role", "-n " + NS + " role/sluice-leader-election-role"):
        for r in json.loads(world.cluster.kubectl("get", *kind.split(), "-o", "json").stdout)["rules"]:
            given |= {(g, x, v) for g in r["apiGroups"] for x in r["resources"] for v in r["verbs"]}
    assert used <= given and len(used) > 20
    rare = {"delete jobs", "delete workloads", "get jobs", "get workloads", "patch jobs/status", "patch admissionchecks", "patch clusterqueues", "patch resourceflavors", "patch cohorts/status",
            "patch events", "update jobs/finalizers", "patch workloads"}  # what only conflicts, deletions, older servers and the like ask for
    assert {f"{v} {x}" for g, x, v in given - used} <= rare


def test_uninstall_leaves_the_cluster_usable(world, red, helm):
    k = world.kube
    k.batch.create_namespaced_job("blue", job("blue", "stays", "gpu", gpus=1))
    pods = {p["metadata"]["uid"]: p for ns, n in (("red", "own"), ("red", "more"), ("blue", "stays")) for p in running(k, ns, n, 1)}
    helm("uninstall", "sluice", "-n", NS, "--wait", "--timeout", "3m")
    until(lambda: not manager_pods(k), "the replicas are gone", 90)
    left = world.cluster.kubectl("get", "mutatingwebhookconfigurations,validatingwebhookconfigurations,clusterroles,clusterrolebindings", "-l", "app.kubernetes.io/instance=sluice", "-o", "name").stdout
    assert left == ""
    assert len(k.list("clusterqueues")) >= 3 and workload(k, "red", "own"), "definitions and what was made of them stay"
    steady(lambda: all(k.core.read_namespaced_pod(p["metadata"]["name"], p["metadata"]["namespace"]).status.phase == "Running" for p in pods.values()), "running jobs run on", 3)
    for p in pods.values():
        now = k.plain(k.core.read_namespaced_pod(p["metadata"]["name"], p["metadata"]["namespace"]))
        assert now["metadata"]["uid"] == p["metadata"]["uid"] and not now["status"]["containerStatuses"][0].get("restartCount")
    k.batch.create_namespaced_job("default", job("default", "ordinary", None, "true", gpus=0))
    until(lambda: (k.job("default", "ordinary")["status"].get("succeeded") or 0) == 1, "an ordinary Job runs", 60)
    k.batch.create_namespaced_job("default", job("default", "labelled", "gpu", "true", gpus=0))
    until(lambda: (k.job("default", "labelled")["status"].get("succeeded") or 0) == 1, "nobody holds a Job with a queue any more", 60)
    k.batch.delete_namespaced_job("own", "red", propagation_policy="Background")
    until(lambda: not k.pods("red", "own"), "a Job of before can be deleted", 60)
    k.core.delete_namespace("blue")
    until(lambda: "blue" not in {n.metadata.name for n in k.core.list_namespace().items}, "a namespace with Workloads can be deleted", 90)


def test_install_again(world, chart, helm, loaded):
    """the definitions are there already, and so are queues and a running Job: they are taken up as they are"""
    k = world.kube
    assert helm("list", "-n", NS, "-q").split() == [], "part of the story: run it with test_uninstall_leaves_the_cluster_usable"
    uid = running(k, "red", "more", 1)[0]["metadata"]["uid"]
    helm("install", "sluice", chart, "-n", NS, "--set", f"image.digest={loaded.digest}", "--wait", "--timeout", "3m")
    until(lambda: [str(r["total"]) for f in k.get("clusterqueues", "red")["status"]["flavorsUsage"] for r in f["resources"] if r["name"] == "nvidia.com/gpu"] == ["3"], "its usage is counted", 60)
    assert running(k, "red", "more", 1)[0]["metadata"]["uid"] == uid
    assert not k.job("red", "more")["spec"]["suspend"]


KILLED = """
import os, signal, sys
sys.path[:0] = [{here!r}]
import node
c, cpu, gpu = node.with_nodes("node-killed")
c.kubectl("run", "sleeper", "--image=busybox:1.36", "--restart=Never", "--", "sleep", "3600")
import time
while c.kubectl("get", "pod", "sleeper", "-o", "jsonpath={{.status.phase}}").stdout != "Running":
    time.sleep(0.2)
print(c.dir, c.netns, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_leaves_nothing():
    """processes, mounts, cgroups, network: all gone soon after the one who started them was killed"""
    p = subprocess.run(["python3", "-c", KILLED.format(here=os.path.dirname(os.path.abspath(__file__)))], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
    assert p.returncode == -signal.SIGKILL, p.stderr
    folder, netns = p.stdout.split()

    def traces():
        found = [f"process {x}" for x in nodes.ours(folder)] + [d for d in (folder, os.path.join(control.NETNS, netns)) if os.path.exists(d)]
        for top, folders, _ in os.walk(nodes.CGROUPS):
            found += [os.path.join(top, d) for d in folders if d.startswith(netns)]
        with open("/proc/self/mountinfo") as f:
            return found + [line for line in f if folder in line]
    end = time.monotonic() + 60
    while traces() and time.monotonic() < end:
        time.sleep(0.2)
    assert traces() == []
