"""What the tests share: the official Python client, a namespace with queues of its own, a player for pods, a witness of Workloads."""
import contextlib
import heapq
import itertools
import json
import threading
import time

import kubernetes
import requests
import urllib3
import yaml
from kubernetes.client.exceptions import ApiException

from cluster import SERVICE_IP  # noqa: F401  (for tests)

GROUP, V1, V2 = "kueue.x-k8s.io", "v1beta1", "v1beta2"
QUEUE_LABEL = GROUP + "/queue-name"
GPU = "nvidia.com/gpu"
NET_ERRORS = (ApiException, urllib3.exceptions.HTTPError, OSError)


def until(check, what, seconds=60):
    """wait until check() is true and return what it returned; a failed expectation shows the last answer"""
    end = time.monotonic() + seconds
    while True:
        try:
            got = check()
        except NET_ERRORS as e:  # the API server may be away for a while
            got, last = None, e
        else:
            last = got
        if got:
            return got
        if time.monotonic() > end:
            raise AssertionError(f"after {seconds} s still not: {what} (last: {last!r})")
        time.sleep(0.05)


def steady(check, what, seconds=2.0):
    """check() has to be true all this time: for what must not happen"""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got = check()
        assert got, f"did not stay: {what} ({got!r})"
        time.sleep(0.1)


def condition(o, kind):
    return next((c for c in o.get("status", {}).get("conditions", []) if c["type"] == kind), None)


def is_true(o, kind):
    c = condition(o, kind)
    return bool(c) and c["status"] == "True"


def message(e):
    """the text of a refusal"""
    try:
        return json.loads(e.body)["message"]
    except (ValueError, TypeError, KeyError):
        return str(e.body)


class Kube:
    """The official client, with dicts in and out."""

    def __init__(self, kubeconfig):
        self.api = kubernetes.config.new_client_from_config(kubeconfig)
        self.api.configuration.proxy = None
        self.core, self.batch = kubernetes.client.CoreV1Api(self.api), kubernetes.client.BatchV1Api(self.api)
        self.custom = kubernetes.client.CustomObjectsApi(self.api)
        self.kubeconfig = kubeconfig

    def plain(self, o):
        return self.api.sanitize_for_serialization(o)

    # kinds of ours

    def create(self, plural, body, ns=None, version=V2):
        body = {"apiVersion": f"{GROUP}/{version}", **body}
        if ns:
            return self.custom.create_namespaced_custom_object(GROUP, version, ns, plural, body)
        return self.custom.create_cluster_custom_object(GROUP, version, plural, body)

    def get(self, plural, name, ns=None, version=V2):
        if ns:
            return self.custom.get_namespaced_custom_object(GROUP, version, ns, plural, name)
        return self.custom.get_cluster_custom_object(GROUP, version, plural, name)

    def list(self, plural, ns=None, version=V2):
        if ns:
            return self.custom.list_namespaced_custom_object(GROUP, version, ns, plural)["items"]
        return self.custom.list_cluster_custom_object(GROUP, version, plural)["items"]

    def merge(self, plural, name, body, ns=None, version=V2):
        return self.raw("PATCH", f"/apis/{GROUP}/{version}" + (f"/namespaces/{ns}" if ns else "") + f"/{plural}/{name}", body, "application/merge-patch+json")

    def delete(self, plural, name, ns=None):
        if ns:
            return self.custom.delete_namespaced_custom_object(GROUP, V2, ns, plural, name)
        return self.custom.delete_cluster_custom_object(GROUP, V2, plural, name)

    def raw(self, verb, path, body=None, ctype="application/json"):
        """one request with the client's own connection -> parsed answer"""
        c = self.api.configuration
        r = self.api.rest_client.pool_manager.request(verb, c.host + path, body=None if body is None else json.dumps(body).encode(),
                                                      headers={"Content-Type": ctype, "Accept": "application/json"}, retries=False, timeout=40)
        if r.status >= 300:
            raise ApiException(status=r.status, reason=r.reason, http_resp=Answer(r))
        return json.loads(r.data)

    # jobs

    def job(self, ns, name):
        return self.plain(self.batch.read_namespaced_job(name, ns))

    def patch_job(self, ns, name, body):
        return self.raw("PATCH", f"/apis/batch/v1/namespaces/{ns}/jobs/{name}", body, "application/merge-patch+json")

    def pods(self, ns, job=None):
        sel = {"label_selector": "batch.kubernetes.io/job-name=" + job} if job else {}
        return self.plain(self.core.list_namespaced_pod(ns, **sel))["items"]

    def events(self, ns, reason=None, about=None):
        return [e for e in self.raw("GET", f"/apis/events.k8s.io/v1/namespaces/{ns}/events")["items"]
                if (reason is None or e["reason"] == reason) and (about is None or e["regarding"]["name"] == about)]


