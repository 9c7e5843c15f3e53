"""The one error of this package."""

from __future__ import annotations


class EditError(Exception):
    """The text cannot be edited so; it says why, and what to do instead."""
