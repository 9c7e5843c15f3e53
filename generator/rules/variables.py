"""Environment variables of the pods: whose they are, and what they would do to the network (RTD340 to RTD342)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from generator.catalog.variables import Variable, variables
from generator.diagnostics.finding import Finding, Pointer
from generator.model.environment import Environment
from generator.model.pods import EnvSource
from generator.resolve import Group
from generator.rules.context import Context

_CODES = {"owned": "RTD340", "defeats": "RTD341", "slow": "RTD342"}


def given(environment: Environment) -> Iterator[tuple[Pointer, Any]]:
    """(place in the file, value) of every variable; a value that only the cluster knows is an EnvSource or a map."""
    for name, value in environment.env.items():
        yield ("env", name), value
    maps: list[Pointer] = [("head", "env"), ("job", "runtimeEnv", "env_vars")]
    maps += [("workerGroups", group, "env") for group in environment.workers]
    for place in maps:
        node: Any = environment.values
        for part in place:
            node = node.get(part) if isinstance(node, Mapping) else None
        if isinstance(node, Mapping):
            for name, value in node.items():
                yield ("values", *place, name), value


def known_variables(ctx: Context) -> Iterator[Finding]:
    groups = [group for group, _ in ctx.groups()]
    for path, value in given(ctx.environment):
        plain = None if isinstance(value, EnvSource | Mapping) else value
        for row in variables():
            if row.applies(str(path[-1]), plain) and _matters(row, groups, ctx.resolved.nodes):
                shown = f"={_text(plain)}" if plain is not None and row.kind != "owned" else ""
                yield ctx.in_environment(
                    _CODES[row.kind],
                    *path,
                    on_key=True,
                    message=f"{path[-1]}{shown}: {row.effect}",
                    help=row.instead,
                )
                break


def sources(ctx: Context) -> Iterator[Finding]:
    """One source for each variable, and one variable for each token of the hub."""
    training = ctx.environment.training
    for name, value in ctx.environment.env.items():
        if isinstance(value, EnvSource):
            count = len(value.model_dump(exclude_none=True))
            if count != 1:
                yield ctx.in_environment(
                    "RTD340",
                    "env",
                    name,
                    message=f"{name} has {count or 'no'} source{'' if count == 1 else 's'}",
                    help="give exactly one of secretKeyRef, configMapKeyRef, fieldRef",
                )
    for index, source in enumerate(ctx.environment.env_from):
        if (source.secret_ref is None) == (source.config_map_ref is None):
            yield ctx.in_environment(
                "RTD340",
                "envFrom",
                index,
                message="an entry of envFrom names one Secret or one ConfigMap",
                help="give exactly one of secretRef, configMapRef",
            )
    if "HF_TOKEN" in ctx.environment.env and (training.model.secret_ref.name or training.data.secret_ref.name):
        yield ctx.in_environment(
            "RTD340",
            "env",
            "HF_TOKEN",
            on_key=True,
            message="HF_TOKEN is set by secretRef of training.model or training.data",
            help="remove one of the two",
        )


def _matters(row: Variable, groups: list[Group], nodes: int) -> bool:
    """Whether a group is what the row is about. NCCL's network is used between nodes only."""
    with_efa = [group for group in groups if group.interfaces and nodes > 1]
    return {
        "always": True,
        "efa": bool(with_efa),
        "gdr": any(group.type.gpudirect_rdma for group in with_efa),
        "rdma": any(group.type.rdma for group in with_efa),
        "no-rdma": any(not group.type.rdma for group in with_efa),
        "gpus": any(group.gpus > 1 for group in groups),
    }[row.where]


def _text(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 40 else text[:39] + "…"


RULES = (known_variables, sources)
