"""Keys of an environment that are the chart's own: from the file to the object where their meaning shows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from generator.diagnostics import Severity
from generator.plan.plan import plan
from generator.plan.text import as_text
from generator.project import Project
from generator.render import render, values_path
from generator.resolve import resolve
from generator.rules import check
from tests import helm
from tests.project import base, make, sharing
from tests.project_pods import cluster_spec, container, environment, project, templates

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "charts/ray-train-dlc/values.schema.json").read_text(encoding="utf-8"))
COMMIT = "0123456789abcdef0123456789abcdef01234567"
HOST = ("mode: job\n", "mode: cluster\n")
ON_HOST = (
    ("mode: job\n", "mode: jobOnCluster\n"),
    ('job: {runId: "", onChange: replace, resumeFrom: ""}', "job: {clusterName: big, runId: evening}"),
)


def text(more: str = "", *changes: tuple[str, str]) -> str:
    """The base environment with keys added at its end and some texts replaced."""
    whole = base("environment.yaml")
    for old, new in changes:
        assert whole.count(old) == 1, old
        whole = whole.replace(old, new)
    return whole + more


def values(root: Path, environment_text: str, folder: str = "demo", others: Mapping[str, str] | None = None) -> Any:
    """The generated values, from an environment without errors; each must be one that the chart's schema takes."""
    make(root, environment=environment_text)
    for name, other in (others or {}).items():
        (root / "environments" / name).mkdir(exist_ok=True)
        (root / "environments" / name / "environment.yaml").write_text(other, encoding="utf-8")
        (root / "environments" / name / "version.yaml").write_text(base("version.yaml"), encoding="utf-8")
    loaded = Project(root).load(folder)
    assert [f for f in check(loaded) if f.severity is Severity.ERROR] == []
    made = yaml.safe_load(render(loaded)[values_path(folder)])
    found = [error.message for error in jsonschema.Draft7Validator(SCHEMA).iter_errors(made)]
    assert [message for message in found if "is a required property" not in message] == []
    return made


def objects(root: Path, environment_text: str, **more: Any) -> dict[str, Any]:
    """What the chart makes of it, by kind; the ConfigMaps of the code are left out."""
    rendered = helm.render(values(root, environment_text, **more))
    return {item["kind"]: item for item in rendered if item["kind"] != "ConfigMap"}


def test_variables_reach_every_ray_container(tmp_path: Path) -> None:
    more = (
        "env:\n  HF_HUB_OFFLINE: 1\n  DEBUG: true\n"
        "  WANDB_API_KEY: {secretKeyRef: {name: wandb, key: token}}\n"
        "  HOST_IP: {fieldRef: {fieldPath: status.hostIP}}\n"
        "envFrom: [{secretRef: {name: tokens}}, {configMapRef: {name: settings, optional: true}, prefix: S_}]\n"
        "imagePullSecrets: [{name: registry}]\n"
    )
    job = objects(tmp_path, text(more))["RayJob"]
    for pod in project(job):
        seen = environment(pod)
        assert (seen["HF_HUB_OFFLINE"], seen["DEBUG"]) == ("1", "true")
        assert seen["WANDB_API_KEY"] == {"secretKeyRef": {"name": "wandb", "key": "token"}}
        assert seen["HOST_IP"] == {"fieldRef": {"fieldPath": "status.hostIP"}}
        assert container(pod)["envFrom"] == [
            {"secretRef": {"name": "tokens"}},
            {"configMapRef": {"name": "settings", "optional": True}, "prefix": "S_"},
        ]
        assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]


def test_model_and_data_reach_the_contract(tmp_path: Path) -> None:
    more = (
        f"  model: {{uri: owner/model, revision: {COMMIT}, secretRef: {{name: hugging-face}}}}\n"
        "  data: {uri: s3://bucket/corpus}\n"
    )
    job = objects(tmp_path, text("", ("mode: job\n", more + "mode: job\n")))["RayJob"]
    for pod in project(job):
        seen = environment(pod)
        assert (seen["RTD_MODEL"], seen["RTD_MODEL_REVISION"]) == ("owner/model", COMMIT)
        assert seen["HF_TOKEN"] == {"secretKeyRef": {"name": "hugging-face", "key": "token"}}
        assert seen["RTD_DATA"] == "s3://bucket/corpus" and "RTD_DATA_REVISION" not in seen


def test_code_of_ones_own_is_what_runs(tmp_path: Path) -> None:
    """Its arguments are its own business: nothing is said about those that the bundled training does not know."""
    code = (
        "  args: {epochs: 3}\n  code:\n    module: own\n    files:\n      own.py: |\n"
        "        import os\n        print('on: \"no\"', os.environ)\n"
    )
    whole = text("", ("  args: {steps: 200, sequence_length: 2048}\n", code))
    made = values(tmp_path, whole)
    assert made["training"]["code"]["files"]["own.py"] == "import os\nprint('on: \"no\"', os.environ)\n"
    rendered = helm.render(made)
    (job,) = [item for item in rendered if item["kind"] == "RayJob"]
    assert job["spec"]["entrypoint"] == "python -m own --preset=qwen2.5-1.5b --epochs=3"
    assert any("own.py" in item["data"] for item in rendered if item["kind"] == "ConfigMap")


def test_a_file_system_and_its_folder(tmp_path: Path) -> None:
    whole = text("", ("{kind: s3, uri: s3://bucket/ray-train}", "{kind: efs, claimName: files, subPath: team/a}"))
    job = objects(tmp_path, whole)["RayJob"]
    for pod in project(job):
        assert {"name": "storage", "persistentVolumeClaim": {"claimName": "files"}} in pod["spec"]["volumes"]
        (mount,) = [m for m in container(pod)["volumeMounts"] if m["name"] == "storage"]
        assert mount["subPath"] == "team/a"
        assert environment(pod)["RTD_STORAGE_KIND"] == "efs"


