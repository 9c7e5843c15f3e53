"""Documents out of files: every format, the same documents wherever tasks cut, errors that name file and line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.training.conftest import require
from training.corpus import Part, Source, find, tasks, texts
from training.packed import DataError


@pytest.fixture(scope="module", autouse=True)
def _arrow() -> None:
    require("pyarrow")


class Chat:
    """Stands where a tokenizer with a chat template does."""

    @staticmethod
    def apply_chat_template(turns: list[dict[str, str]], *, tokenize: bool) -> str:
        assert not tokenize
        if turns[0]["role"] == "tool":
            raise KeyError("no tools here")
        return "|".join(f"{turn['role']}:{turn['content']}" for turn in turns)


def read(source: Source, task_bytes: int = 2**24) -> list[str]:
    """All documents; the parts are read apart from each other, as tasks do."""
    parts = [part for listed in tasks(find(source), source, task_bytes) for part in listed]
    return [text for part in parts for text in texts(part, source, Chat)]


def lines(*records: Any) -> bytes:
    """JSON lines."""
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def test_where_json_lines_are_cut_changes_nothing(tmp_path: Path) -> None:
    wanted = ["a", "zwei\nZeilen", "ü" * 9, "", "end"]
    content = lines(*({"id": i, "text": text} for i, text in enumerate(wanted)))
    file = tmp_path / "a.jsonl"
    for ends in (content, content[:-1], content.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + content, b"\n\n" + content):
        file.write_bytes(ends)
        for size in range(1, len(ends) + 2):
            assert read(Source((str(file),)), size) == wanted


@pytest.mark.parametrize(
    ("unit", "wanted"),
    [
        ("file", ["\none\nmore\r\n\r\n \t\ntwo\n\n\n\nthree"]),
        ("line", ["", "one", "more", "", " \t", "two", "", "", "", "three"]),
        ("blank-line", ["one\nmore", "two", "three"]),
    ],
)
def test_where_text_is_cut_changes_nothing(tmp_path: Path, unit: str, wanted: list[str]) -> None:
    file = tmp_path / "a.txt"
    for before, after in ((b"", b""), (b"\xef\xbb\xbf", b"\n")):
        content = before + b"\none\nmore\r\n\r\n \t\ntwo\n\n\n\nthree" + after
        file.write_bytes(content)
        if unit == "file":
            wanted = [wanted[0].rstrip("\n") + after.decode()]
        for size in range(1, len(content) + 2):
            assert read(Source((str(file),), document=unit), size) == wanted


def test_parquet_gives_its_rows_through_all_row_groups(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    wanted = [f"row {i}" for i in range(1000)]
    chats = [[{"role": "user", "content": text}] for text in wanted]
    table = pa.table({"text": [*wanted, None], "messages": [*chats, []], "n": range(1001)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=300)
    pq.write_table(table.slice(0, 0), tmp_path / "b.parquet")
    for size in (1, 2**24):
        assert read(Source((str(tmp_path),)), size) == [*wanted, ""]
        assert read(Source((str(tmp_path),), chat_field="messages"), size) == [*(f"user:{w}" for w in wanted), ""]


def test_compressed_files_are_read_by_their_suffix(tmp_path: Path) -> None:
    import pyarrow as pa

    content = lines(*({"text": str(i)} for i in range(5000)))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(content[:1000]) + gzip.compress(content[1000:]))
    for suffix, codec in ((".bz2", "bz2"), (".zst", "zstd")):
        with pa.CompressedOutputStream(str(tmp_path / f"b.jsonl{suffix}"), codec) as stream:
            stream.write(content)
    assert read(Source((str(tmp_path),)), 100) == [str(i) for i in range(5000)] * 3


def test_inputs_are_files_folders_patterns_and_addresses_each_file_once(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", "in/c.jsonl", "in/.hidden", "_skip/d.jsonl", "in/e.txt", "in/x [1].jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(lines({"text": name}))

    def names(*inputs: str, kind: str = "jsonl") -> list[str]:
        return [Path(part.path).name for part in find(Source(inputs, format=kind))]

    root = str(tmp_path)
    assert names(root) == ["a.jsonl", "b.jsonl", "c.jsonl", "x [1].jsonl"]
    assert names(f"{root}/b.jsonl", f"{root}/[ab].jsonl", f"{root}/./a.jsonl") == ["a.jsonl", "b.jsonl"]
    assert names(f"{root}/*/?.jsonl") == ["d.jsonl", "c.jsonl"]
    assert names(f"{root}/in/x [1].jsonl") == ["x [1].jsonl"]
    assert names(f"file://{root}/*.jsonl", f"file://{root}/a.jsonl") == ["a.jsonl", "b.jsonl"]
    assert read(Source((f"file://{root}/a.jsonl",))) == ["a.jsonl"]
    assert names(f"{root}/in", kind="text") == ["e.txt"]
    for inputs, kind, reason in (
        ((f"{root}/none.jsonl",), "auto", "none.jsonl: no such file"),
        ((f"{root}/*.parquet",), "auto", "*.parquet: no such file"),
        ((root,), "parquet", f"{root}: no such parquet file"),
        ((f"{root}/in",), "auto", "several formats: jsonl"),
        ((f"{root}/in/.hidden",), "auto", ".hidden: unknown format; say --format jsonl|parquet|text"),
        (("gopher://a/b",), "auto", "gopher://a/b: cannot be read"),
    ):
        with pytest.raises(DataError) as caught:
            names(*inputs, kind=kind)
        assert reason in str(caught.value)


GOOD = {"text": "good", "messages": [{"role": "user", "content": "hello"}]}
BAD_LINES = [
    (b'{"text": "a"\n', "", "not JSON: Expecting ',' delimiter at character 13; each line has to hold one object"),
    (b"[1]\n", "", "a list, not an object with fields"),
    (b'{"body": "a", "id": 1}\n', "", "no field text, only body, id; choose with --text-field"),
    (b'{"text": 5}\n', "", "field text is of type int, not a text"),
    (b'{"text": "\xff"}\n', "", "not valid UTF-8"),
    (b'{"text": "\\ud800"}\n', "", "not valid UTF-8"),
    (b'{"text": "a"}\n', "messages", "no field messages, only text; choose with --chat-field"),
    (b'{"messages": "a"}\n', "messages", "not a list of objects with texts role and content"),
    (b'{"messages": [{"role": "user", "content": null}]}\n', "messages", "not a list of objects"),
    (b'{"messages": [{"role": "tool", "content": ""}]}\n', "messages", "the chat template refuses field messages: "),
]


@pytest.mark.parametrize(("bad", "field", "reason"), BAD_LINES)
@pytest.mark.parametrize("task_bytes", [40, 2**24])
def test_an_error_names_file_and_line(tmp_path: Path, bad: bytes, field: str, reason: str, task_bytes: int) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(lines(*[GOOD] * 20) + b"\n" + bad + lines(GOOD))
    source = Source((str(file),), chat_field=field)
    with pytest.raises(DataError) as caught:
        read(source, task_bytes)
    assert str(caught.value).startswith(f"{file} line 22: ")
    assert reason in str(caught.value)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    cut = tmp_path / "a.jsonl.gz"
    cut.write_bytes(gzip.compress(lines(*[{"text": str(i)} for i in range(500)]))[:-200])
    no = tmp_path / "b.parquet"
    no.write_bytes(b"PAR1 or not")
    pq.write_table(pa.table({"body": ["a"], "text": [1]}), tmp_path / "c.parquet", row_group_size=1)
    text = tmp_path / "d.txt"
    text.write_bytes(b"good\n\n\xff\n")
    for source, reason in (
        (Source((str(cut),)), f"{cut}: Truncated compressed stream"),
        (Source((str(no),)), f"{no}: not a Parquet file that can be read"),
        (Source((f"{tmp_path}/c.parquet",)), "c.parquet row 1: field text is of type int, not a text"),
        (Source((f"{tmp_path}/c.parquet",), text_field="x"), "c.parquet row 1: no field x, only body, text"),
        (Source((str(text),), document="blank-line"), f"{text} line 3: not valid UTF-8"),
    ):
        with pytest.raises(DataError) as caught:
            read(source)
        assert reason in str(caught.value)


def test_small_files_share_a_task_and_large_ones_are_cut(tmp_path: Path) -> None:
    for i in range(10):
        (tmp_path / f"{i}.jsonl").write_bytes(b" " * (1000 if i == 5 else 10))
    source = Source((str(tmp_path),))
    made = tasks(find(source), source, 100)
    assert sum(len(listed) for listed in made) == 19
    assert [part for listed in made for part in listed] == sorted(part for listed in made for part in listed)
    whole = Part("", str(tmp_path / "5.jsonl"), 0, 100)
    assert whole in {part for listed in made for part in listed}
