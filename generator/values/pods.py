"""Values of pods: the fields that head, workers and submitter share, and those that each has alone."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from generator.model.base import Model
from generator.values.patterns import ENV_NAME, LABEL_KEY, LABEL_VALUE, NAME, PREFIXED

INT32 = 2**31 - 1
# Key of a JSON schema that names the definition of the Kubernetes API to put in its place.
K8S = "x-kubernetes-type"

EnvName = Annotated[str, StringConstraints(pattern=ENV_NAME)]
RayParam = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]*$")]
LabelKey = Annotated[str, StringConstraints(pattern=LABEL_KEY)]
LabelValue = Annotated[str, StringConstraints(pattern=LABEL_VALUE, max_length=63)]
# A name of most kinds of objects, or nothing.
DnsName = Annotated[str, StringConstraints(pattern=f"^({NAME})?$", max_length=253)]
# Besides CPU, memory and what begins with `hugepages-`.
ExtendedResource = Annotated[str, StringConstraints(pattern=PREFIXED)]
Labels = dict[LabelKey, LabelValue | None]
Annotations = dict[LabelKey, str | None]
StringMap = dict[str, str | None]
Quantity = str | int
# Helm reads numbers as 64 bit floats: beyond these, digits are lost.
Number = Annotated[float, Field(ge=1 - 2**53, le=2**53 - 1)]
Scalar = str | Number | bool
Raw = dict[str, Any]
Count = Annotated[int, Field(ge=0, le=INT32)]


def _kubernetes(name: str) -> Any:
    """Marks a map as one object of the Kubernetes API; with `?` at the end, as some of its fields."""
    return Field(json_schema_extra={K8S: name})


EnvVar = Annotated[Raw, _kubernetes("EnvVar")]
EnvVarSource = Annotated[Raw, _kubernetes("EnvVarSource")]
EnvFromSource = Annotated[Raw, _kubernetes("EnvFromSource")]
Toleration = Annotated[Raw, _kubernetes("Toleration")]
TopologySpreadConstraint = Annotated[Raw, _kubernetes("TopologySpreadConstraint")]
LocalObjectReference = Annotated[Raw, _kubernetes("LocalObjectReference")]
HostAlias = Annotated[Raw, _kubernetes("HostAlias")]
Volume = Annotated[Raw, _kubernetes("Volume")]
VolumeMount = Annotated[Raw, _kubernetes("VolumeMount")]
Container = Annotated[Raw, _kubernetes("Container")]
ContainerPort = Annotated[Raw, _kubernetes("ContainerPort")]
PodResourceClaim = Annotated[Raw, _kubernetes("PodResourceClaim")]
SecretKeySelector = Annotated[Raw, _kubernetes("SecretKeySelector")]
ConfigMapKeySelector = Annotated[Raw, _kubernetes("ConfigMapKeySelector")]
ObjectFieldSelector = Annotated[Raw, _kubernetes("ObjectFieldSelector")]
ResourceFieldSelector = Annotated[Raw, _kubernetes("ResourceFieldSelector")]
Affinity = Annotated[Raw, _kubernetes("Affinity")]
PodSecurityContext = Annotated[Raw, _kubernetes("PodSecurityContext")]
SecurityContext = Annotated[Raw, _kubernetes("SecurityContext")]
ResourceRequirements = Annotated[Raw, _kubernetes("ResourceRequirements")]
PodDNSConfig = Annotated[Raw, _kubernetes("PodDNSConfig")]
Service = Annotated[Raw, _kubernetes("Service")]
SomePodSpec = Annotated[Raw, _kubernetes("PodSpec?")]
SomeContainer = Annotated[Raw, _kubernetes("Container?")]
Lifecycle = Annotated[Raw, _kubernetes("Lifecycle")]
Probe = Annotated[Raw, _kubernetes("Probe")]
NetworkPolicyIngressRule = Annotated[Raw, _kubernetes("NetworkPolicyIngressRule")]
NetworkPolicyEgressRule = Annotated[Raw, _kubernetes("NetworkPolicyEgressRule")]


class ImageOverride(Model):
    """Another image for some pods. What is empty comes from `image`."""

    repository: str = ""
    """Repository, without tag."""
    tag: str = ""
    """Tag."""
    digest: str = ""
    """Digest."""


class MoreResources(Model):
    """Resources besides CPU and memory."""

    ephemeral_storage: Quantity | None = Field(default=None, alias="ephemeral-storage")
    """Disk of the node, for the container's own files and `emptyDir` volumes."""
    hugepages_2mi: Quantity | None = Field(default=None, alias="hugepages-2Mi")
    """Pages of 2 MiB."""
    hugepages_1gi: Quantity | None = Field(default=None, alias="hugepages-1Gi")
    """Pages of 1 GiB."""


