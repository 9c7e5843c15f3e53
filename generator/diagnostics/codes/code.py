"""What a code says, whatever the file."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from generator.diagnostics.finding import Severity

E, W = Severity.ERROR, Severity.WARNING


class Silenceable(StrEnum):
    """Which findings of a code a comment in the file may silence."""

    ALWAYS = "always"
    WARNINGS = "warnings"
    NEVER = "never"


ALWAYS, WARNINGS, NEVER = Silenceable


@dataclass(frozen=True, slots=True)
class Code:
    """A code's title and usual severity; `why` it matters and how to `fix` it, each in one or two sentences."""

    title: str
    severity: Severity
    why: str
    fix: str = ""
    since: str = "0.1.0"
    """Version of this package that first reports it."""
    silenceable: Silenceable | None = None
    """Default: a warning, but not an error.

    Never: the file cannot be read or leaves `render` without a number (1xx, 201, 202, 204, 207, 209), the kubelet,
    KubeRay, Helm, eksctl or AWS would refuse it (301, 304, 305, 340, 35x, 4xx, 5xx), the ranks could not talk or save
    (307, 309, 341, 60x, 640, 641), the nodes would be bought in another way than was meant or never come (802, 803,
    807, 810), or it is a limit of the owner's `policy`, which is changed in its own place (801, 805, and 403 and 404
    where they are errors). 110 is mended by removing the comment.
    Always, though an error: it rests on dated facts of the catalogue (203, 303, 809), on an estimate (205, 206,
    212 to 215, 553), on how the nodes were made (302) or on the look of a text (642), of which the owner may know more;
    and what is rendered stays whole.
    Warnings: what is a warning is a matter of judgement, also of a code that is usually an error (201, 807).
    """

    @property
    def silencing(self) -> Silenceable:
        """Which findings of this code may be silenced, with the default filled in."""
        return self.silenceable or (NEVER if self.severity is E else WARNINGS)

    def can_be_silenced(self, severity: Severity) -> bool:
        """Whether a finding of this code that is a warning or an error may be silenced."""
        return self.silencing is ALWAYS or (self.silencing is WARNINGS and severity is W)
