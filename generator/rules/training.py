"""The training's preset and arguments, checked by the training's own configuration (RTD109), and its device (RTD804)."""

from __future__ import annotations

import contextlib
import difflib
import io
from collections.abc import Iterator

from generator.diagnostics.finding import Finding
from generator.rules.context import Context
from training.config import argument_names, build, check_args, check_world_size, preset_names

PROBE = "training.probe"
# Flags of every module that follow other keys; the chart refuses them in training.args.
_OWNERS = {
    "preset": "training.preset",
    "num_workers": "workers",
    "run_path": "training.storage",
    "resume_from": "job.resumeFrom",
    "model": "training.model",
    "model_revision": "training.model",
    "data": "training.data",
    "data_revision": "training.data",
}


def preset(ctx: Context) -> Iterator[Finding]:
    chosen, known = ctx.environment.training.preset, preset_names()
    if chosen not in known and ctx.environment.training.bundled:
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
    """By the training's own configuration. What a module of somebody's own takes, only that module knows."""
    training = ctx.environment.training
    for name in training.args:
        if name == "help":
            yield ctx.in_environment(
                "RTD109",
                "training",
                "args",
                name,
                on_key=True,
                message="training.args.help: no setting; its flag ends the training before it starts",
                help="remove it",
            )
        if name in _OWNERS:
            yield ctx.in_environment(
                "RTD109",
                "training",
                "args",
                name,
                on_key=True,
                message=f"training.args.{name}: a value of its own, and no argument",
                help=f"remove it, and set {_OWNERS[name]}",
            )
    if training.preset not in preset_names() or not training.bundled:
        return
    known = argument_names()
    for name, message in check_args(training.preset, training.args):
        if name in _OWNERS or name == "help":
            continue
        unknown = name not in known
        close = difflib.get_close_matches(name, known, n=1) if unknown else []
        yield ctx.in_environment(
            "RTD109",
            "training",
            "args",
            name,
            message=f"training.args.{name}: {message}",
            on_key=unknown,
            label=f"did you mean `{close[0]}`?" if close and "did you mean" not in message else "",
            help="`python -m training.train --help` lists every argument with its unit and range",
        )


def probe_arguments(ctx: Context) -> Iterator[Finding]:
    """The probe's flags, by its own parser: it and what it imports are standard library only until it runs."""
    training = ctx.environment.training
    if training.code.module != PROBE:
        return
    for name, value in training.args.items():
        flag = f"--{name.replace('_', '-')}"
        text = str(value).lower() if isinstance(value, bool) else str(value)
        message = "" if name in _OWNERS or name == "help" else _problem_of_probe(name, f"{flag}={text}")
        if message:
            yield ctx.in_environment(
                "RTD109",
                "training",
                "args",
                name,
                on_key=message.startswith("unrecognized"),
                message=f"training.args.{name}: {message}",
                help="`python -m training.probe --help` lists every argument",
            )


def _problem_of_probe(name: str, argument: str) -> str:
    """What the probe would say of one argument; empty when it takes it."""
    from training.probe import SETTINGS, parser

    if name in SETTINGS:
        return next((message for _, message in check_args("tiny", {name: argument.partition("=")[2]})), "")
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            parser().parse_args([argument])
        except SystemExit:
            return said.getvalue().strip().rpartition("error: ")[2] or "not an argument of the probe"
    return ""


def world_size(ctx: Context) -> Iterator[Finding]:
    """The batch must divide among the ranks: training would stop with it on every node, after the nodes are paid for."""
    training, ranks = ctx.environment.training, ctx.resolved.world_size
    groups = ctx.resolved.groups
    # What other rules already say about the groups leaves no number of ranks to speak of.
    if len(groups) != len(ctx.environment.workers) or len({g.processes for g in groups}) != 1:
        return
    if ctx.environment.mode == "cluster" or any(g.gpus > g.type.gpus for g in groups):
        return
    if not training.bundled or training.preset not in preset_names() or check_args(training.preset, training.args):
        return
    problem = check_world_size(build(training.preset, training.args).batch, ranks)
    if problem is not None:
        yield ctx.in_environment(
            "RTD109",
            "training",
            "args",
            "global_batch_size",
            message=problem.split(";")[0],
            on_key="global_batch_size" not in training.args,
            notes=(" + ".join(f"{g.nodes} × {g.processes} of {g.name}" for g in groups) + f": {ranks} ranks",),
            help=f"set training.args.global_batch_size to{problem.partition('; take')[2]}, or another number of nodes",
        )


def device(ctx: Context) -> Iterator[Finding]:
    """GPUs that are required must be there; those that are there are paid for, also while the ranks leave them alone."""
    asked = ctx.environment.training.args.get("device")
    training = ctx.environment.training
    if ctx.environment.mode == "cluster" or not (training.bundled or training.code.module == PROBE):
        return
    # No GPU asked for on a type that has some: RTD204 speaks about it.
    without = [g.name for g in ctx.resolved.groups if not g.type.gpus]
    if asked == "cuda" and without:
        yield ctx.in_environment(
            "RTD109",
            "training",
            "args",
            "device",
            message=f"training.args.device: cuda needs GPUs, and workers.{without[0]} has none",
            help="set training.args.device to cpu, remove it, or choose an instance type with GPUs",
        )
    gpus = ctx.resolved.gpus
    if asked == "cpu" and gpus:
        paid = "GPU is" if gpus == 1 else f"{gpus} GPUs are"
        yield ctx.in_environment(
            "RTD804",
            "training",
            "args",
            "device",
            message=f"the {paid} paid for and not used: the ranks compute on CPUs",
            notes=("device: cpu tries out a cluster: pods, code, storage, restart; neither GPUs nor EFA",),
            help="remove training.args.device for the training itself",
        )


RULES = (preset, arguments, probe_arguments, world_size, device)
