"""A code in words: what `explain` prints, SARIF carries as a rule's help, and docs/findings/ shows with an example."""

from __future__ import annotations

from generator.diagnostics.codes.code import Code, Silenceable
from generator.diagnostics.finding import Severity

_SILENCING = {
    Silenceable.ALWAYS: "It can be silenced, with a reason that the next reader understands:",
    Silenceable.WARNINGS: "As a warning it can be silenced, with a reason that the next reader understands; as an "
    "error it cannot:",
    Silenceable.NEVER: "It cannot be silenced.",
}


def page_of(code: str, entry: Code) -> str:
    """The page of one code, without an example."""
    usual = "An error" if entry.severity is Severity.ERROR else "A warning"
    silencing = _SILENCING[entry.silencing]
    if entry.silencing is not Silenceable.NEVER:
        silencing += f"\n\n    # rtd: ignore {code} because <reason>"
    return (
        f"# {code}: {entry.title}\n\n{usual}, reported since version {entry.since}.\n\n"
        f"## Why it matters\n\n{sentence(entry.why)}\n\n## How to fix it\n\n{sentence(entry.fix)}\n\n"
        f"## Silencing it\n\n{silencing}\n"
    )


def sentence(text: str) -> str:
    """A phrase of the catalogue as a sentence; what begins with code or a program's name gets no capital."""
    first = text.split(" ", 1)[0]
    start = text[:1].upper() + text[1:] if first.isalpha() and first.islower() and first != "eksctl" else text
    return start if start.endswith(".") else start + "."
