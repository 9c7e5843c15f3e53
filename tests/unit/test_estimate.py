"""Network, memory, time and price of a run: by hand, and as `plan` says them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from generator.cli import main
from generator.plan.report import as_json, as_text
from tests.project import edited, make
from tests.unit.test_plan import planned

P = 1_543_714_304  # parameters of qwen2.5-1.5b, tied
TAIL = 151_936 * 1_536  # the root unit, which stays gathered


def plan(root: Path, capsys: pytest.CaptureFixture[str], *flags: str, **replaced: str) -> Any:
    assert main(["plan", "demo", "--output", "json", "--root", str(make(root, **replaced)), *flags]) == 0
    return json.loads(capsys.readouterr().out)


def test_bytes_of_two_nodes_with_four_ranks_each(tmp_path: Path) -> None:
    schemes = as_json(planned(tmp_path))["network"]["schemes"]
    sent = {name: scheme["bytesPerNicPerStep"] for name, scheme in schemes.items()}
    # bf16 weights and gradients: a ring of 8 carries 7/8 of each buffer over a node's edge, an all-reduce of 2 all.
    assert sent["hsdp"] == 2 * P
    assert sent["zero2"] == sent["hpz"] == 7 * (2 * P + 2 * P) // 8
    assert sent["full"] == pytest.approx(7 / 8 * (3 * 2 * P - 2 * TAIL), rel=1e-3)


def test_seconds_follow_from_bytes_and_flops(tmp_path: Path) -> None:
    text = edited("environment.yaml", "sequence_length: 2048", "sequence_length: 2048, sharding: full")
    found = as_json(planned(tmp_path, environment=text))
    full = found["network"]["schemes"]["full"]
    compute = 32 * 2048 * (6 * P + 6 * 28 * 1536 * 2048) / (8 * 121e12 * 0.33)
    assert full["secondsPerStep"]["efa"] == pytest.approx(max(compute, full["bytesPerNicPerStep"] * 8 / 32e9), rel=1e-3)
    assert full["secondsPerStep"]["tcp"] == pytest.approx(full["bytesPerNicPerStep"] * 8 / 20e9, rel=1e-3)
    estimate, money = found["estimate"], found["cost"]
    assert estimate["tokensPerSecond"] == pytest.approx(32 * 2048 / full["secondsPerStep"]["efa"], rel=1e-3)
    assert money["usdPerRun"] == pytest.approx(money["usdPerHour"] * 200 * estimate["secondsPerStep"] / 3600, abs=0.01)
    assert estimate["usdPerMillionTokens"] * estimate["tokensPerSecond"] * 3600 / 1e6 == pytest.approx(
        money["usdPerHour"], rel=1e-2
    )
    assert money["usdPerDay"] == pytest.approx(24 * money["usdPerHour"], abs=0.01)


def test_another_transport_waits_for_the_network(tmp_path: Path) -> None:
    text = edited("environment.yaml", "efa: required", "efa: disabled").replace(
        "sequence_length: 2048", "sequence_length: 2048, sharding: full"
    )
    found = as_json(planned(tmp_path, environment=text))
    assert found["estimate"]["transport"] == "tcp"
    assert found["estimate"]["secondsPerStep"] == found["network"]["schemes"]["full"]["secondsPerStep"]["tcp"]


def test_several_interfaces_share_the_bytes(tmp_path: Path) -> None:
    text = edited("environment.yaml", "g6.12xlarge", "p5.48xlarge").replace("gpusPerNode: 4", "gpusPerNode: 8")
    assert (
        as_json(planned(tmp_path, environment=text))["network"]["schemes"]["hsdp"]["bytesPerNicPerStep"] == 2 * P // 32
    )


def test_memory_and_quota_are_told(tmp_path: Path) -> None:
    found = as_json(planned(tmp_path))
    assert found["memory"]["perGpuBytes"] == sum(found["memory"]["parts"].values()) < found["memory"]["availableBytes"]
    assert found["quota"] == {
        "gAndVt": {"code": "L-DB2E81BA", "vcpu": 96, "declared": 96},
        "standard": {"code": "L-1216C47A", "vcpu": 4, "declared": None},
    }


def test_a_preset_brings_its_own_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = plan(tmp_path, capsys, "--preset", "aws-sample")
    assert found["preset"] == "aws-sample"
    assert found["estimate"]["tokensPerStep"] == 8 * 128
    assert found["nodes"]["workers"] == 2
    assert main(["plan", "demo", "--root", str(tmp_path), "--preset", "nonesuch"]) == 2
    assert "choose one of tiny, qwen2.5-1.5b" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new"), [("mode: job", "mode: cluster"), ("steps: 200", "steps: 200, device: cpu")], ids=["cluster", "cpu"]
)
def test_what_is_not_known_is_not_estimated(tmp_path: Path, old: str, new: str) -> None:
    resolved = planned(tmp_path, environment=edited("environment.yaml", old, new))
    found = as_json(resolved)
    assert found["estimate"] is found["network"] is found["cost"]["usdPerRun"] is None
    assert "estimate" not in as_text(resolved)


def test_every_assumption_is_in_the_text(tmp_path: Path) -> None:
    resolved = planned(tmp_path)
    text = as_text(resolved)
    for assumption in as_json(resolved)["estimate"]["assumptions"]:
        assert f"assuming: {assumption}" in text
    assert "hsdp  *" in text
