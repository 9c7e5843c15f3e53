"""List the runs below a folder or an address, and remove their old checkpoints.

    python -m training.runs                                       runs below ./runs
    python -m training.runs s3://bucket/runs --json               as JSON, for programs
    python -m training.runs /mnt/ray-train/demo --delete-all-but 1 --dry-run

A run is a folder with run.json or checkpoints/, at most three folders below the given one (cluster, namespace, run);
the path of one run lists that one. docs/runs.md has the states and the JSON form.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from training import metrics, owner
from training.checkpoint import FOLDER, folder_name, prune, steps_present, surplus
from training.contract import RunEndError
from training.storage import Storage

# The first file that makes a folder a run: what lies below `checkpoints` is part of it, whatever its name.
_RUN = re.compile(rf"((?:[^/]+/){{0,3}}?)(?:{metrics.RECORD}|{FOLDER}/.+)")
# A lease of another machine counts as renewed by its times, for a list that does not wait: clocks may differ by this.
CLOCKS_S = 120.0


@dataclass(frozen=True)
class Checkpoint:
    """A folder of a checkpoint."""

    step: int
    complete: bool
    """False: a save that is going on, or one that was cut off."""
    size: int
    """Bytes of its files."""


@dataclass(frozen=True)
class Run:
    """What is known of a run by its files."""

    name: str
    """Path below the listed folder."""
    storage: Storage
    state: str
    """`running`, `finished`, `preempted`, `failed`; `lost`: by its record it is running, but nobody owns it;
    `unknown`: there is no record."""
    refused: bool
    """A later start is refused, by a marker."""
    step: int
    """Last step in the record; 0: none."""
    steps: int
    """Steps of the whole run; 0: not known."""
    loss: float | None
    """Loss of the last step."""
    checkpoints: list[Checkpoint]
    size: int
    """Bytes of all files."""
    changed: float
    """Last change of any of them, in seconds since 1970."""
    lease: owner.Lease | None
    """The owner, where there is one that lives or may live."""

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "name": self.name,
            "path": self.storage.root,
            "state": self.state,
            "refused": self.refused,
            "step": self.step,
            "steps": self.steps,
            "loss": self.loss,
            "checkpoints": [{"step": c.step, "complete": c.complete, "bytes": c.size} for c in self.checkpoints],
            "bytes": self.size,
            "changed": _time(self.changed),
            "owner": self.lease
            and {"host": self.lease.host, "pid": self.lease.pid, "name": self.lease.name, "since": self.lease.since},
        }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def find(root: str) -> Iterator[Run]:
    """The runs below `root`, by name.

    Raises:
        OSError, ValueError: the storage cannot be read.
    """
    storage = Storage(root)
    files = storage.files("")
    found = sorted({match[1].rstrip("/") for name, *_ in files if (match := _RUN.fullmatch(name))})
    if "" in found:  # the root is a run itself: no folder in it is another one
        found = [""]
    for name in found:
        prefix = f"{name}/" if name else ""
        own = [(file[len(prefix) :], size, changed) for file, size, changed in files if file.startswith(prefix)]
        yield _run(Storage(storage.path(name)), name or storage.root.rsplit("/", 1)[-1], own)


def _run(storage: Storage, name: str, files: list[tuple[str, int, float]]) -> Run:
    record = metrics.read(storage) or {}
    lease = owner.read(storage)
    if lease and not _lives(lease):
        lease = None
    state = record["run"]["state"] if record else "unknown"
    if lease:
        state = "running"
    elif state == "running":
        state = "lost"
    last = record["steps"][-1] if record.get("steps") else {}
    return Run(
        name=name,
        storage=storage,
        state=state,
        refused=metrics.refusal(storage) is not None,
        step=last.get("step", 0),
        steps=record["configuration"]["steps"] if record else 0,
        loss=last.get("loss"),
        checkpoints=[
            Checkpoint(step, complete, sum(s for file, s, _ in files if file.startswith(f"{folder_name(step)}/")))
            for step, complete in steps_present(storage)
        ],
        size=sum(size for _, size, _ in files),
        changed=max(changed for *_, changed in files),
        lease=lease,
    )


def _lives(lease: owner.Lease) -> bool:
    """Whether a lease is that of a process that lives, as far as one look tells."""
    if lease.runs_here is not None:
        return lease.runs_here
    try:
        age = datetime.now(UTC) - datetime.fromisoformat(lease.renewed)
    except (ValueError, TypeError):
        return True
    return abs(age.total_seconds()) < owner.DEAD_S + CLOCKS_S


@dataclass(frozen=True)
class Removal:
    """What was removed of a run, or would be."""

    steps: list[int]
    """Steps of the checkpoints, cut-off ones included."""
    freed: int
    """Bytes."""
    why_not: str = ""
    """Why nothing was removed."""


def remove(run: Run, keep: int, *, dry_run: bool) -> Removal:
    """Remove all but the newest `keep` complete checkpoints of a run, and what cut-off saves left.

    The run is owned meanwhile, so that no start of it goes on from a checkpoint that is about to go.

    Raises:
        OSError: the storage refuses.
    """
    going = {step for step, _ in surplus([(c.step, c.complete) for c in run.checkpoints], keep)}
    sizes = {c.step: c.size for c in run.checkpoints if c.step in going}
    if run.lease:
        return Removal([], 0, f"it is owned right now ({run.lease.text})")
    if not going or dry_run:
        return Removal(sorted(going), sum(sizes.values()))
    try:
        held = owner.acquire(run.storage.root, "python -m training.runs", say=_tell, patience=0)
    except RunEndError as error:
        return Removal([], 0, error.message.splitlines()[0])
    try:
        prune(run.storage, keep)
    finally:
        held.release()
    left = {step for step, _ in steps_present(run.storage)}
    removed = sorted(going - left)
    why_not = f"{run.storage.path(FOLDER)} still holds {_numbers(going & left)}" if going & left else ""
    return Removal(removed, sum(sizes[step] for step in removed), why_not)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _numbers(steps: set[int] | list[int]) -> str:
    return " ".join(map(str, sorted(steps)))


def human(size: float) -> str:
    """A number of bytes for people: 18.5 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def table(runs: list[Run]) -> str:
    """The list for people."""
    rows = [("RUN", "STATE", "STEP", "LOSS", "CHECKPOINTS", "SIZE", "LAST CHANGE")]
    for run in runs:
        whole = _numbers([c.step for c in run.checkpoints if c.complete])
        part = _numbers([c.step for c in run.checkpoints if not c.complete])
        # While a run goes on, its newest incomplete checkpoint is one that is being written.
        part = part and f"{'incomplete' if run.state == 'running' else 'cut off'}: {part}"
        rows.append(
            (
                run.name,
                f"{run.state}, refused" if run.refused else run.state,
                f"{run.step}/{run.steps or '?'}",
                "" if run.loss is None else f"{run.loss:.4f}",
                ", ".join(filter(None, (whole, part))) or "none",
                human(run.size),
                f"{_time(run.changed)[:16].replace('T', ' ')}Z",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _removed(run: Run, removal: Removal, *, dry_run: bool) -> str:
    done = ""
    if removal.steps:
        verb = "would remove" if dry_run else "removed"
        done = f"{verb} {len(removal.steps)} ({_numbers(removal.steps)}), {human(removal.freed)}"
    left = f"left alone: {removal.why_not}" if removal.why_not else ""
    return f"{run.name}: {'; '.join(filter(None, (done, left))) or 'nothing to remove'}"


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0 done, 1 the storage refuses, or there is no such folder."""
    made = argparse.ArgumentParser(
        prog="python -m training.runs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("root", nargs="?", default="runs", metavar="path", help="folder or s3:// address [runs]")
    made.add_argument("--json", action="store_true", help="print JSON")
    made.add_argument(
        "--delete-all-but",
        type=int,
        metavar="N",
        help="remove all but the newest N complete checkpoints of each run, and what saves that were cut off left; "
        "a run that is owned right now is left alone",
    )
    made.add_argument("--dry-run", action="store_true", help="say what would be removed, and remove nothing")
    made.add_argument("--force", action="store_true", help="allow --delete-all-but 0, after which no run can go on")
    given = made.parse_args(argv)
    keep: int | None = given.delete_all_but
    if keep is not None and keep < 0:
        made.error(f"--delete-all-but {keep} must be 0 or more")
    if keep == 0 and not (given.force or given.dry_run):
        made.error("--delete-all-but 0 removes the last checkpoint of every run: add --force if you mean it")
    if keep is None and (given.dry_run or given.force):
        made.error("--dry-run and --force go with --delete-all-but")
    try:
        runs = list(find(given.root))
        if not runs:
            _tell(f"no runs in {given.root}: no folder with {metrics.RECORD} or {FOLDER}/, three folders deep at most")
            if given.root != made.get_default("root") and not (
                "://" in given.root or Path(given.root).expanduser().exists()
            ):
                _tell(f"{given.root} does not exist")
                return 1
        removals = {run.name: remove(run, keep, dry_run=given.dry_run) for run in runs} if keep is not None else {}
    except (OSError, ValueError, ImportError) as error:
        _tell(f"cannot read or change {given.root}: {error}")
        return 1
    if given.json:
        print(json.dumps([_with(run, removals.get(run.name)) for run in runs], indent=1))
    elif keep is None and runs:
        print(table(runs))
    elif runs:
        print("\n".join(_removed(run, removals[run.name], dry_run=given.dry_run) for run in runs))
        freed = human(sum(r.freed for r in removals.values()))
        print(f"{freed} {'would be' if given.dry_run else 'were'} freed")
    return 0


def _with(run: Run, removal: Removal | None) -> dict[str, Any]:
    told = run.as_dict()
    if removal:
        told["removal"] = {"steps": removal.steps, "bytes": removal.freed, "whyNot": removal.why_not or None}
    return told


if __name__ == "__main__":
    sys.exit(main())
