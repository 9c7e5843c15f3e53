"""The Grafana dashboard: its form, and that Ray, the training or KubeRay has each metric in it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chart.cases import job
from tests.cluster.checkers import require_go
from tests.cluster.tools import build
from tests.helm import CHART, ROOT, one, render
from tests.training.conftest import require
from tests.training.processes import until
from tests.training.raycluster import WAIT, running_head
from training import config
from training.pace import Pace

FILE = CHART / "files" / "dashboards" / "ray-train-dlc.json"
ENABLED = job("monitoring.grafanaDashboard.enabled", True)
METRIC = re.compile(r"\b(?:ray|kuberay)_\w+(?=\{)")
# Those of a GPU, of a loss that has not happened, and of a checkpoint that Ray itself copies.
NOT_ON_A_QUIET_CPU = {
    "ray_training_mfu",
    "ray_node_gpus_utilization",
    "ray_node_gram_used",
    "ray_node_gpu_power_milliwatts",
    "ray_node_gpu_temperature_celsius",
    "ray_node_manager_unexpected_worker_failure_total",
    "ray_memory_manager_worker_eviction_total",
    "ray_node_failure_total",
    "ray_train_checkpoint_transfer_total_time_s",
    "ray_train_worker_group_shutdown_total_time_s",
}


def dashboard() -> dict[str, Any]:
    """The dashboard, out of the rendered ConfigMap."""
    (config,) = render(ENABLED, show_only="templates/dashboard.yaml")
    found: dict[str, Any] = json.loads(config["data"][FILE.name])
    return found


def expressions() -> Iterator[str]:
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]


def metrics() -> set[str]:
    found = {name for text in expressions() for name in METRIC.findall(text)}
    assert len(found) > 25
    return found


def test_the_config_map_holds_the_file_as_it_is_for_the_sidecar_to_find() -> None:
    values = job("monitoring.grafanaDashboard", {"enabled": True, "annotations": {"grafana_folder": "Ray"}})
    (config,) = render(values, show_only="templates/dashboard.yaml")
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert config["metadata"]["annotations"] == {"grafana_folder": "Ray"}
    assert config["data"] == {FILE.name: FILE.read_text(encoding="utf-8")}


def test_it_is_made_only_where_it_is_wanted() -> None:
    assert not render(job(), show_only="templates/dashboard.yaml")
    on_cluster = job("mode", "jobOnCluster") | {"job": {"clusterName": "demo"}, "monitoring": ENABLED["monitoring"]}
    assert [item["kind"] for item in render(on_cluster)] == ["RayJob"]


def test_the_form() -> None:
    found = dashboard()
    assert found["uid"] == "ray-train-dlc"
    ids = [panel["id"] for panel in found["panels"]]
    assert len(ids) == len(set(ids))
    assert [item["name"] for item in found["templating"]["list"]] == ["datasource", "namespace", "run"]
    places = [(p["gridPos"]["x"], p["gridPos"]["y"], p["gridPos"]["w"], p["gridPos"]["h"]) for p in found["panels"]]
    for number, (x, y, w, h) in enumerate(places):
        assert x + w <= 24
        for x2, y2, w2, h2 in places[number + 1 :]:
            assert x >= x2 + w2 or x2 >= x + w or y >= y2 + h2 or y2 >= y + h, "panels overlap"
    for panel in found["panels"]:
        letters = [target["refId"] for target in panel.get("targets", ())]
        assert len(letters) == len(set(letters))
        assert panel["type"] == "row" or (letters and panel["datasource"]["uid"] == "${datasource}")


def test_every_series_is_filtered_by_namespace_and_run() -> None:
    for expression in expressions():
        selectors = re.findall(r"\w+\{([^}]*)\}", re.sub(r"\$\{run:regex\}", "$run", expression))
        assert len(selectors) == len(METRIC.findall(expression)) > 0
        for selector in selectors:
            assert 'namespace="$namespace"' in selector, expression
            assert re.search(r'(ray_train_dlc_run|name)=~"\(?\$run', selector), expression


def test_the_label_of_the_run_is_the_one_that_the_pod_monitor_gives() -> None:
    monitor = one("PodMonitor", job("monitoring.podMonitor.enabled", True))
    given = {re.sub(r"\W", "_", label) for label in monitor["spec"]["podTargetLabels"]}
    used = {label for text in expressions() for label in re.findall(r"\b(ray_train_dlc_\w+)\b", text)}
    assert used == {"ray_train_dlc_run"} <= given


def test_ray_and_the_training_have_every_metric() -> None:
    """By the sources of the installed Ray, also those that a test without a GPU cannot see."""
    require("ray")
    import ray
    from ray.dashboard.modules.reporter.reporter_agent import METRICS_GAUGES

    folder = Path(ray.__file__).parent
    sources = "".join(file.read_text() for file in sorted((folder / "train/v2/_internal/metrics").glob("*.py")))
    names = {f"ray_{name}" for name in [*METRICS_GAUGES, *re.findall(r'= "(train_\w+)"', sources)]}
    launch = (ROOT / "training" / "launch.py").read_text(encoding="utf-8")
    assert 'f"training_{name}"' in launch
    session = (ROOT / "training" / "session.py").read_text(encoding="utf-8")
    told = [name for call in re.findall(r"hooks\.measured\((.*)\)", session) for name in re.findall(r"(\w+)=", call)]
    pace = Pace(config.build("tiny"), nodes=2, processes_per_node=2, cuda=False)
    pace.add(1.0)
    # On GPUs there is one more.
    source = (ROOT / "training" / "pace.py").read_text(encoding="utf-8")
    told += [*pace.interval(left=0), *re.findall(r'numbers\["(\w+)"\]', source)]
    names |= {f"ray_training_{name}" for name in told}
    programs = b"".join((folder / "core/src/ray" / name).read_bytes() for name in ("raylet/raylet", "gcs/gcs_server"))
    for metric in {name for name in metrics() if name.startswith("ray_")} - names:
        # Ray's exporter puts `ray_` before a name, and `_total` behind that of a counter.
        inner = metric.removeprefix("ray_").encode()
        assert inner in programs or inner.removesuffix(b"_total") in programs, metric


@pytest.mark.go
def test_the_operator_has_every_metric() -> None:
    require_go()
    files = (build.module_dir("kuberay-operator") / "controllers" / "ray" / "metrics").glob("ray_*_metrics.go")
    source = "".join(file.read_text(encoding="utf-8") for file in sorted(files))
    for metric in {name for name in metrics() if name.startswith("kuberay_")}:
        assert f'"{metric}"' in source, metric


@pytest.mark.full
@pytest.mark.ray
def test_a_training_on_a_real_cluster_exports_them(tmp_path: Path) -> None:
    """Read where Prometheus reads them, while a training runs: a gauge that nobody sets again goes after a while."""
    require("torch", "transformers", "ray")
    wanted = {name for name in metrics() if name.startswith("ray_")} - NOT_ON_A_QUIET_CPU
    seen: set[str] = set()
    with running_head() as cluster:
        nodes = [cluster.join(host) for host in ("127.0.0.2", "127.0.0.3")]
        assert len(nodes) == 2
        ports = _metrics_ports(cluster.address)
        driver = cluster.train(
            tmp_path / "log", "--steps=100000", "--validate-every=20", RTD_RUN_PATH=str(tmp_path / "run")
        )

        def all_seen() -> bool:
            assert driver.popen.poll() is None, driver.output()
            for address in ports:
                with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
                    seen.update(re.findall(r"^(\w+)\{", answer.read().decode(), flags=re.MULTILINE))
            return wanted <= seen

        until(all_seen, WAIT, f"the metrics {wanted}")


def _metrics_ports(address: str) -> list[str]:
    """Where the nodes of a Ray cluster answer Prometheus. In a process of its own: Ray keeps much in this one."""
    code = (
        f"import ray, json; ray.init(address='{address}', logging_level='ERROR');"
        "print(json.dumps([f\"{n['NodeManagerAddress']}:{n['MetricsExportPort']}\" for n in ray.nodes()]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=WAIT)
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found
