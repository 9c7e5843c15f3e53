"""The forms of a plan: text of any width, JSON against its schema, Markdown, one page, and tables that compare."""

from __future__ import annotations

import copy
import itertools
import json
import os
import re
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from generator.cli import main
from generator.plan.html import as_html
from generator.plan.markdown import as_markdown
from generator.plan.plan import OLD_DAYS, Plan, plan
from generator.plan.report import SCHEMA, as_json
from generator.plan.sections import sections
from generator.plan.text import as_text
from generator.plan.why import why
from generator.project import Project
from generator.resolve import resolve
from tests.docs.blocks import blocks
from tests.project import FIXTURES, base, edited, make, sharing
from tests.unit.test_plan import ROOT, planned

VALID = sorted(p.name for p in (FIXTURES / "valid").iterdir())


def two(root: Path) -> Path:
    """Environments `demo` and `other`, the latter with nodes of another type."""
    make(root, environment=sharing("demo"))
    folder = root / "environments/other"
    folder.mkdir()
    text = sharing("other", ("g6.12xlarge", "g6e.12xlarge"))
    (folder / "environment.yaml").write_text(text)
    (folder / "version.yaml").write_text(base("version.yaml"))
    return root


def shown(capsys: pytest.CaptureFixture[str], root: Path, *args: str) -> str:
    assert main(["plan", "--root", str(root), *args]) == 0
    return capsys.readouterr().out


def real(name: str) -> Plan:
    loaded = Project(ROOT).load(name)
    assert loaded.environment.model is not None and loaded.cluster is not None
    return plan(resolve(loaded.environment.model, loaded.cluster.model), date(2026, 12, 3))


def parsed(page: str) -> ElementTree.Element:
    """The page as XML, which is stricter than a browser: every element is closed, every value quoted."""
    return ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>"))  # noqa: S314  (our own output)


def strict(schema: Any) -> Any:
    """The schema without room for other keys: what the tool writes must stand in it."""
    if isinstance(schema, dict):
        closed = {"additionalProperties": False} if "properties" in schema else {}
        return {**{key: strict(value) for key, value in schema.items()}, **closed}
    return [strict(value) for value in schema] if isinstance(schema, list) else schema


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("name", ["demo", "local"])
def test_text_fits_the_terminal(name: str, width: int) -> None:
    one = real(name)
    text = as_text(one, width=width, reasons=why(one))
    assert max(map(len, text.splitlines())) <= width
    assert all(line == line.rstrip() for line in text.splitlines())
    words = text.split()
    for table in sections(one):
        for row in table.rows:
            for cell in row.cells:
                assert all(word in words for word in cell.split()), cell


def test_very_narrow_terminals_get_rows_one_below_the_other(tmp_path: Path) -> None:
    text = as_text(planned(tmp_path), width=1)
    assert max(map(len, text.splitlines())) <= 44
    assert "    step, TCP: 2.70 s" in text


def test_colour_is_for_terminals_and_can_be_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path)
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    plain = shown(capsys, tmp_path, "demo")
    assert "\033" not in plain
    coloured = shown(capsys, tmp_path, "demo", "--color", "always")
    assert re.sub(r"\033\[[0-9]*m", "", coloured) == plain
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert "\033" in shown(capsys, tmp_path, "demo")
    assert "\033" not in shown(capsys, tmp_path, "demo", "--color", "never")
    monkeypatch.setenv("TERM", "dumb")
    assert "\033" not in shown(capsys, tmp_path, "demo")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\033" not in shown(capsys, tmp_path, "demo")


def test_the_width_is_the_terminals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path)
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(len, shown(capsys, tmp_path, "demo").splitlines())) <= 60


