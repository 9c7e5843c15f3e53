"""What docs/upgrade.md says of upgrades and rollbacks. No pod starts here: this is about the objects."""

from __future__ import annotations

import pytest

from tests.cluster.release import Object, Space

pytestmark = [pytest.mark.cluster, pytest.mark.full]

UNSCHEDULABLE = {"head": {"resources": {"cpu": "64", "memory": "4Gi"}}}
AGAIN = {**UNSCHEDULABLE, "job": {"runId": "again"}}
KEPT = {**UNSCHEDULABLE, "job": {"onChange": "keep"}}
KEPT_AGAIN = {**UNSCHEDULABLE, "job": {"onChange": "keep", "runId": "again"}}
GONE_S = 60
SETTLED_S = 5


def seen_by_the_operator(space: Space) -> Object:
    """The only RayJob, once the operator has written to it."""
    space.bench.wait_for("the operator's first update", lambda: space.job()["metadata"].get("finalizers"), timeout_s=30)
    return space.job()


def unchanged(space: Space, before: Object) -> bool:
    after = space.job()["metadata"]
    return all(after[key] == before["metadata"][key] for key in ("name", "uid", "generation"))


def test_helm_4_takes_over_a_release_of_helm_3(space: Space) -> None:
    """First as Helm 3 left it, which is Helm 4's default then, and then with server-side apply."""
    space.install("demo", UNSCHEDULABLE, helm="helm3")
    first = seen_by_the_operator(space)
    space.install("demo", UNSCHEDULABLE)
    space.settle(SETTLED_S)
    assert unchanged(space, first)
    space.install("demo", UNSCHEDULABLE, words=("--server-side=true",))
    space.settle(SETTLED_S)
    assert unchanged(space, first)
    space.install("demo", AGAIN)
    space.only_job_after(first["metadata"]["name"], timeout_s=GONE_S)
    space.uninstall("demo")
    space.wait_until_nothing_is_left(GONE_S)


@pytest.mark.parametrize("helm", ["helm", "helm3"])
def test_a_rollback_brings_the_earlier_job_back(space: Space, helm: str) -> None:
    """By the same name, so it goes on from the checkpoint of that name; and a rollback of a label starts nothing."""
    space.install("demo", UNSCHEDULABLE, helm=helm)
    first = seen_by_the_operator(space)["metadata"]["name"]
    space.install("demo", AGAIN, helm=helm)
    second = space.only_job_after(first, timeout_s=GONE_S)
    space.bench.helm("rollback", "demo", "1", namespace=space.name, program=helm)
    assert space.only_job_after(second, timeout_s=GONE_S) == first
    back = seen_by_the_operator(space)
    space.install("demo", {**UNSCHEDULABLE, "serviceAccount": {"annotations": {"a": "1"}}}, helm=helm)
    space.bench.helm("rollback", "demo", namespace=space.name, program=helm)
    space.settle(SETTLED_S)
    assert unchanged(space, back)
    space.bench.helm("uninstall", "demo", namespace=space.name, program=helm)
    space.wait_until_nothing_is_left(GONE_S)


def test_kept_jobs_outlive_changes_and_the_release(space: Space) -> None:
    space.install("demo", KEPT)
    first = seen_by_the_operator(space)["metadata"]["name"]
    space.install("demo", KEPT_AGAIN)
    jobs = set(space.names("rayjobs"))
    assert len(jobs) == 2
    space.uninstall("demo")
    space.settle(SETTLED_S)
    assert set(space.names("rayjobs")) == jobs
    assert set(space.names("networkpolicies")) == jobs, "each keeps its own"
    assert "demo" in space.names("serviceaccounts")
    space.install("demo", KEPT_AGAIN)
    assert set(space.names("rayjobs")) == jobs, "installed again, the release takes back what it had kept"
    space.install("demo", AGAIN)
    assert first in space.names("rayjobs"), "replace ends only the job of its own release's last change"
    space.uninstall("demo")
    space.kubectl("delete", "rayjobs,networkpolicies", "--all")
    space.bench.wait_for("the jobs to be gone", lambda: not space.names("rayjobs"), timeout_s=GONE_S)


def test_a_pinned_job_is_changed_in_place(space: Space) -> None:
    """So its name says nothing of what it would run after a retry; deleting it is the way to run it anew."""
    pinned = {**UNSCHEDULABLE, "job": {"name": "mine"}}
    space.install("demo", pinned)
    first = seen_by_the_operator(space)
    space.install("demo", {**pinned, "training": {"args": {"steps": 7}}})
    after = space.job()
    assert after["metadata"]["name"] == "mine"
    assert after["metadata"]["uid"] == first["metadata"]["uid"]
    assert "--steps=7" in after["spec"]["entrypoint"]
    space.kubectl("delete", "rayjob", "mine")
    space.uninstall("demo")
    space.wait_until_nothing_is_left(GONE_S)
