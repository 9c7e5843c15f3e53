"""The files of a project: which there are, and what belongs together.

    environments/_clusters/<cluster>.yaml
    environments/_base/<layer>.yaml
    environments/<env>/environment.yaml, version.yaml

An environment is loaded with its layers, its version, its cluster, and the other environments on that cluster (they
share its ClusterConfig, so their node groups must not collide). Nothing is raised for bad content: it becomes findings.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from generator.diagnostics.finding import Finding
from generator.layers import FOLDER, Layers
from generator.model.base import NAME
from generator.model.cluster import Cluster
from generator.model.environment import Environment
from generator.model.shape import Shaped, shape
from generator.model.version import Version
from generator.source import MAX_BYTES, Source, parse, read

# The usual way to write it, once and at the top level: a file about another cluster is then known without parsing it.
_CLUSTER = re.compile(rb"^cluster:[ \t]+([a-z0-9-]+)[ \t]*(?:#.*)?\r?$", re.MULTILINE)

_EXTENDS = re.compile(rb"^extends:[ \t]+([a-z0-9-]+|\[[a-z0-9, -]+\])[ \t]*(?:#.*)?\r?$", re.MULTILINE)
_COMMENT = re.compile(rb"#.*")
_PERHAPS_CLUSTER = re.compile(rb"cluster|\\")  # a key in another spelling; an escape may spell it


class UsageError(Exception):
    """The command line names something that is not there."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """One environment and what it stands on. `cluster` is None when the environment names none that exists."""

    folder: str
    environment: Shaped[Environment]
    version: Shaped[Version]
    cluster: Shaped[Cluster] | None
    neighbours: tuple[tuple[str, Environment], ...]
    """The other valid environments on the same cluster, as (folder, model), sorted by folder."""
    findings: tuple[Finding, ...]
    """Findings about missing files and shapes, in all of the files."""
    neighbour_files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The files of each neighbour, by folder: its own, and the layers below it."""

    def texts(self) -> Iterator[tuple[str, str]]:
        """(file, text) of every file that findings may point into."""
        for shaped in (self.environment, self.version, self.cluster):
            if shaped is not None:
                yield from shaped.source.texts()


