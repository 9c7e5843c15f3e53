"""The catalogue of instance types against itself and against tables of others (tests/fixtures/instance-types.csv).

It holds what EC2's DescribeInstanceTypes answered, as moto keeps it, and what HyperPod's command line counts with.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from generator import catalog
from generator.catalog import LOCAL, InstanceType, instance_types
from generator.resolve import usable
from tests.project import FIXTURES

CATALOGUE = Path(catalog.__file__).parent / "instances.csv"
# What the others leave out, or say otherwise, and why this is right.
NOWHERE_ELSE = {"p6e-gb200.36xlarge"}  # three sources, three numbers of interfaces: refused for workers
EFA_TYPES = sorted((t for t in instance_types().values() if usable(t.name) and t.efa_interfaces), key=lambda t: t.name)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


OTHERS = rows(FIXTURES / "instance-types.csv")


@pytest.mark.parametrize("row", OTHERS, ids=lambda r: f"{r['instance_type']}-{r['source'].split(' ')[0]}")
def test_a_type_is_what_others_say(row: dict[str, str]) -> None:
    found = instance_types()[row["instance_type"]]
    if found.name in NOWHERE_ELSE:
        return
    ours = {
        "vcpu": found.vcpu,
        "memory_mib": found.memory_mib,
        "gpus": found.gpus,
        "gpu_memory_mib": found.gpu_memory_mib,
        "efa_interfaces": found.efa_interfaces,
        "network_cards": found.network_cards,
    }
    if "Trainium" in found.gpu_model:  # not a GPU, for the others
        ours = {key: ours[key] for key in ("vcpu", "memory_mib", "efa_interfaces")}
    said = {key: int(row[key]) for key in ours if row[key]}
    assert {key: ours[key] for key in said} == said
    if row["architecture"]:
        assert found.architecture == row["architecture"]


def test_every_type_is_in_a_table_of_others() -> None:
    asked = {row["instance_type"] for row in OTHERS if row["architecture"]}
    assert set(instance_types()) - asked == NOWHERE_ELSE | {LOCAL}


@pytest.mark.parametrize("found", EFA_TYPES, ids=lambda t: t.name)
def test_eksctl_makes_as_many_interfaces_as_a_pod_asks_for(found: InstanceType) -> None:
    """eksctl makes one interface per network card; a pod asks for the interfaces of the type."""
    assert found.network_cards == found.efa_interfaces


@pytest.mark.parametrize("row", rows(CATALOGUE), ids=lambda r: r["instance_type"])
def test_rdma_and_gpudirect_go_together(row: dict[str, str]) -> None:
    """GPUDirect needs RDMA read; the plugin's RDMA protocol needs RDMA write; neither is without EFA."""
    found = instance_types()[row["instance_type"]]
    if not usable(found.name):
        return
    if found.gpudirect_rdma:
        assert row["efa_rdma_read"] == "yes"
    if found.transport_protocol == "RDMA":
        assert row["efa_rdma_write"] == "yes"
        assert found.gpudirect_rdma
    if not found.efa_interfaces:
        assert not found.gpudirect_rdma
        assert not found.transport_protocol
