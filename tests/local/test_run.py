"""`local` as a user runs it, on real Ray: distinct nodes, its own environment, and nothing left behind."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from generator.local.run import main_local
from tests.local.drive import ROOT, Drive
from tests.local.manifest import NAME, NAMESPACE, config_map, manifests, rayjob

Start = Callable[..., Drive]
RUN_PATH = Path("storage") / "shared" / "cluster" / NAMESPACE / NAME


def _record(run: Drive) -> dict[str, Any]:
    record = json.loads((run.work_dir / RUN_PATH / "run.json").read_text())
    assert isinstance(record, dict)
    return record


@pytest.mark.ray
def test_two_clusters_at_once_run_their_jobs_undisturbed(drive: Start) -> None:
    """One machine, two clusters: each job sees its own two worker nodes, its own code and its own environment."""
    runs = [drive("a"), drive("b", flags="--steps=4")]
    for run in runs:
        assert run.wait() == 0, run.output
    sessions = []
    for run, steps in zip(runs, (3, 4), strict=True):
        assert "job SUCCEEDED" in run.output
        assert f"step {steps}/{steps}  loss" in run.output
        assert f"loss        5.0000 (step 1) -> {5 / steps:.4f} (step {steps}), 2 processes on 2 nodes" in run.output
        assert f"run record  {run.work_dir.name}/{RUN_PATH}/run.json\n" in run.output
        assert f"loss curve  {run.work_dir.name}/{RUN_PATH}/loss.svg\n" in run.output
        assert "PYTHONPATH=/opt/ray-train -> " in run.output
        assert "path        /mnt/ray-train -> " in run.output
        _check_record(_record(run), run.work_dir)
        sessions.append(_record(run)["driver"]["env"])
        assert run.left() == []
        assert not [entry for entry in (run.work_dir / "logs").iterdir() if entry.name == "ray"], "logs of no failure"
    for name in ("RAY_AUTH_TOKEN", "RAY_ADDRESS", "RAY_CLUSTER_NAME"):
        assert sessions[0][name] != sessions[1][name]


def _check_record(record: dict[str, Any], work_dir: Path) -> None:
    """What the job saw from the inside."""
    assert sorted(seen["ip"] for seen in record["seen"]) == ["127.0.0.2", "127.0.0.3"]
    assert len(record["nodes"]) == 3
    resources = {node["ip"]: node["resources"] for node in record["nodes"]}
    assert resources["127.0.0.2"]["CPU"] == 2
    assert resources["127.0.0.2"]["memory"] == 1024**3
    assert "CPU" not in resources[record["driver"]["ip"]], "the head has num-cpus: 0"
    for seen in record["seen"]:
        assert seen["code"] == str(work_dir / "root" / "opt" / "ray-train" / "training" / "sizes.py")
        assert seen["env"]["RTD_GROUP_ONLY"] == "cpu"
        assert seen["env"]["RAY_NODE_TYPE_NAME"] == "cpu"
        assert seen["env"]["FQ_RAY_IP"] == record["driver"]["ip"]
        assert seen["env"]["SECRET_OF_SHELL"] is None
        assert Path(seen["cwd"]).parent == work_dir / "pods"
    env = record["driver"]["env"]
    assert env["RAY_AUTH_MODE"] == "token" and len(env["RAY_AUTH_TOKEN"]) == 64
    assert env["RTD_RUN_PATH"] == str(work_dir / RUN_PATH)
    assert env["RAY_NODE_TYPE_NAME"] == "headgroup"
    assert env["RAY_CLUSTER_NAMESPACE"] == NAMESPACE
    assert "RTD_GROUP_ONLY" not in env
    assert "HTTP_PROXY" not in env and "SECRET_OF_SHELL" not in env
    assert env["PATH"].startswith(str(Path(sys.executable).parent))


@pytest.mark.ray
def test_a_failing_job_is_exit_code_1_and_leaves_its_logs(drive: Start) -> None:
    """One job ends with an exit code of its own, in the other the ConfigMap has lost `train.py`.

    It is the ConfigMap's code that runs, not the checkout's `training` package.
    """
    code = config_map()
    del code["data"]["train.py"]
    run, without = drive("fails", flags="--fail"), drive("without", code=code)
    assert run.wait() == 1, run.output
    assert "job FAILED: exit code 5 (the layout is not the one that the environment asks for)" in run.output
    assert "job SUCCEEDED" not in run.output
    assert list((run.work_dir / "logs" / "ray" / "head").glob("job-driver-*.log"))
    assert (run.work_dir / "logs" / "job.log").read_text().count("step 1/3") == 1
    assert run.left() == []
    assert without.wait() == 1, without.output
    assert "No module named training.train" in without.output
    assert "job FAILED: exit code 1" in without.output


@pytest.mark.ray
def test_a_job_without_a_record_fails_and_a_finished_run_is_named(drive: Start, tmp_path: Path) -> None:
    """The job ends with 0 at once: with no record that is a failure; with an earlier run's record it is said."""
    code = config_map(**{"train.py": "print('finished already')\n"})
    folder = tmp_path / "finished" / RUN_PATH
    folder.mkdir(parents=True)
    record = {"run": {"started": "then"}, "steps": [{"step": 1, "loss": 2.0}, {"step": 9, "loss": 1.0}]}
    (folder / "run.json").write_text(json.dumps(record))
    (tmp_path / "finished" / ".local-run.lock").touch()  # the mark of a folder that `local` has made
    without, finished = drive("without", code=code), drive("finished", code=code)
    assert without.wait() == 1, without.output
    assert "error: the job left no run record with steps at" in without.output
    assert finished.wait() == 0, finished.output
    assert "nothing was trained now: this run had finished at step 9 before" in finished.output


