"""`new`: whatever it writes validates and renders at once."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from generator.catalog import LOCAL, instance_types, zones
from generator.cli import main
from generator.diagnostics import Severity
from generator.new import Choices, files
from generator.project import Project, UsageError
from generator.render import render
from generator.resolve import usable
from generator.rules import check
from generator.source import parse

ROOT = Path(__file__).resolve().parents[2]
USABLE = [found for found in instance_types().values() if usable(found.name)]
OFFERED = sorted(t.name for t in USABLE if t.name == LOCAL or any(t.offered_in(region) for region in zones()))


def write(root: Path, choices: Choices) -> Project:
    for path, text in files(Project(root), choices).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return Project(root)


def run(root: Path, *args: str) -> int:
    return main(["new", "--root", str(root), *args])


@pytest.mark.parametrize("nodes", [1, 2, 3])
@pytest.mark.parametrize("name", OFFERED)
def test_every_offered_type_validates_and_renders(tmp_path: Path, name: str, nodes: int) -> None:
    project = write(tmp_path, Choices(name="fresh", instance_type=name, nodes=nodes))
    loaded = project.load("fresh")
    assert [f for f in check(loaded) if f.severity is Severity.ERROR] == []
    assert loaded.environment.model is not None
    (group,) = loaded.environment.model.workers.values()
    assert (group.instance_type, group.nodes) == (name, nodes)
    tree = render(loaded)
    assert ("eksctl/fresh.yaml" in tree) == (name != LOCAL)


def test_usable_types_that_are_offered_nowhere_are_refused_in_words(tmp_path: Path) -> None:
    for found in USABLE:
        if found.name not in OFFERED:
            with pytest.raises(UsageError, match=f"{found.name} is not offered in us-west-2"):
                files(Project(tmp_path), Choices(name="fresh", instance_type=found.name))


def test_most_types_are_offered() -> None:
    assert len(OFFERED) > 25


@pytest.mark.parametrize(
    ("storage", "kind"), [("s3://bucket/a/b", "s3"), ("s3://bucket", "s3"), ("fsx:claim", "fsx"), ("pvc:null", "pvc")]
)
def test_forms_of_storage(tmp_path: Path, storage: str, kind: str) -> None:
    model = write(tmp_path, Choices(name="fresh", storage=storage)).load("fresh").environment.model
    assert model is not None
    assert model.training.storage.kind == kind
    assert getattr(model.training.storage, "uri", storage) == storage
    assert getattr(model.training.storage, "claim_name", storage.partition(":")[2]) == storage.partition(":")[2]


def test_no_storage_on_one_node(tmp_path: Path) -> None:
    model = write(tmp_path, Choices(name="fresh", storage="none", nodes=1)).load("fresh").environment.model
    assert model is not None and model.training.storage.kind == "none"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["../x"], "cannot be a name"),
        (["Foo"], "cannot be a name"),
        (["a" * 39], "cannot be a name"),
        (["x/"], "cannot be a name"),
        (["a\n"], "cannot be a name"),
        (["_clusters"], "cannot be a name"),
        ([""], "cannot be a name"),
        (["x", "--cluster", "../y"], "cannot be a name"),
        (["x", "--namespace", "a: b"], "`namespace` is `a: b`"),
        (["x", "--namespace", "kube system"], "`namespace` is"),
        (["x", "--storage", "s3://bucket/x # y"], "is not an S3 location"),
        (["x", "--storage", "http://bucket"], "--storage http://bucket is none of"),
        (["x", "--storage", "pvc:"], "--storage pvc: is none of"),
        (["x", "--storage", "pvc:A b"], "`training.storage.claimName` is `A b`"),
        (["x", "--storage", "none"], "2 nodes need storage that all of them reach"),
        (["x", "--zone", "us-east-1a"], "us-east-1a is not a zone of us-west-2"),
        (["x", "--zone", "a, b"], "availability zone such as us-west-2a"),
        (["x", "--region", "mars-1"], "--region mars-1 is not in the catalogue"),
        (["x", "--nodes", "0"], "--nodes must be at least 1"),
        (["x", "--nodes", "1001"], "must be at most 1000"),
        (["x", "--instance-type", "g6.12xlrge"], "nearest: g6.12xlarge"),
        (["x", "--instance-type", "g4dn.12xlarge"], "cannot be used for workers: its GPU (T4)"),
        (["x", "--instance-type", "m7i.xlarge"], "cannot be used for workers: it has no GPU"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else None,
)
def test_what_cannot_be_is_refused_and_nothing_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], args: list[str], says: str
) -> None:
    assert run(tmp_path, *args) == 2
    assert says in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["null", "true", "yes", "on", "n"])
def test_names_that_yaml_reads_as_something_else(tmp_path: Path, name: str) -> None:
    project = write(tmp_path, Choices(name=name, namespace=name))
    model = project.load(name).environment.model
    assert model is not None and (model.name, model.cluster, model.namespace) == (name, name, name)


def test_an_existing_environment_is_refused_and_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "one") == 0
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert run(tmp_path, "one", "--nodes", "4") == 4
    assert "there is already environments/one/environment.yaml" in capsys.readouterr().err
    (tmp_path / "environments/one/environment.yaml").unlink()
    assert run(tmp_path, "one") == 4  # its version.yaml is still there
    (tmp_path / "environments/one/environment.yaml").write_bytes(before[tmp_path / "environments/one/environment.yaml"])
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_a_cluster_that_exists_is_used_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "one", "--region", "us-east-1", "--zone", "us-east-1c") == 0
    before = (tmp_path / "environments/_clusters/one.yaml").read_bytes()
    assert b"[us-east-1a, us-east-1c]" in before
    assert run(tmp_path, "two", "--cluster", "one") == 0
    assert (tmp_path / "environments/_clusters/one.yaml").read_bytes() == before
    assert not (tmp_path / "environments/_clusters/two.yaml").exists()
    loaded = Project(tmp_path).load("two")
    assert loaded.environment.model is not None
    assert loaded.environment.model.workers["gpu"].availability_zone == "us-east-1a"
    assert run(tmp_path, "three", "--cluster", "one", "--region", "us-west-2") == 2
    assert run(tmp_path, "three", "--cluster", "one", "--zone", "us-east-1f") == 2
    assert "us-east-1f is not among the zones of cluster `one`" in capsys.readouterr().err
    assert run(tmp_path, "three", "--cluster", "one", "--instance-type", LOCAL) == 2
    (tmp_path / "environments/_clusters/one.yaml").write_text("name: [")
    assert run(tmp_path, "three", "--cluster", "one") == 2
    assert "the cluster `one` has errors" in capsys.readouterr().err


def test_node_groups_of_neighbours_are_not_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "one") == 0
    path = tmp_path / "environments/one/environment.yaml"
    path.write_text(path.read_text().replace("  gpu:\n", "  x-gpu:\n"))
    assert run(tmp_path, "one-x", "--cluster", "one") == 2
    assert "the node group `one-x-gpu` is also that of environment `one`" in capsys.readouterr().err


@pytest.mark.parametrize(
    "choices",
    [
        Choices(name="fresh"),
        Choices(name="fresh", instance_type=LOCAL, nodes=5),
        Choices(name="fresh", instance_type="p5.48xlarge", nodes=3, storage="fsx:claim"),
        Choices(name="e" * 38, cluster="c" * 30, instance_type="g6.xlarge", nodes=1),
    ],
    ids=["default", "local", "p5", "long names"],
)
def test_what_is_written_is_pretty(tmp_path: Path, choices: Choices) -> None:
    written = files(Project(tmp_path), choices)
    for path, text in written.items():
        assert text.endswith("\n") and not text.endswith("\n\n"), path
        columns = set()
        for line in text.splitlines():
            assert line == line.rstrip(), path
            before, mark, _ = line.rpartition(" # ")
            if mark and before.strip() and len(before.rstrip()) < 36:  # a longer text pushes its comment away
                columns.add(len(before) + 1)
        assert columns <= {36}, f"{path}: comments start at {sorted(columns)}"
    for path, text in written.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    lint = subprocess.run(
        [sys.executable, "-m", "yamllint", "--strict", "-c", str(ROOT / ".yamllint"), str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert lint.returncode == 0, lint.stdout


def test_every_key_that_is_written_says_what_it_is(tmp_path: Path) -> None:
    text = files(Project(tmp_path), Choices(name="fresh"))["environments/fresh/environment.yaml"]
    assert text.startswith("# yaml-language-server: $schema=../environment.schema.json\n")
    bare = [line for line in text.splitlines() if line and "#" not in line]
    assert len(bare) < len(text.splitlines()) / 2


def test_what_is_commented_out_is_valid_too(tmp_path: Path) -> None:
    path = "environments/fresh/environment.yaml"
    project = write(tmp_path, Choices(name="fresh"))
    text = (tmp_path / path).read_text()
    opened = re.sub(r"(?m)^( +)# (cpu|memory|quota): ", r"\1\2: ", text)
    assert opened.count("\n") == text.count("\n") and opened != text
    (tmp_path / path).write_text(opened)
    assert parse(opened.encode(), path).findings == ()
    found = [f for f in check(Project(tmp_path).load("fresh")) if f.severity is Severity.ERROR]
    assert found == []
    assert project.names() == ["fresh"]


def test_the_default_project_can_be_used_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "one") == 0
    assert "python -m generator validate one" in capsys.readouterr().out
    assert main(["validate", "--root", str(tmp_path)]) == 0
    assert main(["render", "--root", str(tmp_path)]) == 0
    assert main(["render", "--check", "--root", str(tmp_path)]) == 0
