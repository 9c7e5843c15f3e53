"""The package in an OCI registry: pushed, pulled, shown and rendered by Helm 3 and 4, by version and by digest."""

from __future__ import annotations

import datetime
import hashlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from generator.release.package import package
from tests.chart.helms import HELMS, helm
from tests.chart.registry import manifest, registry
from tests.cluster.checkers import require_go
from tests.helm import APIS, CHART, KUBE_VERSION

pytestmark = pytest.mark.go
BY_HELM = pytest.mark.parametrize("name", HELMS)
BY_REFERENCE = pytest.mark.parametrize("reference", ["version", "digest"])


@dataclass(frozen=True)
class Pushed:
    """The package and the registry, to which each Helm pushes it before its first use.

    Attributes:
        archive: the package.
        address: of the registry.
        home: a folder for Helm's own files, so that no login or cache of the person has a part in this.
    """

    archive: Path
    address: str
    home: Path
    pushed_by: set[str] = field(default_factory=set)

    def helm(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        env = {"HOME": str(self.home), "PATH": os.environ["PATH"], "KUBECONFIG": os.devnull, "TZ": "UTC"}
        command = [str(helm(name)), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
        return done

    def named(self, name: str, reference: str) -> tuple[str, ...]:
        """Helm's words for the chart that `name` has pushed, by `version` or by `digest`."""
        chart, digest = f"oci://{self.address}/{name}/{CHART.name}", self.digest(name)
        words = (chart, f"--version={version()}") if reference == "version" else (f"{chart}@{digest}",)
        return *words, "--plain-http"

    def digest(self, name: str) -> str:
        """Digest of its manifest, as the registry gives it."""
        return self.manifest(name)[0]

    def manifest(self, name: str) -> tuple[str, dict[str, Any]]:
        """Digest and content of the manifest that `name` has pushed."""
        said = ""
        if name not in self.pushed_by:
            self.pushed_by.add(name)
            done = self.helm(name, "push", str(self.archive), f"oci://{self.address}/{name}", "--plain-http")
            said = done.stdout + done.stderr
        found = manifest(self.address, f"{name}/{CHART.name}", version())
        assert not said or f"Digest: {found[0]}" in said
        return found


def version() -> str:
    """Of the chart."""
    return str(yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["version"])


@pytest.fixture(scope="module")
def pushed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pushed]:
    require_go()
    folder = tmp_path_factory.mktemp("oci")
    with registry(folder / "registry") as address:
        yield Pushed(package(CHART, folder), address, folder)


@BY_HELM
@BY_REFERENCE
def test_it_is_pulled_as_it_was_pushed(name: str, reference: str, pushed: Pushed, tmp_path: Path) -> None:
    pushed.helm(name, "pull", *pushed.named(name, reference), f"--destination={tmp_path}")
    (pulled,) = tmp_path.iterdir()
    assert pulled.read_bytes() == pushed.archive.read_bytes()


@BY_HELM
@BY_REFERENCE
def test_it_renders_as_the_folder_does(name: str, reference: str, pushed: Pushed) -> None:
    options = ["--namespace=ray-train", f"--kube-version={KUBE_VERSION}", *(f"--api-versions={api}" for api in APIS)]
    options.append(f"--values={CHART / 'ci' / 'efa-p5-values.yaml'}")
    folder = pushed.helm(name, "template", "demo", str(CHART), *options).stdout
    assert pushed.helm(name, "template", "demo", *pushed.named(name, reference), *options).stdout == folder


@BY_HELM
@BY_REFERENCE
def test_its_values_are_shown(name: str, reference: str, pushed: Pushed) -> None:
    shown = pushed.helm(name, "show", "values", *pushed.named(name, reference)).stdout
    assert shown.strip() == (CHART / "values.yaml").read_text(encoding="utf-8").strip()


@pytest.mark.full
def test_both_push_the_same_manifest(pushed: Pushed) -> None:
    """The package's own time goes into it, so another machine, or another Helm, gives the same digest."""
    assert pushed.digest("helm3") == pushed.digest("helm4")


def test_the_manifest(pushed: Pushed) -> None:
    content = pushed.manifest("helm4")[1]
    (layer,) = content["layers"]
    assert layer["digest"] == f"sha256:{hashlib.sha256(pushed.archive.read_bytes()).hexdigest()}"
    annotations = content["annotations"]
    time = datetime.datetime.fromtimestamp(pushed.archive.stat().st_mtime, datetime.UTC)
    assert annotations["org.opencontainers.image.created"] == f"{time:%Y-%m-%dT%H:%M:%SZ}"
    assert annotations["org.opencontainers.image.version"] == version()
    assert "org.opencontainers.image.source" not in annotations, "no source is known, and KubeRay's is not this one's"


def test_another_digest_is_refused(pushed: Pushed) -> None:
    chart = pushed.named("helm4", "digest")[0].partition("@")[0]
    with pytest.raises(AssertionError, match="not found"):
        pushed.helm("helm4", "pull", f"{chart}@sha256:{'0' * 64}", "--plain-http")
