"""Run the ranks under Ray Train: wait for the cluster, place them, pass lines and stop requests, judge the end.

Only this module and `cluster` import ray. Two things travel besides Ray Train's own traffic, both through one small
actor on the driver's node: rank 0's lines (the driver prints them as they are, without the prefix of a worker's output)
and the driver's request to stop (a job that is deleted sends SIGTERM to the driver alone).
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from training import metrics, owner
from training.checkpoint import folder_name
from training.cluster import wait_for_cluster
from training.contract import Contract, Exit, RunEndError
from training.logs import Attempt, Joined
from training.loop import Body, ending_of, run
from training.session import Ending, Hooks, Job
from training.storage import Storage, is_full
from training.topology import NO_GPUS, Place, backend

EXCHANGE_S = 0.5  # how often rank 0 and the driver look into the mailbox
# A stop request that no rank has picked up for this long meets a run that is not training: it may end at once.
SILENT_S = 30.0
RETRIES = 3  # restarts of the ranks after a lost worker or node
START_RETRIES = 10  # minutes that Ray Train waits for lost nodes to be replaced: one try takes 60 s


class Mailbox:
    """Actor between driver and rank 0."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._stop = False
        self._ending: Ending | None = None
        self._heard = 0.0
        self._joined: list[Joined] = []

    def join(self, process: Joined) -> None:
        """A process of a rank has begun."""
        start = 1 + sum(j.rank == process.rank for j in self._joined)
        self._joined.append(replace(process, start=start))

    def from_rank(self, lines: list[str], ending: Ending | None) -> bool:
        """Rank 0 leaves lines and, at its end, the ending; returns whether it should stop."""
        self._lines += lines
        self._ending = ending or self._ending
        self._heard = time.monotonic()
        return self._stop

    def from_driver(self, stop: bool) -> tuple[list[str], Ending | None, float, list[Joined]]:
        """The driver takes the lines; returns them, the ending, the seconds since rank 0 was heard, and who joined."""
        self._stop = self._stop or stop
        lines, self._lines = self._lines, []
        return lines, self._ending, time.monotonic() - self._heard if self._heard else 1e9, self._joined


class RayHooks(Hooks):
    """Hooks of a rank under Ray Train. On rank 0 a thread exchanges with the mailbox; the loop never waits for it."""

    watches_preemption = True

    def __init__(self, mailbox: Any, place: Place, run_name: str) -> None:
        super().__init__()
        self._mailbox = mailbox if place.rank == 0 else None
        self._lines: list[str] = []
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._gauges: dict[str, Any] = {}
        self._run_name = run_name
        if self._mailbox is not None:
            threading.Thread(target=self._exchange_often, name="mailbox", daemon=True).start()

    def say(self, text: str) -> None:
        """Hand a line to the driver, and keep it in the rank's own log."""
        logging.info(text)
        with self._lock:
            self._lines.append(text)

    def close(self, ending: Ending) -> None:
        """Hand over the ending and what is left to say."""
        self._done.set()
        if self._mailbox is not None:
            self._exchange(ending)

    def _exchange_often(self) -> None:
        while not self._done.wait(EXCHANGE_S):
            # Without a driver there is nobody to tell, and Ray is about to end this process.
            with suppress(Exception):
                self._exchange(None)

    def _exchange(self, ending: Ending | None) -> None:
        import ray

        assert self._mailbox is not None  # noqa: S101 - rank 0 alone comes here

        with self._lock:
            lines, self._lines = self._lines, []
            answer = self._mailbox.from_rank.remote(lines, ending)
        self.stop = bool(ray.get(answer, timeout=60)) or self.stop

    def preemption_notice(self) -> str:
        """Ray's notice that a node of the run is draining. All ranks together."""
        import ray.train

        info = ray.train.get_preemption_info()
        if info is None:
            return ""
        left = "" if info.deadline_ms is None else f" within {max(0, info.deadline_ms / 1000 - time.time()):.0f} s"
        return f"the node of ranks {', '.join(map(str, info.preempted_ranks))} is taken away{left}"

    def checkpointed(self, storage: Storage, step: int, loss: float) -> None:
        """Tell Ray Train of a checkpoint that lies where it should already: nothing is uploaded again.

        Ray paces these calls by its controller's poll of 2 s, which is why steps alone are not reported.
        """
        import ray.train
        from ray.train import CheckpointUploadMode

        filesystem, base = storage.ray_filesystem()
        ray.train.report(
            {"step": step, "loss": loss},
            checkpoint=ray.train.Checkpoint(f"{base}/{folder_name(step)}", filesystem=filesystem),
            checkpoint_dir_name=folder_name(step),
            checkpoint_upload_mode=CheckpointUploadMode.NO_UPLOAD,
        )

    def measured(self, **numbers: float) -> None:
        """Export the numbers on Ray's Prometheus endpoint, as `ray_training_<name>`."""
        from ray.util.metrics import Gauge

        for name, value in numbers.items():
            if name not in self._gauges:
                self._gauges[name] = Gauge(f"training_{name}", tag_keys=("run",))
            self._gauges[name].set(value, tags={"run": self._run_name})


