"""Fixtures: the image, the packaged chart, a control plane with a node for the manager and one with GPUs."""
import json
import os
import subprocess
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "cluster")]

import pytest  # noqa: E402

import cluster as control  # noqa: E402
import node as nodes  # noqa: E402
import support  # noqa: E402

for name in [k for k in os.environ if k.lower().endswith("_proxy")]:
    del os.environ[name]

BINARY = os.environ.get("SLUICE_BINARY") or os.path.join(control.REPO, "build", "sluice")
REPOSITORY = "ghcr.io/sluice/sluice"
FIGURES = []


@pytest.fixture(scope="session")
def image(tmp_path_factory):
    """-> dir, digest, version, and the paths of what was built"""
    out = tmp_path_factory.mktemp("image")
    if not os.access(BINARY, os.X_OK):
        raise control.Error(f"there is no {BINARY}: build first (./dev build), or set SLUICE_BINARY")
    control.run(os.path.join(control.REPO, "tools", "image", "build"), "--binary", BINARY, "--output", str(out))
    v = nodes.image_build.version()
    return types.SimpleNamespace(dir=out, version=v, digest=(out / "digest").read_text().strip(), oci=out / f"sluice-{v}.oci.tar", docker=out / f"sluice-{v}.docker.tar",
                                 sbom=json.loads((out / f"sluice-{v}.spdx.json").read_text()))


@pytest.fixture(scope="session")
def world():
    """the cluster; this process lives in its network from here on"""
    c, cpu, gpu = nodes.with_nodes(f"node-{os.getpid()}", audit=True)
    c.enter()
    yield types.SimpleNamespace(cluster=c, cpu=cpu, gpu=gpu, kube=support.Kube(c.kubeconfig), nodes=[cpu, gpu])
    c.down()


@pytest.fixture(scope="session")
def chart(tmp_path_factory):
    """the chart as a package, as it would be published"""
    out = tmp_path_factory.mktemp("chart")
    control.run(control.programs("helm")["helm"], "package", os.path.join(control.REPO, "charts", "sluice"), "-d", str(out), env=control.clean_env())
    return str(next(out.iterdir()))


@pytest.fixture(scope="session")
def loaded(world, image):
    """the image is on the nodes, by tag and by digest, as if it had been pulled"""
    for n in world.nodes:
        n.load(image.oci.read_bytes())
        n.tag(f"{REPOSITORY}:{image.version}", f"{REPOSITORY}@{image.digest}")
    return image


@pytest.fixture(scope="session")
def helm(world):
    """helm(...) against the cluster -> its output"""
    def run(*args, check=True):
        p = subprocess.run([control.programs("helm")["helm"], *args, "--kubeconfig", world.cluster.kubeconfig], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           env={**control.clean_env(), "HOME": world.cluster.dir})
        if check and p.returncode:
            logs = world.cluster.kubectl("-n", "sluice-system", "logs", "-l", "app.kubernetes.io/instance=sluice", "--tail=40", "--prefix", check=False).stdout
            raise AssertionError(f"helm {' '.join(args)}: exit {p.returncode}: {p.stdout}\n{logs}")
        return p.stdout
    return run


@pytest.fixture(scope="session")
def figure():
    """figure(name, value): printed at the end, never judged"""
    return lambda name, value: FIGURES.append(f"{name}: {value}")


def pytest_terminal_summary(terminalreporter):
    if FIGURES:
        terminalreporter.section("figures")
        for line in FIGURES:
            terminalreporter.write_line(line)
