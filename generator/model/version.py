"""`environments/<env>/version.yaml`: the image. It is a Helm values file; promotion copies it."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from generator.model.base import VERSION, Model, Text


class Image(Model):
    """A container image by tag, digest, or both (the digest decides)."""

    repository: Text
    """Registry and repository, without tag."""
    tag: str = ""
    """Tag, such as train-ml-cuda-v1.1.0."""
    digest: str = ""
    """sha256: and 64 hex digits. With it, the tag is only a comment."""


class Version(Model):
    """The image and the Ray version inside it."""

    image: Image
    """The image of head and workers."""
    ray_version: Annotated[str, StringConstraints(pattern=VERSION)]
    """Ray version in the image: KubeRay chooses probes and allows token authentication by it."""
