"""Copy the logs of all ranks to `logs/<attempt>/` of the run path when a driver ends: the nodes' disks are gone soon.

A rank that was killed cannot do it, so a small actor on each node reads what is there, of dead processes too, and the
driver writes it; that way a run path that is local to the driver (storage `none`) gets the logs as well. The actors are
placed when the ranks start: a node that is about to be taken away accepts no new ones, but waits for those it has.

Nothing here changes how a training ends: what goes wrong is one warning, and all of it is bounded in time and size.
"""

from __future__ import annotations

import datetime
import glob
import json
import os
import queue
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from training import metrics
from training.session import Ending
from training.storage import Storage

FOLDER = "logs"
INDEX = "index.json"
KEEP = 10  # attempts
LIMIT = 16 * 2**20  # bytes of one log
OWN_LIMIT = 2**20  # bytes of one of Ray's own logs
LIMIT_S = 60.0  # seconds for all of it after an end of its own
GRACE_S = 20.0  # and after a request to stop, whose grace period the checkpoint has had first
RESERVE_S = 5.0  # for the index, and for the way from here to the exit code
WRITERS = 4  # nodes at a time: each may hold one file in the driver's memory
ATTEMPT = re.compile(r"\d{8}T\d{6}Z(-\d+)?")

_WORKER = re.compile(r"worker-([0-9a-f]+)-(?:([0-9a-f]+)-)?(\d+)\.(?:out|err)")
# Ray begins a worker's files with lines for its own log monitor.
_MAGIC = re.compile(rb"\A(:(job_id|task_name|actor_name):.*\n)+")
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|KEY")


@dataclass(frozen=True)
class Joined:
    """One process of a rank, as it told the driver when it began."""

    rank: int
    start: int
    """1, and one more each time that Ray Train starts the ranks again."""
    node: str
    """IP address, as in the run record."""
    host: str
    """Name of the pod or machine."""
    pid: int
    worker_id: str
    node_id: str

    @property
    def stem(self) -> str:
        """Begin of its files' names."""
        again = "" if self.start == 1 else f".start-{self.start}"
        return f"rank-{self.rank:05}.{name_of(self.node)}{again}"


def name_of(node: str) -> str:
    """An address as part of a file name; IPv6 has colons."""
    return node.replace(":", "-")


def tail(path: Path, limit: int) -> tuple[bytes, int]:
    """The last whole lines of a file, `limit` bytes at most, and how many bytes before them are left out."""
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        stream.seek(max(0, size - limit))
        data = stream.read(limit)
    if size > limit:
        data = data[data.find(b"\n") + 1 :]
        return data, size - len(data)
    return _MAGIC.sub(b"", data), 0


def join(paths: list[Path], limit: int, environ: Mapping[str, str]) -> tuple[bytes, int]:
    """Several logs as one text, each under a line with its name, and the bytes left out; nothing of empty ones.

    Values of secret variables of this node are blanked, should a program have printed them.
    """
    parts: list[bytes] = []
    omitted = 0
    for path in paths:
        try:
            data, before = tail(path, limit)
        except OSError as error:
            data, before = f"cannot be read: {error}\n".encode(), 0
        if data.strip():
            cut = f" (its first {before:,} bytes are left out)" if before else ""
            parts.append(f"==> {path.name}{cut}\n".encode() + data.rstrip(b"\n") + b"\n")
            omitted += before
    text = b"\n".join(parts)
    for name, value in environ.items():
        if _SECRET.search(name) and len(value) >= 8 and not value.startswith("/"):
            text = text.replace(value.encode(errors="surrogateescape"), b"***")
    return text, omitted


def sources(
    folder: Path, environ: Mapping[str, str], *, node: str, job_id: str, stems: Mapping[str, str], driver: str | None
) -> Iterator[tuple[str, list[Path], int]]:
    """The files of one node that belong to a driver: (name of the copy, logs in it, bytes of each).

    Args:
        folder: logs of the Ray session.
        environ: environment of the node's processes.
        node: its address.
        job_id: Ray's name of the driver.
        stems: names for the files of known workers, by worker id; the others are named by that id.
        driver: submission id of the job when the driver runs on this node (empty: not submitted), else None.
    """
    node = name_of(node)
    workers: dict[tuple[str, str], list[Path]] = {}
    # Ray moves logs of ended processes to `old` when there are very many.
    for path in sorted([*folder.glob("worker-*"), *folder.glob("old/worker-*")], key=lambda p: p.suffix, reverse=True):
        if (match := _WORKER.fullmatch(path.name)) and (match[1] in stems or _job_of(path, match[2]) == job_id):
            workers.setdefault((match[1], match[3]), []).append(path)
    nccl = environ.get("NCCL_DEBUG_FILE", "")
    for (worker, pid), paths in sorted(workers.items()):
        own = [p for p in folder.glob(f"train/*-{worker}.log") if p.name.startswith(_TRAIN)]
        controller = any("controller" in p.name for p in own)
        stem = stems.get(worker) or f"{'controller' if controller else f'worker-{worker[:8]}'}.{node}"
        yield f"{stem}.log", [*paths, *own], LIMIT
        if "%p" in nccl:
            yield f"{stem}.nccl.log", _matching(nccl, pid), LIMIT
    if nccl and "%p" not in nccl:
        yield f"nccl.{node}.log", _matching(nccl, ""), LIMIT
    yield f"raylet.{node}.log", [folder / "raylet.out", folder / "raylet.err"], OWN_LIMIT
    if driver is not None:
        yield f"gcs_server.{node}.log", [folder / "gcs_server.out", folder / "gcs_server.err"], OWN_LIMIT
        if driver:
            yield "driver.log", [folder / f"job-driver-{driver}.log"], LIMIT


