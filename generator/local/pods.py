"""The pods that KubeRay would make of a RayCluster, as processes: their environment and their `ray start` flags.

Follows KubeRay 1.6 (`controllers/ray/common/pod.go`): what it derives from container limits, what it adds to
`rayStartParams` and which variables it injects into the Ray container.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from generator.local.errors import REFUSED, LocalError
from generator.local.manifests import Rendered

HEAD_GROUP = "headgroup"
_QUANTITY = re.compile(r"([+-]?[0-9.]+)(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?[0-9]+)?")
_BINARY: dict[str, int] = {f"{letter}i": 1024 ** (index + 1) for index, letter in enumerate("KMGTPE")}
_DECIMAL: dict[str, int] = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SWITCHES_WITH_VALUE = ("log-color", "include-dashboard")
_MIG = re.compile(r"nvidia\.com/mig-\d+g\.\d+gb")
_EFA = "vpc.amazonaws.com/efa"
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)")


@dataclass(frozen=True)
class Pod:
    """One Ray node: what the operator would have created as a pod."""

    name: str
    """`head`, or `<group>-<index>`."""
    group: str
    """Worker group, `headgroup` for the head: the `ray.io/group` label."""
    is_head: bool
    address: str
    """Loopback address of this node."""
    template: Mapping[str, Any]
    """The group's pod template."""
    params: Mapping[str, str]
    """`rayStartParams` of the group, with what KubeRay derives from limits; before any adaptation to this machine."""

    @property
    def container(self) -> Mapping[str, Any]:
        container = self.template["spec"]["containers"][0]
        assert isinstance(container, Mapping)  # noqa: S101  # checked by manifests.parse
        return container


def pods(rendered: Rendered) -> list[Pod]:
    """The head and `replicas × numOfHosts` workers of each group, each with its own loopback address.

    Workers have 127.0.0.2, 127.0.0.3, … The head has 127.0.0.254, not 127.0.0.1: Ray replaces that one by the
    machine's own address, and then the cluster would depend on the network that the machine is in.

    Raises:
        LocalError: a group asks for devices that `local` does not hand out, or there are too many nodes.
    """
    cluster = rendered.spec["rayClusterSpec"]
    head = cluster["headGroupSpec"]
    _refuse_devices("the head", head)
    result = [Pod("head", HEAD_GROUP, True, "127.0.0.254", head["template"], _params(head))]
    for group in cluster.get("workerGroupSpecs") or []:
        name = str(group.get("groupName", ""))
        _refuse_devices(f"worker group {name}", group)
        count = int(group.get("replicas") or 0) * int(group.get("numOfHosts") or 1)
        for index in range(count):
            if len(result) > 250:
                raise LocalError("local plays up to 250 worker nodes", exit_code=REFUSED)
            address = f"127.0.0.{len(result) + 1}"
            result.append(Pod(f"{name}-{index}", name, False, address, group["template"], _params(group)))
    return result


def quantity(text: object) -> Decimal:
    """A Kubernetes quantity (`500m`, `8Gi`, `1e3`) as a number.

    Raises:
        LocalError: it is not one.
    """
    found = _QUANTITY.fullmatch(str(text))
    try:
        if found is None:
            raise InvalidOperation
        number, suffix = Decimal(found[1]), found[2] or ""
    except InvalidOperation as error:
        raise LocalError(f"{text!r} is not a Kubernetes quantity", exit_code=REFUSED) from error
    if suffix in _BINARY:
        return number * _BINARY[suffix]
    exponent = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:] or 0)
    return number.scaleb(exponent)


def flags(params: Mapping[str, str]) -> list[str]:
    """`rayStartParams` as command-line flags, sorted by name, as KubeRay writes them.

    `true` and `false` are switches; a value goes through the shell's quoting, because KubeRay puts the flags into
    `bash -c`: `resources: "'{\\"efa\\": 1}'"` loses its outer quotes.
    """
    result: list[str] = []
    for name in sorted(params):
        value = params[name]
        if value.lower() in ("true", "false") and name not in _SWITCHES_WITH_VALUE:
            if value.lower() == "true":
                result.append(f"--{name}")
        else:
            result += shlex.split(f"--{name}={value}")
    return result


def environment(pod: Pod, rendered: Rendered, *, labels: Mapping[str, str], pod_name: str) -> dict[str, str]:
    """Variables that the RayJob itself gives the Ray container: `envFrom`, then `env`.

    Args:
        pod: the node.
        rendered: for ConfigMaps that variables refer to, and the namespace.
        labels: labels of the pod, for the downward API.
        pod_name: name of the pod in Kubernetes, for the same.

    Raises:
        LocalError: a variable refers to something that is not in the rendered output, a Secret for example.
    """
    values: dict[str, str] = {}
    for source in pod.container.get("envFrom") or []:
        reference = source.get("configMapRef")
        if reference is None:
            raise LocalError(f"{pod.name}: envFrom of a Secret cannot be played; use env", exit_code=REFUSED)
        data = _config_map_data(rendered, reference, pod)
        values |= {f"{source.get('prefix', '')}{key}": str(value) for key, value in data.items()}
    fields = dict(_fields(pod, rendered, labels, pod_name))
    for entry in pod.container.get("env") or []:
        name = str(entry["name"])
        if "valueFrom" in entry:
            value = _value_from(name, entry["valueFrom"], pod, rendered, fields)
            if value is not None:
                values[name] = value
        else:
            values[name] = _expand(str(entry.get("value") or ""), values)
    return values


