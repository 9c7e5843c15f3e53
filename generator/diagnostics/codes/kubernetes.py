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
    "RTD545": Code(
        "there is no such RayCluster to run on",
        E,
        why="mode `jobOnCluster` needs an environment of mode `cluster` on the same cluster, in the same namespace",
    ),
    "RTD546": Code(
        "job.clusterName without mode jobOnCluster",
        E,
        why="it would have no effect",
    ),
    "RTD547": Code(
        "the workers are not those of the cluster that runs the job",
        E,
        why="the job counts its ranks by its own `workers`, and runs on the nodes of the other environment",
    ),
    "RTD548": Code(
        "what the pods of a cluster have is not for a job on it to change",
        E,
        why="environment, Secrets and storage are mounted when the pods start",
    ),
    "RTD549": Code(
        "the queue cannot take this job",
        E,
        why="the job would wait for ever, or pass the queue by",
    ),
}
