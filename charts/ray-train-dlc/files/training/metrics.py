"""What a run tells: the progress line, the run record `run.json` and the curve `loss.svg`. Rank 0 writes them."""

from __future__ import annotations

import contextlib
import datetime
import html
import json
import math
import platform
import time
from importlib import metadata
from typing import Any

from training.config import Config
from training.contract import Exit
from training.storage import Storage
from training.topology import Place

RECORD = "run.json"
CURVE = "loss.svg"
REFUSAL = "refused.json"
WRITE_S, WRITE_REMOTE_S = 2.0, 30.0  # at most this often while the run goes on


def now() -> str:
    """UTC time in ISO form, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def progress_line(*, step: int, steps: int, loss: float, lr: float, tokens_per_second: float, step_time: float) -> str:
    """One line per interval; its form is part of the contract, other programs read it."""
    pace = f"tokens/s {tokens_per_second:.0f}  step_time {step_time:.3f}"
    return f"step {step}/{steps}  loss {loss:.4f}  lr {lr:.1e}  {pace}"


def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that decide a result."""
    found = {"python": platform.python_version()}
    for name in ("torch", "ray", "transformers"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


class Pace:
    """Mean step time since the last progress line. A process's first step has a line, so an interval, of its own."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.last = 0.0
        self._times: list[float] = []

    def add(self, seconds: float) -> None:
        """Wall time of one more step."""
        self.last = seconds
        self._times.append(seconds)

    def restart(self) -> None:
        """Begin a new interval."""
        self._times.clear()

    @property
    def step_time(self) -> float:
        """Seconds per step."""
        return sum(self._times) / len(self._times)

    @property
    def tokens_per_second(self) -> float:
        """Tokens of all ranks per second."""
        return self.tokens / self.step_time


class RunRecord:
    """`run.json`: written as a whole every few seconds, so that a killed run leaves its steps.

    A run that goes on takes over the steps up to its checkpoint; those after it are trained again.
    """

    def __init__(self, storage: Storage, *, name: str, config: Config) -> None:
        self._storage = storage
        self._written = 0.0
        self._cost = 0.0
        old = read(storage) or {}
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
        }

    def begin(self, *, step: int, source: str, topology: dict[str, Any], facts: dict[str, Any]) -> None:
        """Training starts after `step`, from the checkpoint in `source` (empty: from nothing)."""
        self.content["steps"] = [s for s in self.content["steps"] if s["step"] <= step]
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

    def end(self, state: str, code: Exit, message: str) -> None:
        """The run has ended as `state` (`finished`, `preempted`, `failed`)."""
        self.content["run"].update(state=state, ended=now())
        self.content["run"]["attempts"][-1].update(ended=now(), state=state)
        self.content["ending"] = {"code": int(code), "message": message}
        self.write(force=True)

    def write(self, *, force: bool = False) -> None:
        """Write record and curve, unless that was done just now; takes at most half a percent of the run's time.

        Raises:
            OSError: the storage refuses; only with `force`, for a run does not stop for one missed line of its record.
        """
        start = time.monotonic()
        pause = WRITE_REMOTE_S if self._storage.remote else WRITE_S
        if not force and start - self._written < max(pause, 200 * self._cost):
            return
        try:
            self._storage.write(RECORD, json.dumps(self.content, indent=1).encode())
            self._storage.write(CURVE, loss_svg(self.content).encode())
        except OSError:
            if force:
                raise
        self._written = time.monotonic()
        self._cost = self._written - start


def read(storage: Storage) -> dict[str, Any] | None:
    """The run record in a run path, or None when there is none of the form that `RunRecord` writes."""
    try:
        content = json.loads(storage.read(RECORD) or b"null")
    except ValueError:
        return None
    match content:
        case {
            "run": {"state": str(), "started": str(), "ended": _, "attempts": list()},
            "configuration": {"steps": int()},
            "steps": list(steps),
        } if all(_is_step(s) for s in steps):
            return dict(content)
    return None


def _is_step(step: object) -> bool:
    match step:
        case {"step": int(), "loss": int() | float() as loss}:
            return -1e9 < loss < 1e9  # and not NaN, which the curve cannot show
    return False


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
    except (ValueError, KeyError, TypeError):
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


def _ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers between `low` and `high`, at most `most` + 1 of them."""
    rough = max(high - low, 1e-9) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step: float = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def loss_svg(record: dict[str, Any]) -> str:
    """The loss over the steps as a small picture, readable on light and dark pages.

    Args:
        record: content of a run record; `data.entropy`, when there, is drawn as the lowest reachable loss.
    """
    width, height, left, right, top, bottom = 720, 380, 64, 20, 44, 52
    points = [(int(s["step"]), float(s["loss"])) for s in record["steps"]]
    floor = record.get("data", {}).get("entropy")
    last = max([p[0] for p in points] + [2])
    losses = [p[1] for p in points] + ([floor] if floor else []) or [0.0, 1.0]
    low: float = min(losses)
    high: float = max(losses)
    pad = 0.05 * (high - low or 1.0)
    low, high = low - pad, high + pad

    def x(step: float) -> float:
        return left + (step - 1) / (last - 1) * (width - left - right)

    def y(loss: float) -> float:
        return top + (high - loss) / (high - low) * (height - top - bottom)

    name = html.escape(f"{record['run']['name']} · {record['configuration']['preset']}")
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="Training loss over optimiser steps of {name}">',
        "<style>text{font:13px system-ui,sans-serif;fill:#333}.t{font-weight:600;font-size:15px}.g{stroke:#ccc}"
        ".a{stroke:#666}.l{fill:none;stroke:#0b63c5;stroke-width:2}.p{fill:#0b63c5}"
        ".f{stroke:#b3540a;stroke-dasharray:6 4}.b{fill:#fff}"
        "@media (prefers-color-scheme:dark){text{fill:#ddd}.g{stroke:#444}.a{stroke:#999}"
        ".l{stroke:#6db3ff}.p{fill:#6db3ff}.f{stroke:#ffb066}.b{fill:#161b22}}</style>",
        f'<rect class="b" width="{width}" height="{height}"/><text class="t" x="{left}" y="26">Loss, {name}</text>',
    ]
    for value in _ticks(low, high, 6):
        out.append(f'<line class="g" x1="{left}" x2="{width - right}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>')
        out.append(f'<text x="{left - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.4g}</text>')
    for value in [t for t in _ticks(1, last, 8) if t == int(t)]:
        out.append(f'<path class="a" d="M{x(value):.1f} {height - bottom}v5"/>')
        out.append(f'<text x="{x(value):.1f}" y="{height - bottom + 20}" text-anchor="middle">{value:.0f}</text>')
    out.append(f'<path class="a" fill="none" d="M{left} {top}V{height - bottom}H{width - right}"/>')
    if floor:
        out.append(f'<line class="f" x1="{left}" x2="{width - right}" y1="{y(floor):.1f}" y2="{y(floor):.1f}"/>')
        out.append(
            # The curve falls towards the line: the upper right corner is the one place that it never reaches.
            f'<text x="{width - right}" y="{top + 14}" text-anchor="end">'
            f"dashed: entropy of the data, {floor:.3f}, the lowest reachable loss</text>"
        )
    if points:
        out.append(f'<polyline class="l" points="{" ".join(f"{x(s):.1f},{y(v):.1f}" for s, v in points)}"/>')
        for s, v in points[:: max(1, len(points) // 100)]:
            tip = f"<title>step {s}: {v:.4f}</title>"
            out.append(f'<circle class="p" cx="{x(s):.1f}" cy="{y(v):.1f}" r="2.5">{tip}</circle>')
    middle = (left + width - right) / 2
    out.append(f'<text x="{middle:.0f}" y="{height - 12}" text-anchor="middle">optimiser step</text>')
    out.append(
        f'<text transform="translate(18 {(top + height - bottom) / 2:.0f}) rotate(-90)" text-anchor="middle">'
        "cross entropy per token (nats)</text></svg>\n"
    )
    return "\n".join(out)
