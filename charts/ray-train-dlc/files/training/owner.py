"""One owner of a run path: of two starts of one run at the same time, the second is refused.

The process that owns a run (the driver under Ray, else rank 0) keeps a lease there, `owner.json`, and renews it.
Whether an owner lives is seen by whether its lease changes, never by its times: clocks of machines differ. Object
stores offer no atomic create through pyarrow, so the last writer wins a race, and the loser finds another token when it
reads again.
"""

from __future__ import annotations

import json
import math
import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from training.contract import Exit, RunEndError
from training.storage import Storage
from training.topology import Place, on_rank_0

LEASE = "owner.json"
RENEW_S = 15.0
DEAD_S = 45.0  # a lease that has not changed for this long belongs to nobody
PATIENCE_S = 60.0  # a live owner may be about to end: a retry's new pods start while the old ones save a checkpoint
SETTLE_S = 1.0  # from writing a lease to reading it again: twice what may lie between another's look and its write
LATE_WRITES = 3  # a storage that is never faster is taken as it is
RELEASE_S = 10.0
POLL_S = 1.0
SAY_S = 30.0  # between two lines of a long wait


@dataclass(frozen=True)
class Lease:
    """Who owns a run path."""

    token: str
    """Unlike any other lease's."""
    name: str
    """Name of the run."""
    host: str
    """Name of the pod or machine."""
    pid: int
    machine: str
    """The space in which `pid` means something: boot and PID namespace."""
    started: int
    """Start of the process in clock ticks after boot: process ids are used again. 0 where there is no /proc."""
    since: str
    """UTC time in ISO form."""
    renewed: str
    """UTC time in ISO form; only that it changes means something."""

    @classmethod
    def of_this_process(cls, name: str) -> Lease:
        """A new one."""
        pid, host, time_ = os.getpid(), socket.gethostname(), _now()
        return cls(uuid.uuid4().hex, name, host, pid, _machine(), _started(pid) or 0, time_, time_)

    @property
    def runs_here(self) -> bool | None:
        """Whether its process is there; None when it is one of another machine, of which nothing is known."""
        return _started(self.pid) == self.started if self.machine == _machine() else None

    @property
    def text(self) -> str:
        """Who, where and since when."""
        return f"run {self.name}, process {self.pid} on {self.host}, since {self.since}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@cache
def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return socket.gethostname()


def _started(pid: int) -> int | None:
    """Start of a process that runs, 0 where that cannot be known; None when there is none, or only its remains."""
    if not Path("/proc/self/stat").exists():
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return None
        except PermissionError:
            pass
        return 0
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def read(storage: Storage) -> Lease | None:
    """The lease in a run path; None when there is none, or none that can be read.

    Raises:
        OSError: the storage cannot be read.
    """
    try:
        return Lease(**json.loads(storage.read(LEASE) or b"null"))
    except (ValueError, TypeError):
        return None


def _write(storage: Storage, lease: Lease) -> None:
    storage.write(LEASE, json.dumps(asdict(lease), indent=1).encode())


class Watch:
    """Looks at a lease again and again until it is known whether its owner lives."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._last: Lease | None = None
        self._since = self._changed = 0.0

    def look(self) -> Lease | None:
        """The lease of an owner that lives or may live; None when nobody owns the run path.

        Raises:
            OSError: the storage cannot be read.
        """
        lease, now = read(self._storage), time.monotonic()
        if lease is None or lease.runs_here is False:
            return None
        if lease != self._last:
            self._changed = now if self._last else 0.0
            self._last, self._since = lease, now
        return lease if now - self._since < DEAD_S else None

    def lives_after(self, moment: float) -> bool:
        """Whether the owner is known to have lived at a time of the monotonic clock, or later."""
        return self._last is not None and (bool(self._last.runs_here) or self._changed > moment)


class Owner:
    """This process's ownership of a run path."""

    def __init__(self, storage: Storage | None, lease: Lease) -> None:
        """Renew `lease` from now on; without a storage nothing is owned, and nothing happens."""
        self._storage = storage
        self._lease = lease
        self._done = threading.Event()
        self._renewed = time.monotonic()
        self._thread = threading.Thread(target=self._keep, name="owner of the run", daemon=True)
        if storage:
            self._thread.start()

    def _keep(self) -> None:
        assert self._storage is not None  # noqa: S101 - the thread is not started otherwise
        while not self._done.wait(RENEW_S):
            with suppress(OSError):  # the run itself judges its storage; the next renewal may be in time
                found = read(self._storage)
                # One that took over may have ended meanwhile, and its lease be gone.
                late = found is None and time.monotonic() - self._renewed > DEAD_S
                if late or (found and found.token != self._lease.token):
                    _end(self._storage, found)
                self._lease = replace(self._lease, renewed=_now())
                _write(self._storage, self._lease)
                self._renewed = time.monotonic()
        with suppress(OSError):
            found = read(self._storage)
            if found and found.token == self._lease.token:
                self._storage.delete(LEASE)

    def release(self) -> None:
        """Give the run path back; a storage that does not answer is not waited for longer than `RELEASE_S`."""
        self._done.set()
        if self._storage:
            self._thread.join(timeout=RELEASE_S)


