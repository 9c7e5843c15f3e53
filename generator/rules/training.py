"""The training's preset and arguments, checked by the training's own configuration (RTD109)."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from generator.diagnostics.finding import Finding
from generator.rules.context import Context
from training.config import argument_names, check_args, preset_names


def preset(ctx: Context) -> Iterator[Finding]:
    chosen, known = ctx.environment.training.preset, preset_names()
    if chosen not in known:
        close = difflib.get_close_matches(chosen, known, n=1)
        yield ctx.in_environment(
            "RTD109",
            "training",
            "preset",
            message=f"there is no preset `{chosen}`",
            label=f"did you mean `{close[0]}`?" if close else "",
            help=f"choose one of {', '.join(known)}",
        )


def arguments(ctx: Context) -> Iterator[Finding]:
    training = ctx.environment.training
    if training.preset not in preset_names():
        return
    known = argument_names()
    for name, message in check_args(training.preset, training.args):
        unknown = name not in known
        close = difflib.get_close_matches(name, known, n=1) if unknown else []
        yield ctx.in_environment(
            "RTD109",
            "training",
            "args",
            name,
            message=f"training.args.{name}: {message}",
            on_key=unknown,
            label=f"did you mean `{close[0]}`?" if close else "",
            help="`python -m training.train --help` lists every argument with its unit and range",
        )


RULES = (preset, arguments)
