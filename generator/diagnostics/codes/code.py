"""What a code says, whatever the file."""

from __future__ import annotations

from dataclasses import dataclass

from generator.diagnostics.finding import Severity

E, W = Severity.ERROR, Severity.WARNING


@dataclass(frozen=True, slots=True)
class Code:
    """A code's title and usual severity; `why` it matters and how to `fix` it, each in one or two sentences."""

    title: str
    severity: Severity
    why: str
    fix: str = ""
    since: str = "0.1.0"
    """Version of this package that first reports it."""
