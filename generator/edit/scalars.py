"""Values as YAML text that every reader takes for the same value, YAML 1.1 readers (Helm's, PyYAML) included."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import Any

from generator.edit.errors import EditError
from generator.render import quote
from generator.source import parse

# Words, and what paths, addresses and versions are made of; no character that has a meaning at some place.
_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./:@=+-]*( [A-Za-z0-9_./@=+-]+)*")
_Y_OR_N = re.compile("[yn]", re.IGNORECASE)  # truth values of YAML 1.1 that PyYAML does not take for such


def inline(value: Any, style: str = "") -> str:
    """`value` on one line. `style` is the quote that text had before: it is kept where it can be."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{inline(str(key))}: {inline(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(inline(item) for item in value) + "]"
    if isinstance(value, str):
        return _text(value, style)
    if value is None or isinstance(value, bool | int | float):
        return quote(value)
    raise EditError(f"a value of type {type(value).__name__} cannot be written")


def block(key: str, value: Any, indent: str, step: str, eol: str) -> str:
    """`key: value` at `indent`: maps as lines of their own, all else on one line."""
    name = f"{indent}{inline(key)}:"
    if isinstance(value, Mapping) and value:
        return eol.join([name, *(block(str(k), v, indent + step, step, eol) for k, v in value.items())])
    return f"{name} {inline(value)}"


def _text(value: str, style: str) -> str:
    if style == "'" and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    if style == '"' or not is_plain(value):
        return quote(value)
    return value


def is_plain(text: str) -> bool:
    """Whether `text` without quotes is text for every reader: not `yes`, `010`, `1.30`, `1e3`, `2026-12-01` …"""
    if not _PLAIN.fullmatch(text) or text.endswith(":") or _Y_OR_N.fullmatch(text):
        return False
    with contextlib.suppress(ValueError):
        float(text.replace("_", ""))
        return False
    return _plain_in_1_1(text) and parse(f"[{text}]".encode(), "").data == [text]


def _plain_in_1_1(text: str) -> bool:
    import yaml

    tag: str = yaml.resolver.Resolver().resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return tag == "tag:yaml.org,2002:str"
