"""Labels, annotations and Secrets around the pods (RTD144): what the chart would refuse, at its place in the file."""

from __future__ import annotations

import re
from collections.abc import Iterator

from generator.diagnostics.finding import Finding
from generator.rules.context import Context

# As in templates/_check_names.tpl of the chart: Helm's, the operator's, those of queues, and the chart's own.
_LABELS = re.compile(
    r"helm\.sh/chart|app\.kubernetes\.io/(name|instance|version|managed-by|component|created-by)|ray\.io/.*|"
    r"kueue\.x-k8s\.io/(queue-name|priority-class)|volcano\.sh/queue-name|yunikorn\.apache\.org/(queue|app-id)|"
    r"kai\.scheduler/queue|ray-train-dlc/.*"
)
_ANNOTATIONS = re.compile(r"(meta\.helm\.sh|ray-train-dlc)/.*")
_KEEP = (
    "helm.sh/resource-policy",
    "kustomize.toolkit.fluxcd.io/prune",
    "argocd.argoproj.io/sync-options",
    "argocd.argoproj.io/compare-options",
)


def reserved(ctx: Context) -> Iterator[Finding]:
    environment = ctx.environment
    pods, dashboard = environment.monitoring.pod_monitor, environment.monitoring.grafana_dashboard
    labels = {
        ("commonLabels",): environment.common_labels,
        ("monitoring", "podMonitor", "labels"): pods.labels,
        ("monitoring", "grafanaDashboard", "labels"): dashboard.labels,
    }
    annotations = {
        ("commonAnnotations",): environment.common_annotations,
        ("serviceAccount", "annotations"): environment.service_account.annotations,
        ("monitoring", "grafanaDashboard", "annotations"): dashboard.annotations,
    }
    for kind, given, taken in (("label", labels, _LABELS), ("annotation", annotations, _ANNOTATIONS)):
        for path, keys in given.items():
            for key in keys:
                if taken.fullmatch(key):
                    yield _said(
                        ctx,
                        (*path, key),
                        f"the {kind} {key} belongs to Helm, to the operator, to a queue or to the chart",
                        "use a key with a prefix of your own; scheduler sets the labels of queues",
                    )
                elif kind == "annotation" and key in _KEEP and environment.job.on_change == "keep":
                    yield _said(ctx, (*path, key), f"{key} is set by job.onChange: keep", "remove it")


def pull_secrets(ctx: Context) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, secret in enumerate(ctx.environment.image_pull_secrets):
        if secret.name in seen:
            yield _said(
                ctx, ("imagePullSecrets", index), f"the Secret {secret.name} is there twice", "remove one of them"
            )
        seen.add(secret.name)


def _said(ctx: Context, path: tuple[str | int, ...], message: str, help: str) -> Finding:
    return ctx.in_environment("RTD144", *path, message=message, help=help, on_key=True)


RULES = (reserved, pull_secrets)
