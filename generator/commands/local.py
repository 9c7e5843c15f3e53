"""`local`: run an environment's rendered RayJob on this machine's own Ray."""

from __future__ import annotations

import argparse
from pathlib import Path

from generator import exits
from generator.commands.common import Subparsers, root, valid
from generator.exits import Stop
from generator.project import Project


def add(sub: Subparsers) -> None:
    """The command line of this command."""
    parser = sub.add_parser(
        "local", parents=[root()], help="run an environment's rendered RayJob on this machine's own Ray"
    )
    parser.add_argument("env", metavar="ENV", help="name or folder of an environment without GPUs")
    parser.add_argument("--fresh", action="store_true", help="forget this environment's earlier local runs first")
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=900.0,
        metavar="SECONDS",
        help="stop the job after that long (default: %(default)s)",
    )
    parser.add_argument(
        "--work-dir", type=work_folder, metavar="DIR", help="where runs and logs go (default: .local/ENV)"
    )
    parser.add_argument(
        "--manifests",
        type=Path,
        metavar="FILE",
        help="run the RayJob of this file instead of rendering the chart",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run an environment's rendered RayJob on this machine's own Ray."""
    from generator.local.run import main_local
    from generator.render import values_path
    from generator.render.write import Change, compare

    project = Project(args.root)
    (one,) = valid(project, [args.env], neighbours=False)
    environment = one.environment.model
    assert environment is not None  # noqa: S101  (valid() checked)
    if environment.mode != "job":
        raise Stop(exits.USAGE, f"environment {one.folder} has mode {environment.mode}; `local` runs mode job")
    if args.manifests is None:
        from generator.render import render as render_tree

        path = values_path(one.folder)
        (planned,) = compare(args.root, {path: render_tree(one)[path]})
        if planned.change is not Change.SAME:
            state = "missing" if planned.change is Change.NEW else "out of date"
            raise Stop(exits.FINDINGS, f"{path} is {state}; run `python -m generator render {one.folder}` first")
    return main_local(
        root=args.root,
        env_name=one.folder,
        chart=args.root / "charts" / "ray-train-dlc",
        values_files=[
            args.root / values_path(one.folder),
            args.root / "environments" / one.folder / "version.yaml",
        ],
        namespace=environment.namespace,
        release=environment.name,
        work_dir=args.work_dir or args.root / ".local" / one.folder,
        manifests=args.manifests,
        timeout=args.timeout,
        fresh=args.fresh,
    )


def seconds(text: str) -> float:
    """An argparse type: a number of seconds above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return value


def work_folder(text: str) -> Path:
    """An argparse type: a path that is not empty (which would mean the current folder)."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty")
    return Path(text)
