"""What this repository renders, judged by the code of what will read it: KubeRay, eksctl, Kubernetes' schemas."""

from __future__ import annotations

from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from generator.project import Project
from generator.render import clusterconfig_path, render, values_path
from tests.cluster.checkers import (
    KUBERAY,
    check_clusterconfig,
    check_clusterconfig_schema,
    check_rayjobs,
    require_go,
    summary,
)
from tests.golden.tree import ROOT, objects
from tests.project import edited, make
from tests.project_pods import project

KUBERNETES = "1.36"  # of environments/_clusters/demo.yaml
ENVIRONMENTS = Project(ROOT).names()

# ClusterConfigs beside the demo's: one of each kind of capacity and network.
VARIANTS = {
    "spot": edited("environment.yaml", "kind: onDemand", "kind: spot"),
    "reservation": edited("environment.yaml", "kind: onDemand", "kind: reservation, id: cr-0123456789abcdef0"),
    "capacity-block": edited("environment.yaml", "kind: onDemand", "kind: capacityBlock, id: cr-0123456789abcdef0"),
    "no-efa": edited("environment.yaml", "efa: required", "efa: disabled"),
    "claim": edited("environment.yaml", "{kind: s3, uri: s3://bucket/ray-train}", "{kind: fsx, claimName: fsx}"),
    "bucket-without-prefix": edited("environment.yaml", "s3://bucket/ray-train", "s3://bucket"),
    "many-cards": edited(
        "environment.yaml",
        "instanceType: g6.12xlarge\n    nodes: 2\n    availabilityZone: us-west-2a\n    gpusPerNode: 4",
        "instanceType: p5.48xlarge\n    nodes: 2\n    availabilityZone: us-west-2a\n    gpusPerNode: 8",
    ),
}


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_kubernetes_accepts_every_object(environment: str) -> None:
    values = render(Project(ROOT).load(environment))[values_path(environment)]
    rendered = objects(environment, values)
    pods = [pod for item in rendered if item["kind"] == "RayJob" for pod in project(item)]
    core = [item for item in rendered if not item["apiVersion"].startswith("ray.io/")]
    assert {item["kind"] for item in core} == {"ConfigMap", "ServiceAccount", "NetworkPolicy"}
    assert len(pods) == 2
    for item in [*core, *pods]:
        kubernetes_validate.validate(item, KUBERNETES, strict=True)


@pytest.mark.go
@pytest.mark.parametrize("release", KUBERAY)
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_the_operator_accepts_the_rayjob(environment: str, release: str) -> None:
    require_go()
    values = render(Project(ROOT).load(environment))[values_path(environment)]
    jobs = [item for item in objects(environment, values) if item["kind"] == "RayJob"]
    reports = check_rayjobs(yaml.safe_dump_all(jobs), release=release)
    assert [report.kind for report in reports] == ["RayJob"]
    assert all(report.ok for report in reports), summary(reports)


@pytest.mark.go
def test_eksctl_accepts_the_clusterconfig_of_demo() -> None:
    require_go()
    accepted(ROOT / clusterconfig_path("demo"))


@pytest.mark.go
@pytest.mark.parametrize("variant", VARIANTS)
def test_eksctl_accepts_the_clusterconfig_of(variant: str, tmp_path: Path) -> None:
    require_go()
    make(tmp_path, environment=VARIANTS[variant])
    path = tmp_path / "demo.yaml"
    path.write_text(render(Project(tmp_path).load("demo"))[clusterconfig_path("demo")], encoding="utf-8")
    accepted(path)


def accepted(path: Path) -> None:
    """eksctl's loader, defaults and validators, and its JSON schema: each sees what the other does not."""
    report = check_clusterconfig(path)
    assert report.ok, str(report)
    assert check_clusterconfig_schema(yaml.safe_load(path.read_text(encoding="utf-8"))) == []
