"""Build the Go programs of this folder into the user's cache, once for each version of their sources.

    python -m tests.cluster.tools.build [NAME ...]

Each program is a small Go module of its own beside this file, pinned by its go.mod and go.sum to the release
of the consumer whose code it runs. Binaries are large (eksctl-check: over 100 MB) and not for the repository.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from generator.tools import cache_dir

FOLDER = Path(__file__).parent
# Where Go's own installation instructions put it; a login shell has it on the PATH, a CI job often has not.
DEFAULT_GO = Path("/usr/local/go/bin/go")
# One set of flags for all: paths of the machine and debug tables stay out, no C compiler is needed.
FLAGS = ("-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags=-s -w")
BUILD_TIMEOUT_S = 30 * 60
LIST_TIMEOUT_S = 10 * 60  # may download the module first


class BuildError(Exception):
    """A program could not be built; the text says what to do, or holds the end of the compiler's output."""


class GoMissingError(BuildError):
    """There is no Go toolchain on this machine."""


@dataclass(frozen=True)
class Tool:
    """One Go program.

    Attributes:
        folder: its Go module (go.mod, go.sum, *.go of package main).
        module: import path of the consumer's module, whose required version names the binary.
        toolchain: GOTOOLCHAIN to build with, such as `go1.27.3`, for a module that needs a newer Go;
            empty: the installed one as it is configured.
    """

    folder: Path
    module: str
    toolchain: str = ""

    @property
    def name(self) -> str:
        """File name of the program, the same as that of its folder."""
        return self.folder.name

    @property
    def version(self) -> str:
        """Version of `module` that go.mod requires."""
        requirement = rf"^\s*(?:require\s+)?{re.escape(self.module)}\s+(v\S+)"
        found = re.search(requirement, self._go_mod(), re.MULTILINE)
        if found is None:
            raise BuildError(f"{self.folder / 'go.mod'} requires no version of {self.module}")
        return found[1]

    @property
    def go_version(self) -> tuple[int, ...]:
        """Oldest Go that may build it: the `go` line of go.mod."""
        found = re.search(r"^go\s+(\d[\d.]*)", self._go_mod(), re.MULTILINE)
        if found is None:
            raise BuildError(f"{self.folder / 'go.mod'} has no go line")
        return _numbers(found[1])

    def digest(self) -> str:
        """Twelve hexadecimal digits over everything that decides the binary, but for the Go release."""
        digest = hashlib.sha256(repr((FLAGS, self.toolchain, platform.system(), platform.machine())).encode())
        for path in sorted([*self.folder.glob("*.go"), self.folder / "go.mod", self.folder / "go.sum"]):
            content = path.read_bytes()
            digest.update(f"{path.name} {len(content)}\n".encode())
            digest.update(content)
        return digest.hexdigest()[:12]

    def _go_mod(self) -> str:
        return (self.folder / "go.mod").read_text(encoding="utf-8")


TOOLS = {
    tool.name: tool
    for tool in (
        Tool(FOLDER / "kuberay-check", "github.com/ray-project/kuberay/ray-operator"),
        Tool(FOLDER / "eksctl-check", "github.com/weaveworks/eksctl"),
    )
}


def find_go() -> Path:
    """The `go` command: environment variable `GO`, the PATH, then the usual place.

    Raises:
        GoMissingError: none of them has it.
    """
    override = os.environ.get("GO")
    found = shutil.which(override or "go")
    if found:
        return Path(found)
    if override:
        raise GoMissingError(f"GO={override} is not an executable file; unset it or correct it")
    if os.access(DEFAULT_GO, os.X_OK):
        return DEFAULT_GO
    raise GoMissingError("go is needed to build the checkers and was not found; install it, or set GO to it")


def binary(name: str) -> Path:
    """Path of a program of `TOOLS`, built first when its sources changed or it is not in the cache.

    Raises:
        KeyError: no such program.
        BuildError: it cannot be built here.
    """
    return build(TOOLS[name])


