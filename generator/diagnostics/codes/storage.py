"""Storage and security (6xx)."""

from __future__ import annotations

from generator.diagnostics.codes.code import Code, E

CODES = {
    "RTD601": Code(
        "several nodes need shared storage",
        E,
        why="each rank writes its part of a checkpoint",
    ),
    "RTD602": Code(
        "the storage location is malformed",
        E,
        why="`s3://bucket/prefix`",
    ),
}
