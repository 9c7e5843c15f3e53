"""Environment variables that a training must not set, or that cost it speed, from `variables.csv`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from generator.catalog import rows


@dataclass(frozen=True, slots=True)
class Variable:
    """One row. `name` may end with `*`.

    kind: `owned` by chart or operator, `defeats` the check of the network, or only `slow`.
    where: `always`, or where a group has EFA (`efa`), EFA with RDMA, without it, with GPUDirect RDMA (`rdma`,
        `no-rdma`, `gdr`), or several GPUs per node (`gpus`).
    allowed: regular expression of whole values that do no harm; empty: none.
    """

    name: str
    kind: str
    where: str
    allowed: str
    effect: str
    instead: str

    def applies(self, name: str, value: object) -> bool:
        """Whether the row speaks about a variable of this name with this value (None: not known before the start)."""
        mine = name.startswith(self.name[:-1]) if self.name.endswith("*") else name == self.name
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return mine and not (self.allowed and value is not None and re.fullmatch(self.allowed, text))


@cache
def variables() -> tuple[Variable, ...]:
    """All rows, in the order of the table."""
    return tuple(
        Variable(r["variable"], r["kind"], r["where"], r["allowed"], r["effect"], r["instead"])
        for r in rows("variables.csv")
    )
