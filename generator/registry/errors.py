"""What can go wrong with a registry."""

from __future__ import annotations


class RegistryError(Exception):
    """The registry has no such image, refuses it, or cannot be asked. The text says what to do."""

    def __init__(self, reason: str, *, unreachable: bool = False) -> None:
        super().__init__(reason)
        self.unreachable = unreachable
        """Nothing was learnt about the image: no network, or a registry that does not work."""
