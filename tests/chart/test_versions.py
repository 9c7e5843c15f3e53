"""All releases of Helm and Kubernetes that the chart takes give the same objects, but for kinds that are missing."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from itertools import product
from pathlib import Path

import pytest
import yaml

from tests.chart.helms import HELMS, helm
from tests.helm import APIS, CHART, CI_VALUES, Object, render

KUBERNETES = ("1.34.0", "1.35.0", "1.36.0", "1.37.0")
# APIs of the cluster, and the kinds that are left out without the others. A RayJob is never left out in silence:
# installing it without the operator must fail, as the notes say.
CLUSTERS = ((APIS, set()), (("ray.io/v1",), {"PodMonitor"}), ((), {"PodMonitor"}))

pytestmark = pytest.mark.full


def test_the_matrix_begins_where_the_chart_does() -> None:
    about = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert about["kubeVersion"] == f">={KUBERNETES[0]}-0"


@pytest.mark.parametrize("file", CI_VALUES, ids=lambda file: file.stem.removesuffix("-values"))
@pytest.mark.parametrize("name", HELMS)
def test_the_objects_are_the_same(name: str, file: Path) -> None:
    expected = sorted(render([file], hooks=True), key=_name)
    for version, (apis, left_out) in product(KUBERNETES, CLUSTERS):
        found = _rendered(helm(name), file, version, apis)
        assert found == [item for item in expected if item["kind"] not in left_out], (version, apis)


def test_a_kind_is_left_out_somewhere() -> None:
    """Else the matrix would say nothing about APIs."""
    assert any(item["kind"] == "PodMonitor" for file in CI_VALUES for item in render([file]))


def _rendered(program: Path, file: Path, version: str, apis: tuple[str, ...]) -> list[Object]:
    command = [program, "template", "demo", CHART, "--namespace=ray-train", f"--values={file}"]
    command += [f"--kube-version={version}", *(f"--api-versions={name}" for name in apis)]
    env = {**os.environ, "KUBECONFIG": os.devnull}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=env)
    return _objects(done.stdout)


@cache
def _objects(text: str) -> list[Object]:
    return sorted((item for item in yaml.safe_load_all(text) if item), key=_name)


def _name(item: Object) -> tuple[str, str]:
    return item["kind"], item["metadata"]["name"]
