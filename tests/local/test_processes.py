"""Nothing that was started is left, however its starter ends. Real processes, no Ray."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from generator.local.errors import LocalError
from generator.local.processes import Processes
from tests.local.drive import ROOT

# What Ray does in small: a child in the same session, an orphan in a session of its own, and a child that ignores
# SIGTERM and has no environment that could identify it, as after setproctitle. Each writes its pid.
_TREE = """
import os, signal, subprocess, sys, time
out = sys.argv[1]
SLEEP = "import os,sys,time; open(sys.argv[1] + '/' + str(os.getpid()), 'w').close(); time.sleep(300)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEP
subprocess.Popen([sys.executable, "-c", SLEEP, out])
subprocess.Popen([sys.executable, "-c", DEAF, out], env={"PATH": ""})
if os.fork() == 0:
    os.setsid()
    subprocess.Popen([sys.executable, "-c", DEAF, out], env={}, start_new_session=True)
    os._exit(0)
open(out + "/" + str(os.getpid()), "w").close()
time.sleep(300)
"""


def _alive(pids: list[int]) -> list[int]:
    """Those of `pids` that run; zombies do not."""
    found = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
        except OSError:
            continue
        if state not in (b"Z", b"X"):
            found.append(pid)
    return found


def _wait(condition: Callable[[], bool], limit: float = 20) -> None:
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, f"not within {limit} s"
        time.sleep(0.05)


@pytest.fixture
def out(tmp_path: Path) -> Iterator[Path]:
    """Folder in which each process of the tree leaves its pid; what is left at the end is killed."""
    folder = tmp_path / "pids"
    folder.mkdir()
    (tmp_path / "scratch").mkdir()
    yield folder
    for pid in _alive(_pids(folder)):
        os.kill(pid, signal.SIGKILL)


def _pids(folder: Path) -> list[int]:
    return [int(entry.name) for entry in folder.iterdir()]


def _start(folder: Path) -> Processes:
    base = folder.parent
    processes = Processes(base / "scratch", base / "supervisor.log")
    processes.start([sys.executable, "-c", _TREE, str(folder)], env={}, cwd=base, log=base / "tree.log")
    _wait(lambda: len(_pids(folder)) == 4)
    return processes


def test_close_ends_the_whole_tree_and_removes_the_scratch_folder(out: Path) -> None:
    processes = _start(out)
    assert set(_pids(out)) <= processes.alive()
    assert processes.close() == set()
    assert _alive(_pids(out)) == []
    assert not (out.parent / "scratch").exists()
    assert processes.close() == set(), "a second time is fine"
    assert (out.parent / "supervisor.log").read_text() == ""


def test_what_is_killed_leaves_no_zombie(out: Path) -> None:
    processes = _start(out)
    children = set(_pids(out))
    processes.close()
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]


def test_a_killed_starter_leaves_nothing(out: Path) -> None:
    program = f"""
import sys, time
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from tests.local.test_processes import _start
_start(Path({str(out)!r}))
print("up", flush=True)
time.sleep(300)
"""
    starter = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True)
    assert starter.stdout is not None
    with starter.stdout:
        assert starter.stdout.readline() == b"up\n"
    assert len(_alive(_pids(out))) == 4
    starter.kill()
    starter.wait()
    _wait(lambda: not _alive(_pids(out)))
    _wait(lambda: not (out.parent / "scratch").exists())


def test_a_killed_supervisor_is_noticed_and_its_processes_end(out: Path) -> None:
    processes = _start(out)
    os.kill(processes.pid, signal.SIGKILL)
    with pytest.raises(LocalError, match="supervisor"):
        _wait(lambda: processes.exited() is None)
    # The tree's leader had asked the kernel for SIGTERM at its parent's death; the sessions of the others are known
    # through it, but for the orphan without an environment: nobody can know that one any more.
    processes.close()
    assert len(_alive(_pids(out))) <= 1


def test_exit_codes_are_reported_and_a_missing_program_is_an_error(out: Path) -> None:
    base = out.parent
    processes = Processes(base / "scratch", base / "supervisor.log")
    try:
        pid = processes.start(
            [sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ))); raise SystemExit(7)"],
            env={"ONLY": "this"},
            cwd=base,
            log=base / "log",
        )
        _wait(lambda: pid in processes.exited())
        assert processes.exited() == {pid: 7}
        given = json.loads((base / "log").read_text())
        assert given.pop("RTD_LOCAL_ID") == processes.marker
        assert given.pop("LC_CTYPE", "") is not None
        assert given == {"ONLY": "this"}
        with pytest.raises(LocalError, match="cannot start /nonexistent/ray"):
            processes.start(["/nonexistent/ray"], env={}, cwd=base, log=base / "log")
    finally:
        assert processes.close() == set()


def test_sigint_keeps_its_default_in_what_is_started(out: Path) -> None:
    base = out.parent
    processes = Processes(base / "scratch", base / "supervisor.log")
    try:
        code = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
        pid = processes.start([sys.executable, "-c", code], env={}, cwd=base, log=base / "log")
        _wait(lambda: pid in processes.exited())
        assert (base / "log").read_text() == "True\n"
    finally:
        processes.close()
