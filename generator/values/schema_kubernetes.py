"""What the API server asks of the fields of pods and does not say in its schema: a pod that is against it is refused
each time the operator makes it, long after the install.

From `pkg/apis/core/validation` of Kubernetes 1.37; where an older release asks for more, that. What takes two fields is
in templates/_check_api.tpl of the chart.
"""

from __future__ import annotations

from typing import Any

from generator.values.patterns import DNS_LABEL, ENV_NAME, LABEL_KEY, LABEL_VALUE, NAME, PREFIXED, SUBDOMAIN
from generator.values.pods import INT32

Rule = dict[str, Any]

_LABEL: Rule = {"pattern": DNS_LABEL, "maxLength": 63}
_SUBDOMAIN: Rule = {"pattern": SUBDOMAIN, "maxLength": 253}
_KEY: Rule = {"pattern": LABEL_KEY, "maxLength": 317}
_LABEL_VALUE: Rule = {"pattern": LABEL_VALUE, "maxLength": 63}
# Not by `propertyNames`, which Helm 4.3 reports at the place of some other key.
_LABELS: Rule = {
    "patternProperties": {_KEY["pattern"]: {"type": "string", **_LABEL_VALUE}},
    "additionalProperties": False,
}
# A part of a path that is not `..`; regular expressions of Go look neither ahead nor back.
_PART = r"([^./][^/]*|\.([^./][^/]*)?|\.\.[^/]+)"
_RELATIVE: Rule = {"pattern": rf"^{_PART}(/+{_PART})*/*$"}
_RELATIVE_OR_NOTHING: Rule = {"pattern": rf"^({_PART}(/+{_PART})*/*)?$"}
# A key of a ConfigMap or Secret: one part, without a slash.
_CONFIG_KEY: Rule = {"pattern": r"^([-_a-zA-Z0-9][-._a-zA-Z0-9]*|\.[-_a-zA-Z0-9][-._a-zA-Z0-9]*)$", "maxLength": 253}
_ABSOLUTE: Rule = {"pattern": "^/[^:]*$"}
_PORT: Rule = {"minimum": 1, "maximum": 65535}
_PORT_NAME: Rule = {"pattern": "^([a-z0-9]+-)*[a-z0-9]*[a-z][a-z0-9]*(-[a-z0-9]+)*$", "maxLength": 15}
_SECONDS: Rule = {"minimum": 1, "maximum": INT32}
_ID: Rule = {"minimum": 0, "maximum": INT32}
_MODE: Rule = {"minimum": 0, "maximum": 0o777}
_WEIGHT: Rule = {"minimum": 1, "maximum": 100}
_OCTET = r"(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = rf"{_OCTET}(\.{_OCTET}){{3}}"
_IPV6 = r"[0-9a-fA-F:]*:[0-9a-fA-F:]*[0-9a-fA-F:.]*"
_IP: Rule = {"pattern": rf"^({_IPV4}|{_IPV6})$"}
_CIDR: Rule = {"pattern": rf"^({_IPV4}/([12]?[0-9]|3[0-2])|{_IPV6}/([1-9]?[0-9]|1[01][0-9]|12[0-8]))$"}
_SOME: Rule = {"minLength": 1}
_IMAGE: Rule = {"pattern": r"^\S+$"}
_QUANTITY: Rule = {"type": ["string", "number"]}
_RESOURCES: Rule = {
    "patternProperties": {rf"^(cpu|memory|ephemeral-storage|hugepages-[1-9][0-9]*[KMGT]i)$|{PREFIXED}": _QUANTITY},
    "additionalProperties": False,
}
_STORAGE: Rule = {"patternProperties": {"^storage$": _QUANTITY}, "additionalProperties": False}


def _one_of(*values: str) -> Rule:
    return {"enum": list(values)}


def _list_of(rule: Rule, **more: int) -> Rule:
    return {"items": {"type": "string", **rule}, **more}