def build(tool: Tool) -> Path:
    """Build `tool` into the cache unless its binary is there; safe for several processes at once.

    Raises:
        BuildError: no Go, a Go too old, or a failed compilation.
    """
    target = cache_dir() / "bin" / f"{tool.name}-{tool.version}-{tool.digest()}"
    if target.exists():
        return target
    go = find_go()
    _require_version(go, tool)
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.with_name(f"{tool.name}.lock")):
        if target.exists():  # another process built it while this one waited
            return target
        # Written under another name and renamed: a build that is stopped leaves no half-written program.
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".building-") as scratch:
            part = Path(scratch) / tool.name
            nice = ["nice", "-n", "10"] if shutil.which("nice") else []
            _run([*nice, str(go), "build", *FLAGS, "-o", str(part), "."], tool, BUILD_TIMEOUT_S)
            part.replace(target)
    return target


@cache
def module_dir(name: str, module: str) -> Path:
    """Folder with the files of a Go module that the program `name` depends on, downloaded when missing.

    The files are those of the very version that the program was built with (its CRDs, its JSON schema). They
    lie in Go's module cache: read only.

    Raises:
        KeyError: no such program.
        BuildError: no Go, or the program does not depend on `module`.
    """
    tool = TOOLS[name]
    go = str(find_go())
    lookup = [go, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module]
    folder = _run(lookup, tool, LIST_TIMEOUT_S).strip()
    if not folder:
        _run([go, "mod", "download", module], tool, LIST_TIMEOUT_S)
        folder = _run(lookup, tool, LIST_TIMEOUT_S).strip()
    if not folder:
        raise BuildError(f"go gives no folder for {module}")
    return Path(folder)


def _require_version(go: Path, tool: Tool) -> None:
    """Say what is wrong before the compiler does, in words that name the remedy."""
    # "go version go1.26.8 linux/amd64", or "go1.27-devel_0a1b2c" in the third place. Run inside the module it
    # is the version that GOTOOLCHAIN switches to.
    reported = _run([str(go), "version"], tool, LIST_TIMEOUT_S)
    found = re.search(r"\bgo(\d+(?:\.\d+)*)", reported)
    if found is None:
        raise BuildError(f"{go} version printed {reported.strip()!r}, which names no release")
    if _numbers(found[1]) < tool.go_version:
        needed = ".".join(map(str, tool.go_version))
        raise BuildError(
            f"{tool.name} needs Go {needed} or newer and {go} is {found[1]}; install it, set GO to it, "
            "or let go fetch one with GOTOOLCHAIN=auto"
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file; the lock goes with the process, however that ends."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _run(command: list[str], tool: Tool, timeout_s: int) -> str:
    """Standard output of a go command run in the tool's module.

    Raises:
        BuildError: it failed or took longer than `timeout_s` seconds.
    """
    environment = dict(os.environ, CGO_ENABLED="0", GOWORK="off", GOFLAGS="")
    if tool.toolchain:
        environment["GOTOOLCHAIN"] = tool.toolchain
    try:
        done = subprocess.run(
            command,
            cwd=tool.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise BuildError(f"{shlex.join(command)} in {tool.folder} took more than {timeout_s} s") from late
    if done.returncode:
        last_lines = "\n".join((done.stderr + done.stdout).splitlines()[-40:])
        raise BuildError(f"{shlex.join(command)} failed in {tool.folder}:\n{last_lines}")
    return done.stdout


def main() -> int:
    """Build the programs named, or all of them, and print where each one and its consumer's files are."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.tools.build", description="Build the Go checkers.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(TOOLS)}; default: all")
    names = parser.parse_args().names or list(TOOLS)
    if unknown := [name for name in names if name not in TOOLS]:
        parser.error(f"unknown program {', '.join(unknown)}; there are {', '.join(TOOLS)}")
    for name in names:
        started = time.monotonic()
        try:
            program = binary(name)
            files = module_dir(name, TOOLS[name].module)
        except BuildError as problem:
            print(f"{name}: {problem}", file=sys.stderr)
            return 1
        print(f"{name}\n  program {program} ({time.monotonic() - started:.1f} s)\n  module  {files}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
