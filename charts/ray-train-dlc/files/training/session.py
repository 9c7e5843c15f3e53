"""What a training loop works with: the model, the data, the steps still to take, and everything around a step.

`loop.train` is the loop of this package. One of your own takes the same `Session` (docs/own-code.md): it goes through
`session.steps()` and calls `session.report` once in each; stopping, checkpoints, the record, the progress line and the
notice of a lost node are then as here.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, Protocol

from training import checkpoint, metrics
from training.config import Config
from training.contract import Contract, Exit, RunEndError
from training.pace import Interfaces, Pace, progress_line
from training.packed import DataError
from training.sizes import micro_batch, tokens_per_step
from training.storage import Storage
from training.topology import Place, agree, gather
from training.uploads import Upload
from training.validation import HeldOut, held_out_loss

PREEMPTION_POLL_S = 5.0  # Ray itself looks for draining nodes this often


class Tokens(Protocol):
    """Where the sequences of a step come from."""

    def batch(self, step: int, *, global_batch_size: int, rank: int, world_size: int) -> tuple[Any, Any]:
        """This rank's inputs and labels of `step`: int64, shape (global_batch_size / world_size, sequence_length)."""


@dataclass(frozen=True)
class Job:
    """What to train and where its results go."""

    config: Config
    contract: Contract
    run_path: str
    """Absolute folder or address; the working directory of a Ray worker is not the driver's."""
    run_name: str
    train: Callable[[Session], None] | None = None
    """A loop of one's own; None: `loop.train`."""


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

    def measured(self, **numbers: float) -> None:
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
    pace: Pace | None = None
    interfaces: Interfaces | None = None
    tokens: Tokens | None = None
    held_out: HeldOut | None = None
    """Sequences to validate on, where there are any."""
    data_digest: str = ""
    """Identifies the data; in every checkpoint's marker."""
    transport: dict[str, Any] | None = None
    """What was promised of the network, what each rank's log shows, and the verdict; None: nothing is promised."""
    model: Any = None
    """Sharded by FSDP2, with a method `token_loss(inputs, labels)`."""
    optimizer: Any = None
    model_folder: Path | None = None
    """Hugging Face directory of the model that the run begins with, on this node; None: it begins at random."""
    export_due: bool = False
    """The finished model is wanted, and is not in the run path."""
    start: int = 0
    """Steps that were taken before, by the checkpoint this run goes on from."""
    step: int = 0
    """Number of the step last reported."""
    loss: float = math.nan
    """Its mean loss over the tokens of all ranks, in nats."""
    stopped: bool = False
    """The run was asked to stop, and did after its checkpoint."""
    _flags: tuple[bool, bool] = (False, False)
    _data_problem: str = ""
    _began: float = 0.0
    _last_poll: float = 0.0
    _noticed: bool = False
    _upload: Upload | None = None
    _saved: tuple[int, float] = (0, math.nan)

    @property
    def config(self) -> Config:
        """The settings."""
        return self.job.config

    @property
    def nodes(self) -> int:
        """Number of nodes with ranks."""
        return len({p.node_rank for p in self.places})

    def say(self, text: str) -> None:
        """Show a line, once for all ranks."""
        if self.place.rank == 0:
            self.hooks.say(text)

    def batch(self, step: int) -> tuple[Any, Any]:
        """This rank's inputs and labels of `step`: int64, shape (global_batch_size / ranks, sequence_length)."""
        assert self.tokens is not None  # noqa: S101 - there are none only where there is no step
        batch, world = self.config.batch, self.place.world_size
        try:
            return self.tokens.batch(
                step, global_batch_size=batch.global_batch_size, rank=self.place.rank, world_size=world
            )
        except DataError as error:
            nothing = self._without_data(error, batch.global_batch_size // world, batch.sequence_length)
            return nothing, nothing

    def _without_data(self, error: DataError, *shape: int) -> Any:
        """Tokens that mean nothing: the other ranks wait for this one, which takes part until the run ends on all."""
        import torch

        self._data_problem = f"rank {self.place.rank} on {self.place.host}: {error}"
        return torch.zeros(shape, dtype=torch.int64)

    def _end_without_data(self) -> NoReturn:
        """End the run on all ranks, of which one at least had no data."""
        problem = f"no data for step {self.step}; the checkpoints before it are kept\n{agree(self._data_problem)}"
        # Not lasting: the advice mends it, and a retry before that costs seconds.
        raise RunEndError(Exit.FAILED, problem, lasting=False)

    def steps(self) -> Iterator[int]:
        """Numbers of the steps to take, each followed by what is due after it: notice, checkpoint, validation, stop.

        Raises:
            RuntimeError: the loop has not called `report` for the step.
        """
        last = self.config.schedule.steps
        every = self.config.checkpoints.checkpoint_every
        self._last_poll = time.monotonic()
        for step in range(self.start + 1, last + 1):
            self._began = time.monotonic()
            yield step
            if self.step != step:
                raise RuntimeError(f"the training loop has not called session.report({step}, …) in step {step}")
            stop, poll = self._flags
            notice = ""
            if poll:
                self._last_poll = time.monotonic()
                notice = "" if self._noticed else self.hooks.preemption_notice()
                self._noticed = self._noticed or bool(notice)
            if step == last or (every and step % every == 0) or stop or notice:
                self.save()
            if step == last or stop or notice:
                self.finish_save()
            if notice:
                self.say(f"{notice}: checkpoint of step {step} saved, going on until the node is gone")
            # After the checkpoint, which a measurement that fails must not cost.
            validate = self.config.reports.validate_every
            if self.held_out and not stop and (step == last or (validate and step % validate == 0)):
                self._validate()
            if stop and step != last:
                self.stopped = True
                return

    def report(self, step: int, loss: Any, *, gradient_norm: Any = 0.0, lr: float | None = None) -> None:
        """What a step gave. All ranks together, once in each step, after the update.

        Ranks' stop requests travel with the loss, so that asking all ranks costs no message of its own.

        Args:
            loss: mean over this rank's tokens, in nats: number or scalar tensor; every rank has as many tokens.
            gradient_norm: norm of the gradient before clipping, equal on all ranks.
            lr: learning rate of the step; None: the optimiser's.

        Raises:
            RunEndError: a rank had no data for the step, or the loss or the norm is no number any more.
        """
        import torch
        import torch.distributed as dist

        poll = self.hooks.watches_preemption and time.monotonic() - self._last_poll > PREEMPTION_POLL_S
        device = torch.device("cuda", torch.cuda.current_device()) if self.cuda else torch.device("cpu")
        flags = [self.hooks.stop, poll and self.place.rank == 0, bool(self._data_problem)]
        told = torch.tensor([0.0, *flags], dtype=torch.float64, device=device)
        told[0] = loss
        dist.all_reduce(told)
        summed, stop, ask, without = told.tolist()
        self.loss, norm = summed / self.place.world_size, float(gradient_norm)
        self.step, self._flags = step, (stop > 0, ask > 0)
        if without:
            self._end_without_data()
        if not (math.isfinite(self.loss) and math.isfinite(norm)):
            message = f"loss {self.loss}, gradient norm {norm} at step {step}; the checkpoints before it are kept"
            advice = "a retry takes the same step: change the settings or the data, and start under another run path"
            raise RunEndError(Exit.FAILED, f"{message}; {advice}", lasting=True)
        self._tell(float(self.optimizer.param_groups[0]["lr"]) if lr is None else lr, norm)

    def _tell(self, lr: float, norm: float) -> None:
        """Record and progress line of the step that was just reported."""
        assert self.pace is not None  # noqa: S101 - made before the first step
        self.pace.add(time.monotonic() - self._began)
        schedule, step = self.config.schedule, self.step
        if self.record:
            self.record.add(
                step=step,
                loss=self.loss,
                seconds=self.pace.last,
                tokens=tokens_per_step(self.config.batch),
                gradient_norm=norm,
                lr=lr,
            )
        every = self.config.reports.log_every
        if step not in (self.start + 1, schedule.steps) and step % every and not self._flags[0]:
            return
        numbers = self.pace.interval(left=schedule.steps - step)
        self.say(progress_line(step=step, steps=schedule.steps, loss=self.loss, lr=lr, numbers=numbers))
        # All ranks of a node share its interfaces: the first one reads them.
        mine = self.interfaces.moved() if self.interfaces else None
        network = [{"host": self.places[rank].host, **moved} for rank, moved in enumerate(gather(mine)) if moved]
        if self.record:
            self.record.add_interval(step, numbers, network)
        if self.place.rank == 0:
            self.hooks.measured(step=step, loss=self.loss, learning_rate=lr, **numbers)

    def _validate(self) -> None:
        """Measure the loss on held-out data."""
        assert self.held_out is not None  # noqa: S101 - asked before
        batch, world = self.config.batch, self.place.world_size
        held_out = self.held_out

        def sequence(index: int) -> Any:
            try:
                return held_out.sequence(index)
            except DataError as error:
                return self._without_data(error, batch.sequence_length + 1)

        loss = held_out_loss(
            self.model,
            HeldOut(sequence, held_out.count),
            micro_batch_size=micro_batch(batch, world),
            rank=self.place.rank,
            world_size=world,
        )
        if any(gather(bool(self._data_problem))):
            self._end_without_data()
        count = held_out.count
        if not math.isfinite(loss):
            self.say(
                f"warning: the held-out loss after step {self.step} is no number; the model is not fit for that data"
            )
        self.say(f"step {self.step}/{self.config.schedule.steps}  held-out loss {loss:.4f} over {count} sequences")
        if self.record:
            self.record.add_validation(self.step, loss)
        if self.place.rank == 0:
            self.hooks.measured(validation_loss=loss)

    def save(self) -> None:
        """Checkpoint of the step last reported, on all ranks, where there is a place for it.

        At an address it is complete only later: when the next save begins, or after `finish_save`.

        Raises:
            OSError: this checkpoint, or the upload of the one before, failed; on all ranks.
        """
        if self.record:
            # First the record: a run that goes on from this checkpoint needs the steps before it.
            self.record.write(force=True, wait=False)
        if not self.shared:
            return
        self.finish_save()
        self._upload = checkpoint.save(
            self.storage,
            self.model,
            self.optimizer,
            step=self.step,
            config=self.config,
            place=self.place,
            keep=self.config.checkpoints.keep_checkpoints,
            sources={"data": self.data_digest, "model": self.job.contract.model_id},
        )
        self._saved = (self.step, self.loss)
        if not self._upload:
            self.hooks.checkpointed(self.storage, *self._saved)

    def finish_save(self) -> None:
        """Wait for the checkpoint that is being uploaded, where there is one. All ranks together.

        Raises:
            OSError: a rank could not upload its part; on all ranks.
        """
        upload, self._upload = self._upload, None
        if upload:
            upload.finish()
            self.hooks.checkpointed(self.storage, *self._saved)
