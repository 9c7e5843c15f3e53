"""Train or fine-tune a Qwen2.5 model with FSDP2.

On this machine, no cluster, no account:

    python -m training.train                                     tiny model, two ranks of a Ray of its own, CPU
    python -m training.train --num-workers=0                     one process, without Ray
    torchrun --nproc-per-node=2 -m training.train --num-workers=0
    python -m training.train --steps=200 --run-path=./runs/long  goes on where it was when it is started again

From a model and text of one's own to a model (docs/model.md, docs/data.md):

    python -m training.pack --input 'corpus/*.jsonl' --tokenizer models/qwen --output packed/corpus
    python -m training.train --preset=qwen2.5-1.5b --model=models/qwen --data=packed/corpus --export=bfloat16

On a cluster the same command runs as the entrypoint of a RayJob; the chart's RTD_* variables say where and how large.

The run path receives run.json (settings, versions, layout, every step), loss.svg, throughput.svg, checkpoints/, export/
and, with Ray, logs/. The same command with the same run path resumes at the newest complete checkpoint; a finished run
ends at once. SIGTERM lets the step in progress finish, saves a checkpoint and exits with 143.

What stands in brackets behind an argument is the variable that gives it, or its default in the presets.

Exit codes: 0 done, 1 failed, 2 wrong flags, 3 wrong network, 4 wrong storage, 5 wrong layout, 143 stopped after a
checkpoint.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import faulthandler
import inspect
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from training import checkpoint, config, metrics, owner
from training.contract import Contract, ContractError, Exit, RunEndError, expanded
from training.loop import Body, ending_of, run
from training.options import PARTS
from training.session import Ending, Hooks, Job, Session
from training.storage import Storage
from training.topology import NO_GPUS, LostRankError, Place, missing_gpu, process_group, use_cuda


def parser() -> argparse.ArgumentParser:
    """The command line: where to run, then one flag per field of `config`, with its text as help."""
    made = argparse.ArgumentParser(
        prog="python -m training.train",
        usage="python -m training.train [argument …]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    where = made.add_argument_group("where it runs")
    where.add_argument(
        "--preset", default="tiny", metavar="|".join(config.PRESETS), help="model and settings to start from"
    )
    add_place_flags(where, default_path="runs/<preset>")
    where.add_argument(
        "--resume-from",
        metavar="run",
        help="start from the newest checkpoint of another run: the name of one beside this one, a path (with a /), or "
        "an address [RTD_RESUME_FROM]",
    )
    forms = "folder that every rank sees, s3:// address, or name on the hub with its commit"
    sources = {
        "model": "Qwen2.5 model in the Hugging Face format to start from; without it the weights start at random",
        "data": "packed tokens, as python -m training.pack writes them; without it a synthetic language",
    }
    for name, text in sources.items():
        where.add_argument(f"--{name}", metavar="source", help=f"{text}. A {forms} [RTD_{name.upper()}]")
        where.add_argument(
            f"--{name}-revision",
            metavar="commit",
            help=f"commit of the {name} on the hub, 40 hexadecimal digits [RTD_{name.upper()}_REVISION]",
        )
    for title, part in PARTS.items():
        group = made.add_argument_group(title, (inspect.getdoc(part) or "").split("\n")[0])
        for field in dataclasses.fields(part):
            _add_flag(group, field)
    return made


def _add_flag(group: argparse._ArgumentGroup, field: dataclasses.Field[object]) -> None:
    is_bool = isinstance(field.default, bool)
    kind = "true|false" if is_bool else "|".join(field.metadata["choices"]) or type(field.default).__name__
    values = {name: str(preset.get(field.name, field.default)) for name, preset in config.PRESETS.items()}
    if is_bool:
        values = {name: value.lower() for name, value in values.items()}
    one = len(set(values.values())) == 1
    shown = values["tiny"] if one else ", ".join(f"{name}: {value}" for name, value in values.items())
    group.add_argument(
        f"--{field.name.replace('_', '-')}",
        dest=field.name,
        metavar=kind,
        default=argparse.SUPPRESS,
        nargs="?" if is_bool else None,
        const="true" if is_bool else None,
        help=f"{config.descriptions()[field.name]} [{shown}]".replace("%", "%%"),
    )


def add_place_flags(group: argparse._ArgumentGroup, *, default_path: str) -> None:
    """The flags that `surroundings` reads."""
    group.add_argument(
        "--num-workers",
        type=int,
        metavar="int",
        help="ranks; 0 = this process alone, or those that torchrun starts, without Ray "
        "[RTD_NODES × RTD_PROCESSES_PER_NODE, else 2]",
    )
    group.add_argument(
        "--run-path", metavar="path", help=f"folder or s3:// address of this run [RTD_RUN_PATH, else {default_path}]"
    )


def surroundings(
    made: argparse.ArgumentParser, workers: int | None, run_path: str | None, *, default_path: str
) -> tuple[Contract, Place, str]:
    """The contract with the flags applied, this process's place, and the run path as the ranks are told it.

    Args:
        made: whose usage is shown, before this process exits with 2, when a flag is wrong.

    Raises:
        ContractError: an environment variable is wrong.
    """
    contract = Contract.from_env(os.environ)
    # Ray gives its workers places of their own; this process is a rank only without it.
    place = Place.from_env(os.environ) if workers == 0 else Place()
    if workers == 0 and place.world_size > 1 and not (os.environ.get("MASTER_ADDR") and os.environ.get("MASTER_PORT")):
        raise ContractError(
            f"WORLD_SIZE={place.world_size} without MASTER_ADDR and MASTER_PORT; start it with torchrun"
        )
    path = (run_path or contract.run_path or default_path).rstrip("/")
    if not path or path.endswith(":") or ("://" not in path and expanded(path).resolve() == Path("/")):
        made.error(f"--run-path={run_path} must be a folder of this run alone, below the root")
    if "://" not in path:
        path = str(expanded(path))
    if workers is not None and workers < 0:
        made.error("--num-workers must be 0 or more")
    if workers == 0:
        contract = dataclasses.replace(contract, nodes=None, processes_per_node=None)
    elif workers is not None and contract.nodes is not None:
        if workers % contract.nodes:
            made.error(f"--num-workers={workers} is not a multiple of the {contract.nodes} nodes (RTD_NODES)")
        contract = dataclasses.replace(contract, processes_per_node=workers // contract.nodes)
    return contract, place, path


def settings_of(made: argparse.ArgumentParser, preset: str, given: dict[str, object]) -> config.Config:
    """The configuration that the flags ask for; exits with 2, and every problem, when one is wrong."""
    try:
        return config.build(preset, given, from_text=True)
    except ValueError as error:
        flags = (f"--{line.replace('_', '-', line.split(':')[0].count('_'))}" for line in str(error).splitlines())
        made.error("\n  ".join(flags))


def main(argv: list[str] | None = None, *, train: Callable[[Session], None] | None = None) -> int:
    """Run the command line; returns the exit code.

    Args:
        train: a training loop of one's own instead of `loop.train`; see `session.Session`.
    """
    made = parser()
    given = vars(made.parse_args(argv))
    preset, workers = given.pop("preset"), given.pop("num_workers")
    run_path, resume_from = given.pop("run_path"), given.pop("resume_from")
    sources = {name: given.pop(name) for name in ("model", "model_revision", "data", "data_revision")}
    settings = settings_of(made, preset, given)
    try:
        contract, place, path = surroundings(made, workers, run_path, default_path=f"runs/{preset}")
        contract = _with_sources(contract, sources)
        if resume_from and "/" in resume_from and "://" not in resume_from:
            resume_from = str(expanded(resume_from))  # as seen from here, not from a Ray worker
    except ContractError as error:
        print(f"wrong environment:\n{error}", file=sys.stderr)
        return Exit.FAILED
    if resume_from:
        contract = dataclasses.replace(contract, resume_from=resume_from.rstrip("/"))
    job = Job(settings, contract, path, contract.run_name or path.rsplit("/", 1)[-1], train)
    ending = _ended_before(job) or carry_out(job, place, workers, run)
    return show(ending, place, path)


def carry_out(job: Job, place: Place, workers: int | None, body: Body) -> Ending:
    """Run `body` on every rank: in this process with `workers` 0, else under Ray Train."""
    try:
        if workers == 0:
            return _here(job, place, body)
        from training.launch import launch

        return launch(job, world_size=workers or job.contract.world_size or 2, body=body)
    except ModuleNotFoundError as error:
        message = f"{error.name} is not installed; a training needs: pip install '.[train]'"
        return Ending("failed", Exit.FAILED, message)


def show(ending: Ending, place: Place, path: str) -> int:
    """Say how the run ended, once for all ranks; returns the exit code."""
    if place.rank == 0:
        stream = sys.stdout if ending.code == Exit.DONE else sys.stderr
        print(f"{ending.message}\nrun path: {path}", file=stream, flush=True)
    return int(ending.code)


def _with_sources(contract: Contract, given: dict[str, str | None]) -> Contract:
    """The contract with the flags' model and data; a revision belongs to the source that it is given with."""
    for name in ("model", "data"):
        uri, revision = given[name], given[f"{name}_revision"]
        if uri is None and revision is None:
            continue
        uri = getattr(contract, name) if uri is None else uri
        # A folder, as seen from here: the working directory of a Ray worker is another one.
        if uri and "://" not in uri and not revision and os.path.isdir(expanded(uri)):  # noqa: PTH112 - pathlib's raises for long names
            uri = str(expanded(uri))
        changes: dict[str, Any] = {name: uri, f"{name}_revision": revision or ""}
        contract = dataclasses.replace(contract, **changes)
    return contract


