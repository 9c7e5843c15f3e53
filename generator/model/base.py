"""What all models share, and the types of single values."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

from generator.values.patterns import ENV_NAME, LABEL_KEY, LABEL_VALUE
from generator.values.patterns import NAME as OBJECT


class Model(BaseModel):
    """A closed, immutable map. Keys are camelCase in files, snake_case in Python; nothing is coerced."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=False,
        validate_by_alias=True,
        # Reading the texts under the fields takes longer than all else at start: `generator.model.descriptions` does it
        # when a text is wanted. A nested model is built as a part of its file's model, not on its own.
        defer_build=True,
    )


NAME = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
_MEMORY = r"^[1-9][0-9]{0,6}(Mi|Gi|Ti)$"
_REGION = r"^[a-z]{2}(-[a-z]+)+-[0-9]$"
_ZONE = r"^[a-z]{2}(-[a-z]+)+-[0-9][a-z]$"
VERSION = r"^(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}$"
KUBERNETES_VERSION = r"^1\.[0-9]{2}$"
RESUME_FROM = r"^([A-Za-z0-9/][A-Za-z0-9_.:/=-]*)?$"
_DAY = r"^20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$"
PLACEMENT_GROUP = r"^[A-Za-z0-9._-]+$"
RUN_ID = r"^[A-Za-z0-9._-]*$"
# What Kubernetes shows to a variable of the pod.
FIELD_PATH = (
    r"^(metadata\.(name|namespace|uid)|metadata\.(labels|annotations)\['([a-z0-9.-]+/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?'\]"
    r"|spec\.(nodeName|serviceAccountName)|status\.(hostIPs?|podIPs?))$"
)
SUB_PATH = r"^([A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*)?$"

# Pattern → (what the value must be, what to do), as a person would say it.
FORMS = {
    NAME: (
        "a name of lower-case letters, digits and hyphens that starts with a letter",
        "use lower-case letters, digits and hyphens; start with a letter, end with a letter or digit",
    ),
    _MEMORY: ("a size such as 160Gi or 512Mi", "write a whole number followed by Mi, Gi or Ti"),
    _REGION: ("an AWS region such as us-west-2", "write the region's code"),
    _ZONE: (
        "an availability zone such as us-west-2a",
        "write the region's code followed by the zone's letter",
    ),
    VERSION: ("a version such as 1.6.1", "write all three numbers"),
    KUBERNETES_VERSION: (
        'a Kubernetes minor version such as "1.36"',
        "write major and minor version, in quotes",
    ),
    RESUME_FROM: ("the name of a run, or its path", "write the name of the RayJob whose checkpoint is the start"),
    _DAY: ("a day such as 2026-12-14", "write year, month and day"),
    PLACEMENT_GROUP: (
        "the name of a placement group, or none",
        "write the group's name of letters, digits, dots, hyphens and underscores, or none",
    ),
    RUN_ID: ("letters, digits, dots, hyphens and underscores", "use only these"),
    SUB_PATH: ("a folder of the claim, such as team/training", "write it without a slash at its ends and without .."),
    FIELD_PATH: (
        "a field that a variable can show, such as status.hostIP",
        "choose metadata.name, .namespace, .uid or .labels['KEY'], spec.nodeName, status.hostIP or status.podIP",
    ),
    ENV_NAME: ("the name of an environment variable", "use letters, digits and underscores; start with a letter"),
    LABEL_KEY: (
        "the key of a label or annotation, such as team or example.com/team",
        "use letters, digits, dots, hyphens and underscores, at most 63, after an optional prefix and a slash",
    ),
    LABEL_VALUE: (
        "the value of a label",
        "use at most 63 letters, digits, dots, hyphens and underscores, with a letter or digit at both ends",
    ),
    f"^{OBJECT}$": (
        "the name of an object of Kubernetes",
        "use lower-case letters, digits, hyphens and dots; start and end with a letter or digit",
    ),
}

# DNS-1035: what KubeRay asks of names (it must start with a letter). Lengths are rules of their own (RTD501).
Name = Annotated[str, StringConstraints(pattern=NAME, max_length=63)]
# A whole count of bytes with a binary suffix, as Kubernetes writes memory.
Memory = Annotated[str, StringConstraints(pattern=_MEMORY)]
Region = Annotated[str, StringConstraints(pattern=_REGION)]
Zone = Annotated[str, StringConstraints(pattern=_ZONE)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=512)]
Day = Annotated[str, StringConstraints(pattern=_DAY)]
# GiB. EKS' images need 20; the end is what gp3 volumes had for long.
VolumeSize = Annotated[int, Field(ge=20, le=16384)]
# Tags of AWS resources; their form is a rule (RTD554).
Tags = dict[str, str]
