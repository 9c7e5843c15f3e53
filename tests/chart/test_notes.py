"""NOTES.txt: commands that a shell and kubectl take as printed, and the warnings that apply."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest

from tests.chart.cases import job, job_name, with_key
from tests.chart.every_value import SCALING
from tests.helm import CHART, CI_VALUES, notes

# kubectl that prints what it gets; inner calls, whose output outer ones use, print a name.
STUB = """
kubectl() {
  case "$*" in
    *jsonpath*status*|*"-o name"*) echo NAME;;
    *) printf "%s|" "$@"; echo;;
  esac
}
base64() { cat; }
"""


HELM = "helm() { printf '%s|' \"$@\"; echo; }\n"


def commands(text: str) -> list[str]:
    """The indented lines that begin with a program."""
    return re.findall(r"^  ((?:kubectl|helm) .*)$", text, flags=re.MULTILINE)


@pytest.mark.parametrize("file", CI_VALUES, ids=lambda file: file.stem.removesuffix("-values"))
def test_commands_are_whole_shell_commands(file: Any) -> None:
    text = notes([file], namespace="team-a")
    found = commands(text)
    assert len(found) >= 5
    assert len(text.splitlines()) < 60, "notes are there to be read"
    for command in found:
        done = subprocess.run(
            ["bash", "-uec", STUB + HELM + command], capture_output=True, text=True, check=True, timeout=20
        )
        assert done.stderr == "", command
        assert "-n|team-a|" in done.stdout or done.stdout.strip() == "NAME", command
    assert "<no value>" not in text


def test_job() -> None:
    text = notes(job())
    assert f"RayJob {job_name(job())} in namespace ray-train: 2 nodes of 4 ranks" in text
    assert f"wait rayjob/{job_name(job())} --for=jsonpath='{{.status.jobStatus}}'=SUCCEEDED" in text
    assert "ray job logs --address http://127.0.0.1:8265 --follow $(kubectl" in text
    assert "starts a new RayJob; this one then has 120 s" in text


def test_cluster() -> None:
    text = notes(job("mode", "cluster"))
    assert "RayCluster demo in namespace ray-train" in text
    assert "ray job submit --address http://127.0.0.1:8265 -- python -m training.train --preset=tiny" in text
    assert "rayjob" not in text


def test_keep_lists_the_jobs_and_how_to_remove_one() -> None:
    text = notes(job("job.onChange", "keep"), name="1.demo")
    assert "get rayjobs -l ray-train-dlc/release=r-1-demo" in text
    assert "delete rayjob,networkpolicy NAME" in text
    assert "delete configmap NAME" in text
    without = notes(with_key(job("job.onChange", "keep"), "networkPolicy.enabled", False))
    assert "delete rayjob NAME" in without


def test_pinned_name_is_said_to_be_pinned() -> None:
    assert "pinned by job.name" in notes(job("job.name", "mine"))


ON_CLUSTER = with_key(job("mode", "jobOnCluster"), "job.clusterName", "big")


def test_a_job_on_a_cluster_has_no_pods_and_no_code_of_its_own() -> None:
    text = notes(ON_CLUSTER)
    assert "2 nodes of 4 ranks of RayCluster big\n" in text
    assert "get pods -l ray.io/cluster=big" in text
    assert "the operator stops this one at once" in text
    kept = notes(with_key(ON_CLUSTER, "job.onChange", "keep"))
    assert "delete rayjob NAME" in kept
    for words in ("configmap", "networkpolicy", "The NetworkPolicy"):
        assert words not in text + kept


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({}, "get secret demo -o jsonpath='{.data.auth_token}' | base64 -d"),
        ({"auth": {"secretName": "mine"}}, "get secret mine -o jsonpath='{.data.auth_token}' | base64 -d"),
        ({"auth": {"enableK8sTokenAuth": True}}, "create token demo\n"),
        ({"auth": {"enableK8sTokenAuth": True}, "head": {"serviceAccountName": "ray"}}, "create token ray\n"),
        ({"auth": {"mode": "disabled"}}, "http://127.0.0.1:8265, which asks for no token:\n"),
    ],
)
def test_the_token_is_the_one_that_the_dashboard_takes(change: dict[str, Any], wanted: str) -> None:
    text = notes({**job("mode", "cluster"), **change})
    assert wanted in text
    assert ("get secret" in text) == ("get secret" in wanted)


def test_the_service_of_the_head_is_the_one_that_is_there() -> None:
    assert "port-forward svc/demo-head-svc " in notes(job("mode", "cluster"))
    named = job("head.service", {"metadata": {"name": "front"}})
    assert "port-forward svc/front " in notes(named)
    assert "port-forward svc/$(kubectl -n ray-train get raycluster big -o jsonpath=" in notes(ON_CLUSTER)


def test_the_image_is_the_one_that_the_workers_run() -> None:
    values = with_key(job(), "common.image", {"repository": "registry.example/ray", "tag": "1.2"})
    assert "ranks, image\nregistry.example/ray:1.2\n\n" in notes(values)
    pinned = with_key(values, "common.image.digest", "sha256:" + "1" * 64)
    assert "image.digest is empty" in notes(values)
    assert "image.digest is empty" not in notes(pinned)


def test_it_says_which_pods_have_no_digest() -> None:
    digest = "sha256:" + "1" * 64
    assert "image.digest is empty: if" in notes(job())
    one = with_key(job("head.image.digest", digest), "workerGroups.more", job()["workerGroups"]["gpu"])
    assert "image.digest is empty for gpu, more: if" in notes(one)
    both = with_key(with_key(one, "workerGroups.gpu.image", {"digest": digest}), "head.image", {})
    assert "image.digest is empty for head, more: if" in notes(both)


def test_the_grace_is_that_of_the_workers() -> None:
    assert "this one then has 300 s to write" in notes(job(terminationGracePeriodSeconds=300))
    assert "this one then has 120 s to write" in notes(job("head.terminationGracePeriodSeconds", 50))


def test_a_cluster_that_is_not_recreated_says_so() -> None:
    text = notes(with_key(job("mode", "cluster"), "cluster.upgradeStrategy", "None"))
    assert "does nothing until you delete them" in text
    assert "recreates" not in text


def test_a_cluster_that_grows_says_what_it_begins_with() -> None:
    one = notes(SCALING)
    assert "cluster.autoscaling changes nothing" in one
    more = notes(with_key(SCALING, "workerGroups.gpu.minReplicas", 0))
    assert "Group gpu begins with 0 of 2 nodes" in more
    assert "changes nothing" not in more
    serving = {"replicas": 2, "minReplicas": 0, "gpus": 0, "resources": {"cpu": "4", "memory": "8Gi"}}
    assert "begins with" not in notes(with_key(SCALING, "workerGroups.data", serving))


# A job on a cluster waits for no node and in no queue.
STATES = {
    "job": ["nothing", "Initializing", "Running", "Suspended", "ValidationFailed", "Failed"],
    "cluster": ["nothing", "not ready", "suspended"],
    "jobOnCluster": ["nothing", "Initializing", "Running", "ValidationFailed", "Failed"],
}


@pytest.mark.parametrize("values", [job(), job("mode", "cluster"), ON_CLUSTER])
def test_they_say_what_states_mean_and_where_more_is(values: dict[str, Any]) -> None:
    text = notes(values)
    found = re.findall(r"^  \* ([A-Za-z ]+)[:,]", text, flags=re.MULTILINE)
    assert found == STATES[values.get("mode", "job")]
    (section,) = re.findall(r"The chart's README .*\(\"(.+)\"\)", text)
    assert f"## {section}\n" in (CHART / "README.md").read_text(encoding="utf-8")


def test_helm_test_is_named_where_there_is_one() -> None:
    assert "  helm -n ray-train test demo\n" in notes(job())
    assert "helm -n" not in notes(job("tests.enabled", False))


def test_warnings() -> None:
    quiet = with_key(job(), "image.digest", "sha256:" + "0" * 64)
    outside = with_key(quiet, "head.serviceType", "LoadBalancer")
    let_in = {"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"protocol": "TCP", "port": 8265}]}
    own = with_key(quiet, "training.code.module", "own_training")
    cases = {
        "The head's Service is a LoadBalancer": (outside, with_key(outside, "networkPolicy.extraIngress", [let_in])),
        "The head's Service is a NodePort": (
            with_key(quiet, "head.service", {"spec": {"type": "NodePort"}}),
            with_key(outside, "networkPolicy.enabled", False),
        ),
        "the module own_training and no source": (own, with_key(own, "training.code.configMapName", "code")),
        "no source (files": (own, with_key(ON_CLUSTER, "training.code.module", "own_training")),
        "Nothing compares them with RayCluster big": (ON_CLUSTER, quiet),
        "image.digest is empty": (job(), quiet),
        "training.storage.kind is none": ({}, quiet),
        "is not encrypted": (quiet, {}),
        "networkPolicy.enabled is false": (with_key(quiet, "networkPolicy.enabled", False), quiet),
        "enableNetworkPolicy of the vpc-cni add-on": (quiet, with_key(quiet, "networkPolicy.enabled", False)),
    }
    for words, (warned, silent) in cases.items():
        assert words in notes(warned), words
        assert words not in notes(silent), words