class Resources(MoreResources):
    """Requests and limits at once: KubeRay derives what Ray offers from the limits, the scheduler goes by requests."""

    cpu: Quantity
    """CPUs."""
    memory: Quantity
    """Memory."""


class ResourcesLayer(MoreResources):
    """Resources that have a default of their own."""

    cpu: Quantity | None = None
    """CPUs."""
    memory: Quantity | None = None
    """Memory."""


class EnvSource(Model):
    """Where the value of a variable comes from; exactly one."""

    secret_key_ref: SecretKeySelector | None = None
    """A key of a Secret."""
    config_map_key_ref: ConfigMapKeySelector | None = None
    """A key of a ConfigMap."""
    field_ref: ObjectFieldSelector | None = None
    """A field of the pod."""
    resource_field_ref: ResourceFieldSelector | None = None
    """A resource of the container."""


Env = dict[EnvName, Scalar | EnvSource | None]


class Scratch(Model):
    """Fast local disk for each pod, at /var/tmp/ray-train. On EKS an `emptyDir` is on the instance store when the
    node group joins its disks (`instanceStorePolicy: RAID0`)."""

    size_limit: str = ""
    """Limit of the `emptyDir`; the pod is evicted above it. Empty: none."""
    storage_class_name: DnsName = ""
    """A volume of this storage class for each pod, gone with it, in place of an `emptyDir`."""
    size: str = ""
    """Size of that volume."""


