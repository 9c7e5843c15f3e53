"""What the commands share: common arguments, the check before anything is done, output."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from generator import exits
from generator.diagnostics.finding import Finding, Severity
from generator.diagnostics.output import format_findings, summary
from generator.exits import Stop
from generator.project import Loaded, Project, sources
from generator.rules import check, judge
from generator.silences import Judged

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]
else:
    Subparsers = object


def root() -> argparse.ArgumentParser:
    """`--root`, for a command's `parents`."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(
        "--root",
        type=_existing_folder,
        default=Path(),
        metavar="DIR",
        help="folder that holds environments/ (default: the current one)",
    )
    return parser


def several() -> argparse.ArgumentParser:
    """Names of environments, for a command's `parents`."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("env", nargs="*", metavar="ENV", help="name or folder of an environment (default: all)")
    return parser


def valid(project: Project, given: list[str], *, neighbours: bool = True, quiet: bool = False) -> list[Loaded]:
    """The selected environments, or the end of the command with their findings. `quiet`: warnings alone are not shown.

    With `neighbours`, environments that share a ClusterConfig with a selected one are checked too: it holds the node
    groups of all of them, so one with errors would lose its own.

    Raises:
        Stop: there are findings of severity error.
    """
    folders = project.select(given)
    loaded = [project.load(folder) for folder in folders]
    checked = list(loaded)
    if neighbours:
        clusters = {
            one.cluster.model.name
            for one in loaded
            if one.cluster and one.cluster.model and one.cluster.model.managed == "eksctl"
        }
        others = {folder for cluster in clusters for folder in project.on_cluster(cluster)} - set(folders)
        if clusters:  # an environment that names no cluster may belong to this one: a typo must not drop its nodes
            others |= set(project.without_cluster()) - set(folders)
        checked += [project.load(folder) for folder in sorted(others)]
    found = [check(one) for one in checked]
    refuse_errors(merged(found), checked, "nothing was done")
    findings = merged(found[: len(loaded)])
    if findings and not quiet:
        names = " ".join(folders)
        print(f"{summary(findings)}: see `python -m generator validate {names}`", file=sys.stderr)
    return loaded


def refuse_errors(findings: list[Finding], loaded: list[Loaded], doing: str) -> None:
    """Stop when these findings about `loaded` hold an error; `doing` says what that means.

    Raises:
        Stop: with the findings printed.
    """
    if has_errors(findings):
        sys.stderr.write(format_findings(findings, sources(loaded), "text"))
        raise Stop(exits.FINDINGS, f"{summary(findings)}; {doing}")


def all_findings(loaded: list[Loaded]) -> list[Finding]:
    """All findings about these environments."""
    return merged(check(one) for one in loaded)


def merged(found: Iterable[list[Finding]]) -> list[Finding]:
    """Findings of several environments, once each: those on one cluster share its file."""
    return sorted({f for findings in found for f in findings}, key=lambda f: f.sort_key)


def judged(project: Project, loaded: list[Loaded]) -> Judged:
    """All findings, those that are silenced, and the comments that silence nothing in the whole project."""
    each = {one.folder: judge(one) for one in loaded}
    unused = {(f.file, f.range): f for one in each.values() for f in one.unused}
    for folder in project.names() if unused else []:  # rare: another reader of the file may need the comment
        one = project.load(folder)
        read = {file for file, _ in one.texts()}
        if any(file in read for file, _ in unused):
            other = each.get(folder) or judge(one)
            here = {(f.file, f.range) for f in other.unused}
            unused = {place: f for place, f in unused.items() if place[0] not in read or place in here}
    findings = set(unused.values()).union(*(one.findings for one in each.values()))
    silenced = {s for one in each.values() for s in one.silenced}
    return Judged(
        tuple(sorted(findings, key=lambda f: f.sort_key)),
        tuple(sorted(silenced, key=lambda s: s.finding.sort_key)),
    )


def has_errors(findings: list[Finding]) -> bool:
    """Whether a finding stops what was asked for."""
    return any(f.severity is Severity.ERROR for f in findings)


def emit(text: str) -> None:
    """Write to standard output. A reader that has enough (`| head`) changes nothing about the command's exit code."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _existing_folder(text: str) -> Path:
    """An argparse type: a folder that exists."""
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is not a folder")
    return path
