"""What the ClusterConfig says for each key of the cluster's file and of the environments on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from generator.diagnostics import Severity
from generator.project import Project
from generator.render import render
from generator.rules import check
from tests.project import base, edited, make, sharing

S3 = "{kind: s3, uri: s3://bucket/ray-train}"
KEY = "arn:aws:kms:us-west-2:111122223333:key/01234567-89ab-cdef-0123-456789abcdef"
OWN_VPC = (
    "vpcId: vpc-0123456789abcdef0, "
    "privateSubnets: {us-west-2a: subnet-0123456789abcdef0, us-west-2b: subnet-0123456789abcdef1}"
)
CA = "k8s.io/cluster-autoscaler"


def config(root: Path, keys: str = "", *changes: tuple[str, str], cluster: str = "") -> Any:
    """That of the base project with `keys` added to the cluster's file and `changes` made in environment.yaml."""
    text = base("environment.yaml")
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    make(root, cluster=(cluster or base("cluster.yaml")) + keys, environment=text)
    loaded = Project(root).load("demo")
    assert [f.message for f in check(loaded) if f.severity is Severity.ERROR] == []
    return yaml.safe_load(render(loaded)["eksctl/demo.yaml"])


def addons(found: Any) -> dict[str, Any]:
    return {addon["name"]: addon.get("podIdentityAssociations") for addon in found["addons"]}


def associations(found: Any) -> dict[str, Any]:
    return {a["serviceAccountName"]: a for a in found.get("iam", {}).get("podIdentityAssociations", [])}


def test_s3_needs_no_driver_and_a_claim_no_bucket(tmp_path: Path) -> None:
    s3 = config(tmp_path)
    assert not [name for name in addons(s3) if "csi" in name]
    assert list(associations(s3)) == ["demo"]
    claim = config(tmp_path, "", (S3, "{kind: pvc, claimName: checkpoints}"))
    assert not [name for name in addons(claim) if "csi" in name]
    assert "iam" not in claim


def test_fsx_brings_its_driver_and_the_controllers_rights(tmp_path: Path) -> None:
    found = addons(config(tmp_path, "", (S3, "{kind: fsx, claimName: checkpoints}")))
    (association,) = found["aws-fsx-csi-driver"]
    assert (association["namespace"], association["serviceAccountName"]) == ("kube-system", "fsx-csi-controller-sa")
    (statement,) = association["permissionPolicy"]["Statement"]
    assert all(action.startswith("fsx:") and "*" not in action for action in statement["Action"])
    assert "aws-efs-csi-driver" not in found


def test_efs_brings_its_driver(tmp_path: Path) -> None:
    found = addons(config(tmp_path, "", (S3, "{kind: efs, claimName: checkpoints}")))
    assert found["aws-efs-csi-driver"][0]["serviceAccountName"] == "efs-csi-controller-sa"
    assert "aws-fsx-csi-driver" not in found


def statements(found: Any, name: str = "demo") -> list[tuple[bool, str]]:
    """(whether it writes, resource) of each statement about S3."""
    given = associations(found)[name]["permissionPolicy"]["Statement"]
    return [("s3:PutObject" in s["Action"], resource) for s in given for resource in s["Resource"]]


def test_model_and_data_in_s3_are_read_only(tmp_path: Path) -> None:
    sources = "model: {uri: s3://models/qwen}\n  data: {uri: s3://bucket/packed}"
    found = config(tmp_path, "", (f"storage: {S3}", f"storage: {S3}\n  {sources}"))
    assert statements(found) == [
        (False, "arn:aws:s3:::bucket"),
        (True, "arn:aws:s3:::bucket/ray-train/*"),
        (False, "arn:aws:s3:::models"),
        (False, "arn:aws:s3:::models/qwen/*"),
        (False, "arn:aws:s3:::bucket/packed/*"),
    ]


def test_a_model_from_the_hub_needs_no_bucket(tmp_path: Path) -> None:
    hub = "{kind: fsx, claimName: checkpoints}\n  model: {uri: Qwen/Qwen2.5-1.5B, revision: " + "a" * 40 + "}"
    assert "iam" not in config(tmp_path, "", (S3, hub))


