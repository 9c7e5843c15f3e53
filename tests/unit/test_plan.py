"""Prices: sums of components, with what is unknown said."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from generator.catalog import instance_types
from generator.plan.plan import Plan, plan
from generator.plan.report import as_json
from generator.plan.text import as_text
from generator.project import Project
from generator.resolve import resolve
from tests.project import edited, make

ROOT = Path(__file__).resolve().parents[2]
TODAY = date(2026, 10, 1)


def planned(root: Path, **replaced: str) -> Plan:
    """The plan of the demo environment of the fixtures, with some of its files replaced."""
    loaded = Project(make(root, **replaced)).load("demo")
    assert loaded.environment.model is not None and loaded.cluster is not None
    return plan(resolve(loaded.environment.model, loaded.cluster.model), TODAY)


def components(one: Plan) -> dict[str, Any]:
    return {c["name"]: c["usdPerHour"] for c in as_json(one)["cost"]["components"]}


def test_the_demo_costs_what_its_parts_cost() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "generator", "plan", "demo", "--output", "json"],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    found = json.loads(run.stdout)
    assert found["cost"]["usdPerHour"] == pytest.approx(2 * 4.6016 + 0.2016 + 0.10 + 0.045, abs=1e-9)
    assert found["cost"]["complete"] is True
    assert sum(c["usdPerHour"] for c in found["cost"]["components"]) == pytest.approx(found["cost"]["usdPerHour"])
    assert (found["gpus"], found["ranks"], found["nodes"]["workers"], found["nodes"]["system"]) == (8, 8, 2, 1)
    group = found["nodes"]["groups"]["gpu"]
    assert (group["cpuPerPod"], group["memoryPerPod"], group["efaInterfacesPerNode"]) == (46, "160Gi", 1)


def test_every_component_is_its_quantity_times_its_price(tmp_path: Path) -> None:
    for c in planned(tmp_path).cost.components:
        assert c.usd_per_hour == pytest.approx(c.quantity * (c.usd_per_hour_each or 0))


def test_a_capacity_block_has_its_own_price(tmp_path: Path) -> None:
    text = (
        edited("environment.yaml", "g6.12xlarge", "p5.48xlarge")
        .replace("gpusPerNode: 4", "gpusPerNode: 8")
        .replace("{kind: onDemand}", "{kind: capacityBlock, id: cr-0123456789abcdef0}")
    )
    each = instance_types()["p5.48xlarge"].capacity_block_usd_per_hour
    assert each is not None and each != instance_types()["p5.48xlarge"].usd_per_hour["us-west-2"]
    found = as_json(planned(tmp_path, environment=text))
    assert found["cost"]["components"][0]["usdPerHour"] == pytest.approx(2 * each)
    assert found["cost"]["components"][0]["note"] == "Capacity Block, paid up front"


def test_a_capacity_block_without_a_price_is_not_taken_as_on_demand(tmp_path: Path) -> None:
    text = edited("environment.yaml", "{kind: onDemand}", "{kind: capacityBlock, id: cr-0123456789abcdef0}")
    found = as_json(planned(tmp_path, environment=text))  # no block price for g6
    assert found["cost"]["components"][0]["usdPerHour"] is None
    assert found["cost"]["complete"] is False


def test_an_unknown_price_is_said_and_left_out_of_the_sum(tmp_path: Path) -> None:
    text = edited("cluster.yaml", "region: us-west-2", "region: eu-central-1")
    one = planned(tmp_path, cluster=text)
    found = as_json(one)
    assert found["cost"]["complete"] is False
    assert found["cost"]["usdPerHour"] == pytest.approx(0.145)
    assert "unknown" in as_text(one)
    assert "0.1450 and what is unknown" in as_text(one)


def test_of_an_existing_cluster_only_the_workers_are_counted(tmp_path: Path) -> None:
    one = planned(tmp_path, cluster=edited("cluster.yaml", "managed: eksctl", "managed: existing"))
    assert list(components(one)) == ["workers `gpu`, g6.12xlarge"]
    assert as_json(one)["cost"]["usdPerHour"] == pytest.approx(9.2032)
    assert any("exists already" in note for note in as_json(one)["cost"]["notes"])


def test_spot_is_an_upper_bound_and_says_so(tmp_path: Path) -> None:
    one = planned(tmp_path, environment=edited("environment.yaml", "{kind: onDemand}", "{kind: spot}"))
    assert as_json(one)["cost"]["components"][0]["note"] == "spot: at most"
    assert any("spot" in note for note in as_json(one)["cost"]["notes"])


def test_this_machine_costs_nothing() -> None:
    loaded = Project(ROOT).load("local")
    assert loaded.environment.model is not None and loaded.cluster is not None
    found = as_json(plan(resolve(loaded.environment.model, loaded.cluster.model)))
    assert (found["cost"]["usdPerHour"], found["cost"]["complete"]) == (0.0, True)
    assert found["ranks"] == 4


def test_the_text_names_the_same_total(tmp_path: Path) -> None:
    one = planned(tmp_path)
    text = as_text(one)
    assert "in all" in text
    assert f"{as_json(one)['cost']['usdPerHour']:9.4f}" in text
    assert all(line == line.rstrip() for line in text.splitlines())