def _ended_before(job: Job) -> Ending | None:
    """The ending of an earlier start of this run when a new one would change nothing: finished, or refused."""
    try:
        storage = Storage(job.run_path)
        refused = metrics.refusal(storage)
        record = metrics.read(storage)
        export_due = metrics.export_due(storage, job.config, record)
    except (OSError, ValueError, ImportError) as error:
        return Ending("failed", Exit.STORAGE, f"cannot read the run path {job.run_path}: {error}")
    if refused:
        return Ending("failed", *refused)
    if record and record["run"]["state"] == "finished":
        steps = record["configuration"]["steps"]
        wrong = checkpoint.differences(job.config, record["configuration"], model_only=False)
        again = steps >= job.config.schedule.steps and not export_due
        if again:  # else the data is opened, and known by its digest, wherever it lies
            wrong += _other_sources(job.contract, record)
        if wrong:
            text = "another run has finished here, with other settings:\n  " + "\n  ".join(wrong)
            return Ending("failed", Exit.FAILED, f"{text}\nstart this one under another run path")
        if again:
            text = f"this run finished its {steps} steps on {record['run']['ended']}; nothing to do"
            return Ending("finished", Exit.DONE, f"{text} (more steps, or another run path, start a training)")
    return None


def _other_sources(contract: Contract, record: dict[str, Any]) -> list[str]:
    """Model and data of a record that are not those of now, as texts."""
    return [
        f"{name}: then {then or 'none'}, now {now or 'none'}"
        for name in ("model", "data")
        if isinstance(facts := record.get(name), dict) and "source" in facts
        for then, now in [
            (facts["source"], getattr(contract, name) or None),
            (facts.get("revision"), getattr(contract, f"{name}_revision") or None),
        ]
        if then != now
    ]


