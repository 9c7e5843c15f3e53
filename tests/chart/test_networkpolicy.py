"""NetworkPolicy: the release's pods, the operator on 8265, DNS, and S3 with Pod Identity where needed. Nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chart.cases import job, with_key
from tests.chart.every_value import CLUSTER, GIT, HUB, OWN, SCALING
from tests.helm import one, render
from tests.project_pods import project

DNS = {"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]}
HTTPS = {"ports": [{"protocol": "TCP", "port": 443}]}
POD_IDENTITY = {
    "to": [{"ipBlock": {"cidr": "169.254.170.23/32"}}, {"ipBlock": {"cidr": "fd00:ec2::23/128"}}],
    "ports": [{"protocol": "TCP", "port": 80}],
}


def policy(values: Any = None, **options: Any) -> dict[str, Any]:
    return one("NetworkPolicy", values, **options)["spec"]


@pytest.mark.parametrize("mode", ["job", "cluster"])
def test_selects_the_pods_of_the_release_and_of_no_other(mode: str) -> None:
    for release, other in (("demo", "other"), ("x" * 50 + "-a", "x" * 50 + "-b")):
        selector = policy(job("mode", mode), name=release)["podSelector"]["matchLabels"]
        for name, matches in ((release, True), (other, False)):
            (ray,) = [item for item in render(job("mode", mode), name=name) if item["apiVersion"] == "ray.io/v1"]
            for pod in project(ray):
                assert (selector.items() <= pod["metadata"]["labels"].items()) is matches


def test_is_the_same_for_the_next_job() -> None:
    """An old job that still writes its checkpoint stays covered while the next one starts."""
    before, after = (one("NetworkPolicy", job("job.runId", run)) for run in ("1", "2"))
    assert before == after


def test_kept_jobs_have_policies_of_their_own() -> None:
    """Else two jobs of a release, of which one is from another time, would reach each other."""
    values = job("job.onChange", "keep")
    before, after = (with_key(values, "job.runId", run) for run in ("1", "2"))
    names = [one("NetworkPolicy", v)["metadata"]["name"] for v in (before, after)]
    assert names == [one("RayJob", v)["metadata"]["name"] for v in (before, after)]
    assert len(set(names)) == 2
    selector = policy(before)["podSelector"]["matchLabels"]
    for ours, pods_of in ((True, before), (False, after)):
        for pod in project(one("RayJob", pods_of)):
            assert (selector.items() <= pod["metadata"]["labels"].items()) is ours


def test_prometheus_reads_metrics_where_there_is_a_podmonitor() -> None:
    *_, prometheus = policy(job("monitoring.podMonitor.enabled", True))["ingress"]
    assert prometheus["ports"] == [{"protocol": "TCP", "port": 8080}]
    assert prometheus["from"][0]["podSelector"] == {"matchLabels": {"app.kubernetes.io/name": "prometheus"}}


def test_more_rules() -> None:
    rule = {"from": [{"podSelector": {"matchLabels": {"app": "mine"}}}]}
    assert policy(job("networkPolicy.extraIngress", [rule]))["ingress"][-1] == rule


def test_ingress() -> None:
    spec = policy(job())
    assert spec["policyTypes"] == ["Ingress"]
    peers, operator = spec["ingress"]
    assert peers == {"from": [{"podSelector": spec["podSelector"]}]}
    assert operator == {
        "from": [
            {
                "namespaceSelector": {},
                "podSelector": {"matchLabels": {"app.kubernetes.io/component": "kuberay-operator"}},
            },
        ],
        "ports": [{"protocol": "TCP", "port": 8265}],
    }


def test_operator_of_one_namespace() -> None:
    (peer,) = policy(job("networkPolicy.operatorNamespace", "kuberay"))["ingress"][1]["from"]
    assert peer["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "kuberay"}}
    assert "podSelector" in peer  # one peer with both, not two peers


@pytest.mark.parametrize(
    ("storage", "more"),
    [
        ({"kind": "pvc", "claimName": "c"}, []),
        ({"kind": "fsx", "claimName": "c"}, []),
        ({"kind": "s3", "uri": "s3://bucket/prefix"}, [HTTPS, POD_IDENTITY]),
    ],
)
def test_egress(storage: dict[str, str], more: list[Any]) -> None:
    values = job("training.storage", storage)
    assert "egress" not in policy(values)
    spec = policy(with_key(values, "networkPolicy.limitEgress", True))
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["egress"] == [{"to": [{"podSelector": spec["podSelector"]}]}, DNS, *more]


API = {"ports": [{"protocol": "TCP", "port": 443}, {"protocol": "TCP", "port": 6443}]}


@pytest.mark.parametrize(
    ("values", "more"),
    [
        (with_key(OWN, "training.model", HUB), [HTTPS]),
        (with_key(OWN, "training.data.uri", "s3://bucket/a"), [HTTPS, POD_IDENTITY]),
        (with_key(OWN, "training.data.uri", "/mnt/ray-train/a"), []),
        (GIT, [HTTPS]),
        (with_key(GIT, "training.code.git.url", "http://git.example/a"), [
            {"ports": [{"protocol": "TCP", "port": 443}, {"protocol": "TCP", "port": 80}]}
        ]),
        (with_key(GIT, "training.code.git.url", "https://git.example:8443/a"), [
            {"ports": [{"protocol": "TCP", "port": 443}, {"protocol": "TCP", "port": 8443}]}
        ]),
        (SCALING, [API]),
        (with_key(CLUSTER, "auth.enableK8sTokenAuth", True), [API]),
        (with_key(CLUSTER, "cluster.gcsFaultToleranceOptions.redisAddress", "rediss://a:6380,b:6380"), [
            {"ports": [{"protocol": "TCP", "port": 6380}]}
        ]),
    ],
)  # fmt: skip
def test_egress_to_what_the_values_need(values: dict[str, Any], more: list[Any]) -> None:
    assert policy(with_key(values, "networkPolicy.limitEgress", True))["egress"][2:] == more


def test_can_be_left_out() -> None:
    assert "NetworkPolicy" not in {item["kind"] for item in render(job("networkPolicy.enabled", False))}
