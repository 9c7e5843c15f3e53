"""The edges of what fits: the last value that passes and the first that does not, on every usable type."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from generator.catalog import LOCAL, instance_types
from generator.diagnostics import Finding, Severity
from generator.plan import host
from generator.plan.changes import changes_that_fit
from generator.plan.disk import disk
from generator.plan.memory import NEAR, gpu_memory
from generator.project import Project
from generator.resolve import Resolved, node_room, resolve, usable
from generator.rules import check
from tests.project import make

USABLE = sorted(name for name in instance_types() if usable(name) and name != LOCAL)
KINDS = sorted({(t.gpu_model, t.gpus): t.name for t in map(instance_types().__getitem__, USABLE)}.values())
"""One type for each number of GPUs of each model."""
MINE = {"RTD205", "RTD206", "RTD212", "RTD213", "RTD214", "RTD215", "RTD216"}


def written(instance_type: str = "g6.12xlarge", nodes: int = 2, **keys: Any) -> dict[str, Any]:
    """An environment; `keys`: `group`, `args`, `head`, `storage`, `preset`, `mode`."""
    group = {"instanceType": instance_type, "nodes": nodes, "availabilityZone": "us-west-2a", **keys.get("group", {})}
    training = {
        "preset": keys.get("preset", "qwen2.5-1.5b"),
        "args": {"global_batch_size": 64 * nodes, **keys.get("args", {})},
        "storage": keys.get("storage", {"kind": "s3", "uri": "s3://bucket/ray-train"}),
    }
    return {
        "schemaVersion": 1,
        "name": "demo",
        "cluster": "demo",
        "workers": {"gpu": group},
        "head": keys.get("head", {}),
        "training": training,
        "mode": keys.get("mode", "job"),
    }


def findings(root: Path, environment: dict[str, Any], **replaced: str) -> list[Finding]:
    """Those of this page's codes."""
    loaded = Project(make(root, environment=json.dumps(environment), **replaced)).load("demo")
    return [finding for finding in check(loaded) if finding.code in MINE]


def numbers(root: Path, environment: dict[str, Any]) -> Resolved:
    loaded = Project(make(root, environment=json.dumps(environment))).load("demo")
    assert loaded.environment.model is not None and loaded.cluster is not None
    return resolve(loaded.environment.model, loaded.cluster.model)


def said(root: Path, environment: dict[str, Any]) -> list[tuple[str, str]]:
    return [(finding.code, finding.severity.value) for finding in findings(root, environment)]


@pytest.mark.parametrize("name", USABLE)
def test_defaults_fit_every_usable_type(tmp_path: Path, name: str) -> None:
    assert findings(tmp_path, written(name, preset="tiny")) == []


@pytest.mark.parametrize("name", KINDS)
def test_the_least_memory_of_a_pod_is_found_to_the_mebibyte(tmp_path: Path, name: str) -> None:
    ((_, needed),) = host.pod_memory(numbers(tmp_path, written(name, preset="tiny")))
    error, warning = (
        math.ceil(needed.total / share / 2**20) - 1  # the last that is too little
        for share in (host.MONITOR, host.MONITOR * (1 - host.STORE))
    )
    for mib, severity in ((error, "error"), (error + 1, "warning"), (warning, "warning"), (warning + 1, None)):
        environment = written(name, preset="tiny", group={"memory": f"{mib}Mi"})
        assert said(tmp_path, environment) == ([("RTD213", severity)] if severity else []), mib


