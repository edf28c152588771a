"""The chart: what it renders, and what Helm makes of it on a real API server (no pods run here)."""
import base64
import json
import os
import re
import subprocess
import sys

import pytest
import yaml
from conftest import CHART, ROOT, Api, ca_bundle, control, gen_crds, helm, render

VALUES = {
    "defaults": [],
    "kueue names": ["--set", "fullnameOverride=kueue,namespaceOverride=kueue-system"],
    "one replica, own account": ["--set", "replicas=1,serviceAccount.create=false,serviceAccount.name=mine,rbac.userRoles=false"],
    "given certificates": ["--set", "certificates.existingSecret=tls,certificates.caBundle=" + base64.b64encode(b"not checked here").decode(), "--set-json",
                           'certificates.annotations={"cert-manager.io/inject-ca-from":"sluice-system/tls"}'],
}
EVERYTHING = {
    "podLabels": {"a": "b"}, "podAnnotations": {"c": "d"}, "commonLabels": {"team": "ai"}, "nodeSelector": {"kubernetes.io/os": "linux"}, "priorityClassName": "system-cluster-critical",
    "tolerations": [{"key": "k", "operator": "Exists"}], "imagePullSecrets": [{"name": "pull"}], "extraArgs": ["--log-level=debug"], "extraEnv": [{"name": "A", "value": "b"}],
    "affinity": {"nodeAffinity": {}}, "image": {"digest": "sha256:" + "0" * 64}, "webhooks": {"excludedNamespaces": ["monitoring"], "serviceName": "hooks"}, "crds": {"keep": False, "v1beta1": False},
    "ledger": {"volume": {"ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}}},
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    "monitoring": {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}, "dashboard": {"enabled": True},
                   "prometheusRule": {"enabled": True, "gpuHealth": True}},
    "networkPolicy": {"enabled": True, "metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}], "extraEgress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]},
    "config": {"manageJobsWithoutQueueName": True, "metrics": {"enableClusterQueueResources": False}, "managedJobsNamespaceSelector": {"matchLabels": {"jobs": "yes"}}},
}


@pytest.fixture(scope="session")
def value_sets(tmp_path_factory):
    path = tmp_path_factory.mktemp("values") / "everything.yaml"
    path.write_text(yaml.safe_dump(EVERYTHING))
    return {**VALUES, "everything": ["--values", str(path)]}


NAMES = [*VALUES, "everything"]


def one(objects, kind, part=""):
    found = [o for o in objects if o["kind"] == kind and part in o["metadata"]["name"]]
    assert len(found) == 1, [o["metadata"]["name"] for o in found]
    return found[0]


@pytest.mark.parametrize("name", NAMES)
def test_lint(value_sets, name):
    p = helm("lint", "--strict", CHART, *value_sets[name], check=False)
    assert p.returncode == 0, p.stdout + p.stderr


@pytest.mark.parametrize("name", NAMES)
def test_the_api_server_takes_every_object(cluster, value_sets, name):
    """strictly: an unknown field is an error"""
    for ns in ("kueue-system", "sluice-system", "test-restricted"):
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns}},
                      *({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": n, "namespace": ns}} for n in ("sluice-controller-manager", "kueue-controller-manager", "mine")))
    for o in render(*value_sets[name]):
        body = json.dumps(o)
        p = cluster.kubectl("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-", stdin=body, check=False)
        if "caBundle" in p.stderr and name == "given certificates":
            continue  # made up
        assert p.returncode == 0, f"{o['kind']} {o['metadata']['name']}: {p.stderr}"


@pytest.mark.parametrize("name", NAMES)
def test_pods_are_restricted(cluster, value_sets, name):
    """Pod Security: the strictest level, enforced by the API server itself"""
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "test-restricted", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}},
                  *({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": n, "namespace": "test-restricted"}} for n in ("sluice-controller-manager", "kueue-controller-manager", "mine")))
    objects = render(*value_sets[name])
    test = one(objects, "Pod")
    p = cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps({**test, "metadata": {"name": "t", "namespace": "test-restricted"}}), check=False)
    assert p.returncode == 0, p.stderr
    pod = one(objects, "Deployment")["spec"]["template"]
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {**pod["metadata"], "name": "p", "namespace": "test-restricted"}, "spec": pod["spec"]}
    p = cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(body), check=False)
    assert p.returncode == 0, p.stderr
    for c in pod["spec"]["containers"]:
        assert c["securityContext"]["readOnlyRootFilesystem"] is True
    body["spec"]["containers"][0]["securityContext"].pop("capabilities")
    p = cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(body), check=False)
    assert p.returncode != 0 and "violates PodSecurity" in p.stderr  # the check itself works


