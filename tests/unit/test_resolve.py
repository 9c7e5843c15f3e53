"""Derived numbers, and that whatever validates can be rendered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from generator.catalog import LOCAL, instance_types, zones
from generator.diagnostics import Severity
from generator.model.cluster import Cluster
from generator.model.environment import Environment
from generator.project import Project
from generator.render import render
from generator.resolve import Resolved, memory_text, mib, resolve, usable
from generator.rules import check
from tests.project import make

USABLE = sorted(name for name in instance_types() if usable(name) and name != LOCAL)


def environment(instance_type: str, nodes: int = 2, **group: Any) -> Environment:
    workers = {"gpu": {"instanceType": instance_type, "nodes": nodes, "availabilityZone": "us-west-2a", **group}}
    return Environment.model_validate({"schemaVersion": 1, "name": "demo", "cluster": "demo", "workers": workers})


def resolved(instance_type: str, nodes: int = 2, **group: Any) -> Resolved:
    cluster = Cluster.model_validate({"name": "demo", "systemNodes": {"instanceType": "m7i.xlarge"}})
    return resolve(environment(instance_type, nodes, **group), cluster)


@pytest.mark.parametrize(
    ("name", "gpus", "interfaces", "cpu", "memory"),
    [("g6.12xlarge", 4, 1, 46, "160Gi"), ("p5.48xlarge", 8, 32, 190, None), ("g6.xlarge", 1, 0, 3, None)],
)
def test_defaults(name: str, gpus: int, interfaces: int, cpu: int, memory: str | None) -> None:
    (group,) = resolved(name).groups
    assert (group.gpus, group.processes, group.interfaces, group.cpu) == (gpus, gpus, interfaces, cpu)
    assert memory is None or memory_text(group.memory_mib) == memory
    assert group.zone == "us-west-2a"
    assert group.node_group == "demo-gpu"


@pytest.mark.parametrize("name", USABLE)
@pytest.mark.parametrize("nodes", [1, 2])
def test_the_default_pod_fits_its_node_and_uses_most_of_it(name: str, nodes: int) -> None:
    (group,) = resolved(name, nodes).groups
    assert 0 < group.cpu * 1000 <= group.room.cpu_m
    assert 0 < group.memory_mib <= group.room.memory_mib
    assert group.cpu * 1000 >= group.room.cpu_m - 2000, "more than two vCPU are left over"
    assert group.memory_mib >= group.room.memory_mib * 0.98 - 4 * 1024, "more than 2 % and 4 GiB are left over"
    assert group.interfaces == (group.type.efa_interfaces if nodes > 1 else 0)


def test_efa_is_asked_for_only_where_it_is_of_use() -> None:
    assert resolved("g6.12xlarge", 1).groups[0].interfaces == 0
    assert resolved("g6.12xlarge", 1, efa="required").groups[0].interfaces == 1
    assert resolved("g6.12xlarge", 2, efa="disabled").groups[0].interfaces == 0
    assert resolved("g6.xlarge", 2).groups[0].interfaces == 0


def test_nodes_of_all_groups_count_for_efa() -> None:
    model = Environment.model_validate(
        {
            "schemaVersion": 1,
            "name": "d",
            "cluster": "d",
            "workers": {"a": {"instanceType": "g6.12xlarge"}, "b": {"instanceType": "g6.12xlarge"}},
        }
    )
    two = resolve(model, None)
    assert [group.interfaces for group in two.groups] == [1, 1]
    assert (two.nodes, two.gpus, two.world_size) == (2, 8, 8)


def test_hugepages_are_not_memory_for_pods() -> None:
    with_efa = instance_types()["p5.48xlarge"]
    assert with_efa.hugepages_mib > 0
    (group,) = resolved("p5.48xlarge").groups
    assert group.memory_mib + with_efa.hugepages_mib < with_efa.memory_mib


def test_what_the_user_writes_wins() -> None:
    (group,) = resolved("g6.12xlarge", cpu=7, memory="1536Mi", gpusPerNode=2).groups
    assert (group.cpu, group.memory_mib, group.gpus, group.processes) == (7, 1536, 2, 2)


def test_ranks_without_gpus() -> None:
    assert resolved(LOCAL, 3, processesPerNode=2).world_size == 6
    assert resolved(LOCAL, 3).world_size == 3


def test_a_group_of_an_unusable_type_has_no_numbers() -> None:
    assert resolved("p3dn.24xlarge").groups == ()
    assert resolved("no.such").world_size == 0


def test_the_only_system_node_carries_the_clusters_own_pods() -> None:
    def room(count: int) -> int:
        cluster = Cluster.model_validate({"name": "d", "systemNodes": {"instanceType": "m7i.xlarge", "count": count}})
        found = resolve(environment("g6.12xlarge"), cluster).head.room
        assert found is not None
        return found.cpu_m

    assert room(1) < room(2)


@given(st.integers(1, 4_000_000))
def test_memory_is_written_canonically(value: int) -> None:
    text = memory_text(value)
    assert mib(text) == value
    assert text.endswith(("Gi", "Ti")) == (value % 1024 == 0)
    assert text.endswith("Ti") == (value % 1024**2 == 0)


STORAGE = st.one_of(
    st.just({"kind": "none"}),
    st.builds(lambda b, p: {"kind": "s3", "uri": f"s3://{b}{p}"}, st.sampled_from(["bucket", "my.bucket-1"]),
              st.sampled_from(["", "/", "/a", "/a/b=c/"])),
    st.builds(lambda k, c: {"kind": k, "claimName": c}, st.sampled_from(["fsx", "pvc"]), st.sampled_from(["on", "c"])),
)  # fmt: skip
GROUP = st.fixed_dictionaries(
    {"instanceType": st.sampled_from([*USABLE, "g6.12xlarge", "p5.48xlarge"]), "nodes": st.sampled_from([1, 2, 4])},
    optional={
        "availabilityZone": st.sampled_from(["us-west-2a", "us-west-2b"]),
        "gpusPerNode": st.sampled_from([1, 2, 4]),
        "efa": st.sampled_from(["required", "disabled"]),
        "capacity": st.one_of(
            st.sampled_from([{"kind": "onDemand"}, {"kind": "spot"}]),
            st.builds(
                lambda k: {"kind": k, "id": "cr-0123456789abcdef0"}, st.sampled_from(["reservation", "capacityBlock"])
            ),
        ),
        "cpu": st.integers(1, 4),
        "memory": st.sampled_from(["12000Mi", "36Gi"]),
    },
)
ENVIRONMENT = st.fixed_dictionaries(
    {
        "schemaVersion": st.just(1),
        "name": st.just("demo"),
        "cluster": st.just("demo"),
        # names that YAML 1.1 reads as true, false or nothing
        "workers": st.dictionaries(st.sampled_from(["gpu", "on", "no", "null", "y"]), GROUP, min_size=1, max_size=2),
    },
    optional={
        "namespace": st.sampled_from(["ray-train", "true"]),
        "head": st.fixed_dictionaries({"cpu": st.integers(1, 2), "memory": st.sampled_from(["4097Mi", "8Gi"])}),
        "training": st.fixed_dictionaries(
            {
                "storage": STORAGE,
                "preset": st.sampled_from(["tiny", "qwen2.5-1.5b"]),
                "args": st.fixed_dictionaries(
                    {"global_batch_size": st.just(960)},
                    optional={
                        "steps": st.integers(1, 10**9),
                        "learning_rate": st.floats(1e-12, 1.0),
                        "compile": st.booleans(),
                        "sharding": st.sampled_from(["auto", "full", "hsdp"]),
                    },
                ),
            }
        ),
        "mode": st.sampled_from(["job", "cluster"]),
        "job": st.fixed_dictionaries({}, optional={"runId": st.sampled_from(["", "0x1", "1e3", "null", ".5"])}),
    },
)  # fmt: skip


@settings(max_examples=60, deadline=10_000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ENVIRONMENT, st.sampled_from(["eksctl", "existing"]))
def test_whatever_validates_renders_with_its_own_numbers(tmp_path: Path, written: dict[str, Any], managed: str) -> None:
    cluster = {
        "name": "demo",
        "managed": managed,
        "region": "us-west-2",
        "kubernetesVersion": "1.36",
        "availabilityZones": sorted(zones()["us-west-2"])[:2],
        "systemNodes": {"instanceType": "m7i.xlarge", "count": 2},
    }
    root = make(tmp_path, environment=json.dumps(written), cluster=json.dumps(cluster))
    loaded = Project(root).load("demo")
    # Hypothesis fails by itself when too few of the examples get past this line.
    assume(not any(f.severity is Severity.ERROR for f in check(loaded)))
    assert loaded.environment.model is not None
    numbers = resolve(loaded.environment.model, loaded.cluster.model if loaded.cluster else None)
    tree = render(loaded)
    values = yaml.safe_load(tree["environments/demo/generated/values.yaml"])  # YAML 1.1, as Helm reads it
    assert set(values["workerGroups"]) == set(written["workers"])
    for group in numbers.groups:
        rendered = values["workerGroups"][group.name]
        assert (rendered["replicas"], rendered["gpus"], rendered["efa"]) == (group.nodes, group.gpus, group.interfaces)
        assert rendered["resources"] == {"cpu": str(group.cpu), "memory": memory_text(group.memory_mib)}
    training = written.get("training", {})
    assert values["training"]["args"] == training.get("args", {})
    assert values["training"]["storage"] == training.get("storage", {"kind": "none"})
    assert values["job"]["runId"] == written.get("job", {}).get("runId", "")
    assert ("eksctl/demo.yaml" in tree) == (managed == "eksctl")
    if managed == "eksctl":
        config = yaml.safe_load(tree["eksctl/demo.yaml"])
        sizes = {n["name"]: n["desiredCapacity"] for n in config["managedNodeGroups"][1:]}
        assert sizes == {group.node_group: group.nodes for group in numbers.groups}
