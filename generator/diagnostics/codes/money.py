"""Money and limits (8xx)."""

from __future__ import annotations

from generator.diagnostics.codes.code import Code, E, W

CODES = {
    "RTD801": Code(
        "the nodes exceed the declared vCPU quota",
        E,
        why="by `policy.quota`; the node group would wait for nodes that EC2 does not start",
    ),
    "RTD802": Code(
        "the reservation id is missing or malformed",
        E,
        why="eksctl takes any text here, and the nodes would be bought on demand",
    ),
    "RTD803": Code(
        "a reservation id where no reservation is used",
        E,
        why="it would have no effect",
    ),
    "RTD804": Code(
        "the GPUs are paid for and not used",
        W,
        why="`training.args.device: cpu` on nodes with GPUs; for trying out a cluster it is right",
    ),
    "RTD805": Code(
        "the environment costs more than its owner allows",
        E,
        why="by `policy.maxUsdPerHour`; the sum is that of `plan`",
    ),
    "RTD806": Code(
        "whether the environment stays below its price limit is not known",
        W,
        why="the catalogue has no price for a part of it",
    ),
    "RTD807": Code(
        "the days of the reservation do not fit",
        E,
        why="a node group on a reservation that has ended, or not begun, gets no node; a warning when it begins later",
    ),
    "RTD809": Code(
        "no Capacity Block has such instances, or so many",
        E,
        why="AWS sells blocks of some types only, with at most 64 instances",
    ),
    "RTD810": Code(
        "more nodes than the reservation has instances",
        E,
        why="by `capacity.instances`; the other nodes never come up",
    ),
    "RTD811": Code(
        "the Kubernetes version is in extended support",
        W,
        why="the control plane of such a cluster costs 0.60 USD per hour instead of 0.10",
    ),
}
