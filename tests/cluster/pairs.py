"""Two fields at a time of every type of the Kubernetes API below the chart's values, each with values that are right
alone, under the Pod Security level that refuses least.

`tests.cluster.border` tries wrong values, one at a time; here nothing but the neighbours can be wrong.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any

from tests.chart.cases import with_key
from tests.cluster.border import AMONG, Schema, Walk, Wrap

MOST = 3
"""Values of one field that are tried; more only of enumerations."""


class Pairs(Walk):
    """Every two fields of each definition, once; of those with rules that depend on whose they are, once for each."""

    def enter(self, name: str, field: str) -> bool:
        return super().enter(name, field if name in {"Container", "Container?", "Probe"} else "")

    def samples(self, schema: Schema, path: str) -> list[Any]:
        """Right values of one field, as different as its type lets them be."""
        _, body = self.named(schema)
        if "enum" in body:
            return [value for value in body["enum"] if value is not None]
        kinds = body.get("type", "object")
        kind = next(one for one in ([kinds] if isinstance(kinds, str) else kinds) if one != "null")
        least = self.least(schema, path)
        if kind == "boolean":
            return [True, False]
        if kind == "integer":
            low = max(0, body.get("minimum", 0))
            return list(dict.fromkeys([low, least, min(7000, body.get("maximum", 7000))]))
        if kind == "array":
            return [[self.least(body.get("items", {}), path)]]
        if kind == "object" and not body.get("properties"):
            key = next((key for key in ("a", "cpu", "storage") if self._takes(body, key)), "a")
            return [{key: "1"}]
        if kind == "object" and not least:
            # One of its fields each, as an empty object often means nothing.
            names = list(body.get("properties", {}))[:MOST]
            return [{name: self.least(body["properties"][name], f"{self.named(schema)[0]}.{name}")} for name in names]
        return [least]

    def odd(self, schema: Schema, path: str, field: str, wrap: Wrap) -> Iterator[tuple[str, Any]]:
        """(path and fields, whole value) for each two values of each two fields at and below `schema`."""
        name, body = self.named(schema)
        if not self.enter(name, field):
            return
        if "array" in self.kinds(body):
            yield from self.odd(body.get("items", {}), f"{path}[]", field, lambda value: wrap([value]))
        properties = body.get("properties", {})
        least = self.least(schema) if properties else {}
        tried = {key: self.samples(child, f"{name.removesuffix('?')}.{key}") for key, child in properties.items()}
        for one, other in itertools.combinations(tried, 2):
            for number, values in enumerate(itertools.product(tried[one], tried[other])):
                given = dict(zip((one, other), copy.deepcopy(values), strict=True))
                yield f"{path}: {one} and {other} {number}", wrap({**copy.deepcopy(least), **given})
        for key, child in properties.items():
            yield from self.odd(child, f"{path}.{key}", field, self._inside(schema, key, wrap))


def cases() -> dict[str, dict[str, Any]]:
    """{path and fields: values}."""
    walk = Pairs()
    return {
        name: with_key(with_key(AMONG[max((p for p in AMONG if key.startswith(p)), key=len)], key, value), *privileged)
        for key, schema in walk.values()
        if key not in {"cluster.extraSpec", "job.extraSpec"}
        for name, value in walk.odd(schema, key, key.rpartition(".")[2], lambda value: value)
        if "extraPodSpec.containers" not in name
        for privileged in [("podSecurity", "privileged")]
    }
