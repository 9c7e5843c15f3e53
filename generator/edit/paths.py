"""Keys as people write them on the command line, and the keys that a model knows."""

from __future__ import annotations

import difflib
import re
import types
from collections.abc import Iterator
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from generator.diagnostics.finding import Pointer, dotted
from generator.edit.errors import EditError

_PART = re.compile(r"""(?P<dot>\.?)(?:"(?P<quoted>[^"]*)"|\[(?P<index>[0-9]{1,6})\]|(?P<plain>[^.\["\]]+))""")


def path_of(text: str) -> Pointer:
    """`workers.gpu.nodes`, `availabilityZones[1]`, `env."a.b"` as a path.

    Raises:
        EditError: it is not of that form.
    """
    path: list[str | int] = []
    at = 0
    while found := _PART.match(text, at):
        index = found["index"]
        if bool(found["dot"]) == (at == 0 or index is not None):  # a dot between names, none before an index
            break
        path.append(int(index) if index is not None else found["quoted"] or found["plain"] or "")
        at = found.end()
    if at != len(text) or not path:
        raise EditError(f'`{text}` is not a key: write it as `a.b.c`, `a.list[0]` or `a."b.c"`')
    return tuple(path)


def type_at(model: type[BaseModel], path: Pointer) -> list[Any]:
    """The types that a value at `path` may have; none: the model does not know the key."""
    current: list[Any] = [model]
    for part in path:
        current = [member for inside in current for member in _below(inside, part)]
    return current


def unknown(model: type[BaseModel], path: Pointer, data: Any) -> str | None:
    """Why the model has no `path`, with the nearest key that it has; None when it has it."""
    if type_at(model, path):
        return None
    known = sorted(set(_known(model, data)))
    name = dotted(path)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    close = close or [key for key in known if key.rsplit(".", 1)[-1] == path[-1]][:1]
    close = close or difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"there is no key `{name}`" + (f"; did you mean `{close[0]}`?" if close else "")


def takes_text_only(model: type[BaseModel], path: Pointer) -> bool:
    """Whether only text may stand at `path`, so that `1.36` on a command line can mean nothing else."""
    return {_plain(kind) for kind in type_at(model, path)} == {str}


def _known(model: type[BaseModel], data: Any, prefix: str = "") -> Iterator[str]:
    """Every dotted key of a model; names that users choose (worker groups) as the file has them."""
    for field in model.model_fields.values():
        name = str(field.alias)
        yield prefix + name
        inside = data.get(name) if isinstance(data, dict) else None
        for member in _members(field.annotation):
            if _is_model(member):
                yield from _known(member, inside, f"{prefix}{name}.")
            elif get_origin(member) is dict:
                for child in _members(get_args(member)[1]):
                    for chosen, below in inside.items() if isinstance(inside, dict) and _is_model(child) else ():
                        yield from _known(child, below, f"{prefix}{name}.{chosen}.")


def _below(inside: Any, part: str | int) -> list[Any]:
    if _is_model(inside):
        return [m for f in inside.model_fields.values() if f.alias == part for m in _members(f.annotation)]
    if get_origin(inside) is dict and isinstance(part, str):
        return _members(get_args(inside)[1])
    if get_origin(inside) is list and isinstance(part, int):
        return _members(get_args(inside)[0])
    return []


def _members(annotation: Any) -> list[Any]:
    """The parts of a union, without None and without Annotated's wrapping."""
    if hasattr(annotation, "__metadata__"):
        return _members(annotation.__origin__)
    if get_origin(annotation) is types.UnionType or str(get_origin(annotation)) == "typing.Union":
        return [m for part in get_args(annotation) if part is not type(None) for m in _members(part)]
    return [annotation]


def _plain(kind: Any) -> Any:
    return type(get_args(kind)[0]) if get_args(kind) and str(get_origin(kind)) == "typing.Literal" else kind


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
