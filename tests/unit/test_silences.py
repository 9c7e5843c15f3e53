"""Comments that silence findings: where they reach, what they may silence, and what is said about those that fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from generator.diagnostics import CODES, Finding, Position, Range
from generator.project import Project
from generator.rules import judge
from generator.silences import Judged, apply
from tests.project import base, edited, make, sharing
from tests.unit.test_cli import at

WHY = "# rtd: ignore RTD306 because it is a trial"


def at_lines(text: str, *lines: int, code: str = "RTD306") -> Judged:
    """What becomes of findings that point at the first character of some lines of a file."""
    found = [Finding(code, CODES[code].severity, f"at {n}", "f.yaml", range=_start(n)) for n in lines]
    return apply(found, [("f.yaml", text)])


def _start(line: int) -> Range:
    return Range(Position(line, 1), Position(line, 2))


def silenced(text: str, *lines: int) -> list[int]:
    return [s.finding.range.start.line for s in at_lines(text, *lines).silenced]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (f"a: 1  {WHY}\nb: 2\n", [1]),
        (f"{WHY}\na: 1\nb: 2\n", [2]),
        (f"a:\n  {WHY}\n  b:\n    c: 1\n    d: [1,\n      2]\n  e: 1\n", [3, 4, 5, 6]),  # a block as a whole
        (f"a:  {WHY}\n  b: 1\n", [1]),  # at the end of a line: that line alone
        (f"a:\n  - b: 1\n    c: 2\n  {WHY}\n  - b: 3\n    c: 4\n  - b: 5\n", [5, 6]),
        (f"{WHY}\n# about a\na: 1\nb: 2\n", [3]),  # other comments may stand between
        (f"{WHY}\n\na: 1\n", []),  # an empty line may not
        (f"a: 1\n{WHY}\n", []),
        (f"a: 1\r\n{WHY}\r\nb: 2\r\n", [3]),
        (f"a: {{b: 1,  {WHY}\n  c: 2}}\n", [1]),
        (f"a: {{\n  {WHY}\n  b: {{c: 1,\n    d: 2}},\n  e: 3}}\n", [3, 4]),
        (f"\t{WHY}\n", []),
        (f"a: &x\n  b: 1\n{WHY}\nc: *x\nd: 1\n", [4]),  # an alias is one line; what it stands for lies elsewhere
        (f"a: &x [*x]\n{WHY}\nb: 1\n", [3]),
    ],
)
def test_a_comment_covers_its_line_or_what_stands_below_it(text: str, lines: list[int]) -> None:
    every = range(1, text.count("\n") + 1)
    assert silenced(text, *every) == lines


def test_each_code_of_a_comment_stands_for_itself() -> None:
    judged = at_lines("a: 1 # RTD:  Ignore RTD204 , RTD306  because  it is a trial\n", 1)
    assert [(s.finding.code, s.reason) for s in judged.silenced] == [("RTD306", "it is a trial")]
    assert [f.message for f in judged.findings] == [f"RTD204 cannot be silenced: {CODES['RTD204'].title}"]


@pytest.mark.parametrize(
    "text",
    [
        f'a: "x {WHY}"\n',
        f"a: 'x\n  {WHY}\n  y'\n",
        f"a: |\n  {WHY}\n  x\n",
        f"a: >-\n  x\n\n  {WHY}\n",
        f"a: x{WHY}\n",  # without a space before it, `#` is a character like any other
        f'a: "\n  {WHY}\n  "\n',
        f'"{WHY}": 1\n',
    ],
)
def test_a_number_sign_in_text_begins_no_comment(text: str) -> None:
    judged = at_lines(text, *range(1, 5))
    assert (judged.silenced, judged.unused) == ((), ())
    assert {f.code for f in judged.findings} == {"RTD306"}


def test_comments_around_a_block_of_text_are_comments() -> None:
    assert silenced(f"a: |  {WHY}\n  x\n", 1, 2) == [1]
    assert silenced(f"a: |\n  x\n{WHY}\nb: 1\n", 1, 2, 4) == [4]


@pytest.mark.parametrize(
    ("comment", "says"),
    [
        ("# rtd: ignore RTD306", "the comment gives no reason to ignore RTD306"),
        ("# rtd: ignore RTD306 because", "the comment gives no reason to ignore RTD306"),
        ("# rtd: ignore RTD306 because ...", "the comment gives no reason to ignore RTD306"),
        ("# rtd: ignore RTD306 because <reason>", "the comment gives no reason to ignore RTD306"),
        ("# rtd: ignore RTD306: it is a trial", "the comment gives no reason to ignore RTD306"),
        ("# rtd: ignore because it is a trial", "the comment names no code to ignore"),
        ("# rtd: ignore", "the comment names no code to ignore"),
        ("# rtd: ignore all because it is a trial", "the comment names no code to ignore"),
        ("#rtd:disable RTD306", "`rtd: disable` is not known: there is only `ignore`"),
        ("# rtd: ignore RTD3O6 because it is a trial", "there is no finding `RTD3O6`"),
        ("# rtd: ignore rtd306 because it is a trial", "there is no finding `rtd306`"),
        ("# rtd: ignore RTD110 because it is a trial", f"RTD110 cannot be silenced: {CODES['RTD110'].title}"),
    ],
)
def test_a_malformed_comment_silences_nothing_and_says_why(comment: str, says: str) -> None:
    judged = at_lines(f"a: 1  {comment}\n", 1)
    assert judged.silenced == ()
    (wrong,) = [f for f in judged.findings if f.code == "RTD111"]
    assert (wrong.message, wrong.range.start.line) == (says, 1)
    assert "RTD306" in {f.code for f in judged.findings}


def test_an_unused_code_is_told_with_the_place_of_the_finding() -> None:
    (unused,) = at_lines(f"a: 1\n{WHY}\nb:\n  c: 1\nd: 1\n", 1, 5).unused
    assert unused.notes == ("the comment covers lines 3 to 4", "RTD306 stands at line 1, 5")
    (unused,) = at_lines(f"a: 1\n{WHY}\n").unused
    assert unused.notes == ("nothing stands on the line below the comment",)
    (unused,) = at_lines("a: 1  # rtd: ignore RTD306, RTD210 because both\n", 1).unused
    assert (unused.message, unused.range.start.column) == ("there is no RTD210 here to silence", 29)


def test_thousands_of_comments_are_cut() -> None:
    assert len(at_lines("a: 1\n" + "# rtd: ignore\n" * 3000, 1).findings) == 101


def test_nothing_is_said_about_unused_comments_while_rules_could_not_speak(tmp_path: Path) -> None:
    text = edited("environment.yaml", "efa: required", f"efa: sometimes  {WHY}")
    judged = judge(Project(make(tmp_path, environment=text)).load("demo"))
    assert {f.code for f in judged.findings} == {"RTD104"}


def test_what_is_silenced_stops_nothing_and_is_counted(tmp_path: Path) -> None:
    small = "    memory: 400Gi"
    text = edited("environment.yaml", "    nodes: 2", f"    nodes: 2\n{small}")
    make(tmp_path, environment=text)
    assert at(tmp_path, "validate")[0] == 1 == at(tmp_path, "render")[0]
    comment = "# rtd: ignore RTD206 because the nodes have a new kubelet"
    make(tmp_path, environment=text.replace(small, f"{small}  {comment}"))
    assert at(tmp_path, "validate", "--strict") == (0, "", "demo: no findings, 1 silenced\n")
    assert at(tmp_path, "render")[0] == 0
    code, out, _ = at(tmp_path, "validate", "--output", "json")
    said = json.loads(out)
    assert (code, said["findings"]) == (0, [])
    assert said["silenced"][0]["code"] == "RTD206"
    assert said["silenced"][0]["silencedBy"] == {"line": 9, "reason": "the nodes have a new kubelet"}


def test_strict_changes_the_exit_code_alone(tmp_path: Path) -> None:
    make(tmp_path, environment=edited("environment.yaml", "efa: required", "efa: disabled"))
    usual, strict = at(tmp_path, "validate"), at(tmp_path, "validate", "--strict")
    assert (usual[0], strict[0]) == (0, 1)
    assert usual[1:] == strict[1:]


def test_a_comment_in_the_clusters_file_counts_for_all_of_its_environments(tmp_path: Path) -> None:
    """Two heads need a second system node (RTD210); of one environment alone, the comment would silence nothing."""
    where = "systemNodes: {instanceType: m7i.xlarge, count: 1}"
    cluster = edited("cluster.yaml", where, f"{where}  # rtd: ignore RTD210 because jobs run one after the other")
    big = (("cpu: 1, memory: 4Gi", "cpu: 2, memory: 8Gi"),)
    make(tmp_path, cluster=cluster, environment=sharing("demo", *big))
    code, out, err = at(tmp_path, "validate", "--strict")
    assert (code, err) == (1, "demo: 1 warning\n")
    assert out.startswith(
        "warning[RTD110]: there is no RTD210 here to silence\n  --> environments/_clusters/demo.yaml:6"
    )
    (tmp_path / "environments/second").mkdir()
    (tmp_path / "environments/second/environment.yaml").write_text(sharing("second", *big))
    (tmp_path / "environments/second/version.yaml").write_text(base("version.yaml"))
    assert at(tmp_path, "validate", "--strict") == (0, "", "demo, second: no findings, 1 silenced\n")
    # An environment elsewhere does not use it, and does not read it.
    other = sharing("third", *big).replace("cluster: demo", "cluster: other")
    (tmp_path / "environments/third").mkdir()
    (tmp_path / "environments/third/environment.yaml").write_text(other)
    (tmp_path / "environments/third/version.yaml").write_text(base("version.yaml"))
    (tmp_path / "environments/_clusters/other.yaml").write_text(edited("cluster.yaml", "name: demo", "name: other"))
    assert at(tmp_path, "validate", "third", "demo")[0] == 0


def test_a_comment_in_a_layer_counts_for_every_environment_that_extends_it(tmp_path: Path) -> None:
    """The same text is silenced where it lies, also in an environment that does not need it, and in no other."""
    layer = f"workers:\n  gpu:\n    efa: disabled  {WHY}\n"
    text = edited("environment.yaml", "    efa: required\n", "")
    make(tmp_path, environment=text.replace("schemaVersion: 1\n", "schemaVersion: 1\nextends: [slow]\n"))
    (tmp_path / "environments/_base").mkdir()
    (tmp_path / "environments/_base/slow.yaml").write_text(layer)
    assert at(tmp_path, "validate", "--strict") == (0, "", "demo: no findings, 1 silenced\n")
    (tmp_path / "environments/_base/slow.yaml").write_text(layer.replace("disabled", "required"))
    code, out, _ = at(tmp_path, "validate", "--strict")
    assert code == 1
    assert out.startswith("warning[RTD110]: there is no RTD306 here to silence\n  --> environments/_base/slow.yaml:3:")
    (tmp_path / "environments/_base/idle.yaml").write_text(
        "# rtd: ignore RTD122 because it is for next week\nmode: job\n"
    )
    (tmp_path / "environments/_base/slow.yaml").write_text(layer)
    assert at(tmp_path, "validate", "--strict")[0] == 0
