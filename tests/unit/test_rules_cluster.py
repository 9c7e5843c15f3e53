"""The edges of the rules about the cluster's own keys: the last value that passes and the first that does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from generator.diagnostics import Severity
from generator.project import Project
from generator.rules import check
from generator.rules.eksctl import SMALLEST_VOLUME_GIB
from tests.project import base, edited, make, sharing

OWN_VPC = (
    "vpcId: vpc-0123456789abcdef0, "
    "privateSubnets: {us-west-2a: subnet-0123456789abcdef0, us-west-2b: subnet-0123456789abcdef1}"
)
UUID = "01234567-89ab-cdef-0123-456789abcdef"


def codes(root: Path, keys: str = "", environment: str | None = None) -> set[str]:
    """Codes of the errors that these keys of the cluster's file give; quota and batch are not their matter."""
    make(root, cluster=base("cluster.yaml") + keys, environment=environment or base("environment.yaml"))
    found = check(Project(root).load("demo"))
    return {f.code for f in found if f.severity is Severity.ERROR} - {"RTD109", "RTD801"}


@pytest.mark.parametrize(("nodes", "code"), [(13, set()), (14, {"RTD350"})])
def test_addresses_to_the_last_node(tmp_path: Path, nodes: int, code: set[str]) -> None:
    """A VPC of /24 has subnets of /27: 27 addresses without AWS' five, and 2 for each node with one interface."""
    text = edited("environment.yaml", "nodes: 2", f"nodes: {nodes}")
    assert codes(tmp_path, "network: {cidr: 10.20.0.0/24}\n", text) == code


def test_addresses_of_neighbours_in_the_zone_count(tmp_path: Path) -> None:
    make(tmp_path)
    for name, zone in (("near", "us-west-2a"), ("far", "us-west-2b")):
        folder = tmp_path / "environments" / name
        folder.mkdir()
        (folder / "environment.yaml").write_text(
            sharing(name, ("nodes: 2", "nodes: 4"), ("availabilityZone: us-west-2a", f"availabilityZone: {zone}"))
        )
    keys = "network: {cidr: 10.20.0.0/24}\n"
    for nodes, said in ((9, False), (10, True)):  # with near's 4: 13 and 14 nodes
        text = sharing("demo", ("nodes: 2", f"nodes: {nodes}"))
        assert ("RTD350" in codes(tmp_path, keys, text)) == said


def test_more_than_four_zones_halve_the_subnets(tmp_path: Path) -> None:
    text = edited("environment.yaml", "nodes: 2", "nodes: 13").replace("us-west-2a", "us-east-1a")
    five = ", ".join(f"us-east-1{letter}" for letter in "abcde")
    cluster = base("cluster.yaml").replace("region: us-west-2", "region: us-east-1")
    for zones, said in (("us-east-1a, us-east-1b", False), (five, True)):
        changed = cluster.replace("us-west-2a, us-west-2b", zones) + "network: {cidr: 10.20.0.0/24}\n"
        make(tmp_path, cluster=changed, environment=text)
        assert ("RTD350" in {f.code for f in check(Project(tmp_path).load("demo"))}) == said


def test_addresses_of_a_vpc_of_ones_own_are_not_guessed(tmp_path: Path) -> None:
    text = edited("environment.yaml", "nodes: 2", "nodes: 1000")
    assert codes(tmp_path, f"network: {{{OWN_VPC}}}\n", text) == set()


def test_closed_ranges_may_be_meant_where_the_gateway_is_known(tmp_path: Path) -> None:
    shut = "apiEndpoint: public, publicAccessCidrs: [203.0.113.7/32]"
    assert codes(tmp_path, f"network: {{{shut}}}\n") == {"RTD351"}
    assert codes(tmp_path, f"network: {{{OWN_VPC}, {shut}}}\n") == set()
    assert "RTD351" in {f.code for f in check(Project(tmp_path).load("demo"))}


@pytest.mark.parametrize(
    ("cidr", "good"),
    [
        ("10.20.0.0/16", True),
        ("10.20.30.0/24", True),
        ("10.20.0.0/15", False),
        ("10.20.30.0/25", False),
        ("10.20.0.1/16", False),
        ("10.20.0.0", False),
        ("10.20.0.0/", False),
        ("10.20.0/16", False),
        ("10.20.0.0/255.255.0.0", False),
        ("300.0.0.0/16", False),
        ("fd00::/16", False),
        ("", False),
    ],
)
def test_ranges(tmp_path: Path, cidr: str, good: bool) -> None:
    assert codes(tmp_path, f"network: {{cidr: {json.dumps(cidr)}}}\n") == (set() if good else {"RTD554"})


