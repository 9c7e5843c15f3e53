"""Values that are KubeRay's own, as its API writes them: `autoscalerOptions`, `gcsFaultToleranceOptions`, and what its
specs have besides.

From `apis/ray/v1` of KubeRay 1.6.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints

from generator.model.base import Model
from generator.values.pods import (
    Count,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    Raw,
    ResourceRequirements,
    SecurityContext,
    VolumeMount,
)

Reserved = Annotated[float, Field(ge=0, le=10000)]
NonEmpty = Annotated[str, StringConstraints(min_length=1)]


class JobExtraSpec(Model):
    """Other fields of the RayJob's spec: those of KubeRay 1.6, and whatever a later one brings."""

    model_config = ConfigDict(extra="allow")

    entrypoint_num_cpus: Reserved | None = None
    """CPUs that the driver holds."""
    entrypoint_num_gpus: Reserved | None = None
    """GPUs that the driver holds."""
    entrypoint_resources: NonEmpty | None = None
    """Ray resources that the driver holds: JSON of a map of names to numbers, as a text."""
    job_id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][-A-Za-z0-9._]*$")] | None = None
    """Submission id of the Ray job."""


class AutoscalerOptions(Model):
    """`autoscalerOptions` of KubeRay."""

    version: Literal["v1", "v2"] | None = None
    """Version of the autoscaler. Empty: by the Ray release."""
    idle_timeout_seconds: Count | None = None
    """Seconds until an idle node goes. Empty: 60."""
    upscaling_mode: Literal["Default", "Aggressive", "Conservative"] | None = None
    """How fast nodes are added."""
    image: Annotated[str, StringConstraints(pattern=r"^\S+$")] | None = None
    """Image of its container. Empty: that of the head."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """When a node pulls it. Empty: IfNotPresent."""
    env: list[EnvVar] | None = None
    """Environment of its container, a list as Kubernetes writes it."""
    env_from: list[EnvFromSource] | None = None
    """Environment from whole Secrets or ConfigMaps."""
    volume_mounts: list[VolumeMount] | None = None
    """Mounts of its container; the volumes are the head's."""
    resources: ResourceRequirements | None = None
    """Requests and limits. Empty: 500m and 512Mi."""
    security_context: SecurityContext | None = None
    """Security context of its container."""


class RedisCredential(Model):
    """A user or a password: a text, or where to read it."""

    value: NonEmpty | None = None
    """The text itself, for all to read who may read the RayCluster."""
    value_from: EnvVarSource | None = None
    """A key of a Secret, by `secretKeyRef`."""


class GcsFaultToleranceOptions(Model):
    """`gcsFaultToleranceOptions` of KubeRay."""

    redis_address: NonEmpty | None = None
    """`host:port`, `redis://host:port` or `rediss://host:port`; several with commas between them."""
    redis_username: RedisCredential | None = None
    """User, by `value` or `valueFrom`."""
    redis_password: RedisCredential | None = None
    """Password, by `value` or `valueFrom`."""
    external_storage_namespace: Annotated[str, StringConstraints(pattern=r"^[^@\s]+$")] | None = None
    """Prefix of the cluster's keys in Redis. Empty: the uid of the RayCluster."""


class ClusterExtraSpec(Model):
    """Other fields of the RayCluster's spec, all of a KubeRay after 1.6."""

    model_config = ConfigDict(extra="allow")

    tls_options: Raw | None = None
    """TLS between the nodes."""
    network_policy: Raw | None = None
    """NetworkPolicies of the operator, beside those of the chart."""
    history_server_options: Raw | None = None
    """Collector of the history server."""
