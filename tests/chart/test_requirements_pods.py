"""Rules of templates/_requirements.tpl about what the fields of a pod are together, and about Pod Security."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chart.cases import group, job, with_key
from tests.chart.every_value import CLUSTER, COMMIT, GIT, HUB, ON_CLUSTER, OWN, SCALING, SUBMITTER, VOLUMES
from tests.chart.test_requirements import problems, refused
from tests.helm import one, render
from tests.project_pods import container, project

RESTRICTED = job("podSecurity", "restricted")
CLOSED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
DIGEST = "sha256:" + "b" * 64


def beside(**fields: Any) -> list[dict[str, Any]]:
    return [{"name": "beside", "image": "registry.example/beside:1", **fields}]


def mounted(path: str, name: str = "data") -> dict[str, Any]:
    return job("common", {"volumes": VOLUMES, "volumeMounts": [{"name": name, "mountPath": path}]})


# (values, words that the one message must hold)
REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "mount without its volume": (mounted("/data", "other"), ["common.volumeMounts", "other", "volumes"]),
    "mount over the root": (mounted("/"), ["common.volumeMounts", "covers /opt/ray-train"]),
    "mount over a parent": (mounted("/mnt"), ["/mnt covers /mnt/ray-train"]),
    "mount with two slashes": (mounted("//dev//shm"), ["/dev/shm"]),  # noqa: S108
    "mount that climbs": (mounted("/a/../mnt/ray-train"), ["/mnt/ray-train is the chart's"]),
    "two mounts at one path": (
        job("head", {"volumes": VOLUMES, "volumeMounts": [{"name": "data", "mountPath": p} for p in ("/a", "/a/")]}),
        ["head.volumeMounts", "/a is there twice"],
    ),
    "two volumes with one name": (job("common.volumes", VOLUMES * 2), ["common.volumes", "data is there twice"]),
    "volume of two kinds": (
        job("head.volumes", [{"name": "a", "emptyDir": {}, "configMap": {"name": "a"}}]),
        ["head.volumes", "configMap, emptyDir"],
    ),
    "volume of no kind": (job("head.volumes", [{"name": "a"}]), ["head.volumes", "0 kinds"]),
    "mount of a sidecar": (
        job("head.sidecarContainers", beside(volumeMounts=[{"name": "a", "mountPath": "/a"}])),
        ["head.sidecarContainers", "beside", "a is no volume"],
    ),
    "container with a name of the operator": (
        job("workerGroups.gpu.initContainers", [{"name": "wait-gcs-ready", "image": "a"}]),
        ["workerGroups.gpu.initContainers", "wait-gcs-ready"],
    ),
    "two containers with one name": (
        job("common", {"sidecarContainers": beside(), "initContainers": beside()}),
        ["common.initContainers", "beside"],
    ),
    "container without an image": (job("head.sidecarContainers", [{"name": "a"}]), ["head.sidecarContainers", "image"]),
    "dashboard elsewhere": (
        job("head.ports", [{"name": "dashboard", "containerPort": 8266}]),
        ["head.ports", "dashboard", "8265"],
    ),
    "port twice": (
        job("common.ports", [{"containerPort": 5678}, {"name": "a", "containerPort": 5678}]),
        ["common.ports", "5678/TCP"],
    ),
    "probe without a handler": (job("head.livenessProbe", {"periodSeconds": 5}), ["head.livenessProbe", "httpGet"]),
    "probe with two": (
        job("head.startupProbe", {"exec": {"command": ["a"]}, "tcpSocket": {"port": 1}}),
        ["head.startupProbe"],
    ),
    "hook without a handler": (job("common.lifecycle", {"preStop": {}}), ["common.lifecycle.preStop"]),
    "source without a name": (job("common.envFrom", [{"secretRef": {"optional": True}}]), ["common.envFrom", "name"]),
    "source of nothing": (job("common.envFrom", [{"prefix": "A_"}]), ["common.envFrom"]),
    "variable from nowhere": (job("common.env", {"A": {}}), ["common.env", "A has 0 sources"]),
    "no DNS at all": (job("head.dnsPolicy", "None"), ["head.dnsPolicy", "nameservers"]),
    "GPUs for Ray to offer": (job(rayResources={"GPU": 8}), ["workerGroups.gpu.rayResources", "GPU"]),
    "parameters beside resources": (
        job(rayResources={"a": 1}, rayStartParams={"num-cpus": 4}),
        ["workerGroups.gpu.rayStartParams", "num-cpus", "rayResources"],
    ),
    "memory beside resources of common": (
        job("common.rayResources", {"a": 1}) | {"head": {"rayStartParams": {"memory": 10**9}}},
        ["head.rayStartParams", "memory"],
    ),
    "fraction in a sidecar": (
        job("head.sidecarContainers", beside(resources={"limits": {"cpu": "0.5"}})),
        ["head.sidecarContainers.0.resources.limits.cpu", "0.5"],
    ),
    "size of scratch": (job("common.scratch", {"sizeLimit": "1024Mi"}), ["common.scratch.sizeLimit", '"1Gi"']),
    "submitter without its mode": (job("job.submitter.backoffLimit", 3), ["job.submitter", "HTTPMode", "K8sJobMode"]),
    "variables as a list": (job("job.runtimeEnv", {"env_vars": ["A=1"]}), ["job.runtimeEnv.env_vars", "not a map"]),
    "variable as a map": (job("job.runtimeEnv", {"env_vars": {"A": {"b": 1}}}), ["job.runtimeEnv.env_vars", "A is"]),
    "protocols that differ": (
        job() | {"workerGroups": {n: group(transport={"protocol": p}) for n, p in (("a", "RDMA"), ("b", "SENDRECV"))}},
        ["workerGroups", "transport protocol", "RDMA", "SENDRECV"],
    ),
    "nodes that come together, without storage": (
        {"workerGroups": {"gpu": group(replicas=1, numOfHosts=2)}},
        ["training.storage.kind", "2 nodes"],
    ),
    "queue by hand": (job("commonLabels", {"kueue.x-k8s.io/queue-name": "a"}), ["commonLabels", "queue"]),
    "label of the chart for Prometheus": (
        job("monitoring.podMonitor.labels", {"app.kubernetes.io/instance": "a"}),
        ["monitoring.podMonitor.labels", "app.kubernetes.io/instance"],
    ),
    "annotation of the chart": (
        job("commonAnnotations", {"ray-train-dlc/content-sha256": "a"}),
        ["commonAnnotations", "content-sha256"],
    ),
    "annotation of keep": (
        job("job.onChange", "keep") | {"commonAnnotations": {"helm.sh/resource-policy": "delete"}},
        ["commonAnnotations", "helm.sh/resource-policy", "job.onChange"],
    ),
    "model by a branch": (
        with_key(OWN, "training.model", HUB | {"revision": "main"}),
        ["training.model.revision", '"main"'],
    ),
    "model without a revision": (
        with_key(OWN, "training.model.uri", "owner/name"),
        ["training.model.revision", "owner/name"],
    ),
    "model by https": (
        with_key(OWN, "training.model.uri", "https://hub.example/a"),
        ["training.model.uri", "absolute path"],
    ),
    "revision of a path": (
        with_key(OWN, "training.data", {"uri": "/data", "revision": COMMIT}),
        ["training.data.revision", "no effect"],
    ),
    "token for a bucket": (
        with_key(OWN, "training.data", {"uri": "s3://bucket/a", "secretRef": {"name": "a"}}),
        ["training.data.secretRef"],
    ),
    "token twice": (
        with_key(OWN, "training.model", HUB) | {"common": {"env": {"HF_TOKEN": "x"}}},
        ["common.env", "HF_TOKEN", "secretRef"],
    ),
    "token for another cluster": (
        with_key(with_key(ON_CLUSTER, "training.code.module", "own"), "training.model", HUB),
        ["training.model.secretRef", "holds the cluster"],
    ),
    "privileged container": (
        job("common.securityContext", {"privileged": True}),
        ["common.securityContext", "privileged", "podSecurity"],
    ),
    "network of the node": (job("head.extraPodSpec", {"hostNetwork": True}), ["head.extraPodSpec", "hostNetwork"]),
    "port of the node": (
        job("head.ports", [{"name": "a", "containerPort": 1234, "hostPort": 1234}]),
        ["head.ports", "hostPort 1234"],
    ),
    "capability": (
        job("common.securityContext", {"capabilities": {"add": ["IPC_LOCK"]}}),
        ["common.securityContext", "IPC_LOCK", "baseline"],
    ),
    "privileged sidecar": (
        job("head.sidecarContainers", beside(securityContext={"privileged": True})),
        ["head.sidecarContainers", "beside", "privileged"],
    ),
    "system call filter off": (
        job("common.podSecurityContext", {"seccompProfile": {"type": "Unconfined"}}),
        ["common.podSecurityContext", "seccompProfile"],
    ),
    "root under restricted": (
        with_key(RESTRICTED, "common.podSecurityContext", {"runAsUser": 0}),
        ["common.podSecurityContext", "runAsUser 0"],
    ),
    "open sidecar under restricted": (
        with_key(RESTRICTED, "head.sidecarContainers", beside()),
        ["head.sidecarContainers", "allowPrivilegeEscalation", "drop: [ALL]"],
    ),
    "kind of volume under restricted": (
        with_key(RESTRICTED, "head.volumes", [{"name": "a", "nfs": {"server": "a", "path": "/"}}]),
        ["head.volumes", "nfs"],
    ),
    "privileged autoscaler": (
        with_key(SCALING, "cluster.autoscaling.options", {"version": "v2", "securityContext": {"privileged": True}}),
        ["cluster.autoscaling.options.securityContext", "privileged"],
    ),
    "submitter that is always restarted": (
        with_key(SUBMITTER, "job.submitter.restartPolicy", "Always"),
        ["job.submitter.restartPolicy", "OnFailure"],
    ),
    "place for nothing": (job("placement.required", True), ["placement.required", "topologyKey"]),
    "one node for all workers": (
        job("placement.topologyKey", "kubernetes.io/hostname"),
        ["placement.topologyKey", "kubernetes.io/hostname"],
    ),
    "Git server with a wrong port": (
        with_key(GIT, "training.code.git.url", "https://git.example:abc/x"),
        ["training.code.git.url", "https://host/path"],
    ),
    "Ray release of twenty digits": (job("rayVersion", "9" * 20 + ".0.0"), ["rayVersion", "not a release"]),
    "control character in code": (
        job("training.code.files", {"own.py": "import a\x7fb\n"}),
        ["training.code.files.own.py", "after \"import a\""],
    ),
    "line break of Unicode": (
        job("common.env", {"A": "zero\none\u2028two"}),
        ["common.env.A", 'after "zero\\none"'],
    ),
    "control character in an object": (
        job("extraObjects", [{"kind": "ConfigMap", "data": {"b": "\x7f"}}]),
        ["extraObjects.0.data.b"],
    ),
    "control character in a key": (job("commonAnnotations", {}) | {"global": {"a\x7f": 1}}, ["global", "a?"]),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    refused(*REFUSED[case])


@pytest.mark.parametrize(
    "values",
    [
        mounted("/mnt/data"),
        job("podSecurity", "privileged")
        | {"common": {"securityContext": {"privileged": True}, "extraPodSpec": {"hostNetwork": True}}},
        job("podSecurity", "privileged") | {"head": {"volumes": [{"name": "a", "hostPath": {"path": "/a"}}]}},
        with_key(RESTRICTED, "head.sidecarContainers", beside(securityContext=CLOSED)),
        with_key(
            with_key(SCALING, "podSecurity", "restricted"),
            "cluster.autoscaling.options",
            {"version": "v2", "securityContext": CLOSED},
        ),
        job("head.ports", [{"name": "dashboard", "containerPort": 8265, "protocol": "TCP"}]),
        job("head", {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.53"]}}),
        with_key(OWN, "training.model", HUB),
        with_key(OWN, "training.data.uri", "/mnt/ray-train/corpus"),
        job() | {"workerGroups": {"a": group(efa=4), "b": group(efa=1)}},
        with_key(
            with_key(CLUSTER, "head.extraContainer", {"resources": {"claims": [{"name": "gpu"}]}}),
            "head.resourceClaims",
            [{"name": "gpu", "resourceClaimTemplateName": "gpus"}],
        ),
    ],
    ids=repr,
)
def test_accepted(values: dict[str, Any]) -> None:
    assert render(values)


def test_what_common_has_is_told_once() -> None:
    values = job("common.volumeMounts", [{"name": "a", "mountPath": "/a"}]) | {
        "workerGroups": {name: group() for name in ("a", "b", "c")}
    }
    (problem,) = problems(values)
    assert problem.startswith("ERROR: common.volumeMounts: a ")


# -- what a special place has over `common`


def containers(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of the head and of a worker."""
    head, worker = project(one("RayJob", values))
    return container(head), container(worker)


