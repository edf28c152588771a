"""Real nodes for a test cluster: kubelet, containerd, runc and a bridge, beside the control plane in its network namespace.

By hand:

  python3 tests/node/node.py up --name X        a control plane with two nodes, cpu-0 and gpu-0, that stays
  python3 tests/cluster/cluster.py down --name X

Each node has a mount namespace of its own, in which /run, /var/lib and /var/log are its own too: whatever is mounted there goes with the last process,
also after a kill, and nothing of the machine's own containerd or kubelet is touched. Pods live below a cgroup of the node. Cluster.down and the guard
of cluster.py call clean() of this module.
"""
import argparse
import contextlib
import glob
import importlib.machinery
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
REPO = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(REPO, "tests", "cluster"))
import cluster as control  # noqa: E402

_loader = importlib.machinery.SourceFileLoader("image_build", os.path.join(REPO, "tools", "image", "build"))
image_build = importlib.util.module_from_spec(importlib.util.spec_from_loader("image_build", _loader))
_loader.exec_module(image_build)

PAUSE, BUSYBOX = "registry.sluice.test/pause:1", "docker.io/library/busybox:1.36"
CGROUPS = "/sys/fs/cgroup"
TOOLS = {"containerd": "containerd", "ctr": "containerd", "containerd-shim-runc-v2": "containerd", "runc": "runc", "busybox": "busybox-static", "gcc": "gcc", "unshare": "util-linux"}

# As GPU Operator's feature discovery and the admins of the examples set them
GPU_LABELS = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "8", "nvidia.com/gpu.memory": "81559", "nvidia.com/gpu.replicas": "1",
              "nvidia.com/gpu.sharing-strategy": "none", "nvidia.com/gpu.family": "hopper", "nvidia.com/mig.capable": "true", "nvidia.com/mig.strategy": "single", "gpu-type": "h100-full",
              "gpu-pool": "training"}
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}


def controllers():
    """folders in which a cgroup has to be made: one for each v1 controller, or one alone"""
    if os.path.exists(os.path.join(CGROUPS, "cgroup.controllers")):
        return [CGROUPS]
    return [d for d in sorted(glob.glob(CGROUPS + "/*")) if os.path.exists(os.path.join(d, "cgroup.procs")) and not os.path.exists(os.path.join(d, "cgroup.controllers"))]


def make_cgroup(name):
    for c in controllers():
        path = os.path.join(c, name)
        os.makedirs(path, exist_ok=True)
        for f in ("cpuset.cpus", "cpuset.mems"):  # empty in a new v1 group: nothing could run in it
            with contextlib.suppress(FileNotFoundError), open(os.path.join(c, f)) as parent:
                value = parent.read().strip()
                if os.path.basename(c).startswith("cpuset"):
                    with open(os.path.join(path, f), "w") as own:
                        own.write(value)


def end_cgroup(name):
    """kill what is in it, and remove it"""
    for top in (os.path.join(CGROUPS, name), *glob.glob(os.path.join(CGROUPS, "*", name))):  # runc makes some in a v2 mount beside v1 as well
        until = time.monotonic() + 20
        while os.path.isdir(top):
            for folder, _, files in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    with open(os.path.join(folder, "cgroup.procs")) as f:
                        for pid in map(int, f.read().split()):
                            os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
            if os.path.isdir(top):
                if time.monotonic() > until:
                    raise control.Error(f"cannot remove the cgroup {top}")
                time.sleep(0.05)


def ours(folder):
    """processes of containerd, its shims and the kubelet that were started with something below this folder"""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                argv = f.read().decode(errors="replace").split("\0")
        except OSError:
            continue
        if os.path.basename(argv[0]).split("-v1")[0] in ("containerd", "containerd-shim-runc-v2", "kubelet", "runc") and any(folder + "/" in a for a in argv[1:]):
            found.append([int(pid), control.born(int(pid))])
    return found


def clean(cluster):
    """end every node of this cluster; harmless when there is none, or half of one"""
    top = os.path.join(cluster.dir, "nodes")
    names = sorted(os.listdir(top)) if os.path.isdir(top) else []
    pids = cluster._pids()
    for n in names:  # the kubelet first: it would start again what is ended
        control.end(pids.get("kubelet-" + n), signal.SIGKILL)
    for n in names:
        folder = os.path.join(top, n)
        for _ in range(100):
            found = ours(folder)
            for p in found:
                control.end(p, signal.SIGKILL)
            if not found:
                break
        end_cgroup(cgroup_of(cluster, n))
        shutil.rmtree(folder, ignore_errors=True)


