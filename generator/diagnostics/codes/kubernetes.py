"""Kubernetes and KubeRay (5xx)."""

from __future__ import annotations

from generator.diagnostics.codes.code import Code, E, W

CODES = {
    "RTD501": Code(
        "a name is too long or malformed for Kubernetes, KubeRay or AWS",
        E,
        why="RayJob names hold 47 characters, node groups 63, CloudFormation stacks 128",
    ),
    "RTD502": Code(
        "the Kubernetes version is not supported",
        E,
        why="the chart is validated for 1.34 to 1.37",
    ),
    "RTD503": Code(
        "the KubeRay version is not supported",
        E,
        why="1.6.0 or later",
    ),
    "RTD504": Code(
        "two environments collide on one cluster",
        E,
        why="same name and namespace, or the same node group",
    ),
    "RTD505": Code(
        "a cluster that eksctl makes needs this key",
        E,
        why="`region` and `kubernetesVersion`",
    ),
    "RTD506": Code(
        "the chart has not been tried with this KubeRay",
        W,
        why="by `generator/catalog/kuberay.csv`",
    ),
}
