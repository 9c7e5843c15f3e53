"""Every setting of a training: one frozen dataclass per concern. Standard library only.

One source for three users: the fields below are the flags of `python -m training.train`, the keys of `training.args` in
an environment file, and the `configuration` of a run record. The text under a field is its help. Names are unique over
all classes.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

MOST = 1_000_000_000  # bound of a number without one of its own: JSON and Helm carry it exactly


def option(
    default: Any, *, low: float | None = None, high: float = MOST, choices: tuple[str, ...] = (), fixed: bool = False
) -> Any:
    """A dataclass field with limits.

    Args:
        low, high: inclusive bounds of a number.
        choices: the allowed texts.
        fixed: a run that goes on from its own checkpoint must keep this value, or its losses would mean something else.
    """
    return dataclasses.field(default=default, metadata={"low": low, "high": high, "choices": choices, "fixed": fixed})


@dataclass(frozen=True)
class ModelShape:
    """Shape of a Qwen2.5 decoder. All of it must stay the same while a run goes on."""

    vocab_size: int = option(512, low=128, fixed=True)
    """Number of token ids, which is the number of rows of the embedding."""
    hidden_size: int = option(64, low=8, fixed=True)
    """Width of the residual stream, in elements; a multiple of `heads`."""
    intermediate_size: int = option(192, low=8, fixed=True)
    """Width of the gated feed-forward layer, in elements."""
    layers: int = option(2, low=1, fixed=True)
    """Number of decoder layers; each one is a sharding unit of FSDP2."""
    heads: int = option(4, low=1, fixed=True)
    """Number of query heads per layer."""
    kv_heads: int = option(2, low=1, fixed=True)
    """Number of key and value heads per layer (grouped-query attention); divides `heads`."""
    rope_theta: float = option(1_000_000.0, low=1.0, high=1e15, fixed=True)
    """Base of the rotary position frequencies."""
    norm_eps: float = option(1e-6, low=0.0, high=1.0, fixed=True)
    """Constant added to the variance in every RMSNorm."""
    tied: bool = option(True, fixed=True)
    """The output layer uses the embedding's weights."""


@dataclass(frozen=True)
class Batch:
    """How many tokens a step sees, and how they are spread."""

    sequence_length: int = option(128, low=8, high=131_072, fixed=True)
    """Tokens per sequence."""
    global_batch_size: int = option(24, low=1, fixed=True)
    """Sequences per optimiser step over all ranks; a multiple of the number of ranks."""
    micro_batch_size: int = option(8, low=1)
    """At most this many sequences per rank in one forward pass; the rest of the rank's share is accumulated."""
    seed: int = option(1234, low=0, high=2**31 - 1, fixed=True)
    """Seed of the order of the data, and of the initial weights where no model is given; the same for every number of
    ranks."""


@dataclass(frozen=True)
class Schedule:
    """Length of the run and course of its learning rate."""

    steps: int = option(60, low=0)
    """Optimiser steps of the whole run. May grow when a run goes on; the learning rate then follows the longer run.
    0 with `export` writes the model out as it came in."""
    warmup_fraction: float = option(0.1, low=0.0, high=1.0, fixed=True)
    """Share of `steps` in which the learning rate rises from zero to its peak."""
    schedule: str = option("cosine", choices=("cosine", "linear", "constant"), fixed=True)
    """Course of the learning rate after the warm-up."""
    final_lr_fraction: float = option(0.1, low=0.0, high=1.0, fixed=True)
    """Learning rate at the last step as a share of the peak; without effect when `schedule` is constant."""


@dataclass(frozen=True)
class Optimizer:
    """AdamW."""

    learning_rate: float = option(3e-3, low=0.0, high=1.0, fixed=True)
    """Peak learning rate."""
    beta1: float = option(0.9, low=0.0, high=0.9999, fixed=True)
    """Decay of the first moment."""
    beta2: float = option(0.95, low=0.0, high=0.99999, fixed=True)
    """Decay of the second moment."""
    weight_decay: float = option(0.1, low=0.0, high=1.0, fixed=True)
    """Weight decay, applied to matrices only: norms and biases are left out."""
    gradient_clip: float = option(1.0, low=0.0, fixed=True)
    """Largest norm of the gradient over all parameters; 0 switches clipping off."""


