"""Progress line, run record and curve."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from training import config, curves, metrics
from training.contract import Contract, Exit
from training.session import Job
from training.storage import Storage
from training.topology import Place
from training.train import _ended_before


def record(folder: Path) -> metrics.RunRecord:
    return metrics.RunRecord(Storage(str(folder)), name="a & b", config=config.build("tiny"))


def add(made: metrics.RunRecord, steps: range) -> None:
    for step in steps:
        made.add(step=step, loss=6.0 - 0.1 * step, seconds=0.5, tokens=1000, gradient_norm=1.0, lr=1e-3)


def test_a_run_that_goes_on_keeps_the_steps_up_to_its_checkpoint(tmp_path: Path) -> None:
    first = record(tmp_path)
    first.begin(step=0, source="", topology={}, facts={})
    add(first, range(1, 9))
    first.write(force=True)  # killed here, after a checkpoint of step 5
    second = record(tmp_path)
    second.begin(
        step=5, source="checkpoints/step_00000005", topology={"worldSize": 2}, facts={"data": {"entropy": 1.4}}
    )
    add(second, range(6, 11))
    second.end("finished", Exit.DONE, "finished 10 steps")
    content = json.loads((tmp_path / "run.json").read_text())
    assert [s["step"] for s in content["steps"]] == list(range(1, 11))
    assert content["run"]["state"] == "finished"
    assert [a["resumedAt"] for a in content["run"]["attempts"]] == [0, 5]
    assert content["ending"] == {"code": 0, "message": "finished 10 steps"}
    assert content["versions"]["python"].startswith("3.")
    assert content["steps"][0]["tokensPerSecond"] == 2000.0


def test_the_driver_closes_the_record_of_a_lost_rank_and_leaves_an_ended_one(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    metrics.close_record(storage, "failed", Exit.FAILED, "lost")  # no record, no harm
    record(tmp_path).begin(step=0, source="", topology={}, facts={})
    metrics.close_record(storage, "failed", Exit.FAILED, "lost")
    metrics.close_record(storage, "finished", Exit.DONE, "later")
    found = metrics.read(storage)
    assert found is not None
    assert (found["run"]["state"], found["ending"]["message"]) == ("failed", "lost")


def test_a_refusal_says_how_to_lift_it(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    assert metrics.refusal(storage) is None
    metrics.refuse(storage, Exit.LAYOUT, "three ranks on one node")
    found = metrics.refusal(storage)
    assert found is not None
    assert found[0] == Exit.LAYOUT
    assert "three ranks on one node" in found[1]
    assert str(tmp_path / "refused.json") in found[1]


def test_topology_lists_every_rank() -> None:
    places = [Place(r, 4, r % 2, 2, r // 2, f"10.0.0.{r // 2}") for r in range(4)]
    found = metrics.topology(places, gpus_per_node=2, backend="nccl", sharding="hsdp")
    assert (found["worldSize"], found["nodes"], found["processesPerNode"], found["gpusPerNode"]) == (4, 2, 2, 2)
    assert found["ranks"][3] == {"rank": 3, "nodeRank": 1, "localRank": 1, "nodeIp": "10.0.0.1"}


@pytest.mark.parametrize("count", [0, 1, 2, 60, 5000])
def test_the_curve_is_a_picture_with_axes_and_both_themes(tmp_path: Path, count: int) -> None:
    made = record(tmp_path)
    made.content["data"] = {"entropy": 1.36}
    made.content["steps"] = [{"step": s, "loss": 1.4 + 5 / s} for s in range(1, count + 1)]
    text = curves.loss_svg(made.content)
    root = ET.fromstring(text)  # noqa: S314 - our own text
    words = [t.text or "" for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "optimiser step" in words
    assert "cross entropy per token (nats)" in words
    assert "Loss, a & b · tiny" in words
    assert any("entropy of the data, 1.360" in w for w in words)
    assert "prefers-color-scheme:dark" in text
    assert len([w for w in words if re.fullmatch(r"[\d.]+", w)]) >= 4  # ticks of both axes
    points = root.find("{http://www.w3.org/2000/svg}polyline")
    assert (points is not None) == (count > 0)
    assert len(text) < 400_000


def test_the_loss_curve_shows_the_held_out_loss_and_the_other_the_throughput(tmp_path: Path) -> None:
    made = record(tmp_path)
    add(made, range(1, 31))
    made.add_validation(10, 5.5)
    made.add_validation(20, 4.5)
    made.end("finished", Exit.DONE, "finished")
    for name, lines, title in (("loss.svg", 2, "Loss"), ("throughput.svg", 1, "Throughput")):
        root = ET.fromstring((tmp_path / name).read_text())  # noqa: S314 - our own text
        assert len(root.findall("{http://www.w3.org/2000/svg}polyline")) == lines
        words = [t.text or "" for t in root.iter("{http://www.w3.org/2000/svg}text")]
        assert f"{title}, a & b · tiny" in words
    tips = [t.text for t in root.iter("{http://www.w3.org/2000/svg}title")]
    assert tips[0] == "step 1: 2000"


FINISHED = {"run": {"state": "finished", "started": "a", "ended": "b", "attempts": []}, "configuration": {"steps": 1}}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not JSON",
        "[]",
        "{}",
        '{"run": 5}',
        '{"run": {"attempts": 5}}',
        '{"run": {"state": "finished"}}',
        json.dumps({**FINISHED, "steps": 3}),
        json.dumps({**FINISHED, "steps": [{}]}),
        json.dumps({**FINISHED, "steps": [{"step": 1, "loss": float("nan")}]}),
    ],
)
def test_a_malformed_record_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    storage = Storage(str(tmp_path))
    assert metrics.read(storage) is None
    metrics.close_record(storage, "failed", Exit.FAILED, "lost")
    assert _ended_before(Job(config.build("tiny"), Contract.from_env({}), str(tmp_path), "a")) is None
    made = record(tmp_path)
    made.begin(step=0, source="", topology={}, facts={})
    assert metrics.read(storage) == made.content


@pytest.mark.parametrize("text", ["", "x", "{}", "[]", '{"code": 99, "message": "a", "time": "b"}', '{"code": 4}'])
def test_a_malformed_refusal_is_named_with_the_way_out(tmp_path: Path, text: str) -> None:
    (tmp_path / "refused.json").write_text(text)
    ending = _ended_before(Job(config.build("tiny"), Contract.from_env({}), str(tmp_path), "a"))
    assert ending is not None
    assert (ending.code, ending.lasting) == (Exit.STORAGE, False)
    assert f"{tmp_path}/refused.json" in ending.message
    assert "delete it" in ending.message
