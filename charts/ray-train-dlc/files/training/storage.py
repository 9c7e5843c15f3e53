"""The run path as a small file store: a folder, or an address such as `s3://bucket/runs/a`, which pyarrow opens.

Names are relative to the run path and use `/`. A written file appears whole or not at all. Key, region and endpoint of
S3 come from the environment, as everywhere with AWS.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
TRIES = 4  # object stores answer some requests with an error under load; pyarrow's own upload is not retried
BLOCK = 16 * 2**20  # bytes
IN_FLIGHT = 4  # blocks of one upload: pyarrow sends parts in the background and would buffer the whole file
READ_AHEAD = 8 * 2**20  # bytes: most tensors of a checkpoint are smaller than what a request of their own costs


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
        if self.remote and "?" in root:
            raise ValueError(
                f"{root} has a part after '?', which names of files below it would end up in; set the endpoint with "
                "AWS_ENDPOINT_URL_S3 (or AWS_ENDPOINT_URL) and the region with AWS_DEFAULT_REGION in the environment"
            )
        if self.remote and (found := sorted({"#", "%"} & set(root))):
            raise ValueError(
                f"{root} holds {' and '.join(found)}, which means something else in an address than in a name; take a "
                "name without"
            )
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
        with self._replacing(name) as stream:
            stream.write(data)

    @contextmanager
    def _replacing(self, name: str) -> Iterator[Any]:
        """A stream at an address whose content becomes the file when the block ends without an error."""
        target = f"{self._base}/{name}"
        if self._fs.type_name != "local":
            with self._fs.open_output_stream(target) as stream:  # an object appears when its upload is complete
                yield stream
            return
        self._fs.create_dir(target.rsplit("/", 1)[0], recursive=True)
        with self._fs.open_output_stream(f"{target}.part") as stream:
            yield stream
        self._fs.move(f"{target}.part", target)

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

    def upload(self, source: Path, name: str, *, tick: Callable[[], None] = lambda: None, tries: int = TRIES) -> None:
        """Copy one local file to the store, and see that all of it is there.

        Args:
            tick: called again and again while bytes go out.
            tries: how often, with growing pauses.

        Raises:
            OSError: the file cannot be read, or the storage fails in every try.
        """
        _retry(lambda: self._upload(source, name, tick), tries)

    def _upload(self, source: Path, name: str, tick: Callable[[], None]) -> None:
        with source.open("rb") as stream, self._replacing(name) as target:
            for number, block in enumerate(iter(lambda: stream.read(BLOCK), b""), 1):
                target.write(block)
                if number % IN_FLIGHT == 0:
                    target.flush()  # waits until what is in flight has arrived
                    tick()
        # Closing after an error of the local disk publishes what was sent until then: pyarrow cannot abort.
        there, here = self._fs.get_file_info(f"{self._base}/{name}").size, source.stat().st_size
        if there != here:
            raise OSError(f"{self.path(name)} has {there} bytes after the upload of {here}")
        tick()

    def download(self, name: str, target: Path) -> None:
        """Copy one file of the store to a local path."""
        target.parent.mkdir(parents=True, exist_ok=True)
        _retry(lambda: self._download(name, target))

    def _download(self, name: str, target: Path) -> None:
        with self._fs.open_input_stream(f"{self._base}/{name}") as source, target.open("wb") as stream:
            shutil.copyfileobj(source, stream, BLOCK)

    def open(self, name: str) -> io.BufferedReader:
        """A file to read in any order.

        Raises:
            OSError: there is none, or the storage fails; reading it raises the same.
        """
        if not self.remote:
            return Path(self._base, name).open("rb")
        return io.BufferedReader(_RemoteFile(self._fs, f"{self._base}/{name}"), READ_AHEAD)


class _RemoteFile(io.RawIOBase):
    """A file at an address; what fails is tried again."""

    def __init__(self, fs: Any, path: str) -> None:
        self._file = _retry(lambda: fs.open_input_file(path))
        self._size: int = self._file.size()
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        length = max(0, min(len(buffer), self._size - self._position))
        data = _retry(lambda: self._file.read_at(length, self._position)) if length else b""
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def _pyarrow_fs() -> Any:
    """pyarrow's file systems; needed for addresses alone, and part of Ray Train's dependencies."""
    return importlib.import_module("pyarrow.fs")


def _retry(action: Callable[[], T], tries: int = TRIES) -> T:
    """Run `action` again after a passing error of the storage, with growing pauses."""
    for attempt in range(tries - 1):
        try:
            return action()
        except (FileNotFoundError, PermissionError):
            raise
        except OSError:
            time.sleep(2**attempt)
    return action()
