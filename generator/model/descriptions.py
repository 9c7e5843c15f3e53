"""The texts under the fields of a model: its documentation, in findings and in the JSON Schema."""

from __future__ import annotations

import inspect
from functools import cache

from pydantic import BaseModel


@cache
def descriptions(model: type[BaseModel]) -> dict[str, str]:
    """Field name → the text under it, on one line. Reads the model's source, so only when a text is wanted."""
    import ast

    texts: dict[str, str] = {}
    (body,) = ast.parse(inspect.getsource(model)).body
    assert isinstance(body, ast.ClassDef)  # noqa: S101  (the source of a class is a class)
    for node, following in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
        ):
            texts[node.target.id] = " ".join(str(following.value.value).split())
    return texts