# Of Ray Train's two files per process, the one with what its code said; the controller's restarts are in the other.
_TRAIN = ("ray-train-app-worker-", "ray-train-sys-controller-")


def _job_of(path: Path, named: str | None) -> str:
    """Ray's id of the driver that a worker belongs to: one that was started ahead has it in its first line only."""
    if named and set(named) != {"f"}:
        return named
    try:
        with path.open("rb") as stream:
            first = stream.readline(100)
    except OSError:
        return ""
    return first.removeprefix(b":job_id:").decode(errors="replace").strip()


def _matching(pattern: str, pid: str) -> list[Path]:
    """Logs of one process, by NCCL's pattern: %h is the host's name, %p the process id."""
    path = Path(glob.escape(pattern).replace("%h", "*").replace("%p", pid))
    return [p for p in sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor)))) if p.is_file()]


class NodeLogs:
    """Actor on one node: reads the logs there."""

    def read(self, **about: Any) -> Iterator[tuple[str, bytes, int]]:
        """(name, content, bytes left out) of each log that has any content; takes what `sources` takes."""
        # Ray has no public name for this folder.
        from ray._private import worker

        folder = Path(worker._global_node.get_logs_dir_path())
        for name, paths, limit in sources(folder, os.environ, **about):
            content, omitted = join([p for p in paths if p.exists()], limit, os.environ)
            if content:
                yield name, content, omitted


