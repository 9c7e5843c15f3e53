"""The builder of the Go programs, on a small module that compiles in a moment."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from generator.tools import cache_dir
from tests.cluster import checkers
from tests.cluster.tools import build

pytestmark = pytest.mark.go

ROOT = Path(__file__).parents[2]
MODULE = "github.com/example/consumer"
VERSION = "v1.9.9"
PROGRAM = 'package main\n\nimport "os"\n\nfunc main() { os.Stdout.WriteString("%s") }\n'
# What each of several processes runs to build the same program into the same cache.
BUILD = """
import sys
from pathlib import Path
from tests.cluster.tools.build import Tool, build
print(build(Tool(Path(sys.argv[1]), *sys.argv[2:])))
"""


@pytest.fixture(autouse=True)
def _go() -> None:
    checkers.require_go()


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> build.Tool:
    """A tool of its own, and a cache of its own to build it into."""
    # Go's own cache stays where it is: without it every test would compile the standard library anew.
    go_cache = subprocess.run([build.find_go(), "env", "GOCACHE"], capture_output=True, text=True, check=True)
    monkeypatch.setenv("GOCACHE", go_cache.stdout.strip())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "consumer-check"
    folder.mkdir()
    # The consumer's module lies beside it, so that nothing is downloaded.
    required = f"require {MODULE} {VERSION}\n\nreplace {MODULE} => ./consumer\n"
    (folder / "go.mod").write_text(f"module consumer-check\n\ngo 1.24\n\n{required}", encoding="utf-8")
    (folder / "go.sum").write_text("", encoding="utf-8")
    (folder / "main.go").write_text(PROGRAM % "first", encoding="utf-8")
    (folder / "consumer").mkdir()
    (folder / "consumer" / "go.mod").write_text(f"module {MODULE}\n\ngo 1.24\n", encoding="utf-8")
    return build.Tool(folder, MODULE, VERSION)


@pytest.fixture
def compilations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that gets a word for every call of the compiler."""
    counter = tmp_path / "compilations"
    go = tmp_path / "go"
    counted = f'[ "$1" = build ] && echo one >> {counter}'
    go.write_text(f'#!/bin/sh\n{counted}\nexec {build.find_go()} "$@"\n', encoding="utf-8")
    go.chmod(0o755)
    monkeypatch.setenv("GO", str(go))
    return counter


def _program(tool: build.Tool) -> Path:
    return build.build(tool) / tool.name


def _output(program: Path) -> str:
    return subprocess.run([program], capture_output=True, text=True, check=True, timeout=30).stdout


def test_a_program_is_built_once_and_again_when_its_sources_change(tool: build.Tool) -> None:
    first = _program(tool)
    built_at = first.stat().st_mtime_ns
    assert first.parent.name.startswith("consumer-check-v1.9.9-")
    assert _output(first) == "first"
    assert _program(tool) == first
    assert first.stat().st_mtime_ns == built_at

    (tool.folder / "main.go").write_text(PROGRAM % "second", encoding="utf-8")
    second = _program(tool)
    assert second != first
    assert (_output(first), _output(second)) == ("first", "second")


def test_the_tests_of_a_program_do_not_decide_it(tool: build.Tool) -> None:
    program = _program(tool)
    (tool.folder / "main_test.go").write_text("package main\n", encoding="utf-8")
    assert _program(tool) == program


