"""The probe on real ranks: its numbers against nccl-tests' definitions, wrong results, endings, and through Ray."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.training.processes import Started, finish, outputs, until
from tests.training.raycluster import WAIT, running_head
from training import collectives, metrics, probe
from training.storage import Storage

PROBE = (sys.executable, "-m", "training.probe")
ALONE = (*PROBE, "--num-workers=0")
QUICK = ("--largest=4MiB", "--warmup=1", "--iterations=2")
NAMES = list(collectives.NAMES)
PAIR = tuple({"LOCAL_RANK": str(r), "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"} for r in range(2))
FOUR = tuple({"LOCAL_RANK": str(r % 2), "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": str(r // 2)} for r in range(4))
needs_torch = pytest.mark.usefixtures("torch_installed")


def kept(run_path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((run_path / probe.RECORD).read_text(encoding="utf-8"))
    return content


def test_bus_bandwidth_is_that_of_nccl_tests() -> None:
    """doc/PERFORMANCE.md: all-reduce 2 (n-1)/n; all-gather and reduce-scatter (n-1)/n."""
    assert [collectives.bus_factor(name, 8) for name in NAMES] == [7 / 8, 7 / 8, 14 / 8]
    assert [collectives.bus_factor(name, 1) for name in NAMES] == [0, 0, 0]


def test_bytes_of_a_node_are_those_of_a_ring_and_of_all_its_groups() -> None:
    def of(name: str, ranks: int, groups: int, cuda: bool) -> float:
        return collectives.node_bytes(name, 1000, ranks=ranks, groups=groups, cuda=cuda)

    assert [of(name, 8, 1, True) for name in NAMES] == [875, 875, 1750]  # all ranks of 2 × 4
    assert [of(name, 8, 1, False) for name in NAMES] == [875, 1750, 1750]
    assert [of(name, 2, 4, True) for name in NAMES] == [2000, 2000, 4000]  # four pairs across the same edge
    assert [of(name, 4, 0, True) for name in NAMES] == [0, 0, 0]  # inside a node


@pytest.mark.parametrize(
    ("text", "expected"), [("4096", 4096), ("64K", 65_536), ("1MiB", 2**20), ("2GB", 2**31), ("3 mib", 3 * 2**20)]
)
def test_sizes_are_read(text: str, expected: int) -> None:
    assert probe.size(text) == expected


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5M", "1TiB", "MiB", "9" * 20])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is no size"):
        probe.size(text)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--smallest=2M", "--largest=1M"), "--largest is below --smallest"),
        (("--factor=1",), "must be a whole number, 2 or more"),
        (("--nominal-gbps=0",), "must be a number above 0"),
        (("--device=tpu",), "--device: must be one of auto, cuda, cpu"),
        (("--num-workers=-1",), "--num-workers must be 0 or more"),
    ],
)
def test_wrong_flags_end_with_2(flags: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        probe.main(list(flags))
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@needs_torch
def test_two_ranks_of_one_node(tmp_path: Path, started: Started) -> None:
    ranks = started.ranks(tmp_path, (f"--run-path={tmp_path}/run", *QUICK, "--json"), PAIR, command=ALONE)
    assert finish(ranks) == [0, 0], outputs(ranks)
    lines = ranks[0].output().splitlines()
    content = kept(tmp_path / "run")
    assert json.loads(lines[-1]) == content  # the last line of the output, for programs
    assert "probe: 2 ranks on 1 node (cpu, gloo), 1 run before 2 timed" in lines
    found = content["measurements"]
    assert [(m["group"], m["collective"], m["bytes"]) for m in found] == [
        ("inside", name, size) for name in NAMES for size in (2**20, 2**22)
    ]
    for one in found:
        factor = {"all-gather": 0.5, "reduce-scatter": 0.5, "all-reduce": 1.0}[one["collective"]]
        assert one["algorithmBytesPerSecond"] == pytest.approx(one["bytes"] / one["seconds"])
        assert one["busBytesPerSecond"] == pytest.approx(factor * one["bytes"] / one["seconds"])
        assert one["groups"] == [{"ranks": [0, 1], "seconds": one["seconds"]}]
        assert one["nodeBytesExpected"] == 0
        row = next(line.split() for line in lines if line.split()[:3] == table_start(one))
        assert float(row[4]) == pytest.approx(one["seconds"] * 1e3, abs=1e-3)
        assert float(row[6]) == pytest.approx(one["busBytesPerSecond"] / 1e9, abs=1e-3)
    assert ranks[1].output().count("busbw") == 0  # rank 0 speaks for all


def table_start(one: dict[str, Any]) -> list[str]:
    return [one["group"], one["collective"], str(one["bytes"] // 2**20)]


@needs_torch
def test_four_ranks_of_two_nodes(tmp_path: Path, started: Started) -> None:
    """Every kind of group, the slower of two in front, and the node's bytes; a size without equal parts is cut."""
    flags = (f"--run-path={tmp_path}/run", "--smallest=3000001", "--largest=3000001", "--nominal-gbps=100", *QUICK[1:])
    ranks = started.ranks(tmp_path, flags, FOUR, command=ALONE)
    assert finish(ranks) == [0] * 4, outputs(ranks)
    found = {(m["group"], m["collective"]): m for m in kept(tmp_path / "run")["measurements"]}
    assert list(found) == [(group, name) for group in ("inside", "between", "world") for name in NAMES]
    members = {"inside": [[0, 1], [2, 3]], "between": [[0, 2], [1, 3]], "world": [[0, 1, 2, 3]]}
    for (group, _), one in found.items():
        assert [g["ranks"] for g in one["groups"]] == members[group]
        assert one["seconds"] == max(g["seconds"] for g in one["groups"])
        assert one["bytes"] == 3_000_000
        assert len(one["network"]) == 2
    assert found["between", "all-reduce"]["nodeBytesExpected"] == 2 * 3_000_000
    assert found["world", "all-gather"]["nodeBytesExpected"] == pytest.approx(0.75 * 3_000_000)
    output = ranks[0].output()
    assert "inside: 2 × 2 ranks, all at once; the slowest is shown" in output
    assert "of nominal" in output
    assert output.count("%") == 6  # not inside a node
    assert "measured inside the nodes, between them, and over all ranks" in output


