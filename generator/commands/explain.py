"""`explain`: every effective value and where it comes from; or what a finding's code means."""

from __future__ import annotations

import argparse
import difflib
import json
import re
import sys
from typing import TYPE_CHECKING, Any

from generator import exits
from generator.commands.common import Subparsers, emit, has_errors, root
from generator.diagnostics.codes import CODES, page
from generator.diagnostics.output import format_findings, summary
from generator.exits import Stop
from generator.project import Loaded, Project, UsageError, sources

if TYPE_CHECKING:
    from generator.explain import Value

_CODE = re.compile("RTD[0-9]{3}", re.IGNORECASE)
_WIDEST = 60  # characters of a value in the table; JSON has all of them


def add(sub: Subparsers) -> None:
    """The command line of this command."""
    parser = sub.add_parser(
        "explain",
        parents=[root()],
        help="every value of an environment and where it comes from; or the meaning of a code",
        description="With ENV: every effective value, its unit, and the file and line, default, catalogue or "
        "arithmetic that it comes from. With a code such as RTD801: what it means, why it matters, what to do.",
    )
    parser.add_argument("env", metavar="ENV|CODE", help="name or folder of an environment, or a finding's code")
    parser.add_argument("key", nargs="*", metavar="KEY", help="only these keys and what is under them: workers.gpu")
    parser.add_argument("--output", choices=("text", "json"), default="text", help="default: text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print effective values with their origins, or the page of a code."""
    if _CODE.fullmatch(args.env):
        emit(_page(args.env.upper()))
        return exits.OK
    from generator.explain import explain

    project = Project(args.root)
    (folder,) = project.select([args.env])
    values = _chosen(explain(_readable(project.load(folder))), args.key)
    emit(_json(values) if args.output == "json" else _table(values))
    return exits.OK


def _readable(loaded: Loaded) -> Loaded:
    """`loaded`, when its files can be read. What rules find is no obstacle: the values may tell why they do.

    Raises:
        Stop: a file has errors of its own.
    """
    if has_errors(list(loaded.findings)):
        sys.stderr.write(format_findings(loaded.findings, sources([loaded]), "text"))
        raise Stop(exits.FINDINGS, f"{summary(loaded.findings)}; there is nothing to explain yet")
    return loaded


def _chosen(values: list[Value], keys: list[str]) -> list[Value]:
    """The values at or under `keys`; all when none is given.

    Raises:
        UsageError: there is no such key.
    """
    if not keys:
        return values
    for key in keys:
        if not any(_under(value.key, key) for value in values):
            known = {value.key[:end] for value in values for end in _ends(value.key)}
            close = difflib.get_close_matches(key, sorted(known), n=3)
            hint = f"; did you mean {' or '.join(f'`{c}`' for c in close)}?" if close else "; without KEY all are shown"
            raise UsageError(f"there is no key `{key}`{hint}")
    return [value for value in values if any(_under(value.key, key) for key in keys)]


def _under(key: str, prefix: str) -> bool:
    return key == prefix or key.startswith((f"{prefix}.", f"{prefix}["))


def _ends(key: str) -> list[int]:
    """Where the prefixes of a key end."""
    return [*(found.start() for found in re.finditer(r"\.", key)), len(key)]


def _table(values: list[Value]) -> str:
    rows = [(value.key, _shown(value), str(value.origin)) for value in values]
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    return "".join(f"{key:<{widths[0]}}  {value:<{widths[1]}}  {origin}\n" for key, value, origin in rows)


def _shown(value: Value) -> str:
    """A value on one line: texts as they are where they are plain, all else as JSON (which is YAML)."""
    if value.value is None or value.value == "":
        return "not set"
    plain = isinstance(value.value, str) and value.value.isprintable()
    text = value.value if plain else json.dumps(value.value, ensure_ascii=False)
    text = text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
    unit = value.unit.removesuffix("s") if value.value == 1 else value.unit
    return f"{text} {unit}" if unit else text


def _json(values: list[Value]) -> str:
    return json.dumps({"version": 1, "values": [_as_json(v) for v in values]}, indent=2, ensure_ascii=False) + "\n"


def _as_json(value: Value) -> dict[str, Any]:
    origin: dict[str, Any] = {"kind": value.origin.kind}
    if value.origin.file:
        origin["file"] = value.origin.file
    if value.origin.line:
        origin |= {"line": value.origin.line, "column": value.origin.column}
    if value.origin.fact:
        origin["fact"] = value.origin.fact
    return {"key": value.key, "value": value.value, "unit": value.unit, "origin": origin}


def _page(code: str) -> str:
    """What a code means, why it matters, and what to do.

    Raises:
        UsageError: there is no such code.
    """
    if code not in CODES:
        close = difflib.get_close_matches(code, CODES, n=3, cutoff=0.8)
        raise UsageError(f"there is no code {code}; nearest: {', '.join(close)}; docs/findings.md has all")
    return page(code)
