"""Each value of the chart once, with a change of it and what that change must do; `test_names` misses none."""

from __future__ import annotations

from typing import Any

from tests.chart.cases import group, job, with_key

# Value before (None: of cases.job()) and another value for the key.
Change = tuple[dict[str, Any] | None, Any]

S3 = job("training.storage", {"kind": "s3", "uri": "s3://bucket/one"})
CPU = job(gpus=0, efa=0, processesPerNode=2)
SUBMITTER = job("job.submissionMode", "K8sJobMode")
KUEUE = job("scheduler", {"kind": "kueue", "queue": "gpus"})
NEAR = job("placement.topologyKey", "topology.kubernetes.io/zone")
DASHBOARD = job("monitoring.grafanaDashboard.enabled", True)
COMMIT = "0123456789abcdef0123456789abcdef01234567"
GIT = job("training.code", {"git": {"url": "https://git.example/code.git", "revision": COMMIT}, "module": "own"})
MODULE = job("training.code.module", "own")
OWN = job("training.code", {"configMapName": "own-code", "module": "own"})
HUB = {"uri": "owner/name", "revision": COMMIT, "secretRef": {"name": "hub", "key": "token"}}
VOLUMES = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
VOLUME = job("common.scratch", {"storageClassName": "nvme", "size": "10Gi"})
TOLERATION = [{"key": "a", "operator": "Exists"}]
DIGEST = "sha256:" + "a" * 64
PROBE = {"httpGet": {"path": "/api/healthz", "port": 52365}}

# Fields of a pod: those that every place takes.
POD_FIELDS: dict[str, Any] = {
    "image.repository": "registry.example/ray",
    "image.tag": "train-ml-cuda-v1.1.1",
    "image.digest": DIGEST,
    "extraResources": {"example.com/fpga": 1},
    "env": {"A": "1"},
    "envFrom": [{"secretRef": {"name": "tokens"}}],
    "nodeSelector": {"a": "1"},
    "tolerations": TOLERATION,
    "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
    ]}},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    ],
    "priorityClassName": "high",
    "runtimeClassName": "nvidia",
    "schedulerName": "other",
    "imagePullSecrets": [{"name": "a"}],
    "serviceAccountName": "other",
    "automountServiceAccountToken": True,
    "terminationGracePeriodSeconds": 121,
    "restartPolicy": "OnFailure",
    "podSecurityContext": {"fsGroup": 2000},
    "securityContext": {"readOnlyRootFilesystem": True},
    "dnsPolicy": "Default",
    "dnsConfig": {"options": [{"name": "ndots", "value": "2"}]},
    "hostAliases": [{"ip": "192.0.2.1", "hostnames": ["registry.example"]}],
    "volumes": VOLUMES,
    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    "initContainers": [{"name": "first", "image": "registry.example/first:1"}],
    "sidecarContainers": [{"name": "beside", "image": "registry.example/beside:1"}],
    "ports": [{"name": "debug", "containerPort": 5678}],
    "command": ["nvidia-smi"],
    "args": ["-L"],
    "lifecycle": {"postStart": {"exec": {"command": ["true"]}}},
    "livenessProbe": PROBE,
    "readinessProbe": PROBE,
    "startupProbe": PROBE,
    "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}],
    "extraPodSpec": {"shareProcessNamespace": True},
    "extraContainer": {"tty": True},
}  # fmt: skip
# Those of pods that run `ray start`, and mount what the training needs.
RAY_FIELDS: dict[str, Any] = {
    "scratch.sizeLimit": "10Gi",
    "rayStartParams": {"object-store-memory": 1000000},
    "rayResources": {"fast-disk": 1},
    "rayLabels": {"tier": "fast"},
}
# These two only go together.
VOLUME_FIELDS: dict[str, Change] = {
    "scratch.storageClassName": (VOLUME, "other"),
    "scratch.size": (VOLUME, "20Gi"),
}
NEUTRAL_POD_FIELDS: dict[str, Any] = {"labels": {"a": "1"}, "annotations": {"a": "1"}}