@needs_torch
def test_one_rank_says_what_it_cannot_measure(tmp_path: Path, started: Started) -> None:
    alone = started.start((*ALONE, f"--run-path={tmp_path}/run"), tmp_path / "log")
    assert alone.wait() == 0, alone.output()
    assert "one rank: its collectives give right results, and there is no bandwidth to measure" in alone.output()
    assert kept(tmp_path / "run")["measurements"] == []


BROKEN = """
import torch.distributed as dist
right = dist.all_reduce
def wrong(tensor, *args, **kwargs):
    right(tensor, *args, **kwargs)
    if tensor.numel() > 1000 and dist.get_rank() == 1:
        tensor[777] += 1
dist.all_reduce = wrong
from training.probe import leave, main
leave(main())
"""


@needs_torch
def test_a_wrong_result_ends_it_before_any_time_is_shown(tmp_path: Path, started: Started) -> None:
    script = tmp_path / "broken.py"
    script.write_text(BROKEN)
    command = (sys.executable, str(script), "--num-workers=0")
    ranks = started.ranks(tmp_path, (f"--run-path={tmp_path}/run", *QUICK), PAIR, command=command)
    assert finish(ranks) == [1, 1], outputs(ranks)
    output = ranks[0].output()
    assert "wrong result: all-reduce of 1 MiB (inside): rank 1 on " in output
    assert "rank 0 on" not in output  # its own result was right
    assert not any(line.startswith("inside  all-reduce") for line in output.splitlines())
    assert not (tmp_path / "run" / probe.RECORD).exists()


