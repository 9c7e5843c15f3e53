"""Comments that silence findings: `# rtd: ignore RTD306 because <reason>`, several codes with commas.

At the end of a line, a comment covers the findings that point at that line. On a line of its own it covers what stands
right below: the line, and when a key or an item of a list begins there, everything in it. Only comments count, as YAML
sees them: a `#` in quotes or in a block of text is text.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from generator.diagnostics.codes import CODES
from generator.diagnostics.codes.code import NEVER
from generator.diagnostics.finding import Finding, Position, Range, Silenced, lines_of
from generator.source import compose
from generator.tree import MAX_FINDINGS

_ANY = re.compile(r"#+[ \t]*rtd[ \t]*:", re.IGNORECASE)
_HASH = re.compile(r"(?:^|(?<=[ \t]))#")
_FORM = re.compile(r"#+[ \t]*rtd[ \t]*:[ \t]*(?P<verb>[^ \t]*)[ \t]*(?P<rest>.*)", re.IGNORECASE)
_BECAUSE = re.compile(r"(?:^|[ \t]+)because\b[ \t]*")
_EXAMPLE = "# rtd: ignore RTD306 because <reason>"


@dataclass(frozen=True, slots=True)
class Judged:
    """Findings, those that comments silence, and (RTD110) comments that silence nothing. Each sorted by place."""

    findings: tuple[Finding, ...]
    silenced: tuple[Silenced, ...] = ()
    unused: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class _Silence:
    """One code of one comment, in force on the lines `first` to `last`; none when `last` is below `first`."""

    code: str
    where: Range
    reason: str
    first: int
    last: int


def apply(findings: Iterable[Finding], texts: Iterable[tuple[str, str]]) -> Judged:
    """Take out what the comments in `texts` silence, and add what is wrong with these comments (RTD111).

    `texts` are (file, text) of every file that findings may point into.
    """
    still = set(findings)
    silenced: set[Silenced] = set()
    wrong: list[Finding] = []
    unused: list[Finding] = []
    for file, text in texts:
        if not _ANY.search(text):
            continue
        silences, problems = _read(file, text)
        wrong += problems
        for silence in silences:
            meant = [f for f in still | {s.finding for s in silenced} if f.file == file and f.code == silence.code]
            hit = [f for f in meant if silence.first <= f.range.start.line <= silence.last]
            can = {f for f in hit if CODES[f.code].can_be_silenced(f.severity)}
            silenced |= {Silenced(f, silence.reason, silence.where.start.line) for f in can & still}
            still -= can
            if not hit:
                unused.append(_unused(file, silence, meant))
            elif not can:
                wrong.append(_is_an_error(file, silence))
    return Judged(
        tuple(sorted([*still, *wrong], key=lambda f: f.sort_key)),
        tuple(sorted(silenced, key=lambda s: s.finding.sort_key)),
        tuple(sorted(unused, key=lambda f: f.sort_key)),
    )


def _unused(file: str, silence: _Silence, elsewhere: list[Finding]) -> Finding:
    if silence.last < silence.first:
        covers = "nothing stands on the line below the comment"
    elif silence.first == silence.last:
        covers = f"the comment covers line {silence.first}"
    else:
        covers = f"the comment covers lines {silence.first} to {silence.last}"
    places = sorted({f.range.start.line for f in elsewhere})
    found = (f"{silence.code} stands at line {', '.join(map(str, places))}",) if places else ()
    return Finding(
        "RTD110",
        CODES["RTD110"].severity,
        f"there is no {silence.code} here to silence",
        file,
        range=silence.where,
        notes=(covers, *found),
        help="put the comment on that line, or right above it" if places else f"remove {silence.code} from the comment",
    )


def _is_an_error(file: str, silence: _Silence) -> Finding:
    message = f"{silence.code} is an error here, and only its warnings can be silenced"
    return _wrong(file, silence.where, message, CODES[silence.code].fix)


def _wrong(file: str, where: Range, message: str, help: str) -> Finding:
    return Finding("RTD111", CODES["RTD111"].severity, message, file, range=where, help=help)


def _read(file: str, text: str) -> tuple[list[_Silence], list[Finding]]:
    """The silences of a file, and what is wrong with its comments."""
    silences: list[_Silence] = []
    problems: list[Finding] = []
    lines = lines_of(text)
    try:
        layout = _Layout(text)
    except Exception:  # the parser gave up: RTD101 or RTD108 speaks about the file
        return [], []
    for number, line in enumerate(lines, start=1):
        comment = next((m.start() for m in _HASH.finditer(line) if not layout.in_text(number, m.start())), None)
        written = _FORM.fullmatch(line.rstrip(), comment) if comment is not None else None
        if written is None or len(silences) + len(problems) >= MAX_FINDINGS:
            continue
        whole = Range(Position(number, written.start() + 1), Position(number, written.end() + 1))
        problem, codes, reason = _parse(written)
        if problem:
            problems.append(_wrong(file, whole, problem, f"write `{_EXAMPLE}`"))
            continue
        first, last = (number, number) if line[: written.start()].strip() else layout.below(lines, number)
        for code, column in codes:
            where = Range(Position(number, column + 1), Position(number, column + 1 + len(code)))
            if CODES.get(code) is None:
                close = difflib.get_close_matches(code.upper(), CODES, n=1, cutoff=0.8)
                advice = f"did you mean {close[0]}?" if close else "docs/findings.md lists all codes"
                problems.append(_wrong(file, where, f"there is no finding `{code}`", advice))
            elif CODES[code].silencing is NEVER:
                advice = f"remove {code} from the comment, and correct what it is about: docs/findings/{code}.md"
                problems.append(_wrong(file, where, f"{code} cannot be silenced: {CODES[code].title}", advice))
            else:
                silences.append(_Silence(code, where, reason, first, last))
    return silences, problems


def _parse(written: re.Match[str]) -> tuple[str, list[tuple[str, int]], str]:
    """(what is wrong with it, its codes with their columns from 0, its reason)."""
    verb, rest = written["verb"], written["rest"]
    if verb.lower() != "ignore":
        return f"`rtd: {verb}` is not known: there is only `ignore`", [], ""
    because = _BECAUSE.search(rest)
    listed = rest[: because.start()] if because else rest
    codes = [(m[0], written.start("rest") + m.start()) for m in re.finditer(r"[^ \t,:]+", listed)]
    reason = rest[because.end() :].strip() if because else ""
    if not codes or codes[0][0][:3].upper() != "RTD":
        return "the comment names no code to ignore", [], ""
    if not re.search(r"\w", reason) or reason == "<reason>":
        return f"the comment gives no reason to ignore {codes[0][0]}", [], ""
    return "", codes, reason


class _Layout:
    """Where text stands in which `#` begins no comment, and how far each entry of a map or list reaches."""

    def __init__(self, text: str) -> None:
        self._texts: list[tuple[tuple[int, int], tuple[int, int]]] = []
        self._reach: dict[int, int] = {}
        self._seen: dict[int, int] = {}
        self._walk(compose(text)[1])

    def in_text(self, line: int, column: int) -> bool:
        """Whether a place (line from 1, column from 0) lies in a quoted scalar or in a block of text."""
        return any(start <= (line - 1, column) < end for start, end in self._texts)

    def below(self, lines: list[str], number: int) -> tuple[int, int]:
        """First and last line of what stands right below line `number`, of comments; (1, 0) when nothing does."""
        rest = (n for n in range(number + 1, len(lines) + 1) if not lines[n - 1].lstrip(" \t").startswith("#"))
        target = next(rest, None)
        if target is None or not lines[target - 1].strip():
            return 1, 0
        return target, max(target, self._reach.get(target, 0))

    def _walk(self, node: Any) -> int:
        """The last line on which something in `node` begins, from 1."""
        begins: int = node.start_mark.line + 1
        if id(node) in self._seen:  # an alias: what it stands for was walked where it is written
            return self._seen[id(node)]
        self._seen[id(node)] = begins
        if node.id == "scalar":
            if node.style in ("'", '"', "|", ">"):
                start = (begins, 0) if node.style in "|>" else (begins - 1, node.start_mark.column)
                self._texts.append((start, (node.end_mark.line, node.end_mark.column)))
            return begins
        last = begins
        for entry in _entries(node):
            reach = max(self._walk(part) for part in entry)
            first = entry[0].start_mark.line + 1
            self._reach[first] = max(reach, self._reach.get(first, 0))
            last = max(last, reach)
        self._seen[id(node)] = last
        return last


def _entries(node: Any) -> Iterator[tuple[Any, ...]]:
    """Key and value of each entry of a map, or each item of a list alone."""
    for entry in node.value:
        yield entry if isinstance(entry, tuple) else (entry,)
