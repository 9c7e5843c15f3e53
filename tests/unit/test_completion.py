"""`completion` in a real shell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.project import make
from tests.unit.test_cli import run

# Asks bash what it would offer after the given words, the last of them unfinished.
ASK = """
set -u
source "$1"; shift
function_of() { complete -p ray-train-dlc | sed 's/.* -F \\([^ ]*\\).*/\\1/'; }
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
set +u
"$(function_of)" ray-train-dlc "${COMP_WORDS[COMP_CWORD]}" ''
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    code, out, err = run("completion", "bash")
    assert (code, err) == (0, "")
    path = tmp_path_factory.mktemp("completion") / "ray-train-dlc.bash"
    path.write_text(out)
    return path


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["val"], ["validate"]),
        (["validate", "--output", "s"], ["sarif"]),
        (["validate", "--st"], ["--strict"]),
        (["validate", "de"], ["demo"]),
        (["render", "--check", ""], ["demo", "other"]),
        (["local", "o"], ["other"]),
        (["validate", "zz"], []),
    ],
)
def test_bash_completes_commands_options_and_environments(
    script: Path, tmp_path: Path, words: list[str], offered: list[str]
) -> None:
    make(tmp_path)
    (tmp_path / "environments/other").mkdir()
    (tmp_path / "environments/other/environment.yaml").touch()
    (tmp_path / "environments/not-one").mkdir()
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK, "bash", script, "ray-train-dlc", *words],
        cwd=tmp_path, capture_output=True, text=True, timeout=20, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.split() == offered


@pytest.mark.parametrize("shell", ["zsh", "tcsh"])
def test_other_shells_get_a_script_too(shell: str) -> None:
    code, out, err = run("completion", shell)
    assert (code, err) == (0, "")
    assert "ray-train-dlc" in out and "validate" in out


def test_without_shtab_it_says_what_to_install() -> None:
    without = "import sys; sys.modules['shtab'] = None; from generator.cli import main"
    program = f"{without}; sys.exit(main(['completion', 'bash']))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 5
    assert done.stderr == "error: completion needs shtab: pip install 'ray-train-dlc[completion]'\n"