def test_a_built_program_needs_no_go(tool: build.Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    program = _program(tool)
    monkeypatch.setenv("GO", "/nowhere/go")
    assert _program(tool) == program


def test_three_builds_at_once_compile_once(tool: build.Tool, compilations: Path) -> None:
    builders = [
        subprocess.Popen(
            [sys.executable, "-c", BUILD, str(tool.folder), MODULE, VERSION],
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
    assert _output(_program(tool)) == "first"
    assert not list(Path(printed[0]).parent.glob(".building-*"))


def test_several_programs_are_compiled_in_one_call(tool: build.Tool, compilations: Path) -> None:
    for name in ("one", "two"):
        (tool.folder / "cmd" / name).mkdir(parents=True)
        (tool.folder / "cmd" / name / "main.go").write_text(PROGRAM % name, encoding="utf-8")
    both = replace(tool, packages=("./cmd/one", "./cmd/two"))
    folder = build.build(both)
    assert both.programs == ("one", "two")
    assert sorted(path.name for path in folder.iterdir()) == ["one", "two"]
    assert [_output(folder / name) for name in both.programs] == ["one", "two"]
    assert compilations.read_text(encoding="utf-8").split() == ["one"]
    assert build.build(tool) != folder


def test_the_linker_stamps_the_version(tool: build.Tool) -> None:
    stamped = PROGRAM.replace('"%s"', "version + number") + '\nvar version, number = "unset", "unset"\n'
    (tool.folder / "main.go").write_text(stamped, encoding="utf-8")
    stamps = {"main.version": "{version}", "main.number": "+{major}.{minor}"}
    assert _output(_program(tool)) == "unsetunset"
    assert _output(_program(replace(tool, stamps=stamps))) == "v1.9.9+1.9"


@pytest.fixture
def overlaid(tool: build.Tool) -> build.Tool:
    """The tool, printing what a package of its dependency says, with a file to say something else."""
    printing = PROGRAM.replace('"os"', f'(\n\t"os"\n\n\t"{MODULE}/said"\n)').replace('"%s"', "said.Text")
    (tool.folder / "main.go").write_text(printing, encoding="utf-8")
    for folder, text in (("consumer/said", "theirs"), ("_overlay", "ours")):
        (tool.folder / folder).mkdir()
        said = f'package said\n\nconst Text = "{text}"\n'
        (tool.folder / folder / "said.go").write_text(said, encoding="utf-8")
    return replace(tool, overlay=build.Overlay(MODULE, "said/said.go", "_overlay/said.go"))


def test_an_overlay_takes_the_place_of_a_file_of_a_dependency(overlaid: build.Tool) -> None:
    ours = _program(overlaid)
    theirs = _program(replace(overlaid, overlay=None))
    assert (_output(theirs), _output(ours)) == ("theirs", "ours")

    path = overlaid.folder / "_overlay" / "said.go"
    path.write_text(path.read_text(encoding="utf-8").replace("ours", "ours anew"), encoding="utf-8")
    assert _output(_program(overlaid)) == "ours anew"
    assert '"theirs"' in (overlaid.folder / "consumer" / "said" / "said.go").read_text(encoding="utf-8")


def test_an_overlay_of_a_file_that_is_not_there_is_told(overlaid: build.Tool) -> None:
    lost = replace(overlaid, overlay=build.Overlay(MODULE, "said/renamed.go", "_overlay/said.go"))
    with pytest.raises(build.BuildError, match=f"{MODULE} has no said/renamed.go"):
        build.build(lost)


def test_the_tests_of_a_program_see_its_overlay(overlaid: build.Tool) -> None:
    test = f"""
package main

import (
	"testing"

	"{MODULE}/said"
)

func TestText(t *testing.T) {{
	if said.Text != "ours" {{
		t.Fatalf("it says %s", said.Text)
	}}
}}
"""
    (overlaid.folder / "main_test.go").write_text(test, encoding="utf-8")
    assert "PASS: TestText" in build.test(overlaid)
    with pytest.raises(build.BuildError, match="it says theirs"):
        build.test(replace(overlaid, overlay=None))


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


def test_a_version_that_go_mod_does_not_require_is_told(tool: build.Tool) -> None:
    with pytest.raises(build.BuildError, match=r"requires .* v1\.9\.9 and versions\.toml gives v2\.0\.0"):
        build.build(replace(tool, version="v2.0.0"))


def test_every_folder_has_a_table_and_every_table_a_folder() -> None:
    assert sorted(path.parent.name for path in build.FOLDER.glob("*/go.mod")) == sorted(build.TOOLS)


@pytest.mark.parametrize("tool", build.TOOLS.values(), ids=build.TOOLS)
def test_go_mod_requires_the_version_of_the_table(tool: build.Tool) -> None:
    assert tool.go_version >= (1, 24)
    assert bool(tool.module) == bool(tool.version)
    if tool.module:
        assert tool.required == tool.version
        assert f"{tool.module} {tool.version} h1:" in (tool.folder / "go.sum").read_text(encoding="utf-8")
    if tool.overlay:
        assert (tool.folder / tool.overlay.by).is_file()


def test_one_program_is_built_on_two_releases_of_its_consumer(tool: build.Tool) -> None:
    printing = PROGRAM.replace('"os"', f'(\n\t"os"\n\n\t"{MODULE}/said"\n)').replace('"%s"', "said.Text")
    (tool.folder / "main.go").write_text(printing, encoding="utf-8")
    older = tool.folder.with_name("consumer-check-older")
    for pins, release in ((tool.folder, "./consumer"), (older, "./older")):
        said = tool.folder / release / "said" / "said.go"
        said.parent.mkdir(parents=True)
        said.write_text(f'package said\n\nconst Text = "{release}"\n', encoding="utf-8")
        pins.mkdir(exist_ok=True)
        go_mod = (tool.folder / "go.mod").read_text(encoding="utf-8")
        (pins / "go.mod").write_text(go_mod.replace("./consumer", release), encoding="utf-8")
    (tool.folder / "older" / "go.mod").write_text(f"module {MODULE}\n\ngo 1.24\n", encoding="utf-8")
    second = replace(tool, folder=older, sources=tool.name)
    assert (_output(_program(tool)), _output(_program(second))) == ("./consumer", "./older")

    first = _program(second)
    (tool.folder / "main.go").write_text(printing + "\n// Changed.\n", encoding="utf-8")
    assert _program(second) != first


def test_versions_that_belong_together_are_the_same() -> None:
    versions: dict[str, set[str]] = {}
    for tool in build.TOOLS.values():
        if not tool.sources:  # which is there for another version
            versions.setdefault(tool.module, set()).add(tool.version)
    assert [module for module, found in versions.items() if len(found) > 1] == []
    # Kubernetes publishes its parts under v0.
    kubernetes = build.TOOLS["kubernetes"]
    assert build.TOOLS["device-plugin"].version == kubernetes.version.replace("v1.", "v0.")
    replaced = re.findall(r"=> k8s\.io/\S+ (v\S+)$", (kubernetes.folder / "go.mod").read_text(encoding="utf-8"), re.M)
    assert set(replaced) == {build.TOOLS["device-plugin"].version}


def test_every_program_has_a_name_of_its_own() -> None:
    assert len(build.PROGRAMS) == sum(len(tool.programs) for tool in build.TOOLS.values())
    assert all(build.PROGRAMS.get(name, tool) is tool for name, tool in build.TOOLS.items())


@pytest.mark.parametrize("name", [name for name, tool in build.TOOLS.items() if any(tool.folder.glob("*_test.go"))])
def test_a_program_of_ours_passes_its_own_tests(name: str) -> None:
    assert "--- PASS" in build.test(build.TOOLS[name])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], [name for name, tool in build.TOOLS.items() if not tool.on_demand]),
        (["--on-demand"], list(build.TOOLS)),
        (["kubectl", "s3-server", "kubelet"], ["kubernetes", "s3-server"]),
        (["etcd", "--on-demand"], ["etcd", *(name for name, tool in build.TOOLS.items() if tool.on_demand)]),
    ],
)
def test_the_command_builds_what_is_asked_for(
    arguments: list[str],
    expected: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(build, "build", lambda tool: Path("/built", tool.name))
    monkeypatch.setattr(sys, "argv", ["build", *arguments])
    assert build.main() == 0
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [(line[0], line[-1]) for line in printed] == [(name, f"/built/{name}") for name in expected]


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
