"""The recorded stories of tests/journeys, one test each; every configuration on a fresh control plane of its own."""
import json
import os
import subprocess
import sys

import pytest
import yaml

import cluster as control
import manager as managers
from support import until

FOLDER = os.path.join(control.REPO, "tests", "journeys")
KNOWN = os.path.join(FOLDER, "differences.yaml")
FILES = ("jobs.yaml", "queues.yaml", "invalid.yaml", "configured.yaml")  # pods.yaml and kinds.yaml come with those kinds
STORIES = {}


def load(name):
    with open(os.path.join(FOLDER, name)) as f:
        return [d for d in yaml.safe_load_all(f) if d]


LATER = {e["story"] for e in load("differences.yaml")[0]["later"] or []}
for d in (d for f in FILES for d in load(f)):
    if d["name"] not in LATER:
        STORIES.setdefault(d.get("config", "default"), []).append(d["name"])


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """plays a configuration once, when the first of its stories asks -> {story: {differences, faults}}"""
    played = {}

    def play(config):
        if config not in played:
            played[config] = None  # one failure is enough
            played[config] = run(config, tmp_path_factory.mktemp(config))
        assert played[config] is not None, "the player failed before"
        return played[config]
    return play


WARM = '{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": "warm", "namespace": "default"}, "spec": {"clusterQueue": "none"}}'


def warmed(c):
    """our kinds answer and are watched: the API server starts anew with them when the CA bundle has come into their definitions"""
    until(lambda: c.kubectl("apply", "-f", "-", stdin=WARM, check=False).returncode == 0, "a LocalQueue is taken", 60)
    until(lambda: "Active" in c.kubectl("-n", "default", "get", "localqueue", "warm", "-o", "jsonpath={.status.conditions}", check=False).stdout, "its status", 60)
    c.kubectl("-n", "default", "delete", "localqueue", "warm")


def run(config, folder):
    settings = load("configs.yaml")[0][config]
    with control.Cluster(f"j-{config}-{os.getpid()}", scheduler=False) as c:
        m = managers.Manager(managers.Installation(c).install(), config=settings).start().join()
        warmed(c)
        report = folder / "report.json"
        p = subprocess.run(c.command(sys.executable, os.path.join(FOLDER, "play.py"), "--kubeconfig", c.kubeconfig, "--config", config, "--known", KNOWN, "--report", str(report),
                                     "--check", os.path.join(FOLDER, "record", config + ".json"), *(os.path.join(FOLDER, f) for f in FILES)),
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=control.clean_env())
        print(p.stdout[-3000:])
        assert m.running(), f"the manager ended: {m.tail(60)}"
        assert report.exists(), f"the player failed: {p.stdout[-3000:]}"
        keep = os.environ.get("SLUICE_JOURNEY_REPORTS")
        if keep:
            os.makedirs(keep, exist_ok=True)
            for name, text in ((f"{config}.json", report.read_text()), (f"{config}.log", m.log_text())):
                with open(os.path.join(keep, name), "w") as f:
                    f.write(text)
        return json.loads(report.read_text())


@pytest.mark.parametrize("config, story", [pytest.param(c, s, id=f"{c}: {s}") for c, ss in STORIES.items() for s in ss])
def test_journey(outcome, config, story):
    faults = outcome(config)[story]["faults"]
    assert not faults, "\n".join(faults[:20])


def test_every_story_is_played_or_listed():
    recorded = {s for f in os.listdir(os.path.join(FOLDER, "record")) for s in json.load(open(os.path.join(FOLDER, "record", f))) if s != "(unstable)"}
    told = {d["name"] for f in (*FILES, "pods.yaml", "kinds.yaml") for d in load(f)}
    assert told == recorded
