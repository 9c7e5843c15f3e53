"""Values of the chart as a whole."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from generator.model.base import Model
from generator.values.kuberay import AutoscalerOptions, ClusterExtraSpec, GcsFaultToleranceOptions, JobExtraSpec
from generator.values.pods import (
    INT32,
    Annotations,
    Common,
    Count,
    DnsName,
    Head,
    Labels,
    NetworkPolicyEgressRule,
    NetworkPolicyIngressRule,
    Raw,
    Submitter,
    WorkerGroup,
)

# Helm cannot write control characters and byte order marks into a manifest, and reads numbers as 64 bit floats.
PRINTABLE = "^[^\\x00-\\x08\\x0B-\\x1F\\x7F-\\x9F\ufeff]*$"
Argument = (
    Annotated[str, StringConstraints(pattern=PRINTABLE)] | Annotated[float, Field(ge=1 - 2**53, le=2**53 - 1)] | bool
)
Seconds = Annotated[int, Field(ge=1, le=INT32)]
Namespace = Annotated[str, StringConstraints(pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$", max_length=63)]


class Image(Model):
    """The image of head, workers and submitter."""

    repository: Annotated[str, StringConstraints(min_length=1)] = "public.ecr.aws/deep-learning-containers/ray"
    """Image of the head and of all workers."""
    tag: str = "train-ml-cuda-v1.1.0"
    """Tag. `latest` is refused. Next to a digest it is only a comment, for people: the image is then
    `repository@digest`, whatever it says."""
    digest: str = ""
    """Digest, `sha256:` and 64 hexadecimal digits; the README says how to look it up. Without one, a tag that moves
    changes the training and nobody is told."""
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """When a node pulls the image: `Always`, `IfNotPresent` or `Never`."""


class ServiceAccount(Model):
    """The pods' ServiceAccount."""

    create: bool = True
    """Make a ServiceAccount. Its token is mounted nowhere; EKS Pod Identity and IRSA do not need it."""
    name: str = ""
    """Its name. Empty: the base name, or `default` when `create` is false."""
    annotations: Annotations = Field(
        default={}, examples=[{"eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/ray-train"}]
    )
    """Its annotations. The example is for IRSA; Pod Identity needs none."""


class Auth(Model):
    """Authentication of everything that speaks to Ray."""

    mode: Literal["token", "disabled"] = "token"
    """`token`, or `disabled`: then anyone who reaches the head runs code on it."""
    secret_name: DnsName = ""
    """Secret with the token in key `auth_token`. Empty: the operator makes one for each RayCluster. It must outlive
    the job: the operator needs it to end one."""
    enable_k8s_token_auth: bool = Field(default=False, alias="enableK8sTokenAuth")
    """Ask Kubernetes whether a token may be used, in place of one shared token. Mode `cluster` and Ray 2.55 or later
    only."""


class Scheduler(Model):
    """A batch scheduler or queue. The labels that each of them reads are set on the RayJob or RayCluster."""

    kind: Literal["", "kueue", "volcano", "yunikorn", "kai"] = ""
    """`kueue`, `volcano`, `yunikorn` or `kai`. Empty: the scheduler of Kubernetes. But for Kueue, the operator must
    run with the same batch scheduler."""
    queue: str = ""
    """Name of the queue (Kueue: a LocalQueue of the namespace)."""
    priority_class: str = ""
    """Kueue: a WorkloadPriorityClass. Volcano: a PriorityClass."""


class Placement(Model):
    """Where the workers stand to each other."""

    topology_key: str = Field(default="", examples=["topology.k8s.aws/network-node-layer-2"])
    """Label of nodes whose value all workers should share, such as a zone or a layer of the network."""
    required: bool = False
    """Whether workers wait when no such place is free."""


class Storage(Model):
    """Where checkpoints, the run record and logs go."""

    kind: Literal["none", "s3", "fsx", "efs", "pvc"] = "none"
    """`none`: the pod's own disk, lost with the pod, one node only. `s3`: a prefix, through Pod Identity or IRSA.
    `fsx`, `efs`, `pvc`: a claim that all nodes mount (ReadWriteMany)."""
    uri: str = Field(default="", examples=["s3://bucket/prefix"])
    """`s3://bucket/prefix` for kind `s3`."""
    claim_name: str = ""
    """Name of an existing PersistentVolumeClaim, for kinds `fsx`, `efs` and `pvc`."""
    sub_path: str = ""
    """Folder of the claim to mount. Empty: all of it."""


