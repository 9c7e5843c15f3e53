"""What the commands share that change files of people: the change is judged before it is written."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from generator import exits
from generator.commands.common import all_findings, emit, refuse_errors
from generator.diagnostics.finding import Finding, Severity
from generator.diagnostics.output import format_findings, summary
from generator.edit.files import Files
from generator.exits import Stop
from generator.project import Loaded, Project, sources
from generator.render.write import recover


def environment_file(folder: str) -> str:
    return f"environments/{folder}/environment.yaml"


def version_file(folder: str) -> str:
    return f"environments/{folder}/version.yaml"


def start(root: Path, *, dry_run: bool) -> Files:
    """The files as they are, after a write that was killed is finished: its changes must not be lost under new ones.

    Raises:
        Stop: it cannot be finished.
    """
    for path in [] if dry_run else recover(root):
        print(f"finished   {path} (an earlier write was killed)", file=sys.stderr)
    return Files(root)


def finish(files: Files, folders: list[str], *, dry_run: bool) -> int:
    """Show the difference, refuse it where it brings errors, else write it, and say what comes next.

    Raises:
        Stop: the change brings errors, or cannot be written; nothing has changed.
    """
    if not files.planned():
        print("nothing to change", file=sys.stderr)
        return exits.OK
    refuse_new_errors(files, folders)
    emit(files.diff())
    if dry_run:
        print("nothing was written (--dry-run)", file=sys.stderr)
        return exits.OK
    files.write()
    names = " ".join(folders)
    print(f"next: python -m generator render {names}", file=sys.stderr)
    return exits.OK


def refuse_new_errors(files: Files, folders: list[str]) -> None:
    """Stop when the changes bring an error that was not there, to these environments or others on their clusters.

    Raises:
        Stop: with the errors printed.
    """
    before, after = Project(files.root), files.project()
    affected = sorted({*folders, *_on_same_cluster(before, folders), *_on_same_cluster(after, folders)})
    old = {_identity(f) for f in all_findings([before.load(folder) for folder in affected])}
    loaded = [after.load(folder) for folder in affected]
    findings = all_findings(loaded)
    new = [f for f in findings if f.severity is Severity.ERROR and _identity(f) not in old]
    if new:
        sys.stderr.write(format_findings(new, sources(loaded), "text"))
        raise Stop(exits.FINDINGS, f"the change brings {summary(new)}; nothing was changed")
    left = all_findings([one for one in loaded if one.folder in folders])
    if left:
        names = " ".join(folders)
        print(f"{summary(left)} after the change: see `python -m generator validate {names}`", file=sys.stderr)


def usable(loaded: Iterable[Loaded], doing: str) -> None:
    """Stop when environments have errors.

    Raises:
        Stop: with the findings printed.
    """
    everything = list(loaded)
    refuse_errors(all_findings(everything), everything, doing)


def _on_same_cluster(project: Project, folders: list[str]) -> set[str]:
    models = (project.environment(folder).model for folder in folders)
    return {other for model in models if model is not None for other in project.on_cluster(model.cluster)}


def _identity(finding: Finding) -> tuple[str, str, str, tuple[str | int, ...]]:
    """What makes two findings the same one, wherever its line is now."""
    return finding.code, finding.severity, finding.file, finding.path
