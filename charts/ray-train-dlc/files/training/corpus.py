"""Documents out of files: JSON lines, Parquet and plain text, cut into parts that tasks read on their own."""

from __future__ import annotations

import codecs
import functools
import importlib
import io
import json
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from training.packed import DataError

FORMATS = {"jsonl": (".jsonl", ".ndjson", ".json"), "parquet": (".parquet",), "text": (".txt", ".text", ".md")}
COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
DOCUMENTS = ("file", "blank-line", "line")
BUFFER = 2**20


@dataclass(frozen=True)
class Source:
    """What to read, and how."""

    inputs: tuple[str, ...]
    """Files, folders, patterns, addresses."""
    format: str = "auto"
    """One of `FORMATS`, or `auto`: by the names of the files."""
    text_field: str = "text"
    """Field with the text, for JSON lines and Parquet."""
    chat_field: str = ""
    """Instead: field with a list of {role, content}."""
    document: str = "file"
    """One of `DOCUMENTS`: what a document is in plain text."""

    @property
    def field(self) -> str:
        """The field that is read."""
        return self.chat_field or self.text_field

    def format_of(self, path: str) -> str:
        """The format of a file; empty when its name does not tell."""
        return _by_name(path) if self.format == "auto" else self.format


class Part(NamedTuple):
    """A file, or what is read of it in one piece."""

    root: str
    """The address that names the file system; empty: this machine's."""
    path: str
    """Path in that file system."""
    start: int
    """First byte, or Parquet's row group."""
    end: int
    """The byte after the last: a document that begins before it is of this part."""
    rows: int = 0
    """Rows of a Parquet file before this part."""


def _by_name(path: str) -> str:
    name = path.lower()
    name = name.removesuffix(next((s for s in COMPRESSED if name.endswith(s)), ""))
    return next((kind for kind, ends in FORMATS.items() if name.endswith(ends)), "")


@functools.lru_cache(maxsize=8)
def _filesystem(root: str) -> Any:
    fs = importlib.import_module("pyarrow.fs")
    return fs.FileSystem.from_uri(root)[0] if root else fs.LocalFileSystem()


def find(source: Source, passed_over: list[str] | None = None) -> list[Part]:
    """All files, each once, sorted by path; all of one format.

    Args:
        passed_over: receives the files below a folder whose names tell of no format, or of another than is wanted.

    Raises:
        DataError: an input that names no file, or formats that are unknown or mixed.
    """
    found: set[Part] = set()
    for given in source.inputs:
        try:
            files = _expand(given, source.format, [] if passed_over is None else passed_over)
        except (OSError, ValueError) as error:
            raise DataError(f"{given}: cannot be read: {error}") from error
        if not files:
            raise DataError(f"{given}: no such {'file' if source.format == 'auto' else source.format + ' file'}")
        found.update(files)
    kinds = {source.format_of(file.path): file.path for file in sorted(found, reverse=True)}
    if "" in kinds:
        raise DataError(f"{kinds['']}: unknown format; say --format {'|'.join(FORMATS)}")
    if len(kinds) > 1:
        listed = ", ".join(f"{kind} ({path})" for kind, path in sorted(kinds.items()))
        raise DataError(f"inputs of several formats: {listed}; say --format to take one of them")
    return sorted(found)


def _expand(given: str, wanted: str, passed_over: list[str]) -> list[Part]:
    """The files of one input; of a folder, those that are named like the wanted format."""
    arrow = importlib.import_module("pyarrow.fs")
    if "://" in given:
        root = re.sub("(://[^/?]*)[^?]*", r"\1/", given, count=1)
        fs, path = arrow.FileSystem.from_uri(given)
    else:
        root, fs, path = "", _filesystem(""), str(Path(given).expanduser().absolute())
    path = path.rstrip("/")
    info = fs.get_file_info(path)
    if info.type == arrow.FileType.File:
        return [Part(root, path, 0, info.size)]
    is_folder = info.type == arrow.FileType.Directory
    folder = path if is_folder else re.split(r"/[^/]*[*?\[]", path, maxsplit=1)[0]
    if not is_folder and folder == path:
        return []

    def taken(name: str) -> bool:
        if is_folder:
            hidden = any(step.startswith((".", "_")) for step in name[len(folder) + 1 :].split("/"))
            named = _by_name(name) in (FORMATS if wanted == "auto" else (wanted,))
            if not hidden and not named:
                passed_over.append(name)
            return not hidden and named
        steps, patterns = name.split("/"), path.split("/")
        return len(steps) == len(patterns) and all(map(fnmatchcase, steps, patterns))

    entries = fs.get_file_info(arrow.FileSelector(folder, recursive=True, allow_not_found=True))
    return [Part(root, e.path, 0, e.size) for e in entries if e.type == arrow.FileType.File and taken(e.path)]


def tasks(files: list[Part], source: Source, task_bytes: int) -> list[list[Part]]:
    """Parts in the order of the files, about `task_bytes` in each list; where they are cut changes no document.

    Raises:
        DataError: a file that is no Parquet.
    """

    def cut(file: Part) -> list[tuple[int, Part]]:
        kind = source.format_of(file.path)
        if kind == "parquet":
            return _row_groups(file)
        if file.path.lower().endswith(tuple(COMPRESSED)):
            return [(file.end, file._replace(end=sys.maxsize))]
        if kind == "text" and source.document == "file":
            return [(file.end, file)]
        starts = range(0, file.end, task_bytes)
        return [(task_bytes, file._replace(start=at, end=min(at + task_bytes, file.end))) for at in starts]

    lists: list[list[Part]] = []
    room = 0
    with ThreadPoolExecutor(16) as pool:
        for size, part in (item for items in pool.map(cut, files) for item in items):
            if room < size or not lists:
                lists.append([])
                room = task_bytes
            lists[-1].append(part)
            room -= size
    return lists