@dataclass(slots=True)
class Project:
    """The folder that holds `environments/`. Folders are listed and files are read once."""

    root: Path
    overlay: Mapping[str, bytes] = field(default_factory=dict)
    """Files by path from the root that are taken as if they held this: a change is judged before it is written."""
    _environments: dict[str, Shaped[Environment]] = field(default_factory=dict)
    _clusters: dict[str, Shaped[Cluster]] = field(default_factory=dict)
    _names: list[str] | None = None
    _cluster_names: list[str] | None = None
    _layers: Layers | None = None
    _written: dict[str | None, list[str]] | None = None

    @property
    def environments_dir(self) -> Path:
        return self.root / "environments"

    def names(self) -> list[str]:
        """Folders under environments/ that hold an environment, sorted."""
        if self._names is None:
            found = self.environments_dir.glob("*/environment.yaml") if self.environments_dir.is_dir() else ()
            self._names = sorted(p.parent.name for p in found if not p.parent.name.startswith("_"))
        return self._names

    def cluster_names(self) -> list[str]:
        if self._cluster_names is None:
            self._cluster_names = sorted(p.stem for p in (self.environments_dir / "_clusters").glob("*.yaml"))
        return self._cluster_names

    def layers(self) -> Layers:
        """The layers that environments may extend."""
        if self._layers is None:
            names = sorted(p.stem for p in (self.root / FOLDER).glob("*.yaml"))
            self._layers = Layers(self._read, lambda: names)
        return self._layers

    def select(self, given: list[str]) -> list[str]:
        """Environment folders for the names or paths on the command line; none given means all.

        Raises:
            UsageError: there is no such environment.
        """
        known = self.names()
        if not given:
            if not known:
                raise UsageError(
                    f"no environments under {self.environments_dir.resolve()}; make one with "
                    "`python -m generator new NAME`, or name the project's folder with --root"
                )
            return known
        chosen: list[str] = []
        for name in given:
            folder = name if name in known else self._folder_of(name)
            if folder not in known:
                raise UsageError(self._no_environment(name, folder))
            if folder not in chosen:
                chosen.append(folder)
        return chosen

    def _no_environment(self, given: str, folder: str) -> str:
        """Why there is no such environment, and what there is."""
        known = self.names()
        if "/" not in folder and folder not in ("", ".", "..") and (self.environments_dir / folder).is_dir():
            return f"environments/{folder} holds no environment.yaml; `python -m generator new NAME` writes one"
        close = difflib.get_close_matches(folder, known, n=1)
        hint = f"; did you mean `{close[0]}`?" if close else f"; there are: {', '.join(known) or 'none'}"
        return f"no environment `{given}` under {self.environments_dir.resolve()}{hint}"

    def _folder_of(self, given: str) -> str:
        """A path to an environment's folder, or to its file, as the folder's name, when it lies in this project."""
        try:
            path = Path(given).resolve()
        except (OSError, RuntimeError):  # links in a circle
            return given
        if path.name == "environment.yaml":
            path = path.parent
        return path.name if path.parent == self.environments_dir.resolve() else given

    def load(self, folder: str) -> Loaded:
        """Everything that `folder`'s environment depends on."""
        environment = self.environment(folder)
        version_file = f"environments/{folder}/version.yaml"
        version = shape(self._read(version_file), Version, {"rayVersion": "0.0.0"})
        findings = [*environment.findings, *version.findings]
        cluster = None
        neighbours: tuple[tuple[str, Environment], ...] = ()
        neighbour_files: dict[str, tuple[str, ...]] = {}
        model = environment.model
        if model is not None and not environment.touches_pruned(("cluster",)):
            if model.cluster in self.cluster_names():
                cluster = self.cluster(model.cluster)
                findings += cluster.findings
            else:
                findings.append(self._no_cluster(environment, model.cluster))
            neighbours = tuple(self._neighbours(folder, model.cluster))
            neighbour_files = {
                other: tuple(file for file, _ in self.environment(other).source.texts()) for other, _ in neighbours
            }
        return Loaded(folder, environment, version, cluster, neighbours, tuple(findings), neighbour_files)

    def environment(self, folder: str) -> Shaped[Environment]:
        if folder not in self._environments:
            file = f"environments/{folder}/environment.yaml"
            name = folder if re.fullmatch(NAME, folder) else "unnamed"
            stand_ins = {"schemaVersion": 1, "name": name, "cluster": "unknown"}
            self._environments[folder] = shape(self.layers().over(self._read(file)), Environment, stand_ins)
        return self._environments[folder]

    def cluster(self, name: str) -> Shaped[Cluster]:
        if name not in self._clusters:
            file = f"environments/_clusters/{name}.yaml"
            self._clusters[name] = shape(self._read(file), Cluster, {"name": "unnamed"})
        return self._clusters[name]

    def _read(self, file: str) -> Source:
        if file in self.overlay:
            return parse(self.overlay[file], file)
        return read(self.root / file, file)

    def on_cluster(self, name: str) -> list[str]:
        """Folders of the environments on this cluster, sorted.

        One whose file is broken counts when its text mentions the cluster: its node groups must not vanish unnoticed.
        """
        written = self._written_clusters()
        return sorted([*written.get(name, ()), *(f for f in written.get(None, ()) if self._is_on(f, name))])

    def _is_on(self, folder: str, cluster: str) -> bool:
        shaped = self.environment(folder)
        if shaped.model is not None and not shaped.touches_pruned(("cluster",)):
            return shaped.model.cluster == cluster
        return any(cluster in text for _, text in shaped.source.texts())

    def _written_clusters(self) -> dict[str | None, list[str]]:
        """Folders by the cluster that they name; under None those that do not name it in the usual way."""
        if self._written is None:
            self._written = {}
            for folder in self.names():
                self._written.setdefault(self._written_cluster(folder), []).append(folder)
        return self._written

    def _written_cluster(self, folder: str) -> str | None:
        """The cluster of an environment that is not parsed for it; None when it is not written in the usual way."""
        path = self.environments_dir / folder / "environment.yaml"
        raw = self.overlay.get(f"environments/{folder}/environment.yaml", b"")
        try:
            if not raw and path.is_file():
                with path.open("rb") as handle:
                    raw = handle.read(MAX_BYTES)
        except OSError:
            pass  # said when the environment is loaded
        found = _CLUSTER.findall(raw)
        if len(found) == 1:
            return str(found[0].decode())
        extends = _EXTENDS.findall(raw)
        if len(extends) != 1 or _PERHAPS_CLUSTER.search(_COMMENT.sub(b"", raw)):
            return None
        named = self.layers().value(re.findall("[a-z0-9-]+", extends[0].decode()), "cluster")
        return named if isinstance(named, str) else None

    def without_cluster(self) -> list[str]:
        """Folders of the environments that name a cluster which has no file, sorted."""
        known = set(self.cluster_names())
        models = ((folder, self.environment(folder).model) for folder in self.names())
        return [folder for folder, model in models if model is not None and model.cluster not in known]

    def _neighbours(self, folder: str, cluster: str) -> Iterator[tuple[str, Environment]]:
        for other in self.on_cluster(cluster):
            model = self.environment(other).model
            if other != folder and model is not None:
                yield other, model

    def _no_cluster(self, environment: Shaped[Environment], name: str) -> Finding:
        known = self.cluster_names()
        close = difflib.get_close_matches(name, known, n=1)
        return environment.source.finding(
            "RTD106",
            ("cluster",),
            f"there is no file environments/_clusters/{name}.yaml",
            label=f"did you mean `{close[0]}`?" if close else "",
            help=f"name one of: {', '.join(known)}" if known else f"create environments/_clusters/{name}.yaml",
        )


def sources(loaded: list[Loaded]) -> Mapping[str, str]:
    """Texts of all files that the findings of `loaded` may quote."""
    return {file: text for one in loaded for file, text in one.texts()}
