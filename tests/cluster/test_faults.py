"""What breaks around the manager, and the manager itself: nothing is admitted twice, nothing leaks, nothing is forgotten."""
import base64
import json
import os
import random
import signal
import subprocess
import threading
import time

import pytest
from kubernetes.client.exceptions import ApiException

import manager as managers
from support import NET_ERRORS, Witness, is_true, message, steady, until

JOBS = 200


def submit_patiently(space, name, queue, **kw):
    """as people do: while a webhook is away the API server says so, and one tries again"""
    def attempt():
        try:
            return space.submit(name, queue, **kw)
        except ApiException as e:
            if e.status == 409:  # the answer to the attempt before was lost
                return space.job(name)
            assert e.status in (403, 429, 500, 503, 504), f"{e.status}: {message(e)}"
        except NET_ERRORS:
            pass
        return None
    return until(attempt, f"Job {name} accepted", 120)


def all_complete(kube, space, count):
    jobs = kube.plain(kube.batch.list_namespaced_job(space.ns))["items"]
    done = sum(is_true(j, "Complete") for j in jobs)
    return len(jobs) == count and done == count


def books_are_closed(kube, space, manager, queues):
    """nothing waits, nothing is held, every Workload is finished, and the manager's own recount agrees"""
    for q in queues:
        space.settled(q, {"any": {"cpu": 0}}, 60)
        until(lambda: (lambda s: s["pendingWorkloads"] == s["reservingWorkloads"] == s["admittedWorkloads"] == 0)(space.cq(q)["status"]), f"{q} is empty")
    until(lambda: all(is_true(w, "Finished") for w in kube.list("workloads", space.ns)), "every Workload finished")
    until(lambda: not any(v for k, v in manager.metrics().items() if k.startswith("sluice_quota_drift")), "no drift")


def flow(kube, player, space, disturb, jobs=JOBS, gaps=False):
    """jobs flow through two queues that borrow from each other while disturb(stop) does its worst"""
    space.flavor("any")
    for q in ("a", "b"):
        space.queue(q, {"any": {"cpu": 6}}, cohort="pool")
    player.enroll(space.ns, 0.2)
    w = Witness(kube, space.ns)
    stop, failed = threading.Event(), []

    def guarded():
        try:
            disturb(stop)
        except BaseException as e:  # the thread's failure is the test's
            failed.append(e)
    t = threading.Thread(target=guarded)
    t.start()
    try:
        for i in range(jobs):
            submit_patiently(space, f"j{i}", "ab"[i % 2], cpu=1 + i % 3)
        until(lambda: failed or all_complete(kube, space, jobs), "every Job complete", 300)
    finally:
        stop.set()
        t.join()
    if failed:
        raise failed[0]
    time.sleep(1)  # the witness's last events
    w.stop()
    any_cpu = (space.full("any"), "cpu")
    faults = w.faults({space.full(q): {any_cpu: 12} for q in "ab"}, {any_cpu: 12}, gaps)
    assert not faults, "\n".join(faults[:10])
    count = w.admissions()
    assert len(count) == jobs and set(count.values()) == {1}, {u: n for u, n in count.items() if n != 1}
    return w


def test_killed_at_random_while_jobs_flow(kube, player, space, manager, request):
    seed = int(os.environ.get("SLUICE_SEED") or time.time())
    print("seed", seed)  # shown when the test fails; SLUICE_SEED repeats it
    rnd, kills = random.Random(seed), []

    def disturb(stop):
        while not stop.wait(rnd.uniform(0.1, 2.0)):
            manager.kill(signal.SIGKILL)
            kills.append(time.monotonic())
            if rnd.random() < 0.3:
                time.sleep(rnd.uniform(0, 1.0))
            manager.start(wait=rnd.random() < 0.7)
        if not manager.running():
            manager.start()
        manager.wait_ready()
    flow(kube, player, space, disturb)
    assert len(kills) >= 5, f"only {len(kills)} kills: the test did not test much"
    books_are_closed(kube, space, manager, "ab")


