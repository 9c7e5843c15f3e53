"""Judge rendered files with the code of the programs that will read them: the KubeRay operator, the API server
and eksctl.

    reports = check_rayjobs(manifests)          # text of one or more YAML documents
    assert all(report.ok for report in reports), summary(reports)

Everything runs offline. The programs are built on first use (`tests.cluster.tools.build`); call `require_go`
first.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.cluster.tools import build

# Far above what they take (well under a second, a few seconds for hundreds of files): only a hang reaches it.
TIMEOUT_S = 120
_FOUND_ERRORS = 1  # exit status of each program when a document is refused
KUBERAY = {build.TOOLS[name].version.removeprefix("v"): name for name in ("kuberay-check-oldest", "kuberay-check")}
"""Releases of KubeRay that judge, oldest first: release to the program with its code."""
NEWEST = list(KUBERAY)[-1]


class CheckerError(Exception):
    """A checker went wrong itself, or found nothing to check; the text is what it said."""


@dataclass(frozen=True)
class Refusal:
    """One thing that the consumer refuses.

    Attributes:
        check: which of its checks refused: `decode`, `schema`, `ValidateRayJobSpec`, `load`, `validate` …
        message: its own words.
    """

    check: str
    message: str

    def __str__(self) -> str:
        return f"[{self.check}] {self.message}"


@dataclass(frozen=True)
class Report:
    """What a consumer says of one document.

    Attributes:
        source: path of the file, `-` for text.
        kind: kind of the object.
        name: its name, empty when it could not be read.
        errors: every refusal, in the order of the checks.
        pods: the pods that the operator would create, head first, then one per worker group, then the one that
            submits; only when asked for, and not of a document that is refused (`update` refuses nothing).
        service: the Service of the head, where there are pods.
    """

    source: str
    kind: str
    name: str
    errors: tuple[Refusal, ...]
    pods: tuple[dict[str, Any], ...] = field(default=(), repr=False)
    service: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def ok(self) -> bool:
        """True when nothing is refused."""
        return not self.errors

    def __str__(self) -> str:
        head = f"{self.kind} {self.name or '(no name)'} ({self.source})"
        return "\n  ".join([f"{head}: {'ok' if self.ok else 'refused'}", *map(str, self.errors)])


def summary(reports: Iterable[Report]) -> str:
    """The refused ones of `reports` as text for an assertion's message."""
    return "\n".join(str(report) for report in reports if not report.ok)


def require_go() -> None:
    """Skip the calling test where there is no Go; in CI (`CI=true`) fail it, so that no check is lost."""
    try:
        build.find_go()
    except build.GoMissingError as missing:
        if os.environ.get("CI", "").lower() in {"true", "1"}:
            pytest.fail(f"CI must have Go: {missing}", pytrace=False)
        pytest.skip(str(missing))


def check_rayjobs(
    yaml_text: str, *, pods: bool = False, feature_gates: str = "", release: str = NEWEST
) -> list[Report]:
    """What the KubeRay operator and its CRDs say of every ray.io document in `yaml_text`; others are skipped.

    Args:
        yaml_text: YAML documents, as `helm template` prints them.
        pods: also give the pods and the Service that the operator would create.
        feature_gates: `NAME=true,…` as for the operator; empty: its defaults.
        release: key of `KUBERAY`.

    Raises:
        CheckerError: the text is not YAML, or holds no ray.io document.
        build.BuildError: the checker cannot be built.
    """
    checker = KUBERAY[release]
    arguments = [f"-crds={_crds(checker)}", f"-feature-gates={feature_gates}", f"-pods={str(pods).lower()}"]
    return _reports(checker, arguments, yaml_text)


def check_objects(text: str, *, pod_security: str = "privileged") -> list[Report]:
    """What the API server says of every Pod, Service, ConfigMap, ServiceAccount and NetworkPolicy in `text`.

    Args:
        text: YAML documents; those of other kinds are skipped.
        pod_security: level of the Pod Security Standard that the namespace enforces.

    Raises:
        CheckerError: the text is not YAML, or holds no such object.
        build.BuildError: the checker cannot be built.
    """
    return _reports("kubernetes-check", [f"-pod-security={pod_security}"], text)


