"""Pods as KubeRay makes them: flags from limits, environment, addresses; and what is refused."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from generator.local.errors import LocalError
from generator.local.manifests import Rendered, parse
from generator.local.pods import environment, flags, pods, quantity
from tests.local.manifest import config_map, manifests, rayjob


def _rendered(job: dict[str, Any], *more: Any) -> Rendered:
    return parse(manifests(job, config_map(), *more), origin="the test", namespace="n")


def _worker(job: dict[str, Any]) -> dict[str, Any]:
    group = job["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]
    assert isinstance(group, dict)
    return group


def _container(job: dict[str, Any]) -> dict[str, Any]:
    container = _worker(job)["template"]["spec"]["containers"][0]
    assert isinstance(container, dict)
    return container


def _env(job: dict[str, Any], *more: Any) -> dict[str, str]:
    rendered = _rendered(job, *more)
    return environment(pods(rendered)[1], rendered, labels={"ray.io/group": "cpu"}, pod_name="tiny-cpu-0")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500m", "0.5"),
        ("2", "2"),
        ("8Gi", str(8 * 1024**3)),
        ("1.5k", "1500"),
        ("1e3", "1000"),
        ("2E", "2e18"),
        (3, "3"),
    ],
)
def test_quantities(text: object, value: str) -> None:
    assert quantity(text) == Decimal(value)


@pytest.mark.parametrize("text", ["", "8GB", "x", "1..2", None])
def test_what_is_no_quantity(text: object) -> None:
    with pytest.raises(LocalError, match="not a Kubernetes quantity"):
        quantity(text)


def test_each_replica_is_a_node_on_its_own_loopback_address() -> None:
    job = rayjob(replicas=2)
    second = {**_worker(job), "groupName": "big", "replicas": 1, "numOfHosts": 2}
    job["spec"]["rayClusterSpec"]["workerGroupSpecs"].append(second)
    nodes = pods(_rendered(job))
    assert [(pod.name, pod.group, pod.is_head) for pod in nodes] == [
        ("head", "headgroup", True),
        ("cpu-0", "cpu", False),
        ("cpu-1", "cpu", False),
        ("big-0", "big", False),
        ("big-1", "big", False),
    ]
    assert [pod.address for pod in nodes[1:]] == ["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"]
    assert len({pod.address for pod in nodes}) == 5
    assert "127.0.0.1" not in {pod.address for pod in nodes}, "Ray replaces it by the machine's own address"


def test_limits_become_ray_resources_as_kuberay_does_it() -> None:
    job = rayjob()
    _container(job)["resources"] = {"limits": {"cpu": "1500m", "memory": "1Gi"}}
    assert pods(_rendered(job))[1].params == {"num-cpus": "2", "memory": str(1024**3)}
    _container(job)["resources"] = {"requests": {"cpu": "3", "memory": "1Gi"}}
    assert pods(_rendered(job))[1].params == {"num-cpus": "3"}, "memory comes from limits alone"
    _worker(job)["rayStartParams"] = {"num-cpus": "7"}
    assert pods(_rendered(job))[1].params == {"num-cpus": "7"}, "what is given stays"
    _worker(job)["rayStartParams"] = {}
    _worker(job)["resources"] = {"CPU": "4", "special": "2"}
    _worker(job)["labels"] = {"b": "2", "a": "1"}
    assert pods(_rendered(job))[1].params == {
        "num-cpus": "4",
        "resources": "'{\"special\": 2.0}'",
        "labels": "a=1,b=2",
    }


def test_flags_are_sorted_and_unquoted_as_the_shell_would() -> None:
    params = {
        "resources": "'{\"efa\": 1}'",
        "block": "true",
        "no-monitor": "false",
        "include-dashboard": "true",
        "num-cpus": "0",
    }
    assert flags(params) == ["--block", "--include-dashboard=true", "--num-cpus=0", '--resources={"efa": 1}']


def test_gpus_are_refused_with_the_group_and_the_resource() -> None:
    with pytest.raises(LocalError, match=r"worker group cpu asks for nvidia.com/gpu: 4; .*gpus: 0") as caught:
        pods(_rendered(rayjob(gpus=4)))
    assert caught.value.exit_code == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda job: _container(job)["resources"]["limits"].update({"vpc.amazonaws.com/efa": 1}), "efa: 1"),
        (lambda job: _container(job)["resources"]["limits"].update({"nvidia.com/mig-2g.32gb": "1"}), "mig-2g"),
        (lambda job: _worker(job)["rayStartParams"].update({"num-gpus": "2"}), "num-gpus: 2"),
    ],
)
def test_other_devices_are_refused(change: Any, message: str) -> None:
    job = rayjob()
    change(job)
    with pytest.raises(LocalError, match=message):
        pods(_rendered(job))


def test_a_zero_of_a_device_is_fine() -> None:
    job = rayjob()
    _container(job)["resources"]["limits"]["nvidia.com/gpu"] = 0
    _worker(job)["rayStartParams"]["num-gpus"] = "0"
    assert len(pods(_rendered(job))) == 3


def test_references_between_variables_are_expanded_as_in_kubernetes() -> None:
    job = rayjob()
    _container(job)["env"] = [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$(A)/$(LATER)/$$(A)/$$$(A)"},
        {"name": "LATER", "value": "2"},
        {"name": "EMPTY"},
    ]
    assert _env(job) == {"A": "1", "B": "1/$(LATER)/$(A)/$1", "LATER": "2", "EMPTY": ""}


def test_variables_from_the_pod_and_from_config_maps() -> None:
    job = rayjob()
    settings = {"kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"k": "v"}}
    paths = {
        "NAME": "metadata.name",
        "NAMESPACE": "metadata.namespace",
        "GROUP": "metadata.labels['ray.io/group']",
        "IP": "status.podIP",
    }
    _container(job)["env"] = [
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in paths.items()),
        {"name": "K", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "k"}}},
        {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
    ]
    _container(job)["envFrom"] = [{"prefix": "P_", "configMapRef": {"name": "settings"}}]
    assert _env(job, settings) == {
        "P_k": "v",
        "NAME": "tiny-cpu-0",
        "NAMESPACE": "ray-train",
        "GROUP": "cpu",
        "IP": "127.0.0.2",
        "K": "v",
    }


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"secretKeyRef": {"name": "s", "key": "k"}}, "variable X comes from secretKeyRef s k"),
        ({"fieldRef": {"fieldPath": "metadata.uid"}}, "variable X reads metadata.uid"),
        ({"configMapKeyRef": {"name": "none", "key": "k"}}, "needs the ConfigMap none"),
    ],
)
def test_a_variable_that_is_not_in_the_output_is_refused(source: dict[str, Any], message: str) -> None:
    job = rayjob()
    _container(job)["env"] = [{"name": "X", "valueFrom": source}]
    with pytest.raises(LocalError, match=message):
        _env(job)
