"""The eksctl checker accepts what eksctl accepts and refuses what eksctl refuses."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.checkers import (
    CheckerError,
    check_clusterconfig,
    check_clusterconfig_schema,
    check_clusterconfigs,
    require_go,
)

pytestmark = pytest.mark.go

FIXTURES = Path(__file__).parent / "fixtures"
Document = dict[str, Any]
Change = Callable[[Document], object]


@pytest.fixture(scope="module", autouse=True)
def _go() -> None:
    require_go()


def _load(name: str) -> Document:
    loaded: Document = yaml.safe_load((FIXTURES / name).read_text(encoding="utf-8"))
    return loaded


def _changed(name: str, change: Change) -> Document:
    document = copy.deepcopy(_load(name))
    change(document)
    return document


def test_a_good_clusterconfig_passes_validators_and_schema() -> None:
    report = check_clusterconfig(FIXTURES / "clusterconfig.yaml")
    assert report.ok, str(report)
    assert (report.kind, report.name) == ("ClusterConfig", "demo")
    assert check_clusterconfig_schema(_load("clusterconfig.yaml")) == []


def _gpu(config: Document) -> Document:
    group: Document = config["managedNodeGroups"][1]
    return group


BAD_CLUSTERCONFIGS: dict[str, tuple[Change, str, str]] = {
    "efa-over-two-zones": (
        lambda config: _gpu(config).update(availabilityZones=["us-west-2a", "us-west-2b"]),
        "validate",
        "only one subnet or one availability zone",
    ),
    "one-zone-for-the-control-plane": (
        lambda config: config.update(availabilityZones=["us-west-2a"]),
        "validate",
        "2 are required",
    ),
    "unknown-key": (
        lambda config: _gpu(config).update(efaEnable=True),
        "load",
        'unknown field "efaEnable"',
    ),
    "unquoted-version": (
        lambda config: config["metadata"].update(version=1.34),
        "load",
        "metadata.version of type string",
    ),
    "no-cluster-name": (
        lambda config: config["metadata"].pop("name"),
        "load",
        "metadata.name must be set",
    ),
    "bad-cluster-name": (
        lambda config: config["metadata"].update(name="demo_1"),
        "name",
        "must satisfy regular expression",
    ),
    "unknown-region": (
        lambda config: config["metadata"].update(region="us-west-9"),
        "region",
        "us-west-9",
    ),
    "node-groups-of-one-name": (
        lambda config: _gpu(config).update(name="system"),
        "validate",
        "is not unique",
    ),
    "desired-above-max": (
        lambda config: _gpu(config).update(maxSize=1),
        "validate",
        "--nodes-max=1 and --nodes=2",
    ),
    "unknown-image-family": (
        lambda config: _gpu(config).update(amiFamily="AmazonLinux2077"),
        "validate",
        "AMI Family AmazonLinux2077 is not supported",
    ),
    "bad-taint": (
        lambda config: _gpu(config)["taints"][0].update(effect="Never"),
        "validate",
        "invalid taint effect",
    ),
    "capacity-block-without-a-reservation": (
        lambda config: _gpu(config).update(instanceMarketOptions={"marketType": "capacity-block"}),
        "validate",
        "capacityReservation",
    ),
    "pod-identity-without-its-agent": (
        lambda config: config.update(
            iam={
                "podIdentityAssociations": [
                    {
                        "namespace": "training",
                        "serviceAccountName": "ray",
                        "permissionPolicyARNs": ["arn:aws:iam::1:policy/p"],
                    }
                ]
            }
        ),
        "load",
        "eks-pod-identity-agent",
    ),
}


@pytest.mark.parametrize("case", BAD_CLUSTERCONFIGS)
def test_a_bad_clusterconfig_is_refused(case: str, tmp_path: Path) -> None:
    change, check, words = BAD_CLUSTERCONFIGS[case]
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump(_changed("clusterconfig.yaml", change)), encoding="utf-8")
    report = check_clusterconfig(path)
    assert not report.ok
    matching = [error for error in report.errors if error.check == check and words in error.message]
    assert matching, f"no {check} error says {words!r}:\n{report}"


def test_a_second_document_is_refused_and_a_leading_separator_is_not(tmp_path: Path) -> None:
    text = (FIXTURES / "clusterconfig.yaml").read_text(encoding="utf-8")
    two, led = tmp_path / "two.yaml", tmp_path / "led.yaml"
    two.write_text(f"{text}---\nkind: Other\n", encoding="utf-8")
    led.write_text(f"# rendered\n---\n{text}---\n# the end\n", encoding="utf-8")
    refused, fine = check_clusterconfigs([two, led])
    assert "2 YAML documents" in str(refused)
    assert fine.ok, str(fine)
    assert (refused.source, fine.source) == (str(two), str(led))


def test_a_file_that_is_not_there_is_an_error_of_the_check(tmp_path: Path) -> None:
    with pytest.raises(CheckerError, match=r"none\.yaml"):
        check_clusterconfig(tmp_path / "none.yaml")
    with pytest.raises(CheckerError, match="nothing would be checked"):
        check_clusterconfigs([])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(lambda config: _gpu(config).update(volumeType="gp9"), "gp9", id="volume-type"),
        pytest.param(lambda config: _gpu(config).update(efaEnable=True), "efaEnable", id="unknown-key"),
        pytest.param(lambda config: config["metadata"].update(version=1.34), "1.34", id="unquoted-version"),
        pytest.param(lambda config: _gpu(config).update(maxSize="two"), "two", id="wrong-type"),
    ],
)
def test_the_schema_refuses(change: Change, words: str) -> None:
    violations = check_clusterconfig_schema(_changed("clusterconfig.yaml", change))
    assert any(words in violation for violation in violations), json.dumps(violations)


LET_THROUGH: dict[str, Change] = {
    "efa-without-a-zone": lambda config: _gpu(config).pop("availabilityZones"),
    "efa-on-a-type-without-it": lambda config: _gpu(config).update(instanceType="m7i.large"),
    "efa-in-public-subnets": lambda config: _gpu(config).update(privateNetworking=False),
    "zone-outside-of-the-cluster": lambda config: _gpu(config).update(availabilityZones=["us-west-2d"]),
    "instance-type-that-does-not-exist": lambda config: _gpu(config).update(instanceType="g6.13xlarge"),
    "version-that-does-not-exist": lambda config: config["metadata"].update(version="1.99"),
    "empty-volume": lambda config: _gpu(config).update(volumeSize=0),
    "addon-twice": lambda config: config["addons"].append({"name": "coredns"}),
    "unknown-addon": lambda config: config["addons"].append({"name": "no-such-addon"}),
    "ranges-of-no-public-endpoint": lambda config: config.update(
        vpc={
            "clusterEndpoints": {"publicAccess": False, "privateAccess": True},
            "publicAccessCIDRs": ["203.0.113.0/24"],
        }
    ),
    "public-ranges-and-no-private-endpoint": lambda config: config.update(
        vpc={"publicAccessCIDRs": ["203.0.113.0/24"]}
    ),
    "vpc-range-too-large": lambda config: config.update(vpc={"cidr": "10.0.0.0/8"}),
    "malformed-vpc": lambda config: config.update(vpc={"id": "vpc"}),
    "alias-for-a-key": lambda config: config.update(
        secretsEncryption={"keyARN": "arn:aws:kms:us-west-2:111122223333:alias/eks"}
    ),
    "key-of-another-region": lambda config: _gpu(config).update(
        volumeEncrypted=True, volumeKmsKeyID="arn:aws:kms:us-east-1:111122223333:key/mine"
    ),
    "tag-of-aws": lambda config: config["metadata"].update(tags={"aws:team": "ml"}),
    "tag-with-an-asterisk": lambda config: _gpu(config).update(tags={"team": "*"}),
    "unknown-key-of-nodeadm": lambda config: _gpu(config).update(
        overrideBootstrapCommand="spec: {instance: {localStorage: {strategie: RAID0}}}"
    ),
    "malformed-reservation": lambda config: _gpu(config).update(
        capacityReservation={"capacityReservationTarget": {"capacityReservationID": "reservation"}}
    ),
    "empty-reservation": lambda config: _gpu(config).update(capacityReservation={"capacityReservationTarget": {}}),
    "spot-with-a-reservation": lambda config: _gpu(config).update(
        spot=True,
        capacityReservation={"capacityReservationTarget": {"capacityReservationID": "cr-0123456789abcdef0"}},
    ),
}


@pytest.mark.parametrize("case", LET_THROUGH)
def test_what_neither_eksctl_nor_its_schema_catches_is_known(case: str, tmp_path: Path) -> None:
    """The generator has to refuse these by itself. One that fails here after an update of eksctl is good news."""
    config = _changed("clusterconfig.yaml", LET_THROUGH[case])
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    assert check_clusterconfig(path).ok
    assert check_clusterconfig_schema(config) == []
