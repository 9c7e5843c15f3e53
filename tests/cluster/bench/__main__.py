"""Start, use and end the test bench by hand.

kubectl and helm get every word that follows them, and run inside of it as administrator.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time

from tests.cluster.bench import prerequisites, processes
from tests.cluster.bench.bench import Bench
from tests.cluster.bench.layout import BenchError
from tests.cluster.tools import build

TOOLS = ("kubectl", "helm")
INTERRUPTED = 130  # as a shell reports it


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.bench", description=__doc__)
    parser.add_argument("--environment", default="demo", help="whose cluster it is (default: demo)")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check", help="see whether this machine has what the bench needs")
    commands.add_parser("up", help="start it; it runs until `down`")
    commands.add_parser("down", help="end it and remove what it left")
    commands.add_parser("status", help="what runs")
    for name in TOOLS:
        commands.add_parser(name, help=f"run {name} in it")
    shell = commands.add_parser("shell", help="a shell in its network, or on a node")
    shell.add_argument("node", nargs="?", default="")
    own = sys.argv[1:]
    at = next((place for place, word in enumerate(own, 1) if word in TOOLS), len(own))
    options = parser.parse_args(own[:at])
    options.words = own[at:]
    try:
        return _run(Bench(options.environment), options)
    except (BenchError, build.BuildError, OSError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def _run(bench: Bench, options: argparse.Namespace) -> int:
    if os.geteuid() != 0:
        raise BenchError("a bench is root's: run this as root")
    if options.command == "check":
        prerequisites.check(bench.files)
        print("this machine has what the test bench needs")
    elif options.command == "up":
        # A start that is told to end, ends as one that is interrupted: with all that it began.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler)
        began = time.monotonic()
        bench.up(owned=False, say=lambda text: print(f"{time.monotonic() - began:6.1f} s  {text}", flush=True))
        print(f"{time.monotonic() - began:6.1f} s  ready: {', '.join(node.name for node in bench.nodes)}")
        python = os.path.relpath(sys.executable)
        print(f"use it with: {python} -m tests.cluster.bench kubectl get nodes; end it with: make cluster-down")
    elif options.command == "down":
        bench.down()
    elif options.command == "status":
        state = bench.state()
        phase = "starting" if state["phase"] == "running" and not bench.files.ready.exists() else state["phase"]
        print(f"{phase if bench.runs() else 'not running'} in {bench.files.folder}")
        for name in state["running"] if bench.runs() else ():
            print(f"  {name}")
        for name, status in state["ended"].items():
            print(f"  {name} ended with {status}; its log: {bench.files.log(name)}")
    elif options.command == "shell":
        path = f"{bench.files.programs}:{os.environ.get('PATH', '')}"
        environment = {**processes.environment(), **bench.settings(), "PATH": path}
        return subprocess.run(bench.inside("bash", node=options.node), env=environment, check=False).returncode
    else:
        return subprocess.run(bench.tool(options.command, *options.words), check=False).returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