def test_api_server_restarts_while_jobs_flow(cluster, kube, player, space, manager):
    def disturb(stop):
        for sig in (signal.SIGTERM, signal.SIGKILL):
            if stop.wait(3):
                return
            cluster.restart("kube-apiserver", sig)
    flow(kube, player, space, disturb, 60, gaps=True)
    assert manager.running()
    books_are_closed(kube, space, manager, "ab")


def test_connections_cut_while_jobs_flow(kube, player, space, manager, line):
    cuts = []

    def disturb(stop):
        while not stop.wait(0.5):
            line.cut()
            cuts.append(1)
    flow(kube, player, space, disturb, 60)
    assert len(cuts) >= 5
    books_are_closed(kube, space, manager, "ab")


def test_a_line_that_went_silent_is_given_up(kube, space, manager, line):
    space.cpu_queue("a", 2)
    space.submit("before", "a")
    space.admitted("before")
    line.stall()  # connections stay open, nothing comes any more
    try:
        submit_patiently(space, "during", "a")
        steady(lambda: space.workload("during") is None, "nothing can happen now", 1)
        line.cut()
    finally:
        line.resume()
    space.admitted("during")
    for j in ("before", "during"):
        space.succeed(j)
    space.settled("a", {"any": {"cpu": 0}})


def test_api_server_away_is_said_and_survived(kube, space, manager, line):
    space.cpu_queue("a", 2)
    before = manager.log_text().count("\n")
    line.refuse()
    try:
        time.sleep(4)
        lines = manager.log_text().count("\n") - before
        assert manager.running()
        assert 1 <= lines < 100, f"{lines} lines of log in four seconds without an API server"
    finally:
        line.resume()
    submit_patiently(space, "after", "a")
    space.admitted("after")


def test_unmanaged_jobs_never_wait_for_the_manager(kube, player, space, one_manager):
    if not one_manager.running():
        one_manager.start()
    space.cpu_queue("a", 2)
    player.enroll(space.ns, 0.1)
    one_manager.kill()
    try:
        for i in range(10):
            space.submit(f"free-{i}")
        until(lambda: all_complete(kube, space, 10), "all of them done without a manager")
        kube.patch_job(space.ns, "free-0", {"metadata": {"annotations": {"changed": "yes"}}})
        with pytest.raises(ApiException) as e:  # one that names a queue must not slip by
            space.submit("held", "a")
        assert e.value.status == 500 and "webhook" in message(e.value)
    finally:
        one_manager.start()
    submit_patiently(space, "held", "a")
    space.admitted("held")


def test_what_happened_while_the_manager_was_away(kube, space, one_manager):
    if not one_manager.running():
        one_manager.start()
    space.cpu_queue("a", 2)
    for j in ("done", "gone"):
        space.submit(j, "a")
        space.admitted(j)
        space.run(j)
    space.submit("next", "a", cpu=2)
    space.waiting("next")
    one_manager.kill()
    space.succeed("done")
    until(lambda: is_true(space.job("done"), "Complete"), "complete without a manager")
    kube.batch.delete_namespaced_job("gone", space.ns, propagation_policy="Background")
    one_manager.start()
    space.reap()
    space.admitted("next")
    until(lambda: is_true(space.workload("done"), "Finished"), "finished")
    until(lambda: len(kube.list("workloads", space.ns)) == 2, "the Workload of the deleted Job gone")
    space.settled("a", {"any": {"cpu": 2}})


