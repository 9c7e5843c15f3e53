"""values.schema.json: closed at every level, self-contained, and short in its errors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import yaml

from generator.values.document import rows
from tests.chart.cases import job, pods, with_key
from tests.chart.every_value import POD_FIELDS, RAY_FIELDS
from tests.helm import CHART, CI_VALUES, HelmError, one, render, template
from tests.project_pods import container

SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
# Helm 4, and Helm 3.18 with another library.
UNKNOWN = r"(?i)additional propert(?:ies|y) '?{}'? (?:is )?not allowed"
# Helm's own for subcharts, and what is handed on as Kubernetes, KubeRay or Ray write it.
HANDED_ON = {"extraPodSpec", "extraContainer", "extraObjects", "service", "runtimeEnv"}
HANDED_ON |= {"JobExtraSpec.orNull", "ClusterExtraSpec.orNull", "tlsOptions", "networkPolicy", "historyServerOptions"}
HANDED_ON |= {"global", "k8s.FieldsV1", "k8s.FieldsV1.orNull"}


def subschemas(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema inside a schema, with its JSON pointer."""
    yield path, schema
    for keyword in ("properties", "patternProperties", "definitions"):
        for key, inner in schema.get(keyword, {}).items():
            yield from subschemas(inner, f"{path}/{keyword}/{key}")
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            yield from subschemas(schema[keyword], f"{path}/{keyword}")


def test_is_a_draft_07_schema() -> None:
    assert SCHEMA["$schema"] == "http://json-schema.org/draft-07/schema#"
    jsonschema.Draft7Validator.check_schema(SCHEMA)


def test_needs_no_network() -> None:
    references = [schema["$ref"] for _, schema in subschemas(SCHEMA) if "$ref" in schema]
    assert references
    assert all(reference.startswith("#/definitions/") for reference in references)


def test_every_object_is_closed_or_a_typed_map() -> None:
    for path, schema in subschemas(SCHEMA):
        if "object" not in schema.get("type", "") or path.split("/")[-1] in HANDED_ON or "/items" in path:
            continue
        rest = schema.get("additionalProperties")
        assert rest is False or (isinstance(rest, dict) and rest), f"{path or '/'} takes unknown keys"
        assert rest is not False or schema.get("properties") or schema.get("patternProperties"), (
            f"{path} takes no key at all"
        )


def test_every_scalar_has_a_type() -> None:
    for path, schema in subschemas(SCHEMA):
        assert "type" in schema or "$ref" in schema, path


def test_no_keyword_that_gives_bad_errors() -> None:
    """Unions print one line per member; Helm 4.3 reports `propertyNames` at the place of some other key."""
    assert not re.search(r'"(anyOf|oneOf|allOf|unevaluatedProperties|propertyNames)"', json.dumps(SCHEMA))


@pytest.mark.parametrize("file", CI_VALUES, ids=lambda file: file.name)
def test_python_and_helm_agree_on_the_schema(file: Any) -> None:
    values = yaml.safe_load(file.read_text(encoding="utf-8"))
    validator = jsonschema.Draft7Validator(SCHEMA | {"required": []})
    # Helm merges over values.yaml first, so required keys are for the merged values only.
    assert [error.message for error in validator.iter_errors(values) if error.validator != "required"] == []


@pytest.mark.parametrize(
    "path",
    [
        *("typo", "image.typo", "serviceAccount.typo", "head.typo", "head.resources.typo", "workerGroups.gpu.typo"),
        *(
            "workerGroups.gpu.transport.typo",
            "workerGroups.gpu.resources.typo",
            "training.typo",
            "training.storage.typo",
        ),
        *("job.typo", "networkPolicy.typo"),
    ],
)
def test_an_unknown_key_is_refused_and_named(path: str) -> None:
    with pytest.raises(HelmError, match=UNKNOWN.format("typo")):
        template(with_key(job(), path, "1"))


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "vpc.amazonaws.com/efa"])
def test_gpus_and_efa_are_no_second_number_among_the_resources(resource: str) -> None:
    with pytest.raises(HelmError, match=UNKNOWN.format(re.escape(resource))):
        template(job(resources={"cpu": "46", "memory": "160Gi", resource: "4"}))


