"""Contract variables and transport: exactly those of the design, on exactly those pods."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chart.cases import environments, group, job, job_name

STRICT = {
    "FI_PROVIDER": "efa",
    "NCCL_NET_PLUGIN": "ofi",
    "NCCL_NET": "Libfabric",
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_FILE": "/var/tmp/ray-train/nccl.%h.%p.log",  # noqa: S108
}


def transport(env: dict[str, Any]) -> dict[str, Any]:
    """The part of an environment that chooses and checks the network."""
    return {name: value for name, value in env.items() if name.startswith(("NCCL_", "FI_", "OFI_", "RTD_TRANSPORT_"))}


@pytest.mark.parametrize("replicas", [1, 2, 3])
@pytest.mark.parametrize("efa", [0, 1, 32])
@pytest.mark.parametrize("expected", [{}, {"protocol": "SENDRECV"}, {"protocol": "RDMA", "gdrdma": True}])
def test_matrix(replicas: int, efa: int, expected: dict[str, Any]) -> None:
    head, worker = environments(job(replicas=replicas, efa=efa, transport=expected))
    wanted: dict[str, str] = {}
    if replicas > 1:
        wanted = {"NCCL_SOCKET_IFNAME": "eth0"}
        if efa:
            wanted |= STRICT | {
                "RTD_TRANSPORT_PROVIDER": "efa",
                "RTD_TRANSPORT_INTERFACES": str(efa),
                "RTD_TRANSPORT_GDRDMA": "true" if expected.get("gdrdma") else "false",
            }
            if "protocol" in expected:
                wanted["RTD_TRANSPORT_PROTOCOL"] = expected["protocol"]
    assert transport(worker) == wanted
    assert transport(head) == {}


def test_nodes_of_all_groups_count() -> None:
    values = job()
    values["workerGroups"] = {"a": group(replicas=1), "b": group(replicas=1, transport={"protocol": "RDMA"})}
    head, first, second = environments(values)
    assert {env["RTD_NODES"] for env in (head, first, second)} == {"2"}
    assert first["NCCL_NET"] == second["NCCL_NET"] == "Libfabric"
    assert (first.get("RTD_TRANSPORT_PROTOCOL"), second.get("RTD_TRANSPORT_PROTOCOL")) == (None, "RDMA")


def test_contract_with_gpus() -> None:
    values = job("job.resumeFrom", "demo-0a1b2c3d")
    for env in environments(values):
        contract = {name: value for name, value in env.items() if name.startswith("RTD_") and "TRANSPORT" not in name}
        assert contract == {
            "RTD_RUN_NAME": job_name(values),
            "RTD_RUN_PATH": f"/mnt/ray-train/cluster/ray-train/{job_name(values)}",
            "RTD_STORAGE_KIND": "pvc",
            "RTD_NODES": "2",
            "RTD_GPUS_PER_NODE": "4",
            "RTD_PROCESSES_PER_NODE": "4",
            "RTD_SCRATCH": "/var/tmp/ray-train",
            "RTD_RESUME_FROM": "demo-0a1b2c3d",
        }
        assert env["PYTHONPATH"] == "/opt/ray-train"


def test_contract_without_gpus() -> None:
    for env in environments(job(gpus=0, efa=0, processesPerNode=2)):
        assert (env["RTD_NODES"], env["RTD_GPUS_PER_NODE"], env["RTD_PROCESSES_PER_NODE"]) == ("2", "0", "2")
        assert env["NVIDIA_VISIBLE_DEVICES"] == "void"
        assert "RTD_RESUME_FROM" not in env


def test_the_training_reads_what_the_chart_sets() -> None:
    """The other side of the contract, with its own checks."""
    from training.contract import Contract

    values = job(transport={"protocol": "SENDRECV", "gdrdma": False})
    values["training"] |= {
        "model": {"uri": "Qwen/Qwen2.5-1.5B", "revision": "0123456789abcdef0123456789abcdef01234567"},
        "data": {"uri": "s3://bucket/corpus"},
    }
    head, worker = (Contract.from_env(env) for env in environments(values))
    assert (worker.nodes, worker.processes_per_node, worker.world_size, worker.storage_kind) == (2, 4, 8, "pvc")
    assert worker.run_name == job_name(values)
    assert worker.transport is not None
    assert (worker.transport.provider, worker.transport.protocol, worker.transport.interfaces) == ("efa", "SENDRECV", 1)
    assert head.transport is None
    assert (head.model, head.model_revision) == ("Qwen/Qwen2.5-1.5B", "0123456789abcdef0123456789abcdef01234567")
    assert (head.data, head.data_revision, head.scratch) == ("s3://bucket/corpus", "", "/var/tmp/ray-train")


def test_gpus_are_hidden_from_the_head_only() -> None:
    head, worker = environments(job())
    assert head["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert "NVIDIA_VISIBLE_DEVICES" not in worker


@pytest.mark.parametrize(("grace", "stop", "drain"), [(40, "30", "30"), (120, "110", "90"), (3600, "3590", "2700")])
def test_ray_waits_fit_the_grace_period(grace: int, stop: str, drain: str) -> None:
    head, worker = environments(job("common.terminationGracePeriodSeconds", grace))
    assert head["RAY_JOB_STOP_WAIT_TIME_S"] == stop
    assert "RAY_JOB_STOP_WAIT_TIME_S" not in worker
    assert head["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"] == worker["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"] == drain
