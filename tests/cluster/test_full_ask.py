"""The recipe "Ask the API server itself" of docs/recipes.md: the script's objects, judged by a real API server."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml

from tests.chart.cases import job
from tests.cluster.bench.layout import BenchError
from tests.cluster.release import Space
from tests.helm import ROOT, template

pytestmark = [pytest.mark.cluster, pytest.mark.full]

OUTSIDE = {"serviceType": "LoadBalancer", "service": {"spec": {"loadBalancerSourceRanges": ["10.0.0.0/8"]}}}
CREATE = ("create", "--dry-run=server", "--output=name", "--filename=-")


def asked(manifests: str) -> str:
    """What docs/examples/pod_templates.py makes of manifests."""
    script = str(ROOT / "docs/examples/pod_templates.py")
    return subprocess.run(
        [sys.executable, script], input=manifests, capture_output=True, text=True, timeout=60, check=True
    ).stdout


def test_it_says_at_once_what_the_operator_would_be_told_later(space: Space) -> None:
    values = job("job", {"submissionMode": "K8sJobMode"}) | {"head": OUTSIDE}
    text = template(values, namespace=space.name)
    names = space.kubectl(*CREATE, text=asked(text)).split()
    assert [name.rpartition("-")[2] for name in names[:-1]] == ["gpu", "head", "submitter"]
    assert names[-1].startswith("service/")
    assert "rayjob" in space.kubectl("apply", *CREATE[1:], text=text)

    manifests = [item for item in yaml.safe_load_all(text) if item]
    (rayjob,) = [item for item in manifests if item["kind"] == "RayJob"]
    group = rayjob["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]
    group["template"]["spec"] |= {"hostnameOverride": "a", "setHostnameAsFQDN": True}
    broken = yaml.safe_dump_all(manifests)
    assert "rayjob" in space.kubectl("apply", *CREATE[1:], text=broken), "as a part of a RayJob it is not looked at"
    with pytest.raises(BenchError, match="setHostnameAsFQDN"):
        space.kubectl(*CREATE, text=asked(broken))
    assert space.names("rayjobs") == []
