"""`plan`: nodes, memory, network, speed, price and quota, before anything is paid for."""

from __future__ import annotations

import argparse
import shutil
from datetime import date
from typing import TYPE_CHECKING

from generator import exits
from generator.commands.common import Subparsers, emit, root, several, valid
from generator.model.environment import Environment
from generator.project import Project, UsageError

if TYPE_CHECKING:
    from generator.plan.plan import Plan

_ABOUT = """What environments would use, take and cost: nodes and pods, room, GPU memory, bytes and time of each
sharding over EFA and TCP, tokens per second, price and quota. Two or more names print one table to compare them."""


def add(sub: Subparsers) -> None:
    """The command line of this command."""
    parser = sub.add_parser(
        "plan",
        parents=[root(), several()],
        help="nodes, GPU memory, network, time, price and quota",
        description=_ABOUT,
    )
    parser.add_argument("--output", choices=("text", "json", "markdown", "html"), default="text", help="default: text")
    parser.add_argument("--why", action="store_true", help="add the formula and the source of each number")
    parser.add_argument("--preset", metavar="NAME", help="plan this preset, with its own arguments, on the same nodes")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="of text; default: auto")
    parser.add_argument(
        "--today",
        type=_day,
        metavar="YYYY-MM-DD",
        help="day for the age of prices and for support (default: today, UTC)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print what environments would use, take and cost."""
    from generator.plan.plan import plan
    from generator.resolve import resolve

    project = Project(args.root)
    plans = []
    for one in valid(project, args.env, neighbours=False):
        assert one.environment.model is not None and one.cluster is not None  # noqa: S101  (valid() checked)
        environment = _with_preset(one.environment.model, args.preset)
        plans.append(plan(resolve(environment, one.cluster.model), args.today))
        _check_preset(plans[-1], args.preset)
    emit(_shown(plans, args))
    return exits.OK


def _shown(plans: list[Plan], args: argparse.Namespace) -> str:
    from generator.plan.compare import comparison
    from generator.plan.why import why

    reasons = [why(one) if args.why else () for one in plans]
    compared = comparison(plans) if len(args.env) > 1 and len(plans) > 1 else None
    if args.output == "json":
        from generator.plan.report import as_json, dump

        return dump([as_json(one, told) for one, told in zip(plans, reasons, strict=True)])
    if args.output == "html":
        from generator.plan.html import as_html

        return as_html(plans, reasons, compared)
    if args.output == "markdown":
        from generator.plan.markdown import as_markdown, table_markdown

        if compared is not None and not args.why:
            return "\n".join(table_markdown(compared)) + "\n"
        parts = ["\n".join(table_markdown(compared)) + "\n"] if compared is not None else []
        return "\n".join([*parts, *(as_markdown(*both) for both in zip(plans, reasons, strict=True))])
    from generator.plan.text import Paint, as_text, table_lines, wants_colour

    width, colour = shutil.get_terminal_size((100, 24)).columns, wants_colour(args.color)
    table = "\n".join(table_lines(compared, width, Paint(colour))) + "\n" if compared is not None else ""
    if table and not args.why:
        return table
    texts = [as_text(one, width=width, colour=colour, reasons=told) for one, told in zip(plans, reasons, strict=True)]
    return "\n".join([*([table] if table else []), *texts])


def _with_preset(environment: Environment, preset: str | None) -> Environment:
    """The environment as a job of the bundled training with another preset and nothing but its own arguments.

    Raises:
        UsageError: there is no such preset.
    """
    from training.config import preset_names

    if preset is None:
        return environment
    if preset not in preset_names():
        raise UsageError(f"there is no preset `{preset}`; choose one of {', '.join(preset_names())}")
    old = environment.training
    training = old.model_copy(update={"preset": preset, "args": {}, "code": type(old.code)()})
    mode = "job" if environment.mode == "cluster" else environment.mode
    return environment.model_copy(update={"training": training, "mode": mode})


def _check_preset(one: Plan, preset: str | None) -> None:
    """A preset's own batch may not divide by these ranks; what an environment has itself, `validate` has checked."""
    from training.config import build, check_world_size

    if preset is None:
        return
    problem = check_world_size(build(preset).batch, one.resolved.world_size)
    if problem:
        raise UsageError(f"preset `{preset}` cannot run on the nodes of `{one.name}`: {problem}")


def _day(text: str) -> date:
    """An argparse type: a day of the calendar."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not a day such as 2026-12-03") from None
