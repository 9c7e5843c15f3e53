"""Endings of a release that the smoke leaves out."""

from __future__ import annotations

import json

import pytest

from tests.cluster.release import TRAINED_S, Space

pytestmark = [pytest.mark.cluster, pytest.mark.full]


def test_a_finished_release_goes_and_its_checkpoints_stay(space: Space) -> None:
    space.install("demo")
    job = space.job()["metadata"]["name"]
    space.wait_for_state(job, "SUCCEEDED", timeout_s=TRAINED_S)
    kept = space.checkpoints(job)
    _has_the_logs_of(space, job, ranks=8)
    space.uninstall("demo")
    space.wait_until_nothing_is_left(90)
    assert space.checkpoints(job) == kept != []


def _has_the_logs_of(space: Space, job: str, *, ranks: int) -> None:
    """On the storage, where they outlive the cluster."""
    (attempt,) = (space.run_folder(job) / "logs").iterdir()
    index = json.loads((attempt / "index.json").read_text(encoding="utf-8"))
    assert index["complete"] is True
    assert len(index["ranks"]) == ranks
    for rank in index["ranks"]:
        assert (attempt / rank["file"]).stat().st_size > 0
    assert "step" in (attempt / "driver.log").read_text(encoding="utf-8")


def test_a_release_in_mode_cluster_comes_and_goes(space: Space) -> None:
    """A RayCluster that stays: ready, with the code in place and the token asked for; gone with the release."""
    space.install("demo", {"mode": "cluster"})
    (cluster,) = space.names("rayclusters")

    def ready() -> bool:
        found = space.bench.get("rayclusters", cluster, space.name)
        return bool(found and found.get("status", {}).get("state") == "ready")

    space.bench.wait_for("the RayCluster to be ready", ready, timeout_s=TRAINED_S, every_s=2)
    (head,) = [pod["metadata"]["name"] for pod in space.objects("pods", "ray-train-dlc/role=head")]
    assert "usage:" in space.exec(head, "python", "-m", "training.train", "--help")
    status = "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8265/api/jobs/')"
    assert "401" in space.exec(head, "bash", "-c", f'python -c "{status}" 2>&1 || true')
    pods = {pod["metadata"]["uid"] for pod in space.objects("pods")}
    space.install("demo", {"mode": "cluster", "commonLabels": {"cost-centre": "research"}})
    space.settle(10)
    assert {pod["metadata"]["uid"] for pod in space.objects("pods")} == pods, "a label restarts nothing"
    found = space.bench.get("rayclusters", cluster, space.name)
    assert found is not None
    assert found["metadata"]["labels"]["cost-centre"] == "research"
    _runs_a_job_on(space, cluster)
    space.uninstall("demo")
    space.wait_until_nothing_is_left(90)


def _runs_a_job_on(space: Space, cluster: str) -> None:
    """A release in mode jobOnCluster: trains on the cluster with its own record, and leaves it as it was."""
    pods = {pod["metadata"]["uid"] for pod in space.objects("pods")}
    values = {"mode": "jobOnCluster", "job": {"clusterName": cluster}}
    space.install("evening", values)
    job = space.job()["metadata"]["name"]
    space.wait_for_state(job, "SUCCEEDED", timeout_s=TRAINED_S)
    record = space.record(job)
    assert record is not None
    assert record["run"]["state"] == "finished"
    assert space.checkpoints(job)
    space.install("evening", values)
    assert space.names("rayjobs") == [job]
    space.uninstall("evening")
    space.bench.wait_for("the job to be gone", lambda: not space.names("rayjobs"), timeout_s=60)
    assert {pod["metadata"]["uid"] for pod in space.objects("pods")} == pods


def test_a_job_runs_where_pod_security_is_restricted(space: Space) -> None:
    """As user 1000, in a namespace that admits nothing else. The AWS image itself is made for root: not proven."""
    enforced = "pod-security.kubernetes.io/enforce=restricted"
    space.bench.kubectl("label", "namespace", space.name, enforced)
    space.install("demo", {"podSecurity": "restricted"})
    job = space.job()["metadata"]["name"]
    space.wait_for_state(job, "RUNNING", timeout_s=TRAINED_S)
    (head,) = [pod["metadata"]["name"] for pod in space.pods(job, "head")]
    assert space.exec(head, "id", "-u").strip() == "1000"
    space.wait_for_state(job, "SUCCEEDED", timeout_s=TRAINED_S)
    assert space.checkpoints(job)


def test_helm_3_installs_upgrades_and_removes_it_too(space: Space) -> None:
    """Its upgrades are three-way merges, not server-side applies: the operator's changes must not come in between."""
    unschedulable_here = {"head": {"resources": {"cpu": "64"}}}  # no pod starts: this is about the objects
    space.install("demo", unschedulable_here, helm="helm3")
    first = space.job()
    space.bench.wait_for("the operator's first update", lambda: space.job()["metadata"].get("finalizers"), timeout_s=30)
    space.install("demo", unschedulable_here, helm="helm3")
    space.settle(5)
    assert space.job()["metadata"]["uid"] == first["metadata"]["uid"]
    assert space.job()["metadata"]["generation"] == first["metadata"]["generation"]
    space.install("demo", {**unschedulable_here, "job": {"runId": "again"}}, helm="helm3")
    assert space.only_job_after(first["metadata"]["name"], timeout_s=60)
    space.bench.helm("uninstall", "demo", namespace=space.name, program="helm3")
    space.wait_until_nothing_is_left(60)
