"""The files of a project: which there are, and what belongs together.

    environments/_clusters/<cluster>.yaml
    environments/<env>/environment.yaml, version.yaml

An environment is loaded with its version, its cluster, and the other environments on that cluster (they share its
ClusterConfig, so their node groups must not collide). Nothing is raised for bad content: it becomes findings.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from generator.diagnostics.finding import Finding
from generator.model.cluster import Cluster
from generator.model.environment import Environment
from generator.model.shape import Shaped, shape
from generator.model.version import Version
from generator.source import read


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

    def texts(self) -> Iterator[tuple[str, str]]:
        """(file, text) of every file that findings may point into."""
        for shaped in (self.environment, self.version, self.cluster):
            if shaped is not None:
                yield shaped.source.file, shaped.source.text


@dataclass(slots=True)
class Project:
    """The folder that holds `environments/`. Files are read once."""

    root: Path
    _environments: dict[str, Shaped[Environment]] = field(default_factory=dict)
    _clusters: dict[str, Shaped[Cluster]] = field(default_factory=dict)
    _cluster_hints: dict[str, bytes] = field(default_factory=dict)

    @property
    def environments_dir(self) -> Path:
        return self.root / "environments"

    def names(self) -> list[str]:
        """Folders under environments/ that hold an environment, sorted."""
        if not self.environments_dir.is_dir():
            return []
        return sorted(
            p.parent.name for p in self.environments_dir.glob("*/environment.yaml") if not p.parent.name.startswith("_")
        )

    def cluster_names(self) -> list[str]:
        return sorted(p.stem for p in (self.environments_dir / "_clusters").glob("*.yaml"))

    def select(self, given: list[str]) -> list[str]:
        """Environment folders for the names or paths on the command line; none given means all.

        Raises:
            UsageError: there is no such environment.
        """
        known = self.names()
        if not given:
            if not known:
                raise UsageError(
                    f"no environments under {self.environments_dir}; make one with `python -m generator new NAME`, "
                    "or name the project's folder with --root"
                )
            return known
        chosen: list[str] = []
        for name in given:
            folder = name if name in known else self._folder_of(name)
            if folder not in known:
                close = difflib.get_close_matches(folder, known, n=1)
                hint = f"; did you mean `{close[0]}`?" if close else f"; there are: {', '.join(known) or 'none'}"
                raise UsageError(f"no environment `{name}` under {self.environments_dir}{hint}")
            if folder not in chosen:
                chosen.append(folder)
        return chosen

    def _folder_of(self, given: str) -> str:
        """A path to an environment's folder as the folder's name, when it lies in this project."""
        path = Path(given).resolve()
        return path.name if path.parent == self.environments_dir.resolve() else given

    def load(self, folder: str) -> Loaded:
        """Everything that `folder`'s environment depends on."""
        environment = self.environment(folder)
        version_file = f"environments/{folder}/version.yaml"
        version = shape(read(self.root / version_file, version_file), Version)
        findings = [*environment.findings, *version.findings]
        cluster = None
        model = environment.model
        if model is not None:
            if model.cluster in self.cluster_names():
                cluster = self.cluster(model.cluster)
                findings += cluster.findings
            else:
                findings.append(self._no_cluster(environment, model.cluster))
        neighbours = tuple(self._neighbours(folder, model.cluster)) if model is not None else ()
        return Loaded(folder, environment, version, cluster, neighbours, tuple(findings))

    def environment(self, folder: str) -> Shaped[Environment]:
        if folder not in self._environments:
            file = f"environments/{folder}/environment.yaml"
            self._environments[folder] = shape(read(self.root / file, file), Environment)
        return self._environments[folder]

    def cluster(self, name: str) -> Shaped[Cluster]:
        if name not in self._clusters:
            file = f"environments/_clusters/{name}.yaml"
            self._clusters[name] = shape(read(self.root / file, file), Cluster)
        return self._clusters[name]

    def on_cluster(self, name: str) -> list[str]:
        """Folders of the environments on this cluster, sorted.

        One whose file is broken counts when its text mentions the cluster: its node groups must not vanish unnoticed.
        """
        return [
            folder
            for folder in self.names()
            if self._mentions(folder, name)
            and ((model := self.environment(folder).model) is None or model.cluster == name)
        ]

    def _neighbours(self, folder: str, cluster: str) -> Iterator[tuple[str, Environment]]:
        for other in self.on_cluster(cluster):
            model = self.environment(other).model
            if other != folder and model is not None:
                yield other, model

    def _mentions(self, folder: str, cluster: str) -> bool:
        """Whether the environment's text names the cluster on a line about clusters: the many others are not parsed."""
        if folder not in self._environments:
            if folder not in self._cluster_hints:
                try:
                    raw = (self.environments_dir / folder / "environment.yaml").read_bytes()
                except OSError:
                    raw = b""
                self._cluster_hints[folder] = b"\n".join(line for line in raw.splitlines() if b"cluster" in line)
            return cluster.encode() in self._cluster_hints[folder]
        model = self._environments[folder].model
        return model is None or model.cluster == cluster

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