@needs_torch
def test_asked_to_stop_it_keeps_what_it_has(tmp_path: Path, started: Started) -> None:
    flags = (f"--run-path={tmp_path}/run", "--factor=2", "--largest=1GiB", "--iterations=20")
    ranks = started.ranks(tmp_path, flags, PAIR, command=ALONE)
    until(lambda: "all-gather" in ranks[0].output(), 60, "a first measurement")
    ranks[1].popen.send_signal(signal.SIGTERM)
    assert finish(ranks) == [143, 143], outputs(ranks)
    content = kept(tmp_path / "run")
    assert content["state"] == "preempted"
    assert 0 < len(content["measurements"]) < 33
    assert "asked to stop" in ranks[0].output()


@needs_torch
def test_a_wrong_transport_ends_it_as_it_ends_a_training(tmp_path: Path, started: Started) -> None:
    run_path = tmp_path / "run"
    command = (*ALONE, f"--run-path={run_path}")
    first = started.start(command, tmp_path / "first", RTD_TRANSPORT_PROVIDER="efa")
    assert first.wait() == 3
    assert "provider: expected efa, found none in the log" in first.output()
    assert not (run_path / metrics.RECORD).exists()  # that of a training
    second = started.start(command, tmp_path / "second")
    assert second.wait() == 3
    assert "refused: this run ended" in second.output()


@needs_torch
def test_a_lost_rank_ends_the_others_with_a_message(tmp_path: Path, started: Started) -> None:
    flags = (f"--run-path={tmp_path}/run", "--factor=2", "--largest=1GiB", "--iterations=20")
    ranks = started.ranks(tmp_path, flags, PAIR, command=ALONE)
    until(lambda: "all-gather" in ranks[0].output(), 60, "a first measurement")
    ranks[1].kill()
    assert ranks[0].wait() == 1
    assert "has lost another rank" in ranks[0].output()
    assert "Traceback" not in ranks[0].output()


def test_the_run_path_of_a_training_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.json").write_text("{}")
    assert probe.main(["--num-workers=0", f"--run-path={tmp_path}"]) == 4
    assert "belongs to a training; give the probe another --run-path" in capsys.readouterr().err


def test_a_start_that_was_refused_before_is_refused_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metrics.refuse(Storage(str(tmp_path)), probe.Exit.TRANSPORT, "wrong transport")
    assert probe.main(["--num-workers=0", f"--run-path={tmp_path}"]) == 3
    assert "refused: this run ended" in capsys.readouterr().err


@pytest.mark.ray
@pytest.mark.usefixtures("ray_installed")
@pytest.mark.full
def test_without_a_cluster_it_starts_a_ray_of_its_own(tmp_path: Path, started: Started) -> None:
    with tempfile.TemporaryDirectory(prefix="rt-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        flags = (f"--run-path={tmp_path}/run", *QUICK)
        alone = started.start((*PROBE, *flags), tmp_path / "log", RAY_TMPDIR=folder)
        assert alone.wait(WAIT) == 0, alone.output()
        started.end()
    assert alone.output().splitlines()[0] == "probe: 2 ranks on 1 node (cpu, gloo), 1 run before 2 timed"
    assert len(kept(tmp_path / "run")["measurements"]) == 6


@pytest.mark.ray
@pytest.mark.usefixtures("ray_installed")
def test_two_nodes_of_a_real_ray(tmp_path: Path) -> None:
    """As the chart starts it."""
    contract = {"RTD_NODES": "2", "RTD_PROCESSES_PER_NODE": "1", "RTD_GPUS_PER_NODE": "0", "RTD_STORAGE_KIND": "none"}
    with running_head() as cluster:
        for host in ("127.0.0.2", "127.0.0.3"):
            cluster.join(host)
        driver = cluster.started.start(
            (*PROBE, "--preset=tiny", *QUICK),
            tmp_path / "log",
            RAY_ADDRESS=cluster.address,
            RTD_RUN_PATH=f"{tmp_path}/run",
            **contract,
        )
        assert driver.wait(WAIT) == 0, driver.output()
    assert "between: 1 × 2 ranks" in driver.output()
    assert "inside a node takes two ranks or more on each" in driver.output()
    content = kept(tmp_path / "run")
    assert content["topology"]["nodes"] == 2
    assert {m["group"] for m in content["measurements"]} == {"between"}
