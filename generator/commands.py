"""The commands. Each takes parsed arguments, prints, and returns an exit code (`generator.exits`)."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from generator import exits
from generator.diagnostics.finding import Finding, Severity
from generator.diagnostics.output import format_findings, summary
from generator.exits import Stop
from generator.project import Loaded, Project, sources
from generator.rules import check


def validate(args: argparse.Namespace) -> int:
    """Check environments and print every finding."""
    project = Project(args.root)
    loaded = [project.load(folder) for folder in project.select(args.env)]
    findings = _check(loaded)
    emit(format_findings(findings, sources(loaded), args.output))
    if args.output == "text":
        names = ", ".join(one.folder for one in loaded)
        print(f"{names}: {summary(findings)}", file=sys.stderr)
    return exits.FINDINGS if _has_errors(findings) else exits.OK


def render(args: argparse.Namespace) -> int:
    """Render what environments generate, and write it, or with --check only compare."""
    from generator.render import render as render_tree
    from generator.render.write import Change, WriteError, compare, diff, write

    project = Project(args.root)
    loaded = _valid(project, args.env, quiet=args.check)
    tree: dict[str, str] = {}
    for one in loaded:
        tree |= render_tree(one)
    planned = compare(args.root, tree, force=args.force)
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
            print(f"would change: {p.path}", file=sys.stderr)
        return exits.FINDINGS if changes else exits.OK
    try:
        write(args.root, planned)
    except WriteError as error:
        raise Stop(exits.TOOL, str(error)) from error
    for p in planned:
        print(f"{p.change.value:<9}  {p.path}")
    return exits.OK


def plan(args: argparse.Namespace) -> int:
    """Print nodes, GPUs, ranks and the price of environments."""
    from generator.plan.report import as_json, as_text, dump
    from generator.resolve import resolve

    project = Project(args.root)
    resolved = []
    for one in _valid(project, args.env, neighbours=False):
        assert one.environment.model is not None and one.cluster is not None  # noqa: S101  (_valid checked)
        resolved.append(resolve(one.environment.model, one.cluster.model))
    if args.output == "json":
        emit(dump([as_json(r) for r in resolved]))
    else:
        emit("\n".join(as_text(r) for r in resolved))
    return exits.OK


def new(args: argparse.Namespace) -> int:
    """Write a new environment, and its cluster if there is none of that name."""
    from generator import new as template
    from generator.render.write import Change, WriteError, compare, write

    project = Project(args.root)
    choices = template.Choices(
        name=args.name,
        cluster=args.cluster,
        region=args.region,
        zone=args.zone,
        instance_type=args.instance_type,
        nodes=args.nodes,
        storage=args.storage,
        namespace=args.namespace,
    )
    tree = template.files(project, choices)
    planned = compare(args.root, tree)
    existing = [p.path for p in planned if p.change is not Change.NEW]
    if existing:
        raise Stop(
            exits.REFUSED,
            f"nothing was written, for there is already {', '.join(existing)}; choose another name",
        )
    try:
        write(args.root, planned)
    except WriteError as error:
        raise Stop(exits.TOOL, str(error)) from error
    for p in planned:
        print(f"new  {p.path}")
    print(
        f"\nnext: edit environments/{args.name}/environment.yaml, then\n  python -m generator validate {args.name}\n"
        f"  python -m generator render {args.name}"
    )
    return exits.OK


def schema(args: argparse.Namespace) -> int:
    """Print or write the JSON Schema that editors use for environment files."""
    from generator.model.jsonschema import FILES, schema_text

    if not args.write:
        emit(schema_text(FILES[args.file]))
        return exits.OK
    if not (args.root / "environments").is_dir():
        raise Stop(
            exits.USAGE, f"there is no folder {args.root.resolve() / 'environments'}; name the project with --root"
        )
    for name, model in FILES.items():
        path = args.root / "environments" / f"{name}.schema.json"
        path.write_text(schema_text(model), encoding="utf-8")
        print(path.relative_to(args.root))
    return exits.OK


def local(args: argparse.Namespace) -> int:
    """Run an environment's rendered RayJob on this machine's own Ray."""
    from generator.local.run import main_local
    from generator.render import values_path
    from generator.render.write import Change, compare

    project = Project(args.root)
    (one,) = _valid(project, [args.env], neighbours=False)
    environment = one.environment.model
    assert environment is not None  # noqa: S101  (_valid checked)
    if environment.mode != "job":
        raise Stop(exits.USAGE, f"environment {one.folder} has mode {environment.mode}; `local` runs mode job")
    if args.manifests is None:
        from generator.render import render as render_tree

        path = values_path(one.folder)
        (planned,) = compare(args.root, {path: render_tree(one)[path]})
        if planned.change is not Change.SAME:
            state = "missing" if planned.change is Change.NEW else "out of date"
            raise Stop(exits.FINDINGS, f"{path} is {state}; run `python -m generator render {one.folder}` first")
    return main_local(
        root=args.root,
        env_name=one.folder,
        chart=args.root / "charts" / "ray-train-dlc",
        values_files=[
            args.root / values_path(one.folder),
            args.root / "environments" / one.folder / "version.yaml",
        ],
        namespace=environment.namespace,
        release=environment.name,
        work_dir=args.work_dir or args.root / ".local" / one.folder,
        manifests=args.manifests,
        timeout=args.timeout,
        fresh=args.fresh,
    )


def _valid(project: Project, given: list[str], *, neighbours: bool = True, quiet: bool = False) -> list[Loaded]:
    """The selected environments, or the end of the command with their findings. `quiet`: warnings alone are not shown.

    With `neighbours`, environments that share a ClusterConfig with a selected one are checked too: it holds the node
    groups of all of them, so one with errors would lose its own.

    Raises:
        Stop: there are findings of severity error.
    """
    folders = project.select(given)
    loaded = [project.load(folder) for folder in folders]
    checked = list(loaded)
    if neighbours:
        clusters = {
            one.cluster.model.name
            for one in loaded
            if one.cluster and one.cluster.model and one.cluster.model.managed == "eksctl"
        }
        others = {folder for cluster in clusters for folder in project.on_cluster(cluster)} - set(folders)
        if clusters:  # an environment that names no cluster may belong to this one: a typo must not drop its nodes
            others |= set(project.without_cluster()) - set(folders)
        checked += [project.load(folder) for folder in sorted(others)]
    findings = _check(checked)
    failed = _has_errors(findings)
    if not failed:
        findings = _check(loaded)
        if findings and not quiet:
            names = " ".join(folders)
            print(f"{summary(findings)}: see `python -m generator validate {names}`", file=sys.stderr)
    if failed:
        sys.stderr.write(format_findings(findings, sources(checked), "text"))
        raise Stop(exits.FINDINGS, f"{summary(findings)}; nothing was done")
    return loaded


def _check(loaded: list[Loaded]) -> list[Finding]:
    """All findings, once each: environments on one cluster share its file."""
    return sorted({f for one in loaded for f in check(one)}, key=lambda f: f.sort_key)


def _has_errors(findings: list[Finding]) -> bool:
    return any(f.severity is Severity.ERROR for f in findings)


def emit(text: str) -> None:
    """Write to standard output. A reader that has enough (`| head`) changes nothing about the command's exit code."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def existing_folder(text: str) -> Path:
    """An argparse type: a folder that exists."""
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is not a folder")
    return path


def seconds(text: str) -> float:
    """An argparse type: a number of seconds above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return value


def work_folder(text: str) -> Path:
    """An argparse type: a path that is not empty (which would mean the current folder)."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty")
    return Path(text)
