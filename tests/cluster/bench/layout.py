"""Where things are: the files of a bench, and the addresses inside it. Standard library only."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

# Addresses exist only inside the bench's own network namespace, so every bench uses the same.
CONTROL_PLANE_IP = "172.30.0.1"
NETWORK_PREFIX = 24
SERVICE_CIDR = "10.96.0.0/16"
API_SERVICE_IP = "10.96.0.1"
DNS_IP = "10.96.0.10"
POD_CIDR = "10.244.0.0/16"
CLUSTER_DOMAIN = "cluster.local"
API_SERVER = f"https://{CONTROL_PLANE_IP}:6443"

# One folder for all nodes, in each of them: what FSx for Lustre is on AWS.
SHARED_IN_NODE = "/var/lib/bench-shared"
HARDWARE_IN_NODE = "/run/hardware"


class BenchError(Exception):
    """The bench cannot be had, or what was waited for did not come; the text says what to do or where to look."""


def node_ip(index: int) -> str:
    """Address of the node with this index, from 0."""
    return f"172.30.0.{11 + index}"


def pod_cidr(index: int) -> str:
    """Pod addresses of the node with this index, from 0."""
    return f"10.244.{1 + index}.0/24"


@dataclass(frozen=True)
class Layout:
    """Files of one bench, all below its working folder.

    Attributes:
        folder: the working folder. Two benches with different folders do not meet.
        images: root file systems of the images, kept from one start to the next; several benches may share them.
    """

    folder: Path
    images: Path = field(default=Path(), kw_only=True)

    def __post_init__(self) -> None:
        if self.images == Path():
            object.__setattr__(self, "images", self.folder / "images")

    @classmethod
    def default(cls) -> Layout:
        """`BENCH_DIR`, else `.bench` in the checkout: the training image is made of hard links to its .venv."""
        return cls(Path(os.environ.get("BENCH_DIR") or ROOT / ".bench").resolve())

    @property
    def identity(self) -> str:
        """Short name that no other working folder has; names the control groups."""
        return hashlib.sha256(str(self.folder).encode()).hexdigest()[:12]

    @property
    def logs(self) -> Path:
        """One log per component, and what failed tests left; kept until the next start."""
        return self.folder / "logs"

    @property
    def run(self) -> Path:
        """State of the running bench; removed when it ends."""
        return self.folder / "run"

    @property
    def lock(self) -> Path:
        """Locked while the bench runs. The lock goes with the process, however that ends."""
        return self.folder / "lock"

    @property
    def state(self) -> Path:
        """JSON that the first process writes: what runs, what ended."""
        return self.run / "state.json"

    @property
    def pid(self) -> Path:
        """Process id of the first process's parent, and when that started."""
        return self.run / "pid"

    @property
    def ready(self) -> Path:
        """Written by an `up` that has seen everything ready; without it a bench is starting, or half started."""
        return self.run / "ready"

    @property
    def programs(self) -> Path:
        """Folder with kubectl and helm, for a PATH."""
        return self.run / "bin"

    @property
    def plan(self) -> Path:
        """JSON that the first process reads: nodes, programs, images."""
        return self.run / "plan.json"

    @property
    def pki(self) -> Path:
        return self.run / "pki"

    @property
    def api(self) -> Path:
        """Socket on which `kubectl proxy` answers."""
        return self.run / "api.sock"

    @property
    def shared(self) -> Path:
        """The folder that all nodes share."""
        return self.run / "shared"

    def kubeconfig(self, user: str) -> Path:
        """Kubeconfig of `admin` or of a component."""
        return self.run / "kubeconfig" / user

    def node(self, name: str) -> Path:
        """A node's disk."""
        return self.run / "nodes" / name

    def log(self, component: str) -> Path:
        return self.logs / f"{component}.log"
