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
SCRAPER = "scraper"  # may read metrics
PORTS = ("webhook", "health", "metrics")  # names of the Deployment's ports


def merge(a, b):
    """b over a: maps merged, None removes"""
    if not (isinstance(a, dict) and isinstance(b, dict)):
        return copy.deepcopy(b)
    out = {k: v for k, v in a.items() if not (k in b and b[k] is None)}
    for k, v in b.items():
        if v is not None:
            out[k] = merge(out.get(k), v)
    return out


def render(*values):
    """every object of the chart, as helm makes it, definitions included"""
    helm = control.programs("helm")["helm"]
    args = [a for v in values for a in ("--set", v)]
    text = control.run(helm, "template", "sluice", CHART, "--namespace", NAMESPACE, *args, env=control.clean_env())
    return [d for d in yaml.safe_load_all(text) if d]


class Installation:
    """What the chart puts into a cluster, with Services that lead to replicas outside of pods."""

    def __init__(self, cluster, *values):
        self.cluster, self.replicas, self.sliced, self.tokens = cluster, [], set(), {}
        rendered = render(*values)
        self.crds = [o for o in rendered if o["kind"] == "CustomResourceDefinition"]
        self.objects = [o for o in rendered if o["kind"] != "CustomResourceDefinition"]
        self.pod = next(o for o in rendered if o["kind"] == "Deployment")["spec"]["template"]["spec"]
        self.container = next(c for c in self.pod["containers"] if c["name"] == "manager")
        self.ports = {p["name"]: p["containerPort"] for p in self.container["ports"]}
        self.account = self.pod.get("serviceAccountName", "default")
        self.services = [o for o in rendered if o["kind"] == "Service"]
        self.config = yaml.safe_load(next(v for o in rendered if o["kind"] == "ConfigMap" for v in o.get("data", {}).values() if "kind: Configuration" in v))

    def install(self):
        c = self.cluster
        c.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        c.apply(*self.crds)
        c.kubectl("wait", "--for=condition=Established", "--timeout=60s", *("crd/" + d["metadata"]["name"] for d in self.crds))
        known = {line.split()[-3] for line in c.kubectl("api-resources", "--no-headers").stdout.splitlines()}  # API versions that are served
        rest = []
        for o in copy.deepcopy(self.objects):
            if o["kind"] == "Deployment" or o["apiVersion"] not in known or "helm.sh/hook" in o["metadata"].get("annotations", {}):
                continue
            if o["kind"] == "Service":
                o["spec"].pop("selector", None)
            rest.append(o)
        c.apply(*rest)
        reader = next(o["metadata"]["name"] for o in self.objects if o["kind"] == "ClusterRole" and o["metadata"]["name"].endswith("-metrics-reader"))
        c.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": SCRAPER, "namespace": NAMESPACE}},
                {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": SCRAPER},
                 "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": reader}, "subjects": [{"kind": "ServiceAccount", "name": SCRAPER, "namespace": NAMESPACE}]})
        self.endpoints()
        return self

    def endpoints(self):
        """the Services lead to the replicas that have joined"""
        slices = {}
        for s in self.services:
            for m in self.replicas:
                name = f"{s['metadata']['name']}-{m.name}"
                slices[name] = {
                    "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                    "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": s["metadata"]["name"], "endpointslice.kubernetes.io/managed-by": "sluice-tests"}},
                    "endpoints": [{"addresses": [m.address], "conditions": {"ready": True, "serving": True, "terminating": False}}],
                    "ports": [{"name": p["name"], "port": m.ports[p["targetPort"]], "protocol": "TCP"} for p in s["spec"]["ports"]]}
        if slices:
            self.cluster.apply(*slices.values())
        for gone in self.sliced - set(slices):
            self.cluster.kubectl("-n", NAMESPACE, "delete", "endpointslice", gone, "--ignore-not-found")
        self.sliced = set(slices)


