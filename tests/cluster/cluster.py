#!/usr/bin/env python3
"""A real Kubernetes control plane for the tests, in a network namespace of its own.

As a library: Cluster(name).up() ... .down(). By hand:

  python3 tests/cluster/cluster.py up --name X      start one that stays; prints its kubeconfig and how to get inside
  python3 tests/cluster/cluster.py down --name X    stop it and remove what it left
  python3 tests/cluster/cluster.py restart --name X kube-apiserver
  python3 tests/cluster/cluster.py list

Needs root (network namespaces), the programs that tools/build makes, iproute2, util-linux and openssl. Standard library only.
"""
import argparse
import atexit
import base64
import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
REPO = os.path.dirname(os.path.dirname(HERE))
NODE_IP, GATEWAY, SERVICE_IP = "10.9.0.1", "10.9.0.2", "10.96.0.1"
NETNS = "/run/netns"
CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


class Error(Exception):
    """something a person has to know; shown without a stack trace"""


def state_root():
    return os.path.join(os.environ.get("SLUICE_CLUSTERS") or os.path.join(tempfile.gettempdir(), "sluice-clusters"))


def run(*argv, **kw):
    p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kw)
    if p.returncode:
        raise Error(f"{' '.join(argv)}: exit {p.returncode}: {p.stdout.strip()[-2000:]}")
    return p.stdout


def programs(*names):
    """paths of the programs, built when they are missing (the first time takes about 12 minutes)"""
    build = os.path.join(HERE, "tools", "build")
    paths = {n: run(build, "--path", n).strip() for n in names}
    if not all(os.access(p, os.X_OK) for p in paths.values()):
        if subprocess.run([build, *names], stdout=sys.stderr).returncode:
            raise Error("the control plane's programs could not be built (messages above)")
    return paths


def clean_env():
    """no proxy can be meant for what lives in the namespace"""
    return {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}


def born(pid):
    """when a process started, in ticks: with its pid its identity; None when there is none (or only its corpse)"""
    try:
        with open(f"/proc/{pid}/stat") as f:
            rest = f.read().rpartition(")")[2].split()
        return None if rest[0] in "ZX" else int(rest[19])
    except (OSError, IndexError):
        return None


def alive(ident):
    return bool(ident) and ident[1] is not None and born(ident[0]) == ident[1]


def end(ident, sig=signal.SIGTERM, wait=10.0):
    """end one process that is known by pid and birth; kill it when it does not listen"""
    if not alive(ident):
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(ident[0], sig)
    until = time.monotonic() + wait
    while alive(ident) and time.monotonic() < until:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(ident[0], os.WNOHANG)
        time.sleep(0.02)
    if alive(ident):
        with contextlib.suppress(ProcessLookupError):
            os.kill(ident[0], signal.SIGKILL)
        while alive(ident):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(ident[0], os.WNOHANG)
            time.sleep(0.02)


def setns(fd):
    if libc.setns(fd, CLONE_NEWNET):
        raise Error(f"cannot enter the network namespace: {os.strerror(ctypes.get_errno())}")


def base64_of(file):
    with open(file, "rb") as f:
        return base64.b64encode(f.read()).decode()


class Pki:
    """One CA and what it signed, made with the openssl tool."""

    def __init__(self, folder):
        self.dir = folder

    def path(self, name):
        return os.path.join(self.dir, name)

    def key(self, name):
        if not os.path.exists(self.path(name + ".key")):
            run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self.path(name + ".key"))
            os.chmod(self.path(name + ".key"), 0o600)
        return self.path(name + ".key")

    def ca(self):
        run("openssl", "req", "-x509", "-new", "-key", self.key("ca"), "-sha256", "-days", "30", "-subj", "/CN=sluice-test-ca", "-out", self.path("ca.crt"))

    def cert(self, name, cn, groups=(), sans=()):
        """a certificate for servers and clients -> (certificate, key)"""
        crt, key = self.path(name + ".crt"), self.key(name)
        if not os.path.exists(crt):
            subject = "".join("/O=" + g for g in groups) + "/CN=" + cn
            ext = "basicConstraints=CA:FALSE\nkeyUsage=digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n"
            if sans:
                ext += "subjectAltName=" + ",".join(sans) + "\n"
            with open(self.path(name + ".ext"), "w") as f:
                f.write(ext)
            run("openssl", "req", "-new", "-key", key, "-subj", subject, "-out", self.path(name + ".csr"))
            run("openssl", "x509", "-req", "-in", self.path(name + ".csr"), "-CA", self.path("ca.crt"), "-CAkey", self.path("ca.key"), "-CAcreateserial",
                "-sha256", "-days", "30", "-extfile", self.path(name + ".ext"), "-out", crt)
        return crt, key


