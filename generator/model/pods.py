"""What an environment may say about its pods and its namespace, under the names of the chart's values."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from generator.model.base import FIELD_PATH, Model
from generator.values.patterns import ENV_NAME, NAME
from generator.values.pods import Annotations

EnvName = Annotated[str, StringConstraints(pattern=ENV_NAME, max_length=253)]
# The name of a Secret, a ConfigMap or a LocalQueue.
ObjectName = Annotated[str, StringConstraints(pattern=f"^{NAME}$", max_length=253)]
Key = Annotated[str, StringConstraints(pattern=r"^[-._a-zA-Z0-9]+$", max_length=253)]


class KeyRef(Model):
    """One key of a Secret or ConfigMap."""

    name: ObjectName
    """Name of the Secret or ConfigMap, in the environment's namespace."""
    key: Key
    """Its key."""
    optional: bool = False
    """Start without the variable when there is no such key."""


class FieldRef(Model):
    """A field of the pod."""

    field_path: Annotated[str, StringConstraints(pattern=FIELD_PATH)]
    """Path of the field, such as status.hostIP."""


class EnvSource(Model):
    """Where the value of a variable comes from; exactly one."""

    secret_key_ref: KeyRef | None = None
    """A key of a Secret: for what must not stand in Git."""
    config_map_key_ref: KeyRef | None = None
    """A key of a ConfigMap."""
    field_ref: FieldRef | None = None
    """A field of the pod."""


class ObjectRef(Model):
    """A whole Secret or ConfigMap."""

    name: ObjectName
    """Its name, in the environment's namespace."""
    optional: bool = False
    """Start without it when it is not there."""


class EnvFrom(Model):
    """All keys of a Secret or ConfigMap as variables; exactly one."""

    secret_ref: ObjectRef | None = None
    """A Secret."""
    config_map_ref: ObjectRef | None = None
    """A ConfigMap."""
    prefix: Annotated[str, StringConstraints(pattern=r"^([-._a-zA-Z][-._a-zA-Z0-9]*)?$")] = ""
    """What the names of the variables begin with."""


class PullSecret(Model):
    """Credentials of a private registry."""

    name: ObjectName
    """Name of a Secret of type kubernetes.io/dockerconfigjson."""


class ServiceAccount(Model):
    """The pods' ServiceAccount, which is called like the environment."""

    annotations: Annotations = Field(default={})
    """Its annotations: `eks.amazonaws.com/role-arn` for IRSA. EKS Pod Identity needs none."""


class NetworkPolicy(Model):
    """The pods' NetworkPolicy."""

    limit_egress: bool = False
    """Let the pods reach nothing but each other, DNS, and HTTPS for what they need."""
    operator_namespace: Annotated[str, StringConstraints(pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$")] = ""
    """Namespace of the KubeRay operator. Empty: any namespace."""


Env = dict[EnvName, str | int | float | bool | EnvSource]
