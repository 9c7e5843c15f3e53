"""A killed write is finished by the next one. One write at a time, by a lock on the project's folder.

When the last file is ready and before the first is in its place, a journal says which are to be moved where.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

NAME = ".ray-train-dlc-journal.json"


class JournalError(Exception):
    """The journal is not one that a write left."""


@contextlib.contextmanager
def locked(root: Path) -> Iterator[None]:
    """Wait until no other write to `root` runs, and keep others out."""
    try:
        import fcntl
    except ImportError:  # Windows: renames still never leave half a file
        yield
        return
    handle = os.open(root, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def begin(root: Path, moves: list[tuple[Path, Path]]) -> None:
    """Note the moves (finished part, target), before the first is made."""
    text = json.dumps([[os.fspath(p.relative_to(root)) for p in pair] for pair in moves])
    part = root / f"{NAME}.part"
    with part.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(root / NAME)


def end(root: Path) -> None:
    """All moves are made, or undone."""
    for name in (NAME, f"{NAME}.part"):
        (root / name).unlink(missing_ok=True)


def recover(root: Path) -> list[str]:
    """Make the moves that a killed write still had to make. Returns the files that were moved; hold the lock.

    Raises:
        JournalError: the file is not a journal of ours, or a move leads out of the project.
    """
    path = root / NAME
    try:
        moves = json.loads(path.read_text(encoding="utf-8"))
        pairs = [(root / part, root / target) for part, target in moves]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError) as error:
        raise JournalError(f"{path} is not readable ({error}); remove it, and render again") from error
    home = root.resolve()
    for part, target in pairs:
        inside = target.resolve().is_relative_to(home) and part.parent == target.parent
        if not inside or not part.name.startswith(f".{target.name}.") or not part.name.endswith(".part"):
            raise JournalError(f"{path} names files that no write of ours makes; remove it, and render again")
    moved = []
    for part, target in pairs:
        if part.is_file() and not part.is_symlink():
            part.replace(target)
            moved.append(os.fspath(target.relative_to(root)))
    end(root)
    return moved


def sweep(targets: list[Path]) -> None:
    """Remove the unfinished parts that killed writes left beside `targets`; hold the lock."""
    for target in targets:
        for part in target.parent.glob(f".{target.name}.*.part"):
            part.unlink(missing_ok=True)
