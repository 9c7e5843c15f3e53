"""Odd values for every value of the chart and every field of the Kubernetes API below it: each alone, all else right.

The schema of the values says which fields there are, so a field that a later version brings is tried too.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from tests.chart.cases import job, with_key
from tests.chart.every_value import (
    CLUSTER,
    GIT,
    HUB,
    KUEUE,
    NEAR,
    ON_CLUSTER,
    OWN,
    S3,
    SCALING,
    SUBMITTER,
    VOLUME,
    VOLUMES,
)
from tests.helm import CHART

Schema = dict[str, Any]
Wrap = Callable[[Any], Any]

# A text that is no name, a name that is no key, nothing, and too much.
TEXTS = ("", "a b", "A_b", "../a", "a..b", "a" * 300, "1024Mi")
NUMBERS = (-1, 0, 70_000, 2**40)
KEYS = ("", "a b", "A_b", "a/b/c")

# What makes a value right beside the field that is tried, by definition or by definition and field.
BESIDE: dict[str, Any] = {
    "Container": {"image": "registry.example/a:1"},
    "EnvVar": {"value": "1"},
    "Volume": {"emptyDir": {}},
    "VolumeProjection": {"configMap": {"name": "a"}},
    "Probe": {"exec": {"command": ["true"]}},
    "Lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
    "LifecycleHandler": {"exec": {"command": ["true"]}},
    "EnvFromSource": {"configMapRef": {"name": "a"}},
    "EnvVarSource": {"fieldRef": {"fieldPath": "metadata.name"}},
    "LabelSelectorRequirement": {"operator": "Exists"},
    "NodeSelectorRequirement": {"operator": "Exists"},
    "NodeSelectorTerm": {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
    "PodResourceClaim": {"resourceClaimTemplateName": "a"},
    "DownwardAPIVolumeFile": {"fieldRef": {"fieldPath": "metadata.name"}},
    "ObjectFieldSelector": {"fieldPath": "metadata.name"},
    "ConfigMapVolumeSource": {"name": "a"},
    "SecretVolumeSource": {"secretName": "a"},
    "ServicePort": {"name": "a", "targetPort": 1},
    "TypedLocalObjectReference": {"apiGroup": "snapshot.storage.k8s.io"},
    "TypedObjectReference": {"apiGroup": "snapshot.storage.k8s.io"},
    "PersistentVolumeClaimSpec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    "EphemeralVolumeSource": {"volumeClaimTemplate": {"spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}
    }}},
    "VolumeResourceRequirements": {"requests": {"storage": "1Gi"}},
    "ImageVolumeSource": {"reference": "registry.example/a:1"},
    "NetworkPolicyPeer": {"podSelector": {}},
    "HostAlias": {"hostnames": ["a.example"]},
    "Toleration": {"operator": "Exists"},
}  # fmt: skip
VALUES: dict[str, Any] = {
    ".storage": "1Gi",
    "VolumeMount.name": "data",
    "VolumeMount.mountPath": "/data",
    "VolumeDevice.name": "data",
    "VolumeDevice.devicePath": "/dev/a",
    "PodAffinityTerm.topologyKey": "topology.kubernetes.io/zone",
    "TopologySpreadConstraint.topologyKey": "topology.kubernetes.io/zone",
    "TopologySpreadConstraint.whenUnsatisfiable": "DoNotSchedule",
    "HostAlias.ip": "192.0.2.1",
    "IPBlock.cidr": "192.0.2.0/24",
    "NFSVolumeSource.path": "/a",
    "HostPathVolumeSource.path": "/a",
    "ObjectFieldSelector.fieldPath": "metadata.name",
    "ResourceFieldSelector.resource": "limits.cpu",
    "ContainerResizePolicy.resourceName": "cpu",
    "ContainerResizePolicy.restartPolicy": "NotRequired",
    "SeccompProfile.type": "RuntimeDefault",
    "AppArmorProfile.type": "RuntimeDefault",
    "ServiceAccountTokenProjection.path": "token",
    "PodReadinessGate.conditionType": "a.example/ready",
    "ContainerRestartRule.action": "Restart",
    "Sysctl.name": "net.ipv4.tcp_syncookies",
}
# Not of a pod that anybody writes, long gone from Kubernetes, or of another cloud; and types that need nothing below.
SKIPPED = {
    "EphemeralContainer", "ManagedFieldsEntry", "OwnerReference", "Condition", "LoadBalancerIngress", "PortStatus",
    "AWSElasticBlockStoreVolumeSource", "AzureDiskVolumeSource", "AzureFileVolumeSource", "CephFSVolumeSource",
    "CinderVolumeSource", "FCVolumeSource", "FlexVolumeSource", "FlockerVolumeSource", "GCEPersistentDiskVolumeSource",
    "GitRepoVolumeSource", "GlusterfsVolumeSource", "ISCSIVolumeSource", "PhotonPersistentDiskVolumeSource",
    "PortworxVolumeSource", "QuobyteVolumeSource", "RBDVolumeSource", "ScaleIOVolumeSource", "StorageOSVolumeSource",
    "VsphereVirtualDiskVolumeSource", "ServiceStatus",
}  # fmt: skip


def definitions() -> dict[str, Schema]:
    """The definitions of the chart's schema, and the root as ``."""
    schema: Schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    return {**schema["definitions"], "": schema}


