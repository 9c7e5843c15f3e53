"""Every effective value of an environment: with its unit, and where it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from generator.catalog import LOCAL
from generator.diagnostics.finding import Pointer, dotted
from generator.model.environment import Environment
from generator.model.shape import Shaped
from generator.project import Loaded
from generator.resolve import Group, Resolved, mib, resolve
from generator.tree import present
from training.config import PRESETS, argument_names, build, check_args

INSTANCES = "generator/catalog/instances.csv"

# By the end of a key's last name, the longest first: no key of ours means something else by these.
_UNITS = {
    "maxUsdPerHour": "USD/h",
    "gpusPerNode": "GPUs",
    "processesPerNode": "ranks",
    "volumeSize": "GiB",
    "sequence_length": "tokens",
    "batch_size": "sequences",
    "_timeout": "seconds",
    "Seconds": "seconds",
    "SecondsAfterFinished": "seconds",
    "Vcpu": "vCPU",
    "cpu": "vCPU",
    "memory": "GiB",
    "nodes": "nodes",
    "count": "nodes",
    "instances": "nodes",
}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value comes from: `kind` is file, default, catalogue or derived; `fact` says how where no file does."""

    kind: str
    file: str = ""
    line: int = 0
    column: int = 0
    fact: str = ""

    def __str__(self) -> str:
        if self.kind == "file":
            return f"{self.file}:{self.line}"
        if self.kind == "catalogue":
            return f"catalogue: {self.file.rpartition('/')[2]}: {self.fact}"
        return self.fact or self.kind


@dataclass(frozen=True, slots=True)
class Value:
    """One effective value. Memory is in GiB, whatever the file writes it in."""

    key: str
    value: Any
    unit: str
    origin: Origin


_DEFAULT = Origin("default")


def explain(loaded: Loaded) -> list[Value]:
    """Keys of the environment, then of version.yaml (`version.…`), the cluster's file (`cluster.…`), and what follows.

    `loaded` must have no findings about shapes.
    """
    environment, cluster = loaded.environment.model, loaded.cluster
    if environment is None or cluster is None or cluster.model is None or loaded.version.model is None:
        raise ValueError(f"environment {loaded.folder} has errors and cannot be explained")
    resolved = resolve(environment, cluster.model)
    derived = dict(_instead_of_keys(resolved))
    keys = list(_keys(loaded.environment, environment, derived))
    arguments = next(index for index, value in enumerate(keys) if value.key.startswith("training.storage."))
    return [
        *keys[:arguments],
        *_preset(environment),
        *keys[arguments:],
        *_keys(loaded.version, loaded.version.model, {}, ("version",)),
        *_keys(cluster, cluster.model, {}, ("cluster",)),
        *(Value(f"derived.{key}", value, unit, origin) for key, value, unit, origin in _numbers(resolved)),
    ]


def unit_of(name: str) -> str:
    """The unit of a key, by its last name; empty where it has none."""
    return next((unit for end, unit in sorted(_UNITS.items(), key=lambda u: -len(u[0])) if name.endswith(end)), "")


def _keys(
    shaped: Shaped[Any], model: BaseModel, derived: dict[Pointer, tuple[Any, Origin]], prefix: Pointer = ()
) -> Iterator[Value]:
    """Every key of a file that has a value of its own: maps are shown by their keys."""

    def visit(value: Any, path: Pointer) -> Iterator[Value]:
        if isinstance(value, dict) and (value or path == ("training", "args")):
            for key, child in value.items():
                yield from visit(child, (*path, key))
            return
        origin = _written(shaped, path)
        if value is None and path in derived:
            value, origin = derived[path]
        unit = "" if value is None or isinstance(value, bool) else unit_of(str(path[-1]))
        if unit == "GiB" and isinstance(value, str):
            value = _gib(mib(value))
        yield Value(dotted((*prefix, *path)), value, unit, origin)

    yield from visit(model.model_dump(by_alias=True), ())


def _written(shaped: Shaped[Any], path: Pointer) -> Origin:
    source = shaped.source
    if not present(source.data, path):
        return _DEFAULT
    start = source.value_range(path).start
    return Origin("file", source.file_of(path), start.line, start.column)


