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
    findings, texts = all_findings(loaded), dict(sources(loaded))
    if not args.env:
        about_layers, of_layers = project.layers().unused(one.environment.source for one in loaded)
        findings, texts = findings + about_layers, texts | of_layers
    emit(format_findings(findings, texts, args.output))
    if args.output == "text":
        names = ", ".join(one.folder for one in loaded)
        print(f"{names}: {summary(findings)}", file=sys.stderr)
    return exits.FINDINGS if has_errors(findings) else exits.OK
