"""YAML with positions: every byte string becomes data or findings, never an exception."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from generator.diagnostics.finding import Pointer, lines_of
from generator.project import Project
from generator.rules import check
from generator.source import MAX_BYTES, Source, parse, read
from generator.tree import MAX_FINDINGS
from tests.project import PLACES, base, make


def parsed(text: str | bytes) -> Source:
    return parse(text.encode() if isinstance(text, str) else text, "f.yaml")


def marked(source: Source, path: Pointer, *, key: bool = False) -> str:
    """The text that a finding at `path` would put carets under."""
    found = source.keys[path] if key else source.values[path]
    assert found.start.line == found.end.line
    return lines_of(source.text)[found.start.line - 1][found.start.column - 1 : found.end.column - 1]


def only(source: Source) -> tuple[str, str, int, int]:
    """(code, message, line, column) of the one finding."""
    (finding,) = source.findings
    return finding.code, finding.message, finding.range.start.line, finding.range.start.column


@pytest.mark.parametrize(
    ("text", "path", "value", "line"),
    [
        ("a: 12\n", ("a",), "12", 1),
        ("a: 12", ("a",), "12", 1),
        ("a:\n  b: text here # not this\n", ("a", "b"), "text here", 2),
        ("{a: {b: [1, 22]}}", ("a", "b", 1), "22", 1),
        ("a: {b: 1, c: 2}", ("a",), "{b: 1, c: 2}", 1),
        ("a:\n- x\n- 'y z'\n", ("a", 1), "'y z'", 3),
        ('"quoted key": "v"\n', ("quoted key",), '"v"', 1),
        ("a: 1\r\nb: 22\r\n", ("b",), "22", 2),
        ("a: 1\rb: 22\r", ("b",), "22", 2),
        ("\ufeffa: 12\n", ("a",), "12", 1),
        ("日本: 1\nb: é\n", ("b",), "é", 2),
        ("日本: 語\n", ("日本",), "語", 1),
    ],
)
def test_values_are_found_again(text: str, path: Pointer, value: str, line: int) -> None:
    source = parsed(text)
    assert source.findings == ()
    assert source.values[path].start.line == line
    assert marked(source, path) == value


def test_keys_are_found_again() -> None:
    source = parsed('a:\n  "b c": {d: 1}\n  e: 2\n')
    assert marked(source, ("a", "b c"), key=True) == '"b c"'
    assert marked(source, ("a", "b c", "d"), key=True) == "d"
    assert source.key_range(("a", "missing")) == source.keys["a",]
    assert source.value_range(("a", "missing", "deeper")) == source.keys["a",]
    assert source.key_range(()).start.line == 1


def test_block_and_multi_line_values_are_marked_at_their_first_character() -> None:
    source = parsed("a:\n  b: 1\nc: |\n  text\nd: 'x\n  y'\n")
    assert source.data == {"a": {"b": 1}, "c": "text\n", "d": "x y"}
    assert marked(source, ("a",)) == "b"
    assert marked(source, ("c",)) == "|"
    assert marked(source, ("d",)) == "'"


def test_an_empty_value_is_marked_at_its_key() -> None:
    source = parsed("a:\nb: 1\n")
    assert source.data == {"a": None, "b": 1}
    assert marked(source, ("a",)) == "a"


def test_aliases_point_at_the_anchored_text() -> None:
    source = parsed("a: &x {n: 1}\nb: *x\n")
    assert source.data == {"a": {"n": 1}, "b": {"n": 1}}
    assert source.values["b", "n"] == source.values["a", "n"]


def test_the_last_of_two_equal_anchors_counts_and_nothing_is_printed(recwarn: pytest.WarningsRecorder) -> None:
    assert parsed("a: &x 1\nb: &x 2\nc: *x\n").data == {"a": 1, "b": 2, "c": 2}
    assert list(recwarn) == []


@pytest.mark.parametrize(
    "text", ["m: &m {a: 1, b: {c: 1}}\nn:\n  <<: *m\n  a: 2\n", "m: &m {a: 1}\nn:\n  a: 2\n  <<: *m\n"]
)
def test_a_key_written_out_wins_over_a_merged_one_and_is_where_it_stands(text: str) -> None:
    source = parsed(text)
    assert source.data["n"]["a"] == 2
    assert marked(source, ("n", "a")) == "2"
    assert source.values["n", "a"].start.line > 2


def test_a_merged_map_that_was_replaced_leaves_no_place_behind() -> None:
    source = parsed("m: &m {a: {deep: 1}}\nn:\n  <<: *m\n  a: 2\n")
    assert ("n", "a", "deep") not in source.values
    assert ("m", "a", "deep") in source.values


def test_of_several_merged_maps_the_first_wins() -> None:
    assert parsed("<<: [{a: 1}, {a: 2, b: 3}]").data == {"a": 1, "b": 3}
    assert only(parsed("<<: 5"))[:2] == ("RTD104", "`<<` merges maps only")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"), ("no", "no"), ("on", "on"), ("2026-12-01", "2026-12-01"), ("1:30", "1:30"), ("0b2", "0b2"),
        ("010", 10), ("0o17", 15), ("0x1F", 31), ("+1", 1), ("1e5", 100000.0), (".5", 0.5), ("1.30", 1.3),
        ("true", True), ("False", False), ("~", None), ("null", None), ('"1"', "1"), ("!!str 1", "1"), ("!!int 1", 1),
    ],
)  # fmt: skip
def test_plain_values_follow_the_core_schema_of_yaml_1_2(text: str, value: object) -> None:
    source = parsed(f"a: {text}\n")
    assert source.findings == ()
    assert source.data["a"] == value
    assert type(source.data["a"]) is type(value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0x_", "`0x_` is not a number"),
        ("-_", "`-_` is not a number"),
        ("!!int x", "`x` is not a number"),
        ("!!float abc", "`abc` is not a number"),
        (".inf", "`.inf` is not a finite number"),
        ("-.INF", "`-.INF` is not a finite number"),
        (".nan", "`.nan` is not a finite number"),
        ("1e999", "`1e999` is not a finite number"),
        ("9" * 19, "the number is too large"),
        ("9" * 5000, "the number is too large"),
        ("!foo 1", "the tag !foo is not used for this value"),
        ("!!binary aGk=", "the tag tag:yaml.org,2002:binary is not used for this value"),
        ("!!bool maybe", "the tag tag:yaml.org,2002:bool is not used for this value"),
        ("!!null text", "the tag tag:yaml.org,2002:null is not used for this value"),
        ("!!map [1]", "the tag tag:yaml.org,2002:map is not used here"),
        ("!!seq {x: 1}", "the tag tag:yaml.org,2002:seq is not used here"),
        ("!!set {x, y}", "the tag tag:yaml.org,2002:set is not used here"),
        ('"\\ud800"', "the text holds half a character (a lone surrogate)"),
    ],
)
def test_values_that_cannot_be_used_are_refused_in_place(text: str, says: str) -> None:
    source = parsed(f"b: 1\na: {text}\n")
    assert only(source)[:3] == ("RTD104", says, 2)
    assert source.data == {"b": 1, "a": None}


@pytest.mark.parametrize("key", ["? [x]\n", "? {x: 1}\n", "!foo a", '"\\ud800"'])
def test_keys_must_be_text(key: str) -> None:
    source = parsed(f"b: 1\n{key}: 2\n")
    assert only(source)[:2] == ("RTD104", "a key must be plain text")
    assert source.data == {"b": 1}


def test_keys_that_read_as_something_else_are_their_text() -> None:
    assert parsed("1: a\nnull: b\ntrue: c\n").data == {"1": "a", "null": "b", "true": "c"}


def test_a_key_twice_names_both_places_and_keeps_the_first() -> None:
    source = parsed("x:\n  a: 1\n  b: 2\n  a: 3\n")
    (finding,) = source.findings
    assert (finding.code, finding.range.start.line, finding.range.start.column) == ("RTD102", 4, 3)
    assert finding.notes == ("the first is at line 2, column 3",)
    assert source.data == {"x": {"a": 1, "b": 2}}


def test_findings_of_one_file_are_bounded() -> None:
    assert len(parsed("a: 1\n" * 1000).findings) == MAX_FINDINGS


@pytest.mark.parametrize(
    ("raw", "says", "line", "column"),
    [
        (b"a: caf\xe9\n", "not UTF-8 text: byte 0xe9", 1, 7),
        (b"x: 1\na: \xc3\xa9\xff\n", "not UTF-8 text: byte 0xff", 2, 5),
        (b"\xef\xbb\xbfa: \xff", "not UTF-8 text: byte 0xff", 1, 4),
        (b"\xff\xfea\x00", "not UTF-8 text: byte 0xff", 1, 1),
        (b"a: 1\nb: \x07\n", "not valid YAML: special characters are not allowed", 2, 4),
        (b"a: 1\r\nb: x\x00", "not valid YAML: special characters are not allowed", 2, 5),
        (b"", "the file is empty", 1, 1),
        (b"# only a comment\n", "the file is empty", 1, 1),
        (b"a: 1\n---\nb: 2\n",
         "not valid YAML: expected a single document in the stream but found another document", 2, 1),
        (b"a: *x\n", "not valid YAML: found undefined alias 'x'", 1, 4),
        (b"%YAML 1.1\n---\na: yes\n", "the file says that it is YAML 1.1, but is read as YAML 1.2", 1, 1),
        (b"# c\n%YAML 1.3\n---\na: 1\n", "the file says that it is YAML 1.3, but is read as YAML 1.2", 2, 1),
    ],
)  # fmt: skip
def test_what_is_no_yaml_of_ours_says_where_and_why(raw: bytes, says: str, line: int, column: int) -> None:
    source = parsed(raw)
    assert source.data is None
    assert only(source) == ("RTD101", says, line, column)
    assert source.findings[0].help


@pytest.mark.parametrize(("text", "line", "column"), [("a:\n\tb: 1\n", 2, 1), ("a:\t12\n", 1, 3)])
def test_a_tab_between_or_before_values_is_refused_at_the_tab(text: str, line: int, column: int) -> None:
    source = parsed(text)
    code, _, *where = only(source)
    assert (code, *where) == ("RTD101", line, column)
    assert source.findings[0].help == "write spaces instead of the tab"


def test_a_yaml_1_2_directive_is_fine() -> None:
    assert parsed("%YAML 1.2\n---\na: yes\n").data == {"a": "yes"}


BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)
MERGE_BOMB = "m0: &m0 {a: 1}\n" + "".join(
    f"m{n}: &m{n} {{<<: [{','.join([f'*m{n - 1}'] * 10)}]}}\n" for n in range(1, 9)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BOMB, "more than 5,000 values"),
        (MERGE_BOMB, "more than 5,000 values"),
        ("a: &a [*a]", "nested deeper than 50 levels"),
        ("a: &a {b: *a}", "nested deeper than 50 levels"),
        ("[" * 20_000, "the file is nested too deeply"),
        ("".join(" " * n + "a:\n" for n in range(500)), "the file is nested too deeply"),
        ("a: [" + "[" * 60 + "]" * 61, "nested deeper than 50 levels"),
        ("x" * (MAX_BYTES + 1), "the file is larger than 131,072 bytes"),
        ("[" + "[]," * 20_000 + "]", "more than 5,000 values"),
    ],
    ids=["aliases", "merges", "recursive list", "recursive map", "brackets", "blocks", "61 levels", "bytes", "items"],
)  # fmt: skip
def test_bombs_end_early(text: str, says: str) -> None:
    started = time.process_time()
    source = parsed(text)
    assert time.process_time() - started < 20
    code, message, _, _ = only(source)
    assert code == "RTD108"
    assert message.startswith(says)


def test_what_is_not_a_readable_file(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "zeros").symlink_to("/dev/zero")
    says = {}
    for name in ("pipe", "folder", "circle", "zeros", "missing"):
        source = read(tmp_path / name, name)
        assert [f.code for f in source.findings] == ["RTD106"]
        says[name] = source.findings[0].message
    assert says["missing"] == "there is no file missing"
    assert says["folder"] == "cannot read folder: it is a folder, not a file"
    assert says["pipe"].endswith("a device or pipe, not a file")
    assert says["zeros"].endswith("a device or pipe, not a file")
    assert says["circle"].startswith("cannot read circle: ")


def test_lines_are_counted_as_the_parser_counts_them() -> None:
    assert lines_of("a\r\nb\rc\nd\x85e\u2028f\x0bg\x0ch") == ["a", "b", "c", "d", "e", "f\x0bg\x0ch"]


FUZZ = settings(max_examples=150, deadline=10_000, suppress_health_check=[HealthCheck.function_scoped_fixture])
YAML_PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            ["a", ":", ": ", "- ", "\n", "  ", "{", "}", "[", "]", ",", "&x ", "*x", "!", "!!int ", "!!map ", "!!seq ",
             "!!str ", "<<: ", "?", "|", ">", "'", '"', "#", "%YAML 1.1", "%TAG ! x", "---", "...", "\t", "\\", "0x_",
             "1e5", ".inf", "~", "\ufeff", "\x85", "\u2028", "@", "`", "é", "😀", "nodes", "workers", "gpu"]
        ),
        st.text(max_size=3),
    ),
    max_size=40,
).map("".join)  # fmt: skip


@FUZZ
@given(st.one_of(st.binary(max_size=300), YAML_PIECES.map(lambda text: text.encode("utf-8", "surrogatepass"))))
def test_any_bytes_give_data_or_findings(raw: bytes) -> None:
    source = parse(raw, "f.yaml")
    assert source.data is not None or source.findings or source.text.strip()
    for finding in source.findings:
        assert finding.help
        assert finding.range.start.line <= len(lines_of(source.text))


ENVIRONMENT_LINES = base("environment.yaml").splitlines(keepends=True)


@FUZZ
@given(
    st.one_of(
        st.binary(max_size=200),
        YAML_PIECES.map(lambda text: text.encode("utf-8", "surrogatepass")),
        # a real file with pieces in the wrong places
        st.tuples(st.integers(0, len(ENVIRONMENT_LINES)), YAML_PIECES, st.integers(0, 3)).map(
            lambda t: "".join([*ENVIRONMENT_LINES[: t[0]], t[1], *ENVIRONMENT_LINES[t[0] + t[2] :]]).encode(
                "utf-8", "surrogatepass"
            )
        ),
    ),
    st.sampled_from(sorted(PLACES)),
)
def test_any_bytes_as_any_file_give_findings_or_a_valid_environment(tmp_path: Path, raw: bytes, name: str) -> None:
    root = make(tmp_path)
    (root / PLACES[name]).write_bytes(raw)
    for finding in check(Project(root).load("demo")):
        assert finding.help, finding
        assert finding.message
