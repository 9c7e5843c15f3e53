"""Run `local` as a process, as a user does, and look for what it leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What a user's shell may hold; none of it may reach the run.
_SHELL = {
    "RAY_ADDRESS": "192.0.2.1:6379",
    "RAY_AUTH_TOKEN": "of-another-cluster",
    "PYTHONPATH": "/nonexistent",
    "SECRET_OF_SHELL": "1",
    "HTTP_PROXY": "http://192.0.2.1:9",
    "http_proxy": "http://192.0.2.1:9",
}
# A shell starts what it puts into the background with SIGINT ignored, all children inherit that, and Python leaves it
# so: tests in the background would start a run that Ctrl-C does not reach. A user's is in the foreground.
_PROGRAM = """
import signal, sys
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, sys.argv[1])
from generator.local.run import main_local
sys.exit(main_local(Path(sys.argv[1]), "tiny", Path("unused"), [], "ray-train", "tiny", Path(sys.argv[3]),
                    Path(sys.argv[2]), float(sys.argv[4]), fresh=sys.argv[5] == "fresh"))
"""


class Drive:
    """One run of `local`, in its own process and session."""

    def __init__(self, manifests: Path, work_dir: Path, *, timeout: float, fresh: bool) -> None:
        self.work_dir = work_dir
        self._output = manifests.with_suffix(".log")
        arguments = [str(ROOT), str(manifests), str(work_dir), str(timeout), "fresh" if fresh else "keep"]
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **_SHELL},
                cwd=manifests.parent,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        return self._output.read_text(errors="replace")

    def wait(self, limit: float = 300) -> int:
        """Exit code of the run."""
        return self.process.wait(limit)

    def wait_for(self, text: str, limit: float = 240) -> None:
        """Wait until the output holds `text`."""
        deadline = time.monotonic() + limit
        while text not in self.output:
            assert self.process.poll() is None, f"ended before {text!r}:\n{self.output}"
            assert time.monotonic() < deadline, f"no {text!r} within {limit} s:\n{self.output}"
            time.sleep(0.2)

    def left(self) -> list[str]:
        """Live processes that belong to the run: by their folder, or by a path of the run in their command line.

        Found in another way than the code under test does: every Ray process runs in its pod's folder.
        """
        mark = str(self.work_dir).encode()
        found: list[str] = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) in (os.getpid(), self.process.pid):
                continue
            try:
                command = (entry / "cmdline").read_bytes()
                folder = os.fsencode((entry / "cwd").readlink())
            except OSError:
                continue  # gone, or a zombie
            if mark in command or folder.startswith(mark):
                found.append(f"{entry.name} {command.replace(bytes(1), b' ').decode(errors='replace').strip()[:120]}")
        return found

    def wait_until_gone(self, limit: float) -> float:
        """Seconds until no process of the run is left; fails after `limit`."""
        began = time.monotonic()
        while left := self.left():
            assert time.monotonic() - began < limit, f"left after {limit} s:\n" + "\n".join(left)
            time.sleep(0.2)
        return time.monotonic() - began

    def kill(self) -> None:
        """End the run in any case, for the end of a test."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(60)
        self.wait_until_gone(60)
