"""`plan`: nodes, GPU memory, network, time and price."""

from __future__ import annotations

import argparse

from generator import exits
from generator.commands.common import Subparsers, emit, root, several, valid
from generator.model.environment import Environment
from generator.project import Project, UsageError


def add(sub: Subparsers) -> None:
    """The command line of this command."""
    parser = sub.add_parser("plan", parents=[root(), several()], help="nodes, GPU memory, network, time and price")
    parser.add_argument("--output", choices=("text", "json"), default="text", help="default: text")
    parser.add_argument("--preset", metavar="NAME", help="plan this preset, with its own arguments, on the same nodes")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print what environments would use, take and cost."""
    from generator.plan.report import as_json, as_text, dump
    from generator.resolve import resolve

    project = Project(args.root)
    resolved = []
    for one in valid(project, args.env, neighbours=False):
        assert one.environment.model is not None and one.cluster is not None  # noqa: S101  (valid() checked)
        resolved.append(resolve(_with_preset(one.environment.model, args.preset), one.cluster.model))
    if args.output == "json":
        emit(dump([as_json(r) for r in resolved]))
    else:
        emit("\n".join(as_text(r) for r in resolved))
    return exits.OK


def _with_preset(environment: Environment, preset: str | None) -> Environment:
    """The environment with another preset, and without the arguments that were given to its own.

    Raises:
        UsageError: there is no such preset.
    """
    from training.config import preset_names

    if preset is None:
        return environment
    if preset not in preset_names():
        raise UsageError(f"there is no preset `{preset}`; choose one of {', '.join(preset_names())}")
    training = environment.training.model_copy(update={"preset": preset, "args": {}})
    return environment.model_copy(update={"training": training})
