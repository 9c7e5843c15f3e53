"""What `local` tells its user: the mapping before the run, the result after it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from generator.local.mount import PathMap
from generator.local.raycluster import Node, RayCluster, not_played

Echo = Callable[[str], None]
# Exit codes of training/ (docs/contract.md).
EXIT_CODES = {
    3: "the transport is not the one that the environment expects",
    4: "the storage cannot be used",
    5: "the layout is not the one that the environment asks for",
    143: "stopped after a checkpoint",
}


@dataclass(frozen=True)
class Record:
    """What a run record says about the training; see `run.json` in the contract."""

    path: Path
    steps: Sequence[tuple[int, float]]
    """(step, loss) in the order of the record."""
    started: str
    state: str
    ranks: int
    nodes: int

    @property
    def last_step(self) -> int:
        return max((step for step, _ in self.steps), default=0)


def read_record(path: Path) -> Record | None:
    """The run record at `path`; None when there is none or it cannot be read."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        steps = [(int(entry["step"]), float(entry["loss"])) for entry in content.get("steps") or []]
        run: Mapping[str, Any] = content.get("run") or {}
        topology: Mapping[str, Any] = content.get("topology") or {}
        return Record(
            path=path,
            steps=steps,
            started=str(run.get("started") or ""),
            state=str(run.get("state") or ""),
            ranks=int(topology.get("worldSize") or 0),
            nodes=int(topology.get("nodes") or 0),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def relative(path: Path) -> str:
    """`path` as seen from the current folder when it lies below it, else absolute."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def print_plan(cluster: RayCluster, work_dir: Path, entrypoint: str, echo: Echo) -> None:
    """Print every difference between the RayJob and what runs here."""
    rendered = cluster.rendered
    echo(f"RayJob {rendered.name}, namespace {rendered.namespace}, on this machine's Ray {cluster.ray_version}")
    echo(f"  nodes       {', '.join(f'{node.pod.name} {node.pod.address}' for node in cluster.nodes)}")
    for path, target, source in _paths(cluster.nodes, work_dir):
        echo(f"  path        {path} -> {target}  ({source})")
    for name, before, after in _variables(cluster.nodes, work_dir):
        echo(f"  variable    {name}={before} -> {after}")
    mapped = PathMap(cluster.nodes[0].mounts).apply(entrypoint)
    echo(f"  entrypoint  {entrypoint}" + ("" if mapped == entrypoint else f" -> {mapped}"))
    token = "on, with a token of this run's own" if cluster.token else "off: the RayJob does not ask for it"
    echo(f"  operator    token authentication {token}")
    for adaptation in cluster.adaptations:
        echo(f"  this host   {adaptation}")
    if skipped := not_played(rendered):
        echo(f"  not played  {', '.join(skipped)}")
    wanted = str(rendered.spec["rayClusterSpec"].get("rayVersion") or "")
    if wanted != cluster.ray_version:
        echo(f"warning: the RayJob is for Ray {wanted or '(unset)'}, this machine has Ray {cluster.ray_version}")


def module_of(entrypoint: str) -> str:
    """The module that an entrypoint `python -m <module> …` runs; empty for any other."""
    words = entrypoint.split()
    return words[words.index("-m") + 1] if "-m" in words[:-1] else ""


def print_result(before: Record | None, after: Record, loss_svg: Path, echo: Echo) -> None:
    """Print what was trained and where the results are."""
    if before is not None and (before.started, before.steps) == (after.started, after.steps):
        echo(
            f"nothing was trained now: this run had finished at step {after.last_step} before; "
            "run again with --fresh to remove its storage first, or change the training"
        )
    elif before is not None and before.steps:
        echo(f"resumed a run that had reached step {before.last_step}")
    (first, first_loss), (last, last_loss) = after.steps[0], after.steps[-1]
    where = f", {after.ranks} processes on {after.nodes} nodes" if after.ranks else ""
    echo(f"loss        {first_loss:.4f} (step {first}) -> {last_loss:.4f} (step {last}){where}")
    if last > first and last_loss >= first_loss:
        echo("warning: the loss did not fall")
    echo(f"run record  {relative(after.path)}")
    echo(f"loss curve  {relative(loss_svg)}" + ("" if loss_svg.exists() else "  (missing)"))


def failure(info: Mapping[str, Any], *, log_shown: bool) -> list[str]:
    """Lines that explain a job that did not succeed.

    Args:
        info: the job's last state.
        log_shown: the job wrote lines, and they stand above already; Ray's message only repeats them.
    """
    code = info.get("driver_exit_code")
    text = f"job {info.get('status')}" + (f": exit code {code}" if code is not None else "")
    if isinstance(code, int) and code in EXIT_CODES:
        text += f" ({EXIT_CODES[code]})"
    if log_shown:
        return [text]
    return [text, *(f"  {line}" for line in str(info.get("message") or "").splitlines()[-20:])]


def _paths(nodes: Sequence[Node], work_dir: Path) -> list[tuple[str, str, str]]:
    """(container path, path here, what it is), each once; a folder per pod is shown with `<pod>`."""
    rows: dict[tuple[str, str, str], None] = {}
    for node in nodes:
        for mount in node.mounts:
            rows[mount.container_path, _show(mount.local_path, node, work_dir), mount.source] = None
            for path, target in PathMap([mount]).paths.items():
                if path != mount.container_path:
                    rows[path, _show(target, node, work_dir), f"parent of {mount.container_path}"] = None
    return list(rows)


def _variables(nodes: Sequence[Node], work_dir: Path) -> list[tuple[str, str, str]]:
    """(name, value in the RayJob, value here) of every variable that path mapping changed, each once."""
    rows: dict[tuple[str, str, str], None] = {}
    for node in nodes:
        for name, (before, after) in sorted(node.mapped.items()):
            rows[name, before, _show(after, node, work_dir)] = None
    return list(rows)


def _show(text: str | Path, node: Node, work_dir: Path) -> str:
    """A local path for the reader: relative to the current folder, and `<pod>` for the pod's own folder."""
    own = f"{work_dir}{os.sep}pods{os.sep}"
    shown = str(text).replace(f"{own}{node.pod.name}", f"{own}<pod>")
    return shown.replace(str(work_dir), relative(work_dir))
