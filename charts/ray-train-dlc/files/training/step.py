"""One optimiser step over all ranks, and the learning rate it is taken with."""

from __future__ import annotations

import math
from typing import Any

from training.config import Config
from training.options import Optimizer, Schedule
from training.sizes import micro_batch, tokens_per_step


def gradients(model: Any, batch: tuple[Any, Any], config: Config) -> Any:
    """Forward and backward on this rank's share of a step's batch; leaves the gradients in the parameters.

    FSDP averages gradients over the ranks, so each rank's loss is scaled by ranks / tokens of all ranks: what comes out
    is the gradient of the mean over every token of the step, however the batch is spread.

    Args:
        batch: inputs and labels, int64 of shape (global_batch_size / ranks, sequence_length), on the CPU.

    Returns:
        mean cross entropy over this rank's tokens, in nats, before the update: fp32 scalar on the model's device.
    """
    import torch
    import torch.distributed as dist

    inputs, labels = batch
    world = dist.get_world_size()
    device = next(model.parameters()).device
    size, tokens = micro_batch(config.batch, world), tokens_per_step(config.batch)
    total = torch.zeros((), dtype=torch.float32, device=device)
    starts = range(0, inputs.shape[0], size)
    for first in starts:
        part = slice(first, first + size)
        last = first == starts[-1]
        # HSDP reduces inside the node for each micro-batch and across the nodes once, with the last one.
        model.set_requires_all_reduce(last)
        if model.gathers_once:
            model.set_reshard_after_backward(last)
        loss = model.token_loss(inputs[part].to(device), labels[part].to(device))
        (loss * (world / tokens)).backward()
        total += loss.detach()
    return total * (world / tokens)


def update(model: Any, optimizer: Any, options: Optimizer, lr: float) -> Any:
    """Clip the gradients, take the optimiser's step and clear them.

    Returns:
        norm of the gradient over all parameters before clipping: scalar tensor, equal on all ranks.
    """
    import torch

    for group in optimizer.param_groups:
        group["lr"] = lr
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), options.gradient_clip or math.inf).full_tensor()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return norm


def learning_rate(schedule: Schedule, peak: float, step: int) -> float:
    """Learning rate of `step` (counted from 1): linear warm-up, then the chosen course down to its last share."""
    warmup = math.ceil(schedule.warmup_fraction * schedule.steps)
    if step <= warmup:
        return peak * step / warmup
    done = (step - warmup) / max(1, schedule.steps - warmup)
    shape = {"cosine": 0.5 * (1 + math.cos(math.pi * done)), "linear": 1 - done, "constant": 1.0}[schedule.schedule]
    floor = 1.0 if schedule.schedule == "constant" else schedule.final_lr_fraction
    return peak * (floor + (1 - floor) * shape)
