"""The driver's command: numbers as written by people, and strings that a shell gives back unchanged."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest

from tests.chart.cases import environments, job
from tests.helm import HelmError, one, render

# Prints its arguments, each ended by a NUL, in place of the interpreter.
PRINTER = 'python() { for argument in "$@"; do printf "%s\\0" "$argument"; done; }; '
HOSTILE = [
    "plain", "", " ", "two words", "it's", "'", "''", "'; touch pwned; '", '"', 'a"b', "$HOME", "${HOME}", "$(id)",
    "`id`", "a;b", "a&&b", "a|b",
    "a>b", "a<b", "*", "?", "[a]", "{a,b}", "~", "~root", "#comment", "!history", "back\\slash", "trailing\\",
    "a\nb", "\n", "tab\there", "-", "--steps=1",
    "=", "%s", "ümläut", "日本語", "🙂", "\u00a0", "\u2028", "yes", "null", "1e6",
    "007", "0x10", "{{ .Values }}", "<html>&",
]  # fmt: skip

CONTROL = ["\x07", "\x7f", "\ufeff", "\x1b[31m"]


def entrypoint(args: dict[str, Any], **options: Any) -> str:
    return one("RayJob", job("training.args", args), **options)["spec"]["entrypoint"]


def argv(command: str, shell: str = "sh") -> list[str]:
    """Arguments that the interpreter gets when `shell` runs the command."""
    done = subprocess.run([shell, "-c", PRINTER + command], capture_output=True, check=True, timeout=20)
    return done.stdout.decode().split("\0")[:-1]


def test_without_arguments() -> None:
    assert entrypoint({}) == "python -m training.train --preset=tiny"


def test_sorted_flags_with_dashes() -> None:
    command = entrypoint({"steps": 200, "sequence_length": 2048, "compile": True, "fused": False, "gone": None})
    assert (
        command
        == "python -m training.train --preset=tiny --compile=true --fused=false --sequence-length=2048 --steps=200"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (30, "30"), (0, "0"), (-1, "-1"), (1_000_000, "1000000"), (10**9, "1000000000"),
        (2**53 - 1, "9007199254740991"), (30.0, "30"), (0.1, "0.1"),
        (2e-5, "0.00002"), (3e-4, "0.0003"), (1e-7, "1e-7"), (1.5e6, "1500000"), (0.95, "0.95"), (1e-12, "1e-12"),
    ],
)  # fmt: skip
def test_numbers(value: float, text: str) -> None:
    command = entrypoint({"value": value})
    assert command.endswith(f" --value={text}")
    assert float(text) == value


def test_numbers_from_the_command_line() -> None:
    command = entrypoint({}, set_=["training.args.steps=1000000", "training.args.learning_rate=2e-5"])
    assert command.endswith("--learning-rate=2e-5 --steps=1000000")


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_strings_survive_the_shell(shell: str) -> None:
    """Ray gives the entrypoint to a shell. One render holds them all; `python` is a function that prints."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not on this machine")
    args = {f"a{number:02}": text for number, text in enumerate(HOSTILE)}
    given = argv(entrypoint(args), shell)
    assert given == ["-m", "training.train", "--preset=tiny", *(f"--{name}={text}" for name, text in args.items())]


@pytest.mark.parametrize("text", CONTROL, ids=ascii)
def test_control_characters_are_refused(text: str) -> None:
    """Helm would leave out the whole spec that holds one, without a word."""
    with pytest.raises(HelmError, match="match pattern"):
        entrypoint({"a": text})
    for key in ("common.env", "job.metadata"):
        try:
            kept = json.dumps(text)[1:-1] in json.dumps(render(job(key, {"A": text})))
            assert kept, "either kept or refused"
        except HelmError as error:
            assert "control character" in error.stderr


def test_environment_values_survive() -> None:
    env = {f"A{number:02}": text for number, text in enumerate(HOSTILE)} | {
        "NO": "1",
        "N1": 1_000_000,
        "N2": 2e-5,
        "N3": True,
    }
    for found in environments(job("common.env", env)):
        assert {name: found[name] for name in env} == env | {"N1": "1000000", "N2": "0.00002", "N3": "true"}


def test_layers_of_the_environment() -> None:
    values = job("common.env", {"A": "all", "B": "all", "C": "all", "D": "all"}, env={"A": "group", "B": "", "C": None})
    values["head"] = {"env": {"A": "head", "D": {"secretKeyRef": {"name": "s", "key": "k"}}}}
    head, worker = environments(values)
    assert (head["A"], head["B"], head["C"], head["D"]) == (
        "head",
        "all",
        "all",
        {"secretKeyRef": {"name": "s", "key": "k"}},
    )
    assert (worker["A"], worker["B"], worker["D"]) == ("group", "", "all")
    assert "C" not in worker


def test_environment_is_sorted_and_names_are_unique() -> None:
    for env in environments(job("common.env", {"Z": "1", "A": "1"})):
        assert list(env) == sorted(env)
