"""Recorded decisions (tests/scenario/decisions) through a real API server and the daemon: step by step the same outcome.

The engine alone plays all of them in its own test; here a fixed sample shows that what lies between engine and API server changes nothing.
The Workloads have no jobs: the player is their job controller, and returns the quota of those evicted in the order in which it hears of
them. Scenarios of one configuration are played side by side, each in a namespace of its own and with its name before every name that the
cluster shares.
"""
import concurrent.futures
import contextlib
import json
import os
import threading
import time

import pytest
from kubernetes.client.exceptions import ApiException

import cluster as control
import manager as managers
from support import GROUP, NET_ERRORS, V2, Watcher, condition, finish, is_true, release, until

FOLDER = os.path.join(control.REPO, "tests", "scenario", "decisions")
FAIR = {"fairSharing": {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]}}
# What each is here for; the themes of the record are in its name below.
SAMPLE = {
    "scenarios": {
        "d11129": "single: three preemptions within one queue",
        "d11023": "single: StrictFIFO, quota patched, one deactivated",
        "d11099": "flat: reclaim while borrowing, deactivation",
        "d11118": "flat: four evictions of three kinds, a least count",
        "d11122": "flat: reclamation, deletion and deactivation",
        "d11085": "nested: reclaim while borrowing twice, quota patched",
        "d11144": "nested: two preemptions within a queue, deactivation",
        "d11109": "nested: two reclaimed within the cohort",
        "d11039": "flavors: five preemptions over three flavors",
        "d11005": "flavors: borrowing and a least count",
        "d11058": "flavors: StrictFIFO with three preemptions",
        "d11121": "groups: several evictions, quota patched, deactivation",
        "d11089": "groups: deactivation, preemption",
        "d11097": "partial: two preemptions, quota patched, deactivation",
        "d11059": "partial: reclamation, deactivation",
    },
    "fair": {
        "d41011": "nested: all three kinds of preemption",
        "d41072": "groups: a fairer share",
        "d41055": "flavors: a fairer share, quota patched",
        "d41001": "flat: reclamation, deactivation",
        "d41070": "nested: a least count, two patches, deletion",
    },
}
THEMES = {"scenarios": {"flat", "single", "nested", "flavors", "groups", "partial"}, "fair": {"flat", "nested", "flavors", "groups"}}
PLURALS = {"ResourceFlavor": "resourceflavors", "Cohort": "cohorts", "ClusterQueue": "clusterqueues", "LocalQueue": "localqueues"}
QUIET, APART, PATIENCE = 1.0, 1.1, 60  # seconds: nothing changes within a step; creation times differ by whole seconds; until a step must be right


def load(file):
    with open(os.path.join(FOLDER, file + ".jsonl")) as f:
        return {s["name"]: s for s in map(json.loads, f) if s["name"] in SAMPLE[file]}