def test_names_are_kueues_when_asked():
    objects = render("--set", "fullnameOverride=kueue", namespace="kueue-system")
    names = {o["metadata"]["name"] for o in objects}
    assert {"kueue-controller-manager", "kueue-webhook-service", "kueue-webhook-server-cert", "kueue-manager-config", "kueue-manager-role", "kueue-validating-webhook-configuration",
            "kueue-mutating-webhook-configuration", "kueue-batch-admin-role", "kueue-batch-user-role", "kueue-leader-election-role"} <= names
    assert one(objects, "Deployment")["metadata"]["namespace"] == "kueue-system"


@pytest.mark.parametrize("name", NAMES)
def test_every_object_is_where_it_belongs(value_sets, name):
    objects = render(*value_sets[name])
    ns = one(objects, "Deployment")["metadata"]["namespace"]
    seen = set()
    for o in objects:
        key = (o["kind"], o["metadata"]["name"])
        assert key not in seen
        seen.add(key)
        if o["kind"] in ("Deployment", "Service", "ServiceAccount", "ConfigMap", "Secret", "Role", "RoleBinding", "PodDisruptionBudget", "NetworkPolicy", "ServiceMonitor", "PrometheusRule", "Pod"):
            assert o["metadata"]["namespace"] == ns, key
        assert o["metadata"]["labels"]["app.kubernetes.io/instance"] == "sluice", key
        assert o["metadata"].get("annotations", {}).get("helm.sh/hook", "test") == "test", key


def test_rights_are_few():
    objects = render()
    for o in objects:
        if o["kind"] not in ("Role", "ClusterRole"):
            continue
        for r in o.get("rules") or []:
            assert "*" not in r.get("apiGroups", []) + r.get("resources", []) + r["verbs"], o["metadata"]["name"]
            if "secrets" in r.get("resources", []):
                assert o["kind"] == "Role" and r["resourceNames"] == ["sluice-webhook-server-cert"] and "create" not in r["verbs"]
            if set(r.get("resources", [])) & {"mutatingwebhookconfigurations", "validatingwebhookconfigurations", "customresourcedefinitions"}:
                assert r["resourceNames"], "only our own"
    # a Secret that is made by others is not read through the API at all
    given = render("--set", "certificates.existingSecret=tls")
    assert not [o for o in given if o["kind"] == "Secret" or "secrets" in json.dumps(o.get("rules", []))]


def test_webhooks_keep_off_what_is_not_theirs():
    objects = render("--set", "webhooks.excludedNamespaces={monitoring}")
    hooks = [(o, w) for o in objects if o["kind"].endswith("WebhookConfiguration") for w in o["webhooks"]]
    assert len(hooks) == 9
    for _, w in hooks:
        assert w["timeoutSeconds"] <= 5 and w["sideEffects"] == "None" and "caBundle" not in w["clientConfig"] and w["matchConditions"]
        rule, = w["rules"]
        assert "*" not in rule["apiGroups"] + rule["apiVersions"] + rule["resources"] + rule["operations"]
        if rule["scope"] == "Namespaced":
            selector, = w["namespaceSelector"]["matchExpressions"]
            assert selector["operator"] == "NotIn" and selector["values"] == ["kube-system", "sluice-system", "monitoring"]
    policies = {w["name"]: w["failurePolicy"] for _, w in hooks}
    assert policies.pop("mjob-unlabelled.sluice.dev") == "Ignore" and set(policies.values()) == {"Fail"}
    config = yaml.safe_load(one(objects, "ConfigMap", "manager-config")["data"]["config.yaml"])
    assert config["managedJobsNamespaceSelector"]["matchExpressions"][0]["values"] == ["kube-system", "sluice-system", "monitoring"]
    # once every Job is managed, none may slip by
    objects = render("--set", "config.manageJobsWithoutQueueName=true")
    assert [w["failurePolicy"] for o in objects if o["kind"] == "MutatingWebhookConfiguration" for w in o["webhooks"] if w["name"].startswith("mjob")] == ["Fail", "Fail"]