def test_a_job_on_a_cluster_brings_access_and_no_nodes(tmp_path: Path) -> None:
    make(tmp_path)
    folder = tmp_path / "environments" / "trial"
    folder.mkdir()
    job = f"storage: {S3}\n  data: {{uri: s3://other/packed}}"
    (folder / "environment.yaml").write_text(
        sharing(
            "trial",
            (f"storage: {S3}", job),
            ("mode: job", "mode: jobOnCluster"),
            ("job: {", "job: {clusterName: demo, "),
        )
    )
    found = config(tmp_path, "", ("mode: job", "mode: cluster"))
    assert [group["name"] for group in found["managedNodeGroups"]] == ["system", "demo-gpu"]
    assert list(associations(found)) == ["demo"]
    assert (False, "arn:aws:s3:::other/packed/*") in statements(found)


def test_the_storage_of_every_environment_counts(tmp_path: Path) -> None:
    make(tmp_path)
    other = tmp_path / "environments" / "other"
    other.mkdir()
    text = sharing(
        "other", (S3, "{kind: fsx, claimName: checkpoints}"), ("policy: {", "tags: {team: other}\npolicy: {")
    )
    (other / "environment.yaml").write_text(text)
    larger = edited("cluster.yaml", "m7i.xlarge", "m7i.4xlarge")
    found = config(tmp_path, "", (", quota: {gAndVtVcpu: 96}", ""), cluster=larger)
    assert "aws-fsx-csi-driver" in addons(found)
    assert list(associations(found)) == ["demo"]
    assert [group.get("tags") for group in found["managedNodeGroups"]] == [None, None, {"team": "other"}]


@pytest.mark.parametrize(("region", "arn"), [("us-west-2", "arn:aws:"), ("cn-north-1", "arn:aws-cn:")])
def test_drivers_that_are_asked_for_get_their_managed_policies(tmp_path: Path, region: str, arn: str) -> None:
    cluster = base("cluster.yaml").replace("us-west-2", region)
    change = ("us-west-2a", f"{region}a")
    keys = "addons: [aws-efs-csi-driver, aws-ebs-csi-driver, aws-ebs-csi-driver]\n"
    found = config(tmp_path, keys, change, cluster=cluster)
    assert [addon["name"] for addon in found["addons"]][-2:] == ["aws-ebs-csi-driver", "aws-efs-csi-driver"]
    policies = [addons(found)[name][0]["permissionPolicyARNs"] for name in ("aws-ebs-csi-driver", "aws-efs-csi-driver")]
    assert policies == [
        [f"{arn}iam::aws:policy/service-role/AmazonEBSCSIDriverPolicy"],
        [f"{arn}iam::aws:policy/service-role/AmazonEFSCSIDriverPolicy"],
    ]


def test_without_keys_eksctl_makes_the_vpc_and_both_endpoints(tmp_path: Path) -> None:
    found = config(tmp_path)
    assert found["availabilityZones"] == ["us-west-2a", "us-west-2b"]
    assert found["vpc"] == {
        "nat": {"gateway": "Single"},
        "clusterEndpoints": {"publicAccess": True, "privateAccess": True},
    }
    assert all(group["privateNetworking"] and group["disablePodIMDS"] for group in found["managedNodeGroups"])


def test_a_vpc_of_ones_own_replaces_zones_and_nat(tmp_path: Path) -> None:
    found = config(tmp_path, f"network: {{{OWN_VPC}}}\n")
    assert "availabilityZones" not in found
    assert "nat" not in found["vpc"]
    assert found["vpc"]["subnets"] == {
        "private": {
            "us-west-2a": {"id": "subnet-0123456789abcdef0"},
            "us-west-2b": {"id": "subnet-0123456789abcdef1"},
        }
    }
    assert found["managedNodeGroups"][1]["availabilityZones"] == ["us-west-2a"]  # names one subnet


@pytest.mark.parametrize(("choice", "public", "private"), [("public", True, False), ("private", False, True)])
def test_endpoints(tmp_path: Path, choice: str, public: bool, private: bool) -> None:
    vpc = config(tmp_path, f"network: {{apiEndpoint: {choice}, cidr: 10.20.0.0/16}}\n")["vpc"]
    assert vpc["clusterEndpoints"] == {"publicAccess": public, "privateAccess": private}
    assert vpc["cidr"] == "10.20.0.0/16"


