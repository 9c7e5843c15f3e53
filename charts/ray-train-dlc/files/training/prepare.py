"""What comes before the first step: the promised transport, the model, the checkpoint to go on from, the record."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from training import checkpoint, metrics, transport, weights
from training.contract import Exit, RunEndError
from training.export import obstacle
from training.pace import Interfaces, Pace
from training.packed import DataError
from training.sequences import Sequences, open_sequences
from training.session import Session
from training.sizes import parameter_count, sharding_mode, tokens_per_step
from training.source import fetch
from training.topology import agree, backend, broadcast, build_mesh, gather, on_rank_0


def guard_transport(session: Session) -> None:
    """Run a first collective and compare NCCL's log with what the chart promises for this instance type."""
    expected = broadcast(session.job.contract.transport)
    if expected is None:
        return
    if session.config.parallel.device == "cpu":
        unused = f"the promised transport ({expected.provider}) is not used and not checked"
        session.say(f"device cpu: ranks talk over gloo; {unused}")
        session.transport = {"verdict": "not checked: device cpu", "expected": dataclasses.asdict(expected)}
        return
    problem, found = None, transport.FoundTransport()
    log = transport.own_log(os.environ)
    try:
        import torch
        import torch.distributed as dist

        if session.cuda:
            dist.all_reduce(torch.ones(2**20, device="cuda"))
            torch.cuda.synchronize()
    except RuntimeError as error:
        problem = f"NCCL did not start on {expected.provider}: {str(error).splitlines()[0]}"
    if log and log.is_file():
        found = transport.read_log(log.read_text(errors="replace"), os.getpid())
    problems = [p] if (p := agree(problem)) else []
    all_found = gather(found)
    problems += transport.problems(expected, all_found, nodes=session.nodes)
    session.transport = {
        "verdict": "as promised" if not problems else "wrong",
        "problems": problems,
        "expected": dataclasses.asdict(expected),
        "ranks": [dataclasses.asdict(one) for one in all_found],
    }
    if problems:
        if session.place.rank == 0:
            _open_record(session)  # it is opened later otherwise, and says no less of a run that ends here
        where = f"as read in {log}" if log else "NCCL_DEBUG_FILE is not set, so there is no log to read"
        raise RunEndError(Exit.TRANSPORT, "wrong transport:\n  " + "\n  ".join(problems) + f"\n({where} of each rank)")
    session.say(f"transport as promised: {found.provider} {found.protocol}, {found.interfaces} interfaces per node")


def prepare(session: Session) -> None:
    """Build model and optimiser, go on from a checkpoint if there is one, open the data and the record."""
    from training import model

    job, config, place, nodes = session.job, session.config, session.place, session.nodes
    steps, per_node = config.schedule.steps, len(session.places) // nodes
    data = _open_data(session)
    session.data_digest, session.tokens, session.held_out = data.digest, data.tokens, data.held_out
    source = None
    if session.shared:
        source = checkpoint.choose(
            session.storage,
            config,
            place,
            job.contract.resume_from,
            session.say,
            lambda: session.hooks.stop,
            data=data.digest,
            model=job.contract.model_id,
        )
    if session.shared and not source:
        _refuse_to_train_again(session)
    session.start = session.step = source[1].step if source else 0
    mode = sharding_mode(config.parallel, nodes, per_node)
    session.export_due = _export_due(session)
    # The export takes configuration and tokenizer from it, also in a run that goes on.
    if job.contract.model and ((session.start < steps and not source) or session.export_due):
        session.model_folder = _fetch_model(session)
    if session.start < steps or session.export_due:
        mesh = build_mesh(session.places, config.parallel, cuda=session.cuda)
        session.model = model.build(config, mesh, mode=mode, processes_per_node=per_node, cuda=session.cuda)
        if not source and session.model_folder:
            weights.load(session.model, session.model_folder, shape=config.model, place=place)
        elif not source:
            model.initialise(session.model, config.batch.seed)
        session.optimizer = model.optimizer(session.model, config.optimizer)
        if source:
            checkpoint.load(*source, session.model, session.optimizer, config=config, place=place)
    session.interfaces = Interfaces() if place.local_rank == 0 else None
    session.pace = Pace(config, nodes=nodes, processes_per_node=per_node, cuda=session.cuda)
    if place.rank == 0:
        record = _open_record(session)
        record.begin(
            step=session.start,
            source=source[0].path(checkpoint.folder_name(session.start)) if source else "",
            topology=metrics.topology(
                session.places,
                gpus_per_node=per_node if session.cuda else 0,
                backend=backend(session.cuda),
                sharding=mode,
            ),
            facts={
                "model": {
                    "parameters": parameter_count(config.model),
                    "source": job.contract.model or None,
                    "revision": job.contract.model_revision or None,
                },
                "data": {
                    "source": job.contract.data or None,
                    "revision": job.contract.data_revision or None,
                    **data.facts,
                },
            },
        )
    session.say(
        f"{config.preset}: {parameter_count(config.model):,} parameters, {_count(len(session.places), 'rank')} "
        f"on {_count(nodes, 'node')} ({'cuda' if session.cuda else 'cpu'}, {mode} sharding), "
        f"{tokens_per_step(config.batch):,} tokens per step, {data.summary}"
    )
    if not session.shared:
        session.say("no checkpoints: storage is none and the nodes share no folder, so a lost node starts at step 0")
    if session.model_folder and not source:
        session.say(f"weights of {job.contract.model} {job.contract.model_revision}".rstrip())
    if source:
        session.say(f"resumed at step {session.start} from {source[0].path(checkpoint.folder_name(session.start))}")


