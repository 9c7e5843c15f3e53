"""Nodes, keys, tags and plugins of the ClusterConfig (5xx). Limits are named where they stand."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping

from generator.catalog import LOCAL, instance_types, partition
from generator.diagnostics.finding import Finding, Pointer
from generator.plan.addresses import VPC_PREFIXES, ipv4_range
from generator.plan.disk import IMAGE_GIB
from generator.rules.context import Context

_AMI_GIB = 20  # what EKS' AMI asks for
_IMAGE_FREE = 0.15  # the kubelet evicts pods when less of the images' file system is free (its default)
SMALLEST_VOLUME_GIB = -int(-(_AMI_GIB + IMAGE_GIB) // (1 - _IMAGE_FREE))

# Version of the EFA device plugin that counts a family's interfaces right: awsdocs PR 1083, hyperpod-cli PR 282.
_OLDEST_EFA_PLUGIN = {"p6-b200": (0, 5, 6)}

_VPC = re.compile(r"vpc-([0-9a-f]{17}|[0-9a-f]{8})")
_SUBNET = re.compile(r"subnet-([0-9a-f]{17}|[0-9a-f]{8})")
_KEY = re.compile(
    r"arn:(?P<partition>aws[a-z-]*):kms:(?P<region>[a-z0-9-]+):[0-9]{12}:key/"
    r"([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|mrk-[0-9a-f]{32})"
)
# AWS General Reference, "Tag naming limits and requirements".
_TAG = re.compile(r"[\w .:/=+@-]*")
_TAG_KEY_MAX, _TAG_VALUE_MAX, _TAGS_MAX = 128, 256, 50
# Beside one's own on an Auto Scaling group: 3 of EKS, and with the autoscaler 2 names, 3 resources, a taint and 5 labels.
_TAGS_ADDED = 14


def autoscaler_and_reservations(ctx: Context) -> Iterator[Finding]:
    if ctx.cluster is None or ctx.cluster.managed != "eksctl" or ctx.cluster.autoscaler == "none":
        return
    if not ctx.environment.has_pods:
        return
    for group, _ in ctx.groups():
        if group.capacity.kind in ("reservation", "capacityBlock"):
            yield ctx.in_environment(
                "RTD551",
                "workers",
                group.name,
                "capacity",
                "kind",
                message=f"the autoscaler keeps no node of `{group.name}` while nothing waits for one, but its "
                f"{'block' if group.capacity.kind == 'capacityBlock' else 'reservation'} is paid all the time",
                notes=(f"eksctl makes the group with 0 nodes; the autoscaler starts up to {group.nodes}",),
                help="keep work queued for it, or put the environment on a cluster with autoscaler: none",
            )


def nvme(ctx: Context) -> Iterator[Finding]:
    for group, written in ctx.groups():
        if written.scratch == "nvme" and not group.type.local_nvme_gb:
            with_nvme = [
                t.name
                for t in instance_types().values()
                if t.local_nvme_gb and t.gpu_model == group.type.gpu_model and not t.refused
            ]
            yield ctx.in_environment(
                "RTD552",
                "workers",
                group.name,
                "scratch",
                message="this machine has no NVMe disks to set up"
                if group.type.name == LOCAL
                else f"{group.type.name} has no local NVMe disks",
                help=f"set scratch to volume{', or choose a type with disks: ' + ', '.join(with_nvme) if with_nvme else ''}",
            )


def volume_size(ctx: Context) -> Iterator[Finding]:
    if ctx.cluster is None or ctx.cluster.managed != "eksctl":
        return
    notes = (
        f"({_AMI_GIB} GiB for the node's system + {IMAGE_GIB} for the image) / {1 - _IMAGE_FREE:g}: the kubelet evicts pods "
        f"when less than {_IMAGE_FREE:.0%} is free",
    )
    advice = f"set volumeSize to {SMALLEST_VOLUME_GIB} or more"
    for group, written in ctx.groups():
        if written.volume_size < SMALLEST_VOLUME_GIB and written.scratch == "volume":
            yield ctx.in_environment(
                "RTD553",
                "workers",
                group.name,
                "volumeSize",
                message=f"{written.volume_size} GiB do not hold the system and the training's image",
                notes=notes,
                help=advice + (", or scratch to nvme" if group.type.local_nvme_gb else ""),
            )
    size = ctx.cluster.system_nodes.volume_size
    if size < SMALLEST_VOLUME_GIB:
        yield ctx.in_cluster(
            "RTD553",
            "systemNodes",
            "volumeSize",
            message=f"{size} GiB do not hold the system and the training's image, which the head runs too",
            notes=notes,
            help=advice,
        )


def ids(ctx: Context) -> Iterator[Finding]:
    if ctx.cluster is None:
        return
    network = ctx.cluster.network
    written: list[tuple[re.Pattern[str], str, Pointer, str]] = []
    if network.vpc_id is not None:
        written.append((_VPC, network.vpc_id, ("network", "vpcId"), "vpc-"))
    for key, subnets in (("privateSubnets", network.private_subnets), ("publicSubnets", network.public_subnets)):
        written += [(_SUBNET, subnet, ("network", key, zone), "subnet-") for zone, subnet in subnets.items()]
    for pattern, value, path, start in written:
        if not pattern.fullmatch(value):
            yield ctx.in_cluster(
                "RTD554",
                *path,
                message=f"`{value}` is not the id of a {start.rstrip('-').replace('vpc', 'VPC')}",
                help=f"write {start} and 17 hex digits, as the VPC console shows it",
            )


def ranges(ctx: Context) -> Iterator[Finding]:
    if ctx.cluster is None:
        return
    network = ctx.cluster.network
    for index, text in enumerate(network.public_access_cidrs):
        if ipv4_range(text) is None:
            yield ctx.in_cluster(
                "RTD554",
                "network",
                "publicAccessCidrs",
                index,
                message=f"`{text}` is not an IPv4 range",
                label=_meant(text),
                help="write an address and its prefix length, such as 203.0.113.0/24 or 203.0.113.7/32",
            )
    if network.cidr is None:
        return
    vpc = ipv4_range(network.cidr)
    if vpc is None or vpc.prefixlen not in VPC_PREFIXES:
        yield ctx.in_cluster(
            "RTD554",
            "network",
            "cidr",
            message=f"`{network.cidr}` is not an IPv4 range"
            if vpc is None
            else f"eksctl makes no VPC of /{vpc.prefixlen}",
            label=_meant(network.cidr),
            help=f"write a private range of /{VPC_PREFIXES[0]} to /{VPC_PREFIXES[-1]}, such as 10.20.0.0/16",
        )


def _meant(text: str) -> str:
    """What a range with bits behind its prefix was probably meant to be."""
    try:
        meant = str(ipaddress.IPv4Network(text, strict=False))
    except ValueError:
        return ""
    return f"did you mean `{meant}`?" if meant != text else ""


def keys(ctx: Context) -> Iterator[Finding]:
    if ctx.cluster is None:
        return
    region = ctx.cluster.region
    for key, arn in (
        ("secretsKeyArn", ctx.cluster.encryption.secrets_key_arn),
        ("volumesKeyArn", ctx.cluster.encryption.volumes_key_arn),
    ):
        if arn is None:
            continue
        found = _KEY.fullmatch(arn)
        if found is None:
            problem = f"`{arn}` is not the ARN of a KMS key"
        elif region is not None and (found["region"], found["partition"]) != (region, partition(region)):
            problem = f"the KMS key is in {found['region']}, and the cluster in {region}"
        else:
            continue
        yield ctx.in_cluster(
            "RTD554",
            "encryption",
            key,
            message=problem,
            notes=("an alias or a bare key id is not enough",) if found is None else (),
            help=f"write arn:{partition(region or '')}:kms:{region or 'REGION'}:ACCOUNT:key/ID, as the KMS console shows it",
        )


def tags(ctx: Context) -> Iterator[Finding]:
    cluster = ctx.cluster.tags if ctx.cluster is not None else {}
    mine = ctx.environment.tags
    for key, problem in _tag_problems(cluster):
        yield ctx.in_cluster("RTD554", "tags", key, on_key=True, message=problem, help=_TAG_HELP)
    for key, problem in _tag_problems(mine):
        yield ctx.in_environment("RTD554", "tags", key, on_key=True, message=problem, help=_TAG_HELP)
    in_all = len({*cluster, *mine})
    if in_all > _TAGS_MAX - _TAGS_ADDED:
        say = ctx.in_environment if mine else ctx.in_cluster
        yield say(
            "RTD554",
            "tags",
            on_key=True,
            message=f"{in_all} tags of your own, above {_TAGS_MAX - _TAGS_ADDED}",
            notes=(
                f"AWS allows {_TAGS_MAX} on one resource; eksctl, EKS and the autoscaler need up to {_TAGS_ADDED} on the nodes",
            ),
            help=f"remove {in_all - _TAGS_MAX + _TAGS_ADDED}",
        )


_TAG_HELP = "use letters, digits, spaces and _ . : / = + - @; the key does not begin with aws:"


def _tag_problems(given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key, value in given.items():
        if not 1 <= len(key) <= _TAG_KEY_MAX:
            yield key, f"the tag's key has {len(key)} characters; AWS allows 1 to {_TAG_KEY_MAX}"
        elif key.lower().startswith("aws:"):
            yield key, f"`{key}` begins with aws:, which AWS keeps for itself"
        elif not _TAG.fullmatch(key):
            yield key, f"the tag's key `{key}` has characters that AWS does not allow"
        elif len(value) > _TAG_VALUE_MAX:
            yield key, f"the value of `{key}` has {len(value)} characters; AWS allows {_TAG_VALUE_MAX}"
        elif not _TAG.fullmatch(value):
            yield key, f"the value of `{key}` has characters that AWS does not allow"


def efa_plugin(ctx: Context) -> Iterator[Finding]:
    if ctx.cluster is None:
        return
    written = ctx.cluster.platform.efa_device_plugin
    version = tuple(int(part) for part in written.split("."))
    for group, _ in ctx.groups():
        oldest = _OLDEST_EFA_PLUGIN.get(group.type.family)
        if group.interfaces and oldest is not None and version < oldest:
            least = ".".join(map(str, oldest))
            yield ctx.in_cluster(
                "RTD555",
                "platform",
                "efaDevicePlugin",
                message=f"version {written} of the EFA device plugin miscounts the interfaces of {group.type.name}",
                notes=(f"it offers more than the {group.interfaces} that a node has; {least} counts right",),
                help=f"use {least} or later",
            )


RULES = (autoscaler_and_reservations, nvme, volume_size, ids, ranges, keys, tags, efa_plugin)
