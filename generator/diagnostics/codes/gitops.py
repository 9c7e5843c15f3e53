"""GitOps (7xx)."""

from __future__ import annotations

from generator.diagnostics.codes.code import Code

CODES: dict[str, Code] = {}
