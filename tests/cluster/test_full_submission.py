"""Ways to submit a job, and code of one's own, each to the end of a training."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cluster.bench import services
from tests.cluster.release import TRAINED_S, Space

pytestmark = [pytest.mark.cluster, pytest.mark.full]

OWN_MODULE = """
import pathlib
import sys

from training import train

if __name__ == "__main__":
    code = train.main(sys.argv[1:])
    pathlib.Path("/mnt/ray-train/said-by-own-code").write_text(f"{__file__} {code}")
    sys.exit(code)
"""


def test_a_pod_of_its_own_submits(space: Space) -> None:
    """K8sJobMode. What all Ray pods have and a submitter cannot use stays away from it."""
    common = {
        "command": ["echo before"],
        "livenessProbe": {"exec": {"command": ["true"]}},
        "volumes": [{"name": "more", "emptyDir": {}}],
        "volumeMounts": [{"name": "more", "mountPath": "/more"}],
    }
    space.install("demo", {"common": common, "job": {"submissionMode": "K8sJobMode"}})
    job = space.job()["metadata"]["name"]
    space.wait_for_state(job, "RUNNING", timeout_s=TRAINED_S)
    (submitter,) = space.pods(job, "submitter")
    assert "volumes" not in submitter["spec"]
    space.wait_for_state(job, "SUCCEEDED", timeout_s=TRAINED_S)
    assert space.checkpoints(job)


def test_a_container_beside_the_head_submits(space: Space) -> None:
    """SidecarMode."""
    space.install("demo", {"job": {"submissionMode": "SidecarMode"}})
    job = space.job()["metadata"]["name"]
    space.wait_for_state(job, "SUCCEEDED", timeout_s=TRAINED_S)
    assert space.checkpoints(job)


def test_code_comes_from_a_commit(space: Space, tmp_path: Path) -> None:
    """Beside the bundled package, and with the way out of the pods closed but for what the values need."""
    server = services.git(space.bench)
    work = tmp_path / "work"
    (work / "src").mkdir(parents=True)
    (work / "src" / "own.py").write_text(OWN_MODULE, encoding="utf-8")
    identity = ("-c", "user.name=bench", "-c", "user.email=bench@example.com")
    for words in (("init", "-q", "-b", "main"), ("add", "."), (*identity, "commit", "-q", "-m", "first")):
        subprocess.run(["git", *words], cwd=work, check=True, timeout=30)
    bare = server.folder / f"{space.name}.git"
    subprocess.run(["git", "clone", "-q", "--bare", work, bare], check=True, timeout=30)
    # A server need not give out every commit by its name; large ones do.
    subprocess.run(["git", "-C", bare, "config", "uploadpack.allowAnySHA1InWant", "true"], check=True, timeout=30)
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=work, check=True, timeout=30, capture_output=True, text=True
    )
    source = {"url": f"{server.url}/{bare.name}", "revision": head.stdout.strip(), "path": "src"}
    space.install(
        "demo",
        {
            "networkPolicy": {"limitEgress": True},
            "training": {"code": {"git": source, "module": "own"}},
        },
    )
    job = space.job()["metadata"]["name"]
    space.wait_for_state(job, "SUCCEEDED", timeout_s=TRAINED_S)
    said = (space.folder / "said-by-own-code").read_text(encoding="utf-8")
    assert said == "/opt/ray-train-code/own.py 0"
