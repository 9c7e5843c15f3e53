"""The RayJob and its ConfigMap come out of helm's output; anything ambiguous is refused with a sentence."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from generator.local.errors import LocalError
from generator.local.manifests import from_file, parse, render
from tests.helm import program
from tests.local.manifest import NAME, NAMESPACE, config_map, manifests, rayjob


def _parse(*documents: Any) -> Any:
    return parse(manifests(*documents), origin="the test", namespace="elsewhere")


def test_the_rayjob_and_its_config_map_are_picked_out_of_the_rest() -> None:
    other = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "x"}}
    unrelated = copy.deepcopy(config_map()) | {"metadata": {"name": "unrelated"}}
    rendered = _parse(other, unrelated, config_map(), rayjob())
    assert rendered.name == NAME
    assert rendered.namespace == NAMESPACE
    assert "train.py" in rendered.config_maps["tiny-code-11223344"]["data"]


def test_a_rayjob_without_a_namespace_has_that_of_the_release() -> None:
    job = rayjob()
    del job["metadata"]["namespace"]
    assert _parse(job, config_map()).namespace == "elsewhere"


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([config_map()], r"holds no RayJob \(it holds: ConfigMap\).*mode: job"),
        ([], "holds no RayJob"),
        ([rayjob(), rayjob(), config_map()], "more than one RayJob"),
        ([rayjob()], "mounts the ConfigMap tiny-code-11223344, which is not in the test"),
        ([rayjob(), config_map(), config_map()], "ConfigMap tiny-code-11223344 twice"),
        ([{"kind": "RayJob", "metadata": {"name": "x"}}], "has no spec"),
        ([{"kind": "RayJob", "metadata": {"name": "x"}, "spec": {"clusterSelector": {"a": "b"}}}], "jobOnCluster"),
        ([{"kind": "RayJob", "metadata": {"name": "x"}, "spec": {"entrypoint": "a"}}], "no spec.rayClusterSpec"),
        ([{"kind": "RayJob", "metadata": {}}], "no metadata"),
    ],
)
def test_what_cannot_be_run_is_refused(documents: list[Any], message: str) -> None:
    with pytest.raises(LocalError, match=message) as caught:
        _parse(*documents)
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("optional", [False, True])
def test_each_part_of_the_code_must_be_there(optional: bool) -> None:
    job = rayjob()
    for group in (job["spec"]["rayClusterSpec"]["headGroupSpec"], *job["spec"]["rayClusterSpec"]["workerGroupSpecs"]):
        (source, *_) = group["template"]["spec"]["volumes"][0]["projected"]["sources"]
        second = {"configMap": {"name": "tiny-code-55667788", "optional": optional}}
        group["template"]["spec"]["volumes"][0]["projected"]["sources"] = [source, second]
    if optional:
        assert list(_parse(job, config_map()).config_maps) == ["tiny-code-11223344"]
        return
    with pytest.raises(LocalError, match="mounts the ConfigMap tiny-code-55667788, which is not in the test"):
        _parse(job, config_map())


def test_text_that_is_not_yaml_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="is not YAML"):
        parse("a: [", origin="x", namespace="n")
    with pytest.raises(LocalError, match="cannot read the manifests"):
        from_file(tmp_path / "absent.yaml", namespace="n")


@pytest.fixture
def small_chart(tmp_path: Path) -> Path:
    """A chart whose RayJob has a value, the release and the namespace in it."""
    chart = tmp_path / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text(
        'apiVersion: v2\nname: tiny\nversion: 0.1.0\nkubeVersion: ">=1.34.0-0"\n', encoding="utf-8"
    )
    (chart / "values.yaml").write_text("steps: 3\n", encoding="utf-8")
    job = rayjob(flags="--steps={{ required `steps` .Values.steps }}")
    job["metadata"] = {"name": "{{ .Release.Name }}-job", "namespace": "{{ .Release.Namespace }}"}
    (chart / "templates" / "all.yaml").write_text(manifests(job, config_map(**{"train.py": "pass\n"})), "utf-8")
    return chart


def test_helm_renders_with_values_files_in_order(small_chart: Path, tmp_path: Path) -> None:
    files = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    files[0].write_text("steps: 4\n")
    files[1].write_text("steps: 5\n")
    program()
    rendered = render(small_chart, files, release="demo", namespace="team")
    assert (rendered.name, rendered.namespace) == ("demo-job", "team")
    assert rendered.spec["entrypoint"] == "python -m training.train --steps=5"


def test_a_chart_that_helm_refuses_shows_helms_own_words(small_chart: Path, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("steps: null\n")
    program()
    with pytest.raises(LocalError, match=r"(?s)helm template failed.*steps") as caught:
        render(small_chart, [tmp_path / "a.yaml"], release="demo", namespace="team")
    assert caught.value.exit_code == 5
