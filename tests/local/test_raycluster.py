"""The `ray start` command lines and environments of a cluster, before and while it starts."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from generator.local import host
from generator.local.errors import LocalError
from generator.local.manifests import parse
from generator.local.raycluster import RayCluster, not_played, submission_id
from tests.local.manifest import NAME, config_map, manifests, rayjob

Make = Callable[[dict[str, Any]], RayCluster]


@pytest.fixture
def make(needs_ray: None, tmp_path: Path) -> Iterator[Make]:
    """A prepared cluster of a RayJob; nothing is started."""
    clusters: list[RayCluster] = []

    def one(job: dict[str, Any]) -> RayCluster:
        work = tmp_path / str(len(clusters))
        (work / "logs").mkdir(parents=True)
        rendered = parse(manifests(job, config_map()), origin="the test", namespace="ns")
        clusters.append(RayCluster(rendered, work_dir=work))
        clusters[-1].prepare()
        return clusters[-1]

    yield one
    for cluster in clusters:
        assert cluster.close() == set()


def _flags(cluster: RayCluster, index: int) -> dict[str, str]:
    argv = cluster.nodes[index].argv
    assert Path(argv[0]).name == "ray" and argv[1] == "start"
    return dict(item.removeprefix("--").partition("=")[::2] for item in argv[2:])


def test_the_head_and_the_workers_start_as_kuberay_starts_them(make: Make) -> None:
    cluster = make(rayjob())
    head, worker = _flags(cluster, 0), _flags(cluster, 1)
    assert head.keys() - worker.keys() == {
        *("head", "port", "dashboard-host", "dashboard-port", "ray-client-server-port", "num-gpus"),
    }
    assert worker.keys() - head.keys() == {"address"}
    assert (head["num-cpus"], head["num-gpus"], worker["num-cpus"]) == ("0", "0", "2")
    assert head["memory"] == worker["memory"] == str(1024**3)
    assert head["dashboard-host"] == "127.0.0.1"
    assert worker["address"] == f"{head['node-ip-address']}:{head['port']}"
    assert worker["node-ip-address"] == "127.0.0.2"
    assert "block" in head and "block" in worker
    assert cluster.nodes[1].env["KUBERAY_GEN_RAY_START_CMD"].startswith("ray start --address=")


def test_no_two_nodes_of_two_clusters_share_a_port_or_a_folder(make: Make) -> None:
    clusters = [make(rayjob()), make(rayjob())]
    ports: list[str] = []
    for cluster in clusters:
        for index in range(3):
            given = _flags(cluster, index)
            ports += [value for name, value in given.items() if name == "port" or name.endswith("-port")]
            ports += [given["temp-dir"]]
        ports += [cluster.nodes[0].env[name] for name in ("AUTOSCALER_METRIC_PORT", "DASHBOARD_METRIC_PORT")]
    assert len(ports) == len(set(ports)) == 2 * (3 + 3 * 3 + 2)


def test_the_shell_stays_outside(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_ADDRESS", "NCCL_DEBUG", "AWS_SECRET_ACCESS_KEY", "CUDA_VISIBLE_DEVICES", "https_proxy"):
        monkeypatch.setenv(name, "of the shell")
    for node in make(rayjob()).nodes:
        assert "of the shell" not in node.env.values()


def test_only_what_names_a_container_path_is_changed(make: Make) -> None:
    cluster = make(rayjob())
    assert sorted(cluster.nodes[0].mapped) == ["PYTHONPATH", "RTD_RUN_PATH"]
    assert sorted(cluster.nodes[1].mapped) == ["NCCL_DEBUG_FILE", "PYTHONPATH", "RTD_RUN_PATH"]
    for node in cluster.nodes:
        declared = {entry["name"]: entry["value"] for entry in node.pod.container["env"]}
        unchanged = {name: value for name, value in declared.items() if name not in node.mapped}
        assert {name: node.env[name] for name in unchanged} == unchanged


def test_what_the_rayjob_says_wins_over_this_hosts_defaults(make: Make) -> None:
    job = rayjob()
    spec = job["spec"]["rayClusterSpec"]
    del spec["authOptions"]
    spec["headGroupSpec"]["rayStartParams"]["object-store-memory"] = "200000000"
    spec["headGroupSpec"]["template"]["spec"]["containers"][0]["env"].append(
        {"name": "RAY_USAGE_STATS_ENABLED", "value": "1"}
    )
    cluster = make(job)
    assert _flags(cluster, 0)["object-store-memory"] == "200000000"
    assert _flags(cluster, 1)["object-store-memory"] == str(host.OBJECT_STORE_BYTES)
    assert cluster.nodes[0].env["RAY_USAGE_STATS_ENABLED"] == "1"
    assert cluster.token is None
    assert "RAY_AUTH_TOKEN" not in cluster.nodes[0].env


@pytest.mark.ray
def test_a_node_that_cannot_start_is_an_error_with_the_end_of_its_log(make: Make) -> None:
    job = rayjob()
    job["spec"]["rayClusterSpec"]["headGroupSpec"]["rayStartParams"]["no-such-flag"] = "1"
    with pytest.raises(LocalError, match=r"(?s)node head has ended with exit code 2.*[Nn]o such option") as caught:
        (cluster := make(job)).start(limit=60)
    assert caught.value.exit_code == 5
    log = (cluster.log_dir / "head.log").read_text().lower()
    assert log.count("no such option") == 4, "started again three times, and no more"


@pytest.mark.ray
def test_nodes_that_end_while_the_cluster_starts_are_started_again(make: Make) -> None:
    """The head of the first attempt and a worker of the second are killed; a node that ends later is an error."""
    cluster = make(rayjob())
    said: list[str] = []

    def node_pid(name: str, attempt: int) -> int:
        folder = f"--temp-dir={cluster._scratch}/{attempt}".encode()
        while True:
            for pid in cluster.processes.alive():
                with contextlib.suppress(OSError):
                    command = Path(f"/proc/{pid}/cmdline").read_bytes()
                    if b"start" in command.split(b"\0") and folder + name.encode() + b"\0" in command:
                        return pid
            time.sleep(0.05)

    def kill() -> None:
        os.kill(node_pid("0", 0), signal.SIGKILL)
        os.kill(node_pid("2", 1), signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    cluster.start(echo=said.append)
    killer.join(1)
    assert not killer.is_alive()
    assert said[1].startswith("the Ray head has ended while starting")
    assert "3 nodes ready" in said[-1]
    cluster.check()
    os.kill(node_pid("1", 1), signal.SIGKILL)
    with pytest.raises(LocalError, match="node cpu-0 has ended with exit code -9"):
        for _ in range(100):
            cluster.check()
            time.sleep(0.1)


def test_what_is_not_played_is_listed() -> None:
    job = rayjob()
    job["spec"] |= {"submissionMode": "K8sJobMode", "backoffLimit": 2}
    spec = job["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["template"]["spec"]
    spec |= {"affinity": {"x": 1}, "initContainers": [{"name": "a"}]}
    spec["containers"].append({"name": "sidecar"})
    rendered = parse(manifests(job, config_map()), origin="the test", namespace="ns")
    assert not_played(rendered) == [
        "submissionMode K8sJobMode (the job is submitted over HTTP)",
        "backoffLimit",
        "affinity",
        "initContainers",
        "image",
        "containers other than the Ray container",
    ]


def test_the_submission_id_is_that_of_kuberay() -> None:
    job = rayjob()
    rendered = parse(manifests(job, config_map()), origin="the test", namespace="ns")
    first, second = submission_id(rendered), submission_id(rendered)
    assert first.startswith(f"{NAME}-") and len(first) == len(NAME) + 6
    assert first != second
    job["spec"]["jobId"] = "mine"
    assert submission_id(parse(manifests(job, config_map()), origin="the test", namespace="ns")) == "mine"


def test_ports_that_are_taken_are_passed_over() -> None:
    first = host.Ports(7).take()
    with socket.socket() as taken:
        taken.bind(("127.0.0.3", first))
        assert host.Ports(7).take() == first + 1
    assert host.Ports(8).take() != host.Ports(7).take()


def test_two_clusters_never_share_a_block_of_ports() -> None:
    one, other = host.Ports(7), host.Ports(7)
    taken = [{ports.take() for _ in range(40)} for ports in (one, other)]
    assert not taken[0] & taken[1]


def test_a_missing_loopback_address_is_named_with_the_remedy() -> None:
    with pytest.raises(LocalError, match=r"this machine has no 198\.51\.100\.77; add: sudo "):
        host.require_addresses(["127.0.0.1", "198.51.100.77"])


def test_object_stores_move_when_shared_memory_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_SHARED_MEMORY", tmp_path)
    assert host.object_store_folder(1, tmp_path) is None
    assert host.object_store_folder(10**9, tmp_path) == tmp_path, "no machine has 100 PB of it"
    monkeypatch.setattr(host, "_SHARED_MEMORY", tmp_path / "absent")
    assert host.object_store_folder(3, tmp_path) is None
