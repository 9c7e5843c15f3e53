"""A finding as a workflow command of GitHub Actions, which shows it beside the line of a pull request.

The command is `::error key=value,key=value::message`. `%`, CR and LF are escaped, in values also `:` and `,`.
"""

from __future__ import annotations

from generator.diagnostics.finding import Finding, clean


def annotation(f: Finding) -> str:
    """The command for one finding."""
    start, end = f.range.start, f.range.end
    places = {"file": clean(f.file), "line": start.line}
    if end.line == start.line:  # GitHub takes columns within one line only
        places |= {"col": start.column, "endLine": end.line, "endColumn": end.column}
    else:
        places |= {"endLine": end.line}
    properties = ",".join(f"{key}={_property(str(value))}" for key, value in (places | {"title": f.code}).items())
    message = clean(f.message) + (f"\nhelp: {clean(f.help)}" if f.help else "")
    return f"::{f.severity.value} {properties}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