class SecretRef(Model):
    """A key of a Secret in the namespace of the release."""

    name: DnsName = ""
    """Name of the Secret. Empty: none."""
    key: Annotated[str, StringConstraints(pattern=r"^[-._a-zA-Z0-9]+$", max_length=253)] = "token"
    """Its key."""


class ModelSource(Model):
    """The model to start from (docs/model.md): in RTD_MODEL, with revision and token beside it."""

    uri: str = Field(default="", examples=["s3://bucket/models/Qwen2.5-1.5B"])
    """Qwen2.5 model in the Hugging Face format, in RTD_MODEL: name on the Hugging Face hub, `s3://` address of a
    folder, or absolute path inside the pods. Empty: the weights start at random."""
    revision: str = ""
    """Commit on the hub, all 40 digits: a branch that moves would change the training and not the job's name."""
    secret_ref: SecretRef = SecretRef()
    """Secret with a token of the hub."""


class DataSource(Model):
    """The data to train on (docs/data.md): in RTD_DATA; the same forms as for the model."""

    uri: str = Field(default="", examples=["s3://bucket/corpus"])
    """Packed tokens, as `python -m training.pack` writes them, in RTD_DATA: `s3://` address of a folder, absolute path
    inside the pods, or name of a dataset on the hub. Empty: a synthetic language."""
    revision: str = ""
    """Commit on the hub, all 40 digits."""
    secret_ref: SecretRef = SecretRef()
    """Secret with a token of the hub."""


class GitCode(Model):
    """Code from a Git repository, cloned by an init container of each pod."""

    url: str = ""
    """Repository, by https."""
    revision: str = ""
    """Commit to check out, all 40 digits: a branch that moves would change the training and not the job's name."""
    path: str = ""
    """Folder of the repository with the modules; they stand beside the bundled package `training`, which comes first.
    Empty: its root."""
    image: str = ""
    """Image with git and a shell. Empty: that of the pods."""
    secret_name: DnsName = ""
    """Secret with `username` and `password` for https. Empty: none."""


class Code(Model):
    """Code of your own beside the bundled package `training`, which stays importable."""

    files: dict[Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\.py$")], str | None] = Field(
        default={}
    )
    """Modules by file name. At most 200 KiB."""
    config_map_name: str = ""
    """An existing ConfigMap with modules. Its content is not part of the job's name: name it by its content."""
    git: GitCode = GitCode()
    """A Git repository."""
    module: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$")] = (
        "training.train"
    )
    """Module that the driver runs, as `python -m <module>`."""


