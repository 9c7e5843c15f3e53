"""The pages of the findings say what the catalogue says, with examples that are still true."""

from __future__ import annotations

from tests.docs.findings import BEGIN, END, OVERVIEW, ROOT, pages

HINT = "run `python -m tests.docs.findings` (part of `make schema`), and read the difference before you commit it"


def test_the_pages_are_up_to_date() -> None:
    wanted = pages()
    there = {p.relative_to(ROOT).as_posix() for p in (ROOT / "docs/findings").glob("*.md")} | {OVERVIEW}
    assert there == set(wanted), HINT
    for path, text in wanted.items():
        assert (ROOT / path).read_text(encoding="utf-8") == text, f"{path}: {HINT}"


def test_the_table_stands_between_its_marks() -> None:
    text = (ROOT / OVERVIEW).read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
    assert text.index(BEGIN) < text.index(END)
