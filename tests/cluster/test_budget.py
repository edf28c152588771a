"""What a one-pod Job costs the API server, from its own audit log and counters."""
import re

import pytest

from support import is_true, until

WRITES, EVENTS, CALLS = 5, 2, 4
OURS = "system:serviceaccount:sluice-system:"
pytestmark = pytest.mark.usefixtures("manager")


def webhook_calls(cluster, metric="apiserver_admission_webhook_request_total"):
    """{webhook: how often kube-apiserver has called it}"""
    total = {}
    for line in cluster.raw("/metrics").splitlines():
        m = re.match(metric + r'\{.*name="([^"]*)".*\} (\S+)$', line)
        if m:
            total[m[1]] = total.get(m[1], 0) + float(m[2])
    return total


def one_job(cluster, kube, space, name, end):
    """a Job from submit to finish -> (writes, events, calls, what they were)"""
    calls = webhook_calls(cluster)
    _, at = cluster.audit_entries()
    space.submit(name, "a")
    space.admitted(name)
    space.run(name)
    until(lambda: space.job(name)["status"].get("ready") == 1, "ready")
    space.succeed(name)
    until(lambda: is_true(space.workload(name), "Finished"), "finished")
    space.settled("a", {"any": {"cpu": 0}})
    end()
    mine = [e for e in cluster.audit_entries(at)[0] if e["user"]["username"].startswith(OURS) and e["verb"] in ("create", "update", "patch", "delete") and e["stage"] == "ResponseComplete"]
    about = [e for e in mine if e["objectRef"].get("namespace") == space.ns and e["objectRef"]["resource"] in ("jobs", "workloads")]
    events = [e for e in mine if e["objectRef"].get("namespace") == space.ns and e["objectRef"]["resource"] == "events"]
    new = {k: v - calls.get(k, 0) for k, v in webhook_calls(cluster).items() if v > calls.get(k, 0)}
    said = [f"{e['verb']} {e['objectRef']['resource']}/{e['objectRef'].get('subresource', '')} {e['responseStatus']['code']}" for e in about]
    return len(about), len(events), new, said


def test_writes_events_and_calls_of_a_one_pod_job(cluster, kube, space):
    space.cpu_queue("a", 1)
    runs = [one_job(cluster, kube, space, f"job-{i}", lambda: None) for i in range(3)]
    print("API writes, events, webhook calls per one-pod Job:", [(w, e, c, said) for w, e, c, said in runs])
    for writes, events, calls, said in runs:
        assert writes <= WRITES, said
        assert events <= EVENTS
        assert sum(calls.values()) <= CALLS, calls


def test_an_unmanaged_job_costs_nothing(cluster, kube, space):
    space.cpu_queue("a", 1)
    calls = webhook_calls(cluster)
    _, at = cluster.audit_entries()
    space.submit("plain")
    space.succeed("plain")
    until(lambda: is_true(space.job("plain"), "Complete"), "complete")
    mine = [e for e in cluster.audit_entries(at)[0] if e["user"]["username"].startswith(OURS) and e["objectRef"].get("namespace") == space.ns and e["verb"] != "watch"]
    assert mine == []
    new = {k: v - calls.get(k, 0) for k, v in webhook_calls(cluster).items() if v > calls.get(k, 0)}
    assert sum(new.values()) <= 1 and set(new) <= {"mjob-unlabelled.sluice.dev"}, new


def test_a_quiet_cluster_is_left_alone(cluster, kube, space, manager):
    """nothing to do: no writes but the lease"""
    import time
    space.cpu_queue("a", 1)
    space.submit("train", "a")
    space.admitted("train")
    space.submit("waits", "a")
    space.waiting("waits")
    until(lambda: space.cq("a")["status"]["pendingWorkloads"] == 1, "counted")
    time.sleep(3)  # statuses of what went before
    _, at = cluster.audit_entries()
    time.sleep(5)
    said = [f"{e['verb']} {e['objectRef']['resource']}/{e['objectRef'].get('name')}" for e in cluster.audit_entries(at)[0]
            if e["user"]["username"].startswith(OURS) and e["verb"] in ("create", "update", "patch", "delete") and e["objectRef"]["resource"] != "leases"]
    assert said == []
