"""Render the chart and take the RayJob, and the ConfigMaps that its pods mount, out of the output."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from generator.local.errors import REFUSED, TOOL_FAILED, LocalError
from generator.tools import find

_HELM_TIMEOUT_SECONDS = 120
# Helm's own default is the newest Kubernetes that it was built with, which may be older than the chart allows.
_KUBE_VERSION = "1.36.0"


@dataclass(frozen=True)
class Rendered:
    """What `local` runs: one RayJob, and the ConfigMaps of the same output by name."""

    rayjob: Mapping[str, Any]
    config_maps: Mapping[str, Mapping[str, Any]]
    namespace: str
    """Namespace of the RayJob: its own, or else the one it is rendered for."""
    text: str
    """The manifests as they were read, byte for byte."""

    @property
    def name(self) -> str:
        return str(self.rayjob["metadata"]["name"])

    @property
    def spec(self) -> Mapping[str, Any]:
        spec = self.rayjob["spec"]
        assert isinstance(spec, Mapping)  # noqa: S101  # checked by parse
        return spec


def render(chart: Path, values_files: Sequence[Path], *, release: str, namespace: str) -> Rendered:
    """Run `helm template` and take the RayJob out of its output.

    Args:
        chart: the chart's folder.
        values_files: values files in Helm's order, later ones win.
        release: Helm release name.
        namespace: namespace of the release.

    Raises:
        ToolMissingError: there is no helm.
        LocalError: helm refused the values (exit code 5), or its output is not one RayJob with its ConfigMap.
    """
    command = [
        str(find("helm")),
        "template",
        "--skip-tests",
        release,
        str(chart),
        "--namespace",
        namespace,
        "--kube-version",
        _KUBE_VERSION,
    ]
    for values in values_files:
        command += ["--values", str(values)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=_HELM_TIMEOUT_SECONDS,
            encoding="utf-8",
        )
    except subprocess.TimeoutExpired as error:
        raise LocalError(
            f"helm template did not end within {_HELM_TIMEOUT_SECONDS} s", exit_code=TOOL_FAILED
        ) from error
    if done.returncode != 0:
        reason = done.stderr.strip() or f"exit code {done.returncode}"
        raise LocalError(f"helm template failed: {reason}", exit_code=TOOL_FAILED)
    return parse(done.stdout, origin=f"the output of helm template {chart}", namespace=namespace)


def from_file(path: Path, *, namespace: str) -> Rendered:
    """Read manifests from a file instead, for example a hand-edited copy of an earlier run's `manifests.yaml`."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise LocalError(f"cannot read the manifests {path}: {error.strerror}", exit_code=REFUSED) from error
    return parse(text, origin=str(path), namespace=namespace)


def parse(text: str, *, origin: str, namespace: str) -> Rendered:
    """Pick the one RayJob out of a stream of YAML documents; every ConfigMap that it mounts must be there too.

    Args:
        text: YAML documents.
        origin: where the text comes from, for messages.
        namespace: namespace of objects that name none.

    Raises:
        LocalError: no RayJob, several of them, or a mounted ConfigMap that is missing.
    """
    try:
        documents = [document for document in yaml.safe_load_all(text) if isinstance(document, dict)]
    except yaml.YAMLError as error:
        raise LocalError(f"{origin} is not YAML: {error}", exit_code=REFUSED) from error
    rayjobs = [document for document in documents if document.get("kind") == "RayJob"]
    if not rayjobs:
        kinds = ", ".join(sorted({str(document.get("kind")) for document in documents})) or "nothing"
        raise LocalError(
            f"{origin} holds no RayJob (it holds: {kinds}); local runs environments with mode: job",
            exit_code=REFUSED,
        )
    if len(rayjobs) > 1:
        names = ", ".join(str(job.get("metadata", {}).get("name")) for job in rayjobs)
        raise LocalError(f"{origin} holds more than one RayJob ({names}); local runs one", exit_code=REFUSED)
    rayjob = rayjobs[0]
    _require(rayjob, origin)
    config_maps: dict[str, Mapping[str, Any]] = {}
    for document in documents:
        if document.get("kind") == "ConfigMap":
            name = str(document.get("metadata", {}).get("name"))
            if name in config_maps:
                raise LocalError(f"{origin} holds the ConfigMap {name} twice", exit_code=REFUSED)
            config_maps[name] = document
    for name in _mounted_config_maps(rayjob):
        if name not in config_maps:
            present = ", ".join(sorted(config_maps)) or "none"
            raise LocalError(
                f"the RayJob mounts the ConfigMap {name}, which is not in {origin} (present: {present})",
                exit_code=REFUSED,
            )
    return Rendered(
        rayjob=rayjob,
        config_maps=config_maps,
        namespace=str(rayjob["metadata"].get("namespace") or namespace),
        text=text,
    )


def pod_templates(rayjob: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(path inside the RayJob, group specification) of the head group and of each worker group."""
    cluster = rayjob["spec"]["rayClusterSpec"]
    yield "spec.rayClusterSpec.headGroupSpec", cluster["headGroupSpec"]
    for index, group in enumerate(cluster.get("workerGroupSpecs") or []):
        yield f"spec.rayClusterSpec.workerGroupSpecs[{index}]", group


def config_map_sources(volume: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The ConfigMaps of a volume (`name`, `items`, `optional`): one of kind `configMap`, any number of `projected`."""
    sources = [volume, *((volume.get("projected") or {}).get("sources") or [])]
    return [source["configMap"] for source in sources if source.get("configMap")]


def _require(rayjob: Mapping[str, Any], origin: str) -> None:
    """Check the keys that everything else reads, so that a hand-edited manifest fails with a sentence."""

    def at(node: object, *keys: str) -> Any:
        for depth, key in enumerate(keys):
            if not isinstance(node, Mapping) or node.get(key) in (None, "", {}, []):
                missing = ".".join(keys[: depth + 1])
                raise LocalError(f"the RayJob in {origin} has no {missing}", exit_code=REFUSED)
            node = node[key]
        return node

    at(rayjob, "metadata", "name")
    if at(rayjob, "spec").get("clusterSelector"):
        raise LocalError(
            "the RayJob selects an existing cluster (mode: jobOnCluster); local runs environments with mode: job",
            exit_code=REFUSED,
        )
    at(rayjob, "spec", "entrypoint")
    at(rayjob, "spec", "rayClusterSpec", "headGroupSpec")
    for path, group in pod_templates(rayjob):
        containers = at(group, "template", "spec", "containers")
        if not isinstance(containers, list) or not isinstance(containers[0], Mapping):
            raise LocalError(f"{path}.template.spec.containers of the RayJob is not a list", exit_code=REFUSED)


def _mounted_config_maps(rayjob: Mapping[str, Any]) -> list[str]:
    """Names of the ConfigMaps that volumes of the pod templates need, each once, sorted."""
    names: set[str] = set()
    for _, group in pod_templates(rayjob):
        for volume in group["template"]["spec"].get("volumes") or []:
            names |= {str(source.get("name")) for source in config_map_sources(volume) if not source.get("optional")}
    return sorted(names)
