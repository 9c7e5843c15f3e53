"""`new`: write a new, commented environment."""

from __future__ import annotations

import argparse

from generator import exits
from generator.commands.common import Subparsers, root
from generator.exits import Stop
from generator.project import Project


def add(sub: Subparsers) -> None:
    """The command line of this command."""
    parser = sub.add_parser("new", parents=[root()], help="write a new, commented environment")
    parser.add_argument("name", metavar="NAME", help="name of the environment")
    parser.add_argument(
        "--instance-type",
        default="g6.12xlarge",
        metavar="TYPE",
        help="type of the worker nodes, or `local` (default: %(default)s)",
    )
    parser.add_argument(
        "--nodes", type=int, default=2, metavar="N", help="number of worker nodes (default: %(default)s)"
    )
    parser.add_argument(
        "--cluster",
        metavar="NAME",
        help="cluster to run on; written too if there is none (default: the environment's name)",
    )
    parser.add_argument("--region", metavar="REGION", help="region of a new cluster (default: us-west-2)")
    parser.add_argument("--zone", metavar="ZONE", help="zone of the worker nodes (default: the first of the cluster)")
    parser.add_argument(
        "--storage",
        metavar="WHERE",
        help="s3://bucket/prefix, fsx:CLAIM, efs:CLAIM, pvc:CLAIM or none (default: s3://NAME-checkpoints/ray-train)",
    )
    parser.add_argument(
        "--namespace", default="ray-train", metavar="NAME", help="Kubernetes namespace (default: %(default)s)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write a new environment, and its cluster if there is none of that name."""
    from generator import new as template
    from generator.render.write import Change, compare, write

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
    write(args.root, planned)
    for p in planned:
        print(f"new  {p.path}")
    print(
        f"\nnext: edit environments/{args.name}/environment.yaml, then\n  python -m generator validate {args.name}\n"
        f"  python -m generator render {args.name}"
    )
    return exits.OK
