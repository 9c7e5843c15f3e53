"""The init container that fetches code of the user's own, on a real Git server with the keys of docs/own-code.md."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.chart.cases import job, pods
from tests.docs.git_server import serving
from tests.helm import Object

SECRET = {"username": "x-access-token", "password": "t0ken"}


@pytest.fixture
def commits(tmp_path: Path) -> list[str]:
    """Two commits of tmp_path/served/own, the older first; the module is in the folder `src`."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    folder = tmp_path / "served/own"
    made = []

    def git(*words: str) -> str:
        env = {**identity, "PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(
            ["git", *words], cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout.strip()

    identity = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    (folder / "src").mkdir(parents=True)
    git("init", "--quiet")
    for number in (1, 2):
        (folder / "src/own.py").write_text(f"print({number})\n", encoding="utf-8")
        (folder / "README.md").write_text("", encoding="utf-8")
        git("add", ".")
        git("commit", "--quiet", "--message", str(number))
        made.append(git("rev-parse", "HEAD"))
    return made


def clone(container: Object, root: Path, secret: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the init container's command here: its two folders below `root`, its variables with the Secret's values."""
    for name in ("checkout", "code"):
        (root / name).mkdir(parents=True)
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1"}
    for variable in container["env"]:
        source = variable.get("valueFrom", {}).get("secretKeyRef")
        value = secret[source["key"]] if source else variable.get("value", "")
        env[variable["name"]] = value.replace("/checkout", f"{root}/checkout")
    script = container["args"][0].replace("/checkout", f"{root}/checkout").replace(" /code\n", f" {root}/code\n")
    return subprocess.run(
        [*container["command"], script], env=env, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_code_of_one_commit_of_a_private_repository_arrives(commits: list[str], tmp_path: Path) -> None:
    with serving(tmp_path / "served", SECRET["username"], SECRET["password"]) as address:
        git = {"url": f"{address}/own/.git", "revision": commits[0], "path": "src", "secretName": "own-code-git"}
        worker = pods(job("training.code", {"module": "own", "git": git}))[1]
        (container,) = worker["spec"]["initContainers"]
        done = clone(container, tmp_path / "good", SECRET)
        assert done.returncode == 0, done.stderr
        assert [path.name for path in (tmp_path / "good/code").iterdir()] == ["own.py"]
        assert (tmp_path / "good/code/own.py").read_text(encoding="utf-8") == "print(1)\n"

        wrong = clone(container, tmp_path / "wrong", SECRET | {"password": "other"})
        assert wrong.returncode != 0
        assert "Authentication failed" in wrong.stderr
        assert "other" not in wrong.stderr

        for variable in container["env"]:
            if variable["name"] == "GIT_REVISION":
                variable["value"] = "0" * 39 + "1"
        missing = clone(container, tmp_path / "missing", SECRET)
        assert missing.returncode != 0
        assert "not our ref" in missing.stderr
