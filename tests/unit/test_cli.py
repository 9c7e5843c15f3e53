"""The command line as a user meets it: a process, its exit code, its output."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from generator.cli import main
from tests.project import base, edited, make, sharing

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = (
    "validate", "render", "plan", "explain", "new", "set", "pin", "promote", "migrate", "schema", "local", "completion"
)  # fmt: skip


def start(*args: str, cwd: Path = ROOT, **rest: object) -> subprocess.Popen[str]:
    options: dict[str, object] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    return subprocess.Popen([sys.executable, "-m", "generator", *args], cwd=cwd, env=environment, **(options | rest))  # type: ignore[call-overload, no-any-return]


def run(*args: str, cwd: Path = ROOT) -> tuple[int, str, str]:
    """(exit code, stdout, stderr); a traceback fails the test whatever the code."""
    process = start(*args, cwd=cwd)
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in err, err
    return process.returncode, out, err


def at(root: Path, *args: str, cwd: Path = ROOT) -> tuple[int, str, str]:
    return run(args[0], "--root", str(root), *args[1:], cwd=cwd)


def test_validate_and_its_exit_codes(tmp_path: Path) -> None:
    make(tmp_path)
    assert at(tmp_path, "validate") == (0, "", "demo: no findings\n")
    make(tmp_path, environment=edited("environment.yaml", "efa: required", "efa: disabled"))
    code, out, err = at(tmp_path, "validate")
    assert (code, err) == (0, "demo: 1 warning\n")
    assert out.startswith("warning[RTD306]: 2 nodes will talk over TCP: EFA is disabled\n")
    make(tmp_path, environment=edited("environment.yaml", "nodes: 2", "nodes: two"))
    code, out, err = at(tmp_path, "validate", "demo")
    assert (code, err) == (1, "demo: 1 error\n")
    assert "  --> environments/demo/environment.yaml:8:12\n" in out


def test_validate_without_names_takes_all(tmp_path: Path) -> None:
    make(tmp_path)
    folder = tmp_path / "environments/broken"
    folder.mkdir()
    (folder / "environment.yaml").write_text("[")
    code, _, err = at(tmp_path, "validate")
    assert code == 1
    assert err.startswith("broken, demo: ")
    assert at(tmp_path, "validate", "demo")[0] == 0


@pytest.mark.parametrize("output", ["json", "concise", "github"])
def test_other_outputs_print_findings_and_nothing_else(tmp_path: Path, output: str) -> None:
    make(tmp_path, environment=edited("environment.yaml", "nodes: 2", "nodes: 3"))
    code, out, err = at(tmp_path, "validate", "--output", output)
    assert (code, err) == (1, "")
    if output == "json":
        found = json.loads(out)["findings"]
        assert {f["code"] for f in found} == {"RTD109", "RTD801"}
    else:
        assert len(out.splitlines()) == 2


def test_an_environment_may_be_a_path(tmp_path: Path) -> None:
    make(tmp_path)
    folder = tmp_path / "environments/demo"
    for given in (str(folder), f"{folder}/", str(folder / "environment.yaml")):
        assert at(tmp_path, "validate", given)[0] == 0
    assert at(tmp_path, "validate", "demo", cwd=tmp_path)[0] == 0
    assert run("validate", "environments/demo/", cwd=tmp_path)[0] == 0
    assert run("validate", "--root", "../..", ".", cwd=folder)[0] == 0
    assert run("validate", "demo", "environments/demo", "--output", "json", cwd=tmp_path)[0] == 0


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("demoo", "no environment `demoo` under {root}/environments; did you mean `demo`?"),
        ("zzz", "no environment `zzz` under {root}/environments; there are: demo"),
        ("../x", "no environment `../x`"),
        ("../../etc", "no environment `../../etc`"),
        ("/etc", "no environment `/etc`"),
        ("", "no environment ``"),
        (".", "no environment `.`"),
        ("_clusters", "environments/_clusters holds no environment.yaml"),
        ("empty", "environments/empty holds no environment.yaml"),
        ("demo/../demo/x", "no environment `demo/../demo/x`"),
    ],
)
def test_names_that_are_no_environment(tmp_path: Path, given: str, says: str) -> None:
    make(tmp_path)
    (tmp_path / "environments/empty").mkdir()
    for command in ("validate", "render", "plan"):
        code, out, err = at(tmp_path, command, given)
        assert (code, out) == (2, "")
        assert says.format(root=tmp_path) in err
        assert err.count("\n") == 1


def test_a_project_without_environments(tmp_path: Path) -> None:
    code, _, err = run("validate", cwd=tmp_path)
    assert code == 2
    assert str(tmp_path / "environments") in err
    assert "--root" in err and "python -m generator new NAME" in err
    assert run("schema", "--write", cwd=tmp_path)[0] == 2
    code, _, err = at(tmp_path / "nowhere", "validate")
    assert code == 2
    assert "nowhere is not a folder" in err


def test_render_then_check_is_silent_and_zero(tmp_path: Path) -> None:
    make(tmp_path)
    code, out, err = at(tmp_path, "render", "--check")
    assert code == 1
    assert '+clusterName: "demo"' in out
    assert "would change: eksctl/demo.yaml" in err
    assert not (tmp_path / "eksctl").exists()
    code, out, _ = at(tmp_path, "render")
    assert code == 0
    assert out.split() == ["new", "eksctl/demo.yaml", "new", "environments/demo/generated/values.yaml"]
    assert at(tmp_path, "render", "--check") == (0, "", "")
    assert at(tmp_path, "render")[1].split()[::2] == ["unchanged", "unchanged"]


def test_edits_by_hand_stop_the_render(tmp_path: Path) -> None:
    make(tmp_path)
    assert at(tmp_path, "render")[0] == 0
    path = tmp_path / "environments/demo/generated/values.yaml"
    path.write_text(path.read_text().replace("replicas: 2", "replicas: 9"))
    make(tmp_path, cluster=edited("cluster.yaml", "count: 1", "count: 2"))  # would change the other file
    before = (tmp_path / "eksctl/demo.yaml").read_bytes()
    for args in (("render",), ("render", "--check")):
        code, out, err = at(tmp_path, *args)
        assert (code, out) == (4, "")
        assert "refused: environments/demo/generated/values.yaml: it was edited by hand" in err
        assert "--force" in err
    assert (tmp_path / "eksctl/demo.yaml").read_bytes() == before
    assert at(tmp_path, "render", "--force")[0] == 0
    assert "replicas: 2" in path.read_text()


def test_a_place_that_is_taken_is_not_for_force(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "environments/demo/generated/values.yaml").mkdir(parents=True)
    for args in (("render",), ("render", "--force")):
        code, _, err = at(tmp_path, *args)
        assert code == 4
        assert "it is not a file; move it away" in err
        assert "discard them with --force" not in err


def test_errors_stop_render_and_plan(tmp_path: Path) -> None:
    make(tmp_path, environment=edited("environment.yaml", "nodes: 2", "nodes: two"))
    for command in ("render", "plan"):
        code, out, err = at(tmp_path, command)
        assert (code, out) == (1, "")
        assert "error[RTD104]" in err
        assert err.endswith("error: 1 error; nothing was done\n")
    assert not (tmp_path / "eksctl").exists()


def test_plan_as_json_is_one_object_or_a_list(tmp_path: Path) -> None:
    make(tmp_path, environment=sharing("demo"))
    assert json.loads(at(tmp_path, "plan", "--output", "json")[1])["environment"] == "demo"
    other = tmp_path / "environments/other"
    other.mkdir()
    (other / "environment.yaml").write_text(sharing("other"))
    (other / "version.yaml").write_text(base("version.yaml"))
    plans = json.loads(at(tmp_path, "plan", "--output", "json")[1])
    assert [p["environment"] for p in plans] == ["demo", "other"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    code, out, err = run(command, "-h")
    assert (code, err) == (0, "")
    assert out.startswith(f"usage: python -m generator {command}")
    assert ("--root DIR" in out) == (command != "completion")  # which reads no project


def test_help_lists_every_command_and_exit_code() -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert set(re.findall(r"^    ([a-z]+)(?: |$)", out, re.MULTILINE)) == set(COMMANDS)
    assert "exit codes: 0 ok; 1 findings" in out
    assert run("--version")[1].strip().count(".") == 2


@pytest.mark.parametrize("args", [(), ("frob",), ("validate", "--frob"), ("validate", "--output", "xml"), ("new",)])
def test_wrong_usage(args: tuple[str, ...]) -> None:
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert err.startswith("usage: ")


def test_the_output_may_have_no_reader(tmp_path: Path) -> None:
    make(tmp_path, environment=edited("environment.yaml", "nodes: 2", "nodes: two"))
    reading, writing = os.pipe()
    os.close(reading)
    process = start("validate", "--root", str(tmp_path), stdout=writing)
    os.close(writing)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1, "the findings count whether or not someone reads them"
    assert "Traceback" not in err and "Exception" not in err


def test_a_full_disk_under_the_output(tmp_path: Path) -> None:
    make(tmp_path)
    with Path("/dev/full").open("w") as full:
        process = start("validate", "--root", str(tmp_path), "--output", "json", stdout=full)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (5, "error: No space left on device\n")


def test_a_terminal_without_unicode(tmp_path: Path) -> None:
    make(tmp_path)
    process = subprocess.run(
        [sys.executable, "-m", "generator", "plan", "--root", str(tmp_path)],
        cwd=ROOT, env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert b"2 \\xd7 g6.12xlarge" in process.stdout


def test_names_that_are_no_text(tmp_path: Path) -> None:
    make(tmp_path)
    folder = Path(os.fsdecode(os.fsencode(tmp_path / "environments") + b"/b\xff"))
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("the file system takes UTF-8 names only")
    (folder / "environment.yaml").write_text(base("environment.yaml"))
    code, out, _ = at(tmp_path, "validate")
    assert code == 1
    assert "\\udcff" in out


def test_an_interrupt_ends_it_with_130(tmp_path: Path) -> None:
    make(tmp_path)
    for number in range(400):  # seconds of work
        folder = tmp_path / f"environments/e{number}"
        folder.mkdir()
        (folder / "environment.yaml").write_text(edited("environment.yaml", "name: demo", f"name: e{number}"))
    process = start(
        "validate", "--root", str(tmp_path), preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    )
    maps = Path(f"/proc/{process.pid}/maps")
    deadline = time.monotonic() + 60
    while "pydantic_core" not in maps.read_text():  # from here on our own code runs
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    sent = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert time.monotonic() - sent < 15
    assert (out, "Traceback" in err) == ("", False)


HEAVY = ("torch", "ray", "boto3", "transformers", "jinja2", "kubernetes", "jsonschema", "yaml")


def loaded_modules(code: str) -> set[str]:
    process = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint('MODULES', *sys.modules)"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return set(process.stdout.split("MODULES")[1].split())


def test_validate_and_plan_load_nothing_heavy() -> None:
    for args in ("['validate', 'demo', 'local']", "['plan', 'demo']"):
        found = loaded_modules(f"from generator.cli import main\nassert main({args}) == 0")
        assert not found & set(HEAVY)


def test_help_loads_nothing_heavy() -> None:
    code = "from generator.cli import main\ntry: main(['local', '-h'])\nexcept SystemExit: pass"
    assert not loaded_modules(code) & set(HEAVY)


def test_a_huge_project_is_not_read_for_one_environment(tmp_path: Path) -> None:
    """Environments of other clusters are not parsed: with them it must not take noticeably longer."""
    make(tmp_path)
    for number in range(300):
        folder = tmp_path / f"environments/e{number}"
        folder.mkdir()
        text = edited("environment.yaml", "name: demo", f"name: e{number}").replace("cluster: demo", "cluster: other")
        (folder / "environment.yaml").write_text(text)
    code = (
        "import generator.source as source\n"
        "from generator import project\n"
        "from pathlib import Path\n"
        "calls = []\n"
        "real = project.read\n"
        "project.read = lambda path, name: calls.append(name) or real(path, name)\n"
        f"project.Project(Path({str(tmp_path)!r})).load('demo')\n"
        "print('CALLS', len(calls))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert process.stdout.strip() == "CALLS 3"


@pytest.mark.parametrize(
    ("here", "root"), [("", ()), ("", ("--root", ".")), ("..", ("--root", "project")), ("down", ("--root", ".."))]
)
def test_commands_that_write_take_the_current_folder_and_relative_ones(
    here: str, root: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As everybody calls them. Several files at once, which takes the journal."""
    project = tmp_path / "project"
    (project / "down").mkdir(parents=True)
    monkeypatch.chdir(project / here)
    for name in ("one", "two"):
        assert main(["new", *root, name, "--storage", "s3://my-bucket/runs"]) == 0
        assert main(["render", *root, name]) == 0
    assert main(["set", *root, "one", "workers.gpu.nodes=2", "image.tag=train-ml-cuda-v1.0.0"]) == 0
    assert main(["promote", *root, "one", "two"]) == 0
    assert main(["render", *root]) == 0
    assert main(["render", *root, "--check"]) == 0
    written = sorted(str(p.relative_to(project)) for p in project.rglob("*") if p.is_file() and "schema" not in p.name)
    assert written == sorted(
        path
        for name in ("one", "two")
        for path in (
            f"eksctl/{name}.yaml",
            f"environments/_clusters/{name}.yaml",
            *(f"environments/{name}/{file}" for file in ("environment.yaml", "version.yaml", "generated/values.yaml")),
        )
    )
