"""The RayJob's name: valid for any release, the same for the same content, another for any functional change."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
import yaml

from generator.values.document import rows
from tests.chart.cases import job, job_name, with_key
from tests.chart.every_value import (
    DIGEST,
    ELSEWHERE,
    FUNCTIONAL,
    NEUTRAL,
    NEUTRAL_POD_FIELDS,
    OF_A_CLUSTER,
    OF_A_JOB_ON_A_CLUSTER,
    ON_CLUSTER,
    POD_FIELDS,
    RAY_FIELDS,
    SUBMITTER,
    VOLUMES,
    changed,
)
from tests.helm import CHART, KUBE_VERSION, one, render, run, template

DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def test_every_value_is_listed_and_so_does_something() -> None:
    listed = [*FUNCTIONAL, *NEUTRAL, *OF_A_CLUSTER, *OF_A_JOB_ON_A_CLUSTER, *ELSEWHERE]
    assert sorted(listed) == sorted(row.path for row in rows())


@pytest.mark.parametrize("path", FUNCTIONAL)
def test_a_functional_change_gives_another_name(path: str) -> None:
    before, value = FUNCTIONAL[path]
    before = before or job()
    assert job_name(before)[-8:] != job_name(changed(path, before, value))[-8:]


@pytest.mark.parametrize("place", ["head", "workerGroups.gpu", "job.submitter"])
def test_a_field_of_a_pod_is_functional_in_every_place(place: str) -> None:
    before = SUBMITTER if place == "job.submitter" else job()
    fields = POD_FIELDS if place == "job.submitter" else POD_FIELDS | RAY_FIELDS
    name = job_name(before)
    for path, value in fields.items():
        # A mount needs its volume; that alone makes another name too, which `common.volumeMounts` sees to.
        start = changed(f"{place}.volumes", before, VOLUMES) if path == "volumeMounts" else before
        after = changed(f"{place}.{path}", start, value)
        assert job_name(after) not in {name, job_name(start)}, path
        if path != "volumeMounts":
            assert render(after) != render(changed(f"common.{path}", before, value)), path


@pytest.mark.parametrize("path", NEUTRAL)
def test_another_change_keeps_the_name_and_is_not_ignored(path: str) -> None:
    before, value = NEUTRAL[path]
    before = before or job()
    after = changed(path, before, value)
    assert job_name(after) == job_name(before)
    assert render(after, hooks=True) != render(before, hooks=True)


@pytest.mark.parametrize("place", ["head", "workerGroups.gpu", "job.submitter"])
def test_labels_of_pods_are_neutral_in_every_place(place: str) -> None:
    before = SUBMITTER if place == "job.submitter" else job()
    for path, value in NEUTRAL_POD_FIELDS.items():
        after = changed(f"{place}.{path}", before, value)
        assert job_name(after) == job_name(before)
        assert render(after) != render(before)


@pytest.mark.parametrize("path", OF_A_CLUSTER)
def test_what_only_a_standing_cluster_has_changes_it(path: str) -> None:
    before, value = OF_A_CLUSTER[path]
    assert before is not None
    assert one("RayCluster", changed(path, before, value)) != one("RayCluster", before)


def test_another_cluster_is_another_job() -> None:
    before, value = OF_A_JOB_ON_A_CLUSTER["job.clusterName"]
    assert before is not None
    assert job_name(before) != job_name(changed("job.clusterName", before, value))


def test_labels_of_the_heads_service_start_nothing() -> None:
    for metadata in ({"labels": {"a": "1"}}, {"annotations": {"a": "1"}}):
        before = job("head.service", {"metadata": {}, "spec": {"type": "ClusterIP"}})
        after = with_key(before, "head.service.metadata", metadata)
        assert job_name(after) == job_name(before)
        assert render(after) != render(before)
    assert job_name(with_key(before, "head.service.metadata", {"name": "a"})) != job_name(before)
    assert job_name(job("head.service", {"metadata": {"labels": {"a": "1"}}})) == job_name(job())
    assert job_name(job("head.affinity", {"nodeAffinity": None})) == job_name(job())


def test_releases_that_agree_in_what_a_name_takes_of_them_have_different_jobs() -> None:
    """Also on one cluster, where nothing else of the spec tells them apart."""
    for values in (job(), ON_CLUSTER):
        names = {job_name(values, name="x" * 40 + end) for end in ("-one", "-two")}
        assert len(names) == 2


def test_a_change_without_another_name_changes_no_spec_but_labels() -> None:
    """KubeRay ignores changes of a started job until a retry, which would run another spec under the same name."""
    plain = one("RayJob", job())["spec"]
    for path, (before, value) in NEUTRAL.items():
        spec = one("RayJob", changed(path, before or job(), value))["spec"]
        for start in (spec["rayClusterSpec"]["headGroupSpec"], *spec["rayClusterSpec"]["workerGroupSpecs"]):
            start["template"]["metadata"]["labels"].pop("a", None)
            start["template"]["metadata"].pop("annotations", None)
        spec["rayClusterSpec"].pop("headServiceAnnotations", None)
        assert spec == plain, path


def test_the_tag_beside_a_digest_is_only_a_comment() -> None:
    values = job("image.digest", DIGEST)
    for tag in ("train-ml-cuda-v1.1.1", "latest", ""):
        assert render(changed("image.tag", values, tag)) == render(values)
    assert job_name(changed("image.digest", values, "sha256:" + "b" * 64)) != job_name(values)


def test_pinned_name() -> None:
    values = job("job.name", "my-run")
    assert job_name(values) == job_name(changed("image.tag", values, "other")) == "my-run"
    hashes = {
        one("RayJob", v)["metadata"]["annotations"]["ray-train-dlc/content-sha256"]
        for v in (values, changed("image.tag", values, "x"))
    }
    assert len(hashes) == 2


def test_name_ends_with_the_annotated_hash() -> None:
    metadata = one("RayJob", job())["metadata"]
    assert re.fullmatch(r"[0-9a-f]{64}", metadata["annotations"]["ray-train-dlc/content-sha256"])
    assert metadata["name"] == f"demo-{metadata['annotations']['ray-train-dlc/content-sha256'][:8]}"


def test_namespace_is_not_in_the_name() -> None:
    assert job_name(job(), namespace="a") == job_name(job(), namespace="b")
    for namespace in ("a", "b"):
        spec = one("RayJob", job(), namespace=namespace)["spec"]
        env = spec["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["env"]
        (path,) = [item["value"] for item in env if item["name"] == "RTD_RUN_PATH"]
        assert path == f"/mnt/ray-train/cluster/{namespace}/{job_name(job())}"


def test_the_way_values_are_written_is_not_in_the_name(tmp_path: Path) -> None:
    values = job("training.args", {"steps": 1000000, "learning_rate": 0.00002, "seed": 7})
    texts = [
        yaml.safe_dump(values),
        yaml.safe_dump(values, sort_keys=False, default_flow_style=True),
        "# A comment\n"
        + yaml.safe_dump(values)
        .replace("learning_rate: 2.0e-05", "learning_rate: 2e-5")
        .replace("1000000", "1000000.0"),
    ]
    assert "2e-5" in texts[2]
    names = set()
    for number, text in enumerate(texts):
        file = tmp_path / f"{number}.yaml"
        file.write_text(text, encoding="utf-8")
        names.add(job_name([file]))
    names.add(
        job_name(job("training.args", {"learning_rate": 0.00002, "seed": 7}), set_=["training.args.steps=1000000"])
    )
    assert names == {job_name(values)}


def test_the_machine_is_not_in_the_name(tmp_path: Path) -> None:
    """Another folder, user environment and locale, or the packaged chart, give the same text."""
    here = template([CHART / "ci" / "efa-p5-values.yaml"], hooks=True)
    chart = Path(shutil.copytree(CHART, tmp_path / "elsewhere" / "ray-train-dlc"))
    for file in chart.rglob("*"):
        os.utime(file, (0, 0))
    run("package", str(chart), f"--destination={tmp_path}")
    (package,) = tmp_path.glob("*.tgz")
    for place in (chart, package):
        there = run(
            *("template", "demo", str(place), "--namespace=ray-train", f"--kube-version={KUBE_VERSION}"),
            *("--api-versions=ray.io/v1", f"--values={CHART / 'ci' / 'efa-p5-values.yaml'}"),
            env={"HOME": str(tmp_path), "LC_ALL": "C", "TZ": "Pacific/Apia"},
        )
        assert there == here


def test_version_of_the_chart_is_not_in_the_name(chart_copy: Path) -> None:
    file = chart_copy / "Chart.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(
        text.replace("version: 0.1.0", "version: 9.9.9").replace('appVersion: "2.58.0"', 'appVersion: "3.0.0"'),
        encoding="utf-8",
    )
    job_object = one("RayJob", job(), chart=chart_copy)
    assert job_object["metadata"]["labels"]["helm.sh/chart"] == "ray-train-dlc-9.9.9"
    assert job_object["metadata"]["name"] == job_name(job())


def test_the_hash_itself_does_not_move(chart_copy: Path) -> None:
    """For fixed values and code. When this fails, a new release of the chart starts every training anew at its users.

    Change the name here only together with a line in the changelog that says so.
    """
    shutil.rmtree(chart_copy / "files" / "training")
    (chart_copy / "files" / "training").mkdir()
    (chart_copy / "files" / "training" / "train.py").write_text("print('training')\n", encoding="utf-8")
    assert job_name(job(), chart=chart_copy) == "demo-06459dbb"


@pytest.mark.parametrize(
    ("release", "start"),
    [
        ("demo", "demo-"),
        ("a", "a-"),
        ("1.llama.70b", "r-1-llama-70b-"),
        ("0", "r-0-"),
        ("a.b", "a-b-"),
        ("a--b", "a--b-"),
        ("x" * 53, "x" * 38 + "-"),
        ("x" * 37 + "-" + "y" * 15, "x" * 37 + "-"),
        ("x" * 37 + "." + "y" * 15, "x" * 37 + "-"),
        ("9" * 53, "r-" + "9" * 36 + "-"),
        ("9" * 50 + ".99", "r-" + "9" * 36 + "-"),
    ],
)
def test_hostile_release_names(release: str, start: str) -> None:
    for mode, kind, longest in (("job", "RayJob", 47), ("cluster", "RayCluster", 53)):
        objects = render(job("mode", mode), name=release)
        (ray,) = [item for item in objects if item["kind"] == kind]
        name = ray["metadata"]["name"]
        assert DNS_1035.fullmatch(name)
        assert len(name) <= longest
        if mode == "job":
            assert re.fullmatch(re.escape(start) + "[0-9a-f]{8}", name)
        for item in objects:
            assert re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", item["metadata"]["name"])
            for value in item["metadata"]["labels"].values():
                assert len(value) <= 63


def test_long_releases_with_the_same_start_share_no_object() -> None:
    first, second = "x" * 40 + "-one", "x" * 40 + "-two"
    names = [
        {(item["kind"], item["metadata"]["name"]) for item in render(job(), name=name)} for name in (first, second)
    ]
    assert names[0].isdisjoint(names[1])


def test_name_override() -> None:
    objects = {item["kind"]: item["metadata"]["name"] for item in render(job("nameOverride", "llama"), name="release")}
    assert objects["ServiceAccount"] == objects["NetworkPolicy"] == "llama"
    assert objects["RayJob"].startswith("llama-")
    assert objects["ConfigMap"].startswith("llama-code-")
