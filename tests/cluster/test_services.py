"""The servers beside the cluster: each is used by a real client, from where its users will be."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cluster.bench import services
from tests.cluster.bench.bench import Bench
from tests.cluster.bench.processes import run
from tests.cluster.release import Object, Space
from tests.helm import CHART

pytestmark = [pytest.mark.cluster, pytest.mark.full]

WRITE_AND_READ = """
import sys
from pyarrow import fs
endpoint, key, secret, region = sys.argv[1:]
s3 = fs.S3FileSystem(access_key=key, secret_key=secret, region=region, endpoint_override=endpoint, scheme="http")
large = b"checkpoint " * 2_000_000  # several parts
with s3.open_output_stream("checkpoints/run/step_1/shard_0") as out:
    out.write(large)
with s3.open_input_stream("checkpoints/run/step_1/shard_0") as file:
    assert file.read() == large
print(sorted(info.path for info in s3.get_file_info(fs.FileSelector("checkpoints", recursive=True))))
"""


def test_pods_write_and_read_s3_as_the_training_does(space: Space) -> None:
    server = services.s3(space.bench)
    (server.folder / "checkpoints").mkdir()
    image = space.image()
    account = [services.S3_KEY, services.S3_SECRET, services.S3_REGION]
    command = ["python", "-c", WRITE_AND_READ, server.url.removeprefix("http://"), *account]
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "writer"},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "containers": [{"name": "python", "image": image, "command": command}],
        },
    }
    space.bench.apply(pod, namespace=space.name)
    finished = ("--for=jsonpath={.status.containerStatuses[0].state.terminated}", "--timeout=60s")
    space.kubectl("wait", "pod/writer", *finished, timeout_s=70)
    assert "checkpoints/run/step_1/shard_0" in space.kubectl("logs", "writer")
    assert (server.folder / "checkpoints/run/step_1/shard_0").stat().st_size == 22_000_000
    assert services.s3(space.bench) == server, "the second caller gets the one that runs"


def test_a_commit_can_be_cloned_over_http(bench: Bench, tmp_path: Path) -> None:
    server = services.git(bench)
    work = tmp_path / "work"
    work.mkdir()
    (work / "environment.yaml").write_text("name: demo\n", encoding="utf-8")
    identity = ("-c", "user.name=bench", "-c", "user.email=bench@example.com")
    for words in (("init", "-q", "-b", "main"), ("add", "."), (*identity, "commit", "-q", "-m", "first")):
        subprocess.run(["git", *words], cwd=work, check=True, timeout=30)
    subprocess.run(["git", "clone", "-q", "--bare", work, server.folder / "ops.git"], check=True, timeout=30)
    clone = tmp_path / "clone"
    run(*bench.inside("git", "clone", "-q", f"{server.url}/ops.git", str(clone)))
    assert (clone / "environment.yaml").read_text(encoding="utf-8") == "name: demo\n"


def test_helm_pushes_the_chart_and_renders_it_from_the_registry(bench: Bench, tmp_path: Path) -> None:
    server = services.registry(bench)
    bench.helm("package", str(CHART), f"--destination={tmp_path}")
    (package,) = tmp_path.glob("*.tgz")
    bench.helm("push", str(package), f"{server.url}/charts", "--plain-http")
    rendered = bench.helm("template", "demo", f"{server.url}/charts/ray-train-dlc", "--plain-http")
    assert "kind: RayJob" in rendered