def cgroup_of(cluster, name):
    return f"{cluster.netns}-{name}"


class Node:
    """One node of a cluster that runs."""

    def __init__(self, cluster, name, index):
        self.cluster, self.name, self.index = cluster, name, index
        self.dir = os.path.join(cluster.dir, "nodes", name)
        self.ip, self.pods = f"10.9.0.{101 + index}", f"10.244.{index}"
        self.socket = os.path.join(self.dir, "c.sock")

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def up(self):
        for tool, package in TOOLS.items():
            if not shutil.which(tool):
                raise control.Error(f"the program {tool} is missing (Debian: apt-get install {package})")
        if not os.path.exists("/usr/lib/cni/bridge"):
            raise control.Error("there is no /usr/lib/cni/bridge (Debian: apt-get install containernetworking-plugins)")
        c = self.cluster
        c.bin.update(control.programs("kubelet"))
        for d in ("cni", "root", "state", "kubelet", "logs"):
            os.makedirs(self.path(d), mode=0o700)
        make_cgroup(cgroup_of(c, self.name))
        control.run(*c.command("ip", "addr", "add", self.ip + "/24", "dev", "node0"))
        control.run(*c.command("sysctl", "-qw", "net.ipv4.ip_forward=1"))
        self._configure()
        own = "mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /var/log && mount -t tmpfs tmpfs /var/lib && exec \"$@\""
        runtime = c.spawn("containerd-" + self.name, ["unshare", "--mount", "--propagation", "private", "sh", "-c", own, "sh", shutil.which("containerd"), "--config", self.path("containerd.toml")])
        self._wait("containerd", lambda: subprocess.run(self._ctr("version"), capture_output=True).returncode == 0, "containerd-" + self.name)
        self.load(pause_image(), busybox_image())
        kubeconfig = c.user(f"kubelet-{self.name}", f"system:node:{self.name}", ["system:nodes"])
        c.spawn("kubelet-" + self.name, ["nsenter", f"--mount=/proc/{runtime.pid}/ns/mnt", c.bin["kubelet"], "--config", self.path("kubelet.json"), "--kubeconfig", kubeconfig,
                                         "--hostname-override", self.name, "--node-ip", self.ip, "--root-dir", self.path("kubelet"), "--cert-dir", self.path("kubelet", "pki")])
        self._wait("node", self.ready, "kubelet-" + self.name, 120)
        self.taint()
        return self

    def _wait(self, what, done, process, seconds=30):
        until = time.monotonic() + seconds
        while not done():
            if not self.cluster.running(process):
                raise control.Error(f"{process} ended: {self.cluster.tail(process)}")
            if time.monotonic() > until:
                raise control.Error(f"{what} of {self.name} not ready in {seconds} s: {self.cluster.tail(process, 40)}")
            time.sleep(0.2)

    def ready(self):
        p = self.cluster.kubectl("get", "node", self.name, "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].status}", check=False)
        return p.stdout == "True"

    def taint(self, *taints):
        """these and no other: nobody else takes the one for nodes that are not ready away here"""
        self.cluster.kubectl("patch", "node", self.name, "--type=merge", "-p", json.dumps({"spec": {"taints": list(taints)}}))

    def gpus(self, count=8, labels=None):
        """what a device plugin and feature discovery would say"""
        c, quantity = self.cluster, {"nvidia.com/gpu": str(count)}
        c.kubectl("patch", "node", self.name, "--subresource=status", "--type=merge", "-p", json.dumps({"status": {"capacity": quantity, "allocatable": quantity}}))
        c.kubectl("patch", "node", self.name, "--type=merge", "-p", json.dumps({"metadata": {"labels": {**GPU_LABELS, "nvidia.com/gpu.count": str(count), **(labels or {})}}}))
        self.taint(GPU_TAINT)
        return self

    def _configure(self):
        with open(self.path("containerd.toml"), "w") as f:
            f.write(f"""version = 2
root = "{self.path('root')}"
state = "{self.path('state')}"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
  address = "{self.socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{self.path('cni')}"
""")
        with open(self.path("cni", "10-bridge.conflist"), "w") as f:
            json.dump({"cniVersion": "0.4.0", "name": "pods", "plugins": [
                {"type": "bridge", "bridge": f"pods{self.index}", "isGateway": True, "ipMasq": False, "hairpinMode": True,
                 "ipam": {"type": "host-local", "dataDir": self.path("cni", "addresses"), "ranges": [[{"subnet": self.pods + ".0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}, f)
        with open(self.path("resolv.conf"), "w"):
            pass  # there is no cluster DNS here
        with open(self.path("kubelet.json"), "w") as f:
            json.dump({"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "address": self.ip, "healthzBindAddress": self.ip, "readOnlyPort": 0,
                       "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}}, "authorization": {"mode": "AlwaysAllow"},  # the API server here has no certificate for kubelets
                       "containerRuntimeEndpoint": "unix://" + self.socket, "cgroupDriver": "cgroupfs", "cgroupRoot": "/" + cgroup_of(self.cluster, self.name), "failCgroupV1": False, "failSwapOn": False,
                       "enforceNodeAllocatable": [], "localStorageCapacityIsolation": False, "evictionHard": {}, "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
                       "makeIPTablesUtilChains": False, "oomScoreAdj": 0, "podLogsDir": self.path("logs"), "volumePluginDir": self.path("plugins"), "resolvConf": self.path("resolv.conf"),
                       "registerNode": True, "syncFrequency": "10s", "fileCheckFrequency": "20s", "nodeStatusUpdateFrequency": "5s", "maxPods": 250, "shutdownGracePeriod": "0s"}, f)

    def _ctr(self, *args):
        return ["ctr", "--address", self.socket, "-n", "k8s.io", *args]

    def load(self, *archives):
        """images into the node's store, as if they had been pulled"""
        for data in archives:
            with tempfile.NamedTemporaryFile(dir=self.dir, suffix=".tar") as f:
                f.write(data)
                f.flush()
                control.run(*self._ctr("images", "import", "--digests", "--no-unpack", f.name))

    def tag(self, image, name):
        control.run(*self._ctr("images", "tag", "--force", image, name))

    def images(self):
        return control.run(*self._ctr("images", "ls", "-q")).split()

    def pid_of(self, pod_uid):
        """the process of the only container of a pod that is not pause"""
        found = []
        for f in glob.glob(f"{controllers()[0]}/{cgroup_of(self.cluster, self.name)}/**/cgroup.procs", recursive=True):
            if pod_uid in f:
                with open(f) as s:
                    found += [int(p) for p in s.read().split() if os.path.basename(os.readlink(f"/proc/{p}/exe")) != "pause"]
        return found


def archive(name, entries, config):
    """a docker archive of one layer"""
    raw = image_build.layer(entries, 0)
    cfg = image_build.encode({"architecture": image_build.ARCHITECTURES[os.uname().machine], "os": "linux", "config": config, "rootfs": {"type": "layers", "diff_ids": ["sha256:" + image_build.sha(raw)]}})
    return image_build.tar_of({image_build.sha(cfg) + ".json": cfg, "layer.tar": raw,
                               "manifest.json": image_build.encode([{"Config": image_build.sha(cfg) + ".json", "RepoTags": [name], "Layers": ["layer.tar"]}])}, 0)


def pause_image():
    with tempfile.TemporaryDirectory() as tmp:
        control.run("gcc", "-Os", "-static", "-s", "-o", os.path.join(tmp, "pause"), os.path.join(HERE, "pause.c"))
        return archive(PAUSE, {"/pause": (0o755, 0, image_build.read(os.path.join(tmp, "pause")))}, {"Entrypoint": ["/pause"], "User": "65535:65535"})


def busybox_image():
    box = shutil.which("busybox")
    entries = {"/bin/busybox": (0o755, 0, image_build.read(box)), "/tmp": (0o1777, 0, None)}
    for applet in control.run(box, "--list").split():
        entries["/bin/" + applet] = entries.get("/bin/" + applet, (0o777, 0, "busybox"))
    return archive(BUSYBOX, entries, {"Cmd": ["sh"], "Env": ["PATH=/bin"]})


def with_nodes(name, **kw):
    """a control plane with cpu-0 and gpu-0 (8 cards) -> (cluster, cpu, gpu)"""
    c = control.Cluster(name, **kw).up()
    try:
        return c, Node(c, "cpu-0", 0).up(), Node(c, "gpu-0", 1).up().gpus()
    except BaseException:
        c.down(keep_logs=True)
        raise


def main():
    ap = argparse.ArgumentParser(description="a Kubernetes cluster with two real nodes")
    ap.add_argument("what", choices=["up"])
    ap.add_argument("--name", default="dev")
    a = ap.parse_args()
    c, _, _ = with_nodes(a.name, stay=True)
    control.show(c)


if __name__ == "__main__":
    try:
        main()
    except control.Error as e:
        sys.exit(f"node: {e}")
