"""What a run leaves of itself: the run record `run.json` and its curves. Rank 0 writes them."""

from __future__ import annotations

import contextlib
import datetime
import json
import math
import platform
import threading
import time
from importlib import metadata
from typing import Any

from training.config import Config
from training.contract import Exit
from training.curves import loss_svg, throughput_svg
from training.storage import Storage
from training.topology import Place

RECORD = "run.json"
CURVE = "loss.svg"
THROUGHPUT = "throughput.svg"
REFUSAL = "refused.json"
EXPORT = "export"
WRITE_S, WRITE_REMOTE_S = 2.0, 30.0  # at most this often while the run goes on


def now() -> str:
    """UTC time in ISO form, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that decide a result."""
    found = {"python": platform.python_version()}
    for name in ("torch", "ray", "transformers"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


class RunRecord:
    """`run.json`: written as a whole every few seconds, so that a killed run leaves its steps.

    A run that goes on takes over the steps up to its checkpoint; those after it are trained again.
    """

    def __init__(self, storage: Storage, *, name: str, config: Config) -> None:
        self._storage = storage
        self._written = 0.0
        self._cost = 0.0
        self._writer: threading.Thread | None = None
        old = read(storage) or {}
        if not old:
            _keep_unreadable(storage)
        self.content: dict[str, Any] = {
            "version": 1,
            "run": {
                "name": name,
                "path": storage.root,
                "state": "running",
                "started": old.get("run", {}).get("started", now()),
                "ended": None,
                "attempts": [*old.get("run", {}).get("attempts", []), {"started": now(), "resumedAt": 0}],
            },
            "configuration": config.as_dict(),
            "versions": versions(),
            "ending": None,
            "topology": {},
            "steps": old.get("steps", []),
            "intervals": old.get("intervals", []),
            "validation": old.get("validation", []),
            "export": old.get("export"),
        }

    def begin(self, *, step: int, source: str, topology: dict[str, Any], facts: dict[str, Any]) -> None:
        """Training starts after `step`, from the checkpoint in `source` (empty: from nothing)."""
        for kind in ("steps", "intervals", "validation"):
            self.content[kind] = [entry for entry in self.content[kind] if entry["step"] <= step]
        self.content["run"]["attempts"][-1].update({"resumedAt": step, "resumedFrom": source or None})
        self.content.update(topology=topology, **facts)
        self.write(force=True)

    def add(self, *, step: int, loss: float, seconds: float, tokens: int, gradient_norm: float, lr: float) -> None:
        """One optimiser step; `seconds` is its wall time, `tokens` those of all ranks."""
        self.content["steps"].append(
            {
                "step": step,
                "loss": loss,
                "seconds": round(seconds, 6),
                "tokensPerSecond": round(tokens / seconds, 1),
                "gradientNorm": gradient_norm,
                "learningRate": lr,
            }
        )
        self.write()

    def add_interval(self, step: int, numbers: dict[str, float], network: list[dict[str, Any]]) -> None:
        """Numbers of a progress line (`pace.Pace.interval`), and what each node's interfaces have carried since."""
        names = {"mfu": "mfu", "nic_gbps": "nicGbps", "memory_bytes": "memoryBytes"}
        told = {names[name]: value for name, value in numbers.items() if name in names}
        self.content["intervals"].append({"step": step, **told, "network": network})

    def add_validation(self, step: int, loss: float) -> None:
        """Loss on held-out data after `step`, in nats per token."""
        self.content["validation"].append({"step": step, "loss": loss if math.isfinite(loss) else None})

    def add_export(self, step: int, dtype: str, path: str, *, complete: bool) -> None:
        """The model after `step` becomes a Hugging Face directory, or is one now."""
        self.content["export"] = {"step": step, "dtype": dtype, "path": path, "complete": complete}
        self.write(force=True)

    def end(self, state: str, code: Exit, message: str) -> None:
        """The run has ended as `state` (`finished`, `preempted`, `failed`)."""
        self.content["run"].update(state=state, ended=now())
        self.content["run"]["attempts"][-1].update(ended=now(), state=state)
        self.content["ending"] = {"code": int(code), "message": message}
        self.write(force=True)

    def write(self, *, force: bool = False, wait: bool = True) -> None:
        """Write record and curve, unless that was done just now; takes at most half a percent of the run's time.

        For an address that is done beside the training, which a storage that does not answer must not hold.

        Args:
            force: also when that was done just now.
            wait: with `force`, until it is done; else only for an earlier one.

        Raises:
            OSError: the storage refuses; only when waited for, as a run does not stop for a missed line of its record.
        """
        start = time.monotonic()
        pause = WRITE_REMOTE_S if self._storage.remote else WRITE_S
        if not force and (start - self._written < max(pause, 200 * self._cost) or self._busy()):
            return
        files = _files(self.content)
        if self._writer:
            self._writer.join()  # two writers at once could leave the older record
        if force and wait:
            _write(self._storage, files)
        elif self._storage.remote:
            self._writer = threading.Thread(target=self._try, args=(files,), name="run record", daemon=True)
            self._writer.start()
        else:
            self._try(files)
        self._written = time.monotonic()
        self._cost = self._written - start

    def _busy(self) -> bool:
        return self._writer is not None and self._writer.is_alive()

    def _try(self, files: dict[str, bytes]) -> None:
        with contextlib.suppress(OSError):
            _write(self._storage, files)


def _keep_unreadable(storage: Storage) -> None:
    """Keep a record of another version, or one that a crash has broken, under another name; a run writes its own."""
    with contextlib.suppress(OSError):
        if found := storage.read(RECORD):
            storage.write(f"{RECORD}.unreadable", found)


def write(storage: Storage, content: dict[str, Any]) -> None:
    """Write a record and its curves.

    Raises:
        OSError: the storage refuses.
    """
    _write(storage, _files(content))


def _files(content: dict[str, Any]) -> dict[str, bytes]:
    """A record and its curves, as files by name."""
    return {
        RECORD: json.dumps(content, indent=1).encode(),
        CURVE: loss_svg(content).encode(),
        THROUGHPUT: throughput_svg(content).encode(),
    }


def _write(storage: Storage, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        storage.write(name, data)


def read(storage: Storage) -> dict[str, Any] | None:
    """The run record in a run path, or None when there is none of the form that `RunRecord` writes."""
    try:
        content = json.loads(storage.read(RECORD) or b"null")
    except (ValueError, RecursionError):
        return None
    match content:
        case {
            "version": 1,
            "run": {"state": str(), "started": str(), "ended": _, "attempts": list()},
            "configuration": {"steps": int()},
            "steps": list(steps),
        } if all(_is_step(s) for s in steps):
            lists = (content.get(name, []) for name in ("intervals", "validation"))
            if all(isinstance(found, list) and all(map(_has_step, found)) for found in lists):
                return dict(content)
    return None


def _is_step(step: object) -> bool:
    match step:
        case {"step": int(), "loss": int() | float() as loss}:
            return -1e9 < loss < 1e9  # and not NaN, which the curve cannot show
    return False


def _has_step(entry: object) -> bool:
    match entry:
        case {"step": int(), "loss": int() | float() | None} | {"step": int(), "network": list()}:
            return True
    return False


def export_due(storage: Storage, config: Config, record: dict[str, Any] | None) -> bool:
    """Whether the finished model is wanted in the run path and not there, by its record and what lies there.

    Raises:
        OSError: the storage cannot be read.
    """
    wanted = config.checkpoints.export
    if wanted == "none":
        return False
    match (record or {}).get("export"):
        case {"step": int(step), "dtype": str(dtype), "complete": True} if (
            step >= config.schedule.steps and dtype == wanted
        ):
            return storage.read(f"{EXPORT}/config.json") is None
    return True


def close_record(storage: Storage, state: str, code: Exit, message: str) -> None:
    """Put an ending into the record of a run whose rank 0 could not do it, because it was lost."""
    content = read(storage)
    if content and content["run"]["state"] == "running":
        content["run"].update(state=state, ended=now())
        content["ending"] = {"code": int(code), "message": message}
        storage.write(RECORD, json.dumps(content, indent=1).encode())


def refuse(storage: Storage, code: Exit, message: str) -> None:
    """Leave the marker of an ending that a retry cannot mend; a storage that cannot hold it is no further harm."""
    marker = {"code": int(code), "message": message, "time": now()}
    with contextlib.suppress(OSError):
        storage.write(REFUSAL, json.dumps(marker, indent=1).encode())


def refusal(storage: Storage) -> tuple[Exit, str] | None:
    """The marker of an earlier ending of this run that a retry cannot mend.

    Raises:
        OSError: the storage cannot be read.
    """
    data = storage.read(REFUSAL)
    if data is None:
        return None
    try:
        marker = json.loads(data)
        code, when, message = Exit(marker["code"]), marker["time"], marker["message"]
        if code == Exit.DONE:
            raise ValueError(code)
    except (ValueError, KeyError, TypeError, RecursionError):
        return Exit.STORAGE, (
            f"refused: {storage.path(REFUSAL)} tells of an earlier ending but cannot be read; delete it to start again"
        )
    return code, (
        f"refused: this run ended at {when} in a way that a retry cannot mend:\n{message}\n"
        f"when the cause is gone, delete {storage.path(REFUSAL)} or start under a new run id"
    )


def topology(places: list[Place], *, gpus_per_node: int, backend: str, sharding: str) -> dict[str, Any]:
    """The part of the record that says where the ranks ran."""
    nodes = len({p.node_rank for p in places})
    return {
        "worldSize": len(places),
        "nodes": nodes,
        "processesPerNode": len(places) // nodes,
        "gpusPerNode": gpus_per_node,
        "backend": backend,
        "sharding": sharding,
        "ranks": [
            {"rank": p.rank, "nodeRank": p.node_rank, "localRank": p.local_rank, "nodeIp": p.host} for p in places
        ],
    }
