"""The trained model as a Hugging Face directory (config.json, safetensors, tokenizer).

No rank holds the whole model: one tensor at a time is gathered, and rank 0 appends it to a file.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import struct
import tempfile
import uuid
from collections.abc import Callable
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, BinaryIO

from training.options import ModelShape
from training.storage import Storage
from training.topology import Place, broadcast
from training.weights import CONFIG, INDEX, SINGLE, read_json, tensors_by_name

# Beside the weights, what makes a folder usable: taken over from the model that the training began with.
COPIED = (
    *("generation_config.json", "tokenizer*", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "merges.txt", "chat_template*", "LICENSE*"),
)
OURS = re.compile(r"config\.json|model(-\d{5}-of-\d{5})?\.safetensors|model\.safetensors\.index\.json")
DTYPES = {"bfloat16": ("BF16", 2), "float32": ("F32", 4)}


def export(
    model: Any,
    storage: Storage,
    name: str,
    *,
    source: Path | None,
    dtype: str,
    shape: ModelShape,
    place: Place,
    file_bytes: int = 5 * 10**9,
) -> str:
    """Write the model as a Hugging Face directory, in place of an older one; all ranks together.

    On a shared folder it appears whole, by renaming. For an address each file is written to a local folder and
    uploaded before the next one, and config.json comes last: without it nothing takes the folder for a model.

    Args:
        source: Hugging Face directory that the training began with, for its configuration and tokenizer.
        dtype: `bfloat16` or `float32`.
        file_bytes: most bytes of tensors in one file; a larger tensor has a file of its own.

    Returns:
        path or address of the directory.

    Raises:
        OSError: rank 0 could not write; raised on all ranks.
    """
    import torch

    tensors = tensors_by_name(model, shape)
    width = DTYPES[dtype][1]
    files = _split({key: tensor.numel() * width for key, tensor in tensors.items()}, file_bytes)
    writer = _Writer(storage, name)
    problem = None

    def attempt(action: Callable[..., None], *args: Any) -> None:
        nonlocal problem
        if place.rank == 0 and not problem:
            try:
                action(*args)
            except Exception as error:  # the other ranks wait in the next gather: this one must go on
                problem = f"rank 0 on {place.host} cannot export to {storage.path(name)}: {error}"

    attempt(writer.start)
    for file, keys in files.items():
        attempt(writer.begin, file, {key: tuple(tensors[key].shape) for key in keys}, dtype)
        for key in keys:
            # Cast first: half the bytes travel, and each rank holds half as much for a moment.
            attempt(writer.add, tensors[key].to(getattr(torch, dtype)).full_tensor())
        attempt(writer.end, file)
    if len(files) > 1:
        count = sum(tensor.numel() for tensor in tensors.values())
        places = {key: file for file, keys in files.items() for key in keys}
        metadata = {"total_parameters": count, "total_size": count * width}
        attempt(writer.write, INDEX, {"metadata": metadata, "weight_map": places})
    attempt(writer.copy, source)
    attempt(lambda: writer.write(CONFIG, _settings(model, source, shape, dtype)))
    attempt(writer.finish)
    writer.clean()
    if problem := broadcast(problem):
        raise OSError(problem)
    return storage.path(name)


def obstacle(storage: Storage, name: str, *, made: bool, model: str) -> str | None:
    """Why an export may not take the place of what lies there; None when nothing would be lost.

    Args:
        made: the run record tells of an export there.
        model: what the run begins with: folder, address or name on the hub.

    Raises:
        OSError: the storage cannot be read.
    """
    where = storage.path(name)
    here = where if storage.remote else str(Path(where).resolve())
    start = model if "://" in model or not model else str(Path(model).expanduser().resolve())
    if start.removeprefix("file://").rstrip("/") == here.removeprefix("file://"):
        return f"{where} is the model that the run begins with"
    if not storage.remote and Path(here).exists() and not Path(here).is_dir():
        return f"{where} is no folder"
    names = storage.names(name)
    foreign = [n for n in names if not OURS.fullmatch(n) and not any(fnmatch(n, pattern) for pattern in COPIED)]
    if foreign:
        return f"{where} holds {foreign[0]}, which no export has written"
    if CONFIG in names and not made:
        return f"{where} holds a model that this run has not exported"
    return None


def _split(sizes: dict[str, int], most: int) -> dict[str, list[str]]:
    """File name → tensors in it, in the model's order."""
    groups: list[list[str]] = [[]]
    used = 0
    for name, size in sizes.items():
        if groups[-1] and used + size > most:
            groups.append([])
            used = 0
        groups[-1].append(name)
        used += size
    if len(groups) == 1:
        return {SINGLE: groups[0]}
    return {f"model-{i:05d}-of-{len(groups):05d}.safetensors": names for i, names in enumerate(groups, 1)}