def _here(job: Job, place: Place, body: Body) -> Ending:
    """Run `body` in this process: alone, or as one of torchrun's ranks."""
    hooks = Hooks()

    def stop(_signal: int, _frame: object) -> None:
        hooks.stop = True

    def interrupted(_signal: int, _frame: object) -> None:
        hooks.stop = True
        signal.signal(signal.SIGINT, signal.default_int_handler)  # the second time it ends at once

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, interrupted)
    try:
        cuda = use_cuda(job.config.parallel.device, job.contract)
    except RunEndError as error:
        return Ending("failed", error.code, error.message)
    if cuda and (problem := missing_gpu(place, job.contract)):
        # This rank alone may be without one, and rank 0, whose endings are shown, may wait for it.
        if place.rank != 0:
            print(problem, file=sys.stderr, flush=True)
        return Ending("failed", Exit.LAYOUT, problem)
    if not cuda:
        os.environ.update(NO_GPUS)
    with process_group(place, cuda=cuda, timeout_s=job.config.limits.collective_timeout):
        try:
            with owner.owned_by_rank_0(job.run_path, job.run_name, place, lambda: hooks.stop):
                return body(job, place, hooks, cuda=cuda)
        except (LostRankError, OSError) as error:
            # Each rank knows only its own end of it, and rank 0, whose endings are shown, may be the lost one.
            if place.rank != 0:
                print(error, file=sys.stderr, flush=True)
            else:
                with contextlib.suppress(OSError):
                    metrics.close_record(Storage(job.run_path), "failed", Exit.FAILED, str(error))
            return Ending("failed", Exit.FAILED, str(error))
        except RunEndError as error:
            return ending_of(error)


def start(train: Callable[[Session], None] | None = None) -> NoReturn:
    """Run the command line, with a loop of one's own or without, and end this process with its exit code."""
    faulthandler.enable()  # a rank that C++ code aborts says where
    leave(main(train=train))


def leave(code: int) -> NoReturn:
    """End this process with an exit code.

    Not by the interpreter's own end: a thread of gloo, of torch or of a copy into a storage that does not answer may
    still run, and one that meets a dying interpreter aborts the process, after a run that has finished.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    # The module again, under its own name: Ray's workers can import that one, and not `__main__`.
    from training.train import start as _start

    _start()
