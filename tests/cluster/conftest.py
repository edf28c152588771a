"""Fixtures: one control plane and one manager for the session, a namespace with its own queues for each test."""
import os
import re
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import pytest  # noqa: E402

import cluster as control  # noqa: E402
import manager as managers  # noqa: E402
import proxy  # noqa: E402
import support  # noqa: E402

for name in [k for k in os.environ if k.lower().endswith("_proxy")]:
    del os.environ[name]


@pytest.fixture(scope="session")
def cluster():
    """the shared control plane; this process lives in its network from here on"""
    c = control.Cluster(f"test-{os.getpid()}", audit=True).up()
    c.enter()
    yield c
    c.down()


@pytest.fixture(scope="session")
def kube(cluster):
    return support.Kube(cluster.kubeconfig)


@pytest.fixture(scope="session")
def player(kube):
    p = support.Player(kube)
    yield p
    p.stop()


@pytest.fixture(scope="session")
def installation(cluster):
    return managers.Installation(cluster).install()


@pytest.fixture(scope="session")
def line(cluster):
    """what lies between manager and API server: it can be cut, stalled and refused"""
    p = proxy.Proxy(cluster, 6443)
    yield p
    p.close()


@pytest.fixture(scope="session")
def one_manager(installation, line):
    m = managers.Manager(installation, server=f"https://127.0.0.1:{line.port}").start().join()
    yield m
    if m.running():
        m.kill(signal.SIGTERM)


@pytest.fixture
def manager(one_manager):
    """the shared manager, running; a test that leaves it dead has failed its own clean-up, not the next test"""
    if not one_manager.running():
        one_manager.start()
    yield one_manager
    assert one_manager.running(), f"the manager ended during the test: {one_manager.tail()}"


@pytest.fixture
def space(kube, request):
    s = support.Space(kube, re.sub(r"[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_")).strip("-"))
    yield s
    s.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """a failure shows the manager's last words"""
    report = (yield).get_result()
    m = getattr(item, "funcargs", {}).get("one_manager") or getattr(item, "funcargs", {}).get("manager")
    if report.failed and m is not None:
        report.sections.append(("manager log, end", m.tail(40)))
