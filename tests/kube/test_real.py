#!/usr/bin/env python3
"""The client against a real control plane (tests/cluster): what it reads, writes and survives there.

  test_real.py PROBE      PROBE is the kube_probe program. Needs root and what tests/cluster needs; about a minute.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster"))

import cluster as control  # noqa: E402

PROBE = None
CONTROL = None


class Probe:
    """a client; its lines are collected as they come"""

    def __init__(self):
        self.err = tempfile.TemporaryFile("w+")
        self.p = subprocess.Popen([PROBE, CONTROL.kubeconfig], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.err, text=True)
        self.lines, self.tag = [], 0
        self.reader = threading.Thread(target=self.read)
        self.reader.start()
        self.wait(lambda ls: "READY" in ls, "ready")

    def read(self):
        for line in self.p.stdout:
            self.lines.append(line.rstrip("\n"))

    def say(self, text):
        self.p.stdin.write(text + "\n")
        self.p.stdin.flush()

    def wait(self, check, what, seconds=90):
        end = time.monotonic() + seconds
        while not check(self.lines):
            if time.monotonic() > end:
                raise AssertionError(f"after {seconds} s still not: {what}; last lines: {self.lines[-10:]}")
            time.sleep(0.02)

    def sees(self, line_start, count=1, seconds=90):
        self.wait(lambda ls: sum(x.startswith(line_start) for x in ls) >= count, line_start, seconds)

    def send(self, verb, resource, name=None, body=None, sub=None, manager=None, ns="default"):
        """queues a request; returns its tag"""
        self.tag += 1
        self.say(f"{verb} t{self.tag} {resource} {ns} {name or '-'} {sub or '-'} {manager or '-'} {json.dumps(body) if body is not None else '-'}")
        return f"t{self.tag}"

    def ask(self, *args, **kw):
        """status, unknown, name, resourceVersion, text of one request"""
        tag = self.send(*args, **kw)
        self.sees(f"REPLY {tag} ")
        w = next(x for x in self.lines if x.startswith(f"REPLY {tag} ")).split(" ", 7)
        return int(w[3]), w[4] == "1", w[5], w[6], w[7]

    def close(self):
        self.p.send_signal(signal.SIGCONT)
        self.say("quit")
        self.reader.join()
        code = self.p.wait()
        self.err.seek(0)
        log = self.err.read()
        for f in (self.p.stdin, self.p.stdout, self.err):
            f.close()
        assert code == 0, log
        assert not any(x.startswith("BAD") for x in self.lines)


def config(name, v="1", **meta):
    return {"metadata": {"name": name, **meta}, "data": {"v": v}}


class Real(unittest.TestCase):
    def probe(self):
        p = Probe()
        self.addCleanup(p.close)
        return p

    def test_lists_in_pages_and_follows(self):
        a = self.probe()
        for i in range(1100):  # three pages
            a.send("create", "configmaps", body=config(f"page-{i}"))
        a.sees("REPLY", 1100)
        self.assertEqual([x for x in a.lines if x.startswith("REPLY") and x.split()[3] != "201"], [])
        b = self.probe()
        b.say("watch configmaps")
        b.say("watchmeta configmaps")
        b.say("watchopt things")
        b.sees("SYNCED configmaps", 2)
        b.sees("SYNCED things")
        self.assertEqual(len({x.split()[2] for x in b.lines if "/page-" in x}), 1100)
        self.assertEqual(sum("/page-" in x and x.endswith(" 1") for x in b.lines), 1100)  # the other watch shows no data
        self.assertEqual(a.ask("merge", "configmaps", "page-7", {"data": {"v": "2"}})[0], 200)
        b.wait(lambda ls: any("/page-7 " in x and x.endswith(" 2") for x in ls), "the change")
        self.assertEqual(a.ask("delete", "configmaps", "page-7")[0], 200)
        b.sees("GONE configmaps default/page-7 ", 2)

    def test_writes_and_refusals(self):
        a = self.probe()
        status, _, name, rv, _ = a.ask("create", "configmaps", body=config("w"))
        self.assertEqual((status, name), (201, "w"))
        self.assertEqual(a.ask("create", "configmaps", body=config("w"))[0], 409)
        self.assertEqual(a.ask("merge", "configmaps", "w", {"metadata": {"resourceVersion": rv}, "data": {"v": "2"}})[0], 200)
        status, unknown, _, _, text = a.ask("merge", "configmaps", "w", {"metadata": {"resourceVersion": rv}, "data": {"v": "3"}})
        self.assertEqual((status, unknown), (409, False))
        self.assertIn("modified", text)
        self.assertEqual(a.ask("update", "configmaps", "w", config("w", "4", resourceVersion=rv))[0], 409)
        self.assertEqual(a.ask("json", "configmaps", "w", [{"op": "replace", "path": "/data/v", "value": "5"}])[0], 200)
        self.assertEqual(a.ask("apply", "configmaps", "w", {"data": {"x": "1"}}, manager="one")[0], 200)
        self.assertEqual(a.ask("apply", "configmaps", "new", {"data": {"v": "1"}}, manager="one")[0], 201)
        self.assertEqual(a.ask("get", "configmaps", "none")[0], 404)
        self.assertEqual(a.ask("delete", "configmaps", "w", {"preconditions": {"uid": "other"}})[0], 409)
        self.assertEqual(a.ask("create", "configmaps", body=config("Not A Name"))[0], 422)
        job = {"metadata": {"name": "j"}, "spec": {"suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}}}
        self.assertEqual(a.ask("create", "jobs", body=job)[0], 201)
        self.assertEqual(a.ask("merge", "jobs", "j", {"status": {"conditions": [{"type": "Seen", "status": "True"}]}}, sub="status")[0], 200)
        self.assertEqual(a.ask("merge", "jobs", "j", {"spec": {"completions": -1}})[0], 422)
        self.assertEqual(a.ask("delete", "jobs", "j", {"propagationPolicy": "Background"})[0], 200)

    def test_events_arrive(self):
        a = self.probe()
        a.say("watch events")
        a.sees("SYNCED events")
        a.say("event default about")
        a.sees("PUT events default/about.")

    def test_one_leader_at_a_time(self):
        a, b = self.probe(), self.probe()
        a.say("lease election a")
        a.sees("HELD 1")
        b.say("lease election b")
        b.sees("HELD 0")
        a.p.send_signal(signal.SIGSTOP)
        b.sees("HELD 1")  # a is silent for the time it claimed
        a.p.send_signal(signal.SIGCONT)
        a.sees("HELD 0", 2)
        b.say("release")
        b.sees("HELD 0", 2)
        a.sees("HELD 1", 2)

    def test_nothing_is_missed_when_the_api_server_dies(self):
        a, b = self.probe(), self.probe()
        for name in ("kept", "dropped"):
            self.assertEqual(a.ask("create", "configmaps", body=config(name))[0], 201)
        b.say("watch configmaps")
        b.sees("SYNCED configmaps")
        b.p.send_signal(signal.SIGSTOP)
        self.assertEqual(a.ask("delete", "configmaps", "dropped")[0], 200)
        CONTROL.kill("kube-apiserver", signal.SIGKILL)
        under_way = [a.send("apply", "configmaps", f"during-{i}", {"data": {"v": "1"}}, manager="one") for i in range(20)]
        CONTROL.start("kube-apiserver")
        CONTROL.wait_ready()
        b.p.send_signal(signal.SIGCONT)
        b.sees("GONE configmaps default/dropped ")
        for tag in under_way:
            a.sees(f"REPLY {tag} 0 201")
        for i in range(20):
            b.sees(f"PUT configmaps default/during-{i} ")
        self.assertFalse(any("GONE configmaps default/kept" in x for x in b.lines))


if __name__ == "__main__":
    PROBE = os.path.abspath(sys.argv.pop(1))
    CONTROL = control.Cluster(f"kube-{os.getpid()}").up()
    try:
        CONTROL.enter()
        passed = unittest.main(verbosity=2, exit=False).result.wasSuccessful()
    finally:
        CONTROL.down()
    sys.exit(0 if passed else 1)
