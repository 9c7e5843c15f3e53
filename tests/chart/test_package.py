"""`make package`: the same bytes on every machine, taken by Helm 3 and 4, and nothing in it that is not for users."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from generator.release.changelog import ChangelogError, sections
from generator.release.package import PackageError, package, sign
from tests.chart.helms import HELMS, helm
from tests.helm import APIS, CHART, KUBE_VERSION, ROOT

MAKE = "import sys, pathlib; from generator.release.package import package; package(*map(pathlib.Path, sys.argv[1:]))"
VALUES = CHART / "ci" / "efa-p5-values.yaml"
HEADING = sections((CHART / "CHANGELOG.md").read_text(encoding="utf-8"))[0].text.partition("\n")[0]
VERSION = HEADING.split()[1]
BY_HELM = pytest.mark.parametrize("name", HELMS)


def made(chart: Path, output: Path, *, umask: int = 0o022, **env: str) -> bytes:
    """Bytes of the package that a process of its own makes."""
    command = [sys.executable, "-c", MAKE, str(chart), str(output)]
    without = {key: value for key, value in os.environ.items() if key != "SOURCE_DATE_EPOCH"}
    subprocess.run(command, check=True, umask=umask, env={**without, "PYTHONPATH": str(ROOT), **env}, timeout=60)
    (archive,) = output.glob("*.tgz")
    return archive.read_bytes()


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def other_copy(folder: Path) -> Path:
    """The chart as another machine has it: made in another order, with other times and modes, and with leftovers."""
    chart = folder / CHART.name
    for source in sorted(CHART.rglob("*"), reverse=True):
        target = chart / source.relative_to(CHART)
        if source.is_file() and "__pycache__" not in source.parts:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            target.chmod(0o700)
            os.utime(target, (1_000_000_000, 1_000_000_000))
    for leftover in (
        "files/training/__pycache__/a.pyc",
        ".idea/a.xml",
        "values.yaml.orig",
        "old-0.0.9.tgz",
        ".DS_Store",
    ):
        (chart / leftover).parent.mkdir(exist_ok=True)
        (chart / leftover).write_text("left over", encoding="utf-8")
    return chart


@BY_HELM
def test_another_machine_makes_the_same_bytes(name: str, tmp_path: Path) -> None:
    here = made(CHART, tmp_path / "here", HELM=str(helm("helm4")))
    there = made(
        other_copy(tmp_path),
        tmp_path / "there",
        umask=0o077,
        HELM=str(helm(name)),
        LC_ALL="C",
        TZ="Pacific/Apia",
        HOME=str(tmp_path),
    )
    assert here == there


def test_files_of_the_package(tmp_path: Path) -> None:
    top = {".helmignore", "CHANGELOG.md", "Chart.yaml", "LICENSE", "README.md", "values.schema.json", "values.yaml"}
    templates = {str(path.relative_to(CHART)) for path in (CHART / "templates").rglob("*.*")}
    training = {f"files/training/{path.name}" for path in (ROOT / "training").glob("*.py")}
    with tarfile.open(package(other_copy(tmp_path), tmp_path)) as archive:
        entries = archive.getmembers()
        assert archive.extractfile(f"{CHART.name}/Chart.yaml").read() == (CHART / "Chart.yaml").read_bytes()  # type: ignore[union-attr]
    assert {entry.name.partition("/")[2] for entry in entries} == top | templates | training | {
        "files/tests/check.py",
        "files/dashboards/ray-train-dlc.json",
    }
    assert [entry.name for entry in entries] == sorted(entry.name for entry in entries)
    assert {(entry.mode, entry.uid, entry.gid, entry.uname, entry.gname) for entry in entries} == {
        (0o644, 0, 0, "", "")
    }
    assert all(entry.isfile() for entry in entries)


@BY_HELM
def test_helm_takes_it_and_renders_the_same(name: str, tmp_path: Path) -> None:
    archive = str(package(CHART, tmp_path))

    def run(*words: str) -> str:
        command = [str(helm(name)), *words]
        env = {**os.environ, "KUBECONFIG": os.devnull}
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, env=env).stdout

    options = ["--namespace=ray-train", f"--kube-version={KUBE_VERSION}", *(f"--api-versions={api}" for api in APIS)]
    options.append(f"--values={VALUES}")
    assert run("template", "demo", archive, *options) == run("template", "demo", str(CHART), *options)
    assert "0 chart(s) failed" in run("lint", "--strict", archive, f"--values={VALUES}")
    for part, file in (("values", "values.yaml"), ("readme", "README.md")):
        assert run("show", part, archive).strip() == (CHART / file).read_text(encoding="utf-8").strip()


def test_the_command_makes_it_and_prints_its_sum(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "generator.release", f"--output={tmp_path}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT, timeout=60)
    subprocess.run(["sha256sum", "--check", "--strict"], input=done.stdout, text=True, check=True, timeout=20)


@pytest.mark.parametrize(
    ("date", "env", "seconds"),
    [
        ("not released", {}, 315532800),  # the first second of 1980
        ("2026-12-31", {}, 1798675200),
        ("2026-12-31", {"SOURCE_DATE_EPOCH": "1000000000"}, 1_000_000_000),
    ],
)
def test_times_come_from_the_changelog(
    date: str, env: Mapping[str, str], seconds: int, chart_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace(chart_copy / "CHANGELOG.md", HEADING, f"## {VERSION} - {date}")
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    for key, value in env.items():
        monkeypatch.setenv(key, value)
    archive = package(chart_copy, chart_copy.parent)
    assert archive.stat().st_mtime == seconds
    with tarfile.open(archive) as opened:
        assert {entry.mtime for entry in opened} == {seconds}


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("Chart.yaml", f"\nversion: {VERSION}", "\nversion: 99.0.0", "version is 99.0.0, and the newest section .* is"),
        ("Chart.yaml", "type: application", "type: program", "helm failed: .*type must be application or library"),
        ("CHANGELOG.md", HEADING, "## Unreleased", "'## Unreleased' is no heading of a version"),
        ("CHANGELOG.md", HEADING, f"## {VERSION} - 2026-02-30", "no date of the calendar"),
        ("CHANGELOG.md", "## ", "#### ", "has no section"),
    ],
)
def test_what_is_wrong_is_said(file: str, old: str, new: str, message: str, chart_copy: Path) -> None:
    replace(chart_copy / file, old, new)
    with pytest.raises((PackageError, ChangelogError), match=message):
        package(chart_copy, chart_copy.parent)


def test_a_time_that_is_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("today", "-1", "99999999999"):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", value)
        with pytest.raises(PackageError, match="SOURCE_DATE_EPOCH"):
            package(CHART, tmp_path)


@BY_HELM
def test_helm_verifies_a_signed_package(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not shutil.which("gpg"):
        pytest.skip("gpg is needed to sign")
    home = tmp_path / "gnupg"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(home))
    gpg = ["gpg", "--batch", "--quiet", "--pinentry-mode=loopback", "--passphrase="]
    try:
        subprocess.run([*gpg, "--quick-generate-key", "release@example.com", "rsa3072"], check=True, timeout=60)
        archive = package(CHART, tmp_path)
        sign(archive, "release@example.com")
        ring = tmp_path / "ring.gpg"
        ring.write_bytes(subprocess.run([*gpg, "--export"], check=True, capture_output=True, timeout=20).stdout)
        with pytest.raises(PackageError, match="gpg failed"):
            sign(archive, "nobody@example.com")
    finally:  # the agent that gpg has started for this folder
        subprocess.run(["gpgconf", "--kill", "all"], check=False, timeout=20)
    command = [helm(name), "verify", archive, f"--keyring={ring}"]
    assert (
        "release@example.com" in subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    )
    archive.write_bytes(archive.read_bytes() + b"\0")
    assert subprocess.run(command, check=False, capture_output=True, timeout=60).returncode != 0
    package(CHART, tmp_path)
    assert not list(tmp_path.glob("*.prov")), "a signature of other bytes does not stay"
