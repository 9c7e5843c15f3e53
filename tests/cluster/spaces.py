"""A namespace for a test or for several, and what is kept of it when one of them fails."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.cluster.bench import layout
from tests.cluster.bench.addons import OPERATOR_NAMESPACE
from tests.cluster.bench.bench import Bench
from tests.cluster.bench.layout import BenchError
from tests.cluster.release import CLAIM, Space

FAILED = pytest.StashKey[bool]()
"""Set on every node of a failed test, from the session down, by the hook in conftest.py."""

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
                _keep(made)
        finally:
            # Not waited for: pods may take their grace period, and the next test need not.
            bench.kubectl("delete", "namespace", name, "--wait=false")


def _keep(made: Space) -> None:
    """Write what the namespace holds to a folder, and name it."""
    kept = made.bench.collect(made.name, (made.name, OPERATOR_NAMESPACE))
    print(f"objects, events and logs of the test: {kept}")
    with suppress(BenchError):
        for job in made.names("rayjobs"):
            (kept / f"{job}.driver.log").write_text(made.log(job), encoding="utf-8")


def wait_until_gone(bench: Bench) -> None:
    """Wait until every namespace made here is gone, and remove its volume and files: the end of a session.

    Raises:
        BenchError: one is held, most likely by a finalizer.
    """
    selector = f"--selector={LABEL}"
    wait = ("wait", "namespace", selector, "--for=delete", f"--timeout={GONE_S}s")
    made = bench.kubectl("get", "persistentvolume", selector, "--output=name").split()
    bench.kubectl(*wait, timeout_s=GONE_S + 10)
    bench.kubectl("delete", "persistentvolume", selector)
    for volume in made:
        shutil.rmtree(bench.files.shared / volume.rpartition("/")[2], ignore_errors=True)