class Walk:
    """Every field below a value, with odd values for it."""

    def __init__(self) -> None:
        self.definitions = definitions()
        self.tried: set[tuple[str, str]] = set()

    def named(self, schema: Schema) -> tuple[str, Schema]:
        """(name of the definition that a schema refers to, without group, and the definition)."""
        if "$ref" not in schema:
            return "", schema
        name = schema["$ref"].removeprefix("#/definitions/")
        return name.removesuffix(".orNull").removeprefix("k8s."), self.definitions[name]

    def values(self, schema: Schema | None = None, path: str = "") -> Iterator[tuple[str, Schema]]:
        """(path, schema) of each value of the chart's own; `gpu` stands for the name of any worker group."""
        _, body = self.named(schema or self.definitions[""])
        for field, own in body["properties"].items():
            key, child = f"{path}.{field}" if path else field, own
            if field == "workerGroups":
                key, child = f"{key}.gpu", self.named(own)[1]["additionalProperties"]
            name, inner = self.named(child)
            kubernetes = f"k8s.{name}" in self.definitions or f"k8s.{name}.orNull" in self.definitions
            if "properties" in inner and not kubernetes:
                yield from self.values(child, key)
            else:
                yield key, child

    def least(self, schema: Schema, path: str = "") -> Any:
        """The smallest right value."""
        if path in VALUES:
            return copy.deepcopy(VALUES[path])
        name, schema = self.named(schema)
        if "enum" in schema:
            return next(value for value in schema["enum"] if value is not None)
        kinds = schema.get("type", "object")
        kind = next(one for one in ([kinds] if isinstance(kinds, str) else kinds) if one != "null")
        if kind == "object":
            made = copy.deepcopy(BESIDE.get(name.removesuffix("?"), {}))
            for field in schema.get("required", ()):
                made.setdefault(field, self.least(schema.get("properties", {}).get(field, {}), f"{name}.{field}"))
            return made
        if kind == "array":
            return []
        return {"string": "a", "integer": max(1, schema.get("minimum", 1)), "number": 1, "boolean": True}[kind]

    def odd(self, schema: Schema, path: str, field: str, wrap: Wrap) -> Iterator[tuple[str, Any]]:
        """(path, whole value) for each odd value of each field at and below `schema`, a value called `field`.

        A definition is walked once for values of one name: in the head's `affinity`, not in that of workers again.
        """
        name, body = self.named(schema)
        if not self.enter(name, field):
            return
        kinds = self.kinds(body)
        if "string" in kinds and "enum" not in body:
            yield from ((f"{path} = {text[:20]!r}", wrap(text)) for text in TEXTS)
        if {"integer", "number"} & set(kinds):
            yield from ((f"{path} = {number}", wrap(number)) for number in NUMBERS)
        if "array" in kinds:
            yield f"{path} = []", wrap([])
            item = body.get("items", {})
            one = self.least(item)
            yield f"{path} twice", wrap([one, copy.deepcopy(one)])
            yield from self.odd(item, f"{path}[]", field, lambda value: wrap([value]))
        if "object" not in kinds:
            return
        yield f"{path} = {{}}", wrap({})
        for key, child in body.get("properties", {}).items():
            yield from self.odd(child, f"{path}.{key}", field, self._inside(schema, key, wrap))
        if "properties" in body:
            return
        yield from ((f"{path}.{key!r}", wrap({key: "1"})) for key in KEYS)
        key = next((key for key in ("a", "cpu", "storage") if self._takes(body, key)), "a")
        below = next(iter(body.get("patternProperties", {}).values()), body.get("additionalProperties"))
        inner = below if isinstance(below, dict) else {"type": "string"}
        yield from self.odd(inner, f"{path}.{key}", field, lambda value: wrap({key: value}))

    def enter(self, name: str, field: str) -> bool:
        """Whether a definition is still to be walked for values of this name; a schema without a name always is."""
        if name.removesuffix("?") in SKIPPED or (field, name) in self.tried:
            return False
        self.tried |= {(field, name)} if name else set()
        return True

    def kinds(self, body: Schema) -> list[str]:
        """The types that a schema takes."""
        kinds = body.get("type", "object")
        return [kinds] if isinstance(kinds, str) else list(kinds)

    def _takes(self, schema: Schema, key: str) -> bool:
        """Whether a map takes a key."""
        patterns = schema.get("patternProperties")
        return patterns is None or any(re.search(pattern, key) for pattern in patterns)

    def _inside(self, schema: Schema, field: str, wrap: Wrap) -> Wrap:
        """A field of an object, among what makes the object right; of several kinds of one thing, it is the kind."""
        name, _ = self.named(schema)
        base = self.least(schema)
        kind = name.removesuffix("?")
        if field not in {"name", "prefix"} and kind in {"Volume", "EnvFromSource", "EnvVarSource", "VolumeProjection"}:
            base = {key: value for key, value in base.items() if key == "name"}
        if kind in {"Probe", "LifecycleHandler"} and field in {"exec", "grpc", "httpGet", "tcpSocket", "sleep"}:
            base = {}
        if kind == "EnvVar" and field == "valueFrom":
            base.pop("value", None)
        if kind == "Lifecycle" or not isinstance(base, dict):
            base = {}
        return lambda value: wrap({**copy.deepcopy(base), field: value})


