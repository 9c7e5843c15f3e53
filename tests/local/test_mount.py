"""Volumes as the kubelet lays them out, and the mapping of container paths."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path
from typing import Any

import pytest

from generator.local.errors import LocalError
from generator.local.manifests import pod_templates, render
from generator.local.mount import Mount, PathMap, Volumes, config_map_files, lay_out, remove_tree
from tests.chart.cases import enlarge
from tests.helm import CHART, program
from tests.local.manifest import CODE_PATH, config_map, group


def _map(*paths: str, code: str = "") -> PathMap:
    mounts = [Mount(path, Path("/w") / path.lstrip("/").replace("/", "-"), "claim") for path in paths]
    if code:
        mounts.append(Mount(code, Path("/w/root") / code.lstrip("/"), "ConfigMap", includes_parent=True))
    return PathMap(mounts)


def test_a_config_map_has_the_layout_of_the_kubelet(tmp_path: Path) -> None:
    target = tmp_path / "training"
    item = {"data": {"train.py": "x = 1\n"}, "binaryData": {"a.bin": base64.b64encode(b"\x00\xff").decode()}}
    lay_out(target, config_map_files(item))
    data = target / "..data"
    assert data.is_symlink() and data.readlink().name.startswith("..20")
    assert (target / "train.py").is_symlink()
    assert (target / "train.py").readlink() == Path("..data/train.py")
    assert (target / "train.py").read_text() == "x = 1\n"
    assert (target / "a.bin").read_bytes() == b"\x00\xff"
    assert sorted(entry.name for entry in target.iterdir() if not entry.name.startswith("..2")) == [
        "..data",
        "a.bin",
        "train.py",
    ]
    assert (target / "train.py").stat().st_mode & 0o222 == 0
    assert target.stat().st_mode & 0o222 == 0


def test_items_choose_and_rename_files(tmp_path: Path) -> None:
    target = tmp_path / "code"
    lay_out(target, config_map_files({"data": {"a": "1", "b": "2"}}, items=[{"key": "b", "path": "deep/c.py"}]))
    assert (target / "deep" / "c.py").read_text() == "2"
    assert (target / "deep").readlink() == Path("..data/deep")
    assert not (target / "a").exists()
    with pytest.raises(LocalError, match="no key missing"):
        config_map_files({"data": {}}, items=[{"key": "missing", "path": "x"}])


def test_a_read_only_tree_can_be_removed(tmp_path: Path) -> None:
    lay_out(tmp_path / "root" / "code", {"a": b"1"})
    remove_tree(tmp_path / "root")
    assert not (tmp_path / "root").exists()
    remove_tree(tmp_path / "root")  # absent is fine


def test_paths_are_mapped_at_boundaries_only() -> None:
    paths = _map("/mnt/ray-train", "/mnt/ray-train/deep")
    cases = {
        "/mnt/ray-train": "/w/mnt-ray-train",
        "/mnt/ray-train/runs/a": "/w/mnt-ray-train/runs/a",
        "/mnt/ray-train/deep/b": "/w/mnt-ray-train-deep/b",
        "/mnt/ray-train-2/runs": "/mnt/ray-train-2/runs",
        "/data/mnt/ray-train": "/data/mnt/ray-train",
        "s3://mnt/ray-train": "s3://mnt/ray-train",
        "s3://bucket/mnt/ray-train": "s3://bucket/mnt/ray-train",
        "file:///mnt/ray-train/x": "file:///w/mnt-ray-train/x",
        "/a:/mnt/ray-train:/b": "/a:/w/mnt-ray-train:/b",
        "--out=/mnt/ray-train --in '/mnt/ray-train/x'": "--out=/w/mnt-ray-train --in '/w/mnt-ray-train/x'",
        "": "",
    }
    assert {text: paths.apply(text) for text in cases} == cases


def test_the_parent_of_a_code_mount_is_mapped_too() -> None:
    paths = _map("/mnt/claim", code="/opt/ray-train/training")
    assert paths.apply("/opt/ray-train") == "/w/root/opt/ray-train"
    assert paths.apply("/opt/ray-train/training/x.py") == "/w/root/opt/ray-train/training/x.py"
    assert paths.apply("/mnt") == "/mnt", "only code mounts: Python finds a package through its parent"
    assert _map(code="/code/training").apply("/code:/usr") == "/code:/usr", "never a folder directly under /"


def test_no_mounts_map_nothing() -> None:
    assert PathMap([]).apply("/mnt/x") == "/mnt/x"


def test_nested_values_are_mapped() -> None:
    assert _map("/mnt/a").apply_nested({"env_vars": {"A": "/mnt/a/x"}, "n": 1, "l": ["/mnt/a"]}) == {
        "env_vars": {"A": "/w/mnt-a/x"},
        "n": 1,
        "l": ["/w/mnt-a"],
    }


def test_pods_share_code_and_claims_and_have_their_own_scratch(tmp_path: Path) -> None:
    code = config_map()
    volumes = Volumes(tmp_path, {code["metadata"]["name"]: code})
    spec = group()["template"]["spec"]
    head, worker = volumes.mounts("head", spec), volumes.mounts("cpu-0", spec)
    by_path = {mount.container_path: mount.local_path for mount in head}
    assert by_path[CODE_PATH] == tmp_path / "root" / "opt" / "ray-train" / "training"
    assert (by_path[CODE_PATH] / "train.py").exists()
    assert by_path["/mnt/ray-train"] == tmp_path / "storage" / "shared"
    differing = {a.container_path for a, b in zip(head, worker, strict=True) if a.local_path != b.local_path}
    assert differing == {"/scratch/ray-train"}
    # The next run: claims stay, the rest goes.
    (tmp_path / "storage" / "shared" / "run.json").write_text("{}")
    volumes.clear()
    assert not (tmp_path / "root").exists()
    assert (tmp_path / "storage" / "shared" / "run.json").exists()


def test_a_volume_that_cannot_be_played_is_refused(tmp_path: Path) -> None:
    spec = group()["template"]["spec"]
    spec["volumes"][2] = {"name": "scratch", "hostPath": {"path": "/"}}
    code = config_map()
    with pytest.raises(LocalError, match="scratch is of kind hostPath"):
        Volumes(tmp_path, {code["metadata"]["name"]: code}).mounts("head", spec)


def test_different_code_at_one_path_is_refused(tmp_path: Path) -> None:
    code, other = config_map(), config_map()
    other["metadata"]["name"] = "other"
    volumes = Volumes(tmp_path, {"other": other, code["metadata"]["name"]: code})
    spec = group()["template"]["spec"]
    volumes.mounts("head", spec)
    spec["volumes"][0]["projected"]["sources"][0]["configMap"]["name"] = "other"
    with pytest.raises(LocalError, match="different ConfigMaps at /opt/ray-train/training"):
        volumes.mounts("cpu-0", spec)


def test_projected_config_maps_are_one_folder(tmp_path: Path) -> None:
    parts = {"one": {"data": {"a.py": "1", "b.py": "1"}}, "two": {"data": {"b.py": "2", "c.py": "3"}}}
    spec = group()["template"]["spec"]
    spec["volumes"][0] = projected({"configMap": {"name": "one"}}, {"configMap": {"name": "two"}})
    mount = Volumes(tmp_path, parts).mounts("head", spec)[0]
    assert (mount.container_path, mount.source) == (CODE_PATH, "ConfigMaps one + two, 3 files")
    folder = mount.local_path
    assert sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("..2")) == [
        "..data", "a.py", "b.py", "c.py"
    ]  # fmt: skip
    assert [(folder / name).read_text() for name in ("a.py", "b.py", "c.py")] == ["1", "2", "3"], "the later one counts"
    assert {(folder / name).readlink() for name in ("a.py", "c.py")} == {Path("..data/a.py"), Path("..data/c.py")}
    assert (folder / "c.py").stat().st_mode & 0o222 == folder.stat().st_mode & 0o222 == 0


def test_the_charts_package_in_parts_is_one_folder(tmp_path: Path) -> None:
    chart = Path(shutil.copytree(CHART, tmp_path / CHART.name))
    package = enlarge(chart, 250 * 1024)
    program()
    rendered = render(chart, [CHART / "ci" / "cpu-pvc-values.yaml"], release="demo", namespace="team")
    assert len(rendered.config_maps) == 2
    (_, head), (_, workers) = pod_templates(rendered.rayjob)
    volumes = Volumes(tmp_path / "work", rendered.config_maps)
    for pod, template in (("head", head), ("cpu-0", workers)):
        mounts = {mount.container_path: mount for mount in volumes.mounts(pod, template["template"]["spec"])}
        folder = mounts[CODE_PATH].local_path
        assert folder == tmp_path / "work" / "root" / CODE_PATH.lstrip("/")
        laid_out = {file.name: file.read_bytes() for file in folder.glob("*.py")}
        assert laid_out == {file.name: file.read_bytes() for file in package.glob("*.py")}


@pytest.mark.parametrize("sub_path", ["", "sizes.py"])
def test_a_config_map_alone_is_played_too(tmp_path: Path, sub_path: str) -> None:
    code = config_map()
    name = code["metadata"]["name"]
    spec = group()["template"]["spec"]
    spec["volumes"][0] = {"name": "code", "configMap": {"name": name}}
    spec["containers"][0]["volumeMounts"][0]["subPath"] = sub_path
    mount = Volumes(tmp_path, {name: code}).mounts("head", spec)[0]
    assert mount.source == f"ConfigMap {name}, 3 files"
    assert (mount.local_path if sub_path else mount.local_path / "sizes.py").read_text() == "PARAMETERS = 1\n"


def test_one_file_of_projected_config_maps(tmp_path: Path) -> None:
    spec = group()["template"]["spec"]
    spec["volumes"][0] = projected(
        {"configMap": {"name": "one", "items": [{"key": "a.py", "path": "deep/x.py"}]}}, {"configMap": {"name": "two"}}
    )
    spec["containers"][0]["volumeMounts"][0] |= {"mountPath": "/opt/x.py", "subPath": "deep/x.py"}
    parts = {"one": {"data": {"a.py": "1"}}, "two": {"data": {"b.py": "2"}}}
    assert Volumes(tmp_path, parts).mounts("head", spec)[0].local_path.read_text() == "1"


@pytest.mark.parametrize(
    "source", [{"secret": {"name": "a"}}, {"serviceAccountToken": {"path": "token"}}, {"downwardAPI": {"items": []}}]
)
def test_other_projected_sources_are_refused(tmp_path: Path, source: dict[str, Any]) -> None:
    code = config_map()
    spec = group()["template"]["spec"]
    spec["volumes"][0]["projected"]["sources"].append(source)
    with pytest.raises(LocalError, match=f"head: the projected volume code has a source of kind {next(iter(source))}"):
        Volumes(tmp_path, {code["metadata"]["name"]: code}).mounts("head", spec)


def projected(*sources: dict[str, Any]) -> dict[str, Any]:
    """The volume `code` of some sources."""
    return {"name": "code", "projected": {"sources": list(sources)}}
