"""Build the Go programs of this folder into the user's cache, once for each version of their sources.

    python -m tests.cluster.tools.build [--on-demand] [NAME ...]

Each folder is a small Go module of its own, pinned by its go.mod and go.sum to the release of the consumer whose code
it runs; `versions.toml` holds all those versions. The programs are large (kube-apiserver: over 100 MB) and not for the
repository.
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
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from generator.tools import cache_dir

FOLDER = Path(__file__).parent
VERSIONS = FOLDER / "versions.toml"
# Where Go's own installation instructions put it; a login shell has it on the PATH, a CI job often has not.
DEFAULT_GO = Path("/usr/local/go/bin/go")
# For all alike: paths of the machine and debug tables stay out, no C compiler is needed.
FLAGS = ("-trimpath", "-buildvcs=false", "-mod=readonly")
LINKER_FLAGS = ("-s", "-w")
BUILD_TIMEOUT_S = 60 * 60
LIST_TIMEOUT_S = 10 * 60  # may download the module first


class BuildError(Exception):
    """A program could not be built; the text says what to do, or holds the end of the compiler's output."""


class GoMissingError(BuildError):
    """There is no Go toolchain on this machine."""


@dataclass(frozen=True)
class Overlay:
    """A file of a dependency that one of ours takes the place of while the compiler runs.

    Attributes:
        module: the dependency, of the version that go.mod requires.
        file: path in it of the file that is replaced.
        by: path of ours in the tool's folder.
    """

    module: str
    file: str
    by: str


