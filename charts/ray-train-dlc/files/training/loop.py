"""The training of one rank, from its checks to its last checkpoint. The launchers bring process group and hooks.

Order: layout, storage, transport (each ends the run at once when it is wrong), model, resume, steps. Every decision
that could differ between ranks is taken by one and told to all, or made of numbers that all have.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from dataclasses import dataclass, field, replace
from typing import Any

from training import checkpoint, metrics, transport
from training.config import Config
from training.contract import Contract, Exit, RunEndError
from training.data import SyntheticTokens, entropy
from training.sizes import parameter_count, tokens_per_step, uses_hsdp
from training.step import learning_rate, optimiser_step
from training.storage import Storage
from training.topology import Place, agree, backend, broadcast, build_mesh, check_layout, check_storage, gather

PREEMPTION_POLL_S = 5.0  # Ray itself looks for draining nodes this often


@dataclass(frozen=True)
class Job:
    """What to train and where its results go."""

    config: Config
    contract: Contract
    run_path: str
    """Absolute folder or address; the working directory of a Ray worker is not the driver's."""
    run_name: str


@dataclass(frozen=True)
class Ending:
    """How a run ended; the same on all ranks."""

    state: str
    """`finished`, `preempted` or `failed`."""
    code: Exit
    message: str
    lasting: bool = False
    """A later start of the same run is refused, because it would end the same way."""
    record: dict[str, Any] | None = None
    """Rank 0's run record, where the launcher may not see the run path."""


class Hooks:
    """What a launcher can do for the loop. These defaults are those of torchrun and of one process."""

    watches_preemption = False
    """Whether `preemption_notice` has anything to ask."""

    def __init__(self) -> None:
        self.stop = False
        """Set when this process was asked to stop."""

    def say(self, text: str) -> None:
        """Show a line to the person who started the run; called on rank 0."""
        print(text, flush=True)

    def preemption_notice(self) -> str:
        """A text when a node of the run is about to be taken away. Called on all ranks together."""
        return ""

    def checkpointed(self, storage: Storage, step: int, loss: float) -> None:
        """A checkpoint is complete. Called on all ranks together."""

    def measured(self, *, step: int, loss: float, tokens_per_second: float) -> None:
        """Numbers of a progress line, for dashboards; called on rank 0."""


@dataclass
class Session:
    """One rank's run while it goes on."""

    job: Job
    place: Place
    hooks: Hooks
    cuda: bool
    storage: Storage
    places: list[Place] = field(default_factory=list)
    shared: bool = True
    record: metrics.RunRecord | None = None
    model: Any = None
    optimizer: Any = None

    def say(self, text: str) -> None:
        """Show a line, once for all ranks."""
        if self.place.rank == 0:
            self.hooks.say(text)

    def save(self, step: int, loss: float) -> None:
        """Checkpoint on all ranks, where there is a place for it."""
        if self.record:
            # First the record: a run that goes on from this checkpoint needs the steps before it.
            with contextlib.suppress(OSError):
                self.record.write(force=True)
        if not self.shared:
            return
        run = self.job.config.run
        checkpoint.save(
            self.storage,
            self.model,
            self.optimizer,
            step=step,
            config=self.job.config,
            place=self.place,
            keep=run.keep_checkpoints,
        )
        self.hooks.checkpointed(self.storage, step, loss)


def run(job: Job, place: Place, hooks: Hooks, *, cuda: bool) -> Ending:
    """Train one rank of `job`; the process group exists already.

    Returns:
        the ending, also for those that nothing can mend: a launcher must not take them for a crash and try again.

    Raises:
        Exception: what a retry may mend, such as a lost rank or a failing disk.
    """
    try:
        session = Session(job, place, hooks, cuda, Storage(job.run_path))
    except (OSError, ValueError, ImportError) as error:
        return Ending("failed", Exit.STORAGE, f"cannot open the run path {job.run_path}: {error}")
    try:
        ending = _train(session)
    except RunEndError as error:
        ending = Ending("failed", error.code, error.message, lasting=error.lasting)
        if place.rank == 0 and error.lasting:
            metrics.refuse(session.storage, error.code, error.message)
    if place.rank == 0 and session.record:
        session.record.end(ending.state, ending.code, ending.message)
        if job.contract.storage_kind == "none":
            ending = replace(ending, record=session.record.content)
    return ending