class PodFields(Model):
    """Fields of a pod. Maps of a more special place (`head`, a worker group, the submitter) merge over those of
    `common`, at every depth, and drop a key with `null`; of lists and texts the more special one that is not empty
    wins. Probes, hooks, `scratch` and the source of a variable replace as a whole."""

    image: ImageOverride = ImageOverride()
    """Another image for these pods, by `repository`, `tag` and `digest`; `rayVersion` must fit all of them."""
    extra_resources: dict[ExtendedResource, Quantity | None] = Field(default={}, examples=[{"example.com/fpga": 1}])
    """Further resources, as requests and limits. GPUs and EFA interfaces have values of their own."""
    env: Env = Field(
        default={},
        examples=[{"HF_HUB_OFFLINE": "1", "HF_TOKEN": {"secretKeyRef": {"name": "hugging-face", "key": "token"}}}],
    )
    """Environment of the Ray container: names to values, or to one of secretKeyRef, configMapKeyRef, fieldRef,
    resourceFieldRef."""
    env_from: list[EnvFromSource] = Field(default=[], examples=[[{"secretRef": {"name": "tokens"}}]])
    """Environment from whole Secrets or ConfigMaps."""
    labels: Labels = Field(default={})
    """Labels of the pods. They never start a job; a RayCluster with upgrade strategy Recreate starts anew."""
    annotations: Annotations = Field(default={})
    """Annotations of the pods, with the same effect."""
    node_selector: Labels = Field(default={}, examples=[{"node.kubernetes.io/instance-type": "g6.12xlarge"}])
    """Labels that a node must have."""
    tolerations: list[Toleration] = Field(
        default=[], examples=[[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]]
    )
    """Taints that the pods bear."""
    affinity: Affinity = Field(default={})
    """Affinity. The rule that puts one worker on each node is added to it."""
    topology_spread_constraints: list[TopologySpreadConstraint] = Field(default=[])
    """How the pods spread over zones or nodes."""
    priority_class_name: DnsName = ""
    """PriorityClass."""
    runtime_class_name: DnsName = ""
    """RuntimeClass, where `nvidia` is not the nodes' default."""
    scheduler_name: DnsName = ""
    """Scheduler; `scheduler.kind` sets what a batch scheduler needs."""
    image_pull_secrets: list[LocalObjectReference] = Field(default=[], examples=[[{"name": "registry"}]])
    """Secrets for a private registry."""
    service_account_name: DnsName = ""
    """ServiceAccount of these pods alone. Empty: that of `serviceAccount`."""
    automount_service_account_token: bool | None = None
    """Mount the token of the ServiceAccount. Empty: only where the head runs Ray's autoscaler, which needs it."""
    termination_grace_period_seconds: Annotated[int, Field(ge=40, le=86400)] | None = None
    """Seconds from the end signal to the kill: the time for the last step and a checkpoint. Ray's own waits follow
    it."""
    restart_policy: Literal["", "Never", "OnFailure", "Always"] = ""
    """Empty: Never, so that the operator replaces a failed pod."""
    pod_security_context: PodSecurityContext = Field(default={})
    """Over the pod's security context of `podSecurity`."""
    security_context: SecurityContext = Field(default={})
    """Over the container's security context of `podSecurity`."""
    dns_policy: Literal["", "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"] = ""
    """DNS policy."""
    dns_config: PodDNSConfig = Field(default={}, examples=[{"options": [{"name": "ndots", "value": "2"}]}])
    """DNS configuration."""
    host_aliases: list[HostAlias] = Field(default=[])
    """Lines of /etc/hosts."""
    volumes: list[Volume] = Field(default=[])
    """Further volumes. Named `training`, `scratch` and `storage` are the chart's."""
    volume_mounts: list[VolumeMount] = Field(default=[])
    """Further mounts of the Ray container. /dev/shm is the operator's."""
    scratch: Scratch = Scratch()
    """Local disk for the pod, at /var/tmp/ray-train, by `sizeLimit`, or by `storageClassName` and `size`. On EKS the
    default, an `emptyDir`, is on the instance store when the node group joins its disks (`instanceStorePolicy:
    RAID0`)."""
    init_containers: list[Container] = Field(default=[])
    """Init containers, before the operator's own."""
    sidecar_containers: list[Container] = Field(default=[])
    """Containers beside Ray's. They get no token of the cluster."""
    ports: list[ContainerPort] = Field(default=[])
    """Further ports of the Ray container; a port named like one of the chart's takes its place."""
    command: list[str] = Field(default=[])
    """Command that the operator runs before `ray start`, in one shell."""
    args: list[str] = Field(default=[])
    """Its arguments."""
    lifecycle: Lifecycle = Field(default={})
    """Hooks. A preStop hook with `ray stop` is refused: it would end the ranks before their checkpoint."""
    liveness_probe: Probe = Field(default={})
    """In place of the operator's probe."""
    readiness_probe: Probe = Field(default={})
    """In place of the operator's probe."""
    startup_probe: Probe = Field(default={})
    """Startup probe."""
    resource_claims: list[PodResourceClaim] = Field(default=[])
    """Claims of dynamic resource allocation, for the pod; `extraContainer.resources.claims` uses them."""
    extra_pod_spec: SomePodSpec = Field(default={}, examples=[{"shareProcessNamespace": True}])
    """Any other field of the pod's spec, as Kubernetes writes it."""
    extra_container: SomeContainer = Field(default={}, examples=[{"tty": True}])
    """Any other field of the Ray container."""


class RayPodFields(PodFields):
    """Fields of a pod that runs `ray start`."""

    ray_start_params: dict[RayParam, Scalar | None] = Field(default={}, examples=[{"object-store-memory": 1000000000}])
    """More parameters for `ray start`. Values become strings."""
    ray_resources: dict[str, float | str | None] = Field(default={}, examples=[{"fast-disk": 1}])
    """Logical resources that Ray offers on these nodes, besides CPUs and GPUs."""
    ray_labels: Labels = Field(default={})
    """Labels of these nodes in Ray."""


class Common(RayPodFields):
    """What head, workers and submitter share."""

    termination_grace_period_seconds: Annotated[int, Field(ge=40, le=86400)] = 120
    """Seconds from the end signal to the kill: the time for the last step and a checkpoint. Ray's own waits follow
    it."""


