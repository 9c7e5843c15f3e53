"""Reading NCCL's log.

The lines are composed from the format strings of aws-ofi-nccl 1.20 (nccl_ofi_net.cpp: provider, protocol) and NCCL 2.29
(net.cc, init.cc, transport/net.cc: plugin, network, channels). None was recorded on EFA; the socket ones were seen.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from training.contract import ExpectedTransport
from training.transport import own_log, problems, read_log

PREFIX = "ip-10-0-0-1:42:97 [0] NCCL INFO "
G6 = ExpectedTransport("efa", "SENDRECV", 1, gdrdma=False)
P5 = ExpectedTransport("efa", "RDMA", 32, gdrdma=True)


def log(*lines: str) -> str:
    return "".join(f"{PREFIX}{line}\n" for line in lines)


def efa(interfaces: int, protocol: str, *channels: str) -> str:
    return log(
        "NET/OFI Initializing aws-ofi-nccl 1.20.0",
        f"NET/OFI Selected provider is efa, fabric is efa-direct (found {interfaces} nics)",
        f"NET/OFI Using transport protocol {protocol}",
        "Initialized NET plugin Libfabric",
        "Using network Libfabric",
        *channels,
    )


G6_EDGE = efa(1, "SENDRECV", "Channel 00/0 : 3[3] -> 4[0] [send] via NET/Libfabric/0")
G6_INSIDE = efa(1, "SENDRECV", "Channel 00/0 : 1[1] -> 2[2] via SHM/direct/direct")
P5_EDGE = efa(32, "RDMA (platform set)", "Channel 00/0 : 7[7] -> 8[0] [send] via NET/Libfabric/4/GDRDMA")
# Recorded on NCCL 2.28.9 without a plugin.
SOCKET = log("NET/Plugin: Could not find: libnccl-net.so", "Initialized NET plugin Socket", "Using network Socket")
REFUSED = log("NCCL WARN Failed to initialize any NET plugin")


def check(expected: ExpectedTransport, *logs: str, nodes: int = 2) -> list[str]:
    return problems(expected, [read_log(text) for text in logs], nodes=nodes)


def test_the_promised_transport_passes() -> None:
    assert check(G6, G6_EDGE, G6_INSIDE, G6_INSIDE, G6_EDGE) == []
    assert check(P5, P5_EDGE, P5_EDGE) == []


def test_more_than_promised_passes() -> None:
    better = efa(1, "SENDRECV", "Channel 00/0 : 3[3] -> 4[0] [send] via NET/Libfabric/0/GDRDMA")
    assert check(G6, better, better) == []


@pytest.mark.parametrize(
    ("expected", "logs", "message"),
    [
        (G6, (SOCKET, SOCKET), "network: expected efa, found TCP sockets (ranks 0, 1)"),
        (G6, (G6_EDGE, SOCKET), "network: expected efa, found TCP sockets (ranks 1)"),
        (
            G6,
            (G6_EDGE.replace("is efa,", "is tcp,"), G6_EDGE),
            "provider: expected efa, found tcp (ranks 0)",
        ),
        (G6, ("", G6_EDGE), "provider: expected efa, found none in the log (ranks 0)"),
        (
            G6,
            (REFUSED, REFUSED),
            "provider: expected efa, found Failed to initialize any NET plugin (ranks 0, 1)",
        ),
        (P5, (P5_EDGE, G6_EDGE), "protocol: expected RDMA, found SENDRECV (ranks 1)"),
        (
            P5,
            (P5_EDGE, P5_EDGE.replace("found 32", "found 31")),
            "interfaces: expected 32, found 31 (ranks 1)",
        ),
        (
            P5,
            (P5_EDGE, P5_EDGE.replace("/GDRDMA", "")),
            "GPUDirect RDMA: expected, found channels without /GDRDMA (ranks 1)",
        ),
        (
            G6,
            (G6_INSIDE, G6_INSIDE),
            "channels: expected some via NET/Libfabric between the nodes, found none in any log",
        ),
    ],
)
def test_every_difference_is_named_with_its_ranks(
    expected: ExpectedTransport, logs: tuple[str, ...], message: str
) -> None:
    assert message in check(expected, *logs)


def test_an_empty_protocol_and_no_interfaces_are_not_checked() -> None:
    assert check(ExpectedTransport("efa", "", 0, gdrdma=False), P5_EDGE, G6_EDGE) == []


def test_each_process_reads_its_own_file() -> None:
    path = own_log({"NCCL_DEBUG_FILE": "/var/tmp/ray-train/nccl.%h.%p.log"})  # noqa: S108 - a name only
    assert path == Path(f"/var/tmp/ray-train/nccl.{socket.gethostname().split('.')[0]}.{os.getpid()}.log")  # noqa: S108
    assert own_log({}) is None


def test_lines_of_an_earlier_run_count_for_nothing() -> None:
    """One file for all processes (NCCL_DEBUG_FILE without %p) on a disk that has outlived a container."""
    mine = SOCKET.replace(":42:97", ":1042:1097")
    found = read_log(P5_EDGE + mine + "a line of no process\n", 1042)
    assert (found.provider, found.interfaces, found.channels, found.socket) == ("", None, 0, True)
    assert problems(P5, [found], nodes=1) == ["network: expected efa, found TCP sockets (ranks 0)"]
    stamped = "".join(f"[2026-12-03 06:00:00] {line}\n" for line in P5_EDGE.splitlines())
    assert read_log(stamped, 42).provider == "efa"
    assert read_log(stamped, 43).provider == ""
    (recorded,) = (Path(__file__).parent / "logs_of_nccl").glob("none.log")
    text = recorded.read_text(encoding="utf-8")
    assert read_log(text, 442) == read_log(text)
    assert read_log(text, 443).socket is False


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none", "network: expected efa, found TCP sockets (ranks 0)"),
        ("plugin-only", "network: expected efa, found TCP sockets (ranks 0)"),
        ("libfabric", "provider: expected efa, found Failed to initialize any NET plugin (ranks 0)"),
    ],
)
def test_logs_of_a_gpu_without_the_plugin(name: str, message: str) -> None:
    """Recorded with one rank on an H200 (NCCL 2.28.9, no plugin; lines about channels and trees left out).

    `none` has none of the variables; `plugin-only` has NCCL_NET_PLUGIN=ofi, as the published example sets it, and runs
    on sockets all the same; `libfabric` has NCCL_NET=Libfabric too, and NCCL does not start.
    """
    text = (Path(__file__).parent / "logs_of_nccl" / f"{name}.log").read_text(encoding="utf-8")
    assert check(G6, text, nodes=1) == [message]


# What each instance type must show. The table of the platforms is aws-ofi-nccl's (1.20, src/platform-aws.cpp): p4d
# SENDRECV, p5 and p6-b200 RDMA, set by the platform; g6 and g6e are not in it and take the plugin's default, SENDRECV.
# GPUDirect shows in NCCL 2.29's channel lines (transport/net.cc) where the type's interfaces have it.
TYPES = {
    "g6.12xlarge": (ExpectedTransport("efa", "SENDRECV", 1, gdrdma=False), "SENDRECV", ""),
    "g6e.12xlarge": (ExpectedTransport("efa", "SENDRECV", 1, gdrdma=False), "SENDRECV", ""),
    "p4d.24xlarge": (ExpectedTransport("efa", "SENDRECV", 4, gdrdma=True), "SENDRECV (platform set)", "/GDRDMA"),
    "p5.48xlarge": (ExpectedTransport("efa", "RDMA", 32, gdrdma=True), "RDMA (platform set)", "/GDRDMA"),
    "p6-b200.48xlarge": (ExpectedTransport("efa", "RDMA", 8, gdrdma=True), "RDMA (platform set)", "/GDRDMA"),
}


@pytest.mark.parametrize("kind", TYPES)
def test_each_instance_type_passes_with_its_own_log_and_fails_with_less(kind: str) -> None:
    expected, protocol, suffix = TYPES[kind]
    count = expected.interfaces

    def of(found: int) -> str:
        return efa(found, protocol, f"Channel 00/0 : 7[7] -> 8[0] [send] via NET/Libfabric/0{suffix}")

    assert check(expected, of(count), of(count)) == []
    fewer = f"interfaces: expected {count}, found {count - 1} (ranks 1)"
    assert check(expected, of(count), of(count - 1)) == [fewer]
    tcp = of(count).replace("is efa,", "is tcp,")
    assert check(expected, of(count), tcp) == ["provider: expected efa, found tcp (ranks 1)"]
    assert check(expected, SOCKET, of(count)) == ["network: expected efa, found TCP sockets (ranks 0)"]
    if suffix:
        bare = [of(count).replace(suffix, "")] * 2
        assert check(expected, *bare) == ["GPUDirect RDMA: expected, found channels without /GDRDMA (ranks 0, 1)"]


@pytest.mark.parametrize("kind", TYPES)
def test_the_catalogue_promises_the_same(kind: str) -> None:
    """The chart's expectation comes from the generator's catalogue: both tables must say one thing."""
    from generator.catalog import instance_types

    found = instance_types()[kind]
    expected = TYPES[kind][0]
    assert (found.efa_interfaces, found.transport_protocol) == (expected.interfaces, expected.protocol)
    assert found.gpudirect_rdma == expected.gdrdma
