"""The starter's side of `supervisor`: start nodes, see which ended, end all of them."""

from __future__ import annotations

import contextlib
import json
import secrets
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from generator.local import supervisor
from generator.local.errors import TOOL_FAILED, LocalError

_CLOSE_SECONDS = 30


class Processes:
    """All processes of one cluster, below one supervisor.

    Args:
        scratch: folder that the supervisor removes at the end.
        log: file for the supervisor's own errors.
        hold: file descriptors that stay open until everything has ended (the work folder's lock).
    """

    def __init__(self, scratch: Path, log: Path, hold: Sequence[int] = ()) -> None:
        self.marker = secrets.token_hex(8)
        self._leaders: list[int] = []
        self._left: set[int] | None = None
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", supervisor.__file__, self.marker, str(scratch)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # Ctrl-C in the terminal must not reach it
                pass_fds=tuple(hold),
            )

    @property
    def pid(self) -> int:
        """Process id of the supervisor."""
        return self._process.pid

    def start(self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: Path) -> int:
        """Start one process as the leader of its own session; returns its pid.

        Raises:
            LocalError: the program cannot be executed, or the supervisor is gone.
        """
        answer = self._ask({"start": {"argv": list(argv), "env": dict(env), "cwd": str(cwd), "log": str(log)}})
        if "error" in answer:
            raise LocalError(f"cannot start {answer['error']}", exit_code=TOOL_FAILED)
        pid = int(answer["pid"])
        self._leaders.append(pid)
        return pid

    def exited(self) -> dict[int, int]:
        """Exit codes of the started processes that have ended, by pid."""
        return {int(pid): int(code) for pid, code in self._ask({"poll": True})["exited"].items()}

    def stop(self) -> None:
        """End everything that was started; more can be started afterwards."""
        self._ask({"stop": True})

    def alive(self) -> set[int]:
        """Pids of all live processes of the cluster, the supervisor not counted."""
        return supervisor.members(self.pid, self._leaders, self.marker)

    def close(self) -> set[int]:
        """End every process of the cluster; returns the pids that could not be ended. May be called again.

        Bounded by half a minute, and not cut short by Ctrl-C: the supervisor finishes in any case.
        """
        if self._left is not None:
            return self._left
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: S101  # both are pipes
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        deadline = time.monotonic() + _CLOSE_SECONDS
        while self._process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(KeyboardInterrupt):
                time.sleep(0.05)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        # Nothing is left by now, unless the supervisor was killed: then this is the second line.
        self._left = supervisor.sweep(None, self._leaders, self.marker, grace=2)
        return self._left

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: S101  # both are pipes
        line = b""
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        if not line:
            raise LocalError("the supervisor of the local Ray processes has ended unexpectedly", exit_code=TOOL_FAILED)
        answer = json.loads(line)
        assert isinstance(answer, dict)  # noqa: S101  # the protocol
        return answer