class Answer:
    """a urllib3 response in the shape that ApiException reads"""

    def __init__(self, r):
        self.status, self.reason, self.data, self.headers = r.status, r.reason, r.data, r.headers

    def getheaders(self):
        return self.headers


def set_phase(kube, pod, phase, code=0):
    """the kubelet's part: a pod runs (and is ready), or ends"""
    m = pod["metadata"]
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    st = {"phase": phase, "conditions": [{"type": "Ready", "status": "True" if phase == "Running" else "False", "lastTransitionTime": now}]}
    if phase in ("Succeeded", "Failed"):
        st["containerStatuses"] = [{"name": c["name"], "image": c["image"], "imageID": "", "ready": False, "restartCount": 0,
                                    "state": {"terminated": {"exitCode": code if phase == "Failed" else 0, "startedAt": now, "finishedAt": now}}} for c in pod["spec"]["containers"]]
    return kube.raw("PATCH", f"/api/v1/namespaces/{m['namespace']}/pods/{m['name']}/status", {"status": st}, "application/merge-patch+json")


def workload_path(o):
    return f"/apis/{GROUP}/{V2}/namespaces/{o['metadata']['namespace']}/workloads/{o['metadata']['name']}"


def finish(kube, o):
    """a job controller's part for a Workload without a job: it is done"""
    done = {"type": "Finished", "status": "True", "reason": "Succeeded", "message": "Job finished successfully", "observedGeneration": o["metadata"]["generation"],
            "lastTransitionTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    kube.raw("PATCH", workload_path(o) + "/status", {"metadata": {"resourceVersion": o["metadata"]["resourceVersion"]}, "status": {"conditions": o["status"]["conditions"] + [done]}},
             "application/merge-patch+json")


def release(kube, o, evicted):
    """a job controller's part for a Workload without a job: the evicted one has stopped, its quota is free"""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    requeued = "True" if evicted["reason"] == "Preempted" else "False"
    new = {"QuotaReserved": ("False", "Pending"), "Admitted": ("False", "NoReservation"), "Requeued": (requeued, evicted["reason"])}
    while True:
        kept = [c for c in o["status"]["conditions"] if c["type"] not in new]
        status = {"admission": None, "conditions": kept + [{"type": t, "status": s, "reason": r, "message": evicted["message"], "lastTransitionTime": stamp,
                                                            "observedGeneration": o["metadata"]["generation"]} for t, (s, r) in new.items()]}
        try:
            kube.raw("PATCH", workload_path(o) + "/status", {"metadata": {"resourceVersion": o["metadata"]["resourceVersion"]}, "status": status}, "application/merge-patch+json")
            return
        except ApiException as e:
            if e.status == 404:
                return
            if e.status != 409:
                raise
        o = kube.raw("GET", workload_path(o))
        if not is_true(o, "Evicted") or not o["status"].get("admission"):
            return


