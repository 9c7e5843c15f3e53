"""Checkpoints to an address, beside the training: local folder, one thread per rank, and the marker at the end.

Each rank's thread uploads the files that the rank wrote. Rank 0's thread then waits until the files of all ranks lie in
the storage with their sizes, and completes the checkpoint. The threads call no collective, which would mix with those
of the training: what became of an upload the ranks tell each other in `Upload.finish`.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from training.storage import Storage
from training.topology import Place, gather

PATIENCE_S = 300.0  # how long a storage that answers with errors is tried again
QUIET_S = 600.0  # after that long without an answer the storage counts as gone; one request may hang for 100 s
SETTLE_S = 60.0  # how long files that were all uploaded may be missing in the storage's listing
LONGEST_PAUSE_S = 30.0
LOOK_S = 2.0  # between two looks for the files of the other ranks
POLL_S = 1.0  # how often ranks that wait tell each other how far they are
PREFIX = "ray-train-checkpoint-"

_log = logging.getLogger(__name__)


def scratch() -> Path:
    """Folder for local copies: the pod's own disk (RTD_SCRATCH), else the system's temporary folder (TMPDIR)."""
    given = os.environ.get("RTD_SCRATCH", "").strip()
    if given and os.access(given, os.W_OK | os.X_OK):
        return Path(given)
    return Path(tempfile.gettempdir())


class LocalFolder:
    """A folder of this process on the local disk. A lock on it, which ends with the process, says that it is in use."""

    def __init__(self) -> None:
        """Make it.

        Raises:
            OSError: the disk is full, or cannot be written.
        """
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=scratch()))
            self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # `remove_left` of another process was quicker than the lock
                os.close(self._lock)
                continue
            except OSError:  # a file system without locks, where `remove_left` removes nothing
                return
            if self.path.is_dir():
                return
            os.close(self._lock)

    def remove(self) -> None:
        """Remove it with its content."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def remove_left() -> None:
    """Remove the local folders of processes that were killed. Processes that run keep theirs."""
    for path in scratch().glob(f"{PREFIX}*"):
        with suppress(OSError):  # in use, another user's, or just removed
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)


class Upload:
    """One rank's part of a checkpoint on its way to the storage."""

    def __init__(
        self,
        storage: Storage,
        name: str,
        local: LocalFolder,
        place: Place,
        *,
        sizes: dict[str, int],
        complete: Callable[[], None],
    ) -> None:
        """Start to upload the files of `local` to the folder `name`; the local folder is removed at the end.

        Args:
            sizes: bytes of every file of the checkpoint, those of all ranks.
            complete: writes the marker; rank 0 calls it when all files are there, again after an OSError.
        """
        self._storage, self._name, self._local = storage, name, local
        self._place, self._sizes, self._complete = place, sizes, complete
        self._problem = ""
        self._alone = threading.Event()  # the other ranks are done
        self._given_up = threading.Event()
        self._heard = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"upload of {name}", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Wait until the checkpoint is complete. All ranks together, with short collectives, however long it takes.

        Raises:
            OSError: a rank failed for good, or hears nothing from the storage; on all ranks, with each one's cause.
        """
        while True:
            self._thread.join(POLL_S)
            alive = self._thread.is_alive()
            if alive and time.monotonic() - self._heard > QUIET_S:
                self._fail(f"the storage has not answered for {QUIET_S:.0f} s")
            told: list[tuple[bool, str]] = gather((alive, self._problem))
            if problems := [problem for _, problem in told if problem]:
                self._given_up.set()
                raise OSError("\n".join(problems))
            busy = [working for working, _ in told]
            if not any(busy):
                return
            if not any(busy[1:]):
                self._alone.set()

    def _run(self) -> None:
        try:
            for file in sorted(self._local.path.iterdir()):
                self._patiently(partial(self._send, file))
            if self._place.rank == 0:
                self._await_files()
                self._patiently(self._complete)
        except Exception as error:  # every rank must hear of it, whatever it was
            self._fail(f"{type(error).__name__}: {error}")
        finally:
            self._local.remove()

    def _send(self, file: Path) -> None:
        self._storage.upload(file, f"{self._name}/{file.name}", tick=self._tick, tries=1)

    def _fail(self, cause: str) -> None:
        who = f"rank {self._place.rank} on {self._place.host}"
        self._problem = self._problem or f"{who} cannot save {self._storage.path(self._name)}: {cause}"

    def _tick(self) -> None:
        self._heard = time.monotonic()

    def _patiently(self, action: Callable[[], None]) -> None:
        """Run `action`, again after errors of the storage, with growing pauses."""
        first, pause = None, 1.0
        while True:
            try:
                action()
                return
            except FileNotFoundError:  # no bucket, or no local file: that does not pass
                raise
            except OSError as error:
                self._tick()
                first = first or time.monotonic()
                if time.monotonic() + pause - first > PATIENCE_S:
                    raise
                _log.warning("upload to %s: %s; trying again", self._storage.path(self._name), error)
                if self._given_up.wait(pause):
                    raise
                pause = min(2 * pause, LONGEST_PAUSE_S)
            finally:
                self._tick()

    def _await_files(self) -> None:
        """Wait until the files of all ranks are there.

        Raises:
            OSError: some are missing though all ranks are done, or this was given up.
        """
        since, pause = None, 0.1
        while missing := self._missing():
            if self._alone.is_set():
                since = since or time.monotonic()
                if time.monotonic() - since > SETTLE_S:
                    raise OSError(f"uploaded {SETTLE_S:.0f} s ago and not there: {', '.join(missing)}")
            if self._given_up.wait(pause):
                raise OSError(f"given up while waiting for {', '.join(missing)}")
            pause = min(2 * pause, LOOK_S)

    def _missing(self) -> list[str]:
        """Files that are not there with their size."""
        there: dict[str, int] = {}
        self._patiently(lambda: there.update({n: size for n, size, _ in self._storage.files(self._name)}))
        return sorted(n for n, size in self._sizes.items() if there.get(n) != size)
