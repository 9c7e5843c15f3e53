"""Every setting of a training: names, types, limits, presets. Standard library only.

One source for three users: the dataclass fields below are the flags of `python -m training.train`, the keys of
`training.args` in an environment file, and the `configuration` of a run record. The text under a field is its help.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import inspect
import math
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
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
class RunOptions:
    """What is done with the model: length, batch, optimiser, sharding, checkpoints."""

    steps: int = option(60, low=1)
    """Optimiser steps of the whole run. May grow when a run goes on; the learning rate then follows the longer run."""
    sequence_length: int = option(128, low=8, high=131_072, fixed=True)
    """Tokens per sequence."""
    global_batch_size: int = option(24, low=1, fixed=True)
    """Sequences per optimiser step over all ranks; a multiple of the number of ranks."""
    micro_batch_size: int = option(8, low=1)
    """At most this many sequences per rank in one forward pass; the rest of the rank's share is accumulated."""
    learning_rate: float = option(3e-3, low=0.0, high=1.0, fixed=True)
    """Peak learning rate of AdamW."""
    warmup_fraction: float = option(0.1, low=0.0, high=1.0, fixed=True)
    """Share of `steps` in which the learning rate rises from zero to its peak."""
    schedule: str = option("cosine", choices=("cosine", "linear", "constant"), fixed=True)
    """Course of the learning rate after the warm-up."""
    final_lr_fraction: float = option(0.1, low=0.0, high=1.0, fixed=True)
    """Learning rate at the last step as a share of the peak; without effect when `schedule` is constant."""
    beta1: float = option(0.9, low=0.0, high=0.9999, fixed=True)
    """AdamW's decay of the first moment."""
    beta2: float = option(0.95, low=0.0, high=0.99999, fixed=True)
    """AdamW's decay of the second moment."""
    weight_decay: float = option(0.1, low=0.0, high=1.0, fixed=True)
    """AdamW's weight decay, applied to matrices only: norms and biases are left out."""
    gradient_clip: float = option(1.0, low=0.0, fixed=True)
    """Largest norm of the gradient over all parameters; 0 switches clipping off."""
    seed: int = option(1234, low=0, high=2**31 - 1, fixed=True)
    """Seed of the initial weights and of the data; both are the same for every number of ranks."""
    device: str = option("auto", choices=("auto", "cuda", "cpu"))
    """What the ranks compute on: `cuda` needs a GPU for each of them; `cpu` leaves GPUs alone and talks over gloo, to
    try out a cluster; `auto` is cuda where the nodes have GPUs, else cpu."""
    sharding: str = option("auto", choices=("auto", "full", "hsdp"))
    """`full` shards over all ranks; `hsdp` shards inside a node and replicates across nodes, which sends less over the
    network and needs more memory; `auto` is hsdp when there are several nodes with several ranks each, else full."""
    reduce_dtype: str = option("bfloat16", choices=("bfloat16", "float32"))
    """Number format in which gradients travel between GPUs; weights and optimiser states are always float32. On CPU
    everything is float32."""
    activation_checkpointing: str = option("none", choices=("none", "alternate", "full"))
    """Layers whose activations are computed again in the backward pass instead of kept: none, every second one, all."""
    compile: bool = option(False)
    """Compile each decoder layer with torch.compile; the first step then takes minutes longer."""
    loss_chunk: int = option(1024, low=1)
    """Rows (tokens) of logits held at once by the loss; bounds its memory to about 12 bytes × `vocab_size` × this."""
    checkpoint_every: int = option(20, low=0)
    """Steps between two checkpoints; 0 leaves only those at the end and on a stop."""
    keep_checkpoints: int = option(2, low=1)
    """How many of the newest checkpoints are kept."""
    log_every: int = option(10, low=1)
    """Steps between two progress lines."""
    start_timeout: int = option(300, low=1)
    """Seconds to wait until the Ray cluster has the nodes, CPUs and GPUs that this run needs."""