# (path, value, words of the message besides the path: those that Helm 3 and 4 share)
WRONG: list[tuple[str, Any, list[str]]] = [
    ("mode", "jobs", ["job", "cluster", "jobOnCluster"]),
    ("rayVersion", 2.58, ["number", "string"]),
    ("workerGroups.gpu.gpus", "4", ["string", "integer"]),
    ("workerGroups.gpu.gpus", -1, ["0"]),
    ("workerGroups.gpu.replicas", 1.5, ["integer"]),
    ("workerGroups.cpu", {}, ["replicas", "gpus", "resources"]),
    ("head.nodeSelector", {"a": True}, ["boolean", "string"]),
    ("head.tolerations", [{"operators": "Exists"}], ["operators", "not allowed"]),
    ("training.args", {"Steps": 1}, ["Steps", "not allowed"]),
    ("training.args", {"betas": [0.9, 0.95]}, ["betas", "array", "number"]),
    ("training.args", {"seed": 2**53}, ["seed"]),
    ("training.args", {"note": "a\0b"}, ["note", "match pattern"]),
    ("common.env", {"A=B": "1"}, ["A=B", "not allowed"]),
    ("common.env", {"A": {"secretKeyRef": {"name": "s"}}}, ["secretKeyRef", "key"]),
    ("common.env", {"A": {"fieldRefs": {}}}, ["fieldRefs", "not allowed"]),
    ("commonLabels", {"a": "not a label"}, ["match pattern"]),
    ("job.backoffLimit", -1, ["0"]),
    ("job.activeDeadlineSeconds", 0, ["1"]),
    ("common.terminationGracePeriodSeconds", 5, ["40"]),
    ("cluster.autoscaling.options", {"foo": 1}, ["foo", "not allowed"]),
    ("cluster.autoscaling.options.version", "v9", ["v1", "v2"]),
    ("cluster.autoscaling.options.upscalingMode", "Fast", ["Aggressive"]),
    ("cluster.autoscaling.options.idleTimeoutSeconds", "300", ["string", "integer"]),
    ("cluster.autoscaling.options.idleTimeoutSeconds", -1, ["0"]),
    ("cluster.autoscaling.options.image", "", ["match pattern"]),
    ("cluster.autoscaling.options.imagePullPolicy", "always", ["IfNotPresent"]),
    ("cluster.autoscaling.options.env", {"A": "1"}, ["object", "array"]),
    ("cluster.autoscaling.options.env", [{"name": "A", "value": 1}], ["env.0.value", "string"]),
    ("cluster.autoscaling.options.resources", {"cpu": "1"}, ["cpu", "not allowed"]),
    ("cluster.autoscaling.options.securityContext", "none", ["string", "object"]),
    ("cluster.gcsFaultToleranceOptions", {"enabled": True}, ["enabled", "not allowed"]),
    ("cluster.gcsFaultToleranceOptions.redisAddress", 6379, ["number", "string"]),
    ("cluster.gcsFaultToleranceOptions.redisPassword", "x", ["string", "object"]),
    ("cluster.gcsFaultToleranceOptions.redisPassword.value", "", ["1"]),
    ("cluster.gcsFaultToleranceOptions.redisPassword.valueFrom.secretKeyRef", {"name": "a"}, ["key"]),
    ("cluster.gcsFaultToleranceOptions.externalStorageNamespace", "", ["match pattern"]),
    ("cluster.extraSpec.tlsOptions", True, ["boolean", "object"]),
    ("job.extraSpec.entrypointNumCpus", "1", ["string", "number"]),
    ("job.extraSpec.entrypointResources", {"a": 1}, ["object", "string"]),
    ("job.extraSpec.jobId", 1, ["number", "string"]),
]


