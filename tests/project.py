"""A project folder for tests: the base files of tests/fixtures/base, with some of them replaced."""

from __future__ import annotations

from pathlib import Path

FIXTURES = Path(__file__).parent / "fixtures"
FILES = ("environment.yaml", "cluster.yaml", "version.yaml")
PLACES = {
    "environment.yaml": "environments/demo/environment.yaml",
    "version.yaml": "environments/demo/version.yaml",
    "cluster.yaml": "environments/_clusters/demo.yaml",
}


def base(name: str) -> str:
    """The text of a base file."""
    return (FIXTURES / "base" / name).read_text(encoding="utf-8")


def make(root: Path, **replaced: str) -> Path:
    """Write environment `demo` and its cluster to `root`; `replaced`: some files as text."""
    for name in FILES:
        path = root / PLACES[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(replaced.get(name.removesuffix(".yaml"), base(name)), encoding="utf-8")
    return root


def edited(name: str, old: str, new: str) -> str:
    """A base file with `old`, which must stand in it exactly once, replaced."""
    text = base(name)
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {name}"
    return text.replace(old, new)


def sharing(name: str, *pairs: tuple[str, str]) -> str:
    """An environment that leaves room for others on the base cluster: no quota, a small head; `pairs` are replaced."""
    text = base("environment.yaml")
    changes = (
        ("name: demo\n", f"name: {name}\n"),
        (", quota: {gAndVtVcpu: 96}", ""),
        ("{cpu: 2, memory: 8Gi}", "{cpu: 1, memory: 4Gi}"),
    )
    for old, new in (*changes, *pairs):
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in environment.yaml"
        text = text.replace(old, new)
    return text
