"""What comes before the first step: the promised transport, the model, the checkpoint to go on from, the record."""

from __future__ import annotations

import os

from training import checkpoint, metrics, transport
from training.contract import Exit, RunEndError
from training.data import SyntheticTokens, entropy
from training.pace import Interfaces, Pace
from training.session import Session
from training.sizes import parameter_count, sharding_mode, tokens_per_step
from training.topology import agree, backend, broadcast, build_mesh, gather
from training.validation import HeldOut

HELD_OUT = 2**40  # index of the first synthetic sequence that no training reaches


def guard_transport(session: Session) -> None:
    """Run a first collective and compare NCCL's log with what the chart promises for this instance type."""
    expected = broadcast(session.job.contract.transport)
    if expected is None:
        return
    if session.config.parallel.device == "cpu":
        unused = f"the promised transport ({expected.provider}) is not used and not checked"
        session.say(f"device cpu: ranks talk over gloo; {unused}")
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
        found = transport.read_log(log.read_text(errors="replace"))
    problems = [p] if (p := agree(problem)) else []
    problems += transport.problems(expected, gather(found), nodes=session.nodes)
    if problems:
        where = f"as read in {log}" if log else "NCCL_DEBUG_FILE is not set, so there is no log to read"
        raise RunEndError(Exit.TRANSPORT, "wrong transport:\n  " + "\n  ".join(problems) + f"\n({where} of each rank)")
    session.say(f"transport as promised: {found.provider} {found.protocol}, {found.interfaces} interfaces per node")


def prepare(session: Session) -> None:
    """Build model and optimiser, go on from a checkpoint if there is one, open the data and the record."""
    from training import model

    job, config, place, nodes = session.job, session.config, session.place, session.nodes
    per_node = len(session.places) // nodes
    source = None
    if session.shared:
        source = checkpoint.choose(
            session.storage, config, place, job.contract.resume_from, session.say, lambda: session.hooks.stop
        )
    session.start = session.step = source[1].step if source else 0
    mode = sharding_mode(config.parallel, nodes, per_node)
    if session.start < config.schedule.steps:
        mesh = build_mesh(session.places, config.parallel, cuda=session.cuda)
        session.model = model.build(config, mesh, mode=mode, processes_per_node=per_node, cuda=session.cuda)
        if not source:
            model.initialise(session.model, config.batch.seed)
        session.optimizer = model.optimizer(session.model, config.optimizer)
        if source:
            checkpoint.load(*source, session.model, session.optimizer, config=config, place=place)
        tokens = session.tokens = SyntheticTokens.create(
            vocab_size=config.model.vocab_size, sequence_length=config.batch.sequence_length, seed=config.batch.seed
        )
        if count := config.reports.validation_sequences:
            session.held_out = HeldOut(lambda index: tokens.sequence(HELD_OUT + index), count)
    session.interfaces = Interfaces() if place.local_rank == 0 else None
    session.pace = Pace(config, nodes=nodes, processes_per_node=per_node, cuda=session.cuda)
    if place.rank == 0:
        session.record = metrics.RunRecord(session.storage, name=job.run_name, config=config)
        session.record.begin(
            step=session.start,
            source=source[0].path(checkpoint.folder_name(session.start)) if source else "",
            topology=metrics.topology(
                session.places,
                gpus_per_node=per_node if session.cuda else 0,
                backend=backend(session.cuda),
                sharding=mode,
            ),
            facts={
                "model": {"parameters": parameter_count(config.model)},
                "data": {"kind": "synthetic", "entropy": round(entropy(), 6)},
            },
        )
    session.say(
        f"{config.preset}: {parameter_count(config.model):,} parameters, {_count(len(session.places), 'rank')} "
        f"on {_count(nodes, 'node')} ({'cuda' if session.cuda else 'cpu'}, {mode} sharding), "
        f"{tokens_per_step(config.batch):,} tokens per step, entropy of the data {entropy():.4f}"
    )
    if not session.shared:
        session.say("no checkpoints: storage is none and the nodes share no folder, so a lost node starts at step 0")
    if source:
        session.say(f"resumed at step {session.start} from {source[0].path(checkpoint.folder_name(session.start))}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
