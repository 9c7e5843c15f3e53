"""Storage and security (6xx)."""

from __future__ import annotations

from generator.diagnostics.codes.code import ALWAYS, Code, E

CODES = {
    "RTD601": Code(
        "several nodes need shared storage",
        E,
        why="each rank writes its part of a checkpoint; on the nodes' own disks no one could put the parts together",
        fix="set `training.storage` to s3, fsx or pvc, or train on one node",
    ),
    "RTD602": Code(
        "the storage location is malformed",
        E,
        why="`s3://bucket/prefix`, with a bucket name that AWS allows and a prefix that needs no escaping",
        fix="write `s3://bucket/prefix`: the bucket by AWS' rules, the prefix of letters, digits and `._=-`",
    ),
    "RTD640": Code(
        "the exported model would be lost",
        E,
        why="with storage `none` it is on the disk of the pod, which goes with the job",
        fix="set `training.storage` to s3, fsx or pvc, or remove `export`",
    ),
    "RTD641": Code(
        "nothing to resume from",
        E,
        why="with storage `none` no run has left a checkpoint",
        fix="set the `training.storage` that the run is on, or remove `job.resumeFrom`",
    ),
    "RTD642": Code(
        "a credential in plain text",
        E,
        why="whoever reads the repository has it, also after it is removed; the name or the form of the value says so",
        fix="put it into a Secret of the namespace and name that in `envFrom`; if it was committed, make a new one; "
        "silence it where it is none",
        silenceable=ALWAYS,
    ),
}
