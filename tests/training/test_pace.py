"""Progress line, its numbers, and what the network interfaces have carried."""

from __future__ import annotations

from pathlib import Path

import pytest

from training import config
from training.pace import Interfaces, Pace, peak_flops, progress_line
from training.sizes import nic_bytes_per_step


def test_the_progress_line_has_the_form_of_the_contract() -> None:
    numbers = {"tokens_per_second": 12345.4, "step_time": 0.1229, "memory_bytes": 1.5e9, "eta": 3725.2}
    line = progress_line(step=10, steps=30, loss=5.12341, lr=3e-4, numbers=numbers)
    start = "step 10/30  loss 5.1234  lr 3.0e-04  tokens/s 12345  step_time 0.123"
    assert line == f"{start}  memory 1.50 GB  eta 1:02:05"
    more = {**numbers, "mfu": 0.4123, "nic_gbps": 31.26}
    line = progress_line(step=10, steps=30, loss=5.12341, lr=3e-4, numbers=more)
    assert line == f"{start}  mfu 41.2%  nic 31.3 Gb/s  memory 1.50 GB  eta 1:02:05"


def test_an_interval_is_the_mean_of_its_steps_and_ends_with_the_line() -> None:
    built = config.build("tiny", {"sharding": "hsdp"})
    pace = Pace(built, nodes=2, processes_per_node=2, cuda=False)
    for seconds in (0.5, 1.5):
        pace.add(seconds)
    found = pace.interval(left=7)
    assert found["step_time"] == 1.0
    assert found["tokens_per_second"] == 24 * 128
    assert found["eta"] == 7.0
    expected = nic_bytes_per_step(built, nodes=2, processes_per_node=2, cuda=False)
    assert found["nic_gbps"] == pytest.approx(expected * 8 / 1e9)
    assert found["memory_bytes"] > 1e6
    assert "mfu" not in found  # a CPU has no peak in the table
    pace.add(3.0)
    assert pace.interval(left=0)["step_time"] == 3.0
    alone = Pace(built, nodes=1, processes_per_node=2, cuda=False)
    alone.add(1.0)
    assert "nic_gbps" not in alone.interval(left=0)  # nothing crosses a network


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA L4", 121e12),
        ("NVIDIA L40S", 362e12),
        ("NVIDIA A10G", 70e12),
        ("NVIDIA A100-SXM4-40GB", 312e12),
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H200", 989e12),
        ("NVIDIA B200", 2250e12),
        ("NVIDIA GeForce RTX 4090", None),
    ],
)
def test_peaks_go_by_the_name_of_the_gpu(name: str, peak: float | None) -> None:
    assert peak_flops(name) == peak


def counters(root: Path, files: dict[str, int | str]) -> None:
    for name, value in files.items():
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f"{value}\n")


def test_network_devices_are_counted_between_two_questions(tmp_path: Path) -> None:
    eth0, lo = "net/eth0/statistics", "net/lo/statistics"
    counters(tmp_path, {f"{eth0}/tx_bytes": 100, f"{eth0}/rx_bytes": 50, f"{lo}/tx_bytes": 1, f"{lo}/rx_bytes": 1})
    counters(tmp_path, {"net/odd/statistics/tx_bytes": "x", "net/odd/statistics/rx_bytes": 0})
    interfaces = Interfaces(tmp_path)
    counters(tmp_path, {f"{eth0}/tx_bytes": 1100, f"{eth0}/rx_bytes": 550, f"{lo}/tx_bytes": 9})
    moved = interfaces.moved()
    assert {name: (m["sent"], m["received"]) for name, m in moved.items()} == {"eth0": (1000, 500)}
    assert moved["eth0"]["seconds"] >= 0
    assert {name: (m["sent"], m["received"]) for name, m in interfaces.moved().items()} == {"eth0": (0, 0)}


def test_the_hardware_counters_of_an_efa_device_come_first(tmp_path: Path) -> None:
    efa = "infiniband/rdmap0s6/ports/1/hw_counters"
    counters(tmp_path, {f"{efa}/tx_bytes": 10, f"{efa}/rx_bytes": 20, "net/eth0/statistics/tx_bytes": 5})
    interfaces = Interfaces(tmp_path)
    counters(tmp_path, {f"{efa}/tx_bytes": 30, f"{efa}/rx_bytes": 60, "net/eth0/statistics/tx_bytes": 50})
    moved = interfaces.moved()
    assert {name: (m["sent"], m["received"]) for name, m in moved.items()} == {"rdmap0s6": (20, 40)}


def test_a_machine_without_such_counters_has_none(tmp_path: Path) -> None:
    assert Interfaces(tmp_path).moved() == {}
