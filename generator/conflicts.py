"""What Git leaves in a file when a merge is not finished."""

from __future__ import annotations

import re

from generator.diagnostics.finding import lines_of

_OURS = "<<<<<<< "
# Text of a value is indented, so a marker at the start of a line is none of it.
_MARKERS = re.compile(r"^<{7} .*^>{7} ", re.MULTILINE | re.DOTALL)


def has_conflict(text: str) -> bool:
    """Whether both markers stand in a file, each at the start of a line."""
    return _OURS in text and bool(_MARKERS.search(text))


def conflict_line(text: str) -> int | None:
    """The line of the first marker; None: there is no conflict."""
    if not has_conflict(text):
        return None
    return next((number for number, line in enumerate(lines_of(text), start=1) if line.startswith(_OURS)), None)
