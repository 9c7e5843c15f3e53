"""`pin`: from the image's tag to its digest, by the image's registry."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from generator import exits
from generator.catalog import LOCAL
from generator.commands.common import Subparsers, emit, root, several
from generator.commands.edits import environment_file, finish, start, version_file
from generator.diagnostics.finding import Finding
from generator.diagnostics.output import format_findings, summary
from generator.edit.files import Files
from generator.exits import Stop
from generator.model.version import Image
from generator.project import Loaded, Project, sources

if TYPE_CHECKING:  # urllib is loaded when a registry is asked
    from generator.registry import Found


def add(sub: Subparsers) -> None:
    """The command line of this command."""
    parser = sub.add_parser(
        "pin",
        parents=[root(), several()],
        help="set the image's digest by its tag; asks the image's registry",
        description="Ask the image's registry for the digest of its linux/amd64 image; set image.digest in "
        "version.yaml and policy.requireDigest in environment.yaml. Credentials are those that "
        "`docker login` keeps in its configuration file; public images need none.",
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a tag has moved since")
    parser.add_argument("--update", action="store_true", help="where a tag has moved, take what it names now")
    parser.add_argument("--dry-run", action="store_true", help="show the difference, write nothing")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Pin the images of environments, or compare pins with what their tags name now."""
    files = start(args.root, dry_run=args.dry_run or args.check)
    project = Project(args.root)
    folders = project.select(args.env)
    loaded = [project.load(folder) for folder in folders]
    if not args.env:  # nothing is pulled where all nodes are this machine
        loaded = [one for one in loaded if not _here_only(one)]
    found: dict[tuple[str, str], Found] = {}
    for one in loaded:
        image = _image(one)
        key = (image.repository, image.tag)
        if key not in found:
            found[key] = _ask(*key)
    moved = [finding for one in loaded if (finding := _moved(one, found)) is not None]
    if moved and not args.update:
        emit(format_findings(moved, sources(loaded), "text"))
        raise Stop(exits.FINDINGS, f"{summary(moved)}; nothing was changed")
    if args.check:
        return _checked(loaded)
    return _write(args, files, loaded, found)


def _write(args: argparse.Namespace, files: Files, loaded: list[Loaded], found: dict[tuple[str, str], Found]) -> int:
    from generator.edit import EditError, Put

    for one in loaded:
        image = _image(one)
        what = found[image.repository, image.tag]
        kept = image.digest in (what.digest, what.index)
        index = f" (of the index {what.index})" if what.index else ""
        old = f"; it was {image.digest}" if image.digest and not kept else ""
        print(f"{one.folder}: {image.repository}:{image.tag} is {what.digest}{index}{old}", file=sys.stderr)
        try:
            if not kept:
                files.edit(version_file(one.folder), [Put(("image", "digest"), what.digest)])
            files.edit(environment_file(one.folder), [Put(("policy", "requireDigest"), True)])
        except EditError as error:
            raise Stop(exits.FINDINGS, f"{error}; nothing was changed") from error
    return finish(files, [one.folder for one in loaded], dry_run=args.dry_run)


def _checked(loaded: list[Loaded]) -> int:
    """No tag has moved. An image without a digest has nothing that could be compared, so it does not pass."""
    without = [one.folder for one in loaded if not _image(one).digest]
    if without:
        names = " ".join(without)
        raise Stop(exits.FINDINGS, f"not pinned: {', '.join(without)}; run `python -m generator pin {names}`")
    print(f"{', '.join(one.folder for one in loaded) or 'no images'}: as pinned", file=sys.stderr)
    return exits.OK


def _image(one: Loaded) -> Image:
    if one.version.model is None:
        raise Stop(
            exits.FINDINGS, f"{one.version.source.file} has errors: run `python -m generator validate {one.folder}`"
        )
    image = one.version.model.image
    if not image.tag:
        raise Stop(
            exits.FINDINGS, f"{one.version.source.file} gives no image.tag: without one no digest can be looked up"
        )
    return image


def _ask(repository: str, tag: str) -> Found:
    from generator.registry import RegistryError, look_up

    try:
        return look_up(repository, tag)
    except RegistryError as error:
        raise Stop(exits.TOOL if error.unreachable else exits.FINDINGS, f"{error}; nothing was changed") from error


def _moved(one: Loaded, found: dict[tuple[str, str], Found]) -> Finding | None:
    image = _image(one)
    now = found[image.repository, image.tag]
    if not image.digest or image.digest in (now.digest, now.index):
        return None
    return one.version.source.finding(
        "RTD430",
        ("image", "digest"),
        f"the tag {image.tag} has moved since it was pinned",
        label=f"now {now.digest[:19]}…",
        notes=(f"it names {now.digest} now", "what runs is still the image of the digest"),
        help=f"take the new image with `python -m generator pin {one.folder} --update`, or leave the digest as it is",
    )


def _here_only(one: Loaded) -> bool:
    environment = one.environment.model
    return environment is not None and all(g.instance_type == LOCAL for g in environment.workers.values())
