"""The one exception of `local` for what the user can mend."""

from __future__ import annotations

from generator.exits import FINDINGS, INTERRUPTED, REFUSED, Stop
from generator.exits import TOOL as TOOL_FAILED

__all__ = ["INTERRUPTED", "REFUSED", "TOOL_FAILED", "LocalError"]


class LocalError(Stop):
    """A run that cannot start or go on; the text says what to do about it.

    Args:
        message: what is wrong and the remedy, for a terminal.
        exit_code: 1 the job failed, 4 refused (`local` cannot play this), 5 helm or Ray itself failed.
    """

    def __init__(self, message: str, *, exit_code: int = FINDINGS) -> None:
        super().__init__(exit_code, message)

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        return self.code
