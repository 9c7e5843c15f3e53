"""Endings of a release that the smoke leaves out."""

from __future__ import annotations

import pytest

from tests.cluster.release import TRAINED_S, Space

pytestmark = [pytest.mark.cluster, pytest.mark.full]


def test_a_finished_release_goes_and_its_checkpoints_stay(space: Space) -> None:
    space.install("demo")
    job = space.job()["metadata"]["name"]
    space.wait_for_state(job, "SUCCEEDED", timeout_s=TRAINED_S)
    kept = space.checkpoints(job)
    space.uninstall("demo")
    space.wait_until_nothing_is_left(90)
    assert space.checkpoints(job) == kept != []


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
    space.install("demo", {"mode": "cluster"})
    assert space.names("rayclusters") == [cluster]
    space.uninstall("demo")
    space.wait_until_nothing_is_left(90)


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
