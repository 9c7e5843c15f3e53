"""Money and limits (8xx)."""

from __future__ import annotations

from generator.diagnostics.codes.code import Code, E, W

CODES = {
    "RTD801": Code(
        "the nodes exceed the declared vCPU quota",
        E,
        why="by `policy.quota`",
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
}
