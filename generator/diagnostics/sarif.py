"""Findings as a SARIF 2.1.0 log (OASIS standard), as code scanning services read it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from generator import __version__
from generator.diagnostics.codes import CODES, page
from generator.diagnostics.finding import Finding, Silenced, clean

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT = "%SRCROOT%"  # what a reader replaces by the checkout: files are named relative to it


def sarif(findings: Iterable[Finding], silenced: Iterable[Silenced] = ()) -> dict[str, Any]:
    """The log of one run; silenced findings are results with a suppression."""
    quiet = {s.finding: s for s in silenced}
    results = sorted([*findings, *quiet], key=lambda f: f.sort_key)
    codes = sorted({f.code for f in results})
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "ray-train-dlc",
                        "semanticVersion": __version__,
                        "rules": [_rule(code) for code in codes],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {_ROOT: {"description": {"text": "The folder that holds environments/"}}},
                "invocations": [{"executionSuccessful": True}],
                "results": [_result(f, codes.index(f.code), quiet.get(f)) for f in results],
            }
        ],
    }


def _rule(code: str) -> dict[str, Any]:
    entry = CODES[code]
    return {
        "id": code,
        "shortDescription": {"text": entry.title},
        "fullDescription": {"text": f"{entry.title}: {entry.why}"},
        "help": {"text": page(code), "markdown": page(code)},
        "defaultConfiguration": {"level": entry.severity.value},
    }


def _result(f: Finding, rule: int, silence: Silenced | None) -> dict[str, Any]:
    start, end = f.range.start, f.range.end
    text = clean(f.message) + "".join(f"\nnote: {clean(note)}" for note in f.notes)
    where: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(f.file, errors="surrogateescape"), "uriBaseId": _ROOT},
            "region": {
                "startLine": start.line,
                "startColumn": start.column,
                "endLine": end.line,
                "endColumn": end.column,
            },
        }
    }
    if f.path:
        where["logicalLocations"] = [{"fullyQualifiedName": clean(f.pointer)}]
    suppressed = [{"kind": "inSource", "justification": clean(silence.reason)}] if silence else []
    return {
        "ruleId": f.code,
        "ruleIndex": rule,
        "level": f.severity.value,
        "message": {"text": text + (f"\nhelp: {clean(f.help)}" if f.help else "")},
        "locations": [where],
        "partialFingerprints": {"finding/v1": _fingerprint(f)},
        "suppressions": suppressed,  # given for all results as soon as one has any (3.27.23); so always
    }


def _fingerprint(f: Finding) -> str:
    """The same for the same finding after lines moved: its code, file, place in the data, and message."""
    parts = "\0".join((f.code, f.file, f.pointer, f.message))
    return hashlib.sha256(parts.encode(errors="surrogatepass")).hexdigest()
