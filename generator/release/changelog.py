"""The chart's CHANGELOG.md, as far as other files must agree with it."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass

# Headings of Keep a Changelog, in the words of Artifact Hub.
KINDS = ("added", "changed", "deprecated", "removed", "fixed", "security")
_HEADING = re.compile(r"## (\d+\.\d+\.\d+\S*) - (?:(\d{4}-\d{2}-\d{2})|not released)")


class ChangelogError(Exception):
    """The changelog is not in the form that it must have; the text says where and why."""


@dataclass(frozen=True)
class Section:
    """What the changelog says of one version.

    Attributes:
        version: of the chart.
        date: of its release; None before.
        changes: kind and text of each point under a heading of `KINDS`, in the order of the file.
        text: all of it.
    """

    version: str
    date: datetime.date | None
    changes: tuple[tuple[str, str], ...]
    text: str


def sections(changelog: str) -> list[Section]:
    """All versions, the newest first.

    Raises:
        ChangelogError: there is none, or a heading is not in the form.
    """
    _, *parts = re.split(r"^(?=## )", changelog, flags=re.MULTILINE)
    if not parts:
        raise ChangelogError("the changelog has no section; begin it with `## <version> - not released`")
    return [_section(part) for part in parts]


def _section(text: str) -> Section:
    first = text.partition("\n")[0]
    heading = _HEADING.fullmatch(first)
    if heading is None:
        raise ChangelogError(
            f"{first!r} is no heading of a version; write `## 1.2.3 - 2026-12-31` or `… - not released`"
        )
    try:
        date = datetime.date.fromisoformat(heading[2]) if heading[2] else None
    except ValueError as error:
        raise ChangelogError(f"{first!r} holds no date of the calendar: {error}") from error
    return Section(heading[1], date, tuple(_changes(text)), text)


def _changes(text: str) -> list[tuple[str, str]]:
    found = []
    for part in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        if title.lower() in KINDS:
            points = re.split(r"^- ", body, flags=re.MULTILINE)[1:]
            found += [(title.lower(), " ".join(point.split())) for point in points]
    return found
