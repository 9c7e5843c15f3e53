"""Which rules of the chart refuse what the KubeRay operator takes; docs/stricter-than-kuberay.md lists them.

    python -m tests.cluster.stricter    # writes the list anew, and keeps its reasons; give one to each new line

A set of values that the chart refuses is rendered by a copy of the chart without its rules, and judged by KubeRay.
"""

from __future__ import annotations

import difflib
import importlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, reduce
from pathlib import Path
from typing import Any

from tests.chart.cases import job, with_key
from tests.chart.every_value import KUEUE
from tests.cluster.checkers import check_rayjobs
from tests.helm import CHART, ROOT, HelmError, template

LIST = ROOT / "docs" / "stricter-than-kuberay.md"
MISSING = "TODO"
# Not by the operator: one says that its first update would differ, the other what it takes and should not.
OURS = {"update", "trap"}
HEADER = """# What the chart refuses and KubeRay takes

`helm template` ends with an `ERROR:` line for values that KubeRay 1.6.0 and 1.6.1 would take. This is every such rule
of the chart, with the values of a test that breaks it, and what would happen without it. `…` stands for what a message
is about. `python -m tests.cluster.stricter` writes the lines; the last column is written by hand.

The other direction has no list: whatever the chart accepts, the operator accepts
(`tests/cluster/test_chart_and_operator.py`). Fields of Kubernetes that hardly anybody uses, and that are right only
together with others, are judged by the API server, and only when the operator creates the pods:
[recipes.md](recipes.md) says how to ask it before ("Ask the API server itself").
"""
_EXPRESSION = re.compile(r"{{.*?}}")


def _toleration(**fields: Any) -> dict[str, Any]:
    return job("head.tolerations", [fields])


# Rules that no case of tests/chart/test_requirements*.py is about alone.
MORE: dict[str, dict[str, Any]] = {
    "variable of the chart": job("common.env", {"PYTHONPATH": "/a"}),
    "Ray resources as a parameter": job("common.rayStartParams", {"resources": "'{}'"}),
    "port of the operator": job("head.rayStartParams", {"dashboard-port": 8266}),
    "autoscaling in a queue": with_key(
        with_key(KUEUE, "mode", "cluster"), "cluster.autoscaling", {"enabled": True, "options": {"version": "v2"}}
    ),
    "GPUs of the head": job("head.extraResources", {"nvidia.com/gpu": 1}),
    "part of a CPU": job("head.resources", {"cpu": "1.5", "memory": "8Gi"}),
    "part of a Gi": job("head.resources", {"cpu": "2", "memory": "1.5Gi"}),
    "another form of a quantity": job("head.resources", {"cpu": "2", "memory": "8192Mi"}),
    "toleration with another operator": _toleration(key="a", operator="Has"),
    "toleration of another effect": _toleration(key="a", operator="Exists", effect="NoStart"),
    "toleration without a key": _toleration(operator="Equal", value="a"),
    "toleration of no key": _toleration(key="a b", operator="Exists"),
    "toleration with a value too many": _toleration(key="a", operator="Exists", value="b"),
    "toleration of no value": _toleration(key="a", operator="Equal", value="b c"),
    "toleration for seconds": _toleration(key="a", operator="Exists", effect="NoSchedule", tolerationSeconds=1),
    "config map with a wrong name": job("training.code.configMapName", "A_b"),
}

# Where KubeRay looks at less: no job, no pods, no tokens.
ELSEWHERE: tuple[dict[str, Any], ...] = (
    {"auth.mode": "disabled"},
    {"mode": "cluster"},
    {"mode": "jobOnCluster", "job.clusterName": "demo"},
)
# Not broken here: by a chart without its files or with too much of them, by characters that some Helm drops.
BEYOND_VALUES = (
    "files/training: train.py is not there",
    "files/training: … bytes in all",
    "…: … bytes, above 200 KiB",
    "the values: a part of them cannot be written",
)


@dataclass(frozen=True)
class Rule:
    """One `ERROR:` line of a template.

    Attributes:
        file: name of the template.
        text: the line, with `…` for each expression.
        pattern: what the line prints.
        letters: how many characters are the line's own; of two lines that match, the one with more printed it.
    """

    file: str
    text: str
    pattern: re.Pattern[str] = field(repr=False)
    letters: int


@cache
def rules() -> tuple[Rule, ...]:
    """Every rule of the chart."""
    found = []
    for file in sorted((CHART / "templates").glob("_*.tpl")):
        for line in re.findall(r"ERROR: .+?(?=\\n|$)", file.read_text(encoding="utf-8"), flags=re.MULTILINE):
            parts = _EXPRESSION.split(line)
            pattern = re.compile(".*".join(map(re.escape, parts)))
            text = "…".join(parts).removeprefix("ERROR: ")
            found.append(Rule(file.name, text, pattern, sum(map(len, parts))))
    return tuple(found)


