"""Sharded checkpoints with torch's DCP: each rank writes and reads its own part, and a marker makes the whole complete.

    <run path>/checkpoints/step_00000010/__0_0.distcp …   one file per rank
    <run path>/checkpoints/step_00000010/.metadata         DCP's index
    <run path>/checkpoints/step_00000010/complete.json     the marker: step, configuration; written last

A folder without a readable marker is the rest of a save that was cut off: never read, removed by the next save. On a
shared folder the ranks write in place; for an address they write to a local folder, and upload while the training goes
on (`uploads`).
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from training.config import Config, fixed_names
from training.contract import Exit, RunEndError
from training.model import check_tie
from training.owner import await_end
from training.remote_reader import open_reader
from training.storage import Storage
from training.topology import Place, agree, broadcast, gather, on_rank_0
from training.uploads import LocalFolder, Upload

FOLDER = "checkpoints"
MARKER = "complete.json"


def folder_name(step: int) -> str:
    """Folder of a step below the run path."""
    return f"{FOLDER}/step_{step:08d}"


@dataclass(frozen=True)
class Found:
    """A complete checkpoint."""

    step: int
    """Optimiser steps it holds."""
    configuration: dict[str, Any]
    """The settings of the run that wrote it."""


def _configuration(marker: bytes | None) -> dict[str, Any] | None:
    """The settings in a marker; None when it is missing, or empty or garbage as after a crash of the file system."""
    try:
        found = json.loads(marker or b"null")["configuration"]
    except (ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, dict) else None


def steps_present(storage: Storage) -> list[tuple[int, bool]]:
    """(step, complete) of every checkpoint folder, oldest first."""
    found = []
    for name in storage.names(FOLDER):
        if match := re.fullmatch(r"step_(\d{8,})", name):
            step = int(match[1])
            found.append((step, _configuration(storage.read(f"{folder_name(step)}/{MARKER}")) is not None))
    return sorted(found)


def newest(storage: Storage, say: Callable[[str], None]) -> Found | None:
    """The newest complete checkpoint of a run, or None; tells of those that it passes over for a broken marker."""
    for step, _ in reversed(steps_present(storage)):
        name = f"{folder_name(step)}/{MARKER}"
        marker = storage.read(name)
        if (configuration := _configuration(marker)) is not None:
            return Found(step, configuration)
        if marker is not None:
            say(f"passed over the checkpoint of step {step}: {storage.path(name)} cannot be read")
    return None


def differences(
    mine: Config, theirs: dict[str, Any], *, model_only: bool, data: str = "", model: str = ""
) -> list[str]:
    """Settings that must be equal to go on from a checkpoint and are not, as "name: a → b" texts.

    Args:
        data: digest of the data of now; empty: not compared.
        model: what the run begins with; empty: not compared.
    """
    sources = {name: value for name, value in (("data", data), ("model", model)) if value and not model_only}
    now = {**mine.as_dict(), **sources}
    names = [*fixed_names(model_only=model_only), *sources]
    return [
        f"{name}: checkpoint {_short(theirs[name])}, now {_short(now[name])}"
        for name in names
        if name in theirs and theirs[name] != now[name]
    ]


def _short(value: Any) -> Any:
    """A digest by its first digits; anything else as it is."""
    return f"{value[:12]}…" if isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) else value


def choose(
    storage: Storage,
    config: Config,
    place: Place,
    resume_from: str,
    say: Callable[[str], None],
    stop: Callable[[], bool] = lambda: False,
    *,
    data: str = "",
    model: str = "",
) -> tuple[Storage, Found] | None:
    """Where the run goes on: its own newest checkpoint, else that of `resume_from`, else None. Equal on all ranks.

    While `resume_from` is still training, its end is waited for; `stop` tells rank 0 of a request to stop meanwhile.

    Raises:
        RunEndError: `resume_from` has no checkpoint or does not end in time (storage), the configuration does not fit
            (failed), or a request to stop while waiting (preempted).
    """
    if resume_from and storage.beside(resume_from).root == storage.root:
        message = f"resume from {resume_from}: that is this run; it goes on by itself from its own checkpoints"
        raise RunEndError(Exit.FAILED, message, lasting=False)
    if resume_from:
        on_rank_0(place, lambda: _await_source(storage, config, resume_from, say, stop))
    answer: tuple[str, Found] | None = None
    ending: RunEndError | None = None
    failure = None
    if place.rank == 0:
        try:
            answer = _choose(storage, config, resume_from, say, {"data": data, "model": model})
        except RunEndError as error:
            ending = error
        except OSError as error:
            failure = f"cannot read checkpoints: {error}"
    answer, ending, failure = broadcast((answer, ending, failure))
    if ending:
        raise ending
    if failure:
        raise OSError(failure)
    if answer is None:
        return None
    return (storage if answer[0] == storage.root else Storage(answer[0])), answer[1]


def _await_source(
    storage: Storage, config: Config, resume_from: str, say: Callable[[str], None], stop: Callable[[], bool]
) -> None:
    """Wait until nobody writes to the run that this one starts from; a run with a checkpoint of its own need not."""
    with suppress(OSError):  # `_choose` meets it again, and says it
        if newest(storage, lambda _: None) is None:
            await_end(storage.beside(resume_from), timeout=config.limits.resume_timeout, stop=stop, say=say)


def _choose(
    storage: Storage, config: Config, resume_from: str, say: Callable[[str], None], sources: dict[str, str]
) -> tuple[str, Found] | None:
    source, found = storage, newest(storage, say)
    if found is None and resume_from:
        source = storage.beside(resume_from)
        found = newest(source, say)
        if found is None:
            message = f"resume from {resume_from}: no complete checkpoint in {source.path(FOLDER)}"
            # Not lasting: the source may still be training, and this ending costs seconds.
            raise RunEndError(Exit.STORAGE, message, lasting=False)
        if found.step >= config.schedule.steps:
            message = f"{source.root} is at step {found.step} already; set steps to more than that to go on from it"
            raise RunEndError(Exit.FAILED, message)
    if found is None:
        return None
    # Another run may have been changed on purpose, or it would not be another run: only the weights must fit.
    wrong = differences(config, found.configuration, model_only=source is not storage, **sources)
    if wrong:
        where = source.path(folder_name(found.step))
        message = f"this configuration cannot go on from {where}:\n  " + "\n  ".join(wrong)
        raise RunEndError(Exit.FAILED, f"{message}\nstart it under another run path to begin at step 0")
    if source is not storage and (changed := differences(config, found.configuration, model_only=False, **sources)):
        say(f"{source.root} was trained with other settings, which may be meant: {'; '.join(changed)}")
    return source.root, found


def _state(model: Any, optimizer: Any, *, tied: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Model and optimiser state with plain names; a tied output layer is left out, it is the embedding."""
    from torch.distributed.checkpoint.state_dict import get_state_dict

    weights, moments = get_state_dict(model, optimizer)
    if tied:
        weights.pop("lm_head.weight", None)
    return weights, moments


