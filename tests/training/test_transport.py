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
