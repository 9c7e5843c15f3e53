"""The formats of findings."""

from __future__ import annotations

import json

import pytest

from generator.diagnostics import Finding, Position, Range, Severity
from generator.diagnostics.output import FORMATS, format_findings, summary
from generator.source import parse


def finding(start: tuple[int, int], end: tuple[int, int], **rest: object) -> Finding:
    values: dict[str, object] = {"code": "RTD104", "severity": Severity.ERROR, "message": "m", "file": "f.yaml"}
    return Finding(**(values | rest), range=Range(Position(*start), Position(*end)))  # type: ignore[arg-type]


def caret(line: str, start: int, end: int) -> tuple[str, str]:
    """The shown line and the caret line under it, both without the gutter."""
    text = format_findings([finding((1, start), (1, end))], {"f.yaml": line}, "text").splitlines()
    assert text[3].startswith("1 | ") and text[4].startswith("  | ")
    return text[3][4:], text[4][4:]


def test_text_has_every_part_in_its_place() -> None:
    found = finding(
        (14, 12), (14, 13), code="RTD801", message="too many", label="9 × g6", notes=("one", "two"), help="do this"
    )
    source = "\n" * 13 + "    nodes: 9\n"
    assert format_findings([found], {"f.yaml": source}, "text") == (
        "error[RTD801]: too many\n"
        "  --> f.yaml:14:12\n"
        "   |\n"
        "14 |     nodes: 9\n"
        "   |            ^ 9 × g6\n"
        "   = note: one\n"
        "   = note: two\n"
        "   = help: do this\n"
    )


@pytest.mark.parametrize(
    ("line", "start", "end", "carets"),
    [
        ("a: word", 4, 8, "   ^^^^"),
        ("\ta: word", 5, 9, "\t   ^^^^"),
        ("a: \tword", 5, 9, "   \t^^^^"),
        ("名前: word", 5, 9, "      ^^^^"),  # each of the two characters takes two columns
        ("a: 名前", 4, 6, "   ^^^^"),
        ("e\u0301: word", 5, 9, "   ^^^^"),  # the accent takes none
        ("a: 1", 1, 1, "^"),  # an empty range still marks its place
        ("a:", 3, 3, "  ^"),
    ],
)
def test_carets_stand_under_the_marked_text(line: str, start: int, end: int, carets: str) -> None:
    assert caret(line, start, end) == (line, carets)


@pytest.mark.parametrize("start", [1, 50, 100, 500, 995])
def test_long_lines_are_shown_around_the_marked_place(start: int) -> None:
    line = "x" * (start - 1) + "WORD" + "x" * (1000 - start)
    shown, carets = caret(line, start, start + 4)
    assert len(shown) <= 162
    assert shown[len(carets) - 4 : len(carets)] == "WORD"
    assert carets.strip() == "^^^^"
    assert shown.startswith("…") == (start > 60)


def test_a_mark_of_a_thousand_characters_is_cut_with_its_line() -> None:
    shown, carets = caret("y" * 1000, 1, 1001)
    assert len(carets) <= len(shown) <= 161


def test_a_range_over_several_lines_is_marked_to_the_end_of_the_first() -> None:
    text = format_findings([finding((1, 4), (3, 1))], {"f.yaml": "a: {b,\nc\n}"}, "text")
    assert "1 | a: {b,\n  |    ^^^\n" in text


def test_lines_are_those_of_the_parser() -> None:
    source = parse(b"a: 1\x0b\nb: x\n", "f.yaml")  # a vertical tab: no line break for YAML, but one for Python
    text = format_findings([finding((2, 4), (2, 5))], {"f.yaml": source.text}, "text")
    assert "2 | b: x\n" in text


@pytest.mark.parametrize("output", ["text", "concise", "github"])
def test_control_characters_do_not_reach_the_terminal(output: str) -> None:
    hostile = "a\x1b[31mb\x07\u202ec\n\r\x85d"
    found = finding((1, 1), (1, 2), message=hostile, label=hostile, notes=(hostile,), help=hostile, file="f\x1b.yaml")
    text = format_findings([found], {"f\x1b.yaml": "x\x1b[2J\u202e"}, output)
    assert not {c for c in text if not c.isprintable()} - {"\n"}
    assert "\\x1b[31m" in text


def test_concise_is_one_line_each_sorted_by_place() -> None:
    found = [finding((9, 1), (9, 2)), finding((2, 5), (2, 6), severity=Severity.WARNING), finding((2, 1), (2, 2))]
    assert format_findings(found, {}, "concise") == (
        "f.yaml:2:1: error[RTD104] m\nf.yaml:2:5: warning[RTD104] m\nf.yaml:9:1: error[RTD104] m\n"
    )


def test_json_has_exactly_the_agreed_keys() -> None:
    found = finding((2, 3), (2, 9), path=("workers", "a/b~c", 0), notes=("n",), help="h", label="l")
    assert json.loads(format_findings([found], {}, "json")) == {
        "version": 1,
        "findings": [
            {
                "code": "RTD104",
                "severity": "error",
                "message": "m",
                "file": "f.yaml",
                "path": "/workers/a~1b~0c/0",
                "range": {"start": {"line": 2, "column": 3}, "end": {"line": 2, "column": 9}},
                "notes": ["n"],
                "help": "h",
                "docs": "docs/findings/RTD104.md",
            }
        ],
        "silenced": [],
    }
    assert json.loads(format_findings([], {}, "json")) == {"version": 1, "findings": [], "silenced": []}


def test_json_survives_names_that_are_no_text() -> None:
    found = finding((1, 1), (1, 1), file="b\udcff/environment.yaml")
    text = format_findings([found], {}, "json")
    text.encode("ascii")
    assert json.loads(text)["findings"][0]["file"] == "b\udcff/environment.yaml"


def test_nothing_to_say_is_nothing_but_in_logs() -> None:
    assert [format_findings([], {}, output) for output in FORMATS if output not in ("json", "sarif")] == ["", "", ""]
    with pytest.raises(ValueError, match="unknown output format 'xml'"):
        format_findings([], {}, "xml")


def test_summary_counts_by_severity() -> None:
    error, warning = finding((1, 1), (1, 1)), finding((1, 1), (1, 1), severity=Severity.WARNING)
    assert summary([error, error, warning]) == "2 errors, 1 warning"
    assert summary([warning, warning]) == "2 warnings"
    assert summary([]) == "no findings"
    assert summary([warning], 2) == "1 warning, 2 silenced"
    assert summary([], 1) == "no findings, 1 silenced"
