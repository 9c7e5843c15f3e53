"""The objects of `helm test`: hooks alone, with the least rights, beside no other release's."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest

from tests.chart.cases import job, job_name, with_key
from tests.helm import CHART, CI_VALUES, Object, render

CLUSTER = job("mode", "cluster")
ON_CLUSTER = with_key(job("mode", "jobOnCluster"), "job.clusterName", "big")
POLICIES = "before-hook-creation,hook-succeeded,hook-failed"


def hooks(values: Any = None, **options: Any) -> dict[str, Object]:
    """What is there only while `helm test` runs, by kind."""
    found = [item for item in render(values, hooks=True, **options) if _annotations(item).get("helm.sh/hook")]
    assert len(found) == len({item["kind"] for item in found})
    return {item["kind"]: item for item in found}


def _annotations(item: Object) -> dict[str, str]:
    found: dict[str, str] = item["metadata"].get("annotations", {})
    return found


def arguments(values: Any = None) -> list[str]:
    (container,) = hooks(values)["Pod"]["spec"]["containers"]
    found: list[str] = container["args"]
    return found


@pytest.mark.parametrize("file", CI_VALUES, ids=lambda file: file.stem.removesuffix("-values"))
def test_objects_are_valid_hooks_that_leave_nothing_behind(file: Any) -> None:
    found = hooks([file])
    assert {"ConfigMap", "Pod", "Role", "RoleBinding", "ServiceAccount"} <= set(found)
    for item in found.values():
        kubernetes_validate.validate(item, "1.36", strict=True)
        annotations = _annotations(item)
        assert annotations["helm.sh/hook"] == "test"
        assert annotations["helm.sh/hook-delete-policy"] == POLICIES
        assert annotations["kustomize.toolkit.fluxcd.io/reconcile"] == "disabled", "for those who render it into Git"
        assert "helm.sh/resource-policy" not in annotations, "onChange keep is not for them"
        assert item["metadata"]["labels"]["helm.sh/chart"] == "ray-train-dlc-0.1.0"
    weights = {kind: int(_annotations(item)["helm.sh/hook-weight"]) for kind, item in found.items()}
    assert weights.pop("Pod") > max(weights.values())


def test_manifests_for_git_are_without_them() -> None:
    assert not [item for item in render(job()) if "helm.sh/hook" in _annotations(item)]
    assert not hooks(job("tests.enabled", False))


def test_names_are_nobody_elses() -> None:
    """Helm removes what has a hook's name before it makes one: that must not be an object of another release."""
    mine = {(item["kind"], item["metadata"]["name"]) for item in hooks(job(), name="demo").values()}
    for values in (job(), CLUSTER):
        theirs = {(item["kind"], item["metadata"]["name"]) for item in render(values, name="demo-test")}
        assert not mine & theirs


@pytest.mark.parametrize(
    ("values", "rights"),
    [
        (job(), [("rayjobs", job_name(job()))]),
        (CLUSTER, [("rayclusters", "demo")]),
        (ON_CLUSTER, [("rayjobs", job_name(ON_CLUSTER)), ("rayclusters", "big")]),
    ],
)
def test_rights_are_the_least(values: Any, rights: list[tuple[str, str]]) -> None:
    found = hooks(values)
    name = found["ServiceAccount"]["metadata"]["name"]
    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    named = [
        {"apiGroups": ["ray.io"], "resources": [kind], "resourceNames": [each], "verbs": ["get"]}
        for kind, each in rights
    ]
    assert found["Role"]["rules"] == [*named, pods]
    assert found["RoleBinding"]["subjects"] == [{"kind": "ServiceAccount", "name": name, "namespace": "ray-train"}]
    assert found["RoleBinding"]["roleRef"]["name"] == found["Role"]["metadata"]["name"]
    assert found["Pod"]["spec"]["serviceAccountName"] == name
    assert found["Pod"]["spec"]["automountServiceAccountToken"] is True
    assert found["ServiceAccount"]["automountServiceAccountToken"] is False


def test_the_pod_is_restricted_small_and_where_the_head_is() -> None:
    values = job("head", {"tolerations": [{"key": "a", "operator": "Exists"}], "image": {"tag": "other"}})
    values["common"] = {"nodeSelector": {"pool": "system"}, "imagePullSecrets": [{"name": "registry"}]}
    spec = hooks(values)["Pod"]["spec"]
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert set(container["resources"]["limits"]) == {"cpu", "memory"}
    assert container["image"].endswith(":other")
    assert spec["nodeSelector"] == {"pool": "system"}
    assert spec["tolerations"] == [{"key": "a", "operator": "Exists"}]
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    (near,) = spec["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    wanted = {"ray-train-dlc/run": job_name(values), "ray.io/node-type": "head"}
    assert near["podAffinityTerm"]["labelSelector"] == {"matchLabels": wanted}


def test_the_affinity_of_the_head_is_kept() -> None:
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    ]}}  # fmt: skip
    affinity = hooks(job("head.affinity", {"nodeAffinity": rule}))["Pod"]["spec"]["affinity"]
    assert affinity["nodeAffinity"] == rule
    assert "podAffinity" in affinity


def test_the_script_is_the_one_of_the_chart() -> None:
    text = (CHART / "files" / "tests" / "check.py").read_text(encoding="utf-8")
    found = hooks(job())
    assert found["ConfigMap"]["data"] == {"check.py": text}
    (volume,) = found["Pod"]["spec"]["volumes"]
    assert volume["configMap"]["name"] == found["ConfigMap"]["metadata"]["name"]


def test_what_the_script_is_told() -> None:
    name = job_name(job())
    selector = f"--selector=ray-train-dlc/run={name},ray.io/node-type"
    assert arguments(job()) == ["job", name, "--namespace=ray-train", selector, "--workers=2", "--timeout=240"]
    assert arguments(CLUSTER)[0:2] == ["cluster", "demo"]
    assert "--token" in arguments(CLUSTER)
    assert "--token" not in arguments(with_key(CLUSTER, "auth.mode", "disabled"))
    assert arguments(ON_CLUSTER)[3] == "--selector=ray.io/cluster=big,ray.io/node-type"
    assert arguments(ON_CLUSTER)[-1] == "--cluster=big"
    hosts = with_key(job(), "workerGroups.gpu.numOfHosts", 2)
    assert "--workers=4" in arguments(hosts)
    scaling = with_key(with_key(CLUSTER, "cluster.autoscaling.enabled", True), "workerGroups.gpu.minReplicas", 1)
    assert "--workers=1" in arguments(scaling)


def test_networkpolicies_let_it_reach_what_it_asks() -> None:
    """The API server always; the dashboard in mode `cluster`, where it is one of the pods that the policy is for."""
    mine = {"ray-train-dlc/release": "demo"}
    for values in (job("networkPolicy.limitEgress", True), ON_CLUSTER):
        found = hooks(values)
        assert not mine.items() <= found["Pod"]["metadata"]["labels"].items()
        assert "NetworkPolicy" not in found
    assert "NetworkPolicy" not in hooks(CLUSTER)
    found = hooks(with_key(CLUSTER, "networkPolicy.limitEgress", True))
    labels = found["Pod"]["metadata"]["labels"]
    assert mine.items() <= labels.items()
    assert found["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    assert found["NetworkPolicy"]["spec"]["egress"] == [{}]
