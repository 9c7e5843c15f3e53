"""docs/ci.md: the hooks run under pre-commit, and the workflow is one, with commands that exist."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from generator.cli import parser
from tests.project import edited, make

ROOT = Path(__file__).resolve().parents[2]
HOOKS = ROOT / ".pre-commit-hooks.yaml"
WORKFLOW = ROOT / "docs/examples/github-actions.yml"


def load(path: Path) -> Any:
    return YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))


def commands(text: str) -> list[list[str]]:
    """The arguments of every call of the tool in a shell line."""
    found = re.findall(r"(?:ray-train-dlc|python -m generator) ([a-z][^>|\n#]*)", text)
    return [shlex.split(arguments) for arguments in found]


def pre_commit(*args: str, cwd: Path, home: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PRE_COMMIT_HOME": str(home), "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    return subprocess.run(
        [sys.executable, "-m", "pre_commit", *args],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_pre_commit_accepts_the_manifest(tmp_path: Path) -> None:
    done = pre_commit("validate-manifest", str(HOOKS), cwd=tmp_path, home=tmp_path / "home")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_hooks_stop_a_commit_that_is_wrong_and_let_one_pass_that_is_not(tmp_path: Path) -> None:
    """As pre-commit runs them; only the installation into an environment of their own is left out."""
    work, home = tmp_path / "work", tmp_path / "home"
    hooks = load(HOOKS)
    for hook in hooks:
        hook["language"] = "system"
        hook["entry"] = hook["entry"].replace("ray-train-dlc", f"{sys.executable} -m generator", 1)
    make(work, environment=edited("environment.yaml", "nodes: 2", "nodes: two"))
    (work / ".pre-commit-config.yaml").write_text(json.dumps({"repos": [{"repo": "local", "hooks": hooks}]}))
    subprocess.run(["git", "init", "-q"], cwd=work, check=True)
    subprocess.run(["git", "add", "-A"], cwd=work, check=True)
    done = pre_commit("run", "ray-train-dlc-validate", cwd=work, home=home)
    assert done.returncode == 1
    assert "environments/demo/environment.yaml:8:12: error[RTD104]" in done.stdout
    make(work)
    subprocess.run(["git", "add", "-A"], cwd=work, check=True)
    assert pre_commit("run", "ray-train-dlc-validate", cwd=work, home=home).returncode == 0
    done = pre_commit("run", "ray-train-dlc-render-check", cwd=work, home=home)
    assert done.returncode == 1
    assert "would change: environments/demo/generated/values.yaml" in done.stdout
    subprocess.run([sys.executable, "-m", "generator", "render", "--root", work], cwd=ROOT, check=True, timeout=60)
    subprocess.run(["git", "add", "-A"], cwd=work, check=True)
    assert pre_commit("run", cwd=work, home=home).returncode == 0


def test_the_workflow_fits_githubs_schema() -> None:
    schema = files("check_jsonschema.builtin_schemas.vendor").joinpath("github-workflows.json")
    jsonschema.Draft7Validator(json.loads(schema.read_text(encoding="utf-8"))).validate(load(WORKFLOW))


def test_the_workflow_gives_no_more_rights_than_a_job_needs() -> None:
    workflow = load(WORKFLOW)
    assert workflow["permissions"] == {"contents": "read"}
    jobs = workflow["jobs"].items()
    writes = {name: [key for key, right in job["permissions"].items() if right == "write"] for name, job in jobs}
    assert writes == {"check": ["security-events"], "plan": ["pull-requests"]}
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            assert "${{" not in step.get("run", ""), "an expression in a script can be injected: hand it over by env"


@pytest.mark.parametrize("name", [".pre-commit-hooks.yaml", "docs/examples/github-actions.yml", "docs/ci.md"])
def test_every_command_that_is_named_exists(name: str) -> None:
    called = commands((ROOT / name).read_text(encoding="utf-8"))
    assert called
    for arguments in called:
        known = arguments[:1] if arguments[0] == "plan" else arguments  # its formats: tests of `plan`
        parser().parse_args(known)