def _end(storage: Storage, other: Lease | None) -> None:
    """End this process: what it would still write belongs to another. Ranks elsewhere end with it, as when it dies."""
    who = other.text if other else "one that has ended since"
    lost = f"{storage.root} was taken over by {who}: this process had not renewed {LEASE} for {DEAD_S:.0f} s"
    print(f"{lost}; it ends without another checkpoint", file=sys.stderr, flush=True)
    os._exit(Exit.FAILED)


def say_here(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def acquire(
    root: str,
    name: str,
    *,
    stop: Callable[[], bool] = lambda: False,
    say: Callable[[str], None] = say_here,
    patience: float | None = None,
) -> Owner:
    """Make this process the owner of the run path `root`, for the run `name`.

    It takes about a second; where another process of this machine is in the way, it is known at once whether that one
    lives, and else within `DEAD_S`.

    Args:
        stop: whether this process was asked to stop.
        say: shows a line.
        patience: seconds for which a live owner of another machine may go on; None: `PATIENCE_S`.

    Returns:
        the owner, also for a storage that cannot be read or written: `check_storage` says that better.

    Raises:
        RunEndError: another owner lives (storage, not lasting), or a request to stop (preempted).
    """
    mine = Lease.of_this_process(name)
    try:
        storage = Storage(root)
        _take(storage, mine, stop, say, PATIENCE_S if patience is None else patience)
    except (OSError, ValueError, ImportError):
        return Owner(None, mine)
    return Owner(storage, mine)


def _take(storage: Storage, mine: Lease, stop: Callable[[], bool], say: Callable[[str], None], patience: float) -> None:
    """Write the lease `mine` when nobody owns the run path, and see whether it stays.

    Two starts that both found nobody: the later write is there before the earlier one is read again, so long as every
    write follows its look closely. One that does not (a slow storage, a busy machine) may have hit an owner that looked
    already: it is taken back, and that owner has the time of some renewals to show itself.
    """
    watch = Watch(storage)
    began, told, late = time.monotonic(), False, 0
    while True:
        looked = time.monotonic()
        if not (other := watch.look()):
            _write(storage, mine)
            took = time.monotonic() - looked
            if took < SETTLE_S / 2 or late == LATE_WRITES:
                break
            late += 1
            _withdraw(storage, mine, stop)
            continue
        if stop():
            raise _stopped()
        if watch.lives_after(began + patience):
            raise _taken(storage, other)
        if not told:
            say(f"{storage.root} has an owner ({other.text}); looking whether it lives, {DEAD_S:.0f} s or more")
            told = True
        time.sleep(POLL_S)
    time.sleep(max(SETTLE_S, 2 * took))
    winner = read(storage)
    if winner and winner.token != mine.token:
        raise _taken(storage, winner)


def _withdraw(storage: Storage, mine: Lease, stop: Callable[[], bool]) -> None:
    found = read(storage)
    if found and found.token == mine.token:
        storage.delete(LEASE)
    until = time.monotonic() + 2 * RENEW_S
    while time.monotonic() < until:
        if stop():
            raise _stopped()
        time.sleep(POLL_S)


def _taken(storage: Storage, other: Lease) -> RunEndError:
    message = (
        f"{storage.root} has an owner already: {other.text}; two at a time would destroy each other's checkpoints\n"
        "wait until that one has ended, or stop it, and start this again; or give this one another run path"
    )
    return RunEndError(Exit.STORAGE, message, lasting=False)


@contextmanager
def owned_by_rank_0(root: str, name: str, place: Place, stop: Callable[[], bool]) -> Iterator[None]:
    """Rank 0 owns the run path `root` while the block runs. All ranks together.

    Raises:
        RunEndError: as `acquire`, on all ranks.
    """
    held: list[Owner] = []
    on_rank_0(place, lambda: held.append(acquire(root, name, stop=stop)))
    try:
        yield
    finally:
        for owner in held:
            owner.release()


def await_end(
    storage: Storage, *, timeout: float, stop: Callable[[], bool], say: Callable[[str], None] = say_here
) -> None:
    """Wait until nobody owns the run path of `storage`; an owner that has died is known within `DEAD_S`.

    Args:
        timeout: seconds for which a live owner may go on.
        stop: whether this process was asked to stop.
        say: shows a line, every `SAY_S` while this waits.

    Raises:
        RunEndError: the owner still lives (storage, not lasting), or a request to stop (preempted).
        OSError: the storage cannot be read.
    """
    watch = Watch(storage)
    began, said = time.monotonic(), -math.inf
    while other := watch.look():
        now = time.monotonic()
        if stop():
            raise _stopped()
        if now - began >= timeout and watch.lives_after(began):
            message = (
                f"{storage.root} is still training ({other.text}) after {timeout:.0f} s of waiting for its end "
                "(resume_timeout)\nstop it or wait for its end, and start this again; or set resume_timeout higher"
            )
            raise RunEndError(Exit.STORAGE, message, lasting=False)
        if now - said >= SAY_S:
            say(f"waiting for the end of {storage.root}, {now - began:.0f} of {timeout:.0f} s: {other.text}")
            said = now
        time.sleep(POLL_S)


def _stopped() -> RunEndError:
    return RunEndError(Exit.PREEMPTED, "asked to stop before the training began")
