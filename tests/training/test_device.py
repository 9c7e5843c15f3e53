"""The setting `device`: what the ranks compute on, where GPUs are, are not, or only seem to be."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.training.conftest import require
from tests.training.processes import TRAIN, Started, finish, losses, outputs, record
from tests.training.raycluster import FLAGS, WAIT, Cluster, running_head
from training import config
from training.cluster import rank_resources, wait_for_cluster
from training.contract import Contract, Exit, RunEndError
from training.loop import Job
from training.topology import use_cuda

# What a chart says to the ranks of two nodes with two GPUs and EFA.
GPU_NODES = {"RTD_GPUS_PER_NODE": "2", "RTD_PROCESSES_PER_NODE": "2"}
EFA = {"RTD_TRANSPORT_PROVIDER": "efa", "RTD_TRANSPORT_PROTOCOL": "SENDRECV", "RTD_TRANSPORT_INTERFACES": "1"}
SAID = "device cpu: ranks talk over gloo; the promised transport (efa) is not used and not checked"
NO_GPU = "device cuda needs GPUs, and the nodes have none (RTD_GPUS_PER_NODE=0)"


def contract(gpus: int | None) -> Contract:
    return replace(Contract.from_env({}), gpus_per_node=gpus)


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize(
    ("device", "gpus", "expected"),
    [
        ("auto", 2, True),
        ("auto", 0, False),
        ("auto", None, None),
        ("cpu", 2, False),
        ("cpu", 0, False),
        ("cpu", None, False),
        ("cuda", 2, True),
        ("cuda", None, True),
    ],
)
def test_the_device_comes_before_the_surroundings_and_these_before_what_is_there(
    torch_installed: None,
    monkeypatch: pytest.MonkeyPatch,
    there: bool,
    device: str,
    gpus: int | None,
    expected: bool | None,
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: there)
    assert use_cuda(device, contract(gpus)) is (there if expected is None else expected)


def test_cuda_contradicts_nodes_without_gpus() -> None:
    with pytest.raises(RunEndError) as ended:
        use_cuda("cuda", contract(0))
    assert (ended.value.code, ended.value.message) == (Exit.LAYOUT, NO_GPU)


def wait(
    monkeypatch: pytest.MonkeyPatch, device: str, *nodes: dict[str, float], gpus: int | None = None
) -> tuple[dict[str, float], bool] | None:
    """What a run of two ranks per node gets on a Ray of its own that has these nodes."""
    require("ray")
    alive: list[dict[str, Any]] = [{"Alive": True, "Resources": node} for node in nodes]
    monkeypatch.setattr("ray.nodes", lambda: alive)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    told = replace(contract(gpus), nodes=len(nodes), processes_per_node=2)
    job = Job(config.build("tiny", {"device": device}), told, "/nowhere", "run")
    return wait_for_cluster(job, 2 * len(nodes), threading.Event())


def test_ranks_on_the_cpu_take_no_gpu_of_ray_and_fill_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    node = {"CPU": 46.0, "GPU": 2.0}
    for gpus in (2, None):
        assert wait(monkeypatch, "cpu", node, node, gpus=gpus) == ({"CPU": 23}, False)
        assert wait(monkeypatch, "auto", node, node, gpus=gpus) == ({"CPU": 23, "GPU": 1}, True)
        assert wait(monkeypatch, "cuda", node, node, gpus=gpus) == ({"CPU": 23, "GPU": 1}, True)
    share = rank_resources([{"CPU": 47, "GPU": 4}], 1, 4, 4, cuda=False)
    assert share == {"CPU": 11}
    assert 47 // 11 == 4


def test_cuda_without_gpus_ends_at_once_on_a_ray_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    began = time.monotonic()
    with pytest.raises(RunEndError, match="needed 1 nodes with 2 GPUs, found 0") as ended:
        wait(monkeypatch, "cuda", {"CPU": 4.0})
    assert (ended.value.code, ended.value.lasting) == (Exit.LAYOUT, False)
    assert time.monotonic() - began < 10


@pytest.mark.usefixtures("torch_installed")
def test_cpu_trains_where_gpus_and_efa_are_promised(tmp_path: Path, started: Started) -> None:
    """Two ranks as torchrun starts them. No GPU is hidden: where there is one, it is left alone."""
    path = tmp_path / "run"
    places = tuple({"LOCAL_RANK": str(r), "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"} for r in range(2))
    flags = (*FLAGS, "--steps=8", "--device=cpu", f"--run-path={path}")
    ranks = started.ranks(tmp_path, flags, places, **GPU_NODES, **EFA)
    assert finish(ranks) == [0, 0], outputs(ranks)
    assert [rank.output().splitlines().count(SAID) for rank in ranks] == [1, 0]
    assert record(path)["transport"]["verdict"] == "not checked: device cpu"
    assert record(path)["transport"]["expected"]["provider"] == "efa"
    assert "(cpu, full sharding)" in ranks[0].output()
    assert losses(path)[-1] < losses(path)[0] - 1
    assert_cpu(path)


@pytest.mark.usefixtures("torch_installed")
def test_ranks_on_the_cpu_see_no_gpu(tmp_path: Path, started: Started) -> None:
    """torch's checkpoints would open it, however little the training has to do with it."""
    code = (
        "import os, torch; from training.train import main\n"
        f"code = main(['--num-workers=0', '--device=cpu', '--steps=1', '--run-path={tmp_path}/run'])\n"
        "print(code, os.environ['CUDA_VISIBLE_DEVICES'] == '', torch.cuda.is_initialized())"
    )
    process = started.start((sys.executable, "-c", code), tmp_path / "log", CUDA_VISIBLE_DEVICES="0")
    assert process.wait() == 0, process.output()
    assert process.output().splitlines()[-1] == "0 True False"