def test_the_ledger_may_be_lost(space, one_manager):
    """the API server is the truth: without the file, or with one that is broken, the same is decided"""
    if not one_manager.running():
        one_manager.start()
    space.cpu_queue("a", 2)
    space.submit("first", "a", cpu=2)
    w = space.admitted("first")
    data = os.path.join(one_manager.dir, "data")
    for harm in ("removed", "corrupt"):
        one_manager.kill()
        files = [os.path.join(d, f) for d, _, fs in os.walk(data) for f in fs]
        assert files, "there was no ledger"
        for f in files:
            if harm == "removed":
                os.unlink(f)
            else:
                with open(f, "r+b") as out:
                    out.write(os.urandom(os.path.getsize(f)))
        one_manager.start()
        assert space.workload("first")["status"]["admission"] == w["status"]["admission"]
        name = f"second-{harm}"
        space.submit(name, "a")
        space.waiting(name)
        steady(lambda: space.job(name)["spec"]["suspend"], "nothing over quota")
        assert not any(v for k, v in one_manager.metrics().items() if k.startswith("sluice_quota_drift"))
    space.succeed("first")
    for harm in ("removed", "corrupt"):
        space.admitted(f"second-{harm}")


def secret_of(kube, name="sluice-webhook-server-cert"):
    return kube.plain(kube.core.read_namespaced_secret(name, managers.NAMESPACE))["data"]


def serving_certificate(manager):
    """what the webhook port shows -> PEM"""
    p = subprocess.run(manager.cluster.command("openssl", "s_client", "-connect", f"{manager.address}:{manager.ports['webhook']}", "-showcerts"), input="", capture_output=True, text=True, timeout=30)
    assert "-----BEGIN CERTIFICATE-----" in p.stdout, p.stderr
    return p.stdout[p.stdout.index("-----BEGIN"):p.stdout.index("-----END")]


class Submitter(threading.Thread):
    """submits and deletes Jobs as fast as it can; any refusal is kept"""

    def __init__(self, space):
        super().__init__(daemon=True)
        self.space, self.count, self.errors, self.stopping = space, 0, [], False
        self.start()

    def run(self):
        while not self.stopping:
            name = f"load-{self.count}"
            try:
                self.space.submit(name, "a", spec={"suspend": True})
                self.space.kube.batch.delete_namespaced_job(name, self.space.ns, propagation_policy="Background")
            except ApiException as e:
                self.errors.append(f"{e.status}: {message(e)}")
            self.count += 1

    def finish(self):
        self.stopping = True
        self.join()
        return self.errors


def test_serving_certificate_renewed_under_load(kube, space, manager):
    space.cpu_queue("a", 1)
    old, shown = secret_of(kube), serving_certificate(manager)
    load = Submitter(space)
    # without a certificate in the Secret a new one is due
    kube.raw("PATCH", f"/api/v1/namespaces/{managers.NAMESPACE}/secrets/sluice-webhook-server-cert", {"data": {"tls.crt": None, "tls.key": None}}, "application/merge-patch+json")
    until(lambda: secret_of(kube).get("tls.crt", old["tls.crt"]) != old["tls.crt"], "a new certificate in the Secret", 90)
    until(lambda: serving_certificate(manager) != shown, "and on the port", 90)
    at = load.count
    until(lambda: load.count > at + 30, "requests under the new one")
    assert load.finish() == []
    assert secret_of(kube)["ca.crt"] == old["ca.crt"]