class Training(Model):
    """What is trained."""

    preset: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] = "tiny"
    """Preset of training/config.py."""
    args: Annotated[
        dict[Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")], Argument | None],
        Field(examples=[{"steps": 200, "learning_rate": 2e-5}]),
    ] = Field(default={})
    """Arguments over the preset: a map from field names of training/config.py to values."""
    storage: Storage = Storage()
    """Where checkpoints, the run record and logs go."""
    model: ModelSource = ModelSource()
    """The model to start from, for code of your own."""
    data: DataSource = DataSource()
    """The data to train on, for code of your own."""
    code: Code = Code()
    """Code of your own."""


class Job(Model):
    """The RayJob."""

    name: str = ""
    """Pin the whole name. Empty (advised): `<base>-<8 hex>` by content, so that a change makes a new job. KubeRay
    ignores changes of a job that has started, so with a pinned name they have no effect."""
    run_id: str = ""
    """Any text. A new value starts the same training again."""
    on_change: Literal["replace", "keep"] = "replace"
    """What becomes of the running job when the content changes. `replace`: it gets its grace period to write a
    checkpoint, then goes. `keep`: Helm, Flux and Argo CD leave it, and all it needs, in place."""
    resume_from: str = ""
    """Name of a run to start from. Empty: step 0, or the checkpoint of a run with the same name."""
    cluster_name: str = ""
    """Mode `jobOnCluster`: name of the RayCluster to run on, in the same namespace."""
    backoff_limit: Count = 2
    """How many more times the operator tries, each time with a new cluster. Training goes on from its last
    checkpoint. None in mode `jobOnCluster`."""
    active_deadline_seconds: Seconds | None = None
    """End the job this many seconds after its start, waiting for nodes included. null: never."""
    pre_running_deadline_seconds: Seconds = 1800
    """Give up when the cluster is not up after this many seconds."""
    ttl_seconds_after_finished: Count | None = None
    """Keep the cluster this many seconds after the job's end, whatever that is: its nodes cost money until then. Empty:
    0 where the bundled training has copied its logs to the storage by then, else 600. The RayJob itself stays."""
    submission_mode: Literal["HTTPMode", "K8sJobMode", "SidecarMode"] = "HTTPMode"
    """`HTTPMode`: the operator submits. `K8sJobMode`: a pod of its own does, and a dropped log connection of it ends
    the job. `SidecarMode`: a container of the head does."""
    submitter: Submitter = Submitter()
    """The submitter of `K8sJobMode`: fields of `common`, and `resources`, `backoffLimit`."""
    runtime_env: Raw = Field(default={}, examples=[{"env_vars": {"LOG_LEVEL": "info"}}])
    """Ray's runtime environment of the job."""
    metadata: dict[str, str | None] = Field(default={})
    """Metadata of the Ray job, as the dashboard shows it."""
    managed_by: Literal["", "ray.io/kuberay-operator", "kueue.x-k8s.io/multikueue"] = ""
    """Who runs the job. Empty: the operator."""
    extra_spec: JobExtraSpec = Field(default=JobExtraSpec(), examples=[{"entrypointNumCpus": 1}])
    """Any other field of the RayJob's spec: `entrypointNumCpus`, `entrypointNumGpus`, `entrypointResources`, `jobId`,
    or what a later KubeRay brings."""


class Autoscaling(Model):
    """Ray's autoscaler, which changes the number of workers of a RayCluster."""

    enabled: bool = False
    """Mode `cluster` only: a training has a set number of ranks."""
    options: AutoscalerOptions = Field(
        default=AutoscalerOptions(), examples=[{"version": "v2", "idleTimeoutSeconds": 300}]
    )
    """`autoscalerOptions` of KubeRay 1.6: `version`, `idleTimeoutSeconds`, `upscalingMode`, and `image`,
    `imagePullPolicy`, `env`, `envFrom`, `volumeMounts`, `resources`, `securityContext` of its container, as Kubernetes
    writes them. It mounts volumes of the head."""


class Cluster(Model):
    """The RayCluster."""

    upgrade_strategy: Literal["Recreate", "None"] = "Recreate"
    """Mode `cluster`: what a change of the pods does (image, code, the number of nodes with ranks, and more).
    `Recreate`: all start anew, and what runs on them ends. `None`: nothing, until you delete them."""
    autoscaling: Autoscaling = Autoscaling()
    """Ray's autoscaler."""
    gcs_fault_tolerance_options: GcsFaultToleranceOptions = Field(
        default=GcsFaultToleranceOptions(),
        examples=[
            {
                "redisAddress": "redis:6379",
                "redisPassword": {"valueFrom": {"secretKeyRef": {"name": "redis", "key": "password"}}},
            }
        ],
    )
    """Mode `cluster`: `gcsFaultToleranceOptions` of KubeRay, for Ray Serve: `redisAddress`, `redisUsername`,
    `redisPassword`, `externalStorageNamespace`. Training resumes from checkpoints instead."""
    extra_spec: ClusterExtraSpec = Field(default=ClusterExtraSpec(), examples=[{"tlsOptions": {"enabled": True}}])
    """Any other field of the RayCluster's spec, where your KubeRay knows it; the example needs 1.7."""


class NetworkPolicy(Model):
    """Who reaches the pods, and whom they reach."""

    enabled: bool = True
    """Let only this cluster's pods, and the operator on port 8265, reach the pods. Policies add up: make one of your
    own, or use `extraIngress`, to allow more."""
    operator_namespace: Namespace = ""
    """Namespace of the KubeRay operator. Empty: any namespace."""
    limit_egress: bool = False
    """Let the pods reach nothing but each other, DNS, and the HTTPS port of whatever they need: S3 (and the agents that
    give credentials), the hub, a Git server, the Kubernetes API. Other ports: `extraEgress`."""
    extra_ingress: list[NetworkPolicyIngressRule] = Field(default=[])
    """More rules for traffic to the pods."""
    extra_egress: list[NetworkPolicyEgressRule] = Field(default=[])
    """More rules for traffic from the pods, where `limitEgress`."""


# As the Prometheus operator takes them, such as 1m30s.
_DURATION = r"^([0-9]+y)?([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$"


class PodMonitor(Model):
    """Metrics for the Prometheus operator."""

    enabled: bool = False
    """Make a PodMonitor, where the cluster has that kind; `helm template` knows it by `--api-versions
    monitoring.coreos.com/v1`. It starts no job."""
    labels: Labels = Field(default={}, examples=[{"release": "prometheus"}])
    """Labels by which your Prometheus selects it."""
    interval: Annotated[str, StringConstraints(pattern=_DURATION, min_length=2)] = "15s"
    """How often it is read."""


class GrafanaDashboard(Model):
    """A dashboard for Grafana."""

    enabled: bool = False
    """Make a ConfigMap with a dashboard of runs, which Grafana's sidecar loads. One shows all runs of all namespaces,
    so one release per Grafana is enough. It reads what `podMonitor` and the operator's metrics give."""
    labels: Labels = Field(default={"grafana_dashboard": "1"})
    """Labels by which your sidecar selects it."""
    annotations: Annotations = Field(default={}, examples=[{"grafana_folder": "Ray"}])
    """Its annotations, such as the folder."""


class Monitoring(Model):
    """Metrics."""

    pod_monitor: PodMonitor = PodMonitor()
    """Metrics for the Prometheus operator."""
    grafana_dashboard: GrafanaDashboard = GrafanaDashboard()
    """A dashboard for Grafana."""


class Tests(Model):
    """What `helm test` does."""

    enabled: bool = True
    """Have `helm test` ask whether the job or the cluster is up. Nothing of it is there but while a test runs; leave it
    out of manifests for Git with `helm template --skip-tests`."""
    timeout_seconds: Seconds = 240
    """Give up after this many seconds. Helm itself does after 5 minutes, unless `helm test --timeout` says more."""


class Values(Model):
    """Values of the chart."""

    name_override: str = ""
    """Base name of every object. Empty: the Helm release name, made a valid name (lower case, dots to dashes)."""
    cluster_name: str = ""
    """Name of the Kubernetes cluster: a part of the path of each run, and a label. Empty: `cluster`. Another one starts
    a new job."""
    mode: Literal["job", "cluster", "jobOnCluster"] = "job"
    """`job`: a RayJob, which brings its own cluster up and down again. `cluster`: a RayCluster that stays.
    `jobOnCluster`: a RayJob on a RayCluster that is there already, such as one of mode `cluster`."""
    image: Image = Image()
    """The image."""
    ray_version: str = "2.58.0"
    """Ray release inside the image. KubeRay chooses probes by it and refuses token authentication without it."""
    common_labels: Labels = Field(default={}, examples=[{"cost-centre": "research"}])
    """Labels for every object and, but in mode `cluster`, every pod. They never change the name of a job, so they
    never start one."""
    common_annotations: Annotations = Field(default={})
    """Annotations for every object. The operator copies those of a RayJob to its RayCluster."""
    service_account: ServiceAccount = ServiceAccount()
    """The pods' ServiceAccount."""
    auth: Auth = Auth()
    """Authentication."""
    pod_security: Literal["baseline", "restricted", "privileged"] = "baseline"
    """Pod Security Standard that the pods keep. `baseline`: root without capabilities but CHOWN, DAC_OVERRIDE and
    FOWNER, as the image is made for. `restricted`: user 1000, group 100; not proven with the AWS image. `privileged`:
    like `baseline`, but nothing that you add to it is refused."""
    common: Common = Common()
    """What all pods share. `head`, each worker group and `job.submitter` take the same fields over these."""
    head: Head = Head()
    """The Ray head: all fields of `common`, and these."""
    worker_groups: dict[str, WorkerGroup | None] = Field(default={})
    """Worker groups: a map from the group's name to the group. Empty: one group `gpu` with one node, one GPU, 3 CPUs
    and 12Gi, which fits a g6.xlarge. There is no group in this file, because Helm would merge it into yours. A map in
    which all groups are `null` is refused. A group takes all fields of `common`, and these."""
    placement: Placement = Placement()
    """Where the workers stand to each other."""
    scheduler: Scheduler = Scheduler()
    """A batch scheduler or queue."""
    training: Training = Training()
    """What is trained."""
    job: Job = Job()
    """The RayJob."""
    cluster: Cluster = Cluster()
    """The RayCluster."""
    network_policy: NetworkPolicy = NetworkPolicy()
    """Who reaches the pods, and whom they reach."""
    monitoring: Monitoring = Monitoring()
    """Metrics."""
    tests: Tests = Tests()
    """What `helm test` does."""
    extra_objects: list[Raw] = Field(default=[])
    """Further manifests of the release, as Kubernetes writes them."""