class Manager:
    """One replica, with the arguments of the chart's Deployment, at an address and ports of its own."""

    def __init__(self, installation, index=0, config=None, args=(), server=None, env=None):
        self.inst, self.cluster, self.index = installation, installation.cluster, index
        self.name, self.address = f"manager{index}", f"10.9.0.{11 + index}"
        self.ports = {n: p + 10 * index for n, p in installation.ports.items()}
        self.args, self.env, self.server = list(args), env or {}, server
        self.dir = os.path.join(self.cluster.dir, self.name)
        self.log = os.path.join(self.cluster.dir, "log", self.name + ".log")
        self.config_file = os.path.join(self.dir, "config.yaml")
        self.config = merge(installation.config, {
            "health": {"healthProbeBindAddress": f"{self.address}:{self.ports['health']}"}, "metrics": {"bindAddress": f"{self.address}:{self.ports['metrics']}"},
            "webhook": {"host": self.address, "port": self.ports["webhook"]}})
        self.config = merge(self.config, config or {})

    def environment(self):
        return {"POD_NAME": self.name, "POD_NAMESPACE": NAMESPACE, **self.env}

    def command(self):
        """what starts it: with the account's own rights, nothing more"""
        os.makedirs(os.path.join(self.dir, "data"), mode=0o700, exist_ok=True)
        with open(self.config_file, "w") as f:
            yaml.safe_dump(self.config, f)
        ours = {"--config": self.config_file, "--data-dir": os.path.join(self.dir, "data"), "--namespace": NAMESPACE,
                **{f"--{n}-port": str(p) for n, p in self.ports.items()}}
        args = []
        for a in self.inst.container["args"]:
            flag, eq, _ = a.partition("=")
            args.append(f"{flag}={ours[flag]}" if eq and flag in ours else a)
        # one name over all restarts, as a container's that starts again in its pod: the lease is still its own
        return [BINARY, *args, "--identity=" + self.name, "--drain=1s", "--kubeconfig=" + self.cluster.service_account(NAMESPACE, self.inst.account, server=self.server), *self.args]

    def address_up(self):
        with contextlib.suppress(control.Error):  # it may be there already
            control.run(*self.cluster.command("ip", "addr", "add", self.address + "/24", "dev", "node0"))

    def start(self, wait=True):
        if not os.access(BINARY, os.X_OK):
            raise control.Error(f"there is no {BINARY}: build first (./dev build), or set SLUICE_BINARY")
        if self.running():
            raise control.Error(f"{self.name} runs already")
        self.address_up()
        self.cluster.spawn(self.name, self.command(), log=self.log, env=self.environment())
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
            got = self.http(self.ports["health"], "/readyz")
            if got[0] == 200:
                return self
            if not self.running():
                raise control.Error(f"{self.name} ended at start: {self.tail()}")
            if time.monotonic() > until:
                raise control.Error(f"{self.name} not ready in {seconds} s ({got}): {self.tail()}")
            time.sleep(0.05)

    def metrics(self):
        """/metrics -> {'name{labels}': value}"""
        status, text = self.scrape(SCRAPER)
        if status != 200:
            raise control.Error(f"{self.name}: no metrics: {status} {text[:300]}")
        return {k: float(v) for k, v in (line.rsplit(None, 1) for line in text.splitlines() if line and not line.startswith("#"))}

    def scrape(self, account=None):
        """/metrics as a service account of the manager's namespace asks for it, or nobody -> (status, text)"""
        if account and account not in self.inst.tokens:
            self.inst.tokens[account] = self.cluster.kubectl("-n", NAMESPACE, "create", "token", account, "--duration=6h").stdout.strip()
        token = self.inst.tokens.get(account)
        return self.http(self.ports["metrics"], "/metrics", True, {"Authorization": "Bearer " + token} if token else {})

    def memory(self):
        return self.cluster.memory(self.name)

    def peak_memory(self):
        return self.cluster.memory(self.name, "VmHWM")

    def cpu_seconds(self):
        return self.cluster.cpu_seconds(self.name)

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
    m.address_up()
    m.join()
    argv = c.command(*argv)
    print(" ".join(argv), file=sys.stderr, flush=True)
    os.execvpe(argv[0], argv, {**control.clean_env(), **m.environment()})


if __name__ == "__main__":
    try:
        main()
    except control.Error as e:
        sys.exit(f"manager: {e}")