@dataclass
class _Copy:
    """What one attempt's copy consists of so far."""

    name: str
    files: dict[str, dict[str, int]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    """Nodes that gave nothing, or not all: address → why."""
    problem: str = ""
    complete: bool = False


class Attempt:
    """The logs of one driver, from its start to its end."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._started = datetime.datetime.now(datetime.UTC)
        self._joined: list[Joined] = []
        self._readers: dict[str, Any] = {}
        self._asked = self._began = 0.0

    def asked_to_stop(self) -> None:
        """The driver was asked to stop just now."""
        self._asked = self._asked or time.monotonic()

    def heard(self, joined: list[Joined]) -> None:
        """These ranks have begun: place a reader on each of their nodes, and on the driver's."""
        if len(joined) > len(self._joined):
            self._joined = joined
            for node_id in {_here(), *(j.node_id for j in joined)}:
                self._reader(node_id)

    def collect(self, ending: Ending) -> None:
        """Copy everything, within the limits above; an error is a warning."""
        self._began = time.monotonic()
        copy = _Copy(self._started.strftime("%Y%m%dT%H%M%SZ"))

        def guarded() -> None:
            try:
                self._copy(copy, ending)
            except Exception as error:  # whatever it is, the training has ended as it has
                copy.problem = f"{type(error).__name__}: {error}"

        thread = threading.Thread(target=guarded, name="copy of the logs", daemon=True)
        if self._left() > RESERVE_S:
            thread.start()
            while thread.is_alive() and self._left() > 0:
                thread.join(0.2)  # a request to stop in the meantime shortens it
        where = self._storage.path(f"{FOLDER}/{copy.name}")
        if not copy.complete:
            why = copy.problem or "out of time"
            print(f"warning: not all logs were copied to {where}: {why}", file=sys.stderr, flush=True)
        elif ending.code:
            print(f"logs: {where}", file=sys.stderr, flush=True)

    def _left(self) -> float:
        """Seconds until the copy is abandoned."""
        end = self._began + LIMIT_S
        if self._asked:
            end = min(end, max(self._asked, self._began) + GRACE_S)
            # Ray kills a stopped job's driver after this long.
            wait = os.environ.get("RAY_JOB_STOP_WAIT_TIME_S", "")
            end = min(end, self._asked + float(wait) - RESERVE_S) if wait.isdecimal() else end
        return end - time.monotonic()

    def _reader(self, node_id: str) -> Any:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        if node_id not in self._readers:
            there = NodeAffinitySchedulingStrategy(node_id, soft=False)
            remote = ray.remote(num_cpus=0, max_restarts=3)(NodeLogs)
            self._readers[node_id] = remote.options(scheduling_strategy=there).remote()
        return self._readers[node_id]

    def _copy(self, copy: _Copy, ending: Ending) -> None:
        import ray

        earlier = [n for n in self._storage.names(FOLDER) if ATTEMPT.fullmatch(n)]
        if same := sum(n.startswith(copy.name) for n in earlier):
            copy.name += f"-{same + 1}"
        self._write_index(copy, ending)
        known = {n["NodeID"]: n for n in ray.nodes()}
        # Without ranks it is the start that failed, and any node may tell why.
        ids = {j.node_id for j in self._joined} or {i for i, n in known.items() if n["Alive"]}
        alive: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        for node_id in sorted(ids | {_here()}):
            node = known.get(node_id)
            if node and node["Alive"]:
                alive.put({**node, "files": self._read(node)})
            else:
                address = node["NodeManagerAddress"] if node else node_id
                copy.missing[address] = f"gone: {node['DeathReasonMessage'] if node else 'unknown to Ray'}"
        threads = [threading.Thread(target=self._take, args=(copy, alive), daemon=True) for _ in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if copy.problem:
            raise OSError(copy.problem)
        copy.complete = True
        self._write_index(copy, ending)
        for old in sorted([*earlier, copy.name])[:-KEEP]:
            self._storage.delete(f"{FOLDER}/{old}")

    def _read(self, node: Mapping[str, Any]) -> Any:
        """Begin to read on one node; returns the stream of its files."""
        import ray

        is_here = node["NodeID"] == _here()
        reader = self._reader(node["NodeID"])
        return reader.read.options(num_returns="streaming", _generator_backpressure_num_objects=1).remote(
            node=node["NodeManagerAddress"],
            job_id=ray.get_runtime_context().get_job_id(),
            stems={j.worker_id: j.stem for j in self._joined if j.node_id == node["NodeID"]},
            driver=_submission(os.environ) if is_here else None,
        )

    def _take(self, copy: _Copy, nodes: queue.SimpleQueue[dict[str, Any]]) -> None:
        """Write the files of one node after the other, until there is no node left."""
        from ray.exceptions import RayError

        while not copy.problem:
            try:
                node = nodes.get_nowait()
            except queue.Empty:
                return
            try:
                for name, content, omitted in self._stream(node["files"]):
                    self._storage.write(f"{FOLDER}/{copy.name}/{name}", content)
                    copy.files[name] = {"bytes": len(content), "omitted": omitted}
            except (RayError, TimeoutError) as error:
                copy.missing[node["NodeManagerAddress"]] = str(error).splitlines()[0]
            except Exception as error:
                copy.problem = copy.problem or f"{type(error).__name__}: {error}"

    def _stream(self, stream: Any) -> Iterator[tuple[str, bytes, int]]:
        """What one node sends, as long as there is time."""
        import ray

        while ray.wait([stream], timeout=max(0.0, self._left() - RESERVE_S))[0]:
            try:
                reference = next(stream)
            except StopIteration:
                return
            yield ray.get(reference, timeout=RESERVE_S)
        raise TimeoutError("it did not answer in time")

    def _write_index(self, copy: _Copy, ending: Ending) -> None:
        def of(joined: Joined) -> dict[str, Any]:
            name = f"{joined.stem}.log"
            told = {k: v for k, v in asdict(joined).items() if k not in ("worker_id", "node_id")}
            return {**told, "file": name if name in copy.files else None}

        index = {
            "version": 1,
            "attempt": copy.name,
            "started": self._started.isoformat(timespec="seconds"),
            "collected": metrics.now(),
            "complete": copy.complete,
            "ending": {"state": ending.state, "code": int(ending.code), "message": ending.message},
            "ranks": [of(j) for j in sorted(self._joined, key=lambda j: (j.rank, j.start))],
            "nodesMissing": [{"node": node, "why": why} for node, why in sorted(copy.missing.items())],
            "files": [{"name": name, **sizes} for name, sizes in sorted(copy.files.items())],
        }
        self._storage.write(f"{FOLDER}/{copy.name}/{INDEX}", json.dumps(index, indent=1).encode())


def _here() -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())


def _submission(environ: Mapping[str, str]) -> str:
    """Id under which this driver was submitted, as Ray tells it; empty when it was started otherwise."""
    match json.loads(environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR") or "{}"):
        case {"metadata": {"job_submission_id": str(submission)}}:
            return submission
    return ""
