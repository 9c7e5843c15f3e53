"""docs/examples/own_training.py as the chart starts it, on a real Ray cluster: a head without CPUs and two nodes."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chart.cases import one, with_key
from tests.docs.blocks import documents
from tests.helm import ROOT
from tests.project_pods import environment, project
from tests.training.conftest import require
from tests.training.processes import Process, until
from tests.training.raycluster import WAIT, Cluster, running_head, train_workers

pytestmark = pytest.mark.ray
ENDLESS = 10**8


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Head and two worker nodes."""
    require("torch", "ray")
    with running_head() as made:
        made.join("127.0.0.2")
        made.join("127.0.0.3")
        yield made


def drive(cluster: Cluster, folder: Path, number: int, steps: int) -> Process:
    """Start the driver with the command and the variables of the page's values, on CPUs and with its own `steps`.

    Different steps are different jobs to the chart; here they share a run path, as tries of one job do.
    """
    values: dict[str, Any] = dict(documents("own-code.md", "own-values.yaml")[0][0])
    values = with_key(values, "training.args.steps", steps)
    cpus = {"replicas": 2, "gpus": 0, "processesPerNode": 1, "resources": {"cpu": "1", "memory": "1Gi"}}
    job = one("RayJob", with_key(values, "workerGroups", {"cpu": cpus}))
    head = environment(project(job)[0])
    env = {name: value for name, value in head.items() if name.startswith("RTD_")}
    assert env["RTD_RUN_PATH"] == f"/mnt/ray-train/cluster/ray-train/{env['RTD_RUN_NAME']}"
    env["RTD_RUN_PATH"] = str(folder / "run")
    python, *words = shlex.split(job["spec"]["entrypoint"])
    assert python == "python"
    driver = cluster.started.start(
        (sys.executable, *words),
        folder / f"{number}.log",
        **env,
        RAY_ADDRESS=cluster.address,
        PYTHONPATH=str(ROOT / "docs/examples"),
    )
    cluster.drivers.append(driver)
    return driver


def loss_lines(driver: Process) -> list[int]:
    """Steps of the checkpoints that rank 0 has told of."""
    return [int(step) for step in re.findall(r"step (\d+)/\d+  loss", driver.output())]


def resumed(driver: Process) -> list[int]:
    """Steps of the checkpoints that the ranks began with; Ray may show a line twice."""
    return sorted({int(step) for step in re.findall(r"resumed after step (\d+)", driver.output())})


def test_it_trains_and_resumes(cluster: Cluster, tmp_path: Path) -> None:
    first = drive(cluster, tmp_path, 1, 40)
    assert first.wait(WAIT) == 0, first.output()
    assert set(loss_lines(first)) == {20, 40}
    assert "finished: {'step': 40, 'loss': " in first.output()
    states = sorted(tmp_path.glob("run/checkpoint_*/state.pt"))
    assert len(states) == 2

    second = drive(cluster, tmp_path, 2, ENDLESS)

    def seen(condition: Callable[[], bool], what: str) -> None:
        until(lambda: condition() or second.popen.poll() is not None, WAIT, f"{what}, see {second.log}")
        assert condition(), second.output()

    seen(lambda: resumed(second) == [40], "the resume in another driver")
    # Ray Train takes reports one at a time: of the first of these it knows by the last.
    seen(lambda: max(loss_lines(second), default=0) >= 120, "later checkpoints")
    (victim,) = train_workers(cluster.nodes[1])
    os.kill(victim, signal.SIGKILL)  # Ray Train starts both ranks again
    seen(lambda: max(resumed(second)) > 40, "the resume after a lost rank")
