"""Network, memory, time and price of a run: by hand, and as `plan` says them."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from generator.catalog import instance_types
from generator.catalog.gpus import assumption, gpu_of
from generator.cli import main
from generator.plan.estimate import Estimate, estimate
from generator.plan.network import network
from generator.plan.plan import plan
from generator.plan.report import SCHEMA, as_json
from generator.plan.sections import sections
from generator.plan.text import as_text
from generator.plan.why import why
from generator.project import Project
from generator.resolve import resolve
from tests.project import edited, make
from tests.unit.test_plan import ROOT, planned
from training.config import build
from training.pace import PEAK_FLOPS, peak_flops

P = 1_543_714_304  # parameters of qwen2.5-1.5b, tied
TAIL = 151_936 * 1_536 + 1_536  # the root unit, which stays gathered


def args(text: str) -> str:
    return edited("environment.yaml", "sequence_length: 2048", f"sequence_length: 2048, {text}")


def as_planned(root: Path, capsys: pytest.CaptureFixture[str], *flags: str, **replaced: str) -> Any:
    assert main(["plan", "demo", "--output", "json", "--root", str(make(root, **replaced)), *flags]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("reduced", "full", "zero2", "hsdp"), [("bfloat16", 8.10, 5.40, 3.09), ("float32", 10.81, 8.10, 6.17)]
)
def test_bytes_of_two_nodes_with_four_ranks_each(
    tmp_path: Path, reduced: str, full: float, zero2: float, hsdp: float
) -> None:
    """GB by hand, for 1.5437e9 parameters and a ring of 8 ranks; `full` there gathers the root unit twice."""
    found = as_json(planned(tmp_path, environment=args(f"reduce_dtype: {reduced}")))
    sent = {name: scheme["bytesPerNicPerStep"] / 1e9 for name, scheme in found["network"]["schemes"].items()}
    assert sent["hsdp"] == pytest.approx(hsdp, abs=0.006)
    assert sent["zero2"] == sent["hpz"] == pytest.approx(zero2, abs=0.006)
    assert sent["full"] + 7 / 8 * 2 * TAIL / 1e9 == pytest.approx(full, abs=0.006)


def test_seconds_follow_from_bytes_and_flops(tmp_path: Path) -> None:
    found = as_json(planned(tmp_path, environment=args("sharding: full, activation_checkpointing: none")))
    full, speed, money = found["network"]["schemes"]["full"], found["estimate"], found["cost"]
    compute = 32 * 2048 / 8 * (6 * P + 6 * 28 * 1536 * 2048) / (121e12 * 0.41)
    wire = 7 / 8 * (6 * P - 2 * TAIL) * 8 / (0.7 * 40e9)
    assert speed["computeSecondsPerStep"] == pytest.approx(compute, rel=1e-3)
    assert speed["networkSecondsPerStep"] == full["networkSecondsPerStep"]["efa"] == pytest.approx(wire, rel=1e-3)
    assert full["networkSecondsPerStep"]["tcp"] == pytest.approx(wire * 0.7 / 0.4, rel=1e-3)
    assert full["secondsPerStep"]["efa"] == speed["secondsPerStep"] == pytest.approx(max(compute, wire), rel=1e-3)
    assert speed["secondsPerStepWithoutOverlap"] == pytest.approx(compute + wire, rel=1e-3)
    assert speed["tokensPerSecond"] == pytest.approx(32 * 2048 / wire, rel=1e-3)
    assert money["usdPerRun"] == pytest.approx(money["usdPerHour"] * 200 * wire / 3600, abs=0.01)
    assert money["usdPerDay"] == pytest.approx(24 * money["usdPerHour"], abs=0.01)
    million = money["usdPerHour"] / (speed["tokensPerSecond"] * 3600 / 1e6)
    assert speed["usdPerMillionTokens"] == pytest.approx(million, rel=1e-2)


def test_recomputed_layers_take_a_third_longer(tmp_path: Path) -> None:
    none, full = (
        as_json(planned(tmp_path, environment=args(f"activation_checkpointing: {which}")))["estimate"]
        for which in ("none", "full")
    )
    flops = 6 * P + 6 * 28 * 1536 * 2048
    layers = 1 - 6 * 151_936 * 1536 / flops  # the output layer is not recomputed
    assert full["computeSecondsPerStep"] / none["computeSecondsPerStep"] == pytest.approx(1 + layers / 3, rel=1e-3)


def test_another_transport_waits_for_the_network(tmp_path: Path) -> None:
    text = args("sharding: full").replace("efa: required", "efa: disabled")
    found = as_json(planned(tmp_path, environment=text))
    assert found["estimate"]["transport"] == found["network"]["transport"] == "tcp"
    assert found["estimate"]["secondsPerStep"] == found["network"]["schemes"]["full"]["secondsPerStep"]["tcp"]


def test_several_interfaces_share_the_bytes_and_tcp_has_one_card(tmp_path: Path) -> None:
    text = edited("environment.yaml", "g6.12xlarge", "p5.48xlarge").replace("gpusPerNode: 4", "gpusPerNode: 8")
    found = as_json(planned(tmp_path, environment=text))["network"]
    assert found["schemes"]["hsdp"]["bytesPerNicPerStep"] == round(2 * P / 32)
    assert found["schemes"]["hsdp"]["bytesPerNodePerStep"] == 2 * P
    assert found["assumedGbps"] == {"efa": pytest.approx(0.7 * 3200), "tcp": pytest.approx(0.4 * 100)}


def test_one_node_sends_nothing(tmp_path: Path) -> None:
    found = as_json(planned(tmp_path, environment=edited("environment.yaml", "nodes: 2", "nodes: 1")))
    assert found["network"]["transport"] == "none"
    assert {s["bytesPerNicPerStep"] for s in found["network"]["schemes"].values()} == {0}
    assert found["estimate"]["networkSecondsPerStep"] == 0
    assert found["estimate"]["secondsPerStep"] == found["estimate"]["computeSecondsPerStep"]


def test_memory_and_quota_are_told(tmp_path: Path) -> None:
    found = as_json(planned(tmp_path))
    assert found["memory"]["perGpuBytes"] == sum(found["memory"]["parts"].values()) < found["memory"]["availableBytes"]
    assert found["memory"]["parts"]["state"] == P * 16 // 4
    assert found["quota"] == {
        "gAndVt": {"code": "L-DB2E81BA", "vcpu": 96, "declared": 96},
        "standard": {"code": "L-1216C47A", "vcpu": 4, "declared": None},
    }
    assert found["fit"]["fits"] is True
    assert found["fit"]["pods"]["gpu"]["gpus"] == {"asked": 4, "room": 4}
    assert found["fit"]["pods"]["head"]["cpu"]["asked"] == 2


def one_gpu(**changes: Any) -> Estimate:
    """The estimate of one H200 by itself, as on the machine of docs/results/one-gpu-2026-12-03.md."""
    loaded = Project(ROOT).load("demo")
    assert loaded.environment.model is not None and loaded.cluster is not None
    group = loaded.environment.model.workers["gpu"]
    alone = group.model_copy(update={"instance_type": "p5en.48xlarge", "nodes": 1, "gpus_per_node": 1})
    environment = loaded.environment.model.model_copy(update={"workers": {"gpu": alone}})
    resolved = resolve(environment, loaded.cluster.model)
    config = build(changes.pop("preset", "qwen2.5-1.5b"), changes)
    found = estimate(config, resolved, network(config, resolved))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("case", "changes"),
    [
        ("qwen2.5-1.5b, micro-batch 4, no recomputation", {"activation_checkpointing": "none"}),
        ("qwen2.5-1.5b, micro-batch 16, alternate", {"micro_batch_size": 16, "activation_checkpointing": "alternate"}),
        ("qwen2.5-1.5b, micro-batch 4, none, compiled", {"activation_checkpointing": "none", "compile": True}),
        ("aws-sample", {"preset": "aws-sample", "global_batch_size": 1}),
    ],
)
def test_what_was_measured_is_near_the_estimate(case: str, changes: dict[str, Any]) -> None:
    measured = json.loads((ROOT / "bench/results/2026-12-03-one-gpu.json").read_text())["cases"][case]
    assert one_gpu(**changes).tokens_per_second == pytest.approx(measured["tokensPerSecond"], rel=0.15)


def test_the_catalogue_and_the_training_know_the_same_peaks() -> None:
    seen = set()
    for found in instance_types().values():
        gpu, trained = gpu_of(found), peak_flops(found.gpu_model.replace("-", " "))
        if trained is not None and gpu is not None:
            seen.add(trained)
            assert gpu.flops == trained, found.name
    assert seen == set(PEAK_FLOPS.values())


def test_an_uncertain_peak_is_marked(tmp_path: Path) -> None:
    one = planned(tmp_path, environment=edited("environment.yaml", "g6.12xlarge", "g5.12xlarge"))
    assert one.estimate is not None and one.estimate.gpu.confidence == "low"
    assert any("A10G" in hint and "far off" in hint for hint in one.hints)
    assert any("confidence of this figure: low" in text for text in as_json(one)["estimate"]["assumptions"])


def test_every_assumption_names_a_source_and_is_in_the_text(tmp_path: Path) -> None:
    one = planned(tmp_path)
    assert one.estimate is not None
    text = " ".join(as_text(one, width=100).split())
    for told in one.estimate.assumptions:
        assert f"assumed: {' '.join(told.split())}" in text
    for item in ("work_share", "efa_share", "tcp_share", "launch_seconds_per_layer"):
        found = assumption(item)
        assert found.source and date.fromisoformat(found.as_of)


def test_a_preset_brings_its_own_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = as_planned(tmp_path, capsys, "--preset", "aws-sample")
    assert found["preset"] == "aws-sample"
    assert found["estimate"]["tokensPerStep"] == 8 * 128
    assert found["nodes"]["workers"] == 2
    assert main(["plan", "demo", "--root", str(tmp_path), "--preset", "nonesuch"]) == 2
    assert "choose one of tiny, qwen2.5-1.5b" in capsys.readouterr().err


def test_a_preset_on_nodes_that_wait_for_work_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    by_hand = edited("environment.yaml", "mode: job", "mode: cluster")
    assert as_planned(tmp_path, capsys, environment=by_hand)["estimate"] is None
    assert as_planned(tmp_path, capsys, "--preset", "qwen2.5-1.5b", environment=by_hand)["estimate"] is not None


def test_a_preset_that_does_not_divide_by_the_ranks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = edited("environment.yaml", "nodes: 2", "nodes: 5").replace("gAndVtVcpu: 96", "gAndVtVcpu: 960")
    make(tmp_path, environment=text.replace("sequence_length: 2048", "sequence_length: 2048, global_batch_size: 40"))
    assert main(["plan", "demo", "--root", str(tmp_path), "--preset", "qwen2.5-1.5b"]) == 2
    assert "global_batch_size 32 is not a multiple of the 20 ranks; take 20 or 40" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("mode: job", "mode: cluster", "mode is `cluster`"),
        ("steps: 200", "steps: 200, device: cpu", "computes on CPUs"),
        ("gpusPerNode: 4", "gpusPerNode: 0", "its nodes have no GPU"),
        ("preset: qwen2.5-1.5b", "preset: qwen2.5-1.5b\n  code: {module: mine.train}", "code of its own"),
    ],
    ids=["cluster", "cpu", "no GPU", "own code"],
)
def test_what_is_not_known_is_not_estimated(tmp_path: Path, old: str, new: str, reason: str) -> None:
    one = planned(tmp_path, environment=edited("environment.yaml", old, new))
    found = as_json(one)
    assert found["estimate"] is found["network"] is found["memory"] is found["cost"]["usdPerRun"] is None
    assert reason in found["notEstimated"]
    assert f"are not estimated: {found['notEstimated']}" in as_text(one, width=200)


def test_a_job_on_a_cluster_is_estimated_but_another_environment_pays(tmp_path: Path) -> None:
    text = edited("environment.yaml", "mode: job\n", "mode: jobOnCluster\n").replace(
        "job: {", "job: {clusterName: notebook, "
    )
    one = planned(tmp_path, environment=text)
    found = as_json(one, why(one))
    assert found["estimate"]["tokensPerSecond"] > 0
    assert found["estimate"]["usdPerMillionTokens"] is found["cost"]["usdPerRun"] is None
    assert (found["cost"]["usdPerHour"], found["quota"], list(found["fit"]["pods"])) == (0, {}, ["gpu"])
    assert "runs on the nodes of environment notebook" in as_text(one, width=200)
    jsonschema.validate(json.loads(json.dumps(found)), json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert all(reason.formula for reason in why(one))


def test_this_machine_is_not_estimated() -> None:
    loaded = Project(ROOT).load("local")
    assert loaded.environment.model is not None and loaded.cluster is not None
    one = plan(resolve(loaded.environment.model, loaded.cluster.model))
    assert "memory, network and speed are not estimated: its nodes have no GPU" in as_text(one)
    assert as_json(one)["quota"] == {} and not one.hints
    assert [table.title.split(":")[0].split(" in ")[0] for table in sections(one)] == ["Nodes", "Room", "Price"]
