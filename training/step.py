"""One optimiser step over all ranks, and the learning rate it is taken with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from training.config import RunOptions
from training.sizes import micro_batch, tokens_per_step


@dataclass(frozen=True)
class StepResult:
    """What a step gives; equal on all ranks."""

    loss: float
    """Mean cross entropy over the tokens of all ranks, in nats, before the update."""
    gradient_norm: float
    """Norm of the gradient over all parameters before clipping."""
    flags: tuple[bool, bool]
    """Each flag that any rank raised."""


def optimiser_step(
    model: Any, optimizer: Any, batch: tuple[Any, Any], run: RunOptions, *, lr: float, flags: tuple[bool, bool]
) -> StepResult:
    """Forward, backward and update on this rank's share of the batch.

    FSDP averages gradients over the ranks, so each rank's loss is scaled by ranks / tokens of all ranks: what comes out
    is the gradient of the mean over every token of the step, however the batch is spread. The ranks' flags travel with
    the loss, so that asking all ranks costs no message of its own.

    Args:
        batch: inputs and labels, int64 of shape (global_batch_size / ranks, sequence_length), on the CPU.
    """
    import torch
    import torch.distributed as dist

    inputs, labels = batch
    world = dist.get_world_size()
    device = next(model.parameters()).device
    size, tokens = micro_batch(run, world), tokens_per_step(run)
    for group in optimizer.param_groups:
        group["lr"] = lr
    total = torch.zeros((), dtype=torch.float32, device=device)
    starts = range(0, inputs.shape[0], size)
    for first in starts:
        part = slice(first, first + size)
        # HSDP reduces inside the node for each micro-batch and across the nodes once, with the last one.
        model.set_requires_all_reduce(first == starts[-1])
        loss = model.token_loss(inputs[part].to(device), labels[part].to(device))
        (loss * (world / tokens)).backward()
        total += loss.detach()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), run.gradient_clip or math.inf).full_tensor()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    told = torch.tensor([0.0, *map(float, flags)], dtype=torch.float64, device=device)
    told[0] = total
    dist.all_reduce(told)
    summed, first_flag, second_flag = told.tolist()
    return StepResult(summed / tokens, float(norm), (first_flag > 0, second_flag > 0))


def learning_rate(run: RunOptions, step: int) -> float:
    """Learning rate of `step` (counted from 1): linear warm-up, then the chosen course down to its last share."""
    warmup = math.ceil(run.warmup_fraction * run.steps)
    if step <= warmup:
        return run.learning_rate * step / warmup
    done = (step - warmup) / max(1, run.steps - warmup)
    shape = {"cosine": 0.5 * (1 + math.cos(math.pi * done)), "linear": 1 - done, "constant": 1.0}[run.schedule]
    floor = 1.0 if run.schedule == "constant" else run.final_lr_fraction
    return run.learning_rate * (floor + (1 - floor) * shape)
