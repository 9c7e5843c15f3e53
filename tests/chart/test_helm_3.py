"""Helm 3 renders what Helm 4 renders."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.cluster.checkers import require_go
from tests.cluster.tools import build
from tests.helm import APIS, CHART, CI_VALUES, KUBE_VERSION, Object, render


@pytest.mark.full
@pytest.mark.parametrize("file", CI_VALUES, ids=lambda file: file.stem.removesuffix("-values"))
def test_helm_3_renders_the_same(file: Path) -> None:
    require_go()
    command = [build.program("helm3"), "template", "demo", CHART, "--namespace=ray-train", f"--values={file}"]
    command += [f"--kube-version={KUBE_VERSION}", *(f"--api-versions={name}" for name in APIS)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, env={**os.environ, "KUBECONFIG": os.devnull}
    )
    found = [item for item in yaml.safe_load_all(done.stdout) if item]
    assert sorted(found, key=_name) == sorted(render([file], hooks=True), key=_name)


def _name(item: Object) -> tuple[str, str]:
    return item["kind"], item["metadata"]["name"]