@dataclass(frozen=True)
class Config:
    """A preset with its changes applied."""

    preset: str
    model: ModelShape
    run: RunOptions

    def as_dict(self) -> dict[str, Any]:
        """All settings in one flat mapping; the names are unique over both parts."""
        return {"preset": self.preset, **dataclasses.asdict(self.model), **dataclasses.asdict(self.run)}


PRESETS: dict[str, dict[str, Any]] = {
    # Seconds on two CPU cores: for tests, for a first look, for a new cluster.
    "tiny": {},
    # Exact shape of Qwen2.5-1.5B; batch and recomputation are chosen for 8 × L4 (24 GB).
    "qwen2.5-1.5b": {
        "vocab_size": 151_936,
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "layers": 28,
        "heads": 12,
        "kv_heads": 2,
        "steps": 1000,
        "sequence_length": 2048,
        "global_batch_size": 32,
        "micro_batch_size": 4,
        "learning_rate": 3e-4,
        "activation_checkpointing": "full",
        "checkpoint_every": 200,
    },
}


@cache
def fields() -> dict[str, tuple[dataclasses.Field[Any], type]]:
    """Argument name → (field, type), in the order of the classes."""
    found: dict[str, tuple[dataclasses.Field[Any], type]] = {}
    for owner in (ModelShape, RunOptions):
        types = typing.get_type_hints(owner)
        found.update({f.name: (f, types[f.name]) for f in dataclasses.fields(owner)})
    return found


@cache
def descriptions() -> dict[str, str]:
    """Argument name → the text under its field, on one line."""
    texts: dict[str, str] = {}
    for owner in (ModelShape, RunOptions):
        body = ast.parse(inspect.getsource(owner)).body[0]
        assert isinstance(body, ast.ClassDef)  # noqa: S101 - the source of a class is a class
        for node, following in zip(body.body, body.body[1:], strict=False):
            if not isinstance(node, ast.AnnAssign) or not isinstance(following, ast.Expr):
                continue
            if isinstance(node.target, ast.Name) and isinstance(following.value, ast.Constant):
                texts[node.target.id] = " ".join(str(following.value.value).split())
    return texts


def preset_names() -> list[str]:
    """Names that `--preset` accepts."""
    return list(PRESETS)


def argument_names() -> list[str]:
    """Names that `training.args` accepts; as flags they are written with hyphens."""
    return list(fields())


def fixed_names(*, model_only: bool = False) -> list[str]:
    """Names that must not change when a run goes on from a checkpoint."""
    owner = {f.name for f in dataclasses.fields(ModelShape)} if model_only else set(fields())
    return [name for name, (field, _) in fields().items() if field.metadata["fixed"] and name in owner]


def check_args(preset: str, args: Mapping[str, object]) -> list[tuple[str, str]]:
    """Everything that is wrong with `args` on top of `preset`, as (argument name, message) pairs. Never raises.

    Values have the types that YAML gives: whole numbers, numbers, true or false, texts.
    """
    return _resolve(preset, args, from_text=False)[1]


def check_world_size(run: RunOptions, world_size: int) -> str | None:
    """Why `run` cannot be spread over `world_size` ranks, or None."""
    if world_size >= 1 and run.global_batch_size % world_size == 0:
        return None
    below = run.global_batch_size // max(world_size, 1) * max(world_size, 1)
    near = " or ".join(str(n) for n in (below, below + world_size) if n > 0)
    return f"global_batch_size {run.global_batch_size} is not a multiple of the {world_size} ranks; take {near}"


def build(preset: str, args: Mapping[str, object] | None = None, *, from_text: bool = False) -> Config:
    """The configuration of `preset` with `args` on top.

    Args:
        from_text: the values are flag texts (`"2048"`, `"true"`) instead of YAML values.

    Raises:
        ValueError: one line per problem, as `check_args` gives them.
    """
    config, problems = _resolve(preset, args or {}, from_text=from_text)
    if config is None or problems:
        raise ValueError("\n".join(f"{name}: {message}" for name, message in problems))
    return config


