"""Render the chart with the real Helm. One way in for all tests: full render first, then a choice of files.

A missing Helm skips the test by name on a developer's machine and fails it where the environment says `CI=true`.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from generator.tools import ToolMissingError, find

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "charts" / "ray-train-dlc"
CI_VALUES = sorted((CHART / "ci").glob("*-values.yaml"))
MODES: dict[Path, str] = {
    file: (yaml.safe_load(file.read_text(encoding="utf-8")) or {}).get("mode", "job") for file in CI_VALUES
}
# Stated, because Helm's own default is the Kubernetes that it was built with, which may be too old for the chart.
KUBE_VERSION = "1.36.0"
# What a cluster with the KubeRay and the Prometheus operator has.
APIS = ("ray.io/v1", "monitoring.coreos.com/v1")
TIMEOUT_S = 60

Values = Mapping[str, Any] | Sequence[Path] | None
Object = dict[str, Any]


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """PyYAML takes a plain `=` for a type of YAML 1.1 that it cannot load; for Go, which wrote it, it is text."""


_Loader.add_constructor("tag:yaml.org,2002:value", lambda loader, node: loader.construct_scalar(node))


class HelmError(Exception):
    """Helm ended with an error; the text is its stderr."""

    def __init__(self, stderr: str) -> None:
        super().__init__(stderr)
        self.stderr = stderr

    @property
    def problems(self) -> list[str]:
        """The lines of templates/_requirements.tpl."""
        return re.findall(r"^ERROR: .*$", self.stderr, flags=re.MULTILINE)


def program() -> Path:
    """Path of Helm, or the end of the test."""
    try:
        return find("helm")
    except ToolMissingError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))


def run(*arguments: str, stdin: str = "", env: Mapping[str, str] | None = None) -> str:
    """Run Helm away from any cluster and any registry; its stdout.

    Raises:
        HelmError: the exit status is not 0.
    """
    done = subprocess.run(
        [str(program()), *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env={**os.environ, "KUBECONFIG": os.devnull, **(env or {})},
    )
    if done.returncode != 0:
        raise HelmError(done.stderr)
    return done.stdout


def template(
    values: Values = None,
    *,
    name: str = "demo",
    namespace: str = "ray-train",
    chart: Path = CHART,
    set_: Sequence[str] = (),
    hooks: bool = False,
) -> str:
    """Text of `helm template`: values as a map, or as values files in order, then `--set` expressions.

    With `hooks` also what is there only while `helm test` runs; manifests for GitOps are rendered without it.
    """
    text = as_yaml(values) if isinstance(values, Mapping) else ""
    files = () if isinstance(values, Mapping) else tuple(str(file) for file in values or ())
    # The project's own chart and values do not change during a test run; copies do.
    own = chart == CHART and all(Path(file).is_relative_to(CHART) for file in files)
    return (_template if own else _template.__wrapped__)(text, files, name, namespace, chart, tuple(set_), hooks)


def render(
    values: Values = None,
    *,
    name: str = "demo",
    namespace: str = "ray-train",
    chart: Path = CHART,
    set_: Sequence[str] = (),
    hooks: bool = False,
    show_only: str | None = None,
) -> list[Object]:
    """Objects that the chart renders, in Helm's order; with `show_only`, those of one template file.

    Without those of `helm test`, unless `hooks` asks for them.

    Helm's own `--show-only` hides the errors of other templates, so everything is rendered and then filtered.

    Raises:
        HelmError: the schema, a template or templates/_requirements.tpl refused the values.
    """
    objects = []
    text = template(values, name=name, namespace=namespace, chart=chart, set_=set_, hooks=hooks)
    for document in re.split(r"^---\n", text, flags=re.MULTILINE):
        source = re.search(r"^# Source: [^/\n]+/(\S+)", document, flags=re.MULTILINE)
        if show_only is not None and (source is None or source[1] != show_only):
            continue
        loaded = yaml.load(document, Loader=_Loader)  # noqa: S506 - a safe loader, in C
        if loaded is not None:
            objects.append(loaded)
    return objects


def one(kind: str, values: Values = None, **options: Any) -> Object:
    """The single object of `kind` that the chart renders; options as for `render`."""
    (found,) = [item for item in render(values, **options) if item["kind"] == kind]
    return found


def notes(values: Values = None, *, name: str = "demo", namespace: str = "ray-train", chart: Path = CHART) -> str:
    """Text that `helm install` prints after the objects (NOTES.txt)."""
    files = [] if isinstance(values, Mapping) or values is None else [f"--values={file}" for file in values]
    given = ["--values=-"] if isinstance(values, Mapping) else []
    try:
        text = run(
            *("install", name, str(chart), "--dry-run=client", f"--namespace={namespace}", *files, *given),
            stdin=as_yaml(values) if isinstance(values, Mapping) else "",
        )
    except HelmError as error:
        # Only `helm install` prints them; Helm 3 asks a cluster even for a dry run, or assumes an old Kubernetes.
        if re.search("cluster unreachable|incompatible with Kubernetes", error.stderr):
            pytest.skip("this Helm prints NOTES.txt only with a cluster at hand; Helm 4 does without")
        raise
    return text.partition("\nNOTES:\n")[2]


def as_yaml(values: Mapping[str, Any]) -> str:
    """Values as JSON that is YAML too: YAML has no surrogate pairs for characters above U+FFFF."""
    pair = re.compile(r"(?<!\\)((?:\\\\)*)\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})")

    def joined(match: re.Match[str]) -> str:
        return f"{match[1]}\\U{0x10000 + ((int(match[2], 16) - 0xD800) << 10) + int(match[3], 16) - 0xDC00:08x}"

    return pair.sub(joined, json.dumps(values))


@functools.lru_cache(maxsize=256)
def _template(
    values: str,
    files: tuple[str, ...],
    name: str,
    namespace: str,
    chart: Path,
    set_: tuple[str, ...],
    hooks: bool,
) -> str:
    arguments = (
        [f"--values={file}" for file in files] + (["--values=-"] if values else []) + [f"--set={item}" for item in set_]
    )
    return run(
        *("template", name, str(chart), f"--namespace={namespace}", *(() if hooks else ("--skip-tests",))),
        *(f"--kube-version={KUBE_VERSION}", *(f"--api-versions={name}" for name in APIS)),
        *arguments,
        stdin=values,
    )