def test_limits_of_the_job(tmp_path: Path) -> None:
    limits = (
        "job: {backoffLimit: 0, activeDeadlineSeconds: 7200, preRunningDeadlineSeconds: 600, "
        "ttlSecondsAfterFinished: 30, runId: again}"
    )
    whole = text("", ('job: {runId: "", onChange: replace, resumeFrom: ""}', limits))
    spec = objects(tmp_path, whole)["RayJob"]["spec"]
    assert (spec["backoffLimit"], spec["activeDeadlineSeconds"], spec["preRunningDeadlineSeconds"]) == (0, 7200, 600)
    assert spec["ttlSecondsAfterFinished"] == 30


def test_queue_labels_and_what_stands_around_the_pods(tmp_path: Path) -> None:
    more = (
        "scheduler: {kind: kueue, queue: gpus, priorityClass: low}\n"
        "commonLabels: {cost-centre: research}\ncommonAnnotations: {example.com/owner: me}\n"
        "serviceAccount: {annotations: {eks.amazonaws.com/role-arn: 'arn:aws:iam::111122223333:role/train'}}\n"
        "networkPolicy: {limitEgress: true, operatorNamespace: kuberay}\n"
        "monitoring: {podMonitor: {enabled: true, labels: {release: prometheus}}, grafanaDashboard: {enabled: true}}\n"
    )
    made = objects(tmp_path, text(more))
    labels = made["RayJob"]["metadata"]["labels"]
    assert (labels["kueue.x-k8s.io/queue-name"], labels["cost-centre"]) == ("gpus", "research")
    assert labels["kueue.x-k8s.io/priority-class"] == "low"
    assert all(item["metadata"]["annotations"]["example.com/owner"] == "me" for item in made.values())
    assert made["ServiceAccount"]["metadata"]["annotations"]["eks.amazonaws.com/role-arn"].endswith("role/train")
    assert "Egress" in made["NetworkPolicy"]["spec"]["policyTypes"]
    assert made["PodMonitor"]["metadata"]["labels"]["release"] == "prometheus"


def test_further_values_of_the_chart(tmp_path: Path) -> None:
    more = """\
values:
  podSecurity: privileged
  common: {terminationGracePeriodSeconds: 300, priorityClassName: high}
  head: {resources: {ephemeral-storage: 10Gi}, nodeSelector: {team/a: "yes"}}
  workerGroups:
    gpu:
      tolerations: [{operator: Exists}]
      env: {ONLY_HERE: "1"}
  job: {submissionMode: K8sJobMode, metadata: {team: a}, extraSpec: {entrypointNumCpus: 1}}
"""
    job = objects(tmp_path, text("env: {EVERYWHERE: a}\n" + more))["RayJob"]
    head, worker = project(job)
    assert container(head)["resources"]["limits"] == {"cpu": "2", "memory": "8Gi", "ephemeral-storage": "10Gi"}
    assert head["spec"]["nodeSelector"] == {"ray-train-dlc/node-group": "system", "team/a": "yes"}
    assert worker["spec"]["tolerations"] == [{"operator": "Exists"}]
    assert worker["spec"]["priorityClassName"] == "high"
    assert worker["spec"]["terminationGracePeriodSeconds"] == 300
    assert environment(worker)["ONLY_HERE"] == "1" and environment(worker)["EVERYWHERE"] == "a"
    assert "ONLY_HERE" not in environment(head)
    assert container(worker)["resources"]["limits"]["nvidia.com/gpu"] == "4"
    assert job["spec"]["submissionMode"] == "K8sJobMode" and job["spec"]["metadata"] == {"team": "a"}
    assert job["spec"]["entrypointNumCpus"] == 1


def on_host(root: Path, job: str, host: str) -> Any:
    return values(root, base("environment.yaml"), "evening", {"big": host, "evening": job})


def test_a_job_on_the_cluster_of_another_environment(tmp_path: Path) -> None:
    host = sharing("big", HOST)
    job = sharing("evening", *ON_HOST)
    made = on_host(tmp_path, job, host)
    rendered = {item["kind"]: item for item in helm.render(made, name="evening")}
    spec = rendered["RayJob"]["spec"]
    assert spec["clusterSelector"] == {"ray.io/cluster": "big"}
    assert "rayClusterSpec" not in spec
    loaded = Project(tmp_path).load("big")
    (cluster,) = [
        item
        for item in helm.render(yaml.safe_load(render(loaded)[values_path("big")]), name="big")
        if item["kind"] == "RayCluster"
    ]
    assert cluster["metadata"]["name"] == "big"
    assert [name for name, _ in templates(cluster)] == ["head", "gpu"] and cluster_spec(cluster)
    # Neither nodes nor access to the bucket are made a second time, whichever of them is rendered.
    for folder in ("evening", "big"):
        config = yaml.safe_load(render(Project(tmp_path).load(folder))["eksctl/demo.yaml"])
        assert [g["name"] for g in config["managedNodeGroups"]] == ["system", "big-gpu", "demo-gpu"]
        accounts = [a["serviceAccountName"] for a in config["iam"]["podIdentityAssociations"]]
        assert accounts == ["big", "demo"]
    job_alone = Project(tmp_path).load("evening")
    assert job_alone.environment.model is not None and job_alone.cluster is not None
    planned = plan(resolve(job_alone.environment.model, job_alone.cluster.model))
    assert planned.cost.usd_per_hour == 0 and "environment big" in as_text(planned)
