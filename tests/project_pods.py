"""Pod templates of RayJob and RayCluster as plain v1 Pods, for tools that do not know KubeRay's kinds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Object = dict[str, Any]


def cluster_spec(resource: Object) -> Object:
    """The RayCluster spec of a RayJob or of a RayCluster.

    Raises:
        ValueError: another kind.
    """
    if resource["kind"] == "RayJob":
        return resource["spec"]["rayClusterSpec"]
    if resource["kind"] == "RayCluster":
        return resource["spec"]
    raise ValueError(f"{resource['kind']} holds no Ray pods")


def templates(resource: Object) -> Iterator[tuple[str, Object]]:
    """(`head`, pod template), then (name of the group, pod template) of each worker group."""
    spec = cluster_spec(resource)
    yield "head", spec["headGroupSpec"]["template"]
    for group in spec["workerGroupSpecs"]:
        yield group["groupName"], group["template"]


def project(resource: Object) -> list[Object]:
    """One v1 Pod for the head and for each worker group, named as the operator would begin their names."""
    pods = []
    for group, template in templates(resource):
        metadata = {
            **template.get("metadata", {}),
            "name": f"{resource['metadata']['name']}-{group}",
            "namespace": resource["metadata"]["namespace"],
        }
        pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
    return pods


def code_maps(resource: Object) -> list[str]:
    """Names of the ConfigMaps that hold the training package, in the order of the files; the same in every pod."""
    found = [
        [source["configMap"]["name"] for source in volume["projected"]["sources"]]
        for _, template in templates(resource)
        for volume in template["spec"]["volumes"]
        if volume["name"] == "training"
    ]
    assert all(names == found[0] for names in found)
    return found[0]


def container(pod: Object) -> Object:
    """The Ray container: KubeRay requires it at index 0."""
    return pod["spec"]["containers"][0]


def environment(pod: Object) -> dict[str, Any]:
    """Environment of the Ray container: name to text, or to its `valueFrom`."""
    return {item["name"]: item.get("valueFrom", item.get("value", "")) for item in container(pod)["env"]}