def _rank(settings: dict[str, Any]) -> None:
    """Body of one Ray Train worker. It returns also when the run failed for good: raising would make Ray try again."""
    import ray.util

    place = Place.from_env(os.environ, host=ray.util.get_node_ip_address())
    _keep_log(settings["mailbox"], place)
    job: Job = settings["job"]
    # The driver's contract is the head's, which the chart tells nothing of the network between the workers.
    mine = Contract.from_env(os.environ)
    job = replace(job, contract=replace(job.contract, transport=mine.transport, scratch=mine.scratch))
    hooks = RayHooks(settings["mailbox"], place, job.run_name)
    try:
        ending = settings["body"](job, place, hooks, cuda=settings["cuda"])
    except Exception:
        logging.info("rank %d ends with an error", place.rank, exc_info=True)  # the driver hears of it from Ray Train
        raise
    logging.info("rank %d ends: %s: %s", place.rank, ending.state, ending.message)
    hooks.close(ending)


def _keep_log(mailbox: Any, place: Place) -> None:
    """Everything that is logged or printed goes to this process's log, warnings also to the driver, which knows it."""
    import ray

    # Ray Train gives the root logger a console and a file. What it writes for every report of every rank, and what
    # `print` gives to that logger, is for the file; the file's form is for people.
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setLevel(logging.WARNING)
        else:
            handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    context = ray.get_runtime_context()
    joined = Joined(
        rank=place.rank,
        start=0,
        node=place.host,
        host=socket.gethostname(),
        pid=os.getpid(),
        worker_id=context.get_worker_id(),
        node_id=context.get_node_id(),
    )
    logging.info("rank %d of %d begins on %s (%s)", place.rank, place.world_size, joined.node, joined.host)
    with suppress(Exception):  # the files are found without it, under the name of Ray's worker
        ray.get(mailbox.join.remote(joined), timeout=60)


def launch(job: Job, *, world_size: int, body: Body = run) -> Ending:
    """Train `job` with `world_size` ranks on the Ray cluster of RAY_ADDRESS, else on a Ray of this process's own.

    Args:
        body: what every rank does; a function of a module, which Ray's workers can import.
    """
    stop = threading.Event()
    storage = Storage(job.run_path)
    attempt = Attempt(storage)

    def asked_to_stop(_signal: int, _frame: object) -> None:
        attempt.asked_to_stop()
        stop.set()

    signal.signal(signal.SIGTERM, asked_to_stop)
    try:
        held = owner.acquire(job.run_path, job.run_name, stop=stop.is_set)
    except RunEndError as error:
        return ending_of(error)  # not for the run's record: that is the owner's
    try:
        return _launch(job, world_size, storage, stop, attempt, held, body)
    finally:
        held.release()


def _launch(
    job: Job,
    world_size: int,
    storage: Storage,
    stop: threading.Event,
    attempt: Attempt,
    held: owner.Owner,
    body: Body,
) -> Ending:
    import ray

    address = os.environ.get("RAY_ADDRESS", "")
    own: dict[str, Any] = {}
    if not address:
        # "local" starts a new one; without it Ray would join whatever cluster it finds running on this machine.
        cpus = max(world_size, os.cpu_count() or 1)
        own = {"address": "local", "num_cpus": cpus, "include_dashboard": False, "object_store_memory": 2**28}
        # Without a dashboard Ray Train's own actors complain every few seconds; a rank's errors come with `fit`.
        own["log_to_driver"] = False
        if job.contract.nodes is None:
            job = replace(job, contract=replace(job.contract, nodes=1, processes_per_node=world_size))
    asked_to_stop = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(**(own or {"address": address}), logging_level=logging.WARNING)
    except ConnectionError as error:
        return Ending("failed", Exit.FAILED, f"no Ray cluster at RAY_ADDRESS={address}: {error}")
    # Ray's own handler, which ray.init has just set, ends the driver at once; the run must reach a checkpoint first.
    signal.signal(signal.SIGTERM, asked_to_stop)
    try:
        ending = _fit(job, world_size, storage, stop, attempt, held, body)
        _close(storage, ending)
        attempt.collect(ending)
    except Exception as error:
        attempt.collect(Ending("failed", Exit.FAILED, f"the driver failed: {error}"))
        raise
    finally:
        ray.shutdown()
    return ending


