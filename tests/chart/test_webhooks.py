"""Which requests reach the webhooks, counted by a server that answers for the manager."""
import http.server
import json
import ssl
import threading

import pytest
from conftest import Api, ca_bundle, fields, made, render

PORT = 19443
MANAGER = "system:serviceaccount:sluice-system:sluice-controller-manager"
QUEUE = "kueue.x-k8s.io/queue-name"


class Server:
    """allows everything, denies objects that say so, and remembers (path, operation, resource)"""

    def __init__(self, cluster):
        self.cluster, self.calls, self.httpd = cluster, [], None

    def start(self):
        calls = self.calls

        class Handler(http.server.BaseHTTPRequestHandler):
            # HTTP/1.0: no connection outlives the server
            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
                calls.append((self.path.split("?")[0], request["operation"], "/".join(x for x in (request["resource"]["resource"], request.get("subResource")) if x)))
                response = {"uid": request["uid"], "allowed": True}
                if "deny" in (request["object"]["metadata"].get("annotations") or {}):
                    response.update(allowed=False, status={"code": 422, "reason": "Invalid", "message": "no", "details": {"causes": [
                        {"reason": "FieldValueInvalid", "field": "spec", "message": "no"}]}})
                body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        crt, key = self.cluster.pki.cert("webhook", "webhook", sans=("IP:127.0.0.1",))
        ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ctx.load_cert_chain(crt, key)
        with self.cluster.inside():
            self.httpd = http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
        self.httpd.daemon_threads = True
        self.httpd.socket = ctx.wrap_socket(self.httpd.socket, server_side=True)
        threading.Thread(target=self.httpd.serve_forever, daemon=True).start()
        return self

    def stop(self):
        self.httpd.shutdown()
        self.httpd.server_close()

    def take(self):
        out, self.calls[:] = list(self.calls), []
        return out


def register(cluster, api, *values):
    """the chart's webhook configurations, led to our server; waits until they are in force"""
    objects = [o for o in render(*values) if o["kind"].endswith("WebhookConfiguration")]
    for o in objects:
        for w in o["webhooks"]:
            w["clientConfig"] = {"url": f"https://127.0.0.1:{PORT}{w['clientConfig']['service']['path']}", "caBundle": ca_bundle(cluster)}
    cluster.apply(*objects)
    return objects


@pytest.fixture(scope="module")
def server(cluster, api):
    s = Server(cluster).start()
    objects = register(cluster, api)
    quiet = 0
    while quiet < 3:  # the API server takes a moment to see them
        assert api.create({"kind": "Cohort", "metadata": {"name": "probe"}, "spec": {}})[0] == 201
        api.delete("Cohort", "probe")
        quiet = quiet + 1 if s.take() else 0
    yield s
    for o in objects:
        api.delete(o["kind"], o["metadata"]["name"])
    s.stop()


