"""Body of each rank in test_gradients.py: gradients under every sharding mode, compared with an unsharded model's.

RANK=… WORLD_SIZE=4 MASTER_ADDR=… MASTER_PORT=… python -m tests.training.gradients_of_ranks OUTPUT.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812

from training import config, model, step
from training.data import SyntheticTokens
from training.topology import Place, build_mesh

PER_NODE = 2
CASES: dict[str, dict[str, object]] = {
    f"{mode} in {passes} passes": {"sharding": mode, "micro_batch_size": 6 // passes}
    for mode in ("full", "zero2", "hpz", "hsdp")
    for passes in (1, 3)
} | {
    "units by size": {"sharding": "full", "tied": False, "unit_parameters": 10_000, "micro_batch_size": 2},
    "units by size, loss in chunks": {
        "sharding": "full",
        "tied": False,
        "unit_parameters": 10_000,
        "loss_chunk": 100,
    },
    "recomputed layers, loss in chunks": {
        "sharding": "hsdp",
        "activation_checkpointing": "alternate",
        "loss_chunk": 100,
        "micro_batch_size": 3,
    },
}


def reference(sharded: Any, settings: config.Config, inputs: Any, labels: Any) -> dict[str, Any]:
    """Gradients of the mean loss over the whole batch, by plain transformers and autograd in one process."""
    plain = model.meta_model(settings.model, settings.batch.sequence_length).to_empty(device="cpu")
    if settings.model.tied:
        plain.tie_weights()
    model.rebuild_rotary(plain)
    named = {model.clean_name(n): p for n, p in sharded.named_parameters()}
    with torch.no_grad():
        for name, parameter in plain.named_parameters():
            parameter.copy_(named[name].full_tensor())
    logits = plain(input_ids=inputs, use_cache=False).logits
    F.cross_entropy(logits.flatten(0, 1), labels.flatten()).backward()
    return {name: parameter.grad for name, parameter in plain.named_parameters()}


def compare(changes: dict[str, object], place: Place) -> dict[str, float]:
    """Largest error of any gradient, the largest gradient, and the losses of both."""
    settings = config.build("tiny", changes)
    places = [Place(r, 4, r % PER_NODE, PER_NODE, r // PER_NODE) for r in range(4)]
    mesh = build_mesh(places, settings.parallel, cuda=False)
    mode = str(changes["sharding"])
    sharded = model.build(settings, mesh, mode=mode, processes_per_node=PER_NODE, cuda=False)
    model.initialise(sharded, settings.batch.seed)
    tokens = SyntheticTokens.create(
        vocab_size=settings.model.vocab_size, sequence_length=settings.batch.sequence_length, seed=1
    )
    size = settings.batch.global_batch_size
    expected = reference(sharded, settings, *tokens.batch(1, global_batch_size=size, rank=0, world_size=1))
    share = tokens.batch(1, global_batch_size=size, rank=place.rank, world_size=place.world_size)
    for _ in range(2):  # a second step starts from clean gradients and from what the first one left gathered
        sharded.zero_grad(set_to_none=True)
        step.gradients(sharded, share, settings)
    errors, largest = [], []
    for name, parameter in sharded.named_parameters():
        wanted = expected[model.clean_name(name)]
        errors.append(float((parameter.grad.full_tensor() - wanted).abs().max()))
        largest.append(float(wanted.abs().max()))
    return {"error": max(errors), "largest": min(largest), "compared": float(len(errors))}


def main() -> None:
    """Compare all cases; rank 0 writes them down."""
    import os

    place = Place.from_env(os.environ)
    dist.init_process_group("gloo")
    found = {name: compare(changes, place) for name, changes in CASES.items()}
    if place.rank == 0:
        Path(sys.argv[1]).write_text(json.dumps(found), encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
