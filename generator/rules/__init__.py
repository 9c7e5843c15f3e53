"""Rules across fields, one function each. They read models and numbers, and touch no file, network or account."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from generator.diagnostics.finding import Finding
from generator.project import Loaded
from generator.resolve import resolve
from generator.rules import image, instances, kubernetes, money, names, network, storage, training
from generator.rules.context import Context

Rule = Callable[[Context], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    *names.RULES,
    *training.RULES,
    *instances.RULES,
    *network.RULES,
    *image.RULES,
    *kubernetes.RULES,
    *storage.RULES,
    *money.RULES,
)


def check(loaded: Loaded) -> list[Finding]:
    """Every finding about one environment: those of its files' shapes, and those of all rules. Sorted, without repeats."""
    findings = list(loaded.findings)
    environment = loaded.environment.model
    if environment is not None:
        cluster = loaded.cluster.model if loaded.cluster is not None else None
        context = Context(loaded, environment, cluster, loaded.version.model, resolve(environment, cluster))
        for rule in RULES:
            findings += [f for f in rule(context) if not context.unknown(f)]
    return sorted(set(findings), key=lambda f: f.sort_key)