def _resolve(
    preset: str, args: Mapping[str, object], *, from_text: bool
) -> tuple[Config | None, list[tuple[str, str]]]:
    if preset not in PRESETS:
        return None, [("preset", f"{preset!r} is not a preset; there are: {', '.join(PRESETS)}")]
    values: dict[str, Any] = dict(PRESETS[preset])
    problems: list[tuple[str, str]] = []
    for name, given in args.items():
        value, message = _convert(name, given, from_text=from_text)
        if message:
            problems.append((str(name), message))
        else:
            values[name] = value
    names = {owner: {f.name for f in dataclasses.fields(owner)} for owner in (ModelShape, RunOptions)}
    model = ModelShape(**{k: v for k, v in values.items() if k in names[ModelShape]})
    run = RunOptions(**{k: v for k, v in values.items() if k in names[RunOptions]})
    blamed = {name for name, _ in problems}
    problems += [(n, m) for n, m in _cross(model, run, tuple(args)) if n not in blamed]
    return Config(preset, model, run), problems


def _convert(name: object, value: object, *, from_text: bool) -> tuple[Any, str | None]:
    """`value` in the type of the field, or a message."""
    if name not in fields():
        near = difflib.get_close_matches(str(name).replace("-", "_").lower(), argument_names(), n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]}?" if near else f"; there are: {', '.join(argument_names())}"
        return None, f"no such argument{hint}"
    field, kind = fields()[str(name)]
    limits = field.metadata
    shown = repr(value) if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else _shown(value)
    converted: Any = None
    if kind is bool:
        word = str(value).lower() if from_text or isinstance(value, bool) else ""
        converted = {"true": True, "false": False}.get(word)
        return converted, None if converted is not None else f"must be true or false, not {shown}"
    if kind is str:
        good = isinstance(value, str) and value in limits["choices"]
        near = difflib.get_close_matches(str(value), limits["choices"], n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return value, None if good else f"must be one of {', '.join(limits['choices'])}, not {shown}{hint}"
    try:
        # YAML 1.1 readers take 3e-4 for a text: a number in a text is welcome where a fraction is.
        text_ok = from_text or kind is float
        if not isinstance(value, bool) and (isinstance(value, (int, kind)) or (text_ok and isinstance(value, str))):
            converted = kind(value)
    except (ValueError, OverflowError):
        converted = None
    if converted is None or (kind is float and not math.isfinite(converted)):
        return None, f"must be a {'whole number' if kind is int else 'number'}, not {shown}"
    low, high = limits["low"], limits["high"]
    if low is not None and converted < low:
        return None, f"must be {low} or more, not {_shown(value)}"
    if converted > high:
        return None, f"must be {high} or less, not {_shown(value)}"
    return converted, None


def _shown(value: object) -> str:
    return "a number beyond 64 bits" if isinstance(value, int) and value.bit_length() > 64 else str(value)  # never long


def _cross(model: ModelShape, run: RunOptions, given: tuple[str, ...]) -> list[tuple[str, str]]:
    """Problems between fields; each is laid to the field that was given, so that its place in a file can be shown."""

    def blame(*names: str) -> str:
        return next((name for name in names if name in given), names[0])

    problems: list[tuple[str, str]] = []
    if model.hidden_size % model.heads:
        message = f"hidden_size {model.hidden_size} is not a multiple of heads {model.heads}"
        problems.append((blame("hidden_size", "heads"), message))
    elif (model.hidden_size // model.heads) % 2:
        message = f"hidden_size / heads is {model.hidden_size // model.heads}; rotary positions need an even number"
        problems.append((blame("hidden_size", "heads"), message))
    if model.heads % model.kv_heads:
        message = f"heads {model.heads} is not a multiple of kv_heads {model.kv_heads}"
        problems.append((blame("kv_heads", "heads"), message))
    return problems