@pytest.mark.parametrize(
    ("arn", "good"),
    [
        (f"arn:aws:kms:us-west-2:111122223333:key/{UUID}", True),
        (f"arn:aws:kms:us-west-2:111122223333:key/mrk-{UUID.replace('-', '')}", True),
        (f"arn:aws:kms:us-east-1:111122223333:key/{UUID}", False),
        (f"arn:aws-cn:kms:us-west-2:111122223333:key/{UUID}", False),
        (f"arn:aws:kms:us-west-2:1111:key/{UUID}", False),
        ("arn:aws:kms:us-west-2:111122223333:alias/mine", False),
        (UUID, False),
        ("", False),
    ],
)
def test_keys(tmp_path: Path, arn: str, good: bool) -> None:
    for key in ("secretsKeyArn", "volumesKeyArn"):
        found = codes(tmp_path, f"encryption: {{{key}: {json.dumps(arn)}}}\n")
        assert found == (set() if good else {"RTD554"})


@pytest.mark.parametrize(
    ("key", "value", "good"),
    [
        ("k" * 128, "v" * 256, True),
        ("k" * 129, "v", False),
        ("k", "v" * 257, False),
        ("", "v", False),
        ("Team é", "", True),
        ("AWS:team", "v", False),
        ("team", "a\tb", False),
        ("a,b", "v", False),
    ],
)
def test_tags(tmp_path: Path, key: str, value: str, good: bool) -> None:
    text = f"tags: {{{json.dumps(key)}: {json.dumps(value)}}}\n"
    expected = set() if good else {"RTD554"}
    assert codes(tmp_path, text) == expected
    assert codes(tmp_path, environment=base("environment.yaml") + text) == expected


def test_number_of_tags(tmp_path: Path) -> None:
    def some(name: str, count: int) -> str:
        return f"tags: {{{', '.join(f'{name}{i}: x' for i in range(count))}}}\n"

    assert codes(tmp_path, some("c", 36)) == set()
    assert codes(tmp_path, some("c", 37)) == {"RTD554"}
    assert codes(tmp_path, some("c", 20), base("environment.yaml") + some("e", 16)) == set()
    assert codes(tmp_path, some("c", 20), base("environment.yaml") + some("e", 17)) == {"RTD554"}
    assert codes(tmp_path, some("c", 36), base("environment.yaml") + some("c", 36)) == set()  # the same keys


@pytest.mark.parametrize(
    ("size", "scratch", "code"),
    [
        (SMALLEST_VOLUME_GIB, "volume", set()),
        (SMALLEST_VOLUME_GIB - 1, "volume", {"RTD553"}),
        (SMALLEST_VOLUME_GIB - 1, "nvme", set()),
        (20, "nvme", set()),
        (19, "nvme", {"RTD104"}),
    ],
)
def test_volumes(tmp_path: Path, size: int, scratch: str, code: set[str]) -> None:
    text = edited("environment.yaml", "nodes: 2", f"nodes: 2\n    volumeSize: {size}\n    scratch: {scratch}")
    assert codes(tmp_path, environment=text) == code


def test_an_old_efa_plugin_is_fine_for_other_types(tmp_path: Path) -> None:
    cluster = edited("cluster.yaml", "kuberay: 1.6.1", "kuberay: 1.6.1, efaDevicePlugin: 0.5.4")
    make(tmp_path, cluster=cluster)
    assert "RTD555" not in {f.code for f in check(Project(tmp_path).load("demo"))}


@pytest.mark.parametrize(("managed", "said"), [("eksctl", True), ("existing", False)])
def test_the_autoscaler_speaks_where_eksctl_makes_the_nodes(tmp_path: Path, managed: str, said: bool) -> None:
    environment = edited("environment.yaml", "kind: onDemand", "kind: capacityBlock, id: cr-0123456789abcdef0")
    cluster = edited("cluster.yaml", "managed: eksctl", f"managed: {managed}") + "autoscaler: clusterAutoscaler\n"
    make(tmp_path, cluster=cluster, environment=environment)
    assert ("RTD551" in {f.code for f in check(Project(tmp_path).load("demo"))}) == said
