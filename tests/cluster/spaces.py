"""A namespace for a test or for several, and what is kept of it when one of them fails."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.bench import layout
from tests.cluster.bench.addons import OPERATOR_NAMESPACE
from tests.cluster.bench.bench import Bench
from tests.cluster.bench.layout import BenchError
from tests.cluster.release import CLAIM, Space

FAILED = pytest.StashKey[bool]()
"""Set on every node of a failed test, from the session down, by the hook in conftest.py."""
KEPT = pytest.StashKey[list[str]]()
"""Set on the session's configuration: folders with what namespaces of failed tests held, for the summary."""

GONE_S = 120
LABEL = "bench/test"


@contextmanager
def made_space(bench: Bench, node: pytest.Item | pytest.Collector) -> Iterator[Space]:
    """A namespace with a claim on the shared file system, gone afterwards with all that is in it.

    When a test of `node` failed, what the namespace held is written to a folder first, which the report names.
    """
    bench.check()
    words = re.sub(r"[^a-z0-9]+", "-", node.name.lower()).removeprefix("tests-cluster-").strip("-")
    name = f"{words[:40].rstrip('-')}-{uuid.uuid4().hex[:6]}"
    folder = bench.files.shared / name
    folder.mkdir()
    folder.chmod(0o777)
    metadata = {"name": name, "labels": {LABEL: ""}}
    bench.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": metadata,
            "spec": {
                "capacity": {"storage": "10Gi"},
                "accessModes": ["ReadWriteMany"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "",
                "claimRef": {"namespace": name, "name": CLAIM},
                "hostPath": {"path": f"{layout.SHARED_IN_NODE}/{name}", "type": "Directory"},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": CLAIM, "namespace": name},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "",
                "volumeName": name,
                "resources": {"requests": {"storage": "10Gi"}},
            },
        },
    )
    made = Space(bench, name, folder)
    try:
        yield made
    except BaseException:
        node.stash[FAILED] = True
        raise
    finally:
        try:
            if node.stash.get(FAILED, False):
                node.config.stash.setdefault(KEPT, []).append(f"{node.nodeid}: {_keep(made)}")
        finally:
            # Not waited for: pods may take their grace period, and the next test need not.
            bench.kubectl("delete", "namespace", name, "--wait=false")


def _keep(made: Space) -> Path:
    """Write what the namespace holds to a folder; its path."""
    kept = made.bench.collect(made.name, (made.name, OPERATOR_NAMESPACE))
    with suppress(BenchError):
        for job in made.names("rayjobs"):
            (kept / f"{job}.driver.log").write_text(made.log(job), encoding="utf-8")
    return kept


def wait_until_gone(bench: Bench) -> None:
    """Wait until every namespace made here is gone, and remove its volume and files: the end of a session.

    Raises:
        BenchError: one is held; with what holds it. The others are gone, with all that was theirs.
    """

    def held() -> dict[str, dict[str, Any]]:
        return {found["metadata"]["name"]: found for found in bench.objects("namespaces", selector=LABEL)}

    with suppress(BenchError):  # told below, with the reason
        bench.wait_for("the namespaces of the tests to be gone", lambda: not held(), timeout_s=GONE_S)
    left = held()
    volumes = bench.kubectl("get", "persistentvolume", f"--selector={LABEL}", "--output=name").split()
    gone = [name for volume in volumes if (name := volume.rpartition("/")[2]) not in left]
    if gone:
        bench.kubectl("delete", "persistentvolume", *gone)
    for name in gone:
        shutil.rmtree(bench.files.shared / name, ignore_errors=True)
    if left:
        why = [f"{name}: {_holders(found)}" for name, found in left.items()]
        raise BenchError(f"namespaces are held after {GONE_S} s:\n  " + "\n  ".join(why))


def _holders(namespace: dict[str, Any]) -> str:
    """What Kubernetes says of a namespace that does not go."""
    conditions = namespace["status"].get("conditions", ())
    return " ".join(c["message"] for c in conditions if c["status"] == "True") or "no reason given"