class Play(Watcher):
    """One scenario: applies its steps, acts as the job controller, sees every state of its Workloads."""

    def __init__(self, kube, scenario):
        self.kube, self.scenario, self.ns = kube, scenario, "s-" + scenario["name"]
        self.lock, self.changed = threading.RLock(), time.monotonic()
        self.now, self.gone, self.evicted, self.troubles, self.told = {}, set(), {}, [], set()
        self.kube.core.create_namespace({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.ns}})
        super().__init__(kube, f"/apis/{GROUP}/{V2}/namespaces/{self.ns}/workloads")

    # --- names ---

    def full(self, name):
        return f"{self.ns}-{name}"

    def plain(self, name):
        return name.removeprefix(self.ns + "-")

    def prefixed(self, spec):
        """a spec in which every name that the cluster shares is ours"""
        spec = json.loads(json.dumps(spec))
        for k in ("cohortName", "parentName", "clusterQueue"):
            if spec.get(k):
                spec[k] = self.full(spec[k])
        for g in spec.get("resourceGroups") or []:
            for f in g["flavors"]:
                f["name"] = self.full(f["name"])
        return spec

    # --- the job controller ---

    def seen(self, kind, o):
        name = o["metadata"]["name"]
        with self.lock:
            self.changed = time.monotonic()
            before = self.now.get(name)
            if kind == "DELETED":
                self.now.pop(name, None)
                self.gone.add(name)
                return
            self.now[name] = o
            evicted, held = condition(o, "Evicted"), o.get("status", {}).get("admission")
            if not (evicted and evicted["status"] == "True" and before and before.get("status", {}).get("admission")):
                return
            if not is_true(before, "Evicted"):
                why = condition(o, "Preempted") if evicted["reason"] == "Preempted" else None
                self.evicted.setdefault(name, []).append(evicted["reason"] + ("/" + why["reason"] if why else ""))
                self.told |= {(name, "EvictedDueTo" + evicted["reason"])} | ({(name, "Preempted")} if why else set())
        if held and not is_true(o, "Finished"):
            self.release(o, evicted)

    def release(self, o, evicted):
        """the job has stopped: its quota is free"""
        try:
            release(self.kube, o, evicted)
        except ApiException as e:
            self.troubles.append(f"{o['metadata']['name']}: its quota could not be released: {e.status} {e.body}")

    # --- steps ---

    def prepare(self):
        queues = []
        for o in self.scenario["objects"]:
            plural, local = PLURALS[o["kind"]], o["kind"] == "LocalQueue"
            name = o["metadata"]["name"] if local else self.full(o["metadata"]["name"])
            self.kube.create(plural, {"kind": o["kind"], "metadata": {"name": name}, "spec": self.prefixed(o["spec"])}, self.ns if local else None)
            if local or o["kind"] == "ClusterQueue":
                queues.append((plural, name, self.ns if local else None))
        for plural, name, ns in queues:
            until(lambda: is_true(self.kube.get(plural, name, ns), "Active"), f"{plural} {name} active")

    def step(self, s):
        (op, arg), = s.items()
        if op == "create":
            self.kube.create("workloads", {"kind": "Workload", "metadata": {"name": arg["metadata"]["name"]}, "spec": arg["spec"]}, self.ns)
        elif op == "patch":
            assert arg["kind"] == "ClusterQueue", s
            self.kube.merge("clusterqueues", self.full(arg["name"]), {"spec": self.prefixed(arg["spec"])})
        elif arg not in self.gone:
            o = self.kube.get("workloads", arg, self.ns)
            if op == "delete":
                self.kube.delete("workloads", arg, self.ns)
            elif op == "deactivate" and not is_true(o, "Finished"):
                self.kube.merge("workloads", arg, {"spec": {"active": False}}, self.ns)
            elif op == "finish" and is_true(o, "Admitted") and not is_true(o, "Finished"):
                finish(self.kube, o)

    # --- outcome ---

    def outcome(self):
        out = {n: {"state": "Gone"} for n in self.gone}
        for name, o in self.now.items():
            finished, active = is_true(o, "Finished"), o["spec"].get("active", True)
            w = out[name] = {"state": "Finished" if finished else "Inactive" if not active else "Admitted" if is_true(o, "Admitted") else "Reserved" if is_true(o, "QuotaReserved") else "Pending"}
            admission = o.get("status", {}).get("admission")
            if admission and active and not finished:
                w["podSets"] = {a["name"]: {"count": a["count"], "flavors": {r: self.plain(f) for r, f in a.get("flavors", {}).items()}} for a in admission["podSetAssignments"]}
        for name, reasons in self.evicted.items():
            out[name]["evicted"] = sorted(reasons)
        return out

    def await_outcome(self, want):
        """until nothing changes any more, and it is what was recorded -> the difference, '' when there is none"""
        want = {n: {**w, **({"evicted": sorted(w["evicted"])} if w.get("evicted") else {})} for n, w in want.items()}
        end = time.monotonic() + PATIENCE
        while True:
            with self.lock:
                got, still = self.outcome(), time.monotonic() - self.changed
            if got == want and still >= QUIET:
                return ""
            if time.monotonic() > end:
                return "; ".join(f"{n}: expected {want.get(n)}, got {got.get(n)}" for n in sorted(want.keys() | got.keys()) if want.get(n) != got.get(n)) or "it does not come to rest"
            time.sleep(0.05)

    def play(self):
        """-> what differs from the record, '' when nothing does"""
        try:
            self.prepare()
            self.start()
            for k, (s, want) in enumerate(zip(self.scenario["steps"], self.scenario["expect"], strict=True)):
                with self.lock:
                    self.evicted, self.changed = {}, time.monotonic()
                begun = time.monotonic()
                self.step(s)
                d = self.await_outcome(want)
                if d or self.troubles or self.gaps:
                    return f"step {k} {json.dumps(s)[:200]}: {d} {self.troubles} {self.words()}" + " (the API server forgot some states)" * bool(self.gaps)
                time.sleep(max(0, begun + APART - time.monotonic()))
            return self.untold()
        finally:
            self.stop()

    def untold(self):
        """evictions without their Events -> what is missing, '' when nothing is"""
        end = time.monotonic() + PATIENCE
        while True:
            seen = {(e["regarding"]["name"], e["reason"]) for e in self.kube.events(self.ns)}
            missing = self.told - seen
            if any(r == "Preempted" for _, r in self.told) and not any(r == "PreemptedWorkload" for _, r in seen):
                missing = missing | {("whoever preempted", "PreemptedWorkload")}
            if not missing or time.monotonic() > end:
                return f"no events {sorted(missing)}, only {sorted(seen)}" if missing else ""
            time.sleep(0.2)

    def words(self):
        """what the waiting ones were told"""
        return {n: condition(o, "QuotaReserved")["message"] for n, o in self.now.items() if condition(o, "QuotaReserved") and not is_true(o, "QuotaReserved")}

    def clear(self):
        for o in self.kube.list("workloads", self.ns):
            with contextlib.suppress(*NET_ERRORS):
                self.kube.delete("workloads", o["metadata"]["name"], self.ns)
        with contextlib.suppress(*NET_ERRORS):
            self.kube.core.delete_namespace(self.ns)
        for o in reversed(self.scenario["objects"]):
            if o["kind"] != "LocalQueue":
                with contextlib.suppress(*NET_ERRORS):
                    self.kube.delete(PLURALS[o["kind"]], self.full(o["metadata"]["name"]))


