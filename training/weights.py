"""Pretrained weights: Hugging Face directories (config.json, safetensors) and the sharded model.

No rank holds the whole model: `load` reads each rank's own part of every tensor. The way out is `training.export`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.contract import Exit, RunEndError
from training.model import check_tie, clean_name
from training.options import ModelShape
from training.topology import Place, agree

CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"
# Setting → its name in config.json and the value that transformers takes for a missing one; None: must be there.
FIELDS: dict[str, tuple[str, Any]] = {
    "vocab_size": ("vocab_size", None),
    "hidden_size": ("hidden_size", None),
    "intermediate_size": ("intermediate_size", None),
    "layers": ("num_hidden_layers", None),
    "heads": ("num_attention_heads", None),
    "kv_heads": ("num_key_value_heads", None),
    "norm_eps": ("rms_norm_eps", 1e-6),
    "tied": ("tie_word_embeddings", False),
}
FLOATS = ("F32", "BF16", "F16")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object; its file is named in what is raised (OSError, ValueError)."""
    try:
        found = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} is no JSON object")
    return found


def shape_differences(folder: Path, shape: ModelShape) -> list[str]:
    """What of a Hugging Face directory's config.json is another model than the settings', as texts; never raises.

    Empty: `load` can fill the model that `model.meta_model` builds. A model whose output layer is tied may be trained
    with one of its own, not the other way round.
    """
    try:
        found = read_json(folder / CONFIG)
    except (OSError, ValueError) as error:
        return [f"{CONFIG} cannot be read: {error}"]
    if (kind := found.get("model_type")) != "qwen2":
        return [f"model_type: model {kind}, and only qwen2 can be trained"]
    try:
        return _compare(found, shape)
    except (TypeError, ValueError, AttributeError) as error:
        return [f"{CONFIG} has a field of a wrong type: {error}"]


def _compare(found: dict[str, Any], shape: ModelShape) -> list[str]:
    differences = []
    rope = _rope(found)
    for name, setting in vars(shape).items():
        if name == "rope_theta":
            theirs = rope.get("rope_theta", found.get("rope_theta", 10_000.0))
        else:
            theirs = found.get(*FIELDS[name])
        if theirs != setting and not (name == "tied" and theirs and not setting):
            differences.append(f"{name}: model {theirs}, settings {setting}")
    return differences + [f"{text}, which is not built here" for text in _variations(found, rope)]


def _rope(found: dict[str, Any]) -> dict[str, Any]:
    """Rotary settings: `rope_parameters` of transformers 5, or the older `rope_scaling`, which was null mostly."""
    return dict(found.get("rope_parameters") or found.get("rope_scaling") or {})


def _variations(found: dict[str, Any], rope: dict[str, Any]) -> Iterator[str]:
    """Fields with which transformers computes something else than the model of `model.meta_model`."""
    layers, heads = found.get("num_hidden_layers"), found.get("num_attention_heads")
    if (kind := rope.get("rope_type", rope.get("type", "default"))) != "default":
        yield f"rope scaling ({'rope_parameters' if found.get('rope_parameters') else 'rope_scaling'}): {kind}"
    for name in sorted(set(rope) - {"rope_type", "type", "rope_theta"}):
        if kind == "default" and rope[name] not in (None, 1.0):
            yield f"rope_parameters.{name}: {rope[name]}"
    kinds = found.get("layer_types")
    if kinds and set(kinds) != {"full_attention"}:
        yield f"layer_types: {', '.join(sorted(set(map(str, kinds)) - {'full_attention'}))}"
    elif not kinds and found.get("use_sliding_window") and found.get("sliding_window", 4096):
        first = found.get("max_window_layers", 28)
        if not isinstance(layers, int) or first < layers:
            yield f"use_sliding_window: true from layer {first} on"
    width = found.get("hidden_size")
    if found.get("head_dim") and found["head_dim"] * (heads or 0) != width:
        yield f"head_dim: {found['head_dim']}"
    for name, usual in (("hidden_act", "silu"), ("attention_dropout", 0.0)):
        if found.get(name, usual) != usual:
            yield f"{name}: {found[name]}"
    for name in ("quantization_config", "dual_chunk_attention_config"):
        if found.get(name):
            yield name


@dataclass(frozen=True)
class Stored:
    """A tensor in a safetensors file, without its values."""

    path: Path
    """The file."""
    name: str
    """The tensor's name in it."""
    shape: tuple[int, ...]
    """Rows and columns."""
    kind: str
    """Number format as safetensors writes it, such as `BF16`."""


def tensors_by_name(model: Any, shape: ModelShape) -> dict[str, Any]:
    """Plain name → sharded tensor, which shares the parameter's memory; a tied output layer is left out.

    `state_dict` and not `named_parameters`: it shards units again that a forward pass has left gathered.
    """
    found = {clean_name(name): tensor for name, tensor in model.state_dict().items()}
    if shape.tied:
        found.pop(HEAD, None)
    return found