def test_maps_merge_at_every_depth_and_null_takes_a_default_away() -> None:
    values = job("common.securityContext", {"capabilities": {"add": ["KILL"]}})
    for found in containers(values):
        assert found["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["KILL"]}
    values = job("common.securityContext", {"capabilities": {"add": None}})
    values["head"] = {"securityContext": {"readOnlyRootFilesystem": True}}
    head, worker = containers(values)
    assert worker["securityContext"] == CLOSED
    assert head["securityContext"] == CLOSED | {"readOnlyRootFilesystem": True}


def test_affinities_of_a_group_and_of_all_pods_add_up() -> None:
    term = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
    near = [{"weight": 1, "preference": term["nodeSelectorTerms"][0]}]
    values = job(
        "common.affinity",
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}},
        affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": near}},
    )
    _, worker = project(one("RayJob", values))
    assert worker["spec"]["affinity"]["nodeAffinity"] == {
        "requiredDuringSchedulingIgnoredDuringExecution": term,
        "preferredDuringSchedulingIgnoredDuringExecution": near,
    }


def test_a_probe_a_source_and_a_scratch_replace_as_a_whole() -> None:
    values = job(
        "common",
        {
            "livenessProbe": {"httpGet": {"path": "/", "port": 1}},
            "env": {"A": {"fieldRef": {"fieldPath": "spec.nodeName"}}, "B": "1", "C": "1"},
            "scratch": {"sizeLimit": "1Gi"},
        },
        livenessProbe={"tcpSocket": {"port": 2}},
        env={"A": {"secretKeyRef": {"name": "a", "key": "b"}}, "B": None},
        scratch={"storageClassName": "nvme", "size": "2Gi"},
    )
    _, worker = project(one("RayJob", values))
    assert container(worker)["livenessProbe"] == {"tcpSocket": {"port": 2}}
    env = {item["name"]: item for item in container(worker)["env"]}
    assert env["A"]["valueFrom"] == {"secretKeyRef": {"name": "a", "key": "b"}}
    assert "B" not in env
    assert env["C"]["value"] == "1"
    (scratch,) = [volume for volume in worker["spec"]["volumes"] if volume["name"] == "scratch"]
    assert scratch["ephemeral"]["volumeClaimTemplate"]["metadata"] == {}