def save(
    storage: Storage,
    model: Any,
    optimizer: Any,
    *,
    step: int,
    config: Config,
    place: Place,
    keep: int,
    sources: dict[str, str],
) -> Upload | None:
    """Write the checkpoint of `step` on all ranks, then drop all but the newest `keep`.

    Args:
        sources: `data` and `model` of `differences`.

    Returns:
        None when the checkpoint is complete; for an address its upload, which has just begun: one at a time, so
        `Upload.finish` must have returned before the next save.

    Raises:
        OSError: a rank could not write; raised on all ranks. Storage was proven at the start, so a retry may mend it.
    """
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.api import CheckpointException  # a BaseException

    name = folder_name(step)
    weights, moments = _state(model, optimizer, tied=config.model.tied)
    local = _make_room(storage, name, place)
    problem, sizes = None, {}
    try:
        dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=local.path if local else storage.path(name))
        if local:
            sizes = {file.name: file.stat().st_size for file in local.path.iterdir()}
    except (Exception, CheckpointException) as error:  # every rank must hear of it, whatever it was
        problem = _problem(place, storage, name, error)
    if problem := agree(problem):
        if local:
            local.remove()
        raise OSError(problem)
    marker = {
        "version": 1,
        "step": step,
        "worldSize": place.world_size,
        "written": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "configuration": {**config.as_dict(), **sources},
    }

    def complete() -> None:
        storage.write(f"{name}/{MARKER}", json.dumps(marker, indent=1).encode())
        prune(storage, keep)

    if local:
        everywhere = {file: size for part in gather(sizes) for file, size in part.items()}
        return Upload(storage, name, local, place, sizes=everywhere, complete=complete)
    if place.rank == 0:
        try:
            complete()
        except OSError as error:
            problem = _problem(place, storage, name, error)
    if problem := broadcast(problem):
        raise OSError(problem)
    return None


