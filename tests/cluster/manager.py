"""Sluice's manager beside a test cluster: install what the chart installs, start, kill and restart replicas.

By hand, with a cluster that `cluster.py up --name X` started:

  VENV=$(tests/cluster/tools/venv)
  $VENV tests/cluster/manager.py install --name X                 CRDs, RBAC, webhooks: everything of the chart but the pods
  $VENV tests/cluster/manager.py run --name X                     one replica in the foreground, log on the terminal

The webhook Service has no pods behind it here: an EndpointSlice that this module keeps points at the replicas that run, so
registration, server name and certificates are those of a real installation.
"""
import argparse
import contextlib
import copy
import glob
import http.client
import json
import os
import shutil
import signal
import ssl
import sys
import time

import yaml

import cluster as control

BINARY = os.environ.get("SLUICE_BINARY") or os.path.join(control.REPO, "build", "sluice")
CHART = os.path.join(control.REPO, "charts", "sluice")
NAMESPACE = "sluice-system"
WEBHOOK_PORT, HEALTH_PORT, METRICS_PORT, VISIBILITY_PORT = 9443, 8081, 8443, 8082
CONFIGS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def merge(a, b):
    """b over a: maps merged, None removes"""
    if not (isinstance(a, dict) and isinstance(b, dict)):
        return copy.deepcopy(b)
    out = {k: v for k, v in a.items() if not (k in b and b[k] is None)}
    for k, v in b.items():
        if v is not None:
            out[k] = merge(out.get(k), v)
    return out


def crds():
    out = []
    for f in sorted(glob.glob(os.path.join(CHART, "crds", "*.yaml"))):
        with open(f) as s:
            out += [d for d in yaml.safe_load_all(s) if d]
    if not out:
        raise control.Error(f"no custom resource definitions in {CHART}/crds")
    return out


def render(*values):
    """every object of the chart, as helm makes it"""
    helm = control.programs("helm")["helm"]
    args = [a for v in values for a in ("--set", v)]
    text = control.run(helm, "template", "sluice", CHART, "--namespace", NAMESPACE, *args, env=control.clean_env())
    return [d for d in yaml.safe_load_all(text) if d]


class Installation:
    """What the chart puts into a cluster, with Services that lead to replicas outside of pods."""

    def __init__(self, cluster, *values):
        self.cluster, self.replicas = cluster, []
        self.objects, self.crds = render(*values), crds()
        deployment = next(o for o in self.objects if o["kind"] == "Deployment")
        self.account = deployment["spec"]["template"]["spec"].get("serviceAccountName", "default")
        self.services = [o for o in self.objects if o["kind"] == "Service"]
        config = [o for o in self.objects if o["kind"] == "ConfigMap" and any("kind: Configuration" in v for v in o.get("data", {}).values())]
        self.config = yaml.safe_load(next(v for v in config[0]["data"].values() if "kind: Configuration" in v)) if config else {}

    def install(self):
        c = self.cluster
        c.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        c.apply(*self.crds)
        c.kubectl("wait", "--for=condition=Established", "--timeout=60s", *("crd/" + d["metadata"]["name"] for d in self.crds))
        known = set(c.kubectl("api-resources", "--no-headers", "-o", "name").stdout.split())
        for o in self.objects:
            o = copy.deepcopy(o)
            kind, group = o["kind"], o["apiVersion"].rpartition("/")[0]
            if kind in ("Deployment", "Pod", "Job", "APIService") or group == "monitoring.coreos.com" or "test" in o["metadata"].get("annotations", {}).get("helm.sh/hook", ""):
                continue
            if group and "." in group and not group.endswith(".k8s.io") and not any(k.endswith("." + group) for k in known):
                continue  # kinds of an operator that is not here
            if kind == "Service":
                o["spec"].pop("selector", None)
            c.apply(o)
        self.endpoints()
        return self

    def endpoints(self):
        """the Services lead to the replicas that run"""
        for s in self.services:
            ports = []
            for p in s["spec"]["ports"]:
                number = p.get("targetPort", p["port"])
                if not isinstance(number, int):
                    number = self.named_port(number)
                ports.append({"name": p.get("name", ""), "port": number, "protocol": "TCP"})
            self.cluster.apply({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                "metadata": {"name": s["metadata"]["name"] + "-replicas", "namespace": s["metadata"].get("namespace", NAMESPACE),
                             "labels": {"kubernetes.io/service-name": s["metadata"]["name"], "endpointslice.kubernetes.io/managed-by": "sluice-tests"}},
                "endpoints": [{"addresses": [m.address], "conditions": {"ready": True, "serving": True, "terminating": False}} for m in self.replicas],
                "ports": ports})

    def named_port(self, name):
        for o in self.objects:
            if o["kind"] == "Deployment":
                for c in o["spec"]["template"]["spec"]["containers"]:
                    for p in c.get("ports", []):
                        if p.get("name") == name:
                            return p["containerPort"]
        raise control.Error(f"the chart's Service asks for port {name!r}, which its Deployment does not have")


