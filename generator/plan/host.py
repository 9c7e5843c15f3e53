"""Memory of the pods in the nodes' main memory: what the training and Ray need, beside what each pod has.

Measured figures: `bench/host_memory.py`, bench/results/2026-12-03-host-memory.json. The others name their sources.
"""

from __future__ import annotations

from generator.plan.memory import Memory, training_config
from generator.resolve import Group, Resolved
from training import sizes
from training.config import Config

_MIB = 1024**2

RANK_CUDA_MIB = 2006
"""One rank on a GPU, preset `tiny`, Python, PyTorch 2.11, CUDA 13.0 and transformers (measured on one H200)."""
RANK_CPU_MIB = 633
"""One rank on the CPU under Ray 2.58 and PyTorch 2.13, preset `tiny` (measured)."""
NETWORK_MIB = 512
"""NCCL's pinned buffers of one rank among several: tens of connections of about 9.2 MiB each; an estimate."""
RAY_MIB = 474
"""Raylet and agents of an idle worker pod, Ray 2.52 (ray-project/kuberay pull request 4288)."""

MONITOR = 0.95
"""Above this share of the pod's memory Ray kills processes (RAY_memory_usage_threshold)."""
STORE = 0.30
"""Ray's object store may grow to this share of the pod's memory, in /dev/shm (ray_constants.py of Ray 2.58)."""

HEAD_LEAST_MIB = 2 * 1024
"""Below, the head often runs out of memory (ray-project/kuberay pull request 761)."""
HEAD_USUAL_MIB = 4 * 1024
"""What KubeRay's own samples were raised to, after heads of 2.7 and 3.5 GB were seen (pull requests 4288, 4089)."""


def pod_memory(resolved: Resolved) -> list[tuple[str, Memory]]:
    """(group, memory of each of its pods) of every group; nothing where the training is not ours to foresee.

    Left out is what gives way: pages of files that are read or written, and the object store, in which the training
    keeps next to nothing.
    """
    config = training_config(resolved)
    if config is None:
        return []
    return [(group.name, _pod(config, resolved, group)) for group in resolved.groups]


def _pod(config: Config, resolved: Resolved, group: Group) -> Memory:
    cuda = group.gpus > 0 and config.parallel.device != "cpu"
    parts = {"ranks": group.processes * (RANK_CUDA_MIB if cuda else RANK_CPU_MIB) * _MIB}
    if cuda and resolved.world_size > 1:
        parts["network"] = group.processes * NETWORK_MIB * _MIB
    if not cuda:
        # On the CPU the model is in the pod's memory; what else a step holds there is not estimated.
        planned = sizes.gpu_memory(config, nodes=resolved.nodes, processes_per_node=group.processes)
        parts["model and optimiser states"] = group.processes * planned.state
    parts["ray"] = RAY_MIB * _MIB
    return Memory(parts, group.memory_mib * _MIB)
