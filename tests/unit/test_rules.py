"""The edges of rules: the last value that passes and the first that does not."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from generator.catalog import instance_types
from generator.project import Project
from generator.resolve import node_room
from generator.rules import check
from generator.rules.names import BASE_MAX, GROUP_MAX
from tests.project import base, edited, make, sharing

TODAY = date(2026, 9, 1)  # for what ends on a day


def codes(root: Path, *, folder: str = "demo", **replaced: str) -> set[str]:
    """Codes of the findings about the demo environment; the missing digest is left out."""
    make(root, **replaced)
    if folder != "demo":
        (root / "environments" / "demo").rename(root / "environments" / folder)
    return {f.code for f in check(Project(root).load(folder), TODAY)} - {"RTD403"}


def environment(*changes: tuple[str, str]) -> str:
    text = base("environment.yaml")
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def cluster(*changes: tuple[str, str]) -> str:
    text = base("cluster.yaml")
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def test_the_base_has_no_findings(tmp_path: Path) -> None:
    assert codes(tmp_path) == set()


@pytest.mark.parametrize(("quota", "code"), [(96, set()), (95, {"RTD801"}), (0, {"RTD801"})])
def test_quota(tmp_path: Path, quota: int, code: set[str]) -> None:
    text = environment(("gAndVtVcpu: 96", f"gAndVtVcpu: {quota}"))  # 2 × 48 vCPU
    assert codes(tmp_path, environment=text) == code


@pytest.mark.parametrize(
    "change",
    [("{kind: onDemand}", "{kind: spot}"), ("g6.12xlarge", "p4d.24xlarge")],
    ids=["spot", "p family"],
)
def test_what_the_g_and_vt_quota_does_not_count(tmp_path: Path, change: tuple[str, str]) -> None:
    text = environment(change, ("gAndVtVcpu: 96", "gAndVtVcpu: 1"), ("gpusPerNode: 4", "gpusPerNode: 8"))
    if change[0].startswith("{kind"):
        text = text.replace("gpusPerNode: 8", "gpusPerNode: 4")
    assert codes(tmp_path, environment=text) == set()


@pytest.mark.parametrize(
    ("key", "fits", "too_much"), [("cpu", "47", "48"), ("memory", "163Gi", "200Gi"), ("memory", "16Gi", "9999999Gi")]
)
def test_worker_fit(tmp_path: Path, key: str, fits: str, too_much: str) -> None:
    for value, code in ((fits, set()), (too_much, {"RTD206"})):
        text = environment(("nodes: 2", f"nodes: 2\n    {key}: {value}"))
        assert codes(tmp_path, environment=text) == code, value


def test_worker_fit_to_the_mebibyte(tmp_path: Path) -> None:
    room = node_room(instance_types()["g6.12xlarge"], gpu=True, efa=True, system=False)
    for memory, code in ((room.memory_mib, set()), (room.memory_mib + 1, {"RTD206"})):
        text = environment(("nodes: 2", f"nodes: 2\n    memory: {memory}Mi"))
        assert codes(tmp_path, environment=text) == code


def test_a_second_system_node_makes_room_for_the_head(tmp_path: Path) -> None:
    alone = node_room(instance_types()["m7i.xlarge"], gpu=False, efa=False, system=True).memory_mib
    for memory, code in ((alone, set()), (alone + 1, {"RTD205"})):
        large = environment(("memory: 8Gi", f"memory: {memory}Mi"))
        assert codes(tmp_path, environment=large) == code
        assert codes(tmp_path, environment=large, cluster=cluster(("count: 1", "count: 2"))) == set()


@pytest.mark.parametrize(
    ("version", "code"),
    [("1.33", {"RTD502"}), ("1.34", set()), ("1.37", set()), ("1.38", {"RTD502"}), ("1.99", {"RTD502"})],
)
def test_kubernetes_versions(tmp_path: Path, version: str, code: set[str]) -> None:
    assert codes(tmp_path, cluster=cluster(("1.36", version))) == code


@pytest.mark.parametrize(
    ("version", "code"), [("1.5.9", {"RTD503"}), ("1.6.0", set()), ("1.7.0", {"RTD506"}), ("2.0.0", {"RTD506"})]
)
def test_kuberay_versions(tmp_path: Path, version: str, code: set[str]) -> None:
    assert codes(tmp_path, cluster=cluster(("1.6.1", version))) == code


@pytest.mark.parametrize(
    ("version", "code"), [("2.51.9", {"RTD405"}), ("2.52.0", set()), ("2.100.0", set()), ("10.0.0", set())]
)
def test_ray_versions_of_an_image_that_is_not_known(tmp_path: Path, version: str, code: set[str]) -> None:
    text = base("version.yaml").replace("2.58.0", version).replace("train-ml-cuda-v1.1.0", "mine")
    assert codes(tmp_path, version=text) == code


@pytest.mark.parametrize(("length", "code"), [(BASE_MAX, set()), (BASE_MAX + 1, {"RTD501"})])
def test_length_of_the_environments_name(tmp_path: Path, length: int, code: set[str]) -> None:
    name = "e" * length
    assert codes(tmp_path, folder=name, environment=environment(("name: demo", f"name: {name}"))) == code


@pytest.mark.parametrize(("length", "code"), [(GROUP_MAX, set()), (GROUP_MAX + 1, {"RTD501"}), (63, {"RTD501"})])
def test_length_of_a_groups_name(tmp_path: Path, length: int, code: set[str]) -> None:
    assert codes(tmp_path, environment=environment(("  gpu:\n", f"  {'g' * length}:\n"))) == code


@pytest.mark.parametrize(("managed", "code"), [("eksctl", {"RTD501"}), ("existing", set())])
def test_the_node_groups_name_counts_where_eksctl_makes_it(tmp_path: Path, managed: str, code: set[str]) -> None:
    name, group = "e" * 36, "g" * 30  # 67 characters with the hyphen, above 63
    text = environment(("name: demo", f"name: {name}"), ("  gpu:\n", f"  {group}:\n"))
    found = codes(tmp_path, folder=name, environment=text, cluster=cluster(("managed: eksctl", f"managed: {managed}")))
    assert found == code


@pytest.mark.parametrize(
    ("uri", "good"),
    [
        ("s3://abc", True),
        ("s3://abc/", True),
        ("s3://a-b.c/x/y=1/_z", True),
        (f"s3://{'b' * 63}/x", True),
        (f"s3://{'b' * 64}/x", False),
        ("s3://ab/x", False),
        ("s3://Abc/x", False),
        ("s3://a..b/x", False),
        ("s3://192.168.1.1/x", False),
        ("s3://xn--abc/x", False),
        ("s3://abc-s3alias/x", False),
        ("s3://-abc/x", False),
        ("s3:///x", False),
        ("s3://", False),
        ("S3://abc/x", False),
        ("/abc/x", False),
        ("s3://abc//x", False),
        ("s3://abc/x/../y", False),
        ("s3://abc/a b", False),
        ("s3://abc/a%20b", False),
        ("s3://abc/x\n", False),
    ],
)
def test_s3_locations(tmp_path: Path, uri: str, good: bool) -> None:
    text = environment(("s3://bucket/ray-train", json.dumps(uri)))
    assert codes(tmp_path, environment=text) == (set() if good else {"RTD602"})


@pytest.mark.parametrize(
    ("identifier", "code"),
    [
        ("cr-0123456789abcdef0", set()),
        ("cr-01234567", set()),
        ("cr-0123456789abcdef", {"RTD802"}),
        ("cr-0123456789ABCDEF0", {"RTD802"}),
        ("0123456789abcdef0", {"RTD802"}),
        ('""', {"RTD802"}),
    ],
)
def test_reservation_ids(tmp_path: Path, identifier: str, code: set[str]) -> None:
    text = environment(("{kind: onDemand}", f"{{kind: reservation, id: {identifier}, placementGroup: none}}"))
    assert codes(tmp_path, environment=text) == code


@pytest.mark.parametrize(
    ("repository", "good"),
    [
        ("ray", True),
        ("rayproject/ray", True),
        ("localhost:5000/a/b", True),
        ("registry.example.com/a_b/c-d", True),
        ("Registry.Example.com/a_b/c-d", False),
        ("a//b", False),
        ("a/B", False),
        ("a/b/", False),
        ("https://a/b", False),
        ("a:b:c/d", False),
        ("a/b@sha256", False),
    ],
)
def test_image_repositories(tmp_path: Path, repository: str, good: bool) -> None:
    text = base("version.yaml").replace("public.ecr.aws/deep-learning-containers/ray", f'"{repository}"')
    assert codes(tmp_path, version=text) == (set() if good else {"RTD401"})


def test_a_long_hostile_repository_is_judged_at_once(tmp_path: Path) -> None:
    text = base("version.yaml").replace("public.ecr.aws/deep-learning-containers/ray", "a-" * 250 + "!")
    assert codes(tmp_path, version=text) == {"RTD401"}


@pytest.mark.parametrize(
    ("nodes", "args", "code"),
    [(2, "steps: 1", set()), (3, "steps: 1", {"RTD109"}), (3, "global_batch_size: 36", set()), (4, "steps: 1", set())],
)
def test_the_batch_divides_among_the_ranks(tmp_path: Path, nodes: int, args: str, code: set[str]) -> None:
    text = environment(
        ("nodes: 2", f"nodes: {nodes}"),
        ("steps: 200, sequence_length: 2048", args),
        ("gAndVtVcpu: 96", "gAndVtVcpu: 999"),
    )
    assert codes(tmp_path, environment=text) == code


@pytest.mark.parametrize(
    ("device", "mode", "code"),
    [
        ("auto", "job", set()),
        ("cuda", "job", set()),
        ("cpu", "job", {"RTD804"}),
        ("cpu", "cluster", set()),  # by hand: the arguments are another's
        ("gpu", "job", {"RTD109"}),
    ],
)
def test_gpus_that_are_left_alone_are_named(tmp_path: Path, device: str, mode: str, code: set[str]) -> None:
    text = environment(("{steps: 200,", f"{{device: {device},"), ("mode: job", f"mode: {mode}"))
    assert codes(tmp_path, environment=text) == code


def test_neighbours_node_groups_must_differ(tmp_path: Path) -> None:
    make(tmp_path)
    cluster = edited("cluster.yaml", "m7i.xlarge", "m7i.4xlarge")
    for name, group in (("demo-gpu", "x"), ("other", "gpu")):
        folder = tmp_path / "environments" / name
        folder.mkdir()
        (folder / "environment.yaml").write_text(sharing(name, ("  gpu:\n", f"  {group}:\n")))
        (folder / "version.yaml").write_text(base("version.yaml"))
    text = sharing("demo", ("  gpu:\n", "  gpu-x:\n"))  # demo-gpu-x, as that of environment demo-gpu, group x
    assert codes(tmp_path, environment=text, cluster=cluster) == {"RTD504"}
    assert codes(tmp_path, environment=sharing("demo"), cluster=cluster) == set()


def test_a_copied_folder_is_told_to_change_its_name_and_nothing_else(tmp_path: Path) -> None:
    make(tmp_path)
    folder = tmp_path / "environments" / "copy"
    folder.mkdir()
    for name in ("environment.yaml", "version.yaml"):
        (folder / name).write_text(base(name))
    project = Project(tmp_path)
    assert [f.code for f in check(project.load("copy")) if f.code != "RTD403"] == ["RTD107"]
    assert [f.code for f in check(project.load("demo")) if f.code != "RTD403"] == []
