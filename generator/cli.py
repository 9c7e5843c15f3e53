"""The command line: `python -m generator` or `ray-train-dlc`."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from generator import __version__, commands, exits
from generator.diagnostics.output import FORMATS
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
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--root",
        type=commands.existing_folder,
        default=Path(),
        metavar="DIR",
        help="folder that holds environments/ (default: the current one)",
    )
    several = argparse.ArgumentParser(add_help=False)
    several.add_argument("env", nargs="*", metavar="ENV", help="name or folder of an environment (default: all)")
    sub = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    validate = sub.add_parser("validate", parents=[common, several], help="check environments; print every finding")
    validate.add_argument("--output", choices=FORMATS, default="text", help="default: text")
    validate.set_defaults(run=commands.validate)

    render = sub.add_parser("render", parents=[common, several], help="write the ClusterConfig and the Helm values")
    render.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit 1 and show the difference if files would change",
    )
    render.add_argument("--force", action="store_true", help="discard edits by hand in generated files")
    render.set_defaults(run=commands.render)

    plan = sub.add_parser("plan", parents=[common, several], help="nodes, GPUs, ranks and price")
    plan.add_argument("--output", choices=("text", "json"), default="text", help="default: text")
    plan.set_defaults(run=commands.plan)

    new = sub.add_parser("new", parents=[common], help="write a new, commented environment")
    new.add_argument("name", metavar="NAME", help="name of the environment")
    new.add_argument(
        "--instance-type",
        default="g6.12xlarge",
        metavar="TYPE",
        help="type of the worker nodes, or `local` (default: %(default)s)",
    )
    new.add_argument("--nodes", type=int, default=2, metavar="N", help="number of worker nodes (default: %(default)s)")
    new.add_argument(
        "--cluster",
        metavar="NAME",
        help="cluster to run on; written too if there is none (default: the environment's name)",
    )
    new.add_argument("--region", metavar="REGION", help="region of a new cluster (default: us-west-2)")
    new.add_argument("--zone", metavar="ZONE", help="zone of the worker nodes (default: the first of the cluster)")
    new.add_argument(
        "--storage",
        metavar="WHERE",
        help="s3://bucket/prefix, fsx:CLAIM, pvc:CLAIM or none (default: s3://NAME-checkpoints/ray-train)",
    )
    new.add_argument(
        "--namespace", default="ray-train", metavar="NAME", help="Kubernetes namespace (default: %(default)s)"
    )
    new.set_defaults(run=commands.new)

    schema = sub.add_parser("schema", parents=[common], help="JSON Schema of the files, for editors")
    schema.add_argument("file", nargs="?", choices=("environment", "cluster", "version"), default="environment")
    schema.add_argument("--write", action="store_true", help="write all of them to environments/")
    schema.set_defaults(run=commands.schema)

    local = sub.add_parser(
        "local", parents=[common], help="run an environment's rendered RayJob on this machine's own Ray"
    )
    local.add_argument("env", metavar="ENV", help="name or folder of an environment without GPUs")
    local.add_argument("--fresh", action="store_true", help="forget this environment's earlier local runs first")
    local.add_argument(
        "--timeout",
        type=commands.seconds,
        default=900.0,
        metavar="SECONDS",
        help="stop the job after that long (default: %(default)s)",
    )
    local.add_argument(
        "--work-dir", type=commands.work_folder, metavar="DIR", help="where runs and logs go (default: .local/ENV)"
    )
    local.add_argument(
        "--manifests",
        type=Path,
        metavar="FILE",
        help="run the RayJob of this file instead of rendering the chart",
    )
    local.set_defaults(run=commands.local)
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
