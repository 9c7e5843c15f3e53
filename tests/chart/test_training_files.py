"""The training code inside the chart: a copy of training/, delivered byte for byte, named by its content, bounded."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.chart.cases import job, job_name
from tests.helm import CHART, ROOT, HelmError, one, run, template
from tests.project_pods import project

COPY = CHART / "files" / "training"
LIMIT = 200 * 1024


def test_is_an_exact_copy() -> None:
    """`make sync-chart` makes it so. Flux drops symbolic links from its artifacts, hence a copy."""
    source = {file.name: file.read_bytes() for file in (ROOT / "training").glob("*.py")}
    copy = {file.name: file.read_bytes() for file in COPY.iterdir() if file.name != "__pycache__"}
    assert sorted(source) == sorted(copy)
    assert [name for name in source if source[name] != copy[name]] == []
    assert not any(file.is_symlink() for file in COPY.iterdir())


def test_config_map_holds_every_file() -> None:
    data = one("ConfigMap")["data"]
    assert data == {file.name: file.read_text(encoding="utf-8") for file in COPY.glob("*.py")}


def test_config_map_is_immutable_and_small() -> None:
    config = one("ConfigMap")
    assert config["immutable"] is True
    assert sum(len(text.encode()) for text in config["data"].values()) <= LIMIT


def test_pods_mount_the_config_map_of_their_own_release_and_content() -> None:
    config = one("ConfigMap", job())["metadata"]["name"]
    for pod in project(one("RayJob", job())):
        (volume,) = [volume for volume in pod["spec"]["volumes"] if volume["name"] == "training"]
        assert volume["configMap"] == {"name": config}


def test_a_changed_file_gives_a_new_config_map_and_a_new_job(chart_copy: Path) -> None:
    def names() -> tuple[str, str]:
        return one("ConfigMap", job(), chart=chart_copy)["metadata"]["name"], job_name(job(), chart=chart_copy)

    file = chart_copy / "files" / "training" / "train.py"
    original = file.read_text(encoding="utf-8")
    seen = [names()]
    file.write_text(original + "\n# more\n", encoding="utf-8")
    seen.append(names())
    (chart_copy / "files" / "training" / "new.py").write_text("", encoding="utf-8")
    seen.append(names())
    assert len({config for config, _ in seen}) == len({job for _, job in seen}) == 3
    (chart_copy / "files" / "training" / "new.py").unlink()
    file.write_text(original, encoding="utf-8")
    assert names() == seen[0]


def test_other_files_do_not_count(chart_copy: Path) -> None:
    folder = chart_copy / "files" / "training"
    (folder / "notes.txt").write_text("x", encoding="utf-8")
    (folder / "__pycache__").mkdir(exist_ok=True)
    (folder / "__pycache__" / "train.cpython-313.pyc").write_bytes(b"x")
    assert job_name(job(), chart=chart_copy) == job_name(job())


HOSTILE = {
    "train.py": "x = 1\n\n\ny = 2",  # no newline at the end
    "empty.py": "",
    "template.py": 'a = "{{ .Values.image }}"\nb = "$(HOME) ${HOME}"\n',
    "spaces.py": "if True:\n    x = 1   \n    \n\ty = 2\n\n\n",
    "text.py": "# ümläut 日本語 🙂 \u2028 end\n'''\n---\n...\n'''\n",
    "yaml.py": "yes: no\n- a\n# b\n%TAG\n",
    "leading.py": "\n\n   x\n",
}


def test_any_text_arrives_unchanged(chart_copy: Path) -> None:
    folder = chart_copy / "files" / "training"
    shutil.rmtree(folder)
    folder.mkdir()
    for name, text in HOSTILE.items():
        (folder / name).write_bytes(text.encode())
    assert one("ConfigMap", chart=chart_copy)["data"] == HOSTILE


@pytest.mark.parametrize("keep", [(), ("config.py",)], ids=["no file", "no train.py"])
def test_without_train_py(chart_copy: Path, keep: tuple[str, ...]) -> None:
    for file in (chart_copy / "files" / "training").iterdir():
        if file.is_file() and file.name not in keep:
            file.unlink()
    with pytest.raises(HelmError) as caught:
        template(job(), chart=chart_copy)
    (problem,) = caught.value.problems
    assert "files/training: train.py is not there" in problem


def test_size_limit(chart_copy: Path) -> None:
    folder = chart_copy / "files" / "training"
    size = sum(file.stat().st_size for file in folder.glob("*.py"))
    filler = folder / "filler.py"
    filler.write_text("#" * (LIMIT - size), encoding="utf-8")
    template(job(), chart=chart_copy)
    filler.write_text("#" * (LIMIT - size + 1), encoding="utf-8")
    with pytest.raises(HelmError) as caught:
        template(job(), chart=chart_copy)
    (problem,) = caught.value.problems
    assert f"{LIMIT + 1} bytes, above 200 KiB" in problem


def files_of(chart: Path) -> set[str]:
    """Relative paths of a chart's files."""
    files = (file for file in chart.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    return {str(file.relative_to(chart)) for file in files}


def test_package_holds_what_a_user_needs_and_no_more(tmp_path: Path) -> None:
    run("package", str(CHART), f"--destination={tmp_path}")
    (package,) = tmp_path.glob("*.tgz")
    shutil.unpack_archive(package, tmp_path)
    packed = files_of(tmp_path / CHART.name)
    assert packed == {name for name in files_of(CHART) if not name.startswith("ci/")}
    for name in sorted(packed - {"Chart.yaml"}):
        assert (tmp_path / CHART.name / name).read_bytes() == (CHART / name).read_bytes(), name
