"""What the tool has to say about a user's files: findings, their codes and their output formats."""

from generator.diagnostics.codes import CODES, Code
from generator.diagnostics.finding import Finding, Position, Range, Severity

__all__ = ["CODES", "Code", "Finding", "Position", "Range", "Severity"]
