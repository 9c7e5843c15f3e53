"""`make demo`, as a user sees it: environments/local through the chart, on real Ray, with the real training.

One undisturbed run serves several tests; it takes about a minute on 2 cores.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import helm

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 600  # a hang ends here; the run itself must take under 180 s (bench/), which a loaded machine may miss

pytestmark = pytest.mark.ray


@dataclass(frozen=True)
class Run:
    """One `python -m generator local local`."""

    code: int
    output: str
    work_dir: Path

    @property
    def manifests(self) -> list[dict[str, Any]]:
        return list(yaml.safe_load_all((self.work_dir / "manifests.yaml").read_text(encoding="utf-8")))

    @property
    def rayjob(self) -> dict[str, Any]:
        (job,) = [item for item in self.manifests if item and item["kind"] == "RayJob"]
        return job

    @property
    def run_path(self) -> Path:
        name = self.rayjob["metadata"]["name"]
        return self.work_dir / "storage" / "checkpoints" / "local" / "ray-train" / name


def local(work_dir: Path, *flags: str) -> Run:
    command = [sys.executable, "-m", "generator", "local", "local", "--work-dir", str(work_dir), *flags]
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S, check=False
    )
    return Run(done.returncode, done.stdout, work_dir)


@pytest.fixture(scope="module")
def needs() -> None:
    helm.program()
    if importlib.util.find_spec("ray") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("Ray is not installed: pip install -e '.[train]'")
        pytest.skip("Ray is not installed")


@pytest.fixture(scope="module")
def demo(needs: None, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return local(tmp_path_factory.mktemp("demo") / "local", "--fresh")


def test_the_job_succeeds_and_says_where_its_results_are(demo: Run) -> None:
    assert demo.code == 0, demo.output
    assert "job SUCCEEDED" in demo.output
    for name in ("run.json", "loss.svg"):
        assert (demo.run_path / name).is_file()
        assert f"{demo.rayjob['metadata']['name']}/{name}" in demo.output


def test_progress_is_printed_with_step_loss_and_tokens_per_second(demo: Run) -> None:
    lines = [line for line in demo.output.splitlines() if line.strip().startswith("step ")]
    held_out = [line for line in lines if "held-out loss" in line]
    assert len(held_out) == 1, demo.output
    lines.remove(held_out[0])
    assert len(lines) >= 4, demo.output
    assert all("loss" in line and "tokens/s" in line for line in lines)


def test_what_ran_is_what_the_chart_rendered(demo: Run) -> None:
    files = [ROOT / "environments/local/generated/values.yaml", ROOT / "environments/local/version.yaml"]
    rendered = helm.one("RayJob", files, name="local", namespace="ray-train")
    assert demo.rayjob == rendered
    assert rendered["spec"]["entrypoint"] in demo.output
    assert json.loads((demo.run_path / "run.json").read_text())["configuration"]["preset"] == "tiny"


def test_the_record_holds_steps_configuration_versions_and_topology(demo: Run) -> None:
    record = json.loads((demo.run_path / "run.json").read_text(encoding="utf-8"))
    steps = record["steps"]
    assert [s["step"] for s in steps] == list(range(1, 41))
    assert all(s["seconds"] > 0 and s["loss"] > 0 for s in steps)
    assert steps[-1]["loss"] < 0.6 * steps[0]["loss"], "the loss does not fall"
    assert record["run"]["state"] == "finished"
    assert record["versions"]["ray"] == "2.58.0"
    topology = record["topology"]
    assert (topology["worldSize"], topology["nodes"], topology["processesPerNode"]) == (4, 2, 2)
    assert {rank["nodeIp"] for rank in topology["ranks"]} == {"127.0.0.2", "127.0.0.3"}
    assert [(rank["nodeRank"], rank["localRank"]) for rank in topology["ranks"]] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_the_loss_curve_is_a_drawing(demo: Run) -> None:
    root = ET.fromstring((demo.run_path / "loss.svg").read_text(encoding="utf-8"))  # noqa: S314  (our own file)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert any(element.tag.endswith(("path", "polyline")) for element in root.iter())


def test_no_process_is_left(demo: Run) -> None:
    mark = str(demo.work_dir).encode()
    left = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark in (entry / "cmdline").read_bytes():
                left.append(entry.name)
        except OSError:
            continue
    assert left == []


def test_a_finished_run_ends_at_once(demo: Run, tmp_path: Path) -> None:
    shutil.copytree(demo.work_dir, tmp_path / "again", symlinks=True)
    again = local(tmp_path / "again")
    assert again.code == 0, again.output
    assert "finished" in again.output
    assert "step 1/" not in again.output


def test_without_train_py_in_the_configmap_the_job_fails(demo: Run, tmp_path: Path) -> None:
    manifests = demo.manifests
    (code,) = [item for item in manifests if item and item["kind"] == "ConfigMap" and "train.py" in item["data"]]
    del code["data"]["train.py"]
    edited = tmp_path / "edited.yaml"
    edited.write_text(yaml.safe_dump_all(manifests), encoding="utf-8")
    run = local(tmp_path / "work", "--manifests", str(edited))
    assert run.code == 1, run.output
    assert "training.train" in run.output
    assert shlex.split(run.rayjob["spec"]["entrypoint"])[:3] == ["python", "-m", "training.train"]
