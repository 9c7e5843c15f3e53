"""Image registries: from a tag to the digest of the linux/amd64 image (OCI distribution specification 1.1)."""

from generator.registry.errors import RegistryError
from generator.registry.image import Found, look_up

__all__ = ["Found", "RegistryError", "look_up"]
