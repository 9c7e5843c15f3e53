"""What rules say of the keys that are the chart's own: variables, credentials, values, jobs on a cluster."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from generator.catalog.variables import variables
from generator.diagnostics import Severity
from generator.diagnostics.output import FORMATS, format_findings
from generator.project import Project
from generator.rules import check
from tests import helm
from tests.project import base, edited, make, sharing
from tests.unit.test_chart_keys import HOST, ON_HOST, ROOT, text


def said(root: Path, whole: str, folder: str = "demo") -> list[str]:
    """`code pointer` of what is said about it, but for the image's digest."""
    make(root, environment=whole)
    return sorted(f"{f.code} {f.pointer}" for f in check(Project(root).load(folder)) if f.code != "RTD403")


@pytest.mark.parametrize(
    ("name", "value"),
    [("NCCL_DEBUG", "INFO"), ("RTD_NODES", "3"), ("RAY_AUTH_MODE", "token"), ("PYTHONPATH", "/x"), ("NCCL_NET", "ofi")],
)
def test_what_the_chart_refuses_is_refused_at_its_place(tmp_path: Path, name: str, value: str) -> None:
    (found,) = said(tmp_path, text(f"env: {{{name}: {value}}}\n"))
    assert found in (f"RTD340 /env/{name}", f"RTD341 /env/{name}")
    with pytest.raises(helm.HelmError):
        helm.render({"common": {"env": {name: value}}})


def test_every_variable_that_the_chart_owns_is_in_the_table() -> None:
    template = (ROOT / "charts/ray-train-dlc/templates/_check_env.tpl").read_text(encoding="utf-8")
    owner = template.partition('define "ray-train-dlc.check.envOwner"')[2]
    names = set(re.findall(r'"([A-Za-z_]+_[A-Za-z0-9_]+|PYTHONPATH)"', owner))
    names |= {f"{prefix}X" for prefix in re.findall(r'"\^([A-Z_]+)"', owner)}
    assert len(names) > 20
    refused = [row for row in variables() if row.where == "always"]
    assert {name for name in names if not any(row.applies(name, "x") for row in refused)} == set()


