"""Rules about fields that are right alone and wrong together: Services, network policies, ports, volumes, security."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chart.cases import job, with_key
from tests.chart.every_value import SCALING
from tests.chart.test_requirements import refused
from tests.chart.test_requirements_api import mount, sidecar
from tests.chart.test_requirements_pods import beside

DATA = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
PRIVILEGED = job("podSecurity", "privileged")
RESTRICTED = job("podSecurity", "restricted")


def service(kind: str = "", **spec: Any) -> dict[str, Any]:
    return with_key(job("head.serviceType", kind), "head.service", {"spec": spec})


def port(name: str, number: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "port": number, **more}


def ports(*given: dict[str, Any], place: str = "head") -> dict[str, Any]:
    return job(f"{place}.ports", list(given))


def peer(**block: Any) -> dict[str, Any]:
    return job("networkPolicy.extraIngress", [{"from": [{"ipBlock": block}]}])


def file(**item: Any) -> dict[str, Any]:
    return job("common.volumes", [{"name": "a", "downwardAPI": {"items": [{"path": "a", **item}]}}])


def projected(*sources: dict[str, Any]) -> dict[str, Any]:
    return job("common.volumes", [{"name": "a", "projected": {"sources": list(sources)}}])


def claim(
    metadata: dict[str, Any] | None = None, modes: tuple[str, ...] = ("ReadWriteOnce",), storage: str | int = "1Gi"
) -> dict[str, Any]:
    template: dict[str, Any] = {"metadata": metadata} if metadata else {}
    template["spec"] = {"accessModes": list(modes), "resources": {"requests": {"storage": storage}}}
    return job("head.volumes", [{"name": "a", "ephemeral": {"volumeClaimTemplate": template}}])


def host(**spec: Any) -> dict[str, Any]:
    return with_key(PRIVILEGED, "common.extraPodSpec", spec)


def context(**fields: Any) -> dict[str, Any]:
    return with_key(PRIVILEGED, "common.securityContext", fields)


# (values, words that the one message must hold)
REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "balancer of no balanced Service": (
        service(loadBalancerClass="service.k8s.aws/nlb"),
        ["head.service.spec", "loadBalancerClass", "type LoadBalancer", "ClusterIP"],
    ),
    "sources of a port of the node": (
        service("NodePort", loadBalancerSourceRanges=["10.0.0.0/8"]),
        ["head.service.spec", "loadBalancerSourceRanges", "NodePort"],
    ),
    "health of all nodes": (
        service("LoadBalancer", healthCheckNodePort=30000),
        ["head.service.spec", "healthCheckNodePort", "Local"],
    ),
    "traffic from outside to inside": (
        service(externalTrafficPolicy="Local"),
        ["head.service.spec", "externalTrafficPolicy"],
    ),
    "balancer without an address": (
        service("LoadBalancer", clusterIP="None"),
        ["head.service.spec", "clusterIP None", "LoadBalancer"],
    ),
    "port of a node inside": (
        service(ports=[port("a", 9000, nodePort=30000)]),
        ["head.service.spec.ports", "nodePort", "head.serviceType"],
    ),
    "how long is not who": (
        service(sessionAffinityConfig={"clientIP": {"timeoutSeconds": 60}}),
        ["head.service.spec", "sessionAffinity ClientIP"],
    ),
    "address of oneself": (service(externalIPs=["127.0.0.1"]), ["head.service.spec.externalIPs", "127.0.0.1"]),
    "name of a port of Ray": (
        service(ports=[port("dashboard", 80, targetPort=8265)]),
        ["head.service.spec.ports", "dashboard (8265)"],
    ),
    "number of a port of Ray": (
        service(ports=[port("web", 8265)]),
        ["head.service.spec.ports", "web", "dashboard"],
    ),
    "port of the container": (
        service(ports=[port("web", 9000)]) | {"head": {"ports": [{"containerPort": 9000}], "service": {
            "spec": {"ports": [port("web", 9000)]}}}},
        ["head.service.spec.ports", "9000-port"],
    ),
    "two ports of one name": (
        service(ports=[port("a", 9000), port("a", 9001)]),
        ["head.service.spec.ports", "a (9001/TCP)"],
    ),
    "range with digits to spare": (
        service("LoadBalancer", loadBalancerSourceRanges=["10.1.2.3/8"]),
        ["head.service.spec.loadBalancerSourceRanges", "10.1.2.3/8", "write 10.0.0.0/8"],
    ),
    "peer with digits to spare": (
        peer(cidr="192.168.77.1/19"),
        ["networkPolicy.extraIngress.0.from.0.ipBlock", "write 192.168.64.0/19"],
    ),
    "exception elsewhere": (
        peer(**{"cidr": "10.0.0.0/16", "except": ["10.0.1.0/24", "10.1.0.0/24"]}),
        ["networkPolicy.extraIngress.0.from.0.ipBlock", "10.1.0.0/24", "outside 10.0.0.0/16"],
    ),
    "ports backwards": (
        job("networkPolicy.extraIngress", [{"ports": [{"port": 9000, "endPort": 8000}]}]),
        ["networkPolicy.extraIngress.0.ports", "endPort 8000"],
    ),
    "ports after a name": (
        job("networkPolicy.extraIngress", [{"ports": [{"port": "web", "endPort": 8000}]}]),
        ["networkPolicy.extraIngress.0.ports", '"web"'],
    ),
    "ways out of no fence": (
        job("networkPolicy.extraEgress", [{"ports": [{"port": 22}]}]),
        ["networkPolicy.extraEgress", "limitEgress"],
    ),
    "ways into no fence": (
        with_key(job("networkPolicy.enabled", False), "networkPolicy.extraIngress", [{"ports": [{"port": 22}]}]),
        ["networkPolicy.extraIngress", "networkPolicy.enabled"],
    ),
    "another name for the dashboard": (
        ports({"name": "web", "containerPort": 8265}),
        ["head.ports", "8265", "dashboard"],
    ),
    "metrics of another program": (
        ports({"containerPort": 8080}, place="workerGroups.gpu"),
        ["workerGroups.gpu.ports", "8080", "metrics"],
    ),
    "one number, two protocols": (
        ports({"name": "a", "containerPort": 9000}, {"name": "b", "containerPort": 9000, "protocol": "UDP"}),
        ["head.ports", "9000/TCP and 9000/UDP"],
    ),
    "ports of one name beside": (
        sidecar(ports=[{"name": "a", "containerPort": 9000}, {"name": "a", "containerPort": 9001}]),
        ["head.sidecarContainers.0.ports", "a is there twice"],
    ),
    "TCP said and unsaid": (
        sidecar(ports=[{"containerPort": 9000}, {"containerPort": 9000, "protocol": "TCP"}]),
        ["head.sidecarContainers.0.ports", "9000 TCP is there twice"],
    ),
    "storage that is not there": (
        {"common": {"sidecarContainers": beside(volumeMounts=[{"name": "storage", "mountPath": "/a"}])}},
        ["common.sidecarContainers", "storage", "training.storage"],
    ),
    "code that is not there": (
        job("common.volumeMounts", [{"name": "code", "mountPath": "/a"}]),
        ["common.volumeMounts", "code", "training.code"],
    ),
    "device of no claim": (
        with_key(
            job("common.volumes", [{"name": "data", "emptyDir": {}}]),
            "head.extraContainer",
            {"volumeDevices": [{"name": "data", "devicePath": "/dev/xvda"}]},
        ),
        ["head.extraContainer", "volumeDevices", "data"],
    ),
    "mounts for the node": (
        mount(mountPropagation="Bidirectional"),
        ["common.volumeMounts", "Bidirectional", "privileged"],
    ),
    "all labels in a variable": (
        job("common.env", {"A": {"fieldRef": {"fieldPath": "metadata.labels"}}}),
        ["common.env.A.fieldRef", "metadata.labels['KEY']"],
    ),
    "address in a file": (
        file(fieldRef={"fieldPath": "status.podIP"}),
        ["common.volumes.0.downwardAPI.items.0.fieldRef", "status.podIP"],
    ),
    "nothing in a file": (file(), ["common.volumes.0.downwardAPI.items.0", "fieldRef or resourceFieldRef"]),
    "size of which container": (
        file(resourceFieldRef={"resource": "limits.memory"}),
        ["common.volumes.0.downwardAPI.items.0.resourceFieldRef", "containerName"],
    ),
    "memory in millis": (
        job("common.env", {"A": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1m"}}}),
        ["common.env.A.resourceFieldRef", '"1m"', "limits.memory"],
    ),
    "CPUs in Mi": (
        job("common.env", {"A": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1Mi"}}}),
        ["common.env.A.resourceFieldRef", '"1Mi"', "limits.cpu"],
    ),
    "two kinds in one source": (
        projected({"configMap": {"name": "a"}, "secret": {"name": "a"}}),
        ["common.volumes.0.projected.sources.0", "configMap, secret"],
    ),
    "two sources of one path": (
        projected(
            {"configMap": {"name": "a", "items": [{"key": "a", "path": "token"}]}},
            {"serviceAccountToken": {"path": "token"}},
        ),
        ["common.volumes.0.projected.sources", "the path token"],
    ),
    "name of a claim for each pod": (
        claim({"name": "a"}),
        ["head.volumes.0.ephemeral.volumeClaimTemplate.metadata", "name"],
    ),
    "claim of no size": (
        claim(storage=0),
        ["head.volumes.0.ephemeral.volumeClaimTemplate.spec.resources.requests.storage", "0", "100Gi"],
    ),
    "one pod and one node": (
        claim(modes=("ReadWriteOncePod", "ReadWriteOnce")),
        ["head.volumes.0.ephemeral.volumeClaimTemplate.spec.accessModes", "ReadWriteOncePod"],
    ),
    "huge pages alone": (
        sidecar(resources={"limits": {"hugepages-2Mi": "4Mi"}}),
        ["head.sidecarContainers.0.resources", "hugepages-2Mi"],
    ),
    "device with files": (
        with_key(
            job("common.volumes", DATA),
            "common.sidecarContainers",
            beside(
                volumeDevices=[{"name": "data", "devicePath": "/dev/a"}],
                volumeMounts=[{"name": "data", "mountPath": "/a"}],
            ),
        ),
        ["common.sidecarContainers", "data", "volumeDevices"],
    ),
    "restart for more memory": (
        sidecar(resizePolicy=[{"resourceName": "memory", "restartPolicy": "RestartContainer"}]),
        ["head.sidecarContainers.0.resizePolicy.0", "NotRequired"],
    ),
    "name of the pod and of the node": (
        host(hostNetwork=True, hostnameOverride="a"),
        ["common.extraPodSpec", "hostnameOverride"],
    ),
    "restart rules of Ray": (
        job("head.extraContainer", {"restartPolicyRules": [
            {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]}),
        ["head.extraContainer", "restartPolicy"],
    ),
    "label of both kinds": (
        job("common.affinity", {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": "topology.kubernetes.io/zone", "labelSelector": {}, "matchLabelKeys": ["a"],
            "mismatchLabelKeys": ["a"]}]}}),
        ["common.affinity.podAffinity", "a is there twice"],
    ),
    "profile by an annotation": (
        job("common.annotations", {"container.apparmor.security.beta.kubernetes.io/ray-head": "runtime/default"}),
        ["common.annotations", "appArmorProfile"],
    ),
    "all rights and none": (
        context(privileged=True, allowPrivilegeEscalation=False),
        ["common.securityContext", "allowPrivilegeEscalation"],
    ),
    "right by another name": (
        context(capabilities={"add": ["CAP_SYS_ADMIN"]}),
        ["common.securityContext", "write SYS_ADMIN"],
    ),
    "all of /proc": (context(procMount="Unmasked"), ["common.securityContext", "hostUsers"]),
    "processes of the node and of the pod": (
        host(hostPID=True, shareProcessNamespace=True),
        ["common.extraPodSpec", "shareProcessNamespace"],
    ),
    "users of the pod, network of the node": (
        host(hostUsers=False, hostNetwork=True),
        ["common.extraPodSpec", "hostUsers"],
    ),
    "port of two beside on the node": (
        with_key(host(hostNetwork=True), "common.sidecarContainers",
                 beside(ports=[{"containerPort": 8080}])),
        ["common.sidecarContainers", "8080/TCP", "Ray's metrics"],
    ),
    "port of Ray's container and of one beside": (
        with_key(
            with_key(PRIVILEGED, "workerGroups.gpu.ports", [{"containerPort": 9400, "hostPort": 9400}]),
            "workerGroups.gpu.sidecarContainers",
            beside(ports=[{"containerPort": 9401, "hostPort": 9400}]),
        ),
        ["workerGroups.gpu.sidecarContainers", "9400/TCP", "Ray's container"],
    ),
    "port of the node twice": (
        service("NodePort", ports=[port("a", 80, nodePort=30080), port("b", 81, nodePort=30080)]),
        ["head.service.spec.ports", "nodePort 30080/TCP"],
    ),
    "root that is not": (
        job("common.securityContext", {"runAsUser": 0, "runAsNonRoot": True}),
        ["common.securityContext", "runAsUser 0"],
    ),
    "volume of common that the head has not": (
        with_key(mount(), "head.volumes", [{"name": "logs", "emptyDir": {}}]),
        ["common.volumeMounts", "data", "head.volumes takes the place"],
    ),
    "autoscaler without a token": (
        with_key(SCALING, "common.automountServiceAccountToken", False),
        ["common.automountServiceAccountToken", "autoscaler"],
    ),
    "no capabilities at all": (
        with_key(RESTRICTED, "common.securityContext", {"capabilities": None}),
        ["common.securityContext", "capabilities: {drop: [ALL]}"],
    ),
    "object without metadata": (
        job("extraObjects", [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": None}]),
        ["extraObjects.0", "metadata.name"],
    ),
    "two numbers on the node": (
        with_key(host(hostNetwork=True), "workerGroups.gpu.ports", [{"containerPort": 9000, "hostPort": 9001}]),
        ["workerGroups.gpu.ports.0", "9001"],
    ),
    "no profile at all": (
        with_key(RESTRICTED, "common.podSecurityContext", {"seccompProfile": None}),
        ["common.podSecurityContext", "seccompProfile", "restricted"],
    ),
    "any user": (
        with_key(RESTRICTED, "head.podSecurityContext", {"runAsNonRoot": None}),
        ["head.podSecurityContext", "runAsNonRoot", "restricted"],
    ),
    "what common says beside the head": (
        with_key(
            job("common.securityContext", {"capabilities": {"add": ["SYS_ADMIN"]}}),
            "head.securityContext",
            {"readOnlyRootFilesystem": False},
        ),
        ["common.securityContext", "SYS_ADMIN"],
    ),
    "rule of common beside one of the head": (
        with_key(
            job("common.affinity", {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
                "topologyKey": "a", "matchLabelKeys": ["a"]}]}}),
            "head.affinity",
            {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{
                "matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}},
        ),
        ["common.affinity.podAffinity", "labelSelector"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    refused(*REFUSED[case])
