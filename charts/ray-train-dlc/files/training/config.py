"""The settings of one training: presets, flags and `training.args` resolved and checked. Standard library only."""

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

from training.options import PARTS, Batch, Checkpoints, Limits, ModelShape, Optimizer, Parallel, Reports, Schedule


@dataclass(frozen=True)
class Config:
    """A preset with its changes applied."""

    preset: str
    model: ModelShape
    batch: Batch
    schedule: Schedule
    optimizer: Optimizer
    parallel: Parallel
    checkpoints: Checkpoints
    reports: Reports
    limits: Limits

    def as_dict(self) -> dict[str, Any]:
        """All settings in one flat mapping; the names are unique over all parts."""
        flat: dict[str, Any] = {"preset": self.preset}
        for part in PARTS:
            flat |= dataclasses.asdict(getattr(self, part))
        return flat


QWEN_1_5B = {
    "vocab_size": 151_936,
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "layers": 28,
    "heads": 12,
    "kv_heads": 2,
}
PRESETS: dict[str, dict[str, Any]] = {
    # Seconds on two CPU cores: for tests, for a first look, for a new cluster.
    "tiny": {},
    # Exact shape of Qwen2.5-1.5B; batch and recomputation are chosen for 8 × L4 (24 GB).
    "qwen2.5-1.5b": {
        **QWEN_1_5B,
        "steps": 1000,
        "sequence_length": 2048,
        "global_batch_size": 32,
        "micro_batch_size": 4,
        "learning_rate": 3e-4,
        "activation_checkpointing": "full",
        "checkpoint_every": 200,
    },
    # What `training/ray-train` of aws-samples/sample-aws-deep-learning-containers trains, to compare: 128 tokens a rank
    # on 2 × 4 ranks, all in bfloat16, FSDP1 with `size_based_auto_wrap_policy(1e7)`, which separates the output layer
    # from the embedding (1,777,088,000 parameters). Its batch measures the network, not the GPUs.
    "aws-sample": {
        **QWEN_1_5B,
        "tied": False,
        "steps": 100,
        "sequence_length": 128,
        "global_batch_size": 8,
        "micro_batch_size": 1,
        "learning_rate": 2e-5,
        "schedule": "constant",
        "warmup_fraction": 0.0,
        "beta2": 0.999,
        "weight_decay": 0.01,
        "gradient_clip": 0.0,
        "precision": "bfloat16",
        "sharding": "full",
        "unit_parameters": 10_000_000,
        "checkpoint_every": 0,
    },
}


@cache
def fields() -> dict[str, tuple[dataclasses.Field[Any], type]]:
    """Argument name → (field, type), in the order of the classes."""
    found: dict[str, tuple[dataclasses.Field[Any], type]] = {}
    for owner in PARTS.values():
        types = typing.get_type_hints(owner)
        found.update({f.name: (f, types[f.name]) for f in dataclasses.fields(owner)})
    return found


@cache
def descriptions() -> dict[str, str]:
    """Argument name → the text under its field, on one line."""
    texts: dict[str, str] = {}
    for owner in PARTS.values():
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


def check_world_size(batch: Batch, world_size: int) -> str | None:
    """Why a step's sequences cannot be spread over `world_size` ranks, or None."""
    if world_size >= 1 and batch.global_batch_size % world_size == 0:
        return None
    below = batch.global_batch_size // max(world_size, 1) * max(world_size, 1)
    near = " or ".join(str(n) for n in (below, below + world_size) if n > 0)
    return f"global_batch_size {batch.global_batch_size} is not a multiple of the {world_size} ranks; take {near}"


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
    parts = {
        part: owner(**{f.name: values[f.name] for f in dataclasses.fields(owner) if f.name in values})
        for part, owner in PARTS.items()
    }
    config = Config(preset, **parts)
    blamed = {name for name, _ in problems}
    problems += [(n, m) for n, m in _cross(config, tuple(args)) if n not in blamed]
    return config, problems


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


def _cross(config: Config, given: tuple[str, ...]) -> list[tuple[str, str]]:
    """Problems between fields; each is laid to the field that was given, so that its place in a file can be shown."""
    model, parallel = config.model, config.parallel

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
    if parallel.unit_parameters and model.tied:
        message = "unit_parameters puts embedding and output layer into two units, and tied weights cannot be split"
        problems.append((blame("unit_parameters", "tied"), f"{message}; set tied to false, or unit_parameters to 0"))
    if parallel.unit_parameters and parallel.activation_checkpointing != "none":
        message = "unit_parameters cuts inside the layers, where activation_checkpointing would gather them twice"
        problems.append((blame("unit_parameters", "activation_checkpointing"), f"{message}; set one of them to none"))
    if parallel.unit_parameters and parallel.compile:
        message = "unit_parameters cuts inside the layers, which compile takes as wholes; set one of them only"
        problems.append((blame("unit_parameters", "compile"), message))
    if config.schedule.steps == 0 and config.checkpoints.export == "none":
        problems.append((blame("steps", "export"), "0 steps train nothing, and export is none; set one of them"))
    return problems
