"""Edits of YAML text: only what was asked for changes, whatever the style of the file."""

from __future__ import annotations

import difflib
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from generator.edit import EditError, Put, Remove, apply
from generator.edit.changes import Change
from generator.edit.paths import path_of
from generator.edit.scalars import is_plain
from generator.source import parse
from tests.project import base

DEMO = (Path(__file__).resolve().parents[2] / "environments/demo/environment.yaml").read_text(encoding="utf-8")


def put(path: str, value: object) -> Put:
    return Put(path_of(path), value)


def remove(path: str) -> Remove:
    return Remove(path_of(path))


def changed(before: str, *changes: Change) -> list[str]:
    """The lines that go and come."""
    after = apply(before, changes, "f.yaml")
    lines = difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), n=0)
    return [line for line in lines if line[0] in "+-" and line[:3] not in ("+++", "---")]


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (put("workers.gpu.nodes", 16), ["-    nodes: 2\n", "+    nodes: 16\n"]),
        (
            put("cluster", "production"),
            [
                "-cluster: demo                       # environments/_clusters/demo.yaml\n",
                "+cluster: production                 # environments/_clusters/demo.yaml\n",
            ],
        ),
        (
            put("workers.gpu.capacity", {"kind": "spot"}),
            [
                "-    capacity: {kind: onDemand}      # onDemand | spot | reservation {id} | capacityBlock {id}\n",
                "+    capacity: {kind: spot}          # onDemand | spot | reservation {id} | capacityBlock {id}\n",
            ],
        ),
        (
            put("job.runId", "yes"),
            [
                '-  runId: ""                         # change it to run again with nothing else changed\n',
                '+  runId: "yes"                      # change it to run again with nothing else changed\n',
            ],
        ),
        (put("workers.cpu.tags", {"a": ["on", 1]}), ['+  cpu:\n', '+    tags:\n', '+      a: ["on", 1]\n']),
        (
            remove("head.cpu"),
            [
                "-head: {cpu: 2, memory: 8Gi}         # on a system node; runs the driver\n",
                "+head: {memory: 8Gi}                 # on a system node; runs the driver\n",
            ],
        ),
    ],
)  # fmt: skip
def test_one_change_is_one_small_difference(change: Change, lines: list[str]) -> None:
    assert changed(DEMO, change) == lines


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        ("a: 1", put("b", 2), "a: 1\nb: 2"),  # no final newline
        ("\ufeffa: 1\n", put("a", 2), "\ufeffa: 2\n"),
        ("a: 1\r\nb:\r\n  c: 1\r\n", put("b.d", 2), "a: 1\r\nb:\r\n  c: 1\r\n  d: 2\r\n"),
        ("a: 'x'\n", put("a", "it's"), "a: 'it''s'\n"),
        ('a: "x"\n', put("a", "y\n"), 'a: "y\\n"\n'),
        ("a: x # c\n", put("a", "long"), "a: long # c\n"),
        ("a:   # c\nb: 1\n", put("a", 5), "a: 5 # c\nb: 1\n"),
        ("a:\nb: 1\n", put("a.x.z", "010"), 'a:\n  x:\n    z: "010"\nb: 1\n'),
        ("p: {}\n", put("p.quota.m", 96), "p: {quota: {m: 96}}\n"),
        ("p: { a: 1 }\n", put("p.b", 2), "p: { a: 1, b: 2 }\n"),
        ("p: {a: '#', b: 2}   # c\n", put("p.a", "##"), "p: {a: '##', b: 2}  # c\n"),
        ("x: &x {b: 1, c: 2}\nd: *x\n", put("d", 5), "x: &x {b: 1, c: 2}\nd: 5\n"),
        ("x: &x {b: 1, c: 2}\nd: *x\n", put("d.b", 5), "x: &x {b: 1, c: 2}\nd: {<<: *x, b: 5}\n"),
        ("x: &x {b: {c: 1, d: 2}}\ny:\n  <<: *x\n", put("y.b.c", 5),
         "x: &x {b: {c: 1, d: 2}}\ny:\n  <<: *x\n  b:\n    c: 5\n    d: 2\n"),
        ("x: &x 1\n", put("x", 2), "x: &x 2\n"),
        ("l: [a, b]\n", put("l[1]", "on"), 'l: [a, "on"]\n'),
        ("l:\n- a\n- b\nk: 1\n", put("l[2]", "c"), "l:\n- a\n- b\n- c\nk: 1\n"),
        ("l:\n  - a: 1\n    b: 2\n", put("l[0].b", 3), "l:\n  - a: 1\n    b: 3\n"),
        ("l:\n  - a: 1\n    b: 2\n", remove("l[0].a"), "l:\n  - b: 2\n"),
        ("l:\n  - a\n  - b\n", remove("l[0]"), "l:\n  - b\n"),
        ("m: {a: 1, b: 2, c: 3}\n", remove("m.b"), "m: {a: 1, c: 3}\n"),
        ("m:  # c\n  a: 1\nn: 1\n", remove("m.a"), "m: {} # c\nn: 1\n"),
        ("a: 1\nb: |\n  text\n  more\nc: 2", remove("c"), "a: 1\nb: |\n  text\n  more\n"),
        ("a: 1\nb: |\n  text\n\nc: 2\n", put("b", "x"), "a: 1\nb: x\n\nc: 2\n"),
        ("w:\n  g:\n    n: 1\n    # m: 2\n\n# h\nh: 1\n", put("w.g.k", 3),
         "w:\n  g:\n    n: 1\n    # m: 2\n    k: 3\n\n# h\nh: 1\n"),
        ('"a.b": {"c d": 1}\n', put('"a.b"."c d"', 2), '"a.b": {"c d": 2}\n'),
        ("---\na: 1\n...\n", put("b", 2), "---\na: 1\nb: 2\n...\n"),
    ],
)  # fmt: skip
def test_styles(before: str, change: Change, after: str) -> None:
    assert apply(before, [change], "f.yaml") == after


