"""Start, watch and wait for processes. Standard library only: the bench's first processes use it too."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from tests.cluster.bench.layout import BenchError

T = TypeVar("T")


# Settings of the person's own tools: proxies, another cluster, another containerd.
_FOREIGN = ("ETCD_", "HELM_", "KUBE", "CONTAINERD_", "CONTAINER_RUNTIME_")


def search_path() -> str:
    """Where programs are looked for: those of a daemon are not on everybody's PATH."""
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def environment() -> dict[str, str]:
    """This process's environment without what would lead the bench's programs elsewhere."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.upper().endswith("_PROXY") and not name.startswith(_FOREIGN)
    }
    return {**kept, "PATH": search_path()}


def run(*command: str | Path, text: str = "", timeout_s: float = 60, check: bool = True) -> str:
    """Standard output of a command.

    Raises:
        BenchError: it failed, or did not end in time.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            input=text,
            capture_output=True,
            encoding="utf-8",
            errors="replace",  # a pod may print anything
            timeout=timeout_s,
            check=False,
            env=environment(),
        )
    except FileNotFoundError as missing:
        raise BenchError(f"{words[0]} is not installed") from missing
    except subprocess.TimeoutExpired as late:
        raise BenchError(f"`{' '.join(words)}` did not end within {timeout_s:g} s") from late
    if check and done.returncode:
        raise BenchError(f"`{' '.join(words)}` ended with {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def start(command: Sequence[str | Path], log: Path, *, cwd: Path | None = None) -> subprocess.Popen[bytes]:
    """Start a component in a session of its own, with all that it prints in `log`."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment(),
            cwd=cwd,
            start_new_session=True,
        )


def wait_for(
    what: str, check: Callable[[], T | None], *, timeout_s: float, every_s: float = 0.3, hint: Callable[[], str] = str
) -> T:
    """The first result of `check` that is true.

    Args:
        what: for the message, as in "waited 30 s for …".
        check: may raise BenchError to give up at once.
        hint: more for the message, such as the last state seen.

    Raises:
        BenchError: it did not come within `timeout_s` seconds.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        result = check()
        if result:
            return result
        if time.monotonic() > deadline:
            more = hint()
            raise BenchError(f"waited {timeout_s:g} s for {what}" + (f"; {more}" if more else ""))
        time.sleep(every_s)


def last_lines(log: Path, count: int = 15) -> str:
    """The end of a log, for an error message."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return "(no log)"
    return "\n".join(lines[-count:]) or "(an empty log)"
