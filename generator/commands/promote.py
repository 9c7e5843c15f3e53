"""`promote`: what one environment runs, for the next one."""

from __future__ import annotations

import argparse
import difflib
import sys
from typing import Any

from generator import exits
from generator.commands.common import Subparsers, emit, root
from generator.commands.edits import finish, start, usable, version_file
from generator.exits import Stop
from generator.model.version import Image
from generator.project import Loaded, Project


def add(sub: Subparsers) -> None:
    """The command line of this command."""
    parser = sub.add_parser(
        "promote",
        parents=[root()],
        help="give one environment the image of another",
        description="Copy the image and rayVersion of FROM's version.yaml to TO's; comments of TO's file stay. Shows "
        "what changes in the rendered files; `render` writes them.",
    )
    parser.add_argument("source", metavar="FROM", help="environment whose image has been tried")
    parser.add_argument("target", metavar="TO", help="environment that gets it")
    parser.add_argument("--dry-run", action="store_true", help="show the difference, write nothing")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Copy a version from one environment to another."""
    from generator.edit import EditError

    files = start(args.root, dry_run=args.dry_run)
    project = Project(args.root)
    (source,), (target,) = project.select([args.source]), project.select([args.target])
    if source == target:
        raise Stop(exits.USAGE, f"{args.source} and {args.target} are the same environment")
    given, taking = project.load(source), project.load(target)
    usable([given], f"{source} is not promoted")
    assert given.version.model is not None  # noqa: S101  (usable() checked)
    environment = taking.environment.model
    if environment is not None and environment.policy.require_digest and not given.version.model.image.digest:
        raise Stop(
            exits.FINDINGS,
            f"{target} takes images with a digest only (policy.requireDigest), and {source} has none: run "
            f"`python -m generator pin {source}` first; nothing was changed",
        )
    try:
        _copy(files, given, taking)
    except EditError as error:
        raise Stop(exits.FINDINGS, f"{error}; nothing was changed") from error
    if files.planned():
        after = files.project().load(target)
        usable([after], "nothing was changed")
        _show_effect(taking, after)
    return finish(files, [target], dry_run=args.dry_run)


def _copy(files: Any, given: Loaded, taking: Loaded) -> None:
    """The values, into the file that is there with its own comments; where that one is not readable, all of it."""
    from generator.edit import Put, Remove

    file, data = version_file(taking.folder), given.version.source.data
    if isinstance(taking.version.source.data, dict) and not taking.version.source.findings:
        gone = [key for key in taking.version.source.data if key not in data]
        files.edit(file, [*(Put((key,), value) for key, value in data.items()), *(Remove((key,)) for key in gone)])
    else:
        files.replace(file, files.text(version_file(given.folder)))


def _show_effect(before: Loaded, after: Loaded) -> None:
    """The difference in the rendered files, and whether a training starts anew."""
    emit(_rendered_difference(before, after))
    environment, new = after.environment.model, after.version.model
    assert environment is not None and new is not None  # noqa: S101  (usable() checked)
    old = before.version.model
    if old is not None and _pulled(old.image) == _pulled(new.image) and old.ray_version == new.ray_version:
        print("the image stays the same", file=sys.stderr)
    elif environment.mode == "job":
        print("the image changes: a new training starts when this is deployed", file=sys.stderr)
    else:
        print("the image changes: the RayCluster's pods are replaced when this is deployed", file=sys.stderr)


def _rendered_difference(before: Loaded, after: Loaded) -> str:
    from generator.commands.common import all_findings, has_errors
    from generator.render import render

    old = {} if has_errors(all_findings([before])) else render(before)
    new = render(after)
    return "".join(
        "".join(
            difflib.unified_diff(
                old.get(path, "").splitlines(keepends=True),
                new.get(path, "").splitlines(keepends=True),
                f"a/{path}",
                f"b/{path}",
            )
        )
        for path in sorted(old | new)
    )


def _pulled(image: Image) -> tuple[str, str]:
    """What decides which image is pulled: with a digest, the tag is only a comment."""
    return image.repository, image.digest or image.tag