@pytest.mark.parametrize(("path", "value", "words"), WRONG)
def test_a_wrong_value_is_refused_with_its_place(path: str, value: Any, words: list[str]) -> None:
    with pytest.raises(HelmError, match="don't meet the specifications of the schema") as caught:
        template(with_key(job(), path, value))
    said = caught.value.stderr.replace("/", ".")
    for word in [path, *words]:
        assert word in said


PATHS = [row.path for row in rows() if "<name>" not in row.path]


def test_a_key_left_empty_counts_as_not_given() -> None:
    """`env:` with all its lines commented out is null in YAML. Maps above the values too, and all of them at once."""
    above = {path.rpartition(".")[0] for path in PATHS} - {""}
    for path in [*above, *PATHS]:
        assert render(with_key({}, path, None)) == render(), path
    everything: dict[str, Any] = {}
    for path in PATHS:
        everything = with_key(everything, path, None)
    assert render(everything) == render()


def test_a_null_inside_a_group_counts_as_not_given() -> None:
    for row in rows():
        *_, field = row.path.partition("<name>.")
        if field and row.default:
            assert render(with_key(job(), f"workerGroups.gpu.{field}", None)) == render(
                with_key(job(), f"workerGroups.gpu.{field}", yaml.safe_load(row.default))
            ), field
    for field in POD_FIELDS | RAY_FIELDS:
        assert render(with_key(job(), f"workerGroups.gpu.{field.split('.')[0]}", None)) == render(job()), field


def test_what_is_free_inside_kubernetes_own_types_is_left_alone() -> None:
    header = {"name": "X", "value": ""}
    spread = {"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}
    spread["labelSelector"] = {"matchLabels": {"key": "", "readOnly": ""}}
    probe = {"httpGet": {"port": 80, "httpHeaders": [header]}, "initialDelaySeconds": 0}
    values = job("common", {"livenessProbe": probe, "topologySpreadConstraints": [spread]})
    objects = {"apiVersion": "v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": {"required": [], "n": None}}
    for pod in pods(values):
        assert container(pod)["livenessProbe"] == {"httpGet": {"port": 80, "httpHeaders": [header]}}
        assert pod["spec"]["topologySpreadConstraints"] == [spread]
    assert one("Foo", job("extraObjects", [objects])) == objects


def test_the_fields_of_the_holes_are_those_of_kubernetes() -> None:
    for path in ("common.extraPodSpec", "common.extraContainer", "head.service", "head.service.spec"):
        with pytest.raises(HelmError, match=UNKNOWN.format("foo")):
            template(job(path, {"foo": 1}))


def test_nulls_and_zeros_inside_what_is_kubernetes_own_are_left_out() -> None:
    """The operator writes the RayJob back without them: a lasting difference to Git."""
    given = {"name": "a", "image": "b", "env": [{"name": "A", "value": ""}], "tty": False, "args": [], "command": None}
    given["volumeMounts"] = [{"name": "scratch", "mountPath": "/a", "readOnly": False, "subPath": ""}]
    values = job("common", {"sidecarContainers": [given], "tolerations": [{"operator": "Exists", "key": ""}]})
    values["common"]["env"] = {"A": {"secretKeyRef": {"name": "a", "key": "b"}, "fieldRef": None}}
    values["common"]["tolerations"][0]["tolerationSeconds"] = None
    for pod in pods(values):
        assert pod["spec"]["containers"][1] == {
            "name": "a",
            "image": "b",
            "env": [{"name": "A"}],
            "volumeMounts": [{"name": "scratch", "mountPath": "/a"}],
            "resources": {},
        }
        assert pod["spec"]["tolerations"] == [{"operator": "Exists"}]


@pytest.mark.parametrize("path", ["common.tolerations", "head.volumes", "common.sidecarContainers", "extraObjects"])
def test_a_null_in_a_list_is_refused_with_its_place(path: str) -> None:
    with pytest.raises(HelmError, match="don't meet the specifications of the schema") as caught:
        template(with_key(job(), path, [None]))
    said = caught.value.stderr.replace("/", ".")
    assert f"{path}.0" in said
    assert "null" in said
