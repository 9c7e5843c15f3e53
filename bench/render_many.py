"""What `render --check` of many environments costs, beside `helm template` of each, and how it grows.

A project of N environments, ten on each cluster, copies of what `new` writes. In turn, round by round: one
`render --check` of 200 environments (their values and the ClusterConfigs of their clusters), 200 × `helm template` of
the chart with these values, and one `render --check` of 2,000 environments. CPU time (user and system, of the processes
themselves) decides, because other programs on the machine stretch the wall time.

    python bench/render_many.py [--rounds N]

Prints the figures, adds `bench/results/<date>-render-many.json`, and exits with 1 when 200 × helm is less than 5 times
as expensive, or when an environment among 2,000 costs more than 1.5 times as much as one among 200.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from machine import machine

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).resolve().parent / "results"
SIZES = (200, 2000)
PER_CLUSTER = 10
FASTER, STEEPER = 5.0, 1.5


def project(root: Path, environments: int) -> list[Path]:
    """Write and render a project: copies of what `new` writes under other names. Returns the folders."""
    from generator.cli import main

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        (root / "environments").mkdir(parents=True)
        main(["new", "first-environment", "--root", str(root), "--cluster", "first-cluster"])
        first, clusters = root / "environments/first-environment", root / "environments/_clusters"
        texts = {path.name: path.read_text(encoding="utf-8") for path in first.iterdir()}
        cluster_text = (clusters / "first-cluster.yaml").read_text(encoding="utf-8")
        shutil.rmtree(first)
        shutil.rmtree(clusters)
        clusters.mkdir()
        folders = []
        for number in range(environments):
            name, cluster = f"env-{number:04d}", f"cluster-{number // PER_CLUSTER:03d}"
            names = (("first-environment", name), ("first-cluster", cluster))
            folders.append(first.with_name(name))
            folders[-1].mkdir()
            for file, text in texts.items():
                (folders[-1] / file).write_text(_renamed(text, names), encoding="utf-8")
            (clusters / f"{cluster}.yaml").write_text(_renamed(cluster_text, names), encoding="utf-8")
        if main(["render", "--root", str(root)]):
            raise RuntimeError("render failed")
    return folders


def _renamed(text: str, names: tuple[tuple[str, str], ...]) -> str:
    for old, new in names:
        text = text.replace(old, new)
    return text


def timed(commands: list[list[str]]) -> tuple[float, float]:
    """Wall and CPU seconds of commands, one after the other.

    Raises:
        subprocess.CalledProcessError: one of them failed.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    for command in commands:
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    from generator.tools import find

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="counted rounds (default: %(default)s)")
    rounds = parser.parse_args().rounds
    helm = str(find("helm"))
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="render-many-") as folder:
        commands: dict[str, list[list[str]]] = {}
        for size in SIZES:
            root = Path(folder, str(size))
            folders = project(root, size)
            commands[f"check {size}"] = [[sys.executable, "-m", "generator", "render", "--check", "--root", str(root)]]
            if size == SIZES[0]:
                commands[f"helm {size}"] = [
                    [helm, "template", one.name, str(ROOT / "charts/ray-train-dlc")]
                    + [f"--values={one}/{name}" for name in ("generated/values.yaml", "version.yaml")]
                    for one in folders
                ]
        seconds: dict[str, dict[str, list[float]]] = {name: {"wall": [], "cpu": []} for name in commands}
        for _ in range(rounds):
            for name, listed in commands.items():
                wall, cpu = timed(listed)
                seconds[name]["wall"].append(round(wall, 3))
                seconds[name]["cpu"].append(round(cpu, 3))
    medians = {name: {c: statistics.median(v) for c, v in clocks.items()} for name, clocks in seconds.items()}
    small, large = (f"check {size}" for size in SIZES)
    ratios = {
        clock: {
            "helmToCheck": round(medians[f"helm {SIZES[0]}"][clock] / medians[small][clock], 2),
            "perEnvironmentLargeToSmall": round(
                medians[large][clock] / SIZES[1] / (medians[small][clock] / SIZES[0]), 3
            ),
        }
        for clock in ("wall", "cpu")
    }
    now = datetime.now(UTC)
    commit = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    record = {
        "date": now.isoformat(timespec="seconds"),
        "commit": commit,
        "machine": machine(load_before),
        "seconds": seconds,
        "medians": medians,
        "ratios": ratios,
        "limits": {"helmToCheck": FASTER, "perEnvironmentLargeToSmall": STEEPER},
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{now:%Y-%m-%d}-render-many.json"
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    for name, clocks in seconds.items():
        print(f"{name:<11}  cpu {medians[name]['cpu']:8.2f} s  wall {medians[name]['wall']:8.2f} s  {clocks['cpu']}")
    print(json.dumps(ratios["cpu"]))
    good = ratios["cpu"]["helmToCheck"] >= FASTER and ratios["cpu"]["perEnvironmentLargeToSmall"] <= STEEPER
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
