"""`python -m tests.docs.findings`: write docs/findings/ and the table of docs/findings.md anew.

The examples are real: the first fixture of each code, what the tool says about it, and what its near-miss changes.
"""

from __future__ import annotations

import difflib
import tempfile
from pathlib import Path

from generator.diagnostics import CODES, Finding
from generator.diagnostics.codes import page
from generator.diagnostics.codes.code import Silenceable
from generator.diagnostics.output import format_findings
from tests.project import FILES, PLACES, base
from tests.unit.test_invalid_fixtures import ASKS_A_REGISTRY, CASES, place, project

ROOT = Path(__file__).resolve().parents[2]
OVERVIEW = "docs/findings.md"
BEGIN = "<!-- table: written by `make schema` -->"
END = "<!-- end of table -->"
_SILENCED = {Silenceable.ALWAYS: "yes", Silenceable.WARNINGS: "as a warning", Silenceable.NEVER: "no"}


def pages() -> dict[str, str]:
    """{path: text} of every generated page, and of the overview with its table."""
    texts = {f"docs/findings/{code}.md": page(code) + _example(code) for code in CODES}
    overview = (ROOT / OVERVIEW).read_text(encoding="utf-8")
    before, _, rest = overview.partition(BEGIN)
    return texts | {OVERVIEW: before + BEGIN + "\n" + _table() + END + rest.partition(END)[2]}


def _table() -> str:
    rows = ["| code | severity | can be silenced | finding | why |", "|---|---|---|---|---|"]
    for code, entry in CODES.items():
        cells = (f"[{code}](findings/{code}.md)", entry.severity, _SILENCED[entry.silencing], entry.title, entry.why)
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def _example(code: str) -> str:
    if code == ASKS_A_REGISTRY:
        return ""
    shown = [_shown(case, code) for case in CASES if case.name.startswith(code)]
    # The first with the code's usual severity: some codes are errors or warnings, as it depends.
    case, finding, texts = next((s for s in shown if s[1].severity is CODES[code].severity), shown[0])
    said = format_findings([finding], texts, "text")
    return f"\n## Example\n\n```text\n{said}```\n\nThis passes:\n\n```diff\n{_difference(case)}```\n"


def _shown(case: Path, code: str) -> tuple[Path, Finding, dict[str, str]]:
    """(fixture, its first finding of `code`, its files)."""
    with tempfile.TemporaryDirectory() as folder:
        found = [f for f in project(Path(folder), case) if f.code == code]
        files = sorted((Path(folder) / "environments").rglob("*.yaml"))
        texts = {p.relative_to(folder).as_posix(): p.read_bytes().decode(errors="replace") for p in files}
    return case, found[0], texts


def _difference(case: Path) -> str:
    """What the near-miss changes in the files, without the lines around that stay the same."""
    text = ""
    layers = {p.relative_to(p.parents[1]).as_posix() for p in case.rglob("_base/*.yaml")}
    others = {"neighbour/environment.yaml": "the other environment"} | {name: place(name) for name in sorted(layers)}
    for name, shown_as in (PLACES | others).items():
        wrong = _text(case / name, name)
        right = _text(case / "near-miss" / name, name)
        lines = difflib.unified_diff(wrong.splitlines(), right.splitlines(), shown_as, shown_as, n=1, lineterm="")
        text += "".join(f"{line}\n" for line in lines if not line.startswith(("@@", "+++")))
    return text


def _text(path: Path, name: str) -> str:
    if path.exists():
        return path.read_text(encoding="utf-8", errors="replace")
    return base(name) if name in FILES else ""


def main() -> None:
    wanted = pages()
    for old in (ROOT / "docs/findings").glob("*.md"):
        if old.relative_to(ROOT).as_posix() not in wanted:
            old.unlink()
    for path, text in wanted.items():
        target = ROOT / path
        target.parent.mkdir(exist_ok=True)
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")
            print(path)


if __name__ == "__main__":
    main()
