"""Rules of templates/_check_api.tpl, and others about what Kubernetes and Ray would only refuse after the install."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chart.cases import job, with_key
from tests.chart.every_value import CLUSTER, GIT, PROBE, SCALING
from tests.chart.test_requirements import refused
from tests.chart.test_requirements_pods import beside
from tests.helm import one, render
from tests.project_pods import project

TRUE = {"exec": {"command": ["true"]}}
CLAIM = [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]
SPREAD = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
WITH = "networkPolicy.limitEgress"


def node(*expressions: dict[str, Any], fields: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    term: dict[str, Any] = {"matchExpressions": list(expressions)} if expressions else {}
    term |= {"matchFields": fields} if fields else {}
    return job(
        "head.affinity",
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}},
    )


def sidecar(**fields: Any) -> dict[str, Any]:
    return job("head.sidecarContainers", beside(**fields))


def init(**fields: Any) -> dict[str, Any]:
    return job("workerGroups.gpu.initContainers", beside(**fields))


def mount(**fields: Any) -> dict[str, Any]:
    return with_key(
        job("common.volumes", [{"name": "data", "emptyDir": {}}]),
        "common.volumeMounts",
        [{"name": "data", "mountPath": "/data", **fields}],
    )


def started(**params: Any) -> dict[str, Any]:
    return job("common.rayStartParams", params)


# (values, words that the one message must hold)
REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "liveness after two successes": (
        job("head.livenessProbe", PROBE | {"successThreshold": 2}),
        ["head.livenessProbe", "successThreshold 2", "readinessProbe"],
    ),
    "grace of readiness": (
        job("head.readinessProbe", PROBE | {"terminationGracePeriodSeconds": 5}),
        ["head.readinessProbe", "terminationGracePeriodSeconds"],
    ),
    "sleep beyond the grace period": (
        job("common.lifecycle", {"preStop": {"sleep": {"seconds": 121}}}),
        ["common.lifecycle.preStop", "121", "terminationGracePeriodSeconds"],
    ),
    "probe of a sidecar without a handler": (
        sidecar(startupProbe={}),
        ["head.sidecarContainers.0.startupProbe", "httpGet"],
    ),
    "hook of a sidecar with two": (
        sidecar(lifecycle={"preStop": TRUE | {"sleep": {"seconds": 1}}}),
        ["head.sidecarContainers.0.lifecycle.preStop", "exactly one"],
    ),
    "source of a sidecar from nothing": (
        sidecar(envFrom=[{"prefix": "A_"}]),
        ["head.sidecarContainers.0.envFrom.0", "configMapRef"],
    ),
    "variable of a sidecar from nowhere": (
        sidecar(env=[{"name": "A", "valueFrom": {}}]),
        ["head.sidecarContainers.0.env.0", "A is not of one source"],
    ),
    "variable of a sidecar twice": (
        sidecar(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
        ["head.sidecarContainers.0.env", "A is there twice"],
    ),
    "port of a sidecar twice": (
        sidecar(ports=[{"containerPort": 9000}, {"containerPort": 9000}]),
        ["head.sidecarContainers.0.ports", "9000 TCP is there twice"],
    ),
    "field that no pod can read": (
        job("common.env", {"A": {"fieldRef": {"fieldPath": "spec.name"}}}),
        ["common.env.A.fieldRef", "spec.name", "metadata.name"],
    ),
    "profile of a node without its name": (
        job("common.securityContext", {"seccompProfile": {"type": "Localhost"}}),
        ["common.securityContext.seccompProfile", "localhostProfile"],
    ),
    "two kinds of a path below a volume": (
        mount(subPath="a", subPathExpr="$(A)"),
        ["common.volumeMounts.0", "subPathExpr"],
    ),
    "read only below, writable here": (
        mount(recursiveReadOnly="Enabled"),
        ["common.volumeMounts.0", "readOnly: true"],
    ),
    "claim of two kinds": (
        job("head.resourceClaims", [CLAIM[0] | {"resourceClaimName": "a"}]),
        ["head.resourceClaims.0", "gpu", "resourceClaimTemplateName"],
    ),
    "claim that the pod has not": (
        job("head.extraContainer", {"resources": {"claims": [{"name": "gpu"}]}}),
        ["head.extraContainer.resources.claims.0", "resourceClaims"],
    ),
    "device without a limit": (
        sidecar(resources={"requests": {"example.com/fpga": 1}}),
        ["head.sidecarContainers.0.resources", "example.com/fpga", "limit"],
    ),
    "request above the limit": (
        init(resources={"requests": {"memory": "2Gi"}, "limits": {"memory": "1900M"}}),
        ["workerGroups.gpu.initContainers.0.resources", "request 2Gi", "at most"],
    ),
    "two kinds of a peer": (
        job("networkPolicy.extraIngress", [{"from": [{"ipBlock": {"cidr": "192.0.2.0/24"}, "podSelector": {}}]}]),
        ["networkPolicy.extraIngress.0.from.0", "ipBlock"],
    ),
    "field of a node": (
        node(fields=[{"key": "spec.unschedulable", "operator": "In", "values": ["true"]}]),
        ["head.affinity", "nodeSelectorTerms.0.matchFields.0", "metadata.name"],
    ),
    "fewest zones, if possible": (
        job("head.topologySpreadConstraints", [SPREAD | {"minDomains": 2}]),
        ["head.topologySpreadConstraints.0", "DoNotSchedule"],
    ),
    "the same spread twice": (
        job("head.topologySpreadConstraints", [SPREAD, SPREAD | {"maxSkew": 2}]),
        ["head.topologySpreadConstraints", "twice"],
    ),
    "label keys without a selector": (
        job("head.topologySpreadConstraints", [SPREAD | {"matchLabelKeys": ["a"]}]),
        ["head.topologySpreadConstraints.0", "labelSelector"],
    ),
    "probe of an init container": (
        init(livenessProbe=TRUE),
        ["workerGroups.gpu.initContainers.0", "livenessProbe", "restartPolicy: Always"],
    ),
    "restart rules alone": (
        init(restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]),
        ["workerGroups.gpu.initContainers.0", "restartPolicyRules"],
    ),
    "label in no values": (node({"key": "a", "operator": "In"}), ["matchExpressions.0", "In without values"]),
    "label that is there with values": (
        node({"key": "a", "operator": "Exists", "values": ["b"]}),
        ["matchExpressions.0", "Exists with values"],
    ),
    "label above a word": (
        node({"key": "a", "operator": "Gt", "values": ["many"]}),
        ["matchExpressions.0", "whole number"],
    ),
    "host alias twice": (
        job("common.hostAliases", [{"ip": "192.0.2.1", "hostnames": [name]} for name in ("a", "b")]),
        ["common.hostAliases", "192.0.2.1 is there twice"],
    ),
    "account by its old name": (
        job("head.extraPodSpec", {"serviceAccount": "a"}),
        ["head.extraPodSpec", "serviceAccountName"],
    ),
    "size of a volume as a number": (
        job("common.volumes", [{"name": "a", "emptyDir": {"sizeLimit": 1024}}]),
        ["common.volumes.0.emptyDir.sizeLimit", "operator"],
    ),
    "size of a volume": (
        job("common.volumes", [{"name": "a", "emptyDir": {"sizeLimit": "1024Mi"}}]),
        ["common.volumes.0.emptyDir.sizeLimit", '"1Gi"'],
    ),
    "part of a Gi for the autoscaler": (
        with_key(SCALING, "cluster.autoscaling.options.resources", {"limits": {"memory": "1.5Gi"}}),
        ["cluster.autoscaling.options.resources.limits.memory", "1536Mi"],
    ),
    "more bytes than can be counted": (
        job("head.resources", {"cpu": "2", "memory": "100000Ei"}),
        ["head.resources.memory", "100000Ei"],
    ),
    "probe of another host": (
        job("head.livenessProbe", {"httpGet": {"port": 80, "host": "192.0.2.1"}}),
        ["head.livenessProbe", "host 192.0.2.1", "podSecurity"],
    ),
    "hook of a sidecar to another host": (
        sidecar(lifecycle={"preStop": {"tcpSocket": {"port": 80, "host": "192.0.2.1"}}}),
        ["head.sidecarContainers.0.lifecycle.preStop", "host 192.0.2.1"],
    ),
    "resource of Ray that is no number": (
        job("common.rayResources", {"fast-disk": "many"}),
        ["common.rayResources", "fast-disk", "number"],
    ),
    "resource of Ray without a name": (job("common.rayResources", {"": 1}), ["common.rayResources", "without a name"]),
    "CPUs of Ray that are no number": (
        job("workerGroups.gpu.rayStartParams", {"num-cpus": "abc"}),
        ["workerGroups.gpu.rayStartParams", "num-cpus", "number"],
    ),
    "parameter that the shell reads": (
        started(**{"temp-dir": "/tmp/a; reboot"}),  # noqa: S108
        ["common.rayStartParams", "temp-dir", "shell"],
    ),
    "variables that are no map": (job("job.runtimeEnv", {"env_vars": False}), ["job.runtimeEnv.env_vars", "map"]),
    "resumption from nowhere": (
        {"job": {"resumeFrom": "demo-0a1b2c3d"}},
        ["job.resumeFrom", "training.storage.kind"],
    ),
    "object of no kind": (job("extraObjects", [{}]), ["extraObjects.0", "kind"]),
    "claim without a name": (
        job("training.storage", {"kind": "fsx", "claimName": ""}),
        ["training.storage.claimName", '""'],
    ),
    "claim with two dots": (job("training.storage.claimName", "a..b"), ["training.storage.claimName", "a..b"]),
    "bucket of one letter": (
        job("training.storage", {"kind": "s3", "uri": "s3://b/a", "claimName": ""}),
        ["training.storage.uri", "3 to 63"],
    ),
    "Git from no image": (
        with_key(GIT, "training.code.git.image", "registry.example/git latest"),
        ["training.code.git.image", "registry/path:tag"],
    ),
    "place by no label": (job("placement.topologyKey", "zone a"), ["placement.topologyKey", "label"]),
    "snapshot without its group": (
        job("head.volumes", [{"name": "a", "ephemeral": {"volumeClaimTemplate": {"spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
            "dataSource": {"kind": "VolumeSnapshot", "name": "a"},
        }}}}]),
        ["head.volumes.0", "dataSource", "apiGroup"],
    ),
    "field of a job that means nothing": (
        job("job.extraSpec", {"entrypointNumGpus": 0}),
        ["job.extraSpec", "entrypointNumGpus"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    refused(*REFUSED[case])


@pytest.mark.parametrize(
    "values",
    [
        init(livenessProbe=TRUE, restartPolicy="Always"),
        mount(readOnly=True, recursiveReadOnly="Enabled"),
        sidecar(resources={"requests": {"cpu": "500m", "memory": "900M"}, "limits": {"cpu": 1, "memory": "1Gi"}}),
        node({"key": "a", "operator": "Gt", "values": ["5"]}, {"key": "b", "operator": "DoesNotExist"}),
        with_key(
            with_key(CLUSTER, "head.extraContainer", {"resources": {"claims": [{"name": "gpu"}]}}),
            "head.resourceClaims",
            CLAIM,
        ),
        job("podSecurity", "privileged") | {"head": {"livenessProbe": {"httpGet": {"port": 80, "host": "192.0.2.1"}}}},
        job("common.rayResources", {"fast-disk": 0.5, "memory": "8Gi", "other": "2"}),
        started(**{"system-config": "'{\"a\": 1}'", "object-store-memory": 10**9, "no-monitor": ""}),
    ],
    ids=repr,
)
def test_accepted(values: dict[str, Any]) -> None:
    assert render(values)


def test_quantities_of_sidecars_are_texts() -> None:
    """As the operator writes them back."""
    head, _ = project(one("RayJob", sidecar(resources={"limits": {"cpu": 1, "example.com/fpga": 2}})))
    assert head["spec"]["containers"][1]["resources"]["limits"] == {"cpu": "1", "example.com/fpga": "2"}


def test_the_autoscaler_is_as_restricted_as_the_rest() -> None:
    cluster = one("RayCluster", with_key(SCALING, "podSecurity", "restricted"))
    assert cluster["spec"]["autoscalerOptions"]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