class Manager:
    """One replica. Its addresses are its own (10.9.0.11 and on), its ports those of the chart."""

    def __init__(self, installation, index=0, config=None, args=(), server=None, env=None):
        self.inst, self.cluster, self.index = installation, installation.cluster, index
        self.name, self.address = f"manager{index}", f"10.9.0.{11 + index}"
        self.args, self.env, self.server = list(args), env or {}, server
        self.dir = os.path.join(self.cluster.dir, self.name)
        self.log = os.path.join(self.cluster.dir, "log", self.name + ".log")
        self.config_file = os.path.join(self.dir, "config.yaml")
        self.config = merge(merge({
            "apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", "namespace": NAMESPACE}, installation.config), {
            "health": {"healthProbeBindAddress": f"{self.address}:{HEALTH_PORT}"}, "metrics": {"bindAddress": f"{self.address}:{METRICS_PORT}"},
            "webhook": {"host": self.address, "port": WEBHOOK_PORT}, "visibilityServer": {"bindAddress": self.address, "bindPort": VISIBILITY_PORT}})
        self.config = merge(self.config, config or {})

    def command(self):
        """what starts it: the account's own rights, nothing more"""
        os.makedirs(os.path.join(self.dir, "data"), mode=0o700, exist_ok=True)
        with open(self.config_file, "w") as f:
            yaml.safe_dump(self.config, f)
        kubeconfig = self.cluster.service_account(NAMESPACE, self.inst.account, server=self.server)
        return [BINARY, "manager", "--kubeconfig", kubeconfig, "--config", self.config_file, *self.args]

    def start(self, wait=True):
        if not os.access(BINARY, os.X_OK):
            raise control.Error(f"there is no {BINARY}: build first (./dev build), or set SLUICE_BINARY")
        if self.running():
            raise control.Error(f"{self.name} runs already")
        with contextlib.suppress(control.Error):
            control.run("ip", "-n", self.cluster.netns, "addr", "add", self.address + "/24", "dev", "node0")
        self.cluster.spawn(self.name, self.command(), log=self.log, env={"POD_NAME": self.name, "POD_NAMESPACE": NAMESPACE, "SLUICE_DATA": os.path.join(self.dir, "data"), **self.env})
        if wait:
            self.wait_ready()
        return self

    def running(self):
        return self.cluster.running(self.name)

    def join(self):
        """take part in the Services"""
        if self not in self.inst.replicas:
            self.inst.replicas.append(self)
        self.inst.endpoints()
        return self

    def part(self):
        if self in self.inst.replicas:
            self.inst.replicas.remove(self)
        self.inst.endpoints()

    def kill(self, sig=signal.SIGKILL):
        self.cluster.kill(self.name, sig)

    def stop(self):
        self.kill(signal.SIGTERM)

    def restart(self, sig=signal.SIGKILL):
        self.kill(sig)
        self.start()

    def http(self, port, path, tls=False, headers=None):
        """GET -> (status, text); status 0 and the reason when there is no answer"""
        with self.cluster.inside():
            try:
                ctx = ssl._create_unverified_context() if tls else None
                c = http.client.HTTPSConnection(self.address, port, timeout=10, context=ctx) if tls else http.client.HTTPConnection(self.address, port, timeout=10)
                with contextlib.closing(c):
                    c.request("GET", path, headers=headers or {})
                    r = c.getresponse()
                    return r.status, r.read().decode(errors="replace")
            except (OSError, http.client.HTTPException) as e:
                return 0, str(e)

    def wait_ready(self, seconds=60):
        until = time.monotonic() + seconds
        while True:
            got = self.http(HEALTH_PORT, "/readyz")
            if got[0] == 200:
                return self
            if not self.running():
                raise control.Error(f"{self.name} ended at start: {self.tail()}")
            if time.monotonic() > until:
                raise control.Error(f"{self.name} not ready in {seconds} s ({got}): {self.tail()}")
            time.sleep(0.05)

    def metrics(self):
        """/metrics -> {'name{labels}': value}"""
        token = self.cluster.kubectl("-n", NAMESPACE, "create", "token", self.inst.account).stdout.strip()
        for tls in (True, False):
            status, text = self.http(METRICS_PORT, "/metrics", tls, {"Authorization": "Bearer " + token})
            if status == 200:
                return {k: float(v) for k, v in (line.rsplit(None, 1) for line in text.splitlines() if line and not line.startswith("#"))}
        raise control.Error(f"{self.name}: no metrics: {status} {text[:300]}")

    def memory(self):
        return self.cluster.memory(self.name)

    def log_text(self):
        try:
            with open(self.log, errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def tail(self, lines=25):
        return "\n" + "\n".join(self.log_text().splitlines()[-lines:])


def main():
    ap = argparse.ArgumentParser(description="Sluice's manager beside a test cluster")
    ap.add_argument("what", choices=["install", "run"])
    ap.add_argument("--name", default="dev", help="the cluster")
    ap.add_argument("--index", type=int, default=0, help="which replica")
    ap.add_argument("--config", help="a configuration file, merged over the chart's")
    ap.add_argument("--fresh", action="store_true", help="forget the replica's data of earlier runs")
    ap.add_argument("args", nargs="*", help="more arguments for the manager, after --")
    a = ap.parse_args()
    c = control.Cluster.attach(a.name)
    inst = Installation(c)
    if a.what == "install":
        inst.install()
        print("installed; now: run")
        return
    config = {}
    if a.config:
        with open(a.config) as f:
            config = yaml.safe_load(f)
    m = Manager(inst, a.index, config, a.args)
    if a.fresh:
        shutil.rmtree(m.dir, ignore_errors=True)
    argv = m.command()
    with contextlib.suppress(control.Error):
        control.run("ip", "-n", c.netns, "addr", "add", m.address + "/24", "dev", "node0")
    m.join()
    argv = c.command(*argv)
    print(" ".join(argv), file=sys.stderr, flush=True)
    os.execvpe(argv[0], argv, {**control.clean_env(), "POD_NAME": m.name, "POD_NAMESPACE": NAMESPACE, "SLUICE_DATA": os.path.join(m.dir, "data")})


if __name__ == "__main__":
    try:
        main()
    except control.Error as e:
        sys.exit(f"manager: {e}")
