"""What is said about shapes: the words, the place, and that everything is said in one run."""

from __future__ import annotations

from pathlib import Path

import pytest

from generator.diagnostics import Finding
from generator.diagnostics.finding import lines_of
from generator.model.cluster import Cluster
from generator.model.environment import Environment
from generator.model.shape import Shaped, shape
from generator.project import Project
from generator.rules import check
from generator.source import parse
from tests.project import base, edited, make


def findings(root: Path, **replaced: str) -> list[Finding]:
    return check(Project(make(root, **replaced)).load("demo"))


def said(root: Path, **replaced: str) -> list[tuple[str, str]]:
    """(code, dotted place) of every finding but that about the missing digest."""
    return [(f.code, f.pointer) for f in findings(root, **replaced) if f.code != "RTD403"]


def environment(old: str, new: str) -> Shaped[Environment]:
    return shape(parse(edited("environment.yaml", old, new).encode(), "e.yaml"), Environment)


CASES = [
    # (old text, new text, code, message, marked text, part of the help)
    ("nodes: 2", "nodes: two", "RTD104", "`workers.gpu.nodes` is `two`, but must be a whole number", "two",
     "write a whole number without quotes (Number of nodes)"),
    ("nodes: 2", "nodes: 2.0", "RTD104", "`workers.gpu.nodes` is `2.0`, but must be a whole number", "2.0", "whole"),
    ("nodes: 2", "nodes: true", "RTD104", "`workers.gpu.nodes` is `true`, but must be a whole number", "true", "whole"),
    ("nodes: 2", "nodes: 0", "RTD104", "`workers.gpu.nodes` is `0`, but must be at least 1", "0", "at least 1"),
    ("nodes: 2", "nodes: 1001", "RTD104", "`workers.gpu.nodes` is `1001`, but must be at most 1000", "1001", "at most"),
    ("nodes: 2", "nodes:", "RTD104", "`workers.gpu.nodes` is nothing, but must be a whole number", "nodes", "whole"),
    ("nodes: 2", "nodes: [2]", "RTD104", "`workers.gpu.nodes` is a list, but must be a whole number", "[2]", "whole"),
    ("nodes: 2", "node: 2", "RTD103", "unknown key `node`", "node", "rename it to `nodes`"),
    ("nodes: 2", "zzz: 2", "RTD103", "unknown key `zzz`", "zzz", "remove it; known here: instanceType, nodes, "),
    ("nodes: 2", "gpus_per_node: 2", "RTD103", "unknown key `gpus_per_node`", "gpus_per_node", "`gpusPerNode`"),
    ("efa: required", "efa: on", "RTD104", "`workers.gpu.efa` is `on`, but must be one of required, disabled", "on",
     "choose one of them"),
    ("efa: required", "efa: require", "RTD104",
     "`workers.gpu.efa` is `require`, but must be one of required, disabled", "require", "did you mean required?"),
    ("{kind: onDemand}", "{kind: ondemand}", "RTD104",
     "`workers.gpu.capacity.kind` is `ondemand`, but must be one of onDemand, spot, reservation, capacityBlock",
     "ondemand", "did you mean onDemand?"),
    ("capacity: {kind: onDemand}", "capacity: spot", "RTD104",
     "`workers.gpu.capacity` is `spot`, but must be a map of keys and values", "spot", "write its keys indented"),
    ("memory: 8Gi", "memory: 8GB", "RTD104", "`head.memory` is `8GB`, but must be a size such as 160Gi or 512Mi",
     "8GB", "a whole number followed by Mi, Gi or Ti"),
    ("memory: 8Gi", "memory: 8", "RTD104", "`head.memory` is `8`, but must be text", "8", "put it in quotes"),
    ("us-west-2a", "us-west-2", "RTD104",
     "`workers.gpu.availabilityZone` is `us-west-2`, but must be an availability zone such as us-west-2a",
     "us-west-2", "followed by the zone's letter"),
    ("kind: s3, uri: s3://bucket/ray-train", "kind: S3, uri: s3://b/c", "RTD104",
     "`training.storage.kind` is `S3`, but must be one of none, s3, fsx, efs, pvc", "S3", "did you mean s3?"),
    ("kind: s3, uri: s3://bucket/ray-train", "kind: s3", "RTD105", "`training.storage.uri` is missing", "storage",
     "add `uri:` to `training.storage` (s3://bucket/prefix)"),
    ("kind: s3, uri: s3://bucket/ray-train", "uri: s3://b/c", "RTD105", "`training.storage.kind` is missing",
     "storage", "add `kind:` to `training.storage`"),
    ("{kind: s3, uri: s3://bucket/ray-train}", "[]", "RTD104",
     "`training.storage` is a list, but must be a map of keys and values", "[]", "indented"),
    ("steps: 200", "steps: [200]", "RTD104",
     "`training.args.steps` is a list, but must be a number, text, true or false", "[200]", "one plain value"),
    ("steps: 200", "int: {str: 1}", "RTD104",
     "`training.args.int` is a map, but must be a number, text, true or false", "{str: 1}", "one plain value"),
    ("steps: 200", "x: {int: 1}", "RTD104",
     "`training.args.x` is a map, but must be a number, text, true or false", "{int: 1}", "one plain value"),
    ("mode: job", "mode: rayjob", "RTD104", "`mode` is `rayjob`, but must be one of job, cluster, jobOnCluster",
     "rayjob", "job?"),
    ('runId: ""', 'runId: "a b"', "RTD104",
     "`job.runId` is `a b`, but must be letters, digits, dots, hyphens and underscores", '"a b"', "use only these"),
    ('runId: ""', f"runId: {'x' * 64}", "RTD104",
     f"`job.runId` is `{'x' * 57}…`, but must be at most 63 characters long", "x" * 64, "change its length"),
    ("requireDigest: false", "requireDigest: no", "RTD104",
     "`policy.requireDigest` is `no`, but must be true or false", "no", "write true or false without quotes"),
    ("schemaVersion: 1", "schemaVersion: 2", "RTD131",
     "the file has format 2, but this version knows formats up to 1 only", "2", "use"),
    ("schemaVersion: 1", 'schemaVersion: "1"', "RTD104", '`schemaVersion` is `"1"`, but must be 1', '"1"',
     "write it without quotes"),
    ("nodes: 2", 'nodes: "2"', "RTD104", '`workers.gpu.nodes` is `"2"`, but must be a whole number', '"2"', "quotes"),
    ("requireDigest: false", 'requireDigest: "true"', "RTD104",
     '`policy.requireDigest` is `"true"`, but must be true or false', '"true"', "without quotes"),
    ("mode: job", 'mode: ""', "RTD104", '`mode` is `""`, but must be one of job, cluster, jobOnCluster', '""',
     "choose one"),
    ("  gpu:\n", "  GPU:\n", "RTD501", "`GPU` is not a valid name", "GPU", "use lower-case letters"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "code", "message", "mark", "helps"), CASES, ids=[c[1][:40] for c in CASES])
