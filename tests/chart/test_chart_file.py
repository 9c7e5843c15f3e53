"""Chart.yaml, CHANGELOG.md and LICENSE say what the rest of the chart says."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from generator.release.changelog import KINDS, Section, sections
from tests.helm import CHART, ROOT, render
from tests.project_pods import project

ABOUT: dict[str, Any] = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
SECTIONS = sections((CHART / "CHANGELOG.md").read_text(encoding="utf-8"))


def annotation(name: str) -> Any:
    """What an annotation of Artifact Hub holds."""
    return yaml.safe_load(ABOUT["annotations"][f"artifacthub.io/{name}"])


def test_changes_are_those_of_the_changelog() -> None:
    expected = [{"kind": kind, "description": text} for kind, text in SECTIONS[0].changes]
    wanted = yaml.safe_dump(expected, sort_keys=False, width=10**6, allow_unicode=True)
    assert annotation("changes") == expected, f"artifacthub.io/changes of Chart.yaml must be:\n{wanted}"


def test_the_changelog_begins_with_this_version_and_goes_down() -> None:
    assert SECTIONS[0].version == ABOUT["version"]
    numbers = [tuple(map(int, re.split(r"[.+-]", section.version)[:3])) for section in SECTIONS]
    assert numbers == sorted(set(numbers), reverse=True)
    assert all(section.date for section in SECTIONS[1:]), "only the newest may not be released"


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.version)
def test_a_section_says_what_changed_and_which_values(section: Section) -> None:
    assert section.changes
    titles = re.findall(r"^### (.*)$", section.text, flags=re.MULTILINE)
    assert set(titles) <= {kind.title() for kind in KINDS} | {"Values"}
    assert titles[-1] == "Values"


def test_images_are_the_defaults() -> None:
    image = VALUES["image"]
    (listed,) = annotation("images")
    assert listed["image"] == f"{image['repository']}:{image['tag']}"
    (job,) = render(show_only="templates/rayjob.yaml")
    assert {container["image"] for pod in project(job) for container in pod["spec"]["containers"]} == {listed["image"]}


def test_a_version_with_a_suffix_is_a_prerelease() -> None:
    assert annotation("prerelease") is ("-" in ABOUT["version"])


def test_it_is_no_operator_and_brings_no_crds() -> None:
    assert annotation("operator") is False
    assert not (CHART / "crds").exists()
    assert "artifacthub.io/crds" not in ABOUT["annotations"]


def test_every_annotation_is_text_and_every_address_is_whole() -> None:
    assert all(isinstance(value, str) for value in ABOUT["annotations"].values())
    links = [*annotation("links"), *annotation("recommendations"), {"url": ABOUT["icon"]}]
    assert all(re.fullmatch(r"https://[a-z0-9.-]+/\S+", link["url"]) for link in links)


def test_the_license_is_the_repositorys() -> None:
    """Flux drops symbolic links from its artifacts, hence a copy."""
    assert (CHART / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_the_values_that_the_readme_shows_are_taken() -> None:
    text = (CHART / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```yaml\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    assert shown
    assert all(render(yaml.safe_load(values)) for values in shown)