# Type of the Kubernetes API, or type and field → what holds for its value.
RULES: dict[str, Rule] = {
    "AppArmorProfile.type": _one_of("Localhost", "RuntimeDefault", "Unconfined"),
    "AppArmorProfile.localhostProfile": _SOME,
    "Capabilities.add": _list_of(_SOME),
    "CSIVolumeSource.driver": {"pattern": f"^(?i:{NAME})$", "maxLength": 63},
    "ConfigMapEnvSource.name": _SUBDOMAIN,
    "ConfigMapKeySelector.key": _CONFIG_KEY,
    "ConfigMapKeySelector.name": _SUBDOMAIN,
    "ConfigMapProjection": {"required": ["name"]},
    "ConfigMapProjection.name": _SUBDOMAIN,
    "ConfigMapVolumeSource": {"required": ["name"]},
    "ConfigMapVolumeSource.defaultMode": _MODE,
    "ConfigMapVolumeSource.name": _SUBDOMAIN,
    "Container.image": _IMAGE,
    "Container.imagePullPolicy": _one_of("Always", "IfNotPresent", "Never"),
    "Container.name": _LABEL,
    "Container.restartPolicy": _one_of("Always", "Never", "OnFailure"),
    "Container.terminationMessagePolicy": _one_of("File", "FallbackToLogsOnError"),
    "ContainerPort.containerPort": _PORT,
    "ContainerPort.hostIP": {"pattern": f"^({_IPV4}|{_IPV6})?$"},
    "ContainerPort.hostPort": {"minimum": 0, "maximum": 65535},
    "ContainerPort.name": _PORT_NAME,
    "ContainerPort.protocol": _one_of("TCP", "UDP", "SCTP"),
    "ContainerResizePolicy.resourceName": _one_of("cpu", "memory"),
    "ContainerResizePolicy.restartPolicy": _one_of("NotRequired", "RestartContainer"),
    "ContainerRestartRule": {"required": ["action", "exitCodes"]},
    "ContainerRestartRule.action": _one_of("Restart"),
    "ContainerRestartRuleOnExitCodes.operator": _one_of("In", "NotIn"),
    "ContainerRestartRuleOnExitCodes.values": {
        "items": {"type": "integer", "minimum": 1, "maximum": 255},
        "minItems": 1,
        "uniqueItems": True,
    },
    "DownwardAPIVolumeFile.mode": _MODE,
    "DownwardAPIVolumeFile.path": _RELATIVE,
    "DownwardAPIVolumeSource.defaultMode": _MODE,
    "EmptyDirVolumeSource.medium": {"pattern": "^(Memory|HugePages(-[1-9][0-9]*[KMGT]i)?)?$"},
    "EnvFromSource.prefix": {"pattern": r"^([-._a-zA-Z][-._a-zA-Z0-9]*)?$"},
    "EnvVar.name": {"pattern": ENV_NAME},
    "EphemeralVolumeSource": {"required": ["volumeClaimTemplate"]},
    "ExecAction": {"required": ["command"]},
    "ExecAction.command": {"minItems": 1},
    "GRPCAction.port": _PORT,
    "HTTPGetAction.scheme": _one_of("HTTP", "HTTPS"),
    "HTTPHeader.name": {"pattern": "^[-A-Za-z0-9]+$"},
    "HostAlias.hostnames": _list_of(_SUBDOMAIN),
    "HostAlias.ip": _IP,
    "HostPathVolumeSource.path": _SOME,
    "HostPathVolumeSource.type": _one_of(
        "", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"
    ),
    "IPBlock.cidr": _CIDR,
    "IPBlock.except": _list_of(_CIDR),
    "ImageVolumeSource": {"required": ["reference"]},
    "ImageVolumeSource.pullPolicy": _one_of("Always", "IfNotPresent", "Never"),
    "ImageVolumeSource.reference": _IMAGE,
    "IntOrString": {"type": ["integer", "string"], **_PORT, **_PORT_NAME},
    "KeyToPath.key": _CONFIG_KEY,
    "KeyToPath.mode": _MODE,
    "KeyToPath.path": _RELATIVE,
    "LabelSelector.matchLabels": _LABELS,
    "LabelSelectorRequirement.key": _KEY,
    "LabelSelectorRequirement.operator": _one_of("In", "NotIn", "Exists", "DoesNotExist"),
    "LabelSelectorRequirement.values": _list_of(_LABEL_VALUE),
    "LocalObjectReference": {"required": ["name"]},
    "LocalObjectReference.name": _SUBDOMAIN,
    "NFSVolumeSource.path": {"pattern": "^/"},
    "NFSVolumeSource.server": _SOME,
    "NetworkPolicyPort.endPort": _PORT,
    "NetworkPolicyPort.protocol": _one_of("TCP", "UDP", "SCTP"),
    "NodeSelector.nodeSelectorTerms": {"minItems": 1},
    "NodeSelectorRequirement.key": _KEY,
    "NodeSelectorRequirement.operator": _one_of("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"),
    "NodeSelectorRequirement.values": _list_of(_LABEL_VALUE),
    "ObjectFieldSelector.apiVersion": _one_of("v1"),
    "ObjectMeta.annotations": {
        "patternProperties": {_KEY["pattern"]: {"type": "string"}},
        "additionalProperties": False,
    },
    "ObjectMeta.finalizers": _list_of({"pattern": PREFIXED}),
    "ObjectMeta.labels": _LABELS,
    "ObjectMeta.name": _LABEL,
    "ObjectMeta.namespace": _LABEL,
    "PersistentVolumeClaimSpec": {"required": ["accessModes", "resources"]},
    "PersistentVolumeClaimSpec.accessModes": {
        "items": {"type": "string", **_one_of("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")},
        "minItems": 1,
    },
    "PersistentVolumeClaimSpec.storageClassName": {
        "pattern": f"^({NAME})?$",
        "maxLength": 253,  # "" is the class of volumes that have none
    },
    "PersistentVolumeClaimSpec.volumeAttributesClassName": _SUBDOMAIN,
    "PersistentVolumeClaimSpec.volumeMode": _one_of("Block", "Filesystem"),
    "PersistentVolumeClaimVolumeSource.claimName": _SUBDOMAIN,
    "PodAffinityTerm.namespaces": _list_of(_LABEL),
    "PodAffinityTerm.topologyKey": _KEY,
    "PodDNSConfig.nameservers": _list_of(_IP, maxItems=3),
    "PodDNSConfig.searches": _list_of(
        {
            "pattern": r"^(\.|[_a-z0-9]([-_a-z0-9]*[_a-z0-9])?(\.[_a-z0-9]([-_a-z0-9]*[_a-z0-9])?)*\.?)$",
            "maxLength": 253,
        },
        maxItems=32,
    ),
    "PodDNSConfigOption": {"required": ["name"]},
    "PodDNSConfigOption.name": _SOME,
    "PodOS.name": _one_of("linux", "windows"),
    "PodReadinessGate.conditionType": _KEY,
    "PodResourceClaim.name": _LABEL,
    "PodResourceClaim.resourceClaimName": _SUBDOMAIN,
    "PodResourceClaim.resourceClaimTemplateName": _SUBDOMAIN,
    "PodSchedulingGate.name": _KEY,
    "PodSecurityContext.fsGroup": _ID,
    "PodSecurityContext.fsGroupChangePolicy": _one_of("OnRootMismatch", "Always"),
    "PodSecurityContext.runAsGroup": _ID,
    "PodSecurityContext.runAsUser": _ID,
    "PodSecurityContext.seLinuxChangePolicy": _one_of("Recursive", "MountOption"),
    "PodSecurityContext.supplementalGroups": {"items": {"type": "integer", **_ID}},
    "PodSecurityContext.supplementalGroupsPolicy": _one_of("Merge", "Strict"),
    "PodSpec.activeDeadlineSeconds": _SECONDS,
    "PodSpec.hostname": _LABEL,
    "PodSpec.hostnameOverride": _SUBDOMAIN | {"maxLength": 64},
    "PodSpec.nodeName": _SUBDOMAIN,
    "PodSpec.preemptionPolicy": _one_of("Never", "PreemptLowerPriority"),
    "PodSpec.subdomain": _LABEL,
    "PreferredSchedulingTerm.weight": _WEIGHT,
    "Probe.failureThreshold": _ID,
    "Probe.initialDelaySeconds": _ID,
    "Probe.periodSeconds": _ID,
    "Probe.successThreshold": _ID,
    "Probe.terminationGracePeriodSeconds": _SECONDS,
    "Probe.timeoutSeconds": _ID,
    "ProjectedVolumeSource.defaultMode": _MODE,
    "ResourceClaim.name": _LABEL,
    "PodSpec.overhead": _RESOURCES,
    "ResourceFieldSelector.containerName": _LABEL,
    "ResourceFieldSelector.divisor": {"type": "string", "pattern": "^(0|1(m|[kMGTPE]|[KMGTPE]i)?)$"},
    "ResourceFieldSelector.resource": {
        "pattern": r"^(limits|requests)\.(cpu|memory|ephemeral-storage|hugepages-[1-9][0-9]*[KMGT]i)$"
    },
    "ResourceRequirements.limits": _RESOURCES,
    "ResourceRequirements.requests": _RESOURCES,
    "SeccompProfile.localhostProfile": _RELATIVE,
    "SeccompProfile.type": _one_of("Localhost", "RuntimeDefault", "Unconfined"),
    "SecretEnvSource.name": _SUBDOMAIN,
    "SecretKeySelector.key": _CONFIG_KEY,
    "SecretKeySelector.name": _SUBDOMAIN,
    "SecretProjection": {"required": ["name"]},
    "SecretProjection.name": _SUBDOMAIN,
    "SecretVolumeSource": {"required": ["secretName"]},
    "SecretVolumeSource.defaultMode": _MODE,
    "SecretVolumeSource.secretName": _SUBDOMAIN,
    "SecurityContext.procMount": _one_of("Default", "Unmasked"),
    "SecurityContext.runAsGroup": _ID,
    "SecurityContext.runAsUser": _ID,
    "ServiceAccountTokenProjection.expirationSeconds": {"minimum": 600, "maximum": 2**32},
    "ServiceAccountTokenProjection.path": _RELATIVE,
    "ServicePort": {"required": ["name", "port"]},  # those of Ray are added, so each needs a name
    "ClientIPConfig.timeoutSeconds": {"minimum": 1, "maximum": 86400},
    "ServicePort.appProtocol": _KEY,
    "ServicePort.name": _LABEL,
    "ServicePort.nodePort": _PORT,
    "ServicePort.port": _PORT,
    "ServicePort.protocol": _one_of("TCP", "UDP", "SCTP"),
    "ServiceSpec.clusterIP": {"pattern": f"^(None|{_IPV4}|{_IPV6})$"},
    "ServiceSpec.externalIPs": _list_of(_IP),
    "ServiceSpec.externalTrafficPolicy": _one_of("Cluster", "Local"),
    "ServiceSpec.healthCheckNodePort": _PORT,
    "ServiceSpec.internalTrafficPolicy": _one_of("Cluster", "Local"),
    "ServiceSpec.ipFamilies": _list_of(_one_of("IPv4", "IPv6"), maxItems=2, uniqueItems=True),
    "ServiceSpec.ipFamilyPolicy": _one_of("SingleStack", "PreferDualStack", "RequireDualStack"),
    "ServiceSpec.loadBalancerClass": _KEY,
    "ServiceSpec.loadBalancerSourceRanges": _list_of(_CIDR),
    "ServiceSpec.sessionAffinity": _one_of("ClientIP", "None"),
    "ServiceSpec.trafficDistribution": _one_of("PreferClose", "PreferSameZone", "PreferSameNode"),
    "ServiceSpec.type": _one_of("ClusterIP", "NodePort", "LoadBalancer"),
    "SleepAction.seconds": _ID,
    "Sysctl.name": {"pattern": r"^[a-z0-9]([-_a-z0-9]*[a-z0-9])?([./][a-z0-9]([-_a-z0-9]*[a-z0-9])?)*$"},
    "TopologySpreadConstraint.maxSkew": _SECONDS,
    "TopologySpreadConstraint.minDomains": _SECONDS,
    "TopologySpreadConstraint.nodeAffinityPolicy": _one_of("Honor", "Ignore"),
    "TopologySpreadConstraint.nodeTaintsPolicy": _one_of("Honor", "Ignore"),
    "TopologySpreadConstraint.topologyKey": _KEY,
    "TopologySpreadConstraint.whenUnsatisfiable": _one_of("DoNotSchedule", "ScheduleAnyway"),
    "TypedLocalObjectReference.apiGroup": _SUBDOMAIN,
    "TypedObjectReference.apiGroup": _SUBDOMAIN,
    "Volume.name": _LABEL,
    "VolumeDevice.devicePath": _ABSOLUTE,
    "VolumeDevice.name": _LABEL,
    "VolumeMount.mountPath": _ABSOLUTE,
    "VolumeMount.mountPropagation": _one_of("None", "HostToContainer", "Bidirectional"),
    "VolumeMount.name": _LABEL,
    "VolumeMount.recursiveReadOnly": _one_of("Disabled", "IfPossible", "Enabled"),
    "VolumeMount.subPath": _RELATIVE_OR_NOTHING,
    "VolumeMount.subPathExpr": _RELATIVE_OR_NOTHING,
    "VolumeResourceRequirements": {"required": ["requests"]},
    "VolumeResourceRequirements.limits": _STORAGE,
    "VolumeResourceRequirements.requests": _STORAGE | {"required": ["storage"]},
    "WeightedPodAffinityTerm.weight": _WEIGHT,
}

