"""Steps from one format of environment.yaml to the next. Each changes as little of the text as it can."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from generator.edit.changes import BOM, Put, Remove
from generator.edit.errors import EditError
from generator.edit.files import Files
from generator.edit.nodes import line_end, line_start, nodes
from generator.source import parse

_OWNERS = ("image", "rayVersion")  # keys of version.yaml since format 1


def migrate(files: Files, folder: str, current: int) -> tuple[int, list[str]]:
    """Raise one environment to format `current`.

    Returns:
        The format that it had, and what was done.

    Raises:
        EditError: it is of a newer format, or cannot be changed.
    """
    file = f"environments/{folder}/environment.yaml"
    text = files.text(file) or ""
    source = parse(text.encode(), file)
    if source.findings or not isinstance(source.data, dict):
        reason = f": {source.findings[0].message}" if source.findings else " is not a map of keys and values"
        raise EditError(f"{file}{reason}; correct it first")
    written = source.data.get("schemaVersion", 0)
    if type(written) is not int or not 0 <= written <= current:
        raise EditError(f"{file} has format {written}, but this version knows formats up to {current} only")
    done = []
    for number in range(written, current):
        done += STEPS[number](files, folder)
        if "schemaVersion" in source.data or number > written:
            files.edit(file, [Put(("schemaVersion",), number + 1)])
        else:
            files.replace(file, _with_number(files.text(file) or "", number + 1))
        done.append(f"schemaVersion: {number + 1}")
    return written, done


def _image_to_version(files: Files, folder: str) -> list[str]:
    """Format 0 had the image in environment.yaml, or no number at all; promotion copies version.yaml since format 1."""
    environment, version = f"environments/{folder}/environment.yaml", f"environments/{folder}/version.yaml"
    data: dict[str, Any] = parse((files.text(environment) or "").encode(), environment).data
    moving = [key for key in _OWNERS if key in data]
    if not moving:
        return []
    existing = files.text(version)
    if existing is None:
        lines = [_lines_of(files.text(environment) or "", key) for key in moving]
        files.replace(version, "".join(lines))
        if parse("".join(lines).encode(), version).data != {key: data[key] for key in moving}:
            raise EditError(f"{', '.join(moving)} of {environment} use an anchor: write them to {version} by hand")
    else:
        there = parse(existing.encode(), version).data
        for key in moving:
            if isinstance(there, dict) and key in there and there[key] != data[key]:
                raise EditError(f"{environment} and {version} give two values for {key}: remove one of them")
        files.edit(version, [Put((key,), data[key]) for key in moving])
    files.edit(environment, [Remove((key,)) for key in moving])
    return [f"{key}: moved to version.yaml" for key in moving]


def _lines_of(text: str, key: str) -> str:
    """The lines of a top-level key, with the comments in them."""
    text = text.removeprefix(BOM)
    entry = nodes(text).find(key)
    if entry is None:
        raise EditError(f"`{key}` comes from `<<`: write it to version.yaml by hand")
    return text[line_start(text, entry.start) : line_end(text, entry.end)] + ("\r\n" if "\r\n" in text else "\n")


def _with_number(text: str, number: int) -> str:
    """The number before the first key: comments at the head of the file stay there."""
    mark = BOM if text.startswith(BOM) else ""
    text = text.removeprefix(BOM)
    root = nodes(text)
    if root.flow or not root.entries:
        raise EditError("the file is one `{…}`: add `schemaVersion` to it by hand")
    at = line_start(text, root.entries[0].start)
    eol = "\r\n" if re.search("\r\n", text) else "\n"
    return f"{mark}{text[:at]}{' ' * root.column}schemaVersion: {number}{eol}{text[at:]}"


STEPS: dict[int, Callable[[Files, str], list[str]]] = {0: _image_to_version}
"""What raises a file of this format to the next."""
