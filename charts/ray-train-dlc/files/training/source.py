"""Where a model or data come from: a folder, an address such as `s3://bucket/models/a`, or a name on the hub.

What is not a folder already is downloaded once for each node.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import Future, wait
from fnmatch import fnmatch
from pathlib import Path

from training.contract import Exit, RunEndError, expanded
from training.storage import Storage
from training.topology import Place, agree, gather

# Of a model only these: repositories hold the same weights in other formats too, and checkpoints of optimisers.
MODEL_FILES = ("*.safetensors", "*.json", "*.txt", "*.jinja", "tokenizer*", "LICENSE*")
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)
COMMIT = re.compile("[0-9a-f]{40}")


def fetch(
    uri: str, revision: str, scratch: Path, place: Place, *, kind: str, stop: Callable[[], bool] = lambda: False
) -> Path:
    """The folder of a model or of data on this rank's node; all ranks together.

    Args:
        uri: a folder that every rank sees, an address, or a name on the hub (owner/name).
        revision: commit of a name on the hub, 40 hexadecimal digits; empty for the others.
        scratch: folder on each node for downloads. A download is used again while the source is unchanged.
        kind: `model` or `data`; names the variable of the token (RTD_MODEL_TOKEN, RTD_DATA_TOKEN; else HF_TOKEN), and
            of a model only configuration, safetensors and tokenizer are downloaded.
        stop: whether this process was asked to stop.

    Raises:
        RunEndError: the source cannot be reached or is not complete, or a name without its commit; on all ranks.
    """
    if "://" not in uri and not revision:
        return _shared_folder(uri, place, kind)
    problem = None
    if "://" not in uri and not (HUB_NAME.fullmatch(uri) and COMMIT.fullmatch(revision)):
        problem = f"{kind} {uri} at {revision}: needed a name on the hub and its commit of 40 hexadecimal digits"
    if problem := agree(problem):
        raise _ending(problem)
    folder: Path | None = None
    work: Future[Path] | None = None
    if place.local_rank == 0:
        work = _in_thread(_from_address if "://" in uri else _from_hub, uri, revision, scratch, kind)
    # In a thread, and asked for again and again: a download may take longer than ranks wait for each other.
    while True:
        told = gather((work is None or work.done(), stop()))
        if all(done for done, _ in told):
            break
        if any(asked for _, asked in told):
            raise RunEndError(Exit.PREEMPTED, f"asked to stop while {kind} {uri} was being fetched")
        if work:
            wait([work], timeout=1)
    try:
        folder = work.result() if work else None
    except Exception as error:  # every rank must hear of it, whatever it was
        cause = (str(error).strip() or type(error).__name__).splitlines()[0]
        problem = f"{kind} {uri} cannot be fetched on {place.host}: {type(error).__name__}: {cause}"
    if problem := agree(problem):
        raise _ending(problem)
    found: dict[int, Path] = {node: path for node, path in gather((place.node_rank, folder)) if path}
    if len({path.name for path in found.values()}) > 1:
        raise _ending(f"{kind} {uri} was changed while the nodes downloaded it; start again")
    return found[place.node_rank]


def _in_thread(action: Callable[..., Path], *arguments: object) -> Future[Path]:
    """Run `action` in a thread that a process which is asked to stop does not wait for."""
    work: Future[Path] = Future()

    def act() -> None:
        try:
            work.set_result(action(*arguments))
        except BaseException as error:  # `result` raises it where somebody listens
            work.set_exception(error)

    threading.Thread(target=act, name="fetch", daemon=True).start()
    return work


def _ending(problem: str) -> RunEndError:
    # Not lasting: a source comes back, and a retry before that costs seconds.
    return RunEndError(Exit.STORAGE, problem, lasting=False)


def _shared_folder(uri: str, place: Place, kind: str) -> Path:
    """A path as it is, when every rank sees a folder there."""
    folder = expanded(uri)
    is_there = os.path.isdir(folder)  # noqa: PTH112 - pathlib's raises for a name that is too long
    seen = gather((is_there, f"rank {place.rank} on {place.host}"))
    blind = [who for saw, who in seen if not saw]
    if len(blind) == len(seen) and not uri.startswith(("/", ".", "~")) and HUB_NAME.fullmatch(uri):
        name = f"{kind} {uri} is no folder here, and for a name on the hub its commit is missing"
        raise _ending(f"{name} (--{kind}-revision, RTD_{kind.upper()}_REVISION); a path on a cluster begins with /")
    if blind:
        raise _ending(f"{kind} {folder} is no folder on {', '.join(blind)}; mount the same volume at this path there")
    return folder


def _from_hub(uri: str, revision: str, scratch: Path, kind: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import disable_progress_bars

    disable_progress_bars()
    folder = snapshot_download(
        uri,
        repo_type="model" if kind == "model" else "dataset",
        revision=revision,
        cache_dir=scratch / "hub",
        allow_patterns=list(MODEL_FILES) if kind == "model" else None,
        token=os.environ.get(f"RTD_{kind.upper()}_TOKEN") or None,  # None: HF_TOKEN, or a login of this machine
    )
    return Path(folder)


def _from_address(uri: str, _revision: str, scratch: Path, kind: str) -> Path:
    """Download into a folder whose name stands for the address and what is there now; it appears whole.

    So a folder of that name is a complete download, and one of an older state of the address has another name.
    """
    from pyarrow.fs import FileSelector, FileType

    storage = Storage(uri.rstrip("/"))
    filesystem, base = storage.ray_filesystem()
    there: dict[str, tuple[int, int]] = {}  # name → bytes, time of the last change
    for info in filesystem.get_file_info(FileSelector(base, recursive=kind != "model")):
        name = info.path.removeprefix(f"{base}/")
        if info.type == FileType.File and (kind != "model" or any(fnmatch(name, p) for p in MODEL_FILES)):
            there[name] = (info.size, info.mtime_ns)
    if not there:
        raise FileNotFoundError(f"no files of a {kind} there" if kind == "model" else "no files there")
    state = json.dumps([storage.root, sorted(there.items())])
    target = scratch / hashlib.sha256(state.encode()).hexdigest()
    if _complete(target, there):
        return target
    shutil.rmtree(target, ignore_errors=True)
    part = scratch / f".{target.name}.{uuid.uuid4().hex[:8]}"
    try:
        for name in there:
            storage.download(name, part / name)
        if not _complete(part, there):
            raise OSError("its files were changed while they were downloaded")
        try:
            part.rename(target)
        except OSError:  # another process of this machine has downloaded the same
            if not _complete(target, there):
                raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return target


def _complete(folder: Path, there: dict[str, tuple[int, int]]) -> bool:
    """Whether all files are in a folder with all of their bytes: a node that crashed may have lost the end of some."""
    paths = {folder / name: size for name, (size, _) in there.items()}
    return all(path.is_file() and path.stat().st_size == size for path, size in paths.items())