def bundles(kube):
    """every caBundle that is published for us"""
    out = set()
    for kind in ("validating", "mutating"):
        for w in kube.raw("GET", f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/sluice-{kind}-webhook-configuration")["webhooks"]:
            out.add(w["clientConfig"].get("caBundle", ""))
    for d in kube.raw("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]:
        if d["spec"].get("conversion", {}).get("strategy") == "Webhook":
            out.add(d["spec"]["conversion"]["webhook"]["clientConfig"].get("caBundle", ""))
    return {base64.b64decode(b).decode() for b in out}


def count_of(pem):
    return pem.count("-----BEGIN CERTIFICATE-----")


def test_ca_rotated_under_load(cluster, kube, space, manager, tmp_path):
    """an authority that is near its end: its successor is published first, then signs, and no request fails on the way"""
    space.cpu_queue("a", 1)
    before = secret_of(kube)
    one, = bundles(kube)
    assert count_of(one) >= 1 and base64.b64decode(before["ca.crt"]).decode().strip() in one
    load = Submitter(space)
    # the present CA as if it were old: same key and name, so the serving certificate stays valid under it
    key = tmp_path / "ca.key"
    key.write_bytes(base64.b64decode(before["ca.key"]))
    key.chmod(0o600)
    old = tmp_path / "old.crt"
    old.write_bytes(base64.b64decode(before["ca.crt"]))
    aged = near_its_end(old, key, tmp_path)
    kube.raw("PATCH", f"/api/v1/namespaces/{managers.NAMESPACE}/secrets/sluice-webhook-server-cert", {"data": {"ca.crt": base64.b64encode(aged).decode()}}, "application/merge-patch+json")
    until(lambda: secret_of(kube).get("ca-next.crt"), "a successor in the Secret", 90)
    nxt = base64.b64decode(secret_of(kube)["ca-next.crt"]).decode().strip()
    until(lambda: all(nxt in b for b in bundles(kube)), "it is published everywhere", 90)
    # as if it had been there long enough
    kube.raw("PATCH", f"/api/v1/namespaces/{managers.NAMESPACE}/secrets/sluice-webhook-server-cert",
             {"data": {"ca-next.since": base64.b64encode(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3600)).encode()).decode()}}, "application/merge-patch+json")
    until(lambda: base64.b64decode(secret_of(kube)["ca.crt"]).decode().strip() == nxt, "it signs now", 90)
    shown = base64.b64decode(secret_of(kube)["tls.crt"]).decode()
    until(lambda: serving_certificate(manager).strip() in shown, "the port shows what it signed", 90)
    at = load.count
    until(lambda: load.count > at + 30, "requests under the new authority")
    assert load.finish() == []


def near_its_end(old, key, folder):
    """the same authority, its life nearly over; openssl's ca command can set dates, x509 cannot"""
    conf = folder / "ca.conf"
    (folder / "index.txt").write_text("")
    (folder / "serial").write_text("7000\n")
    conf.write_text(f"[ca]\ndefault_ca=x\n[x]\ndatabase={folder}/index.txt\nserial={folder}/serial\nnew_certs_dir={folder}\ndefault_md=sha256\npolicy=p\nunique_subject=no\npreserve=yes\n"
                    "[p]\ncommonName=optional\norganizationName=optional\n[v]\nbasicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\nsubjectKeyIdentifier=hash\n")
    csr = folder / "ca.csr"
    subprocess.run(["openssl", "x509", "-x509toreq", "-in", str(old), "-signkey", str(key), "-out", str(csr)], check=True, capture_output=True)
    stamp = lambda days: time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + 86400 * days))  # noqa: E731
    subprocess.run(["openssl", "ca", "-batch", "-selfsign", "-notext", "-config", str(conf), "-extensions", "v", "-keyfile", str(key), "-in", str(csr), "-out", str(folder / "aged.crt"),
                    "-startdate", stamp(-300), "-enddate", stamp(60)], check=True, capture_output=True)
    return (folder / "aged.crt").read_bytes()


