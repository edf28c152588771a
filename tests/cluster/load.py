#!/usr/bin/env python3
"""A heavy day for the decisions: 30 ClusterQueues in 5 cohorts, 500 Workloads in each, small, medium and large ones that preempt. Printed and never judged:
what a Workload costs the manager in CPU time and writes, its largest memory, and how long it all took. Neither jobs nor pods: Workloads alone,
a player marks each as finished when its time is up and gives back the quota of the evicted.

  $(tests/cluster/tools/venv) tests/cluster/load.py [--scale 1.0]

The same players, the API server and etcd share the machine, so the time is theirs too; CPU time and memory are the manager's own.
"""
import argparse
import heapq
import itertools
import multiprocessing
import os
import sys
import threading
import time

import cluster as control
import manager as managers
import support
from support import GROUP, V2, condition, finish, is_true, release, until

COHORTS, QUEUES, QUOTA, BORROW = 5, 6, 20, 100
# class: (how many a queue, CPUs, seconds of run time, priority, seconds between two)
CLASSES = {"small": (350, 1, 0.2, 50, 0.1), "medium": (100, 5, 0.5, 100, 0.5), "large": (50, 20, 1.0, 200, 1.2)}


def workload(kind, queue, i):
    _, cpu, _, priority, _ = CLASSES[kind]
    return {"apiVersion": f"{GROUP}/{V2}", "kind": "Workload", "metadata": {"name": f"{queue}-{kind}-{i}", "labels": {"class": kind}},
            "spec": {"queueName": queue, "priority": priority, "podSets": [{"name": "main", "count": 1, "template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "c", "image": "registry.example.com/load:1", "resources": {"requests": {"cpu": str(cpu)}}}]}}}]}}


class Ends(support.Watcher):
    """the job controllers of one namespace"""

    def __init__(self, kube, ns, count):
        self.kube, self.count, self.done, self.evictions = kube, count, set(), 0
        self.lock, self.order, self.due, self.held = threading.Condition(), itertools.count(), [], {}
        super().__init__(kube, f"/apis/{GROUP}/{V2}/namespaces/{ns}/workloads")
        self.start()

    def seen(self, kind, o):
        uid = o["metadata"]["uid"]
        with self.lock:
            if kind == "DELETED" or is_true(o, "Finished"):
                self.done.add(uid)
                self.held.pop(uid, None)
            elif not o.get("status", {}).get("admission"):
                self.held.pop(uid, None)
            elif is_true(o, "Evicted"):
                self.held.pop(uid, None)
                self.evictions += 1
                heapq.heappush(self.due, (0, next(self.order), o))
            elif is_true(o, "Admitted"):
                new = uid not in self.held
                self.held[uid] = o
                if new:
                    heapq.heappush(self.due, (time.monotonic() + CLASSES[o["metadata"]["labels"]["class"]][2], next(self.order), o))
            self.lock.notify()

    def work(self):
        while len(self.done) < self.count:
            with self.lock:
                wait = self.due[0][0] - time.monotonic() if self.due else 1
                if wait > 0:
                    self.lock.wait(min(wait, 1))
                    continue
                o = heapq.heappop(self.due)[2]
                if not is_true(o, "Evicted"):
                    o = self.held.get(o["metadata"]["uid"])
            if o:
                self.end(o)

    def end(self, o):
        try:
            if is_true(o, "Evicted"):
                release(self.kube, o, condition(o, "Evicted"))
            else:
                finish(self.kube, o)
        except support.ApiException as e:  # it has just changed: what the watch says next decides
            if e.status not in (404, 409):
                raise


def create(kubeconfig, ns, per_queue):
    """every class of every queue at its pace, or as fast as the API server takes them"""
    kube, start = support.Kube(kubeconfig), time.monotonic()
    due = [(i * every, q, kind, i) for q in range(QUEUES) for kind, (n, _, _, _, every) in CLASSES.items() for i in range(per_queue(n))]
    for at, q, kind, i in sorted(due):
        time.sleep(max(0, start + at - time.monotonic()))
        kube.raw("POST", f"/apis/{GROUP}/{V2}/namespaces/{ns}/workloads", workload(kind, f"q{q}", i))


def run_ends(kubeconfig, ns, count, told):
    ends = Ends(support.Kube(kubeconfig), ns, count)
    ends.work()
    told.put((ends.evictions, ends.gaps))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--scale", type=float, default=1.0, help="part of the Workloads that are made (0.1: 1,500)")
    a = ap.parse_args()
    per_queue = lambda n: max(1, round(n * a.scale))  # noqa: E731
    per_cohort = QUEUES * sum(per_queue(n) for n, *_ in CLASSES.values())
    with control.Cluster(f"load-{os.getpid()}", scheduler=False, controllers=False, audit=True) as c:
        c.enter()
        kube = support.Kube(c.kubeconfig)
        m = managers.Manager(managers.Installation(c).install()).start().join()
        kube.create("resourceflavors", {"kind": "ResourceFlavor", "metadata": {"name": "any"}, "spec": {}})
        for k in range(COHORTS):
            kube.core.create_namespace({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"cohort{k}"}})
            for q in range(QUEUES):
                kube.create("clusterqueues", {"kind": "ClusterQueue", "metadata": {"name": f"c{k}q{q}"}, "spec": {
                    "namespaceSelector": {}, "cohortName": f"c{k}", "queueingStrategy": "BestEffortFIFO",
                    "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
                    "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "any", "resources": [{"name": "cpu", "nominalQuota": str(QUOTA), "borrowingLimit": str(BORROW)}]}]}]}})
                kube.create("localqueues", {"kind": "LocalQueue", "metadata": {"name": f"q{q}"}, "spec": {"clusterQueue": f"c{k}q{q}"}}, f"cohort{k}")
        until(lambda: all(is_true(q, "Active") for q in kube.list("clusterqueues")), "all queues active")
        until(lambda: kube.list("workloads") == [], "Workloads served")  # the API server begins anew with a kind whose conversion has just changed
        before, begun, told = m.cpu_seconds(), time.monotonic(), multiprocessing.Queue()
        _, at = c.audit_entries()
        people = [multiprocessing.Process(target=run_ends, args=(c.kubeconfig, f"cohort{k}", per_cohort, told)) for k in range(COHORTS)]
        people += [multiprocessing.Process(target=create, args=(c.kubeconfig, f"cohort{k}", per_queue)) for k in range(COHORTS)]
        for p in people:
            p.start()
        for p in people:
            p.join()
        if any(p.exitcode for p in people):
            sys.exit("load: a player failed")
        wall, cpu, n = time.monotonic() - begun, m.cpu_seconds() - before, COHORTS * per_cohort
        reports = [told.get() for _ in range(COHORTS)]
        writes = {}
        for e in c.audit_entries(at)[0]:
            if e["user"]["username"].startswith("system:serviceaccount:" + managers.NAMESPACE) and e["stage"] == "ResponseComplete" and e["verb"] in ("create", "update", "patch", "delete"):
                what = e["objectRef"]["resource"] + "/" * bool(e["objectRef"].get("subresource")) + e["objectRef"].get("subresource", "")
                writes[what] = writes.get(what, 0) + 1
        print(f"{n} Workloads in {wall:.0f} s, {n / wall:.0f} a second; {sum(e for e, _ in reports)} evictions; {sum(g for _, g in reports)} gaps in watches")
        print(f"CPU time of the manager: {cpu:.1f} s, {1000 * cpu / n:.2f} ms a Workload; largest memory {m.peak_memory() / 2**20:.1f} MiB")
        print("writes of the manager:", ", ".join(f"{k} {v} ({v / n:.2f} a Workload)" for k, v in sorted(writes.items(), key=lambda i: -i[1])))


if __name__ == "__main__":
    try:
        main()
    except control.Error as e:
        sys.exit(f"load: {e}")
