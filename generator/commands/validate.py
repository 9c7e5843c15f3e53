"""`validate`: check environments and print every finding."""

from __future__ import annotations

import argparse
import sys

from generator import exits
from generator.commands.common import Subparsers, emit, has_errors, judged, root, several
from generator.diagnostics.output import FORMATS, format_findings, summary
from generator.project import Project, sources


def add(sub: Subparsers) -> None:
    """The command line of this command."""
    parser = sub.add_parser("validate", parents=[root(), several()], help="check environments; print every finding")
    parser.add_argument("--output", choices=FORMATS, default="text", help="default: text")
    parser.add_argument("--strict", action="store_true", help="exit 1 for warnings too")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Check environments and print every finding."""
    project = Project(args.root)
    loaded = [project.load(folder) for folder in project.select(args.env)]
    said = judged(project, loaded)
    findings, silenced = list(said.findings), said.silenced
    emit(format_findings(findings, sources(loaded), args.output, silenced))
    if args.output == "text":
        names = ", ".join(one.folder for one in loaded)
        print(f"{names}: {summary(findings, len(silenced))}", file=sys.stderr)
    return exits.FINDINGS if has_errors(findings) or (args.strict and findings) else exits.OK
