"""Instances and fit (2xx)."""

from __future__ import annotations

from generator.diagnostics.codes.code import ALWAYS, WARNINGS, Code, E, W

CODES = {
    "RTD201": Code(
        "unknown instance type",
        E,
        why="every number of a node comes from `generator/catalog/instances.csv`; a warning for system nodes, of "
        "which only the fit and the price need it",
        fix="correct the type's name, or take one that `generator/catalog/instances.csv` has",
        silenceable=WARNINGS,
    ),
    "RTD202": Code(
        "the instance type cannot run this training",
        E,
        why="no GPU, a part of a GPU, arm64, Trainium, V100 (no CUDA 13), T4 (no bf16), or a network whose facts are "
        "not sure (p6e, g7, p6-b300)",
        fix="take a type with whole NVIDIA GPUs of 2020 or later for workers, and a general amd64 type such as "
        "m7i.xlarge for system nodes",
    ),
    "RTD203": Code(
        "the instance type is not offered in the region",
        E,
        why="by the catalogue's prices and zones; EC2 would refuse to start the nodes",
        fix="take another type, or a cluster in a region that the finding names; silence it where AWS offers the "
        "type since",
        silenceable=ALWAYS,
    ),
    "RTD204": Code(
        "more GPUs asked for than the instance type has",
        E,
        why="the pod would never be scheduled, or would leave all GPUs of its node alone",
        fix="lower `gpusPerNode` to what the type has, or remove it to use all",
    ),
    "RTD205": Code(
        "the head does not fit on a system node",
        E,
        why="allocatable CPU and memory, less the pods that run there anyway: the head would stay Pending; the "
        "arithmetic is in a note",
        fix="take a larger `systemNodes.instanceType`, or lower `head.cpu` and `head.memory` to what the finding names",
        silenceable=ALWAYS,
    ),
    "RTD206": Code(
        "a worker does not fit on its node",
        E,
        why="allocatable CPU and memory, less EFA's 2 MiB pages and the daemon sets: the worker would stay Pending; "
        "the arithmetic is in a note",
        fix="remove `cpu` and `memory` to use what the node has left, or lower them to what the finding names",
        silenceable=ALWAYS,
    ),
    "RTD207": Code(
        "processesPerNode contradicts the GPUs or the other groups",
        E,
        why="one rank runs per GPU, and every node runs as many ranks as the others",
        fix="remove `processesPerNode`, and give every group the same number of GPUs per node",
    ),
    "RTD208": Code(
        "the catalogue has no facts about the region",
        W,
        why="offers, zones and prices there are not checked",
        fix="check by hand that the instance types exist there and what they cost; correct the region if it is "
        "misspelt",
    ),
    "RTD209": Code(
        "the `local` type is mixed with nodes on AWS",
        E,
        why="`local` is this machine, which is no node of a cluster on AWS",
        fix="use `local` for the workers and the system nodes of a cluster, or for none of them",
    ),
    "RTD210": Code(
        "the heads of a cluster's environments do not fit on its system nodes together",
        W,
        why="one job would wait for another's end",
        fix="raise `systemNodes.count`, take a larger type, or let the jobs run one after the other",
    ),
    "RTD212": Code(
        "the nodes' volumes are too small",
        E,
        why="image, logs, checkpoints on their way to S3 or kept on the node, and an export, above what the "
        "kubelet lets pods have of the volume; the arithmetic is in a note",
        fix="keep fewer checkpoints on the node, keep them on FSx, or spread the training over more nodes",
        silenceable=ALWAYS,
    ),
    "RTD213": Code(
        "a worker's memory is too small for its ranks",
        E,
        why="ranks, NCCL's pinned buffers and Ray, below the share at which Ray kills processes; a warning when the "
        "object store in /dev/shm finds no room beside them",
        fix="raise `workers.<group>.memory`, or remove it",
        silenceable=ALWAYS,
    ),
    "RTD214": Code(
        "the head's memory is too small",
        E,
        why="GCS, dashboard and driver run there; an error below 2 GiB, a warning below 4 GiB",
        fix="raise `head.memory`, or remove it",
        silenceable=ALWAYS,
    ),
    "RTD215": Code(
        "the training exceeds the GPUs' memory",
        E,
        why="weights, gradients, optimiser states, gathered layers, activations and loss by `training/sizes.py`; a "
        "warning above 90 %. The parts are in a note",
        fix="lower `micro_batch_size`, recompute activations, or shard over more ranks; the help names values",
        silenceable=ALWAYS,
    ),
    "RTD216": Code(
        "the sharding does not fit the layout",
        W,
        why="on one node, or with one rank per node, it comes to another one",
        fix="choose the sharding that it comes to, or `auto`",
    ),
}
