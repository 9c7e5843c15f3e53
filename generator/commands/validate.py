"""`validate`: check environments and print every finding."""

from __future__ import annotations

import argparse
import sys

from generator import exits
from generator.commands.common import Subparsers, emit, has_errors, judged, root, several
from generator.diagnostics.output import FORMATS, format_findings, summary
from generator.project import Project, sources
from generator.silences import apply


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
    findings, silenced, texts = list(said.findings), list(said.silenced), dict(sources(loaded))
    if not args.env:
        about_layers, of_layers = project.layers().unused(one.environment.source for one in loaded)
        alone = apply(about_layers, of_layers.items())  # layers that no environment reads
        findings, silenced, texts = findings + list(alone.findings), silenced + list(alone.silenced), texts | of_layers
    emit(format_findings(findings, texts, args.output, silenced))
    if args.output == "text":
        names = ", ".join(one.folder for one in loaded)
        print(f"{names}: {summary(findings, len(silenced))}", file=sys.stderr)
    return exits.FINDINGS if has_errors(findings) or (args.strict and findings) else exits.OK
