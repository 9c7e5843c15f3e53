"""`explain`: each effective value with its unit and its origin; the meaning of a code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from generator.cli import main
from generator.diagnostics import CODES
from generator.explain import Value, explain
from generator.project import Project
from generator.resolve import resolve
from tests.project import base, edited, make


def values(root: Path, **replaced: str) -> dict[str, Value]:
    found = explain(Project(make(root, **replaced)).load("demo"))
    assert len({value.key for value in found}) == len(found), "a key stands twice"
    return {value.key: value for value in found}


def said(value: Value) -> tuple[object, str, str]:
    return value.value, value.unit, str(value.origin)


def test_every_value_says_where_it_comes_from(tmp_path: Path) -> None:
    text = edited("environment.yaml", "    gpusPerNode: 4\n    efa: required\n", "")
    found = values(tmp_path, environment=text)
    own = "environments/demo/environment.yaml"
    for key, value, unit, origin in [
        ("workers.gpu.nodes", 2, "nodes", f"{own}:8"),
        ("workers.gpu.gpusPerNode", 4, "GPUs", "catalogue: instances.csv: the instance type g6.12xlarge has 4 GPUs"),
        ("workers.gpu.processesPerNode", 4, "ranks", "one rank per GPU"),
        ("workers.gpu.efa", "required", "", "g6.12xlarge has EFA, and 2 nodes talk to each other"),
        ("workers.gpu.capacity.id", "", "", "default"),
        ("head.memory", 8, "GiB", f"{own}:11"),
        ("policy.quota.gAndVtVcpu", 96, "vCPU", f"{own}:18"),
        ("training.args.steps", 200, "", f"{own}:14"),
        ("training.args.micro_batch_size", 4, "sequences", "the preset qwen2.5-1.5b"),
        ("training.args.start_timeout", 300, "seconds", "default"),
        ("version.rayVersion", "2.58.0", "", "environments/demo/version.yaml:5"),
        ("cluster.region", "us-west-2", "", "environments/_clusters/demo.yaml:3"),
        ("cluster.availabilityZones", ["us-west-2a", "us-west-2b"], "", "environments/_clusters/demo.yaml:5"),
        ("derived.ranks", 8, "ranks", "2 × 4 of gpu"),
        ("derived.workers.gpu.interfaces", 1, "EFA interfaces",
         "catalogue: instances.csv: the instance type g6.12xlarge has 1 EFA interface"),
        ("derived.workers.gpu.nodeGroup", "demo-gpu", "", "<environment>-<group>"),
    ]:  # fmt: skip
        assert said(found[key]) == (value, unit, origin), key
    assert found["derived.workers.gpu.transport"].value == "EFA, SENDRECV, without GPUDirect RDMA"
    assert "g6.12xlarge" in str(found["workers.gpu.memory"].origin)


def test_derived_numbers_are_those_that_are_rendered(tmp_path: Path) -> None:
    for name, text in {
        "efa": base("environment.yaml"),
        "alone": edited("environment.yaml", "nodes: 2", "nodes: 1").replace("    efa: required\n", ""),
        "tcp": edited("environment.yaml", "efa: required", "efa: disabled"),
    }.items():
        loaded = Project(make(tmp_path / name, environment=text)).load("demo")
        model, cluster = loaded.environment.model, loaded.cluster
        assert model is not None and cluster is not None
        (group,) = resolve(model, cluster.model).groups
        found = {value.key: value.value for value in explain(loaded)}
        here = "workers.gpu"
        assert found[f"{here}.memory"] * 1024 == group.memory_mib
        assert found[f"{here}.cpu"] == group.cpu
        assert (found[f"{here}.efa"] == "required") == (group.interfaces > 0)
        assert found[f"derived.{here}.interfaces"] == group.interfaces
        transport = {"efa": "EFA, SENDRECV, without GPUDirect RDMA", "alone": "none", "tcp": "TCP"}[name]
        assert found[f"derived.{here}.transport"] == transport


def test_a_value_of_a_layer_is_in_the_layer(tmp_path: Path) -> None:
    (tmp_path / "environments/_base").mkdir(parents=True)
    (tmp_path / "environments/_base/gpu.yaml").write_text(
        edited("environment.yaml", "schemaVersion: 1\nname: demo\n", "")
    )
    own = "schemaVersion: 1\nname: demo\nextends: gpu\nworkers: {gpu: {nodes: 3}}\nhead: null\n"
    found = values(tmp_path, environment=own)
    assert str(found["workers.gpu.instanceType"].origin) == "environments/_base/gpu.yaml:5"
    assert str(found["workers.gpu.nodes"].origin) == "environments/demo/environment.yaml:4"
    assert said(found["head.cpu"]) == (2, "vCPU", "default")


def run(root: Path, *args: str) -> int:
    return main(["explain", "--root", str(root), *args])


def test_keys_choose_what_is_under_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path)
    assert run(tmp_path, "demo", "head", "workers.gpu.nodes") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["workers.gpu.nodes", "head.cpu", "head.memory"]
    assert len({re.match(r"\S+ +\d+ \S+ +", line).end() for line in lines}) == 1  # type: ignore[union-attr]  # aligned


def test_an_unknown_key_names_the_nearest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path)
    assert run(tmp_path, "demo", "workers.gpu.node") == 2
    assert "there is no key `workers.gpu.node`; did you mean `workers.gpu.nodes`" in capsys.readouterr().err
    assert run(tmp_path, "demo", "hea") == 2
    assert "did you mean `head`" in capsys.readouterr().err


def test_json_gives_every_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path)
    keys = ("head.cpu", "namespace", "derived.gpus", "derived.workers.gpu.vcpu")
    assert run(tmp_path, "demo", *keys, "--output", "json") == 0
    out = json.loads(capsys.readouterr().out)
    assert out["version"] == 1
    origins = {value["key"]: value["origin"] for value in out["values"]}
    assert origins["head.cpu"] == {
        "kind": "file",
        "file": "environments/demo/environment.yaml",
        "line": 13,
        "column": 13,
    }
    assert origins["derived.gpus"] == {"kind": "derived", "fact": "2 × 4 of gpu"}
    assert origins["derived.workers.gpu.vcpu"] == {
        "kind": "catalogue",
        "file": "generator/catalog/instances.csv",
        "fact": "the instance type g6.12xlarge has 48 vCPU",
    }


def test_what_rules_find_is_no_obstacle_and_what_cannot_be_read_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path, environment=edited("environment.yaml", "nodes: 2", "nodes: 4"))  # RTD801
    assert run(tmp_path, "demo", "derived.gpus") == 0
    make(tmp_path, environment=edited("environment.yaml", "nodes: 2", "nodes: x"))
    capsys.readouterr()
    assert run(tmp_path, "demo") == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "error[RTD104]" in captured.err


def test_a_code_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for code in CODES:
        assert run(tmp_path, code.lower()) == 0
        out = capsys.readouterr().out
        assert code in out
        assert CODES[code].title in out
    assert run(tmp_path, "RTD899") == 2
    assert "there is no code RTD899" in capsys.readouterr().err