# All fields of a type that can be set: others are the API server's, not KubeRay's, or not for the oldest Kubernetes.
FIELDS: dict[str, tuple[str, ...]] = {
    "EnvVarSource": ("configMapKeyRef", "fieldRef", "resourceFieldRef", "secretKeyRef"),
    "ObjectMeta": ("annotations", "finalizers", "labels", "name", "namespace"),
    "Service": ("apiVersion", "kind", "metadata", "spec"),
    "TypedObjectReference": ("apiGroup", "kind", "name"),
    # `clusterIP` is enough, and the API server asks for both to agree; the selector is the operator's.
    "ServiceSpec": (
        "allocateLoadBalancerNodePorts",
        "clusterIP",
        "externalIPs",
        "externalTrafficPolicy",
        "healthCheckNodePort",
        "internalTrafficPolicy",
        "ipFamilies",
        "ipFamilyPolicy",
        "loadBalancerClass",
        "loadBalancerIP",
        "loadBalancerSourceRanges",
        "ports",
        "publishNotReadyAddresses",
        "sessionAffinity",
        "sessionAffinityConfig",
        "trafficDistribution",
        "type",
    ),
    "VolumeProjection": ("configMap", "downwardAPI", "secret", "serviceAccountToken"),
}

# Fields of a type that cannot be set, as the images are for Linux.
WITHOUT: dict[str, str] = {"PodSecurityContext": "windowsOptions", "SecurityContext": "windowsOptions"}

# Texts that may be "": it is another thing than nothing, or the chart leaves it out ("ray-train-dlc.tidy"). Elsewhere
# the operator does when it writes a RayJob back, a lasting difference to Git.
EMPTY = {
    "Container.workingDir",
    "ContainerPort.hostIP",
    "EnvVar.value",
    "GRPCAction.service",
    "HTTPHeader.value",
    "HostPathVolumeSource.type",
    "PersistentVolumeClaimSpec.storageClassName",
    "PodDNSConfigOption.value",
    "Sysctl.value",
    "Toleration.effect",
    "Toleration.key",
    "Toleration.operator",
    "Toleration.value",
    "VolumeMount.subPath",
    "VolumeMount.subPathExpr",
}
