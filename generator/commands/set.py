"""`set`: change keys of an environment's files; comments, order and style stay."""

from __future__ import annotations

import argparse
from typing import Any

from pydantic import BaseModel

from generator import exits
from generator.commands.common import Subparsers, root
from generator.commands.edits import environment_file, finish, start, version_file
from generator.exits import Stop
from generator.project import Project

_CLUSTER = "cluster:"


def add(sub: Subparsers) -> None:
    """The command line of this command."""
    parser = sub.add_parser(
        "set",
        parents=[root()],
        help="change keys of an environment; comments stay",
        description="Change keys of an environment's files; comments, order and style stay. Keys of the image "
        "(image.tag, rayVersion) are version.yaml's; `cluster:region` is a key of the cluster's file.",
    )
    parser.add_argument("env", metavar="ENV", help="name or folder of an environment")
    # With `*` it would be taken as empty where an option stands between ENV and the first KEY=VALUE.
    assignments = parser.add_argument("assignments", nargs="+", metavar="KEY=VALUE", help="workers.gpu.nodes=4")
    parser.add_argument(
        "--unset",
        action="append",
        default=[],
        type=lambda key: _alone(assignments, key),
        metavar="KEY",
        help="take the key out: its default holds",
    )
    parser.add_argument("--dry-run", action="store_true", help="show the difference, write nothing")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Change keys, unless the change brings errors."""
    from generator.edit import EditError, Put, Remove
    from generator.edit.paths import path_of

    files = start(args.root, dry_run=args.dry_run)
    project = Project(args.root)
    (folder,) = project.select([args.env])
    try:
        for assignment in args.assignments or ():
            key, equals, written = assignment.partition("=")
            if not equals:
                raise Stop(exits.USAGE, f"`{assignment}` is not KEY=VALUE")
            file, model, key = _file(project, files, folder, key)
            path = path_of(key)
            _known(files, file, model, key)
            files.edit(file, [Put(path, _value(model, key, written))])
        for key in args.unset:
            file, model, rest = _file(project, files, folder, key)
            files.edit(file, [Remove(path_of(rest))])
    except EditError as error:
        raise Stop(exits.USAGE, f"{error}; nothing was changed") from error
    return finish(files, [folder], dry_run=args.dry_run)


def _alone(assignments: argparse.Action, key: str) -> str:
    """An argparse type: a key to take out; nothing else need be given then."""
    assignments.required = False
    return key


def _file(project: Project, files: Any, folder: str, key: str) -> tuple[str, type[BaseModel], str]:
    """The file that holds `key`, its model, and the key in it."""
    from generator.edit.paths import path_of
    from generator.model.cluster import Cluster
    from generator.model.environment import Environment
    from generator.model.version import Version

    if key.startswith(_CLUSTER):
        model = files.project().environment(folder).model
        if model is None or model.cluster not in project.cluster_names():
            raise Stop(exits.FINDINGS, f"environment {folder} names no cluster that has a file")
        return f"environments/_clusters/{model.cluster}.yaml", Cluster, key.removeprefix(_CLUSTER)
    if path_of(key)[0] in {field.alias for field in Version.model_fields.values()}:
        return version_file(folder), Version, key
    return environment_file(folder), Environment, key


def _known(files: Any, file: str, model: type[BaseModel], key: str) -> None:
    from generator.edit import EditError
    from generator.edit.paths import path_of, unknown
    from generator.source import parse

    text = files.text(file)
    reason = unknown(model, path_of(key), parse(text.encode(), file).data if text is not None else None)
    if reason:
        raise EditError(reason)


def _value(model: type[BaseModel], key: str, written: str) -> Any:
    """A value of the command line as YAML reads it; where the key takes text only, all but quoted text is itself."""
    from generator.edit import EditError
    from generator.edit.paths import path_of, takes_text_only
    from generator.source import parse

    if not written.strip():
        return ""
    source = parse(written.encode(), key)
    text_only = takes_text_only(model, path_of(key))
    if text_only and (source.findings or not isinstance(source.data, str)):
        return written
    if source.findings:
        raise EditError(f"the value of {key} is not YAML: {source.findings[0].message}")
    return source.data