def rule_of(problem: str) -> Rule:
    """The rule that printed a line."""
    return max((rule for rule in rules() if rule.pattern.fullmatch(problem)), key=lambda rule: rule.letters)


@cache
def known_cases() -> Mapping[str, dict[str, Any]]:
    """Values that break one rule each."""
    cases = dict(MORE)
    for file in sorted((ROOT / "tests" / "chart").glob("test_requirements*.py")):
        module = importlib.import_module(f"tests.chart.{file.stem}")
        cases |= {name: values for name, (values, *_) in getattr(module, "REFUSED", {}).items()}
    return cases


@contextmanager
def chart_without_rules() -> Iterator[Path]:
    """A copy of the chart that renders whatever its schema takes."""
    with tempfile.TemporaryDirectory() as folder:
        chart = Path(folder) / CHART.name
        shutil.copytree(CHART, chart)
        (chart / "templates" / "_requirements.tpl").write_text('{{- define "ray-train-dlc.requirements" }}{{ end -}}\n')
        yield chart


def broken(values: dict[str, Any]) -> list[Rule]:
    """Rules that the values break."""
    try:
        template(values)
    except HelmError as error:
        return [rule_of(problem) for problem in error.problems]
    return []


def unruled(values: dict[str, Any], chart: Path) -> str:
    """Manifests without the rules; empty where a template fails for want of them."""
    try:
        return template(values, chart=chart)
    except HelmError:
        return ""


@dataclass(frozen=True)
class Outcome:
    """What became of sets of values.

    Attributes:
        refused: what the chart refused, with the rules that it breaks.
        stricter: those that refused what the operator takes, each with the first such values.
    """

    refused: Sequence[tuple[dict[str, Any], Sequence[Rule]]]
    stricter: Mapping[Rule, dict[str, Any]]

    @property
    def broken(self) -> frozenset[Rule]:
        """Every rule that refused one of them."""
        return frozenset(rule for _, found in self.refused for rule in found)


def compare(sets: Iterable[dict[str, Any]]) -> Outcome:
    """Judge each set by the chart's rules, and what they refuse by the operator too."""
    given = list(sets)
    with ThreadPoolExecutor(os.cpu_count()) as pool, chart_without_rules() as chart:
        refused = [(values, found) for values, found in zip(given, pool.map(broken, given), strict=True) if found]
        texts = list(pool.map(lambda pair: unruled(pair[0], chart), refused))
    reports = iter(check_rayjobs("".join(texts)))
    made: dict[Rule, dict[str, Any]] = {}
    for (values, found), text in zip(refused, texts, strict=True):
        if text and {error.check for error in next(reports).errors} <= OURS:
            for rule in found:
                made.setdefault(rule, values)
    assert next(reports, None) is None
    return Outcome(refused, made)


def compare_cases() -> Outcome:
    """The outcome of `known_cases`; a rule that KubeRay shares is tried where it has less to refuse too."""
    first = compare(known_cases().values())
    shared = [values for values, found in first.refused if not set(found) <= set(first.stricter)]
    second = compare(
        [
            reduce(lambda made, item: with_key(made, *item), changes.items(), values)
            for values in shared
            for changes in ELSEWHERE
        ]
    )
    return Outcome(first.refused, {**second.stricter, **first.stricter})


def example(values: dict[str, Any]) -> str:
    """What the values set beside those of `tests.chart.cases.job`, in one line."""
    usual = dict(_leaves(job()))
    set_ = [
        f"{path}: {_short(json.dumps(value, ensure_ascii=False), 60)}"
        for path, value in _leaves(values)
        if usual.get(path, ...) != value
    ]
    return _short(", ".join(set_), 140)


def _leaves(values: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(values, dict) and values:
        for key, value in values.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    else:
        yield path, values


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def read() -> dict[str, str]:
    """{text of a rule: reason} of the list."""
    rows = {}
    for line in LIST.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            text, _, reason = (cell.strip() for cell in line.strip("|").split(" | "))
            rows[text.strip("`").replace("\\|", "|").replace("´", "`")] = reason
    return rows


def write() -> None:
    """Write the list anew. A rule that is worded anew keeps the reason of the one that it looks like."""
    reasons = read() if LIST.exists() else {}
    found = compare_cases().stricter
    lines = [HEADER]
    file = ""
    for rule in rules():
        if rule not in found:
            continue
        if rule.file != file:
            file = rule.file
            lines += [f"\n## {file}\n", "| the chart says | for example | without the rule |", "|---|---|---|"]
        like = difflib.get_close_matches(rule.text, reasons, n=1, cutoff=0.8)
        reason = reasons.get(rule.text) or (reasons[like[0]] if like else MISSING)
        lines.append(f"| `{_cell(rule.text)}` | `{_cell(example(found[rule]))}` | {reason} |")
    LIST.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _cell(text: str) -> str:
    """Text for a code span in a table, which can hold neither a backtick nor a bar."""
    return text.replace("`", "´").replace("|", "\\|")


if __name__ == "__main__":
    write()
