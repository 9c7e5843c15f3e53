"""Money and limits (8xx)."""

from __future__ import annotations

from generator.diagnostics.codes.code import ALWAYS, WARNINGS, Code, E, W

CODES = {
    "RTD801": Code(
        "the nodes exceed the declared vCPU quota",
        E,
        why="by `policy.quota`; the node group would wait for nodes that EC2 does not start",
        fix="take fewer or smaller nodes, or have the quota raised at AWS and then raise `policy.quota`",
    ),
    "RTD802": Code(
        "the reservation id is missing or malformed",
        E,
        why="eksctl takes any text here, and the nodes would be bought on demand",
        fix="write `cr-` and 17 hex digits, as the EC2 console shows the reservation",
    ),
    "RTD803": Code(
        "a reservation id where no reservation is used",
        E,
        why="it would have no effect, and the nodes would be bought on demand",
        fix="set `capacity.kind` to `reservation` or `capacityBlock`, or remove the key",
    ),
    "RTD804": Code(
        "the GPUs are paid for and not used",
        W,
        why="`training.args.device: cpu` on nodes with GPUs; for trying out a cluster it is right",
        fix="remove `training.args.device` for the training itself; silence it while the cluster is tried out",
    ),
    "RTD805": Code(
        "the environment costs more than its owner allows",
        E,
        why="by `policy.maxUsdPerHour`; the sum is that of `plan`",
        fix="take fewer nodes or a smaller type, or raise `policy.maxUsdPerHour`",
    ),
    "RTD806": Code(
        "whether the environment stays below its price limit is not known",
        W,
        why="the catalogue has no price for a part of it, so that the limit guards nothing",
        fix="look the price up, and silence the finding with it as the reason, or take a type whose price is known",
    ),
    "RTD807": Code(
        "the days of the reservation do not fit",
        E,
        why="a node group on a reservation that has ended, or not begun, gets no node; a warning when it begins later",
        fix="correct the days, name a reservation that is still there, or make the node group on the day it begins",
        silenceable=WARNINGS,
    ),
    "RTD809": Code(
        "no Capacity Block has such instances, or so many",
        E,
        why="AWS sells blocks of some types only, with at most 64 instances, as far as the catalogue knows",
        fix="take another kind of capacity or a P type, or split the group; silence it where you hold such a block",
        silenceable=ALWAYS,
    ),
    "RTD810": Code(
        "more nodes than the reservation has instances",
        E,
        why="by `capacity.instances`; the other nodes never come up",
        fix="lower `nodes`, name another reservation, or correct `capacity.instances`",
    ),
    "RTD811": Code(
        "the Kubernetes version is in extended support",
        W,
        why="the control plane of such a cluster costs 0.60 USD per hour instead of 0.10",
        fix="upgrade the cluster to a version in standard support, which the finding names",
    ),
}
