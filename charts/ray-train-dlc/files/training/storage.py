"""The run path as a small file store: a folder, or an address such as `s3://bucket/runs/a`, which pyarrow opens.

Names are relative to the run path and use `/`. A written file appears whole or not at all.
"""

from __future__ import annotations

import errno
import importlib
import os
import shutil
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
TRIES = 4  # object stores answer some requests with an error under load; pyarrow's own upload is not retried


def is_full(error: OSError) -> bool:
    """Whether a disk or a quota is full: that passes once somebody makes room, so no later start is refused for it."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


class Storage:
    """Files below one root."""

    def __init__(self, root: str) -> None:
        """Open the store; nothing is written yet.

        Raises:
            OSError, ValueError: the address cannot be opened.
        """
        self.remote = "://" in root
        self._fs: Any = None
        if self.remote:
            self._fs, self._base = _pyarrow_fs().FileSystem.from_uri(root)
            self.root = root.rstrip("/")
        else:
            self.root = self._base = str(Path(root).expanduser().absolute())

    def path(self, name: str = "") -> str:
        """Full path or address of `name`."""
        return f"{self.root}/{name}".rstrip("/")

    def beside(self, other: str) -> Storage:
        """The store of another run: `other` is a path, an address, or a name next to this run."""
        if "://" in other or other.startswith("/"):
            return Storage(other)
        return Storage(f"{self.root.rsplit('/', 1)[0]}/{other}")

    def ray_filesystem(self) -> tuple[Any, str]:
        """(pyarrow filesystem or None, path in it) of the root, in the form that Ray's storage arguments take."""
        return self._fs, self._base

    def read(self, name: str) -> bytes | None:
        """Content of a file, or None when there is none."""
        try:
            if not self.remote:
                return Path(self._base, name).read_bytes()
            return _retry(lambda: self._read_remote(name))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _read_remote(self, name: str) -> bytes:
        with self._fs.open_input_stream(f"{self._base}/{name}") as stream:
            return bytes(stream.readall())

    def write(self, name: str, data: bytes) -> None:
        """Write a file as one whole.

        Raises:
            OSError: the storage refuses.
        """
        if self.remote:
            _retry(lambda: self._write_remote(name, data))
            return
        target = Path(self._base, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}")
        try:
            with part.open("wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)

    def _write_remote(self, name: str, data: bytes) -> None:
        self._make_parent(name)
        # An object appears when its upload is complete; a file system behind an address gets the same by renaming.
        rename = self._fs.type_name == "local"
        written = f"{self._base}/{name}" + (".part" if rename else "")
        with self._fs.open_output_stream(written) as stream:
            stream.write(data)
        if rename:
            self._fs.move(written, f"{self._base}/{name}")

    def _make_parent(self, name: str) -> None:
        if self._fs.type_name == "local":
            self._fs.create_dir(f"{self._base}/{name}".rsplit("/", 1)[0], recursive=True)

    def names(self, folder: str) -> list[str]:
        """Names directly below a folder, sorted; empty when there is no such folder."""
        if not self.remote:
            target = Path(self._base, folder)
            return sorted(p.name for p in target.iterdir()) if target.is_dir() else []
        selector = _pyarrow_fs().FileSelector(f"{self._base}/{folder}", allow_not_found=True)
        return sorted(info.base_name for info in _retry(lambda: self._fs.get_file_info(selector)))

    def files(self, folder: str) -> list[tuple[str, int, float]]:
        """Every file below a folder, however deep, sorted; empty when there is no such folder.

        Returns:
            (name below the folder, size in bytes, time of its last change in seconds since 1970).
        """
        found: list[tuple[str, int, float]] = []
        if not self.remote:
            top = Path(self._base, folder)
            for parent, _, names in os.walk(top):
                for name in names:
                    with suppress(FileNotFoundError):  # a run that goes on removes files meanwhile
                        file = Path(parent, name)
                        about = file.lstat()
                        found.append((file.relative_to(top).as_posix(), about.st_size, about.st_mtime))
            return sorted(found)
        base = f"{self._base}/{folder}".rstrip("/")
        selector = _pyarrow_fs().FileSelector(base, allow_not_found=True, recursive=True)
        for info in _retry(lambda: self._fs.get_file_info(selector)):
            if info.is_file:
                found.append((info.path[len(base) + 1 :], info.size, (info.mtime_ns or 0) / 1e9))
        return sorted(found)

    def delete(self, name: str) -> None:
        """Remove a file or a folder with its content; nothing happens when there is none."""
        if not self.remote:
            target = Path(self._base, name)
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target, ignore_errors=True)
            else:
                target.unlink(missing_ok=True)
            return
        types = _pyarrow_fs().FileType
        path = f"{self._base}/{name}"
        kind = _retry(lambda: self._fs.get_file_info(path)).type
        if kind == types.Directory:
            _retry(lambda: self._fs.delete_dir(path))
        elif kind == types.File:
            _retry(lambda: self._fs.delete_file(path))

    def upload(self, source: Path, name: str) -> None:
        """Copy one local file to the store."""
        _retry(lambda: self._copy(source.open("rb"), self._open_output(name)))

    def download(self, name: str, target: Path) -> None:
        """Copy one file of the store to a local path."""
        target.parent.mkdir(parents=True, exist_ok=True)
        _retry(lambda: self._copy(self._fs.open_input_stream(f"{self._base}/{name}"), target.open("wb")))

    def _open_output(self, name: str) -> Any:
        self._make_parent(name)
        return self._fs.open_output_stream(f"{self._base}/{name}")

    @staticmethod
    def _copy(source: Any, target: Any) -> None:
        with source, target:
            while block := source.read(16 * 2**20):
                target.write(block)


def _pyarrow_fs() -> Any:
    """pyarrow's file systems; needed for addresses alone, and part of Ray Train's dependencies."""
    return importlib.import_module("pyarrow.fs")


def _retry(action: Callable[[], T]) -> T:
    """Run `action` again after a passing error of the storage, with growing pauses."""
    for attempt in range(TRIES - 1):
        try:
            return action()
        except (FileNotFoundError, PermissionError):
            raise
        except OSError:
            time.sleep(2**attempt)
    return action()