def check_clusterconfig(path: Path) -> Report:
    """What eksctl's loader and validators say of one ClusterConfig file.

    Raises:
        CheckerError: the file cannot be read.
        build.BuildError: the checker cannot be built.
    """
    return check_clusterconfigs([path])[0]


def check_clusterconfigs(paths: Iterable[Path]) -> list[Report]:
    """`check_clusterconfig` over several files, in their order, in one process.

    Raises:
        CheckerError: no path is given, or a file cannot be read.
        build.BuildError: the checker cannot be built.
    """
    files = [str(path) for path in paths]
    if not files:
        raise CheckerError("no ClusterConfig file is given: nothing would be checked")
    return _reports("eksctl-check", ["--", *files], "")


def check_clusterconfig_schema(document: Mapping[str, Any]) -> list[str]:
    """What eksctl's own JSON schema says of a ClusterConfig: one `path: message` per violation; empty: fine.

    The schema and the validators each catch what the other does not (a volume type, a second EFA zone): use
    both.

    Raises:
        build.BuildError: the module with the schema cannot be had.
    """
    violations = sorted(_clusterconfig_schema().iter_errors(document), key=lambda error: error.json_path)
    return [f"{violation.json_path}: {violation.message}" for violation in violations]


def check_node_config(document: Mapping[str, Any]) -> list[str]:
    """What nodeadm's own schema says of a NodeConfig: one `path: message` per violation; empty: fine.

    eksctl reads `overrideBootstrapCommand` into nodeadm's type and drops keys that it does not know.

    Raises:
        build.BuildError: the module with the schema cannot be had.
    """
    violations = sorted(_node_config_schema().iter_errors(document), key=lambda error: error.json_path)
    return [f"{violation.json_path}: {violation.message}" for violation in violations]


@cache
def _node_config_schema() -> jsonschema.Draft7Validator:
    folder = build.module_dir("eksctl-check", "github.com/awslabs/amazon-eks-ami/nodeadm")
    crd = yaml.safe_load((folder / "crds" / "node.eks.aws_nodeconfigs.yaml").read_text(encoding="utf-8"))
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    _close(schema)
    return jsonschema.Draft7Validator(schema)


def _close(schema: dict[str, Any]) -> None:
    """Refuse keys that a map with named keys does not name."""
    if "properties" in schema:
        schema.setdefault("additionalProperties", False)
        for child in schema["properties"].values():
            _close(child)


@cache
def _crds(checker: str) -> Path:
    return build.module_dir(checker) / "config" / "crd" / "bases"


@cache
def _clusterconfig_schema() -> jsonschema.Draft7Validator:
    folder = build.module_dir("eksctl-check")
    path = folder / "pkg" / "apis" / "eksctl.io" / "v1alpha5" / "assets" / "schema.json"
    return jsonschema.Draft7Validator(json.loads(path.read_text(encoding="utf-8")))


def _reports(program: str, arguments: list[str], text: str) -> list[Report]:
    """Run a checker over `text` on its standard input and read its lines of JSON."""
    command = [str(build.program(program)), *arguments]
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, encoding="utf-8", timeout=TIMEOUT_S, check=False
    )
    if done.returncode not in {0, _FOUND_ERRORS}:
        raise CheckerError(f"{program} exited with {done.returncode}: {done.stderr.strip()}")
    try:
        reports = [_report(json.loads(line)) for line in done.stdout.splitlines()]
    except json.JSONDecodeError as garbled:
        raise CheckerError(f"{program} printed something other than reports: {done.stdout[:500]}") from garbled
    if (done.returncode == _FOUND_ERRORS) != any(not report.ok for report in reports):
        # A crash of Go's runtime, or reports that never reached the pipe: no verdict to rely on.
        raise CheckerError(f"{program} exited with {done.returncode} but reported otherwise: {done.stderr.strip()}")
    return reports


def _report(line: Mapping[str, Any]) -> Report:
    return Report(
        source=line["source"],
        kind=line["kind"],
        name=line["name"],
        errors=tuple(Refusal(error["check"], error["message"]) for error in line["errors"]),
        pods=tuple(line.get("pods", ())),
        service=line.get("service"),
    )