def test_a_profile_replaces_as_a_whole_and_null_takes_it_away() -> None:
    local = {"type": "Localhost", "localhostProfile": "a.json"}
    values = job("common.podSecurityContext", {"seccompProfile": local, "runAsUser": 5})
    values["head"] = {"podSecurityContext": {"seccompProfile": {"type": "RuntimeDefault"}, "runAsUser": None}}
    values["workerGroups"]["gpu"]["podSecurityContext"] = {"seccompProfile": None}
    head, worker = project(one("RayJob", values))
    assert head["spec"]["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert worker["spec"]["securityContext"] == {"runAsUser": 5}


def test_a_privileged_container_is_one_that_kubernetes_takes() -> None:
    values = job("podSecurity", "privileged") | {"common": {"securityContext": {"privileged": True}}}
    for found in containers(values):
        assert found["securityContext"] == {"privileged": True}


def test_a_false_of_a_special_place_counts() -> None:
    values = job("common.automountServiceAccountToken", True, automountServiceAccountToken=False)
    head, worker = project(one("RayJob", values))
    assert (head["spec"]["automountServiceAccountToken"], worker["spec"]["automountServiceAccountToken"]) == (
        True,
        False,
    )


def test_a_tag_of_a_group_leaves_the_digest_of_all_pods_behind() -> None:
    values = job("common.image", {"repository": "registry.example/ray", "digest": DIGEST}, image={"tag": "other"})
    head, worker = containers(values)
    assert head["image"] == f"registry.example/ray@{DIGEST}"
    assert worker["image"] == "registry.example/ray:other"


def test_the_submitter_takes_nothing_that_is_about_ray_its_data_and_its_nodes() -> None:
    values = with_key(
        SUBMITTER,
        "common",
        {
            "command": ["nvidia-smi"],
            "restartPolicy": "OnFailure",
            "volumes": VOLUMES,
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            "extraResources": {"example.com/fpga": 1},
            "livenessProbe": {"tcpSocket": {"port": 1}},
            "sidecarContainers": beside(),
            "scratch": {"storageClassName": "nvme", "size": "1Gi"},
            "nodeSelector": {"pool": "system"},
            "env": {"HTTPS_PROXY": "http://proxy.example"},
        },
    )
    (spec,) = [one("RayJob", values)["spec"]["submitterPodTemplate"]["spec"]]
    (own,) = spec["containers"]
    assert not {"command", "livenessProbe", "volumeMounts"} & own.keys()
    assert own["resources"]["limits"] == {"cpu": "500m", "memory": "1Gi"}
    assert (spec["restartPolicy"], spec["nodeSelector"]) == ("Never", {"pool": "system"})
    assert "volumes" not in spec
    assert own["env"] == [{"name": "HTTPS_PROXY", "value": "http://proxy.example"}]
