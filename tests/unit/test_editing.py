"""`set`, `promote` and `migrate` as a user meets them: what is written, what is refused, and that nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from generator.cli import main
from tests.project import base, edited, make, sharing

ENVIRONMENT, VERSION, CLUSTER = (
    "environments/demo/environment.yaml",
    "environments/demo/version.yaml",
    "environments/_clusters/demo.yaml",
)


def at(root: Path, command: str, *args: str) -> int:
    return main([command, "--root", str(root), *args])


def texts(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def other(root: Path, version: str) -> Path:
    """A second environment on the base cluster."""
    folder = root / "environments/other"
    folder.mkdir()
    (folder / "environment.yaml").write_text(sharing("other"))
    (folder / "version.yaml").write_text(version)
    return root


def test_set_finds_the_file_of_each_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path)
    args = ("demo", "workers.gpu.nodes=1", "image.tag=train-ml-cuda-v1.0.0", "cluster:kubernetesVersion=1.35")
    before = texts(tmp_path)
    assert at(tmp_path, "set", *args, "--dry-run") == 0
    assert texts(tmp_path) == before
    assert at(tmp_path, "set", *args) == 0
    assert (tmp_path / ENVIRONMENT).read_text() == edited("environment.yaml", "nodes: 2", "nodes: 1")
    assert (tmp_path / VERSION).read_text() == edited("version.yaml", "v1.1.0", "v1.0.0")
    assert (tmp_path / CLUSTER).read_text() == edited("cluster.yaml", '"1.36"', '"1.35"')
    said = capsys.readouterr()
    assert "-    nodes: 2\n+    nodes: 1\n" in said.out
    assert said.err.endswith("next: python -m generator render demo\n")


def test_a_change_that_brings_an_error_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path)
    before = texts(tmp_path)
    assert at(tmp_path, "set", "demo", "workers.gpu.nodes=4", "job.runId=two") == 1
    said = capsys.readouterr().err
    assert "error[RTD801]" in said and f"{ENVIRONMENT}:8:12" in said
    assert "the change brings 1 error; nothing was changed" in said
    assert texts(tmp_path) == before
    assert at(tmp_path, "set", "demo", "workers.gpu.nodes=4", "policy.quota.gAndVtVcpu=192") == 0


def test_an_error_that_was_there_does_not_stop_its_own_repair(tmp_path: Path) -> None:
    make(tmp_path, environment=edited("environment.yaml", "nodes: 2", "nodes: two"))
    assert at(tmp_path, "set", "demo", "job.runId=again") == 0
    assert at(tmp_path, "set", "demo", "workers.gpu.nodes=2") == 0
    assert at(tmp_path, "validate") == 0


def test_an_error_for_a_neighbour_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other(make(tmp_path, environment=sharing("demo")), base("version.yaml"))
    assert at(tmp_path, "set", "other", "policy.quota.gAndVtVcpu=192") == 0
    assert at(tmp_path, "set", "demo", "workers.gpu.nodes=4") == 1
    assert "environments/other/environment.yaml" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("worker.gpu.nodes=1",), "there is no key `worker.gpu.nodes`; did you mean `workers.gpu.nodes`?"),
        (("nodes=1",), "did you mean `workers.gpu.nodes`?"),
        (("policy.quota.gAndVTVcpu=1",), "did you mean `policy.quota.gAndVtVcpu`?"),
        (("image.tags=x",), "there is no key `image.tags`; did you mean `image.tag`?"),
        (("cluster:regions=x",), "did you mean `region`?"),
        (("workers.gpu.nodes",), "`workers.gpu.nodes` is not KEY=VALUE"),
        (("workers.gpu.nodes=[",), "the value of workers.gpu.nodes is not YAML"),
        (("--unset", "job.nothing"), "there is no `job.nothing`"),
        (("a..b=1",), "`a..b` is not a key"),
    ],
)
def test_what_set_does_not_know(
    tmp_path: Path, args: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path)
    before = texts(tmp_path)
    assert at(tmp_path, "set", "demo", *args) == 2
    assert says in capsys.readouterr().err
    assert texts(tmp_path) == before


def test_unset_alone_and_options_anywhere(tmp_path: Path) -> None:
    make(tmp_path)
    assert main(["set", "demo", "--unset", "workers.gpu.efa", "--root", str(tmp_path), "job.runId=2"]) == 0
    text = edited("environment.yaml", "    efa: required\n", "").replace('runId: ""', 'runId: "2"')
    assert (tmp_path / ENVIRONMENT).read_text() == text
    assert at(tmp_path, "set", "demo", "--unset", "job.runId") == 0


def test_links_and_modes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make(tmp_path / "root")
    file = root / ENVIRONMENT
    file.chmod(0o640)
    real = root / "shared.yaml"
    file.rename(real)
    file.symlink_to("../../shared.yaml")
    assert at(root, "set", "demo", "job.runId=2") == 0
    assert file.is_symlink() and 'runId: "2"' in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o640
    outside = tmp_path / "outside.yaml"
    real.rename(outside)
    file.unlink()
    file.symlink_to(outside)
    assert at(root, "set", "demo", "job.runId=3") == 2
    assert "leads out of the project through a symbolic link" in capsys.readouterr().err
    assert 'runId: "2"' in outside.read_text()


def test_promote_keeps_the_comments_of_the_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = "# ours\n" + edited("version.yaml", "v1.1.0", "v1.0.0   # tried by us").replace("0" * 64, "1" * 64)
    other(make(tmp_path, environment=sharing("demo")), target)
    assert at(tmp_path, "promote", "demo", "other", "--dry-run") == 0
    assert (tmp_path / "environments/other/version.yaml").read_text() == target
    assert at(tmp_path, "promote", "demo", "other") == 0
    expected = "# ours\n" + edited("version.yaml", "v1.1.0", "v1.1.0   # tried by us")
    assert (tmp_path / "environments/other/version.yaml").read_text() == expected
    assert "the image changes: a new training starts" in capsys.readouterr().err
    assert at(tmp_path, "promote", "demo", "other") == 0
    assert "nothing to change" in capsys.readouterr().err


def test_promote_makes_a_version_that_is_missing(tmp_path: Path) -> None:
    other(make(tmp_path, environment=sharing("demo")), "")
    (tmp_path / "environments/other/version.yaml").unlink()
    assert at(tmp_path, "promote", "demo", "other") == 0
    assert (tmp_path / "environments/other/version.yaml").read_text() == base("version.yaml")


@pytest.mark.parametrize(
    ("source", "policy", "code", "says"),
    [
        (edited("version.yaml", "0" * 64, ""), True, 1, "run `python -m generator pin demo` first"),
        (edited("version.yaml", "repository: public", "repository: Public"), False, 1, "demo is not promoted"),
        (edited("version.yaml", '"2.58.0"', "2.58"), False, 1, "demo is not promoted"),
    ],
)
def test_promote_refuses(
    tmp_path: Path, source: str, policy: bool, code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = source.replace('"sha256:"', '""')
    other(make(tmp_path, environment=sharing("demo"), version=source), base("version.yaml"))
    if policy:
        assert at(tmp_path, "set", "other", "policy.requireDigest=true") == 0
    before = texts(tmp_path)
    assert at(tmp_path, "promote", "demo", "other") == code
    assert says in capsys.readouterr().err
    assert texts(tmp_path) == before
    assert at(tmp_path, "promote", "demo", "demo") == 2


FORMAT_0 = """\
# Our first training.
{number}name: demo                # kept
cluster: demo
workers:
  gpu: {{instanceType: g6.12xlarge, nodes: 2, availabilityZone: us-west-2a}}
