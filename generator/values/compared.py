"""Where the values of KubeRay's own chart `ray-cluster` (1.7.0) are in this one."""

from __future__ import annotations

# Its value → ours. `<place>` is `head`, `worker` or `additionalWorkerGroups.<name>` there, and `head` or
# `workerGroups.<name>` (or `common`, for all of them) here.
RAY_CLUSTER_CHART: dict[str, str] = {
    "image.repository": "image.repository",
    "image.tag": "image.tag",
    "image.pullPolicy": "image.pullPolicy",
    "nameOverride": "nameOverride",
    "fullnameOverride": "nameOverride",
    "imagePullSecrets": "common.imagePullSecrets",
    "annotations": "commonAnnotations",
    "common.containerEnv": "common.env",
    "service.type": "head.serviceType",
    "gcsFaultTolerance": "cluster.gcsFaultToleranceOptions",
    "head.rayVersion": "rayVersion",
    "head.enableInTreeAutoscaling": "cluster.autoscaling.enabled",
    "head.autoscalerOptions": "cluster.autoscaling.options",
    "head.headService": "head.service",
    "worker.groupName": "workerGroups",
    "worker.disabled": "workerGroups",
    "worker.replicas": "workerGroups.<name>.replicas",
    "worker.minReplicas": "workerGroups.<name>.minReplicas",
    "worker.maxReplicas": "workerGroups.<name>.maxReplicas",
    "worker.numOfHosts": "workerGroups.<name>.numOfHosts",
    "<place>.image": "common.image.repository",
    "<place>.labels": "common.labels",
    "<place>.annotations": "common.annotations",
    "<place>.initContainers": "common.initContainers",
    "<place>.serviceAccountName": "common.serviceAccountName",
    "<place>.restartPolicy": "common.restartPolicy",
    "<place>.runtimeClassName": "common.runtimeClassName",
    "<place>.containerEnv": "common.env",
    "<place>.envFrom": "common.envFrom",
    "<place>.ports": "common.ports",
    "<place>.resources": "head.resources",
    "<place>.resourceClaims": "common.resourceClaims",
    "<place>.nodeSelector": "common.nodeSelector",
    "<place>.tolerations": "common.tolerations",
    "<place>.affinity": "common.affinity",
    "<place>.podSecurityContext": "common.podSecurityContext",
    "<place>.securityContext": "common.securityContext",
    "<place>.volumes": "common.volumes",
    "<place>.volumeMounts": "common.volumeMounts",
    "<place>.sidecarContainers": "common.sidecarContainers",
    "<place>.command": "common.command",
    "<place>.args": "common.args",
    "<place>.lifecycle": "common.lifecycle",
    "<place>.priorityClassName": "common.priorityClassName",
    "<place>.priority": "common.priorityClassName",
    "<place>.topologySpreadConstraints": "common.topologySpreadConstraints",
    "<place>.dnsConfig": "common.dnsConfig",
    "<place>.rayStartParams": "common.rayStartParams",
    "<place>.initArgs": "common.rayStartParams",
}
# Fields of KubeRay and Kubernetes that its chart cannot express → where they are here.
BEYOND: dict[str, str] = {
    "labels of the RayCluster or RayJob": "commonLabels",
    "authOptions": "auth.mode",
    "upgradeStrategy": "cluster.upgradeStrategy",
    "managedBy": "job.managedBy",
    "NetworkPolicy": "networkPolicy.enabled",
    "resources of a group in Ray": "common.rayResources",
    "labels of a group in Ray": "common.rayLabels",
    "idleTimeoutSeconds": "workerGroups.<name>.idleTimeoutSeconds",
    "headServiceAnnotations": "head.serviceAnnotations",
    "livenessProbe, readinessProbe": "common.livenessProbe",
    "terminationGracePeriodSeconds": "common.terminationGracePeriodSeconds",
    "schedulerName": "common.schedulerName",
    "hostNetwork, schedulingGates, shareProcessNamespace": "common.extraPodSpec",
    "tlsOptions, networkPolicy, historyServerOptions (KubeRay 1.7)": "cluster.extraSpec",
    "PodMonitor": "monitoring.podMonitor.enabled",
}


def tables() -> str:
    """Both as Markdown."""
    lines = ["| `ray-cluster` | here |", "|---|---|"]
    lines += [f"| `{theirs}` | `{_here(theirs, ours)}` |" for theirs, ours in RAY_CLUSTER_CHART.items()]
    lines += ["", "What `ray-cluster` cannot express:", "", "| field | here |", "|---|---|"]
    lines += [f"| {field} | `{_here(field, ours)}` |" for field, ours in BEYOND.items()]
    return "\n".join(lines) + "\n"


def _here(theirs: str, ours: str) -> str:
    if not theirs.startswith("<place>"):
        return ours
    return f"<place>.{ours.partition('.')[2].removesuffix('.repository')}"
