"""`render`: write the ClusterConfig and the Helm values, or compare them."""

from __future__ import annotations

import argparse
import sys

from generator import exits
from generator.commands.common import Subparsers, emit, root, several, valid
from generator.exits import Stop
from generator.project import Loaded, Project


def add(sub: Subparsers) -> None:
    """The command line of this command."""
    parser = sub.add_parser("render", parents=[root(), several()], help="write the ClusterConfig and the Helm values")
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit 1 and show the difference if files would change",
    )
    parser.add_argument("--force", action="store_true", help="discard edits by hand in generated files")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Render what environments generate, and write it, or with --check only compare."""
    from generator.render import render as render_tree
    from generator.render.write import Change, compare, diff, recover, stale, write

    project = Project(args.root)
    loaded = valid(project, args.env, quiet=args.check)
    tree: dict[str, str] = {}
    for one in loaded:
        tree |= render_tree(one)
    for path in [] if args.check else recover(args.root):
        print(f"finished   {path} (an earlier render was killed)")
    planned = compare(args.root, tree, force=args.force)
    planned += stale(args.root, tree, _places(loaded, everything=not args.env), force=args.force)
    refused = [p for p in planned if p.change is Change.REFUSED]
    for p in refused:
        print(f"refused: {p.path}: {p.reason}", file=sys.stderr)
    if refused:
        forceable = all(p.forceable for p in refused)
        raise Stop(
            exits.REFUSED,
            "nothing was written. Move your changes to the environment file, or discard them with --force"
            if forceable
            else "nothing was written. Make room for the generated files; --force replaces files only",
        )
    changes = [p for p in planned if p.change is not Change.SAME]
    if args.check:
        for p in changes:
            emit(diff(p))
            what = "remove" if p.change is Change.STALE else "change"
            print(f"would {what}: {p.path}", file=sys.stderr)
        return exits.FINDINGS if changes else exits.OK
    write(args.root, planned)
    for p in planned:
        print(f"{p.change.value:<9}  {p.path}")
    return exits.OK


def _places(loaded: list[Loaded], *, everything: bool) -> list[str]:
    """Where generated files of these environments may lie; with `everything`, those of what is gone, too."""
    if everything:
        return ["environments/*/generated/**/*", "eksctl/*.yaml"]
    return [f"environments/{one.folder}/generated/**/*" for one in loaded]
