"""A package of the chart whose bytes depend on the chart alone.

Helm decides what belongs into it (`helm package` checks the chart and reads .helmignore). Its own archive is not kept:
Helm 3 stamps every file with the time of day, Helm 4 with that of the checkout, and both write Chart.yaml anew.
"""

from __future__ import annotations

import datetime
import hashlib
import io
import os
import struct
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import yaml

from generator.release.changelog import sections
from generator.tools import find

# For a version that is not released yet, as other builders do it that must not look at the clock.
_NO_DATE = datetime.date(1980, 1, 1)
_BLOCK = 0xFFFF  # the longest stored block of deflate
_TIMEOUT_S = 60


class PackageError(Exception):
    """The package cannot be made; the text says why, and what to do."""


def package(chart: Path, output: Path) -> Path:
    """Write `<name>-<version>.tgz` of a chart's folder into `output`.

    Every time in it is the value of SOURCE_DATE_EPOCH, else the day of the release in the chart's CHANGELOG.md. So is
    the time of the file itself: `helm push` writes that into the manifest, whose digest then is the same everywhere.

    Raises:
        PackageError: Helm refuses the chart, or its version is not the newest one of its changelog.
        ChangelogError: the changelog is not in its form.
        ToolMissingError: there is no Helm.
    """
    about = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
    name, version = about["name"], str(about["version"])
    seconds = _seconds(chart, version)
    files = {f"{name}/{path}": (chart / path).read_bytes() for path in _chosen(chart)}
    target = output / f"{name}-{version}.tgz"
    try:
        output.mkdir(parents=True, exist_ok=True)
        target.with_name(f"{target.name}.prov").unlink(missing_ok=True)  # of other bytes; `helm push` would take it
        target.write_bytes(_gzip(_tar(files, seconds)))
        os.utime(target, (seconds, seconds))
    except OSError as error:
        raise PackageError(f"{output}: cannot be written ({error.strerror}); name another folder") from error
    return target


def sign(made: Path, key: str) -> Path:
    """Write the `.prov` file that `helm verify` reads, with a key of gpg's own keyring.

    Raises:
        PackageError: there is no gpg, or it cannot sign.
    """
    with tarfile.open(made) as archive:
        (about,) = [item for item in archive if item.name.count("/") == 1 and item.name.endswith("/Chart.yaml")]
        chart = (archive.extractfile(about) or io.BytesIO()).read().decode()
    digest = hashlib.sha256(made.read_bytes()).hexdigest()
    # The order and the marker between the two documents are Helm's.
    text = f"{chart}\n...\nfiles:\n  {made.name}: sha256:{digest}\n"
    target = made.with_name(f"{made.name}.prov")
    command = ["gpg", "--batch", "--yes", "--local-user", key, "--digest-algo=SHA512", "--clearsign"]
    _run([*command, f"--output={target}"], text)
    return target


def _chosen(chart: Path) -> list[str]:
    """Paths of the files that Helm puts into a package."""
    with tempfile.TemporaryDirectory() as scratch:
        _run([str(find("helm")), "package", str(chart), f"--destination={scratch}"])
        (made,) = Path(scratch).glob("*.tgz")
        with tarfile.open(made) as archive:
            return sorted(name.partition("/")[2] for name in archive.getnames())


def _seconds(chart: Path, version: str) -> int:
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    newest = sections((chart / "CHANGELOG.md").read_text(encoding="utf-8"))[0]
    if newest.version != version:
        raise PackageError(
            f"{chart.name}/Chart.yaml: version is {version}, and the newest section of CHANGELOG.md is "
            f"{newest.version}; write the section of {version}, or correct the version"
        )
    if not given:
        midnight = datetime.datetime.combine(newest.date or _NO_DATE, datetime.time(), datetime.UTC)
        return int(midnight.timestamp())
    if not (given.isascii() and given.isdigit() and int(given) < 2**32):
        raise PackageError(
            f"SOURCE_DATE_EPOCH: {given!r} is not a number of seconds since 1970; correct it or unset it"
        )
    return int(given)


def _tar(files: Mapping[str, bytes], seconds: int) -> bytes:
    """The files in the order of their names, owned by nobody in particular."""
    result = io.BytesIO()
    with tarfile.open(fileobj=result, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(content), seconds, 0o644
            archive.addfile(entry, io.BytesIO(content))
    return result.getvalue()


def _gzip(data: bytes) -> bytes:
    """gzip without compression: what a compressor writes differs between zlib, zlib-ng and their releases."""
    unknown_time, unknown_system = 0, 0xFF
    parts = [struct.pack("<HBBIBB", 0x8B1F, 8, 0, unknown_time, 0, unknown_system)]
    for start in range(0, len(data), _BLOCK):
        block = data[start : start + _BLOCK]
        last = start + _BLOCK >= len(data)
        parts += [struct.pack("<BHH", last, len(block), len(block) ^ 0xFFFF), block]
    parts.append(struct.pack("<II", zlib.crc32(data), len(data) % 2**32))
    return b"".join(parts)


def _run(command: list[str], text: str = "") -> None:
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, encoding="utf-8", timeout=_TIMEOUT_S, check=False
        )
    except FileNotFoundError as error:
        raise PackageError(f"{command[0]} is needed and was not found; install it") from error
    except subprocess.TimeoutExpired as error:
        raise PackageError(f"{command[0]} did not end within {_TIMEOUT_S} s") from error
    if done.returncode:
        raise PackageError(f"{Path(command[0]).name} failed: {done.stderr.strip() or done.stdout.strip()}")