@pytest.mark.parametrize(
    ("before", "change", "says"),
    [
        ("a: 1\na: 2\n", put("a", 3), "f.yaml:2:1: `a` stands twice in this map"),
        ("x: &x {b: 1}\nd: *x\n", put("x.b", 3), "an anchor, `<<` or a block of text is in the way"),
        ("x: &x 1\nd: *x\n", put("x", 3), "the anchor &x, which line 2 uses"),
        ("x: &x {b: 1}\nd: *x\n", remove("x"), "the anchor &x, which line 2 uses"),
        ("x: &x {b: 1}\ny: {<<: *x, c: 1}\n", remove("y.b"), "`y.b` comes from `<<`"),
        ("a: 1\n", remove("b"), "there is no `b`"),
        ("a: 1\n", put("a.b", 1), "`a` is a single value"),
        ("a: [1]\n", put("a[3]", 1), "`a` is a list of 1"),
        ("- a\n", put("a", 1), "is not a map"),
        ("? a\n: 1\n", put("a", {"b": 1}), None),
        ("a: 1\n<<<<<<< HEAD\nb: 1\n=======\nb: 2\n>>>>>>> x\n", put("a", 2), "conflict markers"),
    ],
)
def test_what_cannot_be_done_is_refused(before: str, change: Change, says: str | None) -> None:
    if says is None:  # done or refused, but never wrong: `apply` reads the result again
        assert parse(apply(before, [change], "f.yaml").encode(), "").data == {"a": {"b": 1}}
        return
    with pytest.raises(EditError) as error:
        apply(before, [change], "f.yaml")
    assert says in str(error.value)


# fmt: off
AMBIGUOUS = [
    "yes", "On", "n", "010", "1.30", "1e3", "2026-12-01", "12:30:00", "0x1f", "1_000", "~", "null", "True",
    ".5", "-", "*a", "&a", "!a", "nan", "a:", "[a", "a: b", "a #b", "", " a",
]
# fmt: on


@pytest.mark.parametrize("text", AMBIGUOUS)
def test_text_that_could_be_read_as_something_else_is_quoted(text: str) -> None:
    assert not is_plain(text)
    after = apply("a: x\n", [put("a", text)], "f.yaml")
    assert yaml.safe_load(after) == {"a": text}, "a YAML 1.1 reader"


@pytest.mark.parametrize("text", ["1.6.1", "s3://bucket/a-b", "train-ml-cuda-v1.1.0", "us-west-2a", "160Gi", "my run"])
def test_ordinary_text_stays_plain(text: str) -> None:
    assert apply("a: x\n", [put("a", text)], "f.yaml") == f"a: {text}\n"


KEYS = ("name", "workers.gpu.nodes", "workers.gpu.capacity.kind", "workers.b.nodes", "training.args.steps", "job.runId",
        "policy.quota.gAndVtVcpu", "head.memory", "new.a.b", "training.storage")  # fmt: skip
VALUES = st.one_of(
    st.text(max_size=12),
    st.integers(-(10**9), 10**9),
    st.booleans(),
    st.lists(st.text(max_size=3), max_size=2),
    st.dictionaries(st.text(st.characters(categories=["L"]), min_size=1, max_size=3), st.integers(0, 9), max_size=2),
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(KEYS), VALUES, st.sampled_from([DEMO, base("environment.yaml")]), st.booleans())
def test_any_value_is_read_back_and_comments_stay(key: str, value: object, text: str, crlf: bool) -> None:
    text = text.replace("\n", "\r\n") if crlf else text
    after = apply(text, [put(key, value)], "f.yaml")
    data = parse(after.encode(), "").data
    for part in path_of(key):
        data = data[part]
    assert data == value
    if key != "training.storage":  # its own lines go with it
        comments = [line.partition(" #")[2] for line in text.splitlines()]
        assert [c for c in (line.partition(" #")[2] for line in after.splitlines()) if c in comments and c] == [
            c for c in comments if c
        ]
    assert ("\n" in after.replace("\r\n", "")) is not crlf or not crlf


def test_a_long_file_is_quick() -> None:
    text = "a: 1\n" + "# a line of comment\n" * 5_000 + "b:\n  c: 2\n" + "\n" * 5_000 + "d: 1\n"
    start = time.process_time()
    after = apply(text, [put("b.c", 3), put("b.d", 4)], "f.yaml")
    assert time.process_time() - start < 10, "a hang, not a matter of seconds"
    assert after.count("\n") == text.count("\n") + 1


@pytest.mark.parametrize("text", ["", "a..b", ".a", "a.", "a[x]", "a[0", 'a."b', "a.[0]"])
def test_keys_that_are_none(text: str) -> None:
    with pytest.raises(EditError, match="is not a key"):
        path_of(text)
