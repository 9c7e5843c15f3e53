"""A real Ray cluster for tests: a head without CPUs, and worker nodes on loopback addresses of their own.

It has its own ports and folder, and is ended by process group: `ray stop` would end every Ray on the machine.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.training.processes import TRAIN, Process, Started, free_port, until

RAY = (sys.executable, "-m", "ray.scripts.scripts")
FLAGS = ("--preset=tiny", "--schedule=constant", "--warmup-fraction=0", "--log-every=1", "--checkpoint-every=10")
WAIT = 300  # seconds for what takes a fraction of that on two free cores


@dataclass
class Cluster:
    """A running Ray cluster."""

    started: Started
    folder: Path
    """Logs, and Ray's own files: its socket names allow no long path."""
    address: str
    nodes: list[Process] = field(default_factory=list)
    drivers: list[Process] = field(default_factory=list)

    @property
    def head_logs(self) -> Path:
        """Ray's own log folder on the head; not by the link `session_latest`, which every driver makes anew."""
        return next(path for path in (self.folder / "ray").glob("session_*") if not path.is_symlink()) / "logs"

    def join(self, host: str, *, gpus: int = 0, private: Path | None = None, **env: str) -> Process:
        """Start a worker node with one CPU on a loopback address.

        Args:
            gpus: GPUs that Ray is told of; there need be none.
            private: a folder that is to be another one on this node.
        """
        command = (
            *RAY, "start", "--block", f"--address={self.address}", f"--node-ip-address={host}",
            "--num-cpus=1", f"--num-gpus={gpus}", "--object-store-memory=80000000", "--disable-usage-stats",
            f"--temp-dir={self.folder}/{host}",
        )  # fmt: skip
        if private:
            script = f'mount -t tmpfs tmpfs {private} && exec "$@"'
            command = ("unshare", "--mount", "sh", "-c", script, "sh", *command)
        # A drained node has to live until Ray Train (5 s) and the loop (5 s) have looked.
        env = {"RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "20", **env}
        node = self.started.start(command, self.folder / f"{host}.log", **env)
        until(lambda: "Ray runtime started" in node.output(), WAIT, f"node {host}\n{node.output()}")
        self.nodes.append(node)
        return node

    def train(self, log: Path, *flags: str, **env: str) -> Process:
        """Start a driver for two nodes with one rank each, as the chart does."""
        contract = {
            "RAY_ADDRESS": self.address,
            "RTD_NODES": "2",
            "RTD_GPUS_PER_NODE": "0",
            "RTD_PROCESSES_PER_NODE": "1",
            "RTD_STORAGE_KIND": "pvc",
        }
        driver = self.started.start((*TRAIN, *FLAGS, *flags), log, **{**contract, **env})
        self.drivers.append(driver)
        return driver

    def end_drivers(self) -> None:
        """End what a test left running: the ranks of its drivers would keep those of the next test waiting."""
        for driver in self.drivers:
            driver.kill()
        self.drivers.clear()
        until(lambda: not any(map(train_workers, self.nodes)), WAIT, "the ranks of ended drivers to end")


def train_workers(node: Process) -> list[int]:
    """Process ids of the ranks on a node: its descendants that Ray has titled so."""
    parents: dict[int, int] = {}
    ranks: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            title = (stat.parent / "cmdline").read_bytes()
        except OSError:
            continue  # ended meanwhile
        parents[int(stat.parent.name)] = int(parent)
        if b"RayTrainWorker" in title and state != "Z":
            ranks.append(int(stat.parent.name))

    def below(pid: int) -> bool:
        while pid > 1 and pid != node.popen.pid:
            pid = parents.get(pid, 0)
        return pid == node.popen.pid

    return [pid for pid in ranks if below(pid)]


@contextmanager
def running_head(*, cpus: int = 0) -> Iterator[Cluster]:
    """A cluster that is only its head; it ends with all nodes that joined it."""
    folder = Path(tempfile.mkdtemp(prefix="rt-", dir="/tmp"))
    started = Started()
    try:
        port = free_port()
        head = started.start(
            (
                *RAY, "start", "--head", "--block", f"--port={port}", "--node-ip-address=127.0.0.1",
                f"--num-cpus={cpus}", "--include-dashboard=false", f"--temp-dir={folder}/ray", "--disable-usage-stats",
                f"--ray-client-server-port={free_port()}", "--object-store-memory=80000000",
            ),
            folder / "head.log",
        )  # fmt: skip
        until(lambda: "Ray runtime started" in head.output(), WAIT, "the head")
        yield Cluster(started, folder, f"127.0.0.1:{port}")
    finally:
        started.end()
        shutil.rmtree(folder, ignore_errors=True)
