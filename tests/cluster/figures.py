#!/usr/bin/env python3
"""Figures of the manager beside a real control plane, printed and never judged: memory with 0, 1,000 and 10,000 Workloads, cold start with 10,000,
the time from quota freed to the next Job started.

  $(tests/cluster/tools/venv) tests/cluster/figures.py [--workloads 10000]
"""
import argparse
import os
import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import cluster as control
import manager as managers
import support
from support import GROUP, V2, Space, is_true, until


def bare_workload(i):
    return {"apiVersion": f"{GROUP}/{V2}", "kind": "Workload", "metadata": {"name": f"w{i}"}, "spec": {"queueName": "a", "podSets": [{"name": "main", "count": 1, "template": {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "registry.example.com/team/training:2026.11", "args": ["--epochs", "90", "--batch", "256"],
                                                           "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}}}]}}


def fill(c, space, first, last):
    local = threading.local()

    def create(i):
        if not hasattr(local, "kube"):
            local.kube = support.Kube(c.kubeconfig)
        local.kube.raw("POST", f"/apis/{GROUP}/{V2}/namespaces/{space.ns}/workloads", bare_workload(i))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(create, range(first, last)))


def mib(n):
    return f"{n / 2**20:.1f} MiB"


class Starts(support.Watcher):
    """when each Job was seen to be let go and to be complete"""

    def __init__(self, kube, ns):
        self.started, self.done = {}, {}
        super().__init__(kube, f"/apis/batch/v1/namespaces/{ns}/jobs")
        self.start()

    def seen(self, kind, o):
        if not o["spec"].get("suspend"):
            self.started.setdefault(o["metadata"]["name"], time.monotonic())
        if is_true(o, "Complete"):
            self.done.setdefault(o["metadata"]["name"], time.monotonic())


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--workloads", type=int, default=10000)
    a = ap.parse_args()
    with control.Cluster(f"figures-{os.getpid()}", scheduler=False) as c:
        c.enter()
        kube = support.Kube(c.kubeconfig)
        m = managers.Manager(managers.Installation(c).install()).start().join()
        space = Space(kube, "figures")
        space.flavor("any")
        space.queue("a", {"any": {"cpu": 10, "memory": "100Gi"}})
        time.sleep(3)
        print(f"memory, no Workloads: {mib(m.memory())}", flush=True)
        at = 0
        for n in sorted({min(1000, a.workloads), a.workloads}):
            t = time.monotonic()
            fill(c, space, at, n)
            until(lambda: space.cq("a")["status"].get("pendingWorkloads", 0) == n - 10, f"{n} Workloads counted", 600)
            time.sleep(5)
            print(f"memory, {n} Workloads: {mib(m.memory())} (created and counted in {time.monotonic() - t - 5:.0f} s)", flush=True)
            at = n
        m.kill()
        first = next(w for w in kube.list("workloads", space.ns) if is_true(w, "Admitted"))
        kube.raw("DELETE", f"/apis/{GROUP}/{V2}/namespaces/{space.ns}/workloads/{first['metadata']['name']}")  # its place is free when the manager comes back
        t = time.monotonic()
        m.start(wait=False)
        until(lambda: sum(is_true(w, "Admitted") for w in admitted(kube, space)) == 10, "the first decision", 300)
        print(f"cold start with {a.workloads} Workloads, to the first decision: {time.monotonic() - t:.2f} s", flush=True)
        quick = Space(kube, "quick")
        quick.cpu_queue("a", 1)
        starts = Starts(kube, quick.ns)
        names = [f"j{i}" for i in range(30)]
        for n in names:
            quick.submit(n, "a")
        player = support.Player(kube)  # from now on they run, one after the other
        player.enroll(quick.ns, 0)
        for p in kube.pods(quick.ns):
            player.seen("ADDED", p)
        until(lambda: len(starts.done) == len(names), "all done")
        order = sorted(names, key=lambda n: starts.started[n])
        gaps = [1000 * (starts.started[b] - starts.done[x]) for x, b in zip(order, order[1:])]
        print(f"from one Job complete to the next one let go, as a watch sees it: median {statistics.median(gaps):.0f} ms, worst {max(gaps):.0f} ms", flush=True)
        starts.stop()


def admitted(kube, space):
    return kube.raw("GET", f"/apis/{GROUP}/{V2}/namespaces/{space.ns}/workloads?fieldSelector=status.admission.clusterQueue={space.full('a')}")["items"]


if __name__ == "__main__":
    try:
        main()
    except control.Error as e:
        sys.exit(f"figures: {e}")