# Each value that is a part of the training.
FUNCTIONAL: dict[str, Change] = {
    "nameOverride": (None, "other"),
    "clusterName": (None, "other"),
    "image.repository": (None, "registry.example/ray"),
    "image.tag": (None, "train-ml-cuda-v1.1.1"),
    "image.digest": (None, DIGEST),
    "image.pullPolicy": (None, "Always"),
    "rayVersion": (None, "2.58.1"),
    "serviceAccount.create": (None, False),
    "serviceAccount.name": (None, "other"),
    "auth.mode": (None, "disabled"),
    "auth.secretName": (None, "token"),
    "podSecurity": (None, "restricted"),
    **{f"common.{path}": (None, value) for path, value in (POD_FIELDS | RAY_FIELDS).items()},
    "common.volumeMounts": (job("common.volumes", VOLUMES), POD_FIELDS["volumeMounts"]),
    **{f"common.{path}": change for path, change in VOLUME_FIELDS.items()},
    "head.resources": (None, {"cpu": "3", "memory": "8Gi"}),
    "head.serviceType": (None, "ClusterIP"),
    "head.service": (None, {"spec": {"type": "ClusterIP"}}),
    "workerGroups": (None, {"other": group()}),
    "workerGroups.<name>.replicas": (None, 3),
    "workerGroups.<name>.gpus": (None, 3),
    "workerGroups.<name>.processesPerNode": (CPU, 3),
    "workerGroups.<name>.efa": (None, 0),
    "workerGroups.<name>.transport.protocol": (None, "RDMA"),
    "workerGroups.<name>.transport.gdrdma": (None, True),
    "workerGroups.<name>.resources": (None, {"cpu": "46", "memory": "161Gi"}),
    "workerGroups.<name>.numOfHosts": (None, 2),
    "placement.topologyKey": (None, "topology.kubernetes.io/zone"),
    "placement.required": (NEAR, True),
    "scheduler.kind": (KUEUE, "volcano"),
    "scheduler.queue": (KUEUE, "other"),
    "scheduler.priorityClass": (KUEUE, "high"),
    "training.preset": (None, "other"),
    "training.args": (None, {"steps": 31}),
    "training.storage.kind": (None, "fsx"),
    "training.storage.uri": (S3, "s3://bucket/two"),
    "training.storage.claimName": (None, "other"),
    "training.storage.subPath": (None, "below"),
    **{
        f"training.{source}.{path}": change
        for source in ("model", "data")
        for path, change in {
            "uri": (with_key(OWN, f"training.{source}", HUB), "owner/other"),
            "revision": (with_key(OWN, f"training.{source}", HUB), COMMIT[::-1]),
            "secretRef.name": (with_key(OWN, f"training.{source}", HUB), "other"),
            "secretRef.key": (with_key(OWN, f"training.{source}", HUB), "other"),
        }.items()
    },
    "training.code.files": (MODULE, {"own.py": "print(1)\n"}),
    "training.code.configMapName": (MODULE, "own-code"),
    "training.code.git.url": (GIT, "https://git.example/other.git"),
    "training.code.git.revision": (GIT, COMMIT[::-1]),
    "training.code.git.path": (GIT, "src"),
    "training.code.git.image": (GIT, "registry.example/git:1"),
    "training.code.git.secretName": (GIT, "git"),
    "training.code.module": (None, "own"),
    "job.runId": (None, "again"),
    "job.resumeFrom": (None, "demo-0a1b2c3d"),
    "job.backoffLimit": (None, 3),
    "job.activeDeadlineSeconds": (None, 1000000),
    "job.preRunningDeadlineSeconds": (None, 1000),
    "job.ttlSecondsAfterFinished": (None, 60),
    "job.submissionMode": (None, "SidecarMode"),
    "job.submitter.resources": (SUBMITTER, {"cpu": "1"}),
    "job.submitter.backoffLimit": (SUBMITTER, 3),
    "job.runtimeEnv": (None, {"env_vars": {"A": "1"}}),
    "job.metadata": (None, {"a": "1"}),
    "job.managedBy": (None, "kueue.x-k8s.io/multikueue"),
    "job.extraSpec": (None, {"entrypointNumCpus": 1}),
    "cluster.extraSpec": (None, {"networkPolicy": {"mode": "DenyAll"}}),
}
# Each value that is not: a change of it must not start a training.
NEUTRAL: dict[str, Change] = {
    "commonLabels": (None, {"a": "1"}),
    "commonAnnotations": (None, {"a": "1"}),
    **{f"common.{path}": (None, value) for path, value in NEUTRAL_POD_FIELDS.items()},
    "head.serviceAnnotations": (None, {"a": "1"}),
    "serviceAccount.annotations": (None, {"a": "1"}),
    "job.onChange": (None, "keep"),
    "networkPolicy.enabled": (None, False),
    "networkPolicy.operatorNamespace": (None, "kuberay"),
    "networkPolicy.limitEgress": (None, True),
    "networkPolicy.extraIngress": (None, [{"from": [{"podSelector": {}}]}]),
    "networkPolicy.extraEgress": (job("networkPolicy.limitEgress", True), [{"to": [{"podSelector": {}}]}]),
    "monitoring.podMonitor.enabled": (None, True),
    "monitoring.podMonitor.labels": (job("monitoring.podMonitor.enabled", True), {"release": "prometheus"}),
    "monitoring.podMonitor.interval": (job("monitoring.podMonitor.enabled", True), "30s"),
    "monitoring.grafanaDashboard.enabled": (None, True),
    "monitoring.grafanaDashboard.labels": (DASHBOARD, {"loaded": "yes"}),
    "monitoring.grafanaDashboard.annotations": (DASHBOARD, {"grafana_folder": "Ray"}),
    "tests.enabled": (None, False),
    "tests.timeoutSeconds": (None, 60),
    "extraObjects": (None, [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "more"}}]),
}
CLUSTER = job("mode", "cluster")
SCALING = with_key(CLUSTER, "cluster.autoscaling", {"enabled": True, "options": {"version": "v2"}})
# What only a standing cluster has.
OF_A_CLUSTER: dict[str, Change] = {
    "auth.enableK8sTokenAuth": (CLUSTER, True),
    "cluster.upgradeStrategy": (CLUSTER, "None"),
    "cluster.autoscaling.enabled": (CLUSTER, True),
    "cluster.autoscaling.options": (SCALING, {"version": "v2", "idleTimeoutSeconds": 300}),
    "cluster.gcsFaultToleranceOptions": (CLUSTER, {"redisAddress": "redis:6379"}),
    "workerGroups.<name>.minReplicas": (SCALING, 1),
    "workerGroups.<name>.maxReplicas": (SCALING, 4),
    "workerGroups.<name>.idleTimeoutSeconds": (SCALING, 300),
}
ON_CLUSTER = with_key(job("mode", "jobOnCluster"), "job.clusterName", "demo")
OF_A_JOB_ON_A_CLUSTER: dict[str, Change] = {"job.clusterName": (ON_CLUSTER, "other")}
ELSEWHERE = {"mode", "job.name"}


def changed(path: str, before: dict[str, Any], value: Any) -> dict[str, Any]:
    """`before` with the value set; `<name>` stands for the group `gpu`."""
    return with_key(before, path.replace("<name>", "gpu"), value)
