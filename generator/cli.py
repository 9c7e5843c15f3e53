"""The command line: `python -m generator` or `ray-train-dlc`."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from generator import __version__, exits
from generator.commands import COMMANDS
from generator.exits import Stop
from generator.project import UsageError
from generator.tools import ToolMissingError

_EPILOG = """exit codes: 0 ok; 1 findings of severity error, or files would change; 2 wrong usage;
4 refused (edited by hand, or exists); 5 an external program is missing or failed; 130 interrupted"""


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="python -m generator",
        description="One typed file per environment to a multi-node Ray Train job on EKS: "
        "validate it, price it, render it, run it here.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=__version__)
    sub = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(sub)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit code.
    """
    _tame_streams()
    args = parser().parse_args(argv)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except (UsageError, Stop, ToolMissingError) as error:
        print(f"error: {error}", file=sys.stderr)
        if isinstance(error, Stop):
            return error.code
        return exits.USAGE if isinstance(error, UsageError) else exits.TOOL
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return exits.BROKEN_PIPE
    except OSError as error:  # a folder that may not be listed, a full disk under the output
        _drop_output()
        where = f"{error.filename}: " if error.filename else ""
        print(f"error: {where}{error.strerror or error}", file=sys.stderr)
        return exits.TOOL
    return code


def _tame_streams() -> None:
    """File names and messages may hold characters that the terminal's encoding has not: show them as escapes."""
    if sys.stdout is None:  # started with the output closed
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  (until the process ends)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """What is still in the buffer has nowhere to go; the interpreter must not complain once more while it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