def test_the_table_of_variables_is_complete() -> None:
    with (ROOT / "generator/catalog/variables.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            assert None not in row and all(row[key] for key in ("variable", "kind", "where", "effect", "instead"))
            assert row["source"], row["variable"]
            re.compile(row["allowed"])


@pytest.mark.parametrize(
    ("more", "instance", "code"),
    [
        ("FI_EFA_USE_DEVICE_RDMA: 1", "g5.12xlarge", "RTD342"),
        ("FI_EFA_USE_DEVICE_RDMA: 1", "g6.12xlarge", ""),
        ("FI_EFA_USE_DEVICE_RDMA: 0", "g6.12xlarge", "RTD342"),
        ("NCCL_DEBUG_SUBSYS: GRAPH", "g6.12xlarge", "RTD341"),
        ("NCCL_DEBUG_SUBSYS: 'NET,INIT'", "g6.12xlarge", ""),
        ("NCCL_DEBUG_SUBSYS: '^INIT'", "g6.12xlarge", "RTD341"),
        ("NCCL_NET_GDR_LEVEL: LOC", "g6.12xlarge", ""),
        ("NCCL_NET_GDR_LEVEL: LOC", "p5.48xlarge", "RTD341"),
        ("NCCL_P2P_DISABLE: '1'", "g6.12xlarge", "RTD342"),
        ("NCCL_P2P_DISABLE: '0'", "g6.12xlarge", ""),
    ],
)
def test_variables_of_the_network_by_instance_type(tmp_path: Path, more: str, instance: str, code: str) -> None:
    changes = (("g6.12xlarge", instance), ("    gpusPerNode: 4\n", ""), (", quota: {gAndVtVcpu: 96}", ""))
    found = said(tmp_path, text(f"env: {{{more}}}\n", *changes))
    assert {line.split()[0] for line in found if "/env" in line} == ({code} if code else set())


@pytest.mark.parametrize(
    "more",
    [
        "env: {HF_TOKEN: plain-text}",
        "env: {ANYTHING: hf_abcdefghijklmnopqrstuvwxyz}",
        "env: {AWS_ACCESS_KEY_ID: AKIAIOSFODNN7EXAMPLE}",
        "env: {DATABASE: 'postgres://me:word@host/db'}",
        "values: {cluster: {gcsFaultToleranceOptions: {redisAddress: 'a:1', redisPassword: {value: open}}}}",
        "values: {common: {sidecarContainers: [{name: a, image: b, env: [{name: API_KEY, value: open}]}]}}",
        "values: {job: {runtimeEnv: {env_vars: {WANDB_API_KEY: open}}}}",
        "commonAnnotations: {note: '-----BEGIN RSA PRIVATE KEY-----'}",
    ],
)
def test_credentials_in_the_file(tmp_path: Path, more: str) -> None:
    make(tmp_path, environment=text(more + "\n"))
    found = [f for f in check(Project(tmp_path).load("demo")) if f.code == "RTD642"]
    assert len(found) == 1
    assert "open" not in found[0].message and "plain-text" not in found[0].message


@pytest.mark.parametrize(
    "more",
    [
        "env: {TOKENIZERS_PARALLELISM: 'false', MAX_TOKENS: 'many', TOKEN_FILE: /run/secrets/token, PAD_TOKEN: pad}",
        "env: {HF_TOKEN: {secretKeyRef: {name: hugging-face, key: token}}}",
        "values: {auth: {mode: token, secretName: mine}}",
        "values: {common: {automountServiceAccountToken: true}}",
    ],
)
def test_what_only_sounds_like_a_credential(tmp_path: Path, more: str) -> None:
    assert said(tmp_path, text(more + "\n")) == []


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("commonLabels: {ray.io/cluster: a}", ["RTD144 /commonLabels/ray.io~1cluster"]),
        ("commonLabels: {example.com/cluster: a}", []),
        ("serviceAccount: {annotations: {meta.helm.sh/x: a}}", ["RTD144 /serviceAccount/annotations/meta.helm.sh~1x"]),
        ("commonAnnotations: {helm.sh/resource-policy: keep}", []),
        ("imagePullSecrets: [{name: a}, {name: b}, {name: a}]", ["RTD144 /imagePullSecrets/2"]),
        ("env: {A: {fieldRef: {fieldPath: nonsense}}}", ["RTD104 /env/A/fieldRef/fieldPath"]),
    ],
)
def test_what_stands_around_the_pods(tmp_path: Path, more: str, expected: list[str]) -> None:
    assert said(tmp_path, text(more + "\n")) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("comon: {}", ["RTD140 /values/comon"]),
        ("common: {dnsPolicy: Some}", ["RTD140 /values/common/dnsPolicy"]),
        ("common: {terminationGracePeriodSeconds: 5}", ["RTD140 /values/common/terminationGracePeriodSeconds"]),
        ("common: {volumes: [{nam: a}]}", ["RTD140 /values/common/volumes/0/nam", "RTD140 /values/common/volumes/0"]),
        ("workerGroups: {cpu: {env: {A: b}}}", ["RTD140 /values/workerGroups/cpu"]),
        ("workerGroups: {gpu: {replicas: 3}}", ["RTD141 /values/workerGroups/gpu/replicas"]),
        ("workerGroups: {gpu: null}", ["RTD141 /values/workerGroups/gpu"]),
        ("head: null", ["RTD141 /values/head"]),
        ("head: {resources: {memory: 1Gi}}", ["RTD141 /values/head/resources/memory"]),
        ("image: {tag: mine}", ["RTD141 /values/image"]),
        ("training: {args: {steps: 3}}", ["RTD141 /values/training"]),
        ("common: {env: {A: b}}", ["RTD141 /values/common/env"]),
        ("head: {env: {RTD_NODES: '3'}}", ["RTD340 /values/head/env/RTD_NODES"]),
        ("job: {name: pinned}", []),
        ("job: {extraSpec: {backoffLimit: 3}}", ["RTD141 /values/job/extraSpec/backoffLimit"]),
    ],
)
def test_values_go_through_the_charts_schema_and_around_nothing(
    tmp_path: Path, written: str, expected: list[str]
) -> None:
    assert said(tmp_path, text(f"values: {{{written}}}\n")) == sorted(expected)


