"""The ClusterConfig of eksctl: only fields that 0.215.0 knows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from generator.catalog import partition
from generator.model.cluster import Cluster
from generator.model.environment import Capacity, Environment, WorkerGroup
from generator.render.access import Association, cluster_autoscaler, csi_driver, pods
from generator.resolve import Group, resolve

NODE_GROUP_LABEL = "ray-train-dlc/node-group"
_AUTOSCALER = "k8s.io/cluster-autoscaler"
# Storage that is mounted by a driver: kind of training.storage → EKS add-on.
_DRIVERS = {"fsx": "aws-fsx-csi-driver", "efs": "aws-efs-csi-driver"}


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint with effect NoSchedule."""

    key: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """One managed node group as the template writes it."""

    name: str
    origin: str
    """File and key that it comes from."""
    instance_type: str
    nodes: int
    desired: int
    zone: str | None
    interfaces: int
    capacity: Capacity
    placement_group: str | None
    volume_size: int
    nvme: bool
    labels: dict[str, str]
    taint: Taint
    tags: dict[str, str]


@dataclass(frozen=True, slots=True)
class Addon:
    """An EKS add-on with what its controller may do."""

    name: str
    association: Association | None


def parts(cluster: Cluster, environments: list[tuple[str, Environment]]) -> dict[str, Any]:
    """What the template needs beside the cluster; `environments`: all on the cluster, as (folder, model)."""
    where = partition(cluster.region or "")
    scaled = cluster.autoscaler == "clusterAutoscaler"
    # A job on a cluster that is there already has no nodes and no ServiceAccount of its own.
    own = [(folder, environment) for folder, environment in environments if environment.has_pods]
    given = (pods(environment, _jobs_on(environment, environments), where) for _, environment in own)
    associations = [association for association in given if association is not None]
    return {
        "addons": [Addon(name, csi_driver(name, where)) for name in _drivers(cluster, own)],
        "associations": [*associations, *([cluster_autoscaler(cluster.name)] if scaled else [])],
        "node_groups": list(_node_groups(cluster, own)),
        "own_vpc": bool(cluster.network.private_subnets),
        "scaled": scaled,
    }


def _jobs_on(kept: Environment, environments: list[tuple[str, Environment]]) -> list[Environment]:
    """The jobs that run in the pods of environment `kept`."""
    others = (environment for _, environment in environments if not environment.has_pods)
    return [job for job in others if (job.job.cluster_name, job.namespace) == (kept.name, kept.namespace)]


def _drivers(cluster: Cluster, environments: list[tuple[str, Environment]]) -> list[str]:
    kinds = {environment.training.storage.kind for _, environment in environments}
    return sorted({*cluster.addons, *(driver for kind, driver in _DRIVERS.items() if kind in kinds)})


def _node_groups(cluster: Cluster, environments: list[tuple[str, Environment]]) -> Iterator[NodeGroup]:
    for folder, environment in environments:
        for group in resolve(environment, cluster).groups:
            written = environment.workers[group.name]
            taint = _taint(group)
            labels = _labels(group)
            tags = dict(environment.tags)
            desired = group.nodes
            if cluster.autoscaler == "clusterAutoscaler":
                # The autoscaler must know that a node has a GPU even before the device plugin says so.
                labels["k8s.amazonaws.com/accelerator"] = group.type.gpu_model.lower().replace(" ", "-")
                tags |= autoscaler_tags(cluster.name, group, written, taint)
                desired = 0
            yield NodeGroup(
                name=group.node_group,
                origin=f"environments/{folder}/environment.yaml, workers.{group.name}",
                instance_type=group.type.name,
                nodes=group.nodes,
                desired=desired,
                zone=group.zone,
                interfaces=group.interfaces,
                capacity=group.capacity,
                placement_group=group.placement_group,
                volume_size=written.volume_size,
                nvme=written.scratch == "nvme",
                labels=labels,
                taint=taint,
                tags=tags,
            )


def _labels(group: Group) -> dict[str, str]:
    return {NODE_GROUP_LABEL: group.node_group, "nvidia.com/gpu.present": "true"}


def _taint(group: Group) -> Taint:
    if group.interfaces:
        return Taint(
            "aws.amazon.com/efa",
            "the EFA device plugin that eksctl installs tolerates this taint, and not nvidia.com/gpu",
        )
    return Taint("nvidia.com/gpu")


def autoscaler_tags(cluster: str, group: Group, written: WorkerGroup, taint: Taint) -> dict[str, str]:
    """What a node of the group will be, for an autoscaler that sees none yet: kubernetes/autoscaler
    cloudprovider/aws/README.md, "Auto-Discovery Setup". eksctl adds the labels by itself.

    Its tag for a taint lacks the effect, without which the autoscaler does not read it: ours of the same key wins.
    """
    disk = f"{group.type.local_nvme_gb}G" if written.scratch == "nvme" else f"{written.volume_size}Gi"
    resources = {
        "nvidia.com/gpu": str(group.type.gpus),
        "ephemeral-storage": disk,
        **({"vpc.amazonaws.com/efa": str(group.interfaces)} if group.interfaces else {}),
    }
    return {
        f"{_AUTOSCALER}/enabled": "true",
        f"{_AUTOSCALER}/{cluster}": "owned",
        **{f"{_AUTOSCALER}/node-template/resources/{name}": amount for name, amount in resources.items()},
        f"{_AUTOSCALER}/node-template/taint/{taint.key}": "true:NoSchedule",
    }