def test_a_first_start_is_not_alarming(kube, space, one_manager):
    """the certificates that it writes into the definitions make the API server set up our kinds again, and say so to everybody"""
    if one_manager.running():
        one_manager.stop()
    for d in kube.raw("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]:
        if d["spec"].get("conversion", {}).get("strategy") == "Webhook":
            kube.raw("PATCH", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{d['metadata']['name']}", [{"op": "remove", "path": "/spec/conversion/webhook/clientConfig/caBundle"}], "application/json-patch+json")
    assert "" in bundles(kube)
    before = len(one_manager.log_text())
    one_manager.start()
    until(lambda: "" not in bundles(kube), "every definition has its certificates")
    space.cpu_queue("a", 1)
    submit_patiently(space, "train", "a")
    space.admitted("train")
    lines = [json.loads(line) for line in one_manager.log_text()[before:].splitlines() if line.startswith("{")]
    told = [line for line in lines if "initializing" in line.get("error", "") + line.get("answer", "")]
    assert not [line for line in told if line["level"] != "info"] and len(told) <= 1, told
    assert not [k for k in one_manager.metrics() if k.startswith("sluice_write_errors_total") and 'code="429"' in k]


def leaders(managers_):
    return [m.name for m in managers_ if m.running() and m.metrics().get("sluice_leader") == 1]


@pytest.fixture
def second_manager(installation, manager):
    m = managers.Manager(installation, 1).start().join()
    yield m
    m.part()
    if m.running():
        m.kill()


def test_two_replicas_one_decides_and_the_other_takes_over(kube, player, space, manager, second_manager):
    both = [manager, second_manager]
    until(lambda: len(leaders(both)) == 1, "one leader")
    steady(lambda: len(leaders(both)) == 1, "one leader at any time")
    space.flavor("any")
    space.queue("a", {"any": {"cpu": 6}})
    player.enroll(space.ns, 0.2)
    w = Witness(kube, space.ns)
    for i in range(40):
        submit_patiently(space, f"j{i}", "a", cpu=1 + i % 3)
        if i == 20:
            name, = until(lambda: leaders(both), "a leader")
            leader = next(m for m in both if m.name == name)
            other = next(m for m in both if m is not leader)
            leader.kill()
            leader.part()  # what a cluster does when a pod has gone
    until(lambda: leaders([other]) == [other.name], "the other one leads")
    until(lambda: all_complete(kube, space, 40), "all done", 120)
    leader.start().join()
    steady(lambda: leaders(both) == [other.name], "the one that came back follows")
    time.sleep(1)
    w.stop()
    any_cpu = (space.full("any"), "cpu")
    assert not w.faults({space.full("a"): {any_cpu: 6}}, {any_cpu: 6})
    assert sorted(w.admissions().values()) == [1] * 40
    books_are_closed(kube, space, other, "a")
    # a replica that stops in order gives its lease away at once
    other.stop()
    other.part()
    until(lambda: leaders([leader]) == [leader.name], "the first one leads again")
    submit_patiently(space, "last", "a")
    space.admitted("last")
    if other is manager:
        manager.start().join()


def test_a_leader_cut_off_stops_deciding(kube, space, manager, second_manager, line):
    """the lease runs out behind its back: the other one decides, and the books stay right"""
    both = [manager, second_manager]
    until(lambda: len(leaders(both)) == 1, "one leader")
    if leaders(both) == [second_manager.name]:
        second_manager.restart(signal.SIGTERM)
        until(lambda: leaders(both) == [manager.name], "the one behind the line leads")
    space.cpu_queue("a", 2)
    line.refuse()
    try:
        manager.part()  # not ready any more
        until(lambda: second_manager.metrics().get("sluice_leader") == 1, "the other one took over", 60)
        assert manager.metrics().get("sluice_leader") == 0
        # who waits and why is said by the one that decides, and by nobody else
        assert until(lambda: any(k.startswith("kueue_cluster_queue_status{") for k in second_manager.metrics()), "gauges of the new leader")
        assert not any("follower" in k for k in second_manager.metrics())
        assert not any(k.startswith(("kueue_cluster_queue_status{", "kueue_pending_workloads{", "sluice_queue_idle")) for k in manager.metrics())
        submit_patiently(space, "first", "a")
        space.admitted("first")
    finally:
        line.resume()
        manager.join()
    submit_patiently(space, "second", "a")
    space.admitted("second")
    space.settled("a", {"any": {"cpu": 2}})
    assert leaders(both) == [second_manager.name]
