"""What looks like a case of test_requirements_together and is right; and what is rendered of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chart.cases import job, with_key
from tests.chart.every_value import OWN, SCALING
from tests.chart.test_requirements_api import SPREAD, init, sidecar
from tests.chart.test_requirements_pods import beside
from tests.chart.test_requirements_together import DATA, RESTRICTED, file, host, peer, port, ports, service
from tests.helm import one, render
from tests.project_pods import project

ACCEPTED: dict[str, dict[str, Any]] = {
    "class of a balancer": service("LoadBalancer", loadBalancerClass="service.k8s.aws/nlb"),
    "port beside Ray's": service("NodePort", ports=[port("web", 80, targetPort=8265, nodePort=30000)]),
    "exception": peer(**{"cidr": "10.0.0.0/16", "except": ["10.0.1.0/24"]}),
    "other addresses": peer(cidr="2001:db8::/32"),
    "range of ports": job("networkPolicy.extraIngress", [{"ports": [{"port": 8000, "endPort": 9000}]}]),
    "metrics by name": ports({"name": "metrics", "containerPort": 8080}, place="common"),
    "own code beside": with_key(
        OWN, "common.sidecarContainers", beside(volumeMounts=[{"name": "code", "mountPath": "/a"}])
    ),
    "device": with_key(
        job("common.volumes", DATA),
        "head.extraContainer",
        {"volumeDevices": [{"name": "data", "devicePath": "/dev/a"}]},
    ),
    "all labels in a file": file(fieldRef={"fieldPath": "metadata.labels"}),
    "a label in a variable": job("common.env", {"A": {"fieldRef": {"fieldPath": "metadata.labels['ray.io/group']"}}}),
    "sleep as long as it gets": job("common.lifecycle", {"preStop": {"sleep": {"seconds": 120}}}),
    "no sleep": job("common.lifecycle", {"preStop": {"sleep": {"seconds": 0}}}),
    "a label called operator": job("common.topologySpreadConstraints", [
        SPREAD | {"labelSelector": {"matchLabels": {"operator": "In"}}}]),
    "labels of all": job("common.topologySpreadConstraints", [
        SPREAD | {"labelSelector": {}, "matchLabelKeys": ["a"]}]),
    "odd names": job("common.env", {"my.app-mode": "a"}),
    "minutes and seconds": job("monitoring.podMonitor", {"enabled": True, "interval": "1m30s"}),
    "no folder": sidecar(workingDir=""),
    "path with a colon": job("common.volumes", [{"name": "a", "nfs": {"server": "a", "path": "/a:b"}}]),
    "driver in capitals": job("common.volumes", [{"name": "a", "csi": {"driver": "Example.COM"}}]),
    "image as a volume": with_key(RESTRICTED, "common.volumes", [
        {"name": "a", "image": {"reference": "registry.example/a:1"}}]),
    "huge pages": init(resources={"limits": {"hugepages-2Mi": "4Mi", "memory": "1Gi"}}),
    "network of the node": with_key(
        host(hostNetwork=True), "workerGroups.gpu.ports", [{"containerPort": 9000, "hostPort": 9000}]
    ),
    "no word about capabilities": job("common.securityContext", {"capabilities": None}),
    "the head's policy said": with_key(job("job.submissionMode", "SidecarMode"), "head.restartPolicy", "Never"),
    "another program that stops": job("common.lifecycle", {"preStop": {"exec": {"command": ["/opt/xray/stop.sh"]}}}),
    "nothing reserved": sidecar(resources={"requests": {"cpu": "0"}}),
    "restricted autoscaler": with_key(
        with_key(SCALING, "podSecurity", "restricted"), "cluster.autoscaling.options.securityContext", {}
    ),
    "the same port of the node and of Ray": with_key(
        host(hostNetwork=True), "head.ports", [{"name": "dashboard", "containerPort": 8265}]
    ),
    "users of the pod": with_key(host(hostUsers=False), "common.securityContext", {"procMount": "Unmasked"}),
}  # fmt: skip


@pytest.mark.parametrize("case", ACCEPTED)
def test_accepted(case: str) -> None:
    assert render(ACCEPTED[case])


def test_what_the_api_would_not_keep_is_left_out() -> None:
    """The operator would write it back as nothing, a lasting difference to Git."""
    values = {
        "extraPodSpec": {"hostNetwork": False, "hostUsers": True},
        "extraContainer": {"tty": False, "workingDir": ""},
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "a", "labelSelector": {"matchLabels": {}}}]}},
        "volumes": [
            {"name": "a", "persistentVolumeClaim": {"claimName": "a", "readOnly": False}},
            {"name": "b", "csi": {"driver": "a", "readOnly": False, "volumeAttributes": {}}},
        ],
        "sidecarContainers": beside(resources={"limits": {}}, env=[
            {"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]),
    }  # fmt: skip
    head, _ = project(one("RayJob", job("common", values)))
    spec = head["spec"]
    assert "hostNetwork" not in spec
    assert spec["hostUsers"] is True
    assert not {"tty", "workingDir"} & set(spec["containers"][0])
    assert spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]["labelSelector"] == {}
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert volumes["a"]["persistentVolumeClaim"] == {"claimName": "a"}
    assert volumes["b"]["csi"] == {"driver": "a", "readOnly": False}
    assert spec["containers"][1]["resources"] == {}
    assert spec["containers"][1]["env"][0]["valueFrom"]["resourceFieldRef"]["divisor"] == "0"


def test_a_variable_comes_after_those_that_it_refers_to() -> None:
    env = {
        "A": "at $(C)",
        "B": "in $(NAMESPACE) of $(HOST_OF_THE_IMAGE)",
        "C": "$(POD_IP):1",
        "POD_IP": {"fieldRef": {"fieldPath": "status.podIP"}},
        "NAMESPACE": {"fieldRef": {"fieldPath": "metadata.namespace"}},
    }
    head, _ = project(one("RayJob", job("common.env", env)))
    names = [item["name"] for item in head["spec"]["containers"][0]["env"] if item["name"] in env]
    assert names == ["NAMESPACE", "POD_IP", "B", "C", "A"] or names.index("A") > names.index("C") > names.index(
        "POD_IP"
    )
    assert names.index("B") > names.index("NAMESPACE")


def test_line_ends_at_the_end_of_code_do_not_count() -> None:
    """Helm 3 and 4 would print them differently."""
    one_end, many = (
        [
            item
            for item in render(job("training.code", {"files": {"own.py": text}, "module": "own"}))
            if "user-code" in item["metadata"]["name"]
        ]
        for text in ("x = 1\n", "x = 1\n\n\n")
    )
    assert one_end == many
    assert one_end[0]["data"] == {"own.py": "x = 1\n"}


def test_false_over_the_true_of_common() -> None:
    values = with_key(job("common.extraContainer", {"tty": True, "stdin": True}), "head.extraContainer", {"tty": False})
    head, worker = project(one("RayJob", values))
    assert "tty" not in head["spec"]["containers"][0]
    assert head["spec"]["containers"][0]["stdin"] is True
    assert worker["spec"]["containers"][0]["tty"] is True


def test_a_port_of_the_service_leads_where_kubernetes_would() -> None:
    spec = one("RayJob", service(ports=[port("web", 9000)]))["spec"]["rayClusterSpec"]["headGroupSpec"]
    assert spec["headService"]["spec"] == {"ports": [{"name": "web", "port": 9000, "targetPort": 9000}]}
