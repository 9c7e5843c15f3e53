"""Edits of YAML files that people write: one value is changed, the rest of the text stays as it is, byte for byte."""

from generator.edit.changes import Put, Remove, apply
from generator.edit.errors import EditError

__all__ = ["EditError", "Put", "Remove", "apply"]
