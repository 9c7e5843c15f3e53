"""Each ci/*-values.yaml lints, renders and passes Kubernetes' schemas; RayJob and RayCluster through their pods."""

from __future__ import annotations

import re
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from tests.helm import CHART, CI_VALUES, MODES, HelmError, Object, render, run, template
from tests.project_pods import code_maps, project

KUBERNETES = ("1.34", "1.37")  # the oldest that the chart takes, and the newest known
BY_FILE = pytest.mark.parametrize("file", CI_VALUES, ids=lambda file: file.stem.removesuffix("-values"))


def test_there_are_ci_files_for_the_main_cases() -> None:
    names = {file.stem.removesuffix("-values") for file in CI_VALUES}
    assert names >= {"default", "all-options", "cluster", "cpu-pvc", "efa-g6", "efa-p5"}


@BY_FILE
def test_lint(file: Path) -> None:
    out = run("lint", "--strict", str(CHART), f"--values={file}")
    assert "[WARNING]" not in out
    assert "[ERROR]" not in out


@BY_FILE
@pytest.mark.parametrize("version", KUBERNETES)
def test_objects_are_valid(file: Path, version: str) -> None:
    objects = render([file])
    ray = [item for item in objects if item["apiVersion"] == "ray.io/v1"]
    assert len(ray) == 1
    # A PodMonitor has a schema only where the Prometheus operator is.
    known = [item for item in objects if item not in ray and item["kind"] != "PodMonitor"]
    for item in [*known, *(project(ray[0]) if MODES[file] != "jobOnCluster" else ())]:
        kubernetes_validate.validate(item, version, strict=True)


def test_the_pod_check_sees_a_wrong_pod() -> None:
    """A validator that knows no RayJob passes anything: the projection must not."""
    (job,) = render(show_only="templates/rayjob.yaml")
    pod = project(job)[0]
    pod["spec"]["containers"][0]["resource"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(pod, KUBERNETES[0], strict=True)


@BY_FILE
def test_kinds(file: Path) -> None:
    objects = render([file])
    kinds = sorted(item["kind"] for item in objects)
    ray = "RayCluster" if MODES[file] == "cluster" else "RayJob"
    policy = [] if file.name.startswith("cluster") else ["NetworkPolicy"]
    more = [*["ConfigMap"] * 3, "PodMonitor"] if file.name == "all-options-values.yaml" else []
    if MODES[file] == "jobOnCluster":
        assert kinds == ["RayJob"]
        return
    code = code_maps(next(item for item in objects if item["kind"] == ray))
    assert kinds == sorted([*["ConfigMap"] * len(code), "ServiceAccount", ray, *policy, *more])


def test_mode_cluster_without_policy_and_account() -> None:
    values = {"mode": "cluster", "networkPolicy": {"enabled": False}, "serviceAccount": {"create": False}}
    assert {item["kind"] for item in render(values)} == {"ConfigMap", "RayCluster"}


def labels_and_namespaces(objects: list[Object]) -> list[tuple[str, Object, str]]:
    return [(item["kind"], item["metadata"]["labels"], item["metadata"]["namespace"]) for item in objects]


def test_every_object_has_the_labels_and_the_namespace() -> None:
    values = {"commonLabels": {"cost-centre": "research"}, "clusterName": "demo-1"}
    for kind, labels, namespace in labels_and_namespaces(render(values, name="run", namespace="team-a")):
        assert namespace == "team-a", kind
        assert labels["cost-centre"] == "research", kind
        assert labels["app.kubernetes.io/name"] == "ray-train-dlc", kind
        assert labels["app.kubernetes.io/instance"] == "run", kind
        assert labels["app.kubernetes.io/managed-by"] == "Helm", kind
        assert labels["helm.sh/chart"] == "ray-train-dlc-0.1.0", kind
        assert labels["ray-train-dlc/cluster"] == "demo-1", kind
        assert labels["ray-train-dlc/release"] == "run", kind


def test_pods_have_common_labels_but_none_of_the_operator_or_of_a_version() -> None:
    (job,) = render({"commonLabels": {"cost-centre": "research", "gone": None}}, show_only="templates/rayjob.yaml")
    for pod in project(job):
        labels = pod["metadata"]["labels"]
        assert labels["cost-centre"] == "research"
        assert "gone" not in labels
        assert not [key for key in labels if key.startswith(("app.kubernetes.io/", "helm.sh/", "ray.io/"))]


@BY_FILE
def test_manifests_are_clean_text(file: Path) -> None:
    """GitOps users commit them: no trailing spaces, no empty documents."""
    text = template([file], hooks=True)
    assert not re.search(r"[ \t]+$", text, flags=re.MULTILINE)
    assert all(document.strip() for document in text.removeprefix("---\n").split("\n---\n"))
    assert "<no value>" not in text
    assert "<nil>" not in text


@BY_FILE
def test_no_empty_fields(file: Path) -> None:
    """The operator writes a RayJob back once, without empty fields; each would be a difference to Git for ever."""

    def walk(value: object, path: str) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(inner, f"{path}.{key}")
        elif isinstance(value, list):
            assert value, path
            for index, inner in enumerate(value):
                walk(inner, f"{path}[{index}]")
        else:
            assert value not in (None, ""), path

    for item in render([file]):
        if item["apiVersion"] == "ray.io/v1":
            walk(item, item["kind"])


def test_kube_version_of_the_chart() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["kubeVersion"] == ">=1.34.0-0"
    with pytest.raises(HelmError, match=r"incompatible with Kubernetes v1\.33"):
        run("template", "x", str(CHART), "--kube-version=1.33.9")
    assert "kind: RayJob" in run("template", "x", str(CHART), "--kube-version=1.34.0-eks-1234567")


def test_app_version_is_the_ray_version_of_the_image() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert chart["appVersion"] == values["rayVersion"]


def test_no_named_template_is_left_over() -> None:
    files = [file for file in sorted((CHART / "templates").rglob("*")) if file.is_file()]
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    for name in re.findall(r'define "([^"]+)"', text):
        # _requirements.tpl puts the names of the checks together.
        called = f'"{name.rpartition(".")[2]}"' if name.startswith("ray-train-dlc.check.") else f'"{name}"'
        assert text.count(called) + text.count(f'"{name}"') > 1, name
