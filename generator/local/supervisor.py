"""The parent of every process of one local Ray cluster. When it ends, none of them is left.

Run as a program of its own (`python -I -S supervisor.py MARKER SCRATCH`), standard library only. It reads one JSON
request per line from its standard input and answers each with one line:

    {"start": {"argv": [...], "env": {...}, "cwd": "...", "log": "..."}}   ->  {"pid": 4711}
    {"poll": true}                                                       ->  {"exited": {"4711": 1}}
    {"stop": true}                                                       ->  {"left": []}

`stop` ends everything that was started. At the end of its input it does the same, removes SCRATCH, answers
`{"left": [...]}` and exits. The input is a pipe that only the starter holds, so this happens however the starter ends:
return, Ctrl-C, or SIGKILL.

Why a process of its own: Ray's processes start others, in other process groups, some of which overwrite their
environment (`setproctitle`), so that neither a process group nor an environment variable finds them all. As a child
subreaper (Linux) this process inherits every orphan, so the tree below it is complete. The session ids of what it
started and a marker variable are further ways to find them, for the starter when this process itself was killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

MARKER_VARIABLE = "RTD_LOCAL_ID"
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_OPEN_FILES = 65536  # what KubeRay sets before `ray start`
_LINUX = sys.platform.startswith("linux")


def processes() -> dict[int, tuple[int, int, int]]:
    """All live processes: pid -> (parent, process group, session); zombies are left out."""
    table: dict[int, tuple[int, int, int]] = {}
    if not _LINUX:
        listing = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid=,pgid=,stat="],
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
        )
        for line in listing.stdout.splitlines():
            pid, parent, group, state = line.split(None, 3)
            if not state.startswith("Z"):
                table[int(pid)] = (int(parent), int(group), int(group))
        return table
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name in parentheses may hold spaces and parentheses of its own.
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue  # gone since the listing
        if fields[0] not in (b"Z", b"X"):
            table[int(entry.name)] = (int(fields[1]), int(fields[2]), int(fields[3]))
    return table


def members(root: int | None, leaders: Iterable[int], marker: str) -> set[int]:
    """Processes of one cluster: below `root`, in a session or group of `leaders`, or with the marker variable.

    Args:
        root: the supervisor's pid, never part of the answer; None when it is gone.
        leaders: pids that were started as leaders of their own session.
        marker: value of the marker variable.
    """
    table = processes()
    leading = set(leaders)
    found = {pid for pid, (_, group, session) in table.items() if group in leading or session in leading}
    found |= {pid for pid in table if _carries(pid, marker)}
    below = {root} if root is not None else set()
    below |= found
    grew = True
    while grew:
        more = {pid for pid, (parent, _, _) in table.items() if parent in below} - below
        below |= more
        grew = bool(more)
    return below - {root, os.getpid()}


def _carries(pid: int, marker: str) -> bool:
    """Whether a process was started with the marker variable."""
    if not _LINUX:
        return False
    try:
        return f"{MARKER_VARIABLE}={marker}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def sweep(root: int | None, leaders: Iterable[int], marker: str, *, grace: float = 5, limit: float = 15) -> set[int]:
    """End every process of one cluster; returns those that could not be ended.

    SIGTERM goes to the leaders alone (`ray start --block` then ends what it started, in order); SIGKILL follows for
    all that is left after `grace` seconds. Bounded by `grace + limit` seconds.
    """
    started = list(leaders)
    alive = members(root, started, marker)
    _signal([pid for pid in started if pid in alive], signal.SIGTERM)
    deadline = time.monotonic() + grace
    while (alive := members(root, started, marker)) and time.monotonic() < deadline:
        _reap(None)
        time.sleep(0.1)
    deadline = time.monotonic() + limit
    while alive and time.monotonic() < deadline:
        _signal(alive, signal.SIGKILL)
        time.sleep(0.1)
        _reap(None)
        alive = members(root, started, marker)
    return alive


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


_CHILDREN_ARE_OURS = False  # set in the supervisor's own process: nobody else waits for children there


def _reap(codes: dict[int, int] | None) -> None:
    """Collect ended children, inherited orphans included, so that none stays as a zombie."""
    if not _CHILDREN_ARE_OURS:
        return
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if codes is not None:
            codes[pid] = os.waitstatus_to_exitcode(status)


class Supervisor:
    """The request loop."""

    def __init__(self, marker: str, scratch: str) -> None:
        self._marker = marker
        self._scratch = scratch
        self._started: list[subprocess.Popen[bytes]] = []
        self._codes: dict[int, int] = {}
        self._libc = ctypes.CDLL(None, use_errno=True) if _LINUX else None
        if self._libc is not None:
            self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
        if soft < wanted:
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

    def serve(self) -> None:
        """Answer requests until the input ends."""
        pending = b""
        while True:
            readable, _, _ = select.select([0], [], [], 0.5)
            _reap(self._codes)
            if not readable:
                continue
            chunk = os.read(0, 65536)
            if not chunk:
                return
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                _answer(self._handle(json.loads(line)))

    def _handle(self, request: dict[str, Any]) -> dict[str, Any]:
        if "start" in request:
            try:
                return {"pid": self._start(**request["start"])}
            except OSError as error:
                return {"error": f"{request['start']['argv'][0]}: {error.strerror}"}
        if "stop" in request:
            return {"left": sorted(self._sweep())}
        known = {process.pid for process in self._started}
        return {"exited": {str(pid): code for pid, code in self._codes.items() if pid in known}}

    def _start(self, argv: list[str], env: dict[str, str], cwd: str, log: str) -> int:
        def die_with_parent() -> None:
            # Only for the case that this process is killed with SIGKILL: it cannot sweep then.
            if self._libc is not None:
                self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)

        with Path(log).open("ab") as output:
            process = subprocess.Popen(
                argv,
                env={**env, MARKER_VARIABLE: self._marker},
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509  # this process has one thread
            )
        self._started.append(process)
        return process.pid

    def _sweep(self) -> set[int]:
        return sweep(os.getpid(), [process.pid for process in self._started], self._marker)

    def close(self) -> set[int]:
        """Stop everything and remove the scratch folder."""
        left = self._sweep()
        shutil.rmtree(self._scratch, ignore_errors=True)
        return left


def _answer(message: dict[str, Any]) -> None:
    # The starter may be gone; then nobody reads, and cleaning up goes on all the same.
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(message).encode() + b"\n")


def main() -> int:
    global _CHILDREN_ARE_OURS  # noqa: PLW0603  # one process, one role
    _CHILDREN_ARE_OURS = True
    marker, scratch = sys.argv[1:3]
    for number in (signal.SIGINT, signal.SIGHUP):
        # A handler that does nothing, not SIG_IGN: what is started here would inherit that one.
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    supervisor = Supervisor(marker, scratch)
    try:
        supervisor.serve()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _answer({"left": sorted(supervisor.close())})
    return 0


if __name__ == "__main__":
    sys.exit(main())