def _close(storage: Storage, ending: Ending) -> None:
    """Write down the ending, where rank 0 could not."""
    if ending.lasting:
        metrics.refuse(storage, ending.code, ending.message)
    with suppress(OSError):
        if ending.record:
            # Rank 0 may have written to its own node's disk; what the driver was told is all that outlives it.
            metrics.write(storage, ending.record)
        metrics.close_record(storage, ending.state, ending.code, ending.message)


def _fit(
    job: Job,
    world_size: int,
    storage: Storage,
    stop: threading.Event,
    attempt: Attempt,
    held: owner.Owner,
    body: Body,
) -> Ending:
    """The ending of the training."""
    try:
        return _train(job, world_size, storage, stop, attempt, held, body)
    except RunEndError as error:
        return ending_of(error)


def _train(
    job: Job,
    world_size: int,
    storage: Storage,
    stop: threading.Event,
    attempt: Attempt,
    held: owner.Owner,
    body: Body,
) -> Ending:
    import ray
    from ray.train import CheckpointConfig, FailureConfig, LoggingConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    found = wait_for_cluster(job, world_size, stop)
    if found is None:
        return Ending("preempted", Exit.PREEMPTED, "asked to stop before the training began")
    resources, cuda = found
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    mailbox = ray.remote(num_cpus=0)(Mailbox).options(scheduling_strategy=here).remote()
    # Resume goes by the markers in checkpoints/. Ray's own snapshot of an earlier driver names checkpoints that were
    # removed since, and Ray would refuse to start on it.
    try:
        storage.delete("checkpoint_manager_snapshot.json")
    except OSError as error:
        message = f"cannot write to {storage.root}: {error}"
        raise RunEndError(Exit.STORAGE, message, lasting=not is_full(error)) from error
    parent, _, name = storage.root.rpartition("/")
    trainer = TorchTrainer(
        _rank,
        train_loop_config={"job": job, "mailbox": mailbox, "cuda": cuda, "body": body},
        torch_config=TorchConfig(backend=backend(cuda), timeout_s=job.config.limits.collective_timeout),
        scaling_config=ScalingConfig(num_workers=world_size, use_gpu=cuda, resources_per_worker=resources),
        run_config=RunConfig(
            name=name,
            storage_path=parent,
            failure_config=FailureConfig(max_failures=RETRIES, controller_failure_limit=START_RETRIES),
            checkpoint_config=CheckpointConfig(num_to_keep=None),  # `checkpoint.prune` removes the old ones
            logging_config=LoggingConfig(log_level="WARNING"),
            worker_runtime_env={} if cuda else {"env_vars": NO_GPUS},
        ),
    )
    failure: Exception | None = None

    def give_up() -> None:
        # `fit` waits for nodes and heeds no signal meanwhile; actors and a Ray of its own end with this process.
        ending = Ending(
            "preempted", Exit.PREEMPTED, "asked to stop while no rank was training; earlier checkpoints are kept"
        )
        _close(storage, ending)
        print(ending.message, file=sys.stderr, flush=True)
        attempt.collect(ending)
        held.release()
        os._exit(Exit.PREEMPTED)

    with _relay(mailbox, stop, attempt, give_up) as relayed:
        try:
            trainer.fit()
        except Exception as error:  # Ray's errors, and those of the ranks in it
            failure = error
    ending: Ending | None = relayed["ending"]
    if ending is not None and (failure is None or ending.state == "failed"):
        return ending
    return Ending("failed", Exit.FAILED, f"training failed: {failure or 'the ranks ended without an answer'}")


@contextmanager
def _relay(
    mailbox: Any, stop: threading.Event, attempt: Attempt, give_up: Callable[[], None]
) -> Iterator[dict[str, Any]]:
    """Print rank 0's lines and pass on the stop request while the training runs; yields where the ending will be.

    `give_up` is called when nobody is there to stop.
    """
    import ray

    relayed: dict[str, Any] = {"ending": None}
    done = threading.Event()
    asked = 0.0

    def exchange() -> float:
        answer = mailbox.from_driver.remote(stop.is_set())
        lines, relayed["ending"], silent, joined = ray.get(answer, timeout=60)
        for line in lines:
            print(line, flush=True)
        attempt.heard(joined)
        return float(silent)

    def often() -> None:
        nonlocal asked
        while not done.wait(EXCHANGE_S):
            with suppress(Exception):
                silent = exchange()
                if stop.is_set() and not asked:
                    asked = time.monotonic()
                    print("asked to stop: finishing the step and saving a checkpoint", file=sys.stderr, flush=True)
                if asked and min(silent, time.monotonic() - asked) > SILENT_S:
                    give_up()

    thread = threading.Thread(target=often, name="relay", daemon=True)
    thread.start()
    try:
        yield relayed
    finally:
        done.set()
        thread.join(timeout=60)
        with suppress(Exception):
            exchange()