@pytest.mark.ray
def test_a_module_of_ones_own_needs_no_record(drive: Start) -> None:
    job = rayjob()
    job["spec"]["entrypoint"] = "python -m training.own --preset=tiny"
    run = drive("own", code=config_map(**{"own.py": "print('done by hand')\n"}), job=job)
    assert run.wait() == 0, run.output
    assert "done by hand" in run.output and "job SUCCEEDED" in run.output
    assert (
        f"no run record: training.own wrote none; what it keeps is below {run.work_dir.name}/{RUN_PATH}" in run.output
    )


@pytest.mark.ray
def test_ctrl_c_ends_the_job_and_every_process(drive: Start) -> None:
    run = drive(flags="--steps=600 --sleep=0.5")
    run.wait_for("step 2/600")
    assert len(run.left()) > 10, "the scan finds Ray's processes while they run"
    os.killpg(run.process.pid, signal.SIGINT)  # as a terminal does: the whole foreground group
    # About 4 s on free cores. A lost Ctrl-C ends otherwise: with 1, at the run's own limit of 150 s.
    assert run.wait() == 130, run.output
    assert run.left() == []
    assert "interrupted; no process is left" in run.output


@pytest.mark.ray
def test_a_killed_run_leaves_no_process(drive: Start) -> None:
    run = drive(flags="--steps=600 --sleep=0.5")
    run.wait_for("step 2/600")
    assert run.left()
    run.process.kill()
    assert run.wait() == -signal.SIGKILL
    run.wait_until_gone(60)  # 20 s at most, and what a busy machine adds


@pytest.mark.ray
def test_the_time_limit_ends_the_run(drive: Start) -> None:
    run = drive(flags="--steps=600 --sleep=0.5", timeout=5)
    assert run.wait() == 1
    assert "error: the job did not end within 5 s" in run.output
    assert run.left() == []


def test_gpus_are_refused_before_anything_starts(
    needs_ray: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(manifests(rayjob(gpus=4), config_map()))
    code = main_local(ROOT, "demo", Path("unused"), [], "ns", "demo", tmp_path / "work", file)
    assert code == 4
    output = capsys.readouterr()
    assert "error: worker group cpu asks for nvidia.com/gpu: 4" in output.err
    assert output.out == ""


def test_storage_in_s3_is_refused(needs_ray: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = rayjob()
    container = job["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]
    next(entry for entry in container["env"] if entry["name"] == "RTD_RUN_PATH")["value"] = "s3://bucket/run"
    file = tmp_path / "m.yaml"
    file.write_text(manifests(job, config_map()))
    assert main_local(ROOT, "x", Path("unused"), [], "ns", "x", tmp_path / "work", file) == 4
    assert "s3://bucket/run" in capsys.readouterr().err


def test_a_second_run_in_the_same_folder_is_refused(
    needs_ray: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(manifests(rayjob(), config_map()))
    (tmp_path / "work").mkdir()
    with (tmp_path / "work" / ".local-run.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert main_local(ROOT, "x", Path("unused"), [], "ns", "x", tmp_path / "work", file) == 4
    assert "another run is using" in capsys.readouterr().err


def test_a_python_without_ray_is_told_how_to_get_it() -> None:
    """-S: this Python without its site-packages."""
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from generator.local.host import require_ray\n"
        "from generator.tools import ToolMissingError\n"
        "try: require_ray('2.58.0')\n"
        "except ToolMissingError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert "Ray is not installed in this Python" in done.stdout
    assert "pip install 'ray[default,train]==2.58.0'" in done.stdout


def test_a_folder_with_other_files_is_refused_and_kept(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "logs").mkdir(parents=True)
    (work / "logs" / "mine").write_text("x")
    file = tmp_path / "manifests.yaml"
    file.write_text(manifests(rayjob(), config_map()), encoding="utf-8")
    code = main_local(tmp_path, "tiny", Path("unused"), [], NAMESPACE, NAME, work_dir=work, manifests=file)
    assert code == 4
    assert (work / "logs" / "mine").read_text() == "x"
