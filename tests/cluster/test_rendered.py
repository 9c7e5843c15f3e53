"""What this repository renders, judged by the code of what will read it: KubeRay, eksctl, Kubernetes' schemas."""

from __future__ import annotations

from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from generator.diagnostics import Severity
from generator.project import Project
from generator.render import clusterconfig_path, render, values_path
from generator.rules import check
from tests.cluster.checkers import (
    KUBERAY,
    check_clusterconfig,
    check_clusterconfig_schema,
    check_node_config,
    check_rayjobs,
    require_go,
    summary,
)
from tests.golden.tree import ROOT, objects
from tests.project import base, edited, make
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

NVME = ("gpusPerNode: 4", "gpusPerNode: 4\n    scratch: nvme\n    volumeSize: 50")
FSX = ("{kind: s3, uri: s3://bucket/ray-train}", "{kind: fsx, claimName: checkpoints}")
KEY = "arn:aws:kms:us-west-2:111122223333:key/01234567-89ab-cdef-0123-456789abcdef"
SUBNETS = "{us-west-2a: subnet-0123456789abcdef0, us-west-2b: subnet-0123456789abcdef1}"
PUBLIC = "{us-west-2a: subnet-0123456789abcdef2, us-west-2b: subnet-0123456789abcdef3}"
OWN_VPC = f"vpcId: vpc-0123456789abcdef0, privateSubnets: {SUBNETS}"

# Name → (keys of the cluster's file, a change of environment.yaml).
CLUSTERS: dict[str, tuple[str, tuple[str, str] | None]] = {
    "fsx": ("", FSX),
    "efs": ("", (FSX[0], "{kind: efs, claimName: checkpoints}")),
    "model-in-s3": ("", ("preset: qwen2.5-1.5b", "preset: qwen2.5-1.5b\n  model: {uri: s3://models/qwen}")),
    "all-drivers": ("addons: [aws-ebs-csi-driver, aws-efs-csi-driver, aws-fsx-csi-driver]\n", None),
    "own-vpc": (f"network: {{{OWN_VPC}}}\n", None),
    "own-vpc-with-public-subnets": (f"network: {{{OWN_VPC}, publicSubnets: {PUBLIC}}}\n", None),
    "private-endpoint": ("network: {apiEndpoint: private}\n", None),
    "public-endpoint": ("network: {apiEndpoint: public}\n", None),
    "restricted-endpoint": ("network: {publicAccessCidrs: [203.0.113.0/24, 198.51.100.7/32]}\n", None),
    "range": ("network: {cidr: 10.20.0.0/16}\n", None),
    "keys": (f'encryption: {{secretsKeyArn: "{KEY}", volumesKeyArn: "{KEY}"}}\n', None),
    "tags": ('tags: {team: ml, "cost:center": "4711"}\n', ("policy: {", "tags: {team: vision}\npolicy: {")),
    "node-repair": ("nodeRepair: true\n", None),
    "autoscaler": ("autoscaler: clusterAutoscaler\n", None),
    "autoscaler-without-efa": ("autoscaler: clusterAutoscaler\n", ("efa: required", "efa: disabled")),
    "nvme": ("", NVME),
    "all-at-once": (
        f"network: {{{OWN_VPC}, apiEndpoint: private}}\n"
        f'encryption: {{secretsKeyArn: "{KEY}", volumesKeyArn: "{KEY}"}}\n'
        "addons: [aws-fsx-csi-driver]\nnodeRepair: true\nautoscaler: clusterAutoscaler\ntags: {team: ml}\n",
        NVME,
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
    accepted(rendered(tmp_path))


@pytest.mark.go
@pytest.mark.parametrize("variant", CLUSTERS)
def test_eksctl_accepts_every_key_of_the_cluster(variant: str, tmp_path: Path) -> None:
    require_go()
    keys, change = CLUSTERS[variant]
    environment = edited("environment.yaml", *change) if change else base("environment.yaml")
    make(tmp_path, cluster=base("cluster.yaml") + keys, environment=environment)
    assert not [f for f in check(Project(tmp_path).load("demo")) if f.severity is Severity.ERROR]
    accepted(rendered(tmp_path))


@pytest.mark.go
def test_nodeadm_knows_every_key_of_the_node_config(tmp_path: Path) -> None:
    """eksctl reads it into nodeadm's type and drops unknown keys in silence; nodeadm's own schema names them."""
    require_go()
    make(tmp_path, environment=edited("environment.yaml", *NVME))
    config = yaml.safe_load(rendered(tmp_path).read_text(encoding="utf-8"))
    given = yaml.safe_load(config["managedNodeGroups"][1]["overrideBootstrapCommand"])
    assert check_node_config(given) == []
    assert check_node_config({**given, "spec": {"instance": {"localStorage": {"strategie": "RAID0"}}}}) != []


def rendered(root: Path) -> Path:
    """The ClusterConfig of environment demo, written to a file."""
    path = root / "demo.yaml"
    path.write_text(render(Project(root).load("demo"))[clusterconfig_path("demo")], encoding="utf-8")
    return path


def accepted(path: Path) -> None:
    """eksctl's loader, defaults and validators, and its JSON schema: each sees what the other does not."""
    report = check_clusterconfig(path)
    assert report.ok, str(report)
    assert check_clusterconfig_schema(yaml.safe_load(path.read_text(encoding="utf-8"))) == []
