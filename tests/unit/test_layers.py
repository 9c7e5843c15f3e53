"""Layers: what wins, where a finding points, and what is said about the layers themselves."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from generator.commands.common import all_findings
from generator.diagnostics import Finding
from generator.diagnostics.finding import Pointer
from generator.layers import MAX_DEPTH, Layered
from generator.project import Project, sources
from generator.render import render
from generator.rules import check
from tests.project import base, edited, make

ROOT = Path(__file__).resolve().parents[2]
GPU = "environments/_base/gpu.yaml"
OWN = "schemaVersion: 1\nname: demo\nextends: {extends}\n"


def project(root: Path, environment: str, **layers: str) -> Project:
    """Environment `demo` over layers; an underscore in a layer's name stands for a hyphen."""
    make(root, environment=environment)
    folder = root / "environments/_base"
    folder.mkdir(exist_ok=True)
    for name, text in layers.items():
        (folder / f"{name.replace('_', '-')}.yaml").write_text(text)
    return Project(root)


def whole() -> str:
    """The base environment without its name: a layer that is complete but for that."""
    return edited("environment.yaml", "schemaVersion: 1\nname: demo\n", "")


def findings(loaded: Project, folder: str = "demo") -> list[Finding]:
    return [f for f in check(loaded.load(folder)) if f.code != "RTD403"]


def places(found: list[Finding]) -> list[tuple[str, str, int, int]]:
    return [(f.code, f.file, f.range.start.line, f.range.start.column) for f in found]


def data(root: Path, extends: str, own: str = "", **layers: str) -> dict[str, Any]:
    """The merged data of an environment, without what all of them have."""
    source = project(root, OWN.format(extends=extends) + own, **layers).environment("demo").source
    return {k: v for k, v in source.data.items() if k not in ("schemaVersion", "name", "extends")}


def test_an_environment_takes_what_it_does_not_say_from_its_layer(tmp_path: Path) -> None:
    loaded = project(tmp_path, OWN.format(extends="gpu"), gpu=whole())
    assert findings(loaded) == []
    model = loaded.environment("demo").model
    plain = Project(make(tmp_path / "plain")).environment("demo").model
    assert model is not None and plain is not None
    assert model.model_dump(exclude={"extends"}) == plain.model_dump(exclude={"extends"})


@pytest.mark.parametrize(
    ("extends", "own", "layers", "merged"),
    [
        # maps merge, the rest is replaced
        ("a", "head: {cpu: 2}\n", {"a": "head: {cpu: 1, memory: 1Gi}\n"}, {"head": {"cpu": 2, "memory": "1Gi"}}),
        ("a", "x: [3]\n", {"a": "x: [1, 2]\n"}, {"x": [3]}),
        ("a", "x: 1\n", {"a": "x: {y: 1}\n"}, {"x": 1}),
        # later in the list wins, whatever the file's names
        ("[a, b]", "", {"a": "mode: job\n", "b": "mode: cluster\n"}, {"mode": "cluster"}),
        ("[b, a]", "", {"a": "mode: job\n", "b": "mode: cluster\n"}, {"mode": "job"}),
        # a layer stands below all that extend it, once: b does not bring c's value over a's
        ("[a, b]", "", {"a": "extends: c\nx: a\n", "b": "extends: [c]\ny: b\n", "c": "x: c\ny: c\nz: c\n"},
         {"x": "a", "y": "b", "z": "c"}),
        ("[a, c]", "", {"a": "extends: c\nx: a\n", "c": "x: c\n"}, {"x": "a"}),
        # null removes, and what was removed may be set again above
        ("a", "head: null\n", {"a": "head: {cpu: 1}\nmode: job\n"}, {"mode": "job"}),
        ("a", "head:\n  cpu:\n", {"a": "head: {cpu: 1, memory: 1Gi}\n"}, {"head": {"memory": "1Gi"}}),
        ("[a, b]", "head: {cpu: 3}\n", {"a": "head: {cpu: 1, memory: 1Gi}\n", "b": "head: ~\n"}, {"head": {"cpu": 3}}),
        # another kind of thing takes nothing over
        ("a", "training: {storage: {kind: fsx, claimName: c}}\n", {"a": "training: {storage: {kind: s3, uri: u}}\n"},
         {"training": {"storage": {"kind": "fsx", "claimName": "c"}}}),
        ("a", "training: {storage: {kind: s3}}\n", {"a": "training: {storage: {kind: s3, uri: u}}\n"},
         {"training": {"storage": {"kind": "s3", "uri": "u"}}}),
        ("a", "workers: {g: {capacity: {kind: spot}}}\n",
         {"a": "workers: {g: {nodes: 2, capacity: {kind: reservation, id: cr-1}}}\n"},
         {"workers": {"g": {"nodes": 2, "capacity": {"kind": "spot"}}}}),
        ("a", "training: {args: {kind: x}}\n", {"a": "training: {args: {kind: y, steps: 1}}\n"},
         {"training": {"args": {"kind": "x", "steps": 1}}}),
    ],
)  # fmt: skip
def test_what_wins(tmp_path: Path, extends: str, own: str, layers: dict[str, str], merged: dict[str, Any]) -> None:
    assert data(tmp_path, extends, own, **layers) == merged


