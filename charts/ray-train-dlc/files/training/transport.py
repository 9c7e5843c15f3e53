"""Prove from NCCL's own log that the expected network carries the training.

The lines are those of aws-ofi-nccl (`Selected provider is …`, `Using transport protocol …`) and of NCCL
(`via NET/Libfabric/0[/GDRDMA]`, `via NET/Socket/…`). The provider, its protocol and its interfaces are chosen in every
process; channels over the network exist only in ranks at a node's edge, so they are judged over all ranks together.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from training.contract import ExpectedTransport

# NCCL's own prefix of a line (debug.cc): host:process:thread [device].
_WRITER = re.compile(r"^(?:\[[^\]]*\] )?\S+:(\d+):\d+ \[\d+\] NCCL ")
_PROVIDER = re.compile(r"NET/OFI Selected provider is ([\w;-]+)(?:.*?\bfound (\d+) nics?\b)?", re.IGNORECASE)
_PROTOCOL = re.compile(r"Using transport protocol (\w+)")
_CHANNEL = re.compile(r"via NET/(?:AWS )?Libfabric/\d+(\S*)")
_SOCKET = re.compile(r"via NET/Socket|Using network Socket")
_FAILED = re.compile(
    r"No eligible providers were found|aws-ofi-nccl initialization failed|Failed to initialize any NET plugin"
)


@dataclass(frozen=True)
class FoundTransport:
    """What one rank's log says. Empty, None or 0: the log does not say."""

    provider: str = ""
    protocol: str = ""
    interfaces: int | None = None
    channels: int = 0
    """Channels over libfabric."""
    gdrdma: int = 0
    """Those of them that bypass the host's memory."""
    socket: bool = False
    """NCCL uses TCP sockets."""
    failure: str = ""
    """The log's own line about a network that did not start."""


def read_log(text: str, pid: int | None = None) -> FoundTransport:
    """Pick the facts out of one process's NCCL log.

    Args:
        pid: pass over the lines of other processes, such as those of an earlier run, in a file that is not this
            process's alone.
    """
    if pid is not None:
        lines = [(line, _WRITER.match(line)) for line in text.splitlines()]
        text = "\n".join(line for line, writer in lines if writer is None or int(writer[1]) == pid)
    provider, protocol = _PROVIDER.search(text), _PROTOCOL.search(text)
    channels = _CHANNEL.findall(text)
    failure = _FAILED.search(text)
    return FoundTransport(
        provider=provider[1] if provider else "",
        protocol=protocol[1] if protocol else "",
        interfaces=int(provider[2]) if provider and provider[2] else None,
        channels=len(channels),
        gdrdma=sum("/GDRDMA" in c for c in channels),
        socket=bool(_SOCKET.search(text)),
        failure=failure[0] if failure else "",
    )


def own_log(environ: Mapping[str, str]) -> Path | None:
    """This process's NCCL log: NCCL replaces %h by the host's name up to the first dot and %p by the process id."""
    pattern = environ.get("NCCL_DEBUG_FILE", "")
    if not pattern:
        return None
    return Path(pattern.replace("%h", socket.gethostname().split(".")[0]).replace("%p", str(os.getpid())))


def problems(expected: ExpectedTransport, found: list[FoundTransport], *, nodes: int) -> list[str]:
    """What differs, as "expected …, found …" texts with the ranks. Empty when all is as promised.

    More than promised (GPUDirect where none was expected) is no problem: the run is only faster.
    """
    wrong: dict[str, list[int]] = {}
    for rank, one in enumerate(found):
        texts = []
        if one.socket:
            texts.append(f"network: expected {expected.provider}, found TCP sockets")
        elif one.provider != expected.provider:
            shown = one.provider or one.failure or "none in the log"
            texts.append(f"provider: expected {expected.provider}, found {shown}")
        else:
            if expected.protocol and one.protocol != expected.protocol:
                texts.append(f"protocol: expected {expected.protocol}, found {one.protocol or 'none in the log'}")
            if expected.interfaces and one.interfaces != expected.interfaces:
                count = "none in the log" if one.interfaces is None else one.interfaces
                texts.append(f"interfaces: expected {expected.interfaces}, found {count}")
            if expected.gdrdma and one.channels and not one.gdrdma:
                texts.append("GPUDirect RDMA: expected, found channels without /GDRDMA")
        for text in texts:
            wrong.setdefault(text, []).append(rank)
    if not wrong and nodes > 1 and not any(one.channels for one in found):
        wrong["channels: expected some via NET/Libfabric between the nodes, found none in any log"] = []
    return [f"{text} (ranks {', '.join(map(str, ranks))})" if ranks else text for text, ranks in wrong.items()]
