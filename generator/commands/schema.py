"""`schema`: JSON Schema of the files, for editors, and of the plan."""

from __future__ import annotations

import argparse

from generator import exits
from generator.commands.common import Subparsers, emit, root
from generator.exits import Stop


def add(sub: Subparsers) -> None:
    """The command line of this command."""
    parser = sub.add_parser(
        "schema", parents=[root()], help="JSON Schema of the files, for editors, and of `plan --output json`"
    )
    parser.add_argument(
        "file", nargs="?", choices=("environment", "layer", "cluster", "version", "plan"), default="environment"
    )
    parser.add_argument("--write", action="store_true", help="write those of the files to environments/")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print or write the JSON Schema that editors use for environment files, or print that of the plan."""
    from generator.model.jsonschema import FILES, schema_text

    if args.file == "plan" and not args.write:
        from generator.plan.report import SCHEMA

        emit(SCHEMA.read_text(encoding="utf-8"))
        return exits.OK
    if not args.write:
        emit(schema_text(args.file))
        return exits.OK
    if not (args.root / "environments").is_dir():
        raise Stop(
            exits.USAGE, f"there is no folder {args.root.resolve() / 'environments'}; name the project with --root"
        )
    for name in FILES:
        path = args.root / "environments" / f"{name}.schema.json"
        path.write_text(schema_text(name), encoding="utf-8")
        print(path.relative_to(args.root))
    return exits.OK
