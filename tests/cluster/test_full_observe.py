"""How a release is looked at: `helm test`, and the commands that its notes print, as a person would paste them."""

from __future__ import annotations

import os

import pytest

from tests.chart.test_notes import commands
from tests.cluster.bench.layout import BenchError
from tests.cluster.bench.processes import run
from tests.cluster.release import TRAINED_S, Space
from tests.cluster.tools import build

pytestmark = [pytest.mark.cluster, pytest.mark.full]

KEPT = {"job": {"ttlSecondsAfterFinished": 300}}


def helm_test(space: Space, release: str = "demo") -> str:
    """What `helm test` prints; nothing of it is left."""
    said = space.bench.helm("test", release, "--logs", namespace=space.name, timeout_s=330)
    assert not _hooks(space)
    return said


def _hooks(space: Space) -> set[str]:
    return {item for item in space.left() if item.endswith(("-test", ".test"))}


def paste(space: Space, line: str, *, timeout_s: float = 60) -> str:
    """What a line of the notes prints, in a shell that has kubectl and Helm."""
    programs = [str(build.program(name).parent) for name in ("kubectl", "helm")]
    path = ":".join([*programs, os.environ["PATH"]])
    administrator = space.bench.tool("kubectl")[:-1]
    return run(*administrator, f"PATH={path}", "bash", "-uec", line, timeout_s=timeout_s)


def paste_notes(space: Space) -> dict[str, str]:
    """What each command of the notes prints, but for those that remove something."""
    found = commands(space.bench.helm("get", "notes", "demo", namespace=space.name))
    printed = {}
    for line in found:
        if " delete " in line:
            continue
        if " port-forward " in line:
            # It runs until it is ended.
            printed[line] = paste(space, f"timeout 10 {line} || test $? = 124")
            assert "Forwarding from 127.0.0.1:8265" in printed[line]
        else:
            printed[line] = paste(space, line, timeout_s=TRAINED_S)
        assert printed[line].strip(), line
    assert len(printed) >= 7
    return printed


def test_a_job_passes_while_it_runs_and_when_it_has_succeeded(space: Space) -> None:
    space.install("demo", {**KEPT, "training": {"args": {"steps": 1_000_000_000}}})
    job = space.job()["metadata"]["name"]
    said = helm_test(space)  # which waits until it runs
    assert f"passed: RayJob {job}: RUNNING; 3 of 3 pods ready" in said
    space.install("demo", KEPT)
    new = space.only_job_after(job, timeout_s=90)
    space.wait_for_state(new, "SUCCEEDED", timeout_s=TRAINED_S)
    assert f"passed: RayJob {new}: the training has SUCCEEDED" in helm_test(space)
    printed = paste_notes(space)
    (log,) = [text for line, text in printed.items() if "ray job logs" in line]
    assert "finished 30 steps" in log
    (state,) = [text for line, text in printed.items() if "{.status.reason}" in line]
    assert state.startswith("Complete, job SUCCEEDED")
    space.uninstall("demo")
    space.wait_until_nothing_is_left(90)


def test_a_job_that_cannot_start_fails_with_the_reason_and_a_remedy(space: Space) -> None:
    space.install("demo", {"workerGroups": {"gpu": {"gpus": 4, "efa": 64}}, "tests": {"timeoutSeconds": 30}})
    with pytest.raises(BenchError) as raised:
        helm_test(space)
    said = str(raised.value)
    assert "not up after 30 s: Initializing" in said
    assert "Insufficient vpc.amazonaws.com/efa" in said
    assert "do: see the nodes' instance type, and the EFA device plugin" in said
    assert not _hooks(space)


def test_a_cluster_passes_with_its_workers_and_its_token(space: Space) -> None:
    """Also where the NetworkPolicy closes the way out, to the API server too."""
    space.install("demo", {"mode": "cluster", "networkPolicy": {"limitEgress": True}})
    wanted = "passed: RayCluster demo: the cluster is ready, with 2 of 2 workers; the dashboard asks for the token"
    assert wanted in helm_test(space)
    printed = paste_notes(space)
    (submitted,) = [text for line, text in printed.items() if "ray job submit" in line]
    assert "finished 30 steps" in submitted

    space.install("evening", {"mode": "jobOnCluster", "job": {"clusterName": "demo"}})
    assert "passed: RayJob evening-" in helm_test(space, "evening")
    space.uninstall("evening")


def test_helm_3_runs_it_too(space: Space) -> None:
    space.install("demo", helm="helm3")
    space.bench.helm("test", "demo", namespace=space.name, program="helm3", timeout_s=330)
    assert not _hooks(space)
