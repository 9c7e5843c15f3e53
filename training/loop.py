"""The training of one rank, from its checks to its last checkpoint. The launchers bring process group and hooks.

Order: layout, storage, transport (each ends the run at once when it is wrong), model, resume, steps. Every decision
that could differ between ranks is taken by one and told to all, or made of numbers that all have.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from training import metrics
from training.contract import Exit, RunEndError
from training.export import export
from training.prepare import guard_transport, prepare
from training.session import Ending, Hooks, Job, Session
from training.step import gradients, learning_rate, update
from training.storage import Storage
from training.topology import LostRankError, Place, broadcast, check_layout, check_storage, lost_rank
from training.uploads import remove_left


class Body(Protocol):
    """What a launcher runs on every rank, as `run` is."""

    def __call__(self, job: Job, place: Place, hooks: Hooks, *, cuda: bool) -> Ending:
        """Do it with a process group that exists already; errors as those of `run`."""


def train(session: Session) -> None:
    """The loop: forward, backward and update of every step."""
    config = session.config
    for step in session.steps():
        lr = learning_rate(config.schedule, config.optimizer.learning_rate, step)
        loss = gradients(session.model, session.batch(step), config)
        norm = update(session.model, session.optimizer, config.optimizer, lr)
        session.report(step, loss, gradient_norm=norm, lr=lr)


def ending_of(error: RunEndError) -> Ending:
    """The ending that an error asks for."""
    state = "preempted" if error.code == Exit.PREEMPTED else "failed"
    return Ending(state, error.code, error.message, lasting=error.lasting)


def run(job: Job, place: Place, hooks: Hooks, *, cuda: bool) -> Ending:
    """Train one rank of `job`; the process group exists already.

    Returns:
        the ending, also for those that nothing can mend: a launcher must not take them for a crash and try again.

    Raises:
        LostRankError: another rank has died or is stuck.
        Exception: what a retry may mend, such as a failing disk.
    """
    try:
        session = Session(job, place, hooks, cuda, Storage(job.run_path))
    except (OSError, ValueError, ImportError) as error:
        return Ending("failed", Exit.STORAGE, f"cannot open the run path {job.run_path}: {error}")
    try:
        ending = _train(session)
    except RunEndError as error:
        ending = ending_of(error)
        if place.rank == 0 and error.lasting:
            metrics.refuse(session.storage, error.code, error.message)
    except Exception as error:
        if place.rank == 0 and session.record:
            with suppress(OSError):  # the error itself matters more
                session.record.end("failed", Exit.FAILED, f"{type(error).__name__}: {error}")
        if not lost_rank(error):
            raise
        limit = job.config.limits.collective_timeout
        where = f"rank {place.rank} on {place.host} has lost another rank after step {session.step}"
        cause = str(error).strip().splitlines()[0].split(" GLHF")[0]  # gloo wishes good luck
        raise LostRankError(
            f"{where}: it has died, or was stuck for {limit} s (collective_timeout); its own log says more; {cause}"
        ) from error
    if place.rank == 0 and session.record:
        try:
            session.record.end(ending.state, ending.code, ending.message)
        except OSError as error:  # what the run has done is done, and its ending is told without the record
            session.say(f"warning: {session.storage.path(metrics.RECORD)} does not tell of the end: {error}")
        if job.contract.storage_kind == "none":
            ending = replace(ending, record=session.record.content)
    return ending


def _train(session: Session) -> Ending:
    job, place, steps = session.job, session.place, session.config.schedule.steps
    session.places = check_layout(place, job.contract, session.config.batch)
    required = job.contract.storage_kind != "none" or session.nodes == 1
    session.shared = check_storage(session.storage, place, required=required)
    if session.storage.remote:
        remove_left()
    guard_transport(session)
    prepare(session)
    if session.model is None:
        message = f"finished before, at step {session.start} of {steps}; nothing to do"
        return Ending("finished", Exit.DONE, message)
    if session.start < steps:
        _run_loop(session)
    if session.stopped:
        kept = "after its checkpoint" if session.shared else "without a checkpoint: storage is none"
        return Ending("preempted", Exit.PREEMPTED, f"asked to stop: ended at step {session.step} {kept}")
    if session.step < steps:
        return Ending("failed", Exit.FAILED, f"the training loop ended at step {session.step} of {steps}")
    done = f"finished {steps} steps, loss {session.loss:.4f}" if session.start < steps else f"at step {session.step}"
    if session.export_due:
        done += f"; model exported to {_export(session)}"
    return Ending("finished", Exit.DONE, done)


def _run_loop(session: Session) -> None:
    """The loop, and the end of the last upload, whatever the loop's own end."""
    try:
        (session.job.train or train)(session)
    except RunEndError as ending:
        try:
            session.finish_save()  # raised on all ranks together, so they can wait together
        except OSError as error:
            raise RunEndError(ending.code, f"{ending.message}\n{error}", lasting=ending.lasting) from error
        raise
    session.finish_save()  # of a loop of one's own that ends early


def _export(session: Session) -> str:
    dtype, shape = session.config.checkpoints.export, session.config.model
    path = session.storage.path(metrics.EXPORT)
    problem = None
    if session.record:
        try:
            session.record.add_export(session.step, dtype, path, complete=False)
        except OSError as error:
            problem = f"cannot write to {session.storage.root}: {error}"
    if problem := broadcast(problem):
        raise OSError(problem)
    where = export(
        session.model,
        session.storage,
        metrics.EXPORT,
        source=session.model_folder,
        dtype=dtype,
        shape=shape,
        place=session.place,
    )
    if session.record:
        with suppress(OSError):  # the record of the end is written next
            session.record.add_export(session.step, dtype, where, complete=True)
    return where
