"""One rank of a test: builds a sharded model, loads a directory into it, compares with transformers, exports it again.

Started as a process with torchrun's variables and one argument, a JSON text: {"sharding", "cases": [{"folder", "args",
"exports": [{"to", "name", "dtype", "source", "file_bytes"}]}], "result"}. Writes what it found to `result`-<rank>.
"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import safetensors
import torch
import transformers

from training import config, export, model, topology, weights
from training.contract import RunEndError
from training.storage import Storage

real_open = safetensors.safe_open
asked = 0


class CountingFile:
    """A safetensors file that counts the bytes that are asked for; all else is the library's."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.file = real_open(*args, **kwargs)

    def __enter__(self) -> CountingFile:
        self.file.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.file.__exit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def get_slice(self, name: str) -> CountingSlice:
        return CountingSlice(self.file.get_slice(name))


class CountingSlice:
    def __init__(self, part: Any) -> None:
        self.part = part

    def __getattr__(self, name: str) -> Any:
        return getattr(self.part, name)

    def __getitem__(self, index: Any) -> Any:
        global asked  # noqa: PLW0603 - one count per process
        values = self.part[index]
        asked += values.numel() * values.element_size()
        return values


def unequal(found: Any, folder: str, dtype: str) -> list[str]:
    """Names of tensors that are not those of `from_pretrained`; every name must be there."""
    expected = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)).state_dict()
    mine = {model.clean_name(name): tensor.full_tensor() for name, tensor in found.state_dict().items()}
    assert set(mine) == set(expected)
    return [name for name in mine if mine[name].dtype != expected[name].dtype or not mine[name].equal(expected[name])]


def run(case: dict[str, Any], sharding: str, place: topology.Place) -> dict[str, Any]:
    global asked  # noqa: PLW0603 - one count per process
    settings = config.build("tiny", {**case["args"], "sharding": sharding})
    mesh = topology.build_mesh(topology.gather(place), settings.parallel, cuda=False)
    per_node = place.local_world_size
    sharded = model.build(settings, mesh, mode=sharding, processes_per_node=per_node, cuda=False)
    asked = 0
    folder = Path(case["folder"].replace("RANK", str(place.rank)))
    differences = weights.shape_differences(folder, settings.model)
    try:
        weights.load(sharded, folder, shape=settings.model, place=place)
    except RunEndError as error:
        return {"error": error.message, "code": int(error.code), "lasting": error.lasting}
    result: dict[str, Any] = {"asked": asked, "differences": differences}
    result["tied"] = sharded.lm_head.weight is sharded.model.embed_tokens.weight
    dtype = "bfloat16" if settings.parallel.precision == "bfloat16" else "float32"
    result["unequal"] = unequal(sharded, str(folder), dtype)
    # As after a validation: the root unit of FSDP stays gathered, and an export must not mind.
    tokens = torch.arange(16).reshape(1, 16)
    with torch.no_grad():
        result["loss"] = float(sharded.token_loss(tokens, tokens))
    assert math.isfinite(result["loss"])
    result["exported"] = []
    for wanted in case.get("exports", []):
        source = Path(wanted["source"]) if wanted.get("source") else None
        limit = {"file_bytes": wanted["file_bytes"]} if "file_bytes" in wanted else {}
        try:
            path = export.export(
                sharded,
                Storage(wanted["to"]),
                wanted["name"],
                source=source,
                dtype=wanted["dtype"],
                shape=settings.model,
                place=place,
                **limit,
            )
        except OSError as error:
            path = f"OSError: {error}"
        result["exported"].append(path)
    return result


def main() -> None:
    task = json.loads(sys.argv[1])
    safetensors.safe_open = CountingFile
    place = topology.Place.from_env(os.environ)
    with topology.process_group(place, cuda=False, timeout_s=60):
        results = [run(case, task["sharding"], place) for case in task["cases"]]
    content = {"transformers": transformers.__version__, "results": results}
    Path(f"{task['result']}-{place.rank}").write_text(json.dumps(content))


if __name__ == "__main__":
    main()
