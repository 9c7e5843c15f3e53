"""docs/cluster.md and docs/growing-cluster.md: their keys are valid, and their versions those of the models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from generator.diagnostics import Severity
from generator.model.cluster import Platform
from generator.project import Project
from generator.render import render
from generator.rules import check
from tests.docs.blocks import commands, documents, options
from tests.project import base, make

CLUSTER = "environments/_clusters/demo.yaml"
GROUP = "environments/demo/environment.yaml, workers.gpu"
BLOCKS = [
    (f"{page}-{number}", name, block)
    for page in ("cluster.md", "growing-cluster.md")
    for name in (CLUSTER, GROUP)
    for number, (block,) in enumerate(documents(page, name))
]


@pytest.mark.parametrize(("name", "block"), [block[1:] for block in BLOCKS], ids=[block[0] for block in BLOCKS])
def test_what_the_page_writes_is_valid_and_renders(name: str, block: dict[str, Any], tmp_path: Path) -> None:
    files = {kind: yaml.safe_load(base(f"{kind}.yaml")) for kind in ("cluster", "environment")}
    if name == CLUSTER:
        files["cluster"] |= block
    else:
        files["environment"]["workers"]["gpu"] |= block
    make(tmp_path, **{kind: yaml.safe_dump(content) for kind, content in files.items()})
    loaded = Project(tmp_path).load("demo")
    assert [f.message for f in check(loaded) if f.severity is Severity.ERROR] == []
    make(tmp_path / "plain")
    assert render(loaded)["eksctl/demo.yaml"] != render(Project(tmp_path / "plain").load("demo"))["eksctl/demo.yaml"]


def test_the_page_has_blocks() -> None:
    assert {name for _, name, _ in BLOCKS} == {CLUSTER, GROUP}


def test_the_autoscalers_chart_is_the_pinned_one() -> None:
    (command,) = commands("growing-cluster.md", "--install cluster-autoscaler")
    assert options(command, "version") == [Platform().cluster_autoscaler]
    assert "rbac.serviceAccount.name=cluster-autoscaler" in options(command, "set")