class Space:
    """A namespace of a test's own, with flavors and queues whose names carry its name."""

    numbers = itertools.count(1)

    def __init__(self, kube, name):
        self.kube, self.ns = kube, f"{name[:40].strip('-')}-{next(self.numbers)}"
        kube.core.create_namespace({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.ns}})
        until(lambda: kube.core.read_namespaced_service_account("default", self.ns), "the namespace's service account")
        self.made = []

    def full(self, name):
        return f"{self.ns}-{name}"

    def flavor(self, name="any", labels=None, taints=None, tolerations=None):
        spec = {k: v for k, v in (("nodeLabels", labels), ("nodeTaints", taints), ("tolerations", tolerations)) if v}
        self.kube.create("resourceflavors", {"kind": "ResourceFlavor", "metadata": {"name": self.full(name)}, "spec": spec})
        self.made.append(("resourceflavors", self.full(name)))
        return self.full(name)

    def cluster_queue(self, name, quota, cohort=None, **spec):
        """quota: {flavor: {resource: amount or (nominal, borrowing, lending)}}"""
        flavors = []
        for f, amounts in quota.items():
            rs = []
            for r, v in amounts.items():
                n, b, lend = (v + (None, None))[:3] if isinstance(v, tuple) else (v, None, None)
                rs.append({"name": r, "nominalQuota": str(n), **({"borrowingLimit": str(b)} if b is not None else {}), **({"lendingLimit": str(lend)} if lend is not None else {})})
            flavors.append({"name": self.full(f), "resources": rs})
        body = {"kind": "ClusterQueue", "metadata": {"name": self.full(name)}, "spec": {
            "namespaceSelector": {}, **({"cohortName": self.full(cohort)} if cohort else {}),
            "resourceGroups": [{"coveredResources": list(next(iter(quota.values()))), "flavors": flavors}], **spec}}
        self.kube.create("clusterqueues", body)
        self.made.insert(0, ("clusterqueues", self.full(name)))
        return self.full(name)

    def queue(self, name, quota, cohort=None, **spec):
        """a ClusterQueue and its LocalQueue, both ready"""
        self.cluster_queue(name, quota, cohort, **spec)
        self.kube.create("localqueues", {"kind": "LocalQueue", "metadata": {"name": name}, "spec": {"clusterQueue": self.full(name)}}, self.ns)
        until(lambda: is_true(self.cq(name), "Active"), f"ClusterQueue {name} active")
        until(lambda: is_true(self.lq(name), "Active"), f"LocalQueue {name} active")
        return name

    def cpu_queue(self, name="a", cpus=4, **kw):
        if ("resourceflavors", self.full("any")) not in self.made:
            self.flavor("any")
        return self.queue(name, {"any": {"cpu": cpus}}, **kw)

    def cq(self, name):
        return self.kube.get("clusterqueues", self.full(name))

    def lq(self, name):
        return self.kube.get("localqueues", name, self.ns)

    def manifest(self, name, queue=None, pods=1, cpu="1", gpu=None, labels=None, annotations=None, spec=None, pod=None):
        res = {"requests": {"cpu": str(cpu)}} if cpu else {}
        if gpu:
            res["limits"] = {GPU: str(gpu)}
        return {"apiVersion": "batch/v1", "kind": "Job",
                "metadata": {"name": name, "namespace": self.ns, "labels": {**({QUEUE_LABEL: queue} if queue else {}), **(labels or {})}, "annotations": annotations or {}},
                "spec": {"parallelism": pods, "completions": pods, "backoffLimit": 0, **(spec or {}),
                         "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x", "resources": res}], **(pod or {})}}}}

    def submit(self, name, queue=None, **kw):
        return self.kube.plain(self.kube.batch.create_namespaced_job(self.ns, self.manifest(name, queue, **kw)))

    def job(self, name):
        return self.kube.job(self.ns, name)

    def workload(self, job):
        """the Workload that belongs to this Job, or None"""
        found = [w for w in self.kube.list("workloads", self.ns) if any(r["kind"] == "Job" and r["name"] == job for r in w["metadata"].get("ownerReferences", []))]
        assert len(found) <= 1, f"{len(found)} Workloads for Job {job}"
        return found[0] if found else None

    def admitted(self, job, seconds=60):
        """wait until this Job is admitted and let go -> its Workload"""
        w = until(lambda: (lambda w: w and is_true(w, "Admitted") and w)(self.workload(job)), f"Job {job} admitted", seconds)
        until(lambda: not self.job(job)["spec"].get("suspend"), f"Job {job} unsuspended", seconds)
        return w

    def waiting(self, job):
        """wait until this Job is held with a reason -> the condition"""
        w = until(lambda: (lambda w: w and condition(w, "QuotaReserved") and w)(self.workload(job)), f"Job {job} has a reason to wait")
        c = condition(w, "QuotaReserved")
        assert c["status"] == "False", f"Job {job} is not waiting: {c}"
        assert self.job(job)["spec"]["suspend"], f"Job {job} waits but is not suspended"
        return c

    def run(self, job):
        return self._phase(job, "Running")

    def succeed(self, job):
        return self._phase(job, "Succeeded")

    def fail(self, job):
        return self._phase(job, "Failed", 1)

    def _phase(self, job, phase, code=0):
        want = self.job(job)["spec"]["parallelism"]
        pods = until(lambda: (lambda p: len(p) >= want and p)([p for p in self.kube.pods(self.ns, job) if p["status"].get("phase") not in ("Succeeded", "Failed")]), f"{want} pods of {job}")
        for p in pods:
            set_phase(self.kube, p, phase, code)

    def reap(self):
        """the kubelet's part: pods that are being deleted end"""
        for p in self.kube.pods(self.ns):
            if p["metadata"].get("deletionTimestamp"):
                with contextlib.suppress(ApiException):
                    self.kube.core.delete_namespaced_pod(p["metadata"]["name"], self.ns, grace_period_seconds=0)

    def usage(self, queue, field="flavorsUsage"):
        """{flavor: {resource: total}} of a ClusterQueue's status, names without the namespace"""
        st = self.cq(queue).get("status", {})
        return {f["name"].removeprefix(self.ns + "-"): {r["name"]: str(r.get("total", "0")) for r in f["resources"]} for f in st.get(field, [])}

    def settled(self, queue, usage, seconds=60):
        """the status of a ClusterQueue comes to show this usage ({flavor: {resource: total}})"""
        want = {f: {r: str(v) for r, v in rs.items()} for f, rs in usage.items()}
        until(lambda: self.usage(queue) == want or None, f"ClusterQueue {queue} shows {want}, it has {self.usage(queue)}", seconds)

    def close(self):
        with contextlib.suppress(*NET_ERRORS):
            for j in self.kube.batch.list_namespaced_job(self.ns).items:
                self.kube.batch.delete_namespaced_job(j.metadata.name, self.ns, propagation_policy="Background")
        with contextlib.suppress(*NET_ERRORS):
            for p in self.kube.pods(self.ns):
                self.kube.core.delete_namespaced_pod(p["metadata"]["name"], self.ns, grace_period_seconds=0)
        for plural, name in self.made:
            with contextlib.suppress(*NET_ERRORS):
                self.kube.delete(plural, name)
        with contextlib.suppress(*NET_ERRORS):
            self.kube.core.delete_namespace(self.ns)


