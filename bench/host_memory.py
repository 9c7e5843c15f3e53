"""Host memory of a training's processes, by what they are: the figures behind `generator/plan/host.py`.

    python bench/host_memory.py results.json [flags of training.train]

Runs `python -m training.train` and reads the proportional set size (PSS: shared pages count once over all who share
them) of every process that it starts, Ray's own included, until it ends. Linux only.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import uuid
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAUSE_S = 0.5
MARK = "RTD_BENCH_MARK"


def name_of(command: str) -> str:
    """What a process is, by its command line."""
    known = {
        "ray::": "ray worker with a rank" if "RayTrainWorker" in command else "other ray worker",
        "gcs_server": "gcs",
        "raylet ": "raylet",
        "dashboard/dashboard.py": "dashboard",
        "dashboard/agent.py": "dashboard agent",
        "runtime_env/agent": "runtime env agent",
        "log_monitor": "log monitor",
        "monitor.py": "autoscaler monitor",
        "ray-dashboard": "dashboard modules",
        "training.train": "driver, or a rank without Ray",
    }
    return next((name for part, name in known.items() if part in command), "other")


def sample(mark: str) -> dict[str, list[int]]:
    """Name → PSS in bytes of each process that bears the mark."""
    found: dict[str, list[int]] = defaultdict(list)
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdigit() and mark in (folder / "environ").read_text(errors="replace"):
                command = (folder / "cmdline").read_text(errors="replace").replace("\0", " ")
                pss = re.search(r"^Pss: +(\d+) kB", (folder / "smaps_rollup").read_text(), re.MULTILINE)
                found[name_of(command)].append(int(pss[1]) * 1024 if pss else 0)
    return found


def main(target: Path, flags: list[str]) -> None:
    mark = uuid.uuid4().hex
    env = {**os.environ, MARK: mark}
    process = subprocess.Popen([sys.executable, "-m", "training.train", *flags], cwd=ROOT, env=env)
    peak: dict[str, tuple[int, int]] = {}
    whole = 0
    while process.poll() is None:
        now = sample(mark)
        whole = max(whole, sum(map(sum, now.values())))
        for name, sizes in now.items():
            peak[name] = max(peak.get(name, (0, 0)), (max(sizes), len(sizes)))
        time.sleep(PAUSE_S)
    result = {
        "flags": flags,
        "exitCode": process.returncode,
        "wholeMiB": whole >> 20,
        "largestMiB": {name: size >> 20 for name, (size, _) in sorted(peak.items())},
        "processes": {name: count for name, (_, count) in sorted(peak.items())},
    }
    target.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