def test_findings_of_shape_and_rules_point_at_the_file_that_set_the_value(tmp_path: Path) -> None:
    layer = whole().replace("nodes: 2", "nodes: 4").replace("cpu: 2,", "cpu: 40,").replace("mode: job", "modus: job")
    loaded = project(tmp_path, OWN.format(extends="gpu") + "job: {runId: 7}\n", gpu=layer)
    found = findings(loaded)
    assert [(f.code, f.file.rpartition("/")[2], f.pointer) for f in found] == [
        ("RTD801", "gpu.yaml", "/workers/gpu/nodes"),
        ("RTD205", "gpu.yaml", "/head"),
        ("RTD103", "gpu.yaml", "/modus"),
        ("RTD104", "environment.yaml", "/job/runId"),
    ]
    texts = sources([loaded.load("demo")])
    for finding, mark in zip(found, ("4", "head", "modus", "7"), strict=True):
        line = texts[finding.file].splitlines()[finding.range.start.line - 1]
        assert line[finding.range.start.column - 1 : finding.range.end.column - 1] == mark


def test_what_is_missing_everywhere_is_said_in_the_environment(tmp_path: Path) -> None:
    layer = whole().replace("    instanceType: g6.12xlarge\n", "").replace("cluster: demo\n", "")
    (cluster, kind) = findings(project(tmp_path, OWN.format(extends="gpu"), gpu=layer))
    assert (cluster.code, kind.code) == ("RTD105", "RTD105")
    assert {f.file for f in (cluster, kind)} == {"environments/demo/environment.yaml"}
    assert (cluster.range.start.line, kind.range.start.line) == (3, 3)  # extends
    assert kind.notes == ("`workers.gpu` stands in environments/_base/gpu.yaml:3:3",)
    own = OWN.format(extends="gpu") + "cluster: demo\nworkers:\n  gpu:\n    nodes: 3\n"
    (kind,) = findings(project(tmp_path, own, gpu=layer))
    assert places([kind]) == [("RTD105", "environments/demo/environment.yaml", 6, 3)]


def test_a_wrong_value_in_a_layer_is_said_once_also_where_it_is_replaced(tmp_path: Path) -> None:
    loaded = project(tmp_path, OWN.format(extends="gpu") + "mode: job\n", gpu=whole().replace("mode: job", "mode: x"))
    for name in ("second", "third"):
        folder = tmp_path / "environments" / name
        folder.mkdir()
        (folder / "environment.yaml").write_text(f"schemaVersion: 1\nname: {name}\nextends: [gpu]\n")
        (folder / "version.yaml").write_text(base("version.yaml"))
    found = all_findings([loaded.load(name) for name in loaded.names()])
    assert [f.pointer for f in found if f.code == "RTD104"] == ["/mode"]
    assert "RTD104" in {f.code for f in findings(loaded)}
    model = loaded.environment("demo").model
    assert model is not None and model.mode == "job"


def test_a_null_that_removes_nothing_is_found(tmp_path: Path) -> None:
    (found,) = findings(project(tmp_path, OWN.format(extends="gpu"), gpu=whole().replace("mode: job", "mode:")))
    assert (found.code, found.file, found.message[:17]) == (
        "RTD104",
        "environments/_base/gpu.yaml",
        "`mode` is nothing",
    )


def test_a_value_that_cannot_be_read_removes_nothing(tmp_path: Path) -> None:
    loaded = project(tmp_path, OWN.format(extends="gpu") + "mode: !x job\n", gpu=whole())
    assert [(f.code, f.pointer) for f in findings(loaded)] == [("RTD104", "/mode")]