@pytest.mark.parametrize(
    ("module", "args", "expected"),
    [
        ("training.probe", "{largest: 256MiB, iterations: 5, device: cuda}", []),
        ("training.probe", "{largest: huge}", ["RTD109 /training/args/largest"]),
        ("training.probe", "{steps: 200}", ["RTD109 /training/args/steps"]),
        ("training.probe", "{device: tpu}", ["RTD109 /training/args/device"]),
        ("own", "{anything: 1}", []),
        ("own", "{run_path: /x, help: true}", ["RTD109 /training/args/help", "RTD109 /training/args/run_path"]),
        ("training.train", "{anything: 1}", ["RTD109 /training/args/anything"]),
    ],
)
def test_arguments_are_those_of_the_module_that_runs(
    tmp_path: Path, module: str, args: str, expected: list[str]
) -> None:
    changes = (("{steps: 200, sequence_length: 2048}", f"{args}\n  code: {{module: {module}}}"),)
    assert said(tmp_path, text("", *changes)) == expected


@pytest.mark.parametrize(
    ("host", "job", "expected"),
    [
        ((), (), []),
        ((("nodes: 2", "nodes: 3"),), (), ["RTD547 /workers/gpu/nodes"]),
        ((("  gpu:\n", "  big:\n"),), (), ["RTD547 /workers", "RTD547 /workers/gpu"]),
        ((("g6.12xlarge", "g6.24xlarge"),), (), ["RTD547 /workers/gpu/instanceType"]),
        ((), (("s3://bucket/ray-train", "s3://bucket/ray-train/evening"),), []),
        ((), (("s3://bucket/ray-train", "s3://bucket/other"),), ["RTD548 /training/storage"]),
        ((), (("mode: jobOnCluster\n", "mode: jobOnCluster\nenv: {A: b}\n"),), ["RTD548 /env"]),
        ((("namespace: ray-train", "namespace: other"),), (), ["RTD545 /job/clusterName"]),
        ((("mode: cluster", "mode: job"),), (), ["RTD545 /job/clusterName"]),
        ((), (("clusterName: big", "clusterName: bigg"),), ["RTD545 /job/clusterName"]),
    ],
)
def test_a_job_must_fit_the_cluster_that_it_names(
    tmp_path: Path, host: tuple[tuple[str, str], ...], job: tuple[tuple[str, str], ...], expected: list[str]
) -> None:
    make(tmp_path)
    for name, base_changes, changes in (("big", (HOST,), host), ("evening", ON_HOST, job)):
        (tmp_path / "environments" / name).mkdir()
        whole = sharing(name, *base_changes)
        for old, new in changes:
            assert whole.count(old) == 1, old
            whole = whole.replace(old, new)
        (tmp_path / "environments" / name / "environment.yaml").write_text(whole, encoding="utf-8")
        (tmp_path / "environments" / name / "version.yaml").write_text(base("version.yaml"), encoding="utf-8")
    found = check(Project(tmp_path).load("evening"))
    ours = [f"{f.code} {f.pointer}" for f in found if f.code.startswith("RTD54")]
    assert sorted(ours) == expected


def test_a_credential_does_not_get_into_the_output(tmp_path: Path) -> None:
    whole = edited("environment.yaml", "mode: job\n", "mode: job\nenv: {A: b, HF_TOKEN: hf_0123456789abcdefghijkl}\n")
    make(tmp_path, environment=whole)
    loaded = Project(tmp_path).load("demo")
    for output in FORMATS:
        shown = format_findings(check(loaded), dict(loaded.texts()), output)
        assert "RTD642" in shown and "hf_0123" not in shown


def test_values_without_the_chart_beside_the_tool_are_not_called_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("generator.rules.values.SCHEMA", tmp_path / "values.schema.json")
    make(tmp_path, environment=text("values: {comon: {}}\n"))
    (found,) = [f for f in check(Project(tmp_path).load("demo")) if f.code == "RTD140"]
    assert found.severity is Severity.WARNING and "cannot be checked" in found.message
