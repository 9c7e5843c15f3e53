"""Image (4xx)."""

from __future__ import annotations

from generator.diagnostics.codes.code import Code, E, W

CODES = {
    "RTD401": Code(
        "the image repository or tag is malformed",
        E,
        why="no node could pull it",
    ),
    "RTD402": Code(
        "the image digest is malformed",
        E,
        why="`sha256:` and 64 hex digits",
    ),
    "RTD403": Code(
        "the image is not pinned by its digest",
        W,
        why="a tag names what its registry says today; an error under `policy.requireDigest`",
    ),
    "RTD404": Code(
        "the image tag moves",
        W,
        why="two nodes may run two builds; `latest` is an error",
    ),
    "RTD405": Code(
        "rayVersion is not the Ray version of the image",
        E,
        why="KubeRay chooses probes by it and refuses token authentication below 2.52.0",
    ),
    "RTD408": Code(
        "the image is in another region than the cluster",
        W,
        why="every node pulls about 20 GB across regions",
    ),
    "RTD430": Code(
        "the image tag has moved since it was pinned",
        E,
        why="the registry's tag names another image than the digest; only `pin` asks the registry",
        fix="take the new image with `python -m generator pin ENV --update`, or leave the digest as it is",
    ),
}