def job(name="j", queue=None, annotations=None, **spec):
    return {"kind": "Job", "metadata": {"name": name, "labels": {QUEUE: queue} if queue is not None else {}, "annotations": annotations or {}}, "spec": {
        "suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}, **spec}}


MUTATE, VALIDATE = ("/mutate-batch-v1-job", "CREATE", "jobs"), ("/validate-batch-v1-job", "CREATE", "jobs")
UPDATE = ("/validate-batch-v1-job", "UPDATE", "jobs")


@pytest.fixture
def manager(cluster):
    cluster.pki.cert("manager", MANAGER, ["system:masters"])
    return Api(cluster, "manager")


def test_a_queued_job_in_its_whole_life(server, api, manager):
    """at most 4 calls; here the user makes two and the manager none"""
    with made(api, job(queue="a")):
        assert server.take() == [MUTATE, VALIDATE]
        assert manager.create({"kind": "Workload", "metadata": {"name": "w"}, "spec": {"podSets": [{"template": {"spec": {"containers": []}}}]}})[0] == 201
        admission = {"status": {"admission": {"clusterQueue": "a", "podSetAssignments": [{"name": "main", "count": 1}]}}}
        assert manager.merge("Workload", "w", admission, sub="status")[0] == 200
        assert manager.merge("Job", "j", {"spec": {"suspend": False, "template": {"metadata": {"labels": {"kueue.x-k8s.io/podset": "main"}}}}})[0] == 200
        assert api.merge("Job", "j", {"status": {"active": 1, "ready": 0, "startTime": "2026-01-01T00:00:00Z"}}, sub="status")[0] == 200
        assert manager.merge("Workload", "w", {"status": {"requeueState": {"count": 1}}}, sub="status")[0] == 200
        assert api.merge("Workload", "w", {"metadata": {"finalizers": ["example.com/f"]}})[0] == 200
        assert api.merge("Workload", "w", {"metadata": {"finalizers": None, "labels": {"a": "b"}}})[0] == 200
        assert api.delete("Workload", "w")[0] == 200
    assert server.take() == []


def test_a_job_without_a_queue(server, api):
    with made(api, job()):
        assert server.take() == [MUTATE]
        api.merge("Job", "j", {"spec": {"suspend": False, "parallelism": 2}, "metadata": {"labels": {"a": "b"}}})
        assert server.take() == []
        assert api.merge("Job", "j", {"metadata": {"labels": {QUEUE: "a"}}})[0] == 200
        assert server.take() == [UPDATE]
        assert api.merge("Job", "j", {"metadata": {"labels": {QUEUE: None}}})[0] == 200  # it was ours before
        assert server.take() == [UPDATE]
    with made(api, job(queue="")):  # no queue, but a label to be checked
        assert server.take() == [MUTATE, VALIDATE]


@pytest.mark.parametrize("body,called", [
    ({"metadata": {"labels": {"a": "b"}}}, True), ({"metadata": {"annotations": {"a": "b"}}}, True), ({"spec": {"suspend": False}}, True), ({"spec": {"parallelism": 3}}, True),
    ({"spec": {"ttlSecondsAfterFinished": 5}}, False), ({"spec": {"backoffLimit": 2}}, False), ({"spec": {"suspend": True}}, False), ({}, False),
    ({"metadata": {"finalizers": ["example.com/f"]}}, False)])
def test_which_updates_of_a_job_are_checked(server, api, body, called):
    with made(api, job(queue="a")):
        server.take()
        assert api.merge("Job", "j", body)[0] == 200
        assert server.take() == ([UPDATE] if called else [])
        api.delete("Job", "j")
        api.merge("Job", "j", {"metadata": {"finalizers": None}})  # lets it go, where the change was a finalizer


def test_an_update_of_a_job_on_its_way_out_is_not_checked(server, api):
    o = job(queue="a")
    o["metadata"]["finalizers"] = ["example.com/f"]
    assert api.create(o)[0] == 201
    api.delete("Job", "j")
    server.take()
    assert api.merge("Job", "j", {"metadata": {"annotations": {"a": "b"}}})[0] == 200
    assert api.merge("Job", "j", {"metadata": {"finalizers": None}})[0] == 200
    assert server.take() == []


def test_annotations_are_checked_too(server, api):
    with made(api, job(annotations={"kueue.x-k8s.io/job-min-parallelism": "1"})):
        assert server.take() == [MUTATE, VALIDATE]
    topology = job()
    topology["spec"]["template"]["metadata"] = {"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}}
    with made(api, topology):
        assert server.take() == [MUTATE, VALIDATE]


def test_workloads_of_others(server, api):
    path = "/validate-kueue-x-k8s-io-v1beta2-workload"
    with made(api, {"kind": "Workload", "metadata": {"name": "w"}, "spec": {"podSets": [{"template": {"spec": {"containers": []}}}]}}):
        assert server.take() == [(path, "CREATE", "workloads")]
        api.merge("Workload", "w", {"spec": {"active": False}})
        assert server.take() == [(path, "UPDATE", "workloads")]
        api.merge("Workload", "w", {"metadata": {"annotations": {"kueue.x-k8s.io/priority-boost": "1"}}})
        assert server.take() == [(path, "UPDATE", "workloads")]
        api.merge("Workload", "w", {"status": {"requeueState": {"count": 1}}}, sub="status")
        assert server.take() == [(path, "UPDATE", "workloads/status")]
        api.merge("Workload", "w", {"status": {"requeueState": {"count": 1}}}, sub="status")
        assert server.take() == []  # nothing changed


@pytest.mark.parametrize("kind", ["ClusterQueue", "Cohort", "ResourceFlavor"])
def test_queues_and_flavors(server, api, kind):
    word = kind.lower()
    mutate, validate = f"/mutate-kueue-x-k8s-io-v1beta2-{word}", f"/validate-kueue-x-k8s-io-v1beta2-{word}"
    change = {"nodeLabels": {"a": "b"}} if kind == "ResourceFlavor" else {"fairSharing": {"weight": 2}}
    with made(api, {"kind": kind, "metadata": {"name": "x"}, "spec": {}}):
        assert server.take() == [(mutate, "CREATE", word + "s")] * (kind != "Cohort") + [(validate, "CREATE", word + "s")]
        assert api.merge(kind, "x", {"spec": change})[0] == 200
        assert server.take() == [(validate, "UPDATE", word + "s")]
        if kind == "ClusterQueue":
            assert api.merge(kind, "x", {"status": {"pendingWorkloads": 1}}, sub="status")[0] == 200
        assert api.merge(kind, "x", {"metadata": {"labels": {"a": "b"}}})[0] == 200
        assert server.take() == []
    finalized = {"kind": kind, "metadata": {"name": "x", "finalizers": ["kueue.x-k8s.io/resource-in-use"]}, "spec": {}}
    assert api.create(finalized)[0] == 201
    assert server.take() == [(validate, "CREATE", word + "s")]
    api.delete(kind, "x")
    assert api.merge(kind, "x", {"metadata": {"finalizers": None}})[0] == 200
    assert server.take() == []


def test_other_namespaces_are_left_alone(server, api):
    for ns in ("kube-system", "sluice-system"):
        with made(api, job(queue="a"), job("k"), {"kind": "LocalQueue", "metadata": {"name": "a"}, "spec": {"clusterQueue": "a"}},
                  {"kind": "Workload", "metadata": {"name": "w"}, "spec": {"podSets": [{"template": {"spec": {"containers": []}}}]}}, ns=ns):
            assert server.take() == [], ns


def test_a_denial_keeps_its_code_and_causes(server, api):
    status, answer = api.create({"kind": "Cohort", "metadata": {"name": "x", "annotations": {"deny": ""}}, "spec": {}})
    assert status == 422 and answer["reason"] == "Invalid" and fields(answer) == ["spec"], answer
    assert 'admission webhook "vcohort.kb.io" denied the request: no' in answer["message"]


def test_while_nobody_answers(server, api, manager):
    with made(api, job("k", queue="a"), {"kind": "Cohort", "metadata": {"name": "c"}, "spec": {}}):
        server.stop()
        try:
            assert api.create(job())[0] == 201  # unmanaged: passes
            assert api.merge("Job", "j", {"spec": {"suspend": False}})[0] == 200
            assert api.delete("Job", "j")[0] == 200
            status, answer = api.create(job(queue="a"))
            assert status == 500 and "mjob.kb.io" in answer["message"]
            assert api.create({"kind": "ClusterQueue", "metadata": {"name": "x"}, "spec": {}})[0] == 500
            assert api.merge("Cohort", "c", {"spec": {"parentName": "p"}})[0] == 500
            assert api.merge("Cohort", "c", {"metadata": {"labels": {"a": "b"}}})[0] == 200
            assert api.merge("Job", "k", {"status": {"active": 1, "startTime": "2026-01-01T00:00:00Z"}}, sub="status")[0] == 200
            assert manager.merge("Job", "k", {"spec": {"suspend": False}})[0] == 200
            assert api.create(job(queue="a"), ns="kube-system")[0] == 201
            api.delete("Job", "j", ns="kube-system")
            for word in ("localqueues", "workloads"):
                assert api.call("GET", f"apis/kueue.x-k8s.io/v1beta2/{word}")[0] == 200
        finally:
            server.start()
    server.take()
