"""Lay volumes out on this machine as the kubelet does in a pod, and map container paths to them.

Where a volume lives under the work folder:

* a ConfigMap, or several in one `projected` volume, at `root/<mountPath>`, in the kubelet's layout: a dated folder with
  the files, a `..data` link to it and one link per file, all read-only; rebuilt at every run.
* a PersistentVolumeClaim at `storage/<claim>`: shared by all pods, kept between runs.
* an emptyDir at `pods/<pod>/<mountPath>`: one per pod, new at every run.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from generator.local.errors import REFUSED, LocalError
from generator.local.manifests import config_map_sources

_KINDS_PLAYED = ("configMap", "projected", "persistentVolumeClaim", "emptyDir")
_SHARED_MEMORY = "/dev/shm"  # noqa: S108  # the mount that KubeRay itself injects


@dataclass(frozen=True)
class Mount:
    """One volume mount of a Ray container, laid out on this machine."""

    container_path: str
    local_path: Path
    source: str
    """What it is, for the reader: `ConfigMap code-1a2b, 9 files`, `claim shared`, `emptyDir`."""
    includes_parent: bool = False
    """The parent folder of `container_path` is mapped too (see PathMap)."""


class PathMap:
    """Replaces container paths in texts by the paths of this machine.

    A path is replaced where it stands as a whole or as the beginning of a longer path: `/mnt/ray-train` in
    `/mnt/ray-train/runs` and in `a=/mnt/ray-train:/opt/x`, not in `/mnt/ray-train-2` and not in `s3://mnt/ray-train`.
    The parent folder of a code mount counts too: `PYTHONPATH=/opt/ray-train` is how Python finds a package that is
    mounted at `/opt/ray-train/training`; folders directly under `/` (`/opt`) are never replaced.
    """

    def __init__(self, mounts: Sequence[Mount]) -> None:
        self.paths: dict[str, Path] = {}
        for mount in mounts:
            parent = PurePosixPath(mount.container_path).parent
            if mount.includes_parent and len(parent.parts) > 2:
                self.paths.setdefault(str(parent), mount.local_path.parent)
        self.paths.update({mount.container_path: mount.local_path for mount in mounts})
        # One expression with the longest path first: a replacement is never replaced again.
        longest_first = sorted(self.paths, key=len, reverse=True)
        alternatives = "|".join(re.escape(path) for path in longest_first)
        boundary_before = r"(?:(?<![^\s:,;=\"'])|(?<=file://))"
        boundary_after = r"(?![^/\s:,;\"'])"
        self._expression = re.compile(f"{boundary_before}(?:{alternatives}){boundary_after}") if self.paths else None

    def apply(self, text: str) -> str:
        """`text` with every container path replaced."""
        if self._expression is None:
            return text
        return self._expression.sub(lambda found: str(self.paths[found.group()]), text)

    def apply_nested(self, value: Any) -> Any:
        """The same for every string inside lists and mappings, for a parsed runtime environment."""
        if isinstance(value, str):
            return self.apply(value)
        if isinstance(value, list):
            return [self.apply_nested(item) for item in value]
        if isinstance(value, dict):
            return {key: self.apply_nested(item) for key, item in value.items()}
        return value


class Volumes:
    """The volumes of all pods of one run, under one work folder."""

    def __init__(self, work_dir: Path, config_maps: Mapping[str, Mapping[str, Any]]) -> None:
        self._work_dir = work_dir
        self._config_maps = config_maps
        self._laid_out: dict[str, str] = {}

    def clear(self) -> None:
        """Remove what an earlier run left, except for the claims."""
        for name in ("root", "pods"):
            remove_tree(self._work_dir / name)

    def pod_folder(self, pod: str) -> Path:
        """Folder of one pod, where its Ray processes run: never one that holds a `training` package by accident."""
        folder = self._work_dir / "pods" / pod
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def mounts(self, pod: str, pod_spec: Mapping[str, Any]) -> list[Mount]:
        """Lay out the volumes that the Ray container (the first one) of a pod mounts.

        Args:
            pod: the pod's name, for the folder of its emptyDirs.
            pod_spec: `template.spec` of its group.

        Raises:
            LocalError: a kind of volume that cannot be played here, or a mount without its volume.
        """
        volumes = {str(volume.get("name")): volume for volume in pod_spec.get("volumes") or []}
        mounts: list[Mount] = []
        empty_dirs: dict[str, Path] = {}
        for entry in pod_spec["containers"][0].get("volumeMounts") or []:
            path = "/" + "/".join(part for part in str(entry.get("mountPath", "")).split("/") if part)
            if path == _SHARED_MEMORY:
                continue  # the machine's own
            volume = volumes.get(str(entry.get("name")))
            if volume is None:
                raise LocalError(f"{pod}: mount {path} names the volume {entry.get('name')}, which does not exist")
            sub_path = str(entry.get("subPath") or "")
            if "configMap" in volume or "projected" in volume:
                for source in (volume.get("projected") or {}).get("sources") or []:
                    if set(source) != {"configMap"}:
                        raise LocalError(
                            f"{pod}: the projected volume {volume['name']} has a source of kind {', '.join(source)}, "
                            "which only a cluster can give; local plays configMap there",
                            exit_code=REFUSED,
                        )
                mounts.append(self._config_maps_at(path, config_map_sources(volume), sub_path))
            elif "persistentVolumeClaim" in volume:
                claim = str(volume["persistentVolumeClaim"]["claimName"])
                folder = self._work_dir / "storage" / claim / sub_path
                folder.mkdir(parents=True, exist_ok=True)
                mounts.append(Mount(path, folder, f"claim {claim}"))
            elif "emptyDir" in volume:
                folder = empty_dirs.setdefault(str(volume["name"]), self.pod_folder(pod) / path.lstrip("/"))
                (folder / sub_path).mkdir(parents=True, exist_ok=True)
                mounts.append(Mount(path, folder / sub_path, "emptyDir"))
            else:
                kind = next((key for key in volume if key != "name"), "unknown")
                raise LocalError(
                    f"{pod}: volume {volume['name']} is of kind {kind}; local plays {', '.join(_KINDS_PLAYED)}",
                    exit_code=REFUSED,
                )
        return mounts

    def _config_maps_at(self, path: str, sources: Sequence[Mapping[str, Any]], sub_path: str) -> Mount:
        """Lay ConfigMaps out once; head and workers that mount the same ones at the same path share them."""
        identity = json.dumps([sources, sub_path], sort_keys=True)
        if self._laid_out.setdefault(path, identity) != identity:
            raise LocalError(
                f"two pods mount different ConfigMaps at {path}; local gives all pods one file tree",
                exit_code=REFUSED,
            )
        root = self._work_dir / "root"
        digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
        target = root / ".volumes" / digest if sub_path else root / path.lstrip("/")
        files: dict[str, bytes] = {}
        for source in sources:
            # Of two sources with one path the kubelet takes the later, too.
            files |= config_map_files(self._config_maps.get(str(source.get("name")), {}), items=source.get("items"))
        if not target.exists():
            lay_out(target, files)
        names = " + ".join(str(source.get("name")) for source in sources)
        label = (
            f"{'ConfigMap' if len(sources) == 1 else 'ConfigMaps'} {names}, "
            f"{len(files)} {'file' if len(files) == 1 else 'files'}"
        )
        return Mount(path, target / sub_path if sub_path else target, label, includes_parent=not sub_path)


def config_map_files(
    config_map: Mapping[str, Any], *, items: Sequence[Mapping[str, Any]] | None = None
) -> dict[str, bytes]:
    """The files that a ConfigMap gives a volume: path to content.

    Args:
        config_map: the object; `data` are texts, `binaryData` base64.
        items: `key` and `path` of the volume, to choose and rename files.

    Raises:
        LocalError: an item names a key that the ConfigMap does not have.
    """
    contents = {str(key): str(text).encode() for key, text in (config_map.get("data") or {}).items()}
    contents |= {str(key): base64.b64decode(text) for key, text in (config_map.get("binaryData") or {}).items()}
    if items is None:
        return contents
    missing = [str(item["key"]) for item in items if item["key"] not in contents]
    if missing:
        raise LocalError(f"the ConfigMap has no key {missing[0]}, which a volume of the pod asks for")
    return {str(item["path"]): contents[item["key"]] for item in items}


def lay_out(target: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of a volume as the kubelet's atomic writer does.

    `target/..2026_12_01_21_28_00.123456/train.py`, `target/..data` -> that folder, `target/train.py` ->
    `..data/train.py`. Files and folders are read-only, as the mount is in a pod.

    Args:
        target: folder to create.
        files: path below it to content.
    """
    dated = target / datetime.now(UTC).strftime("..%Y_%m_%d_%H_%M_%S.%f")
    dated.mkdir(parents=True)
    for name, content in files.items():
        file = dated / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        file.chmod(0o444)
    (target / "..data").symlink_to(dated.name)
    for name in sorted({PurePosixPath(name).parts[0] for name in files}):
        (target / name).symlink_to(f"..data/{name}")
    for folder in (*dated.rglob("*"), dated, target):
        if folder.is_dir() and not folder.is_symlink():
            folder.chmod(0o555)


def remove_tree(path: Path) -> None:
    """Remove a folder of ours, read-only parts included; nothing happens when it is not there."""
    if path.is_symlink() or not path.exists():
        path.unlink(missing_ok=True)
        return
    for folder in (path, *path.rglob("*")):
        if folder.is_dir() and not folder.is_symlink():
            folder.chmod(0o755)
    shutil.rmtree(path)