@pytest.mark.parametrize(
    ("extends", "code", "says", "column"),
    [
        ("gpuu", "RTD120", "there is no layer environments/_base/gpuu.yaml", 10),
        ("[gpu, nothing]", "RTD120", "there is no layer environments/_base/nothing.yaml", 16),
        (
            "../_base/gpu",
            "RTD120",
            "`../_base/gpu` cannot be a layer: the name must be a name",
            10,
        ),
        ("[/etc/passwd]", "RTD120", "`/etc/passwd` cannot be a layer", 11),
        ("[gpu, 5]", "RTD120", "this cannot be a layer", 16),
        ("[[gpu]]", "RTD120", "this cannot be a layer", 11),
        ("5", "RTD104", "`extends` is `5`, but must be the name of a layer or a list of names", 10),
        ("{gpu: 1}", "RTD104", "`extends` is a map, but must be", 10),
        ("null", "RTD104", "`extends` is nothing, but must be", 10),
        ("circle-a", "RTD121", "the layer `circle-a` extends itself by way of `circle-b`, `circle-c`", 10),
        ("[circle-c]", "RTD121", "the layer `circle-a` extends itself by way of `circle-b`, `circle-c`", 10),
        ("self", "RTD121", "the layer `self` extends itself", 10),
    ],
)
def test_layers_that_cannot_be_extended(tmp_path: Path, extends: str, code: str, says: str, column: int) -> None:
    """And no value that the layer may have set is called missing or wrong."""
    loaded = project(
        tmp_path, OWN.format(extends=extends), gpu="mode: job\n", self="extends: self\n",
        circle_a="extends: circle-b\n", circle_b="extends: [circle-c]\n", circle_c="extends: circle-a\n",
    )  # fmt: skip
    (found,) = findings(loaded)
    assert (found.code, found.range.start.column) == (code, column)
    assert found.message.startswith(says)
    assert found.help


@pytest.mark.parametrize(("depth", "code"), [(MAX_DEPTH, []), (MAX_DEPTH + 1, ["RTD121"])])
def test_layers_on_layers(tmp_path: Path, depth: int, code: list[str]) -> None:
    layers = {f"l{n}": f"extends: l{n + 1}\n" for n in range(1, depth)}
    loaded = project(tmp_path, OWN.format(extends="l1"), **layers, **{f"l{depth}": whole()})
    assert [f.code for f in findings(loaded)] == code


@pytest.mark.parametrize("text", ["[", "", "- a\n"])
def test_a_layer_that_cannot_be_read_is_the_one_finding(tmp_path: Path, text: str) -> None:
    (found,) = findings(project(tmp_path, OWN.format(extends="gpu"), gpu=text))
    assert found.file == "environments/_base/gpu.yaml"