def test_each_kind_of_error_says_what_where_and_what_to_do(
    old: str, new: str, code: str, message: str, mark: str, helps: str
) -> None:
    shaped = environment(old, new)
    (finding,) = shaped.findings
    assert (finding.code, finding.message) == (code, message)
    assert helps in finding.help
    where = finding.range
    line = lines_of(shaped.source.text)[where.start.line - 1]
    assert line[where.start.column - 1 : where.end.column - 1] == mark


def test_a_worker_group_called_like_a_type_is_not_taken_for_one() -> None:
    shaped = shape(
        parse(b"schemaVersion: 1\nname: d\ncluster: d\nworkers: {int: 5, str: {nodes: x}}\n", "e.yaml"), Environment
    )
    assert [(f.code, f.pointer) for f in shaped.findings] == [
        ("RTD104", "/workers/int"),
        ("RTD105", "/workers/str/instanceType"),
        ("RTD104", "/workers/str/nodes"),
    ]
    assert "must be a map" in shaped.findings[0].message


def test_a_storage_key_called_like_a_kind_does_not_move_the_place() -> None:
    shaped = environment("{kind: s3, uri: s3://bucket/ray-train}", "{kind: s3, s3: {uri: 1}}")
    assert sorted(f.pointer for f in shaped.findings) == ["/training/storage/s3", "/training/storage/uri"]


def test_keys_of_another_kind_of_storage_are_unknown_and_the_own_ones_missing() -> None:
    shaped = environment("kind: s3, uri: s3://bucket/ray-train", "kind: fsx, uri: s3://b/c")
    missing, unknown = shaped.findings
    assert (missing.message, unknown.message) == ("`training.storage.claimName` is missing", "unknown key `uri`")
    assert unknown.help == "remove it; known here: kind, claimName, subPath"


def test_a_misspelt_key_hides_what_its_value_would_have_changed(tmp_path: Path) -> None:
    text = edited("environment.yaml", "head: {cpu: 2, memory: 8Gi}", "head: {cpu: 2, memry: 4Gi}")
    cluster = edited("cluster.yaml", "m7i.xlarge", "m7i.large")
    assert said(tmp_path, environment=text, cluster=cluster) == [("RTD103", "/head/memry")]


def test_items_of_lists_are_named_with_their_index() -> None:
    shaped = shape(parse(edited("cluster.yaml", "us-west-2b", "west").encode(), "c.yaml"), Cluster)
    (finding,) = shaped.findings
    assert finding.message.startswith("`availabilityZones[1]` is `west`")
    assert finding.pointer == "/availabilityZones/1"


@pytest.mark.parametrize("text", ["[]", "just text", "12", "~", "--- \n"])
def test_a_file_that_is_no_map_says_so(text: str) -> None:
    shaped = shape(parse(text.encode(), "e.yaml"), Environment)
    assert [f.message for f in shaped.findings] == ["the file must be a map of keys and values"]


