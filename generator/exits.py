"""Exit codes of the command line, and the one exception that carries one."""

from __future__ import annotations

OK = 0
FINDINGS = 1  # findings of severity error, or `--check` would change files, or the local job failed
USAGE = 2
REFUSED = 4  # a file was edited by hand, or exists already
TOOL = 5  # an external program is missing or failed
INTERRUPTED = 130
BROKEN_PIPE = 141  # the reader of the output went away; what a shell reports for a program that SIGPIPE ended


class Stop(Exception):  # noqa: N818  (not an error of ours: the command ends, with a reason)
    """The command ends here; `str()` says why, and how to go on."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