class Watcher(threading.Thread):
    """A watch that picks up where it was cut. Subclasses get seen(type, object) in the order of resource versions; where the server has forgotten
    what came next, everything is listed again and counted as a gap."""

    def __init__(self, kube, path):
        super().__init__(daemon=True)
        self.path, self.stopping, self.gaps, self.there, self.listing = path, False, 0, {}, False
        c = kube.api.configuration
        self.url = c.host
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.verify, self.session.cert = c.ssl_ca_cert, (c.cert_file, c.key_file)
        self.rv = None
        self.list()

    def seen(self, kind, o):
        raise NotImplementedError

    def list(self):
        r = self.session.get(self.url + self.path, timeout=30)
        r.raise_for_status()
        items = {o["metadata"]["uid"]: o for o in r.json()["items"]}
        self.listing = True  # what is seen now is one moment
        for uid in [u for u in self.there if u not in items]:
            self.seen("DELETED", self.there.pop(uid))
        for uid, o in items.items():
            self.seen("MODIFIED" if uid in self.there else "ADDED", o)
            self.there[uid] = o
        self.listing = False
        self.rv = r.json()["metadata"]["resourceVersion"]

    def run(self):
        while not self.stopping:
            try:
                if self.rv is None:
                    self.gaps += 1
                    self.list()
                self.follow()
            except (requests.RequestException, urllib3.exceptions.HTTPError, ValueError, KeyError, AttributeError, OSError):
                pass
            if not self.stopping:
                time.sleep(0.1)

    def follow(self):
        with self.session.get(self.url + self.path, params={"watch": "1", "resourceVersion": self.rv, "allowWatchBookmarks": "true", "timeoutSeconds": "300"}, stream=True, timeout=(5, 330)) as r:
            if r.status_code == 410:
                self.rv = None
                return
            r.raise_for_status()
            for line in r.iter_lines(chunk_size=16384):
                if self.stopping:
                    return
                if not line:
                    continue
                e = json.loads(line)
                if e["type"] == "ERROR":
                    if e["object"].get("code") == 410:
                        self.rv = None
                    return
                self.rv = e["object"]["metadata"]["resourceVersion"]
                if e["type"] == "BOOKMARK":
                    continue
                if e["type"] == "DELETED":
                    self.there.pop(e["object"]["metadata"]["uid"], None)
                else:
                    self.there[e["object"]["metadata"]["uid"]] = e["object"]
                self.seen(e["type"], e["object"])

    def stop(self):
        self.stopping = True


