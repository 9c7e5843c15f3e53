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
}
