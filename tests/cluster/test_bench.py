"""The parts of the bench that need no bench: nodes, images, what a machine must have."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path

import pytest

from tests.cluster.bench import cgroups, hardware, images, prerequisites
from tests.cluster.bench.bench import Bench
from tests.cluster.bench.layout import BenchError, Layout
from tests.cluster.bench.processes import run, wait_for


def test_nodes_are_those_of_the_rendered_clusterconfig() -> None:
    nodes = hardware.nodes_of("demo")
    assert [(node.name, node.instance_type, node.zone) for node in nodes] == [
        ("system-1", "m7i.xlarge", "us-west-2a"),
        ("demo-gpu-1", "g6.12xlarge", "us-west-2a"),
        ("demo-gpu-2", "g6.12xlarge", "us-west-2a"),
    ]
    assert [(node.gpus, node.efa, node.system) for node in nodes] == [(0, 0, True), (4, 1, False), (4, 1, False)]
    assert nodes[1].taints == [{"key": "aws.amazon.com/efa", "value": "true", "effect": "NoSchedule"}]
    assert len({node.index for node in nodes}) == 3


def test_a_node_group_without_efa_has_no_interfaces() -> None:
    group = {"name": "gpu", "instanceType": "g6.12xlarge", "desiredCapacity": 1, "availabilityZones": ["us-west-2b"]}
    config = {"metadata": {"region": "us-west-2"}, "managedNodeGroups": [group]}
    (node,) = hardware.nodes_from(config)
    assert (node.gpus, node.efa, node.zone) == (4, 0, "us-west-2b")


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([], "asks for no node"),
        ([{"name": "a", "instanceType": "x9.large", "desiredCapacity": 1}], "does not know x9.large of node group a"),
    ],
)
def test_a_clusterconfig_without_usable_nodes_is_refused(groups: list[dict[str, object]], words: str) -> None:
    config = {"metadata": {"region": "us-west-2"}, "availabilityZones": ["us-west-2a"], "managedNodeGroups": groups}
    with pytest.raises(BenchError, match=words):
        hardware.nodes_from(config)


def test_the_archive_is_an_oci_layout_with_one_marked_layer_per_image(tmp_path: Path) -> None:
    made = [images.Image(f"example.com/{name}:1", tmp_path, {"Entrypoint": [f"/{name}"]}) for name in ("one", "two")]
    images.write_archive(tmp_path / "images.tar", made)
    with tarfile.open(tmp_path / "images.tar") as archive:

        def blob(digest: str) -> dict[str, object]:
            member = archive.extractfile(f"blobs/{digest.replace(':', '/')}")
            assert member is not None
            return json.load(member)

        index = json.load(archive.extractfile("index.json"))
        names = [manifest["annotations"]["io.containerd.image.name"] for manifest in index["manifests"]]
        assert names == ["example.com/one:1", "example.com/two:1"]
        for manifest, image in zip(index["manifests"], made, strict=True):
            content = blob(manifest["digest"])
            assert blob(content["config"]["digest"])["config"] == image.config
            layer = archive.extractfile(f"blobs/{content['layers'][0]['digest'].replace(':', '/')}")
            with tarfile.open(fileobj=layer) as files:
                assert files.getnames() == [image.marker]


def test_everything_that_is_missing_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prerequisites, "PROGRAMS", {"nosuchpackage": ("nosuchprogram",), "iproute2": ("ip",)})
    monkeypatch.setattr(prerequisites, "CNI_NEEDED", ("nosuchplugin",))
    monkeypatch.setenv("GO", "/nowhere/go")
    with pytest.raises(prerequisites.PrerequisiteError) as raised:
        prerequisites.check(Layout(tmp_path))
    text = str(raised.value)
    assert "apt-get install --no-install-recommends containernetworking-plugins nosuchpackage" in text
    assert "GO=/nowhere/go" in text


def test_places_where_a_bench_cannot_be_are_told_with_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(folder: Path) -> str:
        with pytest.raises(prerequisites.PrerequisiteError) as raised:
            prerequisites.check(Layout(folder))
        return str(raised.value)

    file = tmp_path / "file"
    file.touch()
    assert f"a folder at {file}, which is a file: set BENCH_DIR" in told(file)
    assert f"a folder at {file}, which is a file: set BENCH_DIR" in told(file / "below")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/lib/cache")
    text = told(Path("/run/bench"))
    assert "a place for the working folder outside of /run, which is hidden inside the bench: set BENCH_DIR" in text
    assert "a place for the built programs outside of /var/lib, which is hidden inside the bench: set XDG_" in text


def test_every_package_that_is_looked_for_is_one_that_ci_installs() -> None:
    listed = set(prerequisites.PACKAGES.read_text(encoding="utf-8").split())
    files = {"containernetworking-plugins", "busybox-static"}  # looked for as files, not on PATH
    browser = {"chromium-headless-shell", "fonts-dejavu-core"}  # tests/unit/test_plan_browser.py
    assert listed == {*prerequisites.PROGRAMS, *files, *browser}


def test_a_bench_that_was_never_started_does_not_run(tmp_path: Path) -> None:
    """As in every fresh checkout: there is no working folder, and asking makes none."""
    bench = Bench("demo", Layout(tmp_path / "none"))
    assert not bench.runs()
    bench.down()
    assert not (tmp_path / "none").exists()


def test_settings_of_the_persons_own_tools_stay_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "no_proxy", "HELM_KUBECONTEXT", "KUBECONFIG", "ETCD_NAME"):
        monkeypatch.setenv(name, "elsewhere")
    assert "elsewhere" not in run("env")


def test_a_wait_is_bounded_and_says_what_for() -> None:
    with pytest.raises(BenchError, match=r"waited 0\.1 s for the moon; it is cloudy"):
        wait_for("the moon", lambda: None, timeout_s=0.1, every_s=0.02, hint=lambda: "it is cloudy")
    assert wait_for("now", lambda: 7, timeout_s=0.1) == 7


def test_a_failed_command_tells_its_own_words() -> None:
    with pytest.raises(BenchError, match="ended with 3: broken"):
        run("sh", "-c", "echo broken >&2; exit 3")
    with pytest.raises(BenchError, match="nosuchprogram is not installed"):
        run("nosuchprogram")
    with pytest.raises(BenchError, match=r"did not end within 0\.1 s"):
        run("sleep", "5", timeout_s=0.1)


def test_control_groups_of_version_2_are_made_from_the_top_down_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a real hierarchy of version 2, which on a machine of version 1 has no controllers to hand down."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    found = [Path(where) for _, where, kind, *_ in mounts if kind == "cgroup2"]
    if not found or os.geteuid() != 0:
        pytest.skip("needs root and a cgroup2 mount")
    monkeypatch.setattr(cgroups, "MOUNT", found[0])
    assert cgroups.version() == 2
    bench = f"test-{os.getpid()}"
    try:
        assert cgroups.make(bench, "node") == f"/{cgroups.PARENT}/{bench}/node"
        assert (found[0] / cgroups.PARENT / bench / "node" / "cgroup.procs").exists()
        handed = (found[0] / cgroups.PARENT / bench / "cgroup.subtree_control").read_text(encoding="utf-8").split()
        assert handed == (found[0] / "cgroup.controllers").read_text(encoding="utf-8").split()
    finally:
        assert cgroups.remove(bench) == []
    assert not (found[0] / cgroups.PARENT / bench).exists()