def test_volumes_are_encrypted_with_and_without_a_key(tmp_path: Path) -> None:
    for keys, key in (("", None), (f'encryption: {{volumesKeyArn: "{KEY}"}}\n', KEY)):
        found = config(tmp_path, keys, ("nodes: 2", "nodes: 2\n    volumeSize: 500"))
        assert [group["volumeSize"] for group in found["managedNodeGroups"]] == [100, 500]
        for group in found["managedNodeGroups"]:
            assert (group["volumeEncrypted"], group.get("volumeKmsKeyID")) == (True, key)
        assert "secretsEncryption" not in found
    secrets = config(tmp_path, f'encryption: {{secretsKeyArn: "{KEY}"}}\n')
    assert secrets["secretsEncryption"] == {"keyARN": KEY}


def test_nvme_disks_become_one_raid(tmp_path: Path) -> None:
    found = config(tmp_path, "", ("nodes: 2", "nodes: 2\n    scratch: nvme\n    volumeSize: 30"))
    system, group = found["managedNodeGroups"]
    node = yaml.safe_load(group["overrideBootstrapCommand"])
    assert node["spec"] == {"instance": {"localStorage": {"strategy": "RAID0"}}}
    assert group["amiFamily"] == "AmazonLinux2023"  # eksctl takes a NodeConfig for this family alone
    assert "overrideBootstrapCommand" not in system


def test_node_repair_is_the_agent_and_every_group(tmp_path: Path) -> None:
    off, on = config(tmp_path), config(tmp_path, "nodeRepair: true\n")
    assert "eks-node-monitoring-agent" not in addons(off)
    assert "eks-node-monitoring-agent" in addons(on)
    assert [g.get("nodeRepairConfig") for g in off["managedNodeGroups"]] == [None, None]
    assert [g.get("nodeRepairConfig") for g in on["managedNodeGroups"]] == [{"enabled": True}] * 2


def test_the_autoscaler_starts_from_no_node_and_knows_what_a_node_has(tmp_path: Path) -> None:
    found = config(tmp_path, "autoscaler: clusterAutoscaler\n", ("policy: {", "tags: {team: ml}\npolicy: {"))
    system, group = found["managedNodeGroups"]
    assert (group["minSize"], group["desiredCapacity"], group["maxSize"]) == (0, 0, 2)
    assert system["desiredCapacity"] == 1
    assert "tags" not in system
    assert group["propagateASGTags"] is True
    assert group["labels"]["k8s.amazonaws.com/accelerator"] == "l4"
    (taint,) = group["taints"]
    assert group["tags"] == {
        "team": "ml",
        f"{CA}/enabled": "true",
        f"{CA}/demo": "owned",
        f"{CA}/node-template/resources/nvidia.com/gpu": "4",
        f"{CA}/node-template/resources/vpc.amazonaws.com/efa": "1",
        f"{CA}/node-template/resources/ephemeral-storage": "200Gi",
        f"{CA}/node-template/taint/{taint['key']}": f"{taint['value']}:{taint['effect']}",
    }
    statements = associations(found)["cluster-autoscaler"]["permissionPolicy"]["Statement"]
    changing = [s for s in statements if any(not a.split(":")[1].startswith(("Describe", "Get")) for a in s["Action"])]
    assert [s["Condition"] for s in changing] == [{"StringEquals": {f"aws:ResourceTag/{CA}/demo": "owned"}}]


def test_the_autoscaler_is_not_told_of_efa_that_is_not_used(tmp_path: Path) -> None:
    change = ("efa: required", "efa: disabled\n    scratch: nvme")
    tags = config(tmp_path, "autoscaler: clusterAutoscaler\n", change)["managedNodeGroups"][1]["tags"]
    assert f"{CA}/node-template/resources/vpc.amazonaws.com/efa" not in tags
    assert tags[f"{CA}/node-template/taint/nvidia.com/gpu"] == "true:NoSchedule"
    assert tags[f"{CA}/node-template/resources/ephemeral-storage"] == "3760G"  # the disks of g6.12xlarge


def test_tags_of_the_cluster_and_of_the_environment(tmp_path: Path) -> None:
    keys = 'tags: {team: ml, "cost:center": "4711", quoted: "a: b"}\n'
    found = config(tmp_path, keys, ("policy: {", "tags: {team: vision}\npolicy: {"))
    assert found["metadata"]["tags"] == {"team": "ml", "cost:center": "4711", "quoted": "a: b"}
    assert found["managedNodeGroups"][1]["tags"] == {"team": "vision"}
