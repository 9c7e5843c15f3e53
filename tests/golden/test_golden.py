"""environments/demo renders to the golden tree, byte for byte; and what is committed is what it renders to."""

from __future__ import annotations

from generator.project import Project
from generator.render import render
from tests.golden.tree import GOLDEN, ROOT, tree

HINT = "`make golden` writes it anew; read the difference before you commit it"


def test_demo_renders_to_the_golden_tree() -> None:
    golden = {p.relative_to(GOLDEN).as_posix(): p.read_text(encoding="utf-8") for p in GOLDEN.rglob("*.yaml")}
    rendered = tree()
    assert sorted(rendered) == sorted(golden), HINT
    for path, text in rendered.items():
        assert text == golden[path], f"{path}: {HINT}"


def test_committed_files_are_up_to_date() -> None:
    project = Project(ROOT)
    for folder in project.names():
        for path, text in render(project.load(folder)).items():
            assert (ROOT / path).read_text(encoding="utf-8") == text, f"{path}: run `python -m generator render`"
