"""Quotas and prices (8xx)."""

from __future__ import annotations

from collections.abc import Iterator

from generator.catalog import Quota, standard_support
from generator.diagnostics.finding import Finding
from generator.plan.cost import cost
from generator.plan.quota import Use, declared, usage
from generator.rules.context import Context


def vcpu_quota(ctx: Context) -> Iterator[Finding]:
    """eksctl starts the node groups of all environments of the cluster, so they share the account's quotas."""
    for quota, uses in usage(ctx.resolved, ctx.neighbours).items():
        limit = declared(ctx.resolved, quota)
        needed = sum(use.vcpu for use in uses)
        mine = [use for use in uses if use.environment == ctx.environment.name]
        if limit is None or needed <= limit:
            continue
        if mine:
            yield _too_many_nodes(ctx, quota, uses, max(mine, key=lambda use: use.vcpu), limit)
        elif any(use.group is None for use in uses):
            yield ctx.in_environment(
                "RTD801",
                "policy",
                "quota",
                quota.key,
                message=f"the cluster's system nodes need {needed} vCPU of the quota, above the {limit} that this environment declares",
                notes=_notes(quota, uses),
                help=f"raise policy.quota.{quota.key}, or choose smaller system nodes",
            )


def _too_many_nodes(ctx: Context, quota: Quota, uses: list[Use], largest: Use, limit: int) -> Finding:
    assert largest.group is not None  # noqa: S101  (an environment's own use has a group)
    needed, nodes = sum(use.vcpu for use in uses), sum(use.nodes for use in uses)
    fits = max(0, (limit - (needed - largest.vcpu)) // largest.vcpu_each)
    name = largest.group.name
    advice = f"set workers.{name}.nodes to {fits} or less, or raise" if fits else "raise the quota at AWS, and then"
    family = {"gAndVt": "G and VT", "p": "P", "standard": "standard"}[quota.family] + (" spot" if quota.spot else "")
    return ctx.in_environment(
        "RTD801",
        "workers",
        name,
        "nodes",
        message=f"{nodes} node{'s' if nodes > 1 else ''} need {needed} vCPU of the {family} quota, above the {limit} that this environment declares",
        label=f"{largest.nodes} × {largest.instance_type} ({largest.vcpu_each} vCPU)",
        notes=_notes(quota, uses),
        help=f"{advice} policy.quota.{quota.key}",
    )


def _notes(quota: Quota, uses: list[Use]) -> tuple[str, ...]:
    others = sorted({use.environment for use in uses if use.environment} - {uses[0].environment})
    return (
        f"quota {quota.code} counts vCPU: {quota.name}",
        *([f"nodes of {', '.join(others)}, on the same cluster, are counted"] if others else []),
        *(["the cluster's system nodes are counted"] if any(use.group is None for use in uses) else []),
    )


def price_limit(ctx: Context) -> Iterator[Finding]:
    limit = ctx.environment.policy.max_usd_per_hour
    if limit is None:
        return
    money = cost(ctx.resolved, ctx.today)
    parts = [c for c in money.components if c.usd_per_hour is not None]
    if money.usd_per_hour > limit:
        yield ctx.in_environment(
            "RTD805",
            "policy",
            "maxUsdPerHour",
            message=f"the environment costs {money.usd_per_hour:.2f} USD per hour, above {limit:g}",
            notes=(
                " + ".join(f"{c.quantity} × {c.usd_per_hour_each:g} ({c.name})" for c in parts)
                + f": prices as of {money.as_of}",
            ),
            help="take fewer nodes or a smaller type, or raise policy.maxUsdPerHour",
        )
    elif not money.complete:
        unknown = ", ".join(c.name for c in money.components if c.usd_per_hour is None)
        yield ctx.in_environment(
            "RTD806",
            "policy",
            "maxUsdPerHour",
            message=f"whether the environment stays below {limit:g} USD per hour is not known: no price for {unknown}",
            help="look the price up for this region; `python -m generator plan` shows what is known",
        )


def extended_support(ctx: Context) -> Iterator[Finding]:
    cluster = ctx.cluster
    if cluster is None or cluster.kubernetes_version is None:
        return
    end = standard_support().get(cluster.kubernetes_version)
    if end is not None and ctx.today > end:
        newer = max(standard_support(), key=lambda version: int(version.split(".")[1]))
        yield ctx.in_cluster(
            "RTD811",
            "kubernetesVersion",
            message=f"standard support of Kubernetes {cluster.kubernetes_version} on EKS ended on {end}: the control plane costs 0.60 USD per hour instead of 0.10",
            notes=("the price of extended support is part of `plan`",),
            help=f'choose "{newer}" or later',
        )


RULES = (vcpu_quota, price_limit, extended_support)