# Values that one below a path is tried in; the longest path counts.
_DATA = with_key(job(), "common.volumes", VOLUMES)
_REDIS = with_key(CLUSTER, "cluster.gcsFaultToleranceOptions.redisAddress", "redis:6379")
AMONG: dict[str, dict[str, Any]] = {
    "": _DATA,
    "common.volumes": job(),
    "auth.enableK8sTokenAuth": CLUSTER,
    "cluster": with_key(SCALING, "common.volumes", VOLUMES),
    "cluster.gcsFaultToleranceOptions": _REDIS,
    "common.scratch": VOLUME,
    "head.scratch": VOLUME,
    "workerGroups.gpu.scratch": VOLUME,
    "job.clusterName": ON_CLUSTER,
    "job.submitter": with_key(SUBMITTER, "job.submitter.volumes", VOLUMES),
    "job.submitter.volumes": SUBMITTER,
    "monitoring.podMonitor": job("monitoring.podMonitor.enabled", True),
    "monitoring.grafanaDashboard": job("monitoring.grafanaDashboard.enabled", True),
    "networkPolicy.extraEgress": job("networkPolicy.limitEgress", True),
    "placement": NEAR,
    "scheduler": KUEUE,
    "training.code.configMapName": OWN,
    "training.code.git": GIT,
    "training.data": with_key(OWN, "training.data", HUB),
    "training.model": with_key(OWN, "training.model", HUB),
    "training.storage.uri": S3,
}


def cases() -> dict[str, dict[str, Any]]:
    """{path and odd value: values}, once each."""
    walk = Walk()
    return {
        name: with_key(AMONG[max((path for path in AMONG if key.startswith(path)), key=len)], key, value)
        for key, schema in walk.values()
        # Of a later KubeRay, which nobody here can judge.
        if not key.startswith("cluster.extraSpec")
        for name, value in walk.odd(schema, key, key.rpartition(".")[2], lambda value: value)
    }
