"""docs/storage.md: Kubernetes takes its volumes and claims, the chart takes its values, and they fit together."""

from __future__ import annotations

import kubernetes_validate
import pytest

from tests.chart.cases import group, pods
from tests.docs.blocks import documents
from tests.project_pods import container

PAGE = "storage.md"
FILES = ("fsx.yaml", "efs.yaml", "pvc.yaml")
DRIVERS = {"fsx.yaml": "fsx.csi.aws.com", "efs.yaml": "efs.csi.aws.com"}
KUBERNETES = ("1.34", "1.37")


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("file", FILES)
def test_kubernetes_takes_the_manifests(file: str, version: str) -> None:
    (manifests,) = documents(PAGE, file)
    for manifest in manifests:
        kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("file", DRIVERS)
def test_the_claim_gets_the_volume(file: str) -> None:
    ((volume, claim),) = documents(PAGE, file)
    assert volume["spec"]["csi"]["driver"] == DRIVERS[file]
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"]
    for key in ("accessModes", "storageClassName"):
        assert claim["spec"][key] == volume["spec"][key]
    assert claim["spec"]["resources"]["requests"] == volume["spec"]["capacity"]
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"


def test_the_pods_mount_the_claim() -> None:
    values = [value for (value,) in documents(PAGE, "values")]
    assert [value["training"]["storage"]["kind"] for value in values] == ["fsx", "efs", "pvc"]
    for value, file in zip(values, FILES, strict=True):
        ((*_, claim),) = documents(PAGE, file)
        assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
        rendered = pods(value | {"workerGroups": {"gpu": group()}}, namespace=claim["metadata"]["namespace"])
        assert len(rendered) == 2
        for pod in rendered:
            assert pod["metadata"]["namespace"] == claim["metadata"]["namespace"]
            (volume,) = [item for item in pod["spec"]["volumes"] if item["name"] == "storage"]
            assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
            (mount,) = [item for item in container(pod)["volumeMounts"] if item["name"] == "storage"]
            assert (mount["mountPath"], mount.get("subPath")) == (
                "/mnt/ray-train",
                value["training"]["storage"].get("subPath"),
            )
