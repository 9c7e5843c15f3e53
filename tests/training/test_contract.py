"""The environment variables between chart and training."""

from __future__ import annotations

import pickle

import pytest

from training.contract import Contract, ContractError, Exit, ExpectedTransport, RunEndError

CLUSTER = {
    "RTD_RUN_NAME": "demo-1a2b3c4d",
    "RTD_RUN_PATH": "/mnt/ray-train/demo/ray-train/demo-1a2b3c4d",
    "RTD_STORAGE_KIND": "fsx",
    "RTD_NODES": "2",
    "RTD_GPUS_PER_NODE": "4",
    "RTD_PROCESSES_PER_NODE": "4",
    "RTD_RESUME_FROM": "",
    "RTD_MODEL": "owner/name",
    "RTD_MODEL_REVISION": "0123456789abcdef0123456789abcdef01234567",
    "RTD_DATA": "s3://bucket/corpus",
    "RTD_TRANSPORT_PROVIDER": "efa",
    "RTD_TRANSPORT_PROTOCOL": "SENDRECV",
    "RTD_TRANSPORT_INTERFACES": "1",
    "RTD_TRANSPORT_GDRDMA": "false",
}


def test_what_the_chart_sets_is_read() -> None:
    contract = Contract.from_env(CLUSTER)
    assert contract.world_size == 8
    assert contract.run_name == "demo-1a2b3c4d"
    assert (contract.model, contract.model_revision[:4]) == ("owner/name", "0123")
    assert (contract.data, contract.data_revision) == ("s3://bucket/corpus", "")
    assert contract.transport == ExpectedTransport("efa", "SENDRECV", 1, gdrdma=False)


def test_without_variables_nothing_is_promised() -> None:
    contract = Contract.from_env({})
    assert contract.world_size is None
    assert contract.transport is None
    assert (contract.run_path, contract.storage_kind, contract.gpus_per_node) == ("", "none", None)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("RTD_NODES", "two", "RTD_NODES=two must be a whole number, 1 or more"),
        ("RTD_NODES", "0", "RTD_NODES=0 must be a whole number, 1 or more"),
        ("RTD_STORAGE_KIND", "nfs", "RTD_STORAGE_KIND=nfs must be one of none, s3, fsx, efs, pvc"),
        ("RTD_RUN_PATH", "runs/a", "RTD_RUN_PATH=runs/a must be an absolute path with storage fsx"),
        ("RTD_PROCESSES_PER_NODE", "3", "RTD_PROCESSES_PER_NODE=3 must equal RTD_GPUS_PER_NODE=4: one rank per GPU"),
        ("RTD_TRANSPORT_PROVIDER", "tcp", "RTD_TRANSPORT_PROVIDER=tcp must be one of efa"),
        ("RTD_TRANSPORT_GDRDMA", "yes", "RTD_TRANSPORT_GDRDMA=yes must be one of true, false"),
    ],
)
def test_wrong_values_are_refused_by_name(name: str, value: str, message: str) -> None:
    with pytest.raises(ContractError, match=f"^{message}$"):
        Contract.from_env({**CLUSTER, name: value})


def test_s3_needs_an_address() -> None:
    s3 = {**CLUSTER, "RTD_STORAGE_KIND": "s3"}
    with pytest.raises(ContractError, match="must be an address"):
        Contract.from_env(s3)
    assert Contract.from_env({**s3, "RTD_RUN_PATH": "s3://bucket/runs/a"}).run_path == "s3://bucket/runs/a"


def test_endings_travel_between_ranks_whole() -> None:
    ending = RunEndError(Exit.STORAGE, "no such run", lasting=False)
    back = pickle.loads(pickle.dumps(ending))  # noqa: S301 - our own bytes
    assert (back.code, back.message, back.lasting) == (Exit.STORAGE, "no such run", False)
    assert RunEndError(Exit.LAYOUT, "uneven").lasting
    assert not RunEndError(Exit.FAILED, "not finite").lasting


@pytest.mark.parametrize("path", ["/", "//", "s3://"])
def test_the_root_is_no_run_path(path: str) -> None:
    with pytest.raises(ContractError, match=f"RTD_RUN_PATH={path} must be a folder of this run alone"):
        Contract.from_env({"RTD_RUN_PATH": path})