def _open_record(session: Session) -> metrics.RunRecord:
    """The run record, on rank 0, with what is known of the transport."""
    job = session.job
    session.record = metrics.RunRecord(session.storage, name=job.run_name, config=session.config)
    session.record.content["transport"] = session.transport
    return session.record


def _open_data(session: Session) -> Sequences:
    """The data of the run.

    Raises:
        RunEndError: a rank cannot use it (failed); on all ranks.
    """
    data, problem, contract = None, None, session.job.contract
    folder = ""
    if contract.data:
        folder = str(_fetch(session, contract.data, contract.data_revision, "data"))
    try:
        data = open_sequences(session.config, folder)
    except DataError as error:
        problem = f"rank {session.place.rank} on {session.place.host}: {error}"
    if (problem := agree(problem)) or data is None:
        # Not lasting: the advice mends it, and a retry before that costs seconds.
        raise RunEndError(Exit.FAILED, f"cannot use the data:\n{problem}", lasting=False)
    return data


def _export_due(session: Session) -> bool:
    """Whether this start has a model to export, when its steps are done; equal on all ranks.

    Raises:
        RunEndError: it would be lost with its node (storage), or something else would be lost (failed); on all ranks.
    """
    contract = session.job.contract
    due = [False]

    def look() -> None:
        record = metrics.read(session.storage)
        due[0] = metrics.export_due(session.storage, session.config, record)
        made = bool((record or {}).get("export"))
        if due[0] and (problem := obstacle(session.storage, metrics.EXPORT, made=made, model=contract.model)):
            advice = "move it away, or take another run path, or export: none"
            raise RunEndError(Exit.FAILED, f"cannot export: {problem}; {advice}", lasting=False)

    on_rank_0(session.place, look)
    wanted = bool(broadcast(due[0]))
    if wanted and not session.shared:
        message = "export needs a folder or address that all nodes share, and storage is none; set one, or export: none"
        raise RunEndError(Exit.STORAGE, message)
    return wanted


def _refuse_to_train_again(session: Session) -> None:
    """End a run that has finished, and of whose checkpoints none is left to go on from or to export.

    Raises:
        RunEndError: failed; on all ranks.
    """

    def look() -> None:
        record = metrics.read(session.storage) or {}
        if record.get("steps") and record["run"]["state"] == "finished":
            message = f"{session.storage.root} has finished, and none of its checkpoints is left to go on from"
            raise RunEndError(Exit.FAILED, f"{message}; to train it again take another run path", lasting=False)

    on_rank_0(session.place, look)


def _fetch(session: Session, uri: str, revision: str, kind: str) -> Path:
    scratch = Path(session.job.contract.scratch)
    return fetch(uri, revision, scratch, session.place, kind=kind, stop=lambda: session.hooks.stop)


def _fetch_model(session: Session) -> Path:
    """The model that the run begins with, on this rank's node.

    Raises:
        RunEndError: it cannot be fetched (storage), or is another model than the settings' (failed); on all ranks.
    """
    contract = session.job.contract
    folder = _fetch(session, contract.model, contract.model_revision, "model")
    if differences := agree("\n  ".join(weights.shape_differences(folder, session.config.model)) or None):
        advice = "choose the preset of this model, or set what differs, with flags such as --rope-theta=10000.0"
        message = f"the model {contract.model} is not the one that these settings train:\n  {differences}\n{advice}"
        raise RunEndError(Exit.FAILED, message, lasting=False)
    return folder


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
