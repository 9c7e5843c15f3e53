"""What a training is told by its surroundings and what it answers: environment variables and exit codes.

Standard library only. The chart sets the variables, the same ones in the head and in the workers; without them the
defaults fit a laptop.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


class Exit(enum.IntEnum):
    """Exit codes of `python -m training.train`."""

    DONE = 0
    FAILED = 1
    TRANSPORT = 3  # the network between the GPUs is not the expected one
    STORAGE = 4  # the run path is not one folder that every rank can write
    LAYOUT = 5  # too few nodes or devices, or ranks spread unevenly
    PREEMPTED = 143  # asked to stop, and stopped after a checkpoint


# A retry repeats these on paid hardware and ends the same way: they leave a marker in the run path.
NOT_MENDED_BY_RETRY = (Exit.TRANSPORT, Exit.STORAGE, Exit.LAYOUT)


class RunEndError(Exception):
    """The run must end with `code`. Raised on all ranks together, never on one alone."""

    def __init__(self, code: Exit, message: str, *, lasting: bool | None = None) -> None:
        """`lasting`: a later start of the same run is refused too; by default as `NOT_MENDED_BY_RETRY` says."""
        super().__init__(message)
        self.code = code
        self.message = message
        self.lasting = code in NOT_MENDED_BY_RETRY if lasting is None else lasting

    def __reduce__(self) -> tuple[object, ...]:
        """Exceptions are pickled from rank to rank; the default would call the class with the message alone."""
        return _restore, (int(self.code), self.message, self.lasting)


def _restore(code: int, message: str, lasting: bool) -> RunEndError:
    return RunEndError(Exit(code), message, lasting=lasting)


class ContractError(ValueError):
    """An environment variable of the contract has a value that means nothing."""


def expanded(path: str) -> Path:
    """A path as seen from here: absolute, `~` resolved.

    Raises:
        ContractError: `~` is of nobody here.
    """
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError as error:
        raise ContractError(f"{path}: {error}") from None


def own_scratch(environ: Mapping[str, str]) -> str:
    """The user's folder for downloads outside a cluster, by the XDG base directory specification."""
    cache = environ.get("XDG_CACHE_HOME", "").strip() or "~/.cache"
    return str(Path(cache, "ray-train-dlc").expanduser().absolute())


@dataclass(frozen=True)
class ExpectedTransport:
    """What NCCL's log must show on this instance type."""

    provider: str
    """Libfabric provider: `efa`."""
    protocol: str
    """`SENDRECV` or `RDMA`; empty: not checked."""
    interfaces: int
    """Network interfaces per node; 0: not checked."""
    gdrdma: bool
    """Whether NCCL must move data between network card and GPU without the host's memory."""


@dataclass(frozen=True)
class Contract:
    """The contract's environment variables, read once."""

    run_name: str
    """Name of the run: the RayJob's; empty outside a cluster."""
    run_path: str
    """Folder or `s3://` address of this run alone: checkpoints, record, curve. Empty: not given."""
    storage_kind: str
    """`none`, `s3`, `fsx`, `efs` or `pvc`."""
    nodes: int | None
    """Worker nodes; None: not given."""
    gpus_per_node: int | None
    """GPUs per worker node, 0 on CPU; None: not given."""
    processes_per_node: int | None
    """Ranks per worker node; None: not given."""
    resume_from: str
    """Path of another run, or its name beside this one; empty: none."""
    model: str
    """Hub name, `s3://` address or path of the model to start from; empty: not given."""
    model_revision: str
    """Commit of the model on the hub; empty: not given."""
    data: str
    """Hub name, `s3://` address or path of the data; empty: not given."""
    data_revision: str
    """Commit of the data on the hub; empty: not given."""
    scratch: str
    """Folder on each node's own disk for downloads."""
    transport: ExpectedTransport | None
    """None: nothing is promised about the network, so nothing is checked."""

    @property
    def model_id(self) -> str:
        """What a run begins with, as its checkpoints name it; `none` for random weights."""
        return f"{self.model} {self.model_revision}".strip() or "none"

    @property
    def world_size(self) -> int | None:
        """Number of ranks, or None when the surroundings do not say."""
        if self.nodes is None or self.processes_per_node is None:
            return None
        return self.nodes * self.processes_per_node

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Contract:
        """Read `RTD_*`.

        Raises:
            ContractError: names every variable with a wrong value.
        """
        problems: list[str] = []

        def number(name: str, low: int) -> int | None:
            text = environ.get(name, "").strip()
            if not text:
                return None
            if not text.isdecimal() or int(text) < low:
                problems.append(f"{name}={text} must be a whole number, {low} or more")
                return None
            return int(text)

        def word(name: str, allowed: tuple[str, ...]) -> str:
            text = environ.get(name, "").strip()
            if text and text not in allowed:
                problems.append(f"{name}={text} must be one of {', '.join(allowed)}")
            return text

        kind = word("RTD_STORAGE_KIND", ("none", "s3", "fsx", "efs", "pvc")) or "none"
        given = environ.get("RTD_RUN_PATH", "").strip()
        run_path = given.rstrip("/")
        if given and (not run_path or run_path.endswith(":")):
            problems.append(f"RTD_RUN_PATH={given} must be a folder of this run alone, below the root")
        if kind == "s3" and run_path and "://" not in run_path:
            problems.append(f"RTD_RUN_PATH={run_path} must be an address such as s3://bucket/runs with storage s3")
        if kind in ("fsx", "efs", "pvc") and not given.startswith("/"):
            problems.append(f"RTD_RUN_PATH={run_path} must be an absolute path with storage {kind}")
        gpus = number("RTD_GPUS_PER_NODE", 0)
        processes = number("RTD_PROCESSES_PER_NODE", 1)
        if gpus and processes and gpus != processes:
            problems.append(f"RTD_PROCESSES_PER_NODE={processes} must equal RTD_GPUS_PER_NODE={gpus}: one rank per GPU")
        transport = None
        if provider := word("RTD_TRANSPORT_PROVIDER", ("efa",)):
            transport = ExpectedTransport(
                provider=provider,
                protocol=word("RTD_TRANSPORT_PROTOCOL", ("SENDRECV", "RDMA")),
                interfaces=number("RTD_TRANSPORT_INTERFACES", 0) or 0,
                gdrdma=word("RTD_TRANSPORT_GDRDMA", ("true", "false")) == "true",
            )
        contract = cls(
            run_name=environ.get("RTD_RUN_NAME", "").strip(),
            run_path=run_path,
            storage_kind=kind,
            nodes=number("RTD_NODES", 1),
            gpus_per_node=gpus,
            processes_per_node=processes,
            resume_from=environ.get("RTD_RESUME_FROM", "").strip().rstrip("/"),
            model=environ.get("RTD_MODEL", "").strip(),
            model_revision=environ.get("RTD_MODEL_REVISION", "").strip(),
            data=environ.get("RTD_DATA", "").strip(),
            data_revision=environ.get("RTD_DATA_REVISION", "").strip(),
            scratch=environ.get("RTD_SCRATCH", "").strip() or own_scratch(environ),
            transport=transport,
        )
        if problems:
            raise ContractError("\n".join(problems))
        return contract
