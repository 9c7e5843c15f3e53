"""`migrate`: raise environment files to the format of this version."""

from __future__ import annotations

import argparse
import sys
from typing import get_args

from generator import exits
from generator.commands.common import Subparsers, emit, root, several
from generator.commands.edits import start
from generator.exits import Stop
from generator.project import Project


def add(sub: Subparsers) -> None:
    """The command line of this command."""
    parser = sub.add_parser(
        "migrate",
        parents=[root(), several()],
        help="raise environment files to this version's format",
        description="Raise schemaVersion step by step to the format that this version reads. Comments and order stay; "
        "a file of this format is not touched.",
    )
    parser.add_argument("--dry-run", action="store_true", help="show the difference, write nothing")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Raise the files of environments, all of them or none."""
    from generator.edit import EditError
    from generator.edit.migrate import migrate
    from generator.model.environment import Environment

    (current,) = get_args(Environment.model_fields["schema_version"].annotation)
    files = start(args.root, dry_run=args.dry_run)
    folders = Project(args.root).select(args.env)
    try:
        results = {folder: migrate(files, folder, current) for folder in folders}
    except EditError as error:
        raise Stop(exits.FINDINGS, f"{error}; nothing was changed") from error
    for folder, (before, done) in results.items():
        said = f"from format {before}: {', '.join(done)}" if done else f"has format {before} already"
        print(f"{folder}: {said}", file=sys.stderr)
    emit(files.diff())
    if args.dry_run or not files.planned():
        return exits.OK
    files.write()
    print(f"next: python -m generator validate {' '.join(folders)}", file=sys.stderr)
    return exits.OK
