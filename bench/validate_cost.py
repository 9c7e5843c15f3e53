"""What `validate demo` costs beside importing its libraries, and whether that is at most 2.5 times as much.

Both commands run in turn, A B A B …, so that a machine that gets slower slows both. Wall time and CPU time (user and
system, of the process itself) are recorded; the ratio of the medians of CPU time decides, because other programs on the
machine stretch the wall time of each run differently.

    python bench/validate_cost.py [--runs N]

Prints the figures, adds `bench/results/<date>-validate-cost.json`, and exits with 1 when the ratio is above the limit.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from machine import machine

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).resolve().parent / "results"
LIMIT = 2.5
COMMANDS = {
    "validate": ("-m", "generator", "validate", "demo"),
    "imports": ("-c", "import pydantic, ruamel.yaml, jinja2"),
}


def timed(arguments: tuple[str, ...]) -> tuple[float, float]:
    """Wall and CPU seconds of one run.

    Raises:
        RuntimeError: the command failed.
    """
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *arguments], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"python {' '.join(arguments)} ended with {process.returncode}")
    return wall, usage.ru_utime + usage.ru_stime


def measure(runs: int) -> dict[str, dict[str, list[float]]]:
    """Seconds of each run, by command and clock; one run of each beforehand is not counted."""
    seconds: dict[str, dict[str, list[float]]] = {name: {"wall": [], "cpu": []} for name in COMMANDS}
    for number in range(runs + 1):
        for name, arguments in COMMANDS.items():
            wall, cpu = timed(arguments)
            if number:
                seconds[name]["wall"].append(round(wall, 4))
                seconds[name]["cpu"].append(round(cpu, 4))
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=15, help="counted runs of each command (default: %(default)s)")
    runs = parser.parse_args().runs
    if runs < 15:
        parser.error("fewer than 15 runs say nothing")
    load_before = os.getloadavg()[0]
    seconds = measure(runs)
    medians = {name: {c: statistics.median(v) for c, v in clocks.items()} for name, clocks in seconds.items()}
    ratio = {clock: medians["validate"][clock] / medians["imports"][clock] for clock in ("wall", "cpu")}
    now = datetime.now(UTC)
    record = {
        "date": now.isoformat(timespec="seconds"),
        "commands": {name: ["python", *arguments] for name, arguments in COMMANDS.items()},
        "machine": machine(load_before),
        "seconds": seconds,
        "medians": medians,
        "ratio": {clock: round(value, 3) for clock, value in ratio.items()},
        "limit": LIMIT,
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{now:%Y-%m-%d}-validate-cost.json"
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    for name, clocks in seconds.items():
        for clock, values in clocks.items():
            print(f"{name:<8} {clock:<4} s  median {medians[name][clock]:.3f}  {' '.join(f'{v:.3f}' for v in values)}")
    print(f"ratio     cpu {ratio['cpu']:.2f}, wall {ratio['wall']:.2f}; the limit is {LIMIT} (cpu)")
    print(
        f"{os.cpu_count()} cores, Python {platform.python_version()}, load {load_before:.1f}; {path.relative_to(ROOT)}"
    )
    return 0 if ratio["cpu"] <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
