"""What each sharding sends between nodes, read from the interfaces of two nodes: 2 × 2 gloo ranks of the real training.

The nodes are network namespaces joined by a veth with a limited rate (`namespaces.py`).
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.training.namespaces import INTERFACE, Node, run, start_ranks, two_nodes, unavailable
from tests.training.processes import TRAIN, Started, finish, outputs, record, until
from training import config, sizes

pytestmark = pytest.mark.usefixtures("torch_installed")

LAYOUT = {"nodes": 2, "processes_per_node": 2}
# 12.3 million parameters and 8 tokens a sequence: beside 49 MB of weights and of gradients, what else crosses in a step
# (loss, gradient norm, the interfaces' own counts) is some KB.
SETTINGS: dict[str, object] = {
    "vocab_size": 512,
    "hidden_size": 512,
    "intermediate_size": 1536,
    "layers": 4,
    "heads": 8,
    "kv_heads": 2,
    "sequence_length": 8,
    "micro_batch_size": 1,
    "steps": 3,
    "log_every": 3,
    "checkpoint_every": 0,
    "validation_sequences": 0,
}
COUNTED_STEPS = 2  # those between the progress lines of step 1 and step 3: what the start costs is in the first


@pytest.fixture(scope="module")
def nodes() -> Iterator[tuple[Node, Node]]:
    """Two nodes with 10 Gbit/s between them."""
    if reason := unavailable():
        pytest.skip(reason)
    with two_nodes(rate="10gbit") as made:
        yield made


def test_nodes_and_what_runs_in_them_go_also_after_a_failure(
    nodes: tuple[Node, Node], tmp_path: Path, started: Started
) -> None:
    with pytest.raises(ZeroDivisionError), two_nodes(rate="1gbit") as made:
        sleeper = started.start(made[1].command("sleep", "600"), tmp_path / "log")
        until(lambda: sleeper.popen.pid in made[1].processes(), 10, "a process in the namespace")
        raise ZeroDivisionError
    assert sleeper.wait(10) == -signal.SIGKILL
    left = run("ip", "netns", "list")
    assert nodes[0].namespace in left  # those of the other tests are still there
    assert not any(node.namespace in left for node in made)


def test_each_collective_alone_sends_what_the_formula_takes_for_it(
    nodes: tuple[Node, Node], tmp_path: Path, started: Started
) -> None:
    """The calibration: the payload that is known, and what TCP, IP and Ethernet headers add to it."""
    sizes_ = ("--smallest=16MiB", "--largest=16MiB", "--warmup=1", "--iterations=3")
    command = (sys.executable, "-m", "training.probe", "--num-workers=0", f"--run-path={tmp_path}/run", *sizes_)
    ranks = start_ranks(started, nodes, command, tmp_path)
    assert finish(ranks) == [0] * 4, outputs(ranks)
    content = json.loads((tmp_path / "run" / "probe.json").read_text(encoding="utf-8"))
    size = 2**24
    payload = {
        ("between", "all-gather"): 2 * size / 2,  # two pairs of ranks, each of which sends half of its buffer
        ("between", "reduce-scatter"): 2 * size,  # gloo's is an all-reduce
        ("between", "all-reduce"): 2 * size,
        ("world", "all-gather"): 3 / 4 * size,
        ("world", "reduce-scatter"): 2 * 3 / 4 * size,
        ("world", "all-reduce"): 2 * 3 / 4 * size,
    }
    found = {(m["group"], m["collective"]): m for m in content["measurements"]}
    for name, expected in payload.items():
        assert found[name]["nodeBytesExpected"] == pytest.approx(expected)
        for node in found[name]["network"]:
            assert 1.0 <= node["sent"] / expected < 1.03
            assert 1.0 <= node["received"] / expected < 1.03
    for kind in ("all-gather", "reduce-scatter", "all-reduce"):
        assert all(node["sent"] < size / 100 for node in found["inside", kind]["network"])


@pytest.mark.parametrize(
    ("sharding", "passes"),
    [
        ("full", 2),
        ("hsdp", 2),
        *(pytest.param(*pair, marks=pytest.mark.full) for pair in (("full", 1), ("hsdp", 1), ("zero2", 2), ("hpz", 2))),
    ],
)
def test_a_step_sends_the_bytes_that_the_formula_says(
    sharding: str, passes: int, nodes: tuple[Node, Node], tmp_path: Path, started: Started
) -> None:
    settings = {**SETTINGS, "sharding": sharding, "global_batch_size": 4 * passes}
    flags = tuple(f"--{name.replace('_', '-')}={value}" for name, value in settings.items())
    command = (*TRAIN, "--num-workers=0", f"--run-path={tmp_path}/run", *flags)
    ranks = start_ranks(started, nodes, command, tmp_path)
    assert finish(ranks) == [0] * 4, outputs(ranks)
    expected = sizes.nic_bytes_per_step(config.build("tiny", settings), **LAYOUT, cuda=False)
    last = record(tmp_path / "run")["intervals"][-1]
    assert last["step"] == 1 + COUNTED_STEPS
    assert len(last["network"]) == 2
    for node in last["network"]:
        moved = node[INTERFACE]
        assert moved["sent"] / COUNTED_STEPS == pytest.approx(expected, rel=0.05)
        assert moved["received"] / COUNTED_STEPS == pytest.approx(expected, rel=0.05)