def test_findings_of_all_files_shapes_and_rules_come_together(tmp_path: Path) -> None:
    assert said(
        tmp_path,
        environment=edited("environment.yaml", "efa: required", "efa: on")
        .replace("nodes: 2", "nodes: 4")  # RTD801: 192 vCPU
        .replace("head: {cpu: 2", "head: {cpu: 9")  # RTD205
        .replace("mode: job", "modes: job"),
        cluster=edited("cluster.yaml", '"1.36"', "1.30"),  # a number
        version=base("version.yaml").replace("2.58.0", "2.9"),
    ) == [
        ("RTD104", "/kubernetesVersion"),
        ("RTD801", "/workers/gpu/nodes"),
        ("RTD104", "/workers/gpu/efa"),
        ("RTD205", "/head"),
        ("RTD103", "/modes"),
        ("RTD104", "/rayVersion"),
    ]


@pytest.mark.parametrize("line", ["schemaVersion: 1\n", "name: demo\n", "cluster: demo\n"])
def test_a_missing_key_at_the_top_does_not_silence_the_rules(tmp_path: Path, line: str) -> None:
    text = edited("environment.yaml", line, "").replace("nodes: 2", "nodes: 4")
    key = line.partition(":")[0]
    assert said(tmp_path, environment=text) == [("RTD105", f"/{key}"), ("RTD801", "/workers/gpu/nodes")]


@pytest.mark.parametrize(
    ("line", "broken"),
    [("name: demo\n", "name: Demo 1\n"), ("cluster: demo\n", "cluster: [demo]\n"), ("name: demo\n", "name: !x y\n")],
)
def test_a_malformed_name_does_not_silence_the_rules(tmp_path: Path, line: str, broken: str) -> None:
    text = edited("environment.yaml", line, broken).replace("nodes: 2", "nodes: 4")
    key = line.partition(":")[0]
    assert said(tmp_path, environment=text) == [("RTD104", f"/{key}"), ("RTD801", "/workers/gpu/nodes")]


def test_a_malformed_ray_version_does_not_silence_the_rules_about_the_image(tmp_path: Path) -> None:
    text = base("version.yaml").replace('"2.58.0"', "258").replace("train-ml-cuda-v1.1.0", '"a b"')
    assert said(tmp_path, version=text) == [("RTD401", "/image/tag"), ("RTD104", "/rayVersion")]


def test_a_cluster_file_without_a_name_is_still_checked(tmp_path: Path) -> None:
    text = edited("cluster.yaml", "name: demo\n", "").replace('"1.36"', '"1.20"')
    assert said(tmp_path, cluster=text) == [("RTD105", "/name"), ("RTD502", "/kubernetesVersion")]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # The value of a broken key is unknown: rules about it stay silent.
        ("instanceType: g6.12xlarge", "instanceType: [g6.12xlarge]", [("RTD104", "/workers/gpu/instanceType")]),
        ("efa: required", "efa: [required]", [("RTD104", "/workers/gpu/efa")]),
        ("availabilityZone: us-west-2a", "availabilityZone: 2a", [("RTD104", "/workers/gpu/availabilityZone")]),
        ("gpusPerNode: 4", "gpusPerNode: 4x", [("RTD104", "/workers/gpu/gpusPerNode")]),
        ("storage: {kind: s3, uri: s3://bucket/ray-train}", "storage: s3", [("RTD104", "/training/storage")]),
        ("kind: s3, uri: s3://bucket/ray-train", "kind: s4", [("RTD104", "/training/storage/kind")]),
        ("capacity: {kind: onDemand}", "capacity: {kind: x, id: cr-1}", [("RTD104", "/workers/gpu/capacity/kind"),
                                                                         ("RTD803", "/workers/gpu/capacity/id")]),
        ("    instanceType: g6.12xlarge\n", "", [("RTD105", "/workers/gpu/instanceType")]),
    ],
)  # fmt: skip
def test_what_was_taken_out_causes_no_follow_up(
    tmp_path: Path, old: str, new: str, expected: list[tuple[str, str]]
) -> None:
    assert said(tmp_path, environment=edited("environment.yaml", old, new)) == expected


def test_ten_errors_in_one_file_are_ten_findings(tmp_path: Path) -> None:
    text = (
        base("environment.yaml")
        .replace("nodes: 2", "nodes: x")
        .replace("gpusPerNode: 4", "gpuPerNode: 4")
        .replace("efa: required", "efa: y")
        .replace("kind: onDemand", "kind: z")
        .replace("cpu: 2, memory: 8Gi", "cpu: 0, memory: 8G")
        .replace("mode: job", "mode: k")
        .replace("onChange: replace", "onchange: replace")
        .replace("requireDigest: false", "requireDigest: 0")
        .replace("gAndVtVcpu: 96", "gAndVtVcpu: -1")
    )
    assert len(said(tmp_path, environment=text)) == 10