@pytest.mark.usefixtures("torch_installed")
@pytest.mark.parametrize(("gpus", "text"), [("0", NO_GPU), ("", "needs 1 visible GPUs there, found 0")])
def test_cuda_without_gpus_ends_with_5(tmp_path: Path, started: Started, gpus: str, text: str) -> None:
    flags = ("--num-workers=0", "--device=cuda", f"--run-path={tmp_path / 'run'}")
    env = {"RTD_GPUS_PER_NODE": gpus, "CUDA_VISIBLE_DEVICES": ""}
    process = started.start((*TRAIN, *flags), tmp_path / "log", **env)
    assert process.wait() == 5, process.output()
    assert text in process.output()
    assert "Traceback" not in process.output()
    assert not (tmp_path / "run").exists()


def assert_cpu(path: Path) -> None:
    """The run record says what the ranks computed on, whatever the nodes have."""
    content = record(path)
    assert content["run"]["state"] == "finished"
    assert content["configuration"]["device"] == "cpu"
    assert (content["topology"]["gpusPerNode"], content["topology"]["backend"]) == (0, "gloo")
    assert content["topology"]["processesPerNode"] == 2


@pytest.fixture(scope="module")
def gpu_cluster(ray_installed: None) -> Iterator[Cluster]:
    """Two nodes of one CPU and, as they say, two GPUs and EFA; the head knows nothing of EFA, as in the chart."""
    with running_head() as made:
        made.join("127.0.0.5", gpus=2, **EFA)
        made.join("127.0.0.6", gpus=2, **EFA)
        yield made


@pytest.mark.ray
@pytest.mark.full
def test_cpu_trains_under_ray_on_nodes_whose_gpus_are_stand_ins(gpu_cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "run"
    driver = gpu_cluster.train(tmp_path / "log", "--device=cpu", "--steps=4", RTD_RUN_PATH=str(path), **GPU_NODES)
    assert driver.wait(WAIT) == 0, driver.output()
    assert driver.output().splitlines().count(SAID) == 1
    assert "4 ranks on 2 nodes (cpu, hsdp sharding)" in driver.output()
    assert len(losses(path)) == 4
    assert_cpu(path)
    assert [r["nodeRank"] for r in record(path)["topology"]["ranks"]] == [0, 0, 1, 1]


@pytest.mark.ray
@pytest.mark.full
def test_under_ray_the_ranks_know_what_network_is_promised(gpu_cluster: Cluster, tmp_path: Path) -> None:
    """The chart tells the workers alone; the driver runs on the head. Without `device: cpu` the promise is checked."""
    driver = gpu_cluster.train(tmp_path / "log", "--steps=4", RTD_RUN_PATH=str(tmp_path / "run"))
    assert driver.wait(WAIT) == 3, driver.output()
    assert "provider: expected efa, found none in the log (ranks 0, 1)" in driver.output()


@pytest.mark.ray
def test_cuda_ends_with_5_under_ray_where_the_nodes_have_no_gpus(gpu_cluster: Cluster, tmp_path: Path) -> None:
    """At once where the surroundings say so, else after the wait for nodes."""
    told = gpu_cluster.train(tmp_path / "1.log", "--device=cuda", RTD_RUN_PATH=str(tmp_path / "told"))
    assert told.wait(WAIT) == 5, told.output()
    assert NO_GPU in told.output()
    three = {"RTD_GPUS_PER_NODE": "", "RTD_PROCESSES_PER_NODE": "3", "RTD_RUN_PATH": str(tmp_path / "found")}
    found = gpu_cluster.train(tmp_path / "2.log", "--device=cuda", "--start-timeout=2", **three)
    assert found.wait(WAIT) == 5, found.output()
    assert "too small, also after 2 s: needed 2 nodes with 3 GPUs, found 0" in found.output()
