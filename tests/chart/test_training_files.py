"""The training code inside the chart: a copy of training/, delivered byte for byte, named by its content, bounded."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.chart.cases import enlarge, job, job_name
from tests.helm import CHART, ROOT, HelmError, Object, Values, as_yaml, one, render, run, template
from tests.project_pods import code_maps, project

COPY = CHART / "files" / "training"
LIMIT = 200 * 1024
MOST = 600 * 1024
KEPT = job("job.onChange", "keep")


def test_is_an_exact_copy() -> None:
    """`make sync-chart` makes it so. Flux drops symbolic links from its artifacts, hence a copy."""
    source = {file.name: file.read_bytes() for file in (ROOT / "training").glob("*.py")}
    copy = {file.name: file.read_bytes() for file in COPY.iterdir() if file.name != "__pycache__"}
    assert sorted(source) == sorted(copy)
    assert [name for name in source if source[name] != copy[name]] == []
    assert not any(file.is_symlink() for file in COPY.iterdir())


def maps(values: Values = None, **options: Any) -> list[Object]:
    """The ConfigMaps of the training package, as the pods name them, in their order."""
    objects = render(values, **options)
    by_name = {item["metadata"]["name"]: item for item in objects if item["kind"] == "ConfigMap"}
    (ray,) = [item for item in objects if item["kind"] == "RayJob"]
    return [by_name[name] for name in code_maps(ray)]


def texts(folder: Path) -> dict[str, str]:
    """{name: text} of the package in a chart."""
    return {file.name: file.read_bytes().decode() for file in folder.glob("*.py")}


def test_config_maps_hold_every_file_once() -> None:
    names = [name for item in maps() for name in item["data"]]
    assert names == sorted(texts(COPY)), "in the order of their names, each once"
    assert {name: text for item in maps() for name, text in item["data"].items()} == texts(COPY)


def test_config_maps_are_immutable_and_small() -> None:
    for item in maps():
        assert item["immutable"] is True
        assert sum(len(text.encode()) for text in item["data"].values()) <= LIMIT
        assert len(go_json(item)) < 256 * 1024, "what `kubectl apply` keeps in an annotation"


def test_pods_mount_the_config_maps_of_their_own_release_and_content() -> None:
    names = [item["metadata"]["name"] for item in render(job()) if item["kind"] == "ConfigMap"]
    for pod in project(one("RayJob", job())):
        (volume,) = [volume for volume in pod["spec"]["volumes"] if volume["name"] == "training"]
        # Nothing else: what the operator adds or drops when it writes the RayJob back would be a difference.
        assert volume == {
            "name": "training", "projected": {"sources": [{"configMap": {"name": name}} for name in names]}
        }  # fmt: skip


def test_a_large_package_is_spread_over_config_maps(chart_copy: Path) -> None:
    folder = enlarge(chart_copy, 2 * LIMIT + 1)
    found = maps(KEPT, chart=chart_copy)
    assert len(found) == 3
    assert [name for item in found for name in item["data"]] == sorted(texts(folder))
    assert {name: text for item in found for name, text in item["data"].items()} == texts(folder)
    for item, following in itertools.pairwise(found):
        size = sum(len(text.encode()) for text in item["data"].values())
        assert size <= LIMIT < size + len(next(iter(following["data"].values())).encode()), "filled in order"
    for item in found:
        assert item["immutable"] is True
        assert item["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert len({item["metadata"]["name"] for item in found}) == 3

    last = folder / max(texts(folder))
    last.write_text("#" + last.read_text(encoding="utf-8")[1:], encoding="utf-8")
    changed = maps(KEPT, chart=chart_copy)
    assert [a["metadata"]["name"] == b["metadata"]["name"] for a, b in zip(found, changed, strict=True)] == [
        True, True, False
    ], "each part is named by its own content"  # fmt: skip


def test_a_changed_file_gives_a_new_config_map_and_a_new_job(chart_copy: Path) -> None:
    def names() -> tuple[str, str]:
        config_maps = " ".join(item["metadata"]["name"] for item in maps(job(), chart=chart_copy))
        return config_maps, job_name(job(), chart=chart_copy)

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
    (item,) = maps(chart=chart_copy)
    assert item["data"] == HOSTILE


@pytest.mark.parametrize("keep", [(), ("config.py",)], ids=["no file", "no train.py"])
def test_without_train_py(chart_copy: Path, keep: tuple[str, ...]) -> None:
    for file in (chart_copy / "files" / "training").iterdir():
        if file.is_file() and file.name not in keep:
            file.unlink()
    with pytest.raises(HelmError) as caught:
        template(job(), chart=chart_copy)
    (problem,) = caught.value.problems
    assert "files/training: train.py is not there" in problem


def test_limit_of_the_package(chart_copy: Path) -> None:
    folder = enlarge(chart_copy, MOST)
    template(job(), chart=chart_copy)
    (folder / "last.py").write_text("#", encoding="utf-8")
    with pytest.raises(HelmError) as caught:
        template(job(), chart=chart_copy)
    (problem,) = caught.value.problems
    assert f"files/training: {MOST + 1} bytes in all, above 600 KiB" in problem


def test_limit_of_a_file(chart_copy: Path) -> None:
    file = chart_copy / "files" / "training" / "filler.py"
    file.write_text("#" * LIMIT, encoding="utf-8")
    assert ["filler.py"] in [list(item["data"]) for item in maps(chart=chart_copy)]
    file.write_text("#" * (LIMIT + 1), encoding="utf-8")
    with pytest.raises(HelmError) as caught:
        template(job(), chart=chart_copy)
    (problem,) = caught.value.problems
    assert f"files/training/filler.py: {LIMIT + 1} bytes, above 200 KiB ({LIMIT})" in problem
    assert "split the module" in problem


def test_code_of_the_users_own_has_a_limit_of_its_own(chart_copy: Path) -> None:
    """And with both at their limit the release still fits into the Secret that Helm keeps it in."""
    folder = enlarge(chart_copy, MOST)
    text = b"".join(file.read_bytes() for file in sorted(folder.glob("*.py")))[:LIMIT].decode(errors="ignore")
    own = job("training.code", {"module": "own", "files": {"own.py": text + "#" * (LIMIT - len(text.encode()))}})
    kept = base64.b64encode(gzip.compress(go_json(release(own, chart_copy)), 9))
    assert len(kept) < 1024 * 1024

    own["training"]["code"]["files"]["own.py"] += "#"
    with pytest.raises(HelmError) as caught:
        template(own, chart=chart_copy)
    (problem,) = caught.value.problems
    assert f"training.code.files: {LIMIT + 1} bytes, above 200 KiB" in problem


def go_json(value: Any) -> bytes:
    """JSON as Go writes it, which escapes what has a meaning in HTML."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode()


def release(values: Values, chart: Path) -> Object:
    """The release that Helm would keep, chart and values included."""
    try:
        text = run(
            "install", "demo", str(chart), "--dry-run=client", "--output=json", "--values=-", stdin=as_yaml(values)
        )
    except HelmError as error:
        if "cluster unreachable" in error.stderr:
            pytest.skip("this Helm installs, also dry, only with a cluster at hand; Helm 4 does without")
        raise
    found: Object = json.loads(text)
    assert {"chart", "config", "manifest"} <= set(found)
    return found


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