def test_configuration(value_sets):
    objects = render(*value_sets["everything"])
    config = yaml.safe_load(one(objects, "ConfigMap", "manager-config")["data"]["config.yaml"])
    assert config["apiVersion"] == "config.kueue.x-k8s.io/v1beta2" and config["kind"] == "Configuration"
    assert config["manageJobsWithoutQueueName"] is True and config["metrics"] == {"bindAddress": ":8443", "enableClusterQueueResources": False}
    assert config["managedJobsNamespaceSelector"] == {"matchLabels": {"jobs": "yes"}}  # replaced, not merged
    assert config["internalCertManagement"] == {"enable": True, "webhookServiceName": "hooks", "webhookSecretName": "sluice-webhook-server-cert"}
    before = one(render(), "Deployment")["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
    after = one(objects, "Deployment")["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
    assert before != after  # a change of the configuration rolls the pods


def test_arguments_agree_with_what_is_rendered():
    objects = render("--set", "ports.webhook=10000,ports.metrics=10001,ports.health=10002")
    container, = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    args = dict(a.removeprefix("--").partition("=")[::2] for a in container["args"] if a.startswith("--"))
    assert {p["name"]: p["containerPort"] for p in container["ports"]} == {"webhook": int(args["webhook-port"]), "metrics": int(args["metrics-port"]), "health": int(args["health-port"])}
    for arg, kind in (("validating-configuration", "ValidatingWebhookConfiguration"), ("mutating-configuration", "MutatingWebhookConfiguration"), ("webhook-secret", "Secret")):
        assert one(objects, kind)["metadata"]["name"] == args[arg]
    service = one(objects, "Service", "webhook")
    assert service["metadata"]["name"] == args["webhook-service"] and service["spec"]["ports"][0]["port"] == 443
    conversions = [o["spec"]["conversion"]["webhook"]["clientConfig"]["service"] for o in objects if o["kind"] == "CustomResourceDefinition" and "conversion" in o["spec"]]
    assert conversions == [{"name": args["webhook-service"], "namespace": "sluice-system", "path": "/convert", "port": 443}] * 5
    crds = [o["metadata"]["name"] for o in objects if o["kind"] == "CustomResourceDefinition" and "conversion" in o["spec"]]
    patched = next(r["resourceNames"] for r in one(objects, "ClusterRole", "manager-role")["rules"] if "customresourcedefinitions" in r["resources"])
    assert sorted(patched) == sorted(crds)


def leaves(s, path=""):
    for k, x in s.get("properties", {}).items():
        yield path + k, x
        yield from leaves(x, path + k + ".")


def test_every_value_is_described():
    with open(os.path.join(CHART, "values.schema.json")) as f:
        schema = json.load(f)
    with open(os.path.join(CHART, "values.yaml")) as f:
        values = yaml.safe_load(f)
    described = dict(leaves(schema))
    assert not [k for k, x in described.items() if not x.get("description")]

    def paths(v, s, path=""):
        for k, x in v.items():
            yield path + k
            if isinstance(x, dict) and "properties" in s["properties"].get(k, {}):
                yield from paths(x, s["properties"][k], path + k + ".")
    assert set(paths(values, schema)) == set(described) - {"global"}


@pytest.mark.parametrize("value,name", [("replicas=many", "replicas"), ("replicaz=2", "replicaz"), ("webhooks.timeoutSeconds=30", "timeoutSeconds"), ("image.digest=sha256:1", "digest"),
                                        ("webhooks.unlabelledJobs.failurePolicy=Maybe", "failurePolicy"), ("config.fairSharring.enable=true", "fairSharring"), ("terminationGracePeriodSeconds=5", "terminationGracePeriodSeconds"),
                                        ("podDisruptionBudget.minAvailable=2", "podDisruptionBudget.minAvailable"), ("podDisruptionBudget.minAvailable=100%", "podDisruptionBudget.minAvailable"),
                                        ("podDisruptionBudget.minAvailable=51%", "podDisruptionBudget.minAvailable"), ("podDisruptionBudget.minAvailable=most", "minAvailable")])
def test_wrong_values_are_named(value, name):
    p = helm("template", "sluice", CHART, "--set", value, check=False)
    assert p.returncode != 0 and name in p.stderr, p.stderr


def test_the_configuration_may_have_what_the_manager_reads():
    with open(os.path.join(ROOT, "include", "sluice", "defs", "config.def")) as f:
        read = re.findall(r'^SL_CONFIG\w*\("([^".]+)', f.read(), re.M)
    with open(os.path.join(CHART, "values.schema.json")) as f:
        assert set(json.load(f)["properties"]["config"]["propertyNames"]["enum"]) == {"apiVersion", "kind", *read}


def test_readme_lists_the_values():
    p = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "gen_chart_readme.py"), "--check"], capture_output=True, text=True)
    assert p.returncode == 0, p.stderr


def test_no_lookup_no_hooks():
    for folder, _, files in os.walk(os.path.join(CHART, "templates")):
        for f in files:
            with open(os.path.join(folder, f)) as s:
                text = s.read()
            assert "lookup" not in text and not re.search(r"helm\.sh/hook(?!: test$|-delete-policy: )", text, re.M), f