class Player(Watcher):
    """Acts for kubelets: pods of enrolled namespaces run, and end well after their time; deleted ones go."""

    def __init__(self, kube):
        self.spaces, self.due, self.known, self.lock = {}, [], set(), threading.Lock()
        self.kube, self.order = kube, itertools.count()
        super().__init__(kube, "/api/v1/pods")
        self.start()
        threading.Thread(target=self.work, daemon=True).start()

    def enroll(self, ns, runtime=0.2):
        with self.lock:
            self.spaces[ns] = runtime

    def seen(self, kind, o):
        m = o["metadata"]
        with self.lock:
            runtime = self.spaces.get(m["namespace"])
            if runtime is None or kind == "DELETED":
                return
            if m.get("deletionTimestamp"):
                heapq.heappush(self.due, (0, next(self.order), "delete", o))
            elif m["uid"] not in self.known and not o["spec"].get("schedulingGates"):
                self.known.add(m["uid"])
                heapq.heappush(self.due, (0, next(self.order), "Running", o))

    def work(self):
        while not self.stopping:
            with self.lock:
                item = heapq.heappop(self.due) if self.due and self.due[0][0] <= time.monotonic() else None
            if not item:
                time.sleep(0.02)
                continue
            at, _, what, pod = item
            try:
                if what == "delete":
                    self.kube.core.delete_namespaced_pod(pod["metadata"]["name"], pod["metadata"]["namespace"], grace_period_seconds=0)
                else:
                    set_phase(self.kube, pod, what)
                if what == "Running":  # only now: an end that overtakes a delayed start would be undone by it
                    with self.lock:
                        heapq.heappush(self.due, (time.monotonic() + self.spaces.get(pod["metadata"]["namespace"], 0), next(self.order), "Succeeded", pod))
            except ApiException as e:
                if e.status != 404:
                    with self.lock:
                        heapq.heappush(self.due, (time.monotonic() + 0.3, next(self.order), what, pod))
            except NET_ERRORS:
                with self.lock:
                    heapq.heappush(self.due, (time.monotonic() + 0.3, next(self.order), what, pod))


