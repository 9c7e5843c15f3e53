"""GPU peaks, and what estimates take for granted. Both tables name their sources; assumptions are no measurements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from generator.catalog import InstanceType, first_number, rows


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU model: dense bf16 FLOP/s without sparsity, and how sure that is (`high`, `medium`, `low`)."""

    model: str
    flops: float
    confidence: str
    source: str


@dataclass(frozen=True, slots=True)
class Assumption:
    """A number that an estimate takes for granted."""

    item: str
    gpu: str
    value: float
    as_of: str
    source: str


@cache
def _gpus() -> Mapping[str, Gpu]:
    """By family of instance types. A GPU without bf16 (`none …`) has no peak."""
    found = {}
    for row in rows("gpus.csv"):
        peak = row["BF16 dense tensor TFLOPS"]
        if peak.startswith("none"):
            continue
        one = Gpu(row["GPU model"], first_number(peak) * 1e12, row["confidence"], row["source"])
        found.update(dict.fromkeys(row["instances"].split(","), one))
    return found


def gpu_of(found: InstanceType) -> Gpu | None:
    """The GPU of an instance type, or None where it has none that computes in bf16."""
    return _gpus().get(found.family)


@cache
def _assumptions() -> Mapping[tuple[str, str], Assumption]:
    found = [
        Assumption(r["item"], r["gpu"], float(r["value"]), r["as_of"], r["source"]) for r in rows("assumptions.csv")
    ]
    return {(one.item, one.gpu): one for one in found}


def assumption(item: str, gpu_model: str = "") -> Assumption:
    """What is taken for granted of `item` on this GPU model, else on any."""
    table = _assumptions()
    return table.get((item, gpu_model)) or table[item, ""]
