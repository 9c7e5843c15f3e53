"""YAML files with the line and column of every node.

Values are plain Python (dict, list, str, int, float, bool, None) under the YAML 1.2 core schema: `yes` and `2026-12-01`
are text, `1.30` is a number. Every key and value can be found again by its path. Nothing is raised for bad content:
it becomes findings.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from generator.conflicts import conflict_line
from generator.diagnostics.codes import CODES
from generator.diagnostics.finding import START_OF_FILE, Finding, Pointer, Position, Range, lines_of
from generator.tree import LimitError, Tree

MAX_BYTES = 1 << 17  # a file of ours has 2 KiB; the pure Python parser takes 1 s for the worst file of this size


@dataclass(frozen=True, slots=True)
class Source:
    """One parsed file. `file` is its name as findings show it, `text` what it holds."""

    file: str
    text: str
    data: Any = None
    findings: tuple[Finding, ...] = ()
    keys: dict[Pointer, Range] = field(default_factory=dict)
    values: dict[Pointer, Range] = field(default_factory=dict)
    incomplete: bool = False
    """A file below it (`generator.layers`) could not be read: what it would have set is not known."""

    def texts(self) -> Iterator[tuple[str, str]]:
        """(file, text) of everything that `data` was read from."""
        yield self.file, self.text

    def file_of(self, _path: Pointer) -> str:
        """The file that the value at `path` comes from."""
        return self.file

    def value_range(self, path: Pointer) -> Range:
        """Where the value at `path` stands; for a path that is not in the file, its nearest ancestor's key."""
        if path in self.values:
            return self.values[path]
        return self.key_range(path)

    def key_range(self, path: Pointer) -> Range:
        """Where the key of `path` stands; for a path that is not in the file, the key of its nearest ancestor."""
        while path:
            if path in self.keys:
                return self.keys[path]
            if path in self.values:  # an item of a list has no key
                return self.values[path]
            path = path[:-1]
        return min(self.keys.values(), default=START_OF_FILE)

    def finding(self, code: str, path: Pointer, message: str, *, on_key: bool = False, **rest: Any) -> Finding:
        """A finding of `code`'s usual severity at `path`. `rest` goes to `Finding`."""
        where = self.key_range(path) if on_key else self.value_range(path)
        rest.setdefault("severity", CODES[code].severity)
        return Finding(code=code, message=message, file=self.file_of(path), path=path, range=where, **rest)


def read(path: Path, shown_as: str) -> Source:
    """Read and parse one file; what cannot be read becomes a finding RTD106."""
    try:
        if path.exists() and not path.is_file():  # a pipe would never end, a device might not
            return _broken(
                shown_as,
                "",
                "RTD106",
                f"cannot read {shown_as}: it is a {'folder' if path.is_dir() else 'device or pipe'}, not a file",
                help="put a YAML file in its place",
            )
        with path.open("rb") as handle:
            raw = handle.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return _broken(
            shown_as,
            "",
            "RTD106",
            f"there is no file {shown_as}",
            help="create it; `python -m generator new` writes one of each kind",
        )
    except OSError as error:
        reason = error.strerror or str(error)
        return _broken(
            shown_as, "", "RTD106", f"cannot read {shown_as}: {reason}", help="make it a file that you may read"
        )
    return parse(raw, shown_as)


