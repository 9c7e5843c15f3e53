"""The one exception of `local` for what the user can mend."""

from __future__ import annotations

REFUSED = 4
TOOL_FAILED = 5


class LocalError(Exception):
    """A run that cannot start or go on; the text says what to do about it.

    Args:
        message: what is wrong and the remedy, for a terminal.
        exit_code: 1 the job failed, 4 refused (`local` cannot play this), 5 helm or Ray itself failed.
    """

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code
