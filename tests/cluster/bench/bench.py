"""Start a bench, use it, end it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from tests.cluster.bench import addons, cgroups, images, pki, prerequisites
from tests.cluster.bench.cluster import Cluster
from tests.cluster.bench.hardware import Node, nodes_of
from tests.cluster.bench.layout import ROOT, BenchError, Layout
from tests.cluster.bench.processes import last_lines, start, wait_for
from tests.cluster.tools import build

PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kubectl",
    "helm",
)
START_S = 180
NODES_READY_S = 120
END_S = 30
Say = Callable[[str], None]


class FolderInUseError(BenchError):
    """A bench runs in this working folder, or is being started there."""


def _quietly(_text: str) -> None:
    """Say nothing."""


class Bench(Cluster):
    """One bench, running or not.

    Attributes:
        files: its files.
        environment: name of the environment whose cluster it is.
        nodes: the nodes, in the order of their index.
    """

    def __init__(self, environment: str = "demo", files: Layout | None = None, *, nodes: Sequence[Node] = ()) -> None:
        """`nodes`: instead of those of the environment's ClusterConfig."""
        self.files = files or Layout.default()
        self.environment = environment
        self.nodes = list(nodes) or nodes_of(environment)
        self._process: subprocess.Popen[bytes] | None = None
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Bench:
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self.down()

    # -- start and end

    def up(self, *, owned: bool = True, say: Say = _quietly) -> None:
        """Start it, clean up after one that was killed, and return when everything is ready.

        Args:
            owned: it ends with this process, whatever ends that.
            say: is told what is being done.

        Raises:
            BenchError: this machine lacks something, a bench runs in this folder already, or a part did not come up;
                the message then names the folder with the logs.
            build.BuildError: a program cannot be built.
        """
        prerequisites.check(self.files)
        try:
            self.files.folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise BenchError(f"{self.files.folder} cannot be made ({problem.strerror}); set BENCH_DIR") from None
        try:
            with self._claimed() as claim:
                self._clear()
                shutil.rmtree(self.files.logs, ignore_errors=True)
                self._prepare(say)
                say("starting the control plane and the nodes")
                self._start(claim, owned)
            self._wait_until_ready(say)
        except (BenchError, build.BuildError, KeyboardInterrupt) as problem:
            if self._process is None:
                raise  # nothing of ours runs
            self.collect("start", ("kube-system", addons.OPERATOR_NAMESPACE))
            with contextlib.suppress(BenchError):  # the first problem is the one to tell
                self.down()
            if isinstance(problem, KeyboardInterrupt):
                raise
            raise BenchError(f"{problem}\nlogs of every component: {self.files.logs}") from problem
        self.files.ready.touch()

    def down(self) -> None:
        """End it and remove what it left, also when it was killed or never came up. The logs stay.

        It is the bench that this object started; when it started none, the one that runs in the folder.

        Raises:
            BenchError: something of it cannot be ended or removed, or another process is just starting one there.
        """
        own = self._process
        if pid := own.pid if own else self._pid() or self._lost():
            # The first process goes with unshare, and with it the namespace and every process in it. The id of an own
            # process is not used again before `_reap`.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in filter(None, (own, *self._started)):
            _reap(process)
        self._process, self._started = None, []
        if not self.files.lock.is_file():
            return

        def cleared() -> bool:
            if own and self._pid():
                return True  # somebody ended ours and started another
            try:
                with self._claimed():
                    self._clear()
            except FolderInUseError:
                return False
            return True

        def holders() -> str:
            found = ", ".join(map(str, _holders(self.files.lock)))
            return f"{self.files.lock} is held by {found or 'another process'}, which starts one: end that first"

        wait_for("the bench's processes to end", cleared, timeout_s=END_S, hint=holders)

    def runs(self) -> bool:
        """Whether its processes are there, ready or not."""
        if not self.files.lock.is_file():
            return False
        try:
            with self._claimed():
                return False
        except FolderInUseError:
            return True

    def state(self) -> dict[str, Any]:
        """What its first process reports: `phase`, `problem`, `running` and `ended` components."""
        state: dict[str, Any] = {"phase": "not started", "problem": "", "running": {}, "ended": {}}
        with contextlib.suppress(OSError, ValueError):  # ValueError: damaged, as after a full disk
            loaded = json.loads(self.files.state.read_text(encoding="utf-8"))
            if isinstance(loaded, dict) and loaded.keys() >= state.keys():
                return loaded
        return state

    def check(self) -> None:
        """See that every component still runs.

        Raises:
            BenchError: one has ended; with the end of its log.
        """
        state = self.state()
        for component, status in state["ended"].items():
            log = last_lines(self.files.log(component))
            raise BenchError(f"{component} ended with {status} (logs: {self.files.logs}):\n{log}")
        if not self.runs():
            raise BenchError(f"the bench does not run ({state['phase']}; logs: {self.files.logs})")
        if state["phase"] != "running" or not (self._process or self.files.ready.exists()):
            raise BenchError(
                f"the bench in {self.files.folder} is being started, or its start was stopped half way: wait until "
                "`make cluster-up` has ended, or end it with `make cluster-down`"
            )

    # -- processes inside

    def inside(self, *command: str, node: str = "") -> list[str]:
        """A command line that runs `command` as root in the bench or on one of its nodes: to look round, to break it.

        Raises:
            BenchError: the bench or the node does not run.
        """
        into = ["nsenter", "--mount", "--net", "--pid", "--uts", "--ipc"]
        words = [*into, f"--target={self.first_process()}", "--"]
        if node:
            pid = self.state()["running"].get(f"node-{node}")
            if pid is None:
                raise BenchError(f"there is no node {node}; there are {', '.join(n.name for n in self.nodes)}")
            words += [*into, f"--target={pid}", "--"]
        return [*words, *command]

    def start_inside(self, component: str, *command: str) -> subprocess.Popen[bytes]:
        """Start a process in the bench's own namespaces, with what it prints in the component's log.

        Raises:
            BenchError: the bench does not run.
        """
        process = start(self.inside(*command), self.files.log(component))
        self._started.append(process)
        return process

    # -- parts of up

    def _prepare(self, say: Say) -> None:
        say("building what is not in the cache")
        programs = {name: str(build.program(name)) for name in PROGRAMS} | {"runc": prerequisites.runc()}
        say("making the images")
        version = yaml.safe_load(
            (ROOT / "environments" / self.environment / "version.yaml").read_text(encoding="utf-8")
        )
        ray_image = f"{version['image']['repository']}:{version['image']['tag']}"
        made = images.prepare(self.files.images, ray_image)
        for folder in (self.files.run, self.files.logs, self.files.shared):
            folder.mkdir()
        self.files.shared.chmod(0o777)
        archive = self.files.run / "images.tar"
        images.write_archive(archive, made)
        pki.write(self.files, self.nodes)
        plan = {
            "nodes": [node.as_dict() for node in self.nodes],
            "programs": programs,
            "archive": str(archive),
            "images": [{"name": i.name, "root": str(i.root), "marker": i.marker} for i in made],
        }
        self.files.plan.write_text(json.dumps(plan, indent=1), encoding="utf-8")
        self.files.programs.mkdir()
        for name in ("kubectl", "helm"):
            (self.files.programs / name).symlink_to(programs[name])

    def _start(self, claim: int, owned: bool) -> None:
        """Start the first process. It holds the lock on `claim` from now on, and the lock ends with it."""
        namespaces = ("--mount", "--net", "--uts", "--ipc", "--pid")
        command = [
            *("unshare", *namespaces, "--fork", "--kill-child", "--mount-proc", "--propagation", "private"),
            *(sys.executable, "-m", "tests.cluster.bench.machine", str(self.files.folder)),
            *(["--with-owner"] if owned else []),
        ]
        with self.files.log("machine").open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if owned else subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                pass_fds=[claim],
                start_new_session=True,
            )
        self._process = process  # keeps its standard input open; it ends when that is closed
        part = self.files.pid.with_suffix(".part")
        part.write_text(f"{process.pid} {_started_at(process.pid)}\n", encoding="utf-8")
        part.replace(self.files.pid)

    def _wait_until_ready(self, say: Say) -> None:
        def up() -> bool:
            state = self.state()
            if state["phase"] == "failed":
                raise BenchError(state["problem"])
            if state["phase"] != "running" and not self.runs():
                raise BenchError(f"the first process has ended:\n{last_lines(self.files.log('machine'))}")
            return bool(state["phase"] == "running")

        wait_for("the control plane", up, timeout_s=START_S)
        say("installing DNS, NetworkPolicy, the device plugins and the KubeRay operator")
        addons.install(self)
        self.wait_for(f"{len(self.nodes)} nodes to be ready", self._all_ready, timeout_s=NODES_READY_S)
        say("waiting for them")
        addons.wait(self)
        self.wait_for("the nodes' devices", self._devices_offered, timeout_s=NODES_READY_S)

    def _all_ready(self) -> bool:
        found = self.objects("nodes")
        ready = [c["status"] for node in found for c in node["status"]["conditions"] if c["type"] == "Ready"]
        return ready == ["True"] * len(self.nodes)

    def _devices_offered(self) -> bool:
        offered = {node["metadata"]["name"]: node["status"]["allocatable"] for node in self.objects("nodes")}
        return all(
            int(offered[node.name].get(resource, 0)) == count
            for node in self.nodes
            for resource, count in (("nvidia.com/gpu", node.gpus), ("vpc.amazonaws.com/efa", node.efa))
        )

    # -- processes and files

    @contextlib.contextmanager
    def _claimed(self) -> Iterator[int]:
        """Hold the lock of this folder.

        Raises:
            FolderInUseError: a bench runs there.
        """
        try:
            opened = os.open(self.files.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise BenchError(f"{self.files.folder} cannot be used ({problem.strerror}); set BENCH_DIR") from None
        # The first process inherits it: it must not be one of the standard streams, as where those are closed.
        descriptor = fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, 3)
        os.close(opened)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FolderInUseError(
                    f"a bench runs in {self.files.folder} already: make cluster-down ends it"
                ) from None
            yield descriptor
        finally:
            os.close(descriptor)

    def _pid(self) -> int | None:
        """Process id of unshare, the parent of the first process; None when it is not there any more."""
        try:
            number, started = self.files.pid.read_text(encoding="utf-8").split()
            pid = int(number)
        except (OSError, ValueError):  # ValueError: damaged
            return None
        return pid if _started_at(pid) == started else None

    def _lost(self) -> int | None:
        """The same where the file with it is damaged: of those that hold the lock, the one that is unshare."""
        for pid in _holders(self.files.lock):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if words[0] == b"unshare" and str(self.files.folder).encode() in words:
                    return pid
        return None

    def first_process(self) -> int:
        pid = self._pid()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split() if pid else []
        if not children:
            raise BenchError("the bench does not run: make cluster-up starts it")
        return int(children[0])

    def _clear(self) -> None:
        """Remove what an ended bench left, but for its images."""
        left = cgroups.remove(self.files.identity)
        if left:
            raise BenchError(f"cannot remove the control group {left[0]}: a process of it is still there")
        shutil.rmtree(self.files.run, ignore_errors=True)
        if self.files.run.exists():
            raise BenchError(f"cannot remove {self.files.run}: is a folder of it still in use?")


def _reap(process: subprocess.Popen[bytes]) -> None:
    try:
        process.communicate(timeout=END_S)
    except subprocess.TimeoutExpired as late:
        raise BenchError(f"process {process.pid} was killed and has not ended within {END_S} s") from late


def _holders(lock: Path) -> list[int]:
    """Processes that have a file open."""
    found = []
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if link.readlink() == lock:
                found.append(int(link.parts[2]))
    return sorted(set(found))


def _started_at(pid: int) -> str:
    """When a process started, in clock ticks; with its id a name that is never used again. Empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except (FileNotFoundError, ProcessLookupError):
        return ""