def _make_room(storage: Storage, name: str, place: Place) -> LocalFolder | None:
    """Remove what a save that was cut off left, perhaps of another number of ranks; a local folder for an address.

    Raises:
        OSError: that failed on a rank; on all ranks.
    """
    problem, local = [], None

    def remove() -> None:
        try:
            storage.delete(name)
        except OSError as error:
            problem.append(_problem(place, storage, name, error))

    on_rank_0(place, remove)
    try:
        local = LocalFolder() if storage.remote else None
    except OSError as error:
        problem.append(_problem(place, storage, name, error))
    if problems := agree("\n".join(problem)):  # also: no rank writes before the folder is gone
        if local:
            local.remove()
        raise OSError(problems)
    return local


def _problem(place: Place, storage: Storage, name: str, error: BaseException) -> str:
    return f"rank {place.rank} on {place.host} cannot save {storage.path(name)}: {_cause(error)[0]}"


def prune(storage: Storage, keep: int) -> None:
    """Remove all but the newest `keep` complete checkpoints, and what cut-off saves left."""
    for step, complete in surplus(steps_present(storage), keep):
        if complete:
            # First the marker: a removal that is cut off must not leave half a checkpoint that looks whole.
            storage.delete(f"{folder_name(step)}/{MARKER}")
        storage.delete(folder_name(step))


def surplus(present: list[tuple[int, bool]], keep: int) -> list[tuple[int, bool]]:
    """Those of `steps_present` that `prune` removes."""
    whole = [step for step, complete in present if complete]
    kept = whole[len(whole) - min(keep, len(whole)) :]
    return [(step, complete) for step, complete in present if step not in kept]


def _cause(error: BaseException) -> tuple[str, bool]:
    """One line about an error of `dcp.load`, and whether a retry may mend it."""
    # A CheckpointException holds every rank's error: the first one stands for all, so that all ranks say the same.
    failures = sorted(getattr(error, "failures", {}).items())
    first = failures[0][1][0] if failures else error
    passing = isinstance(first, OSError) and not isinstance(first, FileNotFoundError | NotADirectoryError)
    return f"{type(first).__name__}: {first}".splitlines()[0], passing


def load(source: Storage, found: Found, model: Any, optimizer: Any, *, config: Config, place: Place) -> None:
    """Fill model and optimiser from a checkpoint. The number of ranks may differ from that of the writer.

    Raises:
        RunEndError: the checkpoint is damaged (failed); on all ranks.
        OSError: the storage could not be read, which a retry may mend; on all ranks.
    """
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.api import CheckpointException  # a BaseException
    from torch.distributed.checkpoint.state_dict import StateDictOptions, set_state_dict

    name = folder_name(found.step)
    problem = None
    reader = open_reader(source, name) if source.remote else dcp.FileSystemReader(source.path(name))
    weights, moments = _state(model, optimizer, tied=config.model.tied)
    state = {"model": weights, "optimizer": moments}
    # First the index alone: DCP would log a traceback for one that cannot be read, and look for another kind of it.
    actions: list[Callable[[], Any]] = [reader.read_metadata]
    actions.append(partial(dcp.load, state, storage_reader=reader))
    for action in actions:
        passing = False
        try:
            action()
        except (Exception, CheckpointException) as error:  # every rank must hear of it, whatever it was
            problem, passing = _cause(error)
        problem, passing = agree(problem), any(gather(passing))  # also: until every rank has read
        if problem:
            break
    if problem and passing:
        raise OSError(f"cannot read {source.path(name)}: {problem}")
    if problem:
        problem = f"cannot load the checkpoint {source.path(name)} ({problem})"
        # Not lasting: the advice mends it, and a retry before that costs seconds.
        advice = "remove this folder to go on from the one before"
        raise RunEndError(Exit.FAILED, f"{problem}; {advice}", lasting=False)
    # strict=False: the tied output layer is not in the file; `check_tie` proves that it follows the embedding.
    set_state_dict(
        model,
        optimizer,
        model_state_dict=state["model"],
        optim_state_dict=state["optimizer"],
        options=StateDictOptions(strict=not config.model.tied),
    )
    check_tie(model, config.model)