image:                    # of AWS
  repository: public.ecr.aws/deep-learning-containers/ray
  tag: train-ml-cuda-v1.1.0   # the newest
rayVersion: "2.58.0"
training:
  storage: {{kind: s3, uri: s3://bucket/ray-train}}
"""


@pytest.mark.parametrize("number", ["", "schemaVersion: 0\n"])
@pytest.mark.parametrize("eol", ["\n", "\r\n"])
def test_migrate_raises_the_format_and_keeps_comments(tmp_path: Path, number: str, eol: str) -> None:
    make(tmp_path)
    old = FORMAT_0.format(number=number)
    (tmp_path / ENVIRONMENT).write_bytes(old.replace("\n", eol).encode())
    (tmp_path / VERSION).unlink()
    assert at(tmp_path, "validate") == 1
    assert at(tmp_path, "migrate", "--dry-run") == 0
    assert not (tmp_path / VERSION).exists()
    assert at(tmp_path, "migrate") == 0
    block = old[old.index("image:") : old.index("training:")]
    new = FORMAT_0.format(number="schemaVersion: 1\n").replace(block, "")
    assert (tmp_path / ENVIRONMENT).read_bytes() == new.replace("\n", eol).encode()
    assert (tmp_path / VERSION).read_bytes() == block.replace("\n", eol).encode()
    assert at(tmp_path, "validate") == 0
    before = texts(tmp_path)
    assert at(tmp_path, "migrate") == 0
    assert texts(tmp_path) == before


def test_migrate_loses_no_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path)
    (tmp_path / ENVIRONMENT).write_text(FORMAT_0.format(number=""))
    before = texts(tmp_path)
    assert at(tmp_path, "migrate") == 1
    assert "give two values for image" in capsys.readouterr().err
    (tmp_path / ENVIRONMENT).write_text(edited("environment.yaml", "schemaVersion: 1", "schemaVersion: 2"))
    assert at(tmp_path, "migrate") == 1
    assert "has format 2, but this version knows formats up to 1 only" in capsys.readouterr().err
    assert texts(tmp_path)[VERSION] == before[VERSION]


def test_what_is_no_longer_generated_is_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other(make(tmp_path, environment=sharing("demo")), base("version.yaml"))
    assert at(tmp_path, "render") == 0
    generated = tmp_path / "environments/other/generated/values.yaml"
    (tmp_path / "environments/other/environment.yaml").unlink()
    old = tmp_path / "eksctl/old.yaml"
    old.write_bytes((tmp_path / "eksctl/demo.yaml").read_bytes())
    ours = tmp_path / "eksctl/by-hand.yaml"
    ours.write_text("kind: ClusterConfig\n")
    assert at(tmp_path, "render", "--check") == 1
    said = capsys.readouterr().err
    assert "would remove: eksctl/old.yaml" in said and "would remove: environments/other/generated/values.yaml" in said
    assert at(tmp_path, "render", "demo") == 0
    assert old.exists() and generated.exists(), "nothing but demo was asked for"
    text = generated.read_text()
    generated.write_text(text + "# mine\n")
    assert at(tmp_path, "render") == 4
    assert "nothing generates it any more, but it was edited by hand" in capsys.readouterr().err
    assert old.exists()
    generated.write_text(text)
    assert at(tmp_path, "render") == 0
    assert (old.exists(), generated.exists(), ours.exists()) == (False, False, True)


def test_conflict_markers_in_a_generated_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path)
    assert at(tmp_path, "render") == 0
    path = tmp_path / "environments/demo/generated/values.yaml"
    text = path.read_text()
    path.write_text(f"<<<<<<< HEAD\n{text}=======\n{text}>>>>>>> theirs\n")
    assert at(tmp_path, "render") == 4
    assert "it holds Git's conflict markers; `render --force` writes it anew" in capsys.readouterr().err
    assert at(tmp_path, "render", "--force") == 0
    assert path.read_text() == text
