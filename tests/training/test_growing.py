"""A training on a Ray cluster that is too small yet asks for its nodes, as Ray's autoscaler would see it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.training.processes import environment, until
from tests.training.raycluster import WAIT, running_head

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_installed")]
STATUS = """
import json, sys
from ray.autoscaler.v2.sdk import get_cluster_status
demands = get_cluster_status(sys.argv[1]).resource_demands.placement_group_demand
print(json.dumps([[d.strategy, [[b.bundle, b.count] for b in d.bundles_by_count]] for d in demands]))
"""


def demands(address: str) -> list[Any]:
    """What the autoscaler reads: strategy, and bundles with their number, of each placement group that waits."""
    done = subprocess.run(
        [sys.executable, "-c", STATUS, address], capture_output=True, text=True, check=True, env=environment()
    )
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.full
def test_missing_nodes_are_asked_for_and_the_training_goes_on_when_they_come(tmp_path: Path) -> None:
    with running_head() as cluster:
        cluster.join("127.0.0.22")
        driver = cluster.train(
            tmp_path / "log", "--steps=3", f"--start-timeout={WAIT}", RTD_RUN_PATH=str(tmp_path / "run")
        )
        found = until(lambda: demands(cluster.address), WAIT, f"a demand\n{driver.output()}")
        assert found == [["STRICT_SPREAD", [[{"CPU": 1.0}, 2]]]]
        cluster.join("127.0.0.23")
        assert driver.wait(WAIT) == 0, driver.output()
        assert "2 ranks on 2 nodes" in driver.output()
        # One that gives up takes its demand back.
        small = cluster.train(
            tmp_path / "small", "--start-timeout=5", RTD_NODES="3", RTD_RUN_PATH=str(tmp_path / "other")
        )
        assert small.wait(WAIT) == 5, small.output()
        assert demands(cluster.address) == []
