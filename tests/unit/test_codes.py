"""The catalogue of codes."""

from __future__ import annotations

import re

import pytest

from generator.diagnostics import CODES, Severity
from generator.diagnostics.codes import TOPICS, page
from generator.diagnostics.codes.code import ALWAYS, NEVER, WARNINGS


def test_every_code_stands_once_in_the_module_of_its_topic_in_order() -> None:
    digits = []
    for topic in TOPICS:
        assert topic.__doc__ is not None
        (digit,) = re.findall(r"\((\d)xx\)", topic.__doc__)
        digits.append(digit)
        assert all(re.fullmatch(rf"RTD{digit}\d\d", code) for code in topic.CODES), topic.__name__
        assert list(topic.CODES) == sorted(topic.CODES), topic.__name__
    assert digits == sorted(set(digits))
    assert len(CODES) == sum(len(topic.CODES) for topic in TOPICS)
    titles = [entry.title for entry in CODES.values()]
    assert len(titles) == len(set(titles))


@pytest.mark.parametrize("code", CODES)
def test_every_code_says_why_and_how_to_fix_it(code: str) -> None:
    entry = CODES[code]
    for text in (entry.title, entry.why, entry.fix):
        assert text and text == text.strip() and not text.endswith("."), f"{code}: {text!r}"
        assert "|" not in text, f"{code}: a bar would end a cell of the table"
    assert re.fullmatch(r"\d+\.\d+\.\d+", entry.since)
    said = page(code)
    assert said.startswith(f"# {code}: {entry.title}\n")
    assert (f"# rtd: ignore {code} because" in said) == (entry.silencing is not NEVER)


def test_errors_cannot_be_silenced_unless_their_code_says_so() -> None:
    errors = {code for code, entry in CODES.items() if entry.can_be_silenced(Severity.ERROR)}
    assert errors == {code for code, entry in CODES.items() if entry.silenceable is ALWAYS}
    warnings = {code for code, entry in CODES.items() if entry.can_be_silenced(Severity.WARNING)} - errors
    usual = {code for code, entry in CODES.items() if entry.severity is Severity.WARNING}
    assert warnings - usual == {code for code, entry in CODES.items() if entry.silenceable is WARNINGS}
    assert usual - warnings == {"RTD110"}  # a comment that silences nothing is removed
    assert not [code for code in errors if code.startswith("RTD1")]  # what could not be read
