"""docs/recipes.md: the chart takes its values, everybody takes what they render, and the pages' script finds it all."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.chart.cases import job, job_name, with_key
from tests.cluster.checkers import check_rayjobs, require_go
from tests.cluster.judges import refusals, rendered
from tests.docs.blocks import documents
from tests.helm import ROOT, Object, one, render, template
from tests.project_pods import project

PAGE = "recipes.md"
SCRIPT = ROOT / "docs/examples/pod_templates.py"


def values(name: str) -> dict[str, Any]:
    """A values file of the page, over those of two nodes where it is not whole."""
    ((found,),) = documents(PAGE, f"{name}-values.yaml")
    return dict(found) if "workerGroups" in found else job() | found


CASES = {name: values(name) for name in ("fsx", "outside", "address", "logs", "both")}
CASES["logs where Pod Security is restricted"] = CASES["logs"] | {"podSecurity": "restricted"}


@pytest.mark.go
def test_everybody_takes_what_they_render() -> None:
    require_go()
    found = refusals(CASES, rendered(CASES))
    assert not found, "\n".join(found)


def test_one_file_with_both_is_both() -> None:
    both, address, logs = (CASES[name] for name in ("both", "address", "logs"))
    assert both["extraObjects"] == address["extraObjects"] + logs["extraObjects"]
    assert both["networkPolicy"] == address["networkPolicy"]
    assert both["common"] == logs["common"]
    assert set(both) == set(address) | set(logs)
    assert "ray-fluent-bit" in template(both)
    assert "qwen-dashboard" in template(both)


def test_the_head_of_the_fsx_recipe_has_a_place() -> None:
    head, worker = project(one("RayJob", CASES["fsx"]))
    assert head["spec"]["nodeSelector"] != worker["spec"]["nodeSelector"]


def test_only_the_type_of_the_service_starts_a_job() -> None:
    outside = CASES["outside"]
    assert job_name(outside) != job_name(job())
    assert job_name(with_key(outside, "head.serviceAnnotations", {})) == job_name(outside)
    assert job_name(with_key(outside, "networkPolicy", {})) == job_name(outside)
    assert job_name(CASES["address"]) == job_name(job())


@pytest.mark.go
def test_the_service_from_outside_is_the_one_that_was_asked_for() -> None:
    require_go()
    (report,) = check_rayjobs(template(CASES["outside"]), pods=True)
    assert report.service is not None
    assert report.service["spec"]["type"] == "LoadBalancer"
    assert report.service["spec"]["loadBalancerSourceRanges"] == ["10.0.0.0/8"]
    given = CASES["outside"]["head"]["serviceAnnotations"]
    assert report.service["metadata"]["annotations"] == given


@pytest.mark.go
def test_the_own_service_finds_the_head_and_nothing_else() -> None:
    require_go()
    (service,) = [item for item in render(CASES["address"], name="qwen") if item["kind"] == "Service"]
    selector = service["spec"]["selector"].items()
    (report,) = check_rayjobs(template(CASES["address"], name="qwen"), pods=True)
    head, worker = report.pods
    assert selector <= head["metadata"]["labels"].items()
    assert not selector <= worker["metadata"]["labels"].items()


def test_the_shipper_reads_the_logs_and_its_configuration() -> None:
    logs = with_key(CASES["logs"], "job.submissionMode", "K8sJobMode")
    rayjob = one("RayJob", logs)
    (config,) = [item for item in render(logs) if item["metadata"]["name"] == "ray-fluent-bit"]

    def mounts(pod: Object, name: str) -> dict[str, str]:
        (found,) = [item for item in pod["spec"]["containers"] if item["name"] == name]
        return {item["name"]: item["mountPath"] for item in found["volumeMounts"]}

    assert "fluent-bit" not in str(rayjob["spec"]["submitterPodTemplate"])
    for pod, name in zip(project(rayjob), ("ray-head", "ray-worker"), strict=True):
        assert mounts(pod, name)["ray-logs"] == mounts(pod, "fluent-bit")["ray-logs"] == "/tmp/ray"  # noqa: S108
        (shipper,) = [item for item in pod["spec"]["containers"] if item["name"] == "fluent-bit"]
        folder, _, file = shipper["args"][1].rpartition("/")
        assert mounts(pod, "fluent-bit")["fluent-bit"] == folder
        assert list(config["data"]) == [file]
    assert yaml.safe_load(config["data"]["fluent-bit.yaml"])["pipeline"]["inputs"][0]["path"].startswith("/tmp/ray/")  # noqa: S108


def asked(values: dict[str, Any]) -> list[dict[str, Any]]:
    """What the script gives the API server for values."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], input=template(values), capture_output=True, text=True, timeout=60, check=True
    )
    return list(yaml.safe_load_all(done.stdout))


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ({}, ["gpu", "head"]),
        (job("mode", "cluster"), ["gpu", "head"]),
        (job("job", {"submissionMode": "K8sJobMode"}), ["gpu", "head", "submitter"]),
    ],
)
def test_the_script_finds_every_pod(values: dict[str, Any], wanted: list[str]) -> None:
    found = asked(values)
    assert [item["metadata"]["name"].rpartition("-")[2] for item in found] == wanted
    for item in found:
        kubernetes_validate.validate(item, "1.34", strict=True)


def test_the_script_says_that_there_are_no_pods() -> None:
    text = template(with_key(job("mode", "jobOnCluster"), "job.clusterName", "big"))
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], input=text, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("no pods in these manifests")


def test_the_script_finds_the_service() -> None:
    head = {"serviceType": "LoadBalancer", "service": {"spec": {"loadBalancerSourceRanges": ["10.0.0.0/8"]}}}
    (service,) = [item for item in asked(job("head", head)) if item["kind"] == "Service"]
    kubernetes_validate.validate(service, "1.34", strict=True)
    assert service["spec"]["type"] == "LoadBalancer"
    assert service["spec"]["loadBalancerSourceRanges"] == ["10.0.0.0/8"]