@dataclass(frozen=True)
class Parallel:
    """Where the ranks compute, in which number formats, and how the model is spread over them."""

    device: str = option("auto", choices=("auto", "cuda", "cpu"))
    """What the ranks compute on: `cuda` needs a GPU for each of them; `cpu` leaves GPUs alone and talks over gloo, to
    try out a cluster; `auto` is cuda where the nodes have GPUs, else cpu."""
    sharding: str = option("auto", choices=("auto", "full", "zero2", "hpz", "hsdp"))
    """What every rank keeps a part of, and what travels: `full` shards everything over all ranks; `zero2` keeps the
    gathered weights of a step from the forward to the backward pass; `hpz` keeps a second copy of them sharded inside
    each node; `hsdp` shards inside a node and replicates across nodes, which sends the least between nodes; `auto` is
    hsdp when there are several nodes with several ranks each, else full."""
    unit_parameters: int = option(0, low=0)
    """Sharding units of FSDP: 0 is one for each decoder layer; above 0, every module whose own parameters number at
    least this is one, as FSDP1's size-based policy cuts them. Needs an output layer that is not tied."""
    precision: str = option("mixed", choices=("mixed", "bfloat16"), fixed=True)
    """`mixed`: float32 weights and optimiser states, bfloat16 computation (float32 on CPU). `bfloat16`: all of it in
    bfloat16, which needs half the memory and loses updates that are small beside the weight."""
    reduce_dtype: str = option("bfloat16", choices=("bfloat16", "float32"))
    """Number format in which gradients travel between GPUs. On CPU it is that of the weights."""
    activation_checkpointing: str = option("none", choices=("none", "alternate", "full"))
    """Layers whose activations are computed again in the backward pass instead of kept: none, every second one, all."""
    compile: bool = option(False)
    """Compile each decoder layer with torch.compile; the first step then takes minutes longer."""
    loss_chunk: int = option(1024, low=1)
    """Rows (tokens) of logits held at once by the loss; bounds its memory to about 12 bytes × `vocab_size` × this."""


@dataclass(frozen=True)
class Checkpoints:
    """What is kept of the run."""

    checkpoint_every: int = option(20, low=0)
    """Steps between two checkpoints; 0 leaves only those at the end and on a stop."""
    keep_checkpoints: int = option(2, low=1)
    """How many of the newest checkpoints are kept."""
    export: str = option("none", choices=("none", "bfloat16", "float32"))
    """Number format in which the finished model is written to `export/` in the run path, as a Hugging Face directory;
    `none` writes none."""


@dataclass(frozen=True)
class Reports:
    """What is said while the run goes on."""

    log_every: int = option(10, low=1)
    """Steps between two progress lines."""
    validate_every: int = option(0, low=0)
    """Steps between two measurements of the loss on held-out data, where there is any; 0 leaves only the one at the
    end."""
    validation_sequences: int = option(64, low=0)
    """Held-out sequences of one such measurement; 0 makes none."""


@dataclass(frozen=True)
class Limits:
    """How long is waited, in seconds, before the run ends with a message."""

    start_timeout: int = option(300, low=1)
    """Seconds to wait until the Ray cluster has the nodes, CPUs and GPUs that this run needs."""
    resume_timeout: int = option(600, low=0)
    """Seconds to wait for the end of the run that this one starts from, when it is still training."""
    collective_timeout: int = option(600, low=10)
    """Seconds after which ranks give up on one that does not take part any more: the bound of a stuck rank."""


PARTS: dict[str, type] = {
    "model": ModelShape,
    "batch": Batch,
    "schedule": Schedule,
    "optimizer": Optimizer,
    "parallel": Parallel,
    "checkpoints": Checkpoints,
    "reports": Reports,
    "limits": Limits,
}
"""Concern → its class, in the order in which `--help` shows them."""