def _settings(model: Any, source: Path | None, shape: ModelShape, dtype: str) -> dict[str, Any]:
    """The exported config.json: the source's, or else one for the trained shape that transformers 4 reads too."""
    if source:
        settings = read_json(source / CONFIG)
    else:
        settings = {**model.config.to_dict(), "rope_theta": shape.rope_theta, "use_cache": True}
    settings |= {"architectures": ["Qwen2ForCausalLM"], "tie_word_embeddings": shape.tied}
    # Two spellings of one thing: transformers 5 writes the first and reads both.
    return settings | {"dtype": dtype, "torch_dtype": dtype}


class _Writer:
    """Rank 0's side of `export`: one file at a time, in a folder that is nothing yet."""

    def __init__(self, storage: Storage, name: str) -> None:
        self.storage, self.name = storage, name
        self.target = Path(storage.path(name)).resolve()  # a link to a larger disk stays one
        self.folder: Path | None = None
        self.stream: BinaryIO | None = None

    def start(self) -> None:
        """Make the temporary folder, and remove what an export that was cut off left."""
        if self.storage.remote:
            self.storage.delete(f"{self.name}/{CONFIG}")  # first: what follows must not look like a model
            self.storage.delete(self.name)
            self.folder = Path(tempfile.mkdtemp(prefix="ray-train-"))
            return
        self._remove_left()
        self.folder = self._beside()
        self.folder.mkdir(parents=True)

    def _remove_left(self) -> None:
        for left in self.target.parent.glob(f".{self.target.name}.part-*"):
            shutil.rmtree(left, ignore_errors=True)

    def _beside(self) -> Path:
        return self.target.with_name(f".{self.target.name}.part-{uuid.uuid4().hex[:8]}")

    def _path(self, file: str) -> Path:
        assert self.folder is not None  # noqa: S101 - `start` comes first
        return self.folder / file

    def begin(self, file: str, shapes: dict[str, tuple[int, ...]], dtype: str) -> None:
        """Open a safetensors file with a header for tensors that follow in this order.

        The format (huggingface/safetensors, "Format"): the header's length in 8 bytes, the header as JSON, the values.
        The library writes a file from tensors that are all in memory; this way one is.
        """
        kind, width = DTYPES[dtype]
        header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        at = 0
        for name, shape in shapes.items():
            end = at + width * math.prod(shape)
            header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, end]}
            at = end
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        self.stream = self._path(file).open("wb")
        self.stream.write(struct.pack("<Q", len(text)) + text)

    def add(self, whole: Any) -> None:
        """Append a tensor's values."""
        import torch

        assert self.stream is not None  # noqa: S101 - `begin` comes first
        self.stream.write(whole.cpu().contiguous().view(-1).view(torch.uint8).numpy().data)

    def end(self, file: str) -> None:
        """Complete a file: on its disk, or in the store and no longer here."""
        if self.stream:
            self.stream.flush()
            os.fsync(self.stream.fileno())
            self.stream.close()
        self.stream = None
        if self.storage.remote:
            self.storage.upload(self._path(file), f"{self.name}/{file}")
            self._path(file).unlink()

    def write(self, file: str, content: dict[str, Any]) -> None:
        """A JSON file."""
        self.stream = self._path(file).open("wb")
        self.stream.write(json.dumps(content, indent=2).encode() + b"\n")
        self.end(file)

    def copy(self, source: Path | None) -> None:
        """What belongs to the model that the training began with, and not to its weights."""
        for path in sorted({p for pattern in COPIED for p in source.glob(pattern)} if source else ()):
            if path.is_file():
                shutil.copyfile(path, self._path(path.name))
                self.end(path.name)

    def finish(self) -> None:
        """Give the folder its name."""
        if self.storage.remote:
            return
        old = self._beside()
        if self.target.exists():
            self.target.rename(old)
        try:
            self._path("").rename(self.target)
        except OSError:
            if old.exists():
                old.rename(self.target)
            raise

    def clean(self) -> None:
        """Remove what is left of temporary folders."""
        if self.stream:
            with suppress(OSError):  # what it still holds does not fit, and closing writes it
                self.stream.close()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
            if not self.storage.remote:
                self._remove_left()
