"""`environments/_clusters/<cluster>.yaml`: one file per EKS cluster. Several environments may share it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from generator.model.base import KUBERNETES_VERSION, VERSION, Model, Name, Region, Tags, Text, VolumeSize, Zone

Version = Annotated[str, StringConstraints(pattern=VERSION)]


class SystemNodes(Model):
    """Nodes without GPUs: the KubeRay operator, CoreDNS and the Ray heads run here."""

    instance_type: Text
    """EC2 instance type, such as m7i.xlarge."""
    count: Annotated[int, Field(ge=1, le=100)] = 1
    """Number of nodes."""
    volume_size: VolumeSize = 100
    """Root volume of each node in GiB (gp3); the head's image and logs lie there."""


class Platform(Model):
    """Versions of what is installed once per cluster."""

    kuberay: Version = "1.6.1"
    """KubeRay operator version."""
    nvidia_device_plugin: Version = "0.20.0"
    """Version of the chart nvidia-device-plugin."""
    efa_device_plugin: Version = "0.5.30"
    """Version of the chart aws-efa-k8s-device-plugin."""
    cluster_autoscaler: Version = "9.59.0"
    """Version of the chart cluster-autoscaler; installed only where `autoscaler` asks for it."""


class Network(Model):
    """The VPC and the way to the Kubernetes API. Without subnets of yours eksctl makes a VPC."""

    vpc_id: str | None = None
    """VPC that exists already."""
    private_subnets: dict[str, str] = Field(default={})
    """Zone: id of the private subnet there, one for each of availabilityZones. Nodes use these."""
    public_subnets: dict[str, str] = Field(default={})
    """Zone: id of a public subnet there, for load balancers."""
    cidr: str | None = None
    """IPv4 range of the VPC that eksctl makes, /16 to /24. Default: 192.168.0.0/16."""
    api_endpoint: Literal["public", "both", "private"] = "both"
    """Where the Kubernetes API answers: from the internet, from the VPC, or from both."""
    public_access_cidrs: list[str] = Field(default=[])
    """IPv4 ranges that may reach the public endpoint. Default: all."""


class Encryption(Model):
    """KMS keys of your own. Volumes are encrypted without one too, with the account's key for EBS."""

    secrets_key_arn: str | None = None
    """KMS key for Kubernetes Secrets."""
    volumes_key_arn: str | None = None
    """KMS key for the nodes' root volumes."""


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
    network: Network = Network()
    """VPC, subnets and the way to the Kubernetes API."""
    encryption: Encryption = Encryption()
    """KMS keys of your own."""
    addons: list[Literal["aws-ebs-csi-driver", "aws-efs-csi-driver", "aws-fsx-csi-driver"]] = Field(default=[])
    """EKS add-ons beside those that the environments' storage needs."""
    node_repair: bool = False
    """EKS reboots or replaces nodes that it finds unhealthy."""
    autoscaler: Literal["none", "clusterAutoscaler"] = "none"
    """clusterAutoscaler: worker nodes start when pods wait, and go when idle. none: they run until you scale them."""
    tags: Tags = Field(default={})
    """Tags for everything that eksctl makes."""