class Witness(Watcher):
    """Sees every state of every Workload of a namespace, and says whether the promises were kept at each of them."""

    def __init__(self, kube, ns):
        self.history = []
        super().__init__(kube, f"/apis/{GROUP}/{V2}/namespaces/{ns}/workloads")
        self.start()

    def seen(self, kind, o):
        st = o.get("status", {})
        self.history.append({"kind": kind, "moment": self.gaps if self.listing else None, "uid": o["metadata"]["uid"], "name": o["metadata"]["name"], "rv": o["metadata"]["resourceVersion"],
                             "owner": next((r["uid"] for r in o["metadata"].get("ownerReferences", [])), None), "admission": st.get("admission"),
                             "admitted": is_true(o, "Admitted"), "finished": is_true(o, "Finished"), "evicted": is_true(o, "Evicted")})

    def admissions(self):
        """{workload uid: how often an admission appeared}"""
        last, count = {}, {}
        for h in self.history:
            if h["admission"] and not last.get(h["uid"]):
                count[h["uid"]] = count.get(h["uid"], 0) + 1
            last[h["uid"]] = h["admission"] if h["kind"] != "DELETED" else None
        return count

    def faults(self, limits, together=None, gaps=False):
        """what went wrong. limits: {ClusterQueue: {(flavor, resource): amount}}, together: one such map for all of them; gaps: some states may be unseen"""
        out, now, admission, owners = [], {}, {}, {}
        if self.gaps and not gaps:
            out.append("the API server forgot what happened in between: the test cannot say")
        for h, following in zip(self.history, self.history[1:] + [None]):
            uid, before = h["uid"], admission.get(h["uid"])
            if h["kind"] == "DELETED":
                now.pop(uid, None)
                admission.pop(uid, None)
                if h["owner"]:
                    owners.get(h["owner"], set()).discard(uid)
                continue
            if h["owner"]:
                owners.setdefault(h["owner"], set()).add(uid)
                if len(owners[h["owner"]]) > 1:
                    out.append(f"rv {h['rv']}: {len(owners[h['owner']])} Workloads at once for one Job ({h['name']})")
            if before and h["admission"] and before != h["admission"]:
                out.append(f"rv {h['rv']}: the admission of {h['name']} changed while it was held: {before} -> {h['admission']}")
            if before and not h["admission"] and not h["evicted"]:
                out.append(f"rv {h['rv']}: {h['name']} lost its admission without an eviction")
            if h["admitted"] and not h["admission"]:
                out.append(f"rv {h['rv']}: {h['name']} is Admitted without an admission")
            admission[uid] = h["admission"]
            now[uid] = (h["admission"]["clusterQueue"], usage_of(h["admission"])) if h["admission"] and not h["finished"] else None
            if following and h["moment"] is not None and following["moment"] == h["moment"]:
                continue  # more of the same listing: sums are due at its end
            total, each = {}, {}
            for v in now.values():
                if v:
                    for k, n in v[1].items():
                        each.setdefault(v[0], {})[k] = each.get(v[0], {}).get(k, 0) + n
                        total[k] = total.get(k, 0) + n
            for q, use in each.items():
                for k, n in use.items():
                    if q in limits and n > limits[q].get(k, 0):
                        out.append(f"rv {h['rv']}: {q} uses {n} of {k}, it may use {limits[q].get(k, 0)}")
            for k, n in total.items():
                if together is not None and n > together.get(k, 0):
                    out.append(f"rv {h['rv']}: all together use {n} of {k}, there are {together.get(k, 0)}")
        return out


def number(q):
    """a quantity as a number"""
    return float(kubernetes.utils.quantity.parse_quantity(q))


def usage_of(admission):
    out = {}
    for a in admission.get("podSetAssignments", []):
        for r, q in a.get("resourceUsage", {}).items():
            k = (a.get("flavors", {}).get(r), r)
            out[k] = out.get(k, 0) + number(q)
    return out


def load_yaml(text):
    return [d for d in yaml.safe_load_all(text) if d]
