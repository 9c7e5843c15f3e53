"""`completion`: a script that completes the command line of `ray-train-dlc` in a shell."""

from __future__ import annotations

import argparse

from generator import exits
from generator.commands.common import Subparsers, emit
from generator.exits import Stop

PROGRAM = "ray-train-dlc"  # a shell completes the arguments of a program, not of `python -m`
# Names of environments under the current folder: the folders that hold an environment.yaml.
_NAMES = "$(ls -d environments/*/environment.yaml 2>/dev/null | cut -d/ -f2)"
_BASH = f"""
_rtd_environments() {{
  compgen -W "{_NAMES}" -- "$1"
}}
"""
_ZSH = f"""
_rtd_environments() {{
  compadd -- {_NAMES}
}}
"""
_PREAMBLES = {"bash": _BASH, "zsh": _ZSH, "tcsh": ""}
_COMPLETE = {"bash": "_rtd_environments", "zsh": "_rtd_environments", "tcsh": "`ls environments`"}


def add(sub: Subparsers) -> None:
    """The command line of this command."""
    parser = sub.add_parser("completion", help=f"a script that completes `{PROGRAM}` in a shell")
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"))
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    try:
        import shtab
    except ModuleNotFoundError as error:
        raise Stop(exits.TOOL, "completion needs shtab: pip install 'ray-train-dlc[completion]'") from error
    from generator.cli import parser

    top = parser()
    top.prog = PROGRAM
    for action in _actions(top):
        if action.dest == "env":
            action.complete = _COMPLETE  # type: ignore[attr-defined]
        elif action.type is not None and action.metavar in ("DIR", "FILE"):
            action.complete = shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE  # type: ignore[attr-defined]
    emit(shtab.complete(top, shell=args.shell, preamble=_PREAMBLES[args.shell]) + "\n")
    return exits.OK


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """The arguments of a command and of all below it."""
    found = []
    for action in parser._actions:
        found.append(action)
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                found += _actions(below)
    return found
