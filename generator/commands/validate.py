"""`validate`: check environments and print every finding."""

from __future__ import annotations

import argparse
import sys

from generator import exits
from generator.commands.common import Subparsers, all_findings, emit, has_errors, root, several
from generator.diagnostics.output import FORMATS, format_findings, summary
from generator.project import Project, sources


def add(sub: Subparsers) -> None:
    """The command line of this command."""
    parser = sub.add_parser("validate", parents=[root(), several()], help="check environments; print every finding")
    parser.add_argument("--output", choices=FORMATS, default="text", help="default: text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Check environments and print every finding."""
    project = Project(args.root)
    loaded = [project.load(folder) for folder in project.select(args.env)]
    findings = all_findings(loaded)
    emit(format_findings(findings, sources(loaded), args.output))
    if args.output == "text":
        names = ", ".join(one.folder for one in loaded)
        print(f"{names}: {summary(findings)}", file=sys.stderr)
    return exits.FINDINGS if has_errors(findings) else exits.OK