def _preset(environment: Environment) -> Iterator[Value]:
    """Arguments that the file leaves to the preset. What a module of the user's own makes of them, only it knows."""
    training = environment.training
    if training.code.module != type(training.code)().module or check_args(training.preset, training.args):
        return
    effective, preset = build(training.preset, training.args).as_dict(), PRESETS[training.preset]
    for name in argument_names():
        if name not in training.args:
            origin = Origin("derived", fact=f"the preset {training.preset}") if name in preset else _DEFAULT
            yield Value(f"training.args.{name}", effective[name], unit_of(name), origin)


def _instead_of_keys(resolved: Resolved) -> Iterator[tuple[Pointer, tuple[Any, Origin]]]:
    """What a key that nobody wrote comes to."""
    for group in resolved.groups:
        here = ("workers", group.name)
        has = "no GPU" if not group.type.gpus else "1 GPU" if group.type.gpus == 1 else f"{group.type.gpus} GPUs"
        yield (*here, "gpusPerNode"), (group.gpus, _of_type(group, has))
        ranks = "one rank per GPU" if group.gpus else "one rank per node without GPUs"
        yield (*here, "processesPerNode"), (group.processes, Origin("derived", fact=ranks))
        yield (*here, "efa"), ("required" if group.interfaces else "disabled", _efa(group, resolved.nodes))
        left = "; ".join(group.room.notes)
        room = Origin("derived", fact=f"what the node has left for one pod: {left}")
        yield (*here, "cpu"), (group.cpu, room)
        yield (*here, "memory"), (_gib(group.memory_mib), room)


def _efa(group: Group, nodes: int) -> Origin:
    count = group.type.efa_interfaces
    if count and nodes > 1:
        return Origin("derived", fact=f"{group.type.name} has EFA, and {nodes} nodes talk to each other")
    return Origin("derived", fact="one node talks to no other") if count else _of_type(group, "no EFA")


def _numbers(resolved: Resolved) -> Iterator[tuple[str, Any, str, Origin]]:
    """What follows from several keys, by the name under `derived`."""

    def of(fact: str) -> Origin:
        return Origin("derived", fact=fact)

    groups = resolved.groups
    yield "nodes", resolved.nodes, "nodes", of(" + ".join(f"{g.nodes} of {g.name}" for g in groups))
    yield "gpus", resolved.gpus, "GPUs", of(" + ".join(f"{g.nodes} × {g.gpus} of {g.name}" for g in groups))
    ranks = " + ".join(f"{g.nodes} × {g.processes} of {g.name}" for g in groups)
    yield "ranks", resolved.world_size, "ranks", of(ranks)
    yield "serviceAccount", resolved.service_account, "", of("the chart names it like the environment")
    for group in groups:
        here, found = f"workers.{group.name}", group.type
        if group.gpus:
            yield f"{here}.gpu", found.gpu_model, "", _of_type(group, f"GPUs of the model {found.gpu_model}")
            memory = _gib(found.gpu_memory_mib)
            yield f"{here}.gpuMemory", memory, "GiB", _of_type(group, f"{memory} GiB on each GPU")
        yield f"{here}.vcpu", found.vcpu, "vCPU", _of_type(group, f"{found.vcpu} vCPU")
        count = found.efa_interfaces
        has = f"{count} EFA interface{'' if count == 1 else 's'}" if count else "no EFA"
        fact = _of_type(group, has) if group.interfaces or not count else of("EFA is not used")
        yield f"{here}.interfaces", group.interfaces, "EFA interfaces", fact
        yield f"{here}.transport", *_transport(group, resolved.nodes)
        if found.name != LOCAL:
            yield f"{here}.nodeGroup", group.node_group, "", of("<environment>-<group>")


def _transport(group: Group, nodes: int) -> tuple[str, str, Origin]:
    """What NCCL must report between nodes."""
    if group.interfaces:
        rdma = "with GPUDirect RDMA" if group.type.gpudirect_rdma else "without GPUDirect RDMA"
        protocol = group.type.transport_protocol
        return f"EFA, {protocol}, {rdma}", "", _of_type(group, f"EFA by {protocol}, {rdma}")
    if nodes > 1:
        return "TCP", "", Origin("derived", fact="several nodes without EFA")
    return "none", "", Origin("derived", fact="one node talks to no other")


def _of_type(group: Group, has: str) -> Origin:
    if group.type.name == LOCAL:
        return Origin("derived", fact=f"the type {LOCAL}, a share of this machine, has {has}")
    return Origin("catalogue", INSTANCES, fact=f"the instance type {group.type.name} has {has}")


def _gib(memory_mib: int) -> float | int:
    return memory_mib // 1024 if memory_mib % 1024 == 0 else round(memory_mib / 1024, 3)