def _train(session: Session) -> Ending:
    job, place, hooks = session.job, session.place, session.hooks
    config, run_options = job.config, job.config.run
    session.places = check_layout(place, job.contract, run_options)
    nodes = len({p.node_rank for p in session.places})
    session.shared = check_storage(session.storage, place, required=job.contract.storage_kind != "none" or nodes == 1)
    _guard_transport(session, nodes)
    start = _prepare(session, nodes)
    if start >= run_options.steps:
        return Ending("finished", Exit.DONE, f"finished before, at step {start} of {run_options.steps}; nothing to do")
    tokens = SyntheticTokens.create(
        vocab_size=config.model.vocab_size, sequence_length=run_options.sequence_length, seed=run_options.seed
    )
    pace = metrics.Pace(tokens_per_step(run_options))
    last_poll, noticed = time.monotonic(), False
    for step in range(start + 1, run_options.steps + 1):
        lr = learning_rate(run_options, step)
        poll = hooks.watches_preemption and time.monotonic() - last_poll > PREEMPTION_POLL_S
        began = time.monotonic()
        result = optimiser_step(
            session.model,
            session.optimizer,
            tokens.batch(
                step,
                global_batch_size=run_options.global_batch_size,
                rank=place.rank,
                world_size=place.world_size,
            ),
            run_options,
            lr=lr,
            flags=(hooks.stop, poll and place.rank == 0),
        )
        loss, norm, (stop, poll) = result.loss, result.gradient_norm, result.flags
        pace.add(time.monotonic() - began)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            message = f"loss {loss}, gradient norm {norm} at step {step}; the checkpoints before it are kept"
            raise RunEndError(Exit.FAILED, message)
        if session.record:
            session.record.add(step=step, loss=loss, seconds=pace.last, tokens=pace.tokens, gradient_norm=norm, lr=lr)
        final = step == run_options.steps
        if final or step == start + 1 or step % run_options.log_every == 0 or stop:
            session.say(
                metrics.progress_line(
                    step=step,
                    steps=run_options.steps,
                    loss=loss,
                    lr=lr,
                    tokens_per_second=pace.tokens_per_second,
                    step_time=pace.step_time,
                )
            )
            if place.rank == 0:
                hooks.measured(step=step, loss=loss, tokens_per_second=pace.tokens_per_second)
            pace.restart()
        notice = ""
        if poll:
            last_poll = time.monotonic()
            notice = "" if noticed else hooks.preemption_notice()
            noticed = noticed or bool(notice)
        due = run_options.checkpoint_every and step % run_options.checkpoint_every == 0
        if final or due or stop or notice:
            session.save(step, loss)
        if notice:
            session.say(f"{notice}: checkpoint of step {step} saved, going on until the node is gone")
        if stop and not final:
            kept = "after its checkpoint" if session.shared else "without a checkpoint: storage is none"
            return Ending("preempted", Exit.PREEMPTED, f"asked to stop: ended at step {step} {kept}")
    return Ending("finished", Exit.DONE, f"finished {run_options.steps} steps, loss {loss:.4f}")


def _guard_transport(session: Session, nodes: int) -> None:
    """Run a first collective and compare NCCL's log with what the chart promises for this instance type."""
    expected = broadcast(session.job.contract.transport)
    if expected is None:
        return
    if session.job.config.run.device == "cpu":
        unused = f"the promised transport ({expected.provider}) is not used and not checked"
        session.say(f"device cpu: ranks talk over gloo; {unused}")
        return
    problem, found = None, transport.FoundTransport()
    log = transport.own_log(os.environ)
    try:
        import torch
        import torch.distributed as dist

        if session.cuda:
            dist.all_reduce(torch.ones(2**20, device="cuda"))
            torch.cuda.synchronize()
    except RuntimeError as error:
        problem = f"NCCL did not start on {expected.provider}: {str(error).splitlines()[0]}"
    if log and log.is_file():
        found = transport.read_log(log.read_text(errors="replace"))
    problems = [p] if (p := agree(problem)) else []
    problems += transport.problems(expected, gather(found), nodes=nodes)
    if problems:
        where = f"as read in {log}" if log else "NCCL_DEBUG_FILE is not set, so there is no log to read"
        raise RunEndError(Exit.TRANSPORT, "wrong transport:\n  " + "\n  ".join(problems) + f"\n({where} of each rank)")
    session.say(f"transport as promised: {found.provider} {found.protocol}, {found.interfaces} interfaces per node")


def _prepare(session: Session, nodes: int) -> int:
    """Build model and optimiser, go on from a checkpoint if there is one, open the record. Returns the step reached."""
    from training import model

    job, config, place = session.job, session.job.config, session.place
    per_node = len(session.places) // nodes
    source = None
    if session.shared:
        source = checkpoint.choose(session.storage, config, place, job.contract.resume_from, session.say)
    start = source[1].step if source else 0
    mode = "hsdp" if uses_hsdp(config.run, nodes, per_node) else "full"
    if start < config.run.steps:
        mesh = build_mesh(session.places, config.run, cuda=session.cuda)
        session.model = model.build(config, mesh, cuda=session.cuda)
        session.optimizer = model.optimizer(session.model, config.run)
        if source:
            checkpoint.load(*source, session.model, session.optimizer, config=config, place=place)
    if place.rank == 0:
        session.record = metrics.RunRecord(session.storage, name=job.run_name, config=config)
        session.record.begin(
            step=start,
            source=source[0].path(checkpoint.folder_name(start)) if source else "",
            topology=metrics.topology(
                session.places,
                gpus_per_node=per_node if session.cuda else 0,
                backend=backend(session.cuda),
                sharding=mode,
            ),
            facts={
                "model": {"parameters": parameter_count(config.model)},
                "data": {"kind": "synthetic", "entropy": round(entropy(), 6)},
            },
        )
    session.say(
        f"{config.preset}: {parameter_count(config.model):,} parameters, {_count(len(session.places), 'rank')} "
        f"on {_count(nodes, 'node')} ({'cuda' if session.cuda else 'cpu'}, {mode} sharding), "
        f"{tokens_per_step(config.run):,} tokens per step, entropy of the data {entropy():.4f}"
    )
    if not session.shared:
        session.say("no checkpoints: storage is none and the nodes share no folder, so a lost node starts at step 0")
    if source:
        session.say(f"resumed at step {start} from {source[0].path(checkpoint.folder_name(start))}")
    return start


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
