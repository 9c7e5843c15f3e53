"""Where pods land, and what finds no place: the scheduler's judgement beside the generator's fit check."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from generator import catalog
from generator.resolve import node_room
from tests.cluster.bench.bench import Bench
from tests.cluster.bench.node_config import PAUSE_IMAGE
from tests.cluster.release import Object, Space, node_of, unschedulable
from tests.helm import ROOT

pytestmark = pytest.mark.cluster

SCHEDULED_S = 30
SETTLED_S = 5
GONE_S = 30
TOO_MUCH_MEMORY = "165Gi"  # of a node with 192 GiB: about 164 GiB are left for pods
TOO_MUCH_CPU = "4"  # all of the system node's


def test_nodes_have_the_sizes_of_the_catalogue(bench: Bench) -> None:
    for node in bench.nodes:
        found = bench.get("nodes", node.name)
        assert found is not None
        allocatable, labels = found["status"]["allocatable"], found["metadata"]["labels"]
        known = catalog.instance_types()[node.instance_type]
        assert _milli_cpu(allocatable["cpu"]) == known.allocatable_cpu_m
        assert _mib(allocatable["memory"]) == known.allocatable_memory_mib
        assert int(allocatable["pods"]) == known.max_pods
        assert int(allocatable.get("nvidia.com/gpu", 0)) == known.gpus
        assert int(allocatable.get("vpc.amazonaws.com/efa", 0)) == node.efa
        assert labels["node.kubernetes.io/instance-type"] == node.instance_type
        assert labels["topology.kubernetes.io/zone"] == node.zone
        assert labels["ray-train-dlc/node-group"] == node.group
        assert found["spec"].get("taints", []) == node.taints


def test_the_room_that_the_generator_counts_is_the_room_that_the_scheduler_finds(space: Space) -> None:
    """Exactly as much as `node_room` says is scheduled; a thousandth of a CPU or a MiB more stays Pending for ever."""
    for node in (space.bench.nodes[0], space.bench.nodes[-1]):
        known = catalog.instance_types()[node.instance_type]
        room = node_room(known, gpu=node.gpus > 0, efa=node.efa > 0, system=node.system)
        for number, (cpu_m, memory_mib, fits) in enumerate(
            (
                (room.cpu_m + 1, room.memory_mib, False),
                (room.cpu_m, room.memory_mib + 1, False),
                (room.cpu_m, room.memory_mib, True),
            )
        ):
            name = f"{node.group}-{number}"
            requests = {"cpu": f"{cpu_m}m", "memory": f"{memory_mib}Mi"}
            space.make_pod(name, {"image": PAUSE_IMAGE, "resources": {"requests": requests}}, node=node.name)
            _judged(space, name)
            pod = space.bench.get("pods", name, space.name)
            assert pod is not None
            if fits:
                assert node_of(pod) == node.name, unschedulable(pod)
            else:
                assert "Insufficient" in unschedulable(pod)


def test_workers_that_validate_refuses_stay_pending_and_the_head_keeps_off_the_gpu_nodes(
    space: Space, tmp_path: Path
) -> None:
    """Workers larger than their node, and no place on the system node: there is room for the head on the GPU nodes."""
    assert _errors(tmp_path, "    nodes: 2\n", f"    nodes: 2\n    memory: {TOO_MUCH_MEMORY}\n") == [
        ("RTD206", "/workers/gpu/memory")
    ]
    with _cordoned(space.bench, "system"):
        space.install("demo", {"workerGroups": {"gpu": {"resources": {"memory": TOO_MUCH_MEMORY}}}})
        pods = _refused_pods(space)
        assert "Insufficient memory" in unschedulable(pods["worker"][0])
        assert "Insufficient memory" in unschedulable(pods["worker"][1])
        assert "Insufficient" not in unschedulable(pods["head"][0])
        space.uninstall("demo")
        space.wait_until_nothing_is_left(GONE_S)


def test_a_head_that_validate_refuses_stays_pending_and_workers_keep_off_the_system_node(
    space: Space, tmp_path: Path
) -> None:
    """A head larger than its node, and no place on the GPU nodes: the system node has a worker's CPU and memory."""
    assert _errors(tmp_path, "head: {cpu: 2,", f"head: {{cpu: {TOO_MUCH_CPU},") == [("RTD205", "/head")]
    with _cordoned(space.bench, "demo-gpu"):
        space.install("demo", {"head": {"resources": {"cpu": TOO_MUCH_CPU}}})
        pods = _refused_pods(space)
        assert "Insufficient cpu" in unschedulable(pods["head"][0])
        space.uninstall("demo")
        space.wait_until_nothing_is_left(GONE_S)


def _refused_pods(space: Space) -> dict[str, list[Object]]:
    """Head and workers of the only job, by role, when the scheduler has found no place for any of them."""
    job = space.job()["metadata"]["name"]

    def judged() -> dict[str, list[Object]] | None:
        pods = {role: space.pods(job, role) for role in ("head", "worker")}
        assert not any(node_of(pod) for role in pods.values() for pod in role)
        whole = len(pods["head"]) == 1 and len(pods["worker"]) == 2
        return pods if whole and all(unschedulable(pod) for role in pods.values() for pod in role) else None

    space.bench.wait_for("the scheduler's word", judged, timeout_s=60)
    space.settle(SETTLED_S)
    return judged() or {}


def _errors(root: Path, old: str, new: str) -> list[tuple[str, str]]:
    """Code and place of the errors that `validate` finds in environment demo with one text of it replaced."""
    shutil.copytree(ROOT / "environments" / "demo", root / "environments" / "demo")
    shutil.copytree(ROOT / "environments" / "_clusters", root / "environments" / "_clusters")
    path = root / "environments" / "demo" / "environment.yaml"
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")
    command = [sys.executable, "-m", "generator", "validate", "demo", "--root", str(root), "--output", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)
    findings = json.loads(done.stdout)["findings"]
    return [(finding["code"], finding["path"]) for finding in findings if finding["severity"] == "error"]


def _judged(space: Space, name: str) -> None:
    def judged() -> bool:
        pod = space.bench.get("pods", name, space.name)
        return bool(pod and (node_of(pod) or unschedulable(pod)))

    space.bench.wait_for(f"the scheduler to look at {name}", judged, timeout_s=SCHEDULED_S, every_s=0.3)


@contextmanager
def _cordoned(bench: Bench, group: str) -> Iterator[None]:
    names = [node.name for node in bench.nodes if node.group == group]
    bench.kubectl("cordon", *names)
    try:
        yield
    finally:
        bench.kubectl("uncordon", *names)


def _milli_cpu(quantity: str) -> int:
    return int(quantity[:-1]) if quantity.endswith("m") else int(quantity) * 1000


def _mib(quantity: str) -> int:
    return {"Ki": lambda n: n // 1024, "Mi": lambda n: n, "Gi": lambda n: n * 1024}[quantity[-2:]](int(quantity[:-2]))
