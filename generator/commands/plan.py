"""`plan`: nodes, GPUs, ranks and price."""

from __future__ import annotations

import argparse

from generator import exits
from generator.commands.common import Subparsers, emit, root, several, valid
from generator.project import Project


def add(sub: Subparsers) -> None:
    """The command line of this command."""
    parser = sub.add_parser("plan", parents=[root(), several()], help="nodes, GPUs, ranks and price")
    parser.add_argument("--output", choices=("text", "json"), default="text", help="default: text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print nodes, GPUs, ranks and the price of environments."""
    from generator.plan.report import as_json, as_text, dump
    from generator.resolve import resolve

    project = Project(args.root)
    resolved = []
    for one in valid(project, args.env, neighbours=False):
        assert one.environment.model is not None and one.cluster is not None  # noqa: S101  (valid() checked)
        resolved.append(resolve(one.environment.model, one.cluster.model))
    if args.output == "json":
        emit(dump([as_json(r) for r in resolved]))
    else:
        emit("\n".join(as_text(r) for r in resolved))
    return exits.OK