def _row_groups(file: Part) -> list[tuple[int, Part]]:
    """(bytes, part) of each row group of a Parquet file."""
    with _parquet(file) as opened:
        groups = [opened.metadata.row_group(i) for i in range(opened.metadata.num_row_groups)]
    parts, rows = [], 0
    for i, group in enumerate(groups):
        parts.append((group.total_byte_size, file._replace(start=i, end=i + 1, rows=rows)))
        rows += group.num_rows
    return parts


def _parquet(file: Part) -> Any:
    try:
        opened = _filesystem(file.root).open_input_file(file.path)
        return importlib.import_module("pyarrow.parquet").ParquetFile(opened)
    except (OSError, ValueError) as error:
        raise DataError(f"{file.path}: not a Parquet file that can be read: {error}") from error


def texts(part: Part, source: Source, tokenizer: Any) -> Iterator[str]:
    """Documents of a part; empty ones too.

    Raises:
        DataError: a record without a text, with file and line or row.
    """
    kind = source.format_of(part.path)
    at = None
    try:
        for at, content in (_records if kind == "parquet" else _lines)(part, source):  # noqa: B007 - for the error
            if kind == "text":
                text = content.decode()
            else:
                text = _text(json.loads(content) if kind == "jsonl" else content, source, tokenizer)
            text.encode()
            yield text
    except (OSError, EOFError, ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        reason = "not valid UTF-8" if isinstance(error, UnicodeError) else str(error)
        if isinstance(error, json.JSONDecodeError):
            reason = f"not JSON: {error.msg} at character {error.pos + 1}; each line has to hold one object"
        raise DataError(f"{_where(part, kind, at)}: {reason}") from error


def _text(record: Any, source: Source, tokenizer: Any) -> str:
    """The text of one record.

    Raises:
        ValueError: the field is not there or of another type, or the chat template refuses it.
    """
    name, flag = source.field, "--chat-field" if source.chat_field else "--text-field"
    if not isinstance(record, dict):
        raise ValueError(f"a {type(record).__name__}, not an object with fields")
    if name not in record:
        raise ValueError(f"no field {name}, only {', '.join(record)}; choose with {flag}")
    value = record[name]
    if value is None or value == []:
        return ""
    if not source.chat_field:
        if not isinstance(value, str):
            raise ValueError(f"field {name} is of type {type(value).__name__}, not a text")
        return value
    turns = value if isinstance(value, list) else [None]
    if not all(isinstance(t, dict) and isinstance(t.get(k), str) for t in turns for k in ("role", "content")):
        raise ValueError(f"field {name} is not a list of objects with texts role and content")
    try:
        return str(tokenizer.apply_chat_template(value, tokenize=False))
    except Exception as error:  # templates are programs
        raise ValueError(f"the chat template refuses field {name}: {error}") from error


def _records(part: Part, source: Source) -> Iterator[tuple[int, Any]]:
    """(row, record) of a Parquet row group: the wanted column alone, or the names of all when it is not there."""
    with _parquet(part) as opened:
        at, columns = part.rows, opened.schema_arrow.names
        if source.field not in columns:
            yield at, dict.fromkeys(columns)
        for batch in opened.iter_batches(batch_size=256, row_groups=[part.start], columns=[source.field]):
            for record in batch.to_pylist():
                yield at, record
                at += 1


def _open(part: Part) -> io.BufferedReader:
    fs, suffix = _filesystem(part.root), Path(part.path.lower()).suffix
    if suffix in COMPRESSED:
        return io.BufferedReader(fs.open_input_stream(part.path, compression=COMPRESSED[suffix]), BUFFER)
    return io.BufferedReader(fs.open_input_file(part.path), BUFFER)


def _lines(part: Part, source: Source) -> Iterator[tuple[int, Any]]:
    """(offset, bytes) of the lines of JSON, or the documents of text, that begin in a part.

    One between blank lines is of the part where the blank line before it begins: a task knows its own without what
    comes before.
    """
    is_text = source.format_of(part.path) == "text"
    unit = source.document if is_text else "line"
    with _open(part) as stream:
        if unit == "file":
            yield 0, stream.read().removeprefix(codecs.BOM_UTF8)
            return
        at, own = part.start, part.start == 0
        if at:
            stream.seek(at - 1)
            at += len(stream.readline()) - 1
        begin = at
        document: list[bytes] = []
        for line in stream:
            content = line.removeprefix(codecs.BOM_UTF8) if at == 0 else line
            blank = not content.strip()
            if document and blank:
                yield begin, b"".join(document).rstrip(b"\r\n")
                document = []
            if at >= part.end and (blank or unit == "line"):
                return
            if unit == "line":
                if is_text or not blank:
                    yield at, content.rstrip(b"\r\n")
            elif blank:
                own = True
            elif own:
                begin = begin if document else at
                document.append(content)
            at += len(line)
        if document:
            yield begin, b"".join(document).rstrip(b"\r\n")


def _where(part: Part, kind: str, at: int | None) -> str:
    """Path with row or line, for an error."""
    if at is None:
        return part.path
    if kind == "parquet":
        return f"{part.path} row {at + 1}"
    number = 1
    with _open(part) as stream:
        while at > 0 and (block := stream.read(min(at, BUFFER))):
            number += block.count(b"\n")
            at -= len(block)
    return f"{part.path} line {number}"