def _params(group: Mapping[str, Any]) -> dict[str, str]:
    """`rayStartParams` completed from the group's `resources`, `labels` and the container's limits."""
    params = {str(key): str(value) for key, value in (group.get("rayStartParams") or {}).items()}
    custom: dict[str, float] = {}
    for name, amount in (group.get("resources") or {}).items():
        key = {"cpu": "num-cpus", "memory": "memory"}.get(str(name).lower())
        if key is None and _is_gpu(str(name).lower()):
            key = "num-gpus"
        if key is None:
            custom[str(name)] = float(quantity(amount))
        else:
            params[key] = str(math.ceil(quantity(amount)))
    if custom:
        params["resources"] = f"'{json.dumps(custom)}'"
    if group.get("labels"):
        params["labels"] = ",".join(f"{key}={value}" for key, value in sorted(group["labels"].items()))
    resources = group["template"]["spec"]["containers"][0].get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    cpu = limits.get("cpu") or requests.get("cpu")
    if cpu and "num-cpus" not in params:
        params["num-cpus"] = str(math.ceil(quantity(cpu)))
    if limits.get("memory") and "memory" not in params:
        # A logical resource to Ray's scheduler, no limit that anything enforces here.
        params["memory"] = str(math.ceil(quantity(limits["memory"])))
    return params


def _refuse_devices(who: str, group: Mapping[str, Any]) -> None:
    """Refuse GPUs and network devices: two nodes on one machine cannot each own them."""
    resources = group["template"]["spec"]["containers"][0].get("resources") or {}
    wanted = {
        **(resources.get("requests") or {}),
        **(resources.get("limits") or {}),
        **(group.get("resources") or {}),
    }
    for name, amount in sorted(wanted.items()):
        device = _is_gpu(name.lower()) or name.lower() == _EFA
        if device and quantity(amount) > 0:
            raise LocalError(
                f"{who} asks for {name}: {amount}; this machine has no GPU nodes, and `local` runs environments whose "
                f"worker groups have gpus: 0 and efa: 0 (their processes per node are processesPerNode)",
                exit_code=REFUSED,
            )
    gpus = str((group.get("rayStartParams") or {}).get("num-gpus", "0"))
    if gpus not in ("", "0"):
        raise LocalError(
            f"{who} starts Ray with num-gpus: {gpus}; `local` runs environments whose worker groups have gpus: 0",
            exit_code=REFUSED,
        )


def _is_gpu(resource: str) -> bool:
    """KubeRay's rule for what counts as a GPU."""
    return resource.endswith("gpu") or _MIG.fullmatch(resource) is not None


def _expand(text: str, values: Mapping[str, str]) -> str:
    """Kubernetes' `$(NAME)` of an earlier variable; `$$` is one `$`, an unknown name stays as it is."""

    def one(found: re.Match[str]) -> str:
        return "$" if found.group() == "$$" else values.get(found[1], found.group())

    return _REFERENCE.sub(one, text)


def _value_from(
    name: str, source: Mapping[str, Any], pod: Pod, rendered: Rendered, fields: Mapping[str, str]
) -> str | None:
    """A variable from the downward API or from a ConfigMap; None for an optional one that is not there."""
    if "fieldRef" in source:
        path = str(source["fieldRef"].get("fieldPath"))
        if path in fields:
            return fields[path]
        raise LocalError(f"{pod.name}: variable {name} reads {path}, which local does not play", exit_code=REFUSED)
    if "configMapKeyRef" in source:
        reference = source["configMapKeyRef"]
        data = _config_map_data(rendered, reference, pod)
        if reference["key"] in data:
            return str(data[reference["key"]])
    reference = next(iter(source.values()), None) or {}
    if reference.get("optional"):
        return None
    raise LocalError(
        f"{pod.name}: variable {name} comes from {next(iter(source), 'nowhere')} {reference.get('name', '')} "
        f"{reference.get('key', '')}, which is not in the rendered output",
        exit_code=REFUSED,
    )


def _fields(pod: Pod, rendered: Rendered, labels: Mapping[str, str], pod_name: str) -> Iterator[tuple[str, str]]:
    """The downward API's field paths that have a meaning here."""
    yield "metadata.name", pod_name
    yield "metadata.namespace", rendered.namespace
    for key, value in labels.items():
        yield f"metadata.labels['{key}']", value
    for path in ("status.podIP", "status.podIPs", "status.hostIP"):
        yield path, pod.address
    yield "spec.nodeName", pod.name
    yield "spec.serviceAccountName", str(pod.template["spec"].get("serviceAccountName") or "default")


def _config_map_data(rendered: Rendered, reference: Mapping[str, Any], pod: Pod) -> Mapping[str, Any]:
    config_map = rendered.config_maps.get(str(reference.get("name")))
    if config_map is None:
        if reference.get("optional"):
            return {}
        raise LocalError(
            f"{pod.name}: its environment needs the ConfigMap {reference.get('name')}, which is not in the rendered "
            "output",
            exit_code=REFUSED,
        )
    data = config_map.get("data") or {}
    assert isinstance(data, Mapping)  # noqa: S101  # a ConfigMap's data is a map
    return data
