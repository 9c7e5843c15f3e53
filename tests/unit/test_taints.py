"""The taints of the rendered nodes are borne by everything that must run there (tests/fixtures/daemonsets.csv)."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from generator.project import Project
from generator.render import clusterconfig_path, render, values_path
from tests.project import FIXTURES, edited, make

ROOT = Path(__file__).resolve().parents[2]
NETWORKS = {"efa": ("efa: required", "efa: required"), "tcp": ("efa: required", "efa: disabled")}

with (FIXTURES / "daemonsets.csv").open(encoding="utf-8", newline="") as file:
    DAEMONSETS = list(csv.DictReader(file))


def tolerated(taint: dict[str, str], tolerations: list[dict[str, str]]) -> bool:
    """As the scheduler compares them (Kubernetes API reference, Toleration)."""
    return any(
        t.get("effect", taint["effect"]) == taint["effect"]
        and ("key" not in t or t["key"] == taint["key"])
        and (t["operator"] == "Exists" or t.get("value", "") == taint["value"])
        for t in tolerations
    )


def groups(root: Path, network: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The node groups that eksctl is asked for, and the chart's values."""
    tree = render(Project(make(root, environment=edited("environment.yaml", *NETWORKS[network]))).load("demo"))
    nodes = yaml.safe_load(tree[clusterconfig_path("demo")])["managedNodeGroups"]
    return nodes, yaml.safe_load(tree[values_path("demo")])


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("row", DAEMONSETS, ids=lambda r: r["name"].split(" ")[0])
def test_daemon_sets_run_on_the_nodes_that_need_them(row: dict[str, str], network: str, tmp_path: Path) -> None:
    tolerations = json.loads(row["tolerations"])
    nodes, _ = groups(tmp_path, network)
    assert any(node.get("taints") for node in nodes)
    for node in nodes:
        gpus = node["name"] != "system"
        wanted = {"all": True, "gpu": gpus, "efa": bool(node.get("efaEnabled"))}[row["runs_on"]]
        for taint in node.get("taints", []):
            assert not wanted or tolerated(taint, tolerations), f"{row['name']} would not run on {node['name']}"


@pytest.mark.parametrize("network", NETWORKS)
def test_workers_bear_the_taints_of_their_nodes(network: str, tmp_path: Path) -> None:
    nodes, values = groups(tmp_path, network)
    for node in nodes:
        for taint in node.get("taints", []):
            assert tolerated(taint, values["workerGroups"]["gpu"]["tolerations"])


def test_the_tolerations_of_the_nvidia_plugin_are_those_of_the_guide() -> None:
    guide = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    found = re.search(r"nvidia-device-plugin .*?'tolerations=(\[.*?\])'", guide, re.DOTALL)
    (row,) = (r for r in DAEMONSETS if r["set_by"] == "docs/install.md")
    assert found is not None and json.loads(found[1]) == json.loads(row["tolerations"])


def test_every_row_names_its_source() -> None:
    assert all(row["source"] for row in DAEMONSETS)
