"""Tokenise and pack text for a fine-tuning, with Ray Data.

    python -m training.pack --input corpus.jsonl --tokenizer ./Qwen2.5-1.5B --output packed/corpus
    python -m training.pack --input 'chats/*.gz' --chat-field messages --tokenizer ./Qwen2.5-1.5B --output packed/it
    python -m training.pack --input s3://bucket/web/ --format parquet --text-field content \\
        --tokenizer /mnt/ray-train/Qwen2.5-1.5B --output /mnt/ray-train/packed/web
    python -m training.pack --input book.txt --document blank-line --tokenizer ./Qwen2.5-1.5B --output packed/book

Inputs are files, folders (with all below them but names that begin with . or _), patterns and s3:// addresses: JSON
lines, Parquet or plain text; JSON lines and text also as .gz, .bz2 or .zst. Each document is tokenised whole and ended
with the tokenizer's EOS token. Some are held out as the split `validation`: which, a hash of their text says, so equal
texts are on the same side.

The text streams through tasks of Ray Data to this process, which writes it in the order of the sorted files: the same
input gives the same bytes on every machine, and may be larger than the memory. It runs on the cluster of RAY_ADDRESS,
else on this machine; on a cluster every node must see the inputs, and this process alone tokenizer and output. The
output folder appears when it is complete; at an s3:// address index.json appears last.

Exit codes: 0 done, 1 wrong input, 2 wrong flags.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import logging
import math
import os
import re
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from training.corpus import DOCUMENTS, FORMATS, Part, Source, find, tasks, texts
from training.packed import DTYPES, INDEX, VERSION, DataError, dtype_for
from training.storage import Storage

SPLITS = ("train", "validation")
OURS = re.compile(r"index\.json|(train|validation)-\d{5,}\.bin")
TOKENIZER_FILES = (
    *("added_tokens.json", "chat_template.jinja", "merges.txt", "special_tokens_map.json"),
    *("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json"),
)
CHUNK = 2**20  # characters that are tokenised together
BLOCK = 2**23  # bytes of Ray Data's blocks: those in flight must be few even in a small object store


class Job(NamedTuple):
    """What every task needs."""

    source: Source
    tokenizer: Any
    kind: str
    """One of `DTYPES`."""
    validation_fraction: float


def parser() -> argparse.ArgumentParser:
    """The command line."""
    raw = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser("python -m training.pack", None, __doc__, formatter_class=raw, allow_abbrev=False)
    flag = made.add_argument
    flag("--input", nargs="+", required=True, metavar="PATH", help="files, folders, patterns, s3:// addresses")
    flag("--format", default="auto", choices=("auto", *FORMATS), help="auto: by the names of the files")
    flag("--tokenizer", required=True, metavar="DIR", help="folder with tokenizer.json, or a name on the hub")
    flag("--output", required=True, metavar="DIR", help="folder or s3:// address to make")
    flag("--text-field", default="text", metavar="NAME", help="field of JSON lines or Parquet with the text [text]")
    chat = "instead: field with a list of {role, content}, of which the tokenizer's chat template makes the text"
    flag("--chat-field", default="", metavar="NAME", help=chat)
    flag("--document", default="file", choices=DOCUMENTS, help="what is a document in plain text [file]")
    flag("--validation-fraction", type=float, default=0.01, metavar="F", help="documents held out, 0 to 0.5 [0.01]")
    flag("--shard-tokens", type=int, default=2**27, metavar="N", help="with this many tokens a file is full [2^27]")
    flag("--task-bytes", type=int, default=2**24, metavar="N", help="input that one task reads [2^24]")
    flag("--force", action="store_true", help="replace packed tokens that --output holds")
    return made


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    made = parser()
    given = vars(made.parse_args(argv))
    if not 0 <= given["validation_fraction"] <= 0.5:
        made.error(f"--validation-fraction={given['validation_fraction']} must be 0 to 0.5")
    if min(given["shard_tokens"], given["task_bytes"]) < 1:
        made.error("--shard-tokens and --task-bytes must be 1 or more")
    reading = {name: given.pop(name) for name in ("format", "text_field", "chat_field", "document")}
    source = Source(tuple(given.pop("input")), **reading)
    signal.signal(signal.SIGTERM, _stop)
    try:
        print("\n".join(pack(source, **given)), flush=True)
    except (DataError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        print(f"{error.name} is not installed; packing needs: pip install '.[train]'", file=sys.stderr)
        return 1
    except _StoppedError:
        # Ray Data's threads still work; a Ray that is shut down under them ends the process with 1. Ray's own processes
        # end with this one.
        os._exit(143)
    finally:
        if ray := sys.modules.get("ray"):
            ray.shutdown()  # not in `_rows`, where the error holds on to Ray Data's threads
    return 0


class _StoppedError(BaseException):
    """SIGTERM; unlike the signal itself, this removes what was written so far."""


def _stop(_signal: int, _frame: object) -> None:
    raise _StoppedError


def pack(
    source: Source,
    *,
    tokenizer: str,
    output: str,
    validation_fraction: float,
    shard_tokens: int,
    task_bytes: int,
    force: bool,
) -> list[str]:
    """Pack `source`; the arguments are the flags. Returns the lines that sum it up.

    Raises:
        DataError: something about inputs, tokenizer or output; its text says what and where.
    """
    storage = _output(output, force=force)
    passed_over: list[str] = []
    files = find(source, passed_over)
    loaded, facts = _load(tokenizer, chat=bool(source.chat_field))
    beside = Path(tempfile.gettempdir()) if storage.remote else Path(storage.root).parent
    part = beside / f".{Path(storage.root).name}.part-{uuid.uuid4().hex[:8]}"
    part.mkdir(parents=True)
    try:
        kind = dtype_for(facts["vocabSize"])
        writers = {split: _Split(split, part, facts["vocabSize"], shard_tokens, storage) for split in SPLITS}
        skipped = 0
        job = Job(source, loaded, kind, validation_fraction)
        for row in _rows(job, tasks(files, source, task_bytes)):
            if row["error"]:
                raise DataError(row["error"])
            skipped += row["skipped"]
            for split, writer in writers.items():
                writer.add(row[split], row[f"{split}_lengths"])
        splits = {split: writer.close() for split, writer in writers.items() if writer.tokens}
        if "train" not in splits:
            what = "too few documents, all fell to validation" if splits else "no document with any text"
            raise DataError(f"{' '.join(source.inputs)}: {what} ({len(files)} files, {skipped} empty documents)")
        origin = {"inputs": source.inputs, "files": len(files), "bytes": sum(file.end for file in files)}
        index = {"version": VERSION, "dtype": kind, **facts, "source": origin, "splits": splits}
        (part / INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
        _publish(part, storage, {s["file"] for split in splits.values() for s in split["shards"]})
    finally:
        shutil.rmtree(part, ignore_errors=True)
    lines = [
        f"{split}: {s['documents']:,} documents, {s['tokens']:,} tokens, unigram entropy {s['unigramEntropy']:.4f}, "
        f"shards: {len(s['shards'])}"
        for split, s in splits.items()
    ]
    if "validation" not in splits:
        lines.append("validation: no document was held out; a training will measure no held-out loss")
    if passed_over:
        lines.append(f"passed over: {len(passed_over):,} files by their names, such as {passed_over[0]}")
    return [*lines, f"skipped: {skipped:,} empty documents", f"packed: {storage.root} ({kind})"]


def _output(output: str, *, force: bool) -> Storage:
    """The place to write to, after proof that nothing of value is there."""
    try:
        # A link to a larger disk stays one.
        storage = Storage(output if "://" in output else str(Path(output).expanduser().resolve()))
        found = storage.names("")
    except (OSError, ValueError, RuntimeError) as error:
        raise DataError(f"--output {output}: cannot be opened: {error}") from error
    if not storage.remote and Path(storage.root).is_file():
        raise DataError(f"--output {output}: is a file, and must be a folder")
    if not storage.remote and Path(storage.root).is_mount():
        raise DataError(f"--output {output}: is where a disk is mounted, and cannot be replaced; name a folder in it")
    if strange := [name for name in found if not OURS.fullmatch(name)]:
        raise DataError(f"--output {output}: holds other files than packed tokens, such as {strange[0]}")
    if found and not force:
        raise DataError(f"--output {output}: packed tokens are there already; --force replaces them")
    return storage


def _publish(part: Path, storage: Storage, shards: set[str]) -> None:
    """Make the output appear; remote shards are there already."""
    if storage.remote:
        storage.upload(part / INDEX, INDEX)
        for name in set(storage.names("")) - shards - {INDEX}:
            storage.delete(name)
        return
    target = Path(storage.root)
    if target.exists():
        old = target.with_name(f".{target.name}.old-{uuid.uuid4().hex[:8]}")
        target.rename(old)
        try:
            part.rename(target)
        except OSError:
            old.rename(target)
            raise
        shutil.rmtree(old)
    else:
        part.rename(target)


def _load(given: str, *, chat: bool) -> tuple[Any, dict[str, Any]]:
    """The tokenizer, and what the index tells of it."""
    from huggingface_hub import try_to_load_from_cache
    from transformers import AutoTokenizer

    name = os.path.expanduser(given)  # noqa: PTH111 - leaves a `~` that is nobody's as it is
    try:
        if given.startswith(("/", ".", "~")) and not Path(name).is_dir():  # transformers would ask the hub
            raise FileNotFoundError("no such folder")
        tokenizer = AutoTokenizer.from_pretrained(name)
    except Exception as error:  # the library raises many kinds, its Rust part a bare Exception
        cause = (str(error) or repr(error)).splitlines()[0]
        raise DataError(
            f"--tokenizer {given}: cannot be loaded ({cause}); give the folder of the "
            "model, or one with its tokenizer.json and tokenizer_config.json"
        ) from error
    if tokenizer.eos_token_id is None:
        raise DataError(f"--tokenizer {given}: has no EOS token, which has to end each document")
    if chat and not tokenizer.chat_template:
        raise DataError(f"--tokenizer {given}: has no chat template; take an instruct model's tokenizer")
    checksum = hashlib.sha256()
    for file in TOKENIZER_FILES:
        path = Path(name, file) if Path(name).is_dir() else Path(str(try_to_load_from_cache(name, file)))
        if path.is_file():
            checksum.update(f"{file} {path.stat().st_size}\n".encode() + path.read_bytes())
    return tokenizer, {
        "vocabSize": max(tokenizer.get_vocab().values()) + 1,
        "tokenizer": {"name": Path(name).name if Path(name).is_dir() else name, "sha256": checksum.hexdigest()},
        "eos": tokenizer.eos_token_id,
    }


def _rows(job: Job, parts: list[list[Part]]) -> Iterator[dict[str, Any]]:
    """What the tasks give, in their order; see `tokenised`."""
    import ray

    if not parts:
        return
    address = os.environ.get("RAY_ADDRESS") or "local"
    own = {"include_dashboard": False} if address == "local" else {}
    try:
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False, **own)
    except ConnectionError as error:
        raise DataError(f"no Ray cluster at RAY_ADDRESS={address}: {error}") from error
    signal.signal(signal.SIGTERM, _stop)  # Ray has just set its own
    context = ray.data.DataContext.get_current()
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.execution_options.preserve_order = True
    context.target_max_block_size = BLOCK
    # In a list the reference stays one, so that a process fetches the tokenizer once and not for every task.
    reference = [ray.put(job)]
    items = [{"parts": json.dumps(listed)} for listed in parts]
    dataset = ray.data.from_items(items, override_num_blocks=len(items))
    dataset = dataset.flat_map(tokenised, fn_kwargs={"reference": reference})
    for batch in dataset.iter_batches(batch_size=None, batch_format="pyarrow"):
        yield from batch.to_pylist()


@functools.lru_cache(maxsize=1)
def _fetch(reference: Any) -> Job:
    import ray

    job: Job = ray.get(reference)
    return job


def tokenised(row: dict[str, Any], reference: list[Any]) -> Iterator[dict[str, Any]]:
    """One task: the token ids and document lengths of its parts, chunk by chunk, as bytes.

    An error is a value too: the driver meets the first one in the order of the files, not that of the fastest task.
    """
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # a task has one CPU
    job = _fetch(reference[0])
    chunk: list[str] = []
    skipped = size = 0
    try:
        for part in (Part(*values) for values in json.loads(row["parts"])):
            for text in texts(part, job.source, job.tokenizer):
                if not text.strip():
                    skipped += 1
                    continue
                chunk.append(text)
                size += len(text) + 256  # short documents cost more than their text
                if size >= CHUNK:
                    yield _tokens(chunk, job, skipped)
                    chunk, skipped, size = [], 0, 0
        yield _tokens(chunk, job, skipped)
    except DataError as error:
        yield {**_tokens([], job, 0), "error": str(error)}


def _tokens(chunk: list[str], job: Job, skipped: int) -> dict[str, Any]:
    import numpy as np

    eos, bound = job.tokenizer.eos_token_id, job.validation_fraction * 2**64
    ids = job.tokenizer(chunk, add_special_tokens=False, verbose=False)["input_ids"] if chunk else []
    documents: dict[str, list[Any]] = {split: [] for split in SPLITS}
    for text, tokens in zip(chunk, ids, strict=True):
        held_out = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) < bound
        ended = tokens if tokens[-1:] == [eos] else [*tokens, eos]  # a chat template may have ended it
        documents[SPLITS[held_out]].append(np.array(ended, dtype=DTYPES[job.kind]))
    made: dict[str, Any] = {"skipped": skipped, "error": ""}
    for split, arrays in documents.items():
        made[split] = b"".join(a.tobytes() for a in arrays)
        made[f"{split}_lengths"] = np.array([a.size for a in arrays], dtype="<i8").tobytes()
    return made


class _Split:
    """Writes the shards of one split."""

    def __init__(self, name: str, folder: Path, vocab_size: int, shard_tokens: int, storage: Storage) -> None:
        import numpy as np

        self._name, self._folder, self._full, self._storage = name, folder, shard_tokens, storage
        self._dtype = DTYPES[dtype_for(vocab_size)]
        self._shards: list[dict[str, Any]] = []
        self._stream: Any = None
        self._sha = hashlib.sha256()
        self._counts = np.zeros(vocab_size, dtype=np.int64)
        self.tokens = 0

    def add(self, tokens: bytes, lengths: bytes) -> None:
        """Write documents. A shard ends after the document that fills it."""
        import numpy as np

        ids, sizes = np.frombuffer(tokens, self._dtype), np.frombuffer(lengths, "<i8")
        self._counts += np.bincount(ids, minlength=self._counts.size)
        self.tokens += ids.size
        while sizes.size:
            if self._stream is None:
                name = f"{self._name}-{len(self._shards):05d}.bin"
                self._shards.append({"file": name, "tokens": 0, "documents": 0, "largest": 0})
                self._stream, self._sha = (self._folder / name).open("wb"), hashlib.sha256()
            shard, ends = self._shards[-1], sizes.cumsum()
            documents = min(int(np.searchsorted(ends, self._full - shard["tokens"])) + 1, sizes.size)
            taken, ids = np.split(ids, [int(ends[documents - 1])])
            sizes = sizes[documents:]
            self._stream.write(taken)
            self._sha.update(taken.data)
            shard["tokens"] += taken.size
            shard["documents"] += documents
            shard["largest"] = max(shard["largest"], int(taken.max()))
            if shard["tokens"] >= self._full:
                self._end()

    def _end(self) -> None:
        if self._stream is None:
            return
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()
        self._stream = None
        shard = self._shards[-1]
        shard["sha256"] = self._sha.hexdigest()
        if self._storage.remote:
            self._storage.delete(INDEX)  # what it lists is being replaced
            self._storage.upload(self._folder / shard["file"], shard["file"])
            (self._folder / shard["file"]).unlink()

    def close(self) -> dict[str, Any]:
        """End the last shard; returns the split's part of the index."""
        self._end()
        shares = [n / self.tokens for n in self._counts.tolist() if n]
        return {
            "tokens": self.tokens,
            "documents": sum(s["documents"] for s in self._shards),
            "unigramEntropy": -math.fsum(p * math.log(p) for p in shares),
            "shards": self._shards,
        }


if __name__ == "__main__":
    # The module again, under its own name: Ray's workers can import that one, and not `__main__`.
    from training.pack import main as _main

    sys.exit(_main())
