"""Image (4xx)."""

from __future__ import annotations

from generator.diagnostics.codes.code import Code, E, W

CODES = {
    "RTD401": Code(
        "the image repository or tag is malformed",
        E,
        why="no node could pull the image",
        fix="write registry and path in lower case without https://, and the tag and the digest under their own keys",
    ),
    "RTD402": Code(
        "the image digest is malformed",
        E,
        why="a digest is `sha256:` and 64 hex digits; no node could pull the image by another text",
        fix="copy the whole digest, for example from `docker buildx imagetools inspect REPOSITORY:TAG`",
    ),
    "RTD403": Code(
        "the image is not pinned by its digest",
        W,
        why="a tag names what its registry says today, a digest always the same image; an error under "
        "`policy.requireDigest`",
        fix="look the digest up with `docker buildx imagetools inspect REPOSITORY:TAG`, and set `image.digest`",
    ),
    "RTD404": Code(
        "the image tag moves",
        W,
        why="two nodes may run two builds; `latest` is an error",
        fix="take the tag of one release, or pin the digest",
    ),
    "RTD405": Code(
        "rayVersion is not the Ray version of the image",
        E,
        why="KubeRay chooses probes by it and refuses token authentication below 2.52.0, which the chart always "
        "turns on",
        fix="set `rayVersion` to the image's Ray, which the finding names, or take another image",
    ),
    "RTD408": Code(
        "the image is in another region than the cluster",
        W,
        why="every node pulls about 20 GB across regions",
        fix="copy the image to a repository in the cluster's region, and name that one",
    ),
    "RTD430": Code(
        "the image tag has moved since it was pinned",
        E,
        why="the registry's tag names another image than the digest; only `pin` asks the registry",
        fix="take the new image with `python -m generator pin ENV --update`, or leave the digest as it is",
    ),
}
