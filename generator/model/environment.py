"""`environments/<env>/environment.yaml`: one training and the nodes it runs on."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from generator.model.base import RESUME_FROM, RUN_ID, Day, Memory, Model, Name, Tags, Text, VolumeSize, Zone


class Capacity(Model):
    """How the nodes are bought."""

    kind: Literal["onDemand", "spot", "reservation", "capacityBlock"] = "onDemand"
    """onDemand, spot, an On-Demand Capacity Reservation, or a Capacity Block for ML."""
    id: str = ""
    """Id of the reservation or block: cr- and 17 hex digits."""
    instances: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Instances of the reservation or block, as its owner states them."""
    start: Day | None = None
    """First day of the block, such as 2026-12-14 (UTC)."""
    end: Day | None = None
    """Day on which the reservation or block ends (UTC). AWS ends blocks at 11:30."""


class WorkerGroup(Model):
    """One group of equal nodes; each node runs one Ray worker pod."""

    instance_type: Text
    """EC2 instance type, or `local`: this machine, without GPU and EFA."""
    nodes: Annotated[int, Field(ge=1, le=1000)] = 1
    """Number of nodes."""
    availability_zone: Zone | None = None
    """The one zone of the group: EFA traffic does not cross zones."""
    gpus_per_node: Annotated[int, Field(ge=0)] | None = None
    """GPUs per node, and ranks per node. Default: all that the type has."""
    processes_per_node: Annotated[int, Field(ge=1, le=64)] | None = None
    """Ranks per node of a group without GPUs. Default: 1."""
    efa: Literal["required", "disabled"] | None = None
    """required: the training starts on EFA or not at all. Default: required where the type has EFA and nodes > 1."""
    capacity: Capacity = Capacity()
    """How the nodes are bought."""
    cpu: Annotated[int, Field(ge=1)] | None = None
    """vCPU of each worker pod. Default: what the node has left."""
    memory: Memory | None = None
    """Memory of each worker pod. Default: what the node has left."""
    volume_size: VolumeSize = 200
    """Root volume of each node in GiB (gp3)."""
    scratch: Literal["volume", "nvme"] = "volume"
    """Where images, logs and the pods' own files lie: on the root volume, or on the type's NVMe disks as one RAID 0."""


class Head(Model):
    """The pod that runs the Ray head and the training's driver, on a system node."""

    cpu: Annotated[int, Field(ge=1)] = 2
    """vCPU of the head pod."""
    memory: Memory = "8Gi"
    """Memory of the head pod."""


class NoStorage(Model):
    """Checkpoints stay on the node and are lost with it."""

    kind: Literal["none"] = "none"
    """One node only."""


class S3Storage(Model):
    """Checkpoints in an S3 bucket."""

    kind: Literal["s3"]
    """An S3 bucket, reached with EKS Pod Identity."""
    uri: str
    """s3://bucket/prefix."""


class ClaimStorage(Model):
    """Checkpoints on a file system that every node mounts."""

    kind: Literal["fsx", "pvc"]
    """fsx: a claim of FSx for Lustre. pvc: any other claim that many nodes can write (ReadWriteMany)."""
    claim_name: Name
    """Name of the PersistentVolumeClaim in the environment's namespace."""


Storage = Annotated[NoStorage | S3Storage | ClaimStorage, Field(discriminator="kind")]


class Training(Model):
    """What is trained, and where its checkpoints go."""

    preset: Text = "tiny"
    """A preset of training/config.py."""
    args: dict[str, int | float | bool | str] = Field(default={})
    """Arguments by the names of training/config.py; they win over the preset."""
    storage: Storage = NoStorage()
    """Where checkpoints and the run record go."""


class Job(Model):
    """How the RayJob behaves."""

    run_id: Annotated[str, StringConstraints(pattern=RUN_ID, max_length=63)] = ""
    """Change it to run again with nothing else changed."""
    on_change: Literal["replace", "keep"] = "replace"
    """What happens to the running job when its content changes."""
    resume_from: Annotated[str, StringConstraints(pattern=RESUME_FROM, max_length=512)] = ""
    """Name of the run whose newest checkpoint is the start; empty: step 0."""


Vcpu = Annotated[int, Field(ge=0)] | None


class Quota(Model):
    """vCPU quotas of the AWS account, as its owner states them."""

    g_and_vt_vcpu: Vcpu = None
    """Quota L-DB2E81BA: running on-demand G and VT instances."""
    p_vcpu: Vcpu = None
    """Quota L-417A185B: running on-demand P instances."""
    standard_vcpu: Vcpu = None
    """Quota L-1216C47A: running on-demand standard instances, the system nodes among them."""
    spot_g_and_vt_vcpu: Vcpu = None
    """Quota L-3819A6DF: spot requests for G and VT instances."""
    spot_p_vcpu: Vcpu = None
    """Quota L-7212CCBC: spot requests for P instances."""


class Policy(Model):
    """Limits that the owner of the environment sets."""

    require_digest: bool = False
    """An image without a digest is an error."""
    max_usd_per_hour: Annotated[float, Field(gt=0)] | None = None
    """Most that the environment may cost while its nodes run, in USD per hour, as `plan` adds it up."""
    quota: Quota = Quota()
    """vCPU quotas."""


class Environment(Model):
    """One training environment."""

    schema_version: Literal[1]
    """Version of this file's format."""
    name: Name
    """Name of the environment: the name of its folder, and the Helm release."""
    cluster: Name
    """Name of a file in environments/_clusters/."""
    namespace: Name = "ray-train"
    """Kubernetes namespace."""
    workers: Annotated[dict[Name, WorkerGroup], Field(min_length=1)]
    """Worker groups by name."""
    head: Head = Head()
    """The Ray head."""
    training: Training = Training()
    """What is trained."""
    mode: Literal["job", "cluster"] = "job"
    """job: a RayJob with its own cluster. cluster: a RayCluster to work on by hand."""
    job: Job = Job()
    """How the RayJob behaves."""
    policy: Policy = Policy()
    """Limits."""
    tags: Tags = Field(default={})
    """Tags for the environment's nodes and their volumes; they win over the cluster's."""
