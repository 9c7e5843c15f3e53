"""Start real trainings as processes, wait for them with a limit, and end what is left, by process group."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TRAIN = (sys.executable, "-m", "training.train")
# Variables of the machine that runs the tests which would change what a training does.
FOREIGN = ("RTD_", "RAY_", "NCCL_", "FI_")


def environment(**extra: str) -> dict[str, str]:
    """This process's environment without what could steer a training, and with one thread per process."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
    return {**kept, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **extra}


def free_port() -> int:
    """A TCP port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(condition: Callable[[], Any], seconds: float, what: str) -> Any:
    """The condition's first true value; fails when it has none in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds:.0f} s: {what}")


@dataclass
class Process:
    """A started program with its output in a file."""

    popen: subprocess.Popen[bytes]
    log: Path

    def output(self) -> str:
        """Standard output and error so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait(self, seconds: float = 120) -> int:
        """Exit code; fails, with the output, when it takes longer."""
        try:
            return self.popen.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"still running after {seconds:.0f} s:\n{self.output()}") from error

    def kill(self) -> None:
        """SIGKILL to the process and all of its group."""
        if self.popen.poll() is None:
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait(30)


@dataclass
class Started:
    """All processes of one test or module."""

    processes: list[Process] = field(default_factory=list)

    def start(self, command: tuple[str, ...], log: Path, *, cwd: Path = ROOT, **env: str) -> Process:
        """Start a program in a process group of its own."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as stream:
            popen = subprocess.Popen(
                command, cwd=cwd, env=environment(**env), stdout=stream, stderr=stream, start_new_session=True
            )
        self.processes.append(Process(popen, log))
        return self.processes[-1]

    def ranks(
        self,
        folder: Path,
        flags: tuple[str, ...],
        places: tuple[Mapping[str, str], ...],
        command: tuple[str, ...] = (*TRAIN, "--num-workers=0"),
        **env: str,
    ) -> list[Process]:
        """Start the ranks of one training as torchrun would; `places`: variables of each rank beyond the usual ones."""
        port = str(free_port())
        return [
            self.start(
                (*command, *flags),
                folder / f"rank{rank}.log",
                **env,
                **{
                    "RANK": str(rank),
                    "WORLD_SIZE": str(len(places)),
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": port,
                    **place,
                },
            )
            for rank, place in enumerate(places)
        ]

    def end(self) -> None:
        """End what still runs, groups of ended leaders included."""
        for process in self.processes:
            try:
                os.killpg(process.popen.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            finally:
                process.popen.poll()


def finish(processes: list[Process], seconds: float = 120) -> list[int]:
    """Exit codes of all."""
    return [process.wait(seconds) for process in processes]


def outputs(processes: list[Process]) -> str:
    """What every rank said: one that fails alone says why in its own log."""
    return "\n".join(f"rank {rank}:\n{process.output()}" for rank, process in enumerate(processes))


def record(run_path: Path) -> dict[str, Any]:
    """The run record."""
    content: dict[str, Any] = json.loads((run_path / "run.json").read_text(encoding="utf-8"))
    return content


def losses(run_path: Path) -> list[float]:
    """Loss of every step; fails when a step is missing or there twice."""
    steps = record(run_path)["steps"]
    assert [s["step"] for s in steps] == list(range(1, len(steps) + 1))
    return [s["loss"] for s in steps]


def complete_steps(run_path: Path) -> list[int]:
    """Steps of the complete checkpoints, oldest first."""
    return sorted(int(p.parent.name[5:]) for p in run_path.glob("checkpoints/step_*/complete.json"))


@dataclass(frozen=True)
class StoredLogs:
    """What one attempt left in the run path."""

    index: dict[str, Any]
    texts: dict[str, str]

    def of_rank(self, rank: int, *, start: int = 1) -> str:
        """The log of one process of a rank; fails when it is not there."""
        (entry,) = [r for r in self.index["ranks"] if (r["rank"], r["start"]) == (rank, start)]
        return self.texts[entry["file"]]


def stored_logs(run_path: Path) -> list[StoredLogs]:
    """All attempts, oldest first; fails when an index does not tell what is there."""
    attempts = []
    for folder in sorted((run_path / "logs").iterdir()):
        texts = {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}
        index = json.loads(texts.pop("index.json"))
        assert {f["name"]: f["bytes"] for f in index["files"]} == {n: len(t.encode()) for n, t in texts.items()}
        assert index["attempt"] == folder.name
        attempts.append(StoredLogs(index, texts))
    return attempts
