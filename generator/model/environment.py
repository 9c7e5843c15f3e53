"""`environments/<env>/environment.yaml`: one training and the nodes it runs on."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from generator.model.base import (
    PLACEMENT_GROUP,
    RESUME_FROM,
    RUN_ID,
    SUB_PATH,
    Day,
    Memory,
    Model,
    Name,
    Tags,
    Text,
    VolumeSize,
    Zone,
)
from generator.model.pods import Env, EnvFrom, NetworkPolicy, PullSecret, ServiceAccount
from generator.values.chart import Code, DataSource, ModelSource, Monitoring, Scheduler, Seconds
from generator.values.pods import Annotations, Count, Labels


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
    placement_group: Annotated[str, StringConstraints(pattern=PLACEMENT_GROUP, max_length=255)] | None = None
    """Placement group that a reservation was made in, or none. Default: eksctl makes one for nodes with EFA."""


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

    kind: Literal["fsx", "efs", "pvc"]
    """fsx: a claim of FSx for Lustre. efs: of EFS. pvc: any other claim that many nodes can write (ReadWriteMany)."""
    claim_name: Name
    """Name of the PersistentVolumeClaim in the environment's namespace."""
    sub_path: Annotated[str, StringConstraints(pattern=SUB_PATH, max_length=512)] = ""
    """Folder of the claim to mount. Empty: all of it."""


Storage = Annotated[NoStorage | S3Storage | ClaimStorage, Field(discriminator="kind")]


class Training(Model):
    """What is trained, and where its checkpoints go."""

    preset: Text = "tiny"
    """A preset of training/config.py."""
    args: dict[str, int | float | bool | str] = Field(default={})
    """Arguments by the names of training/config.py; they win over the preset."""
    storage: Storage = NoStorage()
    """Where checkpoints and the run record go."""
    model: ModelSource = ModelSource()
    """The model to start from. Default: random weights."""
    data: DataSource = DataSource()
    """Packed tokens to train on. Default: a synthetic language."""
    code: Code = Code()
    """Code of your own in place of the bundled training."""

    @property
    def bundled(self) -> bool:
        """Whether the bundled training is what runs, whose arguments and needs are known."""
        return self.code.module == "training.train"


class Job(Model):
    """How the RayJob behaves."""

    run_id: Annotated[str, StringConstraints(pattern=RUN_ID, max_length=63)] = ""
    """Change it to run again with nothing else changed."""
    on_change: Literal["replace", "keep"] = "replace"
    """What happens to the running job when its content changes."""
    resume_from: Annotated[str, StringConstraints(pattern=RESUME_FROM, max_length=512)] = ""
    """Name of the run whose newest checkpoint is the start; empty: step 0."""
    cluster_name: Name | None = None
    """Mode jobOnCluster: name of the environment of mode cluster whose RayCluster runs the job."""
    backoff_limit: Count | None = None
    """How many more times the operator tries, each time with new pods. Default: 2."""
    active_deadline_seconds: Seconds | None = None
    """End the job this many seconds after its start, waiting for nodes included. Default: never."""
    pre_running_deadline_seconds: Seconds | None = None
    """Give up when the pods are not up after this many seconds. Default: 1800."""
    ttl_seconds_after_finished: Count | None = None
    """Keep the pods this many seconds after the job's end. Default: 0 where all logs are on the storage, else 600."""


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
    extends: Name | list[Name] = Field(default=[])
    """Layers below this file, by the names of files in environments/_base/; the later ones of a list win."""
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
    mode: Literal["job", "cluster", "jobOnCluster"] = "job"
    """job: a RayJob with its own cluster. cluster: a RayCluster that stays. jobOnCluster: a RayJob on such a one."""
    job: Job = Job()
    """How the RayJob behaves."""
    scheduler: Scheduler = Scheduler()
    """A queue or batch scheduler."""
    env: Env = Field(default={})
    """Environment of all Ray containers: names to values, or to one of secretKeyRef, configMapKeyRef, fieldRef."""
    env_from: list[EnvFrom] = Field(default=[])
    """Environment from whole Secrets or ConfigMaps: where credentials belong."""
    image_pull_secrets: list[PullSecret] = Field(default=[])
    """Secrets for a private registry."""
    service_account: ServiceAccount = ServiceAccount()
    """The pods' ServiceAccount."""
    common_labels: Labels = Field(default={})
    """Labels for every object and, but in mode cluster, every pod. They start no job."""
    common_annotations: Annotations = Field(default={})
    """Annotations for every object."""
    network_policy: NetworkPolicy = NetworkPolicy()
    """The pods' NetworkPolicy."""
    monitoring: Monitoring = Monitoring()
    """Metrics and dashboard."""
    values: dict[str, Any] = Field(default={})
    """Further values of the chart, as its values.yaml writes them, for what has no key here."""
    policy: Policy = Policy()
    """Limits."""
    tags: Tags = Field(default={})
    """Tags for the environment's nodes and their volumes; they win over the cluster's."""

    @property
    def has_pods(self) -> bool:
        """Whether it has nodes and pods of its own; a job on a cluster that is there already has none."""
        return self.mode != "jobOnCluster"
