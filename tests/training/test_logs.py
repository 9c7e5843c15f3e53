"""Which files of a node are copied, how much of each, for how long; and a storage in S3, also one that hangs.

Logs of ranks on several nodes, killed ones too, are in `test_ray.py`.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.checkers import require_go
from tests.training.processes import TRAIN, Started, stored_logs, until
from tests.training.s3 import S3
from tests.training.s3 import start as start_s3
from training import logs
from training.logs import Attempt, Joined, join, name_of, sources, tail
from training.storage import Storage

WORKER = "0c5f"
MINE, OTHER = "02000000", "01000000"


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """Logs of a node on which two drivers have had workers; file names as Ray 2.58 makes them."""
    folder = tmp_path / "logs"
    (folder / "train").mkdir(parents=True)
    (folder / "old").mkdir()
    for name, text in {
        f"worker-{WORKER}-ffffffff-11.out": f":job_id:{MINE}\n:actor_name:RayTrainWorker\nout\n",
        f"worker-{WORKER}-ffffffff-11.err": f":job_id:{MINE}\n:actor_name:RayTrainWorker\nerr\n",
        f"train/ray-train-app-worker-{WORKER}.log": "said\n",
        f"train/ray-train-sys-worker-{WORKER}.log": "detail\n",
        f"old/worker-aa-{MINE}-12.err": "moved\n",
        f"worker-bb-{MINE}-13.out": "",
        "train/ray-train-sys-controller-bb.log": "restarts\n",
        f"worker-cc-{OTHER}-14.out": "of another driver\n",
        "worker-dd-ffffffff-15.out": "of none yet\n",
        "raylet.out": "raylet\n",
        "gcs_server.out": "gcs\n",
        "job-driver-mine.log": "driver\n",
        "job-driver-other.log": "another driver\n",
        "runtime_env_agent.log": "variables\n",
        "nccl.pod-1.11.log": "nccl\n",
        "nccl.pod-1.14.log": "nccl of another driver\n",
    }.items():
        (folder / name).write_text(text)
    return folder


def read(folder: Path, driver: str | None, **environ: str) -> dict[str, str]:
    found = sources(folder, environ, node="fd00::2", job_id=MINE, stems={WORKER: "rank-00007"}, driver=driver)
    texts = {name: join([p for p in paths if p.exists()], limit, environ)[0].decode() for name, paths, limit in found}
    return {name: text for name, text in texts.items() if text}


def test_only_what_belongs_to_this_driver_is_copied(session: Path) -> None:
    worker = f"worker-{WORKER}-ffffffff-11"
    expected = {
        "rank-00007.log": f"==> {worker}.out\nout\n\n==> {worker}.err\nerr\n\n"
        f"==> ray-train-app-worker-{WORKER}.log\nsaid\n",
        "rank-00007.nccl.log": "==> nccl.pod-1.11.log\nnccl\n",
        "worker-aa.fd00--2.log": f"==> worker-aa-{MINE}-12.err\nmoved\n",
        "controller.fd00--2.log": "==> ray-train-sys-controller-bb.log\nrestarts\n",
        "raylet.fd00--2.log": "==> raylet.out\nraylet\n",
    }
    assert read(session, None, NCCL_DEBUG_FILE=f"{session}/nccl.%h.%p.log") == expected
    head = read(session, "mine")
    assert head["driver.log"] == "==> job-driver-mine.log\ndriver\n"
    assert head["gcs_server.fd00--2.log"] == "==> gcs_server.out\ngcs\n"
    assert "driver.log" not in read(session, "")  # not submitted through Ray
    assert "nccl.fd00--2.log" in read(session, None, NCCL_DEBUG_FILE=f"{session}/nccl.pod-1.11.log")
    assert "nccl.fd00--2.log" not in read(session, None, NCCL_DEBUG_FILE="/dev/stdout")


def test_a_long_log_is_cut_at_a_line_and_says_so(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"".join(b"line %04d\n" % number for number in range(1000)))  # 10 bytes each
    data, omitted = tail(log, 95)
    assert (data.splitlines()[0], len(data), omitted) == (b"line 0991", 90, 9910)
    text, omitted = join([log], 95, {})
    assert text.startswith(b"==> a.log (its first 9,910 bytes are left out)\nline 0991\n")
    assert omitted == 9910
    log.write_bytes(b"x" * 200)  # one endless line
    assert tail(log, 50) == (b"x" * 50, 150)


def test_secret_values_are_blanked(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("token=0123456789abcdef path=/var/run/token short=abc\n")
    environ = {"RAY_AUTH_TOKEN": "0123456789abcdef", "A_TOKEN_FILE": "/var/run/token", "A_KEY": "abc"}
    assert join([log], 1000, environ)[0] == b"==> a.log\ntoken=*** path=/var/run/token short=abc\n"


def test_each_start_of_a_rank_has_a_file_of_its_own() -> None:
    def stem(start: int) -> str:
        return Joined(rank=3, start=start, node="10.0.0.7", host="pod", pid=1, worker_id="a", node_id="b").stem

    assert [stem(1), stem(2)] == ["rank-00003.10.0.0.7", "rank-00003.10.0.0.7.start-2"]
    assert name_of("fd00::7") == "fd00--7"


def test_time_for_copying_ends_before_ray_kills_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(logs.time, "monotonic", lambda: clock[0])
    monkeypatch.setenv("RAY_JOB_STOP_WAIT_TIME_S", "110")

    def left(asked: float, began: float) -> float:
        attempt = Attempt(Storage(str(tmp_path)))
        if asked:
            clock[0] = asked
            attempt.asked_to_stop()
        clock[0] = attempt._began = began
        return attempt._left()

    assert left(0, 1000) == logs.LIMIT_S
    assert left(1000, 1030) == logs.GRACE_S
    assert left(1000, 1100) == 5  # killed at 1110
    assert left(1000, 1120) < 0
    monkeypatch.delenv("RAY_JOB_STOP_WAIT_TIME_S")
    assert left(1000, 1120) == logs.GRACE_S


@pytest.fixture
def s3(tmp_path: Path, started: Started) -> Iterator[S3]:
    """The S3 server of the test bench, on loopback."""
    require_go()
    server = start_s3(tmp_path, started)
    yield server
    if server.server.popen.poll() is None:
        os.kill(server.server.popen.pid, signal.SIGCONT)


HANGS = """
import os, signal, sys, threading
import ray
from training import logs
from training.contract import Exit
from training.loop import Ending
from training.storage import Storage
logs.LIMIT_S, logs.RESERVE_S = 6.0, 2.0
attempt = logs.Attempt(Storage("s3://bucket/runs/hangs"))
ray.init(address="local", num_cpus=1, include_dashboard=False, object_store_memory=2**27, log_to_driver=False)
os.kill(int(sys.argv[1]), signal.SIGSTOP)
attempt.collect(Ending("finished", Exit.DONE, "done"))
ray.shutdown()
print("still copying:", any(t.name == "copy of the logs" for t in threading.enumerate()), flush=True)
os._exit(0)
"""


@pytest.mark.ray
@pytest.mark.go
@pytest.mark.usefixtures("ray_installed")
@pytest.mark.full
def test_logs_go_to_s3_and_one_that_hangs_costs_bounded_time(s3: S3, tmp_path: Path, started: Started) -> None:
    for day in range(12):
        old = s3.files / "runs" / "a" / "logs" / f"202501{day + 1:02}T000000Z"
        old.mkdir(parents=True)
        (old / "index.json").write_text("{}")
    (s3.files / "runs" / "a" / "logs" / "mine").mkdir()
    with tempfile.TemporaryDirectory(prefix="rt-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        env = {**s3.env, "RAY_TMPDIR": folder}
        flags = ("--steps=2", "--checkpoint-every=0", "--run-path=s3://bucket/runs/a")
        alone = started.start((*TRAIN, *flags), tmp_path / "log", **env)
        assert alone.wait(300) == 0, alone.output()
        kept = sorted(p.name for p in (s3.files / "runs" / "a" / "logs").iterdir())
        assert (len(kept), kept[0], kept[-1]) == (logs.KEEP + 1, "20250104T000000Z", "mine")
        for name in kept[:-2]:
            (s3.files / "runs" / "a" / "logs" / name / "index.json").unlink()
            (s3.files / "runs" / "a" / "logs" / name).rmdir()
        (s3.files / "runs" / "a" / "logs" / "mine").rmdir()
        (stored,) = stored_logs(s3.files / "runs" / "a")
        assert stored.index["complete"]
        assert all(f"rank {rank} ends: finished" in stored.of_rank(rank) for rank in (0, 1))
        assert not any(s3.env["AWS_SECRET_ACCESS_KEY"] in text for text in stored.texts.values())

        command = (sys.executable, "-c", HANGS, str(s3.server.popen.pid))
        hangs = started.start(command, tmp_path / "hangs.log", **env)
        stat = Path(f"/proc/{s3.server.popen.pid}/stat")
        until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", 120, "the server to be stopped")
        began = time.monotonic()
        assert hangs.wait(60) == 0, hangs.output()
        assert time.monotonic() - began < 30
        assert "warning: not all logs were copied to s3://bucket/runs/hangs/logs/" in hangs.output()
        assert "out of time\nstill copying: True" in hangs.output()
        started.end()
