"""Rules across fields, one function each. They read models and numbers, and touch no file, network or account."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime

from generator.diagnostics.finding import Finding
from generator.project import Loaded
from generator.resolve import resolve
from generator.rules import (
    eksctl,
    image,
    instances,
    kubernetes,
    memory,
    metadata,
    money,
    names,
    network,
    on_cluster,
    reserved,
    secrets,
    sharing,
    sources,
    storage,
    training,
    values,
    variables,
    vpc,
)
from generator.rules.context import Context, neighbours

Rule = Callable[[Context], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    *names.RULES,
    *training.RULES,
    *sources.RULES,
    *values.RULES,
    *metadata.RULES,
    *instances.RULES,
    *memory.RULES,
    *network.RULES,
    *variables.RULES,
    *vpc.RULES,
    *image.RULES,
    *kubernetes.RULES,
    *sharing.RULES,
    *on_cluster.RULES,
    *eksctl.RULES,
    *storage.RULES,
    *secrets.RULES,
    *money.RULES,
    *reserved.RULES,
)
# About nodes and pods that are to be started; a job on a cluster that is there already starts none.
OF_NEW_PODS: frozenset[Rule] = frozenset(
    (
        *instances.OF_PODS,
        *(memory.pod, memory.head, memory.volume),
        *(vpc.addresses, eksctl.autoscaler_and_reservations),
        *(*money.RULES, *reserved.RULES),
    )
)


def check(loaded: Loaded, today: date | None = None) -> list[Finding]:
    """Every finding about one environment: those of its files' shapes, and those of all rules. Sorted, without repeats.

    `today` decides about what ends on a day; default: the day in UTC.
    """
    findings = list(loaded.findings)
    environment = loaded.environment.model
    if environment is not None:
        cluster = loaded.cluster.model if loaded.cluster is not None else None
        day = today or datetime.now(UTC).date()
        mine, beside = resolve(environment, cluster), tuple(neighbours(loaded, environment, cluster))
        context = Context(loaded, environment, cluster, loaded.version.model, mine, beside, day)
        for rule in RULES:
            if rule in OF_NEW_PODS and not environment.has_pods:
                continue
            findings += [f for f in rule(context) if not context.unknown(f)]
    return sorted(set(findings), key=lambda f: f.sort_key)