class HeadResources(MoreResources):
    """Resources of the head."""

    cpu: Quantity = "2"
    """CPUs."""
    memory: Quantity = "8Gi"
    """Memory."""


class Head(RayPodFields):
    """The Ray head. It runs the driver and no ranks, and gets no GPU."""

    resources: HeadResources = HeadResources()
    """Requests and limits at once. Also: ephemeral-storage, hugepages-2Mi, hugepages-1Gi."""
    service_type: Literal["", "ClusterIP", "NodePort", "LoadBalancer"] = ""
    """Type of the head's Service. Empty: the operator's choice, a headless one. `head.service.spec.type` would win over
    it, so two different ones are refused. The NetworkPolicy closes a LoadBalancer or NodePort until
    `networkPolicy.extraIngress` lets somebody in."""
    service_annotations: Annotations = Field(default={})
    """Annotations of the head's Service. They win over `head.service.metadata.annotations`, key by key."""
    service: Service = Field(default={})
    """The head's Service as a whole, as Kubernetes writes it (`headService` of KubeRay)."""


class Transport(Model):
    """What the log of NCCL must show on this instance type; training ends with exit code 3 when it shows something
    else."""

    protocol: Literal["", "SENDRECV", "RDMA"] = ""
    """SENDRECV or RDMA. Empty: not checked."""
    gdrdma: bool = False
    """Whether the interfaces reach GPU memory by themselves (GPUDirect RDMA)."""


class WorkerGroup(RayPodFields):
    """Equal nodes; one worker pod runs on each."""

    replicas: Annotated[int, Field(le=10000)] = Field(examples=[2])
    """Required. Nodes. One worker pod runs on each node."""
    gpus: Annotated[int, Field(ge=0, le=64)] = Field(examples=[4])
    """Required. GPUs of each node. The one number: `num-gpus` of Ray, request, limit, and ranks per node. 0: no
    GPUs."""
    processes_per_node: Annotated[int, Field(ge=0, le=1024)] = 0
    """Ranks per node of a group without GPUs. Refused together with GPUs."""
    efa: Annotated[int, Field(ge=0, le=64)] = Field(default=0, examples=[1])
    """EFA interfaces of each node (`vpc.amazonaws.com/efa`). 0: none; several nodes then talk over TCP."""
    transport: Transport = Field(default=Transport(), examples=[{"protocol": "SENDRECV", "gdrdma": False}])
    """What the log of NCCL must show on this instance type (`protocol`: SENDRECV, RDMA or empty for unchecked;
    `gdrdma`: GPUDirect RDMA); training ends with exit code 3 when it shows something else."""
    resources: Resources = Field(examples=[{"cpu": "46", "memory": "160Gi"}])
    """Required, with cpu and memory. Requests and limits at once. Also: ephemeral-storage, hugepages-2Mi,
    hugepages-1Gi."""
    min_replicas: Annotated[int, Field(ge=0, le=10000)] | None = None
    """Fewest nodes, where `cluster.autoscaling.enabled`. Empty: `replicas`."""
    max_replicas: Annotated[int, Field(ge=1, le=10000)] | None = None
    """Most nodes, where `cluster.autoscaling.enabled`. Empty: `replicas`."""
    idle_timeout_seconds: Annotated[int, Field(ge=0, le=INT32)] | None = None
    """Seconds until the autoscaler (version v2) takes an idle node away."""
    num_of_hosts: Annotated[int, Field(ge=0, le=10000)] = 0
    """Pods of one replica that come and go together. 0: one."""


class Submitter(PodFields):
    """The pod that submits the job, in K8sJobMode. It takes from `common` what is not about Ray, its data and its
    nodes: image, environment, labels, node selector, tolerations, names of classes and accounts, security, DNS."""

    resources: ResourcesLayer = ResourcesLayer()
    """Requests and limits at once. Empty: 500m and 1Gi."""
    backoff_limit: Annotated[int, Field(ge=0, le=INT32)] = 2
    """How many more times Kubernetes starts it."""
