"""What environments/demo renders to, through the generator and the chart, as a tree of files in memory."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from generator.project import Project
from generator.render import render
from tests import helm

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).parent / "demo"


def objects(environment: str, values: str, root: Path = ROOT) -> list[dict[str, Any]]:
    """The chart's objects for an environment whose rendered values are the text `values`."""
    version = root / "environments" / environment / "version.yaml"
    merged = {**yaml.safe_load(values), **yaml.safe_load(version.read_text(encoding="utf-8"))}
    return helm.render(merged, name=environment, namespace="ray-train")


def tree() -> dict[str, str]:
    """{path: text}: the generator's files as they are, and one file per object of the chart.

    The ConfigMaps' files stand in them by their digest: their text is training/, which has its own history.
    """
    files = render(Project(ROOT).load("demo"))
    kinds: Counter[str] = Counter()
    for item in objects("demo", files["environments/demo/generated/values.yaml"]):
        if item["kind"] == "ConfigMap":
            item["data"] = {name: _digest(text) for name, text in item["data"].items()}
        text = yaml.safe_dump(item, sort_keys=False, width=120)
        kind = item["kind"].lower()
        kinds[kind] += 1
        files[f"manifests/{kind}{'' if kinds[kind] == 1 else f'-{kinds[kind]}'}.yaml"] = text
    return files


def _digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
