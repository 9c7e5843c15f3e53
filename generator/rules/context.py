"""What a rule gets to see, and how it says something."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

from generator.diagnostics.finding import Finding
from generator.model.cluster import Cluster
from generator.model.environment import Environment, WorkerGroup
from generator.model.version import Version
from generator.project import Loaded
from generator.resolve import Group, Resolved, resolve


@dataclass(frozen=True, slots=True)
class Context:
    """One environment under inspection."""

    loaded: Loaded
    environment: Environment
    cluster: Cluster | None
    version: Version | None
    resolved: Resolved
    today: date
    """The day in UTC, for what ends on a day."""

    def in_environment(self, code: str, *path: str | int, message: str, **rest: Any) -> Finding:
        """A finding at a value of environment.yaml. A `help` says what to do; `notes` give the arithmetic."""
        return self.loaded.environment.source.finding(code, path, message, **rest)

    def in_cluster(self, code: str, *path: str | int, message: str, **rest: Any) -> Finding:
        """A finding at a value of the cluster's file. Only for rules that saw a cluster."""
        assert self.loaded.cluster is not None  # noqa: S101  (rules ask for `cluster` first)
        return self.loaded.cluster.source.finding(code, path, message, **rest)

    def in_version(self, code: str, *path: str | int, message: str, **rest: Any) -> Finding:
        """A finding at a value of version.yaml."""
        return self.loaded.version.source.finding(code, path, message, **rest)

    def groups(self) -> Iterator[tuple[Group, WorkerGroup]]:
        """Every worker group of a usable type: its numbers, and what its owner wrote."""
        for group in self.resolved.groups:
            yield group, self.environment.workers[group.name]

    def neighbours(self) -> Iterator[Resolved]:
        """The other environments whose nodes eksctl makes together with this one's, in numbers."""
        copied = self.environment.name != self.loaded.folder  # RTD107 speaks about it; its nodes are another's
        if self.cluster is not None and self.cluster.managed == "eksctl" and not copied:
            for folder, environment in self.loaded.neighbours:
                if environment.name != folder or not environment.has_pods:
                    continue
                yield resolve(environment, self.cluster)

    def unknown(self, finding: Finding) -> bool:
        """Whether the finding is about a value that the file does give, but that had to be left out as malformed."""
        for shaped in (self.loaded.environment, self.loaded.version, self.loaded.cluster):
            if shaped is not None and finding.file in dict(shaped.source.texts()):
                return shaped.touches_pruned(finding.path)
        return False
