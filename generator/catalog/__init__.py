"""Facts as data: instance types, regions, prices, images, the pods that share a node. Each table names its sources.

`instances.csv` and `gpus.csv` were gathered on 2026-12-01 from the sources in their own column; nothing here asks AWS.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path

LOCAL = "local"
"""Instance type of this machine's own processes: no GPU, no EFA, no price."""

# A node of type `local` is a share of this machine: enough for a tiny model's two ranks. It is not measured, since the
# environment file must mean the same on every machine.
_LOCAL_VCPU, _LOCAL_MEMORY_MIB = 4, 4096

_MAX_PODS = 110  # the kubelet's own default
EVICTION_MIB = 100
"""The kubelet of EKS evicts pods when less memory is free (same source as `kubelet_memory_mib`)."""

# Types and models that are in the tables but that this training must not be rendered for, and why.
_REFUSED_TYPES = {
    "p6e-gb200.36xlarge": "it is arm64, and sources disagree on how many EFA interfaces it has (0, 4 or 8)",
    "p6-b300.48xlarge": "eksctl would make 17 EFA interfaces, but network card 0 has none: 16 of 17 cards have EFA",
    "g5g": "it is arm64, and the image is built for amd64",
    "g7": "AWS states neither RDMA nor GPUDirect for it, so its transport cannot be checked",
    "g6f": "it has a fraction of a GPU, and a rank needs a whole one",
    "gr6f": "it has a fraction of a GPU, and a rank needs a whole one",
    "trn1": "it has Trainium chips, and the image holds CUDA",
    "trn1n": "it has Trainium chips, and the image holds CUDA",
    "trn2": "it has Trainium chips, and the image holds CUDA",
}
_REFUSED_GPUS = {
    "V100": "its GPU (V100, compute capability 7.0) is not supported by CUDA 13, which the image holds",
    "T4": "its GPU (T4) has no bf16, in which the training computes",
}


@dataclass(frozen=True, slots=True)
class InstanceType:
    """One EC2 instance type. Memory in MiB, CPU in thousandths, network in Gbit/s, NVMe in GB, prices in USD per hour.

    `allocatable_*` is what Kubernetes leaves for pods: Karpenter's estimate (7.5 % of memory is the firmware's and the
    kernel's, then `kubelet_memory_mib` and `EVICTION_MIB`), less the 2 MiB pages that the EFA installer sets aside (110
    per vCPU and one, measured on p4de and p5). These two leave 5 to 6 % more than the estimate.
    """

    name: str
    architecture: str
    vcpu: int
    memory_mib: int
    gpu_model: str
    gpus: int
    gpu_memory_mib: int
    efa_interfaces: int
    network_cards: int
    network_gbps: float
    transport_protocol: str
    rdma: bool
    gpudirect_rdma: bool
    allocatable_cpu_m: int
    allocatable_memory_mib: int
    hugepages_mib: int
    max_pods: int
    local_nvme_gb: int
    usd_per_hour: Mapping[str, float]
    capacity_block_usd_per_hour: float | None
    regions_seen: frozenset[str]

    @property
    def family(self) -> str:
        return self.name.split(".")[0]

    @property
    def refused(self) -> str:
        """Why this training cannot run on the type; empty when it can."""
        reason = _REFUSED_TYPES.get(self.name) or _REFUSED_TYPES.get(self.family) or _REFUSED_GPUS.get(self.gpu_model)
        return reason or ""

    @property
    def kubelet_memory_mib(self) -> int:
        """What the kubelet reserves on EKS (awslabs/amazon-eks-ami nodeadm/internal/kubelet/config.go @013754962)."""
        return 255 + 11 * self.max_pods

    @property
    def quota_family(self) -> str:
        """Which vCPU quota of EC2 counts this type: `gAndVt`, `p` or `standard`; empty for this machine."""
        if self.name == LOCAL:
            return ""
        return {"g": "gAndVt", "v": "gAndVt", "p": "p"}.get(self.name[0], "standard")

    def offered_in(self, region: str) -> bool:
        return region in self.usd_per_hour or region in self.regions_seen


@dataclass(frozen=True, slots=True)
class Image:
    """One tag of a known image and what it holds. `moves`: the tag is moved to newer builds."""

    repository: str
    tag: str
    moves: bool
    ray: str


@dataclass(frozen=True, slots=True)
class SharedPod:
    """A pod that runs beside ours. Requests per replica, in thousandths of a CPU and MiB.

    `nodes`: every, gpu, efa or system nodes; fsx: every node of a cluster with FSx for Lustre; fsx-system: its system
    nodes.
    """

    name: str
    nodes: str
    replicas: int
    cpu_m: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class Price:
    """A price that is not an instance's, in USD per hour, and the day it was read."""

    usd_per_hour: float
    as_of: str


@dataclass(frozen=True, slots=True)
class Quota:
    """A vCPU quota of EC2, per account and region. `key` names it under `policy.quota`."""

    key: str
    family: str
    spot: bool
    code: str
    name: str


def first_number(text: str) -> float:
    """The first number of a cell; 0 where the source gives none (`?`, empty). `~` marks an approximate figure."""
    found = re.search(r"[0-9]+(\.[0-9]+)?", text)
    return float(found.group()) if found else 0.0


def rows(name: str) -> list[dict[str, str]]:
    """The rows of one of the tables beside this module."""
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


