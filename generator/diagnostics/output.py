"""Findings as text, one line each, JSON, SARIF, or annotations for GitHub Actions."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping

from generator.diagnostics.finding import Finding, Severity, Silenced, clean, lines_of
from generator.diagnostics.github import annotation
from generator.diagnostics.sarif import sarif

FORMATS = ("text", "concise", "json", "sarif", "github")
_WIDEST = 160  # a longer line is shown around the marked place only
_BEFORE = 60
_HIDDEN = "RTD642"  # a credential: what follows its name must not get into logs, too


def format_findings(
    findings: Iterable[Finding], sources: Mapping[str, str], output: str, silenced: Iterable[Silenced] = ()
) -> str:
    """All findings in the chosen format; `sources` maps a file's name to its text. Empty when there is nothing to say.

    Findings that a comment silences are part of JSON and SARIF, as such.

    Raises:
        ValueError: `output` is not one of FORMATS.
    """
    ordered = sorted(findings, key=lambda f: f.sort_key)
    if output == "json":
        quiet = [as_json(s.finding) | {"silencedBy": {"line": s.line, "reason": s.reason}} for s in silenced]
        said = {"version": 1, "findings": [as_json(f) for f in ordered], "silenced": quiet}
        return json.dumps(said, indent=2) + "\n"
    if output == "sarif":
        return json.dumps(sarif(ordered, silenced), indent=2) + "\n"
    if output == "concise":
        return "".join(_concise(f) + "\n" for f in ordered)
    if output == "github":
        return "".join(annotation(f) + "\n" for f in ordered)
    if output == "text":
        return "\n".join(_text(f, sources.get(f.file, "")) for f in ordered)
    raise ValueError(f"unknown output format {output!r}; choose from {', '.join(FORMATS)}")


def as_json(finding: Finding) -> dict[str, object]:
    """The JSON form of one finding, with lines and columns from 1 and `path` as a JSON pointer."""
    start, end = finding.range.start, finding.range.end
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "message": finding.message,
        "file": finding.file,
        "path": finding.pointer,
        "range": {
            "start": {"line": start.line, "column": start.column},
            "end": {"line": end.line, "column": end.column},
        },
        "notes": list(finding.notes),
        "help": finding.help,
        "docs": f"docs/findings/{finding.code}.md",
    }


def summary(findings: Iterable[Finding], silenced: int = 0) -> str:
    """`2 errors, 1 warning, 1 silenced`."""
    counts = dict.fromkeys(Severity, 0)
    for finding in findings:
        counts[finding.severity] += 1
    parts = [f"{n} {severity.value}{'' if n == 1 else 's'}" for severity, n in counts.items() if n]
    said = ", ".join(parts) or "no findings"
    return f"{said}, {silenced} silenced" if silenced else said


def _concise(f: Finding) -> str:
    start = f.range.start
    return f"{clean(f.file)}:{start.line}:{start.column}: {f.severity.value}[{f.code}] {clean(f.message)}"


def _text(f: Finding, text: str) -> str:
    """The long form: message, place, the marked line, notes and help."""
    start, end = f.range.start, f.range.end
    lines = lines_of(text)
    out = [f"{f.severity.value}[{f.code}]: {clean(f.message)}", f"  --> {clean(f.file)}:{start.line}:{start.column}"]
    gutter = len(str(start.line))
    if text and start.line <= len(lines):
        line = lines[start.line - 1]
        if f.code == _HIDDEN:
            line = line[: end.column - 1] + ": …"
        shown, carets = _marked(line, start.column - 1, end.column - 1 if end.line == start.line else len(line))
        label = f" {clean(f.label)}" if f.label else ""
        out += [
            f"{' ' * gutter} |",
            f"{start.line} | {shown}",
            f"{' ' * gutter} | {carets}{label}",
        ]
    out += [f"{' ' * gutter} = note: {clean(note)}" for note in f.notes]
    if f.help:
        out.append(f"{' ' * gutter} = help: {clean(f.help)}")
    return "\n".join(out) + "\n"


def _marked(line: str, start: int, end: int) -> tuple[str, str]:
    """A line as a terminal can show it, and the line of carets under its characters `start` up to `end`, from 0."""
    first = max(0, start - _BEFORE) if len(line) > _WIDEST else 0
    last = first + _WIDEST if len(line) > _WIDEST else len(line)
    # Control characters of a hostile file must not reach the terminal.
    shown = "".join(c if c == "\t" or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line[first:last])
    # A tab is as wide as a reader's terminal makes it: keep the caret line's tabs where the text has them.
    pad = "".join("\t" if c == "\t" else " " * _columns(c) for c in shown[: start - first])
    carets = "^" * max(1, sum(_columns(c) for c in shown[start - first : max(end - first, 0)]))
    before, after = "…" if first else "", "…" if last < len(line) else ""
    return before + shown + after, " " * len(before) + pad + carets


def _columns(character: str) -> int:
    """How many columns of a terminal a character takes: none when it combines with the one before, two in CJK."""
    if character.isascii():
        return 1
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