@pytest.mark.parametrize("name", VALID)
def test_every_valid_environment_has_a_plan_of_the_schema(name: str, tmp_path: Path) -> None:
    folder = FIXTURES / "valid" / name
    files = {p.stem: p.read_text(encoding="utf-8") for p in folder.glob("*.yaml")}
    one = planned(tmp_path, **files)
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(strict(schema))
    found = json.loads(json.dumps(as_json(one, why(one))))
    validator.validate(found)
    validator.validate([found])
    parsed(as_html([one], [why(one)]))
    assert as_text(one, width=80) and as_markdown(one)


def test_the_schema_lets_keys_be_added_but_not_removed(tmp_path: Path) -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    found = json.loads(json.dumps(as_json(planned(tmp_path))))
    found["later"] = found["cost"]["later"] = 1
    validator.validate(found)
    for path in (("cost", "usdPerRun"), ("memory", "parts"), ("network", "schemes", "hpz"), ("estimate", "mfu")):
        less = copy.deepcopy(found)
        part = less
        for key in path[:-1]:
            part = part[key]
        del part[path[-1]]
        assert not validator.is_valid(less), path


def test_the_schema_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "plan"]) == 0
    jsonschema.Draft202012Validator.check_schema(json.loads(capsys.readouterr().out))


def test_two_names_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = two(tmp_path)
    table = shown(capsys, root, "demo", "other")
    assert re.search(r"^ +demo +other +other ÷ demo$", table, re.MULTILINE)
    assert re.search(r"worker nodes +2 × g6.12xlarge +2 × g6e.12xlarge +=$", table, re.MULTILINE)
    assert re.search(rf"USD per hour +9\.55 +{2 * 10.49264 + 0.3466:.2f} +× 2\.23$", table, re.MULTILINE)
    assert "Memory of each GPU" not in table
    both = json.loads(shown(capsys, root, "demo", "other", "--output", "json"))
    assert [one["environment"] for one in both] == ["demo", "other"]
    assert shown(capsys, root, "demo", "other", "--output", "markdown").startswith("### Comparison of demo, other\n")
    assert "<h1>Comparison of demo, other</h1>" in shown(capsys, root, "demo", "other", "--output", "html")
    every = shown(capsys, root)
    assert "Comparison" not in every and every.count("Memory of each GPU") == 2


def test_every_number_has_a_formula_and_a_source(tmp_path: Path) -> None:
    found = {one.name: one for one in why(planned(tmp_path))}
    assert all(one.value and one.formula and one.source for one in found.values())
    for one in found.values():
        for file in re.findall(r"\b(?:training|generator|docs)/[\w./-]+\.(?:py|csv|md)", f"{one.source} {one.formula}"):
            assert (ROOT / file).is_file(), one
    assert found["GPU memory, state"].formula == "1,543,714,304 × 16 B ÷ 4 shards"
    assert found["sent per network card, hsdp"].formula == "2 (2 − 1)/2 × gradients"
    assert found["USD per hour"].formula == "9.2032 + 0.2016 + 0.1 + 0.045"
    assert "g6.12xlarge, as of 2026-07-20" in found["workers `gpu`, g6.12xlarge"].source
    assert found["vCPU of quota L-DB2E81BA"].formula == "2 × 48 (g6.12xlarge)"
    # A sum and a product, worked out again from what the formula shows.
    assert sum(map(float, found["USD per hour"].formula.split(" + "))) == pytest.approx(
        float(found["USD per hour"].value), abs=1e-4
    )
    tokens, ranks, flops, again, peak, share = (
        float(n.replace(",", ""))
        for n in re.findall(r"[\d,]+(?:\.\d+)?", found["computation per step"].formula.split(", at least")[0])
    )
    seconds = tokens / ranks * flops * 1e9 * again / (peak * 1e12 * share)
    assert found["computation per step"].value == f"{seconds:.2f} s"


def test_why_is_part_of_every_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path)
    for form in ("text", "json", "markdown", "html"):
        out = " ".join(shown(capsys, tmp_path, "demo", "--why", "--output", form).split())
        assert "1,543,714,304 × 16 B ÷ 4 shards" in out, form
        assert "÷ 4 shards" not in shown(capsys, tmp_path, "demo", "--output", form)


