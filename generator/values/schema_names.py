"""What the API server asks of names in pods and does not say in its schema: a pod with a wrong one is refused each time
the operator makes it, long after the install."""

from __future__ import annotations

from typing import Any

_LABEL = {"pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}
_SUBDOMAIN = {
    "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    "maxLength": 253,
}
_KEY = {"pattern": r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"}
_CONFIG_KEY = {"pattern": r"^[-._a-zA-Z0-9]+$", "maxLength": 253}
_PORT_NUMBER = {"minimum": 1, "maximum": 65535}
_ABSOLUTE = {"pattern": "^/[^:]*$"}

# Type and field of the Kubernetes API → what holds for its value.
NAMES: dict[str, dict[str, Any]] = {
    "Container.name": _LABEL,
    "ContainerPort.name": {"pattern": "^[a-z0-9-]*[a-z][a-z0-9-]*$", "maxLength": 15},
    "ContainerPort.containerPort": _PORT_NUMBER,
    "Volume.name": _LABEL,
    "VolumeMount.name": _LABEL,
    "VolumeMount.mountPath": _ABSOLUTE,
    "LocalObjectReference.name": _SUBDOMAIN,
    "ConfigMapEnvSource.name": _SUBDOMAIN,
    "ConfigMapKeySelector.name": _SUBDOMAIN,
    "ConfigMapKeySelector.key": _CONFIG_KEY,
    "ConfigMapVolumeSource.name": _SUBDOMAIN,
    "SecretEnvSource.name": _SUBDOMAIN,
    "SecretKeySelector.name": _SUBDOMAIN,
    "SecretKeySelector.key": _CONFIG_KEY,
    "SecretVolumeSource.secretName": _SUBDOMAIN,
    "PersistentVolumeClaimVolumeSource.claimName": _SUBDOMAIN,
    "PodResourceClaim.name": _LABEL,
    "PodAffinityTerm.topologyKey": _KEY,
    "TopologySpreadConstraint.topologyKey": _KEY,
    "TopologySpreadConstraint.maxSkew": {"minimum": 1},
    "NodeSelectorRequirement.key": _KEY,
    "LabelSelectorRequirement.key": _KEY,
    "NodeSelectorRequirement.operator": {"enum": ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]},
    "LabelSelectorRequirement.operator": {"enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
}