class Cluster:
    """etcd, kube-apiserver, and as wanted kube-controller-manager and kube-scheduler."""

    PORT = 443
    SERVER = f"https://127.0.0.1:{PORT}"

    def __init__(self, name, *, scheduler=True, controllers=True, audit=False, durable=False, stay=False):
        if not name.replace("-", "").isalnum() or len(name) > 40:
            raise Error(f"cluster name {name!r}: letters, digits and dashes, at most 40")
        self.name, self.netns = name, "sluice-" + name
        self.dir = os.path.join(state_root(), name)
        self.with_scheduler, self.with_controllers, self.audit, self.durable, self.stay = scheduler, controllers, audit, durable, stay
        self.pki = Pki(os.path.join(self.dir, "pki"))
        self.kubeconfig = os.path.join(self.dir, "kubeconfig")
        self.audit_log = os.path.join(self.dir, "log", "audit.log")
        self.bin, self.procs, self.home = {}, {}, None

    # --- life ---

    def up(self):
        if os.geteuid() != 0:
            raise Error("a control plane needs root, for its network namespace (try sudo)")
        for tool in ("ip", "nsenter", "openssl"):
            if not shutil.which(tool):
                raise Error(f"the program {tool} is missing (Debian: apt-get install iproute2 util-linux openssl)")
        wanted = ["etcd", "kube-apiserver", "kubectl"] + ["kube-controller-manager"] * self.with_controllers + ["kube-scheduler"] * self.with_scheduler
        self.bin = programs(*wanted)
        reap()
        if os.path.exists(self.dir):
            m = self._read("meta.json")
            if m and (m["owner"] is None and any(alive(p) for p in self._pids().values()) or alive(m["owner"])):
                raise Error(f"a cluster named {self.name} is running already (down --name {self.name} stops it)")
            self.down()
        try:
            self._up()
        except BaseException:
            self.down(keep_logs=True)
            raise
        return self

    def _up(self):
        for d in ("pki", "pids", "log", "etcd"):
            os.makedirs(os.path.join(self.dir, d), mode=0o700)
        owner = None if self.stay else [os.getpid(), born(os.getpid())]
        self._write("meta.json", {"owner": owner, "scheduler": self.with_scheduler, "controllers": self.with_controllers, "audit": self.audit,
                                  "durable": self.durable, "bin": self.bin})
        if owner:
            atexit.register(self.down)
            for s in (signal.SIGTERM, signal.SIGHUP):
                if threading.current_thread() is threading.main_thread() and signal.getsignal(s) == signal.SIG_DFL:
                    signal.signal(s, signal.default_int_handler)  # as an interrupt: everybody in between cleans up
            # should this process be killed, somebody has to clean up all the same
            subprocess.Popen([sys.executable, os.path.abspath(__file__), "guard", "--name", self.name], start_new_session=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._network()
        self._certificates()
        self.start("etcd")
        self.start("kube-apiserver")
        self.wait_ready()
        if self.with_controllers:
            self.start("kube-controller-manager")
        if self.with_scheduler:
            self.start("kube-scheduler")
        for c in ("kube-controller-manager",) * self.with_controllers + ("kube-scheduler",) * self.with_scheduler:
            self.wait_healthy(c)

    def down(self, keep_logs=False):
        """stop everything of this cluster and remove its traces; harmless when there is nothing"""
        if os.path.isdir(os.path.join(self.dir, "nodes")):
            sys.path.append(os.path.join(REPO, "tests", "node"))
            import node
            node.clean(self)
        pids = self._pids()
        for name in sorted(pids, key=lambda n: (n == "etcd", n == "kube-apiserver")):  # etcd last
            end(pids[name], wait=3.0)
        mine, p = set(), os.getpid()
        while p > 1:  # this process, and those it runs under, may themselves be inside
            mine.add(p)
            with open(f"/proc/{p}/stat") as f:
                p = int(f.read().rpartition(")")[2].split()[1])
        if os.path.exists(os.path.join(NETNS, self.netns)):
            for pid in map(int, run("ip", "netns", "pids", self.netns).split()):
                if pid not in mine:
                    end([pid, born(pid)], wait=3.0)
            self.leave()
            run("ip", "netns", "del", self.netns)
        self.procs = {}
        if os.path.isdir(self.dir):
            kept = os.environ.get("SLUICE_KEEP_LOGS") or (self.dir + ".log" if keep_logs else None)
            if kept and os.path.isdir(os.path.join(self.dir, "log")):
                shutil.copytree(os.path.join(self.dir, "log"), kept if keep_logs else os.path.join(kept, self.name), dirs_exist_ok=True)
                print(f"cluster {self.name}: logs kept in {kept}", file=sys.stderr)
            shutil.rmtree(self.dir, ignore_errors=True)
        atexit.unregister(self.down)

    @classmethod
    def attach(cls, name):
        """one that runs already, started with stay"""
        c = cls(name)
        m = c._read("meta.json")
        if not m:
            raise Error(f"there is no cluster named {name}")
        c.with_scheduler, c.with_controllers, c.audit, c.durable, c.bin = m["scheduler"], m["controllers"], m["audit"], m["durable"], m["bin"]
        c.stay = True
        return c

    def __enter__(self):
        return self.up()

    def __exit__(self, *exc):
        self.down()

    # --- the namespace ---

    def _network(self):
        run("ip", "netns", "add", self.netns)
        for cmd in ("link set lo up", "link add node0 type veth peer name node1", f"addr add {NODE_IP}/24 dev node0", "link set node0 up", "link set node1 up",
                    f"route add default via {GATEWAY}", f"addr add {SERVICE_IP}/32 dev lo"):
            run(*self.command("ip", *cmd.split()))

    def enter(self):
        """this thread, and those it starts from now on, live in the cluster's network; leave() ends it"""
        if self.home is None:
            self.home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        fd = os.open(os.path.join(NETNS, self.netns), os.O_RDONLY)
        try:
            setns(fd)
        finally:
            os.close(fd)

    def leave(self):
        if self.home is not None:
            setns(self.home)
            os.close(self.home)
            self.home = None

    @contextlib.contextmanager
    def inside(self):
        back = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        fd = os.open(os.path.join(NETNS, self.netns), os.O_RDONLY)
        try:
            setns(fd)
            yield self
        finally:
            setns(back)
            os.close(fd)
            os.close(back)

    def command(self, *argv):
        """argv, run inside"""
        return ["nsenter", f"--net={NETNS}/{self.netns}", *argv]

    def spawn(self, name, argv, *, log=None, env=None):
        """start a program inside, known by name from now on; its output goes to log/NAME.log"""
        log = log or os.path.join(self.dir, "log", name + ".log")
        with open(log, "ab") as out:
            p = subprocess.Popen(self.command(*argv), stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
                                 env={**clean_env(), **(env or {})})
        self.procs[name] = p
        self._write(os.path.join("pids", name), [p.pid, born(p.pid)])
        return p

    # --- components ---

    def start(self, component):
        self.spawn(component, [self.bin[component], *self._flags(component)])

    def kill(self, component, sig=signal.SIGKILL):
        """end a component (at once, unless told otherwise) and wait until it is gone"""
        ident = self._pids().get(component)
        if not alive(ident):
            raise Error(f"{component} does not run")
        end(ident, sig, wait=30.0)
        p = self.procs.pop(component, None)
        if p:
            p.wait()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self.dir, "pids", component))

    def restart(self, component, sig=signal.SIGTERM):
        self.kill(component, sig)
        self.start(component)
        if component in ("etcd", "kube-apiserver"):
            self.wait_ready()
        else:
            self.wait_healthy(component)

    def running(self, component):
        return alive(self._pids().get(component))

    def _probe(self, port, path):
        """GET of a local address -> status, or the reason there is none"""
        ctx = ssl.create_default_context(cafile=self.pki.path("ca.crt"))
        ctx.load_cert_chain(self.pki.path("admin.crt"), self.pki.path("admin.key"))
        if port != self.PORT:  # these make their own certificate at start
            ctx.check_hostname, ctx.verify_mode = False, ssl.CERT_NONE
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=ctx))
        try:
            with self.inside(), opener.open(f"https://127.0.0.1:{port}{path}", timeout=5) as r:
                return r.status
        except urllib.error.HTTPError as e:
            return e.code
        except OSError as e:
            return str(e)

    def _wait(self, what, components, port, path, seconds):
        until = time.monotonic() + seconds
        while True:
            got = self._probe(port, path)
            if got == 200:
                return
            for c in components:
                if not self.running(c):
                    raise Error(f"{c} ended: {self.tail(c)}")
            if time.monotonic() > until:
                raise Error(f"{what} not ready in {seconds} s ({got}): {self.tail(components[-1])}")
            time.sleep(0.1)

    def wait_ready(self, seconds=90):
        self._wait("kube-apiserver", ["etcd", "kube-apiserver"], self.PORT, "/readyz", seconds)

    def wait_healthy(self, component, seconds=60):
        self._wait(component, [component], {"kube-controller-manager": 10257, "kube-scheduler": 10259}[component], "/healthz", seconds)

    def tail(self, name, lines=15):
        try:
            with open(os.path.join(self.dir, "log", name + ".log"), errors="replace") as f:
                return "\n" + "".join(f.readlines()[-lines:])
        except OSError as e:
            return str(e)

    def _certificates(self):
        p = self.pki
        p.ca()
        p.cert("apiserver", "kube-apiserver", sans=("DNS:kubernetes", "DNS:kubernetes.default", "DNS:kubernetes.default.svc", "DNS:localhost",
                                                   "IP:127.0.0.1", f"IP:{NODE_IP}", f"IP:{SERVICE_IP}"))
        p.cert("front-proxy", "front-proxy")
        p.key("service-account")
        self.user("kube-controller-manager", "system:kube-controller-manager")
        self.user("kube-scheduler", "system:kube-scheduler")
        self.user("admin", "admin", ["system:masters"], path=self.kubeconfig)

    def user(self, name, cn, groups=(), path=None, server=None):
        """a kubeconfig for this user, with a client certificate (cn and groups: at most 64 characters each); its path"""
        crt, key = self.pki.cert(name, cn, groups)
        return self._kubeconfig(path or self.pki.path(name + ".kubeconfig"), name, {"client-certificate-data": base64_of(crt), "client-key-data": base64_of(key)}, server)

    def service_account(self, namespace, name, server=None):
        """a kubeconfig with a token of this ServiceAccount, so with exactly its rights"""
        token = self.kubectl("-n", namespace, "create", "token", name, "--duration=24h").stdout.strip()
        path = self.pki.path(f"sa-{namespace}-{name}" + ("-" + server.rpartition(":")[2] if server else "") + ".kubeconfig")
        return self._kubeconfig(path, name, {"token": token}, server)

    def _kubeconfig(self, path, name, credentials, server):
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
            f.write(f"""apiVersion: v1
kind: Config
clusters:
- name: test
  cluster:
    server: {server or self.SERVER}
    certificate-authority-data: {base64_of(self.pki.path("ca.crt"))}
users:
- name: {name}
  user:
""" + "".join(f"    {k}: {v}\n" for k, v in credentials.items()) + f"""contexts:
- name: test
  context:
    cluster: test
    user: {name}
current-context: test
""")
        return path

    def _flags(self, component):
        p = self.pki.path
        if component == "etcd":
            return ["--name=test", "--data-dir=" + os.path.join(self.dir, "etcd"), "--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
                    "--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380", "--initial-cluster=test=http://127.0.0.1:2380",
                    "--quota-backend-bytes=4294967296", "--log-level=warn"] + ([] if self.durable else ["--unsafe-no-fsync"])
        if component == "kube-apiserver":
            flags = ["--etcd-servers=http://127.0.0.1:2379", f"--secure-port={self.PORT}", "--bind-address=0.0.0.0", f"--advertise-address={NODE_IP}",
                     "--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
                     "--tls-cert-file=" + p("apiserver.crt"), "--tls-private-key-file=" + p("apiserver.key"), "--client-ca-file=" + p("ca.crt"),
                     "--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + p("service-account.key"), "--service-account-signing-key-file=" + p("service-account.key"),
                     "--requestheader-client-ca-file=" + p("ca.crt"), "--requestheader-allowed-names=front-proxy", "--requestheader-username-headers=X-Remote-User",
                     "--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
                     "--proxy-client-cert-file=" + p("front-proxy.crt"), "--proxy-client-key-file=" + p("front-proxy.key"),
                     "--enable-aggregator-routing=true", "--kubelet-preferred-address-types=InternalIP", "--max-requests-inflight=1000", "--max-mutating-requests-inflight=500",
                     "--event-ttl=2h", "--profiling=false"]
            if self.audit:
                policy = os.path.join(self.dir, "audit-policy.yaml")
                with open(policy, "w") as f:
                    f.write("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n- level: Metadata\n")
                flags += ["--audit-policy-file=" + policy, "--audit-log-path=" + self.audit_log, "--audit-log-mode=blocking"]
            return flags
        own = p(component + ".kubeconfig")
        flags = ["--kubeconfig=" + own, "--authentication-kubeconfig=" + own, "--authorization-kubeconfig=" + own, "--leader-elect=false", "--bind-address=127.0.0.1", "--profiling=false"]
        if component == "kube-scheduler":
            return flags + ["--kube-api-qps=500", "--kube-api-burst=1000"]
        return flags + ["--use-service-account-credentials=true", "--root-ca-file=" + p("ca.crt"), "--cluster-signing-cert-file=" + p("ca.crt"), "--cluster-signing-key-file=" + p("ca.key"),
                        "--service-account-private-key-file=" + p("service-account.key"), "--kube-api-qps=500", "--kube-api-burst=1000",
                        # nodes here have no kubelet that could report to this one
                        "--controllers=*,-node-lifecycle-controller,-taint-eviction-controller"]

    # --- use ---

    def kubectl(self, *args, stdin=None, kubeconfig=None, check=True):
        """kubectl inside -> CompletedProcess, text"""
        p = subprocess.run(self.command(self.bin["kubectl"], "--kubeconfig", kubeconfig or self.kubeconfig, *args), input=stdin, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, env={**clean_env(), "HOME": self.dir})
        if check and p.returncode:
            raise Error(f"kubectl {' '.join(args)}: exit {p.returncode}: {p.stderr.strip()[-3000:]}")
        return p

    def apply(self, *objects):
        """server-side apply of objects (dicts)"""
        return self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def raw(self, path):
        return self.kubectl("get", "--raw", path).stdout

    def audit_entries(self, offset=0):
        """what the audit log holds from this offset on -> (entries, next offset)"""
        with open(self.audit_log, "rb") as f:
            f.seek(offset)
            data = f.read()
        data = data[:data.rfind(b"\n") + 1]
        return [json.loads(line) for line in data.splitlines()], offset + len(data)

    def memory(self, name, which="VmRSS"):
        """resident memory of a program of this cluster, in bytes; VmHWM: the largest it has been"""
        with open(f"/proc/{self._pids()[name][0]}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith(which + ":")) * 1024

    def cpu_seconds(self, name):
        """CPU time that a program of this cluster has taken, in itself and in the kernel"""
        with open(f"/proc/{self._pids()[name][0]}/stat") as f:
            user, system = f.read().rsplit(")", 1)[1].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    # --- files ---

    def _read(self, name):
        try:
            with open(os.path.join(self.dir, name)) as f:
                return json.load(f)
        except (OSError, ValueError):
            return None

    def _write(self, name, value):
        tmp = os.path.join(self.dir, name + ".new")
        with open(tmp, "w") as f:
            json.dump(value, f)
        os.rename(tmp, os.path.join(self.dir, name))

    def _pids(self):
        try:
            names = [n for n in os.listdir(os.path.join(self.dir, "pids")) if not n.endswith(".new")]
        except OSError:
            return {}
        return {n: i for n, i in ((n, self._read(os.path.join("pids", n))) for n in names) if i}


def known():
    try:
        return sorted(n for n in os.listdir(state_root()) if os.path.exists(os.path.join(state_root(), n, "meta.json")))
    except OSError:
        return []


def reap():
    """remove what earlier runs left behind that were killed"""
    for n in known():
        c = Cluster(n)
        m = c._read("meta.json")
        if m and m["owner"] is not None and not alive(m["owner"]):
            c.down()


def guard(name):
    """wait for the owner's end, then clean up if it has not done so itself"""
    c = Cluster(name)
    m = c._read("meta.json")
    if not m or not m["owner"]:
        return
    if alive(m["owner"]):
        try:
            fd = os.pidfd_open(m["owner"][0])
            if alive(m["owner"]):
                select.select([fd], [], [])
        except ProcessLookupError:
            pass
    now = c._read("meta.json")
    if now and now["owner"] == m["owner"]:
        c.down()


def show(c):
    print(f"""cluster {c.name} is up
  kubeconfig   {c.kubeconfig}
  get inside   nsenter --net={NETNS}/{c.netns} bash      (the API server is {c.SERVER}, only from there)
  kubectl      nsenter --net={NETNS}/{c.netns} {c.bin['kubectl']} --kubeconfig {c.kubeconfig} get namespaces
  logs         {os.path.join(c.dir, 'log')}
  stop         python3 {os.path.relpath(os.path.abspath(__file__))} down --name {c.name}""")


def main():
    ap = argparse.ArgumentParser(description="a Kubernetes control plane in a network namespace")
    sub = ap.add_subparsers(dest="what", required=True)
    up = sub.add_parser("up", help="start one that stays until down")
    up.add_argument("--no-scheduler", action="store_true")
    up.add_argument("--no-controllers", action="store_true", help="without kube-controller-manager")
    up.add_argument("--audit", action="store_true", help="write an audit log (metadata)")
    up.add_argument("--durable", action="store_true", help="let etcd sync to disk")
    down = sub.add_parser("down", help="stop one")
    restart = sub.add_parser("restart", help="restart a component")
    g = sub.add_parser("guard", help=argparse.SUPPRESS)
    for p in (up, down, restart, g):
        p.add_argument("--name", default="dev")
    restart.add_argument("component", choices=["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"])
    sub.add_parser("list", help="those there are")
    a = ap.parse_args()
    if a.what == "up":
        c = Cluster(a.name, scheduler=not a.no_scheduler, controllers=not a.no_controllers, audit=a.audit, durable=a.durable, stay=True).up()
        show(c)
    elif a.what == "down":
        if not os.path.exists(os.path.join(state_root(), a.name)) and not os.path.exists(os.path.join(NETNS, "sluice-" + a.name)):
            raise Error(f"there is no cluster named {a.name}")
        Cluster(a.name).down()
    elif a.what == "restart":
        Cluster.attach(a.name).restart(a.component)
    elif a.what == "guard":
        guard(a.name)
    else:
        for n in known():
            c = Cluster.attach(n)
            print(n, "up" if c.running("kube-apiserver") else "down", c.kubeconfig)


if __name__ == "__main__":
    try:
        main()
    except Error as e:
        sys.exit(f"cluster: {e}")
