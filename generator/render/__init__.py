"""From resolved numbers to a tree of files in memory: {path: text}. `generator.render.write` writes it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from generator.catalog import LOCAL
from generator.layers import FOLDER
from generator.project import Loaded
from generator.render.chart import chart_values
from generator.render.eksctl import NODE_GROUP_LABEL, parts
from generator.render.header import with_header
from generator.resolve import Group, Resolved, memory_text, resolve
from generator.source import Source

if TYPE_CHECKING:
    from jinja2 import Environment as Templates

_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def values_path(folder: str) -> str:
    return f"environments/{folder}/generated/values.yaml"


def clusterconfig_path(cluster: str) -> str:
    return f"eksctl/{cluster}.yaml"


def render(loaded: Loaded) -> dict[str, str]:
    """All files that one environment generates, by path from the project's root.

    `loaded` must have no findings of severity error. The ClusterConfig holds the node groups of every environment on
    the cluster; a neighbour with errors is refused when it is checked itself.
    """
    environment = loaded.environment.model
    cluster = loaded.cluster.model if loaded.cluster is not None else None
    if environment is None or cluster is None or loaded.cluster is None:
        raise ValueError(f"environment {loaded.folder} has errors and cannot be rendered")
    mine = resolve(environment, cluster)
    tree = {values_path(loaded.folder): _values(loaded, mine)}
    if cluster.managed == "eksctl":
        tree[clusterconfig_path(cluster.name)] = _clusterconfig(loaded, mine)
    return tree


def _values(loaded: Loaded, resolved: Resolved) -> str:
    environment, cluster = resolved.environment, resolved.cluster
    assert cluster is not None and loaded.cluster is not None  # noqa: S101  (render() checked)
    body = (
        _templates()
        .get_template("values.yaml.j2")
        .render(
            version_file=f"environments/{loaded.folder}/version.yaml",
            cluster_name=cluster.name,
            environment=environment,
            head=resolved.head,
            head_selector=_head_selector(resolved),
            groups=resolved.groups,
            selectors={group.name: _selector(group, cluster.managed) for group in resolved.groups},
            storage={k: v for k, v in environment.training.storage.model_dump(by_alias=True).items() if v},
            values=chart_values(environment),
        )
    )
    return with_header(body, [*_files(loaded.environment.source), loaded.cluster.source.file])


def _clusterconfig(loaded: Loaded, mine: Resolved) -> str:
    cluster = mine.cluster
    assert cluster is not None and loaded.cluster is not None  # noqa: S101  (render() checked)
    everyone = sorted([(loaded.folder, mine.environment), *loaded.neighbours])
    template = _templates().get_template("clusterconfig.yaml.j2")
    body = template.render(path=clusterconfig_path(cluster.name), cluster=cluster, **parts(cluster, everyone))
    by_folder = {**loaded.neighbour_files, loaded.folder: _files(loaded.environment.source)}
    files = {file for folder, _ in everyone for file in by_folder[folder]}
    ordered = sorted(files, key=lambda file: (file.startswith(FOLDER), file))
    return with_header(body, [loaded.cluster.source.file, *ordered])


def _files(source: Source) -> list[str]:
    return [file for file, _ in source.texts()]


def _selector(group: Group, managed: str) -> dict[str, str]:
    """Labels that only this group's nodes have: ours where eksctl puts them, else what every EKS node has."""
    if group.type.name == LOCAL:
        return {}
    if managed == "eksctl":
        return {NODE_GROUP_LABEL: group.node_group}
    zone = {"topology.kubernetes.io/zone": group.zone} if group.zone else {}
    return {"node.kubernetes.io/instance-type": group.type.name, **zone}


def _head_selector(resolved: Resolved) -> dict[str, str]:
    cluster, head = resolved.cluster, resolved.head
    if cluster is None or head.type is None or head.type.name == LOCAL:
        return {}
    if cluster.managed == "eksctl":
        return {NODE_GROUP_LABEL: "system"}
    return {"node.kubernetes.io/instance-type": head.type.name}


@cache
def _templates() -> Templates:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    # The output is YAML, never HTML: escaping would corrupt it. Every value goes through `q`.
    templates = Environment(  # noqa: S701
        loader=PackageLoader("generator.render"), undefined=StrictUndefined, keep_trailing_newline=True
    )
    templates.filters["q"] = quote
    templates.filters["memory"] = memory_text
    templates.filters["key"] = key
    return templates


def key(name: str) -> str:
    """A key of a map, quoted where it is not a plain word; `y` and `on` are truth values of YAML 1.1."""
    plain = re.fullmatch("[a-z][a-zA-Z]*", name) and name not in ("y", "n", "on", "off", "yes", "no", "true", "false")
    return name if plain and name != "null" else quote(name)


def quote(value: Any) -> str:
    """Any plain value as one line of YAML. JSON is YAML, so text cannot break out of its quotes.

    YAML has more line breaks and fewer printable characters than JSON: these are escaped too.
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{quote(key)}: {quote(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(quote(item) for item in value) + "]"
    if isinstance(value, float):
        return _float(value)
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def _float(value: float) -> str:
    """A float that YAML 1.1 readers (Helm's among them) take for a number: 1e-05 without a dot would be text."""
    text = repr(value)
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{exponent}" if e else text