def parse(raw: bytes, shown_as: str) -> Source:
    """Parse the bytes of one file."""
    if len(raw) > MAX_BYTES:
        return _broken(
            shown_as,
            "",
            "RTD108",
            f"the file is larger than {MAX_BYTES:,} bytes",
            help="split it, or remove what is not ours",
        )
    try:
        text = raw.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode().removeprefix("\ufeff")
        return _broken(
            shown_as,
            raw.decode(errors="replace").removeprefix("\ufeff"),
            "RTD101",
            f"not UTF-8 text: byte 0x{raw[error.start]:02x}",
            _end_of(before),
            help="save the file as UTF-8",
        )
    if (directive := _foreign_version(text)) is not None:
        line, version = directive
        return _broken(
            shown_as,
            text,
            "RTD101",
            f"the file says that it is YAML {version}, but is read as YAML 1.2",
            Position(line, 1),
            help="remove the %YAML line; in YAML 1.2 `yes` and `on` are text",
        )
    if (conflict := conflict_line(text)) is not None:
        return _broken(
            shown_as,
            text,
            "RTD132",
            "Git's conflict markers stand here: a merge was not finished",
            Position(conflict, 1),
            help="keep one side or both, and remove the lines that begin with <<<<<<<, ======= and >>>>>>>",
        )
    return _compose(text, shown_as)


def compose(text: str) -> tuple[Any, Any]:
    """ruamel.yaml's constructor and root node for a text; its own errors are raised."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import ReusedAnchorWarning

    yaml = YAML(typ="safe", pure=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReusedAnchorWarning)  # YAML allows it: the last one counts
        return yaml.constructor, yaml.compose(text)


def _compose(text: str, shown_as: str) -> Source:
    """Parse decoded text."""
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        constructor, node = compose(text)
        if node is None:
            return _broken(
                shown_as,
                text,
                "RTD101",
                "the file is empty",
                help="see `python -m generator new --help` for a filled one",
            )
        tree = Tree(constructor, shown_as)
        data = tree.build(node)
        return Source(shown_as, text, data, tuple(tree.findings), tree.keys, tree.values)
    except LimitError as error:
        return _broken(
            shown_as,
            text,
            "RTD108",
            str(error),
            help="no file of ours needs this; write the values out",
        )
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = Position(mark.line + 1, mark.column + 1) if mark else Position(1, 1)
        problem = " ".join(str(part) for part in (error.context, error.problem) if part)
        return _broken(
            shown_as,
            text,
            "RTD101",
            f"not valid YAML: {problem}",
            where,
            help="write spaces instead of the tab"
            if r"'\t'" in problem
            else "correct the syntax here, or on the line before",
        )
    except RecursionError:
        return _broken(
            shown_as,
            text,
            "RTD108",
            "the file is nested too deeply",
            help="no key of ours lies deeper than 6 levels",
        )
    except YAMLError as error:  # a reader error (control characters) carries no mark
        position = getattr(error, "position", None)
        where = _end_of(text[:position]) if isinstance(position, int) else Position(1, 1)
        reason = getattr(error, "reason", None) or str(error)
        return _broken(
            shown_as,
            text,
            "RTD101",
            f"not valid YAML: {reason}",
            where,
            help="remove the character, or quote and escape it",
        )
    except Exception as error:  # the parser's own slips on hostile input: assertions, unpacking
        return _broken(
            shown_as,
            text,
            "RTD101",
            f"not valid YAML: the parser gave up ({type(error).__name__}: {error})",
            help="compare it with a file that `python -m generator new` writes",
        )


def _end_of(text: str) -> Position:
    """The place right after `text`, when it is the beginning of a file."""
    lines = lines_of(text)
    return Position(len(lines), len(lines[-1]) + 1)


def _foreign_version(text: str) -> tuple[int, str] | None:
    """(line, version) of a %YAML directive for another version than 1.2: it would change what `yes` and `010` mean."""
    for number, line in enumerate(lines_of(text[:4096]), start=1):
        words = line.split()
        if line.startswith("%YAML") and len(words) > 1 and words[1] != "1.2":
            return number, words[1]
        if words and line[0] not in "%#":
            break
    return None


def _broken(file: str, text: str, code: str, message: str, at: Position | None = None, help: str = "") -> Source:
    where = Range(at, Position(at.line, at.column + 1)) if at else START_OF_FILE
    finding = Finding(code, CODES[code].severity, message, file, range=where, help=help)
    return Source(file, text, None, (finding,))
