"""Kubernetes, KubeRay and what eksctl needs (5xx)."""

from __future__ import annotations

from collections.abc import Iterator

from generator import catalog
from generator.diagnostics.finding import Finding
from generator.rules.context import Context

# Kubernetes versions that the chart is rendered and validated for, as minor numbers of major version 1.
OLDEST_KUBERNETES, NEWEST_KUBERNETES = 34, 37
OLDEST_KUBERAY = (1, 6, 0)  # preRunningDeadlineSeconds; token authentication as the chart sets it


def kubernetes_version(ctx: Context) -> Iterator[Finding]:
    if ctx.cluster is None or ctx.cluster.kubernetes_version is None:
        return
    minor = int(ctx.cluster.kubernetes_version.split(".")[1])
    if not OLDEST_KUBERNETES <= minor <= NEWEST_KUBERNETES:
        yield ctx.in_cluster(
            "RTD502",
            "kubernetesVersion",
            message=f"Kubernetes {ctx.cluster.kubernetes_version} is not supported",
            help=f'choose "1.{OLDEST_KUBERNETES}" to "1.{NEWEST_KUBERNETES}"',
        )


def kuberay_version(ctx: Context) -> Iterator[Finding]:
    if ctx.cluster is None:
        return
    written = ctx.cluster.platform.kuberay
    if tuple(int(part) for part in written.split(".")) < OLDEST_KUBERAY:
        yield ctx.in_cluster(
            "RTD503",
            "platform",
            "kuberay",
            message=f"KubeRay {written} is too old",
            notes=("the RayJob uses preRunningDeadlineSeconds, which 1.6.0 brought",),
            help="use 1.6.0 or later; 1.6.1 is tested",
        )
        return
    known = catalog.kuberay()
    if not known.get(written, False):
        tried = ", ".join(version for version, tested in known.items() if tested)
        yield ctx.in_cluster(
            "RTD506",
            "platform",
            "kuberay",
            message=f"the chart has not been tried with KubeRay {written}"
            if written in known
            else f"the catalogue knows no KubeRay {written}",
            notes=("the operator judges what the chart renders by rules that change with its version",),
            help=f"use one that has been tried: {tried}",
        )


def eksctl_needs(ctx: Context) -> Iterator[Finding]:
    cluster = ctx.cluster
    if cluster is None or cluster.managed != "eksctl":
        return
    for key, value in (("region", cluster.region), ("kubernetesVersion", cluster.kubernetes_version)):
        if value is None:
            yield ctx.in_cluster(
                "RTD505",
                key,
                message=f"`{key}` is missing: eksctl makes this cluster",
                on_key=True,
                help=f"add {key}, or set managed to existing",
            )


RULES = (kubernetes_version, kuberay_version, eksctl_needs)