def _stored(folder: Path) -> dict[str, Stored]:
    """Everything in the safetensors files that transformers would choose, by name.

    Raises:
        OSError, ValueError: no such files, or one that is damaged or not as the index says; names it.
    """
    listed: dict[str, Any] = {}
    paths = [folder / SINGLE]
    if not paths[0].is_file():
        if not (folder / INDEX).is_file():
            raise ValueError(f"no {SINGLE} and no {INDEX} in {folder}; other formats than safetensors are not read")
        places = read_json(folder / INDEX).get("weight_map")
        if not isinstance(places, dict) or not places:
            raise ValueError(f"{folder / INDEX}: weight_map is no list of tensors with their files")
        listed = places
        paths = sorted({folder / str(file) for file in listed.values()})
    found = {}
    for path in paths:
        with _open(path) as file:
            for name in file.keys():  # noqa: SIM118 - no mapping
                part = file.get_slice(name)
                found[name] = Stored(path, name, tuple(part.get_shape()), part.get_dtype())
    for name, owner in listed.items():
        if name not in found or found[name].path != folder / str(owner):
            raise ValueError(f"{folder / str(owner)}: {name} is missing, and {INDEX} has it there")
    return found


def _open(path: Path) -> Any:
    """A safetensors file; the library compares header and length at once.

    Raises:
        ValueError: missing, truncated or no such file; names it.
    """
    from safetensors import SafetensorError, safe_open

    try:
        return safe_open(str(path), framework="pt")
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def _sources(folder: Path, tensors: dict[str, Any], shape: ModelShape) -> dict[str, Stored]:
    """Tensor of the model → where it is, after all names and shapes were compared.

    Raises:
        OSError, ValueError: what does not fit, with file and tensor.
    """
    stored = _stored(folder)
    tied = bool(read_json(folder / CONFIG).get("tie_word_embeddings", False))
    found = {name: stored[name] for name in tensors if name in stored}
    if tied and HEAD in tensors and HEAD not in found and EMBEDDING in found:
        found[HEAD] = found[EMBEDDING]
    unknown = set(stored) - set(tensors) - ({HEAD} if shape.tied and tied else set())
    problems = [f"{folder}: {name} is missing" for name in sorted(set(tensors) - set(found))]
    problems += [f"{stored[name].path}: {name} is no tensor of this model" for name in sorted(unknown)]
    for name, part in sorted(found.items()):
        needed = tuple(tensors[name].shape)
        if part.shape != needed:
            problems.append(f"{part.path}: {part.name} has shape {part.shape}, needed {needed}")
        elif part.kind not in FLOATS:
            problems.append(f"{part.path}: {part.name} is in {part.kind}, needed one of {', '.join(FLOATS)}")
    if problems:
        more = [f"and {len(problems) - 5} more"] if len(problems) > 5 else []
        raise ValueError("; ".join(problems[:5] + more))
    return found


def load(model: Any, folder: Path, *, shape: ModelShape, place: Place) -> None:
    """Fill a sharded model from the safetensors files of a Hugging Face directory; all ranks together.

    Each rank reads the rows of its own shards and casts them to the parameters' format. An output layer that the file
    ties and the settings do not is filled from the embedding.

    Args:
        folder: seen by this rank; `shape_differences` found none.

    Raises:
        RunEndError: tensors are missing, unknown or of another shape, or a file is damaged; the same on all ranks.
    """
    tensors = tensors_by_name(model, shape)
    problem = None
    try:
        sources = _sources(folder, tensors, shape)
    except Exception as error:  # every rank must hear of it, whatever it was
        problem = str(error)
    if problem := agree(problem):
        raise _unusable(problem)
    for path in sorted({part.path for part in sources.values()}):
        reading = str(path)
        try:
            with _open(path) as file:
                for name, part in sources.items():
                    if part.path == path:
                        reading = f"{path}: {part.name}"
                        _fill(tensors[name], file.get_slice(part.name))
        except Exception as error:  # every rank must hear of it, whatever it was
            problem = f"rank {place.rank} on {place.host}: {reading}: {type(error).__name__}: {error}"
            break
    if problem := agree(problem):
        raise _unusable(problem)
    check_tie(model, shape)


def _unusable(problem: str) -> RunEndError:
    # Not lasting: files that are put in order mend it, and a retry before that costs seconds.
    return RunEndError(Exit.FAILED, f"cannot load the model: {problem}", lasting=False)


def _fill(tensor: Any, stored: Any) -> None:
    """Copy this rank's part of a tensor from a slice of a safetensors file."""
    import torch
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    sizes, offsets = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    if all(sizes):  # more ranks than rows leave some without any
        part = stored[tuple(slice(start, start + size) for start, size in zip(offsets, sizes, strict=True))]
        with torch.no_grad():
            tensor.to_local().copy_(part)
