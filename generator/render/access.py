"""Who may do what at AWS: the EKS Pod Identity associations of a ClusterConfig. Nodes themselves get no such rights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from generator.model.environment import Environment, S3Storage

_READ = ("s3:GetObject",)
_WRITE = ("s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of an IAM policy that allows `actions` on `resources`."""

    actions: tuple[str, ...]
    resources: tuple[str, ...]
    condition: Mapping[str, Mapping[str, str]] | None = None


@dataclass(frozen=True, slots=True)
class Association:
    """A ServiceAccount and what its pods may do: statements of our own, or managed policies by ARN."""

    namespace: str
    service_account: str
    comment: str
    statements: tuple[Statement, ...] = ()
    policy_arns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Grant:
    """A location in S3 that the pods of an environment read, and write where `writes`."""

    uri: str
    writes: bool

    def statements(self, partition: str) -> Iterator[Statement]:
        bucket, _, prefix = self.uri.removeprefix("s3://").partition("/")
        prefix = prefix.rstrip("/")
        arn = f"arn:{partition}:s3:::{bucket}"
        yield Statement(("s3:ListBucket", "s3:GetBucketLocation"), (arn,))
        below = f"{arn}/{prefix}/*" if prefix else f"{arn}/*"
        yield Statement(_WRITE if self.writes else _READ, (below,))


def grants(environment: Environment) -> Iterator[Grant]:
    """Every location in S3 that a key of the environment names. A further such key is a further line here."""
    training = environment.training
    if isinstance(training.storage, S3Storage):
        yield Grant(training.storage.uri, writes=True)
    for source in (training.model, training.data):
        if source.uri.startswith("s3://"):
            yield Grant(source.uri, writes=False)


def pods(environment: Environment, jobs: Iterable[Environment], where: str) -> Association | None:
    """The environment's pods, in which the `jobs` on it run too; `where` is the partition.

    A ServiceAccount has one association at most.
    """
    given = [grant for one in (environment, *jobs) for grant in grants(one)]
    statements = tuple(dict.fromkeys(statement for grant in given for statement in grant.statements(where)))
    if not statements:
        return None
    return Association(environment.namespace, environment.name, "the pods' access to S3; nodes get none", statements)


def cluster_autoscaler(cluster: str) -> Association:
    """What kubernetes/autoscaler cloudprovider/aws/README.md asks for; changes only to this cluster's node groups."""
    reads = Statement(
        (
            "autoscaling:DescribeAutoScalingGroups",
            "autoscaling:DescribeAutoScalingInstances",
            "autoscaling:DescribeLaunchConfigurations",
            "autoscaling:DescribeScalingActivities",
            "autoscaling:DescribeTags",
            "ec2:DescribeImages",
            "ec2:DescribeInstanceTypes",
            "ec2:DescribeLaunchTemplateVersions",
            "ec2:GetInstanceTypesFromInstanceRequirements",
            "eks:DescribeNodegroup",
        ),
        ("*",),
    )
    owned = {"StringEquals": {f"aws:ResourceTag/k8s.io/cluster-autoscaler/{cluster}": "owned"}}
    changes = Statement(
        ("autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"), ("*",), owned
    )
    return Association(
        "kube-system", "cluster-autoscaler", "the cluster autoscaler: docs/growing-cluster.md", (reads, changes)
    )


def csi_driver(addon: str, where: str) -> Association:
    """The controller of a CSI driver. Sources: the EKS guide on each add-on; aws-fsx-csi-driver docs/install.md."""
    managed = f"arn:{where}:iam::aws:policy/service-role"
    if addon == "aws-ebs-csi-driver":
        return Association(
            "kube-system", "ebs-csi-controller-sa", "", policy_arns=(f"{managed}/AmazonEBSCSIDriverPolicy",)
        )
    if addon == "aws-efs-csi-driver":
        return Association(
            "kube-system", "efs-csi-controller-sa", "", policy_arns=(f"{managed}/AmazonEFSCSIDriverPolicy",)
        )
    # Narrower than AmazonFSxFullAccess, which EKS names: what the driver calls, without rights over IAM roles.
    calls = ("CreateFileSystem", "DeleteFileSystem", "DescribeFileSystems", "TagResource", "UpdateFileSystem")
    return Association(
        "kube-system",
        "fsx-csi-controller-sa",
        "",
        (Statement(tuple(f"fsx:{call}" for call in calls), ("*",)),),
    )
