"""The builder of the Go programs, on a small module that compiles in a moment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from generator.tools import cache_dir
from tests.cluster import checkers
from tests.cluster.tools import build

pytestmark = pytest.mark.go

ROOT = Path(__file__).parents[2]
MODULE = "github.com/example/consumer"
PROGRAM = 'package main\n\nimport "os"\n\nfunc main() { os.Stdout.WriteString("%s") }\n'
# What each of several processes runs to build the same program into the same cache.
BUILD = """
import sys
from pathlib import Path
from tests.cluster.tools.build import Tool, build
print(build(Tool(Path(sys.argv[1]), sys.argv[2])))
"""


@pytest.fixture(autouse=True)
def _go() -> None:
    checkers.require_go()


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> build.Tool:
    """A program of its own, and a cache of its own to build it into."""
    # Go's own cache stays where it is: without it every test would compile the standard library anew.
    go_cache = subprocess.run([build.find_go(), "env", "GOCACHE"], capture_output=True, text=True, check=True)
    monkeypatch.setenv("GOCACHE", go_cache.stdout.strip())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "consumer-check"
    folder.mkdir()
    # The consumer's module lies beside it, so that nothing is downloaded.
    required = f"require {MODULE} v1.9.9\n\nreplace {MODULE} => ./consumer\n"
    (folder / "go.mod").write_text(f"module consumer-check\n\ngo 1.24\n\n{required}", encoding="utf-8")
    (folder / "go.sum").write_text("", encoding="utf-8")
    (folder / "main.go").write_text(PROGRAM % "first", encoding="utf-8")
    (folder / "consumer").mkdir()
    (folder / "consumer" / "go.mod").write_text(f"module {MODULE}\n\ngo 1.24\n", encoding="utf-8")
    return build.Tool(folder, MODULE)


def _output(program: Path) -> str:
    return subprocess.run([program], capture_output=True, text=True, check=True, timeout=30).stdout


def test_a_program_is_built_once_and_again_when_its_sources_change(tool: build.Tool) -> None:
    first = build.build(tool)
    built_at = first.stat().st_mtime_ns
    assert first.name.startswith("consumer-check-v1.9.9-")
    assert _output(first) == "first"
    assert build.build(tool) == first
    assert first.stat().st_mtime_ns == built_at

    (tool.folder / "main.go").write_text(PROGRAM % "second", encoding="utf-8")
    second = build.build(tool)
    assert second != first
    assert (_output(first), _output(second)) == ("first", "second")


def test_a_built_program_needs_no_go(tool: build.Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    program = build.build(tool)
    monkeypatch.setenv("GO", "/nowhere/go")
    assert build.build(tool) == program


def test_three_builds_at_once_compile_once(tool: build.Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compilations = tmp_path / "compilations"
    go = tmp_path / "go"
    counted = f'[ "$1" = build ] && echo one >> {compilations}'
    go.write_text(f'#!/bin/sh\n{counted}\nexec {build.find_go()} "$@"\n', encoding="utf-8")
    go.chmod(0o755)
    monkeypatch.setenv("GO", str(go))
    builders = [
        subprocess.Popen(
            [sys.executable, "-c", BUILD, str(tool.folder), MODULE],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    printed = [builder.communicate(timeout=120)[0].strip() for builder in builders]
    assert [builder.returncode for builder in builders] == [0, 0, 0]
    assert printed == [str(build.build(tool))] * 3
    assert compilations.read_text(encoding="utf-8").split() == ["one"]
    assert _output(Path(printed[0])) == "first"
    assert not list(Path(printed[0]).parent.glob(".building-*"))


def test_a_compiler_error_is_shown_and_leaves_nothing(tool: build.Tool) -> None:
    (tool.folder / "main.go").write_text("package main\n\nfunc main() { undefined() }\n", encoding="utf-8")
    with pytest.raises(build.BuildError, match="undefined: undefined"):
        build.build(tool)
    left = [path.name for path in (cache_dir() / "bin").iterdir() if path.suffix != ".lock"]
    assert left == []


def test_go_too_old_is_told_with_both_versions(tool: build.Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    (tool.folder / "go.mod").write_text(
        f"module consumer-check\n\ngo 9.1\n\nrequire {MODULE} v1.9.9\n", encoding="utf-8"
    )
    monkeypatch.setenv("GOTOOLCHAIN", "local")
    with pytest.raises(build.BuildError, match=r"needs Go 9\.1 or newer and .* is 1\.\d+"):
        build.build(tool)


def test_a_go_that_is_not_there_is_told(tool: build.Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GO", "/nowhere/go")
    with pytest.raises(build.GoMissingError, match="GO=/nowhere/go"):
        build.build(tool)


@pytest.mark.parametrize(
    ("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)], ids=["here", "ci"]
)
def test_without_go_tests_skip_here_and_fail_in_ci(
    ci: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("GO", "/nowhere/go")
    with pytest.raises(outcome, match="/nowhere/go"):
        checkers.require_go()


def test_every_program_is_pinned_and_its_sums_are_there() -> None:
    for tool in build.TOOLS.values():
        assert tool.version.startswith("v")
        assert tool.go_version >= (1, 24)
        assert f"{tool.module} {tool.version} h1:" in (tool.folder / "go.sum").read_text(encoding="utf-8")


def test_the_command_refuses_a_name_it_does_not_know() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.cluster.tools.build", "no-such-check"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "kuberay-check" in done.stderr
