"""The keys of an environment that are the chart's own values, and what `values` adds, as one tree of values.

Only what differs from the chart's defaults is in it: generated files stay short, and a new default reaches everybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from generator.model.environment import Environment

_JOB = ("run_id", "on_change", "resume_from")  # always rendered, in the template


def chart_values(environment: Environment) -> dict[str, Any]:
    """Values of the chart beside the numbers that are worked out."""
    training, job = environment.training, environment.job
    tree: dict[str, Any] = {
        "commonLabels": environment.common_labels,
        "commonAnnotations": environment.common_annotations,
        "serviceAccount": _given(environment.service_account),
        "common": {
            "env": {name: _plain(value) for name, value in environment.env.items()},
            "envFrom": [_given(source) for source in environment.env_from],
            "imagePullSecrets": [_given(secret) for secret in environment.image_pull_secrets],
        },
        "scheduler": _given(environment.scheduler),
        "training": {
            "model": _given(training.model),
            "data": _given(training.data),
            "code": _given(training.code),
        },
        "job": job.model_dump(by_alias=True, exclude_defaults=True, exclude=set(_JOB)),
        "networkPolicy": _given(environment.network_policy),
        "monitoring": _given(environment.monitoring),
    }
    return merged(_filled(tree), environment.values)


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`above` over `below`, as Helm merges values files: maps at every depth, everything else replaced."""
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        result[key] = merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return result


def _given(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(by_alias=True, exclude_defaults=True)


def _plain(value: Any) -> Any:
    return _given(value) if isinstance(value, BaseModel) else value


def _filled(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Without empty maps and lists, which say nothing over the chart's defaults."""
    parts = {key: _filled(value) if isinstance(value, Mapping) else value for key, value in tree.items()}
    return {key: value for key, value in parts.items() if value not in ({}, [])}
