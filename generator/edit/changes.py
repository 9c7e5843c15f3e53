"""Changes of a YAML text by path. After every change the text is read again and must say just what was asked for."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from generator.diagnostics.finding import Pointer, dotted
from generator.edit.errors import EditError
from generator.edit.splice import Text
from generator.source import Source, parse

BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class Put:
    """Give the key at `path` this value; maps on the way that are missing are made."""

    path: Pointer
    value: Any


@dataclass(frozen=True, slots=True)
class Remove:
    """Take out the key at `path`."""

    path: Pointer


Change = Put | Remove


def apply(text: str, changes: Iterable[Change], file: str) -> str:
    """`text` with the changes, one after the other. `file` is its name for messages.

    Raises:
        EditError: the text is not valid YAML, or a change cannot be made without touching anything else.
    """
    mark = BOM if text.startswith(BOM) else ""
    text = text.removeprefix(BOM)
    for change in changes:
        source = _readable(text, file)
        for step in _steps(source.data, change):
            text = _apply_one(text, _readable(text, file), step, file)
    return mark + text


def _readable(text: str, file: str) -> Source:
    source = parse(text.encode(), file)
    if source.findings:
        first = source.findings[0]
        where = f"{file}:{first.range.start.line}:{first.range.start.column}"
        raise EditError(f"{where}: {first.message}; correct the file first ({first.help})")
    if not isinstance(source.data, dict):
        raise EditError(f"{file} is not a map of keys and values")
    return source


def _steps(data: Any, change: Change) -> Iterator[Change]:
    """The smallest changes that amount to `change`: where map takes the place of map, only what differs."""
    if isinstance(change, Remove):
        yield change
        return
    before = _at(data, change.path)
    if not (isinstance(before, dict) and isinstance(change.value, Mapping) and before and change.value):
        if not _same(before, change.value):
            yield change
        return
    for key, value in change.value.items():
        yield from _steps(data, Put((*change.path, key), value))
    for key in before:
        if key not in change.value:
            yield Remove((*change.path, key))


def _apply_one(text: str, source: Source, change: Change, file: str) -> str:
    expected = copy.deepcopy(source.data)
    if isinstance(change, Put):
        _put(expected, change)
        new = Text(text).put(change.path, expected)
    else:
        _remove(expected, change)
        new = Text(text).remove(change.path)
    after = parse(new.encode(), file)
    if after.findings or not _same(after.data, expected):
        raise EditError(
            f"`{dotted(change.path)}` of {file} cannot be changed without changing anything else "
            "(an anchor, `<<` or a block of text is in the way); change it in an editor"
        )
    return new


def _put(data: Any, change: Put) -> None:
    for index, part in enumerate(change.path):
        here = dotted(change.path[:index])
        last = index == len(change.path) - 1
        if isinstance(data, list):
            if not isinstance(part, int) or part > len(data):
                raise EditError(f"`{here}` is a list of {len(data)}: it has no `{part}`")
            if part == len(data):
                data.append(change.value if last else {})
        elif not isinstance(data, dict) or not isinstance(part, str):
            raise EditError(f"`{here}` is a single value: it has no `{part}` below it")
        if last:
            data[part] = copy.deepcopy(change.value)
        elif isinstance(data, dict) and data.get(part) is None:
            data[part] = {}
        data = data[part]


def _remove(data: Any, change: Remove) -> None:
    if _at(data, change.path) is _MISSING:
        raise EditError(f"there is no `{dotted(change.path)}`")
    for part in change.path[:-1]:
        data = data[part]
    del data[change.path[-1]]


class _Missing:
    """What stands where nothing stands."""


_MISSING = _Missing()


def _at(data: Any, path: Pointer) -> Any:
    for part in path:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return _MISSING
    return data


def _same(a: Any, b: Any) -> bool:
    """Equal, and of the same types: 1, 1.0 and true are three values."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    return type(a) is type(b) and bool(a == b)