def test_layers_that_nobody_extends_are_found_when_all_is_validated(tmp_path: Path) -> None:
    project(tmp_path, OWN.format(extends="gpu"), gpu="extends: deep\n", deep=whole(), left="mode: x\n")

    def said(*args: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-m", "generator", "validate", "--root", str(tmp_path), "--output", "concise", *args],
            cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        return [line.split(" ")[1].rstrip(":") for line in done.stdout.splitlines() if "_base" in line]

    assert said() == ["warning[RTD122]", "error[RTD104]"]
    assert said("demo") == []
    (tmp_path / "environments/demo/environment.yaml").write_text("[")  # who knows what it extends
    assert said() == []


def test_headers_name_the_layers(tmp_path: Path) -> None:
    loaded = project(tmp_path, OWN.format(extends="gpu"), gpu="extends: deep\n", deep=whole())
    tree = render(loaded.load("demo"))
    assert [line for line in tree["environments/demo/generated/values.yaml"].splitlines() if ".yaml" in line][:4] == [
        "# Generated by ray-train-dlc from environments/demo/environment.yaml",
        "#   environments/_base/deep.yaml",
        "#   environments/_base/gpu.yaml",
        "#   environments/_clusters/demo.yaml",
    ]
    assert "#   environments/_base/gpu.yaml" in tree["eksctl/demo.yaml"].splitlines()[:5]


def test_neighbours_are_found_by_a_cluster_in_a_layer(tmp_path: Path) -> None:
    far = whole().replace("cluster: demo", "cluster: far")
    loaded = project(tmp_path, base("environment.yaml"), demo=whole(), far=far, c="extends: far\n")
    texts = {
        "near": "extends: demo\n",
        "wins": "extends: [demo, far]\n",
        "own": "extends: far\ncluster: demo\n",
        "through": "extends: [demo, c]\n",
        "block": "extends:\n  - demo\n",
        "twisted": 'extends: far\n"clus\\x74er": demo\n',
        "none": "extends: gone\n",
    }
    for name, text in texts.items():
        (tmp_path / "environments" / name).mkdir()
        (tmp_path / "environments" / name / "environment.yaml").write_text(f"name: {name}\nschemaVersion: 1\n{text}")
    assert loaded.on_cluster("demo") == ["block", "demo", "near", "own", "twisted"]
    assert loaded.on_cluster("far") == ["through", "wins"]
    assert sorted(loaded._environments) == ["block", "none", "twisted"]  # the others were not parsed for it


def test_the_example_of_the_documentation_is_valid(tmp_path: Path) -> None:
    page = (ROOT / "docs/layers.md").read_text(encoding="utf-8")
    files = re.findall(r"```yaml\n# (environments/\S+)\n(.*?)```", page, re.DOTALL)
    assert len(files) == 4
    for path, text in files:
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    (tmp_path / "environments/_clusters").mkdir()
    cluster = edited("cluster.yaml", "name: demo", "name: shared").replace("m7i.xlarge", "m7i.4xlarge")
    (tmp_path / "environments/_clusters/shared.yaml").write_text(cluster)
    loaded = Project(tmp_path)
    for name in ("dev", "prod"):
        digest = base("version.yaml").replace('digest: ""', f"digest: sha256:{'0' * 64}")
        (tmp_path / f"environments/{name}/version.yaml").write_text(digest)
        assert findings(loaded, name) == []
        assert loaded.on_cluster("shared") == ["dev", "prod"]
    dev, prod = (loaded.environment(name).model for name in ("dev", "prod"))
    assert dev is not None and prod is not None
    assert (dev.workers["gpu"].nodes, prod.workers["gpu"].nodes) == (1, 2)
    assert dev.training.storage.model_dump(by_alias=True, exclude_defaults=True) == {
        "kind": "fsx",
        "claimName": "scratch",
    }
    assert loaded.layers().unused(loaded.environment(name).source for name in loaded.names()) == ([], {})


KEYS = st.sampled_from(["workers", "head", "training", "kind", "gpu", "storage", "capacity", "args", "nodes", "mode"])
TREES = st.dictionaries(
    KEYS,
    st.recursive(
        st.none() | st.sampled_from(["s3", "fsx", "spot", "x"]) | st.integers(0, 3),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)
EXTENDS = st.lists(st.sampled_from(["a", "b", "c", "gone"]), max_size=3)


def leaves(value: Any, path: Pointer = ()) -> list[tuple[Pointer, Any]]:
    if isinstance(value, dict) and value:
        return [leaf for key, child in value.items() for leaf in leaves(child, (*path, key))]
    return [(path, value)]


def at(value: Any, path: Pointer) -> Any:
    for part in path:
        value = value[part]
    return value


@settings(max_examples=200, deadline=10_000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.tuples(TREES, TREES, TREES, TREES), st.tuples(EXTENDS, EXTENDS, EXTENDS, EXTENDS))
def test_every_value_stands_where_its_origin_says(
    tmp_path: Path, trees: tuple[dict[str, Any], ...], extends: tuple[list[str], ...]
) -> None:
    texts = [json.dumps({"extends": names, **tree}) for names, tree in zip(extends, trees, strict=True)]
    loaded = project(tmp_path, texts[0], a=texts[1], b=texts[2], c=texts[3])
    source = loaded.environment("demo").source
    assert isinstance(source, Layered)
    own = {"environments/demo/environment.yaml": trees[0]} | {
        f"environments/_base/{name}.yaml": tree for name, tree in zip("abc", trees[1:], strict=True)
    }
    for path, value in leaves({key: child for key, child in source.data.items() if key != "extends"}):
        origin = own[source.file_of(path)] if path else {}
        assert value == {} or at(origin, path) == value
    for finding in check(loaded.load("demo")):
        assert finding.help
        assert finding.range.start.line == 1
        assert finding.file in dict(loaded.load("demo").texts())