def test_the_older_version_can_be_left_out():
    for args, served in (([], True), (["--set", "crds.v1beta1=false"], False)):
        versions = [v for o in render(*args) if o["kind"] == "CustomResourceDefinition" for v in o["spec"]["versions"]]
        assert len(versions) == 22 and {v["served"] for v in versions if v["name"] == "v1beta1"} == {served} and all(v["served"] for v in versions if v["name"] == "v1beta2")


def test_as_a_subchart(tmp_path):
    (tmp_path / "Chart.yaml").write_text(f"apiVersion: v2\nname: platform\nversion: 1.0.0\ndependencies:\n- {{name: sluice, version: 0.1.0, repository: 'file://{CHART}'}}\n")
    (tmp_path / "values.yaml").write_text("sluice: {replicas: 3, crds: {keep: false}}\nglobal: {region: here}\n")
    helm("dependency", "update", str(tmp_path))
    objects = render(name="prod", namespace="batch", chart=str(tmp_path))
    assert one(objects, "Deployment")["spec"]["replicas"] == 3 and one(objects, "Deployment")["metadata"]["name"] == "prod-sluice-controller-manager"
    crds = [o for o in objects if o["kind"] == "CustomResourceDefinition"]
    assert len(crds) == 11 and not any("annotations" in o["metadata"] for o in crds)


@pytest.fixture
def empty():
    """a cluster of its own: a release owns cluster-wide objects"""
    with control.Cluster("chart-life", scheduler=False, controllers=False) as c:
        yield c


def test_install_upgrade_rollback_uninstall(empty):
    """what the manager writes survives; what the chart owns changes; CRDs and queues stay"""
    api = Api(empty)

    def run(*args):
        return control.run(*empty.command(control.programs("helm")["helm"], *args, "--kubeconfig", empty.kubeconfig, "-n", "life"), env=control.clean_env())

    # CRDs that somebody else has put there are taken over, as the README says
    foreign = gen_crds.plain(next(k for k in gen_crds.kinds.KINDS if k[0] == "Cohort"))
    foreign["metadata"]["labels"] = {"app.kubernetes.io/name": "other"}
    empty.apply(foreign)
    run("install", "life", CHART, "--create-namespace", "--take-ownership", "--force-conflicts", "--set", "replicas=0")
    assert api.get("CustomResourceDefinition", "cohorts.kueue.x-k8s.io")[1]["metadata"]["labels"]["app.kubernetes.io/name"] == "sluice"

    ca, crd, hook = ca_bundle(empty), "workloads.kueue.x-k8s.io", "life-sluice-validating-webhook-configuration"
    secret = "api/v1/namespaces/life/secrets/life-sluice-webhook-server-cert"

    def manager_writes():
        for kind, name, body in (("ValidatingWebhookConfiguration", hook, [{"op": "add", "path": f"/webhooks/{i}/clientConfig/caBundle", "value": ca} for i in range(5)]),
                                 ("CustomResourceDefinition", crd, [{"op": "add", "path": "/spec/conversion/webhook/clientConfig/caBundle", "value": ca}])):
            status, answer = api.call("PATCH", api.path(kind, name=name) + "?fieldManager=sluice", body, "application/json-patch+json")
            assert status == 200, answer
        assert api.call("PATCH", secret + "?fieldManager=sluice", {"data": {"tls.crt": "eA==", "tls.key": "eQ=="}}, "application/merge-patch+json")[0] == 200

    def kept():
        """-> the timeouts of the webhooks, which are the chart's"""
        hooks = api.get("ValidatingWebhookConfiguration", hook)[1]["webhooks"]
        assert [w["clientConfig"].get("caBundle") for w in hooks] == [ca] * 5
        assert api.get("CustomResourceDefinition", crd)[1]["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] == ca
        assert api.call("GET", secret)[1]["data"] == {"tls.crt": "eA==", "tls.key": "eQ=="}
        return {w["timeoutSeconds"] for w in hooks}

    manager_writes()
    assert kept() == {5}
    run("upgrade", "life", CHART, "--set", "replicas=0,webhooks.timeoutSeconds=3")
    assert kept() == {3}
    run("upgrade", "life", CHART, "--set", "replicas=0,webhooks.timeoutSeconds=3,webhooks.excludedNamespaces={other},commonLabels.a=b")
    assert kept() == {3}
    run("rollback", "life", "1")
    assert kept() == {5}
    assert api.create({"kind": "WorkloadPriorityClass", "metadata": {"name": "stays"}, "value": 1})[0] == 201
    run("uninstall", "life")
    assert api.get("WorkloadPriorityClass", "stays")[0] == 200
    assert api.get("ValidatingWebhookConfiguration", hook)[0] == 404
    assert api.call("GET", secret)[0] == 404
