"""`environments/_clusters/<cluster>.yaml`: one file per EKS cluster. Several environments may share it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from generator.model.base import KUBERNETES_VERSION, VERSION, Model, Name, Region, Text, Zone


class SystemNodes(Model):
    """Nodes without GPUs: the KubeRay operator, CoreDNS and the Ray heads run here."""

    instance_type: Text
    """EC2 instance type, such as m7i.xlarge."""
    count: Annotated[int, Field(ge=1, le=100)] = 1
    """Number of nodes."""


class Platform(Model):
    """Versions of what is installed once per cluster."""

    kuberay: Annotated[str, StringConstraints(pattern=VERSION)] = "1.6.1"
    """KubeRay operator version."""


class Cluster(Model):
    """One cluster: where it runs and which nodes it has beside the trainings' own."""

    name: Name
    """Name of the EKS cluster; the file's name without .yaml."""
    managed: Literal["eksctl", "existing"] = "eksctl"
    """eksctl: its ClusterConfig is rendered. existing: made elsewhere; only checked, never rendered."""
    region: Region | None = None
    """AWS region. Needed when eksctl makes the cluster."""
    kubernetes_version: Annotated[str, StringConstraints(pattern=KUBERNETES_VERSION)] | None = None
    """Kubernetes minor version, in quotes: "1.36"."""
    availability_zones: list[Zone] = Field(default=[])
    """Zones of the control plane and the subnets: two or more."""
    system_nodes: SystemNodes
    """Nodes for the operator and the Ray heads."""
    platform: Platform = Platform()
    """Versions of what is installed once per cluster."""