def play_all(kube, file):
    for plural in (*PLURALS.values(), "workloads"):  # the API server begins anew with a kind whose conversion has just changed
        until(lambda: kube.list(plural) is not None, f"{plural} served")
    plays = [Play(kube, s) for s in load(file).values()]
    try:
        with concurrent.futures.ThreadPoolExecutor(len(plays)) as pool:
            return {p.scenario["name"]: f for p, f in [(p, pool.submit(p.play)) for p in plays]}
    finally:
        for p in plays:
            p.clear()


@pytest.fixture(scope="module")
def played(kube, one_manager):
    """plays a file's sample when the first of its scenarios asks -> {scenario: its future}"""
    done = {}

    def get(file):
        if file not in done:
            done[file] = {}  # one failure of the whole is enough
            done[file] = configured(file)
        assert done[file], "the sample could not be played before"
        return done[file]

    def configured(file):
        if file == "scenarios":
            return play_all(kube, file)
        usual = one_manager.config
        try:
            one_manager.stop()
            one_manager.config = managers.merge(usual, FAIR)
            one_manager.start()
            return play_all(kube, file)
        finally:
            one_manager.config = usual
            if one_manager.running():
                one_manager.stop()
            one_manager.start()
    return get


@pytest.mark.parametrize("file, name", [pytest.param(f, n, id=f"{n} {why}") for f, names in SAMPLE.items() for n, why in names.items()])
def test_decisions(played, manager, file, name):
    difference = played(file)[name].result()
    assert not difference, difference


@pytest.mark.parametrize("file", SAMPLE)
def test_the_sample_is_what_it_says(file):
    sample = load(file)
    assert set(sample) == set(SAMPLE[file])
    assert all(s["stable"] for s in sample.values()), "only a stable record can be compared with"
    assert {s["theme"] for s in sample.values()} == THEMES[file]
    assert all(SAMPLE[file][n].startswith(s["theme"] + ":") for n, s in sample.items())