@cache
def instance_types() -> Mapping[str, InstanceType]:
    """Every known instance type by its name, `local` among them."""
    prefixes = {row["zone_id_prefix"]: row["region"] for row in rows("regions.csv")}
    types = [_instance_type(row, prefixes) for row in rows("instances.csv")]
    return {t.name: t for t in [*types, _local()]}


def _instance_type(row: Mapping[str, str], prefixes: Mapping[str, str]) -> InstanceType:
    hugepages = int(first_number(row["hugepages2mi_mib_predicted"]))
    # The allocatable columns are empty for a few new types: 7.5 % overhead, as the filled rows have.
    memory = int(float(row["memory_gib"]) * 1024)
    allocatable = row["alloc_mem_mib_karpenter_no_hugepages"].removesuffix("Mi")
    cpu = row["alloc_cpu_m_karpenter"].removesuffix("m")
    regions = {"us-east-1": "usd_h_us_east_1", "us-east-2": "usd_h_us_east_2", "us-west-2": "usd_h_us_west_2"}
    block = row["capacity_block_usd_h_from_2026_10_07"]
    return InstanceType(
        name=row["instance_type"],
        architecture=row["arch"],
        vcpu=int(row["vcpu"]),
        memory_mib=memory,
        gpu_model=row["accel_model"],
        gpus=int(first_number(row["accel_count"])),
        gpu_memory_mib=int(first_number(row["accel_mem_mib_each"])),
        efa_interfaces=int(first_number(row["efa_max"])),
        network_cards=max(1, int(first_number(row["network_cards"]))),
        network_gbps=first_number(row["network_gbps"]),
        transport_protocol=row["ofi_protocol_expected"].split(" ")[0],
        rdma=row["efa_rdma_read"] == "yes",
        gpudirect_rdma=row["gpudirect_rdma"] == "yes",
        allocatable_cpu_m=int(cpu) if cpu else int(row["vcpu"]) * 1000 - 190,
        allocatable_memory_mib=(int(allocatable) if allocatable else int(memory * 0.925)) - hugepages,
        hugepages_mib=hugepages,
        max_pods=int(first_number(row["max_pods_karpenter"])) or _MAX_PODS,
        local_nvme_gb=int(first_number(row["local_nvme_gb"])),
        usd_per_hour={region: float(row[column]) for region, column in regions.items() if row[column]},
        capacity_block_usd_per_hour=float(block) if block else None,
        regions_seen=frozenset(prefixes[z.split("-")[0]] for z in row["zones_seen"].split(";") if z),
    )


def _local() -> InstanceType:
    return InstanceType(
        name=LOCAL,
        architecture="",
        vcpu=_LOCAL_VCPU,
        memory_mib=_LOCAL_MEMORY_MIB,
        gpu_model="",
        gpus=0,
        gpu_memory_mib=0,
        efa_interfaces=0,
        network_cards=1,
        network_gbps=0.0,
        transport_protocol="",
        rdma=False,
        gpudirect_rdma=False,
        allocatable_cpu_m=_LOCAL_VCPU * 1000,
        allocatable_memory_mib=_LOCAL_MEMORY_MIB,
        hugepages_mib=0,
        max_pods=_MAX_PODS,
        local_nvme_gb=0,
        usd_per_hour={},
        capacity_block_usd_per_hour=None,
        regions_seen=frozenset(),
    )


@cache
def zones() -> Mapping[str, frozenset[str]]:
    """Zone names by region, for the regions that the tables know."""
    return {row["region"]: frozenset(row["region"] + z for z in row["zones"].split()) for row in rows("regions.csv")}


def partition(region: str) -> str:
    """The first part of an ARN: China and the US government have partitions of their own."""
    partitions = {"cn-": "aws-cn", "us-gov-": "aws-us-gov"}
    return next((name for prefix, name in partitions.items() if region.startswith(prefix)), "aws")


@cache
def images() -> tuple[Image, ...]:
    return tuple(Image(r["repository"], r["tag"], r["moves"] == "yes", r["ray"]) for r in rows("images.csv"))


@cache
def kuberay() -> Mapping[str, bool]:
    """Releases of KubeRay since 1.6.0, and whether the chart has been tried with them; the oldest first."""
    return {row["version"]: row["tried"] == "yes" for row in rows("kuberay.csv")}


@cache
def shared_pods() -> tuple[SharedPod, ...]:
    return tuple(
        SharedPod(r["pod"], r["nodes"], int(r["replicas"]), int(r["cpu_m"]), int(r["memory_mib"]))
        for r in rows("pods.csv")
    )


@cache
def prices() -> Mapping[str, Price]:
    """Prices by item; `instances` and `capacity_blocks` give only the date of their columns."""
    return {r["item"]: Price(float(r["usd_per_hour"] or 0), r["as_of"]) for r in rows("prices.csv")}


@cache
def quotas() -> tuple[Quota, ...]:
    """The vCPU quotas that an environment may declare."""
    return tuple(Quota(r["key"], r["family"], r["spot"] == "yes", r["code"], r["name"]) for r in rows("quotas.csv"))


@cache
def standard_support() -> Mapping[str, date]:
    """Kubernetes minor version → the day on which standard support by EKS ends, for the versions whose day is known."""
    return {r["version"]: date.fromisoformat(r["end_of_standard_support"]) for r in rows("kubernetes.csv")}
