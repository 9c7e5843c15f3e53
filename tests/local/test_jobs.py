"""The request to the Jobs API and the job's log for a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from generator.local.errors import LocalError
from generator.local.jobs import Tail, readable, submission_body
from generator.local.mount import Mount, PathMap
from tests.local.manifest import rayjob

_NO_PATHS = PathMap([])


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("step 10/40  loss 4.4803  lr 2.8e-03  tokens/s 11334", "step 10/40  loss 4.4803  lr 2.8e-03  tokens/s 11334"),
        ("\x1b[36m(RayTrainWorker pid=22731, ip=127.0.0.2)\x1b[0m step 1/2  loss 5.0", "step 1/2  loss 5.0"),
        ("(RayTrainWorker pid=7) hello [repeated 4x across cluster] (Ray deduplicates logs by default.)", "hello"),
        ("(a note, not an actor) stays", "(a note, not an actor) stays"),
        ("2026-12-01 21:50:25,872\tINFO worker.py:1683 -- Using address", None),
        ("(TrainController pid=1) [2026-12-01 22:05:12,505 E 22294 22435] core_worker.cc:2330: Actor", None),
        (
            "2026-12-01 21:50:25,872\tWARNING worker.py:1 -- no room",
            "2026-12-01 21:50:25,872\tWARNING worker.py:1 -- no room",
        ),
        ("Running entrypoint for job a: python -m training.train", None),
        ("(RayTrainWorker pid=1) Reporting training result 2: TrainingReport(…)", None),
        ("", None),
        ("    indented", "    indented"),
    ],
)
def test_what_a_reader_sees_of_the_log(line: str, shown: str | None) -> None:
    assert readable(line) == shown


def test_the_request_is_that_of_kuberay() -> None:
    spec: dict[str, Any] = rayjob()["spec"]
    assert submission_body(spec, "tiny-abcde", _NO_PATHS) == {
        "entrypoint": "python -m training.train --steps=3",
        "submission_id": "tiny-abcde",
    }
    spec |= {
        "runtimeEnvYAML": "env_vars:\n  OUT: /mnt/ray-train/x\n",
        "metadata": {"a": "b"},
        "entrypointNumCpus": 1,
        "entrypointResources": '{"special": 1}',
    }
    paths = PathMap([Mount("/mnt/ray-train", Path("/w/claim"), "claim")])
    assert submission_body(spec, "tiny-abcde", paths) == {
        "entrypoint": "python -m training.train --steps=3",
        "submission_id": "tiny-abcde",
        "runtime_env": {"env_vars": {"OUT": "/w/claim/x"}},
        "metadata": {"a": "b"},
        "entrypoint_num_cpus": 1,
        "entrypoint_resources": {"special": 1},
    }


@pytest.mark.parametrize("wrong", [{"runtimeEnvYAML": "a: ["}, {"entrypointResources": "{"}])
def test_a_request_that_cannot_be_read_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(LocalError, match="cannot be read"):
        submission_body({**rayjob()["spec"], **wrong}, "x", _NO_PATHS)


def test_the_tail_of_a_growing_file_gives_every_line_once(tmp_path: Path) -> None:
    file = tmp_path / "log"
    tail = Tail(file)
    assert list(tail.lines(last=False)) == [], "not there yet"
    file.write_bytes(b"one\ntw")
    assert list(tail.lines(last=False)) == ["one"]
    with file.open("ab") as more:
        more.write(b"o\r\nthree \xff\nrest")
    assert list(tail.lines(last=False)) == ["two", "three �"]
    assert list(tail.lines(last=True)) == ["rest"]
    assert list(tail.lines(last=True)) == []
