"""NOTES.txt: commands that a shell and kubectl take as printed, and the warnings that apply."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest

from tests.chart.cases import job, job_name, with_key
from tests.helm import CI_VALUES, notes

# kubectl that prints what it gets; inner calls, whose output outer ones use, print a name.
STUB = """
kubectl() {
  case "$*" in
    *jsonpath*status*|*"-o name"*) echo NAME;;
    *) printf "%s|" "$@"; echo;;
  esac
}
base64() { cat; }
"""


def commands(text: str) -> list[str]:
    """The indented kubectl lines."""
    return re.findall(r"^  (kubectl .*)$", text, flags=re.MULTILINE)


@pytest.mark.parametrize("file", CI_VALUES, ids=lambda file: file.stem.removesuffix("-values"))
def test_commands_are_whole_shell_commands(file: Any) -> None:
    text = notes([file], namespace="team-a")
    found = commands(text)
    assert len(found) >= 5
    for command in found:
        done = subprocess.run(["bash", "-uec", STUB + command], capture_output=True, text=True, check=True, timeout=20)
        assert done.stderr == "", command
        assert "-n|team-a|" in done.stdout or done.stdout.strip() == "NAME", command
    assert "<no value>" not in text


def test_job() -> None:
    text = notes(job())
    assert f"RayJob {job_name(job())} in namespace ray-train: 2 nodes of 4 ranks" in text
    assert f"wait rayjob/{job_name(job())} --for=jsonpath='{{.status.jobStatus}}'=SUCCEEDED" in text
    assert "ray job logs --address http://127.0.0.1:8265 --follow $(kubectl" in text
    assert "starts a new RayJob; this one then has 120 s" in text


def test_cluster() -> None:
    text = notes(job("mode", "cluster"))
    assert "RayCluster demo in namespace ray-train" in text
    assert "ray job submit --address http://127.0.0.1:8265 -- python -m training.train --preset=tiny" in text
    assert "rayjob" not in text


def test_keep_lists_the_jobs_and_how_to_remove_one() -> None:
    text = notes(job("job.onChange", "keep"), name="1.demo")
    assert "get rayjobs -l ray-train-dlc/release=r-1-demo" in text
    assert "delete rayjob NAME" in text
    assert "delete configmap NAME" in text


def test_pinned_name_is_said_to_be_pinned() -> None:
    assert "pinned by job.name" in notes(job("job.name", "mine"))


def test_warnings() -> None:
    quiet = with_key(job(), "image.digest", "sha256:" + "0" * 64)
    cases = {
        "image.digest is empty": (job(), quiet),
        "training.storage.kind is none": ({}, quiet),
        "is not encrypted": (quiet, {}),
        "networkPolicy.enabled is false": (with_key(quiet, "networkPolicy.enabled", False), quiet),
        "enableNetworkPolicy of the vpc-cni add-on": (quiet, with_key(quiet, "networkPolicy.enabled", False)),
    }
    for words, (warned, silent) in cases.items():
        assert words in notes(warned), words
        assert words not in notes(silent), words