@dataclass(frozen=True)
class Tool:
    """One Go module beside this file, and what is built of it. See `versions.toml`.

    Attributes:
        folder: its go.mod, go.sum, and *.go of package main where it has any of its own.
        module: import path of the consumer's module; empty: there is none.
        version: version of `module`, the one that go.mod requires.
        packages: import paths of what is built, in one call of the compiler.
        stamps: string variables by import path and name, which the linker sets; `{version}`, `{major}` and
            `{minor}` in a value stand for the parts of `version`.
        overlay: the file of a dependency that is replaced.
        sources: the folder whose *.go are compiled with this one's go.mod; empty: its own.
        on_demand: built on first use only.
        toolchain: GOTOOLCHAIN to build with, such as `go1.27.3`, for a module that needs a newer Go;
            empty: the installed one as it is configured.
    """

    folder: Path
    module: str = ""
    version: str = ""
    packages: tuple[str, ...] = (".",)
    stamps: Mapping[str, str] = field(default_factory=dict)
    overlay: Overlay | None = None
    sources: str = ""
    on_demand: bool = False
    toolchain: str = ""

    @classmethod
    def read(cls, folder: Path, table: Mapping[str, Any]) -> Tool:
        """The tool of a table of `versions.toml`."""
        fields = dict(table)
        if "packages" in fields:
            fields["packages"] = tuple(fields["packages"])
        if "overlay" in fields:
            fields["overlay"] = Overlay(**fields["overlay"])
        return cls(folder, **fields)

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.folder.name

    @property
    def compiled(self) -> Path:
        """Folder whose *.go are compiled."""
        return self.folder.with_name(self.sources) if self.sources else self.folder

    @property
    def programs(self) -> tuple[str, ...]:
        """Names of what is built, in the order of `packages`."""
        if len(self.packages) == 1:
            return (self.name,)
        return tuple(package.rpartition("/")[2] for package in self.packages)

    @property
    def required(self) -> str:
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

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags of `go build` that do not depend on the machine."""
        major, minor, *_ = [*self.version.removeprefix("v").split("."), "", ""]
        stamps = [
            f"-X {variable}={value.format(version=self.version, major=major, minor=minor)}"
            for variable, value in self.stamps.items()
        ]
        return *FLAGS, "-ldflags=" + " ".join([*LINKER_FLAGS, *stamps])

    def digest(self) -> str:
        """Twelve hexadecimal digits over everything that decides the programs, but for the Go release."""
        machine = (platform.system(), platform.machine())
        digest = hashlib.sha256(repr((self.flags, self.packages, self.overlay, self.toolchain, machine)).encode())
        sources = [path for path in self.compiled.rglob("*.go") if not path.name.endswith("_test.go")]
        pins = [self.folder / "go.mod", self.folder / "go.sum"]
        for path in sorted([*sources, *filter(Path.exists, pins)]):
            content = path.read_bytes()
            digest.update(f"{os.path.relpath(path, self.folder)} {len(content)}\n".encode())
            digest.update(content)
        return digest.hexdigest()[:12]

    def _go_mod(self) -> str:
        return (self.folder / "go.mod").read_text(encoding="utf-8")


TOOLS = {
    name: Tool.read(FOLDER / name, table) for name, table in tomllib.loads(VERSIONS.read_text(encoding="utf-8")).items()
}
PROGRAMS = {program: tool for tool in TOOLS.values() for program in tool.programs}


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
    raise GoMissingError(
        "go is needed to build the programs of the tests and was not found; install it, or set GO to it"
    )


def program(name: str) -> Path:
    """Path of a program of `PROGRAMS`, built first when its sources changed or it is not in the cache.

    Raises:
        KeyError: no such program.
        BuildError: it cannot be built here.
    """
    return build(PROGRAMS[name]) / name


def build(tool: Tool) -> Path:
    """Build the programs of `tool` into a folder of the cache unless it is there; safe for processes at once.

    Raises:
        BuildError: no Go, a Go too old, a go.mod of another version, or a failed compilation.
    """
    target = cache_dir() / "bin" / "-".join(filter(None, [tool.name, tool.version, tool.digest()]))
    if target.exists():
        return target
    go = find_go()
    _require_versions(go, tool)
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target.with_name(f"{tool.name}.lock")):
        if target.exists():  # another process built it while this one waited
            return target
        # Written under another name and renamed: a build that is stopped leaves no half of the programs.
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".building-") as scratch:
            part = Path(scratch) / "programs"
            part.mkdir()
            # The compiler names several programs by their packages, as `Tool.programs` does, but not a single one.
            output = str(part / tool.name) if len(tool.packages) == 1 else f"{part}/"
            nice = ["nice", "-n", "10"] if shutil.which("nice") else []
            command = [*nice, str(go), "build", *tool.flags, "-o", output, *tool.packages]
            _run(command, _overlaid(tool, Path(scratch)), BUILD_TIMEOUT_S)
            part.rename(target)
    return target


def test(tool: Tool) -> str:
    """Run the Go tests of the tool's own folder, which end with what they print.

    Raises:
        BuildError: no Go, or a test that fails; the text holds what it printed.
    """
    go = str(find_go())
    with tempfile.TemporaryDirectory() as scratch:
        # The flags are those of the programs, so that what was compiled for them serves here too.
        return _run([go, "test", "-v", *tool.flags, "./..."], _overlaid(tool, Path(scratch)), BUILD_TIMEOUT_S)


def _overlaid(tool: Tool, scratch: Path) -> Tool:
    """A copy of the tool, and of the dependency with our file in it; the tool itself when it has no overlay.

    Go's own `-overlay` refuses files of the module cache.
    """
    if tool.overlay is None:
        return tool
    copy = replace(tool, folder=scratch / tool.name)
    dependency = copy.folder / "_dependency"
    shutil.copytree(tool.folder, copy.folder)
    shutil.copytree(_module_dir(tool, tool.overlay.module), dependency, copy_function=shutil.copyfile)
    replaced = dependency / tool.overlay.file
    if not replaced.exists():  # ours would be one more file, and change nothing
        raise BuildError(f"{tool.overlay.module} has no {tool.overlay.file}, which {tool.name} would replace")
    shutil.copyfile(tool.folder / tool.overlay.by, replaced)
    redirect = f"-replace={tool.overlay.module}=./{dependency.name}"
    _run([str(find_go()), "mod", "edit", redirect], copy, LIST_TIMEOUT_S)
    return copy


@cache
def module_dir(name: str, module: str = "") -> Path:
    """Folder with the files of a Go module that the tool `name` depends on, downloaded when missing.

    The files are those of the very version that the tool's programs are built with (CRDs, a JSON schema,
    manifests). They lie in Go's module cache: read only.

    Args:
        name: key of `TOOLS`.
        module: import path of the module; empty: that of the tool's consumer.

    Raises:
        KeyError: no such tool.
        BuildError: no Go, or the tool does not depend on `module`.
    """
    return _module_dir(TOOLS[name], module or TOOLS[name].module)


def _module_dir(tool: Tool, module: str) -> Path:
    go = str(find_go())
    lookup = [go, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module]
    folder = _run(lookup, tool, LIST_TIMEOUT_S).strip()
    if not folder:
        _run([go, "mod", "download", module], tool, LIST_TIMEOUT_S)
        folder = _run(lookup, tool, LIST_TIMEOUT_S).strip()
    if not folder:
        raise BuildError(f"go gives no folder for {module}")
    return Path(folder)


def _require_versions(go: Path, tool: Tool) -> None:
    """Say what is wrong before the compiler does, in words that name the remedy."""
    if tool.module and tool.required != tool.version:
        raise BuildError(
            f"{tool.folder / 'go.mod'} requires {tool.module} {tool.required} and {VERSIONS.name} gives "
            f"{tool.version}; {VERSIONS} says how to change a version"
        )
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
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file; the lock goes with the process, however that ends."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _run(command: list[str], tool: Tool, timeout_s: int) -> str:
    """Standard output of a go command run in the tool's module.

    Raises:
        BuildError: it failed or took longer than `timeout_s` seconds.
    """
    module = f"-modfile=../{tool.name}/go.mod" if tool.sources else ""
    environment = dict(os.environ, CGO_ENABLED="0", GOWORK="off", GOFLAGS=module)
    if tool.toolchain:
        environment["GOTOOLCHAIN"] = tool.toolchain
    try:
        done = subprocess.run(
            command,
            cwd=tool.compiled,
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
    """Build what is named, or all that is not built on demand, and print how long each took and where it is."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.cluster.tools.build", description="Build the Go programs that the tests run."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(TOOLS)}, or one program of them")
    on_demand = ", ".join(name for name, tool in TOOLS.items() if tool.on_demand)
    parser.add_argument("--on-demand", action="store_true", help=f"also those that are built on first use: {on_demand}")
    arguments = parser.parse_args()
    known = PROGRAMS | TOOLS
    if unknown := [name for name in arguments.names if name not in known]:
        parser.error(f"unknown program {', '.join(unknown)}; there are {', '.join(known)}")
    unnamed = [name for name, tool in TOOLS.items() if not tool.on_demand and not arguments.names]
    extra = [name for name, tool in TOOLS.items() if tool.on_demand and arguments.on_demand]
    for name in dict.fromkeys(known[name].name for name in [*arguments.names, *unnamed, *extra]):
        print(f"{name:<20} ", end="", flush=True)
        started = time.monotonic()
        try:
            folder = build(TOOLS[name])
        except BuildError as problem:
            print("failed", flush=True)
            print(f"{name}: {problem}", file=sys.stderr)
            return 1
        print(f"{time.monotonic() - started:7.1f} s  {folder}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