@pytest.mark.parametrize("name", USABLE)
def test_a_pod_of_one_vcpu_or_mebibyte_more_than_the_room_does_not_fit(tmp_path: Path, name: str) -> None:
    room = numbers(tmp_path, written(name)).groups[0].room
    fitting = {"cpu": room.cpu_m // 1000, "memory": f"{room.memory_mib}Mi"}
    assert said(tmp_path, written(name, preset="tiny", group=fitting)) == []
    for more in ({"cpu": room.cpu_m // 1000 + 1}, {"memory": f"{room.memory_mib + 1}Mi"}):
        (finding,) = findings(tmp_path, written(name, preset="tiny", group={**fitting, **more}))
        assert finding.code == "RTD206"
        assert any("MiB for pods" in note for note in finding.notes)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("checkpointing", ["none", "alternate", "full"])
def test_gpu_memory_is_an_error_above_what_there_is_and_a_warning_near_to_it(
    tmp_path: Path, name: str, checkpointing: str
) -> None:
    for sequences in (1, 8, 64):
        args = {"micro_batch_size": sequences, "activation_checkpointing": checkpointing}
        environment = written(name, args=args)
        ((_, memory),) = gpu_memory(numbers(tmp_path, environment))
        expected = "error" if memory.share > 1 else "warning" if memory.share > NEAR else None
        assert said(tmp_path, environment) == ([("RTD215", expected)] if expected else [])


@pytest.mark.parametrize(
    "args", [{"activation_checkpointing": "alternate"}, {"activation_checkpointing": "none"}, {"loss_chunk": 10**6}]
)
def test_what_the_help_advises_is_enough_and_the_next_larger_is_not(tmp_path: Path, args: dict[str, Any]) -> None:
    environment = written(args=args)
    changes = changes_that_fit(numbers(tmp_path, environment), NEAR)
    (finding,) = findings(tmp_path, environment)
    assert changes
    for name, value in changes:
        assert f"{name} to {value}" in finding.help or name == "precision"
        assert findings(tmp_path, written(args={**args, name: value})) == []
        if name == "sequence_length":
            assert findings(tmp_path, written(args={**args, name: value + 128})) != []


def test_the_parts_in_the_note_add_up(tmp_path: Path) -> None:
    (finding,) = findings(tmp_path, written(args={"activation_checkpointing": "none"}))
    shown = [float(number) for number in re.findall(r"[0-9]+\.[0-9]", finding.notes[0])]
    assert sum(shown[:-1]) == pytest.approx(shown[-1], abs=0.25)
    assert str(shown[-1]) in finding.message


def test_nothing_fits_and_the_help_says_which_gpus_would(tmp_path: Path) -> None:
    huge = {"layers": 80, "hidden_size": 8192, "intermediate_size": 28672, "heads": 64, "kv_heads": 8}
    (finding,) = [f for f in findings(tmp_path, written("g6.12xlarge", args=huge)) if f.code == "RTD215"]
    assert finding.severity is Severity.ERROR
    assert "choose" in finding.help and "more nodes" in finding.help
    assert findings(tmp_path, written(args={"micro_batch_size": 10**9, "global_batch_size": 10**9}))  # and at once


def test_ranks_on_the_cpu_hold_their_states_in_the_pods_memory(tmp_path: Path) -> None:
    assert said(tmp_path, written(args={"device": "cpu"}, group={"memory": "8Gi"}))[0] == ("RTD213", "error")
    assert said(tmp_path, written(args={"device": "cpu"}, group={"memory": "64Gi"})) == []


@pytest.mark.parametrize("memory", ["1Mi", "2047Mi", "2Gi", "4095Mi", "4Gi"])
def test_the_heads_memory(tmp_path: Path, memory: str) -> None:
    expected = {"1Mi": ["error"], "2047Mi": ["error"], "2Gi": ["warning"], "4095Mi": ["warning"]}.get(memory, [])
    assert [severity for _, severity in said(tmp_path, written(head={"memory": memory}))] == expected


def test_disk_counts_what_the_storage_leaves_on_the_node(tmp_path: Path) -> None:
    def checkpoints(kind: dict[str, str], nodes: int, **args: Any) -> int:
        ((_, needed),) = disk(numbers(tmp_path, written(nodes=nodes, storage=kind, args=args)))
        return needed.parts.get("checkpoints", 0)

    one = 12 * 1_543_714_304
    assert checkpoints({"kind": "none"}, 1, keep_checkpoints=3) == 4 * one
    assert checkpoints({"kind": "s3", "uri": "s3://bucket/x"}, 2, keep_checkpoints=3) == one // 2
    assert checkpoints({"kind": "fsx", "claimName": "claim"}, 2) == 0


def test_the_volume_that_the_help_names_is_enough_and_one_gib_less_is_not(tmp_path: Path) -> None:
    keys: dict[str, Any] = {"nodes": 1, "storage": {"kind": "none"}, "args": {"keep_checkpoints": 50}}
    (finding,) = findings(tmp_path, written(**keys))
    named = re.search(r"volumeSize to (\d+) or more", finding.help)
    assert named
    assert said(tmp_path, written(**keys, group={"volumeSize": int(named[1])})) == []
    assert said(tmp_path, written(**keys, group={"volumeSize": int(named[1]) - 1})) == [("RTD212", "error")]


def test_volumes_are_those_of_the_rendered_node_groups_and_unknown_elsewhere(tmp_path: Path) -> None:
    from generator.render import render

    loaded = Project(make(tmp_path, environment=json.dumps(written()))).load("demo")
    text = render(loaded)["eksctl/demo.yaml"]
    assert re.findall(r"volumeSize: (\d+)", text) == ["100", "200"]
    mine = numbers(tmp_path, written())
    assert mine.groups[0].room.disk_mib == int(200 * 1024 * 0.9) - 1024
    environment = written(nodes=1, storage={"kind": "none"}, args={"keep_checkpoints": 50})
    assert said(tmp_path, environment) == [("RTD212", "error")]
    existing = (tmp_path / "environments/_clusters/demo.yaml").read_text().replace("eksctl", "existing")
    assert findings(tmp_path, environment, cluster=existing) == []


@pytest.mark.parametrize(
    ("name", "nodes", "mode", "found"),
    [
        ("g6.12xlarge", 2, "hsdp", False),
        ("g6.12xlarge", 1, "hsdp", True),
        ("g6e.8xlarge", 2, "hsdp", True),
        ("g6.12xlarge", 2, "hpz", False),
        ("g6.12xlarge", 1, "hpz", True),
        ("g6e.8xlarge", 2, "hpz", True),
        ("g6.12xlarge", 1, "auto", False),
        ("g6.12xlarge", 1, "zero2", False),
    ],
)
def test_sharding_and_layout(tmp_path: Path, name: str, nodes: int, mode: str, found: bool) -> None:
    environment = written(name, nodes, preset="tiny", args={"sharding": mode})
    assert said(tmp_path, environment) == ([("RTD216", "warning")] if found else [])


def test_a_claim_on_fsx_costs_the_drivers_pods(tmp_path: Path) -> None:
    known = instance_types()["g6.12xlarge"]
    plain = node_room(known, gpu=True, efa=True, system=False)
    fsx = numbers(tmp_path, written(storage={"kind": "fsx", "claimName": "claim"})).groups[0].room
    assert (plain.cpu_m - fsx.cpu_m, plain.memory_mib - fsx.memory_mib, plain.pods - fsx.pods) == (30, 104, 1)


def test_a_training_by_hand_is_not_judged(tmp_path: Path) -> None:
    assert findings(tmp_path, written(mode="cluster", args={"micro_batch_size": 64}, group={"memory": "1Gi"})) == []
