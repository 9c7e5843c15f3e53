"""docs/own-code.md: the chart takes its values, and its commands make what the pods read."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.cases import pods, with_key
from tests.docs.blocks import blocks, commands, documents, options
from tests.helm import KUBE_VERSION, ROOT, HelmError, Object, one, render, run
from tests.project_pods import environment, project

PAGE = "own-code.md"
EXAMPLE = ROOT / "docs/examples/own_training.py"
ENTRYPOINT = "python -m own_training --preset=tiny"


def values(number: int, name: str = "own-values.yaml") -> dict[str, Any]:
    """A values file of the page."""
    (found,) = documents(PAGE, name)[number]
    return dict(found)


def created(command: str, tmp_path: Path) -> Object:
    """What a `kubectl create` of the page would make, with a token `t0ken` where it asks for one."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    script = f"token=t0ken; name=own-code-1; {command} --dry-run=client --output=json"
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path), "KUBECONFIG": "/dev/null"}
    done = subprocess.run(
        ["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60, env=env, check=False
    )
    assert done.returncode == 0, done.stderr
    made: Object = json.loads(done.stdout)
    assert made["metadata"]["namespace"] == "ray-train"
    return made


def secrets_read(given: dict[str, Any]) -> set[tuple[str, str]]:
    """(Secret, key) of all variables that containers and init containers of the pods take from Secrets."""
    return {
        (source["name"], source["key"])
        for pod in pods(given)
        for part in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", []))
        for variable in part["env"]
        if (source := variable.get("valueFrom", {}).get("secretKeyRef"))
    }


def test_the_example_comes_with_the_values(tmp_path: Path) -> None:
    (command,) = commands(PAGE, "helm", "--set-file")
    (given,) = options(command, "set-file")
    file = tmp_path / "own-values.yaml"
    file.write_text(yaml.safe_dump(values(0)), encoding="utf-8")
    key, _, path = given.partition("=")
    assert ROOT / path == EXAMPLE
    text = run(
        *("template", "own", str(ROOT / "charts/ray-train-dlc"), "--namespace=ray-train", f"--values={file}"),
        *(f"--kube-version={KUBE_VERSION}", "--skip-tests", f"--set-file={key}={EXAMPLE}"),
    )
    objects = [item for item in yaml.safe_load_all(text) if item]
    (code,) = [item["data"] for item in objects if item["kind"] == "ConfigMap" and "own_training.py" in item["data"]]
    assert code == {"own_training.py": EXAMPLE.read_text(encoding="utf-8")}
    (job,) = [item for item in objects if item["kind"] == "RayJob"]
    assert job["spec"]["entrypoint"] == f"{ENTRYPOINT} --checkpoint-every=20 --steps=200"


def test_a_config_map_holds_the_example(tmp_path: Path) -> None:
    (command,) = commands(PAGE, "kubectl create configmap")
    assert created(command, tmp_path)["data"] == {"own_training.py": EXAMPLE.read_text(encoding="utf-8")}
    (naming,) = commands(PAGE, "sha256sum")
    (name,) = subprocess.run(
        ["bash", "-c", f"{naming}; echo $name"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    ).stdout.split()
    assert name == f"own-code-{hashlib.sha256(EXAMPLE.read_bytes()).hexdigest()[:8]}"
    rendered = one("RayJob", values(0), set_=[f"training.code.configMapName={name}"])
    for pod in project(rendered):
        assert {"name": "code", "configMap": {"name": name}} in pod["spec"]["volumes"]


def test_the_secret_for_git_has_the_keys_that_the_init_container_reads(tmp_path: Path) -> None:
    (command,) = commands(PAGE, "kubectl create secret", "own-code-git")
    secret = created(command, tmp_path)
    assert secret["data"] == {"username": "eC1hY2Nlc3MtdG9rZW4=", "password": "dDBrZW4="}
    assert secrets_read(values(1)) == {(secret["metadata"]["name"], key) for key in secret["data"]}
    for pod in pods(values(1)):
        (clone,) = pod["spec"]["initContainers"]
        assert clone["image"] == values(1)["training"]["code"]["git"]["image"]


def test_the_token_of_the_hub_reaches_the_module(tmp_path: Path) -> None:
    (command,) = commands(PAGE, "kubectl create secret", "hugging-face")
    secret = created(command, tmp_path)
    assert secret["data"] == {"token": "dDBrZW4="}
    given = values(0, "hub-values.yaml")
    assert secrets_read(given) == {("hugging-face", "token")}
    (python,) = blocks(PAGE, "python")
    for pod in pods(given):
        env = environment(pod)
        assert {"HF_TOKEN", "HF_HOME"} <= set(env)
        for name in ("RTD_MODEL", "RTD_MODEL_REVISION", "RTD_DATA", "RTD_DATA_REVISION", "RTD_DATA_TOKEN"):
            assert f'os.environ["{name}"]' in python
            assert env[name]


def test_a_job_on_a_cluster_runs_the_module_that_the_cluster_holds() -> None:
    (cluster,) = render(values(0, "cluster-values.yaml"), name="big", show_only="templates/raycluster.yaml")
    for pod in project(cluster):
        assert [part["name"] for part in pod["spec"]["initContainers"]] == ["code"]
    (job,) = render(values(0, "job-values.yaml"), name="first")
    assert job["spec"]["clusterSelector"] == {"ray.io/cluster": cluster["metadata"]["name"]}
    assert job["spec"]["entrypoint"] == f"{ENTRYPOINT} --checkpoint-every=20 --steps=200"
    code = values(0, "cluster-values.yaml")["training"]["code"]
    with pytest.raises(HelmError, match=r"keep training\.code\.module here"):
        render(with_key(values(0, "job-values.yaml"), "training.code", code), name="first")
