"""Which values changed since an earlier version, as the table of a section of the chart's CHANGELOG.md.

The earlier version is read from the table of its README.md, which is in every package and every commit of the chart:
unlike values.yaml it also holds what a worker group takes.
"""

from __future__ import annotations

import re
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from generator.values.document import Row

# Old path → new path of each value that was renamed since the last release; empty again after the next one.
RENAMED: dict[str, str] = {}

_README = "charts/ray-train-dlc/README.md"
_ROW = re.compile(r"\| `([A-Za-z0-9.<>]+)` \| (.*?) \| (?:.* )?\|")
_TIMEOUT_S = 30


class EarlierError(Exception):
    """There is no earlier version to compare with; the text says what was looked for."""


def earlier(source: str, root: Path) -> dict[str, str]:
    """Path and default of each value of an earlier version.

    Args:
        source: a package (.tgz), a README.md of the chart, or a commit or tag of the repository at `root`.

    Raises:
        EarlierError: it is none of them, or it holds no table of values.
    """
    path = Path(source)
    if path.is_file() and tarfile.is_tarfile(path):
        text = _packaged(path)
    elif path.is_file():
        text = path.read_text(encoding="utf-8")
    else:
        text = _committed(source, root)
    found = {row[1]: row[2].strip("`") for line in text.splitlines() if (row := _ROW.fullmatch(line))}
    if not found:
        raise EarlierError(f"{source}: its README.md holds no table of values; name another version")
    return found


def difference(before: Mapping[str, str], after: Sequence[Row], renamed: Mapping[str, str] | None = None) -> str:
    """What changed, as a Markdown table; one sentence when nothing did."""
    renamed = {old: new for old, new in (RENAMED if renamed is None else renamed).items() if old in before}
    now = {row.path: row for row in after}
    lines = []
    for old, new in renamed.items():
        lines.append(f"| renamed | `{old}` is now `{new}` | {_defaults(before[old], now[new].default)} | |")
    for path, row in now.items():
        if path not in before and path not in renamed.values():
            lines.append(f"| added | `{path}` | {_code(row.default)} | {row.text.replace('|', chr(92) + '|')} |")
    for path in before:
        if path not in now and path not in renamed:
            lines.append(f"| removed | `{path}` | | |")
    for path, row in now.items():
        if path in before and not _same(before[path], row.default):
            lines.append(f"| other default | `{path}` | {_defaults(before[path], row.default)} | |")
    if not lines:
        return "No value has changed.\n"
    return "\n".join(["| change | value | default | what |", "|---|---|---|---|", *lines]) + "\n"


def _packaged(path: Path) -> str:
    with tarfile.open(path) as archive:
        for entry in archive:
            if re.fullmatch(r"[^/]+/README\.md", entry.name) and (file := archive.extractfile(entry)):
                return file.read().decode()
    raise EarlierError(f"{path}: holds no README.md of a chart; name a package of this chart")


def _committed(source: str, root: Path) -> str:
    command = ["git", "-C", str(root), "show", "--end-of-options", f"{source}:{_README}"]
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=_TIMEOUT_S, check=False)
    except FileNotFoundError as error:
        raise EarlierError(f"{source}: is no file, and git, which would know commits, was not found") from error
    if done.returncode:
        raise EarlierError(f"{source}: is neither a file nor a commit with {_README} ({done.stderr.strip()})")
    return done.stdout


def _same(one: str, other: str) -> bool:
    return bool(one == other or yaml.safe_load(one) == yaml.safe_load(other))


def _defaults(old: str, new: str) -> str:
    return _code(new) if _same(old, new) else f"{_code(old) or 'none'}, now {_code(new) or 'none'}"


def _code(text: str) -> str:
    return f"`{text}`" if text else ""
