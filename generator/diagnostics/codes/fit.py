"""Instances and fit (2xx)."""

from __future__ import annotations

from generator.diagnostics.codes.code import Code, E, W

CODES = {
    "RTD201": Code(
        "unknown instance type",
        E,
        why="not in `generator/catalog/instances.csv`",
    ),
    "RTD202": Code(
        "the instance type cannot run this training",
        E,
        why="no GPU, a part of a GPU, arm64, Trainium, V100 (no CUDA 13), T4 (no bf16), or a network whose facts are "
        "not sure (p6e, g7, p6-b300)",
    ),
    "RTD203": Code(
        "the instance type is not offered in the region",
        E,
        why="by the catalogue's prices and zones",
    ),
    "RTD204": Code(
        "more GPUs asked for than the instance type has",
        E,
        why="the pod would never be scheduled",
    ),
    "RTD205": Code(
        "the head does not fit on a system node",
        E,
        why="allocatable CPU and memory, less the pods that run there anyway; the arithmetic is in a note",
    ),
    "RTD206": Code(
        "a worker does not fit on its node",
        E,
        why="allocatable CPU and memory, less EFA's 2 MiB pages and the daemon sets; the arithmetic is in a note",
    ),
    "RTD207": Code(
        "processesPerNode contradicts the GPUs or the other groups",
        E,
        why="one rank runs per GPU, and every node runs as many ranks as the others",
    ),
    "RTD208": Code(
        "the catalogue has no facts about the region",
        W,
        why="offers, zones and prices there are not checked",
    ),
    "RTD209": Code(
        "the `local` type is mixed with nodes on AWS",
        E,
        why="`local` is this machine",
    ),
    "RTD210": Code(
        "the heads of a cluster's environments do not fit on its system nodes together",
        W,
        why="one job would wait for another's end",
    ),
    "RTD212": Code(
        "the nodes' volumes are too small",
        E,
        why="image, logs, checkpoints on their way to S3 or kept on the node, and an export, above what the "
        "kubelet lets pods have of the volume; the arithmetic is in a note",
        fix="Keep fewer checkpoints on the node, keep them on FSx, or spread the training over more nodes.",
    ),
    "RTD213": Code(
        "a worker's memory is too small for its ranks",
        E,
        why="ranks, NCCL's pinned buffers and Ray, below the share at which Ray kills processes; a warning when the "
        "object store in /dev/shm finds no room beside them",
        fix="Raise `workers.<group>.memory`, or remove it.",
    ),
    "RTD214": Code(
        "the head's memory is too small",
        E,
        why="GCS, dashboard and driver run there; an error below 2 GiB, a warning below 4 GiB",
        fix="Raise `head.memory`, or remove it.",
    ),
    "RTD215": Code(
        "the training exceeds the GPUs' memory",
        E,
        why="weights, gradients, optimiser states, gathered layers, activations and loss by `training/sizes.py`; a "
        "warning above 90 %. The parts are in a note",
        fix="Lower `micro_batch_size`, recompute activations, or shard over more ranks; the help names values.",
    ),
    "RTD216": Code(
        "the sharding does not fit the layout",
        W,
        why="on one node, or with one rank per node, it comes to another one",
        fix="Choose the sharding that it comes to, or `auto`.",
    ),
}
