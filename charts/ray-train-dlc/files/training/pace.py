"""How fast the training is: step time, tokens per second, MFU, bytes on the network, memory, time left."""

from __future__ import annotations

import datetime
import re
import resource
import sys
import time
from pathlib import Path

from training.config import Config
from training.sizes import flops_per_token, nic_bytes_per_step, tokens_per_step

# Dense bf16 FLOP/s of one GPU by the name that CUDA gives it: the vendor's datasheets, as in torchtitan's
# tools/utils.py and nanochat's common.py. The first name that is found counts.
PEAK_FLOPS = {
    r"\bL40S\b": 362e12,
    r"\bL4\b": 121e12,
    r"\bA10G\b": 70e12,
    r"\bA100\b": 312e12,
    r"\bH100\b": 989e12,
    r"\bH200\b": 989e12,
    r"\bB200\b": 2250e12,
    r"\bB300\b": 2250e12,
}


def peak_flops(device_name: str) -> float | None:
    """Dense bf16 FLOP/s of a GPU, or None for one that is not in the table: then there is no MFU."""
    return next((peak for name, peak in PEAK_FLOPS.items() if re.search(name, device_name)), None)


def progress_line(*, step: int, steps: int, loss: float, lr: float, numbers: dict[str, float]) -> str:
    """One line per interval; its form is part of the contract, other programs read it.

    Args:
        numbers: as `Pace.interval` gives them.
    """
    parts = [f"step {step}/{steps}", f"loss {loss:.4f}", f"lr {lr:.1e}", f"tokens/s {numbers['tokens_per_second']:.0f}"]
    parts.append(f"step_time {numbers['step_time']:.3f}")
    if "mfu" in numbers:
        parts.append(f"mfu {numbers['mfu']:.1%}")
    if "nic_gbps" in numbers:
        parts.append(f"nic {numbers['nic_gbps']:.1f} Gb/s")
    parts.append(f"memory {numbers['memory_bytes'] / 1e9:.2f} GB")
    parts.append(f"eta {datetime.timedelta(seconds=round(numbers['eta']))}")
    return "  ".join(parts)


class Pace:
    """Numbers of the interval since the last progress line. A process's first step has an interval of its own."""

    def __init__(self, config: Config, *, nodes: int, processes_per_node: int, cuda: bool) -> None:
        self.last = 0.0
        """Wall time of the newest step, in seconds."""
        self._times: list[float] = []
        self._cuda = cuda
        self._tokens = tokens_per_step(config.batch)
        layout = {"nodes": nodes, "processes_per_node": processes_per_node}
        self._nic_bytes = nic_bytes_per_step(config, **layout, cuda=cuda)
        self._flops = flops_per_token(config.model, config.batch.sequence_length) * self._tokens
        self._peak: float | None = None
        if cuda:
            import torch

            each = peak_flops(torch.cuda.get_device_name())
            self._peak = each * nodes * processes_per_node if each else None

    def add(self, seconds: float) -> None:
        """Wall time of one more step."""
        self.last = seconds
        self._times.append(seconds)

    def interval(self, *, left: int) -> dict[str, float]:
        """Means over the interval, which ends here.

        Args:
            left: steps still to take.

        Returns:
            step_time (s), tokens_per_second (all ranks), mfu (share of the GPUs' dense bf16 peak; without recomputed
            work; only for known GPUs), nic_gbps (expected bytes of one node in one direction ÷ step time; only with
            several nodes), memory_bytes (this rank's peak: of its GPU, else of its process), eta (s).
        """
        step_time = sum(self._times) / len(self._times)
        self._times.clear()
        numbers = {"step_time": step_time, "tokens_per_second": self._tokens / step_time, "eta": left * step_time}
        if self._peak:
            numbers["mfu"] = self._flops / step_time / self._peak
        if self._nic_bytes:
            numbers["nic_gbps"] = self._nic_bytes * 8 / 1e9 / step_time
        numbers["memory_bytes"] = float(self._peak_memory())
        return numbers

    def _peak_memory(self) -> int:
        if self._cuda:
            import torch

            return int(torch.cuda.max_memory_allocated())
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


class Interfaces:
    """Bytes that this node's network interfaces have carried since the last question.

    With an EFA device its hardware counters, because its traffic passes by the kernel; else those of the network
    devices. Where neither can be read, as on macOS, there are none.
    """

    def __init__(self, root: Path = Path("/sys/class")) -> None:
        self._root = root
        self._before = self._read()
        self._since = time.monotonic()

    def _read(self) -> dict[str, tuple[int, int]]:
        counters = {
            device.name: (device / "ports/1/hw_counters/tx_bytes", device / "ports/1/hw_counters/rx_bytes")
            for device in sorted(self._root.glob("infiniband/*"))
        }
        if not counters:
            counters = {
                device.name: (device / "statistics/tx_bytes", device / "statistics/rx_bytes")
                for device in sorted(self._root.glob("net/*"))
                if device.name != "lo"
            }
        found = {}
        for name, (sent, received) in counters.items():
            try:
                found[name] = (int(sent.read_text()), int(received.read_text()))
            except (OSError, ValueError):
                continue
        return found

    def moved(self) -> dict[str, dict[str, float]]:
        """Interface → bytes sent and received since the last call, and the seconds between."""
        now, when = self._read(), time.monotonic()
        moved = {
            name: {"sent": sent - self._before[name][0], "received": received - self._before[name][1]}
            for name, (sent, received) in now.items()
            if name in self._before
        }
        seconds = round(when - self._since, 3)
        self._before, self._since = now, when
        return {name: {**counted, "seconds": seconds} for name, counted in moved.items()}
