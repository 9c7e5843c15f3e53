"""`python -m generator.values --since`: what changed in the values, for the changelog and for who upgrades."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from generator.release.changelog import sections
from generator.release.package import package
from generator.values.difference import RENAMED, EarlierError, difference, earlier
from generator.values.document import rows
from tests.chart.helms import HELMS, helm
from tests.helm import CHART, KUBE_VERSION, ROOT

README = (CHART / "README.md").read_text(encoding="utf-8")
# The chart of an earlier day: one value less, one more, one of another name, one with another default.
EARLIER = (
    ("| `job.managedBy` | `''` |", None),
    ("| `common.env` | `{}` |", "| `env` | `{}` | Environment of all containers. |\n"),
    ("| `extraObjects` | `[]` |", "| `extraManifests` | `[]` | Further manifests. |\n"),
    ("| `job.backoffLimit` | `2` |", '| `job.backoffLimit` | `"2"` | How often. |\n'),
    ("| `job.runId` | `''` |", '| `job.runId` | `""` | The same default, written in another way. |\n'),
)
EXPECTED = """\
| change | value | default | what |
|---|---|---|---|
| renamed | `env` is now `common.env` | `{}` | |
| added | `job.managedBy` | `''` | Who runs the job. Empty: the operator. |
| added | `extraObjects` | `[]` | Further manifests of the release, as Kubernetes writes them. |
| removed | `extraManifests` | | |
| other default | `job.backoffLimit` | `"2"`, now `2` | |
"""


@pytest.fixture
def old_chart(chart_copy: Path) -> Path:
    lines = README.splitlines(keepends=True)
    for start, instead in EARLIER:
        (number,) = [number for number, line in enumerate(lines) if line.startswith(start)]
        lines[number] = instead or ""
    (chart_copy / "README.md").write_text("".join(lines), encoding="utf-8")
    return chart_copy


def test_nothing_has_changed_since_now() -> None:
    before = earlier(str(CHART / "README.md"), ROOT)
    assert list(before) == [row.path for row in rows()]
    assert difference(before, rows()) == "No value has changed.\n"


def test_since_a_package(old_chart: Path, tmp_path: Path) -> None:
    before = earlier(str(package(old_chart, tmp_path)), ROOT)
    assert difference(before, rows(), {"env": "common.env", "longGone": "mode"}) == EXPECTED


def test_since_a_tag(old_chart: Path, tmp_path: Path) -> None:
    if not shutil.which("git"):
        pytest.skip("git is needed")
    repository = tmp_path / "repository"
    shutil.copytree(old_chart, repository / "charts" / CHART.name)
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false")
    for words in (("init", "-q"), ("add", "."), (*identity, "commit", "-qm", "first"), ("tag", "v0.0.1")):
        subprocess.run(["git", *words], cwd=repository, check=True, timeout=30)
    (repository / "charts" / CHART.name / "README.md").write_text("the file of today is not read", encoding="utf-8")
    assert difference(earlier("v0.0.1", repository), rows(), {"env": "common.env"}) == EXPECTED


def test_since_nothing(tmp_path: Path) -> None:
    with pytest.raises(EarlierError, match=r"v9\.9\.9: is neither a file nor a commit"):
        earlier("v9.9.9", ROOT)
    with pytest.raises(EarlierError, match="holds no table of values"):
        earlier(str(ROOT / "LICENSE"), ROOT)
    archive = tmp_path / "other.tgz"
    subprocess.run(["tar", "-czf", archive, "-C", ROOT, "LICENSE"], check=True, timeout=20)
    with pytest.raises(EarlierError, match=r"holds no README\.md of a chart"):
        earlier(str(archive), ROOT)


def test_the_command(old_chart: Path) -> None:
    command = [sys.executable, "-m", "generator.values", "--since", str(old_chart / "README.md")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert "| added | `job.managedBy` |" in done.stdout
    command[-1] = "v9.9.9"
    failed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert failed.returncode == 1
    assert failed.stderr.startswith("error: v9.9.9: ")


def test_the_changelog_lists_the_changed_values() -> None:
    """Against the tag of the version before; the first version has none."""
    newest, *before = sections((CHART / "CHANGELOG.md").read_text(encoding="utf-8"))
    if not before:
        assert "### Values\nFirst version" in newest.text
        assert not RENAMED
        return
    tag = f"v{before[0].version}"
    try:
        old = earlier(tag, ROOT)
    except EarlierError:
        pytest.skip(f"this checkout has no tag {tag}: git fetch --tags")
    assert newest.text.partition("### Values\n")[2].strip() == difference(old, rows()).strip()


@pytest.mark.parametrize("name", HELMS)
def test_an_old_name_is_refused_by_name(name: str) -> None:
    """Never ignored: docs/upgrade.md relies on it."""
    command = [str(helm(name)), "template", "demo", str(CHART), f"--kube-version={KUBE_VERSION}"]
    command += ["--set=env.A=b", "--set=terminationGracePeriodSeconds=60", "--set=imagePullSecrets[0].name=r"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    refused = re.search(r"at '': additional properties (.*) not allowed", done.stderr)
    assert refused
    assert set(refused[1].split(", ")) == {"'env'", "'terminationGracePeriodSeconds'", "'imagePullSecrets'"}
