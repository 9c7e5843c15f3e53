"""Several environments and teams on one cluster: what collides, what is shared, and what is not said."""

from __future__ import annotations

from pathlib import Path

import pytest

from generator.project import Project
from generator.render import render
from generator.rules import check
from tests.project import base, edited, make, sharing

CLUSTER = edited("cluster.yaml", "m7i.xlarge", "m7i.4xlarge")


def shared(root: Path, cluster: str = CLUSTER, **environments: str) -> Project:
    """Environment `demo` and others on one cluster; an underscore in a name stands for a hyphen."""
    make(root, cluster=cluster, environment=environments.pop("demo", sharing("demo")))
    for name, text in environments.items():
        folder = root / "environments" / name.replace("_", "-")
        folder.mkdir()
        (folder / "environment.yaml").write_text(text)
        (folder / "version.yaml").write_text(base("version.yaml"))
    return Project(root)


def codes(project: Project, folder: str = "demo") -> list[str]:
    return [f.code for f in check(project.load(folder)) if f.code not in ("RTD403", "RTD214")]


def test_two_teams_share_a_cluster_without_a_word(tmp_path: Path) -> None:
    vision = ("namespace: ray-train", "namespace: vision"), ("s3://bucket/ray-train", "s3://bucket/vision")
    project = shared(tmp_path, demo=sharing("demo"), vision=sharing("vision", *vision))
    for folder in project.names():
        assert codes(project, folder) == []
    text = render(project.load("demo"))["eksctl/demo.yaml"]
    assert render(project.load("vision"))["eksctl/demo.yaml"] == text
    for own in ('"demo-gpu"', '"vision-gpu"', 'namespace: "vision"', 'serviceAccountName: "vision"', "bucket/vision/*"):
        assert own in text, own


@pytest.mark.parametrize(
    ("mine", "theirs", "namespace", "code"),
    [
        ("s3://bucket/ray-train", "s3://bucket/ray-train", "vision", ["RTD543"]),
        ("s3://bucket/ray-train/", "s3://bucket/ray-train/vision", "vision", ["RTD543"]),
        ("s3://bucket", "s3://bucket/ray-train", "vision", ["RTD543"]),
        ("s3://bucket/ray-train/vision", "s3://bucket/ray-train", "vision", []),  # the other one is told
        ("s3://bucket/ray-train", "s3://bucket/ray-train-2", "vision", []),
        ("s3://bucket/ray-train", "s3://bucket-2/ray-train", "vision", []),
        ("s3://bucket/ray-train", "s3://bucket/ray-train", "ray-train", []),  # one team
    ],
)
def test_prefixes_of_two_namespaces(tmp_path: Path, mine: str, theirs: str, namespace: str, code: list[str]) -> None:
    uri, here = "s3://bucket/ray-train", "namespace: ray-train"
    other = sharing("other", (uri, theirs), (here, f"namespace: {namespace}"))
    assert codes(shared(tmp_path, demo=sharing("demo", (uri, mine)), other=other)) == code


@pytest.mark.parametrize(
    ("mine", "theirs", "code"),
    [("{gAndVtVcpu: 999}", "{gAndVtVcpu: 998}", ["RTD542"]), ("{gAndVtVcpu: 999}", "{gAndVtVcpu: 999}", []),
     ("{gAndVtVcpu: 999}", "{pVcpu: 5}", []), ("{}", "{gAndVtVcpu: 998}", [])],
)  # fmt: skip
def test_a_quota_is_one_number(tmp_path: Path, mine: str, theirs: str, code: list[str]) -> None:
    policy = "policy: {requireDigest: false}"
    demo, other = (
        sharing(name).replace(policy, f"policy: {{quota: {quota}}}")
        for name, quota in (("demo", mine), ("other", theirs))
    )
    assert codes(shared(tmp_path, demo=demo, other=other)) == code


@pytest.mark.parametrize(("managed", "code"), [("eksctl", ["RTD504"]), ("existing", [])])
def test_node_groups_of_a_cluster_made_elsewhere_are_not_ours_to_name(
    tmp_path: Path, managed: str, code: list[str]
) -> None:
    demo, other = sharing("demo", ("  gpu:\n", "  gpu-x:\n")), sharing("demo-gpu", ("  gpu:\n", "  x:\n"))
    cluster = CLUSTER.replace("managed: eksctl", f"managed: {managed}")
    assert codes(shared(tmp_path, cluster, demo=demo, demo_gpu=other)) == code


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nodeRepair: true", True), ("nodeRepair: false", False), ("autoscaler: clusterAutoscaler", True),
        ("autoscaler: none", False), ("tags: {a: b}", True), ("tags: {}", False),
        ("addons: [aws-efs-csi-driver]", True), ("encryption: {}", False), ("network: {apiEndpoint: private}", True),
    ],
)  # fmt: skip
def test_keys_without_effect_on_an_existing_cluster(tmp_path: Path, line: str, said: bool) -> None:
    existing = CLUSTER.replace("managed: eksctl", "managed: existing") + line + "\n"
    assert codes(shared(tmp_path, existing)) == (["RTD541"] if said else [])
    assert "RTD541" not in codes(shared(tmp_path, CLUSTER + line + "\n"))
