"""The tables: every row parses, known figures are right, every refusal has a reason, every row has a source."""

from __future__ import annotations

import csv
import re
from datetime import date
from pathlib import Path

import pytest

from generator import catalog
from generator.catalog import EVICTION_MIB, LOCAL, InstanceType, instance_types
from generator.resolve import usable

FOLDER = Path(catalog.__file__).parent
TABLES = sorted(FOLDER.glob("*.csv"))
TYPES = sorted(instance_types().values(), key=lambda t: t.name)


def rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("table", TABLES, ids=lambda p: p.name)
def test_every_row_has_every_column_and_a_source(table: Path) -> None:
    found = rows(table.name)
    assert found
    for row in found:
        assert None not in row, f"{table.name}: a row has too many cells: {row}"
        assert None not in row.values(), f"{table.name}: a row has too few cells: {row}"
        assert row["source"].strip(), f"{table.name}: no source for {row}"
        if "as_of" in row:
            assert date.fromisoformat(row["as_of"]) <= date.today()


def test_the_instance_table_is_whole() -> None:
    found = rows("instances.csv")
    assert len(found) == 91
    assert len({row["instance_type"] for row in found}) == 91
    assert set(instance_types()) == {row["instance_type"] for row in found} | {LOCAL}


@pytest.mark.parametrize("found", TYPES, ids=lambda t: t.name)
def test_every_type_is_plausible(found: InstanceType) -> None:
    assert found.vcpu >= 2
    assert 0 < found.allocatable_cpu_m <= found.vcpu * 1000
    assert 0 < found.allocatable_memory_mib + found.hugepages_mib <= found.memory_mib
    assert found.network_cards >= 1
    assert found.gpus >= 0
    assert all(0 < price < 400 for price in found.usd_per_hour.values())
    if found.efa_interfaces and usable(found.name):
        assert found.transport_protocol in ("RDMA", "SENDRECV"), "training checks the protocol at start"
    if usable(found.name) and found.name != LOCAL:
        assert found.architecture == "amd64"
        assert found.gpu_memory_mib >= 16 * 1024


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("g6.12xlarge", {"gpus": 4, "gpu_model": "L4", "efa_interfaces": 1, "vcpu": 48, "memory_mib": 192 * 1024,
                         "transport_protocol": "SENDRECV", "gpudirect_rdma": False, "quota_family": "gAndVt"}),
        ("g6e.48xlarge", {"gpus": 8, "gpu_model": "L40S", "efa_interfaces": 4, "vcpu": 192, "quota_family": "gAndVt"}),
        ("p5.48xlarge", {"gpus": 8, "gpu_model": "H100", "efa_interfaces": 32, "vcpu": 192, "quota_family": "p",
                         "transport_protocol": "RDMA", "gpudirect_rdma": True, "memory_mib": 2048 * 1024}),
        ("p4d.24xlarge", {"gpus": 8, "gpu_model": "A100", "efa_interfaces": 4, "vcpu": 96, "quota_family": "p",
                          "transport_protocol": "SENDRECV", "gpudirect_rdma": True}),
        ("g5.48xlarge", {"gpus": 8, "efa_interfaces": 1, "vcpu": 192, "quota_family": "gAndVt"}),
        ("m7i.xlarge", {"gpus": 0, "efa_interfaces": 0, "vcpu": 4, "memory_mib": 16 * 1024,
                        "quota_family": "standard"}),
        (LOCAL, {"gpus": 0, "efa_interfaces": 0, "quota_family": "", "usd_per_hour": {}}),
    ],
)  # fmt: skip
def test_known_figures(name: str, figures: dict[str, object]) -> None:
    found = instance_types()[name]
    got = {key: getattr(found, key) for key in figures}
    if "gpu_model" in got:
        got["gpu_model"] = re.match(r"[A-Z0-9]+", str(got["gpu_model"]))[0]  # type: ignore[index]
    assert got == figures


def test_known_prices() -> None:
    assert instance_types()["g6.12xlarge"].usd_per_hour["us-west-2"] == 4.6016
    assert instance_types()["m7i.xlarge"].usd_per_hour["us-west-2"] == 0.2016
    assert catalog.prices()["eks_control_plane"].usd_per_hour == 0.10
    assert catalog.prices()["nat_gateway"].usd_per_hour == 0.045
    assert instance_types()["p5.48xlarge"].capacity_block_usd_per_hour is not None


@pytest.mark.parametrize("name", ["p6e-gb200.36xlarge", "p6-b300.48xlarge", "p3dn.24xlarge", "g4dn.12xlarge"])
def test_types_that_cannot_train_are_refused_with_a_reason(name: str) -> None:
    assert not usable(name)
    assert len(instance_types()[name].refused) > 20


def test_every_type_with_accelerators_is_usable_or_has_a_reason() -> None:
    for row in rows("instances.csv"):
        found = instance_types()[row["instance_type"]]
        if row["role"] == "accelerated":
            assert usable(found.name) or found.refused, f"{found.name} is refused without a reason"
        else:
            assert not usable(found.name)
        if found.architecture == "arm64":
            assert not usable(found.name), "the image is built for amd64"


def test_refusals_are_about_types_that_exist() -> None:
    names = set(instance_types()) | {t.family for t in TYPES}
    assert set(catalog._REFUSED_TYPES) <= names
    assert set(catalog._REFUSED_GPUS) <= {t.gpu_model for t in TYPES}


def test_zones_are_those_of_their_region() -> None:
    assert catalog.zones()["us-west-2"] == {f"us-west-2{letter}" for letter in "abcd"}
    for region, zones in catalog.zones().items():
        assert len(zones) >= 2
        assert all(zone[:-1] == region for zone in zones)


def test_there_is_a_tag_that_does_not_move_and_holds_the_ray_of_the_project() -> None:
    first = catalog.images()[0]
    assert not first.moves
    assert first.ray == "2.58.0"


def test_shared_pods_are_on_nodes_that_exist() -> None:
    assert {pod.nodes for pod in catalog.shared_pods()} == {"every", "gpu", "efa", "system", "fsx", "fsx-system"}


@pytest.mark.parametrize("name", [t.name for t in TYPES if usable(t.name) and t.name != LOCAL])
def test_allocatable_memory_is_what_the_reserves_leave(name: str) -> None:
    """The note of `node_room` says how the number comes about; it must be so, or the table was gathered otherwise."""
    found = instance_types()[name]
    reserved = found.kubelet_memory_mib + EVICTION_MIB + found.hugepages_mib
    assert abs(found.memory_mib * 0.925 - reserved - found.allocatable_memory_mib) <= 1