def test_old_prices_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path)
    read = planned(tmp_path).prices_as_of
    for days, old in ((OLD_DAYS, False), (OLD_DAYS + 1, True)):
        day = str(read + timedelta(days=days))
        found = json.loads(shown(capsys, tmp_path, "demo", "--today", day, "--output", "json"))
        assert found["cost"]["ageDays"] == days
        assert any(f"prices are of {read}, {days} days ago" in hint for hint in found["hints"]) is old
        assert ("hint: prices" in shown(capsys, tmp_path, "demo", "--today", day)) is old
    with pytest.raises(SystemExit, match="2"):
        main(["plan", "--today", "soon"])


def test_a_block_is_as_old_as_its_own_table(tmp_path: Path) -> None:
    text = (
        edited("environment.yaml", "g6.12xlarge", "p5.48xlarge")
        .replace("gpusPerNode: 4", "gpusPerNode: 8")
        .replace("{kind: onDemand}", "{kind: capacityBlock, id: cr-0123456789abcdef0}")
    )
    assert planned(tmp_path, environment=text).prices_as_of == date(2026, 10, 7)


def test_markdown_tables_have_equal_columns(tmp_path: Path) -> None:
    lines = as_markdown(planned(tmp_path), why(planned(tmp_path))).splitlines()
    for first, second in itertools.pairwise(lines):
        if first.startswith("|") and second.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", first)) == len(re.findall(r"(?<!\\)\|", second)), second


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    page = as_html([planned(tmp_path)], [()])
    root = parsed(page)
    used = {element.tag.rsplit("}", 1)[-1] for element in root.iter()}
    assert not used & {"script", "link", "img", "iframe", "object", "embed", "base", "use", "image", "form", "a"}
    names = {name for element in root.iter() for name in element.attrib}
    assert not {name for name in names if name.startswith("on") or name in ("src", "href", "style-src")}
    assert "url(" not in page and "@import" not in page
    assert "default-src 'none'" in page
    assert "prefers-color-scheme: dark" in page


def test_the_drawing_shows_nodes_gpus_and_network(tmp_path: Path) -> None:
    def drawn(text: str) -> tuple[int, int, int]:
        page = as_html([planned(tmp_path, environment=text)], [()])
        return page.count('class="gpu"'), page.count('<rect class="efa"'), page.count('<rect class="tcp"')

    assert drawn(base("environment.yaml")) == (8, 2, 0)
    assert drawn(edited("environment.yaml", "efa: required", "efa: disabled")) == (8, 0, 2)
    many = edited("environment.yaml", "nodes: 2", "nodes: 40")
    assert drawn(many) == (4 * 6, 6, 0)
    assert "40 × g6.12xlarge in us-west-2a, 6 of them drawn" in as_html([planned(tmp_path, environment=many)], [()])


def test_names_cannot_become_markup(tmp_path: Path) -> None:
    one = planned(tmp_path)
    object.__setattr__(one, "not_estimated", "<script>alert(1)</script> & `code` | *x*")
    object.__setattr__(one, "config", None)
    assert "<script>" not in as_html([one], [()])
    assert "<script>" not in as_markdown(one)


def test_the_page_of_documentation_shows_what_the_command_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/plan.md; rewrite its blocks with UPDATE_DOCS=1."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "100")
    page = ROOT / "docs/plan.md"
    examples = [block for block in blocks("plan.md", "console") if "--today" in block]
    assert len(examples) == 2
    for block in examples:
        command, _, printed = block.partition("\n")
        words = command.removeprefix("$ python -m generator ").split()
        assert main(words) == 0
        out = capsys.readouterr().out
        if os.environ.get("UPDATE_DOCS") and printed != out:
            text = page.read_text(encoding="utf-8")
            page.write_text(text.replace(block, f"{command}\n{out}"), encoding="utf-8")
        else:
            assert printed == out, "UPDATE_DOCS=1 writes it anew"
